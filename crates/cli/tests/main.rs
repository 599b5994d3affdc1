//! The tests of this crate are one program: it is linked once, and its tests share all cores.

mod browser;
mod cli;
mod live;
mod skip;
