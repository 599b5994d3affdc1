//! fio's latency histogram: 64 linear buckets in each of 29 groups, bucket width doubling from the
//! third group on, so a value is known to within 1/128. Merging is exact.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// log2 of the buckets in a group.
pub const GROUP_BITS: u32 = 6;
/// Groups of buckets.
pub const GROUPS: usize = 29;
/// All buckets. Values beyond the last are in it.
pub const BUCKETS: usize = GROUPS << GROUP_BITS;

/// Counts of nanosecond values, with exact count, sum, minimum, maximum and sum of squares.
#[derive(Clone, PartialEq, Debug)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    n: u64,
    sum: u128,
    sum_squares: f64,
    min: u64,
    max: u64,
}

/// `count`, `min`, `max`, `mean`, `stddev`, all 0 when empty, and `buckets`: pairs of a bucket's midpoint and
/// its count, ascending. All but counts are in the unit of the values, nanoseconds for latencies.
impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut out = s.serialize_struct("Histogram", 6)?;
        out.serialize_field("count", &self.n)?;
        out.serialize_field("min", &self.min())?;
        out.serialize_field("max", &self.max)?;
        out.serialize_field("mean", &self.mean())?;
        out.serialize_field("stddev", &self.stddev())?;
        let buckets: Vec<_> = self.buckets().map(|(bucket, n)| (midpoint(bucket), n)).collect();
        out.serialize_field("buckets", &buckets)?;
        out.end()
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram::new()
    }
}

/// The bucket of a value.
#[inline]
pub fn bucket_of(value: u64) -> usize {
    // Lowest bits that do not tell: none in the first two groups.
    let error_bits = (value | 1 << GROUP_BITS).ilog2() - GROUP_BITS;
    let bucket = ((error_bits as usize) << GROUP_BITS) + (value >> error_bits) as usize;
    bucket.min(BUCKETS - 1)
}

/// The value fio reports for a bucket: its midpoint.
pub fn midpoint(bucket: usize) -> u64 {
    if bucket < 1 << (GROUP_BITS + 1) {
        return bucket as u64;
    }
    let error_bits = (bucket >> GROUP_BITS) as u32 - 1;
    let k = (bucket & ((1 << GROUP_BITS) - 1)) as u64;
    (1u64 << (error_bits + GROUP_BITS)) + (k << error_bits) + (1u64 << error_bits >> 1)
}

/// The least value in a bucket.
pub fn least(bucket: usize) -> u64 {
    if bucket < 1 << (GROUP_BITS + 1) {
        return bucket as u64;
    }
    let error_bits = (bucket >> GROUP_BITS) as u32 - 1;
    let k = (bucket & ((1 << GROUP_BITS) - 1)) as u64;
    (1u64 << (error_bits + GROUP_BITS)) + (k << error_bits)
}

impl Histogram {
    /// Of nothing.
    pub fn new() -> Histogram {
        Histogram {
            counts: Box::new([0; BUCKETS]),
            n: 0,
            sum: 0,
            sum_squares: 0.0,
            min: u64::MAX,
            max: 0,
        }
    }

    /// Counts a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.place(value);
    }
    /// Counts a value. Answers its bucket.
    #[inline]
    pub fn place(&mut self, value: u64) -> usize {
        let bucket = bucket_of(value);
        self.counts[bucket] += 1;
        self.n += 1;
        self.sum += u128::from(value);
        // Signed: that conversion is one instruction, and nobody waits for 292 years.
        let real = value as i64 as f64;
        self.sum_squares += real * real;
        // Seldom, after the first few.
        if value < self.min {
            self.min = value;
        }
        if value > self.max {
            self.max = value;
        }
        bucket
    }

    /// Counts all that `other` did, as if its values had come here.
    pub fn merge(&mut self, other: &Histogram) {
        for (a, b) in self.counts.iter_mut().zip(&*other.counts) {
            *a += b;
        }
        self.n += other.n;
        self.sum += other.sum;
        self.sum_squares += other.sum_squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Values counted.
    pub fn len(&self) -> u64 {
        self.n
    }
    /// Nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }
    /// Exact sum of the values.
    pub fn sum(&self) -> u128 {
        self.sum
    }
    /// The least value, exactly; 0 when empty.
    pub fn min(&self) -> u64 {
        if self.n == 0 { 0 } else { self.min }
    }
    /// The greatest value, exactly; 0 when empty.
    pub fn max(&self) -> u64 {
        self.max
    }
    /// Exact mean; 0 when empty.
    pub fn mean(&self) -> f64 {
        if self.n == 0 { 0.0 } else { self.sum as f64 / self.n as f64 }
    }
    /// Sample standard deviation (n - 1), as fio reports it.
    pub fn stddev(&self) -> f64 {
        if self.n < 2 {
            return 0.0;
        }
        let n = self.n as f64;
        let mean = self.mean();
        ((self.sum_squares - n * mean * mean).max(0.0) / (n - 1.0)).sqrt()
    }

    /// The buckets that hold something: (bucket, count), ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.counts.iter().copied().enumerate().filter(|&(_, c)| c > 0)
    }

    /// The bucket of the `percent`-th percentile, by fio's rule: the first bucket whose cumulative
    /// count reaches percent/100 of all.
    pub fn percentile_bucket(&self, percent: f64) -> Option<usize> {
        if self.n == 0 {
            return None;
        }
        let wanted = rank(percent, self.n);
        let mut seen = 0;
        let mut last = 0;
        for (bucket, count) in self.buckets() {
            seen += count;
            last = bucket;
            if seen >= wanted {
                return Some(bucket);
            }
        }
        Some(last)
    }

    /// Whether a value lies beyond the percentile: where none does it is the greatest, and no percentile.
    pub fn reaches(&self, percent: f64) -> bool {
        // A part of 1e-9 is rounding.
        self.n as f64 * (1.0 - percent / 100.0) >= 1.0 - 1e-9
    }
    /// The midpoint of the percentile's bucket, not beyond the least and the greatest value; 0 when empty.
    pub fn percentile(&self, percent: f64) -> u64 {
        self.percentile_bucket(percent).map_or(0, |b| midpoint(b).max(self.min()).min(self.max()))
    }
}

/// A positive number as the x87 `long double` holds it: 64 bits of mantissa times a power of two.
/// fio computes percentiles in it, and its rounding decides which bucket an exact hit falls into.
#[derive(Clone, Copy)]
struct Extended {
    mantissa: u64,
    exponent: i32,
}

impl Extended {
    /// Rounds to nearest, ties to even.
    fn round(value: u128, exponent: i32) -> Extended {
        let bits = 128 - value.leading_zeros() as i32;
        if bits <= 64 {
            return Extended { mantissa: value as u64, exponent };
        }
        let drop = bits - 64;
        let (mut kept, rest) = (value >> drop, value & ((1 << drop) - 1));
        let half = 1u128 << (drop - 1);
        if rest > half || rest == half && kept & 1 == 1 {
            kept += 1;
        }
        if kept >> 64 == 1 {
            return Extended { mantissa: (kept >> 1) as u64, exponent: exponent + drop + 1 };
        }
        Extended { mantissa: kept as u64, exponent: exponent + drop }
    }

    /// percent x 0.01 x n, each step rounded: fio is built with -ffast-math, which makes the division
    /// by 100 a product.
    fn of_percent(percent: f64, n: u64) -> Extended {
        /// 0.01 in 64 bits: times 2^-70.
        const HUNDREDTH: u128 = 0xA3D7_0A3D_70A3_D70A;
        let bits = percent.abs().to_bits();
        let (mantissa, exponent) = match (bits >> 52) as i32 {
            0 => (bits & ((1 << 52) - 1), -1074),
            e => (bits & ((1 << 52) - 1) | 1 << 52, e - 1075),
        };
        let part = Extended::round(u128::from(mantissa) * HUNDREDTH, exponent - 70);
        Extended::round(u128::from(part.mantissa) * u128::from(n), part.exponent)
    }

    /// The least whole number that is not below it.
    fn up(self) -> u64 {
        match self.exponent {
            e if e > self.mantissa.leading_zeros() as i32 => u64::MAX,
            e @ 0.. => self.mantissa << e,
            e @ -63..0 => ((u128::from(self.mantissa) + (1 << -e) - 1) >> -e) as u64,
            _ => u64::from(self.mantissa > 0),
        }
    }
}

/// So many values the `percent`-th percentile needs: one lies beyond it. Of fewer it would be the largest.
pub fn least_for(percent: f64) -> u64 {
    // 100 - 99.9 is a bit more than 0.1; 100 % is the largest by its name.
    if percent >= 100.0 { 1 } else { (100.0 / (100.0 - percent) - 1e-6).ceil() as u64 }
}

/// So many of `n` values are at most at the `percent`-th percentile, by fio's rule.
pub fn rank(percent: f64, n: u64) -> u64 {
    Extended::of_percent(percent, n).up()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_one_value_beyond() {
        for (percent, n) in [(0.0, 1), (50.0, 2), (99.0, 100), (99.9, 1_000), (99.99, 10_000)] {
            assert_eq!(least_for(percent), n, "{percent}");
        }
        let more = [(99.999, 100_000), (99.9999, 1_000_000), (95.0, 20), (99.5, 200), (100.0, 1)];
        assert_eq!(more.map(|(percent, _)| least_for(percent)), more.map(|(_, n)| n));
    }

    #[test]
    fn buckets_are_contiguous_and_midpoints_lie_inside() {
        let mut last = 0;
        for value in
            (0..1 << 14).chain((14..34).flat_map(|s| [(1u64 << s) - 1, 1 << s, 3 << (s - 1)]))
        {
            let b = bucket_of(value);
            assert!(b >= last || value < 1 << 14, "{value}");
            last = b;
            assert_eq!(bucket_of(midpoint(b)), b, "value {value} bucket {b}");
            assert_eq!(bucket_of(least(b)), b, "value {value} bucket {b}");
            assert!(least(b) <= value && (b == 0 || bucket_of(least(b) - 1) == b - 1));
            let error = midpoint(b).abs_diff(value) as f64;
            assert!(error <= value as f64 / 128.0 + 0.5, "value {value} midpoint {}", midpoint(b));
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert_eq!(BUCKETS, 1856);
    }

    #[test]
    fn merged_histograms_equal_one_of_all_samples() {
        let (mut a, mut b, mut both) = (Histogram::new(), Histogram::new(), Histogram::new());
        for v in 0..1_000u64 {
            let v = v * v * 7;
            if v % 2 == 0 {
                a.add(v)
            } else {
                b.add(v)
            }
            both.add(v);
        }
        a.merge(&b);
        assert_eq!(
            (a.len(), a.sum(), a.min(), a.max()),
            (both.len(), both.sum(), both.min(), both.max())
        );
        assert_eq!(a.counts, both.counts);
        assert!((a.stddev() - both.stddev()).abs() < 1e-6 * both.stddev());
    }

    #[test]
    fn no_percentile_lies_beyond_the_greatest_or_the_least_value() {
        let mut h = Histogram::new();
        h.add(9_362_036);
        assert!(midpoint(bucket_of(9_362_036)) > h.max(), "the middle of the bucket is above it");
        assert_eq!(h.percentile(99.9), 9_362_036);
    }
    #[test]
    fn percentiles_of_a_known_set() {
        let mut h = Histogram::new();
        (1..=100).for_each(|v| h.add(v));
        assert_eq!(h.percentile(1.0), 1);
        assert_eq!(h.percentile(50.0), 50);
        assert_eq!(h.percentile(99.0), 99);
        assert_eq!(h.percentile(100.0), 100);
        assert_eq!(Histogram::new().percentile(99.0), 0);
        assert!(h.reaches(99.0) && !h.reaches(99.1) && !Histogram::new().reaches(50.0));
    }

    #[test]
    fn ranks_are_those_of_long_double() {
        for n in [1, 2, 3, 100, 12_345, 1 << 40, 1 << 63, u64::MAX] {
            assert_eq!(rank(100.0, n), n);
            assert_eq!(rank(f64::MIN_POSITIVE / 4.0, n), 1);
            assert_eq!(rank(1e-300, n), 1);
            assert_eq!((rank(0.0, n), rank(-0.0, n)), (0, 0));
        }
        // fio has one more of these three, as 0.01 is not exact.
        assert_eq!(
            (rank(0.1, 1_000_000), rank(99.95, 2_000), rank(99.7, 1_000)),
            (1_001, 2_000, 998)
        );
        assert_eq!((rank(50.0, 3), rank(99.9, 1_001)), (2, 1_000));
    }
}
