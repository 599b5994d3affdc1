//! A cache of equal pages, the least recently used first to go.

use wordline_base::IdVec;
use wordline_base::rng::splitmix64;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    key: u64,
    newer: u32,
    older: u32,
}

/// Memory grows with what is in it: nodes in a list by age, found through an open hash table.
#[derive(Clone, Debug)]
pub struct Lru {
    capacity: usize,
    nodes: IdVec<u32, Node>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    /// Indices of nodes, at most half of the slots in use.
    table: Vec<u32>,
    len: usize,
}

impl Lru {
    /// Room for so many keys.
    pub fn new(capacity: usize) -> Lru {
        Lru {
            capacity,
            nodes: IdVec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            table: vec![NONE; 16],
            len: 0,
        }
    }
    /// Keys in it.
    pub fn len(&self) -> usize {
        self.len
    }
    /// It has no key.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Keys that it has room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    fn slot_of(&self, key: u64) -> usize {
        splitmix64(key) as usize & (self.table.len() - 1)
    }
    /// The slot that holds the key, or the free one where it would go.
    fn find(&self, key: u64) -> usize {
        let mut slot = self.slot_of(key);
        while self.table[slot] != NONE && self.nodes[self.table[slot]].key != key {
            slot = (slot + 1) & (self.table.len() - 1);
        }
        slot
    }

    /// The key is in it, whenever it was used last.
    pub fn contains(&self, key: u64) -> bool {
        self.table[self.find(key)] != NONE
    }

    /// Makes the key the newest; false if it is not there.
    pub fn touch(&mut self, key: u64) -> bool {
        let i = self.table[self.find(key)];
        if i == NONE {
            return false;
        }
        self.unlink(i);
        self.link(i);
        true
    }

    /// Adds a key as the newest, whatever the capacity; true if it was not there.
    pub fn insert(&mut self, key: u64) -> bool {
        if self.touch(key) {
            return false;
        }
        if 2 * (self.len + 1) > self.table.len() {
            self.grow();
        }
        let node = Node { key, newer: NONE, older: NONE };
        let i = match self.free.pop() {
            Some(i) => {
                self.nodes[i] = node;
                i
            }
            None => {
                self.nodes.push(node);
                self.nodes.count() - 1
            }
        };
        let slot = self.find(key);
        self.table[slot] = i;
        self.link(i);
        self.len += 1;
        true
    }

    /// Adds a key and drops what then is too much: a cache whose pages cost nothing to drop.
    pub fn put(&mut self, key: u64) {
        if self.capacity == 0 {
            return;
        }
        self.insert(key);
        if self.len > self.capacity {
            self.pop();
        }
    }

    /// The key used longest ago.
    pub fn oldest(&self) -> Option<u64> {
        (self.oldest != NONE).then(|| self.nodes[self.oldest].key)
    }
    /// Keys from the oldest on.
    pub fn by_age(&self) -> impl Iterator<Item = u64> + '_ {
        let mut at = self.oldest;
        std::iter::from_fn(move || {
            let node = self.nodes.get(at)?;
            at = node.newer;
            Some(node.key)
        })
    }
    /// Takes the key used longest ago.
    pub fn pop(&mut self) -> Option<u64> {
        let key = self.oldest()?;
        self.remove(key);
        Some(key)
    }

    /// Takes a key out; tells whether it was in.
    pub fn remove(&mut self, key: u64) -> bool {
        let mut hole = self.find(key);
        let i = self.table[hole];
        if i == NONE {
            return false;
        }
        self.unlink(i);
        self.free.push(i);
        self.len -= 1;
        // Moves up what stands behind the hole and belongs at or before it.
        let mask = self.table.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let next = self.table[at];
            if next == NONE {
                break;
            }
            let home = self.slot_of(self.nodes[next].key);
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.table[hole] = next;
                hole = at;
            }
        }
        self.table[hole] = NONE;
        true
    }

    fn grow(&mut self) {
        self.table = vec![NONE; 2 * self.table.len()];
        let mut i = self.oldest;
        while i != NONE {
            let slot = self.find(self.nodes[i].key);
            self.table[slot] = i;
            i = self.nodes[i].newer;
        }
    }

    fn link(&mut self, i: u32) {
        let before = std::mem::replace(&mut self.newest, i);
        let node = &mut self.nodes[i];
        (node.newer, node.older) = (NONE, before);
        match before {
            NONE => self.oldest = i,
            before => self.nodes[before].newer = i,
        }
    }
    fn unlink(&mut self, i: u32) {
        let Node { newer, older, .. } = self.nodes[i];
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::Rng;

    #[test]
    fn an_lru_evicts_as_an_ordered_list_of_keys_does() {
        for seed in 0..100 {
            let mut rng = Rng::from_seed(seed);
            let capacity = 1 + rng.below(40) as usize;
            let (mut lru, mut model) = (Lru::new(capacity), Vec::<u64>::new());
            for _ in 0..2000 {
                let key = rng.below(60);
                let there = model.iter().position(|&k| k == key);
                match rng.below(4) {
                    0 => {
                        assert_eq!(lru.touch(key), there.is_some(), "seed {seed}");
                        if let Some(i) = there {
                            model.remove(i);
                            model.push(key);
                        }
                    }
                    1 => {
                        assert_eq!(lru.remove(key), there.is_some(), "seed {seed}");
                        if let Some(i) = there {
                            model.remove(i);
                        }
                    }
                    _ => {
                        lru.put(key);
                        if let Some(i) = there {
                            model.remove(i);
                        }
                        model.push(key);
                        if model.len() > capacity {
                            model.remove(0);
                        }
                    }
                }
                assert_eq!(lru.by_age().collect::<Vec<_>>(), model, "seed {seed}");
                assert_eq!(lru.len(), model.len());
            }
        }
    }
}
