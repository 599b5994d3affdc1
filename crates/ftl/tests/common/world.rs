//! An FTL, a fake executor and a plain model side by side.

use super::*;
use wordline_base::Seed;
use wordline_ftl::{
    FtlConfig, Media, ParityPlace, Placement, Source, StrideLayout, Throttle, VictimPolicy,
};

/// Writes to a sector so far, and whether it was trimmed last.
pub type Model = BTreeMap<u32, (u32, bool)>;

pub struct Flush {
    pub tag: u32,
    pub stamps: Vec<u32>,
}

pub struct World {
    pub ftl: Ftl,
    pub ctx: Ctx,
    pub fake: Fake,
    pub rng: Rng,
    pub model: Model,
    pub next_tag: u32,
    pub open: Vec<u32>,
    pub flushes: Vec<Flush>,
    pub fua: Vec<(u32, u32, Vec<u32>)>,
    /// What must survive, at least.
    pub floor: Vec<u32>,
    pub reads: Vec<Piece>,
    pub out: Vec<Piece>,
    pub refused: u32,
    /// Reads issued to a LUN with a program or an erase before them.
    pub blocked: u32,
}

pub fn random_setup(rng: &mut Rng) -> (Geometry, FtlConfig) {
    let channels = 1 << rng.below(3);
    let luns = channels as u32 * (1 + rng.below(4) as u32);
    let unit = [1, 2, 3, 4, 8][rng.below(5) as usize];
    let pages = 6 + rng.below(30) as u32;
    let lines = 24 + rng.below(60) as u32;
    let g = geometry(channels as u32, luns, lines, pages, unit);
    let mut c = FtlConfig::new(Placement::Device, 5.0 + rng.below(50) as f64);
    c.victim = [
        VictimPolicy::Greedy,
        VictimPolicy::CostBenefit,
        VictimPolicy::Fifo,
        VictimPolicy::DChoices,
        VictimPolicy::Random,
    ][rng.below(5) as usize];
    c.max_request_sectors = unit * (1 + rng.below(8) as u32);
    c.gc_lines = 1 + rng.below(6) as u32;
    c.gc_readers = 1 + rng.below(8) as u32;
    c.gc_queue = c.gc_readers + rng.below(16) as u32;
    c.gc_request_sectors = 1 + rng.below(64) as u32;
    c.meta_lines = 1 + rng.below(4) as u32;
    c.pad_idle = rng.below(2) == 0;
    c.wear_spread = [0, 0, 3, 10][rng.below(4) as usize];
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
    c.stride_layout = [StrideLayout::Modulo, StrideLayout::Skewed][rng.below(2) as usize];
    c.parity_place = [ParityPlace::LastGood, ParityPlace::Fixed][rng.below(2) as usize];
    c.emeta_on_parity = rng.below(3) == 0;
    c.throttle =
        [Throttle::All, Throttle::All, Throttle::Gc, Throttle::None][rng.below(4) as usize];
    c.rebuild_from_one = rng.below(4) > 0;
    c.rebuild_split = rng.below(4) > 0;
    c.check_neighbours = rng.below(4) > 0;
    c.write_mostly_iops = [0, 0, 1000][rng.below(3) as usize];
    c.page_pairs = [0, 0, 0, 1, 2][rng.below(5) as usize];
    c.hot_cold = g.luns >= 2 * c.stride && rng.below(3) == 0;
    c.partition_interval = 200 + rng.below(2000);
    // Room for what cannot be read from flash yet.
    c.buffer_sectors = None;
    c.back_threshold = None;
}

impl World {
    pub fn new(ftl: Ftl, mut ctx: Ctx, rng: Rng) -> World {
        let mut ftl = ftl;
        ftl.start(&mut ctx);
        let fake = Fake::new(&ftl);
        World {
            floor: vec![0; ftl.sectors() as usize],
            ftl,
            ctx,
            fake,
            rng,
            model: Model::new(),
            next_tag: 0,
            open: Vec::new(),
            flushes: Vec::new(),
            fua: Vec::new(),
            reads: Vec::new(),
            out: Vec::new(),
            refused: 0,
            blocked: 0,
        }
    }
    pub fn range(&mut self) -> (u32, u32) {
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
        let tag = self.next_tag;
        match self.rng.below(100) {
            0..60 => {
                self.next_tag += 1;
                let fua = self.rng.below(20) == 0;
                let fresh: Vec<u32> =
                    (lpn..lpn + n).map(|l| self.model.get(&l).map_or(0, |m| m.0) + 1).collect();
                for l in lpn..lpn + n {
                    let m = self.model.entry(l).or_default();
                    *m = (m.0 + 1, false);
                }
                if fua {
                    self.fua.push((tag, lpn, fresh));
                }
                self.open.push(tag);
                self.ftl.write(&mut self.ctx, tag, Lpn(lpn), n, fua, Source::Host);
            }
            60..65 => {
                self.next_tag += 1;
                // A trim may still wait inside.
                let trimmed = |l: u32| self.model.get(&l).is_some_and(|m| m.1);
                let newest = |l: u32| self.ctx.stamps.newest(Lpn(l));
                let stamps = (0..self.ftl.sectors() as u32)
                    .map(|l| if trimmed(l) { 0 } else { newest(l) })
                    .collect();
                self.flushes.push(Flush { tag, stamps });
                self.open.push(tag);
                self.ftl.flush(&mut self.ctx, tag);
            }
            65..70 => {
                self.next_tag += 1;
                for l in lpn..lpn + n {
                    if let Some(m) = self.model.get_mut(&l) {
                        m.1 = true;
                    }
                    // A trim may be undone by a power loss, or not.
                    self.floor[l as usize] = 0;
                    self.flushes.iter_mut().for_each(|f| f.stamps[l as usize] = 0);
                    self.fua.retain(|f| !(f.1..f.1 + f.2.len() as u32).contains(&l));
                }
                self.open.push(tag);
                self.ftl.trim(&mut self.ctx, tag, Lpn(lpn), n);
            }
            _ => {
                self.out.clear();
                self.ftl.read(&mut self.ctx, Lpn(lpn), n, &mut self.out);
                for piece in self.out.iter().filter(|p| p.place.ppa().is_some()) {
                    let ppa = piece.place.ppa().expect("in flash");
                    self.blocked += u32::from(self.fake.is_busy(ppa));
                    self.fake.reads[self.fake.g.lun_of(ppa) as usize] += 1;
                    self.reads.push(*piece);
                }
            }
        }
        self.after();
    }
    pub fn end_read(&mut self) {
        if self.reads.is_empty() {
            return;
        }
        let i = self.rng.below(self.reads.len() as u64) as usize;
        let piece = self.reads.swap_remove(i);
        if let Some(ppa) = piece.place.ppa() {
            let reads = &mut self.fake.reads[self.fake.g.lun_of(ppa) as usize];
            *reads = reads.saturating_sub(1);
        }
        match piece.place {
            Place::Flash { ppa, expected } => {
                let got = self.ftl.digest(ppa, piece.lpn, piece.sectors);
                let lost = self.lost(ppa, piece.sectors);
                assert!(got == expected || lost, "{piece:?} holds something else");
                self.ftl.read_done(&mut self.ctx, ppa);
            }
            Place::Member { rebuild, ppa, .. } => {
                self.ftl.member_done(&mut self.ctx, rebuild, true, &mut Vec::new());
                self.ftl.read_done(&mut self.ctx, ppa);
            }
            Place::Unmapped | Place::Buffer => unreachable!("not in flash"),
        }
        self.after();
    }
    pub fn lost(&self, ppa: Ppa, n: u32) -> bool {
        (ppa.0..ppa.0 + n).any(|p| self.ftl.is_lost(Ppa(p)))
    }
    pub fn step(&mut self) -> bool {
        let stepped = self.fake.step(&mut self.ftl, &mut self.ctx, &mut self.rng);
        self.after();
        stepped
    }
    pub fn after(&mut self) {
        self.fake.drain(&mut self.ftl);
        while let Some((tag, ok)) = self.fake.done.pop_first() {
            let i = self.open.iter().position(|&t| t == tag).expect("an open tag");
            self.open.swap_remove(i);
            self.refused += u32::from(!ok);
            if let Some(i) = self.flushes.iter().position(|f| f.tag == tag) {
                let f = self.flushes.remove(i);
                for (floor, stamp) in self.floor.iter_mut().zip(f.stamps) {
                    *floor = (*floor).max(stamp);
                }
            }
            if let Some(i) = self.fua.iter().position(|f| f.0 == tag) {
                let (_, lpn, stamps) = self.fua.remove(i);
                for (i, stamp) in stamps.into_iter().enumerate() {
                    let floor = &mut self.floor[lpn as usize + i];
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
                self.fake.tick(&mut self.ftl, &mut self.ctx),
                "stuck with {} open: free {:?}, {:?}; {}",
                self.open.len(),
                self.ftl.free_lines(),
                self.ftl.counters(),
                self.ftl.situation()
            );
            self.after();
        }
    }
    pub fn verify(&mut self) {
        for lpn in 0..self.ftl.sectors() as u32 {
            let expected = match self.model.get(&lpn) {
                Some(&(count, false)) => count,
                _ => 0,
            };
            assert_eq!(self.ctx.stamps.newest(Lpn(lpn)), expected, "sector {lpn}");
            self.out.clear();
            self.ftl.read(&mut self.ctx, Lpn(lpn), 1, &mut self.out);
            if let Place::Flash { ppa, expected } = self.out[0].place {
                assert!(self.ftl.digest(ppa, Lpn(lpn), 1) == expected || self.lost(ppa, 1));
                self.ftl.read_done(&mut self.ctx, ppa);
            } else {
                self.reads.extend(self.out.iter().filter(|p| p.place.ppa().is_some()));
                while !self.reads.is_empty() {
                    self.end_read();
                }
            }
        }
        self.after();
        if self.ftl.counters().lost_sectors == 0 {
            assert_eq!(self.ctx.stamps.wrong().0, 0, "{:?}", self.ctx.stamps.wrong());
        }
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
                    assert!(
                        self.fake.tick(&mut self.ftl, &mut self.ctx),
                        "stuck: {}",
                        self.ftl.situation()
                    );
                    self.after();
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
}

impl World {
    /// Recovers from what flash holds now, and checks that nothing durable is missing.
    pub fn pull_the_plug(&self, g: &Geometry, c: &FtlConfig, seed: u64) -> Option<(Ftl, Ctx)> {
        let kept = self.fake.kept.as_ref().unwrap();
        let media = Media {
            sectors: self.ftl.sectors(),
            lines: self.fake.lines(&self.ftl),
            oob: &|ppa| kept.oob[ppa.0 as usize],
        };
        let (mut after, report) = Ftl::recover(g, c, &media, Seed(seed)).ok()?;
        after.check_invariants().unwrap();
        assert!(report.mapped <= after.sectors());
        let mut now = ctx(Some(after.sectors()));
        after.adopt_stamps(&mut now.stamps);
        for lpn in 0..after.sectors() as u32 {
            let stamp = now.stamps.newest(Lpn(lpn));
            let newest = self.model.get(&lpn).map_or(0, |m| m.0);
            let floor = self.floor[lpn as usize];
            assert!(
                (floor..=newest).contains(&stamp),
                "seed {seed}: sector {lpn} came back as {stamp}, not in {floor}..={newest}"
            );
        }
        Some((after, now))
    }
}
