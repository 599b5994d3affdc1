//! NAND flash: geometry, timing, and the state machines of LUNs and channels.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod class;
pub mod config;
mod decoder;
mod errors;
pub mod geometry;
pub mod machine;
mod op;
mod script;
mod variation;

pub use class::{Class, PerClass};
pub use config::{
    Cell, ChannelOrder, DecoderConfig, ErrorConfig, ErrorModel, NandConfig, PerPage, SlcMode,
    Suspend, VariationConfig,
};
pub use decoder::on_new_drive as decoding_on_new_drive;
pub use errors::{Reread, mean_rereads};
pub use geometry::{BlockId, ChannelId, Geometry, LineId, LunId, Ppa, UnitId};
pub use machine::gang::Joined;
pub use machine::{Counters, Nand};
pub use op::{Op, OpKind, Outcome, Record};
pub use script::{ScriptError, ScriptFault, check_script};
