//! Random streams: xoshiro256++ seeded by SplitMix64 (Blackman and Vigna), one stream a component,
//! so that a draw added in one place never shifts another. Values are the same on every machine.

/// The seed of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seed(pub u64);

/// SplitMix64's output function applied to `x + golden gamma`.
pub fn splitmix64(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Seed {
    /// The stream of the component named by `path`, for example `"nand/fault"`.
    pub fn stream(self, path: &str) -> Rng {
        // FNV-1a, 64 bits.
        let hash = path.bytes().fold(0xCBF2_9CE4_8422_2325u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x100_0000_01B3)
        });
        Rng::from_seed(self.0 ^ hash)
    }
}

/// xoshiro256++.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rng {
    s: [u64; 4],
    draws: u64,
}

impl Rng {
    /// Equal seeds give equal streams.
    pub fn from_seed(seed: u64) -> Rng {
        let mut x = seed;
        let s = std::array::from_fn(|_| {
            let value = splitmix64(x);
            x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
            value
        });
        Rng { s, draws: 0 }
    }

    /// Where the stream is: what [`Rng::at`] goes on from.
    pub fn position(&self) -> [u64; 5] {
        let [a, b, c, d] = self.s;
        [a, b, c, d, self.draws]
    }
    /// The stream from there on.
    pub fn at([a, b, c, d, draws]: [u64; 5]) -> Rng {
        Rng { s: [a, b, c, d], draws }
    }

    /// Draws taken so far: compared between runs by the determinism test.
    pub fn draws(&self) -> u64 {
        self.draws
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.s;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        self.draws += 1;
        result
    }

    /// Uniform in `0..n`, by multiplication (Lemire); the bias is below n / 2^64.
    pub fn below(&mut self, n: u64) -> u64 {
        debug_assert!(n > 0);
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// One of these, each as likely.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// True with probability `per_billion` / 10^9. Integer, so that decisions do not hang on floats.
    pub fn chance(&mut self, per_billion: u64) -> bool {
        per_billion > 0 && self.below(1_000_000_000) < per_billion
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_matches_the_published_first_outputs_for_seed_zero() {
        // The first three values of SplitMix64 seeded with 0.
        let mut x = 0u64;
        let mut next = || {
            let v = splitmix64(x);
            x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
            v
        };
        assert_eq!(next(), 0xE220_A839_7B1D_CDAF);
        assert_eq!(next(), 0x6E78_9E6A_A1B9_65F4);
        assert_eq!(next(), 0x06C4_5D18_8009_454F);
    }

    #[test]
    fn random_streams_differ_by_name_and_repeat_by_seed() {
        let mut a = Seed(1).stream("nand/fault");
        let mut b = Seed(1).stream("nand/fault");
        let mut c = Seed(1).stream("nand/faults");
        let first = a.next_u64();
        assert_eq!(first, b.next_u64());
        assert_ne!(first, c.next_u64());
        assert_eq!(a.draws(), 1);
        let mut on = Rng::at(a.position());
        assert_eq!((on.next_u64(), on.draws()), (a.next_u64(), a.draws()));
    }

    #[test]
    fn numbers_below_a_bound_are_even() {
        let mut rng = Rng::from_seed(3);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[rng.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|&c| (9_500..10_500).contains(&c)), "{counts:?}");
    }
}
