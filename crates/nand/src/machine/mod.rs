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
//! With `[nand.suspend]` reads for users go first, and with `nand.channel_order` commands go before data: module
//! `suspend`. Channels in gangs: module `gang`. Planes that read on their own: module `planes`.
//!
//! A waiting operation knows what it waited for: each LUN integrates how long it was occupied by
//! each class of work, and an operation takes the difference between its arrival and its start.
//!
//! What pages hold is kept in `Stamps::flash`, with the data that drivers send with programs.
//! With `[nand.errors]` a page whose bits the code cannot correct is read again: module `errors`. With
//! `[nand.decoder]` a read is over when its last codeword is corrected: module `decoder`. Its LUN is free before.
//! Not modelled: cache programs.

mod account;
pub(crate) mod gang;
mod planes;
pub(crate) mod suspend;
#[cfg(test)]
mod tests;

pub(crate) use crate::class::SUSPENSION;
pub use crate::class::{CLASSES, Class, HOLDERS, PerClass, WAITS};
pub use crate::op::{Op, OpKind, Outcome, Record};
pub use account::Counters;

use crate::config::{NandConfig, SlcMode};
use crate::decoder::Decoder;
use crate::errors::{Errors, Page};
use crate::geometry::{BlockId, ChannelId, Geometry, LineId, LunId, Ppa};
use crate::machine::gang::{Gang, Joined, WHOLE};
use crate::machine::planes::Planes;
use crate::machine::suspend::{Preemption, Suspensions};
use crate::script::Script;
use crate::variation::Variation;
use std::collections::VecDeque;
use wordline_base::track::Track;
use wordline_base::{BadValue, BitMap, Ctx, IdVec, Kind, Rng, Seed, Slab, Span, Time, Timeline};

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
    /// The data have left the LUN and are with the decoders.
    Decoding,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub record: Record,
    pub stage: Stage,
    /// Time the data not yet granted need on the channel.
    pub left: Span,
    /// The operation that it is a part of, or `WHOLE`.
    join: u32,
    /// Its page and block, once it has started.
    page: u32,
    block: BlockId,
    /// It is on a block that is written with a bit a cell.
    pub slc: bool,
    /// How often a page is still read again.
    pub rereads: u32,
    /// Iterations of its codewords, once it is read as often as need be; 0: nothing is known of its errors.
    iterations: u32,
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
    config: NandConfig,
    luns: IdVec<LunId, Lun>,
    channels: IdVec<ChannelId, Timeline>,
    /// With parts told apart, those of a block after each other.
    blocks: IdVec<BlockId, Block>,
    states: Slab<State>,
    counters: Counters,
    /// Nanoseconds that reads of users waited at each LUN, by what they waited for.
    read_waits: IdVec<LunId, [u64; WAITS]>,
    faults: Rng,
    script: Script,
    bad_block_seed: u64,
    errors: Option<Box<Errors>>,
    /// Of media written in place whose age matters: units written since time began, by block and page.
    written: Option<Box<BitMap>>,
    decoder: Option<Box<Decoder>>,
    variation: Option<Box<Variation>>,
    slc: Option<Box<Slc>>,
    rate: u64,
    t_read: Vec<Span>,
    t_program: Vec<Span>,
    t_unit_transfer: Span,
    /// The longest a LUN keeps the channel for data.
    t_part: Span,
    /// Time of one sector on the channel: most reads move one.
    t_sector_transfer: Span,
    /// Reads for users go first, or a channel has a queue.
    preemption: Option<Box<Preemption>>,
    /// A channel chooses among those that wait for it.
    arbitrated: bool,
    gang: Option<Box<Gang>>,
    /// Planes read on their own.
    planes: Option<Box<Planes>>,
    /// Parts of an operation on LUNs of their own: 1, or those of a gang told apart.
    parts: u32,
    /// Neither parts nor preemption nor decoders, and one read a LUN: an event's index is a LUN.
    plain: bool,
    /// Every stage ends with an event, as tests ask for it: also those whose end is known before.
    stages_apart: bool,
}

/// The place of a unit among those of all blocks.
fn unit_index(block: BlockId, page: u32, g: &Geometry) -> usize {
    block as usize * g.pages as usize + page as usize
}

/// The block of an operation at `lun`, one of so many parts of a gang.
#[inline]
fn block_at(g: &Geometry, parts: u32, lun: LunId, ppa: Ppa) -> BlockId {
    let first = g.line_of(ppa) * g.luns;
    if parts == 1 { first + lun } else { (first + g.lun_of(ppa)) * parts + lun % parts }
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
        let planes = Planes::new(config, luns).map(Box::new);
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
            written: (config.in_place && config.errors.ages()).then(|| {
                let units = (luns * geometry.lines) as usize * geometry.pages as usize;
                Box::new(BitMap::new(units))
            }),
            decoder: Decoder::new(config, &geometry, parts)?.map(Box::new),
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
            plain: preemption.is_none()
                && parts == 1
                && config.decoder.is_none()
                && planes.is_none(),
            arbitrated: preemption.as_ref().is_some_and(|p| p.is_arbitrated()),
            preemption,
            gang,
            planes,
            parts,
            stages_apart: false,
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
    /// Blocks that nobody can use, for a block or for the part of one that was bad from the factory.
    pub fn factory_bad_blocks(&self) -> u64 {
        if self.config.faults.bad_blocks_ppb == 0 {
            return 0;
        }
        let luns = 0..self.geometry.luns;
        let bad =
            |lun| (0..self.geometry.lines).filter(move |&line| self.is_factory_bad(lun, line));
        luns.map(|lun| bad(lun).count() as u64).sum()
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

    /// The block at this place is written with a bit a cell.
    pub fn is_slc(&self, ppa: Ppa) -> bool {
        let block = self.block_index(self.geometry.lun_of(ppa), self.geometry.line_of(ppa));
        self.blocks[block * self.parts].slc
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
    /// What operations of parts did, where parts are told apart.
    pub fn joined(&self) -> Option<&Joined> {
        self.gang.as_ref().filter(|_| self.parts > 1).map(|gang| &gang.counters)
    }
    /// What reads going first did, where they may.
    pub fn suspensions(&self) -> Option<&Suspensions> {
        let preemption = self.preemption.as_ref().filter(|_| self.config.suspend.any());
        preemption.map(|p| &p.counters)
    }

    pub(crate) fn block_index(&self, lun: LunId, line: LineId) -> BlockId {
        line * self.geometry.luns + lun
    }

    /// Queues an operation at its LUN, in order of arrival.
    #[inline(always)]
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

    #[inline(always)]
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
            decode: Span::ZERO,
            decoded: Time::ZERO,
            // What starts at once waits for nothing.
            waited: match &self.planes {
                Some(planes) => planes.held_for(&self.geometry, l, lun, &op, ctx.now),
                None if busy || self.preemption.is_some() && !idle => self.held_now(lun, ctx.now),
                None => [0; HOLDERS],
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
            page: 0,
            block: 0,
            slc: false,
            rereads: 0,
            iterations: 0,
            lost: false,
        });
        if self.preemption.is_some() {
            self.submit_ahead(ctx, lun, key);
        } else if self.planes.is_some() {
            self.luns[lun].queue.push_back(key);
            self.go_on(ctx, lun);
        } else if busy {
            self.luns[lun].queue.push_back(key);
        } else {
            self.start(ctx, lun, key);
        }
    }

    /// The LUN takes up an operation: channel for command and data in, then the array.
    pub(crate) fn start(&mut self, ctx: &mut Ctx, lun: LunId, key: u32) {
        let now = ctx.now;
        if self.planes.is_some() {
            self.settle(lun, now);
            self.waited_for_planes(lun, key, now);
        }
        let state = &mut self.states[key];
        let record = &mut state.record;
        let (op, geometry) = (record.op, &self.geometry);
        if now > record.submitted {
            if self.planes.is_none() {
                for (waited, now) in record.waited.iter_mut().zip(self.luns[lun].held) {
                    *waited = now - *waited;
                }
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
        (state.page, state.block) = (page, number);
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
                    // What is written over has no reads of its block behind it that an erasure would end.
                    block.reads = block.reads.saturating_add(u32::from(!geometry.in_place));
                    let old = match &self.written {
                        Some(written) => !written.get(unit_index(number, page, geometry)),
                        None => page < u32::from(block.before),
                    };
                    let page = Page {
                        block: number,
                        page_type,
                        erases: block.erases,
                        old,
                        reads: block.reads,
                        // A part of a gang's read has its die's share of the sectors.
                        bytes: geometry.sector.bytes_of(op.sectors) as u32 / self.parts,
                    };
                    let rereads = errors.rereads(page);
                    if rereads != Some(0)
                        && state.join != WHOLE
                        && let Some(gang) = &mut self.gang
                    {
                        errors.count_once(gang.part_again(state.join, rereads.is_none()));
                    }
                    if let Some(decoder) = &self.decoder {
                        state.iterations = decoder.iterations(errors.wrong(&page, rereads));
                    }
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
                if let Some(written) = &mut self.written {
                    written.set(unit_index(number, page, geometry));
                }
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
        match &mut self.planes {
            None => {
                self.counters.busy_ns[l.holder] += l.settle(now);
                l.current = Some(key);
                l.holder = op.class as usize;
            }
            Some(planes) if op.kind == OpKind::Read => planes.take(geometry, lun, &op, key),
            Some(_) => {
                l.current = Some(key);
                l.holder = op.class as usize;
            }
        }
        if self.arbitrated {
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
        let (end, kind) = match state.left {
            Span::ZERO => (record.array_end, Kind::NandArray),
            _ => {
                state.stage = Stage::In;
                (bus_end, Kind::NandBus)
            }
        };
        self.set_event(ctx, end, kind, lun, key);
        if bus > Span::ZERO && ctx.tracks.is_some() {
            ctx.slice(Track::Channel(channel), "command, data in", bus_start, bus_end, op.io);
        }
    }

    /// A stage of a LUN's operation ended. If that was its last: its key, for [`Nand::record`].
    pub fn on_event(&mut self, ctx: &mut Ctx, kind: Kind, index: u32) -> Option<u32> {
        match kind {
            _ if self.plain => {}
            Kind::NandDecoded => return self.decoded(ctx, index),
            Kind::NandPart => {
                self.release_part(ctx, index);
                return None;
            }
            Kind::NandPlane => return self.on_plane(ctx, index),
            _ if self.preemption.is_some() => return self.on_tagged(ctx, kind, index),
            _ => {}
        }
        self.advance(ctx, kind, index)
    }

    /// The end of a stage gets its event.
    #[inline(always)]
    fn set_event(&self, ctx: &mut Ctx, at: Time, kind: Kind, lun: LunId, key: u32) {
        let (kind, index) = self.stage_event(lun, key, kind);
        ctx.at(at, kind, index);
    }

    /// The LUN's operation goes on to its next stage.
    #[inline(always)]
    pub(crate) fn advance(&mut self, ctx: &mut Ctx, kind: Kind, lun: LunId) -> Option<u32> {
        let l = &self.luns[lun];
        let key = match l.leaving {
            // Data go in only when none are leaving.
            Some(key) if kind == Kind::NandBus => key,
            _ => l.current.expect("an event belongs to an operation"),
        };
        self.advance_one(ctx, lun, key)
    }
    /// An operation goes on to its next stage.
    #[inline(always)]
    fn advance_one(&mut self, ctx: &mut Ctx, lun: LunId, key: u32) -> Option<u32> {
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
                } else if match self.planes {
                    None => self.luns[lun].leaving.is_none(),
                    Some(_) => self.can_leave(lun, key),
                } {
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
        let t_decode = self.config.errors.t_decode;
        let given_up = match &mut self.decoder {
            Some(decoder) => decoder.give_up(ctx.now, record.channel, t_decode),
            None => ctx.now + t_decode,
        };
        let array_end = given_up + self.config.t_command + t_read;
        record.again += array_end.since(record.array_end);
        record.array_end = array_end;
        self.count_array(key, t_read);
        self.set_event(ctx, array_end, Kind::NandArray, lun, key);
    }
    /// A read's data move to the cache register; the next operation may start.
    pub(crate) fn leave_array(&mut self, ctx: &mut Ctx, lun: LunId, key: u32) {
        let state = &mut self.states[key];
        state.stage = Stage::Out;
        if state.rereads > 0 {
            // No other read begins where this one goes on.
            return self.data_out(ctx, lun, key);
        }
        self.settle(lun, ctx.now);
        self.draw(ctx, lun, key);
        match &mut self.planes {
            Some(planes) => planes.leave(&self.geometry, lun, &self.states[key].record.op, key),
            None => {
                let l = &mut self.luns[lun];
                l.current = None;
                l.leaving = Some(key);
            }
        }
        // The next read's command frees the page register: it goes before the data.
        self.next(ctx, lun);
        self.data_out(ctx, lun, key);
    }
    /// Whether a read's data can leave the array: the cache registers of its planes are free.
    fn can_leave(&self, lun: LunId, key: u32) -> bool {
        let op = &self.states[key].record.op;
        self.planes.as_ref().is_some_and(|planes| planes.can_leave(&self.geometry, lun, op))
    }
    /// Counts the time that a LUN was held until now.
    #[inline(always)]
    fn settle(&mut self, lun: LunId, now: Time) {
        let (l, busy_ns) = (&mut self.luns[lun], &mut self.counters.busy_ns);
        let class = l.holder;
        match &mut self.planes {
            Some(planes) => planes.settle(l, lun, now, (class, busy_ns)),
            None => busy_ns[class] += l.settle(now),
        }
    }
    /// The same, the LUN being busy with this class.
    fn settle_as(&mut self, lun: LunId, now: Time, class: usize) {
        let (l, busy_ns) = (&mut self.luns[lun], &mut self.counters.busy_ns);
        match &mut self.planes {
            Some(planes) => planes.settle(l, lun, now, (class, busy_ns)),
            None => busy_ns[class] += l.settle(now),
        }
    }
    /// Draws that an operation has had its LUN, or its planes.
    #[inline(always)]
    fn draw(&self, ctx: &mut Ctx, lun: LunId, key: u32) {
        if ctx.tracks.is_some() {
            self.draw_it(ctx, lun, key);
        }
    }
    #[cold]
    fn draw_it(&self, ctx: &mut Ctx, lun: LunId, key: u32) {
        let Record { op, started, .. } = self.states[key].record;
        let mut on = |track| ctx.slice(track, op.class.name(), started, ctx.now, op.io);
        match &self.planes {
            Some(planes) if op.kind == OpKind::Read => {
                planes.of(&self.geometry, lun, &op).for_each(|plane| on(planes.track(plane)))
            }
            _ => on(Track::Lun(lun)),
        }
    }
    /// What waits first starts, if it can.
    #[inline(always)]
    fn next(&mut self, ctx: &mut Ctx, lun: LunId) {
        if self.planes.is_some() {
            return self.go_on(ctx, lun);
        }
        let queue = &self.luns[lun].queue;
        match &self.preemption {
            None if queue.is_empty() => {}
            None => self.next_in_order(ctx, lun),
            Some(p) if queue.is_empty() && !p.has_suspended(lun) => {}
            Some(_) => self.next_at(ctx, lun),
        }
    }
    fn next_in_order(&mut self, ctx: &mut Ctx, lun: LunId) {
        let l = &mut self.luns[lun];
        if let Some(&next) = l.queue.front()
            && l.can_start(self.states[next].record.op.kind)
        {
            l.queue.pop_front();
            self.start(ctx, lun, next);
        }
    }
    /// The next part of a read's data; all of them on a channel that serves out of order.
    #[inline(always)]
    fn data_out(&mut self, ctx: &mut Ctx, lun: LunId, key: u32) {
        let state = &mut self.states[key];
        if self.arbitrated {
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
        let io = record.op.io;
        self.set_event(ctx, end, Kind::NandBus, lun, key);
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
    #[inline(always)]
    pub(crate) fn finish(&mut self, ctx: &mut Ctx, lun: LunId, key: u32) -> bool {
        let State { record, join, lost, .. } = &mut self.states[key];
        record.end = ctx.now;
        if self.decoder.is_some() && record.op.kind == OpKind::Read {
            self.decode(ctx, lun, key);
            return false;
        }
        let over = match &mut self.gang {
            Some(gang) if *join != WHOLE => gang.part_over(ctx.now, *join, lost),
            _ => true,
        };
        if over {
            self.count(ctx, key);
        }
        self.release(ctx, lun, key);
        self.states.remove(key);
        over
    }

    /// A read's data have left its LUN, which goes on: the decoders of the channel have them.
    #[inline(never)]
    fn decode(&mut self, ctx: &mut Ctx, lun: LunId, key: u32) {
        let State { record, stage, join, iterations, .. } = &mut self.states[key];
        let decoder = self.decoder.as_mut().expect("a channel has decoders");
        let bytes = self.geometry.sector.bytes_of(record.op.sectors) as u32 / self.parts;
        let iterations = (*iterations).max(decoder.iterations(Some(0)));
        (record.decode, record.decoded) =
            decoder.decode(ctx.now, record.channel, bytes, iterations);
        *stage = Stage::Decoding;
        ctx.at(record.decoded, Kind::NandDecoded, key);
        if *join == WHOLE {
            // What the page holds is told now: something else may be programmed before the decoder is through.
            self.count(ctx, key);
        }
        self.release(ctx, lun, key);
    }

    /// The decoders are through with a read. If it is over, all its parts: its key, for [`Nand::record`].
    #[inline(never)]
    fn decoded(&mut self, ctx: &mut Ctx, key: u32) -> Option<u32> {
        let State { join, lost, .. } = &mut self.states[key];
        let join = *join;
        let over = match &mut self.gang {
            Some(gang) if join != WHOLE => gang.part_over(ctx.now, join, lost),
            _ => true,
        };
        if over && join != WHOLE {
            self.count(ctx, key);
        }
        self.states.remove(key);
        over.then_some(key)
    }

    /// The LUN goes on to what is next.
    #[inline(always)]
    fn release(&mut self, ctx: &mut Ctx, lun: LunId, key: u32) {
        let Record { op, away, .. } = self.states[key].record;
        if let Some(p) = &mut self.preemption {
            p.counters.suspended_ns[op.class] += away.iter().map(|a| a.0).sum::<u64>();
        }
        self.settle(lun, ctx.now);
        if self.planes.is_some() && op.kind == OpKind::Read {
            return self.release_planes(ctx, lun, key);
        }
        let l = &mut self.luns[lun];
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
            self.draw(ctx, lun, key);
            self.next(ctx, lun);
        }
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
}
