//! Hot and cold data on LUNs of their own (RAIL-HC).
//!
//! Users write to hot lines, which have strides, parity and throttling; the collector writes to cold
//! lines, which have none. The first strides of the drive are hot. Every `partition_interval` sectors written
//! the border follows the write amplification W measured since: `balanced` gives cold data
//! N (W - 1) / (S + W - 1) LUNs, so that users' throttled writes and the collector's finish together;
//! the collector's share of all writes, N (W - 1) / W, would leave users no more bandwidth than
//! without the separation. Lines keep the LUNs they were opened with.
//!
//! When the cold side has no room the collector's data go to the hot line: users lose bandwidth, not
//! latency.
//!
//! An interval of a million sectors is two lines of the published drive, and the collector works in
//! bursts, so W is averaged: each interval counts an eighth less than the one after it. A border that
//! would move by a single stride stays. What the collector moves while no user writes is not
//! counted: the two do not compete then, and a rest would leave users the narrowest side there is.

use crate::Ftl;
use crate::config::{FtlConfig, GcBuffer, PartitionRule};
use crate::line::Stream;
use crate::stride::StrideId;

#[derive(Clone)]
pub(crate) struct Partition {
    rule: PartitionRule,
    interval: u64,
    /// Counter of users' data at the last look.
    user: u64,
    /// Counter of all data at the last look.
    all: u64,
    /// Users' data since the beginning, older intervals counted less.
    users: u64,
    /// All data since the beginning, older intervals counted less.
    written: u64,
    /// What the collector had written when users fell silent.
    silent: Option<u64>,
    /// Times that the border moved.
    pub moves: u64,
    /// The border has moved, so that strides of hot lines may be cold now, and have more than one LUN busy.
    pub moved: bool,
}

impl Partition {
    pub fn new(c: &FtlConfig) -> Partition {
        Partition {
            rule: c.partition_rule,
            interval: c.partition_interval,
            user: 0,
            all: 0,
            users: 0,
            written: 0,
            silent: Some(0),
            moves: 0,
            moved: false,
        }
    }
    /// Numbers of [`Partition::counts`].
    pub const COUNTS: usize = 7;

    /// All that it goes by, for a drive that is saved.
    pub fn counts(&self) -> [u64; Partition::COUNTS] {
        let silent = [u64::from(self.silent.is_some()), self.silent.unwrap_or(0)];
        [self.users, self.written, self.user, self.all, silent[0], silent[1], self.moves]
    }
    pub fn set_counts(&mut self, counts: [u64; Partition::COUNTS]) {
        let is_silent;
        let from;
        [self.users, self.written, self.user, self.all, is_silent, from, self.moves] = counts;
        self.silent = (is_silent != 0).then_some(from);
    }
    /// LUNs for hot data, of `luns` in strides of `stride`: whole strides, cold rounded up, at least
    /// one stride on either side.
    fn hot_luns(rule: PartitionRule, luns: u32, stride: StrideId, user: u64, all: u64) -> u32 {
        let (n, s) = (u128::from(luns), u128::from(stride.max(1)));
        let (user, gc) = (u128::from(user.max(1)), u128::from(all.saturating_sub(user)));
        let cold = match rule {
            // W - 1 = gc / user, over S + W - 1.
            PartitionRule::Balanced => (n * gc).div_ceil(s * user + gc),
            PartitionRule::GcShare => (n * gc).div_ceil(user + gc),
        };
        let hot = n.saturating_sub(cold) / s * s;
        hot.clamp(s, (n - s) / s * s) as u32
    }
}

impl Ftl {
    /// Users begin to write, or have not done so for a while.
    pub(crate) fn set_user_active(&mut self, active: bool) {
        self.rate.user_active = active;
        let moved = self.counters.gc_sectors + self.counters.pad_sectors;
        let p = &mut self.partition;
        if !active {
            p.silent.get_or_insert(moved);
        } else if let Some(from) = p.silent.take() {
            p.all += moved - from;
        }
    }
    /// The side that users' or the collector's open line is on.
    pub(crate) fn stream(&self, side: usize) -> Stream {
        match (self.lines.is_split(), side) {
            (false, _) => Stream::Mixed,
            (true, 0) => Stream::Hot,
            (true, _) => Stream::Cold,
        }
    }
    /// Moves the border if it is time.
    pub(crate) fn repartition(&mut self) {
        if !self.lines.is_split() {
            return;
        }
        let c = &self.counters;
        let (user, all) = (c.user_sectors, c.user_sectors + c.gc_sectors + c.pad_sectors);
        if all - self.partition.all < self.partition.interval {
            return;
        }
        let least = self.least_hot();
        let p = &mut self.partition;
        p.users = p.users / 8 * 7 + (user - p.user);
        p.written = p.written / 8 * 7 + (all - p.all);
        (p.user, p.all) = (user, all);
        let (users, written) = (p.users, p.written);
        let stride = self.config.stride;
        let hot = Partition::hot_luns(p.rule, self.g.luns, stride, users, written);
        let hot = hot.max(least);
        let width = stride.max(1);
        if (hot / width).abs_diff(self.lines.hot / width) <= 1 {
            return;
        }
        // Free lines change sides: what is in the buffer must find room on the hot one.
        let unit = u64::from(self.g.sectors_per_unit);
        let need = u64::from(self.rings[0].usable()) + 4 * unit;
        let before = self.lines.hot;
        self.lines.partition(hot);
        if self.lines.writable(0) < need {
            self.lines.partition(before);
            return;
        }
        self.partition.moves += 1;
        self.partition.moved = true;
        self.locks.set_strides(self.lines.strides());
        self.rate_update();
    }
    /// The narrowest hot side whose free lines, as many as users are stopped at, still take what is in
    /// the buffer: a victim is freed only when that is durable.
    fn least_hot(&self) -> u32 {
        let (luns, stride) = (self.g.luns, self.config.stride.max(1));
        let lines = u64::from((self.rate.reserve / luns).saturating_sub(1).max(1));
        let unit = u64::from(self.g.sectors_per_unit);
        let need = u64::from(self.rings[0].usable()) + 4 * unit;
        let enough = |&hot: &u32| lines * self.lines.units_of_hot(hot) * unit >= need;
        let most = (luns - stride) / stride * stride;
        (stride..most).step_by(stride as usize).find(enough).unwrap_or(most)
    }
    /// Free blocks as the limiter sees them: what the scarcer side has, as if all LUNs were on it.
    /// The collector can use the hot side, so the cold one is scarce only for victims' choice.
    pub(crate) fn scarce_blocks(&self) -> u32 {
        let free = self.lines.free_blocks();
        if !self.lines.is_split() {
            return free;
        }
        let hot = u64::from(self.lines.sides[0].free_blocks) * u64::from(self.g.luns);
        free.min((hot / u64::from(self.lines.hot)) as u32)
    }
    /// Fewer free cold lines than victims are moved at a time.
    pub(crate) fn cold_is_short(&self) -> bool {
        let line = self.g.sectors_per_line / self.g.luns * (self.g.luns - self.lines.hot);
        self.lines.writable(1) < u64::from(self.config.gc_lines) * u64::from(line)
    }
    /// The side for one more sector of the collector's: cold, unless what is on its way there already
    /// takes all of it.
    pub(crate) fn gc_side(&self) -> usize {
        if !self.lines.is_split() {
            return 0;
        }
        let unit = u64::from(self.g.sectors_per_unit);
        usize::from(self.coming(1) + 2 * unit <= self.lines.writable(1))
    }
    /// Sectors on their way to a side's lines that have no place there yet.
    pub(crate) fn coming(&self, side: usize) -> u64 {
        u64::from(self.rings[side].ready()) + self.writers[side].backlog()
    }
    /// How many of `moving` valid sectors of victims the cold side cannot take, but for `margin`.
    pub(crate) fn hot_share(&self, moving: u64, margin: u64) -> u64 {
        moving.saturating_sub(self.lines.writable(1).saturating_sub(self.coming(1) + margin))
    }
    /// Sectors that victims still hold.
    pub(crate) fn moving(&self) -> u64 {
        self.gc.victims.iter().map(|v| u64::from(self.map.valid_in(v.line))).sum()
    }
    /// What users may still write of the hot side. A victim is freed when the newer versions of its
    /// sectors are durable, so that what is in the buffer must find a place without that.
    pub(crate) fn user_space(&self) -> u32 {
        if !self.lines.is_split() {
            return u32::MAX;
        }
        let needed = self.coming(0) + self.hot_share(self.moving(), 0);
        u32::try_from(self.lines.writable(0).saturating_sub(needed)).unwrap_or(u32::MAX)
    }
    /// Entries that may be inserted on this side: of its own buffer, or of the shared one.
    pub(crate) fn room(&self, side: usize) -> u32 {
        let room = self.rings[side].room();
        if !self.lines.is_split() || self.config.gc_buffer == GcBuffer::Own {
            return room;
        }
        let held = self.rings[0].held() + self.rings[1].held();
        room.min(self.rings[side].usable().saturating_sub(held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_of_the_balanced_rule() {
        let hot = |wa_tenths: u64| {
            Partition::hot_luns(PartitionRule::Balanced, 128, 4, 1_000_000, wa_tenths * 100_000)
        };
        // 128 x 1.3 / 5.3 = 31.4 and 128 x 4 / 8 = 64 cold LUNs.
        assert_eq!((hot(23), hot(50)), (96, 64));
        assert_eq!(hot(10), 124, "one stride is always cold");
        let share = |wa: u64| {
            Partition::hot_luns(PartitionRule::GcShare, 128, 4, 1_000_000, wa * 1_000_000)
        };
        assert_eq!((share(2), share(4), share(1000)), (64, 32, 4));
    }
}
