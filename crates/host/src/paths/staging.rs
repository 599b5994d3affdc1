//! What a host has put into a drive's protected buffer ahead of programs, and what waits for room there.

use std::collections::{BTreeMap, VecDeque};
use wordline_ftl::Stage;
use wordline_nand::UnitId;

#[derive(Debug)]
pub(crate) struct Staging {
    /// Bytes that have room.
    left: u64,
    /// Bytes by unit, until its program has ended; those of the unit that is filled are apart.
    units: BTreeMap<u32, u64>,
    filled: (u32, u64),
    /// What found no room, in order.
    waiting: VecDeque<Stage>,
    /// Bytes of a sector.
    sector_bytes: u64,
    /// Sectors of a unit.
    unit_sectors: u32,
}

impl Staging {
    pub fn new(bytes: u64, sector_bytes: u64, unit_sectors: u32) -> Staging {
        let (units, waiting) = (BTreeMap::new(), VecDeque::new());
        Staging { left: bytes, units, filled: (0, 0), waiting, sector_bytes, unit_sectors }
    }
    fn take(&mut self, stage: &Stage) -> bool {
        let bytes = self.sector_bytes * u64::from(stage.sectors);
        let fits = bytes <= self.left;
        if fits {
            self.left -= bytes;
            let unit = stage.ppa.0 / self.unit_sectors;
            if unit != self.filled.0 {
                self.set_apart(unit);
            }
            self.filled.1 += bytes;
        }
        fits
    }
    /// Whether it may go to the drive; otherwise it waits.
    pub fn admit(&mut self, stage: Stage) -> bool {
        let goes = self.waiting.is_empty() && self.take(&stage);
        if !goes {
            self.waiting.push_back(stage);
        }
        goes
    }
    /// Another unit is filled from here on.
    fn set_apart(&mut self, unit: u32) {
        let (before, bytes) = self.filled;
        if bytes > 0 {
            self.units.insert(before, bytes);
        }
        self.filled = (unit, self.units.remove(&unit).unwrap_or(0));
    }
    /// A unit's program ended.
    #[inline]
    pub fn release(&mut self, unit: UnitId) {
        self.left += match unit.0 == self.filled.0 {
            true => std::mem::take(&mut self.filled.1),
            false => self.units.remove(&unit.0).unwrap_or(0),
        };
    }
    /// The next that waited and has room now.
    #[inline]
    pub fn next(&mut self) -> Option<Stage> {
        let &stage = self.waiting.front()?;
        self.take(&stage).then(|| self.waiting.pop_front())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_nand::Ppa;

    #[test]
    fn what_finds_no_room_goes_in_order_once_units_are_programmed() {
        let mut s = Staging::new(4096, 512, 8);
        let stage = |op: u32| Stage { op, tag: 0, ppa: Ppa(4 * op), sectors: 4 };
        assert!(s.admit(stage(0)) && s.admit(stage(1)));
        assert!(!s.admit(stage(2)) && !s.admit(stage(3)) && s.next().is_none());
        s.release(UnitId(0));
        assert_eq!(
            [s.next(), s.next(), s.next()].map(|s| s.map(|s| s.op)),
            [Some(2), Some(3), None]
        );
        s.release(UnitId(7));
        assert!(!s.admit(stage(4)), "the buffer is full");
    }
}
