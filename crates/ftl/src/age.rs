//! Ageing: filling and overwriting a drive without time, at memory speed.
//!
//! It uses the lines, layout, victim policies, thresholds and counters of the timed path; only the
//! ring and the operations are left out. Users and the collector write in the proportion of their
//! budgets in the rate limiter, which is what the two of them do in time when both always have
//! something to write. Write errors do not happen.
//!
//! A victim is moved in steps between those of users. It is free when all of it has been moved, as in time, and users that
//! are held write nothing until then. So a run of users that are held for a part of each line begins in the part of it in which
//! ageing ends: what is left of a victim is the least valid line, which a greedy collector takes next.
//!
//! Users of a stated pace keep their rate while the LUNs allow both: the collector has its whole
//! budget in the buffer meanwhile, and of that in flight what fills whole units together with users'. By Little's law
//! so many are programmed in the time of a program.
//!
//! Logical addresses are random, so every access to L2P and the bitmap is a cache miss. They are
//! taken in batches, and a batch's entries are asked for while the one before it is worked on.

use crate::Counters;
use crate::Ftl;
use crate::config::Throttle;
use crate::line::LineState;
use crate::map::Where;
use wordline_base::{Lpn, Stamps};
use wordline_nand::LineId;
use wordline_translation::{
    AgeError, Choose, Pace, Steady, Trim, Unmet, between, beyond, trims_beyond,
};

pub(crate) const BATCH: usize = 256;
/// Credit is counted in this part of a sector.
const CREDIT: i64 = 1024;

/// These sectors lie in most parts of a drive of so many.
fn are_all_over(lpns: &[u32], sectors: u64) -> bool {
    let part = |&lpn: &u32| 1u64 << (u64::from(lpn) * 64 / sectors).min(63);
    lpns.iter().map(part).fold(0, std::ops::BitOr::bitor).count_ones() >= 48
}

impl Ftl {
    /// Writes every sector once, in order.
    pub fn fill(&mut self, stamps: &mut Stamps) -> Result<(), AgeError> {
        self.age_begin(stamps)?;
        let blank = self.map.is_blank() && stamps.is_blank();
        let (mut lpns, mut bumped) = ([0u32; BATCH], [0u32; BATCH]);
        let mut at = 0;
        while at < self.sectors {
            let run = if blank { self.fill_run(stamps, at)? } else { 0 };
            at += run;
            if run > 0 {
                continue;
            }
            let batch = at / BATCH as u64 * BATCH as u64;
            let end = self.sectors.min(batch + BATCH as u64);
            let n = (end - at) as usize;
            for (lpn, at) in lpns[..n].iter_mut().zip(at as u32..) {
                *lpn = at;
            }
            stamps.bump_each(&lpns[..n], &mut bumped[..n]);
            self.age_write(&lpns[..n], &bumped[..n], &[])?;
            self.age_pace((end - batch) as u32)?;
            at = end;
        }
        self.age_end();
        Ok(())
    }
    /// Writes sectors that were never written, as many as follow each other on the line; none if
    /// space has to be made meanwhile.
    fn fill_run(&mut self, stamps: &mut Stamps, at: u64) -> Result<u64, AgeError> {
        let (ppa, room) = self.age_room(0)?;
        if self.rate.user_max == 0 || self.should_collect() {
            return Ok(0);
        }
        let n = (self.sectors - at).min(u64::from(room));
        let stamp = stamps.begin(Lpn(at as u32), n as u32);
        self.map.put_run(at as u32, ppa, n as u32, stamp);
        self.age_append(0, n as u32);
        self.counters.user_sectors += n;
        // The batches that end here.
        let (mut batch, end) = (at / BATCH as u64 * BATCH as u64, at + n);
        while batch < end {
            let next = self.sectors.min(batch + BATCH as u64);
            if next <= end {
                self.age_pace((next - batch) as u32)?;
            }
            batch = next;
        }
        Ok(n)
    }
    /// Writes these sectors, in order.
    pub fn overwrite(&mut self, stamps: &mut Stamps, lpns: &[u32]) -> Result<(), AgeError> {
        beyond(lpns, self.sectors)?;
        self.takes_stamped(stamps, lpns)?;
        let mut bumped = vec![0; lpns.len()];
        stamps.bump_each(lpns, &mut bumped);
        self.overwrite_stamped(lpns, &bumped)
    }
    /// Readies for sectors that are written with their stamps, of which these are the first.
    pub fn takes_stamped(&mut self, stamps: &mut Stamps, lpns: &[u32]) -> Result<bool, AgeError> {
        self.age_begin(stamps)?;
        self.age_end();
        if self.map.is_in_order() && are_all_over(lpns, self.sectors) {
            self.map.populate();
            stamps.populate();
        }
        Ok(true)
    }
    /// Writes these sectors, in order, which have got their stamps.
    pub fn overwrite_stamped(&mut self, lpns: &[u32], stamps: &[u32]) -> Result<(), AgeError> {
        self.age_resume()?;
        let mut batches = lpns.chunks(BATCH).zip(stamps.chunks(BATCH)).peekable();
        self.age_ahead(batches.peek().map_or(&[], |next| next.0));
        let mut ended = Ok(());
        while let Some((batch, stamps)) = batches.next()
            && ended.is_ok()
        {
            let ahead = batches.peek().map_or(&[][..], |next| next.0);
            ended = self.age_batch(batch, stamps, ahead);
        }
        self.age_end();
        ended
    }
    /// Unmaps sectors. Nothing is under way.
    pub fn unmap(&mut self, lpn: Lpn, sectors: u32) -> Result<(), AgeError> {
        if !self.is_quiet() {
            return Err(AgeError::Busy);
        }
        self.switch_all();
        for lpn in lpn.0..lpn.0 + sectors {
            if let Where::Flash(ppa) = self.map.unmap(lpn) {
                self.invalidate(ppa.0);
            }
        }
        self.counters.trimmed_sectors += u64::from(sectors);
        Ok(())
    }
    fn age_batch(&mut self, lpns: &[u32], stamps: &[u32], ahead: &[u32]) -> Result<(), AgeError> {
        self.age_write(lpns, stamps, ahead)?;
        self.age_pace(lpns.len() as u32)
    }
    /// Overwrites sectors that `next` chooses at the pace of users, until as many blocks become free
    /// as are opened.
    pub fn paced(
        &mut self,
        stamps: &mut Stamps,
        next: &mut Choose<'_>,
        pace: Pace,
    ) -> Result<Steady, AgeError> {
        self.pace = Some(pace);
        let report = self.paced_windows(stamps, next);
        self.pace = None;
        report
    }
    fn paced_windows(
        &mut self,
        stamps: &mut Stamps,
        next: &mut Choose<'_>,
    ) -> Result<Steady, AgeError> {
        /// Sectors that all write in a window, as a share of the capacity, how many windows there may
        /// be, and how many in a row have to leave as much free as they found.
        const WINDOW: u64 = 25;
        const MOST: usize = 60;
        const LEVEL: usize = 4;
        /// Windows of whose write amplification the mean is compared with that of as many before them, and the share
        /// by which they differ at most: where lines are few, one of them is much of what is free, and the
        /// collector's units go in steps.
        const WINDOWS: usize = Steady::PACED_WINDOWS;
        const WITHIN: f64 = 0.03;
        let mut report =
            Steady { windows: Vec::new(), steady: false, unmet: Vec::new(), sectors: 0 };
        let mut free = vec![self.scarce_blocks()];
        let (mut lpns, mut ahead, mut bumped) = ([0u32; BATCH], [0u32; BATCH], [0u32; BATCH]);
        let sectors = self.sectors;
        let (mut trims, mut trims_ahead): (Vec<Trim>, Vec<Trim>) = Default::default();
        let mut draw = |lpns: &mut [u32], trims: &mut Vec<Trim>| {
            trims.clear();
            next.choose(lpns, trims)?;
            beyond(lpns, sectors)?;
            trims_beyond(trims, sectors)
        };
        draw(&mut ahead, &mut trims_ahead)?;
        self.age_ahead(&ahead);
        let window = (self.sectors / WINDOW).max(BATCH as u64);
        while report.windows.len() < MOST && !report.steady {
            let before = self.counters;
            let written = |c: &Counters| c.user_sectors + c.gc_sectors;
            self.age_begin(stamps)?;
            let mut ended = Ok(());
            while ended.is_ok() && written(&self.counters) - written(&before) < window {
                std::mem::swap(&mut lpns, &mut ahead);
                std::mem::swap(&mut trims, &mut trims_ahead);
                ended = draw(&mut ahead, &mut trims_ahead);
                ended = ended.and_then(|()| {
                    between(BATCH, &trims, |run, trim| {
                        stamps.bump_each(&lpns[run.clone()], &mut bumped[run.clone()]);
                        let ahead = if trim.is_none() { &ahead[..] } else { &[] };
                        self.age_write(&lpns[run.clone()], &bumped[run], ahead)?;
                        let Some(trim) = trim else { return Ok(()) };
                        trim.stamp(stamps);
                        self.unmap(Lpn(trim.lpn), trim.sectors)
                    })?;
                    self.age_pace(BATCH as u32)
                });
            }
            self.age_end();
            ended?;
            let users = self.counters.user_sectors - before.user_sectors;
            report.sectors += users;
            let all = written(&self.counters) - written(&before);
            report.windows.push(all as f64 / users as f64);
            free.push(self.scarce_blocks());
            // Lines come and go as wholes.
            let last = &free[free.len().saturating_sub(LEVEL + 1)..];
            let moved = last[0].abs_diff(last[last.len() - 1]);
            report.unmet = Unmet::of(&[
                (Unmet::Free, last.len() > LEVEL && moved <= self.g.luns),
                (
                    Unmet::Level,
                    report.windows.len() >= 2 * WINDOWS && report.is_level(WINDOWS, WITHIN),
                ),
            ]);
            report.steady = report.unmet.is_empty();
        }
        Ok(report)
    }

    /// Makes the stamps in flash and those of the check the same: after loading a drive, or when
    /// the check is switched on after ageing without it.
    pub fn adopt_stamps(&mut self, stamps: &mut Stamps) {
        if self.map.stamps.is_some() && !self.stamps_unknown {
            return;
        }
        self.stamps_unknown = false;
        self.map.adopt_stamps(stamps);
    }

    /// The stamps of the check were kept with the drive that was loaded: they are those on flash.
    pub fn know_stamps(&mut self) -> bool {
        self.stamps_unknown = false;
        true
    }
    fn age_begin(&mut self, stamps: &mut Stamps) -> Result<(), AgeError> {
        self.age_resume()?;
        if stamps.is_on() {
            self.adopt_stamps(stamps);
        }
        Ok(())
    }
    fn age_resume(&mut self) -> Result<(), AgeError> {
        if !self.is_quiet() {
            return Err(AgeError::Busy);
        }
        for side in 0..2 {
            self.leave_stripe(side);
        }
        self.switch_all();
        self.set_user_active(true);
        Ok(())
    }
    /// Makes the pages programmed of the open lines those of their cursors.
    fn age_end(&mut self) {
        self.set_user_active(false);
        for side in 0..2 {
            if let Some(line) = self.lines.sides[side].cur {
                self.age_programmed(line);
            }
        }
    }
    /// Leaves the drive alone: the collector works until enough lines are free, or it has moved a
    /// capacity's worth. (pblk goes on with lines that hardly give anything back.)
    pub fn rest(&mut self, stamps: &mut Stamps) -> Result<(), AgeError> {
        self.age_begin(stamps)?;
        self.set_user_active(false);
        let before = self.counters.gc_sectors;
        self.free_full();
        while self.should_collect() && self.counters.gc_sectors - before < self.sectors {
            let Some(line) = self.age_begun().or_else(|| self.choose_victim()) else { break };
            self.age_move(line, u32::MAX)?;
            self.free_full();
        }
        self.age_credit = 0;
        self.age_end();
        Ok(())
    }
    /// Ageing is over: a stripe that it left half written is ended with padding, so that all that is read
    /// from flash has its parity.
    pub fn settle(&mut self) {
        self.age_victim = None;
        for side in 0..2 {
            let Some(line) = self.lines.sides[side].cur else { continue };
            let l = &self.lines[line];
            let begun = l.left > 0
                && (l.fill > 0 || !self.lines.peek_unit(line).is_multiple_of(self.g.luns));
            if l.strides.is_none() || !begun || self.writers[side].has_open_stripe() {
                continue;
            }
            let page = self.lines.peek_unit(line) / self.g.luns;
            let first = (page * self.g.luns..(page + 1) * self.g.luns)
                .find(|&u| self.is_summed(line, u) && !self.lines.is_bad(line, self.lines.lun(u)));
            if l.fill == 0 && first == Some(self.lines.peek_unit(line)) {
                continue; // Nothing of the stripe is written.
            }
            self.pad_aged_unit(line);
            let size = self.g.sectors_per_unit;
            while self.lines[line].left > 0 && self.lines.peek_unit(line) / self.g.luns == page {
                self.pad_aged_unit(line);
            }
            debug_assert_eq!(self.lines[line].data % size, 0);
            self.age_parity(line, page);
            self.age_programmed(line);
        }
    }
    fn age_programmed(&mut self, line: LineId) {
        let luns = self.g.luns;
        let l = &self.lines[line];
        let end = if l.state == LineState::Open { l.cur } else { self.lines.units };
        // Parity is written when the data of the stripe are.
        let done = if l.state == LineState::Open && l.left > 0 {
            self.lines.peek_unit(line) / luns
        } else {
            end.div_ceil(luns)
        };
        for lun in 0..luns {
            if self.lines.is_bad(line, lun) {
                continue;
            }
            let block = self.lines.block(line, lun);
            let mut pages = (end + luns - 1 - lun) / luns;
            if self.lines.is_parity(line, lun) {
                // Published layout: what would be the last parity unit may be emeta.
                let last = (done * luns + lun).saturating_sub(luns);
                let open = self.lines[line].state == LineState::Open;
                pages = done - u32::from(open && done > 0 && self.lines.is_emeta(line, last));
            }
            self.lines.programmed[block] = pages;
        }
    }
    /// Writes the parity of a stripe. What it holds is computed when it is read.
    fn age_parity(&mut self, line: LineId, page: u32) {
        let size = self.g.sectors_per_unit;
        let mut from = 0;
        let implied = &mut self.lines[line].implied;
        if implied.start == implied.end {
            *implied = page..page;
        }
        let keep = implied.end != page;
        implied.end += u32::from(!keep);
        while let Some(unit) = self.lines.parity_unit(line, page, from) {
            let lun = self.lines.lun(unit);
            if keep {
                self.sum_aged(line, page, lun);
            }
            self.counters.parity_sectors += u64::from(size);
            self.counters.programmed_sectors += u64::from(size);
            from = lun + 1;
        }
    }

    /// Says that these sectors will be written soon.
    fn age_ahead(&self, lpns: &[u32]) {
        lpns.iter().for_each(|&lpn| self.map.prefetch(lpn));
    }
    /// Writes sectors in order, with their stamps; those of `ahead` are next. What they need is asked for one
    /// by one, since a processor has only so many requests to memory under way.
    fn age_write(
        &mut self,
        mut lpns: &[u32],
        mut stamps: &[u32],
        ahead: &[u32],
    ) -> Result<(), AgeError> {
        let mut ahead = ahead.iter();
        for &lpn in lpns {
            if let Where::Flash(ppa) = self.map.get(lpn) {
                self.map.prefetch_valid(ppa.0);
            }
        }
        let sectors = lpns.len() as u64;
        while !lpns.is_empty() {
            let (ppa, room) = self.age_room(0)?;
            let n = lpns.len().min(room as usize);
            let run = &lpns[..n];
            // Valid before they may be stale again: a sector may be written twice.
            self.map.put_written(run, &stamps[..n], ppa);
            for (&lpn, ppa) in run.iter().zip(ppa..) {
                if let Some(&next) = ahead.next() {
                    self.map.prefetch(next);
                }
                if let Where::Flash(old) = self.map.replace_by_flash(lpn, ppa) {
                    self.invalidate(old.0);
                }
            }
            self.age_append(0, n as u32);
            (lpns, stamps) = (&lpns[n..], &stamps[n..]);
        }
        self.age_ahead(ahead.as_slice());
        self.counters.user_sectors += sectors;
        self.repartition();
        Ok(())
    }
    /// A place to write: a sector and how many follow it in the same line without a gap.
    fn age_room(&mut self, side: usize) -> Result<(u32, u32), AgeError> {
        loop {
            if let Some(line) = self.lines.sides[side].cur {
                let l = &self.lines[line];
                if l.left > 0 {
                    let unit = self.lines.peek_unit(line);
                    let ppa = self.lines.ppa(line, unit);
                    let units = if l.good == self.g.luns && l.strides.is_none() {
                        l.left
                    } else {
                        // Up to the next unit that takes no data, or the end of the stripe.
                        let end = (unit - unit % self.g.luns + self.g.luns).min(l.emeta);
                        let data = |&u: &u32| {
                            let lun = self.lines.lun(u);
                            !self.lines.is_bad(line, lun) && !self.lines.is_parity(line, lun)
                        };
                        (unit..end).take_while(data).count() as u32
                    };
                    return Ok((ppa + l.fill, units * self.g.sectors_per_unit - l.fill));
                }
                self.age_close(side);
            }
            if self.reserve_next(side).is_none() {
                return Err(AgeError::Full("no free line"));
            }
            let next = self.lines.sides[side].next.expect("a next line");
            while let Some(lun) = self.lines.any_erase(side, 0) {
                self.lines.take_erase(side, lun);
                self.lines.note_erase(side, next, lun);
                self.counters.erases += 1;
            }
            if let Some(line) = self.lines.open_next(self.stream(side)) {
                self.opened(line);
                let l = &self.lines[line];
                let (smeta, mut from) = (l.smeta, l.emeta);
                self.age_meta(line, smeta);
                while let Some(unit) = self.lines.next_emeta(line, from) {
                    let ppa = self.lines.ppa(line, unit);
                    self.map.clear_oob(ppa, self.g.sectors_per_unit);
                    from = unit + 1;
                }
                self.counters.smeta_sectors += u64::from(self.g.sectors_per_unit);
                let l = &self.lines[line];
                if l.strides.is_some() && l.left > 0 && self.lines.peek_unit(line) >= self.g.luns {
                    // smeta is all the data of the first stripe.
                    self.age_parity(line, 0);
                }
                self.reserve_next(side);
                self.rate_update();
            }
        }
    }
    fn age_meta(&mut self, line: LineId, unit: u32) {
        let ppa = self.lines.ppa(line, unit);
        self.map.clear_oob(ppa, self.g.sectors_per_unit);
        self.counters.programmed_sectors += u64::from(self.g.sectors_per_unit);
    }
    fn age_append(&mut self, side: usize, sectors: u32) {
        let size = self.g.sectors_per_unit;
        self.counters.programmed_sectors += u64::from(sectors);
        let line = self.lines.sides[side].cur.expect("an open line");
        let mut fill = self.lines[line].fill + sectors;
        let unit = self.lines.peek_unit(line);
        let units = fill / size;
        fill %= size;
        let l = &mut self.lines[line];
        // The run had no gap, so the units are consecutive.
        l.cur = unit + units;
        l.left -= units;
        l.data += units * size;
        l.fill = fill;
        if l.strides.is_some() && units > 0 && fill == 0 {
            let page = (unit + units - 1) / self.g.luns;
            if l.left == 0 || self.lines.peek_unit(line) / self.g.luns > page {
                self.age_parity(line, page);
            }
        }
    }
    fn age_close(&mut self, side: usize) {
        let line = self.lines.close(side);
        while let Some(unit) = self.lines.peek_emeta(line) {
            self.lines[line].emeta_cur = unit + 1;
            self.counters.emeta_sectors += u64::from(self.g.sectors_per_unit);
            self.age_meta(line, unit);
        }
        self.finish_emeta(line);
        self.age_programmed(line);
    }
    /// The rest of a unit that ageing began is padding.
    pub(crate) fn pad_aged_unit(&mut self, line: LineId) {
        let size = self.g.sectors_per_unit;
        let fill = std::mem::take(&mut self.lines[line].fill);
        let unit = self.lines.take_unit(line);
        let ppa = self.lines.ppa(line, unit);
        self.map.clear_oob(ppa + fill, size - fill);
        self.counters.pad_sectors += u64::from(size - fill);
        self.counters.programmed_sectors += u64::from(size - fill);
    }

    /// Lets the collector move what its budget gives it for `users` sectors of theirs.
    fn age_pace(&mut self, users: u32) -> Result<(), AgeError> {
        /// Steps of a line. One of a large line is still worth two threads.
        const STEPS: u32 = 8;
        if std::mem::take(&mut self.gc.kick) {
            self.free_full();
        }
        self.age_credit += self.age_share(users);
        let step = i64::from(self.g.sectors_per_line / STEPS).max(1) * CREDIT;
        while self.rate.user_max == 0 || self.age_credit >= step {
            let Some(line) = self.age_choose()? else {
                self.age_credit = 0;
                break;
            };
            // Users that are held wait for all of it, and owe nothing for that.
            let is_held = self.rate.user_max == 0;
            let owed = u32::try_from(self.age_credit / CREDIT).unwrap_or(u32::MAX);
            let most = if is_held { u32::MAX } else { owed };
            let moved = self.age_move(line, most)?;
            if !is_held {
                self.age_credit -= CREDIT * i64::from(moved);
            }
            self.free_full();
        }
        Ok(())
    }
    /// The line of which a part has been moved, unless users have emptied it since.
    fn age_begun(&self) -> Option<LineId> {
        self.age_victim.filter(|&line| self.map.valid_in(line) > 0)
    }
    /// What is collected next.
    fn age_choose(&mut self) -> Result<Option<LineId>, AgeError> {
        let begun = self.age_begun();
        if begun.is_some() || !self.should_collect() {
            return Ok(begun);
        }
        let coldest = self.coldest_line();
        if coldest.is_some() {
            self.level_later();
        }
        let line = coldest.or_else(|| self.choose_victim());
        if line.is_none() && self.rate.user_max == 0 {
            return Err(AgeError::Full("nothing can be collected"));
        }
        Ok(line)
    }
    fn age_share(&self, users: u32) -> i64 {
        if self.rate.user_max == 0 {
            return 0;
        }
        let budgets = (self.rate.gc_max.into(), self.rate.user_max.into());
        let (gc, user) = match self.pace {
            Some(pace) => self.paced_shares(pace, budgets),
            None => budgets,
        };
        let credit = CREDIT as u128 * u128::from(users) * u128::from(gc) / u128::from(user.max(1));
        credit as i64
    }
    /// What the collector and users of this pace write in the same time: in sectors a second, or, if
    /// the LUNs do not allow the users' rate, in shares of the buffer.
    fn paced_shares(&self, pace: Pace, shares: (u64, u64)) -> (u64, u64) {
        let c = &self.config;
        // Sectors a second, of so many in flight.
        let second = |sectors: u64| {
            let in_a_second = u128::from(sectors) * 1_000_000_000 / u128::from(pace.unit.0.max(1));
            in_a_second.min(u128::from(pace.most)) as u64
        };
        // Data that so many LUNs take, all at once or one of every stride.
        let rate = |luns: u32, throttled: bool| {
            let unit = u64::from(luns * self.g.sectors_per_unit);
            match u64::from(c.stride) {
                0 => second(unit),
                s => {
                    second(if throttled { unit / s } else { unit }) / s
                        * (s - u64::from(c.parities))
                }
            }
        };
        // Units are programmed whole: what is short of one waits in the buffer, and is no part of what is in flight.
        let unit = u64::from(self.g.sectors_per_unit);
        let whole = |entries: u64| entries / unit * unit;
        if self.lines.is_split() {
            let (hot, cold) = (self.lines.hot, self.g.luns - self.lines.hot);
            let cold = second(u64::from(cold * self.g.sectors_per_unit));
            return (second(whole(shares.0)).min(cold), pace.users.min(rate(hot, true)));
        }
        // Those of users are in the same units.
        let second_ns = 1_000_000_000;
        let beside = u128::from(pace.users) * u128::from(pace.unit.0) / second_ns;
        let beside = beside.min(u128::from(shares.1)) as u64;
        let alone = second(whole(shares.0 + beside).saturating_sub(beside));
        let (all, gc) = match c.throttle {
            Throttle::All => (rate(self.g.luns, true), u64::MAX),
            Throttle::Gc => (rate(self.g.luns, false), rate(self.g.luns, true)),
            Throttle::None => (rate(self.g.luns, false), u64::MAX),
        };
        let gc = alone.min(gc);
        if pace.users + gc <= all {
            return (gc, pace.users);
        }
        // Users that fall behind fill their share of the buffer.
        let most = all as u128 * u128::from(shares.1) / u128::from((shares.0 + shares.1).max(1));
        if most < u128::from(pace.users) { shares } else { (all - pace.users, pace.users) }
    }
    /// Moves what is valid in a line, so many sectors at most, and frees it if nothing is left. Says how many
    /// were moved.
    fn age_move(&mut self, line: LineId, most: u32) -> Result<u32, AgeError> {
        let writable = self.lines.writable(0) + self.lines.writable(1);
        if u64::from(self.map.valid_in(line)) > writable {
            return Err(AgeError::Full("no room to collect garbage"));
        }
        let begins = self.age_victim.take() != Some(line);
        self.lines[line].state = LineState::Gc;
        let l = &self.lines[line];
        if begins && l.emeta_ok && !l.write_error {
            let mut from = l.emeta;
            while let Some(unit) = self.lines.next_emeta(line, from) {
                self.counters.meta_read_sectors += u64::from(self.g.sectors_per_unit);
                from = unit + 1;
            }
        }
        let first = self.lines.first_sector(line);
        let split = self.lines.is_split();
        let valid = self.map.valid_in(line);
        let n = valid.min(most);
        if self.config.stride == 0 && self.map.moves_lines() {
            self.age_move_runs(first, n)?;
        } else {
            self.age_move_on(line, first, n)?;
        }
        if n < valid {
            // Between steps it is a line like others: users may empty it.
            self.map.clear_first(line, first, n);
            self.lines[line].state = LineState::Closed;
            self.age_victim = Some(line);
            return Ok(n);
        }
        self.map.clear_line(line, first, if split { self.g.sectors_per_unit } else { 0 });
        self.free_line(line);
        Ok(n)
    }
    /// Moves the first valid sectors of a line when places for all of them are found.
    fn age_move_runs(&mut self, first: u32, sectors: u32) -> Result<(), AgeError> {
        let mut to = Vec::new();
        let mut left = sectors;
        while left > 0 {
            let (ppa, room) = self.age_room(0)?;
            let n = left.min(room);
            self.map.set_valid(ppa, n);
            self.age_append(0, n);
            to.push((ppa, n));
            left -= n;
        }
        self.map.move_line(first, &to);
        self.counters.gc_sectors += u64::from(sectors);
        self.counters.gc_read_sectors += u64::from(sectors);
        Ok(())
    }
    /// Moves them as places are found, since parity is the sum of what was moved before.
    fn age_move_on(&mut self, line: LineId, first: u32, sectors: u32) -> Result<(), AgeError> {
        // A batch that is gathered, and the one before it.
        let mut lpns = [[0u32; BATCH]; 2];
        let mut from = [[0u32; BATCH]; 2];
        let words = self.map.words_of(first).len();
        let split = self.lines.is_split();
        let (mut n, mut before, mut left) = (0, 0, sectors);
        for i in 0..words {
            let mut word = self.map.words_of(first)[i];
            while word != 0 && left > 0 {
                let ppa = first + i as u32 * 64 + word.trailing_zeros();
                word &= word - 1;
                if !split || self.map.line_of(ppa) == line {
                    from[0][n] = ppa;
                    n += 1;
                    left -= 1;
                }
            }
            if n > BATCH - 64 || left == 0 || i + 1 == words {
                self.map.lpns_at(&from[0][..n], &mut lpns[0][..n]);
                self.age_place(&lpns[1][..before], &from[1][..before], &lpns[0][..n])?;
                lpns.swap(0, 1);
                from.swap(0, 1);
                (before, n) = (n, 0);
                if left == 0 {
                    break;
                }
            }
        }
        self.age_place(&lpns[1][..before], &from[1][..before], &[])
    }
    /// Moves sectors; those of `ahead` are next.
    fn age_place(&mut self, lpns: &[u32], from: &[u32], ahead: &[u32]) -> Result<(), AgeError> {
        if lpns.is_empty() {
            ahead.iter().for_each(|&lpn| self.map.prefetch(lpn));
        }
        let (mut done, mut ahead) = (0, ahead);
        while done < lpns.len() {
            let side = self.gc_side();
            let (ppa, mut room) = self.age_room(side)?;
            if self.lines.is_split() {
                // Not more than the cold side has for sure.
                room = room.min(self.g.sectors_per_unit);
            }
            let n = (lpns.len() - done).min(room as usize);
            self.counters.hot_gc_sectors +=
                if side == 0 && self.lines.is_split() { n as u64 } else { 0 };
            let (lpns, from) = (&lpns[done..done + n], &from[done..done + n]);
            debug_assert!(lpns.iter().zip(from).all(|(&lpn, from)| self.map.code(lpn) == from + 1));
            self.map.move_run(lpns, from, ppa, std::mem::take(&mut ahead));
            self.age_append(side, n as u32);
            done += n;
        }
        self.counters.gc_sectors += lpns.len() as u64;
        self.counters.gc_read_sectors += lpns.len() as u64;
        Ok(())
    }
}
