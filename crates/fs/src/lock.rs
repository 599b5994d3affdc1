//! A lock that several share or one has alone, in the order of those who come (kernel/locking/rwsem-xadd.c, without
//! spinning); and the direct I/O of an inode that goes on without it.

use std::collections::VecDeque;

/// Who has the lock on an inode.
#[derive(Clone, Default, Debug)]
pub struct InodeLock {
    /// Somebody has it alone.
    alone: bool,
    /// Tasks that share it.
    shared: u32,
    /// Tasks that wait, and whether for it alone.
    queue: VecDeque<(u32, bool)>,
    /// Direct I/O under way that does not hold it.
    direct: u32,
}

impl InodeLock {
    fn takes(&self, alone: bool) -> bool {
        !self.alone && (self.shared == 0 || !alone)
    }
    pub fn waits(&self, task: u32) -> bool {
        self.queue.iter().any(|&(waits, _)| waits == task)
    }
    /// A task that waits has its turn: it is the first, or the first that would have it alone comes later.
    pub fn admits(&self, task: u32) -> bool {
        let mut before = true;
        for (n, &(waits, alone)) in self.queue.iter().enumerate() {
            if waits == task {
                return self.takes(alone) && if alone { n == 0 } else { before };
            }
            before &= !alone;
        }
        false
    }
    /// True if the task has it now; else it waits.
    pub fn take(&mut self, task: u32, alone: bool) -> bool {
        if self.admits(task) {
            self.queue.retain(|&(waits, _)| waits != task);
        } else if !self.queue.is_empty() || !self.takes(alone) {
            if !self.waits(task) {
                self.queue.push_back((task, alone));
            }
            return false;
        }
        self.alone |= alone;
        self.shared += u32::from(!alone);
        true
    }
    pub fn give(&mut self, alone: bool) {
        self.alone &= !alone;
        self.shared -= u32::from(!alone);
    }
    pub fn begin_direct(&mut self) {
        self.direct += 1;
    }
    pub fn end_direct(&mut self) {
        self.direct -= 1;
    }
    pub fn has_direct(&self) -> bool {
        self.direct > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_it_and_none_overtakes_a_writer() {
        let mut lock = InodeLock::default();
        assert!(lock.take(1, false) && lock.take(2, false));
        assert!(!lock.take(3, true) && !lock.take(4, false) && !lock.take(5, false));
        assert!(!lock.take(6, true));
        lock.give(false);
        assert!(!lock.admits(3) && !lock.admits(4));
        lock.give(false);
        assert!(!lock.admits(4) && lock.take(3, true) && !lock.admits(4));
        lock.give(true);
        assert!(
            lock.admits(5) && lock.take(4, false) && lock.take(5, false) && !lock.take(6, true)
        );
        lock.give(false);
        lock.give(false);
        assert!(lock.take(6, true) && !lock.waits(6));
    }
}
