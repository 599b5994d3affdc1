//! The next I/O in a file: its direction, place, length and priority.

use super::files::{Skewed, share_of};
use super::{Generator, Miss, NEVER, READ, TRIM, WRITE};
use crate::io::{Check, FileId, Io};
use crate::job::{Distribution, Engine, Prio, RwSequencer, ZoneMode};
use wordline_base::Ddir;

/// Draws of a length before the least one is taken, where fio draws until one fits.
pub(super) const DRAWS_MAX: u32 = 1 << 20;

/// Where an I/O goes, and what that says about it.
pub(super) struct Place {
    relative: u64,
    /// For `bs_is_seq_rand`.
    random: bool,
}

impl Generator {
    pub(super) fn sync(&self, ddir: Ddir, file: FileId) -> Io {
        let prio = self.job.prio;
        let check = Check::None;
        Io { ddir, offset: 0, len: 0, file, prio, range_only: false, closing: false, check }
    }

    pub(super) fn may_sync(&self) -> bool {
        !self.last_was_sync && self.job.rw.writes()
    }

    /// The sync that is due after the writes so far. The counts are of writes issued, so that in a
    /// mix a sync repeats after every read until the next write, as in fio 3.33.
    pub(super) fn due_sync(&self, file: FileId) -> Option<Io> {
        let writes = self.issues[WRITE];
        if writes == 0 || !self.may_sync() {
            return None;
        }
        let due = |every: u32| every > 0 && writes.is_multiple_of(u64::from(every));
        if due(self.job.fsync) {
            Some(self.sync(Ddir::Sync, file))
        } else if due(self.job.fdatasync) {
            Some(self.sync(Ddir::DataSync, file))
        } else if due(self.job.sync_file_range) {
            Some(Io { range_only: true, ..self.sync(Ddir::DataSync, file) })
        } else {
            None
        }
    }

    #[inline]
    pub(super) fn fill_from(
        &mut self,
        index: FileId,
        gate: &mut impl FnMut(Ddir) -> Option<Ddir>,
    ) -> Result<Io, Miss> {
        let rw = self.job.rw;
        let decided = match self.held_ddir.take() {
            Some(ddir) => ddir,
            None => {
                let syncs = self.job.fsync | self.job.fdatasync | self.job.sync_file_range;
                // fio 3.33 turns a sync that falls due between trim and write into either.
                if syncs > 0
                    && !rw.is_trimwrite()
                    && let Some(io) = self.due_sync(index)
                {
                    return Ok(io);
                }
                let wanted = if rw.is_mixed() {
                    self.mix()
                } else if rw.reads() {
                    Ddir::Read
                } else if rw.writes() {
                    Ddir::Write
                } else {
                    Ddir::Trim
                };
                gate(wanted).ok_or(Miss::Held)?
            }
        };
        self.mix_ddir = decided as usize;
        let file = &self.files[index];
        let ddir = if !rw.is_trimwrite() {
            decided
        } else if file.last_start[WRITE] == file.last_start[TRIM] {
            Ddir::Trim
        } else {
            Ddir::Write
        };
        let d = ddir as usize;
        if self.job.zonemode == ZoneMode::Strided {
            self.stride(index, d);
        }

        let place = self.place(index, d).ok_or(Miss::File)?;
        let file = &self.files[index];
        if place.relative >= file.io_size {
            return Err(Miss::File);
        }
        let offset = place.relative.wrapping_add(file.offset);
        if offset >= file.real {
            return Err(Miss::File);
        }
        if rw.is_trimwrite()
            && rw.is_random()
            && ddir == Ddir::Trim
            && file.last_start[TRIM] == offset
        {
            // The same block twice running: the write that follows must still see a new trim.
            let file = &mut self.files[index];
            file.last_start[WRITE] = file.last_start[WRITE].wrapping_sub(1);
        }

        let mut len = self.length(index, d, offset, place.random);
        let file = &mut self.files[index];
        if len == 0 || offset.saturating_add(len) > file.real {
            return Err(Miss::File);
        }
        if let Some(map) = &mut file.map {
            let min_bs = self.job.min_bs[d];
            let mut blocks = len.div_ceil(min_bs);
            if !self.busy_ok {
                blocks = map.set_run((offset - file.offset) / min_bs, blocks);
            }
            len = len.min(blocks * min_bs);
            if len == 0 {
                return Err(Miss::File);
            }
        }
        self.zone_bytes += len;
        file.last_start[d] = offset;
        file.last_pos[d] = offset + len;
        let base = file.base;
        let prio = self.prio(d, len);
        let (offset, file) = (base + offset, index);
        let check = Check::None;
        Ok(Io { ddir, offset, len, file, prio, range_only: false, closing: false, check })
    }

    /// The direction of the next I/O of a mix. A new one is drawn once the current has had its
    /// share of I/Os.
    #[inline]
    pub(super) fn mix(&mut self) -> Ddir {
        if self.issues[self.mix_ddir] >= self.mix_until {
            let read = self.streams.mix.between(1, 100) <= u64::from(self.job.rwmix[READ]);
            let drawn = if read { READ } else { WRITE };
            if drawn != self.mix_ddir {
                let share = u64::from(self.job.rwmix[self.mix_ddir ^ 1]);
                self.mix_until = self.issues[self.mix_ddir].wrapping_mul(share) / 100;
            }
            self.mix_ddir = drawn;
        }
        if self.mix_ddir == READ { Ddir::Read } else { Ddir::Write }
    }

    /// Moves to the next zone once the current one has had its bytes.
    pub(super) fn stride(&mut self, index: FileId, d: usize) {
        let (size, range, skip) = (self.job.zonesize, self.job.zonerange, self.job.zoneskip);
        let file = &mut self.files[index];
        if self.zone_bytes >= size {
            self.zone_bytes = 0;
            file.offset = file.offset.saturating_add(range).saturating_add(skip);
            if file.offset >= file.real {
                file.offset = file.start;
            }
            file.last_pos[d] = file.offset;
        }
        if file.last_pos[d] >= file.offset.saturating_add(range) {
            file.last_pos[d] = file.offset;
        }
        if self.zone_bytes.is_multiple_of(range.max(1)) {
            self.reset_file(index);
        }
    }

    /// Where the next I/O goes, relative to the file's start (or its zone's).
    #[inline]
    pub(super) fn place(&mut self, index: FileId, d: usize) -> Option<Place> {
        let job = &self.job;
        self.seq_countdown -= 1;
        let fresh = self.seq_countdown == 0;
        if fresh {
            self.seq_countdown = job.seq_nr.max(1);
        }
        if job.rw.is_trimwrite() && job.rw.is_random() && d == WRITE {
            self.busy_ok = true;
            let file = &self.files[index];
            let relative = file.last_start[TRIM].wrapping_sub(file.offset);
            return Some(Place { relative, random: true });
        }
        let ba = job.ba[d];
        if !fresh {
            self.busy_ok = true;
            let relative = match job.rw_sequencer {
                RwSequencer::Sequential => self.sequential(index, d).or_else(|| {
                    // Not reached by block number: fio's is_random stays off.
                    self.random_block(index, d).map(|b| b.wrapping_mul(ba))
                })?,
                RwSequencer::Identical => {
                    let file = &self.files[index];
                    match file.last_start[d] {
                        NEVER => 0,
                        last => last.wrapping_sub(file.offset),
                    }
                }
            };
            return Some(Place { relative, random: false });
        }
        if !job.rw.is_random() {
            let relative = self.sequential(index, d)?;
            return Some(Place { relative, random: false });
        }
        let percent = u64::from(job.percentage_random[d]);
        if percent == 100 || self.streams.seq_rand[d].between(1, 100) <= percent {
            let relative = self.random_block(index, d)?.wrapping_mul(ba);
            return Some(Place { relative, random: true });
        }
        self.busy_ok = true;
        let relative = match self.sequential(index, d) {
            Some(relative) => relative,
            None => self.random_block(index, d)?.wrapping_mul(ba),
        };
        Some(Place { relative, random: false })
    }

    #[inline]
    pub(super) fn sequential(&mut self, index: FileId, d: usize) -> Option<u64> {
        let add = self.job.seq_add;
        let single = self.files.len() == 1;
        let file = &mut self.files[index];
        if file.last_pos[d] >= file.limit() && self.job.time_based && single {
            file.last_pos[d] = file.offset;
        }
        if file.last_pos[d] >= file.real {
            return None;
        }
        let end = file.real.min(file.io_size);
        // Backwards from the end, once.
        if file.last_pos[d] == file.offset && file.offset != 0 && add < 0 {
            file.last_pos[d] = end;
        }
        let mut pos = file.last_pos[d].wrapping_sub(file.offset);
        if pos != 0 && add != 0 {
            pos = pos.wrapping_add_signed(add);
            if pos >= file.real {
                pos = if add > 0 { file.offset } else { end.wrapping_add_signed(add) };
            }
        }
        Some(pos)
    }

    /// A random block; at the end of the data a time-based job gets a fresh map and another try.
    #[inline]
    pub(super) fn random_block(&mut self, index: FileId, d: usize) -> Option<u64> {
        if let Some(block) = self.draw_block(index, d) {
            return Some(block);
        }
        if self.job.time_based || self.file_picker.is_some() {
            self.reset_file(index);
            return self.draw_block(index, d);
        }
        None
    }

    #[inline]
    pub(super) fn draw_block(&mut self, index: FileId, d: usize) -> Option<u64> {
        let last = self.files[index].last_block[d];
        match &self.job.distribution {
            Distribution::Random if last == 0 => None,
            Distribution::Random => self.uniform(index, last),
            Distribution::Zipf { .. }
            | Distribution::Pareto { .. }
            | Distribution::Normal { .. } => self.files[index].skewed.as_mut().map(Skewed::draw),
            Distribution::Zoned(_) => {
                if last == 0 {
                    return None;
                }
                let Some(table) = &self.zones[d] else { return self.uniform(index, last) };
                let zone = table.zone(self.streams.zone.between(1, 100));
                let from = share_of(last, zone.from_percent);
                let blocks = share_of(last, zone.to_percent - zone.from_percent);
                self.uniform(index, blocks).map(|b| b + from)
            }
            Distribution::ZonedAbs(_) => {
                if last == 0 {
                    return None;
                }
                let Some(table) = &self.zones[d] else { return self.uniform(index, last) };
                let zone = table.zone(self.streams.zone.between(1, 100));
                let ba = self.job.ba[d];
                let (from, to) = (zone.from_bytes / ba, zone.to_bytes / ba);
                if to > last {
                    return None;
                }
                self.uniform(index, to - from).map(|b| b + from)
            }
        }
    }

    /// Uniform below `last`, then the next block free in the map.
    #[inline]
    pub(super) fn uniform(&mut self, index: FileId, last: u64) -> Option<u64> {
        let file = &mut self.files[index];
        let block = match &mut file.lfsr {
            Some(lfsr) => lfsr.draw()?,
            None => (last as f64 * self.streams.block.fraction()) as u64,
        };
        match &file.map {
            Some(map) if map.is_set(block) => map.next_free(block),
            _ => Some(block),
        }
    }

    /// Bytes of the I/O at `offset`; zero if none fits there.
    #[inline]
    pub(super) fn length(&mut self, index: FileId, d: usize, offset: u64, random: bool) -> u64 {
        let job = &self.job;
        let file = &self.files[index];
        if job.rw.is_trimwrite() && job.rw.is_random() && d == WRITE {
            return file.last_pos[TRIM].wrapping_sub(file.last_start[TRIM]);
        }
        let d = match (job.bs_is_seq_rand, random) {
            (false, _) => d,
            (true, true) => WRITE,
            (true, false) => READ,
        };
        let (least, most) = (job.min_bs[d], job.max_bs[d]);
        if least == most {
            return least;
        }
        let room = file.limit().saturating_sub(offset);
        if room < least {
            return 0;
        }
        let splits = &job.bssplit[d];
        if !splits.is_empty() && !splits.iter().any(|s| s.percent > 0 && s.bs <= room) {
            // fio would draw for ever.
            return 0;
        }
        let stream = &mut self.streams.block_size[d];
        let max = stream.max();
        for _ in 0..DRAWS_MAX {
            let r = stream.draw();
            let mut len = 0;
            if splits.is_empty() {
                // Divided as fio does: 64-bit draws by 2^64.
                let fraction = r as f64 / (max as f64 + 1.0);
                len = least + (most as f64 * fraction) as u64;
            } else {
                let mut percent = 0;
                for split in splits.iter().filter(|s| s.percent > 0) {
                    len = split.bs;
                    percent += u64::from(split.percent);
                    if r / percent <= max / 100 && len <= room {
                        break;
                    }
                }
            }
            if !job.bs_unaligned {
                len -= len % least;
            }
            len = len.min(most);
            if len <= room {
                return len;
            }
        }
        least
    }

    /// The priority of an I/O of a job that has `cmdprio`.
    #[inline]
    pub(super) fn prio(&mut self, d: usize, len: u64) -> Prio {
        let job = &self.job;
        let splits = &job.cmdprio_bssplit[d];
        let percent = job.cmdprio_percentage[d];
        if d == TRIM || (percent == 0 && splits.is_empty()) {
            return job.prio;
        }
        if !matches!(job.ioengine, Engine::Libaio | Engine::IoUring) {
            return job.prio;
        }
        let total = if splits.is_empty() {
            percent
        } else {
            splits.iter().filter(|s| s.bs == len).map(|s| s.percent).sum()
        };
        if total == 0 {
            return job.prio;
        }
        let drawn = self.streams.prio.between(0, 99);
        if drawn >= u64::from(total) {
            return job.prio;
        }
        let mut up_to = 0;
        for split in splits.iter().filter(|s| s.bs == len) {
            up_to += u64::from(split.percent);
            if drawn < up_to {
                return split.prio.unwrap_or(job.cmdprio[d]);
            }
        }
        job.cmdprio[d]
    }
}
