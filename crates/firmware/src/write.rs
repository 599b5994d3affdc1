//! The buffer, and the streams of units that leave it.

use crate::config::Allocation;
use crate::map::{NOBODY, Where};
use crate::space::{SuperblockId, Unit};
use crate::{Firmware, Op};
use std::collections::VecDeque;
use wordline_base::{Lpn, Stamps};
use wordline_nand::{Class, LunId, Ppa};
use wordline_translation::{Action, Command};

/// What goes to superblocks of its own: data of users, those that are hot, and the collector's.
pub(crate) type Stream = usize;
pub(crate) const HOST: Stream = 0;
pub(crate) const HOT: Stream = 1;
pub(crate) const GC: Stream = 2;

/// No superblock: a sector of a user.
const USER: SuperblockId = SuperblockId::MAX;

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
}

impl Default for Slot {
    fn default() -> Slot {
        Slot { lpn: NOBODY, stamp: 0, from: USER, issued: false, again: false, turn: 0 }
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
    pub superblocks: Vec<Option<SuperblockId>>,
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
            superblocks: vec![None; groups as usize],
            cursor: 0,
            pad: false,
            place: (0, 0),
        }
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
                    self.counters.flushes += 1;
                    self.waiting.pop();
                    let protected = self.config.protected;
                    let lost = self.read_only && !protected && self.queued() > 0;
                    match protected || lost {
                        true => self.actions.push_back(Action::Complete { tag, ok: !lost }),
                        false => self.wait(tag),
                    }
                }
                Command::Trim { tag, lpn, sectors } => {
                    for lpn in lpn..lpn + sectors {
                        if let Where::Flash(ppa) = self.map.set(lpn, Where::Unmapped) {
                            self.invalidate(ppa);
                        }
                        stamps.show_trim(tag, Lpn(lpn));
                    }
                    self.counters.trimmed_sectors += u64::from(sectors);
                    self.waiting.pop();
                    self.actions.push_back(Action::Complete { tag, ok: true });
                }
            }
            progress = true;
        }
        progress
    }
    /// There is room in the buffer, and the collector has done what it owes.
    #[inline]
    fn takes_sector(&self) -> bool {
        !self.free[0].is_empty() && !self.gc_lags() && (self.config.protected || self.has_place())
    }
    /// What users have in the buffer, and a sector more, find a place even if each is padded to a unit: an
    /// erasure may wait for them.
    pub(crate) fn has_place(&self) -> bool {
        let gc = self.streams[GC].superblocks.iter().flatten();
        let kept: u64 = gc.map(|&s| u64::from(self.space.superblocks[s].left)).sum();
        self.space.room > kept + self.plan.kept + self.queued() as u64
    }
    /// Sectors of users that wait for a program.
    fn queued(&self) -> usize {
        self.streams[HOST].queue.len() + self.streams[HOT].queue.len()
    }
    /// Opens a superblock for what users have in the buffer, of those that are the collector's.
    pub(crate) fn open_for_users(&mut self) -> bool {
        let none = self.streams[..GC].iter().all(|s| s.superblocks.iter().all(Option::is_none));
        if !none || self.queued() == 0 || self.space.free_count == 0 {
            return false;
        }
        let group = self.fullest_group();
        self.open_in(HOST, group);
        true
    }
    /// The group with the most free superblocks.
    fn fullest_group(&self) -> u32 {
        let most = |&group: &u32| (self.space.free[group as usize].len(), std::cmp::Reverse(group));
        (0..self.space.groups).max_by_key(most).expect("there is a group")
    }
    /// What users have in the buffer will never be on flash.
    pub(crate) fn lose_buffer(&mut self) {
        for slot in self.streams[..GC].iter().flat_map(|stream| &stream.queue) {
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
    }
    /// A sector of a user enters the buffer. One that waits there already is written over.
    fn put(&mut self, lpn: u32, stamp: u32) {
        if let Where::Buffer(slot) = self.map.get(lpn) {
            let held = &mut self.slots[slot];
            if !held.issued && held.from == USER {
                held.stamp = stamp;
                self.counters.absorbed_sectors += 1;
                return;
            }
        }
        let slot = self.free[0].pop().expect("there is room");
        let hot = match self.map.set(lpn, Where::Buffer(slot)) {
            Where::Flash(ppa) => {
                let hot = self.plan.young > 0 && self.is_young(ppa);
                self.invalidate(ppa);
                hot
            }
            Where::Buffer(_) => self.plan.young > 0,
            Where::Unmapped | Where::Lost => false,
        };
        let turn = if self.config.protected { 0 } else { self.order.enter() };
        self.slots[slot] = Slot { lpn, stamp, turn, ..Slot::default() };
        self.streams[if hot { HOT } else { HOST }].queue.push_back(slot);
        self.owe();
    }
    /// A user wrote the sector there, to one of the superblocks that users opened last. What the collector
    /// moved is cold.
    pub(crate) fn is_young(&self, ppa: u32) -> bool {
        let s = &self.space.superblocks[self.space.superblock_of(ppa)];
        s.users > 0 && s.users + self.plan.young > self.space.users
    }
    /// A sector that was read from a victim enters the collector's buffer.
    pub(crate) fn put_moved(&mut self, lpn: u32, stamp: u32, from: SuperblockId) {
        let slot = self.free[1].pop().expect("a slot was kept");
        if let Where::Flash(ppa) = self.map.set(lpn, Where::Buffer(slot)) {
            self.invalidate(ppa);
        }
        self.space.superblocks[from].moving += 1;
        self.slots[slot] = Slot { lpn, stamp, from, ..Slot::default() };
        self.streams[GC].queue.push_back(slot);
    }
    /// A slot is over.
    fn free_slot(&mut self, slot: u32) {
        let Slot { from, turn, .. } = self.slots[slot];
        if from != USER {
            self.space.superblocks[from].moving -= 1;
        } else if !self.config.protected {
            self.order.leave(turn);
        }
        self.free[usize::from(slot >= self.plan.slots)].push(slot);
    }

    /// Programs what is complete, on LUNs that are idle.
    pub(crate) fn program(&mut self) -> bool {
        let mut progress = false;
        for stream in [GC, HOST, HOT] {
            while self.idle_luns > 0 {
                let s = &mut self.streams[stream];
                let waiting = s.queue.len();
                if waiting == 0 {
                    s.pad = false;
                    break;
                }
                if waiting < self.g.sectors_per_unit as usize && !s.pad || !self.form(stream) {
                    break;
                }
                progress = true;
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
            self.free_slot(slot);
        }
        if chosen < unit_sectors && !self.streams[stream].pad || chosen == 0 {
            return false;
        }
        let unit = self.space.take(s, lun);
        self.space.superblocks[s].programs += 1;
        self.occupy(lun, true);
        self.close_if_full(through, s);
        let (first, n) = (self.space.first_of(unit), chosen as u32);
        let op = self.ops.insert(Op::Program { unit, slots: n, stream });
        let base = op as usize * unit_sectors;
        if self.op_slots.len() < base + unit_sectors {
            self.op_slots.resize(base + unit_sectors, 0);
        }
        for (i, ppa) in (base..base + unit_sectors).zip(first..) {
            if i >= base + chosen {
                self.map.note(ppa, NOBODY, 0);
                continue;
            }
            let slot = self.streams[stream].queue.pop_front().expect("they were counted");
            let held = &mut self.slots[slot];
            held.issued = true;
            self.op_slots[i] = slot;
            self.map.note(ppa, held.lpn, held.stamp);
            match (held.again, held.from) {
                (true, _) => self.counters.resubmitted_sectors += 1,
                (false, USER) => self.counters.user_sectors += 1,
                (false, _) => self.counters.gc_sectors += 1,
            }
        }
        self.counters.programmed_sectors += unit_sectors as u64;
        self.counters.pad_sectors += (unit_sectors - chosen) as u64;
        let class = if stream == GC { Class::GcProgram } else { Class::UserProgram };
        let ppa = Ppa(first);
        self.actions.push_back(Action::Program { op, ppa, class, payload: n, summed: 0 });
        self.set_pace();
        true
    }
    /// Where the next unit of a stream goes: users' streams use each other's superblocks where there is no
    /// other space.
    fn next_place(&mut self, stream: Stream) -> Option<(Stream, SuperblockId, LunId)> {
        let own = self.next_lun(stream).map(|(s, lun)| (stream, s, lun));
        let none = |superblocks: &[Option<SuperblockId>]| superblocks.iter().all(Option::is_none);
        if own.is_some() || stream == GC || !none(&self.streams[stream].superblocks) {
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
        let is_static = stream != GC && self.config.allocation == Allocation::Static;
        let avoid = stream != GC && !is_static && self.reads > 0;
        let (luns, cursor) = (self.g.luns, self.streams[stream].cursor);
        let mut second = None;
        for lun in (cursor..luns).chain(0..cursor) {
            let group = self.space.group_of(lun);
            let Some(s) = self.streams[stream].superblocks[group as usize] else { continue };
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
        if stream == GC {
            if open.iter().any(Option::is_some) || self.space.free_count == 0 {
                return;
            }
            let group = self.fullest_group();
            self.open_in(stream, group);
            return;
        }
        for group in 0..self.space.groups {
            if self.streams[stream].superblocks[group as usize].is_none()
                && self.space.free_count > self.plan.reserve
            {
                self.open_in(stream, group);
            }
        }
    }
    fn open_in(&mut self, stream: Stream, group: u32) {
        let opened = self.space.open(group, stream != GC);
        self.counters.lines_opened += u64::from(opened.is_some());
        self.streams[stream].superblocks[group as usize] = opened;
    }
    /// A superblock without a place is no stream's any more.
    pub(crate) fn close_if_full(&mut self, stream: Stream, s: SuperblockId) {
        if self.space.superblocks[s].left == 0 {
            self.gc.barren = false;
            self.streams[stream].superblocks[(s % self.space.groups) as usize] = None;
        }
    }

    /// A unit was programmed.
    pub(crate) fn programmed(&mut self, op: u32, unit: Unit, slots: u32, stream: Stream, ok: bool) {
        let first = self.space.first_of(unit);
        let s = self.space.superblock_of(first);
        self.space.superblocks[s].programs -= 1;
        self.gc.barren &= self.space.superblocks[s].left > 0;
        let base = op as usize * self.g.sectors_per_unit as usize;
        if !ok {
            self.counters.program_errors += 1;
            let lun = self.space.lun_of(unit);
            self.space.fail(s, self.space.block(s, lun));
            (0..3).for_each(|stream| {
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
            }
            self.free_slot(slot);
        }
    }
}
