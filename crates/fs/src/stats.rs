//! What the file system counts.

wordline_base::counters! {
    #[derive(Clone, PartialEq, Eq, Default, Debug)]
    pub struct FsStats {
        /// Pages of file reads found in the cache, and not.
        hits,
        misses,
        /// Pages brought in beyond what was asked for.
        read_ahead,
        /// Pages made dirty by the application.
        dirtied,
        reclaimed,
        /// Blocks written, by what they are.
        data_blocks,
        /// Journal: descriptor and revoke blocks, metadata (or data, `data = "journal"`), commit blocks.
        descriptor_blocks,
        journal_blocks,
        commit_blocks,
        /// Metadata written in their place.
        checkpoint_blocks,
        super_blocks,
        /// XFS: blocks of in-core log buffers written.
        log_blocks,
        /// Blocks read.
        data_read,
        metadata_read,
        flushes,
        fua_writes,
        commits,
        /// Operations that waited for room in the log.
        log_waits,
        /// Writers that waited for write-back, over dirty_ratio.
        throttled,
        allocations,
        creates,
        unlinks,
        syncs,
    }
}
