//! The cache in two partitions by associativity (FlashShare): every set has ways of latency-critical
//! commands and ways of all others. A line that is looked up is found in whichever it is; a line that
//! is brought in goes into a way of its command's partition, so that neither evicts the other's.
//!
//! The split follows what commands would hit. Each partition has a monitor (Qureshi and Patt, MICRO 2006): tags
//! alone, over a sample of the sets, with all ways of the cache, in order of use. A hit at the nth place of
//! that order is one that n ways would have had. At the end of an epoch, which is so many commands or so much
//! time, the split moves by one way towards the one that would have had the most hits of both. As options it
//! follows the shares of the different lines missed, or of the commands; by these a scan, which hits nothing,
//! gets nearly all ways. A way that moves keeps its lines: they are found as before, and what is dirty is written
//! back before its place is used again. A monitor knows nothing of read-ahead and of lines in the other's ways.

use crate::config::{EpochConfig, PartitionBy, PartitionConfig, Split};
use crate::ghost::Shape;
use std::ops::Range;
use wordline_base::{BadValue, IoClass, QueuePriority, Span, Time, Workload};

/// The partition of latency-critical commands, and that of all others. A cache that is not split has the
/// first alone.
pub(crate) const LATENCY: u8 = 0;
pub(crate) const THROUGHPUT: u8 = 1;
pub(crate) const PARTITIONS: usize = 2;
/// Names of the partitions in results, in order.
pub const PARTITION_NAMES: [&str; PARTITIONS] = ["latency", "throughput"];

/// Different lines, by partition: an open hash table that is emptied by raising the epoch's number.
struct Lines {
    slots: Vec<(u32, u32)>,
    epoch: u32,
    used: usize,
}

impl Lines {
    fn new() -> Lines {
        Lines { slots: vec![(0, 0); 1 << 10], epoch: 1, used: 0 }
    }
    /// True if the line is new in this epoch.
    fn add(&mut self, line: u32) -> bool {
        if self.used * 2 >= self.slots.len() {
            self.grow();
        }
        let at = self.place(line);
        if self.slots[at] == (line, self.epoch) {
            return false;
        }
        self.slots[at] = (line, self.epoch);
        self.used += 1;
        true
    }
    fn place(&self, line: u32) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = (line.wrapping_mul(0x9E37_79B1) >> 8) as usize & mask;
        while self.slots[at].1 == self.epoch && self.slots[at].0 != line {
            at = (at + 1) & mask;
        }
        at
    }
    fn grow(&mut self) {
        let double = self.slots.len() * 2;
        let old = std::mem::replace(&mut self.slots, vec![(0, 0); double]);
        for (line, epoch) in old {
            if epoch == self.epoch {
                let at = self.place(line);
                self.slots[at] = (line, epoch);
            }
        }
    }
    fn clear(&mut self) {
        self.used = 0;
        self.epoch += 1;
    }
}

/// So many sets are enough to go by (Qureshi and Patt, from memory), and one in so many is monitored at least.
const SETS: u32 = 32;
const SAMPLE: u32 = 16;

/// Hits of a partition's commands by the ways that they take.
struct Monitor {
    shape: Shape,
    sample: u32,
    /// By set of the sample: line numbers + 1, the one used last first; 0 is empty.
    tags: Vec<u32>,
    /// By place in that order. Halved at the end of an epoch.
    hits: Vec<u64>,
}

impl Monitor {
    fn new(shape: Shape) -> Monitor {
        let sample = (shape.sets / SETS).clamp(1, SAMPLE);
        let sets = shape.sets.div_ceil(sample) as usize;
        let ways = shape.ways as usize;
        Monitor { shape, sample, tags: vec![0; sets * ways], hits: vec![0; ways] }
    }
    /// A command uses these lines. Those that are not there come in, if the command brings them in.
    fn see(&mut self, lpn: u32, sectors: u32, enters: bool) {
        let ways = self.shape.ways as usize;
        for (set, line) in self.shape.sampled(self.sample, lpn, sectors) {
            let tags = &mut self.tags[set as usize * ways..][..ways];
            let found = tags.iter().position(|&tag| tag == line + 1);
            match found {
                Some(at) => self.hits[at] += 1,
                None if !enters => continue,
                None => {}
            }
            tags.copy_within(..found.unwrap_or(ways - 1), 1);
            tags[0] = line + 1;
        }
    }
    fn with(&self, ways: u32) -> u64 {
        self.hits[..ways as usize].iter().sum()
    }
    fn end_epoch(&mut self) {
        self.hits.iter_mut().for_each(|hits| *hits /= 2);
    }
}

/// Between two decisions: so many commands, or so much time.
pub(crate) struct Epoch {
    commands: u64,
    time: Span,
    left: u64,
    until: Time,
}

impl Epoch {
    pub fn new(c: &EpochConfig) -> Result<Epoch, BadValue> {
        if c.ios == 0 {
            return Err(BadValue::new("cache.epoch.ios", "must be at least 1"));
        }
        if c.time == Span::ZERO {
            return Err(BadValue::new("cache.epoch.time", "must be above 0"));
        }
        Ok(Epoch { commands: c.ios, time: c.time, left: c.ios, until: Time::ZERO + c.time })
    }
    /// A command comes: whether the epoch was over before it. Then the next one begins with it.
    #[inline]
    pub fn is_over(&mut self, now: Time) -> bool {
        let over = self.left == 0 || now >= self.until;
        if over {
            self.left = self.commands;
            self.until = now + self.time;
        }
        self.left -= 1;
        over
    }
}

/// What commands of a partition did in this epoch.
struct Seen {
    commands: u64,
    missed: u64,
    lines: Lines,
    /// Where it decides.
    monitor: Option<Monitor>,
}

pub(crate) struct Partitions {
    by: PartitionBy,
    split: Split,
    ways: u32,
    latency_ways: u32,
    seen: [Seen; PARTITIONS],
    /// When the split became what it is, from the start on.
    pub over_time: Vec<(Time, u32)>,
}

impl Partitions {
    pub fn new(c: &PartitionConfig, shape: Shape) -> Result<Partitions, BadValue> {
        let ways = shape.ways;
        if ways < 2 {
            let message = "needs two ways: raise cache.ways, or set cache.partition to none";
            return Err(BadValue::new("cache.partition", message));
        }
        if !(1..ways).contains(&c.latency_ways) {
            let message = format!("is {}: must be 1 to {}", c.latency_ways, ways - 1);
            return Err(BadValue::new("cache.partition.latency_ways", message));
        }
        Ok(Partitions {
            by: c.by,
            split: c.split,
            ways,
            latency_ways: c.latency_ways,
            seen: std::array::from_fn(|_| Seen {
                commands: 0,
                missed: 0,
                lines: Lines::new(),
                monitor: (c.split == Split::Hits).then(|| Monitor::new(shape)),
            }),
            over_time: vec![(Time::ZERO, c.latency_ways)],
        })
    }

    /// Whose a command is.
    #[inline]
    pub fn of(&self, class: IoClass, queue: QueuePriority) -> u8 {
        let critical = match self.by {
            PartitionBy::Attribute => class.workload() == Workload::Latency,
            PartitionBy::Queue => matches!(queue, QueuePriority::Urgent | QueuePriority::High),
        };
        if critical { LATENCY } else { THROUGHPUT }
    }

    #[inline]
    pub fn ways_of(&self, partition: u8) -> Range<u32> {
        match partition {
            LATENCY => 0..self.latency_ways,
            _ => self.latency_ways..self.ways,
        }
    }

    /// A read or write comes.
    #[inline]
    pub fn see(&mut self, partition: u8, lpn: u32, sectors: u32, enters: bool) {
        let seen = &mut self.seen[usize::from(partition)];
        seen.commands += 1;
        if let Some(monitor) = &mut seen.monitor {
            monitor.see(lpn, sectors, enters);
        }
    }
    /// A line was asked for and is not there.
    #[inline]
    pub fn miss(&mut self, partition: u8, line: u32) {
        if self.split != Split::MissingLines {
            return;
        }
        let seen = &mut self.seen[usize::from(partition)];
        seen.missed += u64::from(seen.lines.add(line));
    }

    /// Latency-critical ways that would be just, by what was seen; none if nothing was.
    fn just(&self) -> Option<u32> {
        let [latency, throughput] = &self.seen;
        let missed = (latency.missed, latency.missed + throughput.missed);
        let commands = (latency.commands, latency.commands + throughput.commands);
        let (part, all) = match self.split {
            Split::Fixed => return None,
            Split::Hits => return self.most_hits(),
            Split::MissingLines if missed.1 > 0 => missed,
            Split::MissingLines | Split::Requests => commands,
        };
        // Rounded to the nearest.
        let just = (u64::from(self.ways) * part * 2 + all).checked_div(all * 2)?;
        Some((just as u32).clamp(1, self.ways - 1))
    }
    /// The split that would have had the most hits; of equal ones that nearest to the one in force.
    fn most_hits(&self) -> Option<u32> {
        let [Some(latency), Some(throughput)] = self.seen.each_ref().map(|s| s.monitor.as_ref())
        else {
            return None;
        };
        let hits = |ways: u32| latency.with(ways) + throughput.with(self.ways - ways);
        let near = |ways: u32| std::cmp::Reverse(ways.abs_diff(self.latency_ways));
        (1..self.ways).max_by_key(|&ways| (hits(ways), near(ways)))
    }

    /// An epoch is over: at most one way changes hands.
    pub fn end_epoch(&mut self, now: Time) {
        if let Some(just) = self.just() {
            let before = self.latency_ways;
            self.latency_ways = match before.cmp(&just) {
                std::cmp::Ordering::Less => before + 1,
                std::cmp::Ordering::Equal => before,
                std::cmp::Ordering::Greater => before - 1,
            };
            if self.latency_ways != before {
                self.over_time.push((now, self.latency_ways));
            }
        }
        for seen in &mut self.seen {
            seen.lines.clear();
            (seen.commands, seen.missed) = (0, 0);
            if let Some(monitor) = &mut seen.monitor {
                monitor.end_epoch();
            }
        }
        debug_assert!((1..self.ways).contains(&self.latency_ways), "each has a way");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partitions(split: Split) -> Partitions {
        let config = PartitionConfig { split, ..Default::default() };
        Partitions::new(&config, shape(8)).unwrap()
    }
    fn shape(ways: u32) -> Shape {
        Shape { sets: 32, ways, line_sectors: 1 }
    }
    /// So many commands and different lines missed of each partition, in epochs until nothing moves.
    fn settled(split: Split, commands: [u64; 2], missed: [u32; 2]) -> (u32, usize) {
        let mut p = partitions(split);
        for epoch in 0..20 {
            for partition in [LATENCY, THROUGHPUT] {
                let i = usize::from(partition);
                (0..commands[i]).for_each(|_| p.see(partition, 0, 1, true));
                // Each line is missed twice, and counts once.
                (0..missed[i] * 2).for_each(|line| p.miss(partition, line / 2));
            }
            let before = p.latency_ways;
            p.end_epoch(Time(epoch));
            assert!(p.latency_ways.abs_diff(before) <= 1, "one way an epoch");
        }
        (p.latency_ways, p.over_time.len() - 1)
    }

    #[test]
    fn the_split_follows_missing_lines() {
        assert_eq!(settled(Split::MissingLines, [10, 90], [3000, 1000]), (6, 2));
        assert_eq!(
            settled(Split::MissingLines, [90, 10], [0, 1000]),
            (1, 3),
            "never without a way"
        );
        assert_eq!(settled(Split::MissingLines, [10, 90], [1000, 0]), (7, 3));
        assert_eq!(
            settled(Split::MissingLines, [90, 10], [0, 0]),
            (7, 3),
            "requests where none miss"
        );
        assert_eq!(settled(Split::MissingLines, [0, 0], [0, 0]), (4, 0), "nothing happened");
    }

    #[test]
    fn the_split_follows_requests_or_nothing() {
        assert_eq!(settled(Split::Requests, [25, 75], [1000, 0]), (2, 2));
        assert_eq!(settled(Split::Fixed, [25, 75], [1000, 0]), (4, 0));
    }

    /// Records in turn have hits from as many ways on as there are of them in a set, a scan has none in any.
    #[test]
    fn the_split_follows_hits() {
        for (latency, throughput, ways) in [(6, 0, 6), (0, 5, 3), (3, 2, 4), (20, 3, 4)] {
            let mut p = partitions(Split::Hits);
            let mut scan = 1 << 20;
            for epoch in 0..20 {
                for turn in 0..60 {
                    for (partition, records) in [(LATENCY, latency), (THROUGHPUT, throughput)] {
                        // All in one set of the sample.
                        let base = u32::from(partition) << 16;
                        let line = match records {
                            0 => scan,
                            n => base + turn % n,
                        };
                        scan += 1;
                        p.see(partition, line * 32, 1, true);
                    }
                }
                p.end_epoch(Time(epoch));
            }
            assert_eq!(p.latency_ways, ways, "{latency} records, {throughput} beside");
        }
    }

    #[test]
    fn an_epoch_ends_with_its_commands_or_its_time() {
        let mut e = Epoch::new(&EpochConfig { ios: 3, time: Span(100) }).unwrap();
        let over = [0, 1, 2, 3, 4, 103, 104, 105, 106, 300, 301].map(|at| e.is_over(Time(at)));
        let [no, yes] = [false, true];
        assert_eq!(over, [no, no, no, yes, no, yes, no, no, yes, yes, no]);
        let none = Epoch::new(&EpochConfig { ios: 0, time: Span(1) });
        assert_eq!(none.err().unwrap().key, "cache.epoch.ios");
        let none = Epoch::new(&EpochConfig { ios: 1, time: Span(0) });
        assert_eq!(none.err().unwrap().key, "cache.epoch.time");
    }

    #[test]
    fn lines_count_once_an_epoch() {
        let mut lines = Lines::new();
        for epoch in 0..3 {
            let new = (0..20_000u32).filter(|i| lines.add(i * 7 % 5000)).count();
            assert_eq!(new, 5000, "epoch {epoch}");
            lines.clear();
        }
    }

    #[test]
    fn the_attribute_or_the_queue_says_whose_a_command_is() {
        let critical = IoClass::NONE.with_workload(Workload::Latency);
        let other = IoClass::NONE.with_workload(Workload::Throughput);
        let p = partitions(Split::Fixed);
        assert_eq!(p.of(critical, QueuePriority::Low), LATENCY);
        assert_eq!(p.of(other, QueuePriority::Urgent), THROUGHPUT);
        assert_eq!(p.of(IoClass::NONE, QueuePriority::Medium), THROUGHPUT);
        let config = PartitionConfig { by: PartitionBy::Queue, ..Default::default() };
        let p = Partitions::new(&config, shape(8)).unwrap();
        assert_eq!(p.of(other, QueuePriority::Urgent), LATENCY);
        assert_eq!(p.of(other, QueuePriority::High), LATENCY);
        assert_eq!(p.of(critical, QueuePriority::Medium), THROUGHPUT);
    }

    #[test]
    fn a_cache_of_one_way_is_not_split() {
        let config = PartitionConfig::default();
        assert_eq!(Partitions::new(&config, shape(1)).err().unwrap().key, "cache.partition");
        assert_eq!(
            Partitions::new(&config, shape(4)).err().unwrap().key,
            "cache.partition.latency_ways"
        );
        assert!(Partitions::new(&config, shape(5)).is_ok());
    }
}
