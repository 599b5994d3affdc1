//! Blocks for pages, and unwritten ones that become written.
//!
//! ext4 converts what a page's write-back finds unwritten when it maps the page, in the transaction that
//! waits for the data (ext4_ext_convert_to_initialized); short pieces around it get zeros. A direct write
//! takes its blocks out of the unwritten extent first and converts them at its end
//! (ext4_split_convert_extents, ext4_convert_unwritten_extents); with `dioread_nolock` write-back does so, too
//! (ext4_end_io). XFS converts at the end of any write (xfs_iomap_write_unwritten).

use crate::cache::Key;
use crate::config::{DataMode, FsKind};
use crate::disk::Item;
use crate::extents::{Change, Extent, Extents};
use crate::fs::{BIO_PAGES, BioKind, Flow, Frame, Fs, Log, Owner, PAGE, Wait, Want, What};

impl Fs {
    /// Data may go to these blocks as they are.
    pub(crate) fn takes_data(&self, e: &Extent) -> bool {
        !e.unwritten || self.config.kind == FsKind::Xfs
    }
    /// The same of `n` dirty pages from `first` on. With `dioread_nolock` an unwritten extent is theirs alone.
    pub(crate) fn takes_pages(&self, e: &Extent, first: u64, n: u64) -> bool {
        let theirs = u64::from(e.logical) == first && u64::from(e.end()) <= first + n;
        self.takes_data(e) || self.pages_want() == Want::Paged && theirs
    }
    /// What pages' blocks are to be (ext4_should_dioread_nolock).
    pub(crate) fn pages_want(&self) -> Want {
        let nolock = self.config.kind == FsKind::Ext4 && self.config.ext4.dioread_nolock;
        if nolock { Want::Paged } else { Want::Written }
    }

    /// Blocks for dirty pages (ext4_writepages with delayed allocation, xfs_iomap_write_allocate),
    /// or for a write that comes without delay.
    pub(crate) fn allocate(
        &mut self,
        t: u32,
        ino: u32,
        (logical, n): (u64, u64),
        want: Want,
        own: bool,
        phase: u8,
    ) -> Flow {
        match phase {
            0 => {
                self.go(t, 1);
                if own { self.push(t, Frame::Begin) } else { Flow::Again }
            }
            1 if self.inodes[ino].zeroing => Flow::Block(Wait::Mapping(ino)),
            1 => match self.inodes[ino].extents.at(logical) {
                None => self.allocate_hole(t, ino, (logical, n), want),
                // Another task was faster: nothing to choose, nothing to log.
                Some(e) if self.takes_data(&e) => {
                    self.mapped(t);
                    self.go(t, 3);
                    Flow::Again
                }
                Some(e) if want != Want::Written => {
                    let (first, end) = (logical as u32, (logical + n).min(e.end().into()) as u32);
                    let goal = e.block.into();
                    let mut items = self.change(t, ino, goal, |all, c| all.separate(first, end, c));
                    if want == Want::Paged && self.reach(ino, u64::from(end) * PAGE) {
                        items.push(self.disk.inode_item(ino, &self.inodes[ino]));
                    }
                    self.log_extents(t, ino, items, want)
                }
                Some(e) => {
                    let (first, end) = (logical as u32, (logical + n).min(e.end().into()) as u32);
                    let (from, to) = self.zeroed(ino, &e, first, end);
                    if (from, to) == (first, end) {
                        return self.overwrite(t, ino, e, (first, end));
                    }
                    self.inodes[ino].zeroing = true;
                    for (a, b) in [(from, first), (end, to)] {
                        self.zero_out(t, ino, &e, a, b);
                    }
                    self.go(t, 5);
                    Flow::Again
                }
            },
            2 => {
                self.inodes[ino].mapping -= 1;
                self.go(t, 3);
                Flow::Again
            }
            3 if own => {
                self.go(t, 4);
                self.push(t, Frame::End)
            }
            3 => self.pop(t),
            4 => self.pop(t),
            _ if self.tasks[t].bios > 0 => Flow::Block(Wait::Bios),
            // The zeros are there, and nobody else changed the extents.
            _ => {
                self.inodes[ino].zeroing = false;
                let Some(e) = self.inodes[ino].extents.at(logical) else {
                    self.go(t, 3);
                    return Flow::Again;
                };
                let (first, end) = (logical as u32, (logical + n).min(e.end().into()) as u32);
                let (from, to) = self.zeroed(ino, &e, first, end);
                self.overwrite(t, ino, e, (from, to))
            }
        }
    }

    fn allocate_hole(&mut self, t: u32, ino: u32, (logical, n): (u64, u64), want: Want) -> Flow {
        let hole = self.inodes[ino].extents.run(logical, n).max(1);
        let mut items = Vec::new();
        self.work(t, self.config.cost.allocate);
        // ext4_claim_free_clusters: what is promised to others is theirs.
        let promised = self.cache.is_promised(Key::new(ino, logical));
        let given = match promised || self.has_space(hole) {
            true => self.blocks_for(t, ino, (logical, hole), &mut items),
            false => None,
        };
        let Some(extent) = given else {
            self.go(t, 3);
            return Flow::Again;
        };
        self.stats.allocations += 1;
        if self.cache.promised() > 0 {
            let end = logical + u64::from(extent.len);
            (logical..end).for_each(|page| self.cache.end_promise(Key::new(ino, page)));
        }
        let new = Extent { unwritten: want != Want::Written, ..extent };
        // EXT4_GET_BLOCKS_PRE_IO: what is to be converted stays by itself.
        let join = want == Want::Written || self.config.kind == FsKind::Xfs;
        items.extend(self.change(t, ino, extent.block.into(), |all, c| all.insert(new, join, c)));
        let item = self.disk.inode_item(ino, &self.inodes[ino]);
        items.push(item);
        if want != Want::Unwritten {
            self.reach(ino, (logical + u64::from(extent.len)) * PAGE);
        }
        self.log_extents(t, ino, items, want)
    }

    /// Blocks near the file's; on a full drive also what was set aside for others (ext4_mb_discard_preallocations).
    fn blocks_for(
        &mut self,
        t: u32,
        ino: u32,
        (logical, n): (u64, u64),
        items: &mut Vec<Item>,
    ) -> Option<Extent> {
        loop {
            let mut inode = std::mem::take(&mut self.inodes[ino]);
            let given = self.disk.allocate(&mut inode, logical, n as u32, t, items);
            self.inodes[ino] = inode;
            if given.is_some() || !self.release_reserves() {
                return given;
            }
        }
    }

    /// There are blocks for `n` pages beside those that are promised. What is set aside for files is not taken.
    pub(crate) fn has_space(&mut self, n: u64) -> bool {
        let wanted = n + self.cache.promised();
        wanted <= self.disk.space.free()
            || self.release_reserves() && wanted <= self.disk.space.free()
    }

    /// All that is set aside for files and tasks is free. False if there is nothing.
    fn release_reserves(&mut self) -> bool {
        let free = self.disk.space.free();
        for ino in 0..self.inodes.count() {
            if self.inodes[ino].reserve.is_some() {
                let mut inode = std::mem::take(&mut self.inodes[ino]);
                self.disk.release_reserve(&mut inode);
                self.inodes[ino] = inode;
            }
        }
        self.disk.release_localities();
        self.disk.space.free() > free
    }

    /// ext4 writes over unwritten blocks: the transaction waits for the data.
    fn overwrite(&mut self, t: u32, ino: u32, e: Extent, (first, end): (u32, u32)) -> Flow {
        self.stats.conversions += 1;
        let mut items = self.change(t, ino, e.block.into(), |all, c| all.convert(first, end, c));
        if self.reach(ino, u64::from(end) * PAGE) {
            items.push(self.disk.inode_item(ino, &self.inodes[ino]));
        }
        self.work(t, self.config.cost.map);
        self.log_extents(t, ino, items, Want::Written)
    }

    /// Blocks `from` to `to` of an unwritten extent are converted with `first` to `end`: what lies around
    /// them gets zeros if it is short, lest the extent be split.
    fn zeroed(&self, ino: u32, e: &Extent, first: u32, end: u32) -> (u32, u32) {
        let inode = &self.inodes[ino];
        let most = self.config.ext4.extent_max_zeroout / PAGE as u32;
        let in_file = u64::from(e.end()) <= inode.disk_size.div_ceil(PAGE).max(end.into());
        let (mut from, mut to) = (first, end);
        if !in_file || end == e.end() {
            return (from, to);
        }
        if inode.extents.neighbour(first, end, &self.disk.shape()).is_some() {
            return (from, to);
        }
        if e.end() - first <= most {
            to = e.end();
        }
        if to - e.logical < most {
            from = e.logical;
        }
        (from, to)
    }

    /// ext4_issue_zeroout: pages of zeros, waited for.
    fn zero_out(&mut self, t: u32, ino: u32, e: &Extent, first: u32, end: u32) {
        let block = u64::from(e.block + first - e.logical);
        let n = u64::from(end - first);
        self.stats.zeroed_blocks += n;
        for at in (0..n).step_by(BIO_PAGES as usize) {
            let mut bio = self.bio(BioKind::Write, What::Data, block + at, BIO_PAGES.min(n - at));
            bio.tag = u64::from(ino);
            self.submit(t, Owner::Task(t), bio);
        }
        if let Some(shadow) = &mut self.shadow {
            shadow.extend((block..block + n).map(|block| (block, 0)));
        }
    }

    /// ext4 has the size in the transaction of the blocks.
    fn reach(&mut self, ino: u32, end: u64) -> bool {
        let inode = &mut self.inodes[ino];
        let end = end.min(inode.size);
        let grows = self.config.kind == FsKind::Ext4 && end > inode.disk_size;
        if grows {
            inode.disk_size = end;
        }
        grows
    }

    /// Changes extents: what is to be logged for it.
    fn change(
        &mut self,
        t: u32,
        ino: u32,
        goal: u64,
        f: impl FnOnce(&mut Extents, &mut Change),
    ) -> Vec<Item> {
        let mut items = Vec::new();
        let mut extents = std::mem::take(&mut self.inodes[ino].extents);
        let ((), touched) = self.disk.change(&mut extents, goal, &mut items, f);
        self.inodes[ino].extents = extents;
        self.free_tree(t, touched.freed, &mut items);
        // XFS logs the inode with any of them, so that fsync finds it in the log.
        if touched.root || self.config.kind == FsKind::Xfs {
            items.push(self.disk.inode_item(ino, &self.inodes[ino]));
        }
        items
    }

    /// Changed extents join the transaction, under the lock on them.
    fn log_extents(&mut self, t: u32, ino: u32, items: Vec<Item>, want: Want) -> Flow {
        if let Log::Jbd2(j) = &mut self.log
            && self.config.ext4.data == DataMode::Ordered
            && want == Want::Written
        {
            j.order(ino, !self.config.ext4.delalloc);
        }
        self.inodes[ino].mapping += 1;
        self.tasks[t].items = items;
        let data = want == Want::Written || self.config.kind == FsKind::Xfs;
        self.tasks[t].touched.push((ino, data));
        self.mapped(t);
        self.go(t, 2);
        self.push(t, Frame::Join)
    }

    /// Back to the pages of the WritePages frame that waits for this allocation: they are mapped.
    fn mapped(&mut self, t: u32) {
        let frames = &mut self.tasks[t].frames;
        let below = frames.len().checked_sub(2).and_then(|below| frames.get_mut(below));
        if let Some(Frame::WritePages { phase, .. }) = below {
            *phase = 0;
        }
    }

    /// Data are on the drive: their blocks count as written, and the file reaches to their end, in a
    /// transaction for each extent.
    pub(crate) fn convert(
        &mut self,
        t: u32,
        ino: u32,
        (at, end): (u64, u64),
        size: u64,
        phase: u8,
    ) -> Flow {
        match phase {
            0 => {
                if size == 0 && self.inodes[ino].extents.unwritten(at, end).is_none() {
                    return self.pop(t);
                }
                self.go(t, 1);
                self.push(t, Frame::Begin)
            }
            1 if self.inodes[ino].zeroing => Flow::Block(Wait::Mapping(ino)),
            1 => {
                let mut items = Vec::new();
                let mut next = end;
                if let Some((first, to)) = self.inodes[ino].extents.unwritten(at, end) {
                    next = to;
                    self.stats.conversions += 1;
                    let goal = self.inodes[ino].extents.goal(first).unwrap_or(0);
                    let range = (first as u32, to as u32);
                    items = self.change(t, ino, goal, |all, c| all.convert(range.0, range.1, c));
                    self.work(t, self.config.cost.map);
                }
                if size > 0 {
                    let inode = &mut self.inodes[ino];
                    inode.size = inode.size.max(size);
                    inode.disk_size = inode.disk_size.max(size);
                    items.push(self.disk.inode_item(ino, &self.inodes[ino]));
                }
                if let Some(top) = self.tasks[t].frames.last_mut() {
                    *top = Frame::Convert { ino, at: next, end, size: 0, phase: 2 };
                }
                self.inodes[ino].mapping += 1;
                if items.is_empty() {
                    return Flow::Again;
                }
                let task = &mut self.tasks[t];
                task.items = items;
                task.touched.push((ino, true));
                self.arm_log();
                self.push(t, Frame::Join)
            }
            2 => {
                self.inodes[ino].mapping -= 1;
                self.go(t, 0);
                self.push(t, Frame::End)
            }
            _ => unreachable!("a conversion has three steps"),
        }
    }

    pub(crate) fn ioend_wanted(&self) -> bool {
        !self.ended.is_empty()
    }

    /// xfs_end_io, ext4_do_flush_completed_IO: what is left to log of data that are there, in transactions of its own.
    pub(crate) fn ioend(&mut self, t: u32, phase: u8) -> Flow {
        let Some(&pages) = self.ended.front() else { return Flow::Block(Wait::Work) };
        if phase == 0 {
            let end = pages.first + if pages.unwritten { u64::from(pages.n) } else { 0 };
            let (ino, at, size) = (pages.ino, pages.first, pages.ends);
            self.go(t, 1);
            return self.push(t, Frame::Convert { ino, at, end, size, phase: 0 });
        }
        self.ended.pop_front();
        self.end_pages(pages.ino, pages.first, pages.n);
        self.go(t, 0);
        Flow::Again
    }
}
