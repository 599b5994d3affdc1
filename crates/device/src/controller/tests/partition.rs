//! The cache in two partitions, and the ghosts that choose how far ahead to read.

use super::*;
use crate::cache::{Cache, LineId};
use crate::partition::{LATENCY, THROUGHPUT};
use proptest::prelude::*;
use std::collections::BTreeMap;
use wordline_base::{Rng, Workload};

const CLASSES: [Workload; 3] = [Workload::Latency, Workload::Throughput, Workload::None];

fn submit(h: &mut Host, opcode: Opcode, address: u64, bytes: u32, workload: Workload) {
    let class = IoClass::NONE.with_workload(workload);
    let (io, work) = (IoId::NONE, Class::UserRead as u8);
    let fua = opcode == Opcode::Write && bytes != 4096 && address.is_multiple_of(31 * 512);
    let (cid, inner, beside, submitted) = (0, 0, 0, NONE);
    let sqe = Sqe { opcode, cid, address, bytes, fua, work, class, inner, beside, io, submitted };
    h.put_sqe(0, sqe).unwrap();
    h.drive.doorbell(&mut h.ctx, 0);
}

fn host(cache: CacheConfig) -> Host {
    let mut d = device_config();
    d.cache = Some(cache);
    let mut h = Host::with_ftl(&nand_config(), &d, &ftl_config());
    h.queue(0, 256, QueuePriority::Medium);
    h
}

fn ghosts(degrees: &[u32], bytes: u64) -> ReadAheadConfig {
    let ghosts = GhostConfig { degrees: degrees.to_vec(), sample: 1, ..Default::default() };
    ReadAheadConfig { trigger: 2, streams: 4, bytes, ratio: 0.0, ghosts: Some(ghosts) }
}

fn partitioned(lines: u64, ways: u32, latency_ways: u32, split: Split) -> CacheConfig {
    let partition = PartitionConfig { latency_ways, split, ..Default::default() };
    CacheConfig { partition: Some(partition), ..cache_config(lines, ways, 1) }
}

fn stats(h: &Host, partition: u8) -> crate::CachePartition {
    h.drive.stats(h.ctx.now).cache_partitions[usize::from(partition)].clone()
}

/// Which line is where, and whose way that was.
fn places(cache: &Cache) -> BTreeMap<u32, u32> {
    cache.resident().map(|id: LineId| (id.place(), cache.first_sector(id))).collect()
}

/// A line is replaced only by one of the partition that its way belongs to.
fn assert_kept_apart(cache: &Cache, before: &BTreeMap<u32, u32>, seed: u64) {
    for id in cache.resident() {
        if before.get(&id.place()) == Some(&cache.first_sector(id)) {
            continue;
        }
        let own = cache.ways_of(cache.line(id).partition);
        assert!(
            own.contains(&cache.way_of(id)),
            "seed {seed}: a line of the other partition was evicted"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Commands of both classes at random on few sectors, while the split and the degree change:
    /// after every event a line is in one place, partitions keep apart, and every read has the newest
    /// data.
    #[test]
    fn partitions_are_coherent_and_keep_apart(
        seed in any::<u64>(),
        shape in prop::sample::select(vec![(8u64, 2u32, 1u32), (32, 4, 3), (64, 8, 4), (256, 8, 1)]),
        line_sectors in prop::sample::select(vec![1u32, 2, 4]),
        split in prop::sample::select(vec![Split::Hits, Split::MissingLines, Split::Requests, Split::Fixed]),
        epoch in 5u64..60,
        dirty_high in prop::sample::select(vec![0u32, 40, 100]),
        write_back in any::<bool>(), read_allocate in any::<bool>(), ahead in any::<bool>(),
    ) {
        let (lines, ways, latency_ways) = shape;
        let cache = CacheConfig {
            line_bytes: line_sectors * SECTOR as u32,
            bytes: lines * u64::from(line_sectors) * SECTOR,
            dirty_high, write_back, read_allocate,
            read_ahead: ahead.then(|| ghosts(&[0, 1, 4], 32 << 10)),
            epoch: EpochConfig { ios: epoch, time: Span::from_ms(1) },
            ..partitioned(lines, ways, latency_ways, split)
        };
        let mut h = host(cache);
        let mut rng = Rng::from_seed(seed);
        let (range, mut stream) = (300u64, 0);
        for i in 0..500 {
            let class = CLASSES[rng.below(if i < 250 { 3 } else { 2 }) as usize];
            let at = rng.below(range * 8) * 512;
            let bytes = 512 * (1 + rng.below(40)) as u32;
            match rng.below(20) {
                0..6 => submit(&mut h, Opcode::Read, at, bytes, class),
                6..10 => {
                    submit(&mut h, Opcode::Read, stream * SECTOR, 8192, class);
                    stream = (stream + 2) % range;
                }
                10..18 => submit(&mut h, Opcode::Write, at, bytes, class),
                18 => submit(&mut h, Opcode::Deallocate, at, bytes, class),
                _ => submit(&mut h, Opcode::Flush, 0, 0, class),
            }
            for _ in 0..rng.below(14) {
                let cache = h.drive.cache.as_ref().unwrap();
                let (before, ways) = (places(cache), cache.ways_of(LATENCY));
                if !h.step() { break; }
                let cache = h.drive.cache.as_ref().unwrap();
                cache.assert_consistent();
                prop_assert!(cache.ways_of(LATENCY).len().abs_diff(ways.len()) <= 1);
                if cache.ways_of(LATENCY) == ways {
                    assert_kept_apart(cache, &before, seed);
                }
            }
            if i % 100 == 99 { h.settle(); }
        }
        h.settle();
        for sector in 0..range {
            submit(&mut h, Opcode::Read, sector * SECTOR, 4096, CLASSES[rng.below(3) as usize]);
            if sector % 100 == 99 { h.settle(); }
        }
        h.settle();
        h.assert_no_wrong(&format!("seed {seed}"));
        prop_assert!(h.done.iter().all(|d| d.posted.cqe.status == Status::Success), "seed {}", seed);
        prop_assert!(h.drive.idle(), "seed {}", seed);
    }
}

/// A million commands of both classes on a few hundred sectors: each read returns the version that the
/// plain array of versions has.
#[test]
fn a_million_commands_of_both_classes_read_what_was_written() {
    let seed = 0x5EED;
    let cache = CacheConfig {
        read_ahead: Some(ghosts(&[0, 1, 2, 4], 32 << 10)),
        epoch: EpochConfig { ios: 200, time: Span::from_ms(1) },
        ..partitioned(128, 8, 4, Split::MissingLines)
    };
    let mut h = host(cache);
    let mut rng = Rng::from_seed(seed);
    let mut stream = 0;
    for i in 0..1_000_000u64 {
        // The mix leans to one class and then to the other, so that ways move.
        let lean = i / 5_000 % 2;
        let class = CLASSES[usize::from(rng.below(4) == 0) ^ lean as usize];
        let at = rng.below(800) * SECTOR;
        match rng.below(16) {
            0..6 => submit(&mut h, Opcode::Read, at, 4096, class),
            6..9 => {
                submit(&mut h, Opcode::Read, stream * SECTOR, 8192, class);
                stream = (stream + 2) % 800;
            }
            9..15 => submit(&mut h, Opcode::Write, at, 4096, class),
            _ => submit(&mut h, Opcode::Deallocate, at, 4096, class),
        }
        while h.drive.in_flight() > 24 || i % 64 == 63 && !h.drive.idle() {
            assert!(h.step(), "the drive gets nowhere, seed {seed}");
        }
        h.done.clear();
    }
    h.settle();
    h.drive.cache.as_ref().unwrap().assert_consistent();
    h.assert_no_wrong(&format!("seed {seed}"));
    let checked = h.ctx.stamps.checked();
    assert!(checked > 400_000, "{checked}");
    let [latency, throughput] = [LATENCY, THROUGHPUT].map(|p| stats(&h, p));
    assert!(latency.ways_over_time.len() > 20, "{:?}", latency.ways_over_time.len());
    assert_eq!(latency.ways + throughput.ways, 8);
    for p in [latency, throughput] {
        assert!(p.stats.read_hits > 10_000 && p.stats.evictions > 10_000, "{p:?}");
        assert!(p.stats.ahead >= p.stats.ahead_useful + p.stats.ahead_useless, "{p:?}");
    }
}

/// Hits of latency-critical reads of few sectors, while others scan.
fn hits_beside_a_scan(cache: CacheConfig) -> f64 {
    let mut h = host(cache);
    for sector in 0..3000u64 {
        submit(&mut h, Opcode::Write, sector * SECTOR, 4096, Workload::None);
        if sector % 32 == 31 {
            h.settle();
        }
    }
    let mut hits = (0, 0);
    for i in 0..6000u64 {
        submit(&mut h, Opcode::Read, (200 + i % 2800) * SECTOR, 4096, Workload::None);
        if i % 4 == 0 {
            h.settle();
            let before = h.drive.cache.as_ref().unwrap().stats().read_hits;
            submit(&mut h, Opcode::Read, i / 4 % 96 * SECTOR, 4096, Workload::Latency);
            h.settle();
            let after = h.drive.cache.as_ref().unwrap().stats().read_hits;
            if i >= 3000 {
                hits = (hits.0 + after - before, hits.1 + 1);
            }
        }
    }
    hits.0 as f64 / hits.1 as f64
}

#[test]
fn a_scan_evicts_no_latency_critical_line() {
    let shared = hits_beside_a_scan(cache_config(256, 8, 1));
    let apart = hits_beside_a_scan(partitioned(256, 8, 4, Split::Fixed));
    assert!(shared < 0.1 && apart > 0.99, "{shared} {apart}");
}

#[test]
fn ways_go_where_lines_are_missed_and_keep_what_they_hold() {
    let mut cache = partitioned(64, 8, 2, Split::MissingLines);
    cache.dirty_high = 100;
    cache.epoch.ios = 50;
    let mut h = host(cache);
    // All throughput ways are full of dirty lines.
    for sector in 0..48u64 {
        submit(&mut h, Opcode::Write, sector * SECTOR, 4096, Workload::Throughput);
    }
    h.settle();
    assert_eq!(h.drive.stats(h.ctx.now).dirty_lines, 48);
    assert_eq!((stats(&h, LATENCY).ways, stats(&h, THROUGHPUT).ways), (2, 6));
    // Reads of the other class hit where the lines are, and bring none in.
    for sector in 0..48u64 {
        submit(&mut h, Opcode::Read, sector * SECTOR, 4096, Workload::Latency);
        h.settle();
    }
    assert_eq!((stats(&h, LATENCY).stats.read_hits, stats(&h, LATENCY).lines), (48, 0));
    // A write goes to where its line is.
    submit(&mut h, Opcode::Write, 5 * SECTOR, 4096, Workload::Latency);
    h.settle();
    assert_eq!((stats(&h, LATENCY).lines, stats(&h, THROUGHPUT).lines), (0, 48));
    for i in 0..500u64 {
        submit(&mut h, Opcode::Read, (100 + i) * SECTOR, 4096, Workload::Latency);
        if i % 16 == 15 {
            h.settle();
        }
    }
    h.settle();
    let [latency, throughput] = [LATENCY, THROUGHPUT].map(|p| stats(&h, p));
    assert_eq!((latency.ways, throughput.ways), (7, 1));
    let ways: Vec<u32> = latency.ways_over_time.iter().map(|w| w.1).collect();
    assert_eq!(ways, [2, 1, 2, 3, 4, 5, 6, 7], "one an epoch");
    // Reads never wait for room: what is dirty in ways that moved stays until there are writes.
    assert_eq!(h.drive.stats(h.ctx.now).dirty_lines, 48);
    for sector in 0..48u64 {
        submit(&mut h, Opcode::Write, (1000 + sector) * SECTOR, 4096, Workload::Latency);
        h.settle();
    }
    let written_back = h.drive.stats(h.ctx.now).cache.unwrap().written_back;
    assert!(written_back > 20, "{written_back}");
    for sector in 0..48u64 {
        submit(&mut h, Opcode::Read, sector * SECTOR, 4096, Workload::Throughput);
    }
    h.settle();
    h.assert_no_wrong("ways that moved");
}

/// The share of dirty lines is each partition's own.
#[test]
fn a_partition_full_of_dirty_lines_is_written_back_alone() {
    let mut cache = partitioned(64, 8, 4, Split::Fixed);
    cache.dirty_high = 50;
    let mut h = host(cache);
    for i in 0..10u64 {
        submit(&mut h, Opcode::Write, i * SECTOR, 4096, Workload::Latency);
    }
    for i in 0..300u64 {
        submit(&mut h, Opcode::Write, (50 + i) * SECTOR, 4096, Workload::Throughput);
        h.settle();
    }
    let [latency, throughput] = [LATENCY, THROUGHPUT].map(|p| stats(&h, p).stats);
    assert_eq!(latency.written_back, 0);
    assert!(throughput.written_back >= 280, "{throughput:?}");
    assert_eq!(throughput.write_stalls, 0);
}

#[test]
fn ghosts_choose_a_degree_by_stream_and_class_and_read_nothing_themselves() {
    let run = |read_ahead: Option<ReadAheadConfig>, sequential: bool| {
        let mut cache = partitioned(512, 8, 4, Split::Fixed);
        cache.read_ahead = read_ahead;
        cache.epoch.ios = 200;
        let mut h = host(cache);
        for sector in 0..4000u64 {
            submit(&mut h, Opcode::Write, sector * SECTOR, 4096, Workload::None);
            if sector % 32 == 31 {
                h.settle();
            }
        }
        for i in 0..1200u64 {
            let stream = if sequential { i } else { i * 1013 % 3001 };
            submit(&mut h, Opcode::Read, stream * SECTOR, 4096, Workload::Throughput);
            h.settle();
            let random = i * 769 % 3907;
            submit(&mut h, Opcode::Read, random * SECTOR, 4096, Workload::Latency);
            h.settle();
        }
        h.assert_no_wrong("ghosts");
        let reads = h.drive.nand().counters().ops[Class::UserRead as usize];
        (reads, h.ctx.queue.popped(), [LATENCY, THROUGHPUT].map(|p| stats(&h, p)))
    };
    let degrees = [0, 1, 2, 4, 8, 16];
    let (_, _, [latency, throughput]) = run(Some(ghosts(&degrees, 16 << 10)), true);
    let last = |p: &crate::CachePartition| p.ahead_over_time.last().unwrap().1;
    assert_eq!((last(&latency), latency.stats.ahead), (0, 0), "{latency:?}");
    assert!(last(&throughput) > 0 && throughput.stats.ahead_useful > 800, "{throughput:?}");
    // Where nothing is sequential, ghosts leave no trace.
    let (reads, events, _) = run(None, false);
    let (with, events_with, [latency, throughput]) = run(Some(ghosts(&degrees, 16 << 10)), false);
    assert_eq!((with, events_with), (reads, events));
    assert_eq!((last(&latency), last(&throughput)), (0, 0));
}

#[test]
fn the_queue_says_whose_a_command_is_where_the_attribute_does_not() {
    let mut d = device_config();
    d.queues.arbitration = Arbitration::WeightedUrgent;
    let mut cache = partitioned(64, 8, 4, Split::Fixed);
    cache.partition.as_mut().unwrap().by = PartitionBy::Queue;
    d.cache = Some(cache);
    let mut h = Host::with_ftl(&nand_config(), &d, &ftl_config());
    h.queue(0, 64, QueuePriority::Urgent);
    h.queue(1, 64, QueuePriority::Low);
    for sector in 0..12u64 {
        h.submit((sector % 3 / 2) as u16, Opcode::Write, sector * SECTOR, 4096);
    }
    h.settle();
    assert_eq!((stats(&h, LATENCY).lines, stats(&h, THROUGHPUT).lines), (8, 4));
}
