//! What the log holds beside data: records of trims, and checkpoints of the map.
//!
//! Sectors of the log are numbered in the order in which the map learned of them. A checkpoint begins at
//! a number and writes the map, a range of sectors after the other, while users go on: what they change
//! meanwhile is in the log behind that number. It is complete with a last sector, written when the rest
//! and all that it points to is durable. Then the one before it, and records of trims before its number,
//! are of no use any more. The collector does not move the part of a checkpoint that is in its victim:
//! it writes the same range of the map as it is now.

use crate::tree::Extent;
use crate::{Fssd, GC};
use std::collections::BTreeMap;

/// A sector of metadata.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Meta {
    /// From this number on the sectors were mapped nowhere, or their only copy was lost.
    #[allow(
        missing_docs,
        reason = "numbers of the log, sectors, and whether their only copy was lost"
    )]
    Trim { seq: u64, lpn: u32, sectors: u32, lost: bool },
    /// The map of these sectors, at this sector's own number.
    #[allow(missing_docs, reason = "the checkpoint's number, and the range in sectors")]
    Piece { checkpoint: u64, from: u32, to: u32, extents: Vec<Extent> },
    /// A checkpoint is complete: with the log from this number on it is the map.
    #[allow(missing_docs, reason = "numbers of the checkpoint and of the log")]
    Done { checkpoint: u64, from_seq: u64 },
}

/// What was written into a sector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Holds {
    /// A user's sector, and the version that it is.
    #[allow(missing_docs, reason = "the variant's line names the fields")]
    Data { lpn: u32, stamp: u32 },
    /// The log's own records.
    Meta(Meta),
}

/// What a sector holds, and its number in the log, which is beside its data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spare {
    /// Goes up by one a sector of the log.
    pub seq: u64,
    /// Data or metadata.
    pub holds: Holds,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Trim {
    pub seq: u64,
    pub lpn: u32,
    pub sectors: u32,
    pub lost: bool,
}

/// Sectors of a checkpoint that follow each other in a unit, and where their range of the map ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub ppa: u32,
    pub sectors: u32,
    pub to: u32,
}

#[derive(Clone, Default, Debug)]
pub(crate) struct Checkpoint {
    pub id: u64,
    pub from_seq: u64,
    /// By the first sector of the range, and their place.
    pub runs: BTreeMap<(u32, u32), Run>,
    pub done: Option<u32>,
}

impl Checkpoint {
    pub fn add(&mut self, from: u32, to: u32, ppa: u32, unit: u32) {
        if let Some((_, last)) = self.runs.range_mut(..(from, 0)).next_back()
            && last.to == from
            && last.ppa + last.sectors == ppa
            && last.ppa / unit == ppa / unit
        {
            (last.sectors, last.to) = (last.sectors + 1, to);
            return;
        }
        self.runs.insert((from, ppa), Run { ppa, sectors: 1, to });
    }
}

/// A checkpoint being written.
#[derive(Clone, Debug)]
pub(crate) struct Dump {
    pub checkpoint: Checkpoint,
    /// Sectors of the map that were written, and of the log.
    pub cursor: u32,
    pub written: u64,
    /// About as many sectors of the log as it takes, for the largest map since it began.
    pub about: u64,
    /// The rest is durable when these turns are passed, and then the last sector.
    pub barrier: Option<[u64; 2]>,
}

#[derive(Clone, Default)]
pub(crate) struct Log {
    /// Records of trims by their place.
    pub trims: BTreeMap<u32, Trim>,
    /// The newest whole checkpoint.
    pub current: Option<Checkpoint>,
    /// The checkpoint that is being written.
    pub dump: Option<Dump>,
    /// The number of the last one begun.
    pub last_id: u64,
    /// Sectors that users wrote since the last checkpoint began.
    pub since: u64,
    /// Users wait for the space of records.
    pub urgent: bool,
}

impl Log {
    fn checkpoints(&self) -> impl Iterator<Item = &Checkpoint> {
        self.dump.iter().map(|dump| &dump.checkpoint).chain(&self.current)
    }
    /// All of a checkpoint was appended, and is not durable.
    pub fn waits_for_turns(&self) -> bool {
        self.dump.as_ref().is_some_and(|dump| dump.barrier.is_some())
    }
    /// Bytes of the tables.
    pub fn bytes(&self) -> u64 {
        let runs: usize = self.checkpoints().map(|c| c.runs.len()).sum();
        (runs * size_of::<((u32, u32), Run)>() + self.trims.len() * size_of::<(u32, Trim)>()) as u64
    }
    /// Where metadata are that are of use.
    pub fn places(&self) -> impl Iterator<Item = u32> {
        let runs = self.checkpoints().flat_map(|c| c.runs.values());
        let runs = runs.flat_map(|run| run.ppa..run.ppa + run.sectors);
        runs.chain(self.checkpoints().filter_map(|c| c.done)).chain(self.trims.keys().copied())
    }
}

impl Fssd {
    /// Sectors from `lpn` on were unmapped, or lost; for this command.
    pub(crate) fn record_trim(
        &mut self,
        point: usize,
        lpn: u32,
        sectors: u32,
        lost: bool,
        id: Option<u32>,
    ) {
        let trim = Trim { seq: self.seq, lpn, sectors, lost };
        // Without space for it what was lost may come back with a power cut: it cannot be read there.
        self.put_trim(point, trim, id);
    }
    fn put_trim(&mut self, point: usize, trim: Trim, id: Option<u32>) -> bool {
        let Trim { seq, lpn, sectors, lost } = trim;
        match self.put_meta(point, Meta::Trim { seq, lpn, sectors, lost }, id) {
            Some(ppa) => self.log.trims.insert(ppa, trim).is_none(),
            None => false,
        }
    }

    /// Goes on with a checkpoint, or begins one.
    pub(crate) fn checkpoint(&mut self) -> bool {
        let many = u64::from(self.space.shape.places() * self.g.sectors_per_unit);
        let about = self.tree.entries() / self.plan.extents as u64 + 1;
        if self.log.dump.is_none() {
            let trims = self.log.trims.len() as u64 > many;
            // Users have half of what is written.
            let due = self.log.since >= self.plan.checkpoint.max(about);
            if !due && !trims && !self.log.urgent {
                return false;
            }
            self.log.last_id += 1;
            self.log.since = 0;
            let (id, from_seq) = (self.log.last_id, self.seq);
            let checkpoint = Checkpoint { id, from_seq, ..Checkpoint::default() };
            let dump = Dump { checkpoint, cursor: 0, written: 0, about, barrier: None };
            self.log.dump = Some(dump);
        }
        let Some(dump) = &mut self.log.dump else { return false };
        // Done in a quarter of the time to the next, also where the map grows meanwhile, as behind a fill.
        dump.about = dump.about.max(about);
        let due = match self.log.urgent || self.log.trims.len() as u64 > many {
            true => u64::MAX,
            false => dump.about * self.log.since * 4 / self.plan.checkpoint.max(dump.about) + 1,
        };
        let end = self.plan.sectors as u32;
        if dump.cursor < end && dump.written >= due {
            return false;
        }
        let Some(mut dump) = self.log.dump.take() else { return false };
        let before = (dump.written, dump.barrier);
        let may = |ftl: &Fssd| {
            ftl.gc.buffered < ftl.config.gc_units + 2
                && (ftl.unit_fits()
                    || ftl.points[GC].unit.is_some_and(|u| ftl.units[u].is_on_host()))
        };
        while dump.cursor < end && dump.written < due && may(self) {
            let Some((ppa, next)) = self.put_piece(dump.checkpoint.id, dump.cursor, end) else {
                break;
            };
            dump.checkpoint.add(dump.cursor, next, ppa, self.g.sectors_per_unit);
            (dump.cursor, dump.written) = (next, dump.written + 1);
        }
        if dump.cursor == end {
            let barrier = *dump.barrier.get_or_insert_with(|| self.barrier());
            if self.is_passed(barrier) && (dump.checkpoint.done.is_some() || may(self)) {
                if dump.checkpoint.done.is_some() {
                    self.commit(dump.checkpoint);
                    return true;
                }
                let Checkpoint { id: checkpoint, from_seq, .. } = dump.checkpoint;
                dump.checkpoint.done = self.put_meta(GC, Meta::Done { checkpoint, from_seq }, None);
                if dump.checkpoint.done.is_some() {
                    dump.barrier = Some(self.barrier());
                }
            }
        }
        let progress = before != (dump.written, dump.barrier);
        self.log.dump = Some(dump);
        progress
    }
    fn put_piece(&mut self, checkpoint: u64, from: u32, end: u32) -> Option<(u32, u32)> {
        self.open(GC)?;
        let mut extents = Vec::new();
        let to = self.tree.take(from, end, self.plan.extents, &mut extents);
        let ppa = self.put_meta(GC, Meta::Piece { checkpoint, from, to, extents }, None)?;
        Some((ppa, to))
    }
    /// A checkpoint is durable: what it replaces is not needed any more.
    fn commit(&mut self, checkpoint: Checkpoint) {
        self.log.urgent = false;
        let old = self.log.current.take();
        for run in old.iter().flat_map(|old| old.runs.values()) {
            self.space.count_meta(run.ppa, run.sectors, false);
        }
        if let Some(done) = old.and_then(|old| old.done) {
            self.space.count_meta(done, 1, false);
        }
        let (space, from) = (&mut self.space, checkpoint.from_seq);
        self.log.trims.retain(|&ppa, trim| {
            if trim.seq < from {
                space.count_meta(ppa, 1, false);
            }
            trim.seq >= from
        });
        self.log.current = Some(checkpoint);
    }

    /// Metadata of use at these places is written elsewhere. False: there is no space for it.
    pub(crate) fn rescue(&mut self, is_there: impl Fn(u32) -> bool) -> bool {
        let trims = self.log.trims.iter().filter(|t| is_there(*t.0));
        let trims: Vec<(u32, Trim)> = trims.map(|(&ppa, &trim)| (ppa, trim)).collect();
        for (ppa, trim) in trims {
            if !self.put_trim(GC, trim, None) {
                return false;
            }
            self.log.trims.remove(&ppa);
            self.space.count_meta(ppa, 1, false);
        }
        let mut dump = self.log.dump.take();
        let mut current = self.log.current.take();
        let both = dump.iter_mut().map(|d| &mut d.checkpoint).chain(&mut current);
        let rescued = both.map(|c| self.rescue_checkpoint(c, &is_there)).fold(true, |a, b| a & b);
        if let Some(dump) = &mut dump
            && dump.barrier.is_some()
        {
            dump.barrier = Some(self.barrier());
        }
        (self.log.dump, self.log.current) = (dump, current);
        rescued
    }
    fn rescue_checkpoint(&mut self, c: &mut Checkpoint, is_there: &impl Fn(u32) -> bool) -> bool {
        let runs = c.runs.iter().filter(|(_, run)| is_there(run.ppa));
        let runs: Vec<((u32, u32), Run)> = runs.map(|(&key, &run)| (key, run)).collect();
        for (key, run) in runs {
            // As long as not all of it is written again it counts as it is.
            let (mut at, mut pieces) = (key.0, Vec::new());
            while at < run.to {
                let Some((ppa, next)) = self.put_piece(c.id, at, run.to) else {
                    // No checkpoint has what is there of it by now.
                    pieces.iter().for_each(|&(_, _, ppa)| self.space.count_meta(ppa, 1, false));
                    return false;
                };
                pieces.push((at, next, ppa));
                at = next;
            }
            c.runs.remove(&key);
            self.space.count_meta(run.ppa, run.sectors, false);
            for (from, to, ppa) in pieces {
                c.add(from, to, ppa, self.g.sectors_per_unit);
            }
        }
        if let Some(done) = c.done.filter(|&done| is_there(done)) {
            let meta = Meta::Done { checkpoint: c.id, from_seq: c.from_seq };
            let Some(ppa) = self.put_meta(GC, meta, None) else { return false };
            self.space.count_meta(done, 1, false);
            c.done = Some(ppa);
        }
        true
    }
}
