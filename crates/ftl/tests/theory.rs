//! Write amplification under uniform random writes against closed forms.
//!
//! Let U be the user sectors, T the data sectors of all lines that are not free (metadata taken
//! off), alpha = T / U, so the physical over-provisioning is alpha - 1. Free lines are averaged over
//! the measurement: they hold nothing, so they are no over-provisioning.
//!
//! FIFO (Desnoyers 2012, "Analytic modeling of SSD write performance", his LRU): a sector lives
//! through T (1 - X) user writes from being written to being looked at, so the share X of a victim
//! still valid solves X = exp(-alpha (1 - X)); WA = 1 / (1 - X).
//!
//! Greedy, mean field for many lines of b sectors (as in Bux and Iliadis 2010; Van Houdt 2013): with
//! N lines, of which N_j have j valid, one line passes each level above the victims' per victim. A
//! user write takes a sector from level j with chance N_j j / U, and a victim with v valid lets b - v
//! user writes in, hence N_j = U / (j (b - v)). Victims are at level k, and a share p of them has
//! slipped to k - 1 before its turn: N_k = p U / (k (b - v)), v = k - p. Summing over the lines,
//! sum_{j=k+1}^{b} 1/j + p/k = alpha (b - k + p) / b gives k and p; WA = b / (b - k + p). For b to
//! infinity that is the FIFO form, so both are near each other for lines of a thousand sectors.

use crate::common::*;
use wordline_base::{Lpn, Seed, Stamps};
use wordline_ftl::{
    Ftl, FtlConfig, Placement, Source, VictimPolicy, WindowLimits, steady_by_overwriting,
};
use wordline_nand::Geometry;

fn fifo(alpha: f64) -> f64 {
    let mut x = 0.5;
    for _ in 0..10_000 {
        x = f64::exp(-alpha * (1.0 - x));
    }
    1.0 / (1.0 - x)
}

fn greedy(alpha: f64, b: u32) -> f64 {
    let b_f = f64::from(b);
    let mut sum = 0.0;
    // Down from k = b: the first k at which the levels above hold all lines.
    for k in (1..b).rev() {
        sum += 1.0 / f64::from(k + 1);
        let (k_f, lhs_slope) = (f64::from(k), 1.0 / f64::from(k) - alpha / b_f);
        // sum + p / k = alpha (b - k + p) / b
        let p = (alpha * (b_f - k_f) / b_f - sum) / lhs_slope;
        if lhs_slope > 0.0 && (0.0..1.0).contains(&p) && k_f < b_f / alpha {
            return b_f / (b_f - k_f + p);
        }
    }
    panic!("no solution");
}

/// 1024 sectors a line.
fn drive(lines: u32) -> Geometry {
    geometry(2, 4, lines, 64, 4)
}

fn config(policy: VictimPolicy, lines: u32, spare: f64) -> FtlConfig {
    let used = f64::from(lines - 4) / f64::from(lines) / (1.0 + spare);
    let mut c = FtlConfig::new(Placement::Device, 100.0 * (1.0 - used));
    c.victim = policy;
    c.gc_start_lines = Some(4);
    c.gc_reserve_lines = Some(2);
    c.gc_lines = 1;
    c
}

/// Data sectors of the lines not free, per user sector.
fn alpha(ftl: &Ftl, free: f64) -> f64 {
    let lines = f64::from(ftl.geometry().lines);
    ftl.data_sectors() as f64 * (lines - free) / lines / ftl.sectors() as f64
}

fn measure(policy: VictimPolicy, spare: f64) -> (f64, f64, f64) {
    measure_within(policy, spare, 64)
}

fn measure_within(policy: VictimPolicy, spare: f64, window: u32) -> (f64, f64, f64) {
    let lines = 1100;
    let g = drive(lines);
    let mut c = config(policy, lines, spare);
    c.victim_window = window;
    // Users have all of the buffer or none, so that as many lines are free whatever the victims are.
    c.gc_reserve_lines = Some(3);
    let mut ftl = Ftl::new(&g, &c, &mut |_, _| false, Seed(5)).unwrap();
    let mut rng = Seed(9).stream("lpn");
    let sectors = ftl.sectors();
    let mut off = Stamps::off();
    ftl.fill(&mut off).unwrap();
    ftl.settle();
    let mut next = |lpns: &mut [u32]| {
        lpns.iter_mut().for_each(|l| *l = rng.below(sectors) as u32);
        Ok(())
    };
    let limits = WindowLimits { window: 0.5, least: 4.0, most: 20.0, ..WindowLimits::default() };
    let steady = steady_by_overwriting(&mut ftl, &mut off, &mut next, limits).unwrap();
    assert!(steady.steady, "{steady:?}");
    // The line being erased counts as free.
    let free = 1.0 + f64::from(ftl.free_lines().0);
    ftl.check_invariants().unwrap();
    let data = (ftl.data_sectors() / u64::from(lines)) as u32;
    let alpha = alpha(&ftl, free);
    let theory = match policy {
        VictimPolicy::Fifo => fifo(alpha),
        _ => greedy(alpha, data),
    };
    (alpha - 1.0, steady.write_amplification(3), theory)
}

#[test]
fn ageing_reaches_the_closed_forms() {
    let mut worst: f64 = 0.0;
    for policy in [VictimPolicy::Fifo, VictimPolicy::Greedy] {
        for spare in [0.07, 0.11, 0.20, 0.28] {
            let (op, wa, theory) = measure(policy, spare);
            let off = wa / theory - 1.0;
            worst = worst.max(off.abs());
            println!(
                "{policy:?} physical OP {:.2} %: WA {wa:.3}, closed form {theory:.3}, off {:+.2} %",
                op * 100.0,
                off * 100.0
            );
        }
    }
    assert!(worst < 0.01, "off by {:.1} %", worst * 100.0);
}

#[test]
fn more_choices_come_nearer_to_greedy() {
    let wa = |policy| measure(policy, 0.20).1;
    let (random, greedy) = (wa(VictimPolicy::Random), wa(VictimPolicy::Greedy));
    let d = wa(VictimPolicy::DChoices);
    println!("random {random:.3}, d-choices {d:.3}, greedy {greedy:.3}");
    assert!(random > d && d > greedy * 0.99);
    // Uniform random writes: a line's age tells its valid share, so cost-benefit is greedy.
    let benefit = wa(VictimPolicy::CostBenefit);
    println!("cost-benefit {benefit:.3}");
    assert!((benefit / greedy - 1.0).abs() < 0.05);
    // Random victims: a line is chosen with equal chance each time, so a sector lives through a
    // geometric number of choices, X = 1 / (1 + alpha (1 - X)), that is X = 1 / alpha (Desnoyers).
    let alpha = 1.2;
    let closed = 1.0 / (1.0 - 1.0 / alpha);
    assert!((random / closed - 1.0).abs() < 0.05, "random: {random:.3}, closed form {closed:.3}");
}

/// A window of one line is FIFO and one of all lines is greedy, to the last write; others lie between them.
#[test]
fn a_window_lies_between_fifo_and_greedy() {
    let wa = |policy, window| measure_within(policy, 0.20, window).1;
    let (fifo, greedy) = (wa(VictimPolicy::Fifo, 1), wa(VictimPolicy::Greedy, 1));
    let windows = [1, 16, 256, 1100].map(|window| wa(VictimPolicy::WindowedGreedy, window));
    println!(
        "fifo {fifo:.4}, windows of 1, 16, 256 and all lines {windows:.4?}, greedy {greedy:.4}"
    );
    assert_eq!((windows[0], windows[3]), (fifo, greedy));
    // With 1024 sectors a line the ends are 0.25 % apart; a tenth of that is chance.
    assert!(windows.is_sorted_by(|a, b| *b < a + 3e-4 * a), "{windows:?}");
    assert!(windows[1] < fifo && windows[1] > greedy, "{windows:?}");
}

#[test]
fn time_changes_nothing_in_write_amplification() {
    let lines = 1100;
    let g = drive(lines);
    let c = config(VictimPolicy::Greedy, lines, 0.28);
    let mut ftl = Ftl::new(&g, &c, &mut |_, _| false, Seed(5)).unwrap();
    let sectors = ftl.sectors();
    let mut rng = Seed(11).stream("lpn");
    let mut ctx = ctx(None);
    ftl.fill(&mut ctx.stamps).unwrap();
    ftl.settle();
    ftl.start(&mut ctx);
    let mut fake = Fake::new(&ftl);
    let mut order = Seed(12).stream("order");
    let mut from = *ftl.counters();
    let (mut free, mut samples) = (0.0, 0.0);
    let writes = sectors as u32 * 4;
    for tag in 0..writes {
        if tag == writes / 2 {
            from = *ftl.counters();
        }
        let lpn = Lpn(rng.below(sectors) as u32);
        ftl.write(&mut ctx, tag, lpn, 1, false, Source::Host);
        fake.drain_fast(&mut ftl);
        // Keep some LUNs busy, as a drive under load is.
        while fake.in_flight() > 6 || !fake.done.contains_key(&tag) {
            assert!(fake.step(&mut ftl, &mut ctx, &mut order), "stuck");
            fake.drain_fast(&mut ftl);
        }
        fake.done.remove(&tag);
        if tag > writes / 2 && tag % 512 == 0 {
            free += 1.0 + f64::from(ftl.free_lines().0);
            samples += 1.0;
        }
    }
    let now = ftl.counters();
    let user = (now.user_sectors - from.user_sectors) as f64;
    let wa = 1.0 + (now.gc_sectors - from.gc_sectors) as f64 / user;
    let alpha = alpha(&ftl, free / samples);
    let theory = greedy(alpha, (ftl.data_sectors() / u64::from(lines)) as u32);
    println!(
        "timed, physical OP {:.2} %: WA {wa:.3}, closed form {theory:.3}",
        (alpha - 1.0) * 100.0
    );
    assert!((wa / theory - 1.0).abs() < 0.03);
}

/// With pblk's own thresholds the free lines settle where users and the collector are in balance;
/// ageing must leave a drive where time then keeps it.
#[test]
fn an_aged_drive_is_in_the_steady_state_of_time() {
    let g = drive(1100);
    let c = FtlConfig::new(Placement::Device, 20.0);
    let mut ftl = Ftl::new(&g, &c, &mut |_, _| false, Seed(5)).unwrap();
    let sectors = ftl.sectors();
    let mut rng = Seed(9).stream("lpn");
    let mut ctx = ctx(None);
    ftl.fill(&mut ctx.stamps).unwrap();
    ftl.settle();
    let mut next = |lpns: &mut [u32]| {
        lpns.iter_mut().for_each(|l| *l = rng.below(sectors) as u32);
        Ok(())
    };
    let limits = WindowLimits { window: 0.25, least: 3.0, ..WindowLimits::default() };
    let aged = steady_by_overwriting(&mut ftl, &mut ctx.stamps, &mut next, limits).unwrap();
    let wa_aged = aged.write_amplification(3);
    let free_aged = ftl.free_lines();
    ftl.start(&mut ctx);
    let mut fake = Fake::new(&ftl);
    let mut order = Seed(12).stream("order");
    for window in 0..3 {
        let from = *ftl.counters();
        for tag in 0..sectors as u32 / 2 {
            let lpn = Lpn(rng.below(sectors) as u32);
            ftl.write(&mut ctx, tag, lpn, 1, false, Source::Host);
            fake.drain_fast(&mut ftl);
            while !fake.done.contains_key(&tag) {
                assert!(fake.step(&mut ftl, &mut ctx, &mut order), "stuck");
                fake.drain_fast(&mut ftl);
            }
            fake.done.remove(&tag);
        }
        let now = ftl.counters();
        let user = (now.user_sectors - from.user_sectors) as f64;
        let wa = 1.0 + (now.gc_sectors - from.gc_sectors) as f64 / user;
        println!(
            "window {window}: WA {wa:.3}, aged {wa_aged:.3}; free {:?}, aged {free_aged:?}",
            ftl.free_lines()
        );
        assert!((wa / wa_aged - 1.0).abs() < 0.05);
    }
}

#[test]
fn forms_agree_with_published_points() {
    // Lambert W form of the same equation: X = -W(-alpha e^-alpha) / alpha.
    for (alpha, x) in [(1.07, 0.8707), (1.28, 0.5985)] {
        let wa: f64 = fifo(alpha);
        let solved: f64 = 1.0 - 1.0 / wa;
        assert!((solved - f64::exp(-alpha * (1.0 - solved))).abs() < 1e-9);
        assert!((solved - x).abs() < 0.01, "{alpha}: {solved}");
    }
    // Many sectors a line: greedy goes to FIFO; few: it is better.
    assert!((greedy(1.2, 100_000) / fifo(1.2) - 1.0).abs() < 1e-3);
    assert!(greedy(1.2, 32) < 0.95 * fifo(1.2));
}
