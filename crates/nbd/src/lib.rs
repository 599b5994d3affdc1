//! The NBD protocol without sockets: bytes in, requests out, replies in, bytes out
//! (NetworkBlockDevice/nbd, doc/proto.md). [`Session`] is the server's side of one connection,
//! [`Client`] the other side over anything that reads and writes, [`Tap`] listens to both.
//!
//! Served: the fixed newstyle handshake, structured replies, block status with `base:allocation`,
//! STARTTLS. Left out: the oldstyle handshake, extended headers, resize, the `qemu:` contexts.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod client;
mod output;
mod session;
mod tap;
mod wire;

pub use client::{Client, ClientError, Info, Reply};
pub use session::{Event, Export, Kind, Limits, Request, Session, Tls};
pub use tap::{Seen, Tap};
pub use wire::*;

#[cfg(test)]
mod tests;
