//! What is between an application and a drive besides the block layer: file systems, network block devices,
//! arrays, an FTL on the host and the scheduler in front of it, the collector alone on the host.

pub(crate) mod admit;
pub(crate) mod collector;
pub(crate) mod map_lock;
pub(crate) mod md;
pub mod nbd;
pub(crate) mod pblk;
pub(crate) mod staging;
pub mod vfs;
