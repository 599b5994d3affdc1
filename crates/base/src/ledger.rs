//! What hosts have asked to be written and trimmed, from submission to acknowledgement.
//!
//! Whoever makes a write command gives it a version, which its data carry. The drive shows the version of
//! each sector once, at the moment from which reads find it. That moment lies between submission and
//! acknowledgement. A write that was acknowledged and not shown is told. So is one that was shown twice or
//! for other sectors, and the same of trims. Of writes under way together at one sector either may be shown
//! first.

use crate::IdVec;

/// No command: nobody keeps a ledger.
pub const NONE: u32 = u32::MAX;

/// A write or trim by its place in the ledger, and by the drive's name for its command.
type EntryId = u32;
type Tag = u32;

/// A write or trim under way.
#[derive(Clone, Copy, Debug)]
struct Entry {
    lpn: u32,
    sectors: u32,
    /// The drive's.
    tag: u32,
    /// None: that of each sector counts up by one.
    version: Option<u32>,
    /// Sectors not shown yet.
    left: u32,
    /// Sum of the places of sectors not shown yet.
    sum: u64,
    open: bool,
}

/// A sector that is being read to be written in part, and the version that was read.
#[derive(Clone, Copy, Debug)]
struct Merge {
    tag: u32,
    lpn: u32,
    seen: u32,
}

/// Commands of one host, until they are acknowledged. See the module.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    entries: IdVec<EntryId, Entry>,
    free: Vec<EntryId>,
    /// By the drive's tag of a command, its entry.
    bound: IdVec<Tag, EntryId>,
    merges: Vec<Merge>,
}

/// What a drive may not do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Breach;

impl Ledger {
    /// Commands submitted and not acknowledged.
    pub fn open(&self) -> usize {
        self.entries.len() - self.free.len()
    }
    /// A write or trim goes to the drive, all of it with `version`, or each sector with one more than it
    /// had: its entry.
    pub fn submit(&mut self, lpn: u32, sectors: u32, version: Option<u32>) -> u32 {
        let sum = u64::from(sectors) * (u64::from(sectors) + 1) / 2;
        let entry = Entry { lpn, sectors, tag: NONE, version, left: sectors, sum, open: true };
        match self.free.pop() {
            Some(id) => {
                self.entries[id] = entry;
                id
            }
            None => {
                self.entries.push(entry);
                self.entries.count() - 1
            }
        }
    }
    /// The drive calls a command by this tag from now on.
    pub fn bind(&mut self, tag: u32, id: u32) {
        if self.bound.count() <= tag {
            if id == NONE {
                return;
            }
            self.bound.resize(tag as usize + 1, NONE);
        }
        self.bound[tag] = id;
        if let Some(e) = self.entries.get_mut(id) {
            e.tag = tag;
        }
        self.merges.retain(|m| m.tag != tag);
    }
    #[inline]
    fn entry(&self, tag: Tag) -> Option<EntryId> {
        let id = *self.bound.get(tag)?;
        (id != NONE).then_some(id)
    }
    /// The version that the command has for its sectors, if it is in the ledger and they do not count.
    pub fn version(&self, tag: u32) -> Option<u32> {
        self.entries[self.entry(tag)?].version
    }
    /// The command's write or trim of a sector is what reads find from now on. Its version, if it has
    /// one.
    #[inline]
    pub fn show(&mut self, tag: u32, lpn: u32) -> Result<Option<u32>, Breach> {
        let Some(id) = self.entry(tag) else { return Ok(None) };
        let e = &mut self.entries[id];
        let place = lpn.wrapping_sub(e.lpn);
        if !e.open || e.tag != tag || place >= e.sectors || e.left == 0 || e.sum <= u64::from(place)
        {
            return Err(Breach);
        }
        e.left -= 1;
        e.sum -= u64::from(place) + 1;
        Ok(e.version)
    }
    /// A sector is read, to be written in part by the command.
    pub fn merge(&mut self, tag: u32, lpn: u32, seen: u32) {
        self.merges.push(Merge { tag, lpn, seen });
    }
    /// Before [`Ledger::show`]: the version that reads find is the one that was read, if any was.
    #[inline]
    pub fn merged(&mut self, tag: u32, lpn: u32, newest: u32) -> Result<(), Breach> {
        if self.merges.is_empty() {
            return Ok(());
        }
        match self.merges.iter().position(|m| (m.tag, m.lpn) == (tag, lpn)) {
            Some(at) if self.merges.swap_remove(at).seen != newest => Err(Breach),
            _ => Ok(()),
        }
    }
    /// The host hears that the command is over. Of one that failed nothing is promised.
    pub fn acknowledge(&mut self, id: u32, ok: bool) -> Result<(), (u32, Breach)> {
        let e = &mut self.entries[id];
        e.open = false;
        self.free.push(id);
        if ok && (e.left, e.sum) != (0, 0) { Err((e.lpn, Breach)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sector_is_shown_once_between_submission_and_acknowledgement() {
        let mut l = Ledger::default();
        let of = |l: &mut Ledger, tag: u32, lpn: u32, n: u32| {
            let id = l.submit(lpn, n, Some(40 + tag));
            l.bind(tag, id);
            id
        };
        let (a, b) = (of(&mut l, 0, 10, 3), of(&mut l, 5, 11, 1));
        // Two at one sector: either order.
        assert_eq!(l.show(5, 11), Ok(Some(45)));
        assert_eq!([10, 12, 11].map(|lpn| l.show(0, lpn)), [Ok(Some(40)); 3]);
        assert_eq!((l.acknowledge(a, true), l.acknowledge(b, true)), (Ok(()), Ok(())));
        assert_eq!(l.open(), 0);
        assert_eq!(l.show(0, 10), Err(Breach), "after the acknowledgement");
        let c = of(&mut l, 1, 20, 3);
        assert_eq!((l.show(1, 19), l.show(1, 23)), (Err(Breach), Err(Breach)), "of others");
        assert_eq!((l.show(1, 20), l.show(1, 21)), (Ok(Some(41)), Ok(Some(41))));
        assert_eq!(l.acknowledge(c, true), Err((20, Breach)), "one is missing");
        let d = of(&mut l, 1, 20, 3);
        // One twice in another's place.
        assert!([20, 20, 21].map(|lpn| l.show(1, lpn)).iter().all(Result::is_ok));
        assert!(l.acknowledge(d, true).is_err());
        let e = of(&mut l, 1, 20, 3);
        assert_eq!(l.acknowledge(e, false), Ok(()), "nothing is promised of what failed");
        assert_eq!(l.show(9, 3), Ok(None), "not in the ledger");
    }

    #[test]
    fn what_was_read_to_be_written_in_part_is_the_newest_until_then() {
        let mut l = Ledger::default();
        let id = l.submit(7, 1, Some(3));
        l.bind(2, id);
        l.merge(2, 7, 1);
        assert_eq!(l.merged(4, 7, 2), Ok(()), "another's write");
        assert_eq!(l.merged(2, 7, 2), Err(Breach));
        l.merge(2, 7, 2);
        assert_eq!(l.merged(2, 7, 2), Ok(()));
        assert!(l.merges.is_empty());
    }
}
