//! pblk: the FTL on the host above an open-channel drive. A bio-based block device, so bios are
//! not merged before it, nor scheduled unless `bio_scheduler` asks for it.
//!
//! - A read is translated by the submitting thread. Sectors in the write buffer are copied there;
//!   the others become vector reads, which the driver takes as one request.
//! - A write is copied into the buffer by the submitting thread and ends there, unless the buffer
//!   or the rate limiter holds it back, or it must be durable.
//! - Programs, erases and the FTL's own reads are issued by one kernel thread on a core of its own,
//!   in the order the FTL asked for them. Linux has a writer and several garbage-collection
//!   threads; one keeps the order that the FTL relies on.
//! - A read whose LUN is busy goes to the other LUNs of its stride, one vector command each here
//!   and one request with all addresses in Linux, which is what it costs; a read that failed is
//!   followed by these from the interrupt handler.
//! - Completions enter the FTL from the interrupt handler.
//!
//! The costs are those of `FtlConfig::cost`.

use crate::stats::PblkStats;
use std::collections::VecDeque;
use wordline_ftl::config::FtlCost;
use wordline_ftl::{Action, Ftl, Piece};

pub(crate) struct Pblk {
    pub ftl: Ftl,
    pub cost: FtlCost,
    /// Sectors of a write unit, what a program command carries.
    pub unit_sectors: u32,
    /// The kernel thread, and what it has still to issue.
    pub thread: u32,
    pub actions: VecDeque<Action>,
    /// Reads to repair one that failed, while they are issued.
    pub repairs: Vec<Piece>,
    pub stats: PblkStats,
}
