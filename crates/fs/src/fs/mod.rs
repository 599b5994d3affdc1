//! The file system as a whole: tasks and what they wait for, bios, and time.

mod call;
mod convert;
mod jbd2;
mod lock;
mod namei;
mod sync;
#[cfg(test)]
mod tests;
mod writeback;
mod xlog;

use crate::cache::{Cache, Dirtied, Key, META};
use crate::config::{FsConfig, FsKind};
use crate::disk::{Disk, Item};
use crate::fs::jbd2::Jbd2;
use crate::fs::xlog::Xlog;
use crate::inode::{Dir, DirId, Inode, InodeId};
use crate::readahead::ReadAhead;
use crate::stats::FsStats;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wordline_base::{BadValue, IdVec, Slab, Span, Time};

/// A page, and a block.
pub(crate) const PAGE: u64 = 4096;
/// BIO_MAX_PAGES of Linux 4.14.
pub(crate) const BIO_PAGES: u64 = 256;

/// posix_fadvise of an open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Advice {
    /// None, or POSIX_FADV_NORMAL.
    #[default]
    Normal,
    /// POSIX_FADV_SEQUENTIAL: the window of read-ahead is twice as large.
    Sequential,
    /// POSIX_FADV_RANDOM: no read-ahead.
    Random,
}

/// A system call. Files are named by the number [`Fs::add_file`] gave.
#[allow(missing_docs, reason = "arguments are named as the calls' manual pages have them")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// open(2).
    Open { file: u32, create: bool, write: bool, advice: Advice, drop: bool },
    /// close(2).
    Close { file: u32, write: bool },
    /// stat(2).
    Stat { file: u32 },
    /// pread(2), or of libaio and io_uring if `queued`: its caller does not wait for direct I/O.
    Read { file: u32, offset: u64, len: u32, direct: bool, queued: bool },
    /// pwrite(2), likewise.
    Write {
        file: u32,
        offset: u64,
        len: u32,
        direct: bool,
        sync: bool,
        data_only: bool,
        queued: bool,
    },
    /// fsync(2), or fdatasync(2).
    Fsync { file: u32, data_only: bool },
    /// sync_file_range(2): waits for what is written back already, begins write-back, waits for it.
    SyncRange { file: u32, offset: u64, len: u64, before: bool, write: bool, after: bool },
    /// ftruncate(2).
    Truncate { file: u32, size: u64 },
    /// unlink(2).
    Unlink { file: u32 },
}

impl Op {
    /// open(2) or close(2).
    pub fn opens_or_closes(&self) -> bool {
        matches!(self, Op::Open { .. } | Op::Close { .. })
    }
}

/// What a bio does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BioKind {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A flush of the drive's cache alone.
    Flush,
}

/// What a bio carries, for accounts and for tests of order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum What {
    /// Pages of files.
    Data,
    /// Metadata in their place.
    Meta,
    /// Descriptor and revoke blocks of a transaction.
    Descriptor,
    /// Logged blocks of a transaction.
    Journal,
    /// The commit block of a transaction.
    Commit,
    /// The journal's superblock: the log's tail.
    Tail,
    /// An in-core log buffer of XFS.
    Log,
    /// Nothing.
    Flush,
}

/// What the block layer gets: it ends with [`Fs::bio_done`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bio {
    /// Given back with its end.
    pub id: u32,
    /// What it does.
    pub kind: BioKind,
    /// What it carries.
    pub what: What,
    /// Bytes on the drive.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
    /// A flush of the drive's cache goes before it; it is on the medium when it ends.
    pub preflush: bool,
    /// It is on the medium when it ends (FUA).
    pub fua: bool,
    /// Somebody waits for it (REQ_SYNC).
    pub sync: bool,
    /// Buffers of 4 KiB that were submitted one by one and are neighbours (submit_bh).
    pub buffers: u32,
    /// Inode of cached data, transaction of the journal, number of a log buffer.
    pub tag: u64,
}

/// What a task does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// It computes for so long.
    Work(Span),
    /// It submits a bio, and goes on.
    Submit(Bio),
    /// It sleeps until `poll_wake` names it.
    Sleep,
    /// The system call returns.
    Done {
        /// It succeeded.
        ok: bool,
    },
}

/// Pages of a file on their way to the drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pages {
    pub ino: u32,
    pub first: u64,
    pub n: u32,
    /// Bytes of the file once they are there, if it becomes longer (XFS).
    pub ends: u64,
    /// Their blocks are unwritten until then.
    pub unwritten: bool,
}

impl Pages {
    pub fn new(ino: u32, first: u64, n: u64) -> Pages {
        Pages { ino, first, n: n as u32, ends: 0, unwritten: false }
    }
}

/// What a write's blocks are to be before its data are on their way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Want {
    /// They count as written: the transaction waits for the data, or the size follows them.
    Written,
    /// They are unwritten until the data are there, and the file's size follows them.
    Unwritten,
    /// They are unwritten until the pages are there, and the file's size does not wait for that (ext4's
    /// `dioread_nolock`).
    Paged,
}

/// Who is told when a bio ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    /// Pages of a file, read or written.
    Read {
        ino: u32,
        first: u64,
        n: u32,
    },
    Write(Pages),
    /// A task counts it. `META` pages it wrote are clean then.
    Task(u32),
    /// A log buffer of a checkpoint.
    Iclog {
        number: u64,
    },
    /// Items of XFS in their place.
    Ail {
        batch: u64,
    },
}

#[derive(Clone, Copy, Debug)]
struct BioState {
    owner: Owner,
    kind: BioKind,
    what: What,
}

/// What a sleeping task waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// A page under way.
    Page(u64),
    /// Write-back of these pages.
    WriteBack {
        /// The inode.
        ino: u32,
        /// Its first page.
        first: u64,
        /// Its last page.
        last: u64,
    },
    /// The lock on an inode's extents.
    Mapping(u32),
    /// The lock on an inode.
    Inode(u32),
    /// Direct I/O of an inode that is under way.
    Direct(u32),
    /// A metadata block on its way to its place.
    Buffer(u64),
    /// Its own bios.
    Bios,
    /// A transaction is on the drive.
    Commit(u64),
    /// A new transaction, or room in the log.
    Handle,
    /// The handles of the transaction that is being committed.
    Handles,
    /// Less dirty memory.
    Dirty,
    /// Pages that can be had.
    Memory,
    /// A kernel thread has nothing to do.
    Work,
    /// A free log buffer, an earlier checkpoint.
    Iclog,
    /// The checkpoint another task is at.
    Checkpoint,
}

/// A function that may sleep.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Frame {
    Call {
        op: Op,
        phase: u8,
    },
    /// The lock on an inode.
    Lock {
        ino: u32,
        alone: bool,
    },
    /// `need` of the task is in memory.
    Need,
    Begin,
    /// `items` of the task join its transaction.
    Join,
    End,
    /// Room for so many pages.
    Room(u64),
    ReadPages {
        ino: u32,
        first: u64,
        n: u64,
        mark: Option<u64>,
    },
    WritePages {
        ino: u32,
        at: u64,
        last: u64,
        left: u64,
        mapped: bool,
        sync: Option<Dirtied>,
        phase: u8,
    },
    WaitPages {
        ino: u32,
        first: u64,
        last: u64,
    },
    DropPages {
        ino: u32,
        first: u64,
        last: u64,
    },
    /// Data of a range of pages, and what the log has of the inode.
    Sync {
        ino: u32,
        first: u64,
        last: u64,
        data_only: bool,
        phase: u8,
    },
    Force {
        seq: u64,
        phase: u8,
    },
    Throttle {
        phase: u8,
    },
    Allocate {
        ino: u32,
        logical: u64,
        n: u64,
        want: Want,
        /// In a handle of its own.
        own: bool,
        phase: u8,
    },
    /// The data of pages `at` to `end` are on the drive, and the file has `size` bytes at least.
    Convert {
        ino: u32,
        at: u64,
        end: u64,
        size: u64,
        phase: u8,
    },
    Flusher {
        phase: u8,
    },
    Commit {
        phase: u8,
    },
    Checkpoint {
        phase: u8,
    },
    Cil {
        phase: u8,
    },
    Ail {
        phase: u8,
    },
    Ioend {
        phase: u8,
    },
}

/// Tasks of applications come first, those of the kernel follow.
pub(crate) type TaskId = u32;
pub(crate) type FileId = u32;

#[derive(Debug, Default)]
pub(crate) struct Task {
    frames: Vec<Frame>,
    queue: VecDeque<Turn>,
    blocked: Option<Wait>,
    /// Bios it waits for.
    bios: u32,
    need: Vec<u64>,
    items: Vec<Item>,
    /// Inodes whose newest transaction this is, and whether fdatasync needs it.
    touched: Vec<(u32, bool)>,
    /// Blocks freed by it.
    freed: Vec<(u64, u32)>,
    at: u64,
    /// The page that its call has read by itself.
    own_read: Option<u64>,
    /// Write-backs of its file that had failed before its call.
    errors: u32,
    /// First and last page of a buffered write that have their turn.
    piece: (u64, u64),
    /// Inodes whose lock it has, and whether alone.
    held: Vec<(u32, bool)>,
    /// The inode of its direct I/O that goes on without the lock.
    direct: Option<u32>,
    ok: bool,
    /// What its call did not find.
    lacks: Lack,
    in_handle: bool,
    /// It came to sleep for the current wait before.
    waited: bool,
}

/// What an I/O failed for want of.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Lack {
    /// It did not fail, or for another reason.
    #[default]
    Nothing,
    /// Room on the drive (ENOSPC).
    Room,
    /// The file (ENOENT).
    File,
}

#[derive(Debug)]
pub(crate) struct File {
    dir: u32,
    hash: u32,
    name_len: u8,
    /// 0: it does not exist.
    inode: u32,
}

pub(crate) enum Log {
    Jbd2(Jbd2),
    Xfs(Xlog),
    /// Nothing is logged: no handle ever begins.
    None,
}

pub(crate) const NO_LOG: &str = "a device has no log";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Again,
    Block(Wait),
}

/// A file system with its page cache.
pub struct Fs {
    /// Bytes of the drive's logical blocks: direct I/O and the log's writes are whole ones.
    lba: u64,
    /// Pages of the largest request.
    io_pages: u64,
    /// Its settings.
    config: FsConfig,
    /// Where files and metadata are on the drive.
    disk: Disk,
    /// The page cache.
    cache: Cache,
    /// All inodes, by number.
    inodes: IdVec<InodeId, Inode>,
    /// All directories.
    dirs: IdVec<DirId, Dir>,
    /// Names of files, and their inodes.
    files: IdVec<FileId, File>,
    /// State of read-ahead by task and inode.
    open: BTreeMap<(u32, u32), ReadAhead>,
    /// Failed write-backs of its inode that an open file has told of (f_wb_err), by task and file.
    errors_told: BTreeMap<(u32, u32), u32>,
    /// A write of the log or of metadata failed: calls that change something are refused.
    shut: bool,
    /// All tasks read through one open file, and so through one state of read-ahead.
    one_open: bool,
    /// The journal.
    log: Log,
    /// Who calls it, and its own threads.
    tasks: IdVec<TaskId, Task>,
    /// Tasks that sleep; one that waits for its own bios is among them from the last one's end.
    sleepers: BTreeSet<TaskId>,
    /// Bios under way.
    bios: Slab<BioState>,
    /// Tasks that go on.
    wakes: VecDeque<u32>,
    /// The time of the last input.
    now: Time,
    /// Counts since the start.
    stats: FsStats,
    /// Inodes with dirty pages by age.
    by_age: BTreeSet<(Time, u32)>,
    /// When the flusher looks again.
    flusher_at: Time,
    /// The flusher was called before its time.
    flusher_called: bool,
    /// Pages on the drive whose end is to be logged before they are clean.
    ended: VecDeque<Pages>,
    /// Versions of pages so far.
    stamp: u32,
    /// Tests: what the drive holds, by block.
    shadow: Option<BTreeMap<u64, u32>>,
    /// Tests: what joined the log since they looked.
    #[cfg(test)]
    joined: Vec<Joined>,
    /// Tests: how often something joined it.
    #[cfg(test)]
    joins: u64,
    /// Tests: how often something had joined it when each batch was written.
    #[cfg(test)]
    joins_before: BTreeMap<u64, u64>,
    /// Pages are wanted and none can be freed.
    short: bool,
}

/// Items that joined a transaction, the inodes it changes and the blocks it frees.
#[cfg(test)]
pub(crate) struct Joined {
    number: u64,
    seq: u64,
    items: Vec<Item>,
    inodes: Vec<u32>,
    freed: Vec<(u64, u32)>,
}

impl Fs {
    /// A new file system on a drive of `bytes`, for `apps` tasks.
    pub fn new(config: &FsConfig, bytes: u64, apps: u32) -> Result<Fs, BadValue> {
        config.check()?;
        let disk = Disk::format(config, bytes / PAGE)?;
        let (log, kernel): (Log, &[Frame]) = match config.kind {
            FsKind::Ext4 => (
                Log::Jbd2(Jbd2::new(config, disk.log.len())),
                match config.ext4.dioread_nolock {
                    false => &[Frame::Flusher { phase: 0 }, Frame::Commit { phase: 0 }],
                    true => &[
                        Frame::Flusher { phase: 0 },
                        Frame::Commit { phase: 0 },
                        Frame::Ioend { phase: 0 },
                    ],
                },
            ),
            FsKind::Xfs => (
                Log::Xfs(Xlog::new(config, disk.log.len())),
                &[
                    Frame::Flusher { phase: 0 },
                    Frame::Cil { phase: 0 },
                    Frame::Ail { phase: 0 },
                    Frame::Ioend { phase: 0 },
                ],
            ),
            FsKind::Bdev => (Log::None, &[Frame::Flusher { phase: 0 }]),
        };
        let mut tasks: IdVec<TaskId, Task> = (0..apps).map(|_| Task::default()).collect();
        tasks.extend(kernel.iter().map(|&frame| Task { frames: vec![frame], ..Task::default() }));
        Ok(Fs {
            lba: 512,
            io_pages: 0,
            cache: Cache::new(config.memory / PAGE),
            disk,
            log,
            // The kernel's begin when they are run.
            sleepers: BTreeSet::new(),
            tasks,
            config: config.clone(),
            inodes: vec![Inode::default()].into(),
            dirs: IdVec::new(),
            files: IdVec::new(),
            open: BTreeMap::new(),
            errors_told: BTreeMap::new(),
            shut: false,
            one_open: false,
            bios: Slab::default(),
            wakes: VecDeque::new(),
            now: Time::ZERO,
            stats: FsStats::default(),
            by_age: BTreeSet::new(),
            flusher_at: Time::NEVER,
            flusher_called: false,
            ended: VecDeque::new(),
            stamp: 0,
            shadow: None,
            #[cfg(test)]
            joined: Vec::new(),
            #[cfg(test)]
            joins: 0,
            #[cfg(test)]
            joins_before: BTreeMap::new(),
            short: false,
        })
    }

    /// On a drive with logical blocks of so many bytes; 512 otherwise.
    pub fn on_blocks_of(mut self, lba: u32) -> Fs {
        self.lba = lba.into();
        self
    }

    /// On a drive that takes reads of so many bytes as one request: those may be larger than the read-ahead
    /// window (bdi->io_pages); not larger otherwise.
    pub fn reading_at_once(mut self, bytes: u64) -> Fs {
        self.io_pages = bytes / PAGE;
        self
    }

    /// Names of the kernel threads; their tasks follow the applications'.
    pub fn kernel_tasks(&self) -> &'static [&'static str] {
        match self.config.kind {
            FsKind::Ext4 if self.config.ext4.dioread_nolock => &["flush", "jbd2", "ext4-rsv"],
            FsKind::Ext4 => &["flush", "jbd2"],
            FsKind::Xfs => &["flush", "xfs-cil", "xfsaild", "xfs-data"],
            FsKind::Bdev => &["flush"],
        }
    }
    /// Counts since the start.
    pub fn stats(&self) -> &FsStats {
        &self.stats
    }
    /// Pages that wait to be written.
    pub fn cached_pages(&self) -> u64 {
        self.cache.len()
    }
    /// Pages in the cache that are not on the drive.
    pub fn dirty_pages(&self) -> u64 {
        self.cache.dirty() + self.cache.writing()
    }
    /// Bytes of a file; none if there is no such file.
    pub fn file_size(&self, file: u32) -> Option<u64> {
        let inode = self.files.get(file)?.inode;
        (inode != 0).then(|| self.inodes[inode].size)
    }

    /// Begins a system call of a task.
    pub fn call(&mut self, now: Time, task: u32, op: Op) {
        self.now = now;
        let t = &mut self.tasks[task];
        debug_assert!(t.frames.is_empty(), "task {task} is in a call already");
        (t.ok, t.lacks) = (true, Lack::Nothing);
        t.frames.push(Frame::Call { op, phase: 0 });
    }

    /// What the task does next. Asked again after each [`Turn::Work`] and [`Turn::Submit`], and
    /// when it was woken.
    pub fn run(&mut self, now: Time, task: u32) -> Turn {
        self.now = now;
        let mut steps = 0u32;
        loop {
            steps += 1;
            assert!(steps < 1 << 24, "task {task} goes round: {:?}", self.tasks[task]);
            let t = &mut self.tasks[task];
            if let Some(turn) = t.queue.pop_front() {
                return turn;
            }
            let Some(&frame) = t.frames.last() else {
                let ok = t.ok;
                self.settle();
                return Turn::Done { ok };
            };
            match self.step(task, frame) {
                Flow::Again => self.tasks[task].waited = false,
                Flow::Block(wait) => {
                    if !self.tasks[task].queue.is_empty() || self.is_over(task, wait) {
                        continue;
                    }
                    self.tasks[task].blocked = Some(wait);
                    if wait != Wait::Bios {
                        self.sleepers.insert(task);
                    }
                    self.tasks[task].waited = true;
                    self.settle();
                    return Turn::Sleep;
                }
            }
        }
    }

    /// The batch of items that a bio puts in their place.
    #[cfg(test)]
    pub(crate) fn batch_of(&self, bio: u32) -> Option<u64> {
        match self.bios[bio].owner {
            Owner::Ail { batch } => Some(batch),
            _ => None,
        }
    }

    /// What a task's last call failed for want of.
    pub fn lacks(&self, task: u32) -> Lack {
        self.tasks[task].lacks
    }

    /// The inode of a file: 0 as long as there is none.
    pub fn inode(&self, file: u32) -> u32 {
        self.files.get(file).map_or(0, |f| f.inode)
    }
    /// What a sleeping task waits for.
    pub fn waits_for(&self, task: u32) -> Option<Wait> {
        self.tasks[task].blocked
    }

    /// A task that can go on.
    pub fn poll_wake(&mut self) -> Option<u32> {
        self.wakes.pop_front()
    }

    /// A bio of [`Turn::Submit`] ended.
    pub fn bio_done(&mut self, now: Time, id: u32, ok: bool) {
        self.now = now;
        let BioState { owner, kind, what } = self.bios.remove(id);
        self.shut |= !ok && kind == BioKind::Write && what != What::Data;
        match owner {
            Owner::Read { ino, first, n } => {
                for page in first..first + u64::from(n) {
                    let key = Key::new(ino, page);
                    match ok || ino == META {
                        true => self.cache.set_uptodate(key),
                        false => self.cache.read_failed(key),
                    }
                }
                if !ok && ino == META {
                    self.tasks
                        .iter_mut()
                        .filter(|t| t.need.contains(&first))
                        .for_each(|t| t.ok = false);
                }
            }
            Owner::Write(pages) => self.written(pages, ok),
            Owner::Task(task) => {
                let t = &mut self.tasks[task];
                t.bios -= 1;
                t.ok &= ok;
                if t.bios == 0 && t.blocked == Some(Wait::Bios) {
                    self.sleepers.insert(task);
                }
            }
            Owner::Iclog { number } => self.iclog_done(number),
            Owner::Ail { batch } => self.ail_done(batch),
        }
        self.settle();
    }

    /// When the clock matters next.
    pub fn deadline(&self) -> Option<Time> {
        let log = match &self.log {
            Log::Jbd2(j) => j.deadline(self.config.ext4.commit),
            Log::Xfs(x) => x.deadline(),
            Log::None => Time::NEVER,
        };
        let at = log.min(self.flusher_at);
        (at < Time::NEVER).then_some(at)
    }
    /// The time of [`Fs::deadline`] has come.
    pub fn on_timer(&mut self, now: Time) {
        self.now = now;
        if self.flusher_at <= now {
            self.flusher_at = Time::NEVER;
            self.flusher_called = true;
        }
        self.log_timer();
        self.settle();
    }

    /// Wakes whoever waits for something that has come.
    fn settle(&mut self) {
        let mut sleepers = std::mem::take(&mut self.sleepers);
        sleepers.retain(|&task| {
            let wait = self.tasks[task].blocked.expect("it sleeps");
            let over = self.is_over(task, wait);
            if over {
                self.tasks[task].blocked = None;
                self.wakes.push_back(task);
            }
            !over
        });
        self.sleepers = sleepers;
    }

    fn is_over(&self, task: u32, wait: Wait) -> bool {
        match wait {
            Wait::Page(key) => self.cache_at(key).is_none_or(|uptodate| uptodate),
            Wait::WriteBack { ino, first, last } => !self.cache.is_writing(ino, first, last),
            Wait::Mapping(ino) => !self.inodes[ino].is_mapping(),
            Wait::Inode(ino) => self.may_lock(task, ino),
            Wait::Direct(ino) => !self.inodes[ino].lock.has_direct(),
            Wait::Buffer(block) => !self.is_locked(block),
            Wait::Bios => self.tasks[task].bios == 0,
            Wait::Commit(seq) => self.durable() >= seq,
            // Or it is its turn to make room.
            Wait::Handle => self.may_begin() || self.log_is_short(),
            Wait::Handles => self.no_handles(),
            Wait::Dirty => !self.over_limit(),
            Wait::Memory => self.cache.idle() > 0 || self.nothing_to_free(),
            Wait::Work => self.has_work(task),
            Wait::Iclog => self.iclog_free(),
            Wait::Checkpoint => !self.checkpointing(),
        }
    }

    /// The first page of a range that cannot be dropped yet, and what it waits for.
    pub(crate) fn busy(&self, ino: u32, first: u64, last: u64) -> Option<(u64, Wait)> {
        let page = self.cache.first_busy(ino, first, last)?;
        let wait = match self.cache.is_writing(ino, page, page) {
            true => Wait::WriteBack { ino, first: page, last: page },
            false => Wait::Page(u64::from(ino) << 32 | page),
        };
        Some((page, wait))
    }

    fn cache_at(&self, key: u64) -> Option<bool> {
        let key = Key::new((key >> 32) as u32, key & 0xFFFF_FFFF);
        self.cache.get(key).map(|p| p.is_uptodate())
    }

    fn has_work(&self, task: u32) -> bool {
        match self.tasks[task].frames.last() {
            Some(Frame::Flusher { .. }) => self.flusher_called || self.over_background(),
            Some(Frame::Commit { .. }) => self.commit_wanted(),
            Some(Frame::Cil { .. }) => self.push_wanted(),
            Some(Frame::Ail { .. }) => self.ail_wanted(),
            Some(Frame::Ioend { .. }) => self.ioend_wanted(),
            _ => false,
        }
    }

    fn step(&mut self, t: u32, frame: Frame) -> Flow {
        match frame {
            Frame::Call { op, phase } => self.call_step(t, op, phase),
            Frame::Lock { ino, alone } => self.lock(t, ino, alone),
            Frame::Need => self.need(t),
            Frame::Begin => self.begin(t),
            Frame::Join => self.join(t),
            Frame::End => self.end(t),
            Frame::Room(n) => self.room(t, n),
            Frame::ReadPages { ino, first, n, mark } => self.read_pages(t, ino, first, n, mark),
            Frame::WritePages { ino, at, last, left, mapped, sync, phase } => {
                self.write_pages(t, ino, (at, last), left, (mapped, sync), phase)
            }
            Frame::WaitPages { ino, first, last } => {
                // Page by page, upwards: what is sent meanwhile behind it is not waited for.
                let Some(page) = self.cache.first_writing(ino, first, last) else {
                    return self.pop(t);
                };
                if let Some(top) = self.tasks[t].frames.last_mut() {
                    *top = Frame::WaitPages { ino, first: page, last };
                }
                Flow::Block(Wait::WriteBack { ino, first: page, last: page })
            }
            // invalidate_inode_pages2_range, page by page: what others bring behind it stays.
            Frame::DropPages { ino, first, last } => {
                let busy = self.busy(ino, first, last);
                let end = busy.map_or(last + 1, |(page, _)| page);
                if end > first {
                    self.cache.drop_pages(ino, first, end - 1, false);
                }
                let Some((page, wait)) = busy else { return self.pop(t) };
                if let Some(top) = self.tasks[t].frames.last_mut() {
                    *top = Frame::DropPages { ino, first: page, last };
                }
                Flow::Block(wait)
            }
            Frame::Sync { ino, first, last, data_only, phase } => {
                self.sync_step(t, ino, (first, last), data_only, phase)
            }
            Frame::Force { seq, phase } => self.force(t, seq, phase),
            Frame::Throttle { phase } => self.throttle(t, phase),
            Frame::Allocate { ino, logical, n, want, own, phase } => {
                self.allocate(t, ino, (logical, n), want, own, phase)
            }
            Frame::Convert { ino, at, end, size, phase } => {
                self.convert(t, ino, (at, end), size, phase)
            }
            Frame::Flusher { phase } => self.flusher(t, phase),
            Frame::Commit { phase } => self.commit(t, phase),
            Frame::Checkpoint { phase } => self.checkpoint(t, phase),
            Frame::Cil { phase } => self.cil(t, phase),
            Frame::Ail { phase } => self.ail(t, phase),
            Frame::Ioend { phase } => self.ioend(t, phase),
        }
    }

    // What frames are made with.

    pub(crate) fn pop(&mut self, t: u32) -> Flow {
        self.tasks[t].frames.pop();
        Flow::Again
    }
    pub(crate) fn push(&mut self, t: u32, frame: Frame) -> Flow {
        self.tasks[t].frames.push(frame);
        Flow::Again
    }
    /// The phase the top frame goes on with.
    pub(crate) fn go(&mut self, t: u32, to: u8) {
        match self.tasks[t].frames.last_mut() {
            Some(
                Frame::Call { phase, .. }
                | Frame::WritePages { phase, .. }
                | Frame::Sync { phase, .. }
                | Frame::Force { phase, .. }
                | Frame::Throttle { phase }
                | Frame::Allocate { phase, .. }
                | Frame::Convert { phase, .. }
                | Frame::Flusher { phase }
                | Frame::Commit { phase }
                | Frame::Checkpoint { phase }
                | Frame::Cil { phase }
                | Frame::Ail { phase }
                | Frame::Ioend { phase },
            ) => *phase = to,
            _ => unreachable!("frames with phases alone go on to one"),
        }
    }
    pub(crate) fn work(&mut self, t: u32, span: Span) {
        if span > Span::ZERO {
            let queue = &mut self.tasks[t].queue;
            // Stretches that follow one another are one.
            if let Some(Turn::Work(last)) = queue.back_mut() {
                *last += span;
            } else {
                queue.push_back(Turn::Work(span));
            }
        }
    }

    pub(crate) fn submit(&mut self, t: u32, owner: Owner, mut bio: Bio) {
        if let Owner::Task(task) = owner {
            self.tasks[task].bios += 1;
        }
        bio.id = self.bios.insert(BioState { owner, kind: bio.kind, what: bio.what });
        self.account(&bio);
        self.tasks[t].queue.push_back(Turn::Submit(bio));
    }

    fn account(&mut self, bio: &Bio) {
        let blocks = u64::from(bio.len).div_ceil(PAGE);
        let s = &mut self.stats;
        s.flushes += u64::from(bio.preflush || bio.kind == BioKind::Flush);
        s.fua_writes += u64::from(bio.fua);
        if bio.kind == BioKind::Read {
            match bio.what {
                What::Data => s.data_read += blocks,
                _ => s.metadata_read += blocks,
            }
            return;
        }
        *match bio.what {
            What::Data => &mut s.data_blocks,
            What::Meta => &mut s.checkpoint_blocks,
            What::Descriptor => &mut s.descriptor_blocks,
            What::Journal => &mut s.journal_blocks,
            What::Commit => &mut s.commit_blocks,
            What::Tail => &mut s.super_blocks,
            What::Log => &mut s.log_blocks,
            What::Flush => return,
        } += blocks;
    }

    /// A bio of `n` blocks at `block`.
    pub(crate) fn bio(&self, kind: BioKind, what: What, block: u64, n: u64) -> Bio {
        Bio {
            id: 0,
            kind,
            what,
            offset: block * PAGE,
            len: (n * PAGE) as u32,
            preflush: false,
            fua: false,
            sync: true,
            buffers: 1,
            tag: 0,
        }
    }
    pub(crate) fn flush(&mut self, t: u32) {
        let bio = self.bio(BioKind::Flush, What::Flush, 0, 0);
        self.submit(t, Owner::Task(t), bio);
    }

    /// Metadata of `need` are in memory, read if they must be.
    fn need(&mut self, t: u32) -> Flow {
        let mut need = std::mem::take(&mut self.tasks[t].need);
        need.sort_unstable();
        need.dedup();
        need.retain(|&b| !self.cache.is_uptodate(Key::new(META, b)));
        let missing: Vec<u64> =
            need.iter().copied().filter(|&b| self.cache.get(Key::new(META, b)).is_none()).collect();
        self.tasks[t].need = need;
        if !missing.is_empty() {
            let n = missing.len() as u64;
            if !self.cache.reclaim(n).1 && !self.goes_over(t, n) {
                return self.push(t, Frame::Room(n));
            }
            for block in missing {
                // sb_bread: one block, one bio.
                let fresh = !self.disk.formatted.contains(&block);
                self.cache.insert(Key::new(META, block), fresh);
                if !fresh {
                    let bio = self.bio(BioKind::Read, What::Meta, block, 1);
                    self.submit(t, Owner::Read { ino: META, first: block, n: 1 }, bio);
                }
            }
            return Flow::Again;
        }
        match self.tasks[t].need.first() {
            Some(&block) => Flow::Block(Wait::Page(block)),
            None => self.pop(t),
        }
    }

    /// Who cleans memory, or holds a transaction open that must end for that, does not wait for it
    /// (PF_MEMALLOC, GFP_NOFS).
    fn has_reserves(&self, t: u32) -> bool {
        let apps = self.tasks.len() - self.kernel_tasks().len();
        t as usize >= apps || self.tasks[t].in_handle
    }

    /// Nothing will become free by waiting.
    fn nothing_to_free(&self) -> bool {
        let c = &self.cache;
        c.writing() + c.dirty() + c.idle() + c.reading() == 0
    }
    /// A task goes on without room for so many pages: the cache stands over its limit for a moment.
    fn goes_over(&self, t: u32, n: u64) -> bool {
        n >= self.cache.limit() || self.nothing_to_free() || self.has_reserves(t)
    }

    fn room(&mut self, t: u32, n: u64) -> Flow {
        let (freed, enough) = self.cache.reclaim(n);
        self.stats.reclaimed += freed;
        if enough || self.goes_over(t, n) {
            return self.pop(t);
        }
        (self.flusher_called, self.short) = (true, true);
        Flow::Block(Wait::Memory)
    }
}
