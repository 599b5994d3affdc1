//! Streaming readers of block traces, and what a replay needs beside them: a clock, a fit to the
//! size of the drive, and a writer of fio logs.
//!
//! A trace is read from any [`std::io::Read`], plain or compressed (gzip, zstd), and never held
//! whole. Every line is accounted for: it gives a request, is counted under a [`Reason`], or is an
//! error with its place. A trace that gives no request at all is an error.
//!
//! Trace content (data, FIU's digests) is not carried: the simulator's sectors hold versions.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod alibaba;
mod blkparse;
mod blktrace;
mod cloudphysics;
mod columns;
mod detect;
mod error;
mod fiu;
mod format;
mod input;
pub mod iolog;
mod k5;
mod mqsim;
mod msr;
mod options;
mod oracle;
mod order;
mod reader;
mod records;
mod replay;
mod request;
mod sink;
mod spc;
mod summary;
mod systor17;
mod tencent;
mod text;
mod vscsi;
mod window;

pub use columns::{HELP as COLUMNS_HELP, address_unit};
pub use error::{ClockError, Place, TraceError, TraceFault, WordError};
pub use format::Format;
pub use iolog::IologWriter;
pub use options::{Action, IologWait, OpenOptions, TimeBase, TimeUnit};
pub use order::Restarts;
pub use reader::{Reader, open, open_merged};
pub use replay::{Align, Arrival, Clock, Fit, Rounded, Wrap};
pub use request::Request;
pub use summary::{Reason, Summary, Tally};
