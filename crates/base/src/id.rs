//! Typed ids.

use serde::{Serialize, Serializer};

/// log2 of [`SECTOR`].
pub const SECTOR_SHIFT: u32 = 12;
/// 4 KiB: a sector of most drives, and a page of host memory.
pub const SECTOR: u64 = 1 << SECTOR_SHIFT;

/// Size of a drive's sectors, which are the unit of its map: a power of two of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SectorSize(u8);

impl SectorSize {
    /// Those of most drives.
    pub const KIB_4: SectorSize = SectorSize(SECTOR_SHIFT as u8);

    /// 512, 1024, 2048 or 4096 bytes.
    pub fn new(bytes: u32) -> Option<SectorSize> {
        let fits = bytes.is_power_of_two() && (512..=4096).contains(&bytes);
        fits.then(|| SectorSize(bytes.trailing_zeros() as u8))
    }
    /// log2 of its bytes.
    #[inline]
    pub fn shift(self) -> u32 {
        self.0.into()
    }
    /// Of one.
    #[inline]
    pub fn bytes(self) -> u64 {
        1 << self.0
    }
    /// Bytes of so many sectors.
    #[inline]
    pub fn bytes_of(self, sectors: impl Into<u64>) -> u64 {
        sectors.into() << self.0
    }
    /// Whole sectors in so many bytes.
    #[inline]
    pub fn of(self, bytes: u64) -> u64 {
        bytes >> self.0
    }
    /// Sectors that hold so many bytes.
    #[inline]
    pub fn holding(self, bytes: u64) -> u64 {
        // A processor is slow to divide by a number that the compiler does not know.
        (bytes >> self.0) + u64::from(bytes & (self.bytes() - 1) != 0)
    }
}

impl Default for SectorSize {
    fn default() -> Self {
        SectorSize::KIB_4
    }
}

/// Logical sector number: a byte offset on the drive divided by the size of its sectors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Lpn(pub u32);

/// An I/O in flight, from the application's call to its return.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IoId(pub u32);

impl IoId {
    /// Work that belongs to no application I/O.
    pub const NONE: IoId = IoId(u32::MAX);
}

/// fio's data direction, with fio's numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Ddir {
    /// From the drive.
    Read = 0,
    /// To the drive.
    Write = 1,
    /// Sectors that are needed no more.
    Trim = 2,
    /// fsync: the drive sees a flush.
    Sync = 3,
    /// fdatasync: the drive sees a flush.
    DataSync = 4,
}

impl Serialize for Ddir {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.name())
    }
}

impl Ddir {
    /// Those that move or free data.
    pub const RW: [Ddir; 3] = [Ddir::Read, Ddir::Write, Ddir::Trim];
    /// Those that reports keep apart: fsync and fdatasync are one, as in fio.
    pub const REPORTED: [Ddir; 4] = [Ddir::Read, Ddir::Write, Ddir::Trim, Ddir::Sync];

    /// As fio names it.
    pub fn name(self) -> &'static str {
        match self {
            Ddir::Read => "read",
            Ddir::Write => "write",
            Ddir::Trim => "trim",
            Ddir::Sync => "sync",
            Ddir::DataSync => "datasync",
        }
    }
    /// Its place in [`Ddir::REPORTED`].
    pub fn reported(self) -> usize {
        (self as usize).min(Ddir::Sync as usize)
    }
    /// fsync or fdatasync.
    pub fn is_sync(self) -> bool {
        matches!(self, Ddir::Sync | Ddir::DataSync)
    }
}
