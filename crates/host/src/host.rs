//! The host as a whole: construction, events, cores handing out work, statistics.

use crate::background::{TICK, WORK};
use crate::bio::Bios;
use crate::blkmq::{BlockLayer, Handler, Hctx, NO_TAG, NONE, Node, Purpose, map_queues};
use crate::config::{Engine, HostCost, KworkerConfig, Scheduler, StackConfig};
use crate::core::{Core, Irq};
use crate::error::{HostError, Queues};
use crate::function::{Function, Spans, spans, spend};
use crate::idle::Menu;
use crate::nbd::{Message, Nbd};
use crate::pblk::{Merges, Pblk};
use crate::poll::PollStats;
use crate::sched::{Bfq, Deadline, Elevator, Kyber, bfq};
use crate::source::{Source, ThreadSpec};
use crate::stats::{Counters, HostStats};
use crate::thread::{Asleep, Reaping, Step, Thread};
use crate::vfs::{Vfs, tasks_of};
use std::collections::VecDeque;
use wordline_base::event::Event;
use wordline_base::track::Track;
use wordline_base::{
    BadValue, Ctx, Ddir, IoClass, IoId, Kind, Layer, Priority, Slab, Span, Time, Why,
};
use wordline_fs::{Fs, FsConfig};
use wordline_ftl::config::FtlCost;
use wordline_ftl::{Brings, Translation, Translator};
use wordline_nvme::{Cqe, QueuePriority, Sqe};

/// What the host needs to know of the drive.
#[derive(Clone, Debug)]
pub struct DriveInfo {
    /// Bytes of the namespace; for an FTL on the host, of the drive pblk presents.
    pub bytes: u64,
    pub lba_bytes: u32,
    /// Queue pairs and entries of a queue that the controller supports.
    pub queues: u32,
    pub depth: u32,
    /// Largest command in bytes (MDTS); 0 is no limit.
    pub max_transfer: u32,
    /// Whether a flush means anything: without a volatile cache the block layer drops it.
    pub volatile_cache: bool,
    /// Sectors of a write unit of an open-channel drive.
    pub unit_sectors: u32,
}

/// A queue pair that must exist on the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueuePair {
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
        sq: u16,
        sqe: Sqe,
    },
    Finished(Finished),
    /// A job has issued its last I/O and has everything back.
    Ended {
        thread: u32,
    },
    /// For the host at the other end of a network block device.
    Send(Message),
}

pub struct Host<S> {
    pub(crate) cost: HostCost,
    pub(crate) spans: Spans,
    pub(crate) kernel: bool,
    pub(crate) time_slice: Span,
    /// Between two scheduler ticks; zero: none.
    pub(crate) tick: Span,
    pub(crate) kworker: KworkerConfig,
    wakeup_granularity: u64,
    sleeper_credit: u64,
    pub(crate) drive: DriveInfo,
    pub(crate) cores: Vec<Core>,
    pub(crate) threads: Vec<Thread<S>>,
    pub(crate) block: BlockLayer,
    pub(crate) pblk: Option<Box<Pblk>>,
    pub(crate) bios: Option<Box<Bios>>,
    pub(crate) vfs: Option<Box<Vfs>>,
    pub(crate) nbd: Option<Box<Nbd>>,
    /// Added to the indices of its events, and to the numbers of its cores.
    pub(crate) event_base: u32,
    pub(crate) first_core: u32,
    pub(crate) out: VecDeque<Output>,
    pub(crate) counters: Counters,
    pub(crate) stopping: bool,
    pub(crate) io_poll_delay: i64,
    pub(crate) sq_thread_idle: Span,
    pub(crate) poll_stats: PollStats,
    /// The timer of the scheduler that is set.
    elevator_timer: Time,
    /// Each core has a hardware queue of its own, and nothing else couples cores.
    pub(crate) private: bool,
    /// Hardware queue by core.
    pub(crate) map: Vec<u16>,
    priorities: Vec<QueuePriority>,
    depth: u32,
}

/// Index of the scheduler's HostTimer; the file system has the others.
const ELEVATOR: u32 = 1 << 26;

impl<S: Source> Host<S> {
    /// Whether a host can be built for these jobs: all that [`Host::new`] refuses, without a source.
    /// `ftl`: the drive's FTL is on the host. `files`: so is a file system.
    pub fn check(
        stack: &StackConfig,
        jobs: &[&ThreadSpec],
        drive: &DriveInfo,
        ftl: bool,
        files: bool,
    ) -> Result<(), HostError> {
        let queues = Queues::new(stack, jobs, drive, ftl)?;
        if files { queues.check_files(stack, jobs) } else { Ok(()) }
    }

    pub fn new(
        stack: &StackConfig,
        jobs: Vec<(ThreadSpec, S)>,
        drive: DriveInfo,
        ftl: Option<(Translator, FtlCost)>,
    ) -> Result<Host<S>, HostError> {
        let specs: Vec<&ThreadSpec> = jobs.iter().map(|(spec, _)| spec).collect();
        let has = Queues::new(stack, &specs, &drive, ftl.is_some())?;
        let Queues { shared, count: queues, poll: poll_queues, depth } = has;
        let spdk = stack.kernel && !shared;
        let count = jobs.len() as u32;
        let (map, vectors) = if shared {
            map_queues(stack.cores, queues)
        } else {
            (vec![0; stack.cores as usize], vec![0; queues as usize])
        };
        // Polled requests have queues behind the others, or the same.
        let poll_map: Vec<u16> = match poll_queues {
            0 => map.clone(),
            n => map_queues(stack.cores, n).0.iter().map(|q| q + queues as u16).collect(),
        };

        let mut priorities = vec![None; (queues + poll_queues) as usize];
        let mut load = vec![0u32; stack.cores as usize];
        let mut threads = Vec::with_capacity(2 * jobs.len() + 1);
        for (index, (spec, source)) in jobs.into_iter().enumerate() {
            let q = index % queues as usize;
            let priority = spec.class.queue();
            priorities[q] = Some(priority);
            // The allowed core with the fewest threads, the lowest of equals: round robin.
            let all: Vec<u32> = (0..stack.cores).collect();
            let allowed = if spec.cpus_allowed.is_empty() { &all } else { &spec.cpus_allowed };
            let core = allowed.iter().copied().min_by_key(|&c| (load[c as usize], c)).unwrap_or(0);
            load[core as usize] += 1;
            let hctx = if shared { map[core as usize] } else { q as u16 };
            let mut thread = Thread::new(spec.fixed_up(), Some(source), core, hctx);
            let knows = matches!(thread.spec.engine, Engine::Pvsync2 | Engine::IoUring);
            // A bio-based device cannot be polled (BLK_QC_T_NONE).
            thread.polls =
                shared && knows && thread.spec.hipri && stack.io_poll > 0 && ftl.is_none();
            if thread.polls {
                thread.poll_hctx = poll_map[core as usize];
            }
            threads.push(thread);
        }
        let mut pblk = match ftl {
            Some((ftl, cost)) => {
                let core = stack.ftl_core.unwrap_or(stack.cores - 1);
                let spec = ThreadSpec::new("pblk", Engine::Null, 1);
                let mut thread = Thread::new(spec, None, core, map[core as usize]);
                thread.step = Step::Kernel;
                thread.asleep = Asleep::Actions;
                threads.push(thread);
                Some(Box::new(Pblk {
                    ftl,
                    cost,
                    unit_sectors: drive.unit_sectors,
                    thread: count,
                    actions: VecDeque::with_capacity(64),
                    repairs: Vec::new(),
                    merges: None,
                    stats: Default::default(),
                }))
            }
            None => None,
        };

        for job in 0..count {
            if !threads[job as usize].spec.reaper || !stack.kernel {
                continue;
            }
            let core = (0..stack.cores).min_by_key(|&c| (load[c as usize], c)).unwrap_or(0);
            load[core as usize] += 1;
            let spec = ThreadSpec::new("reaper", Engine::Libaio, 1);
            let mut reaper = Thread::new(spec, None, core, map[core as usize]);
            (reaper.step, reaper.asleep, reaper.partner) = (Step::Collect, Asleep::Events, job);
            threads[job as usize].partner = threads.len() as u32;
            threads.push(reaper);
        }
        for job in 0..count {
            let thread = &threads[job as usize];
            if !has.has_sq_thread(&thread.spec) {
                continue;
            }
            let core = thread.spec.sqthread_poll_cpu.unwrap_or_else(|| {
                (0..stack.cores).min_by_key(|&c| (load[c as usize], c)).unwrap_or(0)
            });
            load[core as usize] += 1;
            let mut spec = ThreadSpec::new("io_uring-sq", Engine::IoUring, 1);
            (spec.hipri, spec.class) = (thread.spec.hipri, thread.spec.class);
            let polls = thread.polls;
            let home = if polls { poll_map[core as usize] } else { map[core as usize] };
            let mut sq = Thread::new(spec, None, core, home);
            (sq.step, sq.asleep, sq.owner, sq.polls) = (Step::SqLoop, Asleep::Ring, job, polls);
            threads[job as usize].sq = threads.len() as u32;
            threads.push(sq);
        }
        if stack.kernel && stack.kworker.interval > Span::ZERO {
            for core in 0..stack.cores {
                let spec = ThreadSpec::new(&format!("kworker/{core}"), Engine::Null, 1);
                let mut worker = Thread::new(spec, None, core, map[core as usize]);
                (worker.step, worker.asleep) = (Step::Kworker, Asleep::Work);
                threads.push(worker);
            }
        }
        let hctxs = (queues + poll_queues) as usize;
        let bios = (stack.bio_scheduler == Scheduler::Kyber).then(|| {
            let core = (0..stack.cores).min_by_key(|&c| (load[c as usize], c)).unwrap_or(0);
            let spec = ThreadSpec::new("bios", Engine::Null, 1);
            let mut worker = Thread::new(spec, None, core, map[core as usize]);
            (worker.step, worker.asleep) = (Step::NextBio, Asleep::Actions);
            threads.push(worker);
            Box::new(Bios::new(Kyber::new(&stack.kyber, hctxs), threads.len() as u32 - 1))
        });
        if let Some(pblk) = &mut pblk
            && drive.lba_bytes < 4096
        {
            // Beside the thread that writes, which takes it from there.
            let core = threads[pblk.thread as usize].core;
            let spec = ThreadSpec::new("pblk-merge", Engine::Null, 1);
            let mut worker = Thread::new(spec, None, core, map[core as usize]);
            (worker.step, worker.asleep) = (Step::NextMerge, Asleep::Actions);
            threads.push(worker);
            pblk.merges = Some(Box::new(Merges::new(threads.len() as u32 - 1)));
        }
        let reapers = threads.iter().any(|t| t.partner != NONE || t.owner != NONE);
        let max_request = match drive.max_transfer {
            0 => u64::from(stack.max_request),
            max => u64::from(stack.max_request.min(max) / 4096 * 4096).max(4096),
        };
        let in_use: usize = threads.iter().map(|t| t.spec.iodepth as usize + 1).sum();
        let requests = in_use.min(1 << 16);
        let elevator = match stack.scheduler {
            _ if !shared => None,
            Scheduler::None => None,
            Scheduler::MqDeadline => {
                Some(Elevator::Deadline(Deadline::new(&stack.deadline, requests)))
            }
            Scheduler::Kyber => Some(Elevator::Kyber(Box::new(Kyber::new(&stack.kyber, hctxs)))),
            Scheduler::Bfq => {
                let of = |t: &Thread<S>| match t.spec.class.effective() {
                    (Priority::RealTime, level) => (0, bfq::weight_of(level)),
                    (Priority::Idle, level) => (2, bfq::weight_of(level)),
                    (_, level) => (1, bfq::weight_of(level)),
                };
                let of: Vec<_> = threads.iter().map(of).collect();
                let mut bfq = Bfq::new(&stack.bfq, &of);
                bfq.polled = poll_queues > 0;
                Some(Elevator::Bfq(Box::new(bfq)))
            }
        };
        Ok(Host {
            spans: spans(&stack.cost),
            cost: stack.cost.clone(),
            kernel: stack.kernel,
            time_slice: stack.time_slice,
            tick: match stack.tick_hz {
                0 => Span::ZERO,
                hz => Span(Span::from_secs(1).0 / u64::from(hz)),
            },
            kworker: stack.kworker.clone(),
            wakeup_granularity: stack.wakeup_granularity.0,
            sleeper_credit: stack.sleeper_credit.0,
            cores: (0..stack.cores)
                .map(|_| Core::new(threads.len(), Menu::new(&stack.idle)))
                .collect(),
            threads,
            block: BlockLayer {
                nodes: Slab::with_capacity(in_use),
                requests: Slab::with_capacity(requests),
                hctxs: vectors
                    .iter()
                    .map(|&c| (c, !spdk))
                    .chain((0..poll_queues).map(|_| (0, false)))
                    .map(|(core, interrupts)| Hctx {
                        interrupts,
                        ..Hctx::new(core, depth, stack.scheduler_tags)
                    })
                    .collect(),
                elevator,
                sched_tags: stack.scheduler_tags,
                max_request,
                merge: stack.merge,
            },
            out: VecDeque::with_capacity(256),
            counters: Counters::default(),
            stopping: false,
            io_poll_delay: stack.io_poll_delay,
            sq_thread_idle: stack.sq_thread_idle,
            poll_stats: PollStats::default(),
            map,
            elevator_timer: Time::NEVER,
            private: shared
                && queues == stack.cores
                && stack.scheduler == Scheduler::None
                && pblk.is_none()
                && !reapers,
            pblk,
            bios,
            vfs: None,
            nbd: None,
            event_base: 0,
            first_core: 0,
            priorities: priorities.into_iter().map(Option::unwrap_or_default).collect(),
            depth,
            drive,
        })
    }

    pub fn queues(&self) -> impl Iterator<Item = QueuePair> + '_ {
        self.priorities.iter().enumerate().map(|(i, &priority)| QueuePair {
            sq: i as u16,
            cq: i as u16,
            depth: self.depth,
            priority,
            interrupts: self.block.hctxs[i].interrupts,
        })
    }

    /// The core a job runs on.
    pub fn core_of(&self, thread: u32) -> u32 {
        self.threads[thread as usize].core
    }
    pub fn ftl(&self) -> Option<&Translator> {
        self.pblk.as_ref().map(|p| &p.ftl)
    }
    /// For preconditioning before the start.
    pub fn ftl_mut(&mut self) -> Option<&mut Translator> {
        self.pblk.as_mut().map(|p| &mut p.ftl)
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
        let map = self.map.clone();
        let cores = self.cores.len() as u32;
        self.vfs = Some(Box::new(Vfs::new(fs, &mut self.threads, jobs, cores, &map)));
        self.made_room();
        // Threads of one core wait for the interrupts of another.
        self.private = false;
    }

    /// Puts a page cache between nbd-server and the drive.
    pub fn cache_served(&mut self, config: &FsConfig) -> Result<(), BadValue> {
        let threads = self.threads.len() as u32;
        let tasks = self.threads.iter().map(|t| tasks_of(&t.spec)).sum();
        let mut fs = Fs::new(config, self.drive.bytes, tasks)?;
        fs.serve_device();
        let map = self.map.clone();
        let cores = self.cores.len() as u32;
        self.vfs = Some(Box::new(Vfs::new(fs, &mut self.threads, threads, cores, &map)));
        self.made_room();
        Ok(())
    }

    /// There are more threads than before.
    pub(crate) fn made_room(&mut self) {
        for core in &mut self.cores {
            core.ready.reserve(self.threads.len());
        }
        if let Some(Elevator::Bfq(bfq)) = &mut self.block.elevator {
            bfq.add_threads(self.threads.len());
        }
    }

    pub fn start(&mut self, ctx: &mut Ctx) {
        for core in &mut self.cores {
            core.idle_since = Some(ctx.now);
        }
        self.start_background(ctx);
        for (i, thread) in self.threads.iter().enumerate() {
            if thread.asleep == Asleep::Start && thread.spec.start < Time::NEVER {
                let index = self.event_base | i as u32;
                ctx.at(thread.spec.start.max(ctx.now), Kind::AppWake, index);
            }
        }
        if let Some(pblk) = &mut self.pblk {
            pblk.ftl.start(ctx);
            self.pump_ftl(ctx, None);
        }
    }

    /// Starts a job whose `start` is `Time::NEVER`.
    pub fn start_thread(&mut self, ctx: &mut Ctx, thread: u32, at: Time) {
        debug_assert!(self.threads[thread as usize].asleep == Asleep::Start);
        ctx.at(at, Kind::AppWake, self.event_base | thread);
    }
    /// Wakes a job that sleeps for something to do; one that does not asks by itself before it does.
    pub fn kick(&mut self, ctx: &mut Ctx, thread: u32) {
        let asleep = &mut self.threads[thread as usize];
        if asleep.asleep == Asleep::Timer || !self.kernel {
            asleep.timer_at = ctx.now;
            ctx.at(ctx.now, Kind::AppWake, self.event_base | thread);
        }
    }
    pub fn source_mut(&mut self, thread: u32) -> Option<&mut S> {
        self.threads.get_mut(thread as usize).and_then(|t| t.source.as_mut())
    }
    pub fn source(&self, thread: u32) -> Option<&S> {
        self.threads.get(thread as usize).and_then(|t| t.source.as_ref())
    }

    pub fn on_event(&mut self, ctx: &mut Ctx, event: Event) {
        let index = event.index() & !self.event_base;
        match event.kind() {
            Kind::CoreDone => self.core_done(ctx, index),
            Kind::AppWake => self.app_wake(ctx, index),
            Kind::HostTimer if index == ELEVATOR => self.elevator_timer(ctx),
            Kind::HostTimer if index & TICK != 0 => self.tick(ctx, index - TICK),
            Kind::HostTimer if index & WORK != 0 => self.work_due(ctx, index - WORK),
            Kind::HostTimer => self.fs_timer(ctx),
            Kind::Interrupt => self.interrupt(ctx, index as u16),
            Kind::FtlTimer => {
                if let Some(pblk) = &mut self.pblk {
                    pblk.ftl.on_timer(ctx, event.index());
                    self.pump_ftl(ctx, None);
                }
            }
            _ => {}
        }
    }

    /// A completion entry is visible in host memory; with `interrupt` its MSI arrives as well.
    #[inline]
    pub fn on_posted(&mut self, ctx: &mut Ctx, cq: u16, cqe: Cqe, interrupt: bool) {
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

    /// An MSI of this completion queue.
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
            pblk: self.pblk.as_ref().map(|p| p.stats),
            bios: self.bios.as_ref().map(|b| b.stats()),
        }
    }

    // Cores.

    /// Puts an event at the end of the work at hand, unless one is pending that early.
    pub(crate) fn arm(&mut self, ctx: &mut Ctx, core: u32) {
        let c = &mut self.cores[core as usize];
        // A loop whose thread has had its slice ends when another one is ready.
        let due = c.due().max(ctx.now);
        if due < c.armed {
            c.armed = due;
            ctx.at(due, Kind::CoreDone, self.event_base | core);
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
            Irq::Network => self.network_irq(core),
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
        let Some(pblk) = &mut self.pblk else { return 0 };
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
            Irq::Network => self.network_irq_done(ctx, core),
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

    /// A new node for an I/O.
    #[inline]
    pub(crate) fn new_node(&mut self, t: u32, ddir: Ddir, offset: u64, len: u32) -> u32 {
        self.block.nodes.insert(Node {
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
            class: self.threads[t as usize].class,
        })
    }

    /// Whether the kernel takes the I/O: O_DIRECT wants whole logical blocks, inside the device.
    pub(crate) fn valid(&self, ddir: Ddir, offset: u64, len: u32) -> bool {
        let lba = u64::from(self.drive.lba_bytes);
        ddir.is_sync()
            || len > 0
                && offset.is_multiple_of(lba)
                && u64::from(len).is_multiple_of(lba)
                && offset.checked_add(u64::from(len)).is_some_and(|end| end <= self.drive.bytes)
    }

    /// Parts of a data I/O: bios of at most 1 MiB, each split at `max_request`.
    pub(crate) fn parts(&self, len: u32) -> u32 {
        let max = self.block.max_request;
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
            if self.bios.is_some() {
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
        source.finished(node.ddir, node.offset, node.len, node.ok, latency, now);
        if !node.ok {
            self.counters.errors += 1;
            thread.failed |= !thread.spec.continue_on_error;
        }
        self.out.push_back(Output::Finished(Finished {
            thread: t,
            ddir: node.ddir,
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
        if self.block.elevator.is_some() {
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
        match &self.block.elevator {
            Some(Elevator::Kyber(_)) => {
                for other in (0..self.block.hctxs.len() as u16).filter(|&o| o != h) {
                    let waits = match &self.block.elevator {
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
                    && until != self.elevator_timer
                {
                    self.elevator_timer = until;
                    ctx.at(until, Kind::HostTimer, self.event_base | ELEVATOR);
                }
            }
            _ => {}
        }
    }

    /// A request that held up goes out after all.
    pub(crate) fn dispatch(&mut self, ctx: &mut Ctx, core: u32, rq: u32) {
        if self.is_client() {
            return self.queue_nbd(ctx, rq, core);
        }
        self.raise(ctx, core, Irq::Dispatch(rq));
    }

    /// blk_mq_run_hw_queue on a core.
    fn run_other_queue(&mut self, ctx: &mut Ctx, h: u16, core: u32) {
        while let Some(rq) = self.block.next_dispatch(h, ctx.now) {
            self.dispatch(ctx, core, rq);
            if self.is_client() {
                // kblockd looks for the rest.
                return;
            }
        }
    }

    fn elevator_timer(&mut self, ctx: &mut Ctx) {
        if let Some(Elevator::Bfq(bfq)) = &mut self.block.elevator
            && bfq.on_timer(ctx.now)
        {
            for h in 0..self.block.hctxs.len() as u16 {
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
