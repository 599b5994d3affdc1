//! What every part of the machine shares: time, the event queue, timelines, random streams, latency
//! histograms, compact storage, and the life of an I/O. Nothing here knows about flash.
#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod bitmap;
pub mod class;
pub mod contents;
pub mod counters;
pub mod ctx;
pub mod error;
pub mod event;
pub mod hist;
pub mod id;
pub mod id_vec;
pub mod ledger;
pub mod life;
pub mod near;
pub mod prefetch;
pub mod rng;
pub mod runs;
pub mod slab;
pub mod stamps;
pub mod time;
pub mod timeline;
pub mod track;
pub mod versions;

pub use bitmap::BitMap;
pub use class::{IoClass, Priority, QueuePriority, Workload};
pub use contents::{Contents, PageData};
pub use ctx::Ctx;
pub use error::BadValue;
pub use event::{Event, EventQueue, Kind};
pub use hist::Histogram;
pub use id::{Ddir, IoId, Lpn, SECTOR, SECTOR_SHIFT, SectorSize};
pub use id_vec::{Id, IdVec};
pub use life::{Layer, Life, Lives, Step, Why};
pub use near::nearest;
pub use prefetch::prefetch;
pub use rng::{Rng, Seed};
pub use runs::{Runs, SharedRuns};
pub use slab::Slab;
pub use stamps::Stamps;
pub use time::{Span, SpanError, Time};
pub use timeline::Timeline;
pub use track::Tracks;
pub use versions::{SharedVersions, Versions};

pub use wordline_huge::{Array, Number, StateSource, as_bytes, at_once, beside, checksum, threads};
