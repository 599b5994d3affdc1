//! The write buffer: a ring of 4 KiB entries with five cursors (pblk-rb).
//!
//! ```text
//! l2p_update <= readable <= sync <= subm <= mem            flush_point <= mem
//! ```
//!
//! Producers (users and the garbage collector) insert at `mem`; the write thread takes at `subm`;
//! `sync` follows the programs that are done, in order and without gaps; `readable` follows where
//! flash may be read: at once, or when the whole stripe is programmed, parity included, or the
//! paired pages; `l2p_update` follows when a slot is about to be reused, and only then does the
//! mapping turn from the buffer to flash: data already durable are still read from memory until
//! then. Cursors count entries for ever; the slot is the position modulo the size, a power of two.

use wordline_base::IdVec;

/// Who inserted an entry.
pub(crate) const USER: u8 = 1;
pub(crate) const GC: u8 = 2;
/// Programmed.
pub(crate) const DONE: u8 = 4;
/// Written again after a failure although a newer version is on its way to flash before it: its
/// sector holds no data, and it counts as durable when the newer version is.
pub(crate) const STALE: u8 = 8;

#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Entry {
    pub lpn: u32,
    pub stamp: u32,
    /// Where it was mapped to.
    pub ppa: u32,
    /// Line it was moved from (GC).
    pub origin: u32,
    /// The stripe it was mapped to, counted by the write thread; `NO_STRIPE` if that is not kept.
    pub stripe: u32,
    pub flags: u8,
}

pub(crate) const NO_STRIPE: u32 = u32::MAX;

#[derive(Clone)]
pub(crate) struct Ring {
    /// By slot.
    entries: IdVec<u32, Entry>,
    mask: u64,
    /// Entries that producers may never occupy, so that this many durable ones stay in memory.
    back: u32,
    pub mem: u64,
    pub subm: u64,
    pub sync: u64,
    pub readable: u64,
    pub l2p_update: u64,
    /// Entries before this position are to be written even in padded units.
    pub flush_point: u64,
    /// Behind the last entry inserted by a user.
    pub last_user: u64,
}

impl Ring {
    pub fn new(size: u32, back: u32) -> Ring {
        debug_assert!(size.is_power_of_two() && back < size);
        Ring {
            entries: IdVec::filled(Entry::default(), size),
            mask: u64::from(size) - 1,
            back,
            mem: 0,
            subm: 0,
            sync: 0,
            readable: 0,
            l2p_update: 0,
            flush_point: 0,
            last_user: 0,
        }
    }
    pub fn size(&self) -> u32 {
        self.entries.count()
    }
    /// Entries that can be on their way to flash at a time.
    pub fn usable(&self) -> u32 {
        self.size() - self.back
    }
    #[inline]
    pub fn slot(&self, pos: u64) -> u32 {
        (pos & self.mask) as u32
    }
    #[inline]
    pub fn at(&self, pos: u64) -> &Entry {
        &self.entries[self.slot(pos)]
    }
    #[inline]
    pub fn at_mut(&mut self, pos: u64) -> &mut Entry {
        let slot = self.slot(pos);
        &mut self.entries[slot]
    }
    #[inline]
    pub fn in_slot(&self, slot: u32) -> &Entry {
        &self.entries[slot]
    }
    /// Entries not durable.
    #[inline]
    pub fn held(&self) -> u32 {
        (self.mem - self.sync) as u32
    }
    /// Entries that may be inserted now.
    #[inline]
    pub fn room(&self) -> u32 {
        (self.usable() - self.held()).min(self.size() - (self.mem - self.readable) as u32)
    }
    /// Entries waiting for the write thread.
    #[inline]
    pub fn ready(&self) -> u32 {
        (self.mem - self.subm) as u32
    }
    /// The slot at `mem` still holds an entry whose mapping points to the buffer.
    #[inline]
    pub fn must_switch(&self) -> bool {
        self.mem - self.l2p_update == self.entries.len() as u64
    }
    /// Every entry before this position that is still here is programmed.
    pub fn is_durable(&self, point: u64) -> bool {
        (self.l2p_update..point).all(|pos| self.at(pos).flags & DONE != 0)
    }
    pub fn in_order(&self) -> bool {
        self.l2p_update <= self.readable
            && self.readable <= self.sync
            && self.sync <= self.subm
            && self.subm <= self.mem
            && self.flush_point <= self.mem
            && self.last_user <= self.mem
            && self.mem - self.sync <= u64::from(self.usable())
            && self.mem - self.l2p_update <= self.entries.len() as u64
    }
}
