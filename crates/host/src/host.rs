//! The host as a whole: construction, events, cores handing out work, statistics.

use crate::background::{TICK, WORK};
use crate::blkmq::{BlockLayer, Handler, NO_TAG, NONE, Node, Purpose};
use crate::config::{Engine, HostCost, KworkerConfig};
use crate::core::{Core, Irq};
use crate::disk::{Disk, address};
use crate::function::{Function, Spans, spend};
use crate::nbd::{End, Message};
use crate::poll::PollStats;
use crate::sched::Elevator;
use crate::source::Source;
use crate::stats::{Counters, HostStats, PblkStats};
use crate::thread::{Asleep, Reaping, Step, Thread};
use crate::vfs::{Vfs, tasks_of};
use std::collections::VecDeque;
use wordline_base::event::Event;
use wordline_base::track::Track;
use wordline_base::{BadValue, Ctx, Ddir, IoClass, IoId, Kind, Layer, Span, Time, Why};
use wordline_fs::{Fs, FsConfig};
use wordline_ftl::{Brings, Translation, Translator};
use wordline_nvme::{Cqe, QueuePriority, Sqe};

/// A queue pair that must exist on the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueuePair {
    /// The host's disk.
    pub disk: u16,
    pub sq: u16,
    pub cq: u16,
    pub depth: u32,
    pub priority: QueuePriority,
    /// Completions raise interrupts (IEN of Create I/O Completion Queue).
    pub interrupts: bool,
}

/// An I/O that came back to its application. Its life is still in `ctx.lives`: whoever takes this
/// ends it (`lives.end(io)`), so that the steps are not copied on the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finished {
    pub thread: u32,
    pub ddir: Ddir,
    pub disk: u16,
    /// Within the disk.
    pub offset: u64,
    pub len: u32,
    /// fio's start time; the submission call's return; the return to the application. slat is
    /// submitted - issued, clat completed - submitted, lat completed - issued. A synchronous
    /// engine has no slat: submitted is issued.
    pub issued: Time,
    pub submitted: Time,
    pub completed: Time,
    pub ok: bool,
    pub class: IoClass,
    pub io: IoId,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// A command is written to the submission queue's memory, and its tail doorbell.
    Submit {
        disk: u16,
        sq: u16,
        sqe: Sqe,
    },
    Finished(Finished),
    /// A job has issued its last I/O and has everything back.
    Ended {
        thread: u32,
    },
    /// For the host at the other end of this host's connection.
    Send {
        end: u16,
        message: Message,
    },
}

pub struct Host<S> {
    /// In the machine.
    pub(crate) number: u8,
    pub(crate) cost: HostCost,
    pub(crate) spans: Spans,
    pub(crate) kernel: bool,
    pub(crate) time_slice: Span,
    /// Between two scheduler ticks; zero: none.
    pub(crate) tick: Span,
    pub(crate) kworker: KworkerConfig,
    pub(crate) wakeup_granularity: u64,
    pub(crate) sleeper_credit: u64,
    pub(crate) cores: Vec<Core>,
    pub(crate) threads: Vec<Thread<S>>,
    pub(crate) block: BlockLayer,
    pub(crate) vfs: Option<Box<Vfs>>,
    /// Connections to other hosts.
    pub(crate) ends: Vec<End>,
    /// Another host has a drive of this one: it works on when its own jobs are over.
    pub(crate) serves: bool,
    /// Added to the numbers of its cores where several hosts are told apart.
    pub(crate) first_core: u32,
    pub(crate) out: VecDeque<Output>,
    pub(crate) counters: Counters,
    pub(crate) stopping: bool,
    pub(crate) io_poll_delay: i64,
    pub(crate) sq_thread_idle: Span,
    pub(crate) poll_stats: PollStats,
    /// Each core has a hardware queue of its own of every disk, and nothing else couples cores.
    pub(crate) private: bool,
    /// The kernel's driver has the disks: jobs of one core share its queues.
    pub(crate) shared: bool,
    /// By hardware queue, and by disk.
    pub(crate) priorities: Vec<QueuePriority>,
    pub(crate) depths: Vec<u32>,
}

/// Index of a scheduler's HostTimer, with the disk; the file system has index 0.
const ELEVATOR: u32 = 1 << 26;

impl<S: Source> Host<S> {
    /// This host's number in the machine, and that of its first core.
    pub fn numbered(mut self, number: u8, first_core: u32) -> Host<S> {
        (self.number, self.first_core) = (number, first_core);
        self
    }

    pub fn queues(&self) -> impl Iterator<Item = QueuePair> + '_ {
        self.priorities.iter().zip(&self.block.hctxs).enumerate().map(|(i, (&priority, hctx))| {
            let disk = usize::from(hctx.disk);
            let queue = i as u16 - self.block.disks[disk].first;
            QueuePair {
                disk: hctx.disk,
                sq: queue,
                cq: queue,
                depth: self.depths[disk],
                priority,
                interrupts: hctx.interrupts,
            }
        })
    }

    /// The core a job runs on.
    pub fn core_of(&self, thread: u32) -> u32 {
        self.threads[thread as usize].core
    }
    /// The FTL of a disk, if it is on this host.
    pub fn ftl(&self, disk: u16) -> Option<&Translator> {
        self.block.disks[usize::from(disk)].pblk.as_ref().map(|p| &p.ftl)
    }
    /// For preconditioning before the start.
    pub fn ftl_mut(&mut self, disk: u16) -> Option<&mut Translator> {
        self.block.disks[usize::from(disk)].pblk.as_mut().map(|p| &mut p.ftl)
    }

    /// Another host has a drive of this one.
    pub fn serves(&self) -> bool {
        self.serves
    }
    /// Threads of jobs and of the kernel.
    pub fn thread_count(&self) -> u32 {
        self.threads.len() as u32
    }
    /// Threads of jobs.
    pub fn jobs(&self) -> u32 {
        self.threads.iter().filter(|t| t.source.is_some()).count() as u32
    }
    /// Tasks a file system needs for them.
    pub fn file_tasks(&self) -> u32 {
        let jobs = self.threads.iter().filter(|t| t.source.is_some());
        jobs.map(|t| tasks_of(&t.spec)).sum()
    }
    /// Puts a file system between the jobs and the drive. Its applications' tasks are as many as
    /// [`crate::tasks_of`] says for each job.
    pub fn mount(&mut self, fs: Fs) {
        let jobs = self.jobs();
        for thread in &mut self.threads[..jobs as usize] {
            // dio_await_one polls the queue that its bios went to; what else a call waits for comes by
            // interrupt.
            thread.polls &= thread.spec.engine == Engine::Pvsync2
                && thread.poll_hctx == thread.home
                && self.io_poll_delay < 0;
            thread.poll_hctx = thread.home;
        }
        let map = self.block.disks[0].map.clone();
        let cores = self.cores.len() as u32;
        self.vfs = Some(Box::new(Vfs::new(fs, &mut self.threads, jobs, cores, (0, &map))));
        self.made_room();
        // Threads of one core wait for the interrupts of another.
        self.private = false;
    }

    /// Puts a page cache between nbd-server and a drive.
    pub fn cache_served(&mut self, disk: u16, config: &FsConfig) -> Result<(), BadValue> {
        let threads = self.threads.len() as u32;
        let tasks = self.threads.iter().map(|t| tasks_of(&t.spec)).sum();
        let served = &self.block.disks[usize::from(disk)];
        let mut fs = Fs::new(config, served.info.bytes, tasks)?;
        fs.serve_device();
        let map = served.map.clone();
        let cores = self.cores.len() as u32;
        self.vfs = Some(Box::new(Vfs::new(fs, &mut self.threads, threads, cores, (disk, &map))));
        self.made_room();
        Ok(())
    }

    /// There are more threads than before.
    pub(crate) fn made_room(&mut self) {
        for core in &mut self.cores {
            core.ready.reserve(self.threads.len());
        }
        for disk in &mut self.block.disks {
            if let Some(Elevator::Bfq(bfq)) = &mut disk.elevator {
                bfq.add_threads(self.threads.len());
            }
        }
    }

    pub fn start(&mut self, ctx: &mut Ctx) {
        ctx.host = self.number;
        for core in &mut self.cores {
            core.idle_since = Some(ctx.now);
        }
        self.start_background(ctx);
        for (i, thread) in self.threads.iter().enumerate() {
            if thread.asleep == Asleep::Start && thread.spec.start < Time::NEVER {
                ctx.at(thread.spec.start.max(ctx.now), Kind::AppWake, i as u32);
            }
        }
        for d in 0..self.block.disks.len() as u16 {
            if let Some(pblk) = self.block.disks[usize::from(d)].enter(ctx) {
                pblk.ftl.start(ctx);
                self.pump_ftl(ctx, d, None);
            }
        }
    }

    /// Starts a job whose `start` is `Time::NEVER`.
    pub fn start_thread(&mut self, ctx: &mut Ctx, thread: u32, at: Time) {
        debug_assert!(self.threads[thread as usize].asleep == Asleep::Start);
        ctx.host = self.number;
        ctx.at(at, Kind::AppWake, thread);
    }
    /// Wakes a job that sleeps for something to do; one that does not asks by itself before it does.
    pub fn kick(&mut self, ctx: &mut Ctx, thread: u32) {
        let asleep = &mut self.threads[thread as usize];
        if asleep.asleep == Asleep::Timer || !self.kernel {
            asleep.timer_at = ctx.now;
            ctx.host = self.number;
            ctx.at(ctx.now, Kind::AppWake, thread);
        }
    }
    pub fn source_mut(&mut self, thread: u32) -> Option<&mut S> {
        self.threads.get_mut(thread as usize).and_then(|t| t.source.as_mut())
    }
    pub fn source(&self, thread: u32) -> Option<&S> {
        self.threads.get(thread as usize).and_then(|t| t.source.as_ref())
    }

    pub fn on_event(&mut self, ctx: &mut Ctx, event: Event) {
        ctx.host = self.number;
        let index = event.index();
        match event.kind() {
            Kind::CoreDone => self.core_done(ctx, index),
            Kind::AppWake => self.app_wake(ctx, index),
            Kind::HostTimer if index & ELEVATOR != 0 => {
                self.elevator_timer(ctx, (index - ELEVATOR) as u16);
            }
            Kind::HostTimer if index & TICK != 0 => self.tick(ctx, index - TICK),
            Kind::HostTimer if index & WORK != 0 => self.work_due(ctx, index - WORK),
            Kind::HostTimer => self.fs_timer(ctx),
            Kind::Interrupt => self.interrupt(ctx, index as u16),
            Kind::FtlTimer => {
                let of = |disk: &Disk| disk.drive == event.node() && disk.pblk.is_some();
                let Some(d) = self.block.disks.iter().position(of) else { return };
                if let Some(pblk) = self.block.disks[d].enter(ctx) {
                    pblk.ftl.on_timer(ctx, index);
                    self.pump_ftl(ctx, d as u16, None);
                }
            }
            _ => {}
        }
    }

    /// A completion entry of a disk is visible in host memory; with `interrupt` its MSI arrives as well.
    #[inline]
    pub fn on_posted(
        &mut self,
        ctx: &mut Ctx,
        (disk, cq): (u16, u16),
        mut cqe: Cqe,
        interrupt: bool,
    ) {
        ctx.host = self.number;
        // Hardware queues are numbered through all disks.
        let first = self.block.disks[usize::from(disk)].first;
        let cq = first + cq;
        cqe.sq += first;
        if !self.kernel {
            return self.direct_posted(ctx, cq, cqe);
        }
        if self.private {
            let core = self.block.hctxs[usize::from(cq)].core;
            let c = &self.cores[core as usize];
            if c.lazy && c.irq_end <= ctx.now {
                // A handler whose end had no event of its own (see `raise`).
                self.finish_irq(ctx, core);
            }
        }
        let hctx = &mut self.block.hctxs[usize::from(cq)];
        hctx.entries.push_back(cqe);
        if hctx.handler == Handler::Running {
            // nvme_process_cq is still looping: it takes this one up as well.
            let core = hctx.core;
            let stats = self.sampled([cqe].iter());
            let span = Span(spend!(self, core, Completion, StatAdd * stats));
            let c = &mut self.cores[core as usize];
            let at = c.irq_end;
            c.steal(at, span);
            return;
        }
        let interrupt = interrupt && hctx.interrupts;
        if self.has_poller(cq) && self.polled(ctx, cq, interrupt) {
            return;
        }
        if interrupt {
            self.interrupt(ctx, cq);
        }
    }

    /// An MSI of a disk's completion queue, by itself.
    pub fn on_interrupt(&mut self, ctx: &mut Ctx, (disk, cq): (u16, u16)) {
        ctx.host = self.number;
        let first = self.block.disks[usize::from(disk)].first;
        self.interrupt(ctx, first + cq);
    }

    /// An MSI of this hardware queue.
    pub(crate) fn interrupt(&mut self, ctx: &mut Ctx, cq: u16) {
        if !self.kernel {
            return;
        }
        let hctx = &mut self.block.hctxs[usize::from(cq)];
        if hctx.handler == Handler::Off {
            hctx.handler = Handler::Queued;
            let core = hctx.core;
            self.raise(ctx, core, Irq::Vector(cq));
        }
    }

    #[inline]
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// No new I/O is issued; what is in flight drains.
    pub fn stop(&mut self, ctx: &mut Ctx) {
        ctx.host = self.number;
        self.stopping = true;
        for t in 0..self.threads.len() as u32 {
            let thread = &mut self.threads[t as usize];
            let waits = matches!(thread.asleep, Asleep::Start | Asleep::Timer);
            if thread.cur_depth == 0 && (waits || !self.kernel) && thread.source.is_some() {
                thread.asleep = Asleep::Done;
                self.ended(ctx, t);
            } else if waits && self.kernel {
                self.wake(ctx, t, None);
            }
        }
    }

    /// A job is over; its submission thread goes with it.
    pub(crate) fn ended(&mut self, ctx: &mut Ctx, t: u32) {
        self.out.push_back(Output::Ended { thread: t });
        let sq = self.threads[t as usize].sq;
        if sq != NONE {
            self.notice(ctx, sq);
        }
    }

    /// Nothing in flight and nothing left to do.
    pub fn idle(&self) -> bool {
        self.threads.iter().all(|t| match t.source {
            Some(_) => t.asleep == Asleep::Done && t.cur_depth == 0,
            None => {
                use Asleep::{Actions, Events, Ring, Socket, Work};
                matches!(t.asleep, Actions | Events | Ring | Asleep::Vfs | Work | Socket)
            }
        }) && self.block.hctxs.iter().all(|h| h.in_flight() == 0 && h.entries.is_empty())
            && self.out.is_empty()
    }

    /// Of pblk's block device in front of a disk.
    pub fn pblk_stats(&self, disk: u16) -> Option<PblkStats> {
        self.block.disks[usize::from(disk)].pblk.as_ref().map(|p| p.stats)
    }
    /// The counts of one thread so far; its times are in [`Host::stats`].
    pub fn thread_counts(&self, thread: u32) -> &crate::ThreadStats {
        &self.threads[thread as usize].stats
    }

    pub fn stats(&self, now: Time) -> HostStats {
        let mut threads: Vec<_> = self.threads.iter().map(|t| t.stats.clone()).collect();
        for (stats, thread) in threads.iter_mut().zip(&self.threads) {
            stats.name = thread.spec.name.clone();
        }
        for core in &self.cores {
            if let Some((t, user, system)) = core.running(now) {
                threads[t as usize].user += user;
                threads[t as usize].system += system;
            }
        }
        // A reaper's time is its job's.
        for (r, thread) in self.threads.iter().enumerate() {
            if thread.source.is_none() && thread.partner != NONE {
                let reaper = threads[r].clone();
                let job = &mut threads[thread.partner as usize];
                job.user += reaper.user;
                job.system += reaper.system;
                job.voluntary_switches += reaper.voluntary_switches;
                job.involuntary_switches += reaper.involuntary_switches;
            }
        }
        HostStats {
            cores: self.cores.iter().map(|c| c.stats_at(now)).collect(),
            functions: self
                .cores
                .iter()
                .map(|c| c.calls.uses(&self.spans, &self.cost.memory))
                .collect(),
            threads,
            idle_states: self.cores.iter().filter_map(|c| c.idle_states(now)).collect(),
            counters: self.counters,
            pblk: self.disks_stats(|d| d.pblk.as_ref().map(|p| p.stats)),
            bios: self.disks_stats(|d| d.bios.as_ref().map(|b| b.stats())),
        }
    }

    /// The sum over the disks that have any.
    fn disks_stats<T: std::ops::AddAssign>(&self, of: impl Fn(&Disk) -> Option<T>) -> Option<T> {
        self.block.disks.iter().filter_map(of).reduce(|mut sum, one| {
            sum += one;
            sum
        })
    }

    /// From here on the thread's I/O goes to this disk.
    #[inline]
    pub(crate) fn aim(&mut self, t: u32, disk: u16) {
        if self.threads[t as usize].disk != disk {
            self.turn_to(t, disk);
        }
    }
    #[cold]
    pub(crate) fn turn_to(&mut self, t: u32, to: u16) {
        let disk = &self.block.disks[usize::from(to)];
        let thread = &mut self.threads[t as usize];
        let core = thread.core as usize;
        thread.disk = to;
        thread.home = if self.shared {
            disk.map[core]
        } else {
            disk.first + (t % u32::from(disk.unpolled)) as u16
        };
        thread.polls = thread.may_poll && disk.polls;
        thread.poll_hctx = if thread.polls { disk.poll_map[core] } else { thread.home };
        thread.hctx = thread.home;
    }

    /// The connection that a hardware queue stands for, if it does.
    #[inline]
    pub(crate) fn client_of(&self, h: u16) -> Option<u16> {
        self.block.disks[usize::from(self.block.hctxs[usize::from(h)].disk)].client
    }

    // Cores.

    /// Puts an event at the end of the work at hand, unless one is pending that early.
    pub(crate) fn arm(&mut self, ctx: &mut Ctx, core: u32) {
        let c = &mut self.cores[core as usize];
        // A loop whose thread has had its slice ends when another one is ready.
        let due = c.due().max(ctx.now);
        if due < c.armed {
            c.armed = due;
            ctx.at(due, Kind::CoreDone, core);
        }
    }

    fn core_done(&mut self, ctx: &mut Ctx, core: u32) {
        let c = &mut self.cores[core as usize];
        if c.armed == ctx.now {
            c.armed = Time::NEVER;
        }
        if c.due() > ctx.now {
            // An interrupt moved the end of the segment.
            return self.arm(ctx, core);
        }
        if !c.irqs.is_empty() {
            self.finish_irq(ctx, core);
        }
        let c = &mut self.cores[core as usize];
        if c.irqs.is_empty()
            && let Some(segment) = &c.segment
            && segment.end == Time::NEVER
            && c.due() <= ctx.now
        {
            let (t, turn) = (segment.thread, !c.ready.is_empty() && ctx.now >= c.slice_end);
            self.threads[t as usize].looking.resched = turn;
            self.stop_looking(ctx, t, Span::ZERO);
        }
        let c = &mut self.cores[core as usize];
        if c.irqs.is_empty()
            && let Some(segment) = c.segment.take_if(|s| s.end <= ctx.now)
        {
            c.stats.user += segment.user;
            c.stats.system += segment.system;
            let preempt = !c.ready.is_empty();
            let thread = &mut self.threads[segment.thread as usize];
            thread.stats.user += segment.user;
            thread.stats.system += segment.system;
            // Not after the context switch alone: a short slice would never get anywhere.
            let worked = thread.pend.has_work();
            thread.vruntime += segment.user + segment.system;
            let least = c.ready.front().map_or(u64::MAX, |&t| self.threads[t as usize].vruntime);
            let thread = &mut self.threads[segment.thread as usize];
            c.min_vruntime = c.min_vruntime.max(thread.vruntime.min(least));
            if preempt && worked && ctx.now >= c.slice_end {
                thread.stats.involuntary_switches += 1;
                thread.preempted = true;
                c.current = None;
                self.enqueue(core, segment.thread);
            }
            if ctx.tracks.is_some() {
                let t = segment.thread;
                ctx.slice(
                    Track::Core(self.first_core + core),
                    "thread",
                    segment.begin,
                    ctx.now,
                    IoId(t),
                );
            }
            self.run_plan(ctx, segment.thread, segment.split);
        }
        self.schedule(ctx, core);
    }

    /// Gives a core that has no work at hand to the thread that holds it, or to the next one.
    pub(crate) fn schedule(&mut self, ctx: &mut Ctx, core: u32) {
        loop {
            let c = &mut self.cores[core as usize];
            if c.segment.is_some() || !c.irqs.is_empty() {
                break;
            }
            let t = match c.current {
                Some(t) => t,
                None => match c.ready.pop_front() {
                    Some(t) => {
                        c.current = Some(t);
                        let thread = &mut self.threads[t as usize];
                        thread.asleep = Asleep::No;
                        if std::mem::take(&mut thread.preempted) {
                            thread.pend.lead += spend!(self, core, WakeUp);
                        }
                        self.counters.context_switches += 1;
                        self.cores[core as usize].slice_end = self.slice_end(ctx.now);
                        let left = self.leave_idle(ctx, core);
                        self.threads[t as usize].pend.lead += left;
                        t
                    }
                    None => {
                        if c.idle_since.is_none() {
                            self.enter_idle(ctx, core);
                        }
                        break;
                    }
                },
            };
            self.run(ctx, t);
        }
        self.arm(ctx, core);
    }

    /// Makes a sleeping thread runnable. `on` is the core the waker runs on; none is a timer.
    pub(crate) fn wake(&mut self, ctx: &mut Ctx, t: u32, on: Option<u32>) {
        let thread = &mut self.threads[t as usize];
        thread.asleep = Asleep::No;
        let core = thread.core;
        thread.pend.lead += spend!(self, core, WakeUp);
        match on {
            Some(from) if from == core => self.enqueue_woken(ctx, t),
            Some(_) => {
                self.counters.ipis += 1;
                self.raise(ctx, core, Irq::Ipi(t));
            }
            None => {
                self.enqueue_woken(ctx, t);
                self.schedule(ctx, core);
            }
        }
    }

    /// A runnable thread waits for its core.
    pub(crate) fn enqueue(&mut self, core: u32, t: u32) {
        let (c, vruntime) = (&mut self.cores[core as usize], self.threads[t as usize].vruntime);
        let later = |&t: &u32| self.threads[t as usize].vruntime > vruntime;
        let at = c.ready.iter().rposition(|t| !later(t)).map_or(0, |before| before + 1);
        c.ready.insert(at, t);
    }

    /// A thread that slept waits for its core, and may get it at the next end of a segment (CFS:
    /// place_entity, check_preempt_wakeup).
    fn enqueue_woken(&mut self, ctx: &Ctx, t: u32) {
        let core = self.threads[t as usize].core;
        let c = &mut self.cores[core as usize];
        let least = c.min_vruntime.saturating_sub(self.sleeper_credit);
        let thread = &mut self.threads[t as usize];
        thread.vruntime = thread.vruntime.max(least);
        let limit = thread.vruntime + self.wakeup_granularity;
        if let Some(current) = c.current {
            let since = c.segment.as_ref().map_or(0, |s| ctx.now.since(s.begin).0);
            if self.threads[current as usize].vruntime + since > limit {
                c.slice_end = c.slice_end.min(ctx.now);
            } else if self.tick > Span::ZERO && c.slice_end < ctx.now {
                // Nobody was ready when it ended: the next tick tells.
                let next = self.next_tick(ctx.now);
                self.cores[core as usize].slice_end = next;
            }
        }
        self.enqueue(core, t);
    }

    /// Interrupt work for a core.
    pub(crate) fn raise(&mut self, ctx: &mut Ctx, core: u32, irq: Irq) {
        let c = &mut self.cores[core as usize];
        if c.lazy && c.irq_end <= ctx.now {
            self.finish_irq(ctx, core);
        }
        let c = &mut self.cores[core as usize];
        c.irqs.push_back(irq);
        if c.irqs.len() > 1 {
            if std::mem::take(&mut c.lazy) {
                self.arm(ctx, core);
            }
            return;
        }
        // Where a core has a queue of its own, all that a handler completes belongs to threads of
        // this core, and while one of them runs none of them can tell when it ended: the end of
        // the segment, or the next entry, settles it. This saves an event.
        let ends = c.segment.as_ref().is_some_and(|s| s.end < Time::NEVER);
        c.lazy = self.private && ends && matches!(irq, Irq::Vector(_));
        let lazy = c.lazy;
        self.start_irq(ctx, core);
        if !lazy {
            self.arm(ctx, core);
        }
    }

    fn start_irq(&mut self, ctx: &mut Ctx, core: u32) {
        let mut span = match self.cores[core as usize].irqs[0] {
            Irq::Vector(cq) => {
                let hctx = &mut self.block.hctxs[usize::from(cq)];
                hctx.handler = Handler::Running;
                self.counters.interrupts += 1;
                self.counters.empty_interrupts += u64::from(hctx.entries.is_empty());
                let n = hctx.entries.len() as u64;
                let late = std::mem::take(&mut hctx.late);
                let hctx = &self.block.hctxs[usize::from(cq)];
                let stats = self.sampled(hctx.entries.iter());
                if late {
                    spend!(self, core, LateEntry, Interrupt, Completion * n, StatAdd * stats)
                } else {
                    spend!(self, core, InterruptEntry, Interrupt, Completion * n, StatAdd * stats)
                }
            }
            Irq::Ipi(_) => spend!(self, core, Ipi),
            Irq::Timer(_) => spend!(self, core, Timer),
            Irq::Tick => spend!(self, core, Tick),
            Irq::Network(end) => self.network_irq(end, core),
            Irq::Dispatch(rq) => {
                let stats = spend!(self, core, StatIssue * u64::from(self.poll_stats.on));
                stats
                    + self.repair_sum(core, rq)
                    + match self.block.requests[rq].purpose {
                        Purpose::Flush => spend!(self, core, Doorbell),
                        _ => spend!(self, core, DmaMap, Doorbell),
                    }
            }
        };
        span += self.leave_idle(ctx, core);
        let (span, c) = (Span(span), &mut self.cores[core as usize]);
        c.irq_begin = ctx.now;
        c.irq_end = ctx.now;
        c.steal(ctx.now, span);
    }

    /// What a repair reads is added up later, and charged where it is issued as that of other rebuilt
    /// reads is.
    fn repair_sum(&mut self, core: u32, rq: u32) -> u64 {
        let r = &self.block.requests[rq];
        let Purpose::Piece { brings: Brings::Member { .. }, .. } = r.purpose else { return 0 };
        let disk = &mut self.block.disks[usize::from(self.block.hctxs[usize::from(r.hctx)].disk)];
        let Some(pblk) = &mut disk.pblk else { return 0 };
        let sum = pblk.cost.xor_sector.0 * (r.bytes / wordline_base::SECTOR);
        pblk.stats.xor_ns += sum;
        self.cores[core as usize].calls.extra[Function::Ftl as usize] += sum;
        sum
    }

    fn finish_irq(&mut self, ctx: &mut Ctx, core: u32) {
        let c = &mut self.cores[core as usize];
        // It stays at the front until its effects are out, so that what they raise queues up.
        let Some(&irq) = c.irqs.front() else { return };
        c.lazy = false;
        let (begin, end) = (c.irq_begin, c.irq_end);
        if ctx.tracks.is_some() {
            ctx.slice(Track::Core(self.first_core + core), "interrupt", begin, end, IoId::NONE);
        }
        match irq {
            Irq::Vector(cq) => {
                self.block.hctxs[usize::from(cq)].handler = Handler::Off;
                while let Some(cqe) = self.block.hctxs[usize::from(cq)].entries.pop_front() {
                    self.reap(ctx, cq, cqe, core, (begin, end), (Why::CoreBusy, Why::Interrupt));
                }
            }
            Irq::Ipi(t) => {
                let thread = &self.threads[t as usize];
                debug_assert_eq!(thread.core, core);
                self.enqueue_woken(ctx, t);
            }
            Irq::Timer(t) => {
                // hrtimer_wakeup, unless a completion was faster; or a kworker's.
                if matches!(self.threads[t as usize].asleep, Asleep::Hybrid | Asleep::Work) {
                    self.wake(ctx, t, Some(core));
                }
            }
            // What it found out is in the slice's end.
            Irq::Tick => {}
            Irq::Network(end) => self.network_irq_done(ctx, end, core),
            Irq::Dispatch(rq) => {
                self.mark_request(ctx, rq, Layer::Block, Why::Plugged, core, begin);
                self.issue(ctx, rq, core);
            }
        }
        let c = &mut self.cores[core as usize];
        c.irqs.pop_front();
        if !c.irqs.is_empty() {
            self.start_irq(ctx, core);
        }
    }

    fn app_wake(&mut self, ctx: &mut Ctx, t: u32) {
        let thread = &mut self.threads[t as usize];
        if thread.timer == ctx.now {
            thread.timer = Time::NEVER;
        }
        if !self.kernel {
            if thread.asleep != Asleep::Done {
                self.direct_fill(ctx, t);
            }
        } else if thread.asleep == Asleep::Hybrid {
            if thread.timer_at <= ctx.now {
                let core = thread.core;
                self.raise(ctx, core, Irq::Timer(t));
            }
        } else if matches!(thread.asleep, Asleep::Start | Asleep::Timer) {
            if thread.asleep == Asleep::Start {
                // The start of a job is no wake-up of one that runs.
                thread.asleep = Asleep::No;
                let core = thread.core;
                self.enqueue_woken(ctx, t);
                self.schedule(ctx, core);
            } else if thread.timer_at <= ctx.now {
                self.wake(ctx, t, None);
            }
        }
    }

    /// A new node for an I/O of a disk.
    #[inline]
    pub(crate) fn new_node(
        &mut self,
        t: u32,
        ddir: Ddir,
        (disk, offset): (u16, u64),
        len: u32,
    ) -> u32 {
        self.block.nodes.insert(Node {
            disk,
            life: IoId::NONE,
            parent: NONE,
            pending: 1,
            next: NONE,
            thread: t,
            ddir,
            ok: true,
            len,
            offset,
            issued: Time::ZERO,
            submitted: Time::ZERO,
            bio: NONE,
            fua: false,
            merges: false,
            at_ledger: NONE,
            class: self.threads[t as usize].class,
        })
    }

    /// Whether the kernel takes the I/O: O_DIRECT wants whole logical blocks, inside the device.
    pub(crate) fn valid(&self, disk: u16, ddir: Ddir, offset: u64, len: u32) -> bool {
        let drive = &self.block.disks[usize::from(disk)].info;
        let lba = u64::from(drive.lba_bytes);
        ddir.is_sync()
            || len > 0
                && offset.is_multiple_of(lba)
                && u64::from(len).is_multiple_of(lba)
                && offset.checked_add(u64::from(len)).is_some_and(|end| end <= drive.bytes)
    }

    /// Parts of a data I/O: bios of at most 1 MiB, each split at `max_request`.
    pub(crate) fn parts(&self, disk: u16, len: u32) -> u32 {
        let max = self.block.disks[usize::from(disk)].max_request;
        let len = u64::from(len);
        if len <= max && len <= crate::blkmq::BIO_BYTES {
            return 1;
        }
        let whole = len / crate::blkmq::BIO_BYTES;
        let rest = len % crate::blkmq::BIO_BYTES;
        (whole * crate::blkmq::BIO_BYTES.div_ceil(max) + rest.div_ceil(max)) as u32
    }

    /// A child node of `node` and its life, which begins where the parent's has got to.
    pub(crate) fn child(&mut self, node: u32, offset: u64, len: u32) -> u32 {
        let parent = self.block.nodes[node];
        self.block.nodes.insert(Node {
            life: IoId::NONE,
            parent: node,
            pending: 1,
            next: NONE,
            offset,
            len,
            merges: false,
            at_ledger: NONE,
            ..parent
        })
    }

    /// A part, or the whole, is complete: joins it with its siblings. `on` is the core at work.
    pub(crate) fn node_done(&mut self, ctx: &mut Ctx, mut n: u32, ok: bool, on: Option<u32>) {
        self.block.nodes[n].ok &= ok;
        loop {
            let node = &mut self.block.nodes[n];
            node.pending -= 1;
            if node.pending > 0 {
                return;
            }
            if node.merges {
                return self.merged(ctx, n, on);
            }
            let disk = node.disk;
            if self.block.disks[usize::from(disk)].bios.is_some() {
                self.bio_ended(ctx, n, on);
            }
            let node = &self.block.nodes[n];
            if node.parent == NONE {
                return self.io_done(ctx, n, on);
            }
            let (parent, life, ok) = (node.parent, node.life, node.ok);
            self.block.nodes.remove(n);
            let up = &mut self.block.nodes[parent];
            up.ok &= ok;
            if up.pending == 1 {
                ctx.lives.absorb(up.life, life);
            } else {
                ctx.lives.end(life);
            }
            n = parent;
        }
    }

    fn io_done(&mut self, ctx: &mut Ctx, n: u32, on: Option<u32>) {
        let node = self.block.nodes[n];
        if node.bio != NONE {
            return self.bio_done(ctx, n, on);
        }
        let t = node.thread;
        if !self.kernel {
            self.finish_io(ctx, n, 0, 0);
            self.direct_fill(ctx, t);
            return;
        }
        let thread = &mut self.threads[t as usize];
        let is_aio = match thread.spec.engine {
            Engine::Libaio | Engine::IoUring => matches!(node.ddir, Ddir::Read | Ddir::Write),
            Engine::Spdk => true,
            Engine::Pvsync2 | Engine::Null => false,
        };
        let sq = thread.sq;
        if is_aio && sq != NONE {
            self.threads[sq as usize].cur_depth -= 1;
        }
        let thread = &mut self.threads[t as usize];
        let sleeping = if is_aio {
            thread.ring.push_back(n);
            let reaper = thread.partner;
            if reaper != NONE {
                if self.threads[reaper as usize].asleep == Asleep::Events {
                    self.wake(ctx, reaper, on);
                }
                return;
            }
            match thread.asleep {
                Asleep::Events => thread.ring.len() as u32 >= thread.wait_nr,
                asleep => asleep == Asleep::Timer,
            }
        } else {
            matches!(thread.asleep, Asleep::Call | Asleep::Hybrid)
        };
        if sleeping {
            self.wake(ctx, t, on);
        } else if thread.step == Step::Looked {
            self.notice(ctx, t);
        }
    }

    /// The application has its I/O back: `wake` and `work` nanoseconds ended just now.
    pub(crate) fn finish_io(&mut self, ctx: &mut Ctx, n: u32, wake: u64, work: u64) {
        let node = self.block.nodes[n];
        self.block.nodes.remove(n);
        let t = node.thread;
        let thread = &mut self.threads[t as usize];
        let (now, core) = match thread.partner {
            NONE => (ctx.now, thread.core),
            reaper => (ctx.now, self.threads[reaper as usize].core),
        };
        let thread = &mut self.threads[t as usize];
        let held = match thread.reaping {
            _ if thread.partner != NONE => Why::CoreBusy,
            Reaping { min: 0..=1, .. } => Why::CoreBusy,
            Reaping { drain: true, .. } => Why::Drain,
            _ => Why::Batch,
        };
        ctx.mark(node.life, Layer::Completion, held, core, Time(now.0.saturating_sub(wake + work)));
        let woken = Time(now.0.saturating_sub(work));
        ctx.mark(node.life, Layer::Completion, Why::WakeUp, core, woken);
        ctx.mark(node.life, Layer::Completion, Why::Work, core, now);
        if ctx.tracks.is_some() {
            ctx.slice(Track::Job(t), node.ddir.name(), node.issued, now, node.life);
        }
        thread.cur_depth -= 1;
        let Some(source) = &mut thread.source else { return self.served(ctx, t, &node) };
        let latency = now.since(node.issued);
        let place = address(node.disk, node.offset);
        source.finished(node.ddir, place, node.len, node.ok, latency, now);
        if !node.ok {
            self.counters.errors += 1;
            thread.failed |= !thread.spec.continue_on_error;
        }
        self.out.push_back(Output::Finished(Finished {
            thread: t,
            ddir: node.ddir,
            disk: node.disk,
            offset: node.offset,
            len: node.len,
            issued: node.issued,
            submitted: node.submitted,
            completed: now,
            ok: node.ok,
            class: node.class,
            io: node.life,
        }));
    }

    /// Hands a freed hardware tag to who waits for one, or puts it back.
    pub(crate) fn put_driver_tag(&mut self, ctx: &mut Ctx, h: u16, tag: u16, on: u32) {
        let hctx = &mut self.block.hctxs[usize::from(h)];
        hctx.by_tag[usize::from(tag)] = NONE;
        if let Some(rq) = hctx.repairs.pop_front() {
            hctx.by_tag[usize::from(tag)] = rq;
            self.block.requests[rq].tag = tag;
            return self.dispatch(ctx, on, rq);
        }
        let disk = usize::from(hctx.disk);
        if self.block.disks[disk].elevator.is_some() {
            hctx.tags.push(tag);
            // blk_mq_sched_restart.
            self.run_other_queue(ctx, h, on);
            self.after_completion(ctx, h);
        } else if let Some(t) = hctx.waiters.pop_front() {
            self.threads[t as usize].granted = tag;
            self.wake(ctx, t, Some(on));
        } else {
            hctx.tags.push(tag);
            self.notice_tag(ctx, h);
        }
    }

    /// What a scheduler does beyond the queue of the request that completed: kyber's freed token may
    /// be for another queue (kyber_domain_wake), bfq may wait for its thread's next request.
    fn after_completion(&mut self, ctx: &mut Ctx, h: u16) {
        let disk = self.block.hctxs[usize::from(h)].disk;
        let d = usize::from(disk);
        match &mut self.block.disks[d].elevator {
            Some(Elevator::Kyber(_)) => {
                for other in self.block.disks[d].hctxs().filter(|&o| o != h) {
                    let waits = match &self.block.disks[d].elevator {
                        Some(Elevator::Kyber(kyber)) => kyber.waits(other),
                        _ => false,
                    };
                    if waits {
                        let core = self.block.hctxs[usize::from(other)].core;
                        self.run_other_queue(ctx, other, core);
                    }
                }
            }
            Some(Elevator::Bfq(bfq)) => {
                if let Some(until) = bfq.idle_until
                    && until != self.block.disks[d].elevator_timer
                {
                    self.block.disks[d].elevator_timer = until;
                    ctx.at(until, Kind::HostTimer, ELEVATOR | u32::from(disk));
                }
            }
            _ => {}
        }
    }

    /// A request that held up goes out after all.
    pub(crate) fn dispatch(&mut self, ctx: &mut Ctx, core: u32, rq: u32) {
        if let Some(end) = self.client_of(self.block.requests[rq].hctx) {
            return self.queue_nbd(ctx, end, rq, core);
        }
        self.raise(ctx, core, Irq::Dispatch(rq));
    }

    /// blk_mq_run_hw_queue on a core.
    fn run_other_queue(&mut self, ctx: &mut Ctx, h: u16, core: u32) {
        while let Some(rq) = self.block.next_dispatch(h, ctx.now) {
            self.dispatch(ctx, core, rq);
            if self.client_of(h).is_some() {
                // kblockd looks for the rest.
                return;
            }
        }
    }

    fn elevator_timer(&mut self, ctx: &mut Ctx, disk: u16) {
        let disk = &mut self.block.disks[usize::from(disk)];
        if let Some(Elevator::Bfq(bfq)) = &mut disk.elevator
            && bfq.on_timer(ctx.now)
        {
            for h in disk.hctxs() {
                let core = self.block.hctxs[usize::from(h)].core;
                self.run_other_queue(ctx, h, core);
            }
        }
    }

    /// Pollers that look for a tag.
    fn notice_tag(&mut self, ctx: &mut Ctx, h: u16) {
        for i in 0..self.block.hctxs[usize::from(h)].pollers.len() {
            let t = self.block.hctxs[usize::from(h)].pollers[i];
            if self.threads[t as usize].looking.then == Step::TagWait {
                self.notice(ctx, t);
            }
        }
    }

    pub(crate) fn put_sched_tag(&mut self, ctx: &mut Ctx, h: u16, on: u32) {
        let hctx = &mut self.block.hctxs[usize::from(h)];
        match hctx.waiters.pop_front() {
            Some(t) => {
                debug_assert_eq!(self.threads[t as usize].granted, NO_TAG);
                self.wake(ctx, t, Some(on));
            }
            None => {
                hctx.sched_free += 1;
                self.notice_tag(ctx, h);
            }
        }
    }
}
