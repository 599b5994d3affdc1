//! Files and directories in memory: sizes, extents, the blocks of a directory.

use crate::extents::Extents;
use crate::lock::InodeLock;
use std::collections::BTreeMap;
use wordline_base::Time;

/// Blocks set aside for a file and not yet its own (ext4's inode preallocation, XFS' speculative one).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reserve {
    pub logical: u64,
    pub block: u64,
    pub len: u32,
}

pub type InodeId = u32;
pub type DirId = u32;

#[derive(Clone, Default, Debug)]
pub struct Inode {
    /// Bytes in memory.
    pub size: u64,
    /// What is being cut off: reads see the file end here (truncate_setsize comes first).
    pub cut_at: Option<u64>,
    /// Bytes as the newest transaction has it.
    pub disk_size: u64,
    /// Where its pages are on the drive.
    pub extents: Extents,
    /// Blocks set aside behind its last extent.
    pub reserve: Option<Reserve>,
    /// The metadata block it stands in.
    pub block: u64,
    /// The group that its blocks are looked for in.
    pub group: u32,
    /// When it was written, in steps of `time_granularity`; at first older than any.
    pub mtime: Option<u64>,
    /// When it was read, likewise.
    pub atime: Option<u64>,
    /// The transaction that last changed it.
    pub sync: u64,
    /// The transaction that fdatasync needs.
    pub datasync: u64,
    /// Since when it has dirty pages.
    pub dirtied: Option<Time>,
    /// Where the flusher goes on with it.
    pub write_from: u64,
    /// Write-backs of it that failed (errseq_t of its mapping).
    pub errors: u32,
    /// How many of these some call has told of.
    pub errors_told: u32,
    /// Open files of it that may write.
    pub writers: u32,
    /// Open files of it.
    pub open: u32,
    /// It is a directory.
    pub is_dir: bool,
    /// Allocations that changed its tree and have not joined the transaction yet: they hold
    /// i_data_sem (ext4), the ILOCK (XFS).
    pub mapping: u32,
    /// Who reads and writes it.
    pub lock: InodeLock,
    /// Blocks around a write get zeros under the same lock (ext4).
    pub zeroing: bool,
}

impl Inode {
    /// Its extents are being changed.
    pub fn is_mapping(&self) -> bool {
        self.mapping > 0 || self.zeroing
    }
    /// Where reads find its end.
    pub fn readable(&self) -> u64 {
        self.cut_at.map_or(self.size, |at| self.size.min(at))
    }
}

/// Room for entries in a directory block of 4096 bytes, after its header and checksum.
const LEAF_BYTES: u32 = 4096 - 12;

#[derive(Clone, Copy, Debug)]
pub struct Leaf {
    pub block: u64,
    pub used: u32,
}

/// A directory. ext4 keeps entries in leaves by hash (htree); XFS appends them to data blocks and
/// keeps leaves of hashes.
#[derive(Clone, Default, Debug)]
pub struct Dir {
    pub inode: u32,
    /// Leaves by the first hash they hold.
    pub leaves: BTreeMap<u32, Leaf>,
    /// Blocks of the index over the leaves, the root first.
    pub index: Vec<u64>,
    /// Data blocks (XFS).
    pub data: Vec<u64>,
    /// What the last of the data blocks holds (XFS).
    pub data_used: u32,
}

/// A directory entry: header of 8 bytes and the name, in units of 4 (struct ext4_dir_entry_2).
pub fn entry_bytes(name_len: u8) -> u32 {
    (8 + u32::from(name_len)).next_multiple_of(4)
}

impl Dir {
    /// The leaf that `hash` belongs in.
    pub fn leaf(&self, hash: u32) -> Option<(u32, Leaf)> {
        self.leaves.range(..=hash).next_back().map(|(&h, &l)| (h, l))
    }

    /// Whether an entry of `bytes` makes its leaf split in two.
    pub fn splits(&self, hash: u32, bytes: u32) -> bool {
        self.leaf(hash).is_none_or(|(_, l)| l.used + bytes > LEAF_BYTES)
    }

    /// Puts an entry in its leaf. `new` is the block for the upper half of a full one, or for the
    /// first.
    pub fn insert(&mut self, hash: u32, bytes: u32, new: Option<u64>) -> u64 {
        let Some((first, mut leaf)) = self.leaf(hash) else {
            let block = new.unwrap_or_default();
            self.leaves.insert(0, Leaf { block, used: bytes });
            return block;
        };
        let mut at = first;
        if let Some(block) = new {
            // Hashes are spread evenly: half of them lie in the upper half of the range.
            let end = self.leaves.range(first + 1..).next().map_or(1 << 32, |(&h, _)| u64::from(h));
            let middle = ((u64::from(first) + end) / 2) as u32;
            leaf.used /= 2;
            self.leaves.insert(first, leaf);
            let upper = Leaf { block, used: leaf.used };
            self.leaves.insert(middle, upper);
            if hash >= middle {
                (at, leaf) = (middle, upper);
            }
        }
        leaf.used += bytes;
        self.leaves.insert(at, leaf);
        leaf.block
    }

    pub fn remove(&mut self, hash: u32, bytes: u32) -> Option<u64> {
        let (first, mut leaf) = self.leaf(hash)?;
        leaf.used = leaf.used.saturating_sub(bytes);
        self.leaves.insert(first, leaf);
        Some(leaf.block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_split_in_the_middle_of_their_hashes() {
        let mut dir = Dir::default();
        let mut blocks = 1;
        let mut rng = 1u32;
        for _ in 0..10_000 {
            rng = rng.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let new = dir.splits(rng, 24).then(|| {
                blocks += 1;
                blocks
            });
            dir.insert(rng, 24, new);
        }
        // 240 kB of entries, leaves half to wholly full.
        let n = dir.leaves.len();
        assert!((59..=118).contains(&n), "{n} leaves");
        assert!(dir.leaves.values().all(|l| l.used <= LEAF_BYTES));
        assert_eq!(n as u64, blocks - 1);
    }
}
