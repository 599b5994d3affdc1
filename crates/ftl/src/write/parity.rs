//! Stripes of a line that is written: their parity, and when what they hold can be read.

use crate::line::LineState;
use crate::map::EMPTY;
use crate::ring::{GC, NO_STRIPE, STALE};
use crate::stride::times_power;
use crate::write::{Done, Open, Stripe};
use crate::{Action, Ftl, Op};
use wordline_nand::{Class, LineId, LunId, Ppa};

impl Ftl {
    /// The number of the stripe that a unit is mapped to, one unit more on its way.
    pub(super) fn in_stripe(&mut self, side: usize, line: LineId, page: u32, class: Class) -> u32 {
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
    pub(super) fn begin_blank_stripe(&mut self, side: usize, line: LineId) -> bool {
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

    pub(super) fn begin_stripe(&mut self, side: usize, line: LineId, page: u32, class: Class) {
        let w = &mut self.writers[side];
        let id = w.first_stripe + w.stripes.len() as u32;
        w.p2b.fill(None);
        w.open = Some(Open { id, line, page, parity: None, class });
        w.stripes.push_back(Stripe { line, out: 0, closed: false });
        self.lines[line].stripes += 1;
    }

    /// If the stripe's data are all mapped its parity is next.
    pub(super) fn end_of_data(&mut self, side: usize, line: LineId) {
        let Some(open) = &mut self.writers[side].open else { return };
        let left = self.lines[line].left > 0;
        if !left || self.lines.peek_unit(line) / self.g.luns > open.page {
            open.parity.get_or_insert(0);
        }
    }

    /// The next parity unit, if it is time for parity: true if it went out.
    pub(super) fn write_parity(&mut self, side: usize) -> Option<bool> {
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
    pub(super) fn sum_at(&self, line: LineId, unit: u32, i: u32) -> (u32, u32) {
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
    /// are still in the buffer, and counts whose sectors these are. Returns how many units there are.
    pub(super) fn sum_buffered(&mut self, side: usize, line: LineId, page: u32, lun: LunId) -> u32 {
        let strides = self.lines[line].strides.expect("a line with parity");
        let weighted = self.is_q(line, lun);
        let first = self.lines.ppa(line, page * self.g.luns + lun);
        let (w, ring) = (&self.writers[side], &self.rings[side]);
        let units = |stride| strides.members(stride).filter_map(|m| Some((m, w.p2b[m]?)));
        let (mut sectors, mut moved) = (0, 0);
        for i in 0..self.g.sectors_per_unit {
            let (mut lpn, mut stamp) = (0, 0);
            for (member, (pos, n)) in units(strides.of(lun)) {
                if i >= n {
                    continue;
                }
                let at = pos + u64::from(i);
                let e = ring.at(at);
                sectors += 1;
                moved += u64::from(e.flags & GC != 0);
                if e.flags & STALE != 0 {
                    continue;
                }
                debug_assert!(ring.mem - at <= u64::from(ring.size()), "out of the buffer");
                let power = if weighted { strides.row(member) } else { 0 };
                lpn ^= times_power(e.lpn, power);
                stamp ^= times_power(e.stamp, power);
            }
            self.map.put_oob(first + i, lpn, stamp);
        }
        let members = units(strides.of(lun)).count() as u32;
        self.counters.covered_sectors += u64::from(members * self.g.sectors_per_unit);
        self.counters.covered_user_sectors += sectors - moved;
        self.counters.covered_gc_sectors += moved;
        members
    }

    /// Puts parity into the spare area of a parity unit of a stripe that ageing wrote.
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
    pub(super) fn stripe_step(&mut self, side: usize, id: u32, done: u32) {
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
    pub(super) fn release_stripes(&mut self, side: usize) {
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

    pub(super) fn advance_readable(&mut self, side: usize) {
        let (ring, w) = (&mut self.rings[side], &self.writers[side]);
        while ring.readable < ring.sync && w.is_readable(ring.at(ring.readable).stripe) {
            ring.readable += 1;
        }
    }

    /// A unit of the stride was lost: parity computed with it does not hold.
    pub(super) fn break_stride(&mut self, line: LineId, unit: u32) {
        let Some(strides) = self.lines[line].strides else { return };
        let (page, stride) = (unit / self.g.luns, strides.of(self.lines.lun(unit)));
        self.lines[line].broken.push((page, stride));
    }

    /// A failed unit is left out of its stride's parity, or spoils it if that is computed.
    pub(super) fn forget_member(&mut self, side: usize, line: LineId, unit: u32) {
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
}
