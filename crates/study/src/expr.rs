//! Formulas of closed forms: + - * / ^, parentheses, numbers, names.

use crate::error::{FormulaError, Unknown};

/// Which of these names a formula has.
pub fn names<'n>(text: &str, of: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let mut used = Vec::new();
    let _ = evaluate(text, &mut |name| {
        used.push(name.to_owned());
        // Not 0 or 1, which could end in a number that is none.
        Ok(1.5)
    });
    of.filter(|name| used.iter().any(|u| u == name)).collect()
}

/// What is in more than so many others is refused: each takes a part of the stack.
const DEPTH: usize = 100;

/// A recursive descent over the text; what a name is worth comes from outside.
struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// Parentheses, signs and powers that are in each other here.
    depth: usize,
    value: &'a mut dyn FnMut(&str) -> Result<f64, FormulaError>,
}

impl Parser<'_> {
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    fn take(&mut self, wanted: &[char]) -> Option<char> {
        let next = self.peek().filter(|c| wanted.contains(c))?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn sum(&mut self) -> Result<f64, FormulaError> {
        let mut left = self.product()?;
        while let Some(sign) = self.take(&['+', '-']) {
            let right = self.product()?;
            left = if sign == '+' { left + right } else { left - right };
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<f64, FormulaError> {
        let mut left = self.power()?;
        while let Some(sign) = self.take(&['*', '/']) {
            let right = self.power()?;
            left = if sign == '*' { left * right } else { left / right };
        }
        Ok(left)
    }

    fn power(&mut self) -> Result<f64, FormulaError> {
        let base = self.atom()?;
        match self.take(&['^']) {
            Some(_) => Ok(base.powf(self.deeper(Parser::power)?)),
            None => Ok(base),
        }
    }

    fn deeper(
        &mut self,
        part: fn(&mut Self) -> Result<f64, FormulaError>,
    ) -> Result<f64, FormulaError> {
        if self.depth == DEPTH {
            return Err(FormulaError::Deep { most: DEPTH });
        }
        self.depth += 1;
        let value = part(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn atom(&mut self) -> Result<f64, FormulaError> {
        if self.take(&['-']).is_some() {
            return Ok(-self.deeper(Parser::atom)?);
        }
        if self.take(&['(']).is_some() {
            let inner = self.deeper(Parser::sum)?;
            return self.take(&[')']).map(|_| inner).ok_or(FormulaError::Open);
        }
        self.peek();
        let rest = &self.text[self.at..];
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let mut end = rest.find(|c| !word(c)).unwrap_or(rest.len());
        // The sign of an exponent is of its number: 1e-6.
        if rest.starts_with(|c: char| c.is_ascii_digit() || c == '.')
            && rest[..end].ends_with(['e', 'E'])
            && let Some(digits) = rest[end..].strip_prefix(['+', '-'])
        {
            let count = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            end += if count > 0 { 1 + count } else { 0 };
        }
        let (name, after) = rest.split_at(end);
        self.at += end;
        match name.chars().next() {
            None if after.is_empty() => Err(FormulaError::End),
            None => Err(FormulaError::Unexpected(after.chars().next().unwrap_or(' '))),
            Some(c) if c.is_ascii_alphabetic() => (self.value)(name),
            Some(_) => name.parse().map_err(|_| FormulaError::Number(name.into())),
        }
    }
}

/// The value of a formula.
pub fn evaluate(
    text: &str,
    value: &mut dyn FnMut(&str) -> Result<f64, FormulaError>,
) -> Result<f64, FormulaError> {
    let mut parser = Parser { text, at: 0, depth: 0, value };
    let result = parser.sum()?;
    match parser.peek() {
        None => Ok(result),
        Some(c) => Err(FormulaError::Unexpected(c)),
    }
}

/// Whether a formula can be read and names only what is known.
pub fn check(text: &str, known: &[&str]) -> Result<(), FormulaError> {
    evaluate(text, &mut |name| {
        if known.contains(&name) {
            return Ok(1.0);
        }
        Err(FormulaError::Unknown(Unknown::new("name", name, known.iter().copied())))
    })
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_have_the_usual_meaning() {
        let value = |text: &str| {
            evaluate(text, &mut |name| match name {
                "S" => Ok(4.0),
                "wa" => Ok(2.5),
                "p99.99" => Ok(900.0),
                _ => Err(FormulaError::NoValue(name.into())),
            })
        };
        for (text, wanted) in [
            ("1/S", 0.25),
            ("wa / (1 + S*(wa - 1))", 2.5 / 7.0),
            ("wa/(wa+S-1)", 2.5 / 5.5),
            ("2 - 3 - 4 * -2 ^ 2", 2.0 - 3.0 - 4.0 * 4.0),
            ("p99.99 / 1e3", 0.9),
            ("S*1e-6", 4e-6),
            ("2.5E+2-S", 246.0),
            ("1e3-2", 998.0),
        ] {
            assert_eq!(value(text), Ok(wanted), "{text}");
        }
        for (text, message) in [
            ("1 +", "ends too early"),
            ("(1", "')' is missing"),
            ("1 2", "unexpected '2'"),
            ("1 + *", "unexpected '*'"),
            ("1.2.3", "not a number"),
            ("1e-", "not a number"),
            ("1e-S", "not a number"),
            ("Q", "'Q' has no value"),
        ] {
            assert!(value(text).unwrap_err().to_string().contains(message), "{text}");
        }
        for deep in ["(", "-", "2^"] {
            let told = value(&deep.repeat(300_000)).unwrap_err().to_string();
            assert!(told.contains("more than 100 "), "{told}");
        }
        assert_eq!(value(&format!("{}4{}", "(".repeat(99), ")".repeat(99))), Ok(4.0));
        let near = check("1/s_width", &["S_width"]).unwrap_err();
        assert!(near.to_string().contains("did you mean"), "{near}");
    }
}
