//! The drive: NVMe queues and arbitration, PCIe link, firmware cores, DRAM cache, and the flash behind.
#![forbid(unsafe_code)]

mod arbiter;
mod background;
mod cache;
pub mod config;
pub mod controller;
mod execute;
mod firmware;
mod limits;
mod link;
pub mod queue;
mod readahead;
pub mod stats;

#[cfg(test)]
mod tests;

pub use cache::CacheStats;
pub use config::{DeviceConfig, DriveConfig, SwitchConfig};
pub use controller::Controller;
pub use link::Switch;
pub use queue::{Posted, QueueFull};
pub use stats::{DeviceStats, ENERGY_STATES, Energy, OPCODES, Waits};
