//! Strides: LUNs that share parity in every stripe of a line (RAIL, sections 3.1 and 6.1).
//!
//! With N LUN positions and strides of S there are P = N / S strides. The published layout spreads
//! the members of a stride by modulo P: stride `s` is { s, s + P, s + 2P, .. }. If S does not divide
//! N the positions left over join the first strides, which are wider: 7 LUNs and S = 4 make one stride of 7. On drives whose channels
//! divide P all members of a stride share a channel; the skewed layout shifts each row by one.
//!
//! One parity unit is the XOR of the data units. With two, Q is the sum of g^row x data over GF(256)
//! with polynomial 0x11D and g = 2 (Anvin, "The mathematics of RAID-6"), a byte at a time; the
//! coefficient belongs to the member's row, so that a missing member moves no other's.

use crate::config::{FtlConfig, StrideLayout};
use wordline_nand::LunId;

/// A stride among those of a stripe.
pub(crate) type StrideId = u32;

/// Most members a stride can have: of the widest S, 16, and 15 positions left over it is 31.
pub(crate) const MEMBERS: usize = 32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Strides {
    /// LUN positions, from 0.
    pub luns: u32,
    pub width: u32,
    pub parities: u32,
    pub layout: StrideLayout,
    /// Strides of a stripe.
    pub count: u32,
}

impl Strides {
    /// Strides of the first `luns` LUNs; none without parity or with too few LUNs for one stride.
    pub fn new(luns: u32, c: &FtlConfig) -> Option<Strides> {
        (c.stride > 0 && luns >= c.stride).then(|| Strides {
            luns,
            width: c.stride,
            parities: c.parities,
            layout: c.stride_layout,
            count: luns / c.stride,
        })
    }
    pub fn row(&self, lun: LunId) -> u32 {
        lun / self.count
    }
    /// The stride of a LUN.
    #[inline]
    pub fn of(&self, lun: LunId) -> u32 {
        let (row, column) = (lun / self.count, lun % self.count);
        match self.layout {
            StrideLayout::Modulo => column,
            StrideLayout::Skewed => (column + self.count - row % self.count) % self.count,
        }
    }
    /// The LUNs of a stride, row by row.
    pub fn members(self, stride: StrideId) -> impl DoubleEndedIterator<Item = u32> {
        let rows = self.luns.div_ceil(self.count);
        let lun = move |row: u32| match self.layout {
            StrideLayout::Modulo => row * self.count + stride,
            StrideLayout::Skewed => row * self.count + (stride + row) % self.count,
        };
        (0..rows).map(lun).filter(move |&lun| lun < self.luns)
    }
    /// The LUN holds parity where no block is bad: the `parities` highest rows of each stride.
    pub fn is_fixed_parity(&self, lun: LunId) -> bool {
        let later = self.members(self.of(lun)).filter(|&other| other > lun).count();
        later < self.parities as usize
    }
}

/// Each byte times two.
fn double(word: u32) -> u32 {
    ((word & 0x7F7F_7F7F) << 1) ^ ((word >> 7 & 0x0101_0101) * 0x1D)
}
/// Each byte times g^row.
pub(crate) fn times_power(mut word: u32, row: u32) -> u32 {
    for _ in 0..row % 255 {
        word = double(word);
    }
    word
}
fn times(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b > 0 {
        if b & 1 == 1 {
            product ^= a;
        }
        a = (a << 1) ^ ((a >> 7) * 0x1D);
        b >>= 1;
    }
    product
}
fn times_word(word: u32, by: u8) -> u32 {
    u32::from_le_bytes(word.to_le_bytes().map(|byte| times(byte, by)))
}
fn power(row: u32) -> u8 {
    times_power(1, row) as u8
}
fn inverse(a: u8) -> u8 {
    // a^254 = 1 / a in a field of 256 elements.
    (0..254).fold(1, |product, _| times(product, a))
}

/// How missing members of a stride are computed from the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Equation {
    /// XOR of all others and P.
    P,
    /// From Q: P is not to be had.
    Q,
    /// From P and Q: the data member of this row is missing as well.
    Both(u32),
}

impl Equation {
    /// One word of the member of `row`: `p` is the XOR of P and the data members at hand, `q` the
    /// sum of Q and their multiples.
    pub fn solve(self, row: u32, p: u32, q: u32) -> u32 {
        match self {
            Equation::P => p,
            Equation::Q => times_word(q, inverse(power(row))),
            // p = x + y, q = g^row x + g^other y.
            Equation::Both(other) => {
                let sum = power(row) ^ power(other);
                times_word(times_word(p, power(other)) ^ q, inverse(sum))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Placement;
    use wordline_base::IdVec;

    fn strides(luns: u32, width: u32, layout: StrideLayout) -> Strides {
        let mut c = FtlConfig::new(Placement::Host, 12.0);
        (c.stride, c.stride_layout) = (width, layout);
        Strides::new(luns, &c).unwrap()
    }

    #[test]
    fn members_of_a_stride_lie_as_published() {
        let s = strides(128, 4, StrideLayout::Modulo);
        assert_eq!(s.count, 32);
        assert_eq!(s.members(5).collect::<Vec<_>>(), [5, 37, 69, 101]);
        assert!((0..128).all(|lun| s.is_fixed_parity(lun) == (lun >= 96)));
    }

    #[test]
    fn every_lun_is_in_exactly_one_stride_and_skewed_members_differ_in_channel() {
        for layout in [StrideLayout::Modulo, StrideLayout::Skewed] {
            for (luns, width) in [(128, 4), (128, 5), (128, 16), (8, 2), (7, 3), (96, 4), (5, 5)] {
                let s = strides(luns, width, layout);
                let mut seen: IdVec<LunId, u32> = IdVec::filled(0, luns);
                for stride in 0..s.count {
                    let members: Vec<_> = s.members(stride).collect();
                    assert!((width as usize..=width as usize + 1).contains(&members.len()));
                    assert!(members.is_sorted());
                    for lun in members {
                        assert_eq!(s.of(lun), stride, "{layout:?} {luns} {width}");
                        seen[lun] += 1;
                    }
                }
                assert!(seen.iter().all(|&n| n == 1));
            }
        }
        let s = strides(128, 4, StrideLayout::Skewed);
        let channels: Vec<_> = s.members(5).map(|lun| lun % 16).collect();
        assert_eq!(channels, [5, 6, 7, 8]);
    }

    #[test]
    fn any_two_missing_members_come_back() {
        let data = [0xDEAD_BEEF, 0, 7, 0xFFFF_FFFF, 0x1234_5678u32];
        let p = data.iter().fold(0, |p, d| p ^ d);
        let q = (0..5).fold(0, |q, i| q ^ times_power(data[i], i as u32));
        for i in 0..5 {
            let rest = |j: usize| data.iter().enumerate().filter(move |(k, _)| *k != i && *k != j);
            let xor = rest(i).fold(p, |p, (_, d)| p ^ d);
            assert_eq!(Equation::P.solve(i as u32, xor, 0), data[i]);
            let sum = rest(i).fold(q, |q, (k, &d)| q ^ times_power(d, k as u32));
            assert_eq!(Equation::Q.solve(i as u32, 0, sum), data[i]);
            for j in (0..5).filter(|&j| j != i) {
                let xor = rest(j).fold(p, |p, (_, d)| p ^ d);
                let sum = rest(j).fold(q, |q, (k, &d)| q ^ times_power(d, k as u32));
                assert_eq!(Equation::Both(j as u32).solve(i as u32, xor, sum), data[i]);
            }
        }
    }
}
