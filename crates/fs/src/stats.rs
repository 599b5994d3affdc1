//! What the file system counts.

wordline_base::counters! {
    /// What a file system did.
    #[derive(Clone, PartialEq, Eq, Default, Debug)]
    pub struct FsStats {
        /// Pages of file reads found in the cache.
        hits,
        /// Pages of file reads that the drive was asked for.
        misses,
        /// Pages brought in beyond what was asked for.
        read_ahead,
        /// Pages made dirty by the application.
        dirtied,
        /// Clean pages given up to make room.
        reclaimed,
        /// Blocks of files written in their place.
        data_blocks,
        /// Descriptor and revoke blocks written to the journal.
        descriptor_blocks,
        /// Blocks of metadata written to the journal, and of data with `data = "journal"`.
        journal_blocks,
        /// Commit blocks written to the journal.
        commit_blocks,
        /// Metadata written in their place.
        checkpoint_blocks,
        /// Writes of a superblock: the file system's or its journal's.
        super_blocks,
        /// XFS: blocks of in-core log buffers written.
        log_blocks,
        /// Blocks of files read.
        data_read,
        /// Blocks of metadata read.
        metadata_read,
        /// Flushes sent to the drive.
        flushes,
        /// Writes sent with FUA.
        fua_writes,
        /// Transactions of jbd2 committed, or checkpoints of the XFS log.
        commits,
        /// Operations that waited for room in the log.
        log_waits,
        /// Calls that waited for the lock on a file or directory.
        lock_waits,
        /// Writers that waited for write-back, over dirty_ratio.
        throttled,
        /// Extents of files allocated.
        allocations,
        /// Unwritten extents, or parts of them, that became written.
        conversions,
        /// Blocks that got zeros beside a write, lest an unwritten extent be split (ext4). `data_blocks` has
        /// them too.
        zeroed_blocks,
        /// Files created.
        creates,
        /// Files removed.
        unlinks,
        /// Calls of fsync and fdatasync.
        syncs,
    }
}
