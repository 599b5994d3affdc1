//! Results to standard output and files.

use crate::args::{CommonArgs, Format};
use crate::error::{self, WorkError};
use crate::{Failure, files, remark};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use wordline_report as report;
use wordline_sim::RunResult;

fn to_stdout(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// Writes a result to standard output. A reader that went away is no success: what it missed is lost.
pub fn print_result(text: &str) -> Result<(), Failure> {
    to_stdout(text).map_err(|e| match e.kind() {
        ErrorKind::BrokenPipe => WorkError::Closed.into(),
        _ => WorkError::Output(e).into(),
    })
}

/// Writes what can be had again at once. A reader that went away has seen what it wanted.
pub fn print(text: &str) -> Result<(), Failure> {
    match to_stdout(text) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(WorkError::Output(e).into()),
        _ => Ok(()),
    }
}

/// The result in every format asked for, one after the other, as fio does.
fn text(result: &RunResult, args: &CommonArgs) -> String {
    let mut text = String::new();
    for (i, format) in args.output_format.iter().enumerate() {
        if !args.output_format[..i].contains(format) {
            text += &wordline_frontend::text(result, (*format).into(), args.slowest);
        }
    }
    text
}

impl From<Format> for wordline_frontend::Format {
    fn from(format: Format) -> wordline_frontend::Format {
        match format {
            Format::Normal => wordline_frontend::Format::Normal,
            Format::Terse => wordline_frontend::Format::Terse,
            Format::Json => wordline_frontend::Format::Json,
            Format::JsonPlus => wordline_frontend::Format::JsonPlus,
        }
    }
}

/// Keeps what went wrong.
pub fn note(failures: &mut Vec<Failure>, written: Result<(), Failure>) {
    failures.extend(written.err());
}

/// Writes all there is to write, and whatever fails leaves the rest alone; standard output comes
/// last, because it may be closed.
pub fn write(result: &RunResult, args: &CommonArgs) -> Result<(), Failure> {
    let text = text(result, args);
    let mut failures = Vec::new();
    for log in &result.iologs {
        note(&mut failures, files::write(&PathBuf::from(&log.path), |w| log.write(w)));
    }
    for (name, logs) in report::log_files(result) {
        let write = |w: &mut dyn Write| logs.iter().try_for_each(|log| report::write_log(log, w));
        note(&mut failures, files::write(&PathBuf::from(name), write));
    }
    if let Some(path) = &args.timeline {
        note(&mut failures, files::write(path, |w| report::timeline_json(result, w)));
    }
    if let Some(path) = &args.over_time {
        note(&mut failures, files::write(path, |w| report::over_time_csv(result, w)));
    }
    if let Some(path) = &args.report {
        let json = report::fio_json(result, false, &Default::default());
        note(&mut failures, crate::report::write(path, &[(String::new(), json)]));
    }
    match &args.output {
        Some(path) => note(&mut failures, files::write(path, |w| w.write_all(text.as_bytes()))),
        None => note(&mut failures, print_result(&text)),
    }
    remarks(result, args);
    error::all(failures)
}

/// What is read by people and has no place in the formats asked for.
fn remarks(result: &RunResult, args: &CommonArgs) {
    let in_text = args.output_format.contains(&Format::Normal);
    if !in_text && args.slowest > 0 && !args.quiet {
        remark(report::slowest_text(result, args.slowest).trim_end());
    }
    // With --output the text is not before the reader's eyes.
    if in_text && args.output.is_none() {
        return;
    }
    result.warnings.iter().for_each(|warning| remark(&format!("warning: {warning}")));
    if !args.quiet {
        result.notes.iter().for_each(|note| remark(&format!("note: {note}")));
    }
}
