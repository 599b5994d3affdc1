//! mq-deadline (block/mq-deadline.c of Linux 4.14), rule by rule: a list sorted by position and a
//! FIFO with expiry times for each direction; batches of requests in position order; writes wait at
//! most `writes_starved` turns of reads; an expired head of the FIFO restarts the batch there.
//!
//! Its state is one for the whole drive, not per hardware queue, as in Linux. Left out: zones.

use crate::RequestId;
use crate::config::DeadlineConfig;
use wordline_base::{IdVec, Time};

const NONE: u32 = u32::MAX;

/// The list that a request goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dir {
    /// Reads.
    Read = 0,
    /// Writes, discards and flushes.
    Write = 1,
}

/// Where a bio joins a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Merge {
    /// The new data follow this request.
    Back(u32),
    /// The new data precede this request.
    Front(u32),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    dir: Dir,
    start: u64,
    end: u64,
    expires: Time,
    mergeable: bool,
    prev: u32,
    next: u32,
    /// Order of insertion: equal positions keep it.
    seq: u64,
}

impl Entry {
    /// Of a number that no request has had.
    const BLANK: Entry = Entry {
        dir: Dir::Read,
        start: 0,
        end: 0,
        expires: Time::ZERO,
        mergeable: false,
        prev: NONE,
        next: NONE,
        seq: 0,
    };
}

/// mq-deadline: sorted by address, with an expiry for each direction.
#[derive(Debug)]
pub struct Deadline {
    config: DeadlineConfig,
    /// By request number.
    entries: IdVec<RequestId, Entry>,
    /// sort_list: (position, order of insertion, request).
    sorted: [Vec<(u64, u64, u32)>; 2],
    /// fifo_list: first and last.
    fifo: [(u32, u32); 2],
    /// The request behind the last of the batch, by direction.
    next_rq: [u32; 2],
    /// Requests of the batch under way.
    batching: u32,
    /// Times that reads went before waiting writes.
    starved: u32,
    /// Requests inserted so far.
    seq: u64,
}

impl Deadline {
    /// `requests`: the most there can be.
    pub fn new(config: &DeadlineConfig, requests: usize) -> Deadline {
        Deadline {
            config: config.clone(),
            entries: vec![Entry::BLANK; requests].into(),
            sorted: [Vec::with_capacity(requests), Vec::with_capacity(requests)],
            fifo: [(NONE, NONE); 2],
            next_rq: [NONE; 2],
            batching: 0,
            starved: 0,
            seq: 0,
        }
    }

    /// It holds no request.
    pub fn is_empty(&self) -> bool {
        self.sorted.iter().all(Vec::is_empty)
    }
    /// Requests that wait in it.
    pub fn len(&self) -> usize {
        self.sorted[0].len() + self.sorted[1].len()
    }

    /// dd_insert_requests, without the merge (see [`Deadline::find_merge`]).
    pub fn insert(&mut self, rq: u32, dir: Dir, start: u64, bytes: u64, merge: bool, now: Time) {
        let d = dir as usize;
        let expire = [self.config.read_expire, self.config.write_expire][d];
        if rq as usize >= self.entries.len() {
            self.entries.resize(rq as usize + 1, Entry::BLANK);
        }
        self.seq += 1;
        let tail = self.fifo[d].1;
        self.entries[rq] = Entry {
            dir,
            start,
            end: start + bytes,
            expires: now + expire,
            mergeable: merge,
            prev: tail,
            next: NONE,
            seq: self.seq,
        };
        if tail == NONE {
            self.fifo[d].0 = rq;
        } else {
            self.entries[tail].next = rq;
        }
        self.fifo[d].1 = rq;
        self.add_sorted(rq);
    }

    fn add_sorted(&mut self, rq: u32) {
        let e = self.entries[rq];
        let list = &mut self.sorted[e.dir as usize];
        let at = list.partition_point(|&(start, seq, _)| (start, seq) < (e.start, e.seq));
        list.insert(at, (e.start, e.seq, rq));
    }

    fn position(&self, rq: u32) -> usize {
        let e = &self.entries[rq];
        let list = &self.sorted[e.dir as usize];
        list.partition_point(|&(start, seq, _)| (start, seq) < (e.start, e.seq))
    }

    /// deadline_latter_request, and its opposite.
    fn latter(&self, rq: u32) -> u32 {
        let e = &self.entries[rq];
        self.sorted[e.dir as usize].get(self.position(rq) + 1).map_or(NONE, |s| s.2)
    }
    fn former(&self, rq: u32) -> u32 {
        let e = &self.entries[rq];
        match self.position(rq) {
            0 => NONE,
            at => self.sorted[e.dir as usize][at - 1].2,
        }
    }

    /// Requests that wait, by number.
    pub fn waiting(&self) -> impl Iterator<Item = u32> + '_ {
        self.sorted.iter().flatten().map(|&(_, _, rq)| rq)
    }

    /// deadline_remove_request.
    pub fn remove(&mut self, rq: u32) {
        let e = self.entries[rq];
        let d = e.dir as usize;
        if self.next_rq[d] == rq {
            self.next_rq[d] = self.latter(rq);
        }
        let at = self.position(rq);
        self.sorted[d].remove(at);
        match e.prev {
            NONE => self.fifo[d].0 = e.next,
            prev => self.entries[prev].next = e.next,
        }
        match e.next {
            NONE => self.fifo[d].1 = e.prev,
            next => self.entries[next].prev = e.prev,
        }
    }

    /// elv_merge: a waiting request that the new data extend. The sorted list's neighbours stand
    /// in for Linux' hash of request ends.
    pub fn find_merge(&self, dir: Dir, start: u64, bytes: u64, max: u64) -> Option<Merge> {
        let list = &self.sorted[dir as usize];
        let fits = |rq: u32| {
            let e = &self.entries[rq];
            e.mergeable && e.end - e.start + bytes <= max
        };
        let at = list.partition_point(|&(s, _, _)| s < start);
        if at > 0 {
            let rq = list[at - 1].2;
            if self.entries[rq].end == start && fits(rq) {
                return Some(Merge::Back(rq));
            }
        }
        if self.config.front_merges {
            let end = start + bytes;
            let at = list.partition_point(|&(s, _, _)| s < end);
            if let Some(&(s, _, rq)) = list.get(at)
                && s == end
                && fits(rq)
            {
                return Some(Merge::Front(rq));
            }
        }
        None
    }

    /// The request grew. Answers the neighbour it now touches, if they fit in one request
    /// (attempt_back_merge, attempt_front_merge): that one is gone from here, and its data belong
    /// to `rq`.
    pub fn merged(&mut self, merge: Merge, bytes: u64, max: u64) -> Option<u32> {
        let (rq, front) = match merge {
            Merge::Back(rq) => {
                self.entries[rq].end += bytes;
                (rq, false)
            }
            Merge::Front(rq) => {
                // dd_request_merged: a front merge repositions the request. It keeps its place in
                // the batch if it was next.
                let d = self.entries[rq].dir as usize;
                let at = self.position(rq);
                self.sorted[d].remove(at);
                self.entries[rq].start -= bytes;
                self.add_sorted(rq);
                (rq, true)
            }
        };
        let other = if front { self.former(rq) } else { self.latter(rq) };
        if other == NONE {
            return None;
        }
        let (a, b) = (self.entries[rq], self.entries[other]);
        let touch = if front { b.end == a.start } else { a.end == b.start };
        if !touch || !b.mergeable || a.end - a.start + b.end - b.start > max {
            return None;
        }
        // dd_merged_requests: the earlier expiry, and the place in the FIFO that goes with it.
        if b.expires < a.expires {
            self.take_place(rq, other);
        }
        self.remove(other);
        if front {
            let d = a.dir as usize;
            let at = self.position(rq);
            self.sorted[d].remove(at);
            self.entries[rq].start = b.start;
            self.add_sorted(rq);
        } else {
            self.entries[rq].end = b.end;
        }
        Some(other)
    }

    /// Moves `rq` in the FIFO to just behind `place`, with its expiry.
    fn take_place(&mut self, rq: u32, place: u32) {
        let e = self.entries[rq];
        let d = e.dir as usize;
        match e.prev {
            NONE => self.fifo[d].0 = e.next,
            prev => self.entries[prev].next = e.next,
        }
        match e.next {
            NONE => self.fifo[d].1 = e.prev,
            next => self.entries[next].prev = e.prev,
        }
        let next = self.entries[place].next;
        self.entries[place].next = rq;
        match next {
            NONE => self.fifo[d].1 = rq,
            next => self.entries[next].prev = rq,
        }
        let expires = self.entries[place].expires;
        let e = &mut self.entries[rq];
        (e.prev, e.next, e.expires) = (place, next, expires);
    }

    /// dd_dispatch_request: the next request to send.
    pub fn dispatch(&mut self, now: Time) -> Option<u32> {
        const READ: usize = Dir::Read as usize;
        const WRITE: usize = Dir::Write as usize;
        let next = if self.next_rq[WRITE] != NONE { WRITE } else { READ };
        let mut rq = self.next_rq[next];
        if rq == NONE || self.batching >= self.config.fifo_batch {
            let (reads, writes) = (self.fifo[READ].0 != NONE, self.fifo[WRITE].0 != NONE);
            let starved = reads && writes && {
                self.starved += 1;
                self.starved > self.config.writes_starved
            };
            let dir = if reads && !starved {
                READ
            } else if writes {
                self.starved = 0;
                WRITE
            } else {
                return None;
            };
            let head = self.fifo[dir].0;
            let expired = now >= self.entries[head].expires;
            rq = if expired || self.next_rq[dir] == NONE { head } else { self.next_rq[dir] };
            self.batching = 0;
        }
        self.batching += 1;
        let dir = self.entries[rq].dir as usize;
        let latter = self.latter(rq);
        self.next_rq = [NONE; 2];
        self.next_rq[dir] = latter;
        self.remove(rq);
        Some(rq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::{Rng, Span};

    fn drain(d: &mut Deadline, now: Time) -> Vec<u32> {
        std::iter::from_fn(|| d.dispatch(now)).collect()
    }

    struct Case {
        name: &'static str,
        config: fn(&mut DeadlineConfig),
        /// (direction, position in KiB, arrival in ms), numbered from 0.
        requests: &'static [(Dir, u64, u64)],
        at_ms: u64,
        order: &'static [u32],
    }
    use Dir::{Read as R, Write as W};

    #[test]
    fn a_queue_that_was_made_for_no_request_takes_some() {
        let mut d = Deadline::new(&DeadlineConfig::default(), 0);
        for rq in [3, 0] {
            d.insert(rq, R, u64::from(rq) << 12, 4096, false, Time::ZERO);
        }
        assert_eq!(drain(&mut d, Time::ZERO), [3, 0]);
    }

    #[test]
    fn requests_go_out_by_the_rules_of_mq_deadline() {
        let cases = [
            Case {
                name: "the first is the FIFO's head, then upwards; then the FIFO's head again",
                config: |_| (),
                requests: &[(R, 40, 0), (R, 80, 0), (R, 8, 0), (R, 60, 0)],
                at_ms: 0,
                order: &[0, 3, 1, 2],
            },
            Case {
                name: "equal positions keep their order",
                config: |_| (),
                requests: &[(R, 40, 0), (R, 40, 1), (R, 40, 2)],
                at_ms: 2,
                order: &[0, 1, 2],
            },
            Case {
                name: "reads first, and a batch is finished before the direction changes",
                config: |_| (),
                requests: &[(W, 1, 0), (W, 2, 0), (R, 10, 0), (R, 20, 0)],
                at_ms: 0,
                order: &[2, 3, 0, 1],
            },
            Case {
                name: "writes wait for two turns of reads",
                config: |c| c.fifo_batch = 1,
                requests: &[(R, 1, 0), (R, 2, 0), (R, 3, 0), (R, 4, 0), (W, 9, 0), (W, 8, 0)],
                at_ms: 0,
                order: &[0, 1, 4, 2, 3, 5],
            },
            Case {
                name: "no starvation allowed: every other turn is a write's",
                config: |c| {
                    c.fifo_batch = 1;
                    c.writes_starved = 0;
                },
                requests: &[(R, 1, 0), (R, 2, 0), (W, 9, 0)],
                at_ms: 0,
                order: &[2, 0, 1],
            },
            Case {
                name: "an expired head is taken when the batch ends, not before",
                config: |c| {
                    c.fifo_batch = 2;
                    c.read_expire = Span::from_ms(10);
                },
                // The head is the first; position order goes 3, 2 and would go on upwards.
                requests: &[(R, 90, 0), (R, 30, 8), (R, 20, 8), (R, 95, 8), (R, 97, 8)],
                at_ms: 12,
                order: &[0, 3, 4, 1, 2],
            },
            Case {
                name: "writes expire by their own time",
                config: |c| {
                    c.fifo_batch = 1;
                    c.write_expire = Span::from_ms(5);
                },
                requests: &[(W, 50, 0), (W, 60, 1), (W, 10, 2)],
                at_ms: 20,
                order: &[0, 1, 2],
            },
        ];
        for case in cases {
            let mut config = DeadlineConfig::default();
            (case.config)(&mut config);
            let mut d = Deadline::new(&config, 16);
            for (i, &(dir, at, ms)) in case.requests.iter().enumerate() {
                d.insert(i as u32, dir, at << 10, 512, true, Time(ms * 1_000_000));
            }
            let got = drain(&mut d, Time(case.at_ms * 1_000_000));
            assert_eq!(got, case.order, "{}", case.name);
            assert!(d.is_empty());
        }
    }

    #[test]
    fn batches_end_after_fifo_batch_requests_and_expiry_restarts_them() {
        let config = DeadlineConfig { fifo_batch: 2, ..DeadlineConfig::default() };
        let mut d = Deadline::new(&config, 16);
        for (i, at) in [50u64, 10, 60, 70, 80].into_iter().enumerate() {
            d.insert(i as u32, R, at << 12, 4096, true, Time::ZERO);
        }
        assert_eq!((d.dispatch(Time(1)), d.dispatch(Time(1))), (Some(0), Some(2)));
        // The batch is over; by now the head of the FIFO (position 10) has expired.
        let late = Time::ZERO + Span::from_secs(1);
        assert_eq!(d.dispatch(late), Some(1));
        assert_eq!(drain(&mut d, Time(2)), [3, 4]);
    }

    #[test]
    fn bios_join_at_the_back_at_the_front_and_between_two_requests() {
        let mut d = Deadline::new(&DeadlineConfig::default(), 16);
        let k = 4096u64;
        d.insert(0, R, 0, k, true, Time(5));
        d.insert(1, R, 2 * k, k, true, Time(3));
        assert_eq!(d.find_merge(W, k, k, 8 * k), None);
        assert_eq!(d.find_merge(R, k, k, k), None);
        let merge = d.find_merge(R, k, k, 8 * k).unwrap();
        assert_eq!(merge, Merge::Back(0));
        // Filling the hole joins all three; the later request goes.
        assert_eq!(d.merged(merge, k, 8 * k), Some(1));
        assert_eq!(d.find_merge(R, 3 * k, k, 8 * k), Some(Merge::Back(0)));
        d.insert(2, R, 10 * k, k, true, Time(6));
        assert_eq!(d.find_merge(R, 9 * k, k, 8 * k), Some(Merge::Front(2)));
        assert_eq!(d.merged(Merge::Front(2), k, 8 * k), None);
        assert_eq!(d.find_merge(R, 8 * k, k, 8 * k), Some(Merge::Front(2)));
        assert_eq!(drain(&mut d, Time(7)), [0, 2]);
    }

    /// Of two requests that become one the earlier expiry counts, and its place in the FIFO.
    #[test]
    fn merged_requests_expire_as_the_earlier_one() {
        let k = 1024;
        let ms = |tenths: u64| Time(tenths * 100_000);
        // The one that stays arrives last and far behind; what it grows by fills the gap to the other.
        for (front, start) in [(false, 8 * k), (true, 12 * k)] {
            for (at, order) in [(ms(115), [0, 3, 2]), (ms(300), [0, 3, 2])] {
                let mut config = DeadlineConfig { fifo_batch: 1, ..DeadlineConfig::default() };
                config.read_expire = Span::from_ms(10);
                let mut d = Deadline::new(&config, 16);
                d.insert(0, R, 50 * k, k, true, ms(0));
                d.insert(1, R, 10 * k, k, true, ms(10));
                d.insert(2, R, 60 * k, k, true, ms(20));
                d.insert(3, R, start, k, true, ms(80));
                let merge = if front { Merge::Front(3) } else { Merge::Back(3) };
                assert_eq!(d.merged(merge, k, 8 * k), Some(1), "front {front}");
                assert_eq!(drain(&mut d, at), order, "front {front} at {at:?}");
            }
        }
        // The earlier one stays: neither its expiry nor its place changes.
        let config = DeadlineConfig {
            fifo_batch: 1,
            read_expire: Span::from_ms(10),
            ..DeadlineConfig::default()
        };
        let mut d = Deadline::new(&config, 16);
        d.insert(0, R, 50 * k, k, true, ms(0));
        d.insert(1, R, 8 * k, k, true, ms(10));
        d.insert(2, R, 60 * k, k, true, ms(20));
        d.insert(3, R, 10 * k, k, true, ms(80));
        assert_eq!(d.merged(Merge::Back(1), k, 8 * k), Some(3));
        assert_eq!(drain(&mut d, ms(115)), [0, 1, 2]);
    }

    /// Whatever comes in goes out once, and no request waits past its expiry behind more than the
    /// batch under way and the turns of the other direction.
    #[test]
    fn no_request_is_lost_or_starved() {
        for seed in 0..50 {
            let mut rng = Rng::from_seed(seed);
            let mut d = Deadline::new(&DeadlineConfig::default(), 64);
            let mut waiting: IdVec<RequestId, bool> = IdVec::filled(false, 64);
            let mut now = Time::ZERO;
            for _ in 0..5_000 {
                now += Span(rng.below(1_000_000));
                let rq = rng.below(64) as u32;
                if !waiting[rq] && rng.chance(600_000_000) {
                    let dir = if rng.below(2) == 0 { R } else { W };
                    d.insert(rq, dir, rng.below(1000) << 12, 4096, true, now);
                    waiting[rq] = true;
                } else if let Some(out) = d.dispatch(now) {
                    assert!(waiting[out], "seed {seed}");
                    waiting[out] = false;
                }
                assert_eq!(d.len(), waiting.iter().filter(|&&w| w).count(), "seed {seed}");
            }
        }
    }
}
