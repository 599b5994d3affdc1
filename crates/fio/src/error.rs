//! Errors with a place and a remedy.

use std::fmt;

/// Where in the input something stands.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// The job file's name as given, or `command line`.
    pub file: String,
    /// From 1. Zero where lines have no meaning, as on the command line.
    pub line: u32,
}

impl Place {
    pub(crate) fn new(file: &str, line: u32) -> Place {
        Place { file: file.to_string(), line }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

/// A job that cannot be taken: prints as `job.fio:7: unknown option 'iodpeth', did you mean
/// 'iodepth'?`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: {message}")]
pub struct ParseError {
    pub place: Place,
    /// What is wrong and what to write instead; no full stop.
    pub message: String,
}

/// A job that parses but cannot run on the drive it was given.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GeneratorError {
    #[error(
        "job '{job}': the drive holds {drive} bytes, less than one block of {block}: lower bs, or take a larger drive"
    )]
    DriveTooSmall { job: String, drive: u64, block: u64 },
    #[error(
        "job '{job}': offset {offset} lies beyond the end of the file at {end}: lower offset or offset_increment"
    )]
    OffsetBeyondEnd { job: String, offset: u64, end: u64 },
    #[error(
        "job '{job}': {files} files need {needed} bytes, the drive holds {drive}: lower size, filesize or nrfiles"
    )]
    FilesDoNotFit { job: String, files: u32, needed: u64, drive: u64 },
    #[error(
        "job '{job}': a random map of {blocks} blocks is too large: set norandommap or softrandommap"
    )]
    MapTooLarge { job: String, blocks: u64 },
    #[error(
        "job '{job}': the lfsr cannot start from this seed over {blocks} blocks: set another randseed with randrepeat=0, or random_generator=tausworthe"
    )]
    LfsrSeed { job: String, blocks: u64 },
    #[error(
        "job '{job}': the zones of zoned_abs reach to byte {zones}, the file to {end}: fio gives up there, lower the zones"
    )]
    ZonesBeyondEnd { job: String, zones: u64, end: u64 },
    #[error(
        "job '{job}': {files} files are more than the {max} that can be told apart: lower nrfiles"
    )]
    TooManyFiles { job: String, files: u32, max: u32 },
    #[error(
        "job '{job}': read_iolog replays '{path}': its I/Os come from the log, not from a generator"
    )]
    Replay { job: String, path: String },
}
