//! Tasks and cores: threads and what they wait for, processor time in segments, CFS, interrupts, ticks and
//! idle states.

pub(crate) mod background;
pub(crate) mod core;
mod cores;
pub mod idle;
mod run;
pub(crate) mod thread;
