//! FIU traces (READMEs of the SNIA IOTTA sets; Koller and Rangaswami, FAST '10).
//!
//! Words: `ts pid process lba blocks W|R major minor md5…`. Time in nanoseconds, address and size
//! in 512 B blocks; the digest is of 4 KiB of content, in the home traces of 512 B. A process name
//! can hold blanks, so the columns are found from the R or W that two numbers follow. Digests are
//! not read: content is not modelled.

use crate::alibaba::read_or_write;
use crate::request::Stamp;
use crate::sink::Sink;
use crate::spc::BLOCK;
use crate::text::{Fault, Field, words};

const COLUMNS: &str = "ts pid process lba blocks W|R major minor md5";
/// More words than any process name has: the rest are digests.
const MAX_WORDS: usize = 64;

pub(crate) fn line(line: &[u8], sink: &mut Sink) -> Result<(), Fault> {
    let mut fields = [Field { text: &[], column: 0 }; MAX_WORDS];
    let mut n = 0;
    for (slot, word) in fields.iter_mut().zip(words(line)) {
        *slot = word;
        n += 1;
    }
    let fields = &fields[..n];
    if n < 8 {
        let message = format!("{n} columns where at least 8 are due: {COLUMNS}");
        return Err(Fault::new(line.len() + 1, message));
    }
    let digits = |f: &Field<'_>| f.text.iter().all(u8::is_ascii_digit);
    let at_op = (5..n - 2).find(|&i| {
        matches!(fields[i].text, b"R" | b"W" | b"r" | b"w")
            && digits(&fields[i + 1])
            && digits(&fields[i + 2])
    });
    // Where none is, the usual column is named in the error.
    let at_op = at_op.unwrap_or(5);
    let op = read_or_write(fields[at_op], "operation")?;
    let (major, minor) = (fields[at_op + 1], fields[at_op + 2]);
    let (major, minor) = (major.number("major")?, minor.number("minor")?);
    let name = || format!("{major},{minor}");
    if sink.is_filtered() && !sink.wants_name(&[&name()]) {
        return Ok(());
    }
    let at = Stamp { ns: fields[0].number("timestamp")?, column: fields[0].column as u64 };
    let lba = fields[at_op - 2].number("lba")?;
    let blocks = fields[at_op - 1].number("size")?;
    let mut key = [0; 16];
    key[..8].copy_from_slice(&major.to_le_bytes());
    key[8..].copy_from_slice(&minor.to_le_bytes());
    let volume = sink.volume(&key, name).map_err(|e| fields[at_op + 1].fault(e.to_string()))?;
    sink.push(at, op, volume, u128::from(lba) * BLOCK, u128::from(blocks) * BLOCK);
    Ok(())
}
