//! What a running server tells: a line at intervals, JSON, Prometheus' text, and a summary.

use crate::machine::{Done, IoKind, Machine, Request};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;
use wordline_base::{Histogram, SECTOR, Workload};
use wordline_ftl::{Counters, Translation};
use wordline_nand::Class;

const KINDS: usize = IoKind::ALL.len();
/// Percentiles told.
const POINTS: [f64; 4] = [50.0, 99.0, 99.9, 99.99];
/// Threads told apart; those that come later are counted together.
const THREADS: usize = 64;

pub struct Stats {
    /// Latency in the model, by kind.
    model: [Histogram; KINDS],
    /// Latency of reads in the model, by workload attribute.
    reads: [Histogram; Workload::ALL.len()],
    /// Requests of each attribute.
    asked: [u64; Workload::ALL.len()],
    /// How late answers left, against the model.
    late: Histogram,
    /// The same of those that wait for the image to be synced: the disk's time is in it.
    late_synced: Histogram,
    /// For how long what came in may have lain in its socket before it was looked at: it has the time
    /// at which it was, in the model. What wakes the server counts as seen at once.
    pub unseen: Histogram,
    /// How far the model was behind the clock at most.
    pub behind: Duration,
    /// Requests by kind.
    ops: [u64; KINDS],
    /// Bytes by kind.
    bytes: [u64; KINDS],
    /// Requests that failed.
    errors: u64,
    /// Requests by who asked, where that is known.
    threads: BTreeMap<u32, [u64; KINDS]>,
    /// At the last line.
    last: ([u64; KINDS], [u64; KINDS], std::time::Instant),
    /// The drive's counters at start.
    before: Counters,
    /// Clients let in.
    pub connections: u64,
    /// Clients refused.
    pub refused_connections: u64,
}

/// Numbers of a moment, with their names.
pub struct Snapshot {
    pub values: Vec<(String, f64)>,
}

impl Stats {
    pub fn new(machine: &Machine) -> Stats {
        Stats {
            model: std::array::from_fn(|_| Histogram::new()),
            reads: std::array::from_fn(|_| Histogram::new()),
            asked: Default::default(),
            late: Histogram::new(),
            late_synced: Histogram::new(),
            unseen: Histogram::new(),
            behind: Duration::ZERO,
            ops: [0; KINDS],
            bytes: [0; KINDS],
            errors: 0,
            threads: BTreeMap::new(),
            last: ([0; KINDS], [0; KINDS], std::time::Instant::now()),
            before: *machine.controller.ftl().expect("a served drive has its FTL").counters(),
            connections: 0,
            refused_connections: 0,
        }
    }
    /// Bytes that the collector has moved since the start.
    pub fn collected(&self, machine: &Machine) -> u64 {
        let ftl = machine.controller.ftl().expect("a served drive has its FTL");
        (ftl.counters().gc_sectors - self.before.gc_sectors) * SECTOR
    }
    pub fn asked(&mut self, request: &Request) {
        if request.pid != 0 {
            let known = self.threads.len() < THREADS || self.threads.contains_key(&request.pid);
            let pid = if known { request.pid } else { u32::MAX };
            self.threads.entry(pid).or_default()[request.kind as usize] += 1;
        }
    }
    /// A request was answered, so many nanoseconds late.
    pub fn add(&mut self, done: &Done, late: Option<u64>) {
        let kind = done.kind as usize;
        self.ops[kind] += 1;
        self.errors += u64::from(done.result.is_err());
        if done.kind != IoKind::Flush && done.result.is_ok() {
            self.bytes[kind] += u64::from(done.len);
        }
        let took = done.at.since(done.began).0;
        if done.by_model {
            self.model[kind].add(took);
        }
        // Queues are in the order of attributes.
        let of = usize::from(done.queue);
        self.asked[of] += 1;
        if done.kind == IoKind::Read && done.by_model {
            self.reads[of].add(took);
        }
        if let Some(late) = late {
            let waits = done.sync.is_some();
            (if waits { &mut self.late_synced } else { &mut self.late }).add(late);
        }
    }
    /// Sectors of users that the FTL has written since the start, and others, but for parity.
    fn written(&self, machine: &Machine) -> [u64; 2] {
        let ftl = machine.controller.ftl().expect("a served drive has its FTL");
        let [now, then] = [ftl.counters(), &self.before].map(|c| {
            let kept = c.pad_sectors + c.smeta_sectors + c.emeta_sectors;
            [c.user_sectors, c.moved() + kept + c.resubmitted_sectors]
        });
        std::array::from_fn(|i| now[i] - then[i])
    }
    /// None: users have written less than a line. What the collector moves then it owes to writes of before the start, and
    /// their ratio says nothing.
    fn amplification(&self, machine: &Machine) -> Option<f64> {
        let [user, rest] = self.written(machine);
        let line = machine.controller.nand().geometry.sectors_per_line;
        (user >= line.into()).then(|| (user + rest) as f64 / user as f64)
    }
    fn percentile(h: &Histogram, p: f64) -> f64 {
        h.percentile(p) as f64
    }

    pub fn snapshot(&self, machine: &Machine) -> Snapshot {
        let ftl = machine.controller.ftl().expect("a served drive has its FTL");
        let (c, b) = (ftl.counters(), &self.before);
        let flash = machine.controller.nand().counters();
        let [user, rest] = self.written(machine);
        let parity = c.parity_sectors - b.parity_sectors;
        let over = |n: u64| if user == 0 { 0.0 } else { (user + n) as f64 / user as f64 };
        let (free, reserve, high) = ftl.free_lines().unwrap_or_default();
        let reads = flash.ops[Class::UserRead] + flash.ops[Class::RebuildRead];
        let media = machine.media();
        let mut values = Vec::new();
        let mut put = |name: &str, value: f64| values.push((name.to_string(), value));
        for kind in IoKind::ALL {
            let i = kind as usize;
            put(&format!("{}_ops", kind.name()), self.ops[i] as f64);
            put(&format!("{}_bytes", kind.name()), self.bytes[i] as f64);
            if matches!(kind, IoKind::Read | IoKind::Write | IoKind::Flush) {
                for p in POINTS {
                    let ns = Stats::percentile(&self.model[i], p);
                    put(&format!("{}_model_ns_p{p}", kind.name()), ns);
                }
            }
        }
        for (of, workload) in Workload::ALL.into_iter().enumerate().skip(1) {
            put(&format!("{}_requests", workload.name()), self.asked[of] as f64);
            for p in POINTS {
                let ns = Stats::percentile(&self.reads[of], p);
                put(&format!("{}_read_model_ns_p{p}", workload.name()), ns);
            }
        }
        for p in POINTS {
            put(&format!("late_ns_p{p}"), Stats::percentile(&self.late, p));
        }
        for p in POINTS {
            put(&format!("late_synced_ns_p{p}"), Stats::percentile(&self.late_synced, p));
        }
        for p in POINTS {
            put(&format!("unseen_ns_p{p}"), Stats::percentile(&self.unseen, p));
        }
        put("behind_ns_max", self.behind.as_nanos() as f64);
        put("errors", self.errors as f64);
        put("connections", self.connections as f64);
        put("connections_refused", self.refused_connections as f64);
        put("write_amplification", over(rest));
        put("write_amplification_with_parity", over(rest + parity));
        put("flash_reads", reads as f64);
        put("flash_reads_waited", flash.reads_waited as f64);
        put("reads_rebuilt", (c.rebuilt_reads - b.rebuilt_reads) as f64);
        put("lines_free", f64::from(free));
        put("lines_reserve", reserve);
        put("lines_collecting_below", high);
        put("sectors_unreadable", media.counters.unreadable as f64);
        put("sectors_rebuilt", media.counters.rebuilt as f64);
        put("sectors_misbuilt", media.counters.misbuilt as f64);
        put("integrity_checked", machine.ctx.stamps.checked() as f64);
        put("integrity_wrong", machine.ctx.stamps.wrong().0 as f64);
        put("syncs", media.writer.syncs() as f64);
        put("programs_waited_for_sync", media.writer.waited() as f64);
        put("page_memory_bytes", media.pages.memory() as f64);
        put("model_seconds", machine.now().0 as f64 / 1e9);
        put("stalled", f64::from(u8::from(machine.stalled().is_some())));
        Snapshot { values }
    }

    /// What happened since the last line.
    pub fn line(&mut self, machine: &Machine) -> String {
        let seconds = self.last.2.elapsed().as_secs_f64().max(1e-9);
        let rate = |now: u64, then: u64| (now - then) as f64 / seconds;
        let (r, w) = (IoKind::Read as usize, IoKind::Write as usize);
        let (ops, bytes) = (&self.last.0, &self.last.1);
        let mut line = format!(
            "read {:.0} IOPS {:.1} MB/s, write {:.0} IOPS {:.1} MB/s",
            rate(self.ops[r], ops[r]),
            rate(self.bytes[r], bytes[r]) / 1e6,
            rate(self.ops[w], ops[w]),
            rate(self.bytes[w], bytes[w]) / 1e6,
        );
        let s = self.snapshot(machine);
        let us = |name: &str| s.get(name) / 1e3;
        let _ = write!(
            line,
            "; model us p50/p99/p99.9: read {:.0}/{:.0}/{:.0}, write {:.0}/{:.0}/{:.0}; late us \
             p50/p99.9: {:.0}/{:.0}; WA {}, {:.1} % of flash reads waited, {:.0} lines free{}",
            us("read_model_ns_p50"),
            us("read_model_ns_p99"),
            us("read_model_ns_p99.9"),
            us("write_model_ns_p50"),
            us("write_model_ns_p99"),
            us("write_model_ns_p99.9"),
            us("late_ns_p50"),
            us("late_ns_p99.9"),
            self.amplification(machine).map_or("-".into(), |wa| format!("{wa:.2}")),
            100.0 * s.get("flash_reads_waited") / s.get("flash_reads").max(1.0),
            s.get("lines_free"),
            match machine.stalled() {
                None => "",
                Some(_) if machine.is_read_only() => "; the drive is read-only",
                Some(_) => "; STALLED: the image cannot be written",
            },
        );
        self.last = (self.ops, self.bytes, std::time::Instant::now());
        line
    }

    /// The audit at the end. `unpaced`: no clock held the model back.
    pub fn summary(&self, machine: &Machine, unpaced: bool) -> String {
        let s = self.snapshot(machine);
        let mut text = String::new();
        for kind in [IoKind::Read, IoKind::Write, IoKind::Flush] {
            let answered = self.ops[kind as usize];
            let by_model = self.model[kind as usize].len();
            if answered > 0 && by_model == 0 {
                let _ =
                    writeln!(text, "{:<5} {answered:>9} answered, none by the model", kind.name());
            } else if answered > 0 {
                let us = |p: f64| s.get(&format!("{}_model_ns_p{p}", kind.name())) / 1e3;
                let of = match answered == by_model {
                    true => String::new(),
                    false => format!(", {by_model} of them by the model"),
                };
                let _ = writeln!(
                    text,
                    "{:<5} {answered:>9} answered{of}; in the model p50 {:.1} us, p99 {:.1}, p99.9 {:.1}, p99.99 \
                     {:.1}",
                    kind.name(),
                    us(50.0),
                    us(99.0),
                    us(99.9),
                    us(99.99)
                );
            }
        }
        if unpaced && !text.is_empty() {
            text += "--time-scale 0: the model does not wait for the clock, and these are latencies of a drive that is idle \
                     between requests\n";
        }
        let late = [
            ("answers left later than the model said by", &self.late),
            (
                "flushes and FUA, with the time of the disk, left later than the model said by",
                &self.late_synced,
            ),
            ("input lay unseen, for all that is known, up to", &self.unseen),
        ];
        for (what, h) in late.into_iter().filter(|(_, h)| !h.is_empty()) {
            let us = |p: f64| Stats::percentile(h, p) / 1e3;
            let _ = writeln!(
                text,
                "{what} p50 {:.1} us, p99 {:.1}, p99.9 {:.1}, p99.99 {:.1}, at most {:.1}",
                us(50.0),
                us(99.0),
                us(99.9),
                us(99.99),
                h.max() as f64 / 1e3
            );
        }
        if self.behind > Duration::from_millis(1) {
            let _ = writeln!(
                text,
                "the model was behind the clock by at most {:.1} ms; the collector moved {} MiB",
                self.behind.as_secs_f64() * 1e3,
                self.collected(machine) >> 20
            );
        }
        for (&pid, ops) in &self.threads {
            let who = if pid == u32::MAX { "others".into() } else { format!("thread {pid}") };
            let asked = IoKind::ALL.map(|k| (k.name(), ops[k as usize]));
            let asked = asked.iter().filter(|a| a.1 > 0).map(|(name, n)| format!("{name} {n}"));
            let _ = writeln!(text, "{who}: {}", asked.collect::<Vec<_>>().join(", "));
        }
        let [user, rest] = self.written(machine).map(|n| (n * SECTOR) as f64 / f64::from(1 << 20));
        let wrote = match self.amplification(machine) {
            Some(wa) => {
                format!("write amplification {wa:.2}: {user:.1} MiB of users, {rest:.1} besides")
            }
            None if user == 0.0 => format!("no writes of users; {rest:.1} MiB of the drive itself"),
            None => format!(
                "{user:.1} MiB of users, too little for a write amplification; {rest:.1} MiB besides"
            ),
        };
        let (wrong, _) = machine.ctx.stamps.wrong();
        let _ = writeln!(
            text,
            "{wrote}; {:.0} of {:.0} flash reads waited, {:.0} rebuilt; {:.0} \
             look-ups checked, {wrong} wrong; {:.0} syncs",
            s.get("flash_reads_waited"),
            s.get("flash_reads"),
            s.get("reads_rebuilt"),
            s.get("integrity_checked"),
            s.get("syncs")
        );
        text
    }
}

impl Snapshot {
    pub fn get(&self, name: &str) -> f64 {
        self.values.iter().find(|v| v.0 == name).map_or(0.0, |v| v.1)
    }
    /// One line.
    pub fn json(&self) -> String {
        let pairs = self.values.iter().map(|(name, value)| format!("\"{name}\":{value}"));
        format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
    }
    /// Prometheus' text format, version 0.0.4: percentiles as labels.
    pub fn prometheus(&self) -> String {
        let mut text = String::new();
        let mut last = String::new();
        for (name, value) in &self.values {
            let (name, label) = match name.split_once("_ns_p") {
                Some((base, p)) => {
                    let quantile = format!("{:.4}", p.parse::<f64>().unwrap_or(0.0) / 100.0);
                    let quantile = quantile.trim_end_matches('0');
                    (format!("{base}_ns"), format!("{{quantile=\"{quantile}\"}}"))
                }
                None if is_count(name) => (format!("{name}_total"), String::new()),
                None => (name.clone(), String::new()),
            };
            if name != last {
                let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
                let _ = writeln!(text, "# TYPE wordline_{name} {kind}");
            }
            let _ = writeln!(text, "wordline_{name}{label} {value}");
            last = name;
        }
        text
    }
}

/// What only grows.
fn is_count(name: &str) -> bool {
    let some = ["errors", "connections", "connections_refused", "syncs"].contains(&name);
    let ends = ["_ops", "_requests"].iter().any(|end| name.ends_with(end));
    let of_kind = ends || name.ends_with("_bytes") && !name.starts_with("page_");
    let starts = ["flash_reads", "reads_", "sectors_", "integrity_", "programs_"];
    some || of_kind || starts.iter().any(|start| name.starts_with(start))
}
