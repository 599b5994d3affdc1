//! Write amplification under uniform random writes against the closed form of greedy collection
//! (docs/design/ftl.md), and what the settings of placement and collection do.

use crate::common::{Drive, Reading, Times, ctx, geometry, greedy, with_slc};
use std::collections::VecDeque;
use wordline_base::{Ctx, Lpn, Rng, Span, Time};
use wordline_firmware::{Allocation, Firmware, FirmwareConfig, Victim};
use wordline_nand::Geometry;
use wordline_translation::{
    Piece, Place, Source, Translation, WindowLimits, steady_by_overwriting,
};

const TIMES: Times = Times {
    read: Span::from_us(50),
    program: Span::from_us(1000),
    erase: Span::from_ms(3),
    slc_read: Span::from_us(25),
    slc_program: Span::from_us(200),
    slc_erase: Span::from_ms(2),
};

fn firmware(g: &Geometry, op: f64, config: FirmwareConfig) -> Firmware {
    Firmware::new(g, op, &config, &mut |_, _| false).unwrap()
}

/// The write amplification of an aged drive, and the closed form's.
fn aged(g: &Geometry, op: f64, config: FirmwareConfig, seed: u64) -> (Firmware, Ctx, f64, f64) {
    let luns = config.superblock_luns.unwrap_or(g.luns);
    aged_from(firmware(g, op, config), g, luns, seed)
}

fn aged_from(mut ftl: Firmware, g: &Geometry, luns: u32, seed: u64) -> (Firmware, Ctx, f64, f64) {
    let sectors = ftl.sectors();
    let mut ctx = Ctx::new();
    ctx.now = Time(1);
    let mut rng = Rng::from_seed(seed);
    ftl.fill(&mut ctx.stamps).unwrap();
    assert_eq!(ftl.counters().gc_sectors, 0, "filled in order");
    let mut next = |lpns: &mut [u32]| {
        lpns.fill_with(|| rng.below(sectors) as u32);
        Ok(())
    };
    let limits = WindowLimits { window: 0.25, least: 3.0, most: 20.0, ..WindowLimits::default() };
    let steady = steady_by_overwriting(&mut ftl, &mut ctx.stamps, &mut next, limits).unwrap();
    assert!(steady.steady, "{steady:?}");
    let before = *ftl.counters();
    let (mut free, mut draws) = (0, 0);
    let mut lpns = [0; 64];
    for _ in 0..sectors / 64 {
        next(&mut lpns).unwrap();
        ftl.overwrite(&mut ctx.stamps, &lpns).unwrap();
        (free, draws) = (free + ftl.free_units(), draws + 1);
    }
    let c = *ftl.counters();
    let user = (c.user_sectors - before.user_sectors) as f64;
    let found = 1.0 + (c.gc_sectors - before.gc_sectors) as f64 / user;
    let free = free as f64 / f64::from(draws) * f64::from(g.sectors_per_unit);
    let alpha = (g.sectors() as f64 - free) / sectors as f64;
    ftl.check_invariants().unwrap();
    let theory = greedy(alpha, g.sectors_per_line * luns / g.luns);
    (ftl, ctx, found, theory)
}

#[test]
fn uniform_random_writes_are_amplified_as_greedy_collection_does() {
    let g = geometry(4, 8, 400, 16, 8);
    for (op, luns, victim) in [
        (15.0, None, Victim::Greedy),
        (25.0, None, Victim::Greedy),
        (25.0, Some(2), Victim::Greedy),
        (25.0, None, Victim::CostBenefit),
    ] {
        let config = FirmwareConfig { superblock_luns: luns, victim, ..FirmwareConfig::default() };
        let (_, _, found, theory) = aged(&g, op, config, 1);
        println!("{op} % spare, {luns:?} LUNs, {victim:?}: {found:.3}, greedy's {theory:.3}");
        assert!((found / theory - 1.0).abs() < 0.05, "{found} {theory}");
    }
}

/// Users get less of a drive with bad blocks, so that its spare stays in proportion. Its superblocks are of different
/// sizes: each is collected for the share of it that is in use, and so its write amplification stays as well.
#[test]
fn bad_blocks_are_no_reason_to_collect_a_superblock() {
    let d = FirmwareConfig::default;
    let g = geometry(4, 8, 400, 16, 8);
    // A superblock in SLC mode has fewer pages; its share in use counts as well.
    let cases = [
        ("all in TLC", g, d(), &[1, 5, 10][..]),
        ("a static buffer", with_slc(g, 4), FirmwareConfig { slc_static: 5.0, ..d() }, &[5]),
        ("a dynamic buffer", with_slc(g, 4), FirmwareConfig { slc_dynamic: 40.0, ..d() }, &[5]),
    ];
    for (what, g, config, shares) in cases {
        let found = |percent: u64| {
            let mut bad = Rng::from_seed(3);
            let mut is_bad = |_, _| bad.below(100) < percent;
            let ftl = Firmware::new(&g, 15.0, &config, &mut is_bad).unwrap();
            let sectors = ftl.sectors();
            let (_, _, found, _) = aged_from(ftl, &g, g.luns, 1);
            (found, sectors)
        };
        let (good, all) = found(0);
        for &percent in shares {
            let (with_bad, sectors) = found(percent);
            println!(
                "{what}, {percent} % bad: {with_bad:.3} of {sectors}, without: {good:.3} of {all}"
            );
            assert!(
                (with_bad / good - 1.0).abs() < 0.1,
                "{what}, {percent} % bad: {with_bad} {good}"
            );
        }
    }
}

/// Writes one sector after the other, each when the one before is complete, for some time, and reads
/// beside them if asked. The longest write, and their mean.
fn write_alone(
    ftl: &mut Firmware,
    ctx: &mut Ctx,
    writes: u32,
    draw: impl FnMut(&mut Rng) -> u32,
) -> (Span, Span) {
    write_each(ftl, ctx, writes, false, draw)
}
/// `fua`: each is complete when it is on flash.
fn write_each(
    ftl: &mut Firmware,
    ctx: &mut Ctx,
    writes: u32,
    fua: bool,
    mut draw: impl FnMut(&mut Rng) -> u32,
) -> (Span, Span) {
    let g = *ftl.geometry();
    let mut drive = Drive::new(&g, &vec![false; (g.lines * g.luns) as usize]);
    drive.adopt(ftl);
    (drive.times, drive.keeps) = (TIMES, false);
    let mut rng = Rng::from_seed(7);
    ftl.start(ctx);
    drive.drain(ftl, ctx.now);
    let (mut most, mut sum) = (Span::ZERO, Span::ZERO);
    for tag in 0..writes {
        let from = ctx.now;
        ftl.write(ctx, tag, Lpn(draw(&mut rng)), 1, fua, Source::Host);
        drive.drain(ftl, ctx.now);
        while !drive.ended.contains_key(&tag) {
            let next = drive.next().unwrap_or_else(|| panic!("write {tag} hangs"));
            drive.pass(ftl, ctx, &mut rng, next);
        }
        assert!(drive.ended[&tag], "write {tag} fails");
        drive.ended.clear();
        let took = ctx.now.since(from);
        (most, sum) = (most.max(took), sum + took);
    }

    println!("at most {} LUNs erase at a time", drive.erasing);
    (most, sum / u64::from(writes))
}

/// The longest that a write waits which takes so many sectors, by the pace: each move that the collector owes for it may be
/// alone in its unit, read behind a program or an erasure, and wait for a slot that a program frees.
fn at_most(ftl: &Firmware, sectors: u32) -> Span {
    let moves = ftl.most_moves().ceil() as u64 * u64::from(sectors);
    (TIMES.read + TIMES.program + TIMES.erase) * moves + TIMES.program + TIMES.erase
}

/// The collector owes at most `most_moves` sectors for one of a user, and users wait only for what it owes
/// above its lag.
#[test]
fn no_write_waits_longer_than_the_pace_allows() {
    let g = geometry(4, 8, 200, 64, 8);
    let (mut ftl, mut ctx, aged_wa, _) = aged(&g, 12.0, FirmwareConfig::default(), 2);
    let sectors = ftl.sectors();
    let before = *ftl.counters();
    let (most, mean) = write_alone(&mut ftl, &mut ctx, 200_000, |rng| rng.below(sectors) as u32);
    let c = ftl.counters();
    let moved = (c.gc_sectors - before.gc_sectors) as f64;
    let wa = 1.0 + moved / (c.user_sectors - before.user_sectors) as f64;
    let moves = ftl.most_moves().ceil() as u64;
    let bound = at_most(&ftl, 1);
    println!(
        "longest {most:?}, mean {mean:?}, bound {bound:?} of {moves} moves; WA {wa:.3}, aged {aged_wa:.3}"
    );
    assert!(most <= bound);
    assert!((wa / aged_wa - 1.0).abs() < 0.05);
    // Without the pace users wait for a whole superblock.
    let config = FirmwareConfig { paced: false, ..FirmwareConfig::default() };
    let (mut ftl, mut ctx, ..) = aged(&g, 12.0, config, 2);
    let (whole, _) = write_alone(&mut ftl, &mut ctx, 200_000, |rng| rng.below(sectors) as u32);
    println!("without the pace {whole:?}");
    assert!(whole > bound && whole > most * 10);
}

/// The collector moves what users' sectors take, also where it has paid for one long before the next comes.
#[test]
fn slow_writes_are_amplified_as_fast_ones() {
    let g = geometry(4, 8, 200, 64, 8);
    for ms in [1, 10] {
        let (mut ftl, mut ctx, aged_wa, _) = aged(&g, 12.0, FirmwareConfig::default(), 2);
        let (sectors, before) = (ftl.sectors(), *ftl.counters());
        let mut drive = Drive::new(&g, &vec![false; (g.lines * g.luns) as usize]);
        drive.adopt(&ftl);
        (drive.times, drive.keeps) = (TIMES, false);
        let mut rng = Rng::from_seed(7);
        ftl.start(&mut ctx);
        drive.drain(&mut ftl, ctx.now);
        for tag in 0..40_000 {
            let lpn = Lpn(rng.below(sectors) as u32);
            ftl.write(&mut ctx, tag, lpn, 1, false, Source::Host);
            drive.drain(&mut ftl, ctx.now);
            let at = ctx.now + Span::from_ms(ms);
            drive.pass(&mut ftl, &mut ctx, &mut rng, at);
            assert!(drive.ended.remove(&tag).is_some_and(|ok| ok), "write {tag}");
        }
        let c = ftl.counters();
        let moved = (c.gc_sectors - before.gc_sectors) as f64;
        let wa = 1.0 + moved / (c.user_sectors - before.user_sectors) as f64;
        println!("a write each {ms} ms: WA {wa:.3}, aged {aged_wa:.3}");
        assert!(
            (wa / aged_wa - 1.0).abs() < 0.05,
            "a write each {ms} ms: {wa:.3}, aged {aged_wa:.3}"
        );
    }
}

#[test]
fn a_held_collector_works_where_users_would_wait() {
    let g = geometry(4, 8, 100, 16, 8);
    let (mut ftl, mut ctx, ..) = aged(&g, 12.0, FirmwareConfig::default(), 3);
    ftl.hold_collection(&mut ctx, true);
    let (sectors, before) = (ftl.sectors(), ftl.counters().gc_sectors);
    write_alone(&mut ftl, &mut ctx, 100_000, |rng| rng.below(sectors) as u32);
    assert!(ftl.counters().gc_sectors > before);
    ftl.check_invariants().unwrap();
}

#[test]
fn hot_and_cold_data_apart_are_amplified_less() {
    let g = geometry(4, 8, 300, 16, 8);
    let run = |hot_share| {
        let victim = Victim::CostBenefit;
        let config = FirmwareConfig { hot_share, victim, ..FirmwareConfig::default() };
        let mut ftl = firmware(&g, 15.0, config);
        let sectors = ftl.sectors();
        let mut ctx = Ctx::new();
        let mut rng = Rng::from_seed(3);
        ftl.fill(&mut ctx.stamps).unwrap();
        let mut before = *ftl.counters();
        let mut lpns = [0; 64];
        for i in 0..8 * sectors / 64 {
            if i == 5 * sectors / 64 {
                before = *ftl.counters();
            }
            lpns.fill_with(|| {
                let among = if rng.below(2) > 0 { sectors / 20 } else { sectors };
                rng.below(among) as u32
            });
            ftl.overwrite(&mut ctx.stamps, &lpns).unwrap();
        }
        ftl.check_invariants().unwrap();
        let c = ftl.counters();
        1.0 + (c.gc_sectors - before.gc_sectors) as f64
            / (c.user_sectors - before.user_sectors) as f64
    };
    let (off, on) = (run(0.0), run(15.0));

    println!("half of the writes to a twentieth of the sectors: {off:.3}, hot apart {on:.3}");
    assert!(on < 0.99 * off);
}

/// Reads at random beside writes at a fixed rate: the share of reads that find their LUN at work.
#[test]
fn dynamic_allocation_keeps_programs_off_the_luns_that_are_read() {
    let share = |allocation| {
        let g = geometry(4, 8, 200, 16, 8);
        let config = FirmwareConfig { allocation, ..FirmwareConfig::default() };
        let mut ftl = firmware(&g, 15.0, config);
        let sectors = ftl.sectors();
        let mut ctx = ctx(sectors);
        ftl.fill(&mut ctx.stamps).unwrap();
        ftl.settle();
        let mut drive = Drive::new(&g, &vec![false; (g.lines * g.luns) as usize]);
        drive.adopt(&ftl);
        drive.times = TIMES;
        let mut rng = Rng::from_seed(5);
        ftl.start(&mut ctx);
        let (mut behind, mut pieces) = (0, Vec::new());
        let mut reading: Option<wordline_translation::Piece> = None;
        for tag in 0..20_000 {
            let at = ctx.now + Span::from_us(40);
            while drive.next().is_some_and(|next| next <= at) {
                drive.tick(&mut ftl, &mut ctx, &mut rng);
            }
            ctx.now = at;
            let lpn = Lpn(rng.below(sectors) as u32);
            let submitted = ctx.stamps.submit(lpn, 1);
            ctx.stamps.bind(tag, submitted);
            // A read that is under way while a unit is placed.
            if let Some(piece) = reading.take() {
                let ppa = piece.place.ppa().expect("it is on flash");
                ftl.read_done(&mut ctx, ppa, 1);
            }
            pieces.clear();
            ftl.read(&mut ctx, Lpn(rng.below(sectors) as u32), 1, &mut pieces);
            reading = pieces.iter().copied().find(|p| matches!(p.place, Place::Flash { .. }));
            ftl.write(&mut ctx, tag, lpn, 1, false, Source::Host);
            let before = drive.begun.clone();
            drive.drain(&mut ftl, at);
            if let Some(ppa) = reading.and_then(|piece| piece.place.ppa()) {
                let lun = g.lun_of(ppa);
                behind += u32::from(drive.begun[lun] > before[lun]);
            }
        }
        f64::from(behind) / 20_000.0
    };
    let (dynamic, in_turn) = (share(Allocation::Dynamic), share(Allocation::Static));
    println!("programs that met a read: {dynamic:.4} dynamic, {in_turn:.4} static");
    assert!(in_turn > 0.005 && dynamic < in_turn / 5.0);
}

#[test]
fn an_idle_drive_collects_up_to_its_mark() {
    let g = geometry(4, 8, 200, 16, 8);
    let run = |idle_free| {
        let config = FirmwareConfig { idle_free, ..FirmwareConfig::default() };
        let (mut ftl, mut ctx, ..) = aged(&g, 20.0, config, 4);
        let mut drive = Drive::new(&g, &vec![false; (g.lines * g.luns) as usize]);
        drive.adopt(&ftl);
        (drive.times, drive.keeps) = (TIMES, false);
        ftl.settle();
        ftl.start(&mut ctx);
        let mut rng = Rng::from_seed(1);
        drive.drain(&mut ftl, ctx.now);
        let event = ctx.queue.pop();
        if let Some((at, _)) = event {
            ctx.now = at;
            ftl.on_timer(&mut ctx, 0);
            drive.drain(&mut ftl, ctx.now);
        }
        while drive.tick(&mut ftl, &mut ctx, &mut rng) {}
        (event.is_some(), ftl.free_units() / u64::from(g.units_per_line()))
    };
    let (off, on) = (run(None), run(Some(45.0)));
    println!("free superblocks {off:?}, with idle_free {on:?}");
    assert!(!off.0 && off.1 < 12, "without a mark nothing is set");
    assert!(on.0 && on.1 >= 20);
}

#[test]
fn settings_that_cannot_be_name_the_key() {
    let g = geometry(4, 8, 100, 16, 8);
    let key = |op, config: FirmwareConfig| {
        let error = Firmware::new(&g, op, &config, &mut |_, _| false).err().expect("an error");
        error.key.clone()
    };
    let d = FirmwareConfig::default;
    assert_eq!(
        key(20.0, FirmwareConfig { superblock_luns: Some(3), ..d() }),
        "firmware.superblock_luns"
    );
    assert_eq!(
        key(20.0, FirmwareConfig { buffer_sectors: Some(8), ..d() }),
        "firmware.buffer_sectors"
    );
    assert_eq!(key(20.0, FirmwareConfig { gc_start: Some(2), ..d() }), "firmware.gc_start");
    assert_eq!(key(20.0, FirmwareConfig { gc_reserve: Some(1), ..d() }), "firmware.gc_reserve");
    assert_eq!(key(20.0, FirmwareConfig { gc_units: Some(1), ..d() }), "firmware.gc_units");
    assert_eq!(key(20.0, FirmwareConfig { gc_lag: Some(0), ..d() }), "firmware.gc_lag");
    assert_eq!(key(20.0, FirmwareConfig { hot_share: 101.0, ..d() }), "firmware.hot_share");
    let unpaced = FirmwareConfig { wear_spread: 4, paced: false, ..d() };
    assert_eq!(key(20.0, unpaced), "firmware.wear_spread");
    assert_eq!(key(20.0, FirmwareConfig { idle_free: Some(101.0), ..d() }), "firmware.idle_free");
    assert_eq!(key(2.0, d()), "over_provisioning");
    let without = FirmwareConfig { slc_static: 5.0, ..d() };
    assert_eq!(key(20.0, without), "firmware.slc_static");
    assert_eq!(key(20.0, FirmwareConfig { slc_dynamic: 5.0, ..d() }), "firmware.slc_dynamic");
    let g = with_slc(g, 2);
    let key = |config: FirmwareConfig| {
        let error = Firmware::new(&g, 20.0, &config, &mut |_, _| false).err().expect("an error");
        error.key.clone()
    };
    assert_eq!(key(FirmwareConfig { slc_static: 15.0, ..d() }), "firmware.slc_static");
    assert_eq!(key(FirmwareConfig { slc_static: 100.0, ..d() }), "firmware.slc_static");
    assert_eq!(key(FirmwareConfig { slc_dynamic: 101.0, ..d() }), "firmware.slc_dynamic");
    assert_eq!(
        key(FirmwareConfig { slc_static: 2.0, gc_start: Some(4), ..d() }),
        "firmware.gc_start"
    );
}

/// Nine writes of ten go to a tenth of the sectors: what is cold stays where it is, unless it is moved.
#[test]
fn wear_is_levelled_if_asked() {
    let g = geometry(4, 8, 200, 16, 8);
    let run = |wear_spread: u32, writes: u32| {
        let config = FirmwareConfig { wear_spread, ..FirmwareConfig::default() };
        let mut ftl = firmware(&g, 20.0, config);
        let (mut ctx, mut rng) = (Ctx::new(), Rng::from_seed(4));
        let sectors = ftl.sectors();
        ftl.fill(&mut ctx.stamps).unwrap();
        let draw = |rng: &mut Rng| {
            let among = if rng.below(10) > 0 { sectors / 10 } else { sectors };
            rng.below(among) as u32
        };
        let wear = |ftl: &Firmware| {
            let erases = ftl.media_state().map(|block| block.erases);
            erases.fold((u32::MAX, 0), |(least, most), n| (least.min(n), most.max(n)))
        };
        let mut widest = 0;
        for _ in 0..u64::from(writes) * sectors / 64 {
            let lpns: Vec<u32> = (0..64).map(|_| draw(&mut rng)).collect();
            ftl.overwrite(&mut ctx.stamps, &lpns).unwrap();
            let (least, most) = wear(&ftl);
            widest = widest.max(most - least);
        }
        ftl.settle();
        ftl.check_invariants().unwrap();
        let c = *ftl.counters();
        let wa = 1.0 + c.gc_sectors as f64 / c.user_sectors as f64;
        println!(
            "{wear_spread}: wear {:?}, at most {widest} apart, WA {wa:.3}, {} moved",
            wear(&ftl),
            c.lines_levelled
        );
        (widest, wa, c.lines_levelled, ftl, ctx)
    };
    let (free, wa, none, ..) = run(0, 30);
    assert_eq!(none, 0);
    for spread in [4, 12] {
        let (widest, levelled, moved, mut ftl, mut ctx) = run(spread, 30);
        assert!(moved > 0 && free > 4 * spread, "{free} apart without");
        // Those that lag take their turns, and the others go on meanwhile.
        assert!(widest <= spread + 6, "{widest} apart, asked for {spread}");
        println!("{:.3} of {wa:.3}", levelled / wa);
        // Users do not wait longer for it than the pace allows.
        let sectors = ftl.sectors();
        let bound = at_most(&ftl, 1);
        let before = ftl.counters().lines_levelled;
        let draw = |rng: &mut Rng| {
            let among = if rng.below(10) > 0 { sectors / 10 } else { sectors };
            rng.below(among) as u32
        };
        let (most, _) = write_alone(&mut ftl, &mut ctx, 100_000, draw);
        println!("longest {most:?} of {bound:?}, {} moved", ftl.counters().lines_levelled - before);
        assert!(
            ftl.counters().lines_levelled > before && most <= bound,
            "{most:?}, bound {bound:?}"
        );
    }
}

/// Users who never pause have what the LUNs do if none is ever idle: for each sector WA / s programs and reads of
/// victims, s the sectors of a unit, and as many erasures by the pages of a block. The share of that which they have.
fn share_of_luns_at_work(config: FirmwareConfig, erase: Span) -> f64 {
    let (luns, pages, s) = (16, 64, 8);
    let g = geometry(4, luns, 100, pages, s);
    let (mut ftl, mut ctx, wa, _) = aged(&g, 15.0, config, 6);
    let all = ftl.sectors();
    let mut places = Rng::from_seed(9);
    let mut burst = Burst::new(&mut ftl, &mut ctx);
    burst.drive.times.erase = erase;
    burst.draw(&mut ftl, &mut ctx, 20_000, |_| places.below(all) as u32);
    let before = *ftl.counters();
    let took = burst.draw(&mut ftl, &mut ctx, 60_000, |_| places.below(all) as u32);
    let c = *ftl.counters();
    let wa_in_time = (c.programmed_sectors - before.programmed_sectors) as f64
        / (c.user_sectors - before.user_sectors) as f64;
    assert!((wa_in_time / wa - 1.0).abs() < 0.05, "{wa_in_time} {wa}");
    let one = (TIMES.program + TIMES.read).as_secs_f64() + erase.as_secs_f64() / f64::from(pages);
    let theory = f64::from(luns * s) / (wa_in_time * one);
    let found = 60_000.0 / took.as_secs_f64();
    println!("WA {wa_in_time:.2}: {found:.0} sectors a second of {theory:.0}");
    found / theory
}

#[test]
fn users_who_do_not_pause_have_what_luns_at_work_give() {
    let run = |config| share_of_luns_at_work(config, TIMES.erase);
    let with = |lag: u32, units: u32| {
        let (gc_lag, gc_units) = (Some(lag * 4), Some(units * 4));
        run(FirmwareConfig { gc_lag, gc_units, ..FirmwareConfig::default() })
    };
    // With little in memory the collector leaves LUNs idle while users wait.
    let (few, own, many) = (with(1, 2), run(FirmwareConfig::default()), with(16, 32));
    println!("{few:.3}, {own:.3} by default, {many:.3}");
    assert!(few < 0.75 && (0.85..1.01).contains(&own) && (0.96..1.01).contains(&many));
}

/// Where an erasure takes as long as a third of a block's programs, as all of them, and three times as long, LUNs that
/// the collector leaves idle meanwhile erase as well: otherwise it waits for one after the other.
#[test]
fn long_erasures_take_their_own_time_of_users_who_do_not_pause_and_no_more() {
    for ms in [20, 60, 180] {
        let share = share_of_luns_at_work(FirmwareConfig::default(), Span::from_ms(ms));
        println!("erasures of {ms} ms: {share:.3}");
        assert!((0.85..1.01).contains(&share), "{ms} ms: {share:.3}");
    }
}

/// The longest of so many writes of a sector at random places, 32 at a time.
fn longest_of_32(ftl: &mut Firmware, ctx: &mut Ctx, writes: u32) -> Span {
    longest_beside(ftl, ctx, writes, false)
}
/// Beside reads, of which one at least is always under way.
fn longest_beside(ftl: &mut Firmware, ctx: &mut Ctx, writes: u32, reads: bool) -> Span {
    let (g, sectors) = (*ftl.geometry(), ftl.sectors());
    let mut drive = Drive::new(&g, &vec![false; (g.lines * g.luns) as usize]);
    drive.adopt(ftl);
    (drive.times, drive.keeps) = (TIMES, false);
    let mut rng = Rng::from_seed(11);
    ftl.start(ctx);
    drive.drain(ftl, ctx.now);
    let (mut begun, mut most) = (std::collections::BTreeMap::new(), Span::ZERO);
    let (mut reading, mut pieces) = (VecDeque::new(), Vec::new());
    for tag in 0..writes {
        begun.insert(tag, ctx.now);
        ftl.write(ctx, tag, Lpn(rng.below(sectors) as u32), 1, false, Source::Host);
        drive.drain(ftl, ctx.now);
        loop {
            for (tag, ok) in std::mem::take(&mut drive.ended) {
                assert!(ok, "write {tag} fails");
                most = most.max(ctx.now.since(begun.remove(&tag).expect("it was begun")));
            }
            if begun.len() < 32 {
                break;
            }
            if reads {
                pieces.clear();
                ftl.read(ctx, Lpn(rng.below(sectors) as u32), 1, &mut pieces);
                reading.extend(Reading::of(&pieces));
                if reading.len() > 8
                    && let Some(first) = reading.pop_front()
                {
                    ftl.read_done(ctx, first.ppa, first.sectors);
                }
                drive.drain(ftl, ctx.now);
            }
            assert!(drive.tick(ftl, ctx, &mut rng), "write {tag} hangs");
        }
    }
    most
}

/// Under load every LUN has a program to do whenever it is idle: erasures are not to wait for a pause.
#[test]
fn erasures_have_their_turn_under_load() {
    let g = geometry(4, 8, 200, 64, 8);
    let config = FirmwareConfig { gc_units: Some(64), ..FirmwareConfig::default() };
    let (mut ftl, mut ctx, ..) = aged(&g, 20.0, config, 5);
    let most = longest_of_32(&mut ftl, &mut ctx, 300_000);
    // What all of them cost, by eight LUNs beside each other.
    let one = at_most(&ftl, 1);
    println!("longest {most:?} of 32 at a time, one alone {one:?}");
    assert!(most <= one * 32 / 8, "{most:?}");
}

/// With hot data apart users have two superblocks open, and so has the collector.
#[test]
fn no_write_waits_longer_where_hot_data_are_apart() {
    for (luns, hot_share, writes) in [(8, 50.0, 300_000), (2, 30.0, 100_000)] {
        let g = geometry(4, 8, 200, 64, 8);
        let config =
            FirmwareConfig { hot_share, superblock_luns: Some(luns), ..FirmwareConfig::default() };
        let (mut ftl, mut ctx, ..) = aged(&g, 20.0, config, 5);
        let most = longest_of_32(&mut ftl, &mut ctx, writes);
        let one = at_most(&ftl, 1);
        println!("{luns} LUNs, {hot_share} %: longest {most:?} of 32 at a time, one alone {one:?}");
        assert!(most <= one * 32 / 8, "{most:?}");
    }
}

/// A write that is to be on flash takes a whole unit, and the collector owes as much as for one that is full.
#[test]
fn no_write_that_fills_a_unit_alone_waits_longer_than_the_pace_allows() {
    let g = geometry(4, 8, 200, 64, 8);
    let config = FirmwareConfig { protected: false, ..FirmwareConfig::default() };
    let (mut ftl, mut ctx, ..) = aged(&g, 20.0, config, 2);
    let sectors = ftl.sectors();
    let draw = |rng: &mut Rng| rng.below(sectors) as u32;
    let (most, mean) = write_each(&mut ftl, &mut ctx, 60_000, true, draw);
    let bound = at_most(&ftl, g.sectors_per_unit);
    println!("longest {most:?}, mean {mean:?}, bound {bound:?}");
    assert!(most <= bound && most <= mean * 20);
}

/// Writes sectors in order, so many at a time, and answers when each was complete.
struct Burst {
    drive: Drive,
    rng: Rng,
    next: u32,
    open: usize,
}

impl Burst {
    fn new(ftl: &mut Firmware, ctx: &mut Ctx) -> Burst {
        let g = *ftl.geometry();
        let mut drive = Drive::new(&g, &vec![false; (g.lines * g.luns) as usize]);
        drive.adopt(ftl);
        (drive.times, drive.keeps) = (TIMES, false);
        ftl.start(ctx);
        drive.drain(ftl, ctx.now);
        Burst { drive, rng: Rng::from_seed(1), next: 0, open: 0 }
    }
    /// How long so many take.
    fn write(&mut self, ftl: &mut Firmware, ctx: &mut Ctx, sectors: u32) -> Span {
        let all = ftl.sectors() as u32;
        self.draw(ftl, ctx, sectors, |tag| tag % all)
    }
    /// The same of sectors that are drawn.
    fn draw(
        &mut self,
        ftl: &mut Firmware,
        ctx: &mut Ctx,
        sectors: u32,
        mut draw: impl FnMut(u32) -> u32,
    ) -> Span {
        let from = ctx.now;
        for _ in 0..sectors {
            let (tag, lpn) = (self.next, Lpn(draw(self.next)));
            self.next += 1;
            ftl.write(ctx, tag, lpn, 1, false, Source::Host);
            self.drive.drain(ftl, ctx.now);
            self.open += 1;
            loop {
                self.open -= std::mem::take(&mut self.drive.ended).len();
                if self.open < 64 {
                    break;
                }
                assert!(self.drive.tick(ftl, ctx, &mut self.rng), "write {tag} hangs");
            }
        }
        ctx.now.since(from)
    }
    /// Users are away until nothing is left to do.
    fn rest(&mut self, ftl: &mut Firmware, ctx: &mut Ctx) {
        while self.drive.tick(ftl, ctx, &mut self.rng) {}
        while let Some((at, _)) = ctx.queue.pop() {
            ctx.now = ctx.now.max(at);
            ftl.on_timer(ctx, 0);
            self.drive.drain(ftl, ctx.now);
            while self.drive.tick(ftl, ctx, &mut self.rng) {}
        }
        ftl.check_invariants().unwrap();
    }
}

fn rate(g: &Geometry, sectors: u32, took: Span) -> f64 {
    // In units a LUN and second.
    f64::from(sectors) / f64::from(g.sectors_per_unit) / f64::from(g.luns) / took.as_secs_f64()
}

/// A static buffer takes what it has room for at the rate of programs with a bit a cell, and no sector more;
/// what comes then goes to the native cells at their rate. A rest folds all, and the buffer is as before.
#[test]
fn a_static_buffer_takes_a_burst_of_its_size_and_a_rest_empties_it() {
    let g = with_slc(geometry(4, 8, 200, 64, 8), 4);
    let config = FirmwareConfig { slc_static: 5.0, ..FirmwareConfig::default() };
    let mut ftl = firmware(&g, 20.0, config);
    let mut ctx = Ctx::new();
    ctx.now = Time(1);
    let mut burst = Burst::new(&mut ftl, &mut ctx);
    // Ten superblocks of 16 pages.
    let units = 10 * 16 * u64::from(g.luns);
    let sectors = units as u32 * g.sectors_per_unit;
    let mut folded = 0;
    for round in 1..=3 {
        let inside = rate(&g, sectors * 9 / 10, burst.write(&mut ftl, &mut ctx, sectors * 9 / 10));
        burst.write(&mut ftl, &mut ctx, sectors * 3 / 10);
        let outside = rate(&g, sectors, burst.write(&mut ftl, &mut ctx, sectors));
        println!("inside {inside:.0} units a LUN and second, past it {outside:.0}");
        assert!((inside / 5000.0 - 1.0).abs() < 0.02 && (outside / 1000.0 - 1.0).abs() < 0.02);
        assert_eq!(burst.drive.slc_programs, units * round, "the buffer's size by count");
        burst.rest(&mut ftl, &mut ctx);
        folded += u64::from(sectors);
        let c = ftl.counters();
        assert_eq!((c.folded_sectors, c.gc_sectors), (folded, 0), "each sector once");
        assert_eq!(c.lines_folded, 10 * round);
    }
    let c = ftl.counters();
    let others = c.user_sectors + c.pad_sectors;
    assert_eq!(c.programmed_sectors, others + c.folded_sectors);
}

/// On a blank drive superblocks are borrowed up to their share of what is free; past that users write to
/// native cells, and once space is short each sector of theirs takes u / (1 - u) that are folded, u the share of
/// a borrowed superblock that its data take elsewhere.
#[test]
fn a_dynamic_buffer_is_a_share_of_what_is_free_and_is_folded_at_the_pace_of_users() {
    for (bits, share) in [(4, 100.0), (4, 50.0), (3, 100.0)] {
        let g = with_slc(geometry(4, 8, 300, 48, 8), bits);
        // Far enough ahead that no LUN waits for the collector.
        let config = FirmwareConfig {
            slc_dynamic: share,
            gc_lag: Some(64),
            gc_units: Some(64),
            ..FirmwareConfig::default()
        };
        let mut ftl = firmware(&g, 20.0, config);
        let (all, block) = (f64::from(g.lines), u64::from(g.units_per_line()));
        let start = ftl.marks().0;
        let borrowed = (share / 100.0 * (all - start as f64 / block as f64)).floor() as u64;
        let units = borrowed * block / u64::from(bits);
        let mut ctx = Ctx::new();
        ctx.now = Time(1);
        let mut burst = Burst::new(&mut ftl, &mut ctx);
        let sectors = units as u32 * g.sectors_per_unit;
        let inside = rate(&g, sectors * 9 / 10, burst.write(&mut ftl, &mut ctx, sectors * 9 / 10));
        assert!((inside / 5000.0 - 1.0).abs() < 0.02, "{inside}");
        burst.write(&mut ftl, &mut ctx, sectors / 10);
        // Native cells until the collector has to begin.
        while ftl.free_units() >= start {
            burst.write(&mut ftl, &mut ctx, 64);
        }
        let before = *ftl.counters();
        let u = 1.0 / f64::from(bits);
        let room = (borrowed * block) as f64 * (1.0 - u) * f64::from(g.sectors_per_unit);
        burst.write(&mut ftl, &mut ctx, (room * 0.1) as u32);
        let n = (room * 0.4) as u32;
        let middle = *ftl.counters();
        let past = rate(&g, n, burst.write(&mut ftl, &mut ctx, n));
        let c = *ftl.counters();
        let moved = (c.folded_sectors - middle.folded_sectors) as f64 / f64::from(n);
        let per_user = u / (1.0 - u);
        let (read, program) = (TIMES.slc_read.as_secs_f64(), TIMES.program.as_secs_f64());
        let erase = TIMES.slc_erase.as_secs_f64() / f64::from(g.slc_pages);
        let theory = 1.0 / (program + per_user * (read + program + erase));
        println!(
            "{bits} bits, {share} %: {borrowed} superblocks; inside {inside:.0}, past it {past:.0} of {theory:.0} \
             units a LUN and second, {moved:.3} of {per_user:.3} folded a sector"
        );
        assert_eq!(burst.drive.slc_programs, units, "the buffer's size by count");
        assert_eq!((before.folded_sectors, c.gc_sectors), (0, 0));
        // The closed form has no LUN idle: it is a bound, and found are 85 to 91 % of it.
        assert!((moved / per_user - 1.0).abs() < 0.03 && (0.8..1.02).contains(&(past / theory)));
        ftl.check_invariants().unwrap();
    }
}

/// Users come back while the buffer is being folded: what is left of a superblock is moved at their pace, and
/// no write waits longer than that allows.
#[test]
fn no_write_waits_longer_for_folding_than_the_pace_allows() {
    let g = with_slc(geometry(4, 8, 200, 64, 8), 3);
    for (share, dynamic) in [(4.0, 0.0), (4.0, 100.0), (0.0, 100.0)] {
        let config = FirmwareConfig {
            slc_static: share,
            slc_dynamic: dynamic,
            idle_free: Some(30.0),
            ..FirmwareConfig::default()
        };
        let mut ftl = firmware(&g, 14.0 + share, config);
        let sectors = ftl.sectors();
        let mut ctx = Ctx::new();
        ctx.now = Time(1);
        let mut rng = Rng::from_seed(3);
        ftl.fill(&mut ctx.stamps).unwrap();
        let mut next = |lpns: &mut [u32]| {
            lpns.fill_with(|| rng.below(sectors) as u32);
            Ok(())
        };
        let limits =
            WindowLimits { window: 0.25, least: 2.0, most: 10.0, ..WindowLimits::default() };
        steady_by_overwriting(&mut ftl, &mut ctx.stamps, &mut next, limits).unwrap();
        ftl.settle();
        let mut burst = Burst::new(&mut ftl, &mut ctx);
        let mut most = Span::ZERO;
        for round in 0..60u32 {
            for tag in 0..2000 {
                let (tag, from) = (round * 2000 + tag, ctx.now);
                let lpn = Lpn(burst.rng.below(sectors) as u32);
                ftl.write(&mut ctx, tag, lpn, 1, false, Source::Host);
                burst.drive.drain(&mut ftl, ctx.now);
                while burst.drive.ended.remove(&tag).is_none() {
                    assert!(
                        burst.drive.tick(&mut ftl, &mut ctx, &mut burst.rng),
                        "write {tag} hangs"
                    );
                }
                most = most.max(ctx.now.since(from));
            }
            // A pause that ends in the middle of folding.
            let until = ctx.now + Span::from_ms(200);
            while burst.drive.next().is_some_and(|next| next <= until) {
                burst.drive.tick(&mut ftl, &mut ctx, &mut burst.rng);
            }
            ctx.now = until;
            ftl.on_timer(&mut ctx, 0);
            burst.drive.drain(&mut ftl, ctx.now);
            for _ in 0..round * 20 {
                burst.drive.tick(&mut ftl, &mut ctx, &mut burst.rng);
            }
        }
        ftl.check_invariants().unwrap();
        let bound = at_most(&ftl, 1);
        println!(
            "{share} % static, {dynamic} % dynamic: longest {most:?} of {bound:?}, {} folded",
            ftl.counters().lines_folded
        );
        assert!(most <= bound && ftl.counters().lines_folded > 10);
    }
}

/// Filled, all is in native cells; overwritten at full speed, the static buffer is used up; a rest empties it, and so
/// does an idle drive that collects nothing.
#[test]
fn ageing_leaves_the_buffer_in_the_state_that_is_documented() {
    let g = with_slc(geometry(4, 8, 200, 16, 8), 4);
    let config = FirmwareConfig { slc_static: 5.0, slc_dynamic: 40.0, ..FirmwareConfig::default() };
    let mut ftl = firmware(&g, 25.0, config);
    let sectors = ftl.sectors();
    let (mut ctx, mut rng) = (Ctx::new(), Rng::from_seed(3));
    let in_slc = |ftl: &Firmware| {
        let pages = ftl.media_state().filter(|b| b.slc).map(|b| b.programmed);
        pages.sum::<u32>()
    };
    ftl.fill(&mut ctx.stamps).unwrap();
    assert_eq!((in_slc(&ftl), ftl.counters().waf()), (0, 1.0));
    for _ in 0..3 * sectors / 64 {
        let lpns: Vec<u32> = (0..64).map(|_| rng.below(sectors) as u32).collect();
        ftl.overwrite(&mut ctx.stamps, &lpns).unwrap();
    }
    ftl.check_invariants().unwrap();
    let used = in_slc(&ftl);
    assert!(used >= 9 * 4 * g.luns, "{used} pages of ten superblocks of four");
    ftl.rest(&mut ctx.stamps).unwrap();
    ftl.settle();
    ftl.check_invariants().unwrap();
    // What is open stays.
    assert!(in_slc(&ftl) < 4 * g.luns, "{} pages", in_slc(&ftl));
    for at in (0..2 * sectors / 64).map(|n| n * 64 % (sectors - 64)) {
        let lpns: Vec<u32> = (at as u32..at as u32 + 64).collect();
        ftl.overwrite(&mut ctx.stamps, &lpns).unwrap();
    }
    assert!(in_slc(&ftl) >= 9 * 4 * g.luns, "{} pages", in_slc(&ftl));
    ftl.fold(&mut ctx.stamps).unwrap();
    ftl.settle();
    ftl.check_invariants().unwrap();
    assert!(in_slc(&ftl) < 4 * g.luns, "{} pages", in_slc(&ftl));
    let c = *ftl.counters();
    let causes: f64 = c.causes().iter().map(|(_, n)| n).sum();
    assert!(c.folded_sectors > 0 && (c.waf() - 1.0 - causes).abs() < 1e-9);
}

/// A drive that was filled, and the flash below it.
fn filled(g: &Geometry, config: FirmwareConfig) -> (Firmware, Ctx, Drive) {
    let mut ftl = firmware(g, 20.0, config);
    let mut ctx = ctx(ftl.sectors());
    ftl.fill(&mut ctx.stamps).unwrap();
    on_flash(g, ftl, ctx)
}
/// One that was written at random for long, and whose collector has a victim half moved.
fn worked(g: &Geometry, config: FirmwareConfig) -> (Firmware, Ctx, Drive) {
    let (ftl, ctx, ..) = aged(g, 20.0, config, 5);
    on_flash(g, ftl, ctx)
}
fn on_flash(g: &Geometry, mut ftl: Firmware, mut ctx: Ctx) -> (Firmware, Ctx, Drive) {
    ftl.settle();
    let mut drive = Drive::new(g, &vec![false; (g.lines * g.luns) as usize]);
    drive.adopt(&ftl);
    drive.times = TIMES;
    ftl.start(&mut ctx);
    drive.drain(&mut ftl, ctx.now);
    (ftl, ctx, drive)
}

/// Reads so many sectors, one after the other, of which nine of ten are of `hot`. The most reads of a block between two
/// erasures.
fn read_often(
    (ftl, ctx, drive): &mut (Firmware, Ctx, Drive),
    reads: u32,
    mut hot: impl FnMut(&mut Rng) -> u32,
) -> u32 {
    let mut rng = Rng::from_seed(3);
    let (mut pieces, mut most) = (Vec::<Piece>::new(), 0);
    let mut of_block = std::collections::BTreeMap::new();
    for _ in 0..reads {
        let lpn = match rng.below(10) {
            0 => rng.below(ftl.sectors()) as u32,
            _ => hot(&mut rng),
        };
        pieces.clear();
        ftl.read(ctx, Lpn(lpn), 1, &mut pieces);
        drive.drain(ftl, ctx.now);
        let end = ctx.now + TIMES.read;
        drive.pass(ftl, ctx, &mut rng, end);
        if let Some(ppa) = pieces[0].place.ppa() {
            let block = drive.block_of(ppa.0);
            let n = of_block.entry((block, drive.erases[block])).or_insert(0);
            *n += 1;
            most = most.max(*n);
            ftl.read_done(ctx, ppa, 1);
            drive.drain(ftl, ctx.now);
        }
    }
    ftl.check_invariants().unwrap();
    most
}

/// Reads of a block since its erasure are bounded by the limit and the quarter in which its superblock is moved, and by
/// those that come while the last of it is; without a limit they go on for ever.
#[test]
fn a_block_that_is_read_often_is_written_anew() {
    let g = geometry(4, 8, 40, 16, 8);
    let limit = 2_000;
    let run = |read_limit: u32| {
        let config = FirmwareConfig { read_limit, ..FirmwareConfig::default() };
        let mut drive = filled(&g, config);
        let most = read_often(&mut drive, 100_000, |rng| rng.below(8) as u32);
        let c = *drive.0.counters();
        println!(
            "limit {read_limit}: {most} reads of a block at most, {} lines anew",
            c.lines_refreshed
        );
        (most, c)
    };
    let (most, c) = run(0);
    assert!(most > 80_000 && c.lines_refreshed == 0 && c.gc_sectors == 0);
    let (most, c) = run(limit);
    let moved = (g.units_per_line() * g.sectors_per_unit) as f64;
    let bound = limit + limit / 4 + reads_while_moving(&g);
    assert!(most <= bound, "{most} reads of a block, {bound} are the bound");
    let lines = c.lines_refreshed as f64;
    assert!(
        (90_000.0 / f64::from(bound)..90_000.0 / f64::from(limit)).contains(&lines),
        "{lines} lines"
    );
    assert!((0.9..=1.0).contains(&(c.gc_sectors as f64 / lines / moved)), "{c:?}");
    assert_eq!(c.lost_sectors, 0);
}
/// What the collector has begun takes a superblock's time at most.
fn reads_while_moving(g: &Geometry) -> u32 {
    let last = (TIMES.program + TIMES.read) * u64::from(g.pages) + TIMES.erase;
    (last.0 / TIMES.read.0) as u32
}

/// A drive whose collector works has a victim already, and less room than to move a superblock takes: what is read often is
/// written anew all the same, while nobody writes. The superblock in the way and what makes the room are moved first.
#[test]
fn what_is_read_often_is_written_anew_on_a_drive_that_collects() {
    let g = geometry(4, 8, 40, 16, 8);
    let (limit, hot) = (500, 16);
    for (gc_start, loaded) in [(None, false), (Some(5), false), (None, true)] {
        let config = FirmwareConfig { read_limit: limit, gc_start, ..FirmwareConfig::default() };
        let mut drive = worked(&g, config.clone());
        if loaded {
            let (mut ftl, ctx, ..) = aged(&g, 20.0, config.clone(), 5);
            ftl.settle();
            let mut state = Vec::new();
            ftl.save(&mut state).unwrap();
            let ftl = Firmware::load(&g, 20.0, &config, &mut &state[..]).unwrap();
            drive = on_flash(&g, ftl, ctx);
        }
        let before = *drive.0.counters();
        let apart = drive.0.sectors() / hot;
        let most = read_often(&mut drive, 100_000, |rng| (rng.below(hot) * apart) as u32);
        let lines = drive.0.counters().lines_refreshed - before.lines_refreshed;
        println!("{gc_start:?}: {most} reads of a block at most, {lines} lines anew");
        // Before its superblock those of the others, the victim that there was, and two for room.
        let bound = limit + limit / 4 + (3 + hot as u32) * reads_while_moving(&g) / hot as u32;
        assert!(most <= bound, "{most} reads of a block, {bound} are the bound");
        // Some are in the buffer, where nobody reads a block.
        assert!(
            u64::from(30_000 / bound) <= lines && lines <= u64::from(90_000 / limit),
            "{lines}"
        );
    }
}

/// What was written last, in superblocks that are open and into which nobody writes any more, on a drive without room to close
/// them: the room is made first.
#[test]
fn an_open_superblock_that_is_read_often_is_written_anew() {
    let g = geometry(4, 8, 40, 16, 8);
    let limit = 500;
    let config = FirmwareConfig { read_limit: limit, ..FirmwareConfig::default() };
    let (mut ftl, mut ctx, ..) = aged(&g, 20.0, config, 5);
    // Units of all LUNs.
    let last: Vec<u32> = (0..256).map(|i| i * 64).collect();
    ftl.overwrite(&mut ctx.stamps, &last).unwrap();
    let mut drive = on_flash(&g, ftl, ctx);
    let before = drive.0.counters().lines_refreshed;
    let most = read_often(&mut drive, 200_000, |rng| rng.below(16) as u32 * 64);
    let lines = drive.0.counters().lines_refreshed - before;
    println!("{most} reads of a block at most, {lines} lines anew");
    assert!(most <= limit + limit / 4 + 4 * reads_while_moving(&g), "{most} reads of a block");
    assert!(lines > 1, "{lines} lines");
}

/// What waits in the buffer to be folded is moved to native cells, whether its superblock is static or not, whole or open.
#[test]
fn what_is_read_often_in_slc_mode_is_written_anew() {
    let g = with_slc(geometry(4, 8, 100, 16, 8), 4);
    let limit = 500;
    for (slc_static, slc_dynamic) in [(5.0, 0.0), (0.0, 40.0)] {
        let config = FirmwareConfig {
            slc_static,
            slc_dynamic,
            read_limit: limit,
            ..FirmwareConfig::default()
        };
        let mut ftl = firmware(&g, 20.0, config);
        let mut ctx = ctx(ftl.sectors());
        ftl.fill(&mut ctx.stamps).unwrap();
        // A superblock and a half.
        let hot = 6 * g.luns * g.sectors_per_unit;
        ftl.overwrite(&mut ctx.stamps, &(0..hot).collect::<Vec<_>>()).unwrap();
        let in_slc: u32 = ftl.media_state().filter(|b| b.slc).map(|b| b.programmed).sum();
        assert_eq!(in_slc, 6 * g.luns);
        let mut drive = on_flash(&g, ftl, ctx);
        let most = read_often(&mut drive, 100_000, |rng| rng.below(u64::from(hot)) as u32);
        println!(
            "{most} reads of a block at most, {} lines anew",
            drive.0.counters().lines_refreshed
        );
        assert!(most <= limit + limit / 4 + 4 * reads_while_moving(&g), "{most} reads of a block");
    }
}

/// Reads that always make something due do not keep what is old from being written anew, nor the other way round.
#[test]
fn what_is_read_and_what_is_old_have_turns() {
    let g = geometry(4, 8, 40, 16, 8);
    let period = TIMES.program * u64::from(20 * g.lines * g.pages);
    let refresh_days = period.0 as f64 / 86_400e9;
    let config = FirmwareConfig { read_limit: 20, refresh_days, ..FirmwareConfig::default() };
    let mut drive = filled(&g, config);
    let sectors = drive.0.sectors() as u32;
    let cold = |ftl: &Firmware| -> Vec<_> {
        (sectors / 2..sectors).map(|lpn| ftl.newest_at(Lpn(lpn))).collect()
    };
    let at_first = cold(&drive.0);
    let end = drive.1.now + period * 2;
    let mut moved = Vec::new();
    while drive.1.now < end {
        // Nine of ten in a quarter of the drive.
        read_often(&mut drive, 500, |rng| rng.below(u64::from(sectors) / 4) as u32);
        moved.push(drive.0.counters().lines_refreshed);
    }
    let anew = at_first.iter().zip(cold(&drive.0)).filter(|&(before, now)| *before != now).count();
    println!("{anew} of {} cold sectors elsewhere, {:?} lines anew", at_first.len(), moved.last());
    assert!(anew == at_first.len(), "{anew} of {} sectors lie elsewhere", at_first.len());
}

/// However low the limit is, and whether the drive was filled or written for long, superblocks are moved to the end.
#[test]
fn a_low_limit_of_reads_moves_superblocks_without_end() {
    let g = geometry(4, 8, 40, 16, 8);
    for read_limit in [1, 2, 5, 20] {
        let config = || FirmwareConfig { read_limit, ..FirmwareConfig::default() };
        for (what, mut drive) in
            [("filled", filled(&g, config())), ("worked", worked(&g, config()))]
        {
            let sectors = drive.0.sectors() / 4;
            let mut lines = vec![drive.0.counters().lines_refreshed];
            for _ in 0..3 {
                read_often(&mut drive, 20_000, |rng| rng.below(sectors) as u32);
                lines.push(drive.0.counters().lines_refreshed);
            }
            println!("{what}, limit {read_limit}: {lines:?} lines anew");
            assert!(lines.is_sorted_by(|a, b| a < b), "{what}, limit {read_limit}: {lines:?}");
        }
    }
}

/// All that is on flash is written once in `refresh_days`, at an even rate, while nobody writes.
#[test]
fn data_are_written_anew_before_they_are_too_old() {
    let g = geometry(4, 8, 40, 16, 8);
    // 20 ms for each of 5,120 units.
    let period = Span::from_ms(20) * u64::from(g.lines * g.units_per_line());
    let refresh_days = period.0 as f64 / 86_400e9;
    let config = || FirmwareConfig { refresh_days, ..FirmwareConfig::default() };
    let line = g.units_per_line() * g.sectors_per_unit;
    // Of one that collects, the superblock that is in the way and those that make room are moved besides.
    for (what, drive, besides) in
        [("filled", filled(&g, config()), 1), ("worked", worked(&g, config()), 3)]
    {
        let (mut ftl, mut ctx, mut drive) = drive;
        let mut rng = Rng::from_seed(3);
        let mut written = Vec::new();
        let sectors = ftl.sectors() as u32;
        let place = |ftl: &Firmware| -> Vec<_> {
            (0..sectors).map(|lpn| ftl.newest_at(Lpn(lpn))).collect()
        };
        let (at_first, before) = (place(&ftl), *ftl.counters());
        let (begin, end) = (ctx.now, ctx.now + period);
        while ctx.now < end {
            let next = ctx.now + Span::from_ms(20);
            drive.pass(&mut ftl, &mut ctx, &mut rng, next);
            written.push((ctx.now, ftl.counters().gc_sectors - before.gc_sectors));
        }
        ftl.check_invariants().unwrap();
        let c = *ftl.counters();
        let moved = c.gc_sectors - before.gc_sectors;
        let anew = at_first.iter().zip(place(&ftl)).filter(|&(before, now)| *before != now).count();
        println!(
            "{what}: {} lines, {moved} sectors of {sectors}, {anew} elsewhere",
            c.lines_refreshed
        );
        // All but the superblock that is being moved.
        assert!(
            anew as u32 + besides * line >= sectors,
            "{what}: {anew} of {sectors} sectors lie elsewhere"
        );
        assert!(moved <= u64::from(sectors + besides * line), "{what}: {moved} sectors were moved");
        // A quarter of it in each quarter of the time.
        for quarter in 1..4 {
            let at = begin + Span(period.0 * quarter / 4);
            let by = written.iter().rev().find(|(now, _)| *now <= at).map_or(0, |(_, n)| *n);
            let even = u64::from(sectors) * quarter / 4;
            assert!(
                by.abs_diff(even) <= u64::from((1 + besides) * line),
                "{what}: {by} sectors by quarter {quarter}, {even} are even"
            );
        }
    }
}

/// Users who write without a pause beside it wait no longer than the pace allows.
#[test]
fn no_write_waits_longer_for_what_is_written_anew() {
    let g = geometry(4, 8, 200, 64, 8);
    let config = FirmwareConfig { refresh_days: 3e-4, ..FirmwareConfig::default() };
    let (mut ftl, mut ctx, ..) = aged(&g, 12.0, config, 2);
    let sectors = ftl.sectors();
    let (most, _) = write_alone(&mut ftl, &mut ctx, 100_000, |rng| rng.below(sectors / 4) as u32);
    let bound = at_most(&ftl, 1);
    let lines = ftl.counters().lines_refreshed;
    println!("longest {most:?}, bound {bound:?}, {lines} lines written anew");
    assert!(lines > 3 && most <= bound);
}

/// The last sectors that are moved out of a superblock wait in a unit that is not full. Users need the superblock, and
/// nothing else is moved before they have it: the unit is padded, whoever reads meanwhile.
#[test]
fn reads_do_not_keep_the_last_sectors_of_a_victim_in_memory() {
    let g = geometry(4, 8, 200, 64, 8);
    let d = FirmwareConfig::default;
    for config in [
        FirmwareConfig { paced: false, ..d() },
        FirmwareConfig { gc_units: Some(2), hot_share: 60.0, ..d() },
        FirmwareConfig { gc_units: Some(3), hot_share: 60.0, map_bytes: 16384, ..d() },
    ] {
        let (mut ftl, mut ctx, ..) = aged(&g, 28.0, config.clone(), 5);
        let alone = longest_of_32(&mut ftl, &mut ctx, 100_000);
        let (mut ftl, mut ctx, ..) = aged(&g, 28.0, config.clone(), 5);
        let most = longest_beside(&mut ftl, &mut ctx, 100_000, true);
        println!("longest {most:?} beside reads, {alone:?} without, {config:?}");
        assert!(most < alone * 2, "{most:?} {alone:?}");
    }
}

/// Without capacitors users are let in while what is in the buffer has a place on flash. That is so without a pause also
/// where pages of the map and hot data have superblocks of their own.
#[test]
fn no_write_waits_for_a_whole_victim_without_capacitors() {
    let g = geometry(4, 8, 200, 64, 8);
    let d = || FirmwareConfig { protected: false, ..FirmwareConfig::default() };
    for (hot_share, map_bytes) in [(0.0, 16384), (40.0, 0), (40.0, 16384)] {
        let config = FirmwareConfig { hot_share, map_bytes, ..d() };
        for seed in [5, 6] {
            let (mut ftl, mut ctx, ..) = aged(&g, 35.0, config.clone(), seed);
            let most = longest_of_32(&mut ftl, &mut ctx, 150_000);
            let one = at_most(&ftl, 1);
            println!("{hot_share} %, {map_bytes} bytes: longest {most:?}, one alone {one:?}");
            assert!(most <= one * 32 / 8, "{most:?}");
        }
    }
}
