//! Sectors that are not in flash yet, by logical address and stamp.
//!
//! The machine knows a version of a sector by its stamp, which it gives when the write becomes
//! visible; one write of a sector is under way at a time, so the stamp is known when the data come.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Bytes of a page: a sector.
pub const PAGE: usize = 4096;
/// The data of a sector.
pub type Page = Box<[u8; PAGE]>;

/// For keys that are numbers and come from no adversary: one multiplication (Fibonacci hashing).
#[derive(Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&b| self.write_u64(u64::from(b)));
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(32) ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(26);
    }
}

/// A table by numbers.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// A logical sector in a version.
pub type Version = (u32, u32);

/// The data of sectors that the drive has taken and flash does not hold yet.
#[derive(Default)]
pub struct Pages {
    versions: Map<Version, Page>,
    /// What the collector has read, and from which block, until its copy is programmed or that block
    /// erased.
    moving: Map<Version, (u32, Page)>,
    /// By block of the source.
    moving_of: Map<u32, Vec<Version>>,
    free: Vec<Page>,
    /// The number of versions at which those that nobody needs are looked for.
    sweep_at: usize,
}

/// Pages kept for their memory.
const SPARE_PAGES: usize = 2048;
const SWEEP_FIRST: usize = 4096;

impl Pages {
    /// Of nothing.
    pub fn new() -> Pages {
        Pages { sweep_at: SWEEP_FIRST, ..Pages::default() }
    }
    /// A page to be filled. It may have old data in it.
    pub fn fresh(&mut self) -> Page {
        self.free.pop().unwrap_or_else(|| Box::new([0; PAGE]))
    }
    /// Pages that are not needed any more, to be used again.
    pub fn recycle(&mut self, page: impl IntoIterator<Item = Page>) {
        for page in page {
            if self.free.len() < SPARE_PAGES {
                self.free.push(page);
            }
        }
    }
    /// Keeps the data of a version.
    pub fn put(&mut self, version: Version, page: Page) {
        let old = self.versions.insert(version, page);
        self.recycle(old);
    }
    /// Keeps what the collector has read of a version, from `block`.
    pub fn put_moving(&mut self, block: u32, version: Version, page: Page) {
        let old = self.moving.insert(version, (block, page));
        if old.as_ref().is_none_or(|o| o.0 != block) {
            self.moving_of.entry(block).or_default().push(version);
        }
        self.recycle(old.map(|o| o.1));
    }
    /// The data of a version that users wrote.
    pub fn get(&self, version: Version) -> Option<&[u8; PAGE]> {
        self.versions.get(&version).map(|page| &**page)
    }
    /// The data of a version, be it that only the collector has read them.
    pub fn get_any(&self, version: Version) -> Option<&[u8; PAGE]> {
        self.get(version).or_else(|| self.moving.get(&version).map(|m| &*m.1))
    }
    /// The version will never be in flash.
    pub fn drop_version(&mut self, version: Version) {
        let page = self.take(version);
        self.recycle(page);
    }
    /// The version goes to flash.
    pub fn take(&mut self, version: Version) -> Option<Page> {
        let page = self.versions.remove(&version);
        match self.moving.remove(&version) {
            Some((_, moved)) if page.is_none() => Some(moved),
            moved => {
                self.recycle(moved.map(|m| m.1));
                page
            }
        }
    }
    /// The same, where it may go there once more.
    pub fn copy(&mut self, version: Version) -> Option<Page> {
        let mut page = self.fresh();
        match self.get_any(version) {
            Some(data) => {
                page.copy_from_slice(data);
                Some(page)
            }
            None => {
                self.recycle([page]);
                None
            }
        }
    }
    /// A block is being erased: whatever was moved from it is durable elsewhere, or stale.
    pub fn drop_moving_of(&mut self, block: u32) {
        for version in self.moving_of.remove(&block).unwrap_or_default() {
            // It may have moved on since.
            if self.moving.get(&version).is_some_and(|m| m.0 == block) {
                let moved = self.moving.remove(&version);
                self.recycle(moved.map(|m| m.1));
            }
        }
    }
    /// There are so many versions that a sweep is due.
    pub fn is_crowded(&self) -> bool {
        self.versions.len() >= self.sweep_at
    }
    /// Keeps what is needed; each sweep is paid for by as many versions as it looks at.
    pub fn sweep(&mut self, mut needed: impl FnMut(Version) -> bool) {
        self.versions.retain(|&version, _| needed(version));
        self.sweep_at = (2 * self.versions.len()).max(SWEEP_FIRST);
    }
    /// Bytes held.
    pub fn memory(&self) -> u64 {
        ((self.versions.len() + self.moving.len() + self.free.len()) * PAGE) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_live_until_they_are_dropped() {
        let mut pages = Pages::new();
        for stamp in 1..=3 {
            let mut page = pages.fresh();
            page.fill(stamp as u8);
            pages.put((7, stamp), page);
        }
        let page = pages.fresh();
        pages.put_moving(2, (8, 1), page);
        assert_eq!(pages.get((7, 2)).unwrap()[0], 2);
        assert!(pages.get((8, 1)).is_none() && pages.get_any((8, 1)).is_some());
        pages.drop_version((7, 2));
        assert!(pages.get((7, 2)).is_none());
        let page = pages.fresh();
        pages.put_moving(3, (8, 1), page);
        pages.drop_moving_of(2);
        assert!(pages.get_any((8, 1)).is_some(), "moved again, from another line");
        pages.drop_moving_of(3);
        assert!(pages.get_any((8, 1)).is_none());
        pages.sweep(|v| v.1 == 3);
        assert_eq!(pages.versions.len() + pages.moving.len(), 1);
    }

    #[test]
    fn hashes_of_neighbouring_sectors_differ() {
        use std::hash::BuildHasher;
        let build = BuildHasherDefault::<NumberHasher>::default();
        let mut seen = std::collections::BTreeSet::new();
        for lpn in 0..4096u32 {
            for stamp in 1..5u32 {
                seen.insert(
                    build.hash_one((lpn, stamp)) >> 57 << 12 | build.hash_one((lpn, stamp)) & 0xFFF,
                );
            }
        }
        assert!(seen.len() > 15_000, "{}", seen.len());
    }
}
