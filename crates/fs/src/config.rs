//! What a file system is made of, in the words of mkfs, mount and sysctl.

use serde::{Deserialize, Serialize};
use wordline_base::{BadValue, Span};

/// The file system on a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FsKind {
    /// ext4 with jbd2.
    Ext4,
    /// XFS with its delayed log.
    Xfs,
    /// No file system: the block device itself, through its page cache (fs/block_dev.c).
    Bdev,
}

/// When a read changes the inode's access time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Atime {
    /// Never.
    Noatime,
    /// If it is not after the time of the last change (mount's default since Linux 2.6.30).
    Relatime,
    /// Always.
    Strictatime,
}

/// ext4's `data=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataMode {
    /// Data of a transaction are on the drive before its commit block.
    Ordered,
    /// Metadata alone, in no order with data.
    Writeback,
    /// Data go through the journal too.
    Journal,
}

/// `[stack.fs]`: the file system of a host and its page cache.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FsConfig {
    /// Which one it is.
    pub kind: FsKind,
    /// Bytes of memory for cached pages, file data and metadata together.
    pub memory: u64,
    /// vm.dirty_ratio: percent of `memory` above which writers wait.
    pub dirty_ratio: u32,
    /// vm.dirty_background_ratio: percent of `memory` above which the flusher writes.
    pub dirty_background_ratio: u32,
    /// vm.dirty_expire_centisecs: how old dirty data are when the periodic flusher writes them.
    pub dirty_expire: Span,
    /// vm.dirty_writeback_centisecs: how often it looks.
    pub dirty_writeback: Span,
    /// Largest read-ahead window in bytes (read_ahead_kb); 0 reads page by page.
    pub read_ahead: u32,
    /// When reads change an inode.
    pub atime: Atime,
    /// Resolution of time stamps: a change in the same step does not touch the inode (1 / HZ).
    pub time_granularity: Span,
    /// Flush and FUA around commits. mount -o nobarrier leaves them out.
    pub barrier: bool,
    /// No metadata in memory at the start, as after a mount; otherwise what the layout of the
    /// files left there.
    pub cold: bool,
    /// Settings of ext4.
    pub ext4: Ext4Config,
    /// Settings of XFS.
    pub xfs: XfsConfig,
    /// Processor time.
    pub cost: FsCost,
}

/// Settings of mke2fs and mount for ext4.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ext4Config {
    /// How data and the journal go together.
    pub data: DataMode,
    /// mount -o commit=: age at which the running transaction is committed.
    pub commit: Span,
    /// mount -o journal_async_commit: the commit block does not wait for the blocks before it.
    pub journal_async_commit: bool,
    /// Blocks are chosen at write-back, not at the write call.
    pub delalloc: bool,
    /// mount -o dioread_nolock: blocks are unwritten until the pages that go there are on the drive, and direct
    /// writes over written blocks leave the file's lock to others.
    pub dioread_nolock: bool,
    /// Blocks of the journal; 0 is what mke2fs chooses for the size of the drive.
    pub journal_blocks: u32,
    /// Blocks of a block group (mke2fs -g).
    pub blocks_per_group: u32,
    /// Bytes of the drive for each inode (mke2fs -i).
    pub bytes_per_inode: u32,
    /// Bytes of an inode (mke2fs -I).
    pub inode_size: u32,
    /// Block groups whose bitmaps and inode tables lie together (mke2fs -G).
    pub flex_groups: u32,
    /// mb_group_prealloc: blocks that small files of a core take theirs from; 0 is none.
    pub group_prealloc: u32,
    /// mb_stream_req: a file of more blocks has a preallocation of its own.
    pub stream_request: u32,
    /// extent_max_zeroout_kb in bytes: a piece of an unwritten extent beside a write that is not longer gets zeros;
    /// 0 splits the extent always.
    pub extent_max_zeroout: u32,
}

/// Settings of mkfs.xfs and mount for XFS.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XfsConfig {
    /// mkfs.xfs -d agcount=: allocation groups.
    pub ag_count: u32,
    /// mkfs.xfs -i size=: bytes of an inode.
    pub inode_size: u32,
    /// Blocks of the log; 0 is what mkfs.xfs chooses for the size of the drive.
    pub log_blocks: u32,
    /// mount -o logbufs=: in-core log buffers.
    pub log_buffers: u32,
    /// mount -o logbsize=: bytes of an in-core log buffer.
    pub log_buffer_bytes: u32,
    /// fs.xfs.xfssyncd_centisecs: the log worker's interval.
    pub sync: Span,
    /// Size of the in-memory commit that is written without being asked for, in bytes; 0 is an
    /// eighth of the log.
    pub cil_limit: u32,
}

/// Processor time of the steps of a file operation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FsCost {
    /// VFS part of a call beyond the system call. Not for direct reads and writes: they cost `cost.syscall`.
    pub call: Span,
    /// Look-up of one page in the cache.
    pub page: Span,
    /// A page allocated, inserted, put on its list.
    pub page_add: Span,
    /// Copying 4 KiB between the application and a page.
    pub copy: Span,
    /// Block or extent look-up.
    pub map: Span,
    /// Choosing blocks, per extent.
    pub allocate: Span,
    /// Path look-up of open, stat and unlink.
    pub path: Span,
    /// Searching or changing one directory block.
    pub directory: Span,
    /// A new inode: search, initialisation, security.
    pub inode: Span,
    /// Start and stop of a handle or transaction.
    pub handle: Span,
    /// One metadata block or log item joined to it.
    pub join: Span,
    /// The committing thread, per metadata block or item.
    pub commit: Span,
    /// Write-back of one page: lock, tag, bio entry.
    pub write_back: Span,
}

impl FsConfig {
    /// What cannot be, with its key.
    pub fn check(&self) -> Result<(), BadValue> {
        let bad = |key, why: &str| Err(BadValue::new(key, why));
        if self.memory < 1 << 20 {
            return bad("memory", "must be at least 1 MiB");
        }
        if self.memory > 1 << 44 {
            return bad("memory", "must be at most 16 TiB");
        }
        if !(1..=100).contains(&self.dirty_ratio) {
            return bad("dirty_ratio", "must be 1 to 100 percent");
        }
        if self.dirty_background_ratio > self.dirty_ratio {
            return bad("dirty_background_ratio", "must not be above dirty_ratio");
        }
        if self.dirty_writeback == Span::ZERO {
            return bad("dirty_writeback", "must be above 0");
        }
        if self.time_granularity == Span::ZERO {
            return bad("time_granularity", "must be above 0");
        }
        if !self.read_ahead.is_multiple_of(4096) {
            return bad("read_ahead", "must be a multiple of 4096 bytes");
        }
        let e = &self.ext4;
        if e.commit == Span::ZERO {
            return bad("ext4.commit", "must be above 0");
        }
        if e.dioread_nolock && e.data == DataMode::Journal {
            return bad("ext4.dioread_nolock", "does not go with data = \"journal\", as in ext4");
        }
        if e.journal_blocks != 0 && e.journal_blocks < 1024 {
            return bad("ext4.journal_blocks", "must be 0 or at least 1024, as jbd2 has it");
        }
        if !(1024..=32_768).contains(&e.blocks_per_group) || !e.blocks_per_group.is_multiple_of(8) {
            return bad("ext4.blocks_per_group", "must be a multiple of 8, 1024 to 32768");
        }
        if !e.inode_size.is_power_of_two() || !(128..=4096).contains(&e.inode_size) {
            return bad("ext4.inode_size", "must be a power of two, 128 to 4096");
        }
        if e.bytes_per_inode < 4096 {
            return bad("ext4.bytes_per_inode", "must be at least 4096");
        }
        if !e.flex_groups.is_power_of_two() || e.flex_groups > 1 << 16 {
            return bad("ext4.flex_groups", "must be a power of two up to 65536");
        }
        if e.group_prealloc > e.blocks_per_group / 4 {
            return bad("ext4.group_prealloc", "must be at most a quarter of a group");
        }
        if !e.extent_max_zeroout.is_multiple_of(4096) {
            return bad("ext4.extent_max_zeroout", "must be a multiple of 4096 bytes");
        }
        let x = &self.xfs;
        if !(1..=1024).contains(&x.ag_count) {
            return bad("xfs.ag_count", "must be 1 to 1024");
        }
        if !x.inode_size.is_power_of_two() || !(256..=2048).contains(&x.inode_size) {
            return bad("xfs.inode_size", "must be a power of two, 256 to 2048");
        }
        if !(2..=8).contains(&x.log_buffers) {
            return bad("xfs.log_buffers", "must be 2 to 8");
        }
        if !x.log_buffer_bytes.is_power_of_two()
            || !(16 << 10..=256 << 10).contains(&x.log_buffer_bytes)
        {
            return bad("xfs.log_buffer_bytes", "must be a power of two, 16 to 256 KiB");
        }
        if x.log_blocks != 0 && x.log_blocks < 512 {
            return bad("xfs.log_blocks", "must be 0 or at least 512");
        }
        if x.sync == Span::ZERO {
            return bad("xfs.sync", "must be above 0");
        }
        Ok(())
    }
}
