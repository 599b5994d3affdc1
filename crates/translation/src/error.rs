//! What can be wrong with an FTL's state.

use thiserror::Error;

/// Why a drive cannot be aged.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum AgeError {
    #[error("commands or flash operations are in flight: age a drive at rest")]
    Busy,
    #[error("sector {sector} is beyond the capacity, {sectors}")]
    Beyond { sector: u32, sectors: u64 },
    /// What there is none of.
    #[error("{0}: the drive is too full to age")]
    Full(&'static str),
    #[error(
        "the map needs more memory than ftl.fssd.host_memory gives it: raise it, or set it to none"
    )]
    Memory,
}

/// What of a state does not fit the rest of it.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Breach {
    #[error("sector {lpn} {what}")]
    Sector { lpn: u32, what: String },
    #[error("block {block} {what}")]
    Block { block: u32, what: String },
    #[error("line {line} {what}")]
    Line { line: u32, what: String },
    #[error("LUN {lun} {what}")]
    Lun { lun: u32, what: String },
    #[error("stride {stride} {what}")]
    Stride { stride: u32, what: String },
    /// Counts that are not those of what they count.
    #[error("{0}")]
    Count(String),
}
