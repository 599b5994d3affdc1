//! Recorded results of a wide set of runs: a change of the code that is to change no result shows here
//! that it changed none. `WORDLINE_GOLDENS=record` writes the record anew.
//!
//! A line is a run, and on it a word is a part of the run's result with a hash of it. `events` is the
//! sequence of all events with their times. A part that the record does not name is not compared, so
//! that a new part of the result needs no new record.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use wordline_base::Layer;
use wordline_check::scenarios::{programs, scenarios};
use wordline_check::{Age, Case, Outcome};

const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/goldens.txt");

const LOG: &str = "fio version 2 iolog
/dev/nvme0n1 add
/dev/nvme0n1 open
/dev/nvme0n1 write 0 4096
/dev/nvme0n1 write 1048576 65536
/dev/nvme0n1 read 0 8192
/dev/nvme0n1 wait 300
/dev/nvme0n1 read 1048576 65536
/dev/nvme0n1 trim 0 4096
/dev/nvme0n1 sync 0 0
/dev/nvme0n1 read 4096 4096
/dev/nvme0n1 close
";

const READERS_AND_A_WRITER: &str = "
[global]
bs=4k
direct=1
norandommap
[r]
rw=randread
iodepth=8
numjobs=2
number_ios=600
[w]
rw=randwrite
iodepth=8
number_ios=600
fsync=100
[t]
rw=trim
bs=64k
number_ios=10
";

/// Deep, in order, verified, with rates and pauses.
const SHAPES: &str = "
[global]
direct=1
size=8m
[deep]
rw=randread
bs=4k
iodepth=64
number_ios=1500
[large]
rw=rw
bs=128k
iodepth=4
number_ios=100
[paced]
rw=randwrite
bs=8k
rate_iops=20k
number_ios=200
[checked]
offset=8m
rw=randwrite
bs=4k
number_ios=200
verify=crc32c
";

/// Every run of the record, by name.
fn runs() -> Vec<(String, Case<'static>)> {
    let mut runs = Vec::new();
    let numbered = |kind: &str, cases: Vec<Case<'static>>| {
        let named = |(i, case): (usize, Case<'static>)| {
            (format!("{kind}-{i:02}-{}-{}", case.device, case.stack), case)
        };
        cases.into_iter().enumerate().map(named).collect::<Vec<_>>()
    };
    runs.extend(numbered("scenario", scenarios()));
    runs.extend(numbered("program", programs()));
    let small = |device: &'static str, job: &'static str| {
        Case::new(device, job).set("nand.blocks=64").set("nand.pages_per_block=8").age(Age::Filled)
    };
    for stack in [
        "none",
        "linux-libaio",
        "linux-pvsync2",
        "linux-io_uring",
        "interrupt",
        "poll",
        "hybrid",
        "spdk",
        "nbd-kernel",
        "nbd-spdk",
    ] {
        for device in ["z-ssd-small", "intel-750-small"] {
            runs.push((
                format!("stack-{stack}-{device}"),
                small(device, READERS_AND_A_WRITER).stack(stack),
            ));
        }
    }
    for stride in [0, 2, 4, 6] {
        for on in ["device", "host"] {
            let case = small("cnex-small", READERS_AND_A_WRITER)
                .age(Age::Random)
                .set(&format!("ftl.stride={stride}"))
                .set("ftl.over_provisioning=35")
                .set(&format!("ftl.placement={on}"));
            runs.push((format!("stride-{stride}-{on}"), case));
        }
    }
    for media in ["bics", "mram", "optane", "v-nand", "xl-flash", "z-nand"] {
        let case = small("z-ssd-small", READERS_AND_A_WRITER).set(&format!("nand.media={media}"));
        runs.push((format!("media-{media}"), case));
    }
    for device in ["cnex-small", "z-ssd-small", "intel-750-small"] {
        runs.push((format!("shapes-{device}"), small(device, SHAPES)));
        runs.push((format!("fresh-{device}"), small(device, SHAPES).age(Age::Fresh)));
        let job = "[log]\nread_iolog=log\niodepth=4\n";
        runs.push((format!("log-{device}"), Case { replay: LOG, ..small(device, job) }));
        runs.push((format!("steady-{device}"), Case::new(device, SHAPES).age(Age::Steady)));
    }
    runs
}

/// FNV-1a, cut to the 40 bits that a word of the record shows.
fn hash(text: &str) -> String {
    let mut hash = 0xCBF2_9CE4_8422_2325u64;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
    }
    format!("{:010x}", hash >> 24)
}

/// Splits over layers without the last of these that are of bridges alone.
fn without_bridges(mut value: Value) -> Value {
    let bridge = Layer::Bridge as usize;
    match &mut value {
        Value::Array(split)
            if split.len() == Layer::ALL.len()
                && split[bridge..].iter().all(|ns| ns.as_f64() == Some(0.0)) =>
        {
            split.truncate(bridge);
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| *item = without_bridges(item.take()));
        }
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| *field = without_bridges(field.take()));
        }
        _ => {}
    }
    value
}

/// The parts of a result, each as a hash.
fn parts(outcome: &Outcome) -> BTreeMap<String, String> {
    let r = &outcome.result;
    let mut parts = BTreeMap::new();
    let mut put = |name: &str, text: String| parts.insert(name.to_string(), hash(&text));
    put("events", outcome.events.to_string());
    put("ended", format!("{:?}", r.ended));
    put("prepared", r.prepared.clone());
    put("warnings", r.warnings.join("\n"));
    let mut threads = String::new();
    for t in &r.threads {
        let _ = write!(threads, "{} {} {:?} {:?}", t.name, t.error, t.started, t.finished);
        let _ = write!(threads, " {:?} {:?} {}", t.user, t.system, t.context_switches);
        let _ = write!(threads, " {:?} {:?}", t.depth_level, t.sync);
        for d in &t.dirs {
            let _ = write!(threads, " {} {} {:?}", d.io_bytes, d.total_ios, d.runtime);
            let _ = write!(threads, " {:?} {:?} {:?}", d.slat, d.clat, d.lat);
        }
    }
    put("threads", threads);
    if let Some(app) = &r.app {
        put("app", format!("{app:?}"));
    }
    let machine = serde_json::to_value(&r.machine).expect("a result is plain data");
    for (name, value) in machine.as_object().expect("a struct").iter() {
        match name.as_str() {
            // A counter that nothing counted says no more than none.
            "counters" => {
                let counted: Vec<_> =
                    r.machine.totals.counters.iter().filter(|(_, n)| *n > 0).collect();
                put(name, format!("{counted:?}"))
            }
            // Nor does a layer of a bridge where there is none.
            "layers" => put(name, without_bridges(value.clone()).to_string()),
            _ => put(name, value.to_string()),
        };
    }
    parts
}

fn line(name: &str, parts: &BTreeMap<String, String>) -> String {
    let words = parts.iter().map(|(part, hash)| format!(" {part}={hash}"));
    format!("{name}{}\n", words.collect::<String>())
}

#[test]
fn recorded_runs_give_the_results_of_the_record() {
    let runs = runs();
    assert!(runs.len() >= 60, "{} runs", runs.len());
    let recording = std::env::var("WORDLINE_GOLDENS").is_ok_and(|v| v == "record");
    let record = std::fs::read_to_string(RECORD).unwrap_or_default();
    let mut known = BTreeMap::new();
    for line in record.lines() {
        let words = line.split(' ');
        let parts: BTreeMap<_, _> = words
            .filter_map(|word| word.split_once('='))
            .map(|(part, hash)| (part.to_string(), hash.to_string()))
            .collect();
        known.insert(line.split(' ').next().unwrap_or_default().to_string(), parts);
    }
    let (mut text, mut moved) = (String::new(), Vec::new());
    for (name, case) in &runs {
        let outcome = case.run().unwrap_or_else(|e| panic!("{name}: {e}"));
        let now = parts(&outcome);
        text += &line(name, &now);
        if recording {
            continue;
        }
        match known.remove(name) {
            None => moved.push(format!("{name}: not in the record")),
            Some(then) => {
                let other = |part: &&String| now.get(*part) != then.get(*part);
                let parts: Vec<&String> = then.keys().filter(other).collect();
                if !parts.is_empty() {
                    moved.push(format!("{name}: {parts:?}"));
                }
            }
        }
    }
    if recording {
        std::fs::write(RECORD, text).expect("the record can be written");
        return;
    }
    moved.extend(known.keys().map(|name| format!("{name}: in the record, but not run")));
    assert!(
        moved.is_empty(),
        "{} of {} runs moved, part by part:\n{}\nIf that was meant, say in the commit what moved and \
         why, and record anew: WORDLINE_GOLDENS=record cargo test -p wordline-check --test check goldens::",
        moved.len(),
        runs.len(),
        moved.join("\n")
    );
}
