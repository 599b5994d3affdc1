//! A file of the cache: one that is whole, and one that is being written.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::SystemTime;
use wordline_sim::{About, LoadError};

/// How the names of files end: of a whole one, and of one that is not.
pub const DRIVE: &str = "drive";
pub const PART: &str = "part";

/// An aged drive of the cache.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// Its file.
    pub path: PathBuf,
    /// Size of the file.
    pub bytes: u64,
    /// When it was used last, or made.
    pub used: SystemTime,
    /// What it is, unless the file is damaged.
    pub about: Result<Kept, LoadError>,
}

/// What an entry says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    /// Names of its profiles.
    pub device: String,
    /// The FTL's profile.
    pub ftl: String,
    /// How it was prepared.
    pub prepared: &'static str,
}

impl Entry {
    pub(crate) fn of(path: PathBuf) -> io::Result<Entry> {
        let file = File::open(&path)?;
        let of = file.metadata()?;
        let about = About::load(&mut BufReader::new(file)).map(|about| Kept {
            device: about.device,
            ftl: about.ftl,
            prepared: about.prepared.map_or("", |how| how.name()),
        });
        Ok(Entry { path, bytes: of.len(), used: of.modified()?, about })
    }
}

/// An entry that this process alone may write.
#[derive(Debug)]
pub struct Part {
    path: PathBuf,
    file: File,
}

impl Part {
    /// Locks the file, and makes it if need be. `wait` is called once if another process has it; none if it
    /// is not there any more after that.
    pub fn lock(path: PathBuf, wait: &mut dyn FnMut()) -> io::Result<Option<Part>> {
        let file = fs::OpenOptions::new().create(true).write(true).truncate(false).open(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                wait();
                file.lock()?;
            }
            Err(TryLockError::Error(e)) => return Err(e),
        }
        let part = Part { path, file };
        Ok(part.is_there()?.then_some(part))
    }
    /// The name still leads to this file.
    fn is_there(&self) -> io::Result<bool> {
        let own = self.file.metadata()?;
        match fs::metadata(&self.path) {
            Ok(there) => Ok((there.dev(), there.ino()) == (own.dev(), own.ino())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }
    pub fn file(&self) -> &File {
        &self.file
    }
    /// Bytes that are free where it is.
    pub fn room(&self) -> Option<u64> {
        let fs = rustix::fs::fstatvfs(&self.file).ok()?;
        Some(fs.f_bavail * fs.f_frsize)
    }
    /// It is whole: others find it. It is not synced: what a loss of power leaves of it has another checksum
    /// than it should, and costs no more than ageing the drive anew.
    pub fn finish(&self, extension: &str) -> io::Result<()> {
        fs::rename(&self.path, self.path.with_extension(extension))
    }
    /// It will not be.
    pub fn give_up(&self) {
        let _ = fs::remove_file(&self.path);
    }
    /// Removes one that nobody writes: its bytes.
    pub fn remove(path: PathBuf) -> io::Result<u64> {
        let Ok(file) = fs::OpenOptions::new().write(true).open(&path) else { return Ok(0) };
        if file.try_lock().is_err() {
            return Ok(0);
        }
        let part = Part { path, file };
        if !part.is_there()? {
            return Ok(0);
        }
        let bytes = part.file.metadata()?.len();
        fs::remove_file(&part.path)?;
        Ok(bytes)
    }
}
