//! Free blocks by group: bitmaps, and the search for a run of them (fs/ext4/mballoc.c: by goal,
//! then groups with a long enough run, then the longest there is). XFS' by-size and by-block trees
//! answer the same question, over allocation groups.

use wordline_base::{BitMap, IdVec};

/// A block group, or an allocation group.
pub type GroupId = u32;

#[derive(Debug)]
struct Group {
    /// None while nothing of it was taken.
    used: Option<Box<BitMap>>,
    blocks: u32,
    free: u32,
    /// No run in it is longer.
    longest: u32,
}

#[derive(Debug)]
pub struct Space {
    groups: IdVec<GroupId, Group>,
    per_group: u32,
    blocks: u64,
    free: u64,
}

impl Space {
    pub fn new(blocks: u64, per_group: u32) -> Space {
        let whole = blocks / u64::from(per_group);
        let rest = (blocks % u64::from(per_group)) as u32;
        let sizes = (0..whole).map(|_| per_group).chain((rest > 0).then_some(rest));
        let group = |n| Group { used: None, blocks: n, free: n, longest: n };
        Space { groups: sizes.map(group).collect(), per_group, blocks, free: blocks }
    }
    pub fn groups(&self) -> u32 {
        self.groups.count()
    }
    pub fn free(&self) -> u64 {
        self.free
    }
    pub fn group_of(&self, block: u64) -> u32 {
        (block / u64::from(self.per_group)) as u32
    }
    pub fn first_of(&self, group: u32) -> u64 {
        u64::from(group) * u64::from(self.per_group)
    }
    pub fn is_free(&self, block: u64) -> bool {
        let group = &self.groups[self.group_of(block)];
        let at = (block % u64::from(self.per_group)) as usize;
        group.used.as_ref().is_none_or(|u| !u.get(at))
    }

    pub fn take(&mut self, start: u64, len: u32) {
        for block in start..start + u64::from(len) {
            let at = (block % u64::from(self.per_group)) as usize;
            let group = self.group_of(block);
            let group = &mut self.groups[group];
            let n = group.blocks as usize;
            let used = group.used.get_or_insert_with(|| Box::new(BitMap::new(n)));
            assert!(used.set(at), "block {block} is taken twice");
            group.free -= 1;
            self.free -= 1;
        }
    }

    pub fn give(&mut self, start: u64, len: u32) {
        for block in start..start + u64::from(len) {
            let at = (block % u64::from(self.per_group)) as usize;
            let group = self.group_of(block);
            let group = &mut self.groups[group];
            let used = group.used.as_mut().expect("a block that is given back was taken");
            assert!(used.clear(at), "block {block} is freed twice");
            group.free += 1;
            group.longest = group.blocks;
            self.free += 1;
        }
    }

    /// Free blocks from `start` on, `most` at most, within its group.
    fn run_at(&self, start: u64, most: u32) -> u32 {
        let at = (start % u64::from(self.per_group)) as u32;
        let Some(group) = self.groups.get(self.group_of(start)) else { return 0 };
        let most = most.min(group.blocks.saturating_sub(at));
        match &group.used {
            None => most,
            Some(used) => {
                let all = at as usize..(at + most) as usize;
                used.first_set(all).map_or(most, |taken| taken as u32 - at)
            }
        }
    }

    /// The first `want` in one run of a group from block `from` on, or its longest run.
    fn search(&mut self, g: u32, from: u32, want: u32) -> (u32, u32) {
        let group = &mut self.groups[g];
        let Some(used) = &group.used else { return (from, group.blocks - from) };
        let (mut at, mut best) = (from as usize, (0, 0));
        while let Some(start) = used.next_clear(at) {
            let most = (start + want as usize).min(group.blocks as usize);
            let end = used.first_set(start..most).unwrap_or(most);
            let len = (end - start) as u32;
            if len > best.1 {
                best = (start as u32, len);
            }
            if len >= want {
                return best;
            }
            at = end;
        }
        if from == 0 {
            group.longest = best.1;
        }
        best
    }

    /// Takes up to `want` blocks in one run, near `goal`. At the goal itself a shorter run does if
    /// `merge`: it continues a file. None on a full drive.
    pub fn allocate(&mut self, goal: u64, want: u32, merge: bool) -> Option<(u64, u32)> {
        let goal = if goal < self.blocks { goal } else { 0 };
        let at_goal = self.run_at(goal, want);
        if at_goal >= want || merge && at_goal > 0 {
            self.take(goal, at_goal);
            return Some((goal, at_goal));
        }
        let (first, n) = (self.group_of(goal), self.groups());
        for turn in 0..=n {
            let g = (first + turn) % n;
            if self.groups[g].longest < want {
                continue;
            }
            // In the goal's group behind it first, before it at the end of the round.
            let from = if turn == 0 { (goal % u64::from(self.per_group)) as u32 } else { 0 };
            let (at, len) = self.search(g, from, want);
            if len >= want {
                let start = self.first_of(g) + u64::from(at);
                self.take(start, want);
                return Some((start, want));
            }
        }
        // Nowhere so many together: the longest run there is.
        let mut best = (0, 0, 0);
        for turn in 0..n {
            let g = (first + turn) % n;
            if self.groups[g].longest > best.2 {
                let (at, len) = self.search(g, 0, want);
                if len > best.2 {
                    best = (g, at, len);
                }
            }
        }
        if best.2 == 0 {
            return None;
        }
        let (start, len) = (self.first_of(best.0) + u64::from(best.1), best.2.min(want));
        self.take(start, len);
        Some((start, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn extents_are_chosen_by_goal_then_by_length() {
        let mut space = Space::new(300, 100);
        assert_eq!(space.allocate(10, 5, true), Some((10, 5)));
        assert_eq!(space.allocate(10, 5, false), Some((15, 5)));
        space.take(22, 1);
        // Two free at the goal: enough to continue a file, not for a new one.
        assert_eq!(space.allocate(20, 5, true), Some((20, 2)));
        assert_eq!(space.allocate(20, 60, false), Some((23, 60)));
        assert_eq!(space.allocate(20, 60, false), Some((100, 60)));
        assert_eq!(space.allocate(299, 90, false), Some((200, 90)));
        // No run of 50 is left: the longest.
        assert_eq!(space.allocate(0, 50, false), Some((160, 40)));
    }

    proptest! {
        /// No block belongs to two, and taken plus free is all.
        #[test]
        fn allocating_and_freeing_conserve_blocks(ops in prop::collection::vec((any::<bool>(), 0u64..1000, 1u32..80), 1..200)) {
            let mut space = Space::new(950, 100);
            let mut model: BTreeSet<u64> = BTreeSet::new();
            let mut held: Vec<(u64, u32)> = Vec::new();
            for (allocate, goal, want) in ops {
                if allocate {
                    match space.allocate(goal, want, goal % 2 == 0) {
                        Some((start, len)) => {
                            prop_assert!(len >= 1 && len <= want);
                            for block in start..start + u64::from(len) {
                                prop_assert!(block < 950 && model.insert(block));
                            }
                            held.push((start, len));
                        }
                        None => prop_assert_eq!(model.len(), 950),
                    }
                } else if !held.is_empty() {
                    let (start, len) = held.swap_remove(goal as usize % held.len());
                    space.give(start, len);
                    for block in start..start + u64::from(len) {
                        model.remove(&block);
                    }
                }
                prop_assert_eq!(space.free(), 950 - model.len() as u64);
            }
        }
    }
}
