//! Arrays of drives as Linux md has them: where each byte is, and the stripe cache of RAID-5.
//!
//! A machine without clock or I/O. What it wants done is I/O to members by their numbers in the array;
//! who drives it, a host's kernel, does that and pays for the work in processor time.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod config;
pub mod contents;
mod layout;
pub mod raid5;

pub use config::{Collect, Level, MdConfig, PAGE};
pub use layout::{ArrayError, Layout, Piece};
pub use raid5::{Added, Disks, Guards, Io, Member, Out, PageOf, Pass, Raid5, Stats, To, What};

#[cfg(test)]
mod tests;
