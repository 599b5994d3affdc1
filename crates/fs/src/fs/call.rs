//! System calls on file contents: read and write, buffered and direct.

use crate::cache::Key;
use crate::config::{Atime, FsKind};
use crate::disk::Item;
use crate::fs::{
    Advice, BIO_PAGES, BioKind, Flow, Frame, Fs, Lack, Op, Owner, PAGE, Wait, Want, What,
};
use crate::readahead::{Cached, ReadAhead, Window};

/// What goes past the cache. A write with `fua` is on the medium when it ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direct {
    Read,
    Write { fua: bool },
}

/// The pages of one file, for read-ahead.
struct Pages<'a>(&'a crate::cache::Cache, u32);

impl Cached for Pages<'_> {
    fn has(&self, page: u64) -> bool {
        self.0.get(Key::new(self.1, page)).is_some()
    }
}

/// The call is at its end.
const END: u8 = 200;
/// The sync of the call is over.
const SYNCED: u8 = 199;

impl Fs {
    pub(crate) fn call_step(&mut self, t: u32, op: Op, phase: u8) -> Flow {
        if phase == END {
            self.end_direct(t);
            self.unlock(t);
            return self.pop(t);
        }
        if phase == 0 && self.begins_locked(t, &op) {
            return Flow::Again;
        }
        if phase == 0 && self.shut && self.is_refused(&op) {
            self.work(t, self.config.cost.call);
            return self.fail(t);
        }
        // ext4_direct_IO: with data=journal it is the cache's all the same.
        let past = !self.journals_data();
        match op {
            Op::Read { file, offset, len, direct, queued } => {
                let Some(ino) = self.inode_of(t, file) else { return self.leave(t) };
                if direct && past {
                    self.direct(t, ino, (offset, len), (Direct::Read, queued), phase)
                } else {
                    self.read(t, file, ino, (offset, len), phase)
                }
            }
            Op::Write { file, offset, len, direct, sync, data_only, queued } => {
                let Some(ino) = self.inode_of(t, file) else { return self.leave(t) };
                if self.config.kind == FsKind::Bdev
                    && phase == 0
                    && offset + u64::from(len) > self.inodes[ino].size
                {
                    // blkdev_write_iter: a device does not grow.
                    return self.fail(t);
                }
                // dio_bio_write_op: direct writes to a device are FUA. Those that nobody waits for end with
                // that (EIOCBQUEUED).
                let syncs = sync || data_only;
                let fua = syncs && direct && self.config.kind == FsKind::Bdev;
                match phase {
                    // O_SYNC: the call ends with an fsync of its own, of what it wrote (generic_write_sync).
                    100 if syncs && self.tasks[t].ok && !(fua && queued) => {
                        self.end_direct(t);
                        self.unlock(t);
                        self.go(t, SYNCED);
                        let (first, last) = span(offset, u64::from(len));
                        self.push(t, Frame::Sync { ino, first, last, data_only, phase: 0 })
                    }
                    100 => self.leave(t),
                    SYNCED => self.synced(t, file, ino),
                    _ if direct && past => {
                        self.direct(t, ino, (offset, len), (Direct::Write { fua }, queued), phase)
                    }
                    _ => self.write(t, ino, (offset, len), phase),
                }
            }
            Op::Fsync { file, data_only } => {
                let Some(ino) = self.inode_of(t, file) else { return self.leave(t) };
                if phase == SYNCED {
                    return self.synced(t, file, ino);
                }
                self.work(t, self.config.cost.call);
                self.go(t, SYNCED);
                let (first, last) = (0, u64::MAX);
                self.push(t, Frame::Sync { ino, first, last, data_only, phase: 0 })
            }
            Op::SyncRange { file, offset, len, before, write, after } => {
                let Some(ino) = self.inode_of(t, file) else { return self.leave(t) };
                self.work(t, self.config.cost.call);
                self.go(t, END);
                let (at, last) = span(offset, len);
                let (left, mapped, sync) = (last - at + 1, false, None);
                let written = Frame::WritePages { ino, at, last, left, mapped, sync, phase: 0 };
                let waited = Frame::WaitPages { ino, first: at, last };
                // The one that is pushed last goes first.
                for (asked, frame) in [(after, waited), (write, written), (before, waited)] {
                    if asked {
                        self.push(t, frame);
                    }
                }
                Flow::Again
            }
            Op::Open { .. }
            | Op::Close { .. }
            | Op::Stat { .. }
            | Op::Truncate { .. }
            | Op::Unlink { .. } => self.name_step(t, op, phase),
        }
    }

    /// A file system that shut down takes no changes. XFS opens and reads no files either (ext4_journal_check_start,
    /// XFS_FORCED_SHUTDOWN).
    fn is_refused(&self, op: &Op) -> bool {
        let is_xfs = self.config.kind == FsKind::Xfs;
        match *op {
            Op::Read { .. } | Op::Stat { .. } => is_xfs,
            Op::Open { file, create, .. } => is_xfs || create && self.inode(file) == 0,
            Op::Close { .. } => false,
            _ => true,
        }
    }
    /// file_check_and_advance_wb_err: each open file tells once of write-backs that failed.
    fn synced(&mut self, t: u32, file: u32, ino: u32) -> Flow {
        let inode = &mut self.inodes[ino];
        let errors = inode.errors;
        if errors > 0 {
            let handle = self.handle(t, file);
            let told = self.errors_told.insert(handle, errors).unwrap_or(0);
            self.inodes[ino].errors_told = errors;
            self.tasks[t].ok &= told == errors;
        }
        self.tasks[t].ok &= !self.shut;
        self.leave(t)
    }

    /// The call returns.
    pub(crate) fn leave(&mut self, t: u32) -> Flow {
        self.go(t, END);
        Flow::Again
    }
    pub(crate) fn fail(&mut self, t: u32) -> Flow {
        self.tasks[t].ok = false;
        self.leave(t)
    }
    /// ENOSPC.
    fn fail_full(&mut self, t: u32) -> Flow {
        self.tasks[t].lacks = Lack::Room;
        self.fail(t)
    }
    /// ENOENT.
    pub(crate) fn fail_gone(&mut self, t: u32) -> Flow {
        self.tasks[t].lacks = Lack::File;
        self.fail(t)
    }

    /// The inode of a file; the call fails without.
    fn inode_of(&mut self, t: u32, file: u32) -> Option<u32> {
        let ino = self.files.get(file).map_or(0, |f| f.inode);
        if ino == 0 {
            (self.tasks[t].ok, self.tasks[t].lacks) = (false, Lack::File);
            self.work(t, self.config.cost.call);
        }
        (ino != 0).then_some(ino)
    }

    /// The time of a change or of a read, if it is another than before: the inode goes to the log.
    fn stamp(&mut self, t: u32, ino: u32, change: bool, then: u8) -> Flow {
        self.go(t, then);
        if self.config.kind == FsKind::Bdev {
            // Times of a device's node stay in memory.
            return Flow::Again;
        }
        let tick = self.now.0 / self.config.time_granularity.0;
        let inode = &mut self.inodes[ino];
        let new = if change {
            // file_update_time of Linux before 4.16: a write is a new version of the inode, which XFS with checksums logs.
            let versions = self.config.kind == FsKind::Xfs && self.config.xfs.inode_size >= 512;
            inode.mtime.replace(tick) != Some(tick) || versions
        } else {
            let due = match self.config.atime {
                Atime::Noatime => false,
                Atime::Relatime => inode.atime.is_none_or(|a| inode.mtime.is_some_and(|m| a <= m)),
                Atime::Strictatime => inode.atime != Some(tick),
            };
            if due {
                inode.atime = Some(tick);
            }
            due
        };
        if !new {
            return Flow::Again;
        }
        let item = self.disk.inode_item(ino, &self.inodes[ino]);
        self.log_change(t, vec![item], Some((ino, false)));
        Flow::Again
    }

    /// A transaction for `items`, on top of the frames there are.
    pub(crate) fn log_change(&mut self, t: u32, items: Vec<Item>, touched: Option<(u32, bool)>) {
        let task = &mut self.tasks[t];
        task.items = items;
        task.touched.extend(touched);
        task.frames.extend([Frame::End, Frame::Join, Frame::Begin]);
        self.arm_log();
    }

    /// generic_file_buffered_read.
    fn read(&mut self, t: u32, file: u32, ino: u32, (offset, len): (u64, u32), phase: u8) -> Flow {
        let size = self.inodes[ino].readable();
        let (first, last) = span(offset, u64::from(len).min(size.saturating_sub(offset)));
        if phase == 0 {
            self.work(t, self.config.cost.call);
            self.tasks[t].at = first;
            self.tasks[t].own_read = None;
            if offset >= size || len == 0 {
                return self.leave(t);
            }
            return self.stamp(t, ino, false, 1);
        }
        let page = self.tasks[t].at;
        if offset >= size {
            // Cut off meanwhile.
            return self.leave(t);
        }
        if page > last {
            if let Some(ra) = self.open.get_mut(&self.handle(t, file)) {
                ra.prev = Some(last);
            }
            return self.leave(t);
        }
        let key = Key::new(ino, page);
        let found = self.cache.get(key).map(|p| (p.is_uptodate(), p.mark));
        if phase == 1 {
            // Each page is looked for once; what has to be read is looked for again.
            match found {
                Some(_) => self.stats.hits += 1,
                None => self.stats.misses += 1,
            }
        }
        let wanted = last - page + 1;
        match found {
            None if self.cache.has_failed(key) => {
                self.go(t, 2);
                self.read_by_itself(t, ino, page)
            }
            None => {
                self.go(t, 2);
                let default = self.advised(Advice::Normal);
                let mut ra = self.open.get(&self.handle(t, file)).copied().unwrap_or(default);
                let window = ra.missing(&Pages(&self.cache, ino), page, wanted);
                self.open.insert(self.handle(t, file), ra);
                self.bring(t, ino, window)
            }
            Some((_, true)) => {
                self.go(t, 2);
                if let Some(p) = self.cache.get_mut(key) {
                    p.mark = false;
                }
                let Some(mut ra) = self.open.get(&self.handle(t, file)).copied() else {
                    return Flow::Again;
                };
                let window = ra.marked(&Pages(&self.cache, ino), page, wanted);
                self.open.insert(self.handle(t, file), ra);
                match window {
                    Some(window) => self.bring(t, ino, window),
                    None => Flow::Again,
                }
            }
            Some((false, _)) => {
                self.go(t, 2);
                Flow::Block(Wait::Page(u64::from(ino) << 32 | page))
            }
            Some((true, _)) => {
                let from = offset.max(page * PAGE);
                let to = (offset + u64::from(len)).min((page + 1) * PAGE);
                self.work(t, self.config.cost.page + copy(self.config.cost.copy, to - from));
                // A stream that reads a page in small pieces touches it once.
                let again = page == first
                    && self.open.get(&self.handle(t, file)).is_some_and(|ra| ra.prev == Some(page));
                if !again {
                    self.cache.touch(key);
                }
                self.tasks[t].at = page + 1;
                self.go(t, 1);
                Flow::Again
            }
        }
    }

    /// A page that could not be read is read once more, alone; then the call fails.
    fn read_by_itself(&mut self, t: u32, ino: u32, page: u64) -> Flow {
        let again = self.tasks[t].own_read.replace(page) == Some(page);
        if again && self.cache.has_failed(Key::new(ino, page)) {
            return self.fail(t);
        }
        self.bring(t, ino, Window { start: page, count: 1, mark: None })
    }
    fn bring(&mut self, t: u32, ino: u32, w: Window) -> Flow {
        let end = self.inodes[ino].size.div_ceil(PAGE);
        let n = w.count.min(end.saturating_sub(w.start));
        self.push(t, Frame::ReadPages { ino, first: w.start, n, mark: w.mark });
        self.push(t, Frame::Room(n.min(BIO_PAGES)))
    }

    /// __do_page_cache_readahead: pages that are not there, their places, one bio a run.
    pub(crate) fn read_pages(
        &mut self,
        t: u32,
        ino: u32,
        first: u64,
        n: u64,
        mark: Option<u64>,
    ) -> Flow {
        let mut page = first;
        let mut runs = 0;
        while page < first + n {
            let key = Key::new(ino, page);
            if self.cache.get(key).is_some() {
                page += 1;
                continue;
            }
            // Unwritten blocks are zeros in memory, as a hole is.
            let place = self.inodes[ino].extents.written(page);
            let most =
                place.map_or(1, |(_, run)| u64::from(run)).min(BIO_PAGES).min(first + n - page);
            let mut len = 0;
            while len < most && self.cache.get(Key::new(ino, page + len)).is_none() {
                let key = Key::new(ino, page + len);
                self.cache.insert(key, place.is_none());
                let stamp = match (&self.shadow, place) {
                    (Some(shadow), Some((block, _))) => shadow.get(&(block + len)).copied(),
                    _ => None,
                };
                if let Some(p) = self.cache.get_mut(key) {
                    p.mark = mark == Some(page + len);
                    p.stamp = stamp.unwrap_or(0);
                }
                len += 1;
            }
            self.work(t, self.config.cost.page_add * len);
            if let Some((block, _)) = place {
                self.work(t, self.config.cost.map);
                let mut bio = self.bio(BioKind::Read, What::Data, block, len);
                bio.tag = u64::from(ino);
                self.submit(t, Owner::Read { ino, first: page, n: len as u32 }, bio);
            }
            runs += len;
            page += len;
        }
        self.stats.read_ahead += runs.saturating_sub(1);
        self.pop(t)
    }

    /// generic_perform_write, and what ext4 and XFS do around it. The kernel goes page by page, and looks at the
    /// dirty ones after a number of pages (`dirty_poll_interval`). So many are a piece here, and one where each
    /// has a handle of its own.
    fn write(&mut self, t: u32, ino: u32, (offset, len): (u64, u32), phase: u8) -> Flow {
        let (first, last) = span(offset, u64::from(len));
        let end = offset + u64::from(len);
        let piece = self.tasks[t].piece;
        let now = match self.config.kind {
            FsKind::Ext4 => self.config.ext4.delalloc && !self.journals_data(),
            FsKind::Xfs => true,
            FsKind::Bdev => false,
        };
        match phase {
            0 => {
                self.work(t, self.config.cost.call);
                self.tasks[t].at = 0;
                self.tasks[t].own_read = None;
                if len == 0 {
                    return self.leave(t);
                }
                self.tasks[t].piece = (first, self.piece_end(first, last));
                self.stamp(t, ino, true, 1)
            }
            // Pages of which a part stays are read first.
            1 => {
                let size = self.inodes[ino].size;
                let partial = |page: u64| {
                    let (from, to) = (page * PAGE, ((page + 1) * PAGE).min(size));
                    from < size && (offset > from || end < to)
                };
                for page in [piece.0, piece.1] {
                    if partial(page) && !self.cache.is_uptodate(Key::new(ino, page)) {
                        if self.cache.get(Key::new(ino, page)).is_some() {
                            return Flow::Block(Wait::Page(u64::from(ino) << 32 | page));
                        }
                        return self.read_by_itself(t, ino, page);
                    }
                }
                self.go(t, if now { 3 } else { 2 });
                let pages = piece.0..=piece.1;
                let extents = &self.inodes[ino].extents;
                let homeless = |p| extents.find(p).is_none();
                let homeless = |&p: &u64| homeless(p) && !self.cache.is_promised(Key::new(ino, p));
                let homeless = if now { pages.clone().filter(homeless).count() as u64 } else { 0 };
                // ENOSPC at the call, not at write-back.
                if homeless > 0 && !self.has_space(homeless) {
                    return self.fail_full(t);
                }
                let missing = pages.filter(|&p| self.cache.get(Key::new(ino, p)).is_none());
                self.push(t, Frame::Room(missing.count() as u64))
            }
            // Blocks at once: nodelalloc, data=journal. Their transaction has the write, too (ext4_write_begin).
            2 => {
                let (extents, want) = (&self.inodes[ino].extents, self.pages_want());
                let homeless = |e: crate::extents::Extent| e.unwritten && want == Want::Written;
                let mut pages = piece.0..=piece.1;
                let hole = pages.find(|&p| extents.at(p).is_none_or(homeless));
                let begins = hole.is_some() || self.journals_data();
                match hole {
                    _ if begins && !self.tasks[t].in_handle => self.push(t, Frame::Begin),
                    Some(logical) if self.tasks[t].at != logical + 1 => {
                        // Once for each place, lest a full drive be asked for ever.
                        self.tasks[t].at = logical + 1;
                        let inode = &mut self.inodes[ino];
                        inode.size = inode.size.max(end.min((piece.1 + 1) * PAGE));
                        let (n, own) = (piece.1 - logical + 1, false);
                        self.push(t, Frame::Allocate { ino, logical, n, want, own, phase: 0 })
                    }
                    Some(_) => {
                        self.fail_full(t);
                        self.push(t, Frame::End)
                    }
                    None => {
                        self.go(t, 3);
                        Flow::Again
                    }
                }
            }
            3 => {
                let from = offset.max(piece.0 * PAGE);
                let to = end.min((piece.1 + 1) * PAGE);
                self.fill(t, ino, from, (to - from) as u32);
                self.go(t, 4);
                if !self.tasks[t].in_handle {
                    self.grow(t, ino, to);
                    return Flow::Again;
                }
                self.push(t, Frame::End);
                if !self.journals_data() {
                    return Flow::Again;
                }
                // The pages are the transaction's.
                let item = self.disk.inode_item(ino, &self.inodes[ino]);
                let task = &mut self.tasks[t];
                task.touched.push((ino, true));
                task.items = vec![item];
                self.push(t, Frame::Join)
            }
            _ => {
                self.stats.dirtied += piece.1 - piece.0 + 1;
                let more = piece.1 < last;
                self.go(t, if more { 1 } else { 100 });
                if more {
                    let next = piece.1 + 1;
                    self.tasks[t].piece = (next, self.piece_end(next, last));
                }
                self.push(t, Frame::Throttle { phase: 0 })
            }
        }
    }

    /// The last page of the piece of a write that begins at `page`.
    fn piece_end(&self, page: u64, last: u64) -> u64 {
        let delayed = self.config.ext4.delalloc && !self.journals_data();
        let n = match self.config.kind {
            FsKind::Ext4 if !delayed => 1,
            _ => self.poll_interval(),
        };
        last.min(page + n - 1)
    }

    /// ext4_da_should_update_i_disksize: where the last page has its block already, no allocation will
    /// log the new size.
    fn grow(&mut self, t: u32, ino: u32, end: u64) {
        let early = self.pages_want() == Want::Paged;
        let inode = &mut self.inodes[ino];
        let mapped = inode.extents.at((end - 1) / PAGE).is_some_and(|e| early || !e.unwritten);
        if self.config.kind == FsKind::Ext4 && end > inode.disk_size && mapped {
            inode.disk_size = end;
            let item = self.disk.inode_item(ino, &self.inodes[ino]);
            self.log_change(t, vec![item], Some((ino, true)));
        }
    }

    /// The copy into the pages.
    fn fill(&mut self, t: u32, ino: u32, offset: u64, len: u32) {
        let (first, last) = span(offset, u64::from(len));
        let journal = self.journals_data();
        let cost = self.config.cost.clone();
        let inode = &mut self.inodes[ino];
        inode.size = inode.size.max(offset + u64::from(len));
        for page in first..=last {
            let key = Key::new(ino, page);
            let mut span = cost.page;
            if self.cache.get(key).is_none() {
                self.cache.insert(key, true);
                span += cost.page_add;
            }
            // ext4_da_write_begin and ext4_write_begin start a handle a page. One that is open is paid for.
            if self.config.kind == FsKind::Ext4 && !self.tasks[t].in_handle {
                span += cost.handle;
            }
            let from = offset.max(page * PAGE);
            let to = (offset + u64::from(len)).min((page + 1) * PAGE);
            self.work(t, span + copy(cost.copy, to - from));
            self.stamp += 1;
            let stamp = self.stamp;
            if let Some(p) = self.cache.get_mut(key) {
                p.stamp = stamp;
            }
            self.cache.set_uptodate(key);
            if journal {
                self.journal_data(ino, page);
            } else {
                self.make_dirty(ino, page);
                if self.inodes[ino].extents.find(page).is_none() {
                    self.cache.promise(key);
                }
            }
        }
    }

    /// O_DIRECT: past the cache, which is written back and dropped first.
    fn direct(
        &mut self,
        t: u32,
        ino: u32,
        (offset, len): (u64, u32),
        (what, queued): (Direct, bool),
        phase: u8,
    ) -> Flow {
        let size = self.inodes[ino].readable();
        let write = what != Direct::Read;
        let length = u64::from(len);
        let length = if write { length } else { length.min(size.saturating_sub(offset)) };
        let (first, last) = span(offset, length);
        match phase {
            0 => {
                if length == 0 {
                    return self.leave(t);
                }
                if !offset.is_multiple_of(self.lba)
                    || !length.is_multiple_of(self.lba) && offset + length != size
                {
                    return self.fail(t);
                }
                self.stamp(t, ino, write, if write { 1 } else { 10 })
            }
            10 => {
                self.go(t, 1);
                match self.config.kind {
                    FsKind::Bdev => Flow::Again,
                    _ => self.push(t, Frame::Lock { ino, alone: false }),
                }
            }
            1 => {
                self.go(t, 2);
                self.tasks[t].errors = self.inodes[ino].errors;
                if !self.cache.has_dirty(ino, first, last) {
                    return Flow::Again;
                }
                // filemap_write_and_wait_range: what cannot be written is no more, and the call fails.
                self.push(t, Frame::WaitPages { ino, first, last });
                self.push_write(t, ino, (first, last))
            }
            2 => {
                if self.inodes[ino].errors > self.tasks[t].errors {
                    return self.fail(t);
                }
                self.go(t, 3);
                // iomap_dio_rw of XFS drops them for a read as well (before Linux 5.9).
                let drops = write || self.config.kind == FsKind::Xfs;
                self.push(
                    t,
                    match drops {
                        true => Frame::DropPages { ino, first, last },
                        false => Frame::WaitPages { ino, first, last },
                    },
                )
            }
            3 => {
                self.tasks[t].at = first;
                self.go(t, if write { 4 } else { 5 });
                // ext4_overwrite_io: only that is sure to need no other blocks.
                let extents = &self.inodes[ino].extents;
                if write
                    && self.pages_want() == Want::Paged
                    && offset + length <= size
                    && (first..=last).all(|p| extents.written(p).is_some())
                {
                    self.begin_direct(t, ino);
                }
                Flow::Again
            }
            4 => {
                let from = self.tasks[t].at;
                let extents = &self.inodes[ino].extents;
                let takes = |p| extents.at(p).is_some_and(|e| self.takes_data(&e));
                let Some(logical) = (from..=last).find(|&p| !takes(p)) else {
                    self.go(t, 5);
                    return Flow::Again;
                };
                self.tasks[t].at = logical;
                // ext4_direct_IO_write: nobody reads behind the end of the file.
                let behind = offset / PAGE * PAGE >= self.inodes[ino].size;
                let want = match self.config.kind {
                    FsKind::Ext4 if behind => Want::Written,
                    _ => Want::Unwritten,
                };
                self.go(t, 9);
                let n = last - logical + 1;
                self.push(t, Frame::Allocate { ino, logical, n, want, own: true, phase: 0 })
            }
            5 => {
                let mut at = offset;
                while at < offset + length {
                    let page = at / PAGE;
                    let left = offset + length - at;
                    let into = at % PAGE;
                    let found = self.inodes[ino].extents.at(page);
                    let Some(e) = found.filter(|e| write || !e.unwritten) else {
                        // A hole reads as zeros.
                        at = (page + 1) * PAGE;
                        continue;
                    };
                    let run = u64::from(e.end()) - page;
                    let bytes = left.min(run * PAGE - into).min(BIO_PAGES * PAGE - into);
                    self.work(t, self.config.cost.map);
                    let kind = if write { BioKind::Write } else { BioKind::Read };
                    let place = u64::from(e.block) + page - u64::from(e.logical);
                    let mut bio = self.bio(kind, What::Data, place, 1);
                    // The rest of a block that is unwritten gets zeros (dio_zero_block, iomap_dio_zero).
                    let (from, to) = match e.unwritten {
                        true => (0, (into + bytes).next_multiple_of(PAGE)),
                        false => (into, into + bytes.next_multiple_of(self.lba)),
                    };
                    bio.offset += from;
                    bio.fua = what == Direct::Write { fua: true };
                    bio.len = (to - from) as u32;
                    self.submit(t, Owner::Task(t), bio);
                    at += bytes;
                }
                if write && self.shadow.is_some() {
                    self.shadow_direct(ino, first, last);
                }
                self.go(t, 6);
                Flow::Again
            }
            6 => {
                // It was submitted. An asynchronous call gives up the lock then, but for one that makes the file
                // longer, which is none (do_blockdev_direct_IO).
                let longer = write && offset + length > self.inodes[ino].size;
                if queued && !longer && !self.tasks[t].held.is_empty() {
                    self.begin_direct(t, ino);
                }
                if self.tasks[t].bios > 0 {
                    return Flow::Block(Wait::Bios);
                }
                if !write {
                    return self.leave(t);
                }
                self.go(t, 7);
                let end = offset + length;
                let unwritten = self.inodes[ino].extents.unwritten(first, last + 1);
                if unwritten.is_none() || !self.tasks[t].ok {
                    return Flow::Again;
                }
                // XFS has the size in the same transaction.
                let longer = self.config.kind == FsKind::Xfs && end > self.inodes[ino].size;
                let size = if longer { end } else { 0 };
                self.push(t, Frame::Convert { ino, at: first, end: last + 1, size, phase: 0 })
            }
            7 => {
                // What was read in meanwhile may be of before.
                self.go(t, 8);
                self.push(t, Frame::DropPages { ino, first, last });
                if !queued && self.end_direct(t) {
                    // ext4_direct_IO_write takes the lock again after an overwrite.
                    return self.push(t, Frame::Lock { ino, alone: true });
                }
                Flow::Again
            }
            8 => {
                self.go(t, 100);
                let end = offset + length;
                if self.tasks[t].ok && end > self.inodes[ino].size {
                    let inode = &mut self.inodes[ino];
                    (inode.size, inode.disk_size) = (end, end);
                    let item = self.disk.inode_item(ino, &self.inodes[ino]);
                    self.log_change(t, vec![item], Some((ino, true)));
                }
                Flow::Again
            }
            9 => {
                let Some((_, run)) = self.inodes[ino].extents.find(self.tasks[t].at) else {
                    return self.fail_full(t);
                };
                self.tasks[t].at += u64::from(run);
                self.go(t, 4);
                Flow::Again
            }
            _ => unreachable!("direct I/O has eleven steps"),
        }
    }

    /// Tests: a direct write is on the drive.
    fn shadow_direct(&mut self, ino: u32, first: u64, last: u64) {
        for page in first..=last {
            self.stamp += 1;
            let stamp = self.stamp;
            if let (Some(shadow), Some((block, _))) =
                (&mut self.shadow, self.inodes[ino].extents.find(page))
            {
                shadow.insert(block, stamp);
            }
        }
    }

    /// Whose read-ahead a task's calls on a file go by.
    pub(crate) fn handle(&self, t: u32, file: u32) -> (u32, u32) {
        (if self.one_open { 0 } else { t }, file)
    }
    pub(crate) fn advised(&self, advice: Advice) -> ReadAhead {
        let max = u64::from(self.config.read_ahead) / PAGE;
        let ra = ReadAhead { io: self.io_pages, ..ReadAhead::new(max) };
        match advice {
            Advice::Normal => ra,
            // generic_fadvise: twice the window.
            Advice::Sequential => ReadAhead { max: 2 * max, ..ra },
            Advice::Random => ReadAhead { random: true, ..ra },
        }
    }
}

/// First and last page of a range; an empty one is a page that does not matter.
fn span(offset: u64, len: u64) -> (u64, u64) {
    (offset / PAGE, (offset + len.max(1) - 1) / PAGE)
}

/// Part of a page costs its part.
fn copy(page: wordline_base::Span, bytes: u64) -> wordline_base::Span {
    wordline_base::Span(page.0 * bytes / PAGE)
}
