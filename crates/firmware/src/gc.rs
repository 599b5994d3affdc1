//! The collector: a superblock at a time, in steps that follow what users write.

use crate::config::Victim;
use crate::map::{NOBODY, Where};
use crate::space::{State, Superblock, SuperblockId};
use crate::write::{GC, HOST, MAPS, STREAMS, Stream, WARM};
use crate::{Firmware, Op};
use std::collections::VecDeque;
use wordline_nand::{BlockId, Class, LunId, Ppa};
use wordline_translation::Action;

/// Debt is counted in parts of sectors.
pub(crate) const PARTS: i64 = 1024;

#[derive(Clone, Default)]
pub(crate) struct Gc {
    pub victim: Option<Collecting>,
    /// Superblocks with nothing in use, until they are erased.
    drained: Vec<Drained>,
    /// Units of them.
    drained_units: u64,
    erasing: u32,
    /// What the collector owes users for the space that they took. Below 0: it moved more than it owed.
    debt: i64,
    /// What the collector owes for each sector now.
    owed: i64,
    /// The most that the collector owed for one sector since the start.
    pub most: i64,
    /// Sectors in use, and all, of the victim chosen last.
    share: (u64, u64),
    /// Slots kept for reads under way.
    reserved: u32,
    /// Users have been away for long enough.
    pub idle: bool,
    /// No victim is to be begun, unless users wait.
    pub held: bool,
    /// No superblock gains a unit.
    pub barren: bool,
    /// There may be closed superblocks with a bit a cell.
    pub fold: bool,
    /// There may be closed superblocks with a bit a cell and nothing in use.
    pub empty: bool,
}

#[derive(Clone, Copy)]
pub(crate) struct Collecting {
    pub superblock: SuperblockId,
    /// The next place to look at.
    pub next: u32,
    pub reads: u32,
}

#[derive(Clone)]
struct Drained {
    superblock: SuperblockId,
    /// Users' sectors before this turn are to be on flash first, where a power cut empties the buffer.
    turn: u64,
    /// And these pages of the map, which tell that what was trimmed here has no older copy either.
    pages: Vec<u32>,
    /// Whether its erasure began; its LUNs that are still to be erased, in turn; erasures under way.
    begun: bool,
    luns: VecDeque<LunId>,
    erasing: u32,
}

impl Gc {
    /// What a state keeps of it.
    pub fn numbers(&self) -> [u64; 5] {
        let [debt, owed, most] = [self.debt, self.owed, self.most].map(i64::cast_unsigned);
        [debt, owed, most, self.share.0, self.share.1]
    }
    pub fn set_numbers(&mut self, [debt, owed, most, used, all]: [u64; 5]) {
        [self.debt, self.owed, self.most] = [debt, owed, most].map(u64::cast_signed);
        self.share = (used, all);
    }
    pub fn is_at_work(&self) -> bool {
        self.victim.is_some() || !self.drained.is_empty()
    }
}

impl Firmware {
    /// Units that are free, and those that the collector has gone through already.
    #[inline]
    pub(crate) fn coming(&self) -> u64 {
        let through = self.gc.victim.map_or(0, |v| self.space.worth_until(v.superblock, v.next));
        self.space.room + self.gc.drained_units + through
    }
    /// Users have no superblock, and get none before one is freed.
    pub(crate) fn is_scarce(&self) -> bool {
        let none = self.space.free_count <= self.plan.reserve
            && self.streams[HOST].superblocks.iter().all(Option::is_none)
            && self.space.slc_room == 0;
        none || self.lacks_superblocks() || !self.config.protected && !self.has_place()
    }
    /// Pages of the map need a superblock, too, when users have theirs.
    pub(crate) fn lacks_superblocks(&self) -> bool {
        self.plan.room > 0 && self.space.free_count < 3
    }
    /// Users wait for the collector.
    #[inline]
    pub(crate) fn gc_lags(&self) -> bool {
        self.gc.debt > i64::from(self.plan.lag) * PARTS && !self.gc.barren
    }
    /// A user took the space of a sector, unless it goes to where the collector need not make any.
    #[inline]
    pub(crate) fn owe(&mut self) {
        let room = self.space.slc_room * u64::from(self.g.sectors_per_unit);
        if room <= self.queued() as u64 {
            self.gc.debt += self.gc.owed;
        }
    }
    /// So many sectors were taken that no user's sector pays for: padding, and pages of a map that is in memory. Superblocks
    /// of pages of another map are freed at next to no cost.
    #[inline]
    pub(crate) fn owe_beside(&mut self, sectors: u32) {
        self.gc.debt += self.gc.owed * i64::from(sectors);
    }
    /// For each sector of a user the collector moves what it takes to free as much, at the victim's share
    /// in use, times a factor: 0 at the mark where it begins, 1 halfway, 2 at the lower mark.
    pub(crate) fn set_pace(&mut self) {
        let coming = self.coming();
        if !self.config.paced || coming >= self.plan.start {
            (self.gc.owed, self.gc.debt) = (0, self.gc.debt.min(0));
            return;
        }
        let range = self.plan.start - self.plan.low;
        let below = (self.plan.start - coming).min(range);
        let (used, all) = self.gc.share;
        let parts = 2 * PARTS.cast_unsigned() * below / range * used / (all - used).max(1);
        self.gc.owed = parts.cast_signed();
        self.gc.most = self.gc.most.max(self.gc.owed);
    }
    /// It owes so many parts of sectors, or more.
    pub(crate) fn owes(&self, parts: i64) -> bool {
        self.gc.debt >= parts
    }
    /// The collector has something to do now.
    fn is_owing(&self) -> bool {
        let owes = self.gc.debt > i64::from(self.gc.reserved) * PARTS;
        let of_buffer = |v: Collecting| self.space.superblocks[v.superblock].slc;
        let folds = self.gc.victim.is_some_and(of_buffer) || self.refresh.has_victim();
        let idle = self.gc.idle && (self.coming() < self.plan.idle || folds || self.lacks_room());
        owes || idle || self.is_scarce()
    }
    /// There is something to fold, and no room for it.
    fn lacks_room(&self) -> bool {
        self.gc.fold && !self.has_room()
    }
    /// A superblock may be moved that frees nothing.
    pub(crate) fn has_room(&self) -> bool {
        self.coming() >= self.plan.low + u64::from(self.space.places())
    }
    /// A victim is to be begun.
    pub(crate) fn is_wanted(&self) -> bool {
        // Held, it begins all the same where users would have to wait for it.
        let may = !self.gc.held || self.is_scarce() || self.gc_lags();
        let wanted = self.is_short() || self.gc.idle && self.gc.fold || self.gc.empty;
        (wanted || self.refreshes()) && may
    }
    /// Space is to be made, and can be.
    pub(crate) fn is_short(&self) -> bool {
        let coming = self.coming();
        let below = match self.config.paced {
            true => coming < self.plan.start,
            false => self.is_scarce() && self.gc.drained.is_empty(),
        };
        let idle = self.gc.idle && (coming < self.plan.idle || self.lacks_room());
        (below || idle) && !self.gc.barren
    }

    pub(crate) fn collect(&mut self) -> bool {
        let mut progress = false;
        if self.gc.victim.is_none() && self.is_wanted() && self.may_move() {
            progress |= self.begin(self.is_short());
        }
        if let Some(v) = &self.gc.victim {
            self.refresh.waits_for(v.next);
        }
        progress | self.read_victim()
    }
    /// Where superblocks that are drained wait for what users have in the buffer, the next victim is begun only if all that
    /// may be in it has a place beside that. Or the collector takes the places that it waits for to be written.
    fn may_move(&self) -> bool {
        if self.config.protected || !self.erasures_wait() {
            return true;
        }
        let unit = self.g.sectors_per_unit as usize;
        let own = [GC, MAPS, WARM].map(|stream| self.streams[stream].queue.len().div_ceil(unit));
        // Users' may be padded to a unit each.
        let waiting = own.iter().sum::<usize>() + self.queued();
        self.space.room >= u64::from(self.space.places()) + waiting as u64
    }
    /// Nothing is under way that ageing could not take over.
    pub(crate) fn gc_rests(&self) -> bool {
        self.gc.drained.is_empty() && self.gc.victim.is_none_or(|v| v.reads == 0)
    }
    /// Users wait, and what the collector moved waits in units that nothing fills any more: the victim is over and no other
    /// is begun before it is erased, or its next unit has no room beside them. The longest queue is padded.
    pub(crate) fn pad_moved(&mut self) -> bool {
        let unit = self.g.sectors_per_unit as usize;
        let waits = |&own: &Stream| {
            let stream = &self.streams[own];
            (1..unit).contains(&stream.queue.len()) && !stream.pad
        };
        let partly = [GC, WARM, MAPS].into_iter().filter(waits);
        let Some(own) = partly.max_by_key(|&own| self.streams[own].queue.len()) else {
            return false;
        };
        let rests = match &self.gc.victim {
            None => !self.gc.drained.is_empty() && self.is_scarce() && !self.is_wanted(),
            Some(v) => v.reads == 0 && self.is_owing() && self.lacks_slots(v),
        };
        if rests {
            self.streams[own].pad = true;
            self.counters.drains += 1;
        }
        rests
    }
    /// All slots of the collector wait in queues, and too few are left for the victim's next unit.
    fn lacks_slots(&self, v: &Collecting) -> bool {
        let free = self.free[1].len();
        let queued = |own: Stream| {
            let own_slot = |slot: &&u32| **slot >= self.plan.slots && !self.is_map_slot(**slot);
            self.streams[own].queue.iter().filter(own_slot).count()
        };
        let waiting: usize = [GC, WARM, MAPS].into_iter().map(queued).sum();
        if free + waiting < self.plan.gc_slots as usize
            || v.next == self.space.places_of(v.superblock)
        {
            return false;
        }
        let (.., valid) =
            self.used_run(self.space.first_of(self.space.unit_at(v.superblock, v.next)));
        valid as usize > free
    }
    /// The victim's next unit has nothing in use.
    pub(crate) fn gc_pass(&mut self) {
        if let Some(v) = &mut self.gc.victim {
            v.next += 1;
        }
    }
    /// Chooses a victim: one that makes space only if that is short.
    pub(crate) fn begin(&mut self, short: bool) -> bool {
        let fold = self.next_to_fold();
        let refreshed = if fold.is_none() { self.next_to_refresh() } else { None };
        let first = fold.or(refreshed);
        let failed = if short && first.is_none() { self.failed() } else { None };
        let first = first.or(failed);
        let cold = if short && first.is_none() { self.cold() } else { None };
        if first.is_none() && !short {
            return false;
        }
        let Some(s) = first.or(cold).or_else(|| self.choose()) else {
            self.gc.barren = true;
            // There is nothing to wait for.
            return std::mem::take(&mut self.gc.debt) > 0;
        };
        let apart = [cold, refreshed, failed].iter().any(Option::is_some);
        let frees = !apart && !self.space.is_static(s);
        let superblock = &mut self.space.superblocks[s];
        superblock.state = State::Victim;
        let used = superblock.valid;
        let all = u64::from(superblock.size * self.g.sectors_per_unit);
        let (moved, of) = self.gc.share;
        self.counters.lines_levelled += u64::from(cold.is_some());
        self.counters.lines_refreshed += u64::from(refreshed.is_some());
        self.counters.lines_folded += u64::from(superblock.slc);
        if frees {
            self.gc.share = (used.into(), all);
        } else if used > 0 && (2 * moved < of || of == 0) {
            // It frees nothing: at least as many of its sectors are moved as users write, so that it ends in
            // the room that there was.
            self.gc.share = (all, 2 * all);
        }
        self.counters.lines_freed_empty += u64::from(used == 0);
        self.gc.victim = Some(Collecting { superblock: s, next: 0, reads: 0 });
        self.set_pace();
        true
    }
    /// The closed superblock with a bit a cell that is moved now: one with nothing in use at once, and while
    /// users are away the one that was opened first. One that frees nothing needs room.
    fn next_to_fold(&mut self) -> Option<SuperblockId> {
        let folds = self.gc.idle && self.gc.fold;
        if !folds && !self.gc.empty {
            return None;
        }
        let filling = self.filling();
        let (mut first, mut waits) = (None, false);
        for (s, b) in (0..).zip(&self.space.superblocks) {
            if !b.slc || b.state != State::Closed {
                continue;
            }
            waits |= b.programs > 0 || filling.contains(&Some(s));
            let may = b.programs == 0 && !filling.contains(&Some(s)) && (folds || b.valid == 0);
            let key = (b.valid > 0, b.opened);
            if may && first.is_none_or(|(least, _)| key < least) {
                first = Some((key, s));
            }
        }
        let found = first.map(|(_, s)| s);
        let is_empty = first.is_some_and(|((used, _), _)| !used);
        self.gc.empty &= is_empty || waits && found.is_none();
        self.gc.fold &= !folds || found.is_some() || waits;
        found.filter(|&s| is_empty || !self.space.is_static(s) || self.has_room())
    }
    /// The closed superblock opened first in which a program failed, if there is room: what it holds can be read, so that
    /// nothing hurries, and to move it may take as much space as it frees. Without room it is one of all.
    fn failed(&self) -> Option<SuperblockId> {
        if !self.has_room() || self.is_scarce() {
            return None;
        }
        let filling = self.filling();
        let may = |&(s, b): &(SuperblockId, &Superblock)| {
            b.failed
                && b.state == State::Closed
                && b.programs == 0
                && !filling.contains(&Some(s))
                && !self.space.is_static(s)
        };
        let all = (0..).zip(&self.space.superblocks).filter(may);
        all.min_by_key(|(_, b)| b.opened).map(|(s, _)| s)
    }
    /// The closed superblock erased least often, if it lags too far behind and there is room: to move what is in
    /// it takes as much space as it frees.
    fn cold(&self) -> Option<SuperblockId> {
        let spread = self.config.wear_spread;
        if spread == 0 || !self.has_room() || self.is_scarce() {
            return None;
        }
        let filling = self.filling();
        let (mut most, mut coldest) = (0, None);
        for (s, b) in (0..).zip(&self.space.superblocks) {
            if b.state == State::Retired || self.space.is_static(s) {
                continue;
            }
            let wear = self.space.wear(s);
            most = most.max(wear);
            if b.state != State::Closed || filling.contains(&Some(s)) || b.programs > 0 {
                continue;
            }
            // It is to be collected before others.
            if b.failed {
                return None;
            }
            let key = (wear, b.opened);
            if coldest.is_none_or(|(least, _)| key < least) {
                coldest = Some((key, s));
            }
        }
        coldest.filter(|((wear, _), _)| most - wear > spread).map(|(_, s)| s)
    }
    /// Ageing may be about to fill the last unit of one.
    pub(crate) fn filling(&self) -> [Option<SuperblockId>; STREAMS] {
        self.streams.each_ref().map(|stream| {
            let (at, end) = stream.place;
            (at < end).then(|| self.space.superblock_of(at))
        })
    }
    /// Pages of the map are written again soon: as many of their superblocks are let alone as hold the map three
    /// times, so that little of the one that is collected is in use.
    fn keeps_maps(&self) -> bool {
        if self.plan.room == 0 {
            return false;
        }
        let closed = |b: &&Superblock| b.maps && b.state == State::Closed;
        let closed = self.space.superblocks.iter().filter(closed).count();
        closed as u64 <= self.plan.map_blocks
    }
    /// The closed superblock to collect, if that gains a unit: the policy's, the one with the least share in use when users
    /// wait. Of equal ones it is that of the group with the fewest free ones.
    pub(crate) fn choose(&self) -> Option<SuperblockId> {
        let keeps_maps = self.keeps_maps();
        let first = self.choose_among(keeps_maps);
        first.or_else(|| if keeps_maps { self.choose_among(false) } else { None })
    }
    fn choose_among(&self, keeps_maps: bool) -> Option<SuperblockId> {
        let (groups, unit) = (self.space.groups, self.g.sectors_per_unit);
        let scarce = self.is_scarce();
        let filling = self.filling();
        let mut best: Option<((f64, usize, u64), SuperblockId)> = None;
        for (s, b) in (0..).zip(&self.space.superblocks) {
            if b.state != State::Closed
                || filling.contains(&Some(s))
                || b.programs > 0
                || b.valid > (b.size - 1) * unit
                || keeps_maps && b.maps && b.valid > 0
                || self.space.is_static(s)
            {
                continue;
            }
            let free = self.space.free[s % groups].len();
            // By share: one with bad blocks holds less, and gives less when it is free.
            let used = f64::from(b.valid) / f64::from(b.size * unit);
            let cost = match self.config.victim {
                _ if scarce => used,
                Victim::Greedy => used,
                Victim::CostBenefit => {
                    let age = (self.space.opened - b.opened) as f64;
                    -(1.0 - used) * age / (1.0 + used)
                }
            };
            let key = (cost, free, b.opened);
            if best.is_none_or(|(least, _)| key < least) {
                best = Some((key, s));
            }
        }
        best.map(|(_, s)| s)
    }
    /// Reads the victim, as far as the collector owes and has room.
    fn read_victim(&mut self) -> bool {
        let Some(mut v) = self.gc.victim else { return false };
        let places = self.space.places_of(v.superblock);
        let from = v.next;
        while v.next < places {
            let first = self.space.first_of(self.space.unit_at(v.superblock, v.next));
            let (ppa, sectors, valid) = self.used_run(first);
            if valid > 0 {
                let room = self.free[1].len() as u32 - self.gc.reserved;
                if valid > room || !(self.is_owing() || v.next < self.refresh.until()) {
                    break;
                }
                if self.refresh.counts_reads() {
                    self.unit_is_read(ppa);
                }
                v.reads += 1;
                self.gc.reserved += valid;
                let op = Op::Read { ppa, sectors, slots: valid };
                let (class, ppa) = (Class::GcRead, Ppa(ppa));
                self.issue(op, |op| Action::Read { op, ppa, sectors, class, payload: valid });
            }
            v.next += 1;
            self.gc.victim = Some(v);
        }
        self.gc.victim = Some(v);
        if v.next > from {
            self.set_pace();
        }
        if v.next < places || v.reads > 0 {
            return v.next > from;
        }
        let s = v.superblock;
        debug_assert_eq!(self.space.superblocks[s].valid, 0);
        self.space.superblocks[s].state = State::Drained;
        self.gc.victim = None;
        self.refresh.ended();
        self.gc.drained_units += self.space.worth(s);
        let pages = self.untold(s);
        let luns = self.space.luns_of(s).collect();
        self.gc.drained.push(Drained {
            superblock: s,
            turn: 0,
            pages,
            begun: false,
            luns,
            erasing: 0,
        });
        self.hold_erasure(s);
        true
    }
    /// Where a power cut empties the buffer a superblock is erased only when what users have in it by now
    /// is on flash.
    pub(crate) fn hold_erasure(&mut self, s: SuperblockId) {
        let turn = self.order.next();
        if let Some(d) = self.gc.drained.iter_mut().find(|d| d.superblock == s) {
            d.turn = turn;
            if !self.config.protected && !self.order.is_passed(turn) {
                self.pad_users();
            }
        }
    }
    /// Pages of the map that are to be on flash before a superblock is erased: those that tell of what was
    /// trimmed in it. Otherwise a copy that is older than the one trimmed would be the newest.
    pub(crate) fn untold(&self, s: SuperblockId) -> Vec<u32> {
        let mut pages = Vec::new();
        if self.config.protected || self.plan.pages == 0 {
            return pages;
        }
        let users = self.plan.sectors as u32;
        for lpn in self.held_by(s) {
            let page = match lpn < users {
                true if self.void(lpn, 0).is_none() => continue,
                true => lpn / self.plan.entries,
                false => lpn - users,
            };
            if !self.is_told(page) {
                pages.push(page);
            }
        }
        pages.sort_unstable();
        pages.dedup();
        pages
    }
    /// The logical sectors of a superblock, whether they are in use or not.
    fn held_by(&self, s: SuperblockId) -> impl Iterator<Item = u32> + '_ {
        let units = (0..self.space.places_of(s)).map(move |place| self.space.unit_at(s, place));
        let all = units.flat_map(|unit| {
            let first = self.space.first_of(unit);
            first..first + self.g.sectors_per_unit
        });
        all.map(|ppa| self.map.lpn_at(ppa)).filter(|&lpn| lpn != NOBODY)
    }
    /// A drained superblock waits for what users have in the buffer.
    pub(crate) fn erasures_wait(&self) -> bool {
        self.gc.drained.iter().any(|d| !self.order.is_passed(d.turn))
    }
    /// Drained superblocks without a copy of what users have in the buffer need not wait for that.
    pub(crate) fn erase_unneeded(&mut self) -> bool {
        let waits = |d: &Drained| !self.order.is_passed(d.turn) && d.pages.is_empty();
        let needed = |lpn: u32| matches!(self.map.get(lpn), Where::Buffer(_));
        let first = self
            .gc
            .drained
            .iter()
            .position(|d| waits(d) && !self.held_by(d.superblock).any(needed));
        if let Some(i) = first {
            self.gc.drained[i].turn = 0;
        }
        first.is_some()
    }
    /// A page of the map is on flash, with all that was trimmed.
    fn is_told(&self, page: u32) -> bool {
        let on_flash = !matches!(self.map.get(self.plan.sectors as u32 + page), Where::Buffer(_));
        on_flash && !self.trimmed.get(page as usize)
    }
    /// A sector was trimmed that waited in the buffer: what is to be erased may hold its last copy.
    pub(crate) fn trimmed_in_buffer(&mut self, lpn: u32) {
        if self.config.protected || self.plan.pages == 0 {
            return;
        }
        let page = lpn / self.plan.entries;
        for d in self.gc.drained.iter_mut().filter(|d| !d.begun) {
            if !d.pages.contains(&page) {
                d.pages.push(page);
            }
        }
    }
    /// Writes what a drained superblock waits for. True: there is something new to program.
    fn tell(&mut self, i: usize) -> bool {
        let mut pages = std::mem::take(&mut self.gc.drained[i].pages);
        pages.retain(|&page| !self.is_told(page));
        let mut new = false;
        for page in &pages {
            let lpn = self.plan.sectors as u32 + page;
            let streams = match self.map.get(lpn) {
                Where::Buffer(slot) if self.slots[slot].issued => continue,
                Where::Buffer(_) if self.cached.is_some() => MAPS..MAPS + 1,
                Where::Buffer(slot) if slot < self.plan.slots => HOST..GC,
                Where::Buffer(_) => GC..GC + 1,
                _ if self.cached.is_some() => {
                    let changed =
                        self.cached.as_ref().is_some_and(|cached| cached.is_changed(*page));
                    if !changed || !self.write_changed(*page) {
                        // Its trim is still to reach it, or there is no room on the way.
                        continue;
                    }
                    MAPS..MAPS + 1
                }
                _ if self.free[1].len() as u32 > self.gc.reserved => {
                    self.put_page(lpn);
                    GC..GC + 1
                }
                _ => break,
            };
            for stream in &mut self.streams[streams] {
                new |= !stream.queue.is_empty() && !std::mem::replace(&mut stream.pad, true);
            }
        }
        self.gc.drained[i].pages = pages;
        new
    }
    /// The run of a unit from its first sector in use to its last, and how many are.
    pub(crate) fn used_run(&self, first: u32) -> (u32, u32, u32) {
        let (mut from, mut to, mut valid) = (first, first, 0);
        let end = first + self.g.sectors_per_unit;
        let mut at = first;
        while at < end {
            let n = (end - at).min(64);
            let bits = self.map.bits(at, n);
            if bits != 0 {
                if valid == 0 {
                    from = at + bits.trailing_zeros();
                }
                to = at + 64 - bits.leading_zeros();
                valid += bits.count_ones();
            }
            at += n;
        }
        (from, to - from, valid)
    }
    /// A run of the victim was read.
    pub(crate) fn collected(&mut self, ppa: u32, sectors: u32, slots: u32, ok: bool) {
        let Some(v) = &mut self.gc.victim else { unreachable!("its victim is under way") };
        v.reads -= 1;
        let s = v.superblock;
        self.gc.reserved -= slots;
        self.counters.gc_read_sectors += u64::from(sectors);
        self.counters.gc_read_errors += u64::from(!ok);
        let mut moved = 0;
        for ppa in ppa..ppa + sectors {
            if !self.map.is_valid(ppa) {
                continue;
            }
            moved += 1;
            let (lpn, stamp) = (self.map.lpn_at(ppa), self.map.stamp_at(ppa));
            // The copy in memory is what counts of a page of the map.
            if ok || u64::from(lpn) >= self.plan.sectors {
                self.put_moved(lpn, stamp, s);
            } else {
                self.counters.lost_sectors += 1;
                self.map.set(lpn, Where::Lost);
                self.note_trim(lpn, 1);
                self.entry_changed(lpn, self.map.next);
                self.invalidate(ppa);
            }
        }
        self.counters.gc_stale_sectors += u64::from(slots - moved);
        self.pay(slots);
    }
    /// The collector moved so many sectors. It reads whole units, and what it moves so beyond its debt counts
    /// for the next sectors of users: otherwise users who leave it time to pay each sector at once would
    /// have it move a unit for each. What it moves for other reasons counts no further than that.
    pub(crate) fn pay(&mut self, sectors: u32) {
        let ahead = i64::from(self.g.sectors_per_unit) * PARTS;
        let debt = self.gc.debt.saturating_sub(i64::from(sectors) * PARTS);
        self.gc.debt = debt.max(-ahead);
    }

    /// Erases what is in use no more, block after block, once what replaced it is on flash and nobody
    /// reads it.
    pub(crate) fn erase(&mut self) -> bool {
        let most = if self.is_scarce() { u32::MAX } else { self.config.gc_erases };
        self.erase_drained(most, false)
    }
    /// Users wait, and all is done that can be: the collector waits for reads that an erasure holds up, and LUNs have
    /// nothing to program before those are over. One after the other they would each hold it up; those that are
    /// idle erase now, so that it waits once for all.
    pub(crate) fn erase_on_idle(&mut self) -> bool {
        !self.waiting.is_empty() && self.idle_luns > 0 && self.erase_drained(u32::MAX, true)
    }
    /// No more than so many at a time. `around`: LUNs that are busy are left for later, not waited for.
    fn erase_drained(&mut self, most: u32, around: bool) -> bool {
        // However many of others are erased now.
        let is_over = |d: &Drained| d.begun && d.luns.is_empty() && d.erasing == 0;
        let mut begun = false;
        while let Some(d) = self.gc.drained.iter().find(|d| is_over(d)) {
            self.freed(d.superblock);
            begun = true;
        }
        let mut i = 0;
        while i < self.gc.drained.len() && self.gc.erasing < most {
            if !self.gc.drained[i].pages.is_empty() {
                begun |= self.tell(i);
            }
            let d = &self.gc.drained[i];
            let b = &self.space.superblocks[d.superblock];
            let waits = b.reads > 0 || b.moving > 0 || !d.pages.is_empty();
            if waits || !self.order.is_passed(d.turn) {
                i += 1;
                continue;
            }
            let (s, mut luns) = (d.superblock, std::mem::take(&mut self.gc.drained[i].luns));
            self.gc.drained[i].begun = true;
            let mut next = 0;
            while next < luns.len() && self.gc.erasing < most {
                let lun = luns[next];
                let block = self.space.block(s, lun);
                if self.space.failed.clear(block as usize) {
                    self.space.bad.set(block as usize);
                }
                if !self.space.is_bad(block) && self.space.pages[block] > 0 {
                    if self.busy[lun] {
                        if !around {
                            break;
                        }
                        next += 1;
                        continue;
                    }
                    self.occupy(lun, true);
                    self.gc.drained[i].erasing += 1;
                    self.gc.erasing += 1;
                    begun = true;
                    let op = Op::Erase { block, superblock: s };
                    let ppa = self.space.first_of_block(block);
                    self.issue(op, |op| Action::Erase { op, ppa });
                }
                luns.remove(next);
            }
            let d = &mut self.gc.drained[i];
            d.luns = luns;
            if d.luns.is_empty() && d.erasing == 0 {
                self.freed(s);
                begun = true;
                continue;
            }
            i += 1;
        }
        begun
    }
    pub(crate) fn erased(&mut self, s: SuperblockId, block: BlockId, ok: bool) {
        self.space.erases[block] += 1;
        self.space.pages[block] = 0;
        self.refresh.erased(block);
        self.counters.erases += 1;
        if !ok {
            self.counters.erase_errors += 1;
            self.counters.blocks_retired += u64::from(self.space.bad.set(block as usize));
        }
        self.gc.erasing -= 1;
        let of = self.gc.drained.iter_mut().find(|d| d.superblock == s);
        of.expect("it is being erased").erasing -= 1;
    }
    fn freed(&mut self, s: SuperblockId) {
        self.gc.drained.retain(|d| d.superblock != s);
        self.gc.drained_units -= self.space.worth(s);
        self.free_superblock(s);
    }
    pub(crate) fn free_superblock(&mut self, s: SuperblockId) {
        self.space.release(s);
        self.refresh.freed(s);
        match self.space.superblocks[s].state {
            State::Retired => self.counters.lines_retired += 1,
            _ => self.counters.lines_freed += 1,
        }
        self.set_pace();
    }
}
