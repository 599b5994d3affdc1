//! The collector: the closed segment with the least in use, unit by unit, at the pace of users.

use crate::config::Side;
use crate::space::{SegmentId, State, Unit};
use crate::write::USER;
use crate::{Fssd, Op};
use wordline_nand::{BlockId, Class, Ppa};
use wordline_translation::Action;

/// Debt is counted in parts of sectors.
const PARTS: u64 = 256;

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
        let slack = u64::from(self.config.gc_units * self.g.sectors_per_unit) * PARTS;
        self.gc.debt > slack && self.coming() < self.plan.start
    }
    fn coming(&self) -> u32 {
        self.space.free_segments() + self.gc.drained.len() as u32
    }
    /// Users have taken the space of so many sectors. The collector owes what it takes to free as much,
    /// at the victim's share of sectors in use: none where it begins, twice that at the reserve.
    pub(crate) fn pace(&mut self, sectors: u32) {
        let free = self.coming();
        if free >= self.plan.start {
            self.gc.debt = 0;
            return;
        }
        // Parts of segments: what is left of the open ones.
        let places = u64::from(self.space.shape.places());
        let open = self.points[USER].segments.iter().flatten();
        let left: u64 = open.map(|&s| places - u64::from(self.space.segments[s].next)).sum();
        let left = left * PARTS / (places * u64::from(self.space.groups));
        let range = u64::from(self.plan.start - self.plan.reserve) * PARTS;
        let below = (u64::from(self.plan.start - free) * PARTS).saturating_sub(left).min(range);
        let (used, all) = self.gc.share;
        let owed = u64::from(sectors) * PARTS * u64::from(used) / u64::from((all - used).max(1));
        self.gc.debt += owed * 2 * below / range;
    }

    pub(crate) fn collect(&mut self) -> bool {
        let mut progress = self.pad_for_space() | self.erase();
        let short = self.space.free_segments() <= self.plan.reserve || self.gc_lags();
        let held = self.gc.held && !short;
        if self.gc.reading.is_none() && self.coming() < self.plan.start && !held {
            progress |= self.choose();
        }
        progress | self.read_units()
    }
    /// The segment with the least in use, the oldest of several, if that gains a unit.
    fn choose(&mut self) -> bool {
        let unit = self.g.sectors_per_unit;
        let mut best: Option<((u32, u64), SegmentId)> = None;
        for (s, segment) in (0..).zip(&self.space.segments) {
            let key = (segment.valid, segment.opened);
            let closed = segment.state == State::Closed && segment.buffered == 0;
            if closed && best.is_none_or(|b| key < b.0) {
                best = Some((key, s));
            }
        }
        let chosen = best.filter(|&((valid, _), s)| valid + unit <= self.space.size(s).max(unit));
        let Some(((valid, _), segment)) = chosen else {
            // There is nothing to wait for: who waited goes on.
            let lagged = self.gc_lags();
            self.gc.debt = 0;
            return lagged;
        };
        self.space.segments[segment].state = State::Victim;
        self.gc.share = (valid, self.space.size(segment));
        self.counters.lines_freed_empty += u64::from(valid == 0);
        self.gc.reading = Some(Reading { segment, next: 0, reads: 0 });
        true
    }
    /// Reads units of the victim as far as the collector owes, or users wait for space.
    fn read_units(&mut self) -> bool {
        let Some(mut r) = self.gc.reading else { return false };
        let (from, places) = (r.next, self.space.shape.places());
        loop {
            let used =
                |&place: &u32| self.space.valid[self.space.shape.unit_at(r.segment, place)] > 0;
            r.next = (r.next..places).find(used).unwrap_or(places);
            let owes = self.gc.debt > 0 || self.space.free_segments() <= self.plan.reserve;
            if r.next == places || !owes || r.reads + self.gc.buffered >= self.config.gc_units {
                break;
            }
            let unit = self.space.shape.unit_at(r.segment, r.next);
            let (ppa, sectors) = (self.space.first_of(unit), self.g.sectors_per_unit);
            let op = self.ops.insert(Op::Read { unit, valid: self.space.valid[unit] });
            let stays = self.config.collector == Side::Drive;
            let (class, payload) = (Class::GcRead, if stays { 0 } else { sectors });
            self.actions.push_back(Action::Read { op, ppa, sectors, class, payload });
            r.next += 1;
            r.reads += 1;
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
    }

    /// What is to be erased may wait for the unit that users fill, and they for space.
    fn pad_for_space(&mut self) -> bool {
        if self.gc.drained.is_empty() || self.space.free_segments() > self.plan.reserve {
            return false;
        }
        let Some(unit) = self.points[USER].unit else { return false };
        let turns = &self.open_units()[&unit].turns;
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
