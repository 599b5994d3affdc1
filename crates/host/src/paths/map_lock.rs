//! The lock of a map that is a tree in host memory: those who look up share it, who changes the map has it
//! alone. It is a semaphore (rwsem): who finds it taken sleeps, and all go in the order in which they came.
//! Appending to the log is within it, so that the log needs no lock of its own.

use crate::host::Host;
use crate::source::Source;
use crate::tasks::thread::{Asleep, Flow, Step};
use serde::Serialize;
use std::collections::VecDeque;
use wordline_base::{Ctx, Layer, Why};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hold {
    Shared,
    Alone,
}

#[derive(Debug, Default)]
pub(crate) struct MapLock {
    readers: u32,
    taken: bool,
    waiting: VecDeque<(u32, Hold)>,
    stats: MapLockStats,
}

/// What became of those who asked for the lock of a map.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct MapLockStats {
    /// Times that it was had together with others.
    pub shared: u64,
    /// Times that it was had alone.
    pub alone: u64,
    /// Times that somebody slept for it.
    pub waits: u64,
}

impl std::ops::AddAssign for MapLockStats {
    fn add_assign(&mut self, o: MapLockStats) {
        self.shared += o.shared;
        self.alone += o.alone;
        self.waits += o.waits;
    }
}

impl MapLock {
    fn fits(&self, hold: Hold) -> bool {
        !self.taken && (hold == Hold::Shared || self.readers == 0)
    }
    fn enter(&mut self, hold: Hold) {
        match hold {
            Hold::Shared => {
                (self.readers, self.stats.shared) = (self.readers + 1, self.stats.shared + 1)
            }
            Hold::Alone => (self.taken, self.stats.alone) = (true, self.stats.alone + 1),
        }
    }
    /// Who has asked for it so far.
    pub(super) fn stats(&self) -> MapLockStats {
        self.stats
    }
    /// Answers whether the thread has it; otherwise it is in the queue.
    pub fn ask(&mut self, thread: u32, hold: Hold) -> bool {
        let now = self.waiting.is_empty() && self.fits(hold);
        match now {
            true => self.enter(hold),
            false => {
                self.stats.waits += 1;
                self.waiting.push_back((thread, hold));
            }
        }
        now
    }
    /// Somebody lets go of it.
    pub fn leave(&mut self, hold: Hold) {
        match hold {
            Hold::Shared => self.readers -= 1,
            Hold::Alone => self.taken = false,
        }
    }
    /// The next in the queue, which has the lock now.
    pub fn next(&mut self) -> Option<(u32, Hold)> {
        let &(thread, hold) = self.waiting.front()?;
        if !self.fits(hold) {
            return None;
        }
        self.enter(hold);
        self.waiting.pop_front();
        Some((thread, hold))
    }
}

impl<S: Source> Host<S> {
    /// The thread goes on at `step` with the lock of its disk's map, at once where the map has none.
    pub(crate) fn locked(&mut self, ctx: &mut Ctx, t: u32, hold: Hold, step: Step) -> Option<Flow> {
        let thread = &mut self.threads[t];
        let pblk = self.block.disks[thread.disk()].paths.pblk.as_deref_mut()?;
        let lock = pblk.lock.as_mut()?;
        if thread.pblk.hold.is_some() {
            return None;
        }
        if thread.pend.total() > 0 {
            return Some(self.segment(ctx, t, step));
        }
        let cost = pblk.cost.map.as_ref().map_or(0, |map| map.lock.0);
        if lock.ask(t, hold) {
            thread.pblk.hold = Some(hold);
            thread.pend.ftl += cost;
            thread.pblk.owes_map(cost);
            return None;
        }
        thread.pblk.owed = cost;
        let part = thread.call.part();
        thread.set_step(step);
        if part != crate::block::NONE {
            thread.plan_after(part, Layer::Ftl, Why::MapLock);
        }
        Some(self.sleep(ctx, t, Asleep::Map))
    }

    /// Processor time of what the map did for the thread.
    pub(crate) fn charge_map(&mut self, t: u32) {
        let thread = &mut self.threads[t];
        let Some(pblk) = &mut self.block.disks[thread.disk()].paths.pblk else { return };
        let Some(map) = &pblk.cost.map else { return };
        let work = wordline_ftl::Translation::take_map_work(&mut pblk.ftl);
        let spent = map.of(work).0 + std::mem::take(&mut thread.pblk.owed);
        thread.pend.ftl += spent;
        thread.pblk.owes_map(spent);
        pblk.stats.map_work += work;
    }

    /// The thread lets go of the lock, and others have it.
    pub(crate) fn unlock(&mut self, ctx: &mut Ctx, t: u32) {
        let thread = &mut self.threads[t];
        let (d, core) = (thread.disk(), thread.core());
        let Some(hold) = thread.pblk.hold.take() else { return };
        if let Some(lock) = self.block.disks[d].paths.pblk.as_mut().and_then(|p| p.lock.as_mut()) {
            lock.leave(hold);
        }
        while let Some(lock) = self.block.disks[d].paths.pblk.as_mut().and_then(|p| p.lock.as_mut())
            && let Some((next, hold)) = lock.next()
        {
            self.threads[next].pblk.hold = Some(hold);
            self.wake(ctx, next, Some(core));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::Rng;

    /// A writer is alone, nobody overtakes, and all come to have it.
    #[test]
    fn readers_share_and_writers_are_alone() {
        let seed = 7;
        let mut rng = Rng::from_seed(seed);
        let mut lock = MapLock::default();
        let (mut holding, mut queue) = (Vec::new(), VecDeque::new());
        for thread in 0..10_000 {
            let hold = if rng.below(3) == 0 { Hold::Alone } else { Hold::Shared };
            match lock.ask(thread, hold) {
                true => holding.push(hold),
                false => queue.push_back((thread, hold)),
            }
            while !holding.is_empty() && rng.below(2) == 0 {
                lock.leave(holding.swap_remove(rng.below(holding.len() as u64) as usize));
                while let Some(next) = lock.next() {
                    assert_eq!(queue.pop_front(), Some(next), "seed {seed}");
                    holding.push(next.1);
                }
            }
            let alone = holding.contains(&Hold::Alone);
            assert!(!alone || holding.len() == 1, "seed {seed}: {holding:?}");
            assert!(queue.is_empty() || !holding.is_empty(), "seed {seed}: all wait");
        }
        assert_eq!(lock.stats.shared + lock.stats.alone + queue.len() as u64, 10_000);
        assert!(lock.stats.waits > 1000);
    }
}
