//! I/O that is not whole logical blocks of the drive.

use super::place::{Place, float, int};

/// Of 512-byte sectors: a read, a write and a trim, the second and third not of 4 KiB.
const ODD: &str = "1000 0 80 8 1\n2000 0 83 3 0\n3000 0 4096 8 0\n";
const JOB: &str = "run --name=a --rw=randrw --bs=512 --norandommap --number_ios=400 --size=1g";

/// Nothing rounds direct I/O on files: the file system refuses it, and so do we, before the run.
#[test]
fn direct_io_on_files_has_to_fit_the_blocks() {
    let place = Place::new();
    let job =
        "run --name=a --rw=randread --bs=512 --direct=1 --size=1m --fs ext4 --device cnex-small";
    for align in ["", "--align round"] {
        let done = place.run(&format!("{job} {align}")).fails(2, &["I/O of 512 bytes", "bs=4096"]);
        assert!(!done.err.contains("--align"), "{}", done.err);
    }
    place.run(&format!("{job} --set device.lba=512 --number_ios=100")).ok();
}

#[test]
fn a_trace_of_odd_requests_is_refused_before_the_run() {
    let place = Place::new();
    place.file("odd.trace", ODD);
    let replay = "replay odd.trace --format mqsim --device cnex-small";
    let parts = ["odd.trace:2", "write of 1536 bytes at offset 42496", "4096 bytes"];
    // At once: a drive is not aged for nothing.
    let refused = place.run(&format!("{replay} --precondition steady"));
    let refused = refused.fails(2, &parts);
    assert!(refused.err.contains("--align round") && refused.err.contains("device.lba=512"));
    assert!(refused.out.is_empty() && !refused.err.contains("filled"), "{refused:?}");
    // The same trace from a pipe is found out on the way.
    let piped = place.shell("cat odd.trace | $W replay - --format mqsim --device cnex-small");
    piped.fails(2, &["standard input:2", "--align round", "1 requests before"]);
    // On blocks of 512 bytes it fits, in the drive's firmware and on the host.
    for device in ["--device intel-750-small", "--device cnex-small --set device.lba=512"] {
        let device = format!("{device} --precondition none");
        let done =
            place.run(&format!("replay odd.trace --format mqsim {device} --output-format=json"));
        let json = done.ok().json();
        assert_eq!(int(&json, "/jobs/0/write/io_bytes"), 1536 + 4096, "{device}");
        let of = |key: &str| int(&json, &format!("/wordline/machine/partial_writes/{key}"));
        assert_eq!((of("sectors"), of("read_bytes")), (1, 0), "{device}: nothing was on flash");
        let host = int(&json, "/wordline/machine/write_amplification/host_bytes");
        assert_eq!(host, 1536 + 4096, "{device}");
    }
    let rounded = place.run(&format!("{replay} --align round --output-format=json")).ok();
    let json = rounded.json();
    assert_eq!(int(&json, "/jobs/0/write/io_bytes"), 8192);
    let notes = json["wordline"]["notes"].to_string();
    assert!(notes.contains("1 requests were rounded") && notes.contains("2560 bytes"), "{notes}");
    assert!(json["wordline"]["provenance"]["workload"].to_string().contains("--align=round"));
}

#[test]
fn jobs_are_refused_or_rounded() {
    let place = Place::new();
    let remedies = ["job 'a'", "--align round", "device.lba=512"];
    let cnex = format!("{JOB} --device cnex-small");
    place.run(&cnex).fails(2, &remedies);
    let whole = format!("{cnex} --bs=4k");
    place.run(&format!("{whole} --ba=512")).fails(2, &["blockalign=512"]);
    let trims = place.run(&format!("{cnex} --rw=randtrim --align round"));
    trims.fails(2, &["trims of less clear nothing"]);
    let done = place.run(&format!("{cnex} --align round --output-format=json")).ok();
    let json = done.json();
    assert_eq!(int(&json, "/jobs/0/read/total_ios") + int(&json, "/jobs/0/write/total_ios"), 400);
    assert_eq!(int(&json, "/jobs/0/read/io_bytes"), 4096 * int(&json, "/jobs/0/read/total_ios"));
    assert!(json["wordline"]["notes"].to_string().contains("400 requests were rounded"));
    // A log that a job replays.
    place.file("log", "fio version 2 iolog\n/dev/a add\n/dev/a open\n/dev/a write 4096 4096\n/dev/a read 512 512\n");
    let log = "run --name=a --rw=read --read_iolog=log --device cnex-small";
    place.run(log).fails(2, &["log:5", "read of 512 bytes at offset 512", "--align round"]);
    place.run(&format!("{log} --align round")).ok();
    place.run(&format!("{log} --set device.lba=512")).ok();
    // Pages are whole, whatever the calls were.
    place.run(&format!("{cnex} --ioengine=psync --direct=0 --size=64m --fs ext4")).ok();
}

/// What fio's direct I/O on blocks of 4 KiB gets EINVAL for in the midst of a job is told before the run, with
/// the option that is to blame; what fits is let through, however odd it looks.
#[test]
fn odd_places_of_jobs_are_refused_or_rounded() {
    let place = Place::new();
    let run = |job: &str, more: &str| {
        place.run(&format!(
            "run --name=a --bs=4k {job} --limit=2ms --precondition none --device cnex-small \
             --output-format=json {more}"
        ))
    };
    for (job, what, remedy) in [
        ("--rw=read:1k", "a step of 1024 bytes (rw)", "multiples of 4096"),
        ("--rw=write:-1k", "a step of -1024 bytes (rw)", "multiples of 4096"),
        ("--rw=read --offset=512", "offset=512", "multiples of offset=4096"),
        ("--rw=read --offset=512 --offset_align=4k", "offset=512", "multiples of offset=4096"),
        ("--rw=read --offset=10% --offset_align=1k", "offset=10%", "offset_align=4096"),
        (
            "--rw=randread --offset_increment=3% --offset_align=1k --numjobs=2",
            "offset_increment=3%",
            "offset_align=4096",
        ),
        (
            "--rw=read --offset=8k --offset_increment=1k --numjobs=2",
            "offset_increment=1024",
            "offset_increment=4096",
        ),
        ("--rw=randwrite --bsrange=4k-5k", "I/O of 5120 bytes", "bs=4096"),
        ("--rw=read --bsrange=4k-16k --bs_unaligned", "bs_unaligned", "leave it out"),
        ("--rw=randread --bs=4k,512 --bs_is_seq_rand=1", "I/O of 512 bytes", "bs=4096"),
        (
            "--rw=read --zonemode=strided --zonesize=8k --zonerange=9k --zoneskip=4k",
            "a zone every 13312 bytes",
            "multiples of 4096",
        ),
        ("--rw=read:-4k --offset=4k --size=10000", "the end at 10000", "multiples of size=4096"),
        ("--rw=read:-12k --size=40000", "the end at 40000", "multiples of size=4096"),
    ] {
        let refused = run(job, "").fails(2, &["job 'a'", what, remedy, "--align round"]);
        assert!(refused.out.is_empty() && refused.err.lines().count() == 1, "{refused:?}");
        let json = run(job, "--align round").ok().json();
        let notes = json["wordline"]["notes"].to_string();
        assert!(notes.contains("requests were rounded"), "{job}: {notes}");
        let small = run(job, "--set device.lba=512");
        match job.contains("unaligned") || job.contains("10000") || job.contains("40000") {
            true => drop(small.fails(2, &[what, "blocks of 512 bytes"])),
            false => drop(small.ok()),
        }
    }
    for job in [
        "--rw=read:4k",
        "--rw=read:-4k --size=10000",
        "--rw=randread --size=10000",
        "--rw=read --ba=512",
        "--rw=read --offset=10%",
        "--rw=read --offset_increment=1k",
        "--rw=randread --offset=512 --offset_increment=3% --offset_align=4k",
        "--rw=read --bs=4k,512 --bs_is_seq_rand=1",
        "--rw=randread --nrfiles=3 --size=100001 --offset=10%",
        "--rw=read --zonemode=strided --zonesize=8k --zonerange=9k --zoneskip=3k",
        "--rw=randwrite --bsrange=4k-13k --bssplit=4k/50:12k/50 --bs_unaligned",
    ] {
        let json = run(job, "").ok().json();
        assert_eq!(int(&json, "/jobs/0/error"), 0, "{job}");
    }
}

/// A rounded I/O comes back as what the job asked for: a backlog is read back between the writes.
#[test]
fn rounded_writes_are_verified_in_batches() {
    let place = Place::new();
    let job = "run --name=a --rw=write --bs=512 --size=64k --verify=crc32c --verify_backlog=8 --iodepth=8 \
               --ioengine=libaio --precondition none --device cnex-small --output-format=json";
    let run = |more: &str| {
        let json = place.run(&format!("{job} --write_iolog=log {more}")).ok().json();
        let log = place.text("log");
        let ops: Vec<&str> = log.lines().filter_map(|line| line.split(' ').nth(2)).collect();
        let last = ops.iter().rposition(|op| *op == "write").expect("it writes");
        let between = ops[..last].iter().filter(|op| **op == "read").count();
        let of = |ddir: &str| int(&json, &format!("/jobs/0/{ddir}/total_ios"));
        (of("read"), of("write"), between)
    };
    let (whole, rounded) = (run("--set device.lba=512"), run("--align round"));
    assert_eq!((rounded.0, rounded.1), (whole.0, whole.1));
    for (read, written, between) in [whole, rounded] {
        assert_eq!((read, written), (128, 128));
        assert!((96..128).contains(&between), "{between} reads before the last write");
    }
}

#[test]
fn trims_without_a_whole_block_are_left_out() {
    let place = Place::new();
    let job = "run --name=a --rw=write --bs=512 --size=64k --verify=crc32c --trim_percentage=100 --trim_backlog=1 \
               --precondition none --device cnex-small --output-format=json --align round";
    for engine in ["psync", "libaio --iodepth=8"] {
        let json = place.run(&format!("{job} --ioengine={engine}")).ok().json();
        let of = |key: &str| int(&json, &format!("/jobs/0/{key}"));
        assert_eq!((of("error"), of("trim/total_ios")), (0, 0), "{engine}");
        assert_eq!(of("write/total_ios"), 128, "{engine}");
        let notes = json["wordline"]["notes"].to_string();
        assert!(notes.contains("trims without a whole block were left out"), "{engine}: {notes}");
    }
}

#[test]
fn what_partial_writes_cost_is_reported() {
    let place = Place::new();
    let job = format!(
        "{JOB} --rw=randwrite --iodepth=4 --ioengine=libaio --precondition fill --size=64m"
    );
    for device in
        ["--device intel-750-small --set cache=none", "--device cnex-small --set device.lba=512"]
    {
        let run = |more: &str| place.run(&format!("{job} {device} {more}")).ok();
        let json = run("--output-format=json").json();
        let of = |path: &str| int(&json, &format!("/wordline/machine/{path}"));
        assert_eq!(of("partial_writes/sectors"), 400, "{device}");
        let read = of("partial_writes/read_bytes");
        assert!((350..=400).contains(&(read / 4096)), "{device}: {read}");
        assert_eq!(of("write_amplification/host_bytes"), 400 * 512, "{device}");
        let factor = float(&json, "/wordline/machine/write_amplification/factor_in_bytes");
        // 4 KiB programmed for 512 bytes. What is no whole write unit, of 8 sectors, may wait in the buffer.
        let programmed = factor * 400.0 * 512.0 / 4096.0;
        assert!(programmed >= 392.0, "{device}: {programmed} sectors programmed");
        let text = run("--slowest 3").out;
        for part in
            ["partial writes : 400 sectors", "flash bytes a host byte", "array read, to modify"]
        {
            assert!(text.contains(part), "{device}: no '{part}' in\n{text}");
        }
        let whole = run("--bs=4k").out;
        assert!(!whole.contains("partial writes"), "{whole}");
    }
}

/// Mixes of all lengths through whatever stands between a job and the flash.
#[test]
fn every_path_takes_512_bytes() {
    let place = Place::new();
    let job = "run --name=a --rw=randrw --bsrange=512-1m --bs_unaligned=0 --ba=512 --norandommap --size=256m \
               --number_ios=300 --iodepth=8 --ioengine=libaio --fsync=40 --precondition fill \
               --name=b --rw=write --bs=1536 --ba=512 --size=8m --number_ios=400 --iodepth=16 --ioengine=libaio \
               --iodepth_batch=4 --name=t --rw=randtrim --bsrange=512-256k --ba=512 --size=256m --number_ios=60 \
               --output-format=json";
    for path in [
        "--device intel-750-small",
        "--device z-ssd-small",
        "--device z-ssd-small --set cache.write_back=false --set cache.capacitor=false",
        "--device intel-750-small --set cache=none --set ftl.firmware=none --set ftl.stride=3",
        "--device z-ssd-small --set nand.media=optane",
        "--device z-ssd-small --stack none",
        "--device z-ssd-small --stack spdk",
        "--device z-ssd-small --set stack.scheduler=mq-deadline",
        "--device z-ssd-small --stack nbd-kernel --set stack.nbd.page_cache=false",
        "--device z-ssd-small --stack nbd-spdk",
        "--device cnex-small --set device.lba=512",
        "--device cnex-small --set device.lba=512 --set stack.bio_scheduler=kyber",
        "--device cnex-small --set device.lba=512 --ftl rail",
        "--device intel-750-small --set nand.faults.program_fail_ppb=3000000",
    ] {
        let json = place.run(&format!("{job} {path}")).ok().json();
        let of = |key: &str| int(&json, &format!("/wordline/machine/{key}"));
        assert_eq!(of("generated"), of("served"), "{path}");
        assert!(of("partial_writes/sectors") > 200, "{path}");
        assert_eq!(of("integrity/wrong"), 0, "{path}");
    }
}
