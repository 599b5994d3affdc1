//! Aged drives kept on disk, so that a second run of the same drive begins at once.
//!
//! An entry is a state file whose head has all that the state depends on ([`Checked::ageing_key`]), and a
//! digest of the sources that age drives; its name is a digest of that. It is written under another name,
//! which is locked meanwhile: whoever needs the same drive waits for it. What cannot be read is removed and
//! aged anew, what cannot be kept is aged in every run; neither fails a run.
#![warn(missing_docs)]

mod digest;
mod entry;

pub use digest::{digest, digest_bytes};
pub use entry::{Entry, Kept};

use entry::Part;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use wordline::{Checked, Error, MappedFile, Watch};
use wordline_sim::About;

/// The sources that decide what an aged drive is.
const SOURCES: &str = env!("WORDLINE_AGEING_SOURCES");
/// Written at once.
const CHUNK: usize = 1 << 20;

/// What happens to the drive, for whoever watches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    /// Another process ages the same drive.
    Waiting,
    /// It is there, and is read.
    Loading,
    /// It was aged, and is written.
    Keeping,
    /// It is from this file.
    Used(PathBuf),
    /// What went wrong, and what follows from that.
    Note(String),
}

impl Said {
    /// A line for the user, if it is one that stays.
    pub fn line(&self) -> Option<String> {
        match self {
            Said::Used(path) => Some(format!(
                "the aged drive is from the cache, {} (--no-cache ages it anew)",
                path.display()
            )),
            Said::Note(text) => Some(text.clone()),
            Said::Waiting | Said::Loading | Said::Keeping => None,
        }
    }
    /// What goes on from here.
    pub fn doing(&self) -> Option<&'static str> {
        match self {
            Said::Waiting => Some("waiting for another process that ages the same drive"),
            Said::Loading => Some("loading the aged drive from the cache"),
            Said::Keeping => Some("keeping the aged drive in the cache"),
            Said::Used(_) | Said::Note(_) => None,
        }
    }
}

/// A folder of aged drives.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cache {
    folder: PathBuf,
    /// Bytes of all entries.
    most: u64,
}

/// Why a drive is not kept.
#[derive(Debug, thiserror::Error)]
enum NotKept {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it takes more than the {:.1} GiB that the cache may have (--cache-size)", gib(*.0))]
    Size(u64),
    #[error("what it depends on takes more than a MiB to write down, with so many jobs")]
    Key,
    #[error("it takes more than half of what is free there")]
    Room,
}

/// What came of looking for a drive.
enum Found {
    /// It is loaded.
    Loaded,
    /// It is not there, and nobody else ages it meanwhile.
    Nothing(Part),
}

impl Cache {
    /// Entries that nobody says another size for take so many bytes at most.
    pub const MOST: u64 = 20 << 30;

    /// The user's, in `$XDG_CACHE_HOME` or `~/.cache`. None where there is neither.
    pub fn of_user(most: u64) -> Option<Cache> {
        let absolute = |name: &str| {
            let path = PathBuf::from(std::env::var_os(name)?);
            path.is_absolute().then_some(path)
        };
        let folder =
            absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
        Some(Cache::new(folder.join("wordline/drives"), most))
    }
    /// A cache in a folder that is made with the first entry; it holds `most` bytes.
    pub fn new(folder: PathBuf, most: u64) -> Cache {
        Cache { folder, most }
    }
    /// Where the entries are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Brings the drive into the plan's state ([`Checked::age`]), from the cache if it has that.
    pub fn age(
        &self,
        checked: &mut Checked,
        watch: &mut dyn Watch,
        tell: &mut dyn FnMut(Said),
    ) -> Result<(), Error> {
        let Some(key) = checked.ageing_key() else { return checked.age(watch) };
        let key = format!("{SOURCES}\n{key}");
        if key.len() > About::TEXT {
            tell(Said::Note(self.not_kept(&NotKept::Key)));
            return checked.age(watch);
        }
        let part = match self.look(&key, checked, tell) {
            Ok(Found::Loaded) => return Ok(()),
            Ok(Found::Nothing(part)) => Some(part),
            Err(e) => {
                tell(Said::Note(self.not_kept(&NotKept::Io(e))));
                None
            }
        };
        checked.age(watch)?;
        if let Some(part) = part {
            tell(Said::Keeping);
            if let Err(why) = self.keep(part, &key, checked) {
                tell(Said::Note(self.not_kept(&why)));
            }
        }
        Ok(())
    }
    fn not_kept(&self, why: &NotKept) -> String {
        format!("the aged drive is not kept in {}: {why}", self.folder.display())
    }

    /// Loads the drive of this key, or locks its place.
    fn look(
        &self,
        key: &str,
        checked: &mut Checked,
        tell: &mut dyn FnMut(Said),
    ) -> io::Result<Found> {
        let path = self.folder.join(format!("{}.{}", digest(key), entry::DRIVE));
        loop {
            match File::open(&path) {
                Ok(file) => {
                    tell(Said::Loading);
                    let mut from = MappedFile::new(file.try_clone()?)?;
                    match checked.load_aged(key, &mut from) {
                        Ok(()) => {
                            // The entries used last are those that stay.
                            let _ = file.set_modified(SystemTime::now());
                            tell(Said::Used(path));
                            return Ok(Found::Loaded);
                        }
                        Err(why) => {
                            tell(Said::Note(format!(
                                "{} cannot be used: {why}: it is removed, and the drive aged anew",
                                path.display()
                            )));
                            match fs::remove_file(&path) {
                                // Another process has met the same.
                                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                                _ => {}
                            }
                        }
                    }
                }
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
            fs::create_dir_all(&self.folder)?;
            let part = path.with_extension(entry::PART);
            let wait = &mut || tell(Said::Waiting);
            // Who waited finds what the other has made, or that the other failed.
            match Part::lock(part, wait)? {
                Some(part) if path.exists() => part.give_up(),
                Some(part) => return Ok(Found::Nothing(part)),
                None => {}
            }
        }
    }

    fn keep(&self, part: Part, key: &str, checked: &Checked) -> Result<(), NotKept> {
        let half = part.room().unwrap_or(u64::MAX) / 2;
        part.file().set_len(0)?;
        let mut to =
            BufWriter::with_capacity(CHUNK, Limited { to: part.file(), left: self.most.min(half) });
        let written = checked.save_aged(key, &mut to).and_then(|()| to.flush());
        let beyond = to.get_ref().left == 0;
        drop(to);
        let written = match written {
            Err(_) if beyond && half < self.most => Err(NotKept::Room),
            Err(_) if beyond => Err(NotKept::Size(self.most)),
            Err(e) => Err(e.into()),
            Ok(()) => part.finish(entry::DRIVE).map_err(NotKept::Io),
        };
        match written {
            Ok(()) => self.make_room(),
            Err(_) => part.give_up(),
        }
        written
    }

    /// Removes the entries that were not used for longest until the others fit, and what was never finished.
    fn make_room(&self) {
        let Ok(mut entries) = self.entries() else { return };
        entries.sort_by_key(|entry| entry.used);
        let mut all: u64 = entries.iter().map(|entry| entry.bytes).sum();
        for entry in entries {
            if all > self.most && fs::remove_file(&entry.path).is_ok() {
                all -= entry.bytes;
            }
        }
        self.parts().into_iter().for_each(|part| drop(Part::remove(part)));
    }
    /// Files by the end of their names; a folder that is not there has none.
    fn files(&self, extension: &str) -> io::Result<Vec<PathBuf>> {
        let folder = match fs::read_dir(&self.folder) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            folder => folder?,
        };
        let paths = folder.map(|entry| entry.map(|entry| entry.path()));
        let mut paths = paths.collect::<io::Result<Vec<_>>>()?;
        paths.retain(|path| path.extension().is_some_and(|e| e == extension));
        paths.sort();
        Ok(paths)
    }
    fn parts(&self) -> Vec<PathBuf> {
        self.files(entry::PART).unwrap_or_default()
    }

    /// What is there.
    pub fn entries(&self) -> io::Result<Vec<Entry>> {
        // Others may remove entries meanwhile.
        Ok(self.files(entry::DRIVE)?.into_iter().filter_map(|path| Entry::of(path).ok()).collect())
    }
    /// Removes all entries, and what was never finished: their number and bytes. What others are about to
    /// write stays.
    pub fn clear(&self) -> io::Result<(usize, u64)> {
        let (mut entries, mut bytes) = (0, 0);
        for entry in self.entries()? {
            match fs::remove_file(&entry.path) {
                Ok(()) => (entries, bytes) = (entries + 1, bytes + entry.bytes),
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        for part in self.parts() {
            bytes += Part::remove(part)?;
        }
        Ok((entries, bytes))
    }
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

/// Takes so many bytes.
struct Limited<W> {
    to: W,
    left: u64,
}

impl<W: Write> Write for Limited<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            self.left = 0;
            return Err(ErrorKind::FileTooLarge.into());
        }
        let n = self.to.write(bytes)?;
        self.left -= n as u64;
        Ok(n)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
