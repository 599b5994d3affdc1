//! FSSD: flash software on the host, from the thread that writes to the drive.

use wordline_check::{Age, Case, Outcome};

const WRITES: &str = "[a]\nioengine=libaio\nrw=randwrite\nbs=512\nnumber_ios=4000\nnorandommap\n";

fn run(job: &str, age: Age, sets: &[&str]) -> Outcome {
    let mut case =
        Case::new("fssd-small", job).age(age).set("nand.blocks=32").set("ftl.over_provisioning=40");
    for set in sets {
        case = case.set(set);
    }
    case.run().unwrap()
}

fn counter(o: &Outcome, name: &str) -> u64 {
    o.result.machine.counters.iter().find(|(n, _)| n == name).map_or(0, |(_, n)| *n)
}

/// Little's law: as many are in flight as come in a second, each for so long.
#[test]
fn workers_and_depths_follow_littles_law() {
    for (workers, depth) in [(1, 1), (1, 128), (4, 32), (8, 8)] {
        let job = format!("{WRITES}iodepth={depth}\nnumjobs={workers}\n");
        let o = run(&job, Age::Fresh, &["stack.cores=4"]);
        let span = o.result.machine.simulated_ns as f64;
        let spent = |d: &wordline_sim::DirResult| d.lat.mean() * d.total_ios as f64;
        let flight: f64 = o.result.threads.iter().map(|t| spent(&t.dirs[1]) / span).sum();
        let most = f64::from(workers * depth);
        assert!(flight <= most * 1.001, "{workers} x {depth}: {flight:.2}");
        assert!(flight >= most * 0.6, "{workers} x {depth}: {flight:.2}");
    }
}

/// A write is acknowledged when it has crossed the link, long before anything is programmed.
#[test]
fn an_acknowledged_write_has_crossed_the_link() {
    let staged = run(WRITES, Age::Fresh, &[]);
    let volatile = run(WRITES, Age::Fresh, &["ftl.fssd.volatile=true"]);
    let mean = |o: &Outcome| o.result.threads[0].dirs[1].lat.mean();
    assert!(mean(&staged) < 100_000.0, "{} ns: it waits for a program", mean(&staged));
    assert!(mean(&volatile) + 1_000.0 < mean(&staged), "the link costs nothing");
}

/// Every read finds the newest version, with the collector at work and 512-byte sectors in any mix.
#[test]
fn mixed_sizes_under_collection_read_what_was_written() {
    let job = "[a]\nioengine=libaio\nrw=randrw\nbsrange=512-64k\nblockalign=512\niodepth=16\n\
               number_ios=4000\nnorandommap\nnumjobs=2\n";
    let o = run(job, Age::Filled, &[]);
    let m = &o.result.machine;
    assert!(m.integrity.checked > 1000 && m.integrity.wrong == 0);
    assert_eq!(m.partial_writes.sectors, 0, "512-byte sectors are never written in part");
    let nodes = m.host.as_ref().unwrap().memory_by_owner.iter().find(|o| o.name == "map_nodes");
    let nodes = nodes.expect("the map is in host memory");
    assert!(nodes.end_bytes > 0 && nodes.end_bytes % 4096 == 0, "{nodes:?}");
    assert!(counter(&o, "ftl.gc_sectors") > 0 || m.write_amplification.factor.is_some());
}

/// Locks and processors are what more workers meet: the map's lock is slept for.
#[test]
fn workers_wait_for_the_lock_of_the_map() {
    let waits = |workers: u32| {
        let job = format!("{WRITES}iodepth=16\nnumjobs={workers}\n");
        let o = run(&job, Age::Fresh, &["stack.cores=4", "ftl.cost.map.insert=5us"]);
        let of = |name: &str| counter(&o, &format!("ftl_host.{name}"));
        let writes = 4000 * u64::from(workers);
        assert!(of("lock_alone") >= writes, "each write changes the map with it for itself");
        assert!(of("entries_inserted") >= writes && of("nodes_visited") >= writes);
        assert_eq!(of("lock_shared"), 0, "nothing is read");
        assert!(of("staged") >= writes, "each write is sent ahead");
        of("lock_waits")
    };
    assert!(waits(4) > 1000 && waits(1) < waits(4) / 10, "nobody slept for the lock");
}
