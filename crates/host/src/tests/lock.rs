//! The one lock of a scheduler, on several cores.

use super::*;

/// Cores whose jobs wait for nothing but the lock, and how much of that a request holds it.
fn scheduled(scheduler: Scheduler, cores: u32, held: u64) -> StackConfig {
    let mut config = StackConfig { scheduler, ..stack(cores) };
    (config.cost.scheduler, config.cost.bfq) = (Span(held), Span(held));
    config.bfq.slice_idle = Span::ZERO;
    config
}

/// Commands a millisecond, and nanoseconds of spinning, of jobs on a core each.
fn rate(config: &StackConfig, jobs: u32) -> (u64, u64) {
    let job = |core| {
        let s = ThreadSpec { cpus_allowed: vec![core], ..spec(Engine::Libaio, 32) };
        (s, forever(reads(1024)))
    };
    let jobs = (0..jobs).map(|j| job(j % config.cores)).collect();
    let mut w = world(config, jobs, fixed(5_000));
    w.log_on = false;
    w.run_to(Time(1_000_000));
    let before = w.count;
    w.run_to(Time(3_000_000));
    let rate = (w.count - before) / 2;
    w.stop();
    let f = crate::function::NAMES.iter().position(|&n| n == "queued_spin_lock_slowpath").unwrap();
    let stats = w.host.stats(w.ctx.now);
    let spun = stats.functions.iter().map(|core| core[f].ns).sum();
    let waited = w.finished.iter().flat_map(|(_, life)| life.steps());
    assert_eq!(waited.filter(|s| s.why == Why::SchedulerLock).count() > 0, spun > 0);
    (rate, spun)
}

#[test]
fn many_cores_get_no_more_requests_through_a_scheduler_than_its_lock_lets() {
    for scheduler in [Scheduler::MqDeadline, Scheduler::Bfq, Scheduler::Sfq] {
        for held in [1_000, 2_500] {
            let bound = 1_000_000 / held;
            for cores in [8, 12] {
                let (found, spun) = rate(&scheduled(scheduler, cores, held), cores);
                assert!(found <= bound + 1, "{scheduler:?}, {cores} cores: {found} of {bound}");
                assert!(
                    found * 100 >= bound * 95,
                    "{scheduler:?}, {cores} cores: {found} of {bound}"
                );
                assert!(spun > 1_000_000, "{scheduler:?}, {cores} cores: {spun}");
            }
        }
    }
    // Locks by hardware queue bound nothing.
    let (found, spun) = rate(&scheduled(Scheduler::Kyber, 8, 1_000), 8);
    assert!(found > 1_300 && spun == 0, "{found} {spun}");
}

#[test]
fn a_core_does_not_wait_for_itself() {
    for scheduler in [Scheduler::MqDeadline, Scheduler::Bfq, Scheduler::Sfq] {
        let config = StackConfig { time_slice: Span(2_000), ..scheduled(scheduler, 2, 1_000) };
        let jobs = |n: u32| {
            let one = || ThreadSpec { cpus_allowed: vec![0], ..spec(Engine::Libaio, 8) };
            (0..n).map(|_| (one(), list(reads(300)))).collect::<Vec<_>>()
        };
        let mut w = world(&config, jobs(3), fixed(5_000));
        w.run();
        w.check_drained();
        let waits = w.finished.iter().flat_map(|(_, life)| life.steps());
        assert_eq!(waits.filter(|s| s.why == Why::SchedulerLock).count(), 0, "{scheduler:?}");
    }
}

/// Two calls at the same moment: the second core has the lock when the first is through.
#[test]
fn the_second_of_two_cores_spins_for_what_the_first_holds() {
    let job = |core, at| {
        let s =
            ThreadSpec { cpus_allowed: vec![core], start: Time(at), ..spec(Engine::Pvsync2, 1) };
        (s, list(vec![io(Ddir::Read, u64::from(core) << 20, 4096)]))
    };
    for (after, spins) in [(0, 700), (200, 500), (699, 1), (700, 0), (5_000, 0)] {
        let config = scheduled(Scheduler::MqDeadline, 2, 700);
        let mut w = world(&config, vec![job(0, 1_000), job(1, 1_000 + after)], fixed(7_300));
        w.run();
        w.check_drained();
        let latency: Vec<u64> = w.finished.iter().map(|(_, life)| life.latency().0).collect();
        // The closed form of a read, and its scheduler.
        assert_eq!(latency, [11_800 + 700, 11_800 + 700 + spins], "{after}");
        let waits = w.finished[1].1.steps().iter().filter(|s| s.why == Why::SchedulerLock).count();
        assert_eq!(waits, usize::from(spins > 0));
    }
}

/// Whatever the cores do, who holds the lock holds it alone, and cores get it in the order of their coming.
#[test]
fn the_lock_is_held_by_one_at_a_time() {
    let mut rng = Rng::from_seed(5);
    let elevator = |config: &StackConfig| {
        crate::block::sched::Elevator::new(config, 8, 1, false, std::iter::empty())
    };
    let config = scheduled(Scheduler::MqDeadline, 4, 1);
    let mut queue = crate::block::RequestQueue::new(&DiskShape::new(drive()), 1024, &config);
    queue.schedule_by(elevator(&config));
    // By core: until when it is busy, so that it comes again later.
    let mut busy = [0u64; 4];
    let (mut now, mut free, mut waited) = (0, 0, 0);
    for _ in 0..10_000 {
        now += rng.below(400);
        let core = rng.below(4) as usize;
        let held = 1 + rng.below(800);
        if busy[core] + held > now {
            continue;
        }
        let begin = now - held;
        let waits = queue.lock(Time(now), core as u32, held).0;
        // A plain lock: from the first moment at which it is free.
        let start = begin.max(free);
        assert_eq!(begin + waits, start, "held {held} from {begin}, free at {free}");
        free = start + held;
        busy[core] = free;
        waited += u64::from(waits > 0);
    }
    assert!(waited > 1_000, "{waited}");
}
