//! Any result can be written, in every format, and reads back.

use crate::common::{Random, result, thread};
use serde_json::Value;
use std::collections::BTreeMap;
use wordline_base::{Ddir, Layer, Lives, Time, Why};
use wordline_report::*;
use wordline_sim::{ArrayResult, DelayTime, LayerRow, LayerTable, RunResult};

fn timeline(result: &RunResult) -> Value {
    let mut bytes = Vec::new();
    timeline_json(result, &mut bytes).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// Names of processes and threads; and that each slice has both, and each asynchronous begin its end.
fn check_timeline(result: &RunResult) -> (BTreeMap<u64, String>, BTreeMap<(u64, u64), String>) {
    let drawing = timeline(result);
    let (mut processes, mut threads) = (BTreeMap::new(), BTreeMap::new());
    let mut open = BTreeMap::new();
    let mut slices = 0;
    for event in drawing["traceEvents"].as_array().unwrap() {
        let id = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        let name = || event["args"]["name"].as_str().unwrap().to_owned();
        match (event["ph"].as_str().unwrap(), event["name"].as_str().unwrap()) {
            ("M", "process_name") => {
                assert_eq!(processes.insert(id.0, name()), None);
            }
            ("M", "thread_name") => {
                assert_eq!(threads.insert(id, name()), None);
            }
            ("M", _) => assert!(event["args"]["sort_index"].is_u64()),
            (kind, _) => {
                assert!(processes.contains_key(&id.0) && threads.contains_key(&id), "{event}");
                assert!(event["ts"].as_f64().unwrap() >= 0.0);
                match kind {
                    "X" => slices += u32::from(event["dur"].as_f64().unwrap() >= 0.0),
                    "b" => {
                        let at = event["ts"].as_f64().unwrap();
                        assert!(open.insert(event["id"].to_string(), (id, at)).is_none());
                    }
                    "e" => {
                        let begun = open.remove(&event["id"].to_string()).unwrap();
                        assert_eq!(begun.0, id);
                        assert!(begun.1 <= event["ts"].as_f64().unwrap());
                        slices += 1;
                    }
                    other => panic!("event of kind {other}"),
                }
            }
        }
    }
    assert!(open.is_empty());
    assert_eq!(slices as usize, result.tracks.as_ref().map_or(0, |t| t.slices.len()));
    (processes, threads)
}

#[test]
fn nothing_panics_and_all_of_it_parses() {
    for seed in 0..400 {
        let result = Random(seed).result();
        for plus in [false, true] {
            for machine in [false, true] {
                let text = fio_json(&result, plus, &JsonOptions { machine });
                let json: Value = serde_json::from_str(&text).unwrap_or_else(|e| {
                    panic!("seed {seed}: {e}\n{text}");
                });
                assert_eq!(json.get("wordline").is_some(), machine);
                assert!(json["jobs"].is_array());
            }
        }
        let fields: Vec<_> =
            fio_terse(&result).lines().map(|line| line.split(';').count()).collect();
        assert!(fields.iter().all(|&n| n >= 80), "seed {seed}: {fields:?}");
        assert!(fio_normal(&result).starts_with('\n'), "seed {seed}");
        let text = explain_text(&result);
        let preface = preface_text(&result);
        for line in text.lines().chain(preface.lines()) {
            let word = line.get(19..).is_none_or(|words| !words.trim().contains(' '));
            assert!(word || line.chars().count() <= EXPLAIN_COLUMNS, "seed {seed}:\n{text}");
        }
        // What was run and what is to be known stand there to their last word.
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let (text, preface) = (words(&text), words(&preface));
        for whole in result.notes.iter().chain([&result.provenance.workload]) {
            assert!(text.contains(&words(whole)), "seed {seed}: {whole}");
        }
        for whole in result.warnings.iter().chain([&result.prepared]) {
            assert!(preface.contains(&words(whole)), "seed {seed}: {whole}");
        }
        slowest_text(&result, 3);
        check_timeline(&result);
        for log in result.threads.iter().flat_map(|t| &t.logs) {
            let mut streamed = Vec::new();
            write_log(log, &mut streamed).unwrap();
            assert_eq!(log_text(log).as_bytes(), streamed);
            let commas = if log.with_offset { 5 } else { 4 };
            assert!(log_text(log).lines().all(|l| l.matches(", ").count() == commas));
        }
    }
}

#[test]
fn equal_results_print_equal_bytes() {
    for seed in 0..20 {
        let (a, b) = (Random(seed).result(), Random(seed).result());
        let all = |r: &RunResult| {
            let mut drawing = Vec::new();
            timeline_json(r, &mut drawing).unwrap();
            let json = fio_json(r, true, &JsonOptions::default());
            let text = [fio_normal(r), fio_terse(r), explain_text(r), slowest_text(r, 9)].concat();
            (drawing, json, text)
        };
        assert_eq!(all(&a), all(&b), "seed {seed}");
    }
}

#[test]
fn a_run_without_anything() {
    let empty = result(Vec::new());
    assert_eq!(fio_normal(&empty), "\n");
    assert_eq!(fio_terse(&empty), "");
    let json: Value =
        serde_json::from_str(&fio_json(&empty, true, &JsonOptions::default())).unwrap();
    assert_eq!(json["jobs"], Value::Array(Vec::new()));
    assert_eq!(slowest_text(&empty, 10), "No slow I/Os were kept.\n");
    check_timeline(&empty);
    assert!(explain_text(&empty).lines().count() > 2);

    let idle = result(vec![thread("idle", 1)]);
    assert_eq!(fio_normal(&idle), "\n\nRun status group 0 (all jobs):\n");
}

#[test]
fn tracks_are_named_after_what_they_draw() {
    let mut result = result(vec![thread("reader", 1)]);
    result.tracks = Some(Box::new(Random(1).slices(500)));
    let (processes, threads) = check_timeline(&result);
    let processes: Vec<_> = processes.values().map(String::as_str).collect();
    // In the order of drawing.
    let shared = ["link", "firmware", "channels", "LUNs"];
    assert_eq!(processes[..5], ["job 0: reader", "job 1", "job 2", "job 3", "host cores"]);
    assert_eq!(processes[5..9], ["queue 0", "queue 1", "queue 2", "queue 3"]);
    assert_eq!(processes[9..], shared);
    let names: Vec<_> = threads.values().map(String::as_str).collect();
    for name in ["core 3", "queue 1", "to device", "firmware core 2", "channel 0", "LUN 3"] {
        assert!(names.contains(&name), "{name}");
    }
}

#[test]
fn times_in_the_drawing_are_exact() {
    let mut result = result(Vec::new());
    let mut tracks = wordline_base::Tracks::new(10);
    tracks.add(wordline_base::track::Slice {
        track: wordline_base::track::Track::Lun(7),
        node: 0,
        name: "program",
        begin: Time(1_234_567_890_123_456),
        end: Time(1_234_567_890_123_457),
        io: 5,
    });
    result.tracks = Some(Box::new(tracks));
    let mut bytes = Vec::new();
    timeline_json(&result, &mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.contains(r#""ts":1234567890123.456,"dur":0.001,"args":{"io":5}}"#), "{text}");
}

#[test]
fn the_steps_of_a_life_sum_to_its_latency() {
    for seed in 0..50 {
        let mut lives = Lives::default();
        let life = Random(seed).life(&mut lives);
        let latency = life.latency().0;
        let mut result = result(Vec::new());
        result.slowest.push(life);
        let text = slowest_text(&result, 1);
        let ns = |text: &str| text.replace('.', "").parse::<u64>().unwrap();
        let mut at = 0;
        for line in text.lines().skip(2).take_while(|line| !line.is_empty()) {
            let mut words = line.split_whitespace();
            assert_eq!(ns(words.next().unwrap()), at, "seed {seed}:\n{text}");
            at += ns(words.next().unwrap());
            assert!(line.len() <= EXPLAIN_COLUMNS, "{line}");
        }
        assert_eq!(at, latency, "seed {seed}:\n{text}");
    }
}

#[test]
fn places_are_in_words() {
    let mut lives = Lives::default();
    let io = lives.begin(0, Ddir::Read, 8192, 4096, Time(1_000));
    lives.mark(io, Layer::Syscall, Why::Work, 3, Time(2_500));
    lives.mark(io, Layer::QueueWait, Why::Doorbell, 1, Time(3_000));
    lives.mark(io, Layer::LunWait, Why::BehindErase, 17, Time(3_003_000));
    lives.mark(io, Layer::Transfer, Why::Data, 2, Time(3_013_000));
    let mut result = result(vec![thread("reader", 1)]);
    result.slowest.push(lives.end(io));
    assert_eq!(
        slowest_text(&result, 5),
        "\
#1 read of 4096 bytes at offset 8192, job 0 (reader): 3012.000 usec, from 1.000 usec on
           at          usec   share  layer        why                       place
        0.000         1.500    0.0%  system call  work                      core 3
        1.500         0.500    0.0%  queue wait   doorbell                  queue 1
        2.000      3000.000   99.6%  LUN wait     behind an erase           LUN 17
     3002.000        10.000    0.3%  transfer     data                      channel 2
"
    );
}

fn layered() -> RunResult {
    let mut result = result(vec![thread("reader", 1)]);
    let split = |scale: f64| {
        let mut parts = vec![0.0; Layer::ALL.len()];
        for (layer, ns) in [
            (Layer::Syscall, 900.0),
            (Layer::Block, 450.5),
            (Layer::Link, 1_800.25),
            (Layer::LunWait, 9_000.0),
            (Layer::Nand, 66_000.0),
            (Layer::Transfer, 5_500.0),
        ] {
            parts[layer as usize] = ns * scale;
        }
        parts
    };
    let delays = |scale: f64| {
        let of = [
            (Layer::LunWait, Why::BehindGcProgram, 6_000.0),
            (Layer::LunWait, Why::BehindErase, 3_000.0),
            (Layer::Nand, Why::ReadAgain, 5_000.0),
        ];
        of.map(|(layer, why, ns)| DelayTime { layer, why, ns: ns * scale }).to_vec()
    };
    let at = [(50.0, 1.0), (99.0, 3.0), (99.9, 10.0), (99.99, 40.0)];
    result.machine.layers = ["read", "write"]
        .iter()
        .map(|d| LayerTable {
            ddir: (*d).to_owned(),
            count: 1_000,
            mean_ns: split(1.1).iter().sum(),
            mean_by_layer_ns: split(1.1),
            mean_by_delay_ns: delays(1.1),
            at: at
                .iter()
                .map(|&(percentile, scale)| LayerRow {
                    percentile,
                    latency_ns: split(scale).iter().sum::<f64>() as u64,
                    by_layer_ns: split(scale),
                    by_delay_ns: delays(scale),
                })
                .collect(),
        })
        .collect();
    result
}

/// Where so much else is to be told that a table has little room, layers that matter have their rows all the same.
#[test]
fn a_layer_that_matters_is_named_however_much_else_is_told() {
    let mut result = layered();
    let array = |i: usize| ArrayResult { name: format!("md{i}"), ..ArrayResult::default() };
    result.machine.arrays = (0..60).map(array).collect();
    let text = explain_text(&result);
    assert!(text.lines().count() > EXPLAIN_LINES, "{text}");
    let shares = |name: &str| -> Vec<f64> {
        let lines = text.lines().filter(|l| l.trim_start().starts_with(name));
        let words = lines.flat_map(str::split_whitespace).filter_map(|w| w.strip_suffix('%'));
        words.filter_map(|w| w.parse().ok()).collect()
    };
    for table in &result.machine.layers {
        for (layer, ns) in Layer::ALL.into_iter().zip(&table.mean_by_layer_ns) {
            let matters = ns / table.mean_ns > 0.05;
            assert!(!matters || shares(layer.name()).len() >= 5, "{}:\n{text}", layer.name());
        }
    }
    let others = shares("other layers");
    assert!(!others.is_empty() && others.iter().all(|&share| share <= 5.0), "{others:?}\n{text}");
}

#[test]
fn the_rows_of_each_table_sum_to_its_latency() {
    let result = layered();
    let text = explain_text(&result);
    let mut sums: Option<Vec<f64>> = None;
    let mut tables = 0;
    for line in text.lines() {
        if line.contains("(usec)") {
            sums = Some(vec![0.0; 5]);
            continue;
        }
        let Some(so_far) = &mut sums else { continue };
        let values: Vec<f64> = line
            .split_whitespace()
            .filter(|w| !w.ends_with('%'))
            .filter_map(|w| w.parse().ok())
            .collect();
        if line.trim_start().starts_with("all ") {
            for (sum, all) in so_far.iter().zip(&values) {
                assert!((sum - all).abs() <= 0.005 * 7.0, "{sum} {all}\n{text}");
            }
            let whole = result.machine.layers[tables].at[3].latency_ns as f64 / 1e3;
            assert!((values[4] - whole).abs() < 0.02, "{whole}\n{text}");
            tables += 1;
            sums = None;
        } else {
            so_far.iter_mut().zip(&values).for_each(|(sum, v)| *sum += v);
        }
    }
    assert_eq!(tables, 2, "{text}");
    // 83,650 ns a column: 7.2 % of it behind programs, 3.6 % behind erases, which is less than 5 %.
    let below = |name: &str| text.lines().filter(|l| l.trim_start().starts_with(name)).count();
    assert_eq!((below("behind a GC program"), below("read again")), (2, 2), "{text}");
    assert_eq!(below("behind an erase"), 0, "less than 5 %:\n{text}");
    assert!(!text.contains("firmware") && !text.contains("completion"), "zero layers:\n{text}");

    let json: Value =
        serde_json::from_str(&fio_json(&result, false, &JsonOptions::default())).unwrap();
    for table in json["wordline"]["machine"]["layers"].as_array().unwrap() {
        for row in table["at"].as_array().unwrap() {
            let parts = row["by_layer_ns"].as_object().unwrap();
            // Without a network or a bridge their layers are not there.
            assert_eq!(parts.len(), Layer::ALL.len() - 4);
            assert_eq!(parts.keys().next().unwrap(), "application");
            let sum: f64 = parts.values().map(|v| v.as_f64().unwrap()).sum();
            assert!((sum - row["latency_ns"].as_f64().unwrap()).abs() <= 1.0);
        }
    }
}
