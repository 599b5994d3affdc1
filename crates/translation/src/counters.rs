//! What the FTL counts. Sectors are those of the drive; differences of two snapshots make a time series.

wordline_base::counters! {
    /// Everything that happened since the FTL was made, ageing included.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Counters {
        /// Inserted by users.
        user_sectors,
        /// Moved by the garbage collector.
        gc_sectors,
        /// Padding of units written for a flush, or to let the collector end; of a medium written in place,
        /// the rest of units written in part.
        pad_sectors,
        /// Metadata at the start of lines. A line is what an FTL erases together.
        smeta_sectors,
        /// Metadata at the end of lines.
        emeta_sectors,
        /// Parity of strides.
        parity_sectors,
        /// Written again because a program failed.
        resubmitted_sectors,
        /// Sectors of all units programmed, whatever they hold.
        programmed_sectors,
        /// Trimmed by users.
        trimmed_sectors,
        /// Overwritten or trimmed in the buffer before they were written in place.
        absorbed_sectors,
        /// Sectors read by users from flash.
        read_flash,
        /// Sectors read by users from the buffer.
        read_buffer,
        /// Sectors read by users where nothing is mapped.
        read_unmapped,
        /// Data read by the collector.
        gc_read_sectors,
        /// Sector lists of victims read by the collector.
        meta_read_sectors,
        /// Read by the collector but overwritten before they could be moved.
        gc_stale_sectors,
        /// Flushes that came.
        flushes,
        /// Flushes and FUA writes that had to wait.
        flushes_waited,
        /// Blocks erased.
        erases,
        /// Erases that had to be waited for when a line was opened.
        erases_sync,
        /// Lines opened to be written.
        lines_opened,
        /// Lines made free.
        lines_freed,
        /// Lines made free without moving anything.
        lines_freed_empty,
        /// Lines moved to even out wear.
        lines_levelled,
        /// Lines written anew because they were read often or had lain long.
        lines_refreshed,
        /// Metadata units written without data beside them.
        emeta_forced,
        /// Units padded to let the collector end when users waited for it.
        drains,
        /// Programs that failed.
        program_errors,
        /// Erasures that failed.
        erase_errors,
        /// Reads of data by the collector that failed.
        gc_read_errors,
        /// Reads of sector lists by the collector that failed.
        meta_read_errors,
        /// Blocks that are used no more.
        blocks_retired,
        /// Lines that are used no more.
        lines_retired,
        /// Sectors whose only copy could not be read.
        lost_sectors,
        /// Writes refused because no space can be made any more, or because the map would have passed the
        /// limit of the host's memory; and flushes of what no program takes for the first reason.
        writes_refused,
        /// Writes refused because the map would have passed the limit of the host's memory.
        writes_refused_memory,
        /// Runs read from the rest of their stride because their LUN was busy.
        rebuilt_reads,
        /// Sectors of runs read from the rest of their stride.
        rebuilt_sectors,
        /// Sectors read in order to rebuild others.
        member_sectors,
        /// Sectors added to parity sums, written or rebuilt.
        xor_sectors,
        /// Runs read from a busy LUN because they were cold data.
        waits_cold,
        /// Runs read from a busy LUN because they had no parity (a bad block, metadata).
        waits_no_parity,
        /// Runs read from a busy LUN because their line had a write error.
        waits_write_error,
        /// Runs read from a busy LUN because they had one neighbour only.
        waits_one_neighbour,
        /// Runs read from a busy LUN because their neighbours were busy too.
        waits_busy,
        /// The same while writes were not throttled.
        waits_unthrottled,
        /// Runs read from a busy LUN because they had more sectors than a request takes.
        waits_too_long,
        /// Runs read from a busy LUN because a sector to rebuild from could not be read.
        waits_rebuild_error,
        /// Flash reads of users that failed.
        read_errors,
        /// Those of them that were repaired from their stride.
        repaired_reads,
        /// Reads of the collector repaired from their stride.
        gc_repaired_reads,
        /// Runs to rebuild from that lay behind a program or an erase themselves.
        members_busy,
        /// Rebuilds that failed.
        rebuild_errors,
        /// Programs of parity that failed.
        parity_errors,
        /// Sectors of the collector written to hot lines because there was no cold one.
        hot_gc_sectors,
        /// Sectors moved from superblocks that were written with a bit a cell to others.
        folded_sectors,
        /// Superblocks written with a bit a cell whose sectors were moved to others.
        lines_folded,
        /// Pages of a map in part in memory that commands of users found there.
        map_hits,
        /// Pages of the map that commands of users did not find in memory.
        map_misses,
        /// Pages of the map that gave way to others.
        map_evictions,
        /// Pages of the map that gave way and had changed.
        map_dirty_evictions,
        /// Pages of the map read from flash.
        map_read_sectors,
        /// Pages of the map written to flash, moved ones too.
        map_sectors,
        /// Sectors of data that parity was summed over as it was written, padding included.
        covered_sectors,
        /// Those of them that users wrote.
        covered_user_sectors,
        /// Those of them that the collector moved.
        covered_gc_sectors,
    }
}

impl Counters {
    /// Write amplification: sectors programmed per sector written by users, all causes.
    pub fn waf(&self) -> f64 {
        ratio(self.programmed_sectors, self.user_sectors)
    }
    /// Sectors that the drive writes for those of users: what it moves, and pages of its map.
    pub fn moved(&self) -> u64 {
        self.gc_sectors + self.folded_sectors + self.map_sectors
    }
    /// Runs read from a busy LUN, whatever the cause.
    pub fn waits(&self) -> u64 {
        self.waits_cold
            + self.waits_no_parity
            + self.waits_write_error
            + self.waits_one_neighbour
            + self.waits_busy
            + self.waits_unthrottled
            + self.waits_too_long
            + self.waits_rebuild_error
    }
    /// Write amplification added by each cause.
    pub fn causes(&self) -> [(&'static str, f64); 8] {
        [
            ("gc", self.gc_sectors),
            ("fold", self.folded_sectors),
            ("map", self.map_sectors),
            ("pad", self.pad_sectors),
            ("smeta", self.smeta_sectors),
            ("emeta", self.emeta_sectors),
            ("parity", self.parity_sectors),
            ("resubmitted", self.resubmitted_sectors),
        ]
        .map(|(name, sectors)| (name, ratio(sectors, self.user_sectors)))
    }
}

fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}
