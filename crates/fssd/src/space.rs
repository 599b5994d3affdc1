//! Segments: a block of each LUN of a channel group, which are written and erased together.

use std::collections::VecDeque;
use wordline_base::{BitMap, IdVec};
use wordline_nand::{BlockId, Geometry, LineId, LunId, Ppa};

pub(crate) type SegmentId = u32;
/// Channels that share segments.
pub(crate) type GroupId = u32;
/// A unit of the drive, by its number.
pub(crate) type Unit = u32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Free,
    Open,
    Closed,
    Victim,
    /// No good block is left.
    Retired,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub state: State,
    /// The order of opening.
    pub opened: u64,
    /// Places given out, those in bad blocks included.
    pub next: u32,
    /// Sectors of it that are in use, metadata included, and those of metadata.
    pub valid: u32,
    pub meta: u32,
    /// Units that are not programmed.
    pub buffered: u32,
    /// Reads of users under way.
    pub reads: u32,
}

/// Which unit is in which segment.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    g: Geometry,
    groups: u32,
    /// Channels of a group.
    channels: u32,
}

impl Shape {
    pub fn luns(&self) -> u32 {
        self.g.luns / self.groups
    }
    /// Blocks of a segment, the bad ones included.
    pub fn blocks(self, s: SegmentId) -> impl Iterator<Item = BlockId> {
        let (group, line) = (s % self.groups, s / self.groups);
        (0..self.luns()).map(move |i| {
            let row = i / self.channels * self.g.channels;
            line * self.g.luns + row + group * self.channels + i % self.channels
        })
    }
    #[inline]
    pub fn segment_of(&self, unit: Unit) -> SegmentId {
        let group = unit % self.g.luns % self.g.channels / self.channels;
        unit / self.g.units_per_line() * self.groups + group
    }
    /// The place of this number in a segment: units go LUN after LUN, then page after page.
    pub fn unit_at(&self, s: SegmentId, place: u32) -> Unit {
        let luns = self.luns();
        let (page, i) = (place / luns, place % luns);
        let row = i / self.channels * self.g.channels;
        let lun = row + s % self.groups * self.channels + i % self.channels;
        (s / self.groups * self.g.pages + page) * self.g.luns + lun
    }
    pub fn places(&self) -> u32 {
        self.luns() * self.g.pages
    }
}

#[derive(Clone)]
pub(crate) struct Space {
    /// The shape of the flash.
    pub g: Geometry,
    /// How many groups of LUNs there are.
    pub groups: u32,
    /// Where the blocks of a segment are.
    pub shape: Shape,
    /// Segments.
    pub segments: IdVec<SegmentId, Segment>,
    /// Free segments of each group, in the order in which they are taken.
    free: IdVec<GroupId, VecDeque<SegmentId>>,
    /// How many free segments there are.
    free_segments: u32,
    /// Blocks that are bad.
    pub bad: BitMap,
    /// Erasures of each block.
    pub erases: IdVec<BlockId, u32>,
    /// Pages of each block that are programmed.
    pub programmed: IdVec<BlockId, u32>,
    /// Sectors of each unit that the map points to.
    pub valid: IdVec<Unit, u32>,
    /// Units that are not programmed.
    pub buffered: BitMap,
    /// Segments opened so far.
    pub opened: u64,
}

impl Space {
    pub fn new(g: &Geometry, groups: u32, bad: &mut dyn FnMut(LunId, LineId) -> bool) -> Space {
        let fresh = Segment {
            state: State::Free,
            opened: 0,
            next: 0,
            valid: 0,
            meta: 0,
            buffered: 0,
            reads: 0,
        };
        let (blocks, units) = (g.lines * g.luns, g.lines * g.units_per_line());
        let mut space = Space {
            g: *g,
            groups,
            shape: Shape { g: *g, groups, channels: g.channels / groups },
            segments: IdVec::filled(fresh, g.lines * groups),
            free: IdVec::filled(VecDeque::new(), groups),
            free_segments: 0,
            bad: BitMap::new(blocks as usize),
            erases: IdVec::filled(0, blocks),
            programmed: IdVec::filled(0, blocks),
            valid: IdVec::filled(0, units),
            buffered: BitMap::new(units as usize),
            opened: 0,
        };
        for block in 0..blocks {
            if bad(block % g.luns, block / g.luns) {
                space.bad.set(block as usize);
            }
        }
        (0..space.segments.count()).for_each(|s| space.release(s));
        space
    }
    pub fn is_bad(&self, block: BlockId) -> bool {
        self.bad.get(block as usize)
    }
    pub fn good_blocks(&self, s: SegmentId) -> u32 {
        self.shape.blocks(s).filter(|&b| !self.is_bad(b)).count() as u32
    }
    /// Sectors of a segment.
    pub fn size(&self, s: SegmentId) -> u32 {
        self.good_blocks(s) * self.g.pages * self.g.sectors_per_unit
    }
    pub fn block_of(&self, unit: Unit) -> BlockId {
        unit / self.g.units_per_line() * self.g.luns + unit % self.g.luns
    }
    #[inline]
    pub fn unit_of(&self, ppa: u32) -> Unit {
        ppa / self.g.sectors_per_unit
    }
    pub fn first_of(&self, unit: Unit) -> Ppa {
        Ppa(unit * self.g.sectors_per_unit)
    }
    #[inline]
    pub fn free_segments(&self) -> u32 {
        self.free_segments
    }
    /// Free segments of each group.
    pub fn free(&self) -> &IdVec<GroupId, VecDeque<SegmentId>> {
        &self.free
    }
    pub fn set_free(&mut self, group: GroupId, free: VecDeque<SegmentId>) {
        self.free_segments -= self.free[group].len() as u32;
        self.free_segments += free.len() as u32;
        self.free[group] = free;
    }
    /// Takes a free segment of a group.
    pub fn open(&mut self, group: u32) -> Option<SegmentId> {
        let s = self.free[group].pop_front()?;
        self.free_segments -= 1;
        self.opened += 1;
        self.segments[s] = Segment { state: State::Open, opened: self.opened, ..self.segments[s] };
        Some(s)
    }
    /// The next unit of an open segment; it is closed with the last.
    pub fn next_unit(&mut self, s: SegmentId) -> Option<Unit> {
        let unit = self.skip(s);
        if unit.is_some() {
            self.segments[s].next += 1;
            self.skip(s);
        }
        if self.segments[s].next == self.shape.places() {
            self.segments[s].state = State::Closed;
        }
        unit
    }
    /// Units of a segment that can be written: in no bad block, and not programmed.
    pub fn blank_units(&self, s: SegmentId) -> u32 {
        let good = self.shape.blocks(s).filter(|&b| !self.is_bad(b));
        good.map(|b| self.g.pages - self.programmed[b]).sum()
    }
    /// A segment that was written to before the power went is written on.
    pub fn reopen(&mut self, s: SegmentId) {
        self.opened += 1;
        let opened = self.opened;
        self.segments[s] = Segment { state: State::Open, opened, next: 0, ..self.segments[s] };
        self.skip(s);
    }
    /// Passes over places in bad blocks, and over those that were programmed before the power went.
    fn skip(&mut self, s: SegmentId) -> Option<Unit> {
        while self.segments[s].next < self.shape.places() {
            let unit = self.shape.unit_at(s, self.segments[s].next);
            let block = self.block_of(unit);
            let page = self.segments[s].next / self.shape.luns();
            if !self.is_bad(block) && page >= self.programmed[block] {
                return Some(unit);
            }
            self.segments[s].next += 1;
        }
        None
    }
    /// A segment is erased: it is free, or of no use any more.
    pub fn release(&mut self, s: SegmentId) {
        let good = self.good_blocks(s) > 0;
        let segment = &mut self.segments[s];
        segment.next = 0;
        segment.state = if good { State::Free } else { State::Retired };
        if good {
            let group = s % self.groups;
            self.free[group].push_back(s);
            self.free_segments += 1;
        }
    }
    /// So many sectors from here on are in use, or no more. They may be in several units.
    #[inline]
    pub fn count(&mut self, ppa: u32, sectors: u32, used: bool) {
        let size = self.g.sectors_per_unit;
        let (mut at, end) = (ppa, ppa + sectors);
        while at < end {
            let unit = at / size;
            let n = end.min((unit + 1) * size) - at;
            let s = self.shape.segment_of(unit);
            let (unit, segment) = (&mut self.valid[unit], &mut self.segments[s].valid);
            debug_assert!(used || *unit >= n && *segment >= n);
            let by = if used { n } else { n.wrapping_neg() };
            (*unit, *segment) = (unit.wrapping_add(by), segment.wrapping_add(by));
            at += n;
        }
    }
    /// The same of metadata, which no unit counts.
    pub fn count_meta(&mut self, ppa: u32, sectors: u32, used: bool) {
        let s = self.shape.segment_of(self.unit_of(ppa));
        let segment = &mut self.segments[s];
        let by = if used { sectors as i32 } else { -(sectors as i32) };
        segment.valid = segment.valid.wrapping_add_signed(by);
        segment.meta = segment.meta.wrapping_add_signed(by);
    }
}
