//! The FTL against what a drive must be: an array of the newest versions.

use crate::common::{Drive, Faults, Kind, Reading, ctx, geometry};
use std::collections::BTreeMap;
use wordline_base::{Lpn, Rng};
use wordline_fssd::{Fssd, FssdConfig};
use wordline_translation::{Place, Source, Translation, WindowLimits, steady_by_overwriting};

#[test]
fn reads_find_the_newest_under_random_commands_and_faults() {
    let (mut collected, mut resubmitted, mut lost, mut checkpoints, mut refused) = (0, 0, 0, 0, 0);
    let (mut orders, mut ordered) = (0, 0);
    for seed in 0..220 {
        let kind = Kind::draw(seed);
        let what = format!("seed {seed}");
        let mut rng = Rng::from_seed(seed);
        let mut ftl = kind.make();
        let sectors = ftl.sectors() as u32;
        let mut ctx = ctx(sectors.into());
        let mut drive = Drive::new(&kind);
        if rng.below(2) == 0 {
            drive.faults =
                Faults { read: 5_000_000, program: 3_000_000, erase: 3_000_000, ..drive.faults };
        }
        let faulty = drive.faults.read > 0;
        ftl.start(&mut ctx);
        let hot = 1 + rng.below(u64::from(sectors)) as u32;
        let mut open: BTreeMap<u32, (u32, bool)> = BTreeMap::new();
        let (mut reading, mut pieces): (Vec<Reading>, _) = (Vec::new(), Vec::new());
        for tag in 0..4000u32 {
            let lpn = rng.below(u64::from(hot)) as u32;
            let most = rng.pick(&[1, 1, 4, 40]).min(sectors - lpn);
            let n = 1 + rng.below(u64::from(most)) as u32;
            match rng.below(20) {
                0..11 => {
                    let submitted = ctx.stamps.submit(Lpn(lpn), n);
                    ctx.stamps.bind(tag, submitted);
                    open.insert(tag, (submitted, true));
                    ftl.write(&mut ctx, tag, Lpn(lpn), n, rng.below(20) == 0, Source::Host);
                }
                11..17 => {
                    pieces.clear();
                    ftl.read(&mut ctx, Lpn(lpn), n, &mut pieces);
                    let lost = pieces.iter().any(|p| p.place == Place::Lost);
                    assert!(!lost || faulty, "{what}");
                    assert_eq!(pieces.iter().map(|p| p.sectors).sum::<u32>(), n, "{what}");
                    reading.extend(Reading::of(&pieces));
                }
                17 => {
                    let submitted = ctx.stamps.submit(Lpn(lpn), n);
                    ctx.stamps.bind(tag, submitted);
                    open.insert(tag, (submitted, true));
                    ftl.trim(&mut ctx, tag, Lpn(lpn), n);
                }
                18 => {
                    open.insert(tag, (0, false));
                    ftl.flush(&mut ctx, tag);
                }
                _ => ftl.check_invariants().unwrap_or_else(|e| panic!("{what}: {e}")),
            }
            for _ in 0..rng.below(8) {
                drive.drain(&mut ftl);
                drive.step(&mut ftl, &mut ctx, &mut rng);
            }
            while !reading.is_empty() && rng.below(3) > 0 {
                let read = reading.swap_remove(rng.below(reading.len() as u64) as usize);
                read.end(&mut ftl, &mut ctx, &drive, &what);
            }
            drive.drain(&mut ftl);
            for (tag, ok) in std::mem::take(&mut drive.ended) {
                let (submitted, changes) = open.remove(&tag).expect("it was open");
                assert!(ok || faulty, "{what}: nothing failed");
                if changes {
                    ctx.stamps.acknowledge(submitted, ok);
                }
            }
        }
        for read in reading {
            read.end(&mut ftl, &mut ctx, &drive, &what);
        }
        drive.settle(&mut ftl, &mut ctx, &mut rng);
        for (tag, _) in std::mem::take(&mut drive.ended) {
            open.remove(&tag).expect("it was open");
        }
        assert!(open.is_empty(), "{what}: {open:?} hang");
        ftl.settle();
        drive.settle(&mut ftl, &mut ctx, &mut rng);
        assert!(ftl.is_quiet(), "{what}");
        ftl.check_invariants().unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(ctx.stamps.wrong(), (0, &[][..]), "{what}");
        let c = *ftl.counters();
        let all = c.user_sectors + c.gc_sectors + c.pad_sectors + c.smeta_sectors + c.emeta_sectors;
        assert_eq!(c.programmed_sectors, all + c.resubmitted_sectors, "{what}: {c:?}");
        if let Some(host) = &drive.host {
            (orders, ordered) = (orders + host.orders, ordered + c.gc_sectors);
        }
        collected += c.gc_sectors;
        resubmitted += c.resubmitted_sectors;
        lost += c.lost_sectors;
        checkpoints += c.emeta_sectors;
        refused += c.writes_refused;
    }
    let all = [collected, resubmitted, lost, checkpoints, orders, ordered];
    assert!(all.iter().all(|&n| n > 100), "{all:?} {refused}");
}

/// Write amplification of greedy collection under uniform random writes: alpha is the space that is not
/// free by users' sectors, b the sectors of a segment (docs/design/ftl.md).
fn greedy(alpha: f64, b: u32) -> f64 {
    let b = f64::from(b);
    let (mut sum, mut k) = (0.0, b);
    // A victim has k sectors in use or k - 1: the sum has one more term until it is large enough.
    while k > 1.0 && (k == b || sum < alpha * (b - k) / b) {
        sum += 1.0 / k;
        k -= 1.0;
    }
    b / (b - k)
}

#[test]
fn uniform_random_writes_are_amplified_as_greedy_collection_does() {
    for (seed, op) in [(1, 25.0), (2, 35.0)] {
        let g = geometry(4, 8, 300, 8, 8);
        let config = FssdConfig {
            buffer_bytes: 64 * g.unit_bytes(),
            gc_start: Some(8),
            gc_units: 16,
            checkpoint_sectors: Some(u64::MAX),
            ..FssdConfig::default()
        };
        let mut ftl = Fssd::new(&g, op, &config, &mut |_, _| false).unwrap();
        let sectors = ftl.sectors();
        let mut ctx = ctx(sectors);
        let mut rng = Rng::from_seed(seed);
        ftl.fill(&mut ctx.stamps).unwrap();
        assert_eq!(ftl.counters().gc_sectors, 0, "filled in order");
        let (mut free, mut draws) = (0, 0);
        let mut next = |lpns: &mut [u32]| {
            lpns.fill_with(|| rng.below(sectors) as u32);
            Ok(())
        };
        let steady =
            steady_by_overwriting(&mut ftl, &mut ctx.stamps, &mut next, WindowLimits::default())
                .unwrap();
        assert!(steady.steady, "{steady:?}");
        let before = *ftl.counters();
        let mut lpns = [0; 64];
        for _ in 0..sectors / 64 {
            next(&mut lpns).unwrap();
            ftl.overwrite(&mut ctx.stamps, &lpns).unwrap();
            (free, draws) = (free + ftl.free_segments().0, draws + 1);
        }
        let c = *ftl.counters();
        let user = (c.user_sectors - before.user_sectors) as f64;
        let found = 1.0 + (c.gc_sectors - before.gc_sectors) as f64 / user;
        let used = f64::from(g.lines) - f64::from(free) / f64::from(draws);
        let alpha = used * f64::from(g.sectors_per_line) / sectors as f64;
        let theory = greedy(alpha, g.sectors_per_line);
        println!("{op} % spare: {found:.3}, greedy's {theory:.3} at alpha {alpha:.3}");
        assert!((found / theory - 1.0).abs() < 0.05, "{found} {theory}");
        ftl.settle();
        ftl.check_invariants().unwrap();
    }
}
