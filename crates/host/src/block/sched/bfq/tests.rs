//! bfq against the code of Linux 4.14, and its shares against weights.

use super::*;

fn config() -> BfqConfig {
    BfqConfig { low_latency: false, max_budget: 1_024, ..BfqConfig::default() }
}
fn ask(rq: u32, thread: u32, start: u64, bytes: u64) -> Ask {
    let dir = Dir::Read;
    Ask { rq, hctx: 0, thread, dir, start, bytes, mergeable: true, data: true, sync: true }
}
/// Its sums over queues are what the queues have.
fn check(b: &Bfq) {
    for class in 0..3u8 {
        let of = || (0..).zip(&b.queues).filter(|(_, q)| q.busy && q.class == class);
        let c = usize::from(class);
        assert_eq!(b.busy[c], of().map(|(id, _)| id).collect());
        assert_eq!(b.weights[c], of().map(|(_, q)| q.weight * q.raised).sum::<u64>());
    }
    let all = || b.queues.iter();
    assert_eq!(b.raised, all().filter(|q| q.busy && q.raised > 1).count());
    let mut tree = BTreeMap::new();
    for q in all().filter(|q| (q.busy || q.dispatched > 0) && q.raised == 1) {
        *tree.entry(q.weight).or_insert(0) += 1;
    }
    assert_eq!(b.tree, tree);
}
/// The queues always have requests of 4 KiB. The thread of each request, in order of service.
fn served(threads: &[(u8, u32)], requests: u32) -> Vec<usize> {
    served_of(threads, requests, |_| true)
}
/// The same; somebody waits for those of some threads.
fn served_of(threads: &[(u8, u32)], requests: u32, sync: impl Fn(u32) -> bool) -> Vec<usize> {
    let mut b = Bfq::new(&config(), threads);
    let ask = |rq, thread, at| Ask { sync: sync(thread), ..ask(rq, thread, at, 4096) };
    let mut had = Vec::new();
    let (mut rq, mut at) = (0, vec![0u64; threads.len()]);
    let mut now = Time(0);
    for (thread, at) in at.iter_mut().enumerate() {
        for _ in 0..4 {
            b.insert(&ask(rq, thread as u32, *at), now);
            *at += 1 << 20;
            rq += 1;
        }
    }
    for _ in 0..requests {
        let got = b.dispatch(now).unwrap();
        let queue = b.entries[got].queue;
        let thread = b.of_thread.iter().position(|&q| q == queue).unwrap_or(threads.len() - 1);
        had.push(thread);
        b.insert(&ask(rq, thread as u32, at[thread]), now);
        at[thread] += 1 << 20;
        rq += 1;
        now += Span(10_000);
        b.completed(got, now);
        if rq % 64 == 0 {
            check(&b);
        }
    }
    had
}
/// Sectors that each was served.
fn shares(threads: &[(u8, u32)], requests: u32) -> Vec<u64> {
    let mut had = vec![0; threads.len()];
    served(threads, requests).into_iter().for_each(|thread| had[thread] += 8);
    had
}

#[test]
fn service_is_in_proportion_to_weights() {
    for weights in [[40u32, 40, 40], [10, 20, 70], [80, 10, 10]] {
        let threads: Vec<(u8, u32)> = weights.iter().map(|&w| (1, w)).collect();
        let had = shares(&threads, 60_000);
        let (all, sum): (u64, u32) = (had.iter().sum(), weights.iter().sum());
        for (had, weight) in had.iter().zip(weights) {
            let (share, want) = (*had as f64 / all as f64, f64::from(weight) / f64::from(sum));
            assert!((share - want).abs() < 0.01, "{weights:?}: {share} for {want}");
        }
    }
}

#[test]
fn a_higher_class_has_all_it_wants() {
    assert_eq!(shares(&[(0, 10), (1, 80), (2, 80)], 1_000), [8_000, 0, 0]);
    assert_eq!(shares(&[(2, 80), (1, 10)], 1_000), [0, 8_000]);
}

/// 0.9 s.
#[test]
fn the_idle_class_has_a_turn_every_200_ms() {
    let order = served(&[(1, 80), (2, 10), (2, 10)], 90_000);
    let turns = order.windows(2).filter(|pair| pair[0] == 0 && pair[1] != 0).count();
    assert_eq!(turns, 4);
    assert_eq!(order.iter().filter(|&&thread| thread != 0).count(), 4, "a request a turn");
}

#[test]
fn budgets_follow_how_a_queue_gave_way() {
    let least = 1_024 / 32;
    for (why, dispatched, service, before, after) in [
        (Expiry::Exhausted, 0, 100, 100, 400),
        (Expiry::Exhausted, 0, 500, 500, 1_024),
        (Expiry::Timeout, 0, 10, 100, 200),
        (Expiry::TooIdle, 1, 10, 100, 200),
        (Expiry::TooIdle, 0, 10, 500, 500 - 4 * least),
        (Expiry::TooIdle, 0, 10, 5 * least, least),
        (Expiry::NoMoreRequests, 0, 77, 500, 77),
        (Expiry::NoMoreRequests, 0, 5, 500, least),
        (Expiry::Preempted, 0, 5, 500, 500),
    ] {
        let mut b = Bfq::new(&config(), &[(1, 40)]);
        let q = &mut b.queues[0];
        (q.max_budget, q.service, q.dispatched) = (before, service, dispatched);
        b.recalculate_budget(0, why);
        assert_eq!(b.queues[0].max_budget, after, "{why:?}");
        b.queues[0].raised = 30;
        b.recalculate_budget(0, why);
        assert_eq!(b.queues[0].max_budget, 2 * least, "raised: small and constant");
    }
}

#[test]
fn a_queue_is_served_by_position_until_its_budget_is_used_up() {
    let mut b = Bfq::new(&config(), &[(1, 40), (1, 40)]);
    for q in &mut b.queues {
        q.max_budget = 16;
    }
    for (rq, thread, kib) in [(0, 0, 40), (1, 0, 8), (2, 0, 80), (3, 1, 4), (4, 1, 0)] {
        b.insert(&ask(rq, thread, kib << 10, 4096), Time(0));
    }
    // Two of 8 sectors each a budget; the second begins at 0 and goes up.
    let order: Vec<u32> = std::iter::from_fn(|| b.dispatch(Time(1))).collect();
    assert_eq!(order, [1, 0, 4, 3, 2]);
    assert_eq!(b.expirations[Expiry::Exhausted as usize], 1);
    // The oldest of a queue goes first once it has waited too long.
    b.insert(&ask(5, 0, 900 << 10, 4096), Time(2));
    b.insert(&ask(6, 0, 100 << 10, 4096), Time(3));
    assert_eq!(b.dispatch(Time(2) + FIFO_EXPIRE), Some(5));
}

#[test]
fn an_empty_queue_is_waited_for_where_weights_differ() {
    for (class, weights, waits) in [(1, [40, 40], false), (1, [40, 10], true), (0, [40, 40], false)]
    {
        let mut b = Bfq::new(&config(), &[(class, weights[0]), (1, weights[1])]);
        b.insert(&ask(0, 0, 0, 4096), Time(0));
        b.insert(&ask(1, 1, 0, 4096), Time(0));
        let first = b.dispatch(Time(0)).unwrap();
        let then = b.dispatch(Time(0));
        assert_eq!(then.is_none(), waits, "{weights:?}");
        if !waits {
            continue;
        }
        b.completed(first, Time(10_000));
        let until = Time(10_000) + BfqConfig::default().slice_idle;
        assert_eq!(b.idle_until, Some(until));
        assert_eq!(b.dispatch(Time(20_000)), None, "waited for");
        assert!(!b.on_timer(Time(until.0 - 1)) && b.on_timer(until));
        assert_eq!(b.dispatch(until), Some(1 - first));
    }
}

/// bfq_async_charge_factor.
#[test]
fn what_nobody_waits_for_has_a_tenth_of_the_service() {
    let had = served_of(&[(1, 40), (1, 40)], 60_000, |thread| thread == 0);
    let share = had.iter().filter(|&&thread| thread == 0).count() as f64 / had.len() as f64;
    assert!((share - 10.0 / 11.0).abs() < 0.01, "{share}");
}

#[test]
fn what_nobody_waits_for_has_a_queue_of_its_level_that_is_not_waited_for() {
    let config = BfqConfig { low_latency: true, ..config() };
    let mut b = Bfq::new(&config, &[(1, 40), (1, 40), (1, 80)]);
    let background = |rq, thread, at| Ask { sync: false, ..ask(rq, thread, at, 4096) };
    let queues = [0, 1, 2].map(|thread| b.queue_of(&background(0, thread, 0)));
    assert!(queues[0] == queues[1] && queues[1] != queues[2], "{queues:?}");
    b.add_threads(4);
    assert_eq!(b.of_thread[3], 5, "behind them");
    // It is not raised, and gives way as soon as it is empty, though weights differ.
    b.insert(&background(0, 0, 0), Time(0));
    assert_eq!((b.queues[queues[0]].raised, b.dispatch(Time(0))), (1, Some(0)));
    b.insert(&ask(1, 2, 0, 4096), Time(1));
    assert_eq!(b.dispatch(Time(1)), Some(1));
}

#[test]
fn a_raised_queue_is_not_compared() {
    let mut b = Bfq::new(&config(), &[(1, 40), (1, 80), (0, 40)]);
    for q in 0..3 {
        b.insert(&ask(q, q, 0, 4096), Time(0));
    }
    assert!(!b.symmetric());
    b.change(1, |queue| queue.raised = 30);
    assert!(b.symmetric(), "classes are not compared either");
}

/// Threads with one request at a time. True: some queue was waited for while others had requests.
fn waits(threads: u32, step: u64, rounds: u32) -> bool {
    let mut b = Bfq::new(&config(), &vec![(1, 40); threads as usize]);
    let (mut now, mut rq) = (Time(0), 0);
    let mut at: Vec<u64> = (0..u64::from(threads)).map(|t| t << 40).collect();
    let mut send = |b: &mut Bfq, thread: u32, now| {
        let at = &mut at[thread as usize];
        b.insert(&ask(rq, thread, *at, 4096), now);
        *at += step;
        rq += 1;
    };
    (0..threads).for_each(|thread| send(&mut b, thread, now));
    let mut out = std::collections::VecDeque::new();
    let mut waited = false;
    for _ in 0..rounds {
        out.extend(std::iter::from_fn(|| b.dispatch(now)));
        waited |= !b.is_empty();
        now += Span(10_000);
        let done = out.pop_front().expect("the drive has one");
        let thread = b.entries[done].queue;
        b.completed(done, now);
        send(&mut b, thread, now);
    }
    waited
}

/// Exactly four at the drive look like a drive without queues (BFQ_HW_QUEUE_THRESHOLD). On flash that matters to
/// threads alone that go on where they were.
#[test]
fn random_requests_are_not_waited_for_whether_or_not_the_drive_queues() {
    for threads in 1..=8 {
        assert!(!waits(threads, 1 << 30, 2_000), "{threads} at random");
        assert_eq!(waits(threads, 4096, 2_000), threads == 4, "{threads} in order");
    }
}

#[test]
fn a_drive_that_was_seen_to_queue_is_not_doubted_again() {
    let mut b = Bfq::new(&config(), &[(1, 40)]);
    for (most, seen) in [(4, Some(false)), (5, Some(true)), (4, Some(true))] {
        b.in_driver = most;
        (0..=HW_QUEUE_SAMPLES).for_each(|_| b.update_hw_tag());
        assert_eq!(b.hw_tag, seen);
    }
}

/// bfq_bfqq_expire and bfq_bfqq_handle_idle_busy_switch.
#[test]
fn a_queue_that_sent_nothing_in_time_is_io_bound_again_after_120_requests_in_time() {
    let idle = config().slice_idle;
    let mut habits = Habits { io_bound: false, ..Habits::new() };
    let mut now = Time(0);
    for n in 1..=2 * REQUESTS_IN_TIME {
        // One comes late.
        now += if n == REQUESTS_IN_TIME { idle * 4 } else { idle };
        habits.completed.get_or_insert(now);
        habits.woke(now, idle);
        habits.completed = Some(now);
        assert_eq!(habits.io_bound, n == 2 * REQUESTS_IN_TIME, "{n}");
    }
}

/// Turns of 4 KiB, of a budget of 900 sectors and at most 1,024: the milliseconds of a turn, the sectors it had, whether
/// its blocks are far apart and why it ended; and the sectors that it is charged.
#[test]
fn who_is_slow_is_charged_for_time() {
    let ms = 1_000_000;
    for (turn, service, far, why, charged) in [
        // Blocks far apart: 2 ms at least, and the whole milliseconds of a longer turn.
        (ms / 2, 8, true, Expiry::NoMoreRequests, 1_024 * 2 / 125),
        (ms / 2, 8, false, Expiry::NoMoreRequests, 8),
        (10 * ms + 1, 8, true, Expiry::NoMoreRequests, 1_024 * 10 / 125),
        (10 * ms, 200, true, Expiry::NoMoreRequests, 200),
        // Beyond 20 ms the rate tells: half of the largest budget is fast.
        (25 * ms, 100, false, Expiry::Exhausted, 1_024 * 25 / 125),
        (25 * ms, 512, true, Expiry::Exhausted, 512),
        // Who was waited for until its time was over, with a third of its budget left.
        (100 * ms, 560, false, Expiry::Timeout, 1_024 * 100 / 125),
        (100 * ms, 610, false, Expiry::Timeout, 610),
        (100 * ms, 560, false, Expiry::Exhausted, 560),
        // As in Linux 4.14, a turn of the whole time costs what it had.
        (125 * ms, 100, true, Expiry::Timeout, 100),
    ] {
        let mut b = Bfq::new(&config(), &[(1, 40)]);
        let q = &mut b.queues[0];
        (q.service, q.budget) = (service, 900);
        q.habits.seeks = if far { u32::MAX } else { 0 };
        let charge = |b: &Bfq| b.charge_of_time(&b.queues[0], Span(turn), why);
        assert_eq!(charge(&b), charged, "{turn} ns, {service} sectors, {why:?}");
        b.queues[0].raised = 30;
        assert_eq!(charge(&b), service, "not of a raised queue");
    }
}

/// bfq_bfqq_update_budg_for_activation: in time means within three times `slice_idle`.
#[test]
fn a_queue_that_comes_back_in_time_goes_on_where_it_was() {
    for (pause, goes_on) in [(20, true), (30, false)] {
        let mut b = Bfq::new(&config(), &[(1, 40), (1, 40)]);
        b.insert(&ask(0, 0, 0, 4096), Time(0));
        assert_eq!((b.dispatch(Time(0)), b.dispatch(Time(0))), (Some(0), None));
        let done = Time(100_000);
        b.completed(0, done);
        let finish = b.queues[0].finish;
        b.vtime[1] = finish + 100;
        b.insert(&ask(1, 0, 4096, 4096), done + Span::from_ms(pause));
        let q = &b.queues[0];
        assert_eq!((q.budget, q.service), (q.max_budget, 0));
        assert_eq!(q.start, if goes_on { finish } else { finish + 100 });
    }
}

/// A real-time queue waits for the turn of another to end, and is raised like all that somebody waits for.
#[test]
fn only_a_queue_that_is_raised_higher_preempts() {
    for low_latency in [false, true] {
        let config = BfqConfig { low_latency, ..config() };
        let mut b = Bfq::new(&config, &[(1, 40), (0, 40)]);
        b.insert(&ask(0, 0, 0, 4096), Time(0));
        b.insert(&ask(1, 0, 1 << 20, 4096), Time(0));
        assert_eq!(b.dispatch(Time(0)), Some(0));
        b.change(0, |queue| queue.raised = 1);
        b.insert(&ask(2, 1, 0, 4096), Time(1));
        assert_eq!(b.dispatch(Time(1)), Some(if low_latency { 2 } else { 1 }));
    }
    // One that is raised already does so whenever it comes back, and is waited for 20 ms.
    let config = BfqConfig { low_latency: true, ..config() };
    let mut b = Bfq::new(&config, &[(1, 40), (1, 40)]);
    b.insert(&ask(0, 1, 0, 4096), Time(0));
    b.change(1, |queue| queue.raised = 1);
    let mut now = Time(0);
    for rq in 2..6 {
        b.insert(&ask(rq, 0, u64::from(rq) << 20, 4096), now);
        assert_eq!(b.queues[0].raised, 30);
        assert_eq!(b.dispatch(now), Some(rq));
        now += Span(10_000);
        b.completed(rq, now);
        assert_eq!(b.idle_until, Some(now + RAISED_WAIT), "others are not raised");
        now += RAISED_WAIT;
        assert!(b.on_timer(now));
        assert_eq!(b.dispatch(now), Some(if rq == 2 { 0 } else { rq + 9 }));
        b.insert(&ask(rq + 10, 1, u64::from(rq) << 30, 4096), now);
        now += Span::from_ms(1);
    }
    assert_eq!(b.expirations[Expiry::Preempted as usize], 3);
}

/// bfq_wr_min_inter_arr_async.
#[test]
fn what_nobody_waits_for_is_raised_once_it_hardly_gets_on() {
    for (pause, served, raised) in [(500, false, 1), (501, false, 30), (501, true, 1)] {
        let config = BfqConfig { low_latency: true, ..config() };
        let mut b = Bfq::new(&config, &[(1, 40)]);
        let background = |rq| Ask { sync: false, ..ask(rq, 0, u64::from(rq) << 20, 4096) };
        b.insert(&background(0), Time(0));
        if served {
            // Its turn ends in between, with a request left.
            b.insert(&background(2), Time(0));
            assert_eq!(b.dispatch(Time(0)), Some(0));
            b.expire(Expiry::Timeout, Time(0) + Span::from_ms(400));
        }
        b.insert(&background(1), Time(0) + Span::from_ms(pause));
        let q = b.entries[1].queue;
        assert_eq!(b.queues[q].raised, raised);
        assert_eq!(b.charge(1), if raised > 1 { 8 } else { 80 });
    }
}

#[test]
fn a_queue_idle_for_long_is_raised_and_comes_at_once() {
    let config = BfqConfig { low_latency: true, ..config() };
    let mut b = Bfq::new(&config, &[(1, 40), (1, 40)]);
    b.insert(&ask(0, 0, 0, 4096), Time(0));
    assert_eq!((b.queues[0].raised, b.dispatch(Time(0))), (30, Some(0)));
    let later = Time(0) + config.wr_max_time;
    b.insert(&ask(1, 0, 1 << 20, 4096), later);
    b.insert(&ask(2, 0, 2 << 20, 4096), later);
    assert_eq!(b.dispatch(later), Some(1));
    assert_eq!(b.queues[0].raised, 1, "the time of raising is over");
    b.insert(&ask(3, 1, 0, 4096), later);
    assert_eq!(b.dispatch(later), Some(3), "new: raised, and preempts");
    assert_eq!(b.expirations[Expiry::Preempted as usize], 1);
}
