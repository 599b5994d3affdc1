//! An FTL, a fake executor and a plain model side by side.

use super::case::Step;
use super::*;
use std::cell::RefCell;
use std::rc::Rc;
use wordline_base::Span;
use wordline_ftl::{
    FtlConfig, Media, ParityPlace, Placement, RecoverError, Source, StrideLayout, Throttle,
    VictimPolicy,
};

/// Writes to a sector so far, and whether it was trimmed last.
pub type Model = IdVec<u32, (u32, bool)>;

pub struct Flush {
    pub tag: u32,
    pub stamps: IdVec<u32, u32>,
}

pub struct World {
    g: Geometry,
    pub config: FtlConfig,
    pub ftl: Ftl,
    pub ctx: Ctx,
    pub fake: Fake,
    pub rng: Rng,
    /// Everything that happened.
    pub log: Rc<RefCell<Vec<Step>>>,
    pub model: Model,
    pub next_tag: u32,
    pub open: Vec<u32>,
    pub flushes: Vec<Flush>,
    pub fua: Vec<(u32, u32, Vec<u32>)>,
    /// What must survive, at least.
    pub floor: IdVec<u32, u32>,
    pub reads: Vec<Piece>,
    pub out: Vec<Piece>,
    pub refused: u32,
    /// Reads issued to a LUN with a program or an erase before them.
    pub blocked: u32,
    /// Reads that ended with an error.
    pub unreadable: u32,
    /// Sectors that parity gave back at the end.
    pub rebuilt: u64,
    pub losses: u32,
    /// What was lost to sectors before power went the last time.
    pub planted: bool,
}

pub fn random_setup(rng: &mut Rng) -> (Geometry, FtlConfig) {
    let channels = 1 << rng.below(3);
    let luns = channels as u32 * (1 + rng.below(4) as u32);
    let unit = rng.pick(&[1, 2, 3, 4, 8]);
    let pages = 6 + rng.below(30) as u32;
    let lines = 24 + rng.below(60) as u32;
    let g = geometry(channels as u32, luns, lines, pages, unit);
    let mut c = FtlConfig::new(Placement::Device, 5.0 + rng.below(50) as f64);
    c.victim = rng.pick(&[
        VictimPolicy::Greedy,
        VictimPolicy::CostBenefit,
        VictimPolicy::Fifo,
        VictimPolicy::DChoices,
        VictimPolicy::Random,
        VictimPolicy::WindowedGreedy,
    ]);
    c.victim_window = lines / 2;
    c.max_request_sectors = unit * (1 + rng.below(8) as u32);
    c.gc_lines = 1 + rng.below(6) as u32;
    c.gc_readers = 1 + rng.below(8) as u32;
    c.gc_queue = c.gc_readers + rng.below(16) as u32;
    c.gc_request_sectors = 1 + rng.below(64) as u32;
    c.meta_lines = 1 + rng.below(4) as u32;
    c.pad_idle = rng.below(2) == 0;
    c.wear_spread = rng.pick(&[0, 0, 3, 10]);
    if rng.below(2) == 0 {
        c.meta_distance = Some(rng.below(u64::from(luns)) as u32);
    }
    if rng.below(2) == 0 {
        c.buffer_sectors = Some(128 << rng.below(3));
        c.back_threshold = Some(rng.below(u64::from(128 - 2 * unit)) as u32);
    }
    (g, c)
}

/// Adds strides, and with them every choice there is, to a random set-up.
pub fn random_strides(rng: &mut Rng, g: &Geometry, c: &mut FtlConfig) {
    c.stride = 2 + rng.below(5.min(u64::from(g.luns) - 1)) as u32;
    c.parities = 1 + u32::from(c.stride > 2 && rng.below(3) == 0);
    c.stride_layout = rng.pick(&[StrideLayout::Modulo, StrideLayout::Skewed]);
    c.parity_place = rng.pick(&[ParityPlace::LastGood, ParityPlace::Fixed]);
    c.emeta_on_parity = rng.below(3) == 0;
    c.throttle = rng.pick(&[Throttle::All, Throttle::All, Throttle::Gc, Throttle::None]);
    c.rebuild_from_one = rng.below(4) > 0;
    c.rebuild_split = rng.below(4) > 0;
    c.check_neighbours = rng.below(4) > 0;
    c.write_mostly_iops = rng.pick(&[0, 0, 1000]);
    c.page_pairs = rng.pick(&[0, 0, 0, 1, 2]);
    c.hot_cold = g.luns >= 2 * c.stride && rng.below(3) == 0;
    c.partition_interval = 200 + rng.below(2000);
    // Half of them take time for the collector's sums.
    c.cost.xor_sector = Span(u64::from(c.stride % 2));
    // Room for what cannot be read from flash yet.
    c.buffer_sectors = None;
    c.back_threshold = None;
}

/// Time between two operations that are done.
const BEAT: Span = Span::from_us(20);

impl World {
    /// Of a drive at rest.
    pub fn new(g: &Geometry, c: &FtlConfig, ftl: Ftl, ctx: Ctx, rng: Rng) -> World {
        let mut fake = Fake::new(&ftl);
        fake.keep_media(&ftl);
        World::begin(g, c, ftl, ctx, rng, fake)
    }
    fn begin(
        g: &Geometry,
        c: &FtlConfig,
        mut ftl: Ftl,
        mut ctx: Ctx,
        rng: Rng,
        fake: Fake,
    ) -> World {
        ftl.start(&mut ctx);
        let mut w = World {
            g: *g,
            config: c.clone(),
            floor: IdVec::filled(0, ftl.sectors() as u32),
            model: IdVec::filled((0, false), ftl.sectors() as u32),
            ftl,
            ctx,
            fake,
            rng,
            log: Rc::default(),
            next_tag: 0,
            open: Vec::new(),
            flushes: Vec::new(),
            fua: Vec::new(),
            reads: Vec::new(),
            out: Vec::new(),
            refused: 0,
            blocked: 0,
            unreadable: 0,
            rebuilt: 0,
            losses: 0,
            planted: false,
        };
        w.after();
        w
    }
    fn range(&mut self) -> (u32, u32) {
        let sectors = self.ftl.sectors();
        let most = if self.rng.below(20) == 0 { 400 } else { 16 };
        let n = 1 + self.rng.below(most.min(sectors));
        // Half of the commands go to a tenth of the drive.
        let span = if self.rng.below(2) == 0 { sectors } else { (sectors / 10).max(n) };
        let lpn = self.rng.below((span - n).max(1));
        (lpn as u32, n as u32)
    }
    pub fn command(&mut self) {
        let (lpn, n) = self.range();
        let step = match self.rng.below(100) {
            0..60 => Step::Write { lpn, n, fua: self.rng.below(20) == 0 },
            60..65 => Step::Flush,
            65..70 => Step::Trim { lpn, n },
            _ => Step::Read { lpn, n },
        };
        self.apply(step);
    }
    /// False: there is nothing it could happen to.
    pub fn apply(&mut self, step: Step) -> bool {
        self.log.borrow_mut().push(step);
        let sectors = self.ftl.sectors() as u32;
        let within = |lpn: u32, n: u32| {
            let n = n.clamp(1, sectors);
            (lpn % (sectors - n + 1), n)
        };
        let mut done = true;
        match step {
            Step::Write { lpn, n, fua } => {
                let (lpn, n) = within(lpn, n);
                self.write(lpn, n, fua);
            }
            Step::Read { lpn, n } => {
                let (lpn, n) = within(lpn, n);
                self.read(lpn, n);
            }
            Step::Trim { lpn, n } => {
                let (lpn, n) = within(lpn, n);
                self.trim(lpn, n);
            }
            Step::Flush => self.flush(),
            Step::End { k, fails } => {
                self.pass();
                done = self.fake.end(&mut self.ftl, &mut self.ctx, k, fails);
            }
            Step::EndRead { k, fails } => done = self.read_ends(k, fails),
            Step::Tick => done = self.fake.tick(&mut self.ftl, &mut self.ctx),
            Step::Crash { torn } => self.crash(torn),
        }
        self.after();
        done
    }
    /// A little time passes.
    fn pass(&mut self) {
        let now = self.ctx.now + BEAT;
        while self.ctx.queue.next_time().is_some_and(|at| at <= now) {
            self.fake.tick(&mut self.ftl, &mut self.ctx);
        }
        self.ctx.now = now;
    }
    fn tag(&mut self) -> u32 {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.open.push(tag);
        tag
    }
    fn write(&mut self, lpn: u32, n: u32, fua: bool) {
        let tag = self.tag();
        let fresh: Vec<u32> = (lpn..lpn + n).map(|l| self.model[l].0 + 1).collect();
        for (l, &count) in (lpn..).zip(&fresh) {
            self.model[l] = (count, false);
        }
        if fua {
            self.fua.push((tag, lpn, fresh));
        }
        self.ftl.write(&mut self.ctx, tag, Lpn(lpn), n, fua, Source::Host);
    }
    fn flush(&mut self) {
        let tag = self.tag();
        // A trim may still wait inside.
        let trimmed = |l: u32| self.model[l].1;
        let newest = |l: u32| self.ctx.stamps.newest(Lpn(l));
        let stamps = (0..self.ftl.sectors() as u32)
            .map(|l| if trimmed(l) { 0 } else { newest(l) })
            .collect();
        self.flushes.push(Flush { tag, stamps });
        self.ftl.flush(&mut self.ctx, tag);
    }
    fn trim(&mut self, lpn: u32, n: u32) {
        let tag = self.tag();
        for l in lpn..lpn + n {
            self.model[l].1 = true;
            // A trim may be undone by a power loss, or not.
            self.floor[l] = 0;
            self.flushes.iter_mut().for_each(|f| f.stamps[l] = 0);
            self.fua.retain(|f| !(f.1..f.1 + f.2.len() as u32).contains(&l));
        }
        self.ftl.trim(&mut self.ctx, tag, Lpn(lpn), n);
    }
    fn read(&mut self, lpn: u32, n: u32) {
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        self.ftl.read(&mut self.ctx, Lpn(lpn), n, &mut out);
        self.issue_reads(&out);
        self.out = out;
    }
    fn issue_reads(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            let Some(ppa) = piece.place.ppa() else { continue };
            self.blocked += u32::from(self.fake.is_busy(ppa));
            self.fake.reads[self.g.lun_of(ppa)] += 1;
            self.reads.push(*piece);
        }
    }
    /// A flash read of a user, drawn, is done.
    pub fn end_read(&mut self) {
        if self.reads.is_empty() {
            return;
        }
        let k = self.rng.below(self.reads.len() as u64) as u32;
        let fails = self.rng.chance(self.fake.faults.user_read);
        self.apply(Step::EndRead { k, fails });
    }
    fn read_ends(&mut self, k: u32, fails: bool) -> bool {
        if self.reads.is_empty() {
            return false;
        }
        let piece = self.reads.swap_remove(k as usize % self.reads.len());
        let ppa = piece.place.ppa().expect("in flash");
        let reads = &mut self.fake.reads[self.g.lun_of(ppa)];
        *reads = reads.saturating_sub(1);
        // Flash holds there what the FTL believes.
        let kept = self.fake.kept.as_ref().expect("media kept");
        for ppa in ppa.0..ppa.0 + piece.sectors {
            assert_eq!(kept.oob[ppa], self.ftl.oob(Ppa(ppa)), "sector {ppa}");
        }
        let mut more = Vec::new();
        let (ctx, n) = (&mut self.ctx, piece.sectors);
        match piece.place {
            Place::Flash { ppa, expected } if fails => {
                self.ftl.read_failed();
                let repaired = self.ftl.repair(ctx, piece.lpn, n, ppa, expected, &mut more);
                self.unreadable += u32::from(!repaired);
            }
            Place::Flash { ppa, .. } if self.ftl.has_lost(ppa, n) => self.unreadable += 1,
            Place::Flash { ppa, expected } => {
                let got = self.ftl.digest(ppa, piece.lpn, n);
                assert_eq!(got, expected, "{piece:?} holds something else");
            }
            Place::Member { rebuild, .. } => {
                let over = self.ftl.member_done(ctx, rebuild, ppa, !fails, &mut more);
                self.unreadable += u32::from(over.is_some_and(|r| !r.ok));
            }
            Place::Unmapped | Place::Buffer | Place::Lost => unreachable!("not in flash"),
        }
        self.issue_reads(&more);
        self.ftl.read_done(&mut self.ctx, ppa, n);
        true
    }
    /// An operation, drawn, is done.
    pub fn step(&mut self) -> bool {
        let Some((k, fails)) = self.fake.draw(&mut self.rng) else { return false };
        self.apply(Step::End { k, fails })
    }
    pub fn after(&mut self) {
        self.fake.drain(&mut self.ftl);
        while let Some((tag, ok)) = self.fake.done.pop_first() {
            let i = self.open.iter().position(|&t| t == tag).expect("an open tag");
            self.open.swap_remove(i);
            self.refused += u32::from(!ok);
            if let Some(i) = self.flushes.iter().position(|f| f.tag == tag) {
                let f = self.flushes.remove(i);
                for (floor, stamp) in self.floor.iter_mut().zip(&f.stamps).filter(|_| ok) {
                    *floor = (*floor).max(*stamp);
                }
            }
            if let Some(i) = self.fua.iter().position(|f| f.0 == tag) {
                let (_, lpn, stamps) = self.fua.remove(i);
                for (lpn, stamp) in (lpn..).zip(stamps).filter(|_| ok) {
                    let floor = &mut self.floor[lpn];
                    *floor = (*floor).max(stamp);
                }
            }
        }
    }
    pub fn settle(&mut self) {
        for i in 0.. {
            assert!(i < 1_000_000, "nothing goes on: {}", self.ftl.situation());
            if self.step() {
                continue;
            }
            if !self.reads.is_empty() {
                self.end_read();
                continue;
            }
            if self.open.is_empty() {
                break;
            }
            assert!(
                self.apply(Step::Tick),
                "stuck with {} open: free {:?}, {:?}; {}",
                self.open.len(),
                self.ftl.free_lines(),
                self.ftl.counters(),
                self.ftl.situation()
            );
        }
    }
    /// Reads every sector.
    pub fn verify(&mut self) {
        for lpn in 0..self.ftl.sectors() as u32 {
            let (count, trimmed) = self.model[lpn];
            let expected = if trimmed { 0 } else { count };
            assert_eq!(self.ctx.stamps.newest(Lpn(lpn)), expected, "sector {lpn}");
            self.read(lpn, 1);
            while !self.reads.is_empty() {
                self.read_ends(0, false);
            }
        }
        self.after();
        assert_eq!(self.ctx.stamps.wrong().0, 0, "{:?}", self.ctx.stamps.wrong());
    }
    pub fn run(&mut self, commands: u32, depth: usize) {
        for i in 0..commands {
            while self.open.len() >= depth || self.rng.below(3) == 0 {
                if self.rng.below(4) == 0 {
                    self.end_read();
                }
                if self.step() {
                    continue;
                }
                if self.open.len() >= depth {
                    if !self.reads.is_empty() {
                        self.end_read();
                        continue;
                    }
                    assert!(self.apply(Step::Tick), "stuck: {}", self.ftl.situation());
                    continue;
                }
                break;
            }
            self.command();
            if i % 64 == 0 {
                self.ftl.check_invariants().unwrap();
            }
        }
    }
    /// Random commands with failures and power losses.
    pub fn run_with_losses(&mut self, faults: Faults, losses: u32) {
        self.fake.faults = faults;
        for _ in 0..losses {
            let commands = 200 + self.rng.below(800) as u32;
            self.run(commands, 12);
            if self.refused > 0 {
                break;
            }
            let torn = self.rng.below(1 << 16) as u32;
            self.apply(Step::Crash { torn });
        }
    }
    /// Power goes now. None: there are too few blocks left for a drive that is written; all is there to be read.
    pub fn recovered(&self, torn: u32) -> Option<World> {
        match self.recovered_as(torn, false, false) {
            Ok(world) => Some(world),
            Err(RecoverError::Config(_)) => {
                self.recovered_as(torn, false, true).err().map(|e| panic!("{e}"))
            }
            Err(e) => panic!("{e}"),
        }
    }
    /// The same; if `bad`, all blank blocks are.
    pub fn recovered_as(&self, torn: u32, bad: bool, worn: bool) -> Result<World, RecoverError> {
        let (kept, pages) = self.fake.cut(torn);
        let mut lines = self.fake.lines(&self.ftl, &kept, &pages);
        for line in lines.iter_mut().filter(|_| bad) {
            let blocks = line.bad.iter_mut().zip(&line.programmed);
            blocks.for_each(|(bad, &pages)| *bad |= pages == 0);
        }
        let media = Media {
            sectors: self.ftl.sectors(),
            worn,
            lines,
            oob: &|ppa| kept.oob[ppa.0],
            trimmed: &|_, _| false,
        };
        let (mut ftl, report) = Ftl::recover(&self.g, &self.config, &media, Seed(1))?;
        ftl.check_invariants().unwrap();
        ftl.check_parity().unwrap();
        assert!(report.mapped <= ftl.sectors());
        let mut now = ctx(Some(ftl.sectors()));
        ftl.adopt_stamps(&mut now.stamps);
        let came: IdVec<u32, u32> =
            (0..ftl.sectors() as u32).map(|l| now.stamps.newest(Lpn(l))).collect();
        for (lpn, &stamp) in (0..).zip(&came) {
            let newest = self.model[lpn].0;
            let floor = self.floor[lpn];
            assert!(
                (floor..=newest).contains(&stamp),
                "sector {lpn} came back as {stamp}, not in {floor}..={newest}"
            );
        }
        let mut fake = Fake::new(&ftl);
        fake.set_pages(pages);
        (fake.kept, fake.faults) = (Some(kept), self.fake.faults);
        let mut w = World::begin(&self.g, &self.config, ftl, now, self.rng.clone(), fake);
        w.model = came.iter().map(|&n| (n, false)).collect();
        w.floor = came;
        let unreadable = w.unreadable;
        w.verify();
        w.unreadable = unreadable;
        Ok(w)
    }
    fn crash(&mut self, torn: u32) {
        self.planted |= self.ftl.counters().blocks_retired > 0;
        let Some(mut w) = self.recovered(torn) else { return };
        w.log = self.log.clone();
        w.losses = self.losses + 1;
        (w.planted, w.next_tag) = (self.planted, self.next_tag);
        (w.refused, w.unreadable, w.blocked) = (self.refused, self.unreadable, self.blocked);
        w.fake.trace = self.fake.trace;
        w.fake.by_class = self.fake.by_class;
        w.fake.overtook = self.fake.overtook;
        *self = w;
    }
}
