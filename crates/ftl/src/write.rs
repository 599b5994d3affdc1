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

use crate::config::{FtlConfig, Throttle};
use crate::line::{LineState, Lines, Stream};
use crate::lock::Lock;
use crate::map::{EMPTY, Where};
use crate::ring::{DONE, GC, NO_STRIPE, STALE, USER};
use crate::stride::times_power;
use crate::{Action, Ftl, Op};
use std::collections::VecDeque;
use wordline_base::IdVec;
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
    /// The line whose smeta is being written, or waits for its LUN.
    smeta_out: bool,
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
    /// Stripes in the order they were begun, the first of number `first_stripe`.
    stripes: VecDeque<Stripe>,
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
    pub fn new(g: &Geometry, c: &FtlConfig, lines: &Lines) -> Writer {
        let max_units = (c.max_request_sectors / g.sectors_per_unit).clamp(1, g.luns);
        let mut distance = c.meta_distance.unwrap_or(g.luns / 2);
        // Not in the stride of the data just written.
        let strides = crate::stride::Strides::new(lines.hot, c).map_or(1, |s| s.count);
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

impl Ftl {
    /// Runs until it has nothing to write or waits for something. True if it did anything.
    pub(crate) fn write_thread(&mut self, side: usize) -> bool {
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

    /// pblk's kind of a mixed unit is that of its first entry.
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
        for i in 0..n {
            let e = self.rings[side].at_mut(pos + u64::from(i));
            e.ppa = ppa + i;
            e.stripe = stripe;
            self.map.put_oob(ppa + i, e.lpn, e.stamp);
        }
        self.map.clear_oob(ppa + n, size - n);
        self.map.set_valid(ppa, n);
        if w.again {
            self.supersede(side, ppa, pos, n);
        }
        let w = &mut self.writers[side];
        if let Some(cell) = w.p2b.get_mut(lun as usize) {
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
    /// The number of the stripe that a unit is mapped to, one unit more on its way.
    fn in_stripe(&mut self, side: usize, line: LineId, page: u32, class: Class) -> u32 {
        let strides = self.lines[line].strides;
        let w = &mut self.writers[side];
        if strides.is_none() && w.pairs == 0 {
            return NO_STRIPE;
        }
        if w.open.is_none() {
            self.begin_stripe(side, line, page, class);
        }
        let w = &mut self.writers[side];
        let open = w.open.as_mut().expect("an open stripe");
        debug_assert_eq!((open.line, open.page), (line, page));
        open.class = class;
        let stripe = w.stripes.back_mut().expect("the open stripe");
        stripe.out += 1;
        open.id
    }
    /// Where smeta is all the data of the first stripe its parity is written all the same: blocks are
    /// programmed without gaps.
    fn begin_blank_stripe(&mut self, side: usize, line: LineId) -> bool {
        let Some(page) = (self.lines.peek_unit(line) / self.g.luns).checked_sub(1) else {
            return false;
        };
        let l = &self.lines[line];
        if l.strides.is_none() || l.data > 0 || self.writers[side].open.is_some() {
            return false;
        }
        let Some(unit) = self.lines.parity_unit(line, page, 0) else { return false };
        if self.lines.programmed[self.lines.block(line, self.lines.lun(unit))] > page {
            return false;
        }
        self.begin_stripe(side, line, page, Class::UserProgram);
        self.writers[side].open.as_mut().expect("just begun").parity = Some(0);
        true
    }
    fn begin_stripe(&mut self, side: usize, line: LineId, page: u32, class: Class) {
        let w = &mut self.writers[side];
        let id = w.first_stripe + w.stripes.len() as u32;
        w.p2b.fill(None);
        w.open = Some(Open { id, line, page, parity: None, class });
        w.stripes.push_back(Stripe { line, out: 0, closed: false });
        self.lines[line].stripes += 1;
    }
    /// If the stripe's data are all mapped its parity is next.
    fn end_of_data(&mut self, side: usize, line: LineId) {
        let Some(open) = &mut self.writers[side].open else { return };
        let left = self.lines[line].left > 0;
        if !left || self.lines.peek_unit(line) / self.g.luns > open.page {
            open.parity.get_or_insert(0);
        }
    }
    /// The next parity unit, if it is time for parity: true if it went out.
    fn write_parity(&mut self, side: usize) -> Option<bool> {
        let open = self.writers[side].open.as_ref()?;
        let (from, line, page, id) = (open.parity?, open.line, open.page, open.id);
        let class = open.class;
        let strides = self.lines[line].strides;
        let next = strides.and_then(|_| self.lines.parity_unit(line, page, from));
        let Some(unit) = next else {
            self.writers[side].open = None;
            let index = (id - self.writers[side].first_stripe) as usize;
            self.writers[side].stripes[index].closed = true;
            self.stripe_step(side, id, 0);
            return Some(true);
        };
        let lun = self.lines.lun(unit);
        let lock = self.lock(class, side);
        if !self.locks.is_free(lun, lock) {
            // Its data may be held back in a request.
            return Some(self.send_held(side));
        }
        self.send_held(side);
        self.locks.take(self.now, lun, lock);
        self.lines.note_program(line, unit);
        let members = self.sum_buffered(side, line, page, lun);
        let w = &mut self.writers[side];
        w.stripes.back_mut().expect("the open stripe").out += 1;
        if let Some(open) = &mut w.open {
            open.parity = Some(lun + 1);
        }
        let size = self.g.sectors_per_unit;
        self.counters.parity_sectors += u64::from(size);
        self.counters.programmed_sectors += u64::from(size);
        self.counters.xor_sectors += u64::from(members * size);
        let ppa = self.lines.ppa(line, unit);
        let payload = if self.config.parity_offload { 0 } else { size };
        let op = Op::Parity { line, unit, side: side as u8, stripe: id, lock, since: self.now };
        self.issue_on(lun, lock, op, |op| Action::Program {
            op,
            ppa: Ppa(ppa),
            class: Class::ParityProgram,
            payload,
            summed: members * size,
            slc: false,
        });
        if self.writers[side].erase.is_none() {
            self.writers[side].erase = self.erase_beside(side, line, lun);
        }
        self.send_erases(side);
        Some(true)
    }
    /// What parity is at sector `i` of a parity unit: the sum of logical addresses and stamps over its
    /// stride's data units, padding left out.
    fn sum_at(&self, line: LineId, unit: u32, i: u32) -> (u32, u32) {
        let (page, lun) = (unit / self.g.luns, self.lines.lun(unit));
        let strides = self.lines[line].strides.expect("a line with parity");
        let weighted = self.is_q(line, lun);
        let (mut lpn, mut stamp) = (0, 0);
        for member in strides.members(strides.of(lun)) {
            let unit = page * self.g.luns + member;
            let ppa = self.lines.ppa(line, unit) + i;
            let at = self.map.lpn_at(ppa);
            if !self.is_summed(line, unit) || at == EMPTY {
                continue;
            }
            let power = if weighted { strides.row(member) } else { 0 };
            lpn ^= times_power(at, power);
            stamp ^= times_power(self.map.stamp_at(ppa), power);
        }
        (lpn, stamp)
    }
    /// What sector `i` of a unit holds beside its data, parity that is not kept included.
    pub(crate) fn spare_at(&self, line: LineId, unit: u32, i: u32) -> (u32, u32) {
        let l = &self.lines[line];
        let implied = l.implied.contains(&(unit / self.g.luns));
        if implied && self.lines.is_parity(line, self.lines.lun(unit)) {
            return self.sum_at(line, unit, i);
        }
        let ppa = self.lines.ppa(line, unit) + i;
        (self.map.lpn_at(ppa), self.map.stamp_at(ppa))
    }
    /// Puts parity into the spare area of a parity unit: sums over the data units of its stride, which
    /// are still in the buffer. Returns how many there are.
    fn sum_buffered(&mut self, side: usize, line: LineId, page: u32, lun: LunId) -> u32 {
        let strides = self.lines[line].strides.expect("a line with parity");
        let weighted = self.is_q(line, lun);
        let first = self.lines.ppa(line, page * self.g.luns + lun);
        let (w, ring) = (&self.writers[side], &self.rings[side]);
        let units = |stride| strides.members(stride).filter_map(|m| Some((m, w.p2b[m]?)));
        for i in 0..self.g.sectors_per_unit {
            let (mut lpn, mut stamp) = (0, 0);
            for (member, (pos, n)) in units(strides.of(lun)) {
                let at = pos + u64::from(i);
                let e = ring.at(at);
                if i >= n || e.flags & STALE != 0 {
                    continue;
                }
                debug_assert!(ring.mem - at <= u64::from(ring.size()), "out of the buffer");
                let power = if weighted { strides.row(member) } else { 0 };
                lpn ^= times_power(e.lpn, power);
                stamp ^= times_power(e.stamp, power);
            }
            self.map.put_oob(first + i, lpn, stamp);
        }
        units(strides.of(lun)).count() as u32
    }
    /// The same of a stripe that ageing wrote.
    pub(crate) fn sum_aged(&mut self, line: LineId, page: u32, lun: LunId) {
        let unit = page * self.g.luns + lun;
        let first = self.lines.ppa(line, unit);
        for i in 0..self.g.sectors_per_unit {
            let (lpn, stamp) = self.sum_at(line, unit, i);
            self.map.put_oob(first + i, lpn, stamp);
        }
    }
    /// The unit is one of those whose sum its stride's parity is: data.
    pub(crate) fn is_summed(&self, line: LineId, unit: u32) -> bool {
        let lun = self.lines.lun(unit);
        let l = &self.lines[line];
        self.lines.was_good(line, lun)
            && !self.lines.is_parity(line, lun)
            && unit != l.smeta
            && unit < l.emeta
    }
    /// The unit can be read: it is programmed, and did not fail, which ends a block.
    pub(crate) fn is_written(&self, line: LineId, unit: u32) -> bool {
        let lun = self.lines.lun(unit);
        let pages = self.lines.programmed[self.lines.block(line, lun)];
        unit / self.g.luns + u32::from(self.lines.is_bad(line, lun)) < pages
    }
    /// It is the later one of two parity LUNs of a stride, which holds the weighted sum.
    pub(crate) fn is_q(&self, line: LineId, lun: LunId) -> bool {
        let Some(strides) = self.lines[line].strides else { return false };
        strides.parities > 1
            && strides.members(strides.of(lun)).any(|m| m < lun && self.lines.is_parity(line, m))
    }

    /// The stripe being written is left to ageing, which writes its parity.
    pub(crate) fn leave_stripe(&mut self, side: usize) {
        if let Some(open) = self.writers[side].open.take() {
            self.writers[side].stripes.back_mut().expect("the open stripe").closed = true;
            self.stripe_step(side, open.id, 0);
        }
    }
    /// `done` units of a stripe are durable, or lost. When that is all, it can be read.
    fn stripe_step(&mut self, side: usize, id: u32, done: u32) {
        if id == NO_STRIPE {
            return;
        }
        let w = &mut self.writers[side];
        let stripe = &mut w.stripes[(id - w.first_stripe) as usize];
        stripe.out -= done;
        if !stripe.closed || stripe.out > 0 {
            return;
        }
        let line = stripe.line;
        self.lines[line].stripes -= 1;
        self.finish_emeta(line);
        self.release_stripes(side);
    }
    /// Stripes are done with in order; with page pairs, when those behind them in the line are
    /// programmed too.
    fn release_stripes(&mut self, side: usize) {
        let w = &mut self.writers[side];
        let before = w.first_stripe;
        while let Some(first) = w.stripes.front()
            && first.closed
            && first.out == 0
        {
            let pairs = w.stripes.iter().skip(1).take(w.pairs as usize);
            let paired = pairs.filter(|s| s.line == first.line && s.closed && s.out == 0).count();
            let state = self.lines[first.line].state;
            let whole = matches!(state, LineState::Closed | LineState::Gc);
            if paired < w.pairs as usize && !whole {
                break;
            }
            w.stripes.pop_front();
            w.first_stripe += 1;
        }
        if w.first_stripe > before {
            self.advance_readable(side);
        }
    }
    fn advance_readable(&mut self, side: usize) {
        let (ring, w) = (&mut self.rings[side], &self.writers[side]);
        while ring.readable < ring.sync && w.is_readable(ring.at(ring.readable).stripe) {
            ring.readable += 1;
        }
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
    /// True if it went out; otherwise it waits for its LUN.
    fn send_smeta(&mut self, side: usize, line: LineId) -> bool {
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
    fn send_meta(&mut self, line: LineId, unit: u32, lock: Lock, op: Op) {
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
    fn choose_emeta(&mut self, side: usize) {
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
    fn pending_emeta(&self, side: usize) -> Option<(u32, u32)> {
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
    fn send_emeta(&mut self, side: usize, line: LineId, unit: u32) -> bool {
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
    /// A unit of the stride was lost: parity computed with it does not hold.
    fn break_stride(&mut self, line: LineId, unit: u32) {
        let Some(strides) = self.lines[line].strides else { return };
        let (page, stride) = (unit / self.g.luns, strides.of(self.lines.lun(unit)));
        self.lines[line].broken.push((page, stride));
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
    /// A failed unit is left out of its stride's parity, or spoils it if that is computed.
    fn forget_member(&mut self, side: usize, line: LineId, unit: u32) {
        let Some(strides) = self.lines[line].strides else { return };
        let (page, lun) = (unit / self.g.luns, self.lines.lun(unit));
        let stride = strides.of(lun);
        if let Some(open) = &mut self.writers[side].open
            && (open.line, open.page) == (line, page)
        {
            self.writers[side].p2b[lun] = None;
            // Parity units go out from the first LUN on.
            let sent = open.parity.unwrap_or(0);
            let mut parity = strides.members(stride).filter(|&m| self.lines.is_parity(line, m));
            if !parity.any(|m| m < sent) {
                return;
            }
        }
        self.break_stride(line, unit);
    }
    pub(crate) fn parity_done(&mut self, done: Done, line: LineId, unit: u32, ok: bool) {
        let Done { side, stripe, lock, since } = done;
        let lun = self.lines.lun(unit);
        self.locks.release(self.now, since, lun, lock);
        if !ok {
            self.map.clear_oob(self.lines.ppa(line, unit), self.g.sectors_per_unit);
            self.counters.parity_errors += 1;
            self.break_stride(line, unit);
            self.retire_block(line, lun);
        }
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
