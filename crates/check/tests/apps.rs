//! Programs on the whole machine: reads are checked, operations are conserved, runs repeat, and jobs
//! beside them end with them.

use wordline_app::Part;
use wordline_base::Workload;
use wordline_check::scenarios::servers;
use wordline_check::{Age, Case, Outcome};

/// The presets' programs at a size that the small drives hold.
pub fn small<'a>(device: &'a str, app: &'a str) -> Case<'a> {
    let case = Case::new(device, "").app(app).age(Age::Filled);
    let case = if app.starts_with("rocksdb") {
        case.set("app.lsm.keys=200000")
            .set("app.lsm.write_buffer_size=1000000")
            .set("app.lsm.max_bytes_for_level_base=4000000")
            .set("app.lsm.target_file_size_base=1000000")
            .set("app.lsm.readers=4")
            .set("app.lsm.page_cache=8388608")
            .set("app.ramp_time=20ms")
    } else {
        case.set("app.btree.records=60000")
            .set("app.btree.cache=16777216")
            .set("app.btree.page_cache=8388608")
            .set("app.btree.clients=6")
            .set("app.btree.checkpoint=100ms")
            .set("app.btree.journal_commit=10ms")
            .set("app.btree.journal_bytes=4194304")
            .set("app.operations=0")
    };
    case.set("app.runtime=400ms")
}

fn run(case: &Case) -> Outcome {
    let outcome = case.run().unwrap_or_else(|e| panic!("{}: {e}", case.device));
    let app = outcome.result.app.as_ref().expect("a program ran");
    assert_eq!(app.failure, None);
    let machine = &outcome.result.machine;
    assert_eq!(machine.generated, machine.served, "every I/O came back");
    assert!(machine.totals.integrity.on && machine.totals.integrity.checked > 100);
    assert_eq!(machine.totals.integrity.wrong, 0);
    assert!(app.finished > 500 && app.begun >= app.finished, "{}", app.finished);
    outcome
}

#[test]
fn programs_run_on_every_kind_of_drive_and_host() {
    for device in ["cnex-small", "intel-750-small"] {
        for app in ["rocksdb-readwhilewriting", "rocksdb-readwhilemerging", "mongodb-ycsb-a"] {
            let outcome = run(&small(device, app));
            let same = run(&small(device, app));
            assert_eq!(outcome.events, same.events, "{device} {app}: not the same twice");
            assert_eq!(outcome.text(), same.text());
        }
        // Without a kernel, threads are closed loops of their own.
        if device != "cnex-small" {
            run(&small(device, "mongodb-ycsb-f").stack("none"));
            run(&small(device, "rocksdb-fillrandom").stack("none").set("app.lsm.readers=0"));
        }
    }
}

/// Its files end somewhere in a stripe.
#[test]
fn a_program_runs_on_strides() {
    for set in ["ftl.parities=1", "ftl.hot_cold=true", "ftl.throttle=gc"] {
        let case = small("cnex-small", "rocksdb-readwhilewriting");
        run(&case.set("ftl.stride=4").set("ftl.over_provisioning=30").set(set));
    }
}

#[test]
fn threads_compete_for_cores() {
    let rate = |cores: &str| {
        // A writer that is held back: one that is not slows down readers as it gets more cores.
        let case = small("z-ssd-small", "rocksdb-readwhilewriting")
            .set("app.lsm.readers=16")
            .set("app.lsm.write_rate=1000000");
        let outcome = run(&case.set(cores));
        let app = outcome.result.app.unwrap();
        app.rate(app.ops.iter().find(|op| op.name == "get").unwrap().latency.len())
    };
    let (one, eight) = (rate("stack.cores=1"), rate("stack.cores=8"));
    assert!(one * 1.5 < eight, "one core {one}, eight {eight}");
}

#[test]
fn jobs_beside_a_program_end_with_it() {
    const BESIDE: &str = "[w]\nrw=randwrite\nbs=4k\nrate_iops=2000\ntime_based\nruntime=1h\n\
                          offset=400m\nsize=64m\n";
    let mut case = small("cnex-small", "mongodb-ycsb-b");
    case.job = BESIDE;
    let outcome = run(&case);
    let writer = &outcome.result.threads[0];
    assert_eq!(writer.name, "w");
    let ios = writer.dirs[1].total_ios;
    assert!((700..900).contains(&ios), "{ios} in 0.4 s");
    let quiet = run(&small("cnex-small", "mongodb-ycsb-b"));
    assert!(quiet.result.app.unwrap().finished > outcome.result.app.unwrap().finished);
}

#[test]
fn by_count_exactly_so_many_operations_finish() {
    let case = small("cnex-small", "mongodb-ycsb-f").set("app.runtime=0s");
    let outcome = run(&case.set("app.operations=3000"));
    let app = outcome.result.app.unwrap();
    assert_eq!((app.begun, app.finished, app.counted), (3000, 3000, 3000));
    // A read-modify-write is reported as a read, an update and itself.
    let count = |name| app.ops.iter().find(|op| op.name == name).unwrap().latency.len();
    assert_eq!(count("update"), count("read-modify-write"));
    assert_eq!(count("read"), 3000);
}

/// Servers, rounds and sorts: the class of their I/Os, the sum of every turnaround, and the same twice.
#[test]
fn servers_run_on_every_kind_of_drive_and_host() {
    for stack in ["linux-libaio", "poll", "linux-io_uring", "spdk", "none", "nbd-kernel"] {
        for case in servers() {
            let case = case.stack(stack);
            let name = case.app.unwrap();
            let outcome = case.run().unwrap_or_else(|e| panic!("{stack} {name}: {e}"));
            assert_eq!(outcome.text(), case.run().unwrap().text(), "{stack} {name}");
            let result = &outcome.result;
            let (app, machine) = (result.app.as_ref().unwrap(), &result.machine);
            assert_eq!((machine.generated, machine.totals.integrity.wrong), (machine.served, 0));
            assert!(app.finished > 0 && app.begun == app.finished, "{stack} {name}");
            let workload = match name {
                "pagerank" | "sort" => Workload::Throughput,
                _ => Workload::Latency,
            };
            assert!(result.threads.iter().all(|t| t.class.workload() == workload));
            let commands = machine.drive_classes.iter().filter(|c| c.class.workload() != workload);
            assert_eq!(commands.map(|c| c.reads + c.writes).sum::<u64>(), 0, "{stack} {name}");
            for t in &result.turnarounds {
                let sum: f64 = t.mean_ns.iter().sum();
                assert!((sum / t.total.mean() - 1.0).abs() < 1e-9, "{stack} {name}");
                let of = |part: Part| t.mean_ns[part as usize];
                let (served, name) =
                    (stack == "nbd-kernel", format!("{stack} {name} {}", t.operation));
                assert_eq!(of(Part::Network) > 0.0, served, "{name}");
                // A server's page cache may have all of it.
                assert!(of(Part::Drive) > 0.0 || served, "{name}");
                assert!(of(Part::Cpu) > 0.0 || stack == "none", "{name}");
            }
        }
    }
}

/// What the drive and the kernel have of a request is what the I/Os themselves took, in the mean.
#[test]
fn parts_of_turnaround_are_those_of_the_ios() {
    let case = servers().into_iter().nth(1).unwrap();
    let outcome = case.set("app.kv.updates=0.0").set("app.ramp_time=0s").run().unwrap();
    let (t, table) = (&outcome.result.turnarounds[0], &outcome.result.machine.layers[0]);
    assert_eq!((t.total.len(), t.operation, table.ddir.as_str()), (table.count, "read", "read"));
    for part in [Part::FileSystem, Part::BlkMq, Part::QueueWait, Part::Drive, Part::Completion] {
        let layers = wordline_base::Layer::ALL.iter().zip(&table.mean_by_layer_ns);
        let of_ios: f64 = layers.filter(|(l, _)| Part::of(**l) == part).map(|(_, ns)| ns).sum();
        let ours = t.mean_ns[part as usize];
        assert!((ours - of_ios).abs() < 1e-6, "{part:?}: {ours} {of_ios}");
    }
    assert!(t.mean_ns[Part::Drive as usize] > 3_000.0, "{:?}", t.mean_ns);
}

#[test]
fn a_server_on_fewer_cores_waits_for_them() {
    let wait = |cores: &str| {
        let case = servers().swap_remove(0).set("app.web.load=30000.0").set("app.web.threads=64");
        let outcome = case.set(&format!("app.cores={cores}")).run().unwrap();
        let parts = outcome.result.turnarounds[0].mean_ns;
        parts[Part::Thread as usize] + parts[Part::Wait as usize]
    };
    let (two, all) = (wait("[0, 1]"), wait("[]"));
    assert!(two > 10.0 * all, "30,000 requests of 125 us on two cores {two} ns, on all {all} ns");
}

fn beside(case: Case, app: &'static str, options: &'static str) -> Outcome {
    let outcome = Case { with: vec![(app, options)], ..case }.run().unwrap();
    let machine = &outcome.result.machine;
    assert_eq!((machine.generated, machine.totals.integrity.wrong), (machine.served, 0));
    outcome
}

/// A program beside another one ends with it, or earlier if it says so, and slows it down.
#[test]
fn programs_beside_each_other_end_with_the_first() {
    let case = || servers().swap_remove(1);
    let alone = case().run().unwrap();
    let both = beside(case(), "sort", "threads=4,depth=16");
    let with = &both.result.with[0];
    // Each of its threads is cut off in a sort.
    assert_eq!((with.name.as_str(), with.begun - with.finished), ("sort", 4));
    // The first program's last operation, a ramp of 1 ms before its first, and what was in flight.
    let after = |o: &Outcome| {
        let last = o.result.app.as_ref().unwrap().runtime.0 + 1_000_000;
        (o.result.machine.simulated_ns - last) / 1_000_000
    };
    assert_eq!(after(&alone), 0);
    assert!(after(&both) < 20, "goes on for {} ms", after(&both));
    // The same requests: arrivals are an open loop, and of draws of the program's own.
    let finished = |o: &Outcome| o.result.app.as_ref().unwrap().finished;
    assert_eq!(finished(&alone), finished(&both));
    let mean = |o: &Outcome| o.result.turnarounds[0].total.mean();
    assert!(mean(&both) > 1.2 * mean(&alone), "{} {}", mean(&both), mean(&alone));
    let few = beside(case(), "kv-read", "operations=50,records=100");
    assert_eq!((few.result.with[0].begun, few.result.with[0].finished), (50, 50));
    assert_eq!(after(&few), 0);
    // Two of a kind are not in step.
    let twins = beside(case(), "kv-update", "records=5000,threads=4,ramp_time=0s");
    let with = &twins.result.with[0];
    assert_ne!(with.counters, twins.result.app.as_ref().unwrap().counters);
    assert_eq!(twins.result.turnarounds.iter().filter(|t| t.program == "kv-update#2").count(), 3);
}

/// Each in a part of its own: what one writes the other does not, on each half.
#[test]
fn programs_beside_each_other_have_files_of_their_own() {
    let case = servers().swap_remove(1);
    let config = Case { with: vec![("sort", "")], ..case.clone() }.config().unwrap();
    assert_eq!(config.programs().map(|p| p.0).collect::<Vec<_>>(), ["kv-update", "sort"]);
    let case = case.set("app.kv.records=0").set("app.kv.updates=100.0");
    let both = beside(case, "kv-update", "updates=100.0,records=0");
    let counter = |r: &wordline_app::Report, name: &str| {
        r.counters.iter().find(|(n, _)| *n == name).unwrap().1
    };
    let records = [&both.result.app.unwrap(), &both.result.with[0]].map(|r| counter(r, "records"));
    assert_eq!(records[0], records[1]);
}

/// Without a program of its own the run is the jobs': programs beside them end with the last one.
#[test]
fn programs_beside_jobs_end_with_them() {
    const JOBS: &str = "[a]\nrw=randread\nbs=4k\ntime_based\nruntime=5ms\nworkload_attr=latency\n\
                        [b]\nstonewall\nrw=randread\nbs=4k\ntime_based\nruntime=6ms\n";
    let case = Case::new("z-ssd-flashshare-small", JOBS).age(Age::Filled);
    let outcome = beside(case.set("nand.pages_per_block=8"), "pagerank", "threads=2");
    let ms = outcome.result.machine.simulated_ns / 1_000_000;
    assert!((11..15).contains(&ms), "{ms} ms");
    assert!(outcome.result.app.is_none() && outcome.result.with[0].name == "pagerank");
    let classes: Vec<Workload> =
        outcome.result.threads.iter().map(|t| t.class.workload()).collect();
    use Workload::{Latency, None, Throughput};
    assert_eq!(classes, [Latency, None, Throughput, Throughput]);
}
