//! Write amplification of uniform random writes by how victims are chosen, in lines of many sectors.
//!
//! A closed line that was written `t` ago has the share exp(-t) in use, `t` in writes of the users over their sectors.
//! So age alone tells what is left of a line. alpha is the physical over the logical capacity.

use super::fifo_write_amplification;
use wordline_ftl::{FtlConfig, VictimPolicy};

/// How victims are chosen, as far as a form can tell one way from another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chosen {
    /// The oldest, which has the least in use: every policy that goes by age or by what is in use. Where lines are of
    /// few sectors the least in use is somewhat less than what the oldest has.
    Oldest,
    /// The least in use of so many drawn at random.
    Drawn(u32),
}

impl Chosen {
    /// Of pblk's collector, or of another one, which goes by what is in use.
    pub fn by(ftl: &FtlConfig) -> Chosen {
        match ftl.victim {
            _ if ftl.firmware.is_some() || ftl.fssd.is_some() => Chosen::Oldest,
            VictimPolicy::Random => Chosen::Drawn(1),
            VictimPolicy::DChoices => Chosen::Drawn(ftl.d_choices.max(1)),
            VictimPolicy::Greedy
            | VictimPolicy::CostBenefit
            | VictimPolicy::Fifo
            | VictimPolicy::WindowedGreedy => Chosen::Oldest,
        }
    }
    /// Of uniform random writes, by the form of these victims.
    pub fn write_amplification(self, alpha: f64) -> f64 {
        match self {
            Chosen::Oldest => fifo_write_amplification(alpha),
            Chosen::Drawn(1) => 1.0 / (1.0 - 1.0 / alpha).max(1e-4),
            Chosen::Drawn(d) => drawn_write_amplification(alpha, d),
        }
    }
}

/// WA when the victim is the one with the least in use of `d` lines drawn at random, in the mean field of many lines (Van
/// Houdt, SIGMETRICS 2013).
///
/// Of the lines a share F(t) is older than t. The oldest of `d` of them is older with chance 1 - (1 - F)^d, and each
/// victim is a line less of those, so that F' = -s (1 - (1 - F)^d) with s = WA / alpha. What lines have in use comes to
/// what users have: alpha times the mean of exp(-t) over all lines is 1. With h(F) the integral of
/// dq / (1 - (1 - q)^d) from F to 1, a line at F has the age h(F) / s.
pub fn drawn_write_amplification(alpha: f64, d: u32) -> f64 {
    /// Steps in -ln F, and their number: behind it are e^-40 of the lines.
    const STEP: f64 = 0.05;
    const STEPS: u32 = 800;
    // Ages times s, and the share of the lines that have it.
    let mut h = 0.0;
    let lines: Vec<(f64, f64)> = (0..STEPS)
        .map(|i| {
            let q = (-(f64::from(i) + 0.5) * STEP).exp();
            let share = 2.0 * q * (STEP / 2.0).sinh();
            // 1 - (1 - q)^d, also where q is small.
            let taken = -(f64::from(d) * (-q).ln_1p()).exp_m1();
            let part = share / taken;
            h += part;
            (h - part / 2.0, share)
        })
        .collect();
    let in_use = |s: f64| lines.iter().map(|(h, share)| share * (-h / s).exp()).sum::<f64>();
    // The faster lines go, the younger they are, and the more they have in use.
    let (mut low, mut high) = (1.0 / alpha, 1e4 / alpha);
    while high > low * (1.0 + 1e-9) {
        let s = (low * high).sqrt();
        match in_use(s) < 1.0 / alpha {
            true => low = s,
            false => high = s,
        }
    }
    (low * alpha).min(1e4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One drawn is any line, and the least of very many is the oldest. Between them more choices are always less.
    #[test]
    fn choices_lie_between_random_victims_and_the_oldest() {
        for alpha in [1.05, 1.2, 1.35, 2.0] {
            let of = |chosen: Chosen| chosen.write_amplification(alpha);
            let (random, oldest) = (of(Chosen::Drawn(1)), of(Chosen::Oldest));
            assert!((random / (alpha / (alpha - 1.0)) - 1.0).abs() < 1e-9);
            let form = drawn_write_amplification(alpha, 1);
            assert!((form / random - 1.0).abs() < 1e-3, "{alpha}: {form} and {random}");
            let all = of(Chosen::Drawn(100_000));
            assert!((all / oldest - 1.0).abs() < 1e-3, "{alpha}: {all} and {oldest}");
            let drawn = [1, 2, 3, 5, 10, 30, 1000].map(|d| of(Chosen::Drawn(d)));
            assert!(drawn.is_sorted_by(|a, b| a > b), "{alpha}: {drawn:?}");
        }
    }
}
