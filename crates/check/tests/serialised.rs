//! A result as data: every part of it serialises, and its counts are those of the result.

use serde_json::Value;
use wordline_base::Histogram;
use wordline_check::{Age, Case};

/// With logs of every kind, a log of I/Os, classes, syncs, and a look for a steady rate.
const JOB: &str = "
[all]
ioengine=libaio
rw=randrw
iodepth=8
norandommap
number_ios=2000
fsync=16
cmdprio_percentage=30
cmdprio_class=1
write_lat_log=l
write_bw_log=b
write_hist_log=h
log_hist_msec=1
write_iolog=all.log
steadystate=iops:30%
steadystate_duration=2
";

fn same(json: &Value, histogram: &Histogram, what: &str) {
    assert_eq!(json["count"], histogram.len(), "{what}");
    assert_eq!(json["max"], histogram.max(), "{what}");
    let buckets = json["buckets"].as_array().expect(what);
    let counted: u64 = buckets.iter().filter_map(|b| b[1].as_u64()).sum();
    assert_eq!(counted, histogram.len(), "{what}");
}

fn len(json: &Value, expected: usize, what: &str) {
    assert_eq!(json.as_array().map(Vec::len), Some(expected), "{what}");
}

#[test]
fn every_part_of_a_result_serialises() {
    let mut case = Case::new("intel-750-small", JOB)
        .app("rocksdb-readwhilewriting")
        .age(Age::Filled)
        .set("app.lsm.keys=200000")
        .set("app.lsm.write_buffer_size=1000000")
        .set("app.lsm.readers=2")
        .set("app.lsm.page_cache=8388608")
        .set("app.ramp_time=0ns")
        .set("app.runtime=50ms")
        .with("kv-read", "records=1000");
    case.options.slowest = 5;
    case.options.tracks = Some(1000);
    let result = case.run().unwrap().result;
    let json = serde_json::to_value(&result).expect("a result serialises");

    let none: Vec<&String> = json
        .as_object()
        .expect("an object")
        .iter()
        .filter(|(_, value)| value.is_null() || value.as_array().is_some_and(Vec::is_empty))
        .map(|(key, _)| key)
        .collect();
    let absent = ["global_options", "notes", "trace_error", "warnings"];
    assert!(none.iter().all(|key| absent.contains(&key.as_str())), "{none:?}");

    len(&json["threads"], result.threads.len(), "threads");
    for (thread, json) in result.threads.iter().zip(json["threads"].as_array().unwrap()) {
        assert_eq!(json["name"], thread.name.as_str());
        assert_eq!(json["served"], thread.served);
        assert_eq!(json["finished_ns"], thread.finished.0);
        assert_eq!(json["user_ns"], thread.user.0);
        same(&json["sync_ns"], &thread.sync, "sync");
        for (dir, json) in thread.dirs.iter().zip(json["dirs"].as_array().unwrap()) {
            assert_eq!(
                (&json["total_ios"], &json["io_bytes"]),
                (&dir.total_ios.into(), &dir.io_bytes.into())
            );
            assert_eq!(json["runtime_ns"], dir.runtime.0);
            same(&json["slat_ns"], &dir.slat, "slat");
            same(&json["clat_ns"], &dir.clat, "clat");
            same(&json["lat_ns"], &dir.lat, "lat");
            assert_eq!(json["iops"]["n"], dir.iops.n);
            len(&json["classes"], dir.classes.len(), "classes");
            for (class, json) in dir.classes.iter().zip(json["classes"].as_array().unwrap()) {
                same(&json["lat_ns"], &class.lat, "lat of a class");
            }
        }
        len(&json["logs"], thread.logs.len(), "logs");
        for (log, json) in thread.logs.iter().zip(json["logs"].as_array().unwrap()) {
            len(&json["lines"], log.lines.len(), "lines");
            len(&json["hist"], log.hist.len(), "histograms");
        }
    }
    let job = &result.threads[0];
    assert!(!job.sync.is_empty() && !job.dirs[0].classes.is_empty() && job.steady.is_some());
    assert!(
        job.logs.iter().any(|l| !l.hist.is_empty()) && job.logs.len() == 5,
        "{}",
        job.logs.len()
    );
    assert_eq!(json["threads"][0]["steady"]["duration_s"], 2);

    assert_eq!(json["machine"]["served"], result.machine.served);
    assert_eq!(json["machine"]["integrity"]["checked"], result.machine.totals.integrity.checked);
    let app = result.app.as_ref().expect("a program ran");
    assert_eq!(
        (&json["app"]["begun"], &json["app"]["finished"]),
        (&app.begun.into(), &app.finished.into())
    );
    for (op, json) in app.ops.iter().zip(json["app"]["ops"].as_array().unwrap()) {
        same(&json["latency"], &op.latency, op.name);
    }
    let with = &result.with[0];
    assert_eq!(
        (&json["with"][0]["name"], &json["with"][0]["finished"]),
        (&with.name.as_str().into(), &with.finished.into())
    );
    len(&json["turnarounds"], result.turnarounds.len(), "turnarounds");
    for (t, json) in result.turnarounds.iter().zip(json["turnarounds"].as_array().unwrap()) {
        assert_eq!(
            (&json["program"], &json["operation"]),
            (&t.program.as_str().into(), &t.operation.into())
        );
        same(&json["turnaround_ns"], &t.total, t.operation);
    }
    for (life, json) in result.slowest.iter().zip(json["slowest"].as_array().unwrap()) {
        let spent: u64 =
            json["spent_ns"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        assert_eq!(spent, life.latency().0);
        assert_eq!(json["ddir"], life.ddir.name());
        len(&json["steps"], life.steps().len(), "steps");
    }
    let tracks = result.tracks.as_ref().expect("slices were kept");
    len(&json["tracks"]["slices"], tracks.slices.len(), "slices");
    assert_eq!(json["tracks"]["dropped"], tracks.dropped);
    let (log, told) = (&result.iologs[0], &json["iologs"][0]);
    assert_eq!(told["path"], log.path.as_str());
    assert_eq!(told["names"], serde_json::json!(["drive"]));
    len(&told["requests"], log.requests.len(), "requests");
    assert_eq!(told["requests"][0]["len_bytes"], log.requests[0].len);
}
