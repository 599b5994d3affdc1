//! One run in virtual time: the host and the drive on one event queue, and what came out of it.
#![forbid(unsafe_code)]

pub mod collect;
pub mod result;

pub use result::*;
