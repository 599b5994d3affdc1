//! What each command does once the firmware has decoded it.
//!
//! - Reads: module `read`. Writes: module `write`.
//! - Flushes, deallocations: module `background`, and below.
//! - Vector commands: one flash operation each, at the physical address given.
//!
//! Commands in flight are not ordered among each other (NVMe 1.4 section 6.2): a read returns what
//! was newest when it was looked up.

use crate::cache::{Fill, Wait, Woken, bits};
use crate::controller::{Command, Controller, Stage, touch_of};
use std::ops::Range;
use wordline_base::{Ctx, IoId, Layer, Lpn, Why};
use wordline_ftl::{End, GcOrder, Ordered, Translation, check_own_read, mark_write};
use wordline_nand::{Class, Op, OpKind, Outcome, Ppa, Record};
use wordline_nvme::{Opcode, Sqe, Status};

/// Owners of flash operations: the kind in the two highest bits, and a number.
pub(super) const OWNER_READ: u32 = 0;
pub(crate) const OWNER_VECTOR: u32 = 1 << 30;
pub(crate) const OWNER_FTL: u32 = 2 << 30;
pub(crate) const OWNER_KIND: u32 = 3 << 30;

/// A tag of the FTL that is a write-back and not a command; and one that is a look-up.
pub(crate) const WRITE_BACK: u32 = 1 << 31;
pub(crate) const LOOK_UP: u32 = 1 << 30;

/// A trim that waits until no write-back of its range is under way, and the sectors that it covers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrimInCache {
    cmd: u32,
    first: u32,
    end: u32,
}

/// What waits for such trims, as it touches a line of theirs.
#[derive(Debug, Default)]
pub(crate) struct BehindTrims {
    /// Write-backs that the FTL has not been given.
    pub write_backs: Vec<u32>,
    /// Writes with FUA that are not in the cache.
    pub writes: Vec<u32>,
}

/// What waits until the FTL knows where sectors are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LookUp {
    /// A part of a command, or a read ahead of one.
    Read {
        cmd: u32,
        lpn: u32,
        sectors: u32,
        fill: Fill,
    },
    Write {
        cmd: u32,
    },
    WriteBack {
        key: u32,
    },
}

impl Controller {
    /// Firmware is done with a command.
    pub(super) fn execute(&mut self, ctx: &mut Ctx, cmd: u32) {
        if self.commands[cmd].stage == Stage::Translate {
            return self.look_up_all(ctx, cmd);
        }
        if self.commands[cmd].status != Status::Success {
            return self.finish(ctx, cmd);
        }
        if self.epoch.is_some() {
            self.see_command(ctx, cmd);
        }
        let opcode = self.commands[cmd].sqe.opcode;
        if let (Some(ftl), true) = (&mut self.ftl, self.cache.is_some())
            && matches!(opcode, Opcode::Write | Opcode::Deallocate)
        {
            ftl.user_came(ctx);
        }
        match opcode {
            Opcode::Read => self.read(ctx, cmd),
            Opcode::Write | Opcode::VectorWrite => self.ask_for_data(ctx, cmd),
            Opcode::Flush => self.flush(ctx, cmd),
            Opcode::Deallocate => {
                if self.takes_turn(cmd) {
                    self.trim(ctx, cmd);
                }
            }
            Opcode::VectorRead => self.vector(ctx, cmd, OpKind::Read),
            Opcode::VectorReset => self.vector(ctx, cmd, OpKind::Erase),
            Opcode::VectorStage => match self.stage(cmd) {
                Ok(()) => self.ask_for_data(ctx, cmd),
                Err(status) => self.fail(ctx, cmd, status),
            },
            Opcode::GcCounts | Opcode::GcCollect => self.gc_order(ctx, cmd),
        }
    }

    /// The FTL's collector takes the order of one on the host; it ends as a command of users does.
    fn gc_order(&mut self, ctx: &mut Ctx, cmd: u32) {
        let sqe = self.commands[cmd].sqe;
        let order = gc_order_of(&sqe);
        self.commands[cmd].stage = Stage::Ftl;
        let ftl = self.ftl.as_mut().and_then(Translation::ordered);
        if !ftl.is_some_and(|ftl| ftl.order(ctx, cmd, order)) {
            self.fail(ctx, cmd, Status::InvalidField);
        }
    }

    /// Counts a read or write for what the cache decides from epoch to epoch.
    #[inline(never)]
    fn see_command(&mut self, ctx: &Ctx, cmd: u32) {
        let Command { sqe, partition, lpn, sectors, .. } = self.commands[cmd];
        if !matches!(sqe.opcode, Opcode::Read | Opcode::Write) {
            return;
        }
        let (Some(cache), Some(epoch)) = (&mut self.cache, &mut self.epoch) else { return };
        if epoch.is_over(ctx.now) {
            if let Some(partitions) = &mut cache.partitions {
                partitions.end_epoch(ctx.now);
            }
            for (partition, ahead) in self.read_ahead.iter_mut().enumerate() {
                ahead.end_epoch(ctx.now, cache.ways_of(partition as u8).len() as u32);
            }
        }
        if let Some(partitions) = &mut cache.partitions {
            let enters = sqe.opcode == Opcode::Write
                || self.config.cache.as_ref().is_some_and(|c| c.read_allocate);
            partitions.see(partition, lpn, sectors, enters);
        }
        if sqe.opcode == Opcode::Write
            && let Some(ahead) = self.read_ahead.get_mut(usize::from(partition))
        {
            ahead.on_write(lpn, sectors);
        }
    }

    /// Whether the drive can serve the command (NVMe 1.4 section 4.6.1).
    #[inline]
    pub(super) fn check(&self, sqe: &Sqe) -> Result<(), Status> {
        match sqe.opcode {
            Opcode::Flush => Ok(()),
            Opcode::Read | Opcode::Write | Opcode::Deallocate => {
                let Some(ftl) = &self.ftl else { return Err(Status::InvalidField) };
                let within = u64::from(self.config.lba) - 1;
                let unaligned = (sqe.address | u64::from(sqe.bytes)) & within != 0;
                if sqe.bytes == 0 || unaligned {
                    return Err(Status::InvalidField);
                }
                // A trim moves ranges and not their bytes.
                let most = self.config.queues.max_transfer;
                if most > 0 && sqe.bytes > most && sqe.opcode != Opcode::Deallocate {
                    return Err(Status::InvalidField);
                }
                let end = sqe.address.checked_add(u64::from(sqe.bytes));
                match end {
                    Some(end) if end <= self.geometry.sector.bytes_of(ftl.sectors()) => Ok(()),
                    _ => Err(Status::LbaOutOfRange),
                }
            }
            Opcode::VectorRead
            | Opcode::VectorWrite
            | Opcode::VectorReset
            | Opcode::VectorStage => self.check_vector(sqe),
            Opcode::GcCounts | Opcode::GcCollect => {
                let shape = self.ftl.as_ref().and_then(Translation::gc_shape);
                match shape.map(|shape| gc_order_of(sqe).bytes(shape.segments)) {
                    Some(bytes) if bytes == sqe.bytes => Ok(()),
                    _ => Err(Status::InvalidField),
                }
            }
        }
    }

    fn check_vector(&self, sqe: &Sqe) -> Result<(), Status> {
        let g = &self.geometry;
        if self.ftl.is_some() {
            // Flash behind an FTL is not addressed from outside.
            return Err(Status::InvalidField);
        }
        if sqe.address >= g.sectors() {
            return Err(Status::LbaOutOfRange);
        }
        let class = Class::ALL.get(usize::from(sqe.work)).copied();
        let bytes = u64::from(sqe.bytes);
        let (sectors, in_unit) =
            (g.sector.of(bytes) as u32, sqe.address as u32 % g.sectors_per_unit);
        let whole = g.sector.bytes_of(sectors) == bytes && u32::from(sqe.inner) <= sectors;
        let fits = match (sqe.opcode, class) {
            // A reset is of one block, wherever in it the address is.
            (Opcode::VectorReset, Some(Class::Erase)) => true,
            (
                Opcode::VectorRead,
                Some(Class::UserRead | Class::RebuildRead | Class::GcRead | Class::MetaRead),
            ) => whole && sectors > 0 && sectors <= g.sectors_per_unit - in_unit,
            (
                Opcode::VectorWrite,
                Some(
                    Class::UserProgram
                    | Class::GcProgram
                    | Class::MetaProgram
                    | Class::ParityProgram,
                ),
            ) => whole && in_unit == 0 && sectors == g.sectors_per_unit,
            (
                Opcode::VectorStage,
                Some(Class::UserProgram | Class::GcProgram | Class::MetaProgram),
            ) => whole && sectors > 0 && sectors <= g.sectors_per_unit - in_unit,
            _ => false,
        };
        if fits { Ok(()) } else { Err(Status::InvalidField) }
    }

    pub(super) fn vector(&mut self, ctx: &mut Ctx, cmd: u32, kind: OpKind) {
        let sqe = self.commands[cmd].sqe;
        self.commands[cmd].stage = Stage::Flash;
        let op = Op {
            kind,
            class: Class::ALL[usize::from(sqe.work)],
            ppa: Ppa(sqe.address as u32),
            sectors: sqe.bytes >> self.geometry.sector.shift(),
            slc: false,
            owner: OWNER_VECTOR | cmd,
            io: sqe.io,
        };
        if kind == OpKind::Read {
            return self.submit_read(ctx, op);
        }
        let at = self.submit_in_order(ctx, op);
        self.counts.waits.limits += at.since(ctx.now).0;
        ctx.mark(sqe.io, Layer::Limit, Why::ProgramLimit, 0, at);
    }

    /// A flash operation ended.
    pub(super) fn flash_done(&mut self, ctx: &mut Ctx, key: u32) {
        let record = self.nand.record(key);
        let Record { op, outcome, held, .. } = *record;
        let owner = op.owner;
        let number = owner & !OWNER_KIND;
        match owner & OWNER_KIND {
            OWNER_READ => self.piece_read(ctx, number, key),
            OWNER_VECTOR => self.vector_done(ctx, number, key),
            _ => {
                let ftl = self.ftl.as_mut().expect("the FTL asked for it");
                check_own_read(ftl, ctx, number, op.ppa, op.sectors, held);
                ftl.on_done(ctx, number, outcome);
                if op.kind == OpKind::Program {
                    self.programmed = Some(*record);
                }
            }
        }
        // Last: what is submitted now may get the number of the record that was looked at.
        if self.power.as_ref().is_some_and(|limit| limit.limits(op.kind)) {
            self.give_power(ctx, op);
        }
    }

    #[inline]
    fn vector_done(&mut self, ctx: &mut Ctx, cmd: u32, key: u32) {
        let record = self.nand.record(key);
        let command = &mut self.commands[cmd];
        let read = command.sqe.opcode == Opcode::VectorRead;
        if record.outcome == Outcome::Failed {
            command.status = if read { Status::UnrecoveredRead } else { Status::WriteFault };
        }
        command.held = record.held;
        record.mark(&mut ctx.lives, command.sqe.io);
        if read {
            return self.respond(ctx, cmd);
        }
        let op = record.op;
        self.finish(ctx, cmd);
        if op.kind == OpKind::Program {
            self.unstage(op.ppa);
        }
    }

    /// One part of a command is over. After the last the command goes on, and its life is charged
    /// with the part that was last: the flash operation `key`, if it was one.
    #[inline]
    pub(super) fn part_done(&mut self, ctx: &mut Ctx, cmd: u32, key: Option<u32>) {
        let command = &mut self.commands[cmd];
        command.pending -= 1;
        if command.pending == 0 {
            self.parts_done(ctx, cmd, key);
        }
    }
    fn parts_done(&mut self, ctx: &mut Ctx, cmd: u32, key: Option<u32>) {
        let command = &self.commands[cmd];
        if let Some(key) = key {
            self.nand.record(key).mark(&mut ctx.lives, command.sqe.io);
        }
        match command.stage {
            Stage::Flash => self.read_ready(ctx, cmd),
            Stage::Merge => self.merged(ctx, cmd),
            Stage::Insert => self.finish(ctx, cmd),
            stage => unreachable!("a command in stage {stage:?} has no parts"),
        }
    }

    /// It changes what is stored, and that cannot be done.
    pub(super) fn write_fault(&mut self, ctx: &mut Ctx, cmd: u32) {
        self.commands[cmd].status = Status::WriteFault;
        self.finish(ctx, cmd);
    }

    /// Deallocate: whole sectors of the range read as zeroes from now on.
    pub(super) fn trim(&mut self, ctx: &mut Ctx, cmd: u32) {
        let sqe = self.commands[cmd].sqe;
        let Range { start: first, end } = touch_of(&sqe, self.geometry.sector).sectors;
        let waits = !self.is_read_only()
            && first < end
            && self.cache.is_some()
            && !self.trim_cache(cmd, first, end - first);
        if waits {
            if self.commands[cmd].stage != Stage::Trim {
                self.commands[cmd].stage = Stage::Trim;
                self.trims.push(TrimInCache { cmd, first, end });
            }
            return;
        }
        let waited = self.commands[cmd].stage == Stage::Trim;
        if self.is_read_only() {
            self.write_fault(ctx, cmd);
        } else if first >= end {
            self.finish(ctx, cmd);
        } else {
            self.commands[cmd].stage = Stage::Ftl;
            let ftl = self.ftl.as_mut().expect("logical addresses need an FTL");
            ftl.trim(ctx, cmd, Lpn(first), end - first);
        }
        if waited {
            self.trims.retain(|trim| trim.cmd != cmd);
            self.go_on_behind_trims(ctx);
        }
    }

    /// A trim that waits in the cache covers a part of a line that has one of these sectors.
    #[inline]
    pub(super) fn lines_are_trimmed(&self, from: u32, to: u32) -> bool {
        !self.trims.is_empty() && {
            let line = self.cache.as_ref().map_or(1, |cache| cache.line_sectors);
            let (from, to) = (from / line * line, to.next_multiple_of(line));
            self.trims.iter().any(|trim| trim.first < to && from < trim.end)
        }
    }
    /// What waited for a trim goes on.
    fn go_on_behind_trims(&mut self, ctx: &mut Ctx) {
        for key in std::mem::take(&mut self.behind_trims.write_backs) {
            self.begin_hand_over(ctx, key);
        }
        for cmd in std::mem::take(&mut self.behind_trims.writes) {
            self.woken.push_back(Woken { cmd, wait: Wait::Change, number: 0 });
        }
    }

    /// Drops a range from the cache. False: the FTL is still taking some of it in, or has to because it is
    /// written with FUA, and a write must not come after the trim that follows it, so the command waits. What the FTL
    /// would be given meanwhile of the range waits for the trim ([`Controller::hand_over`]), as do writes with FUA:
    /// otherwise the trim might wait for as long as others write.
    fn trim_cache(&mut self, cmd: u32, lpn: u32, sectors: u32) -> bool {
        let cache = self.cache.as_mut().expect("a range is dropped from a cache");
        let end = lpn + sectors;
        // The lines touched: by address, or all that are there if that is less work.
        let touched = &mut self.touched;
        touched.clear();
        if u64::from(sectors) / u64::from(cache.line_sectors) < cache.lines() {
            let spans = cache.spans(lpn, sectors);
            touched.extend(
                spans.filter_map(|(number, first, n)| Some((cache.find(number)?, first, n))),
            );
        } else {
            touched.extend(cache.resident().filter_map(|id| {
                let base = cache.first_sector(id);
                let (from, to) = (lpn.max(base), end.min(base + cache.line_sectors));
                (from < to).then(|| (id, from - base, to - from))
            }));
        }
        for &(id, first, n) in touched.iter() {
            let (line, of) = (cache.line(id), bits(first, n));
            let goes = line.writing & of != 0 && (line.handed || line.forced);
            if goes || line.fua && line.dirty & of != 0 {
                cache.wait(id, cmd, Wait::Change);
                return false;
            }
        }
        for &(id, first, n) in touched.iter() {
            if let Some(position) = cache.drop_sectors(id, first, n) {
                cache.retire(position, &mut self.flushable);
                cache.wake_trimmed(id, position, &mut self.woken);
            }
        }
        true
    }

    /// The FTL completed a command.
    pub(super) fn ftl_done(&mut self, ctx: &mut Ctx, cmd: u32, end: End) {
        let command = &mut self.commands[cmd];
        if command.sqe.opcode.is_gc_order() {
            let ftl = self.ftl.as_mut().and_then(Translation::ordered);
            self.gc_report = ftl.and_then(Ordered::take_report);
        }
        match end {
            End::Done => {}
            End::Failed => command.status = Status::WriteFault,
            End::NoMemory => command.status = Status::CapacityExceeded,
        }
        let why = match command.sqe.opcode {
            Opcode::Flush => Why::Flush,
            Opcode::Write if command.sqe.fua => Why::Flush,
            Opcode::Write => {
                self.waited_for_room(ctx, cmd);
                return self.finish(ctx, cmd);
            }
            Opcode::Deallocate if self.looks_up => Why::MapRead,
            _ => Why::Work,
        };
        let io = command.sqe.io;
        if why == Why::Flush {
            self.waited_for_program(ctx, io);
        }
        ctx.mark(io, Layer::Ftl, why, 0, ctx.now);
        self.finish(ctx, cmd);
    }

    /// A write waits no more until the FTL takes it.
    pub(super) fn waited_for_room(&mut self, ctx: &mut Ctx, cmd: u32) {
        let Command { sqe, own, .. } = self.commands[cmd];
        let held = self.held_up.until(ctx.now) - own.held_before();
        mark_write(ctx, sqe.io, 0, held);
    }

    /// A command that was to be on the medium waited for the program that ended now, if one did: until that went to its
    /// LUN for the FTL, and then as the program did.
    pub(super) fn waited_for_program(&mut self, ctx: &mut Ctx, io: IoId) {
        if let Some(record) = self.programmed.filter(|record| record.end == ctx.now) {
            ctx.mark(io, Layer::Ftl, Why::Flush, 0, record.submitted);
            record.mark(&mut ctx.lives, io);
        }
    }
}

fn gc_order_of(sqe: &Sqe) -> GcOrder {
    match sqe.opcode {
        Opcode::GcCounts => GcOrder::counts(sqe.address),
        _ => GcOrder::collect(sqe.address),
    }
}
