//! Numbers as fio writes them: sizes with k, m, g, t, p under `kb_base`, times, percentages, lists
//! by direction, and sums in parentheses.
//!
//! With `kb_base=1024` (the default) `4k`, `4kb` and `4ki` are 4096 and `4kib` is 4000: fio swaps
//! the meaning of the IEC form there. With `kb_base=1000` `4k` and `4kb` are 4000, `4kib` is 4096.
//! Where fio takes the leading digits and drops the rest (`1.5g` as 1), this is an error.

use crate::error::{ExpressionError, ValueError};

/// A size that may be a share of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// Bytes.
    Bytes(u64),
    /// Percent of the file.
    Percent(u32),
}

/// How a bare number and a suffix read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Bytes, or any count: `k` is the given base.
    Kilo(u64),
    /// Microseconds; a bare number is seconds.
    Seconds,
    /// Microseconds; a bare number too.
    Micros,
}

/// Parentheses nest at most so deep.
const DEPTH_MAX: u32 = 32;

/// One number, without percentages. The message of an error names the text.
pub fn number(text: &str, unit: Unit) -> Result<i64, ValueError> {
    match quantity(text, unit)? {
        Quantity::Plain(n) => Ok(n),
        Quantity::Percent(_) => Err(ValueError::Percentage { text: text.into() }),
    }
}

/// A size in bytes or in percent.
pub fn size(text: &str, kb_base: u64) -> Result<Size, ValueError> {
    match quantity(text, Unit::Kilo(kb_base))? {
        Quantity::Plain(n) => u64::try_from(n)
            .map(Size::Bytes)
            .map_err(|_| ValueError::TooSmall { text: text.into(), least: 0 }),
        Quantity::Percent(p) => Ok(Size::Percent(p)),
    }
}

/// Bytes of a size that is no option of a job: `8G` and `8GiB` are 2^33 bytes and `8GB` 8 x 10^9. In a job fio gives GiB
/// and GB to each other's powers.
pub fn bytes(text: &str) -> Result<u64, ValueError> {
    if text.contains('(') {
        return Err(ValueError::kind(text, "a size: write for example 8G, 8GiB or 8GB"));
    }
    let base = if text.trim_end().ends_with(['b', 'B']) { 1000 } else { 1024 };
    match size(text, base)? {
        Size::Bytes(bytes) => Ok(bytes),
        Size::Percent(_) => Err(ValueError::Percentage { text: text.into() }),
    }
}

enum Quantity {
    Plain(i64),
    Percent(u32),
}

fn quantity(text: &str, unit: Unit) -> Result<Quantity, ValueError> {
    let text = text.trim();
    let too_large = || ValueError::TooLarge { text: text.into(), most: None };
    if text.starts_with('(') {
        let value = Sum { rest: text, unit, depth: 0 }.whole()?;
        return to_i64(value).map(Quantity::Plain).ok_or_else(too_large);
    }
    let (sign, body) = match text.as_bytes().first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, text),
    };
    if let Some(share) = body.strip_suffix('%') {
        let percent: u32 = share
            .parse()
            .ok()
            .filter(|p| sign > 0 && *p <= 100_000)
            .ok_or_else(|| ValueError::kind(text, "a percentage: write for example 50%"))?;
        return Ok(Quantity::Percent(percent));
    }
    let (digits, radix, suffix) = split_number(body);
    if digits.is_empty() {
        return Err(ValueError::kind(text, a_number(unit)));
    }
    let value = i128::from_str_radix(digits, radix).map_err(|_| too_large())?;
    let example = a_number(unit).trim_start_matches(A_NUMBER);
    let unknown = || ValueError::Unit { text: text.into(), unit: suffix.into(), example };
    let scale = i128::from(scale(suffix, unit).ok_or_else(|| {
        match scale(suffix, Unit::Micros).filter(|_| matches!(unit, Unit::Kilo(_))) {
            Some(_) => ValueError::Timed { text: text.into(), unit: suffix.into() },
            None => unknown(),
        }
    })?);
    let value = value.checked_mul(scale * sign).ok_or_else(too_large)?;
    i64::try_from(value).map(Quantity::Plain).map_err(|_| too_large())
}

const A_NUMBER: &str = "a number: write for example ";

/// What is asked for, with an example.
fn a_number(unit: Unit) -> &'static str {
    match unit {
        Unit::Kilo(_) => "a number: write for example 4096, 4k or 1g",
        Unit::Seconds => "a number: write for example 30, 30s, 5m or 100ms",
        Unit::Micros => "a number: write for example 50, 50us or 10ms",
    }
}

/// Digits, their radix, and what follows them.
fn split_number(body: &str) -> (&str, u32, &str) {
    if let Some(hex) = body.strip_prefix("0x").or_else(|| body.strip_prefix("0X")) {
        let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
        return (&hex[..end], 16, &hex[end..]);
    }
    let end = body.find(|c: char| !c.is_ascii_digit()).unwrap_or(body.len());
    (&body[..end], 10, &body[end..])
}

fn scale(suffix: &str, unit: Unit) -> Option<u64> {
    let lower = suffix.to_ascii_lowercase();
    match unit {
        Unit::Kilo(base) => {
            if lower.is_empty() || lower == "b" {
                return Some(1);
            }
            let power = match lower.as_bytes()[0] {
                b'k' => 1,
                b'm' => 2,
                b'g' => 3,
                b't' => 4,
                b'p' => 5,
                _ => return None,
            };
            let base = match &lower[1..] {
                "" | "b" | "i" => base,
                // fio swaps the two for the spelled-out form.
                "ib" => {
                    if base == 1000 {
                        1024
                    } else {
                        1000
                    }
                }
                _ => return None,
            };
            Some(base.pow(power))
        }
        Unit::Seconds | Unit::Micros => match lower.as_str() {
            "" => Some(if unit == Unit::Seconds { 1_000_000 } else { 1 }),
            "us" | "usec" => Some(1),
            "ms" | "msec" => Some(1_000),
            "s" => Some(1_000_000),
            "m" => Some(60_000_000),
            "h" => Some(3_600_000_000),
            "d" => Some(86_400_000_000),
            _ => None,
        },
    }
}

fn to_i64(value: f64) -> Option<i64> {
    (value.abs() < 9.2e18).then_some(value as i64)
}

/// A sum such as `(1g + 4k) * 2`, evaluated in double precision as fio does.
struct Sum<'a> {
    rest: &'a str,
    unit: Unit,
    depth: u32,
}

impl Sum<'_> {
    fn whole(&mut self) -> Result<f64, ExpressionError> {
        let value = self.sum()?;
        self.blanks();
        if self.rest.is_empty() { Ok(value) } else { Err(ExpressionError::After(self.rest.into())) }
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, among: &[char]) -> Option<char> {
        self.blanks();
        let c = self.rest.chars().next().filter(|c| among.contains(c))?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn sum(&mut self) -> Result<f64, ExpressionError> {
        let mut value = self.product()?;
        while let Some(op) = self.take(&['+', '-']) {
            let right = self.product()?;
            value = if op == '+' { value + right } else { value - right };
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<f64, ExpressionError> {
        let mut value = self.power()?;
        while let Some(op) = self.take(&['*', '/', '%']) {
            let right = self.power()?;
            if op != '*' && right == 0.0 {
                return Err(ExpressionError::Zero);
            }
            value = match op {
                '*' => value * right,
                '/' => value / right,
                _ => value % right,
            };
        }
        Ok(value)
    }

    fn power(&mut self) -> Result<f64, ExpressionError> {
        let mut value = self.atom()?;
        while self.take(&['^']).is_some() {
            value = libm::pow(value, self.atom()?);
        }
        Ok(value)
    }

    fn atom(&mut self) -> Result<f64, ExpressionError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(ExpressionError::Nested);
        }
        let value = if self.take(&['-']).is_some() {
            -self.atom()?
        } else if self.take(&['(']).is_some() {
            let inner = self.sum()?;
            if self.take(&[')']).is_none() {
                return Err(ExpressionError::Open);
            }
            inner
        } else {
            self.literal()?
        };
        self.depth -= 1;
        Ok(value)
    }

    fn literal(&mut self) -> Result<f64, ExpressionError> {
        self.blanks();
        let rest = self.rest;
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        self.rest = after;
        let digits = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
        let bad = || ExpressionError::Number(word.into());
        let value: f64 = word[..digits].parse().map_err(|_| bad())?;
        let suffix = &word[digits..];
        // A bare number inside an expression of seconds is seconds as well.
        Ok(value * scale(suffix, self.unit).ok_or_else(bad)? as f64)
    }
}

/// Evaluates integer arithmetic after a `$keyword` was replaced, as fio has `bc` do.
pub fn arithmetic(text: &str) -> Result<i64, ValueError> {
    let value = Sum { rest: text, unit: Unit::Kilo(1024), depth: 0 }.whole()?;
    to_i64(value).ok_or_else(|| ValueError::TooLarge { text: text.into(), most: None })
}

/// Splits `read,write,trim`. As in fio a value without a comma may use `:` or `-` between numbers;
/// a missing later value repeats the one before it, an empty earlier one leaves the default.
pub fn by_direction<T: Copy>(
    text: &str,
    parse: impl Fn(&str) -> Result<T, ValueError>,
) -> Result<[Option<T>; 3], ValueError> {
    let parts: Vec<&str> = split_list(text);
    if parts.len() > 3 {
        return Err(ValueError::TooMany { most: 3, what: "values: read,write,trim" });
    }
    // A trailing comma says "read only": nothing is repeated.
    let closed = parts.len() > 1 && parts.last().is_some_and(|p| p.is_empty());
    let mut out = [None; 3];
    let mut last = None;
    for (i, slot) in out.iter_mut().enumerate() {
        match parts.get(i) {
            Some(part) if !part.trim().is_empty() => {
                last = Some(parse(part)?);
                *slot = last;
            }
            Some(_) => {}
            None if !closed => *slot = last,
            None => {}
        }
    }
    if out.iter().all(Option::is_none) {
        return Err(ValueError::Missing { option: None });
    }
    Ok(out)
}

fn split_list(text: &str) -> Vec<&str> {
    if text.contains(',') || text.starts_with('(') {
        return text.split(',').collect();
    }
    // A leading sign is not a separator.
    let from = usize::from(text.starts_with(['-', '+']));
    match text[from..].find([':', '-']) {
        Some(at) => {
            let (left, right) = (&text[..from + at], &text[from + at + 1..]);
            let mut parts = vec![left];
            parts.extend(right.split([':', '-']));
            parts
        }
        None => vec![text],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GiB and GB are what they are elsewhere.
    #[test]
    fn sizes_that_are_no_options_of_jobs_have_the_usual_units() {
        for (text, size) in [
            ("8G", 8 << 30),
            ("8g", 8 << 30),
            ("8GiB", 8 << 30),
            ("8gib", 8 << 30),
            ("8GB", 8_000_000_000),
            ("256MiB", 256 << 20),
            ("4096", 4096),
            ("4096B", 4096),
            ("0x1b", 27),
        ] {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
        for bad in ["", "8%", "8X", "8 GiB of it", "-1", "10ms", "(1GiB)"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_follow_kb_base() {
        let kilo = |t: &str, base| number(t, Unit::Kilo(base)).expect(t);
        assert_eq!(kilo("4k", 1024), 4096);
        assert_eq!(kilo("4K", 1024), 4096);
        assert_eq!(kilo("4kb", 1024), 4096);
        assert_eq!(kilo("4kib", 1024), 4000);
        assert_eq!(kilo("4kib", 1000), 4096);
        assert_eq!(kilo("4k", 1000), 4000);
        assert_eq!(kilo("2t", 1024), 2 << 40);
        assert_eq!(kilo("0x10", 1024), 16);
        assert_eq!(kilo("-8k", 1024), -8192);
        assert_eq!(kilo("(1g + 4k*2)", 1024), (1 << 30) + 8192);
        for bad in ["", "k", "1.5g", "4x", "99999999999999p", "4kk", "5%", "(1", "(1/0)", "()", "é"]
        {
            assert!(number(bad, Unit::Kilo(1024)).is_err(), "{bad}");
        }
        assert!(number(&"(".repeat(10_000), Unit::Kilo(1024)).is_err());
    }

    #[test]
    fn times_are_microseconds() {
        assert_eq!(number("30", Unit::Seconds), Ok(30_000_000));
        assert_eq!(number("30", Unit::Micros), Ok(30));
        assert_eq!(number("10ms", Unit::Seconds), Ok(10_000));
        assert_eq!(number("5m", Unit::Seconds), Ok(300_000_000));
        assert!(number("5parsecs", Unit::Seconds).is_err());
    }

    #[test]
    fn percentages_and_lists_by_direction_are_read() {
        assert_eq!(size("50%", 1024), Ok(Size::Percent(50)));
        let list = |t: &str| by_direction(t, |p| number(p, Unit::Kilo(1024)));
        assert_eq!(list("4k"), Ok([Some(4096); 3]));
        assert_eq!(list("4k,8k"), Ok([Some(4096), Some(8192), Some(8192)]));
        assert_eq!(list("4k,8k,16k"), Ok([Some(4096), Some(8192), Some(16384)]));
        assert_eq!(list("4k,"), Ok([Some(4096), None, None]));
        assert_eq!(list(",8k"), Ok([None, Some(8192), Some(8192)]));
        assert_eq!(list("4k:8k"), Ok([Some(4096), Some(8192), Some(8192)]));
        assert!(list("1,2,3,4").is_err());
        assert!(list(",").is_err());
        assert_eq!(arithmetic("8*4 + 1"), Ok(33));
    }
}
