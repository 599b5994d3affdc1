//! Polling on the whole host against a fake drive, to the nanosecond.

use crate::config::{PollCost, SpdkCost, UringCost};
use crate::tests::{World, drive, io, list, refused, stack};
use crate::*;
use wordline_base::{Ddir, IoClass, Priority, Rng, Span, Time};

/// Stages of their own length, so that a sum tells which were paid.
pub fn costs(s: &mut StackConfig) {
    s.cost.poll = PollCost {
        blk_mq_poll: Span(10),
        cpu_relax: Span(30),
        nvme_poll: Span(10),
        entry_miss: Span(100),
        queue_lock: Span(7),
        interrupt_delivery: Span(200),
        sleep: Span(400),
        timer_interrupt: Span(410),
        stat_issue: Span(21),
        stat_add: Span(43),
    };
    s.cost.uring =
        UringCost { enter: Span(150), prepare: Span(30), reap: Span(31), look: Span(20) };
    s.cost.spdk = SpdkCost {
        plugin: Span(400),
        check_enabled: Span(10),
        submit: Span(240),
        page: Span(3),
        process_completions: Span(40),
        complete: Span(150),
    };
}

fn spec(engine: Engine, depth: u32) -> ThreadSpec {
    let mut spec = ThreadSpec::new("j", engine, depth);
    spec.hipri = true;
    spec
}

fn world(s: &StackConfig, specs: Vec<ThreadSpec>, ios: u64, latency: u64) -> World<tests::List> {
    let reads = |i: u64| io(Ddir::Read, i * 4096, 4096);
    let jobs = specs.into_iter().map(|spec| (spec, list((0..ios).map(reads).collect()))).collect();
    World::with_ftl(s, drive(), jobs, None, Box::new(move |_, at| at + Span(latency)))
}

/// Crossing to doorbell of `tests::i7_8700`.
const SUBMIT: u64 = 150 + 550 + 250 + 400 + 200 + 150;
const FINISH: u64 = 300;

pub fn latencies(w: &World<tests::List>) -> Vec<u64> {
    w.finished.iter().map(|(f, _)| f.completed.since(f.issued).0).collect()
}

#[test]
fn a_pollers_code_is_warm_however_long_it_looks() {
    let mut took = Vec::new();
    for share in [1.0, 0.5] {
        let mut s = stack(1);
        costs(&mut s);
        s.cost.warm.share = share;
        let mut w = world(&s, vec![spec(Engine::Pvsync2, 1)], 100, 80_000);
        w.run();
        took.push(latencies(&w)[99]);
    }
    // Half of syscall, bio, block, dma_map, completion, the empty handler and finish; the entry is found at
    // a look, a turn of 50 ns later at most.
    let saved = (550 + 250 + 400 + 200 + 300 + 400 + 300) / 2;
    // What the call's other stages displace in the 100 us that displace all is a hundredth of it.
    let missed = (took[0] - took[1]).abs_diff(saved);
    assert!(missed <= 50 + saved * 3 / 100, "{took:?}");
}

/// The first look at or after the entry, by walking.
fn walk(first: u64, turn: u64, at: u64) -> (u64, u64) {
    let (mut look, mut looks) = (first, 1);
    while look < at {
        look += turn;
        looks += 1;
    }
    (look, looks)
}

#[test]
fn a_polled_read_is_seen_at_the_first_look_after_its_entry() {
    for latency in [1u64, 9, 10, 11, 59, 60, 61, 7_300, 88_123] {
        for poll_queues in [0, 1] {
            let mut s = stack(1);
            costs(&mut s);
            s.poll_queues = poll_queues;
            let mut w = world(&s, vec![spec(Engine::Pvsync2, 1)], 1, latency);
            w.run();
            let (look, looks) = walk(10, 50, latency);
            let found = 10 + 100 + 7 + 300;
            // On a queue with interrupts the message finds nothing, behind the lock.
            let empty = if poll_queues == 0 { 300 + 400 } else { 0 };
            let want = SUBMIT + look + found + empty + FINISH;
            assert_eq!(latencies(&w), [want], "{latency} {poll_queues}");
            let c = w.host.stats(w.ctx.now).counters;
            assert_eq!((c.polls, c.polled_completions), (looks, 1));
            assert_eq!(
                (c.interrupts, c.empty_interrupts),
                (1 - u64::from(poll_queues), c.interrupts)
            );
            let core = w.host.stats(w.ctx.now).cores[0];
            assert_eq!(core.idle, 0, "a polling core is never idle");
            assert_eq!((core.irq, core.system), (empty, want - empty));
            w.stop();
        }
    }
}

/// What functions are said to take is what the cores were busy.
#[test]
fn functions_add_up_to_busy_cores() {
    let all = [
        (Engine::Pvsync2, -1, 0),
        (Engine::Pvsync2, -1, 1),
        (Engine::Pvsync2, 3, 0),
        (Engine::IoUring, -1, 0),
        (Engine::IoUring, -1, 1),
        (Engine::Libaio, -1, 0),
        (Engine::Spdk, -1, 0),
    ];
    for (engine, delay, poll_queues) in all {
        for sq in [false, true] {
            let mut s = stack(2);
            costs(&mut s);
            s.cost.application = Span(1_100);
            s.cost.idle_exit = Span(350);
            (s.io_poll_delay, s.poll_queues) = (delay, poll_queues);
            let mut job = spec(engine, 4);
            job.sqthread_poll = sq;
            let mut w = world(&s, vec![job.clone(), job.clone(), job], 200, 9_000);
            w.run();
            let stats = w.host.stats(w.ctx.now);
            for (core, uses) in stats.cores.iter().zip(&stats.functions) {
                let busy = core.user + core.system + core.irq;
                let sum: u64 = uses.iter().map(|u| u.ns).sum();
                assert_eq!(sum, busy, "{engine:?} {delay} {poll_queues} {sq} {core:?} {uses:?}");
            }
            w.stop();
        }
    }
}

#[test]
fn polls_are_faster_than_interrupts_and_hybrid_is_between() {
    let mut means = Vec::new();
    for (hipri, delay) in [(true, -1), (true, 0), (false, -1)] {
        let mut s = stack(1);
        costs(&mut s);
        s.io_poll_delay = delay;
        let mut job = spec(Engine::Pvsync2, 1);
        job.hipri = hipri;
        // Windows of 100 ms: most of the run has a mean to sleep by.
        let mut w = world(&s, vec![job], 100_000, 7_300);
        w.keep = true;
        w.log_on = false;
        w.run();
        let lat = latencies(&w);
        let (core, c) = (w.host.stats(w.ctx.now).cores[0], w.host.stats(w.ctx.now).counters);
        let busy = 1.0 - core.idle as f64 / w.ctx.now.0 as f64;
        means.push((lat.iter().sum::<u64>() as f64 / lat.len() as f64, busy, c));
        w.stop();
    }
    let [poll, hybrid, interrupt] = &means[..] else { unreachable!() };
    assert!(poll.0 < hybrid.0 && hybrid.0 < interrupt.0, "{means:?}");
    assert!(poll.1 > 0.999 && hybrid.1 < poll.1 && interrupt.1 < hybrid.1, "{means:?}");
    assert!(hybrid.2.hybrid_sleeps > 80_000 && hybrid.2.hybrid_sleeps < 100_000);
    assert_eq!((poll.2.hybrid_sleeps, interrupt.2.polls), (0, 0));
}

#[test]
fn a_fixed_delay_sleeps_from_the_first_request_on() {
    let mut s = stack(1);
    costs(&mut s);
    s.io_poll_delay = 3;
    let mut w = world(&s, vec![spec(Engine::Pvsync2, 1)], 5, 20_000);
    w.run();
    let c = w.host.stats(w.ctx.now).counters;
    assert_eq!((c.hybrid_sleeps, c.hybrid_sleep_ns), (5, 15_000));
    // Asleep from 0.4 to 3 us after submission, back after timer and wake-up, then looks.
    let begin = 3_000 + 410 + 1_300 + 10;
    let want = SUBMIT + walk(begin, 50, 20_000).0 + 10 + 100 + 7 + 300 + 700 + FINISH;
    assert_eq!(latencies(&w), vec![want; 5]);
    let idle = w.host.stats(w.ctx.now).cores[0].idle;
    assert_eq!(idle, 5 * 2_600);
    w.stop();
}

#[test]
fn a_request_that_ends_while_its_caller_sleeps_wakes_it_by_interrupt() {
    let mut s = stack(1);
    costs(&mut s);
    s.io_poll_delay = 50;
    let mut w = world(&s, vec![spec(Engine::Pvsync2, 1)], 3, 7_000);
    w.run();
    // As by interrupt: the timer is not waited for.
    let want = SUBMIT + 7_000 + 500 + 400 + 300 + 1_300 + FINISH;
    assert_eq!(latencies(&w), vec![want; 3]);
    assert_eq!(w.host.stats(w.ctx.now).counters.polls, 0);
    w.stop();

    // Without an interrupt it sleeps to the end.
    s.poll_queues = 1;
    let mut w = world(&s, vec![spec(Engine::Pvsync2, 1)], 1, 7_000);
    w.run();
    let want = SUBMIT + 50_000 + 410 + 1_300 + 10 + 10 + 100 + 7 + 300 + FINISH;
    assert_eq!(latencies(&w), [want]);
    w.stop();
}

#[test]
fn pollers_of_one_core_take_turns_and_fall_back_to_interrupts() {
    let mut s = stack(1);
    costs(&mut s);
    s.time_slice = Span::from_us(5);
    let jobs = vec![spec(Engine::Pvsync2, 1), spec(Engine::Pvsync2, 1)];
    let mut w = world(&s, jobs, 200, 20_000);
    w.run();
    let c = w.host.stats(w.ctx.now).counters;
    assert_eq!(w.finished.len(), 400);
    assert!(c.poll_yields > 50, "{c:?}");
    assert!(c.interrupts > c.empty_interrupts, "who slept is woken by an interrupt: {c:?}");
    w.stop();
    // Without interrupts a poller that gave way looks again.
    s.poll_queues = 1;
    let jobs = vec![spec(Engine::Pvsync2, 1), spec(Engine::Pvsync2, 1)];
    let mut w = world(&s, jobs, 200, 20_000);
    w.run();
    let c = w.host.stats(w.ctx.now).counters;
    assert_eq!((w.finished.len(), c.interrupts, c.polled_completions), (400, 0, 400));
    w.stop();
}

#[test]
fn switches_of_sysfs_and_fio_decide_who_polls() {
    for (hipri, io_poll, percentage, polled) in
        [(true, 1, 100, 300), (false, 1, 100, 0), (true, 0, 100, 0), (true, 1, 0, 0)]
    {
        let mut s = stack(2);
        costs(&mut s);
        s.io_poll = io_poll;
        let mut job = spec(Engine::Pvsync2, 1);
        (job.hipri, job.hipri_percentage) = (hipri, percentage);
        let mut w = world(&s, vec![job], 300, 9_000);
        w.run();
        assert_eq!(w.host.stats(w.ctx.now).counters.polled_completions, polled);
        w.stop();
    }
    let mut s = stack(2);
    costs(&mut s);
    let mut job = spec(Engine::Pvsync2, 1);
    job.hipri_percentage = 30;
    let mut w = world(&s, vec![job], 1_000, 9_000);
    w.run();
    let polled = w.host.stats(w.ctx.now).counters.polled_completions;
    assert!((250..350).contains(&polled), "30 % of 1000, not {polled}");
    w.stop();
}

#[test]
fn spdk_is_all_user_time_and_no_interrupt() {
    for latency in [1u64, 40, 7_300] {
        let mut s = stack(2);
        costs(&mut s);
        let mut w = world(&s, vec![spec(Engine::Spdk, 1)], 1, latency);
        w.run();
        let look = walk(10, 50, latency).0;
        let submit = 400 + 10 + 240;
        assert_eq!(latencies(&w), [submit + look + 100 + 150]);
        let stats = w.host.stats(w.ctx.now);
        assert_eq!(stats.counters.interrupts, 0);
        assert_eq!(stats.cores[0].user, w.ctx.now.0);
        assert_eq!(stats.cores[0].system + stats.cores[0].irq + stats.cores[0].idle, 0);
        assert!(!w.host.queues().any(|q| q.interrupts));
        w.stop();
    }
    // Deep, in parts and past the queue's end: all come back, Little's law holds.
    let mut s = stack(2);
    costs(&mut s);
    s.queue_depth = 5;
    s.max_request = 4096;
    let items = (0..500).map(|i| io(Ddir::Read, i * 16384, 16384)).collect();
    let jobs = vec![(spec(Engine::Spdk, 8), list(items))];
    let mut w: World<tests::List> =
        World::with_ftl(&s, drive(), jobs, None, Box::new(|_, at| at + Span(9_000)));
    w.run();
    assert_eq!((w.finished.len(), w.log.len()), (500, 2_000));
    w.stop();
}

/// 16 pages in one command have 15 addresses behind the first, in two commands 14, and a trim has none.
#[test]
fn spdk_pays_for_each_page_behind_the_first_of_a_command() {
    let took = |ddir, bytes, most| {
        let mut s = stack(1);
        costs(&mut s);
        s.max_request = most;
        let jobs = vec![(spec(Engine::Spdk, 1), list(vec![io(ddir, 0, bytes)]))];
        // A look more or less is 50: the drive answers when the submission is over by so much.
        let mut w: World<tests::List> =
            World::with_ftl(&s, drive(), jobs, None, Box::new(|_, at| at + Span(7_300)));
        w.run();
        let (latency, stats) = (latencies(&w)[0], w.host.stats(w.ctx.now));
        w.stop();
        let f = crate::function::NAMES.iter().position(|n| n.contains("qpair_submit")).unwrap();
        (latency, stats.functions[0][f].ns)
    };
    let (one, submit) = took(Ddir::Read, 4096, 1 << 20);
    assert_eq!(submit, 240);
    assert_eq!(took(Ddir::Read, 65_536, 1 << 20), (one + 15 * 3, 240 + 15 * 3));
    assert_eq!(took(Ddir::Write, 4097, 1 << 20).1, 240 + 3);
    assert_eq!(took(Ddir::Read, 65_536, 32_768).1, 2 * 240 + 14 * 3);
    assert_eq!(took(Ddir::Trim, 65_536, 1 << 20).1, 240);
}

#[test]
fn spdk_takes_the_drive_from_the_kernel() {
    let s = stack(2);
    let jobs = vec![(spec(Engine::Spdk, 1), list(vec![])), (spec(Engine::Libaio, 1), list(vec![]))];
    let e = Host::new(&s, jobs, vec![DiskSpec::new(drive())]).err();
    assert!(e.as_ref().unwrap().to_string().contains("all jobs or none"), "{e:?}");
    assert_eq!(refused(e), "ioengine");
}

#[test]
fn io_uring_enters_once_to_submit_and_once_to_wait() {
    let mut s = stack(2);
    costs(&mut s);
    let mut job = spec(Engine::IoUring, 1);
    job.hipri = false;
    let mut w = world(&s, vec![job.clone()], 3, 7_000);
    w.run();
    let submit = SUBMIT + 150 + 30;
    let want = submit + 7_000 + 500 + 400 + 300 + 1_300 + FINISH + 31;
    assert_eq!(latencies(&w), vec![want; 3], "the call to wait is hidden behind the drive");
    w.stop();

    // Woken once for four, and not for each.
    job.iodepth = 4;
    job.iodepth_batch = 4;
    (job.iodepth_batch_complete_min, job.iodepth_batch_complete_max) = (4, 4);
    let mut w = world(&s, vec![job.clone()], 400, 20_000);
    w.run();
    let stats = w.host.stats(w.ctx.now);
    assert_eq!(stats.threads[0].voluntary_switches, 101);
    w.stop();

    // Polled: in the kernel, to the first look.
    let mut w = world(&s, vec![spec(Engine::IoUring, 1)], 1, 7_000);
    w.run();
    let look = walk(150 + 150 + 10, 50, 7_000).0;
    assert_eq!(latencies(&w), [submit + look + 10 + 100 + 7 + 300 + 700 + FINISH + 31]);
    w.stop();
}

/// Its handlers take most of what comes while a job at depth submits; alone, and from a queue without interrupts, it
/// finds all by itself.
#[test]
fn what_handlers_took_from_a_polled_ring_is_counted() {
    for (depth, poll_queues, most) in [(1, 0, false), (32, 0, true), (32, 1, false)] {
        let mut s = stack(1);
        costs(&mut s);
        s.poll_queues = poll_queues;
        let mut w = world(&s, vec![spec(Engine::IoUring, depth)], 400, 7_000);
        w.run();
        let counters = w.host.counters;
        assert_eq!(
            w.host.asked_for(),
            [counters.polled_completions, counters.completions - counters.polled_completions]
        );
        assert_eq!(w.host.found_by_handlers().is_some(), most, "{:?}", w.host.asked_for());
        w.stop();
    }
    // Who does not ask has none.
    let job = ThreadSpec { hipri: false, ..spec(Engine::IoUring, 32) };
    let mut w = world(&stack(1), vec![job], 400, 7_000);
    w.run();
    assert_eq!((w.host.asked_for(), w.host.found_by_handlers()), ([0; 2], None));
    w.stop();
}

/// In the midst of a loop, too: whoever asks then sees what was looked so far.
#[test]
fn functions_sum_to_what_a_core_was_busy_while_it_looks() {
    for (engine, sqthread_poll) in [
        (Engine::Pvsync2, false),
        (Engine::Spdk, false),
        (Engine::IoUring, false),
        (Engine::IoUring, true),
    ] {
        let mut s = stack(2);
        costs(&mut s);
        let mut w = world(&s, vec![ThreadSpec { sqthread_poll, ..spec(engine, 1) }], 3, 900_000);
        for at in [50_000, 50_007, 400_031, 1_700_003] {
            w.run_to(Time(at));
            let stats = w.host.stats(Time(at));
            for (core, functions) in stats.cores.iter().zip(&stats.functions) {
                let sum: u64 = functions.iter().map(|f| f.ns).sum();
                assert_eq!(sum, core.busy(), "{engine:?}, {sqthread_poll}, at {at}");
            }
            assert!(stats.cores[0].busy() > at / 2, "{engine:?}");
        }
        w.run();
        w.stop();
    }
}

#[test]
fn a_submission_thread_spares_the_application_its_calls() {
    for hipri in [false, true] {
        for depth in [1, 4] {
            let mut s = stack(3);
            costs(&mut s);
            s.sq_thread_idle = Span::from_us(100);
            s.poll_queues = u32::from(hipri);
            let mut job = spec(Engine::IoUring, depth);
            (job.hipri, job.sqthread_poll) = (hipri, true);
            let mut w = world(&s, vec![job], 100, 7_000);
            w.run();
            assert_eq!(w.finished.len(), 100);
            let stats = w.host.stats(w.ctx.now);
            let c = stats.counters;
            assert_eq!(c.sq_wake_ups, 1, "asleep before the first only");
            assert_eq!(c.polled_completions, if hipri { c.completions } else { 0 });
            // The application never enters the kernel but to wake the thread; that one is another.
            assert!(stats.cores[0].system < if hipri { 1_000 } else { 31_000 }, "{stats:?}");
            assert!(stats.cores[1].system > w.ctx.now.0 / 2 || hipri, "{stats:?}");
            w.stop();
        }
    }
    // Pauses longer than its idle time put it to sleep.
    let mut s = stack(2);
    costs(&mut s);
    s.sq_thread_idle = Span::from_us(100);
    let mut items = Vec::new();
    for i in 0..5u64 {
        items.push(Next::NotBefore { at: Time(i * 1_000_000), quiesce: true });
        items.push(io(Ddir::Read, i * 4096, 4096));
    }
    let mut job = spec(Engine::IoUring, 1);
    job.sqthread_poll = true;
    let mut w: World<tests::List> = World::with_ftl(
        &s,
        drive(),
        vec![(job, list(items))],
        None,
        Box::new(|_, at| at + Span(7_000)),
    );
    w.run();
    assert_eq!(w.host.stats(w.ctx.now).counters.sq_wake_ups, 5);
    w.stop();
}

/// io_sq_thread polls before each of its batches of eight, and not only when the ring is empty.
#[test]
fn a_submission_thread_that_polls_looks_between_its_batches() {
    let mut s = stack(3);
    costs(&mut s);
    s.poll_queues = 1;
    let mut job = spec(Engine::IoUring, 32);
    (job.sqthread_poll, job.iodepth_batch) = (true, 32);
    let mut w = world(&s, vec![job], 32, 100);
    w.run();
    assert_eq!(w.finished.len(), 32);
    let (first, _) = &w.finished[0];
    // The reads of a batch lie one after the other, and are merged.
    assert_eq!(w.log.len(), 4);
    let sent_before = w.log.iter().filter(|(at, _)| *at < first.completed).count();
    assert!(sent_before <= 2, "{sent_before} of 4 batches were sent by then");
    w.stop();
}

/// Random ways to wait for completions, for random jobs.
pub fn randomize(s: &mut StackConfig, jobs: &mut [(ThreadSpec, tests::List)], rng: &mut Rng) {
    if rng.below(4) != 0 {
        costs(s);
    }
    if s.scheduler == Scheduler::MqDeadline {
        s.scheduler = rng.pick(&Scheduler::ALL[1..]);
        s.kyber.read_lat = Span(1 + rng.below(50_000));
        s.kyber.percentiles = rng.below(2) == 0;
        s.bfq.max_budget = 1 + rng.below(64);
        (s.bfq.slice_idle, s.bfq.timeout) = (Span(rng.below(50_000)), Span(1 + rng.below(300_000)));
    }
    s.io_poll_delay = [-1, 0, 1, 40][rng.below(4) as usize];
    let poll_queues = (rng.below(3) as u32).min(s.cores);
    s.sq_thread_idle = Span(1 + rng.below(200_000));
    let spdk = rng.below(4) == 0;
    s.poll_queues = if spdk || !s.kernel { 0 } else { poll_queues };
    for (job, _) in jobs {
        job.engine = match (spdk, rng.below(4)) {
            (_, 0) => Engine::Null,
            (true, _) => Engine::Spdk,
            (false, 1) => Engine::IoUring,
            (false, 2) => Engine::Pvsync2,
            (false, _) => job.engine,
        };
        (job.hipri, job.sqthread_poll) = (rng.below(3) != 0, rng.below(3) == 0);
        job.class = [
            IoClass::NONE,
            IoClass::new(Priority::BestEffort, 0),
            IoClass::new(Priority::BestEffort, 7),
            IoClass::new(Priority::RealTime, 4),
            IoClass::new(Priority::Idle, 4),
        ][rng.below(5) as usize];
        job.hipri_percentage = [100, 100, 50][rng.below(3) as usize];
    }
}

#[test]
fn random_pollers_get_every_io_back() {
    for seed in 0..600 {
        let run = |shuffle| tests::random_run(seed, shuffle, true);
        let seen = std::panic::catch_unwind(|| (run(false), run(false), run(true)));
        let (first, again, _) = seen.unwrap_or_else(|_| panic!("seed {seed}"));
        assert_eq!(first, again, "seed {seed}");
    }
}

#[test]
fn a_budget_needs_time() {
    let mut s = stack(2);
    s.scheduler = Scheduler::Bfq;
    s.bfq.timeout = Span::ZERO;
    let jobs = vec![(spec(Engine::Libaio, 1), list(vec![]))];
    assert_eq!(refused(Host::new(&s, jobs, vec![DiskSpec::new(drive())]).err()), "bfq.timeout");
}

/// The statistics that the sleep is computed from cost every request two clocks, from the second
/// on.
#[test]
fn hybrid_polling_pays_for_its_statistics() {
    let latency = 7_300;
    let of = |delay| {
        let mut s = stack(1);
        costs(&mut s);
        s.io_poll_delay = delay;
        let mut w = world(&s, vec![spec(Engine::Pvsync2, 1)], 3, latency);
        w.run();
        let all = latencies(&w);
        w.stop();
        all
    };
    let (poll, hybrid) = (of(-1), of(0));
    // The issue is timed from the doorbell on: looks fall as without.
    assert_eq!(hybrid, [poll[0], poll[1] + 21 + 43, poll[2] + 21 + 43]);
    let fixed = of(3);
    assert_eq!(fixed[1], fixed[0], "a fixed sleep needs none");
}

/// Half the mean is too long for what is faster than that and a wake-up: its interrupt comes first.
#[test]
fn a_drive_that_varies_is_overslept() {
    let times = [4_000u64, 20_000];
    let mut means = Vec::new();
    for (hipri, delay) in [(true, -1), (true, 0), (false, -1)] {
        let mut s = stack(1);
        costs(&mut s);
        s.io_poll_delay = delay;
        let mut job = spec(Engine::Pvsync2, 1);
        job.hipri = hipri;
        let reads = (0..20_000u64).map(|i| io(Ddir::Read, i * 4096, 4096)).collect();
        let mut n = 0;
        let mut w: World<tests::List> = World::with_ftl(
            &s,
            drive(),
            vec![(job, list(reads))],
            None,
            Box::new(move |_, at| {
                n += 1;
                at + Span(times[n % 2])
            }),
        );
        w.log_on = false;
        w.run();
        let lat = latencies(&w);
        let last = &lat[10_000..];
        let c = w.host.counters;
        assert_eq!(c.hybrid_late + c.hybrid_early, c.hybrid_sleeps, "{c:?}");
        assert_eq!(c.hybrid_sleeps > 0, hipri && delay == 0);
        assert!(c.hybrid_late.abs_diff(c.hybrid_early) <= 1, "every other one is fast: {c:?}");
        means.push([1, 0].map(|first| {
            let each = last.iter().skip(first).step_by(2);
            each.clone().sum::<u64>() / each.count() as u64
        }));
        w.stop();
    }
    let [poll, hybrid, interrupt] = means[..] else { unreachable!() };
    // Mean 12 us: asleep for 6. The fast are completed by the interrupt, the slow by a look.
    assert_eq!(hybrid[0], interrupt[0] + 21 + 43, "{means:?}");
    assert!(hybrid[1] <= poll[1] + 21 + 43 + 50 && hybrid[1] > poll[1], "{means:?}");
    assert!(poll[0] < hybrid[0] && hybrid[1] < interrupt[1], "{means:?}");
}
