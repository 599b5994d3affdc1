//! The NVMe driver (drivers/nvme/host/pci.c of Linux 4.14): one queue pair a hardware queue, the tag
//! is the command identifier, a doorbell for each command, and an interrupt handler that takes all
//! completion entries it sees.
//!
//! A submission queue cannot fill: there are fewer tags than slots. Handlers of one core run one
//! after the other. Left out: the second, empty interrupt of an entry that the handler picked up
//! while it was running; command timeouts and aborts.

pub(crate) mod completions;
pub(crate) mod poll;

use crate::block::{NO_TAG, NONE, Purpose};
use crate::function::spend;
use crate::host::{Host, Output};
use crate::paths::pblk::{End, Todo};
use crate::source::Source;
use wordline_base::{Ctx, IoId, Layer, Lpn, SectorSize, Span, Time, Why};
use wordline_ftl::{FlashRead, ReadEnd, Touch, read_ended};
use wordline_nand::{Outcome, Ppa, UnitId};
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
    /// Marks every I/O of a request.
    #[inline]
    pub(crate) fn mark_request(
        &mut self,
        ctx: &mut Ctx,
        rq: u32,
        layer: Layer,
        why: Why,
        place: u32,
        until: Time,
    ) {
        let mut n = self.block.requests[rq].first;
        while n != NONE {
            let node = &self.block.nodes[n];
            ctx.mark(node.life, layer, why, place, until);
            n = node.next;
        }
    }

    /// What nvme_queue_rq of a request costs: mapping its data, its command and the doorbell. An accelerator
    /// writes the command itself.
    #[inline]
    pub(crate) fn driver_work(&mut self, core: u32) -> u64 {
        let rings = u64::from(!self.block.flashshare.accelerator);
        let stats = u64::from(self.poll_stats.on);
        spend!(self, core, DmaMap, Doorbell * rings, StatIssue * stats)
    }

    /// nvme_queue_rq: the command is in the queue, the doorbell rung.
    #[inline]
    pub(crate) fn issue(&mut self, ctx: &mut Ctx, rq: u32, core: u32) {
        self.mark_request(ctx, rq, Layer::Driver, Why::Doorbell, core, ctx.now);
        #[cfg(debug_assertions)]
        if let Some(older) = self.block.overtaken(rq) {
            let of = |rq| &self.block.requests[rq];
            panic!("{:#?} overtakes {:#?}, which waits", of(rq), of(older));
        }
        let r = &mut self.block.requests[rq];
        (r.issued, r.sampled) = (ctx.now, self.poll_stats.on);
        let io = if r.first == NONE { IoId::NONE } else { self.block.nodes[r.first].life };
        let disk = self.block.hctxs[r.hctx].disk;
        let drive = self.block.disks[disk].ledger();
        let submitted = to_ledger(ctx, drive, r.opcode, r.offset, r.bytes);
        *self.block.hctxs[r.hctx].at_ledger(r.tag) = submitted;
        let sqe = Sqe {
            submitted,
            opcode: r.opcode,
            cid: r.tag,
            address: r.offset,
            bytes: r.bytes as u32,
            fua: r.first != NONE && self.block.nodes[r.first].fua,
            work: r.work,
            class: r.class,
            inner: r.inner.try_into().expect("a command has fewer sectors"),
            beside: r.beside.try_into().expect("a command has fewer sectors"),
            io,
        };
        self.counters.requests += 1;
        if let Some(pblk) = &mut self.block.disks[disk].pblk
            && r.opcode.is_vector()
        {
            let sectors = match r.opcode {
                Opcode::VectorReset => 0,
                _ => pblk.sector.of(r.bytes),
            };
            let data = pblk.sector.bytes_of((sectors - u64::from(r.inner)) as u32);
            pblk.stats.link_bytes[usize::from(r.work)] += data + u64::from(r.beside);
        }
        let h = r.hctx;
        self.submit(h, sqe);
    }

    #[inline]
    pub(crate) fn submit(&mut self, h: u16, sqe: Sqe) {
        let disk = self.block.hctxs[h].disk;
        let sq = h - self.block.disks[disk].first;
        let after = match self.block.flashshare.accelerator {
            true => self.cost.flashshare.accelerate,
            false => Span::ZERO,
        };
        self.out.push_back(Output::Submit { disk, sq, sqe, after });
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
        debug_assert_eq!(cq, self.block.hctxs[h].cq);
        let rq = self.block.hctxs[h].request_of(cqe.cid);
        assert_ne!(rq, NONE, "completion of a command that is not at the drive: {cqe:?}");
        let r = self.block.requests[rq];
        let d = self.block.hctxs[h].disk;
        self.looked_for(cq, rq);
        let mut ok = cqe.status == Status::Success;
        let hctx = &mut self.block.hctxs[h];
        let drive = self.block.disks[hctx.disk].drive;
        from_ledger(ctx, drive, hctx.at_ledger(cqe.cid), ok);
        self.counters.completions += 1;

        // The drive marked the life of the first I/O; those merged with it went the same way.
        if r.first != r.last {
            let leader = self.block.nodes[r.first].life;
            let mut n = self.block.nodes[r.first].next;
            while n != NONE {
                let node = &self.block.nodes[n];
                for i in 0..ctx.lives.get(leader).steps().len() {
                    let step = ctx.lives.get(leader).steps()[i];
                    ctx.mark(node.life, step.layer, step.why, step.place, step.end);
                }
                n = node.next;
            }
        }
        let mut n = r.first;
        while n != NONE {
            let node = &self.block.nodes[n];
            if let Some(life) = ctx.lives.of(node.life) {
                life.mark(Layer::Completion, waited, core, begin);
                life.mark(Layer::Completion, worked, core, end);
            }
            n = node.next;
        }
        if r.sampled && r.mergeable() {
            let write = r.opcode == Opcode::Write;
            self.poll_stats.add(ctx.now, write, r.bytes, ctx.now.since(r.issued));
        }
        if let Some(elevator) = &mut self.block.disks[d].elevator
            && r.sched_tag
        {
            elevator.completed(rq, r.issued, ctx.now, cqe.held);
        }

        self.block.requests.remove(rq);
        if r.purpose == Purpose::Flush {
            self.flush_done(ctx, cqe.sq, r.tag, core);
        } else {
            self.put_driver_tag(ctx, cqe.sq, r.tag, core);
            if r.sched_tag {
                self.put_sched_tag(ctx, cqe.sq, core);
            }
        }
        match r.purpose {
            Purpose::Data | Purpose::Flush => {}
            Purpose::GcOrder => self.collector_answered(d, core),
            Purpose::Piece { lpn, brings } => {
                let Some(pblk) = self.block.disks[d].enter(ctx) else { return };
                let (ppa, sectors) = (Ppa(r.offset as u32), pblk.sector.of(r.bytes) as u32);
                let read = FlashRead { lpn: Lpn(lpn), sectors, ppa, brings };
                let mut more = std::mem::take(&mut pblk.repairs);
                let end = read_ended(&mut pblk.ftl, ctx, read, ok, cqe.held, &mut more);
                let again = !more.is_empty();
                pblk.repairs = more;
                // While others of a run's reads are under way nothing is known.
                ok = !matches!(end, ReadEnd::Over { ok: false, .. });
                if again {
                    self.repair(ctx, r.first, r.hctx, core);
                }
                self.pump_ftl(ctx, d, Some(core));
                if again {
                    return;
                }
            }
            Purpose::Ftl { op } => {
                if let Some(pblk) = self.block.disks[d].enter(ctx) {
                    let (ppa, sectors) = (Ppa(r.offset as u32), pblk.sector.of(r.bytes) as u32);
                    let outcome = if ok { Outcome::Ok } else { Outcome::Failed };
                    let end = End { op, ppa, sectors, held: cqe.held, outcome };
                    if r.opcode == Opcode::VectorWrite {
                        pblk.staging.release(UnitId(ppa.0 / pblk.unit_sectors));
                    }
                    // A handler does not sleep for the lock of the map.
                    let moves = r.opcode == Opcode::VectorRead || !ok;
                    match pblk.lock.is_some() && moves {
                        true => pblk.later(Todo::End(end)),
                        false => pblk.ended(ctx, end),
                    }
                    self.pump_ftl(ctx, d, Some(core));
                }
            }
        }
        let mut n = r.first;
        while n != NONE {
            let next = self.block.nodes[n].next;
            self.block.nodes[n].next = NONE;
            self.node_done(ctx, n, ok, Some(core));
            n = next;
        }
    }

    /// The I/O `node` waits for the rest of its stride instead of a read that failed.
    fn repair(&mut self, ctx: &mut Ctx, node: u32, h: u16, core: u32) {
        let d = self.block.hctxs[h].disk;
        let Some(pblk) = &mut self.block.disks[d].pblk else { return };
        let pieces = std::mem::take(&mut pblk.repairs);
        self.block.nodes[node].pending = pieces.len() as u32;
        for &piece in &pieces {
            let part = self.part_of(ctx, node, piece, core);
            let rq = self.flash_request(part, piece, h, NO_TAG);
            if self.block.get_driver_tag(rq) {
                self.dispatch(ctx, core, rq);
            } else {
                self.block.hctxs[h].repair_later(rq);
            }
        }
        if let Some(pblk) = &mut self.block.disks[d].pblk {
            pblk.repairs = pieces;
            pblk.repairs.clear();
        }
    }
}
