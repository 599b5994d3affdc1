//! Commands whose data take turns on the link.

use super::*;
use wordline_base::{Layer, Rng, Why};

const LARGE: u32 = 256 << 10;

fn drive(turn_bytes: u32) -> (Host, DeviceConfig) {
    let mut d = device_config();
    d.link.turn_bytes = Some(turn_bytes);
    let mut h = Host::with_ftl(&nand_config(), &d, &ftl_config());
    h.queue(0, 1024, QueuePriority::Medium);
    (h, d)
}
fn span(bytes: u32) -> u64 {
    let rate = 984_615_384u64 * 4 * 90 / 100;
    (u64::from(bytes) * 1_000_000_000).div_ceil(rate)
}

/// Reads of sectors that were never written: data come from nowhere, and cross the link.
#[test]
fn a_small_read_waits_for_one_turn_of_each_large_one() {
    for (turn, bound) in [(4096, 4 * span(4096)), (16384, 4 * span(16384))] {
        let (mut h, _) = drive(turn);
        let (alone, _) = h.one(Opcode::Read, 0, 4096);
        for i in 0..4 {
            h.submit(0, Opcode::Read, i << 20, LARGE);
        }
        h.advance(h.ctx.now + Span::from_us(30));
        let (beside, _) = h.one(Opcode::Read, 0, 4096);
        let waited = beside.0 - alone.0;
        assert!((span(4096)..=bound + 4).contains(&waited), "{turn}: waited {waited}");
    }
    let (mut h, _) = drive(0);
    let (alone, _) = h.one(Opcode::Read, 0, 4096);
    for i in 0..4 {
        h.submit(0, Opcode::Read, i << 20, LARGE);
    }
    h.advance(h.ctx.now + Span::from_us(30));
    let (beside, _) = h.one(Opcode::Read, 0, 4096);
    assert!(beside.0 - alone.0 > 3 * span(LARGE), "all data of all that came before it");
}

#[test]
fn turns_take_nothing_from_the_link() {
    for opcode in [Opcode::Read, Opcode::Write] {
        let took = [0, 4096].map(|turn| {
            let mut d = device_config();
            d.link.turn_bytes = Some(turn);
            // Writes end in memory that outruns the link.
            let rate = 4_000_000_000_000;
            let cache = CacheConfig { dirty_high: 100, rate, ..cache_config(4096, 8, 1) };
            d.cache = (opcode == Opcode::Write).then_some(cache);
            let mut h = Host::with_ftl(&nand_config(), &d, &ftl_config());
            h.queue(0, 1024, QueuePriority::Medium);
            for i in 0..8 {
                h.submit(0, opcode, i << 20, 64 << 10);
            }
            h.settle();
            (h.ctx.now.0, h.drive.stats(h.ctx.now))
        });
        let [(whole, of_whole), (turns, of_turns)] = took;
        // A turn's end is rounded up to a nanosecond, and copies of 16 ns follow each other at the end.
        assert!(turns.abs_diff(whole) <= 8 * 16 * 2, "{opcode:?}: {turns} and {whole}");
        assert_eq!(of_turns.bytes_read, of_whole.bytes_read);
        assert_eq!(of_turns.bytes_written, of_whole.bytes_written);
    }
}

#[test]
fn large_reads_that_begin_together_end_together() {
    let (mut h, _) = drive(4096);
    for i in 0..4 {
        h.put(0, Opcode::Read, i << 20, LARGE).unwrap();
    }
    h.drive.doorbell(&mut h.ctx, 0);
    h.settle();
    let first = h.done.iter().map(|d| d.at).min().unwrap();
    let last = h.done.iter().map(|d| d.at).max().unwrap();
    // Firmware lets them begin one after the other.
    let apart = last.since(first).0;
    assert!(apart < 16 * span(4096), "{apart} ns apart");
}

/// Of eight units on eight LUNs the second on each of four channels comes a transfer later. The first four
/// cross the link meanwhile.
#[test]
fn data_of_a_read_cross_the_link_as_they_come_from_the_flash() {
    let unit = 16384u32;
    let latency = |turn| {
        let (mut h, d) = drive(turn);
        for i in 0..64 {
            h.one(Opcode::Write, i * u64::from(unit), unit);
        }
        h.one(Opcode::Flush, 0, 0);
        for i in 64..600 {
            h.one(Opcode::Write, i * u64::from(unit), unit);
        }
        h.settle();
        (h.one(Opcode::Read, 0, 8 * unit).0.0, d)
    };
    let ((whole, d), (turns, _)) = (latency(0), latency(4096));
    let transfer = Span::of_bytes(unit.into(), 800_000_000).0;
    let front = d.link.t_post.0 + span(64) + d.link.t_round_trip.0;
    let firmware = d.firmware.t_read.0 + d.firmware.t_sector.0 * 31;
    let flash = 100 + 20_000 + 2 * transfer;
    let back = span(16) + d.firmware.t_complete.0 + d.link.t_post.0;
    let expected = front + firmware + flash + span(8 * unit) + back;
    assert!(whole.abs_diff(expected) < 200, "{whole}, not {expected}");
    let saved = span(4 * unit);
    assert!(turns.abs_diff(expected - saved) < 200, "{turns}, not {}", expected - saved);
}

/// The limit is that of the data: it comes turn by turn too.
#[test]
fn limits_let_turns_pass() {
    let (mut h, mut d) = drive(4096);
    let (alone, _) = h.one(Opcode::Read, 0, LARGE);
    d.limits.read_rate = 1_000_000_000;
    d.limits.read_iops = 1_000_000;
    let mut h = Host::with_ftl(&nand_config(), &d, &ftl_config());
    h.queue(0, 1024, QueuePriority::Medium);
    let (limited, _) = h.one(Opcode::Read, 0, LARGE);
    let at_once = u64::from(LARGE - 4096) + span(4096);
    let expected = alone.0 - span(LARGE) + at_once;
    assert!(limited.0.abs_diff(expected) < 100, "{limited:?}, not {expected}");
    let io = h.submit_io(0, Opcode::Read, 0, LARGE);
    h.settle();
    let life = h.ctx.lives.end(io);
    let spent = |layer: Layer| life.spent()[layer as usize];
    assert_eq!(life.spent().iter().sum::<u64>(), life.latency().0);
    // What the data take of each turn's time is the link's, the rest the limit's.
    let turns = u64::from(LARGE / 4096 - 1);
    assert!(spent(Layer::Limit).abs_diff(turns * (4096 - span(4096))) < 100);
}

#[test]
fn lives_of_streams_sum_to_their_latencies() {
    let (n, mut d, mut f) = (nand_config(), device_config(), ftl_config());
    d.limits = Limits { read_iops: 200_000, write_rate: 600_000_000, ..Limits::default() };
    d.limits.read_rate = 1_500_000_000;
    f.cost.read_command = Span(200);
    let seed = 11;
    for (turn_bytes, cached) in [(4096, false), (4096, true), (512, true), (12_288, true)] {
        d.link.turn_bytes = Some(turn_bytes);
        d.cache = cached.then(|| cache_config(64, 4, 2));
        let mut h = Host::with_ftl(&n, &d, &f);
        h.queue(0, 64, QueuePriority::Medium);
        let mut rng = Rng::from_seed(seed);
        let mut ios = Vec::new();
        for round in 0..200 {
            for _ in 0..6 {
                let opcode = if rng.below(2) == 0 { Opcode::Read } else { Opcode::Write };
                let bytes = 512 * (1 + rng.below(200)) as u32;
                let begin = h.ctx.now;
                ios.push((h.submit_io(0, opcode, rng.below(2000) * 512, bytes), begin));
            }
            h.settle();
            for done in h.done.drain(..) {
                assert_eq!(done.posted.cqe.status, Status::Success);
                let at = ios.iter().position(|&(io, _)| io == done.posted.io).unwrap();
                let (io, begin) = ios.swap_remove(at);
                let life = h.ctx.lives.end(io);
                assert_eq!(life.end, done.at, "seed {seed}, round {round}: {life:?}");
                assert_eq!(life.spent().iter().sum::<u64>(), done.at.since(begin).0);
                assert!(life.steps().iter().any(|s| s.why == Why::Data));
            }
        }
        h.assert_no_wrong("streams");
    }
}

/// A drive that was written, of which so many reads of a thousand million fail.
fn failing(ppb: u64, d: &DeviceConfig) -> Host {
    let mut n = nand_config();
    n.faults.read_fail_ppb = ppb;
    let mut h = Host::with_ftl(&n, d, &ftl_config());
    h.queue(0, 1024, QueuePriority::Medium);
    for i in 0..600 {
        h.one(Opcode::Write, i << 14, 1 << 14);
    }
    h.settle();
    h.done.clear();
    h
}

/// Flash that fails ends a stream with an error, whatever was on its way.
#[test]
fn a_read_that_fails_half_way_ends_with_its_status() {
    let mut h = failing(300_000_000, &device_config());
    for i in 0..64 {
        h.submit(0, Opcode::Read, i << 14, 128 << 10);
    }
    h.settle();
    let failed = h.done.iter().filter(|d| d.posted.cqe.status == Status::UnrecoveredRead).count();
    assert_eq!(h.done.len(), 64);
    assert!((1..64).contains(&failed), "{failed} failed");
}

/// A memory slower than the link is what large hits go by, the last turn among them.
#[test]
fn every_turn_of_a_cached_read_leaves_the_memory() {
    let rate = 1_000_000_000;
    let took = |turn| {
        let mut d = device_config();
        d.link.turn_bytes = Some(turn);
        d.cache = Some(CacheConfig { dirty_high: 100, rate, ..cache_config(4096, 8, 1) });
        let mut h = Host::with_ftl(&nand_config(), &d, &ftl_config());
        h.queue(0, 1024, QueuePriority::Medium);
        for i in 0..32 {
            h.one(Opcode::Write, i * 8192, 8192);
        }
        let begin = h.ctx.now;
        let ios: Vec<IoId> =
            (0..32).map(|i| h.submit_io(0, Opcode::Read, i * 8192, 8192)).collect();
        h.settle();
        for io in ios {
            let life = h.ctx.lives.end(io);
            assert_eq!(life.spent().iter().sum::<u64>(), life.latency().0);
            assert_eq!(life.spent()[Layer::Limit as usize], 0, "there are no limits");
        }
        let waits = h.drive.stats(h.ctx.now).waits;
        assert!(waits.cache_copy > 0 && waits.limits == 0);
        h.ctx.now.since(begin).0
    };
    let (whole, turns) = (took(0), took(4096));
    let memory = 32 * 8192 * 1_000_000_000 / rate;
    assert!(whole > memory && turns > memory, "{whole} {turns}, {memory} of them copies");
    assert!(turns < memory + 20_000, "{turns}, {memory} of them copies");
}

/// The next turn begins on a link when the link is free, not when the last one is through the switch.
#[test]
fn turns_through_a_switch_follow_each_other_on_the_drives_own_link() {
    let upstream = SwitchConfig { generation: 3, lanes: 4, efficiency: 90.0, t_forward: Span(150) };
    for opcode in [Opcode::Read, Opcode::Write] {
        let [whole, turns] = [0, 4096].map(|turn| {
            let (mut h, _) = drive(turn);
            h.drive.join_switch(crate::Switch::new(&upstream).unwrap());
            h.one(opcode, 0, LARGE).0.0
        });
        assert!(turns.abs_diff(whole) <= 64, "{opcode:?}: {turns}, whole {whole}");
    }
}

/// An error that comes while a turn waits for the limits ends the read when the turn's time has come.
#[test]
fn a_read_that_fails_while_a_turn_waits_ends_once() {
    let mut d = device_config();
    d.limits.read_rate = 20_000_000;
    let mut h = failing(200_000_000, &d);
    let ios: Vec<IoId> =
        (0..40).map(|i| h.submit_io(0, Opcode::Read, i << 14, 128 << 10)).collect();
    h.settle();
    assert_eq!(h.done.len(), 40);
    for io in ios {
        let life = h.ctx.lives.end(io);
        assert_eq!(life.spent().iter().sum::<u64>(), life.latency().0);
    }
}
