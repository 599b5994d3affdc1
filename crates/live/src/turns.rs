//! Changes of the same sectors, one after the other in the order in which they came.

use std::collections::{BTreeMap, BTreeSet};

/// A request that waits.
#[derive(Clone, Copy, Debug)]
struct Blocked {
    id: u32,
    first: u32,
    end: u32,
}

/// Requests that change sectors: those that do, no two of which meet, and those that wait. Each of these hangs on the
/// last that came before it and meets it, and looks for the next such one when that has ended.
#[derive(Default, Debug)]
pub(crate) struct Turns {
    /// By the first sector: where they end, and whose they are.
    changing: BTreeMap<u32, (u32, u32)>,
    /// In the order in which they came.
    blocked: BTreeMap<u64, Blocked>,
    /// By the request that they hang on.
    waiters: BTreeMap<u32, Vec<u64>>,
    /// Those whose turn it is.
    ready: BTreeSet<u64>,
    /// Requests that have waited so far.
    came: u64,
}

impl Turns {
    /// Whether a request begins at once.
    pub fn begins(&mut self, id: u32, first: u32, end: u32) -> bool {
        let Some(other) = self.in_the_way(self.came, first, end) else {
            self.begin(id, first, end);
            return true;
        };
        self.blocked.insert(self.came, Blocked { id, first, end });
        self.waiters.entry(other).or_default().push(self.came);
        self.came += 1;
        false
    }

    fn begin(&mut self, id: u32, first: u32, end: u32) {
        if first < end {
            self.changing.insert(first, (end, id));
        }
    }

    /// The last that came before and meets the range.
    fn in_the_way(&self, came: u64, first: u32, end: u32) -> Option<u32> {
        if first >= end {
            return None;
        }
        let meets = |other: &&Blocked| other.first < end && first < other.end;
        let waits = self.blocked.range(..came).rev().map(|(_, other)| other).find(meets);
        waits.map(|other| other.id).or_else(|| {
            let &(to, other) = self.changing.range(..end).next_back()?.1;
            (first < to).then_some(other)
        })
    }

    /// A change from this sector on has ended.
    pub fn ended(&mut self, id: u32, first: u32) {
        if self.changing.get(&first).is_some_and(|c| c.1 == id) {
            self.changing.remove(&first);
        }
        for came in self.waiters.remove(&id).unwrap_or_default() {
            let Blocked { first, end, .. } = self.blocked[&came];
            match self.in_the_way(came, first, end) {
                Some(other) => self.waiters.entry(other).or_default().push(came),
                None => {
                    self.ready.insert(came);
                }
            }
        }
    }

    /// One whose turn it is, and which begins: the first that came.
    pub fn next(&mut self) -> Option<u32> {
        let came = self.ready.pop_first()?;
        let Blocked { id, first, end } = self.blocked.remove(&came)?;
        self.begin(id, first, end);
        Some(id)
    }

    /// Nobody waits any more. Those who did, in order.
    pub fn give_up(&mut self) -> Vec<u32> {
        self.waiters.clear();
        self.ready.clear();
        std::mem::take(&mut self.blocked).into_values().map(|b| b.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::Rng;

    /// The rule itself: a request waits while an earlier one that has not ended meets it.
    #[derive(Default)]
    struct Plain {
        /// In the order in which they came: id, range, begun.
        all: Vec<(u32, u32, u32, bool)>,
    }

    impl Plain {
        /// What begins now, in order.
        fn begins(&mut self) -> Vec<u32> {
            let mut begun = Vec::new();
            for i in 0..self.all.len() {
                let (id, first, end, has_begun) = self.all[i];
                let meets = self.all[..i].iter().any(|o| o.1 < end && first < o.2);
                if !has_begun && !meets {
                    self.all[i].3 = true;
                    begun.push(id);
                }
            }
            begun
        }
    }

    #[test]
    fn requests_begin_when_no_earlier_one_meets_them() {
        for seed in 0..200 {
            let mut rng = Rng::from_seed(seed);
            let (mut turns, mut plain) = (Turns::default(), Plain::default());
            for id in 0..400 {
                if rng.below(3) > 0 {
                    let first = rng.below(40) as u32;
                    let end = first + 1 + rng.below(12) as u32;
                    plain.all.push((id, first, end, false));
                    let expected = plain.begins();
                    let begins = turns.begins(id, first, end);
                    assert_eq!(begins, expected == [id], "seed {seed}, request {id}");
                    continue;
                }
                let begun: Vec<usize> = (0..plain.all.len()).filter(|&i| plain.all[i].3).collect();
                if begun.is_empty() {
                    continue;
                }
                let (ended, first, ..) =
                    plain.all.remove(begun[rng.below(begun.len() as u64) as usize]);
                turns.ended(ended, first);
                let next: Vec<u32> = std::iter::from_fn(|| turns.next()).collect();
                assert_eq!(next, plain.begins(), "seed {seed}, after {ended}");
            }
            let waiting: Vec<u32> = plain.all.iter().filter(|r| !r.3).map(|r| r.0).collect();
            assert_eq!(turns.give_up(), waiting, "seed {seed}");
        }
    }
}
