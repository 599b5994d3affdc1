//! io_uring as fio's engine drives it (Linux 5.1). Entries are prepared in a ring, and io_uring_enter submits
//! them. Completions are taken from a ring without a system call. A second io_uring_enter waits when too few
//! are there. Unlike io_getevents it wakes only when there are enough (io_should_wake). With
//! `iodepth_batch_complete_min=0` that call does not wait, and fio makes it until something is there.
//!
//! - With `hipri` (IORING_SETUP_IOPOLL) that call polls instead of sleeping (io_iopoll_check).
//! - With `sqthread_poll` (IORING_SETUP_SQPOLL) a kernel thread on another core looks at the ring and submits.
//!   It goes to sleep after `sq_thread_idle` without work. The application makes a call only to wake it, and
//!   looks at the completion ring in user mode.
//! - With both the kernel thread polls the queue, too: all the time when the ring is empty, and else once before each eight
//!   entries.
//!
//! As with libaio, trim is a synchronous call here, and fsync one or a work item (`work`). Left out: registered
//! buffers and files, linked entries, and all of io-wq but that item.

use crate::block::NONE;
use crate::block::call::Plug;
use crate::driver::poll::Loop;
use crate::function::spend;
use crate::host::Host;
use crate::source::Source;
use crate::stats::call_bucket;
use crate::tasks::thread::{Asleep, Flow, Step};
use wordline_base::{Ctx, Time};

/// IO_PLUG_THRESHOLD: a submission of more entries has a plug.
const PLUG_THRESHOLD: u32 = 2;
/// IO_IOPOLL_BATCH: entries that the submission thread takes up at a time.
const SQ_BATCH: usize = 8;

/// The plug of a submission of so many entries. Without one for all __blkdev_direct_IO has one for each I/O, unless the I/O
/// is polled for.
pub(crate) fn plug_of(entries: u32, polled: bool) -> Plug {
    match (entries > PLUG_THRESHOLD, polled) {
        (true, _) => Plug::Call,
        (false, true) => Plug::None,
        (false, false) => Plug::EachIo,
    }
}

impl<S: Source> Host<S> {
    /// fio_ioring_commit of a ring that the kernel's thread looks at.
    pub(crate) fn hand_over(&mut self, ctx: &mut Ctx, t: u32, after: Step) -> Flow {
        let thread = &mut self.threads[t];
        let n = thread.engine.iocbs.len() as u32;
        thread.stats.iodepth_submit[call_bucket(n)] += 1;
        thread.stats.submit_calls += 1;
        let core = thread.core();
        thread.pend.library += spend!(self, core, UringPrepare * u64::from(n));
        thread.call.begin_hand_over(after);
        let sq = thread.engine.submitter;
        if self.threads[sq].asleep() == Asleep::Ring {
            // IORING_SQ_NEED_WAKEUP.
            self.counters.sq_wake_ups += 1;
            let call = spend!(self, core, Crossing, UringEnter);
            self.threads[t].pend.entry += call;
        }
        self.segment(ctx, t, Step::HandOver)
    }

    /// The entries are in the ring of the submission thread.
    #[inline(never)]
    pub(crate) fn handed_over(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        let (sq, core) = (thread.engine.submitter, thread.core());
        let mut entries = std::mem::take(&mut thread.engine.iocbs);
        for &node in &entries {
            self.block.nodes[node].submitted = ctx.now;
        }
        self.threads[sq].engine.ring.extend(entries.drain(..));
        self.threads[t].engine.iocbs = entries;
        if self.threads[sq].asleep() == Asleep::Ring {
            self.wake(ctx, sq, Some(core));
        } else {
            self.notice(ctx, sq);
        }
        let after = self.threads[t].call.after();
        self.go(t, after)
    }

    /// io_sq_thread.
    #[inline(never)]
    pub(crate) fn sq_loop(&mut self, ctx: &mut Ctx, r: u32) -> Flow {
        let thread = &mut self.threads[r];
        let owner = thread.engine.owner;
        let in_flight = thread.driver.polls() && thread.engine.cur_depth > 0;
        if !thread.engine.ring.is_empty() {
            // It looks once before each batch.
            if in_flight && !thread.engine.looked {
                if thread.pend.total() > 0 {
                    return self.segment(ctx, r, Step::SqLoop);
                }
                thread.engine.looked = true;
                return self.look(ctx, r, Loop::Kernel, ctx.now);
            }
            thread.engine.looked = false;
            thread.engine.sq_until = Time::NEVER;
            let n = thread.engine.take_ring(SQ_BATCH);
            thread.call.begin_ring(plug_of(n, thread.driver.polls()));
            return self.go(r, Step::NextIo);
        }
        if thread.pend.total() > 0 {
            return self.segment(ctx, r, Step::SqLoop);
        }
        let job = &self.threads[owner];
        let ended = job.asleep() == Asleep::Done;
        let thread = &mut self.threads[r];
        let what = if thread.driver.polls() { Loop::RingAndQueue } else { Loop::Ring };
        if thread.engine.sq_until == Time::NEVER {
            thread.engine.sq_until = ctx.now + self.stack.sq_thread_idle;
        }
        if ended || !in_flight && thread.engine.sq_until <= ctx.now {
            return self.sleep(ctx, r, Asleep::Ring);
        }
        let until = if in_flight { Time::NEVER } else { thread.engine.sq_until };
        self.look(ctx, r, what, until)
    }

    /// fio_ioring_getevents.
    pub(crate) fn uring_getevents(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        let min = thread.engine.reaping.min(thread.engine.cur_depth);
        let max = thread.spec().iodepth_batch_complete_max.min(thread.engine.cur_depth).max(min);
        let ready = thread.engine.ring.len() as u32;
        let core = thread.core();
        if ready >= min {
            let n = ready.min(max);
            thread.engine.entered = false;
            thread.pend.library += spend!(self, core, UringReap * u64::from(n));
            if thread.engine.submitter == NONE || !thread.driver.polls() {
                // With both threads polling, the other one has done this.
                thread.pend.entry += spend!(self, core, Finish * u64::from(n));
            }
            return self.segment(ctx, t, Step::Reap(n));
        }
        if thread.engine.submitter != NONE {
            return self.look(ctx, t, Loop::Ring, Time::NEVER);
        }
        // fio asks for none then, so that the call comes back at once, and makes it again. At no cost that is the
        // same as waiting.
        let comes_back = thread.engine.reaping.comes_back()
            && self.stack.cost.crossing.0 + self.stack.cost.uring.enter.0 > 0;
        if !std::mem::replace(&mut thread.engine.entered, true) {
            thread.pend.entry += spend!(self, core, Crossing, UringEnter);
            thread.engine.entered = !comes_back || thread.driver.finds_its_own();
            return self.segment(ctx, t, Step::Getevents);
        }
        if thread.driver.finds_its_own() {
            // io_iopoll_check for none looks once.
            thread.engine.entered = !comes_back;
            let until = if comes_back { ctx.now } else { Time::NEVER };
            return self.look(ctx, t, Loop::Kernel, until);
        }
        thread.engine.wait_nr = min;
        self.sleep(ctx, t, Asleep::Events)
    }
}
