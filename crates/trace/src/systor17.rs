//! SYSTOR '17 virtual desktop traces (SNIA IOTTA 4928, README).
//!
//! CSV with a header: `Timestamp,Response,IOType,LUN,Offset,Size`. Time in seconds since 1970 with
//! nine decimals, of which the last three mean nothing; R, W or **blank** when no reply was seen,
//! which is counted and gives no request; offset and size in bytes; LUN 0, 1, 2, 3, 4 or 6. The
//! response time is not a replay's business and not read. Files are one hour of one LUN, named in
//! Japanese local time; concatenated files repeat the header.

use crate::alibaba::{read_or_write, volume_u32};
use crate::request::Stamp;
use crate::sink::Sink;
use crate::summary::Reason;
use crate::text::{Fault, PS_PER_S, columns};

const COLUMNS: &str = "Timestamp,Response,IOType,LUN,Offset,Size";

pub(crate) fn line(line: &[u8], sink: &mut Sink) -> Result<(), Fault> {
    let [timestamp, _response, kind, lun, offset, size] = columns(line, COLUMNS, true)?;
    if timestamp.text.eq_ignore_ascii_case(b"timestamp") {
        sink.drop(Reason::Header);
        return Ok(());
    }
    let volume = lun.number("LUN")?;
    if !sink.wants_number(volume) {
        return Ok(());
    }
    let volume = volume_u32(lun, volume)?;
    let at = Stamp { ns: timestamp.time(PS_PER_S, "timestamp")?, column: timestamp.column as u64 };
    if kind.text.is_empty() {
        sink.drop(Reason::NoType);
        return Ok(());
    }
    let op = read_or_write(kind, "IOType")?;
    let offset = offset.number("offset")?;
    let size = size.number("size")?;
    sink.push(at, op, volume, offset.into(), size.into());
    Ok(())
}
