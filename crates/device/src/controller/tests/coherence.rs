//! The cache against the stamps: whatever happens in whatever order, a read returns the newest data.

use super::*;
use proptest::prelude::*;
use wordline_base::{Layer, Lpn, Rng, Why};

fn host(cache: Option<CacheConfig>, ftl: &FtlConfig) -> Host {
    let mut d = device_config();
    d.cache = cache;
    let mut h = Host::with_ftl(&nand_config(), &d, ftl);
    h.queue(0, 256, QueuePriority::Medium);
    h
}

/// Random commands of all kinds, many in flight, on a small range so that they meet.
fn random_commands(h: &mut Host, seed: u64, commands: u32) {
    random_commands_in(h, seed, commands, 1);
}

/// The same in so many ranges, each in a page of the map of its own.
fn random_commands_in(h: &mut Host, seed: u64, commands: u32, ranges: u64) {
    let mut rng = Rng::from_seed(seed);
    let range = 400u64;
    let mut stream = 0;
    for i in 0..commands {
        let pick = rng.below(100);
        let base = if ranges > 1 { rng.below(ranges) * 1024 * SECTOR } else { 0 };
        let at = |rng: &mut Rng, unit: u64| base + rng.below(range * SECTOR / unit) * unit;
        match pick {
            0..35 => {
                h.submit(0, Opcode::Read, at(&mut rng, 512), 512 * (1 + rng.below(64)) as u32);
            }
            35..50 => {
                h.submit(0, Opcode::Read, stream * SECTOR, 8192);
                stream = (stream + 2) % range;
            }
            50..65 => {
                h.submit(0, Opcode::Write, at(&mut rng, 4096), 4096 * (1 + rng.below(9)) as u32);
            }
            65..82 => {
                h.submit(0, Opcode::Write, at(&mut rng, 512), 512 * (1 + rng.below(40)) as u32);
            }
            82..86 => {
                h.submit_fua(0, at(&mut rng, 512), 512 * (1 + rng.below(20)) as u32);
            }
            86..94 => {
                h.submit(
                    0,
                    Opcode::Deallocate,
                    at(&mut rng, 512),
                    512 * (1 + rng.below(90)) as u32,
                );
            }
            94..95 => {
                h.submit(0, Opcode::Deallocate, 0, (range * SECTOR) as u32);
            }
            _ => {
                h.submit(0, Opcode::Flush, 0, 0);
            }
        }
        if rng.below(3) > 0 {
            for _ in 0..rng.below(12) {
                h.step();
            }
        }
        if i % 100 == 99 || rng.below(50) == 0 {
            h.settle();
        }
        if let Some(cache) = &h.drive.cache {
            cache.assert_consistent();
        }
    }
    h.settle();
    for done in &h.done {
        assert_eq!(done.posted.cqe.status, Status::Success, "seed {seed}");
    }
    h.done.clear();
    // The whole range once more, after everything.
    for sector in (0..ranges).flat_map(|i| i * 1024..i * 1024 + range) {
        h.submit(0, Opcode::Read, sector * SECTOR, 4096);
        if sector % 100 == 99 {
            h.settle();
        }
    }
    h.settle();
    h.assert_no_wrong(&format!("seed {seed}"));
    assert!(h.ctx.stamps.checked() > u64::from(commands) / 2);
    let s = h.drive.stats(h.ctx.now);
    assert_eq!(s.commands_in, s.commands_out, "seed {seed}");
    assert!(s.rmw_units > 20, "seed {seed}: {} in part", s.rmw_units);
    assert!(h.drive.idle());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn reads_return_the_newest_data(
        seed in any::<u64>(),
        lines in prop::sample::select(vec![4u64, 16, 64, 1024]),
        ways in prop::sample::select(vec![1u32, 2, 4]),
        line_sectors in prop::sample::select(vec![1u32, 2, 4, 5]),
        write_back in any::<bool>(),
        read_allocate in any::<bool>(),
        capacitor in any::<bool>(),
        ahead in any::<bool>(),
        costs in any::<bool>(),
        shuffle in any::<bool>(),
        dirty_high in prop::sample::select(vec![0u32, 30, 100]),
        bounded in any::<bool>(),
    ) {
        let read_ahead = ahead.then_some(ReadAheadConfig { trigger: 2, streams: 2, bytes: 32 << 10, ratio: 0.0, ghosts: None });
        let dirty_max = if bounded && dirty_high < 100 { dirty_high + 5 } else { 100 };
        let cache = CacheConfig {
            write_back, read_allocate, capacitor, dirty_high, dirty_max, read_ahead,
            ..cache_config(lines, ways, line_sectors)
        };
        let mut f = ftl_config();
        if costs {
            f.cost.read_command = Span(400);
            f.cost.write_sector = Span(700);
            f.cost.program_unit = Span(2000);
            f.cost.background_command = Span(900);
        }
        let mut d = device_config();
        d.cache = Some(cache);
        let mut h = Host::with_ftl(&nand_config(), &d, &f);
        if shuffle && h.ctx.queue.is_empty() { h.ctx.queue.shuffle_ties(seed); }
        h.queue(0, 256, QueuePriority::Medium);
        random_commands(&mut h, seed, 600);
    }

    /// Without capacitors a trim waits behind a flush in the firmware, and in FSSD behind all that came before, when the
    /// cache has dropped its sectors.
    #[test]
    fn reads_return_the_newest_data_where_a_trim_waits_for_a_flush(
        seed in any::<u64>(),
        cached in any::<bool>(),
        lines in prop::sample::select(vec![4u64, 64, 1024]),
        line_sectors in prop::sample::select(vec![1u32, 4]),
        write_back in any::<bool>(),
        read_allocate in any::<bool>(),
        shuffle in any::<bool>(),
        fssd in any::<bool>(),
        volatile in any::<bool>(),
    ) {
        use wordline_ftl::config::{FirmwareConfig, FssdConfig};
        let cache = CacheConfig { write_back, read_allocate, ..cache_config(lines, 2, line_sectors) };
        let mut f = ftl_config();
        f.over_provisioning = 40.0;
        match fssd {
            true => f.fssd = Some(FssdConfig { volatile, ..FssdConfig::default() }),
            false => f.firmware = Some(FirmwareConfig { protected: false, ..Default::default() }),
        }
        let mut h = host(cached.then_some(cache), &f);
        if shuffle && h.ctx.queue.is_empty() { h.ctx.queue.shuffle_ties(seed); }
        random_commands(&mut h, seed, 600);
        h.drive.ftl.as_ref().unwrap().check_invariants().unwrap();
    }

    #[test]
    fn reads_return_the_newest_data_without_a_cache(seed in any::<u64>()) {
        random_commands(&mut host(None, &ftl_config()), seed, 400);
    }
}

/// Of [`reads_return_the_newest_data_where_memory_holds_a_part_of_the_map`].
#[derive(Clone, Copy, Debug)]
struct InPart {
    cached: bool,
    write_back: bool,
    read_allocate: bool,
    ahead: bool,
    protected: bool,
    lines: u64,
    pages: u64,
    shuffle: bool,
}

fn meet_in_a_part_of_the_map(seed: u64, case: InPart) {
    let InPart { cached, write_back, read_allocate, ahead, protected, lines, pages, shuffle } =
        case;
    let read_ahead = ahead.then_some(ReadAheadConfig {
        trigger: 2,
        streams: 2,
        bytes: 32 << 10,
        ratio: 0.0,
        ghosts: None,
    });
    let cache = CacheConfig { write_back, read_allocate, read_ahead, ..cache_config(lines, 2, 4) };
    let mut f = ftl_config();
    f.over_provisioning = 40.0;
    let map_bytes = pages * 4096;
    f.firmware =
        Some(wordline_ftl::config::FirmwareConfig { map_bytes, protected, ..Default::default() });
    let mut d = device_config();
    d.cache = cached.then_some(cache);
    let mut h = Host::with_ftl(&nand_config(), &d, &f);
    if shuffle && h.ctx.queue.is_empty() {
        h.ctx.queue.shuffle_ties(seed);
    }
    h.queue(0, 256, QueuePriority::Medium);
    random_commands_in(&mut h, seed, 600, 6);
    let ftl = h.drive.ftl.as_ref().unwrap();
    let c = ftl.counters();
    assert!(c.map_misses > 100 && c.map_read_sectors > 20 && c.map_sectors > 20, "{c:?}");
    ftl.check_invariants().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    /// Memory has two or three of the map's pages, and commands go to six.
    #[test]
    fn reads_return_the_newest_data_where_memory_holds_a_part_of_the_map(
        seed in any::<u64>(),
        cached in any::<bool>(),
        write_back in any::<bool>(),
        read_allocate in any::<bool>(),
        ahead in any::<bool>(),
        protected in any::<bool>(),
        lines in prop::sample::select(vec![4u64, 16, 64]),
        pages in 2..4u64,
        shuffle in any::<bool>(),
    ) {
        let case = InPart { cached, write_back, read_allocate, ahead, protected, lines, pages, shuffle };
        meet_in_a_part_of_the_map(seed, case);
    }
}

/// Sectors are looked up to be read ahead, a read waits for their line, and all of them are written before they
/// are found: no read of flash ends the wait.
#[test]
fn reads_that_wait_for_a_look_up_of_sectors_written_meanwhile_go_on() {
    let case = InPart {
        cached: true,
        write_back: true,
        read_allocate: false,
        ahead: true,
        protected: false,
        lines: 64,
        pages: 2,
        shuffle: false,
    };
    meet_in_a_part_of_the_map(4_885_492_995_167_452_328, case);
}

/// A read that misses its page of the map waits for a read of flash more, and its life says so.
#[test]
fn a_read_waits_for_its_page_of_the_map() {
    let mut f = ftl_config();
    f.over_provisioning = 40.0;
    f.firmware =
        Some(wordline_ftl::config::FirmwareConfig { map_bytes: 2 * 4096, ..Default::default() });
    let (n, d) = (nand_config(), device_config());
    let mut nand = Nand::new(&n, Seed(1)).unwrap();
    let mut ftl = Translator::new(None, &nand.geometry, &f, &mut |_, _| false, Seed(1)).unwrap();
    let mut ctx = Ctx::new();
    ctx.stamps = Stamps::new(ftl.sectors());
    ftl.fill(&mut ctx.stamps).unwrap();
    ftl.settle();
    for b in ftl.media_state() {
        nand.set_block(b.lun, b.line, b.programmed, b.erases, b.slc);
    }
    let mut drive = Controller::new(&d, nand, Some(ftl)).unwrap();
    drive.start(&mut ctx);
    let submitted = BTreeMap::new();
    let mut h = Host { ctx, drive, done: Vec::new(), cid: 0, submitted };
    h.queue(0, 256, QueuePriority::Medium);
    let mut read = |sector: u64| {
        let io = h.submit_io(0, Opcode::Read, sector * SECTOR, 4096);
        h.settle();
        let life = h.ctx.lives.end(io);
        let steps = life.times().filter(|(s, _)| s.why == Why::MapRead);
        let waited: u64 = steps.map(|(_, took)| took.0).sum();
        (life.latency().0, waited)
    };
    let (first, waited) = read(0);
    let (again, none) = read(1);
    assert_eq!((first - again, none), (waited, 0));
    assert!(waited >= 20_000, "{waited}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// No version comes between what a partial write read and what it wrote: the stamps tell.
    #[test]
    fn writes_of_parts_of_few_sectors_lose_nothing(
        seed in any::<u64>(),
        cached in any::<bool>(),
        write_back in any::<bool>(),
        lines in prop::sample::select(vec![2u64, 4, 64]),
        sectors in 1..9u64,
        faults in any::<bool>(),
    ) {
        let (mut n, mut d) = (nand_config(), device_config());
        if faults {
            n.faults.program_fail_ppb = 20_000_000;
            n.faults.read_fail_ppb = 20_000_000;
        }
        let cache = CacheConfig { write_back, ..cache_config(lines, 2, 1) };
        d.cache = cached.then_some(cache);
        let mut h = Host::with_ftl(&n, &d, &ftl_config());
        h.queue(0, 256, QueuePriority::Medium);
        let mut rng = Rng::from_seed(seed);
        let blocks = sectors * 8;
        for _ in 0..400 {
            let at = rng.below(blocks);
            let bytes = (512 * (1 + rng.below((blocks - at).min(24)))) as u32;
            match rng.below(10) {
                0..6 => drop(h.submit(0, Opcode::Write, at * 512, bytes)),
                6 => drop(h.submit_fua(0, at * 512, bytes)),
                7 => drop(h.submit(0, Opcode::Deallocate, at * 512, bytes)),
                8 => drop(h.submit(0, Opcode::Read, at * 512, bytes)),
                _ => drop(h.submit(0, Opcode::Write, at / 8 * SECTOR, 4096)),
            }
            for _ in 0..rng.below(8) {
                h.step();
            }
            if rng.below(40) == 0 {
                h.submit(0, Opcode::Flush, 0, 0);
                h.settle();
            }
        }
        h.settle();
        h.assert_no_wrong(&format!("seed {seed}"));
        let s = h.drive.stats(h.ctx.now);
        prop_assert_eq!(s.commands_in, s.commands_out);
        prop_assert!(s.rmw_units > 100 && s.rmw_waits > 10, "{} of {}", s.rmw_waits, s.rmw_units);
        prop_assert!(h.drive.idle() && h.drive.turns.is_empty());
    }
}

#[test]
fn a_flush_leaves_nothing_dirty_of_before() {
    let cache = CacheConfig { dirty_high: 100, ..cache_config(512, 8, 1) };
    let mut h = host(Some(cache), &ftl_config());
    for i in 0..200u64 {
        h.submit(0, Opcode::Write, i * 3 * SECTOR, 4096);
        if i % 100 == 99 {
            h.settle();
        }
    }
    assert_eq!(h.drive.stats(h.ctx.now).dirty_lines, 200);
    let flush = h.submit(0, Opcode::Flush, 0, 0);
    // Writes that come after the flush may stay dirty, and do not hold it up.
    let mut late = 0;
    while !h.done.iter().any(|d| d.posted.cqe.cid == flush) {
        if late < 50 && h.ctx.now > Time(50_000) {
            h.submit(0, Opcode::Write, (1500 + late) * SECTOR, 4096);
            late += 1;
        }
        assert!(h.step());
    }
    let cache = h.drive.cache.as_ref().unwrap();
    for i in 0..200 {
        let id = cache.find(i * 3).expect("nothing was replaced");
        assert_eq!((cache.line(id).dirty, cache.line(id).writing), (0, 0), "sector {}", i * 3);
    }
    assert!(cache.stats().written_back >= 200);
    h.settle();
    assert!(h.drive.stats(h.ctx.now).dirty_lines > 0);
}

/// How long a flush takes behind 20 writes, and then a FUA write.
fn flush_and_fua(h: &mut Host) -> (Span, Span) {
    for i in 0..20u64 {
        h.one(Opcode::Write, i * SECTOR, 4096);
    }
    let (flush, _) = h.one(Opcode::Flush, 0, 0);
    let begin = h.ctx.now;
    h.submit_fua(0, 100 * SECTOR, 4096);
    let n = h.done.len();
    while h.done.len() == n {
        h.step();
    }
    (flush, h.ctx.now.since(begin))
}

#[test]
fn a_capacitor_makes_flush_and_fua_complete_at_once() {
    let latencies = |capacitor| {
        let cache = CacheConfig { capacitor, dirty_high: 100, ..cache_config(512, 8, 1) };
        let mut h = host(Some(cache), &ftl_config());
        flush_and_fua(&mut h)
    };
    let (flush, fua) = latencies(true);
    assert!(flush < Span::from_us(5) && fua < Span::from_us(8), "{flush} {fua}");
    let (flush, fua) = latencies(false);
    assert!(flush > Span::from_us(200) && fua > Span::from_us(200), "{flush} {fua}");
}

/// What is protected says when a flush ends: the cache, the FTL's buffer alone, or nothing. In the second case
/// the buffer has what the cache held when it does.
#[test]
fn a_flush_goes_as_far_as_capacitors_do_not_reach() {
    let flush = |capacitor, protected| {
        let cache = CacheConfig { capacitor, dirty_high: 100, ..cache_config(512, 8, 1) };
        let mut f = ftl_config();
        f.firmware = Some(wordline_ftl::config::FirmwareConfig { protected, ..Default::default() });
        let mut h = host(Some(cache), &f);
        let (flush, fua) = flush_and_fua(&mut h);
        (flush, fua, h.drive.stats(h.ctx.now).dirty_lines)
    };
    let (flush_cache, fua_cache, dirty) = flush(true, true);
    assert_eq!(dirty, 21, "nothing was written back");
    let (flush_buffer, fua_buffer, dirty) = flush(false, true);
    assert_eq!(dirty, 0);
    let (flush_flash, fua_flash, dirty) = flush(false, false);
    assert_eq!(dirty, 0);
    // Into the buffer, which costs nothing on this drive; and no program.
    let most = Span::from_us(100);
    assert!(flush_cache <= flush_buffer && flush_buffer < most, "{flush_cache} {flush_buffer}");
    assert!(fua_cache <= fua_buffer && fua_buffer < most, "{fua_cache} {fua_buffer}");
    let program = Span::from_us(200);
    assert!(flush_flash > program && fua_flash > program, "{flush_flash} {fua_flash}");
}

#[test]
fn write_back_writes_less_than_write_through() {
    let written = |write_back| {
        let cache = CacheConfig { write_back, ..cache_config(512, 8, 1) };
        let mut h = host(Some(cache), &ftl_config());
        for i in 0..2000u64 {
            h.one(Opcode::Write, (i * 7 % 50) * SECTOR, 4096);
        }
        let s = h.drive.stats(h.ctx.now).cache.unwrap();
        assert_eq!(s.writes, 2000);
        s.written_back
    };
    assert_eq!(written(false), 2000);
    assert!(written(true) < 100);
}

#[test]
fn background_write_back_keeps_the_dirty_share() {
    let cache = CacheConfig { dirty_high: 25, ..cache_config(256, 8, 1) };
    let mut h = host(Some(cache), &ftl_config());
    for i in 0..1000u64 {
        h.submit(0, Opcode::Write, (i * 5 % 2000) * SECTOR, 4096);
        if i % 16 == 15 {
            h.settle();
            assert!(h.drive.stats(h.ctx.now).dirty_lines <= 64);
        }
    }
    assert_eq!(h.drive.stats(h.ctx.now).cache.unwrap().write_stalls, 0);
    h.assert_no_wrong("background");
}

/// Writes that come faster than flash takes them wait in the order in which they came. Without a bound on what is
/// dirty they wait for a line of their set: some overtake others.
#[test]
fn writes_wait_for_room_in_the_order_in_which_they_came() {
    let run = |dirty_max: u32| {
        let cache = CacheConfig { dirty_high: 25, dirty_max, ..cache_config(512, 32, 1) };
        let mut h = host(Some(cache), &ftl_config());
        let most_dirty = u64::from(dirty_max) * 512 / 100;
        let (mut begun, mut ended, mut overtook) = (0, 0, 0);
        let mut last = 0;
        while ended < 9000 {
            while begun < ended + 40 {
                h.submit(0, Opcode::Write, begun as u64 * 7919 % 2003 * SECTOR, 4096);
                begun += 1;
            }
            assert!(h.step());
            assert!(u64::from(h.drive.stats(h.ctx.now).dirty_lines) <= most_dirty);
            for done in &h.done[ended..] {
                overtook += u32::from(done.posted.cqe.cid < last);
                last = done.posted.cqe.cid;
            }
            ended = h.done.len();
        }
        h.assert_no_wrong("bounded");
        let stalls = h.drive.stats(h.ctx.now).cache.unwrap().write_stalls;
        println!("{dirty_max} %: {stalls} waited, {overtook} overtook");
        (stalls, overtook)
    };
    let (stalls, overtook) = run(40);
    assert!(stalls > 5000 && overtook == 0, "{stalls} {overtook}");
    let (_, overtook) = run(100);
    assert!(overtook > 50, "{overtook}");
}

#[test]
fn read_ahead_turns_a_stream_into_hits_and_leaves_random_reads_alone() {
    let run = |ahead: bool, sequential: bool| {
        let read_ahead = ahead.then_some(ReadAheadConfig {
            trigger: 3,
            streams: 4,
            bytes: 128 << 10,
            ratio: 0.0,
            ghosts: None,
        });
        let mut h =
            host(Some(CacheConfig { read_ahead, ..cache_config(1024, 8, 1) }), &ftl_config());
        h.write_first(2000);
        let begin = h.ctx.now;
        for i in 0..800u64 {
            let sector = if sequential { i } else { i * 997 % 900 };
            h.one(Opcode::Read, sector * SECTOR, 4096);
        }
        h.assert_no_wrong("read-ahead");
        (h.ctx.now.since(begin), h.drive.stats(h.ctx.now).cache.unwrap())
    };
    let (slow, s) = run(false, true);
    assert_eq!(s.ahead, 0);
    let (fast, s) = run(true, true);
    assert!(fast.0 * 2 < slow.0, "{fast} with read-ahead, {slow} without");
    assert!(s.ahead_useful >= 790 && s.ahead_useless == 0, "{s:?}");
    let (with, s) = run(true, false);
    assert_eq!(s.ahead, 0, "no stream, no read-ahead");
    assert_eq!(with, run(false, false).0);
}

/// A core that is through with a short read before another one is with the long read in front of it.
#[test]
fn a_stream_is_one_in_the_order_in_which_its_reads_are_fetched() {
    let read_ahead = Some(ReadAheadConfig {
        trigger: 4,
        streams: 4,
        bytes: 256 << 10,
        ratio: 0.0,
        ghosts: None,
    });
    let mut h = host(Some(CacheConfig { read_ahead, ..cache_config(1024, 8, 1) }), &ftl_config());
    h.write_first(2000);
    let mut sector = 0;
    for _ in 0..40 {
        for sectors in [18, 1, 1] {
            h.submit(0, Opcode::Read, sector * SECTOR, sectors * SECTOR as u32);
            sector += u64::from(sectors);
        }
        h.settle();
    }
    h.assert_no_wrong("read-ahead");
    let s = h.drive.stats(h.ctx.now).cache.unwrap();
    assert!(s.ahead_useful >= 750, "of 800 but for the first four reads: {s:?}");
}

#[test]
fn a_flush_waits_for_write_backs_already_under_way() {
    let mut f = ftl_config();
    f.cost.write_sector = Span::from_us(500);
    let mut h = host(Some(CacheConfig { dirty_high: 0, ..cache_config(64, 4, 1) }), &f);
    h.one(Opcode::Write, 0, 4096);
    assert_eq!(h.drive.stats(h.ctx.now).dirty_lines, 0, "the write-back has begun");
    let (flush, _) = h.one(Opcode::Flush, 0, 0);
    assert!(flush > Span::from_us(600), "{flush}");
    assert_eq!(h.drive.stats(h.ctx.now).cache.unwrap().written_back, 1);
    assert!(h.drive.nand().counters().ops[Class::UserProgram] > 0);
}

/// A write of part of a sector between two moments, as its life tells it.
fn steps_of(h: &mut Host, io: IoId) -> Vec<(Layer, Why)> {
    let life = h.ctx.lives.end(io);
    life.steps().iter().map(|s| (s.layer, s.why)).collect()
}

#[test]
fn writes_of_parts_of_one_sector_take_turns() {
    for cache in [None, Some(cache_config(64, 4, 2))] {
        let cached = cache.is_some();
        let mut h = host(cache, &ftl_config());
        // On flash, and nowhere else.
        for sector in 0..400u64 {
            h.one(Opcode::Write, sector * SECTOR, 4096);
        }
        h.one(Opcode::Flush, 0, 0);
        for _ in 0..2 {
            for sector in 200..400u64 {
                h.one(Opcode::Read, sector * SECTOR, 4096);
            }
        }
        let (first, second) = (
            h.submit_io(0, Opcode::Write, 3 * SECTOR + 512, 512),
            h.submit_io(0, Opcode::Write, 3 * SECTOR + 1024, 1024),
        );
        let whole = h.submit_io(0, Opcode::Write, 2 * SECTOR, 3 * 4096);
        let other = h.submit_io(0, Opcode::Write, 9 * SECTOR + 512, 512);
        h.settle();
        let modified = |steps: &[(Layer, Why)]| steps.contains(&(Layer::Nand, Why::Modify));
        let waited = |steps: &[(Layer, Why)]| steps.contains(&(Layer::Ftl, Why::Overlap));
        let [first, second, whole, other] =
            [first, second, whole, other].map(|io| steps_of(&mut h, io));
        assert!(modified(&first) && !waited(&first), "{first:?}");
        assert!(!modified(&second) && waited(&second), "the buffer has the rest: {second:?}");
        assert!(!modified(&whole) && waited(&whole), "{whole:?}");
        assert!(modified(&other) && !waited(&other), "{other:?}");
        let s = h.drive.stats(h.ctx.now);
        assert_eq!((s.rmw_units, s.rmw_read_bytes, s.rmw_waits), (3, 8192, 2), "cache: {cached}");
        h.assert_no_wrong("turns");
        assert!(h.drive.idle());
    }
}

#[test]
fn a_trim_leaves_what_it_covers_in_part() {
    let mut h = host(None, &ftl_config());
    h.one(Opcode::Write, 0, 5 * 4096);
    h.one(Opcode::Deallocate, 512, 4 * 4096);
    let held: Vec<bool> = (0..5).map(|s| h.ctx.stamps.newest(Lpn(s)) != 0).collect();
    assert_eq!(held, [true, false, false, false, true]);
    h.one(Opcode::Deallocate, 512, 4096 - 512);
    assert_ne!(h.ctx.stamps.newest(Lpn(0)), 0);
    let s = h.drive.stats(h.ctx.now);
    assert_eq!((s.rmw_units, s.rmw_waits), (0, 0));
}

/// Write-backs of the range, and writes with FUA, follow each other without a gap. A trim waits for those that are under
/// way, and not for what comes behind it.
#[test]
fn a_trim_does_not_wait_for_as_long_as_others_write() {
    for (write_back, every, dirty_high) in
        [(true, 0, 10), (true, 1, 10), (true, 4, 90), (false, 0, 50), (false, 3, 50)]
    {
        let cache = CacheConfig { write_back, dirty_high, ..cache_config(256, 4, 4) };
        let mut h = host(Some(cache), &ftl_config());
        let range = 2048;
        let write = |h: &mut Host, i: u64| {
            let (at, n) = (i * 7919 % range * SECTOR, SECTOR as u32);
            match every > 0 && i.is_multiple_of(every) {
                true => h.submit_fua(0, at, n),
                false => h.submit(0, Opcode::Write, at, n),
            };
        };
        (0..32).for_each(|i| write(&mut h, i));
        let (mut i, mut trimmed) = (32, None::<(u16, u64)>);
        let mut seen = 0;
        while i < 20_000 {
            assert!(h.step());
            for done in seen..h.done.len() {
                let trim = trimmed.is_some_and(|(cid, ..)| h.done[done].posted.cqe.cid == cid);
                if let (true, Some((_, end))) = (trim, &mut trimmed) {
                    *end = i;
                }
                write(&mut h, i);
                i += 1;
            }
            seen = h.done.len();
            if i > 2_000 && trimmed.is_none() {
                let cid = h.submit(0, Opcode::Deallocate, 0, (range * SECTOR) as u32);
                trimmed = Some((cid, u64::MAX));
            }
        }
        let (_, end) = trimmed.unwrap();
        assert!(end < 4_000, "{write_back} {every} {dirty_high}: the trim ended at write {end}");
        h.settle();
        h.assert_no_wrong("beside a trim");
        for lpn in 0..range {
            h.submit(0, Opcode::Read, lpn * SECTOR, SECTOR as u32);
            if lpn % 64 == 63 {
                h.settle();
            }
        }
        h.assert_no_wrong("after a trim");
        h.drive.ftl.as_ref().unwrap().check_invariants().unwrap();
    }
}

/// A cache that answered writes which the FTL then refuses is read-only: of what comes later, and of what waits by then,
/// nothing is answered well.
#[test]
fn after_a_lost_write_back_no_write_flush_or_trim_succeeds() {
    let mut n = nand_config();
    n.faults.program_fail_ppb = 400_000_000;
    let mut d = device_config();
    // So few lines that writes wait for room.
    d.cache = Some(cache_config(16, 4, 1));
    let mut h = Host::with_ftl(&n, &d, &ftl_config());
    h.queue(0, 256, QueuePriority::Medium);
    let sectors = h.drive.ftl().unwrap().sectors();
    let mut rng = Rng::from_seed(3);
    let mut written = Vec::new();
    let mut at = |h: &mut Host| {
        written.push(rng.below(sectors));
        h.submit(0, Opcode::Write, written[written.len() - 1] * SECTOR, SECTOR as u32);
    };
    for _ in 0..64 {
        at(&mut h);
    }
    let mut seen = 0;
    while !h.drive.is_read_only() {
        assert!(h.step(), "no write-back is lost");
        for _ in seen..h.done.len() {
            at(&mut h);
        }
        seen = h.done.len();
    }
    // Those that wait, and every command behind them.
    let answered = h.done.len();
    h.submit(0, Opcode::Flush, 0, 0);
    h.submit(0, Opcode::Deallocate, 0, SECTOR as u32);
    h.submit_fua(0, 0, SECTOR as u32);
    h.settle();
    let after = &h.done[answered..];
    // What was in the cache by then is on its way to the host already.
    let good = after.iter().filter(|done| done.posted.cqe.status == Status::Success).count();
    assert!(after.len() > 64 && good <= 8, "{good} of {} succeed", after.len());
    for opcode in [Opcode::Write, Opcode::Flush, Opcode::Deallocate] {
        assert_eq!(h.one(opcode, 0, SECTOR as u32).1, Status::WriteFault, "{opcode:?}");
    }
    // Nothing older is read than what was answered, whatever else is brought into the cache.
    for lpn in (0..64).chain(written) {
        h.one(Opcode::Read, lpn * SECTOR, SECTOR as u32);
    }
    assert_eq!(h.ctx.stamps.wrong().0, 0, "{:?}", h.ctx.stamps.wrong().1);
}
