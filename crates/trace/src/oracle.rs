//! libCacheSim's oracleGeneral traces (oracleGeneralBin.h, and its FAQ).
//!
//! Little-endian records of 24 bytes without a header: u32 time, u64 object, u32 size, i64 next
//! access. Time in whole **seconds**, spread as Tencent's; size in **bytes**. The next access is
//! the number of the request that has the object next, -1 or 2^63-1 for none: not a replay's
//! business and not read, but it tells the format.
//!
//! **There is no direction**: every request is a read unless told otherwise. The object is an
//! address only if the trace was made of a block trace, and its unit is not in the file: 512 B
//! sectors, as of CloudPhysics', unless told otherwise.

use crate::error::RecordError;
use crate::records::{Layout, u32_at, u64_at};
use crate::request::Stamp;
use crate::sink::Sink;
use crate::summary::Reason;

/// No trace has more requests.
const MOST: i64 = 1 << 40;

/// Whether the first records are of that format.
pub(crate) fn matches(head: &[u8]) -> bool {
    let size = Layout::OracleGeneral.bytes();
    let plausible = |(i, r): (usize, &[u8])| {
        is_next(r) && u32_at(r, 12) < 1 << 30 && (i > 0 || u32_at(r, 12) > 0)
    };
    head.len() >= size && head.chunks_exact(size).enumerate().all(plausible)
}

fn next(r: &[u8]) -> i64 {
    u64_at(r, 16) as i64
}

fn is_next(r: &[u8]) -> bool {
    matches!(next(r), -1 | i64::MAX) || (1..MOST).contains(&next(r))
}

pub(crate) fn record(r: &[u8], byte: u64, sink: &mut Sink) -> Result<(), RecordError> {
    if !is_next(r) {
        return Err(RecordError::Oracle { next: next(r) });
    }
    let at = Stamp { ns: u64::from(u32_at(r, 0)) * 1_000_000_000, column: byte };
    let op = sink.direction();
    if sink.push(at, op, 0, u128::from(u64_at(r, 4)) * sink.unit, u32_at(r, 12).into()) {
        sink.note(Reason::NoDirection);
    }
    Ok(())
}
