//! The tests of this crate are one program: it is linked once, and its tests share all cores.

mod fio_oracle;
mod fuzz;
mod many_files;
