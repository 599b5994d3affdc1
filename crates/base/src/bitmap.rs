//! A fixed-size set of small integers.

use std::ops::Range;

/// A set of the integers below a length, a bit each.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BitMap {
    words: Vec<u64>,
    len: usize,
}

impl BitMap {
    /// Of the integers below `len`; empty.
    pub fn new(len: usize) -> BitMap {
        BitMap { words: vec![0; len.div_ceil(64)], len }
    }
    /// How many integers it may hold.
    pub fn len(&self) -> usize {
        self.len
    }
    /// It may hold none: its length is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Whether `i` is in the set.
    pub fn get(&self, i: usize) -> bool {
        debug_assert!(i < self.len);
        self.words[i / 64] >> (i % 64) & 1 == 1
    }
    /// Sets bit `i`; true if it was clear before.
    pub fn set(&mut self, i: usize) -> bool {
        debug_assert!(i < self.len);
        let (word, bit) = (&mut self.words[i / 64], 1 << (i % 64));
        let was_clear = *word & bit == 0;
        *word |= bit;
        was_clear
    }
    /// Clears bit `i`; true if it was set before.
    pub fn clear(&mut self, i: usize) -> bool {
        debug_assert!(i < self.len);
        let (word, bit) = (&mut self.words[i / 64], 1 << (i % 64));
        let was_set = *word & bit != 0;
        *word &= !bit;
        was_set
    }
    /// How many are in the set.
    pub fn count(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }
    /// The first set bit at or after `from`.
    #[inline]
    pub fn next_set(&self, from: usize) -> Option<usize> {
        self.next(from, 0)
    }
    /// The first set bit of a range, of which no more is looked at.
    pub fn first_set(&self, range: Range<usize>) -> Option<usize> {
        let words = range.end.div_ceil(64).min(self.words.len());
        self.find(&self.words[..words], range.start, 0).filter(|&found| found < range.end)
    }
    /// The first clear bit at or after `from`.
    pub fn next_clear(&self, from: usize) -> Option<usize> {
        self.next(from, !0)
    }
    fn next(&self, from: usize, flip: u64) -> Option<usize> {
        self.find(&self.words, from, flip)
    }
    fn find(&self, words: &[u64], from: usize, flip: u64) -> Option<usize> {
        let mut index = from / 64;
        let mut word = (words.get(index)? ^ flip) & (!0 << (from % 64));
        loop {
            if word != 0 {
                let found = index * 64 + word.trailing_zeros() as usize;
                return (found < self.len).then_some(found);
            }
            index += 1;
            word = words.get(index)? ^ flip;
        }
    }
    /// Those in the set, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.next_set(0), |&i| self.next_set(i + 1))
    }
    /// The bits, the lowest first.
    pub fn words(&self) -> &[u64] {
        &self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_bitmap_behaves_as_a_set(len in 1usize..300, ops in prop::collection::vec((any::<bool>(), 0usize..300), 0..200)) {
            let (mut map, mut model) = (BitMap::new(len), BTreeSet::new());
            for (insert, i) in ops {
                let i = i % len;
                if insert { prop_assert_eq!(map.set(i), model.insert(i)); }
                else { prop_assert_eq!(map.clear(i), model.remove(&i)); }
            }
            prop_assert_eq!(map.iter().collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(map.count(), model.len());
            for from in 0..=len {
                prop_assert_eq!(map.next_set(from), model.range(from..).next().copied());
                prop_assert_eq!(map.next_clear(from), (from..len).find(|i| !model.contains(i)));
            }
        }
    }
}
