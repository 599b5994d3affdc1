//! The same command gives the same events, draws and bytes; shuffled ties keep every invariant.

use wordline_check::{Age, Case};
use wordline_sim::{Ended, Options};

const MIXED: &str = "
[global]
bs=4k
norandommap
[r]
rw=randread
iodepth=16
number_ios=3000
[w]
rw=randwrite
iodepth=8
number_ios=3000
fsync=100
";

fn cases() -> Vec<Case<'static>> {
    ["cnex-small", "z-ssd-small", "intel-750-small"]
        .into_iter()
        .map(|device| Case::new(device, MIXED).age(Age::Steady))
        .collect()
}

#[test]
fn a_run_repeats_event_by_event() {
    for case in cases() {
        let (a, b) = (case.run().unwrap(), case.run().unwrap());
        assert_eq!(a.events, b.events, "{}: events differ", case.device);
        assert_eq!(a.text(), b.text(), "{}: results differ", case.device);
    }
}

#[test]
fn the_seed_reaches_what_a_job_leaves_to_chance() {
    let job = "[r]\nrw=randread\nnumber_ios=500\nnorandommap\nrandrepeat=0\n";
    let case = Case::new("z-ssd-small", job).age(Age::Filled);
    let mut other = case.clone();
    other.seed = 2;
    assert_ne!(case.run().unwrap().events, other.run().unwrap().events);
}

#[test]
fn observing_a_run_does_not_change_it() {
    for case in cases() {
        let plain = case.run().unwrap();
        let mut watched = case.clone();
        watched.options =
            Options { slowest: 3, tracks: Some(100_000), digest: true, ..Options::default() };
        let mut watched = watched.run().unwrap();
        // That slices were dropped is said in a note.
        watched.result.notes.retain(|note| !note.starts_with("the timeline"));
        // What was asked for is in the JSON.
        let slowest = std::mem::take(&mut watched.result.slowest);
        assert_eq!(slowest.len(), 9, "three of reads, writes and syncs");
        assert_eq!(plain.events, watched.events);
        assert_eq!(plain.text(), watched.text());
        assert!(watched.result.tracks.is_some_and(|t| !t.slices.is_empty()));
    }
}

#[test]
fn invariants_hold_under_any_order_of_ties() {
    for case in cases() {
        for seed in 1..=5 {
            let mut shuffled = case.clone();
            shuffled.options.shuffle_ties = Some(seed);
            let outcome = shuffled.run().unwrap();
            let r = &outcome.result;
            assert_eq!(r.ended, Ended::Complete, "{} ties {seed}", case.device);
            assert_eq!(r.machine.generated, r.machine.served, "{} ties {seed}", case.device);
            assert_eq!(r.machine.totals.integrity.wrong, 0, "{} ties {seed}", case.device);
        }
    }
}

#[test]
fn littles_law_and_the_split_by_layer_hold() {
    for device in ["cnex-small", "z-ssd-small", "intel-750-small"] {
        let job = "[r]\nbs=4k\nrw=randread\niodepth=16\nnorandommap\nnumber_ios=20000\n";
        let outcome = Case::new(device, job).age(Age::Filled).run().unwrap();
        let (r, t) = (&outcome.result, &outcome.result.threads[0]);
        // Mean number in flight = rate x mean latency; the loop is closed at 16.
        let dir = &t.dirs[0];
        let in_flight = dir.lat.mean() * dir.total_ios as f64 / dir.runtime.0 as f64;
        assert!((15.5..=16.1).contains(&in_flight), "{device}: {in_flight}");
        let layers = &r.machine.layers[0];
        let sum: f64 = layers.mean_by_layer_ns.iter().sum();
        assert!((sum - layers.mean_ns).abs() < 1.0, "{device}: {sum} against {}", layers.mean_ns);
        for row in &layers.at {
            let sum: f64 = row.by_layer_ns.iter().sum();
            assert!((sum - row.latency_ns as f64).abs() <= 1.0, "{device} at {}", row.percentile);
        }
        for core in &r.machine.cores {
            let sum = core.user + core.system + core.interrupt + core.idle;
            assert!((sum - 1.0).abs() < 1e-6, "{device}: a core's time sums to {sum}");
        }
    }
}
