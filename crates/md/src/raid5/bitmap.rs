//! The write-intent bitmap: which regions may be out of sync after a power cut.

use super::{BITS, Member, NOBODY, Place, Raid5, Region, To, What};
use crate::config::PAGE;
use std::collections::BTreeSet;
use wordline_base::IoClass;

impl Raid5 {
    pub(super) fn region(&self, row: u64) -> Option<u64> {
        self.guards.bitmap.map(|bytes| row * PAGE / bytes)
    }

    /// The bit of the stripe's region is on all members: writes may go out (bitmap_startwrite).
    pub(super) fn has_bit(&mut self, s: u32, row: u64) -> bool {
        let Some(region) = self.region(row) else { return true };
        let r = self.regions.entry(region).or_insert(Region {
            pending: 0,
            on_disk: false,
            idle: false,
        });
        r.idle = false;
        let head = &mut self.heads[s];
        if !std::mem::replace(&mut head.counted, true) {
            r.pending += 1;
        }
        if r.on_disk {
            return true;
        }
        head.handle = true;
        head.place = Place::Bitmap;
        self.stats.bitmap_waits += 1;
        self.at_bitmap.push(s);
        self.bits_wanted.insert(region);
        self.write_bits();
        false
    }

    pub(super) fn write_bits(&mut self) {
        if self.bits_flying > 0 || self.bits_wanted.is_empty() {
            return;
        }
        self.bits_written = std::mem::take(&mut self.bits_wanted).into_iter().collect();
        let mut pages: Vec<u64> = self.bits_written.iter().map(|r| r / BITS).collect();
        pages.dedup();
        for page in pages {
            for m in 0..self.layout.members {
                if self.members[m] != Member::Failed {
                    self.bits_flying += 1;
                    self.stats.bitmap_writes += 1;
                    let at = self.layout.used + page * PAGE;
                    self.send(NOBODY, To::Member(m), What::Bitmap, (at, PAGE), true, IoClass::NONE);
                }
            }
        }
    }

    pub(super) fn bits_done(&mut self) {
        self.bits_flying -= 1;
        if self.bits_flying > 0 {
            return;
        }
        for region in std::mem::take(&mut self.bits_written) {
            if let Some(r) = self.regions.get_mut(&region) {
                r.on_disk = true;
            }
        }
        for s in std::mem::take(&mut self.at_bitmap) {
            let row = self.heads[s].row;
            let there =
                self.region(row).is_none_or(|r| self.regions.get(&r).is_some_and(|r| r.on_disk));
            if there {
                self.heads[s].place = Place::None;
                self.settle(s);
            } else {
                self.at_bitmap.push(s);
            }
        }
        self.write_bits();
    }

    /// Bits of regions that were not written for a while are cleared (bitmap_daemon_work).
    pub fn tidy_bitmap(&mut self) {
        if self.bits_flying > 0 || !self.is_whole() || self.resync.is_some() {
            return;
        }
        let mut cleared = BTreeSet::new();
        self.regions.retain(|&region, r| {
            let gone = r.pending == 0 && r.on_disk && std::mem::replace(&mut r.idle, true);
            if gone {
                cleared.insert(region / BITS);
            }
            !gone
        });
        for page in cleared {
            for m in 0..self.layout.members {
                self.bits_flying += 1;
                self.stats.bitmap_writes += 1;
                let at = self.layout.used + page * PAGE;
                self.send(NOBODY, To::Member(m), What::Bitmap, (at, PAGE), false, IoClass::NONE);
            }
        }
    }
}
