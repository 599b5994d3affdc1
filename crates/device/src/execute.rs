//! What each command does once the firmware has decoded it.
//!
//! - Read: what the cache has, then what others are reading into it already, then flash; each run of
//!   sectors in one write unit is one flash read. The command goes on when its last part is there.
//! - Write: data in; the rest of partly written sectors is read first, in turn with others that write
//!   the same sectors; then into the cache, or into the FTL's buffer. With write-through or FUA the lines are written back at once and the command
//!   waits until the FTL has accepted (FUA: stored) them. Behind a cache with a capacitor data
//!   are durable once in the cache.
//! - Flush, deallocate: module `background`, and below.
//! - Vector commands: one flash operation each, at the physical address given.
//!
//! Commands in flight are not ordered among each other (NVMe 1.4 section 6.2): a read returns what
//! was newest when it was looked up.

use crate::background::Job;
use crate::cache::{Cache, Fill, LineId, Wait, Woken, bits};
use crate::controller::{Command, Controller, NONE, Stage, touch_of};
use crate::firmware::Grant;
use std::ops::Range;
use wordline_base::{Ctx, IoId, Kind, Layer, Lpn, Span, Why};
use wordline_ftl::{
    End, FlashRead, GcOrder, MapWork, Ordered, Piece, Place, ReadEnd, Source, Translation,
    check_own_read, read_ended,
};
use wordline_nand::{Class, Op, OpKind, Outcome, Ppa, Record};
use wordline_nvme::{Opcode, Sqe, Status};

/// Owners of flash operations: the kind in the two highest bits, and a number.
const OWNER_READ: u32 = 0;
pub(crate) const OWNER_VECTOR: u32 = 1 << 30;
pub(crate) const OWNER_FTL: u32 = 2 << 30;
pub(crate) const OWNER_KIND: u32 = 3 << 30;

/// A tag of the FTL that is a write-back and not a command; and one that is a look-up.
pub(crate) const WRITE_BACK: u32 = 1 << 31;
pub(crate) const LOOK_UP: u32 = 1 << 30;

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

/// A flash read for a command, or ahead of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    /// `NONE`: read-ahead.
    cmd: u32,
    /// What waits for it in the cache.
    fill: Fill,
    read: FlashRead,
}

/// What a core works on until its event.
#[derive(Clone, Copy)]
pub(crate) enum OnCore {
    /// The sum of a rebuild, and the flash read that was the last it waited for.
    Sum(u32),
    /// A command's look-up in a map that is a tree, and a flash read that follows from it.
    LookUp {
        cmd: u32,
    },
    Found(Op),
}

#[derive(Clone, Copy)]
pub(crate) struct Sum {
    flight: Flight,
    grant: Grant,
    record: Record,
}

impl Controller {
    /// Firmware is done with a command.
    pub(crate) fn execute(&mut self, ctx: &mut Ctx, cmd: u32) {
        if self.commands[cmd].stage == Stage::Translate {
            return self.look_up_all(ctx, cmd);
        }
        if let Err(status) = self.check(cmd) {
            return self.fail(ctx, cmd, status);
        }
        if self.epoch.is_some() {
            self.see_command(ctx, cmd);
        }
        match self.commands[cmd].sqe.opcode {
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
    fn check(&self, cmd: u32) -> Result<(), Status> {
        let sqe = &self.commands[cmd].sqe;
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
            | Opcode::VectorStage => self.check_vector(cmd),
            Opcode::GcCounts | Opcode::GcCollect => {
                let shape = self.ftl.as_ref().and_then(Translation::gc_shape);
                match shape.map(|shape| gc_order_of(sqe).bytes(shape.segments)) {
                    Some(bytes) if bytes == sqe.bytes => Ok(()),
                    _ => Err(Status::InvalidField),
                }
            }
        }
    }

    fn check_vector(&self, cmd: u32) -> Result<(), Status> {
        let sqe = &self.commands[cmd].sqe;
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

    fn vector(&mut self, ctx: &mut Ctx, cmd: u32, kind: OpKind) {
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
            return self.nand.submit(ctx, op);
        }
        let at = self.submit_in_order(ctx, op);
        self.counts.waits.limits += at.since(ctx.now).0;
        ctx.mark(sqe.io, Layer::Limit, Why::ProgramLimit, 0, at);
    }

    /// A flash operation ended.
    pub(crate) fn flash_done(&mut self, ctx: &mut Ctx, key: u32) {
        let record = self.nand.record(key);
        let Record { op, outcome, held, .. } = *record;
        let owner = op.owner;
        let number = owner & !OWNER_KIND;
        if self.power.is_some() && op.kind != OpKind::Read {
            self.give_power(ctx, op);
        }
        match owner & OWNER_KIND {
            OWNER_READ => self.piece_read(ctx, number, key),
            OWNER_VECTOR => self.vector_done(ctx, number, key),
            _ => {
                let ftl = self.ftl.as_mut().expect("the FTL asked for it");
                check_own_read(ftl, ctx, number, op.ppa, op.sectors, held);
                ftl.on_done(ctx, number, outcome);
            }
        }
    }

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

    fn read(&mut self, ctx: &mut Ctx, cmd: u32) {
        if self.commands[cmd].sqe.bytes > self.turn_bytes {
            self.begin_stream(ctx, cmd);
        }
        let command = &mut self.commands[cmd];
        let (lpn, sectors) = (command.lpn, command.sectors);
        let Some(cache) = &self.cache else {
            command.stage = Stage::Flash;
            command.pending = 1;
            self.read_flash(ctx, cmd, lpn, sectors, Fill::Nothing);
            return self.part_done(ctx, cmd, None);
        };
        let partition = command.partition;
        let ahead = self.read_ahead.get_mut(usize::from(partition));
        let ahead = ahead.and_then(|r| r.on_read(lpn, sectors));
        let cost = self.cost.read_command + self.cost.read_sector * u64::from(sectors);
        if cost > Span::ZERO && !cache.holds_or_fills(lpn, sectors) {
            cache.prefetch_room(lpn, partition);
            let grant = self.firmware.reserve(ctx.now, cost);
            self.counts.waits.firmware += grant.start.since(ctx.now).0;
            let io = command.sqe.io;
            ctx.mark(io, Layer::Ftl, Why::FirmwareBusy, grant.core, grant.start);
            ctx.mark(io, Layer::Ftl, Why::Work, grant.core, grant.end);
            command.stage = Stage::Translate;
            ctx.at(grant.end, Kind::Firmware, cmd);
        } else {
            self.look_up_all(ctx, cmd);
        }
        if let Some((from, sectors)) = ahead {
            self.fetch_ahead(ctx, from, sectors, partition);
        }
    }

    fn look_up_all(&mut self, ctx: &mut Ctx, cmd: u32) {
        let command = &mut self.commands[cmd];
        command.stage = Stage::Flash;
        command.pending = 1;
        let (lpn, sectors) = (command.lpn, command.sectors);
        self.look_up(ctx, cmd, lpn, sectors, true);
        self.part_done(ctx, cmd, None);
    }

    /// Looks a read's sectors up in the cache and asks for the others. Each flash read and each line
    /// waited for is one part more that is pending.
    fn look_up(&mut self, ctx: &mut Ctx, cmd: u32, lpn: u32, sectors: u32, first_time: bool) {
        let cache = self.cache.as_mut().expect("only a cache is looked up");
        let allocate = self.config.cache.as_ref().is_some_and(|c| c.read_allocate);
        let Command { sqe, partition, .. } = self.commands[cmd];
        let class = sqe.class;
        self.read_by_class.see(class, || cache.read_counts());
        self.misses.clear();
        for (number, first, n) in cache.spans(lpn, sectors) {
            let mask = bits(first, n);
            let base = number * cache.line_sectors;
            let Some(id) = cache.find(number) else {
                let id = match allocate {
                    true => cache.allocate(number, partition).ok(),
                    false => None,
                };
                if let Some(id) = id {
                    cache.begin_fill(&ctx.stamps, id, mask, Some(class));
                }
                add_miss(&mut self.misses, base + first, n, id.map_or(Fill::Nothing, Fill::Line));
                cache.stats_of(partition).read_misses += u64::from(n);
                if let Some(partitions) = &mut cache.partitions {
                    partitions.miss(partition, number);
                }
                continue;
            };
            cache.touch(id);
            let line = cache.line_mut(id);
            let (hit, join) = (line.valid & mask, line.filling & mask);
            let (useful, by) = (line.ahead & mask, line.partition);
            line.ahead &= !mask;
            let miss = mask & !hit & !join;
            if first_time {
                let s = cache.stats_of(partition);
                s.read_hits += u64::from(hit.count_ones());
                s.read_joins += u64::from(join.count_ones());
                cache.stats_of(by).ahead_useful += u64::from(useful.count_ones());
            }
            cache.stats_of(partition).read_misses += u64::from(miss.count_ones());
            if hit != 0 && ctx.stamps.is_on() {
                for sector in (first..first + n).filter(|&s| hit >> s & 1 == 1) {
                    let got = cache.stamps(id, sector, 1)[0];
                    let expected = ctx.stamps.newest(Lpn(base + sector));
                    ctx.stamps.check(Lpn(base + sector), got, expected);
                }
            }
            if join != 0 {
                let command = &mut self.commands[cmd];
                command.pending += 1;
                if first_time {
                    let ahead = useful & join != 0;
                    command.waited_for = if ahead { Why::ReadAhead } else { Why::Overlap };
                }
                cache.wait(id, cmd, Wait::Change);
            }
            for (run, length) in crate::cache::runs(miss) {
                if allocate {
                    cache.begin_fill(&ctx.stamps, id, bits(run, length), Some(class));
                }
                let fill = if allocate { Fill::Line(id) } else { Fill::Nothing };
                add_miss(&mut self.misses, base + run, length, fill);
            }
        }
        for i in 0..self.misses.len() {
            let (lpn, sectors, fill) = self.misses[i];
            self.read_flash(ctx, cmd, lpn, sectors, fill);
        }
    }

    /// Reads sectors through the FTL for a command.
    fn read_flash(&mut self, ctx: &mut Ctx, cmd: u32, lpn: u32, sectors: u32, fill: Fill) {
        if self.looks_up
            && self.looks_for(ctx, lpn, sectors, LookUp::Read { cmd, lpn, sectors, fill })
        {
            self.commands[cmd].pending += 1;
            return;
        }
        self.read_found(ctx, cmd, lpn, sectors, fill);
    }

    /// Asks the FTL where sectors are. True: it looks, and says when it knows.
    #[inline(never)]
    pub(crate) fn looks_for(&mut self, ctx: &mut Ctx, lpn: u32, sectors: u32, who: LookUp) -> bool {
        let key = self.look_ups.insert(who);
        let ftl = self.ftl.as_mut().expect("logical addresses need an FTL");
        let known = ftl.look_up(ctx, LOOK_UP | key, Lpn(lpn), sectors);
        if known {
            self.look_ups.remove(key);
        } else if let LookUp::Read { fill, .. } = who {
            // Its lines are to stay, whatever becomes of the sectors meanwhile.
            self.count_fill(fill, lpn, sectors);
        }
        !known
    }

    /// The FTL knows where the sectors are.
    #[inline(never)]
    pub(crate) fn looked_up(&mut self, ctx: &mut Ctx, key: u32) {
        let look_up = self.look_ups.remove(key);
        if let LookUp::Read { lpn, sectors, fill, .. } = look_up
            && fill != Fill::Nothing
        {
            let cache = self.cache.as_mut().expect("a fill belongs to a cache");
            for (number, ..) in cache.spans(lpn, sectors) {
                let id = cache.filling(fill, number);
                cache.line_mut(id).fills -= 1;
            }
        }
        match look_up {
            LookUp::Read { cmd: NONE, lpn, sectors, fill } => {
                for (lpn, sectors) in self.not_in_cache(lpn, sectors) {
                    self.read_ahead_found(ctx, lpn, sectors, fill);
                }
            }
            LookUp::Read { cmd, lpn, sectors, fill } => {
                let before = self.commands[cmd].pending;
                for (lpn, sectors) in self.not_in_cache(lpn, sectors) {
                    self.read_found(ctx, cmd, lpn, sectors, fill);
                }
                // The wait counts if nothing else is pending, or if it leads to further parts.
                let Command { sqe, pending, .. } = self.commands[cmd];
                if pending == 1 || pending > before {
                    ctx.mark(sqe.io, Layer::Ftl, Why::MapRead, 0, ctx.now);
                }
                self.part_done(ctx, cmd, None);
            }
            LookUp::Write { cmd } => {
                ctx.mark(self.commands[cmd].sqe.io, Layer::Ftl, Why::MapRead, 0, ctx.now);
                self.write_found(ctx, cmd);
            }
            LookUp::WriteBack { key } => self.hand_over(ctx, key),
        }
        if let LookUp::Read { lpn, sectors, fill, .. } = look_up
            && fill != Fill::Nothing
            && let Some(cache) = &mut self.cache
        {
            // Where all sectors were written meanwhile no read of flash ends.
            for (number, ..) in cache.spans(lpn, sectors) {
                let id = cache.filling(fill, number);
                if !cache.line(id).is_busy() {
                    cache.wake(id, 0, &mut self.woken);
                }
            }
        }
    }

    /// Of sectors that were looked up, the runs that were not written into the cache meanwhile: newer ones are there.
    fn not_in_cache(&self, lpn: u32, sectors: u32) -> Vec<(u32, u32)> {
        let Some(cache) = &self.cache else { return vec![(lpn, sectors)] };
        let mut all: Vec<(u32, u32)> = Vec::new();
        for (number, first, n) in cache.spans(lpn, sectors) {
            let valid = cache.find(number).map_or(0, |id| cache.line(id).valid);
            for (run, length) in crate::cache::runs(bits(first, n) & !valid) {
                let at = number * cache.line_sectors + run;
                match all.last_mut() {
                    Some((from, n)) if *from + *n == at => *n += length,
                    _ => all.push((at, length)),
                }
            }
        }
        all
    }

    /// A write that needs no cache goes to the FTL.
    fn write_found(&mut self, ctx: &mut Ctx, cmd: u32) {
        let Command { sqe, lpn, sectors, .. } = self.commands[cmd];
        let ftl = self.ftl.as_mut().expect("logical addresses need an FTL");
        ftl.write(ctx, cmd, Lpn(lpn), sectors, sqe.fua, Source::Host);
    }

    /// The same where the FTL knows where they are.
    #[inline(always)]
    fn read_found(&mut self, ctx: &mut Ctx, cmd: u32, lpn: u32, sectors: u32, fill: Fill) {
        self.pieces.clear();
        let ftl = self.ftl.as_mut().expect("logical addresses need an FTL");
        ftl.read(ctx, Lpn(lpn), sectors, &mut self.pieces);
        let io = self.commands[cmd].sqe.io;
        let (work, mut after) = (self.map_time(), Vec::new());
        for i in 0..self.pieces.len() {
            let piece = &self.pieces[i];
            let (lpn, sectors) = (piece.lpn.0, piece.sectors);
            let Some(read) = FlashRead::of(piece) else {
                let ok = piece.place != Place::Lost;
                if !ok {
                    self.commands[cmd].status = Status::UnrecoveredRead;
                }
                self.filled(fill, lpn, sectors, ok, 0);
                continue;
            };
            let (kind, class, asked) = (OpKind::Read, piece.place.class(), is_asked(piece));
            if asked {
                self.count_fill(fill, lpn, sectors);
            }
            let ppa = read.ppa;
            let key = self.flights.insert(Flight { cmd, fill, read });
            self.commands[cmd].pending += 1;
            let op = Op { kind, class, ppa, sectors, slc: false, owner: OWNER_READ | key, io };
            match work {
                Span::ZERO => self.nand.submit(ctx, op),
                _ => after.push(op),
            }
        }
        if work > Span::ZERO {
            let grant = self.firmware.reserve(ctx.now, work);
            self.counts.waits.firmware += grant.start.since(ctx.now).0;
            ctx.mark(io, Layer::Ftl, Why::FirmwareBusy, grant.core, grant.start);
            ctx.mark(io, Layer::Ftl, Why::Work, grant.core, grant.end);
            self.commands[cmd].pending += 1;
            let found = after.into_iter().map(OnCore::Found);
            for part in found.chain([OnCore::LookUp { cmd }]) {
                ctx.at(grant.end, Kind::Summed, self.on_core.insert(part));
            }
        }
    }

    /// Core time of what a map that is a tree did since this was asked last, its lock among it: cores
    /// do not wait for each other.
    pub(crate) fn map_time(&mut self) -> Span {
        let (Some(map), Some(ftl)) = (&self.cost.map, &mut self.ftl) else { return Span::ZERO };
        match ftl.take_map_work() {
            work if work == MapWork::default() => Span::ZERO,
            work => map.of(work) + map.lock,
        }
    }

    /// Brings sectors into the cache before they are asked for. Class `UserRead`: to those who wait
    /// behind it, it is a read on behalf of the host.
    fn fetch_ahead(&mut self, ctx: &mut Ctx, lpn: u32, sectors: u32, partition: u8) {
        let cache = self.cache.as_mut().expect("read-ahead goes into a cache");
        self.misses.clear();
        for (number, first, n) in cache.spans(lpn, sectors) {
            let mask = bits(first, n);
            // A set without a clean idle line is left alone.
            let found = cache.find(number);
            let Some(id) = found.or_else(|| cache.allocate(number, partition).ok()) else {
                continue;
            };
            let line = cache.line(id);
            let by = line.partition;
            for (run, length) in crate::cache::runs(mask & !line.valid & !line.filling) {
                cache.begin_fill(&ctx.stamps, id, bits(run, length), None);
                cache.stats_of(by).ahead += u64::from(length);
                let first = number * cache.line_sectors + run;
                add_miss(&mut self.misses, first, length, Fill::Line(id));
            }
        }
        for i in 0..self.misses.len() {
            let (lpn, sectors, fill) = self.misses[i];
            let look_up = LookUp::Read { cmd: NONE, lpn, sectors, fill };
            if !self.looks_up || !self.looks_for(ctx, lpn, sectors, look_up) {
                self.read_ahead_found(ctx, lpn, sectors, fill);
            }
        }
    }

    /// Reads sectors ahead that the FTL knows the places of.
    fn read_ahead_found(&mut self, ctx: &mut Ctx, lpn: u32, sectors: u32, fill: Fill) {
        {
            let mut pieces = std::mem::take(&mut self.pieces);
            pieces.clear();
            let ftl = self.ftl.as_mut().expect("a cache stands before an FTL");
            ftl.read(ctx, Lpn(lpn), sectors, &mut pieces);
            let mut cost = self.cost.read_command + self.cost.read_sector * u64::from(sectors);
            cost += self.map_time();
            for piece in &pieces {
                let (lpn, sectors) = (piece.lpn.0, piece.sectors);
                let Some(read) = FlashRead::of(piece) else {
                    self.filled(fill, lpn, sectors, piece.place != Place::Lost, 0);
                    continue;
                };
                if is_asked(piece) {
                    self.count_fill(fill, lpn, sectors);
                }
                let ppa = read.ppa;
                let flight = Flight { cmd: NONE, fill, read };
                let owner = OWNER_READ | self.flights.insert(flight);
                let (kind, class, io) = (OpKind::Read, piece.place.class(), IoId::NONE);
                let op = Op { kind, class, ppa, sectors, slc: false, owner, io };
                self.enqueue_job(ctx, std::mem::take(&mut cost), Job::ReadAhead(op));
            }
            self.pieces = pieces;
        }
    }

    /// A flash read is under way for these sectors' lines.
    fn count_fill(&mut self, fill: Fill, lpn: u32, sectors: u32) {
        if fill == Fill::Nothing {
            return;
        }
        let cache = self.cache.as_mut().expect("a fill belongs to a cache");
        if let Fill::Line(id) = fill {
            cache.line_mut(id).fills += 1;
            return;
        }
        for (number, ..) in cache.spans(lpn, sectors) {
            let id = cache.filling(fill, number);
            cache.line_mut(id).fills += 1;
        }
    }

    /// Data for sectors being filled are there, by so many flash reads; sectors written or trimmed
    /// meanwhile are left alone.
    fn filled(&mut self, fill: Fill, lpn: u32, sectors: u32, ok: bool, flights: u16) {
        if fill == Fill::Nothing {
            return;
        }
        let cache = self.cache.as_mut().expect("a fill belongs to a cache");
        let woken = &mut self.woken;
        let mut arrived = |cache: &mut Cache, id: LineId, sectors: u64| {
            let line = cache.line_mut(id);
            let arrived = line.filling & sectors;
            line.fills -= flights;
            line.filling &= !arrived;
            if ok {
                line.valid |= arrived;
            } else {
                line.ahead &= !arrived;
            }
            cache.wake(id, 0, woken);
        };
        if let Fill::Line(id) = fill {
            return arrived(cache, id, bits(lpn % cache.line_sectors, sectors));
        }
        for (number, first, n) in cache.spans(lpn, sectors) {
            let id = cache.filling(fill, number);
            arrived(cache, id, bits(first, n));
        }
    }

    /// A flash read of a piece ended.
    fn piece_read(&mut self, ctx: &mut Ctx, flight: u32, key: u32) {
        let Flight { cmd, fill, read } = self.flights.remove(flight);
        let record = self.nand.record(key);
        let (io, ok, held) = (record.op.io, record.outcome == Outcome::Ok, record.held);
        let ftl = self.ftl.as_mut().expect("logical addresses need an FTL");
        let mut more = std::mem::take(&mut self.pieces);
        let end = read_ended(ftl, ctx, read, ok, held, &mut more);
        for piece in &more {
            let Some(read) = FlashRead::of(piece) else { continue };
            let owner = OWNER_READ | self.flights.insert(Flight { cmd, fill, read });
            if cmd != NONE {
                self.commands[cmd].pending += 1;
            }
            let (kind, class) = (OpKind::Read, piece.place.class());
            let FlashRead { ppa, sectors, .. } = read;
            self.nand.submit(ctx, Op { kind, class, ppa, sectors, slc: false, owner, io });
        }
        self.pieces = more;
        let (over, ok, summed) = match end {
            ReadEnd::Over { ok, summed } => (true, ok, summed),
            ReadEnd::Open => (false, true, 0),
        };
        let (lpn, sectors) = (read.lpn.0, read.sectors);
        let cost = self.cost.xor_sector * u64::from(summed);
        if cost > Span::ZERO {
            let grant = self.firmware.reserve(ctx.now, cost);
            self.counts.waits.firmware += grant.start.since(ctx.now).0;
            let flight = Flight { cmd, fill, read };
            let sum = Sum { flight, grant, record: *self.nand.record(key) };
            let sum = OnCore::Sum(self.sums.insert(sum));
            return ctx.at(grant.end, Kind::Summed, self.on_core.insert(sum));
        }
        // The sectors are there, or lost; otherwise others of their reads are under way.
        if over {
            self.filled(fill, lpn, sectors, ok, 1);
        }
        if cmd == NONE {
            return;
        }
        if over && !ok {
            self.commands[cmd].status = Status::UnrecoveredRead;
        } else if over && self.commands[cmd].stream != NONE {
            self.sectors_came(ctx, cmd, sectors);
        }
        self.part_done(ctx, cmd, Some(key));
    }

    /// A core is done with what it was given.
    pub(crate) fn core_done(&mut self, ctx: &mut Ctx, on_core: u32) {
        match self.on_core.remove(on_core) {
            OnCore::Sum(sum) => self.sum_done(ctx, sum),
            OnCore::LookUp { cmd } => self.part_done(ctx, cmd, None),
            OnCore::Found(op) => self.nand.submit(ctx, op),
        }
    }

    /// A core has added up what a rebuild read.
    fn sum_done(&mut self, ctx: &mut Ctx, sum: u32) {
        let Sum { flight, grant, record } = self.sums.remove(sum);
        let Flight { cmd, fill, read } = flight;
        self.filled(fill, read.lpn.0, read.sectors, true, 1);
        if cmd == NONE {
            return;
        }
        self.sectors_came(ctx, cmd, read.sectors);
        if self.commands[cmd].pending == 1 {
            let io = self.commands[cmd].sqe.io;
            record.mark(&mut ctx.lives, io);
            ctx.mark(io, Layer::Ftl, Why::FirmwareBusy, grant.core, grant.start);
            ctx.mark(io, Layer::Ftl, Why::Work, grant.core, grant.end);
        }
        self.part_done(ctx, cmd, None);
    }

    /// One part of a command is over. After the last the command goes on, and its life is charged
    /// with the part that was last: the flash operation `key`, if it was one.
    fn part_done(&mut self, ctx: &mut Ctx, cmd: u32, key: Option<u32>) {
        let command = &mut self.commands[cmd];
        command.pending -= 1;
        if command.pending > 0 {
            return;
        }
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

    /// All data of a read are in the device.
    fn read_ready(&mut self, ctx: &mut Ctx, cmd: u32) {
        if self.commands[cmd].stream != NONE {
            return self.all_came(ctx, cmd);
        }
        if let Some(config) = &self.config.cache {
            let command = &mut self.commands[cmd];
            let (io, bytes) = (command.sqe.io, u64::from(command.sqe.bytes));
            let (start, end) = self.dram.reserve(ctx.now, Span::of_bytes(bytes, config.rate));
            if end > ctx.now {
                self.counts.waits.cache_copy += start.since(ctx.now).0;
                ctx.mark(io, Layer::Cache, Why::LinkBusy, 0, start);
                ctx.mark(io, Layer::Cache, Why::CacheHit, 0, end);
                command.stage = Stage::Limit;
                // The memory's bus serves in order, so this is the order in which they come to the limits.
                let admitted = self.admit(ctx, cmd, end);
                return ctx.at(admitted, Kind::DataOut, cmd);
            }
        }
        self.respond(ctx, cmd);
    }

    /// A write's data are in the device.
    pub(crate) fn data_arrived(&mut self, ctx: &mut Ctx, cmd: u32) {
        let sqe = self.commands[cmd].sqe;
        match sqe.opcode {
            Opcode::VectorWrite => return self.vector(ctx, cmd, OpKind::Program),
            Opcode::VectorStage => return self.finish(ctx, cmd),
            _ => {}
        }
        if !self.takes_turn(cmd) {
            return;
        }
        self.merge(ctx, cmd);
    }

    /// Whether a write or trim may go on to its sectors at once: it may not meet another one where
    /// either covers a sector only in part.
    #[inline]
    fn takes_turn(&mut self, cmd: u32) -> bool {
        let sqe = &self.commands[cmd].sqe;
        let whole =
            (sqe.address | u64::from(sqe.bytes)).is_multiple_of(self.geometry.sector.bytes());
        // A trim leaves out what it covers in part.
        whole && self.turns.is_empty() || self.joins(cmd)
    }
    fn joins(&mut self, cmd: u32) -> bool {
        let touch = touch_of(&self.commands[cmd].sqe, self.geometry.sector);
        let (commands, sector_size) = (&self.commands, self.geometry.sector);
        let first = self.turns.join(cmd, &touch, |sector| {
            let of = commands.records().filter(move |(_, c)| is_under_way(c));
            of.filter(move |(_, c)| touch_of(&c.sqe, sector_size).sectors.contains(&sector))
                .map(|(id, _)| id)
        });
        if !first {
            self.commands[cmd].stage = Stage::Turn;
            self.counts.rmw_waits += 1;
        }
        first
    }
    /// Others have left the sectors of a write or trim.
    pub(crate) fn turn_came(&mut self, ctx: &mut Ctx, cmd: u32) {
        let sqe = &self.commands[cmd].sqe;
        ctx.mark(sqe.io, Layer::Ftl, Why::Overlap, 0, ctx.now);
        match sqe.opcode {
            Opcode::Deallocate => self.trim(ctx, cmd),
            _ => self.merge(ctx, cmd),
        }
    }
    /// What a write or trim did is what reads find: others may go on to its sectors.
    pub(crate) fn leave(&mut self, ctx: &mut Ctx, cmd: u32) {
        let Command { sqe, status, .. } = self.commands[cmd];
        if !matches!(sqe.opcode, Opcode::Write | Opcode::Deallocate) {
            return;
        }
        self.turns.leave(cmd, touch_of(&sqe, self.geometry.sector).sectors, |sector, version| {
            // Another version in between would be lost.
            if status == Status::Success && ctx.stamps.is_on() {
                let newest = ctx.stamps.newest(Lpn(sector));
                ctx.stamps.check(Lpn(sector), version, newest);
            }
        });
    }

    /// Read-modify-write: the rest of partly written sectors, unless the cache has them.
    fn merge(&mut self, ctx: &mut Ctx, cmd: u32) {
        let touch = touch_of(&self.commands[cmd].sqe, self.geometry.sector);
        if !touch.is_partial() {
            return self.merged(ctx, cmd);
        }
        self.commands[cmd].stage = Stage::Merge;
        self.commands[cmd].pending = 1;
        for lpn in touch.partial() {
            self.turns.begin(lpn, ctx.stamps.merge(cmd, Lpn(lpn)));
            self.counts.rmw_units += 1;
            if !self.cache.as_ref().is_some_and(|cache| cache.holds(lpn, 1)) {
                let before = self.commands[cmd].pending;
                self.read_flash(ctx, cmd, lpn, 1, Fill::Nothing);
                let read = self.commands[cmd].pending > before;
                self.counts.rmw_read_bytes += if read { self.geometry.sector.bytes() } else { 0 };
            }
        }
        self.part_done(ctx, cmd, None);
    }

    /// A write is whole sectors now.
    fn merged(&mut self, ctx: &mut Ctx, cmd: u32) {
        let command = &mut self.commands[cmd];
        if command.status != Status::Success {
            return self.finish(ctx, cmd);
        }
        let (lpn, sectors) = (Lpn(command.lpn), command.sectors);
        let Some(config) = &self.config.cache else {
            command.stage = Stage::Ftl;
            if self.looks_up && self.looks_for(ctx, lpn.0, sectors, LookUp::Write { cmd }) {
                return;
            }
            return self.write_found(ctx, cmd);
        };
        let copy = Span::of_bytes(u64::from(command.sqe.bytes), config.rate);
        let (start, end) = self.dram.reserve(ctx.now, copy);
        self.counts.waits.cache_copy += start.since(ctx.now).0;
        command.copied = end;
        command.stage = Stage::Insert;
        command.pending = 1;
        if !self.admission.is_empty() || !self.takes_write() {
            return self.wait_for_admission(cmd);
        }
        self.insert(ctx, cmd);
    }

    #[inline(never)]
    fn wait_for_admission(&mut self, cmd: u32) {
        let partition = self.commands[cmd].partition;
        let cache = self.cache.as_mut().expect("a write is inserted into a cache");
        cache.stats_of(partition).write_stalls += 1;
        self.admission.push_back(cmd);
    }

    /// Puts a write's sectors into the cache, from where it stopped before.
    fn insert(&mut self, ctx: &mut Ctx, cmd: u32) {
        let config = self.config.cache.as_ref().expect("a write is inserted into a cache");
        let (capacitor, write_back) = (config.capacitor, config.write_back);
        let command = &mut self.commands[cmd];
        let (fua, class) = (command.sqe.fua && !capacitor, command.sqe.class);
        let partition = command.partition;
        let end = command.lpn + command.sectors;
        let cache = self.cache.as_mut().expect("a write is inserted into a cache");
        for (number, first, n) in cache.spans(command.cursor, end - command.cursor) {
            let cache = self.cache.as_mut().expect("a write is inserted into a cache");
            let found = cache.find(number);
            if found.is_none()
                && let Some(partitions) = &mut cache.partitions
            {
                partitions.miss(partition, number);
            }
            let found = found.map_or_else(|| cache.allocate(number, partition), Ok);
            let id = match found {
                Ok(id) => id,
                Err(blocking) => return self.wait_for_room(ctx, cmd, blocking),
            };
            cache.write(&mut ctx.stamps, cmd, id, first, n, class);
            if fua || !write_back {
                let line = cache.line_mut(id);
                line.fua |= fua;
                let position = line.position;
                cache.wait(id, cmd, Wait::Retired(position));
                self.commands[cmd].pending += 1;
                self.write_back(ctx, id);
            }
            self.commands[cmd].cursor += n;
        }
        if !self.turns.is_empty() {
            self.leave(ctx, cmd);
        }
        self.write_back_more(ctx);
        self.part_done(ctx, cmd, None);
    }

    /// Every line of a set is dirty or busy.
    fn wait_for_room(&mut self, ctx: &mut Ctx, cmd: u32, blocking: LineId) {
        let cache = self.cache.as_mut().expect("a write is inserted into a cache");
        cache.stats_of(self.commands[cmd].partition).write_stalls += 1;
        cache.wait(blocking, cmd, Wait::Change);
        if !cache.line(blocking).is_busy() {
            self.write_back(ctx, blocking);
        }
    }

    /// A command's wait at a cache line is over.
    pub(crate) fn retry(&mut self, ctx: &mut Ctx, woken: Woken) {
        let Woken { cmd, wait, number } = woken;
        let command = &mut self.commands[cmd];
        let (io, now) = (command.sqe.io, ctx.now);
        match (command.stage, wait) {
            (Stage::Insert, Wait::Change) => {
                ctx.mark(io, Layer::Cache, Why::WriteBack, 0, now);
                self.insert(ctx, cmd);
            }
            (Stage::Insert, Wait::Retired(_)) => {
                if command.pending == 1 {
                    let why = if command.sqe.fua { Why::Flush } else { Why::WriteBuffer };
                    ctx.mark(io, Layer::Ftl, why, 0, now);
                }
                self.part_done(ctx, cmd, None);
            }
            (Stage::Trim, _) => {
                ctx.mark(io, Layer::Cache, Why::WriteBack, 0, now);
                self.trim(ctx, cmd);
            }
            (Stage::Flash, _) => {
                let cache = self.cache.as_ref().expect("a command waited for a cache line");
                let from = command.lpn.max(number * cache.line_sectors);
                let end = command.lpn + command.sectors;
                let to = end.min((number + 1) * cache.line_sectors);
                let (pending, why) = (command.pending, command.waited_for);
                self.look_up(ctx, cmd, from, to - from, false);
                // The wait counts if nothing else is pending, or if it leads to further parts.
                let after = self.commands[cmd].pending;
                if after == 1 || after > pending {
                    ctx.mark(io, Layer::Cache, why, 0, now);
                }
                self.part_done(ctx, cmd, None);
            }
            (stage, _) => unreachable!("a command in stage {stage:?} waits for no cache line"),
        }
    }

    /// Deallocate: whole sectors of the range read as zeroes from now on.
    fn trim(&mut self, ctx: &mut Ctx, cmd: u32) {
        let sqe = self.commands[cmd].sqe;
        let Range { start: first, end } = touch_of(&sqe, self.geometry.sector).sectors;
        if first >= end {
            return self.finish(ctx, cmd);
        }
        if self.cache.is_some() && !self.trim_cache(cmd, first, end - first) {
            self.commands[cmd].stage = Stage::Trim;
            return;
        }
        self.commands[cmd].stage = Stage::Ftl;
        let ftl = self.ftl.as_mut().expect("logical addresses need an FTL");
        ftl.trim(ctx, cmd, Lpn(first), end - first);
    }

    /// Drops a range from the cache. False: the FTL is still taking some of it in, and a write
    /// must not come after the trim that follows it, so the command waits.
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
            let line = cache.line(id);
            if line.handed && line.writing & bits(first, n) != 0 {
                cache.wait(id, cmd, Wait::Change);
                return false;
            }
        }
        for &(id, first, n) in touched.iter() {
            if let Some(position) = cache.drop_sectors(id, first, n) {
                cache.retire(position, &mut self.flushable);
                cache.wake(id, position, &mut self.woken);
            }
        }
        true
    }

    /// The FTL completed a command.
    pub(crate) fn ftl_done(&mut self, ctx: &mut Ctx, cmd: u32, end: End) {
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
            Opcode::Write => Why::WriteBuffer,
            Opcode::Deallocate if self.looks_up => Why::MapRead,
            _ => Why::Work,
        };
        ctx.mark(command.sqe.io, Layer::Ftl, why, 0, ctx.now);
        self.finish(ctx, cmd);
    }
}

fn gc_order_of(sqe: &Sqe) -> GcOrder {
    match sqe.opcode {
        Opcode::GcCounts => GcOrder::counts(sqe.address),
        _ => GcOrder::collect(sqe.address),
    }
}

/// A write or trim that has gone on to its sectors, or waits to, and is not over. A record that is
/// free was left as posted.
fn is_under_way(command: &Command) -> bool {
    let changes = matches!(command.sqe.opcode, Opcode::Write | Opcode::Deallocate);
    let stage = command.stage;
    changes
        && matches!(stage, Stage::Turn | Stage::Merge | Stage::Insert | Stage::Ftl | Stage::Trim)
}

/// Adds a run to a list of runs, as part of the last if it continues that.
fn add_miss(misses: &mut Vec<(u32, u32, Fill)>, lpn: u32, sectors: u32, fill: Fill) {
    if let Some((first, n, last)) = misses.last_mut()
        && *first + *n == lpn
        && (*last == Fill::Nothing) == (fill == Fill::Nothing)
    {
        *n += sectors;
        if *last != fill {
            *last = Fill::Lines;
        }
    } else {
        misses.push((lpn, sectors, fill));
    }
}

/// What the user asked for: one piece stands for all the reads of a rebuild.
fn is_asked(piece: &Piece) -> bool {
    !matches!(piece.place, Place::Member { first: false, .. })
}
