//! `wordline`: arguments to a machine, a run, a report. Files, terminal and signals live here and
//! nowhere else.
#![warn(missing_docs)]

mod args;
mod attribute;
mod cache;
mod device;
mod error;
mod finish;
mod manual;
mod output;
mod prepare;
mod progress;
mod python;
mod record;
mod repeat;
mod replay;
mod report;
mod run;
mod serve;
mod showcmd;
mod signals;
mod study;
mod words;

use args::Command;
use error::{WordError, WorkError};
use std::io::Write;
use std::process::ExitCode;
pub use wordline_frontend::{Failure, files};

#[global_allocator]
static ALLOCATOR: wordline_huge::HugePages = wordline_huge::HugePages;

/// A line on standard error. That nobody can read it is no reason to fail.
pub fn remark(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn command() -> Result<(), Failure> {
    let arguments =
        std::env::args_os().map(|argument| argument.into_string().map_err(WordError::NotUtf8));
    let arguments: Vec<String> = arguments.collect::<Result<_, _>>()?;
    if arguments.get(1..) == Some(&study::WORKER.map(String::from)) {
        wordline_study::work();
        return Ok(());
    }
    match words::parse(arguments)?.command {
        Command::Run(args) => run::run(args),
        Command::Replay(args) => replay::replay(args),
        Command::Serve(args) => serve::serve(args),
        Command::Attribute(args) => attribute::attribute(args),
        Command::Image { command } => serve::image(command),
        Command::Record(args) => record::record(args),
        Command::Tape { command } => serve::tape(command),
        Command::Report(args) => report::report(&args),
        Command::Device { command } => device::device(command),
        Command::Cache { command } => cache::cache(command),
        Command::Study { command } => study::study(command),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { out, format } => manual::pages(format, out.as_deref()),
        Command::Tune(args) => python::hand_over("wordline tune", &args.words()),
    }
}

/// Tells what came of a command: its exit status.
fn status(result: Result<(), Failure>) -> u8 {
    match result {
        Ok(()) => 0,
        Err(failure) => {
            remark(&format!("wordline: {failure}"));
            failure.status.code()
        }
    }
}

/// The program: its words are those of the command line, and it tells what came of them.
pub fn program() -> ExitCode {
    signals::survive_file_limits();
    let result =
        std::panic::catch_unwind(command).unwrap_or_else(|_| Err(WorkError::Defect.into()));
    ExitCode::from(status(result))
}
