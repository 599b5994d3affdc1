//! From commands to units: the log's append points, what waits for the link, and programs.

use crate::config::{LEAST_UNITS, Side};
use crate::log::{Holds, Meta, Spare};
use crate::space::GroupId;
use crate::space::{SegmentId, Unit};
use crate::tree::{Extent, Full, LOST};
use crate::units::{Open, Slot};
use crate::{Fssd, GC, NOBODY, Op, USER};
use std::collections::BTreeSet;
use wordline_base::{IdVec, Lpn, Stamps};
use wordline_nand::{Class, Ppa};
use wordline_translation::{Action, Command, End};

/// Where users or the collector append: a segment of each group, and the unit being filled.
#[derive(Clone)]
pub(crate) struct Point {
    /// The group whose turn it is.
    pub turn: u32,
    /// The open segment of each group.
    pub segments: IdVec<GroupId, Option<SegmentId>>,
    /// The unit being filled.
    pub unit: Option<Unit>,
    /// Where its data are kept.
    pub slot: Slot,
    /// Sectors of it that are filled.
    pub filled: u32,
}

impl Point {
    pub fn new(groups: u32) -> Point {
        Point { turn: 0, segments: IdVec::filled(None, groups), unit: None, slot: 0, filled: 0 }
    }
}

/// A write that has sectors on their way over the link, or is being taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    tag: u32,
    stages: u32,
    /// All of it was taken, or it failed.
    over: Option<End>,
}

impl Fssd {
    /// Does everything that can be done now.
    pub(crate) fn work(&mut self, stamps: &mut Stamps) {
        loop {
            self.tell_ended();
            let admitted = self.admit(stamps);
            // These have seen what was admitted.
            let others = self.collect() | self.checkpoint() | self.program();
            if !others && self.waiting.is_empty() {
                self.tell_ended();
                break;
            }
            if !admitted && !others && !self.unstick() {
                break;
            }
        }
        self.answer();
    }
    /// Commands that waited for what is durable now.
    pub(crate) fn tell_ended(&mut self) {
        while let Some((tag, ok)) = self.orders[USER].ended() {
            self.actions.push_back(Action::Complete { tag, ok });
        }
    }

    /// Takes what it can of the first command that waits.
    fn admit(&mut self, stamps: &mut Stamps) -> bool {
        match self.waiting.first() {
            None => false,
            Some(Command::Write { tag, lpn, left, fua, cached }) => {
                let id = match self.taking {
                    Some(id) => id,
                    None => self.taken.insert(Taken { tag, stages: 0, over: None }),
                };
                self.taking = Some(id);
                let mut n = 0;
                let mut full = false;
                while n < left {
                    let Some((unit, at, room)) = self.open(USER) else { break };
                    let (first, room) = (lpn + n, room.min(left - n));
                    let place = self.space.first_of(unit).0 + at;
                    let extent = Extent { lpn: first, sectors: room, place };
                    if self.map(extent, self.most_nodes()).is_err() {
                        full = !self.buffer_shrinks();
                        break;
                    }
                    for (ppa, lpn) in (place..place + room).zip(first..) {
                        let stamp = self.waiting.stamp(tag, cached, stamps, lpn);
                        self.note(ppa, lpn, stamp);
                    }
                    self.put(USER, unit, (room, 0), Some(id));
                    n += room;
                }
                self.counters.user_sectors += u64::from(n);
                self.log.since += u64::from(n);
                self.waiting.took(n);
                if full {
                    self.refuse_for_memory();
                } else if n == left {
                    self.taking = None;
                    self.end(id, End::Done, fua);
                }
                n > 0 || full
            }
            Some(Command::Flush { tag }) => {
                self.waiting.pop();
                self.counters.flushes += 1;
                self.wait(tag);
                true
            }
            Some(Command::Trim { tag, lpn, sectors, shown }) => {
                if self.open(USER).or_else(|| self.open_anyway(USER, 1)).is_none() {
                    return false;
                }
                let done = self.unmap_now(lpn, sectors, self.most_nodes());
                if done.is_err() {
                    let waits = self.buffer_shrinks();
                    if !waits {
                        self.refuse_for_memory();
                    }
                    return !waits;
                }
                self.waiting.pop();
                if !shown {
                    (lpn..lpn + sectors).for_each(|lpn| stamps.show_trim(tag, Lpn(lpn)));
                }
                self.counters.trimmed_sectors += u64::from(sectors);
                let id = self.taken.insert(Taken { tag, stages: 0, over: None });
                self.record_trim(USER, lpn, sectors, false, Some(id));
                self.end(id, End::Done, false);
                true
            }
        }
    }
    /// A command waits until all that came before is durable.
    fn wait(&mut self, tag: u32) {
        self.counters.flushes_waited += u64::from(self.orders[USER].wait(tag));
        self.pad_if_waited_for();
    }
    /// Units that take host memory: those of the buffer, and those that reads of the collector will fill.
    fn units_on_host(&self) -> u64 {
        match self.config.collector {
            Side::Host => self.units.len() as u64 + u64::from(self.gc.reads()),
            Side::Drive => self.units.on_host() as u64,
        }
    }
    /// Nodes that users may have the map grow to: what the buffer leaves of the host's memory.
    fn most_nodes(&self) -> u32 {
        let Some(memory) = self.plan.memory else { return u32::MAX };
        let units = self.units_on_host().max(LEAST_UNITS) * self.g.unit_bytes();
        let left = memory.saturating_sub(units + self.log.bytes());
        (left / u64::from(self.config.node_bytes)).min(u32::MAX.into()) as u32
    }
    /// The map finds no room that programs under way will give it.
    fn buffer_shrinks(&self) -> bool {
        !self.ops.is_empty() && self.units_on_host() > LEAST_UNITS
    }
    /// The host has memory for one more unit, which is what the map leaves.
    pub(crate) fn unit_fits(&self) -> bool {
        let Some(memory) = self.plan.memory else { return true };
        let units = self.units_on_host();
        let taken = self.tree.bytes() + self.log.bytes() + units * self.g.unit_bytes();
        units < LEAST_UNITS || taken + self.g.unit_bytes() <= memory
    }
    /// The map would pass the limit of the host's memory.
    fn refuse_for_memory(&mut self) {
        self.counters.writes_refused_memory += 1;
        self.refuse(End::NoMemory);
    }
    /// Fails the first command that waits.
    fn refuse(&mut self, end: End) {
        self.counters.writes_refused += 1;
        let (tag, id) = match (self.waiting.first(), self.taking.take()) {
            (Some(Command::Write { tag, .. } | Command::Trim { tag, .. }), id) => (tag, id),
            _ => return,
        };
        self.counters.lost_sectors += self.waiting.refuse();
        let id = id.unwrap_or_else(|| self.taken.insert(Taken { tag, stages: 0, over: None }));
        self.end(id, end, false);
    }
    /// All of a write or trim was taken, or it failed. It is complete when it has crossed the link.
    fn end(&mut self, id: u32, end: End, fua: bool) {
        let taken = &mut self.taken[id];
        taken.over = Some(end);
        let Taken { tag, stages, .. } = *taken;
        if stages > 0 {
            return;
        }
        self.taken.remove(id);
        match fua && end.is_ok() && self.config.volatile {
            true => self.wait(tag),
            false => self.complete(tag, end),
        }
    }
    fn complete(&mut self, tag: u32, end: End) {
        self.actions.push_back(match end {
            End::NoMemory => Action::Refuse { tag },
            _ => Action::Complete { tag, ok: end.is_ok() },
        });
    }

    /// The extent is where it says from now on.
    #[inline]
    pub(crate) fn map(&mut self, e: Extent, most: u32) -> Result<(), Full> {
        let (space, mut replaced) = (&mut self.space, 0);
        self.tree.insert(e, most, &mut |gone| {
            if gone.place != LOST {
                space.count(gone.place, gone.sectors, false);
                replaced += 1;
            }
        })?;
        self.replaced = replaced;
        if e.place != LOST {
            self.space.count(e.place, e.sectors, true);
        }
        Ok(())
    }
    pub(crate) fn unmap_now(&mut self, lpn: u32, sectors: u32, most: u32) -> Result<(), Full> {
        let (space, mut replaced) = (&mut self.space, 0);
        self.tree.remove(lpn, sectors, most, &mut |gone| {
            if gone.place != LOST {
                space.count(gone.place, gone.sectors, false);
                replaced += 1;
            }
        })?;
        self.replaced = replaced;
        Ok(())
    }
    #[inline]
    pub(crate) fn note(&mut self, ppa: u32, lpn: u32, stamp: u32) {
        self.oob.set(ppa, lpn.wrapping_add(1));
        if let Some(stamps) = &mut self.stamps {
            stamps.set(ppa, stamp);
        }
    }
    #[inline]
    pub(crate) fn lpn_at(&self, ppa: u32) -> u32 {
        self.oob.get(ppa).wrapping_sub(1)
    }
    #[inline]
    pub(crate) fn stamp_at(&self, ppa: u32) -> u32 {
        self.stamps.as_ref().map_or(0, |stamps| stamps.get(ppa))
    }

    /// The unit being filled, how far it is, and its room; a new one if there is none and may be one.
    pub(crate) fn open(&mut self, point: usize) -> Option<(Unit, u32, u32)> {
        let size = self.g.sectors_per_unit;
        if let Point { unit: Some(unit), filled, .. } = self.points[point] {
            return Some((unit, filled, size - filled));
        }
        if point == GC {
            return self.open_anyway(point, 0);
        }
        let held_up = self.units.len() >= self.plan.units
            || self.read_only
            || self.gc_lags()
            || !self.unit_fits();
        if held_up { None } else { self.open_anyway(point, self.plan.reserve) }
    }
    /// A new unit, if so many segments stay free.
    fn open_anyway(&mut self, point: usize, reserve: u32) -> Option<(Unit, u32, u32)> {
        let size = self.g.sectors_per_unit;
        let unit = self.next_unit(point, reserve)?;
        self.oob.clear(unit);
        if let Some(stamps) = &mut self.stamps {
            stamps.clear(unit);
        }
        let slot = self.units.insert(unit, Open { point, ..Open::default() });
        self.space.buffered.set(unit as usize);
        let s = self.space.shape.segment_of(unit);
        self.space.segments[s].buffered += 1;
        self.queues[unit % self.g.luns].push_back(unit);
        let p = &mut self.points[point];
        (p.unit, p.slot, p.filled) = (Some(unit), slot, 0);
        match point {
            USER => self.pace(size),
            _ => self.gc.buffered += 1,
        }
        Some((unit, 0, size))
    }
    /// The next place to write to. Units are dealt to the groups in turn.
    fn next_unit(&mut self, point: usize, reserve: u32) -> Option<Unit> {
        let groups = self.space.groups;
        for i in 0..groups {
            let group = (self.points[point].turn + i) % groups;
            loop {
                let p = &mut self.points[point];
                let open = match p.segments[group] {
                    Some(s) => Some(s),
                    None if self.space.free_segments() <= reserve => None,
                    None => {
                        let opened = self.space.open(group);
                        self.counters.lines_opened += u64::from(opened.is_some());
                        opened
                    }
                };
                p.segments[group] = open;
                let Some(s) = open else { break };
                let unit = self.space.next_unit(s);
                if self.space.segments[s].state == crate::space::State::Closed {
                    p.segments[group] = None;
                }
                if unit.is_some() {
                    p.turn = (group + 1) % groups;
                    return unit;
                }
            }
        }
        None
    }
    /// The next sectors of a unit were filled: they cross the link, for this command, but for those `inside` the drive.
    pub(crate) fn put(
        &mut self,
        point: usize,
        unit: Unit,
        (sectors, inside): (u32, u32),
        id: Option<u32>,
    ) {
        let size = self.g.sectors_per_unit;
        let first = self.space.first_of(unit).0;
        let slot = self.points[point].slot;
        let open = self.units.fill(slot, sectors, inside);
        let at = open.filled - sectors;
        self.points[point].filled = open.filled;
        open.runs.push((at, self.seq));
        self.seq += u64::from(sectors);
        let replaced = std::mem::take(&mut self.replaced);
        if let (false, Some(id)) = (self.config.volatile, id) {
            open.stages += 1;
            let turn = self.orders[USER].enter();
            self.taken[id].stages += 1;
            self.stage(Op::Stage { unit, slot, turn, id, ppa: Ppa(first + at), sectors, replaced });
        } else {
            // The collector knows of what it moves.
            open.replaced += if open.point == USER { replaced } else { 0 };
            if at == 0 {
                open.turns.push((open.point, self.orders[open.point].enter()));
            }
        }
        if at + sectors == size {
            self.close(unit);
        }
    }
    /// Sectors cross the link.
    fn stage(&mut self, stage: Op) {
        let Op::Stage { id, ppa, sectors, .. } = stage else { return };
        let tag = self.taken[id].tag;
        let op = self.ops.insert(stage);
        self.actions.push_back(Action::Stage { op, tag, ppa, sectors });
    }
    /// The collector moves sectors, or what failed is written again; `inside` the drive, or by the host.
    /// False: there is no space.
    pub(crate) fn append(&mut self, e: Extent, inside: bool) -> bool {
        let mut at = 0;
        while at < e.sectors {
            let Some((unit, filled, room)) = self.open(GC) else { return false };
            let n = room.min(e.sectors - at);
            let place = self.space.first_of(unit).0 + filled;
            for i in 0..n {
                let stamp = self.stamp_at(e.place + at + i);
                self.note(place + i, e.lpn + at + i, stamp);
            }
            // The collector is not stopped by the limit of memory.
            let mapped = self.map(Extent { lpn: e.lpn + at, sectors: n, place }, u32::MAX);
            debug_assert!(mapped.is_ok());
            self.units.at(self.points[GC].slot).moved += n;
            self.put(GC, unit, (n, if inside { n } else { 0 }), None);
            at += n;
        }
        true
    }
    /// Appends a sector of metadata. None: there is no space.
    pub(crate) fn put_meta(&mut self, point: usize, meta: Meta, id: Option<u32>) -> Option<u32> {
        let (unit, at, _) = self.open(point)?;
        let ppa = self.space.first_of(unit).0 + at;
        match &meta {
            Meta::Trim { .. } => self.counters.smeta_sectors += 1,
            Meta::Piece { .. } | Meta::Done { .. } => self.counters.emeta_sectors += 1,
        }
        self.space.count_meta(ppa, 1, true);
        self.units.at(self.points[point].slot).metas.push((at, meta));
        self.put(point, unit, (1, 0), id);
        Some(ppa)
    }
    /// Nothing more is appended to a unit: what is left of it is padding.
    fn close(&mut self, unit: Unit) {
        let open = self.units.get_mut(unit).expect("it is being filled");
        open.closed = true;
        self.counters.pad_sectors += u64::from(self.g.sectors_per_unit - open.filled);
        self.points[open.point].unit = None;
        self.ready.push(unit % self.g.luns);
    }
    /// Pads the unit being filled. False: there is none that holds anything.
    pub(crate) fn pad(&mut self, point: usize) -> bool {
        let Point { unit, filled, .. } = self.points[point];
        let unit = unit.filter(|_| filled > 0);
        unit.into_iter().for_each(|unit| self.close(unit));
        unit.is_some()
    }
    /// A flush waits for programs; for the collector's only where it writes again what failed.
    fn pad_if_waited_for(&mut self) {
        if self.config.volatile && self.orders[USER].is_waited_for() {
            self.pad(USER);
            if !self.carried.is_empty() {
                self.pad(GC);
            }
        }
    }

    /// Issues programs to LUNs that have none.
    pub(crate) fn program(&mut self) -> bool {
        let mut issued = false;
        while let Some(lun) = self.ready.pop() {
            if self.busy[lun] {
                continue;
            }
            // The first that is whole and has no earlier one in its block.
            let mut blocks = Vec::new();
            let found = self.queues[lun].iter().position(|unit| {
                let (open, block) = (&self.units[*unit], self.space.block_of(*unit));
                let first = !blocks.contains(&block);
                blocks.push(block);
                first && open.closed && open.stages == 0
            });
            let Some(unit) = found.and_then(|i| self.queues[lun].remove(i)) else { continue };
            let open = &self.units[unit];
            let class = match open.point {
                USER => Class::UserProgram,
                _ if open.moved > 0 => Class::GcProgram,
                _ => Class::MetaProgram,
            };
            let staged = open.point == USER && !self.config.volatile;
            let payload = if staged { 0 } else { open.filled - open.inside };
            self.counters.programmed_sectors += u64::from(self.g.sectors_per_unit);
            self.busy[lun] = true;
            let (op, ppa) = (self.ops.insert(Op::Program { unit }), self.space.first_of(unit));
            self.actions.push_back(Action::Program {
                op,
                ppa,
                class,
                payload,
                summed: 0,
                slc: false,
            });
            issued = true;
        }
        issued
    }

    /// Nothing can go on, though commands wait: padding, a checkpoint in place of records, or refusal.
    fn unstick(&mut self) -> bool {
        if !self.ops.is_empty() || self.reads > 0 || self.waiting.is_empty() {
            return false;
        }
        if self.pad(GC) | (self.config.volatile && self.pad(USER)) {
            return true;
        }
        if !self.log.urgent && !self.log.trims.is_empty() {
            self.log.urgent = true;
            return true;
        }
        self.refuse(End::Failed);
        true
    }

    pub(crate) fn done(&mut self, op: u32, ok: bool) {
        match self.ops.remove(op) {
            // What is not there is sent again.
            stage @ Op::Stage { .. } if !ok => self.stage(stage),
            Op::Stage { unit, slot, turn, id, .. } => self.staged((unit, slot), turn, id),
            Op::Program { unit } => self.programmed(unit, ok),
            Op::Read { unit, valid, asked } => self.collected(unit, valid, asked, ok),
            Op::Erase { segment, block } => self.erased(segment, block, ok),
        }
    }
    /// A unit is not programmed before all that it is filled with is there.
    fn staged(&mut self, (unit, slot): (Unit, Slot), turn: u64, id: u32) {
        let open = self.units.at(slot);
        open.stages -= 1;
        if open.closed && open.stages == 0 {
            self.ready.push(unit % self.g.luns);
        }
        self.orders[USER].leave(turn);
        let taken = &mut self.taken[id];
        taken.stages -= 1;
        if let Taken { tag, stages: 0, over: Some(end) } = *taken {
            self.taken.remove(id);
            self.complete(tag, end);
        }
    }
    fn programmed(&mut self, unit: Unit, ok: bool) {
        let lun = unit % self.g.luns;
        self.busy[lun] = false;
        self.ready.push(lun);
        let block = self.space.block_of(unit);
        self.space.programmed[block] += 1;
        if !ok {
            self.counters.program_errors += 1;
            self.counters.blocks_retired += u64::from(self.space.bad.set(block as usize));
            self.again(unit);
        }
        let open = self.units.remove(unit).expect("it was being programmed");
        self.space.buffered.clear(unit as usize);
        let s = self.space.shape.segment_of(unit);
        self.space.segments[s].buffered -= 1;
        self.gc.buffered -= u32::from(open.point == GC);
        for (point, turn) in open.turns {
            self.leave(point, turn);
        }
        self.pad_if_waited_for();
    }
    /// A program holds what this turn waits for.
    fn leave(&mut self, point: usize, turn: u64) {
        if let Some(more) = self.carried.get_mut(&(point, turn)) {
            *more -= 1;
            if *more > 0 {
                return;
            }
            self.carried.remove(&(point, turn));
        }
        self.orders[point].leave(turn);
    }
    /// What a unit that could not be programmed holds is appended again. Its turns end when all is on
    /// flash that is in the buffer now: newer versions of what it held may be there.
    fn again(&mut self, unit: Unit) {
        let first = self.space.first_of(unit).0;
        let size = self.g.sectors_per_unit;
        let inside = self.config.collector == Side::Drive && self.units[unit].point == GC;
        let mut kept = self.rescue(|ppa| (first..first + size).contains(&ppa));
        for e in self.valid_in(unit) {
            self.counters.resubmitted_sectors += u64::from(e.sectors);
            if !self.append(e, inside) {
                kept = false;
                self.lose(e);
            }
        }
        let turns = std::mem::take(&mut self.units.get_mut(unit).expect("it is there").turns);
        if !kept {
            self.read_only = true;
            turns.iter().for_each(|&(point, turn)| self.orders[point].lose(turn));
        }
        let others: Vec<Unit> = self.units.iter().map(|(u, _)| u).filter(|&u| u != unit).collect();
        for other in others {
            let carried = &mut self.units.get_mut(other).expect("it is there").turns;
            // It may have one from another unit that failed.
            let had: BTreeSet<(usize, u64)> = carried.iter().copied().collect();
            for turn in turns.iter().filter(|turn| !had.contains(turn)) {
                carried.push(*turn);
                *self.carried.entry(*turn).or_insert(1) += 1;
            }
        }
        // This unit holds them no longer.
        for (point, turn) in turns {
            self.leave(point, turn);
        }
    }
    /// What of a unit the map points to.
    pub(crate) fn valid_in(&mut self, unit: Unit) -> Vec<Extent> {
        let first = self.space.first_of(unit).0;
        let end = first + self.g.sectors_per_unit;
        let (mut at, mut valid) = (first, Vec::new());
        let mut found = std::mem::take(&mut self.found);
        while at < end {
            let lpn = self.lpn_at(at);
            if lpn == NOBODY {
                at += 1;
                continue;
            }
            let run = (at..end).zip(lpn..).take_while(|&(ppa, lpn)| self.lpn_at(ppa) == lpn);
            let n = run.count() as u32;
            self.tree.look_up(lpn, n, &mut found);
            valid.extend(found.iter().filter(|e| e.place == at.wrapping_add(e.lpn - lpn)));
            at += n;
        }
        self.found = found;
        valid
    }
    /// The only copy of these sectors is gone.
    pub(crate) fn lose(&mut self, e: Extent) {
        self.counters.lost_sectors += u64::from(e.sectors);
        let mapped = self.map(Extent { place: LOST, ..e }, u32::MAX);
        debug_assert!(mapped.is_ok());
        self.record_trim(GC, e.lpn, e.sectors, true, None);
    }

    /// What is beside a sector of a unit that is not programmed, and what it holds.
    pub fn spare(&self, ppa: Ppa) -> Option<Spare> {
        let unit = self.space.unit_of(ppa.0);
        let open = self.units.get(unit)?;
        let at = ppa.0 - self.space.first_of(unit).0;
        if at >= open.filled {
            return None;
        }
        let run = open.runs.partition_point(|r| r.0 <= at) - 1;
        let (from, seq) = open.runs[run];
        let meta = open.metas.iter().find(|m| m.0 == at);
        let holds = match meta {
            Some((_, meta)) => Holds::Meta(meta.clone()),
            None => Holds::Data { lpn: self.lpn_at(ppa.0), stamp: self.stamp_at(ppa.0) },
        };
        Some(Spare { seq: seq + u64::from(at - from), holds })
    }
}
