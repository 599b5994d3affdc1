//! Jobs: errors, batches, reapers, time, stop; and drives without a kernel.

use super::*;

#[test]
fn bad_ios_fail_and_stop_the_job_unless_told_otherwise() {
    let items = vec![
        io(Ddir::Read, 100, 4096),
        io(Ddir::Read, 0, 100),
        io(Ddir::Write, 0, 0),
        io(Ddir::Read, 1 << 30, 512),
        io(Ddir::Read, u64::MAX - 511, 4096),
        io(Ddir::Trim, 0, 8192),
        io(Ddir::Read, 512, 512),
    ];
    for engine in [Engine::Pvsync2, Engine::Libaio] {
        for kernel in [true, false] {
            for go_on in [true, false] {
                let mut config = stack(1);
                config.kernel = kernel;
                let mut s = spec(engine, 1);
                s.continue_on_error = go_on;
                let mut w = world(&config, vec![(s, list(items.clone()))], fixed(10_000));
                w.run();
                w.check_drained();
                let ok: Vec<bool> = w.finished.iter().map(|(f, _)| f.ok).collect();
                if go_on {
                    assert_eq!(ok, [false, false, false, false, false, true, true]);
                    assert_eq!(w.log[0].1.opcode, Opcode::Deallocate);
                } else {
                    assert_eq!(ok, [false]);
                }
            }
        }
    }
    // A media error reaches the application.
    let job = (spec(Engine::Libaio, 4), list(reads(20)));
    let mut w = world(&stack(1), vec![job], fixed(10_000));
    w.status = Box::new(|_| Status::UnrecoveredRead);
    w.run();
    w.check_drained();
    assert!(w.finished.len() < 20 && w.finished.iter().all(|(f, _)| !f.ok));
}

#[test]
fn null_completes_at_once() {
    let mut config = stack(1);
    config.cost.application = Span(700);
    let mut w = world(&config, vec![(spec(Engine::Null, 1), list(reads(10)))], fixed(1));
    w.run();
    w.check_drained();
    assert_eq!((w.ctx.now.0, w.finished.len(), w.log.len()), (7_000, 10, 0));
}

/// fio 3.33: `--ioengine=null --iodepth=16`, and with `--iodepth_batch=8`.
#[test]
fn null_queues_a_batch_at_depth() {
    for (depth, batch, level, calls) in [(1, 1, 0, [0, 0]), (16, 1, 0, [20, 0]), (16, 8, 3, [1, 2])]
    {
        let mut s = spec(Engine::Null, depth);
        s.iodepth_batch = batch;
        let mut w = world(&stack(1), vec![(s, list(reads(20)))], fixed(1));
        w.run();
        let stats = &w.host.stats(w.ctx.now).threads[0];
        // Two batches of eight, and four that the end of the job leaves.
        let last = if batch == 8 { 4 } else { 0 };
        assert_eq!(stats.iodepth_level[level], 20 - last, "{depth} {batch}");
        assert_eq!(stats.iodepth_level.iter().sum::<u64>(), 20);
        for of in [stats.iodepth_submit, stats.iodepth_complete] {
            assert_eq!([of[1], of[2]], calls, "{depth} {batch}");
        }
    }
}

#[test]
fn batches_of_completions_and_the_low_mark_follow_fio() {
    let mut s = spec(Engine::Libaio, 16);
    s.iodepth_batch = 8;
    s.iodepth_batch_complete_min = 4;
    s.iodepth_batch_complete_max = 8;
    s.iodepth_low = 8;
    let mut w = world(&stack(1), vec![(s, list(reads(160)))], fixed(30_000));
    w.run();
    w.check_drained();
    let stats = &w.host.stats(w.ctx.now).threads[0];
    assert_eq!(w.finished.len(), 160);
    assert_eq!(stats.submit_calls, 20);
    assert_eq!(stats.iodepth_submit[2], 20);
    assert!(stats.complete_calls >= 20 && stats.complete_calls <= 41, "{stats:?}");

    // A batch is waited for, and at the end what is left of the job.
    let late = |f: &Finished| f.offset == 7919 * 4096;
    for (reads_of_job, min, why) in [(4, 1, Why::Drain), (8, 4, Why::Batch)] {
        let mut s = spec(Engine::Libaio, 8);
        s.iodepth_batch_complete_min = min;
        s.iodepth_batch_complete_max = min;
        let latency = |sqe: &Sqe, now: Time| {
            now + Span(if sqe.address == 7919 * 4096 { 900_000 } else { 30_000 })
        };
        let mut w = world(&stack(1), vec![(s, list(reads(reads_of_job)))], Box::new(latency));
        w.run();
        let waited = |(_, l): &&(Finished, Life)| {
            let of = |w| l.steps().iter().any(|s| s.why == w);
            assert!(!of(Why::Batch) || !of(Why::Drain));
            of(why)
        };
        let n = w.finished.iter().filter(|f| !late(&f.0)).filter(waited).count();
        assert!(n >= 3, "{why:?}: {n} of {}", w.finished.len());
    }

    // Polling: io_getevents never sleeps, so the core is busy throughout. Nor does io_uring_enter.
    for (engine, hipri) in
        [(Engine::Libaio, false), (Engine::IoUring, false), (Engine::IoUring, true)]
    {
        let mut config = stack(1);
        crate::poll_tests::costs(&mut config);
        let mut s = spec(engine, 1);
        (s.iodepth_batch_complete_min, s.hipri) = (0, hipri);
        let mut w = world(&config, vec![(s, list(reads(20)))], fixed(100_000));
        w.run();
        w.check_drained();
        let stats = w.host.stats(w.ctx.now);
        assert_eq!(stats.cores[0].idle, 0, "{engine:?}, hipri {hipri}");
        // A call after the other, of 300 ns and, where it polls, a look.
        let call = config.cost.crossing + config.cost.uring.enter;
        let look = config.cost.poll.blk_mq_poll + config.cost.poll.nvme_poll;
        let calls = 20 * (100_000 / (call.0 + if hipri { look.0 } else { 0 }));
        let entered = stats.functions[0][crate::function::Function::UringEnter as usize].calls;
        let most = if engine == Engine::IoUring { calls * 21 / 20 } else { 0 };
        let told = format!("{engine:?}, hipri {hipri}: {entered} of {calls}");
        assert!((most * 9 / 10..=most).contains(&entered), "{told}");
    }
}

/// An open loop at twice what the drive serves: the submitter is always late and short of tags.
/// A drive faster than the rest of io_submit: the reaper has I/Os back before the call that sent them
/// returns, which must not look for them again.
#[test]
fn a_reaper_may_be_faster_than_the_submission_call() {
    for batch in [4, 16] {
        let mut s = spec(Engine::Libaio, 32);
        (s.reaper, s.iodepth_batch) = (true, batch);
        let mut config = stack(2);
        (config.cost.interrupt_entry, config.cost.interrupt) = (Span(1), Span(1));
        (config.cost.completion, config.cost.wake_up, config.cost.ipi) =
            (Span(1), Span(1), Span(1));
        // The vector is on the reaper's core.
        config.queues = 2;
        let mut w = world(&config, vec![(s, list(reads(400)))], fixed(1));
        w.run();
        w.check_drained();
        assert_eq!(w.finished.len(), 400);
        let early = w.finished.iter().filter(|(f, _)| f.submitted == f.completed).count();
        assert!(early > 0, "batch {batch}: none was back before its call");
    }
}

#[test]
fn a_reaper_keeps_completions_from_waiting_for_the_submitter() {
    let items: Vec<Next> = (0..2_000u64)
        .flat_map(|i| {
            let at = Time(i * 5_000);
            [Next::NotBefore { at, quiesce: false }, io(Ddir::Read, i * 4096, 4096)]
        })
        .collect();
    let run = |cores: u32, reaper: bool| {
        let mut config = stack(cores);
        config.queue_depth = 33;
        let mut s = spec(Engine::Libaio, 4096);
        s.reaper = reaper;
        // One command at a time, 10 us each.
        let mut free = Time::ZERO;
        let serial = move |_: &Sqe, now: Time| {
            free = free.max(now) + Span(10_000);
            free
        };
        let mut w = world(&config, vec![(s, list(items.clone()))], Box::new(serial));
        w.run();
        w.check_drained();
        assert_eq!(w.finished.len(), 2_000);
        assert!(w.host.counters.tag_waits > 1_000);
        let stats = &w.host.stats(w.ctx.now).threads[0];
        assert_eq!(stats.complete_calls, if reaper { 2_000 } else { stats.complete_calls });
        let all = w.finished.iter().map(|(_, l)| spent(l, Layer::Completion));
        (all.clone().sum::<u64>() / 2_000, all.max().unwrap())
    };
    let c = i7_8700();
    // Handler, wake-up by another core or in turn, and one io_getevents.
    let handler = c.interrupt_entry.0 + c.interrupt.0 + c.completion.0;
    let reap = c.wake_up.0 + c.crossing.0 + c.aio_getevents.0 + c.finish.0;
    let one = handler + c.ipi.0 + reap;
    assert_eq!(run(2, true), (one, one));
    let (mean, _) = run(2, false);
    assert!(mean > 20 * one, "without a reaper {mean} ns, reaping costs {one}");
    // On one core the two take turns.
    let (mean, _) = run(1, true);
    assert!(mean < 2 * one, "{mean} ns on one core");
}

#[test]
fn timed_sources_wait_and_quiesce() {
    // Open loop: arrivals every 5 us on a drive of 100 us; the depth is not the limit.
    let items: Vec<Next> = (0..100u64)
        .flat_map(|i| {
            let at = Time(i * 5_000);
            [Next::NotBefore { at, quiesce: false }, io(Ddir::Read, i * 4096, 4096)]
        })
        .collect();
    for kernel in [true, false] {
        let mut config = stack(1);
        config.kernel = kernel;
        let job = (spec(Engine::Libaio, 256), list(items.clone()));
        let mut w = world(&config, vec![job], fixed(100_000));
        w.run();
        w.check_drained();
        assert_eq!(w.finished.len(), 100);
        let last = w.log.last().unwrap().0;
        assert!(last.0 < 99 * 5_000 + 20_000, "{last:?}");
    }
    // fio's rate: everything in flight is reaped before it sleeps.
    let items: Vec<Next> = (0..10u64)
        .flat_map(|i| {
            let at = Time(i * 120_000 + 30_000);
            [io(Ddir::Read, i * 4096, 4096), Next::NotBefore { at, quiesce: true }]
        })
        .collect();
    for kernel in [true, false] {
        let mut config = stack(1);
        config.kernel = kernel;
        let job = (spec(Engine::Libaio, 256), list(items.clone()));
        let mut w = world(&config, vec![job], fixed(100_000));
        w.run();
        w.check_drained();
        assert_eq!(w.finished.len(), 10);
        assert!(w.log.windows(2).all(|p| p[1].0.since(p[0].0).0 >= 100_000));
    }
}

#[test]
fn jobs_start_at_their_time_and_stop_drains() {
    let mut late = spec(Engine::Libaio, 8);
    late.start = Time(1_000_000);
    let mut never = spec(Engine::Libaio, 8);
    never.start = Time(1_000_000_000);
    let jobs = vec![
        (spec(Engine::Libaio, 8), forever(reads(10))),
        (late, forever(reads(10))),
        (never, forever(reads(10))),
    ];
    let mut w = world(&stack(2), jobs, fixed(70_000));
    w.run_to(Time(2_000_000));
    assert!(!w.host.idle());
    w.stop();
    assert!(w.finished.iter().all(|(f, _)| f.thread != 1 || f.issued >= Time(1_000_000)));
    assert!(w.finished.iter().any(|(f, _)| f.thread == 1));
    assert!(w.finished.iter().all(|(f, _)| f.thread != 2));
}

#[test]
fn without_a_kernel_depth_over_latency_is_the_rate() {
    let mut config = stack(1);
    config.kernel = false;
    let mut w = world(&config, vec![(spec(Engine::Libaio, 32), forever(reads(64)))], fixed(64_000));
    w.run_to(Time(64_000 * 100 - 1));
    assert_eq!(w.count, 32 * 99);
    assert!(w.finished.iter().all(|(_, l)| l.latency().0 == 64_000));
    w.stop();
    // A queue of 9 entries takes 8 commands.
    config.queue_depth = 9;
    let mut w = world(&config, vec![(spec(Engine::Libaio, 32), forever(reads(64)))], fixed(64_000));
    w.run_to(Time(64_000 * 100 - 1));
    assert_eq!(w.count, 8 * 99);
    w.stop();
    // Large I/Os become several commands.
    let job = (spec(Engine::Libaio, 2), list(vec![io(Ddir::Write, 0, 1 << 20); 10]));
    let mut w = world(&config, vec![job], fixed(64_000));
    w.run();
    w.check_drained();
    assert_eq!((w.log.len(), w.finished.len()), (80, 10));
}

#[test]
fn priorities_belong_to_queues_of_jobs() {
    use wordline_nvme::QueuePriority::*;
    let mut config = stack(1);
    config.kernel = false;
    let job = |p| {
        let mut s = spec(Engine::Libaio, 1);
        s.class = s.class.with_queue(p);
        (s, list(vec![]))
    };
    let w = world(&config, vec![job(Urgent), job(Low)], fixed(1));
    assert_eq!(w.host.queues().map(|q| q.priority).collect::<Vec<_>>(), [Urgent, Low]);
    config.queues = 1;
    let e =
        Host::<List>::new(&config, vec![job(Urgent), job(Low)], vec![DiskSpec::new(drive())]).err();
    assert_eq!(refused(e), "prioclass");
    config.kernel = true;
    let e = Host::<List>::new(&config, vec![job(Urgent)], vec![DiskSpec::new(drive())]).err();
    assert_eq!(refused(e), "prioclass");
}

/// Queues that nobody can use are refused; fewer than asked for are told.
#[test]
fn queues_above_what_there_is_are_refused_or_told() {
    let host = |config: &StackConfig, queues: u32, engine| {
        let jobs = (0..3).map(|_| (spec(engine, 1), list(reads(1)))).collect();
        Host::new(config, jobs, vec![DiskSpec::new(DriveInfo { queues, ..drive() })])
    };
    for key in ["queues", "poll_queues"] {
        let with = |n| match key {
            "queues" => StackConfig { queues: n, ..stack(4) },
            _ => StackConfig { poll_queues: n, ..stack(4) },
        };
        assert!(host(&with(4), 128, Engine::Libaio).is_ok());
        assert_eq!(refused(host(&with(5), 128, Engine::Libaio).err()), key);
    }
    let polled = StackConfig { poll_queues: 1, ..stack(4) };
    assert_eq!(refused(host(&polled, 128, Engine::Spdk).err()), "poll_queues");
    let polled = StackConfig { kernel: false, ..polled };
    assert_eq!(refused(host(&polled, 128, Engine::Libaio).err()), "poll_queues");

    let told = |config: &StackConfig, queues| {
        let host = host(config, queues, Engine::Libaio).unwrap();
        host.fewer_queues().collect::<Vec<_>>()
    };
    let asks = StackConfig { queues: 4, ..stack(4) };
    assert_eq!(told(&asks, 4), []);
    assert_eq!(told(&asks, 2), [(4, 2, "the drive has no more")]);
    assert_eq!(
        told(&StackConfig { poll_queues: 1, ..asks.clone() }, 4),
        [(4, 3, "the drive has no more")]
    );
    let direct = StackConfig { kernel: false, ..asks };
    assert_eq!(told(&direct, 8), [(4, 3, "each job has one of its own")]);
    assert_eq!(told(&direct, 2), [(4, 2, "the drive has no more")]);
    assert_eq!(told(&stack(4), 2), [], "one a core is what is asked for");
}
