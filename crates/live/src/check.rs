//! An image looked at from end to end, changing nothing.

use crate::Error;
use crate::image::{Image, sector_crc};
use crate::pages::PAGE;
use crate::recover::Recovered;
use wordline_base::Lpn;
use wordline_ftl::LOST;
use wordline_nand::Ppa;

#[derive(Debug, Default)]
pub struct Found {
    pub read: u64,
    /// Sectors that are mapped and are not what was written, but for parity.
    pub repairable: u64,
    /// Logical sectors that are mapped and cannot be had at all.
    pub damaged: Vec<u64>,
    /// Sectors computed from the rest of their stride, all of which was whole, and those of them that
    /// came out as something else.
    pub rebuilt: u64,
    pub misbuilt: u64,
    /// What the FTL's own check says.
    pub map: String,
}

impl Found {
    pub fn is_good(&self) -> bool {
        self.damaged.is_empty() && self.misbuilt == 0 && self.map == "consistent"
    }
}

pub fn check(image: &Image, recovered: &Recovered) -> Result<Found, Error> {
    let ftl = &recovered.ftl;
    let mut found = Found::default();
    let mut page = [0; PAGE];
    for lpn in 0..ftl.sectors() as u32 {
        let Some(ppa) = ftl.newest_at(Lpn(lpn)) else { continue };
        if ftl.oob(ppa).is_none() {
            continue;
        }
        found.read += 1;
        let whole = is_whole(image, recovered, ppa, &mut page);
        match rebuild(image, recovered, ppa) {
            Some(fits) => {
                found.rebuilt += 1;
                found.misbuilt += u64::from(!fits);
                found.repairable += u64::from(!whole);
            }
            None if !whole => found.damaged.push(u64::from(lpn)),
            None => {}
        }
    }
    found.map = match ftl.check_invariants() {
        Ok(()) => "consistent".into(),
        Err(e) => e.to_string(),
    };
    Ok(found)
}

/// Reads a sector; whether it is what was written there.
fn is_whole(image: &Image, recovered: &Recovered, ppa: Ppa, into: &mut [u8; PAGE]) -> bool {
    let Some((lpn, stamp)) = recovered.ftl.oob(ppa) else { return false };
    stamp & LOST == 0
        && image.read_sectors(ppa.0, into).is_ok()
        && recovered.crcs[ppa.0 as usize] == sector_crc(lpn.0, stamp, into)
}

/// Whether the rest of its stride, if all of that is whole, gives the sector.
fn rebuild(image: &Image, recovered: &Recovered, ppa: Ppa) -> Option<bool> {
    let ftl = &recovered.ftl;
    let (lpn, stamp) = ftl.oob(ppa).filter(|o| o.1 & LOST == 0)?;
    let mut sum = [0; PAGE];
    let mut page = [0; PAGE];
    for (at, factor) in ftl.rebuild_terms(ppa, 1)? {
        if ftl.has_address(at) {
            if !is_whole(image, recovered, at, &mut page) {
                return None;
            }
            crate::media::add_times(&mut sum, &page, factor);
        }
    }
    Some(recovered.crcs[ppa.0 as usize] == sector_crc(lpn.0, stamp, &sum))
}
