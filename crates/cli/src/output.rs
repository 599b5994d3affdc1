//! Results to standard output and files.

use crate::args::{CommonArgs, Format};
use crate::load::write_file;
use crate::Failure;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use wordline_report as report;
use wordline_sim::RunResult;

/// Writes to standard output. A reader that went away is no success: what it missed is lost.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|e| match e.kind() {
        ErrorKind::BrokenPipe => {
            Failure::run("standard output was closed before all was written; use --output FILE")
        }
        _ => Failure::run(format!("cannot write to standard output: {e}")),
    })
}

/// The result in every format asked for, one after the other, as fio does.
fn text(result: &RunResult, args: &CommonArgs) -> String {
    let mut text = String::new();
    for format in &args.output_format {
        match format {
            Format::Normal => {
                text += &report::fio_normal(result);
                text += "\n";
                text += &report::explain_text(result);
                if args.slowest > 0 {
                    text += "\n";
                    text += &report::slowest_text(result, args.slowest);
                }
            }
            Format::Terse => text += &report::fio_terse(result),
            Format::Json => text += &report::fio_json(result, false, &Default::default()),
            Format::JsonPlus => text += &report::fio_json(result, true, &Default::default()),
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}

pub fn write(result: &mut RunResult, args: &CommonArgs) -> Result<(), Failure> {
    let text = text(result, args);
    match &args.output {
        Some(path) => write_file(path, |w| w.write_all(text.as_bytes()))?,
        None => print(&text)?,
    }
    // The lives of the slowest are text: beside another format they go to standard error.
    if args.slowest > 0 && !args.output_format.contains(&Format::Normal) {
        eprint!("{}", report::slowest_text(result, args.slowest));
    }
    if let Some(path) = &args.timeline {
        write_file(path, |w| report::timeline_json(result, w))?;
    }
    for thread in &result.threads {
        for log in &thread.logs {
            let path = PathBuf::from(report::log_file_name(log));
            write_file(&path, |w| report::write_log(log, w))?;
        }
    }
    Ok(())
}
