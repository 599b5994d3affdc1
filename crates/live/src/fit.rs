//! A drive of a profile cut to a size: fewer blocks, and if that leaves too few lines to collect
//! garbage with, shorter blocks.

use crate::error::{Error, Unserved};
use wordline_base::{BadValue, SECTOR_SHIFT};
use wordline_device::DriveConfig;
use wordline_ftl::{Placement, Side, Translation, Translator};
use wordline_nand::{Geometry, Nand};

/// Lines that a drive is given at least, if its blocks can be shortened for it. Chosen: what the cut
/// profiles have.
const LINES: u32 = 128;
/// Pages that a block keeps.
const PAGES: u32 = 4;
/// Blocks a LUN above which none are tried.
const MOST_BLOCKS: u32 = 1 << 20;

/// A drive of a profile cut to a size.
pub struct Fitted {
    /// Its configuration.
    pub drive: DriveConfig,
    /// What it has otherwise than the profile.
    pub notes: Vec<String>,
    /// The size is more than the profile has.
    pub warning: Option<String>,
}

/// A configuration for a served drive of `size` bytes.
pub fn fit(system: &DriveConfig, size: u64) -> Result<Fitted, Error> {
    can_be_served(system)?;
    let mut notes = Vec::new();
    let whole = served(system, &mut notes);
    let mut fitted = whole.clone();
    let wanted = size.div_ceil(1 << SECTOR_SHIFT);
    let pages = system.nand.pages_per_block;
    let mut why = None;
    while fitted.nand.pages_per_block >= PAGES.min(pages) {
        match blocks_for(&mut fitted, wanted) {
            Ok(()) if fitted.nand.blocks >= LINES || fitted.nand.pages_per_block / 2 < PAGES => {
                return Ok(told(&whole, fitted, size, notes));
            }
            Ok(()) => {}
            Err(e) => why = e.or(why),
        }
        fitted.nand.pages_per_block /= 2;
    }
    // Long blocks and few lines, if short ones do not do.
    fitted.nand.pages_per_block = pages;
    blocks_for(&mut fitted, wanted).map_err(|e| Error::Size { size, why: why.or(e) })?;
    Ok(told(&whole, fitted, size, notes))
}

fn told(whole: &DriveConfig, drive: DriveConfig, size: u64, mut notes: Vec<String>) -> Fitted {
    let (of, n) = (&whole.nand, &drive.nand);
    if (n.blocks, n.pages_per_block) != (of.blocks, of.pages_per_block) {
        notes.push(format!(
            "the profile's {} blocks of {} pages a LUN were made {} of {} to fit the size",
            of.blocks, of.pages_per_block, n.blocks, n.pages_per_block
        ));
    }
    let mut warning = None;
    if let Ok(sectors) = capacity(whole) {
        let most = sectors << SECTOR_SHIFT;
        let [has, had] = [beside(&drive, size), beside(whole, most)].map(|share| 100.0 * share);
        if has > had + 1.0 {
            notes.push(format!(
                "{has:.1} % of the drive's flash is spare, parity and metadata, and {had:.1} % of the profile's: so \
                 small a drive needs more to collect garbage with"
            ));
        }
        warning = (size > most).then(|| {
            format!(
                "--size is more than the {most} bytes that the profile has, so that the drive gets blocks that no such \
                 device has: --size {most} serves all of it"
            )
        });
    }
    Fitted { drive, notes, warning }
}

/// The share of a drive's flash that is beside what clients see of it.
pub fn beside(system: &DriveConfig, size: u64) -> f64 {
    let bytes = Geometry::new(&system.nand).map_or(0, |g| g.bytes());
    1.0 - size as f64 / bytes.max(1) as f64
}

/// Sectors of a new drive.
fn capacity(system: &DriveConfig) -> Result<u64, BadValue> {
    let seed = wordline_base::Seed(1);
    let nand = Nand::new(&system.nand, seed).map_err(|bad| bad.below("nand"))?;
    let mut bad = |lun, line| nand.is_factory_bad(lun, line);
    Translator::new(None, &nand.geometry, &system.ftl, &mut bad, seed)
        .map(|ftl| ftl.sectors())
        .map_err(|e| e.below("ftl"))
}

/// Whether an image can be kept of such a drive.
pub fn can_be_served(system: &DriveConfig) -> Result<(), Error> {
    if system.nand.in_place {
        return Err(Unserved::InPlace.into());
    }
    if system.device.bridge.is_some() {
        return Err(Unserved::Bridge.into());
    }
    let sector = system.nand.sector_bytes;
    if sector != 4096 && system.ftl.fssd.is_none() {
        return Err(Unserved::SectorBytes(sector).into());
    }
    Ok(())
}

/// What a served drive has otherwise than its profile.
pub fn served(system: &DriveConfig, notes: &mut Vec<String>) -> DriveConfig {
    let mut served = system.clone();
    if served.ftl.placement == Placement::Host {
        served.ftl.placement = Placement::Device;
        notes.push(
            "the FTL runs in the drive, on its firmware cores: the host above is this machine"
                .into(),
        );
    }
    if served.nand.decoder.take().is_some() {
        // Bytes are read from the image when a read is over. Its block may be erased once they have left the LUN.
        notes.push("correction takes no time of its own (nand.decoder): bytes leave a page with the last of its data".into());
    }
    if let Some(firmware) = &mut served.ftl.firmware {
        if firmware.protected {
            firmware.protected = false;
            notes.push(
                "a flush programs what was written: the drive's protected buffer would be memory of this \
                 process"
                    .into(),
            );
        }
        if firmware.slc_static + firmware.slc_dynamic > 0.0 {
            (firmware.slc_static, firmware.slc_dynamic) = (0.0, 0.0);
            notes.push(
                "writes go to the native cells: an image does not keep how a block is written, so that the \
                 drive has no buffer in SLC mode"
                    .into(),
            );
        }
        if firmware.map_bytes > 0 {
            firmware.map_bytes = 0;
            notes.push(
                "all of the map is in memory: an image tells of the sectors of users alone, so that pages of the \
                 map have no place in it"
                    .into(),
            );
        }
        if firmware.checkpoint_sectors.take().is_some() {
            notes.push("the map is not written: the image tells what was trimmed".into());
        }
    }
    if let Some(fssd) = &mut served.ftl.fssd {
        if served.nand.sector_bytes != 4096 {
            served.nand.sector_bytes = 4096;
            notes.push(
                "sectors of the map and the log have 4096 bytes: an image has none of 512, which clients \
                 may write all the same"
                    .into(),
            );
        }
        if fssd.victims == Side::Host {
            fssd.victims = Side::Drive;
            notes.push(
                "the drive's collector chooses its victims: there is no host to do so".into(),
            );
        }
        if fssd.scheduler == Side::Host {
            fssd.scheduler = Side::Drive;
            notes.push(
                "requests go to the drive as they come: there is no host to order them".into(),
            );
        }
        if !fssd.volatile {
            fssd.volatile = true;
            notes.push(
                "a flush programs what was written: the drive's protected buffer would be memory of this \
                 process"
                    .into(),
            );
        }
    }
    if let Some(cache) = &mut served.device.cache
        && cache.capacitor
    {
        cache.capacitor = false;
        notes.push(
            "the drive has no capacitors: a flush writes its cache back, which is memory of this \
             process"
                .into(),
        );
    }
    served
}

/// Sets the number of blocks to the least that gives the capacity. An error says what was in the way
/// last, if anything was.
fn blocks_for(system: &mut DriveConfig, wanted: u64) -> Result<(), Option<BadValue>> {
    let n = &system.nand;
    let luns = u64::from(n.channels * n.luns_per_channel);
    let unit = u64::from(n.page_bytes) * u64::from(n.planes);
    let per_block = (unit * luns * u64::from(n.pages_per_block)) >> SECTOR_SHIFT;
    let share = 1.0 - system.ftl.over_provisioning / 100.0;
    let blocks = (wanted as f64 / (per_block.max(1) as f64 * share)) as u32;
    // One more than are tried still gives the reason why so many cannot be.
    system.nand.blocks = blocks.min(MOST_BLOCKS) + 1;
    let mut last = None;
    // Metadata and parity take their part, bad blocks theirs.
    for _ in 0..200 {
        match capacity(system) {
            Ok(sectors) if sectors >= wanted => return Ok(()),
            Ok(sectors) => {
                let missing = (wanted - sectors) as f64 / (sectors.max(1) as f64);
                let more = (f64::from(system.nand.blocks) * missing * 0.9) as u32;
                system.nand.blocks += more.max(1);
            }
            Err(why) => {
                last = Some(why);
                system.nand.blocks += (system.nand.blocks / 50).max(1);
            }
        }
        if system.nand.blocks > MOST_BLOCKS {
            break;
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::{SECTOR, Span};
    use wordline_nand::DecoderConfig;

    #[test]
    fn a_served_drive_has_no_decoders_and_a_note_says_so() {
        let mut system = crate::recover::tests::system();
        system.nand.decoder = Some(DecoderConfig { t_iteration: Span::from_us(1), engines: 1 });
        let mut notes = Vec::new();
        assert_eq!(served(&system, &mut notes).nand.decoder, None);
        assert!(notes.iter().any(|note| note.contains("nand.decoder")), "{notes:?}");
    }

    #[test]
    fn what_a_size_makes_of_a_drive_is_told() {
        let system = crate::recover::tests::system();
        let whole = capacity(&served(&system, &mut Vec::new())).unwrap() << SECTOR_SHIFT;
        let all = fit(&system, whole).unwrap();
        assert_eq!((all.warning, all.drive.nand.blocks), (None, system.nand.blocks));
        let more = fit(&system, whole + SECTOR).unwrap();
        let warning = more.warning.unwrap();
        assert!(warning.contains(&format!("--size {whole} serves all")), "{warning}");
        assert!(more.drive.nand.blocks > system.nand.blocks);
        // A small drive has other shares than its profile.
        let small = fit(&system, 16 << 20).unwrap();
        let share = 100.0 * beside(&small.drive, 16 << 20);
        let bytes = Geometry::new(&small.drive.nand).unwrap().bytes() as f64;
        assert!((share - 100.0 * (1.0 - f64::from(16 << 20) / bytes)).abs() < 1e-9);
        let told = format!("{share:.1} % of the drive's flash is spare");
        assert!(small.notes.iter().any(|note| note.contains(&told)), "{:?}", small.notes);
    }
}
