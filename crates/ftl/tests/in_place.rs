//! Media written in place, against what a drive must be: a map from sectors to their newest version.

use crate::common::{ctx, geometry};
use std::collections::{BTreeMap, VecDeque};
use wordline_base::{Ctx, IdVec, Lpn, Rng};
use wordline_ftl::{
    Action, FtlConfig, InPlace, LOST, Place, Placement, Source, Translation, WindowLimits,
    steady_by_overwriting,
};
use wordline_nand::{Geometry, LunId, Outcome, Ppa};

const KINDS: [(u32, u32, u32, u32); 4] =
    [(4, 16, 16, 1), (2, 16, 16, 2), (8, 16, 8, 4), (3, 20, 16, 3)];

fn drive(seed: u64, bad: u64) -> (Geometry, InPlace) {
    let mut rng = Rng::from_seed(seed);
    let (luns, lines, pages, unit) = rng.pick(&KINDS);
    let g = Geometry { in_place: true, ..geometry(luns, luns, lines, pages, unit) };
    let mut c = FtlConfig::new(Placement::Device, 40.0);
    c.buffer_sectors = Some(128);
    c.back_threshold = Some(rng.below(64) as u32);
    let ftl = InPlace::new(&g, &c, &mut |_, _| rng.chance(bad));
    (g, ftl.unwrap_or_else(|e| panic!("seed {seed}: {e:?}")))
}

/// A medium that ends the operations of each LUN in their order, and fails some.
struct Fake {
    g: Geometry,
    /// The operation, and whether it is a program.
    queues: IdVec<LunId, VecDeque<(u32, bool)>>,
    done: BTreeMap<u32, bool>,
    /// Failures per 10^9 programs and reads.
    failing: (u64, u64),
}

impl Fake {
    fn new(g: &Geometry) -> Fake {
        let queues = IdVec::filled(VecDeque::new(), g.luns);
        Fake { g: *g, queues, done: BTreeMap::new(), failing: (0, 0) }
    }
    fn drain(&mut self, ftl: &mut InPlace) {
        while let Some(action) = ftl.poll() {
            let unit = self.g.sectors_per_unit;
            let (op, ppa, program) = match action {
                Action::Complete { tag, ok } => {
                    assert!(self.done.insert(tag, ok).is_none(), "tag {tag} completed twice");
                    continue;
                }
                Action::Read { op, ppa, sectors, .. } => {
                    assert!(sectors > 0 && ppa.0 % unit + sectors <= unit, "a read crosses units");
                    (op, ppa, false)
                }
                Action::Program { op, ppa, .. } => (op, ppa, true),
                Action::Erase { .. }
                | Action::Sum { .. }
                | Action::Stage { .. }
                | Action::Refuse { .. } => {
                    panic!("{action:?}")
                }
            };
            self.queues[self.g.lun_of(ppa)].push_back((op, program));
        }
    }
    /// Ends the oldest operation of a LUN drawn at random. False if there is none.
    fn step(&mut self, ftl: &mut InPlace, ctx: &mut Ctx, rng: &mut Rng) -> bool {
        let luns = 0..self.g.luns;
        let busy: Vec<LunId> = luns.filter(|&lun| !self.queues[lun].is_empty()).collect();
        if busy.is_empty() {
            return false;
        }
        let lun = rng.pick(&busy);
        let (op, program) = self.queues[lun].pop_front().expect("an operation");
        let failed = rng.chance(if program { self.failing.0 } else { self.failing.1 });
        ftl.on_done(ctx, op, if failed { Outcome::Failed } else { Outcome::Ok });
        true
    }
    fn settle(&mut self, ftl: &mut InPlace, ctx: &mut Ctx, rng: &mut Rng) {
        self.drain(ftl);
        while self.step(ftl, ctx, rng) {
            self.drain(ftl);
        }
    }
}

/// A read of flash that has not ended, and what it must find.
struct Reading {
    ppa: Ppa,
    lpn: Lpn,
    sectors: u32,
    expected: u64,
}

/// What the medium holds: by sector of it the logical one and its version.
struct Medium(BTreeMap<u32, (u32, u32)>);

impl Medium {
    fn look(&mut self, ftl: &InPlace, g: &Geometry) {
        for ppa in 0..g.sectors() as u32 {
            if let Some((lpn, stamp)) = ftl.oob(Ppa(ppa)) {
                self.0.insert(ppa, (lpn.0, stamp));
            }
        }
    }
    /// The newest version of each sector that is anywhere.
    fn newest(&self) -> BTreeMap<u32, u32> {
        let mut newest = BTreeMap::new();
        for &(lpn, stamp) in self.0.values() {
            let at: &mut u32 = newest.entry(lpn).or_default();
            *at = (stamp & !LOST).max(*at);
        }
        newest
    }
}

/// The versions of the sectors that hold something.
fn newest(ftl: &mut InPlace, ctx: &mut Ctx, sectors: std::ops::Range<u32>) -> Vec<(u32, u32)> {
    let (mut pieces, mut out) = (Vec::new(), Vec::new());
    for lpn in sectors {
        pieces.clear();
        ftl.read(ctx, Lpn(lpn), 1, &mut pieces);
        if let Place::Flash { ppa, .. } = pieces[0].place {
            ftl.read_done(ctx, ppa, 1);
        }
        if pieces[0].place != Place::Unmapped {
            out.push((lpn, ctx.stamps.newest(Lpn(lpn))));
        }
    }
    out
}

#[test]
fn reads_find_the_newest_and_flushes_what_was_written() {
    let (mut flushed, mut moved, mut lost) = (0, 0, 0);
    for seed in 0..150 {
        let mut rng = Rng::from_seed(0x1472 + seed);
        let bad = if rng.below(2) > 0 { 30_000_000 } else { 0 };
        let (g, mut ftl) = drive(seed, bad);
        let sectors = ftl.sectors() as u32;
        let mut ctx: Ctx = ctx(Some(u64::from(sectors)));
        if rng.below(2) > 0 {
            ftl.fill(&mut ctx.stamps).unwrap();
        }
        let mut fake = Fake::new(&g);
        fake.failing.0 = rng.pick(&[0, 20_000_000, 300_000_000]);
        fake.failing.1 = rng.pick(&[0, 10_000_000]);
        let faulty = fake.failing != (0, 0);
        ftl.start(&mut ctx);
        let hot = 1 + rng.below(u64::from(sectors)) as u32;
        let mut reading: Vec<Reading> = Vec::new();
        // The last trim of each sector.
        let mut trims: IdVec<u32, u32> = IdVec::filled(0, sectors);
        // Trims that wait for a write.
        let mut late: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        let (mut tags, mut pieces) = (BTreeMap::new(), Vec::new());
        for tag in 0..600u32 {
            let lpn = rng.below(u64::from(hot)) as u32;
            let n = 1 + rng.below(u64::from((sectors - lpn).min(9))) as u32;
            match rng.below(10) {
                0..5 => {
                    let fua = rng.below(8) == 0;
                    ftl.write(&mut ctx, tag, Lpn(lpn), n, fua, Source::Host);
                    tags.insert(tag, None);
                    if fua {
                        let mut now = newest(&mut ftl, &mut ctx, lpn..lpn + n);
                        now.retain(|_| late.is_empty());
                        tags.insert(tag, Some(now));
                    }
                }
                5..8 => {
                    pieces.clear();
                    ftl.read(&mut ctx, Lpn(lpn), n, &mut pieces);
                    for p in &pieces {
                        if let Place::Flash { ppa, expected } = p.place {
                            let (lpn, sectors) = (p.lpn, p.sectors);
                            reading.push(Reading { ppa, lpn, sectors, expected });
                        }
                    }
                }
                8 => {
                    ftl.trim(&mut ctx, tag, Lpn(lpn), n);
                    (lpn..lpn + n).for_each(|lpn| trims[lpn] = tag);
                    tags.insert(tag, None);
                    late.insert(tag, (lpn, n));
                }
                _ => {
                    let mut now = newest(&mut ftl, &mut ctx, 0..sectors);
                    let late = |l: u32| late.values().any(|&(at, n)| (at..at + n).contains(&l));
                    now.retain(|&(lpn, _)| !late(lpn));
                    ftl.flush(&mut ctx, tag);
                    tags.insert(tag, Some(now));
                }
            }
            for _ in 0..rng.below(6) {
                fake.drain(&mut ftl);
                fake.step(&mut ftl, &mut ctx, &mut rng);
            }
            // Reads end in any order, as some are issued late.
            while !reading.is_empty() && rng.below(3) > 0 {
                let r = reading.swap_remove(rng.below(reading.len() as u64) as usize);
                if !ftl.has_lost(r.ppa, r.sectors) {
                    let got = ftl.digest(r.ppa, r.lpn, r.sectors);
                    assert_eq!(got, r.expected, "seed {seed}: {:?} + {}", r.lpn, r.sectors);
                }
                ftl.read_done(&mut ctx, r.ppa, r.sectors);
            }
            fake.drain(&mut ftl);
            let mut there = None;
            for (tag, ok) in std::mem::take(&mut fake.done) {
                late.remove(&tag);
                let Some(Some(before)) = tags.remove(&tag) else { continue };
                assert!(ok || faulty, "seed {seed}: nothing failed");
                if !ok {
                    continue;
                }
                flushed += 1;
                // Power may go now: what was written before is there, or was trimmed since.
                let there = there.get_or_insert_with(|| {
                    let mut medium = Medium(BTreeMap::new());
                    medium.look(&ftl, &g);
                    medium.newest()
                });
                for (lpn, stamp) in before {
                    let there = there.get(&lpn).copied().unwrap_or(0);
                    let trimmed = trims[lpn] > tag;
                    assert!(there >= stamp || trimmed, "seed {seed}: {lpn} {there} {stamp}");
                }
            }
        }
        for r in reading {
            ftl.read_done(&mut ctx, r.ppa, r.sectors);
        }
        fake.settle(&mut ftl, &mut ctx, &mut rng);
        ftl.check_invariants().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert!(ftl.is_quiet(), "seed {seed}");
        let c = *ftl.counters();
        let written = c.user_sectors + c.pad_sectors + c.resubmitted_sectors;
        assert_eq!(c.programmed_sectors, written, "seed {seed}");
        assert_eq!((c.gc_sectors, c.erases, c.lines_opened), (0, 0, 0), "seed {seed}");
        assert!(g.sectors_per_unit > 1 || c.pad_sectors == 0, "seed {seed}");
        moved += c.resubmitted_sectors;
        lost += c.lost_sectors;
        // Saved and loaded, everything is where it was, and in the same state.
        let mut file = Vec::new();
        ftl.save(&mut file).unwrap();
        let mut loaded = InPlace::load(&g, &config_of(seed), &mut &file[..]).unwrap();
        let mut again = Vec::new();
        loaded.save(&mut again).unwrap();
        assert_eq!(file, again, "seed {seed}");
        assert_eq!(loaded.wear(), ftl.wear(), "seed {seed}");
        loaded.adopt_stamps(&mut wordline_base::Stamps::new(u64::from(sectors)));
        loaded.check_invariants().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        for _ in 0..20 {
            let (at, mut bad) = (rng.below(file.len() as u64) as usize, file.clone());
            match rng.below(2) {
                0 => bad.truncate(at),
                _ => bad[at] ^= 1 << rng.below(8),
            }
            let taken = InPlace::load(&g, &config_of(seed), &mut &bad[..]);
            assert!(taken.is_err(), "seed {seed}: damage at {at} was accepted");
        }
    }
    assert!(flushed > 1000 && moved > 0 && lost > 0, "{flushed} {moved} {lost}");
}

fn config_of(seed: u64) -> FtlConfig {
    let mut rng = Rng::from_seed(seed);
    rng.below(4);
    let mut c = FtlConfig::new(Placement::Device, 40.0);
    c.buffer_sectors = Some(128);
    c.back_threshold = Some(rng.below(64) as u32);
    c
}

/// Aligned writes of whole units: each sector is programmed once, in time and in ageing.
#[test]
fn aligned_writes_are_not_amplified() {
    for seed in 0..20 {
        let (g, mut ftl) = drive(seed, 0);
        let sectors = ftl.sectors() as u32;
        let mut ctx = ctx(Some(u64::from(sectors)));
        let mut rng = Rng::from_seed(seed);
        ftl.fill(&mut ctx.stamps).unwrap();
        let mut fake = Fake::new(&g);
        ftl.start(&mut ctx);
        let (before, unit) = (*ftl.counters(), g.sectors_per_unit);
        for tag in 0..500 {
            let lpn = rng.below(u64::from(sectors / unit)) as u32 * unit;
            ftl.write(&mut ctx, tag, Lpn(lpn), unit, true, Source::Host);
            fake.settle(&mut ftl, &mut ctx, &mut rng);
            assert_eq!(fake.done.remove(&tag), Some(true), "seed {seed}");
        }
        let c = ftl.counters();
        let user = c.user_sectors - before.user_sectors;
        assert_eq!(c.programmed_sectors - before.programmed_sectors, user, "seed {seed}");
        assert_eq!(user, 500 * u64::from(unit), "seed {seed}");
        assert_eq!(c.meta_read_sectors, 0, "seed {seed}");
        // Writes are counted where they were.
        let wear = ftl.wear();
        let units = u64::from(sectors).div_ceil(u64::from(unit));
        assert_eq!((wear.mean * units as f64).round() as u64, units + 500, "seed {seed}");
        let mut next = |lpns: &mut [u32]| {
            lpns.iter_mut().for_each(|lpn| *lpn = rng.below(u64::from(sectors)) as u32);
            Ok(())
        };
        let report =
            steady_by_overwriting(&mut ftl, &mut ctx.stamps, &mut next, WindowLimits::default())
                .unwrap();
        assert!(report.steady && report.windows.iter().all(|&wa| wa == 1.0), "seed {seed}");
        ftl.check_invariants().unwrap();
    }
}

#[test]
fn what_cannot_be_in_place_is_refused() {
    let g = Geometry { in_place: true, ..geometry(4, 4, 16, 16, 1) };
    let refused = |c: &FtlConfig| match InPlace::new(&g, c, &mut |_, _| false) {
        Ok(_) => panic!("accepted"),
        Err(bad) => {
            assert!(bad.why.contains("nand.in_place"), "{bad}");
            bad.key
        }
    };
    assert_eq!(refused(&FtlConfig::new(Placement::Host, 40.0)), "placement");
    let mut c = FtlConfig::new(Placement::Device, 40.0);
    c.stride = 4;
    assert_eq!(refused(&c), "stride");
}
