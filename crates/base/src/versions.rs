//! A large array of numbers, most of which are small: a byte each.
//!
//! Versions of sectors count up from one while a drive is aged, and only what a run writes has larger ones.
//! A byte holds what is below 255; it says of others that they are in a table by place. Where those become
//! many in a segment, all of that takes words. A segment whose entries are all the same, as after a fill
//! in order, takes no memory of its entries until one of them is written alone.

use crate::prefetch;
use wordline_huge::Array;

const LEN: usize = 1 << 13;
/// In a byte: the entry is in the table.
const ELSEWHERE: u8 = u8::MAX;
/// Heads of segments whose entries are in bytes, or in words. Others are what all entries are.
const BYTES: u32 = u32::MAX;
const WORDS: u32 = u32::MAX - 1;
/// Entries of a segment in the table, at most.
const MOST: u16 = (LEN / 64) as u16;

/// The array. See the module.
#[derive(Clone, Debug)]
pub struct Versions {
    heads: Vec<u32>,
    /// Zeroed memory, which the system makes real where it is written.
    bytes: Array<u8>,
    /// By segment, those in words.
    words: Vec<Vec<u32>>,
    /// By segment, entries in the table.
    tabled: Vec<u16>,
    table: Table,
}

/// What a [`Versions`] consists of.
#[derive(Debug)]
pub struct VersionParts<'a> {
    /// A word a segment.
    pub heads: &'a [u32],
    /// All entries that are small, if there are any.
    pub bytes: Option<&'a [u8]>,
    /// Those of segments in words, one segment after the other.
    pub words: Vec<u32>,
    /// The others, by place: places and entries.
    pub others: Vec<(u32, u32)>,
}

impl Versions {
    /// So many zeroes.
    pub fn new(len: usize) -> Versions {
        let segments = len.div_ceil(LEN);
        Versions {
            heads: vec![0; segments],
            bytes: Array::zeroed(len),
            words: vec![Vec::new(); segments],
            tabled: vec![0; segments],
            table: Table::default(),
        }
    }
    /// Entries.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
    /// It has no entries.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
    /// Nothing was ever written.
    pub fn is_blank(&self) -> bool {
        self.heads.iter().all(|&head| head == 0)
    }
    /// Bytes beside one an entry, with two slots of the table for each that is in use.
    pub fn beside(&self) -> u64 {
        4 * Versions::words_in(&self.heads) as u64 + 16 * self.table.used as u64
    }
    /// Writes the entry that `next` makes of the one that is there.
    #[inline]
    pub fn update(&mut self, i: usize, next: impl FnOnce(u32) -> u32) -> u32 {
        if self.heads[i / LEN] == BYTES
            && let byte = &mut self.bytes[i]
            && *byte < ELSEWHERE
        {
            let value = next((*byte).into());
            match value < ELSEWHERE.into() {
                true => *byte = value as u8,
                false => self.set_any(i, value),
            }
            return value;
        }
        let value = next(self.get(i));
        self.set(i, value);
        value
    }
    /// Makes entries zero.
    pub fn clear(&mut self, first: usize, n: usize) {
        let (mut at, end) = (first, first + n);
        while at < end {
            let segment = at / LEN;
            let to = end.min(self.within(segment).end);
            match self.heads[segment] {
                0 => {}
                BYTES if self.tabled[segment] == 0 => self.bytes[at..to].fill(0),
                _ => (at..to).for_each(|i| self.set(i, 0)),
            }
            at = to;
        }
    }

    /// The entry; 0 if it was never written.
    #[inline]
    pub fn get(&self, i: usize) -> u32 {
        let head = self.heads[i / LEN];
        if head == BYTES && self.bytes[i] != ELSEWHERE {
            return self.bytes[i].into();
        }
        if head == WORDS {
            return self.words[i / LEN][i % LEN];
        }
        if head == BYTES { self.table.get(i as u32) } else { head }
    }
    /// Says that the entry will be asked for soon.
    #[inline]
    pub fn prefetch(&self, i: usize) {
        match self.heads.get(i / LEN) {
            Some(&BYTES) => prefetch(&self.bytes, i),
            Some(&WORDS) => prefetch(&self.words[i / LEN], i % LEN),
            _ => {}
        }
    }
    /// Writes an entry.
    #[inline]
    pub fn set(&mut self, i: usize, value: u32) {
        let head = self.heads[i / LEN];
        if head == WORDS {
            self.words[i / LEN][i % LEN] = value;
        } else if head == BYTES && value < ELSEWHERE.into() && self.bytes[i] != ELSEWHERE {
            self.bytes[i] = value as u8;
        } else {
            self.set_any(i, value);
        }
    }
    /// The entries of the same segment that are written as bytes: none in the table, none in words.
    fn plain_bytes(&mut self, first: usize, n: usize) -> Option<&mut [u8]> {
        let segment = first / LEN;
        let plain = self.heads[segment] == BYTES && self.tabled[segment] == 0;
        plain.then(|| &mut self.bytes[first..first + n])
    }
    /// How many of `n` entries from `first` on are in its segment.
    fn in_segment(first: usize, n: usize) -> usize {
        n.min(LEN - first % LEN)
    }
    /// Writes entries one after the other, from `first` on.
    pub fn set_each(&mut self, mut first: usize, mut values: &[u32]) {
        while !values.is_empty() {
            let n = Versions::in_segment(first, values.len());
            let (these, rest) = values.split_at(n);
            match self.plain_bytes(first, n) {
                Some(bytes) if these.iter().all(|&value| value < ELSEWHERE.into()) => {
                    bytes.iter_mut().zip(these).for_each(|(byte, &value)| *byte = value as u8);
                }
                _ => (first..).zip(these).for_each(|(i, &value)| self.set(i, value)),
            }
            (first, values) = (first + n, rest);
        }
    }
    /// Copies the entries at these places, one after the other, to `to` and what follows. No place is among
    /// those written.
    pub fn copy(&mut self, mut places: &[u32], mut to: usize) {
        while !places.is_empty() {
            let n = Versions::in_segment(to, places.len());
            let (these, rest) = places.split_at(n);
            let segment = to / LEN;
            let mut done = 0;
            if self.heads[segment] == BYTES && self.tabled[segment] == 0 {
                let (heads, bytes) = (&self.heads, &mut self.bytes[..]);
                for &at in these {
                    let head = heads[at as usize / LEN];
                    let byte = if head == BYTES { bytes[at as usize] } else { head.min(255) as u8 };
                    if byte == ELSEWHERE {
                        break;
                    }
                    bytes[to + done] = byte;
                    done += 1;
                }
            }
            for (i, &at) in (to..).zip(these).skip(done) {
                self.set(i, self.get(at as usize));
            }
            (to, places) = (to + n, rest);
        }
    }
    /// The same of any entry.
    #[inline(never)]
    fn set_any(&mut self, i: usize, value: u32) {
        let segment = i / LEN;
        match self.heads[segment] {
            BYTES => {}
            WORDS => {
                self.words[segment][i % LEN] = value;
                return;
            }
            head if head == value => return,
            _ => {
                self.spread(segment);
                return self.set(i, value);
            }
        }
        let was_tabled = self.bytes[i] == ELSEWHERE;
        if value < ELSEWHERE.into() {
            if was_tabled {
                self.table.remove(i as u32);
                self.tabled[segment] -= 1;
            }
            self.bytes[i] = value as u8;
        } else if was_tabled {
            self.table.put(i as u32, value);
        } else if self.tabled[segment] < MOST {
            self.bytes[i] = ELSEWHERE;
            self.tabled[segment] += 1;
            self.table.put(i as u32, value);
        } else {
            self.widen(segment);
            self.words[segment][i % LEN] = value;
        }
    }
    /// The entries of a segment.
    fn within(&self, segment: usize) -> std::ops::Range<usize> {
        segment * LEN..((segment + 1) * LEN).min(self.len())
    }
    /// Writes out the entries of a segment that are all the same.
    #[cold]
    fn spread(&mut self, segment: usize) {
        let (head, all) = (self.heads[segment], self.within(segment));
        if head < ELSEWHERE.into() {
            self.bytes[all].fill(head as u8);
            self.heads[segment] = BYTES;
        } else {
            self.words[segment] = vec![head; LEN];
            self.heads[segment] = WORDS;
        }
    }
    /// Gives the entries of a segment a word each.
    #[cold]
    fn widen(&mut self, segment: usize) {
        let all = self.within(segment);
        let mut words: Vec<u32> = self.bytes[all].iter().map(|&byte| byte.into()).collect();
        words.resize(LEN, 0);
        for i in self.elsewhere(segment) {
            words[i % LEN] = self.table.get(i as u32);
            self.table.remove(i as u32);
        }
        self.tabled[segment] = 0;
        self.words[segment] = words;
        self.heads[segment] = WORDS;
    }
    /// Takes a segment's entries out of the table.
    fn forget(&mut self, segment: usize) {
        if std::mem::take(&mut self.tabled[segment]) > 0 {
            for i in self.elsewhere(segment) {
                self.table.remove(i as u32);
            }
        }
    }
    /// The places of a segment's entries that are in the table.
    fn elsewhere(&self, segment: usize) -> Vec<usize> {
        // Few are, and a search for one byte takes many at once.
        const AT_ONCE: usize = 64;
        let all = self.within(segment);
        let parts = all.clone().step_by(AT_ONCE).zip(self.bytes[all].chunks(AT_ONCE));
        let parts = parts.filter(|(_, part)| part.contains(&ELSEWHERE));
        let places = parts.flat_map(|(first, part)| {
            (first..).zip(part).filter(|(_, byte)| **byte == ELSEWHERE).map(|(i, _)| i)
        });
        places.collect()
    }

    /// Makes `n` entries from `first` on the same.
    pub fn set_run(&mut self, first: usize, n: usize, value: u32) {
        let (mut at, end) = (first, first + n);
        while at < end {
            let segment = at / LEN;
            let all = self.within(segment);
            let to = end.min(all.end);
            if at == all.start && to == all.end && value < WORDS {
                if self.heads[segment] == BYTES {
                    self.forget(segment);
                }
                self.words[segment] = Vec::new();
                self.heads[segment] = value;
            } else if value >= WORDS || self.heads[segment] != value {
                if self.heads[segment] < WORDS {
                    self.spread(segment);
                }
                let of_bytes = self.heads[segment] == BYTES && self.tabled[segment] == 0;
                if of_bytes && value < ELSEWHERE.into() {
                    self.bytes[at..to].fill(value as u8);
                } else {
                    (at..to).for_each(|i| self.set(i, value));
                }
            }
            at = to;
        }
    }

    /// What it consists of, to be kept in a file.
    pub fn parts(&self) -> VersionParts<'_> {
        let words = self.heads.iter().zip(&self.words).filter(|(head, _)| **head == WORDS);
        let mut others: Vec<_> = self.table.entries().collect();
        others.sort_unstable();
        VersionParts {
            heads: &self.heads,
            bytes: self.heads.contains(&BYTES).then_some(&*self.bytes),
            words: words.flat_map(|(_, words)| words).copied().collect(),
            others,
        }
    }
    /// Words of all segments in words, by their heads.
    pub fn words_in(heads: &[u32]) -> usize {
        heads.iter().filter(|&&head| head == WORDS).count() * LEN
    }
    /// The array of so many entries that consists of these parts; none if they are no array's.
    pub fn of_parts(
        len: usize,
        heads: Vec<u32>,
        bytes: Option<Array<u8>>,
        words: &[u32],
        others: &[[u32; 2]],
    ) -> Option<Versions> {
        let mut versions = Versions::new(0);
        versions.bytes = bytes.unwrap_or_else(|| Array::zeroed(len));
        let fits = versions.len() == len
            && heads.len() == len.div_ceil(LEN)
            && words.len() == Versions::words_in(&heads);
        if !fits {
            return None;
        }
        (versions.tabled, versions.words) = (vec![0; heads.len()], vec![Vec::new(); heads.len()]);
        let of_wide = versions.words.iter_mut().zip(&heads).filter(|(_, head)| **head == WORDS);
        for ((own, _), words) in of_wide.zip(words.chunks_exact(LEN)) {
            *own = words.to_vec();
        }
        versions.heads = heads;
        for &[at, value] in others {
            let segment = at as usize / LEN;
            let fits = (at as usize) < len
                && versions.heads[segment] == BYTES
                && versions.bytes[at as usize] == ELSEWHERE
                && versions.tabled[segment] < MOST;
            if !fits {
                return None;
            }
            versions.tabled[segment] += 1;
            versions.table.put(at, value);
        }
        Some(versions)
    }
}

/// Numbers by number: open addressing, the next slot that is free.
#[derive(Clone, Default, Debug)]
struct Table {
    /// Places plus one; 0 is a free slot. A power of two.
    slots: Vec<(u32, u32)>,
    /// Slots in use.
    used: usize,
}

impl Table {
    fn entries(&self) -> impl Iterator<Item = (u32, u32)> {
        self.slots.iter().filter(|slot| slot.0 != 0).map(|slot| (slot.0 - 1, slot.1))
    }
    /// Where the search for a place begins.
    #[inline]
    fn home(&self, place: u32) -> usize {
        // Neighbours are apart, and the high bits of the product are those that all bits act on.
        let hash = (u64::from(place) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (hash >> 32) as usize & (self.slots.len() - 1)
    }
    /// The slot of a place, or the free one where it would be.
    #[inline]
    fn find(&self, place: u32) -> usize {
        let mut at = self.home(place);
        while self.slots[at].0 != 0 && self.slots[at].0 != place + 1 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        at
    }
    /// What is there; 0 if nothing is.
    #[inline(never)]
    fn get(&self, place: u32) -> u32 {
        if self.slots.is_empty() { 0 } else { self.slots[self.find(place)].1 }
    }
    fn put(&mut self, place: u32, value: u32) {
        if 4 * (self.used + 1) > 3 * self.slots.len() {
            self.grow();
        }
        let at = self.find(place);
        self.used += usize::from(self.slots[at].0 == 0);
        self.slots[at] = (place + 1, value);
    }
    #[cold]
    fn grow(&mut self) {
        let size = (2 * self.slots.len()).max(64);
        let old = std::mem::replace(&mut self.slots, vec![(0, 0); size]);
        for slot in old.into_iter().filter(|slot| slot.0 != 0) {
            let at = self.find(slot.0 - 1);
            self.slots[at] = slot;
        }
    }
    /// Closes the gap that it leaves.
    fn remove(&mut self, place: u32) {
        let mask = self.slots.len() - 1;
        let mut gap = self.find(place);
        if self.slots[gap].0 == 0 {
            return;
        }
        self.used -= 1;
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot.0 == 0 {
                break;
            }
            // It may move up if its search passes the gap.
            let home = self.home(slot.0 - 1);
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(gap) & mask) {
                self.slots[gap] = slot;
                gap = at;
            }
        }
        self.slots[gap] = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Holds it against a plain array, and its copy made of its parts as well.
    fn is_plain(versions: &Versions, plain: &[u32]) {
        assert!((0..plain.len()).all(|i| versions.get(i) == plain[i]));
        let parts = versions.parts();
        let others: Vec<_> = parts.others.iter().map(|&(at, value)| [at, value]).collect();
        let bytes = parts.bytes.map(|bytes| Array::from(bytes.to_vec()));
        let heads = parts.heads.to_vec();
        let copy = Versions::of_parts(plain.len(), heads, bytes, &parts.words, &others);
        let copy = copy.expect("parts of an array");
        assert!((0..plain.len()).all(|i| copy.get(i) == plain[i]));
        assert_eq!((copy.table.used, &copy.tabled), (versions.table.used, &versions.tabled));
        let tabled: usize = versions.tabled.iter().map(|&n| usize::from(n)).sum();
        assert_eq!(versions.table.used, tabled);
    }

    #[test]
    fn versions_behave_as_a_plain_array() {
        for seed in 0..4 {
            println!("seed {seed}");
            let len = 5 * LEN + 77;
            let (mut versions, mut plain) = (Versions::new(len), vec![0u32; len]);
            let mut rng = Rng::from_seed(seed);
            assert!(versions.is_blank());
            for _ in 0..30_000 {
                let first = rng.below(len as u64) as usize;
                let (n, value) = match rng.below(2000) {
                    0 => (1 + rng.below((len - first) as u64) as usize, rng.below(300) as u32),
                    1 => (3 * LEN, 0),
                    _ => match rng.below(8) {
                        // More of them in some segments than the table has room for.
                        0 => (1, rng.next_u64() as u32),
                        1 => (1, 255 + rng.below(3) as u32),
                        _ => (1, rng.below(255) as u32),
                    },
                };
                if rng.below(20) == 0 {
                    let n = 1 + rng.below(400) as usize;
                    let to = rng.below((len - n) as u64) as usize;
                    let large = rng.below(8) == 0;
                    let value = |rng: &mut Rng| rng.below(if large { 400 } else { 200 }) as u32;
                    let values: Vec<u32> = (0..n).map(|_| value(&mut rng)).collect();
                    versions.set_each(to, &values);
                    plain[to..to + n].copy_from_slice(&values);
                    let elsewhere = |at: &u32| !(to..to + n).contains(&(*at as usize));
                    let places: Vec<u32> =
                        (0..n).map(|_| rng.below(len as u64) as u32).filter(elsewhere).collect();
                    versions.copy(&places, to);
                    for (i, &at) in (to..).zip(&places) {
                        plain[i] = plain[at as usize];
                    }
                }
                let first = if rng.below(2) == 0 { first % LEN } else { first };
                let n = n.min(len - first);
                match n {
                    1 => versions.set(first, value),
                    n => versions.set_run(first, n, value),
                }
                plain[first..first + n].fill(value);
                let at = rng.below(len as u64) as usize;
                assert_eq!(versions.get(at), plain[at]);
            }
            assert!(!versions.is_blank());
            is_plain(&versions, &plain);
        }
    }

    #[test]
    fn equal_versions_touch_no_entries_and_few_large_ones_take_little() {
        let mut versions = Versions::new(100 * LEN);
        versions.set_run(0, 90 * LEN, 1);
        versions.set(5, 1);
        assert!(versions.heads.iter().all(|&head| head != BYTES));
        assert_eq!(versions.beside(), 0);
        (0..90).for_each(|i| versions.set(i * LEN, 1 << 30));
        assert_eq!(
            (versions.get(LEN), versions.get(LEN + 1), versions.get(99 * LEN)),
            (1 << 30, 1, 0)
        );
        assert!(versions.beside() < 4096, "{}", versions.beside());
        (0..LEN).for_each(|i| versions.set(i, 1 << 30));
        assert_eq!(versions.heads[0], WORDS);
        let before = versions.beside();
        versions.set_run(0, LEN, 7);
        assert_eq!(versions.beside(), before - 4 * LEN as u64);
    }
}
