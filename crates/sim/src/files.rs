//! A job's files on a file system: fio's I/Os as system calls, with the opens and closes around
//! them.

use crate::error::{BuildError, JobError, JobFault};
use std::collections::BTreeSet;
use wordline_base::{Ddir, IdVec, IoClass};
use wordline_fio::job::{Engine, Fadvise, Fallocate, SyncMode, SyncRange};
use wordline_fio::{Generator, Io, Job, Size, Thread};
use wordline_fs::{Advice, Fs, FsKind, Op};
use wordline_host::source::Next;

/// Whether a job's file is there when the run begins, as fio lays files out (setup_files): written
/// for jobs that read or overwrite, else with blocks that are reserved (fallocate), as a hole, or empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layout {
    Written,
    /// Its blocks hold no data.
    Reserved,
    /// So they do, and it is empty.
    Kept,
    Empty,
    /// It has its size and no blocks.
    Holes,
    /// `create_on_open`, and what the engine filecreate makes itself.
    Missing,
}

#[derive(Clone, Debug)]
struct OneFile {
    name: String,
    /// Number in the file system.
    id: u32,
    /// Where the generator has it.
    base: u64,
    /// Its length.
    size: u64,
    /// What of it is read before the job: from which byte on, and how many.
    read: (u64, u64),
    /// For filecreate and its like: which of its opens the last call was for, from 1 on; 0: none.
    called: u32,
    /// From the first to the end of the last byte written since the last sync (first_write and last_write of fio_file).
    unsynced: Option<(u64, u64)>,
}

pub struct Files {
    /// By the job's file.
    files: IdVec<u32, OneFile>,
    /// Files that are open.
    open: BTreeSet<u32>,
    /// The file that was used last.
    last: Option<u32>,
    /// How much of each file is there before the job.
    layout: Layout,
    /// What makes the calls.
    engine: Engine,
    /// `direct=1`.
    direct: bool,
    /// `sync`.
    sync: SyncMode,
    /// What `sync_file_range` does.
    sync_range: SyncRange,
    /// Pages are dropped before a file is used (`invalidate`).
    drop: bool,
    /// `fadvise_hint`.
    advice: Advice,
    /// The job writes.
    writes: bool,
    /// They are the block device.
    device: bool,
    /// The job, and what it says of its size, for an error.
    asked: (String, String),
    /// The job makes more than one.
    several: bool,
}

/// What a job says of its size. A size beyond the drive is cut to it.
fn asked(job: &Job) -> String {
    let bytes = |bytes: u64| match (bytes >> 30, bytes % (1 << 30)) {
        (gib @ 1.., 0) => format!("{gib}g"),
        _ => bytes.to_string(),
    };
    match (job.filesize, job.size) {
        (Some((least, most)), _) if least == most => format!("filesize={}", bytes(most)),
        (Some((least, most)), _) => format!("filesize={}-{}", bytes(least), bytes(most)),
        (None, Some(Size::Bytes(size))) => format!("size={}", bytes(size)),
        (None, Some(Size::Percent(percent))) => format!("size={percent}%"),
        (None, None) => "no size is given, so that it is the whole drive's".into(),
    }
}

impl Files {
    pub fn new(
        generator: &Generator,
        job: &Job,
        thread: &Thread,
        kind: FsKind,
    ) -> Result<Files, JobError> {
        if job.rw.trims() || job.verify && job.trim_percentage > 0 && job.trim_backlog > 0 {
            return Err(JobError::new(job, JobFault::TrimOfFile));
        }
        let device = kind == FsKind::Bdev;
        if device && job.ioengine.is_by_name() {
            return Err(JobError::new(job, JobFault::OneFile));
        }
        let named = |i: u32| {
            let (base, size) = generator.region(i);
            let (from, bytes) = generator.extent(i);
            let read = match (job.pre_read, device) {
                (false, _) => (0, 0),
                (true, false) => (from, bytes),
                (true, true) => (base + from, bytes),
            };
            let name = job.file_name(thread.subjob, i);
            OneFile { name, id: 0, base, size, read, called: 0, unsynced: None }
        };
        let files: IdVec<u32, OneFile> = (0..job.file_count()).map(named).collect();
        let layout = match job.ioengine {
            Engine::FileCreate => Layout::Missing,
            Engine::FileStat | Engine::FileDelete => Layout::Written,
            _ if job.create_on_open => Layout::Missing,
            _ if job.rw.reads() || job.overwrite => Layout::Written,
            _ => match job.fallocate {
                Fallocate::Native => Layout::Reserved,
                Fallocate::Keep => Layout::Kept,
                Fallocate::None => Layout::Empty,
                Fallocate::Truncate => Layout::Holes,
            },
        };
        if job.pre_read {
            let fault = |why, remedy| Err(JobError::new(job, JobFault::PreRead { why, remedy }));
            if job.direct {
                return fault(
                    "direct=1 reads past the page cache, and fio's buffer for it is not aligned",
                    "leave one of them out",
                );
            }
            if matches!(layout, Layout::Kept | Layout::Empty | Layout::Missing) && !device {
                return fault("its files are empty when it begins", "overwrite=1 lays them out");
            }
            if job.ioengine.is_by_name() {
                return fault("its ioengine reads no file", "leave it out");
            }
        }
        let advice = match (job.fadvise, job.rw.is_random()) {
            (Fadvise::None, _) => Advice::Normal,
            (Fadvise::Random, _) | (Fadvise::Workload, true) => Advice::Random,
            (Fadvise::Sequential, _) | (Fadvise::Workload, false) => Advice::Sequential,
        };
        Ok(Files {
            files,
            open: BTreeSet::new(),
            last: None,
            layout,
            engine: job.ioengine,
            direct: job.direct,
            sync: job.sync,
            sync_range: job.sync_range,
            drop: job.invalidate,
            advice,
            writes: job.rw.writes(),
            device,
            asked: (job.name.clone(), asked(job)),
            several: job.file_count() > 1 || job.numjobs > 1,
        })
    }

    /// As a log of I/Os names them. It cannot hold blanks. None: they are the device.
    pub fn names(&self) -> Option<Vec<String>> {
        let name = |file: &OneFile| file.name.replace(char::is_whitespace, "_");
        (!self.device).then(|| self.files.iter().map(name).collect())
    }
    /// A file's number, and where the generator has its first byte. None: it is the device.
    pub fn begin_of(&self, file: u32) -> Option<(u32, u64)> {
        (!self.device).then(|| (file, self.files[file].base))
    }

    /// Makes the job's files on the file system, or finds those that another job made. `names` are
    /// the directories and files so far.
    pub fn lay_out(&mut self, fs: &mut Fs, names: &mut Names) -> Result<(), BuildError> {
        if self.device {
            let id = *names.device.get_or_insert_with(|| fs.device_file());
            let size = fs.file_size(id).unwrap_or(0);
            // The generator's places are the drive's.
            self.files.iter_mut().for_each(|f| (f.id, f.base, f.size) = (id, 0, size));
            return Ok(());
        }
        let mut laid = 0;
        for file in &mut self.files {
            let (dir, name) = file.name.rsplit_once('/').unwrap_or(("", &file.name));
            let (id, new) = names.file(fs, dir, name);
            file.id = id;
            let size = file.size;
            // Less what its directory and the tree of its extents may take.
            let room = ((fs.free_bytes() + laid) >> 20).saturating_sub(1);
            let fits = !new
                || match self.layout {
                    Layout::Written => fs.lay_out(id, size),
                    Layout::Reserved => fs.reserve(id, size, size),
                    Layout::Kept => fs.reserve(id, 0, size),
                    Layout::Empty => fs.lay_out(id, 0),
                    Layout::Holes => fs.reserve(id, size, 0),
                    Layout::Missing => true,
                };
            if !fits {
                let (job, asked) = self.asked.clone();
                let (drive, file) = (fs.bytes() >> 20, name.into());
                let fewer = if self.several { " in all, or fewer files" } else { "" };
                return Err(BuildError::FilesDoNotFit { job, asked, file, room, drive, fewer });
            }
            let takes = !matches!(self.layout, Layout::Empty | Layout::Holes | Layout::Missing);
            laid += if new && takes { size } else { 0 };
        }
        Ok(())
    }

    /// Reads into memory what the job is to find there (pre_read_files).
    pub fn pre_read(&self, fs: &mut Fs) {
        for file in self.files.iter().filter(|file| file.read.1 > 0) {
            fs.pre_read(file.id, file.read.0, file.read.1);
        }
    }

    /// The job goes back to the start of its data with all files closed: the calls that close those still open.
    pub fn begin_anew(&mut self) -> impl Iterator<Item = Op> {
        if self.engine.is_by_name() {
            self.files.iter_mut().for_each(|file| file.called = 0);
        }
        std::iter::from_fn(|| self.close_one())
    }

    /// The call for an I/O; None if it needs none. What must go before it is added to `before`.
    pub fn call(&mut self, generator: &Generator, io: Io, before: &mut Vec<Op>) -> Option<Op> {
        let file = &self.files[io.file];
        let id = file.id;
        let write = self.writes;
        if self.engine.is_by_name() {
            // One call a file, as fio opens it, however many blocks it has.
            let opens = generator.opens(io.file);
            if io.ddir.is_sync()
                || std::mem::replace(&mut self.files[io.file].called, opens) == opens
            {
                return None;
            }
            return Some(match self.engine {
                Engine::FileCreate => {
                    before
                        .extend(self.open.pop_first().map(|file| Op::Close { file, write: true }));
                    self.open.insert(id);
                    let advice = Advice::Normal;
                    Op::Open { file: id, create: true, write: true, advice, drop: false }
                }
                Engine::FileStat => Op::Stat { file: id },
                _ => Op::Unlink { file: id },
            });
        }
        if let Some(last) = self.last.replace(io.file)
            && last != io.file
            && !generator.is_open(last)
        {
            let file = self.files[last].id;
            if self.open.remove(&file) {
                before.push(Op::Close { file, write });
            }
        }
        if self.open.insert(id) {
            let (advice, drop) = (self.advice, self.drop);
            before.push(Op::Open { file: id, create: true, write, advice, drop });
        }
        let offset = io.offset.saturating_sub(file.base);
        let (len, direct) = (io.len32(), self.direct);
        let unsynced = &mut self.files[io.file].unsynced;
        let range = match io.ddir {
            Ddir::Write => {
                let (from, to) = unsynced.unwrap_or((offset, 0));
                *unsynced = Some((from.min(offset), to.max(offset + io.len)));
                None
            }
            Ddir::Read | Ddir::Trim => None,
            Ddir::Sync | Ddir::DataSync => unsynced.take(),
        };
        Some(match io.ddir {
            Ddir::Read => Op::Read { file: id, offset, len, direct, queued: false },
            Ddir::Write => {
                let sync = self.sync == SyncMode::Sync;
                let data_only = self.sync == SyncMode::Dsync;
                Op::Write { file: id, offset, len, direct, sync, data_only, queued: false }
            }
            Ddir::DataSync if io.range_only => {
                // do_sync_file_range makes no call for nothing.
                let (from, to) = range?;
                let SyncRange { wait_before: before, write, wait_after: after } = self.sync_range;
                Op::SyncRange { file: id, offset: from, len: to - from, before, write, after }
            }
            Ddir::DataSync => Op::Fsync { file: id, data_only: true },
            Ddir::Sync | Ddir::Trim => Op::Fsync { file: id, data_only: false },
        })
    }

    /// At the job's end: one of its files that is still open.
    pub fn close_one(&mut self) -> Option<Op> {
        let write = self.writes || self.engine == Engine::FileCreate;
        self.open.pop_first().map(|file| Op::Close { file, write })
    }
}

/// What a call is to the host; `io` as fio reports it.
pub fn next(ddir: Ddir, op: Op, class: IoClass) -> Next {
    let (offset, len) = match op {
        Op::Read { offset, len, .. } | Op::Write { offset, len, .. } => (offset, len),
        _ => (0, 0),
    };
    Next::File { ddir, offset, len, op, class }
}

/// Directories and files by name, over all jobs.
#[derive(Default)]
pub struct Names {
    dirs: std::collections::BTreeMap<String, u32>,
    files: std::collections::BTreeMap<(u32, String), u32>,
    device: Option<u32>,
}

impl Names {
    fn file(&mut self, fs: &mut Fs, dir: &str, name: &str) -> (u32, bool) {
        let dir = match self.dirs.get(dir) {
            Some(&d) => d,
            None => {
                let d = fs.add_dir();
                self.dirs.insert(dir.to_string(), d);
                d
            }
        };
        if let Some(&file) = self.files.get(&(dir, name.to_string())) {
            return (file, false);
        }
        let file = fs.add_file(dir, name.len().min(255) as u8, hash(name));
        self.files.insert((dir, name.to_string()), file);
        (file, true)
    }
}

/// FNV-1a, and a mix so that names that differ in their last digit lie far apart, as half MD4's do.
fn hash(name: &str) -> u32 {
    let fnv = name
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01B3));
    let mixed = (fnv ^ fnv >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 32) as u32
}
