//! The NVMe driver (drivers/nvme/host/pci.c of Linux 4.14): one queue pair a hardware queue, the tag
//! is the command identifier, a doorbell for each command, and an interrupt handler that takes all
//! completion entries it sees.
//!
//! A submission queue cannot fill: there are fewer tags than slots. Handlers of one core run one
//! after the other. Left out: the second, empty interrupt of an entry that the handler picked up
//! while it was running; command timeouts and aborts.
//!
//! A SATA drive has libata's AHCI driver in its place (drivers/ata/libahci.c): one queue, whose handler reads
//! registers of the host adapter to learn what is over, and commands that are not queued (module `ncq`).

pub(crate) mod completions;
pub(crate) mod ncq;
pub(crate) mod poll;

use crate::block::{NONE, Purpose};
use crate::driver::ncq::Ncq;
use crate::function::spend;
use crate::host::{Host, Output};
use crate::source::Source;
use crate::tasks::core::Irq;
use wordline_base::{Ctx, IoClass, IoId, Layer, Lpn, SectorSize, Span, Time, Why, Workload};
use wordline_ftl::Touch;
use wordline_nvme::{Cqe, Opcode, Sqe, Status};

/// A write or trim is in the drive's ledger of versions from when its command is made.
#[inline]
pub(crate) fn to_ledger(
    ctx: &mut Ctx,
    (drive, sector): (u8, SectorSize),
    opcode: Opcode,
    offset: u64,
    bytes: u64,
) -> u32 {
    let sectors = match opcode {
        Opcode::Write => Touch::write(offset, bytes, sector).sectors,
        Opcode::Deallocate => Touch::trim(offset, bytes, sector).sectors,
        _ => return NONE,
    };
    ctx.enter_drive(drive);
    ctx.stamps.submit(Lpn(sectors.start), sectors.end - sectors.start)
}
/// It is over.
pub(crate) fn from_ledger(ctx: &mut Ctx, drive: u8, submitted: &mut u32, ok: bool) {
    if *submitted != NONE {
        ctx.enter_drive(drive);
        ctx.stamps.acknowledge(std::mem::replace(submitted, NONE), ok);
    }
}

impl<S: Source> Host<S> {
    /// Whether what is of this class goes by the accelerator: latency-critical I/O does, all other by the block
    /// layer and the driver (OSDI 2018, figure 7b).
    #[inline]
    pub(crate) fn accelerates(&self, class: IoClass) -> bool {
        self.stack.flashshare.accelerator && class.workload() == Workload::Latency
    }

    /// What nvme_queue_rq of a request costs: mapping its data, its command and the doorbell. An accelerator
    /// writes the command itself.
    #[inline]
    pub(crate) fn driver_work(&mut self, core: u32, rq: u32) -> u64 {
        let r = &self.block.requests[rq];
        let hctx = &self.block.hctxs[r.hctx];
        if hctx.is_sata() {
            return spend!(self, core, ScsiQueue, DmaMap, AhciIssue);
        }
        let rings = u64::from(!self.accelerates(r.class));
        let stats = u64::from(self.block.disks[hctx.disk()].queue.poll_stats().samples());
        spend!(self, core, DmaMap, Doorbell * rings, StatIssue * stats)
    }

    /// nvme_queue_rq: the command is in the queue, the doorbell rung.
    #[inline(always)]
    pub(crate) fn issue(&mut self, ctx: &mut Ctx, rq: u32, core: u32) {
        self.mark_request(ctx, rq, Layer::Driver, Why::Doorbell, core, ctx.now);
        #[cfg(debug_assertions)]
        if self.stack.flashshare.bypass
            && let Some(older) = self.block.overtaken(rq)
        {
            let of = |rq| &self.block.requests[rq];
            panic!("{:#?} overtakes {:#?}, which waits", of(rq), of(older));
        }
        let r = &mut self.block.requests[rq];
        let ncq = self.block.hctxs[r.hctx].ncq();
        let sata = ncq.is_some();
        if ncq.is_some_and(|ncq| !ncq.send(rq, r.opcode)) {
            return;
        }
        let io = if r.first == NONE { IoId::NONE } else { self.block.nodes[r.first].life };
        let d = self.block.hctxs[r.hctx].disk();
        let disk = &self.block.disks[d];
        (r.issued, r.sampled) = (ctx.now, disk.queue.poll_stats().samples() && !sata);
        let drive = disk.ledger();
        let submitted = to_ledger(ctx, drive, r.opcode, r.offset, r.bytes);
        *self.block.hctxs[r.hctx].at_ledger(r.tag) = submitted;
        let sqe = Sqe {
            submitted,
            opcode: r.opcode,
            cid: r.tag,
            address: r.offset,
            bytes: r.bytes as u32,
            // libata leaves it to the block layer (libata.fua=0).
            fua: r.fua && !sata,
            work: r.work,
            class: r.class,
            inner: r.inner.try_into().expect("a command has fewer sectors"),
            beside: r.beside.try_into().expect("a command has fewer sectors"),
            io,
        };
        self.counters.requests += 1;
        let (h, vector) = (r.hctx, r.opcode.is_vector());
        if vector {
            self.block.disks[d].paths.crosses_link(&self.block.requests[rq]);
        }
        self.submit(h, sqe);
    }

    /// A command of a SATA drive is over: what was put off for it is tried again.
    #[inline(never)]
    fn sata_ended(&mut self, ctx: &mut Ctx, h: u16, core: u32) {
        if let Some(ncq) = self.block.hctxs[h].ncq() {
            ncq.ended();
        }
        while let Some(rq) = self.block.hctxs[h].ncq().and_then(Ncq::next) {
            // What was put off has been at the driver: no worker sends it once more.
            self.raise(ctx, core, Irq::Dispatch(rq));
        }
    }
    /// ahci_single_level_irq_intr with `n` commands that are over; `late`: its message came while the core worked.
    #[inline(never)]
    pub(crate) fn sata_irq(&mut self, core: u32, n: u64, late: bool) -> u64 {
        let entry = match late {
            true => spend!(self, core, LateEntry),
            false => spend!(self, core, InterruptEntry),
        };
        // HOST_IRQ_STAT, PORT_IRQ_STAT and PORT_SCR_ACT.
        entry + spend!(self, core, AhciInterrupt, AhciRegister * 3, ScsiDone * n)
    }
    /// What the handler does for one more command while it runs.
    #[inline(never)]
    pub(crate) fn sata_entry(&mut self, core: u32) -> u64 {
        spend!(self, core, ScsiDone)
    }

    #[inline]
    pub(crate) fn submit(&mut self, h: u16, sqe: Sqe) {
        let disk = self.block.hctxs[h].disk();
        let sq = h - self.block.disks[disk].first();
        let after = match self.accelerates(sqe.class) {
            true => self.stack.cost.flashshare.accelerate,
            false => Span::ZERO,
        };
        self.put_out(Output::Submit { disk, sq, sqe, after });
    }

    /// nvme_handle_cqe, in the handler or after the look of a poller, from `begin` to `end` on
    /// `core`.
    pub(crate) fn reap(
        &mut self,
        ctx: &mut Ctx,
        cq: u16,
        cqe: Cqe,
        core: u32,
        (begin, end): (Time, Time),
        (waited, worked): (Why, Why),
    ) {
        let h = cqe.sq;
        debug_assert_eq!(cq, self.block.hctxs[h].cq());
        let rq = self.block.hctxs[h].request_of(cqe.cid);
        assert_ne!(rq, NONE, "completion of a command that is not at the drive: {cqe:?}");
        let r = self.block.requests[rq];
        let d = self.block.hctxs[h].disk();
        self.looked_for(cq, rq);
        let mut ok = cqe.status == Status::Success;
        let hctx = &mut self.block.hctxs[h];
        let drive = self.block.disks[hctx.disk()].drive();
        from_ledger(ctx, drive, hctx.at_ledger(cqe.cid), ok);
        self.counters.completions += 1;
        if self.block.hctxs[h].is_sata() {
            self.sata_ended(ctx, h, core);
        }
        if self.polls_rings() && r.first != NONE && r.purpose == Purpose::Data {
            let thread = &self.threads[self.block.nodes[r.first].thread];
            if thread.is_polled_ring() && r.mergeable() {
                self.asked_ring_has(waited != Why::Polling);
            }
        }

        self.share_life(ctx, &r);
        self.mark_completion(ctx, r.first, core, (waited, begin), (worked, end));
        if r.sampled && r.mergeable() {
            let write = r.opcode == Opcode::Write;
            let stats = self.block.disks[d].queue.poll_stats_mut();
            stats.add(ctx.now, write, r.bytes, ctx.now.since(r.issued));
        }
        if r.fua && ok && self.block.hctxs[h].is_sata() {
            return self.flush_behind(ctx, (rq, &r), core);
        }
        self.request_ended(ctx, (rq, &r), cqe.held, core);
        match r.purpose {
            Purpose::Data | Purpose::Flush => {}
            Purpose::GcOrder => self.collector_answered(d, core),
            Purpose::Piece { lpn, brings } => {
                match self.flash_read_ended(ctx, d, r, (Lpn(lpn), brings), (ok, cqe.held), core) {
                    Some(read) => ok = read,
                    None => return,
                }
            }
            Purpose::Ftl { op } => self.flash_op_ended(ctx, d, r, op, (ok, cqe.held), core),
        }
        self.nodes_done(ctx, r.first, ok, core);
    }
}
