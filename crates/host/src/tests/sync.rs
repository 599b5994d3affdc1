//! Writes through a device file opened with O_DSYNC or O_SYNC.

use super::*;

fn synced(engine: Engine, depth: u32) -> ThreadSpec {
    ThreadSpec { sync: true, ..spec(engine, depth) }
}

fn without_cache() -> DriveInfo {
    DriveInfo { volatile_cache: false, ..drive() }
}

fn run_on(
    config: &StackConfig,
    drive: DriveInfo,
    jobs: Vec<(ThreadSpec, List)>,
    latency: u64,
) -> World<List> {
    let mut w = World::with_ftl(config, drive, jobs, None, fixed(latency));
    w.run();
    w.check_drained();
    w
}

fn writes(n: u64) -> Vec<Next> {
    (0..n).map(|i| io(Ddir::Write, (i * 7919 % 200_000) * 4096, 4096)).collect()
}

/// FUA writes and flushes of a log, and commands of any kind.
fn counted(w: &World<List>) -> (usize, usize, usize) {
    let fua = w.log.iter().filter(|(_, s)| s.fua).count();
    let flushes = w.log.iter().filter(|(_, s)| s.opcode == Opcode::Flush).count();
    (fua, flushes, w.log.len())
}

fn latencies(w: &World<List>) -> Vec<u64> {
    w.finished.iter().map(|(_, life)| life.latency().0).collect()
}

#[test]
fn a_synchronous_call_is_a_fua_write_and_a_flush_by_the_sum_of_their_stages() {
    let one = |s: ThreadSpec, drive| {
        let w = run_on(&stack(1), drive, vec![(s, list(writes(50)))], 7_300);
        (latencies(&w), counted(&w))
    };
    // As the closed form of a read.
    let plain = 11_800;
    assert_eq!(one(spec(Engine::Pvsync2, 1), drive()), (vec![plain; 50], (0, 0, 50)));
    // Bio and request; the worker's wake-up, and its doorbell; the drive; interrupt; wake-up. The call returns once.
    let flush = (250 + 400) + (1_300 + 150) + 7_300 + (500 + 400 + 300) + 1_300;
    let found = one(synced(Engine::Pvsync2, 1), drive());
    assert_eq!(found, (vec![plain + flush; 50], (50, 50, 100)));
    // The call and its bio, which ends before a request is made of it.
    let found = one(synced(Engine::Pvsync2, 1), without_cache());
    assert_eq!(found, (vec![plain + 250; 50], (0, 0, 50)));
}

/// They return before the write is over (EIOCBQUEUED), and so without generic_write_sync.
#[test]
fn asynchronous_engines_send_fua_writes_alone() {
    for engine in [Engine::Libaio, Engine::IoUring] {
        for depth in [1, 8] {
            let of = |s, drive| {
                let w = run_on(&stack(2), drive, vec![(s, list(writes(64)))], 20_000);
                (latencies(&w), counted(&w))
            };
            let (plain, none) = of(spec(engine, depth), drive());
            assert_eq!(none, (0, 0, 64));
            assert_eq!(of(synced(engine, depth), drive()), (plain.clone(), (64, 0, 64)));
            assert_eq!(of(synced(engine, depth), without_cache()), (plain, (0, 0, 64)));
        }
    }
}

#[test]
fn a_drive_without_a_kernel_is_sent_fua_writes() {
    let config = StackConfig { kernel: false, ..stack(1) };
    let of = |drive| {
        counted(&run_on(&config, drive, vec![(synced(Engine::Libaio, 4), list(writes(64)))], 9_000))
    };
    assert_eq!((of(drive()), of(without_cache())), ((64, 0, 64), (0, 0, 64)));
}

#[test]
fn reads_and_failed_writes_are_followed_by_nothing() {
    let items =
        vec![io(Ddir::Read, 0, 4096), io(Ddir::Write, 512, 100), io(Ddir::Write, 8192, 4096)];
    let s = ThreadSpec { continue_on_error: true, ..synced(Engine::Pvsync2, 1) };
    let mut w = world(&stack(1), vec![(s, list(items))], fixed(9_000));
    w.status = Box::new(|sqe| match sqe.opcode {
        Opcode::Write => Status::WriteFault,
        _ => Status::Success,
    });
    w.run();
    w.check_drained();
    let ok: Vec<bool> = w.finished.iter().map(|(f, _)| f.ok).collect();
    assert_eq!((ok, counted(&w)), (vec![true, false, false], (1, 0, 2)));
}

/// A medium whose cache is lost: a command's data are certain when it ends with FUA, or when a flush that
/// began after its end ends. Whatever is acknowledged is certain by then.
#[test]
fn an_acknowledged_write_survives_the_loss_of_power() {
    for (engine, scheduler, queues) in [
        (Engine::Pvsync2, Scheduler::None, 0),
        (Engine::Libaio, Scheduler::None, 1),
        (Engine::Libaio, Scheduler::MqDeadline, 1),
        (Engine::IoUring, Scheduler::Kyber, 0),
        (Engine::Libaio, Scheduler::Bfq, 0),
    ] {
        let config = StackConfig { scheduler, queues, queue_depth: 4, ..stack(2) };
        let items =
            (0..200).map(|i| io(Ddir::Write, (i * 37 % 256) << 12, 4096 << (i % 7))).collect();
        let s = ThreadSpec { iodepth_batch: 8, ..synced(engine, 16) };
        let mut device = Rng::from_seed(1);
        let latency = Box::new(move |_: &Sqe, now: Time| now + Span(1 + device.below(90_000)));
        let others = (spec(Engine::Libaio, 8), list(writes(200)));
        let mut w = world(&config, vec![(s, list(items)), others], latency);
        w.run();
        w.check_drained();
        let acknowledged = w.finished.iter().filter(|(f, _)| f.thread == 0);
        let mut parts = 0;
        for (f, _) in acknowledged.clone() {
            let within = |s: &&(Time, Sqe)| {
                let (sent, sqe) = (s.0, &s.1);
                let end = sqe.address + u64::from(sqe.bytes);
                sqe.fua
                    && f.issued <= sent
                    && sent < f.completed
                    && f.offset <= sqe.address
                    && end <= f.offset + u64::from(f.len)
            };
            parts += w.log.iter().filter(within).count();
            let bytes: u64 = w.log.iter().filter(within).map(|(_, s)| u64::from(s.bytes)).sum();
            assert!(bytes >= u64::from(f.len), "{engine:?} {scheduler:?}: {f:?} is not certain");
        }
        let fua = counted(&w).0;
        assert!(acknowledged.count() == 200 && fua >= 200 && parts >= fua);
    }
}

/// What a plug of several hardware queues sends: it holds one request, a bio that touches it joins, any other
/// takes its place. A FUA write passes by.
fn plain_model(items: &[(Ddir, u64, u64)], fua: bool) -> Vec<(Ddir, u64, u64)> {
    let (mut sent, mut held): (Vec<_>, Option<(Ddir, u64, u64)>) = (Vec::new(), None);
    for &(ddir, at, len) in items {
        match &mut held {
            _ if fua && ddir == Ddir::Write => sent.push((ddir, at, len)),
            Some(h) if h.0 == ddir && h.2 + len <= 128 << 10 && h.1 + h.2 == at => h.2 += len,
            Some(h) if h.0 == ddir && h.2 + len <= 128 << 10 && at + len == h.1 => {
                (h.1, h.2) = (at, h.2 + len);
            }
            _ => sent.extend(held.replace((ddir, at, len))),
        }
    }
    sent.extend(held);
    sent
}

#[test]
fn nothing_is_merged_with_a_fua_write_as_in_a_plain_model() {
    let mut rng = Rng::from_seed(7);
    let (mut merged, mut passed) = (0, 0);
    for round in 0..60 {
        let mut at = 0;
        let items: Vec<(Ddir, u64, u64)> = (0..32)
            .map(|_| {
                let len = 4096 * (1 + rng.below(3));
                let ddir = if rng.below(3) == 0 { Ddir::Write } else { Ddir::Read };
                let here = if rng.below(4) == 0 { rng.below(1_000) << 12 } else { at };
                at = here + len;
                (ddir, here, len)
            })
            .collect();
        for (sync, volatile) in [(true, true), (true, false), (false, true)] {
            let s = ThreadSpec { sync, iodepth_batch: 32, ..spec(Engine::Libaio, 32) };
            let job = list(items.iter().map(|&(d, at, len)| io(d, at, len as u32)).collect());
            let info = DriveInfo { volatile_cache: volatile, ..drive() };
            let w = run_on(&stack(2), info, vec![(s, job)], 30_000);
            let found: Vec<(Ddir, u64, u64)> = w
                .log
                .iter()
                .map(|(_, s)| {
                    let ddir = if s.opcode == Opcode::Read { Ddir::Read } else { Ddir::Write };
                    assert_eq!(s.fua, sync && volatile && ddir == Ddir::Write);
                    (ddir, s.address, u64::from(s.bytes))
                })
                .collect();
            let model = plain_model(&items, sync && volatile);
            assert_eq!(found, model, "round {round}, {sync} {volatile}");
            merged += 32 - model.len();
            passed += counted(&w).0;
        }
    }
    assert!(merged > 1_000 && passed > 500, "{merged} {passed}");
}

/// With one tag all else waits in the scheduler, where neighbours become one request.
#[test]
fn no_scheduler_sees_a_fua_write() {
    for scheduler in [Scheduler::MqDeadline, Scheduler::Kyber, Scheduler::Sfq, Scheduler::Bfq] {
        let config = StackConfig { scheduler, queue_depth: 2, ..stack(1) };
        let items: Vec<Next> = (0..64).map(|i| io(Ddir::Write, i * 4096, 4096)).collect();
        let run = |drive, sync| {
            let s = ThreadSpec { sync, ..spec(Engine::Libaio, 32) };
            let w = run_on(&config, drive, vec![(s, list(items.clone()))], 100_000);
            for hctx in &w.host.block.hctxs {
                assert_eq!(hctx.at_rest().0, config.scheduler_tags, "{scheduler:?}");
            }
            let order: Vec<u64> = w.log.iter().map(|(_, s)| s.address / 4096).collect();
            (counted(&w), order, latencies(&w))
        };
        let (found, order, _) = run(drive(), true);
        assert_eq!(found, (64, 0, 64), "{scheduler:?}");
        assert_eq!(
            order,
            (0..64).collect::<Vec<u64>>(),
            "{scheduler:?}: in the order of their coming"
        );
        let plain = run(drive(), false);
        assert!(scheduler == Scheduler::Sfq || plain.0.2 < 16, "{scheduler:?}: {:?}", plain.0);
        assert_eq!(run(without_cache(), true), plain, "{scheduler:?}");
    }
}

/// pblk looks at REQ_PREFLUSH alone: a FUA write ends in its buffer, and the flush of a synchronous call is
/// what makes it certain.
#[test]
fn pblk_ends_a_fua_write_in_its_buffer() {
    let run = |s: ThreadSpec| {
        let items = (0..16).map(|i| io(Ddir::Write, i << 12, 4096)).collect();
        let mut w = pblk_world_on(&stack(2), vec![(s, list(items))]);
        w.run_to(Time(100_000_000));
        w.stop();
        let programs = w.log.iter().filter(|(_, s)| s.opcode == Opcode::VectorWrite).count();
        let stats = w.host.stats(w.ctx.now).pblk.unwrap();
        assert_eq!((w.finished.len(), stats.write_waits, w.ctx.stamps.wrong().0), (16, 0, 0));
        (stats.flushes, programs, latencies(&w).into_iter().min().unwrap() > 500_000)
    };
    // A padded unit a write, and what opens a line.
    let (flushes, programs, waits) = run(synced(Engine::Pvsync2, 1));
    assert!(flushes == 16 && (16..=17).contains(&programs) && waits, "{flushes} {programs}");
    let (flushes, programs, waits) = run(synced(Engine::Libaio, 1));
    assert!(flushes == 0 && programs <= 3 && !waits, "{flushes} {programs}");
}

#[test]
fn a_synchronous_call_that_polls_polls_for_its_write_alone() {
    let s = ThreadSpec { hipri: true, ..synced(Engine::Pvsync2, 1) };
    let w = run_on(&stack(1), drive(), vec![(s, list(writes(20)))], 20_000);
    assert_eq!((counted(&w), w.host.counters.polled_completions), ((20, 20, 40), 20));
}

/// A flush takes 400 times as long as anything else.
fn slow_flushes(sqe: &Sqe, now: Time) -> Time {
    now + Span(if sqe.opcode == Opcode::Flush { 4_000_000 } else { 10_000 })
}

/// Each seventh I/O is a sync.
fn with_syncs(n: u64) -> Vec<Next> {
    let one = |i: u64| match i % 7 {
        3 => io(Ddir::Sync, 0, 0),
        _ => io(
            if i.is_multiple_of(2) { Ddir::Write } else { Ddir::Read },
            (i * 37 % 4096) << 12,
            4096,
        ),
    };
    (0..n).map(one).collect()
}

#[test]
fn what_follows_a_sync_of_a_ring_does_not_wait_for_it() {
    for engine in [Engine::Libaio, Engine::IoUring] {
        for other in [false, true] {
            let of = |ring_syncs| {
                // Another thread reaps, or submits.
                let reaper = other && engine == Engine::Libaio;
                let sqthread_poll = other && engine == Engine::IoUring;
                let s = ThreadSpec { ring_syncs, reaper, sqthread_poll, ..spec(engine, 64) };
                let mut w =
                    world(&stack(3), vec![(s, list(with_syncs(140)))], Box::new(slow_flushes));
                w.run();
                w.check_drained();
                assert_eq!(w.finished.len(), 140);
                let end = w.finished.iter().map(|(f, _)| f.completed).max().expect("some");
                let data = w.log.iter().filter(|(_, sqe)| sqe.opcode != Opcode::Flush);
                let latest = data.map(|(sent, _)| *sent).max().expect("some");
                (end, latest, counted(&w).1, w)
            };
            let (end, _, flushes, _) = of(false);
            assert_eq!(flushes, 20, "a call each");
            assert!(end > Time(20 * 4_000_000));
            let (_, latest, flushes, w) = of(true);
            assert!(latest < Time(4_000_000), "{engine:?}: {latest:?}");
            // Those that come while one is at the drive share the next of their hardware queue (blk-flush.c).
            // libaio's workers are on one core, io_uring's on any of three and six at most.
            match engine {
                Engine::Libaio => assert!((2..=3).contains(&flushes), "{flushes} flushes"),
                _ => assert!((4..20).contains(&flushes), "{flushes} flushes"),
            }
            // A sync is over after a flush that began after it.
            for (f, life) in w.finished.iter().filter(|(f, _)| f.ddir.is_sync()) {
                let covers = |(sent, sqe): &&(Time, Sqe)| {
                    sqe.opcode == Opcode::Flush
                        && *sent >= f.issued
                        && *sent + Span(4_000_000) <= f.completed
                };
                assert!(w.log.iter().any(|s| covers(&s)), "{f:?}");
                assert_eq!(life.latency(), f.completed.since(f.issued));
            }
        }
    }
}

/// Numbers of I/Os that are over go to others: a worker that slept for work has nothing to do with them.
#[test]
fn each_of_many_syncs_of_a_short_ring_is_over() {
    for (engine, depth) in [(Engine::Libaio, 4), (Engine::IoUring, 4), (Engine::Libaio, 9)] {
        for seed in 0..400 {
            let mut rng = Rng::from_seed(seed);
            let mut one = |_| match rng.below(5) {
                0..3 => io(Ddir::Sync, 0, 0),
                _ => io(Ddir::Write, rng.below(4096) << 12, 4096),
            };
            let items: Vec<Next> = (0..60).map(&mut one).collect();
            let other = seed % 2 == 0;
            let reaper = other && engine == Engine::Libaio;
            let sqthread_poll = other && engine == Engine::IoUring;
            let s = ThreadSpec { ring_syncs: true, reaper, sqthread_poll, ..spec(engine, depth) };
            let flush = 20_000 + rng.below(400_000);
            let slow = move |sqe: &Sqe, now: Time| {
                now + Span(if sqe.opcode == Opcode::Flush { flush } else { 10_000 })
            };
            let mut w = world(&stack(3), vec![(s, list(items))], Box::new(slow));
            w.run();
            w.check_drained();
            assert_eq!(w.finished.len(), 60, "{engine:?}, depth {depth}, seed {seed}");
        }
    }
}

/// Without a cache to flush the worker completes the entry at once.
#[test]
fn a_sync_of_a_ring_with_nothing_to_flush_sends_nothing() {
    for engine in [Engine::Libaio, Engine::IoUring] {
        let s = ThreadSpec { ring_syncs: true, ..spec(engine, 4) };
        let w = run_on(&stack(2), without_cache(), vec![(s, list(with_syncs(70)))], 9_000);
        assert_eq!((w.finished.len(), counted(&w)), (70, (0, 0, 60)));
    }
}

fn sata() -> DriveInfo {
    DriveInfo { sata: true, queues: 1, depth: 32, ..drive() }
}

/// A flush that libata put off goes out with the end of what it waited for, and needs no thread: one that computes on the
/// core of the interrupts does not keep the drive from it.
#[test]
fn a_flush_that_was_put_off_needs_no_thread() {
    let run = |busy: u32| {
        let on = |core, s: ThreadSpec| ThreadSpec { cpus_allowed: vec![core], ..s };
        let syncs = (0..40).map(|_| io(Ddir::DataSync, 0, 0)).collect();
        let mut jobs = vec![
            (on(1, spec(Engine::Pvsync2, 1)), list(syncs)),
            (on(2, spec(Engine::Libaio, 16)), list(reads(3000))),
        ];
        jobs.extend((0..2).map(|_| (on(busy, spec(Engine::Null, 1)), list(reads(20_000)))));
        let w = run_on(&StackConfig { queues: 1, ..stack(4) }, sata(), jobs, 20_000);
        let syncs = w.finished.iter().filter(|(_, life)| life.ddir.is_sync());
        let syncs: Vec<&Life> = syncs.map(|(_, life)| life).collect();
        let waits = syncs.iter().flat_map(|life| life.steps());
        let waits: Vec<_> = waits.collect();
        assert!(
            waits.iter().any(|s| s.why == Why::Unqueued),
            "{:?}",
            &waits[..waits.len().min(40)]
        );
        syncs.iter().map(|life| life.latency().0).max().unwrap()
    };
    let (there, elsewhere) = (run(0), run(3));
    assert!(
        there < 2 * elsewhere,
        "{there} beside threads on the core of interrupts, {elsewhere} without"
    );
}

/// libata.fua=0: blk-flush sends the write, and a flush once it is over.
#[test]
fn a_sata_drive_is_sent_a_flush_behind_each_fua_write() {
    let jobs = |depth| vec![(synced(Engine::Libaio, depth), list(writes(64)))];
    let w = run_on(&stack(2), sata(), jobs(1), 20_000);
    assert_eq!(counted(&w), (0, 64, 128));
    // One after the other: the write, and the flush that its I/O waits for.
    let ops: Vec<Opcode> = w.log.iter().map(|(_, sqe)| sqe.opcode).collect();
    assert!(ops.chunks(2).all(|pair| pair == [Opcode::Write, Opcode::Flush]), "{ops:?}");
    let plain =
        run_on(&stack(2), sata(), vec![(spec(Engine::Libaio, 1), list(writes(64)))], 20_000);
    let more: Vec<u64> =
        latencies(&w).iter().zip(latencies(&plain)).map(|(long, short)| long - short).collect();
    assert!(more.iter().all(|&ns| (20_000..24_000).contains(&ns)), "{more:?}");
    // Writes that end while a flush is at the drive share the next one.
    let w = run_on(&stack(2), sata(), jobs(8), 20_000);
    let (fua, flushes, all) = counted(&w);
    assert_eq!((fua, all - flushes), (0, 64));
    assert!((8..40).contains(&flushes), "{flushes}");
    // Of a drive that says it has no cache nothing is asked.
    let none = DriveInfo { volatile_cache: false, ..sata() };
    assert_eq!(counted(&run_on(&stack(2), none, jobs(8), 20_000)), (0, 0, 64));
    // A write that fails has no flush.
    let s = ThreadSpec { continue_on_error: true, ..synced(Engine::Libaio, 1) };
    let mut w = World::with_ftl(&stack(1), sata(), vec![(s, list(writes(2)))], None, fixed(9_000));
    w.status = Box::new(|sqe| match sqe.opcode {
        Opcode::Write => Status::WriteFault,
        _ => Status::Success,
    });
    w.run();
    assert_eq!(counted(&w), (0, 0, 2));
}

/// A flush is sent once the handler of the last command is over, and what comes behind it once its own is
/// (ata_std_qc_defer): the drive has nothing beside it, and is idle before and behind it for as long as that takes.
#[test]
fn a_sata_drive_has_a_flush_alone() {
    let config = stack(2);
    let reader = (spec(Engine::Libaio, 8), list(reads(300)));
    let syncs: Vec<Next> =
        (0..20).flat_map(|i| [io(Ddir::Write, i * 4096, 4096), io(Ddir::Sync, 0, 0)]).collect();
    let writer = (spec(Engine::Libaio, 1), list(syncs));
    let w = run_on(&config, sata(), vec![reader, writer], 20_000);
    let flushes = counted(&w).1;
    assert!(flushes >= 15, "{flushes}");
    let log = &w.log;
    let c = &config.cost;
    let handled = (c.interrupt_entry + c.sata.interrupt + c.sata.complete).0;
    for (i, (at, _)) in log.iter().enumerate().filter(|(_, (_, sqe))| sqe.opcode == Opcode::Flush) {
        // All take as long at this drive.
        if i > 0 {
            let idle = at.since(log[i - 1].0 + Span(20_000)).0;
            assert!(idle >= handled, "flush {i}: {idle} ns behind the last command");
        }
        if let Some((next, _)) = log.get(i + 1) {
            let idle = next.since(*at + Span(20_000)).0;
            assert!(*next >= *at + Span(20_000) && idle >= handled, "behind flush {i}: {idle} ns");
        }
    }
}
