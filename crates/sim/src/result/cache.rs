//! What a drive's cache did.

use serde::Serialize;

/// What the drive's cache did, in sectors but for evictions.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CacheUse {
    /// Sectors of reads that were there.
    pub read_hits: u64,
    /// Sectors of reads that were on their way already, for another command or ahead.
    pub read_joins: u64,
    /// Sectors of reads that were not.
    pub read_misses: u64,
    /// Sectors fetched ahead.
    pub read_ahead: u64,
    /// Sectors fetched ahead that were read before they were evicted.
    pub read_ahead_used: u64,
    /// Lines given up for others.
    pub evictions: u64,
    /// Sectors written to the FTL.
    pub write_backs: u64,
    /// By partition, where the cache is split or its read-ahead adapts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<CachePartitionUse>,
}

impl CacheUse {
    pub(super) fn add(&mut self, o: &CacheUse) {
        self.read_hits += o.read_hits;
        self.read_joins += o.read_joins;
        self.read_misses += o.read_misses;
        self.read_ahead += o.read_ahead;
        self.read_ahead_used += o.read_ahead_used;
        self.evictions += o.evictions;
        self.write_backs += o.write_backs;
        // Ways of different caches are nothing to add up: each drive's are its own.
        self.partitions.clear();
    }
}

/// What commands of a partition of the drive's cache did, in sectors but for lines.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CachePartitionUse {
    /// `latency` or `throughput`.
    pub name: String,
    /// Sectors read that were there.
    pub read_hits: u64,
    /// Sectors read that were on their way already, for another command or ahead.
    pub read_joins: u64,
    /// Sectors read that came from flash.
    pub read_misses: u64,
    /// Sectors written into the cache.
    pub writes: u64,
    /// Writes of a sector that was dirty.
    pub overwrites: u64,
    /// Sectors read ahead.
    pub read_ahead: u64,
    /// Sectors read ahead that a command asked for later.
    pub read_ahead_used: u64,
    /// Sectors read ahead that were replaced, written or trimmed before anybody asked.
    pub read_ahead_useless: u64,
    /// Lines replaced.
    pub evictions: u64,
    /// Sectors written to the FTL.
    pub write_backs: u64,
    /// Waits for a line to be written back.
    pub write_stalls: u64,
    /// Lines at the end.
    pub lines: u64,
    /// Ways of each set that are its own, at the end.
    pub ways: u32,
    /// From when on it had so many.
    pub ways_over_time: Vec<WaysFrom>,
    /// From when on so many sectors were kept ahead of a stream; where ghosts choose.
    pub read_ahead_over_time: Vec<ReadAheadFrom>,
}

/// A change of a partition's ways.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct WaysFrom {
    /// Nanoseconds since the start.
    pub at_ns: u64,
    /// Ways from then on.
    pub ways: u32,
}

/// A change of how far reads go ahead.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct ReadAheadFrom {
    /// Nanoseconds since the start.
    pub at_ns: u64,
    /// Sectors ahead of a stream from then on.
    pub sectors: u32,
}
