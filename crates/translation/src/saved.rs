//! The form of a saved state: little-endian words of 4 and 8 bytes, first magic, version, shape and
//! capacity, at the end a checksum of all words before it.
//!
//! Large arrays are in between as they are in memory, from the next page on, so that a file can be mapped.
//! Each has a checksum of its own among the words, which is held against it before it is used. A part takes
//! whole pages, so that what follows it begins on one.

use crate::Counters;
use std::borrow::Cow;
use std::io::{self, Write};
use thiserror::Error;
use wordline_base::{
    Array, BadValue, Number, Runs, StateSource, Versions, checksum, rng::splitmix64,
};

const MAGIC: u64 = u64::from_le_bytes(*b"wordlFTL");
const VERSION: u32 = 11;
const CHUNK: usize = 1 << 16;
/// Segments of an array, at most.
const MOST: u32 = 1 << 24;
/// Arrays begin at a multiple of that.
const PAGE: u64 = 1 << 12;

/// A running hash of a byte stream, eight bytes at a time.
#[derive(Default)]
struct Sum {
    hash: u64,
    part: u64,
    bytes: u64,
}

impl Sum {
    fn word(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31);
    }
    fn add(&mut self, mut data: &[u8]) {
        while !self.bytes.is_multiple_of(8) && !data.is_empty() {
            self.byte(data[0]);
            data = &data[1..];
        }
        let mut words = data.chunks_exact(8);
        for word in &mut words {
            self.word(u64::from_le_bytes(word.try_into().expect("eight bytes")));
            self.bytes += 8;
        }
        for &byte in words.remainder() {
            self.byte(byte);
        }
    }
    fn byte(&mut self, byte: u8) {
        self.part |= u64::from(byte) << (8 * (self.bytes % 8));
        self.bytes += 1;
        if self.bytes.is_multiple_of(8) {
            let part = std::mem::take(&mut self.part);
            self.word(part);
        }
    }
    fn get(&self) -> u64 {
        splitmix64(self.hash ^ self.part ^ splitmix64(self.bytes))
    }
}

/// Numbers as they are in a file.
fn bytes_of<T: Number>(numbers: &[T]) -> Cow<'_, [u8]> {
    match cfg!(target_endian = "little") {
        true => Cow::Borrowed(wordline_base::as_bytes(numbers)),
        false => {
            let mut bytes = wordline_base::as_bytes(numbers).to_vec();
            bytes.chunks_exact_mut(size_of::<T>()).for_each(<[u8]>::reverse);
            Cow::Owned(bytes)
        }
    }
}

/// Why a saved state cannot be taken up.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum LoadError {
    /// Another file.
    #[error("is not a saved drive")]
    Foreign,
    /// A file of another version.
    #[error("has format version {0}, this program reads {VERSION}")]
    Version(u32),
    /// A file of another FTL.
    #[error(
        "was saved by --ftl {saved}, this drive has --ftl {here}: choose that, or age the drive anew"
    )]
    Layer {
        /// In the file.
        saved: &'static str,
        /// In the profile.
        here: &'static str,
    },
    /// The file is of a drive with another number of something.
    #[error("was saved with {saved} {name}, the profile has {here}")]
    Shape {
        /// What there is another number of.
        name: &'static str,
        /// In the file.
        saved: u32,
        /// In the profile.
        here: u32,
    },
    /// The file is of a drive with other spare space.
    #[error("was saved with over_provisioning = {saved}, the profile has {here}")]
    OverProvisioning {
        /// In the file.
        saved: f64,
        /// In the profile.
        here: f64,
    },
    /// The file is of a drive that gave up lines at another number of bad blocks.
    #[error("min_good_luns is not that of the saved drive")]
    MinGoodLuns,
    /// Hot and cold data are apart by LUNs in one of both, by strides in the other.
    #[error(
        "was saved with another ftl.partition_by, which was luns before there was that setting: set it so, or age the \
         drive anew"
    )]
    OtherStrides,
    /// The settings make no FTL.
    #[error(transparent)]
    Config(#[from] BadValue),
    /// What is in the file does not fit together.
    #[error("damaged: {0}")]
    Damaged(Cow<'static, str>),
    /// The file ends too early.
    #[error("the file is cut short")]
    Short,
    /// The system's words.
    #[error("cannot be read: {0}")]
    Io(String),
    /// By the FTL of this name.
    #[error("{0} cannot load a saved state")]
    Unsupported(String),
}

impl From<io::Error> for LoadError {
    fn from(e: io::Error) -> LoadError {
        match e.kind() {
            io::ErrorKind::UnexpectedEof => LoadError::Short,
            _ => LoadError::Io(e.to_string()),
        }
    }
}

/// The error of a file whose contents do not fit together.
pub fn damaged<T>(what: impl Into<Cow<'static, str>>) -> Result<T, LoadError> {
    Err(LoadError::Damaged(what.into()))
}

/// The layer that a shape ends with.
fn layer(kinds: u32) -> &'static str {
    match kinds {
        0 => "pblk (in place)",
        1 | 2 => "pblk",
        3 => "fssd",
        4 => "firmware",
        _ => "that is not known here",
    }
}

/// Writes a state.
pub struct SavedOut<'a> {
    w: &'a mut dyn Write,
    buffer: Vec<u8>,
    sum: Sum,
    /// Bytes of arrays.
    arrays: u64,
}

impl SavedOut<'_> {
    /// Begins with what every state begins with: `shape` must be the same where it is loaded. It has as many
    /// words with every layer, and the last tells which one.
    pub fn new<'a>(
        w: &'a mut dyn Write,
        shape: &[(&'static str, u32)],
        over_provisioning: f64,
        sectors: u64,
    ) -> io::Result<SavedOut<'a>> {
        let mut out = SavedOut::part(w);
        out.put64(MAGIC)?;
        out.put32(VERSION)?;
        for &(_, value) in shape {
            out.put32(value)?;
        }
        out.put64(over_provisioning.to_bits())?;
        out.put64(sectors)?;
        Ok(out)
    }
    /// Begins a part that has none of that.
    pub fn part(w: &mut dyn Write) -> SavedOut<'_> {
        let buffer = Vec::with_capacity(CHUNK + 16);
        SavedOut { w, buffer, sum: Sum::default(), arrays: 0 }
    }
    /// Writes the checksum: the file is whole.
    pub fn end(mut self) -> io::Result<()> {
        self.pad(8)?;
        self.w.write_all(&self.sum.get().to_le_bytes())?;
        self.w.flush()
    }
    /// Appends a number.
    pub fn put32(&mut self, v: u32) -> io::Result<()> {
        self.buffer.extend_from_slice(&v.to_le_bytes());
        if self.buffer.len() >= CHUNK { self.flush() } else { Ok(()) }
    }
    /// Appends a number.
    pub fn put64(&mut self, v: u64) -> io::Result<()> {
        self.put32(v as u32)?;
        self.put32((v >> 32) as u32)
    }
    /// All that was counted.
    pub fn put_counters(&mut self, counters: &Counters) -> io::Result<()> {
        self.put32(counters.list().count() as u32)?;
        counters.list().try_for_each(|(_, count)| self.put64(count))
    }
    /// Numbers, and how many they are.
    pub fn put_list(&mut self, list: &[u32]) -> io::Result<()> {
        self.put32(list.len() as u32)?;
        list.iter().try_for_each(|&v| self.put32(v))
    }
    /// Zeroes up to so many bytes before a page.
    fn pad(&mut self, before: u64) -> io::Result<()> {
        self.flush()?;
        let at = self.sum.bytes + self.arrays + before;
        self.buffer.resize((at.next_multiple_of(PAGE) - at) as usize, 0);
        self.flush()
    }
    /// An array whose length follows from the shape.
    pub fn put_array<T: Number>(&mut self, array: &[T]) -> io::Result<()> {
        let bytes = bytes_of(array);
        self.put64(checksum(&bytes))?;
        self.pad(0)?;
        self.w.write_all(&bytes)?;
        self.arrays += bytes.len() as u64;
        Ok(())
    }
    /// The same of one that is mostly runs.
    pub fn put_runs(&mut self, runs: &Runs) -> io::Result<()> {
        let parts = runs.parts();
        self.put_list(parts.heads)?;
        self.put32(parts.joints.len() as u32)?;
        parts.joints.iter().flatten().try_for_each(|&word| self.put32(word))?;
        self.put32(u32::from(parts.entries.is_some()))?;
        parts.entries.map_or(Ok(()), |entries| self.put_array(entries))
    }
    /// The same of one that is mostly small numbers.
    pub fn put_versions(&mut self, versions: &Versions) -> io::Result<()> {
        let parts = versions.parts();
        self.put_list(parts.heads)?;
        self.put32(u32::from(parts.nibbles.is_some()))?;
        parts.nibbles.map_or(Ok(()), |nibbles| self.put_array(nibbles))?;
        self.put_array(&parts.bytes)?;
        self.put_array(&parts.words)?;
        self.put32(parts.others.len() as u32)?;
        parts.others.iter().try_for_each(|&(at, value)| {
            self.put32(at)?;
            self.put32(value)
        })
    }
    fn flush(&mut self) -> io::Result<()> {
        self.sum.add(&self.buffer);
        self.w.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// Reads a state.
pub struct SavedIn<'a> {
    r: &'a mut dyn StateSource,
    sum: Sum,
    buffer: Vec<u8>,
    /// Bytes of arrays.
    arrays: u64,
}

impl SavedIn<'_> {
    /// Reads what every state begins with, and answers the capacity, of at most so many sectors.
    pub fn new<'a>(
        r: &'a mut dyn StateSource,
        shape: &[(&'static str, u32)],
        over_provisioning: f64,
        most: u64,
    ) -> Result<(SavedIn<'a>, u64), LoadError> {
        let mut r = SavedIn::part(r);
        if r.get64()? != MAGIC {
            return Err(LoadError::Foreign);
        }
        let version = r.get32()?;
        if version != VERSION {
            return Err(LoadError::Version(version));
        }
        let saved: Vec<u32> = shape.iter().map(|_| r.get32()).collect::<Result<_, _>>()?;
        if let (Some(&saved), Some(&(_, here))) = (saved.last(), shape.last())
            && layer(saved) != layer(here)
        {
            return Err(LoadError::Layer { saved: layer(saved), here: layer(here) });
        }
        for (&(name, here), saved) in shape.iter().zip(saved) {
            if saved != here {
                return Err(LoadError::Shape { name, saved, here });
            }
        }
        let saved = f64::from_bits(r.get64()?);
        let here = over_provisioning;
        if saved.to_bits() != here.to_bits() {
            return Err(LoadError::OverProvisioning { saved, here });
        }
        let sectors = r.get64()?;
        if sectors > most {
            return damaged("its capacity is above the raw capacity");
        }
        Ok((r, sectors))
    }
    /// Begins what [`SavedOut::part`] did.
    pub fn part(r: &mut dyn StateSource) -> SavedIn<'_> {
        SavedIn { r, sum: Sum::default(), buffer: Vec::new(), arrays: 0 }
    }
    /// Holds what was read against its checksum.
    /// Writes the checksum: the file is whole.
    pub fn end(mut self) -> Result<(), LoadError> {
        self.pad(8)?;
        let mut saved = [0; 8];
        self.r.get(&mut saved)?;
        if u64::from_le_bytes(saved) != self.sum.get() {
            return damaged("its checksum does not fit");
        }
        Ok(())
    }
    fn fill(&mut self, bytes: usize) -> Result<&[u8], LoadError> {
        self.buffer.resize(bytes, 0);
        self.r.get(&mut self.buffer)?;
        self.sum.add(&self.buffer);
        Ok(&self.buffer)
    }
    /// The next number.
    pub fn get32(&mut self) -> Result<u32, LoadError> {
        Ok(u32::from_le_bytes(self.fill(4)?.try_into().expect("four bytes")))
    }
    /// The next number.
    pub fn get64(&mut self) -> Result<u64, LoadError> {
        Ok(u64::from_le_bytes(self.fill(8)?.try_into().expect("eight bytes")))
    }
    /// At most `limit`.
    pub fn up_to(&mut self, limit: u32, what: &str) -> Result<u32, LoadError> {
        match self.get32()? {
            v if v <= limit => Ok(v),
            v => damaged(format!("{what} is {v}, above {limit}")),
        }
    }
    /// A number of something that happened.
    pub fn count64(&mut self, what: &str) -> Result<u64, LoadError> {
        match self.get64()? {
            count if count <= 1 << 60 => Ok(count),
            count => damaged(format!("{what} is {count}")),
        }
    }
    /// The counters.
    pub fn counters(&mut self) -> Result<Counters, LoadError> {
        let counters = Counters::default().list().count();
        if self.get32()? as usize != counters {
            return damaged("its counters are others");
        }
        let values = (0..counters).map(|_| self.count64("a counter"));
        Ok(Counters::of_list(&values.collect::<Result<Vec<_>, _>>()?))
    }
    fn pad(&mut self, before: u64) -> Result<(), LoadError> {
        let at = self.sum.bytes + self.arrays + before;
        self.fill((at.next_multiple_of(PAGE) - at) as usize)?;
        Ok(())
    }
    /// An array of so many numbers; those of a file are not read into memory, but held against their
    /// checksum.
    pub fn array<T: Number>(&mut self, len: usize) -> Result<Array<T>, LoadError> {
        let sum = self.get64()?;
        self.pad(0)?;
        let array = Array::read(self.r, len)?;
        self.arrays += size_of_val(&*array) as u64;
        match checksum(&bytes_of(&array)) == sum {
            true => Ok(array),
            false => damaged("the checksum of an array does not fit"),
        }
    }
    /// One that is mostly runs, as long as a blank one.
    pub fn runs(&mut self, blank: &Runs) -> Result<Runs, LoadError> {
        let heads = self.list(MOST, u32::MAX, "the heads of a map")?;
        let joints = self.up_to(MOST, "the joints of a map")?;
        let mut words = Vec::new();
        self.words32(3 * joints as usize, &mut words)?;
        let entries = match self.up_to(1, "a map's flag")? {
            0 => None,
            _ => Some(self.array(blank.len())?),
        };
        let runs = blank.with_parts(heads, words.as_chunks().0, entries);
        runs.ok_or(LoadError::Damaged("the runs of a map are impossible".into()))
    }
    /// One of so many numbers that is mostly small ones.
    pub fn versions(&mut self, len: usize) -> Result<Versions, LoadError> {
        let mut heads = Vec::new();
        let segments = self.up_to(MOST, "the heads of versions")?;
        self.words32(segments as usize, &mut heads)?;
        let nibbles = match self.up_to(1, "the flag of versions")? {
            0 => None,
            _ => Some(self.array(len.div_ceil(2))?),
        };
        let (bytes, words) = Versions::wide_in(&heads);
        let (bytes, words): (Array<u8>, Array<u32>) = (self.array(bytes)?, self.array(words)?);
        let others = self.up_to(len.try_into().unwrap_or(u32::MAX), "the number of versions")?;
        let mut pairs = Vec::new();
        self.words32(2 * others as usize, &mut pairs)?;
        let versions = Versions::of_parts(len, heads, nibbles, &bytes, &words, pairs.as_chunks().0);
        versions.ok_or(LoadError::Damaged("the versions are impossible".into()))
    }
    /// Numbers below `limit`, at most so many.
    pub fn list(&mut self, most: u32, limit: u32, what: &str) -> Result<Vec<u32>, LoadError> {
        let n = self.up_to(most, what)?;
        let mut list = Vec::new();
        self.words32(n as usize, &mut list)?;
        match list.iter().all(|&v| v < limit) {
            true => Ok(list),
            false => damaged(format!("{what}: one is above {limit}")),
        }
    }
    /// The next numbers, into `out`.
    pub fn words32(&mut self, n: usize, out: &mut Vec<u32>) -> Result<(), LoadError> {
        let mut left = n;
        while left > 0 {
            let now = left.min(CHUNK / 4);
            let bytes = self.fill(now * 4)?;
            out.extend(bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])));
            left -= now;
        }
        Ok(())
    }
}
