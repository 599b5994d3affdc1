//! Random jobs on random hosts.

use super::*;

/// Random jobs, shapes, stacks and latencies: every I/O issued finishes once, its life sums up, and
/// nothing is left behind. `World` checks identifiers, lives and core times throughout.
pub fn random_run(seed: u64, shuffle: bool, polling: bool) -> (u64, u64, u64) {
    let mut rng = Rng::from_seed(seed);
    let mut config = stack(1 + rng.below(4) as u32);
    config.queues = rng.below(u64::from(config.cores) + 1) as u32;
    config.queue_depth = [2, 3, 8, 1024][rng.below(4) as usize];
    config.merge = rng.below(4) != 0;
    config.kernel = rng.below(5) != 0;
    config.time_slice = Span([1_000, 50_000, 3_000_000][rng.below(3) as usize]);
    config.max_request = [4096, 16384, 131072, 1 << 21][rng.below(4) as usize];
    if rng.below(3) == 0 {
        config.scheduler = rng.pick(&Scheduler::ALL[1..]);
        config.scheduler_tags = [1, 4, 256][rng.below(3) as usize];
        config.deadline.fifo_batch = 1 + rng.below(16) as u32;
        config.deadline.read_expire = Span(1 + rng.below(1_000_000));
    }
    if rng.below(4) == 0 {
        let c = &mut config.cost;
        (c.crossing, c.syscall, c.block, c.doorbell) = Default::default();
        (c.interrupt, c.interrupt_entry, c.wake_up, c.completion) = Default::default();
        (c.bio, c.dma_map, c.finish, c.aio_submit) = Default::default();
        (c.aio_getevents, c.scheduler, c.ipi) = Default::default();
    } else {
        config.cost.application = Span(rng.below(3_000));
        config.cost.idle_exit = Span(rng.below(2_000));
    }
    let total: u64 = 100 + rng.below(200);
    let mut jobs = Vec::new();
    let count = 1 + rng.below(6);
    for _ in 0..count {
        let engines = [Engine::Pvsync2, Engine::Libaio, Engine::Libaio, Engine::Null];
        let mut s = spec(engines[rng.below(4) as usize], 1 + rng.below(40) as u32);
        s.iodepth_batch = rng.below(20) as u32;
        s.iodepth_batch_complete_min = rng.below(10) as u32;
        s.iodepth_batch_complete_max = s.iodepth_batch_complete_min + rng.below(10) as u32;
        s.iodepth_low = rng.below(10) as u32;
        s.start = Time(rng.below(100_000));
        s.continue_on_error = true;
        let items = (0..total)
            .map(|_| match rng.below(40) {
                0 => Next::NotBefore { at: Time(rng.below(3_000_000)), quiesce: true },
                1 => Next::NotBefore { at: Time(rng.below(3_000_000)), quiesce: false },
                2 => io(Ddir::Sync, 0, 0),
                3 => io(Ddir::Trim, rng.below(100) << 12, 4096 << rng.below(12)),
                4 => io(Ddir::Read, rng.below(1000), 4096),
                5 => io(Ddir::Write, rng.below(100) << 12, 4096 * (1 + rng.below(800) as u32)),
                n if n % 2 == 0 => io(Ddir::Read, rng.below(64) << 12, 4096),
                _ => io(Ddir::Write, rng.below(64) << 12, 4096 * (1 + rng.below(4) as u32)),
            })
            .collect();
        jobs.push((s, list(items)));
    }
    if polling {
        poll_tests::randomize(&mut config, &mut jobs, &mut Rng::from_seed(seed ^ 2));
        background_tests::randomize(&mut config, &mut jobs, &mut Rng::from_seed(seed ^ 3));
    }
    let mut syncs = Rng::from_seed(seed ^ 4);
    for (s, _) in &mut jobs {
        s.sync = syncs.below(3) == 0;
        let ring = matches!(s.engine, Engine::Libaio | Engine::IoUring) && config.kernel;
        s.ring_syncs = ring && !s.hipri && syncs.below(2) == 0;
    }
    let mut device = Rng::from_seed(seed ^ 1);
    let spread = [1, 1_000, 100_000][rng.below(3) as usize];
    let latency = Box::new(move |_: &Sqe, now: Time| now + Span(1 + device.below(spread)));
    let mut ctx = Ctx::new();
    if shuffle {
        ctx.queue.shuffle_ties(seed);
    }
    let mut w = World {
        host: Host::<List>::new(&config, jobs, vec![DiskSpec::new(drive())]).unwrap(),
        ctx,
        commands: Vec::new(),
        free: Vec::new(),
        latency,
        status: Box::new(|_| Status::Success),
        coalesce: 1 + rng.below(4) as u32,
        posted: 0,
        finished: Vec::new(),
        keep: true,
        count: 0,
        log: Vec::new(),
        log_on: true,
        at_drive: BTreeMap::new(),
        vectors: BTreeMap::new(),
        messages: BTreeMap::new(),
        check: true,
    };
    w.host.start(&mut w.ctx);
    w.drain();
    if rng.below(3) == 0 {
        w.run_to(Time(rng.below(2_000_000)));
        w.stop();
    } else {
        w.run();
    }
    w.check_drained();
    for hctx in &w.host.block.hctxs {
        assert_eq!(hctx.at_rest(), (config.scheduler_tags, 0, 0));
    }
    let issued: u64 = w.host.stats(w.ctx.now).threads.iter().flat_map(|t| t.issued).sum();
    let done: u64 = w.host.threads.iter().filter_map(|t| t.source()).map(|s| s.done).sum();
    assert_eq!(done, w.count);
    assert!(issued - w.count <= count, "{issued} issued, {} finished", w.count);
    (w.ctx.now.0, w.count, w.host.counters.requests)
}

#[test]
fn random_jobs_get_every_io_back() {
    for seed in 0..1_000 {
        let result = std::panic::catch_unwind(|| random_run(seed, seed % 3 == 2, false));
        if let Err(e) = result {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(e);
        }
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    for seed in [3, 17, 99] {
        assert_eq!(random_run(seed, false, false), random_run(seed, false, false), "seed {seed}");
    }
}
