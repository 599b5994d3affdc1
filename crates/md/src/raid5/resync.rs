//! A new member is rebuilt, and rows that may be out of sync are looked at.

use super::{Added, Member, MemberId, Out, Pass, Phase, Raid5, To, What};
use crate::config::PAGE;
use crate::contents::Pages;
use std::collections::BTreeSet;
use wordline_base::{IdVec, IoClass};

impl Raid5 {
    /// Another drive takes a failed member's place: it is to be filled.
    pub fn replace(&mut self, member: u32) {
        self.members[member] = Member::Rebuilding(0);
        self.held[member] = Pages::default();
        // What the lost drive began since: nobody hears of its end.
        self.busy[member] = false;
        (self.sync_at, self.synced) = (0, BTreeSet::new());
        for head in &mut self.heads {
            head.devs[member].bad = false;
        }
    }

    /// Rows are left to rebuild or look at, and who that is for.
    pub fn syncs(&self) -> bool {
        self.resync.is_some() || self.members.iter().any(|m| matches!(m, Member::Rebuilding(_)))
    }

    /// Rows that are rebuilt or were looked at, from the first on, and all; none: nothing is left to do.
    pub fn sync_progress(&self) -> Option<(u64, u64)> {
        let rebuilt = self.members.iter().find_map(|m| match m {
            Member::Rebuilding(to) => Some(*to),
            _ => None,
        });
        let looked_at = self.resync.as_ref().map(|_| self.resynced);
        Some((rebuilt.or(looked_at)?, self.rows()))
    }

    pub(super) fn rows(&self) -> u64 {
        self.layout.used / PAGE
    }

    /// The next row that is to be rebuilt or looked at; none: all are on their way.
    pub fn next_sync(&mut self) -> Option<u64> {
        if !self.syncs() || self.is_lost() {
            return None;
        }
        while self.sync_at < self.rows() {
            let row = self.sync_at;
            self.sync_at += 1;
            let dirty = match (&self.resync, self.region(row)) {
                (Some(Some(regions)), Some(region)) => regions.contains(&region),
                _ => true,
            };
            if dirty || !self.is_whole() {
                return Some(row);
            }
            self.row_synced(row);
        }
        None
    }

    /// It could not be begun.
    pub fn sync_later(&mut self, row: u64) {
        self.sync_at = self.sync_at.min(row);
    }

    /// raid5_sync_request.
    pub fn sync(&mut self, row: u64) -> Added {
        let Some(s) = self.get(row) else { return Added::NoStripe };
        let head = &mut self.heads[s];
        if head.trim.is_some() {
            self.settle(s);
            return Added::Overlap;
        }
        (head.sync, head.handle) = (true, true);
        head.users += 1;
        Added::To(s)
    }

    /// All that can be read is there: the missing page, or a parity that is wrong, is written.
    pub(super) fn sync_out(
        &mut self,
        s: u32,
        parity: MemberId,
        there: &IdVec<MemberId, bool>,
        pass: &mut Pass,
    ) -> bool {
        let row = self.heads[s].row;
        let lost: Vec<MemberId> = (0..there.count()).filter(|&m| !there[m]).collect();
        let target = match *lost {
            [] => {
                self.stats.resynced_rows += 1;
                pass.summed += there.len() as u64 - 2;
                let sum = self.sum_of_others(s, parity);
                if self.heads[s].devs[parity].page == sum {
                    self.end_sync(s);
                    return false;
                }
                self.stats.mismatches += 1;
                self.heads[s].devs[parity].page = sum;
                parity
            }
            [m] if matches!(self.members[m], Member::Rebuilding(_)) => {
                if !self.heads[s].devs[m].uptodate {
                    self.rebuild_page(s, m, pass);
                }
                self.stats.rebuilt_pages += 1;
                m
            }
            _ => {
                // Nothing can be done here.
                self.end_sync(s);
                return false;
            }
        };
        self.heads[s].phase = Phase::Syncing;
        self.send(s, To::Member(target), What::Write, (row * PAGE, PAGE), false, IoClass::NONE);
        true
    }

    pub(super) fn end_sync(&mut self, s: u32) {
        let head = &mut self.heads[s];
        head.sync = false;
        for dev in &mut head.devs {
            dev.bad = false;
        }
        head.handle |= head.devs.iter().any(|d| !d.read.is_empty() || !d.write.is_empty());
        let row = head.row;
        self.make_room();
        self.out.push_back(Out::Synced);
        self.row_synced(row);
    }

    pub(super) fn row_synced(&mut self, row: u64) {
        if self.resync.is_some() && self.is_whole() {
            self.resynced += 1;
            if self.resynced == self.rows() {
                self.resync = None;
            }
            return;
        }
        let rebuilt = |m: &Member| match m {
            Member::Rebuilding(to) => Some(*to),
            _ => None,
        };
        let Some(mut to) = self.members.iter().find_map(rebuilt) else { return };
        self.synced.insert(row);
        while self.synced.remove(&to) {
            to += 1;
        }
        let rows = self.rows();
        for (m, state) in (0..).zip(&mut self.members) {
            if let Member::Rebuilding(at) = state {
                *at = to;
                if to == rows {
                    *state = Member::InSync;
                    self.out.push_back(Out::Rebuilt { member: m });
                }
            }
        }
    }
}
