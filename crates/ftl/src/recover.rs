//! The map rebuilt from what flash holds (pblk-recovery): for a drive that lost power.
//!
//! Lines whose smeta can be read are replayed in the order they were opened, their sectors in the
//! order they were written; the later copy of a logical sector wins. That order is the order of
//! versions, because a copy is never mapped behind a newer one (see `Ftl::supersede`). A line whose
//! smeta was not finished holds no data. A line without emeta, open at the time, is closed as it is
//! and collected first: nothing is programmed behind an interrupted page, so no pairs need padding.
//!
//! Trims leave no mark in flash, as in pblk: a trimmed sector may come back in any version still
//! there.

use crate::config::FtlConfig;
use crate::line::LineState;
use crate::map::{EMPTY, Where};
use crate::{Ftl, Lpn, Ppa};
use wordline_base::{BitMap, Seed};
use wordline_nand::Geometry;

/// What a line's smeta says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SmetaRecord {
    /// Order of opening.
    pub seq: u64,
    /// The unit it is in.
    pub unit: u32,
    /// LUNs whose block was good: the others still hold what was there before.
    pub luns: BitMap,
}

/// What can be read of a line.
#[derive(Clone, Debug)]
pub struct LineMedia {
    pub smeta: Option<SmetaRecord>,
    /// First unit of emeta, if all of it can be read.
    pub emeta: Option<u32>,
    /// Units programmed with success since the block's last erase.
    pub units: BitMap,
    /// Per LUN: bad, pages programmed (or tried) since the last erase, and erasures.
    pub bad: Vec<bool>,
    pub programmed: Vec<u32>,
    pub erases: Vec<u32>,
}

/// What can be read of a drive.
pub struct Media<'a> {
    /// User capacity, from the superblock.
    pub sectors: u64,
    pub lines: Vec<LineMedia>,
    /// The spare area of a sector in a programmed unit: logical sector and stamp, if it holds data.
    pub oob: &'a dyn Fn(Ppa) -> Option<(Lpn, u32)>,
}

/// What recovery did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recovery {
    /// Lines replayed from emeta, and by reading the spare area of all their sectors.
    pub from_emeta: u32,
    pub scanned: u32,
    /// Units of metadata and data read for it.
    pub units_read: u64,
    pub mapped: u64,
}

impl Ftl {
    /// The order in which a line was opened, for keeping the media of a drive.
    pub fn line_smeta(&self, line: u32) -> SmetaRecord {
        let l = &self.lines.lines[line as usize];
        let mut luns = BitMap::new(self.g.luns as usize);
        for lun in (0..self.g.luns).filter(|&lun| self.lines.was_good(line, lun)) {
            luns.set(lun as usize);
        }
        SmetaRecord { seq: l.seq, unit: l.smeta, luns }
    }
    /// First unit of a closed line's emeta, if it can be read back.
    pub fn line_emeta(&self, line: u32) -> Option<u32> {
        let l = &self.lines.lines[line as usize];
        let closed = matches!(l.state, LineState::Closed | LineState::Gc);
        (closed && l.emeta_ok).then_some(l.emeta)
    }
    /// What is being or was written to a sector beside its data.
    pub fn oob(&self, ppa: Ppa) -> Option<(Lpn, u32)> {
        let lpn = self.map.lpn_at(ppa.0);
        (lpn != EMPTY).then(|| (Lpn(lpn), self.map.stamp_at(ppa.0)))
    }

    /// A machine from what flash holds.
    pub fn recover(
        geometry: &Geometry,
        config: &FtlConfig,
        media: &Media,
        seed: Seed,
    ) -> Result<(Ftl, Recovery), String> {
        let g = *geometry;
        if media.lines.len() != g.lines as usize {
            return Err(format!("the media has {} lines, not {}", media.lines.len(), g.lines));
        }
        let mut bad = |lun: u32, line: u32| media.lines[line as usize].bad[lun as usize];
        let mut ftl = Ftl::build(&g, config, &mut bad, seed, Some(media.sectors))
            .map_err(|(key, message)| format!("{key} {message}"))?;
        ftl.map.keep_stamps();
        ftl.stamps_unknown = true;
        let mut report = Recovery::default();
        let mut order: Vec<u32> = (0..g.lines).collect();
        order.retain(|&line| media.lines[line as usize].smeta.is_some());
        order.sort_by_key(|&line| media.lines[line as usize].smeta.as_ref().map(|s| s.seq));
        ftl.lines.free.clear();
        (ftl.lines.free_blocks, ftl.lines.free_units) = (0, 0);
        for line in 0..g.lines {
            let m = &media.lines[line as usize];
            for lun in 0..g.luns {
                let block = ftl.lines.block(line, lun);
                ftl.lines.erases[block] = m.erases[lun as usize];
                ftl.lines.programmed[block] = m.programmed[lun as usize];
            }
            report.units_read += 1;
            if m.smeta.is_none() {
                ftl.lines.release(line);
            }
        }
        for &line in &order {
            ftl.replay(line, &media.lines[line as usize], media.oob, &mut report);
        }
        for &line in &order {
            if ftl.map.valid_in(line) == 0 {
                ftl.lines.release(line);
            }
        }
        report.mapped = (0..g.lines).map(|line| u64::from(ftl.map.valid_in(line))).sum();
        ftl.rate_update();
        Ok((ftl, report))
    }

    fn replay(
        &mut self,
        line: u32,
        media: &LineMedia,
        oob: &dyn Fn(Ppa) -> Option<(Lpn, u32)>,
        report: &mut Recovery,
    ) {
        let size = self.g.sectors_per_unit;
        let smeta = media.smeta.as_ref().expect("a line with smeta");
        let end = media.emeta.unwrap_or(self.lines.units);
        let mut data = 0;
        for unit in media.units.iter().map(|u| u as u32).filter(|&u| u < end && u != smeta.unit) {
            if !smeta.luns.get(self.lines.lun(unit) as usize) {
                continue;
            }
            data += size;
            report.units_read += u64::from(media.emeta.is_none());
            let first = self.lines.ppa(line, unit);
            for ppa in first..first + size {
                let Some((Lpn(lpn), stamp)) = oob(Ppa(ppa)) else { continue };
                if u64::from(lpn) >= self.sectors {
                    continue;
                }
                if let Where::Flash(older) = self.map.get(lpn) {
                    self.map.invalidate(older.0);
                }
                self.map.put_oob(ppa, lpn, stamp);
                self.map.set_valid(ppa, 1);
                self.map.set_flash(lpn, ppa);
            }
        }
        match media.emeta {
            Some(first) => {
                report.from_emeta += 1;
                report.units_read += u64::from(self.lines.units - first);
            }
            None => report.scanned += 1,
        }
        self.map.touched += 1;
        let l = &mut self.lines.lines[line as usize];
        l.state = LineState::Closed;
        l.seq = smeta.seq;
        l.smeta = smeta.unit;
        l.cur = end;
        l.emeta = end;
        l.emeta_cur = self.lines.units;
        l.emeta_ok = media.emeta.is_some();
        l.data = data;
        l.opened = media.erases.iter().copied().max().unwrap_or(0) + 1;
        self.lines.next_seq = self.lines.next_seq.max(smeta.seq + 1);
        if media.emeta.is_none() {
            l.write_error = true;
            self.lines.write_errors += 1;
        }
    }
}
