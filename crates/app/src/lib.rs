//! Programs as workloads, down to the I/Os of each of their threads: a log-structured merge tree, a B-tree
//! with checkpoints, servers, rounds over a graph, and a sort. Sans-IO: asked what a thread does next, told what came back.
//!
//! What the two stand for, and what they leave out: docs/design/app.md.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod btree;
mod config;
mod lru;
mod lsm;
mod ops;
mod pagerank;
mod server;
mod shell;
mod sort;
mod space;
mod turnaround;
mod ycsb;

pub use btree::Btree;
pub use config::{
    AppConfig, BtreeConfig, BtreeCost, LsmConfig, LsmCost, Mix, PageCost, SECTIONS, Wal, Write,
};
pub use lru::Lru;
pub use lsm::Lsm;
pub use lsm::tree::{Entry, Shape, Tree};
pub use ops::{Load, OpReport, Report};
pub use pagerank::PagerankConfig;
pub use server::{KvConfig, WebConfig};
pub use shell::{App, Doing, ThreadShape};
pub use sort::SortConfig;
pub use space::{Extent, Space};
pub use turnaround::{PARTS, Part, Turnaround, TurnaroundInterval, TurnaroundRow};
pub use ycsb::{Latest, Scrambled, Zipfian};
