//! What can go wrong, with the remedy.

use std::io;
use std::path::{Path, PathBuf};
use wordline_base::BadValue;

/// What ends a command of live serving. [`Error::is_usage`] tells what was given wrongly from what failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum Error {
    /// A setting of the profile makes no drive.
    #[error(transparent)]
    Setting(#[from] BadValue),
    #[error(transparent)]
    Unserved(#[from] Unserved),
    #[error("the profile is longer than 64 KiB: leave comments out")]
    LongProfile,
    /// No number of blocks gives a drive of this size.
    #[error("no drive of {size} bytes can be made of this profile: {}", .why.as_ref().map_or_else(
        || "no number of blocks gives it".into(), ToString::to_string
    ))]
    Size { size: u64, why: Option<BadValue> },
    #[error(
        "this configuration has {here} sectors and the image {image}: leave --ftl and --set out to \
         serve it as it was made"
    )]
    Sectors { here: u64, image: u64 },
    /// A file that cannot be served.
    #[error("the image {} {fault}", .path.display())]
    Image { path: PathBuf, fault: ImageFault },
    /// A folder that the drive cannot be mounted on.
    #[error("cannot mount the drive on {}: {fault}", .folder.display())]
    Mount { folder: PathBuf, fault: MountFault },
    /// A file that holds no session to replay.
    #[error("the tape {} {fault}", .path.display())]
    Tape { path: PathBuf, fault: TapeFault },
    #[error(
        "--tape: too few blocks of the drive are good to write, so that it is only read and there is nothing to \
         record: leave the option out"
    )]
    NothingToTape,
    #[error("{place} can be reached by others: {remedy}")]
    Open { place: String, remedy: &'static str },
    #[error("'{0}': no such host; write tcp:127.0.0.1:10809")]
    Host(String),
    #[error("'{0}' is no address: write unix:PATH or tcp:HOST:PORT")]
    Address(String),
    #[error("cannot listen on {place}: {fault}")]
    Listen { place: String, fault: ListenFault },
    #[error("another server listens on {}: name another socket by --control", .0.display())]
    ControlInUse(PathBuf),
    #[error("cannot listen on {}: {why}; name another socket by --control", .path.display())]
    Control { path: PathBuf, why: io::Error },
    #[error(
        "the server at {} does not answer ({why}): start one with wordline serve --fuse DIR, or name \
         another socket by --control", .socket.display()
    )]
    NoAnswer { socket: PathBuf, why: String },
    /// A server's own words.
    #[error("{0}")]
    Refused(String),
    #[error("what answers at {} is no server of this version: '{told}'", .socket.display())]
    Foreign { socket: PathBuf, told: String },
    #[error("no NBD server answers on {server}: {why}: start it first")]
    NoServer { server: String, why: io::Error },
    #[error(
        "--image-io uring: io_uring cannot be used: {why}{}; or leave the option out, for --image-io \
         pwrite needs nothing", hint(.why)
    )]
    NoRing { why: io::Error },
    #[error("cannot use {}: {why}", .file.display())]
    Certificate { file: PathBuf, why: String },
    #[error("TLS: {0}")]
    Tls(String),
    #[error(
        "--tls: this program was built without TLS: build it with `cargo build --release -p wordline-cli \
         --features tls`, or install it with `cargo install --locked --path crates/cli --features tls`"
    )]
    NoTls,
    /// The system refused something before anything was begun.
    #[error("{what} {}: {why}{}", .path.display(), remedy(.why))]
    Io { what: &'static str, path: PathBuf, why: io::Error },
    /// It failed while it ran.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// What fails while something runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum RunError {
    #[error("cannot start: {0}")]
    Start(io::Error),
    #[error("cannot make a temporary file: {0}")]
    Temporary(io::Error),
    #[error(
        "the image {path} is damaged, and what is newest is not known of all of it: {}. `wordline \
         image check --salvage OUT {path}` writes what is known to a file and lists the rest, \
         `wordline serve --salvage --image {path}` serves it read only", .reasons.join("; "),
        path = .path.display()
    )]
    Damaged { path: PathBuf, reasons: Vec<String> },
    #[error("the image {} cannot be recovered: {why}", .path.display())]
    Unrecovered { path: PathBuf, why: String },
    #[error(
        "the image {} could not be written to the end: {why}; what was flushed before is in it",
        .path.display()
    )]
    Image { path: PathBuf, why: String },
    #[error("the tape {} is cut: {why}", .path.display())]
    TapeCut { path: PathBuf, why: String },
    #[error("the tape {} was changed while it was replayed", .0.display())]
    TapeChanged(PathBuf),
    #[error(
        "the replay of {} differs from the session before input {input}: another version of the \
         program recorded it", .path.display()
    )]
    Differs { path: PathBuf, input: u64 },
    #[error(
        "the replay of {} has {here} events before record {record}, the session had {there}: another \
         version of the program recorded it", .path.display()
    )]
    Events { path: PathBuf, record: u64, here: u64, there: u64 },
    #[error(
        "the model's time is over, after 34 years of it: the drive was shut down in good order, and the image has all \
         that was written. Start the server again; with a larger --time-scale it takes longer"
    )]
    TimeOver,
    #[error(
        "{0} look-ups of the model did not find the newest write: this is a defect of wordline. \
         'wordline image check' looks at all that is in the image"
    )]
    WrongReads(u64),
    #[error("the log is cut short: {0}")]
    Log(String),
}

/// Why no image can be kept of a drive.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum Unserved {
    #[error(
        "a drive whose medium is written in place (nand.in_place) is not served: an image keeps \
         lines, written in order, from which the map is rebuilt. With --set nand.in_place=false \
         the same medium is written in lines"
    )]
    InPlace,
    #[error(
        "a bridge over several drives (bridge.drives) is not served: an image keeps one drive. Take \
         the profile of a drive behind it"
    )]
    Bridge,
    #[error(
        "a drive with sectors of {0} bytes (nand.sector_bytes) is not served: an image has sectors of \
         4096. --set nand.sector_bytes=4096 gives it such, and clients may write 512 bytes all the same"
    )]
    SectorBytes(u32),
}

/// Why a file is no tape to replay. The file is not named.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum TapeFault {
    #[error("is no file, and is read more than once: copy it to one")]
    NoFile,
    #[error("is no tape: name one that `wordline serve --tape` made")]
    Foreign,
    #[error("has another version of the format: replay it with the program that made it")]
    Version,
    #[error("is cut short before its first input: there is nothing to replay")]
    Short,
    #[error("is damaged: its head is impossible")]
    Head,
    #[error("is damaged: the checksum of its head does not fit")]
    Checksum,
    #[error("is damaged: record {0} is not whole, and others follow")]
    Torn(u64),
    #[error("is damaged: record {record} {what}")]
    Record { record: u64, what: &'static str },
}

/// Why nobody can be listened to at a place.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum ListenFault {
    #[error("another server listens there: stop it or name another")]
    InUse,
    #[error("a file that is no socket is there: name another place")]
    NoSocket,
    #[error("not permitted: name another place")]
    Permission,
    #[error("no such folder: make it or name another")]
    NoFolder,
    #[error("this machine does not have that address")]
    NoAddress,
    #[error(transparent)]
    Other(io::Error),
}

impl From<io::Error> for ListenFault {
    fn from(e: io::Error) -> ListenFault {
        match e.kind() {
            io::ErrorKind::AddrInUse => ListenFault::InUse,
            io::ErrorKind::PermissionDenied => ListenFault::Permission,
            io::ErrorKind::NotFound => ListenFault::NoFolder,
            io::ErrorKind::AddrNotAvailable => ListenFault::NoAddress,
            _ => ListenFault::Other(e),
        }
    }
}

/// Why a file is no image to serve. The file is not named.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum ImageFault {
    #[error("is in use: stop the server that has it open, or name another")]
    InUse,
    #[error("was made by another server in the meantime: start again to serve it, or name another")]
    Appeared,
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
    #[error("has another geometry than its profile: it is damaged")]
    Geometry,
    #[error(
        "is damaged: it is {bytes} bytes long and should be {due}: make a copy, give that this length (truncate -s {due}), \
         and wordline image check tells what is lost"
    )]
    Length { bytes: u64, due: u64 },
}

/// Why a folder cannot have the drive in it. The folder is not named.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
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
    /// An error of the system before anything was begun.
    pub(crate) fn io(what: &'static str, path: &Path, why: io::Error) -> Error {
        Error::Io { what, path: path.into(), why }
    }
}

fn remedy(why: &io::Error) -> &'static str {
    use io::ErrorKind::*;
    match why.kind() {
        NotFound => ": check the path",
        PermissionDenied | ReadOnlyFilesystem => ": change its permissions or name another place",
        StorageFull | QuotaExceeded => ": free space there or name another place",
        FileTooLarge => ": raise the limit on file size (ulimit -f) or name another place",
        AlreadyExists => ": name another, or remove it",
        _ => "",
    }
}

/// What may be in io_uring's way.
fn hint(why: &io::Error) -> &'static str {
    use rustix::io::Errno;
    match Errno::from_io_error(why) {
        Some(Errno::NOSYS) => ": this kernel has none, or the container hides it",
        Some(Errno::PERM | Errno::ACCESS) => {
            ": it is forbidden here; see sysctl kernel.io_uring_disabled, and in a container its \
             seccomp profile"
        }
        _ => "",
    }
}
