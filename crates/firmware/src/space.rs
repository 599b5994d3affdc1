//! Superblocks: a block of each of some LUNs, opened, collected and freed together.
//!
//! The LUNs are divided into groups of equal size, in order of their numbers, so that the LUNs of a group
//! are spread over the channels. Superblock `s` is block `s / groups` of the LUNs of group `s % groups`.

use std::cmp::Reverse;
use std::collections::VecDeque;
use wordline_base::{BitMap, IdVec};
use wordline_nand::{BlockId, Geometry, LineId, LunId, Ppa};

pub(crate) type SuperblockId = u32;
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
    /// Units of its good blocks when it was free.
    pub size: u32,
    /// Units not given out, of a free or open one.
    pub left: u32,
    /// Sectors of it that the collector has in memory.
    pub moving: u32,
    /// Programs under way.
    pub programs: u32,
    /// Reads of users under way.
    pub reads: u32,
    /// A program failed in it: it is collected before others.
    pub failed: bool,
}

#[derive(Clone)]
pub(crate) struct Space {
    pub g: Geometry,
    /// LUNs of a superblock.
    pub luns: u32,
    pub groups: u32,
    pub superblocks: IdVec<SuperblockId, Superblock>,
    /// Free superblocks of each group, in the order in which they are taken.
    pub free: Vec<VecDeque<SuperblockId>>,
    /// All of them, and units in them and in open ones that were not given out.
    pub free_count: u32,
    pub room: u64,
    pub bad: BitMap,
    /// Blocks in which a program failed: they are written and erased no more.
    pub failed: BitMap,
    pub erases: IdVec<BlockId, u32>,
    /// Pages given out since the last erasure.
    pub pages: IdVec<BlockId, u32>,
    /// Superblocks opened so far, and those by users.
    pub opened: u64,
    pub users: u64,
}

impl Space {
    pub fn new(g: &Geometry, luns: u32, bad: &mut dyn FnMut(LunId, LineId) -> bool) -> Space {
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
        };
        let blocks = g.lines * g.luns;
        let mut space = Space {
            g: *g,
            luns,
            groups,
            superblocks: IdVec::filled(fresh, g.lines * groups),
            free: vec![VecDeque::new(); groups as usize],
            free_count: 0,
            room: 0,
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
    /// Units of a superblock's good blocks.
    pub fn units_of(&self, s: SuperblockId) -> u32 {
        self.blocks_of(s).filter(|&b| !self.is_bad(b)).count() as u32 * self.g.pages
    }
    /// The first sector of a block.
    pub fn first_of_block(&self, block: BlockId) -> Ppa {
        self.g.first_of_unit(self.g.unit_at(block / self.g.luns, 0, block % self.g.luns))
    }
    /// Places of a superblock, page after page.
    pub fn places(&self) -> u32 {
        self.luns * self.g.pages
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
    /// Takes a free superblock of a group: the first, or to level wear the one erased least often for users
    /// and most often for what the collector moves, which stays longer.
    pub fn open(&mut self, group: u32, by_users: bool, level: bool) -> Option<SuperblockId> {
        let free = &self.free[group as usize];
        let i = match level {
            false => 0,
            true if by_users => (0..free.len()).min_by_key(|&i| self.wear(free[i]))?,
            true => (0..free.len()).min_by_key(|&i| Reverse(self.wear(free[i])))?,
        };
        let s = self.free[group as usize].remove(i)?;
        self.free_count -= 1;
        self.opened += 1;
        self.users += u64::from(by_users);
        let superblock = &mut self.superblocks[s];
        superblock.state = State::Open;
        superblock.opened = self.opened;
        superblock.users = if by_users { self.users } else { 0 };
        Some(s)
    }
    /// A free superblock is closed as it is.
    pub fn close(&mut self, s: SuperblockId) {
        self.free[(s % self.groups) as usize].retain(|&free| free != s);
        let superblock = &mut self.superblocks[s];
        self.free_count -= 1;
        self.room -= u64::from(superblock.left);
        (superblock.left, superblock.state) = (0, State::Closed);
    }
    /// Units that its blocks can take.
    pub fn left_of(&self, s: SuperblockId) -> u32 {
        let takes = self.blocks_of(s).filter(|&block| self.takes(block));
        takes.map(|block| self.g.pages - self.pages[block]).sum()
    }
    /// A closed superblock is gone on with.
    pub fn reopen(&mut self, s: SuperblockId, by_users: bool) {
        let left = self.left_of(s);
        self.users += u64::from(by_users);
        self.room += u64::from(left);
        let superblock = &mut self.superblocks[s];
        (superblock.state, superblock.left) = (State::Open, left);
        superblock.users = if by_users { self.users } else { 0 };
    }
    /// The block can take a unit.
    #[inline]
    pub fn takes(&self, block: BlockId) -> bool {
        self.pages[block] < self.g.pages && !self.is_bad(block) && !self.failed.get(block as usize)
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
        let superblock = &mut self.superblocks[s];
        superblock.left -= units;
        self.room -= u64::from(units);
        if superblock.left == 0 && superblock.state == State::Open {
            superblock.state = State::Closed;
        }
    }
    /// A program failed in the block.
    pub fn fail(&mut self, s: SuperblockId, block: BlockId) {
        if !self.failed.set(block as usize) {
            return;
        }
        self.superblocks[s].failed = true;
        if self.superblocks[s].state == State::Open {
            self.give(s, self.g.pages - self.pages[block]);
        }
    }
    /// A superblock is erased: it is free, or of no use any more.
    pub fn release(&mut self, s: SuperblockId) {
        let units = self.units_of(s);
        let superblock = &mut self.superblocks[s];
        (superblock.size, superblock.left, superblock.failed) = (units, units, false);
        superblock.state = if units > 0 { State::Free } else { State::Retired };
        if units > 0 {
            self.free[(s % self.groups) as usize].push_back(s);
            self.free_count += 1;
            self.room += u64::from(units);
        }
    }
}
