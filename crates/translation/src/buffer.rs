//! A write buffer over a map of sectors: what an FTL that maps sector by sector has before its policy.

use crate::{
    Action, Breach, Command, Commands, Counters, Digest, Memory, Newest, Order, Piece, Source,
    split,
};
use std::collections::VecDeque;
use wordline_base::{Ctx, IdVec, Lpn, PageData, Stamps};
use wordline_nand::{BlockId, Class, Geometry, Ppa};

/// Map entries that are no address: nothing, unreadable, and a slot of the buffer from `SLOT` on.
const NONE: u32 = u32::MAX;
const LOST: u32 = u32::MAX - 1;
const SLOT: u32 = 0xF000_0000;

/// A slot of the buffer.
type SlotId = u32;

#[derive(Clone, Copy, Default, Debug)]
struct Slot {
    lpn: u32,
    stamp: u32,
    turn: u64,
    /// The collector put it there.
    moved: bool,
}

/// Slots that are programmed together.
#[derive(Clone, Debug)]
pub struct Filled {
    /// Numbers of the slots, in the order in which they go to flash.
    pub slots: Vec<SlotId>,
    /// The class of users' data, or of the collector's alone.
    pub class: Class,
}

/// Commands, the buffer they fill, and where each sector is. What is programmed when and where, and what is
/// collected, is the FTL's.
#[derive(Clone)]
pub struct MappedBuffer {
    /// The shape of the flash.
    g: Geometry,
    /// Where each logical sector is.
    map: IdVec<u32, u32>,
    /// The sector and stamp that each physical sector holds.
    oob: IdVec<u32, (u32, u32)>,
    /// Sectors of each block that the map points to.
    valid: IdVec<BlockId, u32>,
    /// Slots of the buffer.
    slots: IdVec<SlotId, Slot>,
    /// Free slots.
    free: Vec<SlotId>,
    /// Slots to be programmed, oldest first.
    queue: VecDeque<SlotId>,
    /// What is not durable.
    order: Order,
    /// Commands that wait for room.
    waiting: Commands,
    /// What the first write lacked when it was looked at last.
    lacks: Lack,
    /// Ends of commands, and what the FTL adds.
    pub actions: VecDeque<Action>,
    /// What happened; the buffer counts what passes through it.
    pub counters: Counters,
}

/// Why a write was not taken in whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lack {
    Nothing,
    /// No space on flash is left for it.
    Space,
    /// The slots that it may have are taken.
    Slots,
}

impl MappedBuffer {
    /// For so many logical sectors, with room for `slots` of them.
    pub fn new(g: &Geometry, sectors: u32, slots: u32) -> MappedBuffer {
        MappedBuffer {
            g: *g,
            map: IdVec::filled(NONE, sectors),
            oob: IdVec::filled((NONE, 0), g.sectors() as u32),
            valid: IdVec::filled(0, g.lines * g.luns),
            slots: IdVec::filled(Slot::default(), slots),
            free: (0..slots).rev().collect(),
            queue: VecDeque::new(),
            order: Order::default(),
            waiting: Commands::default(),
            lacks: Lack::Nothing,
            actions: VecDeque::new(),
            counters: Counters::default(),
        }
    }
    /// Logical sectors.
    pub fn sectors(&self) -> u64 {
        self.map.len() as u64
    }
    /// The block that a sector is in.
    pub fn block_of(&self, ppa: Ppa) -> BlockId {
        self.g.line_of(ppa) * self.g.luns + self.g.lun_of(ppa)
    }
    /// Sectors of the block that the map points to.
    pub fn valid_in(&self, block: BlockId) -> u32 {
        self.valid[block]
    }

    /// A write comes in behind what waits.
    pub fn write(&mut self, tag: u32, lpn: Lpn, sectors: u32, fua: bool, source: Source) {
        self.waiting.write(tag, lpn, sectors, fua, source);
    }
    /// A flush comes in behind what waits.
    pub fn flush(&mut self, tag: u32) {
        self.waiting.flush(tag);
    }
    /// A trim comes in behind what waits.
    pub fn trim(&mut self, tag: u32, lpn: Lpn, sectors: u32, stamps: &mut Stamps) {
        self.waiting.show_trim(tag, lpn, sectors, stamps);
    }
    /// The pieces of a read.
    pub fn read(&mut self, ctx: &mut Ctx, lpn: Lpn, sectors: u32, out: &mut Vec<Piece>) {
        let newest = |lpn| match self.map[lpn] {
            _ if self.waiting.trims(Lpn(lpn)) => Newest::Unmapped,
            NONE => Newest::Unmapped,
            LOST => Newest::Lost,
            slot @ SLOT.. => Newest::Buffer(self.slots[slot - SLOT].stamp),
            ppa => Newest::Flash(Ppa(ppa)),
        };
        split(ctx, &mut self.counters, self.g.sectors_per_unit, lpn, sectors, newest, out);
    }

    /// The sector points elsewhere from now on.
    fn remap(&mut self, lpn: u32, to: u32) {
        let was = std::mem::replace(&mut self.map[lpn], to);
        for (ppa, step) in [(was, -1), (to, 1)].into_iter().filter(|p| p.0 < SLOT) {
            let block = self.block_of(Ppa(ppa));
            self.valid[block] = self.valid[block].wrapping_add_signed(step);
        }
    }
    fn put(&mut self, slot: SlotId, lpn: u32, stamp: u32, moved: bool) {
        self.slots[slot] = Slot { lpn, stamp, turn: self.order.enter(), moved };
        self.queue.push_back(slot);
        self.remap(lpn, SLOT + slot);
    }

    /// Takes in the first command that waits; of a write no more than so many sectors, and `kept` slots
    /// stay the collector's. Completes what is complete.
    pub fn admit(&mut self, stamps: &mut Stamps, most: u32, kept: u32) -> bool {
        while let Some((tag, ok)) = self.order.ended() {
            self.actions.push_back(Action::Complete { tag, ok });
        }
        let Some(first) = self.waiting.first() else { return false };
        match first {
            Command::Write { tag, lpn, left, fua, cached } => {
                let free = self.free.len() as u32;
                let n = left.min(free.saturating_sub(kept).min(most));
                self.lacks = match n {
                    n if n == left => Lack::Nothing,
                    n if n == most => Lack::Space,
                    _ => Lack::Slots,
                };
                for lpn in lpn..lpn + n {
                    let stamp = self.waiting.stamp(tag, cached, stamps, lpn);
                    let slot = self.free.pop().expect("there is room");
                    self.put(slot, lpn, stamp, false);
                }
                self.counters.user_sectors += u64::from(n);
                self.waiting.took(n);
                if n == left && fua {
                    self.order.wait(tag);
                } else if n == left {
                    self.actions.push_back(Action::Complete { tag, ok: true });
                }
                return n > 0;
            }
            Command::Flush { tag } => {
                self.counters.flushes += 1;
                self.order.wait(tag);
            }
            Command::Trim { tag, lpn, sectors, shown } => {
                for lpn in lpn..lpn + sectors {
                    self.remap(lpn, NONE);
                    if !shown {
                        stamps.show_trim(tag, Lpn(lpn));
                    }
                }
                self.counters.trimmed_sectors += u64::from(sectors);
                self.actions.push_back(Action::Complete { tag, ok: true });
            }
        }
        self.waiting.pop();
        true
    }
    /// The first command is a write, and waits for the collector: for space, or while it is `collecting` for slots, some of
    /// which are its own.
    pub fn waits_for_collector(&self, collecting: bool) -> bool {
        let lacks = match self.lacks {
            Lack::Nothing => false,
            Lack::Space => true,
            Lack::Slots => collecting,
        };
        lacks && matches!(self.waiting.first(), Some(Command::Write { .. }))
    }
    /// No space can be made any more: the first command fails, if it is a write.
    pub fn refuse(&mut self) -> bool {
        let Some(Command::Write { tag, .. }) = self.waiting.first() else { return false };
        self.lacks = Lack::Nothing;
        self.counters.writes_refused += 1;
        self.counters.lost_sectors += self.waiting.refuse();
        self.actions.push_back(Action::Complete { tag, ok: false });
        true
    }
    /// A command waits for room.
    pub fn is_full(&self) -> bool {
        !self.waiting.is_empty()
    }
    /// A command waits for what is not on flash.
    pub fn is_waited_for(&self) -> bool {
        self.order.is_waited_for()
    }

    /// Slots to program next: a unit of them, or with `pad` what there is.
    pub fn fill(&mut self, pad: bool) -> Option<Filled> {
        let unit = self.g.sectors_per_unit as usize;
        if self.queue.is_empty() || self.queue.len() < unit && !pad {
            return None;
        }
        let slots: Vec<SlotId> = self.queue.drain(..unit.min(self.queue.len())).collect();
        self.counters.programmed_sectors += unit as u64;
        self.counters.pad_sectors += (unit - slots.len()) as u64;
        let moved = slots.iter().all(|&slot| self.slots[slot].moved);
        let class = if moved { Class::GcProgram } else { Class::UserProgram };
        Some(Filled { slots, class })
    }
    /// What the program of these slots writes.
    pub fn data(&self, slots: &[SlotId], to: &mut PageData) {
        for (i, &slot) in (0..).zip(slots) {
            to.put(i, self.slots[slot].lpn, self.slots[slot].stamp);
        }
    }
    /// A unit has been programmed; what could not be is the first to be programmed again.
    pub fn programmed(&mut self, ppa: Ppa, slots: Vec<SlotId>, ok: bool) {
        if !ok {
            self.counters.program_errors += 1;
            self.counters.resubmitted_sectors += slots.len() as u64;
            return slots.into_iter().rev().for_each(|slot| self.queue.push_front(slot));
        }
        for (ppa, slot) in (ppa.0..).zip(slots) {
            let Slot { lpn, stamp, turn, .. } = self.slots[slot];
            self.oob[ppa] = (lpn, stamp);
            if self.map[lpn] == SLOT + slot {
                self.remap(lpn, ppa);
            }
            self.order.leave(turn);
            self.free.push(slot);
        }
    }

    /// Sectors from here on that the map points to, as far as the unit goes.
    pub fn valid_run(&self, ppa: Ppa) -> u32 {
        let unit = self.g.sectors_per_unit;
        let valid = |&ppa: &u32| self.map.get(self.oob[ppa].0) == Some(&ppa);
        (ppa.0..ppa.0 + unit - ppa.0 % unit).take_while(valid).count() as u32
    }
    /// Slots for sectors that the collector reads, if there are so many.
    pub fn reserve(&mut self, sectors: u32) -> Option<Vec<SlotId>> {
        let rest = self.free.len().checked_sub(sectors as usize)?;
        Some(self.free.split_off(rest))
    }
    /// The collector has read these sectors: what is still valid goes through the buffer.
    pub fn collected(&mut self, ppa: Ppa, slots: Vec<SlotId>, ok: bool) {
        self.counters.gc_read_sectors += slots.len() as u64;
        self.counters.gc_read_errors += u64::from(!ok);
        for (ppa, slot) in (ppa.0..).zip(slots) {
            let (lpn, stamp) = self.oob[ppa];
            let valid = self.map[lpn] == ppa;
            if valid && ok {
                self.counters.gc_sectors += 1;
                self.put(slot, lpn, stamp, true);
                continue;
            }
            self.free.push(slot);
            self.counters.gc_stale_sectors += u64::from(!valid);
            if valid {
                self.counters.lost_sectors += 1;
                self.remap(lpn, LOST);
            }
        }
    }
    /// A block was erased; it is gained, or of no use any more.
    pub fn erased(&mut self, ok: bool, gained: bool) {
        self.counters.erases += 1;
        self.counters.erase_errors += u64::from(!ok);
        self.counters.lines_freed += u64::from(gained);
        self.counters.blocks_retired += u64::from(!gained);
    }
    /// The turn of what has not come yet: once it is passed, all that is in the buffer now is on flash.
    pub fn turn(&self) -> u64 {
        self.order.next()
    }
    /// All that came before this turn is on flash.
    pub fn is_passed(&self, turn: u64) -> bool {
        self.order.is_passed(turn)
    }

    /// [`Digest`] of what these physical sectors hold.
    pub fn digest(&self, ppa: Ppa, sectors: u32) -> u64 {
        let mut digest = Digest::new();
        for &(lpn, stamp) in self.oob.slice(ppa.0..ppa.0 + sectors) {
            digest.add(lpn, stamp);
        }
        digest.get()
    }
    /// Memory of the map and of what is known of physical sectors.
    pub fn memory(&self) -> Memory {
        let (mapping, sectors) = (4 * self.sectors(), self.g.sectors());
        Memory { mapping, stamps: 8 * sectors, pages: 2 * sectors, parity: 0, sectors }
    }
    /// Holds the map against what it points to.
    pub fn check(&self) -> Result<(), Breach> {
        let mut valid = IdVec::filled(0, self.valid.count());
        for (lpn, &code) in (0..).zip(&self.map) {
            let held = match code {
                NONE | LOST => continue,
                SLOT.. => self.slots[code - SLOT].lpn,
                ppa => {
                    valid[self.block_of(Ppa(ppa))] += 1;
                    self.oob[ppa].0
                }
            };
            if held != lpn {
                let what = format!("is mapped to {code:#x}, which holds {held}");
                return Err(Breach::Sector { lpn, what });
            }
        }
        match (0..valid.count()).find(|&block| valid[block] != self.valid[block]) {
            Some(block) => {
                let what = format!("has {} valid sectors", valid[block]);
                Err(Breach::Block { block, what })
            }
            None => Ok(()),
        }
    }
}
