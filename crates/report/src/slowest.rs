//! The life of the slowest I/Os, step by step.

use crate::normal::put;
use crate::number::percent;
use serde_json::{Value, json};
use std::fmt::Write;
use wordline_base::{Layer, Life, Step, Why};
use wordline_sim::{Machine, RunResult};

/// Where a step was, in words; empty where there is but one place. Of several drives or hosts it says which.
fn place(machine: &Machine, step: &Step) -> String {
    let n = step.place;
    let of_drive = |what: String| match machine.drives.get(usize::from(step.drive).wrapping_sub(1))
    {
        Some(drive) if machine.drives.len() > 1 && what.is_empty() => drive.name.clone(),
        Some(drive) if machine.drives.len() > 1 => format!("{what} of {}", drive.name),
        _ => what,
    };
    match (step.layer, step.why) {
        (Layer::QueueWait, _) => of_drive(format!("queue {n}")),
        (Layer::Driver, Why::QueueFull) => format!("queue {n}"),
        (
            Layer::Application
            | Layer::Syscall
            | Layer::Block
            | Layer::Driver
            | Layer::Completion
            | Layer::Network
            | Layer::Server,
            _,
        ) => core(machine, n),
        (Layer::Link, Why::Work) => of_drive("link to host".to_owned()), // the completion entry
        (Layer::Link, _) => of_drive(format!("link {}", link_direction(n))),
        (Layer::Ftl, Why::FirmwareBusy) => of_drive(format!("firmware core {n}")),
        (Layer::Ftl, Why::Work) => of_drive(format!("ftl core {n}")), // of the drive, or of the host
        (Layer::Cache | Layer::Ftl | Layer::Limit, _) => of_drive(String::new()),
        (Layer::LunWait | Layer::Nand, _) => of_drive(format!("LUN {n}")),
        (Layer::Transfer, _) => of_drive(format!("channel {n}")),
        (Layer::Bridge, Why::Tag) => of_drive(format!("drive {n}")),
        (Layer::Bridge, _) => of_drive(format!("engine {n}")),
        (Layer::Sas, Why::Work) => of_drive("SAS link to bridge".to_owned()), // the response frame
        (Layer::Sas, _) if n == 0 => of_drive("SAS link to drive".to_owned()),
        (Layer::Sas, _) => of_drive("SAS link to bridge".to_owned()),
    }
}

/// Cores are counted over all hosts.
fn core(machine: &Machine, n: u32) -> String {
    let of = |n: u32| machine.cores.get(n as usize).map(|core| &core.host);
    match of(n).filter(|host| !host.is_empty()) {
        Some(host) => {
            let first = (0..n).rev().take_while(|&before| of(before) == Some(host)).last();
            format!("core {} of {host}", n - first.unwrap_or(n))
        }
        None => format!("core {n}"),
    }
}

/// The link's two lanes.
pub(crate) fn link_direction(lane: u32) -> &'static str {
    if lane == 0 { "to device" } else { "to host" }
}

/// Microseconds with three decimals, exactly.
fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000, ns % 1_000)
}

fn row(out: &mut String, start: u64, ns: u64, whole: u64, words: [&str; 3]) {
    let share = percent(ns as f64, whole as f64);
    let [layer, why, place] = words;
    let text = format!(
        "{:>13} {:>13} {share:6.1}%  {layer:<12} {why:<25} {place}",
        micros(start),
        micros(ns)
    );
    put!(out, "{}\n", text.trim_end());
}

fn life(out: &mut String, result: &RunResult, rank: usize, life: &Life) {
    let job = match result.threads.get(life.job as usize) {
        Some(thread) => format!("job {} ({})", life.job, thread.name),
        None => format!("job {}", life.job),
    };
    let total = life.latency().0;
    put!(out, "#{rank} {} of {} bytes at offset {}, ", life.ddir.name(), life.len, life.offset);
    put!(out, "{job}: {} usec, from {} usec on\n", micros(total), micros(life.begin.0));
    put!(out, "{:>13} {:>13} {:>7}  {:<12} {:<25} place\n", "at", "usec", "share", "layer", "why");
    let mut start = 0;
    for step in life.steps() {
        let end = step.end.since(life.begin).0;
        let words = [step.layer.name(), step.why.name(), &place(&result.machine, &step)];
        row(out, start, end.saturating_sub(start), total, words);
        start = end;
    }
    if life.dropped > 0 {
        let rest = format!("{} further steps", life.dropped);
        row(out, start, total.saturating_sub(start), total, ["(several)", &rest, ""]);
    }
}

/// The slowest I/Os that were kept, one direction after the other. A step ends so many
/// nanoseconds after the I/O began.
pub(crate) fn slowest_json(result: &RunResult) -> Value {
    let step = |life: &Life, step: &Step| {
        json!({
            "end_ns": step.end.since(life.begin).0,
            "layer": step.layer.name(),
            "why": step.why.name(),
            "place": place(&result.machine, step),
        })
    };
    let each = result.slowest.iter().map(|life| {
        json!({
            "ddir": life.ddir.name(),
            "job": result.threads.get(life.job as usize).map(|thread| &thread.name),
            "thread": life.job,
            "offset": life.offset,
            "bytes": life.len,
            "begin_ns": life.begin,
            "latency_ns": life.latency().0,
            "steps": life.steps().iter().map(|s| step(life, s)).collect::<Vec<_>>(),
            "further_steps": life.dropped,
        })
    });
    each.collect()
}

/// The `n` slowest I/Os of each direction: each with its steps, which abut and sum to the latency.
pub fn slowest_text(result: &RunResult, n: usize) -> String {
    let mut told = Vec::new();
    for of_direction in result.slowest.chunk_by(|a, b| a.ddir.reported() == b.ddir.reported()) {
        for (i, one) in of_direction.iter().take(n).enumerate() {
            let mut out = String::new();
            life(&mut out, result, i + 1, one);
            told.push(out);
        }
    }
    if told.is_empty() {
        return "No slow I/Os were kept.\n".to_owned();
    }
    let mut out = told.join("\n");
    if result
        .slowest
        .iter()
        .any(|life| life.steps().windows(2).any(|two| of_one_wait(&two[0], &two[1])))
    {
        out += "\nRows of one wait for a LUN tell what held it, and not in which order.\n";
    }
    out
}

/// Two steps are parts of the same wait.
fn of_one_wait(a: &Step, b: &Step) -> bool {
    (a.layer, b.layer, a.place) == (Layer::LunWait, Layer::LunWait, b.place)
}
