//! Saving and loading a drive at rest, so that ageing is done once.
//!
//! The tree is kept node by node, since how full its nodes are is a result; so is how often the collector
//! looks up what stale sectors held. Their versions are not kept.

use crate::config::FssdConfig;
use crate::gc::{Drained, Victim};
use crate::held::Held;
use crate::log::{Checkpoint, Dump, Run, Trim};
use crate::space::{SegmentId, State};
use crate::tree::{LOST, Tree};
use crate::{Fssd, GC, USER};
use std::io::{self, Write};
use wordline_base::{IdVec, StateSource};
use wordline_nand::{Geometry, LineId, LunId};
use wordline_translation::{LoadError, SavedIn, SavedOut, Translation, damaged};

/// What must be the same when the drive is loaded; as many as pblk has, of which the last tells whose it is.
fn shape(g: &Geometry, c: &FssdConfig) -> [(&'static str, u32); 10] {
    [
        ("channels", g.channels),
        ("LUNs", g.luns),
        ("lines", g.lines),
        ("pages a block", g.pages),
        ("sectors a unit", g.sectors_per_unit),
        ("planes", g.planes),
        ("LUNs a stride", 0),
        ("parity units a stride", 0),
        ("append points", c.append_points),
        ("kinds of lines", 3),
    ]
}

const STATES: [State; 5] = [State::Free, State::Open, State::Closed, State::Victim, State::Retired];
/// No segment or unit.
const NONE: u32 = u32::MAX;

fn put_checkpoint(out: &mut SavedOut, c: &Checkpoint) -> io::Result<()> {
    out.put64(c.id)?;
    out.put64(c.from_seq)?;
    out.put32(c.done.unwrap_or(NONE))?;
    out.put32(c.runs.len() as u32)?;
    c.runs.iter().try_for_each(|(&(from, _), run)| {
        [from, run.ppa, run.sectors, run.to].into_iter().try_for_each(|word| out.put32(word))
    })
}

fn get_checkpoint(r: &mut SavedIn, g: &Geometry) -> Result<Checkpoint, LoadError> {
    let (id, from_seq) = (r.get64()?, r.get64()?);
    let all = g.sectors() as u32;
    let done = Some(r.get32()?).filter(|&done| done != NONE);
    let mut c = Checkpoint { id, from_seq, done, ..Checkpoint::default() };
    for _ in 0..r.up_to(all, "the runs of a checkpoint")? {
        let (from, ppa, sectors, to) = (r.get32()?, r.get32()?, r.get32()?, r.get32()?);
        if ppa >= all || sectors > all - ppa {
            return damaged("a run of a checkpoint is beyond the drive");
        }
        c.runs.insert((from, ppa), Run { ppa, sectors, to });
    }
    if done.is_some_and(|done| done >= all) {
        return damaged("the end of a checkpoint is beyond the drive");
    }
    Ok(c)
}

impl Fssd {
    pub(crate) fn save_to(&self, w: &mut dyn Write) -> io::Result<()> {
        if !self.is_quiet() {
            return Err(io::Error::other("commands or flash operations are in flight"));
        }
        let shape = shape(&self.g, &self.config);
        let mut out = SavedOut::new(w, &shape, self.over_provisioning, self.plan.sectors)?;
        out.put32(u32::from(self.stamps.is_some()))?;
        out.put_counters(&self.counters)?;
        for block in self.media_state() {
            out.put32(u32::from(block.bad))?;
            out.put32(block.erases)?;
            out.put32(block.programmed)?;
        }
        for segment in &self.space.segments {
            let state = STATES.iter().position(|&s| s == segment.state).unwrap_or(0);
            out.put32(state as u32)?;
            out.put64(segment.opened)?;
            out.put32(segment.next)?;
        }
        out.put64(self.space.opened)?;
        for free in self.space.free() {
            out.put32(free.len() as u32)?;
            free.iter().try_for_each(|&s| out.put32(s))?;
        }
        for point in &self.points {
            out.put32(point.turn)?;
            point.segments.iter().try_for_each(|s| out.put32(s.unwrap_or(NONE)))?;
        }
        out.put64(self.seq)?;
        out.put32(u32::from(self.read_only))?;
        let (victims, drained) = self.gc.under_way();
        out.put32(victims.len() as u32)?;
        for v in victims {
            [v.segment, v.next, v.all, v.used].into_iter().try_for_each(|word| out.put32(word))?;
            out.put64(v.paid.cast_unsigned())?;
            out.put32(v.moved)?;
        }
        out.put32(drained.len() as u32)?;
        drained.iter().try_for_each(|d| out.put32(d.segment))?;
        out.put64(self.gc.debt.cast_unsigned())?;
        out.put32(self.gc.share.0)?;
        out.put32(self.gc.share.1)?;
        let log = &self.log;
        out.put64(log.last_id)?;
        out.put64(log.since)?;
        out.put32(u32::from(log.urgent))?;
        out.put32(log.trims.len() as u32)?;
        for (&ppa, trim) in &log.trims {
            out.put32(ppa)?;
            out.put64(trim.seq)?;
            out.put32(trim.lpn)?;
            out.put32(trim.sectors)?;
            out.put32(u32::from(trim.lost))?;
        }
        out.put32(u32::from(log.current.is_some()))?;
        log.current.iter().try_for_each(|c| put_checkpoint(&mut out, c))?;
        out.put32(u32::from(log.dump.is_some()))?;
        if let Some(dump) = &log.dump {
            put_checkpoint(&mut out, &dump.checkpoint)?;
            out.put32(dump.cursor)?;
            out.put64(dump.written)?;
            out.put64(dump.about)?;
            out.put32(u32::from(dump.barrier.is_some()))?;
        }
        self.tree.save(&mut out)?;
        self.oob.save(&mut out)?;
        if let Some(stamps) = &self.stamps {
            stamps.save(&mut out)?;
        }
        out.end()
    }

    /// Reads what was saved. Geometry, over-provisioning, append points and bytes of a node must be those of
    /// the saved drive; the other configuration may differ.
    pub fn load(
        g: &Geometry,
        over_provisioning: f64,
        config: &FssdConfig,
        r: &mut dyn StateSource,
    ) -> Result<Fssd, LoadError> {
        let (mut input, sectors) =
            SavedIn::new(r, &shape(g, config), over_provisioning, g.sectors())?;
        let r = &mut input;
        let stamped = r.up_to(1, "the stamp flag")? == 1;
        let counters = r.counters()?;
        let (all, mut table) = (g.sectors() as u32, Vec::new());
        r.words32((g.lines * g.luns) as usize * 3, &mut table)?;
        if table.chunks_exact(3).any(|b| b[0] > 1 || b[2] > g.pages) {
            return damaged("a block's state is impossible");
        }
        let mut bad = |lun: LunId, line: LineId| table[(line * g.luns + lun) as usize * 3] == 1;
        let mut ftl = Fssd::build(g, over_provisioning, config, &mut bad, Some(sectors))?;
        let of = |i: usize| table.iter().skip(i).step_by(3).copied().collect::<IdVec<_, _>>();
        (ftl.space.erases, ftl.space.programmed) = (of(1), of(2));
        ftl.load_space(r)?;
        ftl.seq = r.get64()?;
        ftl.read_only = r.up_to(1, "the flag of a full drive")? == 1;
        ftl.load_collector(r)?;
        ftl.load_log(r)?;
        ftl.tree = Tree::load(config.node_bytes, r)?;
        ftl.oob.load(r, sectors as u32)?;
        for e in ftl.tree.all() {
            let there = e.place < all && e.sectors <= all - e.place;
            if u64::from(e.lpn) + u64::from(e.sectors) > sectors || e.place != LOST && !there {
                return damaged("an extent is beyond the drive");
            }
            if e.place != LOST {
                // Sectors on flash are counted from 1.
                if !ftl.oob.holds(e.place, e.sectors, e.lpn + 1) {
                    return damaged("flash holds another sector than the map says");
                }
                ftl.space.count(e.place, e.sectors, true);
            }
        }
        if stamped {
            let mut stamps = Held::new(g.sectors(), g.sectors_per_unit, 0);
            stamps.load(r, u32::MAX)?;
            ftl.stamps = Some(stamps);
        }
        let metas: Vec<u32> = ftl.log.places().collect();
        metas.into_iter().for_each(|ppa| ftl.space.count_meta(ppa, 1, true));
        input.end()?;
        ftl.stamps_unknown = stamped;
        ftl.counters = counters;
        ftl.check_counts().or_else(|e| damaged(e.to_string()))?;
        Ok(ftl)
    }
    /// A segment's number, or none.
    fn a_segment(&self, r: &mut SavedIn) -> Result<Option<SegmentId>, LoadError> {
        match r.get32()? {
            NONE => Ok(None),
            s if s < self.space.segments.count() => Ok(Some(s)),
            s => damaged(format!("there is no segment {s}")),
        }
    }
    fn load_space(&mut self, r: &mut SavedIn) -> Result<(), LoadError> {
        let places = self.space.shape.places();
        for s in 0..self.space.segments.count() {
            let state = STATES[r.up_to(4, "a segment's state")? as usize];
            let opened = r.get64()?;
            let next = r.up_to(places, "how far a segment is")?;
            let segment = &mut self.space.segments[s];
            (segment.state, segment.opened, segment.next) = (state, opened, next);
        }
        self.space.opened = r.get64()?;
        for group in 0..self.space.groups {
            let mut free = std::collections::VecDeque::new();
            for _ in 0..r.up_to(self.space.segments.count(), "the free segments")? {
                let s = self.a_segment(r)?;
                let of = |s: &SegmentId| {
                    s % self.space.groups == group && self.space.segments[*s].state == State::Free
                };
                match s.filter(of) {
                    Some(s) => free.push_back(s),
                    None => return damaged("a segment is free and is not"),
                }
            }
            self.space.set_free(group, free);
        }
        for point in [USER, GC] {
            self.points[point].turn = r.up_to(self.space.groups, "a group")? % self.space.groups;
            for group in 0..self.space.groups {
                let s = self.a_segment(r)?;
                if s.is_some_and(|s| self.space.segments[s].state != State::Open) {
                    return damaged("a segment is written to and is not open");
                }
                self.points[point].segments[group] = s;
            }
        }
        Ok(())
    }
    fn load_collector(&mut self, r: &mut SavedIn) -> Result<(), LoadError> {
        let mut victims = Vec::new();
        for _ in 0..r.up_to(self.space.groups, "segments that are emptied")? {
            let Some(segment) = self.a_segment(r)? else {
                return damaged("a segment that is emptied is none");
            };
            let next = r.up_to(self.space.shape.places(), "how far a victim is")?;
            let most = self.space.shape.places() * self.g.sectors_per_unit;
            let all = r.up_to(most, "the size of a victim")?;
            let used = r.up_to(all, "what was in use of a victim")?;
            let (paid, moved) = (r.get64()?.cast_signed(), r.get32()?);
            victims.push(Victim { segment, next, reads: 0, used, all, paid, moved });
        }
        let mut drained = Vec::new();
        for _ in 0..r.up_to(self.space.segments.count(), "segments to be erased")? {
            match self.a_segment(r)? {
                Some(segment) => {
                    drained.push(Drained { segment, barrier: [0; 2], erasing: None });
                }
                None => return damaged("a segment to be erased is none"),
            }
        }
        self.gc.take_up(victims, drained);
        self.gc.debt = r.get64()?.cast_signed();
        self.gc.share = (r.get32()?, r.get32()?);
        Ok(())
    }
    fn load_log(&mut self, r: &mut SavedIn) -> Result<(), LoadError> {
        let all = self.g.sectors() as u32;
        let log = &mut self.log;
        (log.last_id, log.since) = (r.get64()?, r.get64()?);
        log.urgent = r.up_to(1, "the flag of records")? == 1;
        for _ in 0..r.up_to(all, "records of trims")? {
            let ppa = r.up_to(all - 1, "the place of a record")?;
            let (seq, lpn, sectors) = (r.get64()?, r.get32()?, r.get32()?);
            let lost = r.up_to(1, "the flag of what was lost")? == 1;
            log.trims.insert(ppa, Trim { seq, lpn, sectors, lost });
        }
        if r.up_to(1, "the flag of a checkpoint")? == 1 {
            log.current = Some(get_checkpoint(r, &self.g)?);
        }
        if r.up_to(1, "the flag of a checkpoint that is written")? == 1 {
            let checkpoint = get_checkpoint(r, &self.g)?;
            let (cursor, written, about) = (r.get32()?, r.get64()?, r.get64()?);
            let ends = r.up_to(1, "the flag of its end")? == 1;
            let barrier = ends.then_some([0; 2]);
            log.dump = Some(Dump { checkpoint, cursor, written, about, barrier });
        }
        Ok(())
    }
}
