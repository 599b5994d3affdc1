//! fio's I/O logs (HOWTO, "Trace file format v2" and "v3"; iolog.c; measured with fio 3.33).
//!
//! Version 2: `fio version 2 iolog`, then `FILE add|open|close` and `FILE
//! read|write|trim|sync|datasync|wait OFFSET LENGTH`. Offsets and lengths in bytes. There are no
//! times but `wait`, whose time is in the offset column. **HOWTO and program differ**: HOWTO says
//! microseconds after the previous wait; fio 3.33 sleeps until that many *milliseconds* after the
//! start (two waits of 2000 took 2.2 s, and read_iolog_get says so). The document is the default,
//! [`crate::IologWait`] chooses. HOWTO discards waits below 100 µs; a simulator can keep them.
//! Requests between two waits share one time: such a log wants a closed loop.
//!
//! Version 3: `fio version 3 iolog`, every line begins with **microseconds** since the start of the
//! run, and `wait` is ignored. Its lengths fit 32 bits. File names cannot hold blanks in either.
//!
//! Version 1 (`rw, offset, length`) is refused, as fio has since 1.20.

use crate::options::IologWait;
use crate::request::{Request, Stamp};
use crate::sink::Sink;
use crate::summary::Reason;
use crate::text::{Fault, Field, words};
use std::collections::BTreeMap;
use std::io::{self, Write};
use wordline_base::Ddir;

/// PATH_MAX of Linux; fio itself reads 256 bytes.
const MAX_NAME: usize = 4096;

pub(crate) struct Parser {
    version: Option<u8>,
    wait: IologWait,
    /// Time of the last wait, in nanoseconds (version 2).
    waited: u64,
    waits: bool,
}

impl Parser {
    pub fn new(wait: IologWait) -> Parser {
        Parser { version: None, wait, waited: 0, waits: false }
    }

    pub fn line(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Fault> {
        match self.version {
            None => self.header(line, sink),
            Some(version) => self.entry(version, line, sink),
        }
    }

    fn header(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Fault> {
        self.version = match line.trim_ascii() {
            b"fio version 2 iolog" => Some(2),
            b"fio version 3 iolog" => Some(3),
            other if other.starts_with(b"fio version ") => {
                return Err(Fault::new(
                    13,
                    "only versions 2 and 3 of fio's log are read: record it \
                                           again with fio 1.17 or newer",
                ));
            }
            _ => {
                return Err(Fault::new(
                    1,
                    "a fio log begins with 'fio version 2 iolog' or 'fio \
                                          version 3 iolog'; version 1, without this line, is not \
                                          read",
                ));
            }
        };
        sink.drop(Reason::Header);
        Ok(())
    }

    fn entry(&mut self, version: u8, line: &[u8], sink: &mut Sink) -> Result<(), Fault> {
        let mut fields = [Field { text: &[], column: 0 }; 6];
        let mut n = 0;
        for (slot, word) in fields.iter_mut().zip(words(line)) {
            *slot = word;
            n += 1;
        }
        let lead = usize::from(version == 3);
        let time = fields[0];
        let (file, action) = (fields[lead], fields[lead + 1]);
        let (offset, length) = (fields[lead + 2], fields[lead + 3]);
        let is_file_action = matches!(action.text, b"add" | b"open" | b"close");
        let due = lead + if is_file_action { 2 } else { 4 };
        let may_be_bare = version == 3 && action.text == b"wait";
        if n != due && !may_be_bare {
            let lead = if version == 3 { "TIME " } else { "" };
            let message = format!(
                "{n} columns where {due} are due: {lead}FILE add|open|close, or {lead}FILE ACTION \
                 OFFSET LENGTH (file names cannot hold blanks)"
            );
            return Err(Fault::new(fields[n.saturating_sub(1)].column, message));
        }
        if file.text.len() > MAX_NAME {
            return Err(file.fault(format!("a file name of more than {MAX_NAME} bytes")));
        }
        let mut at = Stamp { ns: self.waited, column: 0 };
        if version == 3 {
            at = Stamp { ns: time.time(1_000_000, "time")?, column: time.column as u64 };
        }
        if action.text == b"wait" {
            if version == 3 {
                sink.drop(Reason::WaitIgnored);
                return Ok(());
            }
            self.waits = true;
            let until = match self.wait {
                IologWait::Micros => offset.time(1_000_000, "wait")?.checked_add(self.waited),
                IologWait::MillisFromStart => {
                    Some(offset.time(1_000_000_000, "wait")?.max(self.waited))
                }
            };
            length.number("length")?;
            self.waited = until
                .ok_or_else(|| offset.fault("the waits are beyond 584 years of nanoseconds"))?;
            sink.drop(Reason::Wait);
            return Ok(());
        }
        let name = || String::from_utf8_lossy(file.text).into_owned();
        if sink.is_filtered() && !sink.wants_name(&[&name()]) {
            return Ok(());
        }
        let op = match action.text {
            b"read" => Ddir::Read,
            b"write" => Ddir::Write,
            b"trim" => Ddir::Trim,
            b"sync" => Ddir::Sync,
            b"datasync" => Ddir::DataSync,
            b"sync_file_range" => {
                sink.drop(Reason::SyncFileRange);
                return Ok(());
            }
            _ if is_file_action => {
                sink.volume(file.text, name).map_err(|e| file.fault(e.to_string()))?;
                sink.drop(Reason::FileAction);
                return Ok(());
            }
            _ => {
                return Err(action.fault(format!(
                    "unknown action '{}': fio writes add, open, close, read, write, trim, sync, \
                     datasync, wait",
                    action.show()
                )));
            }
        };
        let volume = sink.volume(file.text, name).map_err(|e| file.fault(e.to_string()))?;
        let offset = offset.number("offset")?;
        let length = length.number("length")?;
        if version == 2 && !self.waits {
            sink.note(Reason::Untimed);
        }
        if op.is_sync() {
            sink.push_sync(at, op, volume);
        } else {
            sink.push(at, op, volume, offset.into(), length.into());
        }
        Ok(())
    }
}

/// Writes a fio log of version 3. Times are cut to microseconds, which is what the format holds.
pub struct IologWriter<W: Write> {
    out: W,
    /// Names of the volumes that were added, in order.
    open: Vec<String>,
    /// The place there of each volume.
    places: BTreeMap<u32, usize>,
    last_us: u64,
}

impl<W: Write> IologWriter<W> {
    /// Begins a log; its first line says version 3.
    pub fn new(mut out: W) -> io::Result<IologWriter<W>> {
        writeln!(out, "fio version 3 iolog")?;
        Ok(IologWriter { out, open: Vec::new(), places: BTreeMap::new(), last_us: 0 })
    }

    /// Writes a request on the file or device `name`, which is added and opened the first time. A
    /// volume keeps the name it came with first.
    pub fn write(&mut self, request: &Request, name: &str) -> io::Result<()> {
        let us = request.at.0 / 1_000;
        let known = match self.places.get(&request.volume) {
            Some(&known) => known,
            None => {
                if name.is_empty() || name.len() > 255 || name.contains(char::is_whitespace) {
                    let message = format!(
                        "'{name}' cannot name a file in a fio log: fio reads up to 255 bytes \
                         without blanks"
                    );
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
                }
                writeln!(self.out, "{us} {name} add\n{us} {name} open")?;
                self.open.push(name.to_owned());
                self.places.insert(request.volume, self.open.len() - 1);
                self.open.len() - 1
            }
        };
        let file = &self.open[known];
        let (op, offset, len) = (request.op.name(), request.offset, request.len);
        writeln!(self.out, "{us} {file} {op} {offset} {len}")?;
        self.last_us = us;
        Ok(())
    }

    /// Hands on what is buffered.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Closes the files and gives the writer back.
    pub fn finish(mut self) -> io::Result<W> {
        for file in &self.open {
            writeln!(self.out, "{} {file} close", self.last_us)?;
        }
        self.out.flush()?;
        Ok(self.out)
    }
}
