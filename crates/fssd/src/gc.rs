//! The collector: the closed segment with the least in use, unit by unit, at the pace of users.

use crate::USER;
use crate::config::Side;
use crate::space::{SegmentId, State, Unit};
use crate::{Fssd, Op};
use wordline_base::Ctx;
use wordline_nand::{BlockId, Class, Ppa};
use wordline_translation::{Action, GcFloor, GcOrder, GcReport, GcShape, Ordered, PARTS, owed};

#[derive(Clone, Default)]
pub(crate) struct Gc {
    reading: Option<Reading>,
    /// Segments with nothing in use, until they are erased.
    drained: Vec<Drained>,
    /// Units of the collector that are not programmed.
    pub buffered: u32,
    /// What the collector owes users for the space that they took.
    pub debt: u64,
    /// No victim is begun unless users wait for space.
    pub held: bool,
    /// Sectors in use, and all, of the victim chosen last.
    pub share: (u32, u32),
    /// Orders of a collector on the host: what is owed is what it asked for then.
    orders: Option<Orders>,
}

/// What a collector on the host asked for.
#[derive(Clone, Default)]
struct Orders {
    /// The order that is not answered, and its tag.
    open: Option<(u32, GcOrder)>,
    /// Sectors of space that users took since the last answer.
    taken: u32,
    /// Sectors in use that are being read, in parts.
    under_way: u64,
    /// What the next answer says.
    report: Option<GcReport>,
    /// What the drive collected by itself, out of free segments.
    floor: GcFloor,
}

#[derive(Clone, Copy)]
pub(crate) struct Reading {
    pub segment: SegmentId,
    /// The next place to look at.
    pub next: u32,
    pub reads: u32,
}

#[derive(Clone, Copy)]
pub(crate) struct Drained {
    pub segment: SegmentId,
    /// What replaced its data is durable once these turns are passed.
    pub barrier: [u64; 2],
    /// Erasures under way, once they are.
    pub erasing: Option<u32>,
}

impl Gc {
    pub fn under_way(&self) -> (Option<Reading>, &[Drained]) {
        (self.reading, &self.drained)
    }
    /// Units that are being read.
    pub fn reads(&self) -> u32 {
        self.reading.map_or(0, |reading| reading.reads)
    }
    pub fn take_up(&mut self, reading: Option<Reading>, drained: Vec<Drained>) {
        (self.reading, self.drained) = (reading, drained);
    }
}

impl Fssd {
    pub(crate) fn makes_space(&self) -> bool {
        self.gc.reading.is_some() || !self.gc.drained.is_empty()
    }
    /// Users wait until the collector has caught up.
    pub(crate) fn gc_lags(&self) -> bool {
        if self.gc.orders.is_some() && self.gc.reading.is_none() {
            // The host has to say what is next, and may find nothing.
            return false;
        }
        let slack = u64::from(self.config.gc_units * self.g.sectors_per_unit) * PARTS;
        self.gc.debt > slack && self.coming() < self.plan.start
    }
    fn coming(&self) -> u32 {
        self.space.free_segments() + self.gc.drained.len() as u32
    }
    /// Users have taken the space of so many sectors. The collector owes what it takes to free as much,
    /// at the victim's share of sectors in use: none where it begins, twice that at the reserve.
    pub(crate) fn pace(&mut self, sectors: u32) {
        if let Some(orders) = &mut self.gc.orders {
            orders.taken = orders.taken.saturating_add(sectors);
        }
        let ordered = self.gc.orders.is_some();
        if self.coming() >= self.plan.start {
            self.gc.debt = 0;
            return;
        }
        if ordered {
            return;
        }
        let (start, reserve, free) = (self.plan.start, self.plan.reserve, self.parts_free());
        self.gc.debt += owed(sectors, self.gc.share, free, start, reserve);
    }
    /// Free segments with what is left of the users' open ones, in parts.
    fn parts_free(&self) -> u64 {
        let places = u64::from(self.space.shape.places());
        let open = self.points[USER].segments.iter().flatten();
        let left: u64 = open.map(|&s| places - u64::from(self.space.segments[s].next)).sum();
        let left = left * PARTS / (places * u64::from(self.space.groups));
        u64::from(self.coming()) * PARTS + left
    }

    pub(crate) fn collect(&mut self) -> bool {
        let mut progress = self.pad_for_space() | self.erase();
        let may = match self.gc.orders {
            None => self.coming() < self.plan.start && self.may_begin(),
            // Users could get no space at all.
            Some(_) => self.coming() <= self.plan.reserve,
        };
        if self.gc.reading.is_none() && may {
            progress |= self.choose();
        }
        progress | self.read_units()
    }
    /// Nobody holds it, or users wait for what it frees.
    fn may_begin(&self) -> bool {
        !self.gc.held || self.space.free_segments() <= self.plan.reserve || self.gc_lags()
    }
    /// The segment can be a victim, with so many sectors in use: nothing of it is in the buffer.
    fn in_use(&self, s: SegmentId) -> Option<u32> {
        let segment = &self.space.segments[s];
        let closed = segment.state == State::Closed && segment.buffered == 0;
        closed.then_some(segment.valid)
    }
    /// To empty it gains a unit.
    fn gains(&self, s: SegmentId, valid: u32) -> bool {
        let unit = self.g.sectors_per_unit;
        valid + unit <= self.space.size(s).max(unit)
    }
    /// The segment with the least in use, the oldest of several, if that gains a unit.
    fn choose(&mut self) -> bool {
        let mut best: Option<((u32, u64), SegmentId)> = None;
        for (s, segment) in (0..).zip(&self.space.segments) {
            let key = (segment.valid, segment.opened);
            if self.in_use(s).is_some() && best.is_none_or(|b| key < b.0) {
                best = Some((key, s));
            }
        }
        let chosen = best.filter(|&((valid, _), s)| self.gains(s, valid));
        let Some(((_, _), segment)) = chosen else {
            // There is nothing to wait for: who waited goes on.
            let lagged = self.gc_lags();
            self.gc.debt = 0;
            return lagged;
        };
        if let Some(orders) = &mut self.gc.orders {
            orders.floor.victims += 1;
        }
        self.begin(segment);
        true
    }
    fn begin(&mut self, segment: SegmentId) {
        let valid = self.space.segments[segment].valid;
        self.space.segments[segment].state = State::Victim;
        self.gc.share = (valid, self.space.size(segment));
        self.counters.lines_freed_empty += u64::from(valid == 0);
        self.gc.reading = Some(Reading { segment, next: 0, reads: 0 });
    }
    /// Reads units of the victim as far as the collector owes, or users wait for space.
    fn read_units(&mut self) -> bool {
        let Some(mut r) = self.gc.reading else { return false };
        let (from, places) = (r.next, self.space.shape.places());
        loop {
            let used =
                |&place: &u32| self.space.valid[self.space.shape.unit_at(r.segment, place)] > 0;
            r.next = (r.next..places).find(used).unwrap_or(places);
            let under_way = self.gc.orders.as_ref().map_or(0, |orders| orders.under_way);
            let owes = self.gc.debt > under_way || self.space.free_segments() <= self.plan.reserve;
            let room = r.reads + self.gc.buffered < self.config.gc_units
                && (self.config.collector == Side::Drive || self.unit_fits());
            if r.next == places || !owes || !room {
                break;
            }
            let unit = self.space.shape.unit_at(r.segment, r.next);
            if let Some(orders) = &mut self.gc.orders {
                let valid = u64::from(self.space.valid[unit]);
                orders.floor.sectors += if self.gc.debt > under_way { 0 } else { valid };
                orders.under_way += valid * PARTS;
            }
            let (ppa, sectors) = (self.space.first_of(unit), self.g.sectors_per_unit);
            let op = self.ops.insert(Op::Read { unit, valid: self.space.valid[unit] });
            let stays = self.config.collector == Side::Drive;
            let (class, payload) = (Class::GcRead, if stays { 0 } else { sectors });
            self.actions.push_back(Action::Read { op, ppa, sectors, class, payload });
            r.next += 1;
            r.reads += 1;
            self.gc.reading = Some(r);
        }
        self.gc.reading = Some(r);
        if r.next < places || r.reads > 0 {
            return r.next > from;
        }
        let segment = r.segment;
        let (shape, size) = (self.space.shape, self.g.sectors_per_unit);
        let is_there = |ppa: u32| shape.segment_of(ppa / size) == segment;
        if self.space.segments[segment].meta > 0 && !self.rescue(is_there) {
            return false;
        }
        self.gc.reading = None;
        if self.space.segments[segment].valid > 0 {
            // There was no space to move all of it: it stays as it is.
            self.space.segments[segment].state = State::Closed;
            return false;
        }
        let barrier = self.barrier();
        self.gc.drained.push(Drained { segment, barrier, erasing: None });
        true
    }
    /// A unit of the victim was read, in which so many sectors were in use.
    pub(crate) fn collected(&mut self, unit: Unit, valid: u32, ok: bool) {
        if let Some(r) = &mut self.gc.reading {
            r.reads -= 1;
        }
        self.counters.gc_read_sectors += u64::from(self.g.sectors_per_unit);
        self.counters.gc_read_errors += u64::from(!ok);
        let stays = self.config.collector == Side::Drive;
        let mut moved = 0;
        for e in self.valid_in(unit) {
            moved += e.sectors;
            if !ok {
                self.lose(e);
            } else if self.append(e, stays) {
                self.counters.gc_sectors += u64::from(e.sectors);
            } else {
                self.read_only = true;
            }
        }
        self.counters.gc_stale_sectors += u64::from(valid - moved);
        self.gc.debt = self.gc.debt.saturating_sub(u64::from(valid) * PARTS);
        if let Some(orders) = &mut self.gc.orders {
            // What was read before the first order is not of it.
            orders.under_way = orders.under_way.saturating_sub(u64::from(valid) * PARTS);
        }
    }

    /// What is to be erased may wait for the unit that users fill, and they for space.
    fn pad_for_space(&mut self) -> bool {
        if self.gc.drained.is_empty() || self.space.free_segments() > self.plan.reserve {
            return false;
        }
        let Some(unit) = self.points[USER].unit else { return false };
        let turns = &self.units[unit].turns;
        let holds = |d: &Drained| turns.iter().any(|&(point, turn)| turn < d.barrier[point]);
        self.gc.drained.iter().any(holds) && self.pad(USER)
    }
    /// Erases what is no more in use, once what replaced it is durable and nobody reads it.
    fn erase(&mut self) -> bool {
        let mut begun = false;
        for i in (0..self.gc.drained.len()).rev() {
            let d = self.gc.drained[i];
            let segment = &self.space.segments[d.segment];
            debug_assert_eq!(segment.valid, 0);
            if d.erasing.is_some() || segment.reads > 0 || !self.is_passed(d.barrier) {
                continue;
            }
            begun = true;
            let mut erasing = 0;
            for block in self.space.shape.blocks(d.segment) {
                if self.space.is_bad(block) || self.space.programmed[block] == 0 {
                    continue;
                }
                erasing += 1;
                let op = self.ops.insert(Op::Erase { segment: d.segment, block });
                let ppa = self.first_of_block(block);
                self.actions.push_back(Action::Erase { op, ppa });
            }
            self.gc.drained[i].erasing = Some(erasing);
            if erasing == 0 {
                self.freed(d.segment);
            }
        }
        begun
    }
    fn first_of_block(&self, block: BlockId) -> Ppa {
        let (line, lun) = (block / self.g.luns, block % self.g.luns);
        self.space.first_of(self.g.unit_at(line, 0, lun).0)
    }
    pub(crate) fn erased(&mut self, segment: SegmentId, block: BlockId, ok: bool) {
        self.space.erases[block] += 1;
        self.space.programmed[block] = 0;
        self.counters.erases += 1;
        if !ok {
            self.counters.erase_errors += 1;
            self.counters.blocks_retired += u64::from(self.space.bad.set(block as usize));
        }
        let mut of = self.gc.drained.iter_mut().filter(|d| d.segment == segment);
        let left = of.next().and_then(|d| d.erasing.as_mut()).expect("it is being erased");
        *left -= 1;
        if *left == 0 {
            self.freed(segment);
        }
    }
    fn freed(&mut self, segment: SegmentId) {
        self.gc.drained.retain(|d| d.segment != segment);
        self.space.release(segment);
        match self.space.segments[segment].state {
            State::Retired => self.counters.lines_retired += 1,
            _ => self.counters.lines_freed += 1,
        }
    }
}

impl Fssd {
    pub(crate) fn shape_for_host(&self) -> GcShape {
        GcShape {
            segments: self.space.segments.count(),
            segment_sectors: self.space.shape.places() * self.g.sectors_per_unit,
            start: self.plan.start,
            reserve: self.plan.reserve,
        }
    }
    pub(crate) fn floor(&self) -> GcFloor {
        self.gc.orders.as_ref().map_or_else(GcFloor::default, |orders| orders.floor)
    }
    /// Ends the order that is open, if it is time.
    pub(crate) fn answer(&mut self) {
        let Some(Orders { open: Some((tag, order)), taken, .. }) = self.gc.orders else { return };
        let step = self.config.report_units * self.g.sectors_per_unit;
        let due = match order {
            GcOrder::Counts { waits } => {
                let few = self.coming() < self.plan.start;
                few && (!waits || taken >= step) && self.may_begin()
            }
            GcOrder::Collect { segment, .. } => match self.gc.reading {
                Some(r) if r.segment == segment => taken >= step,
                // Nothing is left in it, or it could not be a victim any more.
                _ => true,
            },
        };
        if !due {
            return;
        }
        let victim = self.gc.reading.map(|r| (r.segment, self.gc.share.0));
        let counts = match order {
            GcOrder::Collect { .. } => Vec::new(),
            GcOrder::Counts { .. } => {
                let of = |s| self.in_use(s).filter(|&valid| self.gains(s, valid));
                (0..self.space.segments.count()).map(of).collect()
            }
        };
        let free = self.parts_free() as u32;
        if let Some(orders) = &mut self.gc.orders {
            orders.report = Some(GcReport { free, taken, victim, counts });
            (orders.open, orders.taken) = (None, 0);
        }
        self.actions.push_back(Action::Complete { tag, ok: true });
    }
}

impl Ordered for Fssd {
    fn obey(&mut self) {
        self.gc.orders.get_or_insert_default();
    }
    fn order(&mut self, ctx: &mut Ctx, tag: u32, order: GcOrder) -> bool {
        let Some(orders) = &mut self.gc.orders else { return false };
        let there = |segment| segment < self.space.segments.count();
        let bad = matches!(order, GcOrder::Collect { segment, .. } if !there(segment));
        if bad || orders.open.is_some() {
            return false;
        }
        orders.open = Some((tag, order));
        if let GcOrder::Collect { segment, sectors } = order {
            let can = self.in_use(segment).is_some_and(|valid| self.gains(segment, valid));
            match self.gc.reading {
                None if can => self.begin(segment),
                _ => {}
            }
            if self.gc.reading.is_some_and(|r| r.segment == segment) {
                self.gc.debt += u64::from(sectors) * PARTS;
            }
        }
        self.work(&mut ctx.stamps);
        true
    }
    fn take_report(&mut self) -> Option<GcReport> {
        self.gc.orders.as_mut()?.report.take()
    }
}
