//! What an array of drives did.

use crate::topology::ArrayNode;
use serde::Serialize;
use wordline_host::ArrayStats;

/// What an array did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ArrayResult {
    /// As jobs name it.
    pub name: String,
    /// As mdadm names it.
    pub level: String,
    /// Drives that it is made of.
    pub members: u64,
    /// Bytes that it has.
    pub bytes: u64,
    /// Bios that came to it.
    pub requests: u64,
    /// Bios that went to a member while it made room for writes.
    pub met_collecting: u64,
    /// Share of its bios that met a member making room.
    pub met_share: f64,
    /// Members that made room at a time, at most.
    pub most_collecting: u64,
    /// Times that a member had to begin making room without the token.
    pub forced_collections: u64,
    /// Processor time of parity sums.
    pub xor_ns: u64,
    /// Host memory of pages of stripes.
    pub stripe_bytes: u64,
    /// Host memory of the bitmap.
    pub bitmap_bytes: u64,
    /// Host memory of the journal's block of metadata.
    pub journal_bytes: u64,
    /// Look-ups that were held against the newest writes.
    pub checked: u64,
    /// Look-ups, and rows of parity, that were wrong.
    pub wrong: u64,
    /// Memory of that check.
    pub check_bytes: u64,
    /// Members that are lost, or not rebuilt yet.
    pub missing: u64,
    /// Rows are left to be rebuilt or looked at.
    pub syncing: bool,
    /// Rows of that which are done, and all; 0 where it is over.
    pub synced_rows: u64,
    /// All rows.
    pub sync_rows: u64,
    /// Nothing closes the write hole: after a power cut parity may be wrong, and a drive lost then takes what it
    /// rebuilds with it.
    pub write_hole: bool,
    /// What the stripe cache counted, by name: times that it happened.
    pub counters: Vec<(String, u64)>,
}

impl ArrayResult {
    pub(crate) fn new(node: &ArrayNode, stats: &ArrayStats) -> ArrayResult {
        let counters = stats.raid5.iter().flat_map(|of| of.list().collect::<Vec<_>>());
        ArrayResult {
            name: node.name.clone(),
            level: node.level.name().into(),
            members: node.members.len() as u64,
            bytes: stats.bytes,
            requests: stats.requests,
            met_collecting: stats.met_collecting,
            met_share: stats.met_collecting as f64 / stats.requests.max(1) as f64,
            most_collecting: stats.most_collecting.into(),
            forced_collections: stats.forced_collections,
            xor_ns: stats.xor_ns,
            stripe_bytes: stats.stripe_bytes,
            bitmap_bytes: stats.bitmap_bytes,
            journal_bytes: stats.journal_bytes,
            checked: stats.checked,
            wrong: stats.wrong,
            check_bytes: stats.check_bytes,
            missing: stats.missing.into(),
            syncing: stats.syncing.is_some(),
            synced_rows: stats.syncing.map_or(0, |(done, _)| done),
            sync_rows: stats.syncing.map_or(0, |(_, rows)| rows),
            write_hole: node.level.parities() > 0 && node.journal.is_none(),
            counters: counters.map(|(name, n)| (name.to_string(), n)).collect(),
        }
    }
}
