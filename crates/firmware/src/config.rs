//! The `[ftl.firmware]` section of a profile.

use crate::space::Space;
use serde::{Deserialize, Serialize};
use wordline_base::{BadValue, Span};
use wordline_nand::Geometry;
use wordline_translation::Capacity;

/// Which LUN the next unit goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Allocation {
    /// The next one in turn that is idle, one without reads before others.
    Dynamic,
    /// The next one in turn, which is waited for.
    Static,
}

/// Which superblock is collected next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Victim {
    /// The one with the least in use.
    Greedy,
    /// The one with the largest (1 - u) age / (1 + u), u its share in use (Rosenblum and Ousterhout).
    CostBenefit,
}

/// `[ftl.firmware]`: the FTL of a conventional drive.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FirmwareConfig {
    /// LUNs of a superblock, a divisor of all. Absent: all.
    pub superblock_luns: Option<u32>,
    /// Sectors of the write buffer. Absent: two units a LUN.
    pub buffer_sectors: Option<u32>,
    /// Capacitors keep the buffer through a power cut: what is in it is durable.
    pub protected: bool,
    /// Which LUN the next unit goes to.
    pub allocation: Allocation,
    /// A sector is hot, and goes to superblocks of its own, if its last copy is in the buffer or in one of
    /// the superblocks that were opened last for users, or for what the collector moves out of such; so many percent of
    /// all count as these. 0: off.
    pub hot_share: f64,
    /// Which superblock the collector takes next.
    pub victim: Victim,
    /// The collector works in steps, as much as users write. Otherwise users wait until it has freed a
    /// whole superblock whenever no more than `gc_reserve` are free.
    pub paced: bool,
    /// Superblocks' worth of free units below which the collector works. Absent: the lower mark, and above it two a group
    /// of LUNs (four where hot data are apart) or a twentieth of what is spare, and one where wear is levelled or data are
    /// written anew.
    pub gc_start: Option<u32>,
    /// Free superblocks that are the collector's. Absent: 2.
    pub gc_reserve: Option<u32>,
    /// When the superblock erased least often lags behind the one erased most often by more, what is in it is
    /// moved, while there is room; users' data go to superblocks erased seldom, the collector's to others.
    /// 0: off.
    pub wear_spread: u32,
    /// Reads of a block since its erasure after which what is in use in its superblock is written anew, before reads
    /// disturb it. 0: off.
    pub read_limit: u32,
    /// Days within which all that is on flash is written anew, before it fades. 0: off.
    pub refresh_days: f64,
    /// Units that the collector has in memory. Absent: two a LUN, one that is read and one that is programmed.
    pub gc_units: Option<u32>,
    /// Units that the collector may owe users before they wait, and so the most that it reads at a time. Absent: one
    /// a LUN.
    pub gc_lag: Option<u32>,
    /// Blocks erased at a time, while users neither wait nor are without space.
    pub gc_erases: u32,
    /// Sectors that users write between two writes of the whole map to flash, which goes page by page in
    /// turn. They tell of trims after a power cut. Absent: the map is not written, and what was trimmed
    /// may come back.
    pub checkpoint_sectors: Option<u64>,
    /// Bytes of memory for the map, which is on flash then, with the pages used last in memory; a command waits for
    /// those of its sectors. 0, or enough for all of its pages: it is in memory.
    pub map_bytes: u64,
    /// After this long without a command the collector goes on by itself, up to `idle_free`.
    pub idle_after: Span,
    /// Up to so many percent of what is spare above `gc_start`; 0: up to `gc_start`. Absent, or `none`: it does not.
    pub idle_free: Option<f64>,
    /// Percent of the superblocks that are always written with a bit a cell (`[nand.slc]`), out of what is
    /// spare. Users' data go there first and are moved to others while users are away. 0: none.
    pub slc_static: f64,
    /// Others are written so too: as many as take no more than so many percent of what is free above
    /// `gc_start` without them. They become fewer as the drive fills. 0: none.
    pub slc_dynamic: f64,
}

impl Default for FirmwareConfig {
    fn default() -> FirmwareConfig {
        FirmwareConfig {
            superblock_luns: None,
            buffer_sectors: None,
            protected: true,
            allocation: Allocation::Dynamic,
            hot_share: 0.0,
            victim: Victim::Greedy,
            paced: true,
            gc_start: None,
            gc_reserve: None,
            wear_spread: 0,
            read_limit: 0,
            refresh_days: 0.0,
            gc_units: None,
            gc_lag: None,
            gc_erases: 1,
            checkpoint_sectors: None,
            map_bytes: 0,
            idle_after: Span::from_ms(100),
            idle_free: None,
            slc_static: 0.0,
            slc_dynamic: 0.0,
        }
    }
}

/// What follows from configuration and geometry.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Plan {
    /// User capacity.
    pub sectors: u64,
    /// Sectors of users' buffer.
    pub slots: u32,
    /// Sectors of the collector's buffer.
    pub gc_slots: u32,
    /// Free superblocks that users do not open.
    pub reserve: u32,
    /// Units of as many.
    pub kept: u64,
    /// Free units below which the collector works.
    pub start: u64,
    /// Free units at which it does twice what keeps their number.
    pub low: u64,
    /// `start` is to be at least so many, or a superblock that is opened takes users' room before the pace makes some.
    pub calm: u64,
    /// Free units up to which it works while the drive is idle.
    pub idle: u64,
    /// Sectors that the collector may owe.
    pub lag: u32,
    /// From one step of what is written anew for its age to the next; zero: there are none.
    pub tick: Span,
    /// So many superblocks that were opened last for users, or for hot data that are moved, are young.
    pub young: u64,
    /// Pages of the map on flash.
    pub pages: u32,
    /// Entries of a page.
    pub entries: u32,
    /// User sectors in which all these pages are written once.
    pub checkpoint: u64,
    /// Pages that memory has room for, if not for all the map.
    pub room: u32,
    /// Sectors of the buffer of pages that give way: a unit a LUN, so that all LUNs can write them, but no more than
    /// memory holds pages.
    pub map_slots: u32,
    /// Superblocks of pages of the map that are not collected.
    pub map_blocks: u64,
    /// Lines whose superblocks are always written with a bit a cell.
    pub slc_lines: u32,
    /// Other superblocks may be written with a bit a cell, too.
    pub borrows: bool,
}

fn bad(key: &'static str, why: impl Into<String>) -> BadValue {
    BadValue::new(key, why.into()).below("firmware")
}

impl Plan {
    /// LUNs of a superblock.
    pub fn luns(g: &Geometry, c: &FirmwareConfig) -> Result<u32, BadValue> {
        if g.in_place {
            let why = "needs a medium that is erased: set nand.in_place to false";
            return Err(bad("superblock_luns", why));
        }
        let luns = c.superblock_luns.unwrap_or(g.luns);
        match luns > 0 && g.luns.is_multiple_of(luns) {
            true => Ok(luns),
            false => Err(bad(
                "superblock_luns",
                format!("is {luns}, must divide the number of LUNs, {}", g.luns),
            )),
        }
    }
    /// Lines whose superblocks are always written with a bit a cell.
    pub fn slc_lines(g: &Geometry, c: &FirmwareConfig) -> Result<u32, BadValue> {
        for (key, share) in [("slc_static", c.slc_static), ("slc_dynamic", c.slc_dynamic)] {
            if !(0.0..=100.0).contains(&share) {
                return Err(bad(key, "must be 0 to 100 percent"));
            }
            if share > 0.0 && g.slc_pages == 0 {
                let why = "needs a medium whose blocks can be written with a bit a cell: give it [nand.slc], \
                           or set ftl.firmware.slc_static and slc_dynamic to 0";
                return Err(bad(key, why));
            }
        }
        let lines = (f64::from(g.lines) * c.slc_static / 100.0).ceil() as u32;
        match lines < g.lines {
            true => Ok(lines),
            false => Err(bad("slc_static", "leaves no superblock for native cells: set it lower")),
        }
    }
    /// Memory has room for a part of the map of a drive without bad blocks, the largest that there is.
    pub fn holds_part(g: &Geometry, c: &FirmwareConfig, over_provisioning: f64) -> bool {
        let sectors = (g.sectors() as f64 * (1.0 - over_provisioning / 100.0)) as u64;
        let page = g.sector.bytes();
        c.map_bytes > 0 && c.map_bytes / page < sectors.div_ceil(page / 4)
    }
    /// Users' data go to superblocks with a bit a cell first.
    #[inline]
    pub fn has_slc(&self) -> bool {
        self.slc_lines > 0 || self.borrows
    }
    /// Units that are free while users write: halfway between the marks the collector frees as many as
    /// they take. Unpaced it frees a superblock when no more than the reserve are left.
    fn free_in_use(&self, c: &FirmwareConfig) -> u64 {
        if c.paced { (self.start + self.low) / 2 } else { self.kept }
    }
    /// Units of superblocks of the map, where memory has room for a part of it: of those that are closed as many as
    /// are let alone, and half of the one that is written.
    fn maps_in_use(&self, block: u64) -> u64 {
        if self.room > 0 { self.map_blocks * block + block / 2 } else { 0 }
    }
    pub fn new(
        g: &Geometry,
        c: &FirmwareConfig,
        over_provisioning: f64,
        space: &Space,
        capacity: Capacity,
    ) -> Result<Plan, BadValue> {
        let unit = g.sectors_per_unit;
        let gc_lag = c.gc_lag.unwrap_or(g.luns);
        for (key, value) in [("gc_lag", gc_lag), ("gc_erases", c.gc_erases)] {
            if !(1..=1 << 20).contains(&value) {
                return Err(bad(key, format!("is {value}, must be from 1 to {}", 1 << 20)));
            }
        }
        if !(0.0..=100.0).contains(&c.hot_share) {
            return Err(bad("hot_share", "must be 0 to 100 percent"));
        }
        if !(c.refresh_days.is_finite() && c.refresh_days >= 0.0) {
            return Err(bad("refresh_days", "must be 0 or more"));
        }
        // What moves data that stay in use, and so frees nothing.
        let moves = [
            ("wear_spread", c.wear_spread > 0),
            ("read_limit", c.read_limit > 0),
            ("refresh_days", c.refresh_days > 0.0),
        ];
        let moves = moves.iter().find(|(_, on)| *on).map(|(key, _)| *key);
        if let Some(key) = moves.filter(|_| !c.paced) {
            let why = "needs a collector that keeps pace, since to move what stays in use frees nothing: set \
                       ftl.firmware.paced to true, or it to 0";
            return Err(bad(key, why));
        }
        if c.idle_after == Span::ZERO {
            return Err(bad("idle_after", "must be above 0"));
        }
        let slots = c.buffer_sectors.unwrap_or(2 * g.luns.max(2) * unit);
        if slots < 4 * unit || slots > 1 << 26 {
            let why = format!("is {slots}, must be {} (four write units) to {}", 4 * unit, 1 << 26);
            return Err(bad("buffer_sectors", why));
        }
        let gc_units = c.gc_units.unwrap_or((2 * g.luns).max(4));
        if !(2..=1 << 20).contains(&gc_units) {
            return Err(bad("gc_units", format!("is {gc_units}, must be 2 to {}", 1 << 20)));
        }
        // The largest superblock, and all that can be written.
        let native = || (0..space.superblocks.count()).filter(|&s| !space.is_static(s));
        let sizes = || native().map(|s| u64::from(space.units_of(s)));
        let (block, units): (u64, u64) = (sizes().max().unwrap_or(0), sizes().sum());
        let slc_lines = Plan::slc_lines(g, c)?;
        // Written as the others they would be the capacity's.
        let lent = (0..space.superblocks.count()).filter(|&s| space.is_static(s));
        let lent =
            lent.map(|s| u64::from(space.units_of(s) / g.slc_pages.max(1) * g.pages)).sum::<u64>();
        let groups = u64::from(space.groups);
        let reserve = u64::from(c.gc_reserve.unwrap_or(2));
        if reserve < 2 {
            let why = "must be at least 2: what is moved needs one, and another while that is open";
            return Err(bad("gc_reserve", why));
        }
        // Open ones: of users in each group, and the collector's; where hot data are apart two of each.
        let kinds = if c.hot_share > 0.0 { 2 } else { 1 };
        let open = kinds * (groups + 1);
        let share = 1.0 - over_provisioning / 100.0;
        let total = (units + lent) * u64::from(unit);
        let made = capacity == Capacity::Fresh;
        let sectors = capacity.sectors().unwrap_or((total as f64 * share) as u64);
        // An entry is of 4 bytes.
        let entries = (g.sector.bytes() / 4) as u32;
        let all_pages = sectors.div_ceil(entries.into()) as u32;
        let page = g.sector.bytes();
        if c.map_bytes > 0 && c.map_bytes < 2 * page {
            let why = format!("is {}, must hold two pages of the map: {}", c.map_bytes, 2 * page);
            return Err(bad("map_bytes", why + ", or be 0, for a map that is in memory"));
        }
        // Where memory has room for all pages none ever gives way: that is a map in memory.
        let room = match c.map_bytes / page {
            room if room < u64::from(all_pages) => room as u32,
            _ => 0,
        };
        let pages = match c.checkpoint_sectors {
            None if room == 0 => 0,
            _ => all_pages,
        };
        // Superblocks that hold it three times; one that is written, and those that moving takes.
        let map_blocks = (3 * u64::from(pages)).div_ceil(block.max(1) * u64::from(unit));
        let of_maps = match room {
            0 => 0,
            _ => map_blocks + 4,
        };
        let checkpoint = c.checkpoint_sectors.unwrap_or(u64::MAX);
        if checkpoint < u64::from(pages) {
            let why = format!(
                "is {checkpoint}, must be at least {pages}: the map has so many pages, and a sector of users' writes one \
                 of them at most"
            );
            return Err(bad("checkpoint_sectors", why));
        }
        let reserve = reserve + of_maps;
        let held = sectors + u64::from(pages);
        let spare = units.saturating_sub(held.div_ceil(u64::from(unit)));
        // To fold takes room before it frees any.
        let folds = if slc_lines > 0 { 2 } else { 0 };
        let maps = if room > 0 { 1 } else { 0 };
        let needed = (reserve + open + folds + maps + if made { 1 } else { 0 }) * block;
        // What is left in open superblocks of the collector and of the map is no users' room.
        let low = (reserve + kinds + maps) * block;
        // Without capacitors users are let in only while what is in the buffer has a place beside what is left in open
        // superblocks of the collector, one more of which is opened each time.
        let opened = if c.protected { 0 } else { kinds - 1 + maps };
        let above = low + (u64::from(moves.is_some()) + opened) * block;
        // With that many users have theirs open in each group.
        let range = folds.max(2 * kinds * groups) * block;
        let start = match c.gc_start {
            Some(blocks) => u64::from(blocks) * block,
            None => (above + range.max(spare / 20)).min(spare),
        };
        let is_enough = || {
            if slc_lines > 0 && spare < needed && spare + lent >= needed {
                let why = format!(
                    "{} % are {slc_lines} of {} superblocks, which leave {} spare where {} are needed: set it \
                     lower, or ftl.over_provisioning higher",
                    c.slc_static,
                    g.lines,
                    spare / block.max(1),
                    needed / block.max(1)
                );
                return Err(bad("slc_static", why));
            }
            let own = c.gc_reserve.map_or(0, |blocks| u64::from(blocks.saturating_sub(2)) * block);
            if own > 0 && spare < needed && spare + own >= needed {
                let why = format!(
                    "is {}, and with it {} superblocks have to be spare where there are {}: set it lower, or \
                     ftl.over_provisioning higher",
                    reserve - of_maps,
                    needed / block.max(1),
                    spare / block.max(1)
                );
                return Err(bad("gc_reserve", why));
            }
            if sectors == 0 || spare < needed {
                // With their pages of the map users have what is not needed.
                let mapped = if pages > 0 { 1.0 + 1.0 / f64::from(entries) } else { 1.0 };
                let most = (units.saturating_sub(needed) * u64::from(unit)) as f64 / mapped;
                let percent = 100.0 * (1.0 - most / total.max(1) as f64);
                let why = if units == 0 {
                    "no block is good: lower nand.faults.bad_blocks_ppb".into()
                } else if percent >= 99.0 {
                    "the superblocks are too few to collect with: use more blocks".into()
                } else {
                    format!(
                        "{over_provisioning} % leaves no room to collect: {} superblocks of {} sectors \
                         are needed, {:.2} %",
                        needed / block.max(1),
                        block * u64::from(unit),
                        percent + 0.01
                    )
                };
                return Err(BadValue::new("over_provisioning", why));
            }
            if start <= low || start > spare {
                let why = format!(
                    "is {} superblocks, must be above {} and no more than the {} that are spare",
                    start / block,
                    low / block,
                    spare / block
                );
                return Err(bad("gc_start", why));
            }
            // A superblock that stays in use is moved only where that leaves the room above the lower mark.
            if let Some(key) = moves.filter(|_| start <= low + block) {
                let (start, least) = (start / block, low / block + 1);
                let why = format!("is {start} superblocks, and {key} needs more than {least}");
                return Err(bad("gc_start", why));
            }
            if folds > 0 && start < low + folds * block {
                let (start, least) = (start / block, low / block + folds);
                let why = format!("is {start} superblocks, and folding needs at least {least}");
                return Err(bad("gc_start", why));
            }
            Ok(())
        };
        // A worn drive does not collect.
        let start = match capacity {
            Capacity::Worn(_) => start.max(low + block.max(1)),
            Capacity::Fresh | Capacity::Kept(_) => is_enough().map(|()| start)?,
        };
        let idle = match c.idle_free {
            None => 0,
            Some(share) if (0.0..=100.0).contains(&share) => {
                start + (spare.saturating_sub(start) as f64 * share / 100.0) as u64
            }
            Some(_) => return Err(bad("idle_free", "must be 0 to 100 percent")),
        };
        let tick = match c.refresh_days > 0.0 {
            true => {
                tick(c.refresh_days, u64::from(g.lines * g.units_per_line())).ok_or_else(|| {
                    let why = "must leave 1 us for each write unit of the drive at least";
                    bad("refresh_days", why)
                })?
            }
            false => Span::ZERO,
        };
        let young = (f64::from(space.superblocks.count()) * c.hot_share / 100.0).ceil() as u64;
        Ok(Plan {
            sectors,
            slots,
            gc_slots: gc_units * unit,
            reserve: reserve as u32,
            kept: reserve * block,
            start,
            low,
            calm: above + range,
            idle,
            lag: gc_lag * unit,
            tick,
            young,
            pages,
            entries,
            checkpoint,
            room,
            map_slots: if room > 0 { (g.luns * unit).min(room).max(4 * unit) } else { 0 },
            map_blocks,
            slc_lines,
            borrows: c.slc_dynamic > 0.0,
        })
    }
}

/// Sectors of superblocks that are always written with a bit a cell, as they would be otherwise; what the buffer
/// in SLC mode has room for in them; and in those that a blank drive writes so as well.
pub fn slc_buffer(
    g: &Geometry,
    over_provisioning: f64,
    config: &FirmwareConfig,
) -> Result<[u64; 3], BadValue> {
    let (luns, slc_lines) = (Plan::luns(g, config)?, Plan::slc_lines(g, config)?);
    let space = Space::new(g, luns, slc_lines, &mut |_, _| false);
    let plan = Plan::new(g, config, over_provisioning, &space, Capacity::Fresh)?;
    let unit = u64::from(g.sectors_per_unit);
    let lent = u64::from(slc_lines) * u64::from(g.sectors_per_line);
    let of_line = u64::from(g.luns * g.slc_pages) * unit;
    let block = u64::from(space.places());
    let free = space.room.saturating_sub(plan.start);
    let borrowed = (free as f64 * config.slc_dynamic / 100.0 / block as f64).floor() as u64;
    let of_block = u64::from(luns * g.slc_pages) * unit;
    Ok([lent, u64::from(slc_lines) * of_line, borrowed * of_block])
}

/// Sectors that neither hold data nor are spare of what does, while users write at random to a full drive: those that
/// stay free, with what streams have open, and superblocks of the map.
pub fn held_in_use(
    g: &Geometry,
    over_provisioning: f64,
    config: &FirmwareConfig,
) -> Result<u64, BadValue> {
    let (luns, slc_lines) = (Plan::luns(g, config)?, Plan::slc_lines(g, config)?);
    let space = Space::new(g, luns, slc_lines, &mut |_, _| false);
    let plan = Plan::new(g, config, over_provisioning, &space, Capacity::Fresh)?;
    let held = plan.free_in_use(config) + plan.maps_in_use(space.places().into());
    Ok(held * u64::from(g.sectors_per_unit))
}

const DAY_NS: f64 = 86_400e9;

/// The time from one tick to the next for data that are written anew within so many days. The bounds are chosen: a
/// tick is an event, and a drive does not write a unit in a microsecond.
fn tick(days: f64, units: u64) -> Option<Span> {
    let tick = days * DAY_NS / units.max(1) as f64;
    (1_000.0..1e15).contains(&tick).then_some(Span(tick as u64))
}
