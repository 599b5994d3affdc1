//! RAIL beside the plain model: reads that never wait, parity that holds, and nothing lost.

use crate::common::case::{Case, Claim, Step};
use crate::common::shrink::{quietly, shrink};
use crate::common::world::*;
use crate::common::*;
use wordline_base::{Lpn, Rng, Seed};
use wordline_ftl::{Ftl, FtlConfig, GcBuffer, PartitionBy, PartitionRule, Placement, Throttle};
use wordline_nand::Geometry;

#[allow(clippy::disallowed_methods, reason = "what is tried, not what it does")]
fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Seeds of a property: more with `WORDLINE_SEEDS=n`.
fn seeds(from: u64, n: u64) -> std::ops::Range<u64> {
    let n = environment("WORDLINE_SEEDS").and_then(|s| s.parse().ok()).unwrap_or(n);
    from..from + n
}

/// What a failed property prints.
#[test]
fn the_case_given() {
    let Some(text) = environment("WORDLINE_CASE") else { return };
    let case = Case::parse(&text).unwrap_or_else(|e| panic!("WORDLINE_CASE: {e}"));
    assert!(case.replay().is_some(), "there is no such drive");
}

fn setup(rng: &mut Rng) -> (Geometry, FtlConfig) {
    loop {
        let (g, mut c) = random_setup(rng);
        if g.luns < 2 {
            continue;
        }
        random_strides(rng, &g, &mut c);
        c.over_provisioning += 10.0;
        return (g, c);
    }
}

/// Runs random commands on a drive, aged or not.
fn run(case: Case, mut rng: Rng, faults: Faults) -> Option<World> {
    let case = Case { filled: rng.below(2) == 0, ..case };
    case.run(rng, |w| {
        w.fake.faults = faults;
        for _ in 0..5 {
            w.run(400, 12);
            w.ftl.check_invariants().unwrap();
            w.ftl.check_parity().unwrap();
        }
    })
}

#[test]
fn random_commands_on_strides() {
    let (mut ran, mut rebuilt, mut split, mut reads) = (0, 0, 0, 0);
    for seed in seeds(10_000, 400) {
        println!("seed {seed}");
        let mut rng = Seed(seed).stream("rail");
        let (g, c) = setup(&mut rng);
        let bad = rng.pick(&[0, 0, 20_000_000, 60_000_000]);
        let case = Case { claim: Claim::WaitsCounted, ..Case::new(g, c) };
        let case = case.bad(&mut Seed(seed).stream("bad"), bad);
        let hot_cold = case.config.hot_cold;
        let Some(w) = run(case, rng, Faults::default()) else { continue };
        assert_eq!(w.refused, 0, "seed {seed}");
        ran += 1;
        rebuilt += w.rebuilt;
        reads += w.ftl.counters().rebuilt_reads;
        split += u32::from(hot_cold);
    }
    println!("{ran} ran, {split} of them hot and cold; {rebuilt} sectors rebuilt, {reads} reads");
    assert!(ran > 100 && split > 20 && rebuilt > 10_000 && reads > 1000);
}

/// The claim: no bad blocks, no failures, throttling on.
#[test]
fn no_read_ever_waits_behind_a_program_or_an_erase() {
    let (mut ran, mut reads) = (0, 0);
    for seed in seeds(20_000, 400) {
        println!("seed {seed}");
        let mut rng = Seed(seed).stream("rail");
        let (g, mut c) = setup(&mut rng);
        c.throttle = Throttle::All;
        c.write_mostly_iops = 0;
        c.check_neighbours = true;
        c.rebuild_from_one = true;
        c.rebuild_split = true;
        c.emeta_on_parity = false;
        c.hot_cold = false;
        let case = Case { claim: Claim::NeverWaits, ..Case::new(g, c) };
        let Some(w) = run(case, rng, Faults::default()) else { continue };
        ran += 1;
        reads += w.ftl.counters().rebuilt_reads;
    }
    println!("{ran} ran, {reads} reads rebuilt");
    assert!(ran > 75 && reads > 1000, "{ran} {reads}");
}

/// The border between hot and cold moves while lines of the partitions before are in use, read, lost
/// and collected.
#[test]
fn random_commands_while_borders_move() {
    let (mut ran, mut moves, mut losses) = (0, 0, 0);
    for seed in seeds(25_000, 200) {
        println!("seed {seed}");
        let mut rng = Seed(seed).stream("rail");
        let g = geometry(2, 10 + 2 * rng.below(4) as u32, 40, 12, 1 + rng.below(3) as u32);
        let mut c = FtlConfig::new(Placement::Host, 35.0);
        (c.stride, c.hot_cold) = (2, true);
        c.partition_rule = rng.pick(&[PartitionRule::Balanced, PartitionRule::GcShare]);
        c.gc_buffer = rng.pick(&[GcBuffer::Shared, GcBuffer::Own]);
        c.partition_by = rng.pick(&[PartitionBy::Strides, PartitionBy::Luns]);
        c.partition_interval = 50 + rng.below(300);
        c.write_mostly_iops = rng.pick(&[0, 1000]);
        let rate = [0, 0, 1_000_000][seed as usize % 3];
        let faults = Faults { program: rate, erase: rate, read: 10 * rate, user_read: 10 * rate };
        let case = Case { filled: true, ..Case::new(g, c) };
        let moved = std::cell::Cell::new(0);
        let w = case.run(rng, |w| {
            w.fake.faults = faults;
            for _ in 0..3 {
                w.run(700, 12);
                w.ftl.check_invariants().unwrap();
                w.ftl.check_parity().unwrap();
                moved.set(moved.get() + w.ftl.strides().map_or(0, |s| s.partitions));
                let torn = w.rng.below(1000) as u32;
                if w.refused == 0 {
                    w.apply(Step::Crash { torn });
                }
            }
        });
        let Some(w) = w else { continue };
        ran += 1;
        moves += moved.get();
        losses += w.losses;
    }
    println!("{ran} ran, borders moved {moves} times, power went {losses} times");
    assert!(ran > 30 && moves > 50 && losses > 50);
}

#[test]
fn random_commands_with_failures_on_strides() {
    let (mut ran, mut refused, mut broken, mut repaired) = (0, 0, 0, 0);
    for seed in seeds(30_000, 400) {
        println!("seed {seed}");
        let mut rng = Seed(seed).stream("rail");
        let (g, c) = setup(&mut rng);
        let rate = [100_000, 1_000_000, 5_000_000][seed as usize % 3];
        let reads = [0, 1_000_000, 20_000_000][seed as usize / 3 % 3];
        let faults = Faults { program: rate, erase: rate, read: reads, user_read: reads };
        let Some(w) = run(Case::new(g, c), rng, faults) else { continue };
        ran += 1;
        refused += u32::from(w.refused > 0);
        broken += w.ftl.counters().parity_errors;
        repaired += w.ftl.counters().repaired_reads + w.ftl.counters().gc_repaired_reads;
    }
    println!("{ran} ran, {refused} wore out, {broken} parity units failed, {repaired} repaired");
    assert!(ran > 75 && refused < ran / 2 && broken > 0 && repaired > 100);
}

#[test]
fn power_may_go_at_any_time_on_strides() {
    let mut losses = 0;
    for seed in seeds(40_000, 400) {
        println!("seed {seed}");
        let mut rng = Seed(seed).stream("rail");
        let (g, c) = setup(&mut rng);
        let rate = [0, 1_000_000, 5_000_000][seed as usize % 3];
        let reads = [0, 0, 20_000_000][seed as usize / 3 % 3];
        let faults = Faults { program: rate, erase: rate / 4, read: reads, user_read: reads };
        let w = Case::new(g, c).run(rng, |w| w.run_with_losses(faults, 4));
        losses += w.map_or(0, |w| w.losses);
    }
    println!("{losses} power losses");
    assert!(losses > 100);
}

/// The systems compared, on drives small enough to look at from every side.
fn system(name: &str) -> (Geometry, FtlConfig) {
    let wide = name == "rail6" || name == "rail-hc";
    let g = geometry(2, if wide { 10 } else { 8 }, 32, 6, 2);
    let mut c = FtlConfig::new(Placement::Host, 50.0);
    c.stride = if name == "pblk" { 0 } else { 4 };
    match name {
        "pblk" | "rail" => {}
        "tinytail" => c.throttle = Throttle::Gc,
        "rail6" => (c.stride, c.parities) = (5, 2),
        "rail-hc" => (c.stride, c.hot_cold, c.partition_interval) = (2, true, 150),
        _ => panic!("no system is called {name}"),
    }
    (g, c)
}

/// Power goes at every event of a run, and what comes back is written to, and loses power again.
fn lose_power_everywhere(name: &str) {
    let (mut events, mut moved, mut held) = (0, 0, 0);
    for seed in seeds(60_000, 4) {
        println!("{name}, seed {seed}");
        let mut rng = Seed(seed).stream("crash");
        let (g, c) = system(name);
        let mut case = Case { filled: seed % 3 > 0, ..Case::new(g, c) };
        let faulty =
            Faults { program: 4_000_000, erase: 20_000_000, read: 5_000_000, user_read: 5_000_000 };
        let faults = if seed % 2 == 0 { Faults::default() } else { faulty };
        // What happens afterwards, whenever that is.
        let after = case.run(rng.clone(), |w| w.run(12, 4)).expect("a drive").log.take();
        let w = case.run(Seed(seed).stream("order"), |w| {
            w.fake.faults = faults;
            w.run(60, 12);
        });
        let w = w.expect("a drive");
        moved += w.ftl.counters().gc_sectors;
        case.steps = w.log.take();
        let mut w = case.start(Seed(0).stream("order")).expect("a drive");
        for (i, &step) in case.steps.iter().enumerate() {
            w.apply(step);
            let crash = Step::Crash { torn: rng.below(1000) as u32 };
            let then: Vec<Step> =
                [crash].into_iter().chain(after.iter().copied()).chain([crash]).collect();
            let outcome = quietly(|| {
                let Step::Crash { torn } = crash else { unreachable!() };
                let Some(mut w) = w.recovered(torn) else { return };
                for &step in &then[1..] {
                    w.apply(step);
                }
                w.finish(Claim::Sound);
            });
            if let Err(why) = outcome {
                let steps = case.steps[..=i].iter().chain(&then).copied().collect();
                Case { steps, ..case }.report(&why);
            }
            events += 1;
            held += u64::from(w.floor.iter().any(|&f| f > 1));
        }
    }
    println!("{name}: {events} events, {held} of them after a flush, {moved} sectors collected");
    assert!(events > 2000 && held > events / 2 && moved > 200, "{events} {held} {moved}");
}

#[test]
fn pblk_may_lose_power_at_every_event() {
    lose_power_everywhere("pblk");
}
#[test]
fn tinytail_may_lose_power_at_every_event() {
    lose_power_everywhere("tinytail");
}
#[test]
fn rail_may_lose_power_at_every_event() {
    lose_power_everywhere("rail");
}
#[test]
fn rail6_may_lose_power_at_every_event() {
    lose_power_everywhere("rail6");
}
#[test]
fn rail_hc_may_lose_power_at_every_event() {
    lose_power_everywhere("rail-hc");
}

/// A claim that is wrong on purpose: what is left of a long run is what breaks it.
#[test]
fn a_case_that_fails_is_cut_down() {
    let mut rng = Seed(70_000).stream("rail");
    let (g, mut c) = system("rail-hc");
    (c.gc_lines, c.meta_lines, c.wear_spread) = (2, 2, 3);
    let case = Case { filled: true, ..Case::new(g, c) }.bad(&mut rng, 10_000_000);
    let faults = Faults { program: 500_000, user_read: 5_000_000, ..Faults::default() };
    let w = case.run(rng, |w| w.run_with_losses(faults, 3)).expect("a drive");
    assert!(w.planted && w.losses == 3);
    let case = Case { claim: Claim::Planted, steps: w.log.take(), ..case };
    assert!(case.steps.len() > 10_000);
    let small = shrink(&case, &mut |case| case.failure().is_some());
    println!("{} steps became: {small}", case.steps.len());
    // Operations that are done until there is a program to fail, and power.
    assert!(small.steps.len() <= 40, "{small}");
    assert_eq!(small.steps.iter().filter(|s| s.fails()).count(), 1);
    assert!(matches!(small.steps.last(), Some(Step::Crash { .. })));
    let needless = ["gc_lines", "meta_lines", "wear_spread", "partition_interval"];
    assert!(
        small.bad.is_empty() && !needless.iter().any(|&key| small.settings().contains_key(key))
    );
    assert!(small.geometry.sectors() < case.geometry.sectors());
    // What is printed fails in the same way.
    let again = Case::parse(&small.to_string()).unwrap();
    assert_eq!(again, small);
    let why = quietly(|| again.report("as drawn")).unwrap_err();
    assert!(why.contains("a block was lost, and then power") && why.contains("WORDLINE_CASE='{"));
}

/// A flash read fails, and then so many of those that its stride is rebuilt from: errors that reach the
/// user, and reads done.
fn failing_members(name: &str, failures: u32) -> (u32, u32) {
    let (g, c) = system(name);
    let mut w = Case { filled: true, ..Case::new(g, c) }.start(Seed(1).stream("order")).unwrap();
    let mut reads = 0;
    for lpn in (0..w.ftl.sectors() as u32).step_by(11) {
        // Each of them in turn is the first that fails.
        for first in 0..4 {
            w.apply(Step::Read { lpn, n: 1 });
            w.apply(Step::EndRead { k: 0, fails: true });
            if w.reads.len() < 3 {
                continue; // Beside metadata or padding.
            }
            reads += 1;
            let mut failed = 0;
            while !w.reads.is_empty() {
                let fails = failed < failures;
                failed += u32::from(fails);
                w.apply(Step::EndRead { k: first, fails });
            }
        }
    }
    (w.unreadable, reads)
}

#[test]
fn as_many_failures_as_there_is_parity_are_repaired() {
    for (name, parities) in [("rail", 1), ("rail6", 2)] {
        for members in 0..3 {
            let (errors, reads) = failing_members(name, members);
            assert!(reads > 100);
            let expected = if members < parities { 0 } else { reads };
            assert_eq!(errors, expected, "{name}: 1 + {members} failures in {reads} strides");
        }
    }
}

/// The same by the collector.
#[test]
fn the_collector_uses_both_parities() {
    let lost = |name: &str| {
        let (g, c) = system(name);
        let case = Case { filled: true, ..Case::new(g, c) };
        let w = case.run(Seed(2).stream("order"), |w| {
            w.fake.faults.read = 100_000_000;
            w.run(1500, 12);
        });
        let c = *w.expect("a drive").ftl.counters();
        println!("{name}: {} of {} sectors lost", c.lost_sectors, c.gc_sectors);
        c.lost_sectors as f64 / c.gc_sectors as f64
    };
    // A tenth of reads fail: lost is what two, or three, units of a stride of 4, or 5, lose.
    let (one, two) = (lost("rail"), lost("rail6"));
    assert!((0.015..0.04).contains(&one) && two < 0.01, "{one} {two}");
}

/// What the collector moves while no user writes takes no LUNs from users.
#[test]
fn a_rest_does_not_move_the_border() {
    let g = geometry(8, 32, 160, 16, 4);
    let mut c = FtlConfig::new(Placement::Host, 36.0);
    (c.stride, c.hot_cold, c.partition_interval) = (4, true, 2000);
    let mut ftl = Ftl::new(&g, &c, &mut |_, _| false, Seed(1)).unwrap();
    let mut stamps = wordline_base::Stamps::new(ftl.sectors());
    ftl.fill(&mut stamps).unwrap();
    ftl.settle();
    let mut rng = Seed(2).stream("order");
    let n = ftl.sectors();
    let mut write = |ftl: &mut Ftl, sectors: u64| {
        let lpns: Vec<u32> = (0..sectors).map(|_| rng.below(n) as u32).collect();
        ftl.overwrite(&mut stamps, &lpns).unwrap();
        ftl.strides().unwrap().hot_luns
    };
    let before = write(&mut ftl, 3 * n);
    let moved = ftl.counters().gc_sectors;
    ftl.rest(&mut wordline_base::Stamps::off()).unwrap();
    let moved = ftl.counters().gc_sectors - moved;
    let after = write(&mut ftl, 2000);
    println!("{before} hot LUNs, {moved} sectors moved in the rest, {after} hot LUNs");
    assert!(moved > 10_000 && after >= before, "{before} {moved} {after}");
}

/// Commands are what a second is full of, not the runs that they are split into.
#[test]
fn write_mostly_counts_read_commands() {
    let (g, mut c) = system("rail");
    c.write_mostly_iops = 1000;
    let mut ftl = Ftl::new(&g, &c, &mut |_, _| false, Seed(1)).unwrap();
    let mut now = ctx(None);
    ftl.fill(&mut now.stamps).unwrap();
    ftl.settle();
    ftl.start(&mut now);
    let mut out = Vec::new();
    // 500 commands a second of 16 sectors, which are eight units.
    for i in 0..200 {
        assert_eq!(read_check(&mut ftl, &mut now, i % 10 * 16, 16, &mut out), 0);
        assert!(out.len() >= 8);
        now.now += wordline_base::Span::from_ms(2);
    }
    assert_eq!(ftl.strides().unwrap().throttling_ended, 1);
}

/// S = 2 is mirroring: the parity unit is the data unit.
#[test]
fn two_wide_strides_are_mirrors() {
    let g = geometry(4, 8, 60, 16, 4);
    let mut c = FtlConfig::new(Placement::Host, 30.0);
    c.stride = 2;
    let mut ftl = Ftl::new(&g, &c, &mut |_, _| false, Seed(1)).unwrap();
    let mut now = ctx(Some(ftl.sectors()));
    ftl.fill(&mut now.stamps).unwrap();
    ftl.settle();
    ftl.check_invariants().unwrap();
    let mut checked = 0;
    let unit = g.sectors_per_unit;
    for ppa in 0..g.sectors() as u32 {
        let (lun, in_line) = (ppa / unit % 8, ppa % g.sectors_per_line);
        // LUNs 4 to 7 hold the parity of 0 to 3; smeta has none.
        if lun >= 4 || in_line < unit {
            continue;
        }
        let data = ftl.oob(wordline_nand::Ppa(ppa));
        if data.is_some() {
            assert_eq!(ftl.oob(wordline_nand::Ppa(ppa + 4 * unit)), data, "{ppa}");
            checked += 1;
        }
    }
    assert!(checked > 1000);
}

/// User capacity is what is left beside metadata and parity, less over-provisioning.
#[test]
fn capacity_with_parity_follows_its_formula() {
    let g = geometry(16, 128, 1067, 256, 16);
    for (stride, parity) in [(4, 32), (16, 8), (2, 64), (0, 0u32)] {
        let mut c = FtlConfig::new(Placement::Host, 12.0);
        c.stride = stride;
        let ftl = Ftl::new(&g, &c, &mut |_, _| false, Seed(1)).unwrap();
        // smeta is a unit, emeta 65, or all the data units of the last stripe if these are fewer.
        let line = u64::from(((128 - parity) * 256 - 1 - 65.min(128 - parity)) * 16);
        assert_eq!(ftl.data_sectors(), 1067 * line);
        assert_eq!(ftl.sectors(), (1067.0 * line as f64 * 0.88) as u64);
    }
}

/// The last pages of a line can be read when its metadata are written, which must not wait for data
/// that wait for them.
#[test]
fn page_pairs_at_the_end_of_a_line_do_not_stop_the_drive() {
    let g = geometry(4, 16, 24, 1024, 2);
    let mut c = FtlConfig::new(Placement::Host, 50.0);
    (c.stride, c.page_pairs) = (4, 2);
    let mut ftl = Ftl::new(&g, &c, &mut |_, _| false, Seed(1)).unwrap();
    let mut now = ctx(None);
    ftl.start(&mut now);
    let mut fake = Fake::new(&ftl);
    let mut rng = Seed(2).stream("order");
    let line = g.sectors_per_line;
    for tag in 0..3 * line / 16 {
        let lpn = Lpn(tag * 16 % (ftl.sectors() as u32 - 16));
        ftl.write(&mut now, tag, lpn, 16, false, wordline_ftl::Source::Host);
        fake.drain(&mut ftl);
        while !fake.done.contains_key(&tag) {
            let stepped = fake.step(&mut ftl, &mut now, &mut rng) || fake.tick(&mut ftl, &mut now);
            assert!(stepped, "stuck: {}", ftl.situation());
            fake.drain(&mut ftl);
        }
    }
    assert!(fake.done.values().all(|ok| *ok), "{:?}", ftl.counters());
    assert!(ftl.counters().emeta_sectors > 0);
}

/// Lines with strides, of one side or two, come back from a file as they were.
#[test]
fn a_drive_with_strides_is_saved_and_loaded() {
    let (mut ran, mut split) = (0, 0);
    for seed in seeds(50_000, 60) {
        println!("seed {seed}");
        let mut rng = Seed(seed).stream("rail");
        let (g, c) = setup(&mut rng);
        let bad = rng.pick(&[0, 20_000_000]);
        let mut bad_rng = Seed(seed).stream("bad");
        let Ok(mut ftl) = Ftl::new(&g, &c, &mut |_, _| bad_rng.chance(bad), Seed(seed)) else {
            continue;
        };
        let mut stamps = wordline_base::Stamps::new(ftl.sectors());
        ftl.fill(&mut stamps).unwrap();
        ftl.settle();
        let n = ftl.sectors();
        let lpns: Vec<u32> = (0..2 * n).map(|_| rng.below(n) as u32).collect();
        ftl.overwrite(&mut stamps, &lpns).unwrap();
        ftl.check_invariants().unwrap();
        let mut file = Vec::new();
        ftl.save(&mut file).unwrap();
        let mut loaded = Ftl::load(&g, &c, &mut &file[..]).unwrap_or_else(|e| panic!("{e}: {c:?}"));
        loaded.check_invariants().unwrap();
        loaded.check_parity().unwrap();
        let mut again = wordline_base::Stamps::new(n);
        loaded.overwrite(&mut again, &lpns).unwrap();
        loaded.check_invariants().unwrap();
        loaded.check_parity().unwrap();
        ran += 1;
        split += u32::from(c.hot_cold);
    }
    println!("{ran} ran, {split} of them hot and cold");
    assert!(ran > 30 && split > 3, "{ran} {split}");
}
