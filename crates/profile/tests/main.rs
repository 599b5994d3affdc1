//! The tests of this crate are one program: it is linked once, and its tests share all cores.

mod errors;
mod figures;
mod files;
mod fuzz;
mod presets;
