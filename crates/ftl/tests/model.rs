//! The FTL beside a plain model: random geometries, configurations, commands, orders of completion,
//! bad blocks, failures, and power losses.

mod common;
use common::*;
use std::collections::BTreeMap;
use wordline_base::{Ctx, Lpn, Rng, Seed};
use wordline_ftl::{
    Counters, Ftl, FtlConfig, Media, Piece, Place, Placement, Source, VictimPolicy,
};
use wordline_nand::{Geometry, Ppa};

/// Writes to a sector so far, and whether it was trimmed last.
type Model = BTreeMap<u32, (u32, bool)>;

struct Flush {
    tag: u32,
    stamps: Vec<u32>,
}

struct World {
    ftl: Ftl,
    ctx: Ctx,
    fake: Fake,
    rng: Rng,
    model: Model,
    next_tag: u32,
    open: Vec<u32>,
    flushes: Vec<Flush>,
    fua: Vec<(u32, u32, Vec<u32>)>,
    /// What must survive, at least.
    floor: Vec<u32>,
    reads: Vec<(Piece, Ppa, u64)>,
    out: Vec<Piece>,
    refused: u32,
}

fn random_setup(rng: &mut Rng) -> (Geometry, FtlConfig) {
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

impl World {
    fn new(ftl: Ftl, mut ctx: Ctx, rng: Rng) -> World {
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
        }
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
    fn command(&mut self) {
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
                for piece in &self.out {
                    if let Place::Flash { ppa, expected } = piece.place {
                        self.reads.push((*piece, ppa, expected));
                    }
                }
            }
        }
        self.after();
    }
    fn end_read(&mut self) {
        if self.reads.is_empty() {
            return;
        }
        let i = self.rng.below(self.reads.len() as u64) as usize;
        let (piece, ppa, expected) = self.reads.swap_remove(i);
        let got = self.ftl.digest(ppa, piece.lpn, piece.sectors);
        assert!(got == expected || self.lost(ppa, piece.sectors), "{piece:?} holds something else");
        self.ftl.read_done(&mut self.ctx, ppa);
        self.after();
    }
    fn lost(&self, ppa: Ppa, n: u32) -> bool {
        (ppa.0..ppa.0 + n).any(|p| self.ftl.is_lost(Ppa(p)))
    }
    fn step(&mut self) -> bool {
        let stepped = self.fake.step(&mut self.ftl, &mut self.ctx, &mut self.rng);
        self.after();
        stepped
    }
    fn after(&mut self) {
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
    fn settle(&mut self) {
        loop {
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
                "stuck with {} open: free {:?}, {:?}",
                self.open.len(),
                self.ftl.free_lines(),
                self.ftl.counters()
            );
            self.after();
        }
    }
    fn verify(&mut self) {
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
            }
        }
        self.after();
        if self.ftl.counters().lost_sectors == 0 {
            assert_eq!(self.ctx.stamps.wrong().0, 0, "{:?}", self.ctx.stamps.wrong());
        }
    }
    fn run(&mut self, commands: u32, depth: usize) {
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
                    assert!(self.fake.tick(&mut self.ftl, &mut self.ctx), "stuck");
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
    fn pull_the_plug(&self, g: &Geometry, c: &FtlConfig, seed: u64) -> Option<(Ftl, Ctx)> {
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

fn one(seed: u64, faults: Faults, commands: u32) -> Option<(u64, [u64; 7], u32, Counters)> {
    println!("seed {seed}");
    let mut rng = Seed(seed).stream("model");
    let (g, c) = random_setup(&mut rng);
    let bad_share = [0, 0, 20_000_000, 60_000_000][rng.below(4) as usize];
    let mut bad_rng = Seed(seed).stream("bad");
    let mut ftl = Ftl::new(&g, &c, &mut |_, _| bad_rng.chance(bad_share), Seed(seed)).ok()?;
    let mut ctx = ctx(Some(ftl.sectors()));
    if rng.below(2) == 0 {
        ftl.fill(&mut ctx.stamps).unwrap();
        ftl.check_invariants().unwrap();
    }
    let filled = ctx.stamps.newest(Lpn(0)) == 1;
    let sectors = ftl.sectors() as u32;
    let mut w = World::new(ftl, ctx, rng);
    if filled {
        w.model = (0..sectors).map(|l| (l, (1, false))).collect();
    }
    w.fake.faults = faults;
    w.run(commands, 12);
    w.settle();
    w.ftl.check_invariants().unwrap();
    if w.refused == 0 {
        w.verify();
    }
    Some((w.fake.trace, w.fake.by_class, w.refused, *w.ftl.counters()))
}

#[test]
fn random_commands_beside_a_model() {
    let mut ran = 0;
    let mut classes = [0; 7];
    let (mut drains, mut levelled, mut forced, mut sync) = (0, 0, 0, 0);
    for seed in 0..150 {
        if let Some((_, by_class, refused, c)) = one(seed, Faults::default(), 2500) {
            assert_eq!(refused, 0, "seed {seed}");
            ran += 1;
            drains += c.drains;
            levelled += c.lines_levelled;
            forced += c.emeta_forced;
            sync += c.erases_sync;
            classes.iter_mut().zip(by_class).for_each(|(a, b)| *a += b);
        }
    }
    println!("{ran} ran; operations by class {classes:?}");
    println!("drains {drains}, levelled {levelled}, forced {forced}, erases waited for {sync}");
    assert!(drains > 0 && levelled > 0 && sync > 0);
    assert!(ran > 75, "only {ran} configurations were possible");
    assert!(classes[1..].iter().all(|&n| n > 1000), "{classes:?}");
}

#[test]
fn random_commands_with_failures() {
    let mut ran = 0;
    let mut refused = 0;
    for seed in 1000..1150 {
        let rate = [100_000, 1_000_000, 5_000_000][seed as usize % 3];
        let faults = Faults { program: rate, erase: rate, read: 0 };
        if let Some((_, _, r, _)) = one(seed, faults, 2500) {
            ran += 1;
            refused += u32::from(r > 0);
        }
    }
    println!("{ran} ran, {refused} wore out");
    assert!(ran > 75 && refused < ran / 2);
}

#[test]
fn unreadable_sectors_are_counted_and_marked() {
    for seed in 2000..2030 {
        one(seed, Faults { read: 20_000_000, ..Faults::default() }, 2500);
    }
}

#[test]
fn the_same_seed_acts_the_same() {
    for seed in 0..20 {
        let faults = Faults { program: 1_000_000, erase: 1_000_000, read: 1_000_000 };
        assert_eq!(one(seed, faults, 1500), one(seed, faults, 1500), "seed {seed}");
    }
}

#[test]
fn power_may_go_at_any_time() {
    let mut losses = 0;
    for seed in 3000..3080 {
        println!("seed {seed}");
        let mut rng = Seed(seed).stream("model");
        let (g, mut c) = random_setup(&mut rng);
        c.over_provisioning += 10.0;
        let Ok(ftl) = Ftl::new(&g, &c, &mut |_, _| false, Seed(seed)) else { continue };
        let ctx0 = ctx(Some(ftl.sectors()));
        let mut w = World::new(ftl, ctx0, rng);
        w.fake.keep_media(&w.ftl);
        let rate = [0, 1_000_000, 5_000_000][seed as usize % 3];
        w.fake.faults = Faults { program: rate, erase: rate / 4, read: 0 };
        for _ in 0..4 {
            let commands = 200 + w.rng.below(800) as u32;
            w.run(commands, 12);
            if w.refused > 0 {
                break;
            }
            losses += 1;
            // Now.
            let Some((after, now)) = w.pull_the_plug(&g, &c, seed) else { break };
            let model = (0..after.sectors() as u32)
                .map(|l| (l, (now.stamps.newest(Lpn(l)), false)))
                .filter(|(_, m)| m.0 > 0)
                .collect();
            let kept = w.fake.kept.take();
            // A power loss does not heal blocks.
            let faults = w.fake.faults;
            let pages = w.fake.pages();
            let rng = w.rng.clone();
            let floor: Vec<u32> =
                (0..after.sectors()).map(|l| now.stamps.newest(Lpn(l as u32))).collect();
            w = World::new(after, now, rng);
            w.fake.set_pages(pages);
            w.fake.kept = kept;
            w.fake.faults = faults;
            w.model = model;
            w.floor = floor;
            w.verify();
        }
        w.settle();
        w.ftl.check_invariants().unwrap();
    }
    println!("{losses} power losses");
    assert!(losses > 100);
}

/// Programs fail while newer versions of the same sectors are on their way: what is written again
/// must not come back in place of what is newer.
#[test]
fn failures_never_bring_back_old_versions() {
    let mut resubmitted = 0;
    for seed in 4000..4030 {
        println!("seed {seed}");
        // Every other time the drive is full, lines are small, and a freed one is erased at once.
        let full = seed % 2 == 0;
        let g = geometry(2, 8, 60, if full { 8 } else { 32 }, 2);
        let mut c = FtlConfig::new(Placement::Host, if full { 16.0 } else { 50.0 });
        c.max_request_sectors = 16;
        let mut ftl = Ftl::new(&g, &c, &mut |_, _| false, Seed(seed)).unwrap();
        let mut now = ctx(Some(ftl.sectors()));
        let mut kept = None;
        if full {
            ftl.fill(&mut now.stamps).unwrap();
            let mut fake = Fake::new(&ftl);
            fake.keep_media(&ftl);
            kept = fake.kept;
        }
        let sectors = ftl.sectors() as u32;
        let mut w = World::new(ftl, now, Seed(seed).stream("model"));
        w.fake.keep_media(&w.ftl);
        if full {
            w.fake.kept = kept;
            w.model = (0..sectors).map(|l| (l, (1, false))).collect();
            w.floor.fill(1);
        } else {
            w.fake.faults.program = 20_000_000;
        }
        for i in 0..1500 {
            // The first sectors of the fill share a line.
            let (tag, lpn) = (w.next_tag, w.rng.below(if full { 130 } else { 12 }) as u32);
            w.next_tag += 1;
            w.open.push(tag);
            if w.rng.below(if full { 30 } else { 6 }) == 0 {
                let newest = |l: u32| w.ctx.stamps.newest(Lpn(l));
                let stamps = (0..w.ftl.sectors() as u32).map(newest).collect();
                w.flushes.push(Flush { tag, stamps });
                w.ftl.flush(&mut w.ctx, tag);
            } else {
                w.model.entry(lpn).or_default().0 += 1;
                w.ftl.write(&mut w.ctx, tag, Lpn(lpn), 1, false, Source::Host);
            }
            w.after();
            for _ in 0..w.rng.below(3) {
                w.step();
            }
            if w.refused > 0 {
                break;
            }
            if i % 5 == 0 {
                w.pull_the_plug(&g, &c, seed);
            }
        }
        resubmitted += w.ftl.counters().resubmitted_sectors;
        w.settle();
        w.ftl.check_invariants().unwrap();
    }
    assert!(resubmitted > 200, "{resubmitted}");
}
