//! Why what was asked for was not done.

use crate::files::{TextError, explain};
use std::error::Error;
use std::io;
use std::path::PathBuf;
use wordline::SpanError;
use wordline_fio::ValueError;
use wordline_trace::{ClockError, TraceError, WordError};

/// How a front end ends that did not do what was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// The run failed, was interrupted, or its result could not be written: exit status 1.
    Failed,
    /// Input that cannot be used: exit status 2.
    Unusable,
    /// What was looked at is whole, and has no more to lose: exit status 3.
    Weak,
}

impl Status {
    /// The exit status of the program.
    pub fn code(self) -> u8 {
        match self {
            Status::Failed => 1,
            Status::Unusable => 2,
            Status::Weak => 3,
        }
    }
}

/// An error, and how a front end ends with it. The error's text names the place and the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Failure {
    /// What kind of end it is.
    pub status: Status,
    /// What is wrong.
    pub error: Box<dyn Error + Send + Sync>,
}

impl Failure {
    /// Input that cannot be used.
    pub fn usage(error: impl Error + Send + Sync + 'static) -> Failure {
        Failure { status: Status::Unusable, error: Box::new(error) }
    }
    /// Something that was begun and failed.
    pub fn run(error: impl Error + Send + Sync + 'static) -> Failure {
        Failure { status: Status::Failed, error: Box::new(error) }
    }
    /// Something that is whole, and has no more to lose.
    pub fn weak(error: impl Error + Send + Sync + 'static) -> Failure {
        Failure { status: Status::Weak, error: Box::new(error) }
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

impl From<InputError> for Failure {
    fn from(error: InputError) -> Failure {
        Failure::usage(error)
    }
}

/// Input that cannot be used, whichever front end took it.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// A file that is to be text.
    #[error("cannot read the {what} {name}: {why}")]
    Text {
        /// What it is to be: a profile, a study.
        what: &'static str,
        /// Its name as given.
        name: String,
        /// What the system says, or what is no text.
        why: TextError,
    },
    /// A trace that cannot be opened.
    #[error("cannot read the trace {}: {}", .path.display(), explain(.why))]
    NoTrace {
        /// Its name as given.
        path: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// A trace that cannot be understood.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A trace of a job whose format cannot be told; a replay could be given the format.
    #[error("{0}; a job takes only what is told by itself: these are options of wordline replay")]
    TraceOfJob(TraceError),
    /// A file that a result could not be written to after a long run.
    #[error("cannot write {}: {}", .path.display(), explain(.why))]
    Unwritable {
        /// Its name as given.
        path: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// A file that is to be written was read.
    #[error("{what} {} is a file that is read as well: name another", .path.display())]
    AlsoRead {
        /// What is to be written.
        what: &'static str,
        /// Its name as given.
        path: PathBuf,
    },
    /// A file that two results are to be written to.
    #[error("{what} {} is the same file as {of} {}: name another", .path.display(), .other.display())]
    SameFile {
        /// What is to be written.
        what: &'static str,
        /// Its name as given.
        path: PathBuf,
        /// What else is.
        of: &'static str,
        /// Its name there.
        other: PathBuf,
    },
    /// A kept state of drives that cannot be opened.
    #[error("cannot load the state {}: {}", .path.display(), explain(.why))]
    NoState {
        /// Its name as given.
        path: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// A kept state that is damaged, or of other drives.
    #[error("cannot load the state {}: {why}", .path.display())]
    State {
        /// Its name as given.
        path: PathBuf,
        /// What is wrong with it.
        why: wordline::StateError,
    },
    /// A number of drives beside a list of devices.
    #[error(
        "--drives {drives} is so many of one device, and --device names {devices}: leave one of them out"
    )]
    Drives {
        /// The number of drives.
        drives: u32,
        /// The number of devices.
        devices: usize,
    },
    /// A run that is to end before it begins.
    #[error("--limit: must be longer than nothing")]
    NoTime,
    /// An end of the run that is no time.
    #[error("--limit: {0}")]
    Limit(SpanError),
    /// A time scale that is none.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// A word about a trace that means nothing.
    #[error("--{option}: {why}")]
    Word {
        /// The option, without dashes.
        option: &'static str,
        /// What is wrong with its value.
        why: WordError,
    },
    /// A format of traces that is none.
    #[error(transparent)]
    Format(WordError),
    /// A length of requests that is no size.
    #[error("--bs: {0}")]
    Length(ValueError),
    /// A length that no request has.
    #[error("--bs: '{0}' is no length of a request: from 1 byte to 4 GiB - 1")]
    LengthRange(String),
    /// Drives whose state does not fit the memory that is left.
    #[error(transparent)]
    Memory(#[from] crate::memory::Shortage),
}

/// A file that was begun and could not be written to its end.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot write {}: {}{}", .path.display(), explain(.why),
    if *.special { "" } else { "; nothing new was left there" }
)]
pub struct WriteError {
    /// Its name.
    pub path: PathBuf,
    /// What the system says.
    pub why: io::Error,
    /// It is a pipe or a device, which keeps what it was given.
    pub special: bool,
}
