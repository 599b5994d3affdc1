//! Lines as a state file has them.

use crate::line::{LineState, Lines, NO_LINE, Stream};
use crate::stride::Strides;
use wordline_nand::LineId;

impl Lines {
    /// What a saved drive has of a line's LUNs: those it has, those that were good, and parity.
    pub fn maps_of(&self, line: LineId) -> [&[u64]; 3] {
        let words = line as usize * self.words..(line as usize + 1) * self.words;
        [&self.mask[words.clone()], &self.good_at_open[words.clone()], &self.parity[words]]
    }

    /// Forgets all lines; `load_line` brings in those of a saved drive.
    pub fn begin_load(&mut self, hot: u32) {
        match self.is_split() {
            true => self.set_border(hot),
            false => self.hot = hot,
        }
        self.taken.fill(0);
        self.unused.clear();
        for side in &mut self.sides {
            side.free.clear();
            (side.free_blocks, side.free_units) = (0, 0);
        }
    }

    /// False: a block is in two lines, or beyond the drive, or the line has none.
    pub fn load_line(
        &mut self,
        line: LineId,
        block: u32,
        strides: Option<Strides>,
        maps: &[Vec<u64>; 3],
    ) -> bool {
        if block == NO_LINE {
            self.unused.push(line);
            self.lines[line].block = NO_LINE;
            return true;
        }
        let last = if self.luns.is_multiple_of(64) { !0 } else { (1 << (self.luns % 64)) - 1 };
        let [masks, goods, parities] = maps;
        if masks.iter().all(|&mask| mask == 0) {
            return false;
        }
        for (word, ((&mask, &good), &parity)) in masks.iter().zip(goods).zip(parities).enumerate() {
            let mine = line as usize * self.words + word;
            let within = if word + 1 == self.words { last } else { !0 };
            let whole = !self.is_split() && mask != within;
            if whole || mask & !within != 0 {
                return false;
            }
            if self.is_split() {
                let taken = &mut self.taken[block as usize * self.words + word];
                if *taken & mask != 0 {
                    return false;
                }
                *taken |= mask;
            }
            // A line not opened yet has the other two from an earlier life.
            (self.mask[mine], self.good_at_open[mine], self.parity[mine]) =
                (mask, good & mask, parity & mask);
        }
        self.lines[line].block = block;
        let good = (0..self.luns).filter(|&lun| !self.is_bad(line, lun)).count() as u32;
        let opened = &mut self.opened[block];
        let l = &mut self.lines[line];
        *opened = (*opened).max(l.opened);
        (l.strides, l.good) = (strides, good);
        self.measure(line);
        if self.lines[line].state == LineState::Free {
            self.plan(line);
        }
        true
    }

    /// Line numbers that no line has, the next to be handed out last.
    pub fn unused_numbers(&self) -> &[u32] {
        &self.unused
    }

    /// The same in the order of a saved drive. False: they are others.
    pub fn set_unused(&mut self, unused: Vec<u32>) -> bool {
        let sorted = |list: &[u32]| {
            let mut list = list.to_vec();
            list.sort_unstable();
            list
        };
        let same = sorted(&unused) == sorted(&self.unused);
        self.unused = unused;
        same
    }

    /// By block id.
    pub fn times_opened(&self) -> impl Iterator<Item = u32> {
        self.opened.iter().copied()
    }

    pub fn set_times_opened(&mut self, opened: Vec<u32>) {
        self.opened = opened.into_iter().collect();
    }

    pub fn end_load(&mut self) {
        for side in 0..2 {
            let (mut blocks, mut units) = (0, 0);
            for i in 0..self.sides[side].free.len() {
                let id = self.sides[side].free[i];
                let (good, capacity) = if self.is_split() {
                    self.free_on(id, if side == 0 { Stream::Hot } else { Stream::Cold })
                } else {
                    let l = &self.lines[id];
                    (l.good, l.capacity)
                };
                blocks += good;
                units += u64::from(capacity);
            }
            (self.sides[side].free_blocks, self.sides[side].free_units) = (blocks, units);
            if let Some(next) = self.sides[side].next {
                self.plan_erases(side, next);
            }
        }
    }
}
