//! VMware's vscsi traces, binary and printed (trace_v1_record_t and trace_v2_record_t, as in
//! libCacheSim's and CloudPhysics' readers).
//!
//! Little-endian records without a header. Version 1 has 32 bytes: u32 serial number, u32 length,
//! u32 number of scatter-gather elements, u16 SCSI opcode, u16 version, u64 LBN, u64 time. Version
//! 2 has 40: u16 opcode, u16 version, u32 serial number, u32 length, u32 elements, u64 LBN, u64
//! time, u64 response time. The version is the **high byte** of its field. Length in **bytes**, LBN
//! in 512 B **sectors**, time in microseconds since the host started. A file is one virtual disk.
//!
//! Printed, a record is `version time opcode length LBN [response]`, the opcode in **hexadecimal**.
//!
//! The opcode is the operation. UNMAP, WRITE SAME and their like have their ranges in data that are
//! not in the trace: they are counted and give no request.

use crate::error::RecordError;
use crate::records::{Layout, u16_at, u32_at, u64_at};
use crate::request::Stamp;
use crate::sink::Sink;
use crate::spc::BLOCK;
use crate::summary::Reason;
use crate::text::{Fault, Field, words};
use wordline_base::Ddir;

const US_PS: u64 = 1_000_000;

/// What a SCSI command of this opcode asks of a disk.
pub(crate) fn deliver(at: Stamp, opcode: u64, len: u64, lbn: u64, sink: &mut Sink) {
    let op = match opcode {
        0x08 | 0x28 | 0x88 | 0xA8 => Ddir::Read,
        0x0A | 0x2A | 0x8A | 0xAA => Ddir::Write,
        // WRITE AND VERIFY, COMPARE AND WRITE
        0x2E | 0x8E | 0xAE | 0x89 => Ddir::Write,
        0x35 | 0x91 => return sink.push_sync(at, Ddir::Sync, 0),
        _ => return sink.drop(Reason::OtherScsi),
    };
    let is_request = sink.push(at, op, 0, u128::from(lbn) * BLOCK, len.into());
    if is_request && matches!(opcode, 0x2E | 0x8E | 0xAE | 0x89) {
        sink.note(Reason::CheckedWrite);
    }
}

/// Which layout the first records have.
pub(crate) fn layout(head: &[u8]) -> Option<Layout> {
    let is = |layout: Layout| {
        let mut records = head.chunks_exact(layout.bytes()).take(LOOKED_AT).peekable();
        records.peek().is_some() && records.all(|r| fields(layout, r).is_ok())
    };
    [Layout::Vscsi1, Layout::Vscsi2].into_iter().find(|&l| is(l))
}

/// Records looked at to tell the layout.
pub(crate) const LOOKED_AT: usize = 64;

/// Opcode, length, LBN and time.
fn fields(layout: Layout, r: &[u8]) -> Result<[u64; 4], RecordError> {
    let (opcode, version, len, lbn, due) = match layout {
        Layout::Vscsi1 => (12, 14, 4, 16, 1),
        _ => (0, 2, 8, 16, 2),
    };
    let (opcode, version) = (u16_at(r, opcode), u16_at(r, version) >> 8);
    if version != due || opcode > 0xFF {
        return Err(RecordError::Vscsi { due, version, opcode });
    }
    Ok([opcode.into(), u32_at(r, len).into(), u64_at(r, lbn), u64_at(r, lbn + 8)])
}

pub(crate) fn record(
    layout: Layout,
    r: &[u8],
    byte: u64,
    sink: &mut Sink,
) -> Result<(), RecordError> {
    let [opcode, len, lbn, us] = fields(layout, r)?;
    let ns = us.checked_mul(1_000).ok_or(RecordError::Time { us })?;
    deliver(Stamp { ns, column: byte }, opcode, len, lbn, sink);
    Ok(())
}

pub(crate) const COLUMNS: &str = "version time opcode length lbn [response]";

/// A printed record.
pub(crate) fn line(line: &[u8], sink: &mut Sink) -> Result<(), Fault> {
    let mut words = words(line);
    let mut next = |i: usize| {
        words.next().ok_or_else(|| {
            let message = format!("{i} columns where 5 or 6 are due: {COLUMNS}");
            Fault::new(line.len() + 1, message)
        })
    };
    let (version, time, op, len, lbn) = (next(0)?, next(1)?, next(2)?, next(3)?, next(4)?);
    if let Some(extra) = words.nth(1) {
        return Err(extra.fault(format!("more than 6 columns; they are {COLUMNS}")));
    }
    is_version(version)?;
    let at = Stamp { ns: time.time(US_PS, "time")?, column: time.column as u64 };
    deliver(at, opcode(op)?, len.number("length")?, lbn.number("lbn")?, sink);
    Ok(())
}

pub(crate) fn is_version(field: Field<'_>) -> Result<(), Fault> {
    match field.text {
        b"1" | b"2" => Ok(()),
        _ => Err(field.fault(format!("version is neither 1 nor 2: '{}'", field.show()))),
    }
}

/// Two hexadecimal digits, as C's `%x` writes them.
pub(crate) fn opcode(field: Field<'_>) -> Result<u64, Fault> {
    let number = hexadecimal(field.text).and_then(|t| u64::from_str_radix(t, 16).ok());
    number.filter(|&n| n <= 0xFF).ok_or_else(|| {
        field.fault(format!("opcode is no hexadecimal number of two digits: '{}'", field.show()))
    })
}

fn hexadecimal(text: &[u8]) -> Option<&str> {
    let digits = text.strip_prefix(b"0x").unwrap_or(text);
    let is = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    std::str::from_utf8(digits).ok().filter(|_| is && digits.len() <= 4)
}

pub(crate) fn is_opcode(text: &[u8]) -> bool {
    hexadecimal(text).is_some_and(|t| t.len() <= 2)
}
