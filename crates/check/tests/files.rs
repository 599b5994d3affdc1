//! Files and network block devices over everything they can stand on: each run ends, its reads return
//! the newest write, its lives sum up, and each core's time is that of the functions it ran.

use wordline_base::Layer;
use wordline_check::{Age, Case, Outcome};
use wordline_sim::Ended;

const JOBS: &str = "
[global]
directory=/mnt
bs=4k
[make]
rw=write
nrfiles=60
filesize=4k-24k
create_on_open=1
openfiles=1
file_service_type=sequential
fsync=5
[past]
rw=randrw
direct=1
size=1m
iodepth=8
number_ios=300
fdatasync=40
[again]
stonewall
rw=randread
size=1m
filename=past.0.0
iodepth=4
number_ios=200
";

fn counter(o: &Outcome, name: &str) -> u64 {
    o.result.machine.totals.counters.iter().find(|(n, _)| n == name).map_or(0, |(_, n)| *n)
}

/// What every run must be.
fn sound(what: &str, o: &Outcome) {
    let m = &o.result.machine;
    assert_eq!(o.result.ended, Ended::Complete, "{what}");
    assert_eq!((m.generated, m.totals.integrity.wrong), (m.served, 0), "{what}");
    assert!(o.result.threads.iter().all(|t| t.error == 0), "{what}");
    for table in &m.layers {
        let (sum, all) = (table.mean_by_layer_ns.iter().sum::<f64>(), table.mean_ns);
        assert!((sum - all).abs() < 1e-6 * all.max(1.0), "{what}: {sum} of {all}");
    }
}

/// Busy nanoseconds of the cores, and of the functions.
fn busy(o: &Outcome) -> (f64, f64) {
    let m = &o.result.machine;
    let shares: f64 = m.cores.iter().map(|c| c.user + c.system + c.interrupt).sum();
    let named: u64 = m.host.iter().flat_map(|h| &h.functions).map(|f| f.ns).sum();
    (shares * m.simulated_ns as f64, named as f64)
}

fn files<'a>(device: &'a str, stack: &'a str, engine: &str, jobs: &'a str) -> Case<'a> {
    assert!(jobs.contains(engine), "{engine} is of the text");
    Case::new(device, jobs).stack(stack).age(Age::Filled).fs("ext4").set("fs.memory=4_000_000")
}

#[test]
fn files_are_on_every_engine_of_the_kernel_and_on_pblk() {
    for engine in ["pvsync2", "libaio", "io_uring"] {
        let jobs = JOBS.replace("[global]", &format!("[global]\nioengine={engine}"));
        for device in ["intel-750-small", "cnex-small"] {
            for fs in ["ext4", "xfs"] {
                let what = format!("{engine} {device} {fs}");
                let o = files(device, "linux-libaio", engine, &jobs).fs(fs).run().unwrap();
                sound(&what, &o);
                assert!(counter(&o, "fs.creates") >= 60, "{what}");
                let (busy, named) = busy(&o);
                // What runs when the run ends is counted with its calls.
                assert!((named / busy - 1.0).abs() < 1e-3, "{what}: {named} of {busy}");
            }
        }
    }
}

/// A direct write drops the pages on its place when it is back. One of them may be on its way from the drive for
/// another's read ahead: the write then waits for that, whoever reads.
#[test]
fn direct_writes_end_beside_pages_that_are_read_ahead() {
    for reader in ["pvsync2", "libaio", "io_uring"] {
        for writer in ["pvsync2", "libaio", "io_uring"] {
            for (offset, len) in [(0, "64k"), (0, "256k"), (64, "64k"), (128, "1m")] {
                let jobs = format!(
                    "[global]\nsize=32m\n[lc]\nioengine={reader}\nrw=read\nbs=4k\nnumber_ios=200\n\
                     [th]\nioengine={writer}\nrw=write\nbs={len}\noffset={offset}k\nnumber_ios=4\n\
                     direct=1\niodepth=2\n"
                );
                let what = format!("{reader} beside {writer}, {len} from {offset} KiB on");
                let case = Case::new("z-ssd-small", &jobs).stack("linux-libaio");
                let o = case.age(Age::Filled).fs("bdev").run().unwrap();
                sound(&what, &o);
            }
        }
    }
}

/// A write through pages with O_DSYNC ends in the call that submits it, its flush too (generic_write_sync): one thread has
/// no more of them with a deeper queue.
#[test]
fn synchronous_writes_through_pages_end_in_their_call() {
    for fs in ["ext4", "xfs", "bdev"] {
        for engine in ["libaio", "io_uring"] {
            let took = |depth: u32| {
                let jobs = format!(
                    "[j]\nioengine={engine}\nrw=randwrite\nbs=4k\nsize=8m\noverwrite=1\nsync=dsync\n\
                     iodepth={depth}\nnumber_ios=300\n"
                );
                let case = Case::new("z-ssd-small", &jobs).stack("linux-libaio").age(Age::Filled);
                let o = case.fs(fs).set("cache.capacitor=false").run().unwrap();
                sound(&format!("{fs}, {engine}, {depth}"), &o);
                o.result.machine.simulated_ns as f64
            };
            let (one, eight) = (took(1), took(8));
            assert!((eight / one - 1.0).abs() < 0.05, "{fs}, {engine}: {one} {eight} ns");
        }
    }
}

/// Random reads of a stretch, as many as it has pages, find a page in memory unless it is its first time: 1 - 1/e
/// of the pages come from the drive. Writes go there by themselves, and with an fsync.
#[test]
fn a_device_is_read_and_written_through_its_pages() {
    let job = |engine: &str, rw: &str, more: &str| {
        format!(
            "[j]\nioengine={engine}\nrw={rw}\nbs=4k\nsize=32m\nnorandommap\nnumber_ios=8192\n{more}"
        )
    };
    for engine in ["pvsync2", "libaio", "io_uring"] {
        let run = |text: &str| {
            let case = Case::new("z-ssd-small", text).stack("linux-libaio").age(Age::Filled);
            case.fs("bdev").run().unwrap()
        };
        let o = run(&job(engine, "randread", ""));
        sound(engine, &o);
        let misses = counter(&o, "fs.misses") as f64 / 8192.0;
        assert!((misses - 0.632).abs() < 0.01, "{engine}: {misses}");
        assert_eq!(counter(&o, "fs.metadata_read") + counter(&o, "fs.commits"), 0);
        let direct = run(&job(engine, "randread", "direct=1\n"));
        sound(engine, &direct);
        assert_eq!(counter(&direct, "fs.misses") + counter(&direct, "fs.hits"), 0);
        let o = run(&job(engine, "randwrite", "fsync=64\n"));
        sound(engine, &o);
        // fio is done when it has its I/Os: the last 64 have no fsync.
        assert_eq!(counter(&o, "fs.syncs"), 127, "{engine}");
        assert!(counter(&o, "fs.data_blocks") > 7_900, "{engine}");
    }
    let by_name = "[j]\nioengine=filecreate\nnrfiles=4\nfilesize=4k\n";
    let refused = Case::new("z-ssd-small", by_name).stack("linux-libaio").fs("bdev").run();
    assert!(refused.err().unwrap().to_string().contains("choose a file system"));
}

/// I/Os and calls as fio 3.33 counts them.
#[test]
fn engines_of_names_make_a_call_a_file_and_count_each_block() {
    for (words, ios, calls) in [
        ("ioengine=filestat\nrw=read\nsize=1m\n", 256, 1),
        ("ioengine=filestat\nrw=read\nsize=1m\nnumber_ios=100\n", 100, 1),
        ("ioengine=filecreate\nrw=write\nsize=1m\nfallocate=none\n", 256, 1),
        ("ioengine=filedelete\nrw=read\nsize=40k\nnrfiles=5\n", 10, 5),
        ("ioengine=filestat\nrw=read\nsize=40k\nnrfiles=5\nloops=2\n", 20, 10),
        ("ioengine=filestat\nrw=read\nsize=80k\nnrfiles=5\nfile_service_type=random\n", 20, 5),
        ("ioengine=filecreate\nrw=write\nsize=40k\nnrfiles=5\nloops=3\n", 30, 15),
    ] {
        for fs in ["ext4", "xfs"] {
            let o = Case::new("z-ssd-small", &format!("[j]\nbs=4k\n{words}")).fs(fs).run().unwrap();
            let dir = o.result.threads[0].dirs.iter().find(|dir| dir.total_ios > 0).unwrap();
            assert_eq!((dir.total_ios, dir.lat.len()), (ios, calls), "{fs}: {words}");
            assert_eq!(dir.io_bytes, 4096 * ios, "{fs}: {words}");
        }
    }
    // A file that fio is through with is opened again, and called for again.
    let o =
        "[j]\nbs=4k\nioengine=filestat\nrw=read\nsize=40k\nnrfiles=5\nfile_service_type=zipf:1.2\n";
    let o = Case::new("z-ssd-small", o).fs("ext4").run().unwrap();
    assert_eq!(
        (o.result.threads[0].dirs[0].total_ios, o.result.threads[0].dirs[0].lat.len()),
        (10, 5)
    );
    // A job with a time ends, although all its calls are made.
    let o = "[j]\nbs=4k\nioengine=filestat\nrw=read\nsize=4k\nruntime=1ms\ntime_based\n";
    let o = Case::new("z-ssd-small", o).fs("ext4").run().unwrap();
    let dir = &o.result.threads[0].dirs[0];
    assert!(dir.lat.len() == 1 && dir.total_ios > 1_000, "{}", dir.total_ios);
    assert!(o.result.machine.simulated_ns < 1_100_000);
}

#[test]
fn the_null_engine_opens_no_file() {
    let job = "[j]\nioengine=null\nrw=randrw\nbs=512\nsize=16m\nnumber_ios=1000\n";
    let o = Case::new("cnex-small", job).fs("ext4").run().unwrap();
    assert_eq!((counter(&o, "fs.creates"), counter(&o, "device.bytes_read")), (0, 0));
    assert!(!o.result.warnings.iter().any(|text| text.contains("page cache")));
    let bare = Case::new("cnex-small", job).run().unwrap();
    assert_eq!(o.result.machine.simulated_ns, bare.result.machine.simulated_ns);
}

#[test]
fn what_cannot_have_files_is_refused() {
    let jobs = JOBS.replace("[global]", "[global]\nioengine=spdk");
    let refused = files("z-ssd-small", "spdk", "spdk", &jobs).run().err().unwrap();
    assert!(refused.to_string().contains("files are the kernel's"), "{refused}");
    let jobs = JOBS.replace("[global]", "[global]\nioengine=io_uring\nsqthread_poll=1");
    let refused = files("z-ssd-small", "linux-libaio", "io_uring", &jobs).run().err().unwrap();
    assert!(
        refused.to_string().contains("call the file system, which is not modelled"),
        "{refused}"
    );
}

#[test]
fn files_are_on_network_block_devices() {
    for (stack, sets) in [
        ("nbd-kernel", &[][..]),
        ("nbd-kernel", &["stack.nbd.page_cache=false"][..]),
        ("nbd-kernel", &["stack.nbd.cache.memory=2_000_000", "stack.nbd.flush=true"][..]),
        ("nbd-kernel", &["stack.nbd.transport=unix", "stack.nbd.flush=true"][..]),
        ("nbd-kernel", &["stack.nbd.transport=ethernet", "stack.nbd.scheduler=bfq"][..]),
        ("nbd-spdk", &["stack.nbd.flush=true", "cache.capacitor=false"][..]),
    ] {
        for engine in ["pvsync2", "libaio", "io_uring"] {
            let jobs = JOBS.replace("[global]", &format!("[global]\nioengine={engine}"));
            let case = files("intel-750-small", stack, engine, &jobs);
            let case = sets.iter().fold(case, |case, set| case.set(set));
            let (o, again) = (case.run().unwrap(), case.run().unwrap());
            let what = format!("{stack} {sets:?} {engine}");
            sound(&what, &o);
            assert_eq!((o.events, o.text()), (again.events, again.text()), "{what}");
            let reads = &o.result.machine.layers[0].mean_by_layer_ns;
            for layer in [Layer::Network, Layer::Server] {
                assert!(reads[layer as usize] > 0.0, "{what}: {layer:?}");
            }
            assert!(counter(&o, "host.nbd_requests") > 0);
        }
    }
    // pblk of the server's kernel; SPDK would have to be without it.
    let case = |stack| files("cnex-small", stack, "directory", JOBS);
    sound("pblk", &case("nbd-kernel").run().unwrap());
    let refused = case("nbd-spdk").run().err().unwrap();
    for part in ["where its FTL is", "take a stack of the kernel's", "ftl.placement=device"] {
        assert!(refused.to_string().contains(part), "{refused}");
    }
}

/// nbd-server without O_DIRECT: writes are answered from memory, whatever the drive; what was read or written is
/// not read again; a flush is the data's way to the drive.
#[test]
fn nbd_server_answers_from_its_pages() {
    let run = |device, job: &str, sets: &[&str]| {
        let case = Case::new(device, job).stack("nbd-kernel").age(Age::Filled);
        let o = sets.iter().fold(case, |case, set| case.set(set)).run().unwrap();
        sound(job, &o);
        o
    };
    let job = |rw: &str, more: &str| {
        format!("[{rw}]\nrw={rw}\nbs=4k\nsize=8m\ndirect=1\nioengine=pvsync2\n{more}\n")
    };
    let write = |o: &Outcome| o.result.threads[0].dirs[1].lat.mean();
    let writes = job("randwrite", "");
    let [z, intel] = ["z-ssd-small", "intel-750-small"].map(|device| run(device, &writes, &[]));
    assert_eq!((write(&z), counter(&z, "device.bytes_written")), (write(&intel), 0));
    let past = run("z-ssd-small", &writes, &["stack.nbd.page_cache=false"]);
    assert!(write(&past) > write(&z), "{} {}", write(&past), write(&z));
    assert_eq!(counter(&past, "device.bytes_written"), 8 << 20);

    let twice = format!(
        "{}{}",
        job("randread", ""),
        job("randread", "stonewall").replacen("read]", "]", 1)
    );
    let o = run("z-ssd-small", &twice, &[]);
    // Each page once, and those behind the last that read-ahead brings.
    let more = counter(&o, "device.bytes_read") as i64 - (8 << 20);
    assert!((0..=64 * 4096).contains(&more), "{more}");

    let sets = ["stack.nbd.flush=true"];
    let o = run("z-ssd-small", &job("randwrite", "fdatasync=1"), &sets);
    let written = counter(&o, "device.bytes_written") as i64 - (8 << 20);
    assert!((-4096..=0).contains(&written), "all but the last have an fdatasync: {written}");
}

/// dio_await_one polls: the gain is that of a read of the drive itself, but for when the looks fall and for
/// where the empty interrupt behind does: in the way back of the call, or after it.
#[test]
fn direct_reads_of_files_are_polled() {
    let job = "[r]\nrw=randread\nbs=4k\nsize=8m\ndirect=1\nnumber_ios=500\nnorandommap\n";
    let run = |stack, files: bool| {
        let case = Case::new("z-ssd-small", job).stack(stack).age(Age::Filled);
        let case = if files { case.fs("ext4").set("fs.atime=noatime") } else { case };
        let o = case.run().unwrap();
        sound(stack, &o);
        (o.result.threads[0].dirs[0].lat.mean(), counter(&o, "host.polled_completions"))
    };
    let gain = |files| run("interrupt", files).0 - run("poll", files).0;
    let polled = run("poll", true).1;
    assert!(polled >= 490, "{polled} of 500 were polled");
    let (raw, on_files) = (gain(false), gain(true));
    let (turn, handler) = (100.0, 700.0);
    assert!(on_files > raw - turn, "{raw} and {on_files}");
    assert!(on_files < raw + handler + turn, "{raw} and {on_files}");
}

/// What the study shows at length: SPDK at the server shortens a read by what nbd-server's threads and
/// the kernel below them take, and leaves what the client does.
#[test]
fn spdk_bypasses_the_server_alone() {
    let job = "[r]\nrw=randread\nbs=4k\nnumber_ios=400\nnorandommap\n";
    let run = |stack| Case::new("z-ssd-small", job).stack(stack).age(Age::Filled).run().unwrap();
    let (local, kernel, spdk) = (run("interrupt"), run("nbd-kernel"), run("nbd-spdk"));
    let mean = |o: &Outcome| o.result.threads[0].dirs[0].lat.mean();
    assert!(mean(&local) < mean(&spdk) && mean(&spdk) < mean(&kernel));
    let layer = |o: &Outcome, l: Layer| o.result.machine.layers[0].mean_by_layer_ns[l as usize];
    for client in [Layer::Syscall, Layer::Block] {
        assert!((layer(&kernel, client) - layer(&spdk, client)).abs() < 1.0);
    }
    assert!(layer(&spdk, Layer::Server) < 0.3 * layer(&kernel, Layer::Server));
    let interrupts = |o: &Outcome| counter(o, "host.interrupts");
    assert_eq!((interrupts(&kernel), interrupts(&spdk)), (400, 0));
}

/// A read in order finds most pages read ahead for an earlier call. A bio that comes back between two
/// calls is part of neither: each life is as long as its call.
#[test]
fn what_was_read_ahead_for_an_earlier_call_is_no_part_of_a_later_one() {
    for engine in ["psync", "libaio"] {
        for fs in ["ext4", "xfs", "bdev"] {
            let job = format!("[a]\nrw=read\nbs=4k\nsize=2m\nioengine={engine}\n");
            let case = Case::new("z-ssd-small", &job).fs(fs).age(Age::Filled);
            let o = case.run().unwrap_or_else(|e| panic!("{engine} {fs}: {e}"));
            sound(&format!("{engine} {fs}"), &o);
        }
    }
}

/// A file system asks a drive of 4 KiB blocks for whole ones: at the end of a file that is none, and in
/// XFS' log.
#[test]
fn files_whose_ends_are_no_whole_blocks_are_read_and_written_directly() {
    let job =
        "[a]\nrw=randrw\ndirect=1\nbs=4k\nfilesize=10000\nnrfiles=20\nfsync=3\nnumber_ios=200\n";
    for (device, lba) in [("cnex-small", 4096), ("intel-750-small", 512), ("intel-750-small", 4096)]
    {
        for fs in ["ext4", "xfs"] {
            let case = Case::new(device, job).fs(fs).age(Age::Filled);
            let o = case.set(&format!("device.lba={lba}")).run().expect(device);
            sound(&format!("{device} {lba} {fs}"), &o);
        }
    }
}

/// Direct writes within a file as fio lays it out: to reserved blocks, into a hole of its length (ftruncate), whose
/// blocks are reserved first and converted behind the data, or behind its end.
/// Asynchronous direct writes go on in the kernel's worker where they wait for a commit, which waits for others of
/// them: each is over in the end.
#[test]
fn asynchronous_direct_writes_that_wait_for_commits_are_over() {
    for fs in ["ext4", "xfs"] {
        for engine in ["libaio", "io_uring"] {
            for seed in 0..12 {
                let sync = seed % 2;
                let depth = 2 + seed % 5;
                let jobs = format!(
                    "[global]\ndirectory=/mnt\nfilename=f\nbs=4k\nsize=256k\nnumber_ios=60\nnorandommap\n\
                     rw=randwrite\nrandseed={seed}\n[direct]\nioengine={engine}\niodepth={depth}\ndirect=1\n\
                     sync={sync}\n[buffered]\nioengine=pvsync2\nfsync={}\n",
                    7 + seed
                );
                let case = Case::new("z-ssd-small", &jobs).fs(fs).age(Age::Filled);
                let what = format!("{fs}, {engine}, seed {seed}");
                sound(&what, &case.run().unwrap_or_else(|e| panic!("{what}: {e}")));
            }
        }
    }
}

#[test]
fn fallocate_says_whether_a_file_is_reserved_a_hole_or_empty() {
    let did = |fallocate: &str| {
        let job = format!(
            "[a]\nrw=randwrite\ndirect=1\nbs=4k\nsize=1m\nnumber_ios=60\nfallocate={fallocate}\n"
        );
        let o = Case::new("z-ssd-small", &job).fs("ext4").age(Age::Filled).run().expect(fallocate);
        sound(fallocate, &o);
        ["fs.allocations", "fs.conversions"].map(|name| counter(&o, name))
    };
    let [reserved, hole, empty] = ["native", "truncate", "none"].map(did);
    assert_eq!((reserved, hole), ([0, 60], [60, 60]));
    assert!(empty[0] == 60 && empty[1] < 60, "{empty:?}: those behind the end are written at once");
}

/// Sixteen synchronous direct readers and eight writers above pblk. On one file of ext4's a write waits for the reads
/// under way, and the reads behind it for the write: the middle of the reads is the longest of several. What is
/// longest is a program of the flash, and stays. With files of their own, on XFS and on the device nobody waits.
#[test]
fn readers_wait_for_writers_of_their_file_on_ext4() {
    let reads = |fs: &str, one: bool, nolock: bool| {
        let file = if one { "filename=one\n" } else { "" };
        let job = format!(
            "[global]\nbs=4k\ndirect=1\nioengine=pvsync2\nnorandommap\nsize=16m\nruntime=200ms\ntime_based\n\
             directory=/mnt\n{file}[reader]\nrw=randread\nnumjobs=16\n\
             [writer]\nrw=randwrite\noverwrite=1\nnumjobs=8\nthinktime=1000us\n"
        );
        let case = Case::new("cnex-small", &job).stack("linux-pvsync2").age(Age::Filled).fs(fs);
        let case = case.set("stack.cores=16");
        let o = case.set(&format!("fs.ext4.dioread_nolock={nolock}")).run();
        let o = o.unwrap_or_else(|e| panic!("{fs}: {e}"));
        sound(fs, &o);
        let mut all = wordline_base::Histogram::new();
        let readers = o.result.threads.iter().filter(|t| t.name == "reader");
        readers.for_each(|t| t.dirs.iter().for_each(|d| all.merge(&d.lat)));
        let us = |p| all.percentile(p) as f64 / 1e3;
        (us(50.0), us(99.0), counter(&o, "fs.lock_waits"))
    };
    let own = reads("ext4", false, false);
    for (fs, nolock) in [("ext4", false), ("ext4", true)] {
        let one = reads(fs, true, nolock);
        assert!(one.0 > 1.5 * own.0 && one.1 < 1.2 * own.1, "{nolock}: {one:?} {own:?}");
        assert!(one.2 > 1000, "{one:?}");
    }
    for fs in ["xfs", "bdev"] {
        let one = reads(fs, true, false);
        assert!((0.8..1.25).contains(&(one.0 / own.0)), "{fs}: {one:?} {own:?}");
        assert_eq!((one.2, own.2), (0, 0), "{fs}");
    }
}

/// fio would write over the device below the file system; a file of that name is nobody's wish.
#[test]
fn a_device_is_no_file() {
    let run = |fs: &str, more: &str| {
        let job = format!("[a]\nrw=write\nbs=4k\nsize=1m\n{more}");
        Case::new("z-ssd-small", &job).fs(fs).run().map(|_| ()).map_err(|e| e.to_string())
    };
    for name in ["/dev/nvme0n1", "/dev/sda1", "/dev/nbd0"] {
        for fs in ["ext4", "xfs"] {
            let error = run(fs, &format!("filename={name}\n")).expect_err("it is a device");
            for part in
                ["job 'a'", &format!("filename={name} is a device"), "leave out --fs", "--fs bdev"]
            {
                assert!(error.contains(part), "no '{part}' in: {error}");
            }
        }
    }
    for (fs, more) in [
        ("bdev", "filename=/dev/nvme0n1\n"),
        ("ext4", "filename=nvme0n1\n"),
        ("ext4", "filename=dev/nvme0n1\ndirectory=/mnt\n"),
        ("ext4", "filename=/dev/null\nioengine=null\n"),
    ] {
        assert_eq!(run(fs, more), Ok(()), "{fs} {more}");
    }
}

/// fio 3.33 on ext4: 70 us a read of a file that was dropped, 6 us of one that was read before.
#[test]
fn what_was_read_before_the_job_is_in_memory() {
    let run = |fs: &str, memory: &str, more: &str| {
        let job =
            format!("[a]\nrw=randread\nbs=4k\nsize=16m\nioengine=pvsync2\nnumber_ios=2000\n{more}");
        let case = Case::new("z-ssd-small", &job).fs(fs).age(Age::Filled);
        case.set(&format!("fs.memory={memory}")).run().map_err(|e| e.to_string())
    };
    let reads = |outcome: &Outcome| outcome.result.machine.totals.user_flash_reads;
    for fs in ["ext4", "xfs", "bdev"] {
        let plain = run(fs, "64M", "").unwrap();
        let all = run(fs, "64M", "pre_read=1\n").unwrap();
        assert!(reads(&plain) > 1_500, "{fs}: {}", reads(&plain));
        assert!(reads(&all) < 10, "{fs}: {}", reads(&all));
        let mean = |o: &Outcome| o.result.threads[0].dirs[0].clat.mean();
        assert!(mean(&all) < mean(&plain) / 3.0, "{fs}: {} and {} ns", mean(&all), mean(&plain));
        // Of 16 MiB there is room for the last eight.
        let half = run(fs, "8M", "pre_read=1\n").unwrap();
        let none = run(fs, "8M", "").unwrap();
        assert!(reads(&half) < reads(&none) * 3 / 4, "{fs}: {} of {}", reads(&half), reads(&none));
        // A part of the file, and what is dropped is not what was read.
        let part = run(fs, "64M", "pre_read=1\ninvalidate=1\noffset=8m\nsize=8m\n").unwrap();
        assert!(reads(&part) < 10, "{fs}: {}", reads(&part));
    }
    for (more, words) in [
        ("pre_read=1\ndirect=1\n", "direct=1 reads past the page cache"),
        ("pre_read=1\nrw=write\nfallocate=none\n", "its files are empty when it begins"),
        ("pre_read=1\nrw=write\ncreate_on_open=1\n", "overwrite=1 lays them out"),
        (
            "pre_read=1\nioengine=filestat\nbs=4k\nfilesize=4k\nsize=4k\n",
            "its ioengine reads no file",
        ),
    ] {
        let error = run("ext4", "64M", more).map(|_| ()).expect_err(more);
        assert!(error.contains("pre_read: ") && error.contains(words), "{more}: {error}");
    }
    let written = run("ext4", "64M", "pre_read=1\nrw=randwrite\n").unwrap();
    assert_eq!(written.result.threads[0].error, 0, "its blocks are there");
}

/// EIO of a drive comes to whoever reads or syncs, through pages as past them.
#[test]
fn errors_of_the_drive_come_to_the_calls() {
    let jobs = "[r]\nrw=randread\nbs=4k\nsize=16m\nnumber_ios=200\n";
    for fs in ["ext4", "xfs", "bdev"] {
        for stack in ["linux-pvsync2", "nbd-kernel"] {
            let case = Case::new("z-ssd-small", jobs).stack(stack).age(Age::Filled).fs(fs);
            let o = case.set("nand.faults.read_fail_ppb=1_000_000_000").run().unwrap();
            let r = &o.result.threads[0];
            assert_eq!((o.result.ended, r.error), (Ended::Failed, 5), "{fs}, {stack}");
        }
    }
    // The pages of a server are in front of the drive.
    let case = Case::new("z-ssd-small", jobs).stack("nbd-kernel").age(Age::Filled);
    let faults = ["nand.faults.read_fail_ppb=1_000_000_000", "stack.nbd.page_cache=true"];
    let o = faults.iter().fold(case, |case, set| case.set(set)).run().unwrap();
    assert_eq!((o.result.ended, o.result.threads[0].error), (Ended::Failed, 5));
    // Pages take any length: none is misaligned.
    let jobs = "[r]\nrw=randread\nbs=1000\nsize=16m\nnumber_ios=200\n";
    let case = Case::new("z-ssd-small", jobs).stack("linux-pvsync2").age(Age::Filled).fs("ext4");
    let o = case.set("nand.faults.read_fail_ppb=1_000_000_000").run().unwrap();
    assert_eq!((o.result.ended, o.result.threads[0].error), (Ended::Failed, 5));
    // A sync has no length, and is not misaligned for that.
    let jobs = "[w]\nrw=randwrite\nbs=4k\nsize=16m\nnumber_ios=2000\nfsync=16\n";
    for fs in ["ext4", "xfs", "bdev"] {
        let case = Case::new("z-ssd-small", jobs).stack("linux-pvsync2").fs(fs);
        let faults = ["nand.faults.program_fail_ppb=900_000_000", "nand.blocks=24"];
        let o = faults.iter().fold(case, |case, set| case.set(set)).run().unwrap();
        let w = &o.result.threads[0];
        assert_eq!((o.result.ended, w.error), (Ended::Failed, 5), "{fs}");
    }
}

#[test]
fn a_file_that_is_gone_is_told() {
    let jobs = "[d]\nioengine=filedelete\nrw=read\nsize=40k\nnrfiles=5\nloops=2\n";
    for fs in ["ext4", "xfs"] {
        let case = Case::new("z-ssd-small", jobs).stack("linux-pvsync2").fs(fs);
        let o = case.run().unwrap();
        let error = o.result.verdict().expect_err("the second loop finds no file").to_string();
        assert!(error.contains("No such file") && error.contains("next loop"), "{error}");
    }
}

/// Reads under way hold all of a small page cache: who needs a page more waits for one of them.
#[test]
fn reads_that_fill_the_memory_come_to_an_end() {
    let job = |jobs: u32, kib: u32| {
        format!(
            "[a]\nnumjobs={jobs}\nioengine=pvsync2\nrw=randread\nbs={kib}k\nsize=64m\nnumber_ios=10\nnorandommap\n"
        )
    };
    for fs in ["ext4", "xfs", "bdev"] {
        for (jobs, kib, memory) in [(16, 1024, 16), (32, 1024, 24), (8, 4096, 24)] {
            let job = job(jobs, kib);
            let case = Case::new("z-ssd-small", &job).stack("linux-pvsync2").fs(fs);
            let case = case.age(Age::Filled).set(&format!("fs.memory={}", memory << 20));
            let o = case.run().unwrap_or_else(|e| panic!("{fs}, {jobs} jobs: {e}"));
            let m = &o.result.machine;
            assert_eq!((m.generated, m.served), (m.served, u64::from(jobs) * 10), "{fs}");
        }
    }
}

#[test]
fn a_note_says_that_files_have_no_batches() {
    for (job, fs, told) in [
        ("iodepth=16\niodepth_batch_submit=16", Some("ext4"), true),
        ("iodepth=16", Some("ext4"), false),
        ("iodepth=16\niodepth_batch=16", None, false),
    ] {
        let job = format!("[a]\nrw=randread\nsize=1m\nnumber_ios=20\n{job}\n");
        let o = Case { fs, ..Case::new("z-ssd-small", &job) }.age(Age::Filled).run().unwrap();
        let says = o.result.notes.iter().any(|note| note.contains("iodepth_batch has no effect"));
        assert_eq!(says, told, "{job} {fs:?}");
    }
}

/// A job's sync_file_range goes over what the job wrote since its last sync, whoever else left pages behind, and does what
/// its words say.
#[test]
fn a_range_is_what_the_job_wrote_since_its_last_sync() {
    let run = |syncs: &str| {
        let jobs = format!(
            "[global]\nrw=randwrite\nbs=4k\nsize=4m\nnumber_ios=200\nnorandommap\n[leaves]\n[syncs]\noffset=4m\n{syncs}\n"
        );
        let case = Case::new("z-ssd-small", &jobs).stack("linux-pvsync2").age(Age::Filled);
        let o = case.fs("bdev").run().unwrap();
        sound(syncs, &o);
        (counter(&o, "fs.data_blocks"), o.result.threads[1].sync.mean())
    };
    assert_eq!(run("").0, 0, "the flusher is not called so soon");
    let (blocks, began) = run("sync_file_range=write:40");
    // Four of them: after the last 40 writes the job is over. Few of 160 are written twice between two.
    assert!((150..=160).contains(&blocks), "{blocks}");
    let (same, ended) = run("sync_file_range=write,wait_after:40");
    assert!(same == blocks && ended > began + 10_000.0, "{same} blocks, {began} and {ended} ns");
    let (none, waited) = run("sync_file_range=wait_before,wait_after:40");
    // In a mix a sync follows each read until the next write: only the first has something to do, and all count.
    let mix = "[m]\nrw=randrw\nbs=4k\nsize=4m\nnumber_ios=400\nsync_file_range=write:8\n";
    let o = Case::new("z-ssd-small", mix)
        .stack("linux-pvsync2")
        .age(Age::Filled)
        .fs("bdev")
        .run()
        .unwrap();
    let (syncs, writes) = (o.result.threads[0].sync.len(), o.result.threads[0].dirs[1].total_ios);
    assert!(syncs > writes / 8, "{syncs} syncs, {writes} writes");
    assert!(none == 0 && waited < began, "{none} blocks, {waited} ns");
}

/// bfq waits for the next request of a thread that weighs more than another. When nothing comes its timer lets the worker
/// of the device run.
#[test]
fn bfq_goes_on_over_a_network_block_device_after_it_waited() {
    let jobs =
        "[global]\nrw=randrw\nbs=4k\nnumber_ios=400\nnorandommap\n[a]\nprio=0\n[b]\nprio=7\n";
    let case = Case::new("z-ssd-small", jobs).stack("nbd-kernel").age(Age::Filled);
    let case = case.set("stack.nbd.scheduler=bfq").set("stack.bfq.low_latency=false");
    sound("bfq", &case.run().unwrap());
}
