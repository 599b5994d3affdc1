//! Cores: interrupts, time slices, wake-ups.

use super::*;

#[test]
fn completions_share_interrupts() {
    // 32 commands that end together: one interrupt takes them all.
    let latency = Box::new(|_: &Sqe, now: Time| Time((now.0 / 1_000_000 + 1) * 1_000_000));
    let mut s = spec(Engine::Libaio, 32);
    s.iodepth_batch_complete_max = 32;
    let mut w = world(&stack(1), vec![(s, list(reads(320)))], latency);
    w.run();
    w.check_drained();
    let c = w.host.counters;
    assert_eq!((c.completions, c.interrupts), (320, 10));
}

#[test]
fn interrupts_push_back_what_they_interrupt() {
    // Two jobs on one core: one computes for 50 us an I/O, the other's interrupts come meanwhile.
    let mut config = stack(1);
    config.cost.application = Span(50_000);
    let jobs = vec![
        (spec(Engine::Pvsync2, 1), list(reads(50))),
        (spec(Engine::Pvsync2, 1), list(reads(50))),
    ];
    let mut w = world(&config, jobs, fixed(7_300));
    w.run();
    w.check_drained();
    let s = w.host.stats(w.ctx.now);
    assert_eq!(s.cores[0].irq, 100 * 1_200);
    assert_eq!(s.cores[0].user, 100 * 50_000);
    assert_eq!(w.finished.len(), 100);
    // Alone the latency is 11.8 us; sharing the core adds waiting for the other's computation.
    let busy: u64 = w
        .finished
        .iter()
        .flat_map(|(_, l)| l.steps().into_iter().filter(|s| s.why == Why::CoreBusy))
        .count() as u64;
    assert!(busy > 50, "{busy}");
}

#[test]
fn two_threads_share_a_core_by_time_slices() {
    let mut config = stack(1);
    config.time_slice = Span::from_us(100);
    let jobs = (0..2).map(|_| (spec(Engine::Libaio, 64), forever(reads(64)))).collect();
    let mut w = world(&config, jobs, fixed(3_000));
    w.run_to(Time(50_000 * US));
    let mut counts = [0u64; 2];
    for (f, _) in &w.finished {
        counts[f.thread as usize] += 1;
    }
    let share = counts[0] as f64 / (counts[0] + counts[1]) as f64;
    assert!((0.45..0.55).contains(&share), "{counts:?}");
    let s = w.host.stats(w.ctx.now);
    assert!(s.threads[0].involuntary_switches > 50);
    w.stop();
}

/// sched_slice: so many that want the core all the time share 24 ms of it, and have 3 ms at least.
#[test]
fn slices_are_shares_of_the_latency_that_cfs_aims_at() {
    for (threads, ms) in [(2, 12), (4, 6), (8, 3), (12, 3)] {
        let mut config = stack(1);
        config.sched_latency = Span::from_ms(24);
        let jobs = (0..threads).map(|_| (spec(Engine::Libaio, 64), forever(reads(64)))).collect();
        let mut w = world(&config, jobs, fixed(3_000));
        w.run_to(Time(480_000 * US));
        let s = w.host.stats(w.ctx.now);
        let switches: u64 = s.threads.iter().map(|t| t.involuntary_switches).sum();
        let wanted = 480 / ms;
        assert!(switches.abs_diff(wanted) <= wanted / 20 + threads, "{threads}: {switches}");
        w.stop();
    }
}

#[test]
fn a_woken_thread_goes_before_one_that_had_more_of_the_core() {
    // One thread is busy all the time, the other reads now and then.
    let longest = |granularity| {
        let mut config = stack(1);
        config.wakeup_granularity = granularity;
        let pause = |i| Next::Pause { spin_until: Time::ZERO, until: Time(i * 1_000 * US) };
        let rare = (0..40).flat_map(|i| [pause(i), io(Ddir::Read, i * 4096, 4096)]).collect();
        let jobs = vec![
            (spec(Engine::Libaio, 64), forever(reads(64))),
            (spec(Engine::Pvsync2, 1), list(rare)),
        ];
        let mut w = world(&config, jobs, fixed(3_000));
        w.run_to(Time(45_000 * US));
        let of = |t| w.finished.iter().filter(move |(f, _)| f.thread == t);
        assert!(of(0).count() > 1000, "the busy one goes on");
        let longest = of(1).skip(4).map(|(f, _)| f.completed.since(f.issued).0).max().unwrap();
        w.stop();
        longest
    };
    // Until it has had 4 ms more it keeps the core for its slice.
    let (with, without) = (longest(Span::from_ms(4)), longest(Span::from_secs(1)));
    assert!(with < 100_000, "{with} ns");
    assert!(without > 2_000_000, "{without} ns");
}

#[test]
fn a_thread_that_spins_between_its_ios_gives_way() {
    let spin = |i: u64| Next::Pause {
        spin_until: Time((i * 20_000 + 19_000) * US),
        until: Time((i + 1) * 20_000 * US),
    };
    let spins = (0..10).flat_map(|i| [spin(i), io(Ddir::Read, i * 4096, 4096)]).collect();
    let jobs = vec![
        (spec(Engine::Pvsync2, 1), list(spins)),
        (spec(Engine::Pvsync2, 1), list(reads(4_000))),
    ];
    let mut w = world(&stack(1), jobs, fixed(40_000));
    w.run();
    w.check_drained();
    let of = |t| w.finished.iter().filter(move |(f, _)| f.thread == t);
    let longest = of(1).map(|(f, _)| f.completed.since(f.issued).0).max().unwrap();
    // At most a slice of 3 ms, and not the 19 of a spin.
    assert!(longest < 4_000_000, "{longest} ns");
    // The spin ends when its time is over, whoever had the core in it (usec_spin).
    let issued: Vec<u64> = of(0).map(|(f, _)| f.issued.0 / 1_000_000).collect();
    assert_eq!(issued, (1..=10).map(|i| i * 20).collect::<Vec<_>>());
}

#[test]
fn each_core_has_a_queue_and_threads_spread() {
    let jobs = (0..8).map(|_| (spec(Engine::Libaio, 4), list(reads(50)))).collect();
    let mut w = world(&stack(4), jobs, fixed(50_000));
    w.run();
    w.check_drained();
    assert_eq!(w.host.queues().count(), 4);
    assert_eq!((0..8).map(|t| w.host.core_of(t)).collect::<Vec<_>>(), [0, 1, 2, 3, 0, 1, 2, 3]);
    assert_eq!(w.host.counters.ipis, 0);
    assert_eq!(w.finished.len(), 400);
}

#[test]
fn a_completion_on_another_core_is_an_ipi() {
    let mut config = stack(2);
    config.queues = 1;
    let mut s = spec(Engine::Pvsync2, 1);
    s.cpus_allowed = vec![1];
    let mut w = world(&config, vec![(s, list(reads(10)))], fixed(7_300));
    w.run();
    w.check_drained();
    assert_eq!(w.host.counters.ipis, 10);
    assert!(w.finished.iter().all(|(f, _)| f.completed.since(f.issued).0 == 11_800 + 700));
}

/// A thread that computes for 1 ms at a time, and one that reads, both begun on the first of two cores.
fn beside_one_that_computes(migrate: bool, allowed: Vec<u32>) -> (World<List>, u64) {
    let config = StackConfig { migrate, ..stack(2) };
    let burn = |_| Next::Compute { span: Span(999 * US) };
    let mut computes = spec(Engine::Pvsync2, 1);
    computes.cpus_allowed = vec![0];
    let mut reader = spec(Engine::Pvsync2, 1);
    reader.cpus_allowed = allowed;
    let jobs = vec![(reader, list(reads(400))), (computes, list((0..20).map(burn).collect()))];
    let mut w = world(&config, jobs, fixed(7_300));
    w.run();
    w.check_drained();
    let longest = w.finished.iter().map(|(f, _)| f.completed.since(f.issued).0).max().unwrap();
    (w, longest)
}

#[test]
fn a_woken_thread_goes_to_an_idle_core_if_its_own_is_busy() {
    let (w, longest) = beside_one_that_computes(true, vec![0, 1]);
    assert_eq!(w.host.core_of(0), 1);
    assert_eq!(
        w.host.counters.migrations, 1,
        "and stays there, as it is idle whenever the thread wakes"
    );
    // Alone it is 11.8 us. The one that moved was woken by a core for another.
    assert!(longest <= 11_800 + 700, "{longest}");
    let (w, longest) = beside_one_that_computes(true, vec![0]);
    assert_eq!((w.host.core_of(0), w.host.counters.migrations), (0, 0), "it may not");
    assert!(longest > 20_000, "{longest}");
    let (w, _) = beside_one_that_computes(false, vec![0, 1]);
    assert_eq!(w.host.counters.migrations, 0);
    let told = w.host.crowded(w.ctx.now).expect("core 1 has nothing to do");
    assert!(told.contains("2 threads share core 0") && told.contains("core 1 for 0%"), "{told}");
    let (w, _) = beside_one_that_computes(false, vec![0]);
    assert_eq!(w.host.crowded(w.ctx.now), None, "neither may move");
    let (w, _) = beside_one_that_computes(true, vec![0, 1]);
    assert_eq!(w.host.crowded(w.ctx.now), None, "one did");
}

#[test]
fn a_thread_that_slept_for_a_tag_uses_it_at_its_queue() {
    for seed in 0..20 {
        let config = StackConfig { migrate: true, queue_depth: 3, ..stack(4) };
        let mut rng = wordline_base::Rng::from_seed(seed);
        let mut jobs: Vec<_> = (0..6)
            .map(|_| (spec(Engine::Libaio, 1 + rng.below(8) as u32), list(reads(100))))
            .collect();
        jobs.extend((0..6).map(|_| (spec(Engine::Pvsync2, 1), list(reads(100)))));
        let mut w = world(&config, jobs, fixed(20_000));
        w.run();
        w.check_drained();
        let c = w.host.counters;
        assert_eq!(w.finished.len(), 1_200, "seed {seed}");
        assert!(c.tag_waits > 50 && c.migrations > 50, "seed {seed}: {c:?}");
    }
}
