//! blktrace's binary files (include/uapi/linux/blktrace_api.h; blktrace.h of blktrace and of fio).
//!
//! A file a CPU, of records of 48 bytes in the byte order of the machine that recorded: u32 magic
//! 0x65617400 | version, u32 sequence, u64 time (ns), u64 sector (512 B), u32 bytes, u32 action,
//! u32 pid, u32 device (major << 20 | minor), u32 cpu, u16 error, u16 pdu_len, then pdu_len bytes
//! that depend on the action and are skipped. Version 7 is what kernels write by default; version 8
//! (blk_io_trace2, 2025) has 64 bytes: pid before a u64 action, and 12 bytes of padding.
//!
//! The low 16 bits of the action are the action, of which **bit 8 only says that the pdu begins
//! with a cgroup id**. Above are category bits: read 1, write 2, flush 4 (a barrier in old
//! kernels), sync 8, …, pc 1 << 9 (passthrough), notify 1 << 10, discard 1 << 13, driver data 1 <<
//! 14, fua 1 << 15, and in version 8 more for zoned commands. One action is replayed, since the
//! same I/O appears under several. Records of one CPU are nearly in order of time; files are merged
//! by time.

use crate::blkparse::Kind;
use crate::error::{Place, RecordError, TraceError, TraceFault};
use crate::input::read_error;
use crate::input::{Input, Whole, fill};
use crate::options::{Action, OpenOptions};
use crate::request::Stamp;
use crate::sink::Sink;
use crate::spc::BLOCK;
use crate::summary::Reason;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Read};
use wordline_base::Ddir;

const MAGIC: u32 = 0x6561_7400;
const CGROUP: u64 = 1 << 8;
const TC_WRITE: u64 = 1 << 1;
const TC_READ: u64 = 1;
const TC_FLUSH: u64 = 1 << 2;
const TC_PC: u64 = 1 << 9;
const TC_NOTIFY: u64 = 1 << 10;
const TC_DISCARD: u64 = 1 << 13;
const TC_DRV_DATA: u64 = 1 << 14;
const TC_FUA: u64 = 1 << 15;

/// Whether the bytes begin with a record's magic, in either byte order and of any version that is
/// no letter: `eat` can begin a text.
pub(crate) fn has_magic(head: &[u8]) -> bool {
    matches!(head, [0..=0x1F, 0x74, 0x61, 0x65, ..] | [0x65, 0x61, 0x74, 0..=0x1F, ..])
}

struct Record {
    time: u64,
    sector: u64,
    bytes: u32,
    action: u64,
    device: u32,
    error: u16,
    byte: u64,
}

/// One file.
struct Stream {
    /// The file.
    input: Whole,
    /// How messages call it.
    name: String,
    /// Bytes read.
    at: u64,
    /// Records read.
    records: u64,
    /// Its byte order, once a record has told it.
    big_endian: Option<bool>,
}

impl Stream {
    fn error(&self, fault: TraceFault, message: String) -> TraceError {
        let place = Place::Record { record: self.records + 1, byte: self.at };
        TraceError::new(&self.name, place, fault, message)
    }
    fn unread(&self, e: io::Error) -> TraceError {
        self.error(TraceFault::Unreadable, read_error(e))
    }
    fn malformed(&self, message: String) -> TraceError {
        self.error(TraceFault::Malformed, message)
    }

    fn read(&mut self, buf: &mut [u8]) -> Result<usize, TraceError> {
        fill(&mut self.input, buf).map_err(|e| self.unread(e))
    }

    fn next(&mut self) -> Result<Option<Record>, TraceError> {
        let mut raw = [0u8; 64];
        let n = self.read(&mut raw[..4])?;
        if n == 0 {
            return Ok(None);
        }
        let (low, high) = (
            u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]),
            u32::from_be_bytes([raw[0], raw[1], raw[2], raw[3]]),
        );
        let big = match self.big_endian {
            Some(big) => big,
            None => *self.big_endian.insert(high & !0xFF == MAGIC),
        };
        let magic = if big { high } else { low };
        if n == 4 && magic & !0xFF != MAGIC {
            return Err(self.malformed(format!(
                "no record begins here (0x{low:08x} where 0x{MAGIC:08x} is due): the file is \
                 damaged or no blktrace file"
            )));
        }
        let size = match magic & 0xFF {
            _ if n < 4 => 48,
            7 => 48,
            8 => 64,
            version => {
                return Err(self.malformed(format!(
                    "record version {version}; 7 and 8 are read: convert it with blkparse"
                )));
            }
        };
        let n = if n == 4 { 4 + self.read(&mut raw[4..size])? } else { n };
        if n < size {
            return Err(self.malformed(format!(
                "the record is cut short, {n} of {size} bytes: blktrace was stopped hard, or the \
                 copy is incomplete"
            )));
        }
        let u16_at = |i: usize| {
            let b = [raw[i], raw[i + 1]];
            if big { u16::from_be_bytes(b) } else { u16::from_le_bytes(b) }
        };
        let u32_at = |i: usize| {
            let b = [raw[i], raw[i + 1], raw[i + 2], raw[i + 3]];
            if big { u32::from_be_bytes(b) } else { u32::from_le_bytes(b) }
        };
        let u64_at = |i: usize| {
            let (a, b) = (u64::from(u32_at(i)), u64::from(u32_at(i + 4)));
            if big { a << 32 | b } else { b << 32 | a }
        };
        let (action, device, error, pdu) = if size == 48 {
            (u64::from(u32_at(28)), u32_at(36), u16_at(44), u16_at(46))
        } else {
            (u64_at(32), u32_at(40), u16_at(48), u16_at(50))
        };
        let record = Record {
            time: u64_at(8),
            sector: u64_at(16),
            bytes: u32_at(24),
            action,
            device,
            error,
            byte: self.at,
        };
        let pdu = u64::from(pdu);
        let skipped = io::copy(&mut (&mut self.input).take(pdu), &mut io::sink())
            .map_err(|e| self.unread(e))?;
        if skipped < pdu {
            return Err(self.malformed(format!(
                "the data after the record are cut short, {skipped} of {pdu} bytes"
            )));
        }
        self.at += size as u64 + pdu;
        self.records += 1;
        Ok(Some(record))
    }
}

/// The files of a recording, merged by time.
pub(crate) struct Records {
    streams: Vec<Stream>,
    heads: Vec<Option<Record>>,
    /// Time and stream of each head; ties go to the lower stream.
    order: BinaryHeap<Reverse<(u64, usize)>>,
    /// Streams whose next record must be read before the earliest is known.
    to_read: Vec<usize>,
    action: Action,
}

impl Records {
    pub fn new(inputs: Vec<(String, Input)>, options: &OpenOptions) -> Records {
        let stream = |(name, input): (String, Input)| Stream {
            input: input.into_bytes(),
            name,
            at: 0,
            records: 0,
            big_endian: None,
        };
        let streams: Vec<Stream> = inputs.into_iter().map(stream).collect();
        Records {
            heads: streams.iter().map(|_| None).collect(),
            order: BinaryHeap::new(),
            to_read: (0..streams.len()).collect(),
            streams,
            action: options.action,
        }
    }

    /// Takes one record; false at the end of all files.
    pub fn step(&mut self, sink: &mut Sink) -> Result<bool, TraceError> {
        while let Some(i) = self.to_read.pop() {
            self.heads[i] = self.streams[i].next()?;
            if let Some(record) = &self.heads[i] {
                self.order.push(Reverse((record.time, i)));
            }
        }
        let Some(Reverse((_, i))) = self.order.pop() else { return Ok(false) };
        let Some(record) = self.heads[i].take() else { return Ok(false) };
        self.to_read.push(i);
        sink.line += 1;
        self.take(&record, sink)
            .map_err(|message| {
                let place = Place::Record { record: sink.line, byte: record.byte };
                TraceError::new(&self.streams[i].name, place, TraceFault::Malformed, message)
            })
            .map(|()| true)
    }

    fn take(&self, record: &Record, sink: &mut Sink) -> Result<(), RecordError> {
        let category = record.action >> 16;
        if category & TC_NOTIFY != 0 {
            sink.drop(Reason::Notify);
            return Ok(());
        }
        if category & TC_DRV_DATA != 0 {
            sink.drop(Reason::DriverData);
            return Ok(());
        }
        let reason = match record.action & 0xFFFF & !CGROUP {
            1 => Reason::Queued,
            2 | 3 => Reason::Merged,
            4 | 5 => Reason::GotRequest,
            6 => Reason::Requeued,
            7 => Reason::Issued,
            8 => Reason::Completed,
            9..=11 => Reason::Plugged,
            12 => Reason::Inserted,
            13 => Reason::Split,
            14 => Reason::Bounced,
            15 => Reason::Remapped,
            16 => Reason::Aborted,
            17 => Reason::DriverData,
            _ => Reason::UnknownAction,
        };
        if reason != self.action.reason() {
            sink.drop(reason);
            return Ok(());
        }
        let name = || format!("{},{}", record.device >> 20, record.device & 0xF_FFFF);
        if sink.is_filtered() && !sink.wants_name(&[&name()]) {
            return Ok(());
        }
        if category & TC_PC != 0 {
            sink.drop(Reason::Passthrough);
            return Ok(());
        }
        let volume = sink.volume(&record.device.to_le_bytes(), name)?;
        if self.action == Action::Complete && record.error != 0 {
            sink.note(Reason::Failed);
        }
        let kind = Kind {
            flush: category & TC_FLUSH != 0,
            op: if category & TC_DISCARD != 0 {
                Some(Ddir::Trim)
            } else if category & TC_WRITE != 0 {
                Some(Ddir::Write)
            } else if category & TC_READ != 0 {
                Some(Ddir::Read)
            } else {
                None
            },
            fua: category & TC_FUA != 0,
            extended: category >> 16 != 0,
            ..Kind::default()
        };
        let at = Stamp { ns: record.time, column: record.byte };
        let offset = u128::from(record.sector) * BLOCK;
        kind.deliver(at, volume, offset, record.bytes.into(), sink);
        Ok(())
    }
}
