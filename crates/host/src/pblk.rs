//! pblk: the FTL on the host above an open-channel drive. A bio-based block device, so bios are
//! not merged before it, nor scheduled unless `bio_scheduler` asks for it.
//!
//! - A read is translated by the submitting thread. Sectors in the write buffer are copied there;
//!   the others become vector reads, which the driver takes as one request.
//! - A write is copied into the buffer by the submitting thread and ends there, unless the buffer
//!   or the rate limiter holds it back, or it must be durable.
//! - Programs, erases and the FTL's own reads are issued by one kernel thread on a core of its own,
//!   in the order the FTL asked for them. Linux has a writer and several garbage-collection
//!   threads; one keeps the order that the FTL relies on.
//! - A read whose LUN is busy goes to the other LUNs of its stride, one vector command each here
//!   and one request with all addresses in Linux, which is what it costs; a read that failed is
//!   followed by these from the interrupt handler.
//! - With logical blocks of 512 bytes a write of part of a sector is taken by a second kernel thread, as
//!   dm-ebs does it: it reads the rest, and the handler of the last read's interrupt gives the write to
//!   the FTL. The submitter goes on meanwhile.
//! - Completions enter the FTL from the interrupt handler.
//!
//! The costs are those of `FtlConfig::cost`.

use crate::blkmq::Node;
use crate::host::Host;
use crate::source::Source;
use crate::stats::PblkStats;
use crate::thread::{Asleep, Flow};
use std::collections::VecDeque;
use std::ops::Range;
use wordline_base::{Ctx, Ddir, Layer, Lpn, SECTOR, SECTOR_SHIFT, Why};
use wordline_ftl::config::FtlCost;
use wordline_ftl::{Action, Piece, Touch, Translation, Translator, Turns};

pub(crate) struct Pblk {
    pub ftl: Translator,
    pub cost: FtlCost,
    /// Sectors of a write unit, what a program command carries.
    pub unit_sectors: u32,
    /// The kernel thread, and what it has still to issue.
    pub thread: u32,
    pub actions: VecDeque<Action>,
    /// Reads to repair one that failed, while they are issued.
    pub repairs: Vec<Piece>,
    /// With logical blocks smaller than a sector.
    pub merges: Option<Box<Merges>>,
    pub stats: PblkStats,
}

/// Writes of parts of sectors.
pub(crate) struct Merges {
    turns: Turns,
    /// Nodes that write or trim sectors, or wait to.
    under_way: Vec<(u32, Touch)>,
    /// Of these, writes whose rest may be read now.
    ready: VecDeque<u32>,
    /// The kernel thread that reads it.
    thread: u32,
}

impl Merges {
    pub fn new(thread: u32) -> Merges {
        Merges { turns: Turns::default(), under_way: Vec::new(), ready: VecDeque::new(), thread }
    }
}

fn touch_of(node: &Node) -> Touch {
    let (offset, len) = (node.offset, u64::from(node.len));
    match node.ddir {
        Ddir::Trim => Touch::trim(offset, len, SECTOR_SHIFT),
        _ => Touch::write(offset, len, SECTOR_SHIFT),
    }
}

impl<S: Source> Host<S> {
    /// A write or trim has been paid for, and goes on in its turn.
    pub(crate) fn pblk_change(&mut self, ctx: &mut Ctx, part: u32, on: u32) {
        let node = &self.block.nodes[part];
        let Some(pblk) = self.block.disks[usize::from(node.disk)].enter(ctx) else { return };
        let touch = touch_of(node);
        // Its bio is made here, and the FTL is the drive that it goes to.
        let Range { start, end } = touch.sectors;
        let submitted = ctx.stamps.submit(Lpn(start), end - start);
        ctx.stamps.bind(part, submitted);
        self.block.nodes[part].at_ledger = submitted;
        let node = &self.block.nodes[part];
        match node.ddir {
            Ddir::Trim => pblk.stats.trims += 1,
            _ => {
                pblk.stats.write_bios += 1;
                pblk.stats.write_bytes += u64::from(node.len);
            }
        }
        if let Some(m) = &mut pblk.merges {
            let under_way = &m.under_way;
            let first = m.turns.join(part, &touch, |sector| {
                let of = under_way.iter().filter(move |(_, t)| t.sectors.contains(&sector));
                of.map(|&(id, _)| id)
            });
            m.under_way.push((part, touch.clone()));
            if !first {
                pblk.stats.rmw_waits += 1;
                return;
            }
        }
        self.change_now(ctx, part, &touch, Some(on));
    }

    /// Nothing else is at the sectors. What is written in part waits for the kernel thread.
    fn change_now(&mut self, ctx: &mut Ctx, part: u32, touch: &Touch, on: Option<u32>) {
        if touch.is_partial() {
            return self.merge_later(ctx, part, on);
        }
        self.give(ctx, part, touch);
        self.pump_ftl(ctx, self.block.nodes[part].disk, on);
    }

    fn give(&mut self, ctx: &mut Ctx, part: u32, touch: &Touch) {
        let node = self.block.nodes[part];
        let disk = &mut self.block.disks[usize::from(node.disk)];
        let Some(pblk) = disk.enter(ctx) else { return };
        let (lpn, sectors) = (Lpn(touch.sectors.start), touch.sectors.len() as u32);
        if node.ddir == Ddir::Write {
            pblk.stats.write_waits += 1;
            // Direct writes carry no FUA: that is the file system's to ask for.
            pblk.ftl.write(ctx, part, lpn, sectors, node.fua, wordline_ftl::Source::Host);
        } else {
            pblk.ftl.trim(ctx, part, lpn, sectors);
        }
    }

    fn merge_later(&mut self, ctx: &mut Ctx, part: u32, on: Option<u32>) {
        let merges = self.merges(self.block.nodes[part].disk);
        // A drive of 4 KiB blocks is asked for whole ones alone, by files and by applications.
        let m = merges.expect("only a drive of smaller blocks is written in part");
        m.ready.push_back(part);
        let t = m.thread;
        if self.threads[t as usize].asleep == Asleep::Actions {
            self.wake(ctx, t, on);
        }
    }

    fn merges(&mut self, disk: u16) -> Option<&mut Box<Merges>> {
        self.block.disks[usize::from(disk)].pblk.as_mut()?.merges.as_mut()
    }

    /// The kernel thread reads the rest of the sectors that the next write covers in part.
    pub(crate) fn next_merge(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let d = usize::from(self.threads[t as usize].disk);
        let Some(pblk) = self.block.disks[d].enter(ctx) else { return Flow::Off };
        let Some(m) = &mut pblk.merges else { return Flow::Off };
        let Some(part) = m.ready.pop_front() else {
            return self.sleep(ctx, t, Asleep::Actions);
        };
        let touch = touch_of(&self.block.nodes[part]);
        let thread = &mut self.threads[t as usize];
        let pieces = thread.begin_merge(part);
        for lpn in touch.partial() {
            m.turns.begin(lpn, ctx.stamps.merge(part, Lpn(lpn)));
            pblk.stats.rmw_units += 1;
            let before = pieces.len();
            pblk.ftl.read(ctx, Lpn(lpn), 1, pieces);
            let flash = pieces[before..].iter().any(|p| p.place.ppa().is_some());
            pblk.stats.rmw_read_bytes += if flash { SECTOR } else { 0 };
        }
        let cost = pblk.cost.read_command + pblk.cost.read_sector;
        thread.pend.ftl += cost.0 * touch.partial().count() as u64;
        self.block.nodes[part].merges = true;
        self.read_pieces(ctx, t, part)
    }

    /// A write is whole sectors now, or cannot be.
    pub(crate) fn merged(&mut self, ctx: &mut Ctx, part: u32, on: Option<u32>) {
        let node = &mut self.block.nodes[part];
        let d = node.disk;
        (node.merges, node.pending) = (false, 1);
        if node.ok {
            let touch = touch_of(node);
            self.give(ctx, part, &touch);
        } else {
            ctx.enter_drive(self.block.disks[usize::from(d)].drive);
            ctx.stamps.acknowledge(node.at_ledger, false);
            self.leave(ctx, part, false, on);
            self.node_done(ctx, part, false, on);
        }
        self.pump_ftl(ctx, d, on);
    }

    /// A write or trim is what reads find, or has failed: others may go on to its sectors.
    pub(crate) fn leave(&mut self, ctx: &mut Ctx, part: u32, ok: bool, on: Option<u32>) {
        let d = self.block.nodes[part].disk;
        let disk = &mut self.block.disks[usize::from(d)];
        let Some(m) = disk.enter(ctx).and_then(|p| p.merges.as_mut()) else { return };
        let Some(at) = m.under_way.iter().position(|(id, _)| *id == part) else { return };
        let (_, touch) = m.under_way.swap_remove(at);
        m.turns.leave(part, touch.sectors, |sector, version| {
            // Another version in between would be lost.
            if ok && ctx.stamps.is_on() {
                let newest = ctx.stamps.newest(Lpn(sector));
                ctx.stamps.check(Lpn(sector), version, newest);
            }
        });
        while let Some(m) = self.merges(d)
            && let Some(next) = m.turns.ready()
        {
            let node = self.block.nodes[next];
            ctx.mark(node.life, Layer::Ftl, Why::Overlap, 0, ctx.now);
            let touch = touch_of(&node);
            match touch.is_partial() {
                true => self.merge_later(ctx, next, on),
                false => self.give(ctx, next, &touch),
            }
        }
    }
}
