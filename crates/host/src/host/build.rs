//! Putting a host together: hardware queues of its disks, and threads on their cores. What is refused, and
//! why, is in `error`.

use crate::block::flashshare::Kblockd;
use crate::block::sched::{Elevator, Kyber, Luns};
use crate::block::{BlockLayer, Hctx, NONE, map_queues};
use crate::config::{Engine, Issue, Scheduler, StackConfig};
use crate::disk::{Disk, DiskShape, DiskSpec};
use crate::error::{self, HostError};
use crate::function::Costs;
use crate::host::Host;
use crate::paths::Paths;
use crate::paths::admit::Bios;
use crate::paths::collector::Collector;
use crate::paths::md::Array;
use crate::paths::pblk::{Pblk, Role};
use crate::source::{Source, ThreadSpec};
use crate::stats::Counters;
use crate::tasks::Cfs;
use crate::tasks::core::Core;
use crate::tasks::idle::CpuIdle;
use crate::tasks::thread::{Asleep, Step, Thread};
use crate::{CoreId, DiskId, ThreadId};
use std::collections::VecDeque;
use wordline_base::{IdVec, QueuePriority, Span, Workload};

/// Select-ISR is for the job: it is on, and the job is latency-critical and waits for I/O.
pub(crate) fn may_select(select_isr: bool, job: &ThreadSpec) -> bool {
    let engine = matches!(job.engine, Engine::Pvsync2 | Engine::Libaio | Engine::IoUring);
    select_isr && engine && job.class.workload() == Workload::Latency
}

/// Why the job's completions come by interrupt although Select-ISR is for it.
pub(crate) fn not_selected(job: &ThreadSpec, of_array: bool) -> Option<&'static str> {
    [
        (
            job.reaper,
            "a thread of its own takes up its completions (a replay by the times of its trace)",
        ),
        (
            job.engine == Engine::IoUring && job.sqthread_poll,
            "a thread of the kernel submits for it (sqthread_poll)",
        ),
        (job.disks.len() > 1, "a task looks at the queue of one drive, and the job has several"),
        (of_array, "an array is bio-based, which Linux does not poll"),
    ]
    .iter()
    .find_map(|&(so, why)| so.then_some(why))
}

/// Threads and the cores that they are given.
struct Placing<S> {
    threads: IdVec<ThreadId, Thread<S>>,
    /// Threads with work of their own on each core.
    load: IdVec<CoreId, u32>,
}

impl<S> Placing<S> {
    /// The core of these with the fewest threads, the lowest of equals: round robin.
    fn least(&self, cores: impl Iterator<Item = u32>) -> u32 {
        cores.min_by_key(|&c| (self.load[c], c)).unwrap_or(0)
    }
    fn take(&mut self, core: u32) {
        self.load[core] += 1;
    }
    fn count(&self) -> u32 {
        self.threads.len() as u32
    }
    /// A thread of the kernel, asleep.
    fn kernel(
        &mut self,
        name: &str,
        core: u32,
        disk: (u16, &Disk),
        step: Step,
        asleep: Asleep,
    ) -> u32 {
        let spec = ThreadSpec::new(name, Engine::Null, 1);
        let thread = Thread::new(spec, None, core, disk.0, disk.1.home(core));
        self.threads.push(thread.sleeping(step, asleep));
        self.count() - 1
    }
}

impl<S: Source> Host<S> {
    /// Whether a host can be built for these jobs: all that [`Host::new`] refuses, without a source.
    /// `files`: a file system is on the host.
    pub fn check(
        stack: &StackConfig,
        jobs: &[&ThreadSpec],
        disks: &[DiskShape],
        files: bool,
    ) -> Result<(), HostError> {
        let queues = error::check(stack, jobs, disks)?;
        if files { queues[0].check_files(stack, jobs) } else { Ok(()) }
    }

    /// A host with these disks.
    pub fn new(
        stack: &StackConfig,
        jobs: Vec<(ThreadSpec, S)>,
        disks: Vec<DiskSpec>,
    ) -> Result<Host<S>, HostError> {
        let shapes: Vec<DiskShape> = disks.iter().map(|disk| disk.shape.clone()).collect();
        let specs: Vec<&ThreadSpec> = jobs.iter().map(|(spec, _)| spec).collect();
        let queues = error::check(stack, &specs, &shapes)?;
        let shared = queues.iter().all(|q| q.shared);
        let spdk = stack.kernel && !shared;
        let count = jobs.len() as u32;
        let mut ftls = Vec::new();
        let mut hctxs = Vec::new();
        let mut urgent = Vec::new();
        let mut specs = disks;
        let settings: Vec<StackConfig> =
            shapes.into_iter().map(|s| s.queue.map_or(stack.clone(), |queue| *queue)).collect();
        let mut disks: IdVec<DiskId, Disk> = Vec::with_capacity(specs.len()).into();
        for (d, (mut spec, has)) in specs.drain(..).zip(&queues).enumerate() {
            let (queue, ftl) = (&settings[d], spec.ftl.take());
            let disk = Disk::new(spec, has, hctxs.len() as u16, queue);
            let vectors = match has.shared {
                true if has.count == 0 => Vec::new(),
                true => map_queues(stack.cores, has.count).1,
                false => vec![0; has.count as usize],
            };
            let polled = (0..has.poll).map(|_| (0, false));
            let critical = vectors[..has.critical as usize].to_vec();
            let all = vectors.into_iter().map(|core| (core, !spdk)).chain(polled);
            let sata = disk.info().sata;
            let hctx = |core, interrupts| {
                let hctx =
                    Hctx::new(d as u16, core, has.depth, disk.queue.sched_tags(), interrupts);
                hctx.of_sata(sata)
            };
            hctxs.extend(all.map(|(core, interrupts)| hctx(core, interrupts)));
            for h in disk.first()..hctxs.len() as u16 {
                hctxs[usize::from(h)].complete_in(h);
            }
            let own = queue.flashshare.completion_queues == 2;
            for (q, core) in (0..).zip(critical) {
                let masks = own && queue.flashshare.select_isr;
                let h = hctxs.len() as u16;
                let mut hctx = hctx(core, true);
                hctx.complete_in(if own { h } else { disk.first() + q });
                if masks {
                    hctx.mask_first();
                }
                hctxs.push(hctx);
                urgent.push(h);
            }
            ftls.push(ftl);
            disks.push(disk);
        }

        for d in 0..disks.len() as u16 {
            let Some(first) = disks[d].paths.array().map(Array::first) else { continue };
            let [disk, member] = disks
                .get_disjoint_mut([usize::from(d), usize::from(first)])
                .expect("a disk is no member of itself");
            disk.use_queues_of(member);
        }

        let mut priorities = vec![None; hctxs.len()];
        for h in urgent {
            priorities[usize::from(h)] = Some(QueuePriority::Urgent);
        }
        let mut placing = Placing {
            threads: Vec::with_capacity(2 * jobs.len() + 1).into(),
            load: IdVec::filled(0u32, stack.cores),
        };
        for (index, (spec, source)) in jobs.into_iter().enumerate() {
            let home = spec.disks.first().copied().unwrap_or(0);
            let own = |disk: &Disk| disk.own_queue(index as u32);
            let of: &[u16] = if spec.disks.is_empty() { &[0] } else { &spec.disks };
            for &d in of {
                priorities[usize::from(own(&disks[d]))] = Some(spec.class.queue());
            }
            let all: Vec<u32> = (0..stack.cores).collect();
            let allowed = if spec.cpus_allowed.is_empty() { &all } else { &spec.cpus_allowed };
            let core = placing.least(allowed.iter().copied());
            let mut cores = if stack.migrate { allowed.clone() } else { Vec::new() };
            placing.take(core);
            let disk = &disks[home];
            let hctx = if shared { disk.home(core) } else { own(disk) };
            let mut thread = Thread::new(spec.fixed_up(), Some(source), core, home, hctx);
            let knows = matches!(thread.spec().engine, Engine::Pvsync2 | Engine::IoUring);
            if stack.kernel && thread.spec().class.workload() != Workload::None {
                thread.engine.mark_first();
            }
            let selects = may_select(stack.flashshare.select_isr, thread.spec())
                && not_selected(thread.spec(), disk.paths.is_array()).is_none();
            let hipri = knows && thread.spec().hipri;
            debug_assert!(
                !thread.spec().ring_syncs
                    || matches!(thread.spec().engine, Engine::Libaio | Engine::IoUring)
            );
            thread.driver.allow(hipri, selects);
            thread.turn_to(home, disk, hctx);
            // Who polls for what is under way, or for what a file system submitted, has to stay at that queue.
            let bound = thread.spec().reaper
                || hipri && (thread.spec().engine == Engine::IoUring || stack.fs.is_some())
                || disk.paths.client().is_some();
            cores.sort_unstable();
            cores.dedup();
            if shared && !bound && cores.len() > 1 {
                thread.may_run_on(cores);
            }
            placing.threads.push(thread);
        }
        for (d, ftl) in (0u16..).zip(ftls) {
            let Some((ftl, cost)) = ftl else { continue };
            let core = stack.ftl_core.unwrap_or(stack.cores - 1);
            let disk = &mut disks[d];
            let at = (d, &*disk);
            // A tree's lock is taken to move what is collected, by a thread that may sleep for it.
            let names: &[&str] = match cost.map {
                Some(_) => &["ftl-writer", "ftl-collector"],
                None => &["pblk"],
            };
            let kernel = names.iter().zip([Role::Writer, Role::Collector]).map(|(name, role)| {
                let thread = placing.kernel(name, core, at, Step::Kernel, Asleep::Actions);
                placing.threads[thread].pblk.becomes(role);
                thread
            });
            let pblk = Pblk::new(ftl, cost, disk.info(), kernel.collect());
            disk.paths.add_pblk(pblk);
        }
        for d in 0..disks.len() as u16 {
            let Some(gc) = disks[d].info().gc else { continue };
            let core = stack.ftl_core.unwrap_or(stack.cores - 1);
            let at = (d, &disks[d]);
            let thread =
                placing.kernel("ftl-collector", core, at, Step::Collector, Asleep::Actions);
            placing.threads[thread].pblk.becomes(Role::Collector);
            disks[d].paths.add_collector(Collector::new(gc, thread));
        }
        let any = || 0..stack.cores;
        for d in 0..disks.len() as u16 {
            let disk = &disks[d];
            let Some(array) = disk.paths.array() else { continue };
            if !array.has_parity() {
                continue;
            }
            let core = array.core().unwrap_or_else(|| placing.least(any()));
            placing.take(core);
            let at = (d, disk);
            let thread = placing.kernel("raid5d", core, at, Step::Md, Asleep::Actions);
            let core = placing.least(any());
            let sync = placing.kernel("md_resync", core, at, Step::MdSync, Asleep::Actions);
            placing.threads[thread].md.works_for(d);
            placing.threads[sync].md.works_for(d);
            let array = disks[d].paths.array_mut().expect("it was there");
            array.has_threads(thread, sync);
        }
        for job in 0..count {
            if !placing.threads[job].spec().reaper || !stack.kernel {
                continue;
            }
            let core = placing.least(any());
            placing.take(core);
            let spec = ThreadSpec::new("reaper", Engine::Libaio, 1);
            let mut reaper = Thread::new(spec, None, core, 0, disks[0].home(core));
            reaper.engine.shares_reaping(job);
            let reaper = reaper.sleeping(Step::Collect, Asleep::Events);
            let number = placing.count();
            placing.threads[job].engine.shares_reaping(number);
            placing.threads.push(reaper);
        }
        for job in 0..count {
            let thread = &placing.threads[job];
            if !queues[0].has_sq_thread(thread.spec()) {
                continue;
            }
            let core = thread.spec().sqthread_poll_cpu.unwrap_or_else(|| placing.least(any()));
            placing.take(core);
            let thread = &placing.threads[job];
            let mut spec = ThreadSpec::new("io_uring-sq", Engine::IoUring, 1);
            (spec.hipri, spec.class) = (thread.spec().hipri, thread.spec().class);
            let (polls, d) = (thread.driver.polls(), thread.disk());
            let disk = &disks[d];
            let home = if polls { disk.poll_queue(core) } else { disk.home(core) };
            let mut sq = Thread::new(spec, None, core, d, home);
            sq.engine.submits_for(job);
            sq.driver.polls_for(polls);
            let number = placing.count();
            placing.threads[job].engine.set_submitter(number);
            placing.threads.push(sq.sleeping(Step::SqLoop, Asleep::Ring));
        }
        if stack.kernel && stack.kworker.interval > Span::ZERO {
            for core in 0..stack.cores {
                let name = format!("kworker/{core}");
                placing.kernel(&name, core, (0, &disks[0]), Step::Kworker, Asleep::Work);
            }
        }
        let mut kblockd = Vec::new();
        let flushes = |(d, disk): (usize, &Disk)| {
            queues[d].shared && disk.info().volatile_cache && !disk.paths.is_bio_based()
        };
        let requeues = stack.kernel && disks.iter().enumerate().any(flushes);
        if stack.flashshare.issue == Issue::Queued || requeues {
            for core in 0..stack.cores {
                let name = format!("kblockd/{core}");
                let at = (0, &disks[0]);
                let worker = placing.kernel(&name, core, at, Step::Kblockd, Asleep::Actions);
                kblockd.push(Kblockd::new(worker));
            }
        }
        for (d, disk) in disks.iter_mut().enumerate() {
            let queue = &settings[d];
            if queue.bio_scheduler == Scheduler::Kyber {
                let core = placing.least(any());
                let at = (d as u16, &*disk);
                let worker = placing.kernel("bios", core, at, Step::NextBio, Asleep::Actions);
                let hctxs = usize::from(disk.hctxs().end);
                disk.paths.add_bios(Bios::new(Kyber::new(&queue.kyber, hctxs), worker));
            }
            let merges = u64::from(disk.info().lba_bytes) < disk.info().sector.bytes();
            let Some(writer) = disk.paths.pblk().filter(|_| merges).map(Pblk::writer) else {
                continue;
            };
            // Beside the thread that writes, which takes it from there.
            let core = placing.threads[writer].core();
            let at = (d as u16, &*disk);
            let worker = placing.kernel("pblk-merge", core, at, Step::NextMerge, Asleep::Actions);
            if let Some(pblk) = disk.paths.pblk_mut() {
                pblk.merge_by(worker);
            }
        }
        let threads = placing.threads;
        let elsewhere = |t: &Thread<S>| {
            // The workers of an io_uring are bound to no core.
            let workers = t.spec().ring_syncs && t.spec().engine == Engine::IoUring;
            t.engine.partner() != NONE || t.engine.is_submitter() || workers
        };
        let reapers = threads.iter().any(elsewhere);
        let in_use: usize = threads.iter().map(|t| t.spec().iodepth as usize + 1).sum();
        let requests = in_use.min(1 << 16);
        for (disk, (queue, has)) in disks.iter_mut().zip(settings.iter().zip(&queues)) {
            if shared && has.count > 0 {
                let hctxs = usize::from(disk.hctxs().end);
                let classes = threads.iter().map(|t| t.spec().class);
                disk.queue.schedule_by(match disk.info().luns {
                    Some(luns) => Some(Elevator::Luns(Box::new(Luns::new(luns)))),
                    None => Elevator::new(queue, requests, hctxs, has.poll > 0, classes),
                });
            }
        }
        let own_queues = disks.iter().zip(&settings).all(|(disk, queue)| {
            disk.has_queue_per_core(stack.cores)
                && queue.scheduler == Scheduler::None
                && queue.flashshare.changes().is_none()
                && disk.info().luns.is_none()
                && !disk.paths.is_bio_based()
        });
        Ok(Host {
            number: 0,
            first_core: 0,
            out: VecDeque::with_capacity(256),
            stopping: false,
            shared,
            priorities: priorities.into_iter().map(Option::unwrap_or_default).collect(),
            depths: queues.iter().map(|q| q.depth).collect(),
            cost: Costs::new(&stack.cost),
            cfs: Cfs::new(stack, shared && own_queues && !reapers),
            asked_for: [0; 2],
            polls_rings: threads.iter().any(Thread::is_polled_ring),
            stack: stack.clone(),
            paths: Paths::new(),
            counters: Counters::default(),
            cores: (0..stack.cores)
                .map(|_| Core::new(threads.len(), CpuIdle::new(&stack.idle)))
                .collect(),
            threads,
            block: BlockLayer::new(stack, (in_use, requests), hctxs, disks, kblockd),
        })
    }
}
