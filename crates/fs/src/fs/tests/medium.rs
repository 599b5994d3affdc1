//! What the drive may hold when power fails, at any point.
//!
//! The drive's cache is volatile: a write is certain once a flush that began after it ended has
//! ended, or when it ends itself with FUA. Until then it may be there or not, in any order with others.
//! A write with a flush before it is there only when all that ended before it was submitted is.
//!
//! After a cut the log is found as far as it is whole for certain, and perhaps further. From that
//! follows which inodes are found, and from their extents which data. Held against it, at each write
//! and at each end of one: what every fsync promised that came back, that blocks count as written only with
//! their data, that metadata are in the log before they are in their place, and that the log forgets nothing
//! that is not in its place.

use super::*;
use crate::disk::Item;
use crate::extents::Extents;
use crate::fs::Log;

#[derive(Default)]
pub(crate) struct Medium {
    journal_async_commit: bool,
    /// Blocks that were a hole, too, are written only with their data.
    guards_holes: bool,
    /// Converted blocks are written only with their data.
    guards: bool,
    /// Bios submitted or ended so far.
    clock: u64,
    /// When each bio under way was submitted.
    in_flight: BTreeMap<u32, u64>,
    /// Flushes under way: they cover what had ended when they began.
    flushes: BTreeMap<u32, u64>,
    /// Writes that are not certain, in order of submission.
    volatile: BTreeMap<u64, Written>,
    /// Blocks as they are for certain.
    certain: BTreeMap<u64, Content>,
    /// Blocks as they may be too.
    perhaps: BTreeMap<u64, Vec<Content>>,

    /// Inodes by the transaction that holds them so.
    inodes: BTreeMap<u32, BTreeMap<u64, Found>>,
    /// Transactions that free a block.
    freed: BTreeMap<u64, BTreeSet<u64>>,
    /// The newest transaction that is in the log for certain.
    committed: u64,
    /// What the log of ext4 holds.
    jbd2: Journal,
    /// What the log of XFS holds.
    xfs: XfsLog,

    /// Stamps of pages that writes left which came back.
    written: BTreeMap<u32, BTreeMap<u64, u32>>,
    /// By task, what its sync promises.
    promises: BTreeMap<u32, Promise>,
    /// How often something was held against a promise or an order.
    pub checks: u64,
    /// Syncs that ended, each with a promise.
    pub kept: u64,
    /// Blocks that were held against their data when they counted as written.
    pub converted: u64,
}

#[derive(Clone, Debug)]
struct Written {
    bio: Bio,
    ended: Option<u64>,
    content: Vec<(u64, Content)>,
    items: Vec<(Item, u64)>,
}

/// What a block holds: of which write, and a page of which inode.
#[derive(Clone, Copy, Debug)]
struct Content {
    order: u64,
    stamp: u32,
    page: Option<(u32, u64)>,
}

#[derive(Clone, Debug)]
struct Found {
    size: u64,
    extents: Extents,
}

/// fsync or fdatasync of a file came back.
#[derive(Clone, Debug)]
struct Promise {
    ino: u32,
    size: u64,
    pages: BTreeMap<u64, u32>,
}

/// jbd2's side. Positions in the log count up for ever.
#[derive(Default)]
struct Journal {
    sent: BTreeMap<u64, u64>,
    certain: BTreeMap<u64, u64>,
    commits: BTreeSet<u64>,
    /// What each transaction logs, and where that has its place.
    content: BTreeMap<u64, BTreeMap<Key, (u32, u64)>>,
    /// When each transaction closed.
    closed: BTreeMap<u64, u64>,
    head: u64,
    /// The tail that the drive's superblock has for certain.
    tail: u64,
    /// The oldest transaction that the newest tail keeps, on its way.
    forgotten: u64,
    /// The oldest transaction that the tail on the drive keeps for certain.
    kept: u64,
    /// The newest transaction whose commit block was submitted.
    newest_commit: u64,
}

#[derive(Default)]
struct XfsLog {
    /// Bios of each buffer that are not certain.
    open: BTreeMap<u64, u32>,
    newest_buffer: u64,
    /// Where each checkpoint begins, and the buffer it ends in.
    starts: BTreeMap<u64, u64>,
    ends: BTreeMap<u64, u64>,
    items: BTreeMap<u64, BTreeSet<Item>>,
    /// Every time an item joined: which of all joins that was, and to what.
    joins: BTreeMap<Item, Vec<(u64, u64)>>,
    place: BTreeMap<Item, u64>,
    forgotten: u64,
}

impl Medium {
    pub fn new(config: &FsConfig) -> Medium {
        let journal_async_commit = config.ext4.journal_async_commit;
        // Of ext4 with data=writeback stale blocks may be read after a cut, and with an early commit block
        // (Linux refuses that together with data=ordered). XFS of 4.14 writes into holes of a file without a guard.
        let guards = config.kind == FsKind::Xfs
            || config.ext4.data != DataMode::Writeback && !journal_async_commit;
        let guards_holes = config.kind == FsKind::Ext4 && guards;
        Medium { journal_async_commit, guards_holes, guards, ..Medium::default() }
    }
    /// Files from before.
    pub fn laid_out(&mut self, fs: &Fs) {
        for (ino, inode) in fs.inodes.iter().enumerate() {
            let found = Found { size: inode.disk_size, extents: inode.extents.clone() };
            self.inodes.entry(ino as u32).or_default().insert(0, found);
        }
    }
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// After each step of a task: what joined the log, and what is being committed.
    pub fn look(&mut self, fs: &mut Fs) {
        for joined in std::mem::take(&mut fs.joined) {
            for ino in joined.inodes {
                let inode = &fs.inodes[ino];
                let size = if fs.journals_data() { inode.size } else { inode.disk_size };
                let found = Found { size, extents: inode.extents.clone() };
                self.inodes.entry(ino).or_default().insert(joined.seq, found);
            }
            for (block, len) in joined.freed {
                for block in block..block + u64::from(len) {
                    self.freed.entry(block).or_default().insert(joined.seq);
                }
            }
            for item in &joined.items {
                self.xfs.joins.entry(*item).or_default().push((joined.number, joined.seq));
            }
            self.xfs.items.entry(joined.seq).or_default().extend(joined.items);
        }
        match &fs.log {
            Log::Jbd2(j) => {
                if let Some((tid, blocks)) = j.committing()
                    && !self.jbd2.content.contains_key(&tid)
                {
                    let page = |&k: &Key| Some((k, (fs.cache.get(k)?.stamp, place_of(fs, k)?)));
                    self.jbd2.content.insert(tid, blocks.iter().filter_map(page).collect());
                    self.jbd2.closed.insert(tid, self.clock);
                }
            }
            Log::Xfs(x) => {
                for (seq, start, last) in x.on_their_way() {
                    self.xfs.starts.insert(seq, start);
                    self.xfs.ends.extend(last.map(|last| (seq, last)));
                }
            }
            Log::None => {}
        }
    }

    /// Before a call: what it may undo is promised no longer.
    pub fn called(&mut self, op: &Op) {
        match *op {
            Op::Truncate { file, size } => {
                let keep = size.div_ceil(4096);
                if let Some(pages) = self.written.get_mut(&file) {
                    pages.split_off(&keep);
                }
                if let Some(promise) = self.promises.get_mut(&file) {
                    promise.pages.split_off(&keep);
                    promise.size = promise.size.min(size);
                }
            }
            Op::Unlink { file } => {
                self.written.remove(&file);
                self.promises.remove(&file);
            }
            _ => {}
        }
    }

    /// After a call. A file is of one task alone: nothing else has changed it meanwhile.
    pub fn returned(&mut self, fs: &Fs, op: &Op, ok: bool) {
        if !ok {
            return;
        }
        let (file, synced) = match *op {
            Op::Write { file, offset, len, direct, sync, data_only, .. } => {
                let pages = self.written.entry(file).or_default();
                let range = offset / 4096..=(offset + u64::from(len) - 1) / 4096;
                for page in range.clone() {
                    pages.insert(page, contents::content(fs, file, page));
                }
                // O_SYNC promises what it wrote. A direct write does not bring the size that writes through pages gave the
                // file to the drive (before Linux 4.17, "update i_disksize if direct write past ondisk size").
                let size = if direct { 0 } else { offset + u64::from(len) };
                (file, (sync || data_only).then_some((range, size)))
            }
            Op::Fsync { file, .. } => {
                self.promises.remove(&file);
                let size = fs.inodes[fs.files[file].inode].size;
                (file, Some((0..=u64::MAX, size)))
            }
            _ => return,
        };
        let Some((range, size)) = synced else { return };
        let ino = fs.files[file].inode;
        let none = Promise { ino, size: 0, pages: BTreeMap::new() };
        let promise = self.promises.entry(file).or_insert(none);
        promise.size = promise.size.max(size);
        if let Some(pages) = self.written.get(&file) {
            promise.pages.extend(pages.range(range));
        }
        self.kept += 1;
        self.recover(fs);
    }

    pub fn submitted(&mut self, fs: &Fs, bio: &Bio) {
        if bio.kind == BioKind::Read {
            return;
        }
        self.clock += 1;
        if bio.kind == BioKind::Flush || bio.preflush {
            self.flushes.insert(bio.id, self.clock);
        }
        if bio.kind == BioKind::Flush {
            return;
        }
        let order = self.clock;
        let mut w = Written { bio: *bio, ended: None, content: Vec::new(), items: Vec::new() };
        if matches!(bio.what, What::Data | What::Meta) {
            let first = bio.offset / 4096;
            let shadow = fs.shadow.as_ref().expect("the test follows contents");
            for block in first..=(bio.offset + u64::from(bio.len) - 1) / 4096 {
                let stamp = shadow.get(&block).copied().unwrap_or(0);
                let page = if bio.what == What::Data { page_at(fs, block) } else { None };
                let content = Content { order, stamp, page };
                self.perhaps.entry(block).or_default().push(content);
                w.content.push((block, content));
            }
        }
        match &fs.log {
            Log::Jbd2(_) => self.jbd2_gets(fs, &w),
            Log::Xfs(x) => {
                if let Some(batch) = fs.batch_of(bio.id) {
                    w.items = x.batch(batch).to_vec();
                }
                self.xfs_gets(fs, &w);
            }
            Log::None => {}
        }
        self.in_flight.insert(bio.id, order);
        self.volatile.insert(order, w);
        self.recover(fs);
    }

    pub fn done(&mut self, fs: &Fs, bio: &Bio) {
        self.clock += 1;
        if let Some(began) = self.flushes.remove(&bio.id) {
            let covered = |w: &&Written| w.ended.is_some_and(|at| at < began);
            let orders = self.volatile.iter().filter(|(_, w)| covered(w)).map(|(&o, _)| o);
            let orders: Vec<u64> = orders.collect();
            orders.into_iter().for_each(|order| self.make_certain(order));
        }
        if let Some(order) = self.in_flight.remove(&bio.id) {
            self.volatile.get_mut(&order).expect("it is under way").ended = Some(self.clock);
            if bio.fua {
                self.make_certain(order);
            }
        }
        self.find_log(fs);
        self.recover(fs);
    }

    fn make_certain(&mut self, order: u64) {
        let w = self.volatile.remove(&order).expect("it was not certain");
        for (block, content) in w.content {
            let newest = self.certain.entry(block).or_insert(content);
            if newest.order <= content.order {
                *newest = content;
            }
            let newest = newest.order;
            let perhaps = self.perhaps.get_mut(&block).expect("it was there perhaps");
            perhaps.retain(|c| c.order > newest);
        }
        for (item, seq) in w.items {
            let place = self.xfs.place.entry(item).or_default();
            *place = seq.max(*place);
        }
        let tag = w.bio.tag;
        match w.bio.what {
            What::Descriptor | What::Journal => {
                *self.jbd2.certain.entry(tag).or_default() += u64::from(w.bio.len) / 4096;
            }
            What::Commit => {
                self.jbd2.commits.insert(tag);
            }
            What::Tail => {
                self.jbd2.tail = self.jbd2.tail.max(tag);
                // Until then the older ones are found.
                self.jbd2.kept = self.jbd2.forgotten;
            }
            What::Log => {
                let open = self.xfs.open.get_mut(&tag).expect("it was sent");
                *open -= 1;
                if *open == 0 {
                    self.xfs.open.remove(&tag);
                }
            }
            _ => {}
        }
    }

    /// How far the log is found for certain: up to the first transaction that is not whole.
    fn find_log(&mut self, fs: &Fs) {
        match &fs.log {
            Log::Jbd2(_) => {
                let j = &mut self.jbd2;
                while j.commits.first() == Some(&(self.committed + 1)) {
                    let tid = self.committed + 1;
                    // A commit block without all before it is none: its checksum is wrong.
                    let whole = j.certain.get(&tid) == j.sent.get(&tid);
                    assert!(whole || self.journal_async_commit, "transaction {tid} is not whole");
                    if !whole {
                        break;
                    }
                    self.committed = tid;
                    j.commits.pop_first();
                }
            }
            Log::Xfs(_) => {
                let x = &self.xfs;
                let whole = x.open.first_key_value().map_or(x.newest_buffer, |(&n, _)| n - 1);
                while x.ends.get(&(self.committed + 1)).is_some_and(|&last| last <= whole) {
                    self.committed += 1;
                }
            }
            Log::None => {}
        }
    }

    /// The file system takes no more for durable than what is found.
    pub fn believed(&self, fs: &Fs) {
        if !matches!(fs.log, Log::None) {
            let (durable, found) = (fs.durable(), self.committed);
            assert!(durable <= found, "transaction {durable} counts as durable, found is {found}");
        }
    }

    /// Power fails now: what was promised is found.
    fn recover(&mut self, fs: &Fs) {
        let newest = match &fs.log {
            Log::Jbd2(_) => self.jbd2.newest_commit,
            Log::Xfs(_) => {
                let sent = |&(_, &last): &(&u64, &u64)| last <= self.xfs.newest_buffer;
                self.xfs.ends.iter().rev().find(sent).map_or(0, |(&seq, _)| seq)
            }
            Log::None => 0,
        };
        for (file, promise) in &self.promises {
            if matches!(fs.log, Log::None) {
                let inode = &fs.inodes[promise.ino];
                self.hold(*file, promise, 0, inode.size, &inode.extents);
                continue;
            }
            let history = self.inodes.get(&promise.ino);
            let found = history.and_then(|h| h.range(..=self.committed).next_back());
            let Some((&seq, _)) = found else {
                panic!("file {file}, inode {}: not found after fsync", promise.ino);
            };
            for (&seq, found) in history.into_iter().flat_map(|h| h.range(seq..=newest.max(seq))) {
                self.hold(*file, promise, seq, found.size, &found.extents);
            }
        }
        self.checks += self.promises.len() as u64;
    }

    fn hold(&self, file: u32, promise: &Promise, seq: u64, size: u64, extents: &Extents) {
        let ino = promise.ino;
        let what = format!("file {file}, inode {ino} of transaction {seq}");
        assert!(size >= promise.size, "{what}: {size} bytes found, {} promised", promise.size);
        for (&page, &stamp) in &promise.pages {
            let key = Key::new(ino, page);
            // In the log as far as it is found, if data go through it.
            let logged = self.jbd2.content.range(self.jbd2.kept..=self.committed);
            let logged = logged.rev().find_map(|(_, content)| content.get(&key));
            if logged.is_some_and(|&(s, _)| s >= stamp) {
                continue;
            }
            let Some((block, _)) = extents.written(page) else {
                panic!("{what}: page {page} is a hole or unwritten, and reads as zeros");
            };
            let fits = |c: &Content| c.page == Some((ino, page)) && c.stamp >= stamp;
            let certain = self.certain.get(&block);
            assert!(
                certain.is_some_and(fits),
                "{what}: page {page} as {stamp} is not certain in block {block}: {certain:?}"
            );
            let perhaps = self.perhaps.get(&block).into_iter().flatten().find(|c| !fits(c));
            assert!(
                perhaps.is_none(),
                "{what}: page {page} as {stamp} may be lost in block {block}: {perhaps:?}"
            );
        }
    }

    /// Transaction `seq` is found if `bio` is there. What counts as written by it has its data then; else a
    /// read would find what the block held before.
    fn no_stale_blocks(&mut self, seq: u64, bio: &Bio) {
        if !self.guards {
            return;
        }
        for (ino, history) in &self.inodes {
            let Some(found) = history.get(&seq) else { continue };
            let before = history.range(..seq).next_back().map(|(_, f)| f);
            let pages = found.extents.iter().filter(|e| !e.unwritten);
            let pages =
                pages.flat_map(|e| (e.logical..e.end()).map(|p| (p, e.block + p - e.logical)));
            for (page, block) in pages.filter(|p| u64::from(p.0) * 4096 < found.size) {
                let (page, block) = (u64::from(page), u64::from(block));
                let was = before.and_then(|f| f.extents.at(page));
                let was = was.filter(|e| u64::from(e.block) + page - u64::from(e.logical) == block);
                let seen = before.is_some_and(|f| page * 4096 < f.size);
                let converted = was.is_some_and(|e| e.unwritten);
                let checked = was.is_some_and(|e| !e.unwritten) && seen;
                let key = Key::new(*ino, page);
                let mut logged = self.jbd2.content.range(self.jbd2.kept..=seq);
                if checked
                    || !converted && !self.guards_holes
                    || logged.any(|(_, content)| content.contains_key(&key))
                {
                    continue;
                }
                let fits = |c: &Content| c.page == Some((*ino, page));
                let there = self.in_place(bio, self.certain.get(&block).is_some_and(fits), |w| {
                    w.content.iter().any(|(b, c)| *b == block && fits(c))
                });
                assert!(
                    there,
                    "inode {ino}: page {page} is written in transaction {seq}, its data are not in block {block}"
                );
                self.converted += u64::from(converted);
            }
        }
    }

    /// In its place for certain when a write with these flags is there.
    fn in_place(&self, bio: &Bio, certain: bool, fits: impl Fn(&Written) -> bool) -> bool {
        certain || bio.preflush && self.volatile.values().any(|w| w.ended.is_some() && fits(w))
    }

    fn jbd2_gets(&mut self, fs: &Fs, w: &Written) {
        let bio = &w.bio;
        let blocks = u64::from(bio.len) / 4096;
        match bio.what {
            What::Meta => {
                for &(block, Content { stamp, .. }) in &w.content {
                    // It may be there from now on.
                    let newest = self.newest_logged(block);
                    assert!(
                        stamp <= newest,
                        "block {block} goes to its place as {stamp}, the log has {newest}"
                    );
                    self.checks += 1;
                }
            }
            What::Descriptor | What::Journal | What::Commit => {
                let j = &mut self.jbd2;
                j.head += blocks;
                // The first block is the superblock.
                let len = fs.disk.log.len() - 1;
                assert!(
                    j.head <= j.tail + len,
                    "the log overwrites what its superblock names: {} blocks from {} on of {len}",
                    j.head - j.tail,
                    j.tail
                );
                if bio.what == What::Commit {
                    j.newest_commit = bio.tag;
                    self.commits_whole(fs, bio);
                    self.no_stale_blocks(bio.tag, bio);
                } else {
                    *j.sent.entry(bio.tag).or_default() += blocks;
                }
            }
            What::Tail => self.tail_moves(fs, bio),
            _ => {}
        }
    }

    fn newest_logged(&self, block: u64) -> u32 {
        let tids = self.jbd2.content.range(..=self.committed);
        tids.filter_map(|(_, c)| c.get(&meta(block))).map(|(s, _)| *s).max().unwrap_or(0)
    }

    fn commits_whole(&mut self, fs: &Fs, bio: &Bio) {
        let tid = bio.tag;
        if !self.journal_async_commit {
            let of_it = |w: &&Written| {
                w.bio.tag == tid && matches!(w.bio.what, What::Descriptor | What::Journal)
            };
            let missing = self.volatile.values().filter(of_it).find(|w| w.ended.is_none());
            assert!(missing.is_none(), "commit {tid} before {missing:?}");
            assert!(bio.preflush && bio.fua);
        }
        // Ordered: what was on its way when the transaction closed has arrived.
        let closed = self.jbd2.closed[&tid];
        for ino in fs.committing_ordered() {
            let late = self.volatile.iter().find(|(order, w)| {
                let of_it = w.bio.what == What::Data && w.bio.tag == u64::from(ino);
                of_it && w.ended.is_none() && **order <= closed
            });
            assert!(late.is_none(), "commit {tid} before {late:?}");
        }
        self.checks += 1;
    }

    /// All that the log forgets is in its place, or in a newer transaction that is in the log.
    fn tail_moves(&mut self, fs: &Fs, bio: &Bio) {
        let oldest = fs.oldest_logged();
        let forgotten = self.jbd2.content.range(self.jbd2.forgotten..oldest);
        for (tid, content) in forgotten {
            for (&key, &(stamp, block)) in content {
                let newer = self.jbd2.content.range(tid + 1..);
                let mut newer = newer.take_while(|(tid, _)| **tid <= self.committed);
                if newer.any(|(_, c)| c.contains_key(&key)) {
                    continue;
                }
                // Freed since, for certain.
                let mut freed = self.freed.get(&block).into_iter().flatten();
                if freed.any(|seq| (tid + 1..=self.committed).contains(seq)) {
                    continue;
                }
                let fits = |c: &Content| c.stamp >= stamp;
                let certain = self.certain.get(&block).is_some_and(fits);
                let there = self.in_place(bio, certain, |w| {
                    w.content.iter().any(|(b, c)| *b == block && fits(c))
                });
                assert!(there, "the log forgets block {block} of transaction {tid}: {key:?}");
                self.checks += 1;
            }
        }
        self.jbd2.forgotten = self.jbd2.forgotten.max(oldest);
    }

    fn xfs_gets(&mut self, fs: &Fs, w: &Written) {
        let bio = &w.bio;
        for (item, seq) in &w.items {
            assert!(*seq <= self.committed, "{item:?} goes to its place before its log, {seq}");
            // What goes there is what memory has then: all that joined the log before.
            let before = fs.batch_of(bio.id).and_then(|batch| fs.joins_before.get(&batch));
            let joins = self.xfs.joins.get(item).into_iter().flatten();
            let newest = joins.rev().find(|j| before.is_some_and(|&n| j.0 <= n));
            let logged = newest.is_none_or(|j| j.1 <= self.committed);
            assert!(logged, "{item:?} goes to its place with what is not in the log: {newest:?}");
            self.checks += 1;
        }
        if bio.what != What::Log {
            return;
        }
        *self.xfs.open.entry(bio.tag).or_default() += 1;
        self.xfs.newest_buffer = bio.tag;
        // At the log's end a buffer is two bios: the flush is of the first.
        let first = self.xfs.open[&bio.tag] == 1;
        assert!(bio.preflush == first && bio.fua, "each buffer is ordered");
        let ends = self.xfs.ends.iter().filter(|(_, last)| **last == bio.tag);
        let ends: Vec<u64> = ends.map(|(&seq, _)| seq).collect();
        ends.into_iter().for_each(|seq| self.no_stale_blocks(seq, bio));
        // Its header names the log's tail.
        let Log::Xfs(x) = &fs.log else { return };
        let oldest = x.oldest_byte();
        let x = &self.xfs;
        let mut upto = x.forgotten;
        for (&seq, _) in x.starts.range(x.forgotten + 1..).take_while(|(_, start)| **start < oldest)
        {
            for item in &x.items[&seq] {
                let mut newer = x.items.range(seq + 1..).take_while(|(s, _)| **s <= self.committed);
                let freed = matches!(item, Item::Block(b) if !fs.disk.formatted.contains(b));
                if freed || newer.any(|(_, items)| items.contains(item)) {
                    continue;
                }
                let certain = x.place.get(item).is_some_and(|&s| s >= seq);
                let there = self.in_place(bio, certain, |w| {
                    w.items.iter().any(|(i, s)| i == item && *s >= seq)
                });
                assert!(there, "the log forgets {item:?} of checkpoint {seq}");
            }
            upto = seq;
        }
        self.xfs.forgotten = upto;
        self.checks += 1;
    }
}

fn place_of(fs: &Fs, key: Key) -> Option<u64> {
    match key.inode() {
        META => Some(key.page()),
        ino => fs.inodes[ino].extents.find(key.page()).map(|(block, _)| block),
    }
}

/// The page of a file that stands in a block.
fn page_at(fs: &Fs, block: u64) -> Option<(u32, u64)> {
    let live = fs.files.iter().map(|f| f.inode).filter(|&ino| ino != 0);
    live.into_iter().find_map(|ino| {
        let mut extents = fs.inodes[ino].extents.iter();
        let of = |e: &&crate::extents::Extent| {
            (u64::from(e.block)..u64::from(e.block + e.len)).contains(&block)
        };
        let e = extents.find(of)?;
        Some((ino, u64::from(e.logical) + block - u64::from(e.block)))
    })
}

impl Fs {
    fn committing_ordered(&self) -> Vec<u32> {
        match &self.log {
            Log::Jbd2(j) => j.committing_ordered(),
            _ => Vec::new(),
        }
    }
    fn oldest_logged(&self) -> u64 {
        match &self.log {
            Log::Jbd2(j) => j.oldest_logged(),
            _ => 0,
        }
    }
}
