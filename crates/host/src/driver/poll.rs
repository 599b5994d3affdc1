//! Completions without waiting for an interrupt: loops that look again and again.
//!
//! A loop is a segment without an end. Nothing happens between two of its looks, so its end is
//! computed when the thing it looks for has come: the first look at or after that moment. What
//! interrupts the core meanwhile moves all later looks. Looks are counted as they would have been
//! made.
//!
//! - blk_mq_poll (Linux 4.14) leaves its loop when the request's entry is there, when somebody else completed it
//!   (the task is running again), or when the scheduler wants the core (need_resched). In the last case the task
//!   sleeps, and the interrupt wakes it. Without an interrupt (poll queues of Linux 5.0) it only yields.
//! - A queue that is polled with its interrupt on sees every entry twice. The poller holds the queue's lock with
//!   interrupts off. The message takes longer than the entry, and its handler finds nothing. Only a poller that
//!   is late, because another handler had the core, comes second.
//! - Hybrid polling sleeps first, once a request, for half of what requests of its direction and
//!   size took in the window before.
//!
//! Left out: pending signals, the granularity of the statistics' timer (jiffies).

use crate::disk::Disk;
use crate::function::{Function, Use, spend};
use crate::host::Host;
use crate::source::Source;
use crate::tasks::core::{Mode, Spin};
use crate::tasks::thread::{Asleep, Flow, Step};
use wordline_base::{Ctx, Kind, Span, Time, Why};
use wordline_nvme::Cqe;

/// What a loop looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loop {
    /// The completion queue, by blk_mq_poll and nvme_poll.
    Kernel,
    /// The completion queue, by spdk_nvme_qpair_process_completions.
    Spdk,
    /// A ring in memory that other cores write: io_uring's, by the application or by the
    /// submission thread.
    Ring,
    /// Both: the submission thread of a polled ring.
    RingAndQueue,
    /// SPDK's reactor: a socket, and the completion queue.
    Reactor,
    /// A line of memory that FlashShare's accelerator writes: the core is halted until then (MWAIT).
    Accelerator,
    /// Nothing but the time: an application that computes.
    Compute,
    /// A lock that another thread has.
    Lock,
}

impl Loop {
    fn has_queue(self) -> bool {
        !matches!(self, Loop::Ring | Loop::Compute | Loop::Lock)
    }
}

/// Where a thread's commands complete, and whether it looks for that by itself.
#[derive(Debug)]
pub(crate) struct InDriver {
    /// The disk's hardware queue of its core.
    home: u16,
    /// The hardware queue that its polled requests go to.
    polled: u16,
    /// Its requests are polled where the disk can be.
    may_poll: bool,
    /// Its requests to the disk at hand are polled.
    polls: bool,
    /// The call under way is polled.
    polls_call: bool,
    /// It looks for its completions by Select-ISR.
    selects: bool,
    /// Completions that it looks for by Select-ISR now.
    awaited: u32,
    /// How often it stopped looking because another thread was to have the core.
    yields: u64,
    looking: Looking,
}

impl InDriver {
    /// It does not poll, and its requests go by this hardware queue.
    pub fn new(home: u16) -> InDriver {
        InDriver {
            home,
            polled: home,
            may_poll: false,
            polls: false,
            polls_call: false,
            selects: false,
            awaited: 0,
            yields: 0,
            looking: Looking::default(),
        }
    }
    /// It polls where the disk can be polled, or looks by Select-ISR.
    pub fn allow(&mut self, polls: bool, selects: bool) {
        (self.may_poll, self.selects) = (polls, selects);
    }
    /// It submits for a job, and polls if that does.
    pub fn polls_for(&mut self, job: bool) {
        (self.may_poll, self.polls) = (job, job);
    }
    /// Its I/O goes to this disk from here on, whose queue of its core is `home`.
    pub fn turn_to(&mut self, disk: &Disk, core: u32, home: u16) {
        self.home = home;
        self.polls = (self.may_poll || self.selects) && disk.can_poll();
        self.polled = match (self.polls, self.selects) {
            (false, _) => home,
            (true, true) => disk.look_queue(core),
            (true, false) => disk.poll_queue(core),
        };
    }
    /// Its bios go to a member of an array from here on, and complete by interrupt.
    pub fn turn_to_member(&mut self, home: u16) {
        (self.home, self.polled, self.polls) = (home, home, false);
    }
    /// Its I/Os are calls on files from here on. dio_await_one polls the queue that its bios went to, in a
    /// `synchronous` call; what else a call waits for comes by interrupt.
    pub fn mount(&mut self, synchronous: bool) {
        if !self.selects {
            self.polls &= synchronous && self.polled == self.home;
            self.polled = self.home;
        }
    }
    /// A synchronous call begins; the hardware queue that it goes to.
    #[inline]
    pub fn begin_call(&mut self, polls: bool) -> u16 {
        self.polls_call = polls;
        self.looking.slept = false;
        if polls { self.polled } else { self.home }
    }
    /// A call on a file begins.
    #[inline]
    pub fn begin_file_call(&mut self, polls: bool) {
        self.polls_call = polls;
    }
    /// The hardware queue of what is submitted in a batch.
    #[inline]
    pub fn queue(&self) -> u16 {
        if self.polls { self.polled } else { self.home }
    }
    /// The disk's hardware queue of its core.
    #[inline]
    pub fn home(&self) -> u16 {
        self.home
    }
    /// A bio may be split, as its end is not found by polling alone.
    #[inline]
    pub fn may_split(&self) -> bool {
        self.polled == self.home || self.selects
    }
    /// Its requests to the disk at hand are polled.
    #[inline]
    pub fn polls(&self) -> bool {
        self.polls
    }
    /// The call under way is polled.
    #[inline]
    pub fn polls_call(&self) -> bool {
        self.polls_call
    }
    /// It looks for its completions by Select-ISR.
    #[inline]
    pub fn selects(&self) -> bool {
        self.selects
    }
    /// It looks for completions that are to come. By Select-ISR some may come by interrupt instead.
    pub fn finds_its_own(&self) -> bool {
        self.polls && (!self.selects || self.awaited > 0)
    }
    /// Whether it looks, by Select-ISR, for what completes in this queue.
    #[inline]
    pub fn looks_at(&self, cq: u16) -> bool {
        self.selects && self.polls && cq == self.polled
    }
    /// Completions that it looks for by Select-ISR now.
    #[inline]
    pub fn awaited(&self) -> u32 {
        self.awaited
    }
    /// It looks for one more.
    #[inline]
    pub fn awaits_one(&mut self) {
        self.awaited += 1;
    }
    /// One has come, or goes to somebody else.
    #[inline]
    pub fn relieve(&mut self) {
        self.awaited -= 1;
    }
    /// It looks for none from here on: how many come by interrupt, and in which queue.
    pub fn looks_no_more(&mut self) -> (u32, u16) {
        (std::mem::take(&mut self.awaited), self.polled)
    }
    /// Its loop ends, for another thread's turn or because its time is over.
    pub fn interrupt(&mut self, turn: bool) {
        self.looking.resched = turn;
    }
    /// How often it stopped looking because another thread was to have the core.
    pub fn yields(&self) -> u64 {
        self.yields
    }
    /// It looks in order to get a tag.
    pub fn looks_for_tag(&self) -> bool {
        self.looking.then == Step::TagWait
    }
}

/// A thread in its loop.
#[derive(Debug)]
struct Looking {
    what: Loop,
    /// The queue looked at.
    hctx: u16,
    /// What the thread does next.
    then: Step,
    /// Entries taken at the look that ended the loop.
    claimed: Vec<Cqe>,
    /// When that look was.
    at: Time,
    /// The message of the entry taken arrives then.
    message: Option<Time>,
    /// The scheduler ended the loop.
    resched: bool,
    /// The request has slept already (RQF_MQ_POLL_SLEPT).
    slept: bool,
    /// The end of that sleep is not told yet.
    wakes: bool,
}

impl Default for Looking {
    fn default() -> Looking {
        Looking {
            what: Loop::Kernel,
            hctx: 0,
            then: Step::Top,
            claimed: Vec::new(),
            at: Time::ZERO,
            message: None,
            resched: false,
            slept: false,
            wakes: false,
        }
    }
}

const BUCKETS: usize = 16;
/// blk_mq_poll_stats_start.
pub(crate) const WINDOW: Span = Span::from_ms(100);

/// Latencies of a request queue's requests by direction and size (blk_mq_poll_stats_bkt, blk-stat.c).
#[derive(Debug, Default)]
pub(crate) struct PollStats {
    /// The first request that may sleep switches them on.
    on: bool,
    end: Option<Time>,
    /// Sum and number of latencies in this window, by bucket.
    sums: [(u64, u64); BUCKETS],
    /// The last mean of each bucket.
    means: [Option<u64>; BUCKETS],
}

impl PollStats {
    /// Requests carry the time of their issue for the statistics (RQF_STATS).
    #[inline]
    pub fn samples(&self) -> bool {
        self.on
    }
    /// Smaller than 512 bytes has none; everything from 64 KiB on shares one.
    fn bucket(write: bool, bytes: u64) -> Option<usize> {
        let size = bytes.checked_ilog2()?.checked_sub(9)? as usize;
        Some((usize::from(write) + 2 * size).min(BUCKETS - 2 + usize::from(write)))
    }
    /// blk_mq_poll_stats_fn: at a window's end the buckets that have samples publish their mean.
    fn publish(&mut self, now: Time) {
        if self.end.is_none_or(|end| now < end) {
            return;
        }
        self.end = None;
        for (sum, mean) in self.sums.iter_mut().zip(&mut self.means) {
            if let Some(of_window) = sum.0.checked_div(sum.1) {
                *mean = Some(of_window);
            }
            *sum = (0, 0);
        }
    }
    /// A request completed, `took` after it was issued; a window begins with one.
    pub fn add(&mut self, now: Time, write: bool, bytes: u64, took: Span) {
        self.publish(now);
        self.end.get_or_insert(now + WINDOW);
        if let Some(bucket) = Self::bucket(write, bytes) {
            let sum = &mut self.sums[bucket];
            *sum = (sum.0 + took.0, sum.1 + 1);
        }
    }
    /// blk_mq_poll_nsecs.
    fn sleep(&mut self, now: Time, write: bool, bytes: u64) -> Span {
        self.publish(now);
        self.on = true;
        let mean = Self::bucket(write, bytes).and_then(|bucket| self.means[bucket]);
        Span(mean.map_or(0, |mean| mean.div_ceil(2)))
    }
}

impl<S: Source> Host<S> {
    /// One turn of a loop, and where in it the look is.
    fn turn(&self, what: Loop) -> (u64, u64) {
        let (poll, uring, spdk) =
            (&self.stack.cost.poll, &self.stack.cost.uring, &self.stack.cost.spdk);
        match what {
            Loop::Kernel => {
                let before = poll.blk_mq_poll.0;
                (before + poll.cpu_relax.0 + poll.nvme_poll.0, before)
            }
            Loop::Spdk => {
                let before = spdk.check_enabled.0;
                (before + spdk.process_completions.0, before)
            }
            Loop::Reactor => {
                let before = self.stack.cost.nbd.reactor.0
                    + self.stack.cost.crossing.0
                    + self.stack.cost.socket.empty.0
                    + spdk.check_enabled.0;
                (before + spdk.process_completions.0, before)
            }
            Loop::Ring => (uring.look.0, 0),
            Loop::RingAndQueue => (uring.look.0 + poll.nvme_poll.0, uring.look.0),
            Loop::Accelerator | Loop::Compute | Loop::Lock => (0, 0),
        }
    }

    /// What the functions of a core took until now, the turns of a loop under way among them.
    pub(crate) fn uses(&self, core: u32, now: Time) -> Vec<Use> {
        let c = &self.cores[core];
        let Some((t, looped)) = c.looped(now) else { return c.uses(&self.cost) };
        let what = self.threads[t].driver.looking.what;
        let functions: &[Function] = match what {
            Loop::Kernel => &[Function::BlkMqPoll, Function::CpuRelax, Function::NvmePoll],
            Loop::Spdk => &[Function::SpdkCheck, Function::SpdkProcess],
            Loop::Reactor => &[
                Function::Reactor,
                Function::Crossing,
                Function::SocketEmpty,
                Function::SpdkCheck,
                Function::SpdkProcess,
            ],
            Loop::Ring => &[Function::UringLook],
            Loop::RingAndQueue => &[Function::UringLook, Function::NvmePoll],
            Loop::Compute => &[Function::Application],
            Loop::Lock => &[Function::MapSpin],
            Loop::Accelerator => return c.uses(&self.cost),
        };
        let (turn, _) = self.turn(what);
        let mut calls = c.calls().clone();
        if let Some(turns) = looped.checked_div(turn) {
            for &f in functions {
                calls.spend(f as usize, turns, &self.cost);
            }
        }
        // The turn at hand is the first function's.
        calls.charge(functions[0], looped.checked_rem(turn).unwrap_or(looped));
        calls.uses(&self.cost)
    }

    /// How many of these belong to requests in the statistics (RQF_STATS).
    pub(crate) fn sampled<'c>(&self, entries: impl Iterator<Item = &'c Cqe>) -> u64 {
        if !self.block.samples() {
            return 0;
        }
        let of = |cqe: &&Cqe| {
            let rq = self.block.hctxs[cqe.sq].request_of(cqe.cid);
            self.block.requests[rq].sampled
        };
        entries.filter(of).count() as u64
    }

    /// The thread begins to look, at `until` at the latest stops, and goes on with `then`.
    pub(crate) fn look(&mut self, ctx: &mut Ctx, t: u32, what: Loop, until: Time) -> Flow {
        let thread = &self.threads[t];
        let halts =
            self.stack.flashshare.accelerator && thread.driver.selects && what == Loop::Kernel;
        let what = if halts { Loop::Accelerator } else { what };
        let (turn, before) = self.turn(what);
        let thread = &mut self.threads[t];
        let (h, core) = (thread.driver.polled, thread.core());
        let then = thread.step();
        if thread.pend.total() > 0 {
            return self.segment(ctx, t, then);
        }
        thread.driver.looking.then = then;
        thread.driver.looking.what = what;
        thread.driver.looking.hctx = h;
        thread.driver.looking.resched = false;
        thread.set_step(Step::Looked);
        let mode = match what {
            // Of each turn the call on the socket is the kernel's.
            Loop::Reactor => {
                let cost = &self.stack.cost;
                Mode::Calls {
                    from: cost.nbd.reactor.0 as u32,
                    ns: (cost.crossing + cost.socket.empty).0 as u32,
                }
            }
            Loop::Spdk | Loop::Compute => Mode::User,
            Loop::Ring if thread.is_job() => Mode::User,
            Loop::Ring | Loop::Kernel | Loop::RingAndQueue | Loop::Accelerator | Loop::Lock => {
                Mode::Kernel
            }
        };
        let selects = thread.driver.selects && what == Loop::Kernel;
        let c = &mut self.cores[core];
        let begin = c.free_from(ctx.now);
        let keep = if selects { begin + self.stack.flashshare.give_up } else { begin };
        let spin = Spin { first: begin + Span(before), turn, until, keep };
        c.begin_loop(t, begin, spin, mode, halts);
        if what.has_queue() && self.block.hctxs[h].cqes.begin_looking(t) {
            self.claim(ctx, t, None);
        }
        Flow::Off
    }

    /// The thread's loop, if it is in one that has not ended.
    fn spinning(&self, t: u32) -> Option<Spin> {
        self.cores[self.threads[t].core()].loop_of(t)
    }

    /// Its first look at or after now.
    fn next_look(&self, ctx: &Ctx, t: u32) -> Option<(Time, u64)> {
        let spin = self.spinning(t)?;
        let core = &self.cores[self.threads[t].core()];
        let from = ctx.now.max(core.free_from(ctx.now));
        Some(spin.look_at(from))
    }

    /// An entry became visible on a queue with pollers; `message` says whether an interrupt comes
    /// with it. False: nobody takes it, the interrupt has to.
    pub(crate) fn polled(&mut self, ctx: &mut Ctx, h: u16, message: bool) -> bool {
        let hctx = &self.block.hctxs[h];
        let vector = hctx.core();
        let look = |&t: &u32| self.next_look(ctx, t).map(|(at, _)| (at, t));
        let first = hctx.cqes.pollers().iter().filter_map(look).min();
        let Some((at, t)) = first else { return false };
        let poll = &self.stack.cost.poll;
        if message {
            let locked = at + poll.nvme_poll + poll.entry_miss;
            let same = self.threads[t].core() == vector;
            let way = if same { poll.interrupt_delivery } else { self.stack.cost.interrupt_entry };
            if locked > ctx.now + way {
                return false;
            }
        }
        self.claim(ctx, t, message.then_some(ctx.now));
        true
    }

    /// The next look of thread `t` takes what is there.
    fn claim(&mut self, ctx: &mut Ctx, t: u32, posted: Option<Time>) {
        let Some((at, _)) = self.next_look(ctx, t) else { return };
        let what = self.threads[t].driver.looking.what;
        let h = self.threads[t].driver.looking.hctx;
        let looking = &mut self.threads[t].driver.looking;
        self.block.hctxs[h].cqes.take_all(&mut looking.claimed);
        looking.at = at;
        looking.message = posted.map(|posted| posted + self.stack.cost.poll.interrupt_delivery);
        let n = looking.claimed.len() as u64;
        let stats = self.sampled(self.threads[t].driver.looking.claimed.iter());
        let core = self.threads[t].core();
        let found = self.found(core, what, n) + spend!(self, core, StatAdd * stats);
        self.stop_looking(ctx, t, found);
    }

    /// What the thread looks for besides entries is there: its next look ends the loop.
    pub(crate) fn notice(&mut self, ctx: &mut Ctx, t: u32) {
        if self.spinning(t).is_some() {
            self.stop_looking(ctx, t, 0);
        }
    }

    /// The look that found `n` entries, whole.
    fn found(&mut self, core: u32, what: Loop, n: u64) -> u64 {
        match what {
            _ if n == 0 => 0,
            Loop::Kernel => spend!(self, core, NvmePoll, EntryMiss, QueueLock, Completion * n),
            // The submission thread ends the bio, too; others do so when they return.
            Loop::RingAndQueue => {
                spend!(self, core, NvmePoll, EntryMiss, QueueLock, Completion * n, Finish * n)
            }
            Loop::Spdk | Loop::Reactor => spend!(self, core, EntryMiss, SpdkComplete * n),
            Loop::Accelerator => spend!(self, core, Detect, Completion * n),
            Loop::Ring | Loop::Compute | Loop::Lock => 0,
        }
    }

    /// Ends the loop at its first look from now on, and `found` after that the segment.
    pub(crate) fn stop_looking(&mut self, ctx: &mut Ctx, t: u32, found: u64) {
        let Some((at, turns)) = self.next_look(ctx, t) else { return };
        let thread = &self.threads[t];
        let (what, core) = (thread.driver.looking.what, thread.core());
        // The last look is whole only if it found something; a loop ended from outside leaves it.
        let looks = turns + 1;
        match what {
            Loop::Kernel => {
                self.counters.polls += looks;
                spend!(self, core, BlkMqPoll * looks, CpuRelax * turns, NvmePoll * turns);
            }
            Loop::Spdk => {
                self.counters.process_completions += looks;
                spend!(self, core, SpdkCheck * looks, SpdkProcess * turns);
            }
            Loop::Reactor => {
                self.counters.process_completions += looks;
                spend!(self, core, Reactor * looks, Crossing * looks, SocketEmpty * looks);
                spend!(self, core, SpdkCheck * looks, SpdkProcess * turns);
            }
            Loop::Ring => {
                self.counters.ring_looks += looks;
                spend!(self, core, UringLook * turns);
            }
            Loop::RingAndQueue => {
                self.counters.ring_looks += looks;
                spend!(self, core, UringLook * looks, NvmePoll * turns);
            }
            Loop::Accelerator | Loop::Compute | Loop::Lock => {}
        }
        let c = &mut self.cores[core];
        let Some(spent) = c.end_loop(at, found, what != Loop::Compute) else { return };
        match what {
            Loop::Compute => c.charge(Function::Application, spent),
            Loop::Lock => c.charge(Function::MapSpin, spent),
            _ => {}
        }
        self.arm(ctx, core);
    }

    /// What is left of a look that has found nothing.
    pub(crate) fn in_vain(&mut self, core: u32, t: u32) -> u64 {
        match self.threads[t].driver.looking.what {
            Loop::Kernel | Loop::RingAndQueue => spend!(self, core, NvmePoll),
            Loop::Spdk | Loop::Reactor => spend!(self, core, SpdkProcess),
            Loop::Ring => spend!(self, core, UringLook),
            Loop::Accelerator | Loop::Compute | Loop::Lock => 0,
        }
    }

    /// The loop has ended.
    pub(crate) fn looked(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        let core = thread.core();
        let (what, h, then) =
            (thread.driver.looking.what, thread.driver.looking.hctx, thread.driver.looking.then);
        let mut claimed = std::mem::take(&mut thread.driver.looking.claimed);
        let (at, message) = (thread.driver.looking.at, thread.driver.looking.message.take());
        let resched = std::mem::take(&mut thread.driver.looking.resched);
        thread.set_step(then);
        if what.has_queue() {
            self.block.hctxs[h].cqes.end_looking(t);
        }
        for cqe in claimed.drain(..) {
            self.counters.polled_completions += 1;
            if matches!(what, Loop::Spdk | Loop::Reactor) {
                self.spdk_done(ctx, cqe, at);
            } else {
                self.reap(ctx, h, cqe, core, (at, ctx.now), (Why::Polling, Why::Work));
            }
        }
        self.threads[t].driver.looking.claimed = claimed;
        self.block.hctxs[h].cqes.set_late(message.is_some());
        match message {
            // The lock is released, interrupts are on again.
            Some(due) if due <= ctx.now => self.interrupt(ctx, h),
            Some(due) => ctx.at(due, Kind::Interrupt, u32::from(h)),
            None => {}
        }
        if resched { self.give_way(ctx, t, what) } else { Flow::Again }
    }

    /// need_resched ended the loop.
    fn give_way(&mut self, ctx: &mut Ctx, t: u32, what: Loop) -> Flow {
        if what == Loop::Lock {
            // It asks once more, and sleeps.
            return Flow::Again;
        }
        if what != Loop::Compute {
            self.counters.poll_yields += 1;
            self.threads[t].driver.yields += 1;
        }
        if self.threads[t].driver.selects && matches!(what, Loop::Kernel | Loop::Accelerator) {
            // The call sleeps for what comes by interrupt from now on.
            self.give_up(t);
            return Flow::Again;
        }
        let thread = &mut self.threads[t];
        let (h, core) = (thread.driver.looking.hctx, thread.core());
        let waits = thread.step() == Step::SyncWait
            && !self.block.nodes[thread.call.single()].is_over()
            && what == Loop::Kernel
            && self.block.hctxs[h].cqes.interrupts();
        if waits {
            // __blkdev_direct_IO_simple: io_schedule, until the interrupt.
            return self.sleep(ctx, t, Asleep::Call);
        }
        thread.lose_core();
        self.cores[core].leave();
        self.enqueue(ctx, core, t);
        Flow::Off
    }

    /// A polled synchronous call waits: it sleeps for a while if it may, and looks.
    pub(crate) fn poll_wait(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        if thread.pend.total() > 0 {
            return self.segment(ctx, t, Step::SyncWait);
        }
        if self.stack.io_poll_delay < 0
            || thread.driver.selects
            || std::mem::replace(&mut thread.driver.looking.slept, true)
        {
            self.end_of_sleep(t, false);
            return self.look(ctx, t, Loop::Kernel, Time::NEVER);
        }
        let node = self.block.nodes[thread.call.single()];
        let write = node.ddir == wordline_base::Ddir::Write;
        let span = match self.stack.io_poll_delay {
            0 => {
                let queue = &mut self.block.disks[node.disk].queue;
                queue.poll_stats_mut().sleep(ctx.now, write, u64::from(node.len))
            }
            us => Span::from_us(us as u64),
        };
        if span == Span::ZERO {
            self.threads[t].driver.looking.slept = false;
            return self.look(ctx, t, Loop::Kernel, Time::NEVER);
        }
        self.counters.hybrid_sleeps += 1;
        self.counters.hybrid_sleep_ns += span.0;
        let thread = &mut self.threads[t];
        thread.driver.looking.wakes = true;
        // hrtimer_start is at the beginning of what follows.
        thread.asks_for(ctx.now + span);
        thread.pend.entry += spend!(self, thread.core(), HybridSleep);
        self.segment(ctx, t, Step::HybridSleep)
    }

    /// The timer is armed: off the core, unless the request is done or the time is over.
    pub(crate) fn hybrid_sleep(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        thread.set_step(Step::SyncWait);
        let done = self.block.nodes[thread.call.single()].is_over();
        let at = thread.asked_for();
        if done || at <= ctx.now {
            return Flow::Again;
        }
        thread.set_timer(at);
        ctx.at(at, Kind::AppWake, t);
        self.sleep(ctx, t, Asleep::Hybrid)
    }

    /// A thread that may have slept before polling goes on: its request is over, or has an entry, and it slept for
    /// too long, or it has to look.
    #[inline]
    pub(crate) fn end_of_sleep(&mut self, t: u32, over: bool) {
        let driver = &mut self.threads[t].driver;
        if std::mem::take(&mut driver.looking.wakes) {
            let late = over || !self.block.hctxs[driver.polled].cqes.is_empty();
            self.counters.hybrid_late += u64::from(late);
            self.counters.hybrid_early += u64::from(!late);
        }
    }

    /// Whether a thread looks at this queue now.
    pub(crate) fn has_poller(&self, h: u16) -> bool {
        !self.block.hctxs[h].cqes.pollers().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// bucket = direction + 2 x (log2(bytes) - 9), within 16.
    #[test]
    fn buckets_are_by_direction_and_power_of_two() {
        let table = [
            (false, 511, None),
            (false, 512, Some(0)),
            (true, 512, Some(1)),
            (false, 1023, Some(0)),
            (false, 1024, Some(2)),
            (false, 4096, Some(6)),
            (true, 4096, Some(7)),
            (true, 8191, Some(7)),
            (false, 32 << 10, Some(12)),
            (false, 64 << 10, Some(14)),
            (true, 64 << 10, Some(15)),
            (false, 1 << 20, Some(14)),
            (true, 1 << 20, Some(15)),
        ];
        for (write, bytes, bucket) in table {
            assert_eq!(PollStats::bucket(write, bytes), bucket, "{write} {bytes}");
        }
    }

    #[test]
    fn a_sleep_is_half_the_mean_of_the_window_before() {
        let mut s = PollStats::default();
        let us = |n: u64| Time(n * 1000);
        assert_eq!(s.sleep(us(0), false, 4096), Span(0), "no sample, no sleep");
        assert!(s.on);
        s.add(us(10), false, 4096, Span(7_000));
        s.add(us(20), false, 4096, Span(8_001));
        assert_eq!(s.sleep(us(100_009), false, 4096), Span(0), "the window is not over");
        // Mean 7500, (7500 + 1) / 2.
        assert_eq!(s.sleep(us(100_010), false, 4096), Span(3_750));
        assert_eq!(s.sleep(us(100_010), true, 4096), Span(0), "a bucket of its own");
        // The next window begins with the next completion, and an empty bucket keeps its mean.
        s.add(us(300_000), true, 4096, Span(101));
        assert_eq!(s.sleep(us(399_999), true, 4096), Span(0));
        assert_eq!(s.sleep(us(400_000), true, 4096), Span(51));
        assert_eq!(s.sleep(us(400_000), false, 4096), Span(3_750));
    }
}
