//! The map, its inverse, and what of flash is in use.
//!
//! - `l2p`: 4 bytes a logical sector, where its newest copy is;
//! - `oob`: 4 bytes a physical sector, the logical sector written there, as the spare area has it;
//! - `valid`: a bit a physical sector;
//! - `orders`: 4 bytes a unit, its place in the order of programs, as the spare area has it;
//! - `stamps`: half a byte a physical sector, and more for those that a run wrote, only while versions are checked.
//!
//! Behind the sectors of users come those of the map itself, if it is written to flash: they have places as
//! the others.
//!
//! Values are stored plus one, so that zero is "nothing". What was written in order takes no memory.

use wordline_base::{Lpn, Runs, Stamps, Versions, prefetch};
use wordline_nand::{Geometry, Ppa};

/// The logical sector of a physical one without data.
pub(crate) const NOBODY: u32 = u32::MAX;
/// The only copy could not be read.
const LOST: u32 = u32::MAX;
/// The first code of a slot of the buffer; below are physical sectors plus one.
const BUFFER: u32 = 0xF000_0001;

/// Where the newest copy of a sector is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Where {
    Unmapped,
    Buffer(u32),
    Flash(u32),
    Lost,
}

impl Where {
    #[inline]
    fn decode(code: u32) -> Where {
        match code {
            0 => Where::Unmapped,
            LOST => Where::Lost,
            BUFFER.. => Where::Buffer(code - BUFFER),
            code => Where::Flash(code - 1),
        }
    }
    #[inline]
    fn code(self) -> u32 {
        match self {
            Where::Unmapped => 0,
            Where::Lost => LOST,
            Where::Buffer(slot) => BUFFER + slot,
            Where::Flash(ppa) => ppa + 1,
        }
    }
}

#[derive(Clone)]
pub(crate) struct Map {
    l2p: Runs,
    oob: Runs,
    pub stamps: Option<Versions>,
    valid: Vec<u64>,
    orders: Runs,
    /// The order of the next unit.
    pub next: u32,
    /// Sectors of users.
    users: u32,
}

impl Map {
    /// For so many sectors of users, and pages of the map.
    pub fn new(g: &Geometry, users: u64, pages: u32) -> Map {
        Map {
            l2p: Runs::counting(users as usize + pages as usize),
            oob: Runs::counting(g.sectors() as usize),
            stamps: None,
            valid: vec![0; g.sectors().div_ceil(64) as usize],
            orders: Runs::counting((g.lines * g.units_per_line()) as usize),
            next: 1,
            users: users as u32,
        }
    }
    pub fn keep_stamps(&mut self) {
        if self.stamps.is_none() {
            self.stamps = Some(Versions::new(self.oob.len()));
        }
    }
    /// Makes the stamps on flash and those of the check the same. Flash that has none gets the newest.
    pub fn adopt_stamps(&mut self, stamps: &mut Stamps) {
        let unknown = self.stamps.is_none();
        self.keep_stamps();
        if self.is_blank() {
            return;
        }
        for lpn in 0..self.users {
            let Where::Flash(ppa) = self.get(lpn) else { continue };
            if unknown {
                self.note(ppa, lpn, stamps.newest(Lpn(lpn)).max(1));
            }
            let stamp = self.stamp_at(ppa);
            if stamps.newest(Lpn(lpn)) < stamp {
                stamps.restore(Lpn(lpn), stamp, false);
            }
        }
    }
    pub fn is_blank(&self) -> bool {
        self.l2p.is_blank()
    }
    /// Sectors of users and of the map.
    pub fn sectors(&self) -> u32 {
        self.l2p.len() as u32
    }
    #[inline]
    pub fn prefetch(&self, lpn: u32) {
        self.l2p.prefetch(lpn as usize);
    }
    #[inline]
    pub fn prefetch_valid(&self, ppa: u32) {
        prefetch(&self.valid, ppa as usize / 64);
    }
    #[inline]
    pub fn get(&self, lpn: u32) -> Where {
        Where::decode(self.l2p.get(lpn as usize))
    }
    /// The sector is there from now on: where it was.
    #[inline]
    pub fn set(&mut self, lpn: u32, to: Where) -> Where {
        Where::decode(std::mem::replace(self.l2p.at_mut(lpn as usize), to.code()))
    }
    #[inline]
    pub fn lpn_at(&self, ppa: u32) -> u32 {
        // The zero of an empty sector wraps to NOBODY.
        self.oob.get(ppa as usize).wrapping_sub(1)
    }
    #[inline]
    pub fn stamp_at(&self, ppa: u32) -> u32 {
        self.stamps.as_ref().map_or(0, |stamps| stamps.get(ppa as usize))
    }
    /// What flash is to hold there.
    #[inline]
    pub fn note(&mut self, ppa: u32, lpn: u32, stamp: u32) {
        self.oob.set(ppa as usize, lpn.wrapping_add(1));
        if let Some(stamps) = &mut self.stamps {
            stamps.set(ppa as usize, stamp);
        }
    }
    /// A unit gets the next place in the order.
    #[inline]
    pub fn number(&mut self, unit: u32) {
        self.orders.set(unit as usize, self.next);
        self.next += 1;
    }
    /// The same for units that are written in a row.
    pub fn number_run(&mut self, unit: u32, units: u32) {
        self.orders.set_run(unit as usize, units as usize, self.next);
        self.next += units;
    }
    pub fn order_of(&self, unit: u32) -> u32 {
        self.orders.get(unit as usize)
    }
    pub fn set_order(&mut self, unit: u32, order: u32) {
        self.orders.set(unit as usize, order);
    }
    /// Sectors that were never written are written in a row.
    pub fn put_run(&mut self, lpn: u32, ppa: u32, sectors: u32, stamp: u32) {
        let n = sectors as usize;
        self.l2p.set_run(lpn as usize, n, ppa + 1);
        self.oob.set_run(ppa as usize, n, lpn + 1);
        if let Some(stamps) = &mut self.stamps {
            stamps.set_run(ppa as usize, n, stamp);
        }
        let (mut at, end) = (ppa as usize, ppa as usize + n);
        while at < end {
            let n = (end - at).min(64 - at % 64);
            self.valid[at / 64] |= (!0u64 >> (64 - n)) << (at % 64);
            at += n;
        }
    }
    #[inline]
    pub fn is_valid(&self, ppa: u32) -> bool {
        self.valid[ppa as usize / 64] >> (ppa % 64) & 1 == 1
    }
    #[inline]
    pub fn mark(&mut self, ppa: u32, valid: bool) {
        let bit = 1 << (ppa % 64);
        let word = &mut self.valid[ppa as usize / 64];
        debug_assert_eq!(*word & bit == 0, valid, "sector {ppa}");
        *word ^= bit;
    }
    /// The sectors in use of up to 64 from here on, the first in the lowest bit.
    #[inline]
    pub fn bits(&self, ppa: u32, sectors: u32) -> u64 {
        let (word, shift) = (ppa as usize / 64, ppa % 64);
        let low = self.valid[word] >> shift;
        let high = match shift {
            0 => 0,
            shift => self.valid.get(word + 1).map_or(0, |word| word << (64 - shift)),
        };
        (low | high) & (!0 >> (64 - sectors))
    }
    /// Bytes of the map, as a drive needs it; and without the places of sectors.
    pub fn bytes(&self) -> u64 {
        4 * self.l2p.len() as u64 + self.bytes_in_use()
    }
    pub fn bytes_in_use(&self) -> u64 {
        8 * self.valid.len() as u64
    }
    pub fn stamp_bytes(&self) -> u64 {
        self.stamps
            .as_ref()
            .map_or(0, |stamps| Versions::least(stamps.len() as u64) + stamps.beside())
    }
    /// Every sector that is on flash, with its place.
    pub fn on_flash(&self) -> impl Iterator<Item = (u32, Ppa)> + '_ {
        (0..self.sectors()).filter_map(|lpn| match self.get(lpn) {
            Where::Flash(ppa) => Some((lpn, Ppa(ppa))),
            _ => None,
        })
    }
    /// Sectors in use of all flash.
    pub fn count(&self) -> u64 {
        self.valid.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}
