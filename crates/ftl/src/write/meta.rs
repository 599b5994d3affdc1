//! The descriptions at a line's beginning and end: smeta and emeta.

use crate::line::LineState;
use crate::lock::Lock;
use crate::write::Done;
use crate::{Action, Ftl, Op};
use wordline_nand::{Class, LineId, Ppa};

impl Ftl {
    /// True if it went out; otherwise it waits for its LUN.
    pub(super) fn send_smeta(&mut self, side: usize, line: LineId) -> bool {
        let unit = self.lines[line].smeta;
        let lun = self.lines.lun(unit);
        let lock = self.lock(Class::MetaProgram, side);
        self.writers[side].smeta_out = true;
        self.writers[side].smeta_wanted = Some(line);
        if !self.locks.is_free(lun, lock) {
            return false;
        }
        self.writers[side].smeta_wanted = None;
        self.locks.take(self.now, lun, lock);
        self.lines.note_program(line, unit);
        self.counters.smeta_sectors += u64::from(self.g.sectors_per_unit);
        let op = Op::Smeta { line, unit, side: side as u8, lock, since: self.now };
        self.send_meta(line, unit, lock, op);
        true
    }

    pub(super) fn send_meta(&mut self, line: LineId, unit: u32, lock: Lock, op: Op) {
        let ppa = self.lines.ppa(line, unit);
        let size = self.g.sectors_per_unit;
        self.map.clear_oob(ppa, size);
        self.counters.programmed_sectors += u64::from(size);
        let lun = self.lines.lun(unit);
        self.issue_on(lun, lock, op, |op| Action::Program {
            op,
            ppa: Ppa(ppa),
            class: Class::MetaProgram,
            payload: size,
            summed: 0,
            slc: false,
        });
    }

    /// Chooses the emeta unit to write after a request: the oldest waiting one, if the request wrote
    /// (or could not write) the LUN `distance` further on.
    pub(super) fn choose_emeta(&mut self, side: usize) {
        let Some((line, unit)) = self.pending_emeta(side) else { return };
        let w = &mut self.writers[side];
        let lun = self.lines.lun(unit);
        let beside = (lun + w.distance) % self.g.luns;
        let unusable = self.lines.sides[side]
            .cur
            .is_some_and(|cur| self.lines.is_bad(cur, beside) || self.lines.is_parity(cur, beside));
        if w.luns.contains(&beside) || unusable {
            w.meta = Some((line, unit));
        } else if beside == lun && w.distance > 1 {
            w.distance -= 1;
        }
    }

    pub(super) fn pending_emeta(&self, side: usize) -> Option<(u32, u32)> {
        let closing = &self.lines.sides[side].closing;
        closing.iter().find_map(|&line| Some((line, self.lines.peek_emeta(line)?)))
    }

    /// Writes emeta now, as much as the LUNs take: its lines are wanted.
    pub(crate) fn force_emeta(&mut self) -> bool {
        let mut progress = false;
        for side in 0..2 {
            while self.writers[side].meta.is_none()
                && let Some((line, unit)) = self.pending_emeta(side)
                && self.send_emeta(side, line, unit)
            {
                self.counters.emeta_forced += 1;
                progress = true;
            }
        }
        progress
    }

    pub(super) fn send_emeta(&mut self, side: usize, line: LineId, unit: u32) -> bool {
        let lun = self.lines.lun(unit);
        if self.lines.is_bad(line, lun) {
            // The block failed since the unit was chosen.
            self.finish_emeta(line);
            return true;
        }
        let lock = self.lock(Class::MetaProgram, side);
        if !self.locks.is_free(lun, lock) {
            if self.holds_back(side, lun) {
                self.send_held(side);
            }
            return false;
        }
        self.locks.take(self.now, lun, lock);
        self.lines.note_program(line, unit);
        let l = &mut self.lines[line];
        l.emeta_cur = unit + 1;
        l.emeta_out += 1;
        self.counters.emeta_sectors += u64::from(self.g.sectors_per_unit);
        let op = Op::Emeta { line, unit, side: side as u8, lock, since: self.now };
        self.send_meta(line, unit, lock, op);
        true
    }

    /// A line whose emeta and stripes are all durable is closed.
    pub(crate) fn finish_emeta(&mut self, line: LineId) {
        let l = &self.lines[line];
        if l.state != LineState::Closing || l.stripes > 0 || !self.lines.emeta_done(line) {
            return;
        }
        let side = l.stream.side();
        self.lines.sides[side].closing.retain(|&l| l != line);
        self.lines[line].state = LineState::Closed;
        if self.map.valid_in(line) == 0 {
            self.emptied(line);
        }
        self.release_stripes(side);
        self.gc.look = true;
        self.gc.kick = true;
    }

    pub(crate) fn smeta_done(&mut self, done: Done, line: LineId, unit: u32, ok: bool) {
        let Done { side, lock, since, .. } = done;
        let lun = self.lines.lun(unit);
        self.locks.release(self.now, since, lun, lock);
        self.writers[side].smeta_out = false;
        if ok {
            return;
        }
        // Another block takes it, as nothing else is in the line yet.
        self.lines[line].cur = 0;
        self.lines[line].emeta_ok = true;
        self.retire_block(line, lun);
        let l = &self.lines[line];
        if l.good >= self.lines.min_good && l.left > 0 {
            self.send_smeta(side, line);
        } else {
            self.lines.sides[side].cur = None;
            self.lines.release(line);
        }
    }

    pub(crate) fn emeta_done(&mut self, done: Done, line: LineId, unit: u32, ok: bool) {
        let Done { lock, since, .. } = done;
        let lun = self.lines.lun(unit);
        self.locks.release(self.now, since, lun, lock);
        self.lines[line].emeta_out -= 1;
        if ok {
            self.finish_emeta(line);
        } else {
            self.retire_block(line, lun);
        }
    }
}
