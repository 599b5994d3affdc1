//! A large array of numbers, most of which count up from one to the next, or are the same.
//!
//! A drive that was filled in order has maps of hundreds of millions of such entries. They are cut
//! into segments; one that is a run, or two that meet in it, takes a few words and touches no memory
//! of its entries until one of them is written alone. Zero is what was never written.

use crate::{IdVec, prefetch};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use wordline_huge::Array;

const LEN: usize = 1 << 13;
/// From here on a segment's head names one of `joints`. The first of those is blank.
const JOINT: u32 = 0xF800_0000;

/// Two runs that meet in a segment. One that begins with zero is all zeroes.
#[derive(Clone, Copy, Debug)]
struct Joint {
    /// Where the second begins.
    at: usize,
    before: u32,
    after: u32,
}

/// What a [`Runs`] consists of.
#[derive(Debug)]
pub struct Parts<'a> {
    /// A word a segment.
    pub heads: &'a [u32],
    /// Two runs that meet in a segment: where the second begins, and their first entries.
    pub joints: Vec<[u32; 3]>,
    /// All entries, of which those in runs mean nothing.
    pub entries: Option<&'a [u32]>,
}

/// A joint by its place in the list of them.
type JointId = u32;

/// The entries of a [`Runs`], for several threads that write different ones.
#[derive(Clone, Copy, Debug)]
pub struct SharedRuns<'a> {
    heads: &'a [u32],
    joints: &'a IdVec<JointId, Joint>,
    words: &'a [AtomicU32],
    step: u32,
}

impl SharedRuns<'_> {
    /// The entry; 0 if it was never written.
    #[inline]
    pub fn get(&self, i: usize) -> u32 {
        match self.heads[i / LEN] {
            0 => self.words[i].load(Relaxed),
            head => in_run(self.joints, head, self.step, i % LEN),
        }
    }
    /// Writes an entry that is in no run.
    #[inline]
    pub fn set(&self, i: usize, value: u32) {
        debug_assert_eq!(self.heads[i / LEN], 0);
        self.words[i].store(value, Relaxed);
    }
    /// Says that an entry that is in no run will be asked for soon.
    #[inline]
    pub fn prefetch(&self, i: usize) {
        prefetch(self.words, i);
    }
}

/// Entry `k` of a segment in runs.
#[inline]
fn in_run(joints: &IdVec<JointId, Joint>, head: u32, step: u32, k: usize) -> u32 {
    if head < JOINT {
        return head + step * k as u32;
    }
    let Joint { at, before, after } = joints[head - JOINT];
    let (first, k) = if k < at { (before, k) } else { (after, k - at) };
    if first == 0 { 0 } else { first + step * k as u32 }
}

/// The array. See the module.
#[derive(Clone, Debug)]
pub struct Runs {
    /// By segment: the first entry of its run, or its joint; 0 when its entries are in `words`.
    heads: Vec<u32>,
    /// Where two runs meet, by what a head is above [`JOINT`].
    joints: IdVec<JointId, Joint>,
    /// Zeroed memory, which the system makes real where it is written.
    words: Array<u32>,
    /// The difference of two neighbours of a run, 0 or 1.
    step: u32,
    /// Segments whose entries are not in `words`.
    in_runs: usize,
}

impl Runs {
    /// Runs of equal entries.
    pub fn equal(len: usize) -> Runs {
        Runs::new(len, 0)
    }
    /// Runs of entries that count up.
    pub fn counting(len: usize) -> Runs {
        Runs::new(len, 1)
    }
    fn new(len: usize, step: u32) -> Runs {
        Runs {
            heads: vec![JOINT; len.div_ceil(LEN)],
            joints: vec![Joint { at: 0, before: 0, after: 0 }].into(),
            words: Array::zeroed(len),
            step,
            in_runs: len.div_ceil(LEN),
        }
    }
    /// What it consists of, to be kept in a file. There are no entries while all segments are runs.
    pub fn parts(&self) -> Parts<'_> {
        let joints = self.joints.iter().skip(1).map(|j| [j.at as u32, j.before, j.after]).collect();
        let entries = self.heads.contains(&0).then_some(&*self.words);
        Parts { heads: &self.heads, joints, entries }
    }
    /// The array that consists of these parts, as long as this one; none if they are no array's.
    pub fn with_parts(
        &self,
        heads: Vec<u32>,
        joints: &[[u32; 3]],
        entries: Option<Array<u32>>,
    ) -> Option<Runs> {
        let kept =
            joints.iter().map(|&[at, before, after]| Joint { at: at as usize, before, after });
        let joints: IdVec<JointId, _> = self.joints.iter().take(1).copied().chain(kept).collect();
        let named = |head: u32| head < JOINT || head - JOINT < joints.count();
        let words = entries.unwrap_or_else(|| Array::zeroed(self.len()));
        let fits = heads.len() == self.heads.len()
            && words.len() == self.len()
            && heads.iter().all(|&head| named(head))
            && joints.iter().all(|joint| joint.at <= LEN);
        let in_runs = heads.iter().filter(|&&head| head != 0).count();
        fits.then_some(Runs { heads, joints, words, step: self.step, in_runs })
    }
    /// Entries.
    pub fn len(&self) -> usize {
        self.words.len()
    }
    /// It has no entries.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
    /// Nothing was ever written.
    pub fn is_blank(&self) -> bool {
        self.heads.iter().all(|&head| head == JOINT)
    }

    /// The entry; 0 if it was never written.
    #[inline]
    pub fn get(&self, i: usize) -> u32 {
        match self.heads[i / LEN] {
            0 => self.words[i],
            head => in_run(&self.joints, head, self.step, i % LEN),
        }
    }
    /// Says that the entry will be asked for soon.
    #[inline]
    pub fn prefetch(&self, i: usize) {
        if self.heads.get(i / LEN) == Some(&0) {
            prefetch(&self.words, i);
        }
    }
    /// The entry, to be changed.
    #[inline]
    pub fn at_mut(&mut self, i: usize) -> &mut u32 {
        if self.heads[i / LEN] != 0 {
            self.spread(i / LEN);
        }
        &mut self.words[i]
    }
    /// Writes an entry.
    #[inline]
    pub fn set(&mut self, i: usize, value: u32) {
        *self.at_mut(i) = value;
    }

    /// Writes a segment's entries out.
    #[cold]
    fn spread(&mut self, segment: usize) {
        let first = segment * LEN;
        // Where nothing was written the words are zero already.
        let end = (first + LEN).min(self.words.len());
        let (words, step) = (&mut self.words[first..end], self.step);
        let fill = |words: &mut [u32], value: u32| {
            words.iter_mut().zip(0..).for_each(|(word, k)| *word = value + step * k);
        };
        match self.heads[segment] {
            JOINT => {}
            head if head < JOINT => fill(words, head),
            head => {
                let Joint { at, before, after } = self.joints[head - JOINT];
                let (front, back) = words.split_at_mut(at.min(end - first));
                if before != 0 {
                    fill(front, before);
                }
                if after != 0 {
                    fill(back, after);
                }
            }
        }
        self.heads[segment] = 0;
        self.in_runs -= 1;
    }

    /// All entries are in runs.
    pub fn is_in_runs(&self) -> bool {
        self.in_runs == self.heads.len()
    }
    /// Entries all over the array are going to be written alone: their memory is had at once.
    pub fn populate(&mut self) {
        self.words.populate();
    }
    /// No entry is in a run.
    pub fn is_written_out(&self) -> bool {
        self.in_runs == 0
    }
    /// The entries, for several threads. Those of `written` are going to be written.
    pub fn shared(&mut self, written: &[(u32, u32)]) -> SharedRuns<'_> {
        for &(first, n) in written {
            self.entries_mut(first as usize, n as usize);
        }
        let Runs { heads, joints, words, step, .. } = self;
        SharedRuns { heads, joints, words: words.shared(), step: *step }
    }
    /// So many entries from `first` on, to be written.
    pub fn entries_mut(&mut self, first: usize, n: usize) -> &mut [u32] {
        for segment in first / LEN..(first + n).div_ceil(LEN) {
            if self.heads[segment] != 0 {
                self.spread(segment);
            }
        }
        &mut self.words[first..first + n]
    }
    /// Reads entries at places in ascending order.
    pub fn gather(&self, places: &[u32], out: &mut [u32]) {
        debug_assert!(places.is_sorted());
        let (Some(&first), Some(&last)) = (places.first(), places.last()) else { return };
        let segments = first as usize / LEN..=last as usize / LEN;
        let out = out.iter_mut().zip(places);
        if self.heads[segments].iter().all(|&head| head == 0) {
            let words = &self.words[..=last as usize];
            out.for_each(|(entry, &at)| *entry = words[at as usize]);
        } else {
            out.for_each(|(entry, &at)| *entry = self.get(at as usize));
        }
    }
    /// Writes entries that count up from `value` at these places, one after the other, and says that those of
    /// `ahead` will be asked for soon: one for each that is written, so that memory is never without work.
    pub fn scatter(&mut self, places: &[u32], value: u32, ahead: &[u32]) {
        let both = places.len().min(ahead.len());
        let entries = places.iter().zip(value..);
        if self.in_runs == 0 {
            let words = &mut self.words[..];
            for ((&at, value), &next) in entries.clone().zip(ahead) {
                prefetch(words, next as usize);
                words[at as usize] = value;
            }
            entries.skip(both).for_each(|(&at, value)| words[at as usize] = value);
        } else {
            for ((&at, value), &next) in entries.clone().zip(ahead) {
                self.prefetch(next as usize);
                self.set(at as usize, value);
            }
            entries.skip(both).for_each(|(&at, value)| self.set(at as usize, value));
        }
        ahead[both..].iter().for_each(|&at| self.prefetch(at as usize));
    }

    /// Writes a run from `first` on, which begins with `value`, not zero.
    pub fn set_run(&mut self, first: usize, n: usize, value: u32) {
        let (mut at, end) = (first, first + n);
        while at < end {
            let (segment, from) = (at / LEN, at % LEN);
            let to = (from + end - at).min(LEN);
            let value = value + self.step * (at - first) as u32;
            let head = self.heads[segment];
            if (from, to) == (0, LEN) {
                self.in_runs += usize::from(head == 0);
                self.heads[segment] = value;
            } else if head == JOINT && (from == 0 || to == LEN) {
                let (before, after) = if from == 0 { (value, 0) } else { (0, value) };
                self.heads[segment] = JOINT + self.joints.count();
                self.joints.push(Joint { at: if from == 0 { to } else { from }, before, after });
            } else if head > JOINT && to == LEN && self.ends_at(head, from) {
                self.joints[head - JOINT].after = value;
            } else {
                for k in 0..to - from {
                    self.set(at + k, value + self.step * k as u32);
                }
            }
            at += to - from;
        }
    }
    /// The joint is a run up to `at`, and nothing behind it.
    fn ends_at(&self, head: u32, at: usize) -> bool {
        let joint = &self.joints[head - JOINT];
        joint.at == at && joint.after == 0
    }

    /// Makes entries zero.
    pub fn clear(&mut self, first: usize, n: usize) {
        for i in first..first + n {
            if self.get(i) != 0 {
                self.set(i, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn runs_behave_as_a_plain_array() {
        for step in [0, 1] {
            let len = 5 * LEN + 77;
            let (mut runs, mut plain) = (Runs::new(len, step), vec![0u32; len]);
            let mut rng = Rng::from_seed(3);
            assert!(runs.is_blank());
            for _ in 0..2_000 {
                let first = rng.below(len as u64) as usize;
                let n = 1 + rng.below((len - first) as u64) as usize;
                match rng.below(16) {
                    0 => {
                        runs.set_run(first, n, 9);
                        let run = plain[first..first + n].iter_mut();
                        run.zip(0..).for_each(|(p, k)| *p = 9 + step * k);
                    }
                    1 => {
                        let n = n.min(3 * LEN);
                        runs.clear(first, n);
                        plain[first..first + n].fill(0);
                    }
                    2 => {
                        let n = n.min(2 * LEN);
                        runs.entries_mut(first, n).fill(3);
                        plain[first..first + n].fill(3);
                    }
                    3 => {
                        let places: Vec<u32> =
                            (0..40).map(|_| rng.below(len as u64) as u32).collect();
                        let ahead = rng.below(40) as usize;
                        runs.scatter(&places, 100, &places[ahead..]);
                        places
                            .iter()
                            .zip(100..)
                            .for_each(|(&at, value)| plain[at as usize] = value);
                    }
                    4 => {
                        let places: Vec<u32> =
                            (first..first + n).step_by(7).map(|i| i as u32).collect();
                        let mut read = vec![0; places.len()];
                        runs.gather(&places, &mut read);
                        assert!(
                            places.iter().zip(&read).all(|(&at, &read)| plain[at as usize] == read)
                        );
                    }
                    _ => {
                        let value = rng.below(1 << 20) as u32;
                        runs.set(first, value);
                        plain[first] = value;
                    }
                }
                let at = rng.below(len as u64) as usize;
                assert_eq!(runs.get(at), plain[at]);
            }
            assert!((0..len).all(|i| runs.get(i) == plain[i]));
            assert_eq!(runs.in_runs, runs.heads.iter().filter(|&&head| head != 0).count());
            assert!(!runs.is_blank());
        }
    }

    #[test]
    fn runs_in_order_touch_no_entries() {
        let mut runs = Runs::counting(100 * LEN);
        runs.clear(0, 8);
        runs.set_run(8, 50 * LEN, 5);
        runs.set_run(8 + 50 * LEN, 40 * LEN, 1);
        runs.clear(8 + 90 * LEN, LEN);
        assert!(runs.heads.iter().all(|&head| head != 0));
        assert_eq!((runs.get(7), runs.get(8), runs.get(7 + 50 * LEN)), (0, 5, 4 + 50 * LEN as u32));
        assert_eq!((runs.get(8 + 50 * LEN), runs.get(8 + 90 * LEN)), (1, 0));
    }
}
