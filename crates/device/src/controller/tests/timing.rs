//! Closed forms: latency of an idle drive, throughput of a saturated one, energy, waits.

use super::*;
use wordline_base::{Layer, Rng, Why};

fn link_span(bytes: u64) -> u64 {
    let rate = 984_615_384u64 * 4 * 90 / 100;
    (bytes * 1_000_000_000).div_ceil(rate)
}

/// Fetch of a command: doorbell, 64 bytes, round trip.
fn front(d: &DeviceConfig) -> u64 {
    d.link.t_post.0 + link_span(64) + d.link.t_round_trip.0
}
/// Completion of a command with `bytes` for the host.
fn back(d: &DeviceConfig, bytes: u64) -> u64 {
    let data = if bytes > 0 { link_span(bytes) } else { 0 };
    data + link_span(16) + d.firmware.t_complete.0 + d.link.t_post.0
}

#[test]
fn vector_commands_on_an_idle_drive_take_the_sum_of_their_stages() {
    let (n, d) = (nand_config(), device_config());
    let mut h = Host::bare(&n, &d);
    h.queue(0, 64, QueuePriority::Medium);
    let unit = u64::from(h.drive.nand().geometry.unit_bytes() as u32);
    let sectors = unit / SECTOR;
    let other = d.firmware.t_other.0;
    let more = d.firmware.t_sector.0 * (sectors - 1);

    let (program, status) = h.one(Opcode::VectorWrite, 0, unit as u32);
    assert_eq!(status, Status::Success);
    let data_in = link_span(unit) + d.link.t_round_trip.0;
    let flash = 100 + Span::of_bytes(unit, n.channel_rate).0 + 200_000;
    assert_eq!(program.0, front(&d) + other + more + data_in + flash + back(&d, 0));

    let (read, status) = h.one(Opcode::VectorRead, 0, 4096);
    assert_eq!(status, Status::Success);
    let flash = 100 + 20_000 + Span::of_bytes(4096, n.channel_rate).0;
    assert_eq!(read.0, front(&d) + other + flash + back(&d, 4096));

    let (reset, status) = h.one(Opcode::VectorReset, 5, 0);
    assert_eq!(status, Status::Success);
    assert_eq!(reset.0, front(&d) + other + 100 + 2_000_000 + back(&d, 0));
}

#[test]
fn block_commands_on_an_idle_drive_take_the_sum_of_their_stages() {
    let (n, d, mut f) = (nand_config(), device_config(), ftl_config());
    f.cost.read_command = Span(230);
    f.cost.read_sector = Span(40);
    f.cost.write_command = Span(310);
    f.cost.write_sector = Span(70);
    let mut h = Host::with_ftl(&n, &d, &f);
    h.queue(0, 64, QueuePriority::Medium);

    let (write, _) = h.one(Opcode::Write, 0, 4096);
    let firmware = d.firmware.t_write.0 + 310 + 70;
    let data_in = link_span(4096) + d.link.t_round_trip.0;
    assert_eq!(write.0, front(&d) + firmware + data_in + back(&d, 0));

    // From the buffer.
    let (read, _) = h.one(Opcode::Read, 0, 4096);
    let firmware = d.firmware.t_read.0 + 230 + 40;
    assert_eq!(read.0, front(&d) + firmware + back(&d, 4096));

    // From flash, once enough was written after it that the buffer has forgotten it.
    for i in 1..2000 {
        h.one(Opcode::Write, i * 4096, 4096);
    }
    h.one(Opcode::Flush, 0, 0);
    h.settle();
    let events = h.ctx.queue.popped();
    let (read, _) = h.one(Opcode::Read, 0, 4096);
    let flash = 100 + 20_000 + Span::of_bytes(4096, n.channel_rate).0;
    assert_eq!(read.0, front(&d) + firmware + flash + back(&d, 4096));
    assert_eq!(h.ctx.queue.popped() - events, 5, "events of a read, the flash's two included");

    // Unmapped: no flash.
    let (read, _) = h.one(Opcode::Read, 4000 << 12, 4096);
    assert_eq!(read.0, front(&d) + firmware + back(&d, 4096));
    h.assert_no_wrong("block commands");
}

fn in_place(planes: u32) -> NandConfig {
    let nand = nand_config();
    NandConfig { in_place: true, planes, page_bytes: 4096, t_erase: Span::ZERO, ..nand }
}

#[test]
fn in_place_commands_on_an_idle_drive_take_the_sum_of_their_stages() {
    for planes in [1, 2] {
        let (n, d) = (in_place(planes), device_config());
        let mut h = Host::with_ftl(&n, &d, &ftl_config());
        h.queue(0, 64, QueuePriority::Medium);
        let unit = u64::from(planes) * 4096;
        let data_in = link_span(unit) + d.link.t_round_trip.0;
        let transfer = |bytes| Span::of_bytes(bytes, n.channel_rate).0;
        let more = d.firmware.t_sector.0 * u64::from(planes - 1);

        // A whole unit, durable: nothing is read.
        h.submit_fua(0, 0, unit as u32);
        h.settle();
        let program = 100 + transfer(unit) + 200_000;
        let front_of_write = front(&d) + d.firmware.t_write.0;
        let took = h.done.pop().unwrap().at.0;
        assert_eq!(took, front_of_write + more + data_in + program + back(&d, 0));

        // A sector of it, over what is there.
        let begin = h.ctx.now.0;
        h.submit_fua(0, 0, 4096);
        h.settle();
        let rest = if planes > 1 { 100 + 20_000 + transfer(unit) } else { 0 };
        let data_in = link_span(4096) + d.link.t_round_trip.0;
        let took = h.done.pop().unwrap().at.0 - begin;
        assert_eq!(took, front_of_write + data_in + rest + program + back(&d, 0));

        // It is read from the medium at once.
        let (read, _) = h.one(Opcode::Read, 0, 4096);
        let flash = 100 + 20_000 + transfer(4096);
        assert_eq!(read.0, front(&d) + d.firmware.t_read.0 + flash + back(&d, 4096));
        let (write, _) = h.one(Opcode::Write, 0, 4096);
        assert_eq!(write.0, front_of_write + data_in + back(&d, 0));
        h.settle();
        h.assert_no_wrong("in place");
    }
}

#[test]
fn in_place_writes_take_every_lun_its_time_of_a_unit() {
    let (n, d) = (in_place(1), device_config());
    let mut h = Host::with_ftl(&n, &d, &ftl_config());
    h.queue(0, 1024, QueuePriority::Medium);
    for round in 1..4u64 {
        let begin = h.ctx.now.0;
        for i in 0..960 {
            h.put(0, Opcode::Write, i * 4096, 4096).unwrap();
        }
        h.drive.doorbell(&mut h.ctx, 0);
        h.settle();
        let each = 100 + Span::of_bytes(4096, n.channel_rate).0 + 200_000;
        let (took, expected) = (h.ctx.now.0 - begin, 960 / 8 * each);
        assert!((expected..expected + expected / 50).contains(&took), "{took}, not {expected}");
        let c = h.drive.ftl().unwrap().counters();
        let absorbed = c.absorbed_sectors;
        assert_eq!((c.programmed_sectors, absorbed, c.erases), (960 * round, 0, 0));
    }
    h.assert_no_wrong("in place");
}

#[test]
fn cached_commands_on_an_idle_drive_take_the_sum_of_their_stages() {
    let (n, mut d, mut f) = (nand_config(), device_config(), ftl_config());
    f.cost.read_command = Span(230);
    d.cache = Some(CacheConfig { dirty_high: 100, ..cache_config(256, 8, 1) });
    let mut h = Host::with_ftl(&n, &d, &f);
    h.queue(0, 64, QueuePriority::Medium);
    let copy = 1024;
    let (write, _) = h.one(Opcode::Write, 0, 4096);
    let data_in = link_span(4096) + d.link.t_round_trip.0;
    let entry = d.firmware.t_complete.0 + d.link.t_post.0;
    assert_eq!(write.0, front(&d) + d.firmware.t_write.0 + 120 + data_in + copy + entry);
    let (hit, _) = h.one(Opcode::Read, 0, 4096);
    assert_eq!(hit.0, front(&d) + d.firmware.t_read.0 + 120 + copy + back(&d, 4096));
    // A miss pays the translation, and here no flash.
    let (miss, _) = h.one(Opcode::Read, 1 << 20, 4096);
    assert_eq!(miss.0, front(&d) + d.firmware.t_read.0 + 120 + 230 + copy + back(&d, 4096));
    let stats = h.drive.stats(h.ctx.now).cache.unwrap();
    assert_eq!((stats.read_hits, stats.read_misses), (1, 1));
}

#[test]
fn the_steps_of_a_life_sum_to_the_latency_and_name_the_right_layers() {
    let (n, d) = (nand_config(), device_config());
    let mut h = Host::bare(&n, &d);
    h.queue(0, 64, QueuePriority::Medium);
    h.fill_flash(32);
    let begin = h.ctx.now;
    let io = h.submit_io(0, Opcode::VectorRead, 0, 4096);
    h.settle();
    let life = h.ctx.lives.end(io);
    assert_eq!(life.end, h.done[0].at);
    assert_eq!(life.latency(), h.done[0].at.since(begin));
    assert_eq!(life.spent().iter().sum::<u64>(), life.latency().0);
    let spent = |layer: Layer| life.spent()[layer as usize];
    assert_eq!(spent(Layer::Nand), 20_000);
    assert_eq!(spent(Layer::Transfer), 100 + Span::of_bytes(4096, n.channel_rate).0);
    assert_eq!(spent(Layer::Ftl), d.firmware.t_other.0 + d.firmware.t_complete.0);
    assert_eq!(spent(Layer::QueueWait) + spent(Layer::LunWait) + spent(Layer::Cache), 0);
    assert_eq!(
        spent(Layer::Link),
        150 + link_span(64) + 600 + link_span(4096) + link_span(16) + 150
    );
    let step = |why| life.steps().into_iter().filter(move |s| s.why == why).map(|s| s.layer);
    assert!(step(Why::Fetch).eq([Layer::Link]));
    assert!(step(Why::Command).eq([Layer::Transfer]), "the cycles of the flash");
}

#[test]
fn lives_sum_under_load_with_every_mechanism_on() {
    let (n, mut d, mut f) = (nand_config(), device_config(), ftl_config());
    f.cost.read_command = Span(200);
    f.cost.write_sector = Span(300);
    f.cost.program_unit = Span(900);
    d.limits = Limits { read_iops: 200_000, write_rate: 300_000_000, ..Limits::default() };
    d.limits.program_rate = 400_000_000;
    d.queues.in_flight = 12;
    d.interrupt = InterruptConfig { threshold: 4, time: Span::from_us(50) };
    let read_ahead =
        Some(ReadAheadConfig { trigger: 2, streams: 4, bytes: 64 << 10, ratio: 0.0, ghosts: None });
    for write_back in [true, false] {
        d.cache = Some(CacheConfig {
            write_back,
            read_ahead: read_ahead.clone(),
            ..cache_config(64, 4, 2)
        });
        let mut h = Host::with_ftl(&n, &d, &f);
        h.queue(0, 64, QueuePriority::Medium);
        let mut rng = Rng::from_seed(9);
        let mut ios = Vec::new();
        for round in 0..300u64 {
            for _ in 0..8 {
                let opcode = if rng.below(2) == 0 { Opcode::Read } else { Opcode::Write };
                let sector = if rng.below(2) == 0 { round * 8 % 2000 } else { rng.below(2000) };
                let bytes = 512 * (1 + rng.below(24)) as u32;
                let begin = h.ctx.now;
                ios.push((h.submit_io(0, opcode, sector * SECTOR, bytes), begin));
            }
            h.settle();
            for done in h.done.drain(..) {
                let at = ios.iter().position(|&(io, _)| io == done.posted.io).unwrap();
                let (io, begin) = ios.swap_remove(at);
                let life = h.ctx.lives.end(io);
                assert_eq!(life.end, done.at, "write-back {write_back}: {life:?}");
                assert_eq!(life.spent().iter().sum::<u64>(), done.at.since(begin).0);
            }
        }
        h.assert_no_wrong("load");
    }
}

/// Throughput of 4 KiB vector reads spread over the LUNs, in commands a second.
fn read_iops(n: &NandConfig, d: &DeviceConfig, depth: u32, commands: usize) -> f64 {
    let mut h = Host::bare(n, d);
    h.queue(0, 1024, QueuePriority::Medium);
    h.fill_flash(n.pages_per_block);
    let g = h.drive.nand().geometry;
    // A LUN that is done with a read gets the next one, so that none runs dry.
    let mut luns: Vec<u32> = Vec::new();
    let span = closed_loop(&mut h, depth, commands, |i, done| {
        let lun = done.map_or(i as u32 % g.luns, |d| luns[usize::from(d.posted.cqe.cid)]);
        let page = i as u32 % g.pages;
        luns.push(lun);
        let ppa = g.first_of_unit(g.unit_at(0, page, lun));
        (Opcode::VectorRead, u64::from(ppa.0), 4096)
    });
    commands as f64 / span.as_secs_f64()
}

#[track_caller]
fn assert_close(got: f64, expected: f64, what: &str) {
    assert!((got / expected - 1.0).abs() < 0.01, "{what}: {got:.0} instead of {expected:.0}");
}

#[test]
fn a_saturated_drive_runs_at_its_bottleneck() {
    let (n, d) = (nand_config(), device_config());
    // LUNs: command, tR and transfer each; alone on their channels.
    let one = NandConfig { luns_per_channel: 1, ..n.clone() };
    let t_lun = 100.0 + 20_000.0 + 5_120.0;
    assert_close(read_iops(&one, &d, 64, 20_000), 4.0 * 1e9 / t_lun, "LUNs");
    // Channels: command and data; tR shorter than the transfer.
    let t_read = PerPage::One(Span::from_us(1));
    let fast = NandConfig { luns_per_channel: 8, t_read, ..n.clone() };
    assert_close(read_iops(&fast, &d, 64, 20_000), 4.0 * 1e9 / 5_220.0, "channels");
    // Link: one lane of the first generation.
    let mut narrow = d.clone();
    (narrow.link.generation, narrow.link.lanes, narrow.link.efficiency) = (1, 1, 80.0);
    assert_close(read_iops(&n, &narrow, 64, 20_000), 200e6 / 4112.0, "link");
    // Firmware: one core, fetch to completion.
    let mut slow = d.clone();
    (slow.firmware.cores, slow.firmware.t_other) = (1, Span::from_us(9));
    assert_close(read_iops(&n, &slow, 64, 20_000), 1e9 / 9_300.0, "firmware");
    slow.firmware.cores = 2;
    assert_close(read_iops(&n, &slow, 64, 20_000), 2e9 / 9_300.0, "two cores");
    // The device's limits.
    let mut capped = d.clone();
    capped.limits.read_iops = 77_777;
    assert_close(read_iops(&n, &capped, 64, 20_000), 77_777.0, "read_iops");
    capped.limits.read_rate = 150_000_000;
    assert_close(read_iops(&n, &capped, 64, 20_000), 150e6 / 4096.0, "read_rate");
    // Depth: latency alone.
    let latency = 1e9 / read_iops(&n, &d, 1, 200);
    assert_close(read_iops(&n, &d, 2, 5_000), 2e9 / latency, "depth 2");
}

#[test]
fn the_program_rate_limits_every_program() {
    let n = nand_config();
    let mut d = device_config();
    d.limits.program_rate = 100_000_000;
    let mut h = Host::bare(&n, &d);
    h.queue(0, 64, QueuePriority::Medium);
    let g = h.drive.nand().geometry;
    let unit = g.unit_bytes() as u32;
    let span = closed_loop(&mut h, 16, 2_000, |i, _| {
        (Opcode::VectorWrite, i as u64 * u64::from(g.sectors_per_unit), unit)
    });
    assert_close(2_000.0 / span.as_secs_f64(), 1e8 / f64::from(unit), "vector writes");

    let mut h = Host::with_ftl(&n, &d, &ftl_config());
    h.queue(0, 64, QueuePriority::Medium);
    for i in 0..1000u64 {
        h.submit(0, Opcode::Write, i * u64::from(unit), unit);
        if i % 32 == 31 {
            h.settle();
        }
    }
    h.submit(0, Opcode::Flush, 0, 0);
    h.settle();
    let of = [Class::UserProgram, Class::GcProgram, Class::MetaProgram, Class::ParityProgram];
    let sectors = h.drive.nand().counters().sectors;
    let programs: u64 = of.iter().map(|&class| sectors[class]).sum();
    let rate = (programs << 12) as f64 / h.ctx.now.since(Time::ZERO).as_secs_f64();
    assert!(rate <= 1.01e8, "{rate}");
}

/// An erasure behind a program that the rate holds back waits for that one, and not for those of other LUNs.
#[test]
fn what_is_behind_a_held_program_waits_for_its_own_lun_alone() {
    let n = nand_config();
    let mut d = device_config();
    let mut ends = |rate, programs: u64| {
        d.limits.program_rate = rate;
        let mut h = Host::bare(&n, &d);
        h.queue(0, 256, QueuePriority::Medium);
        let g = h.drive.nand().geometry;
        let (unit, sectors) = (g.unit_bytes() as u32, u64::from(g.sectors_per_unit));
        for page in 0..programs {
            // LUN 0 twice, then LUN 1 again and again.
            let luns = u64::from(g.luns);
            let at = if page < 2 { page * luns } else { (page - 2) * luns + 1 };
            h.submit(0, Opcode::VectorWrite, at * sectors, unit);
        }
        // All data are in the drive.
        h.advance(Time::ZERO + Span::from_us(500));
        let block = u64::from(g.pages) * u64::from(g.luns) * sectors;
        let erase = h.submit(0, Opcode::VectorReset, block, unit);
        h.settle();
        h.done.iter().find(|done| done.posted.cqe.cid == erase).unwrap().at
    };
    assert_eq!(ends(10_000_000, 32), ends(10_000_000, 2));
}

#[test]
fn writes_are_no_faster_than_the_drives_limits() {
    let n = nand_config();
    let mut d = device_config();
    d.limits.write_rate = 50_000_000;
    let mut h = Host::with_ftl(&n, &d, &ftl_config());
    h.queue(0, 64, QueuePriority::Medium);
    let span = closed_loop(&mut h, 8, 2_000, |i, _| (Opcode::Write, (i as u64 % 500) * 8192, 8192));
    assert_close(2_000.0 / span.as_secs_f64(), 5e7 / 8192.0, "write_rate");
    d.limits = Limits { write_iops: 12_345, ..Limits::default() };
    let mut h = Host::with_ftl(&n, &d, &ftl_config());
    h.queue(0, 64, QueuePriority::Medium);
    let span = closed_loop(&mut h, 8, 2_000, |i, _| (Opcode::Write, (i as u64 % 500) * 8192, 8192));
    assert_close(2_000.0 / span.as_secs_f64(), 12_345.0, "write_iops");
}

#[test]
fn the_wait_for_a_limit_is_a_layer_of_its_own() {
    let (n, d, f) = (nand_config(), device_config(), ftl_config());
    let mut capped = d.clone();
    capped.limits = Limits { read_iops: 9_000, write_rate: 80_000_000, ..Limits::default() };
    let mut programs = d.clone();
    programs.limits.program_rate = 50_000_000;
    // Nanoseconds by layer of 16 commands at once, and what the drive says they waited for limits.
    let run = |d: &DeviceConfig, vector: bool, opcode, bytes: u32| {
        let mut h = if vector { Host::bare(&n, d) } else { Host::with_ftl(&n, d, &f) };
        h.queue(0, 64, QueuePriority::Medium);
        let ios: Vec<_> = (0..16u64)
            .map(|i| {
                let at = i * u64::from(bytes);
                h.submit_io(0, opcode, if vector { at / SECTOR } else { at }, bytes)
            })
            .collect();
        h.settle();
        let mut sums = [0; wordline_base::life::LAYERS];
        for io in ios {
            let life = h.ctx.lives.end(io);
            assert_eq!(life.spent().iter().sum::<u64>(), life.latency().0);
            sums.iter_mut().zip(life.spent()).for_each(|(sum, ns)| *sum += ns);
        }
        (sums, h.drive.stats(h.ctx.now).waits.limits)
    };
    let unit = n.planes * n.page_bytes;
    for (limited, vector, opcode, bytes) in [
        (&capped, false, Opcode::Read, 4096),
        (&capped, false, Opcode::Write, 8192),
        (&programs, true, Opcode::VectorWrite, unit),
    ] {
        let (free, none) = run(&d, vector, opcode, bytes);
        let (sums, waited) = run(limited, vector, opcode, bytes);
        assert_eq!((free[Layer::Limit as usize], none), (0, 0));
        assert_eq!(sums[Layer::Limit as usize], waited, "{opcode:?}");
        assert!(waited > 1_000_000, "{opcode:?}: {waited}");
        // The link transfers the same bytes at the same rate, and is asked for less at a time.
        assert!(sums[Layer::Link as usize] <= free[Layer::Link as usize], "{opcode:?}");
    }
}

#[test]
fn littles_law_holds_for_commands_in_the_drive() {
    let (n, d) = (nand_config(), device_config());
    let mut h = Host::bare(&n, &d);
    h.queue(0, 1024, QueuePriority::Medium);
    h.fill_flash(32);
    let g = h.drive.nand().geometry;
    // Arrivals at random, an open loop.
    let mut rng = Rng::from_seed(4);
    let (mut sum, mut inside, mut area, mut last) = (0u64, 0u64, 0u128, Time::ZERO);
    let mut began = std::collections::BTreeMap::new();
    let mut count = |h: &mut Host, inside: &mut u64, last: &mut Time| {
        area += u128::from(*inside) * u128::from(h.ctx.now.since(*last).0);
        *last = h.ctx.now;
    };
    let (mut arrival, mut sent) = (Time(1000), 0);
    while sent < 20_000 || inside > 0 {
        let next = h.ctx.queue.next_time().unwrap_or(Time::NEVER);
        if sent < 20_000 && arrival <= next {
            h.ctx.now = arrival;
            // The queue's own clock: an event at the arrival keeps it in step.
            count(&mut h, &mut inside, &mut last);
            let ppa = rng.below(u64::from(g.sectors_per_line));
            let cid = h.submit(0, Opcode::VectorRead, ppa, 4096);
            began.insert(cid, arrival);
            inside += 1;
            sent += 1;
            arrival += Span(rng.below(9_000));
            continue;
        }
        h.step();
        count(&mut h, &mut inside, &mut last);
        for done in h.done.drain(..) {
            sum += done.at.since(began.remove(&done.posted.cqe.cid).unwrap()).0;
            inside -= 1;
        }
    }
    assert_eq!(u128::from(sum), area, "mean number x time = arrivals x mean latency, exactly");
    assert!(h.drive.idle());
}

#[test]
fn energy_is_busy_time_times_power() {
    let mut n = nand_config();
    (n.power.read_mw, n.power.program_mw) = (40, 60);
    (n.power.erase_mw, n.power.transfer_mw) = (30, 10);
    let d = device_config();
    let mut h = Host::bare(&n, &d);
    h.queue(0, 64, QueuePriority::Medium);
    let unit = h.drive.nand().geometry.unit_bytes() as u32;
    for i in 0..100u64 {
        h.one(Opcode::VectorWrite, i * 4, unit);
        h.one(Opcode::VectorRead, i * 4, 4096);
    }
    h.one(Opcode::VectorReset, 0, 0);
    let s = h.drive.stats(h.ctx.now);
    let near = |got: f64, expected: f64| (got / expected - 1.0).abs() < 1e-6;
    assert!(near(s.energy.idle, 2.0 * h.ctx.now.0 as f64 * 1e-9));
    let firmware = 100 * (700 + 150 + 300) + 100 * (700 + 300) + 700 + 300;
    assert_eq!(s.firmware_busy_ns, firmware);
    assert!(near(s.energy.firmware, 0.3 * firmware as f64 * 1e-9));
    assert_eq!(s.link_to_device_busy_ns, 201 * link_span(64) + 100 * link_span(u64::from(unit)));
    assert_eq!(s.link_to_host_busy_ns, 201 * link_span(16) + 100 * link_span(4096));
    let link = s.link_to_device_busy_ns + s.link_to_host_busy_ns;
    assert!(near(s.energy.link, 0.5 * link as f64 * 1e-9));
    assert!(near(s.energy.nand_read, 0.04 * 100.0 * 20e-6));
    assert!(near(s.energy.nand_program, 0.06 * 100.0 * 200e-6));
    assert!(near(s.energy.nand_erase, 0.03 * 2e-3));
    // By what it was for: the same sum.
    let [idle, controller, read, write, gc] =
        h.drive.energy_by_state(h.ctx.now).map(|nj| nj as f64 * 1e-9);
    assert!(near(idle + controller + read + write + gc, s.energy.total()));
    let out = Span::of_bytes(4096, n.channel_rate).0 as f64 * 1e-9;
    let link = 0.5 * s.link_to_host_busy_ns as f64 * 1e-9;
    let flash = 100.0 * (0.04 * 20e-6 + 0.01 * (out + 100e-9));
    let within_nj = |got: f64, expected: f64| (got - expected).abs() < 2e-9;
    assert!(within_nj(read, flash + link), "{read}");
    assert!(within_nj(gc, 0.03 * 2e-3 + 0.01 * 100e-9), "{gc}");
    assert_eq!(
        s.channel_busy_ns.iter().sum::<u64>(),
        h.drive.nand().counters().transfer_ns.iter().sum::<u64>()
    );
}
