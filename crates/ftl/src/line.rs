//! Lines: one block of every LUN, written front to back, erased together (pblk-core, pblk-map).
//!
//! ```text
//! unit 0 ............................................................ last
//! [smeta][data, LUN after LUN, page after page ............][emeta .....]
//! ```
//!
//! smeta is the first good LUN's first unit, emeta the last good units; bad blocks are skipped. A
//! line goes Free -> Next -> Open -> Closing -> Closed -> Gc -> Free. `Next` is taken off the free
//! list early and erased block by block beside the writes to the open line; `Closing` has its data
//! and waits for emeta. The free list is FIFO, which is all of pblk's wear levelling.

use crate::config::FtlConfig;
use std::collections::VecDeque;
use wordline_base::SECTOR;
use wordline_nand::Geometry;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LineState {
    Free,
    /// To be opened next; being erased.
    Next,
    Open,
    /// Full; its metadata are being written.
    Closing,
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
    Low,
    /// All valid: nothing to gain.
    Empty,
    /// Had a write error: collected first.
    WriteError,
}

/// Which data an open line takes. pblk mixes users' and the collector's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Stream {
    Mixed,
}

#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub state: LineState,
    pub stream: Stream,
    /// Position in the order of opening.
    pub seq: u64,
    /// LUNs whose block is good.
    pub good: u32,
    pub smeta: u32,
    /// Next unit to map.
    pub cur: u32,
    /// Data units left to map.
    pub left: u32,
    /// Sectors of unit `cur` that ageing has used.
    pub fill: u32,
    /// First unit of emeta; all good units from here on.
    pub emeta: u32,
    /// Next emeta unit to write, and how many are being written.
    pub emeta_cur: u32,
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
    /// The ring position that must be durable before the line may be erased.
    pub barrier: u64,
    /// Times opened.
    pub opened: u32,
}

pub(crate) struct Lines {
    pub luns: u32,
    pub pages: u32,
    pub units: u32,
    pub sectors_per_unit: u32,
    pub lines: Vec<Line>,
    /// A bit a block: bad from the factory, or grown.
    bad: Vec<u64>,
    bad_words: usize,
    /// The same as it was when the line was opened: what smeta records.
    bad_at_open: Vec<u64>,
    /// Per block: erasures, and pages programmed since the last.
    pub erases: Vec<u32>,
    pub programmed: Vec<u32>,
    pub emeta_units: u32,
    pub min_good: u32,
    pub free: VecDeque<u32>,
    /// Good blocks and data units of the free lines.
    pub free_blocks: u32,
    pub free_units: u64,
    pub cur: Option<u32>,
    pub next: Option<u32>,
    /// Blocks of `next` to erase, a bit a LUN, and how many are left; erasures in flight.
    erase_todo: Vec<u64>,
    pub erase_left: u32,
    pub erase_out: u32,
    /// Lines whose emeta is not durable, oldest first.
    pub closing: VecDeque<u32>,
    pub next_seq: u64,
    /// Closed lines that had a write error.
    pub write_errors: u32,
    pub retired: u32,
}

/// Sectors of a line's emeta: a header with the bad-block bitmap, an 8-byte logical address a sector,
/// a 4-byte valid count a line; each part begins a sector.
pub(crate) fn emeta_sectors(g: &Geometry) -> u32 {
    let header = 256 + u64::from(g.luns).div_ceil(8);
    let list = 8 * u64::from(g.sectors_per_line);
    let counts = 4 * u64::from(g.lines);
    [header, list, counts].iter().map(|bytes| bytes.div_ceil(SECTOR)).sum::<u64>() as u32
}

impl Lines {
    pub fn new(
        g: &Geometry,
        config: &FtlConfig,
        bad: &mut dyn FnMut(u32, u32) -> bool,
    ) -> Result<Lines, (&'static str, String)> {
        let emeta_units = emeta_sectors(g).div_ceil(g.sectors_per_unit);
        let needed = 1 + (1 + emeta_units).div_ceil(g.pages);
        if let Some(min) = config.min_good_luns
            && (min < needed || min > g.luns)
        {
            return Err((
                "min_good_luns",
                format!(
                    "is {min}, but a line needs {needed} good blocks for its metadata and a block of \
                     data, and there are {} LUNs: choose from {needed} to {}",
                    g.luns, g.luns
                ),
            ));
        }
        if needed > g.luns {
            return Err((
                "pages_per_block",
                format!(
                    "a line of {} units cannot hold {} units of metadata and data: use more pages \
                     or LUNs",
                    g.units_per_line(),
                    emeta_units + 1
                ),
            ));
        }
        let bad_words = g.luns.div_ceil(64) as usize;
        let blocks = g.lines as usize * g.luns as usize;
        let line = Line {
            state: LineState::Free,
            stream: Stream::Mixed,
            seq: 0,
            good: g.luns,
            smeta: 0,
            cur: 0,
            left: 0,
            fill: 0,
            emeta: 0,
            emeta_cur: 0,
            emeta_out: 0,
            emeta_ok: true,
            write_error: false,
            data: 0,
            pins: 0,
            refs: 0,
            barrier: 0,
            opened: 0,
        };
        let mut lines = Lines {
            luns: g.luns,
            pages: g.pages,
            units: g.units_per_line(),
            sectors_per_unit: g.sectors_per_unit,
            lines: vec![line; g.lines as usize],
            bad: vec![0; bad_words * g.lines as usize],
            bad_words,
            bad_at_open: vec![0; bad_words * g.lines as usize],
            erases: vec![0; blocks],
            programmed: vec![0; blocks],
            emeta_units,
            min_good: config.min_good_luns.unwrap_or(needed),
            free: VecDeque::with_capacity(g.lines as usize),
            free_blocks: 0,
            free_units: 0,
            cur: None,
            next: None,
            erase_todo: vec![0; bad_words],
            erase_left: 0,
            erase_out: 0,
            closing: VecDeque::with_capacity(config.meta_lines as usize + 2),
            next_seq: 1,
            write_errors: 0,
            retired: 0,
        };
        for line in 0..g.lines {
            for lun in 0..g.luns {
                if bad(lun, line) {
                    lines.mark_bad(line, lun);
                }
            }
            lines.release(line);
        }
        lines.retired = 0;
        Ok(lines)
    }

    #[inline]
    pub fn is_bad(&self, line: u32, lun: u32) -> bool {
        self.bad[line as usize * self.bad_words + lun as usize / 64] >> (lun % 64) & 1 == 1
    }
    /// The LUN's block was good when the line was opened.
    pub fn was_good(&self, line: u32, lun: u32) -> bool {
        let word = self.bad_at_open[line as usize * self.bad_words + lun as usize / 64];
        word >> (lun % 64) & 1 == 0
    }
    /// True if it was good.
    pub fn mark_bad(&mut self, line: u32, lun: u32) -> bool {
        let word = &mut self.bad[line as usize * self.bad_words + lun as usize / 64];
        let was_good = *word >> (lun % 64) & 1 == 0;
        *word |= 1 << (lun % 64);
        self.lines[line as usize].good -= u32::from(was_good);
        was_good
    }
    pub fn block(&self, line: u32, lun: u32) -> usize {
        line as usize * self.luns as usize + lun as usize
    }
    pub fn lun(&self, unit: u32) -> u32 {
        unit % self.luns
    }
    /// First sector of a unit of a line.
    pub fn ppa(&self, line: u32, unit: u32) -> u32 {
        (line * self.units + unit) * self.sectors_per_unit
    }
    /// Data units of a line with this many good blocks.
    pub fn data_units(&self, good: u32) -> u32 {
        (good * self.pages).saturating_sub(1 + self.emeta_units)
    }
    /// The unit takes its place in the block's order of programming.
    pub fn note_program(&mut self, line: u32, unit: u32) {
        let (lun, page) = (self.lun(unit), unit / self.luns);
        let block = self.block(line, lun);
        debug_assert!(self.programmed[block] <= page, "line {line} unit {unit} programmed twice");
        self.programmed[block] = page + 1;
    }
    pub fn note_erase(&mut self, line: u32, lun: u32) {
        self.erase_out -= 1;
        let block = self.block(line, lun);
        self.programmed[block] = 0;
        self.erases[block] += 1;
    }

    /// Puts a line at the end of the free list, or away if too few of its blocks are good.
    pub fn release(&mut self, line: u32) {
        let l = &mut self.lines[line as usize];
        debug_assert!(l.refs == 0 && l.pins == 0);
        self.write_errors -= u32::from(l.write_error);
        l.write_error = false;
        if l.good < self.min_good {
            l.state = LineState::Bad;
            self.retired += 1;
            return;
        }
        l.state = LineState::Free;
        let good = l.good;
        self.free.push_back(line);
        self.free_blocks += good;
        self.free_units += u64::from(self.data_units(good));
    }
    /// Takes the head of the free list as the line to open next, if there is none yet.
    pub fn reserve_next(&mut self) -> Option<u32> {
        if self.next.is_some() {
            return self.next;
        }
        let line = self.free.pop_front()?;
        let good = self.lines[line as usize].good;
        self.free_blocks -= good;
        self.free_units -= u64::from(self.data_units(good));
        self.lines[line as usize].state = LineState::Next;
        self.next = Some(line);
        self.plan_erases(line);
        self.next
    }
    pub fn plan_erases(&mut self, line: u32) {
        self.erase_todo.fill(0);
        self.erase_left = 0;
        for lun in 0..self.luns {
            if !self.is_bad(line, lun) && self.programmed[self.block(line, lun)] > 0 {
                self.erase_todo[lun as usize / 64] |= 1 << (lun % 64);
                self.erase_left += 1;
            }
        }
    }
    /// Begins the erasure of one block of the next line, if it is still to be done.
    pub fn take_erase(&mut self, lun: u32) -> Option<u32> {
        let word = &mut self.erase_todo[lun as usize / 64];
        if *word >> (lun % 64) & 1 == 0 {
            return None;
        }
        *word &= !(1 << (lun % 64));
        self.erase_left -= 1;
        self.erase_out += 1;
        self.next
    }
    /// A LUN whose block of the next line is still to be erased.
    pub fn any_erase(&self) -> Option<u32> {
        let (i, word) = self.erase_todo.iter().enumerate().find(|(_, w)| **w != 0)?;
        Some(i as u32 * 64 + word.trailing_zeros())
    }
    /// Opens the next line, whose blocks are all erased. None: too few of them are good.
    pub fn open_next(&mut self) -> Option<u32> {
        debug_assert!(self.erase_left == 0 && self.erase_out == 0 && self.cur.is_none());
        let line = self.next.take().expect("a next line");
        if self.lines[line as usize].good < self.min_good {
            self.lines[line as usize].state = LineState::Bad;
            self.retired += 1;
            return None;
        }
        let seq = self.next_seq;
        self.next_seq += 1;
        let l = &mut self.lines[line as usize];
        l.state = LineState::Open;
        l.stream = Stream::Mixed;
        l.seq = seq;
        l.cur = 0;
        l.fill = 0;
        l.data = 0;
        l.emeta_ok = true;
        l.write_error = false;
        l.emeta_out = 0;
        l.opened += 1;
        self.cur = Some(line);
        let words = line as usize * self.bad_words..(line as usize + 1) * self.bad_words;
        self.bad_at_open[words.clone()].copy_from_slice(&self.bad[words]);
        self.layout(line);
        Some(line)
    }
    /// Places smeta on the first good LUN and emeta on the last good units, of what is not mapped.
    pub fn layout(&mut self, line: u32) {
        let first = (0..self.luns).find(|&lun| !self.is_bad(line, lun)).unwrap_or(0);
        let cur = self.lines[line as usize].cur;
        let smeta = if cur == 0 { first } else { self.lines[line as usize].smeta };
        let from = cur.max(smeta + 1);
        let (mut emeta, mut found) = (self.units, 0);
        while found < self.emeta_units && emeta > from {
            emeta -= 1;
            found += u32::from(!self.is_bad(line, self.lun(emeta)));
        }
        let good = (from..emeta).filter(|&u| !self.is_bad(line, self.lun(u))).count();
        let l = &mut self.lines[line as usize];
        l.smeta = smeta;
        l.emeta = emeta;
        l.emeta_ok &= found == self.emeta_units;
        l.left = good as u32;
        // Skip to behind smeta.
        l.cur = from;
    }
    /// The next data unit of the open line; `left` says there is one.
    pub fn peek_unit(&self, line: u32) -> u32 {
        let mut unit = self.lines[line as usize].cur;
        while self.is_bad(line, self.lun(unit)) {
            unit += 1;
        }
        unit
    }
    pub fn take_unit(&mut self, line: u32) -> u32 {
        let unit = self.peek_unit(line);
        let l = &mut self.lines[line as usize];
        debug_assert!(l.left > 0 && unit < l.emeta);
        l.cur = unit + 1;
        l.left -= 1;
        l.data += self.sectors_per_unit;
        self.note_program(line, unit);
        unit
    }
    /// The open line is full.
    pub fn close(&mut self) -> u32 {
        let line = self.cur.take().expect("an open line");
        let l = &mut self.lines[line as usize];
        debug_assert!(l.left == 0 && l.fill == 0);
        l.state = LineState::Closing;
        l.emeta_cur = l.emeta;
        self.closing.push_back(line);
        line
    }
    /// The next emeta unit of a closing line to write.
    pub fn peek_emeta(&self, line: u32) -> Option<u32> {
        let from = self.lines[line as usize].emeta_cur;
        (from..self.units).find(|&u| !self.is_bad(line, self.lun(u)))
    }
    /// All emeta units are issued and done.
    pub fn emeta_done(&self, line: u32) -> bool {
        self.lines[line as usize].emeta_out == 0 && self.peek_emeta(line).is_none()
    }

    pub fn group(&self, line: u32, valid: u32) -> Group {
        let l = &self.lines[line as usize];
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
    /// Sectors that can still be mapped without freeing anything.
    pub fn writable(&self) -> u64 {
        let cur = self.cur.map_or(0, |l| u64::from(self.lines[l as usize].left));
        let next = self.next.map_or(0, |l| self.data_units(self.lines[l as usize].good) as u64);
        (cur + next + self.free_units) * u64::from(self.sectors_per_unit)
    }
}
