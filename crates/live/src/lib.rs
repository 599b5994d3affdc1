//! The same drive serving real bytes: the machine of the simulator driven by the clock, its flash
//! kept in an image file (docs/design/live.md).
//!
//! Threads, files, sockets and clocks live here; no policy does.
#![warn(missing_docs)]
// Only `ring` allows it.
#![deny(unsafe_code)]

mod access;
pub mod check;
mod clock;
mod conn;
pub mod control;
mod error;
pub mod fit;
mod fuse;
mod http;
pub mod image;
pub mod listen;
pub mod machine;
pub mod media;
mod mount;
pub mod pages;
pub mod record;
pub mod recover;
mod ring;
mod server;
mod smeta;
mod stats;
mod table;
pub mod tape;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod turns;
pub mod writer;

pub use access::{Act, ImageIo, Journal};
pub use error::{Error, ImageFault, ListenFault, MountFault, RunError, TapeFault, Unserved};
pub use listen::Address;
pub use server::{Plan, Server, StatsForm};
