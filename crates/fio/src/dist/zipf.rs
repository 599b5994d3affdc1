//! Zipf by inversion (J. Gray et al., "Quickly generating billion-record synthetic databases",
//! SIGMOD 1994), with fio's scatter hash. Zeta is summed over at most ten million ranks.

use super::power::Power;
use crate::hash::scatter;
use crate::rand::Taus88;
use std::collections::BTreeMap;

/// fio stops the sum here: more ranks cost seconds and change little.
const ZETA_RANKS_MAX: u64 = 10_000_000;

/// Zeta by (ranks, theta): it is the same for all clones of a job and takes long to sum.
#[derive(Clone, Default, Debug)]
pub struct ZetanCache {
    sums: BTreeMap<(u64, u64), f64>,
}

impl ZetanCache {
    fn zetan(&mut self, ranks: u64, theta: f64) -> f64 {
        *self
            .sums
            .entry((ranks, theta.to_bits()))
            .or_insert_with(|| (0..ranks).map(|i| libm::pow(1.0 / (i + 1) as f64, theta)).sum())
    }
}

/// Draws blocks in `0..count`, rank r with weight 1 / r^theta.
#[derive(Clone, Debug)]
pub struct Zipf {
    count: u64,
    theta: f64,
    zetan: f64,
    power: Power,
    eta: f64,
    half_theta: f64,
    shift: u64,
    hashed: bool,
    rand: Taus88,
}

impl Zipf {
    /// `center` in 0..=1 places the hottest block; None puts it where the seed says.
    pub fn new(
        count: u64,
        theta: f64,
        center: Option<f64>,
        seed: u32,
        cache: &mut ZetanCache,
    ) -> Zipf {
        let mut rand = Taus88::new(u64::from(seed));
        let drawn = u64::from(rand.next_u32());
        let shift = center.map_or(drawn, |c| (count as f64 * c) as u64);
        let zetan = cache.zetan(count.min(ZETA_RANKS_MAX), theta);
        let half_theta = libm::pow(0.5, theta);
        let zeta2 = 1.0 + half_theta;
        Zipf {
            count,
            theta,
            zetan,
            power: Power::new(count as f64, 1.0 / (1.0 - theta)),
            eta: (1.0 - libm::pow(2.0 / count as f64, 1.0 - theta)) / (1.0 - zeta2 / zetan),
            half_theta,
            shift,
            hashed: true,
            rand,
        }
    }

    /// Ranks in order instead of scattered: how fio picks files.
    pub fn unhashed(mut self) -> Zipf {
        self.hashed = false;
        self
    }

    /// The exponent: rank r is drawn as often as 1/r^theta says.
    pub fn theta(&self) -> f64 {
        self.theta
    }

    /// Draws anew from `seed`; every block keeps its share.
    pub fn reseed(&mut self, seed: u32) {
        self.rand = Taus88::new(u64::from(seed));
    }

    /// The next block.
    pub fn draw(&mut self) -> u64 {
        let uniform = f64::from(self.rand.next_u32()) / f64::from(u32::MAX);
        let z = uniform * self.zetan;
        let rank = if z < 1.0 {
            0
        } else if z < 1.0 + self.half_theta {
            1
        } else {
            self.power.floor(self.eta * uniform - self.eta + 1.0)
        };
        let block = if self.hashed { scatter(rank) } else { rank };
        block.wrapping_add(self.shift) % self.count
    }
}
