//! fio's ways to write numbers.

use wordline_base::Histogram;
use wordline_base::hist::{midpoint, rank};

/// Where virtual time begins, in the words of ctime.
pub(crate) const EPOCH: &str = "Thu Jan  1 00:00:00 1970";

/// What stands behind fio's prefixed numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    None,
    Byte,
    BytePerSec,
}

/// Digits fio spends on rates and sizes unless told otherwise.
const DIGITS: usize = 4;
const SI: [&str; 6] = ["", "k", "M", "G", "T", "P"];
const IEC: [&str; 6] = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];

fn digits(n: u64) -> usize {
    n.checked_ilog10().unwrap_or(0) as usize + 1
}

/// fio's number with a prefix: divided by the base until it has no more than `max` digits; what is
/// left of `max` after the point is spent on decimals of the last remainder alone. A fraction that
/// rounds to 1 carries; a number past the last prefix loses it.
pub fn prefixed(n: u64, max: usize, iec: bool, unit: Unit) -> String {
    prefixed_from(n, 0, max, iec, unit)
}

/// A number that is already so many prefixes up.
fn prefixed_from(n: u64, power: usize, max: usize, iec: bool, unit: Unit) -> String {
    let (base, prefixes) = if iec { (1024, &IEC) } else { (1000, &SI) };
    let (mut n, mut power, mut rest) = (n, power, None);
    while power < prefixes.len() && digits(n) > max {
        rest = Some(n % base);
        n /= base;
        power += 1;
    }
    let prefix = prefixes.get(power).copied().unwrap_or("");
    let unit = match unit {
        Unit::None => "",
        Unit::Byte => "B",
        Unit::BytePerSec => "B/s",
    };
    let Some(rest) = rest else { return format!("{n}{prefix}{unit}") };
    let room = max.saturating_sub(digits(n));
    if room <= 1 {
        return format!("{}{prefix}{unit}", n + u64::from(rest >= base / 2));
    }
    let fraction = format!("{:.*}", room - 1, rest as f64 / base as f64);
    let (carry, decimals) = fraction.split_once('.').unwrap_or((&fraction, "0"));
    format!("{}.{decimals}{prefix}{unit}", n + u64::from(carry == "1"))
}

pub fn iops_text(iops: u64) -> String {
    prefixed(iops, DIGITS, false, Unit::None)
}

/// In powers of 1024 and of 1000: `481MiB` and `504MB`.
pub fn size_texts(bytes: u64) -> (String, String) {
    (prefixed(bytes, DIGITS, true, Unit::Byte), prefixed(bytes, DIGITS, false, Unit::Byte))
}

pub fn rate_texts(bytes_per_s: u64) -> (String, String) {
    (
        prefixed(bytes_per_s, DIGITS, true, Unit::BytePerSec),
        prefixed(bytes_per_s, DIGITS, false, Unit::BytePerSec),
    )
}

/// A rate that fio has in KiB already, whose form in powers of 1000 it takes for kB.
pub fn kib_rate_texts(kib_per_s: u64) -> (String, String) {
    let text = |iec| prefixed_from(kib_per_s, 1, DIGITS, iec, Unit::BytePerSec);
    (text(true), text(false))
}

/// `n` things in `ns`, by the second, rounded down; 0 in no time.
pub fn per_second(n: u64, ns: u64) -> u64 {
    if ns == 0 {
        return 0;
    }
    u64::try_from(u128::from(n) * 1_000_000_000 / u128::from(ns)).unwrap_or(u64::MAX)
}

/// A runtime as fio prints it: whole milliseconds, rounded up.
pub fn millis_up(ns: u64) -> u64 {
    ns.div_ceil(1_000_000)
}

/// `%f` has no form for what is not a number.
pub fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

/// `part` of `whole` in percent; 0 of nothing.
pub fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { finite(part / whole * 100.0) } else { 0.0 }
}

/// A share of a distribution in percent; fio never lets a share that exists print as zero.
pub fn share(count: u64, total: u64, least: f64) -> f64 {
    let share = percent(count as f64, total as f64);
    if count > 0 && total > 0 { share.max(least) } else { share }
}

/// Minimum, maximum, mean and deviation, with fio's unit for the four together.
pub struct Scaled {
    pub unit: &'static str,
    pub min: String,
    pub max: String,
    pub mean: f64,
    pub stddev: f64,
}

pub fn scaled(h: &Histogram) -> Scaled {
    let (min, max, mean, stddev) = (h.min(), h.max(), h.mean(), h.stddev());
    let (unit, by) = if min > 2_000_000 && max > 99_999_999 && stddev > 1e6 {
        ("msec", 1_000_000)
    } else if min > 2_000 && max > 99_999 && stddev > 1e3 {
        ("usec", 1_000)
    } else {
        ("nsec", 1)
    };
    let text = |n: u64| prefixed(n / by, 6, false, Unit::None);
    Scaled {
        unit,
        min: text(min),
        max: text(max),
        mean: mean / by as f64,
        stddev: stddev / by as f64,
    }
}

/// The percentages fio would report: sorted, at most twenty, up to the first zero.
pub fn percentile_list(list: &[f64]) -> Vec<f64> {
    let mut list: Vec<f64> = list.iter().copied().take(20).take_while(|&p| p != 0.0).collect();
    list.retain(|p| (0.0..=100.0).contains(p));
    list.sort_by(f64::total_cmp);
    list
}

/// The value at each of a sorted list of percentages, as fio finds it; zeros if there is none.
pub fn percentiles(h: &Histogram, list: &[f64]) -> Vec<u64> {
    let mut values = Vec::with_capacity(list.len());
    let mut wanted = list.iter().map(|&p| rank(p, h.len())).peekable();
    let (mut seen, mut last) = (0u64, 0);
    for (bucket, count) in h.buckets() {
        seen += count;
        last = midpoint(bucket);
        while wanted.next_if(|&rank| rank <= seen).is_some() {
            values.push(last);
        }
    }
    values.resize(list.len(), last);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Left: what fio 3.33 was given; right: what it printed.
    #[test]
    fn numbers_as_fio_printed_them() {
        for (bytes, iec, si) in [
            (0, "0B", "0B"),
            (4_096, "4096B", "4096B"),
            (540_672, "528KiB", "541kB"),
            (507_904, "496KiB", "508kB"),
            (1_048_576, "1024KiB", "1049kB"),
            (2_097_152, "2048KiB", "2097kB"),
            (8_388_608, "8192KiB", "8389kB"),
            (13_308 << 10, "13.0MiB", "13.6MB"), // 12.996: the fraction carries
            (16 << 20, "16.0MiB", "16.8MB"),
            (52_428_800, "50.0MiB", "52.4MB"),
            (104_398_848, "99.6MiB", "104MB"),
            (105_316_352, "100MiB", "105MB"),
        ] {
            assert_eq!(size_texts(bytes), (iec.to_owned(), si.to_owned()));
        }
        for (bytes, ms, iec, si) in [
            (540_672u64, 1, "516MiB/s", "541MB/s"),
            (1_048_576, 1, "1000MiB/s", "1049MB/s"),
            (2_097_152, 1, "2000MiB/s", "2097MB/s"),
            (13_627_392, 1, "12.7GiB/s", "13.6GB/s"),
            (104_398_848, 11, "9051MiB/s", "9491MB/s"),
            (105_316_352, 11, "9131MiB/s", "9574MB/s"),
            (52_428_800, 5_000, "10.0MiB/s", "10.5MB/s"),
            (8_388_608, 25, "320MiB/s", "336MB/s"),
            (8_388_608, 30, "267MiB/s", "280MB/s"),
        ] {
            let rate = per_second(bytes, ms * 1_000_000);
            assert_eq!(rate_texts(rate), (iec.to_owned(), si.to_owned()));
        }
        for (ios, ms, text) in [
            (25_488, 11, "2317k"),
            (25_712, 11, "2337k"),
            (12_800, 5_000, "2560"),
            (132, 1, "132k"),
            (2_048, 25, "81.9k"),
            (2_048, 30, "68.3k"),
            (3_314, 1_001, "3310"),
        ] {
            assert_eq!(iops_text(per_second(ios, ms * 1_000_000)), text);
        }
    }

    #[test]
    fn numbers_past_the_last_prefix_keep_it() {
        assert_eq!(prefixed(u64::MAX, 4, false, Unit::Byte), "18.4B");
        assert_eq!(prefixed(9_999_999, 4, false, Unit::None), "10000k");
        assert_eq!(prefixed(999_999, 6, false, Unit::None), "999999");
        assert_eq!(prefixed(1_000_000, 6, false, Unit::None), "1000.0k");
    }

    #[test]
    fn floats_round_half_to_even_as_c_does() {
        assert_eq!(format!("{:.6}", 36.9140625), "36.914062");
        assert_eq!(format!("{:.6}", 0.1953125), "0.195312");
        assert_eq!(format!("{:.2}", 0.125), "0.12");
        assert_eq!(format!("{:.1}", 0.25), "0.2");
    }

    #[test]
    fn an_exact_hit_needs_the_next_io() {
        // 99.95 is a little more than that in binary, so 1,999 of 2,000 are not enough for fio.
        let mut h = Histogram::new();
        (0..1_999).for_each(|_| h.add(10));
        h.add(100);
        assert_eq!(percentiles(&h, &[50.0, 99.9, 99.95, 99.99, 100.0]), [10, 10, 100, 100, 100]);
        assert_eq!(percentiles(&Histogram::new(), &[1.0, 100.0]), [0, 0]);
    }

    #[test]
    fn lists_as_fio_reads_them() {
        assert_eq!(percentile_list(&[99.0, 50.0, 0.0, 10.0]), [50.0, 99.0]);
        assert_eq!(percentile_list(&[f64::NAN, 101.0, -1.0, 100.0]), [100.0]);
        assert_eq!(percentile_list(&[1.0; 30]).len(), 20);
    }
}
