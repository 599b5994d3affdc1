//! The firmware of a conventional drive rebuilt from what a driver keeps: each sector with its version.

use crate::{FtlConfig, Translation, Translator};
use wordline_base::{BadValue, BitMap, IdVec, Lpn, Stamps};
use wordline_firmware::{Firmware, FirmwareConfig, Kept, Media, Spare};
use wordline_fssd::KeptVersions;
use wordline_nand::{BlockId, Geometry, Ppa};
use wordline_translation::Capacity;

/// Flash as recovery is to see it. Programs may end in another order than they began in, so that of the
/// copies of a sector only that with the highest version is shown.
struct Newest<'a> {
    g: &'a Geometry,
    kept: &'a KeptVersions<'a>,
    /// By logical sector its newest version, the order and the place of that.
    newest: IdVec<Lpn, (u32, u64, Ppa)>,
    /// Orders of units that can be read, ascending.
    orders: Vec<u64>,
    /// Blocks of which something can be read.
    read: BitMap,
}

impl Newest<'_> {
    fn held(&self, ppa: Ppa) -> Option<(Lpn, u32, u64)> {
        (self.kept.held)(ppa).filter(|(lpn, ..)| u64::from(lpn.0) < self.kept.sectors)
    }
    fn block_of(&self, ppa: Ppa) -> BlockId {
        self.g.line_of(ppa) * self.g.luns + self.g.lun_of(ppa)
    }
    fn is_newest(&self, ppa: Ppa, (lpn, stamp, _): (Lpn, u32, u64)) -> bool {
        self.newest[lpn].2 == ppa && !(self.kept.trimmed)(lpn, stamp)
    }
}

impl Media for Newest<'_> {
    /// A bad block of which something can be read is one in which a program failed.
    fn is_bad(&self, block: BlockId) -> bool {
        (self.kept.bad)(block) && !self.read.get(block as usize)
    }
    fn is_failed(&self, block: BlockId) -> bool {
        (self.kept.bad)(block) && self.read.get(block as usize)
    }
    fn erases(&self, block: BlockId) -> u32 {
        self.kept.erases[block]
    }
    fn pages(&self, block: BlockId) -> u32 {
        self.kept.programmed[block]
    }
    /// Served without a buffer in SLC mode.
    fn is_slc(&self, _: BlockId) -> bool {
        false
    }
    fn spare(&self, ppa: Ppa) -> Option<Spare> {
        let all = || (ppa.0..ppa.0 + self.g.sectors_per_unit).map(Ppa);
        let order = all().find_map(|ppa| self.held(ppa))?.2;
        let order = self.orders.partition_point(|&other| other < order) as u32 + 1;
        let sectors = all().map(|ppa| {
            let held = self.held(ppa)?;
            self.is_newest(ppa, held).then_some((held.0, held.1))
        });
        let voids = Vec::new();
        Some(Spare { order, settled: order, sectors: sectors.collect(), voids })
    }
    fn kept(&self) -> Kept {
        Kept::default()
    }
}

/// The drive, and how many sectors it has.
pub(crate) fn firmware(
    g: &Geometry,
    config: &FtlConfig,
    firmware: &FirmwareConfig,
    kept: &KeptVersions,
) -> Result<(Translator, u64), BadValue> {
    let mut media = Newest {
        g,
        kept,
        newest: IdVec::filled((0, 0, Ppa(u32::MAX)), kept.sectors as u32),
        orders: Vec::new(),
        read: BitMap::new((g.lines * g.luns) as usize),
    };
    for ppa in (0..g.sectors() as u32).map(Ppa) {
        let Some((lpn, stamp, order)) = media.held(ppa) else { continue };
        let block = media.block_of(ppa);
        media.read.set(block as usize);
        media.orders.push(order);
        let best = &mut media.newest[lpn];
        if best.2.0 == u32::MAX || (best.0, best.1) < (stamp, order) {
            *best = (stamp, order, ppa);
        }
    }
    media.orders.sort_unstable();
    media.orders.dedup();
    let mut stamps = Stamps::new(kept.sectors);
    let op = config.over_provisioning;
    let capacity = Capacity::of(kept.sectors, kept.worn);
    let mut ftl = Firmware::recover(g, op, firmware, capacity, &media, &mut stamps)?;
    ftl.tell_versions();
    let all = (0..kept.sectors as u32).map(Lpn);
    let mapped = all.filter(|&lpn| ftl.newest_at(lpn).is_some()).count() as u64;
    Ok((Translator::Other(Box::new(ftl)), mapped))
}
