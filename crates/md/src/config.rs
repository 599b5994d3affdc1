//! What can be said of an array.

use serde::{Deserialize, Serialize};

/// How data are spread over members.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Chunks go round the members.
    Raid0,
    /// The same, with a chunk of parity in each row, left-symmetric.
    Raid5,
}

impl Level {
    /// As mdadm names it.
    pub fn name(self) -> &'static str {
        match self {
            Level::Raid0 => "raid0",
            Level::Raid5 => "raid5",
        }
    }
    /// Members whose loss it stands.
    pub fn parities(self) -> u32 {
        match self {
            Level::Raid0 => 0,
            Level::Raid5 => 1,
        }
    }
}

/// When members make room for writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Collect {
    /// Each when it wants to.
    #[default]
    Uncoordinated,
}

/// What arrays of a host have that say nothing else.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MdConfig {
    /// Bytes of a member before the next member has its turn. mdadm 4 makes chunks of 512 KiB, earlier ones
    /// of 64 KiB, which flash arrays are built with.
    pub chunk: u64,
}

impl Default for MdConfig {
    fn default() -> Self {
        MdConfig { chunk: 64 << 10 }
    }
}
