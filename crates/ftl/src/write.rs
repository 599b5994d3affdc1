//! The write thread (pblk-write, pblk-map): takes entries from the ring, maps them unit by unit to
//! the open line, and sends them to flash.
//!
//! One thread, one semaphore a LUN: a unit waits for the LUN it is mapped to, and everything behind
//! it waits too. A request of several units goes out when the last has its LUN. After each request
//! come at most one erasure of the next line (on a LUN just written to, so it waits behind the
//! program only) and one unit of an older line's emeta (about half the LUNs away).
//!
//! Semaphores cover data and emeta. smeta is waited for by the thread itself, and erasures take
//! none, as in pblk.

use crate::config::FtlConfig;
use crate::line::LineState;
use crate::map::Where;
use crate::ring::{DONE, GC, STALE, USER};
use crate::{Action, Ftl, Op};
use std::collections::VecDeque;
use wordline_base::BitMap;
use wordline_nand::{Class, Geometry, Ppa};

/// A unit mapped but not sent.
#[derive(Clone, Copy)]
struct Held {
    ppa: u32,
    lun: u32,
    pos: u64,
    n: u32,
}

/// A stale entry written, and the position of the newer version it waits for.
#[derive(Clone, Copy)]
struct Stale {
    pos: u64,
    newer: u64,
    written: bool,
}

pub(crate) struct Writer {
    /// Semaphores taken.
    busy: BitMap,
    held: Vec<Held>,
    /// Of the request being mapped: units left, the next entry, entries left.
    left: u32,
    pos: u64,
    entries: u32,
    /// LUNs of the request, for placing emeta.
    luns: Vec<u32>,
    erase: Option<u32>,
    /// An emeta unit chosen, waiting for its LUN.
    meta: Option<(u32, u32)>,
    smeta_out: bool,
    /// Failed units: entries to write again.
    resubmit: VecDeque<(u64, u32)>,
    /// The request being mapped is one of these.
    again: bool,
    stale: Vec<Stale>,
    max_units: u32,
    meta_lines: usize,
    meta_distance: u32,
    distance: u32,
}

/// What stands between the writer and its next unit.
enum OpenLine {
    Ready(u32),
    Blocked { progress: bool },
}

impl Writer {
    pub fn new(g: &Geometry, c: &FtlConfig) -> Writer {
        let max_units = (c.max_request_sectors / g.sectors_per_unit).clamp(1, g.luns);
        let distance = c.meta_distance.unwrap_or(g.luns / 2);
        Writer {
            busy: BitMap::new(g.luns as usize),
            held: Vec::with_capacity(max_units as usize),
            left: 0,
            pos: 0,
            entries: 0,
            luns: Vec::with_capacity(max_units as usize),
            erase: None,
            meta: None,
            smeta_out: false,
            resubmit: VecDeque::with_capacity(g.luns as usize),
            again: false,
            stale: Vec::new(),
            max_units,
            meta_lines: c.meta_lines as usize,
            meta_distance: distance,
            distance,
        }
    }
    pub fn is_busy(&self) -> bool {
        self.left > 0 || !self.held.is_empty() || self.meta.is_some() || self.smeta_out
    }
    /// The entry has no place in flash: its request is being mapped, or its program failed.
    pub fn awaits_place(&self, pos: u64) -> bool {
        let within = |(first, n): (u64, u32)| (first..first + u64::from(n)).contains(&pos);
        self.resubmit.iter().any(|&r| within(r)) || within((self.pos, self.entries))
    }
    /// Entries taken from the ring and not mapped, and to be written again.
    pub fn backlog(&self) -> u64 {
        u64::from(self.entries) + self.resubmit.iter().map(|r| u64::from(r.1)).sum::<u64>()
    }
}

impl Ftl {
    /// Runs until it has nothing to write or waits for something. True if it did anything.
    pub(crate) fn write_thread(&mut self) -> bool {
        let mut progress = false;
        loop {
            if let Some((line, unit)) = self.writer.meta {
                if !self.send_emeta(line, unit) {
                    return progress;
                }
                self.writer.meta = None;
                progress = true;
            }
            if self.writer.left == 0 && !self.next_request() {
                return progress;
            }
            let line = match self.open_line() {
                OpenLine::Ready(line) => line,
                OpenLine::Blocked { progress: more } => {
                    // Not to hold back what frees the line waited for.
                    return self.send_held() | progress | more;
                }
            };
            let lun = self.lines.lun(self.lines.peek_unit(line));
            if self.writer.busy.get(lun as usize) {
                // A request wider than the line's good LUNs waits for itself.
                let own = self.writer.held.iter().any(|h| h.lun == lun);
                return (own && self.send_held()) | progress;
            }
            self.map_unit(line, lun);
            progress = true;
            if self.writer.left == 0 {
                self.send_held();
                self.choose_emeta();
            }
        }
    }

    /// Forms the next request: failed units first, then as many whole units as there are, then
    /// one padded unit if a flush waits for it.
    fn next_request(&mut self) -> bool {
        let unit = self.g.sectors_per_unit;
        let w = &mut self.writer;
        w.luns.clear();
        if let Some((pos, n)) = w.resubmit.pop_front() {
            self.counters.resubmitted_sectors += u64::from(n);
            (w.left, w.pos, w.entries, w.again) = (1, pos, n, true);
            return true;
        }
        let ready = self.ring.ready();
        let n = if ready >= unit {
            (ready / unit).min(w.max_units) * unit
        } else if ready > 0 && self.ring.flush_point > self.ring.subm {
            ready
        } else {
            return false;
        };
        (w.left, w.pos, w.entries) = (n.div_ceil(unit), self.ring.subm, n);
        w.again = false;
        self.ring.subm += u64::from(n);
        true
    }

    /// The open line, if it has room; otherwise brings about the next one, a step at a time.
    fn open_line(&mut self) -> OpenLine {
        let mut progress = false;
        loop {
            if let Some(line) = self.lines.cur {
                if self.writer.smeta_out {
                    return OpenLine::Blocked { progress };
                }
                if self.lines.lines[line as usize].fill > 0 {
                    self.pad_aged_unit(line);
                }
                if self.lines.lines[line as usize].left > 0 {
                    return OpenLine::Ready(line);
                }
                self.lines.close();
                self.gc.kick = true;
                self.finish_emeta(line);
                progress = true;
            }
            // Only so many lines' metadata fit in memory.
            if self.lines.closing.len() > self.writer.meta_lines {
                progress |= self.force_emeta();
                return OpenLine::Blocked { progress };
            }
            let had_next = self.lines.next.is_some();
            if self.lines.reserve_next().is_none() {
                progress |= self.force_emeta();
                return OpenLine::Blocked { progress };
            }
            if !had_next {
                self.rate_update();
            }
            while let Some(lun) = self.lines.any_erase() {
                self.counters.erases_sync += 1;
                self.send_erase(lun);
                progress = true;
            }
            if self.lines.erase_out > 0 {
                return OpenLine::Blocked { progress };
            }
            progress = true;
            if let Some(line) = self.lines.open_next() {
                self.opened(line);
                self.lines.reserve_next();
                self.rate_update();
                self.writer.distance = self.writer.meta_distance;
                self.send_smeta(line);
                return OpenLine::Blocked { progress };
            }
        }
    }
    pub(crate) fn opened(&mut self, line: u32) {
        self.counters.lines_opened += 1;
        if self.lines.lines[line as usize].opened == 1 {
            self.map.touched += 1;
        }
    }

    /// Maps one unit's worth of entries to the next unit of the line, on `lun`.
    fn map_unit(&mut self, line: u32, lun: u32) {
        let size = self.g.sectors_per_unit;
        let unit = self.lines.take_unit(line);
        let ppa = self.lines.ppa(line, unit);
        let w = &mut self.writer;
        let (pos, n) = (w.pos, w.entries.min(size));
        for i in 0..n {
            let e = self.ring.at_mut(pos + u64::from(i));
            e.ppa = ppa + i;
            self.map.put_oob(ppa + i, e.lpn, e.stamp);
        }
        self.map.clear_oob(ppa + n, size - n);
        self.map.set_valid(ppa, n);
        if w.again {
            self.supersede(ppa, pos, n);
        }
        let w = &mut self.writer;
        self.lines.lines[line as usize].refs += n;
        self.counters.pad_sectors += u64::from(size - n);
        w.pos += u64::from(n);
        w.entries -= n;
        w.left -= 1;
        w.busy.set(lun as usize);
        w.held.push(Held { ppa, lun, pos, n });
        w.luns.push(lun);
        if self.writer.erase.is_none() {
            self.writer.erase = self.erase_beside(line, lun);
        }
    }
    /// Of entries written again, those that must not be: a newer version of the sector is mapped
    /// already, to an earlier place, and recovery would take the later place for the newer version.
    fn supersede(&mut self, ppa: u32, pos: u64, n: u32) {
        for i in 0..n {
            let at = pos + u64::from(i);
            let lpn = self.ring.at(at).lpn;
            if self.map.get(lpn) == Where::Buffer(self.ring.slot(at)) {
                continue;
            }
            let newer = (at + 1..self.ring.subm).rev().find(|&p| {
                let e = self.ring.at(p);
                e.lpn == lpn && e.flags & STALE == 0 && !self.writer.awaits_place(p)
            });
            if let Some(newer) = newer {
                self.ring.at_mut(at).flags |= STALE;
                self.map.invalidate(ppa + i);
                self.map.clear_oob(ppa + i, 1);
                self.writer.stale.push(Stale { pos: at, newer, written: false });
            }
        }
    }
    /// Stale entries are done when they and the newer versions are written. One may wait for another
    /// that is stale itself.
    fn settle_stale(&mut self) {
        let ring = &mut self.ring;
        let mut before = usize::MAX;
        while self.writer.stale.len() < before {
            before = self.writer.stale.len();
            self.writer.stale.retain(|s| {
                let done = s.written && ring.at(s.newer).flags & DONE != 0;
                if done {
                    ring.at_mut(s.pos).flags |= DONE;
                }
                !done
            });
        }
    }
    /// A LUN of the next line to erase with a unit on `lun`: that one, or one on which the open line
    /// has no block to hide behind.
    fn erase_beside(&mut self, line: u32, lun: u32) -> Option<u32> {
        if self.lines.erase_left == 0 {
            return None;
        }
        if self.lines.take_erase(lun).is_some() {
            return Some(lun);
        }
        let mut other = (lun + 1) % self.g.luns;
        while self.lines.is_bad(line, other) {
            if self.lines.take_erase(other).is_some() {
                return Some(other);
            }
            other = (other + 1) % self.g.luns;
        }
        None
    }

    /// Sends the units mapped, and the erasure that goes with them.
    fn send_held(&mut self) -> bool {
        if self.writer.held.is_empty() {
            return false;
        }
        for i in 0..self.writer.held.len() {
            let Held { ppa, pos, n, .. } = self.writer.held[i];
            // pblk's kind of a mixed unit is that of its first entry.
            let gc = self.ring.at(pos).flags & GC != 0;
            let class = if gc { Class::GcProgram } else { Class::UserProgram };
            self.counters.programmed_sectors += u64::from(self.g.sectors_per_unit);
            self.issue(Op::Data { unit: ppa / self.g.sectors_per_unit, pos, n }, |op| {
                Action::Program { op, ppa: Ppa(ppa), class }
            });
        }
        self.writer.held.clear();
        if let Some(lun) = self.writer.erase.take() {
            self.issue_erase(lun);
        }
        true
    }
    fn send_erase(&mut self, lun: u32) {
        self.lines.take_erase(lun);
        self.issue_erase(lun);
    }
    fn issue_erase(&mut self, lun: u32) {
        let line = self.lines.next.expect("a line to erase");
        self.counters.erases += 1;
        let ppa = Ppa(self.lines.ppa(line, lun));
        self.issue(Op::Erase { line, lun }, |op| Action::Erase { op, ppa });
    }
    fn send_smeta(&mut self, line: u32) {
        let unit = self.lines.lines[line as usize].smeta;
        self.lines.note_program(line, unit);
        self.writer.smeta_out = true;
        self.counters.smeta_sectors += u64::from(self.g.sectors_per_unit);
        self.send_meta(line, unit, Op::Smeta { line, unit });
    }
    fn send_meta(&mut self, line: u32, unit: u32, op: Op) {
        let ppa = self.lines.ppa(line, unit);
        self.map.clear_oob(ppa, self.g.sectors_per_unit);
        self.counters.programmed_sectors += u64::from(self.g.sectors_per_unit);
        self.issue(op, |op| Action::Program { op, ppa: Ppa(ppa), class: Class::MetaProgram });
    }

    /// Chooses the emeta unit to write after a request: the oldest waiting one, if the request wrote
    /// (or could not write) the LUN `distance` further on.
    fn choose_emeta(&mut self) {
        let Some((line, unit)) = self.pending_emeta() else { return };
        let lun = self.lines.lun(unit);
        let beside = (lun + self.writer.distance) % self.g.luns;
        let unusable = self.lines.cur.is_some_and(|cur| self.lines.is_bad(cur, beside));
        if self.writer.luns.contains(&beside) || unusable {
            self.writer.meta = Some((line, unit));
        } else if beside == lun && self.writer.distance > 1 {
            self.writer.distance -= 1;
        }
    }
    fn pending_emeta(&self) -> Option<(u32, u32)> {
        self.lines.closing.iter().find_map(|&line| Some((line, self.lines.peek_emeta(line)?)))
    }
    /// Writes emeta now, as much as the LUNs take: its lines are wanted.
    pub(crate) fn force_emeta(&mut self) -> bool {
        let mut progress = false;
        while self.writer.meta.is_none()
            && let Some((line, unit)) = self.pending_emeta()
            && self.send_emeta(line, unit)
        {
            self.counters.emeta_forced += 1;
            progress = true;
        }
        progress
    }
    fn send_emeta(&mut self, line: u32, unit: u32) -> bool {
        let lun = self.lines.lun(unit);
        if self.lines.is_bad(line, lun) {
            // The block failed since the unit was chosen.
            self.finish_emeta(line);
            return true;
        }
        if self.writer.busy.get(lun as usize) {
            if self.writer.held.iter().any(|h| h.lun == lun) {
                self.send_held();
            }
            return false;
        }
        self.writer.busy.set(lun as usize);
        self.lines.note_program(line, unit);
        let l = &mut self.lines.lines[line as usize];
        l.emeta_cur = unit + 1;
        l.emeta_out += 1;
        self.counters.emeta_sectors += u64::from(self.g.sectors_per_unit);
        self.send_meta(line, unit, Op::Emeta { line, unit });
        true
    }
    /// A line whose emeta is all durable is closed.
    pub(crate) fn finish_emeta(&mut self, line: u32) {
        if self.lines.lines[line as usize].state != LineState::Closing
            || !self.lines.emeta_done(line)
        {
            return;
        }
        self.lines.closing.retain(|&l| l != line);
        self.lines.lines[line as usize].state = LineState::Closed;
        if self.map.valid_in(line) == 0 {
            self.emptied(line);
        }
        self.gc.look = true;
        self.gc.kick = true;
    }

    /// A block failed to program: nothing more goes there in this line's life, and the line is
    /// collected first. The block is bad for good.
    fn retire_block(&mut self, line: u32, lun: u32) {
        self.counters.program_errors += 1;
        if !self.lines.mark_bad(line, lun) {
            return;
        }
        self.counters.blocks_retired += 1;
        let l = &mut self.lines.lines[line as usize];
        if !l.write_error {
            l.write_error = true;
            self.lines.write_errors += 1;
        }
        if self.lines.cur == Some(line) {
            self.lines.layout(line);
        } else if l.state == LineState::Closing {
            l.emeta_ok = false;
            self.finish_emeta(line);
        }
        self.rate_update();
    }
    pub(crate) fn data_done(&mut self, unit: u32, pos: u64, n: u32, ok: bool) {
        let size = self.g.sectors_per_unit;
        let lun = unit % self.g.luns;
        self.writer.busy.clear(lun as usize);
        if !ok {
            let (line, ppa) = (unit / self.lines.units, unit * size);
            for i in 0..n {
                let at = pos + u64::from(i);
                if self.ring.at(at).flags & STALE == 0 {
                    self.map.invalidate(ppa + i);
                } else {
                    self.ring.at_mut(at).flags &= !STALE;
                    self.writer.stale.retain(|s| s.pos != at);
                }
            }
            self.map.clear_oob(ppa, size);
            self.lines.lines[line as usize].refs -= n;
            self.writer.resubmit.push_back((pos, n));
            self.retire_block(line, lun);
            return;
        }
        for pos in pos..pos + u64::from(n) {
            let e = self.ring.at_mut(pos);
            if e.flags & STALE == 0 {
                e.flags |= DONE;
            } else if let Some(s) = self.writer.stale.iter_mut().find(|s| s.pos == pos) {
                s.written = true;
            }
        }
        if !self.writer.stale.is_empty() {
            self.settle_stale();
        }
        self.advance_sync();
    }
    /// Moves `sync` over what is durable without a gap.
    fn advance_sync(&mut self) {
        while self.ring.sync < self.ring.subm {
            let e = *self.ring.at(self.ring.sync);
            if e.flags & DONE == 0 {
                break;
            }
            self.ring.sync += 1;
            if e.flags & USER != 0 {
                self.rate.user -= 1;
            } else {
                self.rate.gc -= 1;
                self.gc_durable(e.origin);
            }
        }
        self.gc.kick |= self.ring.sync >= self.gc.barrier;
        self.complete_flushes();
    }
    pub(crate) fn smeta_done(&mut self, line: u32, unit: u32, ok: bool) {
        self.writer.smeta_out = false;
        if ok {
            return;
        }
        // Another block takes it, as nothing else is in the line yet.
        self.lines.lines[line as usize].cur = 0;
        self.lines.lines[line as usize].emeta_ok = true;
        self.retire_block(line, self.lines.lun(unit));
        let l = &mut self.lines.lines[line as usize];
        if l.good >= self.lines.min_good {
            self.send_smeta(line);
        } else {
            self.lines.cur = None;
            self.lines.release(line);
        }
    }
    pub(crate) fn emeta_done(&mut self, line: u32, unit: u32, ok: bool) {
        let lun = self.lines.lun(unit);
        self.writer.busy.clear(lun as usize);
        self.lines.lines[line as usize].emeta_out -= 1;
        if ok {
            self.finish_emeta(line);
        } else {
            self.retire_block(line, lun);
        }
    }
    pub(crate) fn erase_done(&mut self, line: u32, lun: u32, ok: bool) {
        let size = self.g.sectors_per_unit;
        let block = self.lines.block(line, lun);
        for page in 0..self.lines.programmed[block] {
            let ppa = self.lines.ppa(line, page * self.g.luns + lun);
            self.map.clear_oob(ppa, size);
        }
        self.lines.note_erase(line, lun);
        if !ok {
            self.counters.erase_errors += 1;
            self.counters.blocks_retired += 1;
            self.lines.mark_bad(line, lun);
        }
    }
}
