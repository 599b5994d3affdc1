//! The threads of a document store on a B-tree whose pages are never overwritten in place: clients,
//! the journal's flush, checkpoints, eviction (MongoDB 3.4 on WiredTiger 2.9, `src/evict`,
//! `src/txn/txn_ckpt.c`, `src/block`).

use crate::config::{AppConfig, BtreeConfig, Mix};
use crate::lru::Lru;
use crate::ops::Report;
use crate::shell::{Model, Shell, Step, Then, ThreadId};
use crate::space::{Extent, Space};
use crate::ycsb::{Latest, Scrambled, fnv64};
use std::collections::{BTreeMap, VecDeque};
use wordline_base::{BadValue, BitMap, IdVec, Rng, SECTOR, Seed, Span, Time};

const READ: usize = 0;
const UPDATE: usize = 1;
const INSERT: usize = 2;
const READ_MODIFY_WRITE: usize = 3;
const SCAN: usize = 4;
/// Records of a scan at most, each number as often (YCSB: maxscanlength, scanlengthdistribution).
const LONGEST_SCAN: u32 = 100;
/// Not on the drive yet.
const NOWHERE: u32 = u32::MAX;
/// The oldest pages that eviction looks through for one it can drop (WT_EVICT_WALK_PER_FILE is 10
/// a file and 300 in all: the order of that).
const WALK: usize = 64;
/// Pages that a checkpoint reconciles before others get the core.
const SLICE: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Read,
    Update,
    Insert,
    ReadModifyWrite,
    Scan,
}

/// Where an operation stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// These pages are still to be had, the last first.
    Pages,
    /// The read of a read-modify-write is done.
    Modify,
    /// For the journal, to have it up to here.
    Journal(u64),
}

#[derive(Clone, Debug)]
struct Op {
    kind: Kind,
    begun: Time,
    /// When its last part began.
    part: Time,
    pages: Vec<u32>,
    /// A page whose read is under way.
    reading: Option<u32>,
    phase: Phase,
    record: u64,
}

#[derive(Clone, Debug)]
enum Checkpoint {
    /// Until then.
    Sleeping(Time),
    /// These pages.
    Writing(Vec<u32>),
    /// Data are on the drive; the root follows.
    Root,
}

#[derive(Clone, Debug)]
enum Role {
    Client(Option<Op>),
    /// The next flush, and what one under way brings to the drive.
    Journal {
        at: Time,
        upto: Option<u64>,
    },
    Checkpoint(Checkpoint),
    /// The page it writes.
    Eviction(Option<u32>),
}

#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    cache_asked: u64,
    cache_hits: u64,
    evicted_clean: u64,
    evicted_dirty: u64,
    checkpoints: u64,
    checkpoint_pages: u64,
    checkpoint_internal: u64,
    checkpoint_time: Span,
    journal_flushes: u64,
    journal_sectors: u64,
    waits: u64,
    waited: Span,
}

/// A B-tree with a cache, checkpoints and a journal as a program.
#[derive(Debug)]
pub struct Btree {
    /// Its settings.
    c: BtreeConfig,
    /// What each thread is.
    roles: IdVec<ThreadId, Role>,
    /// Draws keys and operations.
    rng: Rng,
    /// Draws keys by Zipf's law.
    zipfian: Scrambled,
    /// Draws keys, the newest most often.
    latest: Latest,
    /// Records so far.
    records: u64,
    /// Leaves of the collection, then of the index, then internal pages of either, and the root.
    leaves: u32,
    /// Leaves of the index.
    index_leaves: u32,
    /// The first sector of every page.
    place: IdVec<u32, u32>,
    /// Leaves for records yet to come follow all others.
    space: Space,
    /// Old places that the last checkpoint, or the one being written, may need.
    retired: Vec<Extent>,
    /// Old places that are free once the checkpoint being written is complete.
    retiring: Vec<Extent>,
    /// Pages in memory.
    cache: Lru,
    /// Their bytes.
    cached_bytes: u64,
    /// Pages in memory that are newer than on the drive.
    dirty: BitMap,
    /// Their bytes.
    dirty_bytes: u64,
    /// Pages whose writes are under way, and how many.
    writing: BTreeMap<u32, u32>,
    /// Pages whose place is younger than the last checkpoint: none needs it.
    fresh: BitMap,
    /// Pages that a client reads, and the clients that wait for them (WT_REF_READING).
    reading: BTreeMap<u32, Vec<u32>>,
    /// Where the walk for dirty pages goes on.
    walk: usize,
    /// Clients that wait for room in the cache, and since when.
    waiting: VecDeque<(u32, Time)>,
    /// The journal's part of the drive.
    journal: Extent,
    /// Bytes written to it.
    journal_end: u64,
    /// Bytes of it that are durable.
    journal_synced: u64,
    /// Clients that wait for the journal.
    unsynced: VecDeque<u32>,
    /// When the last checkpoint began.
    checkpoint_begun: Time,
    /// Counts since the start.
    stats: Stats,
}

impl Btree {
    pub(crate) fn new(
        app: &AppConfig,
        c: &BtreeConfig,
        sectors: u64,
        seed: Seed,
    ) -> Result<(Shell, Btree), BadValue> {
        let kinds = ["read", "update", "insert", "read-modify-write", "scan"];
        let mut shell = Shell::new(app, &kinds, (c.page_cache, c.cost.cached), sectors);
        let mut roles: IdVec<ThreadId, Role> = IdVec::new();
        for _ in 0..c.clients {
            shell.add("clients", 1, true);
            roles.push(Role::Client(None));
        }
        shell.add("journal", 1, false);
        roles.push(Role::Journal { at: Time::ZERO + c.journal_commit, upto: None });
        shell.add("checkpoint", c.depth, false);
        roles.push(Role::Checkpoint(Checkpoint::Sleeping(Time::ZERO + c.checkpoint)));
        for _ in 0..c.eviction_threads {
            shell.add("eviction", 1, false);
            roles.push(Role::Eviction(None));
        }
        let per_leaf = u64::from(c.leaf_bytes / c.record_bytes);
        let per_index = u64::from(c.index_leaf_bytes / c.index_entry_bytes);
        let leaves = c.records.div_ceil(per_leaf) as u32;
        let index_leaves = c.records.div_ceil(per_index) as u32;
        let internal = leaves.div_ceil(c.fanout) + index_leaves.div_ceil(c.fanout) + 1;
        let mut btree = Btree {
            roles,
            rng: seed.stream("app/operations"),
            zipfian: Scrambled::new(c.theta),
            latest: Latest::new(c.records, c.theta),
            records: c.records,
            leaves,
            index_leaves,
            place: IdVec::new(),
            space: Space::new(sectors.min(u64::from(NOWHERE))),
            retired: Vec::new(),
            retiring: Vec::new(),
            writing: BTreeMap::new(),
            fresh: BitMap::new(0),
            reading: BTreeMap::new(),
            // By bytes, not by pages: see `room`.
            cache: Lru::new(usize::MAX),
            cached_bytes: 0,
            dirty: BitMap::new(0),
            dirty_bytes: 0,
            walk: 0,
            waiting: VecDeque::new(),
            journal: Extent { at: 0, sectors: 0 },
            journal_end: 0,
            journal_synced: 0,
            unsynced: VecDeque::new(),
            checkpoint_begun: Time::ZERO,
            stats: Stats::default(),
            c: c.clone(),
        };
        btree.load(internal).ok_or_else(|| {
            let message = format!(
                "leaves {:.1} GB, which do not hold {} records: use fewer app.btree.records, or a \
                 larger drive or part of it",
                (sectors * SECTOR) as f64 / 1e9,
                c.records
            );
            BadValue::new("size", message)
        })?;
        if c.warm {
            btree.warm(&mut shell, seed);
        }
        Ok((shell, btree))
    }

    /// The files as a load and a checkpoint leave them: pages in order, the journal before them.
    fn load(&mut self, internal: u32) -> Option<()> {
        self.journal = self.space.take(self.c.journal_bytes / SECTOR)?;
        let pages = self.leaves + self.index_leaves + internal;
        self.place = IdVec::filled(NOWHERE, pages);
        for page in 0..pages {
            self.place[page] = self.space.take(self.sectors_of(page))?.at as u32;
        }
        self.dirty = BitMap::new(2 * pages as usize + 1024);
        self.fresh = self.dirty.clone();
        Some(())
    }

    // Pages.

    fn internal_from(&self) -> u32 {
        self.leaves + self.index_leaves
    }
    /// Pages made since the load.
    fn is_new(&self, page: u32) -> bool {
        page as usize >= self.loaded_pages()
    }
    fn loaded_pages(&self) -> usize {
        let (l, i, f) = (self.leaves, self.index_leaves, self.c.fanout);
        (l + i + l.div_ceil(f) + i.div_ceil(f) + 1) as usize
    }
    fn bytes_of(&self, page: u32) -> u64 {
        if page < self.leaves || self.is_new(page) {
            self.c.leaf_bytes.into()
        } else if page < self.internal_from() {
            self.c.index_leaf_bytes.into()
        } else {
            SECTOR
        }
    }
    fn sectors_of(&self, page: u32) -> u64 {
        self.bytes_of(page) / SECTOR
    }
    fn extent(&self, page: u32) -> Option<Extent> {
        let at = self.place[page];
        (at != NOWHERE).then(|| Extent { at: at.into(), sectors: self.sectors_of(page) })
    }
    /// The internal page above a leaf. Those made since the load hang below the last one.
    fn parent(&self, page: u32) -> u32 {
        let f = self.c.fanout;
        let of_collection = self.leaves.div_ceil(f);
        if self.is_new(page) {
            self.internal_from() + of_collection - 1
        } else if page < self.leaves {
            self.internal_from() + page / f
        } else {
            self.internal_from() + of_collection + (page - self.leaves) / f
        }
    }

    fn leaf_of(&mut self, record: u64) -> u32 {
        let leaf = record / u64::from(self.c.leaf_bytes / self.c.record_bytes);
        if leaf < u64::from(self.leaves) {
            return leaf as u32;
        }
        let page = self.loaded_pages() + (leaf - u64::from(self.leaves)) as usize;
        while self.place.len() <= page {
            self.place.push(NOWHERE);
        }
        if self.dirty.len() <= page {
            self.dirty = larger(&self.dirty, 2 * page);
            self.fresh = larger(&self.fresh, 2 * page);
        }
        page as u32
    }
    /// Keys are hashes: in the index every record is anywhere.
    fn index_of(&self, record: u64) -> u32 {
        self.index_page((u128::from(fnv64(record)) * u128::from(self.index_leaves)) >> 63)
    }
    fn index_page(&self, slot: u128) -> u32 {
        self.leaves + (slot as u32).min(self.index_leaves - 1)
    }

    /// What a scan of so many records from one on asks for, the last first: pages of the index in order, and of each
    /// record its leaf. Keys are hashes, so that the next in the index is any record: a hash of its place there says
    /// which.
    fn scanned(&mut self, from: u64, records: u32) -> Vec<u32> {
        let all = u128::from(self.records);
        let rank = ((u128::from(fnv64(from)) * all) >> 63) as u64;
        let mut pages = vec![self.index_of(from), self.leaf_of(from)];
        let mut index = pages[0];
        for next in (rank + 1..self.records).take(records as usize - 1) {
            let page = self.index_page(u128::from(next) * u128::from(self.index_leaves) / all);
            if page > index {
                index = page;
                pages.push(page);
            }
            pages.push(self.leaf_of(fnv64(!next) % self.records));
        }
        pages.reverse();
        pages
    }

    // The cache.

    fn share(&self, percent: u32) -> u64 {
        self.c.cache / 100 * u64::from(percent)
    }
    fn add(&mut self, page: u32) {
        if self.cache.insert(page.into()) {
            self.cached_bytes += self.bytes_of(page);
        }
    }
    fn drop_page(&mut self, page: u32) {
        debug_assert!(self.may_drop(page), "a dirty page is written before it goes");
        if self.cache.remove(page.into()) {
            self.cached_bytes -= self.bytes_of(page);
        }
    }
    fn may_drop(&self, page: u32) -> bool {
        !self.dirty.get(page as usize) && !self.writing.contains_key(&page)
    }
    /// A clean page among the oldest.
    fn droppable(&self) -> Option<u32> {
        let pages = self.cache.by_age().take(WALK).map(|p| p as u32);
        pages.into_iter().find(|&p| self.may_drop(p))
    }
    fn make_room(&mut self) {
        while self.cached_bytes > self.share(self.c.eviction_target) {
            let Some(page) = self.droppable() else { return };
            self.drop_page(page);
            self.stats.evicted_clean += 1;
        }
    }
    fn needs_eviction(&self) -> bool {
        self.cached_bytes > self.share(self.c.eviction_target)
            || self.dirty_bytes > self.share(self.c.dirty_target)
    }
    /// Clients wait: the cache is full, or full of dirty pages.
    fn is_stuck(&self) -> bool {
        self.cached_bytes >= self.share(self.c.eviction_trigger)
            || self.dirty_bytes >= self.share(self.c.dirty_trigger)
    }
    fn soil(&mut self, shell: &mut Shell, page: u32) {
        self.add(page);
        if self.dirty.set(page as usize) {
            self.dirty_bytes += self.bytes_of(page);
        }
        if self.needs_eviction() {
            shell.wake_all(|w| w.shape.name == "eviction");
        }
    }
    fn clean(&mut self, page: u32) {
        if self.dirty.clear(page as usize) {
            self.dirty_bytes -= self.bytes_of(page);
        }
    }

    /// A clean image of the page goes to a new place.
    fn write_page(&mut self, shell: &mut Shell, t: u32, page: u32) -> Option<Extent> {
        let new = self.relocate(shell, page)?;
        self.clean(page);
        *self.writing.entry(page).or_default() += 1;
        shell.push(t, Step::Compute(self.c.cost.page_write));
        shell.put_pages(t, new);
        Some(new)
    }
    fn written(&mut self, page: u32) {
        if let Some(n) = self.writing.get_mut(&page) {
            *n -= 1;
            if *n == 0 {
                self.writing.remove(&page);
            }
        }
    }

    /// A new place for a page; its old one is kept for the last checkpoint.
    fn relocate(&mut self, shell: &mut Shell, page: u32) -> Option<Extent> {
        let Some(new) = self.space.take(self.sectors_of(page)) else {
            shell.fail(format!(
                "no room for a page beside the {:.1} GB in use: give the program more of the drive \
                 (app.size), or fewer records (app.btree.records)",
                (self.space.used() * SECTOR) as f64 / 1e9
            ));
            return None;
        };
        if let Some(old) = self.extent(page) {
            let needed = !self.fresh.get(page as usize) || self.writing.contains_key(&page);
            if needed {
                self.retired.push(old);
            } else {
                self.space.give(old);
            }
        }
        self.fresh.set(page as usize);
        self.place[page] = new.at as u32;
        Some(new)
    }

    /// What the distribution has left in both caches, without time.
    fn warm(&mut self, shell: &mut Shell, seed: Seed) {
        let mut rng = seed.stream("app/warm");
        let pages = self.share(self.c.eviction_target) / u64::from(self.c.leaf_bytes)
            + shell.page_cache.capacity() as u64 / (u64::from(self.c.leaf_bytes) / SECTOR);
        // Caches that hold the whole tree many times over are as warm as they get.
        let pages = pages.min(16 * self.place.len() as u64);
        for _ in 0..3 * pages {
            let record = self.choose(&mut rng);
            for page in [self.index_of(record), self.leaf_of(record)] {
                if self.cache.touch(page.into()) {
                    continue;
                }
                if let Some(extent) = self.extent(page) {
                    (extent.at..extent.at + extent.sectors).for_each(|s| shell.page_cache.put(s));
                }
                self.add(page);
                self.make_room();
            }
        }
        self.stats = Stats::default();
    }

    fn choose(&self, rng: &mut Rng) -> u64 {
        match self.c.mix {
            Mix::D => self.latest.draw(rng, self.records),
            _ => self.zipfian.draw(rng, self.records),
        }
    }

    // Threads.

    fn client(&mut self, shell: &mut Shell, t: u32, op: Option<Op>, now: Time) -> Then {
        let Some(mut op) = op else { return self.begin(shell, t, now) };
        if let Some(page) = op.reading.take() {
            self.add(page);
            self.make_room();
            self.reading.remove(&page).into_iter().flatten().for_each(|c| shell.wake(c));
        }
        let then = match op.phase {
            Phase::Pages => self.go_down(shell, t, &mut op, now),
            Phase::Modify => {
                shell.ops.measured(READ, op.part, now);
                op.part = now;
                shell.push(t, Step::Compute(self.c.cost.op));
                self.modify(shell, &mut op);
                Then::Go
            }
            Phase::Journal(upto) if upto > self.journal_synced && self.c.journaled => {
                self.unsynced.push_back(t);
                Then::Wait
            }
            Phase::Journal(_) => {
                self.finish(shell, t, &op, now);
                return Then::Go;
            }
        };
        self.roles[t] = Role::Client(Some(op));
        then
    }

    fn begin(&mut self, shell: &mut Shell, t: u32, now: Time) -> Then {
        if !shell.may_begin(now) {
            return Then::End;
        }
        shell.begin(t);
        let mut rng = self.rng.clone();
        let percent = rng.below(100);
        let kind = match self.c.mix {
            Mix::A if percent < 50 => Kind::Update,
            Mix::B if percent < 5 => Kind::Update,
            Mix::D | Mix::E if percent < 5 => Kind::Insert,
            Mix::E => Kind::Scan,
            Mix::F if percent < 50 => Kind::ReadModifyWrite,
            _ => Kind::Read,
        };
        let record = if kind == Kind::Insert { self.records } else { self.choose(&mut rng) };
        let scanned = match kind {
            Kind::Scan => 1 + rng.below(u64::from(LONGEST_SCAN)) as u32,
            _ => 1,
        };
        self.rng = rng;
        if kind == Kind::Insert {
            self.records += 1;
        }
        shell.push(t, Step::Compute(self.c.cost.op));
        let pages = match kind {
            Kind::Scan => self.scanned(record, scanned),
            _ => vec![self.leaf_of(record), self.index_of(record)],
        };
        let op =
            Op { kind, begun: now, part: now, pages, reading: None, phase: Phase::Pages, record };
        self.roles[t] = Role::Client(Some(op));
        Then::Go
    }

    /// The next page of an operation: from the cache, the page cache or the drive.
    fn go_down(&mut self, shell: &mut Shell, t: u32, op: &mut Op, now: Time) -> Then {
        let Some(&page) = op.pages.last() else {
            match op.kind {
                Kind::Read | Kind::Scan => op.phase = Phase::Journal(0),
                Kind::ReadModifyWrite => op.phase = Phase::Modify,
                Kind::Update | Kind::Insert => self.modify(shell, op),
            }
            return Then::Go;
        };
        if self.is_stuck() {
            // cache_eviction_worker: application threads wait for room before they ask for more.
            self.stats.waits += 1;
            self.waiting.push_back((t, now));
            shell.wake_all(|w| w.shape.name == "eviction");
            return Then::Wait;
        }
        if let Some(waiting) = self.reading.get_mut(&page) {
            waiting.push(t);
            return Then::Wait;
        }
        op.pages.pop();
        shell.push(t, Step::Compute(self.c.cost.search));
        self.stats.cache_asked += 1;
        if self.cache.touch(page.into()) {
            self.stats.cache_hits += 1;
            return Then::Go;
        }
        let Some(extent) = self.extent(page) else {
            // A new leaf is made in the cache.
            self.add(page);
            return Then::Go;
        };
        shell.push(t, Step::Fetch(extent));
        shell.push(t, Step::Compute(self.c.cost.page_read));
        op.reading = Some(page);
        self.reading.insert(page, Vec::new());
        Then::Go
    }

    /// The change in memory and in the journal's buffer.
    fn modify(&mut self, shell: &mut Shell, op: &mut Op) {
        let leaf = self.leaf_of(op.record);
        self.soil(shell, leaf);
        if op.kind == Kind::Insert {
            let index = self.index_of(op.record);
            self.soil(shell, index);
        }
        self.journal_end += u64::from(self.c.record_bytes);
        op.phase = Phase::Journal(self.journal_end);
    }

    fn finish(&mut self, shell: &mut Shell, t: u32, op: &Op, now: Time) {
        let kind = match op.kind {
            Kind::Read => READ,
            Kind::Update => UPDATE,
            Kind::Insert => INSERT,
            Kind::Scan => SCAN,
            Kind::ReadModifyWrite => {
                shell.ops.measured(UPDATE, op.part, now);
                READ_MODIFY_WRITE
            }
        };
        shell.finish(t, kind, op.begun, op.begun, now);
    }

    /// JournalFlusher: what was appended since, every period, and a flush.
    fn journal_thread(
        &mut self,
        shell: &mut Shell,
        t: u32,
        at: Time,
        upto: Option<u64>,
        now: Time,
    ) -> Then {
        if let Some(upto) = upto {
            self.journal_synced = upto;
            self.unsynced.drain(..).for_each(|client| shell.wake(client));
        }
        let next = at.max(now);
        if next > now || self.journal_end == self.journal_synced {
            let next = if next > now { next } else { now + self.c.journal_commit };
            self.roles[t] = Role::Journal { at: next, upto: None };
            shell.push(t, Step::Sleep(next));
            return Then::Go;
        }
        let upto = self.journal_end;
        // Whole pages, the last one again next time; a file's end is the next one's beginning.
        let (from, to) = (self.journal_synced / SECTOR, upto.div_ceil(SECTOR));
        self.stats.journal_flushes += 1;
        self.stats.journal_sectors += to - from;
        let (mut from, size) = (from, self.journal.sectors);
        while from < to {
            let sectors = (to - from).min(size - from % size);
            let extent = Extent { at: self.journal.at + from % size, sectors };
            shell.push_writes(t, extent, self.c.write_bytes / SECTOR);
            from += sectors;
        }
        shell.push(t, Step::Flush);
        self.roles[t] = Role::Journal { at: now + self.c.journal_commit, upto: Some(upto) };
        Then::Go
    }

    fn checkpoint_thread(
        &mut self,
        shell: &mut Shell,
        t: u32,
        stage: Checkpoint,
        now: Time,
    ) -> Then {
        let next = match stage {
            Checkpoint::Sleeping(at) if at > now => {
                shell.push(t, Step::Sleep(at));
                Checkpoint::Sleeping(at)
            }
            Checkpoint::Sleeping(_) => {
                self.checkpoint_begun = now;
                let Some(pages) = self.write_dirty(shell, t) else { return Then::End };
                self.let_on(shell, now);
                Checkpoint::Writing(pages)
            }
            Checkpoint::Writing(pages) => {
                pages.into_iter().for_each(|page| self.written(page));
                self.make_room();
                self.let_on(shell, now);
                // The root of the files, in the metadata and in the turtle file.
                let root = self.loaded_pages() as u32 - 1;
                let Some(extent) = self.relocate(shell, root) else { return Then::End };
                shell.push(t, Step::Write(extent));
                shell.push(t, Step::Drain);
                shell.push(t, Step::Flush);
                shell.push(t, Step::Drain);
                Checkpoint::Root
            }
            Checkpoint::Root => {
                self.stats.checkpoints += 1;
                self.stats.checkpoint_time += now.since(self.checkpoint_begun);
                for extent in std::mem::take(&mut self.retiring) {
                    self.space.give(extent);
                }
                Checkpoint::Sleeping(now + self.c.checkpoint)
            }
        };
        self.roles[t] = Role::Checkpoint(next);
        Then::Go
    }

    /// All dirty pages in the order of the tree, and the internal pages above them, each to a new
    /// place. Reconciled first, then written with the sync of the file. None: there is no room.
    fn write_dirty(&mut self, shell: &mut Shell, t: u32) -> Option<Vec<u32>> {
        let mut pages = Vec::new();
        let mut at = 0;
        while let Some(page) = self.dirty.next_set(at) {
            pages.push(page as u32);
            at = page + 1;
        }
        let mut parents: Vec<u32> = pages.iter().map(|&p| self.parent(p)).collect();
        parents.sort_unstable();
        parents.dedup();
        self.stats.checkpoint_pages += pages.len() as u64;
        self.stats.checkpoint_internal += parents.len() as u64;
        pages.extend(parents);
        let mut extents: Vec<Extent> = Vec::new();
        for (i, &page) in pages.iter().enumerate() {
            let new = self.write_page(shell, t, page)?;
            match extents.last_mut() {
                Some(last) if last.at + last.sectors == new.at => last.sectors += new.sectors,
                _ => extents.push(new),
            }
            if i % SLICE == SLICE - 1 {
                shell.push(t, Step::Drain);
            }
        }
        // What eviction replaces from here on, this checkpoint needs.
        self.retiring.append(&mut self.retired);
        self.fresh = BitMap::new(self.fresh.len());
        for extent in extents {
            shell.push_writes(t, extent, self.c.write_bytes / SECTOR);
        }
        shell.push(t, Step::Drain);
        shell.push(t, Step::Flush);
        shell.push(t, Step::Drain);
        Some(pages)
    }

    /// Clients that waited for room go on once there is some.
    fn let_on(&mut self, shell: &mut Shell, now: Time) {
        if self.is_stuck() {
            return;
        }
        for (client, since) in self.waiting.drain(..) {
            self.stats.waited += now.since(since);
            shell.wake(client);
        }
    }

    fn eviction_thread(
        &mut self,
        shell: &mut Shell,
        t: u32,
        evicted: Option<u32>,
        now: Time,
    ) -> Then {
        if let Some(page) = evicted {
            self.written(page);
            if self.may_drop(page) {
                self.drop_page(page);
            }
            self.stats.evicted_dirty += 1;
        }
        self.make_room();
        self.let_on(shell, now);
        if !self.needs_eviction() {
            return Then::Wait;
        }
        let Some(page) = self.next_dirty() else { return Then::Wait };
        let Some(new) = self.write_page(shell, t, page) else { return Then::End };
        shell.push(t, Step::Write(new));
        self.roles[t] = Role::Eviction(Some(page));
        Then::Go
    }
    /// Eviction walks the trees in order, from where it was.
    fn next_dirty(&mut self) -> Option<u32> {
        let page = self.dirty.next_set(self.walk).or_else(|| self.dirty.next_set(0))?;
        self.walk = page + 1;
        Some(page as u32)
    }
}

impl Model for Btree {
    fn resume(&mut self, shell: &mut Shell, t: u32, now: Time) -> Then {
        match &mut self.roles[t] {
            Role::Client(op) => {
                let op = op.take();
                self.client(shell, t, op, now)
            }
            &mut Role::Journal { at, upto } => self.journal_thread(shell, t, at, upto, now),
            Role::Checkpoint(stage) => {
                let stage = stage.clone();
                self.checkpoint_thread(shell, t, stage, now)
            }
            Role::Eviction(evicted) => {
                let evicted = evicted.take();
                self.eviction_thread(shell, t, evicted, now)
            }
        }
    }

    fn layout(&self) -> Vec<Extent> {
        let mut all: Vec<Extent> = vec![self.journal];
        all.extend((0..self.place.count()).filter_map(|page| self.extent(page)));
        // Neighbours as one.
        let mut runs: Vec<Extent> = Vec::new();
        for extent in all {
            match runs.last_mut() {
                Some(last) if last.at + last.sectors == extent.at => last.sectors += extent.sectors,
                _ => runs.push(extent),
            }
        }
        runs
    }

    fn report(&self, report: &mut Report) {
        let s = &self.stats;
        report.counters.extend([
            ("cache_asked", s.cache_asked),
            ("cache_hits", s.cache_hits),
            ("evicted_clean", s.evicted_clean),
            ("evicted_dirty", s.evicted_dirty),
            ("cache_waits", s.waits),
            ("checkpoints", s.checkpoints),
            ("checkpoint_pages", s.checkpoint_pages),
            ("checkpoint_internal_pages", s.checkpoint_internal),
            ("journal_flushes", s.journal_flushes),
            ("journal_bytes", s.journal_sectors * SECTOR),
            ("dirty_bytes", self.dirty_bytes),
            ("cached_bytes", self.cached_bytes),
            ("used_bytes", self.space.used() * SECTOR),
            ("records", self.records),
        ]);
        report.figures.extend([
            ("cache_wait_s", s.waited.as_secs_f64()),
            ("checkpoint_s", s.checkpoint_time.as_secs_f64()),
        ]);
    }

    fn check(&self) {
        let mut held: Vec<Extent> = self.retired.iter().chain(&self.retiring).copied().collect();
        held.push(self.journal);
        held.extend((0..self.place.count()).filter_map(|page| self.extent(page)));
        held.sort();
        for pair in held.windows(2) {
            assert!(pair[0].at + pair[0].sectors <= pair[1].at, "pages share sectors: {pair:?}");
        }
        let sectors: u64 = held.iter().map(|e| e.sectors).sum();
        assert_eq!(sectors, self.space.used(), "sectors of pages are those in use");
        let cached: u64 = self.cache.by_age().map(|p| self.bytes_of(p as u32)).sum();
        assert_eq!(cached, self.cached_bytes);
        let dirty: Vec<u32> =
            (0..self.place.len()).filter(|&p| self.dirty.get(p)).map(|p| p as u32).collect();
        assert_eq!(dirty.iter().map(|&p| self.bytes_of(p)).sum::<u64>(), self.dirty_bytes);
        assert!(dirty.iter().all(|&p| self.cache.contains(p.into())), "dirty pages are cached");
    }
}

fn larger(map: &BitMap, len: usize) -> BitMap {
    let mut larger = BitMap::new(len);
    let mut at = 0;
    while let Some(i) = map.next_set(at) {
        larger.set(i);
        at = i + 1;
    }
    larger
}
