//! The sectors of a program's files: best fit, lowest address of equals. Every file, and every page
//! of a B-tree, is one extent.

use std::collections::{BTreeMap, BTreeSet};

/// Sectors of 4 KiB from the start of the program's part of the drive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Extent {
    /// The first of them.
    pub at: u64,
    /// How many.
    pub sectors: u64,
}

/// Free sectors of the program's part of the drive.
#[derive(Clone, Debug)]
pub struct Space {
    sectors: u64,
    free: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
    used: u64,
    /// The most ever in use.
    high: u64,
}

impl Space {
    /// All free.
    pub fn new(sectors: u64) -> Space {
        let mut space = Space {
            sectors,
            free: BTreeMap::new(),
            by_size: BTreeSet::new(),
            used: sectors,
            high: 0,
        };
        space.give(Extent { at: 0, sectors });
        space
    }

    /// None: no stretch is long enough.
    pub fn take(&mut self, sectors: u64) -> Option<Extent> {
        debug_assert!(sectors > 0);
        let &(size, at) = self.by_size.range((sectors, 0)..).next()?;
        self.remove(at, size);
        if size > sectors {
            self.insert(at + sectors, size - sectors);
        }
        self.used += sectors;
        self.high = self.high.max(self.used);
        Some(Extent { at, sectors })
    }

    /// Sectors are free again.
    pub fn give(&mut self, extent: Extent) {
        let Extent { mut at, mut sectors } = extent;
        debug_assert!(at + sectors <= self.sectors, "{extent:?} is beyond the end");
        self.used -= sectors;
        if let Some((&before, &size)) = self.free.range(..at).next_back() {
            debug_assert!(before + size <= at, "{extent:?} is free already");
            if before + size == at {
                self.remove(before, size);
                (at, sectors) = (before, sectors + size);
            }
        }
        if let Some((&after, &size)) = self.free.range(at..).next() {
            debug_assert!(at + sectors <= after, "{extent:?} is free already");
            if at + sectors == after {
                self.remove(after, size);
                sectors += size;
            }
        }
        self.insert(at, sectors);
    }

    fn insert(&mut self, at: u64, sectors: u64) {
        self.free.insert(at, sectors);
        self.by_size.insert((sectors, at));
    }
    fn remove(&mut self, at: u64, sectors: u64) {
        self.free.remove(&at);
        self.by_size.remove(&(sectors, at));
    }

    /// Sectors, free or not.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }
    /// Sectors that are not free.
    pub fn used(&self) -> u64 {
        self.used
    }
    /// Behind the last sector that was ever used.
    pub fn high(&self) -> u64 {
        self.high
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::{BitMap, Rng};

    #[test]
    fn what_is_taken_never_overlaps_and_all_comes_back() {
        for seed in 0..200 {
            let mut rng = Rng::from_seed(seed);
            let (mut space, mut map) = (Space::new(500), BitMap::new(500));
            let mut held: Vec<Extent> = Vec::new();
            for _ in 0..400 {
                if !held.is_empty() && rng.below(5) < 2 {
                    let extent = held.swap_remove(rng.below(held.len() as u64) as usize);
                    for i in extent.at..extent.at + extent.sectors {
                        assert!(map.clear(i as usize), "seed {seed}");
                    }
                    space.give(extent);
                } else if let Some(extent) = space.take(1 + rng.below(20)) {
                    for i in extent.at..extent.at + extent.sectors {
                        assert!(map.set(i as usize), "seed {seed}: {extent:?} overlaps");
                    }
                    held.push(extent);
                }
                assert_eq!(space.used(), map.count() as u64, "seed {seed}");
            }
            held.drain(..).for_each(|e| space.give(e));
            assert_eq!(space.take(500), Some(Extent { at: 0, sectors: 500 }), "seed {seed}");
        }
    }
}
