//! Programs as workloads: a log-structured merge tree and a B-tree with checkpoints, down to the
//! I/Os of each of their threads. Sans-IO: asked what a thread does next, told what came back.
//!
//! What the two stand for, and what they leave out: docs/design/app.md.
#![forbid(unsafe_code)]

mod btree;
mod config;
mod lru;
mod lsm;
mod ops;
mod shell;
mod space;
mod ycsb;

pub use btree::Btree;
pub use config::{AppConfig, BtreeConfig, BtreeCost, LsmConfig, LsmCost, Mix, Wal, Write};
pub use lru::Lru;
pub use lsm::Lsm;
pub use lsm::tree::{Entry, Shape, Tree};
pub use ops::{OpReport, Report};
pub use shell::{App, Doing, ThreadShape};
pub use space::{Extent, Space};
pub use ycsb::{Latest, Scrambled, Zipfian};
