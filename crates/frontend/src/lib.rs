//! What the command line and the Python package have in common: names and files to a [`System`](wordline::System),
//! words to a [`Plan`](wordline::Plan), and a result in the formats asked for.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod failure;
pub mod files;
mod job;
mod machine;
mod memory;
mod outcome;
mod replay;
mod settings;
pub mod state;

pub use failure::{Failure, InputError, Status, WriteError};
pub use job::{Env, JobRun, Outside, parse_with};
pub use machine::{Machine, Parts, combine, from_text};
pub use memory::{Shortage, check_memory};
pub use outcome::{Format, Origin, text};
pub use replay::TraceReplay;
pub use settings::{Prepare, Settings};
pub use wordline_study::memory::{By, MemoryWatch};
