//! The event queue: a bucketed calendar with FIFO ties.
//!
//! An entry is one `u128`: time (60 bits, 36 years of nanoseconds) | sequence (28 bits) | event
//! (40 bits), so comparing two entries compares time first and order of insertion second. The
//! sequence is renumbered when it would wrap, which keeps ties in order for ever.
//!
//! The earliest entries are a sorted list, which is all there is as long as few are pending: the
//! next is at its end, and a new one is put in its place. Of a list that grows too long the later
//! half moves to a ring of buckets of 256 ns; entries beyond the ring's horizon wait in a heap.
//! When the list is used up, the next buckets become the list. A bitmap finds those occupied.

use crate::rng::splitmix64;
use crate::time::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::select_unpredictable;

/// What an event is about. Each component owns some kinds and ignores the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A job wants to run (start, timed arrival, end of think time). Index: job thread.
    AppWake,
    /// A stretch of work on a core ends. Index: core.
    CoreDone,
    /// An interrupt arrives at a core. Index: completion queue.
    Interrupt,
    /// A host timer (plug flush, scheduler, write thread). Index: host-defined.
    HostTimer,
    /// A doorbell write reaches the controller, or the controller may fetch again. Index: submission queue.
    Fetch,
    /// The controller's firmware is ready with a command. Index: command.
    Firmware,
    /// A host-to-device data transfer ends. Index: command.
    DataIn,
    /// A device-to-host data transfer ends. Index: command.
    DataOut,
    /// A completion entry becomes visible to the host. Index: command.
    Posted,
    /// A completion queue has waited long enough for its interrupt. Index: completion queue.
    Aggregation,
    /// A LUN's array operation (tR, tPROG, tBERS) ends. Index: LUN.
    NandArray,
    /// A channel transfer ends. Index: LUN.
    NandBus,
    /// An FTL timer (write thread, garbage collector). Index: FTL-defined.
    FtlTimer,
    /// The controller's firmware is ready with a job that no command asked for. Index: unused.
    Background,
    /// A statistics sample is due (bandwidth and IOPS logs). Index: unused.
    Sample,
    /// The run reaches its end or a limit. Index: unused.
    Limit,
    /// A message between machines arrives. Index: message.
    Network,
    /// The controller's firmware has added up the sectors of a rebuild. Index: sum.
    Summed,
    /// The program rate releases a flash operation. Index: unused.
    Release,
    /// A part of an operation of a gang begins, behind the first. Index: part.
    NandPart,
    /// Jobs are looked at for a steady state. Index: unused.
    SteadyState,
}

impl Kind {
    const ALL: [Kind; 21] = [
        Kind::AppWake,
        Kind::CoreDone,
        Kind::Interrupt,
        Kind::HostTimer,
        Kind::Fetch,
        Kind::Firmware,
        Kind::DataIn,
        Kind::DataOut,
        Kind::Posted,
        Kind::Aggregation,
        Kind::NandArray,
        Kind::NandBus,
        Kind::FtlTimer,
        Kind::Background,
        Kind::Sample,
        Kind::Limit,
        Kind::Network,
        Kind::Summed,
        Kind::Release,
        Kind::NandPart,
        Kind::SteadyState,
    ];

    /// A host's: the node of the event is a host, otherwise a drive or a network.
    pub const fn is_host(self) -> bool {
        (self as u8) < Kind::Fetch as u8
    }
}

/// Whose event it is (8 bits), its kind (5) and the index of what it is about (27).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Event {
    word: u32,
    node: u8,
}

impl Event {
    /// Width of an index.
    pub const INDEX_BITS: u32 = 27;

    /// Of node 0, the only one of its sort in most machines.
    pub fn new(kind: Kind, index: u32) -> Event {
        Event::at(0, kind, index)
    }
    /// Of this host, drive or network. `index` must fit its bits.
    #[inline]
    pub fn at(node: u8, kind: Kind, index: u32) -> Event {
        assert!(index < 1 << Event::INDEX_BITS, "event index {index} does not fit 27 bits");
        Event { word: (kind as u32) << Event::INDEX_BITS | index, node }
    }
    /// What sort of event it is.
    pub fn kind(self) -> Kind {
        Kind::ALL[(self.word >> Event::INDEX_BITS) as usize]
    }
    /// What it is about: the kind says of which numbers.
    pub fn index(self) -> u32 {
        self.word & ((1 << Event::INDEX_BITS) - 1)
    }
    /// The host, drive or network, by its number in the machine.
    pub fn node(self) -> u8 {
        self.node
    }
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}({}) of {}", self.kind(), self.index(), self.node)
    }
}

const SEQ_BITS: u32 = 28;
const SEQ_SHIFT: u32 = 40;
const NODE_SHIFT: u32 = 32;
const TIME_SHIFT: u32 = SEQ_SHIFT + SEQ_BITS;
const BUCKET_SHIFT: u32 = 8;
const BUCKETS: usize = 4096;
const WORDS: usize = BUCKETS / 64;
const _: () = assert!(WORDS == 64, "the summary is one word");
/// The sorted list: longer than the first it is cut down to the second, and it is filled up to that.
const NEAR_MOST: usize = 64;
const NEAR: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry(u128);

impl Entry {
    fn new(at: Time, seq: u64, event: Event) -> Entry {
        let event = u64::from(event.node) << NODE_SHIFT | u64::from(event.word);
        Entry((at.0 as u128) << TIME_SHIFT | (seq as u128) << SEQ_SHIFT | event as u128)
    }
    fn time(self) -> Time {
        Time((self.0 >> TIME_SHIFT) as u64)
    }
    fn event(self) -> Event {
        Event { word: self.0 as u32, node: (self.0 >> NODE_SHIFT) as u8 }
    }
    fn bucket(self) -> u64 {
        self.time().0 >> BUCKET_SHIFT
    }
}

/// Pending events in order of time, then of insertion.
pub struct EventQueue {
    /// Everything before bucket `limit`, descending, so that the earliest entry is last.
    near: Vec<Entry>,
    limit: u64,
    /// Entries from `limit` on, up to `base + BUCKETS`.
    buckets: Vec<Vec<Entry>>,
    base: u64,
    occupied: [u64; WORDS],
    /// Which words of `occupied` hold something.
    summary: u64,
    /// Entries at or beyond `base + BUCKETS`.
    far: BinaryHeap<Reverse<Entry>>,
    seq: u64,
    len: usize,
    popped: u64,
    now: Time,
    shuffle: Option<u64>,
}

impl Default for EventQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl EventQueue {
    /// Empty, at time zero.
    pub fn new() -> EventQueue {
        EventQueue {
            near: Vec::with_capacity(2 * NEAR_MOST),
            limit: u64::MAX,
            buckets: vec![Vec::new(); BUCKETS],
            base: 0,
            occupied: [0; WORDS],
            summary: 0,
            far: BinaryHeap::new(),
            seq: 0,
            len: 0,
            popped: 0,
            now: Time::ZERO,
            shuffle: None,
        }
    }

    /// A test mode: events at the same instant come out in an order drawn from `seed`. Results may
    /// move; invariants may not.
    pub fn shuffle_ties(&mut self, seed: u64) {
        assert_eq!(self.len, 0, "ties can be shuffled only from the start");
        self.shuffle = Some(seed);
    }

    /// Events to come.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Nothing is to come.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Events delivered so far.
    pub fn popped(&self) -> u64 {
        self.popped
    }
    /// The time of the last event delivered.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Sets an event. One before the last that was delivered, or beyond the end of time, is a panic.
    #[inline]
    pub fn push(&mut self, at: Time, event: Event) {
        assert!(at >= self.now, "event {event:?} at {} is before now, {}", at.0, self.now.0);
        assert!(at < Time::NEVER, "event {event:?} is beyond the end of time");
        if self.seq == 1 << SEQ_BITS {
            self.renumber();
        }
        let seq = match self.shuffle {
            // The low bits keep entries distinct, the high bits are the drawn order.
            Some(seed) => {
                (splitmix64(seed ^ self.seq) >> 52 << 16 | self.seq & 0xFFFF)
                    & ((1 << SEQ_BITS) - 1)
            }
            None => self.seq,
        };
        self.seq += 1;
        self.len += 1;
        self.place(Entry::new(at, seq, event));
    }

    #[inline]
    fn place(&mut self, entry: Entry) {
        if entry.bucket() >= self.limit {
            return self.defer(entry);
        }
        // How many are later. Each answer is as good as random, so no branch depends on one.
        let (mut at, mut n) = (0, self.near.len());
        while n > 0 {
            let half = n.div_ceil(2);
            let later = self.near[at + half - 1] > entry;
            at = select_unpredictable(later, at + half, at);
            n -= half;
        }
        self.near.insert(at, entry);
        if self.near.len() > NEAR_MOST {
            self.spill();
        }
    }

    /// Puts an entry from `limit` on into the ring or beyond.
    fn defer(&mut self, entry: Entry) {
        let bucket = entry.bucket();
        if bucket - self.base < BUCKETS as u64 {
            let slot = bucket as usize % BUCKETS;
            self.buckets[slot].push(entry);
            self.occupied[slot / 64] |= 1 << (slot % 64);
            self.summary |= 1 << (slot / 64);
        } else {
            self.far.push(Reverse(entry));
        }
    }

    /// Cuts the list down, by whole buckets. The first one stays in any case.
    #[cold]
    fn spill(&mut self) {
        let first = self.near[self.near.len() - 1].bucket();
        if self.limit == u64::MAX {
            self.base = first;
        }
        let limit = self.near[self.near.len() - NEAR].bucket().max(first + 1).max(self.base);
        self.limit = limit;
        let later = self.near.partition_point(|e| e.bucket() >= limit);
        let mut near = std::mem::take(&mut self.near);
        near.drain(..later).for_each(|entry| self.defer(entry));
        self.near = near;
    }

    /// The time of the earliest event.
    pub fn next_time(&mut self) -> Option<Time> {
        if self.near.is_empty() && !self.advance() {
            return None;
        }
        self.near.last().map(|e| e.time())
    }

    /// The next event, and its time; of equal times the one that was set first.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, Event)> {
        if self.near.is_empty() && !self.advance() {
            return None;
        }
        let entry = self.near.pop()?;
        self.len -= 1;
        self.popped += 1;
        self.now = entry.time();
        Some((self.now, entry.event()))
    }

    /// Fills the list from the next occupied buckets. False when nothing is pending.
    #[cold]
    fn advance(&mut self) -> bool {
        while self.near.len() < NEAR && self.limit < u64::MAX {
            let Some(bucket) = self.next_occupied() else {
                match self.far.peek() {
                    None => self.limit = u64::MAX,
                    Some(_) if !self.near.is_empty() => break,
                    Some(Reverse(entry)) => {
                        self.limit = entry.bucket();
                        self.rebase(self.limit);
                    }
                }
                continue;
            };
            if self.near.is_empty() {
                self.rebase(bucket);
            }
            let (slot, from) = (bucket as usize % BUCKETS, self.near.len());
            self.near.append(&mut self.buckets[slot]);
            self.near[from..].sort_unstable();
            self.limit = bucket + 1;
            let word = &mut self.occupied[slot / 64];
            *word &= !(1 << (slot % 64));
            if *word == 0 {
                self.summary &= !(1 << (slot / 64));
            }
        }
        self.near.reverse();
        !self.near.is_empty()
    }

    /// Moves the ring's horizon on: nothing is pending before `base` but what is in the list.
    fn rebase(&mut self, base: u64) {
        self.base = base;
        while let Some(&Reverse(entry)) = self.far.peek()
            && entry.bucket() - base < BUCKETS as u64
        {
            self.far.pop();
            self.defer(entry);
        }
    }

    /// The first occupied bucket, as an absolute number. None is before `limit`.
    fn next_occupied(&self) -> Option<u64> {
        let start = self.limit as usize % BUCKETS;
        let (word, bit) = (start / 64, start % 64);
        let found = |slot: usize| self.limit + ((slot + BUCKETS - start) % BUCKETS) as u64;
        let head = self.occupied[word] & (!0 << bit);
        if head != 0 {
            return Some(found(word * 64 + head.trailing_zeros() as usize));
        }
        // The words after this one, going round; this one again last, for its lower bits.
        let after = self.summary.rotate_right(word as u32 + 1);
        if after == 0 {
            return None;
        }
        let w = (word + 1 + after.trailing_zeros() as usize) % WORDS;
        Some(found(w * 64 + self.occupied[w].trailing_zeros() as usize))
    }

    /// Gives the pending entries the sequence numbers 0, 1, 2, … in their order.
    #[cold]
    fn renumber(&mut self) {
        let mut all: Vec<Entry> = std::mem::take(&mut self.near);
        for bucket in &mut self.buckets {
            all.append(bucket);
        }
        all.extend(std::mem::take(&mut self.far).into_iter().map(|Reverse(e)| e));
        self.occupied = [0; WORDS];
        self.summary = 0;
        self.limit = u64::MAX;
        all.sort_unstable();
        self.seq = all.len() as u64;
        for (seq, entry) in all.into_iter().enumerate() {
            self.place(Entry::new(entry.time(), seq as u64, entry.event()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// The obvious model: a heap of (time, insertion order).
    #[derive(Default)]
    struct Model {
        heap: BinaryHeap<Reverse<(Time, u64, u32)>>,
        seq: u64,
    }

    fn step_against_model(seed: u64, start_seq: u64) {
        let mut rng = Rng::from_seed(seed);
        let mut queue = EventQueue::new();
        queue.seq = start_seq;
        let mut model = Model::default();
        let mut now = Time::ZERO;
        for round in 0..20_000u32 {
            if rng.below(100) < 52 {
                let delta = match rng.below(6) {
                    0 => 0,
                    1 => rng.below(256),
                    2 => rng.below(5_000),
                    3 => rng.below(1 << 20),
                    4 => (1 << 20) + rng.below(1 << 14),
                    _ => rng.below(4_000_000_000),
                };
                let at = Time(now.0 + delta);
                queue.push(at, Event::new(Kind::AppWake, round));
                model.heap.push(Reverse((at, model.seq, round)));
                model.seq += 1;
            } else {
                let expected = model.heap.pop().map(|Reverse((t, _, i))| (t, i));
                assert_eq!(queue.next_time(), expected.map(|e| e.0), "seed {seed}");
                let got = queue.pop().map(|(t, e)| (t, e.index()));
                assert_eq!(got, expected, "seed {seed} round {round}");
                now = got.map_or(now, |g| g.0);
            }
            assert_eq!(queue.len(), model.heap.len());
        }
    }

    #[test]
    fn every_kind_comes_back() {
        for (i, kind) in Kind::ALL.into_iter().enumerate() {
            let event = Event::new(kind, (1 << Event::INDEX_BITS) - 1);
            assert_eq!((kind as usize, event.kind()), (i, kind));
            assert_eq!(event.index(), (1 << Event::INDEX_BITS) - 1);
        }
        assert!(Kind::ALL.len() <= 1 << (u32::BITS - Event::INDEX_BITS));
    }

    #[test]
    #[should_panic(expected = "does not fit")]
    fn an_index_that_does_not_fit_is_refused() {
        Event::new(Kind::AppWake, 1 << Event::INDEX_BITS);
    }

    #[test]
    fn matches_a_plain_heap() {
        for seed in 0..40 {
            step_against_model(seed, 0);
        }
    }

    #[test]
    fn ties_stay_in_order_across_the_wrap_of_the_sequence() {
        for seed in 0..10 {
            step_against_model(seed, (1 << SEQ_BITS) - 5_000);
        }
    }

    #[test]
    fn shuffled_ties_keep_time_order_and_lose_nothing() {
        let mut queue = EventQueue::new();
        queue.shuffle_ties(7);
        for i in 0..1_000 {
            queue.push(Time(u64::from(i / 10)), Event::new(Kind::AppWake, i));
        }
        let mut seen = vec![false; 1_000];
        let (mut last, mut in_order) = (Time::ZERO, true);
        let mut previous = 0;
        while let Some((t, e)) = queue.pop() {
            assert!(t >= last);
            assert_eq!(u64::from(e.index() / 10), t.0);
            in_order &= e.index() >= previous;
            previous = e.index();
            last = t;
            seen[e.index() as usize] = true;
        }
        assert!(seen.iter().all(|&s| s));
        assert!(!in_order, "the order of ties did not change");
    }
}
