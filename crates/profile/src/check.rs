//! What types cannot say: values that are impossible, alone or together.

use crate::config::{Config, settings};
use crate::derive::{capacity, refreshing};
use wordline_app::AppConfig;
use wordline_base::{BadValue, SECTOR, Span};
use wordline_device::config::{Arbitration, CacheConfig, MAX_CACHE_LINES, ReadAheadConfig};
use wordline_ftl::{Placement, Side};
use wordline_nand::{Geometry, check_script};

/// No stage, timer or flash operation takes longer; sums of such times stay far inside 64 bits.
const LONGEST: Span = Span::from_secs(3600);

/// Lines that must be spare for garbage collection to have somewhere to go: the open one, the next, one
/// to be gained, and two in reserve. What buffer and thresholds need beyond, the FTL says itself.
const MIN_SPARE_LINES: u64 = 5;

struct Found(Vec<(String, String)>);

impl Found {
    fn add(&mut self, path: &str, message: impl Into<String>) {
        self.0.push((path.into(), format!("'{}' {}", short(path), message.into())));
    }
    fn bad(&mut self, section: &str, bad: BadValue) {
        let bad = bad.below(section);
        self.add(&bad.key, bad.why);
    }
    fn range(&mut self, path: &str, value: u64, min: u64, max: u64) {
        if !(min..=max).contains(&value) {
            self.add(path, format!("must be from {min} to {max}, not {value}"));
        }
    }
    fn percent(&mut self, path: &str, value: f64, min: f64) {
        if !(min..=100.0).contains(&value) {
            self.add(path, format!("must be from {min} to 100 percent, not {value}"));
        }
    }
}

fn short(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// Paths and messages of all that is wrong.
pub(crate) fn check(config: &Config) -> Vec<(String, String)> {
    let mut found = Found(Vec::new());
    times(config, &mut found);
    // A geometry that does not exist has no capacity to check. A bridge has none.
    if config.members.is_empty() && nand(config, &mut found) {
        ftl(config, &mut found);
    }
    device(config, &mut found);
    stack(config, &mut found);
    for bad in config.app.iter().flat_map(AppConfig::check) {
        found.bad("app", bad);
    }
    if let Some(app) = &config.app {
        cores("app", app, config, &mut found);
    }
    for (i, beside) in config.with.iter().enumerate() {
        let section = format!("with.{i}");
        for bad in beside.app.check_beside() {
            found.bad(&section, bad);
        }
        cores(&section, &beside.app, config, &mut found);
    }
    found.0
}

/// A program runs on cores that there are.
fn cores(section: &str, app: &AppConfig, config: &Config, found: &mut Found) {
    let cores = config.stack.cores;
    if let Some(core) = app.cores.iter().find(|&&core| core >= cores) {
        let last = cores.saturating_sub(1);
        found.add(&format!("{section}.cores"), format!("must be cores, 0 to {last}, not {core}"));
    }
}

fn times(config: &Config, found: &mut Found) {
    let too_long = |v: &toml::Value| {
        v.as_str().and_then(|s| Span::parse(s).ok()).is_some_and(|span| span > LONGEST)
    };
    let bridge = !config.members.is_empty();
    let of_drives = |path: &str| path.starts_with("nand.") || path.starts_with("ftl.");
    for (path, value) in settings(config) {
        if bridge && of_drives(&path) {
            continue;
        }
        let values = value.as_array().map_or(std::slice::from_ref(&value), Vec::as_slice);
        if values.iter().any(too_long) {
            found.add(&path, "must be an hour at most");
        }
    }
}

fn nand(config: &Config, found: &mut Found) -> bool {
    let c = &config.nand;
    let before = found.0.len();
    // Wider than any part made, and narrow enough that products of these stay inside 64 bits.
    found.range("nand.channels", c.channels.into(), 1, 4096);
    found.range("nand.gang", c.gang.into(), 1, 16);
    found.range("nand.luns_per_channel", c.luns_per_channel.into(), 1, 4096);
    found.range("nand.planes", c.planes.into(), 1, 64);
    found.range("nand.page_bytes", c.page_bytes.into(), 1, 1 << 20);
    found.range("nand.pages_per_block", c.pages_per_block.into(), 1, 1 << 16);
    if found.0.len() == before
        && let Err(bad) = Geometry::new(c)
    {
        found.bad("nand", bad);
    }
    let faults = [
        ("bad_blocks_ppb", c.faults.bad_blocks_ppb),
        ("program_fail_ppb", c.faults.program_fail_ppb),
        ("erase_fail_ppb", c.faults.erase_fail_ppb),
        ("read_fail_ppb", c.faults.read_fail_ppb),
    ];
    for (key, value) in faults {
        found.range(&format!("nand.faults.{key}"), value, 0, 1_000_000_000);
    }
    if found.0.len() == before
        && let Ok(g) = Geometry::new(c)
        && let Err(error) = check_script(&c.faults.script, &g)
    {
        found.add("nand.faults.script", error.to_string());
    }
    found.0.len() == before
}

fn ftl(config: &Config, found: &mut Found) {
    let c = &config.ftl;
    if !(0.0..100.0).contains(&c.over_provisioning) {
        let value = c.over_provisioning;
        found.add(
            "ftl.over_provisioning",
            format!("must be from 0 to below 100 percent, not {value}"),
        );
    } else if let Ok(g) = Geometry::new(&config.nand) {
        let capacity = capacity(config, &g);
        let spare = capacity.spare_lines;
        let collects = !g.in_place;
        if capacity.user_sectors == 0 || collects && spare < MIN_SPARE_LINES {
            found.add(
                "ftl.over_provisioning",
                format!(
                    "leaves {spare} of {} lines spare and garbage collection needs \
                     {MIN_SPARE_LINES}: raise it, or give the drive more blocks",
                    g.lines
                ),
            );
        }
    }
    if let Some((share, days)) = Geometry::new(&config.nand).ok().and_then(|g| {
        let days = c.firmware.as_ref()?.refresh_days;
        refreshing(config, &g).filter(|share| *share >= 1.0).map(|share| (share, days))
    }) {
        let remedy = format!(
            "is {days}, must be above {:.2e}: to read and program all that a full drive holds takes its LUNs so long",
            // Not rounded down.
            days * share * 1.005
        );
        found.add("ftl.firmware.refresh_days", remedy);
    }
    if let (Some(fssd), Ok(g)) = (&c.fssd, Geometry::new(&config.nand))
        && !fssd.volatile
        && c.placement == Placement::Host
        && config.device.staging_bytes < g.unit_bytes()
    {
        let remedy = format!(
            "needs device.staging_bytes of at least {}, a write unit, where acknowledged writes are \
             safe: or set it to true",
            g.unit_bytes()
        );
        found.add("ftl.fssd.volatile", remedy);
    }
    let protected = config.device.staging_bytes;
    if let Some(fssd) = &c.fssd
        && !fssd.volatile
        && c.placement == Placement::Device
        && protected > 0
        && fssd.buffer_bytes > protected
    {
        let remedy = format!(
            "must be at most device.staging_bytes, {protected}, where acknowledged writes are safe: or set \
             ftl.fssd.volatile to true"
        );
        found.add("ftl.fssd.buffer_bytes", remedy);
    }
    if let Some(fssd) = &c.fssd
        && fssd.victims == Side::Host
        && c.placement == Placement::Host
    {
        let remedy = "is for a map in the drive, and this one is on the host, where ftl.fssd.collector says \
                      who collects: set ftl.placement to device, or it to drive";
        found.add("ftl.fssd.victims", remedy);
    }
    if let Some(fssd) = &c.fssd
        && fssd.scheduler == Side::Host
        && c.placement == Placement::Host
    {
        let remedy = "is for a map in the drive, and with the map on the host its places are known: set \
                      ftl.placement to device, or it to drive";
        found.add("ftl.fssd.scheduler", remedy);
    }
    if let Some(fssd) = &c.fssd
        && fssd.host_memory.is_some()
        && c.placement == Placement::Device
        // Of a served drive the server is the host, whose memory has it all.
        && !fssd.volatile
    {
        let remedy = "limits a map on the host, and this one is in the drive: set ftl.on_host to all or map, or leave \
                      it out";
        found.add("ftl.fssd.host_memory", remedy);
    }
    // A capacitor writes out what the cache holds. What the cache has handed on is for the FTL to keep.
    let volatile = [
        ("ftl.firmware.protected", c.firmware.as_ref().is_some_and(|f| !f.protected), "true"),
        ("ftl.fssd.volatile", c.fssd.as_ref().is_some_and(|f| f.volatile), "false"),
    ];
    let capacitor = config.device.cache.as_ref().is_some_and(|cache| cache.capacitor);
    for (key, _, durable) in volatile.into_iter().filter(|of| of.1 && capacitor) {
        let remedy = format!(
            "must be {durable} behind a cache with capacitors, which takes what it has handed on to be safe: or set \
             cache.capacitor to false"
        );
        found.add(key, remedy);
    }
    if c.firmware.is_some() && c.fssd.is_some() {
        found.add("ftl.firmware", "cannot be beside ftl.fssd: set one of the two to none");
    }
    if c.firmware.is_some() && config.nand.in_place {
        let remedy = "needs a medium that is erased: set nand.in_place to false, or it to none";
        found.add("ftl.firmware", remedy);
    }
    if c.firmware.is_some() && c.placement == Placement::Host {
        found.add("ftl.firmware", "is a drive's own: set ftl.placement to device, or it to none");
    }
    let counts = [
        ("max_request_sectors", c.max_request_sectors),
        ("meta_lines", c.meta_lines),
        ("gc_lines", c.gc_lines),
        ("gc_readers", c.gc_readers),
        ("gc_queue", c.gc_queue),
        ("gc_request_sectors", c.gc_request_sectors),
        ("d_choices", c.d_choices),
        ("victim_window", c.victim_window),
    ];
    for (key, value) in counts {
        if value == 0 {
            found.add(&format!("ftl.{key}"), "must be at least 1");
        }
    }
}

fn device(config: &Config, found: &mut Found) {
    let c = &config.device;
    if config.members.is_empty()
        && let Err(bad) = c.check_power(&config.nand)
    {
        found.bad("device", bad);
    }
    if !matches!(c.lba, 512 | 4096) {
        found.add("device.lba", format!("must be 512 or 4096, not {}", c.lba));
    }
    if c.cache.is_some() && config.ftl.placement == Placement::Host {
        let remedy = "needs the FTL in the drive: set cache to none, or ftl.placement to device";
        found.add("device.cache", remedy);
    }
    if wordline_nvme::mdts(c.queues.max_transfer).is_none() {
        let remedy = "must be 0 for no limit, or a power of two from 8192 bytes on (MDTS)";
        found.add("device.queues.max_transfer", remedy);
    }
    if let Err(bad) = c.check_sata() {
        found.bad("device", bad);
    }
    if c.sata.is_some() && config.ftl.placement == Placement::Host {
        found.add("device.sata", "is a drive with its FTL: set ftl.placement to device");
    }
    found.range("device.link.generation", c.link.generation.into(), 1, 5);
    if !c.link.lanes.is_power_of_two() || c.link.lanes > 32 {
        let lanes = c.link.lanes;
        found.add("device.link.lanes", format!("must be 1, 2, 4, 8, 16 or 32, not {lanes}"));
    }
    found.percent("device.link.efficiency", c.link.efficiency, 1.0);
    if let Some(turn) = c.link.turn_bytes.filter(|turn| !matches!(turn, 0 | 512..=1_048_576)) {
        let message = format!("must be 512 to 1048576, or 0 for all data of a command, not {turn}");
        found.add("device.link.turn_bytes", message);
    }
    // NVMe: 65,535 I/O queues of 2 to 65,536 entries.
    found.range("device.queues.count", c.queues.count.into(), 1, 65_535);
    found.range("device.queues.depth", c.queues.depth.into(), 2, 65_536);
    let queues = &c.queues;
    if wordline_nvme::arbitration(queues.burst, [1; 3]).is_none() {
        let burst = queues.burst;
        let message = format!("must be 1, 2, 4, … or 64, or 0 for no limit, not {burst}");
        found.add("device.queues.burst", message);
    }
    if queues.weights.iter().any(|&w| !(1..=256).contains(&w)) {
        found.add("device.queues.weights", "must each be from 1 to 256");
    }
    let weighted = queues.arbitration == Arbitration::WeightedUrgent;
    if weighted && !queues.weighted_urgent {
        let remedy = "is weighted-urgent, which the drive does not offer (weighted_urgent = false): \
                      take round-robin, or another drive";
        found.add("device.queues.arbitration", remedy);
    }
    if let Some(guard) = &queues.guard {
        if !weighted {
            let remedy = "guards against urgent queues, which round robin does not have: set \
                          queues.arbitration to weighted-urgent, or queues.guard to none";
            found.add("device.queues.guard", remedy);
        }
        found.range("device.queues.guard.commands", guard.commands.into(), 1, 65_535);
        found.range("device.queues.guard.drain", guard.drain.into(), 1, 65_535);
    }
    found.range("device.queues.in_flight", c.queues.in_flight.into(), 1, 1 << 20);
    found.range("device.firmware.cores", c.firmware.cores.into(), 1, 1024);
    if let Some(cache) = &c.cache {
        found.range("device.cache.ways", cache.ways.into(), 1, 32);
        let line = u64::from(cache.line_bytes);
        let sector = u64::from(config.nand.sector_bytes).max(1);
        // The valid and dirty sectors of a line are bits of one word.
        if line == 0 || !line.is_multiple_of(sector) || line / sector > 64 {
            let message = format!("must be a multiple of {sector} up to {}", 64 * sector);
            found.add("device.cache.line_bytes", message);
        } else {
            let set = line * u64::from(cache.ways);
            if cache.bytes == 0 || set > 0 && !cache.bytes.is_multiple_of(set) {
                let message =
                    format!("must be above 0, and a multiple of ways x line_bytes = {set}");
                found.add("device.cache.bytes", message);
            } else if cache.bytes / line > MAX_CACHE_LINES {
                found.add("device.cache.bytes", "makes more than 2^24 lines: use longer ones");
            }
        }
        if cache.rate == 0 {
            found.add("device.cache.rate", "must be above 0 bytes a second");
        }
        if let Some(refresh) = &cache.refresh
            && !(Span(1)..refresh.every).contains(&refresh.takes)
        {
            let message = "must be above 0 and below 'every', or no copy would ever end";
            found.add("device.cache.refresh.takes", message);
        }
        found.percent("device.cache.dirty_high", cache.dirty_high.into(), 0.0);
        if cache.dirty_high <= 100
            && cache.dirty_max != 100
            && !(cache.dirty_high + 1..100).contains(&cache.dirty_max)
        {
            let high = cache.dirty_high;
            let message = format!("must be above dirty_high, {high}, or 100 for no bound");
            found.add("device.cache.dirty_max", message);
        }
        if let Some(ahead) = &cache.read_ahead {
            read_ahead(ahead, cache, found);
        }
        if let Some(partition) = &cache.partition {
            if cache.ways < 2 {
                let remedy =
                    "needs two ways or more: raise cache.ways, or set cache.partition to none";
                found.add("device.cache.partition", remedy);
            } else {
                let most = u64::from(cache.ways) - 1;
                let ways = u64::from(partition.latency_ways);
                found.range("device.cache.partition.latency_ways", ways, 1, most);
            }
        }
        if cache.epoch.ios == 0 {
            found.add("device.cache.epoch.ios", "must be at least 1");
        }
        if cache.epoch.time == Span::ZERO {
            found.add("device.cache.epoch.time", "must be above 0");
        }
    }
    // NVMe feature 08h: an 8-bit threshold.
    found.range("device.interrupt.threshold", c.interrupt.threshold.into(), 0, 256);
    if c.interrupt.threshold > 1 && c.interrupt.time == Span::ZERO {
        found.add(
            "device.interrupt.time",
            "must be above 0 when interrupts are gathered: the last completion would wait for ever",
        );
    }
}

fn read_ahead(ahead: &ReadAheadConfig, cache: &CacheConfig, found: &mut Found) {
    found.range("device.cache.read_ahead.trigger", ahead.trigger.into(), 1, 1 << 20);
    found.range("device.cache.read_ahead.streams", ahead.streams.into(), 1, 1024);
    // Of a cache without room for a line that is told alone.
    let set = u64::from(cache.line_bytes) * u64::from(cache.ways);
    if cache.bytes >= set.max(SECTOR) {
        found.range("device.cache.read_ahead.bytes", ahead.bytes, SECTOR, cache.bytes);
    }
    let units = |value: f64| (0.0..=1024.0).contains(&value);
    if !units(ahead.ratio) {
        let message = format!("must be from 0 to 1024 write units, not {}", ahead.ratio);
        found.add("device.cache.read_ahead.ratio", message);
    }
    let Some(ghosts) = &ahead.ghosts else { return };
    let degrees = &ghosts.degrees;
    if degrees.is_empty() || degrees.len() > 16 || degrees.iter().any(|&d| d > 1024) {
        let message = "must be one to sixteen degrees of 0 to 1024 write units";
        found.add("device.cache.read_ahead.ghosts.degrees", message);
    }
    let sets = cache.bytes / u64::from(cache.line_bytes).max(1) / u64::from(cache.ways).max(1);
    let sample = u64::from(ghosts.sample);
    found.range("device.cache.read_ahead.ghosts.sample", sample, 1, sets.max(1));
    if !(0.0..=1000.0).contains(&ghosts.penalty) {
        let message = format!("must be from 0 to 1000 misses, not {}", ghosts.penalty);
        found.add("device.cache.read_ahead.ghosts.penalty", message);
    }
    found.percent("device.cache.read_ahead.ghosts.hysteresis", ghosts.hysteresis, 0.0);
}

fn stack(config: &Config, found: &mut Found) {
    let c = &config.stack;
    if let Some(fssd) = &config.ftl.fssd
        && config.ftl.placement == Placement::Device
    {
        if !c.kernel && fssd.victims == Side::Host {
            let remedy = "must be true for a collector on the host (ftl.fssd.victims): take a stack and \
                          testbed with a kernel";
            found.add("stack.kernel", remedy);
        }
        if !c.kernel && fssd.scheduler == Side::Host {
            let remedy = "must be true for a scheduler on the host (ftl.fssd.scheduler): take a stack and \
                          testbed with a kernel";
            found.add("stack.kernel", remedy);
        }
        if c.scheduler != wordline_host::Scheduler::None && fssd.scheduler == Side::Host {
            let remedy = "must be none where the host sends requests by LUN: or set ftl.fssd.scheduler to \
                          drive";
            found.add("stack.scheduler", remedy);
        }
    }
    if !c.kernel && config.ftl.placement == Placement::Host {
        let remedy = "must be true for an FTL on the host: take a stack and testbed with a kernel";
        found.add("stack.kernel", remedy);
    }
    found.range("stack.cores", c.cores.into(), 1, 1024);
    found.range("stack.queues", c.queues.into(), 0, 65_535);
    found.range("stack.queue_depth", c.queue_depth.into(), 2, 65_536);
    found.range("stack.scheduler_tags", c.scheduler_tags.into(), 0, 65_536);
    found.range("stack.io_poll", c.io_poll.into(), 0, 1);
    if !(-1..=3_600_000_000).contains(&c.io_poll_delay) {
        found.add(
            "stack.io_poll_delay",
            "must be -1 (poll at once), 0 (adaptive) or microseconds, an hour at most",
        );
    }
    found.range("stack.poll_queues", c.poll_queues.into(), 0, 65_535);
    if c.max_request == 0 || !u64::from(c.max_request).is_multiple_of(SECTOR) {
        found.add("stack.max_request", "must be a multiple of 4096");
    }
    if let Some(core) = c.ftl_core
        && core >= c.cores
    {
        let last = c.cores.saturating_sub(1);
        found.add("stack.ftl_core", format!("must be a core, 0 to {last}, not {core}"));
    }
    if let Some(nbd) = &c.nbd {
        if !c.kernel {
            found.add("stack.kernel", "must be true: a network block device is the kernel's: take a testbed and a stack with a kernel");
        }
        if let Err(bad) = nbd.check(c.cores) {
            found.bad("stack", bad);
        }
    }
    if c.bfq.max_budget == 0 || c.bfq.max_budget > 1 << 32 {
        found.add("stack.bfq.max_budget", "must be from 1 to 4294967296 sectors");
    }
    if c.bfq.timeout == Span::ZERO {
        found.add("stack.bfq.timeout", "must be above 0: a queue must get somewhere");
    }
    if !(1..=1_000).contains(&c.bfq.wr_coeff) {
        found.add("stack.bfq.wr_coeff", "must be from 1 to 1000");
    }
    if c.deadline.fifo_batch == 0 {
        found.add("stack.deadline.fifo_batch", "must be at least 1");
    }
}
