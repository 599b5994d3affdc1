//! Typed ids.

use serde::{Serialize, Serializer};

/// log2 of the sector size.
pub const SECTOR_SHIFT: u32 = 12;
/// The unit of mapping: 4 KiB.
pub const SECTOR: u64 = 1 << SECTOR_SHIFT;

/// Logical sector number: a byte offset on the drive divided by 4 KiB.
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
    /// fsync or fdatasync.
    pub fn is_sync(self) -> bool {
        matches!(self, Ddir::Sync | Ddir::DataSync)
    }
}
