//! What a job file may ask of the world around it. The parser reads no file and no environment of
//! its own: the caller gives it these.

use std::io;

/// Files for `include` and for job files named on a command line, values for `${NAME}`, and the
/// machine's numbers behind `$pagesize`, `$mb_memory` and `$ncpus`.
pub trait Env {
    /// The text of a file. The error's text is without the path.
    fn read_file(&mut self, path: &str) -> io::Result<String>;

    /// An environment variable; None reads as the empty string, as in fio.
    fn var(&self, name: &str) -> Option<String>;

    /// The value of `pagesize` (bytes), `mb_memory` (MiB) or `ncpus`: the environment variable of that
    /// name. fio takes its machine's. A run here is the same on every machine, so a job that uses one
    /// without a value is an error.
    fn keyword(&self, name: &str) -> Option<u64> {
        let given = self.var(name).and_then(|text| text.trim().parse().ok());
        given.or((name == "pagesize").then_some(4096))
    }
}

/// No files, no variables.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEnv;

impl Env for NoEnv {
    fn read_file(&mut self, _path: &str) -> io::Result<String> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "files cannot be read here"))
    }
    fn var(&self, _name: &str) -> Option<String> {
        None
    }
}
