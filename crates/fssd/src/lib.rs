//! A flash translation layer for the host, after FSSD (docs/design/hostflash.md): extents in a B+tree, a
//! log on flash, a collector, checkpoints and recovery.
//!
//! ```text
//! write -> waiting (no room) -> unit of an append point -> the drive's protected buffer -> flash
//! ```
//!
//! A sector's place on flash is settled when it is appended, and the map points there at once. Until its
//! unit is programmed it is read from the buffer. What flash holds beside its data is kept here by place,
//! for the collector and for the check of versions; it is no memory of the host's.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod arena;
mod config;
mod gc;
mod held;
mod log;
mod recover;
mod space;
mod state;
mod tree;
mod units;
mod write;

pub use config::{FssdConfig, Side, checkpoints_written, log_in_use, victims_at_a_time};
pub use log::{Holds, Meta, Spare};
pub use recover::{KeptVersions, Media, Recovery};
pub use tree::{Extent, Full, LOST, Tree};

use config::Plan;
use gc::Gc;
use held::Held;
use log::Log;
use space::{SegmentId, Space, State, Unit};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use units::{Slot, Units};
use wordline_base::{BadValue, Ctx, IdVec, Lpn, PageData, Slab, Stamps};
use wordline_nand::{BlockId, Geometry, LineId, LunId, Outcome, Ppa};
use wordline_translation::{
    Action, AgeError, BlockState, Breach, ClosedLine, Command, Commands, Counters, Digest, End,
    GcFloor, GcShape, HostMemory, MOVE, MapWork, Memory, Newest, Order, Ordered, PLACE, Piece,
    Source, Translation, split,
};
use write::{Point, Taken};

/// The append points of users.
pub(crate) const USER: usize = 0;
/// The append points of the collector.
pub(crate) const GC: usize = 1;

/// The logical sector of a physical one without data.
const NOBODY: u32 = u32::MAX;

/// An operation under way.
#[derive(Clone, Copy, Debug)]
enum Op {
    /// Sectors of a command cross the link.
    Stage {
        unit: Unit,
        slot: Slot,
        turn: u64,
        id: u32,
        ppa: Ppa,
        sectors: u32,
        /// Runs that they are in the place of.
        replaced: u32,
    },
    Program {
        unit: Unit,
    },
    /// A unit of the victim with so many sectors in use; `asked` for by a collector on the host.
    Read {
        unit: Unit,
        valid: u32,
        asked: bool,
    },
    Erase {
        segment: SegmentId,
        block: BlockId,
    },
}

/// The FTL of FSSD.
#[derive(Clone)]
pub struct Fssd {
    /// The shape of the flash.
    g: Geometry,
    /// Its settings.
    config: FssdConfig,
    /// Over-provisioning, in percent.
    over_provisioning: f64,
    /// How the flash is divided.
    plan: Plan,
    /// The map.
    tree: Tree,
    /// Segments and blocks.
    space: Space,
    /// The logical sector that flash or buffer hold, counted from 1, by physical sector.
    oob: Held,
    /// The version that flash or buffer hold, by physical sector.
    stamps: Option<Held>,
    /// Where users and the collector write.
    points: [Point; 2],
    /// Units that are being filled or programmed.
    units: Units,
    /// Units of each LUN that are not being programmed, in their order.
    queues: IdVec<LunId, VecDeque<Unit>>,
    /// Whether each LUN is programming.
    busy: IdVec<LunId, bool>,
    /// LUNs to look at.
    ready: Vec<LunId>,
    /// Flash operations under way.
    ops: Slab<Op>,
    /// Reads of users under way.
    reads: u32,
    /// Commands that wait for room.
    waiting: Commands,
    /// Writes come from a cache.
    behind_cache: bool,
    /// Writes with sectors on their way over the link, or being taken.
    taken: Slab<Taken>,
    /// The command that was taken in part.
    taking: Option<u32>,
    /// What is not durable of users' and of the collector's.
    orders: [Order; 2],
    /// Turns that end with the last of several programs.
    carried: BTreeMap<(usize, u64), u32>,
    /// The number in the log of the next sector.
    seq: u64,
    /// The collector.
    gc: Gc,
    /// The log of the map's changes.
    log: Log,
    /// What it wants done.
    actions: VecDeque<Action>,
    /// Counts since the start.
    counters: Counters,
    /// There is no space for what has to be moved: writes fail.
    read_only: bool,
    /// It was loaded without the versions that sectors hold.
    stamps_unknown: bool,
    /// Extents of the last look-up.
    found: Vec<Extent>,
    /// Runs that the last change of the map replaced.
    replaced: u32,
}

impl Fssd {
    /// `bad(lun, line)` tells factory bad blocks. An error names the configuration key.
    pub fn new(
        g: &Geometry,
        over_provisioning: f64,
        config: &FssdConfig,
        bad: &mut dyn FnMut(LunId, LineId) -> bool,
    ) -> Result<Fssd, BadValue> {
        Fssd::build(g, over_provisioning, config, bad, None)
    }
    fn build(
        g: &Geometry,
        over_provisioning: f64,
        config: &FssdConfig,
        bad: &mut dyn FnMut(LunId, LineId) -> bool,
        sectors: Option<u64>,
    ) -> Result<Fssd, BadValue> {
        Plan::check(g, config)?;
        let space = Space::new(g, config.append_points, bad);
        let good: Vec<u32> = (0..space.segments.count()).map(|s| space.good_blocks(s)).collect();
        let plan = Plan::new(g, config, over_provisioning, &good, sectors)?;
        Ok(Fssd {
            g: *g,
            config: config.clone(),
            over_provisioning,
            plan,
            tree: Tree::new(config.node_bytes),
            space,
            oob: Held::new(g.sectors(), g.sectors_per_unit, 1),
            stamps: None,
            points: [Point::new(config.append_points), Point::new(config.append_points)],
            units: Units::default(),
            queues: IdVec::filled(VecDeque::new(), g.luns),
            busy: IdVec::filled(false, g.luns),
            ready: Vec::new(),
            ops: Slab::with_capacity(64),
            reads: 0,
            waiting: Commands::default(),
            behind_cache: false,
            taken: Slab::with_capacity(64),
            taking: None,
            orders: Default::default(),
            carried: BTreeMap::new(),
            seq: 0,
            gc: Gc::default(),
            log: Log::default(),
            actions: VecDeque::new(),
            counters: Counters::default(),
            read_only: false,
            stamps_unknown: false,
            found: Vec::new(),
            replaced: 0,
        })
    }
    /// The map.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }
    /// Nothing is waiting, unwritten or in flight.
    pub fn is_quiet(&self) -> bool {
        self.waiting.is_empty()
            && self.actions.is_empty()
            && self.ops.is_empty()
            && self.units.is_empty()
            && self.reads == 0
    }
    /// Free segments, and the numbers of them at which users wait and collecting starts.
    pub fn free_segments(&self) -> (u32, u32, u32) {
        (self.space.free_segments(), self.plan.reserve, self.plan.start)
    }
    /// All that came so far is durable when these turns are passed.
    fn barrier(&self) -> [u64; 2] {
        self.orders.each_ref().map(Order::next)
    }
    fn is_passed(&self, barrier: [u64; 2]) -> bool {
        (0..2).all(|point| self.orders[point].is_passed(barrier[point]))
    }
    fn keep_stamps(&mut self) {
        if self.stamps.is_none() {
            self.stamps = Some(Held::new(self.g.sectors(), self.g.sectors_per_unit, 0));
        }
    }

    /// Writes runs of sectors, each operation done as soon as it is asked for.
    fn age(
        &mut self,
        stamps: &mut Stamps,
        runs: impl IntoIterator<Item = (u32, u32)>,
    ) -> Result<(), AgeError> {
        if !self.ops.is_empty() || !self.waiting.is_empty() || self.reads > 0 {
            return Err(AgeError::Busy);
        }
        if stamps.is_on() {
            self.adopt_stamps(stamps);
        }
        self.aging(|ftl| ftl.write_at_once(stamps, runs))
    }
    /// With a victim at a time: nothing takes time while a drive ages.
    fn aging<T>(&mut self, ages: impl FnOnce(&mut Fssd) -> T) -> T {
        self.gc.at_once = true;
        let done = ages(self);
        self.gc.at_once = false;
        done
    }
    fn write_at_once(
        &mut self,
        stamps: &mut Stamps,
        runs: impl IntoIterator<Item = (u32, u32)>,
    ) -> Result<(), AgeError> {
        for (lpn, sectors) in runs {
            if u64::from(lpn) + u64::from(sectors) > self.plan.sectors {
                let sector = lpn.max(self.plan.sectors as u32);
                return Err(AgeError::Beyond { sector, sectors: self.plan.sectors });
            }
            self.waiting.write(0, Lpn(lpn), sectors, false, Source::Host);
            self.work(stamps);
            match self.at_once(stamps) {
                End::Done => {}
                End::Failed => return Err(AgeError::Full("no space can be made")),
                End::NoMemory => return Err(AgeError::Memory),
            }
        }
        Ok(())
    }
    /// Ends all operations. Answers what became of the commands that ended, of the last that failed if one did.
    fn at_once(&mut self, stamps: &mut Stamps) -> End {
        let mut end = End::Done;
        while let Some(action) = self.actions.pop_front() {
            match action {
                Action::Complete { ok: true, .. } => {}
                Action::Complete { ok: false, .. } => end = End::Failed,
                Action::Refuse { .. } => end = End::NoMemory,
                Action::Stage { op, .. }
                | Action::Read { op, .. }
                | Action::Program { op, .. }
                | Action::Erase { op, .. }
                | Action::Sum { op, .. } => {
                    self.done(op, true);
                    if self.actions.is_empty() {
                        self.work(stamps);
                    }
                }
            }
        }
        end
    }
}

impl Translation for Fssd {
    fn sectors(&self) -> u64 {
        self.plan.sectors
    }
    fn closed_lines(&self) -> Box<dyn Iterator<Item = ClosedLine> + '_> {
        let closed = |s: &SegmentId| self.space.segments[*s].state == State::Closed;
        Box::new((0..self.space.segments.count()).filter(closed).map(|s| {
            let segment = &self.space.segments[s];
            let all = self.space.size(s);
            let stale = u64::from(all.saturating_sub(segment.valid));
            ClosedLine { opened: segment.opened, stale }
        }))
    }
    fn start(&mut self, ctx: &mut Ctx) {
        if ctx.stamps.is_on() {
            self.adopt_stamps(&mut ctx.stamps);
        }
        // What came before took no time.
        self.tree.work = MapWork::default();
        self.work(&mut ctx.stamps);
    }
    fn prefetch(&mut self, ctx: &Ctx, lpn: Lpn) {
        self.tree.prefetch(lpn.0);
        ctx.stamps.prefetch(lpn);
    }
    fn read(&mut self, ctx: &mut Ctx, lpn: Lpn, sectors: u32, out: &mut Vec<Piece>) {
        self.tree.look_up(lpn.0, sectors, &mut self.found);
        let (found, at, space) = (&self.found, Cell::new(0), &self.space);
        let newest = |lpn: u32| {
            if self.waiting.trims(Lpn(lpn)) {
                return Newest::Unmapped;
            }
            // Sectors are asked for in order.
            let mut i = at.get();
            while found.get(i).is_some_and(|e| e.end() <= lpn) {
                i += 1;
            }
            at.set(i);
            let Some(e) = found.get(i).filter(|e| e.lpn <= lpn) else { return Newest::Unmapped };
            if e.place == LOST {
                return Newest::Lost;
            }
            let ppa = e.place + (lpn - e.lpn);
            match space.buffered.get(space.unit_of(ppa) as usize) {
                true => Newest::Buffer(self.stamp_at(ppa)),
                false => Newest::Flash(Ppa(ppa)),
            }
        };
        let before = out.len();
        let mut counters = self.counters;
        split(ctx, &mut counters, self.g.sectors_per_unit, lpn, sectors, newest, out);
        self.counters = counters;
        for ppa in out[before..].iter().filter_map(|piece| piece.place.ppa()) {
            let s = self.space.shape.segment_of(self.space.unit_of(ppa.0));
            self.space.segments[s].reads += 1;
            self.reads += 1;
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
        if ctx.stamps.is_on() {
            self.keep_stamps();
        }
        self.behind_cache |= matches!(source, Source::Cache(_));
        self.waiting.write(tag, lpn, sectors, fua, source);
        self.work(&mut ctx.stamps);
    }
    fn flush(&mut self, ctx: &mut Ctx, tag: u32) {
        self.waiting.flush(tag);
        self.work(&mut ctx.stamps);
    }
    fn trim(&mut self, ctx: &mut Ctx, tag: u32, lpn: Lpn, sectors: u32) {
        // A trim that may be refused is found in its turn. A cache in front has dropped the sectors, whatever becomes of it.
        match self.behind_cache {
            true => self.waiting.show_trim(tag, lpn, sectors, &mut ctx.stamps),
            false => self.waiting.trim(tag, lpn, sectors),
        }
        self.work(&mut ctx.stamps);
    }
    fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
    fn on_done(&mut self, ctx: &mut Ctx, op: u32, outcome: Outcome) {
        let staged = matches!(self.ops[op], Op::Stage { .. });
        self.done(op, outcome == Outcome::Ok);
        let waited_for = !self.waiting.is_empty() || !self.ready.is_empty();
        let passes = self.log.waits_for_turns() || !self.gc.under_way().1.is_empty();
        match staged && !waited_for && !passes {
            // What has crossed the link gives nobody anything else to do.
            true => self.tell_ended(),
            false => self.work(&mut ctx.stamps),
        }
    }

    fn digest(&self, ppa: Ppa, _: Lpn, sectors: u32) -> u64 {
        let mut digest = Digest::new();
        for ppa in ppa.0..ppa.0 + sectors {
            digest.add(self.lpn_at(ppa), self.stamp_at(ppa));
        }
        digest.get()
    }
    fn data(&self, _: u32, ppa: Ppa, to: &mut PageData) {
        for i in 0..self.g.sectors_per_unit {
            let lpn = self.lpn_at(ppa.0 + i);
            if lpn != NOBODY {
                to.put(i, lpn, self.stamp_at(ppa.0 + i));
            }
        }
    }
    fn read_failed(&mut self) {
        self.counters.read_errors += 1;
    }
    fn read_done(&mut self, ctx: &mut Ctx, ppa: Ppa, _: u32) {
        let s = self.space.shape.segment_of(self.space.unit_of(ppa.0));
        self.space.segments[s].reads -= 1;
        self.reads -= 1;
        if self.makes_space() || self.reads == 0 {
            self.work(&mut ctx.stamps);
        }
    }

    fn fill(&mut self, stamps: &mut Stamps) -> Result<(), AgeError> {
        let (sectors, run) = (self.plan.sectors as u32, self.g.sectors_per_unit * 16);
        self.age(
            stamps,
            (0..sectors).step_by(run as usize).map(|lpn| (lpn, run.min(sectors - lpn))),
        )
    }
    fn overwrite(&mut self, stamps: &mut Stamps, lpns: &[u32]) -> Result<(), AgeError> {
        let runs = lpns.chunk_by(|&a, &b| b == a.wrapping_add(1));
        self.age(stamps, runs.map(|run| (run[0], run.len() as u32)))
    }
    fn unmap(&mut self, lpn: Lpn, sectors: u32) -> Result<(), AgeError> {
        if !self.ops.is_empty() || !self.waiting.is_empty() || self.reads > 0 {
            return Err(AgeError::Busy);
        }
        let mut none = Stamps::off();
        self.waiting.trim(0, lpn, sectors);
        let end = self.aging(|ftl| {
            ftl.work(&mut none);
            ftl.at_once(&mut none)
        });
        match end {
            End::Done => Ok(()),
            End::Failed => Err(AgeError::Full("no space can be made")),
            End::NoMemory => Err(AgeError::Memory),
        }
    }
    /// What is full is programmed, and units that are filled in part are padded, so that all is on flash.
    fn settle(&mut self) {
        let mut none = Stamps::off();
        self.aging(|ftl| {
            ftl.program();
            ftl.at_once(&mut none);
            while ftl.pad(USER) | ftl.pad(GC) {
                ftl.work(&mut none);
                ftl.at_once(&mut none);
            }
        });
    }
    fn media_state(&self) -> Box<dyn Iterator<Item = BlockState> + '_> {
        let luns = self.g.luns;
        Box::new((0..self.g.lines * luns).map(move |block| BlockState {
            line: block / luns,
            lun: block % luns,
            bad: self.space.is_bad(block),
            programmed: self.space.programmed[block],
            erases: self.space.erases[block],
            slc: false,
        }))
    }
    fn know_stamps(&mut self) -> bool {
        self.stamps_unknown = false;
        self.stamps.is_some()
    }
    fn adopt_stamps(&mut self, stamps: &mut Stamps) {
        if self.stamps.is_some() && !self.stamps_unknown {
            return;
        }
        let unknown = self.stamps.is_none();
        self.stamps_unknown = false;
        self.keep_stamps();
        let mut extents = Vec::new();
        self.tree.look_up(0, self.plan.sectors as u32, &mut extents);
        for e in extents.iter().filter(|e| e.place != LOST) {
            for (ppa, lpn) in (e.place..).zip(e.lpn..e.end()) {
                if unknown {
                    self.note(ppa, lpn, stamps.newest(Lpn(lpn)).max(1));
                }
                if stamps.newest(Lpn(lpn)) < self.stamp_at(ppa) {
                    stamps.restore(Lpn(lpn), self.stamp_at(ppa), false);
                }
            }
        }
    }

    fn newest_at(&self, lpn: Lpn) -> Option<Ppa> {
        let e = self.tree.find(lpn.0).filter(|e| e.place != LOST)?;
        let ppa = e.place + (lpn.0 - e.lpn);
        let durable = !self.space.buffered.get(self.space.unit_of(ppa) as usize);
        (durable && !self.waiting.trims(lpn)).then_some(Ppa(ppa))
    }
    fn oob(&self, ppa: Ppa) -> Option<(Lpn, u32)> {
        let lpn = self.lpn_at(ppa.0);
        (lpn != NOBODY).then(|| (Lpn(lpn), self.stamp_at(ppa.0)))
    }
    fn unwritten(&self) -> Vec<(Lpn, u32)> {
        let filled = self.units.iter().flat_map(|(unit, open)| {
            let first = self.space.first_of(unit).0;
            (first..first + open.filled).filter_map(|ppa| Translation::oob(self, Ppa(ppa)))
        });
        filled.chain(self.waiting.stamped()).collect()
    }
    fn free_lines(&self) -> Option<(u32, f64, f64)> {
        let (free, reserve, start) = self.free_segments();
        Some((free, reserve.into(), start.into()))
    }
    fn save(&self, to: &mut dyn std::io::Write) -> std::io::Result<()> {
        self.save_to(to)
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
    fn memory(&self) -> Memory {
        let (nodes, tables) = (self.tree.bytes(), self.plan.tables + self.log.bytes());
        let stamps = self.stamps.as_ref().map_or(0, Held::bytes);
        let pages = self.stamps.as_ref().map_or(0, |stamps| stamps.len() as u64);
        let sectors = self.g.sectors();
        Memory { mapping: nodes + tables, stamps, pages, parity: 0, sectors }
    }
    fn host_memory(&self) -> HostMemory {
        let (held, tables) = match self.config.collector {
            Side::Host => (self.units.len(), self.plan.tables),
            // What it moves and what it counts are in the drive.
            Side::Drive => (self.units.on_host(), 0),
        };
        HostMemory {
            nodes: self.tree.bytes(),
            buffer: held as u64 * self.g.unit_bytes(),
            tables: tables + self.log.bytes(),
        }
    }
    fn beside(&self, op: u32) -> u32 {
        if self.config.collector == Side::Host {
            return 0;
        }
        match self.ops[op] {
            Op::Stage { replaced, .. } => PLACE * replaced,
            Op::Program { unit } => {
                let open = &self.units[unit];
                PLACE * (open.inside + open.replaced)
            }
            Op::Read { valid, .. } => MOVE * valid,
            Op::Erase { .. } => 0,
        }
    }
    fn is_collecting(&self) -> bool {
        !self.gc.under_way().0.is_empty()
    }
    fn collector_holds(&self) -> bool {
        matches!(self.waiting.first(), Some(Command::Write { .. }))
            && self.points[USER].unit.is_none()
            && (self.gc_lags() || self.users_are_out())
    }
    fn hold_collection(&mut self, ctx: &mut Ctx, hold: bool) {
        self.gc.held = hold;
        if !hold {
            self.work(&mut ctx.stamps);
        }
    }
    fn ordered(&mut self) -> Option<&mut dyn Ordered> {
        Some(self)
    }
    fn gc_shape(&self) -> Option<GcShape> {
        Some(self.shape_for_host())
    }
    fn gc_floor(&self) -> GcFloor {
        self.floor()
    }
    fn begins_late(&self) -> Option<[f64; 2]> {
        let (_, reserve, start) = self.free_segments();
        let least = reserve + self.config.above_reserve();
        (start < least).then(|| [start.into(), least.into()])
    }
    fn lies_at(&self, lpn: Lpn) -> Option<(Ppa, bool)> {
        let e = self.tree.find(lpn.0).filter(|e| e.place != LOST)?;
        let ppa = e.place + (lpn.0 - e.lpn);
        let open = self.units.get(self.space.unit_of(ppa));
        Some((Ppa(ppa), open.is_some_and(|open| open.filled == self.g.sectors_per_unit)))
    }
    fn take_map_work(&mut self) -> MapWork {
        std::mem::take(&mut self.tree.work)
    }
    fn check_invariants(&self) -> Result<(), Breach> {
        self.check()
    }
    fn boxed(&self) -> Box<dyn Translation> {
        Box::new(self.clone())
    }
}

impl Fssd {
    /// Holds counts against what they count.
    fn check(&self) -> Result<(), Breach> {
        self.tree.check()?;
        self.check_counts()
    }
    /// The same but for the tree's own.
    fn check_counts(&self) -> Result<(), Breach> {
        let count = |what: String| Err(Breach::Count(what));
        let mut units: IdVec<u32, u32> = IdVec::filled(0, self.space.valid.count());
        let mut segments: IdVec<SegmentId, u32> = IdVec::filled(0, self.space.segments.count());
        for e in self.tree.all().filter(|e| e.place != LOST) {
            let (mut ppa, end) = (e.place, e.place + e.sectors);
            while ppa < end {
                let unit = self.space.unit_of(ppa);
                let n = end.min(self.space.first_of(unit).0 + self.g.sectors_per_unit) - ppa;
                units[unit] += n;
                segments[self.space.shape.segment_of(unit)] += n;
                ppa += n;
            }
            if !self.oob.holds(e.place, e.sectors, e.lpn + 1) {
                let mut all = (e.place..end).zip(e.lpn..);
                let (ppa, lpn) =
                    all.find(|&(ppa, lpn)| self.lpn_at(ppa) != lpn).unwrap_or_default();
                let what = format!("is mapped to {ppa}, which holds {}", self.lpn_at(ppa));
                return Err(Breach::Sector { lpn, what });
            }
        }
        if let Some(unit) = (0..units.count()).find(|&u| units[u] != self.space.valid[u]) {
            return count(format!("unit {unit} has {} sectors in use", units[unit]));
        }
        for ppa in self.log.places() {
            segments[self.space.shape.segment_of(self.space.unit_of(ppa))] += 1;
        }
        for (s, segment) in (0..).zip(&self.space.segments) {
            if segments[s] != segment.valid {
                return Err(Breach::Line {
                    line: s,
                    what: format!("has {} sectors in use", segments[s]),
                });
            }
        }
        for (unit, open) in self.units.iter() {
            let of = self.points[open.point].unit == Some(unit);
            if of && self.points[open.point].filled != open.filled {
                return count(format!("unit {unit} is filled to {}", open.filled));
            }
            if of != (open.filled < self.g.sectors_per_unit) && of {
                return count(format!("unit {unit} is full and being filled"));
            }
        }
        if self.space.buffered.count() != self.units.len() {
            return count("units that are not programmed are miscounted".into());
        }
        let mut turns = BTreeSet::new();
        for (unit, open) in self.units.iter() {
            for turn in &open.turns {
                if !turns.insert((*turn, unit)) {
                    return count(format!("unit {unit} has turn {turn:?} twice"));
                }
            }
        }
        for (turn, &held) in &self.carried {
            let units = turns.range((*turn, 0)..=(*turn, Unit::MAX)).count();
            if units != held as usize {
                return count(format!("{units} units have turn {turn:?}, and not {held}"));
            }
        }
        let on_host = self.units.opens().filter(|open| open.is_on_host()).count();
        if on_host != self.units.on_host() {
            return count(format!("{on_host} units take up memory of the host"));
        }
        let gc = self.units.opens().filter(|open| open.point == GC).count() as u32;
        if gc != self.gc.buffered {
            return count(format!("{gc} units of the collector are not programmed"));
        }
        Ok(())
    }
}
