//! Where the bytes are, for a driver that keeps any: it moves data by logical sector and stamp, and
//! asks here what a physical sector holds, or is to hold.

use crate::map::{EMPTY, Where};
use crate::rebuild::{Avoid, Kind};
use crate::ring::DONE;
use crate::stride::times_power;
use crate::{Ftl, Lpn, Ppa};
use wordline_nand::LineId;

impl Ftl {
    /// The place in flash of the newest copy of a sector, if it is durable.
    pub fn newest_at(&self, lpn: Lpn) -> Option<Ppa> {
        match self.map.get(lpn.0) {
            Where::Flash(ppa) => Some(ppa),
            Where::Buffer(slot) => {
                let entry = self.buffered(slot);
                (entry.flags & DONE != 0).then_some(Ppa(entry.ppa))
            }
            Where::Unmapped => None,
        }
    }
    /// Sectors and stamps that were taken in and are not in flash yet: what programs to come will ask
    /// for. Writes that wait for room count if a cache gave them their stamps.
    pub fn unwritten(&self) -> Vec<(Lpn, u32)> {
        let buffered = self.rings.iter().flat_map(|ring| {
            let entries = (ring.sync..ring.mem).map(|pos| ring.at(pos));
            entries.filter(|e| e.flags & DONE == 0).map(|e| (Lpn(e.lpn), e.stamp))
        });
        buffered.chain(self.waiting.stamped()).collect()
    }
    /// A line's order of opening, first unit of emeta, and first page that holds nothing else.
    pub fn line_layout(&self, line: LineId) -> (u64, u32, u32) {
        let l = &self.lines[line];
        (l.seq, l.emeta, l.whole)
    }
    /// What a unit of parity is the sum of: the first sector of each unit, and the factor in GF(256)
    /// of its bytes. Sectors without an address (padding) count as zeroes.
    pub fn parity_terms(&self, ppa: Ppa) -> Vec<(Ppa, u8)> {
        let line = self.map.line_of(ppa.0);
        let unit = (ppa.0 - self.lines.first_sector(line)) / self.g.sectors_per_unit;
        let (page, lun) = (unit / self.g.luns, self.lines.lun(unit));
        let Some(strides) = self.lines[line].strides else { return Vec::new() };
        let weighted = self.is_q(line, lun);
        let units = strides.members(strides.of(lun)).filter_map(|member| {
            let unit = page * self.g.luns + member;
            let factor = if weighted { times_power(1, strides.row(member)) as u8 } else { 1 };
            self.is_summed(line, unit).then(|| (Ppa(self.lines.ppa(line, unit)), factor))
        });
        units.collect()
    }
    /// The other way to a run of sectors: the runs of its stride, each with its factor, whose sum it
    /// is. None if parity does not cover it.
    pub fn rebuild_terms(&self, ppa: Ppa, sectors: u32) -> Option<Vec<(Ppa, u8)>> {
        if self.config.stride == 0 {
            return None;
        }
        let plan = self.plan_rebuild(0, sectors, ppa.0, 0, Avoid::default()).ok()?;
        let terms = plan.runs().iter().map(|&(ppa, row, kind)| {
            let q = match kind {
                Kind::P => 0,
                Kind::Q => 1,
                Kind::Data => times_power(1, row),
            };
            let p = u32::from(kind != Kind::Q);
            (Ppa(ppa), plan.equation.solve(plan.row, p, q) as u8)
        });
        Some(terms.collect())
    }
    /// The sector has an address: it holds data, or parity.
    pub fn has_address(&self, ppa: Ppa) -> bool {
        self.map.lpn_at(ppa.0) != EMPTY
    }
}
