//! The tests of this crate are one program: it is linked once, and its tests share all cores.

mod age;
mod common;
mod ftl;
mod limits;
mod power;
mod steady;
mod tree;
