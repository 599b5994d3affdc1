//! The writes of a trace, kept to age a drive with.

use std::collections::BTreeMap;
use std::sync::Arc;
use wordline_base::rng::splitmix64;
use wordline_base::{Span, Time};

/// What addresses and lengths are kept in: the smallest logical block.
const BLOCK: u64 = 512;

/// The writes of a trace to each disk, in the trace's order. Some five bytes are kept of each.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    disks: BTreeMap<u16, Arc<Runs>>,
    /// The times of the first and of the last request, if times count.
    times: Option<(Time, Time)>,
}

/// The writes to a disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    /// For each the way from the end of the one before, and the length.
    coded: Vec<u8>,
    /// Where the last one ends.
    end: u64,
    /// How many are kept.
    kept: u64,
    /// Blocks of those that are kept.
    blocks: u64,
    /// Bytes of all of them.
    bytes: u64,
    digest: u64,
}

impl Recorded {
    /// The time of a request, of which the trace has others before it.
    pub(crate) fn came_at(&mut self, at: Time) {
        let first = self.times.map_or(at, |(first, _)| first);
        self.times = Some((first.min(at), at.max(first)));
    }
    /// A write to a disk. Those beyond `most` bytes count and are not kept: no ageing comes to them.
    pub(crate) fn add(&mut self, disk: u16, offset: u64, len: u64, most: u64) {
        let runs = Arc::make_mut(self.disks.entry(disk).or_default());
        runs.bytes += len;
        if runs.blocks * BLOCK < most {
            runs.push(offset / BLOCK, (offset + len).div_ceil(BLOCK));
        }
    }
    /// The writes to a disk; none if there are no such.
    pub(crate) fn runs(&self, disk: u16) -> Option<&Arc<Runs>> {
        self.disks.get(&disk)
    }
    /// Bytes of all writes to a disk.
    pub(crate) fn bytes_to(&self, disk: u16) -> u64 {
        self.runs(disk).map_or(0, |runs| runs.bytes)
    }
    /// Bytes of a write to a disk, in the mean of those that are kept.
    pub(crate) fn mean(&self, disk: u16) -> f64 {
        let of = |runs: &Arc<Runs>| (runs.blocks * BLOCK) as f64 / runs.kept.max(1) as f64;
        self.runs(disk).map_or(0.0, of)
    }
    /// Bytes of all writes.
    pub fn bytes(&self) -> u64 {
        self.disks.values().map(|runs| runs.bytes).sum()
    }
    /// From the first request to the last; none where times do not count, or where no time passes.
    fn span(&self) -> Option<Span> {
        let (first, last) = self.times?;
        (last > first).then(|| last.since(first))
    }
    /// Bytes a second that are written to a disk, in the mean of the whole trace; none without times.
    pub(crate) fn rate(&self, disk: u16) -> Option<u64> {
        let bytes = self.runs(disk).map_or(0, |runs| u128::from(runs.bytes));
        let second = u128::from(Span::from_secs(1).0);
        Some((bytes * second / u128::from(self.span()?.0)) as u64)
    }
}

impl Runs {
    fn push(&mut self, first: u64, end: u64) {
        let way = first.wrapping_sub(self.end) as i64;
        put(&mut self.coded, ((way << 1) ^ (way >> 63)) as u64);
        put(&mut self.coded, end - first);
        self.end = end;
        self.kept += 1;
        self.blocks += end - first;
        self.digest = splitmix64(splitmix64(self.digest ^ first) ^ end);
    }
}

/// Seven bits in a byte, the lowest first; another one follows where the eighth is set.
fn put(to: &mut Vec<u8>, mut value: u64) {
    while value >= 1 << 7 {
        to.push(value as u8 | 1 << 7);
        value >>= 7;
    }
    to.push(value as u8);
}

/// The writes to a disk, again and again.
pub(crate) struct Replays {
    runs: Arc<Runs>,
    /// The next byte of what is coded.
    at: usize,
    /// Where the write before ends.
    end: u64,
}

impl Replays {
    pub fn new(runs: Arc<Runs>) -> Replays {
        Replays { runs, at: 0, end: 0 }
    }
    /// How many there are before they begin anew.
    pub fn writes(&self) -> u64 {
        self.runs.kept
    }
    /// All that decides what is written, and in which order: with equal ones two traces age a drive alike.
    pub fn key(&self) -> String {
        format!("{} writes, {:016x}", self.runs.kept, self.runs.digest)
    }
    fn take(&mut self) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.runs.coded[self.at];
            self.at += 1;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 1 << 7 {
                return value;
            }
            shift += 7;
        }
    }
    /// Offset and length of the next one.
    pub fn next(&mut self) -> (u64, u64) {
        if self.at == self.runs.coded.len() {
            (self.at, self.end) = (0, 0);
        }
        let way = self.take();
        let first = self.end.wrapping_add((way >> 1) ^ (way & 1).wrapping_neg());
        let len = self.take();
        self.end = first + len;
        (first * BLOCK, len * BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_come_back_in_their_order_and_begin_anew() {
        let of = |writes: &[(u64, u64)], most| {
            let mut recorded = Recorded::default();
            writes.iter().for_each(|&(offset, len)| recorded.add(3, offset, len, most));
            recorded
        };
        let writes = [(1 << 40, 4096), (0, 512), (512, 1 << 20), (1 << 30, 8192), (4096, 4096)];
        let recorded = of(&writes, u64::MAX);
        let mut replays = Replays::new(recorded.runs(3).expect("a disk with writes").clone());
        for round in 0..3 {
            for write in writes {
                assert_eq!(replays.next(), write, "round {round}");
            }
        }
        assert!(recorded.runs(0).is_none());
        let key = |recorded: Recorded| Replays::new(recorded.disks[&3].clone()).key();
        assert_eq!(key(recorded), key(of(&writes, u64::MAX)));
        let mut turned = writes;
        turned.swap(1, 2);
        assert_ne!(key(of(&writes, u64::MAX)), key(of(&turned, u64::MAX)), "the order counts");
        // What ageing does not come to is left out.
        let short = of(&writes, 4096);
        let mut replays = Replays::new(short.runs(3).expect("one write").clone());
        assert_eq!((replays.next(), replays.next()), (writes[0], writes[0]));
    }

    #[test]
    fn a_rate_is_that_of_the_whole_trace() {
        let mut recorded = Recorded::default();
        assert_eq!(recorded.rate(0), None, "no times");
        recorded.came_at(Time(5_000_000_000));
        assert_eq!(recorded.rate(0), None, "no time passes");
        recorded.add(0, 0, 4096, 1);
        recorded.add(0, 0, 4096, 1);
        recorded.came_at(Time(7_000_000_000));
        assert_eq!((recorded.rate(0), recorded.rate(1)), (Some(4096), Some(0)));
    }
}
