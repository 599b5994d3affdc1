//! `wordline`: arguments to a machine, a run, a report. Files, terminal and signals live here and
//! nowhere else.

mod args;
mod attribute;
mod cache;
mod device;
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
use std::io::Write;
use std::process::ExitCode;
pub use wordline_frontend::files;

#[global_allocator]
static ALLOCATOR: wordline_huge::HugePages = wordline_huge::HugePages;

/// Why the program ends without success.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Unusable input: exit status 2.
    #[error("{0}")]
    Usage(String),
    /// The run failed, was interrupted, or its result could not be written: exit status 1.
    #[error("{0}")]
    Run(String),
    /// What was looked at is whole, and has no more to lose: exit status 3.
    #[error("{0}")]
    Weak(String),
}

impl Failure {
    pub fn usage(message: impl ToString) -> Failure {
        Failure::Usage(message.to_string())
    }
    pub fn run(message: impl ToString) -> Failure {
        Failure::Run(message.to_string())
    }
    pub fn into_message(self) -> String {
        match self {
            Failure::Usage(message) | Failure::Run(message) | Failure::Weak(message) => message,
        }
    }
}

/// A plan that cannot run is unusable input; a run that is not whole failed.
impl From<wordline::Error> for Failure {
    fn from(error: wordline::Error) -> Failure {
        match error {
            wordline::Error::Run(error) => Failure::run(error),
            error => Failure::usage(error),
        }
    }
}

impl From<wordline_frontend::Failure> for Failure {
    fn from(failure: wordline_frontend::Failure) -> Failure {
        match failure {
            wordline_frontend::Failure::Usage(message) => Failure::Usage(message),
            wordline_frontend::Failure::Run(message) => Failure::Run(message),
        }
    }
}

/// A line on standard error. That nobody can read it is no reason to fail.
pub fn remark(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn command() -> Result<(), Failure> {
    let arguments = std::env::args_os().map(|argument| {
        argument.into_string().map_err(|a| {
            Failure::usage(format!("argument {a:?} is not UTF-8: rename the file it names"))
        })
    });
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

fn main() -> ExitCode {
    signals::survive_file_limits();
    let result = std::panic::catch_unwind(command).unwrap_or_else(|_| {
        Err(Failure::run("this is a defect of wordline: please report it with the command line"))
    });
    let (status, message) = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Usage(message)) => (2, message),
        Err(Failure::Run(message)) => (1, message),
        Err(Failure::Weak(message)) => (3, message),
    };
    remark(&format!("wordline: {message}"));
    ExitCode::from(status)
}
