//! Zoned distributions: a share of the accesses falls on a share of the file (`zoned`) or on a
//! stretch of bytes (`zoned_abs`); inside a zone blocks are uniform.

/// One zone as written in the job: `access/size`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneSlice {
    /// Share of the accesses, percent.
    pub access_percent: u8,
    /// Share of the file, percent (`zoned`); zero for `zoned_abs`.
    pub size_percent: u8,
    /// Length in bytes (`zoned_abs`); zero for `zoned`.
    pub bytes: u64,
}

/// Where the zone of an access starts and ends, in percent and in bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ZoneBounds {
    /// Start in percent of the file; 0 for `zoned_abs`.
    pub from_percent: u32,
    /// End in percent of the file.
    pub to_percent: u32,
    /// Start in bytes; 0 for `zoned`.
    pub from_bytes: u64,
    /// End in bytes.
    pub to_bytes: u64,
}

/// The zone of each of the hundred possible percent draws.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ZoneTable {
    bounds: Vec<ZoneBounds>,
}

impl ZoneTable {
    /// None for a direction that has no zones: it is uniform over the whole file.
    pub fn new(zones: &[ZoneSlice]) -> Option<ZoneTable> {
        if zones.is_empty() {
            return None;
        }
        let mut bounds = Vec::with_capacity(100);
        let mut at = ZoneBounds::default();
        for zone in zones {
            at.to_percent = at.from_percent + u32::from(zone.size_percent);
            at.to_bytes = at.from_bytes.saturating_add(zone.bytes);
            bounds.resize((bounds.len() + usize::from(zone.access_percent)).min(100), at);
            at.from_percent = at.to_percent;
            at.from_bytes = at.to_bytes;
        }
        bounds.resize(100, at);
        Some(ZoneTable { bounds })
    }

    /// `percent` in 1..=100.
    #[inline]
    pub fn zone(&self, percent: u64) -> ZoneBounds {
        self.bounds[percent as usize - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_of_accesses_finds_its_zone() {
        let slice =
            |access_percent, size_percent| ZoneSlice { access_percent, size_percent, bytes: 0 };
        let table = ZoneTable::new(&[slice(60, 10), slice(30, 20), slice(10, 70)]).expect("zones");
        assert_eq!((table.zone(1).from_percent, table.zone(60).to_percent), (0, 10));
        assert_eq!((table.zone(61).from_percent, table.zone(90).to_percent), (10, 30));
        assert_eq!((table.zone(91).from_percent, table.zone(100).to_percent), (30, 100));
        assert_eq!(ZoneTable::new(&[]), None);
    }
}
