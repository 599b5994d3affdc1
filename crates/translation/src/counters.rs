//! What the FTL counts. Sectors are of 4 KiB; differences of two snapshots make a time series.

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
        /// Read by users from flash, ...
        read_flash,
        /// ... from the buffer, ...
        read_buffer,
        /// ... and where nothing is mapped.
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
        /// Lines made free, ...
        lines_freed,
        /// ... of them without moving anything.
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
        /// Reads of the collector that failed: of data, ...
        gc_read_errors,
        /// ... and of sector lists.
        meta_read_errors,
        /// Blocks that are used no more.
        blocks_retired,
        /// Lines that are used no more.
        lines_retired,
        /// Sectors whose only copy could not be read.
        lost_sectors,
        /// Writes refused because no space can be made any more, or because the map would have passed the
        /// limit of the host's memory, ...
        writes_refused,
        /// ... and the latter of them.
        writes_refused_memory,
        /// Runs read from the rest of their stride because their LUN was busy, ...
        rebuilt_reads,
        /// ... their sectors, ...
        rebuilt_sectors,
        /// ... and the sectors read for that.
        member_sectors,
        /// Sectors added to parity sums, written or rebuilt.
        xor_sectors,
        /// Runs read from a busy LUN because they were cold data, ...
        waits_cold,
        /// ... had no parity (a bad block, metadata), ...
        waits_no_parity,
        /// ... or a write error, ...
        waits_write_error,
        /// ... had one neighbour only, ...
        waits_one_neighbour,
        /// ... had neighbours that were busy, ...
        waits_busy,
        /// ... the same while writes were not throttled, ...
        waits_unthrottled,
        /// ... had more sectors than a request takes, ...
        waits_too_long,
        /// ... and because a sector to rebuild from could not be read.
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
        /// Moved from superblocks that were written with a bit a cell to others, ...
        folded_sectors,
        /// ... and those superblocks.
        lines_folded,
        /// Of a map that memory holds a part of: pages that commands of users found there, ...
        map_hits,
        /// ... those that they did not find, ...
        map_misses,
        /// ... those that gave way, ...
        map_evictions,
        /// ... of them those that had changed, ...
        map_dirty_evictions,
        /// ... pages read from flash, ...
        map_read_sectors,
        /// ... and pages written to it, moved ones too.
        map_sectors,
    }
}

impl Counters {
    /// Write amplification: sectors programmed per sector written by users, all causes.
    pub fn waf(&self) -> f64 {
        ratio(self.programmed_sectors, self.user_sectors)
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
