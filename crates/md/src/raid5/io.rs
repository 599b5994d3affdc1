//! What goes into the stripe cache, and what comes out of it.

use wordline_base::IoClass;

/// What keeps parity right over a power cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Guards {
    /// Bytes of a member that a bit of the write-intent bitmap is for.
    pub bitmap: Option<u64>,
    /// Bytes of the journal.
    pub journal: Option<u64>,
}

/// What a member is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Member {
    /// All that it holds is as it should be.
    InSync,
    /// It is lost.
    Failed,
    /// Pages before this one are in sync.
    Rebuilding(u64),
}

/// Whom an I/O is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum To {
    /// A member, by its place in the array.
    Member(u32),
    /// The journal.
    Journal,
}

/// What an I/O does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A page that a bio reads.
    Read,
    /// A page for the new parity of a write.
    Preread,
    /// A page from which another one is rebuilt.
    Others,
    /// A page of data or parity.
    Write,
    /// A row of a member.
    Trim,
    /// A stripe for the journal.
    Log,
    /// The bitmap's page.
    Bitmap,
}

impl What {
    /// It brings data from a member.
    pub fn reads(self) -> bool {
        matches!(self, What::Read | What::Preread | What::Others)
    }
}

/// An I/O to a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Io {
    /// Given back with its end.
    pub id: u32,
    /// Who does it.
    pub to: To,
    /// What it does.
    pub what: What,
    /// The first byte on the member.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
    /// It is on the medium when it ends.
    pub fua: bool,
    /// Class of the bio that it is for.
    pub class: IoClass,
    /// The stripe that it is for.
    pub stripe: u32,
}

/// What the array wants done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Out {
    /// An I/O to a member or the journal.
    Io(Io),
    /// A page of a bio is over.
    Ended {
        /// The bio of the page.
        bio: u32,
        /// It succeeded.
        ok: bool,
    },
    /// Who found no stripe, or an overlap, may look again.
    Room,
    /// A row has been rebuilt or looked at.
    Synced,
    /// The member is whole.
    Rebuilt {
        /// Its place in the array.
        member: u32,
    },
    /// A write to the member failed: it is out.
    Lost {
        /// Its place in the array.
        member: u32,
    },
}

/// A page of a bio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageOf {
    /// The bio's number.
    pub bio: u32,
    /// Within a page of the array.
    pub byte: u64,
    /// Bytes, all in the page.
    pub len: u32,
    /// It is written, and not read.
    pub write: bool,
    /// It is to be on the medium when the bio ends.
    pub fua: bool,
    /// The bio's class.
    pub class: IoClass,
}

/// What became of a page that was added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Added {
    /// To this stripe, which is held until [`super::Raid5::release`].
    To(u32),
    /// No stripe is free: wait for [`Out::Room`].
    NoStripe,
    /// A write to the same bytes is under way: wait for [`Out::Room`].
    Overlap,
}

/// The work of a pass over a stripe, for who pays: pages copied and pages added to a sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pass {
    /// Pages copied.
    pub copied: u64,
    /// Pages added to a sum.
    pub summed: u64,
}

wordline_base::counters! {
    /// What an array with parity did.
    #[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize)]
    pub struct Stats {
        /// Pages of reads that were added to stripes.
        pages_read,
        /// Pages of writes that were added to stripes.
        pages_written,
        /// Writes of stripes all of whose data are new.
        full_writes,
        /// Writes of stripes by read-modify-write.
        rmw_writes,
        /// Writes of stripes by reconstruct-write.
        rcw_writes,
        /// Pages read for parity.
        prereads,
        /// Pages of data written.
        data_writes,
        /// Pages of parity written.
        parity_writes,
        /// Reads served from pages that were there.
        cache_hits,
        /// Pages of a failed member rebuilt from the others for a read.
        degraded_reads,
        /// Pages of a member that makes room rebuilt from the others for a read.
        around_reads,
        /// Pages that could not be read rebuilt from the others.
        repaired_reads,
        /// Pages that rebuilding a member wrote.
        rebuilt_pages,
        /// Rows looked at after an unclean stop.
        resynced_rows,
        /// Wrong parities found there.
        mismatches,
        /// Pages added to sums.
        xor_pages,
        /// Pages copied.
        copied_pages,
        /// Passes over stripes.
        handled,
        /// Pages that waited for a stripe.
        stripe_waits,
        /// Pages that waited for an overlapping write.
        overlap_waits,
        /// Stripes that waited while others read.
        delayed,
        /// Stripes that waited for a bit of the bitmap.
        bitmap_waits,
        /// Writes of the bitmap.
        bitmap_writes,
        /// Stripes written to the journal.
        log_writes,
        /// Pages written to the journal, its metadata among them.
        log_pages,
        /// Bios that trim.
        trims,
        /// Bios that trim less than a row of chunks, which does nothing.
        short_trims,
        /// Rows trimmed.
        trimmed_rows,
        /// Pages of bios that failed.
        failed_pages,
    }
}
