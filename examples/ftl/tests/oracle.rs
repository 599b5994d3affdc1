//! The small FTL is held against the same oracle as ours: every read returns the newest write, I/Os are
//! conserved, and its own state adds up, in the drive and on the host, under failing flash.

use pagemap::PageMapKind;
use wordline::{Plan, Precondition, RunResult, Source, Sources, System, Why, jobs};

const MIXED: &str = "
[global]
bs=4k
norandommap
[r]
rw=randread
bssplit=4k/70:32k/30
iodepth=16
number_ios=4000
[w]
rw=randwrite
bssplit=4k/70:24k/30
iodepth=16
number_ios=8000
fsync=50
[t]
rw=randtrim
bs=64k
number_ios=60
";

fn run(device: &str, set: &[&str], state: Precondition) -> RunResult {
    run_job(MIXED, device, set, state)
}

fn run_job(job: &str, device: &str, set: &[&str], state: Precondition) -> RunResult {
    let small = ["nand.blocks=64", "nand.pages_per_block=16", "ftl.over_provisioning=20"];
    // A conventional drive's firmware is the drive's own, and here is another FTL.
    let own = ["ftl.firmware=none"];
    let set: Vec<String> = small.iter().chain(&own).chain(set).map(|s| s.to_string()).collect();
    let sources =
        Sources { stack: Source::Preset("linux-libaio"), ..Sources::presets(device, "none") };
    let system = System::assemble(sources, &set).expect("settings").with_ftl(PageMapKind);
    let mut plan = Plan::new(system, jobs("oracle.fio", job).expect("a job"));
    plan.state = state;
    plan.options.slowest = 50;
    let mut run = plan.prepare().expect("a drive").start().expect("a machine");
    while run.step(10_000) {
        run.ftl().check_invariants().expect("its state adds up");
    }
    run.finish()
}

#[test]
fn reads_return_the_newest_write_wherever_it_runs() {
    for device in ["cnex-small", "z-ssd-small"] {
        for on in ["ftl.placement=host", "ftl.placement=device"] {
            // A cache in the drive stands before an FTL in the drive.
            let set: &[&str] = if on.ends_with("host") { &[on, "cache=none"] } else { &[on] };
            for state in [Precondition::None, Precondition::Fill, Precondition::Steady] {
                let result = run(device, set, state);
                let what = format!("{device} {on} {state:?}");
                result.verdict().unwrap_or_else(|e| panic!("{what}: {e}"));
                assert!(result.machine.totals.integrity.checked > 4_000, "{what}");
                assert_eq!(result.provenance.ftl, "pagemap");
                let wa = &result.machine.totals.write_amplification;
                let aged = state == Precondition::Steady;
                assert!(wa.gc_sectors > 0 || !aged, "{what}: nothing was collected");
            }
        }
    }
}

/// Failed programs are written again elsewhere, blocks that fail to erase are retired.
#[test]
fn failing_flash_loses_nothing() {
    let faults = [
        "nand.faults.program_fail_ppb=1000000",
        "nand.faults.erase_fail_ppb=5000000",
        "nand.faults.bad_blocks_ppb=10000000",
    ];
    let result = run("z-ssd-small", &faults, Precondition::Steady);
    result.verdict().expect("a whole run");
    let count =
        |name: &str| result.machine.totals.counters.iter().find(|(n, _)| n == name).map(|c| c.1);
    assert!(count("ftl.program_errors") > Some(0) && count("ftl.erase_errors") > Some(0));
    assert_eq!(count("ftl.lost_sectors"), Some(0));
}

/// Greedy collection under uniform writes moves less than first in, first out would (Desnoyers 2012): of
/// a victim the share X is still valid, X = exp(-a (1 - X)), with `a` the sectors in use to those of users.
#[test]
fn ageing_ends_below_the_closed_form_for_fifo() {
    let result = run("z-ssd-small", &[], Precondition::Steady);
    let wa = &result.machine.totals.write_amplification;
    let last = wa.ageing.last().copied().expect("windows");
    // 20 % of what is left beside the free blocks is spare.
    let a = 1.0 / 0.8;
    let x = (0..1000).fold(0.5f64, |x, _| (-a * (1.0 - x)).exp());
    let fifo = 1.0 / (1.0 - x);
    assert!((1.0..fifo).contains(&last) && last > 0.7 * fifo, "{last} against {fifo}");
}

/// A write that waits until the collector has made space is told so, and one that waits for room in the buffer is not.
#[test]
fn writes_that_the_collector_holds_up_are_told_so() {
    const WRITES: &str = "[w]\nrw=randwrite\nbs=4k\niodepth=32\nnumber_ios=6000\nnorandommap\n";
    for on in ["ftl.placement=host", "ftl.placement=device"] {
        // Of the time that the slowest took.
        let shares = |state| {
            let result = run_job(WRITES, "cnex-small", &[on, "cache=none"], state);
            let (mut all, mut held, mut buffer) = (0, 0, 0);
            for (step, took) in result.slowest.iter().flat_map(|life| life.times()) {
                all += took.0;
                held += if step.why == Why::Collector { took.0 } else { 0 };
                buffer += if step.why == Why::WriteBuffer { took.0 } else { 0 };
            }
            [held, buffer].map(|ns| ns as f64 / all as f64)
        };
        let [held, _] = shares(Precondition::Steady);
        assert!(held > 0.5, "{on}: {held:.2}");
        let [held, buffer] = shares(Precondition::None);
        assert!(held == 0.0 && buffer > 0.5, "{on}: {held:.2} and {buffer:.2}, nothing collected");
    }
}
