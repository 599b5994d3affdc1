//! SPC trace files, as the UMass repository's Financial and WebSearch (SPC Trace File Format
//! Specification 1.0.1).
//!
//! CSV: `ASU,LBA,Size,Opcode,Timestamp` and then optional columns, which are not read. Blanks
//! around fields are allowed. The block size of LBA is given by a trace's description, not by the
//! format: for the UMass traces 512 B, which is taken unless told otherwise. Size in **bytes**,
//! opcode R or W in either case, time in seconds since the start. The ASU is the volume; each ASU's
//! addresses start at zero.

use crate::alibaba::{read_or_write, volume_u32};
use crate::request::Stamp;
use crate::sink::Sink;
use crate::summary::Reason;
use crate::text::{Fault, PS_PER_S, columns};

const COLUMNS: &str = "ASU,LBA,Size,Opcode,Timestamp";
pub(crate) const BLOCK: u128 = 512;

pub(crate) fn line(line: &[u8], sink: &mut Sink) -> Result<(), Fault> {
    let [asu, lba, size, opcode, timestamp] = columns(line, COLUMNS, false)?;
    if asu.text.eq_ignore_ascii_case(b"ASU") {
        sink.drop(Reason::Header);
        return Ok(());
    }
    let volume = asu.number("ASU")?;
    if !sink.wants_number(volume) {
        return Ok(());
    }
    let volume = volume_u32(asu, volume)?;
    let lba = lba.number("LBA")?;
    let size = size.number("size")?;
    let op = read_or_write(opcode, "opcode")?;
    let at = Stamp { ns: timestamp.time(PS_PER_S, "timestamp")?, column: timestamp.column as u64 };
    sink.push(at, op, volume, u128::from(lba) * sink.unit, size.into());
    Ok(())
}
