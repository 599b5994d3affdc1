//! What is wrong with a value of the configuration.

use std::borrow::Cow;

/// A value that a part of the machine cannot be built with. Prints as `key why`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{key} {why}")]
pub struct BadValue {
    /// Below the section of the part: whoever took the values from a profile knows where that is.
    pub key: Cow<'static, str>,
    /// What it is, what it must be, and the remedy. The key is the subject.
    pub why: String,
}

impl BadValue {
    /// Of the key below the section, and the words that follow it.
    pub fn new(key: impl Into<Cow<'static, str>>, why: impl Into<String>) -> BadValue {
        BadValue { key: key.into(), why: why.into() }
    }
    /// The same one section up.
    pub fn below(self, section: &str) -> BadValue {
        // What is wrong for a layer above may be a setting of the flash, which is named whole.
        match self.key.starts_with("nand.") {
            true => self,
            false => BadValue { key: format!("{section}.{}", self.key).into(), why: self.why },
        }
    }
}
