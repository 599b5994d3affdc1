//! What can be wrong with an FTL's state.

use thiserror::Error;

/// Why a drive cannot be aged.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum AgeError {
    /// Something is under way.
    #[error("commands or flash operations are in flight: age a drive at rest")]
    Busy,
    /// A sector that there is not.
    #[error("sector {sector} is beyond the capacity, {sectors}")]
    Beyond {
        /// Its number.
        sector: u32,
        /// How many there are.
        sectors: u64,
    },
    /// What there is none of.
    #[error(
        "{0}: the drive is too full to age: raise ftl.over_provisioning, or leave more of it unwritten"
    )]
    Full(&'static str),
    #[error(
        "the map needs more memory than --host-memory (ftl.fssd.host_memory) gives it: raise it or leave it out"
    )]
    /// The map does not fit the memory that it was given.
    Memory,
    /// Who watches it ended it, and says why.
    #[error(transparent)]
    Ended(#[from] Ended),
}

/// Who watches a drive being aged ended it.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{why}")]
pub struct Ended {
    /// The reason, in the words of who watches.
    pub why: String,
}

/// What of a state does not fit the rest of it.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Breach {
    /// A logical sector.
    #[error("sector {lpn} {what}")]
    Sector {
        /// Its number.
        lpn: u32,
        /// What is wrong with it.
        what: String,
    },
    /// A block, by its number.
    #[error("block {block} {what}")]
    Block {
        /// Its number.
        block: u32,
        /// What is wrong with it.
        what: String,
    },
    /// A line, or what an FTL erases together.
    #[error("line {line} {what}")]
    Line {
        /// Its number.
        line: u32,
        /// What is wrong with it.
        what: String,
    },
    /// A LUN.
    #[error("LUN {lun} {what}")]
    Lun {
        /// Its number.
        lun: u32,
        /// What is wrong with it.
        what: String,
    },
    /// A stride of parity.
    #[error("stride {stride} {what}")]
    Stride {
        /// Its number.
        stride: u32,
        /// What is wrong with it.
        what: String,
    },
    /// Counts that are not those of what they count.
    #[error("{0}")]
    Count(String),
}
