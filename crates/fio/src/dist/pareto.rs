//! fio's Pareto: `count * u^(ln h / ln(1 - h))`, scattered by the hash. A share `1 - h` of the
//! accesses goes to a share `h` of the blocks.

use super::power::Power;
use crate::hash::scatter;
use crate::rand::Taus88;

/// A Pareto distribution over the blocks `0..count`.
#[derive(Clone, Debug)]
pub struct Pareto {
    count: u64,
    power: Power,
    shift: u64,
    hashed: bool,
    rand: Taus88,
}

impl Pareto {
    /// `center` in 0..=1 places the hottest block; None puts it where the seed says.
    pub fn new(count: u64, h: f64, center: Option<f64>, seed: u32) -> Pareto {
        let mut rand = Taus88::new(u64::from(seed));
        let drawn = u64::from(rand.next_u32());
        let shift = center.map_or(drawn, |c| (count as f64 * c) as u64);
        let power = Power::new(count.saturating_sub(1) as f64, libm::log(h) / libm::log(1.0 - h));
        Pareto { count, power, shift, hashed: true, rand }
    }

    /// Ranks in order instead of scattered: how fio picks files.
    pub fn unhashed(mut self) -> Pareto {
        self.hashed = false;
        self
    }

    /// Draws anew from `seed`; every block keeps its share.
    pub fn reseed(&mut self, seed: u32) {
        self.rand = Taus88::new(u64::from(seed));
    }

    /// The next block.
    pub fn draw(&mut self) -> u64 {
        let uniform = f64::from(self.rand.next_u32()) / f64::from(u32::MAX);
        let rank = self.power.floor(uniform);
        let block = if self.hashed { scatter(rank) } else { rank };
        block.wrapping_add(self.shift) % self.count
    }
}
