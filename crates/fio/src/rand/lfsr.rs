//! A maximal-length linear-feedback shift register in XNOR form, so that zero is a state and all
//! ones is not. It visits every block once without a map; values beyond the range are skipped.

/// Feedback taps by register length, 3 to 63 bits (the well-known tables of maximal-length taps).
const TAPS: [&[u32]; 61] = [
    &[3, 2],
    &[4, 3],
    &[5, 3],
    &[6, 5],
    &[7, 6],
    &[8, 6, 5, 4],
    &[9, 5],
    &[10, 7],
    &[11, 9],
    &[12, 6, 4, 1],
    &[13, 4, 3, 1],
    &[14, 5, 3, 1],
    &[15, 14],
    &[16, 15, 13, 4],
    &[17, 14],
    &[18, 11],
    &[19, 6, 2, 1],
    &[20, 17],
    &[21, 19],
    &[22, 21],
    &[23, 18],
    &[24, 23, 22, 17],
    &[25, 22],
    &[26, 6, 2, 1],
    &[27, 5, 2, 1],
    &[28, 25],
    &[29, 27],
    &[30, 6, 4, 1],
    &[31, 28],
    &[32, 31, 29, 1],
    &[33, 20],
    &[34, 27, 2, 1],
    &[35, 33],
    &[36, 25],
    &[37, 5, 4, 3, 2, 1],
    &[38, 6, 5, 1],
    &[39, 35],
    &[40, 38, 21, 19],
    &[41, 38],
    &[42, 41, 20, 19],
    &[43, 42, 38, 37],
    &[44, 43, 18, 17],
    &[45, 44, 42, 41],
    &[46, 45, 26, 25],
    &[47, 42],
    &[48, 47, 21, 20],
    &[49, 40],
    &[50, 49, 24, 23],
    &[51, 50, 36, 35],
    &[52, 49],
    &[53, 52, 38, 37],
    &[54, 53, 18, 17],
    &[55, 31],
    &[56, 55, 35, 34],
    &[57, 50],
    &[58, 39],
    &[59, 58, 38, 37],
    &[60, 59],
    &[61, 60, 46, 45],
    &[62, 61, 6, 5],
    &[63, 62],
];

/// fio always runs its register with spin 0: every step is a single shift. Its bookkeeping of
/// shorter cycles, which do not exist then, leaves one trace: the very first step is a double one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lfsr {
    xnor_mask: u64,
    top_bit: u64,
    last: u64,
    max: u64,
    drawn: u64,
    /// No value was drawn yet; a reset does not bring this back.
    untouched: bool,
}

impl Lfsr {
    /// A register over `0..count`. None if `count` is zero or does not fit 62 bits, or if the seed
    /// is the one forbidden state.
    pub fn new(count: u64, seed: u64) -> Option<Lfsr> {
        if count == 0 {
            return None;
        }
        let taps = TAPS.iter().find(|taps| 1u64 << taps[0] > count)?;
        let mut lfsr = Lfsr {
            xnor_mask: taps.iter().fold(0, |mask, tap| mask | 1 << (tap - 1)),
            top_bit: 1 << (taps[0] - 1),
            last: 0,
            max: count - 1,
            drawn: 0,
            untouched: true,
        };
        lfsr.reset(seed).then_some(lfsr)
    }

    /// Starts over from `seed`; false if that is the forbidden state.
    pub fn reset(&mut self, seed: u64) -> bool {
        let all_ones = (self.top_bit << 1).wrapping_sub(1);
        self.drawn = 0;
        self.last = seed & all_ones;
        self.last != all_ones
    }

    #[inline]
    fn shift(&mut self) {
        let feedback = if self.last & 1 == 0 { self.xnor_mask } else { 0 };
        self.last = ((self.last >> 1) | self.top_bit) ^ feedback;
    }

    /// The next value, or None once every value has been drawn.
    #[inline]
    pub fn draw(&mut self) -> Option<u64> {
        if self.drawn > self.max {
            self.drawn = self.drawn.saturating_add(1);
            return None;
        }
        self.drawn += 1;
        if std::mem::take(&mut self.untouched) {
            self.shift();
        }
        loop {
            self.shift();
            if self.last <= self.max {
                return Some(self.last);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_lfsr_visits_every_value_once() {
        for count in [1u64, 2, 7, 8, 100, 255, 256, 4_096, 70_000] {
            let mut lfsr = Lfsr::new(count, 12_345).expect("a legal seed");
            let mut seen = vec![false; count as usize];
            for _ in 0..count {
                let value = lfsr.draw().expect("still some left") as usize;
                assert!(!std::mem::replace(&mut seen[value], true), "{count}: {value} twice");
            }
            assert_eq!(lfsr.draw(), None);
        }
    }

    #[test]
    fn an_lfsr_refuses_the_state_that_it_never_leaves() {
        assert_eq!(Lfsr::new(5, 7), None);
        assert_eq!(Lfsr::new(0, 1), None);
        assert_eq!(Lfsr::new(u64::MAX, 1), None);
    }
}
