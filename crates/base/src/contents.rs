//! What pages of flash hold, from the end of their program to their erasure.
//!
//! The NAND machine writes this, and nobody else. A program brings its data along ([`PageData`]), they
//! are on the page when it has ended well, and a read returns what is there then. So what an FTL takes
//! to be on a page is held against what a page would hold.
//!
//! Data are tags, a byte a sector: a mixture of the sector's number and version. Two that differ have the
//! same tag once in 255 times. What was there before the machine's clock began is not known here; nothing is
//! written down for it, so that a filled drive takes no memory.

/// The logical sector of a physical one without data.
const NOBODY: u32 = u32::MAX;
/// A version has this bit where the data of it were lost: it is the same version.
const LOST: u32 = 1 << 31;

/// What a sector in this version is on a page; 0 is nothing.
#[inline]
pub fn tag(lpn: u32, stamp: u32) -> u8 {
    if lpn == NOBODY {
        return 0;
    }
    let word = u64::from(lpn) << 32 | u64::from(stamp & !LOST);
    let mixed = (word ^ word >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    ((mixed >> 56) as u8).max(1)
}

/// Adds a sector to what a run of sectors holds.
#[inline]
pub fn fold(sum: u32, tag: u8) -> u32 {
    sum.wrapping_add(u32::from(tag) + 1).wrapping_mul(0x9E37_79B1)
}

/// The data of a program.
#[derive(Clone, Debug, Default)]
pub struct PageData(Vec<u8>);

impl PageData {
    /// Sector `i` of the unit.
    #[inline]
    pub fn put(&mut self, i: u32, lpn: u32, stamp: u32) {
        self.0[i as usize] = tag(lpn, stamp);
    }
}

/// What the flash of a drive holds. See the module.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// By physical sector; zeroed memory, which the system makes real where it is written. Empty
    /// without a check.
    tags: Vec<u8>,
    /// Sectors of a unit.
    unit: usize,
    /// Data on their way to a unit, by its first sector.
    sent: Vec<(u32, PageData)>,
    unused: Vec<PageData>,
}

impl Contents {
    /// Of so many physical sectors, programmed `unit` at a time.
    pub fn new(sectors: u64, unit: u32) -> Contents {
        let tags = vec![0; sectors as usize];
        Contents { tags, unit: unit as usize, ..Contents::default() }
    }
    /// Whether contents are kept and checked.
    #[inline]
    pub fn is_on(&self) -> bool {
        !self.tags.is_empty()
    }
    /// The data of a program of the unit from `ppa` on, which the driver hands on with the command.
    pub fn send(&mut self, ppa: u32, fill: impl FnOnce(&mut PageData)) {
        if self.is_on() {
            let mut data = self.unused.pop().unwrap_or_default();
            data.0.clear();
            data.0.resize(self.unit, 0);
            fill(&mut data);
            self.sent.push((ppa, data));
        }
    }
    /// The program of a unit has ended: its data are there, or nothing that can be read.
    pub fn programmed(&mut self, ppa: u32, ok: bool) {
        if !self.is_on() {
            return;
        }
        let page = &mut self.tags[ppa as usize..][..self.unit];
        let sent = self.sent.iter().position(|s| s.0 == ppa);
        match sent.map(|at| self.sent.swap_remove(at).1) {
            Some(data) => {
                page.copy_from_slice(&data.0);
                self.unused.push(data);
            }
            None => page.fill(0),
        }
        if !ok {
            page.fill(0);
        }
    }
    /// The unit is erased.
    pub fn erased(&mut self, ppa: u32) {
        if self.is_on() {
            self.tags[ppa as usize..][..self.unit].fill(0);
        }
    }
    /// The unit has something on it.
    pub fn is_written(&self, ppa: u32) -> bool {
        let ppa = ppa as usize;
        self.is_on() && self.tags[ppa - ppa % self.unit..][..self.unit].iter().any(|&t| t != 0)
    }
    /// What a read of these sectors returns.
    #[inline]
    pub fn read(&self, ppa: u32, sectors: u32) -> u32 {
        let run = &self.tags[ppa as usize..(ppa + sectors) as usize];
        run.iter().fold(0, |sum, &tag| fold(sum, tag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_may_be_as_large_as_it_gets() {
        let sums = [u32::MAX, u32::MAX - 1, u32::MAX - 256].map(|sum| fold(sum, 255));
        assert!(sums[0] != sums[1] && sums[1] != sums[2]);
    }

    #[test]
    fn a_page_holds_its_data_from_the_end_of_its_program_to_its_erasure() {
        let mut c = Contents::new(64, 4);
        let held = |lpns: [u32; 4]| lpns.iter().fold(0, |sum, &lpn| fold(sum, tag(lpn, 7)));
        let nothing = held([NOBODY; 4]);
        c.send(8, |data| (0..3).for_each(|i| data.put(i, 50 + i, 7)));
        assert_eq!(c.read(8, 4), nothing, "its program has not ended");
        c.programmed(8, true);
        assert_eq!(c.read(8, 4), held([50, 51, 52, NOBODY]));
        assert_ne!(c.read(8, 3), c.read(9, 3));
        c.erased(8);
        assert_eq!(c.read(8, 4), nothing);
        c.send(8, |data| data.put(0, 50, 7));
        c.programmed(8, false);
        assert_eq!(c.read(8, 4), nothing, "its program failed");
        assert!(c.sent.is_empty());
    }

    #[test]
    fn versions_and_sectors_beside_each_other_are_told_apart() {
        let mut same = 0;
        for lpn in 0..1000 {
            for stamp in 1..20 {
                same += u32::from(tag(lpn, stamp) == tag(lpn, stamp + 1));
                same += u32::from(tag(lpn, stamp) == tag(lpn + 1, stamp));
                same += u32::from(tag(lpn, stamp) == tag(lpn + 1, stamp - 1));
            }
        }
        // 57,000 pairs. Tags drawn at random would have 224 of them alike.
        assert!(same < 300, "{same}");
    }
}
