//! What `verify=` remembers of a pass: the writes to read back, and which of them are to be trimmed
//! before that. The order is fio's: as written where a random map keeps blocks from being written
//! twice, else by file and offset, where a write drops what it overlaps.

use crate::job::Job;
use crate::rand::Taus;
use std::collections::{BTreeMap, BTreeSet};

/// A write to read back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The job's file.
    pub file: u32,
    /// Byte in the file.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// In order of issue.
    pub number: u64,
}

/// Where a piece stands.
#[derive(Clone, Copy)]
enum Place {
    Written,
    Sorted { file: u32, offset: u64 },
}

/// What of a job's writes is still to be read back or trimmed.
pub struct ReadBack {
    written: BTreeMap<u64, Piece>,
    sorted: BTreeMap<(u32, u64), Piece>,
    /// Pieces to trim, by number.
    to_trim: BTreeMap<u64, Place>,
    /// Numbers of the writes that have not completed.
    in_flight: BTreeSet<u64>,
    numbers: u64,
    /// Reads and trims left of the batches at hand.
    verify_batch: u32,
    trim_batch: u32,

    verify_backlog: u64,
    verify_backlog_batch: u32,
    trim_backlog: u64,
    trim_backlog_batch: u32,
    trim_percentage: u32,
    /// Trimmed blocks are read back too.
    trim_verify_zero: bool,
}

/// What a backlog is when it is looked at, as fio counts batches: in 32 bits.
fn batch(own: u32, backlog: u64) -> u32 {
    if own > 0 { own } else { backlog as u32 }
}

impl ReadBack {
    /// None if the job remembers no write.
    pub fn new(job: &Job) -> Option<ReadBack> {
        let reads_back = job.verify && job.do_verify && job.rw.writes() && !job.experimental_verify;
        reads_back.then(|| ReadBack {
            written: BTreeMap::new(),
            sorted: BTreeMap::new(),
            to_trim: BTreeMap::new(),
            in_flight: BTreeSet::new(),
            numbers: 0,
            verify_batch: 0,
            trim_batch: 0,
            verify_backlog: job.verify_backlog,
            verify_backlog_batch: job.verify_backlog_batch,
            trim_backlog: job.trim_backlog,
            trim_backlog_batch: job.trim_backlog_batch,
            trim_percentage: job.trim_percentage,
            trim_verify_zero: job.trim_verify_zero,
        })
    }

    fn len(&self) -> u64 {
        (self.written.len() + self.sorted.len()) as u64
    }

    /// Whether a trim is still due: the pass goes on until none is.
    pub fn trims_due(&self) -> bool {
        !self.to_trim.is_empty()
    }

    /// A new pass forgets what is left of the last one.
    pub fn forget(&mut self) {
        self.written.clear();
        self.sorted.clear();
        self.to_trim.clear();
    }

    /// Remembers a write that is about to be issued. `mapped`: its file has a random map. Returns
    /// the write's number, by which [`ReadBack::completed`] knows it.
    pub fn write(
        &mut self,
        file: u32,
        offset: u64,
        len: u64,
        mapped: bool,
        trim: &mut Taus,
    ) -> u64 {
        let number = self.numbers;
        self.numbers += 1;
        let piece = Piece { file, offset, len, number };
        self.in_flight.insert(number);
        let place = if mapped { Place::Written } else { Place::Sorted { file, offset } };
        if self.trim_percentage > 0
            && trim.draw() <= trim.max() / 100 * u64::from(self.trim_percentage)
        {
            self.to_trim.insert(number, place);
        }
        if mapped {
            self.written.insert(number, piece);
            return number;
        }
        // Pieces do not overlap one another: those that reach into this one end with the last that
        // starts before its end.
        while let Some((&at, old)) =
            self.sorted.range(..(file, offset.saturating_add(len))).next_back()
            && (old.file == file && old.offset + old.len > offset)
        {
            self.to_trim.remove(&old.number);
            self.sorted.remove(&at);
        }
        self.sorted.insert((file, offset), piece);
        number
    }

    /// A write came back; one that failed is not read back.
    pub fn completed(&mut self, number: u64, ok: bool) {
        self.in_flight.remove(&number);
        if !ok {
            self.to_trim.remove(&number);
            self.written.remove(&number);
            self.sorted.retain(|_, piece| piece.number != number);
        }
    }

    /// The next piece to read, unless it is still being written.
    pub fn next_piece(&mut self) -> Option<Piece> {
        let first = self.sorted.values().next().or(self.written.values().next());
        let piece = *first?;
        if self.in_flight.contains(&piece.number) {
            return None;
        }
        self.remove(&piece);
        self.to_trim.remove(&piece.number);
        Some(piece)
    }

    fn remove(&mut self, piece: &Piece) {
        if self.written.remove(&piece.number).is_none() {
            self.sorted.remove(&(piece.file, piece.offset));
        }
    }

    /// The read that `verify_backlog` has due between the writes. `after_read`: the last I/O that
    /// completed was a read.
    pub fn read_due(&mut self, after_read: bool) -> Option<Piece> {
        if self.verify_backlog == 0 || self.len() == 0 {
            return None;
        }
        if self.verify_batch == 0 {
            if !self.len().is_multiple_of(self.verify_backlog) || after_read {
                return None;
            }
            self.verify_batch = batch(self.verify_backlog_batch, self.verify_backlog);
        }
        let piece = self.next_piece()?;
        self.verify_batch = self.verify_batch.wrapping_sub(1);
        Some(piece)
    }

    /// The trim that `trim_backlog` has due between the writes.
    pub fn trim_due(&mut self, after_read: bool) -> Option<Piece> {
        if self.trim_backlog == 0 || self.to_trim.is_empty() {
            return None;
        }
        if self.trim_batch > 0 {
            self.trim_batch -= 1;
        } else if self.len().is_multiple_of(self.trim_backlog) && !after_read {
            self.trim_batch = batch(self.trim_backlog_batch, self.trim_backlog);
        } else {
            return None;
        }
        let (number, place) = self.to_trim.pop_first()?;
        let piece = match place {
            Place::Written => *self.written.get(&number)?,
            Place::Sorted { file, offset } => *self.sorted.get(&(file, offset))?,
        };
        if !self.trim_verify_zero {
            self.remove(&piece);
        }
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Place;
    use proptest::prelude::*;

    fn job() -> Job {
        let mut job = Job::new("a", Place::default());
        (job.rw, job.verify) = (crate::Rw::RandWrite, true);
        job
    }

    proptest! {
        /// Beside a list that is searched whole.
        #[test]
        fn a_write_drops_what_it_overlaps(
            writes in prop::collection::vec((0u32..3, 0u64..60, 1u64..20, any::<bool>()), 1..80),
        ) {
            let mut back = ReadBack::new(&job()).expect("it verifies");
            let mut model: Vec<(u32, u64, u64)> = Vec::new();
            let mut trim = Taus::new(1, false);
            for (file, offset, len, ok) in writes {
                let number = back.write(file, offset, len, false, &mut trim);
                back.completed(number, ok);
                model.retain(|&(f, o, l)| f != file || o + l <= offset || o >= offset + len);
                if ok {
                    model.push((file, offset, len));
                }
            }
            model.sort_unstable();
            let read: Vec<_> =
                std::iter::from_fn(|| back.next_piece()).map(|p| (p.file, p.offset, p.len)).collect();
            prop_assert_eq!(read, model);
        }
    }

    #[test]
    fn a_write_in_flight_is_not_read_back() {
        let mut back = ReadBack::new(&job()).expect("it verifies");
        let mut trim = Taus::new(1, false);
        let first = back.write(0, 4096, 4096, true, &mut trim);
        let second = back.write(0, 0, 4096, true, &mut trim);
        back.completed(second, true);
        assert_eq!(back.next_piece(), None);
        back.completed(first, true);
        assert_eq!(back.next_piece().map(|p| p.offset), Some(4096));
        assert_eq!(back.next_piece().map(|p| p.offset), Some(0));
        assert_eq!(back.next_piece(), None);
    }
}
