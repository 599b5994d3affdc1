//! The flash translation layer of a conventional drive (docs/design/firmware.md).
//!
//! ```text
//! write -> waiting (no room, or the collector is owed) -> buffer -> unit of a superblock -> flash
//! ```
//!
//! Sectors are mapped one by one and packed into units; a unit goes to the next idle LUN. The collector
//! moves as much as users have taken, in small steps.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod age;
mod cached;
mod check;
mod config;
mod gc;
mod map;
mod recover;
mod refresh;
mod space;
mod state;
mod write;

pub use config::{Allocation, FirmwareConfig, Victim, held_in_use, slc_buffer};
pub use recover::{Kept, Media, Spare, Void};

use cached::Cached;
use config::Plan;
use gc::Gc;
use map::{Map, Where};
use refresh::Refresh;
use space::{Space, State, Superblock, SuperblockId, Unit};
use std::collections::VecDeque;
use wordline_base::{BadValue, BitMap, Ctx, IdVec, Kind, Lpn, PageData, Slab, Stamps, Time};
use wordline_nand::{BlockId, Geometry, LineId, LunId, Outcome, Ppa};
use wordline_translation::{
    Action, AgeError, BlockState, Breach, Capacity, ClosedLine, Command, Commands, Counters,
    Digest, MapHeld, Memory, Newest, Order, Piece, SlcUse, Source, Translation, split,
};
use write::{Slot, Stream};

/// The index of the timer that looks whether the drive is idle.
const TIMER_IDLE: u32 = 0;

/// An operation under way.
#[derive(Clone, Copy, Debug)]
enum Op {
    /// Of so many slots, which are kept by the number of the operation.
    Program {
        unit: Unit,
        slots: u32,
        stream: Stream,
    },
    /// A run of a victim's unit, for which so many slots are kept.
    Read {
        ppa: u32,
        sectors: u32,
        slots: u32,
    },
    Erase {
        block: BlockId,
        superblock: SuperblockId,
    },
    /// A page of the map.
    MapRead {
        page: u32,
        ppa: u32,
    },
}

/// The FTL of a conventional drive.
#[derive(Clone)]
pub struct Firmware {
    /// The shape of the flash.
    g: Geometry,
    /// Its settings.
    config: FirmwareConfig,
    /// Over-provisioning, in percent.
    over_provisioning: f64,
    /// How the flash is divided.
    plan: Plan,
    /// The map.
    map: Map,
    /// Superblocks.
    space: Space,
    /// Slots of the buffer.
    slots: IdVec<u32, Slot>,
    /// Free slots of users, of the collector, and of pages of the map that give way.
    free: [Vec<u32>; 3],
    /// Where each stream writes.
    streams: [write::Open; write::STREAMS],
    /// Ageing lays data out that went through the buffer with a bit a cell long ago.
    native_only: bool,
    /// Whether a program or an erasure is under way at each LUN: there is one at most.
    busy: IdVec<LunId, bool>,
    /// LUNs at which there is none.
    idle_luns: u32,
    /// Reads of users under way at each LUN.
    lun_reads: IdVec<LunId, u32>,
    /// Flash operations under way.
    ops: Slab<Op>,
    /// By number of a program, its slots.
    op_slots: Vec<u32>,
    /// Reads of users under way.
    reads: u32,
    /// Commands that wait for room.
    waiting: Commands,
    /// What is not durable, where a power cut empties the buffer.
    order: Order,
    /// The collector.
    gc: Gc,
    /// What is written anew before it is too old.
    refresh: Refresh,
    /// Pages of the map with sectors trimmed since they were written.
    trimmed: BitMap,
    /// Pages of the map in memory, where that holds a part of it.
    cached: Option<Box<Cached>>,
    /// The next page of the map to write.
    page: u32,
    /// What of it is due, in user sectors times pages.
    page_share: u64,
    /// What it wants done.
    actions: VecDeque<Action>,
    /// Counts since the start.
    counters: Counters,
    /// There is no space for what has to be moved: writes fail.
    read_only: bool,
    /// It was loaded without the versions that sectors hold.
    stamps_unknown: bool,
    /// The last command of a user.
    last_command: Time,
    /// The timer runs.
    timer: bool,
}

impl Firmware {
    /// `bad(lun, line)` tells factory bad blocks. An error names the configuration key.
    pub fn new(
        g: &Geometry,
        over_provisioning: f64,
        config: &FirmwareConfig,
        bad: &mut dyn FnMut(LunId, LineId) -> bool,
    ) -> Result<Firmware, BadValue> {
        Firmware::build(g, over_provisioning, config, bad, Capacity::Fresh)
    }
    fn build(
        g: &Geometry,
        over_provisioning: f64,
        config: &FirmwareConfig,
        bad: &mut dyn FnMut(LunId, LineId) -> bool,
        capacity: Capacity,
    ) -> Result<Firmware, BadValue> {
        let space = Space::new(g, Plan::luns(g, config)?, Plan::slc_lines(g, config)?, bad);
        let plan = Plan::new(g, config, over_provisioning, &space, capacity)?;
        let (users, moved) = (plan.slots, plan.slots + plan.gc_slots);
        let all = moved + plan.map_slots;
        let open = write::Open::new(space.groups);
        Ok(Firmware {
            g: *g,
            config: config.clone(),
            plan,
            map: Map::new(g, plan.sectors, plan.pages),
            over_provisioning,
            trimmed: BitMap::new(plan.pages as usize),
            cached: (plan.room > 0).then(|| Box::new(Cached::new(plan.pages, plan.room))),
            page: 0,
            page_share: 0,
            slots: IdVec::filled(Slot::default(), all),
            free: [(0..users), (users..moved), (moved..all)].map(|slots| slots.rev().collect()),
            streams: std::array::from_fn(|_| open.clone()),
            native_only: false,
            busy: IdVec::filled(false, g.luns),
            idle_luns: g.luns,
            lun_reads: IdVec::filled(0, g.luns),
            ops: Slab::with_capacity(64),
            op_slots: Vec::new(),
            reads: 0,
            waiting: Commands::default(),
            order: Order::default(),
            gc: Gc::default(),
            refresh: Refresh::new(config, &plan, &space),
            actions: VecDeque::new(),
            counters: Counters::default(),
            read_only: matches!(capacity, Capacity::Worn(_)),
            stamps_unknown: false,
            last_command: Time(0),
            timer: false,
            space,
        })
    }
    /// The shape of the flash under it.
    pub fn geometry(&self) -> &Geometry {
        &self.g
    }
    /// The version of a sector's newest copy, if there is one.
    pub fn version(&self, lpn: Lpn) -> Option<u32> {
        match self.map.get(lpn.0) {
            Where::Unmapped | Where::Lost => None,
            Where::Buffer(slot) => Some(self.slots[slot].stamp),
            Where::Flash(ppa) => Some(self.map.stamp_at(ppa)),
        }
    }
    /// The sector's only copy could not be read.
    pub fn is_lost(&self, lpn: Lpn) -> bool {
        self.map.get(lpn.0) == Where::Lost
    }
    /// Nothing is waiting, unwritten or in flight.
    pub fn is_quiet(&self) -> bool {
        self.waiting.is_empty()
            && self.actions.is_empty()
            && self.ops.is_empty()
            && self.reads == 0
            && self.streams.iter().all(|stream| stream.queue.is_empty())
            && self.cached.as_ref().is_none_or(|cached| cached.rests())
    }
    /// Units that are free or become free by what the collector has begun, of all.
    pub fn free_units(&self) -> u64 {
        self.coming()
    }
    /// The same at which the collector begins, and at which it moves twice what users take.
    pub fn marks(&self) -> (u64, u64) {
        (self.plan.start, self.plan.low)
    }
    /// The most sectors that the collector moves for one of a user: what it may owe for it.
    pub fn most_moves(&self) -> f64 {
        self.gc.most as f64 / gc::PARTS as f64
    }
    /// The logical sector and the version that a physical one holds, as its spare area has them.
    pub fn holds(&self, ppa: Ppa) -> Option<(Lpn, u32)> {
        let lpn = self.map.lpn_at(ppa.0);
        (lpn != map::NOBODY).then(|| (Lpn(lpn), self.map.stamp_at(ppa.0)))
    }
    fn keep_stamps(&mut self, stamps: &Stamps) {
        if stamps.is_on() {
            self.map.keep_stamps();
        }
    }
    fn issue(&mut self, op: Op, make: impl FnOnce(u32) -> Action) -> u32 {
        let op = self.ops.insert(op);
        self.actions.push_back(make(op));
        op
    }
    fn occupy(&mut self, lun: LunId, busy: bool) {
        debug_assert_ne!(self.busy[lun], busy);
        self.busy[lun] = busy;
        self.idle_luns = if busy { self.idle_luns - 1 } else { self.idle_luns + 1 };
    }
    /// The sector on flash is in use no more.
    #[inline]
    fn invalidate(&mut self, ppa: u32) {
        self.map.mark(ppa, false);
        let s = self.space.superblock_of(ppa);
        let superblock = &mut self.space.superblocks[s];
        superblock.valid -= 1;
        if self.gc.barren && superblock.state == State::Closed {
            self.gc.barren = superblock.valid > (superblock.size - 1) * self.g.sectors_per_unit;
        }
        self.look_for_empty(s);
    }
    /// The sector is on flash there, and in use.
    #[inline]
    fn validate(&mut self, s: SuperblockId, lpn: u32, ppa: u32) {
        self.map.set(lpn, Where::Flash(ppa));
        self.map.mark(ppa, true);
        self.space.superblocks[s].valid += 1;
    }

    /// Does everything that can be done now.
    fn work(&mut self, stamps: &mut Stamps) {
        loop {
            let fetched = self.cached.is_some() && self.fetch_pages();
            let admitted = self.admit(stamps);
            // Before programs, which would keep its LUN busy for ever.
            let erased = self.erase();
            let programmed = self.program();
            let collected = self.collect();
            if fetched || admitted || erased || programmed || collected || self.erase_on_idle() {
                continue;
            }
            let waits = !self.waiting.is_empty()
                || self.order.is_waited_for()
                || self.cached.as_ref().is_some_and(|cached| !cached.rests());
            if waits && self.pad_moved() {
                continue;
            }
            let stuck = waits && self.ops.is_empty() && self.reads == 0;
            if !stuck || !self.unstick() {
                break;
            }
        }
    }
    /// Users wait and nothing is under way that could help them: what the collector has in memory is
    /// padded out, then what users have; failing that no space can be made.
    fn unstick(&mut self) -> bool {
        let held = |stream: &write::Open| !stream.queue.is_empty() && !stream.pad;
        if let Some(stream) = self.streams.iter_mut().rev().find(|stream| held(stream)) {
            stream.pad = true;
            self.counters.drains += 1;
            return true;
        }
        if self.open_for_collector() {
            return true;
        }
        // An erasure may wait for what users have in the buffer, which lost its place to a failing block.
        if !self.read_only
            && !self.config.protected
            && (self.open_for_users() || self.erase_unneeded())
        {
            return true;
        }
        if self.read_only {
            return false;
        }
        self.read_only = true;
        self.lose_buffer();
        true
    }
    fn done(&mut self, op: u32, ok: bool) {
        match self.ops.remove(op) {
            Op::Program { unit, slots, stream } => {
                self.occupy(self.space.lun_of(unit), false);
                self.programmed(op, unit, slots, stream, ok);
            }
            Op::Read { ppa, sectors, slots } => self.collected(ppa, sectors, slots, ok),
            Op::Erase { block, superblock } => {
                self.occupy(block % self.g.luns, false);
                self.erased(superblock, block, ok);
            }
            Op::MapRead { page, ppa } => self.page_read(page, ppa, ok),
        }
    }
    /// There is something to do for an idle collector.
    #[inline(always)]
    fn idle_work(&self) -> bool {
        let refreshes = self.refresh.has_victim()
            || self.refresh.waits() && (self.refreshes() || self.is_short());
        self.plan.idle > 0 && self.coming() < self.plan.idle || self.gc.fold || refreshes
    }
    /// Sets the timer, if there is something to do for an idle collector.
    #[inline(always)]
    fn wait_for_idle(&mut self, ctx: &mut Ctx) {
        if !self.timer && self.idle_work() {
            self.timer = true;
            ctx.at(ctx.now + self.config.idle_after, Kind::FtlTimer, TIMER_IDLE);
        }
    }
}

impl Translation for Firmware {
    fn sectors(&self) -> u64 {
        self.plan.sectors
    }
    fn start(&mut self, ctx: &mut Ctx) {
        if ctx.stamps.is_on() {
            self.adopt_stamps(&mut ctx.stamps);
        }
        self.last_command = ctx.now;
        self.start_refresh(ctx);
        self.wait_for_idle(ctx);
        self.work(&mut ctx.stamps);
    }
    fn prefetch(&mut self, ctx: &Ctx, lpn: Lpn) {
        self.map.prefetch(lpn.0);
        ctx.stamps.prefetch(lpn);
    }
    fn closed_lines(&self) -> Box<dyn Iterator<Item = ClosedLine> + '_> {
        // What is written with a bit a cell is a buffer, and pages of the map are stale soon by nature.
        let closed = |b: &&Superblock| b.state == State::Closed && !b.slc && !b.maps;
        let closed = self.space.superblocks.iter().filter(closed);
        Box::new(closed.map(|b| {
            let all = b.size * self.g.sectors_per_unit;
            ClosedLine { opened: b.opened, stale: u64::from(all.saturating_sub(b.valid)) }
        }))
    }
    fn user_came(&mut self, ctx: &mut Ctx) {
        if self.plan.idle > 0 || self.plan.has_slc() || self.refresh.is_on() {
            self.last_command = ctx.now;
            self.gc.idle = false;
            self.wait_for_idle(ctx);
        }
    }
    fn looks_up(&self) -> bool {
        self.cached.is_some()
    }
    fn look_up(&mut self, ctx: &mut Ctx, tag: u32, lpn: Lpn, sectors: u32) -> bool {
        if self.cached.is_none() || self.use_pages(tag, lpn.0, sectors, false) {
            return true;
        }
        self.work(&mut ctx.stamps);
        false
    }
    fn read(&mut self, ctx: &mut Ctx, lpn: Lpn, sectors: u32, out: &mut Vec<Piece>) {
        self.user_came(ctx);
        let before = out.len();
        let (map, slots) = (&self.map, &self.slots);
        let waiting = &self.waiting;
        let newest = |lpn| match map.get(lpn) {
            _ if waiting.trims(Lpn(lpn)) => Newest::Unmapped,
            Where::Unmapped => Newest::Unmapped,
            Where::Lost => Newest::Lost,
            Where::Buffer(slot) => Newest::Buffer(slots[slot].stamp),
            Where::Flash(ppa) => Newest::Flash(Ppa(ppa)),
        };
        let unit = self.g.sectors_per_unit;
        split(ctx, &mut self.counters, unit, lpn, sectors, newest, out);
        let mut due = false;
        for piece in &out[before..] {
            let Some(ppa) = piece.place.ppa() else { continue };
            if self.refresh.counts_reads() {
                due |= self.unit_is_read(ppa.0);
            }
            let lun = self.space.lun_of(self.space.unit_of(ppa.0));
            let s = self.space.superblock_of(ppa.0);
            self.space.superblocks[s].reads += 1;
            self.lun_reads[lun] += 1;
            self.reads += 1;
        }
        if due {
            self.work(&mut ctx.stamps);
            self.wait_for_idle(ctx);
        }
    }
    fn read_failed(&mut self) {
        self.counters.read_errors += 1;
    }
    fn read_done(&mut self, ctx: &mut Ctx, ppa: Ppa, _: u32) {
        let lun = self.space.lun_of(self.space.unit_of(ppa.0));
        let s = self.space.superblock_of(ppa.0);
        self.space.superblocks[s].reads -= 1;
        self.lun_reads[lun] -= 1;
        self.reads -= 1;
        let last = self.reads == 0 && !self.waiting.is_empty();
        if self.space.superblocks[s].state == State::Drained || last {
            self.work(&mut ctx.stamps);
        }
    }
    fn write(
        &mut self,
        ctx: &mut Ctx,
        tag: u32,
        lpn: Lpn,
        sectors: u32,
        fua: bool,
        source: Source,
    ) {
        self.keep_stamps(&ctx.stamps);
        self.waiting.write(tag, lpn, sectors, fua, source);
        self.gc.idle = false;
        self.work(&mut ctx.stamps);
        self.user_came(ctx);
    }
    fn flush(&mut self, ctx: &mut Ctx, tag: u32) {
        self.waiting.flush(tag);
        self.work(&mut ctx.stamps);
    }
    fn trim(&mut self, ctx: &mut Ctx, tag: u32, lpn: Lpn, sectors: u32) {
        // Only a write to the same sectors delays it: a cache may take a newer one before it ends. Without
        // capacitors it has its turn behind a flush.
        match self.config.protected && !self.waiting.writes(lpn, sectors) {
            true => self.trim_now(&mut ctx.stamps, tag, lpn.0, sectors, false),
            false => self.waiting.show_trim(tag, lpn, sectors, &mut ctx.stamps),
        }
        self.gc.idle = false;
        self.work(&mut ctx.stamps);
        self.user_came(ctx);
    }
    fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
    fn on_done(&mut self, ctx: &mut Ctx, op: u32, outcome: Outcome) {
        self.done(op, outcome == Outcome::Ok);
        self.work(&mut ctx.stamps);
        // The last superblock of a burst is closed after the last command.
        if self.gc.fold && !self.gc.idle {
            self.wait_for_idle(ctx);
        }
    }
    fn on_timer(&mut self, ctx: &mut Ctx, which: u32) {
        if which == refresh::TIMER {
            return self.age_ticks(ctx);
        }
        self.timer = false;
        let until = self.last_command + self.config.idle_after;
        if self.waiting.is_empty() && ctx.now >= until {
            self.gc.idle = true;
            self.work(&mut ctx.stamps);
        } else if self.idle_work() {
            self.timer = true;
            let at = if until > ctx.now { until } else { ctx.now + self.config.idle_after };
            ctx.at(at, Kind::FtlTimer, TIMER_IDLE);
        }
    }

    fn digest(&self, ppa: Ppa, _: Lpn, sectors: u32) -> u64 {
        let mut digest = Digest::new();
        for ppa in ppa.0..ppa.0 + sectors {
            digest.add(self.map.lpn_at(ppa), self.map.stamp_at(ppa));
        }
        digest.get()
    }
    fn data(&self, _: u32, ppa: Ppa, to: &mut PageData) {
        for i in 0..self.g.sectors_per_unit {
            let lpn = self.map.lpn_at(ppa.0 + i);
            if lpn != map::NOBODY {
                to.put(i, lpn, self.map.stamp_at(ppa.0 + i));
            }
        }
    }

    fn fill(&mut self, stamps: &mut Stamps) -> Result<(), AgeError> {
        self.age_fill(stamps)
    }
    fn overwrite(&mut self, stamps: &mut Stamps, lpns: &[u32]) -> Result<(), AgeError> {
        self.age(stamps, lpns)
    }
    fn unmap(&mut self, lpn: Lpn, sectors: u32) -> Result<(), AgeError> {
        self.age_trim(lpn.0, sectors)
    }
    fn rest(&mut self, stamps: &mut Stamps) -> Result<(), AgeError> {
        self.age_rest(stamps)
    }
    fn fold(&mut self, stamps: &mut Stamps) -> Result<(), AgeError> {
        self.age_begin(stamps)?;
        self.age_fold()
    }
    fn settle(&mut self) {
        self.age_end();
    }
    fn media_state(&self) -> Box<dyn Iterator<Item = BlockState> + '_> {
        let luns = self.g.luns;
        Box::new((0..self.g.lines * luns).map(move |block| BlockState {
            line: block / luns,
            lun: block % luns,
            bad: self.space.is_bad(block),
            programmed: self.space.pages[block],
            erases: self.space.erases[block],
            slc: self.space.superblocks[self.space.superblock_of_block(block)].slc,
        }))
    }
    fn adopt_stamps(&mut self, stamps: &mut Stamps) {
        if self.map.stamps.is_some() && !self.stamps_unknown {
            return;
        }
        self.stamps_unknown = false;
        self.map.adopt_stamps(stamps);
    }

    fn newest_at(&self, lpn: Lpn) -> Option<Ppa> {
        match self.map.get(lpn.0) {
            Where::Flash(ppa) if !self.waiting.trims(lpn) => Some(Ppa(ppa)),
            _ => None,
        }
    }
    fn oob(&self, ppa: Ppa) -> Option<(Lpn, u32)> {
        self.holds(ppa).filter(|(lpn, _)| u64::from(lpn.0) < self.plan.sectors)
    }
    fn unwritten(&self) -> Vec<(Lpn, u32)> {
        let mut is_free: IdVec<u32, bool> = vec![false; self.slots.len()].into();
        self.free.iter().flatten().for_each(|&slot| is_free[slot] = true);
        let held = self.slots.iter().zip(&is_free).filter(|(_, free)| !**free);
        let held = held.map(|(slot, _)| (Lpn(slot.lpn), slot.stamp));
        held.chain(self.waiting.stamped()).collect()
    }
    fn free_lines(&self) -> Option<(u32, f64, f64)> {
        let groups = self.space.groups;
        let line = f64::from(self.g.units_per_line());
        let reserve = f64::from(self.plan.reserve) / f64::from(groups);
        Some((self.space.free_count / groups, reserve, self.plan.start as f64 / line))
    }
    fn begins_late(&self) -> Option<[f64; 2]> {
        let block = f64::from(self.space.places());
        let late = self.config.paced && self.plan.start < self.plan.calm;
        late.then(|| [self.plan.start, self.plan.calm].map(|units| units as f64 / block))
    }
    fn save(&self, to: &mut dyn std::io::Write) -> std::io::Result<()> {
        self.save_state(to)
    }
    fn counters(&self) -> &Counters {
        &self.counters
    }
    fn memory(&self) -> Memory {
        // A part of the pages, and where each of all is.
        let page = self.g.sector.bytes();
        let part = u64::from(self.plan.room) * page + 4 * u64::from(self.plan.pages);
        let mapping = match self.cached {
            Some(_) => part + self.map.bytes_in_use(),
            None => self.map.bytes(),
        };
        let stamps = self.map.stamp_bytes();
        let sectors = self.g.sectors();
        let pages = if stamps > 0 { sectors } else { 0 };
        Memory { mapping, stamps, pages, parity: 0, sectors }
    }
    fn collector_holds(&self) -> bool {
        matches!(self.waiting.first(), Some(Command::Write { .. }))
            && (self.gc_lags() || self.is_scarce())
    }
    fn is_collecting(&self) -> bool {
        self.gc.is_at_work()
    }
    fn slc_use(&self) -> Option<SlcUse> {
        self.plan.has_slc().then(|| {
            let (units, taken) = (u64::from(self.g.sectors_per_unit), self.space.slc_taken());
            let each = u64::from(self.space.luns * self.g.slc_pages);
            let room = self.space.slc_room + u64::from(self.may_borrow_more()) * each;
            SlcUse { taken: taken * units, room: room * units }
        })
    }
    fn map_held(&self) -> Option<MapHeld> {
        let cached = self.cached.as_ref()?;
        let changed = cached.pages().filter(|(_, changed)| *changed).count() as u64;
        Some(MapHeld { pages: cached.pages().count() as u64, changed })
    }
    fn hold_collection(&mut self, ctx: &mut Ctx, hold: bool) {
        self.gc.held = hold;
        self.work(&mut ctx.stamps);
    }
    fn check_invariants(&self) -> Result<(), Breach> {
        self.check()
    }
    /// Sectors that nobody wrote since the fill are moved in order, and many of them share a page of a map that is on
    /// flash. After random writes of three capacities 5 % of the sectors (e^-3) have not been written.
    fn least_overwrites(&self) -> f64 {
        if self.plan.room > 0 { 3.0 } else { 0.0 }
    }
    fn boxed(&self) -> Box<dyn Translation> {
        Box::new(self.clone())
    }
}
