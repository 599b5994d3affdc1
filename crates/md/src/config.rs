//! What can be said of an array.

use serde::{Deserialize, Serialize};
use wordline_base::{BadValue, Span};

/// Bytes of a page: what md handles stripes by.
pub const PAGE: u64 = 4096;

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
    /// One at a time, in turn: who has the token.
    Token,
    /// Each when it wants to. A read of one that does is rebuilt from the others, if none of them does.
    Around,
    /// One at a time, in turn, and reads of that one are rebuilt from the others.
    TokenAround,
}

impl Collect {
    /// The word in a profile.
    pub fn name(self) -> &'static str {
        match self {
            Collect::Uncoordinated => "uncoordinated",
            Collect::Token => "token",
            Collect::Around => "around",
            Collect::TokenAround => "token-around",
        }
    }
    /// Members have turns.
    pub fn has_token(self) -> bool {
        matches!(self, Collect::Token | Collect::TokenAround)
    }
    /// Reads go around a member that makes room.
    pub fn goes_around(self) -> bool {
        matches!(self, Collect::Around | Collect::TokenAround)
    }
}

/// What arrays of a host have that say nothing else.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MdConfig {
    /// Bytes of a member before the next member has its turn. mdadm 4 makes chunks of 512 KiB, earlier ones
    /// of 64 KiB, which flash arrays are built with.
    pub chunk: u64,
    /// Stripes of RAID-5 (stripe_cache_size): a page of each member. Linux 4.14 begins with 256 and makes
    /// more where they do not suffice.
    pub stripe_cache: u32,
    /// Bytes of a member that a bit of the write-intent bitmap is for; 0: no bitmap, as mdadm makes small
    /// arrays.
    pub bitmap: u64,
    /// When members make room for writes.
    pub gc: Collect,
    /// How long a member has the token.
    pub gc_slot: Span,
    /// Bytes a second of a member that rebuilding takes at most (sync_speed_max: 200,000 KiB/s).
    pub sync_speed_max: u64,
    /// The core of the array's thread; the one with the fewest threads if not given.
    pub core: Option<u32>,
}

impl MdConfig {
    /// What cannot be, with its key.
    pub fn check(&self) -> Result<(), BadValue> {
        let bad = |key, why: &str| Err(BadValue::new(key, why));
        if !(17..=32_768).contains(&self.stripe_cache) {
            return bad("md.stripe_cache", "must be from 17 to 32768 stripes");
        }
        if self.bitmap > 0 && (!self.bitmap.is_power_of_two() || self.bitmap < PAGE) {
            return bad("md.bitmap", "must be 0 for none, or a power of two from 4096 on");
        }
        if self.gc_slot == Span::ZERO {
            return bad("md.gc_slot", "must be above 0: a member must get somewhere");
        }
        if self.sync_speed_max < PAGE {
            return bad("md.sync_speed_max", "must be at least 4096 bytes a second");
        }
        Ok(())
    }
    /// Bytes of a member that are kept for the bitmap.
    pub fn kept(&self) -> u64 {
        // A bit a region, and a member of 64 TiB with regions of a page has two of 64 KiB pages of them.
        if self.bitmap > 0 { 256 << 10 } else { 0 }
    }
}

impl Default for MdConfig {
    fn default() -> Self {
        MdConfig {
            chunk: 64 << 10,
            stripe_cache: 256,
            bitmap: 0,
            gc: Collect::Uncoordinated,
            gc_slot: Span::from_ms(2),
            sync_speed_max: 200_000 << 10,
            core: None,
        }
    }
}
