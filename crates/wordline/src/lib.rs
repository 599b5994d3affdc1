//! One NVMe storage stack, from the application's call to the NAND word line, as one deterministic
//! machine in virtual time.
//!
//! A run goes through four types, each made from the one before:
//!
//! | type | what it is |
//! |---|---|
//! | [`Plan`] | a [`System`], a [`Workload`], a seed, and the state that its drives are to be in |
//! | [`Checked`] | fresh drives and the threads of the workload: what is wrong with jobs and traces has shown |
//! | [`Prepared`] | the same with aged drives |
//! | [`Run`] | the machine under way: step it, stop it, ask how far it is |
//!
//! and ends as a [`RunResult`]. The same plan gives the same result, bit for bit.
//!
//! ```
//! use wordline::{Plan, Precondition, System, jobs};
//!
//! let system = System::preset("z-ssd-small", "linux-libaio")?;
//! let job = "[readers]\nrw=randread\nbs=4k\niodepth=8\nnumber_ios=1000\nnorandommap\n";
//! let mut plan = Plan::new(system, jobs("readers.fio", job)?);
//! plan.state = Precondition::Fill;
//! let result = plan.prepare()?.start()?.to_end();
//! result.verdict()?;
//!
//! let reads = &result.threads[0].dirs[0];
//! assert_eq!(reads.total_ios, 1000);
//! // Nanoseconds. A read of Z-NAND takes 3 us, and the host's part comes to it.
//! assert!(reads.lat.mean() > 3_000.0);
//! # Ok::<(), wordline::Error>(())
//! ```
//!
//! A trace that is in memory is replayed in the same way (what reads it from elsewhere is
//! [`Plan::logs`]):
//!
//! ```
//! use wordline::{Plan, System};
//!
//! let csv = "128166372003061629,hm,0,Read,4096,4096,100\n128166372016853991,hm,0,Write,8192,4096,90\n";
//! let plan = Plan::replay(System::preset("z-ssd-small", "linux-libaio")?, "hm.csv", csv);
//! let result = plan.prepare()?.start()?.to_end();
//! assert_eq!(result.machine.served, 2);
//! # Ok::<(), wordline::Error>(())
//! ```
//!
//! # Units
//!
//! [`Time`] and [`Span`] are nanoseconds. A name that ends in `_ns`, `_us`, `_j`, `_w`, `_bytes` or
//! `_sectors` has that unit; a sector is 4,096 bytes, whatever the logical block of the drive. Shares are
//! from 0 to 1, percentiles from 0 to 100.
//!
//! A [`RunResult`] is `serde::Serialize`, whole: its fields by their names, those that are a [`Time`] or a
//! [`Span`] as numbers of nanoseconds with `_ns` behind the name. The JSON of the command line is fio's
//! ([`report::fio_json`]).
//!
//! # Errors
//!
//! [`Error`] tells what could not be used, by kind; its text names the place and the remedy.
//! [`RunError`] tells why the numbers of a finished run are not those of a whole run.
#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::missing_errors_doc)]

mod align;
mod error;
mod nodes;
mod parts;
mod plan;
mod run;
mod scale;
mod system;
mod topology;

pub use error::{Error, Misaligned, StateError};
pub use nodes::{HostNode, NetworkNode, Node, Nodes, SwitchNode};
pub use plan::{Checked, Logs, NoLogs, Plan, Prepared, Replay, Step, Watch, Workload, jobs};
pub use run::{Expected, Run};
pub use scale::{Scale, ScaleError, Scaled};
pub use system::System;
pub use topology::{Common, Entries, Named, Presets, Profiles, Topology, with_options};

pub use wordline_base::{
    BadValue, Ddir, Layer, Life, Seed, Span, SpanError, StateSource, Time, Why,
};
pub use wordline_fio::{Job, Plan as Jobs, ZetanCache};
pub use wordline_huge::MappedFile;
pub use wordline_md::{Level, MdConfig};
pub use wordline_profile::{Config, ConfigError, ReadFile, Source, Sources};
pub use wordline_sim::{BuildError, JobError, JobFault, LoadError};
pub use wordline_sim::{Drive, Options, Precondition, RunError, RunResult, ThreadSetup};
pub use wordline_trace::{Align, Clock, OpenOptions, Reader, Wrap, open as open_trace};
pub use wordline_translation::Ended;

/// Results as text, JSON, terse and logs, in fio's formats.
pub use wordline_report as report;

/// What an FTL from outside is written against.
pub mod translation {
    pub use wordline_base::{BadValue, Ctx, IdVec, Kind, Lpn, PageData, Stamps, StateSource};
    pub use wordline_ftl::{FtlConfig, FtlKind};
    pub use wordline_nand::{BlockId, Class, Geometry, LineId, LunId, Outcome, Ppa};
    pub use wordline_translation::*;
}
