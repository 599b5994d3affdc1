//! Lines: one block of every LUN, written front to back, erased together (pblk-core, pblk-map).
//!
//! ```text
//! unit 0 ............................................................ last
//! [smeta][data, LUN after LUN, page after page ............][emeta .....]
//! ```
//!
//! smeta is the first good data unit, emeta the last good units; bad blocks are skipped. A
//! line goes Free -> Next -> Open -> Closing -> Closed -> Gc -> Free. `Next` is taken off the free
//! list early and erased block by block beside the writes to the open line; `Closing` has its data
//! and waits for emeta. The free list is FIFO, which is all of pblk's wear levelling.
//!
//! With strides some LUNs of a line hold parity: their units are written when the data of a stripe
//! are mapped. emeta then takes the last *data* units, so that all data keep parity, and all units
//! of the stripes that hold nothing else.
//!
//! With hot and cold data apart (RAIL-HC) a line is the blocks of one block id on one side of a
//! partition of the strides. Lines keep the LUNs they were opened with when the partition
//! moves; a new line takes those of its side that are free. Line numbers are then handed out.

mod blocks;
mod saved;

use crate::config::{FtlConfig, ParityPlace};
use crate::stride::Strides;
use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use wordline_base::{BadValue, IdVec};
use wordline_nand::{BlockId, Geometry, LineId, LunId};

/// Where a line is between two erasures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LineState {
    /// Erased, or to be erased before use.
    Free,
    /// To be opened next; being erased.
    Next,
    /// Being filled.
    Open,
    /// Full; its metadata are being written.
    Closing,
    /// Full, with its metadata on flash.
    Closed,
    /// A victim.
    Gc,
    /// Too few good blocks.
    Bad,
}

/// pblk's lists of lines to collect, by their valid share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Group {
    /// Not closed.
    None,
    /// Nothing valid left: free at once.
    Full,
    /// Less than a quarter valid.
    High,
    /// Less than half.
    Mid,
    /// At least half, not all.
    Low,
    /// All valid: nothing to gain.
    Empty,
    /// Had a write error: collected first.
    WriteError,
}

/// Which data a line takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Stream {
    /// Users' and the collector's, as in pblk.
    Mixed,
    /// Users', and the collector's when there is no cold line for it.
    Hot,
    /// The collector's.
    Cold,
}

impl Stream {
    /// Its open line, buffer and write thread: cold data have their own.
    #[inline]
    pub(crate) fn side(self) -> usize {
        usize::from(self == Stream::Cold)
    }
}

/// Number of no line.
pub(crate) const NO_LINE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub state: LineState,
    pub stream: Stream,
    pub block: u32,
    /// Position in the order of opening.
    pub seq: u64,
    /// LUNs whose block is good.
    pub good: u32,
    /// Data units it can hold, metadata and parity taken off.
    pub capacity: u32,
    pub strides: Option<Strides>,
    pub smeta: u32,
    /// Next unit to map.
    pub cur: u32,
    /// Data units left to map.
    pub left: u32,
    /// Sectors of unit `cur` that ageing has used.
    pub fill: u32,
    /// First unit of emeta: all data units from here on are emeta.
    pub emeta: u32,
    /// First page whose parity units are emeta too, as all later ones.
    pub whole: u32,
    /// Next emeta unit to write.
    pub emeta_cur: u32,
    /// Emeta units that are being written.
    pub emeta_out: u32,
    /// emeta can be read back.
    pub emeta_ok: bool,
    pub write_error: bool,
    /// Data sectors mapped, padding included.
    pub data: u32,
    /// Reads in flight.
    pub pins: u32,
    /// Buffer entries mapped here whose L2P still points to the buffer.
    pub refs: u32,
    /// Stripes whose units are not all durable.
    pub stripes: u32,
    /// The ring positions that must be durable before the line may be erased.
    pub barrier: [u64; 2],
    /// Times opened; of the block id.
    pub opened: u32,
    /// Pages and strides whose parity does not hold, because a unit was lost after it was computed.
    pub broken: Vec<(u32, u32)>,
    /// Pages whose parity ageing wrote: what it holds is not kept, but follows from the others.
    pub implied: std::ops::Range<u32>,
}

/// The lines of one side.
#[derive(Clone, Default)]
pub(crate) struct Side {
    /// Free block ids, first freed first.
    pub free: VecDeque<u32>,
    /// Good blocks of the free lines.
    pub free_blocks: u32,
    /// Data units of the free lines.
    pub free_units: u64,
    /// The line being filled.
    pub cur: Option<u32>,
    /// The line to be filled after it.
    pub next: Option<u32>,
    /// Blocks of `next` to erase, a bit a LUN.
    erase_todo: Vec<u64>,
    /// How many of them are left.
    pub erase_left: u32,
    /// Erasures in flight.
    pub erase_out: u32,
    /// Lines whose emeta is not durable, oldest first.
    pub closing: VecDeque<u32>,
}

#[derive(Clone)]
pub(crate) struct Lines {
    pub luns: u32,
    pub pages: u32,
    pub units: u32,
    pub sectors_per_unit: u32,
    /// Block ids.
    pub blocks: u32,
    config: FtlConfig,
    g: Geometry,
    pub lines: IdVec<LineId, Line>,
    /// A bit a block, by block id and LUN: bad from the factory, or grown.
    bad: Vec<u64>,
    words: usize,
    /// By line: LUNs that belong to it.
    mask: Vec<u64>,
    /// By line: LUNs that were good when it was opened, as its smeta records.
    good_at_open: Vec<u64>,
    /// By line: LUNs that hold parity.
    parity: Vec<u64>,
    /// Erasures, by block.
    pub erases: IdVec<BlockId, u32>,
    /// Pages programmed since the last erasure, by block.
    pub programmed: IdVec<BlockId, u32>,
    /// Times a block id was opened.
    opened: IdVec<u32, u32>,
    pub min_good: u32,
    pub sides: [Side; 2],
    pub next_seq: u64,
    /// Closed lines that had a write error.
    pub write_errors: u32,
    pub retired: u32,
    /// LUNs of the hot side; all of them if there is one side only.
    pub hot: u32,
    /// The LUNs of the hot side.
    hot_luns: Vec<u64>,
    /// With two sides: blocks that are in a line, by block id and LUN.
    taken: Vec<u64>,
    /// With two sides: unused line numbers.
    unused: Vec<u32>,
}

/// Sectors of the emeta of a line of `luns` LUNs: a header with the bad-block bitmap, an 8-byte
/// logical address a sector, a 4-byte valid count a line; each part begins a sector.
pub(crate) fn emeta_sectors(g: &Geometry, luns: u32) -> u32 {
    let header = 256 + u64::from(g.luns).div_ceil(8);
    let list = 8 * u64::from(g.sectors_per_line / g.luns * luns);
    let counts = 4 * u64::from(g.lines);
    [header, list, counts].iter().map(|&bytes| g.sector.holding(bytes)).sum::<u64>() as u32
}

impl Index<LineId> for Lines {
    type Output = Line;
    #[inline]
    fn index(&self, line: LineId) -> &Line {
        &self.lines[line]
    }
}

impl IndexMut<LineId> for Lines {
    #[inline]
    fn index_mut(&mut self, line: LineId) -> &mut Line {
        &mut self.lines[line]
    }
}

/// A line's metadata at its end.
struct Tail {
    emeta: u32,
    whole: u32,
    /// Data units it takes.
    data: u32,
    found: bool,
}

impl Lines {
    pub fn new(
        g: &Geometry,
        config: &FtlConfig,
        bad: &mut dyn FnMut(LunId, LineId) -> bool,
    ) -> Result<Lines, BadValue> {
        let emeta_units = emeta_sectors(g, g.luns).div_ceil(g.sectors_per_unit);
        let needed = 1 + (1 + emeta_units).div_ceil(g.pages);
        if let Some(min) = config.min_good_luns
            && (min < needed || min > g.luns)
        {
            return Err(BadValue::new(
                "min_good_luns",
                format!(
                    "is {min}, but a line needs {needed} good blocks for its metadata and a block of \
                     data, and there are {} LUNs: choose from {needed} to {}",
                    g.luns, g.luns
                ),
            ));
        }
        let has = match g.luns {
            1 => "there is 1 LUN".into(),
            luns => format!("there are {luns} LUNs"),
        };
        let more = "give the drive more LUNs (nand.channels, nand.luns_per_channel)";
        if config.stride > 0 && config.stride > g.luns {
            let other = match g.luns {
                1 => "set ftl.stride to 0, for no parity".into(),
                luns => format!("set ftl.stride to at most {luns}, to 0 for no parity"),
            };
            return Err(BadValue::new(
                "stride",
                format!("is {}, but {has}: {other}, or {more}", config.stride),
            ));
        }
        if config.hot_cold && g.luns < 2 * config.stride.max(1) {
            let strides = match config.stride {
                0 => "two LUNs".into(),
                stride => format!("two strides of {stride} LUNs"),
            };
            return Err(BadValue::new(
                "hot_cold",
                format!("needs {strides}, but {has}: set ftl.hot_cold to false, or {more}"),
            ));
        }
        if needed > g.luns {
            // One block more for each that metadata fill.
            let key = if needed == 2 { "nand.luns_per_channel" } else { "nand.pages_per_block" };
            let or = if needed == 2 { "" } else { ", or longer blocks (nand.pages_per_block)" };
            return Err(BadValue::new(
                key,
                format!(
                    "is too small: a line needs {needed} blocks, {} for its metadata and one for data, but {has}: \
                     {more}{or}",
                    needed - 1
                ),
            ));
        }
        let words = g.luns.div_ceil(64) as usize;
        let blocks = g.lines * g.luns;
        let side = || Side {
            free: VecDeque::with_capacity(g.lines as usize),
            erase_todo: vec![0; words],
            closing: VecDeque::with_capacity(config.meta_lines as usize + 2),
            ..Side::default()
        };
        let mut lines = Lines {
            luns: g.luns,
            pages: g.pages,
            units: g.units_per_line(),
            sectors_per_unit: g.sectors_per_unit,
            blocks: g.lines,
            config: config.clone(),
            g: *g,
            lines: IdVec::new(),
            bad: vec![0; words * g.lines as usize],
            words,
            mask: Vec::new(),
            good_at_open: Vec::new(),
            parity: Vec::new(),
            erases: IdVec::filled(0, blocks),
            programmed: IdVec::filled(0, blocks),
            opened: IdVec::filled(0, g.lines),
            min_good: config.min_good_luns.unwrap_or(needed),
            sides: [side(), side()],
            next_seq: 1,
            write_errors: 0,
            retired: 0,
            hot: g.luns,
            hot_luns: vec![0; words],
            taken: Vec::new(),
            unused: Vec::new(),
        };
        // Hot and cold at first; more when partitions leave more.
        lines.number(if config.hot_cold { 2 * g.lines } else { g.lines });
        for block in 0..g.lines {
            for lun in (0..g.luns).filter(|&lun| bad(lun, block)) {
                lines.bad[block as usize * words + lun as usize / 64] |= 1 << (lun % 64);
            }
        }
        if config.hot_cold {
            lines.taken = vec![0; words * g.lines as usize];
            lines.unused = (0..lines.count()).rev().collect();
            lines.partition(g.luns - config.stride.max(1));
        } else {
            for block in 0..g.lines {
                lines.assign(block, block, Stream::Mixed);
                lines.release(block);
            }
        }
        lines.retired = 0;
        Ok(lines)
    }

    /// Most line numbers there can be: lines of a block id share no LUN. Borders lie between strides, but
    /// what is recovered of a line may have only those of its LUNs that hold something.
    pub fn most(&self) -> u32 {
        match self.is_split() {
            true => self.blocks * self.luns,
            false => self.blocks,
        }
    }

    /// Number of lines, used or not.
    pub fn count(&self) -> u32 {
        self.lines.len() as u32
    }
    pub fn is_split(&self) -> bool {
        !self.taken.is_empty()
    }
    /// The line takes no data on this LUN: its block is bad, or belongs to another line.
    #[inline]
    pub fn is_bad(&self, line: LineId, lun: LunId) -> bool {
        let (word, bit) = (lun as usize / 64, lun % 64);
        let block = self.lines[line].block;
        let bad = self.bad[block as usize * self.words + word]
            | !self.mask[line as usize * self.words + word];
        bad >> bit & 1 == 1
    }
    pub fn is_block_bad(&self, block: u32, lun: LunId) -> bool {
        self.bad[block as usize * self.words + lun as usize / 64] >> (lun % 64) & 1 == 1
    }
    /// The LUN belongs to the line.
    #[inline]
    pub fn has_lun(&self, line: LineId, lun: LunId) -> bool {
        self.mask[line as usize * self.words + lun as usize / 64] >> (lun % 64) & 1 == 1
    }
    /// The LUN's block was good when the line was opened.
    pub fn was_good(&self, line: LineId, lun: LunId) -> bool {
        let word = self.good_at_open[line as usize * self.words + lun as usize / 64];
        word >> (lun % 64) & 1 == 1
    }
    /// The LUN holds the line's parity.
    #[inline]
    pub fn is_parity(&self, line: LineId, lun: LunId) -> bool {
        self.parity[line as usize * self.words + lun as usize / 64] >> (lun % 64) & 1 == 1
    }
    /// True if it was good.
    pub fn mark_bad(&mut self, line: LineId, lun: LunId) -> bool {
        let block = self.lines[line].block;
        let word = &mut self.bad[block as usize * self.words + lun as usize / 64];
        let was_good = *word >> (lun % 64) & 1 == 0;
        *word |= 1 << (lun % 64);
        self.lines[line].good -= u32::from(was_good);
        was_good
    }
    pub fn block(&self, line: LineId, lun: LunId) -> BlockId {
        self.lines[line].block * self.luns + lun
    }
    pub fn lun(&self, unit: u32) -> LunId {
        unit % self.luns
    }
    /// First sector of a unit of a line.
    pub fn ppa(&self, line: LineId, unit: u32) -> u32 {
        (self.lines[line].block * self.units + unit) * self.sectors_per_unit
    }
    pub fn first_sector(&self, line: LineId) -> u32 {
        self.ppa(line, 0)
    }
    /// The unit takes its place in the block's order of programming.
    pub fn note_program(&mut self, line: LineId, unit: u32) {
        let (lun, page) = (self.lun(unit), unit / self.luns);
        let block = self.block(line, lun);
        debug_assert!(
            self.programmed[block] <= page,
            "line {line} unit {unit} programmed twice: {:?}",
            self.lines[line]
        );
        self.programmed[block] = page + 1;
    }
    pub fn note_erase(&mut self, side: usize, line: LineId, lun: LunId) {
        self.sides[side].erase_out -= 1;
        let block = self.block(line, lun);
        self.programmed[block] = 0;
        self.erases[block] += 1;
    }

    /// The stream's lines may have this LUN.
    fn is_on_side(&self, stream: Stream, lun: LunId) -> bool {
        let hot = self.hot_luns[lun as usize / 64] >> (lun % 64) & 1 == 1;
        match stream {
            Stream::Mixed => true,
            Stream::Hot => hot,
            Stream::Cold => !hot,
        }
    }
    /// Chooses the parity LUNs of a line of these blocks, and computes what data it can hold.
    fn plan(&mut self, line: LineId) {
        let strides = self.lines[line].strides;
        let first = line as usize * self.words;
        self.parity[first..first + self.words].fill(0);
        if let Some(strides) = strides {
            for stride in 0..strides.count {
                let good = || strides.members(stride).filter(|&lun| !self.is_bad(line, lun));
                let chosen: Vec<u32> = match self.config.parity_place {
                    ParityPlace::LastGood => good().rev().take(strides.parities as usize).collect(),
                    ParityPlace::Fixed => good().filter(|&l| strides.is_fixed_parity(l)).collect(),
                };
                for lun in chosen {
                    self.parity[first + lun as usize / 64] |= 1 << (lun % 64);
                }
            }
        }
        self.measure(line);
    }
    fn measure(&mut self, line: LineId) {
        let data = (0..self.luns).filter(|&lun| self.is_data(line, lun)).count() as u32;
        let lost = if data == 0 { u32::MAX } else { self.tail(line, 0).data.saturating_add(1) };
        self.lines[line].capacity = (data * self.pages).saturating_sub(lost);
    }
    /// The line keeps data (and metadata) on this LUN.
    #[inline]
    fn is_data(&self, line: LineId, lun: LunId) -> bool {
        !self.is_bad(line, lun) && !self.is_parity(line, lun)
    }
    /// Where emeta goes, of the units from `from` on.
    fn tail(&self, line: LineId, from: u32) -> Tail {
        let luns = (0..self.luns).filter(|&lun| self.has_lun(line, lun)).count() as u32;
        let mut need = emeta_sectors(&self.g, luns).div_ceil(self.sectors_per_unit);
        let literal = self.config.emeta_on_parity || self.lines[line].strides.is_none();
        let mut tail = Tail { emeta: self.units, whole: self.pages, data: 0, found: false };
        for page in (from / self.luns..self.pages).rev() {
            if need == 0 {
                break;
            }
            let free = |lun: &u32| page * self.luns + lun >= from && !self.is_bad(line, *lun);
            let all = (0..self.luns).filter(free).count() as u32;
            let data = (0..self.luns).filter(free).filter(|&l| !self.is_parity(line, l)).count();
            let data = data as u32;
            // A stripe begun keeps its parity.
            let l = &self.lines[line];
            let begun = page * self.luns < from && l.strides.is_some() && from > l.smeta + 1;
            if begun && need >= data {
                need -= data;
                (tail.emeta, tail.whole) = (from, tail.whole.min(page + 1));
                tail.data += data;
                continue;
            }
            // A stripe without data has no parity either, and blocks are programmed without gaps.
            if need >= all || !literal && need >= data {
                need = need.saturating_sub(all);
                tail.emeta = (page * self.luns).max(from);
                tail.whole = page;
                tail.data += data;
                continue;
            }
            for lun in (0..self.luns).rev().filter(free) {
                let parity = self.is_parity(line, lun);
                if need == 0 {
                    break;
                }
                if literal && !begun || !parity {
                    need -= 1;
                    tail.emeta = page * self.luns + lun;
                    tail.data += u32::from(!parity);
                }
            }
            if literal && !begun {
                tail.whole = page;
                let before = |lun: &u32| page * self.luns + lun < tail.emeta;
                let left = (0..self.luns).filter(free).filter(before);
                if left.clone().all(|lun| self.is_parity(line, lun)) && page * self.luns >= from {
                    tail.emeta = page * self.luns;
                }
            }
        }
        tail.found = need == 0;
        tail
    }

    /// Takes the head of the free list as the line to open next, if there is none yet.
    pub fn reserve_next(&mut self, stream: Stream) -> Option<u32> {
        let side = stream.side();
        if self.sides[side].next.is_some() {
            return self.sides[side].next;
        }
        let mut line = self.sides[side].free.pop_front()?;
        if self.is_split() {
            let block = line;
            let (good, units) = self.free_on(block, stream);
            self.sides[side].free_blocks -= good;
            self.sides[side].free_units -= u64::from(units);
            line = self.unused();
            self.unused.pop();
            self.assign(line, block, stream);
        } else {
            let l = &self.lines[line];
            self.sides[side].free_blocks -= l.good;
            self.sides[side].free_units -= u64::from(l.capacity);
        }
        self.lines[line].state = LineState::Next;
        self.sides[side].next = Some(line);
        self.plan_erases(side, line);
        Some(line)
    }
    pub fn plan_erases(&mut self, side: usize, line: LineId) {
        self.sides[side].erase_todo.fill(0);
        self.sides[side].erase_left = 0;
        for lun in 0..self.luns {
            if !self.is_bad(line, lun) && self.programmed[self.block(line, lun)] > 0 {
                self.sides[side].erase_todo[lun as usize / 64] |= 1 << (lun % 64);
                self.sides[side].erase_left += 1;
            }
        }
    }
    pub fn wants_erase(&self, side: usize, lun: LunId) -> bool {
        self.sides[side].erase_todo[lun as usize / 64] >> (lun % 64) & 1 == 1
    }
    /// Begins the erasure of one block of the next line.
    pub fn take_erase(&mut self, side: usize, lun: LunId) {
        debug_assert!(self.wants_erase(side, lun));
        let s = &mut self.sides[side];
        s.erase_todo[lun as usize / 64] &= !(1 << (lun % 64));
        s.erase_left -= 1;
        s.erase_out += 1;
    }
    /// The first LUN from `from` on whose block of the next line is still to be erased.
    pub fn any_erase(&self, side: usize, from: u32) -> Option<u32> {
        (from..self.luns).find(|&lun| self.wants_erase(side, lun))
    }
    /// Opens the next line, whose blocks are all erased. None: too few of them are good.
    pub fn open_next(&mut self, stream: Stream) -> Option<u32> {
        let side = &mut self.sides[stream.side()];
        debug_assert!(side.erase_left == 0 && side.erase_out == 0 && side.cur.is_none());
        let line = side.next.take().expect("a next line");
        // An erasure may have failed.
        self.plan(line);
        let l = &self.lines[line];
        if !self.is_split() && l.good < self.min_good || l.capacity == 0 {
            if self.is_split() {
                self.forget(line);
            } else {
                self.lines[line].state = LineState::Bad;
            }
            self.retired += 1;
            return None;
        }
        let seq = self.next_seq;
        self.next_seq += 1;
        let block = self.lines[line].block;
        self.opened[block] += 1;
        let opened = self.opened[block];
        let l = &mut self.lines[line];
        l.state = LineState::Open;
        l.seq = seq;
        l.cur = 0;
        l.fill = 0;
        l.data = 0;
        l.emeta_ok = true;
        l.write_error = false;
        l.emeta_out = 0;
        l.stripes = 0;
        l.opened = opened;
        l.implied = 0..0;
        l.broken.clear();
        self.sides[stream.side()].cur = Some(line);
        for word in 0..self.words {
            let mine = line as usize * self.words + word;
            self.good_at_open[mine] =
                self.mask[mine] & !self.bad[block as usize * self.words + word];
        }
        self.layout(line);
        debug_assert_eq!(self.lines[line].left, self.lines[line].capacity);
        Some(line)
    }
    /// Places smeta on the first good data LUN and emeta at the end, of what is not mapped.
    pub fn layout(&mut self, line: LineId) {
        let first = (0..self.luns).find(|&lun| self.is_data(line, lun)).unwrap_or(0);
        let cur = self.lines[line].cur;
        let smeta = if cur == 0 { first } else { self.lines[line].smeta };
        let from = cur.max(smeta + 1);
        let mut tail = self.tail(line, from);
        let data = (from..tail.emeta).filter(|&u| self.is_data(line, self.lun(u))).count();
        if cur > 0 && data == 0 && self.lines[line].strides.is_some() {
            // Without stripes before it emeta would leave gaps in the parity blocks: it stays in
            // memory, and the line is collected first.
            tail = Tail { emeta: self.units, whole: self.pages, data: 0, found: false };
        }
        let l = &mut self.lines[line];
        l.smeta = smeta;
        (l.emeta, l.whole) = (tail.emeta, tail.whole);
        l.emeta_ok &= tail.found;
        l.left = data as u32;
        // Skip to behind smeta.
        l.cur = from;
    }
    /// The unit is for emeta.
    #[inline]
    pub fn is_emeta(&self, line: LineId, unit: u32) -> bool {
        let l = &self.lines[line];
        unit >= l.emeta && (unit >= l.whole * self.luns || !self.is_parity(line, self.lun(unit)))
    }
    /// The next data unit of the open line; `left` says there is one.
    pub fn peek_unit(&self, line: LineId) -> u32 {
        let mut unit = self.lines[line].cur;
        while !self.is_data(line, self.lun(unit)) {
            unit += 1;
        }
        unit
    }
    pub fn take_unit(&mut self, line: LineId) -> u32 {
        let unit = self.peek_unit(line);
        let l = &mut self.lines[line];
        debug_assert!(l.left > 0 && unit < l.emeta);
        l.cur = unit + 1;
        l.left -= 1;
        l.data += self.sectors_per_unit;
        self.note_program(line, unit);
        unit
    }
    /// The first parity unit of the stripe at or after LUN `from`.
    pub fn parity_unit(&self, line: LineId, page: u32, from: u32) -> Option<u32> {
        let parity = |&lun: &u32| self.is_parity(line, lun) && !self.is_bad(line, lun);
        let unit = page * self.luns + (from..self.luns).find(parity)?;
        (!self.is_emeta(line, unit)).then_some(unit)
    }
    /// The open line is full.
    pub fn close(&mut self, side: usize) -> u32 {
        let line = self.sides[side].cur.take().expect("an open line");
        let l = &mut self.lines[line];
        debug_assert!(l.left == 0 && l.fill == 0);
        l.state = LineState::Closing;
        l.emeta_cur = l.emeta;
        self.sides[side].closing.push_back(line);
        line
    }
    /// The next emeta unit of a closing line to write.
    pub fn peek_emeta(&self, line: LineId) -> Option<u32> {
        self.next_emeta(line, self.lines[line].emeta_cur)
    }
    /// The first good emeta unit at or after `from`.
    pub fn next_emeta(&self, line: LineId, from: u32) -> Option<u32> {
        (from..self.units).find(|&u| !self.is_bad(line, self.lun(u)) && self.is_emeta(line, u))
    }
    /// All emeta units are issued and done.
    pub fn emeta_done(&self, line: LineId) -> bool {
        self.lines[line].emeta_out == 0 && self.peek_emeta(line).is_none()
    }

    pub fn group(&self, line: LineId, valid: u32) -> Group {
        let l = &self.lines[line];
        match l.state {
            LineState::Closed | LineState::Gc => {}
            _ => return Group::None,
        }
        if l.write_error {
            Group::WriteError
        } else if valid == 0 {
            Group::Full
        } else if valid < l.data / 4 {
            Group::High
        } else if valid < l.data / 2 {
            Group::Mid
        } else if valid < l.data {
            Group::Low
        } else {
            Group::Empty
        }
    }
    /// Sectors that can still be mapped on this side without freeing anything.
    pub fn writable(&self, side: usize) -> u64 {
        let side = &self.sides[side];
        let cur = side.cur.map_or(0, |l| u64::from(self.lines[l].left));
        let next = side.next.map_or(0, |l| u64::from(self.lines[l].capacity));
        (cur + next + side.free_units) * u64::from(self.sectors_per_unit)
    }
    pub fn free_lines(&self) -> u32 {
        self.sides.iter().map(|s| s.free.len() as u32).sum()
    }
    pub fn free_blocks(&self) -> u32 {
        self.sides.iter().map(|s| s.free_blocks).sum()
    }
    /// Data units of all lines in use or free: what the drive can hold.
    pub fn all_units(&self) -> u64 {
        if !self.is_split() {
            let usable = self.lines.iter().filter(|l| l.state != LineState::Bad);
            return usable.map(|l| u64::from(l.capacity)).sum();
        }
        let used = self.lines.iter().filter(|l| l.block != NO_LINE);
        let free: u64 = self.sides.iter().map(|s| s.free_units).sum();
        used.map(|l| u64::from(l.capacity)).sum::<u64>() + free
    }
    /// Data units of each block id, both sides together; nothing is in use.
    pub fn units_of_blocks(&mut self) -> Vec<u32> {
        (0..self.blocks)
            .map(|block| match self.is_split() {
                false if self.lines[block].state == LineState::Bad => 0,
                false => self.lines[block].capacity,
                true => self.free_on(block, Stream::Hot).1 + self.free_on(block, Stream::Cold).1,
            })
            .collect()
    }
    /// Data units of a hot line of so many LUNs, all good.
    pub fn units_of_hot(&self, hot: u32) -> u64 {
        let parity = hot / self.config.stride.max(1) * self.config.parities;
        let parity = if self.config.stride > 0 { parity } else { 0 };
        let emeta = emeta_sectors(&self.g, hot).div_ceil(self.sectors_per_unit);
        u64::from(((hot - parity) * self.pages).saturating_sub(1 + emeta.max(hot - parity)))
    }
    /// Data that a drive of these blocks would hold without strides.
    pub fn sectors_without_parity(&self) -> u64 {
        let config = FtlConfig { stride: 0, hot_cold: false, ..self.config.clone() };
        let mut bad = |lun: LunId, block: u32| self.is_block_bad(block, lun);
        let plain = Lines::new(&self.g, &config, &mut bad).expect("less is asked of a line");
        plain.all_units() * u64::from(self.sectors_per_unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Placement;

    /// Each border leaves a line of a block id behind, and the next one finds a number all the same.
    #[test]
    fn a_block_id_is_in_as_many_lines_as_borders_left_there() {
        let (luns, blocks) = (32, 4);
        let g = Geometry {
            slc_pages: 0,
            channels: 4,
            luns,
            lines: blocks,
            pages: 64,
            sector: Default::default(),
            sectors_per_unit: 4,
            sectors_per_stripe: 4 * luns,
            sectors_per_line: 4 * luns * 64,
            planes: 1,
            in_place: false,
        };
        let mut c = FtlConfig::new(Placement::Host, 30.0);
        (c.stride, c.hot_cold) = (2, true);
        let mut lines = Lines::new(&g, &c, &mut |_, _| false).unwrap();
        for hot in (2..luns - 1).rev().step_by(2) {
            lines.partition(hot);
            for _ in 0..blocks {
                let line = lines.reserve_next(Stream::Cold).expect("two LUNs are free");
                let own = (0..luns).filter(|&lun| lines.has_lun(line, lun)).count();
                assert_eq!(own, 2);
                lines.sides[1].next = None;
            }
            assert_eq!(lines.reserve_next(Stream::Cold), None);
        }
        assert!(lines.count() > 8 * blocks && lines.count() <= lines.most());
    }
}
