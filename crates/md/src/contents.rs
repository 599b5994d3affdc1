//! What pages hold, in place of data: a number for each 512 bytes, made of their place in the array and
//! of the write that they come from. The numbers add up by XOR as the data would.

use std::collections::BTreeMap;

/// Parts of a page that can be written by themselves.
pub const PARTS: usize = 8;

/// The parts of a page.
pub type Page = [u64; PARTS];

/// What 512 bytes of the array hold after a write with this number; 0 is nothing.
pub fn content(part: u64, write: u32) -> u64 {
    if write == 0 {
        return 0;
    }
    let mut x =
        part.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(write) << 32 ^ u64::from(write);
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    (x ^ x >> 31).max(1)
}

/// Adds a page to a sum.
pub fn add(sum: &mut Page, page: &Page) {
    sum.iter_mut().zip(page).for_each(|(sum, part)| *sum ^= part);
}

const BLOCK: u64 = 64;

/// Pages by number; those never written hold nothing and take no memory.
#[derive(Clone, Debug, Default)]
pub struct Pages(BTreeMap<u64, Box<[Page; BLOCK as usize]>>);

impl Pages {
    /// What a page holds.
    pub fn get(&self, page: u64) -> Page {
        self.0.get(&(page / BLOCK)).map_or([0; PARTS], |block| block[(page % BLOCK) as usize])
    }
    /// A page to be written.
    pub fn at(&mut self, page: u64) -> &mut Page {
        let block =
            self.0.entry(page / BLOCK).or_insert_with(|| Box::new([[0; PARTS]; BLOCK as usize]));
        &mut block[(page % BLOCK) as usize]
    }
    /// Pages that may hold something.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.keys().flat_map(|block| block * BLOCK..(block + 1) * BLOCK)
    }
    /// Bytes that this takes.
    pub fn memory(&self) -> u64 {
        self.0.len() as u64 * (size_of::<[Page; BLOCK as usize]>() as u64 + 16)
    }
}
