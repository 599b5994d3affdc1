//! blkparse's default text output (blkparse(1); blkparse_fmt.c).
//!
//! Every event begins `maj,min cpu sequence seconds.nanoseconds pid action rwbs`. Then, for Q, D
//! and C: `SECTOR + N [process]` with 512 B sectors; `[process]` alone without data (a flush);
//! `BYTES (cdb) [process]` for a passthrough command; C ends in `[error]` instead. Options of
//! blkparse can put `(elapsed)` before the bracket. The statistics after the events are recognised,
//! counted and not read. Times count from the start of the recording.
//!
//! One action only is replayed, since the same I/O appears under several. RWBS is a flush F in
//! front, then R, W, D (discard; DE: secure erase), N (none) or Z (zone command), then any of F
//! (FUA), A (readahead), S (sync), M (metadata), B (barrier, old kernels), U (atomic), E.

use crate::options::Action;
use crate::request::Stamp;
use crate::sink::Sink;
use crate::spc::BLOCK;
use crate::summary::Reason;
use crate::text::{Fault, Field, PS_PER_S, words};
use wordline_base::Ddir;

pub(crate) struct Parser {
    action: Action,
    /// In the statistics at the end.
    in_summary: bool,
}

/// What an I/O is, told by RWBS or by the category bits of a binary record.
#[derive(Clone, Copy, Default)]
pub(crate) struct Kind {
    pub flush: bool,
    /// None: neither read, write nor discard.
    pub op: Option<Ddir>,
    /// F behind the operation: force unit access.
    pub fua: bool,
    /// B: a barrier.
    pub barrier: bool,
    /// E: a secure erase.
    pub secure: bool,
    /// A command of another sort.
    pub extended: bool,
}

impl Kind {
    /// Makes of an I/O the requests it stands for.
    pub fn deliver(self, at: Stamp, volume: u32, offset: u128, len: u128, sink: &mut Sink) {
        if self.extended {
            return sink.drop(Reason::ExtendedCommand);
        }
        let op = match self.op {
            _ if len == 0 && self.flush => return sink.push_sync(at, Ddir::Sync, volume),
            _ if len == 0 => return sink.drop(Reason::NoData),
            None => return sink.drop(Reason::Passthrough),
            Some(op) => op,
        };
        if self.flush {
            // The block layer flushes first and sends the data then (blk-flush.c).
            sink.note(Reason::FlushAndData);
            sink.push_sync(at, Ddir::Sync, volume);
        }
        for (set, remark) in [
            (self.fua, Reason::FuaAsWrite),
            (self.barrier, Reason::BarrierAsWrite),
            (self.secure, Reason::SecureErase),
        ] {
            if set {
                sink.note(remark);
            }
        }
        sink.push(at, op, volume, offset, len);
    }
}

fn rwbs(field: Field<'_>) -> Result<Kind, Fault> {
    let mut kind = Kind::default();
    let mut letters = field.text;
    if let [b'F', rest @ ..] = letters {
        kind.flush = true;
        letters = rest;
    }
    let mut op_seen = true;
    match letters {
        [b'R', ..] => kind.op = Some(Ddir::Read),
        [b'W', ..] => kind.op = Some(Ddir::Write),
        [b'D', ..] => kind.op = Some(Ddir::Trim),
        [b'N', ..] => {}
        [b'Z', ..] => {
            kind.extended = true; // the letter after Z tells which zone command
            return Ok(kind);
        }
        _ => op_seen = false,
    }
    for &letter in &letters[usize::from(op_seen)..] {
        match letter {
            b'F' if kind.op.is_some() => kind.fua = true,
            b'F' => kind.flush = true,
            b'B' => kind.barrier = true,
            b'E' if kind.op == Some(Ddir::Trim) => kind.secure = true,
            // Hints to the scheduler, and atomicity, which every write has here.
            b'A' | b'S' | b'M' | b'U' => {}
            _ => {
                return Err(field.fault(format!(
                    "unknown letter '{}' in RWBS '{}'",
                    char::from(letter).escape_debug(),
                    field.show()
                )));
            }
        }
    }
    Ok(kind)
}

/// `maj,min`.
fn device(text: &[u8]) -> bool {
    let mut parts = text.split(|&b| b == b',');
    let number = |p: Option<&[u8]>| {
        p.is_some_and(|p| !p.is_empty() && p.len() <= 10 && p.iter().all(u8::is_ascii_digit))
    };
    number(parts.next()) && number(parts.next()) && parts.next().is_none()
}

fn begins_summary(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let cpu = line.strip_prefix(b"CPU").is_some_and(|r| {
        let n = r.iter().take_while(|b| b.is_ascii_digit()).count();
        n > 0 && r[n..].starts_with(b" (")
    });
    cpu || [&b"Total ("[..], b"Throughput (", b"Events (", b"Skips:", b"Input file "]
        .iter()
        .any(|head| line.starts_with(head))
}

pub(crate) fn looks_like(line: &[u8]) -> bool {
    let mut words = words(line);
    let Some(first) = words.next() else { return false };
    if !device(first.text) {
        let text = line.trim_ascii();
        let rows = [&b"Reads "[..], b"Writes ", b"Read ", b"Write ", b"IO unplugs", b"PC "];
        return begins_summary(line) || rows.iter().any(|row| text.starts_with(row));
    }
    let decimal = words.nth(2).is_some_and(|t| t.time(PS_PER_S, "").is_ok());
    decimal && words.nth(2).is_some()
}

impl Parser {
    pub fn new(action: Action) -> Parser {
        Parser { action, in_summary: false }
    }

    pub fn line(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Fault> {
        let mut words = words(line);
        let head = words.next().ok_or_else(|| Fault::new(0, "a blank line"))?;
        if !device(head.text) {
            self.in_summary |= begins_summary(line);
            if self.in_summary && line.contains(&b':') {
                sink.drop(Reason::SummaryText);
                return Ok(());
            }
            return Err(head.fault(format!(
                "neither an event (maj,min cpu sequence time pid action rwbs) nor blkparse's \
                 statistics: '{}'",
                head.show()
            )));
        }
        self.in_summary = false;
        let mut next = |what: &str| {
            words.next().ok_or_else(|| Fault::new(line.len() + 1, format!("{what} is missing")))
        };
        let (cpu, sequence) = (next("cpu")?, next("sequence number")?);
        let (time, pid, action) = (next("time")?, next("pid")?, next("action")?);
        cpu.number("cpu")?;
        sequence.number("sequence number")?;
        pid.number("pid")?;
        let at = Stamp { ns: time.time(PS_PER_S, "time")?, column: time.column as u64 };
        let reason = match action.text {
            b"Q" => Reason::Queued,
            b"D" => Reason::Issued,
            b"C" => Reason::Completed,
            b"M" | b"F" => Reason::Merged,
            b"G" | b"S" => Reason::GotRequest,
            b"R" => Reason::Requeued,
            b"I" => Reason::Inserted,
            b"P" | b"U" | b"T" | b"UT" | b"ZP" | b"ZU" => Reason::Plugged,
            b"X" => Reason::Split,
            b"B" => Reason::Bounced,
            b"A" => Reason::Remapped,
            b"m" => Reason::Message,
            _ => {
                let message = format!(
                    "unknown action '{}': is this blkparse's default layout (no -f)?",
                    action.show()
                );
                return Err(action.fault(message));
            }
        };
        if reason != self.action.reason() {
            sink.drop(reason);
            return Ok(());
        }
        let name = || String::from_utf8_lossy(head.text).into_owned();
        if sink.is_filtered() && !sink.wants_name(&[&name()]) {
            return Ok(());
        }
        let flags = next("RWBS")?;
        let kind = rwbs(flags)?;
        let volume = sink.volume(head.text, name).map_err(|e| head.fault(e.to_string()))?;
        let (mut sector, mut sectors) = (0, 0);
        match (words.next(), words.next()) {
            // `[process]`, `(elapsed) [process]`, or nothing where blkparse knew no name.
            (None, _) => {}
            (Some(first), _) if matches!(first.text[0], b'[' | b'(') => {}
            (Some(first), Some(plus)) if plus.text == b"+" => {
                sector = first.number("sector")?;
                let count = words
                    .next()
                    .ok_or_else(|| Fault::new(line.len() + 1, "number of sectors is missing"))?;
                sectors = count.number("number of sectors")?;
            }
            (Some(first), Some(cdb)) if cdb.text[0] == b'(' && self.action != Action::Complete => {
                first.number("number of bytes")?;
                sink.drop(Reason::Passthrough);
                return Ok(());
            }
            // A completion without data: `SECTOR [error]`.
            (Some(first), _) => {
                first.number("sector")?;
            }
        }
        if self.action == Action::Complete
            && let Some(error) = line.trim_ascii().strip_suffix(b"]")
            && let Some(open) = error.iter().rposition(|&b| b == b'[')
            && &error[open + 1..] != b"0"
        {
            sink.note(Reason::Failed);
        }
        kind.deliver(at, volume, u128::from(sector) * BLOCK, u128::from(sectors) * BLOCK, sink);
        Ok(())
    }
}
