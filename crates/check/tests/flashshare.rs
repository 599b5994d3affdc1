//! FlashShare from the task to the drive and back (Zhang et al., OSDI 2018).

use std::collections::BTreeMap;
use wordline_base::Workload;
use wordline_check::{Age, Case, Outcome};

const DEVICE: &str = "z-ssd-flashshare-small";

fn case<'a>(job: &'a str, sets: &[&str]) -> Case<'a> {
    let case = Case::new(DEVICE, job).stack("interrupt").age(Age::Filled);
    sets.iter().fold(case, |case, set| case.set(set))
}

fn counter(o: &Outcome, name: &str) -> u64 {
    o.result.machine.totals.counters.iter().find(|(n, _)| n == name).map_or(0, |(_, n)| *n)
}

/// Reads and writes at the drive by workload attribute.
fn at_drive(o: &Outcome) -> BTreeMap<Workload, (u64, u64)> {
    let mut sums: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    for row in &o.result.machine.drive_classes {
        let sum = sums.entry(row.class.workload()).or_default();
        *sum = (sum.0 + row.reads, sum.1 + row.writes);
    }
    sums
}

fn of(o: &Outcome, workload: Workload) -> (u64, u64) {
    at_drive(o).get(&workload).copied().unwrap_or_default()
}

/// Mean and largest latency of a job in nanoseconds.
fn latency(o: &Outcome, job: &str) -> (f64, u64) {
    let thread = o.result.threads.iter().find(|t| t.name == job).expect("a job of the run");
    let dirs = thread.dirs.iter().filter(|d| d.total_ios > 0);
    let all: Vec<_> = dirs.map(|d| (d.lat.mean(), d.lat.len(), d.lat.max())).collect();
    let n: u64 = all.iter().map(|a| a.1).sum();
    let sum: f64 = all.iter().map(|a| a.0 * a.1 as f64).sum();
    (sum / n as f64, all.iter().map(|a| a.2).max().unwrap_or(0))
}

const COLOCATED: &str = "
[global]
time_based
runtime=60ms
[lat]
ioengine=pvsync2
rw=randread
bs=4k
workload_attr=latency
[scan]
ioengine=libaio
iodepth=16
rw=read
bs=128k
workload_attr=throughput
[sort]
ioengine=libaio
iodepth=8
rw=randrw
bs=64k
workload_attr=throughput
";

/// Each system adds to the one before, and a latency-critical task gains by what it adds. A stretch on cores of
/// its own, and one on a core that it shares.
#[test]
fn each_system_serves_the_critical_task_better_than_the_one_before() {
    for shared in [false, true] {
        let job = match shared {
            true => COLOCATED.replace("time_based", "time_based\ncpus_allowed=0"),
            false => COLOCATED.to_string(),
        };
        let mut before = f64::MAX;
        for system in ["vanilla", "cacheopt", "kernelopt", "selectisr", "xler"] {
            let o = case(&job, &[&format!("system={system}")]).run().unwrap();
            let (mean, _) = latency(&o, "lat");
            // The cache has little to give to random reads of a whole drive.
            assert!(mean < before * 1.03, "{shared} {system}: {mean} after {before}");
            before = mean;
            let c = |name| counter(&o, name);
            assert!(c("host.kblockd_runs") > 0, "others wait in software queues");
            assert_eq!(c("host.bypassed") > 0, !matches!(system, "vanilla" | "cacheopt"));
            assert!(c("host.overtakes") <= c("host.bypassed"));
            assert_eq!(c("host.polled_completions") > 0, matches!(system, "selectisr" | "xler"));
            assert_eq!(c("host.attributes_set"), 3);
        }
        let of = |sets: &[&str]| latency(&case(&job, sets).run().unwrap(), "lat");
        let xler = of(&["system=xler"]);
        assert_eq!(xler, of(&["system=selectisr", "flashshare.accelerator=true"]));
        assert_ne!(xler, of(&["system=selectisr"]));
        let (mean, _) = of(&["system=vanilla"]);
        // Where cores are not shared most of the wait is in the link, behind what the drive has fetched.
        let most = if shared { 0.6 } else { 0.99 };
        assert!(before < most * mean, "{shared}: {before} of {mean}");
    }
}

/// With nobody marked a machine that has the kernel's part of FlashShare is the machine without it, to the
/// nanosecond.
#[test]
fn without_a_marked_task_nothing_differs() {
    let job = COLOCATED.replace("workload_attr", "#");
    for (fs, engine) in [(None, "pvsync2"), (Some("ext4"), "pvsync2"), (None, "io_uring")] {
        let job = job.replace("pvsync2", engine);
        let job = if fs.is_some() { job.replace("[global]", "[global]\nsize=64m") } else { job };
        let base = ["system=cacheopt"];
        let all = ["system=selectisr", "flashshare.give_up=10us"];
        let run = |sets: &[&str]| {
            let case = case(&job, sets);
            let case = if let Some(fs) = fs { case.fs(fs) } else { case };
            let o = case.run().unwrap();
            let threads: Vec<_> = o
                .result
                .threads
                .iter()
                .map(|t| {
                    let dirs = t.dirs.iter().map(|d| (d.total_ios, d.slat.clone(), d.lat.clone()));
                    (dirs.collect::<Vec<_>>(), t.user, t.system, t.context_switches)
                })
                .collect();
            (format!("{threads:?}"), o.result.ended)
        };
        let (plain, shared) = (run(&base), run(&all));
        assert!(plain == shared, "{fs:?} {engine}");
    }
}

/// Direct I/O, reads through pages, what is written back, by whom ever, and the journal.
#[test]
fn the_attribute_reaches_the_drive_by_every_way() {
    let job = |body: &str, workload: &str| {
        format!("[a]\nsize=16m\nbs=16k\nioengine=pvsync2\n{body}\nworkload_attr={workload}\n")
    };
    let write_back = ["fs.dirty_writeback=1ms", "fs.dirty_expire=1ms"];
    for system in ["kernelopt", "selectisr"] {
        for fs in ["none", "ext4", "xfs", "bdev"] {
            for workload in ["latency", "throughput"] {
                let run = |body: &str, sets: &[&str]| {
                    let job = job(body, workload);
                    let case = case(&job, &[&format!("system={system}")]);
                    let case = sets.iter().fold(case, |case, set| case.set(set));
                    let case = if fs == "none" { case } else { case.fs(fs) };
                    case.run().unwrap()
                };
                let (own, other) = match workload {
                    "latency" => (Workload::Latency, Workload::Throughput),
                    _ => (Workload::Throughput, Workload::Latency),
                };
                let what = format!("{system} {fs} {workload}");
                let direct = run("direct=1\nrw=randrw\nnumber_ios=200", &[]);
                let (reads, writes) = of(&direct, own);
                assert!(reads > 50 && writes > 50, "{what}: {:?}", at_drive(&direct));
                assert_eq!(of(&direct, other), (0, 0), "{what}");
                if fs == "none" {
                    continue;
                }
                // Cold pages, and a read-ahead that nobody waits for.
                let read = run("direct=0\nrw=read\nnumber_ios=300\ninvalidate=1", &[]);
                let data = 300 * 16 / 128;
                assert!(of(&read, own).0 >= data, "{what}: {:?}", at_drive(&read));
                assert_eq!(of(&read, other), (0, 0), "{what}");
                // The flusher writes, and the task is none of its own.
                let idle = "direct=0\nrw=write\nrate=32m\nnumber_ios=100";
                let written = run(idle, &write_back);
                assert!(of(&written, own).1 > 0, "{what}: {:?}", at_drive(&written));
                assert_eq!(of(&written, other), (0, 0), "{what}");
                // The journal of a call that is waited for.
                let synced = run("direct=0\nrw=randwrite\nfsync=1\nnumber_ios=50", &[]);
                assert!(of(&synced, own).1 >= 40, "{what}: {:?}", at_drive(&synced));
                let (_, nobodys) = of(&synced, Workload::None);
                if workload == "latency" && fs == "ext4" {
                    assert_eq!(nobodys, 0, "{what}: {:?}", at_drive(&synced));
                }
                if workload == "throughput" && fs == "ext4" {
                    assert!(nobodys > 0, "the journal is nobody's: {:?}", at_drive(&synced));
                }
            }
        }
    }
}

/// The newest data are read whatever passes what: the drive's ledger holds every read against the issuers'
/// writes.
#[test]
fn overlapping_classes_read_what_was_written() {
    let job = "
[global]
size=4m
io_size=100g
bsrange=4k-64k
norandommap
rw=randrw
number_ios=14000
[lat]
ioengine=pvsync2
numjobs=3
workload_attr=latency
[thr]
ioengine=libaio
iodepth=16
numjobs=3
workload_attr=throughput
";
    let (mut served, mut merged, mut ordered) = (0, 0, 0);
    for sets in [
        &["system=kernelopt"][..],
        &["system=selectisr", "flashshare.completion_queues=1"],
        &["system=selectisr", "flashshare.accelerator=true"],
        &["system=selectisr", "flashshare.issue=direct", "stack.scheduler=mq-deadline"],
        &["system=kernelopt", "flashshare.issue=direct", "stack.scheduler=kyber"],
        &["system=selectisr", "flashshare.issue=direct", "stack.scheduler=bfq"],
    ] {
        let sets: Vec<&str> = sets.iter().copied().chain(["stack.queue_depth=8"]).collect();
        for cores in ["1", "6"] {
            let cores = format!("stack.cores={cores}");
            let sets: Vec<&str> = sets.iter().copied().chain([&*cores]).collect();
            let o = case(job, &sets).run().unwrap();
            let integrity = &o.result.machine.totals.integrity;
            assert!(integrity.on && integrity.checked > 10_000, "{sets:?} {integrity:?}");
            assert_eq!(integrity.wrong, 0, "{sets:?}");
            assert!(o.result.threads.iter().all(|t| t.error == 0), "{sets:?}");
            served += o.result.machine.served;
            merged += counter(&o, "host.hazards_merged");
            ordered += counter(&o, "host.hazards_ordered");
        }
    }
    assert!(served > 1_000_000, "{served}");
    assert!(merged > 100 && ordered > 300, "{merged} merged, {ordered} in order");
}

/// A critical job over two drives has its completions by interrupt, and a warning says so: it looks at the queue of one.
#[test]
fn a_critical_job_over_two_drives_ends() {
    let job = "[a]\nioengine=libaio\niodepth=8\nrw=randread\nfilename=/dev/nvme0n1:/dev/nvme1n1\n\
               number_ios=500\nworkload_attr=latency\n";
    let common = wordline::Common {
        stack: "interrupt".into(),
        testbed: None,
        ftl: None,
        fs: None,
        app: None,
        with: Vec::new(),
        scale: None,
        chosen: vec!["system=selectisr".into()],
        set: Vec::new(),
    };
    let devices = [DEVICE.to_string(), DEVICE.to_string()];
    let topology = wordline::Topology::of_devices(&devices);
    let system = topology.system(&common, &mut wordline::Presets).unwrap();
    let plan = wordline::Plan::new(system, wordline::jobs("two.fio", job).unwrap());
    let result = plan.prepare().unwrap().start().unwrap().to_end();
    result.verdict().unwrap();
    assert_eq!(result.threads[0].dirs[0].total_ios, 500);
    let told = result.warnings.iter().filter(|w| w.contains("job 'a'") && w.contains("Select-ISR"));
    assert_eq!(told.count(), 1, "{:?}", result.warnings);

    // One drive, and nothing to tell.
    let one =
        case("[a]\nrw=randread\nnumber_ios=100\nworkload_attr=latency\n", &["system=selectisr"]);
    let warnings = one.run().unwrap().result.warnings;
    assert!(warnings.iter().all(|w| !w.contains("Select-ISR")), "{warnings:?}");
}

#[test]
fn what_does_not_fit_is_refused_with_its_remedy() {
    let refused = |device: &str, stack: &str, sets: &[&str]| {
        let case = Case::new(device, COLOCATED).stack(stack).age(Age::Filled);
        let case = sets.iter().fold(case, |case, set| case.set(set));
        match case.run() {
            Ok(_) => panic!("{device} {stack} {sets:?} is not refused"),
            Err(error) => error.to_string(),
        }
    };
    for (device, stack, sets, text) in [
        (DEVICE, "none", &["system=kernelopt"][..], "take a stack with a kernel"),
        (DEVICE, "spdk", &["system=selectisr"], "SPDK takes the drive from it"),
        (DEVICE, "nbd-kernel", &["system=selectisr"], "the drive is behind NBD"),
        (DEVICE, "interrupt", &["system=kernelop"], "did you mean 'kernelopt'?"),
        (
            DEVICE,
            "interrupt",
            &["system=x"],
            "one of vanilla, cacheopt, kernelopt, selectisr, xler",
        ),
        (DEVICE, "interrupt", &["cache.ways=1", "system=cacheopt"], "--set cache.ways=8"),
        (
            "cnex-small",
            "interrupt",
            &["system=cacheopt"],
            "leave that out with --set cache.partition=none",
        ),
        (DEVICE, "none", &["flashshare.completion_queues=1"], "stack.kernel is false"),
        (DEVICE, "none", &["flashshare.give_up=1ms"], "stack.kernel is false"),
        (DEVICE, "spdk", &["flashshare.give_up=1ms"], "SPDK takes the drive from it"),
        (DEVICE, "interrupt", &["flashshare.queues=true"], "queues.arbitration = weighted-urgent"),
        (DEVICE, "interrupt", &["queues.weighted_urgent=false", "system=kernelopt"], "weighted"),
        ("cnex-small", "interrupt", &["flashshare.bypass=true"], "ftl.placement = device"),
    ] {
        let message = refused(device, stack, sets);
        assert!(message.contains(text), "{device} {stack} {sets:?}: {message}");
    }
}

/// What the refusal names as its remedy is one: a drive without a cache has the rest of the system.
#[test]
fn a_drive_without_a_cache_has_the_rest_of_a_system() {
    let sets = ["cache.partition=none", "system=selectisr"];
    let case = Case::new("p41-plus-1tb", COLOCATED).stack("interrupt").age(Age::Filled);
    let case =
        case.set("nand.blocks=64").set("nand.pages_per_block=24").set("ftl.over_provisioning=30.0");
    let o = sets.iter().fold(case, |case, set| case.set(set)).run().unwrap();
    assert!(o.result.machine.served > 100);
    assert!(of(&o, Workload::Latency).0 > 10);
    assert!(o.result.warnings.iter().all(|w| !w.contains("Select-ISR")), "{:?}", o.result.warnings);
}

/// A user-space driver takes the drive from programs as it does from jobs.
#[test]
fn a_program_on_spdk_has_no_kernel_to_share_with() {
    let program = |sets: &[&str]| {
        let case = Case::new(DEVICE, "").app("kv-read").age(Age::Filled).stack("spdk");
        let case =
            case.set("app.kv.records=5000").set("app.runtime=5ms").set("nand.pages_per_block=8");
        sets.iter().fold(case.set("ftl.over_provisioning=35.0"), |case, set| case.set(set)).run()
    };
    let o = program(&[]).unwrap();
    let host = o.result.machine.host.as_ref().expect("there is one");
    assert_eq!(host.interrupts, 0, "nothing but looks");
    assert!(o.result.threads.iter().all(|t| t.ioengine == "spdk"));
    let error = program(&["system=selectisr"]).err().expect("it has none").to_string();
    assert!(error.contains("SPDK takes the drive from it"), "{error}");
}

/// Who looks uses up its share of the core, and then waits for it behind who does not.
#[test]
fn select_isr_on_a_core_that_is_shared_is_told() {
    let job = |cores: &str| {
        format!(
            "[global]\nrw=randread\nbs=4k\nnorandommap\ntime_based\nruntime=50ms\nioengine=libaio\n\
             [urgent]\niodepth=1\nworkload_attr=latency\ncpus_allowed=0\n\
             [normal]\niodepth=8\nworkload_attr=throughput\ncpus_allowed={cores}\n"
        )
    };
    let of = |cores: &str, system: &str| {
        let o = case(&job(cores), &[&format!("system={system}")]).run().unwrap();
        let ios = o.result.threads[0].dirs.iter().map(|d| d.total_ios).sum::<u64>();
        (ios, o.result.warnings.into_iter().find(|text| text.contains("looks for its completions")))
    };
    let (asleep, none) = of("0", "kernelopt");
    assert_eq!(none, None);
    let (looks, words) = of("0", "selectisr");
    assert!(looks < asleep * 2 / 3, "{looks} I/Os, {asleep} by interrupt");
    let words = words.expect("it waits for its core");
    for part in [
        "job 'urgent' looks for its completions by Select-ISR on core 0, where another job runs, too",
        "cpus_allowed gives it a core of its own",
        "flashshare.select_isr=false",
    ] {
        assert!(words.contains(part), "no '{part}' in: {words}");
    }
    assert_eq!(of("1", "selectisr").1, None, "a core of its own");
}
