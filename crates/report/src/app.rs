//! What a program did: its operations and their latencies, and what it counted.

use crate::normal::put;
use crate::number::{finite, iops_text, percentiles};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use wordline_app::{OpReport, Report};
use wordline_base::Histogram;
use wordline_base::hist::midpoint;
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

/// The object `wordline.app`.
pub(crate) fn app_json(app: &Report, plus: bool) -> Value {
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
    json!({
        "name": app.name,
        "begun": app.begun,
        "finished": app.finished,
        "runtime_ns": app.runtime.0,
        "per_s": finite(app.rate(app.counted)),
        "operations": app.ops.iter().map(op).collect::<Map<_, _>>(),
        "figures": figures.collect::<Map<_, _>>(),
        "counters": counters.collect::<Map<_, _>>(),
    })
}

fn microseconds(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e3)
}

/// A block of text; empty without a program.
pub fn app_text(result: &RunResult) -> String {
    let Some(app) = &result.app else { return String::new() };
    let mut out = String::new();
    put!(out, "\n{}: {} operations begun, {} finished", app.name, app.begun, app.finished);
    put!(out, ", {:.3} s\n", app.runtime.as_secs_f64());
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
        for ns in percentiles(h, &[50.0, 99.0, 99.9, 99.99]) {
            put!(out, " {:>9}", microseconds(ns));
        }
        put!(out, "\n");
    }
    let figures = app.figures.iter().map(|(k, v)| format!("{k}={v:.2}"));
    let counters = app.counters.iter().map(|(k, n)| format!("{k}={n}"));
    let all: Vec<String> = figures.chain(counters).collect();
    for line in all.chunks(4) {
        put!(out, "  {}\n", line.join(", "));
    }
    out
}
