//! LUNs and channels in time. A LUN serves one operation at a time, in order of arrival; a channel
//! carries one transfer at a time.
//!
//! - read: command cycles on the channel, tR in the array, data out on the channel; the LUN is
//!   occupied until the data have left its page register. With a cache register the data leave from
//!   there and the LUN goes on with the next read; what writes needs both registers empty;
//! - program: command cycles and data in on the channel, tPROG;
//! - erase: command cycles, tBERS.
//!
//! Data move `transfer_bytes` at a time (the planes of a unit one after the other, each with cycles of
//! its own: ONFI, multi-plane operations), and LUNs that want the channel meanwhile come in between.
//!
//! With `[nand.suspend]` reads for users go first: module `suspend`. Channels in gangs: module `gang`.
//!
//! A waiting operation knows what it waited for: each LUN integrates how long it was occupied by
//! each class of work, and an operation takes the difference between its arrival and its start.
//!
//! What pages hold is kept in `Stamps::flash`, with the data that drivers send with programs.
//! With `[nand.errors]` a page whose bits the code cannot correct is read again: module `errors`.
//! Not modelled: cache programs.

use crate::config::{NandConfig, SlcMode};
use crate::errors::{Errors, Page, Reread};
use crate::gang::{Gang, Joined, WHOLE};
use crate::geometry::{BlockId, ChannelId, Geometry, LineId, LunId, Ppa};
use crate::script::Script;
use crate::suspend::{Preemption, Suspensions};
use crate::variation::Variation;
use serde::Serialize;
use std::collections::VecDeque;
use std::ops::{Deref, Index, IndexMut};
use wordline_base::track::Track;
use wordline_base::{
    BadValue, Ctx, Ddir, IdVec, IoId, Kind, Layer, Lives, Rng, Seed, Slab, Span, Time, Timeline,
    Why,
};

/// What an operation is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Class {
    /// For a read of users.
    UserRead,
    /// For a user's sectors that are rebuilt from the rest of their stride, all but the first.
    RebuildRead,
    /// Valid sectors of a victim.
    GcRead,
    /// The FTL's own data.
    MetaRead,
    /// Sectors that users wrote.
    UserProgram,
    /// Sectors that the collector moves.
    GcProgram,
    /// Metadata and units made of padding alone.
    MetaProgram,
    /// Parity of a stride.
    ParityProgram,
    /// A block erased.
    Erase,
}

/// The number of classes.
pub const CLASSES: usize = 9;
/// What may hold a LUN: work of a class, or something on its way to being suspended.
pub const HOLDERS: usize = CLASSES + 1;
pub(crate) const SUSPENSION: usize = CLASSES;
/// What a read may wait for: what holds its LUN, and last the channel.
pub const WAITS: usize = HOLDERS + 1;

impl Class {
    /// All classes, in the order of counters.
    pub const ALL: [Class; CLASSES] = [
        Class::UserRead,
        Class::RebuildRead,
        Class::GcRead,
        Class::MetaRead,
        Class::UserProgram,
        Class::GcProgram,
        Class::MetaProgram,
        Class::ParityProgram,
        Class::Erase,
    ];
    /// As in results.
    pub fn name(self) -> &'static str {
        match self {
            Class::UserRead => "user_read",
            Class::RebuildRead => "rebuild_read",
            Class::GcRead => "gc_read",
            Class::MetaRead => "meta_read",
            Class::UserProgram => "user_program",
            Class::GcProgram => "gc_program",
            Class::MetaProgram => "meta_program",
            Class::ParityProgram => "parity_program",
            Class::Erase => "erase",
        }
    }
    /// Someone waits for it: it may go ahead of what nobody waits for.
    pub fn goes_ahead(self) -> bool {
        matches!(self, Class::UserRead | Class::RebuildRead)
    }
    fn behind(self) -> Why {
        match self {
            Class::UserRead | Class::RebuildRead => Why::BehindRead,
            Class::GcRead | Class::MetaRead => Why::BehindGcRead,
            Class::UserProgram => Why::BehindUserProgram,
            Class::GcProgram => Why::BehindGcProgram,
            Class::MetaProgram => Why::BehindMetaProgram,
            Class::ParityProgram => Why::BehindParityProgram,
            Class::Erase => Why::BehindErase,
        }
    }
}

/// A count for each class of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct PerClass([u64; CLASSES]);

impl Index<Class> for PerClass {
    type Output = u64;
    #[inline]
    fn index(&self, class: Class) -> &u64 {
        &self.0[class as usize]
    }
}

impl IndexMut<Class> for PerClass {
    #[inline]
    fn index_mut(&mut self, class: Class) -> &mut u64 {
        &mut self.0[class as usize]
    }
}

impl Index<usize> for PerClass {
    type Output = u64;
    #[inline]
    fn index(&self, class: usize) -> &u64 {
        &self.0[class]
    }
}

impl IndexMut<usize> for PerClass {
    #[inline]
    fn index_mut(&mut self, class: usize) -> &mut u64 {
        &mut self.0[class]
    }
}

/// In the order of [`Class::ALL`].
impl Deref for PerClass {
    type Target = [u64; CLASSES];
    fn deref(&self) -> &[u64; CLASSES] {
        &self.0
    }
}

/// What the array does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpKind {
    /// A read of sectors of one unit.
    Read,
    /// A program of one unit.
    Program,
    /// The erasure of a block.
    Erase,
}

/// An operation on one LUN.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// What the array is to do.
    pub kind: OpKind,
    /// What it is for.
    pub class: Class,
    /// First sector: anywhere in a unit for a read, the unit's first for a program, any sector of
    /// the block for an erase (its LUN and line count).
    pub ppa: Ppa,
    /// Sectors read; a program always writes the whole unit.
    pub sectors: u32,
    /// A program with a bit a cell: the first of a block decides for all until its erasure.
    pub slc: bool,
    /// Returned with the record: the submitter's own number.
    pub owner: u32,
    /// The I/O served, for drawing.
    pub io: IoId,
}

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// As asked for.
    Ok,
    /// It failed for good.
    Failed,
}

/// A finished operation: when it was where.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// What was submitted.
    pub op: Op,
    /// How it ended.
    pub outcome: Outcome,
    /// Where it was done.
    pub lun: LunId,
    /// The LUN's channel.
    pub channel: ChannelId,
    /// Arrival at the LUN.
    pub submitted: Time,
    /// The LUN took it up.
    pub started: Time,
    /// Granted the channel for command (and, for a program, data in); waits between parts of the
    /// data count as if they came before.
    pub bus_start: Time,
    /// The command, and a program's data, were across.
    pub bus_end: Time,
    /// The array had done its work.
    pub array_end: Time,
    /// Read only: granted the channel for data out; waits between parts count as before it.
    pub out_start: Time,
    /// All of it was done.
    pub end: Time,
    /// Nanoseconds between `submitted` and `started` by the class of work that held the LUN, and last
    /// those for suspending it. Until it starts: `Lun::held` as it was on arrival, the part of the
    /// operation under way included.
    pub waited: [u64; HOLDERS],
    /// Time since `started` in which reads had gone ahead: until the channel was granted, until its
    /// data were in, until the end.
    pub away: [Span; 3],
    /// Read only: part of the time until `array_end`, from the first sensing of the page to the last.
    pub again: Span,
    /// What the sectors of a read that ended well hold ([`wordline_base::Contents`]), where that is kept.
    pub held: Option<u32>,
}

impl Record {
    /// Charges the operation's stages to an I/O.
    pub fn mark(&self, lives: &mut Lives, io: IoId) {
        let Some(life) = lives.of(io) else { return };
        if self.started > self.submitted {
            let mut at = self.submitted;
            for class in Class::ALL {
                let waited = self.waited[class as usize];
                if waited > 0 {
                    at += Span(waited);
                    life.mark(Layer::LunWait, class.behind(), self.lun, at);
                }
            }
            at += Span(self.waited[SUSPENSION]);
            life.mark(Layer::LunWait, Why::Suspending, self.lun, at);
        }
        // Issued later than the operation's first part.
        life.mark(Layer::Transfer, Why::Command, self.channel, self.submitted);
        // Put together, whenever they were: steps are few and sums exact.
        let [before, during, after] = self.away;
        let lost = self.started + before + during;
        life.mark(Layer::LunWait, Why::Suspended, self.lun, lost);
        life.mark(Layer::Transfer, Why::ChannelBusy, self.channel, self.bus_start + during);
        match self.op.kind {
            OpKind::Read => {
                life.mark(Layer::Transfer, Why::Command, self.channel, self.bus_end);
                let writes = life.ddir == Ddir::Write;
                let why = if writes { Why::Modify } else { Why::Read };
                life.mark(Layer::Nand, why, self.lun, Time(self.array_end.0 - self.again.0));
                life.mark(Layer::Nand, Why::ReadAgain, self.lun, self.array_end);
                life.mark(Layer::Transfer, Why::ChannelBusy, self.channel, self.out_start);
                life.mark(Layer::Transfer, Why::Data, self.channel, self.end);
            }
            OpKind::Program => {
                life.mark(Layer::Transfer, Why::Data, self.channel, self.bus_end);
                life.mark(Layer::Nand, Why::Program, self.lun, Time(self.end.0 - after.0));
                life.mark(Layer::LunWait, Why::Suspended, self.lun, self.end);
            }
            OpKind::Erase => {
                life.mark(Layer::Transfer, Why::Command, self.channel, self.bus_end);
                life.mark(Layer::Nand, Why::Erase, self.lun, Time(self.end.0 - after.0));
                life.mark(Layer::LunWait, Why::Suspended, self.lun, self.end);
            }
        }
    }
}

/// What happened so far, by class of work.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counters {
    /// Operations finished.
    pub ops: PerClass,
    /// Sectors read or programmed; blocks erased.
    pub sectors: PerClass,
    /// LUN time, summed over LUNs.
    pub busy_ns: PerClass,
    /// Array time alone, without channel transfers.
    pub array_ns: PerClass,
    /// Channel time.
    pub transfer_ns: PerClass,
    /// Operations that failed.
    pub failed: PerClass,
    /// User reads that had to wait for their LUN, by the class of work they waited for longest; last
    /// those that waited longest for a suspension.
    pub reads_blocked_by: [u64; HOLDERS],
    /// User reads that waited for anything.
    pub reads_waited: u64,
    /// User reads that waited for the channel.
    pub reads_blocked_by_transfer: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Lun {
    pub queue: VecDeque<u32>,
    /// The operation that has the array, or the page register.
    pub current: Option<u32>,
    /// The read whose data are in the cache register.
    pub leaving: Option<u32>,
    /// Since when the LUN is held, and as what, a class or `SUSPENSION`: for the current operation,
    /// or else the leaving one.
    pub since: Time,
    pub holder: usize,
    /// Time held so far by each holder, up to `since`.
    pub held: [u64; HOLDERS],
}

impl Lun {
    fn is_held(&self) -> bool {
        self.current.is_some() || self.leaving.is_some()
    }
    pub fn can_start(&self, kind: OpKind) -> bool {
        self.current.is_none() && (self.leaving.is_none() || kind == OpKind::Read)
    }
    /// Counts the time held until `now`, which it returns.
    pub fn settle(&mut self, now: Time) -> u64 {
        let held = if self.is_held() { now.since(self.since).0 } else { 0 };
        self.held[self.holder] += held;
        self.since = now;
        held
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    Waiting,
    In,
    Array,
    /// Read, and the cache register is not free.
    Ready,
    Out,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub record: Record,
    pub stage: Stage,
    /// Time the data not yet granted need on the channel.
    pub left: Span,
    /// The operation that it is a part of, or `WHOLE`.
    join: u32,
    /// It is on a block that is written with a bit a cell.
    pub slc: bool,
    /// How often a page is still read again.
    pub rereads: u32,
    /// No reading of it is right.
    lost: bool,
}

/// One block of one LUN.
#[derive(Clone, Copy, Default, Debug)]
struct Block {
    /// Pages programmed since the last erase.
    programmed: u16,
    /// Those of them programmed before time began: what they hold is not known here.
    before: u16,
    erases: u32,
    /// Reads since the last erase, where bit errors are modelled.
    reads: u32,
    /// It is written with a bit a cell.
    slc: bool,
}

/// Times of blocks that are written with a bit a cell.
#[derive(Clone)]
struct Slc {
    mode: SlcMode,
    errors: Option<Box<Errors>>,
    /// Array time of operations on them.
    array_ns: PerClass,
}

/// All LUNs and channels.
#[derive(Clone)]
pub struct Nand {
    /// Its shape.
    pub geometry: Geometry,
    pub(crate) config: NandConfig,
    pub(crate) luns: IdVec<LunId, Lun>,
    channels: IdVec<ChannelId, Timeline>,
    /// With parts told apart, those of a block after each other.
    blocks: IdVec<BlockId, Block>,
    pub(crate) states: Slab<State>,
    pub(crate) counters: Counters,
    /// Nanoseconds that reads of users waited at each LUN, by what they waited for.
    read_waits: IdVec<LunId, [u64; WAITS]>,
    faults: Rng,
    script: Script,
    pub(crate) bad_block_seed: u64,
    errors: Option<Box<Errors>>,
    variation: Option<Box<Variation>>,
    slc: Option<Box<Slc>>,
    rate: u64,
    t_read: Vec<Span>,
    t_program: Vec<Span>,
    t_unit_transfer: Span,
    /// The longest a LUN keeps the channel for data.
    pub(crate) t_part: Span,
    /// Time of one sector on the channel: most reads move one.
    t_sector_transfer: Span,
    /// Reads for users go first.
    pub(crate) preemption: Option<Box<Preemption>>,
    pub(crate) gang: Option<Box<Gang>>,
    /// Parts of an operation on LUNs of their own: 1, or those of a gang told apart.
    parts: u32,
    /// Neither parts nor preemption: an event's index is a LUN.
    plain: bool,
}

/// The block of an operation at `lun`, one of so many parts of a gang.
#[inline]
fn block_at(g: &Geometry, parts: u32, lun: LunId, ppa: Ppa) -> BlockId {
    let block = g.line_of(ppa) * g.luns + g.lun_of(ppa);
    if parts > 1 { block * parts + lun % parts } else { block }
}

impl Nand {
    /// A blank flash; blocks that are bad from the factory follow from the seed.
    pub fn new(config: &NandConfig, seed: Seed) -> Result<Nand, BadValue> {
        Nand::build(config, seed, false)
    }
    /// With the dies of gangs told apart, if asked, even where they all do the same.
    pub(crate) fn build(config: &NandConfig, seed: Seed, apart: bool) -> Result<Nand, BadValue> {
        let geometry = Geometry::new(config)?;
        if config.pages_per_block > u32::from(u16::MAX) {
            return Err(BadValue::new("pages_per_block", "must be at most 65535"));
        }
        let lun = || Lun {
            queue: VecDeque::with_capacity(8),
            current: None,
            leaving: None,
            since: Time::ZERO,
            holder: 0,
            held: [0; HOLDERS],
        };
        let rate = config.channel_rate * u64::from(config.gang);
        let bad_block_seed = seed.stream("nand/bad-block").next_u64();
        let gang = Gang::new(config, &geometry, bad_block_seed).map(Box::new);
        let parts = match &gang {
            Some(gang) if gang.apart || apart => gang.parts,
            _ => 1,
        };
        let (luns, channels) = (geometry.luns * parts, geometry.channels * parts);
        let preemption = Preemption::new(config, luns, channels).map(Box::new);
        let bits = config.cell.bits();
        Ok(Nand {
            geometry,
            luns: (0..luns).map(|_| lun()).collect(),
            channels: IdVec::filled(Timeline::default(), channels),
            blocks: IdVec::filled(Block::default(), luns * geometry.lines),
            states: Slab::with_capacity(1024),
            counters: Counters::default(),
            read_waits: IdVec::filled([0; WAITS], geometry.luns),
            faults: seed.stream("nand/fault"),
            script: Script::new(&config.faults.script, &geometry)
                .map_err(|e| BadValue::new("faults.script", e.to_string()))?,
            bad_block_seed,
            errors: Errors::new(config, seed)?.map(Box::new),
            variation: Variation::new(config, geometry.planes / parts, seed)?.map(Box::new),
            slc: match &config.slc {
                Some(mode) => Some(Box::new(Slc {
                    mode: mode.clone(),
                    errors: Errors::of_slc(config, seed)?.map(Box::new),
                    array_ns: PerClass::default(),
                })),
                None => None,
            },
            rate,
            t_read: (0..bits).map(|t| config.t_read.get(t)).collect(),
            t_program: (0..bits).map(|t| config.t_program.get(t)).collect(),
            t_unit_transfer: Span::of_bytes(geometry.unit_bytes(), rate),
            t_part: match config.transfer_bytes {
                0 => Span(u64::MAX),
                // Each channel of a gang moves as much.
                bytes => Span::of_bytes(u64::from(bytes), config.channel_rate),
            },
            t_sector_transfer: Span::of_bytes(geometry.sector.bytes(), rate),
            plain: preemption.is_none() && parts == 1,
            preemption,
            gang,
            parts,
            config: config.clone(),
        })
    }

    /// Whether the block was bad from the factory.
    pub fn is_factory_bad(&self, lun: LunId, line: LineId) -> bool {
        let block = self.block_index(lun, line);
        if let Some(bad) = self.gang.as_ref().and_then(|gang| gang.is_bad(block)) {
            return bad;
        }
        Rng::from_seed(self.bad_block_seed ^ u64::from(block))
            .chance(self.config.faults.bad_blocks_ppb)
    }
    /// What a LUN is held for by the program of a unit and its data, over the page types.
    pub fn program_time(&self) -> Span {
        let sum: Span = self.t_program.iter().copied().sum();
        self.t_unit_transfer + sum / self.t_program.len() as u64
    }

    /// Sets a block's state after untimed ageing.
    pub fn set_block(&mut self, lun: LunId, line: LineId, programmed: u32, erases: u32, slc: bool) {
        let first = self.block_index(lun, line) * self.parts;
        let programmed = programmed as u16;
        for part in first..first + self.parts {
            self.blocks[part] = Block { programmed, before: programmed, erases, reads: 0, slc };
        }
    }

    /// What it was made of.
    pub fn config(&self) -> &NandConfig {
        &self.config
    }
    /// What it did so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
    /// Operations that have not ended.
    pub fn in_flight(&self) -> usize {
        self.states.len() + self.gang.as_ref().map_or(0, |gang| gang.open())
    }
    /// How often a block was erased.
    pub fn erases(&self, lun: LunId, line: LineId) -> u32 {
        self.blocks[self.block_index(lun, line) * self.parts].erases
    }
    /// Time LUN `lun` was occupied by each class until `now`: of dies told apart their mean.
    pub fn lun_busy(&self, lun: LunId, now: Time) -> [u64; HOLDERS] {
        let dies = lun * self.parts..(lun + 1) * self.parts;
        let held = dies.map(|die| self.held_now(die, now));
        let sum = held.reduce(|a, b| std::array::from_fn(|i| a[i] + b[i])).unwrap_or_default();
        sum.map(|ns| ns / u64::from(self.parts))
    }
    /// Nanoseconds that reads of users waited at a LUN, by what they waited for: what held the LUN,
    /// and last the channel.
    pub fn read_waits(&self, lun: LunId) -> &[u64; WAITS] {
        &self.read_waits[lun]
    }
    /// What operations of parts did, where parts are told apart.
    pub fn joined(&self) -> Option<&Joined> {
        self.gang.as_ref().filter(|_| self.parts > 1).map(|gang| &gang.counters)
    }
    /// What reads going first did, where they may.
    pub fn suspensions(&self) -> Option<&Suspensions> {
        self.preemption.as_ref().map(|p| &p.counters)
    }
    /// Time the channel was in use until `now`: of channels told apart their mean.
    pub fn channel_busy(&self, channel: ChannelId, now: Time) -> Span {
        let busy = |channel: ChannelId| match &self.preemption {
            Some(p) if self.config.suspend.dma => p.channel_busy(channel, now),
            _ => self.channels[channel].busy_until(now),
        };
        let parts = channel * self.parts..(channel + 1) * self.parts;
        parts.map(busy).sum::<Span>() / u64::from(self.parts)
    }
    /// Energy in nanojoules: LUN array time and channel time, each times its power.
    pub fn energy_nj(&self) -> [(&'static str, u64); 4] {
        let c = &self.counters;
        // 1 mW for 1 ns is 1 pJ.
        let scale = u128::from(self.parts) * 1000;
        let sum = |classes: &[Class]| {
            let all = classes.iter().map(|&class| self.array_pj(class)).sum::<u128>();
            (all / scale) as u64
        };
        let reads = [Class::UserRead, Class::RebuildRead, Class::GcRead, Class::MetaRead];
        let programs =
            [Class::UserProgram, Class::GcProgram, Class::MetaProgram, Class::ParityProgram];
        let transfer = u128::from(self.config.power.transfer_mw)
            * u128::from(c.transfer_ns.iter().sum::<u64>());
        [
            ("read", sum(&reads)),
            ("program", sum(&programs)),
            ("erase", sum(&[Class::Erase])),
            ("transfer", (transfer / scale) as u64),
        ]
    }
    /// Energy of the arrays, in picojoules, each operation at the power of its block's mode.
    fn array_pj(&self, class: Class) -> u128 {
        let of = |read, program, erase| match class {
            Class::UserRead | Class::RebuildRead | Class::GcRead | Class::MetaRead => read,
            Class::Erase => erase,
            _ => program,
        };
        let power = &self.config.power;
        let (mut ns, mut pj) = (u128::from(self.counters.array_ns[class]), 0);
        if let Some(slc) = &self.slc {
            let (mode, of_slc) = (&slc.mode, u128::from(slc.array_ns[class]));
            ns -= of_slc;
            pj = of_slc * u128::from(of(mode.read_mw, mode.program_mw, mode.erase_mw));
        }
        pj + ns * u128::from(of(power.read_mw, power.program_mw, power.erase_mw))
    }
    /// The same by class of work.
    pub fn energy_by_class_nj(&self) -> [u64; CLASSES] {
        let power = &self.config.power;
        let parts = u128::from(self.parts);
        Class::ALL.map(|class| {
            let transfer_ns = u128::from(self.counters.transfer_ns[class]);
            let bus = u128::from(power.transfer_mw) * transfer_ns;
            ((self.array_pj(class) + bus) / parts / 1000) as u64
        })
    }

    pub(crate) fn block_index(&self, lun: LunId, line: LineId) -> BlockId {
        line * self.geometry.luns + lun
    }

    fn held_now(&self, lun: LunId, now: Time) -> [u64; HOLDERS] {
        let l = &self.luns[lun];
        let mut held = l.held;
        if l.is_held() {
            held[l.holder] += now.since(l.since).0;
        }
        held
    }

    /// Queues an operation at its LUN, in order of arrival.
    pub fn submit(&mut self, ctx: &mut Ctx, op: Op) {
        let lun = self.geometry.lun_of(op.ppa);
        debug_assert!(
            op.kind != OpKind::Read
                || op.sectors >= 1
                    && op.ppa.0 % self.geometry.sectors_per_unit + op.sectors
                        <= self.geometry.sectors_per_unit,
            "a read of {} sectors at {:?} leaves its unit",
            op.sectors,
            op.ppa
        );
        if self.parts > 1 {
            return self.submit_parts(ctx, op);
        }
        self.submit_at(ctx, op, lun, self.geometry.channel_of(lun), WHOLE);
    }

    #[inline]
    pub(crate) fn submit_at(
        &mut self,
        ctx: &mut Ctx,
        op: Op,
        lun: LunId,
        channel: ChannelId,
        join: u32,
    ) {
        let l = &self.luns[lun];
        let busy = !l.can_start(op.kind) || !l.queue.is_empty();
        let idle = l.current.is_none() && l.leaving.is_none();
        let record = Record {
            op,
            outcome: Outcome::Ok,
            lun,
            channel,
            submitted: ctx.now,
            started: ctx.now,
            bus_start: ctx.now,
            bus_end: ctx.now,
            array_end: ctx.now,
            out_start: ctx.now,
            end: ctx.now,
            // What starts at once waits for nothing.
            waited: if busy || self.preemption.is_some() && !idle {
                self.held_now(lun, ctx.now)
            } else {
                [0; HOLDERS]
            },
            away: [Span::ZERO; 3],
            again: Span::ZERO,
            held: None,
        };
        let stage = Stage::Waiting;
        let key = self.states.insert(State {
            record,
            stage,
            left: Span::ZERO,
            join,
            slc: false,
            rereads: 0,
            lost: false,
        });
        if self.preemption.is_some() {
            self.submit_ahead(ctx, lun, key);
        } else if busy {
            self.luns[lun].queue.push_back(key);
        } else {
            self.start(ctx, lun, key);
        }
    }

    /// The LUN takes up an operation: channel for command and data in, then the array.
    pub(crate) fn start(&mut self, ctx: &mut Ctx, lun: LunId, key: u32) {
        let now = ctx.now;
        let state = &mut self.states[key];
        let record = &mut state.record;
        let (op, geometry) = (record.op, &self.geometry);
        if now > record.submitted {
            for (waited, now) in record.waited.iter_mut().zip(self.luns[lun].held) {
                *waited = now - *waited;
            }
            debug_assert_eq!(
                record.waited.iter().sum::<u64>(),
                now.since(record.submitted).0,
                "a wait is accounted to the nanosecond"
            );
        } else {
            record.waited = [0; HOLDERS];
        }
        record.started = now;
        state.stage = Stage::Array;
        let page = geometry.page_of(op.ppa);
        let line = geometry.line_of(op.ppa);
        let number = block_at(geometry, self.parts, lun, op.ppa);
        let block = &mut self.blocks[number];
        let page_type = page as usize % self.t_read.len();
        if op.kind == OpKind::Program && block.programmed == 0 {
            block.slc = op.slc;
        }
        let slc = self.slc.as_deref_mut().filter(|_| block.slc);
        let (data, array) = match op.kind {
            OpKind::Read => {
                assert!(
                    page < u32::from(block.programmed) || geometry.in_place,
                    "read of page {page} of LUN {lun} line {line}, where only {} are programmed",
                    block.programmed
                );
                let (errors, t_read, page_type) = match slc {
                    Some(slc) => (&mut slc.errors, slc.mode.t_read, 0),
                    None => (&mut self.errors, self.t_read[page_type], page_type),
                };
                if let Some(errors) = errors {
                    block.reads = block.reads.saturating_add(1);
                    let rereads = errors.rereads(Page {
                        block: number,
                        page_type,
                        erases: block.erases,
                        old: page < u32::from(block.before),
                        reads: block.reads,
                        bytes: geometry.sector.bytes_of(op.sectors) as u32,
                    });
                    state.lost = rereads.is_none();
                    state.rereads = rereads.unwrap_or(self.config.errors.steps);
                }
                (Span::ZERO, t_read)
            }
            OpKind::Program => {
                assert!(
                    page == u32::from(block.programmed) || geometry.in_place,
                    "pages of a block are programmed in order, once between erases: LUN {lun} line {line}"
                );
                assert!(
                    op.slc == block.slc && (!op.slc || page < geometry.slc_pages),
                    "page {page} of LUN {lun} line {line}: a block with a bit a cell ({}) has {} pages, all so",
                    block.slc,
                    geometry.slc_pages
                );
                block.programmed += u16::from(!geometry.in_place);
                (
                    self.t_unit_transfer,
                    slc.map_or(self.t_program[page_type], |slc| slc.mode.t_program),
                )
            }
            OpKind::Erase => {
                (block.programmed, block.before, block.reads) = (0, 0, 0);
                block.erases += 1;
                (Span::ZERO, slc.map_or(self.config.t_erase, |slc| slc.mode.t_erase))
            }
        };
        state.slc = block.slc;
        if op.kind == OpKind::Erase {
            block.slc = false;
        }
        let (erases, slc) = (block.erases, state.slc);
        let array = match &self.variation {
            Some(variation) => variation.of(op, array, (number, erases), slc, geometry),
            None => array,
        };
        let l = &mut self.luns[lun];
        self.counters.busy_ns[l.holder] += l.settle(now);
        l.current = Some(key);
        l.holder = op.class as usize;
        if self.config.suspend.dma {
            return self.ask_for_channel(ctx, key, data, array);
        }
        let part = data.min(self.t_part);
        let bus = self.config.t_command + part;
        let channel = record.channel;
        let (bus_start, bus_end) = match bus {
            Span::ZERO => (now, now),
            _ => self.channels[channel].reserve(now, bus),
        };
        self.counters.transfer_ns[op.class] += bus.0;
        self.counters.array_ns[op.class] += array.0;
        if let Some(of_slc) = self.slc.as_mut().filter(|_| state.slc) {
            of_slc.array_ns[op.class] += array.0;
        }
        record.bus_start = bus_start;
        record.bus_end = bus_end;
        record.array_end = bus_end + array;
        state.left = data - part;
        let tag = self.preemption.as_ref().map_or(lun, |p| p.tag(lun));
        if state.left > Span::ZERO {
            state.stage = Stage::In;
            ctx.at(bus_end, Kind::NandBus, tag);
        } else {
            ctx.at(record.array_end, Kind::NandArray, tag);
        }
        if bus > Span::ZERO && ctx.tracks.is_some() {
            ctx.slice(Track::Channel(channel), "command, data in", bus_start, bus_end, op.io);
        }
    }

    /// A stage of a LUN's operation ended. If that was its last: its key, for [`Nand::record`].
    pub fn on_event(&mut self, ctx: &mut Ctx, kind: Kind, index: u32) -> Option<u32> {
        if self.plain {
            self.advance(ctx, kind, index)
        } else if kind == Kind::NandPart {
            self.release_part(ctx, index);
            None
        } else if self.preemption.is_some() {
            self.on_tagged(ctx, kind, index)
        } else {
            self.advance(ctx, kind, index)
        }
    }

    /// Counts time of the array for an operation.
    #[inline]
    pub(crate) fn count_array(&mut self, key: u32, time: Span) {
        let State { record, slc, .. } = &self.states[key];
        self.counters.array_ns[record.op.class] += time.0;
        if let Some(of_slc) = self.slc.as_mut().filter(|_| *slc) {
            of_slc.array_ns[record.op.class] += time.0;
        }
    }
    /// The LUN's operation goes on to its next stage.
    pub(crate) fn advance(&mut self, ctx: &mut Ctx, kind: Kind, lun: LunId) -> Option<u32> {
        let l = &self.luns[lun];
        let key = match l.leaving {
            // Data go in only when none are leaving.
            Some(key) if kind == Kind::NandBus => key,
            _ => l.current.expect("an event belongs to an operation"),
        };
        let state = &mut self.states[key];
        let record = &mut state.record;
        match state.stage {
            Stage::In => {
                let part = state.left.min(self.t_part);
                state.left -= part;
                let channel = record.channel;
                let (start, end) = self.channels[channel].reserve(ctx.now, part);
                self.counters.transfer_ns[record.op.class] += part.0;
                let waited = start.since(record.bus_end);
                record.bus_start += waited;
                record.array_end += end.since(record.bus_end);
                record.bus_end = end;
                let (io, array_end) = (record.op.io, record.array_end);
                let tag = self.preemption.as_ref().map_or(lun, |p| p.tag(lun));
                if state.left > Span::ZERO {
                    ctx.at(end, Kind::NandBus, tag);
                } else {
                    state.stage = Stage::Array;
                    ctx.at(array_end, Kind::NandArray, tag);
                }
                if ctx.tracks.is_some() {
                    ctx.slice(Track::Channel(channel), "data in", start, end, io);
                }
                if self.preemption.is_some() {
                    self.consider(ctx, lun);
                }
                return None;
            }
            Stage::Array if record.op.kind == OpKind::Read => {
                state.stage = Stage::Out;
                state.left = match record.op.sectors {
                    1 => self.t_sector_transfer,
                    n => Span::of_bytes(self.geometry.sector.bytes_of(n), self.rate),
                };
                record.out_start = ctx.now;
                record.end = ctx.now;
                if !self.config.cache_register || self.keeps_register(lun) {
                    self.data_out(ctx, lun, key);
                } else if self.luns[lun].leaving.is_none() {
                    self.leave_array(ctx, lun, key);
                } else {
                    self.states[key].stage = Stage::Ready;
                }
                return None;
            }
            Stage::Out if state.left > Span::ZERO => {
                self.data_out(ctx, lun, key);
                return None;
            }
            Stage::Out if state.rereads > 0 => {
                self.read_again(ctx, lun, key);
                return None;
            }
            _ => {}
        }
        self.finish(ctx, lun, key).then_some(key)
    }
    /// The code gives a page up that has arrived; its LUN, which has waited for that, reads it once more.
    pub(crate) fn read_again(&mut self, ctx: &mut Ctx, lun: LunId, key: u32) {
        let page_types = self.t_read.len();
        let State { record, stage, rereads, slc, .. } = &mut self.states[key];
        let t_read = match self.slc.as_ref().filter(|_| *slc) {
            Some(slc) => slc.mode.t_read,
            None => self.t_read[self.geometry.page_of(record.op.ppa) as usize % page_types],
        };
        let t_read = match &self.variation {
            Some(variation) => {
                let (op, g) = (record.op, &self.geometry);
                let number = block_at(g, self.parts, lun, op.ppa);
                variation.of(op, t_read, (number, self.blocks[number].erases), *slc, g)
            }
            None => t_read,
        };
        *rereads -= 1;
        *stage = Stage::Array;
        let array_end = ctx.now + self.config.errors.t_decode + self.config.t_command + t_read;
        record.again += array_end.since(record.array_end);
        record.array_end = array_end;
        self.count_array(key, t_read);
        let tag = self.preemption.as_ref().map_or(lun, |p| p.tag(lun));
        ctx.at(array_end, Kind::NandArray, tag);
    }
    /// A read's data move to the cache register; the next operation may start.
    fn leave_array(&mut self, ctx: &mut Ctx, lun: LunId, key: u32) {
        let state = &mut self.states[key];
        state.stage = Stage::Out;
        if state.rereads > 0 {
            // No other read begins where this one goes on.
            return self.data_out(ctx, lun, key);
        }
        let l = &mut self.luns[lun];
        self.counters.busy_ns[l.holder] += l.settle(ctx.now);
        if ctx.tracks.is_some() {
            let Record { op, started, .. } = self.states[key].record;
            ctx.slice(Track::Lun(lun), op.class.name(), started, ctx.now, op.io);
        }
        l.current = None;
        l.leaving = Some(key);
        // The next read's command frees the page register: it goes before the data.
        self.next(ctx, lun);
        self.data_out(ctx, lun, key);
    }
    /// What waits first starts, if it can.
    fn next(&mut self, ctx: &mut Ctx, lun: LunId) {
        if self.preemption.is_some() {
            return self.next_at(ctx, lun);
        }
        let l = &mut self.luns[lun];
        if let Some(&next) = l.queue.front()
            && l.can_start(self.states[next].record.op.kind)
        {
            l.queue.pop_front();
            self.start(ctx, lun, next);
        }
    }
    /// The next part of a read's data; all of them on a channel that serves out of order.
    fn data_out(&mut self, ctx: &mut Ctx, lun: LunId, key: u32) {
        let state = &mut self.states[key];
        if self.config.suspend.dma {
            let data = state.left;
            return self.transfer(ctx, key, data, Span::ZERO);
        }
        let record = &mut state.record;
        let part = state.left.min(self.t_part);
        state.left -= part;
        let channel = record.channel;
        let (start, end) = self.channels[channel].reserve(ctx.now, part);
        self.counters.transfer_ns[record.op.class] += part.0;
        // Waiting for the cache register included.
        record.out_start += start.since(record.end);
        record.end = end;
        let tag = self.preemption.as_ref().map_or(lun, |p| p.tag(lun));
        ctx.at(end, Kind::NandBus, tag);
        let io = record.op.io;
        if ctx.tracks.is_some() {
            ctx.slice(Track::Channel(channel), "data out", start, end, io);
        }
    }
    /// A finished operation has failed all the same: whoever keeps its bytes could not move them.
    pub fn fail(&mut self, key: u32) {
        let record = &mut self.states[key].record;
        let before = std::mem::replace(&mut record.outcome, Outcome::Failed);
        self.counters.failed[record.op.class] += u64::from(before == Outcome::Ok);
    }
    /// What a finished operation did, until the next is submitted.
    #[inline]
    pub fn record(&self, key: u32) -> &Record {
        &self.states[key].record
    }

    /// The LUN is done with it; true if the operation is over, all its parts.
    pub(crate) fn finish(&mut self, ctx: &mut Ctx, lun: LunId, key: u32) -> bool {
        let State { record, join, .. } = &mut self.states[key];
        record.end = ctx.now;
        let over = match &mut self.gang {
            Some(gang) if *join != WHOLE => gang.part_over(ctx.now, *join),
            _ => true,
        };
        if over {
            self.count(ctx, key);
        }
        self.release(ctx, lun, key);
        over
    }

    /// Counts an operation that is over, draws whether it failed, and keeps or tells what its page holds.
    #[inline]
    fn count(&mut self, ctx: &mut Ctx, key: u32) {
        let Nand { states, geometry, config, counters, read_waits, script, faults, .. } = self;
        let State { record, lost, .. } = &mut states[key];
        let class = record.op.class as usize;
        let ppb = match record.op.kind {
            OpKind::Read => config.faults.read_fail_ppb,
            OpKind::Program => config.faults.program_fail_ppb,
            OpKind::Erase => config.faults.erase_fail_ppb,
        };
        let scripted = script.fails(record.op.kind, geometry, record.op.ppa);
        if *lost || scripted || ppb > 0 && faults.chance(ppb) {
            record.outcome = Outcome::Failed;
            counters.failed[class] += 1;
        }
        counters.ops[class] += 1;
        counters.sectors[class] += match record.op.kind {
            OpKind::Read => u64::from(record.op.sectors),
            OpKind::Program => u64::from(geometry.sectors_per_unit),
            OpKind::Erase => 1,
        };
        if matches!(record.op.class, Class::UserRead | Class::RebuildRead) {
            let held = record.started > record.submitted;
            let queued = record.bus_start > record.started || record.out_start > record.array_end;
            counters.reads_waited += u64::from(held || queued);
            if held {
                let longest = (0..HOLDERS).rev().max_by_key(|&k| record.waited[k]).unwrap_or(0);
                counters.reads_blocked_by[longest] += 1;
                let sums = read_waits[geometry.lun_of(record.op.ppa)].iter_mut();
                sums.zip(record.waited).for_each(|(sum, ns)| *sum += ns);
            }
            if queued {
                counters.reads_blocked_by_transfer += 1;
                let at = geometry.lun_of(record.op.ppa);
                read_waits[at][WAITS - 1] += record.bus_start.since(record.started).0
                    + record.out_start.since(record.array_end).0;
            }
        }
        // A page holds what was programmed from now on, or no longer; a read returns it.
        if !ctx.stamps.flash.is_on() {
            return;
        }
        let g = &*geometry;
        let Op { kind, ppa, sectors, .. } = record.op;
        let ok = record.outcome == Outcome::Ok;
        match kind {
            OpKind::Program => ctx.stamps.flash.programmed(ppa.0, ok),
            OpKind::Erase => {
                let (line, lun) = (g.line_of(ppa), g.lun_of(ppa));
                for page in 0..g.pages {
                    ctx.stamps.flash.erased(g.first_of_unit(g.unit_at(line, page, lun)).0);
                }
            }
            OpKind::Read => {
                let known = if g.in_place {
                    ctx.stamps.flash.is_written(ppa.0)
                } else {
                    let block = g.line_of(ppa) * g.luns + g.lun_of(ppa);
                    g.page_of(ppa) >= u32::from(self.blocks[block * self.parts].before)
                };
                record.held = (known && ok).then(|| ctx.stamps.flash.read(ppa.0, sectors));
            }
        }
    }

    /// The LUN goes on to what is next.
    fn release(&mut self, ctx: &mut Ctx, lun: LunId, key: u32) {
        let Record { op, started, away, .. } = self.states[key].record;
        if let Some(p) = &mut self.preemption {
            p.counters.suspended_ns[op.class] += away.iter().map(|a| a.0).sum::<u64>();
        }
        let l = &mut self.luns[lun];
        self.counters.busy_ns[l.holder] += l.settle(ctx.now);
        if l.leaving == Some(key) {
            l.leaving = None;
            if let Some(current) = l.current
                && self.states[current].stage == Stage::Ready
            {
                self.leave_array(ctx, lun, current);
            } else {
                self.next(ctx, lun);
            }
        } else {
            l.current = None;
            if ctx.tracks.is_some() {
                ctx.slice(Track::Lun(lun), op.class.name(), started, ctx.now, op.io);
            }
            self.next(ctx, lun);
        }
        self.states.remove(key);
    }

    /// Operations waiting at a LUN, the one under way excluded.
    pub fn queued(&self, lun: LunId) -> usize {
        self.luns[lun].queue.len()
    }
    /// Draws taken from its random streams, for comparing runs.
    pub fn draws(&self) -> u64 {
        let of_slc = self.slc.as_ref().and_then(|slc| slc.errors.as_ref());
        let errors = self.errors.iter().chain(of_slc);
        self.faults.draws() + errors.map(|e| e.draws()).sum::<u64>()
    }
    /// What reads that were done again were, where bit errors are modelled.
    pub fn reread(&self) -> Option<Reread> {
        let of_slc = self.slc.as_ref().and_then(|slc| slc.errors.as_ref());
        let all = self.errors.iter().chain(of_slc);
        all.map(|e| e.counts).reduce(|mut sum, of| {
            sum += of;
            sum
        })
    }
    /// How often blocks were erased, over all blocks.
    pub fn wear(&self) -> Wear {
        let erases = || self.blocks.iter().map(|b| b.erases);
        Wear {
            min: erases().min().unwrap_or(0),
            max: erases().max().unwrap_or(0),
            mean: erases().map(f64::from).sum::<f64>() / self.blocks.len() as f64,
            rated: self.config.endurance,
        }
    }
}

/// Erase counts of all blocks against the rating.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Wear {
    /// Erasures of the block with the fewest.
    pub min: u32,
    /// Erasures of the block with the most.
    pub max: u32,
    /// Erasures of a block on average.
    pub mean: f64,
    /// Cycles that blocks are made for.
    pub rated: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ErrorConfig, ErrorModel, NandPower, Suspend};
    use crate::geometry::small;

    struct Bench {
        ctx: Ctx,
        nand: Nand,
        done: Vec<Record>,
    }

    impl Bench {
        fn new(config: &NandConfig) -> Bench {
            Bench { ctx: Ctx::new(), nand: Nand::new(config, Seed(1)).unwrap(), done: Vec::new() }
        }
        fn submit(&mut self, kind: OpKind, class: Class, line: LineId, page: u32, lun: LunId) {
            self.submit_as(false, kind, class, (line, page, lun));
        }
        fn submit_as(
            &mut self,
            slc: bool,
            kind: OpKind,
            class: Class,
            (line, page, lun): (LineId, u32, LunId),
        ) {
            let g = self.nand.geometry;
            let ppa = g.first_of_unit(g.unit_at(line, page, lun));
            let (owner, io) = (0, IoId::NONE);
            self.nand.submit(&mut self.ctx, Op { kind, class, ppa, sectors: 1, slc, owner, io });
        }
        fn run(&mut self) {
            while let Some((now, event)) = self.ctx.queue.pop() {
                self.ctx.now = now;
                if let Some(key) = self.nand.on_event(&mut self.ctx, event.kind(), event.index()) {
                    self.done.push(*self.nand.record(key));
                }
            }
        }
    }

    #[test]
    fn a_page_that_is_read_again_holds_its_lun_for_each_reading() {
        let t_decode = Span::from_us(20);
        let model = ErrorModel::Tlc72Layer;
        let errors = ErrorConfig { model, corrects: 3, t_decode, ..ErrorConfig::default() };
        let worn = NandConfig { errors, transfer_bytes: 4096, ..small() };
        let first =
            Suspend { queue: true, dma: true, program: true, most: 4, ..Suspend::default() };
        let mut both = worn.clone();
        (both.cache_register, both.suspend) = (true, first.clone());
        for c in [
            worn.clone(),
            NandConfig { cache_register: true, ..worn.clone() },
            NandConfig { suspend: first, ..worn.clone() },
            both,
        ] {
            let mut b = Bench::new(&c);
            b.nand.set_block(0, 1, 16, 5, false);
            b.submit(OpKind::Read, Class::UserRead, 1, 3, 0);
            b.submit(OpKind::Read, Class::UserRead, 1, 5, 0);
            b.run();
            let found = b.nand.reread().unwrap();
            assert!(found.reads_done_again == 2 && found.rereads >= 4, "{found:?}");
            assert_eq!(found.reads_lost, 0, "{found:?}");
            let (each, bus) = (Span::from_us(50), Span::of_bytes(4096, 400_000_000));
            let once = c.t_command + each + bus;
            let [one, two] = [0, 1].map(|i| b.done[i]);
            let count =
                |r: &Record| (r.again.0 / (t_decode + once).0, r.again.0 % (t_decode + once).0);
            // Sensing to sensing, so the last transfer is not in it.
            let (n, m) = (count(&one), count(&two));
            assert_eq!((n.0 + m.0, n.1, m.1), (found.rereads, 0, 0), "{c:?}");
            // With a cache register the next read's command goes before the last data.
            let command = if c.cache_register { c.t_command } else { Span::ZERO };
            assert_eq!(one.end, Time(0) + once + one.again + command, "{c:?}");
            let free = if c.cache_register { one.array_end } else { one.end };
            assert_eq!(two.started, free, "no read begins where one goes on");
            assert_eq!(two.end, two.started + once + two.again);
            let array: u64 = b.nand.counters().array_ns.iter().sum();
            assert_eq!(array, each.0 * (2 + found.rereads));
        }
    }

    #[test]
    fn an_idle_lun_takes_exactly_the_sum_of_its_stages() {
        let c = small();
        let mut b = Bench::new(&c);
        b.submit(OpKind::Program, Class::UserProgram, 0, 0, 0);
        b.run();
        // 200 ns command, 32 KiB at 400 MB/s, lower page 400 us.
        let data = Span::of_bytes(32768, 400_000_000);
        assert_eq!(b.done[0].end, Time(200) + data + Span::from_us(400));
        let t0 = b.ctx.now;
        b.submit(OpKind::Read, Class::UserRead, 0, 0, 0);
        b.run();
        let out = Span::of_bytes(4096, 400_000_000);
        assert_eq!(b.done[1].end.since(t0), Span(200) + Span::from_us(50) + out);
        assert_eq!(b.done[1].waited, [0; HOLDERS]);
        let t0 = b.ctx.now;
        b.submit(OpKind::Erase, Class::Erase, 0, 0, 0);
        b.run();
        assert_eq!(b.done[2].end.since(t0), Span(200) + Span::from_ms(3));
        assert_eq!(b.nand.erases(0, 0), 1);
    }

    #[test]
    fn a_read_behind_a_program_knows_what_it_waited_for() {
        let c = small();
        let mut b = Bench::new(&c);
        b.submit(OpKind::Program, Class::UserProgram, 0, 0, 0);
        b.run();
        b.submit(OpKind::Program, Class::GcProgram, 0, 1, 0);
        b.submit(OpKind::Erase, Class::Erase, 1, 0, 0);
        b.submit(OpKind::Read, Class::UserRead, 0, 0, 0);
        let t0 = b.ctx.now;
        b.run();
        let read = b.done.iter().find(|r| r.op.class == Class::UserRead).unwrap();
        let program = Span(200) + Span::of_bytes(32768, 400_000_000) + Span::from_us(900);
        let erase = Span(200) + Span::from_ms(3);
        assert_eq!(read.started.since(t0), program + erase);
        assert_eq!(read.waited[Class::GcProgram as usize], program.0);
        assert_eq!(read.waited[Class::Erase as usize], erase.0);
        assert_eq!(
            b.nand.read_waits(0)[..HOLDERS],
            read.waited,
            "a LUN keeps what reads waited for"
        );
        assert_eq!(b.nand.counters().reads_blocked_by[Class::Erase as usize], 1);
        // An I/O marked with the record is charged to the nanosecond.
        let io = b.ctx.lives.begin(0, wordline_base::Ddir::Read, 0, 4096, t0);
        read.mark(&mut b.ctx.lives, io);
        let life = b.ctx.lives.end(io);
        assert_eq!(life.latency(), read.end.since(t0));
        assert_eq!(life.spent()[Layer::Nand as usize], Span::from_us(50).0);
    }

    #[test]
    fn luns_of_one_channel_share_it_and_others_do_not() {
        let c = small();
        let mut b = Bench::new(&c);
        for lun in 0..8 {
            b.submit(OpKind::Program, Class::UserProgram, 0, 0, lun);
        }
        b.run();
        let (data, t0) = (Span::of_bytes(32768, 400_000_000) + Span(200), Span::from_us(400));
        for r in &b.done {
            // LUNs 0..3 have channels of their own, 4..7 follow on the same ones.
            let expected = if r.lun < 4 { data + t0 } else { data + data + t0 };
            assert_eq!(r.end, Time::ZERO + expected, "LUN {}", r.lun);
        }
    }

    #[test]
    fn data_of_planes_take_turns_on_the_channel() {
        let c = NandConfig { transfer_bytes: 4096, ..small() };
        let mut b = Bench::new(&c);
        b.submit(OpKind::Program, Class::UserProgram, 0, 0, 0);
        b.run();
        // LUNs 0 and 4 share a channel. Eight parts of a program, between them a read's one.
        let (t0, part) = (b.ctx.now, Span::of_bytes(4096, 400_000_000));
        b.submit(OpKind::Program, Class::GcProgram, 0, 0, 4);
        b.submit(OpKind::Read, Class::UserRead, 0, 0, 0);
        b.run();
        let of = |class| b.done.iter().rfind(|r| r.op.class == class).unwrap();
        let (read, program) = (of(Class::UserRead), of(Class::GcProgram));
        // The read's command goes after the first part; its array time ends in the middle of another.
        let command = Span(200);
        assert_eq!(read.bus_end.since(t0), command + part + command);
        let ready = read.array_end.since(t0).0 - 2 * command.0;
        assert_eq!(read.out_start.since(t0), Span(2 * command.0) + part * ready.div_ceil(part.0));
        assert_eq!(read.end, read.out_start + part);
        let data = part * 8;
        assert_eq!(program.bus_end.since(t0), command + data + command + part);
        assert_eq!(program.bus_end.since(program.bus_start), command + data, "waits come first");
        assert_eq!(program.end, program.bus_end + Span::from_us(400));
        assert_eq!(
            b.nand.counters().transfer_ns.iter().sum::<u64>(),
            3 * command.0 + data.0 * 2 + part.0
        );
    }

    #[test]
    fn with_a_cache_register_a_lun_reads_at_the_rate_of_its_channel() {
        let run = |cache_register, reads: u64| {
            let mut b = Bench::new(&NandConfig { cache_register, ..small() });
            b.submit(OpKind::Program, Class::UserProgram, 0, 0, 0);
            b.run();
            let t0 = b.ctx.now;
            for _ in 0..reads {
                b.submit(OpKind::Read, Class::UserRead, 0, 0, 0);
            }
            b.submit(OpKind::Erase, Class::Erase, 0, 0, 0);
            b.submit(OpKind::Program, Class::UserProgram, 0, 0, 0);
            b.submit(OpKind::Read, Class::GcRead, 0, 0, 0);
            b.run();
            for r in &b.done {
                assert_eq!(r.waited.iter().sum::<u64>(), r.started.since(r.submitted).0);
            }
            let held: u64 = b.nand.lun_busy(0, b.ctx.now).iter().sum();
            assert_eq!(held, b.ctx.now.0, "never idle");
            assert_eq!(held, b.nand.counters().busy_ns.iter().sum::<u64>());
            let of = |class| b.done.iter().rfind(|r| r.op.class == class).unwrap();
            (of(Class::UserRead).end.since(t0), of(Class::Erase).started.since(t0))
        };
        // The array (50 us) is slower than the channel (10 us).
        let (command, array, data) = (200, 50_000, Span::of_bytes(4096, 400_000_000).0);
        let (last, erase) = run(true, 10);
        assert_eq!(last, Span(10 * (command + array) + data));
        assert_eq!(erase, last, "what writes waits for the cache register");
        let (last, _) = run(false, 10);
        assert_eq!(last, Span(10 * (command + array + data)));
    }

    /// What reads of the first sector of a page returned, in order.
    fn held(b: &Bench) -> Vec<Option<u32>> {
        let reads = b.done.iter().filter(|r| r.op.kind == OpKind::Read);
        reads.map(|r| r.held).collect()
    }

    #[test]
    fn pages_hold_their_data_from_the_end_of_their_program_to_their_erasure() {
        use wordline_base::contents::{fold, tag};
        let mut b = Bench::new(&small());
        let g = b.nand.geometry;
        b.ctx.stamps.flash = wordline_base::Contents::new(g.sectors(), g.sectors_per_unit);
        let send = |b: &mut Bench, line: u32, stamp: u32| {
            let ppa = g.first_of_unit(g.unit_at(line, 0, 0)).0;
            b.ctx.stamps.flash.send(ppa, |data| data.put(0, 7, stamp));
            b.submit(OpKind::Program, Class::UserProgram, line, 0, 0);
        };
        let (nothing, newest) = (fold(0, 0), fold(0, tag(7, 3)));
        send(&mut b, 0, 3);
        // In the middle of the program the page holds nothing; a read waits for its end.
        let first = g.first_of_unit(g.unit_at(0, 0, 0)).0;
        b.ctx.at(Time(0) + Span::from_us(300), Kind::Sample, 0);
        while let Some((now, event)) = b.ctx.queue.pop() {
            b.ctx.now = now;
            match event.kind() {
                Kind::Sample => {
                    assert_eq!(b.ctx.stamps.flash.read(first, 1), nothing);
                    b.submit(OpKind::Read, Class::UserRead, 0, 0, 0);
                }
                kind => {
                    if let Some(key) = b.nand.on_event(&mut b.ctx, kind, event.index()) {
                        b.done.push(*b.nand.record(key));
                    }
                }
            }
        }
        assert_eq!(held(&b), [Some(newest)]);
        // Erased and programmed with nothing.
        b.submit(OpKind::Erase, Class::Erase, 0, 0, 0);
        b.run();
        assert_eq!(b.ctx.stamps.flash.read(first, 1), nothing);
        // What was there before time began is not known, until it is erased.
        b.done.clear();
        b.nand.set_block(0, 1, 1, 5, false);
        b.submit(OpKind::Read, Class::UserRead, 1, 0, 0);
        b.run();
        b.submit(OpKind::Erase, Class::Erase, 1, 0, 0);
        b.run();
        send(&mut b, 1, 3);
        b.run();
        b.submit(OpKind::Read, Class::UserRead, 1, 0, 0);
        b.run();
        assert_eq!(held(&b), [None, Some(newest)]);
    }

    fn with_slc() -> NandConfig {
        let slc = SlcMode {
            t_read: Span::from_us(20),
            t_program: Span::from_us(150),
            t_erase: Span::from_ms(2),
            endurance: 50_000,
            read_mw: 30,
            program_mw: 50,
            erase_mw: 70,
            errors: ErrorModel::None,
        };
        let power = NandPower { read_mw: 11, program_mw: 13, erase_mw: 17, transfer_mw: 0 };
        NandConfig { slc: Some(slc), power, ..small() }
    }

    #[test]
    fn a_block_has_a_bit_a_cell_from_its_first_program_to_its_erasure() {
        let suspend = Suspend { queue: true, dma: true, most: 4, ..Suspend::default() };
        for c in [with_slc(), NandConfig { suspend, ..with_slc() }] {
            let mut b = Bench::new(&c);
            assert_eq!(b.nand.geometry.slc_pages, 8);
            let (bus, out) =
                (Span(200) + Span::of_bytes(32768, 400_000_000), Span::of_bytes(4096, 400_000_000));
            let mut nj = [0, 0, 0];
            for slc in [true, false, true] {
                let of =
                    |native: u64, slc_mode: u64| Span::from_us(if slc { slc_mode } else { native });
                for page in 0..2 {
                    b.submit_as(slc, OpKind::Program, Class::UserProgram, (1, page, 0));
                }
                b.submit(OpKind::Read, Class::UserRead, 1, 1, 0);
                b.submit(OpKind::Erase, Class::Erase, 1, 0, 0);
                b.done.clear();
                b.run();
                let took: Vec<Span> = b.done.iter().map(|r| r.end.since(r.started)).collect();
                let expected = [
                    bus + of(400, 150),
                    bus + of(900, 150),
                    Span(200) + of(50, 20) + out,
                    Span(200) + of(3000, 2000),
                ];
                assert_eq!(took, expected, "{slc}");
                let us = |i: usize| [[50, 1300, 3000], [20, 300, 2000]][usize::from(slc)][i];
                let mw = |i: usize| [[11, 13, 17], [30, 50, 70]][usize::from(slc)][i];
                (0..3).for_each(|i| nj[i] += us(i) * mw(i));
            }
            let found = b.nand.energy_nj();
            assert_eq!([found[0].1, found[1].1, found[2].1], nj);
        }
    }

    #[test]
    #[should_panic(expected = "has 8 pages, all so")]
    fn a_block_in_slc_mode_has_no_page_more() {
        let mut b = Bench::new(&with_slc());
        (0..9)
            .for_each(|page| b.submit_as(true, OpKind::Program, Class::UserProgram, (0, page, 0)));
        b.run();
    }

    #[test]
    #[should_panic(expected = "all so")]
    fn a_block_has_one_mode() {
        let mut b = Bench::new(&with_slc());
        b.submit_as(true, OpKind::Program, Class::UserProgram, (0, 0, 0));
        b.submit(OpKind::Program, Class::UserProgram, 0, 1, 0);
        b.run();
    }

    #[test]
    #[should_panic(expected = "in order, once between erases")]
    fn pages_out_of_order_are_refused() {
        let mut b = Bench::new(&small());
        b.submit(OpKind::Program, Class::UserProgram, 0, 1, 0);
    }

    #[test]
    #[should_panic(expected = "only 0 are programmed")]
    fn reads_of_erased_pages_are_refused() {
        let mut b = Bench::new(&small());
        b.submit(OpKind::Read, Class::UserRead, 0, 0, 0);
    }

    #[test]
    fn busy_time_is_conserved() {
        let mut b = Bench::new(&small());
        for page in 0..16 {
            for lun in 0..8 {
                b.submit(OpKind::Program, Class::UserProgram, 2, page, lun);
            }
        }
        b.run();
        let now = b.ctx.now;
        let by_lun: u64 = (0..8).map(|l| b.nand.lun_busy(l, now).iter().sum::<u64>()).sum();
        assert_eq!(by_lun, b.nand.counters().busy_ns.iter().sum::<u64>());
        let by_channel: u64 = (0..4).map(|c| b.nand.channel_busy(c, now).0).sum();
        assert_eq!(by_channel, b.nand.counters().transfer_ns.iter().sum::<u64>());
        assert_eq!(b.nand.counters().sectors[Class::UserProgram], 16 * 8 * 8);
        assert!(
            b.done.iter().all(|r| r.waited.iter().sum::<u64>() == r.started.since(r.submitted).0)
        );
    }

    #[test]
    fn faults_come_at_their_rate() {
        let mut c = small();
        c.faults.program_fail_ppb = 200_000_000;
        c.faults.bad_blocks_ppb = 100_000_000;
        c.blocks = 64;
        let mut b = Bench::new(&c);
        for line in 0..64 {
            for page in 0..16 {
                for lun in 0..8 {
                    b.submit(OpKind::Program, Class::UserProgram, line, page, lun);
                }
            }
        }
        b.run();
        let failed = b.nand.counters().failed[Class::UserProgram] as f64 / (64. * 128.);
        assert!((0.18..0.22).contains(&failed), "{failed}");
        let bad = (0..64).flat_map(|l| (0..8).map(move |u| (u, l)));
        let bad = bad.filter(|&(u, l)| b.nand.is_factory_bad(u, l)).count();
        assert!((25..80).contains(&bad), "{bad} of 512");
    }
}
