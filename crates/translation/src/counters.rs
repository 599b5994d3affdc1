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
        /// Metadata at the start of lines, and at their end. A line is what an FTL erases together.
        smeta_sectors,
        emeta_sectors,
        parity_sectors,
        /// Written again because a program failed.
        resubmitted_sectors,
        /// Sectors of all units programmed, whatever they hold.
        programmed_sectors,
        trimmed_sectors,
        /// Overwritten or trimmed in the buffer before they were written in place.
        absorbed_sectors,
        /// Read by users from flash, from the buffer, and where nothing is mapped.
        read_flash,
        read_buffer,
        read_unmapped,
        /// Read by the collector: data, and the sector lists of victims.
        gc_read_sectors,
        meta_read_sectors,
        /// Read by the collector but overwritten before they could be moved.
        gc_stale_sectors,
        flushes,
        /// Flushes and FUA writes that had to wait.
        flushes_waited,
        erases,
        /// Erases that had to be waited for when a line was opened.
        erases_sync,
        lines_opened,
        lines_freed,
        /// ... of them without moving anything.
        lines_freed_empty,
        /// Lines moved to even out wear.
        lines_levelled,
        /// Metadata units written without data beside them.
        emeta_forced,
        /// Units padded to let the collector end when users waited for it.
        drains,
        program_errors,
        erase_errors,
        gc_read_errors,
        meta_read_errors,
        blocks_retired,
        lines_retired,
        /// Sectors whose only copy could not be read.
        lost_sectors,
        /// Writes refused because no space can be made any more.
        writes_refused,
        /// Runs read from the rest of their stride because their LUN was busy, their sectors, and the
        /// sectors read for that.
        rebuilt_reads,
        rebuilt_sectors,
        member_sectors,
        /// Sectors added to parity sums, written or rebuilt.
        xor_sectors,
        /// Runs read from a busy LUN, by what stood in the way of rebuilding: cold data, no parity (bad
        /// block, metadata), a write error, one neighbour, neighbours busy, the same while writes are
        /// not throttled, and more sectors than a request takes.
        waits_cold,
        waits_no_parity,
        waits_write_error,
        waits_one_neighbour,
        waits_busy,
        waits_unthrottled,
        waits_too_long,
        /// ... and because a sector to rebuild from could not be read.
        waits_rebuild_error,
        /// Flash reads of users that failed.
        read_errors,
        /// Of them, those repaired from their stride.
        repaired_reads,
        /// Reads of the collector repaired from their stride.
        gc_repaired_reads,
        /// Runs to rebuild from that lay behind a program or an erase themselves.
        members_busy,
        /// Rebuilds that failed.
        rebuild_errors,
        parity_errors,
        /// Sectors of the collector written to hot lines because there was no cold one.
        hot_gc_sectors,
        /// Moved from superblocks that were written with a bit a cell to others, and those superblocks.
        folded_sectors,
        lines_folded,
        /// Pages of a map that memory holds a part of: those that commands of users found there and did not, those
        /// that gave way, of them those that had changed, pages read from flash, and pages written to it, moved ones too.
        map_hits,
        map_misses,
        map_evictions,
        map_dirty_evictions,
        map_read_sectors,
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
