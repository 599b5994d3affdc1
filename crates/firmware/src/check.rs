//! Holds counts against what they count.

use crate::Firmware;
use crate::map::Where;
use crate::space::State;
use crate::write::MAP;
use wordline_base::IdVec;
use wordline_translation::Breach;

impl Firmware {
    pub(crate) fn check(&self) -> Result<(), Breach> {
        let mut valid = IdVec::filled(0, self.space.superblocks.count());
        let mut mapped = 0;
        for (lpn, ppa) in self.map.on_flash() {
            mapped += 1;
            valid[self.space.superblock_of(ppa.0)] += 1;
            if self.map.lpn_at(ppa.0) != lpn || !self.map.is_valid(ppa.0) {
                let what = format!("is mapped to {ppa:?}, which holds {}", self.map.lpn_at(ppa.0));
                return Err(Breach::Sector { lpn, what });
            }
        }
        if mapped != self.map.count() {
            let what = format!("{mapped} sectors are mapped, {} are in use", self.map.count());
            return Err(Breach::Count(what));
        }
        let mut moving = IdVec::filled(0, valid.count());
        let mut is_free: IdVec<u32, bool> = vec![false; self.slots.len()].into();
        self.free.iter().flatten().for_each(|&slot| is_free[slot] = true);
        for (slot, held) in (0..).zip(&self.slots) {
            let current = Where::Buffer(slot);
            let free = is_free[slot];
            if free && held.lpn < self.map.sectors() && self.map.get(held.lpn) == current {
                return Err(Breach::Count(format!("slot {slot} is free and mapped")));
            }
            if !free && slot >= self.plan.slots && held.from < MAP {
                moving[held.from] += 1;
            }
        }
        let (mut room, mut slc_room, mut free, mut borrowed) = (0, 0, 0, 0);
        for (s, b) in (0..).zip(&self.space.superblocks) {
            let breach = |what: String| Err(Breach::Line { line: s, what });
            if b.valid != valid[s] {
                return breach(format!("has {} sectors in use, counted {}", valid[s], b.valid));
            }
            if b.moving != moving[s] {
                return breach(format!("has {} in memory, counted {}", moving[s], b.moving));
            }
            let left = self.space.left_of(s);
            borrowed += u32::from(b.slc && !self.space.is_static(s));
            if self.space.is_static(s) && !b.slc {
                return breach("is always written with a bit a cell, and is not".into());
            }
            // By it the collector tells shares, of one that is borrowed as well.
            let good = self.space.blocks_of(s).filter(|&block| !self.space.is_bad(block)).count();
            if !self.space.is_static(s) && b.size < good as u32 * self.g.pages {
                return breach(format!("has {good} good blocks, and a size of {} units", b.size));
            }
            match b.state {
                State::Free | State::Open => {
                    *(if b.slc { &mut slc_room } else { &mut room }) += u64::from(left);
                    let is_free = b.state == State::Free;
                    free += u32::from(is_free && !self.space.is_static(s));
                    if b.left != left {
                        return breach(format!("has {left} units left, counted {}", b.left));
                    }
                }
                State::Drained if b.valid > 0 => return breach("is drained and in use".into()),
                _ => {}
            }
        }
        if let Some(cached) = &self.cached {
            cached.check()?;
        }
        let space = &self.space;
        let counted = (space.room, space.slc_room, space.free_count, space.borrowed);
        let found = (room, slc_room, free, borrowed);
        if found != counted {
            let what = format!(
                "units free, those with a bit a cell, superblocks free, borrowed: {found:?}"
            );
            return Err(Breach::Count(format!("{what}, counted {counted:?}")));
        }
        Ok(())
    }
}
