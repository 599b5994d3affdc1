//! Alibaba Cloud block traces of 2020 (github.com/alibaba/block-traces, README).
//!
//! CSV: `device_id,opcode,offset,length,timestamp`. Opcode R or W, offset and length in bytes, time
//! in **microseconds** since 1970. The published file has no header; copies with one are read.
//! 751 GB of 1,000 devices: stream it and choose devices by the volume filter, which looks at the
//! first column only and does not check the rest of a line it skips.

use crate::request::Stamp;
use crate::sink::Sink;
use crate::summary::Reason;
use crate::text::{Fault, columns};
use wordline_base::Ddir;

const COLUMNS: &str = "device_id,opcode,offset,length,timestamp";

pub(crate) fn line(line: &[u8], sink: &mut Sink) -> Result<(), Fault> {
    let [device, opcode, offset, length, timestamp] = columns(line, COLUMNS, true)?;
    if device.text.eq_ignore_ascii_case(b"device_id") {
        sink.drop(Reason::Header);
        return Ok(());
    }
    let volume = device.number("device_id")?;
    if !sink.wants_number(volume) {
        return Ok(());
    }
    let volume = volume_u32(device, volume)?;
    let op = read_or_write(opcode, "opcode")?;
    let offset = offset.number("offset")?;
    let length = length.number("length")?;
    let at = Stamp { ns: timestamp.time(1_000_000, "timestamp")?, column: timestamp.column as u64 };
    sink.push(at, op, volume, offset.into(), length.into());
    Ok(())
}

/// R or W in either case, shared by the formats that write it so.
pub(crate) fn read_or_write(field: crate::text::Field<'_>, what: &str) -> Result<Ddir, Fault> {
    match field.text {
        b"R" | b"r" => Ok(Ddir::Read),
        b"W" | b"w" => Ok(Ddir::Write),
        _ => Err(field.fault(format!("{what} is neither R nor W: '{}'", field.show()))),
    }
}

pub(crate) fn volume_u32(field: crate::text::Field<'_>, volume: u64) -> Result<u32, Fault> {
    u32::try_from(volume)
        .map_err(|_| field.fault(format!("volume number does not fit 32 bits: '{volume}'")))
}
