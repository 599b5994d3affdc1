//! What the clients of a program did: operations by kind, each with its latency.

use serde::Serialize;
use wordline_base::time::serialize_ns;
use wordline_base::{Histogram, Span, Time};

/// One kind of operation.
#[derive(Clone, Debug, Serialize)]
pub struct OpReport {
    /// As results have it.
    pub name: &'static str,
    /// Nanoseconds.
    pub latency: Histogram,
}

/// What came of a program.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The program's name.
    pub name: String,
    /// Why it ended early.
    pub failure: Option<String>,
    /// Operations begun, and those finished; the rest was in flight when the run ended.
    pub begun: u64,
    /// Operations finished.
    pub finished: u64,
    /// Operations finished after the ramp.
    pub counted: u64,
    /// From the end of the ramp to the last operation counted.
    #[serde(rename = "runtime_ns", serialize_with = "serialize_ns")]
    pub runtime: Span,
    /// By kind of operation.
    pub ops: Vec<OpReport>,
    /// What it counted, by name, which says in what unit.
    pub counters: Vec<(&'static str, u64)>,
    /// Ratios, and seconds.
    pub figures: Vec<(&'static str, f64)>,
}

impl Report {
    /// So many operations, a second.
    pub fn rate(&self, operations: u64) -> f64 {
        match self.runtime {
            Span::ZERO => 0.0,
            runtime => operations as f64 / runtime.as_secs_f64(),
        }
    }
}

/// Requests that arrive on their own, and how they were taken up.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Load {
    /// The section of the program that says it (`kv`).
    pub section: &'static str,
    /// Requests a second that arrive.
    pub asked: f64,
    /// Requests that a thread took up.
    pub begun: u64,
    /// When it took up the last of them.
    pub last: Time,
    /// From the arrival of that one to then.
    pub behind: Span,
}

/// Counts operations that finish after the ramp.
#[derive(Clone, Debug)]
pub(crate) struct Ops {
    kinds: Vec<OpReport>,
    counted_from: Time,
    last: Time,
    pub begun: u64,
    pub finished: u64,
    counted: u64,
}

impl Ops {
    pub fn new(names: &[&'static str], ramp: Span) -> Ops {
        let kind = |&name| OpReport { name, latency: Histogram::new() };
        Ops {
            kinds: names.iter().map(kind).collect(),
            counted_from: Time::ZERO + ramp,
            last: Time::ZERO,
            begun: 0,
            finished: 0,
            counted: 0,
        }
    }
    pub fn finish(&mut self, kind: usize, begun: Time, now: Time) {
        self.finished += 1;
        self.counted += u64::from(now >= self.counted_from);
        self.measured(kind, begun, now);
    }
    /// A part of an operation that has a name of its own.
    pub fn measured(&mut self, kind: usize, begun: Time, now: Time) {
        if now >= self.counted_from {
            self.kinds[kind].latency.add(now.since(begun).0);
            self.last = self.last.max(now);
        }
    }
    pub fn last(&self) -> Time {
        self.last
    }
    pub fn report(&self, name: &str) -> Report {
        Report {
            name: name.into(),
            begun: self.begun,
            finished: self.finished,
            counted: self.counted,
            runtime: self.last.since(self.counted_from),
            ops: self.kinds.iter().filter(|k| !k.latency.is_empty()).cloned().collect(),
            ..Report::default()
        }
    }
}
