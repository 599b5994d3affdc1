//! A run's result in fio's own formats (fio 3.33), and what fio cannot know: where the time went.
//!
//! Everything here is a function of the [`RunResult`](wordline_sim::RunResult) alone, so that equal
//! runs print equal bytes on every machine. Three of fio's fields come from the world and not from
//! the run; they are fixed:
//!
//! - `timestamp`, `timestamp_ms` and `time` are the epoch, at which virtual time begins; so is the
//!   date in the normal output's header line.
//! - `pid` is fio's thread number.
//! - `majf` and `minf` are 0: the simulated host takes no page faults.
//!
//! Readers take the format's version from `"fio version"` and expect `fio-` and two numbers. The
//! value is `fio-3.33-wordline-<version>`, which is how fio's own builds between releases look
//! (`fio-3.33-25-gabcdef`): it says whose layout this is and who wrote it.
//!
//! Rates are computed from nanoseconds where fio divides by whole milliseconds. For runtimes of a
//! second or more the two agree to 0.1 %; below, ours keep their precision. The printed runtime is
//! in milliseconds, rounded up, as fio's is.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod app;
mod explain;
mod job;
mod json;
mod latency;
mod log;
mod normal;
mod number;
mod over_time;
mod slowest;
mod terse;
mod timeline;

pub use app::{app_text, programs};
pub use explain::{EXPLAIN_COLUMNS, EXPLAIN_LINES, explain_text, preface_text};
pub use json::{JsonOptions, RESULT_FORMAT, fio_json};
pub use log::{log_file_name, log_files, log_name, log_text, write_log};
pub use normal::fio_normal;
pub use over_time::over_time_csv;
pub use slowest::slowest_text;
pub use terse::fio_terse;
pub use timeline::timeline_json;

/// The value of `"fio version"` for a wordline version.
pub fn fio_version(wordline: &str) -> String {
    format!("fio-3.33-wordline-{}", if wordline.is_empty() { "unknown" } else { wordline })
}
