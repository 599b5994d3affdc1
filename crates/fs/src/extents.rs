//! Where a file's pages are: its extents, written or not, and the tree of blocks that holds them.
//!
//! The root is in the inode. ext4 keeps 4 extents there, XFS as many as the inode has room for; more go to
//! leaves, and the root names those, or blocks that name them (fs/ext4/extents.c, fs/xfs/libxfs/xfs_bmap_btree.c).

use std::collections::BTreeMap;
use std::ops::Bound;

/// Blocks of a file that stand together on the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// First block within the file.
    pub logical: u32,
    /// First block on the drive.
    pub block: u32,
    /// Blocks in a row.
    pub len: u32,
    /// It has blocks and no data: it reads as zeros.
    pub unwritten: bool,
}

impl Extent {
    pub fn end(&self) -> u32 {
        self.logical + self.len
    }
    /// What follows it in the file follows it on the drive too, in the same state.
    fn continues_with(&self, next: &Extent) -> bool {
        self.unwritten == next.unwritten
            && self.end() == next.logical
            && self.block + self.len == next.block
    }
}

/// What a tree of extents is like on the drive.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Extents that the inode has room for.
    pub inside: usize,
    /// Blocks that the inode names, if it has no room for all extents.
    pub root: usize,
    /// Entries of a block.
    pub per_block: u32,
    /// Blocks of the longest written extent.
    pub longest: u32,
    /// Blocks of the longest unwritten one.
    pub longest_unwritten: u32,
    /// A full block gives half of its entries to a new one (XFS), or all behind the new entry (ext4).
    pub halves: bool,
}

/// Blocks of a tree that a change touched.
#[derive(Default, Debug)]
pub struct Touched {
    /// The inode.
    pub root: bool,
    pub blocks: Vec<u64>,
    /// They are of the tree no longer.
    pub freed: Vec<u64>,
}

/// A change under way.
pub struct Change<'a> {
    pub shape: Shape,
    pub new_block: &'a mut dyn FnMut() -> Option<u64>,
    pub touched: Touched,
}

impl Change<'_> {
    /// Another block for the tree. The inode counts its blocks.
    fn grow(&mut self) -> Option<u64> {
        let block = (self.new_block)()?;
        self.touched.root = true;
        self.touched.blocks.push(block);
        Some(block)
    }
    fn joins(&self, a: &Extent, b: &Extent) -> bool {
        let most = if a.unwritten { self.shape.longest_unwritten } else { self.shape.longest };
        a.continues_with(b) && a.len + b.len <= most
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    block: u64,
    used: u32,
}

/// Extents by their place in the file. Neighbours in one leaf that follow one another on the drive are one.
#[derive(Clone, Default, Debug)]
pub struct Extents {
    map: BTreeMap<u32, Extent>,
    /// Blocks of the tree by the first entry they hold, leaves first.
    levels: Vec<BTreeMap<u32, Node>>,
}

impl Extents {
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.map.len()
    }
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = &Extent> {
        self.map.values()
    }
    /// Blocks of the file.
    #[cfg(test)]
    pub fn blocks(&self) -> u64 {
        self.map.values().map(|e| u64::from(e.len)).sum()
    }
    /// Blocks of the tree beyond the inode.
    pub fn tree(&self) -> impl Iterator<Item = u64> {
        self.levels.iter().flat_map(|level| level.values().map(|node| node.block))
    }

    /// The extent that block `logical` is in.
    pub fn at(&self, logical: u64) -> Option<Extent> {
        let (_, e) = self.map.range(..=logical as u32).next_back()?;
        (logical < u64::from(e.end())).then_some(*e)
    }

    /// Where block `logical` stands, and how many follow it there.
    pub fn find(&self, logical: u64) -> Option<(u64, u32)> {
        let e = self.at(logical)?;
        let into = logical as u32 - e.logical;
        Some((u64::from(e.block + into), e.len - into))
    }

    /// The same of a block with data; none of one that reads as zeros.
    pub fn written(&self, logical: u64) -> Option<(u64, u32)> {
        let e = self.at(logical).filter(|e| !e.unwritten)?;
        let into = logical as u32 - e.logical;
        Some((u64::from(e.block + into), e.len - into))
    }

    /// The first unwritten blocks from `from` on and before `end`: where they begin and end.
    pub fn unwritten(&self, from: u64, end: u64) -> Option<(u64, u64)> {
        let before = self.map.range(..=from as u32).next_back().map_or(0, |(&key, _)| key);
        let mut behind = self.map.range(before..).map(|(_, e)| e);
        let e = behind.find(|e| e.unwritten && u64::from(e.end()) > from)?;
        let (first, last) = (from.max(e.logical.into()), end.min(e.end().into()));
        (first < last).then_some((first, last))
    }

    /// Blocks from `logical` on that are in one state: in one extent, or without a place. `most` at most.
    pub fn run(&self, logical: u64, most: u64) -> u64 {
        if let Some((_, run)) = self.find(logical) {
            return most.min(run.into());
        }
        let above = (Bound::Excluded(logical as u32), Bound::Unbounded);
        match self.map.range(above).next() {
            Some((&next, _)) => (u64::from(next) - logical).min(most),
            None => most,
        }
    }

    /// Where the block before `logical` would continue.
    pub fn goal(&self, logical: u64) -> Option<u64> {
        let (_, e) = self.map.range(..=logical as u32).next_back()?;
        Some(u64::from(e.block) + logical - u64::from(e.logical))
    }

    /// New blocks. With `join` they become one with their neighbours.
    pub fn insert(&mut self, new: Extent, join: bool, change: &mut Change) {
        let before = self.map.range(..new.logical).next_back().map(|(_, e)| *e);
        debug_assert!(before.is_none_or(|e| e.end() <= new.logical), "{before:?} overlaps {new:?}");
        let after = self.map.range(new.logical..).next().map(|(_, e)| *e);
        debug_assert!(after.is_none_or(|e| new.end() <= e.logical), "{new:?} overlaps {after:?}");
        if join && let Some(mut e) = before.filter(|e| change.joins(e, &new)) {
            e.len += new.len;
            self.map.insert(e.logical, e);
            self.touch(e.logical, change);
            self.join_next(e.logical, change);
        } else if join
            && let Some(e) = after.filter(|e| change.joins(&new, e))
            && self.node_of(0, new.logical) == self.node_of(0, e.logical)
        {
            // In one leaf: the key of the next one's first extent would be below that of its leaf.
            self.begin_at(e, new.logical);
            self.touch(new.logical, change);
        } else {
            self.map.insert(new.logical, new);
            self.add(new.logical, change);
        }
    }

    /// Blocks `first` to `end` of one extent become an extent by themselves.
    pub fn separate(&mut self, first: u32, end: u32, change: &mut Change) {
        self.split(end, change);
        self.split(first, change);
        self.touch(first, change);
    }

    /// The written neighbour that takes blocks `first` to `end` of an unwritten extent, so that the tree needs
    /// no other entry (the fast path of ext4_ext_convert_to_initialized).
    pub fn neighbour(&self, first: u32, end: u32, shape: &Shape) -> Option<Extent> {
        let e = self.at(first.into())?;
        let follows = |a: &Extent, b: &Extent| a.end() == b.logical && a.block + a.len == b.block;
        let before = self.map.range(..e.logical).next_back().map(|(_, n)| *n);
        let before = before.filter(|n| first == e.logical && end < e.end() && follows(n, &e));
        let after = self.map.get(&e.end()).copied();
        let after = after.filter(|n| first > e.logical && end == e.end() && follows(&e, n));
        let (len, leaf) = (end - first, self.node_of(0, first));
        before.or(after).filter(|n| {
            !n.unwritten && n.len + len < shape.longest && self.node_of(0, n.logical) == leaf
        })
    }

    /// Blocks `first` to `end` of one unwritten extent are written.
    pub fn convert(&mut self, first: u32, end: u32, change: &mut Change) {
        let Some(e) = self.at(first.into()) else { return };
        debug_assert!(e.unwritten && end <= e.end(), "{first} to {end} of {e:?}");
        if let Some(n) = self.neighbour(first, end, &change.shape) {
            if n.logical < first {
                self.begin_at(e, end);
                self.map.insert(n.logical, Extent { len: n.len + end - first, ..n });
            } else {
                self.map.insert(e.logical, Extent { len: first - e.logical, ..e });
                self.begin_at(n, first);
            }
            return self.touch(first, change);
        }
        self.split(end, change);
        self.split(first, change);
        if let Some(e) = self.map.get_mut(&first) {
            e.unwritten = false;
        }
        self.touch(first, change);
        self.join_next(first, change);
        if let Some((&before, _)) = self.map.range(..first).next_back() {
            self.join_next(before, change);
        }
    }

    /// Where the last `n` extents begin that have blocks from `logical` on.
    pub fn last(&self, n: usize, logical: u64) -> u64 {
        let last = self.map.values().rev().take(n).take_while(|e| u64::from(e.end()) > logical);
        last.last().map_or(logical, |e| logical.max(e.logical.into()))
    }
    /// There are blocks from `logical` on.
    pub fn reaches(&self, logical: u64) -> bool {
        self.map.last_key_value().is_some_and(|(_, e)| u64::from(e.end()) > logical)
    }

    /// Takes away what lies from block `logical` on.
    pub fn cut(&mut self, logical: u64, change: &mut Change) -> Vec<Extent> {
        let logical = logical.min(u32::MAX.into()) as u32;
        let mut gone: Vec<Extent> = self.map.split_off(&logical).into_values().collect();
        if let Some((_, e)) = self.map.iter_mut().next_back()
            && e.end() > logical
        {
            let into = logical - e.logical;
            let (block, len) = (e.block + into, e.len - into);
            gone.push(Extent { logical, block, len, ..*e });
            e.len = into;
        }
        if gone.is_empty() {
            return gone;
        }
        // Blocks of the tree with nothing left in them.
        for level in 0..self.levels.len() {
            while let Some((&key, &node)) = self.levels[level].last_key_value() {
                let used = self.entries(level, key).len() as u32;
                if used > 0 {
                    if node.used != used {
                        change.touched.blocks.push(node.block);
                    }
                    self.levels[level].insert(key, Node { used, ..node });
                    break;
                }
                self.levels[level].remove(&key);
                change.touched.freed.push(node.block);
            }
        }
        self.levels.retain(|level| !level.is_empty());
        if change.shape.halves {
            self.lean(change);
        }
        change.touched.root = true;
        gone
    }

    /// A tree that lost its end (xfs_btree_delrec, xfs_btree_kill_iroot, xfs_bmap_btree_to_extents): the last block
    /// of a level that is less than half full takes entries of its neighbour, or is joined with it, and the
    /// inode takes what it has room for.
    fn lean(&mut self, change: &mut Change) {
        let least = change.shape.per_block / 2;
        for level in 0..self.levels.len() {
            while let Some((&key, &node)) = self.levels[level].last_key_value() {
                let used = self.entries(level, key).len() as u32;
                if used == 0 {
                    self.levels[level].remove(&key);
                    change.touched.freed.push(node.block);
                    continue;
                }
                self.levels[level].insert(key, Node { used, ..node });
                let left = self.levels[level].range(..key).next_back().map(|(&k, &n)| (k, n));
                let Some((left_key, left)) = left.filter(|_| used < least) else { break };
                self.levels[level].remove(&key);
                let all = left.used + used;
                change.touched.blocks.push(left.block);
                if all < 2 * least {
                    self.levels[level].insert(left_key, Node { used: all, ..left });
                    change.touched.freed.push(node.block);
                    continue;
                }
                let first = self.entries(level, left_key)[(all - least) as usize];
                self.levels[level].insert(left_key, Node { used: all - least, ..left });
                self.levels[level].insert(first, Node { used: least, ..node });
                // Blocks above that begin with it.
                for above in &mut self.levels[level + 1..] {
                    let Some(node) = above.remove(&key) else { break };
                    change.touched.blocks.push(node.block);
                    above.insert(first, node);
                }
                break;
            }
        }
        while let Some(top) = self.levels.last()
            && top.len() == 1
        {
            let room = if self.levels.len() > 1 { change.shape.root } else { change.shape.inside };
            let Some(node) = top.values().next().filter(|n| n.used as usize <= room) else { break };
            change.touched.freed.push(node.block);
            self.levels.pop();
        }
        let Touched { blocks, freed, .. } = &mut change.touched;
        blocks.retain(|block| !freed.contains(block));
    }

    /// An extent begins at `first` from now on, with the same end.
    fn begin_at(&mut self, mut e: Extent, first: u32) {
        self.map.remove(&e.logical);
        (e.block, e.len) = (e.block + first - e.logical, e.end() - first);
        e.logical = first;
        self.map.insert(first, e);
    }

    /// An extent ends, and another begins, at block `at`.
    fn split(&mut self, at: u32, change: &mut Change) {
        let Some((_, e)) = self.map.range_mut(..at).next_back() else { return };
        if e.end() <= at {
            return;
        }
        let into = at - e.logical;
        let second = Extent { logical: at, block: e.block + into, len: e.len - into, ..*e };
        e.len = into;
        self.map.insert(at, second);
        self.touch(at, change);
        self.add(at, change);
    }

    /// An extent and the next become one, if they can.
    fn join_next(&mut self, key: u32, change: &mut Change) {
        let mut behind = self.map.range(key..).map(|(_, e)| *e);
        let (Some(a), Some(b)) = (behind.next(), behind.next()) else { return };
        if !change.joins(&a, &b) || self.node_of(0, a.logical) != self.node_of(0, b.logical) {
            return;
        }
        self.map.remove(&b.logical);
        self.map.insert(a.logical, Extent { len: a.len + b.len, ..a });
        let Some(key) = self.node_of(0, a.logical) else { return };
        let (alone, inside) = (self.levels.len() == 1, change.shape.inside);
        let leaves = &mut self.levels[0];
        let Some(leaf) = leaves.get_mut(&key) else { return };
        leaf.used -= 1;
        let (block, used) = (leaf.block, leaf.used as usize);
        if alone && leaves.len() == 1 && used <= inside {
            // ext4_ext_try_to_merge_up, xfs_bmap_btree_to_extents: the inode has room for them again.
            self.levels.clear();
            change.touched.blocks.retain(|&b| b != block);
            change.touched.freed.push(block);
            change.touched.root = true;
        }
    }

    /// The block of a level that `key` belongs in, by its first entry.
    fn node_of(&self, level: usize, key: u32) -> Option<u32> {
        let nodes = self.levels.get(level)?;
        let (&first, _) = nodes.range(..=key).next_back().or_else(|| nodes.first_key_value())?;
        Some(first)
    }

    /// What a block of the tree holds.
    fn entries(&self, level: usize, node: u32) -> Vec<u32> {
        let nodes = &self.levels[level];
        let first = nodes.first_key_value().is_some_and(|(&first, _)| first == node);
        let from = if first { Bound::Unbounded } else { Bound::Included(node) };
        let above = (Bound::Excluded(node), Bound::Unbounded);
        let to = nodes.range(above).next().map_or(Bound::Unbounded, |(&n, _)| Bound::Excluded(n));
        match level {
            0 => self.map.range((from, to)).map(|(&key, _)| key).collect(),
            _ => self.levels[level - 1].range((from, to)).map(|(&key, _)| key).collect(),
        }
    }

    /// The leaf of an extent has changed.
    fn touch(&self, key: u32, change: &mut Change) {
        match self.node_of(0, key) {
            Some(leaf) => change.touched.blocks.push(self.levels[0][&leaf].block),
            None => change.touched.root = true,
        }
    }

    /// A new entry is counted in its leaf, which may be too full for it.
    fn add(&mut self, key: u32, change: &mut Change) {
        self.touch(key, change);
        let all = self.map.len();
        let Some(leaf) = self.node_of(0, key) else {
            if all > change.shape.inside
                && let Some(block) = change.grow()
            {
                self.levels.push(BTreeMap::from([(0, Node { block, used: all as u32 })]));
            }
            return;
        };
        self.count(0, leaf, key, change);
    }

    fn count(&mut self, level: usize, node: u32, key: u32, change: &mut Change) {
        let Some(n) = self.levels[level].get_mut(&node) else { return };
        n.used += 1;
        // On a full drive it stays too full.
        if n.used <= change.shape.per_block {
            return;
        }
        let Some(block) = change.grow() else { return };
        let keys = self.entries(level, node);
        let new = keys.partition_point(|&k| k <= key);
        let at = if change.shape.halves { keys.len() / 2 } else { new.min(keys.len() - 1) };
        let moved = (keys.len() - at) as u32;
        if let Some(n) = self.levels[level].get_mut(&node) {
            n.used -= moved;
        }
        self.levels[level].insert(keys[at], Node { block, used: moved });
        if let Some(above) = self.node_of(level + 1, keys[at]) {
            change.touched.blocks.push(self.levels[level + 1][&above].block);
            return self.count(level + 1, above, keys[at], change);
        }
        let named = self.levels[level].len();
        if named > change.shape.root
            && let Some(block) = change.grow()
        {
            self.levels.push(BTreeMap::from([(0, Node { block, used: named as u32 })]));
        }
    }

    /// Tests: every block of the tree counts what it holds.
    #[cfg(test)]
    pub fn check(&self, shape: &Shape) {
        for (level, nodes) in self.levels.iter().enumerate() {
            for (&key, node) in nodes {
                let used = self.entries(level, key).len() as u32;
                assert_eq!(used, node.used, "level {level}, block {}", node.block);
                assert!((1..=shape.per_block).contains(&used), "level {level}: {used} entries");
            }
        }
        let top = self.levels.last().map_or(self.map.len(), BTreeMap::len);
        let most = if self.levels.is_empty() { shape.inside } else { shape.root };
        assert!(top <= most, "{top} in the inode");
        let mut end = 0;
        for e in self.map.values() {
            assert!(e.logical >= end && e.len > 0, "{e:?} before {end}");
            end = e.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::Seed;

    const EXT4: Shape = Shape {
        inside: 4,
        root: 4,
        per_block: 340,
        longest: 32_768,
        longest_unwritten: 32_767,
        halves: false,
    };

    fn with<R>(shape: Shape, next: &mut u64, f: impl FnOnce(&mut Change) -> R) -> (R, Touched) {
        let mut new_block = || {
            *next += 1;
            Some(*next)
        };
        let mut change = Change { shape, new_block: &mut new_block, touched: Touched::default() };
        let result = f(&mut change);
        (result, change.touched)
    }

    fn of(e: &[(u32, u32, u32, bool)]) -> Extents {
        let mut extents = Extents::default();
        for &(logical, block, len, unwritten) in e {
            let new = Extent { logical, block, len, unwritten };
            with(EXT4, &mut 0, |c| extents.insert(new, true, c));
        }
        extents
    }
    fn list(e: &Extents) -> Vec<(u32, u32, bool)> {
        e.iter().map(|e| (e.logical, e.len, e.unwritten)).collect()
    }

    #[test]
    fn extents_join_and_are_cut() {
        let mut e = of(&[(0, 100, 4, false), (4, 104, 4, false), (20, 300, 2, false)]);
        assert_eq!(e.len(), 2);
        assert_eq!(e.find(5), Some((105, 3)));
        assert_eq!(e.find(8), None);
        assert_eq!((e.run(8, 99), e.run(30, 99), e.run(5, 99)), (12, 99, 3));
        assert_eq!((e.goal(8), e.goal(30)), (Some(108), Some(310)));
        let (gone, _) = with(EXT4, &mut 0, |c| e.cut(6, c));
        let gone: u32 = gone.iter().map(|e| e.len).sum();
        assert_eq!((gone, e.find(5), e.find(6)), (4, Some((105, 1)), None));
    }

    #[test]
    fn an_extent_is_as_long_as_the_format_has_it() {
        let halves: Vec<_> = (0..32).map(|i| (2048 * i, 2048 * i, 2048, i >= 16)).collect();
        // 32,768 written blocks are one extent. An unwritten one is a block shorter.
        assert_eq!(
            list(&of(&halves)),
            [(0, 32_768, false), (32_768, 30_720, true), (63_488, 2048, true)]
        );
    }

    /// A tree of single blocks is cut at random down to nothing: it stays as lean as XFS keeps it, its blocks are
    /// freed once each, and ext4's keeps its height until it is empty.
    #[test]
    fn a_tree_that_is_cut_gives_its_blocks_back() {
        let xfs = Shape {
            inside: 6,
            root: 5,
            per_block: 8,
            longest: 99,
            longest_unwritten: 99,
            halves: true,
        };
        let ext4 = Shape { per_block: 8, ..EXT4 };
        for (shape, seed) in (0..40).flat_map(|seed| [(xfs, seed), (ext4, seed)]) {
            let mut rng = Seed(seed).stream("extents");
            let mut next = 0;
            let mut e = Extents::default();
            let mut end = 600;
            while e.len() < 300 {
                let logical = 2 * rng.below(end) as u32;
                if e.at(logical.into()).is_none() {
                    let new = Extent { logical, block: 5 * logical, len: 1, unwritten: false };
                    with(shape, &mut next, |c| e.insert(new, true, c));
                }
            }
            let mut owned: Vec<u64> = e.tree().collect();
            let height = e.levels.len();
            assert!(height > 1);
            while e.len() > 0 {
                end -= rng.below(12.min(end)) + 1;
                let (_, touched) = with(shape, &mut next, |c| e.cut(2 * end, c));
                e.check(&shape);
                for block in touched.freed {
                    assert!(owned.contains(&block), "block {block} is freed twice");
                    owned.retain(|&b| b != block);
                }
                assert!(touched.blocks.iter().all(|b| owned.contains(b)));
                let mut tree: Vec<u64> = e.tree().collect();
                tree.sort_unstable();
                owned.sort_unstable();
                assert_eq!(tree, owned);
                if shape.halves {
                    let full = |n: &Node| n.used >= shape.per_block / 2;
                    assert!(e.levels.iter().all(|l| l.len() == 1 || l.values().all(full)));
                    assert_eq!(e.levels.is_empty(), e.len() <= shape.inside);
                } else {
                    assert_eq!(e.levels.len(), if e.len() > 0 { height } else { 0 });
                }
            }
        }
    }

    #[test]
    fn unwritten_blocks_are_found_and_converted() {
        let mut e = of(&[(0, 100, 100, true)]);
        assert_eq!((e.find(5), e.written(5)), (Some((105, 95)), None));
        let convert =
            |e: &mut Extents, first, end| with(EXT4, &mut 0, |c| e.convert(first, end, c)).1;
        let touched = convert(&mut e, 10, 20);
        assert!(touched.root && touched.blocks.is_empty(), "it is in the inode");
        assert_eq!(list(&e), [(0, 10, true), (10, 10, false), (20, 80, true)]);
        assert_eq!(e.written(15), Some((115, 5)));
        // What follows goes to the written one, and what was before it too.
        convert(&mut e, 20, 30);
        convert(&mut e, 8, 10);
        assert_eq!(list(&e), [(0, 8, true), (8, 22, false), (30, 70, true)]);
        assert_eq!((e.unwritten(0, 50), e.unwritten(9, 50)), (Some((0, 8)), Some((30, 50))));
        assert_eq!((e.unwritten(9, 30), e.unwritten(40, 200)), (None, Some((40, 100))));
        // All of it at last.
        convert(&mut e, 0, 8);
        convert(&mut e, 30, 100);
        assert_eq!(list(&e), [(0, 100, false)]);
    }

    /// Every other block of a long extent: leaves of 340 entries, and blocks that name leaves. In the end
    /// all is one extent in the inode.
    #[test]
    fn a_split_extent_needs_leaves_and_gives_them_back() {
        const N: u32 = 4000;
        for halves in [false, true] {
            let shape = Shape { halves, ..EXT4 };
            let mut e = of(&[(0, 1000, 2 * N, true)]);
            let mut order: Vec<u32> = (0..N).collect();
            let mut rng = Seed(1).stream("extents");
            for i in (1..order.len()).rev() {
                order.swap(i, rng.below(i as u64 + 1) as usize);
            }
            let (mut next, mut freed, mut most) = (1_000_000, 0, 0);
            for pass in 0..2 {
                for &i in &order {
                    let at = 2 * i + pass;
                    let (_, touched) = with(shape, &mut next, |c| e.convert(at, at + 1, c));
                    freed += touched.freed.len();
                    most = most.max(e.tree().count());
                    if i % 64 == 0 {
                        e.check(&shape);
                    }
                    assert!(touched.root || !touched.blocks.is_empty());
                }
                if pass == 0 {
                    // 8,000 extents in blocks that are half full to full, and those above them.
                    assert_eq!(e.len() as u32, 2 * N);
                    let leaves = e.levels[0].len();
                    assert!((24..=70).contains(&leaves), "{leaves}");
                    assert_eq!((e.levels.len(), e.levels[1].len()), (2, 1));
                }
            }
            // Leaves are not joined with one another: each has one extent left at least.
            assert_eq!(e.iter().map(|e| e.len).sum::<u32>(), 2 * N);
            assert_eq!((e.len(), freed), (e.levels[0].len(), 0));
            let (gone, touched) = with(shape, &mut next, |c| e.cut(0, c));
            assert_eq!(gone.iter().map(|e| e.len).sum::<u32>(), 2 * N);
            assert_eq!((touched.freed.len(), e.tree().count()), (most, 0));
        }
    }

    /// Blocks that follow one another on the drive are put into holes, converted and cut, in leaves of few entries, beside
    /// a list of blocks.
    #[test]
    fn random_changes_leave_what_a_list_of_blocks_has() {
        const N: u32 = 600;
        for seed in 0..20 {
            let halves = seed % 2 == 1;
            let shape = Shape { halves, per_block: 6, ..EXT4 };
            let mut rng = Seed(seed).stream("changes");
            let (mut e, mut next) = (Extents::default(), 1_000_000);
            let mut blocks: Vec<Option<bool>> = vec![None; N as usize];
            for step in 0..2000 {
                let at = rng.below(N.into()) as u32;
                let most = rng.below(4) as u32 + 1;
                let same = |of: Option<bool>| {
                    let run = blocks[at as usize..].iter().take(most as usize);
                    run.take_while(|b| **b == of).count() as u32
                };
                let holes = same(None);
                // Of one extent.
                let there = e.at(at.into()).map_or(0, |x| x.end() - at);
                let unwritten = same(Some(true)).min(there);
                if step % 500 == 499 {
                    with(shape, &mut next, |c| e.cut(at.into(), c));
                    blocks[at as usize..].fill(None);
                } else if holes > 0 {
                    let (fresh, join) = (rng.chance(500_000_000), rng.chance(800_000_000));
                    let new =
                        Extent { logical: at, block: 1000 + at, len: holes, unwritten: fresh };
                    with(shape, &mut next, |c| e.insert(new, join, c));
                    blocks[at as usize..(at + holes) as usize].fill(Some(fresh));
                } else if unwritten > 0 {
                    with(shape, &mut next, |c| e.convert(at, at + unwritten, c));
                    blocks[at as usize..(at + unwritten) as usize].fill(Some(false));
                }
                e.check(&shape);
                let mut found = vec![None; N as usize];
                for x in e.iter() {
                    assert_eq!(x.block, 1000 + x.logical, "seed {seed}, step {step}");
                    found[x.logical as usize..x.end() as usize].fill(Some(x.unwritten));
                }
                assert_eq!(found, blocks, "seed {seed}, step {step}");
            }
        }
    }

    #[test]
    fn a_leaf_that_fits_the_inode_again_is_freed() {
        let mut e = of(&[(0, 1000, 100, true)]);
        let mut next = 5000;
        let mut convert =
            |e: &mut Extents, first, end| with(EXT4, &mut next, |c| e.convert(first, end, c)).1;
        convert(&mut e, 10, 11);
        assert!(convert(&mut e, 20, 21).blocks.contains(&5001));
        assert_eq!((e.len(), e.tree().count()), (5, 1));
        // The gap between them closes: three extents.
        let touched = convert(&mut e, 11, 20);
        assert_eq!((touched.freed, touched.blocks, touched.root), (vec![5001], vec![], true));
        assert_eq!((e.len(), e.tree().count()), (3, 0));
    }
}
