//! A small FTL: a map of pages, one write buffer, greedy garbage collection.
//!
//! Sectors enter the buffer, leave it in units of whole programs over a few open blocks, and are mapped to
//! flash when their program is done. When free blocks run low, the closed block with the least valid
//! sectors is read, its valid sectors go through the same buffer, and it is erased. A flush waits until
//! all that entered the buffer before is on flash; so does the erasure of a victim, since what replaced its
//! data may still be in the buffer.

use std::collections::{BTreeSet, VecDeque};
use wordline::Seed;
use wordline::translation::{
    Action, AgeError, BadValue, BlockState, Breach, Class, Counters, Ctx, Digest, FtlConfig,
    FtlKind, Geometry, Lpn, Memory, Outcome, PageData, Piece, Place, Ppa, Source, Stamps,
    Translation, Wear,
};

/// Map entries that are no address: nothing, unreadable, and a slot of the buffer from `SLOT` on.
const NONE: u32 = u32::MAX;
const LOST: u32 = u32::MAX - 1;
const SLOT: u32 = 0xF000_0000;

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
        Ok(Box::new(PageMap::new(*geometry, config, bad)?))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Free,
    Open,
    Closed,
    Bad,
}

#[derive(Clone)]
struct Block {
    state: State,
    /// Pages given out, sectors that the map points to, programs and reads in flight.
    pages: u32,
    valid: u32,
    writing: u32,
    pins: u32,
    erases: u32,
    /// A program failed: it is not used again.
    failed: bool,
}

#[derive(Clone, Copy)]
struct Entry {
    lpn: u32,
    stamp: u32,
    /// Its turn among all that ever entered the buffer.
    seq: u64,
    gc: bool,
}

#[derive(Clone)]
enum Waiting {
    Write { tag: u32, at: u32, end: u32, fua: bool, stamps: Option<VecDeque<u32>> },
    Trim { tag: u32, at: u32, end: u32 },
    Flush { tag: u32 },
}

#[derive(Clone)]
enum Op {
    Program {
        ppa: u32,
        slots: Vec<u32>,
    },
    /// Into slots that are kept for it.
    GcRead {
        ppa: u32,
        slots: Vec<u32>,
    },
    Erase {
        block: usize,
    },
}

/// The block being collected: its next sector to look at, and once all have been read the turn that must
/// be on flash before it is erased.
#[derive(Clone, Copy)]
struct Victim {
    block: usize,
    next: u32,
    barrier: Option<u64>,
    erasing: bool,
}

#[derive(Clone)]
pub struct PageMap {
    g: Geometry,
    sectors: u32,
    /// Free blocks below which the collector works, and at which users wait for it.
    low: usize,
    least: usize,
    /// Logical to physical; of each physical sector its logical one and its stamp.
    map: Vec<u32>,
    oob: Vec<(u32, u32)>,
    blocks: Vec<Block>,
    free: VecDeque<usize>,
    open: VecDeque<usize>,
    victim: Option<Victim>,
    entries: Vec<Entry>,
    free_slots: Vec<u32>,
    /// Slots not yet programmed, oldest first, and all turns that are not on flash.
    queue: VecDeque<u32>,
    unsafe_turns: BTreeSet<u64>,
    turn: u64,
    waiting: VecDeque<Waiting>,
    /// Flushes and FUA writes: the turn up to which all must be on flash.
    flushes: Vec<(u64, u32)>,
    ops: Vec<Option<Op>>,
    in_flight: u32,
    actions: VecDeque<Action>,
    counters: Counters,
}

impl PageMap {
    fn new(
        g: Geometry,
        config: &FtlConfig,
        bad: &mut dyn FnMut(u32, u32) -> bool,
    ) -> Result<PageMap, BadValue> {
        let fresh = |i: u32| {
            let state = if bad(i / g.luns, i % g.luns) { State::Bad } else { State::Free };
            Block { state, pages: 0, valid: 0, writing: 0, pins: 0, erases: 0, failed: false }
        };
        let blocks: Vec<Block> = (0..g.lines * g.luns).map(fresh).collect();
        let free: VecDeque<usize> =
            (0..blocks.len()).filter(|&b| blocks[b].state == State::Free).collect();
        let block = g.pages * g.sectors_per_unit;
        let slots = 4 * g.luns * g.sectors_per_unit;
        // The whole buffer finds room, and the sectors of a victim.
        let least = (slots / block + 3) as usize;
        let low = least + g.luns as usize;
        // What users cannot have: these, and the open blocks.
        let spare = low as u64 + u64::from(g.luns);
        let good = (free.len() as u64).saturating_sub(spare) * u64::from(block);
        let sectors = (good as f64 * (1.0 - config.over_provisioning / 100.0)) as u32;
        if sectors == 0 {
            return Err(BadValue::new("over_provisioning", "leaves no sector: use more blocks"));
        }
        let nothing = Entry { lpn: NONE, stamp: 0, seq: 0, gc: false };
        Ok(PageMap {
            sectors,
            map: vec![NONE; sectors as usize],
            oob: vec![(NONE, 0); g.sectors() as usize],
            blocks,
            free,
            open: VecDeque::new(),
            victim: None,
            entries: vec![nothing; slots as usize],
            free_slots: (0..slots).rev().collect(),
            queue: VecDeque::new(),
            unsafe_turns: BTreeSet::new(),
            turn: 0,
            waiting: VecDeque::new(),
            flushes: Vec::new(),
            ops: Vec::new(),
            in_flight: 0,
            actions: VecDeque::new(),
            counters: Counters::default(),
            low,
            least,
            g,
        })
    }

    fn block_of(&self, ppa: u32) -> usize {
        (self.g.line_of(Ppa(ppa)) * self.g.luns + self.g.lun_of(Ppa(ppa))) as usize
    }
    fn first_of(&self, block: usize, page: u32) -> u32 {
        let (line, lun) = (block as u32 / self.g.luns, block as u32 % self.g.luns);
        self.g.first_of_unit(self.g.unit_at(line, page, lun)).0
    }

    /// The sector points elsewhere from now on.
    fn remap(&mut self, lpn: u32, to: u32) {
        let was = std::mem::replace(&mut self.map[lpn as usize], to);
        for (ppa, step) in [(was, -1), (to, 1)] {
            if ppa < SLOT {
                let block = self.block_of(ppa);
                self.blocks[block].valid = self.blocks[block].valid.wrapping_add_signed(step);
            }
        }
    }
    fn insert(&mut self, slot: u32, lpn: u32, stamp: u32, gc: bool) {
        self.entries[slot as usize] = Entry { lpn, stamp, seq: self.turn, gc };
        self.unsafe_turns.insert(self.turn);
        self.turn += 1;
        self.queue.push_back(slot);
        self.remap(lpn, SLOT + slot);
    }
    fn is_safe(&self, turn: u64) -> bool {
        self.unsafe_turns.first().is_none_or(|&first| first >= turn)
    }
    fn issue(&mut self, op: Op, make: impl FnOnce(u32) -> Action) {
        let free = self.ops.iter().position(Option::is_none).unwrap_or(self.ops.len());
        self.ops.resize(self.ops.len().max(free + 1), None);
        self.ops[free] = Some(op);
        self.in_flight += 1;
        self.actions.push_back(make(free as u32));
    }

    /// Does everything that can be done now.
    fn work(&mut self, stamps: &mut Stamps) {
        loop {
            let worked = self.admit(stamps) | self.program(false) | self.collect();
            let held_up = !self.waiting.is_empty() || self.victim.is_some();
            self.end_flushes();
            // Less than a unit is left, and nothing else can go on before it is on flash.
            let oldest = self.queue.front().map(|&slot| self.entries[slot as usize].seq);
            let flushed = self.flushes.iter().any(|(turn, _)| oldest < Some(*turn));
            let stuck = flushed || held_up && self.in_flight == 0;
            let worked = worked || stuck && self.program(true) || self.refuse();
            if !worked {
                break;
            }
        }
    }

    /// Completes the flushes before which all is on flash.
    fn end_flushes(&mut self) {
        let safe = |(turn, _): &(u64, u32)| self.unsafe_turns.first().is_none_or(|f| f >= turn);
        for (_, tag) in self.flushes.extract_if(.., |f| safe(f)) {
            self.actions.push_back(Action::Complete { tag, ok: true });
        }
    }

    /// No space can be made any more: a write fails.
    fn refuse(&mut self) -> bool {
        let hopeless = self.in_flight == 0;
        let Some(Waiting::Write { tag, .. }) = self.waiting.front().filter(|_| hopeless) else {
            return false;
        };
        self.actions.push_back(Action::Complete { tag: *tag, ok: false });
        self.counters.writes_refused += 1;
        self.waiting.pop_front();
        true
    }

    /// Takes in the first command that waits, as far as there is room.
    fn admit(&mut self, stamps: &mut Stamps) -> bool {
        let gc_slots = (self.g.luns * self.g.sectors_per_unit) as usize;
        let may_write = self.free.len() > self.least;
        let Some(command) = self.waiting.pop_front() else { return false };
        match command {
            Waiting::Write { tag, mut at, end, fua, stamps: mut cached } => {
                let from = at;
                while at < end && may_write && self.free_slots.len() > gc_slots {
                    let slot = self.free_slots.pop().expect("there are more");
                    let stamp = match &mut cached {
                        Some(stamps) => stamps.pop_front().expect("one a sector"),
                        None => stamps.show(tag, Lpn(at)),
                    };
                    self.insert(slot, at, stamp, false);
                    self.counters.user_sectors += 1;
                    at += 1;
                }
                if at < end {
                    let rest = Waiting::Write { tag, at, end, fua, stamps: cached };
                    self.waiting.push_front(rest);
                } else if fua {
                    self.flushes.push((self.turn, tag));
                } else {
                    self.actions.push_back(Action::Complete { tag, ok: true });
                }
                at > from || at == end
            }
            Waiting::Trim { tag, at, end } => {
                for lpn in at..end {
                    self.remap(lpn, NONE);
                    stamps.show_trim(tag, Lpn(lpn));
                }
                self.counters.trimmed_sectors += u64::from(end - at);
                self.actions.push_back(Action::Complete { tag, ok: true });
                true
            }
            Waiting::Flush { tag } => {
                self.counters.flushes += 1;
                self.flushes.push((self.turn, tag));
                true
            }
        }
    }

    /// Programs a unit, if there is a whole one or it is to be padded.
    fn program(&mut self, pad: bool) -> bool {
        let unit = self.g.sectors_per_unit as usize;
        if self.queue.is_empty() || self.queue.len() < unit && !pad {
            return false;
        }
        if self.open.len() < self.g.luns as usize
            && let Some(block) = self.free.pop_front()
        {
            self.blocks[block].state = State::Open;
            self.open.push_back(block);
            self.counters.lines_opened += 1;
        }
        let Some(block) = self.open.pop_front() else { return false };
        let ppa = self.first_of(block, self.blocks[block].pages);
        self.blocks[block].pages += 1;
        if self.blocks[block].pages == self.g.pages {
            self.blocks[block].state = State::Closed;
        } else {
            self.open.push_back(block);
        }
        let slots: Vec<u32> = self.queue.drain(..unit.min(self.queue.len())).collect();
        let users = slots.iter().any(|&s| !self.entries[s as usize].gc);
        let class = if users { Class::UserProgram } else { Class::GcProgram };
        let payload = slots.len() as u32;
        self.blocks[block].writing += 1;
        self.counters.programmed_sectors += unit as u64;
        self.counters.pad_sectors += unit as u64 - u64::from(payload);
        let program = Op::Program { ppa, slots };
        self.issue(program, |op| Action::Program { op, ppa: Ppa(ppa), class, payload, summed: 0 });
        true
    }

    /// Reads valid sectors of the victim while there are slots for them; then erases it.
    fn collect(&mut self) -> bool {
        let Some(mut v) = self.victim else {
            if self.free.len() >= self.low {
                return false;
            }
            let gains = |b: &usize| {
                let block = &self.blocks[*b];
                let full = self.g.pages * self.g.sectors_per_unit;
                // With a unit less to move than it holds, a block is gained in the end.
                let gain = block.valid + self.g.sectors_per_unit <= full;
                block.state == State::Closed && block.writing == 0 && gain
            };
            let candidates = (0..self.blocks.len()).filter(gains);
            let block = candidates.min_by_key(|&b| self.blocks[b].valid);
            self.victim =
                block.map(|block| Victim { block, next: 0, barrier: None, erasing: false });
            return self.victim.is_some();
        };
        let (unit, block) = (self.g.sectors_per_unit, v.block);
        let mut worked = false;
        while v.next < self.g.pages * unit {
            let ppa = self.first_of(block, v.next / unit) + v.next % unit;
            let is_valid = |ppa: u32| {
                let lpn = self.oob[ppa as usize].0;
                lpn != NONE && self.map[lpn as usize] == ppa
            };
            let run = (ppa..ppa + unit - v.next % unit).take_while(|&p| is_valid(p)).count() as u32;
            if run > self.free_slots.len() as u32 {
                break;
            }
            v.next += run.max(1);
            worked = true;
            if run > 0 {
                let slots = self.free_slots.split_off(self.free_slots.len() - run as usize);
                self.blocks[block].pins += 1;
                let read = Op::GcRead { ppa, slots };
                let (ppa, class) = (Ppa(ppa), Class::GcRead);
                self.issue(read, |op| Action::Read { op, ppa, sectors: run, class, payload: run });
            }
        }
        let read = v.next == self.g.pages * unit && self.blocks[block].pins == 0;
        if read && v.barrier.is_none() {
            v.barrier = Some(self.turn);
            worked = true;
        }
        if read && !v.erasing && v.barrier.is_some_and(|turn| self.is_safe(turn)) {
            v.erasing = true;
            let ppa = Ppa(self.first_of(block, 0));
            self.issue(Op::Erase { block }, |op| Action::Erase { op, ppa });
        }
        self.victim = Some(v);
        worked
    }

    /// What a slot holds is on flash.
    fn programmed(&mut self, ppa: u32, slot: u32) {
        let Entry { lpn, stamp, seq, .. } = self.entries[slot as usize];
        self.oob[ppa as usize] = (lpn, stamp);
        if self.map[lpn as usize] == SLOT + slot {
            self.remap(lpn, ppa);
        }
        self.unsafe_turns.remove(&seq);
        self.free_slots.push(slot);
    }

    fn done(&mut self, op: u32, ok: bool) {
        self.in_flight -= 1;
        match self.ops[op as usize].take().expect("an operation under way") {
            Op::Program { ppa, slots } => {
                let block = self.block_of(ppa);
                self.blocks[block].writing -= 1;
                if ok {
                    (ppa..).zip(slots).for_each(|(ppa, slot)| self.programmed(ppa, slot));
                    return;
                }
                self.counters.program_errors += 1;
                self.counters.resubmitted_sectors += slots.len() as u64;
                slots.into_iter().rev().for_each(|slot| self.queue.push_front(slot));
                self.open.retain(|&b| b != block);
                (self.blocks[block].state, self.blocks[block].failed) = (State::Closed, true);
            }
            Op::GcRead { ppa, slots } => {
                let block = self.block_of(ppa);
                self.blocks[block].pins -= 1;
                self.counters.gc_read_sectors += slots.len() as u64;
                self.counters.gc_read_errors += u64::from(!ok);
                for (ppa, slot) in (ppa..).zip(slots) {
                    let (lpn, stamp) = self.oob[ppa as usize];
                    if self.map[lpn as usize] != ppa {
                        self.counters.gc_stale_sectors += 1;
                        self.free_slots.push(slot);
                    } else if ok {
                        self.counters.gc_sectors += 1;
                        self.insert(slot, lpn, stamp, true);
                    } else {
                        self.counters.lost_sectors += 1;
                        self.remap(lpn, LOST);
                        self.free_slots.push(slot);
                    }
                }
            }
            Op::Erase { block } => {
                self.counters.erases += 1;
                self.counters.erase_errors += u64::from(!ok);
                self.victim = None;
                let b = &mut self.blocks[block];
                (b.pages, b.erases) = (0, b.erases + 1);
                b.state = if ok && !b.failed { State::Free } else { State::Bad };
                if b.state == State::Free {
                    self.counters.lines_freed += 1;
                    self.free.push_back(block);
                } else {
                    self.counters.blocks_retired += 1;
                }
            }
        }
    }
}

impl PageMap {
    /// Does what is to be done at once, as if it took no time.
    fn instantly(&mut self, stamps: &mut Stamps) -> Result<(), AgeError> {
        self.work(stamps);
        while let Some(action) = self.actions.pop_front() {
            match action {
                Action::Read { op, .. } | Action::Program { op, .. } | Action::Erase { op, .. } => {
                    self.done(op, true);
                }
                Action::Complete { ok: false, .. } => {
                    return Err(AgeError::Full(
                        "no space can be made (ftl.over_provisioning is low)",
                    ));
                }
                Action::Complete { .. } | Action::Sum { .. } => {}
            }
            self.work(stamps);
        }
        Ok(())
    }
    fn write_now(&mut self, stamps: &mut Stamps, at: u32, end: u32) -> Result<(), AgeError> {
        self.waiting.push_back(Waiting::Write { tag: 0, at, end, fua: false, stamps: None });
        self.instantly(stamps)
    }
}

impl Translation for PageMap {
    fn sectors(&self) -> u64 {
        self.sectors.into()
    }
    fn start(&mut self, ctx: &mut Ctx) {
        self.work(&mut ctx.stamps);
    }
    fn read(&mut self, ctx: &mut Ctx, lpn: Lpn, sectors: u32, out: &mut Vec<Piece>) {
        let (unit, end) = (self.g.sectors_per_unit, lpn.0 + sectors);
        let mut at = lpn.0;
        while at < end {
            let (first, code) = (at, self.map[at as usize]);
            let newest = ctx.stamps.newest(Lpn(at));
            at += 1;
            let place = match code {
                NONE => {
                    self.counters.read_unmapped += 1;
                    ctx.stamps.check(Lpn(first), 0, newest);
                    Place::Unmapped
                }
                LOST => Place::Lost,
                SLOT.. => {
                    self.counters.read_buffer += 1;
                    let held = self.entries[(code - SLOT) as usize].stamp;
                    ctx.stamps.check(Lpn(first), held, newest);
                    Place::Buffer
                }
                ppa => {
                    let mut digest = Digest::new();
                    digest.add(first, newest);
                    let most = end.min(first + unit - ppa % unit);
                    while at < most && self.map[at as usize] == ppa + (at - first) {
                        digest.add(at, ctx.stamps.newest(Lpn(at)));
                        at += 1;
                    }
                    self.counters.read_flash += u64::from(at - first);
                    let block = self.block_of(ppa);
                    self.blocks[block].pins += 1;
                    digest.place(ppa)
                }
            };
            out.push(Piece { lpn: Lpn(first), sectors: at - first, place });
        }
    }
    fn digest(&self, ppa: Ppa, _: Lpn, sectors: u32) -> u64 {
        let mut digest = Digest::new();
        for &(lpn, stamp) in &self.oob[ppa.0 as usize..(ppa.0 + sectors) as usize] {
            digest.add(lpn, stamp);
        }
        digest.get()
    }
    fn data(&self, op: u32, _: Ppa, to: &mut PageData) {
        if let Some(Op::Program { slots, .. }) = &self.ops[op as usize] {
            for (i, &slot) in (0..).zip(slots) {
                let Entry { lpn, stamp, .. } = self.entries[slot as usize];
                to.put(i, lpn, stamp);
            }
        }
    }
    fn read_done(&mut self, ctx: &mut Ctx, ppa: Ppa, _: u32) {
        let block = self.block_of(ppa.0);
        self.blocks[block].pins -= 1;
        self.work(&mut ctx.stamps);
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
        let stamps = match source {
            Source::Host => None,
            Source::Cache(stamps) => Some(stamps.iter().copied().collect()),
        };
        let (at, end) = (lpn.0, lpn.0 + sectors);
        self.waiting.push_back(Waiting::Write { tag, at, end, fua, stamps });
        self.work(&mut ctx.stamps);
    }
    fn flush(&mut self, ctx: &mut Ctx, tag: u32) {
        self.waiting.push_back(Waiting::Flush { tag });
        self.work(&mut ctx.stamps);
    }
    fn trim(&mut self, ctx: &mut Ctx, tag: u32, lpn: Lpn, sectors: u32) {
        self.waiting.push_back(Waiting::Trim { tag, at: lpn.0, end: lpn.0 + sectors });
        self.work(&mut ctx.stamps);
    }
    fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
    fn on_done(&mut self, ctx: &mut Ctx, op: u32, outcome: Outcome) {
        self.done(op, outcome == Outcome::Ok);
        self.work(&mut ctx.stamps);
    }
    fn fill(&mut self, stamps: &mut Stamps) -> Result<(), AgeError> {
        (0..self.sectors).try_for_each(|lpn| self.write_now(stamps, lpn, lpn + 1))
    }
    fn overwrite(&mut self, stamps: &mut Stamps, lpns: &[u32]) -> Result<(), AgeError> {
        lpns.iter().try_for_each(|&lpn| self.write_now(stamps, lpn, lpn + 1))
    }
    fn rest(&mut self, stamps: &mut Stamps) -> Result<(), AgeError> {
        self.instantly(stamps)
    }
    fn media_state(&self) -> Box<dyn Iterator<Item = BlockState> + '_> {
        Box::new(self.blocks.iter().enumerate().map(|(i, b)| {
            let (line, lun) = (i as u32 / self.g.luns, i as u32 % self.g.luns);
            let bad = b.state == State::Bad;
            BlockState { line, lun, bad, programmed: b.pages, erases: b.erases }
        }))
    }
    /// The stamps are those that ageing drew from the check.
    fn adopt_stamps(&mut self, _: &mut Stamps) {}
    fn counters(&self) -> &Counters {
        &self.counters
    }
    fn memory(&self) -> Memory {
        let (mapping, sectors) = (4 * u64::from(self.sectors), self.g.sectors());
        Memory { mapping, stamps: 8 * sectors, parity: 0, sectors }
    }
    fn wear(&self) -> Wear {
        let erases = || self.blocks.iter().filter(|b| b.state != State::Bad).map(|b| b.erases);
        let sum: u64 = erases().map(u64::from).sum();
        let (min, max) = (erases().min().unwrap_or(0), erases().max().unwrap_or(0));
        Wear { min, max, mean: sum as f64 / erases().count().max(1) as f64 }
    }
    fn check_invariants(&self) -> Result<(), Breach> {
        let mut valid = vec![0; self.blocks.len()];
        for (lpn, &code) in self.map.iter().enumerate() {
            let held = match code {
                NONE | LOST => continue,
                SLOT.. => self.entries[(code - SLOT) as usize].lpn,
                ppa => {
                    valid[self.block_of(ppa)] += 1;
                    self.oob[ppa as usize].0
                }
            };
            if held != lpn as u32 {
                let what = format!("is mapped to {code:#x}, which holds {held}");
                return Err(Breach::Sector { lpn: lpn as u32, what });
            }
        }
        let wrong = (0..valid.len()).find(|&b| valid[b] != self.blocks[b].valid);
        wrong.map_or(Ok(()), |b| {
            let what = format!("has {} valid sectors", valid[b]);
            Err(Breach::Block { block: b as u32, what })
        })
    }
    fn boxed(&self) -> Box<dyn Translation> {
        Box::new(self.clone())
    }
}
