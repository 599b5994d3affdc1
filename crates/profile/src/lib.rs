//! Profiles: device, FTL, stack and testbed files in TOML, the presets among them, and one
//! [`Config`] assembled from four such sources and overrides from the command line.
//!
//! Nothing here opens a file: callers hand in text and the name to report errors under, and what reads the files
//! that this text names.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bridge;
mod check;
mod config;
mod de;
mod derive;
mod document;
mod error;
mod explain;
mod flashshare;
mod preset;
mod tree;

pub use config::{Beside, Config, Inside, Places, assemble, assemble_with_places};
pub use config::{PathKind, host_memory, paths, settings, value_at};
pub use config::{ReadFile, Source, Sources};
pub use config::{resolved_device, resolved_stack, resolved_toml};
pub use derive::{
    AtDepth, Bound, Capacity, Chosen, Derived, Peak, ReadAgain, SlcBuffer, Stage, Throttled,
    derive, drawn_write_amplification, fifo_write_amplification, rate_at_depth,
    uniform_write_amplification,
};
pub use document::Document;
pub use error::{ConfigError, Problem};
pub use explain::explain;
pub use flashshare::SYSTEMS;
pub use preset::{Kind, Preset, find, is_preset, list, presets, show};
