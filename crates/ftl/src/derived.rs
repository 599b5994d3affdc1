//! What settings and geometry come to: sectors, the buffer, the levels of the collector.

use crate::config::{FtlConfig, GcBuffer};
use crate::line::{Lines, emeta_sectors};
use crate::map::MAX_SLOTS;
use crate::stride::Strides;
use wordline_base::{BadValue, Span};
use wordline_nand::Geometry;
use wordline_translation::Capacity;

/// Sectors of data that all lines can hold.
pub(crate) fn data_sectors(lines: &Lines) -> u64 {
    lines.all_units() * u64::from(lines.sectors_per_unit)
}

/// Sectors that over-provisioning is a share of.
fn before_over_provisioning(lines: &Lines, c: &FtlConfig) -> u64 {
    if c.op_after_parity { data_sectors(lines) } else { lines.sectors_without_parity() }
}
/// Sectors of a new drive that users can write.
fn for_users(lines: &Lines, c: &FtlConfig) -> u64 {
    let share = 1.0 - c.over_provisioning / 100.0;
    (before_over_provisioning(lines, c) as f64 * share) as u64
}

/// The write buffer's entries, and those of them that are never free: the newest data stay in memory.
#[derive(Clone, Copy)]
pub(crate) struct Buffer {
    pub size: u32,
    pub back: u32,
}

impl Buffer {
    /// Checks first what does not depend on lines.
    pub fn new(g: &Geometry, c: &FtlConfig) -> Result<Buffer, BadValue> {
        let unit = g.sectors_per_unit;
        let least = [
            ("max_request_sectors", c.max_request_sectors, unit),
            ("gc_lines", c.gc_lines, 1),
            ("gc_readers", c.gc_readers, 1),
            ("gc_queue", c.gc_queue, c.gc_readers),
            ("gc_request_sectors", c.gc_request_sectors, 1),
            ("meta_lines", c.meta_lines, 1),
            ("d_choices", c.d_choices, 1),
            ("victim_window", c.victim_window, 1),
            ("parities", c.parities, 1),
        ];
        for (key, value, min) in least {
            if value < min {
                return Err(BadValue::new(key, format!("is {value}, must be at least {min}")));
            }
        }
        // Each has its memory, used or not.
        let most = [
            ("gc_lines", c.gc_lines),
            ("gc_readers", c.gc_readers),
            ("gc_queue", c.gc_queue),
            ("meta_lines", c.meta_lines),
        ];
        if let Some((key, value)) = most.into_iter().find(|(_, value)| *value > 1 << 16) {
            return Err(BadValue::new(key, format!("is {value}, must be at most {}", 1 << 16)));
        }
        if c.gc_request_sectors > 64 {
            return Err(BadValue::new("gc_request_sectors", "must be at most 64"));
        }
        if c.meta_distance.is_some_and(|d| d >= g.luns) {
            return Err(BadValue::new(
                "meta_distance",
                format!("must be below the {} LUNs", g.luns),
            ));
        }
        if c.user_idle == Span::ZERO {
            return Err(BadValue::new("user_idle", "must be above 0"));
        }
        if c.pad_idle && c.write_timer == Span::ZERO {
            return Err(BadValue::new("pad_idle", "needs a write_timer above 0"));
        }
        if c.stride > 0 && !(2..=16).contains(&c.stride) {
            return Err(BadValue::new(
                "stride",
                format!("is {}, must be 2 to 16, or 0 for no parity", c.stride),
            ));
        }
        if c.parities > 2 || c.stride > 0 && c.parities >= c.stride {
            let most = 2.min(c.stride.saturating_sub(1));
            return Err(BadValue::new(
                "parities",
                format!("is {}, must be 1 to {most}", c.parities),
            ));
        }
        if c.write_mostly_iops > 0 && c.write_mostly_window == Span::ZERO {
            return Err(BadValue::new("write_mostly_window", "must be above 0"));
        }
        if c.partition_interval == 0 {
            return Err(BadValue::new("partition_interval", "must be at least 1 sector"));
        }
        if !(0.0..=100.0).contains(&c.cold_margin) {
            return Err(BadValue::new("cold_margin", "must be from 0 to 100 percent points"));
        }
        if c.page_pairs >= g.pages {
            return Err(BadValue::new(
                "page_pairs",
                format!("must be below the {} pages", g.pages),
            ));
        }
        if !(0.0..100.0).contains(&c.over_provisioning) {
            return Err(BadValue::new("over_provisioning", "must be from 0 to below 100 percent"));
        }

        // What cannot be read from flash yet: stripes being written, and those whose pairs are.
        let stripe = unit * g.luns * (1 + c.page_pairs);
        let back = c.back_threshold.unwrap_or(stripe);
        let size = c.buffer_sectors.unwrap_or(back.saturating_add(stripe.max(64))).max(128);
        if size > MAX_SLOTS || back > MAX_SLOTS {
            return Err(BadValue::new(
                "buffer_sectors",
                format!("must be at most {MAX_SLOTS} with back_threshold"),
            ));
        }
        let buffer = size.next_power_of_two();
        if buffer < back + 2 * unit {
            return Err(BadValue::new(
                "buffer_sectors",
                format!(
                    "{buffer} entries leave less than two units of {unit} above the back threshold \
                     of {back}: use at least {} or a smaller back_threshold",
                    back + 2 * unit
                ),
            ));
        }

        if (c.stride > 0 || c.page_pairs > 0) && buffer < stripe + 2 * unit {
            return Err(BadValue::new(
                "buffer_sectors",
                format!(
                    "{buffer} entries cannot hold what is not readable in flash yet, a stripe and \
                     its page pairs of {stripe}: use at least {}",
                    stripe + 2 * unit
                ),
            ));
        }
        Ok(Buffer { size: buffer, back })
    }
}

/// What follows from configuration and geometry, for lines.
pub(crate) struct Plan {
    pub sectors: u64,
    pub buffer: u32,
    /// Those of the collector's data where they are apart.
    pub cold_buffer: u32,
    pub cold_back: u32,
    pub back: u32,
    /// In blocks.
    pub high: u32,
    pub reserve: u32,
    /// It takes no data.
    pub worn: bool,
}

impl Plan {
    pub fn new(
        g: &Geometry,
        c: &FtlConfig,
        lines: &mut Lines,
        capacity: Capacity,
    ) -> Result<Plan, BadValue> {
        let unit = g.sectors_per_unit;
        let Buffer { size: buffer, back } = Buffer::new(g, c)?;
        // Space in lines of the least and the most data, both sides together.
        let units = lines.units_of_blocks();
        let units = || units.iter().copied().filter(|&u| u > 0);
        let count = units().count() as u64;
        let line_min = u64::from(units().min().unwrap_or(0) * unit);
        let line_max = u64::from(units().max().unwrap_or(0) * unit).max(1);
        let total = data_sectors(lines);
        let worn = matches!(capacity, Capacity::Worn(_));
        if !worn && (count == 0 || line_min == 0) {
            return Err(BadValue::new("min_good_luns", "no line has enough good blocks"));
        }
        // What is in the buffer when users are stopped must still find room, and one victim.
        let usable = u64::from(buffer - back);
        let reserve_min = 1 + (usable + 4 * u64::from(unit)).div_ceil(line_min.max(1));
        // The open line, the next, the reserve, a line to gain, and what padding may waste of each
        // line: with less than that unusable by users the collector could not go on. Where hot and
        // cold are apart each has an open line and a next one.
        let reserve_min = reserve_min + if c.hot_cold { 2 } else { 0 };
        let needed = (3 + reserve_min) * line_max + 2 * u64::from(unit) * count;
        let made = capacity == Capacity::Fresh;
        let sectors = capacity.sectors().unwrap_or_else(|| for_users(lines, c));
        // A drive that has lost blocks goes on with what it has.
        let least = if made { needed } else { (3 + reserve_min) * line_max };
        if !worn && (sectors == 0 || least + sectors > total) {
            let most = total.saturating_sub(needed) as f64;
            let percent = 100.0 * (1.0 - most / before_over_provisioning(lines, c).max(1) as f64);
            return Err(BadValue::new(
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
        let spare_lines = total.saturating_sub(sectors) / line_max;
        let high = c.gc_start_lines.map_or(spare_lines.saturating_sub(2), u64::from);
        if !worn && (high <= reserve_min || high >= count) {
            return Err(BadValue::new(
                "gc_start_lines",
                format!("is {high}, must be above {reserve_min} and below {count} lines"),
            ));
        }
        // The open line and the next one are never free.
        let most = spare_lines.saturating_sub(2);
        if made && high > most {
            return Err(BadValue::new(
                "gc_start_lines",
                format!(
                    "is {high}, but only {most} lines can be free, so that the collector would never rest: take \
                     at most {most}, or raise over_provisioning"
                ),
            ));
        }
        let worst =
            if c.over_provisioning > 0.0 { (100.0 / c.over_provisioning).ceil() } else { 1e9 };
        // pblk's reserve is about a tenth of the room above it on a drive of a thousand lines. On
        // one of few lines it would swallow the middle part, and users would get nothing until a
        // whole line is free, then everything.
        let reserve =
            c.gc_reserve_lines.map_or((worst as u64).min(high / 10).max(reserve_min), u64::from);
        if !worn && (reserve < reserve_min || reserve >= high) {
            return Err(BadValue::new(
                "gc_reserve_lines",
                format!("is {reserve}, must be from {reserve_min} to below gc_start_lines, {high}"),
            ));
        }
        // More than can ever be free is a threshold that stops users for good.
        if !worn && reserve + 3 > spare_lines {
            return Err(BadValue::new(
                "gc_reserve_lines",
                format!("is {reserve}, but only {spare_lines} lines are over-provisioned"),
            ));
        }
        // A worn drive has none to share out.
        let high = high.max(reserve + 1);
        let blocks = |lines: u64| (lines * u64::from(g.luns)).min(u64::from(u32::MAX)) as u32;
        let (cold_buffer, cold_back) = if c.hot_cold { (buffer, back) } else { (2, 0) };
        let (high, reserve) = (blocks(high), blocks(reserve));
        Ok(Plan { sectors, buffer, cold_buffer, cold_back, back, high, reserve, worn })
    }
    /// Entries that the limiter shares out.
    pub fn budget(&self, c: &FtlConfig) -> u32 {
        let one = self.buffer - self.back;
        match c.hot_cold && c.gc_buffer == GcBuffer::Own {
            _ if self.worn => 0,
            true => 2 * one,
            false => one,
        }
    }
}

/// Lines of pblk's limiter: free ones at and above which nothing is collected, and at and below which users wait.
pub fn collector_marks(g: &Geometry, config: &FtlConfig) -> Result<[u32; 2], BadValue> {
    let mut lines = Lines::new(g, config, &mut |_, _| false)?;
    let plan = Plan::new(g, config, &mut lines, Capacity::Fresh)?;
    Ok([plan.high, plan.reserve].map(|blocks| blocks / g.luns))
}

/// Sectors of lines whose blocks are all good, and what users' data have of their LUNs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineRoom {
    /// Sectors of data of all lines.
    pub data: u64,
    /// Sectors of their metadata. All the rest is parity.
    pub metadata: u64,
    /// Sectors that users can write.
    pub users: u64,
    /// LUNs of a line that users' data go to; of hot and cold data apart, on a new drive.
    pub luns: u32,
    /// Those of them that hold parity.
    pub parity_luns: u32,
}

/// What lines have room for on a new drive.
pub fn line_room(g: &Geometry, config: &FtlConfig) -> Result<LineRoom, BadValue> {
    Buffer::new(g, config)?;
    let lines = Lines::new(g, config, &mut |_, _| false)?;
    let luns = lines.hot;
    let parity_luns = Strides::new(luns, config).map_or(0, |s| s.count * s.parities);
    let sides = if lines.is_split() { [luns, g.luns - luns] } else { [luns, 0] };
    let units = |luns: u32| 1 + emeta_sectors(g, luns).div_ceil(g.sectors_per_unit);
    let metadata: u32 = sides.into_iter().filter(|&luns| luns > 0).map(units).sum();
    Ok(LineRoom {
        data: data_sectors(&lines),
        metadata: u64::from(metadata) * u64::from(g.lines) * u64::from(g.sectors_per_unit),
        users: for_users(&lines, config),
        luns,
        parity_luns,
    })
}
