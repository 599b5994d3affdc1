//! CloudPhysics' traces as libCacheSim ships them as text (data/cloudPhysicsIO.csv and .txt there).
//!
//! CSV with a header: `version,time,op,size,lbn`. Made of a vscsi trace: the op is a SCSI opcode in
//! **hexadecimal**, size in **bytes**, LBN in 512 B **sectors**, but time in whole **seconds**,
//! which Tencent's way spreads.
//!
//! The other text is a list of LBNs, one a line. It states neither time nor length nor direction:
//! all requests come at once, of a sector each unless told otherwise, and read unless told
//! otherwise.

use crate::request::Stamp;
use crate::sink::Sink;
use crate::summary::Reason;
use crate::text::{Fault, PS_PER_S, columns, words};
use crate::vscsi::{deliver, is_version, opcode};

const COLUMNS: &str = "version,time,op,size,lbn";

pub(crate) fn line(line: &[u8], sink: &mut Sink) -> Result<(), Fault> {
    let [version, time, op, size, lbn] = columns(line, COLUMNS, true)?;
    if version.text.eq_ignore_ascii_case(b"version") {
        sink.drop(Reason::Header);
        return Ok(());
    }
    is_version(version)?;
    let at = Stamp { ns: time.time(PS_PER_S, "time")?, column: time.column as u64 };
    deliver(at, opcode(op)?, size.number("size")?, lbn.number("lbn")?, sink);
    Ok(())
}

pub(crate) fn address(line: &[u8], sink: &mut Sink) -> Result<(), Fault> {
    let mut words = words(line);
    let lbn = words.next().ok_or_else(|| Fault::new(0, "a blank line"))?;
    if let Some(extra) = words.next() {
        return Err(extra.fault("more than one column; a list of addresses has one"));
    }
    let offset = u128::from(lbn.number("lbn")?) * sink.unit;
    let op = sink.direction();
    let len = sink.length.unwrap_or(512);
    if sink.push(Stamp { ns: 0, column: 0 }, op, 0, offset, len.into()) {
        sink.note(Reason::NoDirection);
        sink.note(Reason::NoTime);
    }
    Ok(())
}
