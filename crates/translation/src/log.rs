//! A log of blocks over a [`MappedBuffer`]: what an FTL that maps sector by sector does with its blocks, before its
//! policy says with which.

use crate::{
    Action, BlockState, Breach, Counters, Filled, MappedBuffer, Memory, Piece, Source, Translation,
};
use std::collections::{BTreeMap, VecDeque};
use wordline_base::{BadValue, Ctx, IdVec, Lpn, PageData, Stamps};
use wordline_nand::{BlockId, Class, Geometry, LineId, LunId, Outcome, Ppa};

/// What a block is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockUse {
    /// Erased, and not written since.
    Free,
    /// It is being written.
    Open,
    /// Written to its end, or not written any more.
    Closed,
    /// It is being collected.
    Victim,
    /// It cannot be used.
    Bad,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    used: BlockUse,
    /// Pages given out.
    pages: u32,
    /// Flash operations under way.
    busy: u32,
    erases: u32,
    /// A program failed: it is not used again.
    failed: bool,
}

#[derive(Clone, Debug)]
enum Op {
    Program { ppa: Ppa, slots: Vec<u32> },
    Collect { ppa: Ppa, slots: Vec<u32> },
    Erase { block: BlockId },
}

/// The block being collected: its next sector, and once all have been read the turn to wait for. What
/// replaced its data may still be in the buffer.
#[derive(Clone, Copy, Debug)]
struct Victim {
    block: BlockId,
    next: u32,
    barrier: Option<u64>,
}

/// Blocks, the operations under way in them, and the buffer in front of them.
#[derive(Clone)]
pub struct BlockLog {
    /// The shape of the flash.
    g: Geometry,
    /// Commands, sectors on their way to flash, and where each sector is.
    pub buffer: MappedBuffer,
    /// Blocks.
    blocks: IdVec<BlockId, Block>,
    /// Free blocks.
    free: VecDeque<BlockId>,
    /// The block that is collected.
    victim: Option<Victim>,
    /// Flash operations under way.
    ops: BTreeMap<u32, Op>,
}

impl BlockLog {
    /// A buffer of `slots` sectors. Users have the good blocks beside `kept` ones, less `over_provisioning`
    /// per cent. `bad(lun, line)` tells factory bad blocks.
    pub fn new(
        g: &Geometry,
        slots: u32,
        kept: u32,
        over_provisioning: f64,
        bad: &mut dyn FnMut(LunId, LineId) -> bool,
    ) -> Result<BlockLog, BadValue> {
        let used = |i: BlockId| match bad(i % g.luns, i / g.luns) {
            true => BlockUse::Bad,
            false => BlockUse::Free,
        };
        let fresh = |used| Block { used, pages: 0, busy: 0, erases: 0, failed: false };
        let blocks: IdVec<_, _> = (0..g.lines * g.luns).map(used).map(fresh).collect();
        let good = |&b: &BlockId| blocks[b].used == BlockUse::Free;
        let free: VecDeque<BlockId> = (0..blocks.count()).filter(good).collect();
        let users = free.len().saturating_sub(kept as usize) as f64;
        let sectors = users * f64::from(g.pages * g.sectors_per_unit);
        let sectors = (sectors * (1.0 - over_provisioning / 100.0)) as u32;
        if sectors == 0 {
            return Err(BadValue::new("over_provisioning", "leaves no sector: use more blocks"));
        }
        let buffer = MappedBuffer::new(g, sectors, slots);
        Ok(BlockLog { g: *g, buffer, blocks, free, victim: None, ops: BTreeMap::new() })
    }
    /// The number of free blocks.
    pub fn free(&self) -> u32 {
        self.free.len() as u32
    }
    /// What a block is used for.
    pub fn used(&self, block: BlockId) -> BlockUse {
        self.blocks[block].used
    }
    /// No flash operation is under way.
    pub fn is_idle(&self) -> bool {
        self.ops.is_empty()
    }
    /// A block is being collected.
    pub fn is_collecting(&self) -> bool {
        self.victim.is_some()
    }
    /// The block that has been free for longest is opened.
    pub fn open(&mut self) -> Option<BlockId> {
        let block = self.free.pop_front()?;
        self.blocks[block].used = BlockUse::Open;
        self.buffer.counters.lines_opened += 1;
        Some(block)
    }
    /// Programs the next unit of an open block, if there is a whole one in the buffer or it is to be padded.
    pub fn program(&mut self, block: BlockId, pad: bool) -> bool {
        let Some(Filled { slots, class }) = self.buffer.fill(pad) else { return false };
        let b = &mut self.blocks[block];
        debug_assert_eq!(b.used, BlockUse::Open, "block {block}");
        let page = b.pages;
        b.pages += 1;
        if b.pages == self.g.pages {
            b.used = BlockUse::Closed;
        }
        let (op, ppa, payload) = (self.number(), self.unit(block, page), slots.len() as u32);
        let action = Action::Program { op, ppa, class, payload, summed: 0, slc: false };
        self.issue(op, block, Op::Program { ppa, slots }, action);
        true
    }
    /// Blocks that can be collected: closed ones in which nothing is under way.
    pub fn closed(&self) -> impl Iterator<Item = BlockId> + '_ {
        let at_rest = |b: &Block| b.used == BlockUse::Closed && b.busy == 0;
        (0..).zip(&self.blocks).filter(move |(_, b)| at_rest(b)).map(|(block, _)| block)
    }
    /// A closed block is the one to be collected.
    pub fn choose(&mut self, block: BlockId) {
        self.blocks[block].used = BlockUse::Victim;
        self.victim = Some(Victim { block, next: 0, barrier: None });
    }
    /// Reads what is valid of the chosen block as far as there are slots for it. When all of it is in the buffer
    /// and what came before that is on flash, the block is erased. Answers whether it went on.
    pub fn collect(&mut self) -> bool {
        let Some(mut v) = self.victim else { return false };
        let (unit, block, from) = (self.g.sectors_per_unit, v.block, v.next);
        let sectors_of_block = self.g.pages * unit;
        while v.next < sectors_of_block {
            let ppa = Ppa(self.unit(block, v.next / unit).0 + v.next % unit);
            let sectors = self.buffer.valid_run(ppa);
            let Some(slots) = self.buffer.reserve(sectors) else { break };
            v.next += sectors.max(1);
            if sectors > 0 {
                let (op, class, payload) = (self.number(), Class::GcRead, sectors);
                let action = Action::Read { op, ppa, sectors, class, payload };
                self.issue(op, block, Op::Collect { ppa, slots }, action);
            }
        }
        if v.next == sectors_of_block && self.blocks[block].busy == 0 {
            let turn = *v.barrier.get_or_insert(self.buffer.turn());
            if self.buffer.is_passed(turn) {
                let (op, ppa) = (self.number(), self.unit(block, 0));
                self.issue(op, block, Op::Erase { block }, Action::Erase { op, ppa });
            }
        }
        self.victim = Some(v);
        v.next > from
    }

    fn unit(&self, block: BlockId, page: u32) -> Ppa {
        self.g.first_of_unit(self.g.unit_at(block / self.g.luns, page, block % self.g.luns))
    }
    /// A number that no operation has.
    fn number(&self) -> u32 {
        (0..).find(|op| !self.ops.contains_key(op)).expect("there are more")
    }
    fn issue(&mut self, op: u32, block: BlockId, what: Op, action: Action) {
        self.ops.insert(op, what);
        self.blocks[block].busy += 1;
        self.buffer.actions.push_back(action);
    }
    /// An operation in the block ended.
    fn end(&mut self, block: BlockId) -> &mut Block {
        self.blocks[block].busy -= 1;
        &mut self.blocks[block]
    }
    /// An operation is done: for [`Translation::on_done`].
    pub fn done(&mut self, op: u32, ok: bool) {
        match self.ops.remove(&op).expect("an operation under way") {
            Op::Program { ppa, slots } => {
                let block = self.end(self.buffer.block_of(ppa));
                if !ok {
                    (block.used, block.failed) = (BlockUse::Closed, true);
                }
                self.buffer.programmed(ppa, slots, ok);
            }
            Op::Collect { ppa, slots } => {
                self.end(self.buffer.block_of(ppa));
                self.buffer.collected(ppa, slots, ok);
            }
            Op::Erase { block } => {
                let b = self.end(block);
                let good = ok && !b.failed;
                b.used = if good { BlockUse::Free } else { BlockUse::Bad };
                (b.pages, b.erases) = (0, b.erases + 1);
                self.free.extend(good.then_some(block));
                self.victim = None;
                self.buffer.erased(ok, good);
            }
        }
    }
    /// What the program `op` writes.
    pub fn data(&self, op: u32, to: &mut PageData) {
        if let Some(Op::Program { slots, .. }) = self.ops.get(&op) {
            self.buffer.data(slots, to);
        }
    }
    /// Every block, for [`Translation::media_state`].
    pub fn states(&self) -> impl Iterator<Item = BlockState> + '_ {
        (0..).zip(&self.blocks).map(|(i, b)| {
            let (line, lun, bad) = (i / self.g.luns, i % self.g.luns, b.used == BlockUse::Bad);
            BlockState { line, lun, bad, programmed: b.pages, erases: b.erases, slc: false }
        })
    }
}

/// What is written where, and what is collected when.
pub trait LogPolicy: Clone + Send + 'static {
    /// Does one thing that can be done now. False: there is nothing, until an operation ends or a command
    /// comes.
    fn step(&mut self, log: &mut BlockLog, stamps: &mut Stamps) -> bool;
}

/// The FTL that a log and a policy make.
#[derive(Clone)]
pub struct LogFtl<P> {
    log: BlockLog,
    policy: P,
}

impl<P: LogPolicy> LogFtl<P> {
    /// An FTL of a log and what decides about it.
    pub fn new(log: BlockLog, policy: P) -> LogFtl<P> {
        LogFtl { log, policy }
    }
    fn work(&mut self, ctx: &mut Ctx) {
        while self.policy.step(&mut self.log, &mut ctx.stamps) {}
    }
}

impl<P: LogPolicy> Translation for LogFtl<P> {
    fn sectors(&self) -> u64 {
        self.log.buffer.sectors()
    }
    fn start(&mut self, ctx: &mut Ctx) {
        self.work(ctx);
    }
    fn read(&mut self, ctx: &mut Ctx, lpn: Lpn, sectors: u32, out: &mut Vec<Piece>) {
        let before = out.len();
        self.log.buffer.read(ctx, lpn, sectors, out);
        for ppa in out[before..].iter().filter_map(|piece| piece.place.ppa()) {
            self.log.blocks[self.log.buffer.block_of(ppa)].busy += 1;
        }
    }
    fn read_failed(&mut self) {
        self.log.buffer.counters.read_errors += 1;
    }
    fn read_done(&mut self, ctx: &mut Ctx, ppa: Ppa, _: u32) {
        self.log.end(self.log.buffer.block_of(ppa));
        self.work(ctx);
    }
    fn digest(&self, ppa: Ppa, _: Lpn, sectors: u32) -> u64 {
        self.log.buffer.digest(ppa, sectors)
    }
    fn data(&self, op: u32, _: Ppa, to: &mut PageData) {
        self.log.data(op, to);
    }
    fn write(&mut self, ctx: &mut Ctx, tag: u32, lpn: Lpn, sectors: u32, fua: bool, from: Source) {
        self.log.buffer.write(tag, lpn, sectors, fua, from);
        self.work(ctx);
    }
    fn flush(&mut self, ctx: &mut Ctx, tag: u32) {
        self.log.buffer.flush(tag);
        self.work(ctx);
    }
    fn trim(&mut self, ctx: &mut Ctx, tag: u32, lpn: Lpn, sectors: u32) {
        self.log.buffer.trim(tag, lpn, sectors, &mut ctx.stamps);
        self.work(ctx);
    }
    fn poll(&mut self) -> Option<Action> {
        self.log.buffer.actions.pop_front()
    }
    fn on_done(&mut self, ctx: &mut Ctx, op: u32, outcome: Outcome) {
        self.log.done(op, outcome == Outcome::Ok);
        self.work(ctx);
    }
    fn media_state(&self) -> Box<dyn Iterator<Item = BlockState> + '_> {
        Box::new(self.log.states())
    }
    fn counters(&self) -> &Counters {
        &self.log.buffer.counters
    }
    fn memory(&self) -> Memory {
        self.log.buffer.memory()
    }
    fn is_collecting(&self) -> bool {
        self.log.is_collecting()
    }
    fn collector_holds(&self) -> bool {
        self.log.buffer.waits_for_collector(self.log.is_collecting())
    }
    fn check_invariants(&self) -> Result<(), Breach> {
        self.log.buffer.check()
    }
    fn boxed(&self) -> Box<dyn Translation> {
        Box::new(self.clone())
    }
}
