//! Syncs that a ring holds (IOCB_CMD_FSYNC since Linux 4.18, IORING_OP_FSYNC). The submission call does not wait for
//! a flush: it leaves the entry to a worker of the kernel's, which makes the call, sleeps, and completes the entry
//! when the flush is over. libaio's are work items of the CPU that submits (`aio_fsync`, `schedule_work`);
//! io_uring's are punted to its workqueue (`io_fsync` is told not to block), which is bound to no CPU.
//!
//! A worker that sleeps makes room for another one (`wq_worker_sleeping`), so that several flushes are under way, as
//! many as the workqueue allows. Workers are made when there is work for them, and stay.

use crate::block::NONE;
use crate::config::Engine;
use crate::function::spend;
use crate::host::Host;
use crate::source::{Source, ThreadSpec};
use crate::tasks::thread::{Asleep, Flow, Step, Thread};
use wordline_base::{Ctx, Layer, Time, Why};
use wordline_nvme::Opcode;

/// WQ_DFL_ACTIVE: items under way of `system_wq`.
const ACTIVE: usize = 256;

impl<S: Source> Host<S> {
    /// The submission call has come to a sync, which a worker gets at the end of the segment.
    #[inline(never)]
    pub(crate) fn leave_sync(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        self.segment(ctx, t, Step::LeaveSync)
    }

    /// The sync is a work item.
    #[inline(never)]
    pub(crate) fn sync_left(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &self.threads[t];
        let (node, core) = (thread.call.node(), thread.core());
        // io_uring's submission thread may have come to it: the workers are the ring's.
        let job = self.block.nodes[node].thread;
        self.threads[job].engine.works.push_back(node);
        if let Some(worker) = self.free_worker(job) {
            self.wake(ctx, worker, Some(core));
        }
        self.go(t, Step::NextIo)
    }

    /// A worker of the job's that sleeps for work, or a new one. None: as many as may be are under way.
    fn free_worker(&mut self, job: u32) -> Option<u32> {
        let workers = &self.threads[job].engine.workers;
        let free = |&&w: &&u32| self.threads[w].asleep() == Asleep::Work;
        if let Some(&worker) = workers.iter().find(free) {
            return Some(worker);
        }
        let spec = self.threads[job].spec();
        let all = self.cores.len() as u32;
        let (most, bound) = match spec.engine {
            // io_sq_offload_start.
            Engine::IoUring => ((spec.iodepth as usize - 1).min(2 * all as usize).max(1), false),
            _ => (ACTIVE, true),
        };
        if workers.len() >= most {
            return None;
        }
        let (core, d) = (self.threads[job].core(), self.threads[job].disk());
        let home = self.block.disks[d].home(core);
        let spec = ThreadSpec::new("kworker/sync", Engine::Null, 1);
        let mut worker = Thread::new(spec, None, core, d, home);
        worker.engine.works_for = job;
        if !bound {
            worker.may_run_on((0..all).collect());
        }
        let number = self.threads.len() as u32;
        self.threads.push(worker.sleeping(Step::Work, Asleep::Work));
        self.threads[job].engine.workers.push(number);
        self.made_room();
        Some(number)
    }

    /// A worker takes the next sync: blkdev_issue_flush.
    #[inline(never)]
    pub(crate) fn work(&mut self, ctx: &mut Ctx, w: u32) -> Flow {
        let job = self.threads[w].engine.works_for;
        let Some(node) = self.threads[job].engine.works.pop_front() else {
            return self.sleep(ctx, w, Asleep::Work);
        };
        let disk = self.block.nodes[node].disk;
        self.aim(w, disk);
        let thread = &mut self.threads[w];
        let hctx = thread.driver.begin_call(false);
        thread.go_by(hctx);
        thread.engine.at_work = node;
        thread.call.begin_taken(node, Opcode::Flush, Step::SyncSent);
        thread.plan_after(node, Layer::Block, Why::WakeUp);
        self.flush_bio(ctx, w)
    }

    /// A worker has sent its flush, or was woken: it waits for the end (submit_bio_wait).
    #[inline(never)]
    pub(crate) fn sync_sent(&mut self, ctx: &mut Ctx, w: u32) -> Flow {
        let thread = &mut self.threads[w];
        if !self.block.nodes[thread.engine.at_work].is_over() {
            return self.sleep(ctx, w, Asleep::Call);
        }
        thread.pend.entry += spend!(self, thread.core(), Finish);
        self.segment(ctx, w, Step::SyncOver)
    }

    /// A worker completes the entry.
    #[inline(never)]
    pub(crate) fn sync_over(&mut self, ctx: &mut Ctx, w: u32) -> Flow {
        let thread = &mut self.threads[w];
        let (node, core, (wake, work)) = (thread.engine.at_work, thread.core(), thread.done());
        if let Some(life) = ctx.lives.of(self.block.nodes[node].life) {
            let since = |ns: u64| Time(ctx.now.0.saturating_sub(ns));
            life.mark(Layer::Completion, Why::CoreBusy, core, since(wake + work));
            life.mark(Layer::Completion, Why::WakeUp, core, since(work));
            life.mark(Layer::Completion, Why::Work, core, ctx.now);
        }
        // The node's number is another's from here on.
        self.threads[w].engine.at_work = NONE;
        self.ring_done(ctx, node, Some(core));
        self.go(w, Step::Work)
    }

    /// The flush of a sync that a ring holds is over: the worker that waits for it goes on.
    #[inline(never)]
    pub(crate) fn sync_done(&mut self, ctx: &mut Ctx, node: u32, on: Option<u32>) {
        let job = self.block.nodes[node].thread;
        let workers = &self.threads[job].engine.workers;
        let of = |&&w: &&u32| self.threads[w].engine.at_work == node;
        let Some(&worker) = workers.iter().find(of) else {
            unreachable!("a worker made the flush")
        };
        if self.threads[worker].asleep() == Asleep::Call {
            self.wake(ctx, worker, on);
        }
    }
}
