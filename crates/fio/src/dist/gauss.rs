//! fio's normal distribution: the mean of twelve uniform draws, plus a uniform deviation of the
//! width asked for, scattered by the hash.

use crate::hash::scatter;
use crate::rand::Taus88;

const DRAWS: u64 = 12;

/// A normal distribution over the blocks `0..count`.
#[derive(Clone, Debug)]
pub struct Gauss {
    count: u64,
    /// Width of the deviation, in blocks.
    deviation: u32,
    shift: u32,
    hashed: bool,
    rand: Taus88,
}

impl Gauss {
    /// `percent` is the deviation as a share of the range; `center` in 0..=1 moves the middle.
    pub fn new(count: u64, percent: f64, center: Option<f64>, seed: u32) -> Gauss {
        let mut deviation = 0;
        if percent != 0.0 {
            deviation = (count as f64 * percent / 100.0).ceil() as u32;
            if u64::from(deviation) > count / 2 {
                deviation = (count / 2) as u32;
            }
        }
        // A centre below the middle is a negative shift: fio keeps its low 32 bits.
        let shift = center.map_or(0, |c| (count as f64 * (c - 0.5)) as i64 as u32);
        Gauss { count, deviation, shift, hashed: true, rand: Taus88::new(u64::from(seed)) }
    }

    /// Ranks in order instead of scattered: how fio picks files.
    pub fn unhashed(mut self) -> Gauss {
        self.hashed = false;
        self
    }

    /// Draws anew from `seed`; every block keeps its share.
    pub fn reseed(&mut self, seed: u32) {
        self.rand = Taus88::new(u64::from(seed));
    }

    /// The next block.
    pub fn draw(&mut self) -> u64 {
        let sum: u64 =
            (0..DRAWS).map(|_| u64::from(self.rand.next_u32()) % self.count.wrapping_add(1)).sum();
        let mut block = sum.div_ceil(DRAWS);
        if self.deviation != 0 {
            let width = f64::from(self.deviation);
            let drawn = (width * (f64::from(self.rand.next_u32()) / 4_294_967_296.0)) as i32;
            let mut by = i64::from(drawn.wrapping_sub((self.deviation / 2) as i32));
            // Halved until the sum lies inside; zero ends it where fio would turn for ever.
            while by != 0 && block.wrapping_add_signed(by) >= self.count {
                by /= 2;
            }
            block = block.wrapping_add_signed(by);
        }
        let block = if self.hashed { scatter(block) } else { block };
        block.wrapping_add(u64::from(self.shift)) % self.count
    }
}
