//! Queues, arbitration, interrupts, statuses.

use super::*;
use proptest::prelude::*;
use wordline_base::{Layer, Rng};

#[test]
fn a_queue_is_served_in_order_and_wraps() {
    let (n, d) = (nand_config(), device_config());
    for depth in [2, 3, 7, 64] {
        let mut h = Host::bare(&n, &d);
        h.queue(0, depth, QueuePriority::Medium);
        h.fill_flash(32);
        let mut sent = 0;
        let mut phases = Vec::new();
        while sent < 500 {
            // As many as the queue takes, all with one doorbell.
            let before = sent;
            while sent < 500 && h.put(0, Opcode::VectorRead, 0, 4096).is_ok() {
                sent += 1;
            }
            assert!(sent - before < depth, "one slot stays empty");
            h.drive.doorbell(&mut h.ctx, 0);
            h.settle();
        }
        // One LUN serves in order, so completions come in the order of submission.
        for (i, done) in h.done.iter().enumerate() {
            assert_eq!(usize::from(done.posted.cqe.cid), i, "depth {depth}");
            phases.push(done.posted.cqe.phase);
        }
        for (i, phase) in phases.iter().enumerate() {
            assert_eq!(
                *phase,
                (i as u32 / depth).is_multiple_of(2),
                "phase of entry {i}, depth {depth}"
            );
        }
        let s = h.drive.stats(h.ctx.now);
        assert_eq!(
            (s.commands_in, s.commands_out),
            (s.commands_out, [0, 0, 0, 0, 0, 0, 500, 0, 0, 0])
        );
    }
}

#[test]
fn a_command_without_a_doorbell_is_not_seen() {
    let mut h = Host::bare(&nand_config(), &device_config());
    h.queue(0, 8, QueuePriority::Medium);
    h.fill_flash(1);
    h.put(0, Opcode::VectorRead, 0, 4096).unwrap();
    h.drive.doorbell(&mut h.ctx, 0);
    h.put(0, Opcode::VectorRead, 0, 4096).unwrap();
    h.advance(Time(1_000_000));
    assert_eq!(h.done.len(), 1);
    assert!(!h.drive.idle());
    h.drive.doorbell(&mut h.ctx, 0);
    h.settle();
    assert_eq!(h.done.len(), 2);
}

/// Commands fetched from each queue after `total`, all queues kept backlogged.
fn fetched(d: &DeviceConfig, priorities: &[QueuePriority], total: u64) -> Vec<u64> {
    let mut h = Host::bare(&nand_config(), d);
    h.fill_flash(32);
    for (id, &priority) in priorities.iter().enumerate() {
        h.queue(id as u16, 1024, priority);
        for i in 0..1000u64 {
            h.put(id as u16, Opcode::VectorRead, i % 32, 4096).unwrap();
        }
    }
    // All doorbells at one instant: the first event finds all of them there.
    for id in 0..priorities.len() as u16 {
        h.drive.doorbell(&mut h.ctx, id);
    }
    let sum = |h: &Host| h.drive.stats(h.ctx.now).fetched.iter().map(|f| f.1).sum::<u64>();
    while sum(&h) < total {
        h.step();
    }
    h.drive.stats(h.ctx.now).fetched.iter().map(|f| f.1).collect()
}

#[test]
fn backlogged_queues_get_their_shares() {
    use QueuePriority::{High, Low, Medium, Urgent};
    let mut d = device_config();
    d.queues.in_flight = 16;
    for burst in [1, 4, 8] {
        d.queues.burst = burst;
        let n = fetched(&d, &[Medium, Urgent, Low, High], 1200);
        let (min, max) = (n.iter().min().unwrap(), n.iter().max().unwrap());
        assert!(max - min <= u64::from(burst), "round robin, burst {burst}: {n:?}");
    }
    d.queues.arbitration = Arbitration::WeightedUrgent;
    d.queues.weights = [4, 2, 1];
    for burst in [1, 2, 4] {
        d.queues.burst = burst;
        let n = fetched(&d, &[High, Medium, Low, High, Medium, Low], 1400);
        for (class, share) in [(0, 800), (1, 400), (2, 200)] {
            let got = n[class] + n[class + 3];
            assert!(got.abs_diff(share) <= 4, "burst {burst}: {n:?}");
            assert!(n[class].abs_diff(n[class + 3]) <= u64::from(burst), "burst {burst}: {n:?}");
        }
    }
    d.queues.burst = 1;
    // The first doorbell event alone may fetch others: the urgent queue's is the first here.
    let n = fetched(&d, &[Urgent, High, Low], 900);
    assert_eq!(n, [900, 0, 0], "urgent is strict");
}

#[test]
fn a_command_beyond_mdts_is_refused() {
    let (n, mut d) = (nand_config(), device_config());
    d.queues.max_transfer = 16 << 10;
    let mut h = Host::with_ftl(&n, &d, &ftl_config());
    h.queue(0, 64, QueuePriority::Medium);
    for (opcode, bytes, status) in [
        (Opcode::Write, 16 << 10, Status::Success),
        (Opcode::Read, 16 << 10, Status::Success),
        (Opcode::Write, 20 << 10, Status::InvalidField),
        (Opcode::Read, 20 << 10, Status::InvalidField),
        (Opcode::Deallocate, 1 << 20, Status::Success),
    ] {
        assert_eq!(h.one(opcode, 0, bytes).1, status, "{opcode:?} of {bytes}");
    }
    d.queues.max_transfer = 12 << 10;
    let nand = Nand::new(&n, Seed(1)).unwrap();
    assert_eq!(Controller::new(&d, nand, None).err().unwrap().key, "queues.max_transfer");
}

#[test]
fn what_is_not_whole_logical_blocks_is_refused() {
    for (lba, small) in [(512, Status::Success), (4096, Status::InvalidField)] {
        let mut d = device_config();
        d.lba = lba;
        let mut h = Host::with_ftl(&nand_config(), &d, &ftl_config());
        h.queue(0, 64, QueuePriority::Medium);
        for (opcode, at, bytes, status) in [
            (Opcode::Write, 8192, 4096, Status::Success),
            (Opcode::Write, 512, 4096, small),
            (Opcode::Write, 4096, 512, small),
            (Opcode::Read, 7168, 1024, small),
            (Opcode::Deallocate, 512, 8192, small),
            (Opcode::Read, 256, 512, Status::InvalidField),
        ] {
            assert_eq!(h.one(opcode, at, bytes).1, status, "{opcode:?} of {bytes} at {at}, {lba}");
        }
    }
    let d = DeviceConfig { lba: 1024, ..device_config() };
    let nand = Nand::new(&nand_config(), Seed(1)).unwrap();
    assert_eq!(Controller::new(&d, nand, None).err().unwrap().key, "lba");
}

#[test]
fn no_more_commands_are_in_flight_than_the_limit() {
    let mut d = device_config();
    d.queues.in_flight = 5;
    let mut h = Host::bare(&nand_config(), &d);
    h.queue(0, 64, QueuePriority::Medium);
    h.fill_flash(32);
    for i in 0..60 {
        h.submit(0, Opcode::VectorRead, i, 4096);
    }
    let mut most = 0;
    while !h.drive.idle() {
        h.step();
        most = most.max(h.drive.in_flight());
    }
    assert_eq!((most, h.done.len()), (5, 60));
}

#[test]
fn wrong_commands_end_with_their_status() {
    let g = Nand::new(&nand_config(), Seed(1)).unwrap().geometry;
    let mut h = Host::bare(&nand_config(), &device_config());
    h.queue(0, 64, QueuePriority::Medium);
    let (unit, sectors) = (g.unit_bytes() as u32, g.sectors());
    for (opcode, address, bytes, expected) in [
        (Opcode::Read, 0, 4096, Status::InvalidField),
        (Opcode::VectorRead, sectors, 4096, Status::LbaOutOfRange),
        (Opcode::VectorRead, 0, 0, Status::InvalidField),
        (Opcode::VectorRead, 0, 5000, Status::InvalidField),
        (Opcode::VectorRead, 3, 8192, Status::InvalidField),
        (Opcode::VectorWrite, 1, unit, Status::InvalidField),
        (Opcode::VectorWrite, 0, 4096, Status::InvalidField),
        (Opcode::VectorReset, u64::MAX, 0, Status::LbaOutOfRange),
        (Opcode::Flush, 0, 0, Status::Success),
    ] {
        assert_eq!(h.one(opcode, address, bytes).1, expected, "{opcode:?} {address} {bytes}");
    }
    let mut h = Host::with_ftl(&nand_config(), &device_config(), &ftl_config());
    h.queue(0, 64, QueuePriority::Medium);
    let end = h.drive.ftl().unwrap().sectors() * SECTOR;
    for (opcode, address, bytes, expected) in [
        (Opcode::VectorRead, 0, 4096, Status::InvalidField),
        (Opcode::Read, 0, 0, Status::InvalidField),
        (Opcode::Read, 100, 512, Status::InvalidField),
        (Opcode::Write, 512, 1000, Status::InvalidField),
        (Opcode::Read, end - 4096, 8192, Status::LbaOutOfRange),
        (Opcode::Write, u64::MAX - 511, 512, Status::LbaOutOfRange),
        (Opcode::Read, end - 4096, 4096, Status::Success),
        (Opcode::Deallocate, 512, 1024, Status::Success),
    ] {
        assert_eq!(h.one(opcode, address, bytes).1, expected, "{opcode:?} {address} {bytes}");
    }
    assert_eq!(h.drive.stats(h.ctx.now).failed, 6);
}

#[test]
fn background_jobs_keep_their_order_on_several_cores() {
    use crate::controller::background::Job;
    use wordline_nand::{Op, OpKind};
    let mut h = Host::bare(&nand_config(), &device_config());
    let luns = h.drive.nand().geometry.luns;
    // Two pages of one LUN: the cheaper second one waits for the first.
    for (page, cost) in [(0, Span::from_us(10)), (1, Span::from_us(1))] {
        let ppa = h.drive.geometry.first_of_unit(wordline_nand::UnitId(page * luns));
        let (kind, class, owner, io) = (OpKind::Program, Class::UserProgram, 0, IoId::NONE);
        let op = Op { kind, class, ppa, sectors: 1, slc: false, owner, io };
        h.drive.enqueue_job(&mut h.ctx, cost, Job::ReadAhead(op));
    }
    for at in [9_999, 10_000] {
        assert_eq!(h.drive.nand().in_flight(), 0);
        while h.ctx.queue.next_time().is_some_and(|t| t.0 <= at) {
            h.step();
        }
    }
    assert_eq!(h.drive.nand().in_flight(), 2);
}

#[test]
fn media_faults_are_statuses() {
    let mut n = nand_config();
    (n.faults.read_fail_ppb, n.faults.program_fail_ppb) = (1_000_000_000, 1_000_000_000);
    let mut h = Host::bare(&n, &device_config());
    h.queue(0, 64, QueuePriority::Medium);
    let unit = h.drive.nand().geometry.unit_bytes() as u32;
    assert_eq!(h.one(Opcode::VectorWrite, 0, unit).1, Status::WriteFault);
    assert_eq!(h.one(Opcode::VectorRead, 0, 4096).1, Status::UnrecoveredRead);
}

#[test]
fn nothing_completes_before_the_flash() {
    let (n, d) = (nand_config(), device_config());
    let mut h = Host::bare(&n, &d);
    h.queue(0, 1024, QueuePriority::Medium);
    h.fill_flash(32);
    for i in 0..500u64 {
        h.submit_io(0, Opcode::VectorRead, i % 1000, 4096);
    }
    h.settle();
    for done in &h.done {
        let life = h.ctx.lives.get(done.posted.io);
        let end = |layer| life.steps().iter().rfind(|s| s.layer == layer).unwrap().end;
        assert!(done.at > end(Layer::Transfer) && end(Layer::Transfer) > end(Layer::Nand));
    }
}

#[test]
fn interrupts_coalesce() {
    let run = |threshold: u32, time: Span, polled: bool| {
        let mut d = device_config();
        d.interrupt = InterruptConfig { threshold, time };
        let mut h = Host::bare(&nand_config(), &d);
        h.queue(0, 1024, QueuePriority::Medium);
        h.drive.set_interrupts(0, !polled);
        h.fill_flash(32);
        for i in 0..100u64 {
            h.submit(0, Opcode::VectorRead, i * 4, 4096);
        }
        let (mut late, mut unsignalled, mut oldest) = (0, 0, Time::ZERO);
        while h.step() {
            for done in h.done.drain(..) {
                if unsignalled == 0 {
                    oldest = done.at;
                }
                unsignalled = if done.posted.interrupt { 0 } else { unsignalled + 1 };
                assert!(polled || unsignalled == 0 || unsignalled < threshold);
            }
            while let Some(cq) = h.drive.poll_interrupt() {
                assert_eq!((cq, h.ctx.now.since(oldest)), (0, time));
                unsignalled = 0;
                late += 1;
            }
            assert!(polled || unsignalled == 0 || h.ctx.now.since(oldest) <= time);
        }
        assert!(polled || unsignalled == 0, "no completion is left without an interrupt");
        (h.drive.stats(h.ctx.now).interrupts, late, h.ctx.queue.popped())
    };
    let off = run(0, Span::ZERO, false);
    assert_eq!((off.0, off.1), (100, 0));
    assert_eq!(run(1, Span::from_us(100), false), off, "a threshold of one is no coalescing");
    assert_eq!(run(8, Span::ZERO, false), off, "a time of zero is no coalescing");
    let (interrupts, late, _) = run(8, Span::from_ms(10), false);
    assert_eq!((interrupts, late), (13, 1), "twelve eights, and the timer for the last four");
    assert!(run(64, Span::from_us(20), false).1 > 1);
    let (interrupts, _, events) = run(8, Span::from_us(100), true);
    assert_eq!(
        (interrupts, events),
        (0, off.2),
        "a polled queue has neither interrupts nor timers"
    );
}

#[test]
fn mechanisms_that_are_off_leave_no_trace() {
    let trace = |d: &DeviceConfig, drawn: bool| {
        let mut h = Host::with_ftl(&nand_config(), d, &ftl_config());
        h.queue(0, 1024, QueuePriority::Medium);
        if drawn {
            h.ctx.tracks = Some(Box::new(wordline_base::Tracks::new(1 << 20)));
        }
        closed_loop(&mut h, 8, 2_000, |i, _| match i % 3 {
            0 => (Opcode::Write, (i as u64 * 37 % 1000) * 4096, 8192),
            _ => (Opcode::Read, (i as u64 * 11 % 1000) * 4096, 4096),
        });
        (h.ctx.queue.popped(), h.ctx.now)
    };
    let base = trace(&device_config(), false);
    assert_eq!(trace(&device_config(), true), base, "drawing");
    let mut d = device_config();
    d.power = PowerConfig::default();
    d.interrupt = InterruptConfig { threshold: 1, time: Span::from_us(100) };
    d.limits.read_iops = u64::MAX;
    d.limits.program_rate = u64::MAX;
    d.queues.arbitration = Arbitration::WeightedUrgent;
    assert_eq!(trace(&d, false), base, "limits out of reach");
    let mut cached = device_config();
    cached.cache = Some(cache_config(256, 8, 1));
    let base = trace(&cached, false);
    let unreachable =
        ReadAheadConfig { trigger: u32::MAX, streams: 4, bytes: 1 << 20, ratio: 0.0, ghosts: None };
    cached.cache.as_mut().unwrap().read_ahead = Some(unreachable);
    assert_eq!(trace(&cached, false), base, "read-ahead out of reach");
}

#[test]
fn wrong_configurations_are_named() {
    let try_ = |change: &dyn Fn(&mut DeviceConfig)| {
        let mut d = device_config();
        change(&mut d);
        let nand = Nand::new(&nand_config(), Seed(1)).unwrap();
        Controller::new(&d, nand, None).err().map(|e| e.key.to_string())
    };
    assert_eq!(try_(&|_| ()), None);
    assert_eq!(try_(&|d| d.queues.burst = 3).as_deref(), Some("queues.burst"));
    assert_eq!(try_(&|d| d.queues.burst = 128).as_deref(), Some("queues.burst"));
    assert_eq!(
        try_(&|d| d.queues.guard = Some(GuardConfig::default())).as_deref(),
        Some("queues.guard")
    );
    let weighted = |d: &mut DeviceConfig| d.queues.arbitration = Arbitration::WeightedUrgent;
    let guarded = |guard: GuardConfig| {
        try_(&|d| {
            weighted(d);
            d.queues.guard = Some(guard.clone());
        })
    };
    assert_eq!(guarded(GuardConfig::default()), None);
    let none = GuardConfig { drain: 0, ..Default::default() };
    assert_eq!(guarded(none).as_deref(), Some("queues.guard.drain"));
    let none = GuardConfig { commands: 0, ..Default::default() };
    assert_eq!(guarded(none).as_deref(), Some("queues.guard.commands"));
    let lacking = |d: &mut DeviceConfig| {
        weighted(d);
        d.queues.weighted_urgent = false;
    };
    assert_eq!(try_(&lacking).as_deref(), Some("queues.arbitration"));
    assert_eq!(try_(&|d| d.queues.weights[1] = 0).as_deref(), Some("queues.weights"));
    assert_eq!(try_(&|d| d.queues.depth = 1).as_deref(), Some("queues.depth"));
    assert_eq!(try_(&|d| d.firmware.cores = 0).as_deref(), Some("firmware.cores"));
    assert_eq!(try_(&|d| d.cache = Some(cache_config(8, 8, 1))).as_deref(), Some("cache"));
    let mut h = Host::bare(&nand_config(), &device_config());
    h.queue(3, 16, QueuePriority::Medium);
    assert!(h.drive.create_queue(3, 4, 16, QueuePriority::Medium).is_err());
    assert!(h.drive.create_queue(4, 3, 16, QueuePriority::Medium).is_err());
    assert!(h.drive.create_queue(4, 4, 2048, QueuePriority::Medium).is_err());
    assert!(h.drive.create_queue(4, 4, 1, QueuePriority::Medium).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn commands_in_are_completions_out(seed in any::<u64>(), queues in 1u16..6, in_flight in 1u32..20, wrr in any::<bool>(), shuffle in any::<bool>()) {
        let mut d = device_config();
        d.queues.in_flight = in_flight;
        if wrr { d.queues.arbitration = Arbitration::WeightedUrgent; }
        let mut rng = Seed(seed).stream("test");
        let mut h = Host::bare(&nand_config(), &d);
        if shuffle { h.ctx.queue.shuffle_ties(seed); }
        h.fill_flash(32);
        let classes = [QueuePriority::Urgent, QueuePriority::High, QueuePriority::Medium, QueuePriority::Low];
        for id in 0..queues { h.queue(id, 2 + rng.below(30) as u32, classes[rng.below(4) as usize]); }
        let mut open = std::collections::BTreeSet::new();
        let mut sent = 0u64;
        for _ in 0..400 {
            let id = rng.below(u64::from(queues)) as u16;
            for _ in 0..rng.below(6) {
                if let Ok(cid) = h.put(id, Opcode::VectorRead, rng.below(1024), 4096) {
                    prop_assert!(open.insert((id, cid)), "seed {}", seed);
                    sent += 1;
                }
            }
            h.drive.doorbell(&mut h.ctx, id);
            for _ in 0..rng.below(40) { h.step(); }
            for done in h.done.drain(..) {
                prop_assert!(open.remove(&(done.posted.cqe.sq, done.posted.cqe.cid)), "seed {}", seed);
            }
        }
        for id in 0..queues { h.drive.doorbell(&mut h.ctx, id); }
        h.settle();
        for done in h.done.drain(..) {
            prop_assert!(open.remove(&(done.posted.cqe.sq, done.posted.cqe.cid)), "seed {}", seed);
        }
        prop_assert!(open.is_empty(), "seed {}", seed);
        let s = h.drive.stats(h.ctx.now);
        prop_assert_eq!(s.commands_in, s.commands_out);
        prop_assert_eq!(s.commands_out[6], sent);
    }
}

/// Commands that wait in their queues, with what the drive fetches at each step.
struct Watched {
    h: Host,
    /// By queue: when its commands arrived.
    waiting: Vec<std::collections::VecDeque<Time>>,
    fetched: Vec<u64>,
}

impl Watched {
    fn new(d: &DeviceConfig, priorities: &[QueuePriority]) -> Watched {
        let mut h = Host::bare(&nand_config(), d);
        h.fill_flash(32);
        for (id, &p) in priorities.iter().enumerate() {
            h.queue(id as u16, 1024, p);
        }
        let n = priorities.len();
        Watched { h, waiting: vec![Default::default(); n], fetched: vec![0; n] }
    }
    fn put(&mut self, sq: u16, address: u64) {
        if self.h.put(sq, Opcode::VectorRead, address, 4096).is_ok() {
            self.h.drive.doorbell(&mut self.h.ctx, sq);
            self.waiting[usize::from(sq)].push_back(self.h.ctx.now + Span(150));
        }
    }
    /// One event; the waits of what it fetched, by queue.
    fn step(&mut self) -> Option<Vec<(u16, Span)>> {
        if !self.h.step() {
            return None;
        }
        let now = self.h.ctx.now;
        let mut waits = Vec::new();
        for (sq, n) in self.h.drive.stats(now).fetched {
            let sq_ = usize::from(sq);
            for _ in self.fetched[sq_]..n {
                let arrived = self.waiting[sq_].pop_front().expect("what was fetched was there");
                waits.push((sq, now.since(arrived)));
            }
            self.fetched[sq_] = n;
        }
        Some(waits)
    }
}

/// Urgent queues that always have commands, and others that have few: with the guard the longest wait
/// is the age and the time of a drain; without it the others wait until the urgent ones are through.
#[test]
fn the_guard_bounds_the_wait_of_what_is_not_urgent() {
    let longest = |guard: Option<GuardConfig>| {
        let mut d = device_config();
        d.queues.arbitration = Arbitration::WeightedUrgent;
        d.queues.in_flight = 2;
        d.queues.guard = guard;
        let mut w = Watched::new(&d, &[QueuePriority::Urgent, QueuePriority::Medium]);
        let (mut others, mut urgent) = (Span::ZERO, Span::ZERO);
        (0..40).for_each(|i| w.put(0, i * 7));
        let mut sent = 0;
        while w.fetched[0] < 2000 {
            if w.waiting[0].len() < 30 {
                w.put(0, w.fetched[0] * 7 % 900);
            }
            if w.h.ctx.now >= Time::ZERO + Span::from_us(400) * sent {
                w.put(1, sent);
                sent += 1;
            }
            for (sq, wait) in w.step().expect("urgent commands are under way") {
                let sum = if sq == 1 { &mut others } else { &mut urgent };
                *sum = (*sum).max(wait);
            }
        }
        let stats = w.h.drive.stats(w.h.ctx.now);
        (others, urgent, w.fetched[1], stats.guard)
    };
    let (_, _, fetched, stats) = longest(None);
    assert_eq!((fetched, stats), (0, None), "urgent is strict");
    let age = Span::from_us(200);
    let (others, urgent, fetched, stats) = longest(Some(GuardConfig::default()));
    assert!(fetched > 20, "{fetched}");
    // A drain of one command, and the flash read that a slot comes free with.
    assert!(others > age && others < age + Span::from_us(60), "{others}");
    assert!(urgent < Span::from_ms(1), "{urgent}");
    let stats = stats.unwrap();
    assert!(stats.by_age > 20 && stats.by_count == 0 && stats.commands >= fetched, "{stats:?}");
    let sooner = GuardConfig { age: Span::from_us(50), ..Default::default() };
    assert!(longest(Some(sooner)).0 < Span::from_us(110));
}

/// The count: a queue that is full has its turns beside urgent ones that always have commands.
#[test]
fn a_full_queue_shares_with_urgent_ones_by_the_drain() {
    for drain in [1, 4, 8] {
        let mut d = device_config();
        d.queues.arbitration = Arbitration::WeightedUrgent;
        d.queues.in_flight = 4;
        d.queues.guard = Some(GuardConfig { drain, ..Default::default() });
        let n = fetched(&d, &[QueuePriority::Urgent, QueuePriority::Low], 800);
        assert!(n[0].abs_diff(n[1]) <= u64::from(drain) + 4, "drain {drain}: {n:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Random loads on queues of all classes. Debug builds assert at each fetch that nothing passes urgent
    /// commands but a drain, and that no queue past a threshold waits for more than a round of drains.
    #[test]
    fn queues_are_first_in_first_out_and_guarded(
        seed in any::<u64>(), in_flight in 1u32..6, commands in 1u32..12, drain in 1u32..12,
        guarded in any::<bool>(), burst in prop::sample::select(vec![0u32, 1, 4]),
    ) {
        use QueuePriority::{High, Low, Medium, Urgent};
        let mut d = device_config();
        d.queues.arbitration = Arbitration::WeightedUrgent;
        d.queues.in_flight = in_flight;
        d.queues.burst = burst;
        let guard = GuardConfig { commands, age: Span::from_us(100), drain, ..GuardConfig::default() };
        d.queues.guard = guarded.then_some(guard);
        let mut w = Watched::new(&d, &[Urgent, Medium, Low, Urgent, High, Medium]);
        let mut rng = Rng::from_seed(seed);
        let mut passed = 0;
        for _ in 0..4000 {
            if rng.below(3) == 0 {
                w.put(rng.below(6) as u16, rng.below(900));
            }
            let Some(waits) = w.step() else { continue };
            let now = w.h.ctx.now;
            let urgent = |w: &Watched| {
                [0, 3].iter().any(|&q: &usize| w.waiting[q].front().is_some_and(|&t| t < now))
            };
            let others = waits.iter().filter(|(sq, _)| !matches!(sq, 0 | 3)).count();
            if others > 0 && urgent(&w) {
                prop_assert!(guarded, "seed {}: urgent commands wait behind others", seed);
                passed += others;
            }
        }
        w.h.settle();
        let stats = w.h.drive.stats(w.h.ctx.now);
        prop_assert!(!guarded || passed as u64 <= stats.guard.unwrap().commands, "seed {}", seed);
        // With one command at a time completions come in the order of the fetches.
        for sq in 0..6 {
            let own = w.h.done.iter().filter(|d| d.posted.cqe.sq == sq).map(|d| d.posted.cqe.cid);
            prop_assert!(in_flight > 1 || own.is_sorted(), "seed {}", seed);
        }
        prop_assert!(w.h.done.len() > 1000, "seed {}: {}", seed, w.h.done.len());
    }
}

/// What crossed the link ahead of a program takes room until the program ends, and no longer than its way.
#[test]
fn staged_data_take_room_until_their_unit_is_programmed() {
    let g = Nand::new(&nand_config(), Seed(1)).unwrap().geometry;
    let unit = g.unit_bytes() as u32;
    assert!(unit > 3 * 4096);
    let device = DeviceConfig { staging_bytes: 3 * 4096, ..device_config() };
    let mut h = Host::bare(&nand_config(), &device);
    h.queue(0, 64, QueuePriority::Medium);
    assert_eq!(h.one(Opcode::VectorStage, 0, 16 * 4096).1, Status::InvalidField, "beyond a unit");
    let (took, status) = h.one(Opcode::VectorStage, 0, 2 * 4096);
    assert_eq!(status, Status::Success);
    assert!(took < nand_config().t_program.mean(), "{took:?}: nothing is programmed");
    assert_eq!(h.one(Opcode::VectorStage, 2, 8192).1, Status::CapacityExceeded);
    assert_eq!(h.one(Opcode::VectorStage, 2, 4096).1, Status::Success);
    assert_eq!(
        h.one(Opcode::VectorStage, u64::from(g.sectors_per_unit), 4096).1,
        Status::CapacityExceeded
    );
    assert_eq!(h.one(Opcode::VectorWrite, 0, unit).1, Status::Success);
    assert_eq!(
        h.one(Opcode::VectorStage, u64::from(g.sectors_per_unit), 3 * 4096).1,
        Status::Success
    );
    let mut none = Host::bare(&nand_config(), &device_config());
    none.queue(0, 64, QueuePriority::Medium);
    assert_eq!(none.one(Opcode::VectorStage, 0, 4096).1, Status::CapacityExceeded);
}

/// Orders of a collector on the host are for an FTL that obeys, of the length that their answer has; one that comes
/// too late ends at once with the answer, and one that waits is no command that others wait for.
#[test]
fn orders_of_a_collector_on_the_host_are_checked_and_answered() {
    let collect = |segment: u32| GcOrder::Collect { segment, sectors: 8 };
    let answer = collect(0).bytes(0);
    let nand = nand_config();
    let mut other = Host::with_ftl(&nand, &device_config(), &ftl_config());
    other.queue(0, 64, QueuePriority::Medium);
    let order = |h: &mut Host, order: GcOrder, bytes: u32| {
        let opcode = match order {
            GcOrder::Counts { .. } => Opcode::GcCounts,
            GcOrder::Collect { .. } => Opcode::GcCollect,
        };
        h.one(opcode, order.encode(), bytes).1
    };
    assert_eq!(order(&mut other, collect(0), answer), Status::InvalidField, "pblk takes no orders");

    let config = FssdConfig { buffer_bytes: 1 << 20, ..FssdConfig::default() };
    let ftl = FtlConfig { fssd: Some(config), ..ftl_config() };
    let mut h = Host::with_ftl(&nand, &device_config(), &ftl);
    h.queue(0, 64, QueuePriority::Medium);
    assert_eq!(order(&mut h, collect(0), answer), Status::InvalidField, "it does not obey yet");
    let of_drive = h.drive.ftl_mut().unwrap();
    let segments = of_drive.gc_shape().unwrap().segments;
    of_drive.ordered().unwrap().obey();
    assert_eq!(order(&mut h, collect(0), 512), Status::InvalidField, "of another length");
    assert_eq!(order(&mut h, collect(segments), answer), Status::InvalidField, "no such segment");
    let before = h.drive.stats(h.ctx.now).bytes_read;
    assert_eq!(order(&mut h, collect(1), answer), Status::Success);
    let report = h.drive.take_gc_report().expect("an answer");
    assert_eq!((report.victim, report.taken), (None, 0));
    assert_eq!(h.drive.take_gc_report(), None);
    assert_eq!(h.drive.stats(h.ctx.now).bytes_read - before, u64::from(answer));
    // Counts wait for something to collect, and reads and writes go on.
    let counts = GcOrder::Counts { waits: false };
    let held = h.submit(0, Opcode::GcCounts, counts.encode(), counts.bytes(segments));
    assert_eq!(h.one(Opcode::Write, 0, 4096).1, Status::Success);
    assert_eq!(h.one(Opcode::Read, 0, 4096).1, Status::Success);
    assert_eq!(order(&mut h, collect(1), answer), Status::InvalidField, "one order at a time");
    assert!(h.done.iter().all(|d| d.posted.cqe.cid != held));
    assert_eq!(h.drive.in_flight(), 1);
}
