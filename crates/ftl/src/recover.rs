//! The map rebuilt from what flash holds (pblk-recovery): for a drive that lost power.
//!
//! Lines whose smeta can be read are replayed in the order they were opened, their sectors in the
//! order they were written; the later copy of a logical sector wins. That order is the order of
//! versions, because a copy is never mapped behind a newer one (see `Ftl::supersede`). A line whose
//! smeta was not finished holds no data. A line without emeta, open at the time, is closed as it is
//! and collected first: nothing is programmed behind an interrupted page, so no pairs need padding.
//!
//! A block outlives its line: what an earlier one left there stays until it is erased, and with it
//! perhaps that one's smeta. So a unit counts for the line it was written for, whose order is in its
//! spare area, and a line is gone when one of its blocks was erased since, or a newer line had it.
//!
//! Hot and cold lines are written side by side, so there the version in a sector's spare area decides
//! and not its place. Parity is skipped; a stride of which a unit is missing is not rebuilt from.
//!
//! Trims leave no mark in flash, as in pblk: a trimmed sector may come back in any version still
//! there, unless whoever keeps the media knows of the trim.

use crate::config::FtlConfig;
use crate::line::{LineState, NO_LINE, Stream};
use crate::map::{EMPTY, LOST, Where};
use crate::stride::Strides;
use crate::{Ftl, Lpn, Ppa};
use thiserror::Error;
use wordline_base::{BadValue, BitMap, IdVec, Seed};
use wordline_nand::{Geometry, LineId, LunId};
use wordline_translation::Capacity;

/// What a line's smeta says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SmetaRecord {
    /// Order of opening.
    pub seq: u64,
    /// The unit it is in.
    pub unit: u32,
    /// LUNs of the line whose block was good: the others still hold what was there before.
    pub luns: BitMap,
    /// Those of these LUNs that hold parity.
    pub parity: BitMap,
    /// LUNs that its strides are made of; 0 without strides.
    pub strides: u32,
    /// Whose data are in it.
    pub stream: Stream,
    /// Erasures of each LUN's block when the line was opened.
    pub erases: IdVec<LunId, u32>,
}

/// What can be read of one line.
#[derive(Clone, Debug)]
pub struct Written {
    /// From the line's first unit.
    pub smeta: SmetaRecord,
    /// First unit of its emeta, and first page that holds nothing else, if all of it can be read.
    pub emeta: Option<(u32, u32)>,
}

/// What can be read of the blocks of one id.
#[derive(Clone, Debug)]
pub struct LineMedia {
    /// The lines whose smeta is there.
    pub lines: Vec<Written>,
    /// Units programmed with success since the block's last erase.
    pub units: BitMap,
    /// Per LUN: the line its units were written for, by its order of opening.
    pub of: IdVec<LunId, u64>,
    /// Whether each LUN's block is bad.
    pub bad: IdVec<LunId, bool>,
    /// Pages of each LUN's block that were programmed, or tried, since the last erasure.
    pub programmed: IdVec<LunId, u32>,
    /// Erasures of each LUN's block.
    pub erases: IdVec<LunId, u32>,
}

/// What can be read of a drive.
pub struct Media<'a> {
    /// User capacity, from the superblock.
    pub sectors: u64,
    /// Too few blocks are good to write: it is read-only.
    pub worn: bool,
    /// By block id.
    pub lines: IdVec<u32, LineMedia>,
    /// The spare area of a sector in a programmed unit: logical sector and stamp, if it holds data.
    pub oob: &'a dyn Fn(Ppa) -> Option<(Lpn, u32)>,
    /// A copy that was trimmed, where that is known: it is no version of the sector any more.
    pub trimmed: &'a dyn Fn(Lpn, u32) -> bool,
}

/// Why no map can be made of what flash holds.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RecoverError {
    /// The image and the configuration are of two drives.
    #[allow(missing_docs, reason = "the message names the fields")]
    #[error("the media has {media} lines, not {geometry}")]
    Lines { media: usize, geometry: u32 },
    /// The configuration itself cannot be.
    #[error(transparent)]
    Config(#[from] BadValue),
    /// By its place in the order of opening.
    #[error("line {0} shares a block with another")]
    Shared(u64),
}

/// What recovery did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recovery {
    /// Lines whose map was read from their emeta.
    pub from_emeta: u32,
    /// Lines whose map was read from the spare area of each of their sectors.
    pub scanned: u32,
    /// Units of metadata and data read for it.
    pub units_read: u64,
    /// Sectors that have a copy.
    pub mapped: u64,
}

impl Ftl {
    /// The order in which a line was opened, for keeping the media of a drive.
    pub fn line_smeta(&self, line: LineId) -> SmetaRecord {
        let l = &self.lines[line];
        let mut luns = BitMap::new(self.g.luns as usize);
        for lun in (0..self.g.luns).filter(|&lun| self.lines.was_good(line, lun)) {
            luns.set(lun as usize);
        }
        let mut parity = BitMap::new(self.g.luns as usize);
        for lun in (0..self.g.luns).filter(|&lun| self.lines.is_parity(line, lun)) {
            parity.set(lun as usize);
        }
        let strides = l.strides.map_or(0, |s| s.luns);
        let block = |lun| l.block * self.g.luns + lun;
        let erases = (0..self.g.luns).map(|lun| self.lines.erases[block(lun)]).collect();
        SmetaRecord { seq: l.seq, unit: l.smeta, luns, parity, strides, stream: l.stream, erases }
    }
    /// The sector is one of its line's parity.
    pub fn is_parity(&self, ppa: Ppa) -> bool {
        self.lines.is_parity(self.line_at(ppa), self.g.lun_of(ppa))
    }
    /// The line of a sector in use, for keeping the media of a drive.
    pub fn line_at(&self, ppa: Ppa) -> LineId {
        self.map.line_of(ppa.0)
    }
    /// Lines that have blocks of this id.
    pub fn lines_of(&self, block: u32) -> impl Iterator<Item = u32> + '_ {
        (0..self.lines.count()).filter(move |&l| self.lines[l].block == block)
    }
    /// First unit and first whole page of a closed line's emeta, if it can be read back.
    pub fn line_emeta(&self, line: LineId) -> Option<(u32, u32)> {
        let l = &self.lines[line];
        let closed = matches!(l.state, LineState::Closed | LineState::Gc);
        (closed && l.emeta_ok).then_some((l.emeta, l.whole))
    }
    /// What is being or was written to a sector beside its data.
    pub fn oob(&self, ppa: Ppa) -> Option<(Lpn, u32)> {
        let line = self.map.line_of(ppa.0);
        // Blocks that are in no line now may be owned by a number that is another line's.
        let block = ppa.0 / self.g.sectors_per_line;
        let of = |l: &crate::line::Line| l.block == block && l.strides.is_some();
        let used = self.lines.lines.get(line).is_some_and(of);
        let (lpn, stamp) = if used {
            let sector = ppa.0 - self.lines.first_sector(line);
            let size = self.g.sectors_per_unit;
            self.spare_at(line, sector / size, sector % size)
        } else {
            (self.map.lpn_at(ppa.0), self.map.stamp_at(ppa.0))
        };
        (lpn != EMPTY).then_some((Lpn(lpn), stamp))
    }

    /// A machine from what flash holds.
    pub fn recover(
        geometry: &Geometry,
        config: &FtlConfig,
        media: &Media,
        seed: Seed,
    ) -> Result<(Ftl, Recovery), RecoverError> {
        let g = *geometry;
        if media.lines.len() != g.lines as usize {
            return Err(RecoverError::Lines { media: media.lines.len(), geometry: g.lines });
        }
        let mut bad = |lun: LunId, line: LineId| media.lines[line].bad[lun];
        let capacity = Capacity::of(media.sectors, media.worn);
        let mut ftl = Ftl::build(&g, config, &mut bad, seed, capacity)?;
        ftl.map.keep_stamps();
        ftl.stamps_unknown = true;
        let mut report = Recovery::default();
        let split = ftl.lines.is_split();
        let mut order: Vec<(u64, u32, usize)> = Vec::new();
        for (block, m) in media.lines.iter().enumerate() {
            order.extend(m.lines.iter().enumerate().map(|(i, w)| (w.smeta.seq, block as u32, i)));
        }
        order.sort_unstable();
        let none = BitMap::new(g.luns as usize);
        let mut taken: IdVec<u32, BitMap> = IdVec::filled(none, g.lines);
        let mut newest_first = order.split_off(0);
        newest_first.reverse();
        for (seq, block, i) in newest_first {
            let m = &media.lines[block];
            let smeta = &m.lines[i].smeta;
            let newer = &mut taken[block];
            let still = |bit: usize| {
                let lun = bit as LunId;
                !newer.get(bit) && m.of[lun] <= seq && m.erases[lun] <= smeta.erases[lun]
            };
            // A line of no LUNs holds nothing.
            if smeta.luns.next_set(0).is_some() && smeta.luns.iter().all(still) {
                order.push((seq, block, i));
            }
            smeta.luns.iter().for_each(|lun| {
                newer.set(lun);
            });
        }
        order.reverse();
        let mut in_use: IdVec<u32, bool> = IdVec::filled(false, g.lines);
        order.iter().for_each(|o| in_use[o.1] = true);
        if split {
            ftl.lines.number(ftl.lines.count().max(order.len() as u32));
        }
        // Above what any unit still has, lest one be taken for a new line's.
        let seqs = media.lines.iter().flat_map(|m| m.of.iter().copied());
        let opened = order.last().map_or(0, |o| o.0);
        ftl.lines.next_seq = 1 + seqs.max().unwrap_or(0).max(opened);
        ftl.lines.begin_load(ftl.lines.hot);
        for block in 0..g.lines {
            let m = &media.lines[block];
            for lun in 0..g.luns {
                let at = block * g.luns + lun;
                ftl.lines.erases[at] = m.erases[lun];
                ftl.lines.programmed[at] = m.programmed[lun];
            }
            report.units_read += 1;
            if !split && !in_use[block] {
                ftl.lines.release(block);
            }
        }
        let mut used = Vec::new();
        for (number, &(_, block, i)) in order.iter().enumerate() {
            let line = if split { number as u32 } else { block };
            let m = &media.lines[block];
            ftl.replay(line, block, &m.lines[i], m, media, &mut report)?;
            used.push(line);
        }
        if split {
            for line in (used.len() as u32..ftl.lines.count()).rev() {
                ftl.lines.load_line(line, NO_LINE, None, &[vec![], vec![], vec![]]);
            }
            ftl.lines.end_load();
            ftl.lines.partition(ftl.lines.hot);
        }
        for line in used {
            if ftl.map.valid_in(line) == 0 {
                ftl.lines.release(line);
            }
        }
        report.mapped = (0..ftl.lines.count()).map(|line| u64::from(ftl.map.valid_in(line))).sum();
        ftl.rate_update();
        Ok((ftl, report))
    }

    fn replay(
        &mut self,
        line: LineId,
        block: u32,
        written: &Written,
        media: &LineMedia,
        all: &Media,
        report: &mut Recovery,
    ) -> Result<(), RecoverError> {
        let (size, oob) = (self.g.sectors_per_unit, all.oob);
        let Written { smeta, emeta } = written;
        let (end, whole) = emeta.unwrap_or((self.lines.units, self.lines.pages));
        let (state, opened) = (LineState::Closed, media.erases.iter().max().map_or(1, |n| n + 1));
        let l = &mut self.lines.lines[line];
        l.implied = 0..0;
        (l.state, l.stream, l.seq, l.smeta, l.opened) =
            (state, smeta.stream, smeta.seq, smeta.unit, opened);
        (l.cur, l.emeta, l.whole, l.emeta_cur) = (end, end, whole, self.lines.units);
        l.emeta_ok = emeta.is_some();
        let strides = Strides::new(smeta.strides, &self.config).filter(|_| smeta.strides > 0);
        let mut mask = smeta.luns.words().to_vec();
        if !self.lines.is_split() {
            let mut all = BitMap::new(self.g.luns as usize);
            for lun in 0..self.g.luns as usize {
                all.set(lun);
            }
            mask = all.words().to_vec();
        }
        let maps = [mask, smeta.luns.words().to_vec(), smeta.parity.words().to_vec()];
        if !self.lines.load_line(line, block, strides, &maps) {
            return Err(RecoverError::Shared(smeta.seq));
        }
        if self.lines.is_split() {
            self.own(line);
        }
        let mut data = 0;
        for unit in media.units.iter().map(|u| u as u32).filter(|&u| u < end && u != smeta.unit) {
            let lun = self.lines.lun(unit);
            // Sums of logical addresses look like any other.
            let mine = smeta.luns.get(lun as usize) && media.of[lun] == smeta.seq;
            if !mine || smeta.parity.get(lun as usize) {
                continue;
            }
            data += size;
            report.units_read += u64::from(emeta.is_none());
            let first = self.lines.ppa(line, unit);
            for ppa in first..first + size {
                let Some((Lpn(lpn), stamp)) = oob(Ppa(ppa)) else { continue };
                if u64::from(lpn) >= self.sectors {
                    continue;
                }
                self.map.put_oob(ppa, lpn, stamp);
                if (all.trimmed)(Lpn(lpn), stamp) {
                    continue;
                }
                self.lossy |= stamp & LOST != 0;
                if let Where::Flash(older) = self.map.get(lpn) {
                    // Two open lines are no order: the version in the spare area is, and of one
                    // version the copy that was read.
                    let rank = |stamp: u32| (stamp & !LOST, stamp & LOST == 0);
                    if self.lines.is_split() && rank(self.map.stamp_at(older.0)) > rank(stamp) {
                        continue;
                    }
                    self.map.invalidate(older.0);
                }
                self.map.set_valid(ppa, 1);
                self.map.set_flash(lpn, ppa);
            }
        }
        let luns = (0..self.g.luns).filter(|&lun| self.lines.has_lun(line, lun)).count();
        self.map.touched += luns as u32 * self.lines.pages * size;
        self.recover_parity(line, media, oob);
        match emeta {
            Some((first, _)) => {
                report.from_emeta += 1;
                report.units_read += u64::from(self.lines.units - first);
            }
            None => report.scanned += 1,
        }
        let l = &mut self.lines[line];
        l.data = data;
        if emeta.is_none() {
            l.write_error = true;
            self.lines.write_errors += 1;
        }
        Ok(())
    }
    /// Takes parity that was written; strides whose parity or data are not all there are broken.
    fn recover_parity(
        &mut self,
        line: LineId,
        media: &LineMedia,
        oob: &dyn Fn(Ppa) -> Option<(Lpn, u32)>,
    ) {
        let Some(strides) = self.lines[line].strides else { return };
        let seq = self.lines[line].seq;
        for page in 0..self.g.pages {
            for stride in 0..strides.count {
                let unit = |lun: LunId| page * self.g.luns + lun;
                let there =
                    |lun: LunId| media.of[lun] == seq && media.units.get(unit(lun) as usize);
                let member = |&m: &u32| self.lines.was_good(line, m);
                let whole = strides.members(stride).filter(member).all(|m| {
                    let at = unit(m);
                    there(m) || !self.is_summed(line, at) && !self.lines.is_parity(line, m)
                });
                if !whole {
                    self.lines[line].broken.push((page, stride));
                }
                let parity: Vec<u32> = strides
                    .members(stride)
                    .filter(|&m| self.lines.is_parity(line, m) && there(m))
                    .map(|m| self.lines.ppa(line, unit(m)))
                    .collect();
                for first in parity {
                    let mut sums = 0;
                    for ppa in first..first + self.g.sectors_per_unit {
                        if let Some((Lpn(lpn), stamp)) = oob(Ppa(ppa)) {
                            self.map.put_oob(ppa, lpn, stamp);
                            sums += 1;
                        }
                    }
                    // Without emeta there is no telling where it began: it has no addresses.
                    if sums == 0 && whole {
                        self.lines[line].broken.push((page, stride));
                    }
                }
            }
        }
    }
}
