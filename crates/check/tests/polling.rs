//! Ways to wait for a completion, on whole machines: their order, what they cost, and what they leave
//! when switched off.

use wordline_check::{Age, Case, Outcome};

fn run(device: &str, stack: &str, job: &str, sets: &[&str]) -> Outcome {
    let mut case = Case::new(device, job).stack(stack).age(Age::Filled);
    for set in sets {
        case = case.set(set);
    }
    case.run().unwrap()
}

fn job(rw: &str, kib: u32, ios: u32) -> String {
    format!("[a]\nrw={rw}\nbs={kib}k\nnorandommap\nnumber_ios={ios}\n")
}

/// Mean latency in us, and the share of the time that the job's core was busy.
fn seen(outcome: &Outcome) -> (f64, f64) {
    let t = &outcome.result.threads[0];
    let (sum, n) = t.dirs.iter().fold((0.0, 0u64), |(sum, n), d| {
        (sum + d.lat.mean() * d.total_ios as f64, n + d.total_ios)
    });
    let idle = outcome.result.machine.cores.iter().map(|c| c.idle).fold(1.0, f64::min);
    (sum / n as f64 / 1e3, 1.0 - idle)
}

#[test]
fn polling_is_faster_and_busier_and_hybrid_in_between() {
    for rw in ["read", "randread", "write", "randwrite"] {
        for kib in [4, 8, 16, 32] {
            // Windows of the statistics are 100 ms long.
            let of = |stack| seen(&run("z-ssd-small", stack, &job(rw, kib, 20_000), &[]));
            let [interrupt, poll, hybrid, spdk] = ["interrupt", "poll", "hybrid", "spdk"].map(of);
            let all = format!("{rw} {kib} KiB: {interrupt:?} {poll:?} {hybrid:?} {spdk:?}");
            assert!(spdk.0 < poll.0 && poll.0 < hybrid.0 && hybrid.0 < interrupt.0, "{all}");
            assert!(interrupt.1 < hybrid.1 && hybrid.1 < poll.1 && poll.1 > 0.99, "{all}");
        }
    }
}

#[test]
fn by_interrupt_the_core_is_busy_with_the_software() {
    for rw in ["randread", "randwrite"] {
        let case = Case::new("z-ssd-small", "").stack("interrupt");
        let c = case.config().unwrap().stack.cost;
        let (latency, busy) = seen(&run("z-ssd-small", "interrupt", &job(rw, 4, 2_000), &[]));
        let software = [c.application, c.crossing, c.syscall, c.bio, c.block, c.dma_map, c.doorbell]
            .into_iter()
            .chain([c.interrupt_entry, c.interrupt, c.completion])
            .chain([c.idle_exit, c.wake_up, c.finish])
            .fold(0, |sum, span| sum + span.0) as f64
            / 1e3;
        let wanted = software / (latency + c.application.0 as f64 / 1e3);
        assert!((busy / wanted - 1.0).abs() < 0.01, "{rw}: {busy}, not {wanted}");
    }
}

#[test]
fn the_gain_falls_with_the_time_of_the_drive() {
    let gain = |device, stack, kib| {
        let job = job("randread", kib, 1_000);
        let [by, without] = [stack, "interrupt"].map(|s| seen(&run(device, s, &job, &[])).0);
        1.0 - by / without
    };
    let fast = gain("z-ssd-small", "poll", 4);
    let slow = gain("intel-750-small", "poll", 4);
    // What is saved is the same time, of five times the latency.
    assert!(fast > 0.05 && slow > 0.0 && slow < fast / 5.0, "{fast} {slow}");
    let sizes = [4, 8, 16, 32, 64, 256].map(|kib| gain("z-ssd-small", "poll", kib));
    assert!(sizes.is_sorted_by(|a, b| a > b), "{sizes:?}");
    // Without the kernel, too, but for a time of each 4 KiB: the kernel pins a page, SPDK tells its address.
    let sizes = [4, 16, 64, 256, 1024].map(|kib| gain("z-ssd-small", "spdk", kib));
    assert!(sizes.is_sorted_by(|a, b| a > b), "{sizes:?}");
    let saved = |kib| {
        let job = job("randread", kib, 1_000);
        let [by, without] =
            ["spdk", "interrupt"].map(|s| seen(&run("z-ssd-small", s, &job, &[])).0);
        without - by
    };
    let cost = Case::new("z-ssd-small", "").stack("interrupt").config().unwrap().stack.cost;
    let pages = 31.0 * (cost.bio_page.0 - cost.spdk.page.0) as f64 / 1e3;
    let more = saved(128) - saved(4);
    assert!((more / pages - 1.0).abs() < 0.05, "{more} us more, not {pages}");
}

#[test]
fn what_is_switched_off_leaves_no_trace() {
    let job = job("randrw", 4, 600);
    let events = |stack, sets: &[&str]| run("z-ssd-small", stack, &job, sets).events;
    let interrupt = events("interrupt", &[]);
    assert_eq!(interrupt, events("linux-pvsync2", &[]));
    assert_eq!(interrupt, events("poll", &["stack.io_poll=0"]));
    assert_eq!(interrupt, events("interrupt", &["stack.io_poll_delay=0"]));
    assert_ne!(interrupt, events("poll", &[]));
    assert_eq!(events("poll", &[]), events("poll", &[]));
    assert_eq!(events("hybrid", &["stack.io_poll_delay=-1"]), events("poll", &[]));
    let statistics = ["stack.cost.poll.stat_issue=9us", "stack.cost.poll.stat_add=9us"];
    assert_eq!(events("poll", &statistics), events("poll", &[]));
}

/// Everything else that shares a core costs nothing until it is asked for.
#[test]
fn what_shares_a_core_costs_nothing_until_it_is_asked_for() {
    let job = job("randrw", 4, 600);
    let case = |sets: &[&str]| run("z-ssd-small", "hybrid", &job, sets);
    let plain = case(&[]);
    let sets = [
        "stack.cost.tick=9us",
        "stack.kworker.work=9us",
        "stack.idle.max_cstate=2",
        "stack.idle.c1e.exit_latency=9us",
        "stack.idle.c3.watts=9.0",
    ];
    let other = case(&sets);
    assert_eq!(plain.events, other.events);
    let plain = plain.numbers();
    assert_eq!(plain, other.numbers());
    for set in ["stack.tick_hz=1000", "stack.kworker.interval=1ms", "stack.idle.governor=menu"] {
        assert_ne!(plain, case(&[set, "stack.cost.tick=3us"]).numbers(), "{set}");
    }
}

/// fio's cpuio beside a reader on one core: the poller is sent away by the scheduler, and its
/// latency shows it; on a core of its own it does not notice.
#[test]
fn a_computing_job_takes_its_share_of_a_core() {
    let beside = |core, stack| {
        let job = format!(
            "[global]\nnorandommap\n[a]\nrw=randread\nbs=4k\nnumber_ios=12000\ncpus_allowed=0\n\
             [c]\nioengine=cpuio\ncpuload=100\ncpuchunks=500\nexit_on_io_done=1\n\
             cpus_allowed={core}\n"
        );
        run("z-ssd-small", stack, &job, &["stack.tick_hz=1000", "stack.cost.tick=3us"])
    };
    let worst = |o: &Outcome| o.result.threads[0].dirs[0].lat.max();
    let (own, shared) = (beside(1, "poll"), beside(0, "poll"));
    assert!(worst(&own) < 20_000, "{}", worst(&own));
    assert!(worst(&shared) > 1_000_000, "{}", worst(&shared));
    let yields = |o: &Outcome| {
        let found = o.result.machine.totals.counters.iter().find(|(n, _)| n == "host.poll_yields");
        found.map_or(0, |c| c.1)
    };
    assert_eq!(yields(&own), 0);
    assert!(yields(&shared) > 5, "{}", yields(&shared));
    // The computing job's time is its own.
    let user = shared.result.threads[1].user.0;
    assert!(user > 10_000_000, "{user}");
}

/// IOPS x latency = I/Os in flight, but for the application's own time.
#[test]
fn littles_law_holds_for_every_engine() {
    let engines = ["libaio", "io_uring", "io_uring\nhipri", "io_uring\nsqthread_poll", "spdk"];
    for engine in engines {
        for depth in [4u32, 32] {
            let job = format!(
                "[a]\nrw=randread\nbs=4k\nnorandommap\nnumber_ios=4000\niodepth={depth}\n\
                 ioengine={engine}\n"
            );
            let outcome = run("z-ssd-small", "interrupt", &job, &["stack.cost.application=0ns"]);
            let ns = outcome.result.threads[0].finished.0;
            let in_flight = 4_000.0 * seen(&outcome).0 * 1e3 / ns as f64;
            let share = in_flight / f64::from(depth);
            assert!((0.9..=1.0).contains(&share), "{engine} {depth}: {in_flight}");
        }
    }
}

/// At depth handlers take what comes while the job submits, unless its queue has no interrupts.
#[test]
fn a_polled_ring_whose_handlers_take_most_is_told() {
    let told = |depth: u32, words: &str, set: &str| {
        let job =
            job("randread", 4, 2_000) + &format!("iodepth={depth}\nioengine=io_uring\n{words}");
        let o = run("z-ssd-small", "linux-libaio", &job, &[set]);
        o.result.warnings.iter().any(|w| w.contains("asked to poll for (hipri) came by interrupt"))
    };
    assert!(told(16, "hipri\n", "stack.poll_queues=0"));
    assert!(!told(1, "hipri\n", "stack.poll_queues=0"));
    assert!(!told(16, "hipri\n", "stack.poll_queues=1"));
    assert!(!told(16, "", "stack.poll_queues=0"));
}

/// Where polled completions are asked for and come by interrupt, that is told by job, with the reason; and where hybrid
/// polling had no mean yet to sleep for.
#[test]
fn what_is_asked_to_poll_and_does_not_is_told() {
    let job =
        |words: &str| format!("[a]\nrw=randread\nbs=4k\nnorandommap\nnumber_ios=200\n{words}");
    let asks = "job 'a' asks for polled completions and has them by interrupt";
    let told = |case: Case| -> Option<String> {
        let result = case.age(Age::Filled).run().unwrap().result;
        let by_interrupt = result.warnings.iter().filter(|w| w.starts_with("job 'a' asks"));
        let texts: Vec<&String> = by_interrupt.collect();
        let polled = result.machine.totals.counters.iter().find(|(n, _)| n == "host.polls");
        assert_eq!(texts.is_empty(), polled.is_some_and(|(_, n)| *n > 0), "{texts:?}");
        assert!(texts.len() < 2, "{texts:?}");
        texts.first().map(|text| text.replace(asks, ""))
    };
    let (plain, on_files) = (job(""), job("size=16m\n"));
    let case = |stack| Case::new("z-ssd-small", &plain).stack(stack);
    assert_eq!(told(case("poll")), None);
    assert_eq!(told(case("hybrid")), None);
    let array = |level, stack| Case { array: Some((level, 4)), ..case(stack) };
    for (case, why) in [
        (array(wordline::Level::Raid0, "poll"), "an array is bio-based"),
        (array(wordline::Level::Raid5, "hybrid"), "an array is bio-based"),
        (Case::new("cnex-small", &plain).stack("poll"), "an FTL on the host"),
        (Case { job: &on_files, ..case("poll") }.fs("ext4"), "only direct=1"),
        (case("poll").set("stack.io_poll=0"), "polling is switched off"),
    ] {
        let text = told(case).unwrap_or_else(|| panic!("{why}: not told"));
        assert!(text.starts_with(&format!(": {why}")), "{text}");
    }
    for (words, stack, why) in [
        ("ioengine=libaio\n", "poll", "io_submit of Linux 4.14 knows no polling"),
        ("ioengine=libaio\nhipri\n", "interrupt", "io_submit of Linux 4.14 knows no polling"),
        ("ioengine=psync\n", "hybrid", "only pvsync2 and io_uring ask the kernel for it"),
    ] {
        let job = job(words);
        let text = told(Case::new("z-ssd-small", &job).stack(stack));
        assert_eq!(text, Some(format!(": {why}")), "{words} {stack}");
    }
    let uring = job("ioengine=io_uring\nhipri\n");
    assert_eq!(told(Case::new("z-ssd-small", &uring)), None);
    let on_array =
        Case { array: Some((wordline::Level::Raid0, 2)), ..Case::new("z-ssd-small", &uring) };
    assert!(told(on_array).is_some());

    let slept = |ios: u32, stack| {
        let result = run("z-ssd-small", stack, &self::job("randread", 4, ios), &[]).result;
        !result.notes.iter().any(|note| note.starts_with("hybrid polling did not sleep"))
    };
    assert!(!slept(1_000, "hybrid"), "20 ms");
    assert!(slept(20_000, "hybrid"), "a window of 100 ms is over");
    assert!(slept(1_000, "poll"), "nothing was to sleep");
}

/// A reactor looks for longer than an interval. What its calls took of that is the kernel's as it passes, so that no
/// interval has more time of a core than it is long.
#[test]
fn intervals_have_a_reactor_s_time_as_it_passes() {
    let job = "[a]\nrw=read\nbs=512k\nnumber_ios=300\nsize=64m\nioengine=pvsync2\n";
    let machine = Case::new("intel-750-small", job).stack("nbd-spdk").run().unwrap().result.machine;
    let (rows, cores) = (machine.host.unwrap().over_time, machine.cores.len() as u64);
    assert!(rows.len() > 2);
    let (mut begin, mut sums) = (0, [0; 4]);
    for row in &rows {
        let there = (row.end_ns - begin) * cores;
        let spent: u64 = row.totals[..4].iter().sum();
        assert_eq!(spent, there, "up to {}: {:?}", row.end_ns, row.totals);
        sums.iter_mut().zip(row.totals).for_each(|(sum, ns)| *sum += ns);
        begin = row.end_ns;
    }
    let elapsed = machine.simulated_ns as f64;
    let shares = |of: fn(&wordline_sim::CoreUse) -> f64| machine.cores.iter().map(of).sum::<f64>();
    for (ns, share) in
        sums.into_iter().zip([shares(|c| c.user), shares(|c| c.system), shares(|c| c.interrupt)])
    {
        assert!((ns as f64 - share * elapsed).abs() < 1e3, "{ns} of {elapsed}: {share}");
    }
}

/// Two that look share a core by slices of milliseconds, and neither sees what the other is to do meanwhile.
#[test]
fn more_threads_that_look_than_cores_are_told() {
    let told = |stack: &str, jobs: u32, more: &str| {
        let job = format!(
            "[a]\nrw=randread\nbs=4k\nnorandommap\ntime_based\nruntime=50ms\niodepth=8\nnumjobs={jobs}\n{more}"
        );
        let outcome = run("z-ssd-small", stack, &job, &["stack.cores=2", "stack.queues=2"]);
        let ios =
            outcome.result.threads.iter().flat_map(|t| &t.dirs).map(|d| d.total_ios).sum::<u64>();
        let mut all = outcome.result.warnings.into_iter();
        (ios, all.find(|text| text.contains("do not sleep")))
    };
    let rings = "ioengine=io_uring\nsqthread_poll=1\n";
    let (one, none) = told("linux-io_uring", 1, rings);
    assert_eq!(none, None, "a core each");
    let (two, words) = told("linux-io_uring", 2, rings);
    assert!(two < one / 10, "{two} I/Os of two jobs, {one} of one");
    let words = words.expect("four threads on two cores");
    for part in [
        "4 threads look for completions or work and do not sleep, 2 of them the kernel's",
        "(sqthread_poll), on 2 cores: the 2 of core",
        "in turn for up to 12 ms",
        "% of the time that it could have run",
        "--set stack.cores=4",
        "rings without sqthread_poll",
    ] {
        assert!(words.contains(part), "no '{part}' in: {words}");
    }
    for (stack, remedy) in
        [("spdk", "an engine of the kernel's"), ("poll", "completions by interrupt")]
    {
        assert_eq!(told(stack, 2, "").1, None, "{stack}: a core each");
        let words = told(stack, 3, "").1.unwrap_or_else(|| panic!("{stack}: three on two cores"));
        assert!(words.contains("3 threads look") && words.contains(remedy), "{words}");
    }
    // The kernel's thread for a ring, beside a job that sleeps.
    let beside = "[a]\nrw=randread\nbs=4k\nnorandommap\ntime_based\nruntime=50ms\nioengine=io_uring\n\
                  sqthread_poll=1\nsqthread_poll_cpu=0\ncpus_allowed=1\niodepth=4\n\
                  [b]\nrw=randread\nbs=4k\nnorandommap\ntime_based\nruntime=50ms\nioengine=libaio\niodepth=8\n\
                  cpus_allowed=0\n";
    let outcome = run("z-ssd-small", "linux-libaio", beside, &[]);
    let words = outcome.result.warnings.join("\n");
    for part in [
        "the kernel's thread that submits for the ring of job 'a' looks for work on core 0, where another job runs",
        "sqthread_poll_cpu gives it a core of its own",
    ] {
        assert!(words.contains(part), "no '{part}' in: {words}");
    }
    assert!(!words.contains("by interrupt"), "{words}");
    // SPDK beside a job that computes: it has no interrupts to wait for.
    let beside = |core: u32| {
        let job = format!(
            "[a]\nrw=randread\nbs=4k\nnorandommap\ntime_based\nruntime=50ms\ncpus_allowed=0\n\
             [b]\nioengine=cpuio\ncpuload=100\nruntime=50ms\ncpus_allowed={core}\n"
        );
        let outcome = run("z-ssd-small", "spdk", &job, &[]);
        outcome.result.warnings.into_iter().find(|text| text.contains("looks for its completions"))
    };
    let words = beside(0).expect("it waits for its core");
    for part in [
        "job 'a' looks for its completions with SPDK on core 0, where another job runs, too",
        "cpus_allowed gives it a core of its own, and with an engine of the kernel's it sleeps",
    ] {
        assert!(words.contains(part), "no '{part}' in: {words}");
    }
    assert!(!words.contains("interrupt"), "{words}");
    assert_eq!(beside(1), None, "a core of its own");
    let (_, words) = told("spdk", 2, "cpus_allowed=0\n");
    let words = words.expect("two on one core");
    assert!(words.contains("cpus_allowed gives each a core of its own"), "{words}");
    assert_eq!(told("interrupt", 3, "").1, None, "they sleep");
}
