//! An image looked at from end to end, changing nothing, and what is known of a damaged one.

use crate::Error;
use crate::image::{Image, sector_crc};
use crate::pages::PAGE;
use crate::recover::{Recovered, ranges};
use std::fs::File;
use std::os::unix::fs::FileExt;
use wordline_base::{Lpn, SECTOR};
use wordline_ftl::{LOST, Translation};
use wordline_nand::Ppa;

/// What a check of an image found.
#[derive(Debug, Default)]
pub struct Found {
    /// Sectors read.
    pub read: u64,
    /// Sectors that are mapped and are not what was written, but for parity.
    pub repairable: u64,
    /// Logical sectors that are mapped and cannot be had at all.
    pub damaged: Vec<u64>,
    /// Sectors computed from the rest of their stride, all of which was whole.
    pub rebuilt: u64,
    /// Sectors of these that are whole and came out as something else.
    pub misbuilt: u64,
    /// What the FTL's own check says.
    pub map: String,
}

impl Found {
    /// Nothing is damaged, and the map is consistent.
    pub fn is_good(&self) -> bool {
        self.damaged.is_empty() && self.misbuilt == 0 && self.map == "consistent"
    }
    /// Ranges of bytes that cannot be had.
    pub fn lost(&self) -> Vec<(u64, u64)> {
        ranges(self.damaged.iter().map(|lpn| lpn * SECTOR))
    }
}

/// Reads every mapped sector, and computes those of whole strides from the others. An error if the file cannot be
/// read.
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
        let computed = rebuild(image, recovered, ppa, &mut page);
        found.rebuilt += u64::from(computed.is_some());
        match (whole, computed) {
            (true, fits) => found.misbuilt += u64::from(fits == Some(false)),
            (false, Some(true)) => found.repairable += 1,
            // Which of them is wrong, this one or one that it was computed from, cannot be told.
            (false, _) => found.damaged.push(u64::from(lpn)),
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
        && recovered.crcs[ppa] == sector_crc(lpn.0, stamp, into)
}

/// Writes what is known of the drive's bytes to a blank file, sparse. It returns the ranges that are not
/// known; the file has zeroes there.
pub fn salvage(
    image: &Image,
    recovered: &Recovered,
    to: &File,
) -> std::io::Result<Vec<(u64, u64)>> {
    let size = image.superblock.size;
    to.set_len(size)?;
    let mut lost = Vec::new();
    let mut page = [0; PAGE];
    for at in (0..size).step_by(PAGE) {
        let lpn = Lpn((at / SECTOR) as u32);
        let place = recovered.ftl.newest_at(lpn).filter(|&ppa| recovered.ftl.oob(ppa).is_some());
        let known = recovered.damage.spares(lpn)
            && place.is_none_or(|ppa| {
                is_whole(image, recovered, ppa, &mut page)
                    || rebuild(image, recovered, ppa, &mut page) == Some(true)
            });
        match known {
            false => lost.push(at),
            true if place.is_some() => {
                to.write_all_at(&page[..(size - at).min(SECTOR) as usize], at)?;
            }
            true => {}
        }
    }
    to.sync_all()?;
    Ok(ranges(lost.into_iter()))
}

/// The same as GNU ddrescue's mapfile: what follows the file's bytes through later tools.
pub fn mapfile(size: u64, lost: &[(u64, u64)]) -> String {
    let mut text = "# Mapfile of wordline image check --salvage\n# current_pos  current_status\n\
                    0x00000000     +\n#      pos        size  status\n"
        .to_string();
    let mut put = |from: u64, to: u64, status: char| {
        if from < to {
            text += &format!("0x{from:08X}  0x{:08X}  {status}\n", to - from);
        }
    };
    let mut at = 0;
    for &(from, len) in lost {
        put(at, from, '+');
        at = (from + len).min(size);
        put(from, at, '-');
    }
    put(at, size, '+');
    text
}

/// Whether the rest of its stride, if all of that is whole, gives the sector.
fn rebuild(image: &Image, recovered: &Recovered, ppa: Ppa, sum: &mut [u8; PAGE]) -> Option<bool> {
    let ftl = &recovered.ftl;
    let (lpn, stamp) = ftl.oob(ppa).filter(|o| o.1 & LOST == 0)?;
    let mut page = [0; PAGE];
    sum.fill(0);
    for (at, factor) in ftl.rebuild_terms(ppa, 1)? {
        if ftl.has_address(at) {
            if !is_whole(image, recovered, at, &mut page) {
                return None;
            }
            crate::media::add_times(sum, &page, factor);
        }
    }
    Some(recovered.crcs[ppa] == sector_crc(lpn.0, stamp, sum))
}
