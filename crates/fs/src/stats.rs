//! What the file system counts.

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct FsStats {
    /// Pages of file reads found in the cache, and not.
    pub hits: u64,
    pub misses: u64,
    /// Pages brought in beyond what was asked for.
    pub read_ahead: u64,
    /// Pages made dirty by the application.
    pub dirtied: u64,
    pub reclaimed: u64,
    /// Blocks written, by what they are.
    pub data_blocks: u64,
    /// Journal: descriptor and revoke blocks, metadata (or data, `data = "journal"`), commit blocks.
    pub descriptor_blocks: u64,
    pub journal_blocks: u64,
    pub commit_blocks: u64,
    /// Metadata written in their place.
    pub checkpoint_blocks: u64,
    pub super_blocks: u64,
    /// XFS: blocks of in-core log buffers written.
    pub log_blocks: u64,
    /// Blocks read.
    pub data_read: u64,
    pub metadata_read: u64,
    pub flushes: u64,
    pub fua_writes: u64,
    pub commits: u64,
    /// Operations that waited for room in the log.
    pub log_waits: u64,
    /// Writers that waited for write-back, over dirty_ratio.
    pub throttled: u64,
    pub allocations: u64,
    pub creates: u64,
    pub unlinks: u64,
    pub syncs: u64,
}

impl FsStats {
    /// Every counter with its name.
    pub fn list(&self) -> [(&'static str, u64); 23] {
        [
            ("hits", self.hits),
            ("misses", self.misses),
            ("read_ahead", self.read_ahead),
            ("dirtied", self.dirtied),
            ("reclaimed", self.reclaimed),
            ("data_blocks", self.data_blocks),
            ("descriptor_blocks", self.descriptor_blocks),
            ("journal_blocks", self.journal_blocks),
            ("commit_blocks", self.commit_blocks),
            ("checkpoint_blocks", self.checkpoint_blocks),
            ("super_blocks", self.super_blocks),
            ("log_blocks", self.log_blocks),
            ("data_read", self.data_read),
            ("metadata_read", self.metadata_read),
            ("flushes", self.flushes),
            ("fua_writes", self.fua_writes),
            ("commits", self.commits),
            ("log_waits", self.log_waits),
            ("throttled", self.throttled),
            ("allocations", self.allocations),
            ("creates", self.creates),
            ("unlinks", self.unlinks),
            ("syncs", self.syncs),
        ]
    }
}
