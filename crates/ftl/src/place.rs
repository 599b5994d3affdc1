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

use crate::config::FtlConfig;
use crate::derived;
use crate::line::Lines;
use crate::map::{EMPTY, LOST, Map, Where};
use crate::state::shape;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::ops::Range;
use wordline_base::{BadValue, Ctx, IdVec, Lpn, PageData, Stamps, StateSource};
use wordline_nand::{Class, Geometry, LineId, LunId, Outcome, Ppa};
use wordline_translation::{
    Action, AgeError, BlockState, Breach, Choose, Command, Commands, Counters, Digest, LoadError,
    Memory, Newest, Order, Pace, Piece, SavedIn, SavedOut, Source, Steady, Translation, Wear,
    damaged, overwrite_between, split, trims_beyond,
};

/// What a state of such a medium holds from here on; lines have a seed there.
const MARK: u64 = u64::from_le_bytes(*b"inplace2");
/// Sectors written between two draws.
const BATCH: usize = 256;

/// The places of the logical units.
#[derive(Clone)]
struct Places {
    g: Geometry,
    /// Good LUNs of each line, and good units before it; empty where all are good.
    good: Vec<(u32, IdVec<u32, LunId>)>,
    /// Places that are not the unit's own.
    moved: BTreeMap<u32, u32>,
    /// The next spare.
    spare: u32,
    /// How many good units there are.
    units: u32,
}

impl Places {
    fn new(g: &Geometry, lines: &Lines, sectors: u32) -> Places {
        let mut good = Vec::new();
        let mut units = 0;
        for line in 0..g.lines {
            let luns = (0..g.luns).filter(|&lun| !lines.is_block_bad(line, lun));
            let of_line: IdVec<u32, LunId> = luns.collect();
            let n = of_line.count() * g.pages;
            good.push((units, of_line));
            units += n;
        }
        if units == g.lines * g.units_per_line() {
            good.clear();
        }
        let spare = sectors.div_ceil(g.sectors_per_unit);
        Places { g: *g, good, moved: BTreeMap::new(), spare, units }
    }
    fn is_bad(&self, line: LineId, lun: LunId) -> bool {
        self.good.get(line as usize).is_some_and(|(_, luns)| !luns.contains(&lun))
    }
    /// The `n`-th good unit of the medium.
    fn nth(&self, n: u32) -> u32 {
        if self.good.is_empty() {
            return n;
        }
        let line = self.good.partition_point(|&(before, _)| before <= n) - 1;
        let (before, luns) = &self.good[line];
        let (n, of_page) = (n - before, luns.count());
        (line as u32 * self.g.pages + n / of_page) * self.g.luns + luns[n % of_page]
    }
    fn of(&self, unit: u32) -> u32 {
        self.moved.get(&unit).copied().unwrap_or_else(|| self.nth(unit))
    }
    fn lun_of(&self, unit: u32) -> LunId {
        self.of(unit) % self.g.luns
    }
    /// A spare for a unit whose program failed.
    fn next_spare(&mut self) -> Option<u32> {
        let spare = (self.spare < self.units).then(|| self.nth(self.spare));
        self.spare += u32::from(spare.is_some());
        spare
    }
}

type SlotId = u32;

/// A sector in the buffer.
#[derive(Clone, Copy, Default, Debug)]
struct Slot {
    lpn: u32,
    stamp: u32,
    turn: u64,
    /// On its way to its place.
    going: bool,
}

/// The write under way on a LUN, or elsewhere for want of the unit's place there.
#[derive(Clone, Default, Debug)]
struct Store {
    busy: bool,
    unit: u32,
    place: u32,
    slots: Vec<SlotId>,
}

/// What of a write an operation is; the rest of its number is the LUN.
const STORE: u32 = 1;

/// The FTL of one such medium.
#[derive(Clone)]
pub struct InPlace {
    g: Geometry,
    config: FtlConfig,
    sectors: u32,
    map: Map,
    places: Places,
    slots: IdVec<SlotId, Slot>,
    free: Vec<SlotId>,
    order: Order,
    /// By LUN: logical units that wait to be written.
    queues: IdVec<LunId, VecDeque<u32>>,
    /// By LUN: the write under way.
    stores: IdVec<LunId, Store>,
    /// LUNs to look at.
    ready: Vec<LunId>,
    waiting: Commands,
    /// Sectors of the medium being read for users.
    pins: BTreeMap<u32, u32>,
    /// Programs of each unit of the medium.
    writes: IdVec<u32, u32>,
    actions: VecDeque<Action>,
    counters: Counters,
    /// There is no spare left: writes fail.
    read_only: bool,
    /// Sectors may be marked as lost.
    lossy: bool,
    /// The integrity check does not know the stamps on the medium yet.
    stamps_unknown: bool,
}

impl InPlace {
    /// `bad(lun, line)` tells factory bad blocks. An error names the configuration key.
    pub fn new(
        g: &Geometry,
        config: &FtlConfig,
        bad: &mut dyn FnMut(LunId, LineId) -> bool,
    ) -> Result<InPlace, BadValue> {
        InPlace::build(g, config, bad, None)
    }
    fn build(
        g: &Geometry,
        config: &FtlConfig,
        bad: &mut dyn FnMut(LunId, LineId) -> bool,
        sectors: Option<u64>,
    ) -> Result<InPlace, BadValue> {
        if let Some((key, message)) = config.not_in_place() {
            return Err(BadValue::new(key, message));
        }
        // The capacity is that of the same medium in lines.
        let lines = Lines::new(g, config, bad)?;
        let buffer = derived::Buffer::new(g, config)?;
        let most = derived::data_sectors(&lines);
        let made = (most as f64 * (1.0 - config.over_provisioning / 100.0)) as u64;
        let sectors = sectors.unwrap_or(made);
        if sectors == 0 || sectors > most {
            return Err(BadValue::new("over_provisioning", "leaves no capacity"));
        }
        let slots = buffer.size - buffer.back;
        Ok(InPlace {
            g: *g,
            config: config.clone(),
            sectors: sectors as u32,
            map: Map::new(g, sectors, g.lines),
            places: Places::new(g, &lines, sectors as u32),
            slots: IdVec::filled(Slot::default(), slots),
            free: (0..slots).rev().collect(),
            order: Order::default(),
            queues: IdVec::filled(VecDeque::new(), g.luns),
            stores: IdVec::filled(Store::default(), g.luns),
            ready: Vec::new(),
            waiting: Commands::default(),
            pins: BTreeMap::new(),
            writes: IdVec::filled(0, g.lines * g.units_per_line()),
            actions: VecDeque::new(),
            counters: Counters::default(),
            read_only: false,
            lossy: false,
            stamps_unknown: false,
        })
    }
    /// Nothing is waiting, unwritten or in flight.
    pub fn is_quiet(&self) -> bool {
        self.free.len() == self.slots.len()
            && self.waiting.is_empty()
            && self.actions.is_empty()
            && self.pins.is_empty()
    }
    /// What a sector of the medium holds: the logical one and its stamp.
    pub fn oob(&self, ppa: Ppa) -> Option<(Lpn, u32)> {
        let lpn = self.map.lpn_at(ppa.0);
        (lpn != EMPTY).then(|| (Lpn(lpn), self.map.stamp_at(ppa.0)))
    }

    /// Logical sectors of a unit.
    fn sectors_of(&self, unit: u32) -> Range<u32> {
        let first = unit * self.g.sectors_per_unit;
        first..(first + self.g.sectors_per_unit).min(self.sectors)
    }
    /// The slot of a sector that is not on its way yet.
    fn slot_waiting(&self, lpn: u32) -> Option<u32> {
        match self.map.get(lpn) {
            Where::Buffer(slot) if !self.slots[slot].going => Some(slot),
            _ => None,
        }
    }

    /// Does everything that can be done now.
    fn work(&mut self, stamps: &mut Stamps) {
        loop {
            let admitted = self.admit(stamps);
            let mut begun = false;
            while let Some(lun) = self.ready.pop() {
                begun |= self.write_next(lun);
            }
            while let Some((tag, ok)) = self.order.ended() {
                self.actions.push_back(Action::Complete { tag, ok });
            }
            if !admitted && !begun {
                break;
            }
        }
    }
    /// Serves the waiting commands, in order, as far as there is room.
    fn admit(&mut self, stamps: &mut Stamps) -> bool {
        let mut progress = false;
        while let Some(head) = self.waiting.first() {
            match head {
                Command::Write { tag, lpn, left, fua, cached } => {
                    let n = left.min(self.free.len() as u32);
                    if n < left && self.read_only {
                        self.counters.writes_refused += 1;
                        self.counters.lost_sectors += self.waiting.refuse();
                        self.actions.push_back(Action::Complete { tag, ok: false });
                        progress = true;
                        continue;
                    }
                    for lpn in lpn..lpn + n {
                        let stamp = self.waiting.stamp(tag, cached, stamps, lpn);
                        self.put(lpn, stamp);
                    }
                    self.waiting.took(n);
                    if n < left {
                        return progress || n > 0;
                    }
                    match fua {
                        true => self.wait(tag),
                        false => self.actions.push_back(Action::Complete { tag, ok: true }),
                    }
                }
                Command::Flush { tag } => {
                    self.waiting.pop();
                    self.counters.flushes += 1;
                    self.wait(tag);
                }
                Command::Trim { tag, lpn, sectors, .. } => {
                    self.waiting.pop();
                    self.trim_now(stamps, tag, lpn, sectors);
                }
            }
            progress = true;
        }
        progress
    }
    fn wait(&mut self, tag: u32) {
        self.counters.flushes_waited += u64::from(self.order.wait(tag));
    }
    /// A user's sector enters the buffer. There is room.
    fn put(&mut self, lpn: u32, stamp: u32) {
        if let Some(slot) = self.slot_waiting(lpn) {
            self.slots[slot].stamp = stamp;
            self.counters.absorbed_sectors += 1;
            return;
        }
        let unit = lpn / self.g.sectors_per_unit;
        if !self.sectors_of(unit).any(|lpn| self.slot_waiting(lpn).is_some()) {
            let lun = self.places.lun_of(unit);
            self.queues[lun].push_back(unit);
            self.ready.push(lun);
        }
        let slot = self.free.pop().expect("there is room");
        self.slots[slot] = Slot { lpn, stamp, turn: self.order.enter(), going: false };
        if let Some(old) = self.map.replace_by_buffer(lpn, slot) {
            self.map.invalidate(old.0);
        }
    }
    /// The slot's data are durable, or nobody's any more.
    fn release(&mut self, slot: u32) {
        self.order.leave(self.slots[slot].turn);
        self.free.push(slot);
    }
    fn trim_now(&mut self, stamps: &mut Stamps, tag: u32, lpn: u32, sectors: u32) {
        for lpn in lpn..lpn + sectors {
            stamps.show_trim(tag, Lpn(lpn));
            let waits = self.slot_waiting(lpn);
            let was = self.map.unmap(lpn);
            if let Some(slot) = waits {
                self.counters.absorbed_sectors += 1;
                self.release(slot);
            } else if let Where::Flash(ppa) = was {
                self.map.invalidate(ppa.0);
            }
        }
        self.counters.trimmed_sectors += u64::from(sectors);
        self.actions.push_back(Action::Complete { tag, ok: true });
    }

    /// Writes what waits first at a LUN, if it can be written now.
    fn write_next(&mut self, lun: LunId) -> bool {
        let u = self.g.sectors_per_unit;
        if self.stores[lun].busy {
            return false;
        }
        while let Some(&unit) = self.queues[lun].front() {
            let place = self.places.of(unit);
            let mut slots = std::mem::take(&mut self.stores[lun].slots);
            slots.clear();
            let (mut rest, mut pinned) = (false, false);
            for (lpn, ppa) in self.sectors_of(unit).zip(place * u..) {
                if let Some(slot) = self.slot_waiting(lpn) {
                    slots.push(slot);
                    pinned |= self.pins.contains_key(&ppa);
                } else {
                    rest |= matches!(self.map.get(lpn), Where::Flash(_));
                }
            }
            let (none, at) = (slots.is_empty(), place % self.g.luns);
            if pinned && at == lun {
                self.stores[lun].slots = slots;
                return false;
            }
            self.queues[lun].pop_front();
            if none || at != lun {
                self.stores[lun].slots = slots;
                // With nothing left to write it was trimmed meanwhile.
                if !none {
                    self.queues[at].push_back(unit);
                    self.ready.push(at);
                }
                continue;
            }
            for &slot in &slots {
                self.slots[slot].going = true;
            }
            // Of users are those that are written: others were absorbed.
            self.counters.user_sectors += slots.len() as u64;
            self.counters.pad_sectors += u64::from(u) - slots.len() as u64;
            self.stores[lun] = Store { busy: true, unit, place, slots };
            if rest {
                self.counters.meta_read_sectors += u64::from(u);
                let (op, ppa, class) = (lun << 1, Ppa(place * u), Class::MetaRead);
                self.actions.push_back(Action::Read { op, ppa, sectors: u, class, payload: 0 });
            } else {
                self.store(lun);
            }
            return true;
        }
        false
    }
    fn store(&mut self, lun: LunId) {
        let u = self.g.sectors_per_unit;
        let s = &self.stores[lun];
        let (op, ppa, payload) = (lun << 1 | STORE, Ppa(s.place * u), s.slots.len() as u32);
        self.counters.programmed_sectors += u64::from(u);
        let class = Class::UserProgram;
        self.actions.push_back(Action::Program { op, ppa, class, payload, summed: 0, slc: false });
    }
    /// The rest of a unit has been read.
    fn rest_read(&mut self, lun: LunId, ok: bool) {
        if !ok {
            self.counters.meta_read_errors += 1;
            self.lose(self.stores[lun].unit);
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
    fn stored(&mut self, lun: LunId, ok: bool) {
        let u = self.g.sectors_per_unit;
        self.writes[self.stores[lun].place] += 1;
        if !ok {
            self.counters.program_errors += 1;
            if let Some(place) = self.places.next_spare() {
                self.stores[lun].place = place;
                self.counters.resubmitted_sectors += u64::from(u);
                return self.store(lun);
            }
        }
        let Store { unit, place, slots, .. } = std::mem::take(&mut self.stores[lun]);
        if self.places.of(unit) != place {
            self.places.moved.insert(unit, place);
            for (lpn, to) in self.sectors_of(unit).zip(place * u..) {
                if let Where::Flash(from) = self.map.get(lpn) {
                    self.map.invalidate(from.0);
                    self.keep(lpn, to, self.map.stamp_at(from.0));
                }
            }
        }
        for &slot in &slots {
            let Slot { lpn, stamp, turn, .. } = self.slots[slot];
            let ppa = place * u + lpn % u;
            if self.map.get(lpn) == Where::Buffer(slot) {
                self.keep(lpn, ppa, stamp);
            } else {
                // Overwritten or trimmed meanwhile.
                self.note(lpn, ppa, stamp);
            }
            if !ok {
                self.order.lose(turn);
            }
            self.release(slot);
        }
        if !ok {
            self.read_only = true;
            self.lose(unit);
        }
        self.stores[lun].slots = slots;
        self.ready.push(lun);
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

    fn age_begin(&mut self, stamps: &mut Stamps) -> Result<(), AgeError> {
        if !self.is_quiet() {
            return Err(AgeError::Busy);
        }
        if stamps.is_on() {
            self.adopt_stamps(stamps);
        }
        Ok(())
    }
    /// Writes a run of sectors of one unit, without time.
    fn write_at_once(&mut self, stamps: &mut Stamps, run: &[u32]) {
        let u = self.g.sectors_per_unit;
        let place = self.places.of(run[0] / u);
        self.writes[place] += 1;
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
    /// The same for as many as are on a line, none of which was ever written.
    fn fill_line(&mut self, stamps: &mut Stamps, sectors: Range<u32>) {
        let u = self.g.sectors_per_unit;
        let n = sectors.len() as u32;
        let stamp = stamps.begin(Lpn(sectors.start), n);
        self.map.put_run(sectors.start, sectors.start, n, stamp);
        self.map.touched += n;
        let units = sectors.start / u..sectors.end.div_ceil(u);
        let all = units.len() as u64 * u64::from(u);
        self.counters.user_sectors += u64::from(n);
        self.counters.programmed_sectors += all;
        self.counters.pad_sectors += all - u64::from(n);
        units.for_each(|unit| self.writes[unit] = 1);
    }

    /// Takes up a state that was saved. Geometry and over-provisioning must be those of the saved drive.
    pub fn load(
        g: &Geometry,
        config: &FtlConfig,
        r: &mut dyn StateSource,
    ) -> Result<InPlace, LoadError> {
        let (mut r, sectors) =
            SavedIn::new(r, &shape(g, config), config.over_provisioning, g.sectors())?;
        if r.get64()? != MARK {
            return damaged("it is no state of a medium written in place");
        }
        let stamped = r.up_to(1, "the stamp flag")? == 1;
        let counters = r.counters()?;
        let mut blocks = Vec::new();
        r.words32((g.lines * g.luns).div_ceil(32) as usize, &mut blocks)?;
        let mut bad = |lun: LunId, line: LineId| {
            let block = line * g.luns + lun;
            blocks[block as usize / 32] >> (block % 32) & 1 == 1
        };
        let mut ftl = InPlace::build(g, config, &mut bad, Some(sectors))?;
        let units = ftl.writes.len() as u32;
        ftl.places.spare = r.up_to(units, "the next spare unit")?;
        for _ in 0..r.up_to(units, "the number of units that moved")? {
            let unit = r.up_to(units - 1, "a unit that moved")?;
            ftl.places.moved.insert(unit, r.up_to(units - 1, "its place")?);
        }
        let mut at = 0;
        while at < units {
            let n = r.up_to(units - at, "a run of write counts")?;
            if n == 0 {
                return damaged("a run of write counts is empty");
            }
            let count = r.get32()?;
            (at..at + n).for_each(|unit| ftl.writes[unit] = count);
            at += n;
        }
        if stamped {
            ftl.map.keep_stamps();
        }
        let mut lpn = 0;
        while lpn < ftl.sectors {
            let n = r.up_to(ftl.sectors - lpn, "a run of sectors")?;
            let (mapped, stamp) = (r.up_to(1, "the state of sectors")? == 1, r.get32()?);
            if n == 0 {
                return damaged("a run of sectors is empty");
            }
            ftl.lossy |= stamp & LOST != 0;
            for lpn in (lpn..lpn + n).filter(|_| mapped) {
                let u = g.sectors_per_unit;
                let ppa = ftl.places.of(lpn / u) * u + lpn % u;
                if ftl.map.is_valid(ppa) {
                    return damaged("two units are at one place");
                }
                ftl.keep(lpn, ppa, stamp);
            }
            lpn += n;
        }
        r.end()?;
        ftl.counters = counters;
        ftl.stamps_unknown = stamped;
        Ok(ftl)
    }
}

impl Translation for InPlace {
    fn sectors(&self) -> u64 {
        self.sectors.into()
    }
    fn start(&mut self, ctx: &mut Ctx) {
        if ctx.stamps.is_on() {
            self.adopt_stamps(&mut ctx.stamps);
        }
        self.work(&mut ctx.stamps);
    }
    fn prefetch(&mut self, ctx: &Ctx, lpn: Lpn) {
        self.map.prefetch(lpn.0);
        ctx.stamps.prefetch(lpn);
    }
    fn read(&mut self, ctx: &mut Ctx, lpn: Lpn, sectors: u32, out: &mut Vec<Piece>) {
        let newest = |lpn| match self.map.get(lpn) {
            Where::Unmapped => Newest::Unmapped,
            Where::Buffer(slot) => Newest::Buffer(self.slots[slot].stamp),
            Where::Flash(ppa) => Newest::Flash(ppa),
        };
        let before = out.len();
        split(ctx, &mut self.counters, self.g.sectors_per_unit, lpn, sectors, newest, out);
        for piece in &out[before..] {
            let ppas = piece.place.ppa().map(|ppa| ppa.0..ppa.0 + piece.sectors);
            ppas.into_iter().flatten().for_each(|ppa| *self.pins.entry(ppa).or_default() += 1);
        }
    }
    fn write(
        &mut self,
        ctx: &mut Ctx,
        tag: u32,
        lpn: Lpn,
        sectors: u32,
        fua: bool,
        source: Source,
    ) {
        if ctx.stamps.is_on() {
            self.map.keep_stamps();
        }
        self.waiting.write(tag, lpn, sectors, fua, source);
        self.work(&mut ctx.stamps);
    }
    fn flush(&mut self, ctx: &mut Ctx, tag: u32) {
        self.waiting.flush(tag);
        self.work(&mut ctx.stamps);
    }
    fn trim(&mut self, ctx: &mut Ctx, tag: u32, lpn: Lpn, sectors: u32) {
        if self.waiting.writes(lpn, sectors) {
            self.waiting.trim(tag, lpn, sectors);
        } else {
            self.trim_now(&mut ctx.stamps, tag, lpn.0, sectors);
        }
        self.work(&mut ctx.stamps);
    }
    fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
    fn on_done(&mut self, ctx: &mut Ctx, op: u32, outcome: Outcome) {
        let (lun, ok) = (op >> 1, outcome == Outcome::Ok);
        match op & STORE {
            STORE => self.stored(lun, ok),
            _ => self.rest_read(lun, ok),
        }
        self.work(&mut ctx.stamps);
    }

    fn digest(&self, ppa: Ppa, _: Lpn, sectors: u32) -> u64 {
        let mut digest = Digest::new();
        for ppa in ppa.0..ppa.0 + sectors {
            digest.add(self.map.lpn_at(ppa), self.map.stamp_at(ppa));
        }
        digest.get()
    }
    fn data(&self, op: u32, _: Ppa, to: &mut PageData) {
        let Store { unit, place, slots, .. } = &self.stores[op >> 1];
        let moves = self.places.of(*unit) != *place;
        for (i, lpn) in (0..).zip(self.sectors_of(*unit)) {
            let slot = slots.iter().map(|&s| self.slots[s]).find(|s| s.lpn == lpn);
            if let Some(slot) = slot {
                to.put(i, lpn, slot.stamp);
                continue;
            }
            // The rest is as it is, and moves along with its unit.
            let from = match self.map.get(lpn) {
                Where::Flash(ppa) => ppa.0,
                _ if moves => continue,
                _ => place * self.g.sectors_per_unit + i,
            };
            to.put(i, self.map.lpn_at(from), self.map.stamp_at(from));
        }
    }
    fn has_lost(&self, ppa: Ppa, sectors: u32) -> bool {
        self.lossy && (ppa.0..ppa.0 + sectors).any(|ppa| self.map.stamp_at(ppa) & LOST != 0)
    }
    fn read_failed(&mut self) {
        self.counters.read_errors += 1;
    }
    fn read_done(&mut self, ctx: &mut Ctx, ppa: Ppa, sectors: u32) {
        for ppa in ppa.0..ppa.0 + sectors {
            let pins = self.pins.get_mut(&ppa).expect("a read was looked up before it is done");
            *pins -= 1;
            if *pins == 0 {
                self.pins.remove(&ppa);
            }
        }
        let lun = self.g.lun_of(ppa);
        if !self.queues[lun].is_empty() {
            self.ready.push(lun);
            self.work(&mut ctx.stamps);
        }
    }

    fn fill(&mut self, stamps: &mut Stamps) -> Result<(), AgeError> {
        self.age_begin(stamps)?;
        let own = self.places.good.is_empty() && self.places.moved.is_empty();
        let blank = own && self.map.is_blank() && stamps.is_blank();
        let mut at = 0;
        while at < self.sectors {
            let most = if blank { self.g.sectors_per_line } else { BATCH as u32 };
            let end = self.sectors.min(at + most);
            if blank {
                self.fill_line(stamps, at..end);
            } else {
                self.overwrite(stamps, &(at..end).collect::<Vec<_>>())?;
            }
            at = end;
        }
        Ok(())
    }
    /// Those of a unit that follow each other in one go.
    fn overwrite(&mut self, stamps: &mut Stamps, lpns: &[u32]) -> Result<(), AgeError> {
        self.age_begin(stamps)?;
        let u = self.g.sectors_per_unit;
        for batch in lpns.chunks(BATCH) {
            if let Some(&sector) = batch.iter().find(|&&lpn| lpn >= self.sectors) {
                return Err(AgeError::Beyond { sector, sectors: self.sectors.into() });
            }
            for run in batch.chunk_by(|&a, &b| b == a + 1 && a / u == b / u) {
                self.write_at_once(stamps, run);
            }
        }
        Ok(())
    }
    fn unmap(&mut self, lpn: Lpn, sectors: u32) -> Result<(), AgeError> {
        if !self.is_quiet() {
            return Err(AgeError::Busy);
        }
        for lpn in lpn.0..lpn.0 + sectors {
            if let Where::Flash(ppa) = self.map.unmap(lpn) {
                self.map.invalidate(ppa.0);
            }
        }
        self.counters.trimmed_sectors += u64::from(sectors);
        Ok(())
    }
    fn rest(&mut self, stamps: &mut Stamps) -> Result<(), AgeError> {
        self.age_begin(stamps)
    }
    /// Nothing is collected at any pace: some windows show that.
    fn paced(
        &mut self,
        stamps: &mut Stamps,
        next: &mut Choose<'_>,
        _: Pace,
    ) -> Result<Steady, AgeError> {
        let window = u64::from(self.sectors / 25).max(BATCH as u64).next_multiple_of(BATCH as u64);
        let report =
            Steady { windows: vec![1.0; 4], steady: true, unmet: Vec::new(), sectors: 4 * window };
        let (mut lpns, mut trims) = ([0; BATCH], Vec::new());
        for _ in 0..report.sectors / BATCH as u64 {
            trims.clear();
            next.choose(&mut lpns, &mut trims)?;
            trims_beyond(&trims, self.sectors.into())?;
            overwrite_between(self, stamps, &lpns, &trims)?;
        }
        Ok(report)
    }
    fn media_state(&self) -> Box<dyn Iterator<Item = BlockState> + '_> {
        let luns = self.g.luns;
        Box::new((0..self.g.lines * luns).map(move |block| {
            let (line, lun) = (block / luns, block % luns);
            let bad = self.places.is_bad(line, lun);
            BlockState { line, lun, bad, programmed: 0, erases: 0, slc: false }
        }))
    }
    fn adopt_stamps(&mut self, stamps: &mut Stamps) {
        if self.map.stamps.is_none() || self.stamps_unknown {
            self.stamps_unknown = false;
            self.map.adopt_stamps(stamps);
        }
    }
    fn save(&self, w: &mut dyn Write) -> io::Result<()> {
        if !self.is_quiet() {
            return Err(io::Error::other("commands or flash operations are in flight"));
        }
        let mut out = SavedOut::new(
            w,
            &shape(&self.g, &self.config),
            self.config.over_provisioning,
            self.sectors.into(),
        )?;
        out.put64(MARK)?;
        out.put32(u32::from(self.map.stamps.is_some()))?;
        out.put_counters(&self.counters)?;
        let bad: Vec<bool> = self.media_state().map(|b| b.bad).collect();
        for word in bad.chunks(32) {
            out.put32(word.iter().rev().fold(0, |word, &bad| word << 1 | u32::from(bad)))?;
        }
        out.put32(self.places.spare)?;
        out.put32(self.places.moved.len() as u32)?;
        for (&unit, &place) in &self.places.moved {
            out.put32(unit)?;
            out.put32(place)?;
        }
        for run in self.writes.chunk_by(|a, b| a == b) {
            out.put32(run.len() as u32)?;
            out.put32(run[0])?;
        }
        let of = |lpn| match self.map.get(lpn) {
            Where::Flash(ppa) => (1, self.map.stamp_at(ppa.0)),
            Where::Unmapped | Where::Buffer(_) => (0, 0),
        };
        let mut first = 0;
        while first < self.sectors {
            let (mapped, stamp) = of(first);
            let same = (first..self.sectors).take_while(|&lpn| of(lpn) == (mapped, stamp));
            let n = same.count() as u32;
            out.put32(n)?;
            out.put32(mapped)?;
            out.put32(stamp)?;
            first += n;
        }
        out.end()
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
    /// A bit for each sector that holds something, and the units that moved.
    fn memory(&self) -> Memory {
        let mapping = u64::from(self.sectors.div_ceil(8)) + 8 * self.places.moved.len() as u64;
        Memory { mapping, ..self.map.memory() }
    }
    /// Programs of the units that users' sectors are at.
    fn wear(&self) -> Wear {
        let units = self.sectors.div_ceil(self.g.sectors_per_unit);
        let counts = || (0..units).map(|unit| self.writes[self.places.of(unit)]);
        Wear {
            min: counts().min().unwrap_or(0),
            mean: counts().map(f64::from).sum::<f64>() / f64::from(units.max(1)),
            max: counts().max().unwrap_or(0),
        }
    }
    fn collects(&self) -> bool {
        false
    }
    fn check_invariants(&self) -> Result<(), Breach> {
        let u = self.g.sectors_per_unit;
        let mut valid = 0;
        for lpn in 0..self.sectors {
            let breach = |what: String| Err(Breach::Sector { lpn, what });
            match self.map.get(lpn) {
                Where::Unmapped => {}
                Where::Buffer(slot) if self.slots[slot].lpn == lpn => {
                    let queued = self.queues.iter().any(|q| q.contains(&(lpn / u)));
                    if self.slot_waiting(lpn).is_some() && !queued {
                        return breach("waits, but its unit at no LUN".into());
                    }
                }
                Where::Buffer(slot) => return breach(format!("is not in slot {slot}")),
                Where::Flash(Ppa(ppa)) => {
                    valid += 1;
                    let place = self.places.of(lpn / u) * u + lpn % u;
                    if ppa != place || self.map.lpn_at(ppa) != lpn || !self.map.is_valid(ppa) {
                        return breach(format!("is at {ppa}, its place is {place}"));
                    }
                }
            }
        }
        let counted: u32 = (0..self.g.lines).map(|line| self.map.valid_in(line)).sum();
        if valid != counted {
            return Err(Breach::Count(format!("{valid} sectors are mapped, {counted} are valid")));
        }
        if self.order.open() + self.free.len() != self.slots.len() {
            return Err(Breach::Count("a slot is neither empty nor filled".into()));
        }
        Ok(())
    }
    fn boxed(&self) -> Box<dyn Translation> {
        Box::new(self.clone())
    }
}
