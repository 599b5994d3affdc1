//! Ageing: random overwrites without time until the state is steady.

use crate::common::geometry;
use wordline_base::{Rng, Stamps};
use wordline_fssd::{Fssd, FssdConfig};
use wordline_nand::Geometry;
use wordline_translation::Translation;

/// Few LUNs and long lines, as `fssd-small` has.
fn shape() -> Geometry {
    geometry(5, 10, 64, 32, 32)
}

fn config(volatile: bool) -> FssdConfig {
    FssdConfig { volatile, buffer_bytes: 16 << 20, gc_units: 8, ..FssdConfig::default() }
}

fn fssd(volatile: bool) -> Fssd {
    Fssd::new(&shape(), 25.0, &config(volatile), &mut |_, _| false).unwrap()
}

#[test]
fn a_full_drive_is_overwritten_without_end() {
    for volatile in [false, true] {
        let mut ftl = fssd(volatile);
        let mut stamps = Stamps::off();
        ftl.fill(&mut stamps).unwrap();
        let sectors = ftl.sectors();
        let mut rng = Rng::from_seed(5);
        for round in 0..16 {
            let lpns: Vec<u32> = (0..sectors / 8).map(|_| rng.below(sectors) as u32).collect();
            ftl.overwrite(&mut stamps, &lpns)
                .unwrap_or_else(|e| panic!("volatile {volatile}, round {round}: {e}"));
        }
        ftl.settle();
        ftl.check_invariants().unwrap();
        assert!(ftl.is_quiet());
        goes_on_as_saved(&mut ftl, volatile, &mut rng);
    }
}

/// Segments with bad blocks are full with fewer sectors: they are no better victims for that.
#[test]
fn bad_blocks_are_no_reason_to_collect_a_segment() {
    let amplification = |share: u64, append_points: u32| {
        let g = geometry(5, 10, 128, 32, 8);
        let mut rng = Rng::from_seed(11);
        let config = FssdConfig { append_points, ..config(false) };
        let mut ftl = Fssd::new(&g, 16.0, &config, &mut |_, _| rng.chance(share)).unwrap();
        let mut stamps = Stamps::off();
        ftl.fill(&mut stamps).unwrap();
        let sectors = ftl.sectors();
        let mut moved = 0;
        for round in 0..5 {
            let before = (ftl.counters().moved(), ftl.counters().emeta_sectors);
            let lpns: Vec<u32> = (0..sectors).map(|_| rng.below(sectors) as u32).collect();
            ftl.overwrite(&mut stamps, &lpns)
                .unwrap_or_else(|e| panic!("{share}, round {round}: {e}"));
            moved = ftl.counters().moved() - before.0;
            // Behind the fill, whose map is small, the map grows while its checkpoint is written.
            let metadata = ftl.counters().emeta_sectors - before.1;
            let checkpoint = ftl.tree().entries() / 64;
            assert!(
                round == 0 || metadata >= checkpoint,
                "round {round}: {metadata}, {checkpoint}"
            );
        }
        1.0 + moved as f64 / sectors as f64
    };
    for append_points in [1, 5] {
        let good = amplification(0, append_points);
        let bad = amplification(20_000_000, append_points);
        println!("{append_points} groups: {good:.3} without bad blocks, {bad:.3} with 2 %");
        assert!((bad / good - 1.0).abs() < 0.08, "{good:.3}, {bad:.3}");
    }
}

/// A saved drive goes on as the one that was saved, its memory to the byte.
fn goes_on_as_saved(ftl: &mut Fssd, volatile: bool, rng: &mut Rng) {
    let config = config(volatile);
    let load = |mut from: &[u8]| Fssd::load(&shape(), 25.0, &config, &mut from);
    let mut saved = Vec::new();
    ftl.save(&mut saved).unwrap();
    let mut loaded = load(&saved).unwrap();
    let mut again = Vec::new();
    loaded.save(&mut again).unwrap();
    assert!(again == saved, "it is saved as it was loaded");
    assert_eq!(loaded.host_memory(), ftl.host_memory());
    let sectors = ftl.sectors();
    let lpns: Vec<u32> = (0..sectors / 4).map(|_| rng.below(sectors) as u32).collect();
    let mut stamps = Stamps::off();
    for ftl in [&mut *ftl, &mut loaded] {
        ftl.overwrite(&mut stamps, &lpns).unwrap();
        ftl.settle();
        ftl.check_invariants().unwrap();
    }
    assert!(loaded.tree().all().eq(ftl.tree().all()), "it goes on otherwise");
    assert_eq!(loaded.host_memory(), ftl.host_memory());
    // What is cut off or changed is refused.
    for _ in 0..40 {
        let cut = &saved[..rng.below(saved.len() as u64) as usize];
        assert!(load(cut).is_err(), "{} bytes of {}", cut.len(), saved.len());
        let mut changed = saved.clone();
        changed[rng.below(saved.len() as u64) as usize] ^= 1 << rng.below(8);
        assert!(load(&changed).is_err());
    }
}
