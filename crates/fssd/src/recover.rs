//! The map rebuilt from what flash holds: the newest complete checkpoint, and the log from its number on.
//!
//! The log's numbers are beside the data, so the order of places does not matter, nor which life of a block
//! a sector is from. What a number replaced is erased only when the number is durable: the highest that is
//! found of a sector is its newest version, or older only by what was never promised.
//!
//! A range of a checkpoint that was written again while the collector went on may point to sectors that a
//! power cut took. An entry counts only where flash holds its sector; otherwise what was written of the
//! range before stands, and the log behind it.

use crate::log::{Checkpoint, Holds, Meta, Spare, Trim};
use crate::space::State;
use crate::tree::{Extent, LOST};
use crate::{Fssd, FssdConfig, GC, USER};
use wordline_base::{BadValue, IdVec, Lpn};
use wordline_nand::{BlockId, Geometry, LineId, LunId, Ppa};

/// What can be read of a drive.
pub struct Media<'a> {
    /// User capacity, from the superblock.
    pub sectors: u64,
    /// The block cannot be used.
    pub bad: &'a dyn Fn(BlockId) -> bool,
    /// Pages programmed, or tried, since the last erasure of each block.
    pub programmed: &'a IdVec<BlockId, u32>,
    /// Erasures of each block.
    pub erases: &'a IdVec<BlockId, u32>,
    /// What a sector of a programmed page holds, if it can be read.
    pub spare: &'a dyn Fn(Ppa) -> Option<Spare>,
}

/// A drive of which a driver keeps each sector with its version, and no numbers of the log.
pub struct KeptVersions<'a> {
    /// Sectors that users can write.
    pub sectors: u64,
    /// Too few blocks are good to write: it is read-only.
    pub worn: bool,
    /// The block is not to be used.
    pub bad: &'a dyn Fn(BlockId) -> bool,
    /// Pages of each block programmed since its last erasure.
    pub programmed: &'a IdVec<BlockId, u32>,
    /// Erasures of each block.
    pub erases: &'a IdVec<BlockId, u32>,
    /// What a sector holds, and when its unit was programmed.
    pub held: &'a dyn Fn(Ppa) -> Option<(Lpn, u32, u64)>,
    /// A version from before a trim, which is not to come back.
    pub trimmed: &'a dyn Fn(Lpn, u32) -> bool,
}

/// What recovery did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recovery {
    /// The checkpoint that it began with, if there was one.
    pub checkpoint: Option<u64>,
    /// Units whose spare areas were read.
    pub units_read: u64,
    /// Sectors of the log that were replayed.
    pub replayed: u64,
    /// Sectors that the map has.
    pub mapped: u64,
}

/// A sector of a checkpoint: its number, place and range, and the extents.
type Piece = (u64, u32, u32, u32, Vec<Extent>);

impl Fssd {
    /// An FTL from what flash holds.
    pub fn recover(
        g: &Geometry,
        over_provisioning: f64,
        config: &FssdConfig,
        media: &Media,
    ) -> Result<(Fssd, Recovery), BadValue> {
        let mut bad = |lun: LunId, line: LineId| (media.bad)(line * g.luns + lun);
        let mut ftl = Fssd::build(g, over_provisioning, config, &mut bad, Some(media.sectors))?;
        ftl.keep_stamps();
        ftl.stamps_unknown = true;
        ftl.space.erases = media.erases.clone();
        ftl.space.programmed = media.programmed.clone();
        let mut report = Recovery::default();

        let (mut trims, mut pieces, mut done) = (Vec::new(), Vec::new(), Vec::new());
        ftl.each_sector(media, &mut report, |ftl, ppa, Spare { seq, holds }| {
            ftl.seq = ftl.seq.max(seq + 1);
            match holds {
                Holds::Data { lpn, stamp } => ftl.note(ppa, lpn, stamp),
                Holds::Meta(Meta::Trim { seq, lpn, sectors, lost }) => {
                    trims.push((ppa, Trim { seq, lpn, sectors, lost }));
                }
                Holds::Meta(Meta::Piece { checkpoint, from, to, extents }) => {
                    ftl.log.last_id = ftl.log.last_id.max(checkpoint);
                    pieces.push((checkpoint, (seq, ppa, from, to, extents)));
                }
                Holds::Meta(Meta::Done { checkpoint, from_seq }) => {
                    done.push((checkpoint, seq, ppa, from_seq));
                }
            }
        });
        if let Some(&(id, _, ppa, from_seq)) = done.iter().max() {
            report.checkpoint = Some(id);
            pieces.retain(|p| p.0 == id);
            pieces.sort_unstable_by_key(|p| p.1.0);
            let mut current = Checkpoint { id, from_seq, done: Some(ppa), ..Checkpoint::default() };
            ftl.space.count_meta(ppa, 1, true);
            for (_, piece) in pieces {
                let (_, ppa, from, to, _) = piece;
                current.add(from, to, ppa, g.sectors_per_unit);
                ftl.space.count_meta(ppa, 1, true);
                ftl.apply_piece(&piece);
            }
            ftl.log.current = Some(current);
        }
        let from = ftl.log.current.as_ref().map_or(0, |c| c.from_seq);
        trims.retain(|(_, trim)| trim.seq >= from);
        for &(ppa, trim) in &trims {
            ftl.space.count_meta(ppa, 1, true);
            ftl.log.trims.insert(ppa, trim);
        }
        ftl.replay(media, &mut report, from, &trims);
        ftl.take_up_segments();
        Ok((ftl, report))
    }
    /// An FTL from versions: the highest of a sector is its newest, wherever it is.
    pub fn from_versions(
        g: &Geometry,
        over_provisioning: f64,
        config: &FssdConfig,
        kept: &KeptVersions,
    ) -> Result<(Fssd, Recovery), BadValue> {
        let all = g.sectors() as u32;
        let held = |ppa: Ppa| {
            let (lpn, stamp, order) = (kept.held)(ppa)?;
            (u64::from(lpn.0) < kept.sectors).then_some((lpn.0, stamp, order))
        };
        let mut newest: IdVec<u32, _> = IdVec::filled((0, 0, Ppa(0)), kept.sectors as u32);
        for ppa in (0..all).map(Ppa) {
            if let Some((lpn, stamp, order)) = held(ppa) {
                let best = &mut newest[lpn];
                *best = (*best).max((stamp, order + 1, ppa));
            }
        }
        // The newest come behind all others, in the order of their programs.
        let spare = |ppa: Ppa| {
            let (lpn, stamp, order) = held(ppa)?;
            let (best, _, place) = newest[lpn];
            if (kept.trimmed)(Lpn(lpn), best) {
                return None;
            }
            let at = order * u64::from(g.sectors_per_unit) + u64::from(ppa.0 % g.sectors_per_unit);
            let seq = if place == ppa { at | 1 << 62 } else { at };
            Some(Spare { seq, holds: Holds::Data { lpn, stamp } })
        };
        let media = Media {
            sectors: kept.sectors,
            bad: kept.bad,
            programmed: kept.programmed,
            erases: kept.erases,
            spare: &spare,
        };
        let (mut ftl, report) = Fssd::recover(g, over_provisioning, config, &media)?;
        ftl.read_only = kept.worn;
        Ok((ftl, report))
    }
    /// Looks at every sector of programmed pages.
    fn each_sector(
        &mut self,
        media: &Media,
        report: &mut Recovery,
        mut each: impl FnMut(&mut Fssd, u32, Spare),
    ) {
        let size = self.g.sectors_per_unit;
        for unit in 0..self.g.lines * self.g.units_per_line() {
            let first = self.space.first_of(unit);
            if self.g.page_of(first) >= media.programmed[self.space.block_of(unit)] {
                continue;
            }
            report.units_read += 1;
            for ppa in first.0..first.0 + size {
                if let Some(spare) = (media.spare)(Ppa(ppa)) {
                    each(self, ppa, spare);
                }
            }
        }
    }
    /// The map of a range is what was written of it, as far as flash holds that.
    fn apply_piece(&mut self, &(_, _, from, to, ref extents): &Piece) {
        let mut at = from;
        for e in extents {
            self.unmap(at, e.lpn);
            at = e.end();
            if e.place == LOST {
                self.map_again(*e);
                continue;
            }
            let mut i = 0;
            while i < e.sectors {
                let holds = |i: u32| self.lpn_at(e.place + i) == e.lpn + i;
                let is = holds(i);
                let n = (i..e.sectors).take_while(|&i| holds(i) == is).count() as u32;
                if is {
                    self.map_again(Extent { lpn: e.lpn + i, sectors: n, place: e.place + i });
                }
                i += n;
            }
        }
        self.unmap(at, to);
    }
    /// The sectors of the log from this number on, in order.
    fn replay(&mut self, media: &Media, report: &mut Recovery, from: u64, trims: &[(u32, Trim)]) {
        let (mut data, mut none) = (Vec::new(), Recovery::default());
        self.each_sector(media, &mut none, |ftl, ppa, spare| {
            if let Holds::Data { lpn, .. } = spare.holds
                && spare.seq >= from
                && u64::from(lpn) < ftl.plan.sectors
            {
                data.push((spare.seq, lpn, ppa));
            }
        });
        data.sort_unstable();
        report.replayed = (data.len() + trims.len()) as u64;
        self.log.since = data.len() as u64;
        let mut trims: Vec<Trim> = trims.iter().map(|t| t.1).collect();
        trims.sort_unstable_by_key(|trim| trim.seq);
        let mut trims = trims.into_iter().peekable();
        let next = |a: &(u64, u32, u32), b: &(u64, u32, u32)| (a.0 + 1, a.1 + 1, a.2 + 1) == *b;
        for run in data.chunk_by(next) {
            let (seq, lpn, place) = run[0];
            while let Some(trim) = trims.next_if(|trim| trim.seq < seq) {
                self.apply_trim(trim);
            }
            self.map_again(Extent { lpn, sectors: run.len() as u32, place });
        }
        trims.for_each(|trim| self.apply_trim(trim));
        report.mapped = self.tree.all().map(|e| u64::from(e.sectors)).sum();
    }
    fn apply_trim(&mut self, trim: Trim) {
        let Trim { lpn, sectors, lost, .. } = trim;
        match lost {
            true => self.map_again(Extent { lpn, sectors, place: LOST }),
            false => self.unmap(lpn, lpn + sectors),
        }
    }
    fn map_again(&mut self, e: Extent) {
        let mapped = self.map(e, u32::MAX);
        debug_assert!(mapped.is_ok());
    }
    fn unmap(&mut self, from: u32, to: u32) {
        if from < to {
            let unmapped = self.unmap_now(from, to - from, u32::MAX);
            debug_assert!(unmapped.is_ok());
        }
    }
    /// What was being written is written on, so that a power cut takes no space: the segments that have most left, one
    /// for users and one for the collector, who must never be without. The others that hold anything are collected
    /// in their turn.
    fn take_up_segments(&mut self) {
        let groups = self.space.groups;
        (0..groups).for_each(|group| self.space.set_free(group, Default::default()));
        let mut left = IdVec::filled(Vec::new(), groups);
        for s in 0..self.space.segments.count() {
            let mut blocks = self.space.shape.blocks(s);
            if !blocks.any(|block| self.space.programmed[block] > 0) {
                self.space.release(s);
                continue;
            }
            let blank = self.space.blank_units(s);
            let segment = &mut self.space.segments[s];
            (segment.state, segment.next) = (State::Closed, self.space.shape.places());
            // Without data it is erased at once.
            if blank > 0 && segment.valid > 0 {
                left[s % groups].push((blank, s));
            }
        }
        for (group, left) in (0..groups).zip(&mut left) {
            left.sort_unstable();
            for point in [GC, USER] {
                let Some((_, s)) = left.pop() else { break };
                self.space.reopen(s);
                self.points[point].segments[group] = Some(s);
            }
        }
    }
}
