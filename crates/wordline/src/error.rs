//! What can be wrong with a plan, and with the run of it.

use std::io;
use wordline_fio::Place;
use wordline_ftl::AgeError;
use wordline_profile::ConfigError;
use wordline_sim::{BuildError, JobError, LoadError};

/// Why a plan cannot be run, or why its run is not whole. The text names the place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value of a profile or of an override, or values that do not fit each other.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A job file that cannot be read.
    #[error(transparent)]
    Jobs(#[from] wordline_fio::ParseError),
    /// A job that this system cannot run.
    #[error(transparent)]
    Job(#[from] JobError),
    /// A job whose I/O is not whole logical blocks of the drive.
    #[error(transparent)]
    Misaligned(#[from] Misaligned),
    /// Jobs that this host and this drive cannot be put together for.
    #[error(transparent)]
    Build(BuildError),
    /// A trace that cannot be read, or that holds what the drive cannot take.
    #[error(transparent)]
    Trace(#[from] wordline_trace::TraceError),
    /// The workload reads a trace, and [`crate::Plan::logs`] opens none.
    #[error("{reader}: a trace is to be read: set Plan::logs to what opens it")]
    NoLogs {
        /// The job, with its place, or `a replay`.
        reader: String,
    },
    /// What [`crate::Plan::logs`] says of a trace that it cannot open.
    #[error(transparent)]
    Open(Box<dyn std::error::Error + Send + Sync>),
    /// A drive that cannot be brought into the state asked for.
    #[error(transparent)]
    State(#[from] StateError),
    /// A finished run that is not whole.
    #[error(transparent)]
    Run(#[from] wordline_sim::RunError),
}

/// A job whose I/O cannot but begin or end within logical blocks.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: job '{job}': {what} does not fit the drive's blocks of {lba} bytes: {remedy}")]
pub struct Misaligned {
    /// Where the job is written.
    pub place: Place,
    /// The job's name.
    pub job: String,
    /// The option, with its value.
    pub what: String,
    /// Bytes of a logical block.
    pub lba: u64,
    /// What to write instead.
    pub remedy: String,
}

/// Why a drive cannot be brought into a state.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A program has no rate of its own that a drive could be aged at.
    #[error("a program states no rate to precondition the drive at: use --precondition random")]
    PaceOfProgram,
    /// A program beside others ends with them.
    #[error("a program given with --with runs beside others: name one with --app, or give jobs")]
    NothingBeside,
    /// What is asked for is of one drive.
    #[error("{what} is of one drive, and this machine has {drives}: {remedy}")]
    Several {
        /// What is asked for.
        what: &'static str,
        /// Drives of the machine.
        drives: usize,
        /// What to do instead.
        remedy: &'static str,
    },
    /// Ageing came to an end that it should not come to.
    #[error(transparent)]
    Ageing(#[from] AgeError),
    /// A drive at hand is not the one that the plan describes.
    #[error(
        "the drive at hand was made with {key} = {drive}, the plan has {plan}: take a drive that a plan \
         of the same system prepared"
    )]
    OtherDrive {
        /// The first setting that differs, as `--set` takes it; `ftl` is the kind of FTL.
        key: String,
        /// Its value in the drive, `none` where it has none.
        drive: String,
        /// Its value in the plan.
        plan: String,
    },
    /// A saved state that is damaged, or of another drive.
    #[error(transparent)]
    Saved(#[from] LoadError),
    /// A state that cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    pub(crate) fn ageing(why: AgeError) -> Error {
        Error::State(why.into())
    }
}
