//! What a run of sectors holds, as one number.

use crate::Place;
use wordline_nand::Ppa;

/// The digest of a run of sectors: of what was expected, and of what flash holds.
#[derive(Clone, Copy, Debug)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Digest {
        Digest::new()
    }
}

impl Digest {
    pub fn new() -> Digest {
        Digest(0x5EED)
    }
    /// The next sector of the run, and the version of it.
    #[inline]
    pub fn add(&mut self, lpn: u32, stamp: u32) {
        let word = u64::from(lpn) << 32 | u64::from(stamp);
        self.0 = (self.0 ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    }
    pub fn get(self) -> u64 {
        self.0
    }
    /// The place of a run on flash that must have this digest.
    pub fn place(self, ppa: u32) -> Place {
        Place::Flash { ppa: Ppa(ppa), expected: self.0 }
    }
}
