//! Power cuts at any event: what is recovered is what was promised, or newer.

use crate::common::{Drive, Faults, Kind, ctx, geometry};
use std::collections::BTreeMap;
use wordline_base::{Lpn, Rng};
use wordline_fssd::{Fssd, FssdConfig, Holds, LOST};
use wordline_nand::Ppa;
use wordline_translation::{Source, Translation};

/// What reads as nothing.
const NOTHING: u32 = 0;

/// What was done to a sector, oldest first: the version, and by which command.
#[derive(Clone, Default)]
struct History(Vec<(u32, u32)>);

/// What the end of a command promises.
#[derive(Clone, Copy)]
enum Promise {
    /// Itself, if what is acknowledged has crossed the link.
    Staged,
    Itself,
    /// All that came before.
    Before,
}

struct World {
    seed: u64,
    kind: Kind,
    drive: Drive,
    ftl: Fssd,
    sectors: u32,
    histories: Vec<History>,
    /// Commands that are not over, and what their ends promise.
    open: BTreeMap<u32, Promise>,
    /// Commands that are promised by themselves, and the first that is not by a flush.
    promised: std::collections::BTreeSet<u32>,
    flushed: u32,
    /// Commands that failed: they promise nothing.
    failed: std::collections::BTreeSet<u32>,
    next: u32,
}

impl World {
    fn change(&mut self, tag: u32, lpn: u32, n: u32, version: u32) {
        for lpn in lpn..lpn + n {
            self.histories[lpn as usize].0.push((version, tag));
        }
    }
    fn is_promised(&self, tag: u32) -> bool {
        !self.failed.contains(&tag) && (tag < self.flushed || self.promised.contains(&tag))
    }
    /// The versions that a sector may have after a power cut.
    fn allowed(&self, lpn: u32) -> Vec<u32> {
        let h = &self.histories[lpn as usize].0;
        let last = h.iter().rposition(|&(_, tag)| self.is_promised(tag));
        let first = last.map_or(NOTHING, |i| h[i].0);
        let later = h[last.map_or(0, |i| i + 1)..].iter().map(|h| h.0);
        later.chain([first]).collect()
    }
    fn ends(&mut self) {
        for (tag, ok) in std::mem::take(&mut self.drive.ended) {
            let Some(promise) = self.open.remove(&tag) else { panic!("{tag} was not open") };
            match promise {
                _ if !ok => drop(self.failed.insert(tag)),
                Promise::Before => self.flushed = self.flushed.max(tag),
                Promise::Staged if self.kind.config.volatile => {}
                Promise::Staged | Promise::Itself => drop(self.promised.insert(tag)),
            }
        }
    }
    /// Version of each sector that the FTL's map leads to, as flash or buffer hold it.
    fn versions(ftl: &Fssd, drive: &Drive, seed: u64) -> BTreeMap<u32, u32> {
        let mut versions = BTreeMap::new();
        for e in ftl.tree().all() {
            assert_ne!(e.place, LOST, "seed {seed}: {e:?}");
            for (ppa, lpn) in (e.place..).zip(e.lpn..e.end()) {
                let spare = ftl.spare(Ppa(ppa)).or_else(|| drive.media.flash.get(&ppa).cloned());
                let Some(Holds::Data { lpn: held, stamp }) = spare.map(|s| s.holds) else {
                    panic!("seed {seed}: {lpn} is mapped to {ppa}, which holds nothing");
                };
                assert_eq!(held, lpn, "seed {seed}: at {ppa}");
                versions.insert(lpn, stamp);
            }
        }
        versions
    }
}

/// However often the power goes from a drive that is full, and however little is written in between: the collector has
/// room to move to, and no write is refused.
#[test]
fn power_cuts_take_no_space() {
    let mut collected = 0;
    for seed in 0..12 {
        let mut rng = Rng::from_seed(0xC075 + seed);
        let g = geometry(2, 4, 48, 8, 4);
        let config = FssdConfig {
            node_bytes: 256,
            append_points: 1 + seed as u32 % 2,
            volatile: seed % 4 < 2,
            buffer_bytes: 16 * g.unit_bytes(),
            gc_units: rng.pick(&[2, 8, 32]),
            ..FssdConfig::default()
        };
        let kind = Kind { g, config, over_provisioning: 22.0, bad: vec![false; 48 * 4] };
        let (mut drive, mut ftl) = (Drive::new(&kind), kind.make());
        let sectors = ftl.sectors() as u32;
        let mut ctx = ctx(sectors.into());
        ftl.start(&mut ctx);
        let in_order = (0..sectors).step_by(4);
        let mut before: Vec<u32> = in_order.collect();
        before.extend((0..sectors).map(|_| rng.below(sectors.into()) as u32));
        let mut before = before.into_iter();
        let mut tag = 0;
        for cut in 0..150 {
            // All of it and more before the first.
            // Most come so soon that the collector has hardly begun.
            let soon = cut % 10 != 0;
            let writes = match cut {
                0 => before.len() as u64,
                _ if soon => 1,
                _ => 1 + rng.below(12),
            };
            for _ in 0..writes {
                tag += 1;
                let lpn = before.next().unwrap_or_else(|| rng.below(sectors.into()) as u32);
                let n = if cut == 0 { 4 } else { rng.pick(&[1, 1, 4, 40]) }.min(sectors - lpn);
                ftl.write(&mut ctx, tag, Lpn(lpn), n, false, Source::Cache(&vec![tag; n as usize]));
                for _ in 0..rng.below(8) {
                    drive.drain(&mut ftl);
                    drive.step(&mut ftl, &mut ctx, &mut rng);
                }
            }
            if !soon {
                drive.settle(&mut ftl, &mut ctx, &mut rng);
            }
            let what = format!("seed {seed}, cut {cut}, {:?}", ftl.free_segments());
            let ended = std::mem::take(&mut drive.ended);
            assert!(ended.values().all(|ok| *ok), "{what}: a write is refused: {kind:?}");
            collected += ftl.counters().gc_sectors;
            drive.cut(&mut rng);
            ftl = drive.recover(&kind, sectors.into()).0;
            ftl.check_invariants().unwrap_or_else(|e| panic!("{what}: {e}"));
            ftl.start(&mut ctx);
        }
    }
    assert!(collected > 10_000, "{collected}");
}

#[test]
fn a_power_cut_at_any_event_leaves_what_was_promised() {
    let (mut cuts, mut from_checkpoint, mut collected, mut undone) = (0, 0, 0, 0);
    // With the collector on the host.
    let (mut ordered_cuts, mut ordered) = (0, 0);
    for seed in 0..150 {
        let mut kind = Kind::draw(seed);
        kind.config.checkpoint_sectors = Rng::from_seed(seed).pick(&[Some(30), Some(200), None]);
        let mut rng = Rng::from_seed(0xB1AC + seed);
        let mut drive = Drive::new(&kind);
        if rng.below(3) == 0 {
            drive.faults =
                Faults { program: 5_000_000, erase: 5_000_000, stage: 20_000_000, ..drive.faults };
        }
        let mut ftl = kind.make();
        let sectors = ftl.sectors() as u32;
        let mut ctx = ctx(sectors.into());
        ftl.start(&mut ctx);
        let histories = vec![History::default(); sectors as usize];
        let (open, promised) = (BTreeMap::new(), Default::default());
        let mut w = World {
            seed,
            kind,
            drive,
            ftl,
            sectors,
            histories,
            open,
            promised,
            flushed: 0,
            failed: Default::default(),
            next: 1,
        };
        for _ in 0..8 {
            let hot = 1 + rng.below(u64::from(w.sectors)) as u32;
            let most = rng.pick(&[0, 20, 1200, 1200]);
            for _ in 0..rng.below(most + 1) {
                let tag = w.next;
                w.next += 1;
                let lpn = rng.below(u64::from(hot)) as u32;
                let most = rng.pick(&[1, 1, 4, 40]).min(w.sectors - lpn);
                let n = 1 + rng.below(u64::from(most)) as u32;
                match rng.below(20) {
                    0..16 => {
                        let fua = rng.below(20) == 0;
                        w.open.insert(tag, if fua { Promise::Itself } else { Promise::Staged });
                        w.change(tag, lpn, n, tag);
                        let stamps = vec![tag; n as usize];
                        w.ftl.write(&mut ctx, tag, Lpn(lpn), n, fua, Source::Cache(&stamps));
                    }
                    16..19 => {
                        w.open.insert(tag, Promise::Staged);
                        w.change(tag, lpn, n, NOTHING);
                        w.ftl.trim(&mut ctx, tag, Lpn(lpn), n);
                    }
                    _ => {
                        w.open.insert(tag, Promise::Before);
                        w.ftl.flush(&mut ctx, tag);
                    }
                }
                for _ in 0..rng.below(8) {
                    w.drive.drain(&mut w.ftl);
                    w.drive.step(&mut w.ftl, &mut ctx, &mut rng);
                }
                w.drive.drain(&mut w.ftl);
                w.ends();
            }
            // Now and then nothing is on its way.
            let still = rng.below(4) == 0;
            if still {
                w.drive.settle(&mut w.ftl, &mut ctx, &mut rng);
                w.ends();
            }
            let what = format!("seed {}, cut {cuts}, {:?}", w.seed, w.kind);
            w.ftl.check_invariants().unwrap_or_else(|e| panic!("{what}: {e}"));
            let live = World::versions(&w.ftl, &w.drive, w.seed);
            collected += w.ftl.counters().gc_sectors;
            if w.drive.host.is_some() {
                ordered_cuts += 1;
                ordered += w.ftl.counters().gc_sectors;
            }
            w.drive.cut(&mut rng);
            // Recovery writes nothing: one that the power cuts begins anew from the same flash.
            let (ftl, report) = w.drive.recover(&w.kind, w.sectors.into());
            let (again, _) = w.drive.recover(&w.kind, w.sectors.into());
            assert!(again.tree().all().eq(ftl.tree().all()), "{what}: it differs the second time");
            ftl.check_invariants().unwrap_or_else(|e| panic!("{what}: {e}"));
            let found = World::versions(&ftl, &w.drive, w.seed);
            if still && !w.kind.config.volatile {
                assert!(found == live, "{what}: all was staged");
            }
            undone += u32::from(found != live);
            for lpn in 0..w.sectors {
                let version = found.get(&lpn).copied().unwrap_or(NOTHING);
                let allowed = w.allowed(lpn);
                assert!(
                    allowed.contains(&version),
                    "{what}: sector {lpn} has {version}, not one of {allowed:?}: {:?}, {report:?}",
                    w.histories[lpn as usize].0,
                );
                // From here on that is what is there.
                w.histories[lpn as usize].0 = vec![(version, 0)];
            }
            cuts += 1;
            from_checkpoint += u32::from(report.checkpoint.is_some());
            (w.open, w.flushed) = (BTreeMap::new(), 1);
            w.promised.clear();
            w.ftl = ftl;
            w.ftl.start(&mut ctx);
        }
    }
    assert!(
        cuts >= 1000 && from_checkpoint > 300 && undone > 100,
        "{cuts} {from_checkpoint} {undone}"
    );
    assert!(collected > 10_000, "{collected}");
    assert!(ordered_cuts > 300 && ordered > 3000, "{ordered_cuts} {ordered}");
}
