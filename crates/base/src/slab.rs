//! Numbered records with reuse: stable `u32` keys, the last freed given out first. A freed record
//! stays as it is until its key is given out again.

use crate::IdVec;

/// The records. See the module.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    items: IdVec<u32, T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { items: IdVec::new(), free: Vec::new() }
    }
}

impl<T: Copy> Slab<T> {
    /// With room for `n` records.
    pub fn with_capacity(n: usize) -> Slab<T> {
        Slab { items: Vec::with_capacity(n).into(), free: Vec::with_capacity(n) }
    }
    /// Keeps a record; its key.
    #[inline(always)]
    pub fn insert(&mut self, item: T) -> u32 {
        match self.free.pop() {
            Some(key) => {
                self.items[key] = item;
                key
            }
            None => self.grow(item),
        }
    }
    #[cold]
    #[inline(never)]
    fn grow(&mut self, item: T) -> u32 {
        self.items.push(item);
        self.items.count() - 1
    }
    /// Frees a record and returns it. A key that is free is a panic in tests.
    #[inline]
    pub fn remove(&mut self, key: u32) -> T {
        debug_assert!(!self.free.contains(&key), "{key} was freed twice");
        self.free.push(key);
        self.items[key]
    }
    /// All records with their keys, the free ones as they were left.
    pub fn records(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.items)
    }
    /// Records that are kept.
    pub fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }
    /// No record is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    #[track_caller]
    fn index(&self, key: u32) -> &T {
        &self.items[key]
    }
}
impl<T> std::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    #[track_caller]
    fn index_mut(&mut self, key: u32) -> &mut T {
        &mut self.items[key]
    }
}
