//! A small FTL: a map of pages, one write buffer, greedy garbage collection.
//!
//! Sectors enter the buffer, leave it in units of whole programs over a few open blocks, and are mapped to
//! flash when their program is done. When free blocks run low, the closed block with the least valid
//! sectors is read, its valid sectors go through the same buffer, and it is erased once all that had come
//! before is on flash: what replaced its data may still be in the buffer.

use std::collections::{BTreeMap, VecDeque};
use wordline::Seed;
use wordline::translation::*;

/// What makes [`PageMap`]s.
pub struct PageMapKind;

impl FtlKind for PageMapKind {
    fn name(&self) -> &str {
        "pagemap"
    }
    fn make(
        &self,
        geometry: &Geometry,
        config: &FtlConfig,
        bad: &mut dyn FnMut(u32, u32) -> bool,
        _: Seed,
    ) -> Result<Box<dyn Translation>, BadValue> {
        Ok(Box::new(PageMap::new(geometry, config, bad)?))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Free,
    Open,
    Closed,
    Victim,
    Bad,
}

#[derive(Clone, Copy)]
struct Block {
    state: State,
    /// Pages given out, and operations under way.
    pages: u32,
    busy: u32,
    erases: u32,
    /// A program failed: it is not used again.
    failed: bool,
}

#[derive(Clone)]
enum Op {
    Program { ppa: Ppa, slots: Vec<u32> },
    Collect { ppa: Ppa, slots: Vec<u32> },
    Erase { block: BlockId },
}

/// The block being collected: its next sector, and once all have been read the turn to wait for.
#[derive(Clone, Copy)]
struct Victim {
    block: BlockId,
    next: u32,
    barrier: Option<u64>,
}

#[derive(Clone)]
pub struct PageMap {
    g: Geometry,
    /// Free blocks below which the collector works, and at which users wait for it.
    low: usize,
    least: usize,
    buffer: MappedBuffer,
    blocks: IdVec<BlockId, Block>,
    free: VecDeque<BlockId>,
    open: VecDeque<BlockId>,
    victim: Option<Victim>,
    ops: BTreeMap<u32, Op>,
}

impl PageMap {
    fn new(
        g: &Geometry,
        config: &FtlConfig,
        bad: &mut dyn FnMut(u32, u32) -> bool,
    ) -> Result<PageMap, BadValue> {
        let state = |i: BlockId| match bad(i % g.luns, i / g.luns) {
            true => State::Bad,
            false => State::Free,
        };
        let fresh = |state| Block { state, pages: 0, busy: 0, erases: 0, failed: false };
        let blocks: IdVec<_, _> = (0..g.lines * g.luns).map(state).map(fresh).collect();
        let good = |&b: &BlockId| blocks[b].state == State::Free;
        let free: VecDeque<BlockId> = (0..blocks.count()).filter(good).collect();
        let (block, slots) = (g.pages * g.sectors_per_unit, 4 * g.luns * g.sectors_per_unit);
        // The whole buffer finds room, and the sectors of a victim.
        let least = (slots / block + 3) as usize;
        let low = least + g.luns as usize;
        // What users cannot have: these, and the open blocks.
        let rest = free.len().saturating_sub(low + g.luns as usize) as f64 * f64::from(block);
        let sectors = (rest * (1.0 - config.over_provisioning / 100.0)) as u32;
        if sectors == 0 {
            return Err(BadValue::new("over_provisioning", "leaves no sector: use more blocks"));
        }
        let buffer = MappedBuffer::new(g, sectors, slots);
        let (open, victim, ops) = (VecDeque::new(), None, BTreeMap::new());
        Ok(PageMap { g: *g, low, least, buffer, blocks, free, open, victim, ops })
    }
    fn first_of(&self, block: BlockId, page: u32) -> Ppa {
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

    /// Does everything that can be done now.
    fn work(&mut self, stamps: &mut Stamps) {
        loop {
            // Some slots are the collector's, and no user takes the last free blocks.
            let most = if self.free.len() > self.least { u32::MAX } else { 0 };
            let kept = self.g.luns * self.g.sectors_per_unit;
            if self.buffer.admit(stamps, most, kept) | self.program(false) | self.collect() {
                continue;
            }
            // Less than a unit is left, and nothing else can go on before it is on flash.
            let idle = self.ops.is_empty();
            let held_up = idle && (self.buffer.is_full() || self.victim.is_some());
            if (held_up || self.buffer.is_waited_for()) && self.program(true) {
                continue;
            }
            if !idle || !self.buffer.refuse() {
                break;
            }
        }
    }

    /// Programs a unit, if there is a whole one or it is to be padded.
    fn program(&mut self, pad: bool) -> bool {
        if self.open.len() < self.g.luns as usize {
            self.open.extend(self.free.pop_front());
        }
        let Some(&block) = self.open.front() else { return false };
        let Some(Filled { slots, class }) = self.buffer.fill(pad) else { return false };
        self.open.pop_front();
        let b = &mut self.blocks[block];
        let page = b.pages;
        b.pages += 1;
        b.state = if b.pages == self.g.pages { State::Closed } else { State::Open };
        self.buffer.counters.lines_opened += u64::from(page == 0);
        self.open.extend((b.state == State::Open).then_some(block));
        let (op, ppa, payload) = (self.number(), self.first_of(block, page), slots.len() as u32);
        let action = Action::Program { op, ppa, class, payload, summed: 0, slc: false };
        self.issue(op, block, Op::Program { ppa, slots }, action);
        true
    }

    /// The closed block with the least to move, if that gains a unit.
    fn choose(&self) -> Option<BlockId> {
        let most = (self.g.pages - 1) * self.g.sectors_per_unit;
        let gains = |&b: &BlockId| {
            let block = &self.blocks[b];
            block.state == State::Closed && block.busy == 0 && self.buffer.valid_in(b) <= most
        };
        let closed = (0..self.blocks.count()).filter(gains);
        closed.min_by_key(|&b| self.buffer.valid_in(b))
    }
    /// Reads valid sectors of the victim while there are slots for them; then erases it.
    fn collect(&mut self) -> bool {
        let Some(mut v) = self.victim else {
            let chosen = self.choose().filter(|_| self.free.len() < self.low);
            self.victim = chosen.map(|block| Victim { block, next: 0, barrier: None });
            chosen.into_iter().for_each(|block| self.blocks[block].state = State::Victim);
            return chosen.is_some();
        };
        let (unit, block, from) = (self.g.sectors_per_unit, v.block, v.next);
        while v.next < self.g.pages * unit {
            let ppa = Ppa(self.first_of(block, v.next / unit).0 + v.next % unit);
            let sectors = self.buffer.valid_run(ppa);
            let Some(slots) = self.buffer.reserve(sectors) else { break };
            v.next += sectors.max(1);
            if sectors > 0 {
                let (op, class, payload) = (self.number(), Class::GcRead, sectors);
                let action = Action::Read { op, ppa, sectors, class, payload };
                self.issue(op, block, Op::Collect { ppa, slots }, action);
            }
        }
        if v.next == self.g.pages * unit && self.blocks[block].busy == 0 {
            let turn = *v.barrier.get_or_insert(self.buffer.turn());
            if self.buffer.is_passed(turn) {
                let (op, ppa) = (self.number(), self.first_of(block, 0));
                self.issue(op, block, Op::Erase { block }, Action::Erase { op, ppa });
            }
        }
        self.victim = Some(v);
        v.next > from
    }

    /// An operation in the block ended.
    fn end(&mut self, block: BlockId) -> &mut Block {
        self.blocks[block].busy -= 1;
        &mut self.blocks[block]
    }
    fn done(&mut self, op: u32, ok: bool) {
        match self.ops.remove(&op).expect("an operation under way") {
            Op::Program { ppa, slots } => {
                let block = self.buffer.block_of(ppa);
                let b = self.end(block);
                if !ok {
                    (b.state, b.failed) = (State::Closed, true);
                    self.open.retain(|&open| open != block);
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
                b.state = if good { State::Free } else { State::Bad };
                (b.pages, b.erases) = (0, b.erases + 1);
                self.free.extend(good.then_some(block));
                self.victim = None;
                self.buffer.erased(ok, good);
            }
        }
    }
}

impl Translation for PageMap {
    fn sectors(&self) -> u64 {
        self.buffer.sectors()
    }
    fn start(&mut self, ctx: &mut Ctx) {
        self.work(&mut ctx.stamps);
    }
    fn read(&mut self, ctx: &mut Ctx, lpn: Lpn, sectors: u32, out: &mut Vec<Piece>) {
        let before = out.len();
        self.buffer.read(ctx, lpn, sectors, out);
        for ppa in out[before..].iter().filter_map(|piece| piece.place.ppa()) {
            self.blocks[self.buffer.block_of(ppa)].busy += 1;
        }
    }
    fn read_done(&mut self, ctx: &mut Ctx, ppa: Ppa, _: u32) {
        self.end(self.buffer.block_of(ppa));
        self.work(&mut ctx.stamps);
    }
    fn digest(&self, ppa: Ppa, _: Lpn, sectors: u32) -> u64 {
        self.buffer.digest(ppa, sectors)
    }
    fn data(&self, op: u32, _: Ppa, to: &mut PageData) {
        if let Some(Op::Program { slots, .. }) = self.ops.get(&op) {
            self.buffer.data(slots, to);
        }
    }
    fn write(&mut self, ctx: &mut Ctx, tag: u32, lpn: Lpn, sectors: u32, fua: bool, from: Source) {
        self.buffer.write(tag, lpn, sectors, fua, from);
        self.work(&mut ctx.stamps);
    }
    fn flush(&mut self, ctx: &mut Ctx, tag: u32) {
        self.buffer.flush(tag);
        self.work(&mut ctx.stamps);
    }
    fn trim(&mut self, ctx: &mut Ctx, tag: u32, lpn: Lpn, sectors: u32) {
        self.buffer.trim(tag, lpn, sectors);
        self.work(&mut ctx.stamps);
    }
    fn poll(&mut self) -> Option<Action> {
        self.buffer.actions.pop_front()
    }
    fn on_done(&mut self, ctx: &mut Ctx, op: u32, outcome: Outcome) {
        self.done(op, outcome == Outcome::Ok);
        self.work(&mut ctx.stamps);
    }
    fn media_state(&self) -> Box<dyn Iterator<Item = BlockState> + '_> {
        Box::new((0..).zip(&self.blocks).map(|(i, b)| {
            let (line, lun, bad) = (i / self.g.luns, i % self.g.luns, b.state == State::Bad);
            BlockState { line, lun, bad, programmed: b.pages, erases: b.erases, slc: false }
        }))
    }
    fn counters(&self) -> &Counters {
        &self.buffer.counters
    }
    fn memory(&self) -> Memory {
        self.buffer.memory()
    }
    fn check_invariants(&self) -> Result<(), Breach> {
        self.buffer.check()
    }
    fn boxed(&self) -> Box<dyn Translation> {
        Box::new(self.clone())
    }
}
