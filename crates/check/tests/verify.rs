//! fio jobs that verify, on the whole machine; jobs with the options of fio's own examples; and what
//! a report leaves out of a ramp.

use wordline_base::{Ddir, Span};
use wordline_check::{Age, Case, Outcome};

fn small(job: &str) -> Case<'_> {
    Case::new("z-ssd-small", job).set("nand.blocks=64").set("nand.pages_per_block=8")
}

fn ios(o: &Outcome, thread: usize, ddir: Ddir) -> u64 {
    o.result.threads[thread].dirs[ddir as usize].total_ios
}

#[test]
fn what_was_written_is_read_back() {
    for (more, read, written, trimmed) in [
        ("", 256, 256, 0),
        ("loops=3", 768, 768, 0),
        ("iodepth=16", 256, 256, 0),
        ("do_verify=0", 0, 256, 0),
        ("verify_only", 256, 0, 0),
        ("verify_backlog=16\niodepth=8", 256, 256, 0),
        ("experimental_verify=1", 256, 256, 0),
        ("number_ios=100", 100, 100, 0),
        // fio ends an asynchronous pass once it has queued its bytes, with the last block to trim.
        ("trim_percentage=100\ntrim_backlog=1", 256, 256, 255),
        ("trim_percentage=100\ntrim_backlog=1\ntrim_verify_zero=0", 1, 256, 255),
    ] {
        let job = format!("[a]\nioengine=libaio\nrw=write\nsize=1m\nverify=crc32c\n{more}\n");
        let o = small(&job).run().unwrap_or_else(|e| panic!("{more}: {e}"));
        let counts = [Ddir::Read, Ddir::Write, Ddir::Trim].map(|d| ios(&o, 0, d));
        assert_eq!(counts, [read, written, trimmed], "{more}");
        assert_eq!(
            (o.result.threads[0].error, o.result.machine.totals.integrity.wrong),
            (0, 0),
            "{more}"
        );
    }
}

/// fio 3.33 reads 256 blocks by either engine. It takes the writes for done at once, so that time is left to read them back.
#[test]
fn what_is_not_written_is_read_back_within_runtime() {
    for engine in ["psync", "libaio"] {
        let job = format!(
            "[a]\nioengine={engine}\nrw=randwrite\nsize=1m\nverify=md5\nverify_only\ntime_based\nruntime=100ms\n"
        );
        let o = small(&job).run().unwrap();
        assert_eq!((ios(&o, 0, Ddir::Read), ios(&o, 0, Ddir::Write)), (256, 0), "{engine}");
        let held_nothing = |w: &String| w.contains("held nothing");
        assert!(o.result.warnings.iter().all(held_nothing), "{engine}: {:?}", o.result.warnings);
    }
}

/// A drive is not aged by writes that a job does not send: it is written uniformly, as where no job writes.
#[test]
fn a_job_that_sends_no_writes_ages_no_drive() {
    for more in ["", "fill_device=1\n", "[b]\nrw=randread\nsize=1m\n"] {
        let job = format!("[a]\nrw=write\nsize=1m\nverify=md5\nverify_only\n{more}");
        for age in [Age::Steady, Age::Random] {
            let o = small(&job).age(age).run().unwrap();
            assert_eq!(ios(&o, 0, Ddir::Write), 0, "{more}");
            let reader = small("[a]\nrw=randread\nsize=1m\n").age(age).run().unwrap();
            let aged = |o: &Outcome| o.result.machine.totals.write_amplification.ageing.clone();
            assert!(aged(&o).len() > 2 && aged(&o) == aged(&reader), "{more}: {:?}", aged(&o));
        }
    }
}

/// fio rates writes over the time of writing and reads over that of reading back.
#[test]
fn each_phase_has_its_own_time() {
    let o = small("[a]\nrw=write\nsize=1m\nverify=md5\nloops=2\n").run().unwrap();
    let [read, write] =
        [Ddir::Read, Ddir::Write].map(|d| o.result.threads[0].dirs[d as usize].runtime);
    let all = o.result.machine.simulated_ns;
    let sum = read + write;
    assert!(read > Span::ZERO && write > Span::ZERO);
    assert!(sum.0 <= all && sum.0 > all * 9 / 10, "{read} + {write} of {all}");
    let alone = small("[a]\nrw=write\nsize=1m\n").run().unwrap();
    let once = alone.result.threads[0].dirs[Ddir::Write as usize].runtime.0;
    assert!((once..3 * once).contains(&write.0), "{write} for two passes, {once} for one");
}

/// Files are closed between the phases, so that nothing comes from the page cache.
#[test]
fn files_are_read_back_from_the_drive() {
    let job = "[a]\nrw=write\nbs=4k\nsize=2m\nverify=crc32c\nend_fsync=1\nfadvise_hint=random\n";
    let o = Case::new("z-ssd-small", job).stack("linux-pvsync2").fs("ext4").run().unwrap();
    assert_eq!((ios(&o, 0, Ddir::Read), ios(&o, 0, Ddir::Write)), (512, 512));
    let read =
        o.result.machine.totals.counters.iter().find(|(name, _)| name == "device.bytes_read");
    assert!(read.is_some_and(|(_, bytes)| *bytes >= 2 << 20), "{read:?}");
}

#[test]
fn depths_are_of_the_time_after_the_ramp() {
    for depth in [1, 8] {
        let job = format!(
            "[a]\nioengine=libaio\nrw=randread\nbs=4k\niodepth={depth}\nramp_time=20ms\nruntime=20ms\ntime_based\n"
        );
        let o = Case::new("z-ssd-small", &job).age(Age::Filled).run().unwrap();
        let t = &o.result.threads[0];
        assert_eq!(t.depth_level.iter().sum::<u64>(), t.depth_ios, "{depth}");
        let (counted, issued) = (t.dirs[Ddir::Read as usize].total_ios, t.depth_ios);
        assert!(
            counted.abs_diff(issued) <= depth + 1,
            "{depth}: {counted} counted, {issued} issued"
        );
    }
}

/// Files whose lengths are no multiple of a sector: each begins at one all the same.
#[test]
fn files_that_do_not_divide_the_size_run() {
    let o = small("[a]\nrw=randrw\nbs=4k\nsize=1000003\nnrfiles=7\n").run().unwrap();
    assert_eq!(o.result.threads[0].error, 0);
    assert_eq!(ios(&o, 0, Ddir::Read) + ios(&o, 0, Ddir::Write), 7 * (1_000_003 / 7 / 4096));
}

#[test]
fn zones_beyond_a_file_are_refused() {
    let job =
        "[a]\nrw=randread\nbs=4k\nsize=6m\nnrfiles=3\nrandom_distribution=zoned_abs:60/1m:40/4m\n";
    let error = small(job).run().err().expect("a file has 2 MiB, its zones 5 MiB");
    assert!(error.to_string().contains("zoned_abs reach to byte 5242880"), "{error}");
}

/// The options of fio's example jobs that used to stop at a word, in jobs of our own.
#[test]
fn jobs_like_fios_examples_run() {
    for job in [
        "[enterprise]\nioengine=libaio\ndirect=1\nrw=randrw\nnorandommap\nrandrepeat=0\nrwmixread=40\n\
         iodepth=64\nnumjobs=2\nbssplit=512/4:1024/1:3584/5:4k/70:64k/20\nblockalign=4k\n\
         random_distribution=zoned:50/5:30/15:20/80\nfilename=/dev/nvme0n1\ngroup_reporting\nnumber_ios=300\n",
        "[server]\nbssplit=512/10:4k/60:64k/30\nrw=randrw\nrwmixread=80\nioengine=libaio\niodepth=64\nnumber_ios=300\n",
        "[faults]\nioengine=mmap\nrw=randread\nbs=4k\nsize=1m\nthread\n",
        "[global]\nthreads=1\ntime_based\nruntime=3\nrate_iops=1000\nsize=1m\n[w]\nfilename=/dev/null\nrw=write\nss=iops:10%\n\
         ss_dur=1s\n[r]\nnew_group\nstonewall\nfilename=/dev/zero\nrw=randread\nss=bw_slope:1%\nss_dur=1s\n",
        "[global]\nthreads=1\nfilename=/tmp/data\nfilesize=1m\n[w]\nrw=write\nnumjobs=2\n[r]\nnew_group\nwait_for=w\nrw=randread\n",
        "[p]\nfilename=/dev/sda\nioengine=libaio\nrw=randrw\niodepth=16\nbssplit=64k/40:128k/60,128k/100\n\
         cmdprio_bssplit=64k/25/1/1:64k/75/3/2:128k/0,128k/0\nnumber_ios=300\n",
        "[ng]\nfilename=/dev/ng0n1\nioengine=io_uring_cmd\ncmd_type=nvme\nrw=randwrite\niodepth=8\nsize=1m\nregisterfiles=1\n",
        "[sg]\nfilename=/dev/sdb\nioengine=sg\nrw=write\nbs=512\nnumber_ios=20\nsg_write_mode=verify_bytchk_00\n",
        "[nbd]\nioengine=nbd\nuri=nbd+unix:///?socket=s\nrw=randrw\niodepth=16\nnumber_ios=300\n",
        "[rbd]\nioengine=rbd\nclientname=admin\npool=rbd\nrbdname=x\nrw=randwrite\nbs=4k\niodepth=8\nnumber_ios=300\n",
        "[http]\nioengine=http\nhttps=off\nhttp_host=h\nhttp_mode=s3\nrw=write\nsize=1m\nverify=sha256\n",
        "[null]\nioengine=external:/tmp/cpp_null.so\nsize=1m\nrw=randread\n",
    ] {
        let o = small(job).run();
        let o = o.unwrap_or_else(|e| panic!("{job}: {e}"));
        for t in &o.result.threads {
            assert_eq!(t.error, 0, "{job}");
            assert!(t.dirs.iter().map(|d| d.total_ios).sum::<u64>() > 0, "{job}");
        }
    }
    for (job, why) in [
        ("[a]\nioengine=net\n", "over a network"),
        ("[a]\nioengine=exec\nprogram=ls\n", "runs a program"),
        ("[a]\nioengine=e4defrag\n", "moves the extents"),
        ("[a]\nioengine=falloc\n", "reserves and frees blocks"),
        ("[a]\nflow=3\n", "flow control"),
        ("[a]\nverify_state_load=1\n", "state of half written data"),
    ] {
        let error = small(job).run().err().expect(job);
        assert!(error.to_string().contains(why), "{error}");
    }
}

/// A run that is cut short while jobs wait for others ends.
#[test]
fn a_limit_ends_jobs_that_wait() {
    let job = "[a]\nrw=randread\nruntime=1\ntime_based\n[b]\nstonewall\nrw=randwrite\nruntime=1\ntime_based\n";
    let mut case = small(job);
    case.options.limit = Some(Span::from_ms(5));
    let o = case.run().unwrap();
    assert!(ios(&o, 0, Ddir::Read) > 0 && ios(&o, 1, Ddir::Write) == 0);
}

/// Writes wait at the FTL, and a trim does not wait behind those: the cache may take a newer write before it
/// would end, whose data are then older than the trim to what counts versions.
#[test]
fn a_trim_goes_before_writes_that_wait() {
    let job = "[global]\nbs=4k\ndirect=1\nnorandommap\n\
               [r]\nrw=randread\niodepth=16\nnumber_ios=400\n\
               [w]\nrw=randwrite\nbssplit=4k/80:24k/20\niodepth=16\nnumber_ios=600\nfsync=64\n\
               [s]\nrw=rw\nbs=64k\niodepth=8\niodepth_batch=4\nnumber_ios=150\n\
               [t]\nrw=trim\nbs=64k\nnumber_ios=20\n";
    let case = Case::new("intel-750-small", job).age(Age::Steady).set("cache.write_back=false");
    let o = case.set("ftl.firmware.paced=true").run().unwrap();
    let trimmed =
        o.result.machine.totals.counters.iter().find(|(name, _)| name == "ftl.trimmed_sectors");
    assert!(trimmed.is_some_and(|(_, sectors)| *sectors == 20 * 16), "{trimmed:?}");
    assert_eq!(o.result.machine.totals.integrity.wrong, 0);
}
