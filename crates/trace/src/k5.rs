//! Fujitsu K5 cloud storage traces of 2018 (README of the SNIA IOTTA set).
//!
//! CSV: `ID,Timestamp,Type,Offset,Length`. Time in seconds, to the microsecond, since the first
//! request of the whole data set; type R or W; offset and length in bytes. An ID is one volume
//! within one of the three parts of the data set only.

use crate::alibaba::{read_or_write, volume_u32};
use crate::request::Stamp;
use crate::sink::Sink;
use crate::summary::Reason;
use crate::text::{Fault, PS_PER_S, columns};

const COLUMNS: &str = "ID,Timestamp,Type,Offset,Length";

pub(crate) fn line(line: &[u8], sink: &mut Sink) -> Result<(), Fault> {
    let [id, timestamp, kind, offset, length] = columns(line, COLUMNS, true)?;
    if id.text.eq_ignore_ascii_case(b"ID") {
        sink.drop(Reason::Header);
        return Ok(());
    }
    let volume = id.number("ID")?;
    if !sink.wants_number(volume) {
        return Ok(());
    }
    let volume = volume_u32(id, volume)?;
    let at = Stamp { ns: timestamp.time(PS_PER_S, "timestamp")?, column: timestamp.column as u64 };
    let op = read_or_write(kind, "type")?;
    let offset = offset.number("offset")?;
    let length = length.number("length")?;
    sink.push(at, op, volume, offset.into(), length.into());
    Ok(())
}
