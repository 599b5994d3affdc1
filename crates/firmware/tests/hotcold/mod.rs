//! Write amplification where some sectors are written more often than others: beside a small model, and beside the closed
//! form of pools that have their spare each (docs/design/firmware.md).

mod model;

use crate::common::{geometry, greedy};
use model::{Apart, Model};
use wordline_base::{Rng, Stamps};
use wordline_firmware::{Firmware, FirmwareConfig, Victim};
use wordline_translation::{Translation, WindowLimits, steady_by_overwriting};

/// Which sectors users write.
#[derive(Clone)]
enum Load {
    Uniform,
    /// So many percent of the writes go to so many percent of the sectors, the first ones.
    Zoned(u64, u64),
    /// The n-th most often written sector is so n^-theta times as often as the first; where it is, is drawn.
    Zipf(Vec<f64>, Vec<u32>),
}

impl Load {
    fn zipf(sectors: u64, theta: f64) -> Load {
        let mut sum = 0.0;
        let up_to = |n: u64| {
            sum += (n as f64).powf(-theta);
            sum
        };
        let sums: Vec<f64> = (1..=sectors).map(up_to).collect();
        let mut places: Vec<u32> = (0..sectors as u32).collect();
        let mut rng = Rng::from_seed(77);
        (1..sectors).rev().for_each(|i| places.swap(i as usize, rng.below(i + 1) as usize));
        Load::Zipf(sums, places)
    }
    fn draw(&self, rng: &mut Rng, sectors: u64) -> u32 {
        match self {
            Load::Uniform => rng.below(sectors) as u32,
            Load::Zoned(writes, share) => {
                let hot = sectors * share / 100;
                match rng.below(100) < *writes {
                    true => rng.below(hot) as u32,
                    false => (hot + rng.below(sectors - hot)) as u32,
                }
            }
            Load::Zipf(sums, places) => {
                let at = rng.below(1 << 52) as f64 / (1u64 << 52) as f64 * sums[sums.len() - 1];
                places[sums.partition_point(|&sum| sum <= at)]
            }
        }
    }
}

const LUNS: u32 = 8;

/// A drive that users wrote so many times its capacity to, its write amplification over as many more, and what was
/// free meanwhile, in sectors.
fn run(
    op: f64,
    config: FirmwareConfig,
    load: &Load,
    before: u64,
    over: u64,
) -> (Firmware, f64, f64) {
    let g = geometry(4, LUNS, 300, 16, 8);
    let mut ftl = Firmware::new(&g, op, &config, &mut |_, _| false).unwrap();
    let (sectors, mut stamps, mut rng) = (ftl.sectors(), Stamps::default(), Rng::from_seed(3));
    ftl.fill(&mut stamps).unwrap();
    let (mut free, mut looks, mut lpns, mut start) = (0, 0, [0; 64], *ftl.counters());
    for i in 0..(before + over) * sectors / 64 {
        if i == before * sectors / 64 {
            (free, looks, start) = (0, 0, *ftl.counters());
        }
        lpns.fill_with(|| load.draw(&mut rng, sectors));
        ftl.overwrite(&mut stamps, &lpns).unwrap();
        (free, looks) = (free + ftl.free_units(), looks + 1);
    }
    ftl.check_invariants().unwrap();
    let c = ftl.counters().since(&start);
    let free = free as f64 / f64::from(looks) * f64::from(g.sectors_per_unit);
    (ftl, 1.0 + c.gc_sectors as f64 / c.user_sectors as f64, free)
}

/// The same of the model, with what is free as of the drive: it keeps whole lines free, so that the drive is between
/// two of them.
fn modelled(op: f64, apart: Apart, victim: Victim, load: &Load, free: f64) -> f64 {
    let g = geometry(4, LUNS, 300, 16, 8);
    let places = g.sectors_per_line as usize;
    let sectors = (g.sectors() as f64 * (1.0 - op / 100.0)) as u64;
    let of = |keep: usize| {
        let by_age = victim == Victim::CostBenefit;
        let mut model = Model::new(300, places, sectors as usize, keep, apart, by_age);
        let mut rng = Rng::from_seed(5);
        let mut draw = |rng: &mut Rng| load.draw(rng, sectors);
        model.run(8 * sectors, &mut draw, &mut rng);
        model.run(6 * sectors, &mut draw, &mut rng)
    };
    let mut less = of(2);
    for keep in 3..12 {
        if less.1 >= free {
            break;
        }
        let more = of(keep);
        if more.1 >= free {
            let part = (free - less.1) / (more.1 - less.1);
            return less.0 + part * (more.0 - less.0);
        }
        less = more;
    }
    less.0
}

/// Write amplification of pools that are apart, each uniform and greedy with spare of its own, which is divided so that
/// the sum is least (Desnoyers, "Analytic models of SSD write performance", ACM TOS 2014).
fn pools(alpha: f64, writes: f64, share: f64) -> f64 {
    let places = geometry(4, LUNS, 300, 16, 8).sectors_per_line;
    let of = |hot_spare: f64| {
        let spare = alpha - 1.0;
        let hot = greedy(1.0 + spare * hot_spare / share, places);
        let cold = greedy(1.0 + spare * (1.0 - hot_spare) / (1.0 - share), places);
        writes * hot + (1.0 - writes) * cold
    };
    (5..96).map(|i| of(f64::from(i) / 100.0)).fold(f64::MAX, f64::min)
}

#[test]
fn a_drive_amplifies_hot_and_cold_data_as_the_model_does() {
    for (name, load) in
        [("uniform", Load::Uniform), ("80/20", Load::Zoned(80, 20)), ("90/10", Load::Zoned(90, 10))]
    {
        for victim in [Victim::Greedy, Victim::CostBenefit] {
            for hot_share in [0.0, 30.0] {
                let config = FirmwareConfig { hot_share, victim, ..FirmwareConfig::default() };
                let (_, found, free) = run(15.0, config, &load, 8, 4);
                let apart = match hot_share {
                    0.0 => Apart::Moved,
                    _ => Apart::Young(90),
                };
                let expected = modelled(15.0, apart, victim, &load, free);
                println!(
                    "{name}, {victim:?}, {hot_share} % young: {found:.3}, the model's {expected:.3}"
                );
                assert!((found / expected - 1.0).abs() < 0.05, "{name} {victim:?} {hot_share}");
            }
        }
    }
}

/// With hot data in lines of their own, when users write them and when they are moved, each line is of one kind, and a
/// collector that goes by age divides the spare well: the closed form of pools that are apart is the bound.
#[test]
fn hot_data_apart_come_near_the_closed_form_of_pools() {
    for (writes, share) in [(80, 20), (90, 10)] {
        let load = Load::Zoned(writes, share);
        // As much stays free in both: one superblock more is open where hot data are apart.
        let of = |hot_share, victim| {
            let gc_start = Some(if hot_share > 0.0 { 7 } else { 8 });
            let config =
                FirmwareConfig { hot_share, victim, gc_start, ..FirmwareConfig::default() };
            run(15.0, config, &load, 8, 4)
        };
        let (ftl, apart, free) = of(30.0, Victim::CostBenefit);
        let together = of(0.0, Victim::CostBenefit).1;
        let by_valid = of(30.0, Victim::Greedy).1;
        let by_valid_together = of(0.0, Victim::Greedy).1;
        let sectors = ftl.sectors() as f64;
        let alpha = (ftl.geometry().sectors() as f64 - free) / sectors;
        let (w, s) = (writes as f64 / 100.0, share as f64 / 100.0);
        let bound = pools(alpha, w, s);
        let known = modelled(
            15.0,
            Apart::Known((sectors * s) as u32 - 1),
            Victim::CostBenefit,
            &load,
            free,
        );
        println!(
            "{writes}/{share}: pools {bound:.3}, model with known heat {known:.3}; by age apart {apart:.3}, together \
             {together:.3}; greedy apart {by_valid:.3}, together {by_valid_together:.3}"
        );
        assert!((known / bound - 1.0).abs() < 0.05);
        assert!(apart > 0.98 * bound && apart < 1.1 * bound);
        assert!(apart < 0.9 * together && by_valid < 0.97 * by_valid_together);
    }
}

/// What was found steady stays so: the mean of a long run's first third is that of its last.
#[test]
fn a_drive_that_is_called_steady_is_so_whatever_is_written() {
    let g = geometry(4, LUNS, 300, 16, 8);
    let sectors = Firmware::new(&g, 15.0, &FirmwareConfig::default(), &mut |_, _| false);
    let sectors = sectors.unwrap().sectors();
    for (name, load) in [
        ("uniform", Load::Uniform),
        ("80/20", Load::Zoned(80, 20)),
        ("90/10", Load::Zoned(90, 10)),
        ("zipf 0.9", Load::zipf(sectors, 0.9)),
        ("zipf 1.2", Load::zipf(sectors, 1.2)),
    ] {
        for (op, victim, hot_share) in [
            (15.0, Victim::Greedy, 0.0),
            (15.0, Victim::CostBenefit, 0.0),
            (15.0, Victim::CostBenefit, 20.0),
        ] {
            let config = FirmwareConfig { victim, hot_share, ..FirmwareConfig::default() };
            let mut ftl = Firmware::new(&g, op, &config, &mut |_, _| false).unwrap();
            let (mut stamps, mut rng) = (Stamps::default(), Rng::from_seed(9));
            ftl.fill(&mut stamps).unwrap();
            let mut next = |lpns: &mut [u32]| {
                lpns.fill_with(|| load.draw(&mut rng, sectors));
                Ok(())
            };
            let limits = WindowLimits::default();
            let aged = steady_by_overwriting(&mut ftl, &mut stamps, &mut next, limits).unwrap();
            assert!(aged.steady, "{name}");
            let mut third = || {
                let (before, mut lpns) = (*ftl.counters(), [0; 64]);
                for _ in 0..2 * sectors / 64 {
                    next(&mut lpns).unwrap();
                    ftl.overwrite(&mut stamps, &lpns).unwrap();
                }
                let c = ftl.counters().since(&before);
                1.0 + c.gc_sectors as f64 / c.user_sectors as f64
            };
            let [first, _, last] = [(); 3].map(|()| third());
            println!(
                "{name}, {op} %, {victim:?}, {hot_share} %: steady after {} windows, first third {first:.3}, last {last:.3}",
                aged.windows.len()
            );
            assert!(
                (first / last - 1.0).abs() < 0.03,
                "{name} {victim:?} {hot_share}: {first} {last}"
            );
        }
    }
}
