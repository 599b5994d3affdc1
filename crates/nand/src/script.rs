//! Failures at chosen places: beside those drawn from the seed, a profile can list them.
//!
//! ```text
//! read    lun=3 line=7 page=2 times=1
//! program lun=0 line=12 page=0
//! erase   lun=1 line=4 after=2
//! ```
//!
//! A place that is left out is any; `line` is the block of each LUN with that number. Of the
//! operations that fit, the first `after` (0) succeed, the next `times` (1) fail, and later ones
//! succeed again.

use crate::geometry::{Geometry, LineId, LunId, Ppa};
use crate::op::OpKind;

/// A line of the script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rule {
    kind: OpKind,
    lun: Option<LunId>,
    line: Option<LineId>,
    page: Option<u32>,
    after: u32,
    times: u32,
}

/// What is wrong with a line of a script, and what would be right.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ScriptFault {
    /// It begins with no operation.
    #[error("begins with '{0}': use read, program or erase")]
    Operation(String),
    /// A word that is no `key=value`.
    #[error("has '{0}': use lun=, line=, page=, after= or times=")]
    NoValue(String),
    /// No key.
    #[error("has '{0}': use lun, line, page, after or times")]
    Key(String),
    /// No number.
    #[error("has {key}={value}: use a whole number")]
    Number {
        /// The key.
        key: String,
        /// Its value.
        value: String,
    },
    /// A place that the drive does not have.
    #[error("has {key}={value}: the drive has {key} 0 to {last}")]
    Beyond {
        /// `lun`, `line` or `page`.
        key: String,
        /// The number given.
        value: u32,
        /// The last that there is.
        last: u32,
    },
    /// A page of an erase.
    #[error("has a page: an erase is of a whole block, leave it out")]
    PageOfErase,
    /// A key that it has twice.
    #[error("has {0} twice: keep one, or write a second line")]
    Twice(String),
    /// A fault that never comes.
    #[error("has times=0, which is never: use 1 or more, or leave the line out")]
    Never,
}

/// A line that a script cannot have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{line}' {fault}")]
pub struct ScriptError {
    /// The line of the script.
    pub line: String,
    /// What is wrong with it.
    pub fault: ScriptFault,
}

impl Rule {
    fn parse(text: &str, g: &Geometry) -> Result<Rule, ScriptFault> {
        let mut words = text.split_whitespace();
        let kind = match words.next() {
            Some("read") => OpKind::Read,
            Some("program") => OpKind::Program,
            Some("erase") => OpKind::Erase,
            first => return Err(ScriptFault::Operation(first.unwrap_or("").into())),
        };
        let mut rule = Rule { kind, lun: None, line: None, page: None, after: 0, times: 1 };
        let mut keys = Vec::new();
        for word in words {
            let (key, value) =
                word.split_once('=').ok_or_else(|| ScriptFault::NoValue(word.into()))?;
            if keys.contains(&key) {
                return Err(ScriptFault::Twice(key.into()));
            }
            keys.push(key);
            let number = || {
                let fault = || ScriptFault::Number { key: key.into(), value: value.into() };
                value.parse::<u32>().map_err(|_| fault())
            };
            let below = |limit: u32| match number()? {
                n if n < limit => Ok(Some(n)),
                value => Err(ScriptFault::Beyond { key: key.into(), value, last: limit - 1 }),
            };
            match key {
                "lun" => rule.lun = below(g.luns)?,
                "line" => rule.line = below(g.lines)?,
                "page" if kind == OpKind::Erase => return Err(ScriptFault::PageOfErase),
                "page" => rule.page = below(g.pages)?,
                "after" => rule.after = number()?,
                "times" => rule.times = number()?,
                _ => return Err(ScriptFault::Key(key.into())),
            }
        }
        if rule.times == 0 {
            return Err(ScriptFault::Never);
        }
        Ok(rule)
    }
    fn fits(&self, kind: OpKind, g: &Geometry, ppa: Ppa) -> bool {
        let at = |place: Option<u32>, there: u32| place.is_none_or(|p| p == there);
        kind == self.kind
            && at(self.lun, g.lun_of(ppa))
            && at(self.line, g.line_of(ppa))
            && (kind == OpKind::Erase || at(self.page, g.page_of(ppa)))
    }
}

/// Whether a drive can heed a script.
pub fn check_script(lines: &[String], g: &Geometry) -> Result<(), ScriptError> {
    Script::new(lines, g).map(drop)
}

/// The rules, and how often each was met.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    rules: Vec<Rule>,
}

impl Script {
    pub fn new(lines: &[String], g: &Geometry) -> Result<Script, ScriptError> {
        let rule = |line: &String| {
            Rule::parse(line, g).map_err(|fault| ScriptError { line: line.clone(), fault })
        };
        Ok(Script { rules: lines.iter().map(rule).collect::<Result<_, _>>()? })
    }
    /// Whether this operation is to fail. Each rule that fits counts it.
    #[inline]
    pub fn fails(&mut self, kind: OpKind, g: &Geometry, ppa: Ppa) -> bool {
        !self.rules.is_empty() && self.rule_fails(kind, g, ppa)
    }
    #[inline(never)]
    fn rule_fails(&mut self, kind: OpKind, g: &Geometry, ppa: Ppa) -> bool {
        let mut fails = false;
        for rule in self.rules.iter_mut().filter(|rule| rule.fits(kind, g, ppa)) {
            if rule.after > 0 {
                rule.after -= 1;
            } else if rule.times > 0 {
                rule.times -= 1;
                fails = true;
            }
        }
        fails
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::small;

    fn script(lines: &[&str]) -> Result<Script, ScriptError> {
        let g = Geometry::new(&small()).unwrap();
        Script::new(&lines.iter().map(|l| l.to_string()).collect::<Vec<_>>(), &g)
    }

    #[test]
    fn rules_fail_where_and_when_they_say() {
        let g = Geometry::new(&small()).unwrap();
        let mut s =
            script(&["read lun=3 page=2", "program line=1 after=2 times=2", "erase"]).unwrap();
        let at = |line, page, lun| g.first_of_unit(g.unit_at(line, page, lun));
        assert!(!s.fails(OpKind::Read, &g, at(0, 2, 2)) && !s.fails(OpKind::Read, &g, at(0, 1, 3)));
        assert!(!s.fails(OpKind::Program, &g, at(0, 2, 3)));
        assert!(s.fails(OpKind::Read, &g, at(1, 2, 3)) && !s.fails(OpKind::Read, &g, at(1, 2, 3)));
        let programs: Vec<bool> =
            (0..6).map(|page| s.fails(OpKind::Program, &g, at(1, page, 0))).collect();
        assert_eq!(programs, [false, false, true, true, false, false]);
        assert!(
            s.fails(OpKind::Erase, &g, at(5, 0, 1)) && !s.fails(OpKind::Erase, &g, at(5, 0, 1))
        );
    }

    #[test]
    fn errors_in_a_script_come_with_a_remedy() {
        for (line, expected) in [
            ("write lun=1", "'write lun=1' begins with 'write': use read, program or erase"),
            ("", "'' begins with '': use read, program or erase"),
            ("read lun", "'read lun' has 'lun': use lun=, line=, page=, after= or times="),
            ("read lun=8", "'read lun=8' has lun=8: the drive has lun 0 to 7"),
            ("read lun=-1", "'read lun=-1' has lun=-1: use a whole number"),
            ("read block=1", "'read block=1' has 'block': use lun, line, page, after or times"),
            (
                "erase page=1",
                "'erase page=1' has a page: an erase is of a whole block, leave it out",
            ),
            (
                "read lun=0 lun=1",
                "'read lun=0 lun=1' has lun twice: keep one, or write a second line",
            ),
            (
                "read times=0",
                "'read times=0' has times=0, which is never: use 1 or more, or leave the line out",
            ),
        ] {
            assert_eq!(script(&[line]).unwrap_err().to_string(), expected);
        }
    }
}
