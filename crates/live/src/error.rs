//! What can go wrong, with the remedy.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Input that cannot be used: nothing was begun or changed.
    #[error("{0}")]
    Usage(String),
    /// A file that cannot be served.
    #[error("the image {} {fault}", .path.display())]
    Image { path: PathBuf, fault: ImageFault },
    /// A folder that the drive cannot be mounted on.
    #[error("cannot mount the drive on {}: {fault}", .folder.display())]
    Mount { folder: PathBuf, fault: MountFault },
    /// It failed while it ran.
    #[error("{0}")]
    Run(String),
}

/// Why a file is no image to serve. The file is not named.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ImageFault {
    #[error("is in use: stop the server that has it open, or name another")]
    InUse,
    #[error("is not an image of wordline: it is too short")]
    Short,
    #[error("is not an image of wordline: name one that `wordline serve` made")]
    Foreign,
    #[error(
        "has format version {found}, this program reads and writes {ours}: copy its data over NBD with \
         the program that made it"
    )]
    Version { found: u32, ours: u32 },
    #[error("is damaged: the superblock's checksum does not fit")]
    Superblock,
    #[error("is damaged: the profile's checksum does not fit")]
    Profile,
    #[error("is damaged: its profile is not text")]
    ProfileText,
    #[error("is damaged: it is {bytes} bytes long and should be {due}")]
    Length { bytes: u64, due: u64 },
}

/// Why a folder cannot have the drive in it. The folder is not named.
#[derive(Debug, thiserror::Error)]
pub enum MountFault {
    #[error("no such folder: make it or name another")]
    NoFolder,
    #[error("it is no folder: name another")]
    NotAFolder,
    #[error("it is not empty: name another folder")]
    NotEmpty,
    #[error("it has no name")]
    NoName,
    #[error("this system has no FUSE (/dev/fuse): load its module, or use --nbd")]
    NoFuse,
    #[error("something else is mounted there that answers nobody: unmount it")]
    Occupied,
    #[error("a killed server's mount is in the way: unmount it")]
    Stale,
    /// Neither this process nor the system's helper may mount.
    #[error("{own}; by fusermount3: {helper}")]
    Refused { own: Box<MountFault>, helper: Box<MountFault> },
    #[error("/dev/fuse: {0}")]
    Device(io::Error),
    #[error("mount: {0}")]
    Call(io::Error),
    #[error("{0}: install fuse3")]
    NoHelper(io::Error),
    /// What the helper says.
    #[error("{0}")]
    Helper(String),
    #[error("it handed nothing over")]
    NothingHanded,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<rustix::io::Errno> for MountFault {
    fn from(e: rustix::io::Errno) -> MountFault {
        MountFault::Io(e.into())
    }
}

impl Error {
    /// The input cannot be used: nothing was begun or changed.
    pub fn is_usage(&self) -> bool {
        !matches!(self, Error::Run(_))
    }
    pub fn usage(text: impl Into<String>) -> Error {
        Error::Usage(text.into())
    }
    pub fn run(text: impl Into<String>) -> Error {
        Error::Run(text.into())
    }
    /// An error of the system before anything was begun.
    pub fn io(what: &str, path: &Path, e: io::Error) -> Error {
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
