//! The host as a whole: events, outputs, statistics. `build` puts one together.

mod build;

use crate::block::sched::{LunStats, Luns};
use crate::block::{BlockLayer, NONE};
use crate::config::StackConfig;
use crate::disk::{Disk, DriveInfo};
use crate::driver::poll::WINDOW;
use crate::function::{Costs, spend};
use crate::paths::Paths;
use crate::paths::admit::Bios;
use crate::paths::collector::Collector;
use crate::paths::md::turns::MD;
use crate::paths::nbd::Message;
use crate::paths::pblk::Pblk;
use crate::source::Source;
use crate::stats::{Counters, GcStats, HostStats, MEMORY_OWNERS, PblkStats, ThreadStats};
use crate::tasks::Cfs;
use crate::tasks::background::{TICK, WORK};
use crate::tasks::core::{Core, Irq};
use crate::tasks::thread::{Asleep, Thread};
use crate::{CoreId, DiskId, HctxId, ThreadId};
use std::collections::VecDeque;
use wordline_base::event::Event;
use wordline_base::{Ctx, Ddir, IdVec, IoClass, IoId, Kind, Span, Time};
use wordline_fs::Lack;
use wordline_ftl::{Translation, Translator};
use wordline_nvme::{Cqe, QueuePriority, Sqe};

/// A queue pair that must exist on the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueuePair {
    /// The host's disk.
    pub disk: u16,
    /// The submission queue's id, from 1.
    pub sq: u16,
    /// The id of the completion queue; several submission queues may share one.
    pub cq: u16,
    /// Entries; one stays empty.
    pub depth: u32,
    /// For weighted arbitration.
    pub priority: QueuePriority,
    /// Completions raise interrupts (IEN of Create I/O Completion Queue).
    pub interrupts: bool,
    /// The vector's mask bit is set.
    pub masked: bool,
}

/// An I/O that came back to its application. Its life is still in `ctx.lives`: whoever takes this
/// ends it (`lives.end(io)`), so that the steps are not copied on the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finished {
    /// The thread that issued it.
    pub thread: u32,
    /// What it did, in fio's words.
    pub ddir: Ddir,
    /// The host's disk.
    pub disk: u16,
    /// Within the disk.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
    /// fio's start time: slat counts from here, and so does lat.
    pub issued: Time,
    /// The submission call's return, up to which slat counts and from which clat does. With a synchronous
    /// engine it is `issued`.
    pub submitted: Time,
    /// The return to the application.
    pub completed: Time,
    /// It succeeded.
    pub ok: bool,
    /// What it failed for want of: room that an FTL on the host or a file system did not find, or a file.
    pub lacks: Lack,
    /// Class of the I/O.
    pub class: IoClass,
    /// Its number in `ctx.lives`.
    pub io: IoId,
}

/// What a host wants done or has to tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// A command is written to the submission queue's memory, and its tail doorbell.
    Submit {
        /// The host's disk.
        disk: u16,
        /// The submission queue.
        sq: u16,
        /// The command.
        sqe: Sqe,
        /// The write is made so much later: by an accelerator.
        after: Span,
    },
    /// The mask bit of a completion queue's interrupt vector is written. The host has taken `head` entries
    /// from that queue.
    Mask {
        /// The disk whose drive has the vector.
        disk: u16,
        /// The completion queue of the vector.
        cq: u16,
        /// The bit's new value.
        masked: bool,
        /// Entries taken from the queue since it was made.
        head: u64,
    },
    /// A drive is told whether its FTL may make space for writes before it must.
    Hold {
        /// The disk of the drive.
        disk: u16,
        /// It may not.
        hold: bool,
    },
    /// The answer to a collector's order is wanted ([`Host::gc_reported`]): it is in host memory.
    TakeReport {
        /// The disk of the drive.
        disk: u16,
        /// The core that took the completion up.
        on: u32,
    },
    /// An I/O is over.
    Finished(Finished),
    /// A job has issued its last I/O and has everything back.
    Ended {
        /// The job's thread.
        thread: u32,
    },
    /// For the host at the other end of this host's connection.
    Send {
        /// The other end's number.
        end: u16,
        /// What is sent.
        message: Message,
    },
}

/// A computer, with the sources of its jobs' I/Os. It takes events, completion entries and messages, and is
/// polled for [`Output`]s.
///
/// The fields that rooms see are parts with walls of their own. They are fields, and not behind methods, because
/// a room's functions use several of them at a time.
pub struct Host<S> {
    /// In the machine.
    number: u8,
    /// Added to the numbers of its cores where several hosts are told apart.
    first_core: u32,
    /// What it wants done.
    out: VecDeque<Output>,
    /// No new I/O is issued.
    stopping: bool,
    /// The kernel's driver has the disks: jobs of one core share its queues.
    shared: bool,
    /// By hardware queue.
    priorities: IdVec<HctxId, QueuePriority>,
    /// Entries of a submission queue.
    depths: IdVec<DiskId, u32>,
    /// The settings, which nobody changes.
    pub(crate) stack: StackConfig,
    /// What a call of each function costs.
    pub(crate) cost: Costs,
    /// How cores share their time.
    pub(crate) cfs: Cfs,
    /// The cores.
    pub(crate) cores: IdVec<CoreId, Core>,
    /// Threads of jobs and of the kernel.
    pub(crate) threads: IdVec<ThreadId, Thread<S>>,
    /// The block layer, with all disks.
    pub(crate) block: BlockLayer,
    /// Completions that an io_uring asked to poll for: found by its looks, and by handlers.
    asked_for: [u64; 2],
    /// There are such rings.
    polls_rings: bool,
    /// Files and connections.
    pub(crate) paths: Paths,
    /// A record that every room adds to.
    pub(crate) counters: Counters,
}

/// Index of a scheduler's HostTimer, with the disk; the file system has index 0.
pub(crate) const ELEVATOR: u32 = 1 << 26;

impl<S: Source> Host<S> {
    /// This host's number in the machine, and that of its first core.
    pub fn numbered(mut self, number: u8, first_core: u32) -> Host<S> {
        (self.number, self.first_core) = (number, first_core);
        self
    }

    /// Queue pairs to be made on the drives before it starts.
    pub fn queues(&self) -> impl Iterator<Item = QueuePair> + '_ {
        self.priorities.iter().zip(&self.block.hctxs).enumerate().map(|(i, (&priority, hctx))| {
            let disk = hctx.disk();
            let queue = i as u16 - self.block.disks[disk].first();
            QueuePair {
                disk: hctx.disk(),
                sq: queue,
                cq: hctx.cq() - self.block.disks[disk].first(),
                depth: self.depths[disk],
                priority,
                interrupts: hctx.cqes.interrupts(),
                masked: hctx.is_masked(),
            }
        })
    }

    /// The core a job runs on.
    pub fn core_of(&self, thread: u32) -> u32 {
        self.threads[thread].core()
    }
    /// Jobs that Select-ISR is for and that have their completions by interrupt, and why.
    pub fn not_selected(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.threads.iter().filter(|t| t.is_job()).filter_map(|t| {
            let home = t.spec().disks.first().copied().unwrap_or(0);
            let of_array = self.block.disks[home].paths.is_array();
            let meant = build::may_select(self.stack.flashshare.select_isr, t.spec());
            let why = build::not_selected(t.spec(), of_array)?;
            meant.then_some((&*t.spec().name, why))
        })
    }
    /// Threads of jobs that share a core with little time left, while another had much that one of them may run on:
    /// what Linux would have moved.
    pub fn crowded(&self, now: Time) -> Option<String> {
        if self.stack.migrate || now == Time::ZERO {
            return None;
        }
        let share = |core: CoreId| self.cores[core].stats_at(now).busy() as f64 / now.0 as f64;
        let mut jobs: IdVec<CoreId, Vec<&Thread<S>>> = IdVec::filled(Vec::new(), self.stack.cores);
        self.threads.iter().filter(|t| t.is_job()).for_each(|t| jobs[t.core()].push(t));
        // What a thread with hardly an I/O waits for moves no latency.
        let ios = |t: &Thread<S>| t.stats.issued.iter().sum::<u64>();
        let waited = |core: CoreId| {
            let all: u64 = jobs[core].iter().map(|t| ios(t)).sum();
            jobs[core].iter().any(|t| t.waits_for_core(now) && 100 * ios(t) >= all.max(1))
        };
        let crowded = (0..self.stack.cores).filter(|&core| jobs[core].len() > 1 && waited(core));
        let core = crowded.max_by(|&a, &b| share(a).total_cmp(&share(b)))?;
        let may = |other: &CoreId| {
            let on = |t: &&Thread<S>| {
                let allowed = &t.spec().cpus_allowed;
                allowed.is_empty() || allowed.contains(other)
            };
            jobs[core].iter().any(on)
        };
        let others = (0..self.stack.cores).filter(|&other| other != core).filter(may);
        let free = others.min_by(|&a, &b| share(a).total_cmp(&share(b)))?;
        (share(core) > 0.85 && share(free) < 0.7).then(|| {
            format!(
                "{} threads share core {core}, which was busy for {:.0}% of the time, and core {free} for {:.0}%: threads \
                 stay on the core that they began on (stack.migrate=false), and latencies have their waits for it in \
                 them. Linux moves threads as they wake up: --set stack.migrate=true",
                jobs[core].len(),
                100.0 * share(core),
                100.0 * share(free)
            )
        })
    }
    /// Threads that were to sleep before they poll, for half of what requests took in a window, never did: how long
    /// such a window is.
    pub fn never_slept(&self) -> Option<Span> {
        (self.block.samples() && self.counters.hybrid_sleeps == 0).then_some(WINDOW)
    }
    /// There are rings that are polled.
    pub(crate) fn polls_rings(&self) -> bool {
        self.polls_rings
    }
    /// A ring that is polled has a completion: from a handler, or by a look of its own.
    pub(crate) fn asked_ring_has(&mut self, by_handler: bool) {
        self.asked_for[usize::from(by_handler)] += 1;
    }
    /// Completions that polled rings found themselves, and those that handlers found for them.
    #[cfg(test)]
    pub(crate) fn asked_for(&self) -> [u64; 2] {
        self.asked_for
    }
    /// What rings that are polled did not find themselves, in percent, if it is most of what they asked for.
    pub fn found_by_handlers(&self) -> Option<f64> {
        let [by_looks, by_handlers] = self.asked_for;
        let share = by_handlers as f64 / (by_looks + by_handlers).max(1) as f64;
        (share > 0.5).then_some(100.0 * share)
    }
    /// Of each disk that has fewer hardware queues than `queues` asks for: how many are asked for, how many it
    /// has, and why.
    pub fn fewer_queues(&self) -> impl Iterator<Item = (u32, u32, &'static str)> {
        let (jobs, asked) = (self.jobs(), self.stack.queues);
        self.block.disks.iter().filter_map(move |disk| {
            let own = !disk.paths.is_array() && disk.paths.client().is_none();
            let has = disk.unpolled();
            let why = match self.shared || has < jobs {
                true => "the drive has no more",
                false => "each job has one of its own",
            };
            (own && has < asked).then_some((asked, has, why))
        })
    }
    /// What the host knows of a disk.
    pub fn disk(&self, disk: u16) -> &DriveInfo {
        self.block.disks[disk].info()
    }
    /// The FTL of a disk, if it is on this host.
    pub fn ftl(&self, disk: u16) -> Option<&Translator> {
        self.block.disks[disk].paths.pblk().map(Pblk::ftl)
    }

    /// Threads of jobs and of the kernel.
    pub fn thread_count(&self) -> u32 {
        self.threads.len() as u32
    }
    /// Threads of jobs.
    pub fn jobs(&self) -> u32 {
        self.threads.iter().filter(|t| t.is_job()).count() as u32
    }
    /// There are more threads than before.
    pub(crate) fn made_room(&mut self) {
        for core in &mut self.cores {
            core.make_room(self.threads.len());
        }
        for disk in &mut self.block.disks {
            disk.queue.make_room(self.threads.len());
        }
    }

    /// It is at work from here on: events that are set are its own.
    #[inline]
    pub(crate) fn enter(&self, ctx: &mut Ctx) {
        ctx.host = self.number;
    }
    /// Its first core, where those of several hosts are counted one after the other.
    pub fn first_core(&self) -> u32 {
        self.first_core
    }
    /// A core as it is called where several hosts are told apart.
    #[inline]
    pub(crate) fn place_of(&self, core: CoreId) -> u32 {
        self.first_core + core
    }
    /// No new I/O is issued.
    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping
    }
    /// It wants this done, after what it wanted before.
    #[inline]
    pub(crate) fn put_out(&mut self, output: Output) {
        self.out.push_back(output);
    }

    /// Sets the first events.
    pub fn start(&mut self, ctx: &mut Ctx) {
        self.enter(ctx);
        for core in &mut self.cores {
            core.start(ctx.now);
        }
        self.start_background(ctx);
        self.md_start(ctx);
        self.start_collectors(ctx);
        for (i, thread) in self.threads.iter().enumerate() {
            if thread.asleep() == Asleep::Start && thread.spec().start < Time::NEVER {
                ctx.at(thread.spec().start.max(ctx.now), Kind::AppWake, i as u32);
            }
        }
        for d in 0..self.block.disks.len() as u16 {
            if let Some(pblk) = self.block.disks[d].enter(ctx) {
                pblk.start(ctx);
                self.pump_ftl(ctx, d, None);
            }
        }
    }

    /// Starts a job whose `start` is `Time::NEVER`.
    pub fn start_thread(&mut self, ctx: &mut Ctx, thread: u32, at: Time) {
        debug_assert!(self.threads[thread].asleep() == Asleep::Start);
        self.enter(ctx);
        ctx.at(at, Kind::AppWake, thread);
    }
    /// Wakes a job that sleeps for something to do; one that does not asks by itself before it does.
    pub fn kick(&mut self, ctx: &mut Ctx, thread: u32) {
        let sleeper = &mut self.threads[thread];
        if sleeper.asleep() == Asleep::Timer || !self.stack.kernel {
            sleeper.asks_for(ctx.now);
            self.enter(ctx);
            ctx.at(ctx.now, Kind::AppWake, thread);
        }
    }
    /// A thread that pauses is woken at this time at the latest.
    pub fn shorten_pause(&mut self, ctx: &mut Ctx, thread: u32, at: Time) {
        let sleeper = &mut self.threads[thread];
        sleeper.engine.shorten_pause(at);
        if sleeper.asleep() == Asleep::Timer && at < sleeper.asked_for() || !self.stack.kernel {
            sleeper.asks_for(at);
            if sleeper.set_timer(at) {
                self.enter(ctx);
                ctx.at(at, Kind::AppWake, thread);
            }
        }
    }
    /// Where a thread's I/Os come from, to be changed.
    pub fn source_mut(&mut self, thread: u32) -> Option<&mut S> {
        self.threads.get_mut(thread).and_then(Thread::source_mut)
    }
    /// Where a thread's I/Os come from.
    pub fn source(&self, thread: u32) -> Option<&S> {
        self.threads.get(thread).and_then(Thread::source)
    }

    /// Takes an event that it set.
    pub fn on_event(&mut self, ctx: &mut Ctx, event: Event) {
        self.enter(ctx);
        let index = event.index();
        match event.kind() {
            Kind::CoreDone => self.core_done(ctx, index),
            Kind::AppWake => self.app_wake(ctx, index),
            Kind::HostTimer if index & ELEVATOR != 0 => {
                self.elevator_timer(ctx, (index - ELEVATOR) as u16);
            }
            Kind::HostTimer if index & MD != 0 => self.md_timer(ctx, index - MD),
            Kind::HostTimer if index & TICK != 0 => self.tick(ctx, index - TICK),
            Kind::HostTimer if index & WORK != 0 => self.work_due(ctx, index - WORK),
            Kind::HostTimer => self.fs_timer(ctx),
            Kind::Interrupt => self.interrupt(ctx, index as u16),
            Kind::FtlTimer => {
                let of = |disk: &Disk| disk.drive() == event.node() && disk.paths.has_ftl();
                let Some(d) = self.block.disks.iter().position(of) else { return };
                let d = d as u16;
                if let Some(pblk) = self.block.disks[d].enter(ctx) {
                    pblk.on_timer(ctx, index);
                    self.pump_ftl(ctx, d, None);
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
        self.enter(ctx);
        // Hardware queues are numbered through all disks.
        let first = self.block.disks[disk].first();
        let cq = first + cq;
        cqe.sq += first;
        if !self.stack.kernel {
            return self.direct_posted(ctx, cq, cqe);
        }
        if self.cfs.has_private_queues() {
            let core = self.block.hctxs[cq].core();
            let c = &self.cores[core];
            if c.owes_an_end(ctx.now) {
                // A handler whose end had no event of its own (see `raise`).
                self.finish_irq(ctx, core);
            }
        }
        let hctx = &mut self.block.hctxs[cq];
        if hctx.cqes.post(cqe) {
            let core = hctx.core();
            let stats = self.sampled([cqe].iter());
            let span = Span(match self.block.hctxs[cq].is_sata() {
                true => self.sata_entry(core),
                false => spend!(self, core, Completion, StatAdd * stats),
            });
            let c = &mut self.cores[core];
            c.prolong(span);
            return;
        }
        let interrupt = interrupt && hctx.cqes.interrupts() && !hctx.is_masked();
        if self.has_poller(cq) && self.polled(ctx, cq, interrupt) {
            return;
        }
        if interrupt {
            self.interrupt(ctx, cq);
        }
    }

    /// An MSI of a disk's completion queue, by itself.
    pub fn on_interrupt(&mut self, ctx: &mut Ctx, (disk, cq): (u16, u16)) {
        self.enter(ctx);
        let first = self.block.disks[disk].first();
        self.interrupt(ctx, first + cq);
    }

    /// An MSI of this hardware queue.
    pub(crate) fn interrupt(&mut self, ctx: &mut Ctx, cq: u16) {
        if !self.stack.kernel {
            return;
        }
        let hctx = &mut self.block.hctxs[cq];
        if hctx.cqes.interrupt() {
            let core = hctx.core();
            self.raise(ctx, core, Irq::Vector(cq));
        }
    }

    /// Whether [`Host::poll`] has something.
    #[inline]
    pub fn has_output(&self) -> bool {
        !self.out.is_empty()
    }
    /// What it wants done next; call until `None` after each input.
    #[inline]
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }
    /// The same where it is.
    #[inline]
    pub fn first_output(&self) -> Option<&Output> {
        self.out.front()
    }
    /// That one is done.
    #[inline]
    pub fn drop_output(&mut self) {
        self.out.pop_front();
    }

    /// No new I/O is issued; what is in flight drains.
    pub fn stop(&mut self, ctx: &mut Ctx) {
        self.enter(ctx);
        self.stopping = true;
        for t in 0..self.threads.len() as u32 {
            let thread = &mut self.threads[t];
            let waits = matches!(thread.asleep(), Asleep::Start | Asleep::Timer);
            if thread.engine.in_flight() == 0 && (waits || !self.stack.kernel) && thread.is_job() {
                thread.end();
                self.ended(ctx, t);
            } else if waits && self.stack.kernel {
                self.wake(ctx, t, None);
            }
        }
    }

    /// A job is over; its submission thread goes with it.
    pub(crate) fn ended(&mut self, ctx: &mut Ctx, t: u32) {
        self.threads[t].commit_nulls();
        self.out.push_back(Output::Ended { thread: t });
        let sq = self.threads[t].engine.submitter();
        if sq != NONE {
            self.notice(ctx, sq);
        }
    }

    /// Nothing in flight and nothing left to do.
    pub fn idle(&self) -> bool {
        self.threads.iter().all(|t| match t.is_job() {
            true => t.asleep() == Asleep::Done && t.engine.in_flight() == 0,
            false => {
                use Asleep::{Actions, Events, Ring, Socket, Work};
                matches!(t.asleep(), Actions | Events | Ring | Asleep::Vfs | Work | Socket)
            }
        }) && self.block.hctxs.iter().all(|h| h.in_flight() == 0 && h.cqes.is_empty())
            && self.out.is_empty()
    }

    /// What the collector of a drive with its FTL did.
    pub fn gc_stats(&self, disk: u16) -> Option<GcStats> {
        self.block.disks[disk].paths.collector().map(Collector::stats)
    }
    /// What the scheduler by LUN of a disk did.
    pub fn lun_stats(&self, disk: u16) -> Option<LunStats> {
        self.block.disks[disk].queue.luns().map(Luns::stats)
    }
    /// Counts of pblk's block device in front of a disk.
    pub fn pblk_stats(&self, disk: u16) -> Option<PblkStats> {
        self.block.disks[disk].paths.pblk().map(Pblk::stats)
    }
    /// Counts up to `now`.
    pub fn stats(&self, now: Time) -> HostStats {
        HostStats {
            cores: self.cores.iter().map(|c| c.stats_at(now)).collect(),
            functions: (0..self.cores.len() as u32).map(|core| self.uses(core, now)).collect(),
            threads: std::mem::take(&mut *self.threads_at(now)),
            idle_states: self.cores.iter().filter_map(|c| c.idle_states(now)).collect(),
            counters: self.counters,
            memory: self.memory(),
            pblk: self.disks_stats(|d| d.paths.pblk().map(Pblk::stats)),
            gc: self.disks_stats(|d| d.paths.collector().map(Collector::stats)),
            bios: self.disks_stats(|d| d.paths.bios().map(Bios::stats)),
        }
    }
    /// What was counted of each thread so far.
    pub fn threads_at(&self, now: Time) -> IdVec<ThreadId, ThreadStats> {
        let mut threads: IdVec<ThreadId, _> =
            self.threads.iter().map(|t| t.stats.clone()).collect();
        for (stats, thread) in threads.iter_mut().zip(&self.threads) {
            stats.name = thread.spec().name.clone();
        }
        for core in &self.cores {
            if let Some((t, user, system)) = core.running(now) {
                threads[t].user += user;
                threads[t].system += system;
            }
        }
        // A reaper's time is its job's.
        for (r, thread) in (0..).zip(&self.threads) {
            if !thread.is_job() && thread.engine.partner() != NONE {
                let reaper = threads[r].clone();
                let job = &mut threads[thread.engine.partner()];
                job.user += reaper.user;
                job.system += reaper.system;
                job.voluntary_switches += reaper.voluntary_switches;
                job.involuntary_switches += reaper.involuntary_switches;
            }
        }
        threads
    }

    /// Bytes by `MEMORY_OWNERS`.
    fn memory(&self) -> [u64; MEMORY_OWNERS.len()] {
        let (mut nodes, mut buffer, mut tables, mut drivers) = (0, 0, 0, 0);
        for (disk, &depth) in self.block.disks.iter().zip(&self.depths) {
            if let Some(pblk) = disk.paths.pblk() {
                let of = pblk.ftl().host_memory();
                (nodes, buffer, tables) =
                    (nodes + of.nodes, buffer + of.buffer, tables + of.tables);
            }
            drivers += disk.paths.array().map_or(0, |array| array.memory().iter().sum());
            tables += disk.paths.collector().map_or(0, Collector::memory);
            tables += disk.queue.luns().map_or(0, Luns::memory);
            // Entries of 64 and 16 bytes.
            drivers += disk.hctxs().len() as u64 * u64::from(depth) * (64 + 16);
        }
        let pages = self.fs().map_or(0, |fs| fs.cached_pages() * 4096);
        [nodes, buffer, tables, drivers, pages]
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
        if self.threads[t].disk() != disk {
            self.turn_to(t, disk);
        }
    }
    #[cold]
    pub(crate) fn turn_to(&mut self, t: u32, to: u16) {
        let disk = &self.block.disks[to];
        let thread = &mut self.threads[t];
        let home = if self.shared { disk.home(thread.core()) } else { disk.own_queue(t) };
        thread.turn_to(to, disk, home);
    }

    /// The connection that a hardware queue stands for, if it does.
    #[inline]
    pub(crate) fn client_of(&self, h: u16) -> Option<u16> {
        self.block.disks[self.block.hctxs[h].disk()].paths.client()
    }
}
