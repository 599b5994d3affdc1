//! MSR Cambridge traces of 2007 (README of the SNIA IOTTA set; Narayanan et al., FAST '08).
//!
//! CSV without header: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`. Time is a
//! Windows file time: units of **100 ns** since 1601. Type Read or Write in any case, in
//! copies also R or W; offset and size in bytes.
//! The response time is not a replay's business and not read. Times are
//! not strictly sorted. Volumes are named `host_disk`, as the files are.

use crate::request::Stamp;
use crate::sink::Sink;
use crate::summary::Reason;
use crate::text::{Fault, columns, show};
use wordline_base::Ddir;

const COLUMNS: &str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";
const TICK_PS: u64 = 100_000;

pub(crate) fn line(line: &[u8], sink: &mut Sink) -> Result<(), Fault> {
    let [timestamp, host, disk, kind, offset, size, _response] = columns(line, COLUMNS, true)?;
    if timestamp.text.eq_ignore_ascii_case(b"timestamp") {
        sink.drop(Reason::Header);
        return Ok(());
    }
    let number = disk.number("disk number")?;
    let name = || format!("{}_{number}", show(host.text));
    if sink.is_filtered() && !sink.wants_name(&[&name(), &number.to_string()]) {
        return Ok(());
    }
    let at = Stamp { ns: timestamp.time(TICK_PS, "timestamp")?, column: timestamp.column as u64 };
    let op = direction(kind.text)
        .ok_or_else(|| kind.fault(format!("type is neither Read nor Write: '{}'", kind.show())))?;
    let offset = offset.number("offset")?;
    let size = size.number("size")?;
    // Host and disk stand side by side: one key for the two.
    let key = &line[host.column - 1..disk.column - 1 + disk.text.len()];
    let volume = sink.volume(key, name).map_err(|e| host.fault(e.to_string()))?;
    sink.push(at, op, volume, offset.into(), size.into());
    Ok(())
}

pub(crate) fn direction(kind: &[u8]) -> Option<Ddir> {
    match kind {
        b"Read" | b"R" | b"r" => Some(Ddir::Read),
        b"Write" | b"W" | b"w" => Some(Ddir::Write),
        _ if kind.eq_ignore_ascii_case(b"read") => Some(Ddir::Read),
        _ if kind.eq_ignore_ascii_case(b"write") => Some(Ddir::Write),
        _ => None,
    }
}
