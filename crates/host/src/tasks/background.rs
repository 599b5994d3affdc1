//! What else a core is asked to do: scheduler ticks, and a kworker with work from time to time.
//!
//! A tick comes CONFIG_HZ times a second to each core that is not idle (NO_HZ_IDLE), at the same moments to all.
//! That a time slice is used up is found out at a tick. A kworker is woken by its timer, deferrable or not.
//! It works without giving way, as a kernel without preemption does.

use crate::function::{Function, spend};
use crate::host::Host;
use crate::source::Source;
use crate::tasks::core::Irq;
use crate::tasks::idle::until;
use crate::tasks::thread::{Asleep, Flow, Step};
use wordline_base::{Ctx, Kind, Span, Time};

/// Of a HostTimer, with the core or the thread below it.
pub(crate) const TICK: u32 = 1 << 25;
/// Of a HostTimer, with the thread below it.
pub(crate) const WORK: u32 = 1 << 24;

impl<S: Source> Host<S> {
    /// The least that a thread sleeps by the kernel's clock: a tick, and 1 ms where ticks are left out.
    pub(crate) fn jiffy(&self) -> Span {
        if self.cfs.tick > Span::ZERO { self.cfs.tick } else { Span::from_ms(1) }
    }

    /// The first tick after now.
    pub(crate) fn next_tick(&self, now: Time) -> Time {
        Time((now.0 / self.cfs.tick.0 + 1) * self.cfs.tick.0)
    }

    /// When a slice is found to be used up that began then on a core for which so many wait (sched_slice: threads of one
    /// weight share sched_latency, but have sched_min_granularity at least).
    pub(crate) fn slice_end(&self, begin: Time, waiting: usize) -> Time {
        let share = Span(self.stack.sched_latency.0 / (waiting as u64 + 1));
        let end = begin + share.max(self.stack.time_slice);
        if self.cfs.tick == Span::ZERO || end.0.is_multiple_of(self.cfs.tick.0) {
            end
        } else {
            self.next_tick(end)
        }
    }

    /// Kworkers begin to wait, and cores to be idle.
    pub(crate) fn start_background(&mut self, ctx: &mut Ctx) {
        for t in 0..self.threads.len() as u32 {
            if self.threads[t].asleep == Asleep::Work {
                self.arm_work(ctx, t);
            }
        }
        for core in 0..self.cores.len() as u32 {
            self.enter_idle(ctx, core);
        }
    }

    /// A core's tick.
    pub(crate) fn tick(&mut self, ctx: &mut Ctx, core: u32) {
        let c = &mut self.cores[core];
        c.ticking = false;
        if c.idle_since.is_none() {
            self.raise(ctx, core, Irq::Tick);
            self.arm_tick(ctx, core);
        }
    }

    fn arm_tick(&mut self, ctx: &mut Ctx, core: u32) {
        if self.cfs.tick > Span::ZERO && !std::mem::replace(&mut self.cores[core].ticking, true) {
            ctx.at(self.next_tick(ctx.now), Kind::HostTimer, TICK | core);
        }
    }

    /// The timer of a kworker's work.
    pub(crate) fn work_due(&mut self, ctx: &mut Ctx, t: u32) {
        let core = self.threads[t].core;
        // Nobody is left to see it once all jobs are over; a server does not know.
        if !self.serves()
            && self.threads.iter().all(|t| t.source.is_none() || t.asleep == Asleep::Done)
        {
            return;
        }
        self.arm_work(ctx, t);
        self.raise(ctx, core, Irq::Timer(t));
    }

    fn arm_work(&mut self, ctx: &mut Ctx, t: u32) {
        let next = ctx.now + self.stack.kworker.interval;
        self.threads[t].timer_at = next;
        ctx.at(next, Kind::HostTimer, WORK | t);
    }

    /// A kworker begins to work.
    #[inline(never)]
    pub(crate) fn kworker(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        let span = self.stack.kworker.work.0;
        thread.pend.entry += span + spend!(self, thread.core, Kworker);
        self.cores[thread.core].charge(Function::Kworker, span);
        self.segment(ctx, t, Step::Worked)
    }

    /// A kworker is through.
    #[inline(never)]
    pub(crate) fn worked(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        // A switch that it still owes is spent first, and comes back here.
        if self.threads[t].pend.total() == 0 {
            self.threads[t].step = Step::Kworker;
        }
        self.sleep(ctx, t, Asleep::Work)
    }

    /// The core has nothing to do; a governor picks its state.
    pub(crate) fn enter_idle(&mut self, ctx: &Ctx, core: u32) {
        let c = &mut self.cores[core];
        if c.idle_since.is_none() {
            c.idle_since = Some(ctx.now);
            c.calls.pause();
        }
        let Some(cpuidle) = &mut c.cpuidle else { return };
        let mut next = Time::NEVER;
        let mut waiters = 0;
        for thread in self.threads.iter().filter(|t| t.core == core) {
            let timed = match thread.asleep {
                Asleep::Hybrid | Asleep::Timer | Asleep::Work => thread.timer_at,
                Asleep::Start => thread.spec.start,
                _ => Time::NEVER,
            };
            next = next.min(if timed > ctx.now { timed } else { Time::NEVER });
            // io_schedule; io_getevents and io_uring_enter only wait.
            let waits = matches!(thread.asleep, Asleep::Call | Asleep::Hybrid | Asleep::Tag);
            waiters += u64::from(waits);
        }
        cpuidle.select(until(next, ctx.now), waiters);
    }

    /// Leaves idle, if the core was: what that takes.
    pub(crate) fn leave_idle(&mut self, ctx: &mut Ctx, core: u32) -> u64 {
        let c = &mut self.cores[core];
        let Some(slept) = c.leave_idle(ctx.now) else { return 0 };
        self.arm_tick(ctx, core);
        let Some(cpuidle) = &mut self.cores[core].cpuidle else {
            return spend!(self, core, IdleExit);
        };
        cpuidle.reflect(slept);
        let (polled, beyond) = (cpuidle.state == 0, cpuidle.beyond_c1().0);
        if polled {
            return 0;
        }
        self.cores[core].charge(Function::IdleExit, beyond);
        spend!(self, core, IdleExit) + beyond
    }
}
