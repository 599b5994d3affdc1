//! The collector of a drive whose map and log are in the drive, but whose collector is on the host. It reads how
//! many sectors of each segment are in use, and says which segment is collected, how much of it and when. What
//! is moved stays in the drive.
//!
//! One kernel thread a drive has one command at it, which the drive answers when there is something to
//! decide. It takes a hardware tag and passes by the scheduler, as commands of a driver's own do.

use crate::block::{NONE, Purpose};
use crate::function::spend;
use crate::host::{Host, Output};
use crate::source::Source;
use crate::stats::GcStats;
use crate::tasks::thread::{Asleep, Flow, Step};
use wordline_base::{Ctx, Span};
use wordline_ftl::{GcOrder, GcPolicy, GcReport, GcShape};
use wordline_nvme::Opcode;

/// What a collector on the host is made from.
#[derive(Clone, Copy, Debug)]
pub struct GcOnHost {
    /// The drive's segments and how many of them are to be free.
    pub shape: GcShape,
    /// Processor time of a command.
    pub command: Span,
    /// Processor time of looking at the count of a segment.
    pub count: Span,
}

/// The collector of one drive.
pub(crate) struct Collector {
    of: GcOnHost,
    thread: u32,
    policy: GcPolicy,
    /// What it has to think about; at first what a drive with space would say.
    report: Option<GcReport>,
    /// The order that is to be sent, or is at the drive.
    order: GcOrder,
    stats: GcStats,
}

impl Collector {
    pub fn new(of: GcOnHost, thread: u32) -> Collector {
        Collector {
            of,
            thread,
            policy: GcPolicy::new(of.shape),
            report: Some(GcReport { free: u32::MAX, ..GcReport::default() }),
            order: GcOrder::Counts { waits: false },
            stats: GcStats::default(),
        }
    }
    /// What it has done so far.
    pub fn stats(&self) -> GcStats {
        self.stats
    }
    /// Bytes of host memory: the page of counts.
    pub fn memory(&self) -> u64 {
        self.of.shape.memory()
    }
}

impl<S: Source> Host<S> {
    /// Collectors begin to watch their drives.
    pub(crate) fn start_collectors(&mut self, ctx: &mut Ctx) {
        for d in 0..self.block.disks.len() as u16 {
            if let Some(collector) = &self.block.disks[d].paths.collector {
                let thread = collector.thread;
                self.wake(ctx, thread, None);
            }
        }
    }

    /// The drive has answered the collector's order, as a core knows.
    pub fn gc_reported(&mut self, ctx: &mut Ctx, disk: u16, on: u32, report: GcReport) {
        self.enter(ctx);
        let Some(collector) = &mut self.block.disks[disk].paths.collector else { return };
        let stats = &mut collector.stats;
        stats.answers += 1;
        stats.link_bytes += u64::from(collector.order.bytes(collector.of.shape.segments));
        stats.victims += u64::from(report.ended);
        if let GcOrder::Collect { sectors, .. } = collector.order {
            stats.sectors += u64::from(sectors);
        }
        collector.report = Some(report);
        let thread = collector.thread;
        // The handler is over: nobody else asks its core to look for who runs next.
        let from = (self.threads[thread].core() != on).then_some(on);
        self.wake(ctx, thread, from);
    }

    /// The collector thinks, and has an order to send; or waits for an answer.
    pub(crate) fn collector_next(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let d = self.threads[t].disk();
        let Some(collector) = &mut self.block.disks[d].paths.collector else { return Flow::Off };
        let Some(report) = collector.report.take() else {
            return self.sleep(ctx, t, Asleep::Actions);
        };
        collector.order = collector.policy.next(&report);
        let looks = collector.of.count * report.counts.len() as u64;
        let work = collector.of.command + looks;
        let thread = &mut self.threads[t];
        thread.pend.ftl += work.0;
        thread.pend.block += spend!(self, thread.core(), Block);
        thread.pend.driver += spend!(self, thread.core(), DmaMap, Doorbell);
        self.segment(ctx, t, Step::CollectorOrder)
    }

    /// The order goes to the drive.
    pub(crate) fn collector_order(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let (core, h, d) = (self.threads[t].core(), self.threads[t].hctx(), self.threads[t].disk());
        let Some(collector) = &self.block.disks[d].paths.collector else { return Flow::Off };
        let order = collector.order;
        let bytes = order.bytes(collector.of.shape.segments);
        let opcode = match order {
            GcOrder::Counts { .. } => Opcode::GcCounts,
            GcOrder::Collect { .. } => Opcode::GcCollect,
        };
        let rq = self.block.driver_request(NONE, opcode, order.encode(), bytes.into(), h);
        let r = &mut self.block.requests[rq];
        r.purpose = Purpose::GcOrder;
        match self.block.get_driver_tag(rq) {
            true => self.issue(ctx, rq, core),
            // The next that is free.
            false => self.block.hctxs[h].repair_later(rq),
        }
        self.go(t, Step::Collector)
    }

    /// The completion of its command: the answer is in host memory.
    pub(crate) fn collector_answered(&mut self, disk: u16, on: u32) {
        self.put_out(Output::TakeReport { disk, on });
    }
}
