//! The installed fio as the oracle: what it measured goes into a result, and what is written from
//! that must be what it wrote.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests run fio and its tools, and read the files they write"
)]

use crate::common::{histogram, result, thread};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use wordline_base::{Ddir, Histogram, IoClass, Span, Time};
use wordline_report::*;
use wordline_sim::*;

/// A fresh directory a test may fill.
fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn run(program: &str, dir: &Path, args: &[&str]) -> String {
    let output = Command::new(program).args(args).current_dir(dir).output().unwrap_or_else(|e| {
        panic!("cannot run {program}: {e}\ninstall it: apt-get install fio");
    });
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {}\n{text}{errors}", output.status);
    text
}

/// fio's three outputs of one run.
struct Real {
    json: Value,
    normal: String,
    terse: String,
}

fn fio(dir: &Path, args: &[&str]) -> Real {
    let mut all = vec!["--output-format=json+,normal,terse"];
    all.extend(args);
    let text = run("fio", dir, &all);
    let lines: Vec<&str> = text.lines().collect();
    let begin = lines.iter().position(|l| *l == "{").expect("fio wrote JSON");
    let end = begin + lines[begin..].iter().position(|l| *l == "}").expect("and ended it");
    let terse = lines.iter().filter(|l| l.starts_with("3;fio-"));
    Real {
        json: serde_json::from_str(&lines[begin..=end].join("\n")).unwrap(),
        normal: lines[end + 1..].join("\n") + "\n",
        terse: terse.map(|l| format!("{l}\n")).collect(),
    }
}

fn whole(v: &Value) -> u64 {
    v.as_u64().unwrap_or_else(|| panic!("{v} is not a whole number"))
}
fn float(v: &Value) -> f64 {
    v.as_f64().unwrap_or_else(|| panic!("{v} is not a number"))
}
fn text(v: &Value) -> String {
    v.as_str().unwrap_or_else(|| panic!("{v} is not a string")).to_owned()
}

/// The histogram behind a latency object: of each bucket fio says its middle and its count.
fn read_latency(v: &Value) -> Histogram {
    let Some(bins) = v.get("bins").and_then(Value::as_object) else {
        // Without percentiles only the extremes are known.
        let n = whole(&v["N"]);
        return histogram((0..n).map(|i| if i == 0 { whole(&v["max"]) } else { whole(&v["min"]) }));
    };
    histogram(
        bins.iter()
            .flat_map(|(k, n)| std::iter::repeat_n(k.parse::<u64>().unwrap(), whole(n) as usize)),
    )
}

fn read_samples(v: &Value, keys: [&str; 5]) -> SampleStats {
    let [min, max, mean, dev, n] = keys.map(|k| float(&v[k]));
    SampleStats { n: n as u64, min, max, mean, m2: dev * dev * (n - 1.0).max(0.0) }
}

/// The latencies by priority, in either of their kinds.
fn read_prios(v: &Value) -> Vec<ClassLatency> {
    let list = v.get("prios").and_then(Value::as_array).into_iter().flatten();
    list.map(|p| {
        let number = whole(&p["prioclass"]) << 13 | whole(&p["prio"]);
        let of = |key: &str| p.get(key).map_or_else(Histogram::new, read_latency);
        let class = IoClass::from_ioprio(number as u16);
        ClassLatency { class, clat: of("clat_ns"), lat: of("lat_ns") }
    })
    .collect()
}

fn read_dir(v: &Value) -> DirResult {
    DirResult {
        io_bytes: whole(&v["io_bytes"]),
        total_ios: whole(&v["total_ios"]),
        short_ios: whole(&v["short_ios"]),
        drop_ios: whole(&v["drop_ios"]),
        began: Time::ZERO,
        runtime: Span::from_ms(whole(&v["runtime"])),
        slat: read_latency(&v["slat_ns"]),
        clat: read_latency(&v["clat_ns"]),
        lat: read_latency(&v["lat_ns"]),
        bw_kib: read_samples(v, ["bw_min", "bw_max", "bw_mean", "bw_dev", "bw_samples"]),
        iops: read_samples(v, ["iops_min", "iops_max", "iops_mean", "iops_stddev", "iops_samples"]),
        classes: read_prios(v),
    }
}

fn pairs(v: &Value) -> Vec<(String, String)> {
    let pairs = v.as_object().into_iter().flatten();
    pairs.map(|(k, v)| (k.clone(), text(v))).collect()
}

fn counts(v: &Value, total: f64) -> [u64; 7] {
    let mut shares = v.as_object().unwrap().values().map(float);
    std::array::from_fn(|_| (shares.next().unwrap() / 100.0 * total).round() as u64)
}

/// A result that says what fio measured.
fn read(real: &Value) -> RunResult {
    let mut threads = Vec::new();
    for (i, job) in real["jobs"].as_array().unwrap().iter().enumerate() {
        let mut t = thread(&text(&job["jobname"]), i as u32 + 1);
        t.group = whole(&job["groupid"]) as u32;
        t.error = whole(&job["error"]) as i32;
        t.description = job.get("desc").map(text);
        t.options = pairs(&job["job options"]);
        t.iodepth = whole(&job["latency_depth"]) as u32;
        t.finished = Time(Span::from_ms(whole(&job["job_runtime"])).0);
        let cpu = |key: &str| Span((float(&job[key]) / 100.0 * t.finished.0 as f64) as u64);
        (t.user, t.system) = (cpu("usr_cpu"), cpu("sys_cpu"));
        t.context_switches = whole(&job["ctx"]);
        t.unified_rw_reporting = job.get("mixed").is_some();
        if t.unified_rw_reporting {
            t.dirs[0] = read_dir(&job["mixed"]);
        } else {
            t.dirs = ["read", "write", "trim"].map(|d| read_dir(&job[d]));
            t.sync = read_latency(&job["sync"]["lat_ns"]);
        }
        let dirs = t.dirs.iter();
        let ios: u64 = dirs.clone().map(|d| d.total_ios).sum();
        t.depth_ios = ios;
        t.depth_level = counts(&job["iodepth_level"], ios as f64);
        t.depth_submit = counts(&job["iodepth_submit"], 1e6);
        t.depth_complete = counts(&job["iodepth_complete"], 1e6);
        let on = |key: &str| t.options.iter().any(|(k, v)| k == key && v == "1");
        t.lat_percentiles = on("lat_percentiles");
        t.slat_percentiles = on("slat_percentiles");
        threads.push(t);
    }
    let mut result = result(threads);
    result.global_options = pairs(&real["global options"]);
    if let Some((_, list)) = result.global_options.iter().find(|(k, _)| k == "percentile_list") {
        let list: Vec<f64> = list.split(':').map(|p| p.parse().unwrap()).collect();
        result.threads.iter_mut().for_each(|t| t.percentile_list = list.clone());
    }
    result
}

/// What is not a function of what fio reports, or belongs to its machine and day.
const FREE: [&str; 15] = [
    "fio version",
    "timestamp",
    "timestamp_ms",
    "time",
    "eta",
    "elapsed",
    "min",
    "max",
    "stddev",
    "minf",
    "majf",
    "mean",
    "latency_ns",
    "latency_us",
    "latency_ms",
];

fn same_json(path: &str, real: &Value, ours: &Value) {
    let key = path.rsplit('/').next().unwrap();
    match (real, ours) {
        (Value::Object(a), Value::Object(b)) => {
            let keys = |m: &serde_json::Map<String, Value>| {
                m.keys().filter(|k| *k != "wordline").cloned().collect::<Vec<_>>()
            };
            assert_eq!(keys(a), keys(b), "{path}");
            a.iter().for_each(|(k, v)| same_json(&format!("{path}/{k}"), v, &b[k]));
        }
        (Value::Array(a), Value::Array(b)) => {
            assert_eq!(a.len(), b.len(), "{path}");
            a.iter().zip(b).for_each(|(a, b)| same_json(path, a, b));
        }
        (Value::Number(a), Value::Number(b)) => {
            assert_eq!(a.is_f64(), b.is_f64(), "{path}: {a} {b}");
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            if path.contains("/latency_") && !path.contains("latency_target") {
                // A bucket that straddles a bound counts on one side of it, however many I/Os it holds.
                assert!((a - b).abs() < 50.0, "{path}: {a} {b}");
            } else if key == "mean" && !path.contains("slat") && !path.ends_with("lat_ns/mean") {
                assert!((a - b).abs() <= 0.02 * a, "{path}: {a} {b}");
            } else if path.contains("/iodepth_") {
                // Shares that fio raised to 0.1 % make the counts read from them a little many.
                assert!((a - b).abs() < 0.5, "{path}: {a} {b}");
            } else if key.ends_with("_cpu") || key.ends_with("_dev") {
                assert!((a - b).abs() < 0.05, "{path}: {a} {b}");
            } else if !FREE.contains(&key) {
                assert!((a - b).abs() <= 2e-6, "{path}: {a} {b}");
            }
        }
        (Value::String(a), Value::String(b)) if FREE.contains(&key) => {
            assert!(!a.is_empty() && !b.is_empty());
        }
        _ => assert_eq!(real, ours, "{path}"),
    }
}

/// A line with each number as one `#`, and blanks as one.
fn skeleton(line: &str) -> String {
    let mut out = String::new();
    for c in line.chars() {
        let c = match c {
            '0'..='9' => '#',
            '.' if out.ends_with('#') => continue,
            c => c,
        };
        if (c == '#' || c == ' ') && out.ends_with(c) {
            continue;
        }
        out.push(c);
    }
    out.replace("= ", "=")
}

fn same_normal(real: &str, ours: &str) {
    // Which shares of latency exist hangs on single I/Os near a bound.
    let lines = |text: &str| -> Vec<String> {
        text.lines().filter(|l| !l.starts_with("  lat (")).map(str::to_owned).collect()
    };
    let (a, b) = (lines(real), lines(ours));
    assert_eq!(a.len(), b.len(), "fio:\n{real}\nwordline:\n{ours}");
    for (a, b) in a.iter().zip(&b) {
        // All that the histogram, the counts and the runtimes decide must be the same text.
        let exact = ["th=[", "IOPS=", "READ:", "WRITE:", "TRIM:", "MIXED:", "bw (", "iops  "]
            .iter()
            .any(|mark| a.contains(mark));
        let date = a.rfind(": pid=").map_or(a.len(), |at| at);
        let shape = |l: &str| skeleton(&l[..date.min(l.len())]);
        if exact {
            assert_eq!(a, b, "fio:\n{real}\nwordline:\n{ours}");
        } else {
            assert_eq!(shape(a), shape(b), "fio:\n{real}\nwordline:\n{ours}");
        }
    }
}

fn same_terse(real: &str, ours: &str) {
    assert_eq!(real.lines().count(), ours.lines().count());
    for (a, b) in real.lines().zip(ours.lines()) {
        let (a, b): (Vec<_>, Vec<_>) = (a.split(';').collect(), b.split(';').collect());
        assert_eq!(a.len(), b.len(), "{real}\n{ours}");
        for (i, (a, b)) in a.iter().zip(&b).enumerate().filter(|(i, _)| *i != 1) {
            // Sizes, rates, runtime and percentiles are the same; shapes are, of all.
            if i < 9 || a.contains("%=") {
                assert_eq!(a, b, "field {i}\n{real}\n{ours}");
            }
            assert_eq!(skeleton(a), skeleton(b), "field {i}\n{real}\n{ours}");
        }
    }
}

/// Runs fio, and writes the same result in its three formats.
fn compare(name: &str, args: &[&str]) -> Real {
    let dir = scratch(name);
    let mut real = fio(&dir, args);
    for _ in 0..9 {
        if !is_near_a_unit(&real.json) {
            break;
        }
        real = fio(&dir, args);
    }
    let result = read(&real.json);
    let text = fio_json(&result, true, &JsonOptions::default());
    same_json("", &real.json, &serde_json::from_str(&text).unwrap());
    let text = fio_json(&result, false, &JsonOptions { machine: false });
    assert!(!text.contains("\"bins\"") && !text.contains("\"wordline\""));
    same_normal(&fixed_jobs(&real.normal), &fixed_jobs(&fio_normal(&result)));
    same_terse(&real.terse, &fio_terse(&result));
    real
}

/// A latency has a deviation beside one above which fio's text may take the next unit. The values drawn anew here
/// have a deviation that differs a little.
fn is_near_a_unit(json: &Value) -> bool {
    match json {
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            let dev = value.as_f64().filter(|_| name == "stddev");
            let near = |dev: f64, unit: f64| (0.95..1.05).contains(&(dev / unit));
            dev.is_some_and(|dev| near(dev, 1e3) || near(dev, 1e6)) || is_near_a_unit(value)
        }),
        Value::Array(all) => all.iter().any(is_near_a_unit),
        _ => false,
    }
}

/// The number of merged threads is not in fio's JSON.
fn fixed_jobs(text: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for line in lines.iter_mut().filter(|l| l.contains(", jobs=")) {
        let at = line.find(", jobs=").unwrap();
        let end = at + line[at..].find(')').unwrap();
        line.replace_range(at..end, ", jobs=N");
    }
    lines.join("\n") + "\n"
}

#[test]
fn one_reader_is_reported_as_fio_does() {
    let real = compare("one", &["--name=a", "--ioengine=null", "--size=1m"]);
    assert_eq!(real.json["jobs"][0]["read"]["total_ios"], 256);
}

#[test]
fn a_mix_with_samples_and_all_percentiles() {
    compare(
        "mix",
        &[
            "--lat_percentiles=1",
            "--slat_percentiles=1",
            "--name=mix",
            "--ioengine=null",
            "--size=32m",
            "--rw=randrw",
            "--rate=40m",
            "--iodepth=4",
            "--bwavgtime=100",
            "--iopsavgtime=100",
            "--lat_percentiles=1",
            "--slat_percentiles=1",
        ],
    );
}

#[test]
fn threads_of_a_group_are_reported_as_one() {
    let args = ["--name=g", "--ioengine=null", "--size=8m", "--rw=randrw", "--numjobs=3"];
    compare("group", &[&args[..], &["--group_reporting"]].concat());
}

/// Which I/Os have which priority is fio's affair: what it counted is read, and its shape compared.
#[test]
fn priorities_of_single_ios() {
    let base = ["--name=p", "--ioengine=libaio", "--filename=x", "--size=2m", "--disk_util=0"];
    let of = |name: &str, more: &[&str]| compare(name, &[&base[..], more].concat());
    let real = of("prios", &["--rw=randread", "--cmdprio_percentage=40"]);
    let prios = real.json["jobs"][0]["read"]["prios"].as_array().unwrap();
    assert_eq!(prios.len(), 2);
    let mix = ["--rw=randrw", "--cmdprio_percentage=30,70", "--cmdprio_class=2", "--prioclass=3"];
    of("prios-mix", &[&mix[..], &["--cmdprio=3,5", "--lat_percentiles=1"]].concat());
    let split = "--cmdprio_bssplit=8k/20/2/4:4k/50:8k/30/3/0";
    let split = ["--rw=randread", "--bssplit=4k/50:8k/50", split];
    let real = of("prios-split", &split);
    let prios = real.json["jobs"][0]["read"]["prios"].as_array().unwrap();
    let order: Vec<_> = prios.iter().map(|p| whole(&p["prioclass"])).collect();
    assert_eq!(order, [0, 1, 2, 3], "the job's, then by block size");
    of("prios-mixed", &["--rw=randrw", "--cmdprio_percentage=20", "--unified_rw_reporting=1"]);
    // All of one priority is no list.
    let real = of("prios-all", &["--rw=randread", "--cmdprio_percentage=100"]);
    assert!(real.json["jobs"][0]["read"].get("prios").is_none());
}

/// Jobs of one group with priorities of their own have a list, too.
#[test]
fn priorities_of_jobs_in_a_group() {
    let args = ["--ioengine=null", "--size=1m", "--group_reporting", "--name=a", "--prioclass=3"];
    let real = compare("prio-group", &[&args[..], &["--name=b", "--prio=2"]].concat());
    let prios = real.json["jobs"][0]["read"]["prios"].as_array().unwrap();
    let order: Vec<_> = prios.iter().map(|p| [whole(&p["prioclass"]), whole(&p["prio"])]).collect();
    assert_eq!(order, [[3, 0], [2, 2]]);
    // The same from the threads of the group, each with one priority.
    let mut threads = Vec::new();
    for (i, p) in prios.iter().enumerate() {
        let number = whole(&p["prioclass"]) << 13 | whole(&p["prio"]);
        let mut t = thread(["a", "b"][i], i as u32 + 1);
        (t.group_reporting, t.class) = (true, IoClass::from_ioprio(number as u16));
        (t.dirs[0].clat, t.dirs[0].total_ios) = (read_latency(&p["clat_ns"]), 256);
        threads.push(t);
    }
    let text = fio_json(&result(threads), true, &JsonOptions::default());
    let ours: Value = serde_json::from_str(&text).unwrap();
    same_json(
        "/jobs/read/prios",
        &real.json["jobs"][0]["read"]["prios"],
        &ours["jobs"][0]["read"]["prios"],
    );
}

#[test]
fn groups_one_after_another() {
    let args = ["--name=a", "--ioengine=null", "--size=1m", "--rw=randtrim", "--numjobs=2"];
    let next = ["--name=b", "--ioengine=null", "--size=2m", "--stonewall", "--bs=8k"];
    compare("stonewall", &[&args[..], &next].concat());
}

#[test]
fn unified_directions_are_reported_as_mixed() {
    let args = ["--name=u", "--ioengine=null", "--size=4m", "--rw=randrw"];
    compare("unified", &[&args[..], &["--unified_rw_reporting=1"]].concat());
}

#[test]
fn syncs_descriptions_and_errors_counted() {
    compare(
        "sync",
        &[
            "--name=s",
            "--ioengine=null",
            "--size=1m",
            "--rw=randrw",
            "--fsync=4",
            "--description=as it was",
            "--continue_on_error=all",
        ],
    );
}

#[test]
fn a_jobs_own_percentiles_are_reported() {
    let args = ["--name=p", "--ioengine=null", "--size=8m", "--rw=randread"];
    compare("list", &[&["--percentile_list=50:99.9:99.95:99.9999:100"], &args[..]].concat());
}

/// Counts at which a percentage is hit exactly, so that the rounding of fio's arithmetic decides.
#[test]
fn percentiles_at_exact_hits() {
    for ios in [100, 200, 1_000, 2_000, 2_500, 5_000, 10_000, 20_000] {
        let size = format!("--size={}k", ios * 4);
        let dir = scratch("exact");
        let list = "--percentile_list=0.1:1:5:10:15:27:30:35:54:55:57:60:70:90:95:99:99.7:99.9:99.95:99.99";
        let args = [list, "--name=e", "--ioengine=null", "--rw=read", &size];
        let real = fio(&dir, &args);
        let ours = fio_json(&read(&real.json), true, &JsonOptions::default());
        let ours: Value = serde_json::from_str(&ours).unwrap();
        let at = |v: &Value| v["jobs"][0]["read"]["clat_ns"]["percentile"].clone();
        assert_eq!(at(&real.json), at(&ours), "{ios} I/Os");
        assert_eq!(real.json["jobs"][0]["read"]["total_ios"], ios);
    }
}

/// fio's size texts against ours, for sizes near its roundings.
#[test]
fn sizes_as_fio_writes_them() {
    for kib in [4u64, 1_020, 1_024, 4_092, 9_996, 10_000, 10_236, 13_308, 102_396, 104_440] {
        let dir = scratch("sizes");
        let size = format!("--size={kib}k");
        let real = fio(&dir, &["--name=a", "--ioengine=null", &size]);
        let ours = fio_normal(&read(&real.json));
        let line = |text: &str| text.lines().find(|l| l.contains("READ:")).unwrap().to_owned();
        assert_eq!(line(&real.normal), line(&ours), "{kib} KiB");
    }
}

#[test]
fn threads_merge_as_fio_merges_them() {
    let dir = scratch("merge");
    let args = ["--name=m", "--ioengine=null", "--size=2m", "--rw=randrw", "--numjobs=3"];
    let real = fio(&dir, &args);
    let mut result = read(&real.json);
    for (i, t) in result.threads.iter_mut().enumerate() {
        t.group_reporting = true;
        t.dirs[0].runtime = Span::from_ms(10 * (i as u64 + 1));
        t.dirs[0].bw_kib = SampleStats { n: 2, min: 100.0, max: 300.0, mean: 200.0, m2: 20_000.0 };
        t.name = format!("m{i}");
        t.options.push(("last".to_owned(), i.to_string()));
        t.error = [0, 5, 28][i];
    }
    let ours = fio_json(&result, true, &JsonOptions::default());
    let ours: Value = serde_json::from_str(&ours).unwrap();
    let [job] = &ours["jobs"].as_array().unwrap()[..] else { panic!("one entry") };
    // The first member's name, the last one's options, the first error.
    assert_eq!(job["jobname"], "m0");
    assert_eq!(job["job options"]["last"], "2");
    assert_eq!(job["error"], 5);
    let read = &job["read"];
    let of = |key: &str| -> Vec<u64> {
        let jobs = real.json["jobs"].as_array().unwrap();
        jobs.iter().map(|j| whole(&j["read"][key])).collect()
    };
    let bytes: u64 = of("io_bytes").iter().sum();
    assert_eq!(whole(&read["io_bytes"]), bytes);
    assert_eq!(whole(&read["total_ios"]), of("total_ios").iter().sum::<u64>());
    assert_eq!(read["runtime"], 30);
    assert_eq!(whole(&read["bw_bytes"]), bytes * 1_000 / 30);
    // Bandwidths of threads that run together add up; samples are as many as there were.
    assert_eq!(read["bw_mean"], 600.0);
    assert_eq!((whole(&read["bw_min"]), whole(&read["bw_max"])), (300, 900));
    assert_eq!(read["bw_samples"], 6);
    assert_eq!(float(&read["bw_dev"]), ((60_000.0f64 / 5.0).sqrt() * 1e6).round() / 1e6);
    let merged = read["clat_ns"]["bins"].as_object().unwrap();
    assert_eq!(merged.values().map(whole).sum::<u64>(), whole(&read["total_ios"]));
    assert!(fio_normal(&result).contains(
        "m0: (groupid=0, jobs=3): err= 5 (func=io_u error, error=Input/output error): pid=1: "
    ));
}

/// Error blocks have fio's shape, but for the place in fio's source.
#[test]
fn an_error_ends_a_job() {
    let args = ["--name=e", "--ioengine=sync", "--filename=/dev/full", "--size=1m", "--rw=write"];
    let output = Command::new("fio").args(args).output().expect("apt-get install fio");
    let real = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut t = thread("e", 1);
    t.error = 28;
    t.dirs[1].total_ios = 1;
    t.depth_ios = 1;
    t.depth_level[0] = 1;
    let ours = fio_normal(&result(vec![t]));
    let block = |text: &str| -> Vec<String> {
        let lines = text.lines().skip_while(|l| !l.starts_with("e: (groupid"));
        lines.map(|l| skeleton(l.split(": pid=").next().unwrap())).collect()
    };
    let (mut real, ours) = (block(&real), block(&ours));
    let from = real[0].find("file:").unwrap();
    let to = real[0].find("func=").unwrap();
    real[0].replace_range(from..to, "");
    assert_eq!(real, ours);
}

#[test]
fn fios_own_reader_takes_our_bins() {
    let dir = scratch("clat2csv");
    let mut t = thread("a", 1);
    for (i, dir) in t.dirs.iter_mut().enumerate().take(2) {
        let values = |k: u64| histogram((0..1_000).map(move |n| k + n * n * (i as u64 + 1)));
        (dir.slat, dir.clat, dir.lat) = (values(500), values(60_000), values(61_000));
        (dir.total_ios, dir.io_bytes) = (1_000, 4_096_000);
        dir.runtime = Span::from_ms(10);
    }
    (t.slat_percentiles, t.lat_percentiles) = (true, true);
    let mut other = thread("b", 2);
    other.dirs[2].clat = histogram([5, 5, 7]);
    let json = fio_json(&result(vec![t, other]), true, &JsonOptions::default());
    std::fs::write(dir.join("out.json"), &json).unwrap();
    let tool = "fio_jsonplus_clat2csv";
    assert!(run(tool, &dir, &["out.json", "out.csv"]).contains("out_job1.csv generated"));
    let validated = run(tool, &dir, &["out.json", "out.csv", "--validate"]);
    assert_eq!(validated.matches(" validated").count(), 2, "{validated}");

    let json: Value = serde_json::from_str(&json).unwrap();
    let csv = std::fs::read_to_string(dir.join("out_job0.csv")).unwrap();
    let mut rows = csv.lines().map(|l| l.split(',').map(str::trim).collect::<Vec<_>>());
    let header = rows.next().unwrap();
    let rows: Vec<Vec<&str>> = rows.collect();
    for dir in ["read", "write"] {
        for lat in ["slat_ns", "clat_ns", "lat_ns"] {
            let name = format!("{dir}_{lat}_percentile");
            let column = header.iter().position(|h| *h == name).unwrap();
            let points: Vec<(u64, f64)> = rows
                .iter()
                .filter(|r| !r[column].is_empty())
                .map(|r| (r[0].parse().unwrap(), r[column].parse().unwrap()))
                .collect();
            assert_eq!(points.last().unwrap().1, 1.0);
            for (percent, value) in json["jobs"][0][dir][lat]["percentile"].as_object().unwrap() {
                let percent: f64 = percent.parse().unwrap();
                let at = points.iter().find(|(_, share)| *share >= percent / 100.0).unwrap();
                assert_eq!(at.0, whole(value), "{name} {percent}");
            }
        }
    }
}

#[test]
fn logs_as_fio_writes_them() {
    for (offset, class) in [(false, 0), (true, 0), (true, 1)] {
        let dir = scratch("logs");
        let (offsets, prio) = (format!("--log_offset={}", u8::from(offset)), class.to_string());
        let mut args = vec!["--name=l", "--ioengine=null", "--size=64k", "--rw=randrw", &offsets];
        args.extend(["--write_lat_log=x", "--write_bw_log=x", "--write_iops_log=x"]);
        let option = format!("--prioclass={prio}");
        if class > 0 {
            args.push(&option);
        }
        run("fio", &dir, &args);
        let kinds = [LogKind::Lat, LogKind::Clat, LogKind::Slat, LogKind::Bw, LogKind::Iops];
        for kind in kinds {
            let mut log = Log {
                prefix: "x".to_owned(),
                kind,
                number: Some(1),
                with_offset: offset,
                with_prio: false,
                lines: Vec::new(),
                hist: Vec::new(),
            };
            let real = std::fs::read_to_string(dir.join(log_file_name(&log))).unwrap();
            for line in real.lines() {
                let n: Vec<u64> = line.split(", ").map(|n| n.parse().unwrap()).collect();
                assert_eq!(n.len(), if offset { 6 } else { 5 }, "{line}");
                log.lines.push(LogLine {
                    at: Time(n[0] * 1_000_000 + 999_999),
                    value: n[1],
                    ddir: Ddir::RW[n[2] as usize],
                    bs: n[3] as u32,
                    offset: if offset { n[4] } else { 7 },
                    class: IoClass::from_ioprio((class as u16) << 13 | 4),
                });
            }
            assert_eq!(log_text(&log), real);
            assert_eq!(real.is_empty(), kind == LogKind::Slat, "{kind:?}");
        }
    }
}

/// Lines fio 3.33 printed, and the values behind them.
#[test]
fn lines_fio_printed() {
    let mut t = thread("a", 1);
    t.dirs[0] = DirResult {
        io_bytes: 1 << 20,
        total_ios: 256,
        runtime: Span::from_ms(1),
        clat: histogram([15; 63].into_iter().chain([25; 192]).chain([8_054])),
        bw_kib: SampleStats {
            n: 132,
            min: 462_406.0,
            max: 178_086_956.0,
            mean: 1_426_854.5,
            m2: 0.0,
        },
        iops: SampleStats { n: 9, min: 2_558.0, max: 2_564.0, mean: 2_561.333_333, m2: 0.0 },
        ..DirResult::default()
    };
    t.depth_ios = 256;
    t.depth_level[0] = 256;
    let text = fio_normal(&result(vec![t]));
    for line in [
        "a: (groupid=0, jobs=1): err= 0: pid=1: Thu Jan  1 00:00:00 1970",
        "  read: IOPS=256k, BW=1000MiB/s (1049MB/s)(1024KiB/1msec)",
        "  lat (nsec)   : 20=24.61%, 50=75.00%",
        "  lat (usec)   : 10=0.39%",
        "   bw (  MiB/s): min=  451, max=173913, per=100.00%, avg=1393.41, stdev= 0.00, samples=132",
        "   iops        : min= 2558, max= 2564, avg=2561.33, stdev= 0.00, samples=9",
        "  IO depths    : 1=100.0%, 2=0.0%, 4=0.0%, 8=0.0%, 16=0.0%, 32=0.0%, >=64=0.0%",
        "     submit    : 0=0.0%, 4=0.0%, 8=0.0%, 16=0.0%, 32=0.0%, 64=0.0%, >=64=0.0%",
        "     issued rwts: total=256,0,0,0 short=0,0,0,0 dropped=0,0,0,0",
        "     latency   : target=0, window=0, percentile=100.00%, depth=1",
        "   READ: bw=1000MiB/s (1049MB/s), 1000MiB/s-1000MiB/s (1049MB/s-1049MB/s), \
         io=1024KiB (1049kB), run=1-1msec",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
}

/// Rates come from nanoseconds: as fio's for long runs, and better for short ones.
#[test]
fn short_runs_keep_their_precision() {
    let at = |ns: u64| {
        let mut t = thread("a", 1);
        t.dirs[0].total_ios = 1_000;
        t.dirs[0].io_bytes = 4_096_000;
        t.dirs[0].runtime = Span(ns);
        let text = fio_json(&result(vec![t]), false, &JsonOptions::default());
        let json: Value = serde_json::from_str(&text).unwrap();
        let read = &json["jobs"][0]["read"];
        (float(&read["iops"]), whole(&read["bw_bytes"]), whole(&read["runtime"]))
    };
    assert_eq!(at(1_250_000), (800_000.0, 3_276_800_000, 2));
    assert_eq!(at(0), (0.0, 0, 0));
    for ns in [1_000_000_001, 1_000_999_999, 7_123_456_789] {
        let (iops, _, ms) = at(ns);
        let fios = 1_000.0 * 1_000.0 / ms as f64;
        assert!((iops - fios).abs() <= 0.001 * fios, "{ns}: {iops} {fios}");
    }
}
