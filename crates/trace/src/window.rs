//! The window that sorts requests by time.

use crate::request::Item;
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

/// An item that arrived after a later one; the earliest is the greatest, for the heap.
struct Stray {
    item: Item,
    arrival: u64,
}

impl Stray {
    fn key(&self) -> Reverse<(u64, u64)> {
        Reverse((self.item.time, self.arrival))
    }
}
impl PartialEq for Stray {
    fn eq(&self, other: &Stray) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Stray {}
impl PartialOrd for Stray {
    fn partial_cmp(&self, other: &Stray) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Stray {
    fn cmp(&self, other: &Stray) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// Sorts by time, ties in order of arrival. What arrives in order goes through a queue, the rest
/// through a heap.
#[derive(Default)]
pub(crate) struct Window {
    run: VecDeque<Item>,
    strays: BinaryHeap<Stray>,
    arrivals: u64,
}

impl Window {
    pub fn len(&self) -> usize {
        self.run.len() + self.strays.len()
    }
    #[inline]
    pub fn push(&mut self, item: Item) {
        if self.run.back().is_none_or(|b| b.time <= item.time) {
            self.run.push_back(item);
        } else {
            self.arrivals += 1;
            self.strays.push(Stray { item, arrival: self.arrivals });
        }
    }
    #[inline]
    pub fn pop(&mut self) -> Option<Item> {
        if let Some(Stray { item: s, .. }) = self.strays.peek() {
            // Among equal times the line tells which arrived first.
            let first = self.run.front().is_none_or(|r| (s.time, s.line) < (r.time, r.line));
            if first {
                return self.strays.pop().map(|s| s.item);
            }
        }
        self.run.pop_front()
    }
}
