//! RAIL beside the plain model: reads that never wait, parity that holds, and nothing lost.

mod common;
use common::world::*;
use common::*;
use wordline_base::{Lpn, Rng, Seed};
use wordline_ftl::{Counters, Ftl, FtlConfig, Placement, Throttle};
use wordline_nand::Geometry;

/// Seeds of a property: more with `WORDLINE_SEEDS=n`.
#[allow(clippy::disallowed_methods, reason = "how many seeds are tried, not what they do")]
fn seeds(from: u64, n: u64) -> std::ops::Range<u64> {
    let n = std::env::var("WORDLINE_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(n);
    from..from + n
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

struct Ran {
    counters: Counters,
    blocked: u32,
    refused: u32,
    rebuilt: u64,
    overtook: u32,
}

/// Runs random commands on a drive, aged or not.
fn run(
    seed: u64,
    g: &Geometry,
    c: &FtlConfig,
    rng: Rng,
    faults: Faults,
    bad_share: u64,
) -> Option<Ran> {
    let mut bad_rng = Seed(seed).stream("bad");
    let mut ftl = Ftl::new(g, c, &mut |_, _| bad_rng.chance(bad_share), Seed(seed)).ok()?;
    let mut ctx = ctx(Some(ftl.sectors()));
    let mut rng = rng;
    let filled = rng.below(2) == 0;
    if filled {
        ftl.fill(&mut ctx.stamps).unwrap();
        ftl.check_invariants().unwrap();
        ftl.check_parity().unwrap();
    }
    let sectors = ftl.sectors() as u32;
    let mut w = World::new(ftl, ctx, rng);
    if filled {
        w.model = (0..sectors).map(|l| (l, (1, false))).collect();
    }
    w.fake.faults = faults;
    for _ in 0..5 {
        w.run(400, 12);
        w.ftl.check_invariants().unwrap();
        w.ftl.check_parity().unwrap();
    }
    w.settle();
    w.ftl.check_invariants().unwrap();
    let rebuilt = w.ftl.check_parity().unwrap();
    if w.refused == 0 {
        w.verify();
    }
    Some(Ran {
        counters: *w.ftl.counters(),
        blocked: w.blocked,
        refused: w.refused,
        rebuilt,
        overtook: w.fake.overtook,
    })
}

#[test]
fn random_commands_on_strides() {
    let (mut ran, mut rebuilt, mut split, mut reads) = (0, 0, 0, 0);
    for seed in seeds(10_000, 200) {
        println!("seed {seed}");
        let mut rng = Seed(seed).stream("rail");
        let (g, c) = setup(&mut rng);
        let bad = [0, 0, 20_000_000, 60_000_000][rng.below(4) as usize];
        let Some(r) = run(seed, &g, &c, rng, Faults::default(), bad) else { continue };
        assert_eq!(r.refused, 0, "seed {seed}");
        ran += 1;
        rebuilt += r.rebuilt;
        reads += r.counters.rebuilt_reads;
        split += u32::from(c.hot_cold);
        if c.throttle == Throttle::All {
            // Reads that go to a marked LUN all the same know what they wait for.
            let counted = r.counters.waits() + r.counters.members_busy;
            assert!(counted > 0 || r.overtook == 0, "seed {seed}: programs overtook reads");
            if c.check_neighbours {
                let counted = r.counters.waits() + r.counters.members_busy;
                assert!(u64::from(r.blocked) <= counted, "seed {seed}: {} of {counted}", r.blocked);
            }
        }
    }
    println!("{ran} ran, {split} of them hot and cold; {rebuilt} sectors rebuilt, {reads} reads");
    assert!(ran > 100 && split > 20 && rebuilt > 10_000 && reads > 1000);
}

/// The claim: no bad blocks, no failures, throttling on.
#[test]
fn no_read_ever_waits_behind_a_program_or_an_erase() {
    let (mut ran, mut reads) = (0, 0);
    for seed in seeds(20_000, 150) {
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
        let Some(r) = run(seed, &g, &c, rng, Faults::default(), 0) else { continue };
        assert_eq!((r.blocked, r.counters.waits(), r.overtook), (0, 0, 0), "seed {seed}: {c:?}");
        ran += 1;
        reads += r.counters.rebuilt_reads;
    }
    println!("{ran} ran, {reads} reads rebuilt");
    assert!(ran > 75 && reads > 1000, "{ran} {reads}");
}

#[test]
fn random_commands_with_failures_on_strides() {
    let (mut ran, mut refused, mut broken) = (0, 0, 0);
    for seed in seeds(30_000, 150) {
        println!("seed {seed}");
        let mut rng = Seed(seed).stream("rail");
        let (g, c) = setup(&mut rng);
        let rate = [100_000, 1_000_000, 5_000_000][seed as usize % 3];
        let faults = Faults { program: rate, erase: rate, read: 0 };
        let Some(r) = run(seed, &g, &c, rng, faults, 0) else { continue };
        ran += 1;
        refused += u32::from(r.refused > 0);
        broken += r.counters.parity_errors;
    }
    println!("{ran} ran, {refused} wore out, {broken} parity units failed");
    assert!(ran > 75 && refused < ran / 2 && broken > 0);
}

#[test]
fn power_may_go_at_any_time_on_strides() {
    let mut losses = 0;
    for seed in seeds(40_000, 80) {
        println!("seed {seed}");
        let mut rng = Seed(seed).stream("rail");
        let (g, c) = setup(&mut rng);
        let Ok(ftl) = Ftl::new(&g, &c, &mut |_, _| false, Seed(seed)) else { continue };
        let ctx0 = ctx(Some(ftl.sectors()));
        let mut w = World::new(ftl, ctx0, rng);
        w.fake.keep_media(&w.ftl);
        let rate = [0, 1_000_000, 5_000_000][seed as usize % 3];
        w.fake.faults = Faults { program: rate, erase: rate / 4, read: 0 };
        for _ in 0..4 {
            let commands = 200 + w.rng.below(800) as u32;
            w.run(commands, 12);
            if w.refused > 0 {
                break;
            }
            losses += 1;
            let Some((after, now)) = w.pull_the_plug(&g, &c, seed) else { break };
            after.check_parity().unwrap();
            let model = (0..after.sectors() as u32)
                .map(|l| (l, (now.stamps.newest(Lpn(l)), false)))
                .filter(|(_, m)| m.0 > 0)
                .collect();
            let (kept, faults) = (w.fake.kept.take(), w.fake.faults);
            let (pages, rng) = (w.fake.pages(), w.rng.clone());
            let floor: Vec<u32> =
                (0..after.sectors()).map(|l| now.stamps.newest(Lpn(l as u32))).collect();
            w = World::new(after, now, rng);
            w.fake.set_pages(pages);
            w.fake.kept = kept;
            w.fake.faults = faults;
            w.model = model;
            w.floor = floor;
            w.verify();
        }
        w.settle();
        w.ftl.check_invariants().unwrap();
        w.ftl.check_parity().unwrap();
    }
    println!("{losses} power losses");
    assert!(losses > 100);
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
fn capacity_is_the_stated_formula() {
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
        let bad = [0, 20_000_000][rng.below(2) as usize];
        let mut bad_rng = Seed(seed).stream("bad");
        let Ok(mut ftl) = Ftl::new(&g, &c, &mut |_, _| bad_rng.chance(bad), Seed(seed)) else {
            continue;
        };
        let mut stamps = wordline_base::Stamps::new(ftl.sectors());
        ftl.fill(&mut stamps).unwrap();
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
