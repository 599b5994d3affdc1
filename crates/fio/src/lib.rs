//! fio's job language and I/O generator: job files and command lines in fio's grammar to typed
//! jobs, and from each job thread the same sequence of I/Os that fio 3.33 issues.
//!
//! ```
//! use wordline_fio::{Generator, Space, NoEnv, ParseOptions, parse_file};
//!
//! let text = "[a]\nrw=randread\nbs=4k\nsize=1m\n";
//! let plan = parse_file("job.fio", text, &ParseOptions::default(), &mut NoEnv).unwrap();
//! let threads = plan.threads();
//! let mut generator = Generator::new(&plan.jobs[0], &threads[0], 1 << 30, 0).unwrap();
//! assert_eq!(generator.next().map(|io| io.len), Some(4096));
//! ```
//!
//! Part of the deterministic ring: no clock, no file, no environment. `include` and `${NAME}` go
//! through [`Env`], times are arguments.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod apply;
pub mod axmap;
mod choice;
pub mod dist;
mod env;
mod error;
mod generator;
mod grammar;
mod hash;
mod io;
pub mod job;
mod latency;
pub mod options;
mod pacer;
mod plan;
pub mod rand;
pub mod readback;
pub mod seeds;
mod thread;
pub mod units;

pub use apply::nearest_engine;
pub use dist::ZetanCache;
pub use env::{Env, NoEnv};
pub use error::{Clash, ExpressionError, ValueError};
pub use error::{GeneratorError, ParseError, ParseFault, Place};
pub use generator::{Alike, Generator, Space, Step};
pub use io::{Check, FileId, Io};
pub use job::{Job, Prio, Rw};
pub use latency::{LatencyTarget, Verdict};
pub use pacer::{Gate, HeldUp, Pacer, RateTooLow, Think};
pub use plan::{Note, ParseOptions, Plan, parse_args, parse_file};
pub use thread::{JobId, Thread};
pub use units::Size;
