//! What a run tells in fio's terms, on whole machines: processor time, the depth that was found, and jobs
//! without I/O.

use serde_json::Value;
use wordline::Level;
use wordline_base::Ddir;
use wordline_check::scenarios::programs;
use wordline_check::{Age, Case, Outcome};
use wordline_report::{JsonOptions, fio_json, fio_normal, fio_terse};

fn run(job: &str) -> Outcome {
    Case::new("z-ssd-small", job).age(Age::Filled).run().unwrap()
}

/// fio's JSON of one job.
fn json(outcome: &Outcome, job: usize) -> Value {
    let text = fio_json(&outcome.result, false, &JsonOptions { machine: false });
    serde_json::from_str::<Value>(&text).unwrap()["jobs"][job].clone()
}

/// The line of fio's text that has these words.
fn line(outcome: &Outcome, words: &str) -> String {
    let text = fio_normal(&outcome.result);
    let found = text.lines().find(|line| line.contains(words));
    found.unwrap_or_else(|| panic!("no '{words}' in:\n{text}")).to_owned()
}

#[test]
fn processor_time_counts_from_the_end_of_the_ramp() {
    let job = "[a]\nrw=randread\nbs=4k\nnorandommap\nioengine=null\ntime_based\nruntime=20ms\n";
    let (plain, ramped) = (run(job), run(&format!("{job}ramp_time=60ms\n")));
    let cpu = |o: &Outcome, field| json(o, 0)[field].as_f64().unwrap();
    for field in ["usr_cpu", "sys_cpu"] {
        let (plain, ramped) = (cpu(&plain, field), cpu(&ramped, field));
        assert!((plain - ramped).abs() < 0.5, "{field}: {plain} without a ramp, {ramped} with one");
    }
    assert!(cpu(&ramped, "usr_cpu") > 95.0);
    let usr = line(&ramped, "  cpu ");
    assert!(usr.contains(&format!("usr={:.2}%", cpu(&ramped, "usr_cpu"))), "{usr}");
    let terse = fio_terse(&ramped.result);
    assert!(terse.contains(&format!(";{:.6}%;", cpu(&ramped, "usr_cpu"))), "{terse}");
}

#[test]
fn context_switches_count_from_the_end_of_the_ramp() {
    let job = "[a]\nrw=randread\nbs=4k\nnorandommap\nnumber_ios=500\n";
    let ctx = |o: &Outcome| json(o, 0)["ctx"].as_u64().unwrap();
    let (plain, ramped) = (ctx(&run(job)), ctx(&run(&format!("{job}ramp_time=2ms\n"))));
    assert!(plain.abs_diff(ramped) <= 2, "{plain} without a ramp, {ramped} with one");
}

/// fio's null does an I/O in its call at depth 1, and queues it at any other.
#[test]
fn null_at_depth_one_has_no_submission_latency() {
    for (depth, samples) in [(1, 0), (4, 100)] {
        let job =
            format!("[a]\nioengine=null\niodepth={depth}\nrw=read\nsize=1m\nnumber_ios=100\n");
        let outcome = Case::new("z-ssd-small", &job).run().unwrap();
        let read = json(&outcome, 0)["read"].clone();
        assert_eq!(read["slat_ns"]["N"], samples, "iodepth={depth}");
        assert_eq!((&read["clat_ns"]["N"], &read["lat_ns"]["N"]), (&100.into(), &100.into()));
    }
}

/// fio 3.33 counts one I/O sent and one back for each call of an engine that commits nothing, and no time of
/// submission.
#[test]
fn synchronous_calls_take_one_io_and_are_not_queued() {
    for fs in ["", "filename=data\nsize=1m\ndirect=1\n"] {
        let one = |engine: &str| {
            let job = format!("[a]\nioengine={engine}\nrw=randread\nbs=4k\nnumber_ios=100\n{fs}");
            let case = Case::new("z-ssd-small", &job).age(Age::Filled);
            let outcome = if fs.is_empty() { case } else { case.fs("ext4") }.run().unwrap();
            let text = fio_normal(&outcome.result);
            (json(&outcome, 0), text.lines().any(|l| l.trim_start().starts_with("slat")))
        };
        for (engine, samples) in [("pvsync2", 0), ("libaio", 100)] {
            let (json, has_line) = one(engine);
            assert_eq!(json["read"]["slat_ns"]["N"], samples, "{engine} {fs}");
            assert_eq!(has_line, samples > 0, "{engine} {fs}");
            for calls in ["iodepth_submit", "iodepth_complete"] {
                assert_eq!(json[calls]["4"], 100.0, "{engine} {fs} {calls}");
            }
        }
    }
}

#[test]
fn the_depth_that_was_found_is_told() {
    let job = "[a]\nrw=randread\nbs=4k\nnorandommap\nioengine=libaio\niodepth=64\ntime_based\nruntime=2s\n\
               latency_window=5ms\nlatency_percentile=90\n";
    let found = |target: u32| {
        let outcome = run(&format!("{job}latency_target={target}\n"));
        let one = json(&outcome, 0);
        assert_eq!(one["latency_target"], 1_000 * target);
        assert_eq!(one["latency_window"], 5_000);
        assert_eq!(one["latency_percentile"], 90.0);
        let depth = one["latency_depth"].as_u64().unwrap();
        let told = line(&outcome, "  latency   :");
        let wanted = format!("target={target}000, window=5000, percentile=90.00%, depth={depth}");
        assert!(told.ends_with(&wanted), "{told}, not {wanted}");
        depth
    };
    let (low, high) = (found(30), found(60));
    assert!(1 < low && low < high && high < 64, "{low} and {high}");
    let none = run("[a]\nrw=randread\nnumber_ios=9\niodepth=64\nioengine=libaio\n");
    let told = line(&none, "  latency   :");
    assert!(told.ends_with("target=0, window=0, percentile=100.00%, depth=64"), "{told}");
}

/// When the search has settled, what is told is of its last windows: the depth that was found and no other.
#[test]
fn statistics_are_of_the_depth_that_was_found() {
    for target in [30, 35, 40, 45, 50, 60] {
        let outcome = run(&format!(
            "[a]\nrw=randread\nbs=4k\nnorandommap\nioengine=libaio\niodepth=128\ntime_based\nruntime=4s\n\
             latency_window=20ms\nlatency_percentile=99\nlatency_target={target}\n"
        ));
        let one = json(&outcome, 0);
        let depth = one["latency_depth"].as_u64().unwrap();
        let p99 = one["read"]["clat_ns"]["percentile"]["99.000000"].as_u64().unwrap();
        assert!(p99 <= target * 1_000 * 11 / 10, "{p99} ns at depth {depth}, for {target} us");
        assert!(one["job_runtime"].as_u64().unwrap() < 100, "{target} us: {}", one["job_runtime"]);
        // Where the time went is told of the same reads, and so are the slowest.
        let reads = &outcome.result.threads[0].dirs[0];
        let layers = &outcome.result.machine.layers[0];
        assert_eq!(layers.count, reads.total_ios, "{target} us");
        assert!((layers.mean_ns - reads.lat.mean()).abs() < 0.01, "{target} us");
    }
}

/// While a job looks for its depth, its I/Os do not displace slow ones of a job beside it.
#[test]
fn the_slowest_are_of_ios_that_count() {
    let job = "[global]\nrw=randread\nbs=4k\nnorandommap\nioengine=libaio\ntime_based\nruntime=200ms\n\
               [plain]\niodepth=1\n[search]\niodepth=64\nlatency_window=5ms\nlatency_percentile=90\nlatency_target=30\n";
    let options = wordline::Options { slowest: 16, ..Default::default() };
    let case = Case { options, ..Case::new("z-ssd-small", job).age(Age::Filled) };
    let outcome = case.run().unwrap();
    let threads = &outcome.result.threads;
    assert!(threads[1].depth_search.is_some(), "it looked for a depth");
    let most = threads.iter().map(|t| t.dirs[0].lat.max()).max().unwrap();
    let slowest: Vec<u64> = outcome.result.slowest.iter().map(|l| l.latency().0).collect();
    assert_eq!((slowest.len(), slowest[0]), (16, most), "{slowest:?}");
    let of_plain = outcome.result.slowest.iter().filter(|l| l.job == 0).count();
    assert!(of_plain > 0, "one at a time is slower than what the search ended with");
}

/// fio syncs within its loop of I/O, so the time that the sync takes counts in every rate: 3.33 writes 200 MiB
/// in 82 ms without `end_fsync`, and in 208 ms with it.
#[test]
fn syncs_at_the_end_count_in_the_time_of_the_job() {
    let job = |more: &str| {
        let job = format!("[a]\nrw=rw\nbs=64k\nsize=64m\nioengine=pvsync2\n{more}");
        let outcome = Case::new("z-ssd-small", &job).fs("ext4").run().unwrap();
        let one = json(&outcome, 0);
        let of = |ddir: &str, key: &str| one[ddir][key].as_f64().unwrap();
        (of("read", "runtime"), of("write", "runtime"))
    };
    let (_, plain) = job("");
    for more in ["end_fsync=1\n", "fsync_on_close=1\n"] {
        let (reads, writes) = job(more);
        assert_eq!(reads, writes, "{more}");
        // 32 MiB of the cache go to a drive of 3.2 GB a second.
        assert!(writes > plain + 8.0, "{more}: {writes} ms, {plain} ms without");
    }
}

/// What the sync at the end takes is no time in which a job could have kept its rate.
#[test]
fn a_sync_at_the_end_is_no_rate_that_was_not_reached() {
    let job = "[a]\nrw=randwrite\nbs=4k\nsize=64m\nioengine=pvsync2\nrate_iops=100000\nnumber_ios=8000\nend_fsync=1\n";
    let outcome = Case::new("z-ssd-small", job).fs("ext4").run().unwrap();
    let of = json(&outcome, 0)["write"]["iops"].as_f64().unwrap();
    assert!(of < 95_000.0, "{of} a second with the sync");
    let told = outcome.result.warnings.iter().find(|text| text.contains("rate"));
    assert_eq!(told, None);
}

/// fio 3.33: ten chunks of 50 ms in a second at half a load, reads of no bytes.
#[test]
fn a_job_that_computes_is_in_the_report() {
    for ramp in ["", "ramp_time=500ms\n"] {
        let job = format!("[burn]\nioengine=cpuio\ncpuload=50\ntime_based\nruntime=1s\n{ramp}");
        let outcome = run(&job);
        assert!(line(&outcome, "burn: (groupid=0, jobs=1): err= 0: pid=1").starts_with("burn"));
        assert!(line(&outcome, "  lat (msec)   : ").ends_with("100=100.00%"));
        assert!(line(&outcome, "issued rwts").contains("total=10,0,0,0"));
        let one = json(&outcome, 0);
        let cpu = one["usr_cpu"].as_f64().unwrap();
        assert!((cpu - 50.0).abs() < 1.5, "{cpu}");
        assert_eq!((&one["read"]["total_ios"], &one["read"]["io_bytes"]), (&10.into(), &0.into()));
        assert_eq!(one["job_runtime"], 1_000);
        assert_eq!(one["iodepth_level"]["1"], 100.0);
    }
    // Its end is that of the jobs beside it.
    let outcome = run("[a]\nrw=randread\nnumber_ios=2000\nnorandommap\n\
                       [c]\nioengine=cpuio\ncpuload=100\ncpuchunks=500\nexit_on_io_done=1\n");
    let cpu = json(&outcome, 1)["usr_cpu"].as_f64().unwrap();
    assert!((95.0..=100.0).contains(&cpu), "{cpu}");
}

/// So many random 4 KiB reads of a small drive, one each so many nanoseconds, as fio logs them.
fn log(ios: u64, every_ns: u64) -> String {
    let mut text = String::from("fio version 3 iolog\n0 /dev/a add\n0 /dev/a open\n");
    for i in 0..ios {
        let us = i * every_ns / 1_000;
        text += &format!("{us} /dev/a read {} 4096\n", i * 7919 % 20_000 * 4096);
    }
    text
}

fn lateness(outcome: &Outcome) -> Value {
    let text = fio_json(&outcome.result, false, &JsonOptions::default());
    serde_json::from_str::<Value>(&text).unwrap()["wordline"]["lateness"][0].clone()
}

pub fn warned(outcome: &Outcome, words: &str) -> Option<String> {
    outcome.result.warnings.iter().find(|w| w.contains(words)).cloned()
}

/// Latency from the issue says nothing of a queue in front of it.
#[test]
fn a_replay_that_asks_for_more_than_the_drive_gives_is_told() {
    let replay = |every_ns| {
        let log = log(6_000, every_ns).leak();
        let job = "[log]\nread_iolog=log\nioengine=libaio\niodepth=8\n";
        let case = Case { replay: log, ..Case::new("z-ssd-small", job) };
        case.age(Age::Filled).run().unwrap()
    };
    let (within, beyond) = (replay(50_000), replay(1_000));
    let words = "did not keep the times of its trace";
    assert_eq!(warned(&within, words), None, "{}", lateness(&within));
    let warning = warned(&beyond, words).expect("no drive gives a million");
    let ns = |of: &Value, path: &str| of.pointer(path).and_then(Value::as_f64).unwrap();
    let (small, large) = (lateness(&within), lateness(&beyond));
    assert_eq!((&small["requests"], &large["requests"]), (&6_000.into(), &6_000.into()));
    assert!(ns(&small, "/behind_ns/p99") < 10_000.0, "{small}");
    assert!(ns(&large, "/behind_ns/mean") > 1e6, "{large}");
    for (outcome, late) in [(&within, &small), (&beyond, &large)] {
        // Each request waits for its issue, and then for its end.
        let latency = outcome.result.threads[0].dirs[0].lat.mean();
        let sum = latency + ns(late, "/behind_ns/mean");
        let counted = ns(late, "/read_latency_ns/mean");
        assert!((sum / counted - 1.0).abs() < 1e-6, "{sum} {counted}");
    }
    let tail = wordline_report::explain_text(&beyond.result);
    assert!(tail.contains("  lateness       : 6000 requests of 'log'"), "{tail}");
    // Of 6,000 requests less than one is beyond 99.99 %.
    assert!(warning.contains("99.9% ") && !warning.contains("99.99%"), "{warning}");
}

#[test]
fn a_rate_that_is_not_reached_is_told() {
    let words = "did not reach its rate";
    let of = |options: &str| {
        let outcome =
            run(&format!("[a]\nrw=randrw\nbs=4k\nnorandommap\nnumber_ios=2000\n{options}"));
        warned(&outcome, words)
    };
    assert_eq!(of("rate_iops=10k\n"), None);
    assert_eq!(of("rate=40m,1m\nrwmixread=10\n"), None, "its writes hold the reads back");
    assert_eq!(of("rate_iops=10k\nrate_process=poisson\n"), None);
    let told = of("rate_iops=500000\n").expect("one at a time is slower");
    assert!(told.contains("500000 I/Os a second"), "{told}");
    let told = of("rate=4g\n").expect("so is a gigabyte");
    assert!(told.contains("MB/s"), "{told}");
}

#[test]
fn writes_that_stay_in_the_page_cache_are_told() {
    let words = "did not reach the drive";
    let of = |options: &str| {
        let job = format!("[a]\nrw=write\nbs=128k\nsize=64m\n{options}");
        let outcome = Case::new("z-ssd-small", &job).age(Age::Filled).fs("ext4").run().unwrap();
        warned(&outcome, words)
    };
    let told = of("direct=0\n").expect("nothing was synced");
    assert!(told.contains("67 of 67 MB written"), "{told}");
    let again =
        of("direct=0\ntime_based\nruntime=100ms\n").expect("the same pages again and again");
    assert!(again.contains("MB written"), "{again}");
    assert_eq!(of("direct=1\n"), None);
    assert_eq!(of("direct=0\nend_fsync=1\n"), None);
}

#[test]
fn reads_that_come_out_of_the_page_cache_are_told() {
    let words = "came out of the page cache";
    let of = |options: &str, (fs, set): (&str, &[&str])| {
        let job = format!("[a]\nbs=4k\nsize=16m\n{options}");
        let case = Case::new("z-ssd-small", &job).age(Age::Filled).fs(fs);
        let case = set.iter().fold(case, |case, &one| case.set(one));
        warned(&case.run().unwrap(), words)
    };
    for fs in ["ext4", "xfs"] {
        let plain = (fs, &[][..]);
        let told = of("rw=randread\nnorandommap\ndirect=0\nio_size=64m\n", plain);
        let told = told.expect("each page is read four times");
        // 1 - e^-4 of the pages come from the drive, once.
        assert!(told.starts_with("51 of 67 MB read came"), "{told}");
        assert_eq!(of("rw=randread\ndirect=0\n", plain), None, "each page is read once");
        assert_eq!(of("rw=randread\nnorandommap\ndirect=1\nio_size=64m\n", plain), None);
        for ahead in ["fs.read_ahead=0", "fs.read_ahead=8k", "fs.read_ahead=128k"] {
            for bs in ["1k", "4k", "6k"] {
                let options = format!("rw=read\ndirect=0\nbs={bs}\n");
                assert_eq!(of(&options, (fs, &[ahead])), None, "{fs} {ahead} {bs}: read once");
            }
        }
    }
    let loops = |invalidate: bool| {
        let options = format!("rw=read\ndirect=0\nloops=3\ninvalidate={}\n", u8::from(invalidate));
        of(&options, ("ext4", &[]))
    };
    assert!(loops(false).is_some(), "two of three times");
    assert_eq!(loops(true), None, "each turn begins without what the one before it left");
    let written = of("rw=randrw\nnorandommap\ndirect=0\nio_size=64m\n", ("ext4", &[]));
    assert!(written.is_some(), "pages that the job itself wrote");
}

/// fio cuts each drawn pause to whole microseconds.
#[test]
fn a_rate_that_is_exceeded_is_told() {
    let words = "went above its rate";
    let of = |options: &str| {
        let job =
            "[a]\nrw=randread\nbs=4k\nnorandommap\nioengine=libaio\niodepth=64\nnumber_ios=20000\n";
        warned(&run(&format!("{job}{options}")), words)
    };
    let told = of("rate_iops=300000\nrate_process=poisson\n").expect("a third more by the sum");
    assert!(told.contains("pauses of 3 us in the mean"), "{told}");
    assert_eq!(of("rate_iops=300000\n"), None);
    assert_eq!(of("rate_iops=20000\nrate_process=poisson\n"), None);
}

/// What arrives faster than it is served has the latency of the run's length.
#[test]
fn a_program_that_does_not_serve_its_load_is_told() {
    let words = "did not keep up with its load";
    let of = |load: u32, beside: bool| {
        let (load, end) = (format!("app.kv.load={load}"), "app.runtime=50ms");
        let case = match beside {
            false => Case::new("z-ssd-small", "").app("kv-read").set(&load).set(end),
            true => {
                let job = "[a]\nrw=randread\nnorandommap\ntime_based\nruntime=50ms\n";
                let options = load.replace("app.kv.", "kv.").leak();
                Case::new("z-ssd-small", job).with("kv-read", options)
            }
        };
        warned(&case.age(Age::Filled).run().unwrap(), words)
    };
    for beside in [false, true] {
        assert_eq!(of(2_000, beside), None);
        let told = of(2_000_000, beside).expect("no drive gives two million");
        let key = if beside { "--with kv-read:load" } else { "app.kv.load" };
        assert!(told.contains(&format!("2000000 requests a second arrive ({key})")), "{told}");
    }
}

#[test]
fn writes_that_all_went_into_the_slc_buffer_are_told() {
    let words = "went into the SLC buffer";
    let of = |ios: u32, set: &[&str]| {
        let job = format!(
            "[a]\nrw=randwrite\nbs=64k\nnorandommap\niodepth=8\nioengine=libaio\nnumber_ios={ios}\n"
        );
        let case = Case::new("intel-750-small", &job)
            .set("cache=none")
            .set("ftl.over_provisioning=40")
            .with_slc();
        let case = set.iter().fold(case, |case, pair| case.set(pair));
        warned(&case.age(Age::Filled).run().unwrap(), words)
    };
    let told = of(200, &[]).expect("the buffer has room");
    assert!(told.contains("nothing was folded"), "{told}");
    assert_eq!(of(20_000, &[]), None, "it was folded");
    let without = ["ftl.firmware.slc_static=0", "ftl.firmware.slc_dynamic=0"];
    assert_eq!(of(200, &without), None);
}

/// nbd-server without -F, or a client that was not told: fio's fsync comes back, and nothing was flushed.
#[test]
fn syncs_that_a_server_does_not_take_are_told() {
    let words = " flushed nothing: the server";
    let of = |stack: &'static str, options: &str, flush: &str| {
        let job = format!("[a]\nrw=write\nbs=4k\nnumber_ios=20\n{options}");
        let case = Case::new("z-ssd-small", &job).stack(stack).age(Age::Filled);
        let case = if stack.starts_with("nbd") { case.set(flush) } else { case };
        warned(&case.run().unwrap(), words)
    };
    let (off, on) = ("stack.nbd.flush=false", "stack.nbd.flush=true");
    for stack in ["nbd-kernel", "nbd-spdk"] {
        let told = of(stack, "fsync=5\n", off).expect("none reaches the drive");
        assert!(told.starts_with("3 syncs flushed nothing"), "{told}");
        assert!(
            of(stack, "end_fsync=1\n", off).is_some_and(|told| told.starts_with("1 sync flushed"))
        );
        assert_eq!(of(stack, "fsync=5\n", on), None);
        assert_eq!(of(stack, "", off), None, "none was asked for");
    }
    assert_eq!(of("linux-libaio", "fsync=5\n", off), None);
}

#[test]
fn a_log_that_stays_in_the_page_cache_is_told() {
    let words = "none of its log reached the drive";
    let of = |set: &[&str]| {
        let case = Case::new("z-ssd-small", "").app("rocksdb-fillrandom").age(Age::Filled);
        let small =
            ["app.lsm.keys=50000", "app.lsm.readers=0", "app.operations=2000", "app.runtime=0s"];
        let case = small.iter().chain(set).fold(case, |case, pair| case.set(pair));
        let notes = case.run().unwrap().result.notes;
        notes.into_iter().find(|note| note.contains(words))
    };
    let told =
        of(&["app.lsm.wal=buffered", "app.lsm.wal_bytes_per_sync=0"]).expect("no byte of it");
    assert!(told.starts_with("'rocksdb-fillrandom': "), "{told}");
    assert_eq!(of(&["app.lsm.wal=none"]), None);
    assert_eq!(of(&["app.lsm.wal=synced"]), None);
    assert_eq!(of(&["app.lsm.wal=buffered", "app.lsm.wal_bytes_per_sync=4096"]), None);
}

/// A size beyond the drive is cut to the drive's, which a file system never has room for.
#[test]
fn files_without_room_are_refused_in_the_jobs_words() {
    let of = |fs: &'static str, options: &str| {
        let job = format!("[a]\nrw=randread\nbs=4k\nnumber_ios=20\n{options}");
        Case::new("z-ssd-small", &job).fs(fs).run().err().map(|e| e.to_string())
    };
    for fs in ["ext4", "xfs"] {
        for (options, words) in [
            ("size=100g\n", "job 'a': its files do not fit the file system: size=100g, and of the"),
            ("filesize=7g\n", "filesize=7g, and"),
            ("", "no size is given, so that it is the whole drive's, and"),
        ] {
            let told = of(fs, options).expect("it does not fit");
            assert!(told.contains(words), "{words}: {told}");
            let (_, room) = told.split_once("Give it a size of ").expect("a remedy");
            let room = room.split_once(' ').expect("a number").0;
            assert_eq!(of(fs, &format!("size={room}\n")), None, "{fs}: it fits");
        }
    }
}

/// As in fio a rate counts from two seconds on, over a whole cycle.
#[test]
fn a_job_that_falls_below_its_least_rate_is_told() {
    let of = |options: &str| {
        run(&format!("[a]\nrw=randread\nbs=4k\nnorandommap\ntime_based\n{options}"))
    };
    for (options, says) in [
        ("rate_iops_min=100k\n", "rate_iops_min asks for 102400 I/Os a second to be read, and "),
        ("rate_min=1g\n", "rate_min asks for 1073741824 bytes a second to be read, and "),
    ] {
        let low = of(&format!("runtime=5s\nthinktime=1ms\n{options}"));
        let told = warned(&low, "job 'a' ended early: ").expect("a thousand a second");
        assert!(told.contains(says), "{told}");
        let failed = low.result.verdict().expect_err("it failed").to_string();
        assert!(failed.starts_with("job 'a' ended early: ") && failed.contains(says), "{failed}");
        // fio's error, after its first whole cycle.
        assert_eq!(json(&low, 0)["error"], 5);
        let ms = json(&low, 0)["read"]["runtime"].as_u64().unwrap();
        assert!((3_000..3_010).contains(&ms), "{ms} ms");
        assert!(line(&low, "a: (groupid").contains("err= 5"), "{}", line(&low, "a: (groupid"));
    }
    let short = of("runtime=1s\nthinktime=1ms\nrate_iops_min=100k\nrate_cycle=500\n");
    let told = warned(&short, "was not held to its least rate").expect("it is too short");
    assert!(told.contains("after 2.5s at the earliest"), "{told}");
    assert_eq!(warned(&of("runtime=1s\nthinktime=1ms\n"), "rate_min"), None);
    let kept = of("runtime=4s\nthinktime=1ms\nrate_iops_min=500\n");
    assert_eq!(warned(&kept, "rate_min").or(warned(&kept, "ended early")), None);
}

#[test]
fn a_read_that_takes_too_long_is_told() {
    let outcome = run("[a]\nrw=randread\nbs=4k\nnorandommap\nnumber_ios=100\nmax_latency=1us\n");
    let told = warned(&outcome, "job 'a' ended early: a read took ").expect("none is as fast");
    assert!(told.contains("and max_latency is 1us"), "{told}");
    assert_eq!(json(&outcome, 0)["error"], 110);
}

/// Arrivals that wait for I/Os in flight are counted by none of fio's latencies.
#[test]
fn drawn_arrivals_that_wait_for_others_are_told() {
    let words = "is no open system";
    let of = |options: &str| {
        let job = "[a]\nrw=randread\nbs=4k\nnorandommap\nioengine=libaio\ntime_based\nruntime=100ms\nnumjobs=2\n";
        run(&format!("{job}{options}"))
    };
    // A job in 15 us of its 1,000 us has an I/O in flight.
    let rare = of("iodepth=64\nrate_iops=1000\nrate_process=poisson\n");
    assert_eq!(warned(&rare, words), None);
    assert_eq!(warned(&of("iodepth=64\nrate_iops=40k\n"), words), None, "they are not drawn");
    let drained = of("iodepth=64\nrate_iops=40k\nrate_process=poisson\n");
    let told = warned(&drained, words).expect("half of its time one is in flight");
    assert!(told.contains("% as fio lets what is in flight end before it sleeps"), "{told}");
    assert!(!told.contains("iodepth (") && told.contains("numjobs"), "{told}");
    let full = of("iodepth=2\nrate_iops=80k\nrate_process=poisson\n");
    let told = warned(&full, words).expect("two at a time");
    assert!(
        told.contains("% as iodepth (2) was full") && told.contains("a larger iodepth"),
        "{told}"
    );
    let one = of("iodepth=1\nrate_iops=40k\nrate_process=poisson\n");
    assert!(warned(&one, words).expect("one at a time").contains("% as iodepth (1) was full"));
    let over = of("iodepth=1\nrate_iops=200k\nrate_process=poisson\n");
    assert_eq!(warned(&over, words), None, "that the rate is not reached says it");
    assert!(warned(&over, "did not reach its rate").is_some());
}

/// What a fill leaves of the map in memory alone is written in the run.
#[test]
fn pages_of_the_map_that_a_fill_left_are_told() {
    let of = |age: Age, map: &str| {
        let job = "[a]\nrw=randread\nbs=4k\nnorandommap\nnumber_ios=2000\n";
        let case = Case::new("intel-750-small", job).age(age).set("cache=none");
        case.set("ftl.over_provisioning=45").set(map).run().unwrap().result
    };
    let words = "as its last writes left it: 16 of the 16 pages in memory are not on flash";
    let filled = of(Age::Filled, "ftl.firmware.map_bytes=65536");
    assert!(filled.notes.iter().any(|note| note.contains(words)), "{:?}", filled.notes);
    assert!(
        filled
            .prepared
            .ends_with("; of its map 16 of the 16 pages in memory are not on flash as they are")
    );
    let counted = |name: &str| {
        let all = &filled.machine.totals.counters;
        all.iter().find(|(n, _)| n == name).map_or(0, |(_, count)| *count)
    };
    assert_eq!(counted("ftl.map_dirty_evictions"), 16, "all of them, and reads change nothing");
    for (age, map) in
        [(Age::Filled, "ftl.firmware.map_bytes=0"), (Age::Fresh, "ftl.firmware.map_bytes=65536")]
    {
        let told = of(age, map);
        assert!(!told.prepared.contains("of its map"), "{}", told.prepared);
        assert!(!told.notes.iter().any(|note| note.contains("pages in memory")));
    }
}

/// A read that comes while its sectors are read ahead spends its time as that read of flash does.
#[test]
fn who_waits_for_a_read_ahead_spends_its_time_as_that_does() {
    use wordline_base::{Layer, Why};
    let job = "[a]\nrw=read\nbs=4k\nnumber_ios=4000\nioengine=libaio\niodepth=16\n";
    let mut case = Case::new("z-ssd-small", job).age(Age::Filled);
    case.options.slowest = 100;
    let result = case.run().unwrap().result;
    let cache = result.machine.totals.cache.as_ref().expect("a cache");
    assert!(cache.read_joins >= 10, "{cache:?}");
    let (mut waited, mut flash) = (0, 0);
    for life in &result.slowest {
        for (step, took) in life.times() {
            match (step.layer, step.why) {
                (Layer::Cache, Why::ReadAhead | Why::Overlap) => waited += took.0,
                (Layer::LunWait | Layer::Nand | Layer::Transfer, _) => flash += took.0,
                _ => {}
            }
        }
        assert_eq!(life.times().map(|(_, took)| took.0).sum::<u64>(), life.latency().0);
        assert_eq!(life.spent().iter().sum::<u64>(), life.latency().0);
    }
    assert!(flash > 4 * waited, "{flash} ns in flash, {waited} ns behind read-ahead alone");
}

/// Jobs at different times have shares of a whole run.
#[test]
fn writers_at_different_times_are_told() {
    let words = "jobs that write do not all run at the same time";
    let of = |second: &str| {
        let job = format!(
            "[global]\nrw=randwrite\nbs=4k\nnorandommap\ntime_based\nruntime=20ms\nrate_iops=3000\n[a]\n[b]\n{second}\n"
        );
        let result = Case::new("intel-750-small", &job).age(Age::Steady).run().unwrap().result;
        result.notes.iter().find(|note| note.contains(words)).cloned()
    };
    assert_eq!(of(""), None);
    let told = of("runtime=5ms").expect("a quarter of the time");
    assert!(
        told.contains(": a 80.0%, b 20.0%. The drive is in the state of no one stretch"),
        "{told}"
    );
    assert!(of("startdelay=10ms").expect("later").contains(": a 50.0%, b 50.0%."));
}

/// Milliseconds that a job's reads, writes and trims have taken, as fio tells them.
fn times(outcome: &Outcome, job: usize) -> [u64; 3] {
    let one = json(outcome, job);
    ["read", "write", "trim"].map(|ddir| one[ddir]["runtime"].as_u64().unwrap())
}

/// fio's update_runtime: the clocks of all directions that moved bytes run until the job's loop is over.
#[test]
fn the_clock_of_a_sparse_job_runs_to_its_end() {
    let of = |job: &str| times(&run(&format!("[a]\nbs=4k\nnorandommap\n{job}")), 0);
    let timed = "time_based\nruntime=5\n";
    for (job, expected) in [
        ("rw=randwrite\nrate=4k\n", [0, 5_000, 0]),
        ("rw=randrw\nrate_iops=3,1\n", [5_000, 5_000, 0]),
        ("rw=randread\nrate_iops=1\nramp_time=1500ms\n", [5_000, 0, 0]),
        ("rw=randread\nrate_iops=1\nrate_process=poisson\n", [5_000, 0, 0]),
        // The pause after the last one is not cut.
        ("rw=randread\nthinktime=700ms\n", [5_600, 0, 0]),
        ("rw=randread\nthinktime=700ms\nioengine=pvsync2\n", [5_600, 0, 0]),
        ("rw=randread\nthinktime=2s\nthinktime_blocks=1000\nthinktime_spin=1ms\n", [6_000, 0, 0]),
    ] {
        let is = of(&format!("{timed}{job}"));
        let near = |(is, expected): (u64, u64)| is >= expected && is - expected <= expected / 80;
        assert!(is.into_iter().zip(expected).all(near), "{job}: {is:?} ms, not {expected:?}");
    }
    // By size it ends with its last I/O, the third after 2 s; by a pause after it, with that.
    let job = "rw=randwrite\nrate=4k\nsize=12k\n";
    assert_eq!(of(job)[1], 2_001);
    assert!(
        (2_700..2_705)
            .contains(&of(&format!("{job}thinktime=700ms\nrate_ignore_thinktime=0\n"))[1])
    );
}

/// Writes stop where reading back begins, and reads begin there.
#[test]
fn reading_back_is_the_time_of_reads_alone() {
    let job = "[a]\nrw=write\nbs=4k\nsize=40k\nrate_iops=5\nverify=crc32c\n";
    let [read, write, _] = times(&run(job), 0);
    assert!((1_800..1_805).contains(&write), "{write} ms");
    assert!(read < 20, "{read} ms");
}

/// A rate's sleep ends with the runtime, and so the next job begins then.
#[test]
fn a_rate_does_not_hold_up_the_job_behind_the_wall() {
    for process in ["linear", "poisson"] {
        let first =
            format!("[a]\nrw=randread\nbs=4k\nrate=1k\nrate_process={process}\nruntime=3\n");
        let outcome = run(&format!("{first}[b]\nstonewall\nrw=randread\nbs=4k\nnumber_ios=1\n"));
        let end = outcome.result.machine.simulated_ns / 1_000_000;
        assert_eq!(end, 3_000, "{process}");
    }
}

/// A program's background threads do I/O now and then; their rates are of the time that the program is measured in.
#[test]
fn all_roles_of_a_program_have_its_time() {
    for case in programs() {
        let outcome = case.run().unwrap();
        let app = outcome.result.app.as_ref().unwrap();
        for thread in &outcome.result.threads {
            for dir in thread.dirs.iter().filter(|dir| dir.total_ios > 0) {
                assert!(
                    dir.runtime >= app.runtime,
                    "{}: {} of {}",
                    thread.name,
                    dir.runtime,
                    app.runtime
                );
            }
        }
    }
}

/// ENOSPC is fill_device's normal end (do_io, break_on_this_error), and else the error of the job.
#[test]
fn a_job_fills_the_file_system_and_ends() {
    for (fs, more) in [
        ("ext4", "direct=1\nnumjobs=2\n"),
        ("ext4", "ioengine=libaio\niodepth=4\n"),
        ("xfs", "ioengine=libaio\niodepth=4\ndirect=1\ncontinue_on_error=all\n"),
    ] {
        let job =
            format!("[a]\nioengine=psync\nrw=write\nbs=1m\nfallocate=none\nfill_device=1\n{more}");
        let case = Case::new("z-ssd-small", &job).fs(fs).set("nand.blocks=32");
        let outcome = case.run().unwrap();
        outcome.result.verdict().unwrap_or_else(|e| panic!("{fs}, {more}: {e}"));
        let threads = &outcome.result.threads;
        assert!(threads.iter().all(|t| (t.error, t.total_errors) == (0, 0)), "{fs}, {more}");
        let written: u64 = threads.iter().map(|t| t.dirs[Ddir::Write as usize].io_bytes).sum();
        assert!(written > 2_700 << 20, "{fs}, {more}: {written} bytes");
    }
    let job = "[a]\nioengine=psync\nrw=write\nbs=1m\nsize=4g\nfallocate=none\ndirect=1\n";
    let outcome = Case::new("z-ssd-small", job).fs("ext4").set("nand.blocks=32").run();
    let told = outcome.unwrap().result.verdict().unwrap_err().to_string();
    assert!(told.contains("os error 28"), "{told}");
    assert!(told.contains("the file system is full"), "{told}");
}

/// fio opens and closes its files beside its engine: they are no I/Os, and have no depth.
#[test]
fn opens_and_closes_of_files_are_no_ios() {
    for fs in ["ext4", "xfs"] {
        let job = "[a]\nioengine=psync\nrw=randread\nbs=4k\ndirect=1\nsize=64m\nnrfiles=8\nnumber_ios=16\n";
        let outcome = Case::new("z-ssd-small", job).fs(fs).run().unwrap();
        let one = json(&outcome, 0);
        for level in ["iodepth_level", "iodepth_submit", "iodepth_complete"] {
            let shares = one[level].as_object().unwrap().values();
            let sum: f64 = shares.map(|share| share.as_f64().unwrap()).sum();
            assert!((sum - 100.0).abs() < 0.5, "{fs}, {level}: {}", one[level]);
        }
        let result = &outcome.result;
        assert_eq!((result.machine.generated, result.machine.served), (16, 16), "{fs}");
    }
    // An engine whose I/Os are just that.
    let job = "[a]\nioengine=filecreate\nrw=write\nnrfiles=50\nfilesize=4k\nopenfiles=1\n";
    let outcome = Case::new("z-ssd-small", job).fs("ext4").run().unwrap();
    assert_eq!(json(&outcome, 0)["iodepth_level"]["1"], 100.0);
    let machine = &outcome.result.machine;
    assert!(machine.served >= 50 && machine.generated == machine.served, "{}", machine.served);
}

/// filecreate and its like count the bytes of their files and write none.
#[test]
fn files_that_are_only_made_leave_nothing_in_the_page_cache() {
    let job = "[a]\nioengine=filecreate\nrw=write\nfallocate=none\nnrfiles=500\nfilesize=64k\nopenfiles=1\n";
    let outcome = Case::new("z-ssd-small", job).fs("ext4").run().unwrap();
    let told = outcome.result.warnings.iter().find(|text| text.contains("did not reach the drive"));
    assert_eq!(told, None);
}

#[test]
fn the_write_hole_is_told_to_those_who_write() {
    let of = |rw: &str| {
        let job = format!("[a]\nrw={rw}\nbs=4k\nnumber_ios=50\n");
        let case = Case::new("z-ssd-small", &job).array(Level::Raid5, 3).age(Age::Filled);
        let outcome = case.run().unwrap();
        outcome.result.warnings.iter().any(|text| text.contains("write hole"))
    };
    assert!(of("randwrite"));
    assert!(!of("randread"));
}

/// fio 3.33 with unified_rw_reporting=both: each direction, and all of them as one.
#[test]
fn directions_are_told_apart_and_as_one() {
    let job = "[a]\nrw=randrw\nbs=4k\nnorandommap\nnumber_ios=300\nunified_rw_reporting=";
    let [both, second, mixed, none] =
        ["both", "2", "mixed", "none"].map(|word| run(&format!("{job}{word}\n")));
    let one = json(&both, 0);
    let ios = |ddir: &str| one[ddir]["total_ios"].as_u64().unwrap();
    assert_eq!((ios("read") + ios("write"), ios("trim")), (300, 0));
    // The share is of the group's reads, which are not apart with `mixed`.
    let all = |outcome: &Outcome| {
        let mut all = json(outcome, 0)["mixed"].clone();
        all.as_object_mut().unwrap().remove("bw_agg");
        all
    };
    assert_eq!(all(&both), all(&mixed));
    assert_eq!(all(&both), all(&second));
    assert_eq!(one["write"], json(&none, 0)["write"]);
    assert_eq!(one["sync"], json(&none, 0)["sync"]);
    let lines = |outcome: &Outcome, words: &str| fio_normal(&outcome.result).matches(words).count();
    for (words, in_both, in_mixed) in [
        ("  read: IOPS", 1, 0),
        ("  mixed: IOPS", 1, 1),
        ("  WRITE: bw", 1, 0),
        ("  MIXED: bw", 1, 1),
    ] {
        assert_eq!((lines(&both, words), lines(&mixed, words)), (in_both, in_mixed), "{words}");
    }
    let fields = |outcome: &Outcome| fio_terse(&outcome.result).matches(';').count();
    // A direction has as many fields as the one that `mixed` leaves out.
    assert_eq!(fields(&both) - fields(&none), fields(&none) - fields(&mixed));
}

/// fio 3.33: `err=110 (file:io_u.c:1432, func=max latency exceeded, error=Connection timed out)`. It compares what
/// it measures, and nothing with `disable_lat`.
#[test]
fn a_latency_above_the_bound_is_told_as_in_fio() {
    let job = "[a]\nrw=randread\nbs=4k\nnorandommap\nnumber_ios=50\nmax_latency=1us\n";
    let outcome = run(job);
    let told = line(&outcome, "a: (groupid=0");
    assert!(
        told.contains("err=110 (func=max latency exceeded, error=Connection timed out): pid=1"),
        "{told}"
    );
    assert_eq!(json(&outcome, 0)["error"], 110);
    for off in ["disable_lat=1\n", "gtod_reduce=1\n"] {
        let outcome = run(&format!("{job}{off}"));
        assert_eq!(json(&outcome, 0)["error"], 0, "{off}");
    }
    let slow = run(
        "[a]\nrw=randread\nbs=4k\nnorandommap\ntime_based\nruntime=4s\nrate_iops_min=1000000\n",
    );
    let told = line(&slow, "a: (groupid=0");
    assert!(told.contains("err= 5 (func=check_min_rate, error=Input/output error)"), "{told}");
}

/// The first error is of an I/O, and stays so when an option of the job's ends it afterwards.
#[test]
fn an_error_of_an_io_is_told_as_one() {
    let job = "[a]\nrw=randread\nbs=4k\nnorandommap\nioengine=libaio\niodepth=8\nnumber_ios=50\n\
               continue_on_error=all\nmax_latency=1us\n";
    let case = Case::new("z-ssd-small", job).age(Age::Filled);
    let failed = case.set("nand.faults.read_fail_ppb=500000000").run().unwrap();
    let told = line(&failed, "a: (groupid=0");
    assert!(told.contains("err= 5 (func=io_u error, error=Input/output error)"), "{told}");
}

/// fio 3.33: no file of a latency that is not measured; a log of bandwidth with a line of each I/O is empty with
/// `disable_bw_measurement`, and so is one of I/Os a second with `gtod_reduce`. What is averaged has neither offset
/// nor class.
#[test]
fn logs_have_what_fio_measures() {
    let job = "[a]\nrw=randread\nbs=4k\nnorandommap\nioengine=libaio\nwrite_lat_log=l\nwrite_bw_log=l\n\
               write_iops_log=l\n";
    let logs = |more: &str| {
        let outcome = run(&format!("{job}{more}"));
        let logs = outcome.result.threads.into_iter().flat_map(|t| t.logs);
        logs.map(|log| (log.kind, log.lines)).collect::<Vec<_>>()
    };
    let lines = |more: &str| {
        let all = logs(&format!("number_ios=50\n{more}")).into_iter();
        all.map(|(kind, lines)| format!("{kind:?} {}", lines.len())).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(lines(""), "Slat 50, Clat 50, Lat 50, Bw 50, Iops 50");
    assert_eq!(lines("disable_slat=1\n"), "Clat 50, Lat 50, Bw 50, Iops 50");
    assert_eq!(lines("disable_clat=1\n"), "Slat 50, Lat 50, Bw 50, Iops 50");
    assert_eq!(lines("disable_lat=1\n"), "Slat 50, Clat 50, Bw 50, Iops 50");
    assert_eq!(lines("disable_bw_measurement=1\n"), "Slat 50, Clat 50, Lat 50, Bw 0, Iops 50");
    assert_eq!(lines("gtod_reduce=1\n"), "Bw 0, Iops 0");
    let averaged = "log_avg_msec=50\nlog_offset=1\ntime_based\nruntime=300ms\nrate_iops=2000\nprioclass=1\nprio=3\n";
    for off in ["", "disable_bw_measurement=1\n", "gtod_reduce=1\n"] {
        let all = logs(&format!("{averaged}{off}"));
        let (rates, latencies) = all.iter().partition::<Vec<_>, _>(|(kind, _)| {
            matches!(kind, wordline_sim::LogKind::Bw | wordline_sim::LogKind::Iops)
        });
        assert!(rates.len() == 2 && rates.iter().all(|(_, lines)| lines.len() >= 4), "{off}");
        assert_eq!(latencies.is_empty(), off.starts_with("gtod"), "{off}");
        for line in all.iter().flat_map(|(_, lines)| lines) {
            assert_eq!(
                (line.bs, line.offset, line.class),
                (0, 0, wordline_base::IoClass::NONE),
                "{off}"
            );
        }
    }
}

/// fio 3.33 has samples by interval whatever is not measured, and options that were given a value.
#[test]
fn reports_have_what_fio_has() {
    let job =
        "[a]\nrw=randread\nbs=4k\nnorandommap\ntime_based\nruntime=1200ms\ngroup_reporting=1\n";
    for off in ["disable_bw_measurement=1\n", "gtod_reduce=1\n"] {
        let outcome = run(&format!("{job}{off}"));
        assert!(line(&outcome, "   bw (").contains("samples=2"), "{off}");
        assert!(line(&outcome, "   iops  ").contains("samples=2"), "{off}");
    }
    let one = json(&run(job), 0);
    let options = one["job options"].as_object().unwrap();
    let names: Vec<&str> = options.keys().map(String::as_str).collect();
    let mut wanted = ["rw", "bs", "runtime", "group_reporting"];
    wanted.sort_unstable();
    let mut names = names;
    names.sort_unstable();
    assert_eq!(names, wanted, "flags without a value are left out");
}

/// What a server's page cache has is told by bytes, not by calls or pages that they touch.
#[test]
fn what_a_servers_page_cache_has_is_told() {
    let of = |job: &str| {
        let case = Case::new("z-ssd-small", job).stack("nbd-kernel").set("stack.nbd.flush=true");
        let warnings = case.run().unwrap().result.warnings;
        let all = warnings.into_iter().filter(|text| text.contains("page cache of the server"));
        all.collect::<Vec<_>>()
    };
    let told = of("[j]\nrw=randwrite\nbs=4k\nsize=64m\nnumber_ios=2000\n");
    assert!(
        told.len() == 1 && told[0].starts_with("host server: 8.2 of 8.2 MB that clients wrote"),
        "{told:?}"
    );
    let told =
        of("[w]\nrw=read\nbs=64k\nsize=16m\n[again]\nrw=read\nbs=64k\nsize=16m\nstonewall\n");
    assert!(
        told.len() == 1 && told[0].starts_with("host server: 17 of 34 MB that clients read"),
        "{told:?}"
    );
    for job in [
        "[j]\nrw=write\nbs=512\nsize=1m\nend_fsync=1\n",
        "[j]\nrw=read\nbs=512\nsize=1m\n",
        "[j]\nrw=write\nbs=64k\nsize=16m\nend_fsync=1\n",
    ] {
        assert_eq!(of(job), Vec::<String>::new(), "{job}");
    }
}

/// fio's libaio and io_uring call for a trim and have it back: a call of one each, and no submission latency.
#[test]
fn trims_are_submitted_and_completed_one_at_a_time() {
    for engine in ["libaio", "io_uring"] {
        let job =
            format!("[j]\nioengine={engine}\nrw=randtrim\nbs=4k\niodepth=8\nnumber_ios=100\n");
        let outcome = Case::new("z-ssd-small", &job).run().unwrap();
        let of = json(&outcome, 0);
        assert_eq!(
            (&of["iodepth_submit"]["4"], &of["iodepth_complete"]["4"]),
            (&100.0.into(), &100.0.into())
        );
        assert_eq!(
            (&of["trim"]["slat_ns"]["N"], &of["trim"]["clat_ns"]["N"]),
            (&0.into(), &100.into())
        );
    }
}

#[test]
fn what_an_array_writes_and_what_kb_base_is_for_is_told() {
    let job = "[j]\nrw=randwrite\nbs=4096\nnumber_ios=200\nkb_base=1000\n";
    let case = Case::new("z-ssd-small", job).array(Level::Raid5, 3).age(Age::Filled);
    let result = case.run().unwrap().result;
    // Data and parity of each.
    let text = wordline::report::explain_text(&result);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("2.000 pages written to members for each of users"), "{text}");
    assert!(text.contains("of the drives: what an array writes to its members"), "{text}");
    assert!(result.notes.iter().any(|note| note.contains("kb_base=1000")), "{:?}", result.notes);
}

/// What our own part of the result says of a direction: its entry in `latency` and its row of `layers`.
fn own(outcome: &Outcome, ddir: &str) -> [Value; 2] {
    let text = fio_json(&outcome.result, false, &JsonOptions { machine: true });
    let own = serde_json::from_str::<Value>(&text).unwrap()["wordline"].take();
    let find = |list: &Value| {
        let mut list = list.as_array().unwrap().iter();
        list.find(|row| row["ddir"] == ddir).cloned().unwrap_or_default()
    };
    [find(&own["latency"]), find(&own["machine"]["layers"])]
}

/// fio counts a chunk of computing as a read of no bytes. It is no I/O of ours.
#[test]
fn chunks_of_computing_are_in_no_latency_of_ios() {
    let reader = "[r]\nrw=randread\nbs=4k\nnorandommap\niodepth=4\nnumber_ios=3000\n";
    let beside = run(&format!(
        "{reader}[c]\nioengine=cpuio\ncpuload=50\ncpuchunks=50\ntime_based\nruntime=20ms\n"
    ));
    let [latency, layers] = own(&beside, "read");
    assert_eq!(
        (&latency["N"], &latency["ios"], &latency["bytes"]),
        (&3000.into(), &3000.into(), &(3000 << 12).into())
    );
    assert_eq!(layers["count"], 3000);
    assert!(json(&beside, 1)["read"]["total_ios"].as_u64().unwrap() > 50);
    // The longest chunk is 50 us of a cycle of 100.
    let slowest = |v: &Value| v["max_ns"].as_f64().unwrap();
    assert!(slowest(&latency) < 1.1 * slowest(&own(&run(reader), "read")[0]));
}

/// A job with `stats=0` is in the numbers of the drive alone.
#[test]
fn a_job_without_statistics_is_in_none_of_them() {
    let job = "[a]\nrw=randread\nbs=4k\nnorandommap\nnumber_ios=500\n[b]\nstats=0\nrw=randread\nbs=64k\nnumber_ios=300\n";
    let outcome = run(job);
    let [latency, layers] = own(&outcome, "read");
    assert_eq!((&latency["N"], &layers["count"]), (&500.into(), &500.into()));
    let m = &outcome.result.machine;
    let over_time = &m.intervals.latency[0];
    assert_eq!(over_time.ios.iter().sum::<u64>(), 500);
    assert_eq!(over_time.bytes.iter().sum::<u64>(), 500 << 12);
    assert_eq!(m.served, 800);
    assert!(
        outcome.result.notes.iter().any(|note| note.contains("stats=0")),
        "{:?}",
        outcome.result.notes
    );
}

/// Jobs of a group are reported as its first is, and have a rate together.
#[test]
fn jobs_of_a_group_have_the_rate_that_they_are_reported_with() {
    let job = "[global]\ngroup_reporting\nbs=4k\nnorandommap\nnumber_ios=400\n[a]\nrw=randread\n[b]\nrw=randwrite\n\
               unified_rw_reporting=1\n";
    for ddir in ["read", "write"] {
        let [latency, _] = own(&run(job), ddir);
        assert_eq!((&latency["N"], &latency["ios"]), (&400.into(), &400.into()), "{ddir}");
        assert!(latency["ran_ns"].as_u64().unwrap() > 0, "{ddir}");
    }
}

/// Of the time in which the only reader is in its ramp nothing is known. What comes back while a job looks for its depth is
/// there.
#[test]
fn a_course_over_time_is_interrupted_where_nothing_is_counted() {
    let reader = "rw=randread\nbs=4k\nnorandommap\niodepth=4\ntime_based\n";
    let uncounted = |jobs: &str| {
        let outcome = run(jobs);
        let row = outcome.result.machine.intervals.latency[0].clone();
        (row.uncounted_ns, outcome.result.machine.simulated_ns)
    };
    let ramped = format!(
        "[a]\n{reader}runtime=20ms\n[b]\nstonewall\n{reader}runtime=20ms\nramp_time=15ms\n"
    );
    let (found, end) = uncounted(&ramped);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0][0].abs_diff(20_000_000) < 200_000 && found[0][1] == found[0][0] + 15_000_000,
        "{found:?}"
    );
    assert!(end.abs_diff(55_000_000) < 500_000);
    let beside = format!(
        "[a]\n{reader}runtime=60ms\n[b]\n{reader}startdelay=10ms\nruntime=20ms\nramp_time=15ms\n"
    );
    assert_eq!(uncounted(&beside).0, Vec::<[u64; 2]>::new());
    let unreported =
        format!("[a]\n{reader}ramp_time=10ms\nruntime=20ms\n[b]\nstats=0\n{reader}runtime=40ms\n");
    assert_eq!(uncounted(&unreported).0, [[0, 10_000_000]]);
    let searching = format!(
        "[a]\n{reader}iodepth=64\nlatency_target=40us\nlatency_window=5ms\nruntime=100ms\nramp_time=10ms\n"
    );
    let outcome = run(&searching);
    let row = &outcome.result.machine.intervals.latency[0];
    assert_eq!(row.uncounted_ns, [[0, 10_000_000]]);
    let counted = outcome.result.threads[0].dirs[0].total_ios;
    let all: u64 = row.ios.iter().sum();
    assert!(counted < all && all <= outcome.result.machine.served, "{counted} of {all}");
    let behind = outcome.result.machine.intervals.end_ns.iter().zip(&row.ios);
    assert!(behind.skip_while(|(end, _)| **end < 12_000_000).all(|(_, ios)| *ios > 0), "{row:?}");
}
