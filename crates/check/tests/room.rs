//! A drive whose blocks are good takes writes for ever (docs/design/firmware.md), on whole machines.

use wordline_check::{Age, Case};

/// Superblocks of few pages and as many as a small image has: what users have in the buffer, and the superblocks that wait
/// for it to be written, are a large part of the spare.
#[test]
fn a_small_drive_without_capacitors_refuses_no_write() {
    let job = "[a]\nrw=randwrite\nbs=4k\niodepth=32\nnorandommap\nsize=500m\nio_size=1100m\n";
    let small = ["nand.blocks=98", "nand.pages_per_block=6", "ftl.firmware.protected=false"];
    let on = |more: &[&str]| {
        let case = Case::new("pm9a3-1920g", job).stack("none").age(Age::Filled);
        let case = small.iter().chain(more).fold(case, |case, set| case.set(set));
        let o = case.run().unwrap_or_else(|e| panic!("{more:?}: {e}"));
        let counters = &o.result.machine.totals.counters;
        let refused = counters.iter().find(|(name, _)| name == "ftl.writes_refused");
        assert_eq!(refused.map_or(0, |(_, n)| *n), 0, "{more:?}");
        assert_eq!(o.result.threads[0].total_errors, 0, "{more:?}");
    };
    on(&["cache=none"]);
    on(&["cache.capacitor=false"]);
}
