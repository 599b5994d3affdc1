//! A request as a parser finds it and as the reader delivers it.

use serde::Serialize;
use wordline_base::{Ddir, Time};

/// One request of a trace. A sync has offset and length 0. Offsets and lengths are as in the trace,
/// aligned or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Request {
    /// From the first one on, or from the epoch, as the trace was opened ([`crate::TimeBase`]).
    #[serde(rename = "at_ns")]
    pub at: Time,
    /// What it does.
    pub op: Ddir,
    /// The number in the trace where volumes have numbers, else by first appearance:
    /// see [`crate::Reader::volumes`].
    pub volume: u32,
    /// Bytes.
    #[serde(rename = "offset_bytes")]
    pub offset: u64,
    /// Bytes.
    #[serde(rename = "len_bytes")]
    pub len: u32,
}

/// A request with its time in the trace, in nanoseconds since whatever the trace counts from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    /// Nanoseconds from the trace's zero.
    pub time: u64,
    /// Line or record.
    pub line: u64,
    /// Column of the time in text, byte offset of the record in binary.
    pub column: u64,
    /// Bytes.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
    /// The number of the volume.
    pub volume: u32,
    /// What it does.
    pub op: Ddir,
}

/// A time with the column it came from.
#[derive(Clone, Copy)]
pub(crate) struct Stamp {
    pub ns: u64,
    pub column: u64,
}
