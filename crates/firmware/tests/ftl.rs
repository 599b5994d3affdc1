//! The FTL against what a drive must be: an array of the newest versions.

mod common;

use common::{Drive, Faults, Kind, Reading, ctx};
use std::collections::BTreeMap;
use wordline_base::{Lpn, Rng};
use wordline_translation::{Place, Source, Translation};

#[test]
fn reads_find_the_newest_under_random_commands_and_faults() {
    let mut sums = [0; 7];
    for seed in 0..100 {
        let kind = Kind::draw(seed);
        let what = format!("seed {seed}");
        let mut rng = Rng::from_seed(seed);
        let mut ftl = kind.make();
        let sectors = ftl.sectors() as u32;
        let mut ctx = ctx(sectors.into());
        let mut drive = Drive::new(&kind.g, &kind.bad);
        if rng.below(2) == 0 {
            drive.faults = Faults { read: 5_000_000, program: 3_000_000, erase: 3_000_000 };
        }
        let faulty = drive.faults.read > 0;
        ftl.start(&mut ctx);
        let hot = 1 + rng.below(u64::from(sectors)) as u32;
        let mut open: BTreeMap<u32, (u32, bool)> = BTreeMap::new();
        let (mut reading, mut pieces): (Vec<Reading>, _) = (Vec::new(), Vec::new());
        for tag in 0..4000u32 {
            let among = if rng.below(3) == 0 { sectors } else { hot };
            let lpn = rng.below(among.into()) as u32;
            let most = rng.pick(&[1, 1, 4, 40]).min(sectors - lpn);
            let n = 1 + rng.below(u64::from(most)) as u32;
            match rng.below(20) {
                0..12 => {
                    let submitted = ctx.stamps.submit(Lpn(lpn), n);
                    ctx.stamps.bind(tag, submitted);
                    open.insert(tag, (submitted, true));
                    ftl.write(&mut ctx, tag, Lpn(lpn), n, rng.below(20) == 0, Source::Host);
                }
                12..17 => {
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
            drive.drain(&mut ftl, ctx.now);
            for _ in 0..rng.below(8) {
                drive.step(&mut ftl, &mut ctx, &mut rng);
                drive.drain(&mut ftl, ctx.now);
            }
            while !reading.is_empty() && rng.below(3) > 0 {
                let read = reading.swap_remove(rng.below(reading.len() as u64) as usize);
                read.end(&mut ftl, &mut ctx, &drive, &what);
            }
            drive.drain(&mut ftl, ctx.now);
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
        ftl.check_invariants().unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(ctx.stamps.wrong(), (0, &[][..]), "{what}");
        let c = *ftl.counters();
        let new = c.user_sectors + c.emeta_sectors + c.gc_sectors;
        assert_eq!(
            c.programmed_sectors,
            new + c.pad_sectors + c.resubmitted_sectors,
            "{what}: {c:?}"
        );
        let counts = [
            c.gc_sectors,
            c.resubmitted_sectors,
            c.lost_sectors,
            c.blocks_retired,
            c.absorbed_sectors,
            c.gc_stale_sectors,
            c.flushes_waited,
        ];
        sums.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
    }
    println!("{sums:?}");
    assert!(sums.iter().all(|&n| n > 100), "{sums:?}");
}
