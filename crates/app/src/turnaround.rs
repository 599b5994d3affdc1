//! Where the time of an operation went: processor, I/O layer by layer, and the waits between.

use serde::Serialize;
use std::collections::BTreeMap;
use wordline_base::hist::bucket_of;
use wordline_base::life::LAYERS;
use wordline_base::{Histogram, Layer, Span, Time};

/// The parts that the time of an operation is split into.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Part {
    /// From its arrival until a thread of the program has it, and a core.
    Thread,
    /// For a core, or for another thread of the program.
    Wait,
    /// The program's own processor time.
    Cpu,
    /// System call, VFS and file system.
    FileSystem,
    /// Block layer and driver.
    BlkMq,
    /// In a submission queue.
    QueueWait,
    /// From the fetch of the command to its completion entry.
    Drive,
    /// From the completion entry to the program, with the wait for its thread's core.
    Completion,
    /// A network block device: the wire and the server behind it.
    Network,
}

/// The number of parts.
pub const PARTS: usize = 9;

impl Part {
    /// All, in the order of results.
    pub const ALL: [Part; PARTS] = [
        Part::Thread,
        Part::Wait,
        Part::Cpu,
        Part::FileSystem,
        Part::BlkMq,
        Part::QueueWait,
        Part::Drive,
        Part::Completion,
        Part::Network,
    ];
    /// As results have it.
    pub fn name(self) -> &'static str {
        [
            "thread",
            "wait",
            "cpu",
            "file_system",
            "blk_mq",
            "queue_wait",
            "drive",
            "completion",
            "network",
        ][self as usize]
    }
    /// The part that a layer of an I/O's life counts to.
    pub fn of(layer: Layer) -> Part {
        match layer {
            Layer::Application => Part::Cpu,
            Layer::Syscall => Part::FileSystem,
            Layer::Block | Layer::Driver => Part::BlkMq,
            Layer::QueueWait => Part::QueueWait,
            Layer::Link
            | Layer::Limit
            | Layer::Cache
            | Layer::Ftl
            | Layer::LunWait
            | Layer::Nand
            | Layer::Transfer
            | Layer::Bridge
            | Layer::Sas => Part::Drive,
            Layer::Completion => Part::Completion,
            Layer::Network | Layer::Server => Part::Network,
        }
    }
}

/// The turnaround of one kind of operation, or of `all`: from its arrival until its last I/O and its last work are
/// done. Every row sums to the time that it splits.
#[derive(Clone, Debug, Serialize)]
pub struct Turnaround {
    /// The program's name.
    pub program: String,
    /// The kind of operation, or `all`.
    pub operation: &'static str,
    /// Turnarounds, in nanoseconds.
    #[serde(rename = "turnaround_ns")]
    pub total: Histogram,
    /// By [`Part::ALL`].
    pub mean_ns: [f64; PARTS],
    /// Means of the parts at some percentiles.
    pub at: Vec<TurnaroundRow>,
    /// The run in intervals.
    pub over_time: Vec<TurnaroundInterval>,
}

/// Operations about a percentile, in the mean: those of its bucket.
#[derive(Clone, Debug, Serialize)]
pub struct TurnaroundRow {
    /// In percent.
    pub percentile: f64,
    /// Mean turnaround of these operations.
    pub turnaround_ns: f64,
    /// Means of its parts, by [`Part::ALL`].
    pub by_part_ns: [f64; PARTS],
}

/// What ended within an interval.
#[derive(Clone, Debug, Serialize)]
pub struct TurnaroundInterval {
    /// When it ends.
    pub end_ns: u64,
    /// Operations that ended.
    pub count: u64,
    /// Their mean turnaround.
    pub mean_ns: f64,
    /// Their 99th percentile, to within 1/128.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// What one operation has spent so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent([u64; PARTS]);

impl Spent {
    pub fn work(&mut self, span: Span) {
        self.0[Part::Cpu as usize] += span.0;
    }
    pub fn io(&mut self, by_layer: &[u64; LAYERS]) {
        for (layer, ns) in Layer::ALL.iter().zip(by_layer) {
            self.0[Part::of(*layer) as usize] += ns;
        }
    }
}

/// Percentiles at which turnaround is split.
const SPLIT_AT: [f64; 3] = [50.0, 99.0, 99.9];
/// The first interval over time; it doubles when there are this many.
const INTERVAL: Span = Span::from_ms(1);
const INTERVALS: usize = 128;

/// Gathers the turnaround of one kind of operation.
#[derive(Clone, Debug)]
pub(crate) struct Split {
    operation: &'static str,
    total: Histogram,
    /// Sums of parts by the bucket of the whole, so that the operations at a percentile can be split and
    /// not only the mean one.
    sums: BTreeMap<usize, [u64; PARTS]>,
    interval: Span,
    over_time: Vec<(u64, Histogram)>,
}

impl Split {
    pub fn new(operation: &'static str) -> Split {
        Split {
            operation,
            total: Histogram::new(),
            sums: BTreeMap::new(),
            interval: INTERVAL,
            over_time: Vec::new(),
        }
    }

    /// An operation that arrived, was taken by a thread, and ends now. What is left of its time beside
    /// work and I/O it waited. Its thread has one I/O in flight at most.
    pub fn add(&mut self, spent: &Spent, arrived: Time, begun: Time, now: Time) {
        let mut parts = spent.0;
        let busy: u64 = parts.iter().sum();
        let (all, own) = (now.since(arrived).0, now.since(begun).0);
        debug_assert!(busy <= own, "{}: {busy} ns of {own}", self.operation);
        parts[Part::Thread as usize] = all - own;
        parts[Part::Wait as usize] += own.saturating_sub(busy);
        self.total.add(all);
        let sums = self.sums.entry(bucket_of(all)).or_default();
        sums.iter_mut().zip(parts).for_each(|(sum, ns)| *sum += ns);
        let mut slot = now.0 / self.interval.0;
        while slot >= INTERVALS as u64 {
            self.double();
            slot = now.0 / self.interval.0;
        }
        match self.over_time.last_mut() {
            Some((last, row)) if *last == slot => row.add(all),
            _ => {
                let mut row = Histogram::new();
                row.add(all);
                self.over_time.push((slot, row));
            }
        }
    }

    fn double(&mut self) {
        self.interval = self.interval * 2;
        let mut rows: Vec<(u64, Histogram)> = Vec::new();
        for (slot, row) in self.over_time.drain(..) {
            match rows.last_mut() {
                Some((last, sum)) if *last == slot / 2 => sum.merge(&row),
                _ => rows.push((slot / 2, row)),
            }
        }
        self.over_time = rows;
    }

    /// All kinds of operation together.
    pub fn all<'a>(splits: impl Iterator<Item = &'a Split>) -> Split {
        let mut all = Split::new("all");
        for other in splits {
            let mut other = other.clone();
            while other.interval < all.interval {
                other.double();
            }
            while all.interval < other.interval {
                all.double();
            }
            all.total.merge(&other.total);
            for (bucket, more) in other.sums {
                let sums = all.sums.entry(bucket).or_default();
                sums.iter_mut().zip(more).for_each(|(sum, ns)| *sum += ns);
            }
            let mut rows: BTreeMap<u64, Histogram> = all.over_time.drain(..).collect();
            for (slot, row) in other.over_time {
                rows.entry(slot).or_default().merge(&row);
            }
            all.over_time = rows.into_iter().collect();
        }
        all
    }

    /// None if no such operation was counted.
    pub fn report(&self, program: &str) -> Option<Turnaround> {
        let n = self.total.len();
        if n == 0 {
            return None;
        }
        let mut all = [0u64; PARTS];
        for sums in self.sums.values() {
            all.iter_mut().zip(sums).for_each(|(all, ns)| *all += ns);
        }
        let row = |percentile: f64| {
            let bucket = self.total.percentile_bucket(percentile)?;
            let count = self.total.buckets().find(|b| b.0 == bucket)?.1 as f64;
            let by_part_ns = self.sums.get(&bucket)?.map(|ns| ns as f64 / count);
            let turnaround_ns = by_part_ns.iter().sum();
            Some(TurnaroundRow { percentile, turnaround_ns, by_part_ns })
        };
        let interval = |(slot, row): &(u64, Histogram)| TurnaroundInterval {
            end_ns: (slot + 1) * self.interval.0,
            count: row.len(),
            mean_ns: row.mean(),
            p99_ns: row.percentile(99.0),
            max_ns: row.max(),
        };
        Some(Turnaround {
            program: program.into(),
            operation: self.operation,
            total: self.total.clone(),
            mean_ns: all.map(|ns| ns as f64 / n as f64),
            at: SPLIT_AT.iter().filter_map(|&p| row(p)).collect(),
            over_time: self.over_time.iter().map(interval).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::Rng;

    #[test]
    fn every_row_sums_to_the_turnaround_and_the_intervals_to_all_operations() {
        let (mut split, mut rng) = (Split::new("request"), Rng::from_seed(5));
        let (mut now, mut total) = (0, 0u128);
        for _ in 0..20_000 {
            let mut spent = Spent::default();
            let (work, layer, io) =
                (rng.below(90_000), rng.below(LAYERS as u64), rng.below(70_000));
            spent.work(Span(work));
            let mut by_layer = [0; LAYERS];
            by_layer[layer as usize] = io;
            spent.io(&by_layer);
            let (thread, wait) = (rng.below(9_000), rng.below(5_000));
            now += rng.below(60_000);
            let all = thread + wait + work + io;
            let arrived = Time(now + 200_000 - all);
            split.add(&spent, arrived, arrived + Span(thread), Time(now + 200_000));
            total += u128::from(all);
        }
        let t = split.report("p").unwrap();
        assert_eq!(t.total.sum(), total);
        assert!((t.mean_ns.iter().sum::<f64>() - t.total.mean()).abs() < 1e-3);
        assert!((t.mean_ns[Part::Thread as usize] - 4_500.0).abs() < 100.0);
        assert!((t.mean_ns[Part::Wait as usize] - 2_500.0).abs() < 60.0);
        for row in &t.at {
            let near = t.total.percentile(row.percentile) as f64;
            assert!((row.turnaround_ns / near - 1.0).abs() < 0.02, "{row:?} {near}");
        }
        assert_eq!(t.over_time.iter().map(|i| i.count).sum::<u64>(), 20_000);
        assert!(t.over_time.len() <= INTERVALS && t.over_time.len() > INTERVALS / 3);
        assert!(t.over_time.is_sorted_by(|a, b| a.end_ns < b.end_ns));
    }

    #[test]
    fn all_kinds_together_are_what_one_kind_of_all_would_be() {
        let mut rng = Rng::from_seed(8);
        let (mut kinds, mut whole) =
            ([Split::new("read"), Split::new("update")], Split::new("all"));
        let mut now = 0;
        for _ in 0..5_000 {
            now += rng.below(100_000);
            let (mut spent, work) = (Spent::default(), rng.below(50_000));
            spent.work(Span(work));
            let (begun, end) = (Time(now + 50_000 - work), Time(now + 50_000));
            // The second kind ends early: its intervals are shorter.
            let kind = &mut kinds[usize::from(now < 90_000_000 && rng.below(2) == 0)];
            kind.add(&spent, begun, begun, end);
            whole.add(&spent, begun, begun, end);
        }
        let (all, whole) = (Split::all(kinds.iter()), whole.report("p").unwrap());
        assert!(kinds[1].interval < all.interval);
        let all = all.report("p").unwrap();
        assert_eq!(format!("{all:?}"), format!("{whole:?}"));
    }
}
