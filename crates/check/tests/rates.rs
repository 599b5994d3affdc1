//! Rates that `device check` derives, against runs.

use wordline_check::{Age, Case};
use wordline_profile::{AtDepth, Derived, ReadAgain, derive};

/// I/Os a second of `ios` that a case does, and what is derived for its drive.
fn run(case: Case, ios: u64) -> (f64, Derived) {
    let derived = derive(&case.config().unwrap());
    let result = case.run().unwrap().result;
    (ios as f64 / (result.machine.simulated_ns as f64 / 1e9), derived)
}

/// A drive with blocks few and short, so that it is soon filled.
fn cut<'a>(device: &'a str, job: &'a str) -> Case<'a> {
    Case::new(device, job).stack("none").set("nand.blocks=128").set("nand.pages_per_block=96")
}

fn reads(depth: u32, ios: u64) -> String {
    format!(
        "[r]\nioengine=libaio\nrw=randread\nbs=4k\niodepth={depth}\nnorandommap\nnumber_ios={ios}\n"
    )
}

/// With so many reads under way some LUNs have several and others none.
#[test]
fn random_reads_at_a_depth_are_as_fast_as_the_closed_form_says() {
    for (device, spare) in [("pm9a3-1920g", "12.714"), ("p41-plus-1tb", "20")] {
        let mut compared = 0;
        for depth in [1, 8, 32, 128, 512] {
            let ios = 20_000.max(u64::from(depth) * 400);
            let job = reads(depth, ios);
            let case = cut(device, &job).age(Age::Filled).set("device.cache=none");
            let case = case.set(&format!("ftl.over_provisioning={spare}"));
            let (rate, derived) = run(case, ios);
            let at = |at: &&AtDepth| at.depth == depth;
            // No more than the drive has under way at a time.
            let Some(AtDepth { iops: expected, .. }) = derived.random_read_at.iter().find(at)
            else {
                continue;
            };
            println!("{device} at {depth}: {rate:.0} of {expected:.0} IOPS");
            assert!((rate / expected - 1.0).abs() < 0.03, "{device} at {depth}");
            compared += 1;
        }
        assert!(compared >= 4, "{device}: {compared} depths");
    }
}

/// In order of arrival the LUNs of a channel come in phase when reads always wait for all of them. Other orders do not
/// hold them up.
#[test]
fn reads_in_order_of_arrival_are_between_the_rates_of_luns_in_phase_and_of_luns_alone() {
    let job = reads(512, 200_000);
    let case = cut("pm9a3-1920g", &job).age(Age::Filled).set("device.cache=none");
    let (first, derived) = run(case.clone(), 200_000);
    assert_eq!(derived.random_read_in_phase, None);
    let (fifo, derived) = run(case.set("nand.channel_order=fifo"), 200_000);
    let alone = derived.random_read_at.iter().find(|at| at.depth == 512).unwrap().iops;
    let in_phase = derived.random_read_in_phase.unwrap();
    println!("{first:.0} IOPS; in order of arrival {fifo:.0} of {in_phase:.0} to {alone:.0}");
    // Some LUNs are idle for a moment even so.
    assert!((0.97 * in_phase..alone).contains(&fifo), "{fifo:.0}");
    assert!(first > 1.08 * fifo, "{first:.0} and {fifo:.0}");
}

/// On few LUNs and channels, with a link that has as much to do, reads wait for all three.
#[test]
fn random_reads_wait_for_channels_and_the_link_as_the_closed_form_says() {
    for set in ["limits.read_iops=750000", "limits.read_iops=0"] {
        for depth in [1, 8, 32, 128] {
            let job = reads(depth, 40_000);
            let case = Case::new("z-ssd-small", &job).stack("none").age(Age::Filled);
            let case = case.set("device.cache=none").set("limits.read_rate=0").set(set);
            let (rate, derived) = run(case, 40_000);
            let at = derived.random_read_at.iter().find(|at| at.depth == depth).unwrap();
            println!("{set}, at {depth}: {rate:.0} of {:.0} IOPS", at.iops);
            assert!(
                (rate / at.iops - 1.0).abs() < 0.03,
                "{set}, {depth}: {rate:.0} of {:.0}",
                at.iops
            );
        }
    }
}

/// Where few commands are in the drive at a time they bound the rate, however many its host has.
#[test]
fn random_reads_are_as_fast_as_the_commands_in_flight_let_them() {
    for (device, in_flight, seed) in [
        ("z-ssd-flashshare-small", 16, 1),
        ("z-ssd-flashshare-small", 16, 2),
        ("z-ssd-flashshare-small", 8, 3),
        ("z-ssd-small", 16, 1),
        ("pm9a3-1920g", 16, 1),
        ("pm9a3-1920g", 64, 2),
    ] {
        let mut best: f64 = 0.0;
        let mut peak = 0.0;
        for depth in [in_flight, 4 * in_flight, 256] {
            let job = reads(depth, 40_000);
            let case = Case { seed, ..Case::new(device, &job).stack("none").age(Age::Filled) };
            let case = match device {
                "pm9a3-1920g" => case.set("nand.blocks=128").set("nand.pages_per_block=96"),
                _ => case,
            };
            let case = case.set("limits.read_rate=0").set("limits.read_iops=0");
            let case = case.set(&format!("queues.in_flight={in_flight}")).set("device.cache=none");
            let (rate, derived) = run(case, 40_000);
            best = best.max(rate);
            peak = derived.random_read.iops();
            let told = derived.random_read_at.last().unwrap();
            assert_eq!(told.depth, in_flight, "no host gives it more");
            assert_eq!(derived.random_read.least().name, "commands in flight", "{device}");
        }
        println!("{device}, {in_flight} in flight: {best:.0} of {peak:.0} IOPS");
        assert!((best / peak - 1.0).abs() < 0.04, "{device}, {in_flight}: {best:.0} of {peak:.0}");
    }
}

/// Reads that share drives out among themselves, with few tags a drive.
#[test]
fn random_reads_of_a_bridge_are_between_the_rates_that_are_derived() {
    let three = "bridge.drives=[\"bssd-controller\",\"bssd-controller\",\"bssd-controller\"]";
    let sets: [(&[&str], u64); 6] = [
        (&[], 1),
        (&[], 2),
        (&["bridge.drive_tags=8"], 3),
        (&[three], 4),
        (&["nand.channel_order=commands-first"], 5),
        (&["nand.channels=6", "nand.blocks=64"], 6),
    ];
    for (sets, seed) in sets {
        let (mut best, mut peak): (f64, f64) = (0.0, 0.0);
        for depth in [1, 8, 32, 128] {
            let job = reads(depth, 30_000);
            let case =
                Case { seed, ..Case::new("bssd-small", &job).stack("none").age(Age::Filled) };
            let (rate, derived) = run(sets.iter().fold(case, |case, set| case.set(set)), 30_000);
            let at = derived.random_read_at.iter().find(|at| at.depth == depth).unwrap();
            println!("{sets:?} at {depth}: {rate:.0} of {at:?}");
            assert!(
                (0.97 * at.least..1.03 * at.most).contains(&rate),
                "{sets:?}: {rate:.0} of {at:?}"
            );
            (best, peak) = (best.max(rate), derived.random_read.iops());
        }
        println!("{sets:?}: {best:.0} of {peak:.0} IOPS");
        assert!((0.94..1.06).contains(&(best / peak)), "{sets:?}: {best:.0} of {peak:.0} IOPS");
    }
}

/// Drives of other shapes, whose flash bounds reads and programs: the rate of the channels, LUNs of a channel, a cache
/// register and the order of the channels.
fn shapes() -> impl Iterator<Item = (u64, u32, bool, &'static str)> {
    let orders = [(false, "fifo"), (false, "commands-first"), (true, "fifo")];
    let luns = [(1_200_000_000, 4), (400_000_000, 1), (400_000_000, 8), (150_000_000, 2)];
    luns.into_iter()
        .flat_map(move |(rate, luns)| orders.map(|(register, order)| (rate, luns, register, order)))
}

fn shaped<'a>(job: &'a str, shape: (u64, u32, bool, &str)) -> Case<'a> {
    let (rate, luns, register, order) = shape;
    Case::new("pm9a3-1920g", job)
        .stack("none")
        .set("device.cache=none")
        .set("nand.blocks=60")
        .set("nand.pages_per_block=64")
        .set("ftl.over_provisioning=40")
        .set("nand.channels=2")
        .set("link.generation=5")
        .set("link.lanes=16")
        .set("firmware.cores=32")
        .set(&format!("nand.channel_rate={rate}"))
        .set(&format!("nand.luns_per_channel={luns}"))
        .set(&format!("nand.cache_register={register}"))
        .set(&format!("nand.channel_order={order}"))
}

/// I/Os a second of a job from so many on, however often it goes through the drive: what a run does first, and how it
/// ends, are left out.
fn rate_later(
    [rw, bs]: [&str; 2],
    depth: u32,
    shape: (u64, u32, bool, &str),
    [from, to]: [u64; 2],
) -> (f64, Derived) {
    let bytes = if bs == "4k" { 4096 } else { LARGE };
    let ns = |ios: u64| {
        let job = format!(
            "[a]\nioengine=libaio\nrw={rw}\nbs={bs}\niodepth={depth}\nnorandommap\nio_size={}\n",
            ios * bytes
        );
        let case = shaped(&job, shape).age(Age::Filled);
        let derived = derive(&case.config().unwrap());
        (case.run().unwrap().result.machine.simulated_ns as f64, derived)
    };
    let ((first, derived), (last, _)) = (ns(from), ns(to));
    ((to - from) as f64 / (last - first) * 1e9, derived)
}

#[test]
fn random_reads_of_drives_of_any_shape_are_between_the_rates_that_are_derived() {
    for shape in shapes() {
        for depth in [1, 8, 32, 128, 512] {
            let (rate, derived) = rate_later(["randread", "4k"], depth, shape, [10_000, 40_000]);
            let at = derived.random_read_at.iter().find(|at| at.depth == depth).unwrap();
            let [low, high] = [at.least, at.most].map(|bound| bound / rate - 1.0);
            println!("{shape:?} at {depth}: {rate:.0}, least {low:+.3}, most {high:+.3}");
            // With a register and a channel that is full, reads that pile up at one channel leave others idle: no form
            // here has that, and a few reads of a few LUNs are up to a tenth below the least.
            let full = derived.random_read.least().name == "channels";
            let allowed = if shape.2 && full { 0.1 } else { 0.03 };
            assert!(low < allowed && high > -0.03, "{shape:?} at {depth}: {rate:.0} of {at:?}");
            // LUNs that are never idle do what the bounds say, whatever the channel.
            if depth == 512 && (shape.2 || shape.3 == "commands-first") {
                assert!(high < 0.05, "{shape:?}: {rate:.0} of {at:?}");
            }
        }
    }
}

#[test]
fn reads_in_order_have_the_rate_that_is_derived_in_either_order_of_the_channel() {
    for shape in shapes() {
        let (rate, derived) = rate_later(["read", "128k"], 128, shape, [1000, 4000]);
        let expected = derived.sequential_read.iops();
        let least = derived.sequential_read.least().name;
        println!("{shape:?}: {rate:.0} of {expected:.0}, by {least}");
        assert!((rate / expected - 1.0).abs() < 0.02, "{shape:?}: {rate:.0} of {expected:.0}");
        let in_phase = !shape.2 && shape.3 == "fifo" && shape.1 > 1;
        assert_eq!(least == "LUNs in phase", in_phase, "{shape:?}");
    }
}

/// Which LUNs program at one time hangs on when they began, so that a run is between two rates.
#[test]
fn writes_in_order_are_between_the_rates_that_are_derived() {
    for shape in shapes().filter(|shape| shape.3 == "fifo" && !shape.2) {
        // Past the spare that a drive that was filled has, and four times around.
        let round = u64::from(shape.1) * 1920;
        let (rate, derived) = rate_later(["write", "128k"], 128, shape, [2 * round, 6 * round]);
        let [least, most] = derived.sequential_write.between().unwrap().map(|r| r / LARGE as f64);
        println!("{shape:?}: {rate:.0} of {least:.0} to {most:.0}");
        assert!((0.97 * least..1.03 * most).contains(&rate), "{shape:?}: {rate:.0}");
    }
}

const LARGE: u64 = 128 << 10;

fn writes(rw: &str, bs: &str, ios: u64) -> String {
    format!("[w]\nioengine=libaio\nrw={rw}\nbs={bs}\niodepth=256\nnorandommap\nnumber_ios={ios}\n")
}

/// A drive with a buffer in SLC mode: a burst into it, and writers that never wait past it.
#[test]
fn a_drive_of_qlc_writes_at_the_rates_that_are_derived() {
    fn case(job: &str) -> Case<'_> {
        let case = cut("p41-plus-1tb", job).set("ftl.over_provisioning=20");
        case.set("device.cache=none")
    }
    let near = |what: &str, rate: f64, expected: f64, share: f64| {
        println!("{what}: {rate:.0} of {expected:.0} IOPS");
        assert!((rate / expected - 1.0).abs() < share, "{what}: {rate:.0} of {expected:.0} IOPS");
    };

    let buffer = derive(&case("").config().unwrap()).slc_buffer.unwrap();
    let ios = (buffer.always_bytes + buffer.blank_bytes) / LARGE * 9 / 10;
    let (rate, _) = run(case(&writes("write", "128k", ios)), ios);
    // No erasure is in it. The two LUNs of a channel often have it together for their data.
    let share = rate / buffer.write.iops();
    println!("a burst into the buffer: {rate:.0} of {:.0} IOPS", buffer.write.iops());
    assert!((0.84..=1.0).contains(&share), "{rate:.0} of {:.0} IOPS", buffer.write.iops());

    let (rate, derived) = run(case(&writes("write", "128k", 30_000)).age(Age::Filled), 30_000);
    near("in order", rate, derived.sequential_write.iops(), 0.05);

    let (rate, derived) = run(case(&writes("randwrite", "4k", 200_000)).age(Age::Steady), 200_000);
    near("at random", rate, derived.random_write[1].iops(), 0.12);
}

/// The collector writes to one superblock: where that has a part of the LUNs, it is what bounds random writes.
#[test]
fn small_superblocks_bound_the_collector_as_is_derived() {
    let job = writes("randwrite", "4k", 60_000);
    for (luns, more) in
        [("1", ""), ("2", ""), ("3", ""), ("6", ""), ("1", "ftl.firmware.checkpoint_sectors=20000")]
    {
        let case = Case::new("intel-750-small", &job).set("device.cache=none").age(Age::Steady);
        let mut case = case.set(&format!("ftl.firmware.superblock_luns={luns}"));
        if !more.is_empty() {
            case = case.set(more);
        }
        let (rate, derived) = run(case, 60_000);
        let peak = &derived.random_write[1];
        println!("{luns} LUNs: {rate:.0} of {:.0} IOPS, {}", peak.iops(), peak.least().name);
        assert!((rate / peak.iops() - 1.0).abs() < 0.12, "{luns}: {rate:.0} of {:.0}", peak.iops());
        assert_eq!(peak.least().name == "the collector's superblock", luns != "6", "{luns}");
    }
}

/// A run over small superblocks writes as its ageing ended: what lives long gathers in no group.
#[test]
fn small_superblocks_write_on_as_they_did_after_ageing() {
    // Three tenths of the drive's sectors, each of which moves four others.
    let ios = 300_000;
    let job = writes("randwrite", "4k", ios);
    for (luns, victim) in [(1, "greedy"), (2, "greedy"), (1, "cost-benefit")] {
        let case = Case::new("d3-s4610-small", &job).set("device.cache=none").age(Age::Steady);
        let case = case.set(&format!("ftl.firmware.victim={victim}"));
        let case = case.set(&format!("ftl.firmware.superblock_luns={luns}"));
        let derived = derive(&case.config().unwrap()).uniform_wa.unwrap();
        let result = case.run().unwrap().result;
        let wa = &result.machine.totals.write_amplification;
        let found = 1.0 + wa.gc_sectors as f64 / wa.user_sectors as f64;
        println!("{luns} LUNs, {victim}: {found:.2}, {derived:.2} derived");
        assert!((found / derived - 1.0).abs() < 0.1, "{luns}, {victim}: {found} of {derived}");
        let away = |w: &&String| w.contains("at the end of ageing");
        assert_eq!(result.warnings.iter().find(away), None, "{luns}, {victim}");
    }
}

/// Pages of the map that are written in turn are collected as users' sectors are. Where they are nearly as many they are a gain
/// for the collector, as all of them are soon stale.
#[test]
fn a_map_that_is_written_often_takes_the_programs_that_are_derived() {
    for every in [3000, 6000, 20_000, 100_000] {
        let set = format!("ftl.firmware.checkpoint_sectors={every}");
        let in_order = writes("write", "128k", 4000);
        let at_random = writes("randwrite", "4k", 100_000);
        let case = |job| Case::new("intel-750-small", job).set("device.cache=none").set(&set);
        for (case, ios, random) in
            [(case(&in_order), 4000, false), (case(&at_random).age(Age::Steady), 100_000, true)]
        {
            let derived = derive(&case.config().unwrap());
            let o = case.run().unwrap().result;
            let wa = &o.machine.totals.write_amplification;
            let user = wa.user_sectors as f64;
            let found = 1.0 + (wa.gc_sectors + wa.metadata_sectors) as f64 / user;
            let pages = derived.capacity.user_sectors.div_ceil(1024) as f64 / f64::from(every);
            let expected = if random { derived.uniform_wa.unwrap() } else { 1.0 + pages };
            println!("{every}, {ios} I/Os: {found:.3} of {expected:.3}");
            let share = found / expected;
            let near = share < 1.0 && every == 3000 || (share - 1.0).abs() < 0.125;
            assert!(near, "{every}: {found} of {expected}");
        }
    }
}

/// FSSD's checkpoints take programs likewise, and what they leave is collected.
#[test]
fn checkpoints_take_the_programs_that_are_derived() {
    let job = writes("randwrite", "4k", 40_000);
    for every in [5000, 20_000] {
        let case = Case::new("fssd-small", &job).age(Age::Steady).set("ftl.over_provisioning=30");
        let case = case.set(&format!("ftl.fssd.checkpoint_sectors={every}"));
        let derived = derive(&case.config().unwrap()).uniform_wa.unwrap();
        let o = case.run().unwrap().result;
        let wa = &o.machine.totals.write_amplification;
        let found = wa.factor.unwrap();
        let written = wa.metadata_sectors as f64 / wa.user_sectors as f64;
        println!("{every}: {found:.3} of {derived:.3}, {written:.3} of checkpoints");
        assert!((found / derived - 1.0).abs() < 0.125, "{every}: {found} of {derived}");
    }
}

/// Decoders that are slower than the flash: reads wait for them long before all of them are busy.
#[test]
fn reads_of_slow_decoders_have_the_rates_that_are_derived() {
    for depth in [1, 8, 32, 128] {
        let job = reads(depth, 20_000);
        let case = Case::new("intel-750-small", &job).set("device.cache=none").age(Age::Filled);
        let case = case.set("limits.read_iops=0").set("limits.read_rate=0");
        let (rate, derived) = run(case.set("nand.decoder.t_iteration=20us"), 20_000);
        let at = derived.random_read_at.iter().find(|at| at.depth == depth).unwrap();
        println!("at {depth}: {rate:.0} of {:.0} IOPS", at.iops);
        assert!((rate / at.iops - 1.0).abs() < 0.05, "{depth}: {rate:.0} of {:.0}", at.iops);
    }
}

/// Memory that holds a quarter of the map: three of four commands at random read a page of it, and each sector that is
/// programmed changes one, which is written when it gives way.
#[test]
fn a_drive_with_a_part_of_its_map_in_memory_has_the_rates_that_are_derived() {
    fn case(job: &str, share: f64) -> Case<'_> {
        let case = cut("pm9a3-1920g", job).set("ftl.over_provisioning=20");
        let case = case.set("device.cache=none");
        let capacity = derive(&case.config().unwrap()).capacity.user_bytes();
        case.set(&format!("ftl.firmware.map_bytes={}", (capacity as f64 / 1024.0 * share) as u64))
    }
    for depth in [1, 32, 512] {
        // After the drive is filled pages in memory have changed, which is soon over.
        let ios = 20_000.max(u64::from(depth.min(256)) * 4000);
        let job = reads(depth, ios);
        let (rate, derived) = run(case(&job, 0.25).age(Age::Filled), ios);
        assert!((derived.map_misses - 0.75).abs() < 0.001, "{}", derived.map_misses);
        let at = derived.random_read_at.iter().find(|at| at.depth == depth).unwrap();
        println!("at {depth}: {rate:.0} of {:.0} IOPS", at.iops);
        assert!((rate / at.iops - 1.0).abs() < 0.04, "{depth}: {rate:.0} of {:.0}", at.iops);
    }
    let job = writes("randwrite", "4k", 200_000);
    let steady = case(&job, 0.25).age(Age::Steady);
    let derived = derive(&steady.config().unwrap());
    let result = steady.run().unwrap().result;
    let away = |w: &&String| w.contains("at the end of ageing");
    assert_eq!(result.warnings.iter().find(away), None, "the run is as its ageing");
    let rate = 200_000.0 / (result.machine.simulated_ns as f64 / 1e9);
    let expected = derived.random_write[1].iops();
    let wa = &result.machine.totals.write_amplification;
    let user = wa.user_sectors as f64;
    let (data, pages) = (1.0 + wa.gc_sectors as f64 / user, wa.map_sectors as f64 / user);
    let expected_data = derived.uniform_wa.unwrap() / (1.0 + derived.map_misses);
    println!("{rate:.0} of {expected:.0} IOPS, {data:.2} of {expected_data:.2}, pages {pages:.2}");
    assert!((data / expected_data - 1.0).abs() < 0.08, "{data:.2} of {expected_data:.2}");
    // One for each sector that is programmed, if its page is not in memory. Entries that wait for one page share it.
    let expected_pages = derived.map_misses * expected_data;
    assert!((0.9..=1.0).contains(&(pages / expected_pages)), "{pages:.2} of {expected_pages:.2}");
    // A bound: what is moved waits for pages as well, while LUNs are idle.
    assert!((0.8..=1.0).contains(&(rate / expected)), "{rate:.0} of {expected:.0} IOPS");

    // All of the map in memory is none of it on flash.
    let derived = derive(&case(&job, 1.01).config().unwrap());
    assert_eq!(derived.map_misses, 0.0);
}

/// Reads of worn and old data are done again as often as is derived, and each takes as long.
#[test]
fn reads_that_are_done_again_take_what_is_derived() {
    for (device, cycles, days) in
        [("cnex-small", 3000, 365), ("cnex-small", 2000, 200), ("pm9a3-1920g", 1500, 365)]
    {
        let job = reads(1, 4000);
        let took = |cycles: u32, days: u32| {
            let case = Case::new(device, &job).stack("linux-libaio").age(Age::Filled);
            let case = case.set("nand.blocks=128").set("device.cache=none");
            let case = case.set(&format!("nand.errors.cycles={cycles}"));
            let (rate, derived) = run(case.set(&format!("nand.errors.age_days={days}")), 4000);
            (1e9 / rate, derived.read_again)
        };
        let ((right, _), (again, derived)) = (took(0, 0), took(cycles, days));
        let ReadAgain { mean, each, .. } = derived.expect("the drive has errors");
        let (found, wanted) = (again - right, mean * each.0 as f64);
        println!(
            "{device}, {cycles} cycles, {days} days: {found:.0} of {wanted:.0} ns, {mean:.3} times"
        );
        assert!(mean > 0.2 && (found / wanted - 1.0).abs() < 0.04, "{device}: {found} {wanted}");
    }
}
