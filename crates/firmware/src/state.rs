//! Saving and loading a drive at rest, so that ageing is done once.
//!
//! Blocks and superblocks; the streams and the collector; units and their sectors, in physical order, the stale
//! ones too: an erasure asks which sectors of users a superblock held. Counters begin at zero.

use crate::config::Plan;
use crate::gc::Collecting;
use crate::map::{NOBODY, Where};
use crate::space::State;
use crate::write::{MAPS, SLC, STREAMS, Stream, WARM};
use crate::{Firmware, FirmwareConfig};
use std::io::{self, Write};
use wordline_base::{BadValue, IdVec, StateSource};
use wordline_nand::{BlockId, Geometry};
use wordline_translation::{Capacity, LoadError, SavedIn, SavedOut, damaged};

const NONE: u32 = u32::MAX;
/// Beside the place of a sector in its unit: it is not in use.
const STALE: u32 = 1 << 31;
/// Beside the number of a page of the map in memory: it changed since it was written.
const CHANGED: u32 = 1 << 31;
const STATES: [State; 5] = [State::Free, State::Open, State::Closed, State::Victim, State::Retired];

/// What must be the same when the drive is loaded; as many as pblk has, of which the last tells whose it is.
fn shape(
    g: &Geometry,
    over_provisioning: f64,
    config: &FirmwareConfig,
) -> Result<[(&'static str, u32); 10], BadValue> {
    // Lines that always are, and one.
    let slc_lines = Plan::slc_lines(g, config)?;
    let slc = if slc_lines > 0 || config.slc_dynamic > 0.0 { 1 + slc_lines } else { 0 };
    Ok([
        ("channels", g.channels),
        ("LUNs", g.luns),
        ("lines", g.lines),
        ("pages a block", g.pages),
        ("sectors a unit", g.sectors_per_unit),
        ("planes", g.planes),
        ("LUNs a superblock", Plan::luns(g, config)?),
        ("lines with a bit a cell", slc),
        // Written now and then; or there, and in memory in part.
        (
            "maps on flash",
            match Plan::holds_part(g, config, over_provisioning) {
                true => 2,
                false => config.checkpoint_sectors.is_some().into(),
            },
        ),
        // Where hot data are apart what is moved of them is, too.
        ("kinds of lines", if config.hot_share > 0.0 { 5 } else { 4 }),
    ])
}

/// A number of at most that, or nothing.
fn option(r: &mut SavedIn, most: u32, what: &str) -> Result<Option<u32>, LoadError> {
    match r.get32()? {
        NONE => Ok(None),
        v if v <= most => Ok(Some(v)),
        v => damaged(format!("{what} is {v}, above {most}")),
    }
}

impl Firmware {
    fn saved_streams(&self) -> Vec<Stream> {
        let has = |&stream: &Stream| match stream {
            SLC => self.plan.has_slc(),
            MAPS => self.cached.is_some(),
            WARM => self.plan.young > 0,
            _ => true,
        };
        (0..STREAMS).filter(has).collect()
    }
    pub(crate) fn save_state(&self, to: &mut dyn Write) -> io::Result<()> {
        if !self.is_quiet() || !self.gc_rests() {
            return Err(io::Error::other("commands or flash operations are in flight"));
        }
        let shape = shape(&self.g, self.over_provisioning, &self.config)
            .map_err(|e| io::Error::other(e.to_string()))?;
        let mut out = SavedOut::new(to, &shape, self.over_provisioning, self.plan.sectors)?;
        let blocks = self.g.lines * self.g.luns;
        for block in 0..blocks {
            let i = block as usize;
            let flags = u32::from(self.space.bad.get(i)) | u32::from(self.space.failed.get(i)) << 1;
            out.put32(flags)?;
            out.put32(self.space.pages[block])?;
            out.put32(self.space.erases[block])?;
        }
        for b in &self.space.superblocks {
            let state = STATES.iter().position(|&state| state == b.state);
            out.put32(state.expect("a drive at rest has no others") as u32)?;
            out.put64(b.opened)?;
            out.put64(b.users)?;
            out.put32(u32::from(b.failed) | u32::from(b.slc) << 1 | u32::from(b.maps) << 2)?;
        }
        let of_slc = self.space.slc_free.iter().filter(|_| self.plan.has_slc());
        for free in self.space.free.iter().chain(of_slc) {
            out.put32(free.len() as u32)?;
            free.iter().try_for_each(|&s| out.put32(s))?;
        }
        out.put64(self.space.opened)?;
        out.put64(self.space.users)?;
        for stream in self.saved_streams() {
            let stream = &self.streams[stream];
            out.put32(stream.cursor)?;
            for s in &stream.superblocks {
                out.put32(s.unwrap_or(NONE))?;
            }
        }
        if self.plan.has_slc() {
            out.put32(u32::from(self.gc.fold) | u32::from(self.gc.empty) << 1)?;
        }
        if let Some(cached) = &self.cached {
            out.put32(cached.pages().count() as u32)?;
            for (page, changed) in cached.pages() {
                out.put32(page | if changed { CHANGED } else { 0 })?;
            }
        }
        let victim = self.gc.victim;
        out.put32(victim.map_or(NONE, |v| v.superblock))?;
        out.put32(victim.map_or(0, |v| v.next))?;
        self.gc.numbers().into_iter().try_for_each(|v| out.put64(v))?;
        out.put32(self.page)?;
        out.put64(self.page_share)?;
        out.put32(self.trimmed.count() as u32)?;
        self.trimmed.iter().try_for_each(|page| out.put32(page as u32))?;
        out.put32(self.map.next)?;
        let stamped = self.map.stamps.is_some();
        out.put32(stamped.into())?;
        // Lost sectors, then units that hold something.
        let lost = || (0..self.map.sectors()).filter(|&lpn| self.map.get(lpn) == Where::Lost);
        out.put32(lost().count() as u32)?;
        lost().try_for_each(|lpn| out.put32(lpn))?;
        let size = self.g.sectors_per_unit;
        for unit in 0..self.g.lines * self.g.units_per_line() {
            let all = unit * size..(unit + 1) * size;
            let held = || all.clone().filter(|&ppa| self.map.lpn_at(ppa) != NOBODY);
            let order = self.map.order_of(unit);
            let count = held().count() as u32;
            if count == 0 && order == 0 {
                continue;
            }
            out.put32(unit)?;
            out.put32(order)?;
            out.put32(count)?;
            for ppa in held() {
                let stale = if self.map.is_valid(ppa) { 0 } else { STALE };
                out.put32((ppa - unit * size) | stale)?;
                out.put32(self.map.lpn_at(ppa))?;
                if stamped {
                    out.put32(self.map.stamp_at(ppa))?;
                }
            }
        }
        out.put32(NONE)?;
        out.end()
    }
    /// The drive of a state that was saved. Geometry, over-provisioning, LUNs of a superblock and whether the
    /// map is written must be those of the saved drive; the other configuration may differ.
    pub fn load(
        g: &Geometry,
        over_provisioning: f64,
        config: &FirmwareConfig,
        from: &mut dyn StateSource,
    ) -> Result<Firmware, LoadError> {
        let (mut input, sectors) = SavedIn::new(
            from,
            &shape(g, over_provisioning, config)?,
            over_provisioning,
            g.sectors(),
        )?;
        let r = &mut input;
        let mut blocks: IdVec<BlockId, _> = IdVec::new();
        for _ in 0..g.lines * g.luns {
            let flags = r.up_to(3, "the flags of a block")?;
            blocks.push((flags, r.up_to(g.pages, "the pages of a block")?, r.get32()?));
        }
        let bad = &mut |lun: u32, line: u32| blocks[line * g.luns + lun].0 & 1 == 1;
        let mut ftl = Firmware::build(g, over_provisioning, config, bad, Capacity::Kept(sectors))?;
        for (block, (flags, pages, erases)) in (0..).zip(blocks.iter().copied()) {
            if flags & 2 > 0 {
                ftl.space.failed.set(block as usize);
            }
            (ftl.space.pages[block], ftl.space.erases[block]) = (pages, erases);
        }
        ftl.load_superblocks(r)?;
        ftl.load_streams(r)?;
        ftl.load_map(r)?;
        input.end()?;
        ftl.check().or_else(|e| damaged(e.to_string()))?;
        Ok(ftl)
    }
    fn load_superblocks(&mut self, r: &mut SavedIn) -> Result<(), LoadError> {
        let all = self.space.superblocks.count();
        (self.space.room, self.space.free_count) = (0, 0);
        (self.space.slc_room, self.space.borrowed) = (0, 0);
        for s in 0..all {
            let state = STATES[r.up_to(4, "the state of a superblock")? as usize];
            let (opened, users) = (r.get64()?, r.get64()?);
            let flags = r.up_to(7, "the flags of a superblock")?;
            let (failed, slc) = (flags & 1 > 0, flags & 2 > 0);
            if flags & 4 > 0 && self.cached.is_none() {
                return damaged("a superblock has pages of a map that is in memory");
            }
            let is_static = self.space.is_static(s);
            if is_static && !slc
                || slc && !is_static && state == State::Free
                || slc && self.g.slc_pages == 0
            {
                return damaged("a superblock cannot be written as it is");
            }
            // What a free one has, which another that is borrowed had.
            let size = self.space.units_of(s);
            self.space.superblocks[s].slc = slc;
            self.space.borrowed += u32::from(slc && !is_static);
            let left = match state {
                State::Free | State::Open => self.space.left_of(s),
                _ => 0,
            };
            *(if slc { &mut self.space.slc_room } else { &mut self.space.room }) += u64::from(left);
            let b = &mut self.space.superblocks[s];
            (b.state, b.opened, b.users, b.failed) = (state, opened, users, failed);
            b.maps = flags & 4 > 0;
            (b.left, b.size) = (left, size);
        }
        for group in 0..self.space.groups {
            let n = r.up_to(all, "the number of free superblocks")?;
            let free = (0..n).map(|_| r.up_to(all - 1, "a free superblock"));
            let free = free.collect::<Result<_, _>>()?;
            self.space.free[group] = free;
            self.space.free_count += n;
        }
        for group in 0..self.space.groups {
            if !self.plan.has_slc() {
                break;
            }
            let n = r.up_to(all, "the number of free superblocks")?;
            let free = (0..n).map(|_| r.up_to(all - 1, "a free superblock"));
            self.space.slc_free[group] = free.collect::<Result<_, _>>()?;
        }
        (self.space.opened, self.space.users) = (r.get64()?, r.get64()?);
        Ok(())
    }
    fn load_streams(&mut self, r: &mut SavedIn) -> Result<(), LoadError> {
        let all = self.space.superblocks.count();
        for stream in self.saved_streams() {
            self.streams[stream].cursor = r.up_to(self.g.luns - 1, "a LUN")?;
            for group in 0..self.space.groups {
                let open = option(r, all - 1, "an open superblock")?;
                let of = |s: u32| {
                    let b = &self.space.superblocks[s];
                    let is_open = b.state == State::Open && b.slc == (stream == SLC);
                    s % self.space.groups == group && is_open
                };
                if open.is_some_and(|s| !of(s)) {
                    return damaged("a superblock is written to and is not open");
                }
                self.streams[stream].superblocks[group] = open;
            }
        }
        if self.plan.has_slc() {
            let flags = r.up_to(3, "what is to be folded")?;
            (self.gc.fold, self.gc.empty) = (flags & 1 > 0, flags & 2 > 0);
        }
        if let Some(cached) = &mut self.cached {
            for _ in 0..r.up_to(self.plan.pages, "the number of pages of the map in memory")? {
                let page = r.get32()?;
                let (page, changed) = (page & !CHANGED, page & CHANGED > 0);
                if page >= self.plan.pages || cached.holds(page) {
                    return damaged(
                        "a page of the map in memory is beyond the map, or there twice",
                    );
                }
                cached.enter(page, changed);
            }
        }
        let victim = option(r, all - 1, "the victim")?;
        let next = r.up_to(self.space.places(), "a place of the victim")?;
        self.gc.victim = victim.map(|superblock| Collecting { superblock, next, reads: 0 });
        let mut numbers = [0; 5];
        for v in &mut numbers {
            *v = r.get64()?;
        }
        self.gc.set_numbers(numbers);
        self.page = r.up_to(self.plan.pages, "a page of the map")?;
        // The state may be of other checkpoints.
        self.page_share = r.get64()? % self.plan.checkpoint;
        for _ in 0..r.up_to(self.plan.pages, "the number of pages of the map")? {
            self.trimmed.set(r.up_to(self.plan.pages - 1, "a page of the map")? as usize);
        }
        Ok(())
    }
    fn load_map(&mut self, r: &mut SavedIn) -> Result<(), LoadError> {
        self.map.next = r.get32()?;
        let stamped = r.up_to(1, "the stamp flag")? == 1;
        if stamped {
            self.map.keep_stamps();
        }
        self.stamps_unknown = stamped;
        let sectors = self.map.sectors();
        for _ in 0..r.up_to(sectors, "the number of lost sectors")? {
            self.map.set(r.up_to(sectors - 1, "a lost sector")?, Where::Lost);
        }
        let (units, size) = (self.g.lines * self.g.units_per_line(), self.g.sectors_per_unit);
        loop {
            let unit = match r.get32()? {
                NONE => return Ok(()),
                unit if unit < units => unit,
                _ => return damaged("a unit is beyond the drive"),
            };
            self.map.set_order(unit, r.get32()?);
            for _ in 0..r.up_to(size, "the sectors of a unit")? {
                let (place, lpn) = (r.get32()?, r.get32()?);
                let i = place & !STALE;
                if i >= size || lpn >= sectors || self.map.lpn_at(unit * size + i) != NOBODY {
                    return damaged("a sector is beyond the drive, or there twice");
                }
                let stamp = if stamped { r.get32()? } else { 0 };
                let ppa = unit * size + i;
                self.map.note(ppa, lpn, stamp);
                if place & STALE > 0 {
                    continue;
                }
                let s = self.space.superblock_of(ppa);
                self.validate(s, lpn, ppa);
            }
        }
    }
}
