//! `kernel = false`: jobs put commands straight into the device's queues, at no cost and at once, to
//! study a device alone. Each job is a closed loop of `iodepth` I/Os (every engine), refilled the
//! moment one completes; fio's batch options have no meaning here. Interrupts do not exist either:
//! a completion entry is seen when it is visible. A job has a queue pair of its own unless
//! `queues` says otherwise, of its own priority class. Flushes and trims are commands like others.

use crate::block::NONE;
use crate::driver::{from_ledger, to_ledger};
use crate::host::{Host, Output};
use crate::source::{Next, Source};
use crate::stats::level_bucket;
use crate::tasks::thread::Asleep;
use wordline_base::{Ctx, Ddir, Kind, Layer, Span, Time, Why};
use wordline_nvme::{Cqe, Opcode, Sqe, Status};

impl<S: Source> Host<S> {
    /// Issues until the job has `iodepth` in flight.
    pub(crate) fn direct_fill(&mut self, ctx: &mut Ctx, t: u32) {
        loop {
            let stopping = self.is_stopping();
            let thread = &mut self.threads[t];
            if stopping || thread.engine.exhausted || thread.engine.failed {
                if thread.engine.cur_depth == 0 && thread.asleep() != Asleep::Done {
                    thread.end();
                    self.put_out(Output::Ended { thread: t });
                }
                return;
            }
            if thread.engine.cur_depth >= thread.spec().iodepth {
                return;
            }
            if let Some(at) = thread.engine.quiesce {
                if thread.engine.cur_depth > 0 {
                    return;
                }
                if at > ctx.now {
                    return self.direct_wake(ctx, t, at);
                }
                thread.engine.quiesce = None;
            }
            let Some(source) = thread.source_mut() else { return };
            match source.next(ctx.now) {
                Next::Io { ddir, offset, len, class } => {
                    thread.begin_io(class);
                    thread.engine.cur_depth += 1;
                    thread.stats.issued[ddir as usize] += 1;
                    let level = level_bucket(thread.engine.cur_depth);
                    thread.stats.iodepth_level[level] += 1;
                    let (disk, offset) = self.block.place(offset);
                    let node = self.new_node(t, ddir, (disk, offset), len);
                    let volatile = self.block.disks[disk].info().volatile_cache;
                    let n = &mut self.block.nodes[node];
                    n.fua &= volatile;
                    (n.issued, n.submitted) = (ctx.now, ctx.now);
                    n.life = ctx.lives.begin(t, ddir, offset, len, ctx.now);
                    if !self.valid(disk, ddir, offset, len) {
                        self.block.nodes[node].ok = false;
                        self.finish_io(ctx, node, 0, 0);
                        // Time must pass, or a job that goes on after errors never ends.
                        self.direct_wake(ctx, t, ctx.now + Span(1));
                        return;
                    }
                    self.direct_submit(ctx, node);
                }
                Next::NotBefore { at, quiesce } => {
                    let at = at.max(ctx.now + Span(1));
                    if !quiesce {
                        return self.direct_wake(ctx, t, at);
                    }
                    thread.engine.quiesce = Some(at);
                }
                Next::WhenReaped | Next::WhenAllReaped if thread.engine.cur_depth > 0 => return,
                Next::WhenReaped | Next::WhenAllReaped => {
                    self.direct_wake(ctx, t, ctx.now + Span(1));
                    return;
                }
                Next::File { .. } | Next::Nothing { .. } => {
                    unreachable!("mount refuses kernel = false")
                }
                // No processor is modelled to burn here.
                Next::Pause { until, .. } | Next::Spin { until } => {
                    self.direct_wake(ctx, t, until.max(ctx.now + Span(1)));
                    return;
                }
                Next::Compute { span } => {
                    self.direct_wake(ctx, t, ctx.now + span.max(Span(1)));
                    return;
                }
                Next::Done => thread.engine.exhausted = true,
            }
        }
    }

    fn direct_wake(&mut self, ctx: &mut Ctx, t: u32, at: Time) {
        if self.threads[t].set_timer(at) {
            ctx.at(at, Kind::AppWake, t);
        }
    }

    /// Sends an I/O, in parts if it is larger than a command may be.
    #[inline(always)]
    pub(crate) fn direct_submit(&mut self, ctx: &mut Ctx, node: u32) {
        let n = self.block.nodes[node];
        let whole = !matches!(n.ddir, Ddir::Read | Ddir::Write);
        let max = self.block.disks[n.disk].queue.max_request();
        if whole || u64::from(n.len) <= max {
            return self.direct_send(ctx, node);
        }
        let len = u64::from(n.len);
        self.block.nodes[node].divide(len.div_ceil(max) as u32);
        self.counters.splits += 1;
        let mut at = 0;
        while at < len {
            let part_len = max.min(len - at) as u32;
            let part = self.child(node, n.offset + at, part_len);
            let life = ctx.lives.begin(n.thread, n.ddir, n.offset + at, part_len, ctx.now);
            self.block.nodes[part].life = life;
            self.direct_send(ctx, part);
            at += u64::from(part_len);
        }
    }

    /// An I/O or a part of one goes into the drive's queue, or waits for a free tag.
    #[inline(always)]
    pub(crate) fn direct_send(&mut self, ctx: &mut Ctx, node: u32) {
        let n = self.block.nodes[node];
        self.aim(n.thread, n.disk);
        let h = self.threads[n.thread].hctx();
        let hctx = &mut self.block.hctxs[h];
        let Some(cid) = hctx.send(node) else { return };
        ctx.mark(n.life, Layer::Driver, Why::QueueFull, u32::from(h), ctx.now);
        let opcode = match n.ddir {
            Ddir::Read => Opcode::Read,
            Ddir::Write => Opcode::Write,
            Ddir::Trim => Opcode::Deallocate,
            Ddir::Sync | Ddir::DataSync => Opcode::Flush,
        };
        let (address, bytes) = if n.ddir.is_sync() { (0, 0) } else { (n.offset, n.len) };
        let drive = self.block.disks[self.block.hctxs[h].disk()].ledger();
        let submitted = to_ledger(ctx, drive, opcode, address, u64::from(bytes));
        *self.block.hctxs[h].at_ledger(cid) = submitted;
        let sqe = Sqe {
            submitted,
            opcode,
            cid,
            address,
            bytes,
            fua: n.fua,
            work: 0,
            class: n.class,
            inner: 0,
            beside: 0,
            io: n.life,
        };
        self.counters.requests += 1;
        self.submit(h, sqe);
    }

    /// The command of an entry of queue `q`; whoever waits for its tag goes on.
    #[inline(always)]
    pub(crate) fn direct_reaped(&mut self, ctx: &mut Ctx, q: u16, cqe: &Cqe) -> u32 {
        let hctx = &mut self.block.hctxs[q];
        let (node, next) = hctx.take_back(cqe.cid);
        assert_ne!(node, NONE, "completion of a command that is not at the drive: {cqe:?}");
        let drive = self.block.disks[hctx.disk()].drive();
        let ok = cqe.status == Status::Success;
        from_ledger(ctx, drive, hctx.at_ledger(cqe.cid), ok);
        self.counters.completions += 1;
        if let Some(next) = next {
            self.direct_send(ctx, next);
        }
        node
    }

    #[inline]
    pub(crate) fn direct_posted(&mut self, ctx: &mut Ctx, cq: u16, cqe: Cqe) {
        let node = self.direct_reaped(ctx, cq, &cqe);
        // From the drive's last mark to the entry's visibility.
        ctx.mark(self.block.nodes[node].life, Layer::Link, Why::Work, u32::from(cq), ctx.now);
        self.node_done(ctx, node, cqe.status == Status::Success, None);
    }
}
