//! Addresses. A *LUN* is one die (or a gang of dies in lock step); LUN `i` sits on channel
//! `i mod channels`. A *unit* is what one program writes: the same page of every plane of a LUN. A
//! *stripe* is the same page of all LUNs, a *line* the same block of all LUNs.
//!
//! A physical page address counts sectors in the order a line is written: sector in unit, then
//! LUN, then page, then line. Writing a line is therefore counting up, and every component of an
//! address is a division by a constant.

use crate::config::NandConfig;
use wordline_base::{BadValue, Id, SectorSize, Span};

/// A physical sector.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ppa(pub u32);

impl Id for Ppa {
    #[inline]
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// A write unit: `Ppa / sectors_per_unit`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UnitId(pub u32);

/// A LUN, by its number in the drive.
pub type LunId = u32;
/// A channel, by its number in the drive.
pub type ChannelId = u32;
/// What is erased together: a block of each LUN, by the number that they have in theirs.
pub type LineId = u32;
/// A block among those of all LUNs, line by line.
pub type BlockId = u32;

/// The shape of a drive's flash, from which addresses follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Channels that work independently (board channels / gang).
    pub channels: u32,
    /// LUNs of the drive.
    pub luns: u32,
    /// Lines of the drive: blocks of a LUN.
    pub lines: u32,
    /// Pages of a block: stripes of a line.
    pub pages: u32,
    /// Pages of a block that is written with a bit a cell, the first ones; 0: none can be.
    pub slc_pages: u32,
    /// Bytes of a sector.
    pub sector: SectorSize,
    /// Sectors of a write unit: a page of each plane of a LUN.
    pub sectors_per_unit: u32,
    /// Sectors of a stripe: a unit of each LUN.
    pub sectors_per_stripe: u32,
    /// Sectors of a line: its stripes.
    pub sectors_per_line: u32,
    /// Planes of a LUN, counting each die of a gang.
    pub planes: u32,
    /// Units are written over: pages have no order, and blocks are not erased.
    pub in_place: bool,
}

impl Geometry {
    /// Checks what the addresses need; the message names the key and the remedy.
    pub fn new(c: &NandConfig) -> Result<Geometry, BadValue> {
        let positive = [
            ("channels", c.channels),
            ("gang", c.gang),
            ("luns_per_channel", c.luns_per_channel),
            ("planes", c.planes),
            ("blocks", c.blocks),
            ("pages_per_block", c.pages_per_block),
            ("page_bytes", c.page_bytes),
            ("endurance", c.endurance),
        ];
        for (key, value) in positive {
            if value == 0 {
                return Err(BadValue::new(key, "must be at least 1"));
            }
        }
        if c.in_place && c.t_erase > Span::ZERO {
            let message =
                "is for media that are not erased: set t_erase to 0, or in_place to false";
            return Err(BadValue::new("in_place", message));
        }
        if c.in_place && c.cell.bits() > 1 {
            let message =
                "needs cell = \"slc\": the pages of a word line are written one after another";
            return Err(BadValue::new("in_place", message));
        }
        if !c.channels.is_multiple_of(c.gang) {
            return Err(BadValue::new(
                "gang",
                format!("must divide the number of channels, {}", c.channels),
            ));
        }
        if c.independent_plane_reads && c.planes > 64 {
            let message = "must be at most 64 where independent_plane_reads is set";
            return Err(BadValue::new("planes", message));
        }
        if (1..512).contains(&c.transfer_bytes) {
            return Err(BadValue::new("transfer_bytes", "must be 0 (all at once) or at least 512"));
        }
        if c.suspend.any() && c.suspend.most == 0 {
            let message = "must be at least 1 for a read to go ahead: or switch off queue, program, \
                           dma and erase";
            return Err(BadValue::new("suspend.most", message));
        }
        if c.channel_rate < 1_000_000 {
            let message = "is bytes a second, a million at least: 800 MT/s of 8 pins are 800000000";
            return Err(BadValue::new("channel_rate", message));
        }
        let unit_bytes = u64::from(c.page_bytes) * u64::from(c.planes) * u64::from(c.gang);
        let Some(sector) = c.sector() else {
            let message = format!("must be 512, 1024, 2048 or 4096, not {}", c.sector_bytes);
            return Err(BadValue::new("sector_bytes", message));
        };
        if !unit_bytes.is_multiple_of(sector.bytes()) {
            return Err(BadValue::new(
                "page_bytes",
                format!(
                    "a write unit (page_bytes x planes x gang = {unit_bytes} bytes) must be a \
                     multiple of the {}-byte sector",
                    sector.bytes()
                ),
            ));
        }
        if c.slc.is_some() && c.cell == crate::Cell::Slc {
            let message =
                "is a mode of cells with more bits: set cell to mlc, tlc or qlc, or it to none";
            return Err(BadValue::new("slc", message));
        }
        if c.slc.is_some() && c.pages_per_block < c.cell.bits() as u32 {
            let message = format!(
                "is {}, and a block with a bit a cell would have no page: at least {}, or set slc to none",
                c.pages_per_block,
                c.cell.bits()
            );
            return Err(BadValue::new("pages_per_block", message));
        }
        if c.slc.as_ref().is_some_and(|slc| slc.endurance == 0) {
            return Err(BadValue::new("slc.endurance", "must be at least 1"));
        }
        for (key, per_page) in [("t_read", &c.t_read), ("t_program", &c.t_program)] {
            if let crate::PerPage::Each(spans) = per_page
                && spans.len() != c.cell.bits()
            {
                return Err(BadValue::new(
                    key,
                    format!(
                        "has {} times, but a cell of {} bits has {} page types: give one time or \
                         {} of them",
                        spans.len(),
                        c.cell.bits(),
                        c.cell.bits(),
                        c.cell.bits()
                    ),
                ));
            }
        }
        let channels = c.channels / c.gang;
        let luns = u64::from(channels) * u64::from(c.luns_per_channel);
        let unit = sector.of(unit_bytes);
        let stripe = luns * unit;
        let line = stripe * u64::from(c.pages_per_block);
        let all = line.saturating_mul(u64::from(c.blocks));
        // The topmost 2^28 values of a 32-bit mapping entry name write-buffer entries.
        if all > 0xF000_0000 {
            return Err(BadValue::new(
                "blocks",
                format!(
                    "{all} sectors of {} bytes are more than a 32-bit map addresses ({} TiB)",
                    sector.bytes(),
                    sector.bytes_of(0xF000_0000u32) as f64 / (1u64 << 40) as f64
                ),
            ));
        }
        if luns > 1 << 16 || line > 1 << 31 {
            return Err(BadValue::new(
                "luns_per_channel",
                "more than 65536 LUNs or 2^31 sectors a line",
            ));
        }
        Ok(Geometry {
            channels,
            luns: luns as u32,
            lines: c.blocks,
            pages: c.pages_per_block,
            slc_pages: c.slc.as_ref().map_or(0, |_| c.pages_per_block / c.cell.bits() as u32),
            sector,
            sectors_per_unit: unit as u32,
            sectors_per_stripe: stripe as u32,
            sectors_per_line: line as u32,
            planes: c.planes * c.gang,
            in_place: c.in_place,
        })
    }

    /// Sectors of all blocks.
    pub fn sectors(&self) -> u64 {
        u64::from(self.sectors_per_line) * u64::from(self.lines)
    }
    /// Bytes of all blocks.
    pub fn bytes(&self) -> u64 {
        self.sector.bytes_of(self.sectors())
    }
    /// Bytes of a write unit.
    pub fn unit_bytes(&self) -> u64 {
        self.sector.bytes_of(self.sectors_per_unit)
    }
    /// Write units of a line.
    pub fn units_per_line(&self) -> u32 {
        self.luns * self.pages
    }
    /// The channel that a LUN is on.
    pub fn channel_of(&self, lun: LunId) -> ChannelId {
        lun % self.channels
    }
    /// The line of a sector.
    #[inline]
    pub fn line_of(&self, ppa: Ppa) -> LineId {
        ppa.0 / self.sectors_per_line
    }
    /// The write unit of a sector.
    #[inline]
    pub fn unit_of(&self, ppa: Ppa) -> UnitId {
        UnitId(ppa.0 / self.sectors_per_unit)
    }
    /// The LUN of a sector.
    #[inline]
    pub fn lun_of(&self, ppa: Ppa) -> LunId {
        ppa.0 / self.sectors_per_unit % self.luns
    }
    /// The page within its block, which is the stripe within its line.
    #[inline]
    pub fn page_of(&self, ppa: Ppa) -> u32 {
        ppa.0 % self.sectors_per_line / self.sectors_per_stripe
    }
    /// The first sector of a write unit.
    pub fn first_of_unit(&self, unit: UnitId) -> Ppa {
        Ppa(unit.0 * self.sectors_per_unit)
    }
    /// The unit of `lun` in stripe `page` of `line`.
    pub fn unit_at(&self, line: LineId, page: u32, lun: LunId) -> UnitId {
        UnitId((line * self.pages + page) * self.luns + lun)
    }
}

#[cfg(test)]
pub(crate) fn small() -> NandConfig {
    use crate::config::{Cell, PerPage};
    NandConfig {
        cell: Cell::Mlc,
        channels: 4,
        gang: 1,
        gang_skew: Span::ZERO,
        remap: false,
        luns_per_channel: 2,
        planes: 2,
        blocks: 8,
        pages_per_block: 16,
        sector_bytes: 4096,
        page_bytes: 16384,
        t_read: PerPage::One(Span::from_us(50)),
        t_program: PerPage::Each(vec![Span::from_us(400), Span::from_us(900)]),
        t_erase: Span::from_ms(3),
        in_place: false,
        channel_rate: 400_000_000,
        transfer_bytes: 0,
        channel_order: Default::default(),
        cache_register: false,
        independent_plane_reads: false,
        t_command: Span(200),
        suspend: Default::default(),
        endurance: 3000,
        power: Default::default(),
        faults: Default::default(),
        errors: Default::default(),
        decoder: None,
        variation: Default::default(),
        slc: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip() {
        let g = Geometry::new(&small()).unwrap();
        assert_eq!((g.luns, g.sectors_per_unit, g.sectors_per_line), (8, 8, 8 * 8 * 16));
        for line in 0..g.lines {
            for page in 0..g.pages {
                for lun in 0..g.luns {
                    let unit = g.unit_at(line, page, lun);
                    for s in 0..g.sectors_per_unit {
                        let ppa = Ppa(g.first_of_unit(unit).0 + s);
                        assert_eq!(g.unit_of(ppa), unit);
                        assert_eq!(
                            (g.line_of(ppa), g.page_of(ppa), g.lun_of(ppa)),
                            (line, page, lun)
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn impossible_geometries_are_named() {
        let mut c = small();
        c.page_bytes = 1000;
        assert_eq!(Geometry::new(&c).unwrap_err().key, "page_bytes");
        let mut c = small();
        c.gang = 3;
        assert_eq!(Geometry::new(&c).unwrap_err().key, "gang");
        let mut c = small();
        c.t_program = crate::PerPage::Each(vec![]);
        assert_eq!(Geometry::new(&c).unwrap_err().key, "t_program");
        let mut c = small();
        c.blocks = u32::MAX;
        assert_eq!(Geometry::new(&c).unwrap_err().key, "blocks");
    }
}
