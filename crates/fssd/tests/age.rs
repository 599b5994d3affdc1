//! Ageing: random overwrites without time until the state is steady.

mod common;

use common::geometry;
use wordline_base::{Rng, Stamps};
use wordline_fssd::{Fssd, FssdConfig};
use wordline_translation::Translation;

/// A drive of few LUNs and long lines, as `fssd-small` is.
fn fssd(volatile: bool) -> Fssd {
    let g = geometry(5, 10, 64, 32, 32);
    let config =
        FssdConfig { volatile, buffer_bytes: 16 << 20, gc_units: 8, ..FssdConfig::default() };
    Fssd::new(&g, 25.0, &config, &mut |_, _| false).unwrap()
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
    }
}
