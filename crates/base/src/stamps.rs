//! Version stamps: what a sector holds, in place of data.
//!
//! A write gets its version where it is made, at its host ([`crate::ledger`]). The drive says at which
//! moment reads find it (its first insertion in a cache or write buffer), which must be before it is
//! acknowledged, so at every look-up exactly one answer is right: the newest stamp. The check is exact
//! for the mapping, the buffers and garbage collection, which all carry stamps; and what flash returns
//! is what its pages hold ([`crate::contents`]).
//!
//! Where no host keeps a ledger, stamps go up by one with each write of a sector.

use crate::contents::Contents;
use crate::id::Lpn;
use crate::ledger::{Ledger, NONE};
use crate::versions::Versions;

/// A sector that was trimmed: the count of writes before, and this bit.
const TRIMMED: u32 = 1 << 31;

/// The stamp of a sector never written, and what an unmapped sector reads as.
pub const BLANK: u32 = 0;

/// The last stamp of a sector whose writes are counted and kept: no write of it may follow. With the highest bit, which
/// marks a trim here and what was lost on flash, it is none of the marks that are kept beside stamps.
pub const LAST: u32 = TRIMMED - 2;

/// The stamp after another, which may be that of a trimmed sector. Those of a simulation begin again.
#[inline]
fn after(stamp: u32) -> u32 {
    match (stamp & !TRIMMED) + 1 {
        TRIMMED => BLANK + 1,
        next => next,
    }
}

/// The newest stamp of every sector, and what look-ups found. See the module.
#[derive(Clone, Debug)]
pub struct Stamps {
    newest: Option<Versions>,
    checked: u64,
    /// Look-ups that returned something else than the newest stamp: (sector, got, expected).
    wrong: Vec<(u32, u32, u32)>,
    wrong_count: u64,
    /// What pages of flash hold.
    pub flash: Contents,
    /// Commands under way, with their versions.
    ledger: Ledger,
    /// No stamp is above.
    most: u32,
}

impl Default for Stamps {
    fn default() -> Self {
        Stamps::off()
    }
}

impl Stamps {
    /// Of a drive of so many sectors, none written.
    pub fn new(sectors: u64) -> Stamps {
        Stamps { newest: Some(Versions::new(sectors as usize)), ..Stamps::off() }
    }
    /// No check, no memory: every stamp is blank.
    pub fn off() -> Stamps {
        Stamps {
            newest: None,
            checked: 0,
            wrong: Vec::new(),
            wrong_count: 0,
            flash: Contents::default(),
            ledger: Ledger::default(),
            most: BLANK + 1,
        }
    }
    /// Whether stamps are kept and checked.
    pub fn is_on(&self) -> bool {
        self.newest.is_some()
    }
    /// A write to the sector becomes visible: its new stamp.
    #[inline]
    pub fn bump(&mut self, lpn: Lpn) -> u32 {
        match &mut self.newest {
            Some(newest) => {
                let stamp = newest.update(lpn.0 as usize, after);
                self.most = self.most.max(stamp);
                stamp
            }
            None => BLANK,
        }
    }
    /// The stamps of several writes, one after the other.
    pub fn bump_each(&mut self, lpns: &[u32], stamps: &mut [u32]) {
        /// How far ahead memory is asked for.
        const AHEAD: usize = 32;
        let ahead = lpns.iter().skip(AHEAD).map(Some).chain(std::iter::repeat(None));
        for ((stamp, &lpn), ahead) in stamps.iter_mut().zip(lpns).zip(ahead) {
            if let Some(&ahead) = ahead {
                self.prefetch(Lpn(ahead));
            }
            *stamp = self.bump(Lpn(lpn));
        }
    }
    /// A host submits a write or trim of these sectors: what the ledger calls it. It has a version that
    /// nothing had before.
    pub fn submit(&mut self, lpn: Lpn, sectors: u32) -> u32 {
        if self.newest.is_none() {
            return NONE;
        }
        self.most = if self.most < TRIMMED - 1 { self.most + 1 } else { BLANK + 1 };
        self.ledger.submit(lpn.0, sectors, Some(self.most))
    }
    /// The same of a command that has a version from above, as a bridge's has from its host.
    pub fn submit_as(&mut self, lpn: Lpn, sectors: u32, version: u32) -> u32 {
        if self.newest.is_none() {
            return NONE;
        }
        self.most = self.most.max(version);
        self.ledger.submit(lpn.0, sectors, Some(version))
    }
    /// The version of a command under way, by the drive's tag; none where its host gave it none.
    pub fn version_of(&self, tag: u32) -> Option<u32> {
        self.ledger.version(tag)
    }
    /// Versions from here on are above this one.
    pub fn begin_above(&mut self, version: u32) {
        self.most = self.most.max(version);
    }
    /// No stamp is above.
    pub fn most(&self) -> u32 {
        self.most
    }
    /// The sector's newest data are what a drive behind this one has as this version.
    pub fn set_newest(&mut self, lpn: Lpn, version: u32) {
        if let Some(newest) = &mut self.newest {
            newest.set(lpn.0 as usize, version);
        }
    }
    /// The same by a host that has no two writes of a sector under way, and counts the versions of each
    /// ([`Stamps::next`]).
    pub fn submit_counted(&mut self, lpn: Lpn, sectors: u32) -> u32 {
        if self.newest.is_none() { NONE } else { self.ledger.submit(lpn.0, sectors, None) }
    }
    /// A drive has a command by the tag that it will write and trim with; what the ledger calls it.
    #[inline]
    pub fn bind(&mut self, tag: u32, submitted: u32) {
        if self.newest.is_some() {
            self.ledger.bind(tag, submitted);
        }
    }
    /// A command's write of a sector is what reads find from now on: its stamp.
    #[inline]
    pub fn show(&mut self, tag: u32, lpn: Lpn) -> u32 {
        let Some(newest) = &mut self.newest else { return BLANK };
        let before = newest.get(lpn.0 as usize);
        let merged = self.ledger.merged(tag, lpn.0, before);
        let shown = self.ledger.show(tag, lpn.0);
        let stamp = match shown {
            Ok(Some(version)) => version,
            Ok(None) | Err(_) => after(before),
        };
        newest.set(lpn.0 as usize, stamp);
        self.most = self.most.max(stamp);
        if merged.is_err() || shown.is_err() {
            self.breach(lpn.0, stamp);
        }
        stamp
    }
    /// A command's trim of a sector is what reads find from now on.
    #[inline]
    pub fn show_trim(&mut self, tag: u32, lpn: Lpn) {
        if self.newest.is_some() {
            let shown = self.ledger.show(tag, lpn.0);
            self.trim(lpn);
            if shown.is_err() {
                self.breach(lpn.0, BLANK);
            }
        }
    }
    /// A command is about to read a sector that it writes in part: the stamp that it will write there.
    pub fn merge(&mut self, tag: u32, lpn: Lpn) -> u32 {
        let Some(newest) = &self.newest else { return BLANK };
        self.ledger.merge(tag, lpn.0, newest.get(lpn.0 as usize));
        self.ledger.version(tag).unwrap_or_else(|| self.next(lpn))
    }
    /// A host hears of the end of a command.
    #[inline]
    pub fn acknowledge(&mut self, submitted: u32, ok: bool) {
        if submitted != NONE
            && let Err((lpn, _)) = self.ledger.acknowledge(submitted, ok)
        {
            self.breach(lpn, BLANK);
        }
    }
    /// Commands submitted and not acknowledged.
    pub fn under_way(&self) -> usize {
        self.ledger.open()
    }
    #[cold]
    fn breach(&mut self, lpn: u32, got: u32) {
        self.wrong_count += 1;
        if self.wrong.len() < 16 {
            self.wrong.push((lpn, got, self.newest(Lpn(lpn))));
        }
    }
    /// The stamp that the next write to the sector gets, where no host gives it one.
    pub fn next(&self, lpn: Lpn) -> u32 {
        self.newest.as_ref().map_or(BLANK, |n| after(n.get(lpn.0 as usize)))
    }
    /// The sector was written as often as can be counted ([`LAST`]).
    pub fn is_spent(&self, lpn: Lpn) -> bool {
        self.next(lpn) > LAST
    }
    /// Takes up a sector of a drive that was written before: its stamp, and whether it was trimmed
    /// after that.
    pub fn restore(&mut self, lpn: Lpn, stamp: u32, trimmed: bool) {
        if let Some(newest) = &mut self.newest {
            newest.set(lpn.0 as usize, stamp | if trimmed { TRIMMED } else { 0 });
            self.most = self.most.max(stamp);
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
    /// Sectors all over the drive are going to be written: see [`Versions::populate`].
    pub fn populate(&mut self) {
        if let Some(newest) = &mut self.newest {
            newest.populate();
        }
    }
    /// Nothing was written or trimmed.
    pub fn is_blank(&self) -> bool {
        self.newest.as_ref().is_none_or(Versions::is_blank)
    }
    /// The sector is trimmed: it reads as blank from now on.
    pub fn trim(&mut self, lpn: Lpn) {
        if let Some(newest) = &mut self.newest {
            newest.update(lpn.0 as usize, |stamp| stamp | TRIMMED);
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
    /// Flash holds something else at `ppa` than the FTL takes to be there, which is no look-up.
    pub fn check_page(&mut self, ppa: u32, got: u32, expected: u32) {
        let checked = self.checked;
        self.check(Lpn(ppa), got, expected);
        self.checked = checked;
    }
    /// The same for a digest of several look-ups, the first of `lpn`.
    #[inline]
    pub fn check_digest(&mut self, lpn: Lpn, got: u64, expected: u64) {
        match got == expected {
            true => self.check(lpn, 0, 0),
            false => self.digests_differ(lpn, got, expected),
        }
    }
    #[cold]
    fn digests_differ(&mut self, lpn: Lpn, got: u64, expected: u64) {
        let fold = |digest: u64| (digest ^ digest >> 32) as u32;
        let got_32 = fold(got);
        let expected_32 = match fold(expected) {
            same if same == got_32 => !same,
            other => other,
        };
        self.check(lpn, got_32, expected_32);
    }
    /// Look-ups that were checked.
    pub fn checked(&self) -> u64 {
        self.checked
    }
    /// Look-ups that returned an older stamp than the newest, and the first of them: sector, got, expected.
    pub fn wrong(&self) -> (u64, &[(u32, u32, u32)]) {
        (self.wrong_count, &self.wrong)
    }
    /// The newest stamps as they are, of trimmed sectors too, and the highest ever; none without a check.
    pub fn kept(&self) -> Option<(&Versions, u32)> {
        self.newest.as_ref().map(|newest| (newest, self.most))
    }
    /// The check of a drive whose stamps were kept.
    pub fn of_kept(newest: Versions, most: u32) -> Stamps {
        Stamps { newest: Some(newest), most, ..Stamps::off() }
    }
    /// Bytes of the stamps.
    pub fn memory(&self) -> u64 {
        self.newest.as_ref().map_or(0, |n| Versions::least(n.len() as u64) + n.beside())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_gives_versions_and_hears_of_what_was_not_written() {
        let mut s = Stamps::new(10);
        assert_eq!(s.bump(Lpn(3)), 1);
        let (a, b) = (s.submit(Lpn(2), 2), s.submit(Lpn(3), 1));
        s.bind(0, a);
        s.bind(1, b);
        // The later one first.
        let later = s.show(1, Lpn(3));
        let first = [s.show(0, Lpn(2)), s.show(0, Lpn(3))];
        assert!(first[0] == first[1] && later > first[0] && first[0] > 1);
        assert_eq!(s.newest(Lpn(3)), first[1]);
        s.acknowledge(a, true);
        s.acknowledge(b, true);
        assert_eq!((s.wrong().0, s.under_way()), (0, 0));
        let c = s.submit(Lpn(4), 2);
        s.bind(2, c);
        s.show_trim(2, Lpn(4));
        s.acknowledge(c, true);
        assert_eq!(s.wrong().0, 1, "half of a trim");
        let d = s.submit(Lpn(5), 1);
        s.bind(3, d);
        let version = s.merge(3, Lpn(5));
        s.bump(Lpn(5));
        assert_eq!(s.show(3, Lpn(5)), version);
        assert_eq!(s.wrong().0, 2, "another write between reading and writing");
    }

    #[test]
    fn a_stamp_never_becomes_the_mark_of_a_trim() {
        let mut s = Stamps::new(10);
        s.restore(Lpn(3), LAST - 1, true);
        assert_eq!((s.is_spent(Lpn(3)), s.bump(Lpn(3))), (false, LAST));
        assert!(s.is_spent(Lpn(3)));
        s.trim(Lpn(3));
        assert!(s.is_spent(Lpn(3)), "a trim gives none back");
        for _ in 0..4 {
            assert_eq!(s.bump(Lpn(3)), s.newest(Lpn(3)));
            assert_ne!(s.newest(Lpn(3)), BLANK);
        }
        assert_eq!(s.newest(Lpn(3)), 3);
    }

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
