//! The tests of this crate are one program: it is linked once, and its tests share all cores.

mod bench;
mod programs;
mod servers;
