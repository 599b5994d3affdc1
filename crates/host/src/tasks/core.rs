//! Cores. A core does one thing at a time: an interrupt handler before anything else, otherwise a
//! thread. A thread's work is cut into *segments*, stretches of processor time with one event at
//! their end. A handler that arrives while a segment runs pushes its end back by exactly the
//! handler's time, and if the handler takes up further completions, by those too.
//!
//! Threads wait for their core in the order of CFS, least processor time first. A thread keeps the core until
//! it sleeps. It loses the core at the end of a segment, if its time slice is used up or a thread was woken
//! that has had far less. A woken thread may go to an idle core (`stack.migrate`). Left out: balancing between
//! cores that are busy, priorities, hyper-threads, frequency.

use crate::function::{Calls, Costs, Function, Use};
use crate::stats::CoreStats;
use crate::tasks::idle::{CpuIdle, STATES};
use std::collections::VecDeque;
use wordline_base::{Span, Time};

/// Work done before any thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Irq {
    /// nvme_irq of a completion queue.
    Vector(u16),
    /// A thread of this core is woken from another one.
    Ipi(u32),
    /// The timer of a thread of this core.
    Timer(u32),
    /// The scheduler's.
    Tick,
    /// The network card has a message of a connection.
    Network(u16),
    /// A request held up for a tag goes out after a completion (blk_mq_sched_restart), or one that a SATA drive's
    /// driver put off. Linux does it in a kblockd worker of this core; of these no worker is modelled.
    Dispatch(u32),
}

/// A thread's work up to its next event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// Whose it is.
    pub thread: u32,
    /// When it began; interrupts push it on.
    pub begin: Time,
    /// Where the application's part ends; an I/O issued in this segment begins here.
    pub split: Time,
    /// When it ends; `NEVER` for a loop.
    pub end: Time,
    /// Nanoseconds of it in user mode.
    pub user: u64,
    /// Nanoseconds of it in the kernel.
    pub system: u64,
    /// What a loop took of these up to the look that ended it.
    pub spun: u64,
    /// In which mode a loop is.
    pub mode: Mode,
    /// Not a loop: the core is halted until then (MWAIT).
    pub halted: bool,
    /// A loop of looks; its `end` is NEVER until what it looks for is there.
    pub spin: Option<Spin>,
}

/// In which mode a loop of looks is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// In the kernel.
    Kernel,
    /// In user mode.
    User,
    /// In user mode, but for a call of each turn, which begins `from` nanoseconds after the turn.
    Calls { from: u32, ns: u32 },
}

impl Segment {
    /// Nanoseconds in the kernel, of so many of its loop.
    fn in_kernel(&self, looped: u64) -> u64 {
        let turn = self.spin.map_or(0, |spin| spin.turn);
        match self.mode {
            Mode::Kernel => looped,
            Mode::Calls { from, ns } if turn > 0 => {
                let (from, ns) = (u64::from(from), u64::from(ns));
                looped / turn * ns + (looped % turn).saturating_sub(from).min(ns)
            }
            Mode::User | Mode::Calls { .. } => 0,
        }
    }
}

/// Looks at regular times, up to one at `until`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spin {
    /// The first look.
    pub first: Time,
    /// Nanoseconds from one look to the next.
    pub turn: u64,
    /// It ends then, whatever was found.
    pub until: Time,
    /// Another thread's turn does not come before.
    pub keep: Time,
}

impl Spin {
    /// The first look at or after `from`, and the turns before it.
    pub fn look_at(&self, from: Time) -> (Time, u64) {
        if self.turn == 0 {
            return (from.max(self.first), 0);
        }
        let turns = from.since(self.first).0.div_ceil(self.turn);
        (self.first + Span(turns * self.turn), turns)
    }
}

#[derive(Debug)]
pub(crate) struct Core {
    /// The thread's work at hand.
    pub(super) segment: Option<Segment>,
    /// The first one runs, until `irq_end`.
    pub(super) irqs: VecDeque<Irq>,
    /// When the handler that runs began.
    pub(super) irq_begin: Time,
    /// When it ends.
    pub(super) irq_end: Time,
    /// The handler's end has no event of its own: the segment's end, which is later, settles it.
    pub(super) lazy: bool,
    /// Threads that wait for it, in the order of CFS.
    pub(super) ready: VecDeque<u32>,
    /// The thread that holds the core, also between two of its segments.
    pub(super) current: Option<u32>,
    /// It has nothing to do since then.
    pub(super) idle_since: Option<Time>,
    /// Since when the thread that holds the core has it.
    pub(super) slice_begin: Time,
    /// When it has used up its slice, or a woken one is to run before.
    pub(super) slice_end: Time,
    /// The least processor time, in CFS's reckoning, of the threads that run or want to.
    pub(super) min_vruntime: u64,
    /// The earliest pending CoreDone event.
    pub(super) armed: Time,
    /// A tick is pending.
    pub(super) ticking: bool,
    /// What chooses idle states, if something does.
    pub(super) cpuidle: Option<Box<CpuIdle>>,
    /// Where its time went.
    pub(super) stats: CoreStats,
    /// Functions that ran on it.
    pub(super) calls: Calls,
}

impl Core {
    pub fn new(ready: usize, cpuidle: Option<Box<CpuIdle>>) -> Core {
        Core {
            segment: None,
            irqs: VecDeque::with_capacity(16),
            irq_begin: Time::ZERO,
            irq_end: Time::ZERO,
            lazy: false,
            ready: VecDeque::with_capacity(ready),
            current: None,
            idle_since: Some(Time::ZERO),
            slice_begin: Time::ZERO,
            slice_end: Time::ZERO,
            min_vruntime: 0,
            armed: Time::NEVER,
            ticking: false,
            cpuidle,
            stats: CoreStats::default(),
            calls: Calls::default(),
        }
    }

    /// `n` calls of a function in a row: the time that they take if its code is cold.
    #[inline(always)]
    pub fn call(&mut self, f: Function, n: u64, cost: &Costs) -> u64 {
        self.calls.spend(f as usize, n, cost)
    }
    /// What these calls take less as the code ran here before.
    #[inline(always)]
    pub fn saves(&mut self, f: Function, n: u64, cost: &Costs) -> u64 {
        self.calls.save(f as usize, n, cost)
    }
    /// Time in a function that has no fixed length.
    #[inline]
    pub fn charge(&mut self, f: Function, ns: u64) {
        self.calls.charge(f, ns);
    }
    /// What each function took.
    pub fn uses(&self, cost: &Costs) -> Vec<Use> {
        self.calls.uses(cost)
    }

    /// What ran on it.
    pub fn calls(&self) -> &Calls {
        &self.calls
    }
    /// The thread whose loop of looks is under way, and how long it has looked.
    pub fn looped(&self, now: Time) -> Option<(u32, u64)> {
        let segment = self.segment.as_ref().filter(|s| s.end == Time::NEVER && !s.halted)?;
        let irq_left = if self.irqs.is_empty() { 0 } else { self.irq_end.since(now).0 };
        Some((segment.thread, now.since(segment.begin).0.saturating_sub(irq_left)))
    }

    /// Room for so many threads that want to run.
    pub fn make_room(&mut self, threads: usize) {
        self.ready.reserve(threads);
    }
    /// It is idle from now on.
    pub fn start(&mut self, now: Time) {
        self.idle_since = Some(now);
    }
    /// When its handlers are through; now, if none runs.
    #[inline]
    pub fn free_from(&self, now: Time) -> Time {
        if self.irqs.is_empty() { now } else { self.irq_end }
    }
    /// A handler is over whose end had no event of its own.
    #[inline]
    pub fn owes_an_end(&self, now: Time) -> bool {
        self.lazy && self.irq_end <= now
    }
    /// The handler that runs does more.
    #[inline]
    pub fn prolong(&mut self, span: Span) {
        self.steal(self.irq_end, span);
    }
    /// When the work at hand ends.
    #[inline]
    pub fn due(&self) -> Time {
        if !self.irqs.is_empty() && !self.lazy {
            self.irq_end
        } else {
            self.segment.as_ref().map_or(Time::NEVER, |s| match s.spin {
                Some(spin) if s.end == Time::NEVER => self.loop_ends(s.begin, spin),
                _ => s.end,
            })
        }
    }

    /// When a loop ends whatever it looks for: it is to, or another thread's turn comes.
    #[inline]
    fn loop_ends(&self, begin: Time, spin: Spin) -> Time {
        let turn =
            if self.ready.is_empty() { Time::NEVER } else { self.slice_end.max(begin + Span(1)) };
        turn.max(spin.keep).min(spin.until)
    }

    /// Leaves idle, if it was; for how long it was.
    #[inline]
    pub fn leave_idle(&mut self, now: Time) -> Option<Span> {
        let slept = now.since(self.idle_since.take()?);
        self.stats.idle += slept.0;
        Some(slept)
    }

    /// Nanoseconds in each idle state, with the one under way.
    pub fn idle_states(&self, now: Time) -> Option<[u64; STATES]> {
        let cpuidle = self.cpuidle.as_ref()?;
        let mut all = cpuidle.residency;
        all[cpuidle.state] += self.idle_since.map_or(0, |since| now.since(since).0);
        Some(all)
    }

    /// A thread looks again and again, in this mode, or halts the core until what it looks for is there.
    pub fn begin_loop(&mut self, thread: u32, begin: Time, spin: Spin, mode: Mode, halted: bool) {
        self.segment = Some(Segment {
            spun: 0,
            thread,
            begin,
            split: begin,
            end: Time::NEVER,
            user: 0,
            system: 0,
            mode,
            halted,
            spin: Some(spin),
        });
    }
    /// The thread's loop, if it is in one that has not ended.
    pub fn loop_of(&self, thread: u32) -> Option<Spin> {
        let segment = self.segment.as_ref()?;
        (segment.thread == thread && segment.end == Time::NEVER).then_some(segment.spin?)
    }
    /// The loop ends with its look at `at` and what is done about what was `found`; what all of it took.
    /// A loop that `spins` did nothing else.
    pub fn end_loop(&mut self, at: Time, found: u64, spins: bool) -> Option<u64> {
        let segment = self.segment.as_mut()?;
        segment.end = at + Span(found);
        if segment.halted {
            self.stats.idle += at.since(std::mem::replace(&mut segment.begin, at)).0;
        }
        let spent = segment.end.since(segment.begin).0;
        if spins {
            segment.spun = spent - found;
        }
        segment.system = match segment.mode {
            Mode::Kernel => spent,
            Mode::User | Mode::Calls { .. } => segment.in_kernel(spent - found),
        };
        segment.user = spent - segment.system;
        Some(spent)
    }
    /// The thread that held the core is off it.
    #[inline]
    pub fn leave(&mut self) {
        self.current = None;
    }

    /// The thread has it.
    pub fn runs(&self, thread: u32) -> bool {
        self.current == Some(thread)
    }
    /// Another thread is to have it (need_resched).
    pub fn wanted(&self, now: Time) -> bool {
        !self.ready.is_empty() && now >= self.slice_end
    }

    /// Whether a thread runs here, other than in a loop of looks or halted.
    #[inline]
    pub fn works(&self) -> bool {
        self.segment.as_ref().is_some_and(|s| s.end < Time::NEVER)
    }

    /// Interrupt work takes `span` more, from `at`: the segment underneath moves.
    #[inline]
    pub fn steal(&mut self, at: Time, span: Span) {
        self.irq_end += span;
        self.stats.irq += span.0;
        self.calls.busy(span.0, 0);
        if let Some(segment) = &mut self.segment {
            if at < segment.split {
                segment.split += span;
            }
            match &mut segment.spin {
                Some(spin) if segment.end == Time::NEVER => {
                    segment.begin += span;
                    spin.first += span;
                }
                _ => segment.end += span,
            }
        }
    }

    /// The statistics at `now`, with what is under way counted as far as it got.
    pub fn stats_at(&self, now: Time) -> CoreStats {
        let mut s = self.stats;
        if let Some(since) = self.idle_since {
            s.idle += now.since(since).0;
        }
        let mut irq_left = 0;
        if !self.irqs.is_empty() {
            irq_left = self.irq_end.since(now).0;
            s.irq -= irq_left;
        }
        match &self.segment {
            Some(segment) if segment.halted && segment.end == Time::NEVER => {
                s.idle += now.since(segment.begin).0.saturating_sub(irq_left);
            }
            _ => {
                let (user, system) = self.segment_done(now, irq_left).unwrap_or_default();
                s.user += user;
                s.system += system;
            }
        }
        s
    }

    /// User and system time of the running segment so far.
    fn segment_done(&self, now: Time, irq_left: u64) -> Option<(u64, u64)> {
        let segment = self.segment.as_ref()?;
        if segment.end == Time::NEVER {
            let done = now.since(segment.begin).0.saturating_sub(irq_left);
            let system = segment.in_kernel(done);
            return Some((done - system, system));
        }
        let left = segment.end.since(now).0.saturating_sub(irq_left);
        let done = (segment.user + segment.system).saturating_sub(left);
        let user = match segment.mode {
            // As it was before the look that ended the loop.
            Mode::Calls { .. } => done - segment.in_kernel(done).min(segment.system),
            Mode::Kernel | Mode::User => done.min(segment.user),
        };
        Some((user, done - user))
    }

    /// The running segment's share for its thread.
    pub fn running(&self, now: Time) -> Option<(u32, u64, u64)> {
        let irq_left = if self.irqs.is_empty() { 0 } else { self.irq_end.since(now).0 };
        let segment = self.segment.as_ref()?;
        let (user, system) = match segment.halted && segment.end == Time::NEVER {
            true => (0, 0),
            false => self.segment_done(now, irq_left)?,
        };
        Some((segment.thread, user, system))
    }
}
