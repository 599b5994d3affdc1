//! SPDK's NVMe driver in the application, by way of its fio plugin: a queue pair of its own for each
//! job, created without interrupts; commands built and doorbells rung in user mode; completions
//! found by spdk_nvme_qpair_process_completions, called again and again until enough are there.
//! nvme_qpair_check_enabled runs at each submission and each of these calls. The drive is taken
//! from the kernel, so all jobs of a run use it or none (null apart).
//!
//! Commands that find the queue full wait in the driver and go out as others complete (SPDK's
//! queued requests). Left out: huge-page set-up, the reactor and its other pollers, hot-plug checks.

use crate::driver::poll::Loop;
use crate::function::{Function, spend};
use crate::host::Host;
use crate::source::Source;
use crate::stats::level_bucket;
use crate::tasks::thread::{Flow, Step};
use wordline_base::{Ctx, Ddir, IoId, Layer, Span, Time, Why};
use wordline_nvme::{Cqe, Status};

/// Memory that one address stands for, of a command's PRP entries (NVMe 1.4, 4.3).
const PAGE: u64 = 4096;

impl<S: Source> Host<S> {
    /// spdk_fio_queue: the plugin and the driver, up to the doorbells.
    pub(crate) fn spdk_queue(
        &mut self,
        ctx: &mut Ctx,
        t: u32,
        ddir: Ddir,
        (disk, offset): (u16, u64),
        len: u32,
    ) -> Flow {
        self.aim(t, disk);
        let parts = if ddir.is_sync() || ddir == Ddir::Trim {
            1
        } else {
            u64::from(len).div_ceil(self.block.disks[disk].queue.max_request()).max(1)
        };
        let node = self.new_node(t, ddir, (disk, offset), len);
        let thread = &mut self.threads[t];
        thread.engine.cur_depth += 1;
        thread.stats.iodepth_level[level_bucket(thread.engine.cur_depth)] += 1;
        thread.stats.iodepth_submit[crate::stats::call_bucket(1)] += 1;
        thread.stats.submit_calls += 1;
        let core = thread.core();
        let moved = if matches!(ddir, Ddir::Read | Ddir::Write) { len } else { 0 };
        let pages = self.spdk_pages(core, moved, parts);
        let cost = pages + spend!(self, core, SpdkPlugin, SpdkCheck * parts, SpdkSubmit * parts);
        let thread = &mut self.threads[t];
        // Time must pass, or a job that goes on after errors never ends.
        thread.pend.library += cost.max(1);
        thread.begin_call(node);
        self.segment(ctx, t, Step::SpdkSubmit)
    }

    /// Addresses of data behind the first page of each of these commands: a part of `submit` that is as long as
    /// they are many.
    pub(crate) fn spdk_pages(&mut self, core: u32, bytes: u32, commands: u64) -> u64 {
        let span = self.spdk_page_time(bytes, commands);
        self.cores[core].charge(Function::SpdkSubmit, span.0);
        span.0
    }

    /// How long these take.
    pub(crate) fn spdk_page_time(&self, bytes: u32, commands: u64) -> Span {
        let pages = u64::from(bytes).div_ceil(PAGE).saturating_sub(commands);
        Span(pages * self.stack.cost.spdk.page.0)
    }

    /// The commands are written.
    #[inline(never)]
    pub(crate) fn spdk_submit(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let node = self.threads[t].call.single();
        self.threads[t].set_step(Step::Queued { busy: false });
        let n = &mut self.block.nodes[node];
        n.submitted = ctx.now;
        let n = *n;
        if n.life == IoId::NONE {
            let life = ctx.lives.begin(t, n.ddir, n.offset, n.len, n.issued);
            ctx.mark(life, Layer::Driver, Why::Doorbell, self.threads[t].core(), ctx.now);
            self.block.nodes[node].life = life;
        }
        if self.valid(n.disk, n.ddir, n.offset, n.len) {
            self.direct_submit(ctx, node);
        } else {
            let core = self.threads[t].core();
            self.node_done(ctx, node, false, Some(core));
        }
        Flow::Again
    }

    /// One entry that process_completions found, looked at since `at`.
    pub(crate) fn spdk_done(&mut self, ctx: &mut Ctx, cqe: Cqe, at: Time) {
        let node = self.direct_reaped(ctx, cqe.sq, &cqe);
        let n = self.block.nodes[node];
        let core = self.threads[n.thread].core();
        ctx.mark(n.life, Layer::Completion, Why::Polling, core, at);
        ctx.mark(n.life, Layer::Completion, Why::Work, core, ctx.now);
        self.node_done(ctx, node, cqe.status == Status::Success, Some(core));
    }

    /// spdk_fio_getevents.
    pub(crate) fn spdk_getevents(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        let min = thread.engine.reaping.min(thread.engine.cur_depth);
        let max = thread.spec().iodepth_batch_complete_max.min(thread.engine.cur_depth).max(min);
        let ready = thread.engine.ring.len() as u32;
        if ready >= min {
            return self.segment(ctx, t, Step::Reap(ready.min(max)));
        }
        self.look(ctx, t, Loop::Spdk, Time::NEVER)
    }
}
