//! The form of a saved state: little-endian words of 4 and 8 bytes, first magic, version, shape and
//! capacity, at the end a checksum of all before it.

use crate::Counters;
use std::borrow::Cow;
use std::io::{self, Read, Write};
use thiserror::Error;
use wordline_base::{BadValue, rng::splitmix64};

const MAGIC: u64 = u64::from_le_bytes(*b"wordlFTL");
const VERSION: u32 = 5;
const CHUNK: usize = 1 << 16;

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

/// Why a saved state cannot be taken up.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum LoadError {
    #[error("is not a saved drive")]
    Foreign,
    #[error("has format version {0}, this program reads {VERSION}")]
    Version(u32),
    #[error(
        "was saved by --ftl {saved}, this drive has --ftl {here}: choose that, or age the drive anew"
    )]
    Layer { saved: &'static str, here: &'static str },
    #[error("was saved with {saved} {name}, the profile has {here}")]
    Shape { name: &'static str, saved: u32, here: u32 },
    #[error("was saved with over_provisioning = {saved}, the profile has {here}")]
    OverProvisioning { saved: f64, here: f64 },
    #[error("min_good_luns is not that of the saved drive")]
    MinGoodLuns,
    #[error(transparent)]
    Config(#[from] BadValue),
    #[error("damaged: {0}")]
    Damaged(Cow<'static, str>),
    #[error("the file is cut short")]
    Short,
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
        let mut out = SavedOut { w, buffer: Vec::with_capacity(CHUNK + 16), sum: Sum::default() };
        out.put64(MAGIC)?;
        out.put32(VERSION)?;
        for &(_, value) in shape {
            out.put32(value)?;
        }
        out.put64(over_provisioning.to_bits())?;
        out.put64(sectors)?;
        Ok(out)
    }
    pub fn end(mut self) -> io::Result<()> {
        self.flush()?;
        self.w.write_all(&self.sum.get().to_le_bytes())?;
        self.w.flush()
    }
    pub fn put32(&mut self, v: u32) -> io::Result<()> {
        self.buffer.extend_from_slice(&v.to_le_bytes());
        if self.buffer.len() >= CHUNK { self.flush() } else { Ok(()) }
    }
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
    fn flush(&mut self) -> io::Result<()> {
        self.sum.add(&self.buffer);
        self.w.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// Reads a state.
pub struct SavedIn<'a> {
    r: &'a mut dyn Read,
    sum: Sum,
    buffer: Vec<u8>,
}

impl SavedIn<'_> {
    /// Reads what every state begins with, and answers the capacity, of at most so many sectors.
    pub fn new<'a>(
        r: &'a mut dyn Read,
        shape: &[(&'static str, u32)],
        over_provisioning: f64,
        most: u64,
    ) -> Result<(SavedIn<'a>, u64), LoadError> {
        let mut r = SavedIn { r, sum: Sum::default(), buffer: Vec::new() };
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
    /// Holds what was read against its checksum.
    pub fn end(self) -> Result<(), LoadError> {
        let mut saved = [0; 8];
        self.r.read_exact(&mut saved)?;
        if u64::from_le_bytes(saved) != self.sum.get() {
            return damaged("its checksum does not fit");
        }
        Ok(())
    }
    fn fill(&mut self, bytes: usize) -> Result<&[u8], LoadError> {
        self.buffer.resize(bytes, 0);
        self.r.read_exact(&mut self.buffer)?;
        self.sum.add(&self.buffer);
        Ok(&self.buffer)
    }
    pub fn get32(&mut self) -> Result<u32, LoadError> {
        Ok(u32::from_le_bytes(self.fill(4)?.try_into().expect("four bytes")))
    }
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
    pub fn counters(&mut self) -> Result<Counters, LoadError> {
        let counters = Counters::default().list().count();
        if self.get32()? as usize != counters {
            return damaged("its counters are others");
        }
        let values = (0..counters).map(|_| self.count64("a counter"));
        Ok(Counters::of_list(&values.collect::<Result<Vec<_>, _>>()?))
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
