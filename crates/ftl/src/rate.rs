//! The rate limiter (pblk-rl): how many entries of the write buffer users and the garbage
//! collector may hold, by the number of free blocks.
//!
//! ```text
//! free >= high         users all, GC none (a window if lines with write errors wait)
//! rsv < free < high    users in proportion to free / high, GC the rest
//! free <= rsv          users none, GC all
//! ```
//!
//! The two shares of the buffer become shares of the program bandwidth, because both sides keep
//! theirs filled. When no user has written for a while GC may take all.
//!
//! pblk counts an entry until its slot is reused. A user can then wait for a slot that only GC could
//! recycle, at a time when GC has nothing to move. Here an entry counts until it is durable. pblk's
//! middle part goes in steps of 64 entries. Here it is linear, and never below one unit on either side.

#[derive(Clone, Debug)]
pub(crate) struct Rate {
    /// Blocks free at and above which there is no GC.
    pub high: u32,
    /// Blocks free at and below which users wait.
    pub reserve: u32,
    /// Entries shared out.
    budget: u32,
    unit: u32,
    pub user_max: u32,
    pub gc_max: u32,
    /// Entries not yet durable.
    pub user: u32,
    pub gc: u32,
    pub user_active: bool,
}

impl Rate {
    pub fn new(high: u32, reserve: u32, budget: u32, unit: u32) -> Rate {
        let user_max = budget;
        let (gc_max, user, gc) = (0, 0, 0);
        Rate { high, reserve, budget, unit, user_max, gc_max, user, gc, user_active: false }
    }
    /// New budgets for this many free blocks.
    pub fn update(&mut self, free: u32, write_errors: bool) {
        self.user_max = if free >= self.high {
            if write_errors { self.budget - self.unit.min(self.budget / 2) } else { self.budget }
        } else if free > self.reserve {
            let share = u64::from(self.budget) * u64::from(free) / u64::from(self.high);
            (share as u32)
                .clamp(self.unit.min(self.budget / 2), self.budget - self.unit.min(self.budget / 2))
        } else {
            0
        };
        self.gc_max = self.budget - self.user_max;
    }
    pub fn user_room(&self) -> u32 {
        self.user_max.saturating_sub(self.user)
    }
    /// Users have all of their share, and the collector has one.
    pub fn holds_users(&self) -> bool {
        self.user_room() == 0 && self.gc_max > 0
    }
    pub fn gc_room(&self) -> u32 {
        if self.user_active { self.gc_max.saturating_sub(self.gc) } else { u32::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_the_collector_share_in_three_regimes() {
        let mut r = Rate::new(1000, 100, 2048, 16);
        let mut at = |free, errors| {
            r.update(free, errors);
            (r.user_max, r.gc_max)
        };
        assert_eq!(at(1000, false), (2048, 0));
        assert_eq!(at(1000, true), (2032, 16));
        assert_eq!(at(500, false), (1024, 1024));
        assert_eq!(at(999, false), (2032, 16));
        assert_eq!(at(101, false), (206, 1842));
        assert_eq!(at(100, false), (0, 2048));
    }
}
