//! What a program did: its operations and their latencies, and what it counted.

use crate::normal::put;
use crate::number::{finite, iops_text, percentiles};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use wordline_app::{OpReport, Part, Report, Turnaround, TurnaroundInterval};
use wordline_base::hist::midpoint;
use wordline_base::{Histogram, Span};
use wordline_sim::RunResult;

/// fio's default list, from the median on.
const PERCENTILES: [f64; 9] = [50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.9, 99.99];

/// In the keys of fio's latencies.
fn latency(h: &Histogram, plus: bool) -> Value {
    let table = PERCENTILES.iter().zip(percentiles(h, &PERCENTILES));
    let table: Map<String, Value> = table.map(|(p, v)| (format!("{p:.6}"), v.into())).collect();
    let mut o = json!({
        "min": h.min(),
        "max": h.max(),
        "mean": finite(h.mean()),
        "stddev": finite(h.stddev()),
        "N": h.len(),
        "percentile": table,
    });
    if plus {
        let bins = h.buckets().map(|(b, n)| (midpoint(b).to_string(), Value::from(n)));
        o["bins"] = Value::Object(bins.collect());
    }
    o
}

/// A row of a turnaround: the whole, and what it is made of, in nanoseconds.
fn split_json(total: f64, parts: &[f64]) -> Value {
    let named = Part::ALL.iter().zip(parts);
    let named = named.map(|(part, ns)| (part.name().to_string(), finite(*ns).into()));
    let total = std::iter::once(("total".to_string(), finite(total).into()));
    Value::Object(total.chain(named).collect())
}

/// `mean`, `p50`, `p99`, `p99_9`, and what ended in each interval.
fn turnaround_json(t: &Turnaround, plus: bool) -> Value {
    let mut o = Map::new();
    o.insert("mean".into(), split_json(t.total.mean(), &t.mean_ns));
    for row in &t.at {
        let name = format!("p{}", row.percentile).replace('.', "_");
        o.insert(name, split_json(row.turnaround_ns, &row.by_part_ns));
    }
    if plus {
        let interval = |i: &TurnaroundInterval| {
            json!({
                "end_ns": i.end_ns,
                "count": i.count,
                "mean_ns": finite(i.mean_ns),
                "p99_ns": i.p99_ns,
                "max_ns": i.max_ns,
            })
        };
        o.insert("over_time".into(), t.over_time.iter().map(interval).collect());
    }
    Value::Object(o)
}

/// The program of a run, if it has one, and those beside it, each as in `wordline.app`.
pub fn programs(result: &RunResult) -> Vec<Value> {
    let all = result.app.iter().chain(&result.with);
    all.map(|app| app_json(app, &result.turnarounds, false)).collect()
}

/// The object `wordline.app`.
pub(crate) fn app_json(app: &Report, turnarounds: &[Turnaround], plus: bool) -> Value {
    let op = |op: &OpReport| {
        let rate = finite(app.rate(op.latency.len()));
        let value = json!({
            "total": op.latency.len(),
            "per_s": rate,
            "lat_ns": latency(&op.latency, plus),
        });
        (op.name.to_string(), value)
    };
    let figures = app.figures.iter().map(|&(k, v)| (k.to_string(), Value::from(finite(v))));
    let counters = app.counters.iter().map(|&(k, n)| (k.to_string(), Value::from(n)));
    let own = turnarounds.iter().filter(|t| t.program == app.name);
    let turnaround = own.map(|t| (t.operation.to_string(), turnaround_json(t, plus)));
    json!({
        "name": app.name,
        "begun": app.begun,
        "finished": app.finished,
        "runtime_ns": app.runtime.0,
        "per_s": finite(app.rate(app.counted)),
        "operations": app.ops.iter().map(op).collect::<Map<_, _>>(),
        "turnaround": turnaround.collect::<Map<_, _>>(),
        "figures": figures.collect::<Map<_, _>>(),
        "counters": counters.collect::<Map<_, _>>(),
    })
}

fn microseconds(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e3)
}

/// Where the time of one kind of operation went: parts that took some.
fn turnaround_text(t: &Turnaround, out: &mut String) {
    put!(out, "  {:18} {:>9}", format!("{}, us:", t.operation), "mean");
    let at: Vec<_> = t.at.iter().filter(|row| t.total.reaches(row.percentile)).collect();
    for row in &at {
        put!(out, " {:>9}", format!("{} %", row.percentile));
    }
    put!(out, "\n");
    let mut line = |name: &str, mean: f64, at: &mut dyn Iterator<Item = f64>| {
        put!(out, "    {name:16} {:9.1}", mean / 1e3);
        at.for_each(|ns| put!(out, " {:9.1}", ns / 1e3));
        put!(out, "\n");
    };
    for (i, part) in Part::ALL.iter().enumerate() {
        if t.mean_ns[i] > 0.0 {
            let name = part.name().replace('_', " ");
            line(&name, t.mean_ns[i], &mut at.iter().map(|row| row.by_part_ns[i]));
        }
    }
    line("turnaround", t.total.mean(), &mut at.iter().map(|row| row.turnaround_ns));
}

/// A block of text for each program; empty without one.
pub fn app_text(result: &RunResult) -> String {
    let mut out = String::new();
    for app in result.app.iter().chain(&result.with) {
        one_text(app, &result.turnarounds, &mut out);
    }
    out
}

fn one_text(app: &Report, turnarounds: &[Turnaround], out: &mut String) {
    put!(out, "\n{}: {} operations begun, {} finished", app.name, app.begun, app.finished);
    // The table is of what came after the ramp.
    if app.counted < app.finished {
        put!(out, ", {} of them after the ramp", app.counted);
    }
    match app.runtime {
        Span::ZERO => put!(out, "\n"),
        runtime => put!(out, ", {:.3} s\n", runtime.as_secs_f64()),
    }
    put!(out, "  {:18} {:>9} {:>9} {:>9}", "", "total", "per s", "mean us");
    for p in ["50 %", "99 %", "99.9 %", "99.99 %"] {
        put!(out, " {p:>9}");
    }
    put!(out, "\n");
    for op in &app.ops {
        let h = &op.latency;
        let rate = iops_text(app.rate(h.len()) as u64);
        let mean = finite(h.mean()) / 1e3;
        put!(out, "  {:18} {:9} {rate:>9} {mean:9.1}", op.name, h.len());
        const TAILS: [f64; 4] = [50.0, 99.0, 99.9, 99.99];
        for (percent, ns) in TAILS.iter().zip(percentiles(h, &TAILS)) {
            // Fewer operations than that have none beyond it.
            let of_one = h.len() == 1 && *percent == 50.0;
            let told = h.reaches(*percent) || of_one;
            put!(out, " {:>9}", if told { microseconds(ns) } else { "-".into() });
        }
        put!(out, "\n");
    }
    let own: Vec<&Turnaround> = turnarounds.iter().filter(|t| t.program == app.name).collect();
    // Of one kind of operation all are that kind.
    let kinds = if own.len() == 2 { &own[..1] } else { &own[..] };
    kinds.iter().for_each(|t| turnaround_text(t, out));
    let figures = app.figures.iter().map(|(k, v)| format!("{k}={v:.2}"));
    let counters = app.counters.iter().map(|(k, n)| format!("{k}={n}"));
    let all: Vec<String> = figures.chain(counters).collect();
    for line in all.chunks(4) {
        put!(out, "  {}\n", line.join(", "));
    }
}
