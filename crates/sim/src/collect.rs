//! Statistics gathered as I/Os finish: fio's own, and where the time went.

use crate::result::{
    DelayTime, DirResult, HistLine, LatencyOverTime, LayerRow, LayerTable, LogLine,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use wordline_base::hist::{BUCKETS, least_for};
use wordline_base::life::{LAYERS, Part};
use wordline_base::{Ddir, Histogram, Life, Span, Time};

/// Latency by layer for one direction: the sums of every layer, and of what was in the way in it,
/// kept apart by latency bucket, so that the I/Os at a percentile can be split and not only the mean one.
pub struct LayerSums {
    latency: Histogram,
    bytes: u64,
    sums: Vec<[u64; LAYERS]>,
    delays: DelaySums,
}

impl Default for LayerSums {
    fn default() -> Self {
        LayerSums {
            latency: Histogram::new(),
            bytes: 0,
            sums: vec![[0; LAYERS]; BUCKETS],
            delays: DelaySums::default(),
        }
    }
}

/// Nanoseconds by latency bucket, and by layer and reason.
struct DelaySums {
    /// What has a column, in order of first sight.
    parts: Vec<Part>,
    /// The column of each part, or [`NO_COLUMN`].
    column: Box<[u16; Part::END]>,
    /// A row for each bucket, `width` columns.
    cells: Vec<u64>,
    width: usize,
}

const NO_COLUMN: u16 = u16::MAX;
/// Columns at first.
const WIDTH: usize = 16;

impl Default for DelaySums {
    fn default() -> Self {
        let column = Box::new([NO_COLUMN; Part::END]);
        DelaySums { parts: Vec::new(), column, cells: vec![0; WIDTH * BUCKETS], width: WIDTH }
    }
}

impl DelaySums {
    #[inline]
    fn add(&mut self, bucket: usize, part: Part, ns: u64) {
        let mut column = self.column[part.number()];
        if column == NO_COLUMN {
            column = self.column_for(part);
        }
        self.cells[bucket * self.width + usize::from(column)] += ns;
    }
    #[cold]
    fn column_for(&mut self, part: Part) -> u16 {
        if self.parts.len() == self.width {
            let mut wider = vec![0; 2 * self.cells.len()];
            let rows = wider.chunks_exact_mut(2 * self.width);
            for (row, old) in rows.zip(self.cells.chunks_exact(self.width)) {
                row[..old.len()].copy_from_slice(old);
            }
            (self.cells, self.width) = (wider, 2 * self.width);
        }
        let column = self.parts.len() as u16;
        self.parts.push(part);
        self.column[part.number()] = column;
        column
    }
    /// Those of a bucket.
    fn row(&self, bucket: usize) -> impl Iterator<Item = (Part, u64)> {
        let cells = &self.cells[bucket * self.width..];
        let row = self.parts.iter().copied().zip(cells.iter().copied());
        row.filter(|&(_, ns)| ns > 0)
    }
}

/// Percentiles at which latency is split by layer.
pub const SPLIT_AT: [f64; 4] = [50.0, 99.0, 99.9, 99.99];

impl LayerSums {
    /// Adds the layers of a finished I/O.
    #[inline]
    pub fn add(&mut self, life: &Life) {
        let latency = life.latency().0;
        let bucket = self.latency.place(latency);
        self.bytes += u64::from(life.len);
        let row = &mut self.sums[bucket];
        for (sum, spent) in row.iter_mut().zip(life.spent()) {
            *sum += spent;
        }
        life.delays().for_each(|(part, span)| self.delays.add(bucket, part, span.0));
        if life.dropped > 0 {
            life.dropped_delays().for_each(|(part, span)| self.delays.add(bucket, part, span.0));
        }
    }

    /// Adds all that `other` has.
    pub fn merge(&mut self, other: &LayerSums) {
        self.latency.merge(&other.latency);
        self.bytes += other.bytes;
        let rows = self.sums.iter_mut().zip(&other.sums);
        rows.for_each(|(sums, more)| sums.iter_mut().zip(more).for_each(|(a, b)| *a += b));
        for (bucket, _) in other.latency.buckets() {
            other.delays.row(bucket).for_each(|(part, ns)| self.delays.add(bucket, part, ns));
        }
    }

    /// Latencies of all that were added, in nanoseconds.
    pub fn latency(&self) -> &Histogram {
        &self.latency
    }
    /// Bytes of all that were added.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Their mean by layer at each of [`SPLIT_AT`] that an I/O lies beyond; none without an I/O.
    pub fn table(&self, ddir: Ddir) -> Option<LayerTable> {
        let count = self.latency.len();
        if count == 0 {
            return None;
        }
        let counts: Vec<(usize, u64)> = self.latency.buckets().collect();
        let (mut total, mut delays) = ([0u64; LAYERS], BTreeMap::new());
        for &(bucket, _) in &counts {
            for (t, s) in total.iter_mut().zip(&self.sums[bucket]) {
                *t += s;
            }
            self.delays.row(bucket).for_each(|(part, ns)| *delays.entry(part).or_insert(0) += ns);
        }
        let means = |delays: BTreeMap<Part, u64>, n: f64| {
            let mean = |(part, ns): (Part, u64)| DelayTime {
                layer: part.layer(),
                why: part.why(),
                ns: ns as f64 / n,
            };
            delays.into_iter().map(mean).collect()
        };
        let row = |percentile: f64| {
            if count < least_for(percentile) {
                return None;
            }
            let bucket = self.latency.percentile_bucket(percentile)?;
            let n = counts.iter().find(|c| c.0 == bucket)?.1 as f64;
            Some(LayerRow {
                percentile,
                // The mean latency of the bucket, so that the row sums to it.
                latency_ns: (self.sums[bucket].iter().sum::<u64>() as f64 / n).round() as u64,
                by_layer_ns: self.sums[bucket].iter().map(|&s| s as f64 / n).collect(),
                by_delay_ns: means(self.delays.row(bucket).collect(), n),
            })
        };
        Some(LayerTable {
            ddir: ddir.name().into(),
            count,
            mean_ns: self.latency.mean(),
            mean_by_layer_ns: total.iter().map(|&t| t as f64 / count as f64).collect(),
            mean_by_delay_ns: means(delays, count as f64),
            at: SPLIT_AT.iter().filter_map(|&p| row(p)).collect(),
        })
    }
}

/// Latency by interval of completion. Intervals become twice as long, two and two put together, as often as
/// a run goes beyond them.
pub struct LatencySeries {
    of: LatencyOverTime,
}

impl LatencySeries {
    const ROWS: usize = 128;

    /// `interval` is the first length; it doubles as the run goes on.
    pub fn new(interval: Span) -> LatencySeries {
        let of = LatencyOverTime { interval_ns: interval.0.max(1), intervals: Vec::new() };
        LatencySeries { of }
    }

    /// Adds an I/O that completed at `at`.
    pub fn add(&mut self, at: Time, ddir: Ddir, latency: Span) {
        let row = loop {
            let row = (at.0 / self.of.interval_ns) as usize;
            if row < LatencySeries::ROWS {
                break row;
            }
            self.halve();
        };
        if row >= self.of.intervals.len() {
            self.of.intervals.resize_with(row + 1, Default::default);
        }
        self.of.intervals[row][ddir.reported()].add(latency.0);
    }

    fn halve(&mut self) {
        let pairs = std::mem::take(&mut self.of.intervals);
        let mut pairs = pairs.into_iter();
        while let Some(mut first) = pairs.next() {
            for (sum, more) in first.iter_mut().zip(pairs.next().iter().flatten()) {
                sum.merge(more);
            }
            self.of.intervals.push(first);
        }
        self.of.interval_ns *= 2;
    }

    /// The series, once the run is over.
    pub fn take(self) -> LatencyOverTime {
        self.of
    }
}

/// The N slowest I/Os. Ties keep the earlier one.
pub struct Slowest {
    limit: usize,
    heap: BinaryHeap<Reverse<(u64, Reverse<u64>, usize)>>,
    lives: Vec<Life>,
    seen: u64,
}

impl Slowest {
    /// `limit` 0 keeps none.
    pub fn new(limit: usize) -> Slowest {
        Slowest { limit, heap: BinaryHeap::new(), lives: Vec::new(), seen: 0 }
    }
    /// Keeps the I/O if it is one of the slowest so far.
    #[inline]
    pub fn offer(&mut self, life: &Life, thread: u32) {
        if self.limit > 0 {
            self.rank(life, thread);
        }
    }
    fn rank(&mut self, life: &Life, thread: u32) {
        self.seen += 1;
        let latency = life.latency().0;
        if self.lives.len() < self.limit {
            self.heap.push(Reverse((latency, Reverse(self.seen), self.lives.len())));
            self.lives.push(life.of_job(thread));
        } else if self.heap.peek().is_some_and(|Reverse(least)| latency > least.0) {
            let Some(Reverse((_, _, slot))) = self.heap.pop() else { return };
            self.lives[slot] = life.of_job(thread);
            self.heap.push(Reverse((latency, Reverse(self.seen), slot)));
        }
    }
    /// Takes in what is kept apart. Of I/Os that took as long, its own stay.
    fn merge(&mut self, other: Slowest) {
        for life in other.take() {
            let job = life.job;
            self.offer(&life, job);
        }
    }
    /// Slowest first.
    pub fn take(self) -> Vec<Life> {
        let mut order: Vec<_> = self.heap.into_iter().map(|Reverse(e)| e).collect();
        order.sort_by_key(|&(latency, Reverse(seen), _)| (Reverse(latency), seen));
        order.into_iter().map(|(_, _, slot)| self.lives[slot].clone()).collect()
    }
}

/// What is kept of I/Os as they end, by direction.
pub struct Kept {
    /// Sums by layer.
    pub layers: [LayerSums; 4],
    /// The slowest.
    pub slowest: [Slowest; 4],
}

impl Kept {
    /// Nothing yet, and `slowest` I/Os of each direction at most.
    pub fn new(slowest: usize) -> Kept {
        Kept { layers: Default::default(), slowest: std::array::from_fn(|_| Slowest::new(slowest)) }
    }
    /// Takes in what is kept apart.
    pub fn merge(&mut self, other: Kept) {
        self.layers.iter_mut().zip(&other.layers).for_each(|(all, own)| all.merge(own));
        self.slowest.iter_mut().zip(other.slowest).for_each(|(all, own)| all.merge(own));
    }
}

/// fio's bandwidth and IOPS sampling: a sample when at least `interval` has passed since the last
/// one, taken as an I/O of that direction completes; and one line of the log likewise.
#[derive(Clone, Default)]
pub struct Sampler {
    last: Time,
    bytes: u64,
    ios: u64,
}

impl Sampler {
    /// The first interval begins.
    pub fn start(&mut self, at: Time) {
        *self = Sampler { last: at, bytes: 0, ios: 0 };
    }
    /// Counts a completion. When an interval is over: (KiB/s, I/Os a second) over it.
    pub fn add(&mut self, now: Time, bytes: u64, interval: Span) -> Option<(u64, u64)> {
        self.bytes += bytes;
        self.ios += 1;
        let passed = now.since(self.last).0;
        if passed < interval.0 || passed == 0 {
            return None;
        }
        let rate = |n: u64| (u128::from(n) * 1_000_000_000 / u128::from(passed)) as u64;
        let sample = (rate(self.bytes) / 1024, rate(self.ios));
        (self.last, self.bytes, self.ios) = (now, 0, 0);
        Some(sample)
    }
}

/// One of fio's latency logs: every I/O, or with `log_avg_msec` the mean (or maximum) of each
/// interval, and of what is left at the job's end.
pub struct LatLog {
    /// Lines so far, in the order of completion.
    lines: Vec<LogLine>,
    /// The length of an interval; zero: a line of each I/O.
    average: Span,
    /// Lines have the largest value of an interval, not the mean.
    maximum: bool,
    /// The interval under way, by direction.
    window: [Window; 3],
}

#[derive(Clone, Copy, Default)]
struct Window {
    start: Time,
    sum: u128,
    max: u64,
    n: u64,
    /// The newest I/O of it.
    newest: Option<LogLine>,
}

impl Window {
    /// Its line, if it has an I/O.
    fn line(&self, at: Time, maximum: bool) -> Option<LogLine> {
        let newest = self.newest?;
        let value = if maximum { self.max } else { (self.sum / u128::from(self.n)) as u64 };
        Some(LogLine::averaged(at, value, newest.ddir))
    }
}

impl LatLog {
    /// `average`: length of an interval, zero for a line of each I/O. `maximum`: the largest value of an
    /// interval in place of the mean.
    pub fn new(average: Span, maximum: bool) -> LatLog {
        LatLog { lines: Vec::new(), average, maximum, window: Default::default() }
    }
    /// Takes the value of an I/O.
    pub fn add(&mut self, line: LogLine) {
        if self.average == Span::ZERO {
            self.lines.push(line);
            return;
        }
        let w = &mut self.window[(line.ddir as usize).min(2)];
        w.sum += u128::from(line.value);
        w.max = w.max.max(line.value);
        w.n += 1;
        w.newest = Some(line);
        if line.at.since(w.start) >= self.average {
            self.lines.extend(w.line(line.at, self.maximum));
            *w = Window { start: line.at, ..Window::default() };
        }
    }
    /// The clock begins anew at `end` (set_epoch_time, before the last window of `latency_target`): what there is has its
    /// line. fio has no averaged lines from there on, until the new clock has passed the old one (add_log_sample).
    pub fn restart(&mut self, end: Time) {
        self.lines.extend(self.window.iter().filter_map(|w| w.line(end, self.maximum)));
        self.window = Default::default();
    }
    /// All lines, of a job that was over at `end`.
    pub fn finish(mut self, end: Time) -> Vec<LogLine> {
        self.restart(end);
        self.lines
    }
}

/// fio's `write_hist_log`: what the histogram of completion latency has gained, each time an
/// interval is over as an I/O completes. Intervals are of whole milliseconds and do not drift; the
/// first begins with the first I/O after the first millisecond.
pub struct HistLog {
    /// Lines so far, in the order of completion.
    pub lines: Vec<HistLine>,
    /// The length of an interval.
    interval_ms: u64,
    /// Bins that become one.
    stride: usize,
    /// When each direction had its last line.
    last_ms: [u64; 3],
    /// Counts at that line, by direction.
    before: [Vec<u64>; 3],
}

impl HistLog {
    /// `coarseness`: two bins become one so many times.
    pub fn new(interval: Span, coarseness: u32) -> HistLog {
        HistLog {
            lines: Vec::new(),
            interval_ms: interval.0 / 1_000_000,
            stride: 1 << coarseness,
            last_ms: [0; 3],
            before: std::array::from_fn(|_| vec![0; BUCKETS]),
        }
    }
    /// The clock begins anew, and the histogram is empty.
    pub fn restart(&mut self) {
        self.last_ms = [0; 3];
        self.before.iter_mut().for_each(|counts| counts.fill(0));
    }
    /// An I/O of `bs` bytes completed at `at`; `clat` is the thread's histogram with it.
    pub fn add(&mut self, at: Time, ddir: Ddir, bs: u32, clat: &Histogram) {
        if self.interval_ms == 0 {
            return;
        }
        let (d, now) = (ddir as usize, at.0 / 1_000_000);
        if self.last_ms[d] == 0 {
            self.last_ms[d] = now;
        }
        if now - self.last_ms[d] < self.interval_ms {
            return;
        }
        let window = now - self.last_ms[d];
        self.last_ms[d] = now - (window - self.interval_ms);
        let mut counts = vec![0; BUCKETS];
        clat.buckets().for_each(|(bucket, n)| counts[bucket] = n);
        let gained =
            counts.iter().zip(&self.before[d]).map(|(now, then)| now.saturating_sub(*then));
        let gained: Vec<u64> = gained.collect();
        let bins = gained.chunks(self.stride).map(|bins| bins.iter().sum()).collect();
        self.lines.push(HistLine { at, ddir, bs, bins });
        self.before[d] = counts;
    }
}

impl DirResult {
    /// Counts a finished I/O: latencies in nanoseconds.
    #[inline]
    pub fn add(&mut self, bytes: u64, slat: u64, clat: u64) {
        self.io_bytes += bytes;
        self.total_ios += 1;
        self.slat.add(slat);
        self.clat.add(clat);
        self.lat.add(slat + clat);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::{IoClass, IoId, Layer, Lives, Why};

    fn life(lives: &mut Lives, begin: u64, nand: u64, wait: u64) -> Life {
        let io: IoId = lives.begin(0, Ddir::Read, 0, 4096, Time(begin));
        lives.mark(io, Layer::LunWait, Why::BehindErase, 0, Time(begin + wait));
        lives.mark(io, Layer::Nand, Why::Read, 0, Time(begin + wait + nand));
        lives.end(io)
    }

    /// As when `latency_target` has found its depth.
    #[test]
    fn logs_go_on_when_the_clock_begins_anew() {
        let mut log = HistLog::new(Span(100_000_000), 0);
        let mut at_once = LatLog::new(Span(100_000_000), false);
        for round in 0..2 {
            let mut clat = Histogram::default();
            for ms in (1..=1000).step_by(10) {
                let at = Time(ms * 1_000_000);
                clat.add(5000);
                log.add(at, Ddir::Read, 4096, &clat);
                let (value, ddir, class) = (5000, Ddir::Read, IoClass::default());
                at_once.add(LogLine { at, value, ddir, bs: 4096, offset: 0, class });
            }
            let gained: Vec<u64> = log.lines.drain(..).map(|line| line.bins.iter().sum()).collect();
            assert_eq!(gained, [11, 10, 10, 10, 10, 10, 10, 10, 10], "round {round}");
            if round == 0 {
                log.restart();
                at_once.restart(Time(1_000_000_000));
            }
        }
        let times =
            at_once.finish(Time(1_000_000_000)).into_iter().map(|line| line.at.0 / 1_000_000);
        let round = (1..=9).map(|n| n * 100 + 1).chain([1000]);
        assert_eq!(times.collect::<Vec<_>>(), round.clone().chain(round).collect::<Vec<_>>());
    }

    /// A job shorter than an interval has a line, and so have the I/Os after the last whole one.
    #[test]
    fn a_latency_log_ends_with_the_job() {
        let line = |ms: u64, ddir: Ddir, value: u64| LogLine {
            at: Time(ms * 1_000_000),
            value,
            ddir,
            bs: 4096,
            offset: 8192,
            class: IoClass::default(),
        };
        let lines = |maximum: bool, average: u64| {
            let mut log = LatLog::new(Span(average * 1_000_000), maximum);
            for (ms, ddir, value) in [(4, Ddir::Write, 7), (6, Ddir::Read, 10), (8, Ddir::Read, 31)]
            {
                log.add(line(ms, ddir, value));
            }
            log.add(line(12, Ddir::Read, 4));
            log.add(line(14, Ddir::Read, 8));
            let lines = log.finish(Time(15_000_000));
            lines.iter().map(|l| (l.at.0 / 1_000_000, l.ddir, l.value)).collect::<Vec<_>>()
        };
        let (r, w) = (Ddir::Read, Ddir::Write);
        assert_eq!(lines(false, 10), [(12, r, 15), (15, r, 8), (15, w, 7)]);
        assert_eq!(lines(true, 10), [(12, r, 31), (15, r, 8), (15, w, 7)]);
        assert_eq!(lines(false, 100), [(15, r, 13), (15, w, 7)]);
        assert_eq!(lines(false, 0), [(4, w, 7), (6, r, 10), (8, r, 31), (12, r, 4), (14, r, 8)]);
        assert!(LatLog::new(Span(1), false).finish(Time(15)).is_empty());
    }

    #[test]
    fn every_row_of_the_split_sums_to_its_latency() {
        let (mut sums, mut lives) = (LayerSums::default(), Lives::default());
        for i in 0..10_000u64 {
            let wait = if i % 100 == 0 { 5_000_000 } else { i % 977 };
            sums.add(&life(&mut lives, i, 65_000 + i % 13, wait));
        }
        let table = sums.table(Ddir::Read).unwrap();
        assert!((table.mean_by_layer_ns.iter().sum::<f64>() - table.mean_ns).abs() < 1e-3);
        for row in &table.at {
            assert!((row.by_layer_ns.iter().sum::<f64>() - row.latency_ns as f64).abs() <= 0.5);
        }
        let p9999 = table.at.last().unwrap();
        assert_eq!(p9999.by_layer_ns[Layer::LunWait as usize].round() as u64, 5_000_000);
    }

    #[test]
    fn the_slowest_are_kept_in_order() {
        let (mut slowest, mut lives) = (Slowest::new(3), Lives::default());
        for nand in [5, 1, 9, 9, 3, 7, 2] {
            slowest.offer(&life(&mut lives, 0, nand, 0), 0);
        }
        let latencies: Vec<u64> = slowest.take().iter().map(|l| l.latency().0).collect();
        assert_eq!(latencies, [9, 9, 7]);
    }

    #[test]
    fn the_slowest_of_two_lists_are_one_list_of_the_slowest() {
        let (mut all, mut searched) = (Slowest::new(2), Slowest::new(2));
        let mut lives = Lives::default();
        for nand in [4, 6] {
            all.offer(&life(&mut lives, 0, nand, 0), 0);
        }
        for nand in [5, 6, 8] {
            searched.offer(&life(&mut lives, 0, nand, 0), 1);
        }
        all.merge(searched);
        let of = |l: &Life| (l.latency().0, l.job);
        assert_eq!(all.take().iter().map(of).collect::<Vec<_>>(), [(8, 1), (6, 0)]);
    }

    #[test]
    fn intervals_grow_with_the_run_and_keep_every_io() {
        let mut series = LatencySeries::new(Span(10));
        let mut all = Histogram::new();
        for i in 0..100_000u64 {
            let ddir = if i % 3 == 0 { Ddir::Write } else { Ddir::Read };
            series.add(Time(i), ddir, Span(i % 1_009));
            all.add(i % 1_009);
        }
        let of = series.take();
        // 128 intervals of 10, doubled until 100,000 is within them.
        assert_eq!((of.interval_ns, of.intervals.len()), (1280, 79));
        let (mut sum, mut counts) = (Histogram::new(), Vec::new());
        for row in &of.intervals {
            counts.push(row.iter().map(Histogram::len).sum::<u64>());
            row.iter().for_each(|h| sum.merge(h));
        }
        assert_eq!(sum, all);
        assert!(counts[..78].iter().all(|&n| n == 1280), "{counts:?}");
        assert_eq!(of.intervals[0][Ddir::Write as usize].len(), 427);
    }

    #[test]
    fn samples_are_rates_over_the_interval() {
        let mut s = Sampler::default();
        s.start(Time::ZERO);
        let ms = |n: u64| Time(n * 1_000_000);
        for i in 1..500 {
            assert_eq!(s.add(ms(i), 4096, Span::from_ms(500)), None);
        }
        assert_eq!(s.add(ms(500), 4096, Span::from_ms(500)), Some((4000, 1000)));
        assert_eq!(s.add(ms(501), 4096, Span::from_ms(500)), None);
    }
}
