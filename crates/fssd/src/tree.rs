//! The map: a B+tree of extents.
//!
//! A leaf holds extents in order of their first sector, an inner node the lower bounds of its children;
//! each kind of word lies together, so that a search touches only keys. An extent lies within the bounds
//! of its leaf. A node is split in half when it is full, and below half takes from a neighbour or is merged
//! with it. An insertion right behind the one before it in the same leaf is a run: such a leaf, when full,
//! first fills its neighbour on the left, so that a run leaves full leaves behind.
//!
//! A search of a leaf begins where its bounds let expect the sector, and goes on as far as that is off. Steps
//! cost little. Lines of memory that no cache has cost much, and those can be asked for ahead.

use crate::arena::{Arena, HEADER, LAST, NOWHERE, NodeId};
use std::io;
use std::ops::Range;
use wordline_base::prefetch;
use wordline_translation::{Breach, LoadError, MapWork, SavedIn, SavedOut, damaged};

/// The place of sectors whose only copy could not be read.
pub const LOST: u32 = u32::MAX;

/// Levels that no tree has.
const MOST_LEVELS: usize = 16;
/// Words of an entry of a leaf, and of an inner node.
const LEAF: usize = 3;
const INNER: usize = 2;

fn breach(what: String) -> Result<(), Breach> {
    Err(Breach::Count(what))
}

/// Sectors that follow each other, on flash as in the user's addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extent {
    /// The first of them, in the user's addresses.
    pub lpn: u32,
    /// How many there are.
    pub sectors: u32,
    /// Where the first of them is on flash.
    pub place: u32,
}

impl Extent {
    /// Behind the last of them, in the user's addresses.
    #[inline]
    pub fn end(&self) -> u32 {
        self.lpn + self.sectors
    }
    /// What of it lies within these bounds, which it overlaps.
    #[inline]
    pub fn within(&self, from: u32, to: u32) -> Extent {
        let (lpn, end) = (self.lpn.max(from), self.end().min(to));
        let skipped = if self.place == LOST { 0 } else { lpn - self.lpn };
        Extent { lpn, sectors: end - lpn, place: self.place + skipped }
    }
    /// The other one goes on where it ends.
    #[inline]
    fn goes_on(&self, next: &Extent) -> bool {
        let lost = self.place == LOST || next.place == LOST;
        let place =
            if lost { self.place == next.place } else { self.place + self.sectors == next.place };
        place && self.end() == next.lpn
    }
}

/// Bytes of a tree that stays in a cache of the processor's, so that nothing is asked for ahead.
const CACHED: u32 = 1 << 20;
/// Words of a line of a cache.
const LINE: usize = 16;

/// How many keys are at or below this one, which is looked for from `at` on.
#[inline]
fn keys_to(keys: &[u32], at: usize, lpn: u32) -> usize {
    let below = |i: usize| keys.get(i).is_some_and(|&key| key <= lpn);
    let (mut from, mut to, mut step) = (at, at, 4);
    if below(at) {
        while below(to) {
            (from, to, step) = (to + 1, to + step, 2 * step);
        }
        to = to.min(keys.len());
    } else {
        while from > 0 && !below(from - 1) {
            (to, from, step) = (from - 1, from.saturating_sub(step), 2 * step);
        }
    }
    from + keys[from..to].partition_point(|&key| key <= lpn)
}

/// A node would be needed that is beyond the limit. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// The leaf that a sector was found to belong to, while the tree had this shape.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    lpn: u32,
    leaf: NodeId,
    from: u32,
    to: u32,
    shape: u64,
}
/// Sectors asked for ahead, of which the leaf is kept.
const SEEN: usize = 256;

/// The map: a B+tree of extents with nodes of a fixed size.
#[derive(Clone, Debug)]
pub struct Tree {
    /// Memory of the nodes.
    arena: Arena,
    /// The root.
    root: NodeId,
    /// Levels, that of leaves among them.
    levels: usize,
    /// Most entries of a leaf.
    leaf: usize,
    /// Most entries of an inner node.
    inner: usize,
    /// Extents.
    entries: u64,
    /// Behind the last sector that was ever mapped.
    most: u32,
    /// Bytes of a node.
    node_bytes: u32,
    /// The inner nodes to the leaf walked to last, and the child taken in each.
    path: [(NodeId, usize); MOST_LEVELS],
    /// Goes up when bounds of leaves change.
    shape: u64,
    /// Leaves looked up last, and their bounds.
    seen: Vec<Seen>,
    /// Entries on their way from one node to another.
    scratch: Vec<u32>,
    /// What was walked, split and merged, for who pays for it.
    pub work: MapWork,
}

impl Tree {
    /// `node_bytes` is a power of two of at least [`Tree::LEAST`].
    pub fn new(node_bytes: u32) -> Tree {
        let words = node_bytes as usize / 4 - HEADER;
        let mut arena = Arena::new(node_bytes);
        let root = arena.take();
        Tree {
            arena,
            root,
            levels: 1,
            leaf: words / LEAF,
            inner: words / INNER,
            entries: 0,
            most: 0,
            node_bytes,
            path: [(0, 0); MOST_LEVELS],
            shape: 1,
            seen: vec![Seen::default(); SEEN],
            scratch: Vec::new(),
            work: MapWork::default(),
        }
    }
    /// Bytes of the smallest node: splits in half leave what a node must hold at least.
    pub const LEAST: u32 = 256;

    /// Extents in the map.
    pub fn entries(&self) -> u64 {
        self.entries
    }
    /// Nodes in use.
    pub fn nodes(&self) -> u32 {
        self.arena.used()
    }
    /// Levels, the leaves' own included.
    pub fn levels(&self) -> u32 {
        self.levels as u32
    }
    /// Bytes of the nodes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.nodes()) * u64::from(self.node_bytes)
    }
    /// The share of the leaves' entries that is in use.
    pub fn fill(&self) -> f64 {
        let leaves = self.arena.used() as u64 - self.inner_nodes(self.root, self.levels);
        self.entries as f64 / (leaves * self.leaf as u64) as f64
    }
    fn inner_nodes(&self, node: NodeId, levels: usize) -> u64 {
        if levels == 1 {
            return 0;
        }
        let n = self.arena.get(node);
        let children = &n[HEADER + self.inner..][..self.arena.count(node)];
        match levels {
            2 => 1,
            _ => 1 + children.iter().map(|&c| self.inner_nodes(c, levels - 1)).sum::<u64>(),
        }
    }

    /// The leaf that a sector belongs to, and the sectors that belong to it.
    #[inline]
    fn descend(&mut self, lpn: u32) -> (NodeId, Range<u32>) {
        self.work.visited += self.levels as u64;
        let seen = &self.seen[lpn as usize % SEEN];
        if (seen.lpn, seen.shape) == (lpn, self.shape) {
            return (seen.leaf, seen.from..seen.to);
        }
        self.walk(lpn)
    }
    /// The same, from the root on.
    fn walk(&mut self, lpn: u32) -> (NodeId, Range<u32>) {
        let (mut node, mut bounds) = (self.root, 0..u32::MAX);
        for level in 0..self.levels - 1 {
            let at = self.child_of(node, lpn, &mut bounds);
            self.path[level] = (node, at);
            node = self.child(node, at);
        }
        (node, bounds)
    }
    /// The path to the leaf of a sector, for nodes that change.
    fn reshape(&mut self, lpn: u32) {
        self.walk(lpn);
        self.shape += 1;
    }
    /// The child of an inner node that a sector belongs to, which is in its bounds; they become the child's.
    #[inline]
    fn child_of(&self, node: NodeId, lpn: u32, bounds: &mut Range<u32>) -> usize {
        let keys = self.keys(node);
        let i = keys.partition_point(|&key| key <= lpn);
        *bounds = keys[i - 1]..keys.get(i).copied().unwrap_or(bounds.end);
        i - 1
    }
    /// How many of so many keys within bounds are at or below this one, if they lie evenly.
    #[inline]
    fn expected(&self, keys: usize, bounds: &Range<u32>, lpn: u32) -> usize {
        let end = bounds.end.min(self.most).max(lpn);
        let share = f64::from(lpn - bounds.start) / f64::from((end - bounds.start).max(1));
        (share * keys as f64) as usize
    }
    /// What is kept of this sector will be asked for soon.
    #[inline]
    pub fn prefetch(&mut self, lpn: u32) {
        if self.nodes() <= CACHED / self.node_bytes {
            return;
        }
        let (leaf, bounds) = self.walk(lpn);
        let Range { start: from, end: to } = bounds;
        self.seen[lpn as usize % SEEN] = Seen { lpn, leaf, from, to, shape: self.shape };
        let n = self.arena.get(leaf);
        let at = HEADER + self.expected(self.arena.count(leaf), &bounds, lpn);
        for word in 0..LEAF {
            let at = at + word * self.leaf;
            prefetch(n, at.saturating_sub(LINE / 2));
            prefetch(n, at + LINE / 2);
        }
    }
    #[inline]
    fn entry(&self, leaf: &[u32], i: usize) -> Extent {
        let at = HEADER + i;
        Extent { lpn: leaf[at], sectors: leaf[at + self.leaf], place: leaf[at + 2 * self.leaf] }
    }
    /// The first entry of a leaf that ends behind this sector.
    #[inline]
    fn first_behind(&self, leaf: NodeId, bounds: &Range<u32>, lpn: u32) -> usize {
        let keys = self.keys(leaf);
        let i = keys_to(keys, self.expected(keys.len(), bounds, lpn), lpn);
        i - usize::from(i > 0 && self.entry(self.arena.get(leaf), i - 1).end() > lpn)
    }
    #[inline]
    fn keys(&self, node: NodeId) -> &[u32] {
        &self.arena.get(node)[HEADER..HEADER + self.arena.count(node)]
    }

    /// The entry of a sector, without work that is counted.
    pub fn find(&self, lpn: u32) -> Option<Extent> {
        let (mut node, mut bounds) = (self.root, 0..u32::MAX);
        for _ in 1..self.levels {
            node = self.child(node, self.child_of(node, lpn, &mut bounds));
        }
        let i = self.first_behind(node, &bounds, lpn);
        let there = (i < self.arena.count(node)).then(|| self.entry(self.arena.get(node), i));
        there.filter(|e| e.lpn <= lpn)
    }
    /// What of these sectors is mapped, in order.
    #[inline]
    pub fn look_up(&mut self, lpn: u32, sectors: u32, out: &mut Vec<Extent>) {
        out.clear();
        self.take(lpn, lpn + sectors, usize::MAX, out);
    }
    /// Adds entries of these sectors, so many at most. Answers where the sectors begin that it did not come to.
    pub fn take(&mut self, from: u32, to: u32, most: usize, out: &mut Vec<Extent>) -> u32 {
        let mut at = from;
        let most = out.len().saturating_add(most);
        while at < to {
            let (leaf, bounds) = self.descend(at);
            let n = self.arena.get(leaf);
            for i in self.first_behind(leaf, &bounds, at)..self.arena.count(leaf) {
                let e = self.entry(n, i);
                if e.lpn >= to {
                    return to;
                }
                if out.len() == most {
                    return e.lpn.max(at);
                }
                out.push(e.within(from, to));
            }
            at = bounds.end;
        }
        to
    }

    /// These sectors are at `place` from now on; `gone` hears of what was mapped there before. Fails
    /// where more than `most` nodes would be needed.
    #[inline]
    pub fn insert(
        &mut self,
        new: Extent,
        most: u32,
        gone: &mut impl FnMut(Extent),
    ) -> Result<(), Full> {
        let (from, to) = (new.lpn, new.end());
        self.most = self.most.max(to);
        let (leaf, bounds) = self.descend(from);
        if to <= bounds.end {
            return self.replace((leaf, bounds), from, to, Some(new.place), most, gone);
        }
        self.check_room(from, to, most)?;
        self.cut(from, to, gone);
        let mut at = from;
        while at < to {
            let leaf = self.descend(at);
            let part = new.within(at, leaf.1.end);
            let made = self.replace(leaf, at, part.end(), Some(part.place), u32::MAX, &mut |_| {});
            debug_assert!(made.is_ok());
            at = part.end();
        }
        Ok(())
    }
    /// These sectors are mapped no more.
    pub fn remove(
        &mut self,
        lpn: u32,
        sectors: u32,
        most: u32,
        gone: &mut impl FnMut(Extent),
    ) -> Result<(), Full> {
        let (from, to) = (lpn, lpn + sectors);
        let (leaf, bounds) = self.descend(from);
        if to <= bounds.end {
            return self.replace((leaf, bounds), from, to, None, most, gone);
        }
        self.cut(from, to, gone);
        Ok(())
    }
    /// Takes out sectors of more than one leaf, which needs no node: an entry is shortened at one end.
    fn cut(&mut self, from: u32, to: u32, gone: &mut impl FnMut(Extent)) {
        let mut at = from;
        while at < to {
            let leaf = self.descend(at);
            let end = leaf.1.end;
            let cut = self.replace(leaf, at, to.min(end), None, u32::MAX, gone);
            debug_assert!(cut.is_ok());
            at = end;
        }
    }
    /// Whether an extent over the bounds of leaves finds room in them, one entry in the first and one
    /// in the last, where nodes are short.
    fn check_room(&mut self, from: u32, to: u32, most: u32) -> Result<(), Full> {
        if most >= self.nodes().saturating_add(2 * self.levels as u32 + 2) {
            return Ok(());
        }
        for lpn in [from, to - 1] {
            let (leaf, _) = self.descend(lpn);
            if self.arena.count(leaf) == self.leaf {
                return Err(Full);
            }
        }
        Ok(())
    }

    /// Replaces what a leaf has of some sectors, which belong to it.
    fn replace(
        &mut self,
        (leaf, bounds): (NodeId, Range<u32>),
        from: u32,
        to: u32,
        place: Option<u32>,
        most: u32,
        gone: &mut impl FnMut(Extent),
    ) -> Result<(), Full> {
        let (n, count) = (self.arena.get(leaf), self.arena.count(leaf));
        let (mut i, mut made) = (self.first_behind(leaf, &bounds, from), 0);
        let mut j = i;
        while j < count && n[HEADER + j] < to {
            j += 1;
        }
        let overlapped = i..j;
        let mut new = [Extent::default(); 3];
        let mut put = |e: Extent| {
            new[made] = e;
            made += 1;
        };
        let mut middle = place.map(|place| Extent { lpn: from, sectors: to - from, place });
        let mut rest = None;
        if let (false, Some(last)) = (overlapped.is_empty(), j.checked_sub(1)) {
            let (first, last) = (self.entry(n, i), self.entry(n, last));
            if first.lpn < from {
                put(first.within(first.lpn, from));
            }
            rest = (last.end() > to).then(|| last.within(to, last.end()));
        }
        if let Some(e) = &mut middle {
            // A neighbour that it goes on from, or that goes on from it, takes it in.
            if i > 0 && (i == j || n[HEADER + i] >= from) {
                let before = self.entry(n, i - 1);
                if before.goes_on(e) {
                    *e = Extent { sectors: before.sectors + e.sectors, ..before };
                    i -= 1;
                }
            }
            if rest.is_none() && j < count {
                let behind = self.entry(n, j);
                if e.goes_on(&behind) {
                    e.sectors += behind.sectors;
                    j += 1;
                }
            }
        }
        middle.into_iter().chain(rest).for_each(put);
        let (old, new) = (j - i, &new[..made]);
        if made > old && count + made - old > self.leaf {
            self.reshape(from);
            return self.overflow(leaf, i, j, new, most, |tree, arena_leaf| {
                let n = tree.arena.get(arena_leaf);
                overlapped.for_each(|k| gone(tree.entry(n, k).within(from, to)));
            });
        }
        for k in overlapped {
            gone(self.entry(n, k).within(from, to));
        }
        self.splice(leaf, i, j, new);
        if self.levels > 1 && count + made - old < self.least_of(LEAF) {
            self.reshape(from);
            self.underflow(self.levels - 1, leaf);
        }
        Ok(())
    }
    /// Entries `i` to `j` of a leaf become those given, for which there is room.
    fn splice(&mut self, leaf: NodeId, i: usize, j: usize, new: &[Extent]) {
        let (cap, count) = (self.leaf, self.arena.count(leaf));
        let (old, made) = (j - i, new.len());
        self.arena.set_count(leaf, count + made - old);
        let n = self.arena.get_mut(leaf);
        if old != made {
            for words in 0..LEAF {
                let base = HEADER + words * cap;
                n.copy_within(base + j..base + count, base + i + made);
            }
            self.entries = self.entries + made as u64 - old as u64;
        }
        for (at, e) in (HEADER + i..).zip(new) {
            (n[at], n[at + cap], n[at + 2 * cap]) = (e.lpn, e.sectors, e.place);
        }
        if made > old {
            n[LAST] = (i + made - 1) as u32;
        }
        self.work.inserted += made as u64;
        self.work.removed += old.saturating_sub(made) as u64;
    }

    /// Fewest entries of a node that is not the root. A leaf may be split next to the middle, where an
    /// extent lies across it.
    fn least_of(&self, words: usize) -> usize {
        if words == LEAF { self.leaf / 2 - 1 } else { self.inner / 2 }
    }
    fn most_of(&self, words: usize) -> usize {
        if words == LEAF { self.leaf } else { self.inner }
    }
    /// A full leaf gets more entries.
    fn overflow(
        &mut self,
        leaf: NodeId,
        i: usize,
        j: usize,
        new: &[Extent],
        most: u32,
        before: impl FnOnce(&Tree, NodeId),
    ) -> Result<(), Full> {
        let (n, count) = (self.arena.get(leaf), self.arena.count(leaf));
        if i == j && i == n[LAST].wrapping_add(1) as usize && self.levels > 1 {
            let (parent, at) = self.path[self.levels - 2];
            if at > 0 {
                let left = self.child(parent, at - 1);
                let there = self.arena.count(left);
                let moved = (self.leaf - there).min(i).min(count - self.least_of(LEAF));
                if moved > 0 {
                    before(self, leaf);
                    self.shift_left(LEAF, left, leaf, moved);
                    self.splice(leaf, i - moved, i - moved, new);
                    self.set_key(parent, at, leaf);
                    return Ok(());
                }
            }
        }
        let full = |&&(node, _): &&(NodeId, usize)| self.arena.count(node) == self.inner;
        let split = self.path[..self.levels - 1].iter().rev().take_while(full).count();
        let needed = 1 + split + usize::from(split == self.levels - 1);
        if u64::from(self.nodes()) + needed as u64 > u64::from(most) {
            return Err(Full);
        }
        before(self, leaf);
        let mut middle = count / 2;
        if i < middle && middle < j {
            middle = j;
        }
        let right = self.split(LEAF, leaf, middle);
        if j <= middle {
            self.splice(leaf, i, j, new);
        } else {
            self.splice(right, i - middle, j - middle, new);
        }
        self.add_child(self.levels - 1, right);
        Ok(())
    }
    fn child(&self, parent: NodeId, at: usize) -> NodeId {
        self.arena.get(parent)[HEADER + self.inner + at]
    }
    /// A child's lower bound is that of what it holds.
    fn set_key(&mut self, parent: NodeId, at: usize, child: NodeId) {
        let key = self.arena.get(child)[HEADER];
        self.arena.get_mut(parent)[HEADER + at] = key;
    }
    /// The upper part of a node goes to a new one.
    fn split(&mut self, words: usize, node: NodeId, middle: usize) -> NodeId {
        let right = self.arena.take();
        let count = self.arena.count(node);
        self.carry(words, node, middle..count, right, 0);
        self.arena.get_mut(node)[LAST] = NOWHERE;
        self.arena.set_count(node, middle);
        self.arena.set_count(right, count - middle);
        self.work.splits += 1;
        right
    }
    /// Copies entries to another node.
    fn carry(
        &mut self,
        words: usize,
        from: NodeId,
        entries: std::ops::Range<usize>,
        to: NodeId,
        at: usize,
    ) {
        let (cap, len) = (self.most_of(words), entries.len());
        self.scratch.clear();
        let n = self.arena.get(from);
        for word in 0..words {
            self.scratch.extend(&n[HEADER + word * cap..][entries.clone()]);
        }
        let n = self.arena.get_mut(to);
        for word in 0..words {
            n[HEADER + word * cap + at..][..len]
                .copy_from_slice(&self.scratch[word * len..][..len]);
        }
    }
    /// The first entries of a node go to the end of its neighbour.
    fn shift_left(&mut self, words: usize, left: NodeId, right: NodeId, moved: usize) {
        let (there, count) = (self.arena.count(left), self.arena.count(right));
        self.carry(words, right, 0..moved, left, there);
        self.arena.set_count(left, there + moved);
        self.arena.set_count(right, count - moved);
        let cap = self.most_of(words);
        let n = self.arena.get_mut(right);
        for word in 0..words {
            let base = HEADER + word * cap;
            n.copy_within(base + moved..base + count, base);
        }
    }
    fn shift_right(&mut self, words: usize, left: NodeId, right: NodeId, moved: usize) {
        let cap = self.most_of(words);
        let (there, count) = (self.arena.count(left), self.arena.count(right));
        let n = self.arena.get_mut(right);
        for word in 0..words {
            let base = HEADER + word * cap;
            n.copy_within(base..base + count, base + moved);
        }
        self.carry(words, left, there - moved..there, right, 0);
        self.arena.set_count(right, count + moved);
        self.arena.set_count(left, there - moved);
    }
    /// A node was split off on this level: its parent, on the path, learns of it.
    fn add_child(&mut self, level: usize, child: NodeId) {
        let key = self.arena.get(child)[HEADER];
        if level == 0 {
            let root = self.arena.take();
            let (old, cap) = (self.root, self.inner);
            self.arena.set_count(root, 2);
            let n = self.arena.get_mut(root);
            (n[HEADER], n[HEADER + cap]) = (0, old);
            (n[HEADER + 1], n[HEADER + cap + 1]) = (key, child);
            self.root = root;
            self.levels += 1;
            return;
        }
        let (mut node, at) = self.path[level - 1];
        let mut at = at + 1;
        let mut right = None;
        let count = self.arena.count(node);
        if count == self.inner {
            let middle = count / 2;
            let made = self.split(INNER, node, middle);
            right = Some(made);
            if at > middle {
                (node, at) = (made, at - middle);
            }
        }
        let (cap, count) = (self.inner, self.arena.count(node));
        self.arena.set_count(node, count + 1);
        let n = self.arena.get_mut(node);
        for base in [HEADER, HEADER + cap] {
            n.copy_within(base + at..base + count, base + at + 1);
        }
        (n[HEADER + at], n[HEADER + cap + at]) = (key, child);
        if let Some(right) = right {
            self.add_child(level - 1, right);
        }
    }
    /// A node on this level holds less than it must.
    fn underflow(&mut self, level: usize, node: NodeId) {
        let words = if level == self.levels - 1 { LEAF } else { INNER };
        let (parent, at) = self.path[level - 1];
        let (left, right, at) = match at {
            0 => (node, self.child(parent, 1), 1),
            _ => (self.child(parent, at - 1), node, at),
        };
        let (l, r) = (self.arena.count(left), self.arena.count(right));
        self.work.visited += 1;
        if l + r > self.most_of(words) {
            match l < r {
                true => self.shift_left(words, left, right, (r - l) / 2),
                false => self.shift_right(words, left, right, (l - r) / 2),
            }
            return self.set_key(parent, at, right);
        }
        self.carry(words, right, 0..r, left, l);
        self.arena.set_count(left, l + r);
        self.arena.give(right);
        self.work.merges += 1;
        let (cap, count) = (self.inner, self.arena.count(parent));
        self.arena.set_count(parent, count - 1);
        let n = self.arena.get_mut(parent);
        for base in [HEADER, HEADER + cap] {
            n.copy_within(base + at + 1..base + count, base + at);
        }
        if level == 1 && count == 2 {
            self.arena.give(self.root);
            self.root = left;
            self.levels -= 1;
        } else if level > 1 && count - 1 < self.least_of(INNER) {
            self.underflow(level - 1, parent);
        }
    }

    /// All entries, in order.
    pub fn all(&self) -> impl Iterator<Item = Extent> + '_ {
        let mut stack = vec![(self.root, 0)];
        std::iter::from_fn(move || {
            loop {
                let depth = stack.len();
                let (node, at) = stack.last_mut()?;
                let (n, i) = (self.arena.get(*node), *at);
                *at += 1;
                if i == self.arena.count(*node) {
                    stack.pop();
                } else if depth == self.levels {
                    return Some(self.entry(n, i));
                } else {
                    stack.push((n[HEADER + self.inner + i], 0));
                }
            }
        })
    }
    /// Writes the nodes, each before its children.
    pub(crate) fn save(&self, out: &mut SavedOut) -> io::Result<()> {
        out.put32(self.node_bytes)?;
        out.put32(self.levels as u32)?;
        self.save_node(out, self.root, 1)
    }
    fn save_node(&self, out: &mut SavedOut, node: NodeId, level: usize) -> io::Result<()> {
        let n = self.arena.get(node);
        let (count, words, most) = self.kind_of(level, self.arena.count(node) as u32);
        out.put32(count as u32)?;
        out.put32(n[LAST])?;
        // An inner node has its keys here alone: its children follow.
        for kind in 0..words {
            n[HEADER + kind * most..][..count].iter().try_for_each(|&word| out.put32(word))?;
        }
        if level == self.levels {
            return Ok(());
        }
        (0..count).try_for_each(|i| self.save_node(out, self.child(node, i), level + 1))
    }
    /// Entries of a node on this level, the kinds of words that are saved of them, and the most entries.
    fn kind_of(&self, level: usize, count: u32) -> (usize, usize, usize) {
        match level == self.levels {
            true => (count as usize, LEAF, self.leaf),
            false => (count as usize, 1, self.inner),
        }
    }
    /// Reads what [`Tree::save`] wrote.
    pub(crate) fn load(node_bytes: u32, r: &mut SavedIn) -> Result<Tree, LoadError> {
        let mut tree = Tree::new(node_bytes);
        let saved = r.get32()?;
        if saved != node_bytes {
            return Err(LoadError::Shape { name: "bytes a node", saved, here: node_bytes });
        }
        tree.levels = r.up_to(MOST_LEVELS as u32, "the tree's levels")?.max(1) as usize;
        tree.load_node(r, tree.root, 1)?;
        tree.check().or_else(|breach| damaged(breach.to_string()))?;
        Ok(tree)
    }
    fn load_node(&mut self, r: &mut SavedIn, node: NodeId, level: usize) -> Result<(), LoadError> {
        let most = self.kind_of(level, 0).2;
        let (count, words, _) = self.kind_of(level, r.up_to(most as u32, "a node's entries")?);
        let last = r.get32()?;
        let mut loaded = Vec::with_capacity(words * count);
        r.words32(words * count, &mut loaded)?;
        self.arena.set_count(node, count);
        let n = self.arena.get_mut(node);
        n[LAST] = last;
        for (kind, of) in loaded.chunks_exact(count.max(1)).enumerate() {
            n[HEADER + kind * most..][..count].copy_from_slice(of);
        }
        if level == self.levels {
            self.entries += count as u64;
            let last = count.checked_sub(1).map(|last| (loaded[last], loaded[count + last]));
            let end = last.map_or(0, |(lpn, sectors)| lpn.saturating_add(sectors));
            self.most = self.most.max(end);
            let lengths = loaded[..count].iter().zip(&loaded[count..]);
            let end = |(lpn, sectors): (&u32, &u32)| lpn.checked_add(*sectors).is_some();
            return if { lengths }.all(end) { Ok(()) } else { damaged("an extent has no end") };
        }
        for i in 0..count {
            let child = self.arena.take();
            self.arena.get_mut(node)[HEADER + self.inner + i] = child;
            self.load_node(r, child, level + 1)?;
        }
        Ok(())
    }
    /// Holds the tree against its rules. An error says what is wrong.
    pub fn check(&self) -> Result<(), Breach> {
        let (mut nodes, mut entries) = (0, 0);
        self.check_node(self.root, 0, 0, u32::MAX, &mut nodes, &mut entries)?;
        if (nodes, entries) != (self.nodes(), self.entries) {
            return breach(format!(
                "{nodes} nodes with {entries} entries are reached, {} and {} counted",
                self.nodes(),
                self.entries
            ));
        }
        Ok(())
    }
    fn check_node(
        &self,
        node: NodeId,
        level: usize,
        from: u32,
        to: u32,
        nodes: &mut u32,
        entries: &mut u64,
    ) -> Result<(), Breach> {
        let (n, count) = (self.arena.get(node), self.arena.count(node));
        let words = if level + 1 == self.levels { LEAF } else { INNER };
        let least = match level {
            0 if words == LEAF => 0,
            0 => 2,
            _ => self.least_of(words),
        };
        *nodes += 1;
        if !(least..=self.most_of(words)).contains(&count) {
            return breach(format!("node {node} on level {level} has {count} entries"));
        }
        let keys = &n[HEADER..HEADER + count];
        if words == LEAF {
            *entries += count as u64;
            let mut at = from;
            for i in 0..count {
                let e = self.entry(n, i);
                if e.lpn < at || e.sectors == 0 || e.end() > to {
                    return breach(format!("{e:?} is out of order or bounds in node {node}"));
                }
                at = e.end();
            }
            return Ok(());
        }
        if keys[0] != from {
            return breach(format!("node {node} begins at {}, not at {from}", keys[0]));
        }
        for i in 0..count {
            let end = keys.get(i + 1).copied().unwrap_or(to);
            if end <= keys[i] {
                return breach(format!("keys of node {node} are out of order"));
            }
            self.check_node(self.child(node, i), level + 1, keys[i], end, nodes, entries)?;
        }
        Ok(())
    }
}
