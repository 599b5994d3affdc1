//! What can go wrong, with the remedy.

use std::path::Path;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Input that cannot be used: nothing was begun or changed.
    #[error("{0}")]
    Usage(String),
    /// It failed while it ran.
    #[error("{0}")]
    Run(String),
}

impl Error {
    pub fn usage(text: impl Into<String>) -> Error {
        Error::Usage(text.into())
    }
    pub fn run(text: impl Into<String>) -> Error {
        Error::Run(text.into())
    }
    /// An error of the system before anything was begun.
    pub fn io(what: &str, path: &Path, e: std::io::Error) -> Error {
        use std::io::ErrorKind::*;
        let remedy = match e.kind() {
            NotFound => ": check the path",
            PermissionDenied | ReadOnlyFilesystem => {
                ": change its permissions or name another place"
            }
            StorageFull | QuotaExceeded => ": free space there or name another place",
            FileTooLarge => ": raise the limit on file size (ulimit -f) or name another place",
            AlreadyExists => ": name another, or remove it",
            _ => "",
        };
        Error::Usage(format!("{what} {}: {e}{remedy}", path.display()))
    }
}
