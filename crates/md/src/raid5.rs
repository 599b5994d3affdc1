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

use crate::contents::{PARTS, Page, Pages, add, content};
use crate::layout::{Layout, PAGE};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wordline_base::{IdVec, IoClass, Slab};

const NOBODY: u32 = u32::MAX;
/// Bytes of a part of a page.
const PART: u64 = PAGE / PARTS as u64;
/// Bits of a page of the bitmap: one a region.
const BITS: u64 = PAGE * 8;

/// What keeps parity right over a power cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Guards {
    /// Bytes of a member that a bit of the write-intent bitmap is for.
    pub bitmap: Option<u64>,
    /// Bytes of the journal.
    pub journal: Option<u64>,
}

/// What a member is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Member {
    /// All that it holds is as it should be.
    InSync,
    /// It is lost.
    Failed,
    /// Pages before this one are in sync.
    Rebuilding(u64),
}

/// Whom an I/O is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum To {
    /// A member, by its place in the array.
    Member(u32),
    /// The journal.
    Journal,
}

/// What an I/O does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A page that a bio reads.
    Read,
    /// A page for the new parity of a write.
    Preread,
    /// A page from which another one is rebuilt.
    Others,
    /// A page of data or parity.
    Write,
    /// A row of a member.
    Trim,
    /// A stripe for the journal.
    Log,
    /// The bitmap's page.
    Bitmap,
}

impl What {
    /// It brings data from a member.
    pub fn reads(self) -> bool {
        matches!(self, What::Read | What::Preread | What::Others)
    }
}

/// An I/O to a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Io {
    /// Given back with its end.
    pub id: u32,
    /// Who does it.
    pub to: To,
    /// What it does.
    pub what: What,
    /// The first byte on the member.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
    /// It is on the medium when it ends.
    pub fua: bool,
    /// Class of the bio that it is for.
    pub class: IoClass,
    /// The stripe that it is for.
    pub stripe: u32,
}

/// What the array wants done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Out {
    /// An I/O to a member or the journal.
    Io(Io),
    /// A page of a bio is over.
    Ended {
        /// The bio of the page.
        bio: u32,
        /// It succeeded.
        ok: bool,
    },
    /// Who found no stripe, or an overlap, may look again.
    Room,
    /// A row has been rebuilt or looked at.
    Synced,
    /// The member is whole.
    Rebuilt {
        /// Its place in the array.
        member: u32,
    },
    /// A write to the member failed: it is out.
    Lost {
        /// Its place in the array.
        member: u32,
    },
}

/// A page of a bio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageOf {
    /// The bio's number.
    pub bio: u32,
    /// Within a page of the array.
    pub byte: u64,
    /// Bytes, all in the page.
    pub len: u32,
    /// It is written, and not read.
    pub write: bool,
    /// It is to be on the medium when the bio ends.
    pub fua: bool,
    /// The bio's class.
    pub class: IoClass,
}

/// What became of a page that was added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Added {
    /// To this stripe, which is held until [`Raid5::release`].
    To(u32),
    /// No stripe is free: wait for [`Out::Room`].
    NoStripe,
    /// A write to the same bytes is under way: wait for [`Out::Room`].
    Overlap,
}

/// The work of a pass over a stripe, for who pays: pages copied and pages added to a sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pass {
    /// Pages copied.
    pub copied: u64,
    /// Pages added to a sum.
    pub summed: u64,
}

wordline_base::counters! {
    /// What an array with parity did.
    #[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize)]
    pub struct Stats {
        /// Pages of reads that were added to stripes.
        pages_read,
        /// Pages of writes that were added to stripes.
        pages_written,
        /// Writes of stripes all of whose data are new.
        full_writes,
        /// Writes of stripes by read-modify-write.
        rmw_writes,
        /// Writes of stripes by reconstruct-write.
        rcw_writes,
        /// Pages read for parity.
        prereads,
        /// Pages of data written.
        data_writes,
        /// Pages of parity written.
        parity_writes,
        /// Reads served from pages that were there.
        cache_hits,
        /// Pages of a failed member rebuilt from the others for a read.
        degraded_reads,
        /// Pages of a member that makes room rebuilt from the others for a read.
        around_reads,
        /// Pages that could not be read rebuilt from the others.
        repaired_reads,
        /// Pages that rebuilding a member wrote.
        rebuilt_pages,
        /// Rows looked at after an unclean stop.
        resynced_rows,
        /// Wrong parities found there.
        mismatches,
        /// Pages added to sums.
        xor_pages,
        /// Pages copied.
        copied_pages,
        /// Passes over stripes.
        handled,
        /// Pages that waited for a stripe.
        stripe_waits,
        /// Pages that waited for an overlapping write.
        overlap_waits,
        /// Stripes that waited while others read.
        delayed,
        /// Stripes that waited for a bit of the bitmap.
        bitmap_waits,
        /// Writes of the bitmap.
        bitmap_writes,
        /// Stripes written to the journal.
        log_writes,
        /// Pages written to the journal, its metadata among them.
        log_pages,
        /// Rows trimmed.
        trimmed_rows,
        /// Pages of bios that failed.
        failed_pages,
    }
}

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

    /// handle_stripe_dirtying: whether all is at hand for the new parity, and then whether it is the sum of all
    /// data. Otherwise what is to be read first.
    fn prepare_write(
        &mut self,
        s: u32,
        parity: MemberId,
        there: &IdVec<MemberId, bool>,
        need: &mut IdVec<MemberId, Option<What>>,
        pass: &mut Pass,
    ) -> Option<bool> {
        let n = there.count();
        let count = |raid: &Raid5| {
            let (mut rmw, mut rcw) = (0, 0);
            for (m, dev) in (0..).zip(&raid.heads[s].devs) {
                // What cannot be read is no way.
                let cost = if there[m] { 1 } else { 2 * n };
                if (!dev.write.is_empty() || m == parity) && !dev.uptodate {
                    rmw += cost;
                }
                if m != parity && !dev.overwritten() && !dev.uptodate {
                    rcw += cost;
                }
            }
            (rmw, rcw)
        };
        // Where parity may be wrong it is made anew.
        let anew = self.resync.is_some() && there.iter().all(|there| *there);
        let count = |raid: &Raid5| match (anew, count(raid)) {
            (true, (_, rcw)) => (2 * n - 1, rcw),
            (false, both) => both,
        };
        let (mut rmw, mut rcw) = count(self);
        if rmw.min(rcw) >= 2 * n {
            // A page that is lost is written in part: it is rebuilt first.
            let lost = (0..n).find(|&m| !there[m] && !self.heads[s].devs[m].uptodate);
            let known = |m: MemberId| self.heads[s].devs[m].uptodate;
            if let Some(m) = lost
                && (0..n).all(|o| o == m || known(o))
            {
                self.rebuild_page(s, m, pass);
                (rmw, rcw) = count(self);
            }
        }
        if rcw == 0 || rmw == 0 {
            return Some(rcw == 0);
        }
        let head = &mut self.heads[s];
        if !head.preread {
            head.delayed = true;
            self.stats.delayed += 1;
            return None;
        }
        for m in 0..n {
            let dev = &head.devs[m];
            if dev.uptodate || !there[m] {
                continue;
            }
            let wanted = match (rmw.min(rcw) >= 2 * n, rmw < rcw) {
                (true, _) => true,
                (_, true) => !dev.write.is_empty() || m == parity,
                (_, false) => m != parity && !dev.overwritten(),
            };
            if wanted {
                need[m].get_or_insert(What::Preread);
            }
        }
        None
    }

    /// schedule_reconstruction and its operations: new data and parity, and the writes of both.
    fn reconstruct(&mut self, s: u32, parity: MemberId, by_sums: bool, pass: &mut Pass) {
        let n = self.layout.members;
        let row = self.heads[s].row;
        if !self.has_bit(s, row) {
            return;
        }
        let full = (0..n).all(|m| m == parity || self.heads[s].devs[m].overwritten());
        let of = match (full, by_sums) {
            (true, _) => &mut self.stats.full_writes,
            (_, true) => &mut self.stats.rcw_writes,
            (_, false) => &mut self.stats.rmw_writes,
        };
        *of += 1;
        let mut changed = 0;
        for m in 0..n {
            let dev = &mut self.heads[s].devs[m];
            if dev.write.is_empty() {
                continue;
            }
            changed += 1;
            dev.written = std::mem::take(&mut dev.write);
            pass.copied += dev.written.len() as u64;
            dev.uptodate = true;
            let before = dev.page;
            if self.checks
                && let Some(byte) = self.layout.byte(m, row * PAGE)
            {
                let taken = self.taken.at(byte / PAGE);
                for part in &dev.written {
                    let parts = usize::from(part.from)..usize::from(part.to);
                    for (i, last) in taken.iter_mut().enumerate().filter(|(i, _)| parts.contains(i))
                    {
                        *last = content(byte / PART + i as u64, part.write);
                        dev.page[i] = *last;
                    }
                }
            }
            let mut sum = before;
            add(&mut sum, &dev.page);
            if !by_sums {
                add(&mut self.heads[s].devs[parity].page, &sum);
            }
        }
        if by_sums {
            let sum = self.sum_of_others(s, parity);
            self.heads[s].devs[parity].page = sum;
            pass.summed += n as u64 - 2;
        } else {
            pass.summed += 2 * changed;
        }
        self.heads[s].devs[parity].uptodate = true;
        self.make_room();
        match self.guards.journal {
            Some(bytes) => self.log_out(s, bytes),
            None => self.write_out(s),
        }
    }

    fn writes(&self, s: u32) -> Vec<u32> {
        let head = &self.heads[s];
        let parity = self.layout.parity(head.row * PAGE);
        let of = |m: &u32| head.trimming || Some(*m) == parity || !head.devs[*m].written.is_empty();
        (0..self.layout.members).filter(of).collect()
    }

    /// r5l_write_stripe: data and parity go to the journal before they go to their members.
    fn log_out(&mut self, s: u32, bytes: u64) {
        let head = &mut self.heads[s];
        head.phase = Phase::Logging;
        let row = head.row;
        let of = |m: u32| (m, self.heads[s].devs[m].page);
        let pages: Vec<(u32, Page)> = self.writes(s).into_iter().map(of).collect();
        // A block of metadata goes before them, and says of a trim all there is to say.
        let data = if self.heads[s].trimming { 0 } else { pages.len() as u64 };
        let len = (data + 1) * PAGE;
        if self.log_at + len > bytes {
            self.log_at = 0;
        }
        let offset = self.log_at;
        self.log_at += len;
        self.stats.log_writes += 1;
        self.stats.log_pages += len / PAGE;
        self.log.insert(s, Logged { row, pages });
        let class = self.class(s);
        self.send(s, To::Journal, What::Log, (offset, len), true, class);
    }

    /// ops_run_io of a write.
    fn write_out(&mut self, s: u32) {
        self.heads[s].phase = Phase::Writing;
        let row = self.heads[s].row;
        let parity = self.layout.parity(row * PAGE);
        let fua = self.heads[s].devs.iter().any(|d| d.written.iter().any(|p| p.fua));
        let class = self.class(s);
        for m in self.writes(s) {
            if self.members[m] == Member::Failed {
                continue;
            }
            let of = if Some(m) == parity {
                &mut self.stats.parity_writes
            } else {
                &mut self.stats.data_writes
            };
            *of += 1;
            self.send(s, To::Member(m), What::Write, (row * PAGE, PAGE), fua, class);
        }
        if self.heads[s].flying == 0 {
            self.heads[s].handle = true;
        }
    }

    fn trim_out(&mut self, s: u32) {
        let row = self.heads[s].row;
        if !self.has_bit(s, row) {
            return;
        }
        self.stats.trimmed_rows += 1;
        self.heads[s].trimming = true;
        for m in 0..self.layout.members {
            let dev = &mut self.heads[s].devs[m];
            (dev.page, dev.uptodate) = ([0; PARTS], true);
            if let (true, Some(byte)) = (self.checks, self.layout.byte(m, row * PAGE)) {
                *self.taken.at(byte / PAGE) = [0; PARTS];
            }
        }
        match self.guards.journal {
            Some(bytes) => self.log_out(s, bytes),
            None => self.trim_members(s),
        }
    }
    fn trim_members(&mut self, s: u32) {
        self.heads[s].phase = Phase::Writing;
        let row = self.heads[s].row;
        for m in 0..self.layout.members {
            if self.members[m] != Member::Failed {
                self.send(s, To::Member(m), What::Trim, (row * PAGE, PAGE), false, IoClass::NONE);
            }
        }
    }

    /// handle_stripe_clean_event.
    fn end_writes(&mut self, s: u32) {
        let row = self.heads[s].row;
        let lost = (0..self.members.count()).filter(|&m| !self.in_sync(m, row)).count();
        let ok = lost < 2;
        self.log.remove(&s);
        for m in 0..self.layout.members {
            let dev = &mut self.heads[s].devs[m];
            dev.bad = false;
            let parts = std::mem::take(&mut dev.written);
            let trimmed = self.heads[s].trimming;
            let Some(byte) = self.layout.byte(m, row * PAGE) else { continue };
            if self.checks && (trimmed || !parts.is_empty()) {
                *self.acked.at(byte / PAGE) = self.taken.get(byte / PAGE);
            }
            for part in parts {
                self.stats.failed_pages += u64::from(!ok);
                self.out.push_back(Out::Ended { bio: part.bio, ok });
            }
        }
        let head = &mut self.heads[s];
        if std::mem::take(&mut head.trimming)
            && let Some(bio) = head.trim.take()
        {
            self.out.push_back(Out::Ended { bio, ok });
        }
        self.make_room();
        let head = &mut self.heads[s];
        if std::mem::take(&mut head.preread) {
            self.prereading -= 1;
        }
        if std::mem::take(&mut head.counted)
            && let Some(region) = self.region(row)
            && let Some(r) = self.regions.get_mut(&region)
        {
            r.pending -= 1;
        }
    }

    fn region(&self, row: u64) -> Option<u64> {
        self.guards.bitmap.map(|bytes| row * PAGE / bytes)
    }
    /// The bit of the stripe's region is on all members: writes may go out (bitmap_startwrite).
    fn has_bit(&mut self, s: u32, row: u64) -> bool {
        let Some(region) = self.region(row) else { return true };
        let r = self.regions.entry(region).or_insert(Region {
            pending: 0,
            on_disk: false,
            idle: false,
        });
        r.idle = false;
        let head = &mut self.heads[s];
        if !std::mem::replace(&mut head.counted, true) {
            r.pending += 1;
        }
        if r.on_disk {
            return true;
        }
        head.handle = true;
        head.place = Place::Bitmap;
        self.stats.bitmap_waits += 1;
        self.at_bitmap.push(s);
        self.bits_wanted.insert(region);
        self.write_bits();
        false
    }
    fn write_bits(&mut self) {
        if self.bits_flying > 0 || self.bits_wanted.is_empty() {
            return;
        }
        self.bits_written = std::mem::take(&mut self.bits_wanted).into_iter().collect();
        let mut pages: Vec<u64> = self.bits_written.iter().map(|r| r / BITS).collect();
        pages.dedup();
        for page in pages {
            for m in 0..self.layout.members {
                if self.members[m] != Member::Failed {
                    self.bits_flying += 1;
                    self.stats.bitmap_writes += 1;
                    let at = self.layout.used + page * PAGE;
                    self.send(NOBODY, To::Member(m), What::Bitmap, (at, PAGE), true, IoClass::NONE);
                }
            }
        }
    }
    fn bits_done(&mut self) {
        self.bits_flying -= 1;
        if self.bits_flying > 0 {
            return;
        }
        for region in std::mem::take(&mut self.bits_written) {
            if let Some(r) = self.regions.get_mut(&region) {
                r.on_disk = true;
            }
        }
        for s in std::mem::take(&mut self.at_bitmap) {
            let row = self.heads[s].row;
            let there =
                self.region(row).is_none_or(|r| self.regions.get(&r).is_some_and(|r| r.on_disk));
            if there {
                self.heads[s].place = Place::None;
                self.settle(s);
            } else {
                self.at_bitmap.push(s);
            }
        }
        self.write_bits();
    }
    /// Bits of regions that were not written for a while are cleared (bitmap_daemon_work).
    pub fn tidy_bitmap(&mut self) {
        if self.bits_flying > 0 || !self.is_whole() || self.resync.is_some() {
            return;
        }
        let mut cleared = BTreeSet::new();
        self.regions.retain(|&region, r| {
            let gone = r.pending == 0 && r.on_disk && std::mem::replace(&mut r.idle, true);
            if gone {
                cleared.insert(region / BITS);
            }
            !gone
        });
        for page in cleared {
            for m in 0..self.layout.members {
                self.bits_flying += 1;
                self.stats.bitmap_writes += 1;
                let at = self.layout.used + page * PAGE;
                self.send(NOBODY, To::Member(m), What::Bitmap, (at, PAGE), false, IoClass::NONE);
            }
        }
    }

    /// Another drive takes a failed member's place: it is to be filled.
    pub fn replace(&mut self, member: u32) {
        self.members[member] = Member::Rebuilding(0);
        self.held[member] = Pages::default();
        (self.sync_at, self.synced) = (0, BTreeSet::new());
        for head in &mut self.heads {
            head.devs[member].bad = false;
        }
    }
    /// Rows are left to rebuild or look at, and who that is for.
    pub fn syncs(&self) -> bool {
        self.resync.is_some() || self.members.iter().any(|m| matches!(m, Member::Rebuilding(_)))
    }
    fn rows(&self) -> u64 {
        self.layout.used / PAGE
    }
    /// The next row that is to be rebuilt or looked at; none: all are on their way.
    pub fn next_sync(&mut self) -> Option<u64> {
        if !self.syncs() || self.is_lost() {
            return None;
        }
        while self.sync_at < self.rows() {
            let row = self.sync_at;
            self.sync_at += 1;
            let dirty = match (&self.resync, self.region(row)) {
                (Some(Some(regions)), Some(region)) => regions.contains(&region),
                _ => true,
            };
            if dirty || !self.is_whole() {
                return Some(row);
            }
            self.row_synced(row);
        }
        None
    }
    /// It could not be begun.
    pub fn sync_later(&mut self, row: u64) {
        self.sync_at = self.sync_at.min(row);
    }
    /// raid5_sync_request.
    pub fn sync(&mut self, row: u64) -> Added {
        let Some(s) = self.get(row) else { return Added::NoStripe };
        let head = &mut self.heads[s];
        if head.trim.is_some() {
            self.settle(s);
            return Added::Overlap;
        }
        (head.sync, head.handle) = (true, true);
        head.users += 1;
        Added::To(s)
    }

    /// All that can be read is there: the missing page, or a parity that is wrong, is written.
    fn sync_out(
        &mut self,
        s: u32,
        parity: MemberId,
        there: &IdVec<MemberId, bool>,
        pass: &mut Pass,
    ) -> bool {
        let row = self.heads[s].row;
        let lost: Vec<MemberId> = (0..there.count()).filter(|&m| !there[m]).collect();
        let target = match *lost {
            [] => {
                self.stats.resynced_rows += 1;
                pass.summed += there.len() as u64 - 2;
                let sum = self.sum_of_others(s, parity);
                if self.heads[s].devs[parity].page == sum {
                    self.end_sync(s);
                    return false;
                }
                self.stats.mismatches += 1;
                self.heads[s].devs[parity].page = sum;
                parity
            }
            [m] if matches!(self.members[m], Member::Rebuilding(_)) => {
                if !self.heads[s].devs[m].uptodate {
                    self.rebuild_page(s, m, pass);
                }
                self.stats.rebuilt_pages += 1;
                m
            }
            _ => {
                // Nothing can be done here.
                self.end_sync(s);
                return false;
            }
        };
        self.heads[s].phase = Phase::Syncing;
        self.send(s, To::Member(target), What::Write, (row * PAGE, PAGE), false, IoClass::NONE);
        true
    }
    fn end_sync(&mut self, s: u32) {
        let head = &mut self.heads[s];
        head.sync = false;
        for dev in &mut head.devs {
            dev.bad = false;
        }
        head.handle |= head.devs.iter().any(|d| !d.read.is_empty() || !d.write.is_empty());
        let row = head.row;
        self.make_room();
        self.out.push_back(Out::Synced);
        self.row_synced(row);
    }
    fn row_synced(&mut self, row: u64) {
        if self.resync.is_some() && self.is_whole() {
            self.resynced += 1;
            if self.resynced == self.rows() {
                self.resync = None;
            }
            return;
        }
        let rebuilt = |m: &Member| match m {
            Member::Rebuilding(to) => Some(*to),
            _ => None,
        };
        let Some(mut to) = self.members.iter().find_map(rebuilt) else { return };
        self.synced.insert(row);
        while self.synced.remove(&to) {
            to += 1;
        }
        let rows = self.rows();
        for (m, state) in (0..).zip(&mut self.members) {
            if let Member::Rebuilding(at) = state {
                *at = to;
                if to == rows {
                    *state = Member::InSync;
                    self.out.push_back(Out::Rebuilt { member: m });
                }
            }
        }
    }

    /// The power goes. `reaches` says of each I/O that is out whether it is done all the same.
    pub fn cut(mut self, mut reaches: impl FnMut(&Io) -> bool) -> Disks {
        let mut dirty: BTreeSet<u64> =
            self.regions.iter().filter(|(_, r)| r.on_disk).map(|(region, _)| *region).collect();
        let mut journal: BTreeMap<u32, Logged> = std::mem::take(&mut self.log);
        let out: Vec<Io> = self.out_now().copied().collect();
        for io in out {
            let done = reaches(&io);
            match (io.what, io.to) {
                (What::Log, _) if !done => {
                    journal.remove(&io.stripe);
                }
                (What::Bitmap, _) if done => dirty.extend(&self.bits_written),
                (What::Write | What::Trim, To::Member(m)) if done => {
                    let head = &self.heads[io.stripe];
                    *self.held[m].at(head.row) = head.devs[m].page;
                }
                _ => {}
            }
        }
        Disks {
            layout: self.layout,
            guards: self.guards,
            members: self.members,
            held: self.held,
            dirty,
            journal: journal.into_values().collect(),
            acked: self.acked,
            taken: self.taken,
            writes: self.writes,
        }
    }
    fn out_now(&self) -> impl Iterator<Item = &Io> {
        self.ios.records().filter(|(id, io)| io.id == *id).map(|(_, io)| io)
    }
    /// Nothing is out to the member: another drive may take its place.
    pub fn is_quiet(&self, member: u32) -> bool {
        self.out_now().all(|io| io.to != To::Member(member))
    }

    /// The array after a power cut: the journal is replayed, and rows whose parity may be wrong are to be looked
    /// at: those of regions that the bitmap has, or all.
    pub fn assemble(disks: Disks, stripes: u32) -> Raid5 {
        let Disks { layout, guards, members, mut held, dirty, journal, acked, mut taken, writes } =
            disks;
        for entry in &journal {
            for (m, page) in &entry.pages {
                *held[*m].at(entry.row) = *page;
            }
        }
        // Writes that were not acknowledged are there or not: what their sectors hold is what was written last.
        let mut acked = acked;
        let numbers: Vec<u64> = taken.numbers().collect();
        for page in numbers {
            let (m, offset) = layout.place(page * PAGE);
            let row = offset / PAGE;
            let mut there = held[m].get(row);
            if members[m] != Member::InSync {
                there = [0; PARTS];
                let others = (0..).zip(&held).filter(|(o, _)| *o != m);
                others.for_each(|(_, pages)| add(&mut there, &pages.get(row)));
            }
            let before = acked.get(page);
            let last = taken.at(page);
            for i in 0..PARTS {
                if there[i] == before[i] {
                    last[i] = before[i];
                }
            }
            *acked.at(page) = *last;
        }
        let mut raid = Raid5::new(layout, stripes, guards, true);
        (raid.members, raid.held, raid.taken, raid.acked) = (members, held, taken, acked);
        raid.writes = writes;
        raid.resync = match (guards.journal, guards.bitmap) {
            (Some(_), _) => None,
            (None, Some(_)) => Some(Some(dirty.clone())),
            (None, None) => Some(None),
        };
        for region in dirty {
            raid.regions.insert(region, Region { pending: 0, on_disk: true, idle: false });
        }
        raid
    }
    /// Rows whose parity is not the sum of their data, of those that are at rest on whole members.
    pub fn wrong_parities(&self) -> u64 {
        let rows: BTreeSet<u64> = self.held.iter().flat_map(Pages::numbers).collect();
        let at_rest = |row: &u64| {
            let flying = |&s: &u32| {
                let head = &self.heads[s];
                head.flying > 0
                    || matches!(head.phase, Phase::Writing | Phase::Logging | Phase::Syncing)
            };
            !self.by_row.get(row).is_some_and(flying)
                && (0..self.members.count()).all(|m| self.in_sync(m, *row))
        };
        let wrong = |row: &u64| {
            let mut sum = [0; PARTS];
            self.held.iter().for_each(|pages| add(&mut sum, &pages.get(*row)));
            sum != [0; PARTS]
        };
        rows.iter().filter(|row| at_rest(row) && wrong(row)).count() as u64
    }

    /// Pages of data that the array would return otherwise than they were acknowledged, without the member if one
    /// is named. At rest.
    pub fn lost_without(&self, member: Option<u32>) -> u64 {
        let lost = |page: &u64| {
            let (m, offset) = self.layout.place(page * PAGE);
            let row = offset / PAGE;
            let there = Some(m) != member && self.in_sync(m, row);
            let page_there = match there {
                true => self.held[m].get(row),
                false => {
                    let mut sum = [0; PARTS];
                    let others = (0..).zip(&self.held).filter(|(o, _)| *o != m);
                    others.for_each(|(_, pages)| add(&mut sum, &pages.get(row)));
                    sum
                }
            };
            let (acked, taken) = (self.acked.get(*page), self.taken.get(*page));
            (0..PARTS).any(|i| page_there[i] != acked[i] && page_there[i] != taken[i])
        };
        self.acked.numbers().filter(lost).count() as u64
    }
}
