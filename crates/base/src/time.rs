//! Simulated time: integer nanoseconds, as an instant ([`Time`]) and a length ([`Span`]).

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// An instant, in nanoseconds since the machine was switched on.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Time(pub u64);

/// Why a text is no [`Span`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SpanError {
    /// A number above 0 alone.
    #[error("{0} has no unit: write {0}ns, {0}us, {0}ms or {0}s")]
    NoUnit(String),
    /// Letters that are no unit.
    #[error("unknown time unit '{0}': use ns, us, ms or s")]
    Unit(String),
    /// No number in front of the unit, or one of 36 years and more.
    #[error("'{0}' is not a time: write for example 65us or 3.4ms")]
    NoTime(String),
    /// Less than a nanosecond, and not zero.
    #[error("{0} is less than half a nanosecond: write a longer time, or 0")]
    TooShort(String),
}

/// A length of time in nanoseconds. In configuration files: `"65us"`, `"3.4ms"`, `"250ns"`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Span(pub u64);

impl Time {
    /// When the machine is switched on.
    pub const ZERO: Time = Time(0);
    /// Later than anything that happens; 60 bits, the width of an event's time field.
    pub const NEVER: Time = Time((1 << 60) - 1);

    /// The span from `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

/// For how long at least one of these stretches went on, each given by its two ends.
pub fn covered(mut times: Vec<(Time, Time)>) -> Span {
    times.sort_unstable();
    let mut until = Time::ZERO;
    times.into_iter().fold(Span::ZERO, |sum, (from, to)| {
        let begin = from.max(until).min(to);
        until = until.max(to);
        sum + to.since(begin)
    })
}

impl Span {
    /// No time.
    pub const ZERO: Span = Span(0);

    /// Microseconds.
    pub const fn from_us(us: u64) -> Span {
        Span(us * 1_000)
    }
    /// Milliseconds.
    pub const fn from_ms(ms: u64) -> Span {
        Span(ms * 1_000_000)
    }
    /// Seconds.
    pub const fn from_secs(s: u64) -> Span {
        Span(s * 1_000_000_000)
    }
    /// In microseconds.
    pub fn as_us_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }
    /// In seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// How long `bytes` take at `bytes_per_s`, rounded up to a whole nanosecond.
    pub fn of_bytes(bytes: u64, bytes_per_s: u64) -> Span {
        if bytes_per_s == 0 {
            return Span::ZERO;
        }
        match bytes.checked_mul(1_000_000_000) {
            Some(n) => Span(n.div_ceil(bytes_per_s)),
            None => {
                let n = u128::from(bytes) * 1_000_000_000;
                Span(n.div_ceil(u128::from(bytes_per_s)) as u64)
            }
        }
    }
    /// The difference; zero if `other` is longer.
    pub fn saturating_sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }

    /// Parses `65us`, `3.4 ms`, `250ns`, `1s`. A number without a unit is refused unless it is zero:
    /// nobody can tell what it means.
    pub fn parse(text: &str) -> Result<Span, SpanError> {
        let text = text.trim();
        let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, unit) = (text[..split].trim(), text[split..].trim());
        let bare = unit.is_empty() && number.bytes().any(|b| (b'1'..=b'9').contains(&b));
        if bare && number.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return Err(SpanError::NoUnit(number.into()));
        }
        let scale: u64 = match unit {
            "" | "ns" => 1,
            "us" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            _ => return Err(SpanError::Unit(unit.into())),
        };
        let bad = || SpanError::NoTime(text.into());
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty()
            || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit())
        {
            return Err(bad());
        }
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| bad())? };
        let mut ns = whole.checked_mul(scale).ok_or_else(bad)?;
        let mut digit_scale = scale;
        for digit in fraction.bytes().map(|digit| u64::from(digit - b'0')) {
            // The first digit below a nanosecond rounds.
            let add = if digit_scale == 1 { digit / 5 } else { digit * digit_scale / 10 };
            ns = ns.checked_add(add).ok_or_else(bad)?;
            digit_scale /= 10;
        }
        if ns == 0 && number.bytes().any(|b| (b'1'..=b'9').contains(&b)) {
            return Err(SpanError::TooShort(text.into()));
        }
        if ns >= Time::NEVER.0 {
            return Err(bad());
        }
        Ok(Span(ns))
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, s: Span) -> Time {
        Time(self.0 + s.0)
    }
}
impl AddAssign<Span> for Time {
    fn add_assign(&mut self, s: Span) {
        self.0 += s.0;
    }
}
impl Add for Span {
    type Output = Span;
    fn add(self, s: Span) -> Span {
        Span(self.0 + s.0)
    }
}
impl AddAssign for Span {
    fn add_assign(&mut self, s: Span) {
        self.0 += s.0;
    }
}
impl Sub for Span {
    type Output = Span;
    fn sub(self, s: Span) -> Span {
        Span(self.0 - s.0)
    }
}
impl SubAssign for Span {
    fn sub_assign(&mut self, s: Span) {
        self.0 -= s.0;
    }
}
impl Mul<u64> for Span {
    type Output = Span;
    fn mul(self, n: u64) -> Span {
        Span(self.0 * n)
    }
}
impl Div<u64> for Span {
    type Output = Span;
    fn div(self, n: u64) -> Span {
        Span(self.0 / n)
    }
}
impl Sum for Span {
    fn sum<I: Iterator<Item = Span>>(iter: I) -> Span {
        Span(iter.map(|s| s.0).sum())
    }
}

/// The largest unit that keeps the value exact to a nanosecond: `65us`, `3.4ms`, `1s`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0;
        let (scale, unit) = match ns {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "us"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let (whole, rest) = (ns / scale, ns % scale);
        if rest == 0 {
            return f.pad(&format!("{whole}{unit}"));
        }
        let width = scale.ilog10() as usize;
        let digits = format!("{rest:0width$}");
        f.pad(&format!("{whole}.{}{unit}", digits.trim_end_matches('0')))
    }
}

/// In results: nanoseconds.
impl Serialize for Time {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(self.0)
    }
}

/// For lengths of time in results, which are numbers of nanoseconds.
pub fn serialize_ns<S: Serializer>(span: &Span, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_u64(span.0)
}

/// In configurations: a number with its unit.
impl Serialize for Span {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Span, D::Error> {
        struct V;
        impl de::Visitor<'_> for V {
            type Value = Span;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a time such as \"65us\"")
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<Span, E> {
                Span::parse(v).map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<Span, E> {
                if v > 0 {
                    return Err(E::custom(SpanError::NoUnit(v.to_string())));
                }
                Ok(Span::ZERO)
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<Span, E> {
                let v = u64::try_from(v)
                    .map_err(|_| E::custom(format!("a time cannot be negative: {v}")))?;
                self.visit_u64(v)
            }
        }
        d.deserialize_any(V)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_parse_and_print_back() {
        for text in ["0ns", "1ns", "65us", "3.4ms", "1.000001ms", "1s", "12.6us", "234.057us"] {
            assert_eq!(Span::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Span::parse("3.4 ms").unwrap(), Span(3_400_000));
        assert_eq!(Span::parse(".5us").unwrap(), Span(500));
        assert_eq!(Span::parse("2.4999us").unwrap(), Span(2500));
        assert_eq!(Span::parse("2.49949us").unwrap(), Span(2499));
        assert_eq!(Span::parse("1.5ns").unwrap(), Span(2));
        let error = Span::parse("0.0001us").unwrap_err().to_string();
        assert_eq!(error, "0.0001us is less than half a nanosecond: write a longer time, or 0");
        assert_eq!((Span::parse("0").unwrap(), Span::parse("0.0").unwrap()), (Span(0), Span(0)));
        for bare in ["5", "3.5", " 250 "] {
            let number = bare.trim();
            let error = Span::parse(bare).unwrap_err().to_string();
            let words = format!("write {number}ns, {number}us, {number}ms or {number}s");
            assert!(error.contains(&words), "{error}");
        }
        for bad in ["", "us", "1x", "-1us", "1..2us", "99999999999s", "1e3us", "1µs"] {
            assert!(Span::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_that_overlap_are_counted_once() {
        let times = [(8, 9), (1, 4), (20, 20), (2, 3), (3, 6)].map(|(a, b)| (Time(a), Time(b)));
        let counted = (0..30).filter(|t| times.iter().any(|(a, b)| (a.0..b.0).contains(t))).count();
        assert_eq!(covered(times.to_vec()), Span(counted as u64));
        assert_eq!(covered(Vec::new()), Span::ZERO);
    }

    #[test]
    fn transfer_times_round_up() {
        assert_eq!(Span::of_bytes(65536, 280_000_000), Span(234_058));
        assert_eq!(Span::of_bytes(1, 1_000_000_000), Span(1));
        assert_eq!(Span::of_bytes(4096, 0), Span::ZERO);
    }
}
