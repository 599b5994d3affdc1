//! A flash translation layer for the host, after FSSD (docs/design/hostflash.md): extents in a B+tree, a
//! log on flash, a collector, checkpoints and recovery.
#![forbid(unsafe_code)]

mod arena;
mod tree;

pub use tree::{Extent, Full, LOST, Tree};
