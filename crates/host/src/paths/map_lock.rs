//! The lock of a map that is a tree in host memory: threads that look up share it, a thread that changes the map has it
//! alone. Appending to the log is within it, so that the log needs no lock of its own.
//!
//! It is Linux' semaphore for readers and writers (kernel/locking/rwsem-xadd.c of 4.14, with CONFIG_RWSEM_SPIN_ON_OWNER).
//! A writer here is a thread that would have it alone.
//!
//! - A writer takes it if nobody has it, also where others sleep for it. If the lock were given to a sleeper, nobody could use
//!   it until that thread is awake.
//! - A writer spins while the one that has it alone runs, behind others that spin (rwsem_optimistic_spin, osq_lock). It sleeps
//!   if that one is off its core, if readers have it, or if another thread is to have its own core.
//! - A reader never spins, and does not pass by those that sleep.
//! - Once it is free, readers that have slept longest have it (__rwsem_mark_wake). If nobody shares it then, the first that spins
//!   takes it. Where nobody spins, the first that sleeps is woken and tries. (4.14 wakes it where others spin, too. It then finds
//!   the lock taken and sleeps again, and the processor time of that is left out.)
//! - Threads of the kernel, the FTL's own among them, do not pass by those that sleep: they sleep as well. That is chosen. 4.14 has
//!   no such rule, and the collector would have the lock again before another thread is awake.
//! - One that has slept for longer than 4 ms is next (RWSEM_FLAG_HANDOFF of 5.2): 4.14 would let others pass by for ever.
//!
//! The collector looks at each sector of a unit that it has read. It lets go of the lock between two of them if another thread
//! spins or sleeps for it, as cond_resched_lock does.

use crate::driver::poll::Loop;
use crate::host::Host;
use crate::source::Source;
use crate::tasks::thread::{Asleep, Flow, Step};
use serde::Serialize;
use std::collections::VecDeque;
use wordline_base::{Ctx, Layer, Span, Time, Why};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hold {
    Shared,
    Alone,
}

/// What becomes of a thread that asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    Has,
    Spins,
    Sleeps,
}

/// Which thread goes on when another lets go of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// This one was asleep, and shares it now.
    Shares(u32),
    /// This one spins, and is to ask once more.
    Spins(u32),
    /// This one sleeps, and is to wake and ask once more.
    Wakes(u32),
}

/// RWSEM_WAIT_TIMEOUT.
const HANDOFF: Span = Span::from_ms(4);

#[derive(Debug, Default)]
pub(crate) struct MapLock {
    readers: u32,
    /// The thread that has it alone.
    owner: Option<u32>,
    /// Those that spin, in the order in which they came, and whether they pass by those who sleep.
    spinning: VecDeque<(u32, bool)>,
    /// Those that sleep, and since when.
    waiting: VecDeque<Waiter>,
    stats: MapLockStats,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    thread: u32,
    hold: Hold,
    since: Time,
}

/// What became of those who asked for the lock of a map.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct MapLockStats {
    /// Times that a thread took it shared.
    pub shared: u64,
    /// Times that a thread took it alone.
    pub alone: u64,
    /// Times that a thread slept for it.
    pub waits: u64,
    /// Times that a thread spun for it.
    pub spins: u64,
}

impl std::ops::AddAssign for MapLockStats {
    fn add_assign(&mut self, o: MapLockStats) {
        self.shared += o.shared;
        self.alone += o.alone;
        self.waits += o.waits;
        self.spins += o.spins;
    }
}

impl MapLock {
    fn is_free(&self) -> bool {
        self.owner.is_none() && self.readers == 0
    }
    fn share(&mut self) {
        (self.readers, self.stats.shared) = (self.readers + 1, self.stats.shared + 1);
    }
    /// Who has asked for it so far.
    pub(super) fn stats(&self) -> MapLockStats {
        self.stats
    }
    /// The thread that has it alone.
    pub fn owner(&self) -> Option<u32> {
        self.owner
    }
    /// The first of those that spin.
    pub fn first_spinning(&self) -> Option<u32> {
        self.spinning.front().map(|&(thread, _)| thread)
    }
    /// A thread spins or sleeps for it.
    pub fn is_contended(&self) -> bool {
        !self.spinning.is_empty() || !self.waiting.is_empty()
    }
    /// The first that sleeps has done so for too long: nobody passes it by.
    fn hands_over(&self, now: Time) -> Option<u32> {
        let first = self.waiting.front()?;
        (now.since(first.since) > HANDOFF).then_some(first.thread)
    }
    fn queue(&mut self, thread: u32, hold: Hold, now: Time) -> Asked {
        self.stats.waits += 1;
        self.waiting.push_back(Waiter { thread, hold, since: now });
        Asked::Sleeps
    }
    /// A thread asks, or asks once more after it spun or slept. `runs` says that the one that has it alone has its core, and that
    /// no other is to have the core of the thread; `may_pass` that it passes by those who sleep.
    pub fn ask(&mut self, thread: u32, hold: Hold, runs: bool, may_pass: bool, now: Time) -> Asked {
        if hold == Hold::Shared {
            if self.owner.is_some() || !self.waiting.is_empty() {
                return self.queue(thread, hold, now);
            }
            self.share();
            return Asked::Has;
        }
        let spins = self.spinning.iter().position(|&(t, _)| t == thread);
        let first = self.spinning.is_empty() || spins == Some(0);
        let slept = self.waiting.iter().any(|w| w.thread == thread);
        let passes = may_pass || self.waiting.is_empty();
        let first = first && passes;
        let turn = self.hands_over(now).map_or(first || slept, |next| next == thread);
        if self.is_free() && turn {
            self.spinning.retain(|&(t, _)| t != thread);
            self.waiting.retain(|w| w.thread != thread);
            (self.owner, self.stats.alone) = (Some(thread), self.stats.alone + 1);
            return Asked::Has;
        }
        // A thread that has slept for it does not spin any more.
        if runs && self.readers == 0 && !slept && passes {
            if spins.is_none() {
                self.stats.spins += 1;
                self.spinning.push_back((thread, may_pass));
            }
            return Asked::Spins;
        }
        self.spinning.retain(|&(t, _)| t != thread);
        match slept {
            true => Asked::Sleeps,
            false => self.queue(thread, hold, now),
        }
    }
    /// Somebody lets go of it.
    pub fn leave(&mut self, hold: Hold) {
        match hold {
            Hold::Shared => self.readers -= 1,
            Hold::Alone => self.owner = None,
        }
    }
    /// Who goes on if it is free: several that share it one after another, or one that is to ask once more. To be asked when
    /// somebody has let go of it, and when one that asked did not get it although it is free.
    pub fn next(&mut self, now: Time) -> Option<Next> {
        if self.owner.is_some() {
            return None;
        }
        if let Some(&Waiter { thread, hold: Hold::Shared, .. }) = self.waiting.front() {
            self.waiting.pop_front();
            self.share();
            return Some(Next::Shares(thread));
        }
        if self.readers > 0 {
            return None;
        }
        match (self.spinning.front(), self.waiting.front()) {
            (Some(&(thread, _)), None) => Some(Next::Spins(thread)),
            // One that does not pass by those who sleep is to join them.
            (Some(&(thread, false)), _) => Some(Next::Spins(thread)),
            (Some(&(thread, true)), _) if self.hands_over(now).is_none() => {
                Some(Next::Spins(thread))
            }
            (_, Some(first)) => Some(Next::Wakes(first.thread)),
            (None, None) => None,
        }
    }
}

impl<S: Source> Host<S> {
    /// The thread goes on at `step` with the lock of its disk's map, at once where the map has none.
    #[inline]
    pub(crate) fn locked(&mut self, ctx: &mut Ctx, t: u32, hold: Hold, step: Step) -> Option<Flow> {
        self.block.disks[self.threads[t].disk()].paths.pblk.as_deref()?.lock.as_ref()?;
        self.lock_map(ctx, t, hold, step)
    }
    #[inline(never)]
    fn lock_map(&mut self, ctx: &mut Ctx, t: u32, hold: Hold, step: Step) -> Option<Flow> {
        let thread = &self.threads[t];
        let d = thread.disk();
        let lock = self.block.disks[d].paths.pblk.as_deref()?.lock.as_ref()?;
        if thread.pblk.hold.is_some() {
            return None;
        }
        if thread.pend.total() > 0 {
            return Some(self.segment(ctx, t, step));
        }
        let runs = self.stack.rwsem_spin
            && !self.cores[thread.core()].wanted(ctx.now)
            && lock.owner().is_none_or(|o| self.cores[self.threads[o].core()].runs(o));
        let passes = thread.is_job();
        let pblk = self.block.disks[d].paths.pblk.as_deref_mut()?;
        let cost = pblk.cost.map.as_ref().map_or(0, |map| map.lock.0);
        let lock = pblk.lock.as_mut()?;
        let asked = lock.ask(t, hold, runs, passes, ctx.now);
        let (next, free) = (lock.first_spinning(), lock.is_free());
        let thread = &mut self.threads[t];
        let core = thread.core();
        if asked == Asked::Has {
            thread.pblk.hold = Some(hold);
            thread.pend.ftl += cost;
            thread.pblk.owes_map(cost);
            return None;
        }
        thread.pblk.owed = match hold {
            // It has it when it wakes up.
            Hold::Shared => cost,
            Hold::Alone => 0,
        };
        let part = thread.call.part();
        thread.set_step(step);
        if part != crate::block::NONE {
            thread.plan_after(part, Layer::Ftl, Why::MapLock);
        }
        if free {
            // It is somebody else's turn, who may be asleep.
            self.pass_on(ctx, d, core);
        }
        if asked == Asked::Spins {
            return Some(self.look(ctx, t, Loop::Lock, Time::NEVER));
        }
        // The next that spins looks whether it still should.
        if let Some(next) = next {
            self.notice(ctx, next);
        }
        Some(self.sleep(ctx, t, Asleep::Map))
    }

    /// A thread that has the lock alone loses its core: nobody spins for it.
    #[cold]
    pub(crate) fn holder_is_off(&mut self, ctx: &mut Ctx, t: u32) {
        let d = self.threads[t].disk();
        let lock = self.block.disks[d].paths.pblk.as_ref().and_then(|p| p.lock.as_ref());
        if let Some(first) = lock.and_then(MapLock::first_spinning) {
            self.notice(ctx, first);
        }
    }

    /// Processor time of what the map did for the thread.
    pub(crate) fn map_work(&mut self, t: u32) -> u64 {
        let thread = &mut self.threads[t];
        let Some(pblk) = &mut self.block.disks[thread.disk()].paths.pblk else { return 0 };
        let Some(map) = &pblk.cost.map else { return 0 };
        let work = wordline_ftl::Translation::take_map_work(&mut pblk.ftl);
        pblk.stats.map_work += work;
        map.of(work).0 + std::mem::take(&mut thread.pblk.owed)
    }

    /// The thread spends that time.
    pub(crate) fn charge_map(&mut self, t: u32) {
        let spent = self.map_work(t);
        let thread = &mut self.threads[t];
        thread.pend.ftl += spent;
        thread.pblk.owes_map(spent);
    }

    /// The thread has the lock, and others spin or sleep for it.
    pub(crate) fn others_want_map(&self, t: u32) -> bool {
        let thread = &self.threads[t];
        let lock =
            self.block.disks[thread.disk()].paths.pblk.as_ref().and_then(|p| p.lock.as_ref());
        thread.pblk.hold.is_some() && lock.is_some_and(MapLock::is_contended)
    }

    /// The thread lets go of the lock, and others go on.
    pub(crate) fn unlock(&mut self, ctx: &mut Ctx, t: u32) {
        let thread = &mut self.threads[t];
        let (d, core) = (thread.disk(), thread.core());
        let Some(hold) = thread.pblk.hold.take() else { return };
        if let Some(lock) = self.block.disks[d].paths.pblk.as_mut().and_then(|p| p.lock.as_mut()) {
            lock.leave(hold);
        }
        self.pass_on(ctx, d, core);
    }

    /// Nobody has the lock alone: those whose turn it is go on.
    fn pass_on(&mut self, ctx: &mut Ctx, d: u16, core: u32) {
        while let Some(lock) = self.block.disks[d].paths.pblk.as_mut().and_then(|p| p.lock.as_mut())
            && let Some(next) = lock.next(ctx.now)
        {
            match next {
                Next::Shares(next) => {
                    self.threads[next].pblk.hold = Some(Hold::Shared);
                    self.wake(ctx, next, Some(core));
                    // One that spins sees that readers have it.
                    self.holder_is_off(ctx, next);
                }
                Next::Spins(next) => return self.notice(ctx, next),
                Next::Wakes(next) => {
                    if self.threads[next].asleep() == Asleep::Map {
                        self.wake(ctx, next, Some(core));
                    }
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::Rng;

    /// Those whose turn it is have it, or are told; how many have it.
    fn pass_on(
        lock: &mut MapLock,
        now: Time,
        holding: &mut Vec<(u32, Hold)>,
        sleep: &mut Vec<u32>,
        told: &mut Vec<u32>,
    ) -> u64 {
        let before = holding.len();
        while let Some(next) = lock.next(now) {
            match next {
                Next::Shares(t) => {
                    sleep.retain(|&s| s != t);
                    holding.push((t, Hold::Shared));
                    continue;
                }
                Next::Spins(t) | Next::Wakes(t) if !told.contains(&t) => told.push(t),
                _ => {}
            }
            break;
        }
        (holding.len() - before) as u64
    }

    /// Threads that ask, spin, sleep and let go, in any order.
    #[test]
    fn readers_share_writers_are_alone_and_nobody_is_forgotten() {
        let seed = 7;
        let mut rng = Rng::from_seed(seed);
        let mut lock = MapLock::default();
        let mut holding: Vec<(u32, Hold)> = Vec::new();
        // Who spins, who sleeps, and who was told to ask once more.
        let (mut spin, mut sleep, mut told) = (Vec::new(), Vec::new(), Vec::new());
        let (mut asked, mut had) = (0, 0);
        let mut now = Time::ZERO;
        while had < 20_000 {
            now += Span(rng.below(300_000));
            let more = asked < 20_000 && holding.len() + spin.len() + sleep.len() < 12;
            let (thread, hold) = match rng.below(3) {
                0 if more => {
                    asked += 1;
                    let alone = rng.below(3) == 0;
                    (asked, if alone { Hold::Alone } else { Hold::Shared })
                }
                1 if !told.is_empty() => {
                    let t = told.swap_remove(rng.below(told.len() as u64) as usize);
                    spin.retain(|&s| s != t);
                    sleep.retain(|&s| s != t);
                    (t, Hold::Alone)
                }
                _ => {
                    if !holding.is_empty() {
                        let at = rng.below(holding.len() as u64) as usize;
                        lock.leave(holding.swap_remove(at).1);
                        had += pass_on(&mut lock, now, &mut holding, &mut sleep, &mut told);
                    }
                    let stuck = holding.is_empty() && told.is_empty();
                    assert!(!stuck || spin.len() + sleep.len() == 0, "seed {seed}: all wait");
                    continue;
                }
            };
            match lock.ask(thread, hold, rng.below(2) == 0, thread % 3 > 0, now) {
                Asked::Has => {
                    holding.push((thread, hold));
                    had += 1;
                }
                Asked::Spins => spin.push(thread),
                Asked::Sleeps => sleep.push(thread),
            }
            if lock.is_free() {
                had += pass_on(&mut lock, now, &mut holding, &mut sleep, &mut told);
            }
            let alone = holding.iter().any(|&(_, hold)| hold == Hold::Alone);
            assert!(!alone || holding.len() == 1, "seed {seed}: {holding:?}");
        }
        let stats = lock.stats;
        assert_eq!(stats.shared + stats.alone, 20_000, "seed {seed}");
        assert!(stats.waits > 1000 && stats.spins > 300, "seed {seed}: {stats:?}");
    }

    #[test]
    fn one_that_is_awake_takes_it_before_one_that_sleeps() {
        let mut lock = MapLock::default();
        assert_eq!(lock.ask(1, Hold::Alone, false, true, Time(1)), Asked::Has);
        assert_eq!(lock.ask(2, Hold::Alone, false, true, Time(2)), Asked::Sleeps);
        assert_eq!(lock.ask(3, Hold::Alone, true, true, Time(3)), Asked::Spins);
        assert_eq!(lock.ask(4, Hold::Alone, true, true, Time(4)), Asked::Spins);
        lock.leave(Hold::Alone);
        assert_eq!(lock.next(Time(10)), Some(Next::Spins(3)));
        assert_eq!(
            lock.ask(5, Hold::Alone, true, true, Time(5)),
            Asked::Spins,
            "others spin before"
        );
        assert_eq!(lock.ask(3, Hold::Alone, true, true, Time(3)), Asked::Has);
        assert_eq!(
            lock.ask(4, Hold::Alone, false, true, Time(4)),
            Asked::Sleeps,
            "it loses its core"
        );
        lock.leave(Hold::Alone);
        assert_eq!(lock.next(Time(10)), Some(Next::Spins(5)));
        assert_eq!(lock.ask(5, Hold::Alone, true, true, Time(5)), Asked::Has);
        lock.leave(Hold::Alone);
        assert_eq!(lock.next(Time(10)), Some(Next::Wakes(2)));
        assert_eq!(lock.ask(6, Hold::Alone, true, true, Time(10)), Asked::Has);
        assert_eq!(lock.ask(2, Hold::Alone, true, true, Time(10)), Asked::Sleeps, "it passed by");
        lock.leave(Hold::Alone);
        assert_eq!(lock.next(Time(10)), Some(Next::Wakes(2)));
    }

    #[test]
    fn one_that_has_slept_for_4_ms_is_next() {
        let mut lock = MapLock::default();
        let late = Time::ZERO + Span::from_ms(4) + Span(1);
        assert_eq!(lock.ask(1, Hold::Alone, false, true, Time::ZERO), Asked::Has);
        assert_eq!(lock.ask(2, Hold::Alone, false, true, Time::ZERO), Asked::Sleeps);
        assert_eq!(lock.ask(3, Hold::Alone, true, true, Time::ZERO), Asked::Spins);
        lock.leave(Hold::Alone);
        assert_eq!(lock.next(late), Some(Next::Wakes(2)));
        assert_eq!(lock.ask(3, Hold::Alone, true, true, late), Asked::Spins);
        assert_eq!(lock.ask(4, Hold::Alone, true, true, late), Asked::Spins);
        assert_eq!(lock.ask(2, Hold::Alone, true, true, late), Asked::Has);
        lock.leave(Hold::Alone);
        assert_eq!(lock.next(late), Some(Next::Spins(3)));
    }

    /// It would keep the core of the one that is to wake up.
    #[test]
    fn a_thread_of_the_ftl_does_not_spin_for_a_lock_that_is_free() {
        let mut lock = MapLock::default();
        let now = Time::ZERO;
        assert_eq!(lock.ask(1, Hold::Alone, false, true, now), Asked::Has);
        assert_eq!(lock.ask(2, Hold::Alone, true, false, now), Asked::Spins);
        assert_eq!(lock.ask(3, Hold::Alone, true, true, now), Asked::Spins);
        assert_eq!(lock.ask(4, Hold::Alone, false, true, now), Asked::Sleeps);
        lock.leave(Hold::Alone);
        assert_eq!(lock.next(now), Some(Next::Spins(2)));
        assert_eq!(lock.ask(2, Hold::Alone, true, false, now), Asked::Sleeps);
        assert_eq!(lock.next(now), Some(Next::Spins(3)));
        assert_eq!(lock.ask(3, Hold::Alone, true, true, now), Asked::Has);
        lock.leave(Hold::Alone);
        assert_eq!(lock.next(now), Some(Next::Wakes(4)));
    }

    #[test]
    fn a_thread_of_the_ftl_passes_by_nobody() {
        let mut lock = MapLock::default();
        let now = Time::ZERO;
        assert_eq!(lock.ask(1, Hold::Alone, false, false, now), Asked::Has);
        assert_eq!(lock.ask(2, Hold::Alone, false, true, now), Asked::Sleeps);
        lock.leave(Hold::Alone);
        assert_eq!(lock.next(now), Some(Next::Wakes(2)));
        assert_eq!(lock.ask(1, Hold::Alone, true, false, now), Asked::Sleeps);
        assert_eq!(lock.next(now), Some(Next::Wakes(2)));
        assert_eq!(lock.ask(2, Hold::Alone, true, true, now), Asked::Has);
        lock.leave(Hold::Alone);
        assert_eq!(lock.next(now), Some(Next::Wakes(1)));
    }
}
