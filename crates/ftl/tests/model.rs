//! The FTL beside a plain model: random geometries, configurations, commands, orders of completion,
//! bad blocks, failures, and power losses.

mod common;
use common::world::*;
use common::*;
use wordline_base::{Lpn, Seed};
use wordline_ftl::{Counters, Ftl, FtlConfig, Placement, Source};

fn one(seed: u64, faults: Faults, commands: u32) -> Option<(u64, [u64; 9], u32, Counters)> {
    println!("seed {seed}");
    let mut rng = Seed(seed).stream("model");
    let (g, c) = random_setup(&mut rng);
    let bad_share = [0, 0, 20_000_000, 60_000_000][rng.below(4) as usize];
    let mut bad_rng = Seed(seed).stream("bad");
    let mut ftl = Ftl::new(&g, &c, &mut |_, _| bad_rng.chance(bad_share), Seed(seed)).ok()?;
    let mut ctx = ctx(Some(ftl.sectors()));
    if rng.below(2) == 0 {
        ftl.fill(&mut ctx.stamps).unwrap();
        ftl.check_invariants().unwrap();
    }
    let filled = ctx.stamps.newest(Lpn(0)) == 1;
    let sectors = ftl.sectors() as u32;
    let mut w = World::new(ftl, ctx, rng);
    if filled {
        w.model = (0..sectors).map(|l| (l, (1, false))).collect();
    }
    w.fake.faults = faults;
    w.run(commands, 12);
    w.settle();
    w.ftl.check_invariants().unwrap();
    if w.refused == 0 {
        w.verify();
    }
    Some((w.fake.trace, w.fake.by_class, w.refused, *w.ftl.counters()))
}

#[test]
fn random_commands_beside_a_model() {
    let mut ran = 0;
    let mut classes = [0; 9];
    let (mut drains, mut levelled, mut forced, mut sync) = (0, 0, 0, 0);
    for seed in 0..150 {
        if let Some((_, by_class, refused, c)) = one(seed, Faults::default(), 2500) {
            assert_eq!(refused, 0, "seed {seed}");
            ran += 1;
            drains += c.drains;
            levelled += c.lines_levelled;
            forced += c.emeta_forced;
            sync += c.erases_sync;
            classes.iter_mut().zip(by_class).for_each(|(a, b)| *a += b);
        }
    }
    println!("{ran} ran; operations by class {classes:?}");
    println!("drains {drains}, levelled {levelled}, forced {forced}, erases waited for {sync}");
    assert!(drains > 0 && levelled > 0 && sync > 0);
    assert!(ran > 75, "only {ran} configurations were possible");
    let plain = [0, 1, 2, 3, 4, 5, 6, 8].map(|i| classes[i]);
    assert!(plain[2..].iter().all(|&n| n > 1000), "{classes:?}");
}

#[test]
fn random_commands_with_failures() {
    let mut ran = 0;
    let mut refused = 0;
    for seed in 1000..1150 {
        let rate = [100_000, 1_000_000, 5_000_000][seed as usize % 3];
        let faults = Faults { program: rate, erase: rate, read: 0 };
        if let Some((_, _, r, _)) = one(seed, faults, 2500) {
            ran += 1;
            refused += u32::from(r > 0);
        }
    }
    println!("{ran} ran, {refused} wore out");
    assert!(ran > 75 && refused < ran / 2);
}

#[test]
fn unreadable_sectors_are_counted_and_marked() {
    for seed in 2000..2030 {
        one(seed, Faults { read: 20_000_000, ..Faults::default() }, 2500);
    }
}

#[test]
fn the_same_seed_acts_the_same() {
    for seed in 0..20 {
        let faults = Faults { program: 1_000_000, erase: 1_000_000, read: 1_000_000 };
        assert_eq!(one(seed, faults, 1500), one(seed, faults, 1500), "seed {seed}");
    }
}

#[test]
fn power_may_go_at_any_time() {
    let mut losses = 0;
    for seed in 3000..3080 {
        println!("seed {seed}");
        let mut rng = Seed(seed).stream("model");
        let (g, mut c) = random_setup(&mut rng);
        c.over_provisioning += 10.0;
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
            // Now.
            let Some((after, now)) = w.pull_the_plug(&g, &c, seed) else { break };
            let model = (0..after.sectors() as u32)
                .map(|l| (l, (now.stamps.newest(Lpn(l)), false)))
                .filter(|(_, m)| m.0 > 0)
                .collect();
            let kept = w.fake.kept.take();
            // A power loss does not heal blocks.
            let faults = w.fake.faults;
            let pages = w.fake.pages();
            let rng = w.rng.clone();
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
    }
    println!("{losses} power losses");
    assert!(losses > 100);
}

/// Programs fail while newer versions of the same sectors are on their way: what is written again
/// must not come back in place of what is newer.
#[test]
fn failures_never_bring_back_old_versions() {
    let mut resubmitted = 0;
    for seed in 4000..4030 {
        println!("seed {seed}");
        // Every other time the drive is full, lines are small, and a freed one is erased at once.
        let full = seed % 2 == 0;
        let g = geometry(2, 8, 60, if full { 8 } else { 32 }, 2);
        let mut c = FtlConfig::new(Placement::Host, if full { 16.0 } else { 50.0 });
        c.max_request_sectors = 16;
        let mut ftl = Ftl::new(&g, &c, &mut |_, _| false, Seed(seed)).unwrap();
        let mut now = ctx(Some(ftl.sectors()));
        let mut kept = None;
        if full {
            ftl.fill(&mut now.stamps).unwrap();
            let mut fake = Fake::new(&ftl);
            fake.keep_media(&ftl);
            kept = fake.kept;
        }
        let sectors = ftl.sectors() as u32;
        let mut w = World::new(ftl, now, Seed(seed).stream("model"));
        w.fake.keep_media(&w.ftl);
        if full {
            w.fake.kept = kept;
            w.model = (0..sectors).map(|l| (l, (1, false))).collect();
            w.floor.fill(1);
        } else {
            w.fake.faults.program = 20_000_000;
        }
        for i in 0..1500 {
            // The first sectors of the fill share a line.
            let (tag, lpn) = (w.next_tag, w.rng.below(if full { 130 } else { 12 }) as u32);
            w.next_tag += 1;
            w.open.push(tag);
            if w.rng.below(if full { 30 } else { 6 }) == 0 {
                let newest = |l: u32| w.ctx.stamps.newest(Lpn(l));
                let stamps = (0..w.ftl.sectors() as u32).map(newest).collect();
                w.flushes.push(Flush { tag, stamps });
                w.ftl.flush(&mut w.ctx, tag);
            } else {
                w.model.entry(lpn).or_default().0 += 1;
                w.ftl.write(&mut w.ctx, tag, Lpn(lpn), 1, false, Source::Host);
            }
            w.after();
            for _ in 0..w.rng.below(3) {
                w.step();
            }
            if w.refused > 0 {
                break;
            }
            if i % 5 == 0 {
                w.pull_the_plug(&g, &c, seed);
            }
        }
        resubmitted += w.ftl.counters().resubmitted_sectors;
        w.settle();
        w.ftl.check_invariants().unwrap();
    }
    assert!(resubmitted > 200, "{resubmitted}");
}
