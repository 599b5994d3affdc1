//! The event queue: a ring of buckets, with ties in the order in which events were set.
//!
//! A bucket is 64 ns and holds its entries as a list in order of time, ties as they came. A bitmap
//! finds the buckets that hold something. What lies beyond the ring's horizon of a quarter of a millisecond waits in
//! a heap, and comes into the ring as soon as the horizon has reached it.

use crate::IdVec;
use crate::rng::splitmix64;
use crate::time::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

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
    /// The program rate releases a flash operation. Index: LUN.
    Release,
    /// A part of an operation of a gang begins, behind the first. Index: part.
    NandPart,
    /// Jobs are looked at for a steady state. Index: unused.
    SteadyState,
    /// A read's codewords are corrected. Index: operation.
    NandDecoded,
    /// The ramp of a thread without I/O ends. Index: thread of the run.
    RampOver,
    /// A stage of a read ends where planes read on their own. Index: twice the operation, and one more if it is the
    /// channel's.
    NandPlane,
    /// A job that waits may start. Index: unused.
    JobStart,
}

impl Kind {
    /// By number; what no event has as its kind is the last one's.
    const ALL: [Kind; 32] = {
        let mut all = [Kind::JobStart; 32];
        let mut i = 0;
        while i < Kind::NAMED.len() {
            all[i] = Kind::NAMED[i];
            i += 1;
        }
        all
    };
    const NAMED: [Kind; 25] = [
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
        Kind::NandDecoded,
        Kind::RampOver,
        Kind::NandPlane,
        Kind::JobStart,
    ];

    /// A host's: the node of the event is a host, otherwise a drive or a network.
    pub const fn is_host(self) -> bool {
        (self as u8) < Kind::Fetch as u8
    }
    /// A controller's, of a drive or a bridge, and of nobody else.
    pub const fn is_drive(self) -> bool {
        !self.is_host()
            && !matches!(
                self,
                Kind::FtlTimer
                    | Kind::Sample
                    | Kind::Limit
                    | Kind::Network
                    | Kind::SteadyState
                    | Kind::RampOver
                    | Kind::JobStart
            )
    }
}

/// Whose event it is (8 bits), its kind (5) and the index of what it is about (27), in one word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Event(u64);

const NODE_SHIFT: u32 = 32;
/// Bits of an event; above them an entry of the queue has its order among ties.
const EVENT_BITS: u32 = NODE_SHIFT + u8::BITS;
/// The highest such order, of what is set for at once. One less for each nanosecond until its time: what was
/// set earlier is lower. All that wait longer than the lowest says are alike, and in order of insertion.
const MAX_ORDER: u64 = u64::MAX >> EVENT_BITS;
const _: () = assert!(HORIZON <= MAX_ORDER, "an order tells all waits in the ring apart");

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
        if index >= 1 << Event::INDEX_BITS {
            no_event_for(index);
        }
        let word = (kind as u32) << Event::INDEX_BITS | index;
        Event(u64::from(node) << NODE_SHIFT | u64::from(word))
    }
    /// What sort of event it is.
    pub fn kind(self) -> Kind {
        Kind::ALL[(self.0 as u32 >> Event::INDEX_BITS) as usize]
    }
    /// What it is about: the kind says of which numbers.
    pub fn index(self) -> u32 {
        self.0 as u32 & ((1 << Event::INDEX_BITS) - 1)
    }
    /// The host, drive or network, by its number in the machine.
    pub fn node(self) -> u8 {
        (self.0 >> NODE_SHIFT) as u8
    }
}

#[cold]
#[inline(never)]
fn no_event_for(index: u32) -> ! {
    panic!("event index {index} does not fit {} bits", Event::INDEX_BITS)
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}({}) of {}", self.kind(), self.index(), self.node())
    }
}

const BUCKET_SHIFT: u32 = 6;
const BUCKETS: usize = 4096;
const WORDS: usize = BUCKETS / 64;
const _: () = assert!(WORDS == u64::BITS as usize, "the summary is one number");
/// Nanoseconds from now within which an entry is in the ring. The buckets of that many lie in the ring
/// from any moment on, the first one's part of a bucket included.
const HORIZON: u64 = (BUCKETS as u64 - 1) << BUCKET_SHIFT;

/// Of a bucket that is occupied: its first entry, and the list of the others, if there are.
#[derive(Clone, Copy)]
struct Bucket {
    at: u64,
    /// The order among ties, and below it the event.
    tag: u64,
    more: EntryId,
    last: EntryId,
}

/// The place of an entry behind the first of its bucket.
type EntryId = u32;

/// An entry behind the first of its bucket.
#[derive(Clone, Copy)]
struct Entry {
    at: u64,
    tag: u64,
    next: EntryId,
}

impl Entry {
    fn is_before(&self, at: u64, tag: u64) -> bool {
        (self.at, self.tag >> EVENT_BITS) < (at, tag >> EVENT_BITS)
    }
}

/// An entry beyond the ring: time, order among ties, order of insertion, tag.
type Far = (u64, u64, u64, u64);

const NONE: u32 = u32::MAX;

/// Pending events in order of time, then of insertion.
pub struct EventQueue {
    now: Time,
    /// Nanoseconds from now within which an entry is put into the ring as it is: none if ties are shuffled.
    as_it_is: u64,
    /// The time of the earliest entry beyond the ring.
    far_from: u64,
    pushed: u64,
    popped: u64,
    /// The tag of the last that was delivered; before the first it is behind all others.
    last: u64,
    /// Which words of `occupied` hold something.
    summary: u64,
    occupied: [u64; WORDS],
    buckets: Box<[Bucket; BUCKETS]>,
    /// What the lists of buckets are made of.
    entries: IdVec<EntryId, Entry>,
    /// The first entry that is in no list.
    free: EntryId,
    far: BinaryHeap<Reverse<Far>>,
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
            now: Time::ZERO,
            as_it_is: HORIZON,
            far_from: u64::MAX,
            pushed: 0,
            popped: 0,
            last: u64::MAX,
            summary: 0,
            occupied: [0; WORDS],
            buckets: Box::new([Bucket { at: 0, tag: 0, more: NONE, last: NONE }; BUCKETS]),
            entries: IdVec::new(),
            free: NONE,
            far: BinaryHeap::new(),
            shuffle: None,
        }
    }

    /// A test mode: events at the same instant come out in an order drawn from `seed`. Results may
    /// move; invariants may not.
    pub fn shuffle_ties(&mut self, seed: u64) {
        assert!(self.is_empty(), "ties can be shuffled only from the start");
        (self.shuffle, self.as_it_is) = (Some(seed), 0);
    }

    /// Events to come.
    pub fn len(&self) -> usize {
        (self.pushed - self.popped) as usize
    }
    /// Nothing is to come.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Events delivered so far.
    pub fn popped(&self) -> u64 {
        self.popped
    }
    /// The time of the last event delivered.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Whether an event for this moment that was set at `then` would have come before the last that was delivered.
    /// One that was set at the same time would.
    #[inline]
    pub fn has_passed(&self, then: Time) -> bool {
        MAX_ORDER - self.now.since(then).0.min(MAX_ORDER) <= self.last >> EVENT_BITS
    }

    /// Sets an event. One before the last that was delivered, or beyond the end of time, is a panic.
    #[inline]
    pub fn push(&mut self, at: Time, event: Event) {
        let wait = at.0.wrapping_sub(self.now.0);
        if wait < self.as_it_is {
            self.pushed += 1;
            self.link(at.0, !wait << EVENT_BITS | event.0);
        } else {
            self.push_slowly(at, event, self.now);
        }
    }

    /// The same of an event whose place among those of its time is as if it had been set at `then`.
    #[inline]
    pub fn push_as_of(&mut self, then: Time, at: Time, event: Event) {
        debug_assert!(then <= at, "an event is set before it comes");
        if at.0.wrapping_sub(self.now.0) < self.as_it_is {
            self.pushed += 1;
            self.link(at.0, !(at.0 - then.0) << EVENT_BITS | event.0);
        } else {
            self.push_slowly(at, event, then);
        }
    }

    /// The entry is for beyond the ring, for the past, or to be shuffled.
    #[cold]
    fn push_slowly(&mut self, at: Time, event: Event, then: Time) {
        assert!(at >= self.now, "event {event:?} at {} is before now, {}", at.0, self.now.0);
        assert!(at < Time::NEVER, "event {event:?} is beyond the end of time");
        self.pushed += 1;
        let order = match self.shuffle {
            None => MAX_ORDER - (at.0 - then.0).min(MAX_ORDER),
            Some(seed) => splitmix64(seed ^ self.pushed) >> EVENT_BITS,
        };
        let tag = order << EVENT_BITS | event.0;
        if at.0 - self.now.0 < HORIZON {
            self.link(at.0, tag);
        } else {
            self.far.push(Reverse((at.0, order, self.pushed, tag)));
            self.far_from = self.far_from.min(at.0);
        }
    }

    /// Puts an entry into its bucket, behind those that are not later.
    #[inline]
    fn link(&mut self, at: u64, tag: u64) {
        let slot = (at >> BUCKET_SHIFT) as usize % BUCKETS;
        let (word, bit) = (&mut self.occupied[slot / 64], 1 << (slot % 64));
        if *word & bit == 0 {
            *word |= bit;
            self.summary |= 1 << (slot / 64);
            self.buckets[slot] = Bucket { at, tag, more: NONE, last: NONE };
        } else {
            self.link_among(slot, at, tag);
        }
    }

    #[inline(never)]
    fn link_among(&mut self, slot: usize, at: u64, tag: u64) {
        let bucket = &mut self.buckets[slot];
        let mut entry = Entry { at, tag, next: NONE };
        // Behind which other it goes; none: behind the first, or in its place.
        let mut behind = NONE;
        if entry.is_before(bucket.at, bucket.tag) {
            (entry.at, entry.tag) = (bucket.at, bucket.tag);
            (bucket.at, bucket.tag) = (at, tag);
        } else if bucket.more != NONE {
            let last = &self.entries[bucket.last];
            if entry.is_before(last.at, last.tag) {
                let mut next = bucket.more;
                loop {
                    let other = &self.entries[next];
                    if entry.is_before(other.at, other.tag) {
                        break;
                    }
                    (behind, next) = (next, other.next);
                }
            } else {
                behind = bucket.last;
            }
        }
        entry.next = match behind {
            NONE => bucket.more,
            _ => self.entries[behind].next,
        };
        let new = match self.free {
            NONE => {
                self.entries.push(entry);
                self.entries.count() - 1
            }
            free => {
                self.free = std::mem::replace(&mut self.entries[free], entry).next;
                free
            }
        };
        match behind {
            NONE => bucket.more = new,
            _ => self.entries[behind].next = new,
        }
        if entry.next == NONE {
            bucket.last = new;
        }
    }

    /// The second entry of a bucket becomes its first.
    fn move_up(&mut self, slot: usize) {
        let bucket = &mut self.buckets[slot];
        let entry = &mut self.entries[bucket.more];
        (bucket.at, bucket.tag) = (entry.at, entry.tag);
        let freed = std::mem::replace(&mut bucket.more, entry.next);
        entry.next = std::mem::replace(&mut self.free, freed);
    }

    /// The time of the earliest event.
    #[inline]
    pub fn next_time(&mut self) -> Option<Time> {
        match self.occupied_from_now() {
            Some(slot) => Some(Time(self.buckets[slot].at)),
            None => self.far.peek().map(|Reverse(far)| Time(far.0)),
        }
    }

    /// The next event, and its time; of equal times the one that was set first.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, Event)> {
        let slot = match self.occupied_from_now() {
            Some(slot) => slot,
            None => self.go_far()?,
        };
        let Bucket { at, tag, more, .. } = self.buckets[slot];
        if more == NONE {
            let word = &mut self.occupied[slot / 64];
            *word &= !(1 << (slot % 64));
            if *word == 0 {
                self.summary &= !(1 << (slot / 64));
            }
        } else {
            self.move_up(slot);
        }
        self.popped += 1;
        self.now = Time(at);
        self.last = tag;
        if self.far_from.wrapping_sub(at) < HORIZON {
            self.come_near();
        }
        Some((self.now, Event(tag & ((1 << EVENT_BITS) - 1))))
    }

    /// The earliest event is beyond the ring, or there is none: goes on to its time, and answers its bucket.
    #[cold]
    fn go_far(&mut self) -> Option<usize> {
        let &Reverse((at, ..)) = self.far.peek()?;
        self.now = Time(at);
        self.come_near();
        self.occupied_from_now()
    }

    /// Puts into the ring what the horizon has reached. This is before any later entry for the same
    /// time, which goes to the ring at once.
    #[cold]
    fn come_near(&mut self) {
        self.far_from = u64::MAX;
        while let Some(&Reverse((at, _, _, tag))) = self.far.peek() {
            if at - self.now.0 >= HORIZON {
                self.far_from = at;
                return;
            }
            self.far.pop();
            self.link(at, tag);
        }
    }

    /// The first occupied bucket from that of the present on, going round.
    #[inline]
    fn occupied_from_now(&self) -> Option<usize> {
        let start = (self.now.0 >> BUCKET_SHIFT) as usize % BUCKETS;
        let (word, bit) = (start / 64, start % 64);
        let head = self.occupied[word] >> bit;
        if head != 0 {
            return Some((start + head.trailing_zeros() as usize) % BUCKETS);
        }
        // The words after this one, going round; this one again last, for its lower bits.
        let after = self.summary.rotate_right(word as u32 + 1);
        if after == 0 {
            return None;
        }
        let w = (word + 1 + after.trailing_zeros() as usize) % WORDS;
        Some((w * 64 + self.occupied[w].trailing_zeros() as usize) % BUCKETS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// The obvious model: a heap of (time, order among ties, insertion order).
    #[derive(Default)]
    struct Model {
        heap: BinaryHeap<Reverse<(Time, u64, u64, u32)>>,
        seq: u64,
    }

    fn step_against_model(seed: u64) {
        let mut rng = Rng::from_seed(seed);
        let mut queue = EventQueue::new();
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
                // Some at few moments, for ties of what came long before and just now.
                let grain = if rng.below(3) == 0 { 1 << 18 } else { 1 };
                let at = Time((now.0 + delta).next_multiple_of(grain));
                let event = Event::new(Kind::AppWake, round);
                let then = match rng.below(4) {
                    0 => Time(now.0 + rng.below(at.0 - now.0 + 1)),
                    _ => now,
                };
                if then > now {
                    queue.push_as_of(then, at, event);
                } else {
                    queue.push(at, event);
                }
                let order = MAX_ORDER - at.since(then).0.min(MAX_ORDER);
                model.heap.push(Reverse((at, order, model.seq, round)));
                model.seq += 1;
            } else {
                let expected = model.heap.pop().map(|Reverse((t, _, _, i))| (t, i));
                assert_eq!(queue.next_time(), expected.map(|e| e.0), "seed {seed}");
                let got = queue.pop().map(|(t, e)| (t, e.index()));
                assert_eq!(got, expected, "seed {seed} round {round}");
                now = got.map_or(now, |g| g.0);
            }
            assert_eq!(queue.len(), model.heap.len());
        }
    }

    #[test]
    fn an_event_keeps_its_kind_and_index() {
        for (i, kind) in Kind::NAMED.into_iter().enumerate() {
            let event = Event::new(kind, (1 << Event::INDEX_BITS) - 1);
            assert_eq!((kind as usize, event.kind()), (i, kind));
            assert_eq!(event.index(), (1 << Event::INDEX_BITS) - 1);
        }
        assert!(Kind::NAMED.len() <= 1 << (u32::BITS - Event::INDEX_BITS));
    }

    #[test]
    #[should_panic(expected = "does not fit")]
    fn an_index_that_does_not_fit_is_refused() {
        Event::new(Kind::AppWake, 1 << Event::INDEX_BITS);
    }

    #[test]
    fn events_come_out_as_from_a_plain_heap() {
        for seed in 0..40 {
            step_against_model(seed);
        }
    }

    #[test]
    fn an_event_known_before_comes_in_its_place() {
        let mut queue = EventQueue::new();
        let set = |queue: &mut EventQueue, at, index| {
            queue.push(Time(at), Event::new(Kind::AppWake, index));
        };
        queue.push_as_of(Time(30), Time(100), Event::new(Kind::AppWake, 3));
        set(&mut queue, 100, 1);
        set(&mut queue, 20, 0);
        set(&mut queue, 40, 0);
        queue.pop();
        set(&mut queue, 100, 2);
        queue.pop();
        set(&mut queue, 100, 4);
        for index in 1..=4 {
            assert_eq!(queue.pop().map(|(_, e)| e.index()), Some(index));
            assert_eq!(queue.has_passed(Time(30)), index >= 3);
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
