//! The `[ftl]` section of a profile.

use crate::line::Lines;
use crate::map::MAX_SLOTS;
use serde::{Deserialize, Serialize};
use wordline_base::Span;
use wordline_nand::Geometry;

/// Which side of the NVMe queues the FTL runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// On the host, above an open-channel drive addressed by physical page (pblk).
    Host,
    /// In the drive's controller.
    Device,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VictimPolicy {
    /// The line with the least valid sectors.
    Greedy,
    /// The line with the largest (1 - u) age / (1 + u), u its valid share (Rosenblum and Ousterhout).
    CostBenefit,
    /// The line closed first.
    Fifo,
    /// The least valid of `d` lines drawn at random (Van Houdt).
    DChoices,
    /// Any line, drawn at random.
    Random,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FtlConfig {
    pub placement: Placement,
    /// Share of the raw capacity less metadata that users cannot fill, in percent.
    pub over_provisioning: f64,
    /// Entries (4 KiB sectors) of the write buffer, rounded up to a power of two of at least 128.
    /// Absent: room for two units a LUN, or for one and 64 sectors if that is more.
    #[serde(default)]
    pub buffer_sectors: Option<u32>,
    /// Entries of the write buffer that producers never occupy, so that the newest data stay in
    /// memory for a while after they are durable. Absent: one unit a LUN.
    #[serde(default)]
    pub back_threshold: Option<u32>,
    /// Sectors of one write request: its units go to flash together, once the LUN of each is free.
    #[serde(default = "sixty_four")]
    pub max_request_sectors: u32,
    /// Period at which the collector looks for victims afresh and `pad_idle` for an idle buffer, while
    /// there is work in flight (pblk's timers of 1 s). 0: only events do that.
    #[serde(default = "second")]
    pub write_timer: Span,
    /// Pad a unit that is not full when nothing was inserted for a `write_timer` (pblk waits for
    /// more data or a flush).
    #[serde(default)]
    pub pad_idle: bool,
    /// Lines with fewer good LUNs are not used. Absent: enough for metadata and one block of data.
    #[serde(default)]
    pub min_good_luns: Option<u32>,
    /// Closed lines whose metadata wait in memory before the writer waits for them.
    #[serde(default = "four")]
    pub meta_lines: u32,
    /// LUNs between a unit of data and the unit of metadata written beside it. Absent: half of all.
    #[serde(default)]
    pub meta_distance: Option<u32>,
    /// Free lines at and above which nothing is collected. Absent: the over-provisioned lines less
    /// metadata and two lines.
    #[serde(default)]
    pub gc_start_lines: Option<u32>,
    /// Free lines at and below which users wait. Absent: 100 / `over_provisioning` (what it takes to
    /// free one line at worst), at most half of `gc_start_lines`.
    #[serde(default)]
    pub gc_reserve_lines: Option<u32>,
    /// Victims collected at a time.
    #[serde(default = "four")]
    pub gc_lines: u32,
    /// Requests of the collector being read from flash at a time.
    #[serde(default = "eight")]
    pub gc_readers: u32,
    /// Requests of the collector in memory, read or being read.
    #[serde(default = "default_gc_queue")]
    pub gc_queue: u32,
    /// Sectors of a collector's request, at most 64.
    #[serde(default = "sixty_four")]
    pub gc_request_sectors: u32,
    /// After this long without a user write the collector may fill the whole buffer.
    #[serde(default = "five_seconds")]
    pub user_idle: Span,
    /// Static wear levelling: when the erase counts of two lines differ by more than this, the line
    /// erased least is moved. 0: off, as in pblk.
    #[serde(default)]
    pub wear_spread: u32,
    #[serde(default = "greedy")]
    pub victim: VictimPolicy,
    /// Lines drawn by `victim = "d-choices"`.
    #[serde(default = "default_d")]
    pub d_choices: u32,
    #[serde(default)]
    pub cost: FtlCost,
}

impl FtlConfig {
    /// pblk's values for everything but these two.
    pub fn new(placement: Placement, over_provisioning: f64) -> FtlConfig {
        FtlConfig {
            placement,
            over_provisioning,
            buffer_sectors: None,
            back_threshold: None,
            max_request_sectors: 64,
            write_timer: second(),
            pad_idle: false,
            min_good_luns: None,
            meta_lines: 4,
            meta_distance: None,
            gc_start_lines: None,
            gc_reserve_lines: None,
            gc_lines: 4,
            gc_readers: 8,
            gc_queue: default_gc_queue(),
            gc_request_sectors: 64,
            user_idle: five_seconds(),
            wear_spread: 0,
            victim: VictimPolicy::Greedy,
            d_choices: default_d(),
            cost: FtlCost::default(),
        }
    }
}

fn four() -> u32 {
    4
}
fn eight() -> u32 {
    8
}
fn sixty_four() -> u32 {
    64
}
fn default_gc_queue() -> u32 {
    128
}
fn second() -> Span {
    Span::from_secs(1)
}
fn five_seconds() -> Span {
    Span::from_secs(5)
}
fn greedy() -> VictimPolicy {
    VictimPolicy::Greedy
}
fn default_d() -> u32 {
    10
}

/// Processor time of the FTL's work, on the firmware core or the host core it runs on.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FtlCost {
    /// Translating a read, per command.
    pub read_command: Span,
    /// ... and per sector.
    pub read_sector: Span,
    /// Admitting a write to the buffer, per command.
    pub write_command: Span,
    /// ... and per sector, with its copy.
    pub write_sector: Span,
    /// Mapping and issuing one unit (write thread).
    pub program_unit: Span,
    /// Finding a valid sector of a victim and moving it into the buffer.
    pub gc_sector: Span,
    /// Issuing an erase or a flash read of the FTL's own.
    pub background_command: Span,
}

/// Sectors of data that all lines can hold.
pub(crate) fn data_sectors(lines: &Lines) -> u64 {
    let units: u64 = lines
        .lines
        .iter()
        .filter(|l| l.good >= lines.min_good)
        .map(|l| u64::from(lines.data_units(l.good)))
        .sum();
    units * u64::from(lines.sectors_per_unit)
}

/// What follows from configuration and geometry.
pub(crate) struct Plan {
    pub sectors: u64,
    pub buffer: u32,
    pub back: u32,
    /// In blocks.
    pub high: u32,
    pub reserve: u32,
}

impl Plan {
    pub fn new(
        g: &Geometry,
        c: &FtlConfig,
        lines: &Lines,
        sectors: Option<u64>,
    ) -> Result<Plan, (&'static str, String)> {
        let unit = g.sectors_per_unit;
        let least = [
            ("max_request_sectors", c.max_request_sectors, unit),
            ("gc_lines", c.gc_lines, 1),
            ("gc_readers", c.gc_readers, 1),
            ("gc_queue", c.gc_queue, c.gc_readers),
            ("gc_request_sectors", c.gc_request_sectors, 1),
            ("meta_lines", c.meta_lines, 1),
            ("d_choices", c.d_choices, 1),
        ];
        for (key, value, min) in least {
            if value < min {
                return Err((key, format!("is {value}, must be at least {min}")));
            }
        }
        if c.gc_request_sectors > 64 {
            return Err(("gc_request_sectors", "must be at most 64".into()));
        }
        if c.meta_distance.is_some_and(|d| d >= g.luns) {
            return Err(("meta_distance", format!("must be below the {} LUNs", g.luns)));
        }
        if c.user_idle == Span::ZERO {
            return Err(("user_idle", "must be above 0".into()));
        }
        if c.pad_idle && c.write_timer == Span::ZERO {
            return Err(("pad_idle", "needs a write_timer above 0".into()));
        }
        if !(0.0..100.0).contains(&c.over_provisioning) {
            return Err(("over_provisioning", "must be from 0 to below 100 percent".into()));
        }

        let stripe = unit * g.luns;
        let back = c.back_threshold.unwrap_or(stripe);
        let size = c.buffer_sectors.unwrap_or(back.saturating_add(stripe.max(64))).max(128);
        if size > MAX_SLOTS || back > MAX_SLOTS {
            return Err((
                "buffer_sectors",
                format!("must be at most {MAX_SLOTS} with back_threshold"),
            ));
        }
        let buffer = size.next_power_of_two();
        if buffer < back + 2 * unit {
            return Err((
                "buffer_sectors",
                format!(
                    "{buffer} entries leave less than two units of {unit} above the back threshold \
                     of {back}: use at least {} or a smaller back_threshold",
                    back + 2 * unit
                ),
            ));
        }

        // Space in lines of the least and the most data.
        let good = || lines.lines.iter().filter(|l| l.good >= lines.min_good).map(|l| l.good);
        let count = good().count() as u64;
        let line_min = u64::from(lines.data_units(good().min().unwrap_or(0)) * unit);
        let line_max = u64::from(lines.data_units(good().max().unwrap_or(0)) * unit);
        let total = data_sectors(lines);
        if count == 0 || line_min == 0 {
            return Err(("min_good_luns", "no line has enough good blocks".into()));
        }
        // What is in the buffer when users are stopped must still find room, and one victim.
        let usable = u64::from(buffer - back);
        let reserve_min = 1 + (usable + 4 * u64::from(unit)).div_ceil(line_min);
        // The open line, the next, the reserve, a line to gain, and what padding may waste of each
        // line: with less than that unusable by users the collector could not go on.
        let needed = (3 + reserve_min) * line_max + 2 * u64::from(unit) * count;
        let made = sectors.is_none();
        let share = 1.0 - c.over_provisioning / 100.0;
        let sectors = sectors.unwrap_or((total as f64 * share) as u64);
        // A worn drive goes on with what it has.
        let least = if made { needed } else { (3 + reserve_min) * line_max };
        if sectors == 0 || least + sectors > total {
            let percent = needed as f64 / total as f64 * 100.0;
            return Err((
                "over_provisioning",
                if percent >= 99.0 {
                    format!("{count} lines are too few to collect garbage with: use more blocks")
                } else {
                    format!(
                        "{} % leaves no room to collect garbage: this geometry ({count} lines of \
                         {line_max} data sectors, a buffer of {buffer}) needs at least {:.2} %",
                        c.over_provisioning,
                        percent + 0.01
                    )
                },
            ));
        }
        let spare_lines = (total - sectors) / line_max;
        let high = c.gc_start_lines.map_or(spare_lines.saturating_sub(2), u64::from);
        if high <= reserve_min || high >= count {
            return Err((
                "gc_start_lines",
                format!("is {high}, must be above {reserve_min} and below {count} lines"),
            ));
        }
        let worst =
            if c.over_provisioning > 0.0 { (100.0 / c.over_provisioning).ceil() } else { 1e9 };
        // pblk's reserve is about a tenth of the room above it on a drive of a thousand lines. On
        // one of few lines it would swallow the middle part, and users would get nothing until a
        // whole line is free, then everything.
        let reserve =
            c.gc_reserve_lines.map_or((worst as u64).min(high / 10).max(reserve_min), u64::from);
        if reserve < reserve_min || reserve >= high {
            return Err((
                "gc_reserve_lines",
                format!("is {reserve}, must be from {reserve_min} to below gc_start_lines, {high}"),
            ));
        }
        // More than can ever be free is a threshold that stops users for good.
        if reserve + 3 > spare_lines {
            return Err((
                "gc_reserve_lines",
                format!("is {reserve}, but only {spare_lines} lines are over-provisioned"),
            ));
        }
        let blocks = |lines: u64| (lines * u64::from(g.luns)).min(u64::from(u32::MAX)) as u32;
        Ok(Plan { sectors, buffer, back, high: blocks(high), reserve: blocks(reserve) })
    }
}
