//! Ageing a shipped profile: steady means steady, and is what `device check` says it will be.

use wordline_base::Rng;
use wordline_check::{Age, Case, aged as aged_drive, run_on};
use wordline_ftl::Translation;
use wordline_profile::derive;

fn aged(case: Case) -> (f64, bool) {
    let result = case.age(Age::Steady).run().unwrap().result;
    let wa = &result.machine.totals.write_amplification;
    let last = &wa.ageing[wa.ageing.len().saturating_sub(6)..];
    (last.iter().sum::<f64>() / last.len() as f64, wa.ageing_unsteady)
}

#[test]
fn uniform_writes_settle_where_the_closed_form_says() {
    const UNIFORM: &str = "[w]\nrw=randwrite\nnorandommap\nnumber_ios=100\n";
    for device in ["cnex-small", "z-ssd-small", "intel-750-small"] {
        let case = Case::new(device, UNIFORM);
        let expected = derive(&case.config().unwrap()).uniform_wa.unwrap();
        let (wa, unsteady) = aged(case);
        assert!(!unsteady, "{device} did not settle");
        // The closed form is of FIFO on endless lines; greedy on tens of lines lies near it.
        assert!((wa / expected - 1.0).abs() < 0.08, "{device}: {wa:.2}, expected {expected:.2}");
    }
}

/// A writer that never waits, beside collection, is as fast as `device check` says of its write amplification.
#[test]
fn random_writes_beside_collection_are_as_fast_as_the_closed_form_says() {
    let cut = ["nand.blocks=256", "nand.pages_per_block=128"];
    for (device, number_ios, cut) in
        [("intel-750-small", 100_000, &[][..]), ("pm9a3-1920g", 300_000, &cut[..])]
    {
        let job = format!(
            "[w]\nioengine=libaio\nrw=randwrite\nbs=4k\niodepth=256\nnorandommap\n\
             number_ios={number_ios}\n"
        );
        let case = Case::new(device, &job).stack("none").age(Age::Steady);
        let case = cut.iter().fold(case, |case, pair| case.set(pair));
        let expected = derive(&case.config().unwrap()).random_write[1].iops();
        let result = case.run().unwrap().result;
        let rate = number_ios as f64 / (result.machine.simulated_ns as f64 / 1e9);
        println!("{device}: {rate:.0} of {expected:.0} IOPS");
        assert!((rate / expected - 1.0).abs() < 0.12, "{device}: {rate:.0} of {expected:.0} IOPS");
    }
}

/// Reads at random from all dies, and from all planes, are no faster than `device check` says, and near it.
#[test]
fn random_reads_come_near_the_closed_form_of_their_dies_and_planes() {
    const JOB: &str = "[r]\nioengine=libaio\nrw=randread\nbs=4k\niodepth=256\nnumjobs=4\nnorandommap\n\
                       number_ios=50000\n";
    for (register, bound) in
        [("false", "LUNs"), ("true", "LUNs"), ("false", "planes"), ("true", "planes")]
    {
        let case = Case::new("pm9a3-1920g", JOB).stack("none").age(Age::Filled);
        let case = case.set("nand.blocks=64").set("nand.pages_per_block=96");
        let case = case.set("device.cache=none").set(&format!("nand.cache_register={register}"));
        let on_their_own = format!("nand.independent_plane_reads={}", bound == "planes");
        let case = case.set(&on_their_own);
        // Of its parts: what is in flight leaves some of a drive with many planes idle.
        let mut expected = derive(&case.config().unwrap()).random_read;
        expected.bounds.retain(|bound| bound.name != "commands in flight");
        assert_eq!(expected.least().name, bound);
        let result = case.run().unwrap().result;
        let rate = 200_000.0 / (result.machine.simulated_ns as f64 / 1e9) / expected.iops();
        println!("{bound}, cache register {register}: {rate:.3} of {:.0} IOPS", expected.iops());
        assert!((0.95..=1.0).contains(&rate), "{bound}, cache register {register}: {rate:.3}");
    }
}

/// A plain random writer overwrites an aged drive in an order of its own, whichever seed it has, also
/// the one with which the drive was aged. So it collects what the closed form says, from its beginning
/// to its end.
#[test]
fn a_job_of_any_seed_finds_a_drive_in_steady_state() {
    const LFSR: &str = "random_generator=lfsr\n";
    // Each third of a run collects several lines.
    for (device, seconds, generator) in
        [("cnex-small", 6, ""), ("intel-750-small", 24, ""), ("cnex-small", 6, LFSR)]
    {
        let job = |seed: &str| {
            format!(
                "[w]\nrw=randwrite\nbs=4k\niodepth=16\n{generator}{seed}\ntime_based\n\
                 runtime={seconds}\n"
            )
        };
        let own = job("randrepeat=0\nrandseed=5");
        let case = Case::new(device, &own).age(Age::Steady);
        let config = case.config().unwrap();
        let expected = derive(&config).uniform_wa.unwrap();
        let drive = aged_drive(&case, &config).unwrap();
        let mut rates = Vec::new();
        let seeds = (1..=10).map(|seed| format!("randrepeat=0\nrandseed={seed}"));
        for seed in seeds.chain([String::new()]) {
            let job = job(&seed);
            let case = Case { job: &job, ..case.clone() };
            let run = run_on(&case, &config, drive.clone()).unwrap().result;
            let wa = &run.machine.totals.write_amplification;
            let by_third = wa.by_third.expect("enough was collected to tell");
            println!(
                "{device} {seed:?}: {:.2} of {expected:.2}, {by_third:.4?}",
                wa.factor.unwrap()
            );
            for part in by_third {
                assert!((part / expected - 1.0).abs() < 0.12, "{device} {seed}: {by_third:?}");
            }
            rates.push(run.machine.served as f64);
        }
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        assert!(rates.iter().all(|r| (r / mean - 1.0).abs() < 0.03), "{device}: {rates:?}");
    }
}

#[test]
fn a_skewed_distribution_settles_at_one_place_whatever_the_seed() {
    let at: Vec<f64> = [1, 7, 8]
        .into_iter()
        .map(|seed| {
            let job = format!(
                "[w]\nrw=randwrite\nrandom_distribution=zipf:1.2\nnorandommap\nrandrepeat=0\n\
                 randseed={seed}\nnumber_ios=100\n"
            );
            let case = Case::new("cnex-small", &job).set("ftl.over_provisioning=12");
            let (wa, unsteady) = aged(case);
            assert!(!unsteady, "seed {seed} did not settle");
            wa
        })
        .collect();
    let mean = at.iter().sum::<f64>() / at.len() as f64;
    assert!(at.iter().all(|wa| (wa / mean - 1.0).abs() < 0.05), "{at:?}");
}

#[test]
fn a_mix_that_never_writes_ages_uniformly_and_ends() {
    let job = "[r]\nrw=randrw\nrwmixread=100\nnumber_ios=100\n";
    let (wa, _) = aged(Case::new("z-ssd-small", job));
    assert!(wa > 2.0, "{wa}");
}

/// Writers at full speed leave the collector work for a while; a drive left alone has none.
#[test]
fn a_rested_drive_has_nothing_to_collect() {
    // Long enough for what strides let through at a time.
    const READS: &str = "[r]\nrw=randread\nnorandommap\nnumber_ios=4000\n";
    for stride in ["ftl.stride=0", "ftl.stride=4"] {
        let case = Case::new("cnex-small", READS).set(stride).set("ftl.over_provisioning=30");
        let moved = |age: Age| {
            let result = case.clone().age(age).run().unwrap().result;
            result.machine.totals.write_amplification.gc_sectors
        };
        assert!(moved(Age::Steady) > 1000, "{stride}");
        assert_eq!(moved(Age::Random), 0, "{stride}");
    }
}

/// After uniform writes comes a tenth of the job's own, which is a window of its own.
#[test]
fn the_jobs_own_writes_follow_the_uniform_ones() {
    let windows = |job: &str| {
        let case = Case::new("cnex-small", job).age(Age::Random);
        case.run().unwrap().result.machine.totals.write_amplification.ageing
    };
    let reads = windows("[r]\nrw=randread\nnumber_ios=10\n");
    let writes = windows("[w]\nrw=randwrite\nnorandommap\nnumber_ios=10\n");
    assert_eq!(writes.len(), reads.len() + 1);
    assert_eq!(writes[..reads.len()], reads);
}

/// A drive aged at a job's pace collects as much when the job runs: nothing drifts.
#[test]
fn a_drive_aged_at_its_pace_stays_as_it_is() {
    let job = |iops: u32| {
        format!(
            "[w]\nrw=randwrite\nbs=4k\nnorandommap\nrate_iops={iops}\ntime_based\nruntime=25s\n"
        )
    };
    // Programs that wait for their stride stay longer in the buffer than the closed form says, so
    // that throttled collectors get less of the flash; never nothing.
    for (system, iops, least, most) in [
        (&[][..], 2000, 0.9, 1.1),
        (&[], 12_000, 0.9, 1.1),
        (&["ftl.stride=4", "ftl.throttle=gc"], 8000, 0.6, 1.1),
        (&["ftl.stride=4"], 8000, 0.75, 1.1),
        (&["ftl.stride=4", "ftl.hot_cold=true"], 8000, 0.6, 1.2),
    ] {
        let job = job(iops);
        let case = Case::new("cnex-small", &job).age(Age::Paced).set("nand.luns_per_channel=8");
        let case = case.set("limits.program_rate=0");
        let case = case.set("ftl.over_provisioning=36").set("ftl.write_mostly_iops=0");
        let case = system.iter().fold(case, |case, set| case.set(set));
        let wa = case.run().unwrap().result.machine.totals.write_amplification;
        let last = &wa.ageing[wa.ageing.len() - 3..];
        let aged = last.iter().sum::<f64>() / last.len() as f64;
        let ran = (wa.user_sectors + wa.gc_sectors) as f64 / wa.user_sectors as f64;
        println!("{system:?}, {iops} IOPS: {aged:.2} aged, {ran:.2} ran");
        assert!(aged > 1.5 && (least..most).contains(&(ran / aged)), "{aged:.2} {ran:.2}");
    }
}

/// Units are programmed whole, which a drive of few LUNs shows: what waits for the rest of one is not in flight.
#[test]
fn a_small_drive_aged_at_its_pace_stays_as_it_is() {
    for (iops, seconds) in [(300, 60), (1500, 400), (3000, 100)] {
        let job = format!(
            "[w]\nrw=randwrite\nbs=4k\niodepth=2\nnorandommap\nrate_iops={iops}\ntime_based\nruntime={seconds}s\n"
        );
        let case = Case::new("cnex-small", &job).age(Age::Paced);
        let wa = case.run().unwrap().result.machine.totals.write_amplification;
        let last = &wa.ageing[wa.ageing.len() - 8..];
        let aged = last.iter().sum::<f64>() / last.len() as f64;
        let ran = (wa.user_sectors + wa.gc_sectors) as f64 / wa.user_sectors as f64;
        println!("{iops} IOPS: {aged:.2} aged, {ran:.2} ran, {:?}", wa.by_third);
        assert!((0.9..1.1).contains(&(ran / aged)), "{iops} IOPS: {aged:.2} aged, {ran:.2} ran");
    }
}

/// What is never written keeps what is stale beside it for ever: that is no reason to go on.
#[test]
fn a_job_that_writes_a_small_part_of_the_drive_comes_to_a_steady_state() {
    for device in ["intel-750-small", "fssd-small"] {
        for size in ["16m", "64m", "256m"] {
            let job = format!("[w]\nrw=randwrite\nbs=4k\nsize={size}\nnumber_ios=100\n");
            let result = Case::new(device, &job).age(Age::Steady).run().unwrap().result;
            let wa = &result.machine.totals.write_amplification;
            assert!(!wa.ageing_unsteady, "{device}, {size}: {} windows", wa.ageing.len());
            assert!(wa.ageing.len() < 60, "{device}, {size}: {} windows", wa.ageing.len());
        }
    }
}

/// A write-back cache keeps a slow writer's first sectors for a second, in which the drive is not idle: its collector
/// does not begin to make the room that an idle one makes.
#[test]
fn a_slow_writer_in_front_of_a_cache_has_the_write_amplification_of_the_aged_drive() {
    const JOB: &str = "[w]\nioengine=libaio\nrw=randwrite\nbs=4k\niodepth=4\nrate_iops=2000\nnorandommap\n\
                       number_ios=20000\n";
    let case = Case::new("pm9a3-1920g", JOB).set("nand.blocks=96").set("nand.pages_per_block=48");
    let result = case.set("cache.bytes=16777216").age(Age::Steady).run().unwrap().result;
    let wa = &result.machine.totals.write_amplification;
    let last = &wa.ageing[wa.ageing.len().saturating_sub(6)..];
    let aged = last.iter().sum::<f64>() / last.len() as f64;
    let by_third = wa.by_third.expect("the writer is past the cache");
    println!("{by_third:.2?} by thirds, aged {aged:.2}");
    for third in by_third {
        assert!((third / aged - 1.0).abs() < 0.1, "{by_third:.2?} by thirds, aged {aged:.2}");
    }
}

/// In time a victim is free only when all of it is moved, and the lines that it takes are opened before. What ageing
/// leaves is what such a writer goes on with.
#[test]
fn a_writer_behind_the_rate_limiter_goes_on_as_the_drive_was_aged() {
    const JOB: &str =
        "[w]\nioengine=libaio\nrw=randwrite\nbs=4k\niodepth=64\nnorandommap\nnumber_ios=120000\n";
    let case = Case::new("intel-750-small", JOB).set("ftl.firmware=none").stack("none");
    let result = case.age(Age::Steady).run().unwrap().result;
    let wa = &result.machine.totals.write_amplification;
    let last = &wa.ageing[wa.ageing.len().saturating_sub(6)..];
    let aged = last.iter().sum::<f64>() / last.len() as f64;
    let by_third = wa.by_third.expect("lines are collected");
    println!("{by_third:.2?} by thirds, aged {aged:.2}");
    for third in by_third {
        assert!((third / aged - 1.0).abs() < 0.1, "{by_third:.2?} by thirds, aged {aged:.2}");
    }
}

/// Where spare is short, users write for a part of the time that a victim takes and are held for the rest. A run begins
/// with the parts that it goes on with.
#[test]
fn users_that_are_held_begin_as_they_go_on() {
    for (stride, how, seconds) in
        [(0, Age::Steady, 12), (4, Age::Steady, 40), (0, Age::Paced, 12), (4, Age::Paced, 40)]
    {
        let job = format!(
            "[w]\nioengine=libaio\nrw=randwrite\nbs=4k\niodepth=16\nnorandommap\nrate_iops=20000\n\
             time_based\nruntime={seconds}s\n"
        );
        let case = Case::new("cnex-small", &job).age(how).set("ftl.over_provisioning=12");
        let case = case.set(&format!("ftl.stride={stride}")).set("ftl.write_mostly_iops=0");
        let wa = case.run().unwrap().result.machine.totals.write_amplification;
        let last = &wa.ageing[wa.ageing.len() - 6..];
        let aged = last.iter().sum::<f64>() / last.len() as f64;
        let by_third = wa.by_third.expect("lines are collected");
        println!("stride {stride}, {how:?}: {by_third:.2?} by thirds, aged {aged:.2}");
        for third in by_third {
            assert!((third / aged - 1.0).abs() < 0.12, "{by_third:.2?} by thirds, aged {aged:.2}");
        }
    }
}

/// What FSSD keeps free, and its open segments, weigh the more the fewer segments there are.
#[test]
fn a_log_of_flash_software_settles_where_its_closed_form_says() {
    const UNIFORM: &str = "[w]\nrw=randwrite\nbs=4k\nnorandommap\nnumber_ios=100\n";
    for blocks in ["64", "128", "256"] {
        let case = Case::new("fssd-small", UNIFORM).set(&format!("nand.blocks={blocks}"));
        let expected = derive(&case.config().unwrap()).uniform_wa.unwrap();
        let (wa, unsteady) = aged(case);
        println!("{blocks} blocks: {wa:.2}, expected {expected:.2}");
        assert!(!unsteady, "{blocks} blocks");
        assert!((wa / expected - 1.0).abs() < 0.08, "{blocks} blocks: {wa:.2} of {expected:.2}");
    }
}

/// Write amplification that a drive is aged to, and what device check says of uniform writes.
fn aged_and_uniform(device: &str, jobs: &str) -> (f64, f64) {
    let case = Case::new(device, jobs);
    let uniform = derive(&case.config().unwrap()).uniform_wa.unwrap();
    let (wa, unsteady) = aged(case);
    assert!(!unsteady, "{device} did not settle: {jobs}");
    (wa, uniform)
}

/// Trims take sectors out of use: of each of them trims and writes are in balance. So a share `w / (w + t)` holds data,
/// and the drive has that much more spare.
#[test]
fn trims_leave_the_spare_that_the_closed_form_says() {
    // pblk's limiter keeps more lines free the less is collected, so that its alpha is no number.
    let device = "intel-750-small";
    for (writes, trims) in [(3000, 1000), (2000, 2000)] {
        let jobs = format!(
            "[global]\nbs=4k\nnorandommap\ntime_based\nruntime=1ms\n\
             [w]\nrw=randwrite\nrate_iops={writes}\n[t]\nrw=randtrim\nrate_iops={trims}\n"
        );
        let (wa, uniform) = aged_and_uniform(device, &jobs);
        // Of a sector in use X is left when its line is collected: X = exp(-alpha (1 - X)).
        let left: f64 = 1.0 - 1.0 / uniform;
        let alpha = -left.ln() / (1.0 - left);
        let in_use = f64::from(writes) / f64::from(writes + trims);
        let expected = wordline_profile::fifo_write_amplification(alpha / in_use);
        println!("{device}, {writes} and {trims}: {wa:.3}, expected {expected:.3}");
        assert!((wa / expected - 1.0).abs() < 0.05, "{device}: {wa:.3} for {expected:.3}");
    }
}

/// Two jobs with rates age a drive as one job does whose zones have the same shares.
#[test]
fn jobs_with_rates_age_as_zones_with_their_shares() {
    let device = "intel-750-small";
    let jobs = "[global]\nbs=4k\nrw=randwrite\nnorandommap\ntime_based\nruntime=1ms\n\
                [cold]\nsize=80%\nrate_iops=200\n[hot]\noffset=80%\nsize=20%\nrate_iops=1800\n";
    let zones = "[w]\nbs=4k\nrw=randwrite\nnorandommap\ntime_based\nruntime=1ms\n\
                 random_distribution=zoned:10/80:90/20\n";
    let (apart, _) = aged_and_uniform(device, jobs);
    let (zoned, uniform) = aged_and_uniform(device, zones);
    println!("{device}: {apart:.3}, {zoned:.3} with zones, {uniform:.3} uniform");
    // Lines of cold data come to be collected in waves, so that the level where it ends goes up and down by 5 %.
    assert!((apart / zoned - 1.0).abs() < 0.08, "{device}: {apart:.3} and {zoned:.3}");
}

/// In an estimate of shares a job without a rate has what the drive has left, as it has in the run.
#[test]
fn estimated_shares_are_near_those_of_the_run() {
    const JOBS: &str = "[global]\nbs=4k\nrw=randwrite\nnorandommap\ntime_based\nruntime=3s\nioengine=libaio\n\
                        [rated]\nrate_iops=300\n[deep]\niodepth=24\n[large]\niodepth=2\nbs=16k\n\
                        [pause]\nthinktime=1ms\n[mix]\nrw=randrw\nrwmixread=80\niodepth=16\n";
    let case = Case::new("intel-750-small", JOBS).age(Age::Steady);
    let result = case.run().unwrap().result;
    let note = result.notes.iter().find(|note| note.contains("shares of what ageing wrote"));
    let note = note.expect("they are an estimate");
    let told = |name: &str| -> f64 {
        let from = note.find(&format!("{name} ")).unwrap() + name.len() + 1;
        note[from..].split('%').next().unwrap().parse().unwrap()
    };
    let bytes: Vec<f64> = result.threads.iter().map(|t| t.dirs[1].io_bytes as f64).collect();
    let all: f64 = bytes.iter().sum();
    for (name, bytes) in ["rated", "deep", "large", "pause", "mix"].iter().zip(bytes) {
        let (estimated, found) = (told(name), 100.0 * bytes / all);
        println!("{name}: {estimated:.1}%, in the run {found:.1}%");
        // What a read waits for is known to a factor.
        let within = if *name == "mix" { 8.0 } else { 0.15 * found + 3.0 };
        assert!((estimated - found).abs() < within, "{name}: {estimated} of {found}");
    }
}

/// A run that is shorter than its lines live is told of drives behind a bridge as of one.
#[test]
fn a_course_is_told_of_drives_behind_a_bridge() {
    const JOB: &str = "[r]\nioengine=libaio\nnorandommap\nrw=randwrite\nbs=4k\niodepth=128\nruntime=1s\n\
                       time_based\n";
    let result = Case::new("bssd-small", JOB).age(Age::Steady).run().unwrap().result;
    let told = |text: &String| text.contains("the collector works in spells, and 1 of them");
    assert!(result.warnings.iter().any(told), "{:?}", result.warnings);
}

/// A rate of 0 is none, as in fio: such a job writes as fast as it can. Where nothing writes the collector rests, and the
/// result says so.
#[test]
fn a_pace_of_nothing_is_full_speed_and_no_writer_is_rest() {
    let prepared = |job: &str| {
        let job =
            format!("[a]\nioengine=libaio\nbs=4k\niodepth=8\nnorandommap\nnumber_ios=500\n{job}");
        let case = Case::new("z-ssd-flashshare-small", &job).age(Age::Paced);
        let case = case.set("nand.pages_per_block=64").set("nand.blocks=128");
        let result = case.run().unwrap().result;
        let warned = result.warnings.iter().any(|w| w.contains("before the drive was steady"));
        assert!(!warned, "{job}: {:?}", result.warnings);
        let wa = &result.machine.totals.write_amplification;
        (result.prepared.clone(), wa.ageing.clone())
    };
    let full = prepared("rw=randwrite\n");
    assert!(full.0.contains("until the collector kept pace with the job"), "{}", full.0);
    for rate in ["rate=0", "rate_iops=0", "rate=,0", "rate_iops=500,0"] {
        assert_eq!(prepared(&format!("rw=randwrite\n{rate}\n")), full, "{rate}");
    }
    let slow = prepared("rw=randwrite\nrate_iops=1000\n");
    assert_ne!(slow.1, full.1, "a slow writer has another state");
    let (rested, _) = prepared("rw=randread\n");
    assert!(
        rested.contains("left alone until the collector rested, as nothing writes"),
        "{rested}"
    );
}

/// Ageing that comes to its limit says which rule was not met: skewed writes to a drive with little to spare go on rising.
#[test]
fn ageing_to_its_limit_says_what_was_not_steady() {
    use wordline_ftl::{Unmet, WindowLimits, steady_by_overwriting};
    let limits = |windows: WindowLimits| {
        let case = Case::new("cnex-small", "[a]\nrw=randwrite\nnumber_ios=1\n");
        let case = case.set("nand.pages_per_block=64");
        let mut drive = wordline_check::aged(&case, &case.config().unwrap()).unwrap();
        let mut rng = Rng::from_seed(7);
        let sectors = drive.sectors();
        let mut stamps = wordline_base::Stamps::off();
        drive.ftl.fill(&mut stamps).unwrap();
        let next = &mut |lpns: &mut [u32]| {
            lpns.fill_with(|| rng.below(sectors) as u32);
            Ok(())
        };
        let report = steady_by_overwriting(&mut drive.ftl, &mut stamps, next, windows).unwrap();
        assert_eq!(report.steady, report.unmet.is_empty());
        report.unmet
    };
    let soon = WindowLimits { least: 0.0, most: 0.4, ..WindowLimits::default() };
    assert!(limits(soon).contains(&Unmet::Freed), "little is collected so soon");
    let all = WindowLimits { within: 1.0, span_within: 1.0, kept: 1.0, ..WindowLimits::default() };
    assert_eq!(limits(all), []);
    let never = WindowLimits { within: -1.0, most: 3.0, ..all };
    assert_eq!(limits(never), [Unmet::Level]);
    let spans = WindowLimits { span_within: -1.0, windows: 2, most: 3.0, ..all };
    assert_eq!(limits(spans), [Unmet::Spans]);
}

/// Pages of a map that is in memory in part are soon written again: they do not go to the blocks that wore most, and
/// levelling comes to its end.
#[test]
fn levelling_beside_pages_of_the_map_makes_wear_no_worse() {
    let job =
        "[a]\nioengine=libaio\nrw=randwrite\nbs=4k\niodepth=4\nnorandommap\nnumber_ios=60000\n";
    let spread = |wear_spread: u32| {
        let case = Case::new("intel-750-small", job).age(Age::Steady);
        let case = case.set("nand.blocks=64").set("nand.pages_per_block=48");
        let case = case.set("ftl.over_provisioning=30").set("ftl.firmware.map_bytes=40960");
        let o = case.set(&format!("ftl.firmware.wear_spread={wear_spread}")).run().unwrap();
        let wear = &o.result.machine.totals.wear;
        wear.erases_max - wear.erases_min
    };
    let (without, with) = (spread(0), spread(5));
    assert!(with <= without.max(6), "{with} erasures apart with levelling, {without} without");
}

/// A block that cannot be used has no wear.
#[test]
fn bad_blocks_count_for_no_wear() {
    let job =
        "[a]\nioengine=libaio\nrw=randwrite\nbs=4k\niodepth=4\nnorandommap\nnumber_ios=9000\n";
    let case = Case::new("intel-750-small", job).age(Age::Steady);
    let case = case.set("ftl.over_provisioning=25").set("ftl.firmware.wear_spread=4");
    let counted = |case: &Case| {
        let machine = case.run().unwrap().result.machine;
        let (wear, flash) = (&machine.totals.wear, &machine.flash[0]);
        assert!(wear.erases_min > 0 && wear.erases_max - wear.erases_min <= 4 + 2, "{wear:?}");
        assert!(flash.erases_mean.iter().all(|mean| *mean >= f64::from(wear.erases_min)));
        flash.blocks_by_erases.iter().map(|(_, n)| n).sum::<u64>()
    };
    let all = counted(&case);
    let good = counted(&case.set("nand.faults.bad_blocks_ppb=20000000"));
    assert!(good < all && good > all * 9 / 10, "{good} of {all}");
}

/// Levelling frees nothing, so that a collector at rest does not wait for its end.
#[test]
fn ageing_ends_where_wear_is_levelled() {
    let job = "[a]\nrw=randwrite\nbs=16k\nnorandommap\nnumber_ios=10\nsize=32m\n";
    let sets = [
        "nand.pages_per_block=24",
        "nand.blocks=40",
        "ftl.over_provisioning=45",
        "ftl.firmware.hot_share=30",
        "ftl.firmware.map_bytes=40960",
        "ftl.firmware.wear_spread=1",
    ];
    for seed in [1, 633] {
        let case = Case { seed, ..Case::new("intel-750-small", job) }.age(Age::Random);
        sets.iter().fold(case, |case, set| case.set(set)).run().unwrap();
    }
}
