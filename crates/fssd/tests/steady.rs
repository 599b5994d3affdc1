//! The steady state that ageing makes without time is the one in which a drive in time stays, be it busy or not.

use crate::common::{Drive, Kind, ctx, geometry};
use wordline_base::{Lpn, Rng};
use wordline_fssd::FssdConfig;
use wordline_translation::{Source, Translation, WindowLimits, steady_by_overwriting};

/// Writes to a fifth of the sectors, of 100.
struct Writes {
    hot: u64,
}

impl Writes {
    fn draw(&self, rng: &mut Rng, sectors: u64) -> u32 {
        let fifth = sectors / 5;
        let lpn = match rng.below(100) < self.hot {
            true => rng.below(fifth),
            false => fifth + rng.below(sectors - fifth),
        };
        lpn as u32
    }
}

/// Write amplification of ageing, and of the thirds of a long run with so many writes under way.
fn aged_and_thirds(
    append_points: u32,
    gc_units: u32,
    writes: &Writes,
    under_way: usize,
) -> (f64, [f64; 3]) {
    let g = geometry(4, 4, 240, 16, 8);
    let buffer_bytes = 16 * g.unit_bytes();
    let config = FssdConfig { buffer_bytes, gc_units, append_points, ..FssdConfig::default() };
    let kind = Kind { g, config, over_provisioning: 20.0, bad: vec![false; 960] };
    let mut rng = Rng::from_seed(7);
    let (mut ftl, mut drive) = (kind.make(), Drive::new(&kind));
    let sectors = ftl.sectors();
    let mut ctx = ctx(sectors);
    ftl.fill(&mut ctx.stamps).unwrap();
    let next = &mut |lpns: &mut [u32]| {
        lpns.fill_with(|| writes.draw(&mut rng, sectors));
        Ok(())
    };
    let limits = WindowLimits { within: 0.005, span_within: 0.005, ..WindowLimits::default() };
    let report = steady_by_overwriting(&mut ftl, &mut ctx.stamps, next, limits).unwrap();
    assert!(report.steady);
    ftl.settle();
    drive.take_over(&ftl);
    ftl.start(&mut ctx);
    let (mut tag, mut open) = (0, 0);
    let by_third = [0; 3].map(|_| {
        let (before, count) = (ftl.counters().moved(), sectors);
        for _ in 0..count {
            let lpn = Lpn(writes.draw(&mut rng, sectors));
            let submitted = ctx.stamps.submit(lpn, 1);
            ctx.stamps.bind(tag, submitted);
            ftl.write(&mut ctx, tag, lpn, 1, false, Source::Host);
            (tag, open) = (tag + 1, open + 1);
            drive.drain(&mut ftl);
            while open >= under_way && drive.step(&mut ftl, &mut ctx, &mut rng) {
                drive.drain(&mut ftl);
                open -= std::mem::take(&mut drive.ended).len();
            }
            if under_way == 1 {
                drive.settle(&mut ftl, &mut ctx, &mut rng);
            }
        }
        (count + ftl.counters().moved() - before) as f64 / count as f64
    });
    ftl.check_invariants().unwrap();
    (report.write_amplification(12), by_third)
}

#[test]
fn a_long_run_has_one_write_amplification_with_a_victim_at_a_time() {
    runs_have_one_write_amplification(&[(20, 1), (80, 1)]);
}

#[test]
fn a_long_run_has_one_write_amplification_with_a_victim_of_each_group() {
    runs_have_one_write_amplification(&[(80, 2), (20, 4)]);
}

/// However fast they are. Each is the share of writes to a fifth of the drive, and how many groups collect.
fn runs_have_one_write_amplification(cases: &[(u64, u32)]) {
    for &(hot, points) in cases {
        let runs: Vec<_> = [(4, 1), (4, 40), (64, 1), (64, 40)]
            .into_iter()
            .map(|(gc_units, under_way)| {
                let (aged, thirds) = aged_and_thirds(points, gc_units, &Writes { hot }, under_way);
                println!(
                    "{points} groups, {hot} % of writes to a fifth, {gc_units} units, {under_way} under way: \
                     {aged:.3} aged, {thirds:.3?} by thirds"
                );
                (aged, thirds)
            })
            .collect();
        let mean = runs.iter().flat_map(|run| run.1).sum::<f64>() / (3 * runs.len()) as f64;
        for (aged, thirds) in runs {
            let off = |wa: f64| (wa / mean - 1.0).abs();
            assert!(thirds.iter().all(|&wa| off(wa) < 0.015), "{thirds:.3?}, all {mean:.3}");
            // Ageing tells its last windows alone, in which a spell more or less counts.
            assert!(off(aged) < 0.04, "{aged:.3} aged, {mean:.3} then");
        }
    }
}

/// Each write ends without another write or the end of a read, though the collector rests between two victims.
#[test]
fn no_write_waits_for_another_or_for_a_read() {
    let g = geometry(2, 4, 120, 16, 8);
    for (gc_units, append_points, volatile) in
        [(4, 1, false), (64, 1, false), (4, 2, false), (64, 2, true), (4, 1, true)]
    {
        let config = FssdConfig {
            buffer_bytes: 16 * g.unit_bytes(),
            gc_units,
            append_points,
            volatile,
            ..FssdConfig::default()
        };
        let kind = Kind { g, config, over_provisioning: 40.0, bad: vec![false; 480] };
        let seed = 11;
        let mut rng = Rng::from_seed(seed);
        let (mut ftl, mut drive) = (kind.make(), Drive::new(&kind));
        let sectors = ftl.sectors();
        let mut ctx = ctx(sectors);
        ftl.fill(&mut ctx.stamps).unwrap();
        ftl.settle();
        drive.take_over(&ftl);
        ftl.start(&mut ctx);
        let mut pieces = Vec::new();
        ftl.read(&mut ctx, Lpn(0), 1, &mut pieces);
        for tag in 0..3 * sectors as u32 {
            let lpn = Lpn(1 + rng.below(sectors - 1) as u32);
            let submitted = ctx.stamps.submit(lpn, 1);
            ctx.stamps.bind(tag, submitted);
            ftl.write(&mut ctx, tag, lpn, 1, false, Source::Host);
            drive.settle(&mut ftl, &mut ctx, &mut rng);
            assert!(
                drive.ended.remove(&tag).is_some(),
                "seed {seed}: write {tag}, {:?}",
                kind.config
            );
        }
        assert!(ftl.counters().lines_freed > 100);
        ftl.check_invariants().unwrap();
    }
}
