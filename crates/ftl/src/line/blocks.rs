//! Which blocks a line has: the sides of a partition, and the numbers of lines.

use crate::config::PartitionBy;
use crate::line::{Line, LineState, Lines, NO_LINE, Stream};
use crate::stride::Strides;
use wordline_base::IdVec;
use wordline_nand::{LineId, LunId};

impl Lines {
    /// Makes that many line numbers.
    pub fn number(&mut self, count: u32) {
        let line = Line {
            state: LineState::Free,
            stream: Stream::Mixed,
            block: NO_LINE,
            seq: 0,
            good: 0,
            capacity: 0,
            strides: None,
            smeta: 0,
            cur: 0,
            left: 0,
            fill: 0,
            emeta: 0,
            whole: 0,
            emeta_cur: 0,
            emeta_out: 0,
            emeta_ok: true,
            write_error: false,
            data: 0,
            pins: 0,
            refs: 0,
            stripes: 0,
            barrier: [0; 2],
            opened: 0,
            broken: Vec::new(),
            implied: 0..0,
        };
        self.lines.resize(count as usize, line);
        let words = self.words * count as usize;
        for map in [&mut self.mask, &mut self.good_at_open, &mut self.parity] {
            map.resize(words, 0);
        }
    }

    /// A number that no line has.
    pub(super) fn unused(&mut self) -> u32 {
        if self.unused.is_empty() {
            let line = self.count();
            self.number(line + 1);
            self.unused.push(line);
        }
        *self.unused.last().expect("one at least")
    }

    /// Makes `line` the blocks of this id that the stream may have and nobody has.
    pub(super) fn assign(&mut self, line: LineId, block: u32, stream: Stream) {
        let first = line as usize * self.words;
        self.mask[first..first + self.words].fill(0);
        let mut good = 0;
        for lun in 0..self.luns {
            if !self.is_on_side(stream, lun) {
                continue;
            }
            if self.is_split() {
                let taken = &mut self.taken[block as usize * self.words + lun as usize / 64];
                if *taken >> (lun % 64) & 1 == 1 {
                    continue;
                }
                *taken |= 1 << (lun % 64);
            }
            self.mask[first + lun as usize / 64] |= 1 << (lun % 64);
            good += u32::from(!self.is_block_bad(block, lun));
        }
        let opened = self.opened[block];
        // They stay, wherever the border is when it is opened.
        let strides = if stream == Stream::Cold { None } else { self.strides() };
        let l = &mut self.lines[line];
        (l.block, l.stream, l.good, l.opened) = (block, stream, good, opened);
        l.strides = strides;
        self.plan(line);
    }

    /// Puts a line's blocks on the free lists, or away if too few of them are good.
    pub fn release(&mut self, line: LineId) {
        let l = &mut self.lines[line];
        debug_assert!(l.refs == 0 && l.pins == 0 && l.stripes == 0);
        self.write_errors -= u32::from(l.write_error);
        l.write_error = false;
        l.broken.clear();
        let block = l.block;
        if self.is_split() {
            let (hot, cold) = (self.free_on(block, Stream::Hot), self.free_on(block, Stream::Cold));
            self.forget(line);
            for (stream, before) in [(Stream::Hot, hot), (Stream::Cold, cold)] {
                self.queue(block, stream, before);
            }
            return;
        }
        self.plan(line);
        let l = &mut self.lines[line];
        if l.good < self.min_good || l.capacity == 0 {
            l.state = LineState::Bad;
            self.retired += 1;
            return;
        }
        l.state = LineState::Free;
        let (good, capacity) = (l.good, l.capacity);
        let side = &mut self.sides[0];
        side.free.push_back(line);
        side.free_blocks += good;
        side.free_units += u64::from(capacity);
    }

    /// The line number is unused, its blocks are nobody's.
    pub(super) fn forget(&mut self, line: LineId) {
        let block = self.lines[line].block;
        for word in 0..self.words {
            let mask = std::mem::take(&mut self.mask[line as usize * self.words + word]);
            self.taken[block as usize * self.words + word] &= !mask;
        }
        let l = &mut self.lines[line];
        (l.state, l.block) = (LineState::Free, NO_LINE);
        self.unused.push(line);
    }

    /// Good blocks and data units of a line that the stream could have of this block id now.
    pub(super) fn free_on(&mut self, block: u32, stream: Stream) -> (u32, u32) {
        let nobodys = |lun: LunId| {
            self.taken[block as usize * self.words + lun as usize / 64] >> (lun % 64) & 1 == 0
        };
        if !(0..self.luns).any(|lun| self.is_on_side(stream, lun) && nobodys(lun)) {
            return (0, 0);
        }
        let line = self.unused();
        self.assign(line, block, stream);
        let l = &self.lines[line];
        let found = (l.good, l.capacity);
        self.unused.pop();
        self.forget(line);
        if found.1 == 0 { (0, 0) } else { found }
    }

    /// More of the block id may be free now than `before`.
    pub(super) fn queue(&mut self, block: u32, stream: Stream, before: (u32, u32)) {
        let now = self.free_on(block, stream);
        let side = &mut self.sides[stream.side()];
        if now.1 > 0 && before.1 == 0 {
            side.free.push_back(block);
        }
        side.free_blocks = side.free_blocks + now.0 - before.0;
        side.free_units = side.free_units + u64::from(now.1) - u64::from(before.1);
    }

    /// The first strides are hot: as many as `hot` LUNs make, wider ones too. By LUNs it is these.
    pub fn set_border(&mut self, hot: u32) {
        let strides = Strides::new(self.luns, &self.config);
        let width = self.config.stride.max(1);
        self.hot_luns.fill(0);
        for lun in 0..self.luns {
            let is_hot = match (self.config.partition_by, strides) {
                (PartitionBy::Strides, Some(strides)) => strides.of(lun) < hot / width,
                _ => lun < hot,
            };
            self.hot_luns[lun as usize / 64] |= u64::from(is_hot) << (lun % 64);
        }
        self.hot = self.hot_luns.iter().map(|word| word.count_ones()).sum();
    }
    /// The strides of lines opened from now on.
    pub fn strides(&self) -> Option<Strides> {
        let by_luns = self.is_split() && self.config.partition_by == PartitionBy::Luns;
        Strides::new(if by_luns { self.hot } else { self.luns }, &self.config)
    }
    /// Moves the border between the sides.
    pub fn partition(&mut self, hot: u32) {
        self.set_border(hot);
        // First freed first, on either side.
        let mut order: Vec<u32> = Vec::with_capacity(self.blocks as usize);
        let mut seen: IdVec<u32, bool> = IdVec::filled(false, self.blocks);
        let queued = self.sides[0].free.iter().chain(&self.sides[1].free).copied();
        for block in queued.chain(0..self.blocks) {
            if !std::mem::replace(&mut seen[block], true) {
                order.push(block);
            }
        }
        for stream in [Stream::Hot, Stream::Cold] {
            let side = &mut self.sides[stream.side()];
            side.free.clear();
            (side.free_blocks, side.free_units) = (0, 0);
            for &block in &order {
                self.queue(block, stream, (0, 0));
            }
        }
    }
}
