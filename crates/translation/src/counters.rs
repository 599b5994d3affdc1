//! What the FTL counts. Sectors are of 4 KiB; differences of two snapshots make a time series.

/// Everything that happened since the FTL was made, ageing included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Inserted by users.
    pub user_sectors: u64,
    /// Moved by the garbage collector.
    pub gc_sectors: u64,
    /// Padding of units written for a flush, or to let the collector end; of a medium written in place,
    /// the rest of units written in part.
    pub pad_sectors: u64,
    /// Metadata at the start of lines, and at their end. A line is what an FTL erases together.
    pub smeta_sectors: u64,
    pub emeta_sectors: u64,
    pub parity_sectors: u64,
    /// Written again because a program failed.
    pub resubmitted_sectors: u64,
    /// Sectors of all units programmed, whatever they hold.
    pub programmed_sectors: u64,
    pub trimmed_sectors: u64,
    /// Overwritten or trimmed in the buffer before they were written in place.
    pub absorbed_sectors: u64,
    /// Read by users from flash, from the buffer, and where nothing is mapped.
    pub read_flash: u64,
    pub read_buffer: u64,
    pub read_unmapped: u64,
    /// Read by the collector: data, and the sector lists of victims.
    pub gc_read_sectors: u64,
    pub meta_read_sectors: u64,
    /// Read by the collector but overwritten before they could be moved.
    pub gc_stale_sectors: u64,
    pub flushes: u64,
    /// Flushes and FUA writes that had to wait.
    pub flushes_waited: u64,
    pub erases: u64,
    /// Erases that had to be waited for when a line was opened.
    pub erases_sync: u64,
    pub lines_opened: u64,
    pub lines_freed: u64,
    /// ... of them without moving anything.
    pub lines_freed_empty: u64,
    /// Lines moved to even out wear.
    pub lines_levelled: u64,
    /// Metadata units written without data beside them.
    pub emeta_forced: u64,
    /// Units padded to let the collector end when users waited for it.
    pub drains: u64,
    pub program_errors: u64,
    pub erase_errors: u64,
    pub gc_read_errors: u64,
    pub meta_read_errors: u64,
    pub blocks_retired: u64,
    pub lines_retired: u64,
    /// Sectors whose only copy could not be read.
    pub lost_sectors: u64,
    /// Writes refused because no space can be made any more.
    pub writes_refused: u64,
    /// Runs read from the rest of their stride because their LUN was busy, their sectors, and the
    /// sectors read for that.
    pub rebuilt_reads: u64,
    pub rebuilt_sectors: u64,
    pub member_sectors: u64,
    /// Sectors added to parity sums, written or rebuilt.
    pub xor_sectors: u64,
    /// Runs read from a busy LUN, by what stood in the way of rebuilding: cold data, no parity (bad
    /// block, metadata), a write error, one neighbour, neighbours busy, the same while writes are
    /// not throttled, and more sectors than a request takes.
    pub waits_cold: u64,
    pub waits_no_parity: u64,
    pub waits_write_error: u64,
    pub waits_one_neighbour: u64,
    pub waits_busy: u64,
    pub waits_unthrottled: u64,
    pub waits_too_long: u64,
    /// ... and because a sector to rebuild from could not be read.
    pub waits_rebuild_error: u64,
    /// Flash reads of users that failed.
    pub read_errors: u64,
    /// Of them, those repaired from their stride.
    pub repaired_reads: u64,
    /// Reads of the collector repaired from their stride.
    pub gc_repaired_reads: u64,
    /// Runs to rebuild from that lay behind a program or an erase themselves.
    pub members_busy: u64,
    /// Rebuilds that failed.
    pub rebuild_errors: u64,
    pub parity_errors: u64,
    /// Sectors of the collector written to hot lines because there was no cold one.
    pub hot_gc_sectors: u64,
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
    pub fn causes(&self) -> [(&'static str, f64); 6] {
        [
            ("gc", self.gc_sectors),
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
