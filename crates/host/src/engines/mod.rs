//! What submits I/O and takes it back: fio's loop with its engines, and drives taken from the kernel.

mod direct;
pub(crate) mod fio;
mod spdk;
mod uring;
