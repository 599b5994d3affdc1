//! Writes: their turn, the rest of sectors that they write in part, and their way into the cache or the FTL.
//!
//! Data come in first. The rest of sectors that are written in part is read, in turn with others that write the
//! same sectors. With write-through or FUA lines are written back at once, and the command waits until the FTL has
//! accepted them, or with FUA stored them. Once the FTL has refused a line of a write that was over, every write, trim and
//! flush fails, also one that waits by then: as NVMe drives do, it goes read-only. Lines that were refused stay in the cache, so
//! that reads find what was answered. Behind a cache with a capacitor data are durable once they are in it.

use crate::cache::{Fill, LineId, Wait, Woken};
use crate::controller::execute::LookUp;
use crate::controller::{Command, Controller, Own, Stage, touch_of};
use wordline_base::{Ctx, Layer, Lpn, Span, Why};
use wordline_ftl::{Source, Translation};
use wordline_nand::OpKind;
use wordline_nvme::{Opcode, Status};

impl Controller {
    /// A write that needs no cache goes to the FTL.
    pub(super) fn write_found(&mut self, ctx: &mut Ctx, cmd: u32) {
        let Command { sqe, lpn, sectors, .. } = self.commands[cmd];
        let ftl = self.ftl.as_mut().expect("logical addresses need an FTL");
        self.commands[cmd].own = Own::of_write(self.held_up.until(ctx.now));
        self.held_up.look();
        ftl.write(ctx, cmd, Lpn(lpn), sectors, sqe.fua, Source::Host);
    }

    /// A write's data are in the device.
    pub(super) fn data_arrived(&mut self, ctx: &mut Ctx, cmd: u32) {
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
    pub(super) fn takes_turn(&mut self, cmd: u32) -> bool {
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
    pub(super) fn turn_came(&mut self, ctx: &mut Ctx, cmd: u32) {
        let sqe = &self.commands[cmd].sqe;
        ctx.mark(sqe.io, Layer::Ftl, Why::Overlap, 0, ctx.now);
        match sqe.opcode {
            Opcode::Deallocate => self.trim(ctx, cmd),
            _ => self.merge(ctx, cmd),
        }
    }

    /// What a write or trim did is what reads find: others may go on to its sectors.
    pub(super) fn leave(&mut self, ctx: &mut Ctx, cmd: u32) {
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
                let fill = Fill::Nothing;
                let read = LookUp::Read { cmd, lpn, sectors: 1, fill };
                if self.looks_up && self.looks_for(ctx, lpn, 1, read) {
                    self.commands[cmd].pending += 1;
                } else {
                    let before = self.commands[cmd].pending;
                    self.read_found(ctx, cmd, lpn, 1, fill);
                    self.count_rest(cmd, before);
                }
            }
        }
        self.part_done(ctx, cmd, None);
    }

    /// The rest of a sector is read from flash, if more is pending for its command than `before`.
    pub(super) fn count_rest(&mut self, cmd: u32, before: u32) {
        if self.commands[cmd].pending > before {
            self.counts.rmw_read_bytes += self.geometry.sector.bytes();
        }
    }

    /// A write is whole sectors now.
    pub(super) fn merged(&mut self, ctx: &mut Ctx, cmd: u32) {
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
    pub(super) fn insert(&mut self, ctx: &mut Ctx, cmd: u32) {
        let config = self.config.cache.as_ref().expect("a write is inserted into a cache");
        let (capacitor, write_back) = (config.capacitor, config.write_back);
        if self.is_read_only() {
            let command = &mut self.commands[cmd];
            (command.status, command.cursor) = (Status::WriteFault, command.lpn + command.sectors);
        }
        let command = &mut self.commands[cmd];
        let (fua, class) = (command.sqe.fua && !capacitor, command.sqe.class);
        self.forced |= fua;
        let (from, to) = (command.cursor, command.lpn + command.sectors);
        if fua && from < to && self.lines_are_trimmed(from, to) {
            return self.behind_trims.writes.push(cmd);
        }
        let command = &mut self.commands[cmd];
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
                let command = &mut self.commands[cmd];
                command.pending += 1;
                command.own = Own::of_write(self.held_up.until(ctx.now));
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
    pub(super) fn retry(&mut self, ctx: &mut Ctx, woken: Woken) {
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
                    let fua = command.sqe.fua;
                    if fua {
                        self.waited_for_program(ctx, io);
                    }
                    match fua {
                        true => ctx.mark(io, Layer::Ftl, Why::Flush, 0, now),
                        false => self.waited_for_room(ctx, cmd),
                    }
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
}

/// A write or trim that has gone on to its sectors, or waits to, and is not over. A record that is
/// free was left as posted.
fn is_under_way(command: &Command) -> bool {
    let changes = matches!(command.sqe.opcode, Opcode::Write | Opcode::Deallocate);
    let stage = command.stage;
    changes
        && matches!(stage, Stage::Turn | Stage::Merge | Stage::Insert | Stage::Ftl | Stage::Trim)
}
