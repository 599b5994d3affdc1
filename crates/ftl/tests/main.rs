//! The tests of this crate are one program: it is linked once, and its tests share all cores.

mod common;
mod in_place;
mod keys;
mod model;
mod pieces;
mod rail;
mod smoke;
mod state;
mod theory;
