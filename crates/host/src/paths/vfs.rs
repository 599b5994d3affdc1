//! Calls on files: the file system's tasks on the host's threads.
//!
//! A job's thread makes a call and runs its task, spending the processor time the file system asks
//! for, submitting its bios through the block layer, and sleeping when it says so. The file
//! system's kernel threads are threads here too, spread over the cores from the last one down.
//!
//! An asynchronous direct read or write is left in flight when its task waits for its bios alone. At its end
//! it may have more to do, as a transaction for a file that became longer. A worker does that (the direct-I/O
//! completion workqueue of fs/direct-io.c).
//!
//! Linux' flush machinery sends a write behind the flush before it from the completion of that
//! flush; here the submitting thread does, woken by it.

use crate::block::{NONE, PLUG_REQUESTS};
use crate::config::Engine;
use crate::driver::poll::Loop;
use crate::function::{Function, spend};
use crate::host::Host;
use crate::paths::nbd::At;
use crate::source::{Source, ThreadSpec};
use crate::stats::{call_bucket, level_bucket};
use crate::tasks::thread::{Asleep, Flow, Step, Thread};
use crate::{CoreId, HctxId, ThreadId};
use std::collections::VecDeque;
use wordline_base::{BadValue, Ctx, Ddir, IdVec, IoClass, IoId, Kind, Layer, Time, Why, Workload};
use wordline_fs::{Bio, BioKind, Fs, FsConfig, Lack, Op, Turn, Wait, What};
use wordline_nvme::Opcode;

/// A node that is the flush before another bio.
const GATE: u32 = NONE - 1;

#[derive(Clone, Copy, Debug)]
struct Slot {
    thread: u32,
    /// The call's node; kernel threads have none.
    node: u32,
    /// A turn taken before somebody could act on it.
    parked: Option<Turn>,
    /// The call is direct: its bios have the class of its I/O, and not of the thread.
    direct: bool,
    /// Its bios are in flight, and nobody waits in the call.
    in_flight: bool,
    /// What it slept for, until that is written down.
    slept: Option<Wait>,
    /// Of a kernel thread: what became of its bios, of the last ones step by step.
    life: IoId,
}

impl Slot {
    /// A kernel thread's bio is over: its steps follow those of the bios before.
    fn had(&mut self, ctx: &mut Ctx, bio: IoId) {
        match self.life {
            IoId::NONE => self.life = bio,
            life => ctx.lives.go_on(life, bio),
        }
    }
}

/// A task of the file system; a bio that it submitted.
type TaskId = u32;
type BioId = u32;

/// A file system on a disk, with its tasks.
pub(crate) struct Vfs {
    fs: Fs,
    /// The disk that it is on.
    disk: u16,
    slots: IdVec<TaskId, Slot>,
    /// The first task of the kernel's threads.
    kernel_from: u32,
    /// Unused tasks by thread.
    free: IdVec<ThreadId, Vec<TaskId>>,
    /// Task by bio.
    owners: IdVec<BioId, TaskId>,
    timer: Time,
    /// Tasks for the worker.
    late: VecDeque<u32>,
    /// The worker's thread.
    worker: u32,
    /// By inode: the workload attribute of who used its pages last (FlashShare keeps it in the address
    /// space). Empty if no task has an attribute.
    spaces: Vec<Workload>,
    marked: bool,
}

/// What a thread is about in the file system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InVfs {
    /// Its task, NONE outside of calls.
    task: u32,
    /// A flush is on its way.
    gated: bool,
    /// The bio behind the flush.
    behind: Option<Bio>,
    /// It submits a bio.
    submits: bool,
    /// It will wait for the bio.
    waits: bool,
    /// It waits for direct I/O, whose end is its own to see to.
    direct: bool,
}

impl Default for InVfs {
    fn default() -> Self {
        InVfs {
            task: NONE,
            gated: false,
            behind: None,
            submits: false,
            waits: false,
            direct: false,
        }
    }
}

impl InVfs {
    /// It submits a bio, and goes back to the file system then.
    pub fn begin_bio(&mut self) {
        self.submits = true;
    }
    /// Its bio is submitted. Whether it was one.
    pub fn end_bio(&mut self) -> bool {
        std::mem::take(&mut self.submits)
    }
    /// It will wait for the bio that it submits.
    pub fn waits(&self) -> bool {
        self.waits
    }
}

/// Calls a thread can have under way: asynchronous ones, and one more that is not.
pub fn tasks_of(spec: &ThreadSpec) -> u32 {
    match spec.engine {
        Engine::Libaio | Engine::IoUring => spec.iodepth.max(1) + 1,
        _ => 1,
    }
}

impl Vfs {
    /// The disk that it is on.
    pub(super) fn disk(&self) -> u16 {
        self.disk
    }
    /// Bytes of a file are not wanted any more.
    pub(super) fn discard(&mut self, file: u32, offset: u64, len: u64) {
        self.fs.discard(file, offset, len);
    }
    /// Adds the kernel's threads to those of the jobs, the first `jobs` of them.
    fn new<S>(
        mut fs: Fs,
        threads: &mut IdVec<ThreadId, Thread<S>>,
        jobs: u32,
        cores: u32,
        (disk, map): (u16, &IdVec<CoreId, HctxId>),
    ) -> Vfs {
        let mut slots = IdVec::new();
        let mut free = IdVec::new();
        let slot = |thread| Slot {
            thread,
            node: NONE,
            parked: None,
            direct: false,
            in_flight: false,
            slept: None,
            life: IoId::NONE,
        };
        for t in 0..jobs {
            let n = tasks_of(threads[t].spec());
            let first = slots.count();
            slots.extend((0..n).map(|_| slot(t)));
            free.push((first..first + n).rev().collect());
        }
        let kernel_from = slots.count();
        let mut kernel = |name: &str, n: u32, task: u32| {
            let core = cores - 1 - n % cores;
            let mut thread =
                Thread::new(ThreadSpec::new(name, Engine::Null, 1), None, core, disk, map[core]);
            thread.vfs.task = task;
            threads.push(thread.sleeping(Step::Vfs, Asleep::Vfs));
            threads.len() as u32 - 1
        };
        for (n, name) in fs.kernel_tasks().iter().enumerate() {
            let task = slots.count();
            slots.push(slot(kernel(name, n as u32, task)));
            let turn = fs.run(Time::ZERO, task);
            debug_assert_eq!(turn, Turn::Sleep, "{name} has nothing to do yet");
        }
        let worker = kernel("dio", fs.kernel_tasks().len() as u32, NONE);
        Vfs {
            fs,
            disk,
            slots,
            kernel_from,
            free,
            owners: IdVec::new(),
            timer: Time::NEVER,
            late: VecDeque::new(),
            worker,
            spaces: Vec::new(),
            marked: threads.iter().any(|t| t.spec().class.workload() != Workload::None),
        }
    }
}

fn is_direct(op: &Op) -> bool {
    matches!(op, Op::Read { direct: true, .. } | Op::Write { direct: true, .. })
}

/// What a step of a call's life is called.
fn reason(wait: Wait) -> Why {
    match wait {
        Wait::Page(_) | Wait::Bios => Why::WakeUp,
        Wait::WriteBack { .. } | Wait::Buffer(_) | Wait::Mapping(_) => Why::WriteBack,
        Wait::Commit(_) | Wait::Handle | Wait::Handles | Wait::Checkpoint | Wait::Iclog => {
            Why::Journal
        }
        Wait::Inode(_) | Wait::Direct(_) => Why::FileLock,
        Wait::Dirty | Wait::Memory | Wait::Work => Why::DirtyLimit,
    }
}

impl<S: Source> Host<S> {
    /// The largest read of a file that goes to the drive as one request, as its read-ahead knows it.
    pub fn read_at_once(&self) -> u64 {
        self.block.disks.first().map_or(0, |disk| disk.queue.read_at_once())
    }
    /// Tasks that a file system needs for the jobs.
    pub fn file_tasks(&self) -> u32 {
        let jobs = self.threads.iter().filter(|t| t.is_job());
        jobs.map(|t| tasks_of(t.spec())).sum()
    }
    /// Puts a file system between the jobs and the drive. Its applications' tasks are as many as
    /// [`crate::tasks_of`] says for each job.
    pub fn mount(&mut self, fs: Fs) {
        let jobs = self.jobs();
        let sleeps = self.stack.io_poll_delay >= 0;
        for thread in self.threads.iter_mut().take(jobs as usize) {
            let synchronous = thread.spec().engine == Engine::Pvsync2 && !sleeps;
            thread.driver.mount(synchronous);
        }
        self.add_files(0, fs, jobs);
        // Threads of one core wait for the interrupts of another.
        self.cfs.couple_cores();
    }

    /// Puts a page cache between nbd-server and a drive.
    pub fn cache_served(&mut self, disk: u16, config: &FsConfig) -> Result<(), BadValue> {
        let threads = self.threads.len() as u32;
        let tasks = self.threads.iter().map(|t| tasks_of(t.spec())).sum();
        let drive = &self.block.disks[disk];
        let fs = Fs::new(config, drive.info().bytes, tasks)?;
        let mut fs = fs.reading_at_once(drive.queue.read_at_once());
        fs.serve_device();
        self.add_files(disk, fs, threads);
        Ok(())
    }

    fn add_files(&mut self, disk: u16, fs: Fs, callers: u32) {
        let map = self.block.disks[disk].homes().clone();
        let cores = self.cores.len() as u32;
        let vfs = Vfs::new(fs, &mut self.threads, callers, cores, (disk, &map));
        self.paths.vfs = Some(Box::new(vfs));
        self.made_room();
    }

    /// A call on the drive's pages, by a thread of nbd-server.
    pub(crate) fn served_call(
        &mut self,
        ctx: &mut Ctx,
        t: u32,
        io: (Ddir, u64, u32),
        op: Op,
    ) -> Flow {
        let thread = &mut self.threads[t];
        thread.engine.begin();
        thread.driver.begin_file_call(false);
        thread.pend.entry += spend!(self, thread.core(), Crossing);
        self.call_vfs(ctx, t, io, op)
    }

    /// A call on a file, by fio's thread.
    pub(crate) fn file_call(
        &mut self,
        ctx: &mut Ctx,
        t: u32,
        (ddir, offset, len): (Ddir, u64, u32),
        op: Op,
    ) -> Flow {
        let thread = &mut self.threads[t];
        let depth = thread.engine.begin();
        // fio opens and closes its files beside its engine, unless that is what the engine does (filecreate).
        let by_engine = !ddir.is_sync() || !op.opens_or_closes();
        thread.stats.iodepth_level[level_bucket(depth)] += u64::from(by_engine);
        let core = thread.core();
        let direct = is_direct(&op);
        let polls =
            thread.driver.polls() && direct && !thread.driver.selects() && thread.draws_hipri();
        thread.driver.begin_file_call(polls);
        let (aio, uring) = (thread.is_aio(ddir), thread.spec().engine == Engine::IoUring);
        let mut op = op;
        if let Op::Read { queued, .. } | Op::Write { queued, .. } = &mut op {
            *queued = aio;
        }
        thread.pend.entry += spend!(self, core, Crossing);
        // With data=journal it is the cache's all the same, at its cost.
        let past = direct && self.paths.vfs.as_ref().is_some_and(|v| !v.fs.journals_data());
        if past {
            // The way of any direct I/O; the file system adds how it finds the blocks.
            thread.pend.entry += spend!(self, core, Syscall);
        }
        let thread = &mut self.threads[t];
        thread.vfs.direct = past && !aio;
        if aio {
            if uring {
                thread.pend.library += spend!(self, core, UringPrepare);
                thread.pend.entry += spend!(self, core, UringEnter);
            } else {
                thread.pend.entry += spend!(self, core, AioSubmit);
            }
            thread.stats.iodepth_submit[call_bucket(1)] += 1;
            thread.stats.submit_calls += 1;
        } else if thread.spec().engine == Engine::Pvsync2 && by_engine {
            thread.stats.one_at_once();
        }
        if thread.pend.total() == 0 {
            // Time must pass, or a job without end never ends.
            thread.pend.entry = 1;
        }
        self.call_vfs(ctx, t, (ddir, offset, len), op)
    }

    fn call_vfs(
        &mut self,
        ctx: &mut Ctx,
        t: u32,
        (ddir, offset, len): (Ddir, u64, u32),
        op: Op,
    ) -> Flow {
        let disk = self.paths.vfs.as_ref().map_or(0, |vfs| vfs.disk);
        let node = self.new_node(t, ddir, (disk, offset), len);
        self.threads[t].begin_call(node);
        let Some(vfs) = &mut self.paths.vfs else { unreachable!("files are on a file system") };
        let task = vfs.free[t].pop().expect("a task for each call under way");
        self.threads[t].vfs.task = task;
        let slot = &mut vfs.slots[task];
        (slot.node, slot.direct) = (node, is_direct(&op));
        if vfs.marked
            && let Op::Read { file, direct: false, .. } | Op::Write { file, direct: false, .. } = op
        {
            let (ino, of) = (vfs.fs.inode(file) as usize, self.threads[t].spec().class.workload());
            if vfs.spaces.len() <= ino {
                vfs.spaces.resize(ino + 1, Workload::None);
            }
            vfs.spaces[ino] = of;
        }
        vfs.fs.call(ctx.now, task, op);
        self.segment(ctx, t, Step::Vfs)
    }

    /// The next turn of the task a thread is at.
    #[inline(never)]
    pub(crate) fn vfs_step(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        if thread.pend.total() > 0 || thread.is_planned() {
            return self.segment(ctx, t, Step::Vfs);
        }
        if thread.vfs.gated {
            return self.sleep(ctx, t, Asleep::Vfs);
        }
        if let Some(bio) = thread.vfs.behind.take() {
            return self.submit_bio(ctx, t, bio);
        }
        let Some(vfs) = &mut self.paths.vfs else { return Flow::Off };
        if thread.vfs.task == NONE {
            // The worker.
            let Some(task) = vfs.late.pop_front() else {
                return self.sleep(ctx, t, Asleep::Vfs);
            };
            thread.vfs.task = task;
        }
        let task = thread.vfs.task;
        let slot = &mut vfs.slots[task];
        let turn = match slot.parked.take() {
            Some(turn) => turn,
            None => vfs.fs.run(ctx.now, task),
        };
        let slept = vfs.slots[task].slept.take();
        let node = vfs.slots[task].node;
        if node != NONE
            && let Some(wait) = slept
        {
            let life = self.begin_life(ctx, node);
            let core = self.threads[t].core();
            ctx.mark(life, Layer::Syscall, reason(wait), core, ctx.now);
        }
        self.pump_vfs(ctx, Some(self.threads[t].core()), Some(task));
        match turn {
            Turn::Work(span) => {
                self.threads[t].pend.entry += span.0;
                let thread = &self.threads[t];
                let calls = thread.is_job() || self.serves_from_cache(t);
                let function =
                    if calls { Function::FileSystem } else { Function::FileSystemThreads };
                let core = thread.core();
                self.cores[core].charge(function, span.0);
                let thread = &mut self.threads[t];
                thread.plan_for(node);
                self.segment(ctx, t, Step::Vfs)
            }
            Turn::Submit(bio) => {
                self.own_bio(bio.id, task);
                let disk = self.paths.vfs.as_ref().map_or(0, |vfs| vfs.disk);
                if bio.preflush && self.block.disks[disk].info().volatile_cache {
                    self.threads[t].vfs.behind = Some(bio);
                    self.threads[t].vfs.gated = true;
                    let flush = Bio {
                        id: GATE,
                        kind: BioKind::Flush,
                        what: What::Flush,
                        offset: 0,
                        len: 0,
                        preflush: false,
                        fua: false,
                        ..bio
                    };
                    return self.submit_bio(ctx, t, flush);
                }
                self.submit_bio(ctx, t, bio)
            }
            Turn::Sleep => self.vfs_sleep(ctx, t, task),
            Turn::Done { ok } => self.vfs_done(ctx, t, task, ok),
        }
    }

    fn own_bio(&mut self, bio: u32, task: u32) {
        if let Some(vfs) = &mut self.paths.vfs {
            if vfs.owners.count() <= bio {
                vfs.owners.resize(bio as usize + 1, NONE);
            }
            vfs.owners[bio] = task;
        }
    }

    fn vfs_sleep(&mut self, ctx: &mut Ctx, t: u32, task: u32) -> Flow {
        let Some(vfs) = &mut self.paths.vfs else { return Flow::Off };
        let wait = vfs.fs.waits_for(task);
        let slot = &mut vfs.slots[task];
        slot.slept = wait;
        let (node, worker) = (slot.node, vfs.worker);
        let thread = &mut self.threads[t];
        if wait == Some(Wait::Bios) && thread.driver.polls_call() && t != worker {
            return self.look(ctx, t, Loop::Kernel, Time::NEVER);
        }
        // A call on pages waits for its own: generic_write_sync is a part of it, O_SYNC or not.
        if wait == Some(Wait::Bios)
            && slot.direct
            && node != NONE
            && t != worker
            && thread.is_aio(self.block.nodes[node].ddir)
        {
            slot.in_flight = true;
            self.block.nodes[node].submitted = ctx.now;
            thread.vfs.task = NONE;
            return self.go(t, Step::Queued { busy: false });
        }
        if t == worker {
            // Another call may hold what this one waits for, and be behind it.
            slot.in_flight = true;
            thread.vfs.task = NONE;
            return self.go(t, Step::Vfs);
        }
        if thread.driver.selects() && thread.driver.finds_its_own() {
            return self.look(ctx, t, Loop::Kernel, Time::NEVER);
        }
        self.sleep(ctx, t, Asleep::Vfs)
    }

    /// The call returns.
    fn vfs_done(&mut self, ctx: &mut Ctx, t: u32, task: u32, ok: bool) -> Flow {
        if self.threads[t].driver.awaited() > 0 {
            // It has what it called for; what it read ahead comes by interrupt.
            self.leave_to_interrupt(t);
        }
        if std::mem::take(&mut self.threads[t].vfs.direct) {
            let end = spend!(self, self.threads[t].core(), Finish);
            self.threads[t].pend.entry += end;
        }
        if self.threads[t].pend.total() > 0 {
            let slot = &mut self.paths.vfs.as_mut().expect("a call on a file").slots[task];
            slot.parked = Some(Turn::Done { ok });
            return self.segment(ctx, t, Step::Vfs);
        }
        let lacks = self.paths.vfs.as_ref().map_or(Lack::Nothing, |vfs| vfs.fs.lacks(task));
        let node = self.release_task(ctx, task);
        if lacks != Lack::Nothing {
            self.block.nodes[node].lacks = lacks;
        }
        let core = self.threads[t].core();
        self.threads[t].vfs.task = NONE;
        if self.paths.vfs.as_ref().is_some_and(|v| v.worker == t) {
            self.node_done(ctx, node, ok, Some(core));
            return self.go(t, Step::Vfs);
        }
        let life = self.begin_life(ctx, node);
        ctx.mark(life, Layer::Syscall, Why::Work, core, ctx.now);
        let ddir = self.block.nodes[node].ddir;
        if self.threads[t].is_aio(ddir) {
            // All of it in io_submit.
            self.block.nodes[node].submitted = ctx.now;
            self.node_done(ctx, node, ok, Some(core));
            return self.go(t, Step::Queued { busy: false });
        }
        let n = &mut self.block.nodes[node];
        (n.ok, n.submitted) = (ok, n.issued);
        self.finish_io(ctx, node, 0, 0);
        let serves = self.serves_from_cache(t);
        self.go(t, if serves { Step::Nbd(At::PoolDone) } else { Step::Top })
    }

    /// A task is free for another call; its node.
    fn release_task(&mut self, ctx: &mut Ctx, task: u32) -> u32 {
        let Some(vfs) = &mut self.paths.vfs else { return NONE };
        let slot = &mut vfs.slots[task];
        let (node, thread) = (std::mem::replace(&mut slot.node, NONE), slot.thread);
        (slot.in_flight, slot.slept) = (false, None);
        vfs.free[thread].push(task);
        self.begin_life(ctx, node);
        node
    }

    /// The class of a bio that a thread submits: its I/O's in a direct call of its own, else the
    /// thread's, which for data written to pages is who writes them back. The workload attribute of pages is
    /// their address space's, that of the log its submitter's, or of who waits for it.
    fn class_of_bio(&self, t: u32, bio: &Bio) -> IoClass {
        let thread = &self.threads[t];
        let Some(vfs) = &self.paths.vfs else { return thread.spec().class };
        match vfs.slots.get(thread.vfs.task) {
            Some(s) if s.direct && s.thread == t && s.node != NONE => {
                return self.block.nodes[s.node].class;
            }
            _ if !vfs.marked => return thread.spec().class,
            _ => {}
        }
        let own = thread.spec().class;
        match bio.what {
            What::Data => {
                let of = vfs.spaces.get(bio.tag as usize).copied().unwrap_or_default();
                own.with_workload(of)
            }
            What::Meta | What::Tail | What::Flush => own,
            What::Descriptor | What::Journal | What::Commit | What::Log => {
                let waits = own.workload() == Workload::None && self.critical_waits_for_log(vfs);
                if waits { own.with_workload(Workload::Latency) } else { own }
            }
        }
    }

    /// A latency-critical call waits for the journal or the log.
    fn critical_waits_for_log(&self, vfs: &Vfs) -> bool {
        (0..).zip(&vfs.slots).any(|(task, slot)| {
            slot.node != NONE
                && self.threads[slot.thread].spec().class.workload() == Workload::Latency
                && matches!(
                    vfs.fs.waits_for(task),
                    Some(Wait::Commit(_) | Wait::Iclog | Wait::Checkpoint)
                )
        })
    }

    /// A bio on its way through the block layer, by the thread at work.
    fn submit_bio(&mut self, ctx: &mut Ctx, t: u32, bio: Bio) -> Flow {
        let ddir = match bio.kind {
            BioKind::Read => Ddir::Read,
            BioKind::Write => Ddir::Write,
            BioKind::Flush => Ddir::Sync,
        };
        let disk = self.paths.vfs.as_ref().map_or(0, |vfs| vfs.disk);
        let node = self.new_node(t, ddir, (disk, bio.offset), bio.len);
        let class = self.class_of_bio(t, &bio);
        let slot = self.paths.vfs.as_ref().and_then(|v| v.slots.get(self.threads[t].vfs.task));
        self.threads[t].vfs.waits = slot.is_some_and(|s| s.thread == t && (s.direct || bio.sync));
        let fua = bio.fua && (bio.preflush || !self.is_on_pblk(disk));
        let n = &mut self.block.nodes[node];
        (n.bio, n.fua, n.issued, n.class) = (bio.id, fua, ctx.now, class);
        // op_is_sync.
        n.background = bio.kind == BioKind::Write && !(bio.sync || bio.fua || bio.preflush);
        let thread = &mut self.threads[t];
        // What submit_bh was called for one by one, and the plug merged.
        let more = u64::from(bio.buffers.clamp(1, PLUG_REQUESTS as u32) - 1);
        let core = thread.core();
        thread.pend.block += spend!(self, core, Bio * more);
        if bio.kind == BioKind::Flush {
            self.threads[t].begin_bio(node, Opcode::Flush, false, 0);
            return self.flush_bio(ctx, t);
        }
        let opcode = if bio.kind == BioKind::Read { Opcode::Read } else { Opcode::Write };
        let parts = self.parts(disk, bio.len);
        if parts > 1 {
            self.block.nodes[node].divide(parts);
            self.counters.splits += 1;
        }
        self.threads[t].begin_bio(node, opcode, parts > 1, u64::from(bio.len));
        self.go(t, Step::Part)
    }

    /// A bio has come back.
    pub(crate) fn bio_done(&mut self, ctx: &mut Ctx, n: u32, on: Option<u32>) {
        let node = self.block.nodes[n];
        self.block.nodes.remove(n);
        let Some(vfs) = &mut self.paths.vfs else { return };
        let task = if node.bio == GATE {
            self.threads[node.thread].vfs.task
        } else {
            vfs.owners[node.bio]
        };
        // A bio that read ahead for an earlier call may come back before the next one is issued.
        let issued = |s: &&Slot| s.node != NONE && self.threads[s.thread].call.has_issued(s.node);
        let call = vfs.slots.get(task).filter(issued).map_or(NONE, |s| s.node);
        if node.life != IoId::NONE {
            if call != NONE {
                // A call's life is that of the bio it waited for last.
                let life = self.begin_life(ctx, call);
                ctx.lives.absorb(life, node.life);
            } else if (vfs.kernel_from..vfs.slots.count()).contains(&task) {
                vfs.slots[task].had(ctx, node.life);
            } else {
                ctx.lives.release(node.life);
            }
        }
        if node.bio == GATE {
            self.threads[node.thread].vfs.gated = false;
            if self.threads[node.thread].asleep() == Asleep::Vfs {
                self.wake(ctx, node.thread, on);
            }
            return;
        }
        if let Some(vfs) = &mut self.paths.vfs {
            vfs.fs.bio_done(ctx.now, node.bio, node.ok);
        }
        self.pump_vfs(ctx, on, Some(task));
    }

    /// Wakes whom the file system names, and keeps its clock. They waited for what the task `by` did, if one did it.
    fn pump_vfs(&mut self, ctx: &mut Ctx, on: Option<u32>, by: Option<u32>) {
        loop {
            let Some(vfs) = &mut self.paths.vfs else { return };
            let Some(task) = vfs.fs.poll_wake() else { break };
            let slot = vfs.slots[task];
            if let (Some(by), Some(wait)) = (by, slot.slept)
                && by != task
                && slot.node != NONE
            {
                self.waited_for(ctx, (slot.node, wait), by);
            }
            if slot.in_flight {
                self.end_in_flight(ctx, task, on);
            } else {
                let t = self.running_task(slot.thread, task);
                if self.threads[t].asleep() == Asleep::Vfs {
                    self.wake(ctx, t, on);
                } else if self.threads[t].step() == Step::Looked {
                    self.notice(ctx, t);
                }
            }
        }
        let Some(vfs) = &mut self.paths.vfs else { return };
        if let Some(at) = vfs.fs.deadline()
            && at < vfs.timer
        {
            vfs.timer = at;
            ctx.at(at.max(ctx.now), Kind::HostTimer, 0);
        }
    }

    /// A call that waited for the work of another task had the steps of that task's I/O.
    fn waited_for(&mut self, ctx: &mut Ctx, (node, wait): (u32, Wait), by: u32) {
        let Some(vfs) = &self.paths.vfs else { return };
        let of = &vfs.slots[by];
        let other = if of.node == NONE { of.life } else { self.block.nodes[of.node].life };
        if other == IoId::NONE {
            return;
        }
        let life = self.begin_life(ctx, node);
        let core = self.threads[self.block.nodes[node].thread].core();
        ctx.lives.follow(life, other, (Layer::Syscall, reason(wait), core));
    }

    /// The life of the call on a file that a thread is at; none of a kernel thread.
    pub(crate) fn life_of_call(&mut self, ctx: &mut Ctx, t: u32) -> IoId {
        let slot = self.paths.vfs.as_ref().and_then(|v| v.slots.get(self.threads[t].vfs.task));
        match slot.map(|s| s.node) {
            None | Some(NONE) => IoId::NONE,
            Some(node) => self.begin_life(ctx, node),
        }
    }

    /// The thread at a task: its own, or the worker.
    fn running_task(&self, thread: u32, task: u32) -> u32 {
        match &self.paths.vfs {
            Some(vfs) if self.threads[vfs.worker].vfs.task == task => vfs.worker,
            _ => thread,
        }
    }

    /// An asynchronous call has waited so far, without a thread.
    fn waited(&mut self, ctx: &mut Ctx, task: u32, wait: Wait) {
        let Some(vfs) = &self.paths.vfs else { return };
        let slot = vfs.slots[task];
        if slot.node != NONE {
            let life = self.begin_life(ctx, slot.node);
            ctx.mark(life, Layer::Syscall, reason(wait), self.threads[slot.thread].core(), ctx.now);
        }
    }

    /// What an asynchronous call waited for is over.
    fn end_in_flight(&mut self, ctx: &mut Ctx, task: u32, on: Option<u32>) {
        let Some(vfs) = &mut self.paths.vfs else { return };
        let slot = &mut vfs.slots[task];
        slot.in_flight = false;
        if let Some(wait) = slot.slept.filter(|wait| *wait != Wait::Bios) {
            self.waited(ctx, task, wait);
        }
        let Some(vfs) = &mut self.paths.vfs else { return };
        match vfs.fs.run(ctx.now, task) {
            Turn::Done { ok } => {
                let node = self.release_task(ctx, task);
                self.node_done(ctx, node, ok, on);
            }
            // It waits for something else, and nobody is at it meanwhile.
            Turn::Sleep => {
                let slot = &mut vfs.slots[task];
                let before = std::mem::replace(&mut slot.slept, vfs.fs.waits_for(task));
                slot.in_flight = true;
                if before == Some(Wait::Bios) {
                    self.waited(ctx, task, Wait::Bios);
                }
            }
            turn => {
                let worker = vfs.worker;
                vfs.slots[task].parked = Some(turn);
                vfs.late.push_back(task);
                if self.threads[worker].asleep() == Asleep::Vfs
                    && self.threads[worker].vfs.task == NONE
                {
                    self.wake(ctx, worker, on);
                }
            }
        }
    }

    /// The file system asked to be looked at.
    pub(crate) fn fs_timer(&mut self, ctx: &mut Ctx) {
        let Some(vfs) = &mut self.paths.vfs else { return };
        if vfs.timer > ctx.now {
            return;
        }
        vfs.timer = Time::NEVER;
        if vfs.fs.deadline().is_some_and(|at| at <= ctx.now) {
            vfs.fs.on_timer(ctx.now);
        }
        self.pump_vfs(ctx, None, None);
    }

    /// The file system of its jobs, if there is one.
    pub fn fs(&self) -> Option<&Fs> {
        self.paths.vfs.as_ref().map(|v| &v.fs)
    }
}
