//! `wordline`: arguments to a machine, a run, a report. Files, terminal and signals live here and
//! nowhere else.

mod args;
mod device;
mod load;
mod output;
mod run;

use args::Command;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: wordline_huge::HugePages = wordline_huge::HugePages;

/// Why the program ends without success.
pub enum Failure {
    /// Unusable input: exit status 2.
    Usage(String),
    /// The run failed, was interrupted, or its result could not be written: exit status 1.
    Run(String),
}

impl Failure {
    pub fn usage(message: impl ToString) -> Failure {
        Failure::Usage(message.to_string())
    }
    pub fn run(message: impl ToString) -> Failure {
        Failure::Run(message.to_string())
    }
}

fn main() -> ExitCode {
    let result = match args::parse(std::env::args().collect()).command {
        Command::Run(args) => run::run(args),
        Command::Replay(args) => run::replay(args),
        Command::Device { command } => device::device(command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(message)) => {
            eprintln!("wordline: {message}");
            ExitCode::from(2)
        }
        Err(Failure::Run(message)) => {
            eprintln!("wordline: {message}");
            ExitCode::from(1)
        }
    }
}
