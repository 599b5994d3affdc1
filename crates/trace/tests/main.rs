//! The tests of this crate are one program: it is linked once, and its tests share all cores.

mod columns;
mod common;
mod examples;
mod formats;
mod fuzz;
mod stream;
