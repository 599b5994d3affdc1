//! Which of its files a thread goes to next (`file_service_type`, `openfiles`).

use super::{FILE_SERVICE_SHIFT, Generator, Miss, NEVER};
use crate::io::FileId;
use crate::job::FileServiceKind;
use crate::seeds::SeedUse;

impl Generator {
    #[inline]
    pub(super) fn pick_file(&mut self) -> Result<FileId, Miss> {
        if self.done_now >= self.files.len() {
            return Err(Miss::All);
        }
        let kind = self.job.file_service.kind;
        if let Some(index) = self.service_file
            && self.files[index].open
            && !self.files[index].closing
        {
            if kind == FileServiceKind::Sequential {
                return Ok(index);
            }
            if self.service_left > 0 {
                self.service_left -= 1;
                return Ok(index);
            }
        }
        self.service_file = None;
        let index = match kind {
            FileServiceKind::RoundRobin | FileServiceKind::Sequential => self.next_in_turn()?,
            _ => self.next_at_random()?,
        };
        self.service_file = Some(index);
        self.service_left = self.job.file_service.burst - 1;
        Ok(index)
    }

    #[inline]
    pub(super) fn next_in_turn(&mut self) -> Result<FileId, Miss> {
        let first = self.next_file;
        loop {
            let mut index = self.next_file;
            if !self.files[index].done && !self.may_open(index) {
                // fio asks each of them in turn, in vain, until it comes to one that is open.
                index = self.open_from(index);
            }
            self.next_file = if index + 1 == self.files.count() { 0 } else { index + 1 };
            if !self.files[index].done {
                return self.open(index);
            }
            if self.next_file == first {
                return Err(Miss::All);
            }
        }
    }

    pub(super) fn next_at_random(&mut self) -> Result<FileId, Miss> {
        let count = self.files.count();
        // fio draws for ever where all files wait to be closed.
        if self.files.iter().all(|f| f.done || f.closing) {
            return Err(Miss::Held);
        }
        loop {
            let drawn = match &mut self.file_picker {
                Some((_, picker)) => picker.draw() >> FILE_SERVICE_SHIFT,
                None => (f64::from(count) * self.streams.file.fraction()) as u64,
            };
            let index = drawn.min(u64::from(count - 1)) as FileId;
            if !self.files[index].done && !self.files[index].closing {
                return self.open(index);
            }
        }
    }

    pub(super) fn may_open(&self, index: FileId) -> bool {
        self.files[index].open || self.opened.len() < self.open_files
    }

    /// The first open file from `index` on, round the end.
    pub(super) fn open_from(&self, index: FileId) -> FileId {
        let opened = &self.opened;
        // A file that is done is open again where a backlog reads it.
        let usable = |&&file: &&u32| !self.files[file].done;
        let next = opened.range(index..).find(usable).or(opened.iter().find(usable));
        next.copied().unwrap_or(index)
    }

    pub(super) fn mark_open(&mut self, index: FileId) {
        let file = &mut self.files[index];
        (file.open, file.opens) = (true, file.opens.wrapping_add(1));
        self.opened.insert(index);
    }

    pub(super) fn open(&mut self, index: FileId) -> Result<FileId, Miss> {
        if !self.files[index].open {
            if !self.may_open(index) {
                return Err(Miss::Busy);
            }
            self.reset_file(index);
            self.mark_open(index);
        }
        Ok(index)
    }

    /// Positions back to the start, and a fresh map.
    pub(super) fn reset_file(&mut self, index: FileId) {
        let file = &mut self.files[index];
        file.last_pos = [file.offset; 3];
        file.last_start = [NEVER; 3];
        if let Some(map) = &mut file.map {
            map.reset();
        } else if let Some(lfsr) = &mut file.lfsr {
            lfsr.reset(self.seeds.get(SeedUse::Block));
        }
    }
}
