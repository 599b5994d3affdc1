//! The mapping and its inverse.
//!
//! - `l2p`: 4 bytes a logical sector, where its newest copy is: nowhere, in a slot of the write
//!   buffer, or in flash;
//! - `oob`: 4 bytes a physical sector, the logical sector written there (what pblk keeps in the
//!   spare area and in emeta);
//! - `valid`: a bit a physical sector, and a count a line;
//! - `stamps`: half a byte a physical sector, and more for those that a run wrote ([`Versions`]), only while
//!   the integrity check is on.
//!
//! Values are stored plus one, so that zero is "nothing". What was never written takes no memory, nor
//! does most of what was written in order ([`Runs`]), so that a drive of terabytes is filled in no
//! time. Without the check that is at most 8.2 bytes a sector.

use crate::Memory;
use std::borrow::Cow;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use wordline_base::{
    Array, IdVec, Lpn, Runs, SharedRuns, SharedVersions, Stamps, Versions, at_once, prefetch,
    threads,
};
use wordline_nand::{BlockId, Geometry, LineId, Ppa};
use wordline_translation::{LoadError, SavedIn, SavedOut};

/// The logical sector of a physical one that holds no data (padding, metadata, erased).
pub(crate) const EMPTY: u32 = u32::MAX;
/// In a stamp: the only copy of this version could not be read. Versions do not get that far.
pub const LOST: u32 = 1 << 31;
/// First L2P code of a buffer slot; below are physical sectors plus one.
const BUFFER: u32 = 0xF000_0001;
/// Buffer slots that L2P can name.
pub(crate) const MAX_SLOTS: u32 = 1 << 27;

/// Where the newest copy of a sector is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Where {
    Unmapped,
    /// A slot of the write buffer.
    Buffer(u32),
    Flash(Ppa),
}

impl Where {
    #[inline]
    pub fn decode(code: u32) -> Where {
        match code {
            0 => Where::Unmapped,
            code if code >= BUFFER => Where::Buffer(code - BUFFER),
            code => Where::Flash(Ppa(code - 1)),
        }
    }
}

/// Division of any `u32` by a constant: one multiplication (Lemire, Kaser, Kurz 2019).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Div {
    magic: u64,
    by: u32,
}

impl Div {
    pub fn new(by: u32) -> Div {
        Div { magic: (u64::MAX / u64::from(by)).wrapping_add(1), by }
    }
    #[inline]
    pub fn of(self, n: u32) -> u32 {
        if self.by == 1 {
            return n;
        }
        ((u128::from(self.magic) * u128::from(n)) >> 64) as u32
    }
}

/// What L2P does not know yet of sectors that are durable.
#[derive(Default)]
pub(crate) struct Turned {
    pub mapped: Vec<(u32, u32)>,
    pub stale: Vec<u32>,
}

/// Fewer sectors of a line than that are moved before a thread has begun.
const WORTH_A_THREAD: u32 = 1 << 14;
/// Sectors that a thread moves at a time.
const PART_OF_LINE: u32 = 1 << 13;
/// Sectors whose entries are asked for at a time.
const AHEAD: usize = 64;

/// What moves from a line, for several threads.
struct Moves<'a> {
    /// Valid sectors of the line, a bit each.
    words: &'a [u64],
    first: u32,
    /// Runs of sectors that they go to.
    to: &'a [(u32, u32)],
    l2p: SharedRuns<'a>,
    oob: SharedRuns<'a>,
    stamps: Option<SharedVersions<'a>>,
}

impl Moves<'_> {
    /// How many sectors there are before a part. It begins at an even place: entries of two sectors may
    /// share a byte.
    fn begin(&self, sectors: u32, part: u32, parts: u32) -> u32 {
        let begin = (u64::from(sectors) * u64::from(part) / u64::from(parts)) as u32;
        if part == 0 || begin == sectors {
            return begin;
        }
        let (place, _) = self.place(begin);
        begin + place % 2
    }
    /// Where a sector goes, and how many go to its run from there on.
    fn place(&self, mut nth: u32) -> (u32, u32) {
        for &(place, n) in self.to {
            if nth < n {
                return (place + nth, n - nth);
            }
            nth -= n;
        }
        unreachable!("a place for every sector")
    }
    /// Moves sectors number `begin` to `end` of the valid ones. Stamps that are left go to `left`, as
    /// [`SharedVersions::copy`] tells them.
    fn part(&self, begin: u32, end: u32, left: &mut Vec<(u32, u32)>) {
        let (mut before, mut word) = (begin, 0);
        while before > 0 && before >= self.words[word].count_ones() {
            before -= self.words[word].count_ones();
            word += 1;
        }
        let mut bits = self.words.get(word).copied().unwrap_or_default();
        (0..before).for_each(|_| bits &= bits - 1);
        // Those whose entries were asked for, and the next ones.
        let (mut places, mut lpns) = ([[0u32; AHEAD]; 2], [[0u32; AHEAD]; 2]);
        let (mut done, mut n) = (begin, 0);
        loop {
            let next = AHEAD.min((end - done) as usize - n);
            for (place, lpn) in places[1].iter_mut().zip(&mut lpns[1]).take(next) {
                while bits == 0 {
                    word += 1;
                    bits = self.words[word];
                }
                *place = self.first + word as u32 * 64 + bits.trailing_zeros();
                *lpn = self.oob.get(*place as usize) - 1;
                bits &= bits - 1;
            }
            self.run(done, &places[0][..n], &lpns[0][..n], &lpns[1][..next], left);
            if next == 0 {
                return;
            }
            done += n as u32;
            n = next;
            places.swap(0, 1);
            lpns.swap(0, 1);
        }
    }
    /// Moves these sectors; those of `ahead` are next. Memory is asked for one by one, since a processor
    /// has only so many requests under way.
    fn run(
        &self,
        mut done: u32,
        mut places: &[u32],
        mut lpns: &[u32],
        ahead: &[u32],
        left: &mut Vec<(u32, u32)>,
    ) {
        let mut ahead = ahead.iter();
        while !lpns.is_empty() {
            let (to, room) = self.place(done);
            let n = lpns.len().min(room as usize);
            for (&lpn, to) in lpns[..n].iter().zip(to..) {
                if let Some(&next) = ahead.next() {
                    self.l2p.prefetch(next as usize);
                }
                self.l2p.set(lpn as usize, to + 1);
                self.oob.set(to as usize, lpn + 1);
            }
            if let Some(stamps) = &self.stamps {
                stamps.copy(&places[..n], to as usize, left);
            }
            (places, lpns, done) = (&places[n..], &lpns[n..], done + n as u32);
        }
        ahead.for_each(|&next| self.l2p.prefetch(next as usize));
    }
}

#[derive(Clone)]
pub(crate) struct Map {
    l2p: Runs,
    oob: Runs,
    pub stamps: Option<Versions>,
    valid: Array<u64>,
    count: IdVec<LineId, u32>,
    by_line: Div,
    by_unit: Div,
    sectors_per_line: u32,
    luns: u32,
    /// Words of `valid` that a block id has to itself.
    words: usize,
    /// The line of each block, where a block id can be in several.
    pub owner: IdVec<BlockId, LineId>,
    /// Sectors written at least once: what of the arrays is real memory.
    pub touched: u32,
}

impl Map {
    pub fn new(g: &Geometry, sectors: u64, lines: u32) -> Map {
        let words = g.sectors_per_line.div_ceil(64) as usize;
        Map {
            l2p: Runs::counting(sectors as usize),
            oob: Runs::counting(g.sectors() as usize),
            stamps: None,
            valid: Array::zeroed(words * g.lines as usize),
            count: IdVec::filled(0, lines),
            by_line: Div::new(g.sectors_per_line),
            by_unit: Div::new(g.sectors_per_unit),
            sectors_per_line: g.sectors_per_line,
            luns: g.luns,
            words,
            owner: IdVec::new(),
            touched: 0,
        }
    }
    /// Makes room for a stamp a physical sector.
    pub fn keep_stamps(&mut self) {
        if self.stamps.is_none() {
            self.stamps = Some(Versions::new(self.oob.len()));
        }
    }
    /// Makes the stamps in flash and those of the check the same. Flash that has none gets the newest.
    pub fn adopt_stamps(&mut self, stamps: &mut Stamps) {
        let unknown = self.stamps.is_none();
        self.keep_stamps();
        if self.touched == 0 {
            return; // Nothing was ever written.
        }
        for lpn in 0..self.l2p.len() as u32 {
            let Where::Flash(ppa) = self.get(lpn) else { continue };
            if unknown {
                self.put_oob(ppa.0, lpn, stamps.newest(Lpn(lpn)).max(1));
            }
            let stamp = self.stamp_at(ppa.0);
            if stamps.newest(Lpn(lpn)) < stamp & !LOST {
                stamps.restore(Lpn(lpn), stamp & !LOST, false);
            }
        }
    }

    #[inline]
    pub fn prefetch(&self, lpn: u32) {
        self.l2p.prefetch(lpn as usize);
    }
    #[inline]
    pub fn prefetch_oob(&self, ppa: u32) {
        self.oob.prefetch(ppa as usize);
        if let Some(stamps) = &self.stamps {
            stamps.prefetch(ppa as usize);
        }
    }
    /// The entry as it is stored.
    #[inline]
    pub fn code(&self, lpn: u32) -> u32 {
        self.l2p.get(lpn as usize)
    }
    #[inline]
    pub fn get(&self, lpn: u32) -> Where {
        Where::decode(self.code(lpn))
    }
    #[inline]
    pub fn set_flash(&mut self, lpn: u32, ppa: u32) {
        self.l2p.set(lpn as usize, ppa + 1);
    }
    /// The same, and where it was before.
    #[inline]
    pub fn replace_by_flash(&mut self, lpn: u32, ppa: u32) -> Where {
        Where::decode(std::mem::replace(self.l2p.at_mut(lpn as usize), ppa + 1))
    }
    /// These sectors have been written from `ppa` on, in one line: flash holds them, with these stamps.
    pub fn put_written(&mut self, lpns: &[u32], stamps: &[u32], ppa: u32) {
        self.put_lpns(lpns, ppa);
        if let Some(own) = &mut self.stamps {
            own.set_each(ppa as usize, stamps);
        }
    }
    /// Moves valid sectors from places in ascending order to those from `ppa` on, in one line. The entries of
    /// the sectors `ahead` will be asked for soon.
    pub fn move_run(&mut self, lpns: &[u32], from: &[u32], ppa: u32, ahead: &[u32]) {
        self.l2p.scatter(lpns, ppa + 1, ahead);
        self.put_lpns(lpns, ppa);
        if let Some(own) = &mut self.stamps {
            own.copy(from, ppa as usize);
        }
    }
    /// Sectors all over a drive that was written in order are going to be overwritten: memory for that is
    /// had at once.
    pub fn populate(&mut self) {
        self.l2p.populate();
        self.oob.populate();
        if let Some(stamps) = &mut self.stamps {
            stamps.populate();
        }
    }
    /// Every sector is where the drive was written in order.
    pub fn is_in_order(&self) -> bool {
        self.l2p.is_in_runs()
    }
    /// [`Map::move_line`] can be had.
    pub fn moves_lines(&self) -> bool {
        self.owner.is_empty() && self.l2p.is_written_out()
    }
    /// Moves all that is valid in the line whose blocks begin at sector `first`, in the order of places, to
    /// runs of sectors that are valid already. Several threads do it, each a part that has nothing in common
    /// with the others.
    pub fn move_line(&mut self, first: u32, to: &[(u32, u32)]) {
        let sectors: u32 = to.iter().map(|&(_, n)| n).sum();
        let threads = (sectors / WORTH_A_THREAD).clamp(1, threads() as u32) as usize;
        self.move_in_parts(first, to, (sectors / PART_OF_LINE).max(1), threads);
    }
    fn move_in_parts(&mut self, first: u32, to: &[(u32, u32)], parts: u32, threads: usize) {
        let words = self.by_line.of(first) as usize * self.words;
        let words = &self.valid[words..words + self.words];
        let sectors = to.iter().map(|&(_, n)| n).sum();
        let oob = self.oob.shared(to);
        let stamps = self.stamps.as_mut().map(|stamps| stamps.shared(to));
        let moves = Moves { words, first, to, l2p: self.l2p.shared(&[]), oob, stamps };
        let begins: Vec<_> = (0..=parts).map(|part| moves.begin(sectors, part, parts)).collect();
        // A thread that begins late does fewer parts.
        let next = AtomicUsize::new(0);
        let left = at_once(threads, |_| {
            let mut left = Vec::new();
            loop {
                let part = next.fetch_add(1, Relaxed);
                if part >= parts as usize {
                    return left;
                }
                moves.part(begins[part], begins[part + 1], &mut left);
            }
        });
        if let Some(stamps) = &mut self.stamps {
            // In order of places: how segments widen depends on it, and no thread's pace may.
            let mut left: Vec<_> = left.into_iter().flatten().collect();
            left.sort_unstable_by_key(|&(_, to)| to);
            for (from, to) in left {
                stamps.set(to as usize, stamps.get(from as usize));
            }
        }
    }
    fn put_lpns(&mut self, lpns: &[u32], ppa: u32) {
        self.set_valid(ppa, lpns.len() as u32);
        let entries = self.oob.entries_mut(ppa as usize, lpns.len());
        entries.iter_mut().zip(lpns).for_each(|(entry, &lpn)| *entry = lpn + 1);
    }
    /// The logical sectors of places in ascending order, which all hold one.
    pub fn lpns_at(&self, places: &[u32], lpns: &mut [u32]) {
        self.oob.gather(places, lpns);
        lpns.iter_mut().for_each(|lpn| *lpn -= 1);
    }
    /// Points the sector at a buffer slot; its copy in flash, if it was the newest, is stale now.
    #[inline]
    pub fn replace_by_buffer(&mut self, lpn: u32, slot: u32) -> Option<Ppa> {
        let old = std::mem::replace(self.l2p.at_mut(lpn as usize), BUFFER + slot);
        match Where::decode(old) {
            Where::Flash(ppa) => Some(ppa),
            _ => None,
        }
    }
    #[inline]
    pub fn unmap(&mut self, lpn: u32) -> Where {
        Where::decode(std::mem::take(self.l2p.at_mut(lpn as usize)))
    }

    #[inline]
    pub fn line_of(&self, ppa: u32) -> LineId {
        if self.owner.is_empty() { self.by_line.of(ppa) } else { self.owner_of(ppa) }
    }
    /// The line that has been given the block of a sector.
    #[inline(never)]
    fn owner_of(&self, ppa: u32) -> LineId {
        self.owner[self.block(ppa)]
    }
    /// Index of the block that the sector is in, among those of all LUNs.
    fn block(&self, ppa: u32) -> BlockId {
        self.by_line.of(ppa) * self.luns + self.by_unit.of(ppa) % self.luns
    }
    /// Place of the sector's bit.
    #[inline]
    fn bit(&self, ppa: u32) -> usize {
        let block = self.by_line.of(ppa);
        block as usize * self.words * 64 + (ppa - block * self.sectors_per_line) as usize
    }
    pub fn is_valid(&self, ppa: u32) -> bool {
        let bit = self.bit(ppa);
        self.valid[bit / 64] >> (bit % 64) & 1 == 1
    }
    /// Says that the sector's bit will be asked for soon.
    #[inline]
    pub fn prefetch_valid(&self, ppa: u32) {
        prefetch(&self.valid, self.bit(ppa) / 64);
    }
    /// Marks sectors of one line valid; all were not.
    pub fn set_valid(&mut self, ppa: u32, sectors: u32) {
        let line = self.line_of(ppa);
        let (mut bit, mut left) = (self.bit(ppa), sectors as usize);
        while left > 0 {
            let n = left.min(64 - bit % 64);
            let mask = (!0u64 >> (64 - n)) << (bit % 64);
            debug_assert_eq!(self.valid[bit / 64] & mask, 0);
            self.valid[bit / 64] |= mask;
            (bit, left) = (bit + n, left - n);
        }
        self.count[line] += sectors;
    }
    /// The sector is stale. Returns its line and how many valid sectors that line has left.
    #[inline]
    pub fn invalidate(&mut self, ppa: u32) -> (u32, u32) {
        let line = self.line_of(ppa);
        let bit = self.bit(ppa);
        let word = &mut self.valid[bit / 64];
        debug_assert!(*word >> (bit % 64) & 1 == 1, "sector {ppa} is not valid");
        *word &= !(1 << (bit % 64));
        let count = &mut self.count[line];
        *count -= 1;
        (line, *count)
    }
    #[inline]
    pub fn valid_in(&self, line: LineId) -> u32 {
        self.count[line]
    }
    /// Nothing of the line, whose blocks begin at sector `first`, is valid. `unit`: sectors of a unit
    /// where a block id can be in several lines.
    pub fn clear_line(&mut self, line: LineId, first: u32, unit: u32) {
        self.count[line] = 0;
        if self.owner.is_empty() {
            let word = self.by_line.of(first) as usize * self.words;
            self.valid[word..word + self.words].fill(0);
            return;
        }
        for ppa in (first..first + self.sectors_per_line).step_by(unit as usize) {
            if self.owner[self.block(ppa)] == line {
                for ppa in ppa..ppa + unit {
                    let bit = self.bit(ppa);
                    self.valid[bit / 64] &= !(1 << (bit % 64));
                }
            }
        }
    }
    /// So many of the first valid sectors of the line, whose blocks begin at sector `first`, are stale.
    pub fn clear_first(&mut self, line: LineId, first: u32, mut sectors: u32) {
        if !self.owner.is_empty() {
            let mut from = 0;
            for _ in 0..sectors {
                let Some(at) = self.next_valid(line, first, from) else { return };
                self.invalidate(first + at);
                from = at + 1;
            }
            return;
        }
        self.count[line] -= sectors;
        let begin = self.by_line.of(first) as usize * self.words;
        for word in &mut self.valid[begin..begin + self.words] {
            let n = word.count_ones().min(sectors);
            (0..n).for_each(|_| *word &= *word - 1);
            sectors -= n;
            if sectors == 0 {
                return;
            }
        }
    }
    /// The first valid sector of the line, whose blocks begin at sector `first`, at or after offset
    /// `from`.
    pub fn next_valid(&self, line: LineId, first: u32, mut from: u32) -> Option<u32> {
        let words = self.words_of(first);
        loop {
            let mut index = from as usize / 64;
            let mut word = *words.get(index)? & (!0 << (from % 64));
            while word == 0 {
                index += 1;
                word = *words.get(index)?;
            }
            let at = index as u32 * 64 + word.trailing_zeros();
            if self.owner.is_empty() || self.owner[self.block(first + at)] == line {
                return Some(at);
            }
            // Behind the unit of another line.
            let unit = self.by_unit.by;
            from = at - at % unit + unit;
        }
    }
    /// The bitmap of the block id whose first sector this is.
    pub fn words_of(&self, first: u32) -> &[u64] {
        &self.valid[self.by_line.of(first) as usize * self.words..][..self.words]
    }

    #[inline]
    pub fn lpn_at(&self, ppa: u32) -> u32 {
        // An empty sector's zero wraps to EMPTY.
        self.oob.get(ppa as usize).wrapping_sub(1)
    }
    #[inline]
    pub fn stamp_at(&self, ppa: u32) -> u32 {
        self.stamps.as_ref().map_or(0, |s| s.get(ppa as usize))
    }
    #[inline]
    pub fn put_oob(&mut self, ppa: u32, lpn: u32, stamp: u32) {
        self.oob.set(ppa as usize, lpn.wrapping_add(1));
        if let Some(stamps) = &mut self.stamps {
            stamps.set(ppa as usize, stamp);
        }
    }
    /// No sector was ever mapped.
    pub fn is_blank(&self) -> bool {
        self.l2p.is_blank()
    }
    /// Sectors that were never mapped are written in a row.
    pub fn put_run(&mut self, lpn: u32, ppa: u32, sectors: u32, stamp: u32) {
        let n = sectors as usize;
        self.set_valid(ppa, sectors);
        self.l2p.set_run(lpn as usize, n, ppa + 1);
        self.oob.set_run(ppa as usize, n, lpn + 1);
        if let Some(stamps) = &mut self.stamps {
            stamps.set_run(ppa as usize, n, stamp);
        }
    }
    /// Flash forgets these sectors.
    pub fn clear_oob(&mut self, ppa: u32, sectors: u32) {
        self.oob.clear(ppa as usize, sectors as usize);
        if let Some(stamps) = &mut self.stamps {
            stamps.clear(ppa as usize, sectors as usize);
        }
    }

    /// Writes all of it, as it would be with the buffer's sectors `turned`: those mapped to flash, and
    /// those in flash that are stale.
    pub fn save(&self, out: &mut SavedOut, turned: &Turned) -> io::Result<()> {
        let (mut l2p, mut valid) = (Cow::Borrowed(&self.l2p), Cow::Borrowed(&self.valid));
        for &(lpn, ppa) in &turned.mapped {
            l2p.to_mut().set(lpn as usize, ppa + 1);
        }
        for &ppa in &turned.stale {
            let bit = self.bit(ppa);
            valid.to_mut()[bit / 64] &= !(1 << (bit % 64));
        }
        out.put_runs(&l2p)?;
        out.put_runs(&self.oob)?;
        out.put_array(&valid)?;
        out.put32(u32::from(self.stamps.is_some()))?;
        self.stamps.as_ref().map_or(Ok(()), |stamps| out.put_versions(stamps))
    }
    /// Takes up what was saved; counts of valid sectors follow from that ([`Map::count`]).
    pub fn load(&mut self, r: &mut SavedIn) -> Result<(), LoadError> {
        self.l2p = r.runs(&self.l2p)?;
        self.oob = r.runs(&self.oob)?;
        self.valid = r.array(self.valid.len())?;
        if r.up_to(1, "the stamp flag")? == 1 {
            self.stamps = Some(r.versions(self.oob.len())?);
        }
        Ok(())
    }
    /// Counts the valid sectors of a line whose blocks begin at sector `first`.
    pub fn count(&mut self, line: LineId, first: u32) {
        self.count[line] = if self.owner.is_empty() {
            self.words_of(first).iter().map(|word| word.count_ones()).sum()
        } else {
            let (mut count, mut from) = (0, 0);
            while let Some(at) = self.next_valid(line, first, from) {
                (count, from) = (count + 1, at + 1);
            }
            count
        };
    }

    pub fn memory(&self) -> Memory {
        let used = u64::from(self.touched);
        Memory {
            mapping: 4 * self.l2p.len() as u64 + 4 * used + 8 * self.valid.len() as u64,
            stamps: self
                .stamps
                .as_ref()
                .map_or(0, |stamps| Versions::least(used) + stamps.beside()),
            pages: self.stamps.as_ref().map_or(0, |_| used),
            parity: 0,
            sectors: self.oob.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::Seed;

    #[test]
    fn division_by_multiplication_is_exact() {
        for by in [1, 2, 3, 7, 64, 1000, 1023, 524_288, 524_287, 0xF000_0000, u32::MAX] {
            let div = Div::new(by);
            let near =
                [0, 1, by - 1, by, by.wrapping_add(1), u32::MAX / by * by, u32::MAX, 0xEFFF_FFFF];
            let spread = (0..10_000u32).map(|i| i.wrapping_mul(2_654_435_761));
            for n in near.into_iter().chain(spread) {
                assert_eq!(div.of(n), n / by, "{n} / {by}");
            }
        }
    }

    /// Two lines are written in part, and what is valid of the first moves behind the second's and to a third.
    #[test]
    fn a_line_moved_in_parts_is_one_moved_run_by_run() {
        let g = Geometry {
            slc_pages: 0,
            channels: 2,
            luns: 4,
            lines: 4,
            pages: 64,
            sector: Default::default(),
            sectors_per_unit: 16,
            sectors_per_stripe: 64,
            sectors_per_line: 4096,
            planes: 1,
            in_place: false,
        };
        let line = g.sectors_per_line;
        let mut rng = Seed(5).stream("moves");
        let mut map = Map::new(&g, u64::from(2 * line), 4);
        map.keep_stamps();
        for lpn in 0..2 * line {
            map.set_flash(lpn, 0);
            map.unmap(lpn);
        }
        let mut lpns: Vec<u32> = (0..2 * line).collect();
        (1..lpns.len()).rev().for_each(|i| lpns.swap(i, rng.below(i as u64 + 1) as usize));
        let begun = 77;
        for (n, ppa) in [(line, 0), (begun, line)] {
            let lpns: Vec<u32> = lpns.drain(..n as usize).collect();
            // So many large ones that segments widen on the way.
            let stamp = |_| match rng.below(16) {
                0 => 300,
                1..=2 => 15 + rng.below(200) as u32,
                _ => 1 + rng.below(9) as u32,
            };
            let stamps: Vec<u32> = lpns.iter().map(stamp).collect();
            map.put_written(&lpns, &stamps, ppa);
            lpns.iter().zip(ppa..).for_each(|(&lpn, ppa)| map.set_flash(lpn, ppa));
        }
        for ppa in 0..line {
            if rng.below(3) == 0 {
                map.unmap(map.lpn_at(ppa));
                map.invalidate(ppa);
            }
        }
        let from: Vec<u32> = (0..line).filter(|&ppa| map.is_valid(ppa)).collect();
        let to = [(line + begun, 601), (2 * line + 16, from.len() as u32 - 601)];
        to.iter().for_each(|&(ppa, n)| map.set_valid(ppa, n));
        let mut by_run = map.clone();
        let mut rest = &from[..];
        for (ppa, n) in to {
            let (these, others) = rest.split_at(n as usize);
            for (&from, to) in these.iter().zip(ppa..) {
                let (lpn, stamp) = (by_run.lpn_at(from), by_run.stamp_at(from));
                by_run.set_flash(lpn, to);
                by_run.put_oob(to, lpn, stamp);
            }
            rest = others;
        }
        assert!(map.moves_lines());
        let (mut widths, before) = (Vec::new(), map.memory().stamps);
        for (parts, threads) in [(1, 1), (2, 2), (3, 2), (5, 4), (5, 1)] {
            let mut map = map.clone();
            map.move_in_parts(0, &to, parts, threads);
            assert!((0..2 * line).all(|lpn| map.code(lpn) == by_run.code(lpn)), "{parts}");
            let held = |map: &Map, ppa| (map.lpn_at(ppa), map.stamp_at(ppa));
            assert!((0..4 * line).all(|ppa| held(&map, ppa) == held(&by_run, ppa)), "{parts}");
            widths.push(map.memory().stamps);
        }
        assert!(widths.iter().all(|&w| w == widths[0] && w > before), "{before} {widths:?}");
    }
}
