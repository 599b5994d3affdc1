//! What flash loses by being read often and by lying long is written anew before it is lost.
//!
//! A superblock is refreshed by moving what is in use of it, as the collector does. That frees nothing.
//!
//! - *Reads*: a block that was read `read_limit` times since its erasure makes its superblock due. What is in use
//!   is moved while that block is read another quarter of the limit.
//! - *Age*: a clock ticks once for each unit of the drive in `refresh_days`. Each tick moves a place of the
//!   superblock that is due. One is due as soon as it and all that are older could otherwise not be moved before
//!   they are so old.
//!
//! The collector has one victim at a time, and one that frees nothing needs room. While something is due, whatever victim
//! there is (in the way, or for room) is moved at the pace of what is due.

use crate::Firmware;
use crate::config::{FirmwareConfig, Plan};
use crate::space::{Space, State, SuperblockId};
use std::collections::VecDeque;
use wordline_base::{Ctx, IdVec, Kind, Span};
use wordline_nand::BlockId;

/// The index of the timer that is the clock of age.
pub(crate) const TIMER: u32 = 1;

#[derive(Clone, Default)]
pub(crate) struct Refresh {
    /// Reads after which a block's superblock is due; 0: they are not counted.
    limit: u32,
    /// Reads of each block since its erasure.
    reads: IdVec<BlockId, u32>,
    /// Superblocks with a block that was read too often, in the order in which they are moved.
    due: VecDeque<SuperblockId>,
    /// Whether each superblock is among them.
    is_due: IdVec<SuperblockId, bool>,
    /// Ticks in `refresh_days`; 0: there is no clock.
    period: i64,
    now: i64,
    runs: bool,
    /// The tick at which each superblock was opened.
    opened: IdVec<SuperblockId, i64>,
    /// The oldest one is due for its age.
    old: bool,
    /// The last one that was moved had been read often: the next is the oldest, if that is due.
    was_read: bool,
    /// The victim is refreshed, or something that is due waits for it: its places before this one are to be moved by now.
    victim: Option<u32>,
}

impl Refresh {
    pub fn new(config: &FirmwareConfig, plan: &Plan, space: &Space) -> Refresh {
        let blocks = space.g.lines * space.g.luns;
        let mut refresh = Refresh { limit: config.read_limit, ..Refresh::default() };
        if refresh.limit > 0 {
            refresh.reads = IdVec::filled(0, blocks);
            refresh.is_due = IdVec::filled(false, space.superblocks.count());
        }
        if plan.tick > Span::ZERO {
            refresh.period = i64::from(space.g.lines * space.g.units_per_line());
            refresh.opened = IdVec::filled(0, space.superblocks.count());
        }
        refresh
    }
    #[inline]
    pub fn counts_reads(&self) -> bool {
        self.limit > 0
    }
    pub fn is_on(&self) -> bool {
        self.limit > 0 || self.period > 0
    }
    /// There is something to move.
    pub fn waits(&self) -> bool {
        !self.due.is_empty() || self.old
    }
    pub fn has_victim(&self) -> bool {
        self.victim.is_some()
    }
    /// The victim's places before this one are to be moved by now.
    pub fn until(&self) -> u32 {
        self.victim.unwrap_or(0)
    }
    /// Something may be due, which waits for a victim that has come so far.
    #[inline]
    pub fn waits_for(&mut self, next: u32) {
        if self.victim.is_none() && self.waits() {
            self.victim = Some(next);
        }
    }
    pub fn ended(&mut self) {
        self.victim = None;
    }
    pub fn erased(&mut self, block: BlockId) {
        if self.counts_reads() {
            self.reads[block] = 0;
        }
    }
    /// All of it is free, or used no more.
    pub fn freed(&mut self, s: SuperblockId) {
        if self.counts_reads() && std::mem::take(&mut self.is_due[s]) {
            self.due.retain(|due| *due != s);
        }
    }
    pub fn opened(&mut self, s: SuperblockId) {
        if self.period > 0 {
            self.opened[s] = self.now;
        }
    }
}

impl Firmware {
    /// Sectors of a unit are read. True: there is something to move that was not due before.
    pub(crate) fn unit_is_read(&mut self, ppa: u32) -> bool {
        let s = self.space.superblock_of(ppa);
        let block = self.space.block(s, self.space.lun_of(self.space.unit_of(ppa)));
        let r = &mut self.refresh;
        r.reads[block] += 1;
        let n = r.reads[block];
        if n < r.limit {
            return false;
        }
        // Whatever is moved is to be over before this block, which may have its turn next, is read much more: a
        // quarter is chosen.
        let (beyond, quarter) = (n - r.limit, (r.limit / 4).max(1));
        let mut new = false;
        if let (Some(until), Some(v)) = (&mut r.victim, &self.gc.victim) {
            let places = u64::from(self.space.places_of(v.superblock));
            let now = (u64::from(beyond) * places / u64::from(quarter)).min(places) as u32;
            new = now > *until;
            *until = now.max(*until);
        }
        // An open one is closed when it would be next.
        let may = matches!(self.space.superblocks[s].state, State::Closed | State::Open);
        if may && !self.refresh.is_due[s] {
            self.refresh.is_due[s] = true;
            self.refresh.due.push_back(s);
            new = true;
        }
        new
    }
    /// An open superblock takes no more units, if there is room enough without those that it has left.
    fn seal(&mut self, s: SuperblockId) {
        let b = &self.space.superblocks[s];
        let places = u64::from(self.space.places());
        if self.coming() < self.plan.low + places + u64::from(b.left) {
            return;
        }
        self.space.seal(s);
        for stream in 0..self.streams.len() {
            if self.streams[stream].superblocks.contains(&Some(s)) {
                self.close_if_full(stream, s);
            }
        }
        self.set_pace();
    }
    /// Starts the clock of age. What is there was written in its order, evenly over the days that it may get old.
    pub(crate) fn start_refresh(&mut self, ctx: &mut Ctx) {
        if self.refresh.period == 0 || self.refresh.runs {
            return;
        }
        let mut all: Vec<(u64, SuperblockId)> =
            self.closed().map(|s| (self.space.superblocks[s].opened, s)).collect();
        all.sort_unstable();
        let n = all.len() as i64;
        for (k, (_, s)) in (0..).zip(all) {
            self.refresh.opened[s] = self.refresh.now - self.refresh.period * (n - 1 - k) / n;
        }
        self.refresh.runs = true;
        ctx.at(ctx.now + self.plan.tick, Kind::FtlTimer, TIMER);
    }
    fn closed(&self) -> impl Iterator<Item = SuperblockId> + '_ {
        let all = (0..).zip(&self.space.superblocks);
        all.filter(|&(s, b)| b.state == State::Closed && b.valid > 0 && !self.space.is_static(s))
            .map(|(s, _)| s)
    }
    /// A tick of the clock of age.
    pub(crate) fn age_ticks(&mut self, ctx: &mut Ctx) {
        ctx.at(ctx.now + self.plan.tick, Kind::FtlTimer, TIMER);
        self.refresh.now += 1;
        if let Some(until) = &mut self.refresh.victim {
            *until += 1;
        }
        let places = i64::from(self.space.places());
        if self.refresh.now % places == 0 {
            self.refresh.old = self.oldest_due().is_some();
        }
        self.work(&mut ctx.stamps);
    }
    /// The oldest superblock, if it and others would be too old otherwise: the k-th oldest is moved after k others.
    fn oldest_due(&self) -> Option<SuperblockId> {
        let r = &self.refresh;
        let mut ages: Vec<(i64, SuperblockId)> = self.closed().map(|s| (r.opened[s], s)).collect();
        ages.sort_unstable();
        let places = i64::from(self.space.places());
        let late =
            (1..).zip(&ages).any(|(k, &(opened, _))| r.now + k * places >= opened + r.period);
        ages.first().filter(|_| late).map(|&(_, s)| s)
    }
    /// Something is due, and may be moved: to move it takes as much space as it frees.
    pub(crate) fn refreshes(&self) -> bool {
        self.refresh.waits() && self.has_room() && !self.is_scarce()
    }
    /// The closed superblock to refresh now.
    pub(crate) fn next_to_refresh(&mut self) -> Option<SuperblockId> {
        if !self.refreshes() {
            return None;
        }
        // One that was read goes before one that is old, but not twice: neither kind keeps the other from its turn.
        let old_first = self.refresh.was_read && self.refresh.old;
        let found = match old_first {
            true => self.next_old().or_else(|| self.next_read()),
            false => self.next_read().or_else(|| self.next_old()),
        };
        self.refresh.victim = found.map(|_| 0);
        found
    }
    /// It is whole, and nothing is under way to it.
    fn may_be_moved(&self, s: SuperblockId) -> bool {
        let b = &self.space.superblocks[s];
        b.state == State::Closed && b.programs == 0 && !self.filling().contains(&Some(s))
    }
    /// The first that was read too often. An open one before it is closed.
    fn next_read(&mut self) -> Option<SuperblockId> {
        for i in 0..self.refresh.due.len() {
            let s = self.refresh.due[i];
            if self.space.superblocks[s].state == State::Open {
                self.seal(s);
            }
            if self.may_be_moved(s) {
                self.refresh.due.remove(i);
                (self.refresh.is_due[s], self.refresh.was_read) = (false, true);
                return Some(s);
            }
        }
        None
    }
    /// The oldest, if it is due. If not, or if it may not be moved now, the clock asks again.
    fn next_old(&mut self) -> Option<SuperblockId> {
        if !std::mem::take(&mut self.refresh.old) {
            return None;
        }
        let oldest = self.oldest_due().filter(|&s| self.may_be_moved(s))?;
        self.refresh.was_read = false;
        Some(oldest)
    }
}
