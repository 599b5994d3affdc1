//! What a run counts adds up: parts to totals, rows over time to the same totals, energy to counts of
//! operations, link traffic to sectors.

use wordline_base::Layer;
use wordline_check::scenarios::{programs, scenarios};
use wordline_check::{Age, Case, Outcome};
use wordline_ftl::{Placement, Side};
use wordline_profile::Config;
use wordline_sim::{DelayTime, LogKind, Machine, RunResult};

const MIXED: &str = "
[global]
bs=4k
norandommap
direct=1
[r]
rw=randread
iodepth=8
number_ios=3000
[w]
rw=randwrite
iodepth=16
number_ios=6000
fsync=50
";

/// Drives that collect garbage in the run.
fn collecting() -> Vec<Case<'static>> {
    let case = |device| Case::new(device, MIXED).age(Age::Steady);
    let rail = || case("cnex-small").set("ftl.over_provisioning=30");
    let cases = vec![
        case("cnex-small"),
        case("intel-750-small").set("cache=none"),
        case("intel-750-small").set("cache.capacitor=false"),
        case("z-ssd-small"),
        rail().set("ftl.stride=4"),
        rail().set("ftl.stride=4").set("ftl.parities=2").set("ftl.write_mostly_iops=0"),
    ];
    let shrink = |c: Case<'static>| c.set("nand.blocks=64").set("nand.pages_per_block=32");
    cases.into_iter().map(shrink).collect()
}

/// Commands of the FTL's that the end of a run finds on their way.
const ON_THEIR_WAY: u64 = 8;
/// Sectors that it finds in the write buffer.
const BUFFERED: u64 = 256;

fn name(case: &Case) -> String {
    format!("{} {:?} {:?} {:?}", case.device, case.app, case.fs, case.overrides)
}

fn run(case: &Case) -> (Config, Outcome) {
    let config = case.config().unwrap();
    let outcome = wordline_check::run(case, &config).unwrap_or_else(|e| panic!("{e}"));
    (config, outcome)
}

fn counter(m: &Machine, name: &str) -> u64 {
    m.totals.counters.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("{name}")).1
}
fn of(list: &[(String, f64)], name: &str) -> f64 {
    list.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("{name}")).1
}
fn sum(list: &[(String, f64)]) -> f64 {
    list.iter().map(|(_, j)| j).sum()
}

/// Up to what is lost when nanojoules are cut to whole ones, `cuts` times.
#[track_caller]
fn same_energy(what: &str, a: f64, b: f64, cuts: usize) {
    let most = 1e-9 * cuts as f64 + 1e-9 * a.abs();
    assert!((a - b).abs() <= most, "{what}: {a} J against {b} J");
}
#[track_caller]
fn same(what: &str, a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-9 * a.abs().max(1.0), "{what}: {a} against {b}");
}

/// Ends of intervals rise, the last is the end of the run, and all before it are of one length.
fn ends(what: &str, ends: &[u64], simulated_ns: u64) {
    assert!(ends.windows(2).all(|w| w[0] < w[1]), "{what}: ends {ends:?}");
    assert_eq!(ends.last(), Some(&simulated_ns), "{what}: the last interval ends with the run");
    let full = &ends[..ends.len() - 1];
    let Some(&length) = full.first() else { return };
    for (i, end) in full.iter().enumerate() {
        assert_eq!(*end, (i as u64 + 1) * length, "{what}: interval {i} of {length} ns");
    }
    assert!(simulated_ns - full[full.len() - 1] <= length, "{what}: an interval is missing");
}

fn energy(what: &str, m: &Machine, config: &Config) {
    let seconds = m.simulated_ns as f64 * 1e-9;
    let all = sum(&m.totals.energy_j);
    same_energy(&format!("{what}: watts"), all, m.totals.total_w * seconds, 1);
    same_energy(&format!("{what}: parts, states"), all, sum(&m.totals.energy_by_state_j), 30);
    // Parts are powers times busy times.
    let power = &config.device.power;
    let watts = |mw: u32| f64::from(mw) * 1e-3;
    let part = |name: &str| of(&m.totals.energy_j, name);
    same_energy(
        &format!("{what}: idle"),
        part("controller idle"),
        watts(power.idle_mw) * seconds,
        1,
    );
    let cores = m.totals.firmware.iter().sum::<f64>();
    let firmware = watts(power.firmware_mw) * cores * seconds;
    same_energy(&format!("{what}: firmware"), part("firmware"), firmware, 1);
    let link = watts(power.link_mw) * (m.totals.link.to_device + m.totals.link.to_host) * seconds;
    same_energy(&format!("{what}: link"), part("link"), link, 1);
    // States that one part makes up.
    let state = |name: &str| of(&m.totals.energy_by_state_j, name);
    same_energy(&format!("{what}: idle"), state("idle"), part("controller idle"), 2);
    same_energy(&format!("{what}: controller"), state("controller"), part("firmware"), 2);
    // Over time.
    let rows = &m.energy_over_time;
    ends(&format!("{what}: energy"), &rows.iter().map(|r| r.0).collect::<Vec<_>>(), m.simulated_ns);
    for (i, (name, j)) in m.totals.energy_by_state_j.iter().enumerate() {
        let over_time = rows.iter().map(|(_, row)| row[i]).sum();
        same_energy(&format!("{what}: {name} over time"), *j, over_time, 1 + rows.len());
    }
    let mut begin = 0;
    for (end, row) in rows {
        let idle = watts(power.idle_mw) * (end - begin) as f64 * 1e-9;
        same_energy(&format!("{what}: idle up to {end}"), row[0], idle, 2);
        begin = *end;
    }
}

fn write_amplification(what: &str, m: &Machine, config: &Config, sector: u64) {
    let w = &m.totals.write_amplification;
    let by_cause = [
        w.user_sectors,
        w.gc_sectors,
        w.padding_sectors,
        w.metadata_sectors,
        w.folded_sectors,
        w.map_sectors,
        w.resubmitted_sectors,
    ];
    let has_slc = config.nand.slc.is_some();
    let has_map = config.ftl.firmware.as_ref().is_some_and(|f| f.map_bytes > 0);
    let c = |name: &str| counter(m, name);
    let counted = [
        c("ftl.user_sectors"),
        c("ftl.gc_sectors"),
        c("ftl.pad_sectors"),
        c("ftl.smeta_sectors") + c("ftl.emeta_sectors"),
        if has_slc { c("ftl.folded_sectors") } else { 0 },
        if has_map { c("ftl.map_sectors") } else { 0 },
        c("ftl.resubmitted_sectors"),
    ];
    assert_eq!(by_cause, counted, "{what}: sectors by cause");
    assert_eq!(w.parity_sectors, c("ftl.parity_sectors"), "{what}");
    let all: u64 = by_cause.iter().sum();
    let programmed = c("ftl.programmed_sectors");
    let causes = all + w.parity_sectors;
    let buffered = causes.checked_sub(programmed).expect("causes of all that is programmed");
    let unit = u64::from(config.nand.planes * config.nand.page_bytes) / sector;
    let most = match &config.ftl.fssd {
        // The drive holds what was sent ahead, and units of its collector, with which a checkpoint is written.
        Some(fssd) if fssd.collector == Side::Drive => {
            config.device.staging_bytes / sector + u64::from(fssd.gc_units + 2) * unit
        }
        _ => BUFFERED,
    };
    assert!(buffered <= most, "{what}: {programmed} programmed, {causes} by cause");
    match (w.user_sectors, w.factor, w.factor_with_parity) {
        (0, None, None) => {}
        (user, Some(factor), Some(with_parity)) if user > 0 => {
            same(&format!("{what}: factor"), factor, all as f64 / user as f64);
            let all = (all + w.parity_sectors) as f64;
            same(&format!("{what}: factor with parity"), with_parity, all / user as f64);
        }
        other => panic!("{what}: {other:?}"),
    }
    match w.factor_in_bytes {
        None => assert_eq!(w.host_bytes, 0, "{what}"),
        Some(factor) => {
            let flash = (all + w.parity_sectors) * sector;
            assert_eq!(w.flash_bytes as f64, flash as f64, "{what}");
            same(&format!("{what}: in bytes"), factor, flash as f64 / w.host_bytes as f64);
        }
    }
    let ended: Vec<u64> = w.over_time.iter().map(|r| r.0).collect();
    ends(&format!("{what}: sectors"), &ended, m.simulated_ns);
    let over_time: [u64; 7] =
        std::array::from_fn(|i| w.over_time.iter().map(|(_, row)| row[i]).sum());
    assert_eq!(over_time, by_cause, "{what}: sectors over time");
}

fn reads(what: &str, m: &Machine) {
    let (transfer, luns): (Vec<_>, Vec<_>) =
        m.totals.reads_blocked.iter().partition(|(why, _)| why == "transfer");
    // Each that waited for its LUN has one cause; the channel comes after it.
    let luns: u64 = luns.iter().map(|(_, n)| n).sum();
    let transfer = transfer[0].1;
    assert!(
        luns.max(transfer) <= m.totals.user_reads_waited,
        "{what}: {:?}",
        m.totals.reads_blocked
    );
    assert!(m.totals.user_reads_waited <= luns + transfer, "{what}: {:?}", m.totals.reads_blocked);
    assert!(
        m.totals.user_reads_waited <= m.totals.user_flash_reads,
        "{what}: more waited than were read"
    );
}

fn host(what: &str, m: &Machine) {
    let elapsed = m.simulated_ns as f64;
    for core in &m.cores {
        let all = core.user + core.system + core.interrupt + core.idle;
        same(&format!("{what}: time of a core"), all, 1.0);
    }
    let Some(h) = &m.host else { return };
    for (i, f) in h.functions.iter().enumerate() {
        let by_core: u64 = h.by_core.iter().map(|core| core[i]).sum();
        assert_eq!(f.ns, by_core, "{what}: {} by core", f.name);
    }
    let sum = |of: fn(&wordline_sim::FunctionUse) -> u64| h.functions.iter().map(of).sum::<u64>();
    assert_eq!((sum(|f| f.loads), sum(|f| f.stores)), (h.loads, h.stores), "{what}");
    let share: f64 = h.functions.iter().map(|f| f.share).sum();
    same(&format!("{what}: shares of functions"), share, 1.0);
    // Over time.
    let rows = &h.over_time;
    ends(
        &format!("{what}: cores"),
        &rows.iter().map(|r| r.end_ns).collect::<Vec<_>>(),
        m.simulated_ns,
    );
    let total = |i: usize| rows.iter().map(|row| row.totals[i]).sum::<u64>();
    let of_cores = |of: fn(&wordline_sim::CoreUse) -> f64| {
        (m.cores.iter().map(of).sum::<f64>() * elapsed).round() as u64
    };
    let times = [of_cores(|c| c.user), of_cores(|c| c.system), of_cores(|c| c.interrupt)];
    assert_eq!(times, [total(0), total(1), total(2)], "{what}: user, system, interrupt over time");
    let counts = [h.looks, h.interrupts, h.context_switches, h.loads, h.stores];
    assert_eq!(counts, std::array::from_fn(|i| total(4 + i)), "{what}: counts over time");
    assert_eq!(h.interrupts, counter(m, "host.interrupts"), "{what}");
    assert_eq!(h.context_switches, counter(m, "host.context_switches"), "{what}");
    let mut begin = 0;
    for row in rows {
        let (end, all) = (row.end_ns, row.totals[..4].iter().sum::<u64>());
        assert_eq!(all, (end - begin) * m.cores.len() as u64, "{what}: cores' time up to {end}");
        assert_eq!(
            row.by_owner.iter().sum::<u64>(),
            row.busy.iter().sum::<u64>(),
            "{what}: by owner"
        );
        let most = *row.busy.iter().max().unwrap_or(&0);
        assert!(most <= end - begin, "{what}: a core is busy for {most} of {} ns", end - begin);
        begin = end;
    }
    for (i, core) in m.cores.iter().enumerate() {
        let busy: u64 = rows.iter().map(|row| row.busy[i]).sum();
        let whole = ((core.user + core.system + core.interrupt) * elapsed).round() as u64;
        assert_eq!(busy, whole, "{what}: core {i} over time");
        let spread = &h.cpu_by_core[i];
        assert_eq!(spread.ns, busy, "{what}: core {i}");
        let shares = [0.0, spread.share_p50, spread.share_max, 1.0 + 1e-9];
        assert!(shares.is_sorted(), "{what}: core {i}, {spread:?}");
    }
    for (i, core) in h.by_core.iter().enumerate() {
        let busy: u64 = rows.iter().map(|row| row.busy[i]).sum();
        let at_hand = busy.abs_diff(core.iter().sum::<u64>());
        assert!(at_hand <= 10_000, "{what}: functions of core {i} and its time, {at_hand} ns");
    }
    let owned: u64 = h.cpu_by_owner.iter().map(|o| o.ns).sum();
    assert_eq!(owned, sum(|f| f.ns), "{what}: time by owner");
    for o in &h.memory_by_owner {
        assert!(o.p50_bytes <= o.max_bytes && o.end_bytes <= o.max_bytes, "{what}: {o:?}");
    }
    let busy: u64 = times.iter().sum();
    // A function counts when it is over, its time as it passes.
    let at_hand = busy.abs_diff(sum(|f| f.ns));
    assert!(at_hand <= 10_000 * m.cores.len() as u64, "{what}: functions and cores, {at_hand} ns");
}

/// What crosses the link is what was read and programmed, but for a few commands that the end of the
/// run finds on their way and the unit that ageing began.
fn link(what: &str, m: &Machine, config: &Config) {
    // A collector alone on the host has its own (`fssd.rs`).
    if m.totals.link_bytes.is_empty() || config.ftl.placement == Placement::Device {
        return;
    }
    let sector = u64::from(config.nand.sector_bytes);
    let unit = u64::from(config.nand.planes * config.nand.page_bytes) / sector;
    let of =
        |name: &str| m.totals.link_bytes.iter().find(|(n, _)| n == name).map_or(0, |(_, n)| *n);
    let near = |of: &str, link: u64, counted: u64| {
        let most = counted * sector;
        let least = counted.saturating_sub(ON_THEIR_WAY * unit) * sector;
        assert!((least..=most).contains(&link), "{what}: {of}: {link} bytes, {counted} sectors");
    };
    let c = |name: &str| counter(m, name);
    let programs = ["user_program", "gc_program", "meta_program", "parity_program"];
    let programs = programs.map(of).iter().sum::<u64>();
    // What a collector in the drive moves does not cross the link (`fssd.rs` has its bytes).
    let fssd = config.ftl.fssd.as_ref();
    if fssd.is_none_or(|fssd| fssd.collector == Side::Host) {
        near("programs", programs, c("ftl.programmed_sectors"));
        near("collector's reads", of("gc_read"), c("ftl.gc_read_sectors"));
    }
    near("parity", of("parity_program"), c("ftl.parity_sectors"));
    near("reads of metadata", of("meta_read"), c("ftl.meta_read_sectors"));
    // Of a rebuilt run its stride's members are read instead, and when one of them fails itself too.
    let reads = match &m.totals.strides {
        Some(s) if s.rebuild_errors > 0 => return,
        Some(s) => c("ftl.read_flash") + s.member_sectors - s.rebuilt_sectors,
        None => c("ftl.read_flash"),
    };
    near("reads", of("user_read") + of("rebuild_read"), reads);
}

/// Partitions of the drive's cache add up to the cache, and each knows its ways from the start.
fn cache(what: &str, m: &Machine, config: &Config) {
    let (Some(c), Some(of)) = (&m.totals.cache, &config.device.cache) else { return };
    let parts = &c.partitions;
    let adapts = of.read_ahead.as_ref().is_some_and(|r| r.ghosts.is_some());
    let wanted = if of.partition.is_some() { 2 } else { usize::from(adapts) };
    assert_eq!(parts.len(), wanted, "{what}: partitions");
    if parts.is_empty() {
        return;
    }
    let sum = |of: fn(&wordline_sim::CachePartitionUse) -> u64| parts.iter().map(of).sum::<u64>();
    let sums = [
        sum(|p| p.read_hits),
        sum(|p| p.read_misses),
        sum(|p| p.read_ahead),
        sum(|p| p.read_ahead_used),
        sum(|p| p.evictions),
        sum(|p| p.write_backs),
    ];
    let all = [c.read_hits, c.read_misses, c.read_ahead, c.read_ahead_used, c.evictions];
    assert_eq!(sums[..5], all, "{what}: hits, misses, read ahead, used, evictions");
    assert_eq!(sums[5], c.write_backs, "{what}: write-backs");
    assert_eq!(parts.iter().map(|p| p.ways).sum::<u32>(), of.ways, "{what}: ways");
    for p in parts {
        assert!(p.ways > 0 && p.read_ahead >= p.read_ahead_used + p.read_ahead_useless, "{what}");
        let times: Vec<u64> = p.ways_over_time.iter().map(|w| w.at_ns).collect();
        assert!(times.is_sorted() && times.last() <= Some(&m.simulated_ns), "{what}: {times:?}");
        assert!(p.ways_over_time.last().is_none_or(|w| w.ways == p.ways), "{what}");
        assert_eq!(p.read_ahead_over_time.is_empty(), !adapts, "{what}");
    }
}

fn served(what: &str, r: &RunResult) {
    let m = &r.machine;
    assert_eq!(m.generated, m.served, "{what}");
    let of_layers: u64 = m.layers.iter().map(|l| l.count).sum();
    let kept = !m.totals.counters.iter().any(|(name, _)| name.starts_with("fs."));
    assert!(of_layers <= m.served, "{what}: {of_layers} of {}", m.served);
    for l in &m.layers {
        let all: f64 = l.mean_by_layer_ns.iter().sum();
        assert!((all - l.mean_ns).abs() <= 1e-6 * l.mean_ns.max(1.0), "{what}: {l:?}");
        let tails = l.at.iter().map(|row| (&row.by_layer_ns, &row.by_delay_ns));
        for (layers, delays) in
            std::iter::once((&l.mean_by_layer_ns, &l.mean_by_delay_ns)).chain(tails)
        {
            delayed(what, layers, delays, kept);
        }
    }
}

/// What was in the way in a layer is at most the layer, and all of a wait for a LUN, which has no work: unless a life was
/// too long for its steps to be kept, as those on files may be.
fn delayed(what: &str, layers: &[f64], delays: &[DelayTime], whole: bool) {
    for (layer, &ns) in Layer::ALL.into_iter().zip(layers) {
        let of = delays.iter().filter(|d| d.layer == layer);
        let sum: f64 = of.map(|d| d.ns).sum();
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b.max(1.0);
        let right = sum < ns && !(whole && layer == Layer::LunWait) || near(sum, ns);
        assert!(right, "{what}: {sum} of {ns} ns of {layer:?}: {delays:?}");
    }
    assert!(delays.iter().all(|d| d.ns > 0.0 && !d.why.is_ordinary()), "{what}: {delays:?}");
}

/// Intervals add up to the run, and LUNs to their drive.
fn intervals(what: &str, m: &Machine) {
    let i = &m.intervals;
    ends(&format!("{what}: intervals"), &i.end_ns, m.simulated_ns);
    let sum = |list: &[u64]| list.iter().sum::<u64>();
    for l in &i.latency {
        let table = m.layers.iter().find(|t| t.ddir == l.ddir).expect("a direction with I/Os");
        assert_eq!(sum(&l.ios), table.count, "{what}: {}s over time", l.ddir);
        for (ios, cells) in l.ios.iter().zip(&l.counts) {
            assert_eq!(sum(cells), *ios, "{what}: {}s of an interval by latency", l.ddir);
            assert_eq!(cells.len() + 1, l.edges_ns.len(), "{what}: edges");
        }
        assert!(l.edges_ns.is_sorted(), "{what}: {:?}", l.edges_ns);
    }
    assert_eq!(sum(&i.flash_reads), m.totals.user_flash_reads, "{what}: flash reads over time");
    assert_eq!(sum(&i.flash_reads_waited), m.totals.user_reads_waited, "{what}: waits over time");
    for (why, n) in &m.totals.reads_blocked {
        let over_time = i.reads_blocked.iter().find(|(name, _)| name == why);
        assert_eq!(over_time.map_or(0, |(_, list)| sum(list)), *n, "{what}: {why} over time");
    }
    let busy = m.flash.iter().flat_map(|f| {
        let of = |lun: usize| f.busy_by.iter().map(|(_, by)| by[lun]).sum::<f64>();
        (0..f.luns as usize).map(of).collect::<Vec<_>>()
    });
    for (lun, (by, all)) in busy.zip(&m.totals.luns).enumerate() {
        same(&format!("{what}: LUN {lun} by what held it"), by, *all);
    }
    let waits: u64 = m.flash.iter().flat_map(|f| &f.read_wait_ns_by).map(|(_, ns)| sum(ns)).sum();
    assert_eq!(waits > 0, m.totals.user_reads_waited > 0, "{what}: waits by LUN");
    for f in m.flash.iter().filter(|f| !f.erases_mean.is_empty()) {
        let blocks = f.blocks_by_erases.iter().map(|(_, n)| n).sum::<u64>() as f64;
        let of_luns = f.erases_mean.iter().copied();
        let mean = of_luns.clone().sum::<f64>() / f.erases_mean.len() as f64;
        assert!(f.blocks_by_erases.len() <= 64 && blocks > 0.0, "{what}: {:?}", f.blocks_by_erases);
        if m.flash.len() == 1 {
            let all = m.totals.wear.erases_mean;
            // LUNs with bad blocks count for less.
            let (least, most) =
                (of_luns.clone().fold(mean, f64::min), of_luns.fold(mean, f64::max));
            match what.contains("faults.") {
                true => assert!((least..=most).contains(&all), "{what}: {least} {all} {most}"),
                false => same(&format!("{what}: erases by LUN"), mean, all),
            }
        }
    }
}

fn add_up(case: &Case) -> Machine {
    let what = name(case);
    let (config, o) = run(case);
    let m = &o.result.machine;
    energy(&what, m, &config);
    write_amplification(&what, m, &config, config.nand.sector_bytes.into());
    reads(&what, m);
    host(&what, m);
    link(&what, m, &config);
    cache(&what, m, &config);
    served(&what, &o.result);
    intervals(&what, m);
    o.result.machine
}

#[test]
fn what_is_counted_adds_up_in_every_scenario() {
    let mut padded = 0;
    // Watts and limits are those of one drive.
    let one = |case: &&Case| case.array.is_none();
    for case in scenarios().iter().chain(&programs()).filter(one) {
        padded += add_up(case).totals.write_amplification.padding_sectors;
    }
    assert!(padded > 1000, "{padded}");
}

#[test]
fn what_is_counted_adds_up_on_drives_that_collect() {
    for case in collecting() {
        let m = add_up(&case);
        let w = &m.totals.write_amplification;
        assert!(w.gc_sectors > 1000, "{}: {} collected", name(&case), w.gc_sectors);
    }
}

/// A drive on which nothing draws power but one part of it.
fn only<'a>(case: Case<'a>, key: &str) -> Case<'a> {
    let keys = [
        "power.idle_mw",
        "power.firmware_mw",
        "power.link_mw",
        "nand.power.read_mw",
        "nand.power.program_mw",
        "nand.power.erase_mw",
        "nand.power.transfer_mw",
    ];
    assert!(keys.contains(&key));
    keys.iter().fold(case, |case, k| case.set(&format!("{k}={}", if *k == key { 100 } else { 0 })))
}

/// Energy of flash operations is their number times what each takes, and stands with what it was for.
#[test]
fn energy_is_counts_times_what_each_takes() {
    // Nothing is suspended, every page takes the same time, and the collector reads sector by sector.
    let cases = collecting().into_iter().map(|c| {
        // Only pblk's collector reads so.
        let pblk = ["ftl.firmware=none", "ftl.gc_request_sectors=1"];
        ["nand.t_read=50us", "nand.t_program=1ms", "nand.t_erase=3ms"]
            .iter()
            .chain(&pblk)
            .fold(c, |c, set| c.set(set))
    });
    for case in cases.filter(|c| c.device != "z-ssd-small") {
        let what = name(&case);
        let run = |key: &str| {
            let (config, o) = run(&only(case.clone(), key));
            (u64::from(config.nand.planes * config.nand.page_bytes) / 4096, o.result.machine)
        };
        let near = |of: &str, joules: f64, each: f64, n: u64| {
            let counted = (joules / each).round();
            same_energy(&format!("{what}: {of}"), joules, counted * each, 10);
            let off = (counted - n as f64).abs();
            assert!(
                off <= ON_THEIR_WAY as f64,
                "{what}: {of}: energy of {counted}, and {n} counted"
            );
        };
        let watts = 0.1;
        let states = |m: &Machine, zero: &[&str]| {
            for state in zero {
                assert_eq!(of(&m.totals.energy_by_state_j, state), 0.0, "{what}: {state}");
            }
        };
        let state = |m: &Machine, name: &str| of(&m.totals.energy_by_state_j, name);

        let (unit, m) = run("nand.power.read_mw");
        let meta = counter(&m, "ftl.meta_read_sectors") / unit;
        let collected = counter(&m, "ftl.gc_read_sectors");
        assert!(collected > 1000 && m.totals.user_flash_reads > 1000, "{what}");
        near("reads", state(&m, "read"), watts * 50e-6, m.totals.user_flash_reads + meta);
        near("collector's reads", state(&m, "gc"), watts * 50e-6, collected);
        states(&m, &["idle", "controller", "write"]);
        same_energy(&what, of(&m.totals.energy_j, "flash read"), sum(&m.totals.energy_j), 1);

        let (unit, m) = run("nand.power.program_mw");
        let programs = counter(&m, "ftl.programmed_sectors") / unit;
        near("programs", state(&m, "write") + state(&m, "gc"), watts * 1e-3, programs);
        assert!(state(&m, "write") > 0.0 && state(&m, "gc") > 0.0, "{what}");
        states(&m, &["idle", "controller", "read"]);
        same_energy(&what, of(&m.totals.energy_j, "flash program"), sum(&m.totals.energy_j), 1);

        let (_, m) = run("nand.power.erase_mw");
        near("erases", state(&m, "gc"), watts * 3e-3, counter(&m, "ftl.erases"));
        states(&m, &["idle", "controller", "read", "write"]);
        same_energy(&what, of(&m.totals.energy_j, "flash erase"), sum(&m.totals.energy_j), 1);

        let (_, m) = run("nand.power.transfer_mw");
        let busy = m.totals.channels.iter().sum::<f64>() * m.simulated_ns as f64 * 1e-9;
        let transfers = of(&m.totals.energy_j, "flash transfer");
        // What the end of the run cuts off is granted already.
        let cut = transfers / watts - busy;
        assert!((-1e-7..1e-3).contains(&cut), "{what}: transfers: {cut} s");
        states(&m, &["idle", "controller"]);
        same_energy(&what, transfers, sum(&m.totals.energy_j), 1);

        let (_, m) = run("power.link_mw");
        let seconds = m.simulated_ns as f64 * 1e-9;
        same_energy(&what, state(&m, "read"), watts * m.totals.link.to_host * seconds, 2);
        same_energy(&what, state(&m, "write"), watts * m.totals.link.to_device * seconds, 2);
        states(&m, &["idle", "controller", "gc"]);
    }
}

/// Bursts of writes, and a read at the end: the row of each interval of 10 ms has what came in it.
#[test]
fn a_burst_is_in_the_interval_it_came_in() {
    // Whole write units: a conventional drive's firmware counts what it has formed.
    const WRITES: u64 = 48;
    let bursts = [0, 30, 70, 80, 150];
    let burst = |ms: u64| {
        format!(
            "[at{ms}]\nstartdelay={}us\nrw=randwrite\nbs=4k\nnorandommap\nnumber_ios={WRITES}\n",
            ms * 1000 + 100
        )
    };
    let end = "[end]\nstartdelay=170100us\nrw=read\nbs=4k\nnumber_ios=1\n";
    let job = bursts.map(burst).concat() + end;
    for device in ["cnex-small", "intel-750-small", "z-ssd-small"] {
        let mut case = Case::new(device, &job).age(Age::Filled);
        if device != "cnex-small" {
            case = case.set("cache=none");
        }
        let m = run(&case).1.result.machine;
        let rows = &m.totals.write_amplification.over_time;
        let host = &m.host.as_ref().unwrap().over_time;
        assert_eq!((rows.len(), m.energy_over_time.len(), host.len()), (18, 18, 18), "{device}");
        for i in 0..17 {
            let end = (i as u64 + 1) * 10_000_000;
            let full = bursts.contains(&(end / 1_000_000 - 10));
            assert_eq!(rows[i].0, end, "{device}");
            assert_eq!(rows[i].1[0], if full { WRITES } else { 0 }, "{device}: sectors to {end}");
            let [_, controller, _, write, _] = m.energy_over_time[i].1;
            assert_eq!(controller > 0.0, full, "{device}: firmware to {end}");
            assert_eq!(write > 1e-6, full, "{device}: energy of writes to {end}");
            let [user, system, irq, _, _, interrupts, ..] = host[i].totals;
            let counted = [user, system, irq, interrupts].map(|n| n > 0);
            assert_eq!(counted, [full; 4], "{device}: cores to {end}");
        }
        assert!(m.energy_over_time[17].1[2] > 1e-7, "{device}: energy of the read");
    }
}

/// pblk and what stands on it write users' and the collector's sectors into one unit. Its time is shared as its sectors are.
#[test]
fn programs_are_users_and_the_collectors_as_their_sectors_are() {
    const JOB: &str = "[r]\nrw=randread\nbs=4k\niodepth=8\nnorandommap\nnumber_ios=8000\n\
                       [w]\nrw=randwrite\nbs=4k\niodepth=4\nnorandommap\nnumber_ios=24000\n";
    let on = |ftl: &str, seed| {
        let mut case = Case::new("cnex-small", JOB).age(Age::Steady);
        case = ftl.split_whitespace().fold(case, |case, set| case.set(set));
        case.seed = seed;
        let m = case.run().unwrap().result.machine;
        let w = &m.totals.write_amplification;
        let sectors = w.user_sectors as f64 / (w.user_sectors + w.gc_sectors) as f64;
        let busy = |what: &str| -> f64 {
            let of = m.flash[0].busy_by.iter().find(|(name, _)| name == what);
            of.map_or(0.0, |(_, of_luns)| of_luns.iter().sum())
        };
        let waits = |what: &str| -> f64 {
            let of = m.flash[0].read_wait_ns_by.iter().find(|(name, _)| name == what);
            of.map_or(0.0, |(_, of_luns)| of_luns.iter().sum::<u64>() as f64)
        };
        let share =
            |of: &dyn Fn(&str) -> f64| of("user_program") / (of("user_program") + of("gc_program"));
        let (busy, waits) = (share(&busy), share(&waits));
        let what =
            format!("{ftl} seed {seed}: sectors {sectors:.3}, busy {busy:.3}, waits {waits:.3}");
        assert!((busy - sectors).abs() < 0.03, "{what}");
        // With strides no read waits behind a program.
        let strides = ftl.contains("stride");
        assert!(if strides { waits.is_nan() } else { (waits - sectors).abs() < 0.06 }, "{what}");
    };
    for seed in [1, 2] {
        on("", seed);
        on("ftl.over_provisioning=40", seed);
    }
    on("ftl.stride=4 ftl.over_provisioning=30", 1);
}

/// fio's logs of bandwidth and I/Os a second have a line of each I/O where nothing is averaged: its bytes by its
/// completion latency, and one.
#[test]
fn logs_of_rates_without_averages_are_of_each_io() {
    const JOB: &str = "[r]\nrw=randread\nbs=4k\nnumber_ios=300\nrate_iops=2000\n\
                       write_bw_log=l\nwrite_iops_log=l\nwrite_lat_log=l\n";
    let result = Case::new("cnex-small", JOB).age(Age::Filled).run().unwrap().result;
    let thread = &result.threads[0];
    let values = |kind: LogKind| -> Vec<u64> {
        let log = thread.logs.iter().find(|log| log.kind == kind);
        log.map_or(Vec::new(), |log| log.lines.iter().map(|line| line.value).collect())
    };
    let (bw, clat) = (values(LogKind::Bw), values(LogKind::Clat));
    assert_eq!(values(LogKind::Iops), vec![1; 300]);
    assert_eq!(bw, clat.iter().map(|ns| 4096 * 1_000_000 / ns).collect::<Vec<_>>());
    // fio's samples are the lines of such a log.
    let read = &thread.dirs[0];
    assert_eq!((read.bw_kib.n, read.iops.n), (300, 300));
    assert_eq!((read.iops.min, read.iops.max), (1.0, 1.0));
}

/// Whoever has lines says how many are free as the run goes on.
#[test]
fn free_lines_are_told_of_every_ftl() {
    let job = "[w]\nrw=randwrite\nnorandommap\nnumber_ios=2000\niodepth=8\n";
    for device in ["cnex-small", "z-ssd-small", "intel-750-small", "fssd-small"] {
        let case = Case::new(device, job).age(Age::Filled);
        let lines = case.run().unwrap().result.machine.intervals.free_lines;
        let told = lines.map(|lines| (lines.lines.len(), lines.collecting_below));
        assert!(told.is_some_and(|(rows, below)| rows > 0 && below > 0.0), "{device}: {told:?}");
    }
}
