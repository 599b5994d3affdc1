//! Programs on the whole machine: reads are checked, operations are conserved, runs repeat, and jobs
//! beside them end with them.

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
    assert!(machine.integrity.on && machine.integrity.checked > 100);
    assert_eq!(machine.integrity.wrong, 0);
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
