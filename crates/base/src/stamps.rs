//! Version stamps: what a sector holds, in place of data.
//!
//! A sector's stamp goes up by one at the moment a write becomes visible (its first insertion in a
//! cache or write buffer), so at every look-up exactly one answer is right: the newest stamp. The
//! check is exact for the mapping, the buffers and garbage collection, which all carry stamps.

use crate::id::Lpn;
use crate::runs::Runs;

/// A sector that was trimmed: the count of writes before, and this bit.
const TRIMMED: u32 = 1 << 31;

/// The stamp of a sector never written, and what an unmapped sector reads as.
pub const BLANK: u32 = 0;

#[derive(Clone, Debug)]
pub struct Stamps {
    newest: Option<Runs>,
    checked: u64,
    /// Look-ups that returned something else than the newest stamp: (sector, got, expected).
    wrong: Vec<(u32, u32, u32)>,
    wrong_count: u64,
}

impl Default for Stamps {
    fn default() -> Self {
        Stamps::off()
    }
}

impl Stamps {
    pub fn new(sectors: u64) -> Stamps {
        Stamps { newest: Some(Runs::equal(sectors as usize)), ..Stamps::off() }
    }
    /// No check, no memory: every stamp is blank.
    pub fn off() -> Stamps {
        Stamps { newest: None, checked: 0, wrong: Vec::new(), wrong_count: 0 }
    }
    pub fn is_on(&self) -> bool {
        self.newest.is_some()
    }
    /// A write to the sector becomes visible: its new stamp.
    #[inline]
    pub fn bump(&mut self, lpn: Lpn) -> u32 {
        match &mut self.newest {
            Some(newest) => {
                let slot = newest.at_mut(lpn.0 as usize);
                *slot = (*slot & !TRIMMED) + 1;
                *slot
            }
            None => BLANK,
        }
    }
    /// The stamp that the next write to the sector gets.
    pub fn next(&self, lpn: Lpn) -> u32 {
        self.newest.as_ref().map_or(BLANK, |n| (n.get(lpn.0 as usize) & !TRIMMED) + 1)
    }
    /// Takes up a sector of a drive that was written before: its stamp, and whether it was trimmed
    /// after that.
    pub fn restore(&mut self, lpn: Lpn, stamp: u32, trimmed: bool) {
        if let Some(newest) = &mut self.newest {
            newest.set(lpn.0 as usize, stamp | if trimmed { TRIMMED } else { 0 });
        }
    }
    /// The first write of sectors in a row, of a drive on which nothing was written: their stamp.
    pub fn begin(&mut self, lpn: Lpn, sectors: u32) -> u32 {
        match &mut self.newest {
            Some(newest) => {
                newest.set_run(lpn.0 as usize, sectors as usize, BLANK + 1);
                BLANK + 1
            }
            None => BLANK,
        }
    }
    /// Nothing was written or trimmed.
    pub fn is_blank(&self) -> bool {
        self.newest.as_ref().is_none_or(Runs::is_blank)
    }
    /// The sector is trimmed: it reads as blank from now on.
    pub fn trim(&mut self, lpn: Lpn) {
        if let Some(newest) = &mut self.newest {
            *newest.at_mut(lpn.0 as usize) |= TRIMMED;
        }
    }
    /// What a read of the sector must return now.
    #[inline]
    pub fn newest(&self, lpn: Lpn) -> u32 {
        match &self.newest {
            Some(newest) => {
                let stamp = newest.get(lpn.0 as usize);
                if stamp & TRIMMED != 0 { BLANK } else { stamp }
            }
            None => BLANK,
        }
    }
    /// The sector's stamp will be looked at soon.
    #[inline]
    pub fn prefetch(&self, lpn: Lpn) {
        if let Some(newest) = &self.newest {
            newest.prefetch(lpn.0 as usize);
        }
    }
    /// Counts a look-up and compares what it returned.
    #[inline]
    pub fn check(&mut self, lpn: Lpn, got: u32, expected: u32) {
        self.checked += u64::from(self.newest.is_some());
        if got != expected {
            self.wrong_count += 1;
            if self.wrong.len() < 16 {
                self.wrong.push((lpn.0, got, expected));
            }
        }
    }
    /// The same for a digest of several look-ups, the first of `lpn`.
    pub fn check_digest(&mut self, lpn: Lpn, got: u64, expected: u64) {
        let fold = |digest: u64| (digest ^ digest >> 32) as u32;
        let got_32 = fold(got);
        let expected_32 = match fold(expected) {
            same if same == got_32 && got != expected => !same,
            other => other,
        };
        self.check(lpn, got_32, expected_32);
    }
    pub fn checked(&self) -> u64 {
        self.checked
    }
    pub fn wrong(&self) -> (u64, &[(u32, u32, u32)]) {
        (self.wrong_count, &self.wrong)
    }
    pub fn memory(&self) -> u64 {
        self.newest.as_ref().map_or(0, |n| 4 * n.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trimmed_sector_reads_blank_and_then_newer_than_before() {
        let mut s = Stamps::new(10);
        assert_eq!(s.newest(Lpn(3)), BLANK);
        assert_eq!(s.bump(Lpn(3)), 1);
        s.trim(Lpn(3));
        assert_eq!(s.newest(Lpn(3)), BLANK);
        assert_eq!(s.bump(Lpn(3)), 2);
        assert_eq!(s.next(Lpn(3)), 3);
        s.restore(Lpn(4), 7, true);
        assert_eq!((s.newest(Lpn(4)), s.next(Lpn(4))), (BLANK, 8));
        s.restore(Lpn(4), 9, false);
        assert_eq!(s.newest(Lpn(4)), 9);
        s.check(Lpn(3), 1, s.newest(Lpn(3)));
        assert_eq!(s.wrong(), (1, &[(3, 1, 2)][..]));
    }
}
