//! fsync and fdatasync, and what every change of metadata goes through: a handle begun, items
//! joined to it, the handle ended.

use crate::cache::{Key, META};
use crate::config::DataMode;
use crate::disk::Item;
use crate::fs::{Flow, Frame, Fs, Log, NO_LOG, Wait};

impl Fs {
    /// ext4_sync_file, xfs_file_fsync: data that are dirty now, then the log up to the inode's newest change; the
    /// drive's cache is flushed even if there is nothing to commit.
    pub(crate) fn sync_step(
        &mut self,
        t: u32,
        ino: u32,
        (first, last): (u64, u64),
        data_only: bool,
        phase: u8,
    ) -> Flow {
        self.go(t, phase + 1);
        match phase {
            0 => {
                self.stats.syncs += 1;
                self.push_write(t, ino, (first, last))
            }
            1 => self.push(t, Frame::WaitPages { ino, first, last }),
            2 => {
                let inode = &self.inodes[ino];
                let seq = if data_only { inode.datasync } else { inode.sync };
                // The data have arrived: the flush must begin from here on.
                let covered = !self.config.barrier || self.will_flush(seq);
                self.go(t, if covered { 4 } else { 3 });
                if self.durable() >= seq {
                    return Flow::Again;
                }
                self.push(t, Frame::Force { seq, phase: 0 })
            }
            3 => {
                self.flush(t);
                Flow::Again
            }
            4 => {
                if self.tasks[t].bios > 0 {
                    self.go(t, 4);
                    return Flow::Block(Wait::Bios);
                }
                self.pop(t)
            }
            _ => unreachable!("fsync has five steps"),
        }
    }

    /// Writes pages that are dirty now (WB_SYNC_ALL).
    pub(crate) fn push_write(&mut self, t: u32, ino: u32, (at, last): (u64, u64)) -> Flow {
        let (left, mapped, sync) = (u64::MAX, false, Some(self.cache.tag()));
        self.push(t, Frame::WritePages { ino, at, last, left, mapped, sync, phase: 0 })
    }

    /// jbd2_trans_will_send_data_barrier, log_flushed of xfs_file_fsync: the log has yet to send a flush
    /// on behalf of a transaction.
    fn will_flush(&self, seq: u64) -> bool {
        match &self.log {
            Log::Jbd2(j) => j.will_flush(seq),
            Log::Xfs(x) => x.will_flush(seq),
            Log::None => false,
        }
    }

    /// jbd2_complete_transaction, xfs_log_force_lsn.
    pub(crate) fn force(&mut self, t: u32, seq: u64, phase: u8) -> Flow {
        if self.durable() >= seq {
            return self.pop(t);
        }
        if phase == 0 {
            self.go(t, 1);
            match &mut self.log {
                Log::Jbd2(j) => j.request(seq),
                Log::Xfs(x) => x.request(seq, true),
                Log::None => unreachable!("{NO_LOG}"),
            }
        }
        Flow::Block(Wait::Commit(seq))
    }

    pub(crate) fn durable(&self) -> u64 {
        match &self.log {
            Log::Jbd2(j) => j.durable(),
            Log::Xfs(x) => x.durable(),
            Log::None => u64::MAX,
        }
    }

    /// jbd2_journal_start, xfs_trans_alloc.
    pub(crate) fn begin(&mut self, t: u32) -> Flow {
        if !self.may_begin() && !self.has_reserved(t) {
            let task = &mut self.tasks[t];
            if !task.waited {
                self.stats.log_waits += 1;
            }
            return self.make_room_in_log(t);
        }
        match &mut self.log {
            Log::Jbd2(j) => j.begin(self.now),
            Log::Xfs(x) => x.begin(),
            Log::None => unreachable!("{NO_LOG}"),
        }
        self.tasks[t].in_handle = true;
        self.work(t, self.config.cost.handle);
        self.pop(t)
    }

    /// What ends pages' write-back has its credits from when they were sent (jbd2_journal_start_reserved): a commit
    /// may wait for these pages.
    fn has_reserved(&self, t: u32) -> bool {
        let ends = matches!(self.tasks[t].frames.first(), Some(Frame::Ioend { .. }));
        ends && matches!(&self.log, Log::Jbd2(j) if !j.is_locked())
    }

    pub(crate) fn may_begin(&self) -> bool {
        match &self.log {
            Log::Jbd2(j) => j.may_begin(),
            Log::Xfs(x) => x.may_begin(),
            Log::None => true,
        }
    }

    pub(crate) fn log_is_short(&self) -> bool {
        matches!(&self.log, Log::Jbd2(j) if j.needs_checkpoint())
    }

    fn make_room_in_log(&mut self, t: u32) -> Flow {
        match &mut self.log {
            Log::Jbd2(j) => {
                if j.needs_checkpoint() {
                    return self.push(t, Frame::Checkpoint { phase: 0 });
                }
                j.close_full();
            }
            Log::Xfs(x) => x.press(),
            Log::None => unreachable!("{NO_LOG}"),
        }
        Flow::Block(Wait::Handle)
    }

    /// ext4_journal_get_write_access and its like: the items are in memory, and the log's.
    pub(crate) fn join(&mut self, t: u32) -> Flow {
        let task = &self.tasks[t];
        debug_assert!(task.in_handle, "items join a handle");
        let need: Vec<u64> = self
            .disk
            .reads(&task.items)
            .filter(|&b| !self.cache.is_uptodate(Key::new(META, b)))
            .collect();
        if !need.is_empty() {
            self.tasks[t].need = need;
            return self.push(t, Frame::Need);
        }
        // A buffer on its way to its place is locked until it is there (do_get_write_access).
        let blocks = self.tasks[t].items.iter().filter_map(|item| match item {
            Item::Block(block) => Some(*block),
            Item::Inode(_) => None,
        });
        if let Some(block) = blocks.into_iter().find(|&b| self.is_locked(b)) {
            return Flow::Block(Wait::Buffer(block));
        }
        let items = std::mem::take(&mut self.tasks[t].items);
        self.work(t, self.config.cost.join * items.len() as u64);
        #[cfg(test)]
        {
            self.joins += 1;
        }
        #[cfg(test)]
        self.joined.push(crate::fs::Joined {
            number: self.joins,
            seq: self.current(),
            items: items.clone(),
            inodes: self.tasks[t].touched.iter().map(|&(ino, _)| ino).collect(),
            freed: self.tasks[t].freed.clone(),
        });
        for item in items {
            self.join_item(item);
        }
        let seq = self.current();
        for (ino, data) in std::mem::take(&mut self.tasks[t].touched) {
            let inode = &mut self.inodes[ino];
            inode.sync = seq;
            if data {
                inode.datasync = seq;
            }
        }
        let freed = std::mem::take(&mut self.tasks[t].freed);
        match &mut self.log {
            Log::Jbd2(j) => j.free(freed),
            Log::Xfs(x) => x.free(freed),
            Log::None => unreachable!("{NO_LOG}"),
        }
        self.pop(t)
    }

    pub(crate) fn is_locked(&self, block: u64) -> bool {
        match &self.log {
            Log::Jbd2(_) => self.cache.is_writing(META, block, block),
            Log::Xfs(x) => x.is_flushing(block),
            Log::None => false,
        }
    }

    fn join_item(&mut self, item: Item) {
        if let Item::Block(block) = item {
            let key = Key::new(META, block);
            if self.cache.get(key).is_none() {
                // New, or not formatted yet: nothing to read.
                self.cache.reclaim(1);
                self.cache.insert(key, true);
            }
            self.disk.formatted.insert(block);
            self.pin(key);
        }
        let bytes = self.disk.item_bytes(item);
        match (&mut self.log, item) {
            (Log::Jbd2(j), Item::Block(block)) => j.join(Key::new(META, block)),
            (Log::Xfs(x), item) => x.join(item, bytes),
            (Log::Jbd2(_), Item::Inode(_)) => unreachable!("ext4 logs blocks"),
            (Log::None, _) => unreachable!("{NO_LOG}"),
        }
    }

    /// A transaction holds the page: it may not be written in its place, nor dropped.
    pub(crate) fn pin(&mut self, key: Key) {
        self.cache.clear_dirty(key);
        self.stamp += 1;
        let stamp = self.stamp;
        if let Some(page) = self.cache.get_mut(key) {
            page.stamp = stamp;
        }
        self.cache.pin(key);
        if key.inode() == META {
            self.settle_age(META);
        }
    }

    /// A page of data goes through the journal (`data = "journal"`).
    pub(crate) fn journal_data(&mut self, ino: u32, page: u64) {
        let key = Key::new(ino, page);
        if let Log::Jbd2(j) = &mut self.log {
            debug_assert_eq!(self.config.ext4.data, DataMode::Journal);
            j.join(key);
        }
        self.cache.clear_dirty(key);
        self.cache.pin(key);
    }

    pub(crate) fn current(&self) -> u64 {
        match &self.log {
            Log::Jbd2(j) => j.current(),
            Log::Xfs(x) => x.current(),
            Log::None => 0,
        }
    }

    pub(crate) fn end(&mut self, t: u32) -> Flow {
        match &mut self.log {
            Log::Jbd2(j) => j.end(),
            Log::Xfs(x) => x.end(),
            Log::None => unreachable!("{NO_LOG}"),
        }
        self.tasks[t].in_handle = false;
        self.pop(t)
    }

    pub(crate) fn no_handles(&self) -> bool {
        match &self.log {
            Log::Jbd2(j) => j.handles() == 0,
            Log::Xfs(_) | Log::None => true,
        }
    }
}
