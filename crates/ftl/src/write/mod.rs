//! The write thread (pblk-write, pblk-map): takes entries from the ring, maps them unit by unit to
//! the open line, and sends them to flash.
//!
//! One thread, one semaphore a LUN: a unit waits for the LUN it is mapped to, and everything behind
//! it waits too. A request of several units goes out when the last has its LUN. After each request
//! come at most one erasure of the next line (on a LUN just written to, so it waits behind the
//! program only) and one unit of an older line's emeta (about half the LUNs away).
//!
//! Semaphores cover data, parity and emeta. smeta is waited for by the thread itself. Erasures take
//! none in pblk; with strides they take that of the stride, which the LUN just written to has.
//!
//! When the data of a stripe are mapped its parity follows, a unit for each stride, each under the
//! stride's semaphore and computed when that is had, so that the stride's data are durable or known
//! to have failed. Cold data have a thread of their own.

mod meta;
mod parity;

use crate::config::{FtlConfig, Throttle};
use crate::line::{LineState, Lines, Stream};
use crate::lock::Lock;
use crate::map::Where;
use crate::ring::{DONE, GC, NO_STRIPE, STALE, USER};
use crate::{Action, Ftl, Op};
use std::collections::VecDeque;
use wordline_base::IdVec;
use wordline_base::rng::splitmix64;
use wordline_nand::{Class, Geometry, LineId, LunId, Ppa};

/// A unit mapped but not sent.
#[derive(Clone, Copy)]
struct Held {
    ppa: u32,
    lun: LunId,
    pos: u64,
    n: u32,
    stripe: u32,
    class: Class,
    lock: Lock,
}

/// A stale entry written, and the position of the newer version it waits for.
#[derive(Clone, Copy)]
struct Stale {
    pos: u64,
    newer: u64,
    written: bool,
}

/// A stripe of which something is not durable.
#[derive(Clone, Copy, Debug)]
struct Stripe {
    line: LineId,
    /// Units on their way.
    out: u32,
    /// All its units are mapped, parity included.
    closed: bool,
}

/// The stripe being written.
#[derive(Clone)]
struct Open {
    id: u32,
    line: LineId,
    page: u32,
    /// Its data are mapped; the next LUN to look for parity on.
    parity: Option<u32>,
    /// The class of the unit mapped last.
    class: Class,
}

#[derive(Clone)]
pub(crate) struct Writer {
    held: Vec<Held>,
    /// Units left of the request being mapped.
    left: u32,
    /// The next entry that it takes.
    pos: u64,
    /// Entries left that it takes.
    entries: u32,
    /// LUNs of the request, for placing emeta.
    luns: Vec<u32>,
    erase: Option<(u32, Lock)>,
    /// An emeta unit chosen, waiting for its LUN.
    meta: Option<(u32, u32)>,
    /// The line whose smeta is being written.
    smeta_out: bool,
    /// The line whose smeta waits for its LUN.
    smeta_wanted: Option<u32>,
    /// Failed units: entries to write again.
    resubmit: VecDeque<(u64, u32)>,
    /// The request being mapped is one of these.
    again: bool,
    stale: Vec<Stale>,
    open: Option<Open>,
    /// pblk-rail's table from parity to buffer: for each LUN of the open stripe with data, their first
    /// ring position and how many there are.
    p2b: IdVec<LunId, Option<(u64, u32)>>,
    /// Stripes in the order they were begun.
    stripes: VecDeque<Stripe>,
    /// Number of the first of these stripes.
    first_stripe: u32,
    max_units: u32,
    meta_lines: usize,
    meta_distance: u32,
    distance: u32,
    pairs: u32,
}

/// What stands between the writer and its next unit.
enum OpenLine {
    Ready(u32),
    Blocked { progress: bool },
}

impl Writer {
    pub fn new(g: &Geometry, c: &FtlConfig) -> Writer {
        let max_units = (c.max_request_sectors / g.sectors_per_unit).clamp(1, g.luns);
        let mut distance = c.meta_distance.unwrap_or(g.luns / 2);
        // Not in the stride of the data just written.
        let strides = crate::stride::Strides::new(g.luns, c).map_or(1, |s| s.count);
        while strides > 1 && distance > 1 && distance.is_multiple_of(strides) {
            distance -= 1;
        }
        Writer {
            held: Vec::with_capacity(max_units as usize),
            left: 0,
            pos: 0,
            entries: 0,
            luns: Vec::with_capacity(max_units as usize),
            erase: None,
            meta: None,
            smeta_out: false,
            smeta_wanted: None,
            resubmit: VecDeque::with_capacity(g.luns as usize),
            again: false,
            stale: Vec::new(),
            open: None,
            p2b: IdVec::filled(None, if c.stride > 0 { g.luns } else { 0 }),
            stripes: VecDeque::with_capacity(8),
            first_stripe: 0,
            max_units,
            meta_lines: c.meta_lines as usize,
            meta_distance: distance,
            distance,
            pairs: c.page_pairs,
        }
    }
    pub fn is_busy(&self) -> bool {
        self.left > 0
            || !self.held.is_empty()
            || self.meta.is_some()
            || self.smeta_out
            || self.open.as_ref().is_some_and(|o| o.parity.is_some())
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
    /// Flash may be read where this stripe was mapped.
    pub fn is_readable(&self, stripe: u32) -> bool {
        stripe == NO_STRIPE || stripe < self.first_stripe
    }
    /// The stripe being written, which has no parity yet.
    pub fn is_open_stripe(&self, line: LineId, page: u32) -> bool {
        self.open.as_ref().is_some_and(|o| o.line == line && o.page == page)
    }
    pub fn situation(&self) -> String {
        let open = self.open.as_ref().map(|o| (o.line, o.page, o.parity));
        format!(
            "request {} + {} of {} units, {} held, meta {:?}, smeta {}, open stripe {open:?}, \
             stripes {:?}, {} to write again",
            self.pos,
            self.entries,
            self.left,
            self.held.len(),
            self.meta,
            self.smeta_out,
            self.stripes,
            self.resubmit.len()
        )
    }
    pub fn has_open_stripe(&self) -> bool {
        self.open.is_some()
    }
}

/// What a unit counts as where programs and waits for them are told: the collector's as often as the share of its
/// entries is that the collector moved. Drawn from its place in the ring, so that it is nobody's turn.
fn told_as(pos: u64, moved: u32, entries: u32) -> Class {
    let drawn = splitmix64(pos) % u64::from(entries.max(1));
    if drawn < u64::from(moved) { Class::GcProgram } else { Class::UserProgram }
}

impl Ftl {
    /// Runs until it has nothing to write or waits for something. True if it did anything.
    #[inline]
    pub(crate) fn write_thread(&mut self, side: usize) -> bool {
        if self.writes_nothing(side) {
            debug_assert!(!self.write_units(side), "there was something to write");
            return false;
        }
        self.write_units(side)
    }
    /// It has nothing at hand, and too little for a unit waits: so it is most of the time.
    #[inline]
    fn writes_nothing(&self, side: usize) -> bool {
        let (w, ring) = (&self.writers[side], &self.rings[side]);
        let at_hand = w.meta.is_some()
            || w.left > 0
            || !w.luns.is_empty()
            || !w.resubmit.is_empty()
            || w.open.as_ref().is_some_and(|open| open.parity.is_some());
        let ready = ring.ready();
        let flushed = ready > 0 && ring.flush_point > ring.subm;
        !at_hand && ready < self.g.sectors_per_unit && !flushed
    }
    #[inline(never)]
    fn write_units(&mut self, side: usize) -> bool {
        let mut progress = false;
        loop {
            if let Some((line, unit)) = self.writers[side].meta {
                if !self.send_emeta(side, line, unit) {
                    return progress;
                }
                self.writers[side].meta = None;
                progress = true;
            }
            match self.write_parity(side) {
                Some(true) => {
                    progress = true;
                    continue;
                }
                Some(false) => return progress,
                None => {}
            }
            if self.writers[side].left == 0 && !self.next_request(side) {
                return progress;
            }
            let line = match self.open_line(side) {
                OpenLine::Ready(line) => line,
                OpenLine::Blocked { progress: more } => {
                    // Not to hold back what frees the line waited for.
                    return self.send_held(side) | progress | more;
                }
            };
            if self.begin_blank_stripe(side, line) {
                progress = true;
                continue;
            }
            let lun = self.lines.lun(self.lines.peek_unit(line));
            let class = self.class_at(side, self.writers[side].pos);
            let lock = self.lock(class, side);
            if !self.locks.is_free(lun, lock) {
                // A request wider than the line's good LUNs or strides waits for itself.
                // A border that moved lets both threads write to a LUN: neither waits for what the
                // other has not sent.
                let other = 1 - side;
                let own = self.holds_back(side, lun) && self.send_held(side);
                let others = self.holds_back(other, lun) && self.send_held(other);
                return own | others | progress;
            }
            self.map_unit(side, line, lun, class, lock);
            progress = true;
            if self.writers[side].left == 0 {
                self.send_held(side);
                self.choose_emeta(side);
            }
        }
    }

    /// pblk's kind of a mixed unit is that of its first entry: what it has to hold goes by that.
    fn class_at(&self, side: usize, pos: u64) -> Class {
        let gc = self.rings[side].at(pos).flags & GC != 0;
        if gc { Class::GcProgram } else { Class::UserProgram }
    }
    /// What an operation has to hold. Parity is locked as the data it follows.
    fn lock(&self, class: Class, side: usize) -> Lock {
        let program = class != Class::Erase;
        if self.config.stride == 0 {
            return Lock { program, stride: false, mark: false };
        }
        let cold = side == Stream::Cold.side();
        let gc = matches!(class, Class::GcProgram | Class::Erase);
        let (stride, mark) = match self.config.throttle {
            Throttle::All => (!cold && self.mostly.throttled, true),
            Throttle::Gc => (gc && !cold && self.mostly.throttled, gc),
            Throttle::None => (false, false),
        };
        Lock { program, stride, mark }
    }

    /// Forms the next request: failed units first, then as many whole units as there are, then
    /// one padded unit if a flush waits for it.
    fn next_request(&mut self, side: usize) -> bool {
        let unit = self.g.sectors_per_unit;
        let (w, ring) = (&mut self.writers[side], &mut self.rings[side]);
        w.luns.clear();
        if let Some((pos, n)) = w.resubmit.pop_front() {
            self.counters.resubmitted_sectors += u64::from(n);
            (w.left, w.pos, w.entries, w.again) = (1, pos, n, true);
            return true;
        }
        let ready = ring.ready();
        let n = if ready >= unit {
            (ready / unit).min(w.max_units) * unit
        } else if ready > 0 && ring.flush_point > ring.subm {
            ready
        } else {
            return false;
        };
        (w.left, w.pos, w.entries) = (n.div_ceil(unit), ring.subm, n);
        w.again = false;
        ring.subm += u64::from(n);
        true
    }

    /// The open line, if it has room; otherwise brings about the next one, a step at a time.
    fn open_line(&mut self, side: usize) -> OpenLine {
        let mut progress = false;
        let stream = self.stream(side);
        loop {
            if let Some(line) = self.lines.sides[side].cur {
                if let Some(line) = self.writers[side].smeta_wanted {
                    progress |= self.send_smeta(side, line);
                }
                if self.writers[side].smeta_out {
                    return OpenLine::Blocked { progress };
                }
                if self.lines[line].fill > 0 {
                    self.pad_aged_unit(line);
                }
                if self.lines[line].left > 0 {
                    return OpenLine::Ready(line);
                }
                self.lines.close(side);
                self.gc.kick = true;
                self.finish_emeta(line);
                progress = true;
            }
            // Only so many lines' metadata fit in memory.
            if self.lines.sides[side].closing.len() > self.writers[side].meta_lines {
                progress |= self.force_emeta();
                return OpenLine::Blocked { progress };
            }
            let had_next = self.lines.sides[side].next.is_some();
            if self.reserve_next(side).is_none() {
                progress |= self.force_emeta();
                return OpenLine::Blocked { progress };
            }
            if !had_next {
                self.rate_update();
            }
            let mut from = 0;
            while let Some(lun) = self.lines.any_erase(side, from) {
                from = lun + 1;
                if self.locks.is_free(lun, self.lock(Class::Erase, side)) {
                    self.counters.erases_sync += 1;
                    self.begin_erase(side, lun);
                    progress = true;
                }
            }
            if self.lines.sides[side].erase_left > 0 || self.lines.sides[side].erase_out > 0 {
                return OpenLine::Blocked { progress };
            }
            progress = true;
            if let Some(line) = self.lines.open_next(stream) {
                self.opened(line);
                self.reserve_next(side);
                self.rate_update();
                self.writers[side].distance = self.writers[side].meta_distance;
                self.send_smeta(side, line);
                return OpenLine::Blocked { progress };
            }
        }
    }
    pub(crate) fn opened(&mut self, line: LineId) {
        self.counters.lines_opened += 1;
        let l = &self.lines[line];
        if l.opened == 1 {
            let luns = (0..self.g.luns).filter(|&lun| self.lines.has_lun(line, lun)).count();
            self.map.touched += luns as u32 * self.lines.pages * self.g.sectors_per_unit;
        }
    }

    /// Maps one unit's worth of entries to the next unit of the line, on `lun`.
    fn map_unit(&mut self, side: usize, line: LineId, lun: LunId, class: Class, lock: Lock) {
        let size = self.g.sectors_per_unit;
        let unit = self.lines.take_unit(line);
        debug_assert!(!self.lines.is_parity(line, lun));
        let ppa = self.lines.ppa(line, unit);
        let stripe = self.in_stripe(side, line, unit / self.g.luns, class);
        let w = &mut self.writers[side];
        let (pos, n) = (w.pos, w.entries.min(size));
        let mut moved = 0;
        for i in 0..n {
            let e = self.rings[side].at_mut(pos + u64::from(i));
            e.ppa = ppa + i;
            e.stripe = stripe;
            moved += u32::from(e.flags & GC != 0);
            self.map.put_oob(ppa + i, e.lpn, e.stamp);
        }
        // Where reads go by the kind of a unit, it is told by that.
        let by_kind = self.config.stride > 0 && matches!(self.config.throttle, Throttle::Gc);
        let class = if by_kind { class } else { told_as(pos, moved, n) };
        self.map.clear_oob(ppa + n, size - n);
        self.map.set_valid(ppa, n);
        if w.again {
            self.supersede(side, ppa, pos, n);
        }
        let w = &mut self.writers[side];
        if let Some(cell) = w.p2b.get_mut(lun) {
            *cell = Some((pos, n));
        }
        self.lines[line].refs += n;
        self.counters.pad_sectors += u64::from(size - n);
        w.pos += u64::from(n);
        w.entries -= n;
        w.left -= 1;
        self.locks.take(self.now, lun, lock);
        w.held.push(Held { ppa, lun, pos, n, stripe, class, lock });
        w.luns.push(lun);
        if w.erase.is_none() {
            let erase = self.erase_beside(side, line, lun);
            self.writers[side].erase = erase;
        }
        self.end_of_data(side, line);
    }

    /// Of entries written again, those that must not be: a newer version of the sector is mapped
    /// already, to an earlier place, and recovery would take the later place for the newer version.
    fn supersede(&mut self, side: usize, ppa: u32, pos: u64, n: u32) {
        for i in 0..n {
            let at = pos + u64::from(i);
            let lpn = self.rings[side].at(at).lpn;
            if self.map.get(lpn) == Where::Buffer(self.slot_code(side, at)) {
                continue;
            }
            let newer = (at + 1..self.rings[side].subm).rev().find(|&p| {
                let e = self.rings[side].at(p);
                e.lpn == lpn && e.flags & STALE == 0 && !self.writers[side].awaits_place(p)
            });
            if let Some(newer) = newer {
                self.rings[side].at_mut(at).flags |= STALE;
                self.map.invalidate(ppa + i);
                self.map.clear_oob(ppa + i, 1);
                self.writers[side].stale.push(Stale { pos: at, newer, written: false });
            }
        }
    }
    /// Stale entries are done when they and the newer versions are written. One may wait for another
    /// that is stale itself.
    fn settle_stale(&mut self, side: usize) {
        let (ring, writer) = (&mut self.rings[side], &mut self.writers[side]);
        let mut before = usize::MAX;
        while writer.stale.len() < before {
            before = writer.stale.len();
            writer.stale.retain(|s| {
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
    fn erase_beside(&mut self, side: usize, line: LineId, lun: LunId) -> Option<(u32, Lock)> {
        if self.lines.sides[side].erase_left == 0 {
            return None;
        }
        let lock = self.lock(Class::Erase, side);
        let can =
            |lines: &Lines, lun| lines.wants_erase(side, lun) && self.locks.is_free(lun, lock);
        let mut chosen = can(&self.lines, lun).then_some(lun);
        let mut other = (lun + 1) % self.g.luns;
        while chosen.is_none() && other != lun && self.lines.is_bad(line, other) {
            chosen = can(&self.lines, other).then_some(other);
            other = (other + 1) % self.g.luns;
        }
        let lun = chosen?;
        self.lines.take_erase(side, lun);
        self.locks.take(self.now, lun, lock);
        Some((lun, lock))
    }

    /// What is mapped but not sent, or the erasure that goes with it, may hold this LUN or its stride.
    fn holds_back(&self, side: usize, lun: LunId) -> bool {
        let w = &self.writers[side];
        let stride = self.locks.stride_of(lun);
        let held = w.held.iter().map(|h| h.lun).chain(w.erase.map(|e| e.0));
        held.into_iter().any(|h| h == lun || stride.is_some() && self.locks.stride_of(h) == stride)
    }
    /// Sends the units mapped, and the erasure that goes with them.
    fn send_held(&mut self, side: usize) -> bool {
        if self.writers[side].held.is_empty() {
            return false;
        }
        let size = self.g.sectors_per_unit;
        for i in 0..self.writers[side].held.len() {
            let Held { ppa, lun, pos, n, stripe, class, lock } = self.writers[side].held[i];
            self.counters.programmed_sectors += u64::from(size);
            let mut payload = size;
            if self.config.copy_offload {
                let ring = &self.rings[side];
                let moved = (pos..pos + u64::from(n)).filter(|&p| ring.at(p).flags & GC != 0);
                payload -= moved.count() as u32;
            }
            let unit = ppa / size;
            let op = Op::Data { unit, pos, n, side: side as u8, stripe, lock, since: self.now };
            self.issue_on(lun, lock, op, |op| Action::Program {
                op,
                ppa: Ppa(ppa),
                class,
                payload,
                summed: 0,
                slc: false,
            });
        }
        self.writers[side].held.clear();
        self.send_erases(side);
        true
    }
    fn send_erases(&mut self, side: usize) {
        if let Some((lun, lock)) = self.writers[side].erase.take() {
            self.issue_erase(side, lun, lock);
        }
    }
    fn begin_erase(&mut self, side: usize, lun: LunId) {
        let lock = self.lock(Class::Erase, side);
        self.lines.take_erase(side, lun);
        self.locks.take(self.now, lun, lock);
        self.issue_erase(side, lun, lock);
    }
    fn issue_erase(&mut self, side: usize, lun: LunId, lock: Lock) {
        let line = self.lines.sides[side].next.expect("a line to erase");
        self.counters.erases += 1;
        let ppa = Ppa(self.lines.ppa(line, lun));
        let op = Op::Erase { line, lun, side: side as u8, lock, since: self.now };
        self.issue_on(lun, lock, op, |op| Action::Erase { op, ppa });
    }

    /// A block failed to program: nothing more goes there in this line's life, and the line is
    /// collected first. The block is bad for good.
    fn retire_block(&mut self, line: LineId, lun: LunId) {
        self.counters.program_errors += 1;
        if !self.lines.mark_bad(line, lun) {
            return;
        }
        self.counters.blocks_retired += 1;
        let l = &mut self.lines.lines[line];
        let side = l.stream.side();
        if !l.write_error {
            l.write_error = true;
            self.lines.write_errors += 1;
        }
        if self.lines.sides[side].cur == Some(line) {
            self.lines.layout(line);
            self.end_of_data(side, line);
        } else if l.state == LineState::Closing {
            l.emeta_ok = false;
            self.finish_emeta(line);
        }
        self.rate_update();
    }
    pub(crate) fn data_done(&mut self, done: Done, unit: u32, pos: u64, n: u32, ok: bool) {
        let Done { side, stripe, lock, since } = done;
        let size = self.g.sectors_per_unit;
        let lun = unit % self.g.luns;
        self.locks.release(self.now, since, lun, lock);
        if !ok {
            let (line, ppa) = (self.map.line_of(unit * size), unit * size);
            for i in 0..n {
                let at = pos + u64::from(i);
                if self.rings[side].at(at).flags & STALE == 0 {
                    self.map.invalidate(ppa + i);
                } else {
                    self.rings[side].at_mut(at).flags &= !STALE;
                    self.writers[side].stale.retain(|s| s.pos != at);
                }
                self.rings[side].at_mut(at).stripe = NO_STRIPE;
            }
            self.map.clear_oob(ppa, size);
            self.lines[line].refs -= n;
            self.writers[side].resubmit.push_back((pos, n));
            let in_line = unit % self.lines.units;
            self.forget_member(side, line, in_line);
            self.retire_block(line, lun);
            self.stripe_step(side, stripe, 1);
            return;
        }
        for pos in pos..pos + u64::from(n) {
            let e = self.rings[side].at_mut(pos);
            if e.flags & STALE == 0 {
                e.flags |= DONE;
            } else if let Some(s) = self.writers[side].stale.iter_mut().find(|s| s.pos == pos) {
                s.written = true;
            }
        }
        if !self.writers[side].stale.is_empty() {
            self.settle_stale(side);
        }
        self.advance_sync(side);
        self.stripe_step(side, stripe, 1);
    }
    /// Moves `sync` over what is durable without a gap.
    fn advance_sync(&mut self, side: usize) {
        while self.rings[side].sync < self.rings[side].subm {
            let e = *self.rings[side].at(self.rings[side].sync);
            if e.flags & DONE == 0 {
                break;
            }
            self.rings[side].sync += 1;
            if e.flags & USER != 0 {
                self.rate.user -= 1;
            } else {
                self.rate.gc -= 1;
                self.gc_durable(e.origin);
            }
        }
        self.gc.kick |= self.rings[side].sync >= self.gc.barrier[side];
        self.advance_readable(side);
        self.complete_flushes();
    }
    pub(crate) fn erase_done(&mut self, done: Done, line: LineId, lun: LunId, ok: bool) {
        let Done { side, lock, since, .. } = done;
        self.locks.release(self.now, since, lun, lock);
        let size = self.g.sectors_per_unit;
        let block = self.lines.block(line, lun);
        for page in 0..self.lines.programmed[block] {
            let ppa = self.lines.ppa(line, page * self.g.luns + lun);
            self.map.clear_oob(ppa, size);
        }
        self.lines.note_erase(side, line, lun);
        if !ok {
            self.counters.erase_errors += 1;
            self.counters.blocks_retired += 1;
            self.lines.mark_bad(line, lun);
        }
    }
}

/// What an operation held, and whose it was.
#[derive(Clone, Copy)]
pub(crate) struct Done {
    pub side: usize,
    pub stripe: u32,
    pub lock: Lock,
    pub since: wordline_base::Time,
}
