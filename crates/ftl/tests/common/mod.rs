//! A fake executor: completes flash operations in any order that is first come first served on each
//! LUN, injects failures, and checks the rules of flash on the way.
#![allow(dead_code)]

pub mod case;
pub mod shrink;
pub mod world;

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use wordline_base::{BitMap, Ctx, IdVec, Lpn, Rng, Seed, Stamps, Time};
use wordline_ftl::{Action, Ftl, LineMedia, LineState, Piece, Place, SmetaRecord, Stream, Written};
use wordline_nand::{BlockId, Class, Geometry, LunId, Outcome, PerClass, Ppa};

pub fn geometry(channels: u32, luns: u32, lines: u32, pages: u32, unit: u32) -> Geometry {
    assert_eq!(luns % channels, 0);
    Geometry {
        slc_pages: 0,
        channels,
        luns,
        lines,
        pages,
        sector: Default::default(),
        sectors_per_unit: unit,
        sectors_per_stripe: unit * luns,
        sectors_per_line: unit * luns * pages,
        planes: 1,
        in_place: false,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    Read,
    Program,
    Erase,
    /// No work of flash: with the first LUN's for an order.
    Sum,
}

#[derive(Clone, Debug)]
struct Pending {
    op: u32,
    work: Work,
    ppa: u32,
    sectors: u32,
    /// The line's order of opening, and its smeta if that is what is programmed.
    seq: u64,
    smeta: Option<SmetaRecord>,
}

/// What flash durably holds, if it is kept for pulling the plug.
#[derive(Clone)]
pub struct Kept {
    /// Per sector, once programmed.
    pub oob: IdVec<u32, Option<(Lpn, u32)>>,
    pending: IdVec<u32, Option<(Lpn, u32)>>,
    pub units: IdVec<u32, bool>,
    /// By block: the line its units were written for, by its order of opening.
    of: IdVec<BlockId, u64>,
    /// By block id: of each line that has blocks of it.
    pub smeta: IdVec<u32, Vec<SmetaRecord>>,
    erases: IdVec<BlockId, u32>,
}

impl Kept {
    /// The operation was carried out, or failed.
    fn apply(&mut self, g: &Geometry, op: &Pending, lun: u32, failed: bool) {
        let size = g.sectors_per_unit;
        let line = g.line_of(Ppa(op.ppa));
        match op.work {
            Work::Read | Work::Sum => {}
            Work::Program => {
                self.units[op.ppa / size] = !failed;
                self.of[line * g.luns + lun] = op.seq;
                for p in op.ppa..op.ppa + size {
                    self.oob[p] = self.pending[p].filter(|_| !failed);
                }
                if let Some(smeta) = op.smeta.clone().filter(|_| !failed) {
                    self.smeta[line].push(smeta);
                }
            }
            Work::Erase => {
                self.erases[line * g.luns + lun] += 1;
                self.of[line * g.luns + lun] = 0;
                for page in 0..g.pages {
                    let unit = (line * g.pages + page) * g.luns + lun;
                    self.units[unit] = false;
                    for p in unit * size..(unit + 1) * size {
                        self.oob[p] = None;
                    }
                    let in_line = unit % g.units_per_line();
                    self.smeta[line].retain(|s| s.unit != in_line);
                }
            }
        }
    }
}

/// Failures per 10^9 operations.
#[derive(Clone, Copy, Default, Debug)]
pub struct Faults {
    pub program: u64,
    pub erase: u64,
    /// The FTL's own reads, ...
    pub read: u64,
    /// ... and users'.
    pub user_read: u64,
}

pub struct Fake {
    pub g: Geometry,
    queues: IdVec<LunId, VecDeque<Pending>>,
    /// LUNs with something queued.
    active: IdVec<u32, LunId>,
    /// Next page of each block, as flash has it.
    pages: IdVec<BlockId, u32>,
    pub done: BTreeMap<u32, bool>,
    pub faults: Faults,
    pub completed: u64,
    /// Hash of all actions, in order.
    pub trace: u64,
    pub by_class: PerClass,
    /// User reads on their way, by LUN, and programs and erases that overtook one.
    pub reads: IdVec<LunId, u32>,
    pub overtook: u32,
    /// Units of the collector's data programmed to hot lines.
    pub gc_on_hot: u64,
    pub kept: Option<Kept>,
}

impl Fake {
    pub fn new(ftl: &Ftl) -> Fake {
        let g = *ftl.geometry();
        let mut pages = IdVec::filled(0, g.lines * g.luns);
        for b in ftl.media_state() {
            pages[b.line * g.luns + b.lun] = b.programmed;
        }
        Fake {
            g,
            queues: IdVec::filled(VecDeque::new(), g.luns),
            active: IdVec::new(),
            pages,
            done: BTreeMap::new(),
            faults: Faults::default(),
            completed: 0,
            trace: 0,
            by_class: PerClass::default(),
            reads: IdVec::filled(0, g.luns),
            overtook: 0,
            gc_on_hot: 0,
            kept: None,
        }
    }
    /// Keeps what flash holds from now on; nothing is in flight.
    pub fn keep_media(&mut self, ftl: &Ftl) {
        let g = self.g;
        let n = g.sectors() as u32;
        let oob: IdVec<_, _> = (0..n).map(|p| ftl.oob(Ppa(p))).collect();
        let mut units = IdVec::filled(false, n / g.sectors_per_unit);
        let mut of = IdVec::filled(0, g.lines * g.luns);
        let mut smeta: IdVec<u32, Vec<SmetaRecord>> = IdVec::filled(Vec::new(), g.lines);
        for b in ftl.media_state().filter(|b| b.programmed > 0) {
            smeta[b.line] = ftl
                .lines_of(b.line)
                .filter(|&line| {
                    !matches!(ftl.line_state(line).0, LineState::Free | LineState::Next)
                })
                .map(|line| ftl.line_smeta(line))
                .filter(|s| s.seq > 0 && s.luns.count() > 0)
                .collect();
            let line = smeta[b.line].iter().find(|s| s.luns.get(b.lun as usize));
            of[b.line * g.luns + b.lun] = line.map_or(0, |s| s.seq);
            (0..b.programmed).for_each(|p| units[g.unit_at(b.line, p, b.lun).0] = true);
        }
        let erases = ftl.media_state().map(|b| b.erases).collect();
        self.kept = Some(Kept { pending: oob.clone(), oob, units, of, smeta, erases });
    }
    /// What flash holds when power goes now. Of each LUN the oldest operation was under way: by a draw
    /// it is not begun, done, or cut short, which leaves a page or a block that cannot be read.
    pub fn cut(&self, torn: u32) -> (Kept, IdVec<BlockId, u32>) {
        let mut rng = Seed(u64::from(torn)).stream("torn");
        let mut kept = self.kept.clone().expect("media kept");
        let mut pages = self.pages.clone();
        for (lun, queue) in (0..).zip(&self.queues) {
            let fate = rng.below(3);
            let Some(op) = queue.front().filter(|_| fate > 0) else { continue };
            let line = self.g.line_of(Ppa(op.ppa));
            let block = line * self.g.luns + lun;
            match op.work {
                Work::Read | Work::Sum => continue,
                Work::Program => pages[block] += 1,
                Work::Erase if fate == 1 => pages[block] = 0,
                Work::Erase => {}
            }
            kept.apply(&self.g, op, lun, fate > 1);
        }
        (kept, pages)
    }
    /// The same as the FTL finds it.
    pub fn lines(
        &self,
        ftl: &Ftl,
        kept: &Kept,
        pages: &IdVec<BlockId, u32>,
    ) -> IdVec<u32, LineMedia> {
        let g = self.g;
        let bad: IdVec<BlockId, bool> = ftl.media_state().map(|b| b.bad).collect();
        (0..g.lines)
            .map(|line| {
                let n = g.units_per_line();
                let emeta = |seq| {
                    let of = |&l: &u32| ftl.line_smeta(l).seq == seq;
                    ftl.lines_of(line).find(of).and_then(|l| ftl.line_emeta(l))
                };
                let written = |s: &SmetaRecord| Written { smeta: s.clone(), emeta: emeta(s.seq) };
                let mut units = BitMap::new(n as usize);
                (0..n).filter(|u| kept.units[line * n + u]).for_each(|u| {
                    units.set(u as usize);
                });
                let blocks = line * g.luns..(line + 1) * g.luns;
                LineMedia {
                    lines: kept.smeta[line].iter().map(written).collect(),
                    units,
                    of: kept.of.slice(blocks.clone()).to_vec().into(),
                    bad: bad.slice(blocks.clone()).to_vec().into(),
                    programmed: pages.slice(blocks.clone()).to_vec().into(),
                    erases: kept.erases.slice(blocks).to_vec().into(),
                }
            })
            .collect()
    }
    /// Takes the FTL's actions. Returns the tags completed.
    pub fn drain(&mut self, ftl: &mut Ftl) {
        while let Some(action) = ftl.poll() {
            let mut hasher = DefaultHasher::new();
            (self.trace, action).hash(&mut hasher);
            self.trace = hasher.finish();
            self.take(ftl, action);
        }
    }
    /// The same without the trace: for timing.
    pub fn drain_fast(&mut self, ftl: &mut Ftl) {
        while let Some(action) = ftl.poll() {
            self.take(ftl, action);
        }
    }
    fn take(&mut self, ftl: &Ftl, action: Action) {
        let pending = match action {
            Action::Complete { tag, ok } => {
                assert!(self.done.insert(tag, ok).is_none(), "tag {tag} completed twice");
                return;
            }
            Action::Stage { .. } | Action::Refuse { .. } => panic!("not pblk's: {action:?}"),
            Action::Read { op, ppa, sectors, class, .. } => {
                self.by_class[class] += 1;
                let unit = self.g.sectors_per_unit;
                assert!(sectors > 0 && ppa.0 % unit + sectors <= unit, "a read crosses units");
                Pending { op, work: Work::Read, ppa: ppa.0, sectors, seq: 0, smeta: None }
            }
            Action::Program { op, ppa, class, .. } => {
                self.by_class[class] += 1;
                assert_eq!(ppa.0 % self.g.sectors_per_unit, 0);
                let stream = ftl.line_state(ftl.line_at(ppa)).1;
                assert!(class != Class::UserProgram || stream != Stream::Cold, "cold users' data");
                self.gc_on_hot += u64::from(class == Class::GcProgram && stream == Stream::Hot);
                let c = ftl.counters();
                assert!(self.gc_on_hot <= c.hot_gc_sectors + c.resubmitted_sectors, "uncounted");
                let (mut seq, mut smeta) = (0, None);
                if let Some(kept) = &mut self.kept {
                    for p in ppa.0..ppa.0 + self.g.sectors_per_unit {
                        kept.pending[p] = ftl.oob(Ppa(p));
                    }
                    let unit = ppa.0 / self.g.sectors_per_unit % self.g.units_per_line();
                    let record = ftl.line_smeta(ftl.line_at(ppa));
                    seq = record.seq;
                    smeta = (class == Class::MetaProgram && record.unit == unit).then_some(record);
                }
                Pending { op, work: Work::Program, ppa: ppa.0, sectors: 0, seq, smeta }
            }
            Action::Erase { op, ppa } => {
                self.by_class[Class::Erase] += 1;
                Pending { op, work: Work::Erase, ppa: ppa.0, sectors: 0, seq: 0, smeta: None }
            }
            Action::Sum { op, sectors } => {
                assert!(sectors > 0, "a sum of nothing");
                Pending { op, work: Work::Sum, ppa: 0, sectors, seq: 0, smeta: None }
            }
        };
        let lun = self.g.lun_of(Ppa(pending.ppa));
        let alters = matches!(pending.work, Work::Program | Work::Erase);
        self.overtook += u32::from(alters && self.reads[lun] > 0);
        if self.queues[lun].is_empty() {
            self.active.push(lun);
        }
        self.queues[lun].push_back(pending);
    }
    /// A program or an erase is out on the sector's LUN.
    pub fn is_busy(&self, ppa: Ppa) -> bool {
        self.queues[self.g.lun_of(ppa)]
            .iter()
            .any(|p| matches!(p.work, Work::Program | Work::Erase))
    }
    pub fn set_pages(&mut self, pages: IdVec<BlockId, u32>) {
        self.pages = pages;
    }
    pub fn in_flight(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }
    pub fn is_idle(&self) -> bool {
        self.active.is_empty()
    }
    /// Draws which LUN is done with its oldest operation next, and whether that fails.
    pub fn draw(&self, rng: &mut Rng) -> Option<(u32, bool)> {
        if self.active.is_empty() {
            return None;
        }
        let k = rng.below(self.active.len() as u64) as u32;
        let op = self.queues[self.active[k]].front().expect("an operation");
        let share = match op.work {
            Work::Read => self.faults.read,
            Work::Program => self.faults.program,
            Work::Erase => self.faults.erase,
            Work::Sum => 0,
        };
        Some((k, rng.chance(share)))
    }
    /// Completes the oldest operation of a LUN drawn at random. False if there is none.
    pub fn step(&mut self, ftl: &mut Ftl, ctx: &mut Ctx, rng: &mut Rng) -> bool {
        let Some((k, failed)) = self.draw(rng) else { return false };
        self.end(ftl, ctx, k, failed)
    }
    /// Completes the oldest operation of the `k`-th LUN that has any. False if there is none.
    pub fn end(&mut self, ftl: &mut Ftl, ctx: &mut Ctx, k: u32, failed: bool) -> bool {
        if self.active.is_empty() {
            return false;
        }
        let i = k % self.active.count();
        let lun = self.active[i];
        let op = self.queues[lun].pop_front().expect("an operation");
        if self.queues[lun].is_empty() {
            self.active.swap_remove(i as usize);
        }
        let g = self.g;
        let line = g.line_of(Ppa(op.ppa));
        let block = line * g.luns + lun;
        let page = g.page_of(Ppa(op.ppa));
        match op.work {
            Work::Read => {
                assert!(
                    page < self.pages[block] || g.in_place,
                    "page {page} of block {block} read but not programmed"
                );
            }
            Work::Program => {
                let next = self.pages[block];
                let fits = page == next || g.in_place;
                assert!(fits, "pages of block {block} are programmed without gaps");
                self.pages[block] = page + 1;
            }
            Work::Erase => self.pages[block] = 0,
            Work::Sum => {}
        }
        self.completed += 1;
        if let Some(kept) = &mut self.kept {
            kept.apply(&g, &op, lun, failed);
        }
        let outcome = if failed { Outcome::Failed } else { Outcome::Ok };
        ftl.on_done(ctx, op.op, outcome);
        true
    }
    /// Completes everything, timers included if nothing else is left.
    pub fn settle(&mut self, ftl: &mut Ftl, ctx: &mut Ctx, rng: &mut Rng) {
        self.drain(ftl);
        while self.step(ftl, ctx, rng) {
            self.drain(ftl);
        }
    }
    /// Lets time pass until the next timer, if there is one.
    pub fn tick(&mut self, ftl: &mut Ftl, ctx: &mut Ctx) -> bool {
        let Some((at, event)) = ctx.queue.pop() else { return false };
        ctx.now = at;
        ftl.on_timer(ctx, event.index());
        self.drain(ftl);
        true
    }
}

pub fn ctx(stamps: Option<u64>) -> Ctx {
    let mut ctx = Ctx::new();
    ctx.now = Time(1);
    if let Some(sectors) = stamps {
        ctx.stamps = Stamps::new(sectors);
    }
    ctx
}

/// Reads and checks the flash pieces at once. Returns the wrong ones.
pub fn read_check(
    ftl: &mut Ftl,
    ctx: &mut Ctx,
    lpn: u32,
    sectors: u32,
    out: &mut Vec<Piece>,
) -> u32 {
    out.clear();
    ftl.read(ctx, Lpn(lpn), sectors, out);
    let mut wrong = 0;
    let mut at = lpn;
    for piece in out.iter() {
        let again = matches!(piece.place, Place::Member { first: false, .. });
        at -= if again { piece.sectors } else { 0 };
        assert_eq!(piece.lpn.0, at);
        at += piece.sectors;
        match piece.place {
            Place::Flash { ppa, expected } => {
                wrong += u32::from(ftl.digest(ppa, piece.lpn, piece.sectors) != expected);
                ftl.read_done(ctx, ppa, piece.sectors);
            }
            Place::Member { rebuild, ppa, .. } => {
                ftl.member_done(ctx, rebuild, ppa, true, &mut Vec::new());
                ftl.read_done(ctx, ppa, piece.sectors);
            }
            Place::Unmapped | Place::Buffer | Place::Lost => {}
        }
    }
    assert_eq!(at, lpn + sectors);
    wrong
}
