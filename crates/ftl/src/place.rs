//! Media that are written in place (`nand.in_place`): every logical unit has a place of its own and is
//! overwritten there. Nothing is collected or erased, and no order of programs is kept but that of a
//! place.
//!
//! ```text
//! write -> waiting (no room) -> slot of the buffer -> its unit's place, one write at a time a LUN
//! ```
//!
//! Unit `n` is at the `n`-th good unit of the medium; those behind the capacity are spares, which
//! units move to whose program fails. A write of part of a unit first reads the rest, if that holds
//! anything. What is overwritten while it waits is written once. A program waits for reads of what it
//! overwrites, so that they find what was newest when they were looked up.

use crate::age::BATCH;
use crate::line::Lines;
use crate::map::{EMPTY, LOST, Where};
use crate::ring::{Entry, USER};
use crate::{Action, Ftl, Op, Wear};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wordline_base::{Ctx, Lpn, Stamps};
use wordline_nand::{Class, Geometry, Ppa};

/// A slot's data are on their way to their place.
const GOING: u8 = 16;

/// The write under way on a LUN, or elsewhere for want of the unit's place there.
#[derive(Clone, Default, Debug)]
struct Store {
    busy: bool,
    unit: u32,
    place: u32,
    slots: Vec<u32>,
}

/// A flush or FUA write: done when all that came before is.
#[derive(Clone, Copy, Debug)]
struct Wait {
    before: u64,
    tag: u32,
    failed: bool,
}

#[derive(Clone)]
pub(crate) struct InPlace {
    /// By LUN: logical units that wait to be written.
    queues: Vec<VecDeque<u32>>,
    stores: Vec<Store>,
    /// LUNs to look at.
    ready: Vec<u32>,
    /// Slots of the buffer that are empty, and of all when they were filled.
    free: Vec<u32>,
    slots: u32,
    since: Vec<u64>,
    /// Of the slots in use.
    filled: BTreeSet<u64>,
    next: u64,
    waits: VecDeque<Wait>,
    /// Sectors of the medium being read for users.
    pins: BTreeMap<u32, u32>,
    /// Good LUNs of each line, and good units before it; empty where all are good.
    good: Vec<(u32, Vec<u32>)>,
    /// Places that are not the unit's own.
    pub moved: BTreeMap<u32, u32>,
    /// The next spare, and how many good units there are.
    pub spare: u32,
    units: u32,
    /// Programs of each unit of the medium.
    pub writes: Vec<u32>,
}

impl InPlace {
    pub fn new(g: &Geometry, lines: &Lines, sectors: u64, slots: u32) -> InPlace {
        let luns = |line| (0..g.luns).filter(move |&lun| !lines.is_block_bad(line, lun));
        let mut good = Vec::new();
        let mut units = 0;
        for line in 0..g.lines {
            let of_line: Vec<u32> = luns(line).collect();
            let n = of_line.len() as u32 * g.pages;
            good.push((units, of_line));
            units += n;
        }
        if units == g.lines * g.units_per_line() {
            good.clear();
        }
        InPlace {
            queues: vec![VecDeque::new(); g.luns as usize],
            stores: vec![Store::default(); g.luns as usize],
            ready: Vec::new(),
            free: (0..slots).rev().collect(),
            slots,
            since: vec![0; slots as usize],
            filled: BTreeSet::new(),
            next: 0,
            waits: VecDeque::new(),
            pins: BTreeMap::new(),
            good,
            moved: BTreeMap::new(),
            spare: sectors.div_ceil(u64::from(g.sectors_per_unit)) as u32,
            units,
            writes: vec![0; (g.lines * g.units_per_line()) as usize],
        }
    }
    pub fn room(&self) -> u32 {
        self.free.len() as u32
    }
    pub fn is_idle(&self) -> bool {
        self.free.len() == self.slots as usize
    }
    /// The `n`-th good unit of the medium.
    fn nth(&self, g: &Geometry, n: u32) -> u32 {
        if self.good.is_empty() {
            return n;
        }
        let line = self.good.partition_point(|&(before, _)| before <= n) - 1;
        let (before, luns) = &self.good[line];
        let (n, of_page) = (n - before, luns.len() as u32);
        (line as u32 * g.pages + n / of_page) * g.luns + luns[(n % of_page) as usize]
    }
    fn place(&self, g: &Geometry, unit: u32) -> u32 {
        self.moved.get(&unit).copied().unwrap_or_else(|| self.nth(g, unit))
    }
    pub fn pin(&mut self, ppa: u32, sectors: u32) {
        (ppa..ppa + sectors).for_each(|ppa| *self.pins.entry(ppa).or_default() += 1);
    }
    /// True if that may let a write go on.
    pub fn unpin(&mut self, ppa: u32, sectors: u32, lun: u32) -> bool {
        for ppa in ppa..ppa + sectors {
            let pins = self.pins.get_mut(&ppa).expect("a read was looked up before it is done");
            *pins -= 1;
            if *pins == 0 {
                self.pins.remove(&ppa);
            }
        }
        let waits = !self.queues[lun as usize].is_empty();
        if waits {
            self.ready.push(lun);
        }
        waits
    }
    /// The slot's data are durable, or nobody's any more.
    pub fn release(&mut self, slot: u32) {
        self.filled.remove(&self.since[slot as usize]);
        self.free.push(slot);
    }
    /// What is written from now on is written after this.
    pub fn wait(&mut self, tag: u32) -> bool {
        let before = self.next;
        let waits = !self.filled.is_empty();
        self.waits.push_back(Wait { before, tag, failed: false });
        waits
    }
}

impl Ftl {
    fn at(&mut self) -> &mut InPlace {
        self.in_place.as_mut().expect("only for media written in place")
    }
    /// Logical sectors of a unit.
    fn sectors_of(&self, unit: u32) -> std::ops::Range<u32> {
        let first = unit * self.g.sectors_per_unit;
        first..(first + self.g.sectors_per_unit).min(self.sectors as u32)
    }
    fn is_waiting(&self, lpn: u32) -> Option<u32> {
        match self.map.get(lpn) {
            Where::Buffer(slot) if self.buffered(slot).flags & GOING == 0 => Some(slot),
            _ => None,
        }
    }

    /// Does everything that can be done now.
    pub(crate) fn work_in_place(&mut self, ctx: &mut Ctx) {
        loop {
            let admitted = self.admit(ctx);
            let mut begun = false;
            while let Some(lun) = self.at().ready.pop() {
                begun |= self.write_next(lun);
            }
            self.complete_waits();
            if !admitted && !begun {
                break;
            }
        }
    }
    fn complete_waits(&mut self) {
        let Some(p) = &mut self.in_place else { return };
        let oldest = p.filled.first().copied().unwrap_or(u64::MAX);
        while let Some(w) = p.waits.pop_front_if(|w| w.before <= oldest) {
            self.actions.push_back(Action::Complete { tag: w.tag, ok: !w.failed });
        }
    }

    /// A user's sector enters the buffer. There is room.
    pub(crate) fn put_in_place(&mut self, lpn: u32, stamp: u32) {
        if let Some(slot) = self.is_waiting(lpn) {
            self.rings[0].in_slot_mut(slot).stamp = stamp;
            self.counters.absorbed_sectors += 1;
            return;
        }
        let unit = lpn / self.g.sectors_per_unit;
        let queued = self.sectors_of(unit).any(|lpn| self.is_waiting(lpn).is_some());
        let g = self.g;
        let p = self.at();
        let slot = p.free.pop().expect("there is room");
        p.since[slot as usize] = p.next;
        p.filled.insert(p.next);
        p.next += 1;
        if !queued {
            let lun = p.place(&g, unit) % g.luns;
            p.queues[lun as usize].push_back(unit);
            p.ready.push(lun);
        }
        *self.rings[0].in_slot_mut(slot) = Entry { lpn, stamp, flags: USER, ..Entry::default() };
        if let Some(old) = self.map.replace_by_buffer(lpn, slot) {
            self.map.invalidate(old.0);
        }
    }
    /// A sector was unmapped.
    pub(crate) fn trim_in_place(&mut self, was: Where) {
        match was {
            Where::Flash(ppa) => drop(self.map.invalidate(ppa.0)),
            Where::Buffer(slot) if self.buffered(slot).flags & GOING == 0 => {
                self.counters.absorbed_sectors += 1;
                self.at().release(slot);
            }
            Where::Buffer(_) | Where::Unmapped => {}
        }
    }

    /// Writes what waits first at a LUN, if it can be written now.
    fn write_next(&mut self, lun: u32) -> bool {
        let (g, u) = (self.g, self.g.sectors_per_unit);
        loop {
            let p = self.at();
            let Some(&unit) = p.queues[lun as usize].front() else { return false };
            if p.stores[lun as usize].busy {
                return false;
            }
            let place = p.place(&g, unit);
            let mut slots = std::mem::take(&mut p.stores[lun as usize].slots);
            slots.clear();
            let (mut rest, mut pinned) = (false, false);
            for (lpn, ppa) in self.sectors_of(unit).zip(place * u..) {
                if let Some(slot) = self.is_waiting(lpn) {
                    slots.push(slot);
                    pinned |= self.at().pins.contains_key(&ppa);
                } else {
                    rest |= matches!(self.map.get(lpn), Where::Flash(_));
                }
            }
            let (none, elsewhere) = (slots.is_empty(), place % g.luns != lun);
            let p = self.at();
            if none || elsewhere || pinned {
                p.stores[lun as usize].slots = slots;
                if pinned && !elsewhere {
                    return false;
                }
                p.queues[lun as usize].pop_front();
                // With nothing left to write it was trimmed meanwhile.
                if elsewhere && !none {
                    p.queues[(place % g.luns) as usize].push_back(unit);
                    p.ready.push(place % g.luns);
                }
                continue;
            }
            for &slot in &slots {
                self.rings[0].in_slot_mut(slot).flags |= GOING;
            }
            self.counters.pad_sectors += u64::from(u) - slots.len() as u64;
            let p = self.at();
            p.queues[lun as usize].pop_front();
            p.stores[lun as usize] = Store { busy: true, unit, place, slots };
            if rest {
                self.counters.meta_read_sectors += u64::from(u);
                let ppa = Ppa(place * u);
                let class = Class::MetaRead;
                self.issue(Op::Rest { lun }, |op| Action::Read {
                    op,
                    ppa,
                    sectors: u,
                    class,
                    payload: 0,
                });
            } else {
                self.store(lun);
            }
            return true;
        }
    }
    fn store(&mut self, lun: u32) {
        let u = self.g.sectors_per_unit;
        let s = &self.at().stores[lun as usize];
        let (ppa, payload) = (Ppa(s.place * u), s.slots.len() as u32);
        self.counters.programmed_sectors += u64::from(u);
        let class = Class::UserProgram;
        self.issue(Op::Store { lun }, |op| Action::Program { op, ppa, class, payload, summed: 0 });
    }
    /// The rest of a unit has been read.
    pub(crate) fn rest_read(&mut self, lun: u32, ok: bool) {
        if !ok {
            self.counters.meta_read_errors += 1;
            let unit = self.at().stores[lun as usize].unit;
            self.lose(unit);
        }
        self.store(lun);
    }
    /// What of a unit is in its place cannot be read any more.
    fn lose(&mut self, unit: u32) {
        self.lossy = true;
        self.map.keep_stamps();
        for lpn in self.sectors_of(unit) {
            if let Where::Flash(ppa) = self.map.get(lpn)
                && self.map.stamp_at(ppa.0) & LOST == 0
            {
                self.map.put_oob(ppa.0, lpn, self.map.stamp_at(ppa.0) | LOST);
                self.counters.lost_sectors += 1;
            }
        }
    }

    pub(crate) fn stored(&mut self, lun: u32, ok: bool) {
        let (g, u) = (self.g, self.g.sectors_per_unit);
        let p = self.at();
        p.writes[p.stores[lun as usize].place as usize] += 1;
        if !ok {
            let spare = (p.spare < p.units).then(|| p.nth(&g, p.spare));
            p.spare += u32::from(spare.is_some());
            self.counters.program_errors += 1;
            if let Some(place) = spare {
                self.at().stores[lun as usize].place = place;
                self.counters.resubmitted_sectors += u64::from(u);
                return self.store(lun);
            }
        }
        let Store { unit, place, slots, .. } = std::mem::take(&mut self.at().stores[lun as usize]);
        if self.at().place(&g, unit) != place {
            self.at().moved.insert(unit, place);
            for (lpn, to) in self.sectors_of(unit).zip(place * u..) {
                if let Where::Flash(from) = self.map.get(lpn) {
                    self.map.invalidate(from.0);
                    self.keep(lpn, to, self.map.stamp_at(from.0));
                }
            }
        }
        for &slot in &slots {
            let Entry { lpn, stamp, .. } = *self.buffered(slot);
            let ppa = place * u + lpn % u;
            if self.map.get(lpn) == Where::Buffer(slot) {
                self.keep(lpn, ppa, stamp);
            } else {
                // Overwritten or trimmed meanwhile.
                self.note(lpn, ppa, stamp);
            }
            let p = self.at();
            let since = p.since[slot as usize];
            p.release(slot);
            if !ok {
                let waits = p.waits.iter_mut().filter(|w| w.before > since);
                waits.for_each(|w| w.failed = true);
            }
        }
        if !ok {
            // There is no spare left: writes are refused from now on.
            self.read_only = true;
            self.lose(unit);
        }
        let p = self.at();
        p.stores[lun as usize].slots = slots;
        p.ready.push(lun);
    }
    /// The medium holds a sector's newest version.
    fn keep(&mut self, lpn: u32, ppa: u32, stamp: u32) {
        self.note(lpn, ppa, stamp);
        self.map.set_flash(lpn, ppa);
        self.map.set_valid(ppa, 1);
    }
    fn note(&mut self, lpn: u32, ppa: u32, stamp: u32) {
        self.map.touched += u32::from(self.map.lpn_at(ppa) == EMPTY);
        self.map.put_oob(ppa, lpn, stamp);
    }

    /// Writes every sector once, without time.
    pub(crate) fn fill_in_place(&mut self, stamps: &mut Stamps) -> Result<(), String> {
        let blank = self.map.is_blank() && stamps.is_blank() && self.at().good.is_empty();
        let mut lpns = Vec::with_capacity(BATCH);
        let (sectors, line) = (self.sectors as u32, self.g.sectors_per_line);
        let mut at = 0;
        while at < sectors {
            let mut n = (sectors - at).min(line);
            if blank && self.at().moved.is_empty() {
                let stamp = stamps.begin(Lpn(at), n);
                self.map.put_run(at, at, n, stamp);
                self.map.touched += n;
                let units =
                    at / self.g.sectors_per_unit..(at + n).div_ceil(self.g.sectors_per_unit);
                self.counters.user_sectors += u64::from(n);
                let all = units.len() as u64 * u64::from(self.g.sectors_per_unit);
                self.counters.programmed_sectors += all;
                self.counters.pad_sectors += all - u64::from(n);
                self.at().writes[units.start as usize..units.end as usize].fill(1);
            } else {
                n = n.min(BATCH as u32);
                lpns.clear();
                lpns.extend(at..at + n);
                self.overwrite_in_place(stamps, &lpns);
            }
            at += n;
        }
        Ok(())
    }
    /// Writes these sectors, without time: those of a unit that follow each other in one go.
    pub(crate) fn overwrite_in_place(&mut self, stamps: &mut Stamps, lpns: &[u32]) {
        let (g, u) = (self.g, self.g.sectors_per_unit);
        for run in lpns.chunk_by(|&a, &b| b == a + 1 && a / u == b / u) {
            let unit = run[0] / u;
            let p = self.at();
            let place = p.place(&g, unit);
            p.writes[place as usize] += 1;
            for &lpn in run {
                let (ppa, stamp) = (place * u + lpn % u, stamps.bump(Lpn(lpn)));
                match self.map.get(lpn) {
                    Where::Flash(_) => self.note(lpn, ppa, stamp),
                    _ => self.keep(lpn, ppa, stamp),
                }
            }
            self.counters.user_sectors += run.len() as u64;
            self.counters.programmed_sectors += u64::from(u);
            self.counters.pad_sectors += u64::from(u) - run.len() as u64;
        }
    }

    /// Programs of the units that users' sectors are at.
    pub(crate) fn wear_in_place(&self, p: &InPlace) -> Wear {
        let units = self.sectors.div_ceil(u64::from(self.g.sectors_per_unit)) as u32;
        let counts = || (0..units).map(|unit| p.writes[p.place(&self.g, unit) as usize]);
        Wear {
            min: counts().min().unwrap_or(0),
            mean: counts().map(f64::from).sum::<f64>() / f64::from(units.max(1)),
            max: counts().max().unwrap_or(0),
        }
    }

    /// What must hold between two inputs.
    pub(crate) fn check_in_place(&self, p: &InPlace) -> Result<(), String> {
        let u = self.g.sectors_per_unit;
        let mut valid = 0;
        for lpn in 0..self.sectors as u32 {
            match self.map.get(lpn) {
                Where::Unmapped => {}
                Where::Buffer(slot) if self.buffered(slot).lpn == lpn => {
                    let lun = p.place(&self.g, lpn / u) % self.g.luns;
                    let waits = self.is_waiting(lpn).is_some();
                    if waits && !p.queues.iter().any(|q| q.contains(&(lpn / u))) {
                        return Err(format!("sector {lpn} waits, but its unit not at LUN {lun}"));
                    }
                }
                Where::Buffer(slot) => return Err(format!("sector {lpn} is not in slot {slot}")),
                Where::Flash(Ppa(ppa)) => {
                    valid += 1;
                    let place = p.place(&self.g, lpn / u) * u + lpn % u;
                    if ppa != place || self.map.lpn_at(ppa) != lpn || !self.map.is_valid(ppa) {
                        return Err(format!("sector {lpn} is at {ppa}, its place is {place}"));
                    }
                }
            }
        }
        let counted: u32 = (0..self.g.lines).map(|line| self.map.valid_in(line)).sum();
        if valid != counted {
            return Err(format!("{valid} sectors are mapped, {counted} are valid"));
        }
        if p.filled.len() + p.free.len() != p.slots as usize {
            return Err("a slot is neither empty nor filled".into());
        }
        Ok(())
    }
}
