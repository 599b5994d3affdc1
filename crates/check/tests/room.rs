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

/// The collector's own data wait in the buffer for a unit to be full, and users for the line that they came from. Somebody
/// reads all the while, so that at no moment nothing is in flight.
#[test]
fn a_write_ends_while_others_read() {
    let job = |readers: &str| {
        format!(
            "[global]\nioengine=libaio\nbs=4k\nnorandommap\n[w]\nrw=randwrite\niodepth=16\nnumber_ios=40000\n{readers}"
        )
    };
    let readers = "[r]\nrw=randread\niodepth=16\ntime_based\nruntime=3\n";
    let sets =
        ["nand.blocks=64", "nand.pages_per_block=32", "ftl.over_provisioning=9", "ftl.gc_lines=1"];
    let (alone, beside) = (job(""), job(readers));
    let longest = |job: &str| {
        let case = Case::new("cnex-small", job).age(Age::Steady);
        let o = sets.iter().fold(case, |case, set| case.set(set)).run().unwrap();
        let drains = crate::fssd::counter(&o, "ftl.drains");
        (o.result.threads[0].dirs[1].clat.max(), drains)
    };
    let (alone, _) = longest(&alone);
    let (beside, drains) = longest(&beside);
    assert!(drains > 0, "the collector's data never waited for more");
    assert!(beside < 3 * alone, "{beside} ns beside readers, {alone} alone");
}
