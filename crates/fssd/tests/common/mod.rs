//! A drive for the FTL: operations end in any order that is first come first served on each LUN, some
//! fail, the rules of flash are asserted, and what flash and the drive's protected buffer hold is kept.

use std::collections::{BTreeMap, VecDeque};
use wordline_base::{Ctx, IdVec, Lpn, Rng, SectorSize, Stamps, Time};
use wordline_fssd::{Fssd, FssdConfig, Recovery, Side, Spare};
use wordline_nand::{BlockId, Geometry, LunId, Outcome, Ppa};
use wordline_translation::{
    Action, GcOrder, GcPolicy, GcReport, Ordered, PLACE, Piece, Place, Translation,
};

pub fn geometry(channels: u32, luns: u32, lines: u32, pages: u32, unit: u32) -> Geometry {
    assert_eq!(luns % channels, 0);
    Geometry {
        slc_pages: 0,
        channels,
        luns,
        lines,
        pages,
        sector: SectorSize::new(512).unwrap(),
        sectors_per_unit: unit,
        sectors_per_stripe: unit * luns,
        sectors_per_line: unit * luns * pages,
        planes: 1,
        in_place: false,
    }
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
    pub config: FssdConfig,
    pub over_provisioning: f64,
    pub bad: Vec<bool>,
}

impl Kind {
    pub fn draw(seed: u64) -> Kind {
        let mut rng = Rng::from_seed(seed ^ 0xF55D);
        let shapes = [
            (4, 4, 24, 8, 4),
            (2, 4, 40, 6, 8),
            (4, 8, 24, 4, 2),
            (1, 2, 60, 8, 16),
            (2, 2, 60, 8, 1),
        ];
        let (channels, luns, lines, pages, unit) = rng.pick(&shapes);
        let sector = SectorSize::new(rng.pick(&[512, 512, 4096])).unwrap();
        let g = Geometry { sector, ..geometry(channels, luns, lines, pages, unit) };
        let append_points = rng.pick(&[1, channels.min(2), channels]);
        let units = rng.pick(&[5, 16, 1000]);
        let config = FssdConfig {
            node_bytes: rng.pick(&[256, 512, 4096]),
            append_points,
            volatile: rng.below(2) == 0,
            buffer_bytes: units * g.unit_bytes(),
            gc_units: rng.pick(&[2, 4, 32]),
            checkpoint_sectors: rng.pick(&[Some(50), Some(400), None]),
            ..FssdConfig::default()
        };
        let share = rng.pick(&[0, 0, 20_000_000]);
        let bad = (0..lines * luns).map(|_| rng.chance(share)).collect();
        let collector = rng.pick(&[Side::Host, Side::Drive]);
        let victims = rng.pick(&[Side::Drive, Side::Drive, Side::Host]);
        let report_units = rng.pick(&[1, 4, 16]);
        let config = FssdConfig { collector, victims, report_units, ..config };
        Kind { g, config, over_provisioning: 60.0, bad }
    }
    pub fn make(&self) -> Fssd {
        let bad = &mut |lun, line| self.bad[(line * self.g.luns + lun) as usize];
        Fssd::new(&self.g, self.over_provisioning, &self.config, bad)
            .unwrap_or_else(|e| panic!("{self:?}: {e}"))
    }
}

#[derive(Clone, Debug)]
enum Work {
    Read,
    Program { spares: Vec<(u32, Spare)> },
    Erase,
}

#[derive(Clone, Debug)]
struct Pending {
    op: u32,
    ppa: u32,
    work: Work,
}

/// Sectors on their way over the link.
#[derive(Clone, Debug)]
struct Staging {
    op: u32,
    spares: Vec<(u32, Spare)>,
}

/// Failures per 10^9 operations.
#[derive(Clone, Copy, Default, Debug)]
pub struct Faults {
    pub read: u64,
    pub program: u64,
    pub erase: u64,
    pub stage: u64,
}

/// What does not go with the power.
#[derive(Clone, Debug)]
pub struct Media {
    pub flash: BTreeMap<u32, Spare>,
    /// The drive's protected buffer.
    pub staged: BTreeMap<u32, Spare>,
    pub pages: IdVec<BlockId, u32>,
    pub erases: IdVec<BlockId, u32>,
    pub bad: Vec<bool>,
    /// Blocks that failed since.
    pub failed: Vec<bool>,
}

/// The tag of the collector's command, if it is on the host.
pub const ORDERED: u32 = u32::MAX;

/// A collector on the host, whose commands and answers take as long as the test likes.
#[derive(Clone, Default)]
pub struct HostCollector {
    policy: Option<GcPolicy>,
    /// A command or an answer is on its way.
    command: Option<GcOrder>,
    answer: Option<GcReport>,
    pub orders: u64,
}

impl HostCollector {
    fn has_work(&self) -> bool {
        self.policy.is_none() || self.command.is_some() || self.answer.is_some()
    }
    fn step(&mut self, ftl: &mut Fssd, ctx: &mut Ctx) {
        let Some(policy) = &mut self.policy else {
            ftl.obey();
            self.policy = Some(GcPolicy::new(ftl.gc_shape().unwrap()));
            self.command = Some(GcOrder::Counts { waits: false });
            return;
        };
        if let Some(order) = self.command.take() {
            assert!(Ordered::order(ftl, ctx, ORDERED, order), "{order:?}");
            self.orders += 1;
        } else if let Some(report) = self.answer.take() {
            self.command = Some(policy.next(&report));
        }
    }
}

#[derive(Clone)]
pub struct Drive {
    pub g: Geometry,
    queues: IdVec<LunId, VecDeque<Pending>>,
    staging: Vec<Staging>,
    pub media: Media,
    pub faults: Faults,
    /// Commands that ended, and how.
    pub ended: BTreeMap<u32, bool>,
    /// Of those, how many the map had no memory for.
    pub refused: u64,
    pub volatile: bool,
    pub collector: Side,
    pub host: Option<HostCollector>,
}

impl Drive {
    pub fn new(kind: &Kind) -> Drive {
        let g = kind.g;
        let blocks = g.lines * g.luns;
        let media = Media {
            flash: BTreeMap::new(),
            staged: BTreeMap::new(),
            pages: IdVec::filled(0, blocks),
            erases: IdVec::filled(0, blocks),
            bad: kind.bad.clone(),
            failed: vec![false; blocks as usize],
        };
        Drive {
            g,
            queues: IdVec::filled(VecDeque::new(), g.luns),
            staging: Vec::new(),
            media,
            faults: Faults::default(),
            ended: BTreeMap::new(),
            refused: 0,
            volatile: kind.config.volatile,
            collector: kind.config.collector,
            host: (kind.config.victims == Side::Host).then(HostCollector::default),
        }
    }
    fn block_of(&self, ppa: u32) -> BlockId {
        self.g.line_of(Ppa(ppa)) * self.g.luns + self.g.lun_of(Ppa(ppa))
    }
    /// Takes what the FTL wants done.
    pub fn drain(&mut self, ftl: &mut Fssd) {
        while let Some(action) = ftl.poll() {
            let unit = self.g.sectors_per_unit;
            let spares = |ppa: Ppa, sectors: u32| -> Vec<(u32, Spare)> {
                let all = (ppa.0..ppa.0 + sectors).map(Ppa);
                all.filter_map(|ppa| Some((ppa.0, ftl.spare(ppa)?))).collect()
            };
            let (op, ppa, work) = match action {
                Action::Complete { tag: ORDERED, ok } => {
                    assert!(ok);
                    let host = self.host.as_mut().expect("it gives orders");
                    host.answer = ftl.take_report();
                    assert!(host.answer.is_some(), "an order ends with an answer");
                    continue;
                }
                Action::Complete { tag, ok } => {
                    assert!(self.ended.insert(tag, ok).is_none(), "tag {tag} completed twice");
                    continue;
                }
                Action::Refuse { tag } => {
                    assert!(self.ended.insert(tag, false).is_none(), "tag {tag} completed twice");
                    self.refused += 1;
                    continue;
                }
                Action::Stage { op, ppa, sectors, .. } => {
                    assert!(!self.volatile && sectors > 0 && ppa.0 % unit + sectors <= unit);
                    let spares = spares(ppa, sectors);
                    assert_eq!(spares.len(), sectors as usize, "all of it is there");
                    self.staging.push(Staging { op, spares });
                    continue;
                }
                Action::Read { op, ppa, sectors, .. } => {
                    assert!(sectors > 0 && ppa.0 % unit + sectors <= unit, "a read crosses units");
                    (op, ppa, Work::Read)
                }
                Action::Program { op, ppa, payload, .. } => {
                    let spares = spares(ppa, unit);
                    assert!(self.staging.iter().all(|s| s.spares[0].0 / unit != ppa.0 / unit));
                    let staged = spares.iter().all(|s| self.media.staged.contains_key(&s.0));
                    // What a collector in the drive moved is there; of each sector it is told.
                    let told = (ftl.beside(op) / PLACE) as usize;
                    let (sent, all) = (payload as usize, spares.len());
                    let there = sent <= all && sent + told >= all;
                    assert!(there || payload == 0 && staged, "data come from nowhere");
                    let drive = self.collector == Side::Drive;
                    assert!(drive || told == 0 && (sent == all || staged), "they come from both");
                    (op, ppa, Work::Program { spares })
                }
                Action::Erase { op, ppa } => (op, ppa, Work::Erase),
                Action::Sum { .. } => panic!("{action:?}"),
            };
            let lun = self.g.lun_of(ppa);
            self.queues[lun].push_back(Pending { op, ppa: ppa.0, work });
        }
    }
    /// Flash as ageing left it.
    pub fn take_over(&mut self, ftl: &Fssd) {
        for block in ftl.media_state() {
            let id = block.line * self.g.luns + block.lun;
            (self.media.pages[id], self.media.erases[id]) = (block.programmed, block.erases);
        }
    }
    /// The FTL of what is left.
    pub fn recover(&self, kind: &Kind, sectors: u64) -> (Fssd, Recovery) {
        let media = &self.media;
        let media = wordline_fssd::Media {
            sectors,
            bad: &|block| media.bad[block as usize],
            programmed: &media.pages,
            erases: &media.erases,
            spare: &|ppa| media.flash.get(&ppa.0).cloned(),
        };
        Fssd::recover(&kind.g, kind.over_provisioning, &kind.config, &media)
            .unwrap_or_else(|e| panic!("{kind:?}: {e}"))
    }
    /// The collector on the host begins at the first step, and takes part in each third.
    fn host_steps(&mut self, ftl: &mut Fssd, ctx: &mut Ctx, rng: &mut Rng, alone: bool) -> bool {
        let Some(host) = self.host.as_mut().filter(|host| host.has_work()) else { return false };
        let steps = alone || rng.below(3) == 0;
        if steps {
            host.step(ftl, ctx);
        }
        steps
    }
    /// Ends an operation drawn at random. False: there is none.
    pub fn step(&mut self, ftl: &mut Fssd, ctx: &mut Ctx, rng: &mut Rng) -> bool {
        let luns = 0..self.g.luns;
        let busy: Vec<LunId> = luns.filter(|&lun| !self.queues[lun].is_empty()).collect();
        let all = (busy.len() + self.staging.len()) as u64;
        if self.host_steps(ftl, ctx, rng, all == 0) {
            return true;
        }
        if all == 0 {
            return false;
        }
        let at = rng.below(all) as usize;
        let Some(&lun) = busy.get(at) else {
            let Staging { op, spares } = self.staging.swap_remove(at - busy.len());
            let ok = !rng.chance(self.faults.stage);
            if ok {
                self.media.staged.extend(spares);
            }
            ftl.on_done(ctx, op, if ok { Outcome::Ok } else { Outcome::Failed });
            return true;
        };
        let Pending { op, ppa, work } = self.queues[lun].pop_front().expect("an operation");
        let share = match work {
            Work::Read => self.faults.read,
            Work::Program { .. } => self.faults.program,
            Work::Erase => self.faults.erase,
        };
        let ok = !rng.chance(share);
        self.perform(ppa, work, ok, !ok);
        ftl.on_done(ctx, op, if ok { Outcome::Ok } else { Outcome::Failed });
        true
    }
    /// `failed`: the block is no good, as the drive knows.
    fn perform(&mut self, ppa: u32, work: Work, ok: bool, failed: bool) {
        let block = self.block_of(ppa);
        let page = self.g.page_of(Ppa(ppa));
        match work {
            Work::Read => {
                assert!(page < self.media.pages[block], "page {page} of block {block} is blank");
            }
            Work::Program { spares } => {
                assert!(!self.media.bad[block as usize], "block {block} is bad");
                assert_eq!(page, self.media.pages[block], "pages of block {block} have gaps");
                self.media.pages[block] += 1;
                self.media.failed[block as usize] |= failed;
                if ok {
                    for (ppa, spare) in spares {
                        self.media.staged.remove(&ppa);
                        self.media.flash.insert(ppa, spare);
                    }
                }
            }
            Work::Erase => {
                assert!(!self.media.bad[block as usize], "block {block} is bad");
                self.media.pages[block] = 0;
                self.media.failed[block as usize] |= failed;
                self.media.erases[block] += 1;
                let (g, line, lun) = (self.g, block / self.g.luns, block % self.g.luns);
                for page in 0..g.pages {
                    let first = g.first_of_unit(g.unit_at(line, page, lun)).0;
                    for ppa in first..first + g.sectors_per_unit {
                        self.media.flash.remove(&ppa);
                        self.media.staged.remove(&ppa);
                    }
                }
            }
        }
    }
    /// Ends everything.
    pub fn settle(&mut self, ftl: &mut Fssd, ctx: &mut Ctx, rng: &mut Rng) {
        self.drain(ftl);
        while self.step(ftl, ctx, rng) {
            self.drain(ftl);
        }
    }
    /// The power goes. What each LUN was doing is done or not, a program perhaps torn; sectors on the link
    /// arrived or not; and the capacitors program what is in the protected buffer.
    pub fn cut(&mut self, rng: &mut Rng) -> Media {
        if let Some(host) = &mut self.host {
            // The new driver begins anew.
            *host = HostCollector { orders: host.orders, ..HostCollector::default() };
        }
        for staging in std::mem::take(&mut self.staging) {
            if rng.below(2) == 0 {
                self.media.staged.extend(staging.spares);
            }
        }
        for lun in 0..self.g.luns {
            let Some(Pending { ppa, work, .. }) = self.queues[lun].pop_front() else { continue };
            self.queues[lun].clear();
            match work {
                Work::Read => {}
                work => match rng.below(3) {
                    0 => {}
                    1 => self.perform(ppa, work, true, false),
                    _ => self.perform(ppa, work, false, false),
                },
            }
        }
        let mut media = self.media.clone();
        for (ppa, spare) in std::mem::take(&mut media.staged) {
            let (block, page) = (self.block_of(ppa), self.g.page_of(Ppa(ppa)));
            media.pages[block] = media.pages[block].max(page + 1);
            media.flash.insert(ppa, spare);
        }
        for (bad, failed) in media.bad.iter_mut().zip(&media.failed) {
            *bad |= failed;
        }
        self.media = media.clone();
        media
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
    pub fn end(self, ftl: &mut Fssd, ctx: &mut Ctx, drive: &Drive, what: &str) {
        let got = ftl.digest(self.ppa, self.lpn, self.sectors);
        assert_eq!(got, self.expected, "{what}: {self:?}");
        for (ppa, lpn) in (self.ppa.0..self.ppa.0 + self.sectors).zip(self.lpn.0..) {
            let held = drive.media.flash.get(&ppa).map(|spare| &spare.holds);
            let same = matches!(held, Some(wordline_fssd::Holds::Data { lpn: l, .. }) if *l == lpn);
            assert!(same, "{what}: {ppa} holds {held:?}, not {lpn}");
        }
        ftl.read_done(ctx, self.ppa, self.sectors);
    }
}
