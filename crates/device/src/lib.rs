//! The drive: NVMe queues and arbitration, PCIe link, firmware cores, DRAM cache, and the flash behind.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod arbiter;
mod bridge;
mod cache;
pub mod config;
pub mod controller;
mod dram;
mod firmware;
mod front;
mod ghost;
mod guard;
mod limits;
mod link;
mod partition;
mod power;
pub mod queue;
mod readahead;
mod recency;
mod sata;
pub mod stats;
mod stripes;

pub use bridge::{Bridge, BridgeStats, Member, Sent};
pub use cache::CacheStats;
pub use config::{BridgeConfig, DeviceConfig, DriveConfig, SasConfig, SwitchConfig};
pub use controller::Controller;
pub use front::Starved;
pub use guard::GuardStats;
pub use link::Switch;
pub use partition::PARTITION_NAMES;
pub use power::PowerStats;
pub use queue::{Posted, QueueFull};
pub use sata::{SataConfig, SataTimes};
pub use stats::{CachePartition, CachedClass, DeviceStats, ENERGY_STATES, Energy, OPCODES, Waits};
pub use stripes::{Piece, Stripes};
