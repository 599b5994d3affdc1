//! What became of the lines of a trace.

use crate::Format;
use std::fmt;

macro_rules! reasons {
    ($($name:ident: $text:literal,)*) => {
        /// Why a line gave no request, or gave one with a remark.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        pub enum Reason { $(#[doc = $text] $name,)* }
        impl Reason {
            pub(crate) const ALL: &[Reason] = &[$(Reason::$name,)*];
            /// A few words for people.
            pub fn text(self) -> &'static str {
                match self { $(Reason::$name => $text,)* }
            }
        }
    };
}

reasons! {
    // Lines and records that give no request.
    Blank: "blank line",
    Header: "header line",
    SummaryText: "statistics printed by blkparse",
    OtherVolume: "other volume",
    ZeroLength: "zero length",
    TooLong: "length of 4 GiB or more",
    BeyondAll: "end beyond 2^64 bytes, which no drive has",
    NoType: "blank type (no reply was seen)",
    FileAction: "file add, open or close",
    Wait: "wait line",
    WaitIgnored: "wait line in a version 3 log (fio ignores it too)",
    SyncFileRange: "sync_file_range (no drive command)",
    Notify: "notify record (process name, message or clock)",
    Queued: "queued (Q) record",
    Issued: "issued (D) record",
    Completed: "completed (C) record",
    Merged: "merge (M, F) record",
    GotRequest: "request allocation (G, S) record",
    Requeued: "requeue (R) record",
    Inserted: "insertion (I) record",
    Plugged: "plug or unplug (P, U, T) record",
    Split: "split (X) record",
    Bounced: "bounce (B) record",
    Remapped: "remap (A) record",
    Message: "message (m) line",
    Aborted: "abort record",
    DriverData: "driver data record",
    UnknownAction: "record with an action unknown to blktrace version 8",
    Passthrough: "passthrough command",
    NoData: "neither data nor flush",
    OtherScsi: "SCSI command whose range is not in the trace, or that has none",
    Comment: "comment",
    Ignored: "operation left out by ignore=",
    ExtendedCommand: "zoned or other command that is not read, write, discard or flush",
    // Remarks on requests that were delivered.
    Late: "earlier than the reorder window reaches: replayed at the time reached",
    FuaAsWrite: "force-unit-access write, replayed as an ordinary write",
    BarrierAsWrite: "barrier write of an old kernel, replayed as an ordinary write",
    CheckedWrite: "compare-and-write or write-and-verify, replayed as an ordinary write",
    NoDirection: "without a direction in the trace: a read, or as --rwmixread says",
    NoTime: "without a time in the trace: all at its beginning (--closed-loop N fits better)",
    SecureErase: "secure erase, replayed as a trim",
    FlushAndData: "flush and data in one record, replayed as a sync and then the data",
    Failed: "completed with an error in the trace, replayed all the same",
    Untimed: "version 2 log without a time: shares that of the last wait (closed loop fits better)",
    CrowdedSecond: "second with more than 262,144 requests, spread over shrinking halves of it",
    NoNewline: "last line without a line feed: the trace may be cut short",
}

/// How often something happened, and on which line or record first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tally {
    /// What happened.
    pub reason: Reason,
    /// How often.
    pub count: u64,
    /// The first line or record, from one.
    pub first_line: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Tallies {
    slots: Vec<(u64, u64)>,
}

impl Tallies {
    pub fn new() -> Tallies {
        Tallies { slots: vec![(0, 0); Reason::ALL.len()] }
    }
    #[inline]
    pub fn add(&mut self, reason: Reason, line: u64) {
        let slot = &mut self.slots[reason as usize];
        if slot.0 == 0 {
            slot.1 = line;
        }
        slot.0 += 1;
    }
    pub fn list(&self) -> Vec<Tally> {
        let all = Reason::ALL.iter().zip(&self.slots);
        all.filter(|(_, s)| s.0 > 0)
            .map(|(&reason, &(count, first_line))| Tally { reason, count, first_line })
            .collect()
    }
}

/// What became of the lines (records, for binary traces) read so far. The reader looks ahead, so
/// while a trace is being read this runs in front of the requests delivered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// The format that it was read as.
    pub format: Format,
    /// Lines or records so far.
    pub lines: u64,
    /// Requests delivered.
    pub requests: u64,
    /// Lines that gave no request.
    pub dropped: Vec<Tally>,
    /// Remarks on requests that were delivered.
    pub noted: Vec<Tally>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = self.format.unit();
        write!(f, "{} {unit}s ({}), {} requests", self.lines, self.format.name(), self.requests)?;
        for (what, tallies) in [("dropped", &self.dropped), ("noted", &self.noted)] {
            for t in tallies {
                write!(
                    f,
                    "\n{what} {}: {}, first at {unit} {}",
                    t.count,
                    t.reason.text(),
                    t.first_line
                )?;
            }
        }
        Ok(())
    }
}
