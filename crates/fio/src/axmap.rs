//! The random map: which blocks of a file this pass has already touched, as a bitmap under bitmaps.
//! A set bit of one level says that a word of the level below is full, so that the next free block
//! is found in a few steps even when the map is almost full.

const WORD_BITS: u64 = 64;
/// Levels longer than this are taken fresh from the allocator instead of being cleared.
const CLEAR_WORDS_MAX: usize = 1 << 16;

/// A hierarchical bitmap over `0..len`. Fresh levels are zeroed lazily by the allocator, so that a
/// map over terabytes costs memory only where it is written.
#[derive(Clone, Debug)]
pub struct AxMap {
    levels: Vec<Vec<u64>>,
    len: u64,
}

impl AxMap {
    /// With all of `0..len` free.
    pub fn new(len: u64) -> AxMap {
        let mut levels = Vec::new();
        let mut words = len.div_ceil(WORD_BITS).max(1);
        loop {
            levels.push(vec![0u64; words as usize]);
            if words == 1 {
                break;
            }
            words = words.div_ceil(WORD_BITS);
        }
        AxMap { levels, len }
    }

    /// Blocks it covers, free or not.
    pub fn len(&self) -> u64 {
        self.len
    }
    /// It covers no block.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Frees every block again.
    pub fn reset(&mut self) {
        for level in &mut self.levels {
            if level.len() <= CLEAR_WORDS_MAX {
                level.fill(0);
            } else {
                *level = vec![0; level.len()];
            }
        }
    }

    /// Blocks beyond the end count as free: the bounds checks on the offset catch those.
    #[inline]
    pub fn is_set(&self, bit: u64) -> bool {
        bit < self.len && self.levels[0][(bit / WORD_BITS) as usize] >> (bit % WORD_BITS) & 1 == 1
    }

    /// Sets up to `count` free blocks from `bit` on and stops before the first one already set.
    /// Returns how many were set. As in fio a run may spill over the end into the last word, which
    /// is how a last block that is longer than the rest of the file keeps its length.
    pub fn set_run(&mut self, bit: u64, count: u64) -> u64 {
        let mut done = 0;
        while done < count {
            let at = bit + done;
            if at > self.len || at / WORD_BITS >= self.levels[0].len() as u64 {
                break;
            }
            let in_word = (WORD_BITS - at % WORD_BITS).min(count - done);
            let mask = (u64::MAX >> (WORD_BITS - in_word)) << (at % WORD_BITS);
            let word = &mut self.levels[0][(at / WORD_BITS) as usize];
            let taken = *word & mask;
            let free = if taken == 0 {
                in_word
            } else {
                u64::from(taken.trailing_zeros()) - at % WORD_BITS
            };
            if free > 0 {
                *word |= (u64::MAX >> (WORD_BITS - free)) << (at % WORD_BITS);
                if *word == u64::MAX {
                    self.mark_full(at / WORD_BITS);
                }
            }
            done += free;
            if free < in_word {
                break;
            }
        }
        done
    }

    fn mark_full(&mut self, mut word: u64) {
        for level in &mut self.levels[1..] {
            let parent = &mut level[(word / WORD_BITS) as usize];
            *parent |= 1 << (word % WORD_BITS);
            if *parent != u64::MAX {
                return;
            }
            word /= WORD_BITS;
        }
    }

    /// The first free block after `bit`, wrapping round at the end; None when the map is full.
    pub fn next_free(&self, bit: u64) -> Option<u64> {
        if bit >= self.len {
            return None;
        }
        let next = if bit + 1 == self.len { 0 } else { bit + 1 };
        self.first_free_from(next).or_else(|| self.first_free_from(0))
    }

    fn first_free_from(&self, from: u64) -> Option<u64> {
        let mut index = 0;
        for depth in (0..self.levels.len()).rev() {
            let level = &self.levels[depth];
            // What the level above found, but not before the bit asked for.
            index = (index * WORD_BITS).max(from >> (6 * depth));
            let mut word = (index / WORD_BITS) as usize;
            let mut free = !*level.get(word)? & (u64::MAX << (index % WORD_BITS));
            while free == 0 {
                word += 1;
                free = !*level.get(word)?;
            }
            index = word as u64 * WORD_BITS + u64::from(free.trailing_zeros());
        }
        (index < self.len).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn model_next(model: &[bool], bit: usize) -> Option<u64> {
        let n = model.len();
        (1..=n).map(|k| (bit + k) % n).find(|&b| !model[b]).map(|b| b as u64)
    }

    proptest! {
        #[test]
        fn the_map_of_blocks_agrees_with_a_list_of_flags(
            len in 1usize..9_000,
            runs in prop::collection::vec((0usize..9_000, 1u64..200), 1..200),
        ) {
            let mut map = AxMap::new(len as u64);
            let words = len.div_ceil(64);
            let mut model = vec![false; words * 64];
            for (at, count) in runs {
                let at = at % len;
                let free = model[at..].iter().take(count as usize).take_while(|b| !**b).count();
                let set = map.set_run(at as u64, count);
                prop_assert_eq!(set, free as u64);
                model[at..at + free].fill(true);
                prop_assert_eq!(map.next_free(at as u64), model_next(&model[..len], at));
                prop_assert!(map.is_set(at as u64));
            }
        }
    }

    #[test]
    fn a_full_map_has_no_free_block_until_it_is_reset() {
        let mut map = AxMap::new(300_000);
        assert_eq!(map.set_run(0, 300_000), 300_000);
        assert!(!map.is_empty());
        assert_eq!(map.next_free(5), None);
        map.reset();
        assert!(!map.is_set(5));
        assert_eq!(map.next_free(299_999), Some(0));
    }
}
