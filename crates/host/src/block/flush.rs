//! Flushes (blk-flush.c).
use crate::block::{NO_TAG, NONE, Purpose, Request};
use crate::function::spend;
use crate::host::Host;
use crate::source::Source;
use crate::tasks::thread::{Flow, Step};
use wordline_base::{Ctx, Ddir, IoClass, Layer, Why};
use wordline_nvme::Opcode;

impl<S: Source> Host<S> {
    /// blkdev_fsync behind a write: a flush, by interrupt (submit_bio_wait), as a part of the write.
    pub(crate) fn sync_device(&mut self, ctx: &mut Ctx, t: u32, node: u32) -> Flow {
        self.block.nodes[node].divide(1);
        let flush = self.child(node, 0, 0);
        let n = &mut self.block.nodes[flush];
        (n.ddir, n.fua) = (Ddir::Sync, false);
        let disk = n.disk;
        self.aim(t, disk);
        let thread = &mut self.threads[t];
        thread.call.begin_flush(flush);
        let hctx = thread.driver.begin_call(false);
        thread.go_by(hctx);
        thread.plan_after(flush, Layer::Completion, Why::WakeUp);
        self.flush_bio(ctx, t)
    }

    /// Thread `t` makes the bio of a flush, and goes on with it.
    pub(crate) fn flush_bio(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        let disk = &self.block.disks[self.block.nodes[thread.call.node].disk];
        // generic_make_request_checks ends the bio where there is no volatile cache, and what is made of bios makes no
        // request of it.
        let work = match disk.info().volatile_cache && !disk.paths.is_bio_based() {
            true => spend!(self, thread.core(), Bio, Block),
            false => spend!(self, thread.core(), Bio),
        };
        thread.pend.block += work;
        self.segment(ctx, t, Step::Flush)
    }

    /// blkdev_issue_flush: dropped without a volatile cache, shared with those that wait while one
    /// is at the drive.
    #[inline(never)]
    pub(crate) fn flush(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        let d = self.block.nodes[thread.call.node].disk;
        let over = thread.call.over;
        let disk = &mut self.block.disks[d];
        if let Some(array) = disk.paths.array() {
            // r5l_handle_flush_request: what is acknowledged is in the journal, on flash.
            if !array.has_journal() {
                return self.md_flush(ctx, t);
            }
            let (node, core) = (thread.call.node, thread.core());
            self.go(t, over);
            self.node_done(ctx, node, true, Some(core));
            return Flow::Again;
        }
        if disk.is_critical_queue(thread.hctx()) {
            // A flush is nobody's, and shared: it has no class.
            thread.go_by(thread.driver.home());
        }
        let (node, core, h) = (thread.call.node, thread.core(), thread.hctx());
        if let Some(pblk) = disk.enter(ctx) {
            pblk.flush(ctx, node);
            self.go(t, over);
            self.pump_ftl(ctx, d, Some(core));
            return Flow::Again;
        }
        let scheduled = disk.queue.elevator.is_some();
        if !disk.info().volatile_cache {
            self.go(t, over);
            self.node_done(ctx, node, true, Some(core));
            return Flow::Again;
        }
        let hctx = &mut self.block.hctxs[h];
        if hctx.flush != NONE {
            return self.issue_flush(ctx, t, NO_TAG);
        }
        match hctx.tags.pop() {
            Some(tag) => self.issue_flush(ctx, t, tag),
            None if scheduled => {
                // Linux lets the flush request wait on hctx->dispatch.
                let rq = self.flush_request(node, h, NO_TAG);
                self.block.hctxs[h].dispatch.push_back(rq);
                self.go(t, over)
            }
            None => self.go(t, Step::TagWait),
        }
    }

    /// The flush of a hardware queue, for this node.
    pub(crate) fn flush_request(&mut self, node: u32, h: u16, tag: u16) -> u32 {
        let rq = self.block.request(node, Opcode::Flush, 0, 0, h, tag);
        let r = &mut self.block.requests[rq];
        (r.purpose, r.sched_tag, r.scheduled) = (Purpose::Flush, false, false);
        // The queue's flush_rq is nobody's (blk_kick_flush).
        r.class = IoClass::NONE;
        self.block.hctxs[h].flush = rq;
        rq
    }

    /// A flush with its tag goes out, or shares the next one.
    pub(crate) fn issue_flush(&mut self, ctx: &mut Ctx, t: u32, tag: u16) -> Flow {
        let thread = &self.threads[t];
        let (node, core, h) = (thread.call.node, thread.core(), thread.hctx());
        let over = thread.call.over;
        if self.block.hctxs[h].flush != NONE {
            self.counters.shared_flushes += 1;
            self.block.hctxs[h].flush_pending.push(node);
            if tag != NO_TAG {
                self.put_driver_tag(ctx, h, tag, core);
            }
            return self.segment(ctx, t, over);
        }
        let rq = self.flush_request(node, h, tag);
        if let Some(end) = self.client_of(h) {
            self.queue_nbd(ctx, end, rq, core);
            return self.go(t, over);
        }
        self.requeue(ctx, rq, core);
        self.go(t, over)
    }

    /// What the driver does for a request, a flush or another one.
    pub(crate) fn request_work(&mut self, core: u32, rq: u32) -> u64 {
        match self.block.requests[rq].purpose {
            Purpose::Flush => self.flush_work(core, self.block.requests[rq].hctx),
            _ => self.driver_work(core, rq),
        }
    }

    /// A command without data, and the doorbell.
    fn flush_work(&mut self, core: u32, h: u16) -> u64 {
        if self.block.hctxs[h].is_sata() {
            return spend!(self, core, ScsiQueue, AhciIssue);
        }
        let queue = &self.block.disks[self.block.hctxs[h].disk()].queue;
        spend!(self, core, Doorbell, StatIssue * u64::from(queue.poll_stats().samples()))
    }

    /// A write with REQ_FUA is over at a drive that does not know the bit: a flush follows, with its tag or as the next
    /// one of those that wait (REQ_FSEQ_POSTFLUSH).
    pub(crate) fn flush_behind(&mut self, ctx: &mut Ctx, (rq, r): (u32, &Request), core: u32) {
        self.block.requests.remove(rq);
        let hctx = &mut self.block.hctxs[r.hctx];
        if hctx.flush != NONE {
            self.counters.shared_flushes += 1;
            hctx.flush_pending.push(r.first);
            self.put_driver_tag(ctx, r.hctx, r.tag, core);
        } else {
            let flush = self.flush_request(r.first, r.hctx, r.tag);
            self.dispatch(ctx, core, flush);
        }
        if r.sched_tag {
            self.put_sched_tag(ctx, r.hctx, core);
        }
    }

    /// flush_end_io: the flushes that came meanwhile go out together, with the same tag.
    pub(crate) fn flush_done(&mut self, ctx: &mut Ctx, h: u16, tag: u16, core: u32) {
        let hctx = &mut self.block.hctxs[h];
        hctx.flush = NONE;
        if hctx.flush_pending.is_empty() {
            return self.put_driver_tag(ctx, h, tag, core);
        }
        let mut pending = std::mem::take(&mut hctx.flush_pending);
        debug_assert_ne!(tag, NO_TAG);
        let rq = self.flush_request(pending[0], h, tag);
        for &node in &pending[1..] {
            self.block.append(rq, node, node);
        }
        self.mark_request(ctx, rq, Layer::Block, Why::Flush, core, ctx.now);
        pending.clear();
        self.block.hctxs[h].flush_pending = pending;
        self.dispatch(ctx, core, rq);
    }
}
