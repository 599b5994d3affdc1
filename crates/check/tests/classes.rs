//! The class of an I/O on its way from a job to the drive, and results by class.

use std::collections::BTreeMap;
use wordline_base::{Histogram, IoClass, Priority, QueuePriority, Workload};
use wordline_check::{Age, Case, Outcome};

const JOBS: &str = "
[global]
ioengine=libaio
bs=4k
norandommap
iodepth=4
rw=randrw
number_ios=500
[urgent]
prioclass=1
prio=2
[usual]
prio=6
[rest]
prioclass=3
[mixed]
cmdprio_percentage=40,10
cmdprio=1
";

const RT2: IoClass = IoClass::new(Priority::RealTime, 2);
const BE6: IoClass = IoClass::new(Priority::BestEffort, 6);
const IDLE: IoClass = IoClass::new(Priority::Idle, 0);
const RT1: IoClass = IoClass::new(Priority::RealTime, 1);

fn run(device: &str, stack: &str, job: &str, sets: &[&str]) -> Outcome {
    let mut case = Case::new(device, job).stack(stack).age(Age::Filled);
    for set in sets.iter().chain(&["nand.blocks=64", "nand.pages_per_block=8"]) {
        case = case.set(set);
    }
    case.run().unwrap()
}

fn counter(o: &Outcome, name: &str) -> u64 {
    o.result.machine.totals.counters.iter().find(|(n, _)| n == name).map_or(0, |(_, n)| *n)
}

/// I/Os of a direction by class, as the threads counted them.
fn by_class(o: &Outcome, d: usize) -> BTreeMap<IoClass, u64> {
    let mut sums = BTreeMap::new();
    for t in &o.result.threads {
        let dir = &t.dirs[d];
        if dir.classes.is_empty() && dir.total_ios > 0 {
            *sums.entry(t.class).or_default() += dir.total_ios;
        }
        for c in dir.classes.iter().filter(|c| !c.lat.is_empty()) {
            *sums.entry(c.class).or_default() += c.lat.len();
        }
    }
    sums
}

/// Commands by class at the drive: reads or writes.
fn at_drive(o: &Outcome, d: usize) -> BTreeMap<IoClass, u64> {
    let rows = o.result.machine.drive_classes.iter();
    rows.map(|r| (r.class, [r.reads, r.writes][d])).filter(|r| r.1 > 0).collect()
}

#[test]
fn every_command_has_the_class_of_its_io() {
    for (stack, sets) in [
        ("linux-libaio", &[][..]),
        ("linux-io_uring", &["stack.scheduler=mq-deadline"]),
        ("linux-libaio", &["stack.scheduler=kyber", "stack.queues=1"]),
        ("linux-libaio", &["stack.scheduler=bfq"]),
        ("linux-libaio", &["stack.scheduler=sfq"]),
        ("poll", &["stack.poll_queues=2"]),
        ("spdk", &[]),
        ("none", &[]),
    ] {
        for device in ["z-ssd-small", "intel-750-small"] {
            // Nothing is merged.
            let sets: Vec<&str> = sets.iter().copied().chain(["stack.merge=false"]).collect();
            let o = run(device, stack, JOBS, &sets);
            let what = format!("{stack} {sets:?} {device}");
            for d in [0, 1] {
                let ios = by_class(&o, d);
                assert_eq!(ios, at_drive(&o, d), "{what}");
                assert_eq!(
                    ios.values().sum::<u64>(),
                    o.result.threads.iter().map(|t| t.dirs[d].total_ios).sum::<u64>()
                );
                let queues = stack == "none";
                let of = |class: IoClass, queue| match queues {
                    true => class.with_queue(queue),
                    false => class,
                };
                let wanted = [
                    (of(RT2, QueuePriority::High)),
                    (of(IDLE, QueuePriority::Low)),
                    BE6,
                    RT1,
                    IoClass::NONE,
                ];
                let mut wanted = wanted.to_vec();
                wanted.sort_unstable();
                assert_eq!(ios.keys().copied().collect::<Vec<_>>(), wanted, "{what}");
            }
            let commands: u64 =
                o.result.machine.drive_classes.iter().map(|r| r.reads + r.writes).sum();
            assert_eq!(commands, counter(&o, "device.commands_in"), "{what}");
            let lines: u64 = o.result.machine.drive_classes.iter().map(|r| r.cached_lines).sum();
            assert!(lines > 0, "{what}: the cache knows whose its lines are");
            let rows = || o.result.machine.drive_classes.iter();
            let cache = o.result.machine.totals.cache.as_ref().expect("a cache");
            let read = |of: fn(&wordline_sim::DriveClass) -> u64| rows().map(of).sum::<u64>();
            assert_eq!(read(|r| r.read_hits), cache.read_hits, "{what}: hits");
            assert_eq!(read(|r| r.read_misses), cache.read_misses, "{what}: misses");
            assert!(cache.read_hits + cache.read_misses > 0, "{what}: reads are looked up");
        }
    }
}

/// With few requests at the drive shares are those of the weights, 80 to 20; with as many as it takes the drive decides.
#[test]
fn sfq_shares_by_weight_what_it_holds_back() {
    let job = |name: &str, level: u32| {
        format!(
            "[{name}]\nrw=randread\nbs=4k\niodepth=32\nnorandommap\nruntime=50ms\ntime_based\nprio={level}\n"
        )
    };
    let jobs = job("heavy", 0) + &job("light", 6);
    let share = |depth: &str| {
        let sets = ["stack.scheduler=sfq", "stack.queues=1", depth];
        let o = run("intel-750-small", "linux-libaio", &jobs, &sets);
        let ios = [0, 1].map(|t| o.result.threads[t].dirs[0].total_ios as f64);
        ios[0] / (ios[0] + ios[1])
    };
    let shares = ["stack.sfq.depth=4", "stack.sfq.depth=0"].map(share);
    assert!((shares[0] - 0.8).abs() < 0.02, "{shares:?}");
    assert!(shares[1] < 0.65, "{shares:?}");
}

#[test]
fn the_ftl_of_the_host_has_commands_of_no_class() {
    let reads = JOBS.replace("rw=randrw", "rw=randread").replace("[mixed]", "[mixed]\nprio=5");
    let o = run("cnex-small", "linux-libaio", &reads, &["ftl.placement=host"]);
    let (ios, commands) = (by_class(&o, 0), at_drive(&o, 0));
    assert!(ios.len() >= 5 && !ios.contains_key(&IoClass::NONE), "{ios:?}");
    // A read comes to the drive unless the ring has it; each is of one sector.
    for (class, n) in &ios {
        assert!(commands.get(class).is_some_and(|c| c <= n), "{class}: {commands:?} of {ios:?}");
    }
    let users: u64 = commands.iter().filter(|c| *c.0 != IoClass::NONE).map(|c| c.1).sum();
    assert_eq!(users, o.result.machine.totals.user_flash_reads);
    assert!(users * 10 > ios.values().sum::<u64>() * 9, "{users} of {ios:?}");

    // What is programmed is the FTL's: a write ends in its ring.
    let job = JOBS.replace("bs=4k", "bs=64k");
    let o = run("cnex-small", "linux-libaio", &job, &["ftl.placement=host"]);
    let written = at_drive(&o, 1);
    assert!(by_class(&o, 1).len() > 1);
    assert_eq!(written.keys().copied().collect::<Vec<_>>(), [IoClass::NONE], "{written:?}");
    let resets = o.result.machine.drive_classes.iter().filter(|r| r.resets > 0);
    assert!(resets.into_iter().all(|r| r.class == IoClass::NONE));
}

#[test]
fn a_request_of_several_ios_has_the_best_of_their_classes() {
    let job = "[a]\nioengine=libaio\nrw=read\nbs=4k\nsize=8m\niodepth=16\niodepth_batch=16\n\
               iodepth_batch_complete_min=16\nprioclass=3\ncmdprio_percentage=10\n";
    for sets in
        [&[][..], &["stack.scheduler=mq-deadline"], &["stack.scheduler=kyber", "stack.queues=1"]]
    {
        let o = run("z-ssd-small", "linux-libaio", job, sets);
        let (ios, commands) = (by_class(&o, 0), at_drive(&o, 0));
        let merges = o.result.machine.merges;
        assert!(merges > 500, "{merges}");
        assert_eq!(commands.values().sum::<u64>() + merges, ios.values().sum::<u64>());
        // Of sixteen in a row some are urgent more often than one is.
        let share = |m: &BTreeMap<IoClass, u64>, c: IoClass| {
            m.get(&c).copied().unwrap_or(0) as f64 / m.values().sum::<u64>() as f64
        };
        let rt = IoClass::new(Priority::RealTime, 0);
        assert!(share(&ios, rt) < 0.15 && share(&commands, rt) > 0.6, "{ios:?} {commands:?}");
    }
}

#[test]
fn counts_by_class_sum_to_the_totals() {
    let o = run("z-ssd-small", "linux-libaio", JOBS, &[]);
    let mut all: BTreeMap<(String, IoClass), Histogram> = BTreeMap::new();
    for t in &o.result.threads {
        // One class is nothing to tell apart.
        assert_eq!(t.classes.is_empty(), t.name != "mixed", "{}", t.name);
        for (d, name) in ["read", "write", "trim"].into_iter().enumerate() {
            let rows = t.classes.iter().filter(|r| r.ddir == name);
            let n: u64 = rows.clone().map(|r| r.count).sum();
            let dir = &t.dirs[d];
            if t.name == "mixed" {
                assert_eq!(n, dir.total_ios, "{name}");
                let sum: f64 = rows.clone().map(|r| r.mean_ns * r.count as f64).sum();
                assert!((sum - dir.lat.sum() as f64).abs() < 1.0, "{name}");
                assert_eq!(rows.map(|r| r.max_ns).max().unwrap_or(0), dir.lat.max(), "{name}");
            }
            let mut merged = [Histogram::new(), Histogram::new()];
            for c in &dir.classes {
                merged[0].merge(&c.clat);
                merged[1].merge(&c.lat);
                all.entry((name.into(), c.class)).or_default().merge(&c.lat);
            }
            if dir.classes.is_empty() {
                all.entry((name.into(), t.class)).or_default().merge(&dir.lat);
            } else {
                let same = |a: &Histogram, b: &Histogram| {
                    (a.len(), a.sum(), a.min(), a.max(), a.percentile(99.0))
                        == (b.len(), b.sum(), b.min(), b.max(), b.percentile(99.0))
                };
                assert!(same(&merged[0], &dir.clat) && same(&merged[1], &dir.lat), "{name}");
            }
        }
    }
    all.retain(|_, h| !h.is_empty());
    let rows = &o.result.machine.classes;
    assert_eq!(rows.len(), all.len());
    for r in rows {
        let h = &all[&(r.ddir.clone(), r.class)];
        let of = (h.len(), h.percentile(50.0), h.percentile(99.0), h.percentile(99.9), h.max());
        assert_eq!((r.count, r.p50_ns, r.p99_ns, r.p99_9_ns, r.max_ns), of, "{r:?}");
    }
    for table in &o.result.machine.layers {
        let n: u64 = rows.iter().filter(|r| r.ddir == table.ddir).map(|r| r.count).sum();
        assert_eq!(n, table.count);
    }
    // The same in the text and the JSON.
    let text = wordline_report::explain_text(&o.result);
    assert!(text.contains("class (usec)") && text.contains("read rt/2"), "{text}");
    let json = o.text();
    assert!(json.contains("\"drive_classes\"") && json.contains("\"class\" : \"rt/1\""));
}

#[test]
fn the_logs_have_the_class_of_each_io() {
    let job = "[a]\nioengine=libaio\nrw=randread\nbs=4k\niodepth=8\nnumber_ios=400\nprioclass=2\n\
               cmdprio_percentage=30\nwrite_lat_log=l\nlog_prio=1\n";
    let o = run("z-ssd-small", "linux-libaio", job, &[]);
    let log =
        o.result.threads[0].logs.iter().find(|l| l.kind == wordline_sim::LogKind::Lat).unwrap();
    for c in &o.result.threads[0].dirs[0].classes {
        let of = log.lines.iter().filter(|l| l.class == c.class);
        assert_eq!(of.clone().count() as u64, c.lat.len());
        assert_eq!(u128::from(of.map(|l| l.value).sum::<u64>()), c.lat.sum());
    }
}

/// A job whose I/Os are all of one class says nothing by class, and the class costs no time.
#[test]
fn nothing_acts_on_a_class_but_who_did() {
    let plain = "[a]\nioengine=libaio\nrw=randrw\nbs=4k\niodepth=8\nnumber_ios=1000\n";
    let one = run("z-ssd-small", "linux-libaio", plain, &[]);
    assert!(one.result.machine.classes.is_empty() && one.result.machine.drive_classes.is_empty());
    assert!(!one.text().contains("class"));
    for more in ["prioclass=1\n", "prio=7\n", "cmdprio_percentage=50\n"] {
        for stack in ["linux-libaio", "poll", "spdk"] {
            let of = |job: &str| run("z-ssd-small", stack, job, &[]).events;
            assert_eq!(of(plain), of(&format!("{plain}{more}")), "{stack} {more}");
        }
    }
}

#[test]
fn written_back_data_have_the_class_of_who_writes_them_back() {
    let job = |more: &str| {
        format!(
            "[a]\ndirectory=/mnt\nrw=randwrite\nbs=4k\nsize=4m\nnumber_ios=500\nprioclass=1\n{more}"
        )
    };
    let of = |more: &str| {
        let job = job(more);
        let case = Case::new("z-ssd-small", &job).stack("linux-pvsync2").age(Age::Filled);
        let o = case.fs("ext4").set("fs.memory=4_000_000").run().unwrap();
        let rt = IoClass::new(Priority::RealTime, 0);
        assert_eq!(by_class(&o, 1), BTreeMap::from([(rt, 500)]), "{more}");
        let written = at_drive(&o, 1);
        (written.get(&rt).copied().unwrap_or(0), written.get(&IoClass::NONE).copied().unwrap_or(0))
    };
    let (own, _) = of("direct=1\n");
    assert_eq!(own, 500, "the job's own bios");
    // The kernel's flusher has no class (best effort of level 4): no command has one.
    let (own, _) = of("direct=0\n");
    assert_eq!(own, 0);
    // fsync writes back what the job wrote, by the job; the journal's thread has no class.
    let (own, kernel) = of("direct=0\nfsync=10\n");
    assert!(own > 40 && kernel > 0, "{own} {kernel}");
}

#[test]
fn a_class_does_not_go_over_a_network() {
    let o = run("z-ssd-small", "nbd-kernel", JOBS, &[]);
    assert!(o.result.machine.classes.len() >= 5);
    assert!(o.result.machine.drive_classes.is_empty(), "the server's threads have none");
    let ended = |o: &Outcome| o.result.warnings.iter().any(|w| w.contains("end at the network"));
    assert!(!ended(&o), "nobody has a workload attribute");
}

/// What a job says of itself the drive does not learn over a network, and results say so.
#[test]
fn results_say_that_a_network_ends_the_attribute() {
    let job = "[global]\nioengine=libaio\nbs=4k\niodepth=4\nrw=randread\nnorandommap\nnumber_ios=100\n\
               [critical]\nworkload_attr=latency\n[scan]\nworkload_attr=throughput\n[other]\n";
    for (stack, far) in [("nbd-kernel", true), ("nbd-spdk", true), ("linux-libaio", false)] {
        let o = run("z-ssd-flashshare-small", stack, job, &[]);
        let rows = &o.result.machine.classes;
        let marked = |w: Workload| {
            let mut of = rows.iter().filter(|r| r.class.workload() == w);
            of.next().unwrap().ends_at_network
        };
        let all = [Workload::Latency, Workload::Throughput, Workload::None].map(marked);
        assert_eq!(all, [far, far, false], "{stack}");
        let warned = o.result.warnings.iter().any(|w| w.contains("end at the network"));
        assert_eq!(warned, far, "{stack}: {:?}", o.result.warnings);
        let text = wordline_report::explain_text(&o.result);
        assert_eq!(text.contains("latency *"), far, "{stack}: {text}");
    }
}

/// The workload attribute goes from the job to the drive on every stack, and its cache tells by it whose a
/// command is.
#[test]
fn the_workload_attribute_reaches_the_drive() {
    let job = "[global]\nioengine=libaio\nbs=4k\niodepth=4\nrw=randread\nnorandommap\n\
               [critical]\nworkload_attr=latency\nnumber_ios=400\n\
               [scan]\nworkload_attr=throughput\nnumber_ios=300\n[other]\nnumber_ios=200\n";
    let partition = "cache.partition.split=fixed";
    for stack in ["linux-libaio", "linux-io_uring", "poll", "spdk", "none"] {
        let sets = [partition, "stack.merge=false"];
        let o = run("z-ssd-flashshare-small", stack, job, &sets);
        let of = |w: Workload, queue| {
            let queue = if stack == "none" { queue } else { QueuePriority::Medium };
            IoClass::NONE.with_workload(w).with_queue(queue)
        };
        let (urgent, medium) = (QueuePriority::Urgent, QueuePriority::Medium);
        let wanted = BTreeMap::from([
            (of(Workload::Latency, urgent), 400),
            (of(Workload::Throughput, medium), 300),
            (of(Workload::None, medium), 200),
        ]);
        assert_eq!(at_drive(&o, 0), wanted, "{stack}");
        let partitions = &o.result.machine.totals.cache.as_ref().unwrap().partitions;
        let reads = partitions.iter().map(|p| p.read_hits + p.read_joins + p.read_misses);
        assert_eq!(reads.collect::<Vec<_>>(), [400, 500], "{stack}");
        let text = wordline_report::explain_text(&o.result);
        assert!(text.contains("cache, latency") && text.contains("cache, throughput"), "{text}");
        assert!(o.text().contains("\"ways_over_time\""), "{stack}");
    }
}

/// A job whose attribute is that of its priority's class runs as one that names the attribute itself.
#[test]
fn the_attribute_may_follow_fio_s_priority_class() {
    for (prioclass, attribute) in [(1, "latency"), (2, "none"), (3, "throughput")] {
        let of = |attr: &str| {
            let job = format!(
                "[a]\nrw=randread\nbs=4k\nnumber_ios=200\nnorandommap\nprioclass={prioclass}\n\
                 workload_attr={attr}\n"
            );
            let o = run("z-ssd-flashshare-small", "linux-libaio", &job, &["system=selectisr"]);
            let useless = o.text().contains("prio, prioclass and cmdprio are in the logs");
            assert_eq!(useless, attr != "prioclass", "{attr}: a note on the class");
            (o.result.machine.simulated_ns, o.result.threads[0].class)
        };
        assert_eq!(of("prioclass"), of(attribute), "prioclass={prioclass}");
    }
}

/// Classes that nothing goes by are told, and so is a drive that goes by them and never has to choose.
#[test]
fn a_class_that_nothing_heeds_is_told() {
    let attributes = "[global]\nioengine=libaio\nbs=4k\niodepth=4\nrw=randread\nnorandommap\nnumber_ios=200\n\
                      [critical]\nworkload_attr=latency\n[scan]\nworkload_attr=throughput\n";
    let classes = attributes
        .replace("workload_attr=latency", "prioclass=1")
        .replace("workload_attr=throughput", "prioclass=3");
    let (no_attribute, no_queue, never) =
        ("workload_attr is in the results", "prioclass chooses", "no command waited");
    let weighted = "queues.arbitration=weighted-urgent";
    let cases: [(&str, &str, &[&str], &[&str]); 8] = [
        (attributes, "linux-libaio", &[], &[no_attribute]),
        (attributes, "linux-libaio", &["cache.partition.split=fixed"], &[]),
        (attributes, "none", &[], &[no_attribute]),
        (attributes, "none", &[weighted], &[never]),
        (attributes, "none", &[weighted, "queues.in_flight=2"], &[]),
        (&classes, "none", &[], &[no_queue]),
        (&classes, "none", &[weighted], &[never]),
        (&classes, "none", &[weighted, "queues.in_flight=2"], &[]),
    ];
    for (job, stack, sets, wanted) in cases {
        let notes = run("z-ssd-flashshare-small", stack, job, sets).result.notes;
        for words in [no_attribute, no_queue, never] {
            let told = notes.iter().filter(|note| note.starts_with(words)).count();
            let is_wanted = usize::from(wanted.contains(&words));
            assert_eq!(told, is_wanted, "{words}, {stack} {sets:?}: {notes:?}");
        }
    }
}

#[test]
fn a_class_is_written_in_words_that_are_no_direction_s() {
    let critical = IoClass::NONE.with_workload(Workload::Latency);
    assert_eq!(critical.to_string(), "attr=latency");
    assert_eq!(critical.with_queue(QueuePriority::Urgent).to_string(), "urgent attr=latency");
    assert_eq!(RT1.with_workload(Workload::Throughput).to_string(), "rt/1 attr=throughput");
    assert_eq!((IoClass::NONE.to_string(), &*IDLE.to_string()), ("none".into(), "idle"));
}

/// Strict priority starves, and it is what the run measured that says so.
#[test]
fn classes_that_urgent_queues_starve_are_told() {
    let job = |urgent: u32| {
        format!(
            "[global]\nioengine=libaio\nrw=randread\nbs=4k\nnorandommap\ntime_based\nruntime=10ms\n\
             [urgent]\nworkload_attr=latency\niodepth={urgent}\n[rest]\nprioclass=3\niodepth=4\n"
        )
    };
    let told = |urgent: u32, sets: &[&str]| {
        let o =
            run("z-ssd-small", "none", &job(urgent), &[&["queues.in_flight=4"][..], sets].concat());
        let rest = o.result.threads[1].dirs.iter().map(|d| d.total_ios).sum::<u64>();
        (rest, o.result.notes.into_iter().find(|note| note.contains("starved")))
    };
    let weighted = "queues.arbitration=weighted-urgent";
    let (rest, note) = told(32, &[weighted]);
    let note = note.unwrap_or_else(|| panic!("{rest} I/Os, and nothing told"));
    assert!(rest < 20, "{rest}");
    assert!(note.contains("starved those of the class low: one had no turn for"), "{note}");
    let (guarded, note) = told(32, &[weighted, "queues.guard.counts=passed"]);
    assert_eq!(note, None);
    assert!(guarded > 5 * rest, "{guarded} guarded, {rest} without");
    assert_eq!(told(32, &[]).1, None, "they take turns");
    assert_eq!(told(2, &[weighted]).1, None, "there is room for both");
}
