//! The buffer, and the streams of units that leave it.

use crate::config::Allocation;
use crate::map::{NOBODY, Where};
use crate::space::{GroupId, Mode, State, SuperblockId, Unit, Wear};
use crate::{Firmware, Op};
use std::collections::VecDeque;
use wordline_base::{IdVec, Lpn, Stamps};
use wordline_nand::{Class, LunId, Ppa};
use wordline_translation::{Action, Command};

/// What goes to superblocks of its own: data of users, those that are hot, and the collector's.
pub(crate) type Stream = usize;
pub(crate) const HOST: Stream = 0;
pub(crate) const HOT: Stream = 1;
pub(crate) const GC: Stream = 2;
/// Superblocks with a bit a cell, which users' data of both kinds go to first. Nothing waits for them alone.
pub(crate) const SLC: Stream = 3;
/// Pages of the map that gave way, where memory holds a part of it. Like the collector's they go to superblocks that
/// users do not open.
pub(crate) const MAPS: Stream = 4;
/// What the collector moves that is hot still, where hot data are apart. Its superblocks count among those of users, so
/// that what is in them is found hot when it is written again.
pub(crate) const WARM: Stream = 5;
pub(crate) const STREAMS: usize = 6;

/// A stream of the drive's own.
fn is_own(stream: Stream) -> bool {
    matches!(stream, GC | MAPS | WARM)
}
/// Whether superblocks that the stream opens are in the order of users'.
fn is_users(stream: Stream) -> bool {
    !matches!(stream, GC | MAPS)
}

/// No superblock: a sector of a user.
const USER: SuperblockId = SuperblockId::MAX;
/// No superblock: a page of the map that an erasure waits for.
pub(crate) const MAP: SuperblockId = SuperblockId::MAX - 1;

/// A sector of the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub lpn: u32,
    pub stamp: u32,
    /// The superblock that the collector has it from.
    pub from: SuperblockId,
    /// It is being programmed.
    pub issued: bool,
    /// A program of it failed.
    pub again: bool,
    /// Its place in the order of what is not durable, where that matters.
    pub turn: u64,
    /// The sector had no copy when this one came: the place in the order before which there is none, and
    /// whether it was lost.
    pub void: Option<(u32, bool)>,
}

impl Default for Slot {
    fn default() -> Slot {
        let (issued, again) = (false, false);
        Slot { lpn: NOBODY, stamp: 0, from: USER, issued, again, turn: 0, void: None }
    }
}

impl Slot {
    /// A user's, of which nothing was programmed.
    pub fn is_new(&self) -> bool {
        self.from == USER && !self.again
    }
}

/// A stream: what waits, and where it goes.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    pub queue: VecDeque<u32>,
    /// Open superblocks by group.
    pub superblocks: IdVec<GroupId, Option<SuperblockId>>,
    /// The LUN after that of the last unit.
    pub cursor: LunId,
    /// What waits is to be written, with padding.
    pub pad: bool,
    /// Ageing: places left of a unit taken in part, the next sector and the end.
    pub place: (u32, u32),
}

impl Open {
    pub fn new(groups: u32) -> Open {
        Open {
            queue: VecDeque::new(),
            superblocks: IdVec::filled(None, groups),
            cursor: 0,
            pad: false,
            place: (0, 0),
        }
    }
    /// A group in which a superblock is open.
    fn open_group(&self) -> Option<GroupId> {
        (0..self.superblocks.count()).find(|&group| self.superblocks[group].is_some())
    }
}

impl Firmware {
    /// Takes in what waits, as far as there is room and the collector has done what it owes.
    pub(crate) fn admit(&mut self, stamps: &mut Stamps) -> bool {
        let mut progress = false;
        while let Some((tag, ok)) = self.order.ended() {
            self.actions.push_back(Action::Complete { tag, ok });
            progress = true;
        }
        while let Some(first) = self.waiting.first() {
            match first {
                Command::Write { tag, .. } if self.read_only => {
                    self.counters.writes_refused += 1;
                    self.counters.lost_sectors += self.waiting.refuse();
                    self.actions.push_back(Action::Complete { tag, ok: false });
                }
                Command::Write { tag, lpn, left, fua, cached } => {
                    let mut n = 0;
                    while n < left && self.takes_sector() {
                        self.write_page(lpn + n);
                        let stamp = self.waiting.stamp(tag, cached, stamps, lpn + n);
                        self.put(lpn + n, stamp);
                        n += 1;
                    }
                    self.waiting.took(n);
                    progress |= n > 0;
                    if n < left {
                        return progress;
                    }
                    if fua && !self.config.protected {
                        self.wait(tag);
                    } else {
                        self.actions.push_back(Action::Complete { tag, ok: true });
                    }
                }
                Command::Flush { tag } => {
                    let protected = self.config.protected;
                    if !protected && !self.read_only && !self.put_trims() {
                        return progress;
                    }
                    self.counters.flushes += 1;
                    self.waiting.pop();
                    let untold = self.queued() > 0 || self.trimmed.next_set(0).is_some();
                    let lost = self.read_only && !protected && untold;
                    match protected || lost {
                        true => self.actions.push_back(Action::Complete { tag, ok: !lost }),
                        false => self.wait(tag),
                    }
                }
                // A flush before it promises the sectors that it would take out of the buffer.
                Command::Trim { .. } if self.order.is_waited_for() => return progress,
                Command::Trim { tag, lpn, sectors, shown } => {
                    self.waiting.pop();
                    self.trim_now(stamps, tag, lpn, sectors, shown);
                }
            }
            progress = true;
        }
        progress
    }
    /// Unmaps sectors; reads have `shown` it already where the trim had to wait.
    pub(crate) fn trim_now(
        &mut self,
        stamps: &mut Stamps,
        tag: u32,
        lpn: u32,
        sectors: u32,
        shown: bool,
    ) {
        for lpn in lpn..lpn + sectors {
            match self.map.set(lpn, Where::Unmapped) {
                Where::Flash(ppa) => self.invalidate(ppa),
                Where::Buffer(_) => self.trimmed_in_buffer(lpn),
                Where::Unmapped | Where::Lost => {}
            }
            if !shown {
                stamps.show_trim(tag, Lpn(lpn));
            }
        }
        self.note_trim(lpn, sectors);
        self.counters.trimmed_sectors += u64::from(sectors);
        // What was trimmed is so at once; the trim is over when its pages of the map have it.
        if self.cached.is_some() && sectors > 0 && !self.use_pages(tag, lpn, sectors, true) {
            return;
        }
        self.actions.push_back(Action::Complete { tag, ok: true });
    }
    /// There is room in the buffer, and the collector has done what it owes.
    #[inline]
    fn takes_sector(&self) -> bool {
        // The second may be the map's.
        let taken = usize::from(self.plan.pages > 0);
        self.free[0].len() > taken && !self.gc_lags() && (self.config.protected || self.has_place())
    }
    /// A user's sector is written: a page of the map may be due.
    #[inline]
    fn write_page(&mut self, lpn: u32) {
        if self.plan.pages > 0
            && self.slot_to_write_over(lpn).is_none()
            && let Some(lpn) = self.page_due()
        {
            match self.cached.is_some() {
                true => self.write_due(lpn),
                false => self.put(lpn, 1),
            }
        }
    }
    /// Writes a page of a map that is in memory in part; one that did not change needs no write.
    fn write_due(&mut self, lpn: u32) {
        let page = lpn - self.plan.sectors as u32;
        if self.cached.as_ref().is_some_and(|cached| cached.is_changed(page)) {
            self.write_changed(page);
        }
    }
    /// The sector of the page of the map that is due.
    pub(crate) fn page_due(&mut self) -> Option<u32> {
        self.page_share += u64::from(self.plan.pages);
        if self.page_share < self.plan.checkpoint {
            return None;
        }
        self.page_share -= self.plan.checkpoint;
        let page = self.page;
        self.page = (page + 1) % self.plan.pages;
        Some(self.plan.sectors as u32 + page)
    }
    /// Pages of the map that do not tell yet what was trimmed enter the buffer, as far as there is room.
    /// True: all have.
    fn put_trims(&mut self) -> bool {
        let mut next = 0;
        while let Some(page) = self.trimmed.next_set(next) {
            next = page + 1;
            let lpn = self.plan.sectors as u32 + page as u32;
            let waits = match self.map.get(lpn) {
                Where::Buffer(slot) => {
                    (slot < self.plan.slots || self.is_map_slot(slot)) && !self.slots[slot].issued
                }
                _ => false,
            };
            if let Some(cached) = &self.cached {
                let changed = cached.is_changed(page as u32);
                // Its trim is still to reach it.
                let on_its_way = match changed {
                    true => self.write_changed(page as u32),
                    false => waits,
                };
                if !on_its_way {
                    return false;
                }
                continue;
            }
            if !waits {
                if !self.takes_sector() {
                    return false;
                }
                self.put(lpn, 1);
            }
        }
        true
    }
    /// Sectors were trimmed, which their pages of the map do not tell yet.
    pub(crate) fn note_trim(&mut self, lpn: u32, sectors: u32) {
        if self.plan.pages > 0 && sectors > 0 {
            let (first, last) = (lpn / self.plan.entries, (lpn + sectors - 1) / self.plan.entries);
            for page in first..=last {
                self.trimmed.set(page as usize);
            }
        }
    }
    /// A page of the map is on its way to flash, as it is now.
    pub(crate) fn wrote(&mut self, lpn: u32) {
        if u64::from(lpn) >= self.plan.sectors {
            self.trimmed.clear((u64::from(lpn) - self.plan.sectors) as usize);
        }
    }
    /// What users have in the buffer, and a sector more, find a place even if each is padded to a unit: an
    /// erasure may wait for them.
    pub(crate) fn has_place(&self) -> bool {
        let own = [GC, MAPS, WARM].map(|stream| &self.streams[stream].superblocks);
        let gc = own.into_iter().flatten().flatten();
        let kept: u64 = gc.map(|&s| u64::from(self.space.superblocks[s].left)).sum();
        let queued = (self.queued() as u64).saturating_sub(self.space.slc_room);
        self.space.room > kept + self.plan.kept + queued
    }
    /// Sectors of users that wait for a program.
    #[inline]
    pub(crate) fn queued(&self) -> usize {
        self.streams[HOST].queue.len() + self.streams[HOT].queue.len()
    }
    /// Opens a superblock for what users have in the buffer, of those that are the collector's: a free one,
    /// or that which it has open.
    pub(crate) fn open_for_users(&mut self) -> bool {
        if !self.has_no_superblock() || self.queued() == 0 {
            return false;
        }
        if self.space.free_count > 0 {
            let group = self.fullest_group();
            self.open_in(HOST, group, Mode::Native);
            return true;
        }
        for own in [GC, WARM] {
            if let Some(group) = self.streams[own].open_group() {
                let taken = self.streams[own].superblocks[group].take();
                self.streams[HOST].superblocks[group] = taken;
                return true;
            }
        }
        false
    }
    /// The collector takes over what users have open, where failing blocks took its own.
    pub(crate) fn open_for_collector(&mut self) -> bool {
        let none = |own: Stream| self.streams[own].superblocks.iter().all(Option::is_none);
        let waits = |&own: &Stream| {
            // Hot data without a superblock of their own go where the others go.
            let hot = own == GC && !self.streams[WARM].queue.is_empty() && none(WARM);
            (hot || !self.streams[own].queue.is_empty()) && none(own)
        };
        let Some(own) = [GC, MAPS].into_iter().find(waits) else { return false };
        if self.space.free_count > 0 {
            return false;
        }
        // What is moved of hot data goes through the collector's where it has none of its own.
        let through = self.streams[WARM].queue.is_empty() || !none(WARM);
        let unused = self.streams[GC].queue.is_empty() && through;
        for stream in [HOST, HOT, WARM, GC].into_iter().filter(|&stream| stream != own) {
            let open = self.streams[stream].open_group();
            if let Some(group) = open
                && (stream != GC || unused)
            {
                self.streams[own].superblocks[group] =
                    self.streams[stream].superblocks[group].take();
                return true;
            }
        }
        false
    }
    /// The group with the most free superblocks.
    fn fullest_group(&self) -> u32 {
        let most = |&group: &u32| (self.space.free[group].len(), std::cmp::Reverse(group));
        (0..self.space.groups).max_by_key(most).expect("there is a group")
    }
    /// What users have in the buffer will never be on flash.
    pub(crate) fn lose_buffer(&mut self) {
        let lost = [HOST, HOT, MAPS].map(|stream| &self.streams[stream].queue);
        for slot in lost.into_iter().flatten() {
            self.order.lose(self.slots[*slot].turn);
            self.order.leave(self.slots[*slot].turn);
        }
    }
    /// A command waits until all that is in the buffer is on flash.
    fn wait(&mut self, tag: u32) {
        self.counters.flushes_waited += u64::from(self.order.wait(tag));
        self.pad_users();
    }
    pub(crate) fn pad_users(&mut self) {
        self.streams[HOST].pad = true;
        self.streams[HOT].pad = true;
        self.streams[MAPS].pad = true;
    }
    /// The sector of a user that waits in the buffer already, and takes no space of its own.
    #[inline]
    fn slot_to_write_over(&self, lpn: u32) -> Option<u32> {
        let Where::Buffer(slot) = self.map.get(lpn) else { return None };
        let held = &self.slots[slot];
        (!held.issued && held.from == USER).then_some(slot)
    }
    /// A sector of a user enters the buffer. One that waits there already is written over.
    pub(crate) fn put(&mut self, lpn: u32, stamp: u32) {
        if let Some(slot) = self.slot_to_write_over(lpn) {
            self.slots[slot].stamp = stamp;
            self.counters.absorbed_sectors += 1;
            return;
        }
        let slot = self.free[0].pop().expect("there is room");
        let void = self.void(lpn, self.map.next);
        let stream = match self.map.set(lpn, Where::Buffer(slot)) {
            Where::Flash(ppa) => {
                let stream = self.stream_of(ppa);
                self.invalidate(ppa);
                stream
            }
            Where::Buffer(_) if self.plan.young > 0 => HOT,
            Where::Buffer(_) | Where::Unmapped | Where::Lost => HOST,
        };
        let turn = if self.config.protected { 0 } else { self.order.enter() };
        self.slots[slot] = Slot { lpn, stamp, turn, void, ..Slot::default() };
        self.streams[stream].queue.push_back(slot);
        self.owe();
    }
    /// The sector is in one of the superblocks that were opened last for what users write and for what the collector
    /// moves out of such.
    fn is_young(&self, ppa: u32) -> bool {
        self.is_young_superblock(self.space.superblock_of(ppa))
    }
    pub(crate) fn is_young_superblock(&self, s: SuperblockId) -> bool {
        let users = self.space.superblocks[s].users;
        users > 0 && users + self.plan.young > self.space.users
    }
    /// Where a user's sector goes whose last copy is there.
    pub(crate) fn stream_of(&self, ppa: u32) -> Stream {
        if self.plan.young > 0 && self.is_young(ppa) { HOT } else { HOST }
    }
    /// Where what is moved out of a superblock goes.
    pub(crate) fn stream_of_moved(&self, lpn: u32, from: SuperblockId) -> Stream {
        match self.is_page(lpn) {
            true => MAPS,
            false if self.plan.young > 0 && self.is_young_superblock(from) => WARM,
            false => GC,
        }
    }
    /// A sector that was read from a victim enters the collector's buffer.
    pub(crate) fn put_moved(&mut self, lpn: u32, stamp: u32, from: SuperblockId) {
        let slot = self.free[1].pop().expect("a slot was kept");
        if let Where::Flash(ppa) = self.map.set(lpn, Where::Buffer(slot)) {
            self.invalidate(ppa);
        }
        self.space.superblocks[from].moving += 1;
        self.slots[slot] = Slot { lpn, stamp, from, ..Slot::default() };
        let stream = self.stream_of_moved(lpn, from);
        self.streams[stream].queue.push_back(slot);
    }
    /// A page of the map enters the collector's buffer, since an erasure waits for it.
    pub(crate) fn put_page(&mut self, lpn: u32) {
        let slot = self.free[1].pop().expect("there is room");
        if let Where::Flash(ppa) = self.map.set(lpn, Where::Buffer(slot)) {
            self.invalidate(ppa);
        }
        self.slots[slot] = Slot { lpn, stamp: 1, from: MAP, ..Slot::default() };
        self.streams[GC].queue.push_back(slot);
    }
    /// A slot is left out since a newer one has its sector, or it was trimmed. What may not be erased
    /// before this one is on flash waits for the newer one.
    fn drop_slot(&mut self, slot: u32) {
        let Slot { lpn, from, turn, .. } = self.slots[slot];
        if !self.config.protected
            && let Where::Buffer(newer) = self.map.get(lpn)
        {
            if from == USER && self.slots[newer].from == USER {
                self.slots[slot].turn = std::mem::replace(&mut self.slots[newer].turn, turn);
            } else if from != USER {
                self.hold_erasure(from);
            }
        }
        self.free_slot(slot);
    }
    /// A slot is over.
    fn free_slot(&mut self, slot: u32) {
        let Slot { from, turn, .. } = self.slots[slot];
        if from < MAP {
            self.space.superblocks[from].moving -= 1;
        } else if from == USER && !self.config.protected {
            self.order.leave(turn);
        }
        let of = usize::from(slot >= self.plan.slots) + usize::from(self.is_map_slot(slot));
        self.free[of].push(slot);
    }

    /// Programs what is complete, on LUNs that are idle.
    pub(crate) fn program(&mut self) -> bool {
        let mut progress = false;
        // Entries wait for pages of the map that are to be read.
        let streams = if self.is_late() { &[MAPS][..] } else { &[GC, WARM, MAPS, HOST, HOT] };
        for &stream in streams {
            while self.idle_luns > 0 {
                let s = &mut self.streams[stream];
                let waiting = s.queue.len();
                if waiting == 0 {
                    s.pad = false;
                    break;
                }
                if waiting < self.g.sectors_per_unit as usize && !s.pad {
                    break;
                }
                let formed = self.form(stream);
                // What was left out made room.
                progress |= formed || self.streams[stream].queue.len() < waiting;
                if !formed {
                    break;
                }
            }
        }
        progress
    }
    /// Programs the next unit of a stream. False: there is no place for it, or not enough that is still
    /// current.
    fn form(&mut self, stream: Stream) -> bool {
        let unit_sectors = self.g.sectors_per_unit as usize;
        let Some((through, s, lun)) = self.next_place(stream) else { return false };
        // What was trimmed or overwritten meanwhile is not written, so that of two versions of a sector
        // the later unit has the newer.
        let mut chosen = 0;
        let mut i = 0;
        while chosen < unit_sectors && i < self.streams[stream].queue.len() {
            let slot = self.streams[stream].queue[i];
            if self.map.get(self.slots[slot].lpn) == Where::Buffer(slot) {
                chosen += 1;
                i += 1;
                continue;
            }
            self.streams[stream].queue.remove(i);
            let user = self.slots[slot].is_new();
            self.counters.absorbed_sectors += u64::from(user);
            self.drop_slot(slot);
        }
        if chosen < unit_sectors && !self.streams[stream].pad || chosen == 0 {
            return false;
        }
        let unit = self.space.take(s, lun);
        self.space.superblocks[s].programs += 1;
        self.occupy(lun, true);
        self.close_if_full(through, s);
        let (first, n) = (self.space.first_of(unit), chosen as u32);
        self.map.number(unit);
        if let Some(cached) = &mut self.cached {
            cached.programs(self.map.order_of(unit), true);
        }
        let op = self.ops.insert(Op::Program { unit, slots: n, stream });
        let base = op as usize * unit_sectors;
        if self.op_slots.len() < base + unit_sectors {
            self.op_slots.resize(base + unit_sectors, 0);
        }
        let mut beside = (unit_sectors - chosen) as u32;
        for (i, ppa) in (base..base + unit_sectors).zip(first..) {
            if i >= base + chosen {
                self.map.note(ppa, NOBODY, 0);
                continue;
            }
            let slot = self.streams[stream].queue.pop_front().expect("they were counted");
            let held = &mut self.slots[slot];
            held.issued = true;
            self.op_slots[i] = slot;
            let Slot { lpn, stamp, again, from, .. } = *held;
            beside += u32::from(from == MAP && !again);
            self.map.note(ppa, lpn, stamp);
            if self.plan.pages > 0 {
                self.wrote(lpn);
            }
            match (again, from) {
                (true, _) => self.counters.resubmitted_sectors += 1,
                (false, USER) if u64::from(lpn) < self.plan.sectors => {
                    self.counters.user_sectors += 1
                }
                (false, _) if self.is_page(lpn) => self.counters.map_sectors += 1,
                (false, USER | MAP) => self.counters.emeta_sectors += 1,
                (false, from) if self.space.superblocks[from].slc => {
                    self.counters.folded_sectors += 1
                }
                (false, _) => self.counters.gc_sectors += 1,
            }
        }
        if through != SLC && stream != MAPS {
            self.owe_beside(beside);
        }
        self.counters.programmed_sectors += unit_sectors as u64;
        self.counters.pad_sectors += (unit_sectors - chosen) as u64;
        let class = match stream {
            GC | WARM => Class::GcProgram,
            MAPS => Class::MetaProgram,
            _ => Class::UserProgram,
        };
        let (ppa, slc) = (Ppa(first), self.space.superblocks[s].slc);
        self.actions.push_back(Action::Program { op, ppa, class, payload: n, summed: 0, slc });
        self.set_pace();
        true
    }
    /// Where the next unit of a stream goes: users' to the buffer with a bit a cell while that has room, and
    /// then their streams use each other's superblocks where there is no other space.
    fn next_place(&mut self, stream: Stream) -> Option<(Stream, SuperblockId, LunId)> {
        if !is_own(stream) && self.opens_slc() {
            return self.next_lun(SLC).map(|(s, lun)| (SLC, s, lun));
        }
        let own = self.next_lun(stream).map(|(s, lun)| (stream, s, lun));
        let none = |superblocks: &[Option<SuperblockId>]| superblocks.iter().all(Option::is_none);
        if stream == WARM && none(&self.streams[WARM].superblocks) {
            return self.next_lun(GC).map(|(s, lun)| (GC, s, lun));
        }
        if own.is_some() || is_own(stream) || !none(&self.streams[stream].superblocks) {
            return own;
        }
        let other = if stream == HOST { HOT } else { HOST };
        match none(&self.streams[other].superblocks) {
            true => None,
            false => self.next_lun(other).map(|(s, lun)| (other, s, lun)),
        }
    }
    /// The superblock and the LUN that the next unit of a stream goes to.
    fn next_lun(&mut self, stream: Stream) -> Option<(SuperblockId, LunId)> {
        self.open_missing(stream);
        let is_static = !is_own(stream) && self.config.allocation == Allocation::Static;
        let avoid = !is_own(stream) && !is_static && self.reads > 0;
        let (luns, cursor) = (self.g.luns, self.streams[stream].cursor);
        let mut second = None;
        for lun in (cursor..luns).chain(0..cursor) {
            let group = self.space.group_of(lun);
            let Some(s) = self.streams[stream].superblocks[group] else { continue };
            if !self.space.takes(self.space.block(s, lun)) {
                continue;
            }
            if self.busy[lun] {
                if is_static {
                    return None;
                }
                continue;
            }
            if !avoid || self.lun_reads[lun] == 0 {
                second = Some((s, lun));
                break;
            }
            second = second.or(Some((s, lun)));
        }
        let (_, lun) = second?;
        self.streams[stream].cursor = if lun + 1 == luns { 0 } else { lun + 1 };
        second
    }
    /// Opens superblocks for a stream: users have one in each group, the collector has one at a time, in
    /// the group with the most free ones.
    pub(crate) fn open_missing(&mut self, stream: Stream) {
        let open = &self.streams[stream].superblocks;
        if is_own(stream) {
            // All but one of those that are kept: what is moved finds place in that one.
            let kept = if stream == WARM { self.plan.reserve - 1 } else { 0 };
            if open.iter().any(Option::is_some) || self.space.free_count <= kept {
                return;
            }
            let group = self.fullest_group();
            self.open_in(stream, group, Mode::Native);
            return;
        }
        if stream == SLC {
            return;
        }
        for group in 0..self.space.groups {
            let kept = if self.is_waited_for(stream) { 0 } else { self.plan.reserve };
            if self.streams[stream].superblocks[group].is_none() && self.space.free_count > kept {
                self.open_in(stream, group, Mode::Native);
            }
        }
    }
    /// Erasures wait for what users have in the buffer, and users have no superblock for it. They get one of those that
    /// are kept for the collector: it would take them all for what it moves, and then each waits for the other.
    fn is_waited_for(&self, stream: Stream) -> bool {
        let waits = !self.config.protected && !self.streams[stream].queue.is_empty();
        waits && self.has_no_superblock() && self.erasures_wait()
    }
    /// Users have no superblock open.
    fn has_no_superblock(&self) -> bool {
        let users = [HOST, HOT, SLC].map(|stream| &self.streams[stream].superblocks);
        users.into_iter().flatten().all(Option::is_none)
    }
    /// Opens superblocks with a bit a cell, one in each group. True: there is one that users' data go to.
    pub(crate) fn opens_slc(&mut self) -> bool {
        if !self.plan.has_slc() || self.native_only {
            return false;
        }
        for group in 0..self.space.groups {
            if self.streams[SLC].superblocks[group].is_some() {
                continue;
            }
            if !self.space.slc_free[group].is_empty() {
                self.open_in(SLC, group, Mode::Slc);
            } else if self.may_borrow() {
                self.open_in(SLC, group, Mode::Borrowed);
            }
        }
        self.streams[SLC].superblocks.iter().any(Option::is_some)
    }
    /// A superblock more may be written with a bit a cell: those that are take no more than their share of what is
    /// free, and enough stays free for the collector to rest.
    fn may_borrow(&self) -> bool {
        let block = u64::from(self.space.places());
        let borrowed = u64::from(self.space.borrowed) * block;
        let room = self.space.room;
        if self.config.slc_dynamic == 0.0 || room < self.plan.start + block {
            return false;
        }
        let share = self.config.slc_dynamic / 100.0;
        (borrowed + block) as f64 <= (room + borrowed - self.plan.start) as f64 * share
    }
    /// So many superblocks more.
    pub(crate) fn may_borrow_more(&self) -> u32 {
        let block = u64::from(self.space.places());
        let free = self.space.room.saturating_sub(self.plan.start);
        let all = free + u64::from(self.space.borrowed) * block;
        let most = (all as f64 * self.config.slc_dynamic / 100.0 / block as f64) as u32;
        most.saturating_sub(self.space.borrowed).min((free / block) as u32)
    }
    fn open_in(&mut self, stream: Stream, group: u32, mode: Mode) {
        // What the collector moves stays, but for hot data and pages of the map.
        let wear = if stream == GC { Wear::Most } else { Wear::Least };
        let level = (self.config.wear_spread > 0).then_some(wear);
        let opened = self.space.open(group, mode, is_users(stream), level);
        self.counters.lines_opened += u64::from(opened.is_some());
        opened.into_iter().for_each(|s| self.refresh.opened(s));
        if stream == MAPS
            && let Some(s) = opened
        {
            self.space.superblocks[s].maps = true;
        }
        self.streams[stream].superblocks[group] = opened;
    }
    /// A superblock without a place is no stream's any more.
    pub(crate) fn close_if_full(&mut self, stream: Stream, s: SuperblockId) {
        if self.space.superblocks[s].left == 0 {
            self.gc.barren = false;
            self.gc.fold |= stream == SLC;
            self.streams[stream].superblocks[s % self.space.groups] = None;
        }
    }

    /// A unit was programmed.
    pub(crate) fn programmed(&mut self, op: u32, unit: Unit, slots: u32, stream: Stream, ok: bool) {
        let first = self.space.first_of(unit);
        let s = self.space.superblock_of(first);
        self.space.superblocks[s].programs -= 1;
        self.gc.barren &= self.space.superblocks[s].left > 0;
        let order = self.map.order_of(unit);
        if let Some(cached) = &mut self.cached {
            cached.programs(order, false);
        }
        let base = op as usize * self.g.sectors_per_unit as usize;
        if !ok {
            self.counters.program_errors += 1;
            let lun = self.space.lun_of(unit);
            let new = self.space.fail(s, self.space.block(s, lun));
            self.counters.blocks_retired += u64::from(new);
            (0..STREAMS).for_each(|stream| {
                if self.streams[stream].superblocks.contains(&Some(s)) {
                    self.close_if_full(stream, s);
                }
            });
            for i in (0..slots as usize).rev() {
                let slot = self.op_slots[base + i];
                let held = &mut self.slots[slot];
                (held.issued, held.again) = (false, true);
                self.streams[stream].queue.push_front(slot);
            }
            // Who waits for them asked for padding when there was nothing behind them.
            self.streams[stream].pad |= slots < self.g.sectors_per_unit;
            if !self.config.protected && (self.order.is_waited_for() || self.erasures_wait()) {
                self.pad_users();
            }
            for ppa in first..first + self.g.sectors_per_unit {
                self.map.note(ppa, NOBODY, 0);
            }
            return;
        }
        for (i, ppa) in (base..base + slots as usize).zip(first..) {
            let slot = self.op_slots[i];
            let lpn = self.slots[slot].lpn;
            if self.map.get(lpn) == Where::Buffer(slot) {
                self.validate(s, lpn, ppa);
                if self.cached.is_some() {
                    self.entry_changed(lpn, order);
                }
            }
            self.free_slot(slot);
        }
        self.look_for_empty(s);
    }
    /// A superblock with a bit a cell is erased as soon as nothing in it is in use.
    #[inline]
    pub(crate) fn look_for_empty(&mut self, s: SuperblockId) {
        let b = &self.space.superblocks[s];
        self.gc.empty |= b.slc && b.valid == 0 && b.programs == 0 && b.state == State::Closed;
    }
}
