//! Columns of a line of text, and numbers in them, with the place of what is wrong.

pub(crate) const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Something wrong in a line: the column in bytes from one (0: the whole line), and what.
#[derive(Debug)]
pub(crate) struct Fault {
    pub column: usize,
    pub message: String,
}

impl Fault {
    pub fn new(column: usize, message: impl Into<String>) -> Fault {
        Fault { column, message: message.into() }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub text: &'a [u8],
    pub column: usize,
}

impl<'a> Field<'a> {
    pub fn fault(self, message: impl Into<String>) -> Fault {
        Fault::new(self.column, message)
    }
    pub fn show(self) -> String {
        show(self.text)
    }

    /// A whole number without sign.
    #[inline]
    pub fn number(self, what: &str) -> Result<u64, Fault> {
        match digits(self.text) {
            Some(n) => Ok(n),
            None => Err(self.bad_number(what)),
        }
    }

    #[cold]
    fn bad_number(self, what: &str) -> Fault {
        if self.text.is_empty() {
            self.fault(format!("{what} is missing"))
        } else if self.text.iter().all(u8::is_ascii_digit) {
            self.fault(format!("{what} does not fit 64 bits: '{}'", self.show()))
        } else if let [b'-', digits @ ..] = self.text
            && !digits.is_empty()
            && digits.iter().all(|b| b.is_ascii_digit() || *b == b'.')
        {
            self.fault(format!("{what} is negative: '{}'", self.show()))
        } else {
            self.fault(format!("{what} is not a number: '{}'", self.show()))
        }
    }

    /// A decimal number in units of `unit` picoseconds, as nanoseconds. Digits below a nanosecond
    /// are cut off.
    #[inline]
    pub fn time(self, unit_ps: u64, what: &str) -> Result<u64, Fault> {
        let dot = self.text.iter().position(|&b| b == b'.');
        let (whole, fraction) = match dot {
            Some(at) => (&self.text[..at], &self.text[at + 1..]),
            None => (self.text, &b""[..]),
        };
        if whole.is_empty() && fraction.is_empty() || !fraction.iter().all(u8::is_ascii_digit) {
            return Err(self.bad_number(what));
        }
        let whole = match whole {
            b"" => 0,
            _ => digits(whole).ok_or_else(|| self.bad_number(what))?,
        };
        let mut ps = u128::from(whole) * u128::from(unit_ps);
        let mut scale = unit_ps;
        for digit in fraction {
            scale /= 10;
            ps += u128::from(scale) * u128::from(digit - b'0');
        }
        u64::try_from(ps / 1_000).map_err(|_| {
            self.fault(format!("{what} is beyond 584 years of nanoseconds: '{}'", self.show()))
        })
    }
}

pub(crate) const PS_PER_S: u64 = 1_000_000_000_000;

#[inline]
fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let mut n = 0u64;
    if text.len() <= 19 {
        for b in text {
            let d = b.wrapping_sub(b'0');
            if d > 9 {
                return None;
            }
            n = n * 10 + u64::from(d); // 19 digits fit 64 bits
        }
        return Some(n);
    }
    for b in text {
        let d = b.wrapping_sub(b'0');
        if d > 9 {
            return None;
        }
        n = n.checked_mul(10)?.checked_add(u64::from(d))?;
    }
    Some(n)
}

/// The first `N` comma-separated columns, trimmed (the SPC format allows blanks in fields).
/// `exactly` refuses further ones.
#[inline]
pub(crate) fn columns<'a, const N: usize>(
    line: &'a [u8],
    names: &str,
    exactly: bool,
) -> Result<[Field<'a>; N], Fault> {
    let mut fields = [Field { text: &line[..0], column: 0 }; N];
    let mut start = 0;
    for (i, field) in fields.iter_mut().enumerate() {
        if start > line.len() {
            return Err(Fault::new(
                line.len() + 1,
                format!("{i} columns where {N} are due: {names}"),
            ));
        }
        let rest = &line[start..];
        let end = rest.iter().position(|&b| b == b',').unwrap_or(rest.len());
        let text = &rest[..end];
        let blank = text.iter().take_while(|b| b.is_ascii_whitespace()).count();
        *field = Field { text: text.trim_ascii(), column: start + blank + 1 };
        start += end + 1;
    }
    if exactly && start <= line.len() {
        return Err(Fault::new(start + 1, format!("more than {N} columns; they are {names}")));
    }
    Ok(fields)
}

/// Words between blanks.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = Field<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < line.len() && line[at].is_ascii_whitespace() {
            at += 1;
        }
        if at == line.len() {
            return None;
        }
        let start = at;
        while at < line.len() && !line[at].is_ascii_whitespace() {
            at += 1;
        }
        Some(Field { text: &line[start..at], column: start + 1 })
    })
}

/// Text of a trace made fit for a message: short, and without control characters.
pub(crate) fn show(text: &[u8]) -> String {
    show_up_to(40, text)
}

pub(crate) fn show_up_to(most: usize, text: &[u8]) -> String {
    let cut = &text[..text.len().min(most)];
    let mut shown: String = String::from_utf8_lossy(cut).escape_debug().collect();
    if text.len() > most {
        shown.push('…');
    }
    shown
}
