//! A file system of Linux: page cache, ext4 with jbd2, or XFS with its log, between system calls
//! and the block layer.
//!
//! The machine runs tasks: those of applications, which bring it system calls ([`Fs::call`]), and
//! its own kernel threads. Whoever runs a task asks what it does next ([`Fs::run`]): processor time,
//! a bio to submit, or sleep until [`Fs::poll_wake`] names it. Completions come in by
//! [`Fs::bio_done`], the clock by [`Fs::on_timer`] at [`Fs::deadline`].
//!
//! Inside, a task is a stack of frames, one for each function of the kernel that may sleep; a
//! frame's step looks at the state anew whenever it is run, as the kernel's wait loops do.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cache;
pub mod config;
mod disk;
mod extents;
mod fs;
mod inode;
mod lock;
mod readahead;
mod space;
pub mod stats;

pub use config::{Atime, DataMode, Ext4Config, FsConfig, FsCost, FsKind, XfsConfig};
pub use fs::{Advice, Bio, BioKind, Fs, Lack, Op, Turn, Wait, What};
pub use stats::FsStats;
