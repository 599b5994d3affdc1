//! Tencent Cloud Block Storage traces of 2018 (README of the SNIA IOTTA set; Zhang et al., ATC
//! '20).
//!
//! CSV: `Timestamp,Offset,Size,IOType,VolumeID`. Time in whole **seconds** since 1970; offset and
//! size in 512 B **sectors**; **type 0 is a read and 1 a write**, the opposite of MQSim's.
//!
//! All requests of a second carry the same time. They are spread within it: n requests get n equal
//! slots and each a place in its slot drawn from the seed and its line number, so order is kept and
//! a seed gives the same times again. A second is held until the next begins; see [`CROWD`]. A time with a fraction of a
//! second is taken as it stands, and so are those that are held then and all that follow.

use crate::alibaba::volume_u32;
use crate::request::{Item, Stamp};
use crate::sink::Sink;
use crate::spc::BLOCK;
use crate::summary::Reason;
use crate::text::{Fault, PS_PER_S, columns};
use wordline_base::Ddir;
use wordline_base::rng::splitmix64;

const COLUMNS: &str = "Timestamp,Offset,Size,IOType,VolumeID";

pub(crate) fn line(line: &[u8], sink: &mut Sink) -> Result<(), Fault> {
    let [timestamp, offset, size, kind, volume_id] = columns(line, COLUMNS, true)?;
    if timestamp.text.eq_ignore_ascii_case(b"timestamp") {
        sink.drop(Reason::Header);
        return Ok(());
    }
    let volume = volume_id.number("VolumeID")?;
    if !sink.wants_number(volume) {
        return Ok(());
    }
    let volume = volume_u32(volume_id, volume)?;
    let at = Stamp { ns: timestamp.time(PS_PER_S, "timestamp")?, column: timestamp.column as u64 };
    let offset = offset.number("offset")?;
    let size = size.number("size")?;
    let op = match kind.text {
        b"0" => Ddir::Read,
        b"1" => Ddir::Write,
        _ => {
            let message = format!("IOType is neither 0 (read) nor 1 (write): '{}'", kind.show());
            return Err(kind.fault(message));
        }
    };
    sink.push(at, op, volume, u128::from(offset) * BLOCK, u128::from(size) * BLOCK);
    Ok(())
}

/// The most requests of a second that are held (chosen: 13 MB). Beyond, those held take the first
/// half of what is left of the second.
pub(crate) const CROWD: usize = 1 << 18;
const SECOND: u64 = 1_000_000_000;

/// Spreads requests of equal time over the second that follows.
pub(crate) struct Spread {
    seed: u64,
    held: Vec<Item>,
    second: u64,
    /// Where in the second the requests held begin: 0 unless it is crowded.
    from: u64,
    /// A time had a fraction of a second: all are taken as they stand from the second before it on.
    exact: bool,
}

impl Spread {
    pub fn new(seed: u64) -> Spread {
        Spread { seed, held: Vec::new(), second: 0, from: 0, exact: false }
    }

    /// Takes a request; gives those of the second before when it begins another. True if the
    /// second is found to be crowded.
    pub fn push(&mut self, item: Item, mut out: impl FnMut(Item)) -> bool {
        if self.exact || !item.time.is_multiple_of(SECOND) {
            self.exact = true;
            self.held.drain(..).for_each(&mut out);
            out(item);
            return false;
        }
        if item.time != self.second {
            self.flush(&mut out);
            self.second = item.time;
        }
        let mut crowded = false;
        if self.held.len() == CROWD {
            crowded = self.from == 0;
            let until = self.from + (SECOND - self.from) / 2;
            self.place(until, &mut out);
            self.from = until;
        }
        self.held.push(item);
        crowded
    }

    pub fn flush(&mut self, mut out: impl FnMut(Item)) {
        self.place(SECOND, &mut out);
        self.from = 0;
    }

    fn place(&mut self, until: u64, out: &mut impl FnMut(Item)) {
        let (n, span) = (self.held.len() as u64, until - self.from);
        for (i, mut item) in self.held.drain(..).enumerate() {
            let slot = |i: u64| (u128::from(span) * u128::from(i) / u128::from(n)) as u64;
            let (low, high) = (slot(i as u64), slot(i as u64 + 1));
            let draw = splitmix64(self.seed ^ splitmix64(item.line));
            let place = low + draw % (high - low).max(1);
            item.time = item.time.saturating_add(self.from + place);
            out(item);
        }
    }
}
