//! FlashShare's host against a fake drive.

use crate::config::{FlashShareConfig, FlashShareCost, Issue, MarkedBy};
use crate::poll_tests::costs;
use crate::tests::{List, World, drive, fixed, forever, io, list, stack};
use crate::*;
use wordline_base::{Ddir, IoClass, QueuePriority, Rng, Span, Time, Workload};
use wordline_nvme::{Opcode, Sqe};

fn critical(engine: Engine, depth: u32) -> ThreadSpec {
    let mut spec = ThreadSpec::new("critical", engine, depth);
    spec.class = IoClass::NONE.with_workload(Workload::Latency);
    spec
}
fn plain(engine: Engine, depth: u32) -> ThreadSpec {
    let mut spec = ThreadSpec::new("plain", engine, depth);
    spec.class = IoClass::NONE.with_workload(Workload::Throughput);
    spec
}

fn share(s: &mut StackConfig) {
    costs(s);
    s.cost.flashshare = FlashShareCost {
        set_attr: Span(0),
        get_attr: Span(0),
        merge: Span(130),
        hazard: Span(60),
        register_write: Span(110),
        accelerate: Span(210),
        detect: Span(310),
    };
}

fn reads(n: u64) -> List {
    list((0..n).map(|i| io(Ddir::Read, i * 8192, 4096)).collect())
}

fn run(s: &StackConfig, jobs: Vec<(ThreadSpec, List)>, latency: u64) -> World<List> {
    let mut w = World::with_ftl(s, drive(), jobs, None, fixed(latency));
    w.run();
    w.check_drained();
    w
}

fn latencies(w: &World<List>, thread: u32) -> Vec<u64> {
    let of = w.finished.iter().filter(|(f, _)| f.thread == thread);
    of.map(|(f, _)| f.completed.since(f.issued).0).collect()
}

/// Crossing to doorbell, and interrupt to return, of `tests::i7_8700`.
const SUBMIT: u64 = 150 + 550 + 250 + 400 + 200 + 150;
const INTERRUPT: u64 = 500 + 400 + 300 + 1300 + 300;

#[test]
fn a_critical_read_pays_for_no_merge_and_for_a_look_at_what_waits() {
    let mut s = stack(1);
    share(&mut s);
    s.flashshare.bypass = true;
    let w = run(&s, vec![(critical(Engine::Pvsync2, 1), reads(20))], 7_300);
    let want = SUBMIT - 130 + 60 + 7_300 + INTERRUPT;
    assert!(latencies(&w, 0).iter().all(|&l| l == want), "{:?} {want}", latencies(&w, 0));
    assert_eq!((w.host.counters.bypassed, w.host.counters.overtakes), (20, 0));
    // Others go as ever.
    let w = run(&s, vec![(plain(Engine::Pvsync2, 1), reads(20))], 7_300);
    assert!(latencies(&w, 0).iter().all(|&l| l == SUBMIT + 7_300 + INTERRUPT));
    assert_eq!(w.host.counters.bypassed, 0);
}

#[test]
fn a_queued_read_waits_for_a_worker() {
    let mut s = stack(1);
    share(&mut s);
    s.flashshare.issue = Issue::Queued;
    let w = run(&s, vec![(plain(Engine::Pvsync2, 1), reads(20))], 7_300);
    // The worker's context switch, on the core that the submitter has left.
    let want = SUBMIT + 1_300 + 7_300 + INTERRUPT;
    assert!(latencies(&w, 0).iter().all(|&l| l == want), "{:?} {want}", latencies(&w, 0));
    assert_eq!(w.host.counters.kblockd_runs, 20);
    // Who passes by does not.
    s.flashshare.bypass = true;
    let w = run(&s, vec![(critical(Engine::Pvsync2, 1), reads(20))], 7_300);
    assert_eq!(latencies(&w, 0)[1], SUBMIT - 130 + 60 + 7_300 + INTERRUPT);
}

/// The worker of a hardware queue that four cores keep full sends a flush before what waits there.
#[test]
fn a_flush_passes_by_the_software_queue() {
    let mut s = stack(4);
    share(&mut s);
    (s.flashshare.issue, s.queues) = (Issue::Queued, 1);
    let syncs = list((0..10).map(|_| io(Ddir::DataSync, 0, 0)).collect());
    let mut jobs = vec![(plain(Engine::Pvsync2, 1), syncs)];
    jobs.extend((0..3).map(|_| (plain(Engine::Libaio, 32), reads(2000))));
    let w = run(&s, jobs, 7_300);
    let slowest = latencies(&w, 0).into_iter().max().unwrap();
    let all = w.ctx.now.0;
    assert!(slowest * 10 < all, "a flush took {slowest} ns of {all}");
}

#[test]
fn bios_merge_in_the_software_queue() {
    let mut s = stack(1);
    share(&mut s);
    s.flashshare.issue = Issue::Queued;
    let mut job = plain(Engine::Libaio, 8);
    job.iodepth_batch = 8;
    job.iodepth_batch_complete_max = 8;
    // Neighbours, but not each with the one before, so that the plug cannot merge them.
    let order = [0, 8, 1, 9, 2, 10, 3, 11];
    let items = order.iter().map(|i| io(Ddir::Read, i * 4096, 4096)).collect();
    let w = run(&s, vec![(job, list(items))], 7_300);
    let sent: Vec<(u64, u32)> = w.log.iter().map(|(_, sqe)| (sqe.address, sqe.bytes)).collect();
    assert_eq!(sent, [(0, 4 * 4096), (8 * 4096, 4 * 4096)]);
    assert_eq!(w.host.counters.back_merges, 6);
}

/// The worker of a hardware queue that two cores share is on the first: what a bio of the second joins may be sent
/// at once.
#[test]
fn a_bio_joins_a_request_that_another_core_sends() {
    for dma_map in (100..2_000).step_by(30) {
        let mut s = stack(4);
        share(&mut s);
        (s.flashshare.issue, s.queues) = (Issue::Queued, 2);
        s.cost.dma_map = Span(dma_map);
        let mut job = plain(Engine::Libaio, 64);
        (job.iodepth_batch, job.iodepth_batch_complete_max) = (64, 64);
        job.cpus_allowed = vec![1];
        let order = (0..160).map(|i| i / 2 + 1_000 * (i % 2));
        let items = order.map(|i| io(Ddir::Read, i * 4096, 4096)).collect();
        let w = run(&s, vec![(job, list(items))], 7_300);
        assert_eq!(w.finished.len(), 160, "{dma_map}");
    }
}

#[test]
fn critical_requests_have_queues_of_their_own() {
    for completion_queues in [1, 2] {
        let mut s = stack(2);
        share(&mut s);
        (s.flashshare.queues, s.flashshare.completion_queues) = (true, completion_queues);
        let jobs =
            vec![(critical(Engine::Pvsync2, 1), reads(10)), (plain(Engine::Pvsync2, 1), reads(10))];
        let host = Host::new(&s, jobs, vec![DiskSpec::new(drive())]).unwrap();
        let queues: Vec<_> = host.queues().map(|q| (q.sq, q.cq, q.priority)).collect();
        use QueuePriority::{Medium, Urgent};
        let of = |sq: u16| if completion_queues == 2 { sq } else { sq - 2 };
        let want = [(0, 0, Medium), (1, 1, Medium), (2, of(2), Urgent), (3, of(3), Urgent)];
        assert_eq!(queues, want);
        let jobs =
            vec![(critical(Engine::Pvsync2, 1), reads(10)), (plain(Engine::Pvsync2, 1), reads(10))];
        let w = run(&s, jobs, 7_300);
        // Their own interrupt, on their own core.
        let of = |cq: u16| w.messages.get(&cq).copied().unwrap_or(0);
        assert_eq!([of(0) + of(2), of(1)], [10, 10], "{:?}", w.messages);
        assert_eq!(of(2) > 0, completion_queues == 2);
    }
}

#[test]
fn a_critical_task_looks_for_its_completions_and_no_message_is_sent() {
    for engine in [Engine::Pvsync2, Engine::Libaio, Engine::IoUring] {
        let mut s = stack(1);
        share(&mut s);
        s.flashshare =
            FlashShareConfig { bypass: true, queues: true, select_isr: true, ..s.flashshare };
        let w = run(&s, vec![(critical(engine, 4), reads(50))], 7_300);
        let c = &w.host.counters;
        assert_eq!((c.interrupts, c.polled_completions, c.mask_writes), (0, 50, 0), "{engine:?}");
        assert_eq!(w.messages.values().sum::<u64>(), 0);
        assert_eq!(w.host.stats(w.ctx.now).cores[0].idle, 0, "a core that looks is not idle");
    }
    // By one shared queue the message comes, and finds nothing.
    let mut s = stack(1);
    share(&mut s);
    s.flashshare =
        FlashShareConfig { queues: true, select_isr: true, completion_queues: 1, ..s.flashshare };
    let w = run(&s, vec![(critical(Engine::Pvsync2, 1), reads(50))], 7_300);
    let c = &w.host.counters;
    assert_eq!((c.interrupts, c.empty_interrupts, c.polled_completions), (50, 50, 50));
}

#[test]
fn who_looks_for_too_long_sleeps_until_the_interrupt() {
    let mut s = stack(1);
    share(&mut s);
    s.time_slice = Span::from_us(100);
    s.flashshare = FlashShareConfig {
        bypass: true,
        queues: true,
        select_isr: true,
        give_up: Span::from_us(300),
        ..s.flashshare
    };
    // A read takes 2 ms at the drive, and another task wants the core all the time.
    let burns = forever(vec![Next::Spin { until: Time(6_000_000) }]);
    let mut burn = ThreadSpec::new("burn", Engine::Null, 1);
    burn.start = Time(20_000);
    let jobs = vec![(critical(Engine::Pvsync2, 1), reads(2)), (burn, burns)];
    let mut w = World::with_ftl(&s, drive(), jobs, None, fixed(2_000_000));
    w.run_to(Time(7_000_000));
    let c = w.host.counters;
    assert_eq!((c.give_ups, c.interrupts, c.polled_completions), (2, 2, 0), "{c:?}");
    // Unmasked for the sleeper, and masked again by the next look.
    assert_eq!(c.mask_writes, 3);
    assert_eq!(w.messages.values().sum::<u64>(), 2);
    // The other task had the core for what the looks left of the wait.
    let threads = w.host.stats(w.ctx.now).threads;
    assert!(threads[1].user > 3_000_000, "{}", threads[1].user);
    w.stop();
}

#[test]
fn an_accelerator_takes_the_merge_the_doorbell_and_the_looks() {
    let mut s = stack(1);
    share(&mut s);
    s.flashshare = FlashShareConfig {
        bypass: true,
        queues: true,
        select_isr: true,
        accelerator: true,
        ..s.flashshare
    };
    let n = 50;
    let w = run(&s, vec![(critical(Engine::Pvsync2, 1), reads(n))], 7_300);
    // A register in place of block layer and doorbell; a wake-up in place of a look.
    let submit = 150 + 550 + 250 + 110 + 200;
    let reap = 310 + 300 + 300;
    let want = submit + 210 + 7_300 + reap;
    assert!(latencies(&w, 0).iter().all(|&l| l == want), "{:?} {want}", latencies(&w, 0));
    let stats = w.host.stats(w.ctx.now);
    let core = stats.cores[0];
    assert_eq!(core.idle, n * (210 + 7_300), "the core is halted while it waits");
    let set = 150;
    assert_eq!((core.system, core.irq), (n * (submit + reap) + set, 0));
    let sum: u64 = stats.functions[0].iter().map(|u| u.ns).sum();
    assert_eq!(sum, core.system);
    assert_eq!(w.messages.values().sum::<u64>(), 0);
}

#[test]
fn what_is_not_latency_critical_goes_past_the_accelerator() {
    let run = |accelerator| {
        let mut s = stack(1);
        share(&mut s);
        s.flashshare = FlashShareConfig { bypass: true, queues: true, accelerator, ..s.flashshare };
        let others = [Workload::None, Workload::Throughput].map(|workload| {
            let mut other = ThreadSpec::new("other", Engine::Pvsync2, 1);
            other.class = other.class.with_workload(workload);
            (other, reads(50))
        });
        let w = run(&s, others.into(), 7_300);
        [latencies(&w, 0), latencies(&w, 1)]
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn a_task_asks_for_its_attribute_once() {
    let mut s = stack(1);
    share(&mut s);
    s.cost.flashshare.set_attr = Span(170);
    let w = run(&s, vec![(critical(Engine::Pvsync2, 1), reads(3))], 7_300);
    assert_eq!(w.host.counters.attributes_set, 1);
    assert_eq!(w.finished[0].0.issued, Time(150 + 170), "before its first I/O");
    assert_eq!(w.host.counters.attributes_read, 0);
    // The tool looks before and after.
    s.flashshare.marked_by = MarkedBy::ChworkloadAttr;
    s.cost.flashshare.get_attr = Span(90);
    let w = run(&s, vec![(critical(Engine::Pvsync2, 1), reads(3))], 7_300);
    assert_eq!((w.host.counters.attributes_set, w.host.counters.attributes_read), (1, 2));
    assert_eq!(w.finished[0].0.issued, Time(3 * 150 + 170 + 2 * 90));
    s.flashshare.marked_by = MarkedBy::Itself;
    let w = run(&s, vec![(ThreadSpec::new("none", Engine::Pvsync2, 1), reads(3))], 7_300);
    assert_eq!(w.host.counters.attributes_set, 0);
}

/// The queue's only tag is taken for a while, so that a request waits: in the scheduler, behind another one, or
/// at the head of those that the scheduler has let go. Then a critical one comes. What goes to the drive.
fn hazard(first: Next, second: Next, behind: bool) -> (Vec<Sqe>, u64, u64) {
    let mut s = stack(1);
    share(&mut s);
    s.scheduler = Scheduler::MqDeadline;
    s.queue_depth = 2;
    s.max_request = 64 << 10;
    (s.flashshare.bypass, s.flashshare.queues) = (true, true);
    let mut busy = plain(Engine::Libaio, 3);
    busy.iodepth_batch = 3;
    let mut late = critical(Engine::Pvsync2, 1);
    late.start = Time(50_000);
    let far = |n: u64| io(Ddir::Read, n << 20, 4096);
    let items = if behind { vec![far(1), far(2), first] } else { vec![far(1), first] };
    let w = run(&s, vec![(busy, list(items)), (late, list(vec![second]))], 1_000_000);
    let c = w.host.counters;
    let near = |(_, sqe): &(Time, Sqe)| (sqe.address < 1 << 20).then_some(*sqe);
    (w.log.iter().filter_map(near).collect(), c.hazards_merged, c.hazards_ordered)
}

#[test]
fn hazards_are_merged_or_kept_in_order() {
    use Ddir::{Read, Write};
    const K: u64 = 1 << 10;
    let at = |n: u64| 64 * K + n;
    // Who waits; who comes; to how many commands they lead, 0 if they are no hazard.
    let table = [
        ((Write, at(0), 32 * K), (Read, at(4 * K), 4 * K), 2),
        ((Read, at(4 * K), 4 * K), (Write, at(0), 32 * K), 2),
        ((Read, at(0), 32 * K), (Read, at(4 * K), 4 * K), 1),
        ((Write, at(0), 32 * K), (Write, at(28 * K), 8 * K), 1),
        ((Write, at(0), 32 * K), (Write, at(0) - 4 * K, 8 * K), 1),
        ((Write, at(8 * K), 4 * K), (Write, at(0), 32 * K), 1),
        // Together they are more than a request may be.
        ((Write, at(0), 60 * K), (Write, at(56 * K), 32 * K), 2),
        ((Read, at(0), 60 * K), (Read, at(56 * K), 32 * K), 2),
        // They touch and do not overlap.
        ((Write, at(0), 32 * K), (Write, at(32 * K), 4 * K), 0),
        ((Read, at(0), 32 * K), (Read, at(32 * K), 4 * K), 0),
    ];
    for (waits, comes, commands) in table {
        for behind in [false, true] {
            let case = format!("{waits:?}, {comes:?}, {behind}");
            let of = |(ddir, at, len): (Ddir, u64, u64)| io(ddir, at, len as u32);
            let (sent, merged, ordered) = hazard(of(waits), of(comes), behind);
            let sent: Vec<_> = sent
                .iter()
                .map(|s| {
                    let ddir = if s.opcode == Opcode::Read { Read } else { Write };
                    (ddir, s.address, u64::from(s.bytes))
                })
                .collect();
            let (begin, end) = (waits.1.min(comes.1), (waits.1 + waits.2).max(comes.1 + comes.2));
            match commands {
                0 => assert_eq!(sent, [comes, waits], "{case}"),
                1 => assert_eq!(sent, [(waits.0, begin, end - begin)], "{case}"),
                _ => assert_eq!(sent, [waits, comes], "{case}"),
            }
            // From the scheduler to those let go, and then behind them.
            let steps = if commands < 2 { 0 } else { 1 + u64::from(behind) };
            assert_eq!((merged, ordered), (u64::from(commands == 1), steps), "{case}");
        }
    }
}

/// Random tasks of both classes on the same few sectors of one core or two, under every scheduler and part of
/// FlashShare. An older request on the same sectors is never overtaken (`issue` asserts it), everything ends,
/// and nobody looks for what comes by interrupt.
#[test]
fn random_mixes_of_classes_keep_their_order_and_end() {
    let (mut merged, mut ordered, mut sleepers) = (0, 0, 0);
    for seed in 0..1_000u64 {
        let mut rng = Rng::from_seed(seed);
        let mut s = stack(1 + rng.below(3) as u32);
        share(&mut s);
        // One hardware queue may be of several cores, whose worker is on the first.
        s.queues = (rng.below(3) as u32).min(s.cores);
        s.queue_depth = [2, 3, 6, 1024][rng.below(4) as usize];
        s.scheduler = [Scheduler::None, Scheduler::MqDeadline, Scheduler::Kyber, Scheduler::Bfq]
            [rng.below(4) as usize];
        let queued = rng.below(2) == 0 && s.scheduler == Scheduler::None;
        s.flashshare = FlashShareConfig {
            issue: if queued { Issue::Queued } else { Issue::Direct },
            bypass: rng.below(4) > 0,
            queues: rng.below(4) > 0,
            completion_queues: 1 + rng.below(2) as u32,
            select_isr: rng.below(2) == 0,
            give_up: Span::from_us([5, 1000][rng.below(2) as usize]),
            accelerator: rng.below(3) == 0,
            ..FlashShareConfig::default()
        };
        s.time_slice = Span::from_us([20, 3000][rng.below(2) as usize]);
        s.scheduler_tags = [4, 256][rng.below(2) as usize];
        s.max_request = [8192, 32 << 10, 128 << 10][rng.below(3) as usize];
        let jobs = (0..2 + rng.below(4))
            .map(|j| {
                let engine =
                    [Engine::Pvsync2, Engine::Libaio, Engine::IoUring][rng.below(3) as usize];
                let depth = 1 + rng.below(8) as u32;
                let mut job =
                    if j % 2 == 0 { critical(engine, depth) } else { plain(engine, depth) };
                job.iodepth_batch = 1 + rng.below(u64::from(depth)) as u32;
                job.iodepth_batch_complete_max = depth;
                // In order and small, requests of several cores become one in a scheduler.
                let in_order = rng.below(3) == 0;
                let items = (0..40).map(|i| {
                    let ddir = match rng.below(20) {
                        0 => Ddir::Sync,
                        1 => Ddir::Trim,
                        n if n % 2 == 0 && !in_order => Ddir::Read,
                        _ => Ddir::Write,
                    };
                    let (offset, len) = match in_order {
                        true => (i * 2 + rng.below(2), 512),
                        false => (rng.below(64), 512 * (1 + rng.below(40)) as u32),
                    };
                    io(ddir, 512 * offset, if ddir == Ddir::Sync { 0 } else { len })
                });
                (job, list(items.collect()))
            })
            .collect();
        let mut latencies = Rng::from_seed(seed + 1_000_000);
        let latency = Box::new(move |_: &Sqe, now: Time| now + Span(500 + latencies.below(40_000)));
        let mut w = World::with_ftl(&s, drive(), jobs, None, latency);
        w.keep = false;
        w.run();
        if !w.host.idle() {
            println!("seed {seed}: {:?} {:?} {}", s.flashshare, s.scheduler, s.queue_depth);
        }
        w.check_drained();
        let c = w.host.counters;
        merged += c.hazards_merged;
        ordered += c.hazards_ordered;
        sleepers += c.mask_writes;
        assert!(w.host.threads.iter().all(|t| t.driver.awaited() == 0), "seed {seed}");
        assert!(w.host.block.hctxs.iter().all(|h| h.at_rest().2 == 0), "seed {seed}");
    }
    assert!(merged > 100 && ordered > 100 && sleepers > 100, "{merged} {ordered} {sleepers}");
}

#[test]
fn settings_of_flashshare_that_do_not_go_together_are_refused() {
    let refused = |change: &dyn Fn(&mut StackConfig, &mut DriveInfo, &mut ThreadSpec)| {
        let (mut s, mut drive) = (stack(2), drive());
        let mut job = critical(Engine::Pvsync2, 1);
        share(&mut s);
        s.flashshare.queues = true;
        change(&mut s, &mut drive, &mut job);
        match Host::new(&s, vec![(job, reads(1))], vec![DiskSpec::new(drive)]) {
            Ok(_) => panic!("not refused"),
            Err(error) => error.to_string(),
        }
    };
    let text = refused(&|s, _, _| s.kernel = false);
    assert_eq!(
        text,
        "stack.flashshare.queues is the kernel's, and stack.kernel is false: take a stack with a kernel, as interrupt"
    );
    let text = refused(&|_, _, job| job.engine = Engine::Spdk);
    assert_eq!(
        text,
        "stack.flashshare.queues is the kernel's, and SPDK takes the drive from it: another stack, as interrupt"
    );
    let text = refused(&|_, drive, _| drive.weighted_urgent = false);
    assert!(text.contains("queues.arbitration = weighted-urgent"), "{text}");
    let text = refused(&|_, drive, _| drive.queues = 1);
    assert_eq!(text, "stack.flashshare.queues needs two queue pairs, the drive has 1 left");
    let text = refused(&|s, _, _| s.flashshare.completion_queues = 3);
    assert_eq!(text, "stack.flashshare.completion_queues must be 1 or 2");
    let text = refused(&|s, _, _| {
        s.flashshare.issue = Issue::Queued;
        s.scheduler = Scheduler::MqDeadline;
    });
    assert!(text.contains("flashshare.issue must be direct with an I/O scheduler"), "{text}");
}
