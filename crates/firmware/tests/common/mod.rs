//! A drive for the FTL: each LUN does one operation after another, in their order; some fail; the rules of
//! flash are asserted, and what flash holds is kept.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wordline_base::{Ctx, IdVec, Lpn, Rng, SectorSize, Span, Stamps, Time};
use wordline_firmware::{Allocation, Firmware, FirmwareConfig, Kept, Media, Spare, Victim};
use wordline_nand::{BlockId, Geometry, LunId, Outcome, Ppa};
use wordline_translation::{Action, Piece, Place, Translation};

pub fn geometry(channels: u32, luns: u32, lines: u32, pages: u32, unit: u32) -> Geometry {
    assert_eq!(luns % channels, 0);
    Geometry {
        slc_pages: 0,
        channels,
        luns,
        lines,
        pages,
        sector: SectorSize::new(4096).unwrap(),
        sectors_per_unit: unit,
        sectors_per_stripe: unit * luns,
        sectors_per_line: unit * luns * pages,
        planes: 1,
        in_place: false,
    }
}

/// The same with blocks that can be written with a bit a cell, of so many bits.
pub fn with_slc(g: Geometry, bits: u32) -> Geometry {
    Geometry { slc_pages: g.pages / bits, ..g }
}

pub fn ctx(sectors: u64) -> Ctx {
    let mut ctx = Ctx::new();
    ctx.now = Time(1);
    ctx.stamps = Stamps::new(sectors);
    ctx
}

/// Geometry and configuration drawn from a seed.
#[derive(Clone, Debug)]
pub struct Kind {
    pub g: Geometry,
    pub config: FirmwareConfig,
    pub over_provisioning: f64,
    pub bad: Vec<bool>,
}

impl Kind {
    /// With a buffer in SLC mode, on half of the seeds; with a part of the map in memory, on a third.
    pub fn draw(seed: u64) -> Kind {
        let mut kind = Kind::native_or_slc(seed);
        let mut rng = Rng::from_seed(seed ^ 0xDF71);
        if rng.below(3) == 0 {
            // Pages of 128 entries.
            kind.g.sector = SectorSize::new(512).unwrap();
            kind.config.map_bytes = 512 * rng.pick(&[2, 3, 5, 8, 100]);
            kind.over_provisioning += 15.0;
        }
        kind
    }
    fn native_or_slc(seed: u64) -> Kind {
        let mut kind = Kind::plain(seed);
        let mut rng = Rng::from_seed(seed ^ 0x51C);
        if rng.below(2) == 0 {
            return kind;
        }
        kind.g = with_slc(kind.g, rng.pick(&[2, 3, 4]));
        let (share, dynamic) = rng.pick(&[(8.0, 0.0), (0.0, 50.0), (0.0, 100.0), (5.0, 60.0)]);
        (kind.config.slc_static, kind.config.slc_dynamic) = (share, dynamic);
        kind.over_provisioning += share;
        kind
    }
    /// It has memory for a part of its map.
    pub fn has_cached_map(&self) -> bool {
        self.config.map_bytes > 0 && self.make().map_pages().0 > 0
    }
    pub fn has_slc(&self) -> bool {
        self.config.slc_static + self.config.slc_dynamic > 0.0
    }
    pub fn plain(seed: u64) -> Kind {
        let mut rng = Rng::from_seed(seed ^ 0xF13E);
        let shapes = [
            (4, 4, 24, 8, 4),
            (2, 4, 40, 6, 8),
            (4, 8, 24, 4, 2),
            (1, 2, 60, 8, 80),
            (2, 2, 60, 8, 1),
        ];
        let (channels, luns, lines, pages, unit) = rng.pick(&shapes);
        let g = geometry(channels, luns, lines, pages, unit);
        let config = FirmwareConfig {
            superblock_luns: rng.pick(&[None, None, Some(luns / 2)]),
            buffer_sectors: rng.pick(&[None, Some(4 * unit), Some(100 * unit)]),
            protected: rng.below(2) == 0,
            allocation: rng.pick(&[Allocation::Dynamic, Allocation::Static]),
            hot_share: rng.pick(&[0.0, 20.0]),
            victim: rng.pick(&[Victim::Greedy, Victim::CostBenefit]),
            paced: rng.below(4) > 0,
            gc_units: rng.pick(&[None, Some(2), Some(40)]),
            gc_lag: rng.pick(&[None, Some(1), Some(4), Some(20)]),
            gc_erases: rng.pick(&[1, 3]),
            checkpoint_sectors: rng.pick(&[None, Some(300)]),
            ..FirmwareConfig::default()
        };
        let share = rng.pick(&[0, 0, 20_000_000]);
        let bad = (0..lines * luns).map(|_| rng.chance(share)).collect();
        let wear_spread = if config.paced { rng.pick(&[0, 0, 1, 3]) } else { 0 };
        let read_limit = if config.paced { rng.pick(&[0, 0, 20, 300]) } else { 0 };
        let config = FirmwareConfig { wear_spread, read_limit, ..config };
        Kind { g, config, over_provisioning: 55.0, bad }
    }
    pub fn make(&self) -> Firmware {
        let bad = &mut |lun, line| self.bad[(line * self.g.luns + lun) as usize];
        Firmware::new(&self.g, self.over_provisioning, &self.config, bad)
            .unwrap_or_else(|e| panic!("{self:?}: {e}"))
    }
}

/// A page of the map as it was written: places of its sectors on flash. Of one that waited in the buffer then it is
/// where it was before, which is not known here.
type Entries = Vec<Entry>;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Entry {
    At(Ppa),
    Nowhere,
    Before,
}

#[derive(Clone, Debug)]
enum Work {
    Read,
    Program {
        holds: Vec<(u32, (Lpn, u32))>,
        spare: Option<Box<Spare>>,
        maps: Vec<(u32, Entries)>,
        slc: bool,
    },
    Erase,
}

#[derive(Clone, Debug)]
struct Pending {
    op: u32,
    ppa: u32,
    work: Work,
    /// When it ends, in time.
    end: Time,
}

/// Failures per 10^9 operations.
#[derive(Clone, Copy, Default, Debug)]
pub struct Faults {
    pub read: u64,
    pub program: u64,
    pub erase: u64,
}

/// What operations take, in a drive with time.
#[derive(Clone, Copy, Default, Debug)]
pub struct Times {
    pub read: Span,
    pub program: Span,
    pub erase: Span,
    /// Of blocks with a bit a cell.
    pub slc_read: Span,
    pub slc_program: Span,
    pub slc_erase: Span,
}

#[derive(Clone)]
pub struct Drive {
    pub g: Geometry,
    queues: IdVec<LunId, VecDeque<Pending>>,
    pub flash: BTreeMap<u32, (Lpn, u32)>,
    /// By the first sector of a unit.
    pub spares: BTreeMap<u32, Spare>,
    /// Pages of a map that memory holds a part of.
    maps: BTreeMap<u32, Entries>,
    pub failed: BTreeSet<BlockId>,
    pub erases: IdVec<BlockId, u32>,
    pub pages: IdVec<BlockId, u32>,
    /// By block, whether its first program was with a bit a cell; what is asked for, and what is done.
    asked: Vec<Option<bool>>,
    pub slc: Vec<bool>,
    pub bad: Vec<bool>,
    pub faults: Faults,
    pub times: Times,
    /// Commands that ended, and how.
    pub ended: BTreeMap<u32, bool>,
    /// Programs of each LUN that were asked for and done, and the most LUNs that erased at the same time.
    pub begun: IdVec<LunId, u64>,
    pub programs: IdVec<LunId, u64>,
    /// Of them all, those with a bit a cell.
    pub slc_programs: u64,
    pub erasing: usize,
    /// Contents are kept.
    pub keeps: bool,
}

impl Drive {
    pub fn new(g: &Geometry, bad: &[bool]) -> Drive {
        let blocks = g.lines * g.luns;
        Drive {
            g: *g,
            queues: IdVec::filled(VecDeque::new(), g.luns),
            flash: BTreeMap::new(),
            spares: BTreeMap::new(),
            maps: BTreeMap::new(),
            failed: BTreeSet::new(),
            erases: IdVec::filled(0, blocks),
            pages: IdVec::filled(0, blocks),
            asked: vec![None; blocks as usize],
            slc: vec![false; blocks as usize],
            bad: bad.to_vec(),
            faults: Faults::default(),
            times: Times::default(),
            ended: BTreeMap::new(),
            begun: IdVec::filled(0, g.luns),
            programs: IdVec::filled(0, g.luns),
            slc_programs: 0,
            erasing: 0,
            keeps: true,
        }
    }
    /// Takes over what ageing left.
    pub fn adopt(&mut self, ftl: &Firmware) {
        for b in ftl.media_state() {
            let block = b.line * self.g.luns + b.lun;
            self.pages[block] = b.programmed;
            self.slc[block as usize] = b.slc && b.programmed > 0;
            self.asked[block as usize] = (b.programmed > 0).then_some(b.slc);
        }
    }
    pub fn block_of(&self, ppa: u32) -> BlockId {
        self.g.line_of(Ppa(ppa)) * self.g.luns + self.g.lun_of(Ppa(ppa))
    }
    /// Takes what the FTL wants done.
    pub fn drain(&mut self, ftl: &mut Firmware, now: Time) {
        while let Some(action) = ftl.poll() {
            let unit = self.g.sectors_per_unit;
            let (op, ppa, work, span) = match action {
                Action::Complete { tag, ok } => {
                    assert!(self.ended.insert(tag, ok).is_none(), "tag {tag} completed twice");
                    continue;
                }
                Action::Read { op, ppa, sectors, .. } => {
                    assert!(sectors > 0 && ppa.0 % unit + sectors <= unit, "a read crosses units");
                    let slc = self.asked[self.block_of(ppa.0) as usize] == Some(true);
                    let time = if slc { self.times.slc_read } else { self.times.read };
                    (op, ppa, Work::Read, time)
                }
                Action::Program { op, ppa, slc, .. } => {
                    assert_eq!(ppa.0 % unit, 0);
                    let all = (ppa.0..ppa.0 + unit).filter(|_| self.keeps);
                    let holds: Vec<_> = all.filter_map(|p| Some((p, ftl.holds(Ppa(p))?))).collect();
                    let maps =
                        holds.iter().filter_map(|&(p, (lpn, _))| entries(ftl, p, lpn)).collect();
                    let spare = self.keeps.then(|| Box::new(ftl.spare(ppa)));
                    let block = self.block_of(ppa.0) as usize;
                    let mode = *self.asked[block].get_or_insert(slc);
                    assert_eq!(slc, mode, "block {block} has one mode from erasure to erasure");
                    let time = if slc { self.times.slc_program } else { self.times.program };
                    (op, ppa, Work::Program { holds, spare, maps, slc }, time)
                }
                Action::Erase { op, ppa } => {
                    let block = self.block_of(ppa.0) as usize;
                    let time = match self.asked[block].take() {
                        Some(true) => self.times.slc_erase,
                        _ => self.times.erase,
                    };
                    (op, ppa, Work::Erase, time)
                }
                Action::Stage { .. } | Action::Sum { .. } | Action::Refuse { .. } => {
                    panic!("{action:?}")
                }
            };
            let lun = self.g.lun_of(ppa);
            self.begun[lun] += u64::from(matches!(work, Work::Program { .. }));
            let queue = &mut self.queues[lun];
            let changes = |p: &Pending| !matches!(p.work, Work::Read);
            let one = !queue.iter().any(changes) || matches!(work, Work::Read);
            assert!(one, "a program or an erase waits at LUN {lun}");
            let from = queue.back().map_or(now, |last| last.end.max(now));
            queue.push_back(Pending { op, ppa: ppa.0, work, end: from + span });
        }
        let erases = |q: &VecDeque<Pending>| q.iter().any(|p| matches!(p.work, Work::Erase));
        self.erasing = self.erasing.max(self.queues.iter().filter(|q| erases(q)).count());
    }
    pub fn is_idle(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }
    /// Ends an operation drawn at random. False: there is none.
    pub fn step(&mut self, ftl: &mut Firmware, ctx: &mut Ctx, rng: &mut Rng) -> bool {
        let luns = 0..self.g.luns;
        let busy: Vec<LunId> = luns.filter(|&lun| !self.queues[lun].is_empty()).collect();
        if busy.is_empty() {
            return false;
        }
        let lun = busy[rng.below(busy.len() as u64) as usize];
        self.end(lun, ftl, ctx, rng);
        true
    }
    /// When the next operation ends.
    pub fn next(&self) -> Option<Time> {
        self.queues.iter().filter_map(|q| Some(q.front()?.end)).min()
    }
    /// Goes on to the end of the next operation. False: there is none.
    pub fn tick(&mut self, ftl: &mut Firmware, ctx: &mut Ctx, rng: &mut Rng) -> bool {
        let Some(at) = self.next() else { return false };
        let luns = 0..self.g.luns;
        let first = |&lun: &LunId| self.queues[lun].front().is_some_and(|p| p.end == at);
        let lun = luns.clone().find(first).expect("one ends then");
        ctx.now = at;
        self.end(lun, ftl, ctx, rng);
        self.drain(ftl, at);
        true
    }
    /// Lets time pass: operations end and timers ring in their order.
    pub fn pass(&mut self, ftl: &mut Firmware, ctx: &mut Ctx, rng: &mut Rng, until: Time) {
        loop {
            let timer = ctx.queue.next_time().unwrap_or(Time::NEVER);
            let next = self.next().unwrap_or(Time::NEVER);
            if timer.min(next) > until {
                break;
            }
            if next <= timer {
                self.tick(ftl, ctx, rng);
            } else if let Some((at, event)) = ctx.queue.pop() {
                ctx.now = ctx.now.max(at);
                ftl.on_timer(ctx, event.index());
                self.drain(ftl, ctx.now);
            }
        }
        ctx.now = ctx.now.max(until);
    }
    fn end(&mut self, lun: LunId, ftl: &mut Firmware, ctx: &mut Ctx, rng: &mut Rng) {
        let Pending { op, ppa, work, .. } = self.queues[lun].pop_front().expect("an operation");
        let share = match work {
            Work::Read => self.faults.read,
            Work::Program { .. } => self.faults.program,
            Work::Erase => self.faults.erase,
        };
        let ok = !rng.chance(share);
        self.perform(ppa, work, ok);
        ftl.on_done(ctx, op, if ok { Outcome::Ok } else { Outcome::Failed });
    }
    fn perform(&mut self, ppa: u32, work: Work, ok: bool) {
        let block = self.block_of(ppa);
        let page = self.g.page_of(Ppa(ppa));
        match work {
            Work::Read => {
                assert!(page < self.pages[block], "page {page} of block {block} is blank");
            }
            Work::Program { holds, spare, maps, slc } => {
                let pages = if slc { self.g.slc_pages } else { self.g.pages };
                assert!(page < pages, "block {block} has no page {page}");
                self.slc[block as usize] = slc;
                self.slc_programs += u64::from(slc);
                assert!(!self.bad[block as usize], "block {block} is bad");
                assert_eq!(page, self.pages[block], "pages of block {block} have gaps");
                self.pages[block] += 1;
                self.programs[self.g.lun_of(Ppa(ppa))] += 1;
                if ok {
                    self.flash.extend(holds);
                    self.maps.extend(maps);
                    self.spares.extend(spare.map(|spare| (ppa, *spare)));
                } else {
                    self.failed.insert(block);
                }
            }
            Work::Erase => {
                assert!(!self.bad[block as usize], "block {block} is bad");
                self.pages[block] = 0;
                self.bad[block as usize] = !ok;
                let g = self.g;
                let of = |ppa: &u32| g.line_of(Ppa(*ppa)) * g.luns + g.lun_of(Ppa(*ppa)) == block;
                self.flash.retain(|ppa, _| !of(ppa));
                self.spares.retain(|ppa, _| !of(ppa));
                self.maps.retain(|ppa, _| !of(ppa));
                self.erases[block] += 1;
            }
        }
    }
    /// The power goes. What each LUN was doing is done or not, a program perhaps torn.
    pub fn cut(&mut self, ftl: &mut Firmware, rng: &mut Rng) -> After {
        let kept = ftl.kept();
        for lun in 0..self.g.luns {
            let Some(Pending { ppa, work, .. }) = self.queues[lun].pop_front() else { continue };
            self.queues[lun].clear();
            match work {
                Work::Read => {}
                work => match rng.below(3) {
                    0 => {}
                    1 => self.perform(ppa, work, true),
                    _ if matches!(work, Work::Program { .. }) => {
                        let block = self.block_of(ppa);
                        let failed = self.failed.contains(&block);
                        self.perform(ppa, work, false);
                        // Torn, which says nothing of the block.
                        if !failed {
                            self.failed.remove(&block);
                        }
                    }
                    _ => {}
                },
            }
        }
        for block in ftl.media_state().filter(|b| b.bad).map(|b| b.line * self.g.luns + b.lun) {
            self.bad[block as usize] = true;
        }
        self.ended.clear();
        for block in 0..self.g.lines * self.g.luns {
            let i = block as usize;
            self.asked[i] = (self.pages[block] > 0).then_some(self.slc[i]);
        }
        After { drive: self.clone(), kept }
    }
    /// Where the FTL takes a page of the map on flash to have all entries, it has them. After a power cut what was in
    /// the buffer may be where it was before.
    pub fn check_map(&self, ftl: &Firmware, after_cut: bool, what: &str) -> usize {
        let (pages, entries) = ftl.map_pages();
        let mut checked = 0;
        for page in 0..pages {
            let Some(ppa) = ftl.written_page(page) else { continue };
            let held = &self.maps[&ppa.0];
            for (lpn, &held) in (page * entries..).zip(held) {
                let now = ftl.newest_at(Lpn(lpn));
                assert!(
                    now.is_none_or(
                        |now| held == Entry::At(now) || after_cut && held == Entry::Before
                    ),
                    "{what}: page {page} has {held:?} of {lpn}, {now:?}"
                );
            }
            checked += 1;
        }
        checked
    }
    /// Ends everything.
    pub fn settle(&mut self, ftl: &mut Firmware, ctx: &mut Ctx, rng: &mut Rng) {
        self.drain(ftl, ctx.now);
        while self.step(ftl, ctx, rng) {
            self.drain(ftl, ctx.now);
        }
    }
}

/// What is written of a sector, if that is a page of a map that memory holds a part of. One that entries wait for is
/// no use.
fn entries(ftl: &Firmware, ppa: u32, lpn: Lpn) -> Option<(u32, Entries)> {
    let (pages, entries) = ftl.map_pages();
    let users = ftl.sectors() as u32;
    if pages == 0 || lpn.0 < users {
        return None;
    }
    let page = lpn.0 - users;
    let sectors = page * entries..((page + 1) * entries).min(users);
    let known = !ftl.waits_for_entries(page);
    let entry = |lpn| match ftl.newest_at(lpn) {
        _ if !known => Entry::Nowhere,
        Some(ppa) => Entry::At(ppa),
        None if ftl.version(lpn).is_some() => Entry::Before,
        None => Entry::Nowhere,
    };
    Some((ppa, sectors.map(|lpn| entry(Lpn(lpn))).collect()))
}

/// What a power cut leaves.
pub struct After {
    drive: Drive,
    pub kept: Kept,
}

impl After {
    /// All blocks that hold nothing go bad.
    pub fn wear_out(&mut self) {
        let blank = self.drive.pages.iter().map(|&pages| pages == 0);
        self.drive.bad.iter_mut().zip(blank).for_each(|(bad, blank)| *bad |= blank);
    }
}

impl Media for After {
    fn is_bad(&self, block: BlockId) -> bool {
        self.drive.bad[block as usize]
    }
    fn is_failed(&self, block: BlockId) -> bool {
        self.drive.failed.contains(&block)
    }
    fn erases(&self, block: BlockId) -> u32 {
        self.drive.erases[block]
    }
    fn pages(&self, block: BlockId) -> u32 {
        self.drive.pages[block]
    }
    fn is_slc(&self, block: BlockId) -> bool {
        self.drive.slc[block as usize]
    }
    fn spare(&self, ppa: Ppa) -> Option<Spare> {
        self.drive.spares.get(&ppa.0).cloned()
    }
    fn kept(&self) -> Kept {
        self.kept.clone()
    }
}

/// A read of flash that has not ended, and what it must find.
#[derive(Clone, Debug)]
pub struct Reading {
    pub ppa: Ppa,
    pub lpn: Lpn,
    pub sectors: u32,
    pub expected: u64,
}

impl Reading {
    pub fn of(pieces: &[Piece]) -> impl Iterator<Item = Reading> + '_ {
        pieces.iter().filter_map(|p| match p.place {
            Place::Flash { ppa, expected } => {
                Some(Reading { ppa, lpn: p.lpn, sectors: p.sectors, expected })
            }
            _ => None,
        })
    }
    /// Ends. What is on flash must be what the FTL takes it to be, and the newest when it was looked up.
    pub fn end(self, ftl: &mut Firmware, ctx: &mut Ctx, drive: &Drive, what: &str) {
        let got = ftl.digest(self.ppa, self.lpn, self.sectors);
        assert_eq!(got, self.expected, "{what}: {self:?}");
        for (ppa, lpn) in (self.ppa.0..self.ppa.0 + self.sectors).zip(self.lpn.0..) {
            let held = drive.flash.get(&ppa);
            assert_eq!(held.map(|h| h.0), Some(Lpn(lpn)), "{what}: sector {ppa}");
        }
        ftl.read_done(ctx, self.ppa, self.sectors);
    }
}

/// The closed form of greedy collection under uniform writes: alpha is the space that is not free by users' sectors, b the sectors of a superblock.
pub fn greedy(alpha: f64, b: u32) -> f64 {
    let b_f = f64::from(b);
    let mut sum = 0.0;
    for k in (1..b).rev() {
        sum += 1.0 / f64::from(k + 1);
        let (k_f, slope) = (f64::from(k), 1.0 / f64::from(k) - alpha / b_f);
        let p = (alpha * (b_f - k_f) / b_f - sum) / slope;
        if slope > 0.0 && (0.0..1.0).contains(&p) && k_f < b_f / alpha {
            return b_f / (b_f - k_f + p);
        }
    }
    panic!("no solution");
}
