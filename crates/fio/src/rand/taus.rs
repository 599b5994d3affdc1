//! Combined Tausworthe generators: taus88 (P. L'Ecuyer, "Maximally equidistributed combined
//! Tausworthe generators", Math. Comp. 65, 1996) and the 64-bit taus258 (the same author's tables,
//! Math. Comp. 68, 1999), with the linear-congruential seeding and six warm-up steps of fio.

/// 2 xor 31, 2 xor 17 and 2 xor 7, added: fio's seeding writes `^` where a power was meant, and the
/// sequence depends on it.
const SEED_START: u64 = 29 + 19 + 5;
const WARM_UP: u32 = 6;
const TWO_32: f64 = 4_294_967_296.0;
const TWO_64: f64 = TWO_32 * TWO_32;

/// Lifts a component above the bound below which its recurrence degenerates.
fn at_least(value: u64, bound: u64) -> u64 {
    if value < bound { value + bound } else { value }
}

/// The 32-bit generator, period about 2^88.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taus88 {
    s: [u32; 3],
}

impl Taus88 {
    /// Only the low 32 bits of a seed count.
    pub fn new(seed: u64) -> Taus88 {
        let seed = seed as u32;
        let step = |x: u32| x.wrapping_mul(69_069) ^ seed;
        let s1 = at_least(u64::from(step(SEED_START as u32)), 1) as u32;
        let s2 = at_least(u64::from(step(s1)), 7) as u32;
        let s3 = at_least(u64::from(step(s2)), 15) as u32;
        let mut taus = Taus88 { s: [s1, s2, s3] };
        for _ in 0..WARM_UP {
            taus.next_u32();
        }
        taus
    }

    /// The next value.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        let [a, b, c] = self.s;
        self.s = [
            ((a & !1) << 12) ^ (((a << 13) ^ a) >> 19),
            ((b & !7) << 4) ^ (((b << 2) ^ b) >> 25),
            ((c & !15) << 17) ^ (((c << 3) ^ c) >> 11),
        ];
        self.s[0] ^ self.s[1] ^ self.s[2]
    }
}

/// The 64-bit generator, period about 2^258.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taus258 {
    s: [u64; 5],
}

impl Taus258 {
    /// Seeded as fio seeds it, with its first values thrown away.
    pub fn new(seed: u64) -> Taus258 {
        let step = |x: u64| x.wrapping_mul(6_906_969_069) ^ seed;
        let mut s = [0; 5];
        let mut last = SEED_START;
        for (component, bound) in s.iter_mut().zip([1, 7, 15, 33, 49]) {
            last = at_least(step(last), bound);
            *component = last;
        }
        let mut taus = Taus258 { s };
        for _ in 0..WARM_UP {
            taus.next_u64();
        }
        taus
    }

    /// The next value.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        // (feedback shift, right shift, mask, left shift) of each component.
        const STEPS: [(u32, u32, u64, u32); 5] = [
            (1, 53, !0x1, 10),
            (24, 50, !0x1FF, 5),
            (3, 23, !0xFFF, 29),
            (5, 24, !0x1_FFFF, 23),
            (3, 33, !0x7F_FFFF, 8),
        ];
        let mut out = 0;
        for (s, (feedback, right, mask, left)) in self.s.iter_mut().zip(STEPS) {
            *s = ((*s & mask) << left) ^ (((*s << feedback) ^ *s) >> right);
            out ^= *s;
        }
        out
    }
}

/// Either generator behind one face, as fio's streams are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Taus {
    /// For sequences of `random_generator=tausworthe`.
    Bits32(Taus88),
    /// For those of `tausworthe64`.
    Bits64(Taus258),
}

impl Taus {
    /// `wide`: the 64-bit one.
    pub fn new(seed: u64, wide: bool) -> Taus {
        if wide { Taus::Bits64(Taus258::new(seed)) } else { Taus::Bits32(Taus88::new(seed)) }
    }

    /// The next value: 32 or 64 bits wide.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        match self {
            Taus::Bits32(t) => u64::from(t.next_u32()),
            Taus::Bits64(t) => t.next_u64(),
        }
    }

    /// The largest value [`Taus::draw`] can return.
    #[inline]
    pub fn max(&self) -> u64 {
        match self {
            Taus::Bits32(_) => u64::from(u32::MAX),
            Taus::Bits64(_) => u64::MAX,
        }
    }

    /// A draw divided by the number of possible values. The 64-bit form can round up to 1.
    #[inline]
    pub fn fraction(&mut self) -> f64 {
        match self {
            Taus::Bits32(t) => f64::from(t.next_u32()) / TWO_32,
            Taus::Bits64(t) => t.next_u64() as f64 / TWO_64,
        }
    }

    /// In (0, 1]: what a logarithm can take.
    pub fn fraction_above_zero(&mut self) -> f64 {
        match self {
            Taus::Bits32(t) => (f64::from(t.next_u32()) + 1.0) / TWO_32,
            Taus::Bits64(t) => (t.next_u64() as f64 + 1.0) / TWO_64,
        }
    }

    /// Between `low` and `high`, both included. The 32-bit generator takes the range modulo 2^32.
    #[inline]
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        let span = high.wrapping_sub(low);
        match self {
            Taus::Bits32(t) => {
                let values = (span as u32).wrapping_add(1);
                low.wrapping_add((f64::from(values) * (f64::from(t.next_u32()) / TWO_32)) as u64)
            }
            Taus::Bits64(t) => {
                let values = span.wrapping_add(1);
                low.wrapping_add((values as f64 * (t.next_u64() as f64 / TWO_64)) as u64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_stay_in_range_and_are_even() {
        let mut taus = Taus::new(7, false);
        let mut counts = [0u32; 101];
        for _ in 0..100_000 {
            counts[taus.between(1, 100) as usize] += 1;
        }
        assert_eq!(counts[0], 0);
        assert!(counts[1..].iter().all(|&c| (800..1_200).contains(&c)), "{counts:?}");
    }

    #[test]
    fn different_seeds_draw_different_numbers() {
        assert_ne!(Taus::new(1, false).draw(), Taus::new(2, false).draw());
        assert_ne!(Taus::new(1, true).draw(), Taus::new(2, true).draw());
        assert_eq!(Taus::new(1, true).max(), u64::MAX);
    }
}
