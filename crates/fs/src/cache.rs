//! The page cache: 4 KiB pages of files and of metadata by inode and index, on the active and
//! inactive lists of mm/vmscan.c, with what is dirty and under write-back kept in order.
//!
//! A page is on exactly one list. `dirty` holds exactly the keys of pages with `dirty` set, `writing` those
//! under write-back, `reading` those not yet read. A page written to while it is under write-back is dirty
//! and writing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use wordline_base::IdVec;

/// Inode and page index: pages of a file follow one another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key(u64);

/// The file of all metadata: its pages are the drive's blocks.
pub const META: u32 = 0;

impl Key {
    pub fn new(inode: u32, page: u64) -> Key {
        debug_assert!(page < 1 << 32, "page {page} of inode {inode}");
        Key(u64::from(inode) << 32 | page)
    }
    pub fn inode(self) -> u32 {
        (self.0 >> 32) as u32
    }
    pub fn page(self) -> u64 {
        self.0 & 0xFFFF_FFFF
    }
}

fn pages_of(inode: u32, first: u64, last: u64) -> RangeInclusive<Key> {
    Key::new(inode, first)..=Key::new(inode, last.min(0xFFFF_FFFF))
}

const NIL: u32 = u32::MAX;

/// A page of memory.
type PageId = u32;

/// The order in which clean pages became dirty.
pub type Dirtied = u64;
/// Dirty since whenever.
pub const ANY: Dirtied = Dirtied::MAX;

#[derive(Clone, Copy, Debug)]
pub struct Page {
    pub key: Key,
    /// Read in, or written whole. Until then a read of it is under way.
    uptodate: bool,
    /// Newer than on the drive.
    dirty: bool,
    /// Under write-back.
    writing: bool,
    /// Metadata held by a transaction that is not yet in the log.
    pinned: bool,
    /// It is promised a block and has none yet (BH_Delay).
    delayed: bool,
    /// The read-ahead mark (PG_readahead).
    pub mark: bool,
    /// Used since it was looked at last (PG_referenced).
    referenced: bool,
    /// On the active list (PG_active).
    active: bool,
    /// Reclaim found it dirty or under write-back: it goes when it is clean (PG_reclaim).
    reclaim: bool,
    /// What the page holds: the stamp of its newest write.
    pub stamp: u32,
    /// The next newer page on its list.
    before: u32,
    /// The next older page on its list.
    after: u32,
}

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
    len: u64,
}

#[derive(Debug)]
pub struct Cache {
    pages: IdVec<PageId, Page>,
    free: Vec<u32>,
    by_key: BTreeMap<Key, u32>,
    /// Inactive, active; the newest at the head.
    lists: [List; 2],
    /// Pages newer than on the drive, by when they became so.
    dirty: BTreeMap<Key, Dirtied>,
    /// Of the page that became so last.
    dirtied: Dirtied,
    /// Pages under write-back.
    writing: BTreeSet<Key>,
    /// Pages not yet read.
    reading: BTreeSet<Key>,
    /// Pages that are not there, as the last read of them failed (PG_error).
    failed: BTreeSet<Key>,
    /// Pages held by transactions.
    pinned: u64,
    /// Pages that are promised a block.
    delayed: u64,
    /// Most pages.
    limit: u64,
}

impl Page {
    pub fn is_uptodate(&self) -> bool {
        self.uptodate
    }
}

impl Cache {
    /// A cache of `limit` pages.
    pub fn new(limit: u64) -> Cache {
        let list = List { head: NIL, tail: NIL, len: 0 };
        Cache {
            pages: IdVec::new(),
            free: Vec::new(),
            by_key: BTreeMap::new(),
            lists: [list; 2],
            dirty: BTreeMap::new(),
            dirtied: 0,
            writing: BTreeSet::new(),
            reading: BTreeSet::new(),
            failed: BTreeSet::new(),
            pinned: 0,
            delayed: 0,
            limit,
        }
    }
    pub fn len(&self) -> u64 {
        self.by_key.len() as u64
    }
    pub fn limit(&self) -> u64 {
        self.limit
    }
    #[cfg(test)]
    pub fn active(&self) -> u64 {
        self.lists[1].len
    }
    pub fn dirty(&self) -> u64 {
        self.dirty.len() as u64
    }
    pub fn writing(&self) -> u64 {
        self.writing.len() as u64
    }
    pub fn get(&self, key: Key) -> Option<&Page> {
        self.by_key.get(&key).map(|&p| &self.pages[p])
    }
    pub fn get_mut(&mut self, key: Key) -> Option<&mut Page> {
        self.by_key.get(&key).map(|&p| &mut self.pages[p])
    }
    pub fn is_uptodate(&self, key: Key) -> bool {
        self.get(key).is_some_and(|p| p.uptodate)
    }

    /// A page that was not there, at the head of the inactive list.
    pub fn insert(&mut self, key: Key, uptodate: bool) {
        let page = Page {
            key,
            uptodate,
            dirty: false,
            writing: false,
            pinned: false,
            delayed: false,
            mark: false,
            referenced: false,
            active: false,
            reclaim: false,
            stamp: 0,
            before: NIL,
            after: NIL,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.pages[slot] = page;
                slot
            }
            None => {
                self.pages.push(page);
                self.pages.count() - 1
            }
        };
        let had = self.by_key.insert(key, slot);
        debug_assert!(had.is_none(), "{key:?} is cached already");
        self.failed.remove(&key);
        if !uptodate {
            self.reading.insert(key);
        }
        self.push_front(slot);
    }

    fn push_front(&mut self, slot: u32) {
        let list = &mut self.lists[usize::from(self.pages[slot].active)];
        let head = list.head;
        list.head = slot;
        list.len += 1;
        if head == NIL {
            list.tail = slot;
        } else {
            self.pages[head].before = slot;
        }
        let page = &mut self.pages[slot];
        (page.before, page.after) = (NIL, head);
    }

    fn push_back(&mut self, slot: u32) {
        let list = &mut self.lists[usize::from(self.pages[slot].active)];
        let tail = list.tail;
        list.tail = slot;
        list.len += 1;
        if tail == NIL {
            list.head = slot;
        } else {
            self.pages[tail].after = slot;
        }
        let page = &mut self.pages[slot];
        (page.before, page.after) = (tail, NIL);
    }

    fn unlink(&mut self, slot: u32) {
        let Page { before, after, active, .. } = self.pages[slot];
        let list = &mut self.lists[usize::from(active)];
        list.len -= 1;
        if before == NIL {
            list.head = after;
        } else {
            self.pages[before].after = after;
        }
        let list = &mut self.lists[usize::from(active)];
        if after == NIL {
            list.tail = before;
        } else {
            self.pages[after].before = before;
        }
    }

    /// mark_page_accessed: the second access to an inactive page makes it active. Writes are none (Linux 4.7 and later).
    pub fn touch(&mut self, key: Key) {
        let Some(&slot) = self.by_key.get(&key) else { return };
        let page = &mut self.pages[slot];
        if !page.referenced {
            page.referenced = true;
        } else if !page.active {
            self.unlink(slot);
            let page = &mut self.pages[slot];
            (page.active, page.referenced) = (true, false);
            self.push_front(slot);
        }
    }

    /// A read of the page has ended, or it was written whole.
    pub fn set_uptodate(&mut self, key: Key) {
        if let Some(page) = self.get_mut(key)
            && !std::mem::replace(&mut page.uptodate, true)
        {
            self.reading.remove(&key);
        }
    }
    /// A read of the page failed: it is gone, unless it was written whole meanwhile.
    pub fn read_failed(&mut self, key: Key) {
        if self.reading.remove(&key) {
            self.take_out(key);
            self.failed.insert(key);
        }
    }
    pub fn has_failed(&self, key: Key) -> bool {
        self.failed.contains(&key)
    }
    pub fn pin(&mut self, key: Key) {
        if let Some(page) = self.get_mut(key)
            && !std::mem::replace(&mut page.pinned, true)
        {
            self.pinned += 1;
        }
    }
    pub fn unpin(&mut self, key: Key) {
        if let Some(page) = self.get_mut(key)
            && std::mem::replace(&mut page.pinned, false)
        {
            self.pinned -= 1;
        }
    }
    /// A page is promised a block. It is dirty as long as that is not chosen.
    pub fn promise(&mut self, key: Key) {
        if let Some(page) = self.get_mut(key)
            && !std::mem::replace(&mut page.delayed, true)
        {
            self.delayed += 1;
        }
    }
    /// The block is there, or will never be.
    pub fn end_promise(&mut self, key: Key) {
        if let Some(page) = self.get_mut(key)
            && std::mem::replace(&mut page.delayed, false)
        {
            self.delayed -= 1;
        }
    }
    pub fn is_promised(&self, key: Key) -> bool {
        self.get(key).is_some_and(|p| p.delayed)
    }
    /// Blocks that are promised to pages.
    pub fn promised(&self) -> u64 {
        self.delayed
    }
    /// Pages that are not there yet.
    pub fn reading(&self) -> u64 {
        self.reading.len() as u64
    }
    /// Pages that reclaim finds nothing to wait for at.
    pub fn idle(&self) -> u64 {
        self.len().saturating_sub(self.dirty() + self.writing() + self.pinned + self.reading())
    }

    /// True if the page was clean.
    pub fn set_dirty(&mut self, key: Key) -> bool {
        let Some(page) = self.get_mut(key) else { return false };
        debug_assert!(page.uptodate, "{key:?} is dirty and not read");
        let clean = !std::mem::replace(&mut page.dirty, true);
        page.reclaim = false;
        if clean {
            self.dirtied += 1;
            self.dirty.insert(key, self.dirtied);
        }
        clean
    }
    /// The pages that are dirty now, for a sync that leaves alone what becomes dirty after it has begun
    /// (tag_pages_for_writeback).
    pub fn tag(&self) -> Dirtied {
        self.dirtied
    }
    pub fn clear_dirty(&mut self, key: Key) -> bool {
        if let Some(page) = self.get_mut(key) {
            page.dirty = false;
        }
        self.dirty.remove(&key).is_some()
    }
    pub fn is_dirty(&self, key: Key) -> bool {
        self.dirty.contains_key(&key)
    }
    /// A dirty page is sent to the drive.
    pub fn begin_write(&mut self, key: Key) {
        if let Some(page) = self.get_mut(key) {
            (page.dirty, page.writing) = (false, true);
            self.dirty.remove(&key);
            self.writing.insert(key);
        }
    }
    pub fn end_write(&mut self, key: Key) {
        self.writing.remove(&key);
        let Some(&slot) = self.by_key.get(&key) else { return };
        let page = &mut self.pages[slot];
        page.writing = false;
        if std::mem::take(&mut page.reclaim) && !page.dirty {
            // rotate_reclaimable_page: the next that goes.
            self.unlink(slot);
            self.pages[slot].active = false;
            self.push_back(slot);
        }
    }
    pub fn is_writing(&self, inode: u32, first: u64, last: u64) -> bool {
        self.first_writing(inode, first, last).is_some()
    }
    pub fn first_writing(&self, inode: u32, first: u64, last: u64) -> Option<u64> {
        self.writing.range(pages_of(inode, first, last)).next().map(|k| k.page())
    }
    /// The first page of a range that is on its way to the drive or from it: what the kernel has to
    /// lock before it drops the page.
    pub fn first_busy(&self, inode: u32, first: u64, last: u64) -> Option<u64> {
        let range = || pages_of(inode, first, last);
        let key = [self.writing.range(range()).next(), self.reading.range(range()).next()];
        key.into_iter().flatten().min().map(|k| k.page())
    }
    pub fn is_full(&self) -> bool {
        self.len() >= self.limit
    }
    pub fn has_dirty(&self, inode: u32, first: u64, last: u64) -> bool {
        self.dirty.range(pages_of(inode, first, last)).next().is_some()
    }
    /// Dirty pages from a page on.
    pub fn dirty_from(&self, inode: u32, first: u64) -> impl Iterator<Item = u64> {
        self.dirty.range(pages_of(inode, first, u64::MAX)).map(|(k, _)| k.page())
    }
    /// The first dirty page that is not on its way already.
    pub fn writable(&self, inode: u32, first: u64) -> Option<u64> {
        let mut dirty = self.dirty.range(pages_of(inode, first, u64::MAX));
        dirty.find(|&(k, _)| !self.writing.contains(k)).map(|(k, _)| k.page())
    }
    /// Dirty pages of a range that were so at the tag.
    fn tagged(
        &self,
        inode: u32,
        first: u64,
        last: u64,
        tag: Dirtied,
    ) -> impl Iterator<Item = u64> + '_ {
        let range = (first <= last).then(|| self.dirty.range(pages_of(inode, first, last)));
        let tagged = move |&(_, &since): &(&Key, &Dirtied)| since <= tag;
        range.into_iter().flatten().filter(tagged).map(|(k, _)| k.page())
    }
    /// The first dirty page of a range that was so at the tag.
    pub fn first_dirty(&self, inode: u32, first: u64, last: u64, tag: Dirtied) -> Option<u64> {
        self.tagged(inode, first, last, tag).next()
    }
    /// How many pages from a dirty one on are dirty one after the other and were so at the tag, up to `most`.
    pub fn dirty_run(&self, inode: u32, start: u64, last: u64, most: u64, tag: Dirtied) -> u64 {
        let last = last.min(start.saturating_add(most.saturating_sub(1)));
        self.tagged(inode, start, last, tag)
            .zip(start..)
            .take_while(|(page, next)| page == next)
            .count() as u64
    }

    pub fn remove(&mut self, key: Key) {
        let in_use = |p: &Page| p.writing || p.pinned || !p.uptodate;
        debug_assert!(!self.get(key).is_some_and(in_use), "{key:?} is in use");
        self.take_out(key);
    }
    fn take_out(&mut self, key: Key) {
        self.end_promise(key);
        if let Some(slot) = self.by_key.remove(&key) {
            self.unlink(slot);
            self.dirty.remove(&key);
            self.free.push(slot);
        }
    }
    pub fn pages_from(&self, inode: u32, first: u64) -> Vec<Key> {
        self.by_key.range(pages_of(inode, first, u64::MAX)).map(|(&k, _)| k).collect()
    }
    /// invalidate_inode_pages2_range, posix_fadvise(POSIX_FADV_DONTNEED): what is clean and idle
    /// goes. `all` takes dirty pages too, as truncate does.
    pub fn drop_pages(&mut self, inode: u32, first: u64, last: u64, all: bool) -> u64 {
        let keys: Vec<Key> =
            self.by_key.range(pages_of(inode, first, last)).map(|(&k, _)| k).collect();
        if !self.failed.is_empty() {
            let range = pages_of(inode, first, last);
            self.failed.retain(|key| !range.contains(key));
        }
        let mut dropped = 0;
        for key in keys {
            let Some(page) = self.get(key) else { continue };
            let idle = page.uptodate && !page.writing && !page.pinned;
            if idle && (all || !page.dirty) {
                self.remove(key);
                dropped += 1;
            }
        }
        dropped
    }

    /// Makes room for `wanted` pages, as far as clean and idle pages go: from the tail of the
    /// inactive list, which the active one refills while it is too short. What is dirty, under
    /// write-back or held becomes active (shrink_page_list of Linux 4.11 and later): so the active list gives up
    /// pages as long as it has any that can go. It gives them up as well where all of the inactive one is being
    /// read. The pages freed, and whether there is room now.
    pub fn reclaim(&mut self, wanted: u64) -> (u64, bool) {
        let target = self.limit.saturating_sub(wanted);
        let most = self.len().saturating_sub(target).min(self.idle());
        let mut freed = 0;
        while freed < most {
            // All of the inactive list may be under read.
            let stuck = self.lists[0].len <= self.reading();
            if self.inactive_is_low() || stuck {
                let slot = self.lists[1].tail;
                self.unlink(slot);
                self.pages[slot].active = false;
                self.pages[slot].referenced = false;
                match stuck {
                    true => self.push_back(slot),
                    false => self.push_front(slot),
                }
                continue;
            }
            let slot = self.lists[0].tail;
            let page = self.pages[slot];
            if page.uptodate && !page.dirty && !page.writing && !page.pinned {
                self.remove(page.key);
                freed += 1;
                continue;
            }
            // A page that is being read is locked, and stays where it is.
            self.unlink(slot);
            self.pages[slot].reclaim = page.dirty || page.writing;
            self.pages[slot].active = page.uptodate;
            self.push_front(slot);
        }
        (freed, self.len() <= target)
    }

    /// inactive_list_is_low: the active list may be as many times as long as the square root of ten times the GiB
    /// of both.
    fn inactive_is_low(&self) -> bool {
        let [inactive, active] = self.lists.map(|list| list.len);
        let gib = (inactive + active) >> 18;
        inactive * (10 * gib).isqrt().max(1) < active
    }

    /// Checks the invariants.
    #[cfg(test)]
    pub fn check(&self) {
        let mut listed = 0;
        for (active, list) in self.lists.iter().enumerate() {
            let (mut at, mut n, mut before) = (list.head, 0, NIL);
            while at != NIL {
                let page = &self.pages[at];
                assert_eq!(usize::from(page.active), active);
                assert_eq!(page.before, before);
                assert_eq!(self.by_key.get(&page.key), Some(&at));
                assert_eq!(page.dirty, self.dirty.contains_key(&page.key));
                assert_eq!(page.writing, self.writing.contains(&page.key));
                (before, at, n) = (at, page.after, n + 1);
            }
            assert_eq!((list.tail, list.len), (before, n));
            listed += n;
        }
        assert_eq!(listed, self.len());
        let pinned = self.by_key.values().filter(|&&p| self.pages[p].pinned).count();
        assert_eq!(self.pinned, pinned as u64);
        let delayed = self.by_key.iter().filter(|&(_, &p)| self.pages[p].delayed);
        assert_eq!(self.delayed, delayed.clone().count() as u64);
        for (key, _) in delayed {
            assert!(self.dirty.contains_key(key), "{key:?} is promised a block and clean");
        }
        let reading = self.by_key.iter().filter(|&(_, &p)| !self.pages[p].uptodate);
        assert!(reading.map(|(k, _)| k).eq(&self.reading));
        for key in self.dirty.keys().chain(&self.writing) {
            assert!(self.by_key.contains_key(key), "{key:?} is dirty and not cached");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_page_used_twice_stays_longer() {
        let mut cache = Cache::new(8);
        for page in 0..8 {
            cache.insert(Key::new(1, page), true);
        }
        for _ in 0..2 {
            cache.touch(Key::new(1, 0));
        }
        for page in 8..12 {
            assert!(cache.reclaim(1).1);
            cache.insert(Key::new(1, page), true);
        }
        assert!(cache.is_uptodate(Key::new(1, 0)));
        assert!(!cache.is_uptodate(Key::new(1, 1)));
        cache.check();
    }

    /// inactive_list_is_low: one to one below a GiB, one to three from there on.
    #[test]
    fn the_active_list_may_be_the_longer_the_more_memory_there_is() {
        for (pages, shrinks) in [(4_000, true), ((1 << 18) + 100, false)] {
            let mut cache = Cache::new(pages);
            (0..pages).for_each(|page| cache.insert(Key::new(1, page), true));
            let active = pages * 7 / 10;
            for page in (0..active).chain(0..active) {
                cache.touch(Key::new(1, page));
            }
            assert_eq!(cache.active(), active);
            assert_eq!(cache.reclaim(10), (10, true));
            assert_eq!(cache.active() < active, shrinks, "{pages} pages");
        }
    }

    /// All of the inactive list is being read, and as long as the active one, whose pages are clean.
    #[test]
    fn active_pages_go_where_the_others_are_being_read() {
        let mut cache = Cache::new(8);
        for page in 0..4 {
            cache.insert(Key::new(1, page), true);
            (0..2).for_each(|_| cache.touch(Key::new(1, page)));
        }
        (4..8).for_each(|page| cache.insert(Key::new(1, page), false));
        assert_eq!((cache.idle(), cache.reading()), (4, 4));
        assert_eq!(cache.reclaim(2), (2, true));
        assert_eq!(cache.reclaim(5), (2, false), "those being read stay");
        cache.check();
    }

    #[test]
    fn dirty_pages_are_not_reclaimed() {
        let mut cache = Cache::new(4);
        for page in 0..4 {
            cache.insert(Key::new(1, page), true);
            cache.set_dirty(Key::new(1, page));
        }
        assert_eq!(cache.reclaim(1), (0, false));
        cache.begin_write(Key::new(1, 2));
        assert_eq!(cache.reclaim(1), (0, false));
        cache.end_write(Key::new(1, 2));
        assert_eq!(cache.reclaim(1), (1, true));
        let run = |first, last, most, tag| {
            cache
                .first_dirty(1, first, last, tag)
                .map(|p| (p, cache.dirty_run(1, p, last, most, tag)))
        };
        assert_eq!(run(0, 99, 99, ANY), Some((0, 2)));
        assert_eq!(run(0, 99, 1, ANY), Some((0, 1)));
        assert_eq!(run(0, 99, 99, 1), Some((0, 1)), "the second became dirty after the tag");
        assert_eq!((run(1, 99, 99, 1), run(1, 0, 9, ANY)), (None, None));
        cache.check();
    }

    /// Pages used twice, behind more pages that are dirty or held than they are: they go all the same, and what
    /// is written meanwhile goes first.
    #[test]
    fn the_active_list_gives_up_pages_while_the_other_is_busy() {
        let mut cache = Cache::new(16);
        for page in 0..16 {
            cache.insert(Key::new(1, page), true);
        }
        for page in [0, 1, 2, 3, 0, 1, 2, 3] {
            cache.touch(Key::new(1, page));
        }
        (4..12).for_each(|page| _ = cache.set_dirty(Key::new(1, page)));
        (12..16).for_each(|page| cache.pin(Key::new(1, page)));
        assert_eq!(cache.reclaim(3), (3, true));
        assert_eq!(cache.reclaim(5), (1, false));
        cache.check();
        for page in [7, 9] {
            cache.begin_write(Key::new(1, page));
            cache.end_write(Key::new(1, page));
        }
        cache.insert(Key::new(2, 0), true);
        assert_eq!(cache.reclaim(5), (2, true), "these two were to go when they are clean");
        assert!(cache.get(Key::new(2, 0)).is_some());
        cache.check();
    }

    proptest! {
        /// Against a plain set of keys: nothing is lost but by reclaim, and what is dirty stays.
        #[test]
        fn reclaim_keeps_dirty_pages(ops in prop::collection::vec((0u8..8, 0u32..3, 0u64..20), 1..300)) {
            let mut cache = Cache::new(16);
            let mut dirty = BTreeSet::new();
            for (op, inode, page) in ops {
                let key = Key::new(inode, page);
                match op {
                    0 | 1 => if cache.get(key).is_none() && cache.reclaim(1).1 { cache.insert(key, true) },
                    2 => if cache.is_uptodate(key) && cache.set_dirty(key) { dirty.insert(key); },
                    3 => if cache.is_dirty(key) { cache.begin_write(key); dirty.remove(&key); },
                    4 => cache.end_write(key),
                    5 => if cache.get(key).is_none() && cache.reclaim(1).1 { cache.insert(key, false) },
                    6 => cache.set_uptodate(key),
                    _ => cache.touch(key),
                }
                prop_assert_eq!(cache.dirty(), dirty.len() as u64);
                prop_assert!(dirty.iter().all(|&k| cache.is_uptodate(k)));
                prop_assert!(cache.len() <= 16 && cache.writing() <= 16);
                cache.check();
            }
        }
    }
}
