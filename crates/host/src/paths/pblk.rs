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
//! - A read whose LUN is busy goes to the other LUNs of its stride. Here these are vector commands, one each.
//!   Linux makes one request with all addresses, and that is what it costs. For a read that failed the
//!   interrupt handler sends these.
//! - With logical blocks of 512 bytes a second kernel thread takes writes of parts of sectors, as dm-ebs does. It
//!   reads the rest, and the handler of the last read's interrupt gives the write to the FTL. The submitter goes
//!   on meanwhile.
//! - Completions enter the FTL from the interrupt handler.
//!
//! The costs are those of `FtlConfig::cost`.

use crate::block::{NO_TAG, NONE, Node, Purpose, Request};
use crate::disk::DriveInfo;
use crate::function::{Function, spend};
use crate::host::Host;
use crate::paths::map_lock::{Hold, MapLock};
use crate::paths::staging::Staging;
use crate::source::Source;
use crate::stats::PblkStats;
use crate::tasks::thread::{Asleep, Flow, Step};
use crate::{CoreId, DiskId, ThreadId};
use std::collections::VecDeque;
use std::ops::Range;
use wordline_base::{Ctx, Ddir, Layer, Lpn, SectorSize, Span, Time, Why};
use wordline_fs::Lack;
use wordline_ftl::config::FtlCost;
use wordline_ftl::{
    Action, Brings, FlashOp, FlashRead, HeldUp, Piece, Place, ReadEnd, Stage, Touch, Translation,
    Translator, Turns, Work, check_own_read, mark_write, read_ended, send_data,
};
use wordline_nand::{Class, OpKind, Outcome, Ppa, UnitId};
use wordline_nvme::Opcode;

/// What the collector did to a write or trim.
#[derive(Clone, Copy, Default)]
struct Held {
    /// For how long it had held writes up before this one came.
    before: Span,
    /// For how long it held this one up.
    held: Span,
}

/// An FTL on the host, and its block device.
pub(crate) struct Pblk {
    pub(super) ftl: Translator,
    pub(super) cost: FtlCost,
    sector: SectorSize,
    /// Sectors of a write unit, what a program command carries.
    unit_sectors: u32,
    /// The kernel threads. With two the second one collects.
    kernel: Vec<Kernel>,
    /// The lock of a map that is a tree.
    pub(super) lock: Option<MapLock>,
    staging: Staging,
    /// A kernel thread has more to do than it knows of.
    has_more: bool,
    /// For how long the collector held writes up.
    held_up: HeldUp,
    /// By the node of a write or trim that is with the FTL.
    held: Vec<Held>,
    /// Reads to repair one that failed, while they are issued.
    repairs: Vec<Piece>,
    /// With logical blocks smaller than a sector.
    merges: Option<Box<Merges>>,
    pub(super) stats: PblkStats,
}

/// A kernel thread of the FTL's, and what it has still to do.
struct Kernel {
    thread: ThreadId,
    todo: VecDeque<Todo>,
}

#[derive(Clone, Copy, Debug)]
enum Todo {
    Act(Action),
    /// An operation ended whose end changes the map.
    End(End),
}

/// The end of a flash operation of the FTL's own.
#[derive(Clone, Copy, Debug)]
struct End {
    op: u32,
    ppa: Ppa,
    sectors: u32,
    held: Option<u32>,
    outcome: Outcome,
}

impl Pblk {
    /// An FTL for a disk, with its kernel threads.
    pub fn new(ftl: Translator, cost: FtlCost, info: &DriveInfo, kernel: Vec<ThreadId>) -> Pblk {
        let thread = |thread| Kernel { thread, todo: VecDeque::with_capacity(64) };
        Pblk {
            ftl,
            sector: info.sector,
            unit_sectors: info.unit_sectors,
            kernel: kernel.into_iter().map(thread).collect(),
            lock: cost.map.as_ref().map(|_| MapLock::default()),
            staging: Staging::new(info.staging_bytes, info.sector.bytes(), info.unit_sectors),
            has_more: false,
            held_up: HeldUp::default(),
            held: Vec::new(),
            repairs: Vec::new(),
            merges: None,
            stats: PblkStats::default(),
            cost,
        }
    }
    /// Writes of parts of sectors are completed by this thread.
    pub fn merge_by(&mut self, thread: ThreadId) {
        self.merges = Some(Box::new(Merges::new(thread)));
    }
    /// The kernel thread that writes.
    pub fn writer(&self) -> ThreadId {
        self.kernel[0].thread
    }
    /// The FTL.
    pub fn ftl(&self) -> &Translator {
        &self.ftl
    }
    /// The clock starts.
    pub fn start(&mut self, ctx: &mut Ctx) {
        self.ftl.start(ctx);
    }
    /// A timer that it set.
    pub fn on_timer(&mut self, ctx: &mut Ctx, index: u32) {
        self.ftl.on_timer(ctx, index);
    }
    /// A command of the FTL's or for it goes to the drive: what crosses the link.
    pub(super) fn crosses_link(&mut self, r: &Request) {
        let sectors = match r.opcode {
            Opcode::VectorReset => 0,
            _ => self.sector.of(r.bytes),
        };
        let data = self.sector.bytes_of((sectors - u64::from(r.inner)) as u32);
        self.stats.link_bytes[usize::from(r.work)] += data + u64::from(r.beside);
    }
    /// A flush of the device, which ends as the node.
    pub fn flush(&mut self, ctx: &mut Ctx, node: u32) {
        self.stats.flushes += 1;
        self.ftl.flush(ctx, node);
    }
    /// The map is about to be asked for the byte.
    #[inline]
    pub fn prefetch(&mut self, ctx: &Ctx, byte: u64) {
        self.ftl.prefetch(ctx, Lpn(self.sector.of(byte) as u32));
    }
    /// What it has done so far.
    pub fn stats(&self) -> PblkStats {
        let map_lock = self.lock.as_ref().map_or_else(Default::default, MapLock::stats);
        PblkStats { map_lock, ..self.stats }
    }
    /// One of the kernel threads will do it.
    fn later(&mut self, todo: Todo) {
        let collects = match todo {
            Todo::End(_) => true,
            Todo::Act(Action::Read { class, .. } | Action::Program { class, .. }) => {
                matches!(class, Class::GcRead | Class::GcProgram)
            }
            Todo::Act(action) => matches!(action, Action::Erase { .. } | Action::Sum { .. }),
        };
        let last = self.kernel.len() - 1;
        self.kernel[last * usize::from(collects)].todo.push_back(todo);
        self.has_more = true;
    }
    /// A write or trim is given to the FTL.
    #[inline]
    fn comes(&mut self, write: u32, now: Time) {
        let before = self.held_up.until(now);
        match self.held.get_mut(write as usize) {
            Some(held) => held.before = before,
            None => self.comes_first(write as usize, before),
        }
        self.held_up.look();
    }
    /// No node of this number has come before.
    #[cold]
    fn comes_first(&mut self, write: usize, before: Span) {
        self.held.resize(write + 1, Held::default());
        self.held[write].before = before;
    }
    /// The FTL is through with a write or trim, or has taken a part of it: that ends the time for which the collector held
    /// it up.
    #[inline]
    fn waits_no_more(&mut self, node: u32, now: Time) {
        // A flush has none.
        if let Some(held) = self.held.get_mut(node as usize) {
            held.held = self.held_up.until(now) - held.before;
        }
    }
    /// That time.
    fn held(&self, write: u32) -> Span {
        self.held.get(write as usize).map_or(Span::ZERO, |held| held.held)
    }
    fn ended(&mut self, ctx: &mut Ctx, end: End) {
        check_own_read(&self.ftl, ctx, end.op, end.ppa, end.sectors, end.held);
        self.ftl.on_done(ctx, end.op, end.outcome);
    }
    #[inline]
    fn kernel_of(&mut self, thread: u32) -> Option<&mut Kernel> {
        self.kernel.iter_mut().find(|k| k.thread == thread)
    }
}

/// What a thread is about in pblk.
#[derive(Debug, Default)]
pub(crate) struct InPblk {
    /// Flash reads of the bio at hand.
    pieces: Vec<Piece>,
    /// Flash reads of it that are out.
    piece: usize,
    /// pblk's kernel thread: what it is to issue.
    work: Option<Work>,
    /// Data of its write that go to the drive ahead of their program, until it is through with the map.
    stages: Vec<Stage>,
    /// Completions, until it is through with the map.
    completions: Vec<(u32, bool)>,
    /// It has the lock of the map.
    pub(super) hold: Option<Hold>,
    /// What asking for the lock costs, if it has it when it wakes up.
    pub(super) owed: u64,
    /// Part of the time that it owes for the FTL that is the map's.
    of_map: u64,
    /// The collector's work on the map for a unit that it has read, sector by sector.
    sectors: Sectors,
    /// What the thread is to the FTL.
    role: Role,
}

/// Time on the map that is left, and sectors that it is for.
#[derive(Clone, Copy, Debug, Default)]
struct Sectors {
    ns: u64,
    sectors: u32,
}

impl Sectors {
    /// That of the next one.
    fn next(&mut self) -> Option<u64> {
        let ns = self.ns.checked_div(self.sectors.into())?;
        (self.ns, self.sectors) = (self.ns - ns, self.sectors - 1);
        Some(ns)
    }
}

/// What a thread does in the FTL.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Role {
    /// Its own calls.
    #[default]
    Caller,
    Writer,
    Collector,
}

impl InPblk {
    /// No pieces of another bio.
    pub fn start(&mut self) -> &mut Vec<Piece> {
        self.pieces.clear();
        self.piece = 0;
        &mut self.pieces
    }
    /// Part of the node's data is among what it stages.
    fn stages_of(&self, node: u32) -> bool {
        self.stages.iter().any(|stage| stage.tag == node)
    }
    /// The thread is this to the FTL.
    pub fn becomes(&mut self, role: Role) {
        self.role = role;
    }
    /// So much of the time that the thread owes is the map's.
    pub(super) fn owes_map(&mut self, ns: u64) {
        self.of_map += ns;
    }
    /// The time owed is spent: how much of it on the map, and as what function the rest.
    pub fn spent(&mut self) -> (u64, Function) {
        let f = match self.role {
            Role::Caller => Function::Ftl,
            Role::Writer => Function::FtlWriter,
            Role::Collector => Function::FtlCollector,
        };
        (std::mem::take(&mut self.of_map), f)
    }
    /// It has the lock of the map.
    pub fn holds_map(&self) -> bool {
        self.hold.is_some()
    }
    /// It is pblk's kernel thread with something to issue.
    pub fn has_work(&self) -> bool {
        self.work.is_some()
    }
}

/// Writes of parts of sectors.
struct Merges {
    turns: Turns,
    /// Nodes that write or trim sectors, or wait to.
    under_way: Vec<(u32, Touch)>,
    /// Writes among these whose rest may be read now.
    ready: VecDeque<u32>,
    /// The kernel thread that reads it.
    thread: u32,
}

impl Merges {
    fn new(thread: u32) -> Merges {
        Merges { turns: Turns::default(), under_way: Vec::new(), ready: VecDeque::new(), thread }
    }
}

#[inline]
fn touch_of(node: &Node, sector: SectorSize) -> Touch {
    let (offset, len) = (node.offset, u64::from(node.len));
    match node.ddir {
        Ddir::Trim => Touch::trim(offset, len, sector),
        _ => Touch::write(offset, len, sector),
    }
}

impl<S: Source> Host<S> {
    /// A write or trim has been paid for, and goes on in its turn.
    pub(crate) fn pblk_change(&mut self, ctx: &mut Ctx, part: u32, on: u32) {
        let node = &self.block.nodes[part];
        let Some(pblk) = self.block.disks[node.disk].enter(ctx) else { return };
        let touch = touch_of(node, pblk.sector);
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
        let disk = &mut self.block.disks[node.disk];
        let Some(pblk) = disk.enter(ctx) else { return };
        let (lpn, sectors) = (Lpn(touch.sectors.start), touch.sectors.len() as u32);
        pblk.comes(part, ctx.now);
        if node.ddir == Ddir::Write {
            pblk.stats.write_waits += 1;
            // Of bios with REQ_PREFLUSH alone: see `is_on_pblk`.
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
        if self.threads[t].asleep() == Asleep::Actions {
            self.wake(ctx, t, on);
        }
    }

    fn merges(&mut self, disk: u16) -> Option<&mut Box<Merges>> {
        self.block.disks[disk].paths.pblk.as_mut()?.merges.as_mut()
    }

    /// The kernel thread reads the rest of the sectors that the next write covers in part.
    pub(crate) fn next_merge(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let d = self.threads[t].disk();
        let Some(pblk) = self.block.disks[d].enter(ctx) else { return Flow::Off };
        let Some(m) = &mut pblk.merges else { return Flow::Off };
        let Some(part) = m.ready.pop_front() else {
            return self.sleep(ctx, t, Asleep::Actions);
        };
        let touch = touch_of(&self.block.nodes[part], pblk.sector);
        let thread = &mut self.threads[t];
        let pieces = thread.begin_merge(part);
        for lpn in touch.partial() {
            m.turns.begin(lpn, ctx.stamps.merge(part, Lpn(lpn)));
            pblk.stats.rmw_units += 1;
            let before = pieces.len();
            pblk.ftl.read(ctx, Lpn(lpn), 1, pieces);
            let flash = pieces[before..].iter().any(|p| p.place.ppa().is_some());
            pblk.stats.rmw_read_bytes += if flash { pblk.sector.bytes() } else { 0 };
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
        node.merges = false;
        node.divide(1);
        if node.ok {
            let touch = touch_of(node, self.block.disks[d].info().sector);
            self.give(ctx, part, &touch);
        } else {
            ctx.enter_drive(self.block.disks[d].drive());
            ctx.stamps.acknowledge(node.at_ledger, false);
            self.leave(ctx, part, false, on);
            self.node_done(ctx, part, false, on);
        }
        self.pump_ftl(ctx, d, on);
    }

    /// A write or trim is what reads find, or has failed: others may go on to its sectors.
    pub(crate) fn leave(&mut self, ctx: &mut Ctx, part: u32, ok: bool, on: Option<u32>) {
        let d = self.block.nodes[part].disk;
        let disk = &mut self.block.disks[d];
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
            let touch = touch_of(&node, self.block.disks[d].info().sector);
            match touch.is_partial() {
                true => self.merge_later(ctx, next, on),
                false => self.give(ctx, next, &touch),
            }
        }
    }

    /// A bio for pblk: its processor time first. A read is translated before it is spent.
    pub(crate) fn pblk_bio(&mut self, ctx: &mut Ctx, t: u32, part: u32) -> Flow {
        let node = self.block.nodes[part];
        let disk = &mut self.block.disks[node.disk];
        let Some(pblk) = disk.enter(ctx) else { return Flow::Again };
        let thread = &mut self.threads[t];
        let lpn = Lpn(pblk.sector.of(node.offset) as u32);
        let end = pblk.sector.holding(node.offset + u64::from(node.len)) as u32;
        let sectors = end - lpn.0;
        let cost = &pblk.cost;
        if node.ddir != Ddir::Read {
            thread.pend.ftl += cost.write_command.0;
            if node.ddir == Ddir::Write {
                thread.pend.ftl += cost.write_sector.0 * u64::from(sectors);
            }
            return self.segment(ctx, t, Step::PblkWrite);
        }
        pblk.stats.read_bios += 1;
        thread.pend.ftl += cost.read_command.0 + cost.read_sector.0 * u64::from(sectors);
        if pblk.lock.is_some() {
            return self.segment(ctx, t, Step::PblkLookUp);
        }
        pblk.ftl.read(ctx, lpn, sectors, thread.pblk.start());
        self.read_pieces(ctx, t, part)
    }

    /// A read looks up where its sectors are, with others that do so.
    pub(crate) fn pblk_look_up(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        if let Some(flow) = self.locked(ctx, t, Hold::Shared, Step::PblkLookUp) {
            return flow;
        }
        let thread = &mut self.threads[t];
        let part = thread.call.part();
        let node = self.block.nodes[part];
        let Some(pblk) = self.block.disks[node.disk].enter(ctx) else { return Flow::Again };
        let first = pblk.sector.of(node.offset);
        let sectors = pblk.sector.holding(node.offset + u64::from(node.len)) - first;
        pblk.ftl.read(ctx, Lpn(first as u32), sectors as u32, thread.pblk.start());
        thread.plan_on(part);
        self.charge_map(t);
        self.segment(ctx, t, Step::PblkUnlock)
    }

    /// The thread has no more to do with the map.
    pub(crate) fn pblk_unlock(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        if self.threads[t].pblk.sectors.sectors > 0 {
            return self.next_sector(ctx, t);
        }
        self.unlock(ctx, t);
        let thread = &self.threads[t];
        let (d, core) = (thread.disk(), thread.core());
        if !thread.is_job() && self.is_ftl_thread(d, t) {
            self.pump_ftl(ctx, d, Some(core));
            return self.go(t, Step::Kernel);
        }
        let thread = &mut self.threads[t];
        let part = thread.call.part();
        if thread.call.reads() {
            thread.plan_for(part);
            return self.read_pieces(ctx, t, part);
        }
        if !self.threads[t].pblk.completions.is_empty() {
            for at in 0..self.threads[t].pblk.completions.len() {
                let (tag, ok) = self.threads[t].pblk.completions[at];
                self.ftl_completes(ctx, d, tag, ok, Some(core));
            }
            self.threads[t].pblk.completions.clear();
            // Others may go on to their sectors.
            self.pump_ftl(ctx, d, Some(core));
        }
        let thread = &mut self.threads[t];
        let stages = thread.pblk.stages.len() as u64;
        if stages == 0 {
            return self.go(t, Step::Part);
        }
        let Some(pblk) = &self.block.disks[d].paths.pblk else { return Flow::Off };
        thread.pend.ftl += pblk.cost.background_command.0 * stages;
        thread.pend.block += spend!(self, thread.core(), Block * stages);
        thread.pend.driver += spend!(self, thread.core(), DmaMap * stages, Doorbell * stages);
        if thread.pblk.stages_of(part) {
            thread.plan_for(part);
        }
        self.segment(ctx, t, Step::PblkRead)
    }

    fn is_ftl_thread(&mut self, d: u16, t: u32) -> bool {
        let pblk = self.block.disks[d].paths.pblk.as_mut();
        pblk.is_some_and(|pblk| pblk.kernel_of(t).is_some())
    }

    /// What of a bio's sectors is on flash is read.
    pub(crate) fn read_pieces(&mut self, ctx: &mut Ctx, t: u32, part: u32) -> Flow {
        let disk = &mut self.block.disks[self.block.nodes[part].disk];
        let Some(pblk) = &mut disk.paths.pblk else { return Flow::Again };
        let thread = &mut self.threads[t];
        let cost = &pblk.cost;
        let mut flash = 0;
        for piece in &thread.pblk.pieces {
            let sectors = u64::from(piece.sectors);
            match piece.place {
                Place::Unmapped => pblk.stats.unmapped_sectors += sectors,
                Place::Buffer => pblk.stats.buffer_sectors += sectors,
                Place::Lost => {
                    pblk.stats.buffer_sectors += sectors;
                    self.block.nodes[part].ok = false;
                }
                Place::Flash { .. } => {
                    pblk.stats.flash_sectors += sectors;
                    flash += 1;
                }
                Place::Member { first, .. } => {
                    pblk.stats.flash_sectors += if first { sectors } else { 0 };
                    // Charged ahead of the data it is spent on; the sum of the latency is the same.
                    thread.pend.ftl += cost.xor_sector.0 * sectors;
                    pblk.stats.xor_ns += cost.xor_sector.0 * sectors;
                    flash += 1;
                }
            }
        }
        if flash > 0 {
            // One request with a list of addresses, whatever the number of commands here.
            pblk.stats.flash_reads += u64::from(flash as u32);
            thread.pend.block += spend!(self, thread.core(), Block);
            thread.pend.driver += spend!(self, thread.core(), DmaMap, Doorbell);
        }
        thread.pblk.pieces.retain(|p| p.place.ppa().is_some());
        if flash > 1 {
            self.block.nodes[part].divide(flash as u32);
        }
        self.segment(ctx, t, Step::PblkRead)
    }

    /// The next flash read of the bio at hand.
    pub(crate) fn pblk_read(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        if !self.threads[t].pblk.stages.is_empty() {
            return self.stage_next(ctx, t);
        }
        let thread = &mut self.threads[t];
        let (part, core, h) = (thread.call.part(), thread.core(), thread.hctx());
        if !thread.call.reads() {
            // A write has sent all that it stages.
            return self.go(t, Step::Part);
        }
        let Some(&piece) = thread.pblk.pieces.get(thread.pblk.piece) else {
            let none = thread.pblk.pieces.is_empty();
            self.go(t, Step::Part);
            if none {
                self.node_done(ctx, part, true, Some(core));
            }
            return Flow::Again;
        };
        let tag = match thread.call.take_granted() {
            NO_TAG => self.block.hctxs[h].take_tag(),
            tag => Some(tag),
        };
        let Some(tag) = tag else { return self.go(t, Step::TagWait) };
        thread.pblk.piece += 1;
        let single = thread.pblk.pieces.len() == 1;
        let node = if single { part } else { self.part_of(ctx, part, piece, core) };
        let rq = self.flash_request(node, piece, h, tag);
        self.issue(ctx, rq, core);
        // One is the usual number: then that is all.
        if single { self.go(t, Step::Part) } else { Flow::Again }
    }

    /// A node for one of the flash reads that an I/O waits for.
    pub(crate) fn part_of(&mut self, ctx: &mut Ctx, part: u32, piece: Piece, core: u32) -> u32 {
        let n = self.block.nodes[part];
        let sector = self.block.disks[n.disk].info().sector;
        let len = sector.bytes_of(piece.sectors) as u32;
        let node = self.child(part, sector.bytes_of(piece.lpn.0), len);
        let begin = ctx.lives.get(n.life).end;
        let life = ctx.lives.begin(n.thread, n.ddir, n.offset, len, begin);
        ctx.mark(life, Layer::Block, Why::Tag, core, ctx.now);
        self.block.nodes[node].life = life;
        node
    }

    /// A vector read, with its tag.
    pub(crate) fn flash_request(&mut self, node: u32, piece: Piece, h: u16, tag: u16) -> u32 {
        let read = FlashRead::of(&piece).expect("only flash is read");
        let ppa = read.ppa;
        let sector = self.block.disks[self.block.hctxs[h].disk()].info().sector;
        let bytes = sector.bytes_of(piece.sectors);
        let rq = self.block.request(node, Opcode::VectorRead, u64::from(ppa.0), bytes, h, tag);
        let r = &mut self.block.requests[rq];
        r.work = piece.place.class() as u8;
        r.purpose = Purpose::Piece { lpn: read.lpn.0, brings: read.brings };
        rq
    }

    /// A flash read of an application's is back: whether what it is for is there. None: it is repaired first.
    pub(crate) fn flash_read_ended(
        &mut self,
        ctx: &mut Ctx,
        d: DiskId,
        r: Request,
        (lpn, brings): (Lpn, Brings),
        (ok, held): (bool, Option<u32>),
        core: CoreId,
    ) -> Option<bool> {
        let pblk = self.block.disks[d].enter(ctx)?;
        let (ppa, sectors) = (Ppa(r.offset as u32), pblk.sector.of(r.bytes) as u32);
        let read = FlashRead { lpn, sectors, ppa, brings };
        let mut more = std::mem::take(&mut pblk.repairs);
        let end = read_ended(&mut pblk.ftl, ctx, read, ok, held, &mut more);
        let again = !more.is_empty();
        pblk.repairs = more;
        if again {
            self.repair(ctx, r.first, r.hctx, core);
        }
        self.pump_ftl(ctx, d, Some(core));
        // While others of a run's reads are under way nothing is known.
        (!again).then_some(!matches!(end, ReadEnd::Over { ok: false, .. }))
    }

    /// A flash operation of the FTL's own is back.
    pub(crate) fn flash_op_ended(
        &mut self,
        ctx: &mut Ctx,
        d: DiskId,
        r: Request,
        op: u32,
        (ok, held): (bool, Option<u32>),
        core: CoreId,
    ) {
        let Some(pblk) = self.block.disks[d].enter(ctx) else { return };
        let (ppa, sectors) = (Ppa(r.offset as u32), pblk.sector.of(r.bytes) as u32);
        let outcome = if ok { Outcome::Ok } else { Outcome::Failed };
        let end = End { op, ppa, sectors, held, outcome };
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

    /// The I/O `node` waits for the rest of its stride instead of a read that failed.
    fn repair(&mut self, ctx: &mut Ctx, node: u32, h: u16, core: u32) {
        let d = self.block.hctxs[h].disk();
        let Some(pblk) = &mut self.block.disks[d].paths.pblk else { return };
        let pieces = std::mem::take(&mut pblk.repairs);
        self.block.nodes[node].divide(pieces.len() as u32);
        for &piece in &pieces {
            let part = self.part_of(ctx, node, piece, core);
            let rq = self.flash_request(part, piece, h, NO_TAG);
            if self.block.get_driver_tag(rq) {
                self.dispatch(ctx, core, rq);
            } else {
                self.block.hctxs[h].repair_later(rq);
            }
        }
        if let Some(pblk) = &mut self.block.disks[d].paths.pblk {
            pblk.repairs = pieces;
            pblk.repairs.clear();
        }
    }

    /// A write or trim, its processor time behind it.
    pub(crate) fn pblk_write(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        if let Some(flow) = self.locked(ctx, t, Hold::Alone, Step::PblkWrite) {
            return flow;
        }
        let thread = &self.threads[t];
        let (part, core) = (thread.call.part(), thread.core());
        if thread.pblk.hold.is_none() {
            self.go(t, Step::Part);
            self.pblk_change(ctx, part, core);
            return Flow::Again;
        }
        // What becomes of it at once comes after the work on the map.
        self.paths.changes = t;
        self.pblk_change(ctx, part, core);
        self.paths.changes = NONE;
        let thread = &mut self.threads[t];
        // Others' writes may find room by what this one does.
        let staged = thread.pblk.stages_of(part);
        if staged || thread.pblk.completions.iter().any(|&(tag, _)| tag == part) {
            thread.plan_on(part);
            let writes = self.block.nodes[part].ddir == Ddir::Write;
            if staged
                && writes
                && let Some(pblk) = &mut self.block.disks[thread.disk()].paths.pblk
            {
                pblk.stats.write_waits -= 1;
            }
        } else {
            // It waits for room, and may be over when this is.
            thread.plan_nothing();
        }
        self.charge_map(t);
        self.segment(ctx, t, Step::PblkUnlock)
    }

    /// Takes what the FTL wants done. `on` is the core at work.
    pub(crate) fn pump_ftl(&mut self, ctx: &mut Ctx, d: u16, on: Option<u32>) {
        while let Some(pblk) = &mut self.block.disks[d].paths.pblk {
            let Some(action) = pblk.ftl.poll() else { break };
            pblk.held_up.look();
            let changes = self.paths.changes;
            let (tag, ok) = match action {
                Action::Complete { tag, ok } => {
                    pblk.waits_no_more(tag, ctx.now);
                    (tag, ok)
                }
                Action::Refuse { tag } => {
                    pblk.waits_no_more(tag, ctx.now);
                    (tag, false)
                }
                Action::Stage { op, tag, ppa, sectors } => {
                    pblk.waits_no_more(tag, ctx.now);
                    let stage = Stage { op, tag, ppa, sectors };
                    if !pblk.staging.admit(stage) {
                        pblk.stats.staging_waits += 1;
                    } else if changes == NONE {
                        pblk.later(Todo::Act(action));
                    } else {
                        self.threads[changes].pblk.stages.push(stage);
                    }
                    continue;
                }
                _ => {
                    pblk.later(Todo::Act(action));
                    continue;
                }
            };
            match changes {
                NONE => self.ftl_completes(ctx, d, tag, ok, on),
                t => self.threads[t].pblk.completions.push((tag, ok)),
            }
        }
        let Some(pblk) = &mut self.block.disks[d].paths.pblk else { return };
        if pblk.held_up.looks() {
            pblk.held_up.see(ctx.now, pblk.ftl.collector_holds());
        }
        while let Some(Stage { op, tag, ppa, sectors }) = pblk.staging.next() {
            pblk.later(Todo::Act(Action::Stage { op, tag, ppa, sectors }));
        }
        if !std::mem::take(&mut pblk.has_more) {
            return;
        }
        for at in 0..pblk.kernel.len() {
            let Some(pblk) = &self.block.disks[d].paths.pblk else { return };
            let t = pblk.kernel[at].thread;
            if !pblk.kernel[at].todo.is_empty() && self.threads[t].asleep() == Asleep::Actions {
                self.wake(ctx, t, on);
            }
        }
    }

    /// A command is over.
    fn ftl_completes(&mut self, ctx: &mut Ctx, d: u16, tag: u32, ok: bool, on: Option<u32>) {
        let disk = &mut self.block.disks[d];
        let (drive, node) = (disk.drive(), self.block.nodes[tag]);
        let Some(pblk) = &mut disk.paths.pblk else { return };
        // Of what was staged the last part tells more.
        if node.is_last() {
            if node.ddir == Ddir::Write && ctx.now == ctx.lives.get(node.life).end {
                pblk.stats.write_waits -= 1;
            }
            match node.ddir {
                Ddir::Write if !node.fua => {
                    let held = pblk.held(tag);
                    mark_write(ctx, node.life, 0, held);
                }
                // It was in the buffer long before: what the collector held since then were others.
                Ddir::Write | Ddir::Sync | Ddir::DataSync => {
                    ctx.mark(node.life, Layer::Ftl, Why::Flush, 0, ctx.now);
                }
                _ => ctx.mark(node.life, Layer::Ftl, Why::Work, 0, ctx.now),
            }
        }
        // Failed programs are written elsewhere: a write fails for want of room alone.
        if !ok && matches!(node.ddir, Ddir::Write | Ddir::Trim) {
            self.block.nodes[tag].lacks = Lack::Room;
        }
        ctx.enter_drive(drive);
        ctx.stamps.acknowledge(node.at_ledger, ok);
        if pblk.merges.is_some() {
            self.leave(ctx, tag, ok, on);
        }
        self.node_done(ctx, tag, ok, on);
    }

    /// The kernel thread takes up what the FTL wants next.
    pub(crate) fn kernel_next(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let d = self.threads[t].disk();
        let Some(pblk) = &mut self.block.disks[d].paths.pblk else { return Flow::Off };
        let Some(kernel) = pblk.kernel_of(t) else { return Flow::Off };
        let action = match kernel.todo.front() {
            None => return self.sleep(ctx, t, Asleep::Actions),
            Some(&Todo::End(end)) => return self.end_locked(ctx, t, end),
            Some(&Todo::Act(action)) => action,
        };
        kernel.todo.pop_front();
        let cost = action.cost(&pblk.cost);
        pblk.stats.xor_ns += cost.sum.0;
        let work = action.work(pblk.unit_sectors);
        let thread = &mut self.threads[t];
        thread.pend.ftl += cost.total().0;
        thread.pblk.work = Some(work);
        if let Work::Stage(stage) = work {
            thread.pblk.stages.push(stage);
            thread.pend.block += spend!(self, thread.core(), Block);
            thread.pend.driver += spend!(self, thread.core(), DmaMap, Doorbell);
            return self.segment(ctx, t, Step::KernelIssue);
        }
        let Work::Flash(flash) = work else { return self.segment(ctx, t, Step::KernelIssue) };
        match flash.kind {
            OpKind::Program => pblk.stats.programs += 1,
            OpKind::Erase => pblk.stats.erases += 1,
            OpKind::Read => pblk.stats.background_reads += 1,
        }
        thread.pend.block += spend!(self, thread.core(), Block);
        thread.pend.driver += spend!(self, thread.core(), DmaMap, Doorbell);
        self.segment(ctx, t, Step::KernelIssue)
    }

    /// The collector takes up the end of an operation, with the map for itself.
    fn end_locked(&mut self, ctx: &mut Ctx, t: u32, end: End) -> Flow {
        if let Some(flow) = self.locked(ctx, t, Hold::Alone, Step::Kernel) {
            return flow;
        }
        let d = self.threads[t].disk();
        let Some(pblk) = self.block.disks[d].enter(ctx) else { return Flow::Off };
        if let Some(kernel) = pblk.kernel_of(t) {
            kernel.todo.pop_front();
        }
        pblk.ended(ctx, end);
        debug_assert!(self.threads[t].pblk.holds_map());
        let ns = self.map_work(t);
        self.threads[t].pblk.sectors = Sectors { ns, sectors: end.sectors.max(1) };
        self.next_sector(ctx, t)
    }

    /// The collector looks at the next sector of a unit. Others who wait for the lock come before.
    #[inline(never)]
    fn next_sector(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        if self.others_want_map(t) {
            self.unlock(ctx, t);
        }
        if let Some(flow) = self.locked(ctx, t, Hold::Alone, Step::PblkUnlock) {
            return flow;
        }
        let thread = &mut self.threads[t];
        if let Some(ns) = thread.pblk.sectors.next() {
            thread.pend.ftl += ns;
            thread.pblk.owes_map(ns);
        }
        self.segment(ctx, t, Step::PblkUnlock)
    }

    /// The next of what a thread stages: a command, of the I/O that it is of.
    fn stage_next(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        let (core, h, d) = (thread.core(), thread.hctx(), thread.disk());
        if thread.pend.total() > 0 {
            let step = thread.step();
            return self.segment(ctx, t, step);
        }
        let tag = match thread.call.take_granted() {
            NO_TAG => self.block.hctxs[h].take_tag(),
            tag => Some(tag),
        };
        let Some(tag) = tag else { return self.go(t, Step::TagWait) };
        let stage = self.threads[t].pblk.stages.remove(0);
        let node = self.stage_node(ctx, stage, core);
        let bytes = self.block.disks[d].info().sector.bytes_of(stage.sectors);
        let ppa = u64::from(stage.ppa.0);
        let rq = self.block.request(node, Opcode::VectorStage, ppa, bytes, h, tag);
        let beside =
            self.block.disks[d].paths.pblk.as_ref().map_or(0, |pblk| pblk.ftl.beside(stage.op));
        let r = &mut self.block.requests[rq];
        (r.work, r.beside) = (Class::UserProgram as u8, beside);
        r.purpose = Purpose::Ftl { op: stage.op };
        if let Some(pblk) = &mut self.block.disks[d].paths.pblk {
            pblk.stats.staged += 1;
        }
        self.issue(ctx, rq, core);
        Flow::Again
    }

    /// A node for what of a write is staged together: its own, if that is all of it.
    fn stage_node(&mut self, ctx: &mut Ctx, stage: Stage, core: u32) -> u32 {
        let node = &mut self.block.nodes[stage.tag];
        node.wait_for(1);
        let n = *node;
        let disk = &self.block.disks[n.disk];
        let bytes = disk.info().sector.bytes_of(stage.sectors);
        let held = disk.paths.pblk.as_ref().map_or(Span::ZERO, |pblk| pblk.held(stage.tag));
        if bytes == u64::from(n.len) {
            mark_write(ctx, n.life, core, held);
            return stage.tag;
        }
        let node = self.child(stage.tag, n.offset, bytes as u32);
        let begin = ctx.lives.get(n.life).end;
        let life = ctx.lives.begin(n.thread, n.ddir, n.offset, n.len, begin);
        mark_write(ctx, life, core, held);
        self.block.nodes[node].life = life;
        node
    }

    /// The kernel thread sends what it took up.
    pub(crate) fn kernel_issue(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        if thread.pend.total() > 0 {
            return self.segment(ctx, t, Step::KernelIssue);
        }
        if !thread.pblk.stages.is_empty() {
            self.stage_next(ctx, t);
            let thread = &mut self.threads[t];
            if thread.pblk.stages.is_empty() {
                thread.pblk.work = None;
                thread.set_step(Step::Kernel);
            }
            return Flow::Again;
        }
        let (core, h) = (thread.core(), thread.hctx());
        let d = thread.disk();
        let disk = &mut self.block.disks[d];
        if let (Some(Work::Sum { op }), Some(pblk)) = (thread.pblk.work, disk.enter(ctx)) {
            thread.pblk.work = None;
            pblk.ftl.on_done(ctx, op, Outcome::Ok);
            self.pump_ftl(ctx, d, Some(core));
            return self.go(t, Step::Kernel);
        }
        let tag = match thread.call.take_granted() {
            NO_TAG => self.block.hctxs[h].take_tag(),
            tag => Some(tag),
        };
        let Some(tag) = tag else { return self.go(t, Step::TagWait) };
        let Some(Work::Flash(flash)) = self.threads[t].pblk.work.take() else {
            unreachable!("the kernel thread has a flash operation with a command")
        };
        if let Some(pblk) = self.block.disks[d].enter(ctx) {
            send_data(&pblk.ftl, ctx, &flash);
        }
        let FlashOp { op, kind, class, ppa, sectors, payload, .. } = flash;
        let (opcode, named) = match kind {
            OpKind::Program => (Opcode::VectorWrite, sectors),
            OpKind::Read => (Opcode::VectorRead, sectors),
            // One sector names the block.
            OpKind::Erase => (Opcode::VectorReset, 1),
        };
        let bytes = self.block.disks[d].info().sector.bytes_of(named);
        let rq = self.block.request(NONE, opcode, u64::from(ppa.0), bytes, h, tag);
        let beside = self.block.disks[d].paths.pblk.as_ref().map_or(0, |pblk| pblk.ftl.beside(op));
        let r = &mut self.block.requests[rq];
        r.work = class as u8;
        (r.inner, r.beside) = (sectors - payload, beside);
        r.purpose = Purpose::Ftl { op };
        self.issue(ctx, rq, core);
        self.go(t, Step::Kernel)
    }

    /// What a repair reads is added up later, and charged where it is issued as that of other rebuilt
    /// reads is.
    pub(crate) fn repair_sum(&mut self, core: u32, rq: u32) -> u64 {
        let r = &self.block.requests[rq];
        let Purpose::Piece { brings: Brings::Member { .. }, .. } = r.purpose else { return 0 };
        let disk = &mut self.block.disks[self.block.hctxs[r.hctx].disk()];
        let Some(pblk) = &mut disk.paths.pblk else { return 0 };
        let sum = pblk.cost.xor_sector.0 * pblk.sector.of(r.bytes);
        pblk.stats.xor_ns += sum;
        self.cores[core].charge(Function::Ftl, sum);
        sum
    }
}
