//! What a configuration amounts to: capacities, peak rates and what bounds them, latencies of an
//! idle drive. Closed forms over the same constants the simulation uses, to check it and a profile.

use crate::config::Config;
use wordline_base::{SECTOR, SectorSize, Span};
use wordline_device::config::{BridgeConfig, SasConfig};
use wordline_device::{SataConfig, SataTimes};
use wordline_ftl::{
    LineRoom, Placement, Throttle, checkpoints_written, collector_marks, held_in_use, log_in_use,
    slc_buffer,
};
use wordline_nand::{ChannelOrder, Geometry};

mod collector;
mod depths;
mod power;
mod strides;
mod victims;

use collector::{Moves, UNITS, VICTIMS};
use depths::bridged;
use power::Drawn;
pub use strides::Throttled;
use strides::lines_in_parts;
pub use victims::{Chosen, drawn_write_amplification};

/// Where the sectors go.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Capacity {
    /// Bytes of a sector.
    pub sector: SectorSize,
    /// Sectors of all good and bad blocks.
    pub raw_sectors: u64,
    /// What lines keep for their own metadata.
    pub metadata_sectors: u64,
    /// Sectors of parity.
    pub parity_sectors: u64,
    /// Sectors that users can write.
    pub user_sectors: u64,
    /// Whole lines beyond those that a full drive needs for user data and its metadata.
    pub spare_lines: u64,
}

impl Capacity {
    /// Bytes of all blocks.
    pub fn raw_bytes(&self) -> u64 {
        self.sector.bytes_of(self.raw_sectors)
    }
    /// Bytes that users can write.
    pub fn user_bytes(&self) -> u64 {
        self.sector.bytes_of(self.user_sectors)
    }
    /// Sectors that hold users' data or are spare.
    pub fn data_sectors(&self) -> u64 {
        self.raw_sectors - self.metadata_sectors - self.parity_sectors
    }
    /// Spare over user capacity, as drive makers state over-provisioning.
    pub fn spare_over_user(&self) -> f64 {
        self.data_sectors() as f64 / self.user_sectors.max(1) as f64 - 1.0
    }
}

/// Sectors of metadata in a line, as pblk lays it out: a first unit (smeta), and at the end whole
/// units (emeta) for a header with a bit a LUN, the logical address of every sector (8 bytes) and the
/// valid count of every line (4 bytes).
pub(crate) fn metadata_per_line(g: &Geometry) -> u64 {
    let unit = u64::from(g.sectors_per_unit);
    let header = g.sector.holding(256 + u64::from(g.luns).div_ceil(8));
    let addresses = g.sector.holding(u64::from(g.sectors_per_line) * 8);
    let counts = g.sector.holding(u64::from(g.lines) * 4);
    let emeta = (header + addresses + counts).div_ceil(unit) * unit;
    (unit + emeta).min(u64::from(g.sectors_per_line))
}

pub(crate) fn capacity(config: &Config, g: &Geometry) -> Capacity {
    if let Some(room) = lines_in_parts(config, g) {
        let line = room.data / u64::from(g.lines);
        let used = room.users.div_ceil(line.max(1));
        return Capacity {
            sector: g.sector,
            raw_sectors: g.sectors(),
            metadata_sectors: room.metadata,
            parity_sectors: g.sectors() - room.metadata - room.data,
            user_sectors: room.users,
            spare_lines: u64::from(g.lines).saturating_sub(used),
        };
    }
    // Others than pblk have their lists in the spare areas.
    let is_pblk = config.ftl.firmware.is_none() && config.ftl.fssd.is_none();
    let per_line = if is_pblk { metadata_per_line(g) } else { 0 };
    let metadata_sectors = per_line * u64::from(g.lines);
    let data = g.sectors() - metadata_sectors;
    let user_sectors = (data as f64 * (1.0 - config.ftl.over_provisioning / 100.0)) as u64;
    let line_data = u64::from(g.sectors_per_line) - per_line;
    let used = if line_data == 0 { u64::from(g.lines) } else { user_sectors.div_ceil(line_data) };
    let spare_lines = u64::from(g.lines).saturating_sub(used);
    let (sector, raw_sectors) = (g.sector, g.sectors());
    Capacity { sector, raw_sectors, metadata_sectors, parity_sectors: 0, user_sectors, spare_lines }
}

/// One thing that bounds a rate.
#[derive(Clone, PartialEq, Debug)]
pub struct Bound {
    /// What limits the rate.
    pub name: &'static str,
    /// The rate at which it does.
    pub bytes_per_s: f64,
}

/// A peak rate: the least of its bounds.
#[derive(Clone, PartialEq, Debug)]
pub struct Peak {
    /// What is done, with its block size.
    pub name: String,
    /// Bytes of a command, for stating the rate in commands a second.
    pub bytes: u64,
    /// Each part of the machine that limits it.
    pub bounds: Vec<Bound>,
    /// What the drive draws for a byte of it beside what it draws always, in joules.
    pub joules: f64,
    /// Of programs, the rate of LUNs that all program at one time, after which all of their data wait for each other.
    pub in_phase: Option<f64>,
}

impl Peak {
    /// The part that limits it most.
    pub fn least(&self) -> &Bound {
        let least = self.bounds.iter().min_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s));
        least.expect("flash bounds every rate")
    }
    /// The rate that the least bound allows.
    pub fn bytes_per_s(&self) -> f64 {
        self.least().bytes_per_s
    }
    /// Commands a second at that rate.
    pub fn iops(&self) -> f64 {
        self.bytes_per_s() / self.bytes as f64
    }
    /// The rates of programs whose LUNs are in phase, and of those whose data never wait as long as the channel has
    /// time for all. What a run has is between: which LUNs program at one time hangs on when they began.
    pub fn between(&self) -> Option<[f64; 2]> {
        let least = self.in_phase?.min(self.bytes_per_s());
        let others = self.bounds.iter().filter(|b| b.name != WAITING);
        let most = others.map(|b| b.bytes_per_s).fold(f64::INFINITY, f64::min);
        Some([least, most])
    }
}

/// A rate with a number of commands that are in the drive at a time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AtDepth {
    /// How many commands.
    pub depth: u32,
    /// Commands a second.
    pub iops: f64,
    /// Commands a second at least: data wait for their channel as long as the order of the channel and the reads of
    /// its other LUNs can make them, and LUNs are in step.
    pub least: f64,
    /// Commands a second at most: data never wait for data of another LUN, as long as the channel has time for all.
    pub most: f64,
}

/// A stage of an I/O on an idle drive.
#[derive(Clone, PartialEq, Debug)]
pub struct Stage {
    /// The part of the machine.
    pub name: &'static str,
    /// How long a command is there.
    pub time: Span,
}

/// What users' data go to first.
#[derive(Clone, PartialEq, Debug)]
pub struct SlcBuffer {
    /// Bytes that the blocks which are always part of it would have in native cells.
    pub lent_bytes: u64,
    /// Bytes that it always has room for.
    pub always_bytes: u64,
    /// Bytes that a blank drive has room for beside those.
    pub blank_bytes: u64,
    /// The rate into the buffer.
    pub write: Peak,
    /// The rate into native cells while as much is folded as that frees; of a drive that borrows blocks.
    pub folding: Option<Peak>,
}

/// Reads that are done again, as their data have more errors than the code corrects.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ReadAgain {
    /// How often, in the mean.
    pub mean: f64,
    /// What each time takes.
    pub each: Span,
    /// The share of reads whose data no reading gives back.
    pub lost: f64,
}

/// What follows from a configuration, before anything runs.
#[derive(Clone, PartialEq, Debug)]
pub struct Derived {
    /// The shape of the flash.
    pub geometry: Geometry,
    /// Where its sectors go.
    pub capacity: Capacity,
    /// Bytes a second of the link in one direction, payload.
    pub link_rate: f64,
    /// Write amplification of uniform random writes over the full drive, without parity and with pages of the map.
    /// Victims that go by age or by what they have in use count as collected in turn. In place, what one of 4 KiB
    /// programs of its unit. None: there is no closed form of it.
    pub uniform_wa: Option<f64>,
    /// What is programmed for each unit of data, its parity included.
    pub parity_factor: f64,
    /// Of the pages of the map that are looked up at random, the share that memory does not have.
    pub map_misses: f64,
    /// Pages of a map that is in memory which are written for each sector of users'.
    pub map_written: f64,
    /// Random reads of 4 KiB.
    pub random_read: Peak,
    /// The same with no more than so many at a time.
    pub random_read_at: Vec<AtDepth>,
    /// The rate of random reads, in commands a second, to which channels that serve in order of arrival come down
    /// when their LUNs are never idle: all read at one time, and all data wait for each other.
    pub random_read_in_phase: Option<f64>,
    /// Sequential reads.
    pub sequential_read: Peak,
    /// Past a buffer in SLC mode, if there is one.
    pub sequential_write: Peak,
    /// The buffer in SLC mode, if the drive has one.
    pub slc_buffer: Option<SlcBuffer>,
    /// At write amplification 1 and at `uniform_wa`, if there is that; in place there is one.
    pub random_write: Vec<Peak>,
    /// Where writes may wait for their strides.
    pub throttled: Option<Throttled>,
    /// 4 KiB read from flash, from doorbell to completion entry.
    pub read_latency: Vec<Stage>,
    /// The same read of a page that was written before time began, with the errors of the medium; `None` where there are
    /// none. No other figure counts errors.
    pub read_again: Option<ReadAgain>,
    /// The same from the DRAM cache, if there is one.
    pub cached_read_latency: Option<Vec<Stage>>,
    /// 4 KiB write into cache or buffer.
    pub write_latency: Vec<Stage>,
}

/// Sum of the stages.
pub(crate) fn total(stages: &[Stage]) -> Span {
    stages.iter().map(|stage| stage.time).sum()
}

/// Bytes a second of one lane: transfer rate less line coding (8b/10b, from PCIe 3.0 on 128b/130b).
fn lane_rate(generation: u32) -> f64 {
    match generation {
        0 | 1 => 2.5e9 * 0.8 / 8.0,
        2 => 5e9 * 0.8 / 8.0,
        n => 8e9 * 2f64.powi(n as i32 - 3) * 128.0 / 130.0 / 8.0,
    }
}

/// WA of uniform random writes when lines are reclaimed in the order they were closed (Desnoyers,
/// SYSTOR 2012): a page survives a whole turn with probability u = exp(-(1 - u) alpha), alpha the
/// physical over the logical capacity, and WA = 1 / (1 - u).
pub fn fifo_write_amplification(alpha: f64) -> f64 {
    // The iteration from 0 climbs to the fixed point below 1; near alpha = 1 slowly.
    let mut u = 0f64;
    for _ in 0..10_000 {
        let next = (-(1.0 - u) * alpha).exp();
        if next == u {
            break;
        }
        u = next;
    }
    1.0 / (1.0 - u).max(1e-4)
}

/// The same where lines are kept free, which are no spare of those that are closed.
///
/// A drive's firmware keeps those free that its pace leaves, with what the collector went through of its victim. pblk's
/// rate limiter gives users `free / start` of the buffer, and none at the reserve; in the steady state that share is
/// 1 / WA. The next line is not free, and of the open one a half is written. Of its victim a half of what was in use is
/// elsewhere already. FSSD's log tells of its own.
fn limited_write_amplification(config: &Config, capacity: &Capacity, alpha: f64) -> f64 {
    let users = capacity.user_sectors.max(1) as f64;
    let geometry = Geometry::new(&config.nand).ok();
    let over_provisioning = config.ftl.over_provisioning;
    if let Some(firmware) = &config.ftl.firmware {
        let free =
            geometry.and_then(|g| held_in_use(&g, over_provisioning, firmware).ok()).unwrap_or(0);
        // Superblocks that are always written with a bit a cell are no spare either.
        let lent = geometry
            .and_then(|g| slc_buffer(&g, over_provisioning, firmware).ok())
            .map_or(0, |[lent, ..]| lent);
        return fifo_write_amplification((alpha - (free + lent) as f64 / users).max(1.0));
    }
    // Sectors that are no spare of closed lines, at this write amplification.
    let held: Box<dyn Fn(f64) -> f64> = match &config.ftl.fssd {
        Some(fssd) => {
            let log = geometry.and_then(|g| log_in_use(&g, over_provisioning, fssd).ok());
            let held = log.unwrap_or(0) as f64;
            Box::new(move |_| held)
        }
        None => {
            let marks = geometry.and_then(|g| collector_marks(&g, &config.ftl).ok());
            let [start, reserve] = marks.unwrap_or([0, 0]).map(f64::from);
            let lines = geometry.map_or(1, |g| g.lines);
            let line = capacity.data_sectors() as f64 / f64::from(lines);
            let sides = if config.ftl.hot_cold { 2.0 } else { 1.0 };
            Box::new(move |wa: f64| {
                let moved = (1.0 - 1.0 / wa) / 2.0;
                ((start / wa).max(reserve) + 1.5 * sides + moved) * line
            })
        }
    };
    let chosen = Chosen::by(&config.ftl);
    let mut wa = chosen.write_amplification(alpha);
    for _ in 0..100 {
        let spare = alpha - 1.0;
        let next = 1.0 + (spare - held(wa) / users).max(0.05 * spare);
        let before = wa;
        wa = (wa + chosen.write_amplification(next)) / 2.0;
        if (wa - before).abs() < 1e-9 * wa {
            break;
        }
    }
    wa
}

/// Commands a second of `depth` that are always under way, each at one of `stations` at random, which holds it for
/// `held` and serves in order of arrival, and `elsewhere` for the rest of its time: a closed network, worked out
/// command by command (mean value analysis; Reiser and Lavenberg, 1980). One that comes to a station finds what the
/// others alone would have there, and of the one that is served half is left, since all take equally long.
pub fn rate_at_depth(depth: u32, stations: u32, held: f64, elsewhere: f64) -> f64 {
    let (mut rate, mut there) = (0.0, 0.0);
    for n in 1..=depth {
        let busy = rate * held / f64::from(stations);
        let stay = held * (1.0 + there - busy / 2.0);
        rate = f64::from(n) / (elsewhere + stay);
        there = rate * stay / f64::from(stations);
    }
    rate
}

/// The share of the LUNs' time that it takes to write anew what a full drive holds, within `refresh_days`: each unit is read
/// and programmed, and its block erased.
pub(crate) fn refreshing(config: &Config, g: &Geometry) -> Option<f64> {
    let days = config.ftl.firmware.as_ref()?.refresh_days;
    let n = &config.nand;
    let each = n.t_read.mean() + n.t_program.mean() + Span(n.t_erase.0 / u64::from(g.pages));
    let units = g.sectors() as f64 * (1.0 - config.ftl.over_provisioning / 100.0)
        / f64::from(g.sectors_per_unit);
    let takes = units / f64::from(g.luns) * each.as_secs_f64();
    (days > 0.0).then(|| takes / (days * 86_400.0))
}

fn amplification(config: &Config, g: &Geometry, capacity: &Capacity) -> f64 {
    if g.in_place {
        return f64::from(g.sectors_per_unit);
    }
    let alpha = capacity.data_sectors() as f64 / capacity.user_sectors.max(1) as f64;
    limited_write_amplification(config, capacity, alpha)
}

/// What [`Derived::uniform_wa`] is for a drive that is no bridge, without pages of its map. Of hot and cold data apart,
/// as if they were not: which is for a part of a drive to have as the whole has it.
pub fn uniform_write_amplification(config: &Config) -> f64 {
    let g = Geometry::new(&config.nand).expect("a Config is checked when it is assembled");
    amplification(config, &g, &capacity(config, &g))
}

/// A command of a large sequential transfer.
const LARGE: u64 = 128 << 10;

/// The bound of LUNs that serve an operation at a time.
const LUNS: &str = "LUNs";

/// The bound of LUNs that always have work, with the time for which their data wait for each other.
const WAITING: &str = "LUNs that wait for channels";

/// The bound of programs that wait for their strides.
const STRIDES: &str = "strides";

/// The bound of the LUNs of the one superblock that a firmware's collector writes to.
const OWN: &str = "the collector's superblock";

/// The bound of what is behind a bridge.
const DRIVES: &str = "drives";

/// The bound of commands that the drive has at a time.
const IN_FLIGHT: &str = "commands in flight";

/// Runs come within so much of a form: rates that are nearer to each other are told as one.
pub(crate) const AS_ONE: f64 = 0.94;

/// The bound of LUNs that all read at one time, after which all of their data wait for each other.
const IN_PHASE: &str = "LUNs in phase";

/// NVMe: a submission and a completion entry.
const SQE_BYTES: u64 = 64;
const CQE_BYTES: u64 = 16;

/// Works out the figures of a checked configuration.
pub fn derive(config: &Config) -> Derived {
    derive_behind(config, None)
}

/// The same of a drive or bridge that is behind a bridge, with this link.
fn derive_behind(config: &Config, sas: Option<&SasConfig>) -> Derived {
    match (&config.device.bridge, drives_behind(config)) {
        (Some(bridge), Some(inside)) => derive_bridge(config, bridge, &inside, sas),
        _ => derive_drive(config, sas),
    }
}

/// Payload bytes a second of one direction.
fn link_rate(config: &Config, sas: Option<&SasConfig>) -> f64 {
    match sas {
        Some(sas) => {
            let share =
                f64::from(sas.frame_bytes) / f64::from(sas.frame_bytes + sas.frame_overhead);
            sas.rate as f64 * share
        }
        None if let Some(sata) = &config.device.sata => {
            let frame = u64::from(sata.fis_bytes);
            frame as f64 / sata.data(frame).as_secs_f64()
        }
        None => {
            let link = &config.device.link;
            lane_rate(link.generation) * f64::from(link.lanes) * (link.efficiency / 100.0)
        }
    }
}

/// The figures of the drives behind a bridge; none if it is a drive.
fn drives_behind(config: &Config) -> Option<Vec<Derived>> {
    let bridge = config.device.bridge.as_ref()?;
    let drive = |inside| derive_behind(&config.of_member(inside), Some(&bridge.link));
    let drives: Vec<Derived> = config.members.iter().map(drive).collect();
    (!drives.is_empty()).then_some(drives)
}

/// A bridge: what its drives come to together, its engine and its own link.
fn derive_bridge(
    config: &Config,
    bridge: &BridgeConfig,
    inside: &[Derived],
    sas: Option<&SasConfig>,
) -> Derived {
    let (count, first) = (inside.len() as f64, &inside[0]);
    let link_rate = link_rate(config, sas);
    let user_sectors = first.capacity.user_sectors;
    let rates = Rates { config, g: &first.geometry, user_sectors, link_rate, sas, room: None };
    let firmware = &config.device.firmware;
    let stripe = u64::from(bridge.stripe_bytes);
    // The slowest of the drives has as much to do as the others.
    let peak = |write: bool, of: &dyn Fn(&Derived) -> Peak| {
        let peaks: Vec<Peak> = inside.iter().map(of).collect();
        let least = peaks.iter().min_by(|a, b| a.bytes_per_s().total_cmp(&b.bytes_per_s()));
        let Peak { name, bytes, joules, .. } = least.expect("a bridge has drives").clone();
        let drives = count * least.map_or(0.0, Peak::bytes_per_s);
        let first = if write { firmware.t_write } else { firmware.t_read };
        let sectors = rates.g.sector.holding(bytes).saturating_sub(1);
        let work = first
            + firmware.t_sector * sectors
            + bridge.t_part * (bytes.div_ceil(stripe) - 1)
            + firmware.t_complete;
        let engine = f64::from(firmware.cores) * bytes as f64 / work.as_secs_f64();
        let bounds = vec![(DRIVES, drives), ("engine", engine), ("link", link_rate)];
        let own = rates.controller_joules(work.as_secs_f64() / bytes as f64);
        rates.peak(name, bytes, bounds, joules + own)
    };
    // Data go from one link to the other frame by frame.
    let behind = |bytes: u64| {
        let one = bytes.min(bridge.link.frame_bytes.into());
        let slower = (rates.link(bytes) + framed(&bridge.link, one)).0;
        rates.link(one).max(Span(slower.saturating_sub(framed(&bridge.link, bytes).0)))
    };
    let stages = |write: bool, of: &[Stage]| {
        let work = if write { firmware.t_write } else { firmware.t_read };
        let mut out = rates.fetch(work);
        out[2].name = "engine";
        if write {
            let time = rates.t_ask() + behind(SECTOR);
            out.push(Stage { name: "data from host", time });
        }
        out.extend(of.iter().cloned());
        let data = if write { Span::ZERO } else { behind(SECTOR) };
        let name = if write { "entry" } else { "data to host" };
        out.push(Stage { name, time: data + rates.entry() });
        rates.complete(out)
    };
    let each = |of: fn(&Capacity) -> u64| inside.iter().map(|d| of(&d.capacity)).sum::<u64>();
    let whole = |capacity: &Capacity| {
        let sectors = rates.g.sector.of(stripe).max(1);
        capacity.user_sectors / sectors * sectors
    };
    let least = inside.iter().map(|d| whole(&d.capacity)).min().unwrap_or(0);
    let read_latency = stages(false, &first.read_latency);
    let mut random_read = peak(false, &|d| d.random_read.clone());
    let (bridged, drives) = bridged(config, inside, &random_read, &read_latency);
    // With all their tags in use, and with all commands of the bridge in flight.
    let slowest = drives.iter().map(|drive| drive.likely(bridge.drive_tags));
    let slowest = count * slowest.fold(f64::INFINITY, f64::min) * SECTOR as f64;
    for bound in random_read.bounds.iter_mut().filter(|bound| bound.name == DRIVES) {
        bound.bytes_per_s = bound.bytes_per_s.min(slowest);
    }
    if let Some(iops) = bridged.held_by_in_flight(&drives, random_read.iops()) {
        random_read.bounds.push(Bound { name: IN_FLIGHT, bytes_per_s: iops * SECTOR as f64 });
    }
    Derived {
        geometry: first.geometry,
        capacity: Capacity {
            sector: first.capacity.sector,
            raw_sectors: each(|c| c.raw_sectors),
            metadata_sectors: each(|c| c.metadata_sectors),
            parity_sectors: each(|c| c.parity_sectors),
            user_sectors: least * inside.len() as u64,
            spare_lines: each(|c| c.spare_lines),
        },
        link_rate,
        map_misses: 0.0,
        map_written: 0.0,
        uniform_wa: inside.iter().filter_map(|d| d.uniform_wa).reduce(f64::max),
        parity_factor: inside.iter().map(|d| d.parity_factor).fold(1.0, f64::max),
        throttled: None,
        random_read,
        random_read_at: bridged.told(&drives),
        random_read_in_phase: None,
        sequential_read: peak(false, &|d| d.sequential_read.clone()),
        sequential_write: peak(true, &|d| d.sequential_write.clone()),
        slc_buffer: None,
        random_write: (0..first.random_write.len())
            .map(|i| peak(true, &|d| d.random_write[i.min(d.random_write.len() - 1)].clone()))
            .collect(),
        read_latency,
        read_again: None,
        cached_read_latency: first.cached_read_latency.as_deref().map(|of| stages(false, of)),
        write_latency: stages(true, &first.write_latency),
    }
}

/// Time of data in frames.
fn framed(sas: &SasConfig, bytes: u64) -> Span {
    let frames = bytes.div_ceil(sas.frame_bytes.into());
    Span::of_bytes(bytes + frames * u64::from(sas.frame_overhead), sas.rate)
}

fn derive_drive(config: &Config, sas: Option<&SasConfig>) -> Derived {
    let g = Geometry::new(&config.nand).expect("a Config is checked when it is assembled");
    let capacity = capacity(config, &g);
    let link_rate = link_rate(config, sas);
    let data_wa = amplification(config, &g, &capacity);
    let user_sectors = capacity.user_sectors;
    let room = lines_in_parts(config, &g);
    let rates = Rates { config, g: &g, user_sectors, link_rate, sas, room };
    let random_read = rates.read("random read, 4 KiB", SECTOR);
    let map_misses = rates.map_misses(1, true);
    // Where hot and cold data are apart no form has what the collector moves, nor where that is.
    let data_wa = (room.is_none() || !config.ftl.hot_cold).then_some(data_wa);
    // Writes never go without their strides.
    let always = config.ftl.throttle == Throttle::All && config.ftl.write_mostly_iops == 0;
    Derived {
        geometry: g,
        capacity,
        link_rate,
        map_misses,
        map_written: rates.map_written(),
        uniform_wa: data_wa.map(|wa| wa * (1.0 + map_misses + rates.map_written())),
        parity_factor: rates.parity(),
        throttled: rates.throttled(data_wa),
        read_again: rates.read_again(),
        random_read_at: rates.read_at_depths(&random_read),
        random_read_in_phase: rates.read_in_phase(&random_read),
        random_read,
        sequential_read: rates.read("sequential read, 128 KiB", LARGE),
        sequential_write: rates.write("sequential write, 128 KiB", LARGE, 1.0, always),
        slc_buffer: rates.slc_buffer(),
        random_write: match g.in_place {
            true => vec![rates.write_in_place()],
            false => [1.0]
                .into_iter()
                .chain(data_wa)
                .map(|wa| rates.write("random write, 4 KiB", SECTOR, wa, always))
                .collect(),
        },
        read_latency: rates.read_stages(false),
        cached_read_latency: config.device.cache.as_ref().map(|_| rates.read_stages(true)),
        write_latency: rates.write_stages(),
    }
}

/// What a unit of users costs.
struct Written {
    /// Units programmed, its own among them.
    programs: f64,
    /// Time of a core for each of its sectors, beside the command's and the programs'.
    core: f64,
    /// Time of a LUN.
    lun: f64,
    /// Time of a channel.
    channel: f64,
    /// Times of its arrays that read, program and erase.
    array: [f64; 3],
    /// Of a LUN's time, that of reads.
    reading: f64,
    /// Units that strides program in a second, where programs wait for these.
    strides: Option<f64>,
    /// Bytes a second that FSSD's collector keeps up with: where its victims are, and with so many units at a time. 0:
    /// there is nothing to collect.
    collector: [f64; 2],
    /// Bytes a second that a firmware's collector writes to its superblock, likewise.
    own: f64,
}

struct Rates<'a> {
    config: &'a Config,
    g: &'a Geometry,
    /// That users can write.
    user_sectors: u64,
    link_rate: f64,
    /// Its link, if it is behind a bridge.
    sas: Option<&'a SasConfig>,
    /// Of lines with parity, or of hot and cold data apart.
    room: Option<LineRoom>,
}

impl Rates<'_> {
    /// Bytes a second of a channel; of a gang, all of its channels together.
    fn channel(&self) -> u64 {
        self.config.nand.channel_rate.saturating_mul(u64::from(self.config.nand.gang))
    }
    /// Time of `bytes` on a channel.
    fn transfer(&self, bytes: u64) -> f64 {
        bytes as f64 / self.channel() as f64
    }
    /// The code gives the page up, and the LUN has a command, reads it and sends it once more.
    fn read_again(&self) -> Option<ReadAgain> {
        let n = &self.config.nand;
        let bytes = SECTOR.max(self.g.sector.bytes());
        let (mean, lost) = wordline_nand::mean_rereads(n, bytes as u32)?;
        let data = Span::of_bytes(bytes, self.channel());
        let each = n.errors.t_decode + n.t_command + n.t_read.mean() + data;
        Some(ReadAgain { mean, each, lost })
    }
    /// Of a new drive: what correcting a sector takes after its last byte, and the rate of all decoders.
    fn decoding(&self) -> Option<(Span, f64)> {
        wordline_nand::decoding_on_new_drive(&self.config.nand)
    }
    /// Bytes a second of commands of so many bytes.
    fn link_of(&self, write: bool, bytes: u64) -> f64 {
        match &self.config.device.sata {
            None => self.link_rate,
            Some(sata) => {
                bytes as f64
                    / sata.held(self.config.device.link.t_round_trip, write, bytes).as_secs_f64()
            }
        }
    }
    /// The SATA link, if it has one.
    fn sata(&self) -> Option<(&SataConfig, SataTimes)> {
        let device = &self.config.device;
        device.sata.as_ref().map(|sata| (sata, sata.times(device.link.t_round_trip)))
    }
    fn link(&self, bytes: u64) -> Span {
        match self.sas {
            Some(sas) => framed(sas, bytes),
            None if let Some((sata, _)) = self.sata() => sata.data(bytes),
            None => Span::of_bytes(bytes, self.link_rate as u64),
        }
    }
    /// A completion entry, or a response, on the link.
    fn entry(&self) -> Span {
        match self.sas {
            Some(sas) => Span::of_bytes(sas.response_bytes.into(), sas.rate),
            None if let Some((_, times)) = self.sata() => times.over,
            None => self.link(CQE_BYTES),
        }
    }
    /// From the request for a write's data to their first.
    fn t_ask(&self) -> Span {
        match self.sas {
            Some(sas) => Span::of_bytes(sas.ready_bytes.into(), sas.rate) + sas.t_way + sas.t_way,
            None if let Some((_, times)) = self.sata() => times.ready,
            None => self.config.device.link.t_round_trip,
        }
    }
    fn on_device(&self) -> bool {
        self.config.ftl.placement == Placement::Device
    }
    /// The FTL's time for a command, where the drive pays it.
    fn ftl_time(&self, write: bool, sectors: u64) -> Span {
        let c = &self.config.ftl.cost;
        match (self.on_device(), write) {
            (false, _) => Span::ZERO,
            (true, false) => c.read_command + c.read_sector * sectors,
            (true, true) => c.write_command + c.write_sector * sectors,
        }
    }
    /// Firmware time of a command.
    fn firmware(&self, write: bool, sectors: u64) -> f64 {
        let c = &self.config.device.firmware;
        let all = self.start(write)
            + c.t_sector * (sectors - 1)
            + c.t_complete
            + self.ftl_time(write, sectors);
        all.as_secs_f64()
    }
    /// Decoding a command: below an FTL on the host all are vector commands.
    fn start(&self, write: bool) -> Span {
        let c = &self.config.device.firmware;
        match (self.on_device(), write) {
            (false, _) => c.t_other,
            (true, false) => c.t_read,
            (true, true) => c.t_write,
        }
    }

    /// Of the pages of the map that commands of so many sectors look up, those that a command reads from flash: where
    /// memory holds a part of the map. At random places a page is in memory as often as memory has pages of all; in
    /// order each is read once.
    fn map_misses(&self, sectors: u64, at_random: bool) -> f64 {
        let held = self.config.ftl.firmware.as_ref().map_or(0, |firmware| firmware.map_bytes);
        let page = self.g.sector.bytes();
        let entries = page / 4;
        let (pages, room) = (self.user_sectors.div_ceil(entries), held / page);
        match room {
            0 => 0.0,
            room if room >= pages => 0.0,
            room if at_random => 1.0 - room as f64 / pages as f64,
            _ => sectors as f64 / entries as f64,
        }
    }
    /// Pages of a map that is in memory which are written for each sector of users', to tell of trims after a power cut;
    /// and sectors of FSSD's checkpoints.
    fn map_written(&self) -> f64 {
        if let Some(fssd) = &self.config.ftl.fssd {
            let over_provisioning = self.config.ftl.over_provisioning;
            return checkpoints_written(self.g, over_provisioning, fssd).unwrap_or(0.0);
        }
        let pages = self.user_sectors.div_ceil(self.g.sector.bytes() / 4);
        let firmware = self.config.ftl.firmware.as_ref();
        let every = firmware.and_then(|firmware| firmware.checkpoint_sectors);
        // Those of a map that memory has a part of are written when they give way.
        let every = every.filter(|_| self.map_misses(1, true) == 0.0);
        every.map_or(0.0, |sectors| pages as f64 / sectors.max(1) as f64)
    }
    /// Bytes a second of users that a firmware's collector keeps up with: what it moves for each of theirs it programs to its
    /// one open superblock. 0: that has all LUNs, or there is nothing to collect.
    fn own_superblock(&self, moved: f64, program: f64) -> f64 {
        let luns = self.config.ftl.firmware.as_ref().and_then(|firmware| firmware.superblock_luns);
        match luns.filter(|&luns| luns < self.g.luns && moved > 0.0) {
            Some(luns) => f64::from(luns) * self.g.unit_bytes() as f64 / (moved * program),
            None => 0.0,
        }
    }
    /// Times of a LUN, a channel and a core for a page of the map that is read.
    fn map_read(&self) -> [f64; 3] {
        let n = &self.config.nand;
        let command = n.t_command.as_secs_f64();
        let (array, transfer) =
            (n.t_read.mean().as_secs_f64(), self.transfer(self.g.sector.bytes()));
        [self.held(array, transfer), command + transfer, self.move_core()]
    }
    /// Time of a core for a sector that the layer reads for itself.
    fn move_core(&self) -> f64 {
        let cost = &self.config.ftl.cost;
        (cost.background_command + cost.gc_sector).as_secs_f64()
    }
    /// What a read holds its LUN for. With a cache register its data leave while the array reads for the next.
    fn held(&self, array: f64, transfer: f64) -> f64 {
        let command = self.config.nand.t_command.as_secs_f64();
        match self.config.nand.cache_register {
            true => command + array.max(transfer),
            false => command + array + transfer,
        }
    }

    /// What of the flash reads `piece` bytes at a time, how many of those there are, and how many a piece has.
    fn readers(&self, piece: u64) -> (&'static str, f64, f64) {
        let n = &self.config.nand;
        if !n.independent_plane_reads {
            return (LUNS, self.g.luns.into(), 1.0);
        }
        let row = u64::from(n.page_bytes) * u64::from(n.gang);
        let all = f64::from(self.g.luns) * f64::from(n.planes);
        ("planes", all, piece.div_ceil(row) as f64)
    }

    fn peak(
        &self,
        name: String,
        bytes: u64,
        bounds: Vec<(&'static str, f64)>,
        joules: f64,
    ) -> Peak {
        // A stage that takes no time, and a limit of 0, bound nothing.
        let bounds = bounds.into_iter().filter(|(_, rate)| rate.is_finite() && *rate > 0.0);
        let bounds = bounds.map(|(name, bytes_per_s)| Bound { name, bytes_per_s }).collect();
        Peak { name, bytes, bounds, joules, in_phase: None }
    }
    /// Bytes a second of all LUNs that do `bytes` in `lun`, of which their data are on the channel for `channel`, where
    /// the data of all LUNs of a channel wait for each other.
    fn all_in_phase(&self, bytes: u64, lun: f64, channel: f64) -> f64 {
        let others = f64::from(self.g.luns / self.g.channels - 1);
        f64::from(self.g.luns) * bytes as f64 / (lun + others * channel)
    }

    fn read(&self, name: &str, bytes: u64) -> Peak {
        let n = &self.config.nand;
        let l = &self.config.device.limits;
        // A large command reads whole units.
        let piece = bytes.min(self.g.unit_bytes());
        let command = n.t_command.as_secs_f64();
        let transfer = self.transfer(piece);
        let held = self.held(n.t_read.mean().as_secs_f64(), transfer);
        // Pages of the map that it reads beside its data.
        let misses = self.map_misses(self.g.sector.holding(bytes), bytes == SECTOR);
        let [map_held, map_channel, map_core] = self.map_read().map(|time| misses * time);
        let share = piece as f64 / bytes as f64;
        let (reader, readers, of_piece) = self.readers(piece);
        let channels = f64::from(self.g.channels) * piece as f64;
        let latency = total(&self.read_stages(false)).as_secs_f64()
            + self.transfer(piece.saturating_sub(SECTOR));
        let in_flight = f64::from(self.config.device.queues.in_flight) * bytes as f64;
        let cores = f64::from(self.config.device.firmware.cores) * bytes as f64;
        let core = self.firmware(false, self.g.sector.holding(bytes)) + map_core;
        let reads = 1.0 + misses * share;
        // Reads at random leave LUNs idle now and then: what they come to in phase is told beside.
        let in_order = bytes > SECTOR;
        let in_phase = in_order.then(|| self.in_phase(piece, held, map_held * share, reads));
        let in_phase = in_phase.flatten();
        let decoding = self.decoding().map_or(0.0, |(time, _)| time.as_secs_f64());
        let drawn = Drawn {
            bytes: piece as f64,
            held: [held + map_held * share + reads * decoding, 0.0, 0.0],
            array: [reads * n.t_read.mean().as_secs_f64(), 0.0, 0.0],
            channel: transfer + map_channel * share,
            core: core * share,
        };
        let mut bounds = vec![
            (reader, readers * piece as f64 / (held * of_piece + map_held * share)),
            ("channels", channels / (command + transfer + map_channel * share)),
            (IN_PHASE, in_phase.unwrap_or(0.0)),
            ("decoders", self.decoding().map_or(0.0, |(_, rate)| rate / reads)),
            ("firmware", cores / core),
            ("link", self.link_of(false, bytes)),
            ("limit read_rate", l.read_rate as f64),
            ("limit read_iops", l.read_iops as f64 * bytes as f64),
        ];
        // In order all LUNs have their share of what is in flight. At random some have several, and others none.
        let in_flight = match in_order {
            true => in_flight / latency,
            false => {
                let peak = self.peak(name.into(), bytes, bounds.clone(), 0.0).iops();
                self.held_by_in_flight(peak).map_or(0.0, |iops| iops * bytes as f64)
            }
        };
        bounds.push((IN_FLIGHT, in_flight));
        self.limited(name.into(), bytes, bounds, drawn)
    }

    /// LUNs of a channel that always have reads to do come in phase: a command waits for the data of all others.
    fn comes_in_phase(&self) -> bool {
        let n = &self.config.nand;
        !n.cache_register && n.channel_order == ChannelOrder::Fifo
    }
    /// Bytes a second of reads of so many bytes at each LUN, or at all planes that have a part of them, where these are
    /// never idle and come in phase. `held` is the time of a read, `map` of a LUN's for pages of the map, `reads` what
    /// is read with these.
    fn in_phase(&self, piece: u64, held: f64, map: f64, reads: f64) -> Option<f64> {
        if !self.comes_in_phase() {
            return None;
        }
        let (_, readers, of_piece) = self.readers(piece);
        let own = self.transfer(piece) / of_piece;
        let others = readers / f64::from(self.g.channels) - 1.0;
        // A plane has a part of the data alone.
        let alone = held - self.transfer(piece) + own;
        let round = (alone + others * own) * of_piece + map + (reads - 1.0) * others * own;
        Some(readers * piece as f64 / round)
    }
    /// Reads of 4 KiB a second, where LUNs in phase bound them below what they do alone.
    fn read_in_phase(&self, peak: &Peak) -> Option<f64> {
        let t_read = self.config.nand.t_read.mean().as_secs_f64();
        let held = self.held(t_read, self.transfer(SECTOR));
        let misses = self.map_misses(1, true);
        let [map, ..] = self.map_read();
        let rate = self.in_phase(SECTOR, held, misses * map, 1.0 + misses)?;
        Some(rate / SECTOR as f64).filter(|&iops| iops < peak.iops_of_parts())
    }

    /// `wa`: without pages of the map, and without parity. `throttled`: programs wait for their strides.
    fn write(&self, name: &str, bytes: u64, wa: f64, throttled: bool) -> Peak {
        let at_random = bytes == SECTOR;
        let n = &self.config.nand;
        let unit = self.g.unit_bytes();
        let command = n.t_command.as_secs_f64();
        let transfer = self.transfer(unit);
        let erase = n.t_erase.as_secs_f64() / f64::from(self.g.pages);
        let program = command + transfer + n.t_program.mean().as_secs_f64() + erase;
        // Pages of the map are collected as well.
        let more = 1.0 + self.map_written();
        let [reads, carried] = self.gc_reads(wa).map(|of| of * wa * more);
        let data = carried * self.transfer(SECTOR);
        // Each sector that is programmed changes an entry: its page is read if memory has none, and written when it
        // gives way.
        let misses = wa * self.map_misses(1, at_random);
        let unit_misses = misses * f64::from(self.g.sectors_per_unit);
        let [map_held, map_channel, map_core] = self.map_read();
        let all = (wa * more + misses) * self.parity();
        let t_read = n.t_read.mean().as_secs_f64();
        let reading = reads * (command + t_read) + data + unit_misses * map_held;
        let lun = all * program + reading;
        let channel =
            all * (command + transfer) + reads * command + data + unit_misses * map_channel;
        let name = if at_random { format!("{name}, WA {all:.2}") } else { name.into() };
        // Each sector of data is added to the parity of its stride, to both if there are two.
        let ftl = &self.config.ftl;
        let sums = match self.room.is_some_and(|room| room.parity_luns > 0) && !ftl.parity_offload {
            true => f64::from(ftl.parities) * ftl.cost.xor_sector.as_secs_f64(),
            false => 0.0,
        };
        let core = misses * map_core + (wa - 1.0) * more * self.move_core() + wa * sums;
        let array =
            [(reads + unit_misses) * t_read, all * n.t_program.mean().as_secs_f64(), all * erase];
        let strides = throttled.then(|| self.strides()).flatten();
        let moves = Moves { wa, reads, data, reading, programs: all, program };
        let collector = self.collector(&moves);
        let own = self.own_superblock((wa - 1.0) * more, program);
        let work =
            Written { programs: all, core, lun, channel, array, reading, strides, collector, own };
        self.written(name, bytes, work)
    }
    /// The buffer in SLC mode: what it has room for, and its rates.
    fn slc_buffer(&self) -> Option<SlcBuffer> {
        let (slc, firmware) = (self.config.nand.slc.as_ref()?, self.config.ftl.firmware.as_ref()?);
        let (g, n) = (self.g, &self.config.nand);
        let [lent, always, blank] = slc_buffer(g, self.config.ftl.over_provisioning, firmware)
            .ok()
            .filter(|b| b[1] + b[2] > 0)?;
        let moved = n.t_command.as_secs_f64() + self.transfer(g.unit_bytes());
        let program = moved + n.t_program.mean().as_secs_f64();
        // For each unit that is programmed, pages of the map that are read, and written as units of them.
        let misses = self.map_misses(1, false);
        let unit_misses = misses * f64::from(g.sectors_per_unit);
        let [map_held, map_channel, map_core] = self.map_read();
        let map_lun = unit_misses * map_held + misses * program;
        let map_channel = unit_misses * map_channel + misses * moved;
        let erase = slc.t_erase.as_secs_f64() / f64::from(g.slc_pages);
        // What is in the buffer was erased when it was folded.
        let inside = moved + slc.t_program.as_secs_f64();
        // A borrowed superblock is full, and a share u of what it frees takes its data elsewhere.
        let u = f64::from(g.slc_pages) / f64::from(g.pages);
        let folded = u / (1.0 - u);
        let fold_read = moved + slc.t_read.as_secs_f64();
        let lun = program + folded * (program + fold_read + erase);
        let channel = moved * (1.0 + 2.0 * folded);
        let (t_read, t_program) = (n.t_read.mean().as_secs_f64(), n.t_program.mean().as_secs_f64());
        let peak = |name: &str,
                    wa: f64,
                    lun: f64,
                    channel: f64,
                    [reads, programs, erases]: [f64; 3]| {
            let core = (wa - 1.0) * self.move_core() + wa * misses * map_core;
            let (lun, channel) = (lun + wa * map_lun, channel + wa * map_channel);
            let map = wa * unit_misses;
            let array = [reads + map * t_read, programs + wa * misses * t_program, erases];
            let reading = (wa - 1.0) * fold_read + map * map_held;
            let programs = wa * (1.0 + misses);
            let (strides, collector, own) = (None, [0.0; 2], 0.0);
            let written =
                Written { programs, core, lun, channel, array, reading, strides, collector, own };
            self.written(name.into(), LARGE, written)
        };
        let into = [0.0, slc.t_program.as_secs_f64(), 0.0];
        let out_of =
            [folded * slc.t_read.as_secs_f64(), (1.0 + folded) * t_program, folded * erase];
        Some(SlcBuffer {
            lent_bytes: g.sector.bytes_of(lent),
            always_bytes: g.sector.bytes_of(always),
            blank_bytes: g.sector.bytes_of(blank),
            write: peak("... into the SLC buffer", 1.0, inside, moved, into),
            folding: (blank > 0)
                .then(|| peak("... while it is folded", 1.0 + folded, lun, channel, out_of)),
        })
    }
    /// What work takes that holds a LUN for `lun`, of which its data are on the channel for `channel`, where no LUN is
    /// ever without work: those of others are on the channel, too. A closed network with the LUNs of a channel in it
    /// (mean value analysis): who comes to the channel finds there what the others alone would have. Data go in turns
    /// (`transfer_bytes`), beside those of other LUNs, so that the rate depends on their mean length alone.
    fn with_waits(&self, lun: f64, channel: f64) -> f64 {
        let (mut there, mut round) = (0.0, lun);
        for n in 1..=self.g.luns / self.g.channels {
            let stay = channel * (1.0 + there);
            round = (lun - channel).max(0.0) + stay;
            there = f64::from(n) * stay / round;
        }
        round
    }
    fn written(&self, name: String, bytes: u64, work: Written) -> Peak {
        let l = &self.config.device.limits;
        let (unit, sector) = (self.g.unit_bytes(), self.g.sector);
        let cores = f64::from(self.config.device.firmware.cores) * bytes as f64;
        let sectors = sector.holding(bytes);
        let cost = &self.config.ftl.cost;
        let program = cost.program_unit.as_secs_f64() / f64::from(self.g.sectors_per_unit);
        let per_sector = program * work.programs + work.core;
        let background = if self.on_device() { per_sector * sectors as f64 } else { 0.0 };
        let round = self.with_waits(work.lun, work.channel);
        let core = self.firmware(true, sectors) + background;
        let [_, _, erasing] = work.array;
        let drawn = Drawn {
            bytes: unit as f64,
            held: [work.reading, work.lun - work.reading - erasing, erasing],
            array: work.array,
            channel: work.channel,
            core: core * unit as f64 / bytes as f64,
        };
        let luns = f64::from(self.writers()) * unit as f64;
        let strides = work.strides.map_or(0.0, |units| units * unit as f64 / work.programs);
        let peak = self.limited(
            name,
            bytes,
            vec![
                (LUNS, luns / work.lun),
                ("channels", f64::from(self.g.channels) * unit as f64 / work.channel),
                (WAITING, luns / round),
                (STRIDES, strides),
                (VICTIMS, work.collector[0]),
                (UNITS, work.collector[1]),
                (OWN, work.own),
                ("firmware", cores / core),
                ("link", self.link_of(true, bytes)),
                ("limit program_rate", l.program_rate as f64 / work.programs),
                ("limit write_rate", l.write_rate as f64),
                ("limit write_iops", l.write_iops as f64 * bytes as f64),
            ],
            drawn,
        );
        // Strides that wait have most LUNs without work.
        let in_phase =
            work.strides.is_none().then(|| self.all_in_phase(unit, work.lun, work.channel));
        Peak { in_phase, ..peak }
    }

    /// Writes of 4 KiB over sectors that hold data: each programs a unit, and has read the rest of it.
    fn write_in_place(&self) -> Peak {
        let (n, unit) = (&self.config.nand, self.g.unit_bytes());
        let (command, transfer) = (n.t_command.as_secs_f64(), self.transfer(unit));
        let (t_read, t_program) = (n.t_read.mean().as_secs_f64(), n.t_program.mean().as_secs_f64());
        let mut lun = command + transfer + t_program;
        let mut channel = command + transfer;
        let mut drawn = Drawn {
            bytes: SECTOR as f64,
            held: [0.0, lun, 0.0],
            array: [0.0, t_program, 0.0],
            channel,
            core: 0.0,
        };
        let cost = &self.config.ftl.cost;
        let mut work =
            self.firmware(true, self.g.sector.holding(SECTOR)) + cost.program_unit.as_secs_f64();
        if unit > SECTOR {
            drawn.held[0] = command + t_read + transfer;
            drawn.array[0] = t_read;
            lun += drawn.held[0];
            channel += command + transfer;
            work += cost.background_command.as_secs_f64();
        }
        (drawn.channel, drawn.core) = (channel, work);
        let l = &self.config.device.limits;
        let of = |count: u32, time: f64| f64::from(count) * SECTOR as f64 / time;
        let peak = self.limited(
            "random write, 4 KiB, in place".into(),
            SECTOR,
            vec![
                (LUNS, of(self.g.luns, lun)),
                ("channels", of(self.g.channels, channel)),
                (WAITING, of(self.g.luns, self.with_waits(lun, channel))),
                ("firmware", of(self.config.device.firmware.cores, work)),
                ("link", self.link_of(true, SECTOR)),
                ("limit program_rate", l.program_rate as f64 * SECTOR as f64 / unit as f64),
                ("limit write_rate", l.write_rate as f64),
                ("limit write_iops", l.write_iops as f64 * SECTOR as f64),
            ],
            drawn,
        );
        let in_phase = Some(self.all_in_phase(SECTOR, lun, channel));
        Peak { in_phase, ..peak }
    }

    /// What a read at random waits for a page of the map that memory does not have, on average.
    fn map_stage(&self) -> Span {
        let (n, cost) = (&self.config.nand, &self.config.ftl.cost);
        let time = cost.background_command
            + cost.gc_sector
            + n.t_command
            + n.t_read.mean()
            + Span::of_bytes(self.g.sector.bytes(), self.channel())
            + self.decoding().map_or(Span::ZERO, |(time, _)| time);
        Span((self.map_misses(1, true) * time.0 as f64).round() as u64)
    }

    /// A 4 KiB read on an idle drive, from the doorbell to the completion entry in host memory.
    fn read_stages(&self, cached: bool) -> Vec<Stage> {
        let (n, d) = (&self.config.nand, &self.config.device);
        let mut out = self.fetch(self.start(false));
        let mut stage = |name, time| out.push(Stage { name, time });
        if let Some(cache) = &d.cache {
            stage("cache look-up", cache.t_lookup);
        }
        if !cached {
            stage("FTL", self.ftl_time(false, self.g.sector.holding(SECTOR)));
            stage("page of the map, on average", self.map_stage());
            stage("flash command", n.t_command);
            stage("array", n.t_read.mean());
            stage("channel", Span::of_bytes(SECTOR, self.channel()));
            stage("error correction", self.decoding().map_or(Span::ZERO, |(time, _)| time));
        }
        if let Some(cache) = &d.cache {
            stage("DRAM", Span::of_bytes(SECTOR, cache.rate));
        }
        match self.sas {
            Some(_) => stage("data frames", self.link(SECTOR) + self.entry()),
            None if let Some((sata, times)) = self.sata() => {
                stage("data frames", times.setup + sata.data(SECTOR) + times.over);
            }
            None => stage("data to host", self.link(SECTOR + CQE_BYTES)),
        }
        self.complete(out)
    }

    /// A 4 KiB write, complete once it is in DRAM: the host's, below an FTL on the host.
    fn write_stages(&self) -> Vec<Stage> {
        let d = &self.config.device;
        if !self.on_device() {
            let cost = &self.config.ftl.cost;
            let time = cost.write_command + cost.write_sector * self.g.sector.holding(SECTOR);
            return vec![Stage { name: "buffer of the FTL on the host", time }];
        }
        let mut out = self.fetch(self.start(true));
        let mut stage = |name, time| out.push(Stage { name, time });
        let frames = self.sas.is_some() || d.sata.is_some();
        let data = if frames { "data frames" } else { "data from host" };
        stage(data, self.t_ask() + self.link(SECTOR));
        if let Some(cache) = &d.cache {
            stage("cache look-up", cache.t_lookup);
            stage("DRAM", Span::of_bytes(SECTOR, cache.rate));
        }
        // A write-back cache answers before the FTL hears of the write.
        if !d.cache.as_ref().is_some_and(|cache| cache.write_back) {
            stage("FTL", self.ftl_time(true, self.g.sector.holding(SECTOR)));
        }
        if self.sas.is_some() {
            out.push(Stage { name: "ready frame", time: self.entry() });
        } else if d.sata.is_some() {
            out.push(Stage { name: "status frame", time: self.entry() });
        }
        self.complete(out)
    }

    fn fetch(&self, firmware: Span) -> Vec<Stage> {
        let link = &self.config.device.link;
        if let Some(sas) = self.sas {
            let command = Span::of_bytes(sas.command_bytes.into(), sas.rate) + sas.t_way;
            return vec![
                Stage { name: "doorbell", time: Span::ZERO },
                Stage { name: "command frame", time: command },
                Stage { name: "controller", time: firmware },
            ];
        }
        if let Some((_, times)) = self.sata() {
            return vec![
                Stage { name: "doorbell", time: link.t_post },
                Stage { name: "command tables", time: times.tables },
                Stage { name: "command frame", time: times.command },
                Stage { name: "firmware", time: firmware },
            ];
        }
        vec![
            Stage { name: "doorbell", time: link.t_post },
            Stage { name: "command fetch", time: self.link(SQE_BYTES) + link.t_round_trip },
            Stage { name: "firmware", time: firmware },
        ]
    }

    fn complete(&self, mut stages: Vec<Stage>) -> Vec<Stage> {
        let d = &self.config.device;
        let (name, way) = match self.sas {
            Some(sas) => ("response", sas.t_way),
            None => ("completion", d.link.t_post),
        };
        stages.push(Stage { name, time: d.firmware.t_complete + way });
        stages.retain(|stage| stage.time > Span::ZERO);
        stages
    }
}
