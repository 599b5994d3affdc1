//! The map after a power cut, from what flash and the capacitors kept.
//!
//! The spare area of each unit is the journal: the order of the unit and what its sectors are. Of two
//! copies of a sector the one in the later unit is the newest. Pages of the map tell what was trimmed, and
//! before which unit: an older copy is none.

use crate::map::Where;
use crate::space::{State, SuperblockId};
use crate::write::{GC, HOST, HOT, MAPS, SLC, Stream, WARM};
use crate::{Firmware, FirmwareConfig, Unit};
use std::collections::BTreeSet;
use wordline_base::{BadValue, IdVec, Lpn, Stamps};
use wordline_nand::{BlockId, Geometry, Ppa};
use wordline_translation::{Capacity, Translation};

/// What the spare area says of a unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spare {
    /// Its place in the order of programs.
    pub order: u32,
    /// Its pages of the map have what programs before this place in the order wrote.
    pub settled: u32,
    /// By sector, the logical one and its version.
    pub sectors: Vec<Option<(Lpn, u32)>>,
    /// What its pages of the map say of sectors without a copy.
    pub voids: Vec<Void>,
}

/// A sector has no copy of before a unit: it was trimmed, or lost, since.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Void {
    /// The sector.
    pub lpn: Lpn,
    /// The unit's place in the order.
    pub before: u32,
    /// The only copy could not be read.
    pub lost: bool,
}

/// What capacitors save when the power goes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// Sectors of the buffer with their versions.
    pub buffer: Vec<(Lpn, u32)>,
    /// What pages of the map say that are not on flash as they are now.
    pub voids: Vec<Void>,
}

/// What a drive finds when the power is back.
pub trait Media {
    /// The block is not to be used.
    fn is_bad(&self, block: BlockId) -> bool;
    /// A program failed in the block since it was erased.
    fn is_failed(&self, block: BlockId) -> bool;
    /// Erasures of the block.
    fn erases(&self, block: BlockId) -> u32;
    /// Pages programmed since the last erasure, whole or not.
    fn pages(&self, block: BlockId) -> u32;
    /// They are written with a bit a cell.
    fn is_slc(&self, block: BlockId) -> bool;
    /// What the unit at this sector says of itself; none if it cannot be read.
    fn spare(&self, ppa: Ppa) -> Option<Spare>;
    /// What the capacitors saved.
    fn kept(&self) -> Kept;
}

impl Firmware {
    /// What the unit at this sector says of itself.
    pub fn spare(&self, ppa: Ppa) -> Spare {
        let all = ppa.0..ppa.0 + self.g.sectors_per_unit;
        let held: Vec<_> = all.map(|ppa| self.holds(Ppa(ppa))).collect();
        let order = self.map.order_of(self.space.unit_of(ppa.0));
        let pages = held.iter().flatten().filter(|h| u64::from(h.0.0) >= self.plan.sectors);
        let voids = pages.flat_map(|&(lpn, _)| self.voids(lpn.0, order)).collect();
        Spare { order, settled: self.settled(), sectors: held, voids }
    }
    /// What a page of the map says of sectors without a copy, if it is written in a unit of that order.
    fn voids(&self, page: u32, order: u32) -> Vec<Void> {
        let first = (page - self.plan.sectors as u32) * self.plan.entries;
        let end = (first + self.plan.entries).min(self.plan.sectors as u32);
        let void =
            |lpn| self.void(lpn, order).map(|(before, lost)| Void { lpn: Lpn(lpn), before, lost });
        (first..end).filter_map(void).collect()
    }
    /// The sector has no copy of before a unit, which is `now` where it has none at all; and whether it is
    /// lost. What waits in the buffer may be lost with the power, and then it is as it was before.
    #[inline]
    pub(crate) fn void(&self, lpn: u32, now: u32) -> Option<(u32, bool)> {
        match self.map.get(lpn) {
            Where::Unmapped => Some((now, false)),
            Where::Lost => Some((now, true)),
            Where::Buffer(slot) => self.slots[slot].void,
            Where::Flash(_) => None,
        }
    }
    /// What capacitors save if the power goes now. Nothing without them.
    pub fn kept(&self) -> Kept {
        if !self.config.protected {
            return Kept::default();
        }
        let users = self.slots.slice(0..self.plan.slots).iter().zip(0..);
        let current = users.filter(|&(held, slot)| {
            u64::from(held.lpn) < self.plan.sectors && self.map.get(held.lpn) == Where::Buffer(slot)
        });
        let buffer = current.map(|(held, _)| (Lpn(held.lpn), held.stamp)).collect();
        // Those that are on their way may not get there.
        let on_their_way = self.slots.iter().zip(0..).filter(|&(held, slot)| {
            (self.plan.sectors as u32..self.map.sectors()).contains(&held.lpn)
                && self.map.get(held.lpn) == Where::Buffer(slot)
        });
        let trimmed = self.trimmed.iter().map(|page| self.plan.sectors as u32 + page as u32);
        let pages: BTreeSet<u32> = trimmed.chain(on_their_way.map(|(held, _)| held.lpn)).collect();
        let voids = pages.into_iter().flat_map(|page| self.voids(page, self.map.next)).collect();
        Kept { buffer, voids }
    }
    /// The drive after a power cut.
    pub fn recover(
        g: &Geometry,
        over_provisioning: f64,
        config: &FirmwareConfig,
        capacity: Capacity,
        media: &dyn Media,
        stamps: &mut Stamps,
    ) -> Result<Firmware, BadValue> {
        let bad = &mut |lun: u32, line: u32| media.is_bad(line * g.luns + lun);
        let mut ftl = Firmware::build(g, over_provisioning, config, bad, capacity)?;
        ftl.keep_stamps(stamps);
        let mut units = ftl.read_spares(media);
        units.sort_unstable_by_key(|(_, spare)| spare.order);
        let mut newest: IdVec<u32, u32> = IdVec::filled(0, ftl.map.sectors());
        let mut settled: IdVec<u32, u32> = IdVec::filled(0, ftl.plan.pages);
        let mut voids = Vec::new();
        for (unit, spare) in &units {
            ftl.map.set_order(*unit, spare.order);
            ftl.map.next = ftl.map.next.max(spare.order + 1);
            for (ppa, held) in (ftl.space.first_of(*unit)..).zip(&spare.sectors) {
                let Some((lpn, stamp)) = *held else { continue };
                ftl.map.note(ppa, lpn.0, stamp);
                ftl.map.set(lpn.0, Where::Flash(ppa));
                newest[lpn.0] = spare.order;
                if u64::from(lpn.0) >= ftl.plan.sectors {
                    settled[lpn.0 - ftl.plan.sectors as u32] = spare.settled;
                }
            }
            voids.extend(&spare.voids);
        }
        let kept = media.kept();
        for void in voids.into_iter().chain(&kept.voids) {
            if newest[void.lpn.0] < void.before {
                ftl.map.set(void.lpn.0, if void.lost { Where::Lost } else { Where::Unmapped });
            }
        }
        let mapped: Vec<_> = ftl.map.on_flash().collect();
        for (_, ppa) in mapped {
            ftl.map.mark(ppa.0, true);
            let s = ftl.space.superblock_of(ppa.0);
            ftl.space.superblocks[s].valid += 1;
        }
        for (unit, spare) in units.iter().filter(|_| ftl.cached.is_some()) {
            let s = ftl.space.superblock_of(ftl.space.first_of(*unit));
            let first = spare.sectors.iter().flatten().next();
            ftl.space.superblocks[s].maps |=
                first.is_some_and(|(lpn, _)| u64::from(lpn.0) >= ftl.plan.sectors);
        }
        ftl.reopen();
        (ftl.gc.fold, ftl.gc.empty) = (ftl.plan.has_slc(), ftl.plan.has_slc());
        ftl.set_pace();
        kept.voids.iter().for_each(|void| ftl.note_trim(void.lpn.0, 1));
        ftl.recover_pages(&newest, &settled);
        for (lpn, stamp) in kept.buffer {
            ftl.put(lpn.0, stamp);
        }
        if stamps.is_on() {
            ftl.adopt_stamps(stamps);
        }
        Ok(ftl)
    }
    /// Pages of the map that are older than what is in them are in memory, to be written: as many as changed there,
    /// and those that were on their way. What is above the memory's room gives way first.
    fn recover_pages(&mut self, newest: &[u32], settled: &[u32]) {
        let Some(mut cached) = self.cached.take() else { return };
        let users = newest.len() - settled.len();
        let pages = newest[..users].chunks(self.plan.entries as usize).zip(settled);
        for (page, (orders, &settled)) in (0..).zip(pages) {
            let is_older = orders.iter().any(|&order| order > 0 && order >= settled);
            if is_older || self.trimmed.get(page as usize) {
                cached.enter(page, true);
            }
        }
        self.cached = Some(cached);
    }
    /// The versions of sectors are told anew to what checks them.
    pub fn tell_versions(&mut self) {
        self.stamps_unknown = true;
    }
    /// Superblocks that have places left are gone on with: the collector takes the one with the most, so
    /// that it can make space whenever the power went.
    fn reopen(&mut self) {
        let all = 0..self.space.superblocks.count();
        let of = |s: &SuperblockId| (self.space.left_of(*s), &self.space.superblocks[*s]);
        let unfinished = |s: &SuperblockId| {
            let (left, b) = of(s);
            b.state == State::Closed && b.valid > 0 && left > 0 && !b.failed
        };
        let mut open: Vec<SuperblockId> = all.filter(unfinished).collect();
        open.sort_unstable_by_key(|s| std::cmp::Reverse((of(s).0, of(s).1.opened)));
        let hot = self.config.hot_share > 0.0;
        for s in open {
            let group = s % self.space.groups;
            let slc = self.space.superblocks[s].slc;
            let free = |stream: &Stream| match *stream {
                SLC => slc && self.streams[SLC].superblocks[group].is_none(),
                _ if slc => false,
                GC | MAPS if (*stream == MAPS) != self.space.superblocks[s].maps => false,
                HOT | WARM if !hot => false,
                GC | MAPS | WARM => self.streams[*stream].superblocks.iter().all(Option::is_none),
                stream => self.streams[stream].superblocks[group].is_none(),
            };
            if let Some(stream) = [GC, MAPS, HOST, HOT, WARM, SLC].into_iter().find(free) {
                self.space.reopen(s, ![GC, MAPS].contains(&stream));
                self.streams[stream].superblocks[group] = Some(s);
            }
        }
    }
    /// Units that can be read, and with them what is free and what is closed.
    fn read_spares(&mut self, media: &dyn Media) -> Vec<(Unit, Spare)> {
        let mut units = Vec::new();
        let mut opened = Vec::new();
        for s in 0..self.space.superblocks.count() {
            let (mut used, mut last, mut slc) = (false, 0, false);
            for block in self.space.blocks_of(s) {
                self.space.erases[block] = media.erases(block);
                if self.space.is_bad(block) {
                    continue;
                }
                let pages = media.pages(block);
                self.space.pages[block] = pages;
                used |= pages > 0;
                slc |= pages > 0 && media.is_slc(block);
                let lun = block % self.g.luns;
                for page in 0..pages {
                    let unit = self.g.unit_at(s / self.space.groups, page, lun).0;
                    if let Some(spare) = media.spare(Ppa(self.space.first_of(unit))) {
                        last = last.max(spare.order);
                        units.push((unit, spare));
                    }
                }
                if media.is_failed(block) {
                    self.space.failed.set(block as usize);
                    self.space.superblocks[s].failed = true;
                }
            }
            if used {
                opened.push((last, s));
                self.space.close(s, slc);
            }
        }
        opened.sort_unstable();
        for (_, s) in opened {
            self.space.opened += 1;
            self.space.superblocks[s].opened = self.space.opened;
            debug_assert_eq!(self.space.superblocks[s].state, State::Closed);
        }
        units
    }
}
