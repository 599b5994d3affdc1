//! FSSD: flash software on the host, from the thread that writes to the drive.

use wordline::{Level, Plan, Precondition, System, jobs};
use wordline_base::Why;
use wordline_check::{Age, Case, Outcome};
use wordline_profile::derive;

const WRITES: &str = "[a]\nioengine=libaio\nrw=randwrite\nbs=512\nnumber_ios=4000\nnorandommap\n";

fn run(job: &str, age: Age, sets: &[&str]) -> Outcome {
    let mut case =
        Case::new("fssd-small", job).age(age).set("nand.blocks=32").set("ftl.over_provisioning=40");
    for set in sets {
        case = case.set(set);
    }
    case.run().unwrap()
}

pub fn counter(o: &Outcome, name: &str) -> u64 {
    o.result.machine.totals.counters.iter().find(|(n, _)| n == name).map_or(0, |(_, n)| *n)
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
    assert!(m.totals.integrity.checked > 1000 && m.totals.integrity.wrong == 0);
    assert_eq!(m.totals.partial_writes.sectors, 0, "512-byte sectors are never written in part");
    let nodes = m.host.as_ref().unwrap().memory_by_owner.iter().find(|o| o.name == "map_nodes");
    let nodes = nodes.expect("the map is in host memory");
    assert!(nodes.end_bytes > 0 && nodes.end_bytes % 4096 == 0, "{nodes:?}");
    assert!(counter(&o, "ftl.gc_sectors") > 0 || m.totals.write_amplification.factor.is_some());
}

/// Four workers that find the map's lock taken nearly always: where they spin for it, it is never unused, and writes
/// take what those who have it do. Where they sleep for it, they wait for threads that wake up as well.
#[test]
fn workers_meet_at_the_lock_of_the_map() {
    let (lock, visit, insert) = (60, 250, 5000);
    let busy = |workers: u32, spin: bool| {
        let job = format!("{WRITES}iodepth=16\nnumjobs={workers}\n");
        let spin = format!("stack.rwsem_spin={spin}");
        let o = run(&job, Age::Fresh, &["stack.cores=5", "ftl.cost.map.insert=5us", &spin]);
        let of = |name: &str| counter(&o, &format!("ftl_host.{name}"));
        let writes = 4000 * u64::from(workers);
        assert!(of("lock_alone") >= writes, "each write changes the map with it for itself");
        assert!(of("entries_inserted") >= writes && of("nodes_visited") >= writes);
        assert_eq!(of("lock_shared"), 0, "nothing is read");
        assert!(of("staged") >= writes, "each write is sent ahead");
        let held = of("lock_alone") * lock
            + of("nodes_visited") * visit
            + of("entries_inserted") * insert
            + of("nodes_split") * 800;
        let share = held as f64 / o.result.machine.simulated_ns as f64;
        (share, of("lock_waits"), of("lock_spins"))
    };
    let ((alone, ..), spin, sleep) = (busy(1, true), busy(4, true), busy(4, false));
    assert!(spin.0 > 0.97 && spin.0 <= 1.0, "{spin:?}");
    assert!(spin.2 > 10_000 && spin.1 < 100, "on a core of its own nobody sleeps: {spin:?}");
    assert!(sleep.1 > 10_000 && sleep.2 == 0, "{sleep:?}");
    assert!(sleep.0 < 0.9 * spin.0 && alone < 0.6, "{sleep:?} {alone}");
}

/// The collector lets go of the map's lock after each sector if a writer spins for it: none waits for a unit of them.
#[test]
fn writes_wait_for_one_sector_of_the_collector_at_most() {
    let job = format!("{WRITES}iodepth=1\n").replace("4000", "12000");
    let case = Case::new("fssd-small", &job).age(Age::Steady).set("ftl.cost.map.insert=10us");
    let mut case = case.set("nand.blocks=32").set("ftl.over_provisioning=40").set("stack.cores=2");
    case.options.slowest = 4000;
    let o = case.run().unwrap();
    let of = |name: &str| counter(&o, name);
    assert!(of("ftl.gc_sectors") > 3000, "the collector moves {}", of("ftl.gc_sectors"));
    let steps = o.result.slowest.iter().flat_map(|life| life.times());
    let waits: Vec<u64> =
        steps.filter(|(step, _)| step.why == Why::MapLock).map(|(_, took)| took.0).collect();
    // Two look-ups of four levels at most, and an entry changed.
    let sector = 60 + 2 * 4 * 250 + 10_000;
    let most = waits.iter().max().copied().unwrap_or(0);
    println!("{} waits, at most {most} ns", waits.len());
    assert!(waits.len() > 100 && most > 1000 && most <= sector, "{} waits, {most}", waits.len());
}

/// What a result says of memory is what the FTL holds, to the byte, and all of it is the sum of its owners.
#[test]
fn memory_reported_is_memory_held() {
    for word in ["all", "map"] {
        let case = Case::new("fssd-small", MIXED).set(&format!("ftl.on_host={word}"));
        let mut plan = Plan::new(
            System::from_config(case.config().unwrap(), &[]),
            jobs("t.fio", MIXED).unwrap(),
        );
        plan.state = Precondition::Fill;
        let mut run = plan.prepare().unwrap().start().unwrap();
        while run.step(100_000) {}
        let held = run.ftl().host_memory();
        let result = run.finish();
        let owners = &result.machine.host.as_ref().unwrap().memory_by_owner;
        let end = |name: &str| owners.iter().find(|o| o.name == name).map_or(0, |o| o.end_bytes);
        assert!(held.nodes > 0 && held.nodes.is_multiple_of(4096), "{held:?}");
        assert_eq!(end("map_nodes"), held.nodes, "{word}");
        assert_eq!(end("write_buffer"), held.buffer, "{word}");
        assert_eq!(end("ftl_tables"), held.tables, "{word}");
        let parts = owners.iter().filter(|o| o.name != "all").map(|o| o.end_bytes);
        assert_eq!(end("all"), parts.sum::<u64>(), "{word}");
    }
}

const MIXED: &str = "[a]\nioengine=libaio\nrw=randrw\nbsrange=512-32k\nblockalign=512\niodepth=16\n\
                     number_ios=6000\nnorandommap\n";

fn link(o: &Outcome, class: &str) -> u64 {
    o.result.machine.totals.link_bytes.iter().find(|(n, _)| n == class).map_or(0, |(_, n)| *n)
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
        assert!(
            counter(&o, "ftl.gc_sectors") > 10_000 && o.result.machine.totals.integrity.wrong == 0
        );
        let sent: u64 = o.result.machine.totals.link_bytes.iter().map(|(_, n)| n).sum();
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
        (lat, m.totals.firmware.iter().sum::<f64>() * m.simulated_ns as f64)
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

/// Lines of 5 MiB, of which several are collected in a short run.
const SHORT: &str = "nand.pages_per_block=32";

/// The collector alone on the host: orders and answers are all that crosses beside users' data, its memory is a
/// count of each segment, its thread pays for looking at them, and the drive moves what one of its own
/// would.
#[test]
fn a_collector_on_the_host_orders_what_the_drive_moves() {
    let [gc, none] = ["gc", "none"].map(|word| {
        let o = run(MIXED, Age::Steady, &[&format!("ftl.on_host={word}"), SHORT]);
        assert!(
            counter(&o, "ftl.gc_sectors") > 10_000 && o.result.machine.totals.integrity.wrong == 0
        );
        o
    });
    let of = |name: &str| counter(&gc, &format!("collector.{name}"));
    let answers = of("orders");
    let victims = of("ordered_victims");
    assert!(answers > 50 && victims > 2, "{answers} answers, {victims} victims");
    assert_eq!(counter(&none, "collector.orders"), 0);
    // 20 bytes an answer, and where a victim is chosen 4 of each of 32 segments.
    let (bytes, counts) = (link(&gc, "collector"), 4 * 32);
    assert_eq!(gc.result.machine.totals.link_bytes.len(), 1);
    assert_eq!((bytes - 20 * answers) % counts, 0, "{bytes} bytes");
    let looked = (bytes - 20 * answers) / counts;
    // One that the drive began is ordered on.
    let chosen = looked + of("floor_victims");
    assert!(chosen >= victims && looked < answers / 2, "{looked} of {answers}, {victims} victims");
    let crossed =
        |o: &Outcome| counter(o, "device.bytes_read") + counter(o, "device.bytes_written");
    // The job is the same, but for what is under way at the end.
    let more = crossed(&gc).abs_diff(crossed(&none) + bytes);
    assert!(more < 32 * 32_768, "{more} bytes that nobody accounts for");
    assert_eq!(memory(&gc, "ftl_tables"), 20 + counts);
    assert_eq!(memory(&gc, "all"), memory(&none, "all") + 20 + counts);
    let cpu = |o: &Outcome, owner: &str| {
        let owners = &o.result.machine.host.as_ref().unwrap().cpu_by_owner;
        owners.iter().find(|o| o.name == owner).map_or(0, |o| o.ns)
    };
    // A command is 1 us, a count 2 ns; the order at the drive is paid for as well.
    let most = (answers + 2) * 1000 + (looked + 1) * 32 * 2;
    let paid = cpu(&gc, "ftl_collector");
    assert!((answers * 1000..=most).contains(&paid), "{paid} ns of {most}");
    assert_eq!([cpu(&gc, "ftl_map"), cpu(&none, "ftl_collector")], [0, 0]);
    let factor = |o: &Outcome| o.result.machine.totals.write_amplification.factor.unwrap();
    assert!((factor(&gc) / factor(&none) - 1.0).abs() < 0.1, "{} {}", factor(&gc), factor(&none));
    let floor = of("floor_sectors");
    assert!(floor * 10 < counter(&gc, "ftl.gc_sectors"), "{floor} sectors without an order");
}

/// A collector that hears from the drive too seldom: the drive does not run dry, and the result says what it did
/// by itself.
#[test]
fn a_late_collector_is_told_of_and_starves_nobody() {
    let job =
        "[a]\nioengine=libaio\nrw=randwrite\nbs=4k\niodepth=32\nnumber_ios=6000\nnorandommap\n";
    let o = run(job, Age::Steady, &["ftl.on_host=gc", "ftl.fssd.report_units=4000", SHORT]);
    let floor = counter(&o, "collector.floor_sectors");
    assert!(floor > 1000, "{floor} sectors");
    assert_eq!(counter(&o, "ftl.writes_refused"), 0);
    assert!(
        o.result.machine.totals.integrity.wrong == 0
            && o.result.threads[0].dirs[1].total_ios == 6000
    );
    let told = format!("moved {floor} sectors without one");
    assert!(o.result.notes.iter().any(|note| note.contains(&told)), "{:?}", o.result.notes);
}

/// Little's law with the collector on the host: as many are in flight as the job has out.
#[test]
fn a_collector_on_the_host_leaves_littles_law() {
    for depth in [1, 32] {
        let job = format!("{WRITES}iodepth={depth}\n");
        let o = run(&job, Age::Steady, &["ftl.on_host=gc", SHORT]);
        let dir = &o.result.threads[0].dirs[1];
        let span = o.result.machine.simulated_ns as f64;
        let flight = dir.lat.mean() * dir.total_ios as f64 / span;
        assert!((0.6..=1.001).contains(&(flight / f64::from(depth))), "{depth}: {flight:.2}");
    }
}

/// Counts are asked for where one more victim can begin, also of members of an array that are held while others collect.
#[test]
fn a_collector_on_the_host_asks_for_no_counts_in_vain() {
    let job =
        "[a]\nioengine=libaio\nrw=randwrite\nbs=4k\niodepth=32\nnumber_ios=20000\nnorandommap\n";
    for drives in [1, 3] {
        let case = Case::new("fssd-small", job).age(Age::Steady).set("ftl.on_host=gc");
        let case = [SHORT, "nand.channels=4", "nand.luns_per_channel=4", "nand.blocks=128"]
            .into_iter()
            .fold(case, Case::set)
            .set("ftl.fssd.append_points=4")
            .set("ftl.fssd.gc_units=16");
        let case = match drives {
            1 => case,
            n => case.array(Level::Raid0, n).set("stack.md.gc=token"),
        };
        let o = case.run().unwrap();
        let [orders, victims] =
            ["orders", "ordered_victims"].map(|name| counter(&o, &format!("collector.{name}")));
        // 20 bytes an answer, and 4 of each of 512 segments where it has counts.
        let counts = (link(&o, "collector") - 20 * orders) / (4 * 512);
        println!(
            "{drives} drives: {counts} of {orders} answers had counts, {victims} victims ended"
        );
        // Before the first each drive is asked, and a few victims of each are under way at the end.
        let under_way = 5 * u64::from(drives);
        assert!(
            victims > 50 && counts <= victims + under_way,
            "{counts} counts, {victims} victims"
        );
    }
}

/// A scheduler on the host: its table is in host memory, looking it up costs the caller, nothing more crosses the
/// link, and no request waits longer than `hold`.
#[test]
fn a_scheduler_on_the_host_holds_requests_for_a_bounded_time() {
    let job = "[a]\nioengine=libaio\nrw=randrw\nbs=4k\niodepth=32\nnumber_ios=6000\nnorandommap\n\
               size=4m\nio_size=64m\nrandrepeat=0\n";
    let [with, without] = ["schedule", "none"].map(|word| {
        let o =
            run(job, Age::Steady, &[&format!("ftl.on_host={word}"), "ftl.fssd.hold=1ms", SHORT]);
        assert_eq!(o.result.threads[0].dirs.iter().map(|d| d.total_ios).sum::<u64>(), 6000);
        assert_eq!(o.result.machine.totals.integrity.wrong, 0);
        o
    });
    let of = |name: &str| counter(&with, &format!("scheduler.{name}"));
    assert_eq!(counter(&without, "scheduler.reads"), 0);
    let (reads, known, held) = (of("reads"), of("known"), of("held"));
    assert!(reads > 2500 && known > reads / 2 && held > 100, "{reads} {known} {held}");
    let most = of("most_held_ns");
    assert!(most > 0 && most <= 1_000_000, "{most} ns");
    assert_eq!(memory(&with, "ftl_tables"), 8 * 65_536 + 16 * 10);
    let cpu = |o: &Outcome| {
        let owners = &o.result.machine.host.as_ref().unwrap().cpu_by_owner;
        owners.iter().find(|o| o.name == "ftl").map_or(0, |o| o.ns)
    };
    // Two of 60 ns for each I/O: looked up, and noted.
    assert_eq!((cpu(&with), cpu(&without)), (6000 * 120, 0));
    let crossed =
        |o: &Outcome| counter(o, "device.bytes_read") + counter(o, "device.bytes_written");
    assert!(crossed(&with).abs_diff(crossed(&without)) <= 32 * 4096);
    // Little's law, with what is held.
    let span = with.result.machine.simulated_ns as f64;
    let spent: f64 =
        with.result.threads[0].dirs.iter().map(|d| d.lat.mean() * d.total_ios as f64).sum();
    assert!((20.0..=32.1).contains(&(spent / span)), "{:.2}", spent / span);
}

/// A drive that has few commands at a time: sent by LUN, more of its LUNs have work.
#[test]
fn by_luns_few_commands_keep_more_luns_at_work() {
    let job = "[a]\nioengine=libaio\nrw=randread\nbs=4k\niodepth=32\nnumber_ios=8000\nnorandommap\n\
               size=2m\nio_size=64m\nrandrepeat=0\n";
    let rate = |word: &str| {
        let word = format!("ftl.on_host={word}");
        // Six commands for ten LUNs, whose reads take longer than the way of their data.
        let few = ["stack.queue_depth=7", "stack.queues=1", "nand.t_read=400us"];
        let sets = [&word, few[0], few[1], few[2], "ftl.fssd.lun_reads=1", SHORT];
        let o = run(job, Age::Filled, &sets);
        o.result.threads[0].dirs[0].total_ios as f64 / o.result.machine.simulated_ns as f64
    };
    let (by_lun, as_they_come) = (rate("schedule"), rate("none"));
    println!("{by_lun} and {as_they_come} I/Os a ns");
    assert!(by_lun > as_they_come * 1.05, "{by_lun} and {as_they_come} I/Os a ns");
}

/// A queue without a tag does not ask the scheduler, whose timer goes off all the same.
#[test]
fn several_queues_with_few_tags_come_to_an_end() {
    let job = "[a]\nioengine=libaio\nrw=randrw\nbs=4k\niodepth=16\nnumber_ios=3000\nnorandommap\n\
               numjobs=4\nsize=2m\nio_size=64m\nrandrepeat=0\n";
    for queues in [2, 3] {
        let queues = format!("stack.queues={queues}");
        let sets = ["ftl.on_host=schedule", &queues, "stack.queue_depth=3", "stack.cores=4", SHORT];
        let o = run(job, Age::Filled, &sets);
        let done: u64 = o.result.threads.iter().flat_map(|t| &t.dirs).map(|d| d.total_ios).sum();
        assert_eq!(done, 4 * 3000, "{queues}");
        // No event a held request and look: some tens an I/O.
        assert!(o.result.machine.events < 100 * done, "{} events", o.result.machine.events);
    }
}

#[test]
fn a_collector_on_the_host_needs_a_tag_beside_that_of_others() {
    let job = "[a]\nrw=randwrite\nbs=4k\nnumber_ios=10\n";
    let case = Case::new("fssd-small", job).set("ftl.on_host=gc").set("stack.queue_depth=2");
    let refused = case.run().map(|_| ()).expect_err("two entries are one tag");
    assert!(refused.to_string().contains("at least 3 for a collector on the host"), "{refused}");
}

/// Every word gives back what was written, under collection and with trims.
#[test]
fn all_words_read_what_was_written() {
    let job = "[a]\nioengine=libaio\nrw=randrw\nbsrange=512-64k\nblockalign=512\niodepth=16\n\
               number_ios=3000\nnorandommap\nnumjobs=2\n[t]\nrw=randtrim\nbs=64k\nnumber_ios=100\n";
    for word in ["all", "map", "gc", "schedule", "none"] {
        for volatile in [false, true] {
            let sets = [format!("ftl.on_host={word}"), format!("ftl.fssd.volatile={volatile}")];
            let o = run(job, Age::Filled, &[&sets[0], &sets[1]]);
            let m = &o.result.machine;
            assert!(
                m.totals.integrity.checked > 1000 && m.totals.integrity.wrong == 0,
                "{word}, {volatile}"
            );
        }
    }
}

/// A large drive that was filled is kept, and one that is loaded is as it was filled; a small one is filled sooner.
#[test]
fn a_large_drive_that_was_filled_can_be_kept() {
    let case = Case::new("fssd-430g", WRITES)
        .age(Age::Filled)
        .set("nand.blocks=90")
        .set("ftl.over_provisioning=20");
    let config = case.config().unwrap();
    let loaded = wordline_check::run_saved(&case, &config).unwrap().expect("it is kept");
    let filled = case.run().unwrap();
    assert!(loaded.events == filled.events && loaded.text() == filled.text());
    let small = Case::new("fssd-small", WRITES).age(Age::Filled);
    assert!(wordline_check::run_saved(&small, &small.config().unwrap()).unwrap().is_none());
}

/// Where reads keep flash busy the collector is slow. Users do not wait for whole victims then.
#[test]
fn writers_beside_readers_do_not_stand_still() {
    let job = "[global]\nioengine=libaio\nbs=4k\nnorandommap\ntime_based\nruntime=3\n\
               [writer]\nrw=randwrite\niodepth=64\n[reader]\nrw=randread\niodepth=4\n";
    let o = Case::new("fssd-small", job).age(Age::Steady).run().unwrap();
    let [writer, reader] = &o.result.threads[..] else { panic!("two threads") };
    let (writes, reads) = (&writer.dirs[1], &reader.dirs[0]);
    assert!(reads.total_ios > 10_000 && counter(&o, "ftl.gc_sectors") > 10_000);
    // The collector empties a victim of 40 MiB in half a second.
    let longest = writes.lat.max() as f64 / writes.lat.mean();
    assert!(longest < 4.0, "one waited {longest:.1} times as long as they do in the mean");
}

/// The collector empties a victim of each group of channels at a time, so that a drive of several groups has all of its
/// channels for that, as one with a single group has. Where there is room for one victim, its channels bound the rate.
/// No write waits for a whole victim, beside readers or alone.
#[test]
fn groups_of_channels_are_collected_at_once() {
    let alone = "[w]\nioengine=libaio\nrw=randwrite\nbs=4k\niodepth=256\nnorandommap\ntime_based\nruntime=2\n";
    let reader =
        "[r]\nioengine=libaio\nrw=randread\nbs=4k\niodepth=4\nnorandommap\ntime_based\nruntime=2\n";
    let beside = format!("{alone}{reader}");
    let drive = [SHORT, "nand.channels=4", "nand.luns_per_channel=4", "nand.blocks=128"];
    let run = |job: &str, points: u32, start: &str| {
        let [points, start] =
            [format!("append_points={points}"), start.into()].map(|set| format!("ftl.fssd.{set}"));
        let case = Case::new("fssd-small", job).age(Age::Steady).set("ftl.fssd.gc_units=16");
        let case = drive.into_iter().fold(case, Case::set).set(&points).set(&start);
        let derived = derive(&case.config().unwrap());
        let o = case.run().unwrap();
        let writes = &o.result.threads[0].dirs[1];
        let (mean, longest) = (writes.lat.mean(), writes.lat.max() as f64);
        let rate = writes.total_ios as f64 * 1e9 / o.result.machine.simulated_ns as f64;
        let wa = o.result.machine.totals.write_amplification.factor.unwrap();
        let (form, most) = (derived.uniform_wa.unwrap(), derived.random_write[1].iops());
        let bound = derived.random_write[1].least().name;
        println!(
            "{points}, {start}: {rate:.0} of {most:.0} a second by {bound}, longest {longest:.0} of {mean:.0} ns, \
             amplified {wa:.3} of {form:.3}"
        );
        assert!((wa / form - 1.0).abs() < 0.08, "{points}: {wa:.3} of {form:.3}");
        assert!(
            longest < 4.0 * mean,
            "{points}: one waited {longest:.0} ns, in the mean {mean:.0}"
        );
        (rate, most, bound)
    };
    for job in [alone, &beside] {
        let [(one, ..), (two, ..), (four, most, _)] =
            [1, 2, 4].map(|points| run(job, points, "gc_start=none"));
        assert!(
            two > 0.85 * one && four > 0.85 * one,
            "{two:.0} and {four:.0} of {one:.0} a second"
        );
        assert!(job != alone || (0.85..1.05).contains(&(four / most)), "{four:.0} of {most:.0}");
    }
    // As near the reserve as writes do not wait for whole victims.
    let (rate, most, bound) = run(alone, 4, "gc_start=13");
    assert_eq!(bound, "groups with victims");
    assert!((0.85..1.05).contains(&(rate / most)), "{rate:.0} of {most:.0}");
}

/// Ageing leaves the collector where a run finds it: not ahead of users by a victim of each group, which a run would
/// use up first and be told to rise.
#[test]
fn a_run_of_several_groups_begins_as_its_ageing_ended() {
    let job =
        "[w]\nioengine=libaio\nrw=randwrite\nbs=4k\niodepth=256\nnorandommap\nnumber_ios=25000\n";
    for points in [4, 2] {
        for seed in 1..=3 {
            let case = Case { seed, ..Case::new("fssd-small", job) }.age(Age::Steady);
            let case = case.set("ftl.fssd.gc_units=16").set("nand.pages_per_block=32");
            let case = case.set("nand.channels=4").set("nand.luns_per_channel=4");
            let case = case.set("nand.blocks=128").set(&format!("ftl.fssd.append_points={points}"));
            let result = case.run().unwrap().result;
            let thirds = result.machine.totals.write_amplification.by_third.unwrap();
            let rises = |w: &&String| w.contains("write amplification rose");
            println!("{points} groups, seed {seed}: {thirds:.2?}");
            assert_eq!(result.warnings.iter().find(rises), None, "{points}, {seed}: {thirds:.2?}");
        }
    }
}

/// A write that waits until the collector has made space is told so, whichever FTL it is of, and one that waits for room
/// in the buffer is not.
#[test]
fn writes_that_the_collector_holds_up_are_told_so() {
    let job =
        "[w]\nioengine=libaio\nrw=randwrite\nbs=4k\niodepth=32\nnorandommap\nnumber_ios=6000\n";
    let share = |device: &str, age: Age, sets: &[&str]| {
        let mut case = Case::new(device, job).age(age);
        case.options.slowest = 50;
        let result = sets.iter().fold(case, |case, set| case.set(set)).run().unwrap().result;
        let (mut held, mut buffer, mut all) = (0, 0, 0);
        for (step, took) in result.slowest.iter().flat_map(|life| life.times()) {
            all += took.0;
            held += if step.why == Why::Collector { took.0 } else { 0 };
            buffer += if step.why == Why::WriteBuffer { took.0 } else { 0 };
        }
        println!(
            "{device}, {age:?}: {held} by the collector and {buffer} in the buffer of {all} ns"
        );
        [held, buffer].map(|ns| ns as f64 / all as f64)
    };
    let cut = ["nand.blocks=64", "ftl.fssd.append_points=1"];
    let firmware = ["device.cache=none", "nand.pages_per_block=64"];
    for (device, sets) in [
        ("fssd-small", &cut[..]),
        ("fssd-small", &["ftl.on_host=none"]),
        ("fssd-small", &["ftl.fssd.volatile=true"]),
        ("intel-750-small", &firmware),
        ("cnex-small", &["nand.pages_per_block=64"]),
    ] {
        let [held, _] = share(device, Age::Steady, sets);
        assert!(held > 0.8, "{device}, {sets:?}: {held:.2} of what the slowest took");
        let [held, buffer] = share(device, Age::Fresh, sets);
        let waits = device == "intel-750-small" || buffer > 0.5;
        assert!(held == 0.0 && waits, "{device}, {sets:?}: {held:.2} and {buffer:.2}");
    }
}

/// A collector that is told to begin so late that it has a victim to empty before users can go on: the result says so.
#[test]
fn a_collector_that_begins_too_late_is_told_of() {
    let job =
        "[a]\nioengine=libaio\nrw=randwrite\nbs=4k\niodepth=32\nnumber_ios=9000\nnorandommap\n";
    let told = |start: u32| {
        let start = format!("ftl.fssd.gc_start={start}");
        let o = run(job, Age::Steady, &[&start, SHORT]);
        assert!(counter(&o, "ftl.lines_freed") > 0);
        let words = "segments that are free when it begins, the collector leaves so little room";
        o.result.notes.iter().find(|note| note.contains(words)).cloned()
    };
    let note = told(5).expect("two segments are too few");
    assert!(
        note.contains("with 5 segments")
            && note.contains("from 7 on")
            && note.contains("ftl.fssd.gc_start"),
        "{note}"
    );
    assert_eq!(told(7), None);
}

/// A drive whose map may not grow any more is not full: fill_device does not end there as if it were.
#[test]
fn a_job_that_fills_the_drive_fails_where_the_map_has_no_memory() {
    let of = |job: &str, limit: &str| {
        let o = run(job, Age::Fresh, &[&format!("ftl.fssd.host_memory={limit}")]);
        (o.result.threads[0].error, o.result.verdict().map_err(|e| e.to_string()))
    };
    let job = "[a]\nioengine=libaio\nrw=randwrite\nbs=512\niodepth=16\nnorandommap\nfill_device=1\nsize=64m\n";
    let (error, verdict) = of(job, "1000000");
    let told = verdict.expect_err("the map passes the limit");
    assert!(error == 28 && told.contains("limit of the host's memory"), "{error}: {told}");
    let job = job.replace("size=64m", "number_ios=2000");
    assert_eq!(of(&job, "none"), (0, Ok(())));
}
