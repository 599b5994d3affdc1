//! fio's log files: `time (ms), value, direction, block size[, offset], priority`.

use crate::normal::put;
use std::fmt::Write as _;
use std::io::{self, Write};
use wordline_sim::{Log, LogKind, LogLine};

/// The real-time class, as fio's priority numbers have it in their upper bits.
const REAL_TIME: u16 = 1;
const CLASS_SHIFT: u32 = 13;

/// The name fio would give the file.
pub fn log_file_name(log: &Log) -> String {
    let kind = match log.kind {
        LogKind::Lat => "lat",
        LogKind::Slat => "slat",
        LogKind::Clat => "clat",
        LogKind::Bw => "bw",
        LogKind::Iops => "iops",
    };
    format!("{}_{kind}.{}.log", log.prefix, log.number)
}

fn line(out: &mut String, log: &Log, line: &LogLine) {
    put!(out, "{}, {}, {}, {}", line.at.0 / 1_000_000, line.value, line.ddir as u8, line.bs);
    if log.with_offset {
        put!(out, ", {}", line.offset);
    }
    if log.with_prio {
        put!(out, ", 0x{:04x}\n", line.prio);
    } else {
        put!(out, ", {}\n", u8::from(line.prio >> CLASS_SHIFT == REAL_TIME));
    }
}

/// Writes a log as fio would.
pub fn write_log(log: &Log, w: &mut dyn Write) -> io::Result<()> {
    let mut text = String::new();
    for l in &log.lines {
        text.clear();
        line(&mut text, log, l);
        w.write_all(text.as_bytes())?;
    }
    Ok(())
}

pub fn log_text(log: &Log) -> String {
    let mut out = String::new();
    log.lines.iter().for_each(|l| line(&mut out, log, l));
    out
}
