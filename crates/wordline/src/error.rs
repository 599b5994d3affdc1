//! What can be wrong with a plan, and with the run of it.

use std::io;
use wordline_profile::ConfigError;

/// Why a plan cannot be run, or why its run is not whole. The text names the place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value of a profile or of an override, or values that do not fit each other.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A job file, or a job that does not fit the drive.
    #[error(transparent)]
    Jobs(#[from] wordline_fio::ParseError),
    /// A job or a request that the system cannot run.
    #[error("{0}")]
    Workload(String),
    /// A trace that cannot be read.
    #[error(transparent)]
    Trace(#[from] wordline_trace::TraceError),
    /// A drive that cannot be brought into the state asked for.
    #[error("{0}")]
    State(#[from] StateError),
    /// A finished run that is not whole.
    #[error(transparent)]
    Run(#[from] wordline_sim::RunError),
}

/// Why a drive cannot be brought into a state.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A program has no rate of its own that a drive could be aged at.
    #[error("a program states no rate to precondition the drive at: use --precondition random")]
    PaceOfProgram,
    #[error("a trace states no rate to precondition the drive at: use --precondition random")]
    PaceOfTrace,
    /// Ageing came to an end that it should not come to.
    #[error("{0}")]
    Ageing(String),
    /// A saved state that is damaged, or of another drive.
    #[error("{0}")]
    Saved(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    pub(crate) fn workload(why: impl ToString) -> Error {
        Error::Workload(why.to_string())
    }
    pub(crate) fn ageing(why: String) -> Error {
        Error::State(StateError::Ageing(why))
    }
}
