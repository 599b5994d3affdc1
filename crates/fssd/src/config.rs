//! The `[ftl.fssd]` section of a profile.

use crate::tree::Tree;
use serde::{Deserialize, Serialize};
use wordline_base::{BadValue, SECTOR, Span};
use wordline_nand::Geometry;

/// `[ftl.fssd]`: flash software after FSSD.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FssdConfig {
    /// Bytes of a node of the map, a power of two from 256 to 65536.
    pub node_bytes: u32,
    /// Channel groups, each with an open segment of its own for users and for the collector; units are
    /// dealt to them in turn. Must divide the channels.
    pub append_points: u32,
    /// A write is complete when it is in the host's buffer, which a power cut empties. Otherwise it has
    /// crossed the link by then, and the drive's capacitors keep it.
    pub volatile: bool,
    /// Bytes of units that are not programmed at which writes wait.
    pub buffer_bytes: u64,
    /// Bytes of host memory that map, buffer and tables may take. The buffer has what the map leaves of them;
    /// a write for which the map would need more fails. Absent: no limit.
    pub host_memory: Option<u64>,
    /// Free segments below which the collector works. Absent: a quarter of what is spare above the reserve, or up to a
    /// third where a victim of each group needs more; and at least four segments of it, or two where there are no more.
    pub gc_start: Option<u32>,
    /// Free segments that are the collector's. Absent: what the least victim may need.
    pub gc_reserve: Option<u32>,
    /// Units that the collector reads or has not programmed, at a time.
    pub gc_units: u32,
    /// Where the collector runs, if the map is on the host.
    pub collector: Side,
    /// Who says what is collected and when, if the map is in the drive, which moves it.
    pub victims: Side,
    /// Units that users take between two reports to a host that says so.
    pub report_units: u32,
    /// Who orders requests by LUN, if the map is in the drive. The host knows what completions have told.
    pub scheduler: Side,
    /// Places that a scheduler on the host remembers.
    pub places: u32,
    /// Reads that a scheduler on the host sends to a LUN at a time while others have work.
    pub lun_reads: u32,
    /// For how long a scheduler on the host holds a request at most.
    pub hold: Span,
    /// What takes a core of the host a second takes a firmware core so many.
    pub firmware_factor: f64,
    /// Sectors written by users between two checkpoints of the map; as many as the map takes on flash, if those
    /// are more. Absent: the capacity.
    pub checkpoint_sectors: Option<u64>,
}

/// A side of the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The computer's processor.
    Host,
    /// What is collected stays in the drive, which tells of its moves.
    Drive,
}

impl Default for FssdConfig {
    fn default() -> FssdConfig {
        FssdConfig {
            node_bytes: 4096,
            append_points: 1,
            volatile: false,
            buffer_bytes: 1 << 30,
            host_memory: None,
            gc_start: None,
            gc_reserve: None,
            gc_units: 32,
            collector: Side::Host,
            victims: Side::Drive,
            report_units: 8,
            scheduler: Side::Drive,
            places: 65_536,
            lun_reads: 2,
            hold: Span::from_ms(2),
            firmware_factor: 1.0,
            checkpoint_sectors: None,
        }
    }
}

impl FssdConfig {
    /// By so many segments `gc_start` is to be above the reserve, or writes may wait until a whole victim is empty. The
    /// drive rests halfway. Users cannot open what a victim is emptied of, nor what is left of segments that are open,
    /// of which they open one of each group after each other.
    pub(crate) fn above_reserve(&self) -> u32 {
        self.append_points + 3
    }
}

/// Bytes of an extent on flash, and of what a sector of them begins with.
const RECORD: u32 = 12;
const RECORD_HEADER: u32 = 32;
/// Units of the buffer that the map never takes the room of: one of users' and one of the collector's fill
/// while one of each is programmed.
pub(crate) const LEAST_UNITS: u64 = 4;

/// What follows from configuration and geometry.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Plan {
    /// User capacity.
    pub sectors: u64,
    /// Free segments at which the collector begins, and those that are its own.
    pub start: u32,
    pub reserve: u32,
    /// Victims that are emptied at a time, each of another group.
    pub victims: u32,
    /// Units of the buffer.
    pub units: usize,
    /// Bytes of host memory for nodes, units and the tables of checkpoints.
    pub memory: Option<u64>,
    /// Extents that a sector of a checkpoint holds.
    pub extents: usize,
    /// User sectors between two checkpoints.
    pub checkpoint: u64,
    /// Bytes of the tables, those of checkpoints apart.
    pub tables: u64,
}

impl Plan {
    /// What the rest relies on.
    pub fn check(g: &Geometry, c: &FssdConfig) -> Result<(), BadValue> {
        let bad = |key: &'static str, why: String| Err(BadValue::new(key, why).below("fssd"));
        if g.in_place {
            return bad(
                "append_points",
                "a log needs a medium that is erased: nand.in_place must be false".into(),
            );
        }
        if !c.node_bytes.is_power_of_two() || !(Tree::LEAST..=65536).contains(&c.node_bytes) {
            let least = Tree::LEAST;
            return bad("node_bytes", format!("must be a power of two from {least} to 65536"));
        }
        if c.append_points == 0 || !g.channels.is_multiple_of(c.append_points) {
            return bad("append_points", format!("must divide the {} channels", g.channels));
        }
        if !(2..=1 << 20).contains(&c.gc_units) {
            let why = format!(
                "is {}, must be at least 2, and at most {}: one fills while another is programmed",
                c.gc_units,
                1 << 20
            );
            return bad("gc_units", why);
        }
        let counts = [
            ("places", c.places, 1 << 26),
            ("lun_reads", c.lun_reads, 1 << 16),
            ("report_units", c.report_units, 1 << 20),
        ];
        for (key, value, most) in counts {
            if !(1..=most).contains(&value) {
                return bad(key, format!("is {value}, must be 1 to {most}"));
            }
        }
        if g.luns > 1 << 16 && c.scheduler == Side::Host {
            return bad("scheduler", "a completion tells of 65536 LUNs at most".into());
        }
        if !(0.01..=1000.0).contains(&c.firmware_factor) {
            return bad("firmware_factor", "must be from 0.01 to 1000".into());
        }
        if c.checkpoint_sectors == Some(0) {
            return bad("checkpoint_sectors", "must be at least 1".into());
        }
        Ok(())
    }
    fn without_bad_blocks(
        g: &Geometry,
        over_provisioning: f64,
        c: &FssdConfig,
    ) -> Result<Plan, BadValue> {
        Plan::check(g, c)?;
        let good = vec![g.luns / c.append_points; (g.lines * c.append_points) as usize];
        Plan::new(g, c, over_provisioning, &good, None)
    }
    /// `good` is the number of good blocks of each segment. With `sectors` the capacity is known.
    pub fn new(
        g: &Geometry,
        c: &FssdConfig,
        over_provisioning: f64,
        good: &[u32],
        sectors: Option<u64>,
    ) -> Result<Plan, BadValue> {
        let bad = |key: &'static str, why: String| Err(BadValue::new(key, why).below("fssd"));
        let (unit, points) = (g.sectors_per_unit, u64::from(c.append_points));
        let units = (c.buffer_bytes / g.unit_bytes()).min(1 << 30) as usize;
        if (units as u64) < LEAST_UNITS {
            let least = LEAST_UNITS * g.unit_bytes();
            return bad("buffer_bytes", format!("must hold 4 units: use at least {least}"));
        }
        let sector_bytes = (g.unit_bytes() / u64::from(unit)) as u32;
        let extents = ((sector_bytes - RECORD_HEADER) / RECORD) as usize;

        // Space, in segments of the most data.
        let used = || good.iter().copied().filter(|&n| n > 0);
        let of = |blocks: u32| u64::from(blocks) * u64::from(g.pages * unit);
        let largest = of(used().max().unwrap_or(0));
        let total: u64 = used().map(of).sum();
        let made = sectors.is_none();
        let sectors = sectors.unwrap_or((total as f64 * (1.0 - over_provisioning / 100.0)) as u64);
        // A checkpoint beside the one before it, of a map of single sectors.
        let metadata = 2 * sectors.div_ceil(extents as u64);
        let metadata = metadata.div_ceil(largest.max(1));
        // Open segments of users and the collector, and what a victim may need.
        let reserve_least = 2 + points;
        let needed = (2 * points + reserve_least + metadata + 3) * largest;
        if sectors == 0 || made && total < sectors + needed {
            let percent = needed as f64 / total.max(1) as f64 * 100.0;
            let why = if percent >= 99.0 {
                format!(
                    "{} segments are too few to collect garbage with: use more blocks",
                    used().count()
                )
            } else {
                format!(
                    "{over_provisioning} % leaves no room to collect garbage and for checkpoints: this \
                     geometry needs at least {:.2} %",
                    percent + 0.01
                )
            };
            return Err(BadValue::new("over_provisioning", why));
        }
        let spare = ((total - sectors.min(total)) / largest).saturating_sub(2 * points + metadata);
        let reserve = c.gc_reserve.map_or(reserve_least, u64::from);
        // The drive rests halfway, and of that users cannot open what a victim is emptied of and what is left of their
        // open segments, up to two. With fewer than two between rest and reserve they would wait.
        let above = spare.saturating_sub(reserve);
        // A victim of each group has room where that takes a third of what is above the reserve.
        let all = u64::from(c.above_reserve()) + 2 * (points - 1);
        let least = all.min((above / 3).max(above.clamp(2, 4)));
        let start = c.gc_start.map_or(reserve + (above / 4).max(least), u64::from);
        if reserve < reserve_least || start <= reserve {
            let (key, least) = match reserve < reserve_least {
                true => ("gc_reserve", reserve_least),
                false => ("gc_start", reserve + 1),
            };
            return bad(key, format!("must be at least {least} segments"));
        }
        if made && start > spare {
            return bad("gc_start", format!("is {start}, but only {spare} segments are spare"));
        }
        // Each victim more takes two more.
        let more = (start - reserve).saturating_sub(c.above_reserve().into()) / 2;
        let victims = points.min(1 + more) as u32;
        let tables = g.sectors() / u64::from(unit) * 4 + good.len() as u64 * 32;
        let on_host = if c.collector == Side::Host { tables } else { 0 };
        let least = on_host + LEAST_UNITS * g.unit_bytes() + u64::from(c.node_bytes);
        if c.host_memory.is_some_and(|bytes| bytes < least) {
            let why = format!(
                "must be at least {least} bytes: tables, {LEAST_UNITS} units of the buffer and a node of the map"
            );
            return bad("host_memory", why);
        }
        let memory = c.host_memory.map(|bytes| bytes - on_host);
        let checkpoint = c.checkpoint_sectors.unwrap_or(sectors);
        let (start, reserve) = (start as u32, reserve as u32);
        Ok(Plan { sectors, start, reserve, victims, units, memory, extents, checkpoint, tables })
    }
}

/// Victims that are emptied at a time, each of another of the `append_points` groups of channels.
pub fn victims_at_a_time(
    g: &Geometry,
    over_provisioning: f64,
    config: &FssdConfig,
) -> Result<u32, BadValue> {
    Ok(Plan::without_bad_blocks(g, over_provisioning, config)?.victims)
}

/// Sectors of checkpoints for each sector of users', where `checkpoint_sectors` sets how often one is written: no sooner than
/// after as many sectors as it takes.
pub fn checkpoints_written(
    g: &Geometry,
    over_provisioning: f64,
    config: &FssdConfig,
) -> Result<f64, BadValue> {
    let plan = Plan::without_bad_blocks(g, over_provisioning, config)?;
    let extents = g.sector.bytes_of(plan.sectors) / SECTOR;
    let sectors = extents.div_ceil(plan.extents as u64);
    let every = config.checkpoint_sectors.map(|every| every.max(sectors));
    Ok(every.map_or(0.0, |every| sectors as f64 / every as f64))
}

/// Sectors that are no spare of closed segments while users write 4 KiB at random places.
///
/// Halfway between where it begins and its reserve the collector makes as much space as users take. What is left of
/// users' open segments, and what a victim is emptied of, counts as free there; of the former a half is left. Each
/// group has one open for users and one for the collector, half written. A checkpoint is there until the next is whole,
/// which is written in a quarter of the time.
pub fn log_in_use(
    g: &Geometry,
    over_provisioning: f64,
    config: &FssdConfig,
) -> Result<u64, BadValue> {
    let plan = Plan::without_bad_blocks(g, over_provisioning, config)?;
    let points = config.append_points;
    let segment = u64::from(g.sectors_per_line / points);
    let halves = u64::from(plan.start + plan.reserve + 2 * points) - 1;
    let extents = g.sector.bytes_of(plan.sectors) / SECTOR;
    let checkpoint = extents.div_ceil(plan.extents as u64);
    Ok(halves * segment / 2 + checkpoint * 9 / 8)
}
