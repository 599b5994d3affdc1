//! Passes over the data, and `verify=` that reads back what one wrote.

use super::{Generator, MISSES_MAX, Miss, Phase, READ, Streams, TRIM, WRITE};
use crate::io::{Check, Io};
use crate::readback::{Piece, ReadBack};
use wordline_base::Ddir;

impl Generator {
    /// Draws in a row of files that cannot be opened: of so many one was an open one.
    pub(super) fn busy_most(&self) -> u64 {
        (64 * self.files.len() as u64).max(MISSES_MAX.into())
    }

    /// Whether another pass begins.
    pub(super) fn keep_running(&mut self) -> bool {
        if self.job.time_based {
            return true;
        }
        if self.loops_left > 0 {
            self.loops_left -= 1;
            return true;
        }
        if self.enough_ios() {
            return false;
        }
        let limit = if self.io_size > 0 { self.io_size } else { self.size };
        if limit == u64::MAX || self.bytes >= limit {
            return false;
        }
        // Less than one I/O is left, or nothing is left to go over again.
        limit - self.bytes >= self.job.largest_bs()
            && (self.io_size > 0 || !self.files.iter().all(|f| f.done))
    }

    pub(super) fn begin_pass(&mut self) {
        if self.passes > 0 {
            self.start_over();
        }
        self.passes += 1;
        self.phase = Phase::Pass;
        if let Some(back) = &mut self.back {
            back.forget();
        }
        (self.pass_bytes, self.pass_written, self.pass_queued) = (0, 0, 0);
        let (rw, job) = (self.job.rw, &self.job);
        if job.verify_only && rw.writes() {
            let blocks = self.blocks;
            self.dry_run();
            // A pass that finds nothing more would be followed by others like it.
            self.finished |= self.blocks == blocks;
            self.verify_until = self.done_bytes[WRITE] + self.done_bytes[TRIM];
            self.begin_read_back();
            return;
        }
        self.pass_limit = self.size;
        if rw.is_random() && rw.writes() && job.norandommap {
            self.pass_limit = self.pass_limit.max(self.io_size);
        }
        if job.verify && rw.writes() && job.verify_backlog > 0 {
            self.pass_limit = self.pass_limit.saturating_add(self.size);
        }
        if rw.is_trimwrite() {
            // Each byte is trimmed and written.
            let total = if self.io_size > 0 { self.io_size } else { self.size };
            self.pass_limit = self.pass_limit.saturating_add(total.saturating_mul(self.loops));
            self.number_ios = self.number_ios.saturating_mul(2);
        }
    }

    /// Files are closed, and positions and streams stand at their start again.
    pub(super) fn start_over(&mut self) {
        self.rounds += 1;
        self.zone_bytes = 0;
        self.mix_until = 0;
        self.last_was_sync = false;
        if self.job.time_based || self.loops > 1 || self.job.do_verify {
            self.done_now = 0;
        }
        self.opened.clear();
        for file in &mut self.files {
            (file.open, file.closing, file.done, file.offset) = (false, false, false, file.start);
        }
        if self.reseeds() {
            self.streams = Streams::new(&self.seeds, &self.job, self.wide);
            if let Some((start, picker)) = &mut self.file_picker {
                *picker = start.start();
            }
        }
    }

    pub(super) fn end_pass(&mut self, in_flight: u32) {
        self.phase = Phase::PassEnd;
        if std::mem::take(&mut self.busy_ok) {
            self.busy_slot = Some(in_flight);
        }
        if self.may_sync() && (self.job.end_fsync || self.job.fsync_on_close) {
            self.end_syncs = self.files.count();
        }
        // A pass without a byte: nothing will ever come.
        self.finished |= self.pass_bytes == 0;
    }

    pub(super) fn after_pass(&mut self) {
        if self.finished {
            return;
        }
        self.verify_until = self.pass_written;
        self.begin_read_back();
    }

    pub(super) fn begin_read_back(&mut self) {
        if self.finished || !self.job.verify || !self.job.do_verify {
            self.phase = Phase::Rest;
            return;
        }
        self.start_over();
        self.phase = Phase::ReadBack;
    }

    #[inline]
    pub(super) fn end_sync(&mut self) -> Option<Io> {
        if self.end_syncs == 0 {
            return None;
        }
        let file = self.files.count() - self.end_syncs;
        self.end_syncs -= 1;
        self.last_was_sync = true;
        Some(Io { closing: true, ..self.sync(Ddir::Sync, file) })
    }

    #[inline]
    pub(super) fn enough_ios(&self) -> bool {
        self.number_ios > 0 && self.blocks >= self.number_ios.saturating_mul(self.loops)
    }

    #[inline]
    pub(super) fn issued_enough(&self) -> bool {
        self.enough(&self.issue_bytes)
    }

    #[inline]
    pub(super) fn enough(&self, bytes: &[u64; 3]) -> bool {
        let rw = self.job.rw;
        let bytes = if rw.is_mixed() {
            bytes[READ] + bytes[WRITE]
        } else if rw.writes() {
            bytes[WRITE]
        } else if rw.reads() {
            bytes[READ]
        } else {
            bytes[TRIM]
        };
        let limit = if self.io_size > 0 { self.io_size } else { self.size };
        bytes >= limit.saturating_mul(self.loops) || self.enough_ios()
    }

    /// `verify_only`: the writes of a pass are counted and remembered, and not issued.
    pub(super) fn dry_run(&mut self) {
        let mut busy = 0u64;
        loop {
            let trims = self.back.as_ref().is_some_and(ReadBack::trims_due);
            if !trims && self.enough(&self.done_bytes) {
                return;
            }
            let io = match self.backlog() {
                Some(io) => Ok(io),
                None => self.fill(&mut |ddir| Some(ddir)).inspect(|io| self.account(io)),
            };
            match io {
                Ok(io) => self.completed(io.ddir, io.offset, io.len, true),
                Err(Miss::Busy) if busy < self.busy_most() => busy += 1,
                Err(_) => return,
            }
        }
    }

    /// The read or trim that a backlog has due.
    #[inline]
    pub(super) fn backlog(&mut self) -> Option<Io> {
        let back = self.back.as_mut()?;
        if let Some(piece) = back.read_due(self.after_read) {
            return Some(self.read_back(piece, Check::Backlog));
        }
        let piece = back.trim_due(self.after_read)?;
        Some(self.of_piece(piece, Ddir::Trim, Check::None))
    }

    pub(super) fn read_back(&mut self, piece: Piece, check: Check) -> Io {
        self.of_piece(piece, Ddir::Read, check)
    }

    pub(super) fn of_piece(&mut self, piece: Piece, ddir: Ddir, check: Check) -> Io {
        let file = piece.file;
        if !self.files[file].open {
            // Whatever `openfiles` says, and though the file may be done.
            self.reset_file(file);
            self.mark_open(piece.file);
        }
        let offset = self.files[file].base + piece.offset;
        let io = Io {
            ddir,
            offset,
            len: piece.len,
            file: piece.file,
            prio: self.job.prio,
            range_only: false,
            closing: false,
            check,
        };
        self.account(&io);
        io
    }

    /// `experimental_verify` goes over the pass again: its writes and trims become reads, its reads
    /// count as issued. Syncs, which fio 3.33 would ask for without end, are left out.
    pub(super) fn turned_to_read(&mut self, io: Io) -> Option<Io> {
        match io.ddir {
            Ddir::Read => {
                self.issues[READ] += 1;
                None
            }
            Ddir::Write | Ddir::Trim => {
                let read = Io { ddir: Ddir::Read, check: Check::Pass, ..io };
                // It is booked as what it was.
                self.issues[io.ddir as usize] += 1;
                self.issue_bytes[io.ddir as usize] += io.len;
                self.done_bytes[READ] += io.len;
                self.account(&read);
                Some(read)
            }
            Ddir::Sync | Ddir::DataSync => {
                self.last_was_sync = true;
                None
            }
        }
    }

    /// Whether the pass has more to issue.
    #[inline]
    pub(super) fn goes_on(&self) -> bool {
        let job = &self.job;
        if !job.time_based
            && self.issued_enough()
            && !self.back.as_ref().is_some_and(ReadBack::trims_due)
        {
            return false;
        }
        self.pass_queued < self.pass_limit || job.time_based && !job.verify
    }
}
