//! Results as pages: one HTML file each, which needs no network, and no JavaScript for its numbers.
//!
//! A page is a function of the JSON of results alone ([`read`]). Its tables are HTML; its pictures are drawn
//! in the browser from the same JSON, by Observable Plot, which is in the page with its licence.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod answer;
mod compare;
mod error;
mod html;
mod markdown;
mod number;
mod one;
mod read;
mod shell;
pub mod study;
mod summary;

pub use error::{NoInterval, PageError};
pub use number::{BUCKET, Spread, repeat_times};
pub use read::{Outcome, read, repeats};
pub use summary::{agreement, runs_agree, said, summary, summary_text, warnings};

/// Results that a page compares at most.
pub const MOST_RESULTS: usize = 8;

/// The page of a result, or of several side by side.
pub fn page(results: &[Outcome]) -> Result<String, PageError> {
    match results {
        [] => Err(PageError::None),
        [one] => Ok(one::page(one)),
        several if several.len() <= MOST_RESULTS => Ok(compare::page(several)),
        more => Err(PageError::TooMany { given: more.len() }),
    }
}
