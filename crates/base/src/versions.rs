//! A large array of numbers, most of which are small: half a byte each.
//!
//! Versions of sectors count up from one while a drive is aged, and only what a run writes has larger ones.
//! A nibble holds what is below 15; it says of others that they are in a table by place. Where those become
//! many in a segment, all of that takes bytes, which hold what is below 255, or words. A segment whose
//! entries are all the same, as after a fill in order, takes no memory of its entries until one of them is
//! written alone.

use crate::prefetch;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use wordline_huge::Array;

const LEN: usize = 1 << 13;
/// Nibbles and bytes from there on say that the entry is in the table.
const IN_NIBBLES: u32 = 15;
const IN_BYTES: u32 = 255;
/// Heads of segments whose entries are in nibbles, in bytes or in words. Others are what all entries are.
const NIBBLES: u32 = u32::MAX;
const BYTES: u32 = u32::MAX - 1;
const WORDS: u32 = u32::MAX - 2;
/// Entries of a segment in the table, at most.
const MOST: u16 = (LEN / 64) as u16;
/// Entries that are copied at a time.
const PART: usize = 256;

/// The array. See the module.
#[derive(Clone, Debug)]
pub struct Versions {
    len: usize,
    heads: Vec<u32>,
    /// Two entries a byte, the first of them low. Zeroed memory, which the system makes real where it is
    /// written.
    nibbles: Array<u8>,
    /// By segment, those in bytes.
    bytes: Vec<Vec<u8>>,
    /// By segment, those in words.
    words: Vec<Vec<u32>>,
    /// By segment, entries in the table.
    tabled: Vec<u16>,
    table: Table,
}

/// The entries of a [`Versions`], for several threads that copy to different places.
#[derive(Clone, Copy, Debug)]
pub struct SharedVersions<'a> {
    heads: &'a [u32],
    tabled: &'a [u16],
    nibbles: &'a [AtomicU8],
}

impl SharedVersions<'_> {
    /// Copies as [`Versions::copy`] does what it can, which is what is below 15. Two threads must not
    /// write the entries of a byte. Those that are left go to `left`: the place and where it goes.
    pub fn copy(&self, places: &[u32], to: usize, left: &mut Vec<(u32, u32)>) {
        let mut part = [0; PART];
        for (places, to) in places.chunks(PART).zip((to..).step_by(PART)) {
            let mut most = 0;
            for (small, &at) in part.iter_mut().zip(places) {
                let at = at as usize;
                *small = match self.heads[at / LEN] {
                    NIBBLES => self.nibbles[at / 2].load(Relaxed) >> (4 * (at % 2)) & 15,
                    head => head.min(IN_NIBBLES) as u8,
                };
                most = most.max(*small);
            }
            let mut segments = to / LEN..=(to + places.len() - 1) / LEN;
            let plain = segments.all(|s| self.heads[s] == NIBBLES && self.tabled[s] == 0);
            if plain && u32::from(most) < IN_NIBBLES {
                self.put(to, &part[..places.len()]);
            } else {
                left.extend(places.iter().copied().zip(to as u32..));
            }
        }
    }
    fn put(&self, mut to: usize, mut values: &[u8]) {
        let put_one = |at: usize, value: u8| {
            let (byte, shift) = (&self.nibbles[at / 2], 4 * (at % 2));
            byte.store(byte.load(Relaxed) & !(15 << shift) | value << shift, Relaxed);
        };
        if to % 2 == 1
            && let Some((&value, rest)) = values.split_first()
        {
            put_one(to, value);
            (to, values) = (to + 1, rest);
        }
        let (pairs, rest) = values.as_chunks::<2>();
        let bytes = self.nibbles[to / 2..].iter().zip(pairs);
        bytes.for_each(|(byte, [low, high])| byte.store(low | high << 4, Relaxed));
        if let [value] = rest {
            put_one(to + values.len() - 1, *value);
        }
    }
}

/// What a [`Versions`] consists of.
#[derive(Debug)]
pub struct VersionParts<'a> {
    /// A word a segment.
    pub heads: &'a [u32],
    /// All entries that are small, two a byte, if there are any.
    pub nibbles: Option<&'a [u8]>,
    /// Those of segments in bytes, one segment after the other.
    pub bytes: Vec<u8>,
    /// Those of segments in words, one segment after the other.
    pub words: Vec<u32>,
    /// The others, by place: places and entries.
    pub others: Vec<(u32, u32)>,
}

/// Both nibbles of a byte.
const fn twice(nibble: u8) -> u8 {
    nibble | nibble << 4
}

#[inline]
fn nibble(nibbles: &[u8], i: usize) -> u8 {
    nibbles[i / 2] >> (4 * (i % 2)) & 15
}

#[inline]
fn put_nibble(nibbles: &mut [u8], i: usize, value: u8) {
    let (byte, shift) = (&mut nibbles[i / 2], 4 * (i % 2));
    *byte = *byte & !(15 << shift) | value << shift;
}

/// Makes entries the same.
fn fill_nibbles(nibbles: &mut [u8], mut from: usize, mut to: usize, value: u8) {
    if from < to && from % 2 == 1 {
        put_nibble(nibbles, from, value);
        from += 1;
    }
    if from < to && to % 2 == 1 {
        to -= 1;
        put_nibble(nibbles, to, value);
    }
    nibbles[from / 2..to / 2].fill(twice(value));
}

/// Writes entries one after the other.
fn put_nibbles(nibbles: &mut [u8], mut first: usize, mut values: &[u8]) {
    if first % 2 == 1
        && let Some((&value, rest)) = values.split_first()
    {
        put_nibble(nibbles, first, value);
        (first, values) = (first + 1, rest);
    }
    let (pairs, rest) = values.as_chunks::<2>();
    let out = &mut nibbles[first / 2..];
    out.iter_mut().zip(pairs).for_each(|(byte, [low, high])| *byte = low | high << 4);
    if let [value] = rest {
        put_nibble(nibbles, first + values.len() - 1, *value);
    }
}

impl Versions {
    /// So many zeroes.
    pub fn new(len: usize) -> Versions {
        let segments = len.div_ceil(LEN);
        Versions {
            len,
            heads: vec![0; segments],
            nibbles: Array::zeroed(len.div_ceil(2)),
            bytes: vec![Vec::new(); segments],
            words: vec![Vec::new(); segments],
            tabled: vec![0; segments],
            table: Table::default(),
        }
    }
    /// Entries all over the array are going to be written alone: their memory is had at once.
    pub fn populate(&mut self) {
        self.nibbles.populate();
    }
    /// Entries.
    pub fn len(&self) -> usize {
        self.len
    }
    /// It has no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Nothing was ever written.
    pub fn is_blank(&self) -> bool {
        self.heads.iter().all(|&head| head == 0)
    }
    /// Bytes of so many entries that are all small.
    pub fn least(entries: u64) -> u64 {
        entries.div_ceil(2)
    }
    /// Bytes beside those, with two slots of the table for each that is in use.
    pub fn beside(&self) -> u64 {
        let (bytes, words) = Versions::wide_in(&self.heads);
        (bytes + 4 * words + 16 * self.table.used) as u64
    }
    /// Writes the entry that `next` makes of the one that is there.
    #[inline]
    pub fn update(&mut self, i: usize, next: impl FnOnce(u32) -> u32) -> u32 {
        if self.heads[i / LEN] == NIBBLES {
            let (byte, shift) = (&mut self.nibbles[i / 2], 4 * (i % 2));
            let before = u32::from(*byte >> shift & 15);
            if before < IN_NIBBLES {
                let value = next(before);
                match value < IN_NIBBLES {
                    true => *byte = *byte & !(15 << shift) | (value as u8) << shift,
                    false => self.set_any(i, value),
                }
                return value;
            }
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
                NIBBLES if self.tabled[segment] == 0 => fill_nibbles(&mut self.nibbles, at, to, 0),
                _ => (at..to).for_each(|i| self.set(i, 0)),
            }
            at = to;
        }
    }

    /// The entry; 0 if it was never written.
    #[inline(always)]
    pub fn get(&self, i: usize) -> u32 {
        let head = self.heads[i / LEN];
        if head == NIBBLES {
            let small = nibble(&self.nibbles, i).into();
            if small < IN_NIBBLES {
                return small;
            }
        } else if head < WORDS {
            return head;
        } else if head == WORDS {
            return self.words[i / LEN][i % LEN];
        }
        self.get_any(i)
    }
    /// An entry that [`Versions::get`] does not find at once.
    #[inline(never)]
    fn get_any(&self, i: usize) -> u32 {
        let segment = i / LEN;
        match self.heads[segment] {
            NIBBLES | BYTES => match self.small(i) {
                (small, limit) if small < limit => small,
                _ => self.table.get(i as u32),
            },
            WORDS => self.words[segment][i % LEN],
            head => head,
        }
    }
    /// The entry in the nibbles or bytes of its segment, and the mark of those that are in the table.
    fn small(&self, i: usize) -> (u32, u32) {
        match self.heads[i / LEN] {
            NIBBLES => (nibble(&self.nibbles, i).into(), IN_NIBBLES),
            _ => (self.bytes[i / LEN][i % LEN].into(), IN_BYTES),
        }
    }
    fn put_small(&mut self, i: usize, value: u32) {
        match self.heads[i / LEN] {
            NIBBLES => put_nibble(&mut self.nibbles, i, value as u8),
            _ => self.bytes[i / LEN][i % LEN] = value as u8,
        }
    }
    /// Says that the entry will be asked for soon.
    #[inline]
    pub fn prefetch(&self, i: usize) {
        match self.heads.get(i / LEN) {
            Some(&NIBBLES) => prefetch(&self.nibbles, i / 2),
            Some(&BYTES) => prefetch(&self.bytes[i / LEN], i % LEN),
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
        } else if head == NIBBLES
            && value < IN_NIBBLES
            && u32::from(nibble(&self.nibbles, i)) < IN_NIBBLES
        {
            put_nibble(&mut self.nibbles, i, value as u8);
        } else {
            self.set_any(i, value);
        }
    }
    /// All entries of the segment are in nibbles.
    fn is_plain(&self, segment: usize) -> bool {
        self.heads[segment] == NIBBLES && self.tabled[segment] == 0
    }
    /// How many of `n` entries from `first` on are in its segment, if they are copied in parts.
    fn in_part(first: usize, n: usize) -> usize {
        n.min(LEN - first % LEN).min(PART)
    }
    /// Writes entries one after the other, from `first` on.
    pub fn set_each(&mut self, mut first: usize, mut values: &[u32]) {
        while !values.is_empty() {
            let n = Versions::in_part(first, values.len());
            let (these, rest) = values.split_at(n);
            if self.is_plain(first / LEN) && these.iter().all(|&value| value < IN_NIBBLES) {
                let mut part = [0; PART];
                part.iter_mut().zip(these).for_each(|(small, &value)| *small = value as u8);
                put_nibbles(&mut self.nibbles, first, &part[..n]);
            } else {
                (first..).zip(these).for_each(|(i, &value)| self.set(i, value));
            }
            (first, values) = (first + n, rest);
        }
    }
    /// Copies the entries at these places, one after the other, to `to` and what follows. No place is among
    /// those written.
    pub fn copy(&mut self, mut places: &[u32], mut to: usize) {
        while !places.is_empty() {
            let n = Versions::in_part(to, places.len());
            let (these, rest) = places.split_at(n);
            let mut part = [0; PART];
            let mut most = 0;
            for (small, &at) in part.iter_mut().zip(these) {
                *small = match self.heads[at as usize / LEN] {
                    NIBBLES => nibble(&self.nibbles, at as usize),
                    head => head.min(IN_NIBBLES) as u8,
                };
                most = most.max(*small);
            }
            if self.is_plain(to / LEN) && u32::from(most) < IN_NIBBLES {
                put_nibbles(&mut self.nibbles, to, &part[..n]);
            } else {
                (to..).zip(these).for_each(|(i, &at)| self.set(i, self.get(at as usize)));
            }
            (to, places) = (to + n, rest);
        }
    }
    /// The entries, for several threads. Those of `written` are going to be written.
    pub fn shared(&mut self, written: &[(u32, u32)]) -> SharedVersions<'_> {
        for &(first, n) in written {
            for segment in first as usize / LEN..((first + n) as usize).div_ceil(LEN) {
                if self.heads[segment] < WORDS {
                    self.spread(segment);
                }
            }
        }
        let Versions { heads, tabled, nibbles, .. } = self;
        SharedVersions { heads, tabled, nibbles: nibbles.shared() }
    }
    /// Writes an entry that [`Versions::set`] cannot put in its place.
    #[inline(never)]
    fn set_any(&mut self, i: usize, value: u32) {
        let segment = i / LEN;
        match self.heads[segment] {
            NIBBLES | BYTES => {}
            WORDS => {
                self.words[segment][i % LEN] = value;
                return;
            }
            head if head == value => return,
            _ => {
                self.spread(segment);
                return self.set_any(i, value);
            }
        }
        let (small, limit) = self.small(i);
        let was_tabled = small == limit;
        if value < limit {
            if was_tabled {
                self.table.remove(i as u32);
                self.tabled[segment] -= 1;
            }
            self.put_small(i, value);
        } else if was_tabled {
            self.table.put(i as u32, value);
        } else if self.tabled[segment] < MOST {
            self.put_small(i, limit);
            self.tabled[segment] += 1;
            self.table.put(i as u32, value);
        } else {
            self.widen(segment, value);
            self.set_any(i, value);
        }
    }
    /// The entries of a segment.
    fn within(&self, segment: usize) -> std::ops::Range<usize> {
        segment * LEN..((segment + 1) * LEN).min(self.len)
    }
    /// Writes out the entries of a segment that are all the same.
    #[cold]
    fn spread(&mut self, segment: usize) {
        let (head, all) = (self.heads[segment], self.within(segment));
        if head < IN_NIBBLES {
            fill_nibbles(&mut self.nibbles, all.start, all.end, head as u8);
            self.heads[segment] = NIBBLES;
        } else if head < IN_BYTES {
            self.bytes[segment] = vec![head as u8; LEN];
            self.heads[segment] = BYTES;
        } else {
            self.words[segment] = vec![head; LEN];
            self.heads[segment] = WORDS;
        }
    }
    /// Gives the entries of a segment a byte each if few are too large for that, of those in the table and
    /// the one to come; else a word each.
    #[cold]
    fn widen(&mut self, segment: usize, coming: u32) {
        let mut words = vec![0; LEN];
        if self.heads[segment] == NIBBLES {
            let nibbles = &self.nibbles[segment * LEN / 2..self.within(segment).end.div_ceil(2)];
            for ([low, high], byte) in words.as_chunks_mut().0.iter_mut().zip(nibbles) {
                (*low, *high) = (u32::from(byte & 15), u32::from(byte >> 4));
            }
        } else {
            words
                .iter_mut()
                .zip(&self.bytes[segment])
                .for_each(|(word, &byte)| *word = byte.into());
        }
        for i in self.elsewhere(segment) {
            words[i % LEN] = self.table.get(i as u32);
        }
        let large = words.iter().chain([&coming]).filter(|&&word| word >= IN_BYTES).count();
        let in_bytes = self.heads[segment] == NIBBLES && large <= usize::from(MOST / 2);
        self.forget(segment);
        if !in_bytes {
            self.bytes[segment] = Vec::new();
            self.words[segment] = words;
            self.heads[segment] = WORDS;
            return;
        }
        self.bytes[segment] = words.iter().map(|&word| word.min(IN_BYTES) as u8).collect();
        self.heads[segment] = BYTES;
        for (i, word) in (segment * LEN..).zip(words).filter(|(_, word)| *word >= IN_BYTES) {
            self.table.put(i as u32, word);
            self.tabled[segment] += 1;
        }
    }
    /// Takes a segment's entries out of the table.
    fn forget(&mut self, segment: usize) {
        if self.tabled[segment] > 0 {
            for i in self.elsewhere(segment) {
                self.table.remove(i as u32);
            }
            self.tabled[segment] = 0;
        }
    }
    /// The places of a segment's entries that are in the table.
    fn elsewhere(&self, segment: usize) -> Vec<usize> {
        // Few are, and a look at many bytes at once is short.
        const AT_ONCE: usize = 64;
        let all = self.within(segment);
        if self.tabled[segment] == 0 {
            return Vec::new();
        }
        let is_tabled = |&i: &usize| {
            let (small, limit) = self.small(i);
            small == limit
        };
        let (bytes, each): (&[u8], usize) = match self.heads[segment] {
            NIBBLES => (&self.nibbles[all.start / 2..all.end.div_ceil(2)], 2),
            _ => (&self.bytes[segment], 1),
        };
        let may_be = |byte: &u8| match each {
            2 => byte & 15 == 15 || byte >> 4 == 15,
            _ => *byte == u8::MAX,
        };
        let mut places = Vec::with_capacity(self.tabled[segment].into());
        for (part, first) in bytes.chunks(AT_ONCE).zip(all.clone().step_by(AT_ONCE * each)) {
            if part.iter().fold(false, |any, byte| any | may_be(byte)) {
                let end = all.end.min(first + AT_ONCE * each);
                places.extend((first..end).filter(is_tabled));
            }
        }
        places
    }

    /// Makes `n` entries from `first` on the same.
    pub fn set_run(&mut self, first: usize, n: usize, value: u32) {
        let (mut at, end) = (first, first + n);
        while at < end {
            let segment = at / LEN;
            let all = self.within(segment);
            let to = end.min(all.end);
            if at == all.start && to == all.end && value < WORDS {
                self.forget(segment);
                (self.bytes[segment], self.words[segment]) = (Vec::new(), Vec::new());
                self.heads[segment] = value;
            } else if value >= WORDS || self.heads[segment] != value {
                if self.heads[segment] < WORDS {
                    self.spread(segment);
                }
                if self.is_plain(segment) && value < IN_NIBBLES {
                    fill_nibbles(&mut self.nibbles, at, to, value as u8);
                } else {
                    (at..to).for_each(|i| self.set(i, value));
                }
            }
            at = to;
        }
    }

    /// What it consists of, to be kept in a file.
    pub fn parts(&self) -> VersionParts<'_> {
        let of = |kind| self.heads.iter().enumerate().filter(move |(_, head)| **head == kind);
        let mut others: Vec<_> = self.table.entries().collect();
        others.sort_unstable();
        VersionParts {
            heads: &self.heads,
            nibbles: self.heads.contains(&NIBBLES).then_some(&*self.nibbles),
            bytes: of(BYTES).flat_map(|(at, _)| &self.bytes[at]).copied().collect(),
            words: of(WORDS).flat_map(|(at, _)| &self.words[at]).copied().collect(),
            others,
        }
    }
    /// Entries of all segments in bytes and of those in words, by their heads.
    pub fn wide_in(heads: &[u32]) -> (usize, usize) {
        let of = |kind| heads.iter().filter(|&&head| head == kind).count() * LEN;
        (of(BYTES), of(WORDS))
    }
    /// The array of so many entries that consists of these parts; none if they are no array's.
    pub fn of_parts(
        len: usize,
        heads: Vec<u32>,
        nibbles: Option<Array<u8>>,
        bytes: &[u8],
        words: &[u32],
        others: &[[u32; 2]],
    ) -> Option<Versions> {
        let mut versions = Versions::new(0);
        versions.len = len;
        versions.nibbles = nibbles.unwrap_or_else(|| Array::zeroed(len.div_ceil(2)));
        let fits = versions.nibbles.len() == len.div_ceil(2)
            && heads.len() == len.div_ceil(LEN)
            && (bytes.len(), words.len()) == Versions::wide_in(&heads);
        if !fits {
            return None;
        }
        (versions.tabled, versions.words) = (vec![0; heads.len()], vec![Vec::new(); heads.len()]);
        versions.bytes = vec![Vec::new(); heads.len()];
        let (mut bytes, mut words) = (bytes.chunks_exact(LEN), words.chunks_exact(LEN));
        for (segment, &head) in heads.iter().enumerate() {
            match head {
                BYTES => versions.bytes[segment] = bytes.next()?.to_vec(),
                WORDS => versions.words[segment] = words.next()?.to_vec(),
                _ => {}
            }
        }
        versions.heads = heads;
        for &[at, value] in others {
            let segment = at as usize / LEN;
            let fits = (at as usize) < len
                && [NIBBLES, BYTES].contains(&versions.heads[segment])
                && versions.tabled[segment] < MOST;
            if !fits {
                return None;
            }
            let (small, limit) = versions.small(at as usize);
            if small != limit {
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
        let nibbles = parts.nibbles.map(|nibbles| Array::from(nibbles.to_vec()));
        let (heads, bytes) = (parts.heads.to_vec(), &parts.bytes);
        let copy = Versions::of_parts(plain.len(), heads, nibbles, bytes, &parts.words, &others);
        let copy = copy.expect("parts of an array");
        assert!((0..plain.len()).all(|i| copy.get(i) == plain[i]));
        assert_eq!((copy.table.used, &copy.tabled), (versions.table.used, &versions.tabled));
        let tabled: usize = versions.tabled.iter().map(|&n| usize::from(n)).sum();
        assert_eq!(versions.table.used, tabled);
    }

    #[test]
    fn versions_behave_as_a_plain_array() {
        // Of nibbles, bytes and words, with few and many of the larger ones.
        let kinds: [(u64, u32, u64); 4] = [(0, 15, 8), (1, 255, 8), (2, 15, 200), (3, 255, 200)];
        let mut seen = [false; 3];
        for (seed, small, one_in) in kinds {
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
                    _ => match rng.below(one_in) {
                        // More of them in some segments than the table has room for.
                        0 => (1, rng.next_u64() as u32),
                        1 => (1, small + rng.below(3) as u32),
                        _ => (1, rng.below(small.into()) as u32),
                    },
                };
                if rng.below(20) == 0 {
                    let n = 1 + rng.below(400) as usize;
                    let to = rng.below((len - n) as u64) as usize;
                    let large = rng.below(8) == 0;
                    let below = if large { 2 * small } else { small };
                    let value = |rng: &mut Rng| rng.below(below.into()) as u32;
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
                match (n, rng.below(2)) {
                    (1, 0) => versions.set(first, value),
                    (1, _) => assert_eq!(versions.update(first, |_| value), value),
                    (n, 0) if value == 0 => versions.clear(first, n),
                    (n, _) => versions.set_run(first, n, value),
                }
                plain[first..first + n].fill(value);
                let at = rng.below(len as u64) as usize;
                assert_eq!(versions.get(at), plain[at]);
            }
            assert!(!versions.is_blank());
            is_plain(&versions, &plain);
            for (seen, kind) in seen.iter_mut().zip([NIBBLES, BYTES, WORDS]) {
                *seen |= versions.heads.contains(&kind);
            }
        }
        assert_eq!(seen, [true; 3], "all kinds of segments");
    }

    #[test]
    fn equal_versions_touch_no_entries_and_few_large_ones_take_little() {
        let mut versions = Versions::new(100 * LEN);
        versions.set_run(0, 90 * LEN, 1);
        versions.set(5, 1);
        assert!(versions.heads.iter().all(|&head| head < WORDS));
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
