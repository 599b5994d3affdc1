//! The run in intervals: what came back and how late, and how the flash stood.

use crate::collect::LayerSums;
use crate::result::{DirectionOverTime, FreeLines, Intervals};
use std::borrow::Cow;
use wordline_base::hist::{BUCKETS, least, midpoint, rank};
use wordline_base::{Ddir, Time};
use wordline_nand::Class;
use wordline_nand::machine::WAITS;

/// Buckets of latency that a cell of the heat map has: eight cells to an octave.
const CELL: usize = 8;

/// How the flash of all drives stands.
#[derive(Clone, Copy, Default)]
pub struct Flash {
    /// Reads of users that came from flash, in pieces.
    pub reads: u64,
    /// Those of them that waited.
    pub waited: u64,
    /// Those that waited, by what they waited for longest.
    pub blocked: [u64; WAITS],
    /// Free lines, and of how many on collecting begins and writers wait. None if one of the FTLs has no lines.
    pub free_lines: Option<(u32, f64, f64)>,
}

/// What came back of one direction.
#[derive(Clone, Default)]
struct Gained {
    bytes: u64,
    /// Bucket and count, ascending.
    counts: Vec<(u16, u64)>,
}

impl Gained {
    fn with(&self, next: &Gained) -> Gained {
        let mut counts = self.counts.clone();
        for &(bucket, n) in &next.counts {
            match counts.binary_search_by_key(&bucket, |c| c.0) {
                Ok(at) => counts[at].1 += n,
                Err(at) => counts.insert(at, (bucket, n)),
            }
        }
        Gained { bytes: self.bytes + next.bytes, counts }
    }
    fn ios(&self) -> u64 {
        self.counts.iter().map(|c| c.1).sum()
    }
    /// The middle of the bucket of a percentile; none where so few came back that it is their slowest.
    fn percentile(&self, percent: f64) -> Option<u64> {
        let ios = self.ios();
        let beyond = ios as f64 * (1.0 - percent / 100.0);
        // A part of 1e-9 is rounding.
        if beyond < 1.0 - 1e-9 {
            return None;
        }
        let mut seen = 0;
        let found = self.counts.iter().find(|(_, n)| {
            seen += n;
            seen >= rank(percent, ios)
        });
        found.map(|&(bucket, _)| midpoint(bucket.into()))
    }
}

#[derive(Clone)]
struct Row {
    end_ns: u64,
    dirs: [Gained; 4],
    flash: Flash,
}

impl Row {
    /// Two intervals as one, with the fewest free lines of both.
    fn with(&self, next: &Row) -> Row {
        let (a, b) = (&self.flash, &next.flash);
        let free_lines = match (a.free_lines, b.free_lines) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), b.1, b.2)),
            (a, b) => b.or(a),
        };
        Row {
            end_ns: next.end_ns,
            dirs: std::array::from_fn(|d| self.dirs[d].with(&next.dirs[d])),
            flash: Flash {
                reads: a.reads + b.reads,
                waited: a.waited + b.waited,
                blocked: std::array::from_fn(|i| a.blocked[i] + b.blocked[i]),
                free_lines,
            },
        }
    }
}

/// The intervals so far. What an I/O adds is counted elsewhere: a row is what came since the one before.
#[derive(Default)]
pub struct Series {
    rows: Vec<Row>,
    bytes: [u64; 4],
    counts: [Vec<u64>; 4],
    flash: Flash,
}

impl Series {
    /// `layers`: sums of I/Os apart from each other.
    pub fn add(&mut self, now_ns: u64, layers: &[&[LayerSums; 4]], flash: Flash) {
        let dirs = std::array::from_fn(|d| self.gained(d, layers));
        let then = std::mem::replace(&mut self.flash, flash);
        let flash = Flash {
            reads: flash.reads - then.reads,
            waited: flash.waited - then.waited,
            blocked: std::array::from_fn(|i| flash.blocked[i] - then.blocked[i]),
            free_lines: flash.free_lines,
        };
        self.rows.push(Row { end_ns: now_ns, dirs, flash });
    }

    fn gained(&mut self, d: usize, layers: &[&[LayerSums; 4]]) -> Gained {
        let bytes = layers.iter().map(|of| of[d].bytes()).sum();
        let bytes = bytes - std::mem::replace(&mut self.bytes[d], bytes);
        let before = &mut self.counts[d];
        let mut counts = Vec::new();
        let sum =
            layers.iter().skip(1).fold(Cow::Borrowed(layers[0][d].latency()), |mut sum, of| {
                sum.to_mut().merge(of[d].latency());
                sum
            });
        for (bucket, n) in sum.buckets() {
            if before.is_empty() {
                before.resize(BUCKETS, 0);
            }
            let gained = n - std::mem::replace(&mut before[bucket], n);
            if gained > 0 {
                counts.push((bucket as u16, gained));
            }
        }
        Gained { bytes, counts }
    }

    /// Pairs of rows become one.
    pub fn halve(&mut self) {
        self.rows = self
            .rows
            .chunks(2)
            .map(|p| p[1..].iter().fold(p[0].clone(), |a, b| a.with(b)))
            .collect();
    }

    pub fn ends_at(&self) -> Option<u64> {
        self.rows.last().map(|row| row.end_ns)
    }

    /// `uncounted`: [`DirectionOverTime::uncounted_ns`], by direction.
    pub fn result(&self, uncounted: [Vec<[u64; 2]>; 4]) -> Intervals {
        let rows = &self.rows;
        let flash = || rows.iter().map(|row| &row.flash);
        let names = Class::ALL.map(Class::name).into_iter().chain(["suspension", "transfer"]);
        let blocked = names
            .enumerate()
            .map(|(i, name)| (name.to_string(), flash().map(|f| f.blocked[i]).collect::<Vec<_>>()));
        let lines: Option<Vec<_>> = flash().map(|f| f.free_lines).collect();
        let free_lines = lines.filter(|lines| !lines.is_empty()).map(|lines| FreeLines {
            writers_wait_below: lines[0].1,
            collecting_below: lines[0].2,
            lines: lines.into_iter().map(|(free, ..)| free).collect(),
        });
        Intervals {
            end_ns: rows.iter().map(|row| row.end_ns).collect(),
            latency: Ddir::REPORTED
                .iter()
                .zip(uncounted)
                .filter_map(|(&ddir, uncounted)| self.of_direction(ddir, uncounted))
                .collect(),
            flash_reads: flash().map(|f| f.reads).collect(),
            flash_reads_waited: flash().map(|f| f.waited).collect(),
            reads_blocked: blocked.filter(|(_, n)| n.iter().any(|&n| n > 0)).collect(),
            free_lines,
        }
    }

    fn of_direction(&self, ddir: Ddir, uncounted: Vec<[u64; 2]>) -> Option<DirectionOverTime> {
        let rows = || self.rows.iter().map(|row| &row.dirs[ddir as usize]);
        let cells =
            || rows().flat_map(|r| &r.counts).map(|&(bucket, _)| usize::from(bucket) / CELL);
        let (first, last) = (cells().min()?, cells().max()?);
        let at = |percent: f64| rows().map(|row| row.percentile(percent)).collect();
        let cells_of = |row: &Gained| {
            let mut cells = vec![0; last - first + 1];
            for &(bucket, n) in &row.counts {
                cells[usize::from(bucket) / CELL - first] += n;
            }
            cells
        };
        Some(DirectionOverTime {
            ddir: ddir.name().into(),
            uncounted_ns: uncounted,
            ios: rows().map(Gained::ios).collect(),
            bytes: rows().map(|row| row.bytes).collect(),
            p50_ns: at(50.0),
            p99_ns: at(99.0),
            p99_9_ns: at(99.9),
            p99_99_ns: at(99.99),
            slowest_ns: rows()
                .map(|row| row.counts.last().map(|&(bucket, _)| midpoint(bucket.into())))
                .collect(),
            edges_ns: (first..=last + 1).map(|cell| least(cell * CELL)).collect(),
            counts: rows().map(cells_of).collect(),
        })
    }
}

/// What lies in one of some stretches of time and in none of others, in order and apart.
pub fn outside(some: &[(Time, Time)], others: &[(Time, Time)]) -> Vec<[u64; 2]> {
    let ends = |list: &[(Time, Time)], by: (i64, i64)| -> Vec<(u64, (i64, i64))> {
        let list = list.iter().filter(|(from, to)| from < to);
        list.flat_map(|(from, to)| [(from.0, by), (to.0, (-by.0, -by.1))]).collect()
    };
    let mut all = ends(some, (1, 0));
    all.append(&mut ends(others, (0, 1)));
    all.sort_unstable();
    let (mut found, mut open, mut from) = (Vec::<[u64; 2]>::new(), (0, 0), 0);
    for (at, by) in all {
        if open.0 > 0 && open.1 == 0 && from < at {
            match found.last_mut().filter(|last| last[1] == from) {
                Some(last) => last[1] = at,
                None => found.push([from, at]),
            }
        }
        (open, from) = ((open.0 + by.0, open.1 + by.1), at);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::{IoId, Layer, Lives, Rng, Why};

    #[test]
    fn outside_is_what_a_look_at_each_moment_finds() {
        for seed in 0..300 {
            let mut rng = Rng::from_seed(seed);
            let mut list = || -> Vec<(Time, Time)> {
                let one = |rng: &mut Rng| (Time(rng.below(60)), Time(rng.below(60)));
                (0..rng.below(6)).map(|_| one(&mut rng)).collect()
            };
            let (some, others) = (list(), list());
            let in_any = |list: &[(Time, Time)], t| list.iter().any(|s| s.0.0 <= t && t < s.1.0);
            let found = outside(&some, &others);
            for t in 0..60 {
                let is = found.iter().any(|s| s[0] <= t && t < s[1]);
                assert_eq!(is, in_any(&some, t) && !in_any(&others, t), "seed {seed} at {t}");
            }
            assert!(found.windows(2).all(|w| w[0][1] < w[1][0]), "seed {seed}: {found:?}");
        }
    }

    #[test]
    fn rows_add_up_to_all_however_often_they_are_put_together() {
        let (mut series, mut layers) = (Series::default(), <[LayerSums; 4]>::default());
        let mut lives = Lives::default();
        for i in 0..1_000u64 {
            let io: IoId = lives.begin(0, Ddir::Read, 0, 4096, Time(i));
            lives.mark(io, Layer::Nand, Why::Read, 0, Time(i + 1_000 + i * i % 70_001));
            layers[0].add(lives.get(io));
            lives.release(io);
            if i % 100 == 99 {
                let free_lines = Some((100 - (i / 100) as u32, 4.0, 9.5));
                let flash = Flash { reads: i, waited: i / 2, free_lines, ..Flash::default() };
                series.add(i, &[&layers], flash);
            }
            if i == 699 {
                series.halve();
            }
        }
        let r = series.result(Default::default());
        assert_eq!(r.end_ns, [199, 399, 599, 699, 799, 899, 999]);
        assert_eq!(r.latency.len(), 1, "writes and trims had none");
        let reads = &r.latency[0];
        assert_eq!(reads.ios, [200, 200, 200, 100, 100, 100, 100]);
        assert_eq!(reads.bytes.iter().sum::<u64>(), 4096 * 1_000);
        assert_eq!(reads.edges_ns.len(), reads.counts[0].len() + 1);
        let in_row = |i: usize| reads.counts[i].iter().sum::<u64>();
        assert!((0..7).all(|i| in_row(i) == reads.ios[i]), "{:?}", reads.counts);
        assert!(reads.p99_ns.iter().all(Option::is_some));
        assert!(reads.p99_9_ns.iter().all(Option::is_none), "100 I/Os have no 99.9 %");
        assert!(reads.p99_ns[0] <= reads.slowest_ns[0]);
        assert_eq!(r.flash_reads.iter().sum::<u64>(), 999);
        let lines = r.free_lines.unwrap();
        assert_eq!(lines.lines, [99, 97, 95, 94, 93, 92, 91]);
        assert_eq!((lines.writers_wait_below, lines.collecting_below), (4.0, 9.5));
    }
}
