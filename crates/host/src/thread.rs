//! Threads: fio's main loop (`do_io` of backend.c) and its way through the kernel, as a state
//! machine that runs between segments of processor time.
//!
//! - pvsync2 has one I/O: a system call that submits it and sleeps until it is done.
//! - libaio follows fio: I/Os are queued until there are `iodepth_batch`, io_submit sends them, and
//!   once `iodepth` are queued io_getevents waits for `iodepth_batch_complete_min` and takes up to
//!   `_max`, again and again until `iodepth_low` are left. Flushes and trims are synchronous calls,
//!   made once nothing waits for its io_submit (fio_libaio_queue).
//! - A thread that waits in io_getevents is woken by every completion, as in Linux 4.14, and looks
//!   whether they are enough.
//!
//! Costs: the whole of io_getevents is charged when it returns. In a saturated loop this is the same
//! as at its entry; at depth 1 it is what makes a libaio read slower than a pvsync2 read.
//!
//! An I/O begins (fio's start time) when the application is through with preparing it, so the
//! application's own work is processor time and lowers the rate, but is no latency.

use crate::blkmq::{BIO_BYTES, NO_TAG, NONE, PLUG_BYTES, PLUG_REQUESTS, Purpose, Side};
use crate::config::Engine;
use crate::core::Segment;
use crate::disk::Disk;
use crate::function::{Function, spend};
use crate::host::Host;
use crate::nbd::At;
use crate::poll::{Looking, Loop};
use crate::sched::{Ask, Dir, Merge};
use crate::source::{Next, Source, ThreadSpec};
use crate::stats::{ThreadStats, call_bucket, level_bucket};
use crate::vfs::InVfs;
use std::collections::VecDeque;
use wordline_base::{
    Ctx, Ddir, IoClass, IoId, Kind, Layer, Lpn, Rng, SECTOR, SECTOR_SHIFT, Span, Time, Why,
};
use wordline_ftl::{Action, FlashOp, FlashRead, Piece, Place, Translation, Work, send_data};
use wordline_nand::{OpKind, Outcome};
use wordline_nvme::Opcode;

/// What a thread does when it next has its core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// The top of fio's loop.
    Top,
    /// After io_queue_event: reap if the queue is full.
    Queued {
        busy: bool,
    },
    /// In a submission call: the next I/O.
    NextIo,
    /// The next part of the current I/O.
    Part,
    /// A part needs a request (no scheduler).
    Place,
    /// ... and with a scheduler.
    Elevate,
    /// No tag: sleep for one.
    TagWait,
    /// Woken with a tag.
    Granted,
    /// The plug is being flushed; then `Call::resume`.
    Plug,
    /// blk_mq_run_hw_queue; then `Call::after_run`.
    RunQueue,
    /// The I/O was refused.
    Refused,
    /// A flush, its system call and bio behind it.
    Flush,
    /// A bio meets the scheduler in front of pblk.
    Admit,
    /// A bio handed to pblk, its processor time behind it.
    PblkRead,
    PblkWrite,
    /// The submission call returns.
    CallEnd,
    /// A synchronous call waits.
    SyncWait,
    /// ... and is back.
    SyncReturn,
    NullDone,
    Getevents,
    /// A loop of looks has ended.
    Looked,
    /// Before the sleep of hybrid polling.
    HybridSleep,
    /// SPDK's commands are written.
    SpdkSubmit,
    /// Entries of io_uring are in the ring of the submission thread.
    HandOver,
    /// io_uring's submission thread looks for work.
    SqLoop,
    /// io_getevents returns with so many.
    Reap(u32),
    /// A reaper waits in io_getevents, and is back with one.
    Collect,
    Collected,
    /// At a call on a file, or a kernel thread of the file system.
    Vfs,
    /// A thread of a network block device.
    Nbd(At),
    /// pblk's kernel thread: the next action, and its processor time behind it.
    Kernel,
    KernelIssue,
    /// Its second kernel thread: the next write of part of a sector.
    NextMerge,
    /// The kernel thread of the scheduler in front of pblk: the next bio that has a token.
    NextBio,
    /// A kworker begins, and is through.
    Kworker,
    Worked,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asleep {
    /// It runs or wants to.
    No,
    /// Before its start.
    Start,
    /// In a synchronous call.
    Call,
    /// In a synchronous call, with a timer (hybrid polling).
    Hybrid,
    /// In io_getevents.
    Events,
    /// io_uring's submission thread, idle for too long.
    Ring,
    Tag,
    Timer,
    /// For its reaper: until there is room, or nothing in flight.
    Reaper,
    /// pblk's kernel thread has nothing to do, or that of the scheduler in front of it.
    Actions,
    /// In the file system.
    Vfs,
    /// A kworker without work.
    Work,
    /// A thread of a network block device has nothing to do.
    Socket,
    Done,
}

/// Nanoseconds of work not yet done, in the order they are done.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Pending {
    /// Wake-up, context switch, idle exit.
    pub lead: u64,
    /// The application.
    pub user: u64,
    /// Its I/O library, once the I/O has begun: rings of io_uring, SPDK.
    pub library: u64,
    /// System call (or io_getevents, or the end of a synchronous call).
    pub entry: u64,
    pub block: u64,
    pub ftl: u64,
    pub driver: u64,
}

impl Pending {
    /// More than getting the core.
    pub fn has_work(&self) -> bool {
        self.total() > self.lead
    }
    pub fn total(&self) -> u64 {
        self.lead + self.user + self.library + self.entry + self.block + self.ftl + self.driver
    }
}

/// What the end of the segment does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The node that was worked on.
    node: u32,
    /// The request that goes to the drive.
    issue: u32,
    /// What the node did before this segment's work on it.
    waited: (Layer, Why),
}

const NO_PLAN: Plan = Plan { node: NONE, issue: NONE, waited: (Layer::Application, Why::CoreBusy) };

/// A submission call under way.
#[derive(Debug)]
pub(crate) struct Call {
    aio: bool,
    /// The I/O of a synchronous call.
    single: u32,
    /// I/Os taken up so far.
    index: usize,
    /// The current I/O, how much of it has become parts, and the current part. Once the last part
    /// is out another thread may reap it: its length is kept.
    node: u32,
    len: u64,
    at: u64,
    part: u32,
    divided: bool,
    opcode: Opcode,
    /// current->plug.
    plugged: bool,
    plug: Vec<u32>,
    flushing: bool,
    resume: Step,
    after_run: Step,
    after: Step,
    /// The I/Os have not begun yet.
    fresh: bool,
}

/// fio's wait_for_completions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reaping {
    pub min: u32,
    full: bool,
    /// Look again in any case: io_getevents(0) in a loop.
    spin: bool,
    /// The job is over: all that is in flight at once.
    pub drain: bool,
}

const REAP_ONE: Reaping = Reaping { min: 1, full: false, spin: false, drain: false };

#[derive(Debug)]
pub(crate) struct Thread<S> {
    pub spec: ThreadSpec,
    pub source: Option<S>,
    pub core: u32,
    /// The disk of the I/O at hand, and the hardware queue for it.
    pub disk: u16,
    pub hctx: u16,
    pub step: Step,
    pub asleep: Asleep,
    pub pend: Pending,
    plan: Plan,
    call: Call,
    /// Of the segment that ended last: lead and entry.
    pub done: (u64, u64),
    pub cur_depth: u32,
    pub iocbs: Vec<u32>,
    requeued: Option<(Ddir, u64, u32)>,
    /// Of the I/O that it asks for: the I/O's own, or the thread's.
    pub class: IoClass,
    /// Completed and not reaped (aio_ring).
    pub ring: VecDeque<u32>,
    pub(crate) reaping: Reaping,
    /// Of a job: the thread that reaps for it. Of a reaper: the job.
    pub partner: u32,
    /// Of an io_uring job: the thread that submits for it. Of that thread: the job, and when it
    /// has been idle for long enough.
    pub sq: u32,
    pub owner: u32,
    pub sq_until: Time,
    /// The disk's hardware queue of its core, and the one its polled requests go to.
    pub home: u16,
    pub poll_hctx: u16,
    /// Its requests are polled where the disk can be.
    pub may_poll: bool,
    /// Its requests to the disk at hand are polled, and the call under way is.
    pub polls: bool,
    pub polled: bool,
    pub rng: Rng,
    pub looking: Looking,
    /// In io_uring_enter to wait, and for how many.
    pub entered: bool,
    pub wait_nr: u32,
    /// A thread of a network block device: its connection.
    pub end: u16,
    pub quiesce: Option<Time>,
    /// It computes until then.
    pub burn: Time,
    pub exhausted: bool,
    pub failed: bool,
    /// A tag handed over while asleep.
    pub granted: u16,
    /// Processor time had, in CFS's reckoning: what it missed asleep counts in part.
    pub vruntime: u64,
    /// Whether it lost its core at the end of its slice.
    pub preempted: bool,
    /// The AppWake event pending, and the time slept for.
    pub timer: Time,
    pub timer_at: Time,
    pieces: Vec<Piece>,
    piece: usize,
    work: Option<Work>,
    pub vfs: InVfs,
    pub stats: ThreadStats,
}

impl<S> Thread<S> {
    pub fn new(spec: ThreadSpec, source: Option<S>, core: u32, disk: u16, hctx: u16) -> Thread<S> {
        let depth = spec.iodepth as usize;
        Thread {
            source,
            core,
            disk,
            hctx,
            step: Step::Top,
            asleep: Asleep::Start,
            pend: Pending::default(),
            plan: NO_PLAN,
            call: Call {
                aio: false,
                single: NONE,
                index: 0,
                node: NONE,
                len: 0,
                at: 0,
                part: NONE,
                divided: false,
                opcode: Opcode::Read,
                plugged: false,
                plug: Vec::with_capacity(PLUG_REQUESTS),
                flushing: false,
                resume: Step::NextIo,
                after_run: Step::NextIo,
                after: Step::Top,
                fresh: false,
            },
            done: (0, 0),
            cur_depth: 0,
            iocbs: Vec::with_capacity(spec.iodepth_batch as usize),
            requeued: None,
            class: spec.class,
            ring: VecDeque::with_capacity(depth),
            reaping: REAP_ONE,
            partner: NONE,
            sq: NONE,
            owner: NONE,
            sq_until: Time::NEVER,
            home: hctx,
            poll_hctx: hctx,
            may_poll: false,
            polls: false,
            polled: false,
            rng: Rng::from_seed(spec.seed),
            looking: Looking::default(),
            entered: false,
            wait_nr: 0,
            end: 0,
            quiesce: None,
            burn: Time::ZERO,
            exhausted: false,
            failed: false,
            granted: NO_TAG,
            vruntime: 0,
            preempted: false,
            timer: Time::NEVER,
            timer_at: Time::ZERO,
            pieces: Vec::new(),
            piece: 0,
            work: None,
            vfs: InVfs::default(),
            stats: ThreadStats::default(),
            spec,
        }
    }
}

impl<S> Thread<S> {
    /// The I/O of the synchronous call under way.
    pub fn single(&self) -> u32 {
        self.call.single
    }
    pub fn after(&self) -> Step {
        self.call.after
    }
    /// Whether an I/O of this direction is reaped with io_getevents.
    pub fn is_aio(&self, ddir: Ddir) -> bool {
        matches!(self.spec.engine, Engine::Libaio | Engine::IoUring)
            && matches!(ddir, Ddir::Read | Ddir::Write)
    }
    pub fn is_planned(&self) -> bool {
        self.plan.node != NONE
    }
    /// The segment to come is work on this node.
    pub fn plan_for(&mut self, node: u32) {
        self.plan = Plan { node, ..NO_PLAN };
    }
    /// A submission of one I/O in user mode, or a call on a file, which begins when the work at hand is done.
    pub fn begin_call(&mut self, node: u32) {
        (self.call.aio, self.call.single, self.call.fresh) = (false, node, true);
        self.plan = NO_PLAN;
    }
    /// Whether the call on `node` has left the application; its processor time may still be owed.
    pub fn has_issued(&self, node: u32) -> bool {
        self.call.aio || !self.call.fresh || self.call.single != node
    }
    /// The I/Os of `iocbs` begin; another thread submits them.
    pub fn begin_hand_over(&mut self, after: Step) {
        (self.call.aio, self.call.fresh, self.call.after) = (true, true, after);
    }
    /// What the ring holds is submitted in one call.
    pub fn take_ring(&mut self) {
        self.cur_depth += self.ring.len() as u32;
        self.iocbs.extend(self.ring.drain(..));
        let call = &mut self.call;
        (call.aio, call.single, call.index, call.after) = (true, NONE, 0, Step::SqLoop);
        (call.plugged, call.fresh) = (true, false);
    }
    /// A bio of the file system in place of an I/O: without a plug, back to the file system at the
    /// end.
    pub fn begin_bio(&mut self, node: u32, opcode: Opcode, divided: bool, len: u64) {
        let call = &mut self.call;
        (call.aio, call.single, call.index, call.fresh) = (false, node, 1, false);
        (call.node, call.part, call.at) = (node, node, 0);
        (call.opcode, call.divided, call.len) = (opcode, divided, len);
        call.plugged = len > BIO_BYTES;
        self.plan = Plan { node, ..NO_PLAN };
        self.vfs.submits = true;
    }
    /// A bio that the scheduler in front of pblk held; then the next.
    pub fn begin_held(&mut self, node: u32, opcode: Opcode) {
        self.begin_taken(node, opcode, Step::NextBio);
        self.plan_released(node);
    }
    /// A write for pblk whose rest is to be read, as these pieces; then the next.
    pub fn begin_merge(&mut self, node: u32) -> &mut Vec<Piece> {
        self.begin_taken(node, Opcode::Read, Step::NextMerge);
        self.plan = Plan { node, issue: NONE, waited: (Layer::Ftl, Why::CoreBusy) };
        self.pieces.clear();
        self.piece = 0;
        &mut self.pieces
    }
    /// A bio of another thread's.
    fn begin_taken(&mut self, node: u32, opcode: Opcode, after: Step) {
        let call = &mut self.call;
        (call.aio, call.single, call.index, call.fresh) = (false, NONE, 1, false);
        (call.node, call.part, call.at) = (node, node, 0);
        (call.opcode, call.divided, call.len, call.after) = (opcode, false, 0, after);
    }
    /// The segment to come is work on a bio that has its token.
    pub fn plan_released(&mut self, node: u32) {
        self.plan = Plan { node, issue: NONE, waited: (Layer::Block, Why::Plugged) };
    }
    /// The part of an I/O that is being submitted.
    pub fn part(&self) -> u32 {
        self.call.part
    }
}

#[cfg(test)]
impl<S> Thread<S> {
    /// For a failed test.
    pub fn dump(&self) -> String {
        format!(
            "core {} {:?} {:?} depth {} queued {} ring {} {:?} {:?} {:?} quiesce {:?}",
            self.core,
            self.step,
            self.asleep,
            self.cur_depth,
            self.iocbs.len(),
            self.ring.len(),
            self.reaping,
            self.pend,
            self.spec,
            self.quiesce
        )
    }
}

/// Whether the thread has more to do now.
#[derive(PartialEq, Eq)]
pub(crate) enum Flow {
    Again,
    /// A segment runs, or the thread sleeps.
    Off,
}

impl<S: Source> Host<S> {
    /// Runs a thread that holds its core up to its next segment or sleep.
    pub(crate) fn run(&mut self, ctx: &mut Ctx, t: u32) {
        while self.step(ctx, t) == Flow::Again {}
    }

    #[inline(always)]
    fn step(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        match self.threads[t as usize].step {
            Step::Top => self.top(ctx, t),
            Step::Queued { busy } => self.queued(t, busy),
            Step::NextIo => self.next_io(ctx, t),
            Step::Part => self.part(ctx, t),
            Step::Place => self.place(ctx, t),
            Step::Elevate => self.elevate(ctx, t),
            Step::TagWait => self.tag_wait(ctx, t),
            Step::Granted => self.granted(ctx, t),
            Step::Plug => self.unplug(ctx, t),
            Step::RunQueue => self.run_queue(ctx, t),
            Step::Refused => {
                let node = self.threads[t as usize].call.node;
                self.go(t, Step::NextIo);
                let core = self.threads[t as usize].core;
                self.node_done(ctx, node, false, Some(core));
                Flow::Again
            }
            Step::Flush => self.flush(ctx, t),
            Step::Admit => self.admit(ctx, t),
            Step::PblkRead => self.pblk_read(ctx, t),
            Step::PblkWrite => self.pblk_write(ctx, t),
            Step::CallEnd => self.call_end(ctx, t),
            Step::SyncWait => self.sync_wait(ctx, t),
            Step::SyncReturn => {
                let thread = &self.threads[t as usize];
                let (node, (wake, work)) = (thread.call.single, thread.done);
                self.finish_io(ctx, node, wake, work);
                let after = self.threads[t as usize].call.after;
                self.go(t, after)
            }
            Step::NullDone => {
                let node = self.threads[t as usize].call.single;
                let n = &mut self.block.nodes[node];
                (n.issued, n.submitted) = (ctx.now, ctx.now);
                n.life = ctx.lives.begin(t, n.ddir, n.offset, n.len, ctx.now);
                self.finish_io(ctx, node, 0, 0);
                self.go(t, Step::Top)
            }
            Step::Getevents => self.getevents(ctx, t),
            Step::Looked => self.looked(ctx, t),
            Step::HybridSleep => self.hybrid_sleep(ctx, t),
            Step::SpdkSubmit => self.spdk_submit(ctx, t),
            Step::HandOver => self.handed_over(ctx, t),
            Step::SqLoop => self.sq_loop(ctx, t),
            Step::Reap(n) => self.reap_events(ctx, t, n),
            Step::Collect => self.collect(ctx, t),
            Step::Collected => self.collected(ctx, t),
            Step::Vfs => self.vfs_step(ctx, t),
            Step::Nbd(at) => self.nbd_step(ctx, t, at),
            Step::Kernel => self.kernel_next(ctx, t),
            Step::KernelIssue => self.kernel_issue(ctx, t),
            Step::NextMerge => self.next_merge(ctx, t),
            Step::NextBio => self.next_bio(ctx, t),
            Step::Kworker => self.kworker(ctx, t),
            Step::Worked => self.worked(ctx, t),
        }
    }

    #[inline]
    pub(crate) fn go(&mut self, t: u32, step: Step) -> Flow {
        self.threads[t as usize].step = step;
        Flow::Again
    }

    /// Spends the pending processor time; its end runs the plan, and then `step`.
    #[inline]
    pub(crate) fn segment(&mut self, ctx: &mut Ctx, t: u32, step: Step) -> Flow {
        let thread = &mut self.threads[t as usize];
        thread.step = step;
        let total = thread.pend.total();
        if total == 0 {
            self.run_plan(ctx, t, ctx.now);
            return Flow::Again;
        }
        let user = thread.pend.user + thread.pend.library;
        let core = &mut self.cores[thread.core as usize];
        let begin = if core.irqs.is_empty() { ctx.now } else { core.irq_end };
        core.segment = Some(Segment {
            thread: t,
            begin,
            split: begin + Span(thread.pend.lead + thread.pend.user),
            end: begin + Span(total),
            user,
            system: total - user,
            in_user: false,
            spin: None,
        });
        Flow::Off
    }

    /// The end of a segment: who spent what until when, and the request it sent.
    #[inline]
    pub(crate) fn run_plan(&mut self, ctx: &mut Ctx, t: u32, split: Time) {
        let thread = &mut self.threads[t as usize];
        let plan = std::mem::replace(&mut thread.plan, NO_PLAN);
        let pend = std::mem::take(&mut thread.pend);
        let core = thread.core;
        thread.done = (pend.lead, pend.library + pend.entry);
        self.cores[core as usize].calls.extra[Function::Ftl as usize] += pend.ftl;
        if thread.call.fresh {
            thread.call.fresh = false;
            if thread.call.aio {
                // The application prepared them one after the other, up to the call.
                let mut left = thread.iocbs.len() as u64;
                for &n in &thread.iocbs {
                    left -= 1;
                    let before = self.cost.application.0 * left;
                    self.block.nodes[n].issued = Time(split.0.saturating_sub(before));
                }
            } else {
                self.block.nodes[thread.call.single].issued = split;
            }
        }
        let driver = Time(ctx.now.0.saturating_sub(pend.driver));
        if plan.node != NONE {
            let ftl = Time(driver.0.saturating_sub(pend.ftl));
            let block = Time(ftl.0.saturating_sub(pend.block));
            let entry = Time(block.0.saturating_sub(pend.library + pend.entry));
            let node = self.block.nodes[plan.node];
            let mut life = node.life;
            if node.parent != NONE {
                let root = self.begin_life(ctx, node.parent);
                if pend.library + pend.entry > 0 {
                    let (layer, why) = NO_PLAN.waited;
                    ctx.mark(root, layer, why, core, entry);
                    ctx.mark(root, Layer::Syscall, Why::Work, core, block);
                }
                if life == IoId::NONE {
                    let begin = ctx.lives.get(root).end;
                    life = ctx.lives.begin(node.thread, node.ddir, node.offset, node.len, begin);
                    self.block.nodes[plan.node].life = life;
                }
            } else if life == IoId::NONE {
                life = self.begin_life(ctx, plan.node);
            }
            let (layer, why) = plan.waited;
            ctx.mark(life, layer, why, core, entry);
            ctx.mark(life, Layer::Syscall, Why::Work, core, block);
            ctx.mark(life, Layer::Block, Why::Work, core, ftl);
            ctx.mark(life, Layer::Ftl, Why::Work, core, driver);
            if plan.issue == NONE {
                ctx.mark(life, Layer::Driver, Why::Doorbell, core, ctx.now);
            }
        }
        if plan.issue != NONE {
            self.mark_request(ctx, plan.issue, Layer::Block, Why::Plugged, core, driver);
            self.issue(ctx, plan.issue, core);
        }
    }

    /// The life of an I/O, begun now if it was not yet.
    pub(crate) fn begin_life(&mut self, ctx: &mut Ctx, n: u32) -> IoId {
        let node = &mut self.block.nodes[n];
        if node.life == IoId::NONE {
            node.life = ctx.lives.begin(node.thread, node.ddir, node.offset, node.len, node.issued);
        }
        node.life
    }

    /// Sleeps, once the processor time still owed is spent.
    pub(crate) fn sleep(&mut self, ctx: &mut Ctx, t: u32, asleep: Asleep) -> Flow {
        let thread = &mut self.threads[t as usize];
        if thread.pend.total() > 0 {
            let step = thread.step;
            return self.segment(ctx, t, step);
        }
        thread.asleep = asleep;
        thread.stats.voluntary_switches += 1;
        self.cores[thread.core as usize].current = None;
        if asleep == Asleep::Done {
            self.ended(ctx, t);
        }
        Flow::Off
    }

    fn sleep_until(&mut self, ctx: &mut Ctx, t: u32, at: Time) -> Flow {
        let thread = &mut self.threads[t as usize];
        if thread.pend.total() == 0 {
            thread.timer_at = at;
            if thread.timer != at && at < Time::NEVER {
                thread.timer = at;
                ctx.at(at, Kind::AppWake, t);
            }
        }
        self.sleep(ctx, t, Asleep::Timer)
    }

    /// One turn of do_io.
    fn top(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t as usize];
        if self.stopping || thread.exhausted || thread.failed {
            thread.requeued = None;
            if thread.cur_depth > 0 {
                thread.reaping = Reaping { min: thread.cur_depth, drain: true, ..REAP_ONE };
                return self.go(t, Step::Getevents);
            }
            return self.sleep(ctx, t, Asleep::Done);
        }
        if thread.burn > ctx.now {
            let until = thread.burn;
            return self.look(ctx, t, Loop::Compute, until);
        }
        let thread = &mut self.threads[t as usize];
        if let Some(at) = thread.quiesce {
            if thread.cur_depth > 0 {
                thread.reaping = REAP_ONE;
                return self.go(t, Step::Getevents);
            }
            if at > ctx.now {
                return self.sleep_until(ctx, t, at);
            }
            thread.quiesce = None;
        }
        let (ddir, offset, len) = match thread.requeued.take() {
            Some(io) => io,
            None => {
                let Some(source) = &mut thread.source else {
                    unreachable!("pblk's thread runs no jobs")
                };
                match source.next(ctx.now) {
                    Next::Io { ddir, offset, len, class } => {
                        thread.class = class.or(thread.spec.class);
                        let (d, byte) = self.block.place(offset);
                        if let Some(pblk) = self.block.disks[usize::from(d)].enter(ctx) {
                            pblk.ftl.prefetch(ctx, Lpn((byte >> SECTOR_SHIFT) as u32));
                        }
                        thread.pend.user += spend!(self, thread.core, Application);
                        thread.stats.issued[ddir as usize] += 1;
                        (ddir, offset, len)
                    }
                    Next::File { ddir, offset, len, op, class } => {
                        thread.class = class.or(thread.spec.class);
                        thread.pend.user += spend!(self, thread.core, Application);
                        thread.stats.issued[ddir as usize] += 1;
                        return self.file_call(ctx, t, (ddir, offset, len), op);
                    }
                    Next::NotBefore { at, quiesce } => {
                        let at = at.max(ctx.now + Span(1));
                        return self.not_before(ctx, t, at, quiesce);
                    }
                    Next::WhenReaped => {
                        if !thread.iocbs.is_empty() {
                            return self.commit(ctx, t, Step::Top);
                        }
                        thread.reaping = REAP_ONE;
                        return self.go(t, Step::Getevents);
                    }
                    Next::Pause { spin_until, until } => {
                        let spin = spin_until.since(ctx.now).0;
                        thread.pend.user += spin;
                        self.cores[thread.core as usize].calls.extra
                            [Function::Application as usize] += spin;
                        thread.quiesce = Some(until.max(ctx.now + Span(1)));
                        return Flow::Again;
                    }
                    Next::Spin { until } => {
                        thread.burn = until.max(ctx.now + Span(1));
                        return Flow::Again;
                    }
                    Next::Done => {
                        thread.exhausted = true;
                        return Flow::Again;
                    }
                }
            }
        };
        match thread.spec.engine {
            Engine::Libaio | Engine::IoUring if matches!(ddir, Ddir::Read | Ddir::Write) => {
                thread.cur_depth += 1;
                let batch = thread.spec.iodepth_batch as usize;
                let node = self.new_node(t, ddir, self.block.place(offset), len);
                let thread = &mut self.threads[t as usize];
                thread.iocbs.push(node);
                if thread.iocbs.len() >= batch {
                    return self.commit(ctx, t, Step::Queued { busy: false });
                }
                self.go(t, Step::Queued { busy: false })
            }
            Engine::Libaio | Engine::IoUring if !thread.iocbs.is_empty() => {
                // FIO_Q_BUSY: requeue, commit, reap, try again.
                thread.requeued = Some((ddir, offset, len));
                self.commit(ctx, t, Step::Queued { busy: true })
            }
            Engine::Libaio | Engine::IoUring => {
                self.sync_call(t, ddir, self.block.place(offset), len, Step::Queued { busy: false })
            }
            Engine::Spdk => self.spdk_queue(ctx, t, ddir, self.block.place(offset), len),
            Engine::Pvsync2 => self.sync_call(t, ddir, self.block.place(offset), len, Step::Top),
            Engine::Null => {
                thread.cur_depth += 1;
                // Time must pass, or a job without end never ends.
                thread.pend.user = thread.pend.user.max(1);
                let level = level_bucket(thread.cur_depth);
                thread.stats.iodepth_level[level] += 1;
                let node = self.new_node(t, ddir, self.block.place(offset), len);
                self.threads[t as usize].call.single = node;
                self.threads[t as usize].call.fresh = false;
                self.segment(ctx, t, Step::NullDone)
            }
        }
    }

    fn not_before(&mut self, ctx: &mut Ctx, t: u32, at: Time, quiesce: bool) -> Flow {
        let thread = &mut self.threads[t as usize];
        if quiesce {
            thread.quiesce = Some(at);
            return Flow::Again;
        }
        if !thread.iocbs.is_empty() {
            return self.commit(ctx, t, Step::Top);
        }
        if !thread.ring.is_empty() && thread.partner == NONE {
            thread.reaping = REAP_ONE;
            return self.go(t, Step::Getevents);
        }
        // Who looks for its completions itself goes on looking.
        let looks = thread.cur_depth > 0 && thread.partner == NONE;
        match thread.spec.engine {
            Engine::Spdk if looks => self.look(ctx, t, Loop::Spdk, at),
            Engine::IoUring if looks && thread.sq != NONE => self.look(ctx, t, Loop::Ring, at),
            Engine::IoUring if looks && thread.polls => self.look(ctx, t, Loop::Kernel, at),
            _ => self.sleep_until(ctx, t, at),
        }
    }

    fn queued(&mut self, t: u32, busy: bool) -> Flow {
        let thread = &mut self.threads[t as usize];
        let full = thread.cur_depth >= thread.spec.iodepth;
        let polling = thread.spec.iodepth_batch_complete_min == 0
            && thread.spec.iodepth_batch_complete_max == 0;
        if thread.cur_depth > 0 && (full || busy || polling) {
            let min = thread.spec.iodepth_batch_complete_min.min(thread.cur_depth);
            let spin = thread.spec.iodepth_batch_complete_min == 0;
            thread.reaping = Reaping { min: min.max(1), full, spin, drain: false };
            return self.go(t, Step::Getevents);
        }
        self.go(t, Step::Top)
    }

    pub(crate) fn sync_call(
        &mut self,
        t: u32,
        ddir: Ddir,
        (disk, offset): (u16, u64),
        len: u32,
        after: Step,
    ) -> Flow {
        self.aim(t, disk);
        let thread = &mut self.threads[t as usize];
        thread.cur_depth += 1;
        let level = level_bucket(thread.cur_depth);
        thread.stats.iodepth_level[level] += 1;
        thread.pend.entry += spend!(self, thread.core, Crossing);
        let data = matches!(ddir, Ddir::Read | Ddir::Write);
        let share = u64::from(thread.spec.hipri_percentage);
        // pvsync2 draws for each I/O whether it carries RWF_HIPRI.
        // A bio that is split is not polled where only polling would find its end
        // (bio_clear_hipri, Linux 5.10).
        let whole = thread.poll_hctx == thread.home
            || u64::from(len) <= self.block.disks[usize::from(disk)].max_request.min(BIO_BYTES);
        let thread = &mut self.threads[t as usize];
        thread.polled =
            thread.polls && data && whole && (share >= 100 || thread.rng.below(100) < share);
        thread.hctx = if thread.polled { thread.poll_hctx } else { thread.home };
        thread.looking.slept = false;
        let node = self.new_node(t, ddir, (disk, offset), len);
        let call = &mut self.threads[t as usize].call;
        (call.aio, call.single, call.index, call.after) = (false, node, 0, after);
        call.plugged = u64::from(len) > BIO_BYTES;
        call.fresh = true;
        self.go(t, Step::NextIo)
    }

    /// td_io_commit: one io_submit.
    fn commit(&mut self, ctx: &mut Ctx, t: u32, after: Step) -> Flow {
        let thread = &mut self.threads[t as usize];
        if thread.sq != NONE {
            return self.hand_over(ctx, t, after);
        }
        thread.hctx = if thread.polls { thread.poll_hctx } else { thread.home };
        let n = thread.iocbs.len() as u32;
        thread.stats.iodepth_level[level_bucket(thread.cur_depth)] += u64::from(n);
        thread.stats.iodepth_submit[call_bucket(n)] += 1;
        thread.stats.submit_calls += 1;
        let core = thread.core;
        if thread.spec.engine == Engine::IoUring {
            thread.pend.library += spend!(self, core, UringPrepare * u64::from(n));
            thread.pend.entry += spend!(self, core, Crossing, UringEnter);
        } else {
            thread.pend.entry += spend!(self, core, Crossing, AioSubmit);
        }
        let call = &mut thread.call;
        (call.aio, call.single, call.index, call.after) = (true, NONE, 0, after);
        call.plugged = true;
        call.fresh = true;
        self.go(t, Step::NextIo)
    }

    fn next_io(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t as usize];
        let call = &mut thread.call;
        let next = if call.aio {
            thread.iocbs.get(call.index).copied()
        } else {
            (call.index == 0).then_some(call.single)
        };
        let Some(node) = next else {
            if call.plug.is_empty() {
                return self.go(t, Step::CallEnd);
            }
            call.resume = Step::CallEnd;
            return self.go(t, Step::Plug);
        };
        if thread.plan.node != NONE {
            return self.segment(ctx, t, Step::NextIo);
        }
        let disk = self.block.nodes[node].disk;
        if disk != thread.disk {
            if !call.plug.is_empty() {
                // What a plug holds is of one disk.
                call.resume = Step::NextIo;
                return self.go(t, Step::Plug);
            }
            self.turn_to(t, disk);
            let thread = &mut self.threads[t as usize];
            thread.hctx = if thread.polls { thread.poll_hctx } else { thread.home };
        }
        let thread = &mut self.threads[t as usize];
        let call = &mut thread.call;
        call.index += 1;
        (call.node, call.part, call.at) = (node, node, 0);
        thread.pend.entry += spend!(self, thread.core, Syscall);
        thread.plan = Plan { node, ..NO_PLAN };
        if thread.owner != NONE {
            thread.plan.waited = (Layer::Syscall, Why::Polling);
        }
        let n = self.block.nodes[node];
        thread.call.len = u64::from(n.len);
        if !self.valid(disk, n.ddir, n.offset, n.len) {
            // Time must pass, or a job that goes on after errors never ends.
            let thread = &mut self.threads[t as usize];
            if thread.pend.total() == 0 {
                thread.pend.entry = 1;
            }
            return self.segment(ctx, t, Step::Refused);
        }
        let thread = &mut self.threads[t as usize];
        thread.call.opcode = match n.ddir {
            Ddir::Read => Opcode::Read,
            Ddir::Write => Opcode::Write,
            Ddir::Trim => Opcode::Deallocate,
            Ddir::Sync | Ddir::DataSync => Opcode::Flush,
        };
        match n.ddir {
            Ddir::Sync | Ddir::DataSync => {
                thread.pend.block += spend!(self, thread.core, Bio, Block);
                return self.segment(ctx, t, Step::Flush);
            }
            Ddir::Trim => thread.call.divided = false,
            Ddir::Read | Ddir::Write => {
                let parts = self.parts(disk, n.len);
                self.threads[t as usize].call.divided = parts > 1;
                if parts > 1 {
                    self.block.nodes[node].pending = parts;
                    self.counters.splits += 1;
                }
            }
        }
        self.go(t, Step::Part)
    }

    /// generic_make_request of the next part of the current I/O.
    fn part(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t as usize];
        let call = &mut thread.call;
        let (at, len) = (call.at, call.len);
        if at >= len {
            return self.go(t, Step::NextIo);
        }
        let n = self.block.nodes[call.node];
        if at > 0 && thread.plan.node != NONE {
            return self.segment(ctx, t, Step::Part);
        }
        let (opcode, divided, plugged) = (call.opcode, call.divided, call.plugged);
        let trim = opcode == Opcode::Deallocate;
        let part_len = if trim {
            thread.pend.block += spend!(self, thread.core, Bio);
            len
        } else {
            let bio_at = at % BIO_BYTES;
            let bio_len = (len - (at - bio_at)).min(BIO_BYTES);
            if bio_at == 0 {
                let pages = bio_len.div_ceil(4096);
                thread.pend.block += spend!(self, thread.core, Bio, BioPage * (pages - 1));
            }
            self.block.disks[usize::from(n.disk)].max_request.min(bio_len - bio_at)
        };
        let mut part = call.node;
        call.at += part_len;
        if divided {
            part = self.child(part, n.offset + at, part_len as u32);
        }
        let thread = &mut self.threads[t as usize];
        thread.call.part = part;
        thread.plan.node = part;
        if at > 0 {
            // Behind the parts before it.
            thread.plan.waited = (Layer::Block, Why::Plugged);
        }
        let disk = &self.block.disks[usize::from(n.disk)];
        if disk.pblk.is_some() {
            if disk.bios.is_some() {
                let thread = &mut self.threads[t as usize];
                thread.pend.block += spend!(self, thread.core, Scheduler);
                return self.segment(ctx, t, Step::Admit);
            }
            return self.pblk_bio(ctx, t, part);
        }
        let (scheduled, client) = (disk.elevator.is_some(), disk.client.is_some());
        thread.pend.block += spend!(self, thread.core, Block);
        if scheduled {
            thread.pend.block += spend!(self, thread.core, Scheduler);
        }
        if plugged && !trim && self.block.merge {
            let plug = &self.threads[t as usize].call.plug;
            let side = self.block.plug_merge(plug, opcode, part, n.offset + at, part_len);
            match side {
                Some(Side::Back) => self.counters.back_merges += 1,
                Some(Side::Front) => self.counters.front_merges += 1,
                None => {}
            }
            if side.is_some() {
                return self.after_part(ctx, t);
            }
        }
        if scheduled {
            return self.segment(ctx, t, Step::Elevate);
        }
        if client {
            // Another thread takes it from where it is put.
            return self.segment(ctx, t, Step::Place);
        }
        self.place(ctx, t)
    }

    /// The part is in a request that stays in the plug: on to the next, in a segment of its own so
    /// that each part's work ends where it ends.
    fn after_part(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &self.threads[t as usize];
        let more = thread.call.at < thread.call.len;
        if more { self.segment(ctx, t, Step::Part) } else { self.go(t, Step::NextIo) }
    }

    /// Allocates a request with its hardware tag and puts it where it belongs.
    fn place(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        if self.plug_is_full(t) {
            return self.unplug_then(t, Step::Place);
        }
        let thread = &self.threads[t as usize];
        let h = thread.hctx;
        let hctx = &mut self.block.hctxs[usize::from(h)];
        match hctx.tags.pop() {
            Some(tag) => self.place_request(ctx, t, tag),
            None if !thread.call.plug.is_empty() => self.unplug_then(t, Step::Place),
            None => self.segment(ctx, t, Step::TagWait),
        }
    }

    fn plug_is_full(&self, t: u32) -> bool {
        let call = &self.threads[t as usize].call;
        if !self.has_one_queue(t) || !call.plugged {
            return false;
        }
        let last = call.plug.last().map_or(0, |&rq| self.block.requests[rq].bytes);
        call.plug.len() >= PLUG_REQUESTS || last >= PLUG_BYTES
    }

    /// The disk at hand has a single hardware queue.
    fn has_one_queue(&self, t: u32) -> bool {
        let disk = self.threads[t as usize].disk;
        self.block.disks[usize::from(disk)].queues == 1
    }

    fn unplug_then(&mut self, t: u32, resume: Step) -> Flow {
        self.threads[t as usize].call.resume = resume;
        self.go(t, Step::Plug)
    }

    /// blk_mq_get_tag: sleep for a tag, if there is still none.
    fn tag_wait(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t as usize];
        let kept = self.block.kept_back(thread.disk, thread.call.opcode);
        let hctx = &mut self.block.hctxs[usize::from(thread.hctx)];
        if self.block.disks[usize::from(thread.disk)].elevator.is_some() {
            if hctx.sched_free > kept {
                hctx.sched_free -= 1;
                return self.go(t, Step::Granted);
            }
        } else if let Some(tag) = hctx.tags.pop() {
            thread.granted = tag;
            return self.go(t, Step::Granted);
        }
        if thread.pend.total() > 0 {
            return self.segment(ctx, t, Step::TagWait);
        }
        if !hctx.interrupts && thread.work.is_none() {
            // Nobody else need look at this queue: io_uring is told EAGAIN and reaps first, and so
            // does everybody here.
            thread.plan =
                Plan { node: thread.call.part, issue: NONE, waited: (Layer::Block, Why::Tag) };
            return self.look(ctx, t, Loop::Kernel, Time::NEVER);
        }
        self.counters.tag_waits += 1;
        hctx.waiters.push_back(t);
        thread.step = Step::Granted;
        thread.plan =
            Plan { node: thread.call.part, issue: NONE, waited: (Layer::Block, Why::Tag) };
        if thread.work.is_some() {
            thread.plan = NO_PLAN;
            thread.step = Step::KernelIssue;
        }
        self.sleep(ctx, t, Asleep::Tag)
    }

    /// The tag is there: scheduler tag, hardware tag of a request, of a flush or of a flash read.
    fn granted(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t as usize];
        if thread.plan.node != NONE || thread.pend.total() > 0 {
            return self.segment(ctx, t, Step::Granted);
        }
        let disk = &self.block.disks[usize::from(thread.disk)];
        if disk.pblk.is_some() && thread.call.opcode != Opcode::Flush {
            return self.go(t, Step::PblkRead);
        }
        let tag = std::mem::replace(&mut thread.granted, NO_TAG);
        if self.threads[t as usize].call.opcode == Opcode::Flush {
            return self.issue_flush(ctx, t, tag);
        }
        self.place_request(ctx, t, tag)
    }

    /// blk_mq_make_request from the point where the request exists.
    fn place_request(&mut self, ctx: &mut Ctx, t: u32, tag: u16) -> Flow {
        let one_queue = self.has_one_queue(t);
        let thread = &mut self.threads[t as usize];
        let call = &mut thread.call;
        let part = self.block.nodes[call.part];
        let bytes = u64::from(part.len);
        let rq = self.block.request(call.part, call.opcode, part.offset, bytes, thread.hctx, tag);
        if call.plugged && one_queue {
            call.plug.push(rq);
            return self.after_part(ctx, t);
        }
        if call.plugged && self.block.merge {
            // Limited plugging: the one that was there goes out, this one stays.
            let earlier = call.plug.pop();
            call.plug.push(rq);
            return match earlier {
                Some(earlier) => self.send(ctx, t, earlier, Step::Part),
                None => self.after_part(ctx, t),
            };
        }
        self.send(ctx, t, rq, Step::Part)
    }

    /// Sends a request to the scheduler or, without one, to the driver.
    fn send(&mut self, ctx: &mut Ctx, t: u32, rq: u32, then: Step) -> Flow {
        let thread = &mut self.threads[t as usize];
        let disk = &self.block.disks[usize::from(thread.disk)];
        if disk.elevator.is_some() {
            thread.call.after_run = then;
            self.block.insert_scheduler(rq, ctx.now);
            return self.go(t, Step::RunQueue);
        }
        if let Some(end) = disk.client {
            let core = thread.core;
            self.queue_nbd(ctx, end, rq, core);
            return self.go(t, then);
        }
        let thread = &mut self.threads[t as usize];
        thread.plan.issue = rq;
        thread.pend.driver +=
            spend!(self, thread.core, DmaMap, Doorbell, StatIssue * u64::from(self.poll_stats.on));
        self.segment(ctx, t, then)
    }

    /// blk_flush_plug_list: by position, one after the other.
    fn unplug(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t as usize];
        let call = &mut thread.call;
        if call.plug.is_empty() {
            call.flushing = false;
            let resume = call.resume;
            return self.go(t, resume);
        }
        if self.block.disks[usize::from(thread.disk)].elevator.is_some() {
            if thread.pend.total() > 0 {
                return self.segment(ctx, t, Step::Plug);
            }
            self.counters.plug_flushes += 1;
            let mut plug = std::mem::take(&mut thread.call.plug);
            plug.sort_unstable_by_key(|&rq| self.block.requests[rq].offset);
            for rq in plug.drain(..) {
                self.block.insert_scheduler(rq, ctx.now);
            }
            let call = &mut self.threads[t as usize].call;
            call.plug = plug;
            call.after_run = call.resume;
            return self.go(t, Step::RunQueue);
        }
        if !call.flushing {
            call.flushing = true;
            self.counters.plug_flushes += 1;
            let requests = &self.block.requests;
            call.plug.sort_by_key(|&rq| requests[rq].offset);
        }
        let rq = call.plug.remove(0);
        self.send(ctx, t, rq, Step::Plug)
    }

    /// A bio meets the scheduler: merge, or a request of its own (dd_bio_merge,
    /// blk_mq_get_request).
    fn elevate(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        if self.block.merge && self.scheduler_merge(ctx, t) {
            return self.go(t, Step::Part);
        }
        if self.plug_is_full(t) {
            return self.unplug_then(t, Step::Elevate);
        }
        let thread = &self.threads[t as usize];
        let kept = self.block.kept_back(thread.disk, thread.call.opcode);
        let hctx = &mut self.block.hctxs[usize::from(thread.hctx)];
        if hctx.sched_free > kept {
            hctx.sched_free -= 1;
            return self.place_request(ctx, t, NO_TAG);
        }
        if !thread.call.plug.is_empty() {
            return self.unplug_then(t, Step::Elevate);
        }
        self.go(t, Step::TagWait)
    }

    fn scheduler_merge(&mut self, ctx: &mut Ctx, t: u32) -> bool {
        let call = &self.threads[t as usize].call;
        let (part, opcode) = (call.part, call.opcode);
        let node = self.block.nodes[part];
        let disk = &mut self.block.disks[usize::from(node.disk)];
        let max = disk.max_request;
        let dir = match opcode {
            Opcode::Read => Dir::Read,
            Opcode::Write => Dir::Write,
            _ => return false,
        };
        let bytes = u64::from(node.len);
        let ask = Ask {
            rq: NONE,
            hctx: self.threads[t as usize].hctx,
            thread: node.thread,
            dir,
            start: node.offset,
            bytes,
            mergeable: true,
            data: true,
        };
        let Some(elevator) = &mut disk.elevator else { return false };
        let Some(merge) = elevator.find_merge(&ask, max) else { return false };
        let gone = elevator.merged(merge, bytes, max);
        let rq = match merge {
            Merge::Back(rq) => {
                self.counters.back_merges += 1;
                rq
            }
            Merge::Front(rq) => {
                self.counters.front_merges += 1;
                self.block.requests[rq].offset = node.offset;
                rq
            }
        };
        let r = &mut self.block.requests[rq];
        r.bytes += bytes;
        r.class = r.class.best(node.class);
        self.block.append(rq, part, part);
        if let Some(other) = gone {
            self.counters.request_merges += 1;
            let o = self.block.requests[other];
            let r = &mut self.block.requests[rq];
            r.bytes += o.bytes;
            r.offset = r.offset.min(o.offset);
            r.class = r.class.best(o.class);
            self.block.append(rq, o.first, o.last);
            self.block.requests.remove(other);
            let core = self.threads[t as usize].core;
            self.put_sched_tag(ctx, o.hctx, core);
        }
        true
    }

    fn run_queue(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &self.threads[t as usize];
        if let Some(end) = self.block.disks[usize::from(thread.disk)].client {
            let (core, then) = (thread.core, thread.call.after_run);
            self.run_nbd(ctx, end, core);
            return self.go(t, then);
        }
        let thread = &mut self.threads[t as usize];
        match self.block.next_dispatch(thread.hctx, ctx.now) {
            Some(rq) => {
                thread.plan.issue = rq;
                thread.pend.driver += spend!(
                    self,
                    thread.core,
                    DmaMap,
                    Doorbell,
                    StatIssue * u64::from(self.poll_stats.on)
                );
                self.segment(ctx, t, Step::RunQueue)
            }
            None => {
                let then = thread.call.after_run;
                self.go(t, then)
            }
        }
    }

    /// blkdev_issue_flush: dropped without a volatile cache, shared with those that wait while one
    /// is at the drive.
    fn flush(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &self.threads[t as usize];
        let (node, core, h) = (thread.call.node, thread.core, thread.hctx);
        let d = thread.disk;
        let disk = &mut self.block.disks[usize::from(d)];
        if let Some(pblk) = disk.enter(ctx) {
            pblk.stats.flushes += 1;
            pblk.ftl.flush(ctx, node);
            self.go(t, Step::NextIo);
            self.pump_ftl(ctx, d, Some(core));
            return Flow::Again;
        }
        let scheduled = disk.elevator.is_some();
        if !disk.info.volatile_cache {
            self.go(t, Step::NextIo);
            self.node_done(ctx, node, true, Some(core));
            return Flow::Again;
        }
        let hctx = &mut self.block.hctxs[usize::from(h)];
        if hctx.flush != NONE {
            return self.issue_flush(ctx, t, NO_TAG);
        }
        match hctx.tags.pop() {
            Some(tag) => self.issue_flush(ctx, t, tag),
            None if scheduled => {
                // Linux lets the flush request wait on hctx->dispatch.
                let rq = self.flush_request(node, h, NO_TAG);
                self.block.hctxs[usize::from(h)].dispatch.push_back(rq);
                self.go(t, Step::NextIo)
            }
            None => self.go(t, Step::TagWait),
        }
    }

    pub(crate) fn flush_request(&mut self, node: u32, h: u16, tag: u16) -> u32 {
        let rq = self.block.request(node, Opcode::Flush, 0, 0, h, tag);
        let r = &mut self.block.requests[rq];
        (r.purpose, r.sched_tag) = (Purpose::Flush, false);
        // The queue's flush_rq is nobody's (blk_kick_flush).
        r.class = IoClass::NONE;
        self.block.hctxs[usize::from(h)].flush = rq;
        rq
    }

    fn issue_flush(&mut self, ctx: &mut Ctx, t: u32, tag: u16) -> Flow {
        let thread = &self.threads[t as usize];
        let (node, core, h) = (thread.call.node, thread.core, thread.hctx);
        if self.block.hctxs[usize::from(h)].flush != NONE {
            self.counters.shared_flushes += 1;
            self.block.hctxs[usize::from(h)].flush_pending.push(node);
            if tag != NO_TAG {
                self.put_driver_tag(ctx, h, tag, core);
            }
            return self.segment(ctx, t, Step::NextIo);
        }
        let rq = self.flush_request(node, h, tag);
        if let Some(end) = self.client_of(h) {
            self.queue_nbd(ctx, end, rq, core);
            return self.go(t, Step::NextIo);
        }
        let thread = &mut self.threads[t as usize];
        thread.plan.issue = rq;
        thread.pend.driver +=
            spend!(self, thread.core, Doorbell, StatIssue * u64::from(self.poll_stats.on));
        self.segment(ctx, t, Step::NextIo)
    }

    fn call_end(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t as usize];
        if thread.plan.node != NONE || thread.pend.total() > 0 {
            return self.segment(ctx, t, Step::CallEnd);
        }
        if std::mem::take(&mut thread.vfs.submits) {
            return self.go(t, Step::Vfs);
        }
        if thread.call.aio {
            let handed_over = thread.owner != NONE;
            for node in thread.iocbs.drain(..) {
                if !handed_over && node != NONE {
                    self.block.nodes[node].submitted = ctx.now;
                }
            }
            let after = thread.call.after;
            return self.go(t, after);
        }
        if thread.call.single == NONE {
            let after = thread.call.after;
            return self.go(t, after);
        }
        let node = &mut self.block.nodes[thread.call.single];
        node.submitted = node.issued;
        self.go(t, Step::SyncWait)
    }

    fn sync_wait(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t as usize];
        if self.block.nodes[thread.call.single].pending > 0 {
            if thread.polled {
                return self.poll_wait(ctx, t);
            }
            return self.sleep(ctx, t, Asleep::Call);
        }
        thread.pend.entry += spend!(self, thread.core, Finish);
        self.segment(ctx, t, Step::SyncReturn)
    }

    /// td_io_getevents: sends what is queued first.
    fn getevents(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t as usize];
        if !thread.iocbs.is_empty() {
            return self.commit(ctx, t, Step::Getevents);
        }
        if thread.partner != NONE {
            return self.leave_to_reaper(ctx, t);
        }
        match thread.spec.engine {
            Engine::IoUring => return self.uring_getevents(ctx, t),
            Engine::Spdk => return self.spdk_getevents(ctx, t),
            _ => {}
        }
        let min = thread.reaping.min.min(thread.cur_depth);
        let max = thread.spec.iodepth_batch_complete_max.min(thread.cur_depth).max(min);
        let ready = thread.ring.len() as u32;
        let call = self.cost.crossing.0 + self.cost.aio_getevents.0;
        if ready >= min {
            let n = ready.min(max);
            let core = thread.core;
            thread.pend.entry += spend!(self, core, Crossing, AioGetevents, Finish * u64::from(n));
            return self.segment(ctx, t, Step::Reap(n));
        }
        // Looking again and again at no cost is the same as waiting.
        if thread.reaping.spin && call > 0 {
            thread.pend.entry += spend!(self, thread.core, Crossing, AioGetevents);
            return self.segment(ctx, t, Step::Getevents);
        }
        self.sleep(ctx, t, Asleep::Events)
    }

    fn reap_events(&mut self, ctx: &mut Ctx, t: u32, n: u32) -> Flow {
        let thread = &mut self.threads[t as usize];
        let (wake, work) = thread.done;
        thread.stats.iodepth_complete[call_bucket(n)] += 1;
        thread.stats.complete_calls += 1;
        for _ in 0..n {
            if let Some(node) = self.threads[t as usize].ring.pop_front() {
                self.finish_io(ctx, node, wake, work);
            }
        }
        let thread = &mut self.threads[t as usize];
        let again = thread.reaping.full && thread.cur_depth > thread.spec.iodepth_low;
        self.go(t, if again { Step::Getevents } else { Step::Top })
    }

    /// A job with a reaper waits for room in its queue, or for nothing to be in flight.
    fn leave_to_reaper(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t as usize];
        if thread.pend.total() > 0 {
            return self.segment(ctx, t, Step::Getevents);
        }
        let most = if thread.reaping.full { thread.spec.iodepth } else { 1 };
        if thread.cur_depth < most {
            return self.go(t, Step::Top);
        }
        self.sleep(ctx, t, Asleep::Reaper)
    }

    /// A reaper: io_getevents for one, as long as there are any.
    fn collect(&mut self, ctx: &mut Ctx, r: u32) -> Flow {
        let owner = self.threads[r as usize].partner;
        if self.threads[owner as usize].ring.is_empty() {
            return self.sleep(ctx, r, Asleep::Events);
        }
        let core = self.threads[r as usize].core;
        let call = spend!(self, core, Crossing, AioGetevents, Finish);
        self.threads[r as usize].pend.entry += call;
        self.segment(ctx, r, Step::Collected)
    }

    fn collected(&mut self, ctx: &mut Ctx, r: u32) -> Flow {
        let reaper = &self.threads[r as usize];
        let (owner, core, (wake, work)) = (reaper.partner, reaper.core, reaper.done);
        let job = &mut self.threads[owner as usize];
        job.stats.iodepth_complete[call_bucket(1)] += 1;
        job.stats.complete_calls += 1;
        if let Some(node) = job.ring.pop_front() {
            // Back before the call that sent it has returned: the call will not find it.
            if let Some(sent) = job.iocbs.iter_mut().find(|n| **n == node) {
                *sent = NONE;
                self.block.nodes[node].submitted = ctx.now;
            }
            self.finish_io(ctx, node, wake, work);
        }
        if self.threads[owner as usize].asleep == Asleep::Reaper {
            self.wake(ctx, owner, Some(core));
        }
        self.go(r, Step::Collect)
    }

    // pblk.

    /// A bio for pblk: its processor time first. A read is translated before it is spent.
    pub(crate) fn pblk_bio(&mut self, ctx: &mut Ctx, t: u32, part: u32) -> Flow {
        let node = self.block.nodes[part];
        let disk = &mut self.block.disks[usize::from(node.disk)];
        let Some(pblk) = disk.enter(ctx) else { return Flow::Again };
        let thread = &mut self.threads[t as usize];
        let lpn = Lpn((node.offset >> SECTOR_SHIFT) as u32);
        let end = (node.offset + u64::from(node.len)).div_ceil(SECTOR) as u32;
        let sectors = end - lpn.0;
        let cost = &pblk.cost;
        if node.ddir != Ddir::Read {
            thread.pend.ftl += cost.write_command.0;
            if node.ddir == Ddir::Write {
                thread.pend.ftl += cost.write_sector.0 * u64::from(sectors);
            }
            return self.segment(ctx, t, Step::PblkWrite);
        }
        pblk.stats.read_bios += 1;
        thread.pend.ftl += cost.read_command.0 + cost.read_sector.0 * u64::from(sectors);
        thread.pieces.clear();
        thread.piece = 0;
        pblk.ftl.read(ctx, lpn, sectors, &mut thread.pieces);
        self.read_pieces(ctx, t, part)
    }

    /// What of a bio's sectors is on flash is read.
    pub(crate) fn read_pieces(&mut self, ctx: &mut Ctx, t: u32, part: u32) -> Flow {
        let disk = &mut self.block.disks[usize::from(self.block.nodes[part].disk)];
        let Some(pblk) = &mut disk.pblk else { return Flow::Again };
        let thread = &mut self.threads[t as usize];
        let cost = &pblk.cost;
        let mut flash = 0;
        for piece in &thread.pieces {
            let sectors = u64::from(piece.sectors);
            match piece.place {
                Place::Unmapped => pblk.stats.unmapped_sectors += sectors,
                Place::Buffer => pblk.stats.buffer_sectors += sectors,
                Place::Lost => {
                    pblk.stats.buffer_sectors += sectors;
                    self.block.nodes[part].ok = false;
                }
                Place::Flash { .. } => {
                    pblk.stats.flash_sectors += sectors;
                    flash += 1;
                }
                Place::Member { first, .. } => {
                    pblk.stats.flash_sectors += if first { sectors } else { 0 };
                    // Charged ahead of the data it is spent on; the sum of the latency is the same.
                    thread.pend.ftl += cost.xor_sector.0 * sectors;
                    pblk.stats.xor_ns += cost.xor_sector.0 * sectors;
                    flash += 1;
                }
            }
        }
        if flash > 0 {
            // One request with a list of addresses, whatever the number of commands here.
            pblk.stats.flash_reads += u64::from(flash as u32);
            thread.pend.block += spend!(self, thread.core, Block);
            thread.pend.driver += spend!(self, thread.core, DmaMap, Doorbell);
        }
        thread.pieces.retain(|p| p.place.ppa().is_some());
        if flash > 1 {
            self.block.nodes[part].pending = flash as u32;
        }
        self.segment(ctx, t, Step::PblkRead)
    }

    fn pblk_read(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t as usize];
        let (part, core, h) = (thread.call.part, thread.core, thread.hctx);
        let Some(&piece) = thread.pieces.get(thread.piece) else {
            let none = thread.pieces.is_empty();
            self.go(t, Step::Part);
            if none {
                self.node_done(ctx, part, true, Some(core));
            }
            return Flow::Again;
        };
        let tag = match std::mem::replace(&mut thread.granted, NO_TAG) {
            NO_TAG => self.block.hctxs[usize::from(h)].tags.pop(),
            tag => Some(tag),
        };
        let Some(tag) = tag else { return self.go(t, Step::TagWait) };
        thread.piece += 1;
        let single = thread.pieces.len() == 1;
        let node = if single { part } else { self.part_of(ctx, part, piece, core) };
        let rq = self.flash_request(node, piece, h, tag);
        self.issue(ctx, rq, core);
        Flow::Again
    }

    /// A node for one of the flash reads that an I/O waits for.
    pub(crate) fn part_of(&mut self, ctx: &mut Ctx, part: u32, piece: Piece, core: u32) -> u32 {
        let n = self.block.nodes[part];
        let len = (u64::from(piece.sectors) * SECTOR) as u32;
        let node = self.child(part, u64::from(piece.lpn.0) * SECTOR, len);
        let begin = ctx.lives.get(n.life).end;
        let life = ctx.lives.begin(n.thread, n.ddir, n.offset, len, begin);
        ctx.mark(life, Layer::Block, Why::Tag, core, ctx.now);
        self.block.nodes[node].life = life;
        node
    }
    pub(crate) fn flash_request(&mut self, node: u32, piece: Piece, h: u16, tag: u16) -> u32 {
        let read = FlashRead::of(&piece).expect("only flash is read");
        let ppa = read.ppa;
        let bytes = u64::from(piece.sectors) * SECTOR;
        let rq = self.block.request(node, Opcode::VectorRead, u64::from(ppa.0), bytes, h, tag);
        let r = &mut self.block.requests[rq];
        r.work = piece.place.class() as u8;
        r.purpose = Purpose::Piece { lpn: read.lpn.0, brings: read.brings };
        rq
    }

    fn pblk_write(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &self.threads[t as usize];
        let (part, core) = (thread.call.part, thread.core);
        self.go(t, Step::Part);
        self.pblk_change(ctx, part, core);
        Flow::Again
    }

    /// Takes what the FTL wants done. `on` is the core at work.
    pub(crate) fn pump_ftl(&mut self, ctx: &mut Ctx, d: u16, on: Option<u32>) {
        while let Disk { pblk: Some(pblk), drive, .. } = &mut self.block.disks[usize::from(d)] {
            let Some(action) = pblk.ftl.poll() else { break };
            let Action::Complete { tag, ok } = action else {
                pblk.actions.push_back(action);
                continue;
            };
            let node = self.block.nodes[tag];
            let why = match node.ddir {
                Ddir::Sync | Ddir::DataSync => Why::Flush,
                Ddir::Write => Why::WriteBuffer,
                _ => Why::Work,
            };
            if node.ddir == Ddir::Write && ctx.now == ctx.lives.get(node.life).end {
                pblk.stats.write_waits -= 1;
            }
            ctx.mark(node.life, Layer::Ftl, why, 0, ctx.now);
            ctx.enter_drive(*drive);
            ctx.stamps.acknowledge(node.at_ledger, ok);
            if pblk.merges.is_some() {
                self.leave(ctx, tag, ok, on);
            }
            self.node_done(ctx, tag, ok, on);
        }
        let Some(pblk) = &self.block.disks[usize::from(d)].pblk else { return };
        let t = pblk.thread;
        if !pblk.actions.is_empty() && self.threads[t as usize].asleep == Asleep::Actions {
            self.wake(ctx, t, on);
        }
    }

    fn kernel_next(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let d = usize::from(self.threads[t as usize].disk);
        let Some(pblk) = &mut self.block.disks[d].pblk else { return Flow::Off };
        let Some(action) = pblk.actions.pop_front() else {
            return self.sleep(ctx, t, Asleep::Actions);
        };
        let cost = action.cost(&pblk.cost);
        pblk.stats.xor_ns += cost.sum.0;
        let work = action.work(pblk.unit_sectors);
        let thread = &mut self.threads[t as usize];
        thread.pend.ftl += cost.total().0;
        thread.work = Some(work);
        let Work::Flash(flash) = work else { return self.segment(ctx, t, Step::KernelIssue) };
        match flash.kind {
            OpKind::Program => pblk.stats.programs += 1,
            OpKind::Erase => pblk.stats.erases += 1,
            OpKind::Read => pblk.stats.background_reads += 1,
        }
        thread.pend.block += spend!(self, thread.core, Block);
        thread.pend.driver += spend!(self, thread.core, DmaMap, Doorbell);
        self.segment(ctx, t, Step::KernelIssue)
    }

    fn kernel_issue(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t as usize];
        if thread.pend.total() > 0 {
            return self.segment(ctx, t, Step::KernelIssue);
        }
        let (core, h) = (thread.core, thread.hctx);
        let d = thread.disk;
        let disk = &mut self.block.disks[usize::from(d)];
        if let (Some(Work::Sum { op }), Some(pblk)) = (thread.work, disk.enter(ctx)) {
            thread.work = None;
            pblk.ftl.on_done(ctx, op, Outcome::Ok);
            self.pump_ftl(ctx, d, Some(core));
            return self.go(t, Step::Kernel);
        }
        let tag = match std::mem::replace(&mut thread.granted, NO_TAG) {
            NO_TAG => self.block.hctxs[usize::from(h)].tags.pop(),
            tag => Some(tag),
        };
        let Some(tag) = tag else { return self.go(t, Step::TagWait) };
        let Some(Work::Flash(flash)) = self.threads[t as usize].work.take() else {
            unreachable!("the kernel thread has a flash operation with a command")
        };
        if let Some(pblk) = self.block.disks[usize::from(d)].enter(ctx) {
            send_data(&pblk.ftl, ctx, &flash);
        }
        let FlashOp { op, kind, class, ppa, sectors, payload } = flash;
        let (opcode, named) = match kind {
            OpKind::Program => (Opcode::VectorWrite, sectors),
            OpKind::Read => (Opcode::VectorRead, sectors),
            // One sector names the block.
            OpKind::Erase => (Opcode::VectorReset, 1),
        };
        let bytes = u64::from(named) * SECTOR;
        let rq = self.block.request(NONE, opcode, u64::from(ppa.0), bytes, h, tag);
        let r = &mut self.block.requests[rq];
        r.work = class as u8;
        r.inner = sectors - payload;
        r.purpose = Purpose::Ftl { op };
        self.issue(ctx, rq, core);
        self.go(t, Step::Kernel)
    }
}
