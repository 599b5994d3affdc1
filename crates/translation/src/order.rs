//! The order in which sectors came, and who waits until they are durable.

use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
struct Wait {
    before: u64,
    tag: u32,
    failed: bool,
}

/// Sectors have turns; a flush or an erasure waits for all turns before its own.
#[derive(Clone, Default, Debug)]
pub struct Order {
    /// The turns from `first` on: whether their sectors are not durable. Those of the first are not.
    open: VecDeque<bool>,
    first: u64,
    /// Turns that are open.
    count: usize,
    waits: VecDeque<Wait>,
}

impl Order {
    /// A sector came: its turn.
    pub fn enter(&mut self) -> u64 {
        self.open.push_back(true);
        self.count += 1;
        self.next() - 1
    }
    /// A sector is durable, or nobody's any more.
    pub fn leave(&mut self, turn: u64) {
        let Some(at) = turn.checked_sub(self.first) else { return };
        let Some(open) = self.open.get_mut(at as usize) else { return };
        self.count -= usize::from(std::mem::take(open));
        while self.open.front() == Some(&false) {
            self.open.pop_front();
            self.first += 1;
        }
    }
    /// What has not come yet will have this turn or a later one.
    pub fn next(&self) -> u64 {
        self.first + self.open.len() as u64
    }
    /// All before that turn are durable.
    pub fn is_passed(&self, turn: u64) -> bool {
        self.open.is_empty() || self.first >= turn
    }
    /// Sectors that are not durable.
    pub fn open(&self) -> usize {
        self.count
    }
    /// A command ends when all that came before it is durable. Answers whether something is not.
    pub fn wait(&mut self, tag: u32) -> bool {
        self.waits.push_back(Wait { before: self.next(), tag, failed: false });
        !self.open.is_empty()
    }
    /// Somebody waits for something that is not durable.
    pub fn is_waited_for(&self) -> bool {
        self.waits.iter().any(|w| !self.is_passed(w.before))
    }
    /// The sector of this turn is lost, and with it what waits for it fails.
    pub fn lose(&mut self, turn: u64) {
        self.waits.iter_mut().filter(|w| w.before > turn).for_each(|w| w.failed = true);
    }
    /// The next command that waits for nothing any more, and whether all it waited for is durable.
    pub fn ended(&mut self) -> Option<(u32, bool)> {
        let oldest = if self.open.is_empty() { u64::MAX } else { self.first };
        let ended = self.waits.pop_front_if(|w| w.before <= oldest)?;
        Some((ended.tag, !ended.failed))
    }
}
