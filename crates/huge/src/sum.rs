//! A checksum of large blocks, on all cores.

use crate::threads::{at_once, threads};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use twox_hash::XxHash3_64;

/// A thread takes so many bytes at a time.
const BLOCK: usize = 1 << 20;
/// Less is done sooner than a thread begins.
const ALONE: usize = 8 << 20;

/// XXH3 of the XXH3 of each block of 1 MiB.
pub fn checksum(bytes: &[u8]) -> u64 {
    let blocks: Vec<_> = bytes.chunks(BLOCK).collect();
    let sums: Vec<_> = blocks.iter().map(|_| AtomicU64::new(0)).collect();
    let next = AtomicUsize::new(0);
    let work = |_| {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(block) = blocks.get(i) else { break };
            sums[i].store(XxHash3_64::oneshot(block), Ordering::Relaxed);
        }
    };
    at_once(if bytes.len() < ALONE { 1 } else { threads() }, work);
    let sums = sums.into_iter().flat_map(|sum| sum.into_inner().to_le_bytes());
    XxHash3_64::oneshot(&sums.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_the_length_count() {
        let mut bytes: Vec<u8> = (0..ALONE + 5).map(|i| (i * 7 + i / 251) as u8).collect();
        let sum = checksum(&bytes);
        assert_eq!(sum, checksum(&bytes));
        for at in [0, BLOCK - 1, BLOCK, ALONE / 2, ALONE, ALONE + 4] {
            bytes[at] ^= 1;
            assert_ne!(sum, checksum(&bytes), "byte {at}");
            bytes[at] ^= 1;
        }
        assert_ne!(sum, checksum(&bytes[..ALONE + 4]));
        assert_ne!(checksum(&[0; 4]), checksum(&[0; 5]));
        assert_ne!(checksum(&[]), checksum(&[0]));
    }
}
