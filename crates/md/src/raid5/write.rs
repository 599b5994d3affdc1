//! What a stripe writes: data and parity, trims, and what goes to the journal before.

use super::{Logged, Member, MemberId, Out, PART, Pass, Phase, Raid5, To, What};
use crate::config::PAGE;
use crate::contents::{PARTS, Page, add, content};
use wordline_base::{IdVec, IoClass};

impl Raid5 {
    /// handle_stripe_dirtying: whether all is at hand for the new parity, and then whether it is the sum of all
    /// data. Otherwise what is to be read first.
    pub(super) fn prepare_write(
        &mut self,
        s: u32,
        parity: MemberId,
        there: &IdVec<MemberId, bool>,
        need: &mut IdVec<MemberId, Option<What>>,
        pass: &mut Pass,
    ) -> Option<bool> {
        let n = there.count();
        let count = |raid: &Raid5| {
            let (mut rmw, mut rcw) = (0, 0);
            for (m, dev) in (0..).zip(&raid.heads[s].devs) {
                // What cannot be read is no way.
                let cost = if there[m] { 1 } else { 2 * n };
                if (!dev.write.is_empty() || m == parity) && !dev.uptodate {
                    rmw += cost;
                }
                if m != parity && !dev.overwritten() && !dev.uptodate {
                    rcw += cost;
                }
            }
            (rmw, rcw)
        };
        // Where parity may be wrong it is made anew.
        let anew = self.resync.is_some() && there.iter().all(|there| *there);
        let count = |raid: &Raid5| match (anew, count(raid)) {
            (true, (_, rcw)) => (2 * n - 1, rcw),
            (false, both) => both,
        };
        let (mut rmw, mut rcw) = count(self);
        if rmw.min(rcw) >= 2 * n {
            // A page that is lost is written in part: it is rebuilt first.
            let lost = (0..n).find(|&m| !there[m] && !self.heads[s].devs[m].uptodate);
            let known = |m: MemberId| self.heads[s].devs[m].uptodate;
            if let Some(m) = lost
                && (0..n).all(|o| o == m || known(o))
            {
                self.rebuild_page(s, m, pass);
                (rmw, rcw) = count(self);
            }
        }
        if rcw == 0 || rmw == 0 {
            return Some(rcw == 0);
        }
        let head = &mut self.heads[s];
        if !head.preread {
            head.delayed = true;
            self.stats.delayed += 1;
            return None;
        }
        for m in 0..n {
            let dev = &head.devs[m];
            if dev.uptodate || !there[m] {
                continue;
            }
            let wanted = match (rmw.min(rcw) >= 2 * n, rmw < rcw) {
                (true, _) => true,
                (_, true) => !dev.write.is_empty() || m == parity,
                (_, false) => m != parity && !dev.overwritten(),
            };
            if wanted {
                need[m].get_or_insert(What::Preread);
            }
        }
        None
    }

    /// schedule_reconstruction and its operations: new data and parity, and the writes of both.
    pub(super) fn reconstruct(&mut self, s: u32, parity: MemberId, by_sums: bool, pass: &mut Pass) {
        let n = self.layout.members;
        let row = self.heads[s].row;
        if !self.has_bit(s, row) {
            return;
        }
        let full = (0..n).all(|m| m == parity || self.heads[s].devs[m].overwritten());
        let of = match (full, by_sums) {
            (true, _) => &mut self.stats.full_writes,
            (_, true) => &mut self.stats.rcw_writes,
            (_, false) => &mut self.stats.rmw_writes,
        };
        *of += 1;
        let mut changed = 0;
        for m in 0..n {
            let dev = &mut self.heads[s].devs[m];
            if dev.write.is_empty() {
                continue;
            }
            changed += 1;
            dev.written = std::mem::take(&mut dev.write);
            pass.copied += dev.written.len() as u64;
            dev.uptodate = true;
            let before = dev.page;
            if self.checks
                && let Some(byte) = self.layout.byte(m, row * PAGE)
            {
                let taken = self.taken.at(byte / PAGE);
                for part in &dev.written {
                    let parts = usize::from(part.from)..usize::from(part.to);
                    for (i, last) in taken.iter_mut().enumerate().filter(|(i, _)| parts.contains(i))
                    {
                        *last = content(byte / PART + i as u64, part.write);
                        dev.page[i] = *last;
                    }
                }
            }
            let mut sum = before;
            add(&mut sum, &dev.page);
            if !by_sums {
                add(&mut self.heads[s].devs[parity].page, &sum);
            }
        }
        if by_sums {
            let sum = self.sum_of_others(s, parity);
            self.heads[s].devs[parity].page = sum;
            pass.summed += n as u64 - 2;
        } else {
            pass.summed += 2 * changed;
        }
        self.heads[s].devs[parity].uptodate = true;
        self.make_room();
        match self.guards.journal {
            Some(bytes) => self.log_out(s, bytes),
            None => self.write_out(s),
        }
    }

    pub(super) fn writes(&self, s: u32) -> Vec<u32> {
        let head = &self.heads[s];
        let parity = self.layout.parity(head.row * PAGE);
        let of = |m: &u32| head.trimming || Some(*m) == parity || !head.devs[*m].written.is_empty();
        (0..self.layout.members).filter(of).collect()
    }

    /// r5l_write_stripe: data and parity go to the journal before they go to their members.
    pub(super) fn log_out(&mut self, s: u32, bytes: u64) {
        let head = &mut self.heads[s];
        head.phase = Phase::Logging;
        let row = head.row;
        let of = |m: u32| (m, self.heads[s].devs[m].page);
        let pages: Vec<(u32, Page)> = self.writes(s).into_iter().map(of).collect();
        // A block of metadata goes before them, and says of a trim all there is to say.
        let data = if self.heads[s].trimming { 0 } else { pages.len() as u64 };
        let len = (data + 1) * PAGE;
        if self.log_at + len > bytes {
            self.log_at = 0;
        }
        let offset = self.log_at;
        self.log_at += len;
        self.stats.log_writes += 1;
        self.stats.log_pages += len / PAGE;
        self.log.insert(s, Logged { row, pages });
        let class = self.class(s);
        self.send(s, To::Journal, What::Log, (offset, len), true, class);
    }

    /// ops_run_io of a write.
    pub(super) fn write_out(&mut self, s: u32) {
        self.heads[s].phase = Phase::Writing;
        let row = self.heads[s].row;
        let parity = self.layout.parity(row * PAGE);
        let fua = self.heads[s].devs.iter().any(|d| d.written.iter().any(|p| p.fua));
        let class = self.class(s);
        for m in self.writes(s) {
            if self.members[m] == Member::Failed {
                continue;
            }
            let of = if Some(m) == parity {
                &mut self.stats.parity_writes
            } else {
                &mut self.stats.data_writes
            };
            *of += 1;
            self.send(s, To::Member(m), What::Write, (row * PAGE, PAGE), fua, class);
        }
        if self.heads[s].flying == 0 {
            self.heads[s].handle = true;
        }
    }

    pub(super) fn trim_out(&mut self, s: u32) {
        let row = self.heads[s].row;
        if !self.has_bit(s, row) {
            return;
        }
        self.stats.trimmed_rows += 1;
        self.heads[s].trimming = true;
        for m in 0..self.layout.members {
            let dev = &mut self.heads[s].devs[m];
            (dev.page, dev.uptodate) = ([0; PARTS], true);
            if let (true, Some(byte)) = (self.checks, self.layout.byte(m, row * PAGE)) {
                *self.taken.at(byte / PAGE) = [0; PARTS];
            }
        }
        match self.guards.journal {
            Some(bytes) => self.log_out(s, bytes),
            None => self.trim_members(s),
        }
    }

    pub(super) fn trim_members(&mut self, s: u32) {
        self.heads[s].phase = Phase::Writing;
        let row = self.heads[s].row;
        for m in 0..self.layout.members {
            if self.members[m] != Member::Failed {
                self.send(s, To::Member(m), What::Trim, (row * PAGE, PAGE), false, IoClass::NONE);
            }
        }
    }

    /// handle_stripe_clean_event.
    pub(super) fn end_writes(&mut self, s: u32) {
        let row = self.heads[s].row;
        let lost = (0..self.members.count()).filter(|&m| !self.in_sync(m, row)).count();
        let ok = lost < 2;
        self.log.remove(&s);
        for m in 0..self.layout.members {
            let dev = &mut self.heads[s].devs[m];
            dev.bad = false;
            let parts = std::mem::take(&mut dev.written);
            let trimmed = self.heads[s].trimming;
            let Some(byte) = self.layout.byte(m, row * PAGE) else { continue };
            if self.checks && (trimmed || !parts.is_empty()) {
                *self.acked.at(byte / PAGE) = self.taken.get(byte / PAGE);
            }
            for part in parts {
                self.stats.failed_pages += u64::from(!ok);
                self.out.push_back(Out::Ended { bio: part.bio, ok });
            }
        }
        let head = &mut self.heads[s];
        if std::mem::take(&mut head.trimming)
            && let Some(bio) = head.trim.take()
        {
            self.out.push_back(Out::Ended { bio, ok });
        }
        self.make_room();
        let head = &mut self.heads[s];
        if std::mem::take(&mut head.preread) {
            self.prereading -= 1;
        }
        if std::mem::take(&mut head.counted)
            && let Some(region) = self.region(row)
            && let Some(r) = self.regions.get_mut(&region)
        {
            r.pending -= 1;
        }
    }
}
