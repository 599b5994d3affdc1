//! fio's log files: `time (ms), value, direction, block size[, offset], priority`.

use crate::normal::put;
use std::fmt::Write as _;
use std::io::{self, Write};
use wordline_base::Priority;
use wordline_sim::{HistLine, Log, LogKind, LogLine, RunResult};

/// The name fio would give the file.
pub fn log_file_name(log: &Log) -> String {
    log_name(log.kind, &log.prefix, log.number)
}

/// The same; `number` is fio's of the thread, from 1, where each has a file of its own.
pub fn log_name(kind: LogKind, prefix: &str, number: Option<u32>) -> String {
    let kind = match kind {
        LogKind::Lat => "lat",
        LogKind::Slat => "slat",
        LogKind::Clat => "clat",
        LogKind::Bw => "bw",
        LogKind::Iops => "iops",
        LogKind::Hist => "clat_hist",
    };
    match number {
        Some(number) => format!("{prefix}_{kind}.{number}.log"),
        None => format!("{prefix}_{kind}.log"),
    }
}

/// All log files of a run: those of several threads with one name are one file, thread after
/// thread in the order in which they ended, as fio appends them.
pub fn log_files(result: &RunResult) -> Vec<(String, Vec<&Log>)> {
    let mut threads: Vec<_> = result.threads.iter().collect();
    threads.sort_by_key(|thread| thread.finished);
    let mut files: Vec<(String, Vec<&Log>)> = Vec::new();
    for log in threads.into_iter().flat_map(|thread| &thread.logs) {
        let name = log_file_name(log);
        match files.iter_mut().find(|(known, _)| *known == name) {
            Some((_, logs)) => logs.push(log),
            None => files.push((name, vec![log])),
        }
    }
    files
}

fn hist_line(out: &mut String, line: &HistLine) {
    put!(out, "{}, {}, {}", line.at.0 / 1_000_000, line.ddir as u8, line.bs);
    line.bins.iter().for_each(|n| put!(out, ", {n}"));
    out.push('\n');
}

fn line(out: &mut String, log: &Log, line: &LogLine) {
    put!(out, "{}, {}, {}, {}", line.at.0 / 1_000_000, line.value, line.ddir as u8, line.bs);
    if log.with_offset {
        put!(out, ", {}", line.offset);
    }
    if log.with_prio {
        put!(out, ", 0x{:04x}\n", line.class.ioprio());
    } else {
        put!(out, ", {}\n", u8::from(line.class.priority() == Priority::RealTime));
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
    for l in &log.hist {
        text.clear();
        hist_line(&mut text, l);
        w.write_all(text.as_bytes())?;
    }
    Ok(())
}

/// A log as text, a line each interval or I/O, as fio writes its `*_bw.log` and the like.
pub fn log_text(log: &Log) -> String {
    let mut out = String::new();
    log.lines.iter().for_each(|l| line(&mut out, log, l));
    log.hist.iter().for_each(|l| hist_line(&mut out, l));
    out
}
