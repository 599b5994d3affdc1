//! What parsers write to: requests in the order of the trace, volumes, and what was left out.

use crate::error::RecordError;
use crate::options::OpenOptions;
use crate::request::{Item, Stamp};
use crate::summary::{Reason, Tallies, Tally};
use std::collections::{BTreeMap, VecDeque};
use wordline_base::Ddir;
use wordline_base::rng::splitmix64;

/// Names of volumes, numbered in order of appearance.
#[derive(Default)]
struct Volumes {
    numbers: BTreeMap<Vec<u8>, u32>,
    names: Vec<String>,
    name_bytes: usize,
    /// The key and number asked for last: runs of one volume are the rule.
    last: (Vec<u8>, Option<u32>),
}

/// Bounds on what a trace can make the reader remember.
const MAX_VOLUMES: usize = 65_536;
const MAX_NAME_BYTES: usize = 16 << 20;

/// What parsers write to.
pub(crate) struct Sink {
    /// The line or record at hand.
    pub line: u64,
    /// Requests not taken yet.
    items: VecDeque<Item>,
    /// The end of a request that no drive can have, and its column.
    pub beyond: Option<(u128, u64)>,
    /// Such requests are left out.
    skip_beyond: bool,
    /// What was left out.
    dropped: Tallies,
    /// What was remarkable.
    noted: Tallies,
    /// Names of volumes.
    volumes: Volumes,
    /// The volume that is wanted alone.
    wanted: Option<String>,
    /// Its number, if it is one.
    wanted_number: Option<u64>,
    /// The first few volumes that were not wanted, for the message when none was.
    others: Vec<String>,
    /// Bytes of an address where the format leaves that open.
    pub unit: u128,
    /// Bytes of a request where the trace has no lengths.
    pub length: Option<u32>,
    /// Percent of reads where it has no directions.
    reads: u8,
    /// Draws these.
    seed: u64,
}

/// So many of the volumes that were not wanted are named. One more is kept, which tells that there are more.
pub const OTHERS: usize = 8;
/// So that directions do not follow the places in a second.
const DIRECTIONS: u64 = 0x6469_7265_6374_696F;

impl Sink {
    /// `unit` are the bytes of an address where the format leaves that open.
    pub fn new(options: &OpenOptions, unit: u128) -> Sink {
        let wanted = options.volume.clone();
        Sink {
            unit,
            length: options.length,
            reads: options.reads.unwrap_or(100),
            seed: options.seed,
            line: 0,
            items: VecDeque::new(),
            beyond: None,
            skip_beyond: options.skip_beyond,
            dropped: Tallies::new(),
            noted: Tallies::new(),
            volumes: Volumes::default(),
            wanted_number: wanted.as_ref().and_then(|w| w.parse().ok()),
            wanted,
            others: Vec::new(),
        }
    }
    #[inline]
    pub fn drop(&mut self, reason: Reason) {
        self.dropped.add(reason, self.line);
    }
    pub fn note(&mut self, reason: Reason) {
        self.noted.add(reason, self.line);
    }

    /// The same of a request that is not of the line at hand.
    pub fn note_of(&mut self, reason: Reason, line: u64) {
        self.noted.add(reason, line);
    }
    /// The next request, in the order of the trace.
    #[inline]
    pub fn pop(&mut self) -> Option<Item> {
        self.items.pop_front()
    }
    /// Names of volumes, by number.
    pub fn volumes(&self) -> &[String] {
        &self.volumes.names
    }
    /// The volume that is wanted alone, and the first few of the others.
    pub fn wanted(&self) -> Option<(&str, &[String])> {
        Some((self.wanted.as_deref()?, &self.others))
    }
    /// What was left out, and what was remarkable.
    pub fn tallies(&self) -> [Vec<Tally>; 2] {
        [self.dropped.list(), self.noted.list()]
    }

    /// Whether requests of a volume known by number are wanted; counts the line if not.
    #[inline]
    pub fn wants_number(&mut self, volume: u64) -> bool {
        if self.wanted.is_none() || self.wanted_number == Some(volume) {
            return true;
        }
        self.unwanted(&volume.to_string());
        false
    }

    /// Whether requests of a volume known by any of these names are wanted; counts the line if not.
    pub fn wants_name(&mut self, names: &[&str]) -> bool {
        match &self.wanted {
            Some(w) if !names.contains(&w.as_str()) => {
                self.unwanted(names[0]);
                false
            }
            _ => true,
        }
    }
    pub fn is_filtered(&self) -> bool {
        self.wanted.is_some()
    }

    #[cold]
    fn unwanted(&mut self, name: &str) {
        self.drop(Reason::OtherVolume);
        if self.others.len() <= OTHERS && !self.others.iter().any(|o| o == name) {
            self.others.push(name.to_owned());
        }
    }

    /// The direction of a request whose trace has none.
    pub fn direction(&self) -> Ddir {
        let draw = splitmix64(self.seed ^ DIRECTIONS ^ splitmix64(self.line)) % 100;
        if draw < u64::from(self.reads) { Ddir::Read } else { Ddir::Write }
    }

    /// The number of the volume with that key, a new one if need be.
    pub fn volume(
        &mut self,
        key: &[u8],
        name: impl FnOnce() -> String,
    ) -> Result<u32, RecordError> {
        let v = &mut self.volumes;
        if let (last, Some(number)) = &v.last
            && last == key
        {
            return Ok(*number);
        }
        let number = match v.numbers.get(key) {
            Some(&n) => n,
            None => {
                if v.names.len() == MAX_VOLUMES || v.name_bytes + key.len() > MAX_NAME_BYTES {
                    let (volumes, mib) = (MAX_VOLUMES, MAX_NAME_BYTES >> 20);
                    return Err(RecordError::TooManyVolumes { volumes, mib });
                }
                let n = v.names.len() as u32;
                v.name_bytes += key.len();
                v.numbers.insert(key.to_vec(), n);
                v.names.push(name());
                n
            }
        };
        v.last.0.clear();
        v.last.0.extend_from_slice(key);
        v.last.1 = Some(number);
        Ok(number)
    }

    /// A read, write or trim, with offset and length in bytes. False if it gives no request.
    #[inline]
    pub fn push(&mut self, at: Stamp, op: Ddir, volume: u32, offset: u128, len: u128) -> bool {
        if len == 0 {
            return self.refuse(Reason::ZeroLength);
        }
        let end = offset.saturating_add(len);
        // Not split: 4 GiB in one request is a command to a whole device or damage, and pieces of
        // it would be requests that nobody made.
        let Ok(len) = u32::try_from(len) else { return self.refuse(Reason::TooLong) };
        let Some(start) = u64::try_from(offset).ok().filter(|_| end <= u128::from(u64::MAX)) else {
            if self.skip_beyond {
                return self.refuse(Reason::BeyondAll);
            }
            self.beyond.get_or_insert((end, at.column));
            return false;
        };
        self.put(at, op, volume, start, len);
        true
    }
    fn refuse(&mut self, reason: Reason) -> bool {
        self.drop(reason);
        false
    }
    pub fn push_sync(&mut self, at: Stamp, op: Ddir, volume: u32) {
        self.put(at, op, volume, 0, 0);
    }
    #[inline]
    fn put(&mut self, at: Stamp, op: Ddir, volume: u32, offset: u64, len: u32) {
        let (time, column, line) = (at.ns, at.column, self.line);
        self.items.push_back(Item { time, line, column, offset, len, volume, op });
    }
}
