//! jbd2 (fs/jbd2 of Linux 4.14): one running transaction that handles join, one that is being
//! committed, and the committed ones whose blocks are not all in their place yet.
//!
//! A commit waits until handles end. Data of ordered inodes are written, and descriptor blocks and the logged
//! blocks follow. When all that is on the drive the commit block is written, with a flush before it and FUA.
//! The log is a ring. Its tail moves when the oldest transaction has nothing left to put in its place.

use crate::cache::{Key, META};
use crate::config::{DataMode, FsConfig};
use crate::fs::{BIO_PAGES, BioKind, Flow, Frame, Fs, Log, Owner, Pages, Wait, What};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wordline_base::{Span, Time};

/// Tags of a descriptor block: header of 12 bytes, UUID of 16, tags of 16 (64-bit, checksums), a
/// tail of 4.
const TAGS: u64 = (4096 - 12 - 16 - 4) / 16;
/// Block numbers of 8 bytes in a revoke block, after a header of 16.
const REVOKES: u64 = (4096 - 16 - 4) / 8;
/// Blocks a handle reserves (ext4's largest common case, EXT4_DATA_TRANS_BLOCKS and a directory's).
const CREDITS: u64 = 40;
/// MIN_LOG_RESERVED_BLOCKS.
const RESERVED: u64 = 32;
/// JBD2_NR_BATCH: buffers a checkpoint has under way.
const BATCH: usize = 64;

#[derive(Debug, Default)]
struct Transaction {
    /// Its number.
    tid: u64,
    /// When the first handle began.
    started: Time,
    /// Handles that have not ended.
    handles: u32,
    /// Metadata blocks that it logs.
    blocks: BTreeSet<Key>,
    /// Inodes whose data go first. The commit writes them, or (false) only waits.
    ordered: BTreeMap<u32, bool>,
    /// Blocks freed by it.
    freed: Vec<(u64, u32)>,
    /// Blocks of which replay forgets what the log has.
    revoked: Vec<u64>,
    /// Blocks of it that are free since, and pages cut off: not to be written in their place (set_buffer_freed).
    forgotten: BTreeSet<Key>,
    /// Blocks in older transactions of the log that nobody needs once this one is on the drive (BJ_Forget).
    obsolete: BTreeSet<Key>,
    /// Its flush is on its way (T_COMMIT_JFLUSH).
    flushing: bool,
}

/// A committed transaction in the log.
#[derive(Debug)]
struct Logged {
    /// Where it begins in the log.
    first: u64,
    /// Blocks that are not in their place yet.
    left: BTreeSet<Key>,
}

pub(crate) struct Jbd2 {
    /// The one that handles join.
    running: Option<Transaction>,
    /// The one that is being committed.
    committing: Option<Transaction>,
    /// Handles of the running one are being waited for.
    locked: bool,
    /// The number of the next transaction.
    next: u64,
    /// Transactions up to this are on the drive.
    durable: u64,
    /// Transactions up to this are to be committed.
    requested: u64,
    /// Committed ones whose blocks are not all in their place, oldest first.
    logged: VecDeque<Logged>,
    /// The one of them that a block is left of: the newest that has it.
    left_of: BTreeMap<Key, u64>,
    /// The next position in the log. Positions count up for ever; the block is position modulo length.
    head: u64,
    /// The oldest position that the log needs.
    tail: u64,
    /// Blocks of the log.
    len: u64,
    /// A task moves the tail.
    checkpointing: bool,
    /// Where the commit under way moves the tail to.
    moves_to: Option<u64>,
    /// The tail of the superblock that was sent last: the log keeps what it has until that is on the drive.
    tail_sent: u64,
    /// When data go to their place (the mount option `data`).
    data: DataMode,
    /// Where the transaction that is being committed begins in the log.
    writes: u64,
}

impl Jbd2 {
    pub fn new(config: &FsConfig, len: u64) -> Jbd2 {
        Jbd2 {
            running: None,
            committing: None,
            locked: false,
            next: 1,
            durable: 0,
            requested: 0,
            logged: VecDeque::new(),
            left_of: BTreeMap::new(),
            head: 0,
            tail: 0,
            // The first block is the journal's superblock.
            len: len - 1,
            checkpointing: false,
            moves_to: None,
            tail_sent: 0,
            data: config.ext4.data,
            writes: 0,
        }
    }

    pub fn durable(&self) -> u64 {
        self.durable
    }
    pub fn will_flush(&self, tid: u64) -> bool {
        let sent = self.committing.as_ref().is_some_and(|c| c.tid == tid && c.flushing);
        self.durable < tid && !sent
    }
    pub fn current(&self) -> u64 {
        self.running.as_ref().map_or(self.next, |r| r.tid)
    }
    pub fn handles(&self) -> u32 {
        self.running.as_ref().map_or(0, |r| r.handles)
    }
    pub fn deadline(&self, interval: Span) -> Time {
        match &self.running {
            Some(r) if self.requested < r.tid => r.started + interval,
            _ => Time::NEVER,
        }
    }
    pub fn request(&mut self, tid: u64) {
        self.requested = self.requested.max(tid);
    }

    /// j_max_transaction_buffers.
    fn largest(&self) -> u64 {
        self.len / 4
    }
    /// jbd2_log_space_left.
    fn space(&self) -> u64 {
        let free = (self.len - (self.head - self.tail)).saturating_sub(RESERVED);
        match &self.committing {
            Some(c) => free.saturating_sub(c.blocks.len() as u64 + (free >> 5)),
            None => free,
        }
    }
    fn is_full(&self) -> bool {
        let Some(r) = &self.running else { return false };
        r.blocks.len() as u64 + (u64::from(r.handles) + 1) * CREDITS > self.largest()
    }
    /// Handles of the running transaction are being waited for.
    pub fn is_locked(&self) -> bool {
        self.locked
    }
    /// add_transaction_credits.
    pub fn may_begin(&self) -> bool {
        !self.locked && !self.is_full() && self.space() >= self.largest()
    }
    pub fn needs_checkpoint(&self) -> bool {
        !self.locked && !self.is_full() && self.space() < self.largest()
    }
    /// The running transaction is as large as it may be.
    pub fn close_full(&mut self) {
        if self.is_full() {
            let tid = self.current();
            self.request(tid);
        }
    }
    pub fn begin(&mut self, now: Time) {
        let running = self.running.get_or_insert_with(|| {
            let tid = self.next;
            self.next += 1;
            Transaction { tid, started: now, ..Transaction::default() }
        });
        running.handles += 1;
    }
    pub fn end(&mut self) {
        if let Some(r) = &mut self.running {
            r.handles -= 1;
        }
    }
    fn open(&mut self) -> &mut Transaction {
        self.running.as_mut().expect("a handle is open")
    }
    pub fn join(&mut self, key: Key) {
        self.open().blocks.insert(key);
    }
    /// ext4_jbd2_inode_add_write, _wait.
    pub fn order(&mut self, ino: u32, write: bool) {
        *self.open().ordered.entry(ino).or_default() |= write;
    }
    /// The transaction that is being committed waits for data of an inode.
    pub fn commits_data_of(&self, ino: u32) -> bool {
        self.committing.as_ref().is_some_and(|c| c.ordered.contains_key(&ino))
    }
    /// Blocks that become free with this transaction; metadata among them are revoked.
    pub fn free(&mut self, freed: Vec<(u64, u32)>) {
        if !freed.is_empty() {
            self.open().freed.extend(freed);
        }
    }
    /// A metadata block is no more: neither logged nor put in its place.
    /// True while the transaction being committed still needs the page.
    pub fn forget(&mut self, block: u64) -> bool {
        let key = Key::new(META, block);
        // ext4_forget: with data=journal the log has all that is written over the block later.
        let revokes = self.data != DataMode::Journal;
        let r = self.open();
        r.blocks.remove(&key);
        if revokes {
            r.revoked.push(block);
        }
        self.outdate(key);
        match &mut self.committing {
            Some(c) if c.blocks.contains(&key) => c.forgotten.insert(key),
            _ => false,
        }
    }
    /// Data that were to be logged are truncated (journal_unmap_buffer). True if nobody needs the page any more:
    /// the transaction that is being committed still logs it, and then it is no page of the file.
    pub fn drop_data(&mut self, key: Key) -> bool {
        self.outdate(key);
        let dropped = self.running.as_mut().is_some_and(|r| r.blocks.remove(&key));
        match &mut self.committing {
            Some(c) if c.blocks.contains(&key) => {
                c.forgotten.insert(key);
                false
            }
            _ => dropped,
        }
    }
    /// The log needs what older transactions have of a block until the running one is on the drive.
    fn outdate(&mut self, key: Key) {
        if self.left_of.contains_key(&key) {
            self.open().obsolete.insert(key);
        }
    }
    /// A block is in its place.
    pub fn checkpointed(&mut self, key: Key) {
        let Some(tid) = self.left_of.remove(&key) else { return };
        let oldest = self.oldest_logged();
        self.logged[(tid - oldest) as usize].left.remove(&key);
    }
    /// The transaction being committed, and its blocks.
    #[cfg(test)]
    pub fn committing(&self) -> Option<(u64, &BTreeSet<Key>)> {
        self.committing.as_ref().map(|c| (c.tid, &c.blocks))
    }
    #[cfg(test)]
    pub fn committing_ordered(&self) -> Vec<u32> {
        self.committing.iter().flat_map(|c| c.ordered.keys().copied()).collect()
    }
    /// The oldest position that the log needs (jbd2_journal_get_log_tail).
    fn oldest(&mut self) -> u64 {
        while self.logged.front().is_some_and(|l| l.left.is_empty()) {
            self.logged.pop_front();
        }
        // What is being committed is in the log too.
        let open = if self.committing.is_some() { self.writes.max(self.tail) } else { self.head };
        self.logged.front().map_or(open, |l| l.first)
    }
    /// The oldest transaction the log keeps.
    pub fn oldest_logged(&self) -> u64 {
        self.durable + 1 - self.logged.len() as u64
    }
    /// The transaction that is not on the drive yet and relieves older ones of a block.
    fn holder(&self, key: Key) -> Option<u64> {
        let open = [&self.committing, &self.running].into_iter().flatten();
        open.filter(|t| t.blocks.contains(&key) || t.obsolete.contains(&key)).map(|t| t.tid).next()
    }
}

impl Fs {
    fn jbd2(&mut self) -> &mut Jbd2 {
        match &mut self.log {
            Log::Jbd2(j) => j,
            Log::Xfs(_) | Log::None => unreachable!("ext4 has a journal"),
        }
    }

    pub(crate) fn commit_wanted(&self) -> bool {
        let Log::Jbd2(j) = &self.log else { return false };
        j.running.as_ref().is_some_and(|r| j.requested >= r.tid)
    }
    pub(crate) fn checkpointing(&self) -> bool {
        matches!(&self.log, Log::Jbd2(j) if j.checkpointing)
    }

    /// Bios for `n` blocks of the log from position `at`, each run on the drive one bio.
    fn log_bios(&mut self, t: u32, what: What, at: u64, n: u64, tid: u64, flags: (bool, bool)) {
        let (mut at, end) = (at, at + n);
        while at < end {
            let len = self.jbd2().len;
            let (block, run) = self.disk.log.find(1 + at % len);
            let run = run.min(end - at).min(len - at % len).min(BIO_PAGES);
            let mut bio = self.bio(BioKind::Write, what, block, run);
            (bio.preflush, bio.fua) = flags;
            bio.buffers = run as u32;
            bio.tag = tid;
            self.submit(t, Owner::Task(t), bio);
            at += run;
        }
    }

    /// jbd2_journal_commit_transaction.
    pub(crate) fn commit(&mut self, t: u32, phase: u8) -> Flow {
        let barrier = self.config.barrier;
        let early = self.config.ext4.journal_async_commit;
        match phase {
            0 => {
                if !self.commit_wanted() {
                    return Flow::Block(Wait::Work);
                }
                self.jbd2().locked = true;
                self.go(t, 1);
                Flow::Again
            }
            1 => {
                if !self.no_handles() {
                    return Flow::Block(Wait::Handles);
                }
                let j = self.jbd2();
                j.locked = false;
                j.committing = j.running.take();
                self.go(t, 2);
                self.order_data(t)
            }
            2 => {
                self.write_log(t);
                self.go(t, 3);
                Flow::Again
            }
            3 => {
                // journal_finish_inode_data_buffers.
                let waits = self.jbd2().committing.as_ref().map(|c| c.ordered.keys().copied());
                let waits: Vec<u32> = waits.into_iter().flatten().collect();
                self.go(t, 4);
                for ino in waits {
                    self.push(t, Frame::WaitPages { ino, first: 0, last: u64::MAX });
                }
                Flow::Again
            }
            4 => {
                // What is in its place by now is on the drive with the flush of the commit block.
                let j = self.jbd2();
                let tail = j.oldest();
                j.moves_to = Some(tail).filter(|tail| tail - j.tail >= j.len / 4);
                if early {
                    self.commit_block(t, (false, false));
                }
                self.go(t, 5);
                Flow::Again
            }
            5 => {
                if self.tasks[t].bios > 0 {
                    return Flow::Block(Wait::Bios);
                }
                if let Some(c) = &mut self.jbd2().committing {
                    c.flushing = true;
                }
                if early && barrier {
                    self.flush(t);
                } else if !early {
                    self.commit_block(t, (barrier, barrier));
                }
                self.go(t, 6);
                Flow::Again
            }
            6 => {
                if self.tasks[t].bios > 0 {
                    return Flow::Block(Wait::Bios);
                }
                self.committed();
                self.go(t, 7);
                if let Some(tail) = self.jbd2().moves_to.take() {
                    self.move_tail(t, tail, false);
                }
                Flow::Again
            }
            _ => {
                if self.tasks[t].bios > 0 {
                    return Flow::Block(Wait::Bios);
                }
                let j = self.jbd2();
                j.tail = j.tail.max(j.tail_sent);
                self.go(t, 0);
                Flow::Again
            }
        }
    }

    /// journal_submit_data_buffers: what has blocks already.
    fn order_data(&mut self, t: u32) -> Flow {
        let ordered = self.jbd2().committing.as_ref().map(|c| c.ordered.clone());
        for (ino, write) in ordered.into_iter().flatten() {
            if write {
                self.push(
                    t,
                    Frame::WritePages {
                        ino,
                        at: 0,
                        last: u64::MAX,
                        left: u64::MAX,
                        mapped: true,
                        sync: None,
                        phase: 0,
                    },
                );
            }
        }
        Flow::Again
    }

    fn write_log(&mut self, t: u32) {
        let j = self.jbd2();
        let Some(c) = &j.committing else { return };
        let (tid, n) = (c.tid, c.blocks.len() as u64);
        let revokes = (c.revoked.len() as u64).div_ceil(REVOKES);
        let first = j.head;
        j.head += revokes + n.div_ceil(TAGS) + n;
        assert!(j.head < j.tail + j.len, "the log of {} blocks overruns itself", j.len);
        j.writes = first;
        self.stats.commits += 1;
        self.work(t, self.config.cost.commit * n.max(1));
        let mut at = first;
        if revokes > 0 {
            self.log_bios(t, What::Descriptor, at, revokes, tid, (false, false));
            at += revokes;
        }
        let mut left = n;
        while left > 0 {
            let tags = left.min(TAGS);
            self.log_bios(t, What::Descriptor, at, 1, tid, (false, false));
            self.log_bios(t, What::Journal, at + 1, tags, tid, (false, false));
            at += 1 + tags;
            left -= tags;
        }
    }

    fn commit_block(&mut self, t: u32, flags: (bool, bool)) {
        let j = self.jbd2();
        let tid = j.committing.as_ref().map_or(0, |c| c.tid);
        let at = j.head;
        j.head += 1;
        self.log_bios(t, What::Commit, at, 1, tid, flags);
    }

    /// The transaction is in the log: its blocks may go to their places, and what it freed is free.
    fn committed(&mut self) {
        let j = self.jbd2();
        let Some(c) = j.committing.take() else { return };
        let first = j.writes;
        c.blocks.union(&c.obsolete).for_each(|&key| j.checkpointed(key));
        j.durable = c.tid;
        let running = j.running.as_ref();
        let again: BTreeSet<Key> = running.map_or_else(BTreeSet::new, |r| &r.blocks & &c.blocks);
        for &key in &c.blocks {
            if again.contains(&key) {
                continue;
            }
            self.cache.unpin(key);
            if c.forgotten.contains(&key) {
                if !self.cache.is_writing(key.inode(), key.page(), key.page()) {
                    self.cache.remove(key);
                }
                continue;
            }
            if self.cache.get(key).is_some() {
                self.make_dirty(key.inode(), key.page());
            }
        }
        for (block, len) in c.freed {
            self.disk.space.give(block, len);
        }
        let left: BTreeSet<Key> = c.blocks.difference(&c.forgotten).copied().collect();
        let j = self.jbd2();
        j.left_of.extend(left.iter().map(|&key| (key, c.tid)));
        j.logged.push_back(Logged { first, left });
    }

    /// jbd2_journal_update_sb_log_tail. What was put in its place must be on the drive before the log forgets it.
    fn move_tail(&mut self, t: u32, tail: u64, flushes: bool) {
        let j = self.jbd2();
        if tail <= j.tail {
            return;
        }
        j.tail_sent = tail;
        let block = self.disk.log.find(0).0;
        let mut bio = self.bio(BioKind::Write, What::Tail, block, 1);
        (bio.preflush, bio.fua) = (flushes && self.config.barrier, self.config.barrier);
        bio.tag = tail;
        self.submit(t, Owner::Task(t), bio);
    }

    /// jbd2_log_do_checkpoint of the oldest transaction, by whoever needs room.
    pub(crate) fn checkpoint(&mut self, t: u32, phase: u8) -> Flow {
        match phase {
            0 => {
                if !self.jbd2().needs_checkpoint() {
                    return self.pop(t);
                }
                if self.checkpointing() {
                    return Flow::Block(Wait::Checkpoint);
                }
                if self.jbd2().logged.is_empty() {
                    // All of the log is one transaction that is not committed yet.
                    let tid = self.jbd2().committing.as_ref().map(|c| c.tid);
                    let seq = tid.unwrap_or(self.current());
                    self.pop(t);
                    return self.push(t, Frame::Force { seq, phase: 0 });
                }
                self.jbd2().checkpointing = true;
                self.go(t, 1);
                Flow::Again
            }
            1 => self.checkpoint_batch(t),
            2 => {
                if self.tasks[t].bios > 0 {
                    return Flow::Block(Wait::Bios);
                }
                self.go(t, 1);
                Flow::Again
            }
            _ => {
                if self.tasks[t].bios > 0 {
                    return Flow::Block(Wait::Bios);
                }
                let j = self.jbd2();
                j.tail = j.tail.max(j.tail_sent);
                j.checkpointing = false;
                self.pop(t)
            }
        }
    }

    fn checkpoint_batch(&mut self, t: u32) -> Flow {
        let Some(front) = self.jbd2().logged.front() else {
            let tail = self.jbd2().oldest();
            self.move_tail(t, tail, true);
            self.go(t, 3);
            return Flow::Again;
        };
        let keys: Vec<Key> = front.left.iter().copied().take(BATCH).collect();
        if keys.is_empty() {
            let tail = self.jbd2().oldest();
            self.move_tail(t, tail, true);
            self.go(t, 3);
            return Flow::Again;
        }
        let mut sent = false;
        let mut wait = None;
        for key in keys {
            if let Some(seq) = self.jbd2().holder(key) {
                // A newer transaction has it: when that is in the log, this one is rid of it.
                wait.get_or_insert(Frame::Force { seq, phase: 0 });
            } else if self.cache.is_writing(key.inode(), key.page(), key.page()) {
                let (ino, page) = (key.inode(), key.page());
                wait.get_or_insert(Frame::WaitPages { ino, first: page, last: page });
            } else if self.cache.is_dirty(key) {
                sent |= self.write_one(t, key);
            } else {
                // Dropped meanwhile.
                self.jbd2().checkpointed(key);
            }
        }
        match wait {
            Some(frame) if !sent => self.push(t, frame),
            _ => Flow::Again,
        }
    }

    fn write_one(&mut self, t: u32, key: Key) -> bool {
        let (ino, page) = (key.inode(), key.page());
        let block = match ino {
            META => Some(page),
            _ => self.inodes[ino].extents.find(page).map(|(b, _)| b),
        };
        let Some(block) = block else { return false };
        self.cache.begin_write(key);
        self.store(block, ino, page, 1);
        self.work(t, self.config.cost.write_back);
        let what = if ino == META { What::Meta } else { What::Data };
        let mut bio = self.bio(BioKind::Write, what, block, 1);
        bio.tag = u64::from(ino);
        self.submit(t, Owner::Write(Pages::new(ino, page, 1)), bio);
        self.settle_age(ino);
        true
    }

    pub(crate) fn log_timer(&mut self) {
        let now = self.now;
        match &mut self.log {
            Log::Jbd2(j) => {
                if j.deadline(self.config.ext4.commit) <= now {
                    let tid = j.current();
                    j.request(tid);
                }
            }
            Log::Xfs(x) => x.on_timer(now, self.config.xfs.sync),
            Log::None => {}
        }
    }

    /// Whether data go through the journal.
    pub fn journals_data(&self) -> bool {
        matches!(&self.log, Log::Jbd2(j) if j.data == DataMode::Journal)
    }
    /// Blocks of the log in use, for tests.
    #[cfg(test)]
    pub(crate) fn log_used(&self) -> u64 {
        match &self.log {
            Log::Jbd2(j) => j.head - j.tail,
            Log::Xfs(x) => x.used() / crate::fs::PAGE,
            Log::None => 0,
        }
    }
}
