//! Where the time of fsync and fdatasync went (docs/design/engine.md), on whole machines.

use wordline::Options;
use wordline_base::{Layer, Life, Why};
use wordline_check::{Age, Case, Outcome};
use wordline_sim::LayerTable;

const JOB: &str =
    "[a]\nrw=randwrite\nbs=4k\nsize=16m\nnumber_ios=400\nfsync=4\nfallocate=none\ndirectory=/mnt\n";
/// Neither the drive's cache nor its FTL's buffer survives.
const VOLATILE: [&str; 2] = ["cache.capacitor=false", "ftl.firmware.protected=false"];
/// A program of the drive's flash, ns.
const PROGRAM: u64 = 100_000;

fn run(what: Case) -> Outcome {
    let case = Case { options: Options { slowest: 4, ..Default::default() }, ..what };
    case.age(Age::Filled).run().unwrap()
}

fn volatile(case: Case) -> Case {
    VOLATILE.iter().fold(case, |case, set| case.set(set))
}

fn table<'a>(o: &'a Outcome, ddir: &str) -> &'a LayerTable {
    let tables = &o.result.machine.layers;
    tables.iter().find(|t| t.ddir == ddir).unwrap_or_else(|| panic!("no {ddir}s in {tables:?}"))
}

fn spent(life: &Life, layer: Layer, why: Why) -> u64 {
    let of = life.times().filter(|(s, _)| (s.layer, s.why) == (layer, why));
    of.map(|(_, took)| took.0).sum()
}

fn syncs(o: &Outcome) -> Vec<&Life> {
    o.result.slowest.iter().filter(|life| life.ddir.is_sync()).collect()
}

/// The table has as many syncs as fio counts, their mean, and sums.
#[track_caller]
fn sound(o: &Outcome, n: u64) {
    let told = &o.result.threads[0].sync;
    let of = table(o, "sync");
    assert_eq!((of.count, told.len()), (n, n));
    assert!(
        (of.mean_ns - told.mean()).abs() < 1e-6 * told.mean(),
        "{} {}",
        of.mean_ns,
        told.mean()
    );
    assert!((of.mean_by_layer_ns.iter().sum::<f64>() - of.mean_ns).abs() < 1e-6 * of.mean_ns);
    for life in syncs(o) {
        assert_eq!(life.spent().iter().sum::<u64>(), life.latency().0);
        assert_eq!(life.dropped, 0, "all steps are there");
    }
}

#[test]
fn syncs_are_told_by_layer_whatever_is_below() {
    let on = |case: Case| sound(&run(case), 99);
    on(Case::new("z-ssd-small", JOB));
    on(Case::new("z-ssd-small", JOB).stack("spdk"));
    on(Case::new("z-ssd-small", JOB).stack("nbd-kernel"));
    on(Case::new("cnex-small", JOB));
    for fs in ["ext4", "xfs", "bdev"] {
        on(Case::new("z-ssd-small", JOB).fs(fs));
        on(volatile(Case::new("z-ssd-small", JOB)).fs(fs));
    }
}

/// fio's io_uring has its syncs in the ring (fio_ioring_prep), whoever submits, and its libaio makes a call of each. A
/// ring that is polled takes none.
#[test]
fn writes_do_not_wait_for_the_syncs_of_a_ring() {
    let took = |engine: &str| {
        let job = format!("{JOB}iodepth=32\nioengine={engine}\n");
        let o = run(volatile(Case::new("z-ssd-small", &job)));
        sound(&o, 99);
        (o.result.machine.simulated_ns, o.result.threads[0].sync.mean())
    };
    let (call, _) = took("libaio");
    assert!(call > 99 * PROGRAM, "{call}");
    for engine in ["io_uring", "io_uring\nsqthread_poll=1"] {
        let (ring, sync) = took(engine);
        assert!(ring < call / 2 && sync > PROGRAM as f64, "{engine}: {ring} of {call}, {sync}");
    }
    let (polled, _) = took("io_uring\nhipri=1");
    assert!(polled > 99 * PROGRAM, "{polled}");
}

#[test]
fn a_flush_had_the_steps_of_the_program_that_ended_last() {
    let o = run(volatile(Case::new("z-ssd-small", JOB)));
    sound(&o, 99);
    for life in syncs(&o) {
        assert!(spent(life, Layer::Nand, Why::Program) >= PROGRAM * 9 / 10, "{:?}", life.steps());
    }
    // A drive that keeps what it has programs nothing for it.
    let o = run(Case::new("z-ssd-small", JOB));
    assert!(syncs(&o).iter().all(|life| life.spent()[Layer::Nand as usize] == 0));
}

/// A commit of ext4 is a flush and a commit block with FUA, XFS' log buffer has both as well: two programs that follow
/// each other, whoever sent them.
#[test]
fn a_sync_of_a_file_had_the_steps_of_the_commit_that_it_waited_for() {
    for fs in ["ext4", "xfs"] {
        let o = run(volatile(Case::new("z-ssd-small", JOB)).fs(fs));
        sound(&o, 99);
        for life in syncs(&o) {
            let programs = spent(life, Layer::Nand, Why::Program);
            assert!(programs >= 2 * PROGRAM * 9 / 10, "{fs}: {:?}", life.steps());
            // What is left of the wait is the work of the threads that commit.
            let left = spent(life, Layer::Syscall, Why::Journal);
            assert!(left < life.latency().0 / 4, "{fs}: {left} of {}", life.latency().0);
        }
    }
}

/// pblk has room in its buffer: what a commit waits for are flushes and a write that must be on flash.
#[test]
fn a_commit_above_pblk_waits_for_its_flush_and_not_for_its_buffer() {
    for fs in ["ext4", "xfs"] {
        let o = run(Case::new("cnex-small", JOB).fs(fs));
        sound(&o, 99);
        for life in syncs(&o) {
            assert_eq!(spent(life, Layer::Ftl, Why::WriteBuffer), 0, "{fs}: {:?}", life.steps());
            let flush = spent(life, Layer::Ftl, Why::Flush);
            assert!(flush > life.latency().0 / 2, "{fs}: {flush} of {}", life.latency().0);
        }
    }
}

/// With several callers most of them wait for a commit that another asked for.
#[test]
fn callers_that_share_a_commit_all_know_what_it_waited_for() {
    let job = JOB.replace("number_ios=400", "number_ios=200\nnumjobs=8");
    for fs in ["ext4", "xfs"] {
        let o = run(volatile(Case::new("z-ssd-small", &job)).fs(fs));
        let of = table(&o, "sync");
        assert_eq!(of.count, 8 * 49, "{fs}");
        let nand = of.mean_by_layer_ns[Layer::Nand as usize];
        assert!(nand > 0.4 * of.mean_ns, "{fs}: {nand} of {}", of.mean_ns);
    }
}

/// fio counts it in the job's time and not among the syncs.
#[test]
fn the_sync_at_the_end_of_a_job_has_no_row() {
    let o = run(Case::new("z-ssd-small", "[a]\nrw=write\nsize=1m\nend_fsync=1\n"));
    assert!(o.result.machine.layers.iter().all(|t| t.ddir != "sync"));
}
