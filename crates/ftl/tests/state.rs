//! Saving, loading, ageing and configuration.

use crate::common;
use crate::common::*;
use wordline_base::{Lpn, Seed, Span, Stamps};
use wordline_ftl::{
    Action, Ftl, FtlConfig, LineState, Placement, Source, VictimPolicy, WindowLimits,
    steady_by_overwriting,
};
use wordline_nand::Geometry;

fn drive() -> (Geometry, FtlConfig) {
    (geometry(4, 8, 60, 16, 4), FtlConfig::new(Placement::Device, 25.0))
}

fn aged(stamps: &mut Stamps, bad: bool) -> Ftl {
    let (g, c) = drive();
    let mut rng = Seed(4).stream("age");
    let mut bad = |lun: u32, line: u32| bad && (lun * 7 + line * 3).is_multiple_of(41);
    let mut ftl = Ftl::new(&g, &c, &mut bad, Seed(1)).unwrap();
    let sectors = ftl.sectors();
    if stamps.is_on() {
        *stamps = Stamps::new(sectors);
    }
    ftl.fill(stamps).unwrap();
    ftl.settle();
    let lpns: Vec<u32> = (0..sectors * 3 + 7).map(|_| rng.below(sectors) as u32).collect();
    ftl.overwrite(stamps, &lpns).unwrap();
    ftl
}

#[test]
fn a_large_drive_ages_alike_whether_draws_run_ahead_or_not() {
    let (g, c) = (geometry(4, 8, 220, 512, 16), FtlConfig::new(Placement::Device, 25.0));
    let filled = || {
        let mut ftl = Ftl::new(&g, &c, &mut |_, _| false, Seed(1)).unwrap();
        let mut stamps = Stamps::new(ftl.sectors());
        ftl.fill(&mut stamps).unwrap();
        (ftl, stamps, Seed(4).stream("age"))
    };
    let (mut a, mut stamps_a, mut rng) = filled();
    let sectors = a.sectors();
    let mut draw = |lpns: &mut [u32]| {
        lpns.iter_mut().for_each(|lpn| *lpn = rng.below(sectors) as u32);
        Ok(())
    };
    let limits = WindowLimits { most: 0.6, ..WindowLimits::default() };
    let report = steady_by_overwriting(&mut a, &mut stamps_a, &mut draw, limits).unwrap();
    assert!(a.counters().gc_sectors > sectors / 10);

    let (mut b, mut stamps_b, mut rng) = filled();
    for _ in &report.windows {
        let mut left = report.sectors / report.windows.len() as u64;
        while left > 0 {
            let n = left.min(4096);
            let lpns: Vec<u32> = (0..n).map(|_| rng.below(sectors) as u32).collect();
            b.overwrite(&mut stamps_b, &lpns).unwrap();
            left -= n;
        }
    }
    let saved = |ftl: &Ftl| {
        let mut file = Vec::new();
        ftl.save(&mut file).unwrap();
        file
    };
    assert!(saved(&a) == saved(&b), "map, lines and stamps on flash");
    let newest = |stamps: &Stamps| (0..sectors as u32).map(|lpn| stamps.newest(Lpn(lpn))).collect();
    let (newest_a, newest_b): (Vec<_>, Vec<_>) = (newest(&stamps_a), newest(&stamps_b));
    assert!(newest_a == newest_b, "stamps of the check");
}

/// Random writes and reads in time; everything must read right. Returns the trace.
fn run(ftl: &mut Ftl, ctx: &mut wordline_base::Ctx, writes: u32) -> u64 {
    ftl.start(ctx);
    let mut fake = Fake::new(ftl);
    let mut rng = Seed(6).stream("run");
    let mut out = Vec::new();
    let sectors = ftl.sectors();
    for tag in 0..writes {
        let n = 1 + rng.below(8) as u32;
        let lpn = rng.below(sectors - u64::from(n)) as u32;
        ftl.write(ctx, tag, Lpn(lpn), n, false, Source::Host);
        fake.drain(ftl);
        while !fake.done.contains_key(&tag) {
            assert!(fake.step(ftl, ctx, &mut rng), "stuck");
            fake.drain(ftl);
        }
        let lpn = rng.below(sectors) as u32;
        assert_eq!(read_check(ftl, ctx, lpn, 1, &mut out), 0);
        fake.drain(ftl);
    }
    fake.settle(ftl, ctx, &mut rng);
    for lpn in 0..sectors as u32 {
        assert_eq!(read_check(ftl, ctx, lpn, 1, &mut out), 0, "sector {lpn}");
    }
    assert_eq!(ctx.stamps.wrong().0, 0);
    ftl.check_invariants().unwrap();
    fake.trace
}

#[test]
fn an_aged_drive_runs_on_in_time() {
    for bad in [false, true] {
        let mut ctx = ctx(Some(1));
        let mut ftl = aged(&mut ctx.stamps, bad);
        ftl.check_invariants().unwrap();
        let c = ftl.counters();
        assert!(c.gc_sectors > 0 && c.emeta_sectors > 0 && c.smeta_sectors > 0);
        let data = c.user_sectors + c.gc_sectors + c.pad_sectors;
        assert_eq!(c.programmed_sectors, data + c.smeta_sectors + c.emeta_sectors);
        let writes: u64 = ftl.media_state().map(|b| u64::from(b.erases)).sum();
        assert_eq!(writes, c.erases);
        run(&mut ftl, &mut ctx, 3000);
        let wear = ftl.wear();
        assert!(wear.min >= 1 && wear.max >= wear.min && wear.mean > 1.0, "{wear:?}");
    }
}

#[test]
fn a_victim_that_trims_empty_before_ageing_ends_with_it_is_forgotten() {
    let mut off = Stamps::off();
    let mut ftl = aged(&mut off, false);
    let sectors = ftl.sectors();
    let mut rng = Seed(5).stream("trims");
    for round in 0..20 {
        // So many end within a victim as often as not.
        let lpns: Vec<u32> = (0..300 + rng.below(300)).map(|_| rng.below(sectors) as u32).collect();
        ftl.overwrite(&mut off, &lpns).unwrap();
        ftl.unmap(Lpn(0), sectors as u32).unwrap();
        let moved = ftl.counters().gc_sectors;
        for half in [0..sectors / 2, sectors / 2..sectors] {
            let in_order: Vec<u32> = half.map(|lpn| lpn as u32).collect();
            ftl.overwrite(&mut off, &in_order).unwrap();
            ftl.check_invariants().unwrap_or_else(|breach| panic!("round {round}: {breach}"));
        }
        assert_eq!(ftl.counters().gc_sectors, moved, "round {round}: a new drive has no garbage");
        let lpns: Vec<u32> = (0..2 * sectors).map(|_| rng.below(sectors) as u32).collect();
        ftl.overwrite(&mut off, &lpns).unwrap();
    }
}

#[test]
fn ageing_without_the_check_can_be_checked_later() {
    let mut off = Stamps::off();
    let mut ftl = aged(&mut off, false);
    assert_eq!(ftl.memory().stamps, 0);
    let mut ctx = ctx(Some(ftl.sectors()));
    run(&mut ftl, &mut ctx, 1000);
    assert!(ftl.memory().stamps > 0 && ctx.stamps.checked() > 0);
}

#[test]
fn mapping_takes_less_than_ten_bytes_a_sector() {
    let ftl = aged(&mut Stamps::off(), false);
    let m = ftl.memory();
    assert!(m.mapping <= 10 * m.sectors, "{m:?}");
}

#[test]
fn a_saved_drive_is_the_same_drive() {
    for (stamped, bad) in [(true, false), (false, true), (true, true)] {
        let mut ctx_a = ctx(stamped.then_some(1));
        let mut a = aged(&mut ctx_a.stamps, bad);
        let mut file = Vec::new();
        a.save(&mut file).unwrap();
        let (g, c) = drive();
        let mut b = Ftl::load(&g, &c, &mut &file[..]).unwrap();
        b.check_invariants().unwrap();
        let mut again = Vec::new();
        b.save(&mut again).unwrap();
        assert!(file == again, "saving again differs");
        assert!(a.media_state().eq(b.media_state()));
        let mut ctx_b = ctx(stamped.then_some(b.sectors()));
        let (ta, tb) = (run(&mut a, &mut ctx_a, 2000), run(&mut b, &mut ctx_b, 2000));
        assert_eq!(ta, tb, "the loaded drive acts differently");
    }
}

#[test]
fn a_drive_at_rest_after_time_can_be_saved() {
    let mut ctx = ctx(Some(1));
    let mut ftl = aged(&mut ctx.stamps, true);
    run(&mut ftl, &mut ctx, 500);
    let mut rng = Seed(1).stream("end");
    let mut fake = Fake::new(&ftl);
    let mut file = Vec::new();
    ftl.write(&mut ctx, 9_000_000, Lpn(3), 5, false, Source::Host);
    assert!(ftl.save(&mut file).is_err(), "not at rest");
    file.clear();
    ftl.stop(&mut ctx);
    fake.settle(&mut ftl, &mut ctx, &mut rng);
    assert!(ftl.is_quiet());
    ftl.save(&mut file).unwrap();
    let (g, c) = drive();
    let mut loaded = Ftl::load(&g, &c, &mut &file[..]).unwrap();
    loaded.check_invariants().unwrap();
    let mut fresh = common::ctx(Some(loaded.sectors()));
    run(&mut loaded, &mut fresh, 500);
}

#[test]
fn damaged_files_are_refused_without_a_panic() {
    let mut stamps = Stamps::new(1);
    let ftl = aged(&mut stamps, true);
    let mut file = Vec::new();
    ftl.save(&mut file).unwrap();
    let (g, c) = drive();
    let mut rng = Seed(77).stream("fuzz");
    let load = |bytes: &[u8]| Ftl::load(&g, &c, &mut &bytes[..]).map(|_| ());
    load(&file).unwrap();
    for round in 0..10_000 {
        let mut bad = file.clone();
        // The head, with its lists and tables, more often than the bulk of sectors.
        let reach = if round % 2 == 0 { file.len() } else { 20_000.min(file.len()) } as u64;
        match rng.below(4) {
            0 => bad.truncate(rng.below(file.len() as u64) as usize),
            1 => {
                let at = rng.below(reach) as usize;
                bad[at] ^= 1 << rng.below(8);
            }
            2 => {
                let at = (rng.below(reach) as usize / 4 * 4).min(file.len() - 8);
                let any = rng.next_u64() as u32;
                let value = rng.pick(&[0, 1, u32::MAX, 1 << 31, any]);
                bad[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
            _ => {
                let (a, b) = (rng.below(reach) as usize, rng.below(reach) as usize);
                bad.swap(a, b);
            }
        }
        if bad != file {
            assert!(load(&bad).is_err(), "round {round} was accepted");
        }
    }
}

#[test]
fn the_wrong_drive_is_named() {
    let ftl = aged(&mut Stamps::off(), false);
    let mut file = Vec::new();
    ftl.save(&mut file).unwrap();
    let (g, c) = drive();
    let error = |g: &Geometry, c: &FtlConfig, file: &[u8]| match Ftl::load(g, c, &mut &file[..]) {
        Ok(_) => panic!("loaded"),
        Err(e) => e.to_string(),
    };
    let other = geometry(4, 8, 61, 16, 4);
    assert!(error(&other, &c, &file).contains("60 lines, the profile has 61"));
    let mut other = c.clone();
    other.over_provisioning = 30.0;
    assert!(error(&g, &other, &file).contains("over_provisioning = 25"));
    assert!(error(&g, &c, &file[..100]).contains("cut short"));
    assert!(error(&g, &c, b"something else entirely").contains("not a saved drive"));
    file[8] -= 1;
    assert!(error(&g, &c, &file).contains("version 10"));
}

#[test]
fn impossible_configurations_name_the_key() {
    let (g, good) = drive();
    let key = |change: &dyn Fn(&mut FtlConfig)| {
        let mut c = good.clone();
        change(&mut c);
        match Ftl::new(&g, &c, &mut |_, _| false, Seed(0)) {
            Ok(_) => panic!("accepted {c:?}"),
            Err(bad) => {
                println!("{bad}");
                bad.key
            }
        }
    };
    assert_eq!(key(&|c| c.over_provisioning = 1.0), "over_provisioning");
    assert_eq!(key(&|c| c.over_provisioning = 100.0), "over_provisioning");
    assert_eq!(key(&|c| c.over_provisioning = f64::NAN), "over_provisioning");
    assert_eq!(key(&|c| c.buffer_sectors = Some(1 << 14)), "over_provisioning");
    assert_eq!(key(&|c| c.back_threshold = Some(1 << 30)), "buffer_sectors");
    assert_eq!(
        key(&|c| (c.buffer_sectors, c.back_threshold) = (Some(128), Some(127))),
        "buffer_sectors"
    );
    assert_eq!(key(&|c| c.max_request_sectors = 1), "max_request_sectors");
    assert_eq!(key(&|c| c.gc_request_sectors = 65), "gc_request_sectors");
    assert_eq!(key(&|c| c.gc_queue = 1), "gc_queue");
    assert_eq!(key(&|c| c.gc_lines = 0), "gc_lines");
    assert_eq!(key(&|c| c.meta_lines = 0), "meta_lines");
    assert_eq!(key(&|c| c.d_choices = 0), "d_choices");
    assert_eq!(key(&|c| c.victim_window = 0), "victim_window");
    assert_eq!(key(&|c| c.user_idle = Span::ZERO), "user_idle");
    assert_eq!(key(&|c| (c.pad_idle, c.write_timer) = (true, Span::ZERO)), "pad_idle");
    assert_eq!(key(&|c| c.meta_distance = Some(8)), "meta_distance");
    assert_eq!(key(&|c| c.min_good_luns = Some(1)), "min_good_luns");
    assert_eq!(key(&|c| c.gc_start_lines = Some(1)), "gc_start_lines");
    // Within the lines, but more than the spare ones.
    assert_eq!(key(&|c| c.gc_start_lines = Some(39)), "gc_start_lines");
    assert_eq!(key(&|c| c.gc_reserve_lines = Some(40)), "gc_reserve_lines");
    assert!(Ftl::new(&g, &good, &mut |_, _| true, Seed(0)).is_err());
}

#[test]
fn lines_with_too_few_good_blocks_are_not_used() {
    let (g, mut c) = drive();
    let mut bad = |lun: u32, line: u32| line == 3 && lun < 5;
    c.min_good_luns = Some(4);
    let ftl = Ftl::new(&g, &c, &mut bad, Seed(0)).unwrap();
    assert_eq!(ftl.line_state(3).0, LineState::Bad);
    c.min_good_luns = None;
    let ftl = Ftl::new(&g, &c, &mut bad, Seed(0)).unwrap();
    assert_eq!(ftl.line_state(3).0, LineState::Free);
}

#[test]
fn a_full_drive_with_little_room_is_overwritten_for_long() {
    for policy in [
        VictimPolicy::Greedy,
        VictimPolicy::CostBenefit,
        VictimPolicy::Fifo,
        VictimPolicy::DChoices,
        VictimPolicy::Random,
        VictimPolicy::WindowedGreedy,
    ] {
        let g = geometry(2, 4, 100, 16, 4);
        let mut c = FtlConfig::new(Placement::Host, 0.0);
        c.victim = policy;
        // The least over-provisioning that is accepted.
        while Ftl::new(&g, &c, &mut |_, _| false, Seed(0)).is_err() {
            c.over_provisioning += 0.1;
        }
        let mut ctx = ctx(Some(1));
        let mut ftl = Ftl::new(&g, &c, &mut |_, _| false, Seed(0)).unwrap();
        let sectors = ftl.sectors();
        ctx.stamps = Stamps::new(sectors);
        ftl.fill(&mut ctx.stamps).unwrap();
        ftl.settle();
        ftl.start(&mut ctx);
        let mut fake = Fake::new(&ftl);
        let mut rng = Seed(8).stream("soak");
        for tag in 0..sectors as u32 * 10 {
            let lpn = Lpn(rng.below(sectors) as u32);
            let flush = tag % 3 == 0;
            if flush && tag % 2 == 0 {
                ftl.flush(&mut ctx, tag);
            } else {
                ftl.write(&mut ctx, tag, lpn, 1, flush, Source::Host);
            }
            fake.drain_fast(&mut ftl);
            while !fake.done.contains_key(&tag) {
                if !fake.step(&mut ftl, &mut ctx, &mut rng) {
                    assert!(fake.tick(&mut ftl, &mut ctx), "stuck: {:?}", ftl.counters());
                }
                fake.drain_fast(&mut ftl);
            }
            assert!(fake.done.remove(&tag).unwrap(), "refused: {:?}", ftl.counters());
        }
        ftl.check_invariants().unwrap();
        let k = ftl.counters();
        println!(
            "{policy:?} at {:.1} %: waf {:.2}, drains {}",
            c.over_provisioning,
            k.waf(),
            k.drains
        );
    }
}

#[test]
fn a_write_longer_than_the_buffer_goes_in_piece_by_piece() {
    let (g, mut c) = drive();
    c.buffer_sectors = Some(128);
    c.back_threshold = Some(0);
    let mut ftl = Ftl::new(&g, &c, &mut |_, _| false, Seed(0)).unwrap();
    let mut ctx = ctx(Some(ftl.sectors()));
    ftl.start(&mut ctx);
    let mut fake = Fake::new(&ftl);
    let mut rng = Seed(3).stream("x");
    ftl.write(&mut ctx, 1, Lpn(5), 1000, true, Source::Host);
    fake.settle(&mut ftl, &mut ctx, &mut rng);
    assert_eq!(fake.done.remove(&1), Some(true));
    // From a cache that keeps the stamps.
    let stamps: Vec<u32> = (0..1000).map(|i| ctx.stamps.bump(Lpn(5 + i))).collect();
    ftl.write(&mut ctx, 2, Lpn(5), 1000, false, Source::Cache(&stamps));
    ftl.flush(&mut ctx, 3);
    fake.settle(&mut ftl, &mut ctx, &mut rng);
    assert_eq!((fake.done.remove(&2), fake.done.remove(&3)), (Some(true), Some(true)));
    let mut out = Vec::new();
    assert_eq!(read_check(&mut ftl, &mut ctx, 0, 1100, &mut out), 0);
    assert_eq!(ctx.stamps.wrong().0, 0);
    assert!(ctx.stamps.checked() > 0);
}

#[test]
fn an_empty_flush_ends_at_once_and_a_late_one_pads() {
    let (g, c) = drive();
    let mut ftl = Ftl::new(&g, &c, &mut |_, _| false, Seed(0)).unwrap();
    let mut ctx = ctx(None);
    ftl.start(&mut ctx);
    ftl.flush(&mut ctx, 1);
    assert_eq!(ftl.poll(), Some(Action::Complete { tag: 1, ok: true }));
    ftl.write(&mut ctx, 2, Lpn(0), 1, false, Source::Host);
    assert_eq!(ftl.poll(), Some(Action::Complete { tag: 2, ok: true }));
    assert_eq!(ftl.poll(), None, "one sector is no unit");
    let mut fake = Fake::new(&ftl);
    let mut rng = Seed(3).stream("x");
    ftl.flush(&mut ctx, 3);
    fake.drain(&mut ftl);
    assert!(fake.done.is_empty());
    fake.settle(&mut ftl, &mut ctx, &mut rng);
    assert_eq!(fake.done.remove(&3), Some(true));
    assert_eq!(ftl.counters().pad_sectors, 3);
    assert_eq!(ftl.counters().flushes_waited, 1);
    // Durable, but still read from the buffer: L2P turns when the slot is reused.
    let mut out = Vec::new();
    ftl.read(&mut ctx, Lpn(0), 1, &mut out);
    assert_eq!(out[0].place, wordline_ftl::Place::Buffer);
    // Beyond the end.
    let end = ftl.sectors() as u32;
    ftl.write(&mut ctx, 4, Lpn(end - 1), 2, false, Source::Host);
    assert_eq!(ftl.poll(), Some(Action::Complete { tag: 4, ok: false }));
}

#[test]
fn idle_units_are_padded_if_asked() {
    for pad in [false, true] {
        let (g, mut c) = drive();
        c.pad_idle = pad;
        let mut ftl = Ftl::new(&g, &c, &mut |_, _| false, Seed(0)).unwrap();
        let mut ctx = ctx(None);
        ftl.start(&mut ctx);
        let mut fake = Fake::new(&ftl);
        let mut rng = Seed(3).stream("x");
        ftl.write(&mut ctx, 1, Lpn(0), 1, false, Source::Host);
        fake.settle(&mut ftl, &mut ctx, &mut rng);
        while fake.tick(&mut ftl, &mut ctx) {
            fake.settle(&mut ftl, &mut ctx, &mut rng);
        }
        assert_eq!(ftl.counters().pad_sectors, if pad { 3 } else { 0 });
    }
}

#[test]
fn wear_is_levelled_if_asked() {
    let spread = |wear_spread: u32| {
        let (g, mut c) = drive();
        c.wear_spread = wear_spread;
        let mut ftl = Ftl::new(&g, &c, &mut |_, _| false, Seed(0)).unwrap();
        let mut off = Stamps::off();
        ftl.fill(&mut off).unwrap();
        ftl.settle();
        // A tenth of the drive is hot; the rest is never written again.
        let mut rng = Seed(2).stream("hot");
        let hot = ftl.sectors() / 10;
        let lpns: Vec<u32> = (0..ftl.sectors() * 40).map(|_| rng.below(hot) as u32).collect();
        ftl.overwrite(&mut off, &lpns).unwrap();
        ftl.check_invariants().unwrap();
        let wear = ftl.wear();
        wear.max - wear.min
    };
    let (without, with) = (spread(0), spread(8));
    println!("spread of erase counts {without} without, {with} with");
    assert!(with <= 20 && without > 3 * with);
}
