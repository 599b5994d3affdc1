//! Ticks, kworkers, computing tasks and idle states beside I/O, against a fake drive.

use crate::config::{Governor, IdleConfig, IdleState, KworkerConfig};
use crate::poll_tests::{costs, latencies};
use crate::tests::{List, World, drive, io, list, stack};
use crate::*;
use wordline_base::{Ddir, Rng, Span, Time};

fn reads(n: u64) -> List {
    list((0..n).map(|i| io(Ddir::Read, i * 4096, 4096)).collect())
}

fn world(s: &StackConfig, jobs: Vec<(ThreadSpec, List)>, latency: u64) -> World<List> {
    let mut w = World::with_ftl(s, drive(), jobs, None, Box::new(move |_, at| at + Span(latency)));
    w.log_on = false;
    w
}

fn spec(hipri: bool) -> ThreadSpec {
    let mut spec = ThreadSpec::new("j", Engine::Pvsync2, 1);
    spec.hipri = hipri;
    spec
}

fn polling_stack() -> StackConfig {
    let mut s = stack(1);
    costs(&mut s);
    s
}

/// When the last I/O was back.
fn end(w: &World<List>) -> u64 {
    w.finished.iter().map(|(f, _)| f.completed.0).max().unwrap_or(0)
}

/// Nanoseconds of a function on core 0, and its calls.
fn used(stats: &HostStats, name: &str) -> (u64, u64) {
    let f = crate::function::NAMES.iter().position(|&n| n == name).unwrap();
    (stats.functions[0][f].ns, stats.functions[0][f].calls)
}

#[test]
fn a_busy_core_has_its_ticks_and_an_idle_one_none() {
    let mut s = polling_stack();
    s.tick_hz = 1_000;
    s.cost.tick = Span(3_000);
    let mut w = world(&s, vec![(spec(true), reads(2_000))], 20_000);
    w.run();
    let (stats, ns) = (w.host.stats(w.ctx.now), end(&w));
    assert_eq!(used(&stats, "scheduler tick"), (ns / 1_000_000 * 3_000, ns / 1_000_000));
    // Most come while the drive works; those near its end, or in the call, are what a poller feels.
    let slow = latencies(&w);
    let least = slow.iter().min().unwrap();
    let late = slow.iter().filter(|l| **l > least + 2_900).count() as u64;
    assert!(late > 0 && late < ns / 1_000_000 / 2, "{late} of {ns}");
    w.stop();

    // Asleep most of the time, it misses most of them.
    let mut w = world(&s, vec![(spec(false), reads(2_000))], 190_000);
    w.run();
    let (_, calls) = used(&w.host.stats(w.ctx.now), "scheduler tick");
    assert!(calls < end(&w) / 1_000_000 / 10, "{calls}");
    w.stop();
}

#[test]
fn a_slice_ends_at_a_tick() {
    let mut s = polling_stack();
    (s.tick_hz, s.cost.tick) = (1_000, Span(0));
    s.time_slice = Span::from_us(1_500);
    let job = |until| {
        let spins = (0..4).map(|_| Next::Spin { until: Time(until) }).collect();
        (ThreadSpec::new("c", Engine::Null, 1), list(spins))
    };
    let mut w = world(&s, vec![job(20_000_000), job(20_000_000)], 1);
    w.run();
    // Both begin at 0; turns of two ticks each, beginning with the first tick after 1.5 ms.
    let stats = w.host.stats(w.ctx.now);
    let switches = stats.threads.iter().map(|t| t.involuntary_switches).sum::<u64>();
    assert!((9..=10).contains(&switches), "{stats:?}");
    let user: Vec<u64> = stats.threads[..2].iter().map(|t| t.user).collect();
    assert!(user[0].abs_diff(user[1]) <= 2_100_000, "{user:?}");
    w.stop();
}

/// A thread that computes has used up its share when another wants the core: the next tick tells (check_preempt_tick), and
/// not that moment.
#[test]
fn a_share_that_is_over_already_is_found_at_the_next_tick() {
    let mut s = polling_stack();
    (s.tick_hz, s.cost.tick) = (1_000, Span(0));
    (s.sched_latency, s.time_slice) = (Span::from_ms(24), Span::from_ms(3));
    (s.wakeup_granularity, s.sleeper_credit) = (Span::from_ms(1_000), Span::ZERO);
    // Chunks end every 100 us; the second thread comes at 15.25 ms, when 12 are over.
    let spins = (1..400).map(|i| Next::Spin { until: Time(i * 100_000) }).collect();
    let late = ThreadSpec { start: Time(15_250_000), ..ThreadSpec::new("b", Engine::Null, 1) };
    let once = list(vec![Next::Spin { until: Time(15_260_000) }]);
    let mut w =
        world(&s, vec![(ThreadSpec::new("a", Engine::Null, 1), list(spins)), (late, once)], 1);
    let user = |w: &mut World<List>, at: u64| {
        w.run_to(Time(at));
        w.host.stats(w.ctx.now).threads[1].user
    };
    assert_eq!(user(&mut w, 15_900_000), 0, "before the tick");
    assert!(
        user(&mut w, 16_200_000) > 0 || w.host.stats(w.ctx.now).threads[0].involuntary_switches > 0
    );
    w.run();
    w.stop();
}

/// A kworker takes the core from a poller, which then waits for its interrupt; beside a thread that
/// sleeps anyway it works meanwhile.
#[test]
fn a_kworker_ends_polling_and_hides_behind_a_sleep() {
    let work = 50_000;
    let of = |hipri| {
        let mut s = polling_stack();
        s.kworker = KworkerConfig { interval: Span::from_ms(1), work: Span(work) };
        let mut w = world(&s, vec![(spec(hipri), reads(5_000))], 20_000);
        w.run();
        let (stats, lat) = (w.host.stats(w.ctx.now), latencies(&w));
        let times = end(&w) / 1_000_000;
        let (ns, calls) = used(&stats, "kworker");
        // In the first milliseconds nobody has had so much more that it would have to give way.
        assert!(calls + 10 > times && calls <= times && ns == calls * work, "{calls} {times}");
        w.stop();
        (stats.counters, *lat.iter().min().unwrap(), *lat.iter().max().unwrap())
    };
    let (poll, fast, slow) = of(true);
    assert!(poll.poll_yields > 100, "{poll:?}");
    assert!(slow > fast + work && slow < fast + work + 10_000, "{fast} {slow}");
    let (interrupt, fast, late) = of(false);
    assert_eq!(interrupt.poll_yields, 0);
    // Woken as the kworker begins it waits for all of it; the drive's time is hidden.
    assert!(late < slow && late > fast + work - 20_000, "{fast} {late} {slow}");
}

/// need_resched: who computes and who polls on one core take turns, each with its share.
#[test]
fn who_computes_and_who_polls_share_a_core() {
    let of = |hipri, compute: bool| {
        let mut s = polling_stack();
        s.tick_hz = 1_000;
        let ends = 200_000_000;
        let pauses = (0..20_000u64).map(|i| io(Ddir::Read, i * 4096, 4096));
        let mut jobs = vec![(spec(hipri), list(pauses.collect()))];
        if compute {
            let spins = (0..3).map(|_| Next::Spin { until: Time(ends) }).collect();
            jobs.push((ThreadSpec::new("c", Engine::Null, 1), list(spins)));
        }
        let mut w = world(&s, jobs, 20_000);
        w.run_to(Time(ends));
        let (stats, done) = (w.host.stats(w.ctx.now), w.finished.len() as u64);
        (stats, done)
    };
    let (alone, all) = of(true, false);
    assert_eq!(alone.counters.poll_yields, 0);
    let (stats, shared) = of(true, true);
    assert!(stats.counters.poll_yields > 20, "{:?}", stats.counters);
    // Half of the core each: a poller is as busy as one that computes.
    let share = shared as f64 / all as f64;
    assert!((0.4..0.6).contains(&share), "{share}");
    // By interrupt it sleeps most of the time, and is ahead of the other when it wakes.
    let ((_, alone), (_, shared)) = (of(false, false), of(false, true));
    assert!(shared as f64 / alone as f64 > 0.9, "{alone} {shared}");
}

#[test]
fn deeper_idle_states_take_longer_to_leave() {
    let us = Span::from_us;
    let state = |exit, residency| IdleState {
        exit_latency: us(exit),
        target_residency: us(residency),
        watts: 1.0,
    };
    let of = |governor, engine, latency: u64| {
        let mut s = stack(1);
        s.cost.idle_exit = Span(350);
        s.idle = IdleConfig {
            governor,
            max_cstate: 9,
            c1: state(2, 2),
            c1e: state(10, 20),
            c3: state(70, 100),
            c6: state(85, 200),
        };
        let mut w = world(&s, vec![(ThreadSpec::new("j", engine, 1), reads(200))], latency);
        w.run();
        let (stats, lat) = (w.host.stats(w.ctx.now), latencies(&w));
        let idle: u64 = stats.cores[0].idle;
        assert_eq!(stats.idle_states.iter().flatten().sum::<u64>() % idle.max(1), 0);
        w.stop();
        (lat[199], stats.idle_states)
    };
    for engine in [Engine::Pvsync2, Engine::Libaio] {
        let (plain, none) = of(Governor::None, engine, 10_000);
        assert!(none.is_empty());
        assert_eq!(of(Governor::Menu, engine, 10_000).0, plain, "C1 costs what it did");
        // io_getevents does not count as a wait for I/O: C1E, and its longer way back.
        let deeper = if engine == Engine::Libaio { 8_000 } else { 0 };
        let (plain, _) = of(Governor::None, engine, 80_000);
        assert_eq!(of(Governor::Menu, engine, 80_000).0, plain + deeper, "{engine:?}");
    }
    // TEO does not ask who waits: a call sleeps as deep as io_getevents.
    let (plain, _) = of(Governor::None, Engine::Pvsync2, 80_000);
    assert_eq!(of(Governor::Teo, Engine::Pvsync2, 80_000).0, plain + 8_000);
    // Half a millisecond: C6 for both.
    let (plain, _) = of(Governor::None, Engine::Libaio, 500_000);
    let (menu, states) = of(Governor::Menu, Engine::Libaio, 500_000);
    assert_eq!(menu, plain + 83_000);
    assert!(states[0][4] > states[0][1] + states[0][2] + states[0][3], "{states:?}");
}

/// Random background work beside random jobs.
pub fn randomize(s: &mut StackConfig, jobs: &mut Vec<(ThreadSpec, List)>, rng: &mut Rng) {
    if rng.below(3) == 0 {
        s.tick_hz = [100, 1_000, 10_000][rng.below(3) as usize];
        s.cost.tick = Span(rng.below(5_000));
    }
    if rng.below(3) == 0 {
        s.kworker.interval = Span(50_000 + rng.below(1_000_000));
        s.kworker.work = Span(rng.below(50_000));
    }
    if rng.below(3) == 0 {
        s.idle.governor = rng.pick(&[Governor::Menu, Governor::Teo]);
        s.idle.max_cstate = rng.below(5) as u32;
        s.idle.c1e.exit_latency = Span(rng.below(30_000));
        s.idle.c3.target_residency = Span(rng.below(90_000));
    }
    if rng.below(3) == 0 {
        let spins = (0..5).map(|_| Next::Spin { until: Time(rng.below(3_000_000)) }).collect();
        jobs.push((ThreadSpec::new("c", Engine::Null, 1), list(spins)));
    }
}

#[test]
fn impossible_ticks_and_kworkers_are_refused() {
    for (key, change) in [("tick_hz", true), ("kworker.work", false)] {
        let mut s = stack(1);
        if change {
            s.tick_hz = 2_000_000;
        } else {
            s.kworker = KworkerConfig { interval: Span(10), work: Span(10) };
        }
        let e = Host::new(&s, vec![(spec(false), reads(1))], vec![DiskSpec::new(drive())]).err();
        assert_eq!(crate::tests::refused(e), key);
    }
}
