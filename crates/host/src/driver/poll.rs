//! Completions without waiting for an interrupt: loops that look again and again.
//!
//! A loop is a segment without an end. Nothing happens between two of its looks, so its end is
//! computed when the thing it looks for has come: the first look at or after that moment. What
//! interrupts the core meanwhile moves all later looks. Looks are counted as they would have been
//! made.
//!
//! - blk_mq_poll (Linux 4.14) leaves its loop when the request's entry is there, when somebody else
//!   completed it (the task is running again), or when the scheduler wants the core (need_resched);
//!   then the task sleeps, and the interrupt wakes it. Without an interrupt (poll queues of Linux
//!   5.0) it only yields.
//! - A queue that is polled with its interrupt on sees every entry twice: the poller holds the
//!   queue's lock with interrupts off, and the message, which takes longer than the entry, finds
//!   nothing. Only a poller that is late, because another handler had the core, comes second.
//! - Hybrid polling sleeps first, once a request, for half of what requests of its direction and
//!   size took in the window before.
//!
//! Left out: pending signals, the granularity of the statistics' timer (jiffies).

use crate::block::Handler;
use crate::function::{Function, spend};
use crate::host::Host;
use crate::source::Source;
use crate::tasks::core::{Segment, Spin};
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
}

impl Loop {
    fn has_queue(self) -> bool {
        !matches!(self, Loop::Ring | Loop::Compute)
    }
}

/// A thread in its loop.
#[derive(Debug)]
pub(crate) struct Looking {
    pub what: Loop,
    /// The queue looked at.
    pub hctx: u16,
    /// What the thread does next.
    pub then: Step,
    /// Entries taken at the look that ended the loop, and when that was.
    pub claimed: Vec<Cqe>,
    pub at: Time,
    /// The message of the entry taken arrives then.
    pub message: Option<Time>,
    /// The scheduler ended the loop.
    pub resched: bool,
    /// The request has slept already (RQF_MQ_POLL_SLEPT).
    pub slept: bool,
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
        }
    }
}

const BUCKETS: usize = 16;
/// blk_mq_poll_stats_start.
const WINDOW: Span = Span::from_ms(100);

/// Latencies of requests by direction and size (blk_mq_poll_stats_bkt, blk-stat.c).
#[derive(Debug, Default)]
pub(crate) struct PollStats {
    /// The first request that may sleep switches them on.
    pub on: bool,
    end: Option<Time>,
    /// Sum and number in this window, and the last mean of each bucket.
    sums: [(u64, u64); BUCKETS],
    means: [Option<u64>; BUCKETS],
}

impl PollStats {
    /// Smaller than 512 bytes has none; everything from 64 KiB on shares one.
    pub fn bucket(write: bool, bytes: u64) -> Option<usize> {
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
    pub fn sleep(&mut self, now: Time, write: bool, bytes: u64) -> Span {
        self.publish(now);
        self.on = true;
        let mean = Self::bucket(write, bytes).and_then(|bucket| self.means[bucket]);
        Span(mean.map_or(0, |mean| mean.div_ceil(2)))
    }
}

impl<S: Source> Host<S> {
    /// One turn of a loop, and where in it the look is.
    fn turn(&self, what: Loop) -> (u64, u64) {
        let (poll, uring, spdk) = (&self.cost.poll, &self.cost.uring, &self.cost.spdk);
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
                let before = self.cost.nbd.reactor.0
                    + self.cost.crossing.0
                    + self.cost.socket.empty.0
                    + spdk.check_enabled.0;
                (before + spdk.process_completions.0, before)
            }
            Loop::Ring => (uring.look.0, 0),
            Loop::RingAndQueue => (uring.look.0 + poll.nvme_poll.0, uring.look.0),
            Loop::Accelerator | Loop::Compute => (0, 0),
        }
    }

    /// How many of these belong to requests in the statistics (RQF_STATS).
    pub(crate) fn sampled<'c>(&self, entries: impl Iterator<Item = &'c Cqe>) -> u64 {
        if !self.poll_stats.on {
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
        let halts = self.block.flashshare.accelerator && thread.selects && what == Loop::Kernel;
        let what = if halts { Loop::Accelerator } else { what };
        let (turn, before) = self.turn(what);
        let thread = &mut self.threads[t];
        let (h, core) = (thread.poll_hctx, thread.core);
        let then = thread.step;
        if thread.pend.total() > 0 {
            return self.segment(ctx, t, then);
        }
        thread.looking.then = then;
        thread.looking.what = what;
        thread.looking.hctx = h;
        thread.looking.resched = false;
        thread.step = Step::Looked;
        let in_user = match what {
            Loop::Spdk | Loop::Reactor | Loop::Compute => true,
            Loop::Ring => thread.source.is_some(),
            Loop::Kernel | Loop::RingAndQueue | Loop::Accelerator => false,
        };
        let selects = thread.selects && what == Loop::Kernel;
        let c = &mut self.cores[core];
        let begin = c.free_from(ctx.now);
        let keep = if selects { begin + self.block.flashshare.give_up } else { begin };
        c.segment = Some(Segment {
            spun: 0,
            thread: t,
            begin,
            split: begin,
            end: Time::NEVER,
            user: 0,
            system: 0,
            in_user,
            halted: halts,
            spin: Some(Spin { first: begin + Span(before), turn, until, keep }),
        });
        if what.has_queue() {
            let hctx = &mut self.block.hctxs[h];
            hctx.pollers.push(t);
            if !hctx.entries.is_empty() && hctx.handler != Handler::Running {
                self.claim(ctx, t, None);
            }
        }
        Flow::Off
    }

    /// The thread's loop, if it is in one that has not ended.
    fn spinning(&self, t: u32) -> Option<Spin> {
        let core = self.threads[t].core;
        let segment = self.cores[core].segment.as_ref()?;
        (segment.thread == t && segment.end == Time::NEVER).then_some(segment.spin?)
    }

    /// Its first look at or after now.
    fn next_look(&self, ctx: &Ctx, t: u32) -> Option<(Time, u64)> {
        let spin = self.spinning(t)?;
        let core = &self.cores[self.threads[t].core];
        let from = ctx.now.max(core.free_from(ctx.now));
        Some(spin.look_at(from))
    }

    /// An entry became visible on a queue with pollers; `message` says whether an interrupt comes
    /// with it. False: nobody takes it, the interrupt has to.
    pub(crate) fn polled(&mut self, ctx: &mut Ctx, h: u16, message: bool) -> bool {
        let hctx = &self.block.hctxs[h];
        let vector = hctx.core;
        let first = hctx
            .pollers
            .iter()
            .filter_map(|&t| self.next_look(ctx, t).map(|(at, _)| (at, t)))
            .min();
        let Some((at, t)) = first else { return false };
        let poll = &self.cost.poll;
        if message {
            let locked = at + poll.nvme_poll + poll.entry_miss;
            let same = self.threads[t].core == vector;
            let way = if same { poll.interrupt_delivery } else { self.cost.interrupt_entry };
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
        let what = self.threads[t].looking.what;
        let h = self.threads[t].looking.hctx;
        let looking = &mut self.threads[t].looking;
        looking.claimed.extend(self.block.hctxs[h].entries.drain(..));
        looking.at = at;
        looking.message = posted.map(|posted| posted + self.cost.poll.interrupt_delivery);
        let n = looking.claimed.len() as u64;
        let stats = self.sampled(self.threads[t].looking.claimed.iter());
        let core = self.threads[t].core;
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
            Loop::Ring | Loop::Compute => 0,
        }
    }

    /// Ends the loop at its first look from now on, and `found` after that the segment.
    pub(crate) fn stop_looking(&mut self, ctx: &mut Ctx, t: u32, found: u64) {
        let Some((at, turns)) = self.next_look(ctx, t) else { return };
        let thread = &self.threads[t];
        let (what, core) = (thread.looking.what, thread.core);
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
            Loop::Accelerator | Loop::Compute => {}
        }
        let Some(segment) = &mut self.cores[core].segment else { return };
        segment.end = at + Span(found);
        if segment.halted {
            let halted = at.since(std::mem::replace(&mut segment.begin, at));
            self.cores[core].stats.idle += halted.0;
        }
        let Some(segment) = &mut self.cores[core].segment else { return };
        let spent = segment.end.since(segment.begin).0;
        if what == Loop::Compute {
            self.cores[core].calls.extra[Function::Application as usize] += spent;
        }
        let Some(segment) = &mut self.cores[core].segment else { return };
        if what != Loop::Compute {
            segment.spun = spent - found;
        }
        if what == Loop::Reactor {
            // Of each turn the call on the socket.
            let calls = looks * (self.cost.crossing.0 + self.cost.socket.empty.0);
            segment.system = calls.min(spent);
            segment.user = spent - segment.system;
        } else if segment.in_user {
            segment.user = spent;
        } else {
            segment.system = spent;
        }
        self.arm(ctx, core);
    }

    /// The loop has ended.
    pub(crate) fn looked(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        let core = thread.core;
        let (what, h, then) = (thread.looking.what, thread.looking.hctx, thread.looking.then);
        let mut claimed = std::mem::take(&mut thread.looking.claimed);
        let (at, message) = (thread.looking.at, thread.looking.message.take());
        let resched = std::mem::take(&mut thread.looking.resched);
        thread.step = then;
        if what.has_queue() {
            self.block.hctxs[h].pollers.retain(|&p| p != t);
        }
        for cqe in claimed.drain(..) {
            self.counters.polled_completions += 1;
            if matches!(what, Loop::Spdk | Loop::Reactor) {
                self.spdk_done(ctx, cqe, at);
            } else {
                self.reap(ctx, h, cqe, core, (at, ctx.now), (Why::Polling, Why::Work));
            }
        }
        self.threads[t].looking.claimed = claimed;
        self.block.hctxs[h].late |= message.is_some();
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
        self.counters.poll_yields += u64::from(what != Loop::Compute);
        if self.threads[t].selects && matches!(what, Loop::Kernel | Loop::Accelerator) {
            // The call sleeps for what comes by interrupt from now on.
            self.give_up(t);
            return Flow::Again;
        }
        let thread = &mut self.threads[t];
        let (h, core) = (thread.looking.hctx, thread.core);
        let waits = thread.step == Step::SyncWait
            && self.block.nodes[thread.call.single()].pending > 0
            && what == Loop::Kernel
            && self.block.hctxs[h].interrupts;
        if waits {
            // __blkdev_direct_IO_simple: io_schedule, until the interrupt.
            return self.sleep(ctx, t, Asleep::Call);
        }
        thread.lose_core();
        let c = &mut self.cores[core];
        c.current = None;
        self.enqueue(core, t);
        Flow::Off
    }

    /// A polled synchronous call waits: it sleeps for a while if it may, and looks.
    pub(crate) fn poll_wait(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        if thread.pend.total() > 0 {
            return self.segment(ctx, t, Step::SyncWait);
        }
        if self.io_poll_delay < 0
            || thread.selects
            || std::mem::replace(&mut thread.looking.slept, true)
        {
            return self.look(ctx, t, Loop::Kernel, Time::NEVER);
        }
        let node = self.block.nodes[thread.call.single()];
        let write = node.ddir == wordline_base::Ddir::Write;
        let span = match self.io_poll_delay {
            0 => self.poll_stats.sleep(ctx.now, write, u64::from(node.len)),
            us => Span::from_us(us as u64),
        };
        if span == Span::ZERO {
            self.threads[t].looking.slept = false;
            return self.look(ctx, t, Loop::Kernel, Time::NEVER);
        }
        self.counters.hybrid_sleeps += 1;
        self.counters.hybrid_sleep_ns += span.0;
        let thread = &mut self.threads[t];
        // hrtimer_start is at the beginning of what follows.
        thread.timer_at = ctx.now + span;
        thread.pend.entry += spend!(self, thread.core, HybridSleep);
        self.segment(ctx, t, Step::HybridSleep)
    }

    /// The timer is armed: off the core, unless the request is done or the time is over.
    pub(crate) fn hybrid_sleep(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        thread.step = Step::SyncWait;
        let done = self.block.nodes[thread.call.single()].pending == 0;
        if done || thread.timer_at <= ctx.now {
            return Flow::Again;
        }
        let at = thread.timer_at;
        thread.timer = at;
        ctx.at(at, Kind::AppWake, t);
        self.sleep(ctx, t, Asleep::Hybrid)
    }

    /// Whether a thread looks at this queue now.
    pub(crate) fn has_poller(&self, h: u16) -> bool {
        !self.block.hctxs[h].pollers.is_empty()
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
