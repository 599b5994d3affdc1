//! Files: what is read is bounded, what is written appears under its name only when complete.

use crate::{Failure, InputError, WriteError};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use wordline_trace::{OpenOptions, Reader};

/// No job file or profile is longer.
const TEXT_MAX: u64 = 16 << 20;
/// No result is longer.
const RESULT_MAX: u64 = 512 << 20;
/// Read ahead of a trace's parser.
const TRACE_BUFFER: usize = 256 << 10;

/// Files being written under names that are not their own yet.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Places of the files that were read.
static READ: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Read once, however often it is asked for.
static STANDARD_INPUT: OnceLock<Result<Vec<u8>, TextError>> = OnceLock::new();

/// Why a file is no text to read. The file is not named.
#[derive(Clone, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum TextError {
    /// What the system says, and what may help.
    #[error("{0}")]
    System(String),
    /// It is longer than any text that is read here.
    #[error("not a text file: longer than {} MiB", .most >> 20)]
    TooLong { most: u64 },
    /// It is no UTF-8.
    #[error("not a text file: byte {byte} is not UTF-8")]
    NotUtf8 { byte: usize },
    #[error(
        "a result that Python's Result.save kept, which has its JSON packed: unpack it (unzip -p FILE report.json+ \
         > result.json) and name that"
    )]
    SavedByPython,
}

/// The text of a job file or profile; `-` is standard input.
pub fn read_text(path: &str) -> Result<String, TextError> {
    text_of(bytes_at_most(path, TEXT_MAX)?)
}

/// The text of a result likewise.
pub fn read_result(path: &str) -> Result<String, TextError> {
    text_of(bytes_at_most(path, RESULT_MAX)?)
}

/// The text of a file of what users name: a profile, a study.
pub fn read_named(what: &'static str, name: &str) -> Result<String, InputError> {
    read_text(name).map_err(|why| InputError::Text { what, name: name.into(), why })
}

/// How the zip of a saved result begins: a member's header of 30 bytes, then its name.
fn saved_by_python(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04") && bytes.get(30..41) == Some(b"format.json")
}

fn text_of(bytes: Vec<u8>) -> Result<String, TextError> {
    String::from_utf8(bytes).map_err(|e| match saved_by_python(e.as_bytes()) {
        true => TextError::SavedByPython,
        false => TextError::NotUtf8 { byte: e.utf8_error().valid_up_to() + 1 },
    })
}

fn bytes_at_most(path: &str, most: u64) -> Result<Vec<u8>, TextError> {
    let system = |e: std::io::Error| TextError::System(explain(&e));
    let read = |reader: &mut dyn Read| {
        let mut bytes = Vec::new();
        let done = reader.take(most + 1).read_to_end(&mut bytes);
        done.map(|_| bytes).map_err(system)
    };
    let bytes = match path {
        "-" => STANDARD_INPUT.get_or_init(|| read(&mut std::io::stdin())).clone()?,
        _ => read(&mut File::open(path).map_err(system)?)?,
    };
    note_read(Path::new(path));
    if bytes.len() as u64 > most {
        return Err(TextError::TooLong { most });
    }
    Ok(bytes)
}

/// An error of the system, with what may help.
pub fn explain(error: &std::io::Error) -> String {
    let remedy = match error.kind() {
        ErrorKind::NotFound => ": check the path",
        ErrorKind::IsADirectory => ": name a file in it",
        ErrorKind::AlreadyExists => ": name another, or remove it",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            ": free space there or name another place"
        }
        ErrorKind::FileTooLarge => {
            ": raise the limit on file size (ulimit -f) or name another place"
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            ": change its permissions or name another place"
        }
        _ => "",
    };
    format!("{}{remedy}", of_system(error))
}

/// What the system says, without the name that a file has while it is written.
fn of_system(error: &std::io::Error) -> String {
    let text = error.to_string();
    // As tempfile tells it.
    text.split_once(" at path \"").map(|(said, _)| said.to_owned()).unwrap_or(text)
}

/// How much of its traces a run has read.
#[derive(Clone, Default)]
pub struct Consumed {
    bytes: Arc<AtomicU64>,
    /// Length of the files, 0 if one has none (a pipe).
    pub total: u64,
}

impl Consumed {
    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

struct Counted<R> {
    inner: R,
    bytes: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.bytes.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

type Bytes = Box<dyn Read + Send>;

fn open(path: &Path, consumed: &mut Consumed) -> Result<Bytes, InputError> {
    let failed = |why: std::io::Error| InputError::NoTrace { path: path.into(), why };
    let bytes = Arc::clone(&consumed.bytes);
    if path == Path::new("-") {
        return Ok(Box::new(Counted { inner: std::io::stdin(), bytes }));
    }
    let file = File::open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if about.is_dir() {
        return Err(failed(ErrorKind::IsADirectory.into()));
    }
    note_read(path);
    consumed.total += about.len();
    Ok(Box::new(BufReader::with_capacity(TRACE_BUFFER, Counted { inner: file, bytes })))
}

fn name_of(path: &Path) -> String {
    if path == Path::new("-") { "standard input".into() } else { path.display().to_string() }
}

/// Trace files opened for streaming: one, or the per-processor files of one blktrace.
pub fn open_trace(
    paths: &[PathBuf],
    mut options: OpenOptions,
) -> Result<(Reader, Consumed), InputError> {
    let mut consumed = Consumed::default();
    let reader = match paths {
        [path] => {
            options.name = name_of(path);
            wordline_trace::open(open(path, &mut consumed)?, options)
        }
        paths => {
            let mut inputs = Vec::with_capacity(paths.len());
            for path in paths {
                inputs.push((name_of(path), open(path, &mut consumed)?));
            }
            wordline_trace::open_merged(inputs, options)
        }
    };
    Ok((reader?, consumed))
}

/// A device or pipe (/dev/stdout, a FIFO) cannot be replaced by renaming: it is written to.
fn is_special(path: &Path) -> bool {
    path.exists() && !path.is_file()
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Finds out before a long run that its result could not be written.
pub fn check_writable(path: &Path) -> Result<(), InputError> {
    let failed = |why: std::io::Error| InputError::Unwritable { path: path.into(), why };
    if path.is_dir() {
        return Err(failed(ErrorKind::IsADirectory.into()));
    }
    if is_special(path) {
        return Ok(());
    }
    // Without a name: nothing is left whatever happens.
    tempfile::tempfile_in(folder_of(&target(path))).map(drop).map_err(failed)
}

/// The same of all that a command will write, each with its name in messages. Nothing is written over what the command
/// has read, nor two results into one file, where the last would be all that is left. Devices and pipes keep nothing.
pub fn check_outputs(written: &[(&'static str, &Path)]) -> Result<(), InputError> {
    for (i, &(what, path)) in written.iter().enumerate() {
        if !is_special(path) {
            let here = place(path);
            if read_so_far().contains(&here) {
                return Err(InputError::AlsoRead { what, path: path.into() });
            }
            if let Some(&(of, other)) = written[..i].iter().find(|(_, other)| place(other) == here)
            {
                return Err(InputError::SameFile {
                    what,
                    path: path.into(),
                    of,
                    other: other.into(),
                });
            }
        }
        check_writable(path)?;
    }
    Ok(())
}

/// A file is read: no result of this process goes there.
pub fn note_read(path: &Path) {
    if path != Path::new("-") && !is_special(path) {
        read_so_far().insert(place(path));
    }
}

fn read_so_far() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    READ.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// What is the same for all names of a file, whether it is there or not.
fn place(path: &Path) -> PathBuf {
    let path = target(path);
    let folder =
        std::fs::canonicalize(folder_of(&path)).unwrap_or_else(|_| folder_of(&path).into());
    path.file_name().map_or(folder.clone(), |name| folder.join(name))
}

/// Where a symbolic link leads, also if nothing is there yet: the file there is replaced, not the link.
fn target(path: &Path) -> PathBuf {
    if let Ok(path) = std::fs::canonicalize(path) {
        return path;
    }
    let mut path = path.to_path_buf();
    // As many links in a row as Linux follows.
    for _ in 0..40 {
        let Ok(to) = std::fs::read_link(&path) else { break };
        path = folder_of(&path).join(to);
    }
    path
}

/// Writes a file that appears under its name only when it is complete.
pub fn write(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), Failure> {
    let (special, name) = (is_special(path), path);
    let failed = |why: std::io::Error| Failure::run(WriteError { path: name.into(), why, special });
    if special {
        let file = std::fs::OpenOptions::new().write(true).open(path).map_err(failed)?;
        let mut w = BufWriter::new(file);
        return write(&mut w).and_then(|()| w.flush()).map_err(failed);
    }
    let path = target(path);
    let file = begin(folder_of(&path)).map_err(failed)?;
    let unnamed = file.path().to_path_buf();
    let result = (|| {
        let mut w = BufWriter::with_capacity(1 << 20, file);
        write(&mut w)?;
        let file = w.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        file.as_file().sync_all()?;
        file.persist(&path).map_err(|e| e.error)?;
        Ok(())
    })();
    unfinished().remove(&unnamed);
    result.map_err(failed)
}

fn unfinished() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(|e| e.into_inner())
}

/// A file that is unfinished from the moment on in which it is there.
fn begin(folder: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let mut unfinished = unfinished();
    let file = tempfile::Builder::new()
        .prefix(".wordline-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder)?;
    unfinished.insert(file.path().to_path_buf());
    Ok(file)
}

/// Removes what is being written, before the program ends in the middle of it. Nothing more is begun.
pub fn remove_unfinished() {
    let mut unfinished = unfinished();
    for path in std::mem::take(&mut *unfinished) {
        let _ = std::fs::remove_file(path);
    }
    std::mem::forget(unfinished);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_does_not_name_a_file_that_users_did_not_name() {
        let error = tempfile::NamedTempFile::new_in("/no/such/folder").expect_err("no folder");
        assert!(error.to_string().contains(".tmp"), "{error}");
        let text = explain(&error);
        assert_eq!(text, "No such file or directory (os error 2): check the path");
    }
}
