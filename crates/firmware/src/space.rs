//! Superblocks: a block of each of some LUNs, opened, collected and freed together.
//!
//! The LUNs are divided into groups of equal size, in order of their numbers, so that the LUNs of a group
//! are spread over the channels. Superblock `s` is block `s / groups` of the LUNs of group `s % groups`.

use std::cmp::Reverse;
use std::collections::VecDeque;
use wordline_base::{BitMap, IdVec};
use wordline_nand::{BlockId, Geometry, LineId, LunId, Ppa};

pub(crate) type SuperblockId = u32;
/// LUNs that share superblocks.
pub(crate) type GroupId = u32;
/// A write unit: `Ppa / sectors_per_unit`.
pub(crate) type Unit = u32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Free,
    Open,
    Closed,
    /// It is being collected.
    Victim,
    /// Nothing in it is in use, and it is to be erased.
    Drained,
    /// It has no good block.
    Retired,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Superblock {
    pub state: State,
    /// Its place in the order of opening.
    pub opened: u64,
    /// The same among those that users opened; 0 for the collector's.
    pub users: u64,
    /// Sectors in use.
    pub valid: u32,
    /// Units of its good blocks when it was free, written as they were then.
    pub size: u32,
    /// Units not given out, of a free or open one.
    pub left: u32,
    /// Sectors of it that the collector has in memory.
    pub moving: u32,
    /// Programs under way.
    pub programs: u32,
    /// Reads of users under way.
    pub reads: u32,
    /// A program failed in it: it is collected before others where there is room.
    pub failed: bool,
    /// It is written with a bit a cell until it is erased.
    pub slc: bool,
    /// Pages of a map that memory holds a part of are in it.
    pub maps: bool,
}

/// How a free superblock is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Native,
    /// One that is always written with a bit a cell.
    Slc,
    /// Another one, with a bit a cell until it is erased.
    Borrowed,
}

#[derive(Clone)]
pub(crate) struct Space {
    pub g: Geometry,
    /// LUNs of a superblock.
    pub luns: u32,
    pub groups: u32,
    pub superblocks: IdVec<SuperblockId, Superblock>,
    /// Free superblocks of each group, in the order in which they are taken.
    pub free: IdVec<GroupId, VecDeque<SuperblockId>>,
    /// How many of them there are.
    pub free_count: u32,
    /// Units in them and in open ones that were not given out.
    pub room: u64,
    /// Superblocks from this line on are always written with a bit a cell. They are not among those above.
    slc_from: LineId,
    /// The free ones of each group.
    pub slc_free: IdVec<GroupId, VecDeque<SuperblockId>>,
    /// Units in these and in all open ones with a bit a cell that were not given out.
    pub slc_room: u64,
    /// Others that are written so until they are erased.
    pub borrowed: u32,
    pub bad: BitMap,
    /// Blocks in which a program failed: they are written and erased no more.
    pub failed: BitMap,
    pub erases: IdVec<BlockId, u32>,
    /// Pages given out since the last erasure.
    pub pages: IdVec<BlockId, u32>,
    /// Superblocks opened so far.
    pub opened: u64,
    /// Superblocks opened by users.
    pub users: u64,
}

/// Which free superblock is taken where wear is levelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wear {
    /// That erased least often: what is written there is soon written again.
    Least,
    /// That erased most often: what is written there stays.
    Most,
}

impl Space {
    /// `slc_lines`: so many lines' superblocks are always written with a bit a cell.
    pub fn new(
        g: &Geometry,
        luns: u32,
        slc_lines: u32,
        bad: &mut dyn FnMut(LunId, LineId) -> bool,
    ) -> Space {
        let groups = g.luns / luns;
        let fresh = Superblock {
            state: State::Retired,
            opened: 0,
            users: 0,
            valid: 0,
            size: 0,
            left: 0,
            moving: 0,
            programs: 0,
            reads: 0,
            failed: false,
            slc: false,
            maps: false,
        };
        let blocks = g.lines * g.luns;
        let mut space = Space {
            g: *g,
            luns,
            groups,
            superblocks: IdVec::filled(fresh, g.lines * groups),
            free: IdVec::filled(VecDeque::new(), groups),
            free_count: 0,
            room: 0,
            slc_from: g.lines - slc_lines,
            slc_free: IdVec::filled(VecDeque::new(), groups),
            slc_room: 0,
            borrowed: 0,
            bad: BitMap::new(blocks as usize),
            failed: BitMap::new(blocks as usize),
            erases: IdVec::filled(0, blocks),
            pages: IdVec::filled(0, blocks),
            opened: 0,
            users: 0,
        };
        for block in 0..blocks {
            if bad(block % g.luns, block / g.luns) {
                space.bad.set(block as usize);
            }
        }
        (0..space.superblocks.count()).for_each(|s| space.release(s));
        space
    }
    #[inline]
    pub fn unit_of(&self, ppa: u32) -> Unit {
        ppa / self.g.sectors_per_unit
    }
    #[inline]
    pub fn first_of(&self, unit: Unit) -> u32 {
        unit * self.g.sectors_per_unit
    }
    #[inline]
    pub fn lun_of(&self, unit: Unit) -> LunId {
        unit % self.g.luns
    }
    #[inline]
    pub fn group_of(&self, lun: LunId) -> u32 {
        if self.groups == 1 { 0 } else { lun / self.luns }
    }
    #[inline]
    pub fn superblock_of(&self, ppa: u32) -> SuperblockId {
        let line = ppa / self.g.sectors_per_line;
        if self.groups == 1 {
            return line;
        }
        line * self.groups + self.group_of(self.lun_of(self.unit_of(ppa)))
    }
    #[inline]
    pub fn block(&self, s: SuperblockId, lun: LunId) -> BlockId {
        s / self.groups * self.g.luns + lun
    }
    pub fn luns_of(&self, s: SuperblockId) -> impl Iterator<Item = LunId> + use<> {
        let first = s % self.groups * self.luns;
        first..first + self.luns
    }
    pub fn blocks_of(&self, s: SuperblockId) -> impl Iterator<Item = BlockId> + use<> {
        let line = s / self.groups * self.g.luns;
        self.luns_of(s).map(move |lun| line + lun)
    }
    pub fn is_bad(&self, block: BlockId) -> bool {
        self.bad.get(block as usize)
    }
    /// It is always written with a bit a cell.
    #[inline]
    pub fn is_static(&self, s: SuperblockId) -> bool {
        s / self.groups >= self.slc_from
    }
    /// Units that were given out of superblocks with a bit a cell.
    pub fn slc_taken(&self) -> u64 {
        let all = (0..).zip(&self.superblocks);
        let in_use = all.filter(|(_, b)| b.slc && matches!(b.state, State::Open | State::Closed));
        in_use.map(|(s, b)| u64::from(self.units_of(s).saturating_sub(b.left))).sum()
    }
    /// Pages of its blocks, as they are written.
    #[inline]
    pub fn pages_of(&self, s: SuperblockId) -> u32 {
        if self.superblocks[s].slc { self.g.slc_pages } else { self.g.pages }
    }
    /// Units of a superblock's good blocks.
    pub fn units_of(&self, s: SuperblockId) -> u32 {
        self.blocks_of(s).filter(|&b| !self.is_bad(b)).count() as u32 * self.pages_of(s)
    }
    /// The first sector of a block.
    pub fn first_of_block(&self, block: BlockId) -> Ppa {
        self.g.first_of_unit(self.g.unit_at(block / self.g.luns, 0, block % self.g.luns))
    }
    /// Places of a superblock that is not written with a bit a cell, page after page.
    pub fn places(&self) -> u32 {
        self.luns * self.g.pages
    }
    /// Places of a superblock as it is written.
    pub fn places_of(&self, s: SuperblockId) -> u32 {
        self.luns * self.pages_of(s)
    }
    /// Units of room that its erasure gives: none of one that is always written with a bit a cell.
    #[inline]
    pub fn worth(&self, s: SuperblockId) -> u64 {
        if self.is_static(s) { 0 } else { self.places().into() }
    }
    /// Of these, the part of what the collector has gone through.
    #[inline]
    pub fn worth_until(&self, s: SuperblockId, next: u32) -> u64 {
        if !self.superblocks[s].slc {
            return next.into();
        }
        self.worth(s) * u64::from(next) / u64::from(self.places_of(s).max(1))
    }
    pub fn unit_at(&self, s: SuperblockId, place: u32) -> Unit {
        let (page, lun) = (place / self.luns, place % self.luns);
        let lun = s % self.groups * self.luns + lun;
        self.g.unit_at(s / self.groups, page, lun).0
    }
    /// Erasures of a superblock: those of its first good block, with which the others are erased.
    pub fn wear(&self, s: SuperblockId) -> u32 {
        self.blocks_of(s).find(|&b| !self.is_bad(b)).map_or(0, |b| self.erases[b])
    }
    /// Takes a free superblock of a group: the first, or to level wear one by its erasures.
    pub fn open(
        &mut self,
        group: u32,
        mode: Mode,
        by_users: bool,
        level: Option<Wear>,
    ) -> Option<SuperblockId> {
        let lists = if mode == Mode::Slc { &self.slc_free } else { &self.free };
        let free = &lists[group];
        let i = match level {
            None => 0,
            Some(Wear::Least) => (0..free.len()).min_by_key(|&i| self.wear(free[i]))?,
            Some(Wear::Most) => (0..free.len()).min_by_key(|&i| Reverse(self.wear(free[i])))?,
        };
        let lists = if mode == Mode::Slc { &mut self.slc_free } else { &mut self.free };
        let s = lists[group].remove(i)?;
        if mode != Mode::Slc {
            self.free_count -= 1;
        }
        if mode == Mode::Borrowed {
            self.borrow(s);
            self.slc_room += u64::from(self.superblocks[s].left);
        }
        self.opened += 1;
        self.users += u64::from(by_users);
        let superblock = &mut self.superblocks[s];
        superblock.state = State::Open;
        superblock.opened = self.opened;
        superblock.users = if by_users { self.users } else { 0 };
        Some(s)
    }
    /// A free superblock is written with a bit a cell: its room is that of fewer pages.
    fn borrow(&mut self, s: SuperblockId) {
        self.room -= u64::from(self.superblocks[s].left);
        self.superblocks[s].slc = true;
        self.superblocks[s].left = self.units_of(s);
        self.borrowed += 1;
    }
    /// A free superblock is closed as it is, written with a bit a cell or not.
    pub fn close(&mut self, s: SuperblockId, slc: bool) {
        let group = s % self.groups;
        if self.is_static(s) {
            self.slc_free[group].retain(|&free| free != s);
            self.slc_room -= u64::from(self.superblocks[s].left);
        } else {
            self.free[group].retain(|&free| free != s);
            self.free_count -= 1;
            match slc {
                true => self.borrow(s),
                false => self.room -= u64::from(self.superblocks[s].left),
            }
        }
        let superblock = &mut self.superblocks[s];
        (superblock.left, superblock.state) = (0, State::Closed);
    }
    /// Units that its blocks can take.
    pub fn left_of(&self, s: SuperblockId) -> u32 {
        let takes = self.blocks_of(s).filter(|&block| self.takes(block));
        let pages = self.pages_of(s);
        takes.map(|block| pages - self.pages[block]).sum()
    }
    /// A closed superblock is gone on with.
    pub fn reopen(&mut self, s: SuperblockId, by_users: bool) {
        let left = self.left_of(s);
        self.users += u64::from(by_users);
        *self.room_of(s) += u64::from(left);
        let superblock = &mut self.superblocks[s];
        (superblock.state, superblock.left) = (State::Open, left);
        superblock.users = if by_users { self.users } else { 0 };
    }
    /// The units that its own count among.
    fn room_of(&mut self, s: SuperblockId) -> &mut u64 {
        if self.superblocks[s].slc { &mut self.slc_room } else { &mut self.room }
    }
    #[inline]
    pub fn superblock_of_block(&self, block: BlockId) -> SuperblockId {
        let (line, lun) = (block / self.g.luns, block % self.g.luns);
        line * self.groups + self.group_of(lun)
    }
    /// The block can take a unit.
    #[inline]
    pub fn takes(&self, block: BlockId) -> bool {
        let pages = match self.g.slc_pages {
            0 => self.g.pages,
            _ => self.pages_of(self.superblock_of_block(block)),
        };
        self.pages[block] < pages && !self.is_bad(block) && !self.failed.get(block as usize)
    }
    /// Gives out the next unit of a block; the superblock is closed with its last.
    pub fn take(&mut self, s: SuperblockId, lun: LunId) -> Unit {
        let block = self.block(s, lun);
        let unit = self.g.unit_at(s / self.groups, self.pages[block], lun).0;
        self.pages[block] += 1;
        self.give(s, 1);
        unit
    }
    /// Units of an open superblock are no more to be had.
    fn give(&mut self, s: SuperblockId, units: u32) {
        *self.room_of(s) -= u64::from(units);
        let superblock = &mut self.superblocks[s];
        superblock.left -= units;
        if superblock.left == 0 && superblock.state == State::Open {
            superblock.state = State::Closed;
        }
    }
    /// An open superblock takes no more units.
    pub fn seal(&mut self, s: SuperblockId) {
        self.give(s, self.superblocks[s].left);
    }
    /// A program failed in the block. False: one had failed in it before.
    pub fn fail(&mut self, s: SuperblockId, block: BlockId) -> bool {
        let new = self.failed.set(block as usize);
        if new {
            self.superblocks[s].failed = true;
            if self.superblocks[s].state == State::Open {
                self.give(s, self.pages_of(s) - self.pages[block]);
            }
        }
        new
    }
    /// A superblock is erased: it is free, or of no use any more.
    pub fn release(&mut self, s: SuperblockId) {
        let is_static = self.is_static(s);
        let was_slc = std::mem::replace(&mut self.superblocks[s].slc, is_static);
        self.borrowed -= u32::from(was_slc && !is_static);
        let units = self.units_of(s);
        let superblock = &mut self.superblocks[s];
        (superblock.size, superblock.left, superblock.failed) = (units, units, false);
        superblock.maps = false;
        superblock.state = if units > 0 { State::Free } else { State::Retired };
        if units == 0 {
            return;
        }
        *self.room_of(s) += u64::from(units);
        let group = s % self.groups;
        if is_static {
            self.slc_free[group].push_back(s);
        } else {
            self.free[group].push_back(s);
            self.free_count += 1;
        }
    }
}
