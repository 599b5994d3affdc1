//! The tree against an ordered map of sectors.

use std::collections::BTreeMap;
use wordline_base::Rng;
use wordline_fssd::{Extent, Full, LOST, Tree};

/// A map of each sector to its place, and the tree beside it.
struct Both {
    seed: u64,
    tree: Tree,
    model: BTreeMap<u32, u32>,
    found: Vec<Extent>,
}

impl Both {
    fn new(seed: u64, node_bytes: u32) -> Both {
        let (model, found) = (BTreeMap::new(), Vec::new());
        Both { seed, tree: Tree::new(node_bytes), model, found }
    }
    /// Takes what was mapped there out of the model, and holds what the tree said of it against that.
    fn gone(&mut self, lpn: u32, sectors: u32, gone: &[Extent]) {
        let seed = self.seed;
        let told: Vec<(u32, u32)> = gone.iter().flat_map(sectors_of).collect();
        let was: Vec<_> = self.model.range(lpn..lpn + sectors).map(|(&l, &p)| (l, p)).collect();
        assert_eq!(told, was, "seed {seed}: what was mapped in {lpn} + {sectors}");
        for (lpn, _) in was {
            self.model.remove(&lpn);
        }
    }
    fn insert(&mut self, e: Extent, most: u32) -> Result<(), Full> {
        let mut gone = Vec::new();
        self.tree
            .insert(e, most, &mut |e| gone.push(e))
            .inspect_err(|_| assert!(gone.is_empty()))?;
        self.gone(e.lpn, e.sectors, &gone);
        self.model.extend(sectors_of(&e));
        Ok(())
    }
    fn remove(&mut self, lpn: u32, sectors: u32, most: u32) -> Result<(), Full> {
        let mut gone = Vec::new();
        self.tree
            .remove(lpn, sectors, most, &mut |e| gone.push(e))
            .inspect_err(|_| assert!(gone.is_empty()))?;
        self.gone(lpn, sectors, &gone);
        Ok(())
    }
    fn agree(&mut self, lpn: u32, sectors: u32) {
        let seed = self.seed;
        self.tree.look_up(lpn, sectors, &mut self.found);
        let found = self.found.iter().flat_map(sectors_of);
        let model = self.model.range(lpn..lpn + sectors).map(|(&l, &p)| (l, p));
        assert!(found.eq(model), "seed {seed}: {lpn} + {sectors}: {:?}", self.found);
    }
    fn check(&self, node_bytes: u32) {
        let (seed, tree) = (self.seed, &self.tree);
        tree.check().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_eq!(tree.bytes(), u64::from(tree.nodes()) * u64::from(node_bytes), "seed {seed}");
        // No level is needed that half-empty nodes would not need.
        let (leaf, inner) = (node_bytes as usize / 4 - 4, node_bytes as usize / 4 - 4);
        let (leaf, inner) = ((leaf / 3 / 2 - 1) as u64, (inner / 2 / 2) as u64);
        let (mut nodes, mut most) = (tree.entries() / leaf, 1);
        while nodes > 1 {
            (nodes, most) = (nodes / inner, most + 1);
        }
        assert!(tree.levels() <= most, "seed {seed}: {} levels, {most} at most", tree.levels());
    }
}

fn sectors_of(e: &Extent) -> impl Iterator<Item = (u32, u32)> + use<> {
    let e = *e;
    (0..e.sectors).map(move |i| (e.lpn + i, if e.place == LOST { LOST } else { e.place + i }))
}

#[test]
fn the_tree_equals_an_ordered_map_after_every_operation() {
    let (mut splits, mut merges, mut deepest) = (0, 0, 0);
    for seed in 0..120 {
        let mut rng = Rng::from_seed(0xB7EE + seed);
        let node_bytes = rng.pick(&[256, 256, 512, 1024]);
        // Some have four levels.
        let large = seed % 30 == 0;
        let (node_bytes, sectors) = match large {
            true => (256, 16_000),
            false => (node_bytes, 20 + rng.below(3000) as u32),
        };
        let mut both = Both::new(seed, node_bytes);
        let (mut at, mut log) = (0, 0u32);
        for _ in 0..if large { 30_000 } else { 0 } {
            let lpn = rng.below(u64::from(sectors)) as u32;
            both.insert(Extent { lpn, sectors: 1, place: log }, u32::MAX).unwrap();
            log += 2;
        }
        deepest = deepest.max(both.tree.levels());
        let removing = rng.pick(&[10, 30, 60]);
        for step in 0..1000 {
            let random = rng.below(u64::from(sectors)) as u32;
            // Half of the time one goes on where the last one ended.
            let lpn = if rng.below(2) == 0 && at < sectors { at } else { random };
            let most = (sectors - lpn).min(rng.pick(&[1, 1, 2, 5, 100, 1000]));
            let n = 1 + rng.below(u64::from(most)) as u32;
            // Now and then most of the map goes.
            if rng.below(200) == 0 {
                both.remove(0, sectors / 8 * 7 + 1, u32::MAX).unwrap();
            } else if rng.below(100) < removing {
                both.remove(lpn, n, u32::MAX).unwrap();
            } else {
                let place = if rng.below(20) == 0 { LOST } else { log };
                both.insert(Extent { lpn, sectors: n, place }, u32::MAX).unwrap();
                log += n + rng.below(2) as u32;
                at = lpn + n;
            }
            both.agree(random, (sectors - random).min(64));
            both.agree(0, sectors);
            both.check(node_bytes);
            assert!(step < 20 || both.tree.work.visited > 0);
        }
        let work = both.tree.work;
        (splits, merges) = (splits + work.splits, merges + work.merges);
    }
    assert!(splits > 1000 && merges > 1000 && deepest >= 4, "{splits} {merges} {deepest}");
}

#[test]
fn more_nodes_than_allowed_are_refused_and_change_nothing() {
    let (mut refused, mut taken) = (0, 0);
    for seed in 0..60 {
        let mut rng = Rng::from_seed(0xF011 + seed);
        let sectors = 4000;
        let mut both = Both::new(seed, 256);
        let most = 1 + rng.below(120) as u32;
        for place in 0..2000 {
            let lpn = rng.below(u64::from(sectors)) as u32;
            let longest = (sectors - lpn).min(rng.pick(&[1, 3, 300]));
            let n = 1 + rng.below(u64::from(longest)) as u32;
            let place = place << 12;
            let done = match rng.below(4) {
                0 => both.remove(lpn, n, most),
                _ => both.insert(Extent { lpn, sectors: n, place }, most),
            };
            (refused, taken) =
                (refused + u32::from(done.is_err()), taken + u32::from(done.is_ok()));
            assert!(both.tree.nodes() <= most.max(1), "seed {seed}");
            both.agree(0, sectors);
            both.check(256);
            // What is there can be overwritten as it is, and taken out.
            let at = rng.below(u64::from(sectors)) as u32;
            both.tree.look_up(at, sectors - at, &mut both.found);
            if let Some(&e) = both.found.get(1) {
                let e = Extent { place: e.lpn << 12, ..e };
                both.insert(e, most).unwrap_or_else(|_| panic!("seed {seed}: {e:?}"));
            }
        }
    }
    assert!(refused > 1000 && taken > 10_000, "{refused} {taken}");
}

/// Splits in half leave nodes between half full and full, on average ln 2; runs leave them full.
#[test]
fn random_insertion_fills_nodes_by_ln_2_and_runs_fill_them() {
    let mut rng = Rng::from_seed(0x1_0693);
    let mut tree = Tree::new(4096);
    let key = |i: u64| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) as u32 & !1;
    let mut fills = Vec::new();
    for i in 0..400_000u64 {
        let e = Extent { lpn: key(rng.next_u64()), sectors: 1, place: i as u32 * 2 };
        tree.insert(e, u32::MAX, &mut |_| {}).unwrap();
        if i > 200_000 && i % 10_000 == 0 {
            fills.push(tree.fill());
        }
    }
    tree.check().unwrap();
    let fill = fills.iter().sum::<f64>() / fills.len() as f64;
    assert!((fill - std::f64::consts::LN_2).abs() < 0.02, "{fill}");

    // One run, and eight beside each other, whose places do not go on.
    for runs in [1, 8] {
        let mut tree = Tree::new(4096);
        for i in 0..200_000u32 {
            let (run, step) = (i % runs, i / runs);
            let e = Extent { lpn: run << 24 | step, sectors: 1, place: i * 2 };
            tree.insert(e, u32::MAX, &mut |_| {}).unwrap();
        }
        tree.check().unwrap();
        assert!(tree.fill() > 0.98, "{runs}: {}", tree.fill());
    }
    // Places that go on make one entry.
    let mut tree = Tree::new(4096);
    for i in 0..10_000 {
        tree.insert(Extent { lpn: 7 + i, sectors: 1, place: i }, u32::MAX, &mut |_| {}).unwrap();
    }
    assert_eq!((tree.entries(), tree.nodes()), (1, 1));
}
