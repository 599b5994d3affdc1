//! The stripe cache of RAID-5 (drivers/md/raid5.c of Linux 4.14), rule by rule:
//!
//! - A stripe is a page of each member at one place. Stripes are a bounded number; one that nobody needs keeps
//!   its pages until another place needs it, the one longest unused first. Who finds none waits until a
//!   quarter of them is free (R5_INACTIVE_BLOCKED).
//! - Bios are added page by page (add_stripe_bio). A write that overlaps one not yet taken up waits, and so
//!   does a read that overlaps a read.
//! - The array's thread handles a stripe once nobody adds to it and none of its I/O is out (handle_stripe).
//!   Reads are served from pages that are there, the others are read; what cannot be read is the sum of all
//!   others (fetch_block).
//! - A write reads what it needs for the new parity: the old data and parity (read-modify-write), or the data
//!   that it does not overwrite (reconstruct-write), whichever are fewer pages not at hand; of equals the
//!   latter (rmw_level 1). Stripes that must read wait while others read, so that more writes come to
//!   them (STRIPE_DELAYED, STRIPE_PREREAD_ACTIVE).
//! - Data are copied into the pages, the parity is computed, and all that changed is written, first to the
//!   journal if there is one, and after a bit of the write-intent bitmap if there is one.
//!
//! What pages hold is kept beside them ([`crate::contents`]), so that parity and rebuilt data are what they would be.

use crate::config::PAGE;
use crate::contents::{PARTS, Page, Pages, add};
use crate::layout::Layout;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wordline_base::{IdVec, IoClass, Slab};

mod bitmap;
mod io;
mod power;
mod resync;
mod write;

pub use io::{Added, Guards, Io, Member, Out, PageOf, Pass, Stats, To, What};

const NOBODY: u32 = u32::MAX;
/// Bytes of a part of a page.
const PART: u64 = PAGE / PARTS as u64;
/// Bits of a page of the bitmap: one a region.
const BITS: u64 = PAGE * 8;

#[derive(Clone, Copy, Debug)]
struct Part {
    bio: u32,
    from: u8,
    to: u8,
    fua: bool,
    class: IoClass,
    /// The number of the write.
    write: u32,
}

impl Part {
    fn overlaps(&self, o: &Part) -> bool {
        self.from < o.to && o.from < self.to
    }
}

#[derive(Clone, Debug, Default)]
struct Dev {
    uptodate: bool,
    /// It could not be read here.
    bad: bool,
    page: Page,
    read: Vec<Part>,
    write: Vec<Part>,
    written: Vec<Part>,
}

impl Dev {
    fn overwritten(&self) -> bool {
        self.write.iter().map(|p| u32::from(p.to - p.from)).sum::<u32>() == PARTS as u32
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Idle,
    Reading,
    Logging,
    Writing,
    /// A page that could not be read is written anew.
    Fixing,
    Syncing,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// At work, or held by who adds to it.
    None,
    Handle,
    Hold,
    Delayed,
    Bitmap,
    Inactive,
}

type StripeId = u32;
/// A drive by its place in the array.
pub type MemberId = u32;

#[derive(Clone, Debug)]
struct Head {
    row: u64,
    devs: IdVec<MemberId, Dev>,
    users: u32,
    flying: u32,
    place: Place,
    phase: Phase,
    handle: bool,
    delayed: bool,
    preread: bool,
    sync: bool,
    /// The bio that trims the row.
    trim: Option<u32>,
    trimming: bool,
    /// Its region of the bitmap counts it.
    counted: bool,
    used: u64,
}

#[derive(Clone, Copy, Debug)]
struct Region {
    pending: u32,
    on_disk: bool,
    idle: bool,
}

/// What a whole entry of the journal holds.
#[derive(Clone, Debug)]
pub struct Logged {
    row: u64,
    pages: Vec<(u32, Page)>,
}

/// What is left of an array without power.
#[derive(Clone, Debug)]
pub struct Disks {
    /// Where bytes are.
    pub layout: Layout,
    /// What guards against a power cut.
    pub guards: Guards,
    /// What each member was.
    pub members: IdVec<MemberId, Member>,
    /// What each member's pages hold.
    held: IdVec<MemberId, Pages>,
    /// Regions whose bit is set on the members.
    dirty: BTreeSet<u64>,
    /// Stripes that are in the journal and not certain on the members.
    journal: Vec<Logged>,
    /// What acknowledged writes wrote.
    acked: Pages,
    /// What was taken up last, acknowledged or not.
    taken: Pages,
    /// Writes so far: each has its own contents.
    writes: u32,
}

/// An array with parity.
#[derive(Clone, Debug)]
pub struct Raid5 {
    layout: Layout,
    guards: Guards,
    checks: bool,
    members: IdVec<MemberId, Member>,
    /// Members that make room for writes now, to be read around if the others do not.
    busy: IdVec<MemberId, bool>,
    /// The stripe cache.
    heads: IdVec<StripeId, Head>,
    /// The stripe in the cache of each row.
    by_row: BTreeMap<u64, u32>,
    /// Stripes that nobody uses, by their last use: the first is taken for another row.
    inactive: BTreeSet<(u64, u32)>,
    /// Stripes to be handled (handle_list).
    handle: VecDeque<u32>,
    /// Stripes to be handled that must read before they write (hold_list).
    hold: VecDeque<u32>,
    /// Stripes that wait to be read for a write (delayed_list).
    delayed: VecDeque<u32>,
    /// No stripe was free: somebody waits for one.
    blocked: bool,
    /// A bio waits for a part of a stripe that another one writes.
    overlaps: bool,
    /// Stripes that read for a write.
    prereading: u32,
    /// Uses of stripes so far.
    clock: u64,
    /// I/Os to members that are under way.
    ios: Slab<Io>,
    /// What is to be taken by `poll`.
    out: VecDeque<Out>,
    /// The next row to be rebuilt or looked at.
    sync_at: u64,
    /// Rows done out of order.
    synced: BTreeSet<u64>,
    /// Rows done in all.
    resynced: u64,
    /// After an unclean stop: rows to look at, by region; none: all.
    resync: Option<Option<BTreeSet<u64>>>,
    /// Regions with stripes that write, or a bit to clear.
    regions: BTreeMap<u64, Region>,
    /// Regions whose bit is to be set.
    bits_wanted: BTreeSet<u64>,
    /// Regions whose bit the write of the bitmap under way sets.
    bits_written: Vec<u64>,
    /// Writes of the bitmap under way, one to each member.
    bits_flying: u32,
    /// Stripes that wait for their bit.
    at_bitmap: Vec<u32>,
    /// By stripe: what it has in the journal.
    log: BTreeMap<u32, Logged>,
    /// The next byte of the journal.
    log_at: u64,
    /// What each member's pages hold.
    held: IdVec<MemberId, Pages>,
    /// What acknowledged writes wrote.
    acked: Pages,
    /// What was taken up last, acknowledged or not.
    taken: Pages,
    /// Writes so far: each has its own contents.
    writes: u32,
    /// Look-ups that found something else than the newest writes.
    wrong: u64,
    /// Look-ups that were held against the newest writes.
    checked: u64,
    /// Counts since the start.
    pub stats: Stats,
}

impl Raid5 {
    /// An array of members that agree with each other, with so many stripes. Without `checks` what pages hold is not
    /// kept.
    pub fn new(layout: Layout, stripes: u32, guards: Guards, checks: bool) -> Raid5 {
        let n = layout.members as usize;
        let head = |_| Head {
            row: u64::MAX,
            devs: vec![Dev::default(); n].into(),
            users: 0,
            flying: 0,
            place: Place::Inactive,
            phase: Phase::Idle,
            handle: false,
            delayed: false,
            preread: false,
            sync: false,
            trim: None,
            trimming: false,
            counted: false,
            used: 0,
        };
        Raid5 {
            guards,
            checks,
            members: vec![Member::InSync; n].into(),
            busy: vec![false; n].into(),
            heads: (0..stripes).map(head).collect(),
            by_row: BTreeMap::new(),
            inactive: (0..stripes).map(|s| (0, s)).collect(),
            handle: VecDeque::new(),
            hold: VecDeque::new(),
            delayed: VecDeque::new(),
            blocked: false,
            overlaps: false,
            prereading: 0,
            clock: 0,
            ios: Slab::default(),
            out: VecDeque::new(),
            sync_at: 0,
            synced: BTreeSet::new(),
            resynced: 0,
            resync: None,
            regions: BTreeMap::new(),
            bits_wanted: BTreeSet::new(),
            bits_written: Vec::new(),
            bits_flying: 0,
            at_bitmap: Vec::new(),
            log: BTreeMap::new(),
            log_at: 0,
            held: vec![Pages::default(); n].into(),
            acked: Pages::default(),
            taken: Pages::default(),
            writes: 0,
            wrong: 0,
            checked: 0,
            stats: Stats::default(),
            layout,
        }
    }

    /// Where bytes are.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
    /// What a member is.
    pub fn member(&self, member: u32) -> Member {
        self.members[member]
    }
    /// All members are there and whole.
    pub fn is_whole(&self) -> bool {
        self.members.iter().all(|m| *m == Member::InSync)
    }
    /// More members are lost than parity stands.
    pub fn is_lost(&self) -> bool {
        self.members.iter().filter(|m| **m != Member::InSync).count() > 1
    }
    /// Bytes of the stripes' pages and what else md keeps for them.
    pub fn memory(&self) -> u64 {
        // struct stripe_head of 4.14 with its r5devs: some 250 bytes each.
        self.heads.len() as u64 * u64::from(self.layout.members) * (PAGE + 250)
    }
    /// Bytes of the bitmap in memory: two a region (bitmap_counter_t).
    pub fn bitmap_memory(&self) -> u64 {
        self.guards.bitmap.map_or(0, |region| self.layout.used.div_ceil(region) * 2)
    }
    /// Bytes of the check of what pages hold.
    pub fn check_memory(&self) -> u64 {
        self.held.iter().chain([&self.acked, &self.taken]).map(Pages::memory).sum()
    }
    /// Look-ups held against the newest writes, and those that found something else.
    pub fn checked(&self) -> (u64, u64) {
        (self.checked, self.wrong)
    }
    /// What it wants done next; call until `None` after each input.
    pub fn poll(&mut self) -> Option<Out> {
        self.out.pop_front()
    }
    /// The stripe that an I/O is for, if it is for one.
    pub fn stripe_of(&self, io: u32) -> Option<u32> {
        let s = self.ios[io].stripe;
        (s != NOBODY).then_some(s)
    }
    /// What an I/O under way does.
    pub fn what(&self, io: u32) -> What {
        self.ios[io].what
    }
    /// None of a stripe's I/O is out.
    pub fn is_back(&self, s: u32) -> bool {
        self.heads[s].flying == 0
    }
    /// Bios that wait for a bit of the bitmap.
    pub fn at_bitmap(&self, to: &mut Vec<u32>) {
        self.at_bitmap.iter().for_each(|&s| self.waiting(s, to));
    }
    /// I/Os that are out.
    pub fn flying(&self) -> usize {
        self.ios.len()
    }
    /// Nothing waits and nothing is out.
    pub fn is_idle(&self) -> bool {
        self.inactive.len() == self.heads.len() && self.ios.is_empty() && self.out.is_empty()
    }
    /// Whether the member makes room for writes.
    pub fn set_busy(&mut self, member: u32, busy: bool) {
        self.busy[member] = busy;
    }
    /// The member makes room for writes.
    pub fn is_busy(&self, member: u32) -> bool {
        self.busy[member]
    }
    /// A read of the member goes around it: it makes room, and no other does.
    pub fn goes_around(&self, member: u32) -> bool {
        let whole = |(m, state): (MemberId, &Member)| {
            m == member || *state == Member::InSync && !self.busy[m]
        };
        self.busy[member] && (0..).zip(&self.members).all(whole)
    }

    fn in_sync(&self, member: MemberId, row: u64) -> bool {
        match self.members[member] {
            Member::InSync => true,
            Member::Failed => false,
            Member::Rebuilding(to) => row < to,
        }
    }
    /// raid5_get_active_stripe.
    fn get(&mut self, row: u64) -> Option<u32> {
        self.clock += 1;
        if let Some(&s) = self.by_row.get(&row) {
            let head = &mut self.heads[s];
            if head.place == Place::Inactive {
                self.inactive.remove(&(head.used, s));
            }
            // It is handled once it is released.
            if head.place != Place::Bitmap {
                head.place = Place::None;
            }
            head.delayed = false;
            return Some(s);
        }
        if self.blocked || self.inactive.is_empty() {
            self.blocked = true;
            return None;
        }
        let (_, s) = self.inactive.pop_first()?;
        let head = &mut self.heads[s];
        if head.row != u64::MAX {
            self.by_row.remove(&head.row);
        }
        self.by_row.insert(row, s);
        head.row = row;
        head.place = Place::None;
        for dev in &mut head.devs {
            (dev.uptodate, dev.bad) = (false, false);
        }
        Some(s)
    }

    /// add_stripe_bio.
    pub fn add(&mut self, page: PageOf) -> Added {
        let (member, offset) = self.layout.place(page.byte);
        let from = (page.byte % PAGE / PART) as u8;
        let to = from + (u64::from(page.len) / PART) as u8;
        debug_assert!(usize::from(to) <= PARTS && from < to);
        let Some(s) = self.get(offset / PAGE) else {
            self.stats.stripe_waits += 1;
            return Added::NoStripe;
        };
        let PageOf { bio, fua, class, .. } = page;
        let part = Part { bio, from, to, fua, class, write: self.writes + 1 };
        let head = &mut self.heads[s];
        let dev = &mut head.devs[member];
        let list = if page.write { &mut dev.write } else { &mut dev.read };
        if head.trim.is_some() || list.iter().any(|p| p.overlaps(&part)) {
            self.stats.overlap_waits += 1;
            self.overlaps = true;
            self.settle(s);
            return Added::Overlap;
        }
        list.push(part);
        match page.write {
            true => {
                self.writes += 1;
                self.stats.pages_written += 1;
            }
            false => self.stats.pages_read += 1,
        }
        (head.handle, head.delayed) = (true, false);
        head.users += 1;
        Added::To(s)
    }

    /// A bio trims a page of each member (make_discard_request).
    pub fn add_trim(&mut self, bio: u32, row: u64) -> Added {
        let Some(s) = self.get(row) else {
            self.stats.stripe_waits += 1;
            return Added::NoStripe;
        };
        let head = &mut self.heads[s];
        let waits = |d: &Dev| !d.read.is_empty() || !d.write.is_empty() || !d.written.is_empty();
        if head.trim.is_some() || head.trimming || head.sync || head.devs.iter().any(waits) {
            self.stats.overlap_waits += 1;
            self.overlaps = true;
            self.settle(s);
            return Added::Overlap;
        }
        (head.trim, head.handle) = (Some(bio), true);
        head.users += 1;
        Added::To(s)
    }

    /// Nothing more is added to the stripe for now (raid5_release_stripe).
    pub fn release(&mut self, s: u32) {
        self.heads[s].users -= 1;
        self.settle(s);
    }

    /// do_release_stripe: to the list where it belongs.
    fn settle(&mut self, s: u32) {
        let head = &mut self.heads[s];
        if head.users > 0 || head.flying > 0 || head.place != Place::None {
            return;
        }
        if head.handle {
            if head.delayed && !head.preread {
                head.place = Place::Delayed;
                self.delayed.push_back(s);
            } else {
                head.delayed = false;
                head.place = Place::Handle;
                self.handle.push_back(s);
            }
            return;
        }
        debug_assert!(
            head.devs
                .iter()
                .all(|d| d.read.is_empty() && d.write.is_empty() && d.written.is_empty())
        );
        if std::mem::take(&mut head.preread) {
            self.prereading -= 1;
        }
        (head.place, head.used) = (Place::Inactive, self.clock);
        self.inactive.insert((head.used, s));
        let active = self.heads.len() - self.inactive.len();
        if self.blocked && active < self.heads.len() * 3 / 4 {
            self.blocked = false;
            self.out.push_back(Out::Room);
        }
    }

    /// Something is to be handled.
    pub fn has_work(&self) -> bool {
        let on = |list: &VecDeque<u32>, place| list.iter().any(|&s| self.heads[s].place == place);
        on(&self.handle, Place::Handle)
            || on(&self.hold, Place::Hold)
            || self.prereading == 0 && on(&self.delayed, Place::Delayed)
    }

    /// The next stripe to handle. Stripes that must read wait until no other reads (raid5_activate_delayed).
    pub fn next_stripe(&mut self) -> Option<u32> {
        if self.prereading == 0 {
            while let Some(s) = self.delayed.pop_front() {
                let head = &mut self.heads[s];
                if head.place == Place::Delayed {
                    (head.place, head.preread, head.delayed) = (Place::Hold, true, false);
                    self.prereading += 1;
                    self.hold.push_back(s);
                }
            }
        }
        for (hold, place) in [(false, Place::Handle), (true, Place::Hold)] {
            let list = if hold { &mut self.hold } else { &mut self.handle };
            while let Some(s) = list.pop_front() {
                let head = &mut self.heads[s];
                if head.place == place {
                    head.place = Place::None;
                    return Some(s);
                }
            }
        }
        None
    }
    /// The page of each member that a stripe is of.
    pub fn row(&self, s: u32) -> u64 {
        self.heads[s].row
    }

    /// The bios that wait for the stripe.
    pub fn waiting(&self, s: u32, to: &mut Vec<u32>) {
        let head = &self.heads[s];
        let all = head.devs.iter().flat_map(|d| d.read.iter().chain(&d.write).chain(&d.written));
        to.extend(all.map(|p| p.bio).chain(head.trim));
        to.sort_unstable();
        to.dedup();
    }

    fn send(
        &mut self,
        s: u32,
        to: To,
        what: What,
        (offset, len): (u64, u64),
        fua: bool,
        class: IoClass,
    ) {
        let io = Io { id: 0, to, what, offset, len: len as u32, fua, class, stripe: s };
        let id = self.ios.insert(io);
        self.ios[id].id = id;
        if s != NOBODY {
            self.heads[s].flying += 1;
        }
        self.out.push_back(Out::Io(self.ios[id]));
    }

    /// An I/O has come back.
    pub fn io_done(&mut self, id: u32, ok: bool) {
        let io = self.ios.remove(id);
        self.ios[id].id = NOBODY;
        let s = io.stripe;
        if io.what == What::Bitmap {
            if let (To::Member(m), false) = (io.to, ok) {
                self.fail(m);
            }
            return self.bits_done();
        }
        let row = self.heads[s].row;
        if let To::Member(m) = io.to {
            let dev = &mut self.heads[s].devs[m];
            match (io.what.reads(), ok) {
                (true, true) => {
                    dev.uptodate = true;
                    if self.checks {
                        dev.page = self.held[m].get(row);
                    }
                }
                (true, false) => dev.bad = true,
                (false, true) => {
                    if self.checks {
                        *self.held[m].at(row) = dev.page;
                    }
                }
                (false, false) => self.fail(m),
            }
        } else if !ok {
            // Without its journal the array goes on, and the write hole is open.
            self.guards.journal = None;
        }
        let head = &mut self.heads[s];
        head.flying -= 1;
        if head.flying == 0 {
            head.handle = true;
            self.settle(s);
        }
    }

    /// A member is out (md_error).
    pub fn fail(&mut self, member: u32) {
        let state = &mut self.members[member];
        if *state != Member::Failed {
            *state = Member::Failed;
            self.busy[member] = false;
            self.out.push_back(Out::Lost { member });
        }
    }

    /// handle_stripe.
    pub fn handle(&mut self, s: u32) -> Pass {
        let mut pass = Pass::default();
        self.heads[s].handle = false;
        self.stats.handled += 1;
        self.pass(s, &mut pass);
        self.stats.xor_pages += pass.summed;
        self.stats.copied_pages += pass.copied;
        self.settle(s);
        pass
    }

    fn pass(&mut self, s: u32, pass: &mut Pass) {
        match self.heads[s].phase {
            Phase::Logging if self.heads[s].trimming => return self.trim_members(s),
            Phase::Logging => return self.write_out(s),
            Phase::Writing => self.end_writes(s),
            Phase::Fixing => self.heads[s].devs.iter_mut().for_each(|d| d.bad &= !d.uptodate),
            Phase::Syncing => self.end_sync(s),
            Phase::Idle | Phase::Reading => {}
        }
        self.heads[s].phase = Phase::Idle;
        if self.heads[s].trim.is_some() {
            return self.trim_out(s);
        }
        let n = self.layout.members;
        let row = self.heads[s].row;
        let parity = self.layout.parity(row * PAGE).unwrap_or(0);
        let there: IdVec<MemberId, bool> =
            (0..n).map(|m| self.in_sync(m, row) && !self.heads[s].devs[m].bad).collect();
        let lost = there.iter().filter(|ok| !**ok).count();

        // What cannot be read, or is not to be, is the sum of the others.
        let around: IdVec<MemberId, bool> =
            (0..n).map(|m| there[m] && self.goes_around(m)).collect();
        let mut need = IdVec::filled(None, n);
        for m in 0..n {
            let dev = &self.heads[s].devs[m];
            if dev.read.is_empty() || dev.uptodate {
                continue;
            }
            if there[m] && !around[m] {
                need[m] = Some(What::Read);
                continue;
            }
            let others = || (0..n).filter(|&o| o != m);
            if others().all(|o| self.heads[s].devs[o].uptodate) {
                self.rebuild_page(s, m, pass);
                let bad = self.heads[s].devs[m].bad;
                let of = match (there[m], bad) {
                    (true, _) => &mut self.stats.around_reads,
                    (_, true) => &mut self.stats.repaired_reads,
                    _ => &mut self.stats.degraded_reads,
                };
                *of += 1;
            } else if others().all(|o| there[o] || self.heads[s].devs[o].uptodate) {
                for o in others().filter(|&o| !self.heads[s].devs[o].uptodate) {
                    need[o].get_or_insert(What::Others);
                }
            } else {
                let parts = std::mem::take(&mut self.heads[s].devs[m].read);
                for part in parts {
                    self.stats.failed_pages += 1;
                    self.out.push_back(Out::Ended { bio: part.bio, ok: false });
                }
                self.make_room();
            }
        }
        self.serve_reads(s, parity, pass);

        if self.heads[s].sync {
            let missing = |&m: &MemberId| there[m] && !self.heads[s].devs[m].uptodate;
            let all: Vec<MemberId> = (0..n).filter(missing).collect();
            for &m in &all {
                need[m].get_or_insert(What::Others);
            }
            if all.is_empty()
                && need.iter().all(Option::is_none)
                && self.sync_out(s, parity, &there, pass)
            {
                return;
            }
        }

        let mut writes = self.heads[s].devs.iter().any(|d| !d.write.is_empty());
        if writes && lost > 1 {
            // handle_failed_stripe.
            for m in 0..n {
                for part in std::mem::take(&mut self.heads[s].devs[m].write) {
                    self.stats.failed_pages += 1;
                    self.out.push_back(Out::Ended { bio: part.bio, ok: false });
                }
            }
            writes = false;
            self.make_room();
        }
        if writes {
            let reads = need.iter().any(Option::is_some);
            match self.prepare_write(s, parity, &there, &mut need, pass) {
                Some(by_sums) if !reads => return self.reconstruct(s, parity, by_sums, pass),
                // The pages that are read now are part of the stripe: it comes again.
                _ => self.heads[s].handle = true,
            }
        }
        let mut sent = false;
        for (m, what) in (0..).zip(&need) {
            let Some(what) = *what else { continue };
            sent = true;
            self.stats.prereads += u64::from(what == What::Preread);
            let class = self.class(s);
            self.send(s, To::Member(m), what, (row * PAGE, PAGE), false, class);
        }
        if sent {
            (self.heads[s].phase, self.heads[s].delayed) = (Phase::Reading, false);
            return;
        }
        // A page that could not be read and is known again is written back.
        let fix = (0..n).find(|&m| {
            let d = &self.heads[s].devs[m];
            d.bad && d.uptodate && self.in_sync(m, row)
        });
        if let Some(m) = fix {
            self.heads[s].phase = Phase::Fixing;
            self.send(s, To::Member(m), What::Write, (row * PAGE, PAGE), false, IoClass::NONE);
        }
    }

    /// The best class of who waits.
    fn class(&self, s: u32) -> IoClass {
        let devs = self.heads[s].devs.iter();
        let parts = devs.flat_map(|d| d.read.iter().chain(&d.write).chain(&d.written));
        parts.map(|p| p.class).reduce(IoClass::best).unwrap_or(IoClass::NONE)
    }

    fn sum_of_others(&self, s: u32, m: MemberId) -> Page {
        let mut sum = [0; PARTS];
        for (o, dev) in (0..).zip(&self.heads[s].devs) {
            if o != m {
                add(&mut sum, &dev.page);
            }
        }
        sum
    }
    fn rebuild_page(&mut self, s: u32, m: MemberId, pass: &mut Pass) {
        let sum = self.sum_of_others(s, m);
        let dev = &mut self.heads[s].devs[m];
        (dev.page, dev.uptodate) = (sum, true);
        pass.summed += u64::from(self.layout.members - 1);
    }

    /// ops_run_biofill: data of pages that are there go to the bios that read them.
    fn serve_reads(&mut self, s: u32, parity: MemberId, pass: &mut Pass) {
        let row = self.heads[s].row;
        for m in 0..self.layout.members {
            let dev = &mut self.heads[s].devs[m];
            if m == parity || !dev.uptodate || dev.read.is_empty() {
                continue;
            }
            let (parts, page) = (std::mem::take(&mut dev.read), dev.page);
            for part in parts {
                pass.copied += 1;
                self.check(m, row, part.from..part.to, &page, true);
                self.out.push_back(Out::Ended { bio: part.bio, ok: true });
            }
            self.make_room();
        }
    }

    /// Who found an overlap may look again.
    fn make_room(&mut self) {
        if std::mem::take(&mut self.overlaps) {
            self.out.push_back(Out::Room);
        }
    }

    /// What a read returns is what was written last. In the stripe that is what was taken up last; of a member
    /// it may also be what was acknowledged.
    fn check(
        &mut self,
        member: u32,
        row: u64,
        parts: std::ops::Range<u8>,
        page: &Page,
        exact: bool,
    ) {
        if !self.checks {
            return;
        }
        let Some(byte) = self.layout.byte(member, row * PAGE) else { return };
        let (taken, acked) = (self.taken.get(byte / PAGE), self.acked.get(byte / PAGE));
        for i in parts {
            let i = usize::from(i);
            self.checked += 1;
            let right = page[i] == taken[i] || !exact && page[i] == acked[i];
            self.wrong += u64::from(!right);
        }
    }

    /// A read went to the member itself, and is back (raid5_align_endio).
    pub fn direct_read(&mut self, member: u32, offset: u64, len: u64) {
        self.stats.pages_read += (offset + len).div_ceil(PAGE) - offset / PAGE;
        if !self.checks {
            return;
        }
        let mut at = offset;
        while at < offset + len {
            let (row, end) = (at / PAGE, ((at / PAGE + 1) * PAGE).min(offset + len));
            let page = self.held[member].get(row);
            let parts = (at % PAGE / PART) as u8..((end - 1) % PAGE / PART) as u8 + 1;
            self.check(member, row, parts, &page, false);
            at = end;
        }
    }
}
