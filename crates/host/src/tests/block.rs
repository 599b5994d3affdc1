//! The block layer: merges, plug, splits, tags, flushes, mq-deadline.

use super::*;

fn sequential(n: u64, ddir: Ddir) -> Vec<Next> {
    (0..n).map(|i| io(ddir, i * 4096, 4096)).collect()
}

#[test]
fn one_io_submit_merges_contiguous_ios_up_to_max_request() {
    for (batch, queues, sizes) in [
        (16, 1, vec![16 * 4096]),
        (16, 0, vec![16 * 4096]),
        (64, 0, vec![32 * 4096, 32 * 4096]),
        (1, 0, vec![4096; 16]),
    ] {
        let mut config = stack(2);
        config.queues = queues;
        let mut s = spec(Engine::Libaio, 64);
        s.iodepth_batch = batch;
        s.iodepth_batch_complete_max = 64;
        let n = u64::from(batch.max(16));
        let mut w = world(&config, vec![(s, list(sequential(n, Ddir::Write)))], fixed(10_000));
        w.run();
        w.check_drained();
        let got: Vec<u32> = w.log.iter().map(|(_, s)| s.bytes).collect();
        assert_eq!(got, sizes, "batch {batch}, queues {queues}");
        assert_eq!(w.finished.len() as u64, n);
        let c = w.host.counters;
        assert_eq!(c.back_merges, n - sizes.len() as u64);
    }
    // Backwards: front merges. Off: none.
    let mut config = stack(1);
    let mut s = spec(Engine::Libaio, 16);
    s.iodepth_batch = 16;
    let mut items = sequential(16, Ddir::Read);
    items.reverse();
    let mut w = world(&config, vec![(s.clone(), list(items.clone()))], fixed(10_000));
    w.run();
    assert_eq!((w.log.len(), w.log[0].1.bytes, w.log[0].1.address), (1, 65536, 0));
    assert_eq!(w.host.counters.front_merges, 15);
    config.merge = false;
    let mut w = world(&config, vec![(s, list(items))], fixed(10_000));
    w.run();
    w.check_drained();
    assert_eq!(w.log.len(), 16);
}

#[test]
fn the_plug_of_a_single_queue_holds_sixteen_and_sorts_them() {
    let mut s = spec(Engine::Libaio, 32);
    s.iodepth_batch = 32;
    let items: Vec<Next> = (0..32u64).rev().map(|i| io(Ddir::Read, i * 65536, 4096)).collect();
    let mut config = stack(2);
    config.queues = 1;
    let mut w = world(&config, vec![(s.clone(), list(items.clone()))], fixed(10_000));
    w.run();
    w.check_drained();
    let order: Vec<u64> = w.log.iter().map(|(_, s)| s.address / 65536).collect();
    let expected: Vec<u64> = (16..32).chain(0..16).collect();
    assert_eq!(order, expected);
    assert_eq!(w.host.counters.plug_flushes, 2);
    // Several queues: the plug holds one request, nothing is sorted.
    let mut w = world(&stack(2), vec![(s, list(items))], fixed(10_000));
    w.run();
    let order: Vec<u64> = w.log.iter().map(|(_, s)| s.address / 65536).collect();
    assert_eq!(order, (0..32).rev().collect::<Vec<u64>>());
}

#[test]
fn large_ios_split_and_join() {
    for (engine, len, parts) in [
        (Engine::Pvsync2, 512 << 10, 4),
        (Engine::Libaio, 512 << 10, 4),
        (Engine::Pvsync2, 3 << 20, 24),
        (Engine::Libaio, (1 << 20) + 4096, 9),
    ] {
        let job = (spec(engine, 1), list(vec![io(Ddir::Read, 1 << 20, len)]));
        // The second command is the slowest.
        let mut n = 0;
        let latency = Box::new(move |_: &Sqe, now: Time| {
            n += 1;
            now + Span(if n == 2 { 500_000 } else { 20_000 })
        });
        let mut w = world(&stack(1), vec![job], latency);
        w.run();
        w.check_drained();
        assert_eq!(w.log.len(), parts, "{len}");
        assert_eq!(w.log.iter().map(|(_, s)| s.bytes).sum::<u32>(), len);
        assert!(w.log.iter().all(|(_, s)| s.bytes <= 128 << 10));
        let (f, life) = &w.finished[0];
        assert_eq!(life.latency(), f.completed.since(f.issued));
        assert_eq!(spent(life, Layer::Nand), 500_000);
        assert_eq!(w.host.counters.splits, 1);
    }
}

#[test]
fn tags_run_out_and_are_handed_over() {
    let mut config = stack(1);
    config.queue_depth = 5;
    let jobs = (0..3).map(|_| (spec(Engine::Libaio, 8), list(reads(100)))).collect();
    let mut w = world(&config, jobs, fixed(100_000));
    w.run();
    w.check_drained();
    assert_eq!(w.finished.len(), 300);
    assert!(w.host.counters.tag_waits > 20);
    // Never more than depth - 1 at the drive: 300 I/Os in rounds of 4.
    assert!(w.ctx.now.0 >= 300 / 4 * 100_000);
    assert!(w.finished.iter().any(|(_, l)| l.steps().iter().any(|s| s.why == Why::Tag)));
}

#[test]
fn flushes_wait_share_and_are_dropped_without_a_cache() {
    // libaio: the flush sends what is queued first and is a call of its own.
    let mut s = spec(Engine::Libaio, 8);
    s.iodepth_batch = 4;
    let items = vec![
        io(Ddir::Write, 0, 4096),
        io(Ddir::Write, 8192, 4096),
        io(Ddir::Sync, 0, 0),
        io(Ddir::Write, 65536, 4096),
    ];
    let mut w = world(&stack(1), vec![(s, list(items.clone()))], fixed(10_000));
    w.run();
    w.check_drained();
    let ops: Vec<Opcode> = w.log.iter().map(|(_, s)| s.opcode).collect();
    assert_eq!(ops, [Opcode::Write, Opcode::Write, Opcode::Flush, Opcode::Write]);
    assert_eq!(w.finished.len(), 4);
    let of_flush = |w: &World<List>| {
        let life = &w.finished.iter().find(|(_, l)| l.ddir == Ddir::Sync).unwrap().1;
        life.spent()[Layer::Block as usize]
    };
    let with_request = of_flush(&w);

    let mut d = drive();
    d.volatile_cache = false;
    let job = (spec(Engine::Pvsync2, 1), list(items));
    let mut w: World<List> = World::with_ftl(&stack(1), d, vec![job], None, fixed(10_000));
    w.run();
    w.check_drained();
    assert_eq!(w.log.len(), 3);
    assert_eq!(w.finished.len(), 4);
    // The bio alone: it ends before a request is made of it. A request is sent by a worker, which wakes up first.
    let cost = &stack(1).cost;
    let request = cost.block.0 + cost.wake_up.0;
    assert_eq!((of_flush(&w), with_request), (cost.bio.0, cost.bio.0 + request));

    // Four jobs on one core's queue: one flush at the drive at a time, the others share the next.
    let jobs =
        (0..4).map(|_| (spec(Engine::Pvsync2, 1), list(vec![io(Ddir::DataSync, 0, 0)]))).collect();
    let mut w = world(&stack(1), jobs, fixed(100_000));
    w.run();
    w.check_drained();
    assert_eq!((w.log.len(), w.finished.len()), (2, 4));
    assert_eq!(w.host.counters.shared_flushes, 3);
}

#[test]
fn mq_deadline_merges_across_calls_and_prefers_reads() {
    // One tag: what waits in the scheduler is merged and sorted.
    let mut config = stack(1);
    config.scheduler = Scheduler::MqDeadline;
    config.queue_depth = 2;
    let job = (spec(Engine::Libaio, 32), list(sequential(32, Ddir::Write)));
    let mut w = world(&config, vec![job], fixed(100_000));
    w.run();
    w.check_drained();
    assert_eq!(w.finished.len(), 32);
    // The first alone; the second was dispatched and found no tag, and what waits on
    // hctx->dispatch takes no merges; then all that came meanwhile in one.
    let sizes: Vec<u32> = w.log.iter().map(|(_, s)| s.bytes / 4096).collect();
    assert_eq!(sizes, [1, 1, 30]);
    assert!(w.finished.iter().any(|(_, l)| l.steps().iter().any(|s| s.why == Why::Plugged)));

    let scattered =
        |ddir, n: u64| (0..n).map(|i| io(ddir, (i * 37 % 101) << 16, 4096)).collect::<Vec<_>>();
    let jobs = vec![
        (spec(Engine::Libaio, 16), list(scattered(Ddir::Write, 64))),
        (spec(Engine::Libaio, 16), list(scattered(Ddir::Read, 64))),
    ];
    config.cores = 2;
    config.queue_depth = 3;
    config.scheduler_tags = 12;
    let mut w = world(&config, jobs, fixed(100_000));
    w.run();
    w.check_drained();
    assert_eq!(w.finished.len(), 128);
    assert!(w.host.counters.tag_waits > 0);
    let mean = |d: Ddir| {
        let l: Vec<u64> =
            w.finished.iter().filter(|(f, _)| f.ddir == d).map(|(_, l)| l.latency().0).collect();
        l.iter().sum::<u64>() / l.len() as u64
    };
    assert!(mean(Ddir::Read) < mean(Ddir::Write));
}

/// Each disk has its scheduler's tags for itself (nr_requests of its queue), and kyber holds a quarter of
/// them back from discards and from writes that nobody waits for.
#[test]
fn a_disk_has_its_own_scheduler_tags() {
    let mut config = stack(1);
    config.scheduler = Scheduler::Kyber;
    let small = StackConfig { scheduler_tags: 8, ..config.clone() };
    let shape = DiskShape { queue: Some(Box::new(small)), ..DiskShape::new(drive()) };
    let second = DiskSpec { shape, ..DiskSpec::new(drive()) };
    let disks = vec![DiskSpec::new(drive()), second];
    let host = Host::<List>::new(&config, Vec::new(), disks).unwrap();
    let of = |disk: u16| {
        let first = host.block.disks[disk].first();
        let kept = |background| host.block.kept_back(disk, background);
        (host.block.hctxs[first].at_rest().0, kept(true), kept(false))
    };
    assert_eq!((of(0), of(1)), ((256, 64, 0), (8, 2, 0)));
}

/// Linux 4.14: nr_requests is twice the tags of the drive's queue, as far as those are 128.
#[test]
fn requests_with_a_scheduler_are_twice_the_tags() {
    for (depth, given, wanted) in
        [(33, 0, 64), (65, 0, 128), (1024, 0, 256), (33, 256, 256), (2, 0, 2)]
    {
        let stack = StackConfig { scheduler_tags: given, ..stack(1) };
        let queue = crate::block::RequestQueue::new(&DiskShape::new(drive()), depth, &stack);
        assert_eq!(queue.sched_tags(), wanted, "{depth} entries, {given} given");
    }
}

/// Calls of a function of the first core.
fn calls_of(w: &World<List>, name: &str) -> u64 {
    let f = crate::function::NAMES.iter().position(|&n| n == name).unwrap();
    w.host.stats(w.ctx.now).functions[0][f].calls
}

/// Neighbours of one call meet in its plug: io_submit always has one, io_uring for more than two entries
/// (IO_PLUG_THRESHOLD), and its submission thread takes up eight at a time (IO_IOPOLL_BATCH).
#[test]
fn what_io_uring_merges_hangs_on_the_entries_of_a_call() {
    let merges = |engine, batch, sqthread_poll| {
        // Whole batches: what is sent before a wait does not count off its batch.
        let mut s = ThreadSpec { sqthread_poll, ..spec(engine, 32 / batch * batch) };
        (s.iodepth_batch, s.iodepth_batch_complete_min) = (batch, batch);
        s.iodepth_batch_complete_max = batch;
        let items = (0..320).map(|i| io(Ddir::Read, i * 4096, 4096)).collect();
        let mut w = world(&stack(2), vec![(s, list(items))], fixed(200_000));
        w.run();
        w.check_drained();
        assert_eq!(w.finished.len(), 320);
        (w.host.counters.back_merges, w.log.iter().map(|(_, sqe)| sqe.bytes).max())
    };
    for (batch, uring) in [(1, 0), (2, 0), (3, 212), (4, 240), (16, 300)] {
        let (found, longest) = merges(Engine::IoUring, batch, false);
        assert_eq!((found, longest), (uring, Some(4096 * if uring > 0 { batch } else { 1 })));
        let (found, _) = merges(Engine::Libaio, batch, false);
        assert_eq!(found, 320 - u64::from(320_u32.div_ceil(batch)));
    }
    let (found, longest) = merges(Engine::IoUring, 32, true);
    assert_eq!((found, longest), (280, Some(8 * 4096)));
}

#[test]
fn each_iocb_of_a_call_is_copied_and_entered() {
    let mut s = spec(Engine::Libaio, 32);
    (s.iodepth_batch, s.iodepth_batch_complete_min, s.iodepth_batch_complete_max) = (16, 16, 16);
    let mut w = world(&stack(1), vec![(s, list(reads(320)))], fixed(3_000));
    w.run();
    assert_eq!(calls_of(&w, "io_submit"), 320);
    assert_eq!(w.host.stats(w.ctx.now).threads[0].submit_calls, 20);
    w.stop();
}

#[test]
fn bfq_has_a_cost_of_its_own() {
    for (scheduler, elevator, bfq) in [(Scheduler::MqDeadline, 64, 0), (Scheduler::Bfq, 0, 64)] {
        let mut config = stack(1);
        config.scheduler = scheduler;
        let mut w = world(&config, vec![(spec(Engine::Libaio, 1), list(reads(64)))], fixed(3_000));
        w.run();
        assert_eq!((calls_of(&w, "elevator"), calls_of(&w, "elevator bfq")), (elevator, bfq));
        w.stop();
    }
}
