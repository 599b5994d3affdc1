//! `floor(scale * x^exponent)` as [`libm::pow`] gives it, for less: the power is computed to some
//! 2^-42, which decides the floor unless the product is that close to a whole number. Then, and
//! where logarithm or power are out of range, libm is asked.

/// Logarithms are taken from the nearest of so many points of 1..2, powers of two from the nearest
/// of 0..1.
const LOG_BITS: u32 = 7;
const EXP_BITS: u32 = 6;
/// By point: the inverse of its middle, and the logarithm of that inverse's inverse.
static LOGS: [(f64, f64); 1 << LOG_BITS] = logs();
static EXPS: [f64; 1 << EXP_BITS] = exps();
const LN_2: f64 = core::f64::consts::LN_2;
/// Added and taken off, it rounds a number to a whole one, which then stands in its low bits.
const ROUND: f64 = (3u64 << 51) as f64;
/// Beyond this the power may be no normal number.
const Y_MAX: f64 = 600.0;
/// 2^-50.
const EPSILON: f64 = 4.0 * f64::EPSILON;

const fn logs() -> [(f64, f64); 1 << LOG_BITS] {
    let mut table = [(0.0, 0.0); 1 << LOG_BITS];
    let mut i = 0;
    while i < table.len() {
        let inverse = 1.0 / (1.0 + (i as f64 + 0.5) / table.len() as f64);
        // -ln v = 2 artanh s, with s below 1/3.
        let s = (1.0 - inverse) / (1.0 + inverse);
        let (mut sum, mut k) = (0.0, 41);
        while k > 0 {
            sum = sum * s * s + 1.0 / k as f64;
            k -= 2;
        }
        table[i] = (inverse, 2.0 * s * sum);
        i += 1;
    }
    table
}

const fn exps() -> [f64; 1 << EXP_BITS] {
    let mut table = [0.0; 1 << EXP_BITS];
    let mut i = 0;
    while i < table.len() {
        let x = LN_2 * i as f64 / table.len() as f64;
        let (mut sum, mut k) = (1.0, 24);
        while k > 0 {
            sum = 1.0 + sum * x / k as f64;
            k -= 1;
        }
        table[i] = sum;
        i += 1;
    }
    table
}

#[derive(Clone, Debug)]
pub struct Power {
    scale: f64,
    exponent: f64,
    /// How far `exponent * ln x` is off at most, but for what grows with it.
    off: f64,
}

impl Power {
    pub fn new(scale: f64, exponent: f64) -> Power {
        // A logarithm is off by the table's two roundings, those of the sum and the series' rest: less
        // than 2^-50 and two roundings of its own. 16: the power's series, table and product.
        Power { scale, exponent, off: (32.0 * exponent.abs() + 16.0) * EPSILON }
    }

    #[inline]
    pub fn floor(&self, x: f64) -> u64 {
        if (f64::MIN_POSITIVE..=1.0).contains(&x) {
            let y = self.exponent * ln(x);
            if y.abs() < Y_MAX {
                let product = self.scale * exp(y);
                let floor = product as u64;
                let part = product - floor as f64;
                // Each of y's factors and terms is rounded, and so is what exp takes off it.
                let off = product * (self.off + 2.0 * y.abs() * EPSILON);
                if part > off && part < 1.0 - off {
                    return floor;
                }
            }
        }
        self.exactly(x)
    }
    #[cold]
    fn exactly(&self, x: f64) -> u64 {
        (self.scale * libm::pow(x, self.exponent)) as u64
    }
}

/// The natural logarithm of a normal number above zero.
#[inline]
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = (bits >> 52) as i32 - 1023;
    let (inverse, log) = LOGS[(bits >> (52 - LOG_BITS)) as usize % (1 << LOG_BITS)];
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    // |r| < 2^-8: the next term is below 2^-58.
    let r = mantissa * inverse - 1.0;
    let low = r * r * (-1.0 / 2.0 + r * (1.0 / 3.0));
    let high = r * r * r * r * (-1.0 / 4.0 + r * (1.0 / 5.0 + r * (-1.0 / 6.0)));
    f64::from(exponent) * LN_2 + (log + (r + (low + high)))
}

/// The exponential of a number between -`Y_MAX` and `Y_MAX`.
#[inline]
fn exp(y: f64) -> f64 {
    const STEP: f64 = LN_2 / (1 << EXP_BITS) as f64;
    let shifted = y * (1.0 / STEP) + ROUND;
    let steps = shifted.to_bits() as i32;
    // |r| <= 2^-7.5: the next term is below 2^-54.
    let r = y - (shifted - ROUND) * STEP;
    let series = r + r * r * (1.0 / 2.0 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0))));
    let root = EXPS[steps as usize % (1 << EXP_BITS)];
    let power = f64::from_bits(((steps >> EXP_BITS) + 1023) as u64 * (1 << 52));
    power * (root + root * series)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::rng::Rng;

    #[test]
    fn rounded_powers_are_those_of_libm() {
        let mut rng = Rng::from_seed(5);
        let exponents = [5.000000000000001, 0.2, 1.25, 2.0, 10.0, 100.0, 1000.0, -0.5, -5.0, 7.3e4];
        for exponent in exponents {
            for scale in [1.0, 1000.0, 4.1e8, 3e12] {
                let power = Power::new(scale, exponent);
                for _ in 0..100_000 {
                    let uniform = rng.below(1 << 32) as f64 / f64::from(u32::MAX);
                    let x = if rng.below(2) == 0 { uniform } else { 1.0 - 0.3 * uniform };
                    assert_eq!(power.floor(x), power.exactly(x), "{scale} {x:e}^{exponent}");
                }
                for x in [0.0, 1.0, 0.5, 0.25, -0.1, 1.5, 1e-310, f64::MIN_POSITIVE, 1.0 - 1e-16] {
                    assert_eq!(power.floor(x), power.exactly(x), "{scale} {x:e}^{exponent}");
                }
            }
        }
    }

    /// The margin that is asked for is many times what is needed.
    #[test]
    fn errors_are_below_what_is_allowed_for() {
        let mut rng = Rng::from_seed(6);
        for exponent in [5.000000000000001, 0.2, 100.0, -5.0] {
            let power = Power::new(1.0, exponent);
            for _ in 0..300_000 {
                let x = (1.0 + rng.below(1 << 32) as f64) / (1u64 << 32) as f64;
                let (y, exact) = (exponent * ln(x), libm::pow(x, exponent));
                if y.abs() < Y_MAX {
                    let off = (exp(y) / exact - 1.0).abs();
                    let allowed = power.off + 2.0 * y.abs() * EPSILON;
                    assert!(off < allowed / 4.0, "{x:e}^{exponent}: {off:e} of {allowed:e}");
                }
            }
        }
    }
}
