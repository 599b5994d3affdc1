//! XFS' log (fs/xfs/xfs_log_cil.c, xfs_log.c, xfs_trans_ail.c of Linux 4.14). Changes gather in memory, in the
//! committed item list: each item once, however often it is changed. A push formats them into in-core log
//! buffers, which are written with a flush before them and FUA. From then on they are in the active item list.
//! They are written in their place when the log's tail must move.
//!
//! A 4 KiB block stands for the buffers in it: the four headers of an allocation group are one.

use crate::cache::{Key, META};
use crate::config::FsConfig;
use crate::disk::Item;
use crate::fs::{BioKind, Flow, Fs, Log, Owner, PAGE, Wait, What};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wordline_base::{Span, Time};

/// What a transaction reserves in the log: xfs_log_calc of a create, the largest of the usual ones.
const RESERVE: u64 = 128 << 10;
/// Header of a log buffer (xlog_rec_header), and of a region of an item (xlog_op_header).
const BUFFER_HEADER: u64 = 512;
const REGION_HEADER: u32 = 12;
/// Start record, transaction header and commit record of a checkpoint.
const CHECKPOINT_HEADERS: u64 = 12 + 12 + 16 + 12;
/// Items the AIL thread has under way at once.
const BATCH: usize = 64;

/// A push of the CIL on its way to the drive.
#[derive(Debug)]
struct Checkpoint {
    seq: u64,
    start: u64,
    items: BTreeSet<Item>,
    freed: Vec<(u64, u32)>,
    /// The log buffer with its commit record; none while it is being formatted.
    last: Option<u64>,
}

pub(crate) struct Xlog {
    /// Items changed since the last push, with their bytes in the log (the CIL).
    cil: BTreeMap<Item, u32>,
    /// Bytes of all of these.
    cil_bytes: u64,
    /// Blocks freed by them.
    freed: Vec<(u64, u32)>,
    /// The number of the checkpoint that they will be.
    seq: u64,
    /// Checkpoints up to this are on the drive.
    durable: u64,
    /// Checkpoints up to this are to be pushed.
    pushed_for: u64,
    /// Checkpoints up to this are to be on the drive.
    forced: u64,
    /// Pushes on their way to the drive.
    checkpoints: VecDeque<Checkpoint>,
    /// Transactions that may still change something.
    handles: u32,
    /// The end of the log in bytes, which count up for ever.
    head: u64,
    /// Bytes of the log.
    len: u64,
    /// Bytes at which what gathers is pushed.
    limit: u64,
    /// The number of the active log buffer.
    active: u64,
    /// Bytes that it holds.
    held: u64,
    /// Bytes of a log buffer.
    buffer: u64,
    /// Log buffers that are not under way.
    free_buffers: u32,
    /// Buffers of two parts, of which neither is on the drive.
    split: BTreeSet<u64>,
    /// Log buffers on the drive, behind one that is not.
    done: BTreeSet<u64>,
    /// All log buffers up to this are on the drive.
    all_done: u64,
    /// Items by the checkpoint that last logged them.
    ail: BTreeSet<(u64, Item)>,
    /// The checkpoint that last logged an item.
    lsn: BTreeMap<Item, u64>,
    /// Where each checkpoint on the drive begins that the log still needs.
    starts: BTreeMap<u64, u64>,
    /// Items on their way to their place.
    flushing: BTreeSet<Item>,
    /// Inodes of the active item list, with the first block of their cluster before them.
    clusters: BTreeSet<(u64, u32)>,
    /// Clusters on their way to their place.
    under_way: BTreeSet<u64>,
    /// Items that are written together, with their checkpoints.
    batches: BTreeMap<u64, Vec<(Item, u64)>>,
    /// The number of the next batch.
    next_batch: u64,
    /// The AIL thread writes what was logged up to here.
    target: u64,
    /// When all is forced and pushed again.
    sync_at: Time,
    /// Log buffers go out with preflush and FUA.
    barrier: bool,
}

impl Xlog {
    pub fn new(config: &FsConfig, blocks: u64) -> Xlog {
        let x = &config.xfs;
        let len = blocks * PAGE;
        Xlog {
            cil: BTreeMap::new(),
            cil_bytes: 0,
            freed: Vec::new(),
            seq: 1,
            durable: 0,
            pushed_for: 0,
            forced: 0,
            checkpoints: VecDeque::new(),
            handles: 0,
            head: 0,
            len,
            limit: if x.cil_limit == 0 { len / 8 } else { u64::from(x.cil_limit) },
            active: 1,
            held: 0,
            buffer: u64::from(x.log_buffer_bytes),
            free_buffers: x.log_buffers,
            split: BTreeSet::new(),
            done: BTreeSet::new(),
            all_done: 0,
            ail: BTreeSet::new(),
            lsn: BTreeMap::new(),
            starts: BTreeMap::new(),
            flushing: BTreeSet::new(),
            clusters: BTreeSet::new(),
            under_way: BTreeSet::new(),
            batches: BTreeMap::new(),
            next_batch: 0,
            target: 0,
            sync_at: Time::NEVER,
            barrier: config.barrier,
        }
    }

    pub fn durable(&self) -> u64 {
        self.durable
    }
    pub fn current(&self) -> u64 {
        self.seq
    }
    /// The buffer a checkpoint ends in is not on its way yet.
    pub fn will_flush(&self, seq: u64) -> bool {
        let c = self.checkpoints.iter().find(|c| c.seq == seq);
        let sent = c.and_then(|c| c.last).is_some_and(|last| last < self.active);
        self.durable < seq && !sent
    }
    /// xfs_log_force_lsn, or a push that nobody waits for.
    pub fn request(&mut self, seq: u64, force: bool) {
        self.pushed_for = self.pushed_for.max(seq);
        if force {
            self.forced = self.forced.max(seq);
        }
    }
    fn tail(&self) -> u64 {
        let oldest = self.ail.first().map(|&(seq, _)| seq);
        let logged = oldest.and_then(|seq| self.starts.get(&seq)).copied();
        let writing = self.checkpoints.front().map(|c| c.start);
        logged.into_iter().chain(writing).min().unwrap_or(self.head)
    }
    /// Checkpoints on their way: number, first byte in the log, and the buffer each ends in.
    #[cfg(test)]
    pub fn on_their_way(&self) -> impl Iterator<Item = (u64, u64, Option<u64>)> {
        self.checkpoints.iter().map(|c| (c.seq, c.start, c.last))
    }
    #[cfg(test)]
    pub fn oldest_byte(&self) -> u64 {
        self.tail()
    }
    /// What a batch puts in its place, with the checkpoints that logged it.
    #[cfg(test)]
    pub fn batch(&self, id: u64) -> &[(Item, u64)] {
        &self.batches[&id]
    }
    pub fn used(&self) -> u64 {
        self.head - self.tail()
    }
    fn room(&self) -> u64 {
        self.len.saturating_sub(self.used() + self.cil_bytes + u64::from(self.handles) * RESERVE)
    }
    pub fn may_begin(&self) -> bool {
        self.room() >= 2 * RESERVE
    }
    pub fn begin(&mut self) {
        self.handles += 1;
    }
    pub fn end(&mut self) {
        self.handles -= 1;
        // xlog_grant_push_ail: a quarter of the log is kept free.
        if self.room() < self.len / 4 {
            self.press();
        }
    }
    /// Moves the tail: writes what is oldest, and logs what of it is only in memory.
    pub fn press(&mut self) {
        self.target = self.target.max(self.ail.first().map_or(0, |&(seq, _)| seq));
        if self.ail.is_empty() {
            self.request(self.seq, true);
        }
    }
    pub fn join(&mut self, item: Item, bytes: u32) {
        let most = match item {
            Item::Block(_) => 4096 + 64,
            Item::Inode(_) => bytes,
        };
        let held = self.cil.entry(item).or_insert(2 * REGION_HEADER);
        let before = *held;
        *held = match item {
            // Each change is another chunk, until all of it is logged.
            Item::Block(_) => (*held + bytes).min(most),
            Item::Inode(_) => 2 * REGION_HEADER + bytes,
        };
        self.cil_bytes +=
            u64::from(*held) - if before > 2 * REGION_HEADER { u64::from(before) } else { 0 };
    }
    pub fn free(&mut self, freed: Vec<(u64, u32)>) {
        self.freed.extend(freed);
    }
    pub fn deadline(&self) -> Time {
        self.sync_at
    }
    /// xfs_log_worker: every so often all is forced and pushed.
    pub fn on_timer(&mut self, now: Time, interval: Span) {
        if self.sync_at > now {
            return;
        }
        self.sync_at = Time::NEVER;
        if !self.cil.is_empty() {
            self.request(self.seq, true);
        }
        self.target = self.seq;
        self.arm(now, interval);
    }
    fn arm(&mut self, now: Time, interval: Span) {
        let idle = self.cil.is_empty() && self.ail.is_empty() && self.checkpoints.is_empty();
        if self.sync_at == Time::NEVER && !idle {
            self.sync_at = now + interval;
        }
    }
    /// A block is free: nothing of it is put in its place any more (xfs_trans_binval). True while
    /// it is on its way there.
    pub fn forget(&mut self, block: u64) -> bool {
        let item = Item::Block(block);
        if let Some(bytes) = self.cil.remove(&item) {
            self.cil_bytes -= u64::from(bytes);
        }
        for c in &mut self.checkpoints {
            c.items.remove(&item);
        }
        if let Some(seq) = self.lsn.remove(&item) {
            self.ail.remove(&(seq, item));
        }
        self.flushing.contains(&item)
    }
    pub fn is_flushing(&self, block: u64) -> bool {
        self.flushing.contains(&Item::Block(block))
    }
    fn in_memory(&self, item: Item) -> bool {
        self.cil.contains_key(&item) || self.checkpoints.iter().any(|c| c.items.contains(&item))
    }
    /// The active buffer holds the end of a checkpoint that somebody waits for.
    fn partial_wanted(&self) -> bool {
        self.held > 0
            && self.checkpoints.iter().any(|c| c.seq <= self.forced && c.last == Some(self.active))
    }
    /// An item of the AIL may be put in its place: it is in the log, and not under way.
    fn may_flush(&self, item: Item) -> bool {
        !self.flushing.contains(&item) && !self.in_memory(item)
    }
    /// The next item to put in its place. An inode waits while its cluster, found by `cluster`, is on its way.
    fn next_item(&self, cluster: impl Fn(u32) -> u64) -> Option<(u64, Item)> {
        let up_to = ..=(self.target, Item::Inode(u32::MAX));
        self.ail.range(up_to).copied().find(|&(_, i)| {
            self.may_flush(i)
                && match i {
                    Item::Block(_) => true,
                    Item::Inode(ino) => !self.under_way.contains(&cluster(ino)),
                }
        })
    }
    /// The inodes of a cluster that are put in their place with it (xfs_iflush_cluster).
    fn take_cluster(&mut self, first: u64) -> Vec<(Item, u64)> {
        self.under_way.insert(first);
        let of_it = self.clusters.range((first, 0)..=(first, u32::MAX));
        let items = of_it.map(|&(_, ino)| Item::Inode(ino)).filter(|&i| self.may_flush(i));
        let taken: Vec<(Item, u64)> = items.map(|i| (i, self.lsn[&i])).collect();
        self.flushing.extend(taken.iter().map(|&(i, _)| i));
        taken
    }
    /// What holds the tail is only in memory again.
    fn tail_pinned(&self) -> bool {
        // By way of the shorter list.
        if self.cil.len() < self.ail.len() {
            return self.cil.keys().any(|i| self.lsn.get(i).is_some_and(|&seq| seq <= self.target));
        }
        let up_to = ..=(self.target, Item::Inode(u32::MAX));
        self.ail.range(up_to).any(|(_, i)| self.cil.contains_key(i))
    }
}

impl Fs {
    fn xfs(&mut self) -> &mut Xlog {
        match &mut self.log {
            Log::Xfs(x) => x,
            Log::Jbd2(_) | Log::None => unreachable!("XFS has a log"),
        }
    }

    pub(crate) fn push_wanted(&self) -> bool {
        let Log::Xfs(x) = &self.log else { return false };
        let asked = x.pushed_for >= x.seq || x.cil_bytes > x.limit;
        asked && !x.cil.is_empty() || x.partial_wanted()
    }
    pub(crate) fn ail_wanted(&self) -> bool {
        matches!(&self.log, Log::Xfs(x) if x.flushing.len() < BATCH
            && (x.next_item(|ino| self.cluster(ino).0).is_some() || x.tail_pinned() && x.forced < x.seq))
    }
    fn cluster(&self, ino: u32) -> (u64, u32) {
        self.disk.cluster(&self.inodes[ino])
    }
    pub(crate) fn iclog_free(&self) -> bool {
        matches!(&self.log, Log::Xfs(x) if x.free_buffers > 0)
    }

    /// xlog_cil_push.
    pub(crate) fn cil(&mut self, t: u32, phase: u8) -> Flow {
        match phase {
            0 => {
                if !self.push_wanted() {
                    return Flow::Block(Wait::Work);
                }
                let x = self.xfs();
                if x.partial_wanted() && (x.pushed_for < x.seq || x.cil.is_empty()) {
                    self.go(t, 2);
                    return Flow::Again;
                }
                let items: BTreeSet<Item> = std::mem::take(&mut x.cil).into_keys().collect();
                let bytes = std::mem::take(&mut x.cil_bytes) + CHECKPOINT_HEADERS;
                let freed = std::mem::take(&mut x.freed);
                let n = items.len() as u64;
                let (seq, start) = (x.seq, x.head);
                x.checkpoints.push_back(Checkpoint { seq, start, items, freed, last: None });
                x.seq += 1;
                self.stats.commits += 1;
                self.tasks[t].at = bytes;
                self.work(t, self.config.cost.commit * n);
                self.go(t, 1);
                Flow::Again
            }
            1 => {
                // xlog_write: fills one buffer after the other.
                if !self.iclog_free() {
                    return Flow::Block(Wait::Iclog);
                }
                let left = self.tasks[t].at;
                let x = self.xfs();
                let room = x.buffer - BUFFER_HEADER - x.held;
                let now = left.min(room);
                x.held += now;
                if left == now {
                    let active = x.active;
                    if let Some(c) = x.checkpoints.back_mut() {
                        c.last = Some(active);
                    }
                    self.go(t, 2);
                } else {
                    self.tasks[t].at = left - now;
                    self.write_buffer(t);
                }
                Flow::Again
            }
            _ => {
                if self.xfs().partial_wanted() {
                    if !self.iclog_free() {
                        return Flow::Block(Wait::Iclog);
                    }
                    self.write_buffer(t);
                }
                self.go(t, 0);
                Flow::Again
            }
        }
    }

    /// xlog_sync: the active buffer goes to the log.
    fn write_buffer(&mut self, t: u32) {
        let (barrier, lba) = (self.xfs().barrier, self.lba);
        let x = self.xfs();
        let len = (BUFFER_HEADER + x.held).next_multiple_of(lba).min(x.buffer);
        let number = x.active;
        let at = x.head;
        (x.active, x.held) = (number + 1, 0);
        x.free_buffers -= 1;
        x.head += len;
        let log = x.len;
        // At the log's end a buffer is two bios.
        let into = at % log;
        let first = len.min(log - into);
        let parts = [(into, first), (0, len - first)];
        if len > first {
            x.split.insert(number);
        }
        for (into, len) in parts.into_iter().filter(|p| p.1 > 0) {
            let (block, _) = self.disk.log.find(into / PAGE);
            let mut bio = self.bio(BioKind::Write, What::Log, block, 1);
            bio.offset += into % PAGE;
            bio.len = len as u32;
            // xlog_sync: the second is no flush.
            (bio.preflush, bio.fua) = (barrier && into == at % log, barrier);
            bio.tag = number;
            self.submit(t, Owner::Iclog { number }, bio);
        }
    }

    /// xlog_state_done_syncing and the callbacks, in the order of the buffers.
    pub(crate) fn iclog_done(&mut self, number: u64) {
        let now = self.now;
        let interval = self.config.xfs.sync;
        let Log::Xfs(x) = &mut self.log else { unreachable!("XFS has a log") };
        // The other part of it is not there yet.
        if x.split.remove(&number) {
            return;
        }
        x.free_buffers += 1;
        x.done.insert(number);
        while x.done.remove(&(x.all_done + 1)) {
            x.all_done += 1;
        }
        let mut free = Vec::new();
        while let Some(c) = x.checkpoints.front()
            && c.last.is_some_and(|last| last <= x.all_done)
        {
            let Some(c) = x.checkpoints.pop_front() else { break };
            x.durable = c.seq;
            x.starts.insert(c.seq, c.start);
            for item in c.items {
                if let Item::Inode(ino) = item {
                    x.clusters.insert((self.disk.cluster(&self.inodes[ino]).0, ino));
                }
                if let Some(old) = x.lsn.insert(item, c.seq) {
                    x.ail.remove(&(old, item));
                }
                x.ail.insert((c.seq, item));
            }
            free.extend(c.freed);
        }
        x.arm(now, interval);
        x.prune();
        for (block, len) in free {
            self.disk.space.give(block, len);
        }
    }

    /// xfsaild: items in the order of the log, their blocks in the order of the drive.
    pub(crate) fn ail(&mut self, t: u32, phase: u8) -> Flow {
        debug_assert_eq!(phase, 0);
        if !self.ail_wanted() {
            return Flow::Block(Wait::Work);
        }
        let Log::Xfs(x) = &mut self.log else { unreachable!("XFS has a log") };
        if x.tail_pinned() {
            // Logged again and not on the drive: it has to get there first.
            let seq = x.seq;
            x.request(seq, true);
        }
        let cluster = |ino| self.disk.cluster(&self.inodes[ino]);
        let mut runs: BTreeMap<(u64, u32), Vec<(Item, u64)>> = BTreeMap::new();
        while x.flushing.len() < BATCH
            && let Some((seq, item)) = x.next_item(|ino| cluster(ino).0)
        {
            match item {
                Item::Block(block) => {
                    x.flushing.insert(item);
                    runs.entry((block, 1)).or_default().push((item, seq));
                }
                Item::Inode(ino) => {
                    let (first, n) = cluster(ino);
                    runs.entry((first, n)).or_default().extend(x.take_cluster(first));
                }
            }
        }
        for ((block, n), items) in runs {
            let x = self.xfs();
            x.next_batch += 1;
            let id = x.next_batch;
            x.batches.insert(id, items);
            #[cfg(test)]
            self.joins_before.insert(id, self.joins);
            self.work(t, self.config.cost.write_back);
            self.store(block, META, block, u64::from(n));
            let mut bio = self.bio(BioKind::Write, What::Meta, block, u64::from(n));
            bio.sync = false;
            self.submit(t, Owner::Ail { batch: id }, bio);
        }
        Flow::Again
    }

    pub(crate) fn ail_done(&mut self, batch: u64) {
        for (item, seq) in self.xfs().batches.remove(&batch).unwrap_or_default() {
            let Log::Xfs(x) = &mut self.log else { unreachable!("XFS has a log") };
            x.flushing.remove(&item);
            let done = x.lsn.get(&item) == Some(&seq);
            if done {
                x.lsn.remove(&item);
                x.ail.remove(&(seq, item));
            }
            if let Item::Inode(ino) = item {
                let (first, _) = self.disk.cluster(&self.inodes[ino]);
                x.under_way.remove(&first);
                if done {
                    x.clusters.remove(&(first, ino));
                }
            }
            if let Item::Block(block) = item
                && !x.lsn.contains_key(&item)
                && !x.in_memory(item)
            {
                self.cache.unpin(Key::new(META, block));
            }
        }
        self.xfs().prune();
        self.stir();
    }

    /// The log's tail has moved: is it far enough?
    fn stir(&mut self) {
        let x = self.xfs();
        if !x.may_begin() || x.room() < x.len / 4 {
            x.press();
        }
    }

    /// A change was logged: the log worker has something to do.
    pub(crate) fn arm_log(&mut self) {
        let (now, interval) = (self.now, self.config.xfs.sync);
        if let Log::Xfs(x) = &mut self.log {
            x.arm(now, interval);
        }
    }
}

impl Xlog {
    /// Checkpoints of which nothing is left in the AIL.
    fn prune(&mut self) {
        let oldest = self.ail.first().map_or(u64::MAX, |&(seq, _)| seq);
        while let Some((&seq, _)) = self.starts.first_key_value()
            && seq < oldest
        {
            self.starts.remove(&seq);
        }
    }
}
