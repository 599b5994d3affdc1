//! Ageing: filling and overwriting a drive without time, at memory speed.
//!
//! It uses the superblocks, streams, pace and policy of the timed path; the buffer and the operations are
//! left out, and programs do not fail.

use crate::Firmware;
use crate::gc::{Collecting, PARTS};
use crate::map::{NOBODY, Where};
use crate::space::{Mode, State, SuperblockId};
use crate::write::{GC, HOST, MAPS, SLC, Stream, WARM};
use wordline_base::{Lpn, Stamps};
use wordline_translation::{AgeError, Counters};

/// Units of a victim whose entries are asked for ahead: enough for the memory to be there in time.
const AHEAD: u32 = 4;

impl Firmware {
    pub(crate) fn age_begin(&mut self, stamps: &mut Stamps) -> Result<(), AgeError> {
        if !self.is_quiet() || !self.gc_rests() {
            return Err(AgeError::Busy);
        }
        if stamps.is_on() {
            use wordline_translation::Translation;
            self.adopt_stamps(stamps);
        }
        Ok(())
    }
    /// Writes every sector once, in order.
    pub(crate) fn age_fill(&mut self, stamps: &mut Stamps) -> Result<(), AgeError> {
        self.age_begin(stamps)?;
        self.native_only = true;
        let filled = self.fill_all(stamps);
        self.native_only = false;
        filled?;
        self.age_fold()
    }
    fn fill_all(&mut self, stamps: &mut Stamps) -> Result<(), AgeError> {
        let all = self.plan.sectors as u32;
        let mut at = 0;
        if self.map.is_blank() && self.space.opened == 0 {
            at = self.fill_lines(stamps);
            let entries = self.plan.entries;
            let to = if self.cached.is_some() { at } else { 0 };
            for lpn in (0..to).step_by(entries as usize) {
                self.age_entry(lpn, true)?;
                self.counters.map_hits += u64::from((at - lpn).min(entries) - 1);
            }
        }
        let mut lpns = [0u32; 1024];
        while at < all {
            let n = (all - at).min(1024) as usize;
            lpns[..n].iter_mut().zip(at..).for_each(|(lpn, at)| *lpn = at);
            self.age(stamps, &lpns[..n])?;
            at += n as u32;
        }
        Ok(())
    }
    /// Writes whole lines, the superblocks of all groups beside each other. Answers how many sectors.
    fn fill_lines(&mut self, stamps: &mut Stamps) -> u32 {
        let (g, groups) = (self.g, self.space.groups);
        let all = self.plan.sectors as u32;
        let mut at = 0;
        for line in 0..g.lines {
            let ids = line * groups..(line + 1) * groups;
            let whole = ids.clone().all(|s| {
                let units = self.space.units_of(s);
                units == self.space.places() && self.space.free[s % groups].front() == Some(&s)
            });
            if !whole || all - at < g.sectors_per_line {
                break;
            }
            let n = g.sectors_per_line;
            let stamp = stamps.begin(Lpn(at), n);
            self.map.put_run(at, line * n, n, stamp);
            self.map.number_run(line * g.units_per_line(), g.units_per_line());
            for s in ids {
                let opened = self.space.open(s % groups, Mode::Native, true, None);
                debug_assert_eq!(opened, Some(s));
                self.refresh.opened(s);
                for lun in self.space.luns_of(s) {
                    let block = self.space.block(s, lun);
                    self.space.pages[block] = g.pages;
                }
                let b = &mut self.space.superblocks[s];
                (b.state, b.valid, b.left) = (State::Closed, n / groups, 0);
                self.space.room -= u64::from(self.space.places());
                self.counters.lines_opened += 1;
            }
            self.counters.user_sectors += u64::from(n);
            self.counters.programmed_sectors += u64::from(n);
            at += n;
        }
        self.set_pace();
        at
    }
    /// Writes these sectors, in order.
    pub(crate) fn age(&mut self, stamps: &mut Stamps, lpns: &[u32]) -> Result<(), AgeError> {
        self.age_begin(stamps)?;
        for batch in lpns.chunks(256) {
            if let Some(&sector) = batch.iter().find(|&&lpn| u64::from(lpn) >= self.plan.sectors) {
                return Err(AgeError::Beyond { sector, sectors: self.plan.sectors });
            }
            for &lpn in batch {
                self.map.prefetch(lpn);
                stamps.prefetch(Lpn(lpn));
            }
            for &lpn in batch {
                if let Where::Flash(ppa) = self.map.get(lpn) {
                    self.map.prefetch_valid(ppa);
                }
            }
            for &lpn in batch {
                let stamp = stamps.begin(Lpn(lpn), 1);
                self.age_write(lpn, stamp)?;
                if self.plan.pages > 0
                    && let Some(page) = self.page_due()
                {
                    self.age_page_due(page)?;
                }
            }
        }
        Ok(())
    }
    fn age_write(&mut self, lpn: u32, stamp: u32) -> Result<(), AgeError> {
        let mut stream = HOST;
        if let Where::Flash(ppa) = self.map.get(lpn) {
            stream = self.stream_of(ppa);
            self.invalidate(ppa);
            // Nobody's until it is written: the collector must not find it.
            self.map.set(lpn, Where::Unmapped);
        }
        let ppa = self.age_place(stream)?;
        self.age_put(ppa, lpn, stamp);
        match u64::from(lpn) < self.plan.sectors {
            true => self.counters.user_sectors += 1,
            false => self.counters.emeta_sectors += 1,
        }
        self.age_entry(lpn, true)?;
        self.owe();
        self.age_collect()
    }
    /// The entry of a sector is another one, by a user's command or the collector: its page is used and changes.
    fn age_entry(&mut self, lpn: u32, by_user: bool) -> Result<(), AgeError> {
        if self.cached.is_none() || u64::from(lpn) >= self.plan.sectors {
            return Ok(());
        }
        let page = lpn / self.plan.entries;
        let there = match by_user {
            true => self.uses(page),
            false => self.has_page(page),
        };
        if !there {
            while let Some((old, changed)) = self.gives_way() {
                if changed {
                    self.age_page(old)?;
                    self.counters.map_dirty_evictions += 1;
                }
                self.let_go(old);
            }
            let on_flash = matches!(self.map.get(self.sector_of_page(page)), Where::Flash(_));
            self.counters.map_read_sectors += u64::from(on_flash);
        }
        self.now_has(page);
        Ok(())
    }
    /// Writes a page of the map that changed.
    fn age_page(&mut self, page: u32) -> Result<(), AgeError> {
        let lpn = self.sector_of_page(page);
        let ppa = self.age_place(MAPS)?;
        if let Where::Flash(old) = self.map.get(lpn) {
            self.invalidate(old);
        }
        self.age_put(ppa, lpn, 1);
        self.wrote(lpn);
        self.written(page);
        self.counters.map_sectors += 1;
        Ok(())
    }
    fn age_page_due(&mut self, lpn: u32) -> Result<(), AgeError> {
        let Some(cached) = &self.cached else {
            self.age_write(lpn, 1)?;
            self.wrote(lpn);
            return Ok(());
        };
        let page = lpn - self.plan.sectors as u32;
        if cached.is_changed(page) { self.age_page(page) } else { Ok(()) }
    }
    /// Unmaps sectors. Their pages of the map are used, and change.
    pub(crate) fn age_trim(&mut self, lpn: u32, sectors: u32) -> Result<(), AgeError> {
        if !self.is_quiet() || !self.gc_rests() {
            return Err(AgeError::Busy);
        }
        for lpn in lpn..lpn + sectors {
            if let Where::Flash(ppa) = self.map.set(lpn, Where::Unmapped) {
                self.invalidate(ppa);
            }
        }
        self.note_trim(lpn, sectors);
        self.counters.trimmed_sectors += u64::from(sectors);
        if self.cached.is_none() || sectors == 0 {
            return Ok(());
        }
        let entries = self.plan.entries;
        for page in lpn / entries..=(lpn + sectors - 1) / entries {
            self.age_entry(page * entries, true)?;
        }
        self.age_collect()
    }
    /// Where a power cut empties the buffer, the pages of the map that tell what was trimmed in a superblock are
    /// written before it is erased.
    fn age_tell(&mut self, s: SuperblockId) -> Result<(), AgeError> {
        if self.trimmed.next_set(0).is_none() {
            return Ok(());
        }
        for page in self.untold(s) {
            if self.cached.is_some() {
                self.age_page(page)?;
                continue;
            }
            let lpn = self.sector_of_page(page);
            let ppa = self.age_place(GC)?;
            if let Where::Flash(old) = self.map.get(lpn) {
                self.invalidate(old);
            }
            self.age_put(ppa, lpn, 1);
            self.wrote(lpn);
            self.counters.emeta_sectors += 1;
        }
        Ok(())
    }
    fn age_put(&mut self, ppa: u32, lpn: u32, stamp: u32) {
        self.map.note(ppa, lpn, stamp);
        let s = self.space.superblock_of(ppa);
        self.validate(s, lpn, ppa);
    }
    /// The unit of a stream is full, or padded: it has its place in the order now, and what is stale in it
    /// was never there.
    fn age_complete(&mut self, stream: Stream) {
        let (at, end) = std::mem::take(&mut self.streams[stream].place);
        if end == 0 {
            return;
        }
        self.counters.pad_sectors += u64::from(end - at);
        let first = end - self.g.sectors_per_unit;
        self.map.number(self.space.unit_of(first));
        for ppa in first..end {
            if !self.map.is_valid(ppa) {
                self.map.note(ppa, NOBODY, 0);
            }
        }
    }
    /// The next sector of a stream.
    fn age_place(&mut self, stream: Stream) -> Result<u32, AgeError> {
        let (at, end) = self.streams[stream].place;
        if at < end {
            self.streams[stream].place.0 += 1;
            return Ok(at);
        }
        self.age_complete(stream);
        loop {
            let own = matches!(stream, GC | MAPS | WARM);
            let mut through = if !own && self.opens_slc() { SLC } else { stream };
            let mut found = self.age_lun(through);
            if found.is_none() && stream == WARM {
                (through, found) = (GC, self.age_lun(GC));
            }
            if let Some((s, lun)) = found {
                let unit = self.space.take(s, lun);
                let first = self.space.first_of(unit);
                self.close_if_full(through, s);
                self.counters.programmed_sectors += u64::from(self.g.sectors_per_unit);
                self.streams[stream].place = (first + 1, first + self.g.sectors_per_unit);
                self.set_pace();
                return Ok(first);
            }
            // Users wait until a superblock is free.
            if own || !self.age_move(true)? {
                return Err(AgeError::Full("no superblock is free"));
            }
        }
    }
    fn age_lun(&mut self, stream: Stream) -> Option<(SuperblockId, u32)> {
        self.open_missing(stream);
        let (luns, cursor) = (self.g.luns, self.streams[stream].cursor);
        for lun in (cursor..luns).chain(0..cursor) {
            let group = self.space.group_of(lun);
            let Some(s) = self.streams[stream].superblocks[group] else { continue };
            if self.space.takes(self.space.block(s, lun)) {
                self.streams[stream].cursor = if lun + 1 == luns { 0 } else { lun + 1 };
                return Some((s, lun));
            }
        }
        None
    }
    /// Moves what the collector owes.
    fn age_collect(&mut self) -> Result<(), AgeError> {
        while self.gc.victim.is_none() && self.is_wanted() || self.owes(PARTS) {
            if !self.age_move(false)? {
                break;
            }
        }
        // Pages of the map took superblocks that users' sectors do not pay for.
        while self.lacks_superblocks() && self.age_move(true)? {}
        Ok(())
    }
    /// Moves the next sector of the victim, or frees it. False: there is no victim to be had.
    fn age_move(&mut self, whole: bool) -> Result<bool, AgeError> {
        let short = whole || self.is_short() || self.owes(PARTS);
        let begins = self.gc.victim.is_none();
        if begins && !self.age_begin_victim(short) {
            return Ok(false);
        }
        let Some(Collecting { superblock: s, next, .. }) = self.gc.victim else { return Ok(false) };
        let places = self.space.places_of(s);
        if begins {
            (next..next + AHEAD).for_each(|place| self.age_ahead(s, place));
        }
        loop {
            let Some(v) = &mut self.gc.victim else { return Ok(true) };
            if v.next == places {
                break;
            }
            let place = v.next;
            let first = self.space.first_of(self.space.unit_at(s, place));
            let (ppa, _, valid) = self.used_run(first);
            if valid == 0 {
                self.gc_pass();
                self.age_ahead(s, place + AHEAD);
                continue;
            }
            let (lpn, stamp) = (self.map.lpn_at(ppa), self.map.stamp_at(ppa));
            self.invalidate(ppa);
            let to = self.age_place(self.stream_of_moved(lpn, s))?;
            self.age_put(to, lpn, stamp);
            self.age_entry(lpn, false)?;
            match self.space.superblocks[s].slc {
                _ if self.is_page(lpn) => self.counters.map_sectors += 1,
                true => self.counters.folded_sectors += 1,
                false => self.counters.gc_sectors += 1,
            }
            self.counters.gc_read_sectors += 1;
            self.pay(1);
            if !whole {
                return Ok(true);
            }
        }
        self.age_tell(s)?;
        self.gc.victim = None;
        self.refresh.ended();
        for block in self.space.blocks_of(s) {
            if self.space.failed.clear(block as usize) {
                self.space.bad.set(block as usize);
            }
            if !self.space.is_bad(block) && self.space.pages[block] > 0 {
                self.space.pages[block] = 0;
                self.refresh.erased(block);
                self.space.erases[block] += 1;
                self.counters.erases += 1;
            }
        }
        self.free_superblock(s);
        Ok(true)
    }
    /// Asks for the entries of what is in use of a unit of the victim.
    fn age_ahead(&self, s: SuperblockId, place: u32) {
        if place >= self.space.places_of(s) {
            return;
        }
        let (from, n, _) = self.used_run(self.space.first_of(self.space.unit_at(s, place)));
        for ppa in from..from + n {
            self.map.prefetch(self.map.lpn_at(ppa));
        }
    }
    fn age_begin_victim(&mut self, short: bool) -> bool {
        self.begin(short);
        self.gc.victim.is_some()
    }
    /// Leaves the drive alone: the collector works up to its mark, or moves as much as users see at most. Levelling
    /// wear frees nothing.
    pub(crate) fn age_rest(&mut self, stamps: &mut Stamps) -> Result<(), AgeError> {
        self.age_begin(stamps)?;
        let moved = |c: &Counters| c.gc_sectors + c.folded_sectors + c.map_sectors;
        let end = moved(&self.counters) + u64::from(self.map.sectors());
        while self.coming() < self.plan.idle
            && moved(&self.counters) < end
            && self.age_move(true)?
        {}
        self.age_fold()
    }
    /// Moves what is in superblocks with a bit a cell, as an idle drive does.
    pub(crate) fn age_fold(&mut self) -> Result<(), AgeError> {
        if !self.plan.has_slc() {
            return Ok(());
        }
        self.gc.idle = true;
        let mut end = Ok(());
        while self.gc.victim.is_some() || self.is_wanted() && self.begin(self.is_short()) {
            match self.age_move(true) {
                Ok(true) => {}
                Ok(false) => break,
                Err(e) => {
                    end = Err(e);
                    break;
                }
            }
        }
        self.gc.idle = false;
        end
    }
    /// Units that are written in part are padded.
    pub(crate) fn age_end(&mut self) {
        (0..self.streams.len()).for_each(|stream| self.age_complete(stream));
    }
}
