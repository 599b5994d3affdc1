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

const MIXED: &str = "[a]\nioengine=libaio\nrw=randrw\nbsrange=512-32k\nblockalign=512\niodepth=16\n\
                     number_ios=6000\nnorandommap\n";

fn link(o: &Outcome, class: &str) -> u64 {
    o.result.machine.link_bytes.iter().find(|(n, _)| n == class).map_or(0, |(_, n)| *n)
}

fn memory(o: &Outcome, owner: &str) -> u64 {
    let owners = &o.result.machine.host.as_ref().unwrap().memory_by_owner;
    owners.iter().find(|o| o.name == owner).map_or(0, |o| o.max_bytes)
}

/// What the host counts over the link is what the drive took and gave, but for commands under way at the
/// end; a collector in the drive tells of its moves, and what it moves does not cross the link.
#[test]
fn what_a_collector_in_the_drive_moves_does_not_cross_the_link() {
    let [all, map] = ["all", "map"].map(|word| {
        let o = run(MIXED, Age::Steady, &[&format!("ftl.on_host={word}")]);
        assert!(counter(&o, "ftl.gc_sectors") > 10_000 && o.result.machine.integrity.wrong == 0);
        let sent: u64 = o.result.machine.link_bytes.iter().map(|(_, n)| n).sum();
        let took = counter(&o, "device.bytes_read") + counter(&o, "device.bytes_written");
        // Eight units of the collector's, and no writes or reads of users.
        assert!(took <= sent && sent - took <= 8 * 16_384, "{word}: {sent} and {took} bytes");
        o
    });
    let sectors = counter(&map, "ftl.gc_sectors") + counter(&map, "ftl.gc_stale_sectors");
    let told = link(&map, "gc_read");
    assert!((16 * sectors..16 * (sectors + 8 * 32)).contains(&told), "{told} of {sectors} sectors");
    assert_eq!(link(&all, "gc_read") % 16_384, 0, "whole units");
    assert!(
        link(&all, "gc_read") > 20 * told
            && link(&all, "gc_program") > 20 * link(&map, "gc_program")
    );
    // What a write replaces goes with it.
    assert!(link(&map, "user_program") > counter(&map, "ftl.user_sectors") * 512);
    // The collector's tables and what it moves are not in host memory; the map is.
    assert!(memory(&map, "ftl_tables") < memory(&all, "ftl_tables") / 10);
    assert!(memory(&map, "map_nodes") * 10 > memory(&all, "map_nodes") * 9);
}

/// All of it in the drive: the host has the memory of its driver, and firmware cores pay for the map.
#[test]
fn firmware_cores_pay_for_a_map_in_the_drive() {
    let job = "[a]\nrw=randread\nbs=512\nnumber_ios=400\nnorandommap\n";
    let with = |visit: &str| {
        let visit = format!("ftl.cost.map.visit={visit}");
        let o = run(job, Age::Filled, &["ftl.on_host=none", &visit]);
        let m = &o.result.machine;
        assert_eq!(memory(&o, "all"), memory(&o, "driver"), "{:?}", m.host);
        let lat = o.result.threads[0].dirs[0].lat.mean();
        (lat, m.firmware.iter().sum::<f64>() * m.simulated_ns as f64)
    };
    let ((fast, less), (slow, more)) = (with("0ns"), with("10us"));
    // A node or more is visited, by a core that takes four times as long.
    let visits = (slow - fast) / 40_000.0;
    assert!(
        (visits - visits.round()).abs() < 0.02 && visits.round() >= 1.0,
        "{fast} and {slow} ns"
    );
    let paid = (more - less) / 400.0 / 40_000.0;
    assert!((paid - visits).abs() < 0.02, "{paid} and {visits} nodes a read");
}

/// Every word gives back what was written, under collection and with trims.
#[test]
fn all_words_read_what_was_written() {
    let job = "[a]\nioengine=libaio\nrw=randrw\nbsrange=512-64k\nblockalign=512\niodepth=16\n\
               number_ios=3000\nnorandommap\nnumjobs=2\n[t]\nrw=randtrim\nbs=64k\nnumber_ios=100\n";
    for word in ["all", "map", "none"] {
        for volatile in [false, true] {
            let sets = [format!("ftl.on_host={word}"), format!("ftl.fssd.volatile={volatile}")];
            let o = run(job, Age::Filled, &[&sets[0], &sets[1]]);
            let m = &o.result.machine;
            assert!(m.integrity.checked > 1000 && m.integrity.wrong == 0, "{word}, {volatile}");
        }
    }
}
