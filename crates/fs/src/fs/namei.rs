//! System calls on names: open and create, close, stat, truncate, unlink; and the layout of files
//! that were there before.
//!
//! Names and inodes are looked up through their blocks each time: the dentry and inode caches are
//! left out, the blocks themselves are in the page cache.

use crate::cache::{Key, META};
use crate::config::FsKind;
use crate::disk::Item;
use crate::extents::Extent;
use crate::fs::{Advice, File, Flow, Frame, Fs, Lack, Log, NO_LOG, Op, PAGE, Wait, Want};
use crate::inode::{Dir, Inode};

impl Fs {
    /// The block device as a file of its own length, all of it in its place.
    pub fn device_file(&mut self) -> u32 {
        let blocks = self.disk.blocks;
        let size = blocks * PAGE;
        let mut inode = Inode { size, disk_size: size, ..Inode::default() };
        let all = Extent { logical: 0, block: 0, len: blocks as u32, unwritten: false };
        self.disk.change(&mut inode.extents, 0, &mut Vec::new(), |e, c| e.insert(all, true, c));
        self.inodes.push(inode);
        let inode = self.inodes.count() - 1;
        self.files.push(File { dir: 0, hash: 0, name_len: 0, inode });
        self.files.count() - 1
    }
    /// The device, opened once by a process whose threads all read and write it.
    pub fn serve_device(&mut self) -> u32 {
        let file = self.device_file();
        self.one_open = true;
        let ra = self.advised(Advice::Normal);
        self.open.insert(self.handle(0, file), ra);
        file
    }
    /// What the device has discarded is not in memory either, nor written back over it
    /// (blkdev_fallocate); only pages on their way to the device stay.
    pub fn discard(&mut self, file: u32, offset: u64, len: u64) {
        let inode = self.files[file].inode;
        let (first, end) = (offset.div_ceil(PAGE), (offset + len) / PAGE);
        if end > first {
            self.cache.drop_pages(inode, first, end - 1, true);
            self.settle_age(inode);
        }
    }

    /// A directory, empty, there from the start.
    pub fn add_dir(&mut self) -> u32 {
        let group = self.disk.place_dir();
        let mut items = Vec::new();
        let place = self.disk.new_inode(group, &mut items);
        let (group, block) = place.unwrap_or((group, self.disk.space.first_of(group)));
        items.push(Item::Block(block));
        self.inodes.push(Inode { group, block, is_dir: true, ..Inode::default() });
        self.dirs.push(Dir { inode: self.inodes.count() - 1, ..Dir::default() });
        self.was_there(&items);
        self.dirs.count() - 1
    }

    /// Bytes of its drive.
    pub fn bytes(&self) -> u64 {
        self.disk.blocks * PAGE
    }
    /// Those that no file and no metadata has.
    pub fn free_bytes(&self) -> u64 {
        self.disk.space.free() * PAGE
    }

    /// A name in a directory, of no file yet. `hash` decides its place in the directory.
    pub fn add_file(&mut self, dir: u32, name_len: u8, hash: u32) -> u32 {
        self.files.push(File { dir, hash, name_len, inode: 0 });
        self.files.count() - 1
    }

    /// A file that is there when the run begins: allocated at once, written back, not in the cache.
    /// False if the drive is full.
    pub fn lay_out(&mut self, file: u32, size: u64) -> bool {
        self.place(file, size, size, false)
    }
    /// A file of so many bytes with blocks for `reserved` bytes that were never written (fallocate).
    pub fn reserve(&mut self, file: u32, size: u64, reserved: u64) -> bool {
        self.place(file, size, reserved, true)
    }

    /// So many bytes of a file that were read before the run, in order: they are in memory, and of more than it has
    /// room for the last ones.
    pub fn pre_read(&mut self, file: u32, offset: u64, len: u64) {
        let ino = self.files[file].inode;
        let end = offset.saturating_add(len).min(self.inodes[ino].size).div_ceil(PAGE);
        let first = (offset / PAGE).max(end.saturating_sub(self.cache.limit()));
        for page in first..end {
            let key = Key::new(ino, page);
            if self.cache.get(key).is_none() {
                if self.cache.is_full() && !self.cache.reclaim(1).1 {
                    return;
                }
                self.cache.insert(key, true);
            }
            self.cache.touch(key);
        }
    }

    fn place(&mut self, file: u32, size: u64, room: u64, unwritten: bool) -> bool {
        let mut items = Vec::new();
        let Some(ino) = self.make(file, &mut items) else { return false };
        let mut inode = std::mem::take(&mut self.inodes[ino]);
        // How much is set aside goes by what the file will be.
        inode.size = room;
        let blocks = room.div_ceil(PAGE);
        let mut at = 0;
        while at < blocks {
            let want = (blocks - at).min(2048) as u32;
            let Some(e) = self.disk.allocate(&mut inode, at, want, 0, &mut items) else { break };
            at += u64::from(e.len);
            let (e, goal) = (Extent { unwritten, ..e }, inode.block);
            self.disk.change(&mut inode.extents, goal, &mut items, |all, c| all.insert(e, true, c));
        }
        (inode.size, inode.disk_size) = (size, size);
        self.disk.release_reserve(&mut inode);
        self.inodes[ino] = inode;
        self.was_there(&items);
        at >= blocks
    }

    /// Metadata from before the run.
    fn was_there(&mut self, items: &[Item]) {
        for item in items {
            let block = match *item {
                Item::Block(block) => block,
                Item::Inode(ino) => self.inodes[ino].block,
            };
            self.disk.formatted.insert(block);
            let key = Key::new(META, block);
            if !self.config.cold && self.cache.get(key).is_none() && !self.cache.is_full() {
                self.cache.insert(key, true);
            }
        }
    }

    /// An inode and its directory entry.
    fn make(&mut self, file: u32, items: &mut Vec<Item>) -> Option<u32> {
        let File { dir, hash, name_len, .. } = self.files[file];
        let d = &self.dirs[dir];
        let parent = d.inode;
        let group = self.inodes[parent].group;
        let (group, block) = self.disk.new_inode(group, items)?;
        let mut d = std::mem::take(&mut self.dirs[dir]);
        let mut up = std::mem::take(&mut self.inodes[parent]);
        let added = self.disk.add_entry(&mut d, &mut up, hash, name_len, items);
        self.dirs[dir] = d;
        self.inodes[parent] = up;
        added?;
        self.inodes.push(Inode { group, block, ..Inode::default() });
        let ino = self.inodes.count() - 1;
        self.files[file].inode = ino;
        items.push(self.disk.inode_item(ino, &self.inodes[ino]));
        items.push(self.disk.inode_item(parent, &self.inodes[parent]));
        Some(ino)
    }

    /// Blocks of the path, and of the inode and its extents.
    fn path(&mut self, t: u32, file: u32) {
        let Some(f) = self.files.get(file) else { return };
        if self.config.kind == FsKind::Bdev {
            // Its node is in devtmpfs.
            return self.work(t, self.config.cost.path);
        }
        let mut need = self.disk.lookup(&self.dirs[f.dir], f.hash);
        if f.inode != 0 {
            let inode = &self.inodes[f.inode];
            need.push(inode.block);
            need.extend(inode.extents.tree());
        }
        let cost = &self.config.cost;
        let span = cost.path + cost.directory * need.len().max(1) as u64;
        self.tasks[t].need = need;
        self.work(t, span);
    }

    pub(crate) fn name_step(&mut self, t: u32, op: Op, phase: u8) -> Flow {
        match op {
            Op::Open { file, create, write, advice, drop } => match phase {
                0 => {
                    self.path(t, file);
                    self.go(t, 1);
                    self.push(t, Frame::Need)
                }
                1 if self.files.get(file).is_none_or(|f| f.inode == 0) => {
                    if !create || self.files.get(file).is_none() {
                        return self.fail_gone(t);
                    }
                    if self.tasks[t].held.is_empty()
                        && let Some((ino, alone)) = self.directory_of(file)
                    {
                        // Another may make it meanwhile.
                        return self.push(t, Frame::Lock { ino, alone });
                    }
                    self.go(t, 2);
                    self.push(t, Frame::Begin)
                }
                2 => self.create(t, file),
                3 => {
                    self.go(t, 4);
                    self.push(t, Frame::End)
                }
                // fio's invalidate=1. POSIX_FADV_DONTNEED begins to write back what is dirty, and BLKFLSBUF of a device
                // waits for it.
                1 if drop && self.cache.has_dirty(self.files[file].inode, 0, u64::MAX) => {
                    self.go(t, 4);
                    let (ino, at, last) = (self.files[file].inode, 0, u64::MAX);
                    if self.config.kind == FsKind::Bdev {
                        self.push(t, Frame::WaitPages { ino, first: at, last });
                        return self.push_write(t, ino, (at, last));
                    }
                    let (left, mapped, sync) = (u64::MAX, false, None);
                    self.push(t, Frame::WritePages { ino, at, last, left, mapped, sync, phase: 0 })
                }
                _ => {
                    let ino = self.files[file].inode;
                    if ino == 0 {
                        return self.fail_gone(t);
                    }
                    let inode = &mut self.inodes[ino];
                    inode.open += 1;
                    // errseq_sample of Linux 4.17: errors that nobody was told of are everybody's.
                    if inode.errors_told > 0 {
                        self.errors_told.insert((t, file), inode.errors_told);
                    }
                    inode.writers += u32::from(write);
                    if drop {
                        self.cache.drop_pages(ino, 0, u64::MAX, false);
                    }
                    let ra = self.advised(advice);
                    self.open.insert((t, file), ra);
                    self.leave(t)
                }
            },
            Op::Close { file, write } => self.close(t, file, write, phase),
            Op::Stat { file } => {
                if phase == 0 {
                    self.path(t, file);
                    self.go(t, 1);
                    return self.push(t, Frame::Need);
                }
                if self.files.get(file).is_none_or(|f| f.inode == 0) {
                    return self.fail_gone(t);
                }
                self.leave(t)
            }
            Op::Truncate { file, size } => self.truncate(t, file, size, phase),
            Op::Unlink { file } => self.unlink(t, file, phase),
            _ => unreachable!("calls on contents are elsewhere"),
        }
    }

    /// What changed, and the inodes it is of, join the transaction that is open; phase `then` follows.
    fn join_items(&mut self, t: u32, items: Vec<Item>, inodes: &[u32], then: u8) -> Flow {
        let task = &mut self.tasks[t];
        task.items = items;
        task.touched.extend(inodes.iter().map(|&ino| (ino, true)));
        self.arm_log();
        self.go(t, then);
        self.push(t, Frame::Join)
    }

    /// ext4_create, xfs_create, inside their transaction.
    fn create(&mut self, t: u32, file: u32) -> Flow {
        let mut items = Vec::new();
        self.work(t, self.config.cost.inode + self.config.cost.directory);
        let Some(ino) = self.make(file, &mut items) else {
            (self.tasks[t].ok, self.tasks[t].lacks) = (false, Lack::Room);
            self.go(t, 3);
            return Flow::Again;
        };
        let tick = self.now.0 / self.config.time_granularity.0;
        let parent = self.dirs[self.files[file].dir].inode;
        self.inodes[ino].mtime = Some(tick);
        self.inodes[ino].atime = Some(tick);
        self.inodes[parent].mtime = Some(tick);
        self.stats.creates += 1;
        self.join_items(t, items, &[ino, parent], 3)
    }

    fn close(&mut self, t: u32, file: u32, write: bool, phase: u8) -> Flow {
        if phase == 0 {
            self.work(t, self.config.cost.call);
            let ino = self.files.get(file).map_or(0, |f| f.inode);
            self.open.remove(&(t, file));
            self.errors_told.remove(&(t, file));
            if ino == 0 {
                return self.leave(t);
            }
            let inode = &mut self.inodes[ino];
            inode.open = inode.open.saturating_sub(1);
            inode.writers -= u32::from(write && inode.writers > 0);
            if inode.writers == 0 {
                // What was set aside for it and not used.
                let mut inode = std::mem::take(&mut self.inodes[ino]);
                self.disk.release_reserve(&mut inode);
                self.inodes[ino] = inode;
            }
        }
        self.leave(t)
    }

    /// What a truncation waits for: direct I/O and pages under way, and whoever is at the tree of extents.
    fn may_not_cut(&self, ino: u32, page: u64) -> Option<Wait> {
        let inode = &self.inodes[ino];
        let direct = inode.lock.has_direct().then_some(Wait::Direct(ino));
        let lock = inode.is_mapping().then_some(Wait::Mapping(ino));
        direct.or(self.busy(ino, page, u64::MAX).map(|(_, wait)| wait)).or(lock)
    }

    /// Waits, and not with a handle for pages that are written back only once another has had one.
    fn wait_to_cut(&mut self, t: u32, wait: Wait, begin: u8) -> Flow {
        let converts = self.pages_want() == Want::Paged && matches!(wait, Wait::WriteBack { .. });
        if !converts || !self.tasks[t].in_handle {
            return Flow::Block(wait);
        }
        self.go(t, begin);
        self.push(t, Frame::End)
    }

    /// jbd2_journal_begin_ordered_truncate: the transaction that is being committed names blocks of the file whose
    /// data are not on their way. It is found with them after a power cut, and they must be there.
    fn goes_first(&self, ino: u32, page: u64) -> bool {
        let Log::Jbd2(j) = &self.log else { return false };
        let extents = &self.inodes[ino].extents;
        let named = |p| extents.at(p).is_some_and(|e| self.takes_data(&e));
        j.commits_data_of(ino) && self.cache.dirty_from(ino, page).any(named)
    }
    fn write_first(&mut self, t: u32, ino: u32, at: u64) -> Flow {
        let (last, left, mapped, sync) = (u64::MAX, u64::MAX, true, Some(self.cache.tag()));
        self.push(t, Frame::WritePages { ino, at, last, left, mapped, sync, phase: 0 })
    }

    /// The last extents of a file from `page` on: as many as one handle changes. Their blocks are free once this
    /// transaction is on the drive.
    fn cut(&mut self, t: u32, ino: u32, page: u64, items: &mut Vec<Item>) {
        if let Log::Jbd2(j) = &mut self.log {
            for key in self.cache.pages_from(ino, page) {
                if j.drop_data(key) {
                    self.cache.unpin(key);
                } else if let Some(held) = self.cache.get_mut(key) {
                    // Whoever reads it before the commit ends reads a hole.
                    held.stamp = 0;
                }
            }
        }
        self.cache.drop_pages(ino, page, u64::MAX, true);
        self.settle_age(ino);
        let mut inode = std::mem::take(&mut self.inodes[ino]);
        self.disk.release_reserve(&mut inode);
        let goal = inode.block;
        let from = inode.extents.last(self.extents_at_once(), page);
        let (gone, touched) =
            self.disk.change(&mut inode.extents, goal, items, |all, c| all.cut(from, c));
        for gone in gone {
            self.disk.free_items(u64::from(gone.block), items);
            self.tasks[t].freed.push((u64::from(gone.block), gone.len));
        }
        self.free_tree(t, touched.freed, items);
        self.inodes[ino] = inode;
    }

    /// Extents that a transaction frees: XFS_ITRUNC_MAX_EXTENTS, and of ext4 as many as are sure to fit into what a handle
    /// reserves, with their bitmaps, groups and leaves (ext4_ext_rm_leaf).
    fn extents_at_once(&self) -> usize {
        match self.config.kind {
            FsKind::Xfs => 2,
            FsKind::Ext4 | FsKind::Bdev => 8,
        }
    }
    /// More is to be cut, by the phase behind `begin`, which begins a handle: in the same handle if the log lets it
    /// grow (ext4_ext_truncate_extend_restart). XFS rolls its transaction.
    fn cut_more(&mut self, t: u32, begin: u8) -> Flow {
        if self.config.kind == FsKind::Ext4 && self.may_begin() {
            self.go(t, begin + 1);
            return Flow::Again;
        }
        self.go(t, begin);
        self.push(t, Frame::End)
    }

    /// Blocks of a tree of extents are free with this transaction.
    pub(crate) fn free_tree(&mut self, t: u32, blocks: Vec<u64>, items: &mut Vec<Item>) {
        for block in blocks {
            self.disk.free_items(block, items);
            self.tasks[t].freed.push((block, 1));
            self.forget(block);
        }
    }

    /// A metadata block that is freed is not written any more (jbd2_journal_forget, with a revoke).
    fn forget(&mut self, block: u64) {
        let key = Key::new(META, block);
        self.cache.clear_dirty(key);
        self.settle_age(META);
        self.disk.formatted.remove(&block);
        let needed = match &mut self.log {
            Log::Jbd2(j) => j.forget(block),
            Log::Xfs(x) => x.forget(block),
            Log::None => unreachable!("{NO_LOG}"),
        };
        if !needed && self.cache.get(key).is_some_and(|p| p.is_uptodate()) {
            self.cache.unpin(key);
            if !self.cache.is_writing(META, block, block) {
                self.cache.remove(key);
            }
        }
    }

    fn truncate(&mut self, t: u32, file: u32, size: u64, phase: u8) -> Flow {
        let ino = self.files.get(file).map_or(0, |f| f.inode);
        match phase {
            _ if ino == 0 => self.fail_gone(t),
            0 => {
                self.work(t, self.config.cost.call);
                self.inodes[ino].cut_at = Some(size);
                self.go(t, 1);
                Flow::Again
            }
            1 | 2 if let Some(wait) = self.may_not_cut(ino, size.div_ceil(PAGE)) => {
                self.wait_to_cut(t, wait, 1)
            }
            1 | 2 if self.goes_first(ino, size.div_ceil(PAGE)) => {
                self.write_first(t, ino, size.div_ceil(PAGE))
            }
            1 => {
                self.go(t, 2);
                self.push(t, Frame::Begin)
            }
            2 => {
                let mut items = Vec::new();
                let page = size.div_ceil(PAGE);
                // Blocks behind the end of a file that keeps its size go, too.
                let shrinks = size <= self.inodes[ino].size;
                if shrinks {
                    if self.config.kind == FsKind::Ext4 {
                        items.push(self.disk.orphans(&self.inodes[ino]));
                    }
                    self.cut(t, ino, page, &mut items);
                }
                let inode = &mut self.inodes[ino];
                (inode.size, inode.disk_size) = (size, size);
                inode.cut_at = (shrinks && inode.extents.reaches(page)).then_some(size);
                items.push(self.disk.inode_item(ino, &self.inodes[ino]));
                self.join_items(t, items, &[ino], 3)
            }
            3 if self.inodes[ino].cut_at.is_some() => self.cut_more(t, 1),
            3 => {
                self.go(t, 4);
                self.push(t, Frame::End)
            }
            _ => self.leave(t),
        }
    }

    /// ext4_unlink and ext4_evict_inode, xfs_remove and xfs_inactive. An open file goes with its last close
    /// there, here its blocks go at once, and the directory stays locked meanwhile.
    fn unlink(&mut self, t: u32, file: u32, phase: u8) -> Flow {
        let ino = self.files.get(file).map_or(0, |f| f.inode);
        match phase {
            0 if ino == 0 => self.fail_gone(t),
            0 => {
                self.path(t, file);
                self.inodes[ino].cut_at = Some(0);
                self.go(t, 1);
                self.push(t, Frame::Need)
            }
            1 => {
                self.go(t, 2);
                self.push(t, Frame::Begin)
            }
            2 => {
                let File { dir, hash, name_len, .. } = self.files[file];
                let mut items = Vec::new();
                let mut d = std::mem::take(&mut self.dirs[dir]);
                self.disk.remove_entry(&mut d, hash, name_len, &mut items);
                let parent = d.inode;
                self.dirs[dir] = d;
                items.push(self.disk.orphans(&self.inodes[ino]));
                items.push(self.disk.inode_item(parent, &self.inodes[parent]));
                items.push(self.disk.inode_item(ino, &self.inodes[ino]));
                self.stats.unlinks += 1;
                self.work(t, self.config.cost.directory);
                self.join_items(t, items, &[parent, ino], 3)
            }
            3 => {
                self.go(t, 4);
                self.push(t, Frame::End)
            }
            4 | 5 if let Some(wait) = self.may_not_cut(ino, 0) => self.wait_to_cut(t, wait, 4),
            4 | 5 if self.goes_first(ino, 0) => self.write_first(t, ino, 0),
            4 => {
                self.go(t, 5);
                self.push(t, Frame::Begin)
            }
            5 => {
                let mut items = Vec::new();
                self.cut(t, ino, 0, &mut items);
                let mut inode = std::mem::take(&mut self.inodes[ino]);
                (inode.size, inode.disk_size, inode.cut_at) = (0, 0, None);
                if !inode.extents.reaches(0) {
                    self.disk.free_inode(&inode, &mut items);
                    items.push(self.disk.orphans(&inode));
                    self.files[file].inode = 0;
                    self.work(t, self.config.cost.inode);
                }
                items.push(self.disk.inode_item(ino, &inode));
                self.inodes[ino] = inode;
                self.join_items(t, items, &[ino], 6)
            }
            6 if ino != 0 => self.cut_more(t, 4),
            6 => {
                self.go(t, 7);
                self.push(t, Frame::End)
            }
            _ => self.leave(t),
        }
    }
}
