//! Jobs end to end: when they start and end, how much they do, and how fast.

use super::place::{Place, float, has, int};
use serde_json::Value;

const SMALL: &str = "--device z-ssd-small";

fn simulated_ms(result: &Value) -> f64 {
    int(result, "/wordline/machine/simulated_ns") as f64 / 1e6
}

/// Two jobs of 20 and 30 ms, with something between them.
fn pair(place: &Place, globals: &str, second: &str) -> Value {
    place.file(
        "job.fio",
        format!(
            "[global]\nrw=randread\ntime_based\nrate_iops=10000\n{globals}\n[a]\nruntime=20ms\n\
             [b]\nruntime=30ms\n{second}\n"
        ),
    );
    place.json(&format!("job.fio {SMALL}"))
}

#[track_caller]
fn about(ms: f64, expected: f64) {
    assert!((ms - expected).abs() < 1.0, "{ms} ms, not {expected}");
}

#[test]
fn jobs_start_when_they_should() {
    let place = Place::new();
    let group = |result: &Value, job: usize| int(result, &format!("/jobs/{job}/groupid"));
    let together = pair(&place, "", "");
    about(simulated_ms(&together), 30.0);
    let wall = pair(&place, "", "stonewall");
    about(simulated_ms(&wall), 50.0);
    assert_eq!((group(&wall, 0), group(&wall, 1)), (0, 1));
    let waits = pair(&place, "", "wait_for=a");
    about(simulated_ms(&waits), 50.0);
    assert_eq!((group(&waits, 0), group(&waits, 1)), (0, 0));
    let delayed = pair(&place, "", "startdelay=15ms");
    about(simulated_ms(&delayed), 45.0);
    assert!((29..=30).contains(&int(&delayed, "/jobs/1/job_runtime")));
    // What ran, ran for as long as it says.
    for result in [&together, &wall, &waits, &delayed] {
        let ios = int(result, "/jobs/1/read/total_ios");
        assert!((294..=306).contains(&ios), "{ios}");
    }
}

#[test]
fn exitall_ends_the_others() {
    let place = Place::new();
    let all = pair(&place, "", "");
    let ended = pair(&place, "exitall", "");
    about(simulated_ms(&all), 30.0);
    about(simulated_ms(&ended), 20.0);
    let ios = int(&ended, "/jobs/1/read/total_ios");
    assert!((190..=210).contains(&ios), "{ios}");
    assert_eq!(ended["wordline"]["ended"], "complete");
}

#[test]
fn clones_report_alone_or_as_a_group() {
    let place = Place::new();
    let job = format!("--name=a --rw=randread --number_ios=70 --numjobs=3 {SMALL}");
    let alone = place.json(&job);
    assert_eq!(alone["jobs"].as_array().map(Vec::len), Some(3));
    let group = place.json(&format!("{job} --group_reporting"));
    assert_eq!(group["jobs"].as_array().map(Vec::len), Some(1));
    assert_eq!(int(&group, "/jobs/0/read/total_ios"), 210);
    let text = place.run(&format!("run {job} --group_reporting")).ok().out;
    assert!(text.contains("a: (groupid=0, jobs=3)"), "{text}");
}

#[test]
fn a_ramp_is_not_counted() {
    let place = Place::new();
    let job =
        format!("--name=a --rw=randread --time_based --rate_iops=20000 --runtime=50ms {SMALL}");
    let ramp = place.json(&format!("{job} --ramp_time=30ms"));
    about(simulated_ms(&ramp), 80.0);
    let ios = int(&ramp, "/jobs/0/read/total_ios");
    assert!((980..=1020).contains(&ios), "{ios}");
    let plain = place.json(&job);
    about(simulated_ms(&plain), 50.0);
    // time_based begins again, a runtime alone only bounds.
    let loops = format!("--name=a --rw=read --size=1m --runtime=20ms {SMALL}");
    assert_eq!(int(&place.json(&loops), "/jobs/0/read/total_ios"), 256);
    let based = place.json(&format!("{loops} --time_based"));
    assert!(int(&based, "/jobs/0/read/total_ios") > 1000);
    about(simulated_ms(&based), 20.0);
}

#[test]
fn rates_are_kept_where_the_drive_can() {
    let place = Place::new();
    for (rw, dir) in [("randread", "read"), ("randwrite", "write")] {
        for (rate, process) in [
            (2_000u64, "linear"),
            (2_000, "poisson"),
            (15_000, "linear"),
            // fio cuts the pauses of poisson to microseconds: at higher rates it is too fast.
            (15_000, "poisson"),
            (60_000, "linear"),
        ] {
            let result = place.json(&format!(
                "--name=a --rw={rw} --iodepth=16 --rate_iops={rate} --rate_process={process} \
                     --runtime=200ms --time_based --precondition fill {SMALL}"
            ));
            let iops = float(&result, &format!("/jobs/0/{dir}/iops"));
            // A random process varies by the root of its count.
            let n = rate as f64 * 0.2;
            let allowed = if process == "linear" { 0.02 } else { 0.02 + 3.0 / n.sqrt() };
            let off = (iops / rate as f64 - 1.0).abs();
            assert!(off < allowed, "{rw} {process}: {iops} I/Os a second, not {rate}");
        }
    }
    let bytes = place.json(&format!(
        "--name=a --rw=write --bs=64k --iodepth=4 --rate=20m --runtime=200ms --time_based {SMALL}"
    ));
    let rate = float(&bytes, "/jobs/0/write/bw_bytes") / f64::from(20 << 20);
    assert!((0.98..1.02).contains(&rate), "{rate}");
}

/// Lines of these logs are fio's samples: each bwavgtime or iopsavgtime where they are given, and none of a part of one. As
/// fio 3.33 has them of the null engine.
#[test]
fn logs_of_rates_have_a_line_each_sample() {
    let place = Place::new();
    for (words, bw, iops) in [
        (
            "--log_avg_msec=100",
            vec![100, 200, 300, 400, 500, 600],
            vec![100, 200, 300, 400, 500, 600],
        ),
        ("--log_avg_msec=1000", vec![], vec![]),
        ("--log_avg_msec=1000 --bwavgtime=200", vec![200, 400, 600], vec![]),
        (
            "--log_avg_msec=100 --iopsavgtime=200",
            vec![100, 200, 300, 400, 500, 600],
            vec![200, 400, 600],
        ),
    ] {
        place.json(&format!(
            "--name=q --rw=randread --bs=4k --norandommap --time_based --runtime=690ms --rate_iops=1000 \
             --write_bw_log=q --write_iops_log=q {words} {SMALL}"
        ));
        let times = |kind: &str| -> Vec<u64> {
            let log = place.text(&format!("q_{kind}.1.log"));
            let ms = |line: &str| -> u64 {
                line.split(',').next().expect("a time").parse().expect("ms")
            };
            // A sample is taken at the first I/O that comes back when its time is over: here one comes each millisecond.
            log.lines().map(ms).map(|at| at - at % 100).collect()
        };
        assert_eq!((times("bw"), times("iops")), (bw, iops), "{words}");
    }
}

#[test]
fn thinktime_takes_time() {
    let place = Place::new();
    let ms = |words: &str| {
        let job = format!("--name=a --rw=randread --number_ios=40 {words} {SMALL}");
        simulated_ms(&place.json(&job))
    };
    let without = ms("");
    let each = ms("--thinktime=1000");
    let blocks = ms("--thinktime=1ms --thinktime_blocks=10");
    assert!((38.0..42.0).contains(&(each - without)), "{each} {without}");
    assert!((2.9..4.2).contains(&(blocks - without)), "{blocks} {without}");
}

#[test]
fn syncs_trims_and_percentiles() {
    let place = Place::new();
    let sync = place.json(&format!("--name=a --rw=write --size=256k --fsync=4 {SMALL}"));
    assert_eq!(int(&sync, "/jobs/0/write/total_ios"), 64);
    assert_eq!(int(&sync, "/jobs/0/sync/total_ios"), 15);
    let trim = place.json(&format!("--name=a --rw=randtrim --bs=64k --number_ios=30 {SMALL}"));
    assert_eq!(int(&trim, "/jobs/0/trim/total_ios"), 30);
    assert_eq!(int(&trim, "/jobs/0/trim/io_bytes"), 30 * 65_536);
    let list = place.json(&format!(
        "--name=a --rw=randread --number_ios=300 --percentile_list=50:90:99.999 {SMALL}"
    ));
    let percentiles = list.pointer("/jobs/0/read/clat_ns/percentile").expect("percentiles");
    let keys: Vec<&String> = percentiles.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["50.000000", "90.000000", "99.999000"]);
    let off = place.json(&format!(
        "--name=a --rw=randread --number_ios=30 --clat_percentiles=0 --lat_percentiles=1 {SMALL}"
    ));
    assert!(off.pointer("/jobs/0/read/clat_ns/percentile").is_none());
    assert!(off.pointer("/jobs/0/read/lat_ns/percentile").is_some());
}

#[test]
fn syncs_are_counted_as_fio_counts_them() {
    let place = Place::new();
    for (words, syncs, from_fio) in [
        ("--fsync=4", 3, true),
        ("--end_fsync=1", 0, true),
        ("--fsync=4 --end_fsync=1", 3, true),
        ("--fsync=4 --fsync_on_close=1 --loops=3 --ioengine=psync", 13, true),
        // fio 3.33 counts these one place too far, as short reads.
        ("--fdatasync=4 --end_fsync=1", 3, false),
    ] {
        let job = format!("--name=a --rw=write --bs=4k --size=64k {words}");
        let own = place.json(&format!("{job} {SMALL}"));
        assert_eq!(int(&own, "/jobs/0/sync/total_ios"), syncs, "{words}");
        assert_eq!(int(&own, "/jobs/0/sync/lat_ns/N"), syncs, "{words}");
        assert_eq!(own["wordline"]["machine"]["generated"], own["wordline"]["machine"]["served"]);
        if !has("fio") {
            continue;
        }
        let real = place.shell(&format!("fio {job} --filename=f --output-format=json")).ok().json();
        assert_eq!(int(&real, "/jobs/0/sync/lat_ns/N"), syncs, "fio {words}");
        if from_fio {
            assert_eq!(int(&real, "/jobs/0/sync/total_ios"), syncs, "fio {words}");
        }
    }
}

/// Direction and offset and length of each line of a latency log.
fn offsets(place: &Place, name: &str) -> Vec<[u64; 3]> {
    let lines = place.text(name);
    let fields = |line: &str| -> [u64; 3] {
        let f: Vec<u64> = line.split(", ").map(|f| f.parse().expect(line)).collect();
        [f[2], f[4], f[3]]
    };
    lines.lines().map(fields).collect()
}

#[test]
fn logs_are_replayed_with_fios_offsets() {
    let place = Place::new();
    let header = "fio version 2 iolog\nf add\nf open\n";
    let ios = "f read 4096 4096\nf write 10240 4096\nf read 1232896 8192\nf write 1048576 512\n";
    place.file("v2", format!("{header}{ios}f close\n"));
    let mut blktrace = Vec::new();
    let records = [(8u64, 4096u32, 1u32), (20, 4096, 2), (2408, 8192, 1), (2048, 512, 2)];
    for (i, (sector, bytes, op)) in records.into_iter().enumerate() {
        blktrace.extend(0x6561_7407u32.to_le_bytes());
        blktrace.extend(1u32.to_le_bytes());
        blktrace.extend((i as u64 * 100_000).to_le_bytes());
        blktrace.extend(sector.to_le_bytes());
        for word in [bytes, 1 | op << 16, 42, 8 << 20, 0, 0] {
            blktrace.extend(word.to_le_bytes());
        }
    }
    place.file("bt", blktrace);
    place.shell("truncate -s 16m f").ok();
    for (log, words) in [
        ("v2", ""),
        ("v2", "--replay_scale=4"),
        ("v2", "--replay_align=4096"),
        ("v2", "--replay_scale=4 --replay_align=2k"),
        ("bt", "--replay_scale=4"),
        ("bt", "--replay_align=4096"),
        ("bt", "--replay_skip=write"),
        ("bt", "--replay_skip=read,sync"),
    ] {
        let job = format!(
            "--name=a --read_iolog={log} --replay_no_stall=1 --ioengine=psync --log_offset=1 {words}"
        );
        place.run(&format!("run {job} --write_lat_log=own {SMALL}")).ok();
        let own = offsets(&place, "own_lat.1.log");
        assert!(!own.is_empty(), "{log} {words}");
        if has("fio") {
            let line = format!("fio {job} --filename=f --replay_redirect=f --write_lat_log=real");
            place.shell(&line).ok();
            assert_eq!(own, offsets(&place, "real_lat.1.log"), "{log} {words}");
        }
    }
    // fio 3.33 skips in blktraces alone.
    place.run(&format!("run --name=a --read_iolog=v2 --replay_skip=write --write_lat_log=s --log_offset=1 {SMALL}")).ok();
    assert_eq!(offsets(&place, "s_lat.1.log").len(), 2);
    place
        .run(&format!("run --name=a --read_iolog=v2 --replay_align=3000 {SMALL}"))
        .fails(2, &["power of two"]);
}

#[test]
fn histograms_over_time_as_fio_logs_them() {
    let place = Place::new();
    let job = "--name=a --rw=randrw --size=64m --rate_iops=2000 --runtime=1 --time_based \
               --log_hist_msec=200 --log_hist_coarseness=5";
    place.run(&format!("run {job} --ioengine=psync --write_hist_log=own {SMALL}")).ok();
    let lines = |name: &str| -> Vec<Vec<u64>> {
        let fields = |l: &str| l.split(", ").map(|f| f.parse().expect("a number")).collect();
        place.text(name).lines().map(fields).collect()
    };
    let own = lines("own_clat_hist.1.log");
    let real = match has("fio") {
        true => {
            place.shell(&format!("fio {job} --ioengine=null --write_hist_log=real")).ok();
            lines("real_clat_hist.1.log")
        }
        false => own.clone(),
    };
    assert_eq!(own.len(), 8, "four windows of both directions");
    for (log, is_own) in [(&own, true), (&real, false)] {
        assert!(!log.is_empty());
        for line in log {
            assert_eq!(line.len(), 3 + 1856 / 32);
            assert!(line[1] < 2 && line[2] == 4096, "{line:?}");
            // How many fio has in a window is also a matter of who else runs.
            let ios: u64 = line[3..].iter().sum();
            assert!(!is_own || (380..=440).contains(&ios), "{line:?}");
        }
    }
    let none = place.run(&format!("run --name=b --size=64k --write_hist_log=none {SMALL}")).ok();
    assert!(none.out.contains("without log_hist_msec"), "{}", none.out);
    assert_eq!(place.text("none_clat_hist.1.log"), "");
}

#[test]
fn what_is_left_out_of_the_report_and_what_shares_a_log() {
    let place = Place::new();
    place.file("job.fio", "[global]\nrw=randread\nnumber_ios=30\n[a]\nstats=0\n[b]\n");
    let result = place.json(&format!("job.fio {SMALL}"));
    assert_eq!(result["jobs"].as_array().map(Vec::len), Some(1));
    assert_eq!(result["jobs"][0]["jobname"], "b");
    assert_eq!(int(&result, "/wordline/machine/served"), 60);
    let text = place.run(&format!("run --name=a --size=1m --stats=0 {SMALL}")).ok();
    assert!(text.out.contains("generated = served") && !text.out.contains("IOPS="), "{text:?}");
    let job = "--name=a --rw=randread --number_ios=30 --numjobs=3 --write_lat_log=x";
    place.run(&format!("run {job} --per_job_logs=0 {SMALL}")).ok();
    assert_eq!(place.text("x_lat.log").lines().count(), 90);
    assert!(!place.path("x_lat.1.log").exists());
}

#[test]
fn a_steady_job_ends() {
    let place = Place::new();
    let run = |words: &str| {
        let job = "--name=a --rw=randread --rate_iops=1000 --runtime=9 --time_based --size=64m";
        place.json(&format!("{job} {words} {SMALL}"))
    };
    let steady = run("--steadystate=iops:5% --steadystate_duration=3");
    about(simulated_ms(&steady), 3_000.0);
    let s = &steady["jobs"][0]["steadystate"];
    assert_eq!((&s["ss"], &s["attained"]), (&"iops:5.000000%".into(), &1.into()));
    assert_eq!(s["data"]["iops"].as_array().map(Vec::len), Some(3));
    assert_eq!(steady["wordline"]["ended"], "complete");
    about(simulated_ms(&run("--ss=bw_slope:1% --ss_dur=3 --ss_ramp=2")), 5_000.0);
    // Of a group the sum counts: one thread stops at a second, and then it is steady again.
    let group = run("--ss=iops:5% --ss_dur=4 --group_reporting --numjobs=2");
    about(simulated_ms(&group), 4_000.0);
    assert!((1_990..=2_010).contains(&int(&group, "/jobs/0/steadystate/data/iops_mean")));
    let restless = run("--ss=iops:0 --ss_dur=3");
    about(simulated_ms(&restless), 9_000.0);
    assert_eq!(int(&restless, "/jobs/0/steadystate/attained"), 0);
    let text = place
        .run(&format!("run --name=a --rate_iops=500 --runtime=9 --ss=iops:9% --ss_dur=2 {SMALL}"));
    assert!(text.ok().out.contains("  steadystate  : attained=yes, bw="));
}

#[test]
fn large_ios_are_split_at_the_drives_largest_transfer() {
    let place = Place::new();
    let requests = |words: &str| {
        let job = "--name=a --rw=randread --bs=1m --number_ios=10 --norandommap";
        let result = place.json(&format!("{job} {SMALL} {words}"));
        assert_eq!(int(&result, "/jobs/0/read/total_ios"), 10);
        int(&result, "/wordline/machine/counters/host.requests")
    };
    assert_eq!(requests(""), 80);
    assert_eq!(requests("--set queues.max_transfer=32768"), 320);
    assert_eq!(requests("--set queues.max_transfer=0"), 10);
    assert_eq!(requests("--set queues.max_transfer=0 --set stack.max_request=262144"), 40);
    assert_eq!(requests("--stack none --set queues.max_transfer=262144"), 40);
    let odd = place.run(&format!("run --name=a {SMALL} --set queues.max_transfer=100000"));
    odd.fails(2, &["max_transfer", "power of two"]);
}

#[test]
fn as_many_ios_as_fio() {
    if !has("fio") {
        return;
    }
    let place = Place::new();
    for words in [
        "--rw=read --size=8m",
        "--rw=randread --size=8m --io_size=3m",
        "--rw=randwrite --size=2m --io_size=5m",
        "--rw=randrw --size=4m --rwmixread=70",
        "--rw=randread --size=16m --number_ios=100",
        "--rw=write --size=1m --loops=3",
        "--rw=randrw --size=4m --bssplit=4k/30:16k/50:64k/20",
        "--rw=randread --size=4m --bsrange=4k-32k",
        "--rw=randread --size=1m --numjobs=3 --group_reporting",
        "--rw=read --size=8m --offset=4m",
        "--rw=write --size=1m --fsync=3 --end_fsync=1",
        "--rw=randtrim --size=1m --bs=64k",
        "--rw=rw --size=3m --percentage_random=40 --norandommap",
        "--rw=randread --filesize=16m --size=25%",
    ] {
        let out = place.path("fio.json").display().to_string();
        let real = std::process::Command::new("fio")
            .args(["--name=a", "--ioengine=null", "--output-format=json", "--output", &out])
            .args(words.split_whitespace())
            .current_dir(place.path(""))
            .output()
            .expect("fio runs");
        assert!(real.status.success(), "{words}: {}", String::from_utf8_lossy(&real.stderr));
        let text = place.text("fio.json");
        let real: Value =
            serde_json::from_str(&text[text.find('{').expect("JSON")..]).expect("JSON");
        let own = place.json(&format!("--name=a {words} {SMALL}"));
        for key in ["read", "write", "trim"] {
            for count in ["total_ios", "io_bytes"] {
                let path = format!("/jobs/0/{key}/{count}");
                assert_eq!(int(&own, &path), int(&real, &path), "{words}: {path}");
            }
        }
    }
}

#[test]
fn several_jobs_of_a_mixed_bag() {
    let place = Place::new();
    place.file(
        "job.fio",
        "[global]\nbs=4k\nsize=64m\nruntime=20ms\ntime_based\n[seq]\nrw=read\nbs=128k\n\
         [zipf]\nrw=randrw\nrandom_distribution=zipf:1.1\nnorandommap\niodepth=8\n\
         [late]\nrw=randwrite\nstartdelay=5ms\nprioclass=1\n[trims]\nrw=trim\nbs=1m\n",
    );
    for stack in ["linux-libaio", "linux-pvsync2", "linux-io_uring", "none"] {
        let result = place.json(&format!("job.fio --stack {stack} {SMALL}"));
        let machine = &result["wordline"]["machine"];
        assert_eq!(machine["generated"], machine["served"]);
        assert_eq!(int(machine, "/integrity/wrong"), 0);
        for job in 0..4 {
            let dirs = ["read", "write", "trim"];
            let total: u64 =
                dirs.iter().map(|d| int(&result, &format!("/jobs/{job}/{d}/total_ios"))).sum();
            assert!(total > 0, "{stack}: job {job} did nothing");
        }
        about(simulated_ms(&result), 25.0);
    }
}

/// A skewed choice of files goes by which of them have I/O in flight, on a file system as on the drive: a file
/// whose random map is full closes once its last I/O is back, while others go on.
#[test]
fn files_of_a_skewed_choice_close_when_their_last_io_is_back() {
    let place = Place::new();
    for (io, more) in [("randread", ""), ("randwrite", "--verify=md5"), ("randrw", "")] {
        for service in ["zipf:1.2", "normal:20", "pareto:0.3"] {
            let job = format!(
                "run --name=a --rw={io} --bs=4k --filesize=256k --nrfiles=8 --ioengine=libaio --direct=1 \
                 --iodepth=16 --file_service_type={service} --number_ios=2000 {more} --loops=20 \
                 --precondition none --device z-ssd-small --output-format=json"
            );
            for fs in ["", "--fs ext4", "--fs xfs"] {
                let json = place.run(&format!("{job} {fs}")).ok().json();
                let ios = ["read", "write"].map(|d| int(&json, &format!("/jobs/0/{d}/total_ios")));
                assert!(ios[0] + ios[1] >= 2000, "{job} {fs}: {ios:?}");
            }
        }
    }
}

/// fio 3.33 tells job_runtime=1001 and usr=0.30 % of it: the pause after the last I/O is a job's time.
#[test]
fn a_pause_after_the_last_io_is_a_jobs_time() {
    let place = Place::new();
    let result = place.json(&format!(
        "--name=a --rw=randread --runtime=500ms --time_based --ioengine=psync --thinktime=1s --thinktime_blocks=1000 {SMALL}"
    ));
    let job = &result["jobs"][0];
    assert!(
        (1_000..1_100).contains(&job["job_runtime"].as_u64().unwrap()),
        "{}",
        job["job_runtime"]
    );
    assert!(job["usr_cpu"].as_f64().unwrap() < 1.0, "{}", job["usr_cpu"]);
}
