//! Saving and loading.

use crate::common::{Drive, Kind};
use wordline_base::{Ctx, Lpn, Rng, Stamps};
use wordline_firmware::{Firmware, FirmwareConfig};
use wordline_nand::Ppa;
use wordline_translation::{LoadError, Source, Translation};

fn aged(seed: u64) -> (Kind, Firmware, Stamps) {
    let kind = Kind::draw(seed);
    let mut ftl = kind.make();
    let sectors = ftl.sectors();
    let mut stamps = Stamps::new(sectors);
    let mut rng = Rng::from_seed(seed);
    ftl.fill(&mut stamps).unwrap();
    for _ in 0..3 * sectors / 50 {
        let lpns: Vec<u32> = (0..50).map(|_| rng.below(sectors) as u32).collect();
        ftl.overwrite(&mut stamps, &lpns).unwrap();
    }
    ftl.settle();
    ftl.check_invariants().unwrap();
    (kind, ftl, stamps)
}

/// Random writes in time: where each sector is afterwards.
fn run(kind: &Kind, mut ftl: Firmware, stamps: Stamps) -> Vec<Option<u32>> {
    let mut ctx = Ctx::new();
    ctx.stamps = stamps;
    let mut drive = Drive::new(&kind.g, &kind.bad);
    drive.adopt(&ftl);
    let mut rng = Rng::from_seed(9);
    let sectors = ftl.sectors();
    ftl.start(&mut ctx);
    for tag in 0..2000 {
        let lpn = Lpn(rng.below(sectors) as u32);
        let submitted = ctx.stamps.submit(lpn, 1);
        ctx.stamps.bind(tag, submitted);
        ftl.write(&mut ctx, tag, lpn, 1, false, Source::Host);
        drive.drain(&mut ftl, ctx.now);
        while drive.step(&mut ftl, &mut ctx, &mut rng) && rng.below(3) > 0 {
            drive.drain(&mut ftl, ctx.now);
        }
        drive.drain(&mut ftl, ctx.now);
    }
    ftl.check_invariants().unwrap();
    assert_eq!(ctx.stamps.wrong().0, 0);
    let c = format!("{:?}", ftl.media_state().collect::<Vec<_>>());
    let mut all: Vec<_> = (0..sectors as u32).map(|lpn| ftl.version(Lpn(lpn))).collect();
    all.push(Some(c.bytes().fold(0, |h: u32, b| h.wrapping_mul(31).wrapping_add(b.into()))));
    all
}

#[test]
fn a_saved_drive_is_the_same_drive() {
    for seed in 0..40 {
        let (kind, ftl, stamps) = aged(seed);
        let mut file = Vec::new();
        ftl.save(&mut file).unwrap();
        let loaded =
            Firmware::load(&kind.g, kind.over_provisioning, &kind.config, &mut &file[..]).unwrap();
        let mut again = Vec::new();
        loaded.save(&mut again).unwrap();
        assert!(file == again, "seed {seed}: a state changes when it is loaded and saved");
        assert_eq!(ftl.pages_in_memory(), loaded.pages_in_memory(), "seed {seed}");
        for ppa in 0..kind.g.sectors() as u32 {
            assert_eq!(
                ftl.holds(Ppa(ppa)),
                loaded.holds(Ppa(ppa)),
                "seed {seed}: {ppa}, stale or not"
            );
        }
        if kind.bad.iter().any(|&bad| bad) {
            continue; // Marks follow from the blocks that are good when a drive is made.
        }
        assert_eq!(run(&kind, ftl, stamps.clone()), run(&kind, loaded, stamps), "seed {seed}");
    }
}

#[test]
fn damaged_files_are_refused_without_a_panic() {
    let has_map = |&seed: &u64| Kind::draw(seed).has_cached_map();
    let seeds = [(0..).find(|seed| !has_map(seed)), (0..).find(has_map)];
    seeds.into_iter().flatten().for_each(damaged_files_are_refused);
}

fn damaged_files_are_refused(seed: u64) {
    let (kind, ftl, _) = aged(seed);
    let mut file = Vec::new();
    ftl.save(&mut file).unwrap();
    let load =
        |file: &[u8]| Firmware::load(&kind.g, kind.over_provisioning, &kind.config, &mut &file[..]);
    let mut rng = Rng::from_seed(2);
    for _ in 0..300 {
        let at = rng.below(file.len() as u64) as usize;
        let mut other = file.clone();
        other[at] ^= 1 << rng.below(8);
        assert!(load(&other).is_err(), "byte {at}");
        assert!(matches!(load(&file[..at]), Err(LoadError::Short)), "cut at {at}");
    }
    assert!(matches!(load(b"0123456789abcdef"), Err(LoadError::Foreign)));
    let mut config = kind.config.clone();
    config.superblock_luns = Some(1);
    let other = Firmware::load(&kind.g, kind.over_provisioning, &config, &mut &file[..]);
    assert!(matches!(other, Err(LoadError::Shape { .. })));
    // A map that is all in memory has no pages on flash.
    if kind.has_cached_map() {
        let config = FirmwareConfig { map_bytes: 0, ..kind.config.clone() };
        let other = Firmware::load(&kind.g, kind.over_provisioning, &config, &mut &file[..]);
        assert!(matches!(other, Err(LoadError::Shape { .. })));
    }
}
