//! The part of the map that is in memory, where memory is smaller than the map.
//!
//! A page of the map is a sector of flash. Pages in memory are in the order of their use; the one not used for
//! longest gives way, and is written first if it changed. The directory, which tells where each page is, are the
//! places of the map's own sectors, always in memory.
//!
//! - A command of a user waits for the pages of its sectors, one after the other.
//! - A program changes the entries of what it wrote. Where their page is not in memory they wait beside it until
//!   it was read: all that wait for a page enter it together.
//!
//! Entries themselves are in the map as ever: here is only which of them the drive could look up.

use crate::map::Where;
use crate::write::{MAPS, Slot};
use crate::{Firmware, Op};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wordline_base::{IdVec, Slab};
use wordline_nand::{Class, Ppa};
use wordline_translation::{Action, Breach};

const NONE: u32 = u32::MAX;
/// What a page is.
const IN_MEMORY: u8 = 1;
/// Changed since it was written.
const CHANGED: u8 = 2;
/// Being read.
const COMING: u8 = 4;
/// To be read, when there is room.
const WANTED: u8 = 8;

/// Who waits for pages.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    tag: u32,
    /// The page waited for.
    page: u32,
    /// The last page to wait for.
    last: u32,
    /// It is a trim, which changes them.
    trims: bool,
}

/// Entries of a page that is not in memory, and the place in the order of the first program that changed one.
#[derive(Clone, Copy, Debug)]
struct Late {
    entries: u32,
    order: u32,
}

/// A page of the map.
type PageId = u32;

/// Pages in memory. See the module.
#[derive(Clone)]
pub(crate) struct Cached {
    /// Pages that there is room for.
    room: u32,
    state: IdVec<PageId, u8>,
    /// By page, the one used next after it.
    newer: IdVec<PageId, PageId>,
    /// By page, the one used last before it.
    older: IdVec<PageId, PageId>,
    /// The page used last.
    newest: u32,
    /// The page that gives way first.
    oldest: u32,
    /// Pages in memory.
    held: u32,
    /// Pages that are being read.
    coming: u32,
    /// Pages that are to be read.
    wanted: VecDeque<u32>,
    waiting: Slab<Waiting>,
    waits: BTreeMap<u32, Vec<u32>>,
    late: BTreeMap<u32, Late>,
    late_entries: u32,
    /// Programs under way, by their place in the order.
    programs: BTreeSet<u32>,
}

impl Cached {
    /// A map of so many pages, with room for some.
    pub fn new(pages: u32, room: u32) -> Cached {
        Cached {
            room,
            state: IdVec::filled(0, pages),
            newer: IdVec::filled(NONE, pages),
            older: IdVec::filled(NONE, pages),
            newest: NONE,
            oldest: NONE,
            held: 0,
            coming: 0,
            wanted: VecDeque::new(),
            waiting: Slab::default(),
            waits: BTreeMap::new(),
            late: BTreeMap::new(),
            late_entries: 0,
            programs: BTreeSet::new(),
        }
    }
    fn is(&self, page: u32, what: u8) -> bool {
        self.state[page] & what > 0
    }
    pub fn holds(&self, page: u32) -> bool {
        self.is(page, IN_MEMORY)
    }
    pub fn is_changed(&self, page: u32) -> bool {
        self.is(page, CHANGED)
    }
    pub fn written(&mut self, page: u32) {
        self.state[page] &= !CHANGED;
    }
    fn link(&mut self, page: u32) {
        (self.newer[page], self.older[page]) = (NONE, self.newest);
        match self.newest {
            NONE => self.oldest = page,
            newest => self.newer[newest] = page,
        }
        self.newest = page;
    }
    fn unlink(&mut self, page: u32) {
        let (newer, older) = (self.newer[page], self.older[page]);
        match newer {
            NONE => self.newest = older,
            newer => self.older[newer] = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.newer[older] = newer,
        }
    }
    /// The page is used now.
    pub fn touch(&mut self, page: u32) {
        if self.newest != page {
            self.unlink(page);
            self.link(page);
        }
    }
    /// The page is in memory from now on.
    pub fn enter(&mut self, page: u32, changed: bool) {
        debug_assert!(!self.holds(page));
        self.state[page] |= IN_MEMORY | if changed { CHANGED } else { 0 };
        self.held += 1;
        self.link(page);
    }
    fn leave(&mut self, page: u32) {
        self.state[page] &= !(IN_MEMORY | CHANGED);
        self.held -= 1;
        self.unlink(page);
    }
    pub fn change(&mut self, page: u32) {
        debug_assert!(self.holds(page));
        self.state[page] |= CHANGED;
    }
    fn want(&mut self, page: u32) {
        if !self.is(page, IN_MEMORY | COMING | WANTED) {
            self.state[page] |= WANTED;
            self.wanted.push_back(page);
        }
    }
    fn has_room(&self) -> bool {
        self.held + self.coming < self.room
    }
    /// Pages in memory, the one not used for longest first, and whether each changed.
    pub fn pages(&self) -> impl Iterator<Item = (u32, bool)> + '_ {
        let first = (self.oldest != NONE).then_some(self.oldest);
        let next = |&page: &u32| Some(self.newer[page]).filter(|&page| page != NONE);
        std::iter::successors(first, next).map(|page| (page, self.is_changed(page)))
    }
    /// Nobody waits, and nothing is to be read.
    pub fn rests(&self) -> bool {
        self.coming == 0
            && self.wanted.is_empty()
            && self.waiting.is_empty()
            && self.late.is_empty()
    }
    /// A program begins, or is over, with this place in the order.
    pub fn programs(&mut self, order: u32, begins: bool) {
        match begins {
            true => self.programs.insert(order),
            false => self.programs.remove(&order),
        };
    }
    pub fn late_entries(&self) -> u32 {
        self.late_entries
    }
    /// The least place in the order of the first programs of entries that wait for their page.
    pub fn first_late(&self) -> Option<u32> {
        self.late.values().map(|late| late.order).min()
    }
    /// Counts against what they count.
    pub fn check(&self) -> Result<(), Breach> {
        let flags = |what: u8| self.state.iter().filter(|&&s| s & what > 0).count();
        let late: u32 = self.late.values().map(|late| late.entries).sum();
        let found = [
            ("in memory", self.pages().count(), self.held as usize),
            ("marked as in memory", flags(IN_MEMORY), self.held as usize),
            ("being read", flags(COMING), self.coming as usize),
            ("to be read", flags(WANTED), self.wanted.len()),
            ("entries that wait", late as usize, self.late_entries as usize),
            ("who wait", self.waits.values().map(Vec::len).sum(), self.waiting.len()),
        ];
        for (what, found, counted) in found {
            if found != counted {
                let what = format!("pages of the map {what}: {found}, counted {counted}");
                return Err(Breach::Count(what));
            }
        }
        let lonely = self.waits.keys().chain(self.late.keys());
        match lonely.copied().find(|&page| !self.is(page, COMING | WANTED)) {
            Some(page) => {
                Err(Breach::Count(format!("page {page} of the map is waited for and not read")))
            }
            None => Ok(()),
        }
    }
}

impl Firmware {
    /// Pages of a map that memory holds a part of, and sectors of users that each tells of.
    pub fn map_pages(&self) -> (u32, u32) {
        (self.cached.as_ref().map_or(0, |cached| cached.state.len() as u32), self.plan.entries)
    }
    /// Where a page of the map is on flash, if it has all entries there as they are now.
    pub fn written_page(&self, page: u32) -> Option<Ppa> {
        let cached = self.cached.as_ref()?;
        let is_old = cached.is_changed(page) || cached.late.contains_key(&page);
        match self.map.get(self.sector_of_page(page)) {
            Where::Flash(ppa) if !is_old => Some(Ppa(ppa)),
            _ => None,
        }
    }
    /// Pages of the map in memory, the one not used for longest first, and whether each changed.
    pub fn pages_in_memory(&self) -> Vec<(u32, bool)> {
        self.cached.as_ref().map_or(Vec::new(), |cached| cached.pages().collect())
    }
    /// Entries wait until this page is in memory.
    pub fn waits_for_entries(&self, page: u32) -> bool {
        self.cached.as_ref().is_some_and(|cached| cached.late.contains_key(&page))
    }
    fn page_of(&self, lpn: u32) -> u32 {
        lpn / self.plan.entries
    }
    /// It is a page of a map that memory holds a part of.
    pub(crate) fn is_page(&self, lpn: u32) -> bool {
        self.cached.is_some() && u64::from(lpn) >= self.plan.sectors
    }
    pub(crate) fn is_map_slot(&self, slot: u32) -> bool {
        slot >= self.plan.slots + self.plan.gc_slots
    }
    pub(crate) fn sector_of_page(&self, page: u32) -> u32 {
        self.plan.sectors as u32 + page
    }
    /// A page is asked for by a user. True: it is in memory.
    pub(crate) fn uses(&mut self, page: u32) -> bool {
        let cached = self.cached.as_mut().expect("asked with a part of the map in memory");
        if cached.holds(page) {
            cached.touch(page);
            self.counters.map_hits += 1;
            return true;
        }
        self.counters.map_misses += 1;
        false
    }
    /// The pages of these sectors are used one after the other. True: all are in memory; otherwise who asked
    /// is told when they were.
    pub(crate) fn use_pages(&mut self, tag: u32, lpn: u32, sectors: u32, trims: bool) -> bool {
        let (page, last) = (self.page_of(lpn), self.page_of(lpn + sectors - 1));
        self.go_on(Waiting { tag, page, last, trims })
    }
    fn go_on(&mut self, mut who: Waiting) -> bool {
        while self.uses(who.page) {
            if who.trims {
                self.change_page(who.page);
            }
            if who.page == who.last {
                return true;
            }
            who.page += 1;
        }
        let cached = self.cached.as_mut().expect("it was asked");
        let key = cached.waiting.insert(who);
        cached.waits.entry(who.page).or_default().push(key);
        cached.want(who.page);
        false
    }
    fn change_page(&mut self, page: u32) {
        if let Some(cached) = &mut self.cached {
            cached.change(page);
        }
    }
    /// A program is over, or a copy was lost: the entry of the sector is another one.
    pub(crate) fn entry_changed(&mut self, lpn: u32, order: u32) {
        if u64::from(lpn) >= self.plan.sectors {
            return;
        }
        let page = self.page_of(lpn);
        let Some(cached) = &mut self.cached else { return };
        if cached.holds(page) {
            cached.touch(page);
            return cached.change(page);
        }
        let late = cached.late.entry(page).or_insert(Late { entries: 0, order });
        late.entries += 1;
        cached.late_entries += 1;
        cached.want(page);
    }
    /// Entries that wait for their pages are as many as the buffers have sectors: programs wait for them.
    pub(crate) fn is_late(&self) -> bool {
        let most = self.plan.slots + self.plan.gc_slots;
        self.cached.as_ref().is_some_and(|cached| cached.late_entries() > most)
    }
    /// Reads pages that are asked for, as far as there is room.
    pub(crate) fn fetch_pages(&mut self) -> bool {
        let mut progress = false;
        while let Some(page) =
            self.cached.as_ref().and_then(|cached| cached.wanted.front().copied())
        {
            if !self.make_room() {
                break;
            }
            progress = true;
            let at = self.map.get(self.sector_of_page(page));
            let Some(cached) = &mut self.cached else { break };
            cached.wanted.pop_front();
            cached.state[page] &= !WANTED;
            let Where::Flash(ppa) = at else {
                // It was never written, or is in memory on its way to flash.
                self.arrived(page, false);
                continue;
            };
            cached.state[page] |= COMING;
            cached.coming += 1;
            // Those that wait for it go ahead; entries do not.
            let class = match cached.waits.contains_key(&page) {
                true => Class::UserRead,
                false => Class::MetaRead,
            };
            self.counters.map_read_sectors += 1;
            self.count_read(ppa, true);
            if self.refresh.counts_reads() {
                self.unit_is_read(ppa);
            }
            let op = Op::MapRead { page, ppa };
            let ppa = Ppa(ppa);
            self.issue(op, |op| Action::Read { op, ppa, sectors: 1, class, payload: 1 });
        }
        progress
    }
    /// A read of a superblock is under way, or is over.
    fn count_read(&mut self, ppa: u32, begins: bool) {
        let lun = self.space.lun_of(self.space.unit_of(ppa));
        let s = self.space.superblock_of(ppa);
        let counts = [&mut self.space.superblocks[s].reads, &mut self.lun_reads[lun]];
        counts.into_iter().for_each(|n| *n = if begins { *n + 1 } else { *n - 1 });
    }
    /// A page was read. One that could not be is put together from the spare areas, and is to be written.
    pub(crate) fn page_read(&mut self, page: u32, ppa: u32, ok: bool) {
        self.count_read(ppa, false);
        self.counters.meta_read_errors += u64::from(!ok);
        let Some(cached) = &mut self.cached else { return };
        cached.state[page] &= !COMING;
        cached.coming -= 1;
        self.arrived(page, !ok);
    }
    fn arrived(&mut self, page: u32, changed: bool) {
        let Some(cached) = &mut self.cached else { return };
        let late = cached.late.remove(&page);
        cached.late_entries -= late.map_or(0, |late| late.entries);
        cached.enter(page, changed || late.is_some());
        let who = cached.waits.remove(&page).unwrap_or_default();
        for key in who {
            let Some(cached) = &mut self.cached else { return };
            let mut who = cached.waiting.remove(key);
            if who.trims {
                cached.change(page);
            }
            who.page += 1;
            if page == who.last || self.go_on(who) {
                self.actions.push_back(Action::Complete { tag: who.tag, ok: true });
            }
        }
    }
    /// There is room for a page: those not used for longest give way.
    fn make_room(&mut self) -> bool {
        loop {
            let Some(cached) = &self.cached else { return false };
            if cached.has_room() {
                return true;
            }
            let page = cached.oldest;
            if page == NONE {
                return false;
            }
            if cached.is_changed(page) {
                if !self.write_changed(page) {
                    return false;
                }
                self.counters.map_dirty_evictions += 1;
            }
            self.let_go(page);
        }
    }
    /// For ageing: the page is in memory, and is used.
    pub(crate) fn has_page(&mut self, page: u32) -> bool {
        let Some(cached) = &mut self.cached else { return true };
        let there = cached.holds(page);
        if there {
            cached.touch(page);
        }
        there
    }
    /// For ageing: the page that gives way to another one now, and whether it changed.
    pub(crate) fn gives_way(&self) -> Option<(u32, bool)> {
        let cached = self.cached.as_ref().filter(|cached| !cached.has_room())?;
        cached.pages().next()
    }
    /// For ageing: the page is in memory and changed.
    pub(crate) fn now_has(&mut self, page: u32) {
        match &mut self.cached {
            Some(cached) if cached.holds(page) => cached.change(page),
            Some(cached) => cached.enter(page, true),
            None => {}
        }
    }
    /// For ageing: the page was written.
    pub(crate) fn written(&mut self, page: u32) {
        if let Some(cached) = &mut self.cached {
            cached.written(page);
        }
    }
    pub(crate) fn let_go(&mut self, page: u32) {
        if let Some(cached) = &mut self.cached {
            cached.leave(page);
            self.counters.map_evictions += 1;
        }
    }
    /// A page that changed is on its way to flash as it is now. False: there is no room on that way.
    pub(crate) fn write_changed(&mut self, page: u32) -> bool {
        let lpn = self.sector_of_page(page);
        let waits = match self.map.get(lpn) {
            Where::Buffer(slot) => self.is_map_slot(slot) && !self.slots[slot].issued,
            _ => false,
        };
        if !waits {
            let Some(slot) = self.free[MAP_SLOTS].pop() else { return false };
            if let Where::Flash(ppa) = self.map.set(lpn, Where::Buffer(slot)) {
                self.invalidate(ppa);
            }
            let turn = if self.config.protected { 0 } else { self.order.enter() };
            self.slots[slot] = Slot { lpn, stamp: 1, turn, ..Slot::default() };
            self.streams[MAPS].queue.push_back(slot);
        }
        if let Some(cached) = &mut self.cached {
            cached.written(page);
        }
        true
    }
    /// Programs before this place in the order are in the pages of the map that are written now, or will be.
    pub(crate) fn settled(&self) -> u32 {
        let Some(cached) = &self.cached else { return self.map.next };
        let under_way = cached.programs.first().copied();
        under_way.into_iter().chain(cached.first_late()).min().unwrap_or(self.map.next)
    }
}

/// Free slots of pages that changed and gave way.
pub(crate) const MAP_SLOTS: usize = 2;
