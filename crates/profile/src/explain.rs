//! The figures of [`crate::derive`] as text, for people.

use crate::config::Config;
use crate::derive::{
    AS_ONE, AtDepth, Capacity, Chosen, Derived, Peak, ReadAgain, Stage, derive, refreshing, total,
};
use std::fmt::Write;
use wordline_base::Span;
use wordline_device::BridgeConfig;
use wordline_ftl::{FtlConfig, Placement, Throttle, VictimPolicy};

/// Three significant digits and a prefix: `2.29 TB`.
fn si(value: f64, unit: &str) -> String {
    scaled(value, 1000.0, &["", "k", "M", "G", "T", "P", "E"], unit)
}

fn binary(bytes: u64) -> String {
    scaled(bytes as f64, 1024.0, &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"], "B")
}

fn scaled(mut value: f64, step: f64, prefixes: &[&str], unit: &str) -> String {
    let mut prefix = 0;
    while value >= step && prefix + 1 < prefixes.len() {
        value /= step;
        prefix += 1;
    }
    let digits = match value {
        v if v >= 100.0 || v.fract() == 0.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {}{unit}", prefixes[prefix])
}

fn seconds(s: f64) -> String {
    match s {
        s if !s.is_finite() => "never".into(),
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.1} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// The name of a variant as settings have it: `cost-benefit`.
fn words(variant: &str) -> String {
    let mut out = String::new();
    for c in variant.chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// Which LUNs of how many hold parity.
fn strides(ftl: &FtlConfig, luns: u32) -> String {
    let units = match ftl.parities {
        1 => "a unit".into(),
        n => format!("{n} units"),
    };
    if ftl.hot_cold {
        return format!(
            "{units} in strides of {}, of hot data alone and on a new drive",
            ftl.stride
        );
    }
    // LUNs that are left over join the first strides.
    let count = (luns / ftl.stride.max(1)).max(1);
    let (least, most) = (luns / count, luns.div_ceil(count));
    let wide = if least == most { most.to_string() } else { format!("{least} to {most}") };
    let of = match most == ftl.stride {
        true => String::new(),
        false => format!(" (ftl.stride is {}, and {luns} LUNs are {count} of them)", ftl.stride),
    };
    format!("{units} in strides of {wide}{of}")
}

/// Why there is no rate of reads beside throttled writes.
fn reads_wait(config: &Config) -> &'static str {
    match (config.ftl.hot_cold, config.ftl.throttle) {
        (true, _) => "no closed form has how long the LUNs of hot and of cold data are busy",
        (_, Throttle::Gc) => "reads wait behind users' programs",
        _ => "reads of busy LUNs wait (ftl.rebuild_from_one)",
    }
}

struct Lines(String);

impl Lines {
    fn head(&mut self, text: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0 += text;
        self.0.push('\n');
    }
    fn row(&mut self, name: &str, value: impl AsRef<str>) {
        writeln!(self.0, "  {name:<30}{}", value.as_ref()).expect("a String takes all");
    }
    fn peak(&mut self, peak: &Peak) {
        let least = peak.least().name;
        let rate = si(peak.bytes_per_s(), "B/s");
        let iops = si(peak.iops(), "IOPS");
        self.row(&peak.name, format!("{rate:>10}  {iops:>10}  bounded by {least}"));
        let mut others: Vec<_> = peak.bounds.iter().filter(|b| b.name != least).collect();
        others.sort_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s));
        let others: Vec<_> =
            others.iter().map(|b| format!("{} {}", b.name, si(b.bytes_per_s, "B/s"))).collect();
        if !others.is_empty() {
            self.row("", format!("then {}", others.join(", ")));
        }
        if let Some([least, most]) = peak.between().filter(|[least, most]| *least < AS_ONE * most) {
            let [least, most] = [least, most].map(|rate| si(rate, "B/s"));
            let text = format!(
                "from {} of LUNs that all program at one time to {}, where no data wait: a run may come to either",
                least.trim(),
                most.trim()
            );
            self.row("", text);
        }
    }
    /// Random reads with so many at a time.
    fn at_depths(&mut self, rates: &[AtDepth]) {
        let depths: Vec<_> = rates
            .iter()
            .map(|at| {
                let [iops, least, most] =
                    [at.iops, at.least, at.most].map(|iops| si(iops, "").trim_end().to_string());
                match at.least < AS_ONE * at.most {
                    true => format!("{}: {least} to {most}", at.depth),
                    false => format!("{}: {iops}", at.depth),
                }
            })
            .collect();
        self.row("... with so many at a time", format!("{} IOPS", depths.join(", ")));
        if rates.iter().any(|at| at.least < AS_ONE * at.most) {
            let text = "least: data wait for those of other LUNs of their channel; most: only for a channel that is full";
            self.row("", text);
        }
    }
    fn mapping(&mut self, c: &Capacity, memory: &str, config: &Config, misses: f64) {
        let map = binary(c.user_sectors * 4);
        let firmware = config.ftl.firmware.as_ref();
        let text = match firmware.filter(|_| misses > 0.0) {
            Some(firmware) => format!(
                "{map}, {} of it in memory: {:.1} % of look-ups at random read a page of it",
                binary(firmware.map_bytes),
                misses * 100.0
            ),
            None => format!("{map} of {memory} memory"),
        };
        self.row("L2P, 4 B a sector", text);
        // Whose sectors are where, a drive's firmware has in the spare areas of flash.
        let (back, more) = match firmware.is_some() {
            true => (0, "a bit more for each raw one"),
            false => (4, "4 B and a bit more for each raw one, once all lines are written"),
        };
        let all = c.user_sectors * 4 + c.raw_sectors * back + c.raw_sectors / 8;
        let each = all as f64 / c.user_sectors as f64;
        self.row("whole mapping", format!("{}, {each:.2} B a user sector: {more}", binary(all)));
    }
    /// The rate of writes that wait for their strides, beside that of writes that do not.
    fn throttled(&mut self, peak: &Peak, other: &Peak, ftl: &FtlConfig) {
        let [all, none] =
            [peak, other].map(|peak| si(peak.bytes_per_s(), "B/s").trim().to_string());
        if ftl.throttle == Throttle::Gc {
            let text = format!(
                "from {all}, if all programs waited for their strides: those of units that begin with the collector's \
                 data do, and no form has which these are"
            );
            return self.row("", text);
        }
        match ftl.write_mostly_iops {
            0 => self.row("", "throttled, beside reads or none (ftl.write_mostly_iops = 0)"),
            least => {
                self.peak(peak);
                let text = format!(
                    "at most, beside {least} reads a second or more: programs also wait for reads under way. {none} beside \
                     fewer"
                );
                self.row("", text);
            }
        }
    }
    /// What the write amplification stands for.
    fn amplification(&mut self, config: &Config, d: &Derived) {
        let ftl = &config.ftl;
        let Some(wa) = d.uniform_wa else {
            let text = "no figure past that: no closed form has what is moved where hot and cold data are apart";
            return self.row("", text);
        };
        let keeper = match ftl.firmware.is_some() || ftl.fssd.is_some() {
            true => "the collector",
            false => "the rate limiter",
        };
        let text = "the second WA: uniform random writes to a full drive, with the lines";
        self.row("", format!("{text} {keeper} keeps free,"));
        let victims = match (&ftl.firmware, &ftl.fssd) {
            (Some(firmware), _) => format!("{:?}", firmware.victim),
            (None, Some(_)) => format!("{:?}", VictimPolicy::Greedy),
            (None, None) => format!("{:?}", ftl.victim),
        };
        let victims = words(&victims);
        let text = match Chosen::by(ftl) {
            Chosen::Drawn(1) => format!("collected by victims drawn at random ({victims})"),
            Chosen::Drawn(d) => {
                format!("collected by the least in use of {d} drawn at random ({victims})")
            }
            Chosen::Oldest if victims == "fifo" => {
                "collected in turn, as its victims are (fifo)".into()
            }
            Chosen::Oldest => format!(
                "as if they were collected in turn; its own victims ({victims}) have about as much in use: runs come \
                 within an eighth of it"
            ),
        };
        self.row("", text);
        if d.map_written > 0.0 {
            // Pages written in turn are stale soon: a collector that takes what has least in use gains by them. FSSD's
            // checkpoints take the room of its log besides, and runs come to somewhat more.
            let gains = d.map_written > 0.5 && ftl.fssd.is_none();
            let bound = if gains { ". So many make it a bound" } else { "" };
            let what = match ftl.fssd {
                Some(_) => "checkpoints of the map (ftl.fssd",
                None => "pages of the map that are written in turn (ftl.firmware",
            };
            let more = 1.0 + d.map_written;
            let text = format!("times {more:.2} with {what}.checkpoint_sectors){bound}");
            self.row("", text);
        }
        if d.parity_factor > 1.0 {
            let parity = d.parity_factor;
            let text = format!("{wa:.2} of it the collector's, times {parity:.2} with parity");
            self.row("", text);
        }
    }
    /// What reads that are done again take, where one of a hundred is, and how many are lost, where one of a million is.
    fn read_again(&mut self, d: &Derived, config: &Config) {
        let errors = &config.nand.errors;
        let Some(ReadAgain { mean, each, lost }) = d.read_again else { return };
        let again = mean >= 0.01;
        if again {
            let all = total(&d.read_latency) + Span((mean * each.0 as f64) as u64);
            self.row(
                "... read again",
                format!(
                    "{mean:.2} times in the mean, {:.2} us each ({} cycles, {} days): {:.2} us. The rates above are of \
                     reads that are right at once",
                    each.as_us_f64(),
                    errors.cycles,
                    errors.age_days,
                    all.as_us_f64()
                ),
            );
        }
        if lost >= 1e-6 {
            let text = format!(
                "{lost:.2e} of such reads have more errors than the code corrects after {} more readings: what was there \
                 is lost, and the read fails",
                errors.steps
            );
            self.row(if again { "" } else { "... lost" }, text);
        }
    }
    fn latency(&mut self, name: &str, stages: &[Stage]) {
        let parts: Vec<_> =
            stages.iter().map(|s| format!("{} {:.2}", s.name, s.time.as_us_f64())).collect();
        self.row(name, format!("{:>7.2} us", total(stages).as_us_f64()));
        self.row("", parts.join(", "));
    }
}

/// The same of a bridge. What its drives are is said of them.
fn explain_bridge(config: &Config, bridge: &BridgeConfig, d: &Derived) -> String {
    let c = &d.capacity;
    let mut out = Lines(String::new());
    out.head(&format!("{}, a bridge (FTL: {})", config.device_name, config.ftl_name));
    let both = |bytes: u64| format!("{}  ({})", si(bytes as f64, "B"), binary(bytes));
    out.row("drives", bridge.drives.join(", "));
    out.row("stripe", binary(bridge.stripe_bytes.into()));
    let tags = format!("{}, {} a drive", config.device.queues.in_flight, bridge.drive_tags);
    out.row("commands at a time", tags);
    let sas = bridge.link.rate as f64;
    let share = f64::from(bridge.link.frame_bytes + bridge.link.frame_overhead);
    let data = sas * f64::from(bridge.link.frame_bytes) / share;
    out.row("link of a drive", format!("{}, {} of data", si(sas, "B/s"), si(data, "B/s")));
    out.row("link to the host", format!("{} of data", si(d.link_rate, "B/s")));

    out.head("Capacity");
    out.row("raw", both(c.raw_bytes()));
    out.row("spare", format!("{:.1} % of user capacity", c.spare_over_user() * 100.0));
    out.row("user", both(c.user_bytes()));

    out.head("Peak rates, and what bounds them");
    out.peak(&d.random_read);
    out.at_depths(&d.random_read_at);
    out.peak(&d.sequential_read);
    out.peak(&d.sequential_write);
    d.random_write.iter().for_each(|peak| out.peak(peak));
    let first = config.members.first().map_or("", |inside| &inside.name);
    out.row("", format!("what bounds a drive: wordline device check {first}, and its link here"));

    out.head("Latency of an idle drive, 4 KiB, doorbell to completion entry");
    out.latency("read from flash", &d.read_latency);
    if let Some(stages) = &d.cached_read_latency {
        out.latency("read from cache", stages);
    }
    out.latency("write, buffered", &d.write_latency);

    out.head("Life");
    let fill = c.user_bytes() as f64 / d.sequential_write.bytes_per_s();
    out.row("time to fill", seconds(fill));
    out.0
}

/// What a configuration amounts to, as `wordline device check` prints it.
pub fn explain(config: &Config) -> String {
    let d = derive(config);
    if let Some(bridge) = &config.device.bridge {
        return explain_bridge(config, bridge, &d);
    }
    let (g, c, n) = (&d.geometry, &d.capacity, &config.nand);
    let mut out = Lines(String::new());
    out.head(&format!("{} (FTL: {})", config.device_name, config.ftl_name));
    let both = |bytes: u64| format!("{}  ({})", si(bytes as f64, "B"), binary(bytes));

    out.head("Capacity");
    out.row("raw", both(c.raw_bytes()));
    let share = c.metadata_sectors as f64 / c.raw_sectors as f64 * 100.0;
    out.row("metadata of lines", format!("{share:.3} %"));
    if c.parity_sectors > 0 {
        let share = c.parity_sectors as f64 / c.raw_sectors as f64 * 100.0;
        out.row("parity", format!("{share:.2} %: {}", strides(&config.ftl, g.luns)));
    }
    let less = match (c.parity_sectors > 0, config.ftl.op_after_parity) {
        (false, _) => "raw less metadata",
        (true, true) => "raw less metadata and parity",
        (true, false) => "raw less metadata, parity taken from what is spare",
    };
    out.row(
        "over-provisioning",
        format!(
            "{:.2} % of {less}; spare is {:.1} % of user capacity, {} lines",
            config.ftl.over_provisioning,
            c.spare_over_user() * 100.0,
            c.spare_lines
        ),
    );
    out.row("user", both(c.user_bytes()));
    if n.faults.bad_blocks_ppb > 0 {
        let text = format!(
            "{:.2} % of all blocks, on average: users have about so much less of the drive than said here, and the rates \
             below are of a drive without",
            n.faults.bad_blocks_ppb as f64 / 1e7
        );
        out.row("bad from the factory", text);
    }
    if let Some(buffer) = &d.slc_buffer {
        let (always, blank) = (buffer.always_bytes as f64, buffer.blank_bytes as f64);
        let text = format!(
            "{} in blocks of its own, and {} more in blocks that it borrows: on a blank drive, fewer with what is \
             written, and none once the spare of a full one was written over",
            si(always, "B"),
            si(blank, "B")
        );
        out.row("SLC buffer", text);
    }
    let host = config.ftl.placement == Placement::Host;
    let memory = if host { "host" } else { "drive" };
    if g.in_place {
        let map = format!("{} of {memory} memory: a bit a sector", binary(c.user_sectors / 8));
        out.row("what is written", map);
    } else {
        out.mapping(c, memory, config, d.map_misses);
    }

    out.head("Geometry");
    let gang = if n.gang > 1 { format!(" in gangs of {}", n.gang) } else { String::new() };
    out.row("channels", format!("{}{gang}", n.channels));
    out.row("LUNs", g.luns.to_string());
    let own = if n.independent_plane_reads { ", which read on their own" } else { "" };
    out.row("write unit", format!("{}, {} planes{own}", binary(g.unit_bytes()), g.planes));
    out.row("stripe", binary(g.sector.bytes_of(g.sectors_per_stripe)));
    out.row(
        "line",
        format!("{}, {} stripes", binary(g.sector.bytes_of(g.sectors_per_line)), g.pages),
    );
    out.row("lines", g.lines.to_string());

    out.head("Peak rates, and what bounds them");
    out.peak(&d.random_read);
    out.at_depths(&d.random_read_at);
    if let Some(iops) = d.random_read_in_phase {
        let text =
            "where LUNs are never idle: a command waits for the data of its channel's others";
        out.row("... in phase", format!("{} {text}", si(iops, "IOPS")));
    }
    if let Some(throttled) = &d.throttled {
        match &throttled.random_read {
            Some(peak) => {
                out.peak(peak);
                out.row("", "busy LUNs' reads rebuilt from the rest of their strides");
            }
            None => {
                out.row("... beside throttled writes", format!("no figure: {}", reads_wait(config)))
            }
        }
    }
    out.peak(&d.sequential_read);
    out.peak(&d.sequential_write);
    if let Some(peak) = d.throttled.as_ref().and_then(|t| t.sequential_write.as_ref()) {
        out.throttled(peak, &d.sequential_write, &config.ftl);
    }
    if d.uniform_wa.is_none() {
        out.row("", "of a new drive, on the LUNs of hot data");
    }
    if let Some(buffer) = &d.slc_buffer {
        out.peak(&buffer.write);
        buffer.folding.iter().for_each(|peak| out.peak(peak));
        out.row("", "the rates before and after these are of the native cells alone");
    }
    d.random_write.iter().for_each(|peak| out.peak(peak));
    let throttled = d.throttled.as_ref().and_then(|t| t.random_write.as_ref());
    if let (Some(peak), Some(other)) = (throttled, d.random_write.get(1)) {
        out.throttled(peak, other, &config.ftl);
    }
    if !g.in_place {
        let units = (config.ftl.max_request_sectors / g.sectors_per_unit).min(g.luns);
        let is_pblk = config.ftl.firmware.is_none() && config.ftl.fssd.is_none();
        if is_pblk && units > 1 {
            let text = format!(
                "bounds: a request of {units} units (ftl.max_request_sectors) holds LUNs that are free until its last one is"
            );
            out.row("", text);
        }
        out.amplification(config, &d);
        if d.map_misses > 0.0 {
            let text = "bounds: what is moved waits for pages of the map while LUNs are idle";
            out.row("", text);
        }
        let few = |value: Option<u32>, least: u32| value.is_some_and(|value| value < least);
        if let Some(firmware) = &config.ftl.firmware
            && (few(firmware.gc_units, 2 * g.luns) || few(firmware.gc_lag, g.luns))
        {
            let text = format!(
                "bounds: with less than {} ftl.firmware.gc_units or {} gc_lag the collector waits for LUNs that others \
                 of its units could use",
                2 * g.luns,
                g.luns
            );
            out.row("", text);
        }
    }

    out.head("Latency of an idle drive, 4 KiB, doorbell to completion entry");
    out.latency("read from flash", &d.read_latency);
    out.read_again(&d, config);
    if let Some(stages) = &d.cached_read_latency {
        out.latency("read from cache", stages);
    }
    out.latency("write, buffered", &d.write_latency);
    if host {
        let cost = &config.ftl.cost;
        let read = (cost.read_command + cost.read_sector).as_us_f64();
        out.row("", format!("the FTL on the host adds {read:.2} us of its core to a read"));
    }

    out.head("Life");
    let fill = c.user_bytes() as f64 / d.sequential_write.bytes_per_s();
    match d.uniform_wa {
        Some(_) => out.row("time to fill", seconds(fill)),
        None => {
            out.row("time to fill", "no figure: lines of hot data are moved to cold LUNs meanwhile")
        }
    }
    if let Some(share) = refreshing(config, g) {
        let text = format!(
            "{:.2} % of the LUNs' time, to write all of a full drive within ftl.firmware.refresh_days",
            share * 100.0
        );
        out.row("written anew", text);
    }
    let left = n.endurance.saturating_sub(n.errors.cycles);
    let lent = d.slc_buffer.as_ref().map_or(0, |buffer| buffer.lent_bytes);
    let flash = (c.raw_bytes() - lent) as f64 * f64::from(left);
    let cycles = match n.errors.cycles {
        0 => format!("{left} cycles: {} to flash", si(flash, "B")),
        worn => format!(
            "{left} of {} cycles are left (nand.errors.cycles is {worn}): {} to flash",
            n.endurance,
            si(flash, "B")
        ),
    };
    out.row(
        "endurance",
        match d.uniform_wa.map(|wa| wa * d.parity_factor) {
            Some(wa) => format!("{cycles}, {} from the host at WA {wa:.2}", si(flash / wa, "B")),
            None => format!("{cycles}; from the host no figure, as of random writes"),
        },
    );

    if let (Some(buffer), Some(slc)) =
        (d.slc_buffer.as_ref().filter(|b| b.always_bytes > 0), &n.slc)
    {
        let all = buffer.always_bytes as f64 * f64::from(slc.endurance);
        let text = format!("{} cycles: {} through its own blocks", slc.endurance, si(all, "B"));
        out.row("SLC buffer", text);
    }

    out.head("Power");
    let p = &config.device.power;
    let watts = |mw: f64| format!("{:.1} W", mw / 1000.0);
    let idle = f64::from(p.idle_mw);
    let readers = if n.independent_plane_reads { g.luns * n.planes } else { g.luns };
    let channels = f64::from(g.channels) * f64::from(n.power.transfer_mw);
    let controller = idle
        + f64::from(p.firmware_mw) * f64::from(config.device.firmware.cores)
        + f64::from(p.link_mw);
    out.row("idle", watts(idle));
    let at = |peak: &Peak| idle + 1e3 * peak.bytes_per_s() * peak.joules;
    out.row("at peak random read", watts(at(&d.random_read)));
    out.row("at peak sequential write", watts(at(&d.sequential_write)));
    if let Some(random) = d.random_write.last() {
        out.row("at peak random write", watts(at(random)));
    }
    let most = f64::from(n.power.program_mw.max(n.power.erase_mw)) * f64::from(g.luns);
    let most = most.max(f64::from(n.power.read_mw) * f64::from(readers));
    out.row("all at work", watts(controller + most + channels));
    let at_once = |limit: u32| {
        let of = |mw: u32, most: u32| limit.checked_div(mw).map_or(most, |n| n.clamp(1, most));
        let reads = match p.limit_reads {
            true => format!("{} reads, ", of(n.power.read_mw, readers)),
            false => String::new(),
        };
        let (programs, erases) = (of(n.power.program_mw, g.luns), of(n.power.erase_mw, g.luns));
        format!("{limit} mW: {reads}{programs} programs or {erases} erasures at a time")
    };
    if p.flash_limit_mw > 0 {
        out.row("limit of the flash", at_once(p.flash_limit_mw));
    }
    if let Some(thermal) = &p.thermal {
        let from =
            format!("{} C on, until it is {} K cooler", thermal.throttle, thermal.hysteresis);
        out.row("limit when hot", format!("from {from}: {}", at_once(thermal.throttle_mw)));
        let rest = thermal.ambient + idle * 1e-3 * thermal.resistance;
        out.row("temperature at rest", format!("{rest:.1} C"));
    }
    out.0
}
