//! The contract for translation: what a flash translation layer (FTL) is to the machine around it.
//!
//! An FTL is a machine without clock or I/O. Inputs are the commands of users, the ends of flash
//! operations that it asked for, and timers; after each input [`Translation::poll`] is drained of what
//! the FTL wants done. Who drives it, a drive's controller or a kernel's driver, does the flash operations
//! and pays for the FTL's work in processor time. [`Action::work`] says what an action asks for, and
//! [`Action::cost`] what it costs. Both are the same for either driver.
//!
//! A read is split into pieces ([`Translation::read`]). Pieces on flash are read by the driver; what the
//! end of such a read means is told by [`read_ended`], the same for every FTL and every driver. Writes,
//! flushes and trims end with [`Action::Complete`] or [`Action::Refuse`].
//!
//! An FTL keeps the version ([`Stamps`]) that each sector has in its buffers and on flash. A read is held
//! against the newest version: at once where it is served from memory, with [`Translation::digest`] where
//! it is served from flash.
//!
//! What every FTL repeats is here for all of them: commands that wait ([`Commands`]), what is durable
//! ([`Order`]), the pieces of a read ([`split`]). [`MappedBuffer`] is these three with a map of sectors.
//! [`BlockLog`] is that with blocks, which are opened, programmed, collected and erased. A policy makes an
//! FTL of the last ([`LogFtl`]).
//!
//! `examples/ftl` is a complete small one, and `docs/extend.md` says how to write another. Drivers ask for
//! sectors within [`Translation::sectors`] only.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod age;
mod buffer;
mod commands;
mod counters;
mod digest;
mod error;
mod executor;
mod held;
mod log;
mod order;
mod orders;
mod saved;
mod split;
mod turns;
mod untimed;

pub use age::{
    Choose, Chooses, Pace, Steady, Trim, Unmet, WindowLimits, between, beyond, overwrite_between,
    steady_by_overwriting, trims_beyond,
};
pub use buffer::{Filled, MappedBuffer};
pub use commands::{Command, Commands};
pub use counters::Counters;
pub use digest::Digest;
pub use error::{AgeError, Breach, Ended};
pub use executor::{
    Brings, End, FlashOp, FlashRead, FtlCost, IssueCost, MapCost, ReadEnd, Stage, Work,
    check_own_read, read_ended, send_data,
};
pub use held::{HeldUp, mark_write};
pub use log::{BlockLog, BlockUse, LogFtl, LogPolicy};
pub use order::Order;
pub use orders::{
    GcFloor, GcOrder, GcPolicy, GcReport, GcShape, MapHeld, Ordered, PARTS, SlcUse, space_owed,
};
pub use saved::{LoadError, SavedIn, SavedOut, damaged};
pub use split::{Newest, split};
pub use turns::{Touch, Turns};

use serde::Serialize;
use std::io::{self, Write};
use std::ops::AddAssign;
use wordline_base::{Ctx, Lpn, PageData, Stamps};
use wordline_nand::{Class, Outcome, Ppa};

/// Bytes by which a collector in the drive tells of a sector in use what it is and where it goes to.
pub const MOVE: u32 = 16;
/// Bytes by which the host tells that it has a move in its map, or that a run of sectors is in use no more.
pub const PLACE: u32 = 8;

/// How many sectors users have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capacity {
    /// A fresh drive: what its good blocks leave beside over-provisioning.
    Fresh,
    /// A drive that was made with so many. Its good blocks must be enough to write.
    Kept(u64),
    /// The same with too few good blocks to write, however few: it is read-only.
    Worn(u64),
}

impl Capacity {
    /// None: it follows from the blocks.
    pub fn sectors(self) -> Option<u64> {
        match self {
            Capacity::Fresh => None,
            Capacity::Kept(sectors) | Capacity::Worn(sectors) => Some(sectors),
        }
    }
    /// The capacity of a drive that was made with so many sectors.
    pub fn of(sectors: u64, worn: bool) -> Capacity {
        if worn { Capacity::Worn(sectors) } else { Capacity::Kept(sectors) }
    }
}

/// A part of a read: a run of consecutive logical sectors served from one place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The first logical sector.
    pub lpn: Lpn,
    /// How many there are.
    pub sectors: u32,
    /// Where they are served from.
    pub place: Place,
}

/// Where a run of sectors is served from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Never written or trimmed: reads as zeroes, touches no flash.
    Unmapped,
    /// In the write buffer. The stamps have been checked already.
    Buffer,
    /// The only copy could not be read: the read is an error.
    Lost,
    /// A run inside one write unit. `expected` is the digest of the sectors' newest stamps.
    Flash {
        /// The first physical sector.
        ppa: Ppa,
        /// Digest of the sectors' newest stamps.
        expected: u64,
    },
    /// Not read where they are: one of the runs that together give the sectors. `first` for one of
    /// them: what the user asked for.
    Member {
        /// The number of the rebuild.
        rebuild: u32,
        /// The first physical sector.
        ppa: Ppa,
        /// What the user asked for is charged with this one.
        first: bool,
    },
}

impl Place {
    /// Where flash is to be read.
    pub fn ppa(self) -> Option<Ppa> {
        match self {
            Place::Unmapped | Place::Buffer | Place::Lost => None,
            Place::Flash { ppa, .. } | Place::Member { ppa, .. } => Some(ppa),
        }
    }
    /// How that counts.
    pub fn class(self) -> Class {
        match self {
            Place::Member { first: false, .. } => Class::RebuildRead,
            _ => Class::UserRead,
        }
    }
}

/// What the FTL wants done. Every operation with an `op` is answered by [`Translation::on_done`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Read a run of sectors inside one unit for the FTL's own use.
    Read {
        /// The FTL's number of it.
        op: u32,
        /// The first physical sector.
        ppa: Ppa,
        /// How many there are.
        sectors: u32,
        /// What it is done for.
        class: Class,
        /// Those of them that go to where the FTL runs.
        payload: u32,
    },
    /// Send this run of sectors inside a unit that is not programmed yet to the drive, which keeps them
    /// safe in a buffer of its own; done when they are there. The unit's program comes after the ends of
    /// all that was staged for it, and has no payload. `tag` is the write's that it is of.
    Stage {
        /// The FTL's number of it.
        op: u32,
        /// The command's name.
        tag: u32,
        /// The first physical sector.
        ppa: Ppa,
        /// How many there are.
        sectors: u32,
    },
    /// Program one whole unit.
    Program {
        /// The FTL's number of it.
        op: u32,
        /// The first physical sector.
        ppa: Ppa,
        /// What it is done for.
        class: Class,
        /// Sectors that come from the host.
        payload: u32,
        /// Sectors that went into it if it is parity.
        summed: u32,
        /// With a bit a cell, as all of its block until that is erased.
        slc: bool,
    },
    /// Erase the block of this LUN and line; `ppa` is its first sector.
    Erase {
        /// The FTL's number of it.
        op: u32,
        /// The first physical sector.
        ppa: Ppa,
    },
    /// Add up so many sectors where the FTL runs, where that takes time: what the collector rebuilds.
    Sum {
        /// The FTL's number of it.
        op: u32,
        /// So many.
        sectors: u32,
    },
    /// A command is complete: a write is in the buffer (or durable if FUA), a flush is durable.
    Complete {
        /// The command's name.
        tag: u32,
        /// It was done.
        ok: bool,
    },
    /// A write or trim is complete and was not done: the map would pass its limit of memory.
    Refuse {
        /// The command's name.
        tag: u32,
    },
}

/// Whose stamps a write carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source<'a> {
    /// From the application: the command's tag tells the sector's stamp when it enters the buffer
    /// ([`Stamps::show`]).
    Host,
    /// Written back by a cache in front, which has shown the stamps itself.
    Cache(&'a [u32]),
}

/// A rebuild that is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rebuilt {
    /// The sectors are there.
    pub ok: bool,
    /// Sectors that were added up for it.
    pub summed: u32,
}

/// Memory of the mapping, as a drive of this state would need it, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// L2P, OOB and bitmaps.
    pub mapping: u64,
    /// The integrity check's stamps.
    pub stamps: u64,
    /// What it knows of the contents of pages.
    pub pages: u64,
    /// The tables from parity to buffer of the open stripes.
    pub parity: u64,
    /// Physical sectors.
    pub sectors: u64,
}

/// Work of a map since it was last asked for, by which the driver charges processor time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct MapWork {
    /// Nodes searched.
    pub visited: u64,
    /// Entries written, new ones and changed ones, and entries that went.
    pub inserted: u64,
    /// Entries that went.
    pub removed: u64,
    /// Nodes divided in two.
    pub splits: u64,
    /// Nodes made one of two.
    pub merges: u64,
}

impl AddAssign for MapWork {
    fn add_assign(&mut self, o: MapWork) {
        self.visited += o.visited;
        self.inserted += o.inserted;
        self.removed += o.removed;
        self.splits += o.splits;
        self.merges += o.merges;
    }
}

/// Memory that an FTL takes of its host, by what it is for, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct HostMemory {
    /// Bytes of the map's nodes.
    pub nodes: u64,
    /// Bytes of data that are not on flash.
    pub buffer: u64,
    /// Bytes of what does not grow with what is written.
    pub tables: u64,
}

/// What strides do to reads and writes, beside the [`Counters`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StrideUse {
    /// Times that too few reads ended throttling.
    pub throttling_ended: u64,
    /// Programs and erases that waited for reads issued before.
    pub deferred: u64,
    /// The tables from parity to buffer.
    pub parity_table_bytes: u64,
    /// LUNs of the hot side, and times that changed.
    pub hot_luns: u32,
    /// Times that the number of hot LUNs changed.
    pub partitions: u64,
}

/// Erase counts of the good blocks; of a medium written in place, writes of the units in use.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wear {
    /// The least.
    pub min: u32,
    /// Their mean.
    pub mean: f64,
    /// The most.
    pub max: u32,
}

impl Wear {
    /// The wear of these blocks, those that are good.
    pub fn of(blocks: impl Iterator<Item = BlockState>) -> Wear {
        let (mut min, mut max, mut sum, mut n) = (u32::MAX, 0, 0u64, 0u64);
        for b in blocks.filter(|b| !b.bad) {
            min = min.min(b.erases);
            max = max.max(b.erases);
            sum += u64::from(b.erases);
            n += 1;
        }
        Wear { min: min.min(max), mean: if n == 0 { 0.0 } else { sum as f64 / n as f64 }, max }
    }
}

/// What is in a block: for setting a NAND machine to the state after ageing or loading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockState {
    /// Its line.
    pub line: u32,
    /// Its LUN.
    pub lun: u32,
    /// It cannot be used.
    pub bad: bool,
    /// Pages programmed since the last erase; they are the first ones.
    pub programmed: u32,
    /// Times that it was erased.
    pub erases: u32,
    /// They are written with a bit a cell.
    pub slc: bool,
}

/// A line that is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClosedLine {
    /// Its place in the order of opening.
    pub opened: u64,
    /// Sectors of it that are in use no more.
    pub stale: u64,
}

/// A flash translation layer.
///
/// Sectors are those of the drive (`nand.sector_bytes`, 4 KiB by default). A tag is the driver's name for a command, an op the FTL's name for a flash
/// operation.
pub trait Translation: Send {
    /// User capacity.
    fn sectors(&self) -> u64;
    /// The machine's clock begins: from here on inputs have times. Stamps on flash are brought up to
    /// those of the check.
    fn start(&mut self, ctx: &mut Ctx);
    /// A read or write of this sector comes soon: a hint for the processor's cache.
    fn prefetch(&mut self, _ctx: &Ctx, _lpn: Lpn) {}
    /// A user's command came, which a cache in front may keep for itself: the drive is not idle.
    fn user_came(&mut self, _ctx: &mut Ctx) {}

    /// Whether it has to be looked up where sectors are: drivers do so before they read or write them.
    fn looks_up(&self) -> bool {
        false
    }
    /// Whether it is known where these sectors are. Otherwise that is being read, and [`Action::Complete`] of this
    /// tag tells when it is.
    fn look_up(&mut self, _ctx: &mut Ctx, _tag: u32, _lpn: Lpn, _sectors: u32) -> bool {
        true
    }

    /// Splits a read into pieces.
    fn read(&mut self, ctx: &mut Ctx, lpn: Lpn, sectors: u32, out: &mut Vec<Piece>);
    /// Takes a write. It completes when it is in the buffer, with `fua` when it is durable.
    fn write(&mut self, ctx: &mut Ctx, tag: u32, lpn: Lpn, sectors: u32, fua: bool, source: Source);
    /// Completes when every write that was taken before is durable.
    fn flush(&mut self, ctx: &mut Ctx, tag: u32);
    /// Unmaps sectors.
    fn trim(&mut self, ctx: &mut Ctx, tag: u32, lpn: Lpn, sectors: u32);
    /// The next thing to do. Drain it after every input.
    fn poll(&mut self) -> Option<Action>;
    /// An operation is done.
    fn on_done(&mut self, ctx: &mut Ctx, op: u32, outcome: Outcome);
    /// An event of `Kind::FtlTimer` that the FTL set, with its index.
    fn on_timer(&mut self, _ctx: &mut Ctx, _index: u32) {}

    /// [`Digest`] of the logical addresses and stamps that flash holds in a run
    /// of sectors.
    fn digest(&self, ppa: Ppa, lpn: Lpn, sectors: u32) -> u64;
    /// [`Digest`] of what the FTL takes its read `op` of these sectors to be of.
    fn expects(&self, _op: u32, ppa: Ppa, sectors: u32) -> u64 {
        self.digest(ppa, Lpn(0), sectors)
    }
    /// What the program `op` writes to the unit at `ppa`: every sector that holds something, with its
    /// version.
    fn data(&self, op: u32, ppa: Ppa, to: &mut PageData);
    /// Whether a run of sectors on flash holds any that were lost before they got there.
    fn has_lost(&self, _ppa: Ppa, _sectors: u32) -> bool {
        false
    }
    /// Bytes that cross the link with the operation `op`, about sectors that stay in the drive.
    fn beside(&self, _op: u32) -> u32 {
        0
    }
    /// A run that users asked for could not be read from flash.
    fn read_failed(&mut self);
    /// A run could not be read. True: the pieces in `out` give it all the same.
    fn repair(
        &mut self,
        _ctx: &mut Ctx,
        _lpn: Lpn,
        _sectors: u32,
        _ppa: Ppa,
        _expected: u64,
        _out: &mut Vec<Piece>,
    ) -> bool {
        false
    }
    /// One of the runs of a rebuild was read, the one at `ppa`. After the last: whether the sectors are
    /// there; or further pieces in `out`.
    fn member_done(
        &mut self,
        _ctx: &mut Ctx,
        _rebuild: u32,
        _ppa: Ppa,
        _ok: bool,
        _out: &mut Vec<Piece>,
    ) -> Option<Rebuilt> {
        unreachable!("this FTL gives no members of a rebuild")
    }
    /// A flash piece of a read has been read: its block may be erased again.
    fn read_done(&mut self, ctx: &mut Ctx, ppa: Ppa, sectors: u32);

    /// Writes every sector once, in order, without time. What is not said otherwise goes the way of timed
    /// writes, with operations that are done at once and timers that never go off.
    fn fill(&mut self, stamps: &mut Stamps) -> Result<(), AgeError> {
        untimed::write(self, stamps, 0..self.sectors() as u32)
    }
    /// Writes these sectors, in order, without time.
    fn overwrite(&mut self, stamps: &mut Stamps, lpns: &[u32]) -> Result<(), AgeError> {
        untimed::write(self, stamps, lpns.iter().copied())
    }
    /// Readies for [`Translation::overwrite_stamped`], of which `lpns` are the first sectors. False: it is
    /// no way to write to this FTL.
    fn takes_stamped(&mut self, _stamps: &mut Stamps, _lpns: &[u32]) -> Result<bool, AgeError> {
        Ok(false)
    }
    /// Writes sectors, in order, without time, which have got their stamps already ([`Stamps::bump`]).
    fn overwrite_stamped(&mut self, _lpns: &[u32], _stamps: &[u32]) -> Result<(), AgeError> {
        unreachable!("this FTL gives sectors their stamps")
    }
    /// Unmaps sectors without time, while nothing is under way. Their stamps are trimmed by whoever asks for it.
    fn unmap(&mut self, lpn: Lpn, sectors: u32) -> Result<(), AgeError> {
        untimed::trim(self, lpn, sectors)
    }
    /// Leaves the drive alone until its collector rests, without time. Nothing is left to do where each
    /// write did all there was.
    fn rest(&mut self, _stamps: &mut Stamps) -> Result<(), AgeError> {
        Ok(())
    }
    /// Empties the buffer in SLC mode, as a drive does between users, without time. One that has none has nothing
    /// to do.
    fn fold(&mut self, _stamps: &mut Stamps) -> Result<(), AgeError> {
        Ok(())
    }
    /// Overwrites sectors that `next` chooses at the pace of users until the collector keeps pace. `next` may be
    /// asked for some that are not written any more. An
    /// FTL that does not know how fast it collects ages as with users at full speed.
    fn paced(
        &mut self,
        stamps: &mut Stamps,
        next: &mut Choose<'_>,
        _pace: Pace,
    ) -> Result<Steady, AgeError> {
        steady_by_overwriting(self, stamps, next, WindowLimits::default())
    }
    /// Ageing or loading is over: what is only brought up to date now and then is brought up to date.
    fn settle(&mut self) {}
    /// Every block. Ageing takes no time, so the NAND machine learns of its programs here.
    fn media_state(&self) -> Box<dyn Iterator<Item = BlockState> + '_>;
    /// Makes the stamps on flash and those of the check the same. They are, as long as no state is loaded
    /// and nothing is written without the check.
    fn adopt_stamps(&mut self, _stamps: &mut Stamps) {}
    /// The stamps of the check were kept with the state that was loaded: they are those on flash. False: this FTL
    /// has to be told by [`Translation::adopt_stamps`].
    fn know_stamps(&mut self) -> bool {
        false
    }
    /// Writes the state of an FTL that has nothing waiting, unwritten or in flight; an error of any other.
    fn save(&self, _to: &mut dyn Write) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this FTL cannot save its state"))
    }

    /// For a driver that keeps bytes by sector and version: the place in flash of a sector's newest copy, if
    /// it is durable.
    fn newest_at(&self, _lpn: Lpn) -> Option<Ppa> {
        None
    }
    /// What a physical sector holds, or is to hold, as far as that is known.
    fn oob(&self, _ppa: Ppa) -> Option<(Lpn, u32)> {
        None
    }
    /// Sectors and versions that were taken in and are not in flash yet: what programs to come will ask
    /// for. Writes that wait for room count if a cache gave them their versions.
    fn unwritten(&self) -> Vec<(Lpn, u32)> {
        Vec::new()
    }
    /// Free lines, and the numbers of them at which users wait and collecting starts. None where places are written over.
    fn free_lines(&self) -> Option<(u32, f64, f64)> {
        None
    }

    /// Everything that happened since it was made.
    fn counters(&self) -> &Counters;
    /// Memory that a drive of this state needs.
    fn memory(&self) -> Memory;
    /// Now; nothing where memory is not a result.
    fn host_memory(&self) -> HostMemory {
        HostMemory::default()
    }
    /// What the map did since the last call; nothing where `[ftl.cost]` says it all.
    fn take_map_work(&mut self) -> MapWork {
        MapWork::default()
    }
    /// Erase counts of good blocks.
    fn wear(&self) -> Wear {
        Wear::of(self.media_state())
    }
    /// The lines that are full, and not being collected. None where there are no lines.
    fn closed_lines(&self) -> Box<dyn Iterator<Item = ClosedLine> + '_> {
        Box::new(std::iter::empty())
    }
    /// Whether space has to be made for writes: not where sectors are written in place.
    fn collects(&self) -> bool {
        true
    }
    /// How many times over its sectors are to be written before the drive may count as steady, however level its windows are.
    fn least_overwrites(&self) -> f64 {
        0.0
    }
    /// Space is being made: valid sectors are being moved.
    fn is_collecting(&self) -> bool {
        false
    }
    /// The first write that waits does so for the collector: no space is left before that has made some, or the write buffer
    /// has room that is kept for what the collector moves.
    fn collector_holds(&self) -> bool {
        false
    }
    /// No victim is begun from here on, or they are again. Where users would have to wait for space they
    /// are begun all the same. An FTL that makes no space has nothing to hold.
    fn hold_collection(&mut self, _ctx: &mut Ctx, _hold: bool) {}
    /// For a collector on the host, while the FTL is in the drive; none where it takes no orders.
    fn ordered(&mut self) -> Option<&mut dyn Ordered> {
        None
    }
    /// What such a collector knows of it.
    fn gc_shape(&self) -> Option<GcShape> {
        None
    }
    /// What it collected against such a collector's orders.
    fn gc_floor(&self) -> GcFloor {
        GcFloor::default()
    }
    /// Where it begins to collect so late that writes may wait longer than its pace allows: units that are free then, and
    /// from how many on they do not, as superblocks or segments.
    fn begins_late(&self) -> Option<[f64; 2]> {
        None
    }
    /// None without a buffer in SLC mode.
    fn slc_use(&self) -> Option<SlcUse> {
        None
    }
    /// None where the whole map is in memory.
    fn map_held(&self) -> Option<MapHeld> {
        None
    }
    /// Where a sector's newest copy is or will be, and whether that unit is full and not programmed yet.
    fn lies_at(&self, _lpn: Lpn) -> Option<(Ppa, bool)> {
        None
    }
    /// None without parity.
    fn strides(&self) -> Option<StrideUse> {
        None
    }
    /// Holds the state against itself; for tests.
    fn check_invariants(&self) -> Result<(), Breach> {
        Ok(())
    }
    /// A copy: an aged drive is the start of several runs.
    fn boxed(&self) -> Box<dyn Translation>;
}

impl Clone for Box<dyn Translation> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}
