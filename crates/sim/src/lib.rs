//! One run in virtual time: hosts and drives on one event queue, and what came out of it.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod ageing;
mod app;
mod caution;
mod check;
mod classes;
pub mod collect;
pub mod cpu;
pub mod disks;
mod drive;
mod error;
mod files;
pub mod host;
mod interval;
mod iolog;
pub mod job;
mod net;
pub mod notes;
mod pace;
mod polled;
mod recorded;
pub mod replay;
pub mod result;
mod seat;
pub mod setup;
mod shares;
pub mod steady;
pub mod thread;
pub mod topology;
mod unused;
pub mod world;

pub use ageing::{WriteSampler, Writing};
pub use app::{AppSource, SharedApp};
pub use check::Units;
pub use disks::{JobDisk, JobDisks};
pub use drive::{About, Drive, Look, Precondition};
pub use error::{BuildError, JobError, JobFault, LoadError};
pub use job::JobSource;
pub use recorded::Recorded;
pub use replay::TraceSource;
pub use result::*;
pub use shares::{Shares, Speeds};
pub use thread::ThreadPlan;
pub use topology::{
    ArrayNode, BridgeNode, DriveNode, HostConfig, NetworkConfig, Part, Route, SystemConfig,
    TopologyError,
};
pub use unused::{InUse, unused};
pub use world::{AnySource, ExitRule, Options, Start, ThreadSetup, World};
