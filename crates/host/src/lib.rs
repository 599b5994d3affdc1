//! The host: application threads, system calls, block layer, NVMe driver, interrupts, cores.
//!
//! [`Host`] is a machine without clock or I/O: inputs are events, completion entries and a stop;
//! outputs are commands, doorbells and finished I/Os. It runs jobs as fio does (pvsync2, libaio)
//! through the block layer and NVMe driver of Linux 4.14 on cores that each do one thing at a time,
//! and attributes every nanosecond of every I/O.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod block;
pub mod config;
mod disk;
mod driver;
mod engines;
mod error;
pub mod function;
mod host;
mod paths;
pub mod source;
pub mod stats;
mod tasks;

pub use block::sched;
/// A thread of a host.
pub(crate) type ThreadId = u32;
/// A core of a host.
pub(crate) type CoreId = u32;
/// A block device of a host.
pub(crate) type DiskId = u16;
/// A hardware queue of a host, numbered through all disks.
pub(crate) type HctxId = u16;
/// A connection of a host.
pub(crate) type EndId = u16;
/// A request by its place in the block layer, which schedulers keep tables by.
pub(crate) type RequestId = u32;

pub use config::{Engine, Scheduler, StackConfig};
pub use disk::{ArrayShape, DISK_SHIFT, DiskShape, DiskSpec, DriveInfo, address, disk_of};
pub use error::HostError;
pub use host::{Finished, Host, Output, QueuePair};
pub use paths::collector::GcOnHost;
pub use paths::md::ArrayStats;
pub use paths::nbd::Message;
pub use paths::vfs::tasks_of;
pub use source::{Next, Source, ThreadSpec};
pub use stats::{HostStats, ThreadStats};
pub use tasks::idle;
pub use wordline_md as md;

#[cfg(test)]
mod background_tests;
#[cfg(test)]
mod bio_tests;
#[cfg(test)]
mod flashshare_tests;
#[cfg(test)]
mod nbd_tests;
#[cfg(test)]
mod poll_tests;
#[cfg(test)]
mod tests;
