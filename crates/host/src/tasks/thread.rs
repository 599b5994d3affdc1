//! Threads: fio's main loop (`do_io` of backend.c) and its way through the kernel, as a state
//! machine that runs between segments of processor time.
//!
//! - pvsync2 has one I/O: a system call that submits it and sleeps until it is done.
//! - libaio follows fio: I/Os are queued until there are `iodepth_batch`, io_submit sends them, and
//!   once `iodepth` are queued io_getevents waits for `iodepth_batch_complete_min` and takes up to
//!   `_max`, again and again until `iodepth_low` are left. Flushes and trims are synchronous calls
//!   (of a replay flushes are entries: `engines::work`), made once nothing waits for its io_submit (fio_libaio_queue).
//! - A thread that waits in io_getevents is woken by every completion, as in Linux 4.14, and looks
//!   whether they are enough.
//!
//! Costs: the whole of io_getevents is charged when it returns. In a saturated loop this is the same
//! as at its entry; at depth 1 it is what makes a libaio read slower than a pvsync2 read.
//!
//! An I/O begins (fio's start time) when the application is through with preparing it, so the
//! application's own work is processor time and lowers the rate, but is no latency.

use crate::block::NONE;
use crate::block::call::Call;
use crate::config::Engine;
use crate::disk::Disk;
use crate::driver::poll::InDriver;
use crate::engines::InEngine;
use crate::paths::md::InMd;
use crate::paths::nbd::{At, InNbd};
use crate::paths::pblk::InPblk;
use crate::paths::vfs::InVfs;
use crate::source::ThreadSpec;
use crate::stats::ThreadStats;
use crate::{CoreId, DiskId, HctxId};
use wordline_base::{Ddir, IoClass, Layer, Rng, Time, Why};
use wordline_ftl::Piece;
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
    /// A part needs a request (without a scheduler).
    Place,
    /// A part's work in the scheduler is behind it, which others may have locked meanwhile.
    Elevate,
    /// A part needs a request (with a scheduler).
    Elevated,
    /// No tag: sleep for one.
    TagWait,
    /// Woken with a tag.
    Granted,
    /// The plug is being flushed; then `Call::resume`.
    Plug,
    /// blk_mq_run_hw_queue; then `Call::after_run`.
    RunQueue,
    /// A latency-critical part, before it passes by what waits.
    Bypass,
    /// The worker that runs hardware queues.
    Kblockd,
    /// The I/O was refused.
    Refused,
    /// A flush, its system call and bio behind it.
    Flush,
    /// A bio meets the scheduler in front of pblk.
    Admit,
    /// A bio handed to pblk, its processor time behind it.
    PblkRead,
    PblkWrite,
    /// A read of a map that has a lock; and any use of that map is over.
    PblkLookUp,
    PblkUnlock,
    /// The submission call returns.
    CallEnd,
    /// A synchronous call waits.
    SyncWait,
    /// A synchronous call is back.
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
    /// A bio of an array, its processor time behind it, and the next of its parts.
    MdMap,
    MdNext,
    /// Its pages go to stripes.
    MdAdd,
    /// An array's thread: its next stripe, and the next I/O of those that it handled.
    Md,
    MdIssue,
    /// The thread that rebuilds members: its next row.
    MdSync,
    /// pblk's kernel thread: the next action, and its processor time behind it.
    Kernel,
    KernelIssue,
    /// The collector of a drive that has its FTL: what it asks for next, and its command.
    Collector,
    CollectorOrder,
    /// Its second kernel thread: the next write of part of a sector.
    NextMerge,
    /// The kernel thread of the scheduler in front of pblk: the next bio that has a token.
    NextBio,
    /// A kworker begins, and is through.
    Kworker,
    Worked,
    /// A sync of a ring is left to a worker, which takes it, waits for its flush, and completes the entry.
    LeaveSync,
    Work,
    SyncSent,
    SyncOver,
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
    /// For the lock of an FTL's map.
    Map,
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
    /// The block layer.
    pub block: u64,
    /// An FTL on the host.
    pub ftl: u64,
    /// The driver.
    pub driver: u64,
}

impl Pending {
    /// More than getting the core.
    pub fn has_work(&self) -> bool {
        self.total() > self.lead
    }
    /// All of it.
    pub fn total(&self) -> u64 {
        self.lead + self.user + self.library + self.entry + self.block + self.ftl + self.driver
    }
}

/// What the end of the segment does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The node that was worked on.
    pub(super) node: u32,
    /// The request that goes to the drive.
    pub(super) issue: u32,
    /// What the node did before this segment's work on it.
    pub(super) waited: (Layer, Why),
}

/// The end of the segment does nothing.
pub(super) const NO_PLAN: Plan =
    Plan { node: NONE, issue: NONE, waited: (Layer::Application, Why::CoreBusy) };

#[derive(Debug)]
pub(crate) struct Thread<S> {
    /// What it is asked to do.
    pub(super) spec: ThreadSpec,
    /// Of a job: where its I/Os come from.
    pub(super) source: Option<S>,
    /// The core that it runs on.
    pub(super) core: CoreId,
    /// Where it may be woken; none: where it is.
    cores: Box<[CoreId]>,
    /// The disk of the I/O at hand.
    disk: DiskId,
    /// The hardware queue for the I/O at hand.
    hctx: HctxId,
    /// What it does when it next has its core.
    pub(super) step: Step,
    /// Why it is off its core.
    pub(super) asleep: Asleep,
    /// A record of what rooms charge.
    pub pend: Pending,
    /// What the end of its segment does.
    pub(super) plan: Plan,
    /// Lead and entry of the segment that ended last.
    pub(super) done: (u64, u64),
    /// The class of the I/O that it asks for: the I/O's own, or the thread's.
    class: IoClass,
    /// Draws which I/Os are polled.
    rng: Rng,
    /// Processor time had, in CFS's reckoning: what it missed asleep counts in part.
    pub(super) vruntime: u64,
    /// Whether it lost its core at the end of its slice.
    pub(super) preempted: bool,
    /// When it last began to wait for its core.
    pub(super) ready_since: Time,
    /// How long it was ready and had no core (run_delay of schedstat).
    pub(super) ready_ns: u64,
    /// When the AppWake event comes that is pending.
    pub(super) timer: Time,
    /// The time slept for.
    pub(super) timer_at: Time,
    /// Its submission call under way.
    pub call: Call,
    /// What the engines keep of it.
    pub engine: InEngine,
    /// What the driver keeps of it.
    pub driver: InDriver,
    /// What an FTL on the host keeps of it.
    pub pblk: InPblk,
    /// What arrays keep of it.
    pub md: InMd,
    /// What the file system keeps of it.
    pub vfs: InVfs,
    /// What network block devices keep of it.
    pub nbd: InNbd,
    /// A record that rooms add to.
    pub stats: ThreadStats,
}

impl<S> Thread<S> {
    pub fn new(
        spec: ThreadSpec,
        source: Option<S>,
        core: CoreId,
        disk: DiskId,
        hctx: HctxId,
    ) -> Thread<S> {
        Thread {
            source,
            core,
            cores: Box::default(),
            disk,
            hctx,
            step: Step::Top,
            asleep: Asleep::Start,
            pend: Pending::default(),
            plan: NO_PLAN,
            call: Call::new(),
            done: (0, 0),
            engine: InEngine::new(&spec),
            class: spec.class,
            driver: InDriver::new(hctx),
            rng: Rng::from_seed(spec.seed),
            vruntime: 0,
            preempted: false,
            ready_since: Time::ZERO,
            ready_ns: 0,
            timer: Time::NEVER,
            timer_at: Time::ZERO,
            pblk: InPblk::default(),
            md: InMd::default(),
            vfs: InVfs::default(),
            nbd: InNbd::default(),
            stats: ThreadStats::default(),
            spec,
        }
    }
}

impl<S> Thread<S> {
    /// What it is asked to do.
    #[inline]
    pub fn spec(&self) -> &ThreadSpec {
        &self.spec
    }
    /// It runs a job.
    #[inline]
    pub fn is_job(&self) -> bool {
        self.source.is_some()
    }
    /// Its I/Os are entries of a ring that polls for them.
    #[inline]
    pub fn is_polled_ring(&self) -> bool {
        self.spec.engine == Engine::IoUring && self.driver.polls() && !self.driver.selects()
    }
    /// Where the I/Os of a job come from.
    pub fn source(&self) -> Option<&S> {
        self.source.as_ref()
    }
    /// The same, to be asked or told.
    #[inline]
    pub fn source_mut(&mut self) -> Option<&mut S> {
        self.source.as_mut()
    }
    /// The core that it runs on.
    #[inline]
    pub fn core(&self) -> CoreId {
        self.core
    }
    /// It may be woken on any of these cores, in order of their numbers.
    pub fn may_run_on(&mut self, cores: Vec<CoreId>) {
        self.cores = cores.into();
    }
    /// Where it may be woken; none: where it is.
    #[inline]
    pub fn cores(&self) -> &[CoreId] {
        &self.cores
    }
    /// It runs on this core from here on. What it was ahead of the least there it is ahead of the least here
    /// (migrate_task_rq_fair).
    pub fn move_to(&mut self, core: CoreId, (there, here): (u64, u64)) {
        self.core = core;
        self.vruntime = (here + self.vruntime).saturating_sub(there);
    }
    /// The disk of the I/O at hand.
    #[inline]
    pub fn disk(&self) -> DiskId {
        self.disk
    }
    /// The hardware queue for the I/O at hand.
    #[inline]
    pub fn hctx(&self) -> HctxId {
        self.hctx
    }
    /// The I/O at hand goes by this hardware queue of its disk.
    #[inline]
    pub fn go_by(&mut self, hctx: HctxId) {
        self.hctx = hctx;
    }
    /// Its bios go to a member of an array from here on, by way of `home`. They complete by interrupt.
    pub fn turn_to_member(&mut self, to: DiskId, home: HctxId) {
        (self.disk, self.hctx) = (to, home);
        self.driver.turn_to_member(home);
    }
    /// What it does when it next has its core.
    #[inline]
    pub fn step(&self) -> Step {
        self.step
    }
    /// It goes on with this when it next has its core.
    #[inline]
    pub fn set_step(&mut self, step: Step) {
        self.step = step;
    }
    /// It asks for an I/O of this class; of its own, if the I/O has none.
    #[inline]
    pub fn begin_io(&mut self, class: IoClass) {
        self.class = class.or(self.spec.class);
    }
    /// The class of the I/O that it asks for.
    #[inline]
    pub fn class(&self) -> IoClass {
        self.class
    }
    /// Draws whether an I/O carries RWF_HIPRI (hipri_percentage).
    #[inline]
    pub fn draws_hipri(&mut self) -> bool {
        let share = u64::from(self.spec.hipri_percentage);
        share >= 100 || self.rng.below(100) < share
    }
    /// Whether work on a node, or a request to send, is planned.
    pub fn is_planned(&self) -> bool {
        self.plan.node != NONE
    }
    /// What ended last was this much on the way to it, and this much in it.
    pub fn done(&self) -> (u64, u64) {
        self.done
    }
    /// It gives its core up while it could go on.
    pub fn lose_core(&mut self) {
        self.stats.involuntary_switches += 1;
        self.preempted = true;
    }
    /// The segment to come is work on this node.
    pub fn plan_for(&mut self, node: u32) {
        self.plan = Plan { node, ..NO_PLAN };
    }
    /// The same, and what the node waited for until then.
    pub fn plan_after(&mut self, node: u32, layer: Layer, why: Why) {
        self.plan = Plan { node, issue: NONE, waited: (layer, why) };
    }
    /// The work goes on with another node, a part of the one before.
    pub fn plan_on(&mut self, node: u32) {
        self.plan.node = node;
    }
    /// What the node waited for until the segment to come.
    pub fn plan_waited(&mut self, layer: Layer, why: Why) {
        self.plan.waited = (layer, why);
    }
    /// The end of the segment sends this request.
    pub fn plan_issue(&mut self, rq: u32) {
        self.plan.issue = rq;
    }
    /// The end of the segment does nothing.
    pub fn plan_nothing(&mut self) {
        self.plan = NO_PLAN;
    }
    /// A thread of the kernel, which sleeps like this at first and then goes on with `step`.
    pub fn sleeping(self, step: Step, asleep: Asleep) -> Thread<S> {
        Thread { step, asleep, ..self }
    }
    /// Why it is off its core.
    #[inline]
    pub fn asleep(&self) -> Asleep {
        self.asleep
    }
    /// It is over, and does not come back.
    pub fn end(&mut self) {
        self.asleep = Asleep::Done;
    }
    /// It asked to be woken then, by [`Thread::asks_for`].
    pub fn asked_for(&self) -> Time {
        self.timer_at
    }
    /// It is to be woken at this time, if it still sleeps for it.
    pub fn asks_for(&mut self, at: Time) {
        self.timer_at = at;
    }
    /// Whether an AppWake event is to be set for this time: there is none, or one at another time.
    pub fn set_timer(&mut self, at: Time) -> bool {
        at < Time::NEVER && std::mem::replace(&mut self.timer, at) != at
    }
    /// Its I/O goes to this disk from here on, by way of `home`.
    pub fn turn_to(&mut self, to: u16, disk: &Disk, home: u16) {
        (self.disk, self.hctx) = (to, home);
        self.driver.turn_to(disk, self.core, home);
    }
    /// A submission of one I/O in user mode, or a call on a file.
    pub fn begin_call(&mut self, node: u32) {
        self.call.begin_elsewhere(node);
        self.plan_nothing();
    }
    /// A bio of the file system in place of an I/O: back to the file system at the end.
    pub fn begin_bio(&mut self, node: u32, opcode: Opcode, divided: bool, len: u64) {
        self.call.begin_bio(node, opcode, divided, len);
        self.plan_for(node);
        self.vfs.begin_bio();
    }
    /// A bio that the scheduler in front of pblk held; then the next.
    pub fn begin_held(&mut self, node: u32, opcode: Opcode) {
        self.call.begin_taken(node, opcode, Step::NextBio);
        self.plan_after(node, Layer::Block, Why::Plugged);
    }
    /// A write for pblk whose rest is to be read, as these pieces; then the next.
    pub fn begin_merge(&mut self, node: u32) -> &mut Vec<Piece> {
        self.call.begin_taken(node, Opcode::Read, Step::NextMerge);
        self.plan_after(node, Layer::Ftl, Why::CoreBusy);
        self.pblk.start()
    }
    /// Whether an I/O of this direction is reaped with io_getevents.
    pub fn is_aio(&self, ddir: Ddir) -> bool {
        matches!(self.spec.engine, Engine::Libaio | Engine::IoUring)
            && matches!(ddir, Ddir::Read | Ddir::Write)
    }
}

#[cfg(test)]
impl<S> Thread<S> {
    /// For a failed test.
    pub fn dump(&self) -> String {
        format!(
            "core {} {:?} {:?} {:?} {:?} {:?}",
            self.core, self.step, self.asleep, self.engine, self.pend, self.spec
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
