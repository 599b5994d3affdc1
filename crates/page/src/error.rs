//! Why there is no page. Texts name the place and the remedy.

use crate::MOST_RESULTS;

/// Why means over so many seeds are not to be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an interval takes two runs or more: use a number from 2 to 1000")]
pub struct NoInterval;

/// Why there is no page.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PageError {
    /// The text is not JSON.
    #[error(
        "{name}: not a result in JSON ({why}): write one with --output-format json alone, and --output FILE"
    )]
    NotJson {
        /// The file.
        name: String,
        /// What the parser says, with its place.
        why: String,
    },
    /// JSON of something else.
    #[error("{name}: {what}: write a result with wordline run --output-format json --output FILE")]
    NotResult {
        /// The file.
        name: String,
        /// What it is.
        what: &'static str,
    },
    /// Of a version with another layout.
    #[error(
        "{name}: written by {of}, whose results this version ({own}) does not read: run it again with this one"
    )]
    Version {
        /// The file.
        name: String,
        /// Who wrote it.
        of: String,
        /// This version.
        own: &'static str,
    },
    /// A part that every result has is missing.
    #[error("{name}: damaged or cut: {part} is missing: run it again")]
    Part {
        /// The file.
        name: String,
        /// The part's path.
        part: &'static str,
    },
    /// Nothing to make a page of.
    #[error("no result: name one or more")]
    None,
    /// More than a page has room for.
    #[error("{given} results: a page compares at most {MOST_RESULTS}, name fewer")]
    TooMany {
        /// How many there are.
        given: usize,
    },
}
