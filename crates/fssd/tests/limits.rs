//! A map that would pass the host's memory limit, a collector that is held, and one that takes orders.

use crate::common::{Drive, Kind, ORDERED, Reading, ctx, geometry};
use std::collections::BTreeMap;
use wordline_base::{Ctx, Lpn, Rng};
use wordline_fssd::{Fssd, FssdConfig, Side};
use wordline_translation::{
    Action, AgeError, GcFloor, GcOrder, Ordered, Place, Source, Translation,
};

/// Bytes that are none of the map's: tables, and the units of the buffer that it leaves.
fn fixed() -> u64 {
    let kind = kind(None);
    kind.make().host_memory().tables + 4 * kind.g.unit_bytes()
}

fn kind(limit: Option<u64>) -> Kind {
    let g = geometry(2, 4, 120, 16, 8);
    let config = FssdConfig {
        node_bytes: 256,
        buffer_bytes: 16 * g.unit_bytes(),
        host_memory: limit,
        ..FssdConfig::default()
    };
    Kind { g, config, over_provisioning: 40.0, bad: vec![false; 480] }
}

/// Writes one sector and waits for its end.
fn write(ftl: &mut Fssd, drive: &mut Drive, ctx: &mut Ctx, rng: &mut Rng, lpn: u32) -> bool {
    let submitted = ctx.stamps.submit(Lpn(lpn), 1);
    ctx.stamps.bind(1, submitted);
    ftl.write(ctx, 1, Lpn(lpn), 1, false, Source::Host);
    drive.settle(ftl, ctx, rng);
    let ok = drive.ended.remove(&1).expect("it ends");
    ctx.stamps.acknowledge(submitted, ok);
    ok
}

/// A write that fails for another reason does not say that the map had no memory, though others did before.
#[test]
fn a_refusal_is_for_memory_only_where_it_is() {
    let seed = 8;
    let mut rng = Rng::from_seed(seed);
    let kind = kind(Some(fixed() + 20 * 256));
    let (mut ftl, mut drive) = (kind.make(), Drive::new(&kind));
    let sectors = ftl.sectors() as u32;
    let mut ctx = ctx(sectors.into());
    ftl.start(&mut ctx);
    let mut mapped = Vec::new();
    while drive.refused == 0 {
        let lpn = rng.below(sectors.into()) as u32;
        if write(&mut ftl, &mut drive, &mut ctx, &mut rng, lpn) {
            mapped.push(lpn);
        }
    }
    // All programs fail: space ends, and what needs no memory is refused.
    drive.faults.program = 1_000_000_000;
    let before = drive.refused;
    let mut failed = 0;
    for lpn in mapped.iter().cycle().take(20_000) {
        failed += u64::from(!write(&mut ftl, &mut drive, &mut ctx, &mut rng, *lpn));
        if failed > 0 {
            break;
        }
    }
    assert!(failed > 0 && drive.refused == before, "seed {seed}: {failed} failed, {before} before");
}

/// A drive whose map would pass the limit cannot be aged, and the message names the limit.
#[test]
fn ageing_beyond_the_hosts_memory_names_the_limit() {
    let kind = kind(None);
    let config = FssdConfig { host_memory: Some(fixed() + 20 * 256), ..kind.config.clone() };
    let mut ftl = Kind { config, ..kind }.make();
    let mut ctx = ctx(ftl.sectors());
    let seed = 6;
    let mut rng = Rng::from_seed(seed);
    let lpns: Vec<u32> = (0..4000).map(|_| rng.below(ftl.sectors()) as u32).collect();
    let error = ftl.overwrite(&mut ctx.stamps, &lpns).unwrap_err();
    assert_eq!(error, AgeError::Memory, "seed {seed}");
    assert!(error.to_string().contains("ftl.fssd.host_memory"), "{error}");
}

#[test]
fn beyond_the_hosts_memory_writes_fail_and_nothing_is_lost() {
    let seed = 3;
    let mut rng = Rng::from_seed(seed);
    let limit = fixed() + 60 * 256;
    let kind = kind(Some(limit));
    let (mut ftl, mut drive) = (kind.make(), Drive::new(&kind));
    let sectors = ftl.sectors() as u32;
    let mut ctx = ctx(sectors.into());
    ftl.start(&mut ctx);
    let mut promised = BTreeMap::new();
    let (mut refused, mut version) = (0, 0);
    for _ in 0..6000 {
        let lpn = rng.below(sectors.into()) as u32;
        version += 1;
        match write(&mut ftl, &mut drive, &mut ctx, &mut rng, lpn) {
            true => drop(promised.insert(lpn, version)),
            false => refused += 1,
        }
        assert!(ftl.host_memory().nodes <= 60 * 256, "seed {seed}");
    }
    assert!(refused > 1000 && ftl.counters().writes_refused == refused, "{refused} refused");
    assert_eq!((ftl.counters().writes_refused_memory, drive.refused), (refused, refused));
    // A sector that is mapped needs no node: where it is written over it is taken.
    let lpns: Vec<u32> = promised.keys().copied().collect();
    let over = lpns.iter().filter(|&&l| write(&mut ftl, &mut drive, &mut ctx, &mut rng, l)).count();
    assert!(over * 10 > lpns.len() * 9, "{over} of {}", lpns.len());
    ftl.check_invariants().unwrap();
    // What was acknowledged is read, and what was refused reads as before.
    let mut pieces = Vec::new();
    for lpn in 0..sectors {
        pieces.clear();
        ftl.read(&mut ctx, Lpn(lpn), 1, &mut pieces);
        assert_ne!(pieces[0].place, Place::Lost);
        assert_eq!(pieces[0].place == Place::Unmapped, !promised.contains_key(&lpn), "seed {seed}");
        for read in Reading::of(&pieces) {
            read.end(&mut ftl, &mut ctx, &drive, "after refusals");
        }
    }
    assert_eq!(ctx.stamps.wrong(), (0, &[][..]));
    // A power cut takes nothing of it, and the limit is there again.
    let places = |ftl: &Fssd| ftl.tree().all().collect::<Vec<_>>();
    let before = places(&ftl);
    drive.cut(&mut rng);
    let (mut ftl, _) = drive.recover(&kind, sectors.into());
    assert_eq!(places(&ftl), before);
    ftl.start(&mut ctx);
    // Trims give nodes back, and writes go on.
    let submitted = ctx.stamps.submit(Lpn(0), sectors / 2);
    ctx.stamps.bind(2, submitted);
    ftl.trim(&mut ctx, 2, Lpn(0), sectors / 2);
    drive.settle(&mut ftl, &mut ctx, &mut rng);
    assert_eq!(drive.ended.remove(&2), Some(true));
    assert!(write(&mut ftl, &mut drive, &mut ctx, &mut rng, 5), "there is room again");
}

/// One limit is shared: the buffer has what the map leaves, all of it is counted, and no write fails for what
/// programs under way will give back.
#[test]
fn the_buffer_grows_into_what_the_map_leaves_of_the_hosts_memory() {
    // The most nodes, the most bytes of the buffer, and how near all came to the limit.
    let run = |seed, collector, limit: Option<u64>| {
        let mut kind = kind(limit);
        (kind.config.collector, kind.config.buffer_bytes) = (collector, 1 << 20);
        let mut rng = Rng::from_seed(seed);
        let (mut ftl, mut drive) = (kind.make(), Drive::new(&kind));
        let sectors = ftl.sectors() as u32;
        let mut ctx = ctx(sectors.into());
        ftl.start(&mut ctx);
        let own = ftl.host_memory().tables;
        let (mut nodes, mut buffer, mut left) = (0, 0, u64::MAX);
        let mut under_way = BTreeMap::new();
        for tag in 1..sectors {
            let lpn = rng.below(u64::from(sectors - 8)) as u32;
            let n = 1 + rng.below(8) as u32;
            let meets = |&(l, _): &(u32, u32)| l < lpn + 8 && lpn < l + 8;
            if !under_way.values().any(meets) && under_way.len() < 32 {
                let submitted = ctx.stamps.submit(Lpn(lpn), n);
                ctx.stamps.bind(tag, submitted);
                ftl.write(&mut ctx, tag, Lpn(lpn), n, false, Source::Host);
                under_way.insert(tag, (lpn, submitted));
            }
            drive.drain(&mut ftl);
            let of = ftl.host_memory();
            // Not stopped are a checkpoint, whose tables grow as it goes on, and moves that split a node.
            let all = of.nodes + of.buffer + of.tables.min(own);
            assert!(
                limit.is_none_or(|limit| all <= limit + 8 * 256),
                "seed {seed}, {tag}: {of:?} of {limit:?}"
            );
            (nodes, buffer) = (of.nodes.max(nodes), of.buffer.max(buffer));
            left = left.min(limit.map_or(u64::MAX, |limit| limit.saturating_sub(all)));
            drive.step(&mut ftl, &mut ctx, &mut rng);
            drive.drain(&mut ftl);
            under_way.retain(|tag, &mut (_, submitted)| match drive.ended.remove(tag) {
                None => true,
                Some(ok) => {
                    assert!(ok, "seed {seed}: {tag} was refused");
                    ctx.stamps.acknowledge(submitted, true);
                    false
                }
            });
        }
        assert!(ftl.counters().gc_sectors > 1000, "seed {seed}");
        ftl.check_invariants().unwrap();
        (nodes, buffer, left)
    };
    for (seed, collector) in [(9, Side::Host), (10, Side::Drive), (11, Side::Host)] {
        let unit = kind(None).g.unit_bytes();
        let mut bare = kind(None);
        bare.config.collector = collector;
        let own = bare.make().host_memory().tables + 4 * unit;
        let (nodes, buffer, _) = run(seed, collector, None);
        let limited = run(seed, collector, Some(own + nodes + 4 * unit));
        println!("seed {seed}: {nodes} bytes of nodes, buffer {buffer}, limited {limited:?}");
        assert!(limited.1 > 24 * unit && limited.1 < buffer, "seed {seed}: {limited:?}");
        assert!(limited.2 < 2 * unit, "seed {seed}: the limit was never near, {limited:?}");
    }
}

/// While the collector is held a victim is begun only where users would have to wait for it.
#[test]
fn a_held_collector_begins_no_victim_until_users_would_wait() {
    let run = |held: u32| {
        let kind = kind(None);
        let mut rng = Rng::from_seed(4);
        let (mut ftl, mut drive) = (kind.make(), Drive::new(&kind));
        let sectors = ftl.sectors() as u32;
        let mut ctx = ctx(sectors.into());
        ftl.fill(&mut ctx.stamps).unwrap();
        ftl.settle();
        drive.take_over(&ftl);
        ftl.start(&mut ctx);
        let mut begun = [0, 0];
        for i in 0..2 * sectors {
            let hold = i % 100 < held;
            ftl.hold_collection(&mut ctx, hold);
            let before = ftl.counters().lines_freed;
            let lpn = rng.below(sectors.into()) as u32;
            assert!(write(&mut ftl, &mut drive, &mut ctx, &mut rng, lpn));
            // A victim is emptied before the next write.
            assert!(!ftl.is_collecting());
            begun[usize::from(hold)] += ftl.counters().lines_freed - before;
        }
        ftl.check_invariants().unwrap();
        assert!(ftl.counters().gc_sectors > 10_000, "{:?}", ftl.counters());
        begun
    };
    let [free, held] = run(50);
    assert!(free > 20 && held * 4 < free, "{held} victims begun while held, {free} otherwise");
    let [_, always] = run(100);
    assert!(always > 0, "users would wait, and no victim was begun");
}

/// The same writes with the collector on either side: the same tree, of the same memory, and where it is in the
/// drive its units and its tables take none of the host's.
#[test]
fn a_collector_in_the_drive_takes_no_host_memory() {
    let of = |collector: Side| {
        let mut kind = kind(None);
        kind.config.collector = collector;
        let mut rng = Rng::from_seed(5);
        let (mut ftl, mut drive) = (kind.make(), Drive::new(&kind));
        let sectors = ftl.sectors() as u32;
        let mut ctx = ctx(sectors.into());
        ftl.fill(&mut ctx.stamps).unwrap();
        ftl.settle();
        drive.take_over(&ftl);
        ftl.start(&mut ctx);
        let mut buffer = Vec::new();
        for _ in 0..sectors {
            let lpn = rng.below(sectors.into()) as u32;
            assert!(write(&mut ftl, &mut drive, &mut ctx, &mut rng, lpn));
            buffer.push(ftl.host_memory().buffer);
        }
        assert!(ftl.counters().gc_sectors > 1000);
        ftl.check_invariants().unwrap();
        (ftl.tree().all().collect::<Vec<_>>(), ftl.host_memory(), ftl.memory().mapping, buffer)
    };
    let (host, drive) = (of(Side::Host), of(Side::Drive));
    assert!(host.0 == drive.0, "the trees differ");
    assert_eq!(host.1.nodes, drive.1.nodes);
    // Four bytes of each unit, and 32 of each segment.
    assert_eq!(host.1.tables - drive.1.tables, 4 * 480 * 16 + 32 * 120);
    // What the map takes is the same, on either side.
    assert_eq!((host.2, drive.2), (host.1.nodes + host.1.tables, host.2));
    // Users' unit is the host's on either side, the collector's is not.
    let less = host.3.iter().zip(&drive.3).filter(|(host, drive)| {
        assert!(**host == **drive || **host == **drive + 8 * 512, "{host} and {drive} bytes");
        host != drive
    });
    assert!(less.count() > 1000);
}

/// A collector on the host whose orders take their time: the drive never runs dry, it keeps users' pace as one in
/// the drive does, and what the drive has to do by itself is little and is counted.
#[test]
fn a_collector_on_the_host_keeps_the_drive_alive() {
    let run = |victims: Side, dead: bool| {
        let mut kind = kind(None);
        kind.config.victims = victims;
        let mut rng = Rng::from_seed(6);
        let (mut ftl, mut drive) = (kind.make(), Drive::new(&kind));
        let sectors = ftl.sectors() as u32;
        let mut ctx = ctx(sectors.into());
        ftl.fill(&mut ctx.stamps).unwrap();
        ftl.settle();
        drive.take_over(&ftl);
        ftl.start(&mut ctx);
        if dead {
            // It obeys, and nobody orders.
            (drive.host, _) = (None, ftl.obey());
        }
        let (mut least, reserve) = (u32::MAX, ftl.free_segments().1);
        for _ in 0..3 * sectors {
            let lpn = rng.below(sectors.into()) as u32;
            assert!(write(&mut ftl, &mut drive, &mut ctx, &mut rng, lpn), "it ran dry");
            least = least.min(ftl.free_segments().0);
        }
        ftl.check_invariants().unwrap();
        let moved = ftl.counters().gc_sectors;
        let orders = drive.host.map_or(0, |host| host.orders);
        (moved, orders, ftl.gc_floor(), least, reserve)
    };
    let (alone, none, floor, ..) = run(Side::Drive, false);
    assert_eq!((none, floor), (0, GcFloor::default()));
    let (moved, orders, floor, least, reserve) = run(Side::Host, false);
    println!("{moved} sectors moved by {orders} orders, {floor:?}; {alone} without");
    assert!(orders > 1000 && (0.8..1.2).contains(&(moved as f64 / alone as f64)));
    assert!(floor.sectors * 20 < moved && least >= reserve / 2, "{floor:?}, {least} of {reserve}");
    // Without a single order it lives from its floor, and says so.
    let (moved, _, floor, ..) = run(Side::Host, true);
    assert!(floor.victims > 20 && floor.sectors >= moved && moved > 0, "{floor:?}, {moved} moved");
}

/// An order that comes late: its segment is no victim any more. It ends at once, and nothing is moved.
#[test]
fn an_order_of_what_is_none_to_collect_ends_at_once() {
    let kind = kind(None);
    let mut rng = Rng::from_seed(7);
    let (mut ftl, mut drive) = (kind.make(), Drive::new(&kind));
    let mut ctx = ctx(ftl.sectors());
    ftl.start(&mut ctx);
    let collect = |segment| GcOrder::Collect { segment, sectors: 100 };
    assert!(!ftl.order(&mut ctx, ORDERED, collect(0)), "it does not obey yet");
    ftl.obey();
    assert!(write(&mut ftl, &mut drive, &mut ctx, &mut rng, 3));
    let shape = ftl.gc_shape().unwrap();
    assert!(!ftl.order(&mut ctx, ORDERED, collect(shape.segments)), "beyond the last");
    // The first is open, the last free.
    for segment in [0, shape.segments - 1] {
        assert!(ftl.order(&mut ctx, ORDERED, collect(segment)));
        let ends = ftl.poll();
        assert_eq!(ends, Some(Action::Complete { tag: ORDERED, ok: true }));
        let report = ftl.take_report().unwrap();
        assert_eq!((report.victim, report.counts.len()), (None, 0));
    }
    // One at a time; none is needed while there is space.
    assert!(ftl.order(&mut ctx, ORDERED, GcOrder::Counts { waits: false }));
    assert_eq!(ftl.poll(), None);
    assert!(!ftl.order(&mut ctx, 1, collect(0)));
    assert_eq!(ftl.counters().gc_sectors, 0);
}

/// Checkpoints asked for after each few sectors come as often as they leave users half of what is written.
#[test]
fn checkpoints_asked_for_all_the_time_leave_room_for_users() {
    for every in [1, 10, 100] {
        let kind = kind(None);
        let config = FssdConfig { checkpoint_sectors: Some(every), ..kind.config.clone() };
        let mut ftl = Kind { config, ..kind }.make();
        let sectors = ftl.sectors();
        let mut ctx = ctx(sectors);
        let seed = 8;
        let mut rng = Rng::from_seed(seed);
        let lpns: Vec<u32> = (0..3 * sectors).map(|_| rng.below(sectors) as u32).collect();
        let aged = ftl.overwrite(&mut ctx.stamps, &lpns);
        assert!(aged.is_ok(), "seed {seed}, every {every}: {aged:?}");
        ftl.settle();
        ftl.check_invariants().unwrap();
        let c = *ftl.counters();
        assert!(c.emeta_sectors > 0 && c.emeta_sectors < c.user_sectors, "every {every}: {c:?}");
    }
}

/// What waits for a unit that failed waits for others then, once for each, though they fail too.
#[test]
fn programs_that_mostly_fail_end_in_a_drive_that_takes_no_writes() {
    for seed in 0..10 {
        let mut rng = Rng::from_seed(seed);
        let kind =
            Kind { config: FssdConfig { host_memory: None, ..kind(None).config }, ..kind(None) };
        let (mut ftl, mut drive) = (kind.make(), Drive::new(&kind));
        let sectors = ftl.sectors();
        let mut ctx = ctx(sectors);
        ftl.start(&mut ctx);
        drive.faults.program = 150_000_000 + 90_000_000 * seed;
        let (mut tag, mut ended) = (0, 0);
        while drive.refused == 0 && tag < 20_000 {
            let lpn = Lpn(rng.below(sectors) as u32);
            let submitted = ctx.stamps.submit(lpn, 1);
            ctx.stamps.bind(tag, submitted);
            ftl.write(&mut ctx, tag, lpn, 1, false, Source::Host);
            tag += 1;
            if tag % 16 == 0 {
                ftl.flush(&mut ctx, tag);
                tag += 1;
            }
            drive.drain(&mut ftl);
            drive.step(&mut ftl, &mut ctx, &mut rng);
            ended += std::mem::take(&mut drive.ended).len();
            if tag % 256 < 2 {
                ftl.check_invariants()
                    .unwrap_or_else(|e| panic!("seed {seed}, {tag} commands: {e}"));
            }
        }
        drive.settle(&mut ftl, &mut ctx, &mut rng);
        ended += std::mem::take(&mut drive.ended).len();
        assert_eq!(ended as u32, tag, "seed {seed}: all commands end");
    }
}
