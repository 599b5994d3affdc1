//! fio itself as the oracle: each job runs under the installed fio with a log of its I/Os, and the
//! generator must give the same directions, offsets and lengths in the same order.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // A test may run programs and read files.

mod drawn;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use wordline_base::Ddir;
use wordline_fio::{
    Generator, Io, Job, NoEnv, ParseOptions, Plan, Size, Step, parse_args, parse_file,
};

/// What an oracle's log gives of one I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    ddir: &'static str,
    /// The last number of fio's file name, `a.0.3`.
    file: u64,
    offset: u64,
    len: u64,
}

#[derive(Clone, Copy)]
enum Target {
    /// fio's null engine: the file is as large as the job says, here given in bytes.
    Null(u64),
    /// A real, sparse file of so many bytes under the psync engine.
    File(u64),
}

struct Case {
    job: &'static str,
    target: Target,
}

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;

const fn null(job: &'static str, bytes: u64) -> Case {
    Case { job, target: Target::Null(bytes) }
}
const fn file(job: &'static str, bytes: u64) -> Case {
    Case { job, target: Target::File(bytes) }
}

/// Jobs of one thread. The number is what fio takes as the size of the file.
const SINGLE: &[Case] = &[
    // Sequential, every direction.
    null("--rw=read --bs=4k --size=1m", M),
    null("--rw=write --bs=8k --size=1m", M),
    null("--rw=trim --bs=16k --size=1m", M),
    null("--rw=rw --bs=4k --size=4m", 4 * M),
    null("--rw=rw --bs=4k --size=4m --rwmixread=80", 4 * M),
    null("--rw=readwrite --bs=4k,8k --size=4m --rwmixwrite=70", 4 * M),
    null("--rw=trimwrite --bs=4k --size=1m", M),
    null("--rw=trimwrite --bs=4k --size=1m --fsync=16", M),
    null("--rw=read --bs=4k --size=1000003", 1_000_003),
    null("--rw=read --bs=1000 --size=1m", M),
    null("--rw=read:8k --bs=4k --size=1m", M),
    null("--rw=write:12k --bs=4k --size=1m --io_size=2m", M),
    null("--rw=read:-8k --bs=4k --size=1m --offset=1m", 2 * M),
    null("--rw=read:-8k --bs=4k --size=1m", M),
    null("--rw=read --bs=4kib --size=1m --kb_base=1024", M),
    null("--rw=read --kb_base=1000 --bs=4k --size=1m", 1_000_000),
    // Random, every direction, with the map.
    null("--rw=randread --bs=4k --size=4m", 4 * M),
    null("--rw=randwrite --bs=4k --size=4m", 4 * M),
    null("--rw=randtrim --bs=4k --size=4m", 4 * M),
    null("--rw=randrw --bs=4k --size=4m", 4 * M),
    null("--rw=randrw --bs=4k,16k --size=4m --rwmixread=30", 4 * M),
    null("--rw=randtrimwrite --bs=4k --size=1m", M),
    null("--rw=randread --bs=4k --size=4097k", 4097 * K),
    null("--rw=randread --bs=3000 --size=5000011", 5_000_011),
    null("--rw=randread --bs=512 --size=300k", 300 * K),
    null("--rw=randread --bs=64k --size=64k", 64 * K),
    null("--rw=randread --bs=4k --size=200m --number_ios=3000", 200 * M),
    null("--rw=randwrite --bs=4k --size=1m --loops=3", M),
    null("--rw=randwrite --bs=4k --size=1m --io_size=2600k", M),
    null("--rw=randrw --bs=4k --size=1m --io_size=3m", M),
    null("--rw=randread --bs=4k --size=4m --offset=1m", 5 * M),
    // Without the map.
    null("--rw=randread --bs=4k --size=4m --norandommap", 4 * M),
    null("--rw=randrw --bs=4k --size=4m --norandommap=1 --loops=2", 4 * M),
    null("--rw=randread --bs=4k --size=4m --ba=512", 4 * M),
    null("--rw=randwrite --bs=6k --ba=1k --size=4m", 4 * M),
    null("--rw=randread --bs=4k --size=8t --number_ios=2000 --norandommap", 8 << 40),
    null("--rw=randread --bs=512 --size=8t --number_ios=2000 --norandommap", 8 << 40),
    // Generators.
    null("--rw=randread --bs=4k --size=4m --random_generator=lfsr", 4 * M),
    null("--rw=randwrite --bs=4k --size=5m --random_generator=lfsr --loops=2", 5 * M),
    null("--rw=randrw --bs=4k --size=12345k --random_generator=lfsr --norandommap", 12_345 * K),
    null("--rw=randread --bs=4k --size=4m --random_generator=tausworthe64", 4 * M),
    null("--rw=randrw --bsrange=4k-64k --size=16m --random_generator=tausworthe64", 16 * M),
    // Seeds.
    null("--rw=randread --bs=4k --size=4m --randseed=42", 4 * M),
    null("--rw=randrw --bs=4k --size=4m --randseed=42 --loops=2", 4 * M),
    null("--rw=randrw --bs=4k --size=4m --randrepeat=0 --randseed=4711", 4 * M),
    null("--rw=randrw --bs=4k --size=4m --randrepeat=0 --randseed=0x123456789abc", 4 * M),
    null(
        "--rw=randread --bs=4k --size=4m --randrepeat=0 --randseed=5 --random_generator=tausworthe64",
        4 * M,
    ),
    null("--rw=randrw --bs=4k --size=4m --allrandrepeat=1", 4 * M),
    null("--rw=randrw --bsrange=4k-32k --size=4m --allrandrepeat=1 --randseed=9", 4 * M),
    // Distributions.
    null("--rw=randread --bs=4k --size=64m --random_distribution=zipf", 64 * M),
    null("--rw=randread --bs=4k --size=64m --random_distribution=zipf:0.8", 64 * M),
    null("--rw=randwrite --bs=8k --size=64m --random_distribution=zipf:1.3:0.25", 64 * M),
    null("--rw=randread --bs=4k --size=64m --random_distribution=pareto", 64 * M),
    null("--rw=randread --bs=4k --size=64m --random_distribution=pareto:0.9:0.5", 64 * M),
    null("--rw=randread --bs=4k --size=64m --random_distribution=normal:20", 64 * M),
    null("--rw=randread --bs=4k --size=64m --random_distribution=normal:5:0.2", 64 * M),
    null(
        "--rw=randread --bs=4k --size=64m --random_distribution=zoned:60/10:30/20:8/30:2/40 --io_size=8m",
        64 * M,
    ),
    null(
        "--rw=randrw --bs=4k --size=64m --random_distribution=zoned:50/5:30/15:20/ --io_size=8m",
        64 * M,
    ),
    null(
        "--rw=randread --bs=4k --size=64m --random_distribution=zoned_abs:95/10m:5/50m --io_size=8m",
        64 * M,
    ),
    null(
        "--rw=randread --bs=4k --size=16m --random_distribution=pareto:0.9:0.5 --randseed=7",
        16 * M,
    ),
    null(
        "--rw=randread --bs=4k --size=16m --random_distribution=normal:9 --randrepeat=0 --randseed=7",
        16 * M,
    ),
    null("--rw=randrw --bs=4k,8k --size=16m --random_distribution=zipf:1.4 --loops=2", 16 * M),
    // Several files, one after another on the drive.
    null("--rw=read --bs=4k --size=1m --nrfiles=4", M),
    null("--rw=randrw --bs=4k --size=4m --nrfiles=4 --file_service_type=random", 4 * M),
    null("--rw=randread --bs=4k --size=4m --nrfiles=8 --file_service_type=random:5", 4 * M),
    null("--rw=write --bs=4k --size=2m --nrfiles=4 --file_service_type=sequential", 2 * M),
    null(
        "--rw=randwrite --bs=4k --size=2m --nrfiles=4 --file_service_type=roundrobin:3 --fsync=7",
        2 * M,
    ),
    null("--rw=read --bs=4k --size=2m --nrfiles=8 --openfiles=3", 2 * M),
    null("--rw=write --bs=4k --filesize=12k --nrfiles=50 --openfiles=1", 50 * 12 * K),
    null("--rw=randrw --bs=4k --filesize=64k --nrfiles=20 --openfiles=3", 20 * 64 * K),
    null(
        "--rw=randread --bs=4k --filesize=64k --nrfiles=20 --openfiles=2 --file_service_type=random:3",
        20 * 64 * K,
    ),
    null(
        "--rw=randread --bs=4k --size=2m --nrfiles=4 --file_service_type=zipf:1.1 --number_ios=400",
        2 * M,
    ),
    null(
        "--rw=randread --bs=4k --size=2m --nrfiles=4 --file_service_type=normal:10 --number_ios=400",
        2 * M,
    ),
    null("--rw=read --bs=4k --filesize=256k --nrfiles=4", M),
    // Mixes of random and sequential.
    null("--rw=randread --bs=4k --size=4m --percentage_random=50", 4 * M),
    null("--rw=randrw --bs=4k --size=4m --percentage_random=30,80", 4 * M),
    null("--rw=randread --bs=4k --size=4m --percentage_random=0", 4 * M),
    null("--rw=randrw --bs=4k,64k --bs_is_seq_rand=1 --percentage_random=40 --size=8m", 8 * M),
    null("--rw=randread:8 --bs=4k --size=4m", 4 * M),
    null("--rw=randrw:4 --bs=4k --size=4m", 4 * M),
    null("--rw=randread:8 --rw_sequencer=identical --bs=4k --size=1m", M),
    null("--rw=randwrite:5 --bs=4k --size=1m --norandommap", M),
    // Lengths.
    null("--rw=randread --bsrange=4k-64k --size=16m", 16 * M),
    null("--rw=write --bsrange=1k-16k --size=16m", 16 * M),
    null("--rw=randrw --bsrange=4k-16k,8k-32k --size=16m", 16 * M),
    null("--rw=randread --bsrange=3k-50k --size=16m", 16 * M),
    null("--rw=randread --bsrange=4k-64k --bs_unaligned --size=16m", 16 * M),
    null("--rw=randread --bssplit=4k/50:8k/30:64k/20 --size=16m", 16 * M),
    null("--rw=randwrite --bssplit=4k/10:8k:16k: --size=16m", 16 * M),
    null("--rw=randrw --bssplit=4k/60:32k/40,8k/90:16k/10 --size=16m --norandommap", 16 * M),
    null("--rw=randtrimwrite --bssplit=4k/50:16k/50 --size=2m", 2 * M),
    null("--rw=read --bssplit=512/20:4k/80 --size=3m --loops=2", 3 * M),
    // Syncs.
    null("--rw=write --bs=4k --size=1m --fsync=8", M),
    null("--rw=randwrite --bs=4k --size=1m --fdatasync=5", M),
    null("--rw=randwrite --bs=4k --size=1m --fsync=6 --fdatasync=4", M),
    null("--rw=randrw --bs=4k --size=1m --fsync=3", M),
    null("--rw=write --bs=4k --size=256k --fsync=4 --end_fsync=1 --loops=2", 256 * K),
    null("--rw=write --bs=4k --size=256k --end_fsync=1", 256 * K),
    null("--rw=write --bs=4k --size=256k --fsync_on_close=1 --loops=2", 256 * K),
    null("--rw=write --bs=4k --size=256k --sync_file_range=write:8", 256 * K),
    // How much.
    null("--rw=read --bs=4k --size=1m --io_size=2500k", M),
    null("--rw=rw --bs=4k --size=1m --io_size=3m", M),
    null("--rw=read --bs=4k --size=8m --io_size=1m", 8 * M),
    null("--rw=read --bs=4k --size=1m --loops=3", M),
    null("--rw=rw --bs=4k --size=1m --number_ios=100 --loops=2", M),
    null("--rw=trimwrite --bs=4k --size=1m --number_ios=50", M),
    null("--rw=write --bs=4k --size=1m --offset=1028k", 2 * M + 4 * K),
    null("--rw=read --bs=4k --size=1m --create_only=1", M),
    null("--rw=randread --bs=4k --size=1m --time_based --runtime=1 --rate_iops=1000", M),
    null("--rw=read --bs=4k --size=1m --time_based --runtime=1 --rate_iops=1000", M),
    null(
        "--rw=randread --bs=4k --size=1m --random_generator=lfsr --time_based --runtime=1 --rate_iops=1000",
        M,
    ),
    null("--rw=randwrite --bsrange=4k-32k --size=1m --time_based --runtime=1 --rate_iops=1000", M),
    // Zones.
    null("--rw=read --bs=4k --size=8m --zonemode=strided --zonesize=256k --zoneskip=768k", 8 * M),
    null(
        "--rw=randread --bs=4k --size=8m --zonemode=strided --zonesize=128k --zonerange=1m --zoneskip=0",
        8 * M,
    ),
    null(
        "--rw=randwrite --bs=4k --size=8m --zonemode=strided --zonesize=512k --zonerange=256k --zoneskip=256k --io_size=4m",
        8 * M,
    ),
    null("--rw=write --bs=16k --size=4m --zonemode=strided --zonesize=1m --zonerange=512k", 4 * M),
    // Asynchronous engines: fio stops a pass by the bytes it queued.
    null(
        "--rw=randread --bs=4k --size=4m --norandommap --iodepth=16 --iodepth_batch=16 --loops=2",
        4 * M,
    ),
    null(
        "--rw=randwrite --bs=4k --size=1m --norandommap --io_size=3m --iodepth=8 --iodepth_batch=8",
        M,
    ),
    null("--rw=rw --bs=4k --size=1m --io_size=3m --iodepth=8 --iodepth_batch=8", M),
    null(
        "--rw=randrw --bs=4k --size=1m --io_size=3m --iodepth=4 --iodepth_batch=4 --norandommap",
        M,
    ),
    null("--rw=randread --bs=4k --size=4m --iodepth=4 --iodepth_batch=4 --loops=2", 4 * M),
    null("--rw=trimwrite --bs=4k --size=1m --iodepth=4 --iodepth_batch=4", M),
    null(
        "--rw=read --bs=4k --size=777k --nrfiles=3 --file_service_type=normal:20 --number_ios=90 \
         --iodepth=16 --iodepth_batch=16",
        777 * K,
    ),
    // Files of lengths that no sector divides.
    null("--rw=read --bs=4k --size=1000003 --nrfiles=3", 1_000_003),
    null("--rw=randrw --bs=512 --size=1000003 --nrfiles=7 --verify=md5", 1_000_003),
    // Read back by verify=: in the order written with a random map, else sorted.
    null("--rw=write --bs=4k --size=1m --verify=crc32c", M),
    null("--rw=randwrite --bs=4k --size=1m --verify=md5 --loops=2", M),
    null("--rw=randwrite --bs=4k --size=1m --verify=md5 --norandommap --loops=2", M),
    null("--rw=randwrite --bsrange=4k-16k --size=1m --verify=md5 --norandommap", M),
    null("--rw=randrw --bsrange=4k-16k --size=1m --verify=sha1 --io_size=2m", M),
    null("--rw=read --bs=4k --size=1m --verify=crc32c --loops=3", M),
    null("--rw=randwrite --bs=4k --size=1m --verify_pattern=0xff", M),
    null("--rw=write --bs=4k --size=1m --verify=md5 --do_verify=0 --io_size=3m", M),
    null("--rw=randwrite --bs=4k --size=1m --verify=md5 --random_generator=lfsr", M),
    null("--rw=randwrite --bs=4k --size=1m --verify=md5 --random_distribution=zipf:1.2", M),
    null("--rw=write --bs=4k --size=1m --nrfiles=3 --verify=md5", M),
    null("--rw=randwrite --bs=4k --size=1m --nrfiles=4 --verify=md5 --verify_backlog=5", M),
    null("--rw=write --bs=4k --size=1m --verify=md5 --verify_backlog=16", M),
    null("--rw=randwrite --bs=4k --size=1m --verify=md5 --norandommap --verify_backlog=8", M),
    null(
        "--rw=randrw --bs=4k --size=1m --verify=md5 --verify_backlog=9 --verify_backlog_batch=4",
        M,
    ),
    null(
        "--rw=write --bs=4k --size=1m --verify=md5 --verify_backlog=3 --verify_backlog_batch=8",
        M,
    ),
    null(
        "--rw=write --bs=4k --size=1m --verify=md5 --verify_backlog=7 --fsync=5 --number_ios=100",
        M,
    ),
    null("--rw=write --bs=4k --size=1m --verify=md5 --iodepth=8 --iodepth_batch=8 --loops=2", M),
    null(
        "--rw=randwrite --bs=4k --size=1m --verify=md5 --verify_backlog=12 --iodepth=8 --iodepth_batch=8",
        M,
    ),
    null("--rw=write --bs=4k --size=1m --verify=md5 --verify_only --loops=2", M),
    null("--rw=randrw --bs=4k --size=1m --verify=md5 --verify_only", M),
    null("--rw=trimwrite --bs=4k --size=256k --verify=md5 --loops=2", M / 4),
    null("--rw=write --bs=4k --size=256k --verify=md5 --experimental_verify=1 --loops=2", M / 4),
    null("--rw=randrw --bs=4k --size=256k --verify=md5 --experimental_verify=1", M / 4),
    null("--rw=randtrim --bs=4k --size=256k --verify=md5 --experimental_verify=1", M / 4),
    null(
        "--rw=trimwrite --bs=4k --size=256k --verify=md5 --trim_percentage=50 --trim_backlog=4",
        M / 4,
    ),
    null(
        "--rw=trimwrite --bs=4k --size=256k --verify=md5 --trim_percentage=50 --trim_backlog=4 \
         --trim_verify_zero=0 --trim_backlog_batch=2 --verify_backlog=6",
        M / 4,
    ),
    null("--rw=randwrite --bs=4k --size=256k --verify=md5 --trim_percentage=50", M / 4),
    // A real file: shares of it, alignment, a job smaller and larger than it.
    file("--rw=randread --bs=4k --size=50%", 16 * M),
    file("--rw=read --bs=4k --size=30% --offset=10%", 16 * M + 5_000),
    file("--rw=randread --bs=4k --offset=33% --offset_align=64k", 16 * M),
    file("--rw=randread --bs=4k", 16 * M),
    file("--rw=read --bs=64k --offset=1m", 16 * M + 4 * K),
    file("--rw=randrw --bs=4k --size=4m --offset=8m", 16 * M),
    file("--rw=read:-4k --bs=4k --size=1m --offset=2m", 16 * M),
    file("--rw=read:16k --bs=4k --size=2m", 16 * M),
    file("--rw=randread --bs=4k --io_size=50%", 4 * M),
    file("--rw=randread --bs=4k --io_size=100%", 4 * M),
    file("--rw=randread --bs=4k --filesize=2m", 2 * M),
    file("--rw=randread --bs=4k --percentage_random=70 --size=2m --offset=1m", 16 * M),
];

/// Jobs of several threads: fio's latency logs name offsets by thread. Every thread's file is as
/// large as the job says, from its own start on.
const THREADS: &[Case] = &[
    null("--rw=randread --bs=4k --size=2m --numjobs=3", 2 * M),
    null("--rw=read --bs=4k --size=1m --numjobs=4 --offset_increment=1m", 16 * M),
    null(
        "--rw=randrw --bsrange=4k-16k --size=2m --numjobs=3 --offset_increment=3m --offset=1m",
        64 * M,
    ),
    null("--rw=randread --bs=4k --size=16m --numjobs=2 --random_distribution=zipf:1.1", 16 * M),
    null("--rw=randwrite --bs=4k --size=2m --numjobs=2 --random_generator=lfsr", 2 * M),
    // Clones heed a seed that the first job does not.
    null("--rw=randread --bs=4k --size=2m --numjobs=8 --randseed=7", 2 * M),
    null("--rw=randrw --bs=4k --size=2m --numjobs=3 --randseed=7 --random_generator=lfsr", 2 * M),
    null("--rw=randwrite --bs=4k --size=1m --numjobs=3 --randseed=9 --verify=md5", M),
    null("--name=b --rw=randread --bs=4k --size=1m --name=c --rw=randwrite --bs=8k --size=1m", M),
];

/// A job file with several sections: each logs by itself. `@` stands for the place of the options
/// that the test adds to each section.
const FILES: &[(&str, u64)] = &[
    (
        "; comment\n[global]\nsize=1m\nbs=4k # blocks\n[one]\nrw=randread\n@\n[two]\nstonewall\nrw=randwrite\nbs=8k\n@\n[global]\nsize=2m\n[three]\nrw=randrw\n@\n",
        2 * M,
    ),
    (
        "[global]\nkb_base=1000\nbs=1k\nsize=1m\nrandseed=7\nrandrepeat=0\n[a]\nrw=randrw\n@\n[b]\nnumjobs=1\nrw=randread\nrandom_distribution=pareto:0.3\n@\n",
        1_000_000,
    ),
];

const FILE_NAME: &str = "x";
/// Of `--filename=` with several files.
const NAMES: &str = "p:q:r";
const HANGS: &str = "fio does not end";

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("wordline-fio-{}-{name}", std::process::id()));
    fs::create_dir_all(&dir).expect("a scratch directory");
    dir
}

fn fio(dir: &Path, args: &[String]) -> Result<(), String> {
    // Some jobs keep fio busy for ever; as threads its jobs end with it.
    let output = Command::new("timeout")
        .args(["--signal=KILL", "6", "fio", "--thread", "--disk_util=0"])
        .args(args)
        .current_dir(dir)
        .output()
        .map_err(|e| format!("cannot run timeout, of coreutils: {e}"))?;
    if output.status.code() == Some(127) {
        return Err("the oracle is missing, install it with: apt-get install fio".to_string());
    }
    if output.status.code().is_none_or(|code| code == 137) {
        return Err(HANGS.to_string());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    if output.status.success() { Ok(()) } else { Err(format!("fio {args:?}: {text}")) }
}

fn name_of(word: &str) -> Option<&'static str> {
    ["read", "write", "trim", "sync", "datasync", "sync_file_range"]
        .into_iter()
        .find(|w| *w == word)
}

/// Reads fio's iolog, version 3: `time file action offset length`.
fn read_iolog(path: &Path) -> Vec<Entry> {
    let text = fs::read_to_string(path).expect("fio wrote its iolog");
    text.lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let ddir = name_of(fields.get(2)?)?;
            let number = |i: usize| fields.get(i).and_then(|f| f.parse::<u64>().ok());
            let number_of_name =
                || NAMES.split(':').position(|n| n == fields[1]).unwrap_or(0) as u64;
            let last = fields[1].rsplit('.').next().and_then(|n| n.parse().ok());
            let file = last.unwrap_or_else(number_of_name);
            Some(Entry { ddir, file, offset: number(3)?, len: number(4)? })
        })
        .collect()
}

/// Reads fio's latency log: `time, latency, direction, length, offset, priority`.
fn read_lat_log(path: &Path) -> Vec<Entry> {
    // A thread without an I/O writes none.
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .map(|line| {
            let fields: Vec<u64> = line.split(',').map_while(|f| f.trim().parse().ok()).collect();
            let ddir = ["read", "write", "trim"][fields[2] as usize];
            Entry { ddir, file: 0, offset: fields[4], len: fields[3] }
        })
        .collect()
}

/// The null engine at depth, with as many submitted at once: it takes no I/O before what it was given
/// is reaped, and fio counts what is queued on over a pass that ended early.
#[derive(Default)]
struct NullEngine {
    queued: Vec<Io>,
    events: Vec<Io>,
    fio_queued: usize,
}

impl NullEngine {
    fn in_flight(&self) -> usize {
        self.queued.len() + self.events.len()
    }
    fn commit(&mut self) {
        if self.events.is_empty() {
            self.events.append(&mut self.queued);
        }
    }
    fn reap(&mut self, generator: &mut Generator) {
        self.commit();
        for io in self.events.drain(..) {
            generator.completed(io.ddir, io.offset, io.len, true);
        }
    }
    /// False: it was busy, and fio asked twice.
    fn queue(&mut self, io: Io, depth: usize, generator: &mut Generator) -> bool {
        let busy = !self.events.is_empty();
        if busy {
            self.fio_queued = 0;
            self.reap(generator);
        }
        self.queued.push(io);
        self.fio_queued += 1;
        if self.fio_queued >= depth {
            self.commit();
            self.fio_queued = 0;
        }
        if self.in_flight() == depth {
            self.reap(generator);
        }
        !busy
    }
}

/// What the generator gives, as the null engine completes it. Offsets count from the start of their
/// file. An iolog names an I/O again that the engine was too busy for.
fn entries(generator: &mut Generator, job: &Job, most: usize, iolog: bool) -> Vec<Entry> {
    let depth = if job.is_sync() { 1 } else { job.iodepth as usize };
    let mut out = Vec::new();
    let mut engine = NullEngine::default();
    while out.len() < most {
        let io = match generator.step(engine.in_flight() as u32) {
            Step::Io(io) => io,
            Step::Drain | Step::ReapAll => {
                engine.reap(generator);
                continue;
            }
            Step::Wait(_) => unreachable!("no job here has a rate of its own"),
            Step::Done => break,
        };
        let ddir = match io.ddir {
            Ddir::DataSync if io.range_only => "sync_file_range",
            other => other.name(),
        };
        let offset = io.offset.saturating_sub(generator.region(io.file).0);
        let entry = Entry { ddir, file: u64::from(io.file), offset, len: io.len };
        out.push(entry);
        // The syncs at the end of a pass are calls of their own.
        if io.closing {
            engine.fio_queued = 0;
        }
        if depth > 1 && !io.closing && !engine.queue(io, depth, generator) && iolog {
            out.push(entry);
        }
    }
    out
}

/// What a latency log names: no syncs, and no file.
fn of_data(entries: Vec<Entry>) -> Vec<Entry> {
    let data = entries.into_iter().filter(|e| !e.ddir.contains("sync"));
    data.map(|e| Entry { file: 0, ..e }).collect()
}

/// Compares; a sync's offset is what the I/O slot held before and says nothing.
fn compare(ours: &[Entry], theirs: &[Entry], cut: bool) -> Result<usize, String> {
    let key = |e: &Entry| {
        if e.ddir.contains("sync") {
            (e.ddir, e.file, 0, 0)
        } else {
            (e.ddir, e.file, e.offset, e.len)
        }
    };
    let same = ours.iter().zip(theirs).take_while(|(a, b)| key(a) == key(b)).count();
    if same < ours.len().min(theirs.len()) || (!cut && ours.len() != theirs.len()) {
        return Err(format!(
            "differ at I/O {same} of {} (fio {}):\n  before {:?}\n  ours   {:?}\n  fio    {:?}",
            ours.len(),
            theirs.len(),
            &ours[same.saturating_sub(3)..same],
            &ours[same..(same + 4).min(ours.len())],
            &theirs[same..(same + 4).min(theirs.len())],
        ));
    }
    Ok(same)
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(String::from).collect()
}

fn plan_of(args: &[String]) -> Result<Plan, String> {
    parse_args(args, &ParseOptions::default(), &mut NoEnv).map_err(|e| e.to_string())
}

fn run_single(case: &Case, dir: &Path) -> Result<usize, String> {
    let mut args = words("--name=a --randrepeat=1");
    args.extend(words(case.job));
    let bytes = match case.target {
        Target::Null(bytes) => {
            args.push("--ioengine=null".to_string());
            if !case.job.contains("nrfiles") {
                args.push("--filename=x".to_string());
            }
            bytes
        }
        Target::File(bytes) => {
            let data = dir.join(FILE_NAME);
            fs::File::create(&data).and_then(|f| f.set_len(bytes)).expect("a sparse file");
            args.extend(words("--ioengine=psync --filename=x"));
            bytes
        }
    };
    let plan = plan_of(&args)?;
    args.extend(words("--write_iolog=log --output=/dev/null"));
    fio(dir, &args)?;
    let theirs = read_iolog(&dir.join("log"));
    let thread = plan.threads()[0];
    // Several files begin at sectors: their lengths are the job's, whatever holds them.
    let bytes = if plan.jobs[0].file_count() > 1 { bytes + M } else { bytes };
    let mut generator =
        Generator::new(&plan.jobs[0], &thread, bytes, 0).map_err(|e| e.to_string())?;
    let cut = plan.jobs[0].time_based;
    let most = if cut { theirs.len() } else { theirs.len() + 10 };
    let ours = entries(&mut generator, &plan.jobs[0], most, true);
    compare(&ours, &theirs, cut)
}

fn run_threads(case: &Case, dir: &Path) -> Result<usize, String> {
    let Target::Null(bytes) = case.target else { return Err("null jobs only".to_string()) };
    let mut args = words("--ioengine=null");
    if !case.job.contains("--name") {
        args.push("--name=a".to_string());
    }
    args.extend(words(case.job));
    let plan = plan_of(&args)?;
    let mut with_logs =
        words("--write_lat_log=lat --log_offset=1 --disable_slat=1 --disable_clat=1");
    with_logs.extend(args);
    with_logs.push("--output=/dev/null".to_string());
    fio(dir, &with_logs)?;
    let mut total = 0;
    for thread in plan.threads() {
        let theirs = read_lat_log(&dir.join(format!("lat_lat.{}.log", thread.thread_number)));
        let job = &plan.jobs[thread.job];
        let mut generator = Generator::new(job, &thread, bytes, 0).map_err(|e| e.to_string())?;
        let ours = entries(&mut generator, job, theirs.len() + 10, false);
        total += compare(&of_data(ours), &theirs, false)
            .map_err(|e| format!("thread {}: {e}", thread.thread_number))?;
    }
    Ok(total)
}

fn run_file(text: &str, bytes: u64, dir: &Path) -> Result<usize, String> {
    let bare = text.replace('@', "");
    let plan = parse_file("job.fio", &bare, &ParseOptions::default(), &mut NoEnv)
        .map_err(|e| e.to_string())?;
    let mut logged = String::new();
    for (i, part) in text.split('@').enumerate() {
        let more = text.matches('@').count() > i;
        let extra =
            if more { format!("ioengine=null\nwrite_iolog=log{i}\n") } else { String::new() };
        write!(logged, "{part}{extra}").expect("a string grows");
    }
    fs::write(dir.join("job.fio"), logged).expect("the job file");
    fio(dir, &words("job.fio --output=/dev/null"))?;
    let mut total = 0;
    for (i, thread) in plan.threads().iter().enumerate() {
        let theirs = read_iolog(&dir.join(format!("log{i}")));
        let job = &plan.jobs[thread.job];
        let mut generator = Generator::new(job, thread, bytes, 0).map_err(|e| e.to_string())?;
        let ours = entries(&mut generator, job, theirs.len() + 10, true);
        total += compare(&ours, &theirs, false).map_err(|e| format!("job {}: {e}", job.name))?;
    }
    Ok(total)
}

/// Runs all cases on a few threads and reports every failure at once.
fn run_all(tag: &str, count: usize, run: impl Fn(usize, &Path) -> Result<usize, String> + Sync) {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let ios = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= count {
                        return;
                    }
                    let dir = scratch(&format!("{tag}-{i}"));
                    match run(i, &dir) {
                        Ok(n) => drop(ios.fetch_add(n, Ordering::Relaxed)),
                        Err(e) => failures.lock().expect("no panic holds it").push(e),
                    }
                    fs::remove_dir_all(&dir).ok();
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic holds it");
    println!("{tag}: {count} jobs, {} I/Os equal to fio's", ios.into_inner());
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn single_threads_match_fio() {
    run_all("single", SINGLE.len(), |i, dir| {
        run_single(&SINGLE[i], dir).map_err(|e| format!("{}: {e}", SINGLE[i].job))
    });
}

#[test]
fn clones_and_several_jobs_match_fio() {
    run_all("threads", THREADS.len(), |i, dir| {
        run_threads(&THREADS[i], dir).map_err(|e| format!("{}: {e}", THREADS[i].job))
    });
}

#[test]
fn job_files_match_fio() {
    run_all("files", FILES.len(), |i, dir| {
        run_file(FILES[i].0, FILES[i].1, dir).map_err(|e| format!("{:?}: {e}", FILES[i].0))
    });
}

/// Priorities of single I/Os, which only the asynchronous engines draw.
const PRIORITIES: &[&str] = &[
    "--rw=randread --bs=4k --size=2m --cmdprio_percentage=40",
    "--rw=randrw --bs=4k --size=2m --cmdprio_percentage=30,70 --cmdprio_class=2 --cmdprio=3,5",
    "--rw=randread --bssplit=4k/50:8k/50 --size=2m --cmdprio_bssplit=4k/50:8k/20/2/4:8k/30/3/0",
    "--rw=randread --bs=4k --size=2m --randrepeat=0 --randseed=99 --cmdprio_percentage=10",
    "--rw=randread --bs=4k --size=2m --cmdprio_bssplit=4k/50/0/3 --prio=6",
    "--rw=randread --bs=4k --size=1m --prio=3",
    "--rw=randread --bs=4k --size=1m --prioclass=0",
    "--rw=randread --bs=4k --size=1m --prio=5 --prioclass=3",
];

#[test]
fn priorities_match_fio() {
    run_all("priorities", PRIORITIES.len(), |i, dir| {
        let mut args = words("--name=a --ioengine=libaio --filename=x");
        args.extend(words(PRIORITIES[i]));
        let data = dir.join(FILE_NAME);
        fs::File::create(&data).and_then(|f| f.set_len(2 * M)).expect("a sparse file");
        let plan = plan_of(&args)?;
        args.extend(words(
            "--write_lat_log=lat --log_offset=1 --log_prio=1 --disable_slat=1 --disable_clat=1 --output=/dev/null",
        ));
        fio(dir, &args)?;
        let text = fs::read_to_string(dir.join("lat_lat.1.log")).expect("fio wrote its log");
        let mut generator = Generator::new(&plan.jobs[0], &plan.threads()[0], 2 * M, 0)
            .map_err(|e| e.to_string())?;
        for (n, line) in text.lines().enumerate() {
            let io = generator.next().ok_or_else(|| format!("ends at {n}"))?;
            let ours = format!(
                "{}, {}, {}, 0x{:04x}",
                io.ddir as u32,
                io.len,
                io.offset,
                io.prio.ioprio()
            );
            if !line.ends_with(&ours) {
                return Err(format!("{}: I/O {n}: ours {ours}, fio {line}", PRIORITIES[i]));
            }
        }
        Ok(text.lines().count())
    });
}

/// Every option that fio lists is in the table, under the same alias.
#[test]
fn the_table_lists_what_fio_lists() {
    let help = Command::new("fio")
        .arg("--cmdhelp=all")
        .output()
        .unwrap_or_else(|e| panic!("cannot run fio: {e}: install it with: apt-get install fio"));
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let missing: Vec<&str> = help
        .lines()
        .filter_map(|line| line.split_once(':').map(|(name, _)| name.trim()))
        .filter(|name| wordline_fio::options::find(name).is_none())
        .collect();
    assert!(help.lines().count() > 200, "{help}");
    assert!(missing.is_empty(), "missing: {missing:?}");
}
