//! The FTL beside a plain model: random geometries, configurations, commands, orders of completion,
//! bad blocks, failures, and power losses.

use crate::common::case::{Case, Step};
use crate::common::world::*;
use crate::common::*;
use wordline_base::{Lpn, Seed};
use wordline_ftl::{Ftl, FtlConfig, Place, Placement, RecoverError, Source};

fn one(seed: u64, faults: Faults, commands: u32) -> Option<World> {
    println!("seed {seed}");
    let mut rng = Seed(seed).stream("model");
    let (g, c) = random_setup(&mut rng);
    let bad_share = rng.pick(&[0, 0, 20_000_000, 60_000_000]);
    let mut case = Case::new(g, c).bad(&mut Seed(seed).stream("bad"), bad_share);
    case.filled = rng.below(2) == 0;
    case.run(rng, |w| {
        w.fake.faults = faults;
        w.run(commands, 12);
    })
}

#[test]
fn random_commands_beside_a_model() {
    let mut ran = 0;
    let mut classes = [0; 9];
    let (mut drains, mut levelled, mut forced, mut sync) = (0, 0, 0, 0);
    for seed in 0..150 {
        if let Some(w) = one(seed, Faults::default(), 2500) {
            assert_eq!(w.refused, 0, "seed {seed}");
            let (c, by_class) = (w.ftl.counters(), w.fake.by_class);
            ran += 1;
            drains += c.drains;
            levelled += c.lines_levelled;
            forced += c.emeta_forced;
            sync += c.erases_sync;
            classes.iter_mut().zip(by_class.iter()).for_each(|(a, b)| *a += b);
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
        let faults = Faults { program: rate, erase: rate, ..Faults::default() };
        if let Some(w) = one(seed, faults, 2500) {
            ran += 1;
            refused += u32::from(w.refused > 0);
        }
    }
    println!("{ran} ran, {refused} wore out");
    assert!(ran > 75 && refused < ran / 2);
}

#[test]
fn unreadable_sectors_are_counted_and_marked() {
    let (mut lost, mut unreadable) = (0, 0);
    for seed in 2000..2030 {
        let faults = Faults { read: 20_000_000, user_read: 1_000_000, ..Faults::default() };
        if let Some(w) = one(seed, faults, 2500) {
            lost += w.ftl.counters().lost_sectors;
            unreadable += w.unreadable;
        }
    }
    assert!(lost > 100 && unreadable > 100, "{lost} {unreadable}");
}

/// Whether stamps are checked or not.
#[test]
fn lost_sectors_are_known_without_the_integrity_check() {
    let g = geometry(2, 4, 40, 16, 2);
    let c = FtlConfig::new(Placement::Device, 30.0);
    let mut ftl = Ftl::new(&g, &c, &mut |_, _| false, Seed(1)).unwrap();
    let mut now = ctx(None);
    ftl.fill(&mut now.stamps).unwrap();
    ftl.settle();
    ftl.start(&mut now);
    let mut fake = Fake::new(&ftl);
    fake.faults.read = 200_000_000;
    let mut rng = Seed(5).stream("order");
    for tag in 0..2000 {
        let lpn = Lpn(rng.below(ftl.sectors() - 4) as u32);
        ftl.write(&mut now, tag, lpn, 4, false, Source::Host);
        fake.settle(&mut ftl, &mut now, &mut rng);
    }
    assert!(ftl.counters().lost_sectors > 100);
    let lost = |ftl: &mut Ftl| {
        let (mut out, mut now, mut lost) = (Vec::new(), ctx(None), (0, 0));
        for lpn in 0..ftl.sectors() as u32 {
            out.clear();
            ftl.read(&mut now, Lpn(lpn), 1, &mut out);
            match out[0].place {
                Place::Flash { ppa, .. } => {
                    lost.0 += u32::from(ftl.has_lost(ppa, 1));
                    ftl.read_done(&mut now, ppa, 1);
                }
                Place::Lost => lost.1 += 1,
                _ => {}
            }
        }
        lost
    };
    let before = lost(&mut ftl);
    assert!(before.0 > 50 && before.1 > 0, "{before:?} in flash and in the buffer");
    // Nor does a drive forget them when it is saved.
    ftl.stop(&mut now);
    fake.settle(&mut ftl, &mut now, &mut rng);
    let mut file = Vec::new();
    ftl.save(&mut file).unwrap();
    let mut loaded = Ftl::load(&g, &c, &mut &file[..]).unwrap();
    assert!(lost(&mut loaded).0 >= before.0 + before.1);
}

#[test]
fn the_same_seed_acts_the_same() {
    for seed in 0..20 {
        let faults = Faults { program: 1_000_000, erase: 1_000_000, read: 1_000_000, user_read: 0 };
        let trace = || {
            let w = one(seed, faults, 1500)?;
            Some((w.fake.trace, w.refused, *w.ftl.counters()))
        };
        assert_eq!(trace(), trace(), "seed {seed}");
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
        let rate = [0, 1_000_000, 5_000_000][seed as usize % 3];
        let faults = Faults { program: rate, erase: rate / 4, ..Faults::default() };
        let w = Case::new(g, c).run(rng, |w| w.run_with_losses(faults, 4));
        losses += w.map_or(0, |w| w.losses);
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
        let case = Case { filled: full, ..Case::new(g, c) };
        let w = case.run(Seed(seed).stream("model"), |w| {
            if !full {
                w.fake.faults.program = 20_000_000;
            }
            for i in 0..1500 {
                // The first sectors of the fill share a line.
                let lpn = w.rng.below(if full { 130 } else { 12 }) as u32;
                let flush = w.rng.below(if full { 30 } else { 6 }) == 0;
                let write = Step::Write { lpn, n: 1, fua: false };
                w.apply(if flush { Step::Flush } else { write });
                for _ in 0..w.rng.below(3) {
                    w.step();
                }
                if w.refused > 0 {
                    break;
                }
                if i % 5 == 0 {
                    w.recovered(i);
                }
            }
        });
        resubmitted += w.expect("a drive").ftl.counters().resubmitted_sectors;
    }
    assert!(resubmitted > 200, "{resubmitted}");
}

/// Blocks are lost until users' data leave too few to write. All of that is read.
#[test]
fn a_drive_with_too_few_good_blocks_is_read_only_and_keeps_what_it_holds() {
    for (stride, hot_cold) in [(0, false), (4, false), (4, true)] {
        let g = geometry(2, 8, 80, 16, 2);
        let mut c = FtlConfig::new(Placement::Device, 30.0);
        (c.stride, c.hot_cold) = (stride, hot_cold);
        let case = Case { filled: true, ..Case::new(g, c) };
        let worn = case.run(Seed(5).stream("model"), |w| {
            w.run(20, 12);
            let refused = w.recovered_as(3, true, false).err();
            assert!(matches!(refused, Some(RecoverError::Config(_))), "{stride}: {refused:?}");
            let mut worn = w.recovered_as(3, true, true).unwrap();
            let model = worn.model.clone();
            for lpn in 0..200 {
                worn.apply(Step::Write { lpn: 7 * lpn, n: 1, fua: lpn % 2 == 0 });
            }
            worn.settle();
            assert_eq!(worn.refused, 200, "stride {stride}");
            worn.model = model;
            worn.verify();
        });
        assert!(worn.is_some(), "stride {stride}");
    }
}
