//! I/O schedulers. `none` needs no code of its own: requests take a hardware tag when they are
//! allocated and go to the driver at once.

pub mod deadline;

pub use deadline::Deadline;
