//! The flash translation layer: pblk's write buffer, lines, metadata, garbage collection and rate
//! limiter, as a machine without clock or I/O. It runs inside a drive or on the host above an
//! open-channel drive; what its work costs there is charged by whoever drives it.
//!
//! Inputs are [`Ftl::read`], [`Ftl::write`], [`Ftl::flush`], [`Ftl::trim`], [`Ftl::on_done`] and
//! [`Ftl::on_timer`]; after each, [`Ftl::poll`] is drained. A sector's way:
//!
//! ```text
//! write -> waiting (no room, or no budget) -> ring -> unit of the open line -> flash
//!                                              ^                                |
//!                                              +---- garbage collector <--------+
//! ```
//!
//! Modules: `ring` the write buffer, `user` the commands, `write` the write thread, `line` the lines
//! and their layout, `map` L2P and its inverse, `gc` the collector, `rate` the limiter, `age` the same
//! without time, `state` saving and loading, `recover` the map rebuilt from what flash holds, `bytes` where
//! they are for drivers that keep some. For
//! reads that never wait (RAIL): `stride` who shares parity, `lock` who is busy, `rebuild` sectors
//! read from the rest of their stride, `mostly` when that is not worth it, `pace` how fast they let users write, `part` hot and cold data
//! on LUNs of their own. An FTL of its own, for media written in place, is `place`.
//!
//! Left out of pblk: its L2P snapshot, multiple targets on one drive, read retries. Left out of
//! drives at large: cached mapping tables, read-disturb and retention scrubbing.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod age;
mod bytes;
mod check;
pub mod config;
mod derived;
mod gc;
mod line;
mod lock;
mod map;
mod mostly;
mod pace;
mod part;
mod place;
mod rate;
mod rebuild;
mod recover;
mod ring;
mod state;
mod stride;
mod translator;
mod user;
mod versions;
mod write;

pub use config::{
    FtlConfig, GcBuffer, ParityPlace, PartitionBy, PartitionRule, Placement, StrideLayout,
    Throttle, VictimPolicy,
};
pub use derived::{LineRoom, collector_marks, line_room};
pub use line::{Group, LineState, Stream};
pub use map::LOST;
pub use pace::{OperationTimes, throttled_units};
pub use place::InPlace;
pub use recover::{LineMedia, Media, RecoverError, Recovery, SmetaRecord, Written};
pub use translator::{FtlKind, Translator};
pub use wordline_firmware::{held_in_use, slc_buffer};
pub use wordline_fssd::{KeptVersions, Side, checkpoints_written, log_in_use, victims_at_a_time};
pub use wordline_translation::{
    Action, AgeError, BlockState, Breach, Brings, Choose, Chooses, ClosedLine, Counters, End,
    FlashOp, FlashRead, GcFloor, GcOrder, GcPolicy, GcReport, GcShape, HeldUp, HostMemory, MOVE,
    MapHeld, MapWork, Memory, Ordered, Pace, Piece, Place, ReadEnd, Rebuilt, SlcUse, Source, Stage,
    Steady, StrideUse, Touch, Translation, Trim, Turns, Unmet, Wear, WindowLimits, Work,
    check_own_read, mark_write, overwrite_between, read_ended, send_data, steady_by_overwriting,
};
pub use wordline_translation::{LoadError, SavedIn, SavedOut};

use gc::Gc;
use line::Lines;
use lock::{Lock, Locks};
use map::Map;
use mostly::Mostly;
use part::Partition;
use rate::Rate;
use rebuild::Rebuild;
use ring::{Entry, NO_STRIPE, Ring};
use std::collections::VecDeque;
use wordline_base::{BadValue, Ctx, Kind, Lpn, Rng, Seed, Slab, Time};
use wordline_nand::{Geometry, LineId, LunId, Outcome, Ppa};
use wordline_translation::{Capacity, Command, Commands};
use write::{Done, Writer};

/// An operation on its way.
#[derive(Clone, Copy, Debug)]
enum Op {
    /// A unit of `n` entries from ring position `pos`, and padding.
    Data {
        unit: u32,
        pos: u64,
        n: u32,
        side: u8,
        stripe: u32,
        lock: Lock,
        since: Time,
    },
    Parity {
        line: LineId,
        unit: u32,
        side: u8,
        stripe: u32,
        lock: Lock,
        since: Time,
    },
    Smeta {
        line: LineId,
        unit: u32,
        side: u8,
        lock: Lock,
        since: Time,
    },
    Emeta {
        line: LineId,
        unit: u32,
        side: u8,
        lock: Lock,
        since: Time,
    },
    Erase {
        line: LineId,
        lun: LunId,
        side: u8,
        lock: Lock,
        since: Time,
    },
    EmetaRead {
        line: LineId,
    },
    /// Sectors `first..first + n` of a collector's request.
    GcRead {
        request: u32,
        first: u32,
        n: u32,
    },
    /// A run read to rebuild such sectors.
    GcMember {
        repair: u32,
        row: u32,
    },
    /// They are there, and are being added up.
    GcSum {
        request: u32,
        first: u32,
        n: u32,
    },
}

const TIMER_WRITE: u32 = 0;
const TIMER_USER: u32 = 1;

/// The mapping, buffer and lines of one drive.
#[derive(Clone)]
pub struct Ftl {
    g: Geometry,
    config: FtlConfig,
    sectors: u64,
    seed: Seed,
    rng: Rng,
    map: Map,
    lines: Lines,
    /// One buffer and write thread, and a second for cold data.
    rings: [Ring; 2],
    writers: [Writer; 2],
    rate: Rate,
    gc: Gc,
    locks: Locks,
    mostly: Mostly,
    rebuilds: Slab<Rebuild>,
    partition: Partition,
    /// The time of the last input.
    now: Time,
    ops: Slab<Op>,
    actions: VecDeque<Action>,
    waiting: Commands,
    /// Flushes and FUA writes: the ring position that must be durable, and the tag.
    flushes: VecDeque<(u64, u32)>,
    /// Reads in flight.
    pins: u64,
    write_timer: bool,
    user_timer: bool,
    last_insert: Time,
    last_user_insert: Time,
    /// No space can be made any more: writes fail.
    read_only: bool,
    /// Shutting down: victims end, none begins, everything is written out.
    stopping: bool,
    /// The integrity check does not know the stamps in flash yet.
    stamps_unknown: bool,
    /// Sectors may be marked as lost.
    lossy: bool,
    /// Sectors the collector may move before users go on (ageing).
    age_credit: i64,
    /// The users' pace, while ageing at it.
    pace: Option<Pace>,
    /// The line of which ageing has moved a part.
    age_victim: Option<LineId>,
    counters: Counters,
}

impl Ftl {
    /// `bad(lun, line)` tells factory bad blocks. An error names the configuration key.
    pub fn new(
        geometry: &Geometry,
        config: &FtlConfig,
        bad: &mut dyn FnMut(LunId, LineId) -> bool,
        seed: Seed,
    ) -> Result<Ftl, BadValue> {
        Ftl::build(geometry, config, bad, seed, Capacity::Fresh)
    }
    fn build(
        geometry: &Geometry,
        config: &FtlConfig,
        bad: &mut dyn FnMut(LunId, LineId) -> bool,
        seed: Seed,
        capacity: Capacity,
    ) -> Result<Ftl, BadValue> {
        let g = *geometry;
        let mut lines = Lines::new(&g, config, bad)?;
        let plan = derived::Plan::new(&g, config, &mut lines, capacity)?;
        let unit = g.sectors_per_unit;
        Ok(Ftl {
            g,
            config: config.clone(),
            sectors: plan.sectors,
            seed,
            rng: seed.stream("ftl/victim"),
            map: Map::new(&g, plan.sectors, lines.most()),
            rate: Rate::new(plan.high, plan.reserve, plan.budget(config), unit),
            rings: [Ring::new(plan.buffer, plan.back), Ring::new(plan.cold_buffer, plan.cold_back)],
            writers: [Writer::new(&g, config), Writer::new(&g, config)],
            gc: Gc::new(config, lines.count()),
            locks: Locks::new(g.luns, lines.strides(), config.busy_race),
            mostly: Mostly::new(config),
            rebuilds: Slab::with_capacity(64),
            partition: Partition::new(config),
            now: Time::ZERO,
            lines,
            ops: Slab::with_capacity(2 * g.luns as usize + 256),
            actions: VecDeque::with_capacity(1024),
            waiting: Commands::with_capacity(256),
            flushes: VecDeque::with_capacity(256),
            pins: 0,
            write_timer: false,
            user_timer: false,
            last_insert: Time::ZERO,
            last_user_insert: Time::ZERO,
            read_only: plan.worn,
            stopping: false,
            stamps_unknown: false,
            lossy: false,
            age_credit: 0,
            pace: None,
            age_victim: None,
            counters: Counters::default(),
        })
    }
    /// User capacity in sectors.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }
    /// Sectors of data that all lines in use can hold, metadata taken off.
    pub fn data_sectors(&self) -> u64 {
        derived::data_sectors(&self.lines)
    }
    /// Readies the machine for timed inputs.
    pub fn start(&mut self, ctx: &mut Ctx) {
        self.stopping = false;
        self.now = ctx.now;
        if ctx.stamps.is_on() {
            self.adopt_stamps(&mut ctx.stamps);
        }
        self.rate_update();
        self.gc.kick = true;
        self.work(ctx);
    }
    /// Brings the machine to rest: once all operations are answered it is quiet and can be saved.
    /// [`Ftl::start`] undoes it.
    pub fn stop(&mut self, ctx: &mut Ctx) {
        self.stopping = true;
        self.set_user_active(false);
        self.gc.kick = true;
        self.work(ctx);
    }
    /// The next thing to do. Drain it after every input.
    #[inline]
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
    /// What it counted so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
    /// What strides do to reads and writes; none without.
    pub fn strides(&self) -> Option<StrideUse> {
        (self.config.stride > 0).then(|| StrideUse {
            throttling_ended: self.mostly.released,
            deferred: self.locks.deferred,
            parity_table_bytes: self.memory().parity,
            hot_luns: self.lines.hot,
            partitions: self.partition.moves,
        })
    }
    /// The shape of the flash under it.
    pub fn geometry(&self) -> &Geometry {
        &self.g
    }
    /// Bytes of its tables.
    pub fn memory(&self) -> Memory {
        // Two words of 4 bytes for each unit of a stripe.
        let parity = if self.config.stride > 0 { 8 * u64::from(self.g.luns) } else { 0 };
        Memory { parity, ..self.map.memory() }
    }
    /// The map's tables are there from the beginning, and the write buffer is as large as it ever gets.
    pub fn host_memory(&self) -> HostMemory {
        let rings = if self.config.hot_cold { 2 } else { 1 };
        let slots = rings * u64::from(self.rings[0].size());
        let buffer = slots * self.g.unit_bytes() / u64::from(self.g.sectors_per_unit);
        HostMemory { nodes: 0, buffer, tables: self.memory().mapping }
    }
    /// A look-up in a table is part of what a command costs.
    pub fn take_map_work(&mut self) -> MapWork {
        MapWork::default()
    }
    /// The data of what it copies inside the drive never cross the link, and what tells of them is in its
    /// commands.
    pub fn beside(&self, _op: u32) -> u32 {
        0
    }
    /// Free lines, and the numbers of them at which users wait and collecting starts.
    pub fn free_lines(&self) -> (u32, f64, f64) {
        let luns = f64::from(self.g.luns);
        let (reserve, high) = (f64::from(self.rate.reserve), f64::from(self.rate.high));
        (self.lines.free_lines(), reserve / luns, high / luns)
    }
    /// Lines by group, in the order of [`Group`].
    pub fn groups(&self) -> [u32; 7] {
        let mut groups = [0; 7];
        for line in 0..self.lines.count() {
            groups[self.lines.group(line, self.map.valid_in(line)) as usize] += 1;
        }
        groups
    }
    /// A line's state, whose data are in it, and how many of its sectors are valid.
    pub fn line_state(&self, line: LineId) -> (LineState, Stream, u32) {
        let l = &self.lines[line];
        (l.state, l.stream, self.map.valid_in(line))
    }
    /// How often blocks were erased.
    pub fn wear(&self) -> Wear {
        Wear::of(self.media_state())
    }
    /// Lines that are full, and no victims.
    pub fn closed_lines(&self) -> Box<dyn Iterator<Item = ClosedLine> + '_> {
        let closed = |line: LineId| {
            let l = &self.lines[line];
            let stale = u64::from(l.data.saturating_sub(self.map.valid_in(line)));
            (l.state == LineState::Closed).then_some(ClosedLine { opened: l.seq, stale })
        };
        Box::new((0..self.lines.lines.count()).filter_map(closed))
    }
    /// Windows that are level are enough.
    pub fn least_overwrites(&self) -> f64 {
        0.0
    }
    /// Space has to be made for writes.
    pub fn collects(&self) -> bool {
        true
    }
    /// A victim's sectors are being moved.
    pub fn is_collecting(&self) -> bool {
        self.gc.is_moving()
    }
    /// A write waits for what the rate limiter leaves of the buffer to the collector, or for space.
    pub fn collector_holds(&self) -> bool {
        matches!(self.waiting.first(), Some(Command::Write { .. }))
            && (self.rate.holds_users() || self.lines.is_split() && self.user_space() == 0)
    }
    /// No victim is begun but for want of space, or again for any reason.
    pub fn hold_collection(&mut self, ctx: &mut Ctx, hold: bool) {
        self.gc.held = hold;
        (self.gc.look, self.gc.kick) = (true, true);
        self.work(ctx);
    }
    /// Every block, line by line.
    pub fn media_state(&self) -> Box<dyn Iterator<Item = BlockState> + '_> {
        let luns = self.g.luns;
        // A unit that ageing left half full is padded before anything else is written.
        let begun = self.lines.sides.each_ref().map(|side| {
            let line = side.cur.filter(|&l| self.lines[l].fill > 0)?;
            Some(self.lines.ppa(line, self.lines.peek_unit(line)) / self.g.sectors_per_unit)
        });
        Box::new((0..self.g.lines * luns).map(move |i| {
            let (line, lun) = (i / luns, i % luns);
            let mut programmed = self.lines.programmed[i];
            for unit in begun.into_iter().flatten() {
                if (unit / self.lines.units, unit % luns) == (line, lun) {
                    programmed = unit % self.lines.units / luns + 1;
                }
            }
            let bad = self.lines.is_block_bad(line, lun);
            BlockState { line, lun, bad, programmed, erases: self.lines.erases[i], slc: false }
        }))
    }
    /// Nothing is waiting, unwritten or in flight.
    pub fn is_quiet(&self) -> bool {
        self.ops.is_empty()
            && self.waiting.is_empty()
            && self.actions.is_empty()
            && self.rings.iter().all(|ring| ring.mem == ring.sync)
            && self.gc.victims.is_empty()
            && self.pins == 0
            && !self.writers.iter().any(Writer::is_busy)
    }

    /// An operation is done.
    pub fn on_done(&mut self, ctx: &mut Ctx, op: u32, outcome: Outcome) {
        let ok = outcome == Outcome::Ok;
        self.now = ctx.now;
        let done = |side: u8, stripe, lock, since| Done { side: side.into(), stripe, lock, since };
        match self.ops.remove(op) {
            Op::Data { unit, pos, n, side, stripe, lock, since } => {
                self.data_done(done(side, stripe, lock, since), unit, pos, n, ok);
            }
            Op::Parity { line, unit, side, stripe, lock, since } => {
                self.parity_done(done(side, stripe, lock, since), line, unit, ok);
            }
            Op::Smeta { line, unit, side, lock, since } => {
                self.smeta_done(done(side, NO_STRIPE, lock, since), line, unit, ok);
            }
            Op::Emeta { line, unit, side, lock, since } => {
                self.emeta_done(done(side, NO_STRIPE, lock, since), line, unit, ok);
            }
            Op::Erase { line, lun, side, lock, since } => {
                self.erase_done(done(side, NO_STRIPE, lock, since), line, lun, ok);
            }
            Op::EmetaRead { line } => self.emeta_read_done(line, ok),
            Op::GcRead { request, first, n } => self.gc_read_done(request, first, n, ok),
            Op::GcMember { repair, row } => self.gc_member_done(repair, row, ok),
            Op::GcSum { request, first, n } => self.gc_run_over(request, first, n, ok),
        }
        self.work(ctx);
    }
    /// A timer that it set has fired; `index` is the timer's.
    pub fn on_timer(&mut self, ctx: &mut Ctx, index: u32) {
        match index {
            TIMER_WRITE => {
                self.write_timer = false;
                self.gc.look = true;
                self.gc.kick = true;
                let idle = ctx.now.since(self.last_insert) >= self.config.write_timer;
                if self.config.pad_idle && idle {
                    self.flush_rings();
                }
            }
            _ => {
                self.user_timer = false;
                let until = self.last_user_insert + self.config.user_idle;
                if self.waiting.is_empty() && ctx.now >= until {
                    self.set_user_active(false);
                } else {
                    self.user_timer = true;
                    let at = if until > ctx.now { until } else { ctx.now + self.config.user_idle };
                    ctx.at(at, Kind::FtlTimer, TIMER_USER);
                }
            }
        }
        self.work(ctx);
    }

    /// Does everything that can be done now.
    fn work(&mut self, ctx: &mut Ctx) {
        let mut looked = false;
        self.now = ctx.now;
        self.mostly.look(ctx.now);
        loop {
            let admitted = self.admit(ctx);
            let moved = self.gc_insert(ctx);
            if self.stopping {
                self.flush_rings();
            }
            let mut written = self.write_thread(0);
            if self.lines.is_split() {
                written |= self.write_thread(1);
            }
            let collected = self.collect();
            // What was admitted the others have seen.
            if admitted && !self.waiting.is_empty() || moved || written || collected {
                continue;
            }
            if !self.is_stuck() {
                break;
            }
            if !std::mem::replace(&mut looked, true) {
                self.gc.look = true;
                self.gc.kick = true;
            } else if self.force_emeta() {
                // Page pairs of a full line end with its metadata.
                continue;
            } else if !self.unstick() {
                break;
            }
        }
        debug_assert_eq!(self.check_now(), Ok(()));
        let unwritten = self.config.pad_idle && self.rings.iter().any(|r| r.mem > r.sync);
        if (unwritten || !self.ops.is_empty()) && !self.write_timer && self.config.write_timer.0 > 0
        {
            self.write_timer = true;
            ctx.at(ctx.now + self.config.write_timer, Kind::FtlTimer, TIMER_WRITE);
        }
    }
    /// Users wait and nothing is in flight that could help them: neither an operation nor a read from a line that is
    /// free when it ends. Other reads may follow each other for ever.
    fn is_stuck(&mut self) -> bool {
        self.users_wait() && self.ops.is_empty() && !self.readers_hold_space()
    }
    /// Pads out what the collector has in the buffer, so that its victims can be freed; failing that
    /// there is no space to be made.
    fn unstick(&mut self) -> bool {
        if self.rings.iter().any(|r| r.flush_point < r.mem && r.ready() > 0) {
            self.flush_rings();
            self.counters.drains += 1;
            return true;
        }
        if self.read_only {
            return self.fail_flushes();
        }
        self.read_only = true;
        true
    }
    /// What is in the buffers is to be written, in padded units if need be.
    fn flush_rings(&mut self) {
        for ring in &mut self.rings {
            ring.flush_point = ring.mem;
        }
    }
    fn rate_update(&mut self) {
        self.rate.update(self.scarce_blocks(), self.lines.write_errors > 0);
        self.counters.lines_retired = u64::from(self.lines.retired);
        self.gc.look = true;
        self.gc.kick = true;
    }
    fn issue(&mut self, op: Op, make: impl FnOnce(u32) -> Action) {
        let op = self.ops.insert(op);
        self.actions.push_back(make(op));
    }
    /// The same for an operation that readers may have to be out of the way of.
    fn issue_on(&mut self, lun: LunId, lock: Lock, op: Op, make: impl FnOnce(u32) -> Action) {
        let op = self.ops.insert(op);
        self.actions.extend(self.locks.admit(lun, lock, make(op)));
    }
    /// Takes a free line as the side's next, if it has none.
    fn reserve_next(&mut self, side: usize) -> Option<u32> {
        let had = self.lines.sides[side].next;
        let line = self.lines.reserve_next(self.stream(side))?;
        if self.lines.is_split() && had.is_none() {
            self.own(line);
        }
        Some(line)
    }
    /// Tells the map which blocks are this line's.
    fn own(&mut self, line: LineId) {
        let blocks = self.g.lines as usize * self.g.luns as usize;
        self.map.owner.resize(blocks, line::NO_LINE);
        for lun in (0..self.g.luns).filter(|&lun| self.lines.has_lun(line, lun)) {
            self.map.owner[self.lines.block(line, lun)] = line;
        }
    }
    /// The same for all lines of a loaded drive.
    fn map_owners(&mut self) {
        if !self.lines.is_split() {
            return;
        }
        for line in 0..self.lines.count() {
            if self.lines[line].block != line::NO_LINE {
                self.own(line);
            }
        }
    }
    /// The number of a ring's slot in L2P.
    #[inline]
    fn slot_code(&self, side: usize, pos: u64) -> u32 {
        side as u32 * self.rings[0].size() + self.rings[side].slot(pos)
    }
    #[inline]
    fn buffered(&self, code: u32) -> &Entry {
        let size = self.rings[0].size();
        if code < size { self.rings[0].in_slot(code) } else { self.rings[1].in_slot(code - size) }
    }
    /// The sector in flash is stale.
    #[inline]
    fn invalidate(&mut self, ppa: u32) {
        let (line, left) = self.map.invalidate(ppa);
        if left == 0 && self.lines[line].state == LineState::Closed {
            self.emptied(line);
        }
    }
    /// Nothing in a closed line is valid any more.
    fn emptied(&mut self, line: LineId) {
        self.lines[line].barrier = self.barrier();
        self.gc.full.push(line);
        self.gc.kick = true;
    }
    /// Everything in the buffers now.
    fn barrier(&self) -> [u64; 2] {
        self.rings.each_ref().map(|ring| ring.mem)
    }
    /// Whether all that is durable; if not, the collector is told when.
    fn is_passed(&mut self, barrier: [u64; 2]) -> bool {
        let mut passed = true;
        for (side, point) in barrier.into_iter().enumerate() {
            if point > self.rings[side].sync {
                self.gc.barrier[side] = self.gc.barrier[side].min(point);
                passed = false;
            }
        }
        passed
    }
    /// The oldest slot of the ring is to be reused: its mapping turns to flash, or is stale.
    fn switch_one(&mut self, side: usize) {
        let pos = self.rings[side].l2p_update;
        debug_assert!(pos < self.rings[side].readable);
        let code = self.slot_code(side, pos);
        let e = *self.rings[side].at(pos);
        debug_assert!(self.writers[side].is_readable(e.stripe), "no parity yet at {}", e.ppa);
        debug_assert!(e.flags & ring::STALE != 0 || self.map.lpn_at(e.ppa) == e.lpn);
        if e.flags & ring::STALE != 0 {
            // Not valid from birth.
        } else if self.map.get(e.lpn) == map::Where::Buffer(code) {
            self.map.set_flash(e.lpn, e.ppa);
        } else {
            self.invalidate(e.ppa);
        }
        let line = self.map.line_of(e.ppa);
        self.lines[line].refs -= 1;
        self.rings[side].l2p_update += 1;
    }
    /// Turns the mapping to flash for everything readable there.
    fn switch_all(&mut self) {
        for side in 0..2 {
            while self.rings[side].l2p_update < self.rings[side].readable {
                self.switch_one(side);
            }
        }
    }
    /// Something durable waits for its mapping to turn.
    fn can_switch(&self) -> bool {
        self.rings.iter().any(|ring| ring.l2p_update < ring.readable)
    }
}
