//! What a run of sectors holds, as one number.

use crate::Place;
use wordline_base::contents;
use wordline_nand::Ppa;

/// The digest of a run of sectors: of what was expected, and of what an FTL takes to be on flash. Beside the
/// exact part stands what pages would hold of them ([`wordline_base::Contents`]).
#[derive(Clone, Copy, Debug)]
pub struct Digest {
    exact: u64,
    held: u32,
}

impl Default for Digest {
    fn default() -> Digest {
        Digest::new()
    }
}

impl Digest {
    /// The digest of no sector.
    pub fn new() -> Digest {
        Digest { exact: 0x5EED, held: 0 }
    }
    /// The next sector of the run, and the version of it.
    #[inline]
    pub fn add(&mut self, lpn: u32, stamp: u32) {
        let word = u64::from(lpn) << 32 | u64::from(stamp);
        self.exact = (self.exact ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        self.held = contents::fold(self.held, contents::tag(lpn, stamp));
    }
    /// The number that it comes to.
    pub fn get(self) -> u64 {
        self.exact >> 32 ^ self.exact & 0xFFFF_FFFF | u64::from(self.held) << 32
    }
    /// The digest of a run of which flash has returned `held`.
    pub fn returned(digest: u64, held: u32) -> u64 {
        digest & 0xFFFF_FFFF | u64::from(held) << 32
    }
    /// What flash has to return for a run of this digest.
    pub fn held(digest: u64) -> u32 {
        (digest >> 32) as u32
    }
    /// The place of a run on flash that must have this digest.
    pub fn place(self, ppa: u32) -> Place {
        Place::Flash { ppa: Ppa(ppa), expected: self.get() }
    }
}
