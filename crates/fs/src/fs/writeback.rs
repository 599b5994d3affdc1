//! Dirty pages on their way to the drive: delayed allocation, the flusher of mm/page-writeback.c
//! and fs/fs-writeback.c, and writers that are held back.
//!
//! A writer beyond dirty_ratio waits for write-back. The pauses that balance_dirty_pages computes
//! from estimated bandwidths before that point are left out.

use crate::cache::{ANY, Dirtied, Key, META};
use crate::config::FsKind;
use crate::fs::{BIO_PAGES, BioKind, Flow, Frame, Fs, Log, Owner, PAGE, Pages, Wait, What};
use wordline_base::Time;

/// MAX_WRITEBACK_PAGES: pages of one inode before the next has its turn.
const CHUNK: u64 = 1024;
/// Pages written with one allocation (MAX_WRITEPAGES_EXTENT_LEN of fs/ext4/inode.c).
const EXTENT_PAGES: u64 = 2048;

impl Fs {
    fn percent(&self, ratio: u32) -> u64 {
        self.cache.limit() * u64::from(ratio) / 100
    }
    pub(crate) fn over_background(&self) -> bool {
        self.cache.dirty() > self.percent(self.config.dirty_background_ratio)
    }
    pub(crate) fn over_limit(&self) -> bool {
        let dirty = self.cache.dirty() + self.cache.writing();
        dirty > self.percent(self.config.dirty_ratio).max(1)
    }

    /// dirty_poll_interval: pages that a writer dirties before it looks again. The less room there is below the
    /// limit, the fewer.
    pub(crate) fn poll_interval(&self) -> u64 {
        let room = self.percent(self.config.dirty_ratio);
        let room = room.saturating_sub(self.cache.dirty() + self.cache.writing());
        room.checked_ilog2().map_or(1, |log| 1 << (log / 2))
    }

    /// A page of a file has new content, or metadata may be written in their place.
    pub(crate) fn make_dirty(&mut self, ino: u32, page: u64) {
        if !self.cache.set_dirty(Key::new(ino, page)) {
            return;
        }
        let inode = &mut self.inodes[ino];
        if inode.dirtied.is_none() {
            inode.dirtied = Some(self.now);
            self.by_age.insert((self.now, ino));
            if self.flusher_at == Time::NEVER {
                self.flusher_at = self.now + self.config.dirty_writeback;
            }
        }
    }

    /// What is left of an inode's dirty pages, after some were written or dropped.
    pub(crate) fn settle_age(&mut self, ino: u32) {
        let inode = &mut self.inodes[ino];
        if let Some(at) = inode.dirtied
            && !self.cache.has_dirty(ino, 0, u64::MAX)
        {
            inode.dirtied = None;
            inode.write_from = 0;
            self.by_age.remove(&(at, ino));
        }
    }

    /// balance_dirty_pages.
    pub(crate) fn throttle(&mut self, t: u32, phase: u8) -> Flow {
        if self.over_background() {
            self.flusher_called = true;
        }
        if !self.over_limit() {
            return self.pop(t);
        }
        if phase == 0 {
            self.stats.throttled += 1;
            self.go(t, 1);
        }
        Flow::Block(Wait::Dirty)
    }

    /// wb_workfn: what is old, and while there is too much of it, the oldest.
    pub(crate) fn flusher(&mut self, t: u32, phase: u8) -> Flow {
        if phase == 0 {
            if !self.flusher_called && !self.over_background() {
                return Flow::Block(Wait::Work);
            }
            self.flusher_called = false;
            self.go(t, 1);
        }
        let expired = |&&(at, _): &&(Time, u32)| at + self.config.dirty_expire <= self.now;
        self.short &= self.cache.idle() == 0;
        let pressed = self.over_background() || self.short;
        let Some(&(at, ino)) = self.by_age.first().filter(|e| pressed || expired(e)) else {
            if !self.by_age.is_empty() {
                self.flusher_at = self.flusher_at.min(self.now + self.config.dirty_writeback);
            }
            self.go(t, 0);
            return Flow::Again;
        };
        // A chunk of it, from where the last one ended.
        let mut from = self.inodes[ino].write_from;
        if self.cache.writable(ino, from).is_none() {
            from = 0;
        }
        if self.cache.writable(ino, from).is_none() {
            // All that is dirty is on its way already, as it was before (inode_sleep_on_writeback).
            let Some(page) = self.cache.first_writing(ino, 0, u64::MAX) else {
                self.by_age.remove(&(at, ino));
                self.inodes[ino].dirtied = None;
                return Flow::Again;
            };
            return Flow::Block(Wait::WriteBack { ino, first: page, last: page });
        }
        self.push(
            t,
            Frame::WritePages {
                ino,
                at: from,
                last: u64::MAX,
                left: CHUNK,
                mapped: false,
                sync: None,
                phase: 0,
            },
        )
    }

    /// Writes dirty pages of a range: finds a run of them, gives it blocks if it has none, sends
    /// it. `mapped` leaves alone what has no blocks (jbd2 does, which cannot wait for itself);
    /// `sync` waits for pages under write-back that are dirty again, and leaves alone what became dirty after its tag.
    pub(crate) fn write_pages(
        &mut self,
        t: u32,
        ino: u32,
        (at, last): (u64, u64),
        left: u64,
        (mapped, sync): (bool, Option<Dirtied>),
        phase: u8,
    ) -> Flow {
        let turn = |fs: &mut Fs, at: u64, left: u64| {
            let frame = Frame::WritePages { ino, at, last, left, mapped, sync, phase: 0 };
            if let Some(top) = fs.tasks[t].frames.last_mut() {
                *top = frame;
            }
            Flow::Again
        };
        let tag = sync.unwrap_or(ANY);
        let found = self.cache.first_dirty(ino, at, last, tag).filter(|_| left > 0);
        let Some(first) = found else {
            // A range leaves alone where the flusher goes on (write_cache_pages).
            if last == u64::MAX {
                self.inodes[ino].write_from = at;
            }
            self.settle_age(ino);
            return self.pop(t);
        };
        if self.cache.is_writing(ino, first, first) {
            if sync.is_some() {
                return Flow::Block(Wait::WriteBack { ino, first, last: first });
            }
            return turn(self, first + 1, left);
        }
        let found = self.inodes[ino].extents.at(first);
        if mapped && found.is_none_or(|e| !self.takes_data(&e)) {
            return turn(self, first + 1, left);
        }
        // No more are counted than one extent takes.
        let run =
            found.filter(|e| self.takes_data(e)).map_or(u64::MAX, |e| u64::from(e.end()) - first);
        let most = left.min(EXTENT_PAGES).min(run);
        let n = self.cache.dirty_run(ino, first, last, most, tag);
        if ino == META {
            return self.write_meta(t, first, n, left, turn);
        }
        let Some(e) = found.filter(|e| self.takes_pages(e, first, n)) else {
            if phase == 1 && found.is_none() {
                // The drive is full: these pages are lost (ext4 says so in the kernel's log).
                for page in first..first + n {
                    self.cache.end_promise(Key::new(ino, page));
                    self.cache.clear_dirty(Key::new(ino, page));
                }
                self.settle_age(ino);
                return turn(self, first + n, left);
            }
            let n = self.inodes[ino].extents.run(first, n);
            self.go(t, 1);
            let (logical, want, own) = (first, self.pages_want(), true);
            return self.push(t, Frame::Allocate { ino, logical, n, want, own, phase: 0 });
        };
        let run = u64::from(e.end()) - first;
        let busy = (first..first + n).position(|p| self.cache.is_writing(ino, p, p));
        let n = n.min(run).min(busy.map_or(u64::MAX, |b| b as u64));
        // All of them at once: a commit waits for what is under way.
        for page in first..first + n {
            self.cache.begin_write(Key::new(ino, page));
        }
        let block = u64::from(e.block) + first - u64::from(e.logical);
        self.store(block, ino, first, n);
        for at in (0..n).step_by(BIO_PAGES as usize) {
            let (page, n) = (first + at, BIO_PAGES.min(n - at));
            self.work(t, self.config.cost.write_back * n);
            let inode = &self.inodes[ino];
            let end = ((page + n) * PAGE).min(inode.size);
            let longer = self.config.kind == FsKind::Xfs && end > inode.disk_size;
            let ends = if longer { end } else { 0 };
            let mut bio = self.bio(BioKind::Write, What::Data, block + at, n);
            // A commit waits for its data (WB_SYNC_ALL).
            bio.sync = sync.is_some() || mapped;
            bio.tag = u64::from(ino);
            let pages = Pages { ends, unwritten: e.unwritten, ..Pages::new(ino, page, n) };
            self.submit(t, Owner::Write(pages), bio);
        }
        self.settle_age(ino);
        turn(self, first + n, left - n.min(left))
    }

    fn write_meta(
        &mut self,
        t: u32,
        first: u64,
        n: u64,
        left: u64,
        turn: impl Fn(&mut Fs, u64, u64) -> Flow,
    ) -> Flow {
        let busy = (first..first + n).position(|p| self.cache.is_writing(META, p, p));
        let n = n.min(BIO_PAGES).min(busy.map_or(u64::MAX, |b| b as u64)).max(1);
        for block in first..first + n {
            self.cache.begin_write(Key::new(META, block));
        }
        self.store(first, META, first, n);
        self.work(t, self.config.cost.write_back * n);
        let mut bio = self.bio(BioKind::Write, What::Meta, first, n);
        bio.sync = false;
        // Neighbours in the device's own mapping are one bio (mpage through the block device).
        self.submit(t, Owner::Write(Pages::new(META, first, n)), bio);
        turn(self, first + n, left - n.min(left))
    }

    /// A bio of pages has ended.
    pub(crate) fn written(&mut self, pages: Pages, ok: bool) {
        if ok && (pages.ends > 0 || pages.unwritten) {
            // They stay under write-back until that is logged.
            return self.ended.push_back(pages);
        }
        // mapping_set_error: a sync tells of it. What the pages hold is not written again.
        self.inodes[pages.ino].errors += u32::from(!ok);
        self.end_pages(pages.ino, pages.first, pages.n);
    }

    pub(crate) fn end_pages(&mut self, ino: u32, first: u64, n: u32) {
        for page in first..first + u64::from(n) {
            self.cache.end_write(Key::new(ino, page));
        }
        if let Log::Jbd2(j) = &mut self.log {
            for page in first..first + u64::from(n) {
                let key = Key::new(ino, page);
                if !self.cache.is_dirty(key) {
                    j.checkpointed(key);
                }
            }
        }
    }

    /// Tests: what pages hold goes to the drive with their bio.
    pub(crate) fn store(&mut self, block: u64, ino: u32, first: u64, n: u64) {
        if let Some(shadow) = &mut self.shadow {
            for i in 0..n {
                let stamp = self.cache.get(Key::new(ino, first + i)).map_or(0, |p| p.stamp);
                shadow.insert(block + i, stamp);
            }
        }
    }
}
