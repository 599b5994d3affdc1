//! SFQ(D): start-time fair queueing for a server that takes up to D requests at a time (Jin, Chase and Kaur,
//! "Interposed proportional sharing for a storage service utility", SIGMETRICS 2004).
//!
//! - A request's start tag is the greater of the virtual time and the finish tag of its thread's request before it; its
//!   finish tag is that plus its bytes over the thread's weight.
//! - The request with the least start tag goes first, while fewer than D are at the drive. The virtual time is the start
//!   tag of the one that went last.
//! - When nothing waits and nothing is at the drive, the virtual time is the greatest finish tag: who was idle has saved
//!   nothing up.
//!
//! Two threads that always have requests waiting differ in bytes over weight by at most (D + 1) times the sum of their
//! largest requests over their weights, in any interval. Weights are bfq's of I/O priorities: 80 of level 0 to 10 of level
//! 7. The real-time class has level 0, the idle class weighs 1. Requests that wait are not merged: plugs do that before.

use super::{Ask, bfq};
use crate::config::SfqConfig;
use crate::{RequestId, ThreadId};
use std::collections::BTreeMap;
use wordline_base::{IdVec, IoClass, Priority};

/// Fixed point of tags.
const TAG_SHIFT: u32 = 10;
/// What a request that moves no data counts as, in bytes.
const NO_DATA: u64 = 4096;

/// A start tag, and the order in which requests came: no two are alike.
type Tag = (u64, u64);

#[derive(Clone, Copy, Debug)]
enum Entry {
    /// Another way has it, or nobody.
    Gone,
    Waits(Tag),
    AtDrive,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    weight: u64,
    /// The finish tag of its last request.
    finish: u64,
}

impl Flow {
    fn new(class: IoClass) -> Flow {
        let weight = match class.effective() {
            (Priority::RealTime, _) => bfq::weight_of(0),
            (Priority::Idle, _) => 1,
            (_, level) => bfq::weight_of(level),
        };
        Flow { weight: weight.into(), finish: 0 }
    }
}

/// Start-time fair queueing with a depth.
#[derive(Debug)]
pub struct Sfq {
    depth: u32,
    entries: IdVec<RequestId, Entry>,
    flows: IdVec<ThreadId, Flow>,
    waiting: BTreeMap<Tag, u32>,
    virtual_time: u64,
    /// The greatest finish tag so far.
    latest: u64,
    at_drive: u32,
    /// Requests so far.
    came: u64,
}

impl Sfq {
    /// With a flow for each thread, of its class.
    pub fn new(config: &SfqConfig, threads: impl Iterator<Item = IoClass>) -> Sfq {
        Sfq {
            depth: if config.depth == 0 { u32::MAX } else { config.depth },
            entries: IdVec::new(),
            flows: threads.map(Flow::new).collect(),
            waiting: BTreeMap::new(),
            virtual_time: 0,
            latest: 0,
            at_drive: 0,
            came: 0,
        }
    }

    /// Requests that wait in it.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
    /// It holds no request.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
    /// Requests that wait, by number.
    pub fn waiting(&self) -> impl Iterator<Item = u32> + '_ {
        self.waiting.values().copied()
    }

    /// Takes a request: its tags are known from now on.
    pub fn insert(&mut self, ask: &Ask) {
        // Threads that came later are best effort.
        if ask.thread as usize >= self.flows.len() {
            self.flows.resize(ask.thread as usize + 1, Flow::new(IoClass::NONE));
        }
        if ask.rq as usize >= self.entries.len() {
            self.entries.resize(ask.rq as usize + 1, Entry::Gone);
        }
        let bytes = if ask.data { ask.bytes } else { NO_DATA };
        let flow = &mut self.flows[ask.thread];
        let start = flow.finish.max(self.virtual_time);
        flow.finish = start + (bytes << TAG_SHIFT) / flow.weight;
        self.latest = self.latest.max(flow.finish);
        self.came += 1;
        let tag = (start, self.came);
        self.entries[ask.rq] = Entry::Waits(tag);
        self.waiting.insert(tag, ask.rq);
    }

    /// The request with the least start tag, if the drive may have another.
    pub fn dispatch(&mut self) -> Option<u32> {
        if self.at_drive >= self.depth {
            return None;
        }
        let ((start, _), rq) = self.waiting.pop_first()?;
        self.virtual_time = start;
        self.at_drive += 1;
        self.entries[rq] = Entry::AtDrive;
        Some(rq)
    }

    /// A waiting request leaves by another way. Its thread has had it all the same.
    pub fn take_out(&mut self, rq: u32) {
        if let Entry::Waits(tag) = std::mem::replace(&mut self.entries[rq], Entry::Gone) {
            self.waiting.remove(&tag);
            self.rest();
        }
    }

    /// Nothing waits and nothing is at the drive: the next thread begins where the last one ended.
    fn rest(&mut self) {
        if self.at_drive == 0 && self.waiting.is_empty() {
            self.virtual_time = self.latest;
        }
    }

    /// A request is over.
    pub fn completed(&mut self, rq: u32) {
        let Some(entry) = self.entries.get_mut(rq) else { return };
        if !matches!(std::mem::replace(entry, Entry::Gone), Entry::AtDrive) {
            return;
        }
        self.at_drive -= 1;
        self.rest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::sched::Dir;
    use wordline_base::Rng;

    fn ask(rq: u32, thread: u32, bytes: u64) -> Ask {
        let (hctx, dir, start) = (0, Dir::Read, u64::from(rq) << 20);
        Ask { rq, hctx, thread, dir, start, bytes, mergeable: true, data: true, sync: true }
    }
    fn level(level: u8) -> IoClass {
        IoClass::new(Priority::BestEffort, level)
    }

    #[test]
    fn threads_are_even_again_when_the_last_request_left_by_another_way() {
        let mut sfq = Sfq::new(&SfqConfig { depth: 1 }, [0, 0].map(level).into_iter());
        sfq.insert(&ask(0, 0, 1 << 20));
        sfq.take_out(0);
        sfq.insert(&ask(1, 0, 4096));
        sfq.insert(&ask(2, 1, 4096));
        assert_eq!(sfq.dispatch(), Some(1), "they come in the order in which they came");
    }

    /// The bound of the paper, on drives that complete in any order.
    #[test]
    fn busy_threads_differ_by_no_more_than_the_bound() {
        for seed in 0..200 {
            let mut rng = Rng::from_seed(seed);
            let depth = 1 + rng.below(8) as u32;
            let levels = [0, 1].map(|_| rng.below(8) as u8);
            let most = [0, 1].map(|_| 512 << rng.below(8));
            let mut sfq = Sfq::new(&SfqConfig { depth }, levels.into_iter().map(level));
            let weights = levels.map(|l| f64::from(bfq::weight_of(l)));
            let mut bytes_of: IdVec<RequestId, (usize, u64)> = IdVec::new();
            let mut waits = [0; 2];
            let mut out: Vec<u32> = Vec::new();
            let mut had = [0u64; 2];
            let (mut least, mut greatest) = (0f64, 0f64);
            for _ in 0..2_000 {
                // Both always have some waiting.
                for thread in 0..2 {
                    while waits[thread] < 3 {
                        let bytes = 512 * (1 + rng.below(most[thread] / 512));
                        let rq = bytes_of.count();
                        bytes_of.push((thread, bytes));
                        sfq.insert(&ask(rq, thread as u32, bytes));
                        waits[thread] += 1;
                    }
                }
                while let Some(rq) = sfq.dispatch() {
                    waits[bytes_of[rq].0] -= 1;
                    out.push(rq);
                    if waits.contains(&0) {
                        break;
                    }
                }
                assert!(out.len() <= depth as usize, "seed {seed}: {} at the drive", out.len());
                let rq = out.swap_remove(rng.below(out.len() as u64) as usize);
                let (thread, bytes) = bytes_of[rq];
                had[thread] += bytes;
                sfq.completed(rq);
                let apart = had[0] as f64 / weights[0] - had[1] as f64 / weights[1];
                (least, greatest) = (least.min(apart), greatest.max(apart));
            }
            let each = most[0] as f64 / weights[0] + most[1] as f64 / weights[1];
            let bound = f64::from(depth + 1) * each;
            assert!(greatest - least <= bound, "seed {seed}: {} of {bound}", greatest - least);
        }
    }

    #[test]
    fn a_thread_that_was_idle_has_saved_nothing_up() {
        let mut sfq = Sfq::new(&SfqConfig { depth: 1 }, [level(4), level(4)].into_iter());
        // One thread alone has a hundred requests.
        for rq in 0..100 {
            sfq.insert(&ask(rq, 0, 4096));
            assert_eq!(sfq.dispatch(), Some(rq));
            sfq.completed(rq);
        }
        // Then both have ten: they take turns from the first on.
        for rq in 0..10 {
            sfq.insert(&ask(2 * rq, 0, 4096));
            sfq.insert(&ask(2 * rq + 1, 1, 4096));
        }
        for rq in 0..20 {
            assert_eq!(sfq.dispatch(), Some(rq));
            sfq.completed(rq);
        }
        assert!(sfq.is_empty());
    }

    #[test]
    fn a_request_that_leaves_by_another_way_is_not_at_the_drive() {
        let mut sfq = Sfq::new(&SfqConfig { depth: 1 }, [level(4)].into_iter());
        (0..3).for_each(|rq| sfq.insert(&ask(rq, 0, 4096)));
        sfq.take_out(1);
        assert_eq!((sfq.dispatch(), sfq.dispatch()), (Some(0), None));
        sfq.completed(1);
        assert_eq!(sfq.dispatch(), None, "the drive still has the first");
        sfq.completed(0);
        assert_eq!((sfq.dispatch(), sfq.dispatch()), (Some(2), None));
    }
}
