//! Block devices of a host: what it needs to know of the drive or server behind one, its request queue and
//! the hardware queues that belong to it.

use crate::block::sched::{Elevator, LunConfig};
use crate::config::StackConfig;
use crate::paths::admit::Bios;
use crate::paths::collector::{Collector, GcOnHost};
use crate::paths::md::Array;
use crate::paths::pblk::Pblk;
use crate::{CoreId, HctxId};
use wordline_base::{Ctx, IdVec, SectorSize, Span, Time};
use wordline_ftl::Translator;
use wordline_ftl::config::FtlCost;
use wordline_md::{Layout, MdConfig};

/// What the host needs to know of a drive.
#[derive(Clone, Debug)]
pub struct DriveInfo {
    /// Bytes of the namespace; for an FTL on the host, of the drive pblk presents.
    pub bytes: u64,
    /// Bytes of a logical block.
    pub lba_bytes: u32,
    /// Queue pairs that the controller supports.
    pub queues: u32,
    /// Entries of a queue that the controller supports.
    pub depth: u32,
    /// Largest command in bytes (MDTS); 0 is no limit.
    pub max_transfer: u32,
    /// Whether a flush means anything: without a volatile cache the block layer drops it.
    pub volatile_cache: bool,
    /// It arbitrates between submission queues by their class.
    pub weighted_urgent: bool,
    /// What it, or the FTL on the host, maps.
    pub sector: SectorSize,
    /// Bytes that an open-channel drive keeps for units that are not programmed yet.
    pub staging_bytes: u64,
    /// Sectors of a write unit of an open-channel drive.
    pub unit_sectors: u32,
    /// Its FTL's collector is on the host, its map is not.
    pub gc: Option<GcOnHost>,
    /// It tells where data lie, and the host sends its requests by LUN.
    pub luns: Option<LunConfig>,
}

/// What can be said of a block device before it is there.
#[derive(Clone, Debug)]
pub struct DiskShape {
    /// Its size and limits.
    pub info: DriveInfo,
    /// Its FTL is on the host.
    pub ftl_on_host: bool,
    /// Its request queue's settings, where they are not the stack's: those of a network block device.
    pub queue: Option<Box<StackConfig>>,
    /// It is an array of other disks.
    pub array: Option<Box<ArrayShape>>,
}

/// An array of a host's disks.
#[derive(Clone, Debug)]
pub struct ArrayShape {
    /// Level, chunk and what guards it.
    pub config: MdConfig,
    /// Where its bytes are on the members.
    pub layout: Layout,
    /// The numbers of its members among the host's disks.
    pub members: Vec<u16>,
    /// The disk that takes a lost member's place.
    pub spare: Option<u16>,
    /// The disk that is its journal.
    pub journal: Option<u16>,
    /// Bytes of the journal.
    pub journal_bytes: u64,
    /// This member is lost then.
    pub fail: Option<(u32, Span)>,
    /// What pages hold is kept and checked.
    pub checks: bool,
}

impl DiskShape {
    /// A drive with its FTL inside.
    pub fn new(info: DriveInfo) -> DiskShape {
        DiskShape { info, ftl_on_host: false, queue: None, array: None }
    }
}

/// A block device that a host is to have.
pub struct DiskSpec {
    /// What is known before the host is built.
    pub shape: DiskShape,
    /// Translates on the host.
    pub ftl: Option<(Translator, FtlCost)>,
    /// The drive's number in the machine, whose stamps and timers an FTL on the host works on.
    pub drive: u8,
}

impl DiskSpec {
    /// The only drive of a machine, with its FTL inside.
    pub fn new(info: DriveInfo) -> DiskSpec {
        DiskSpec { shape: DiskShape::new(info), ftl: None, drive: 0 }
    }
    /// The same with this FTL on the host.
    pub fn with_ftl(mut self, ftl: Option<(Translator, FtlCost)>) -> DiskSpec {
        self.shape.ftl_on_host = ftl.is_some();
        self.ftl = ftl;
        self
    }
}

/// A block device.
pub(crate) struct Disk {
    pub info: DriveInfo,
    pub drive: u8,
    /// The first of its hardware queues.
    pub first: u16,
    /// Hardware queues that it has.
    pub queues: u16,
    /// Those of them that come before those that are only polled.
    pub unpolled: u16,
    /// Hardware queue by core, for requests that wait for an interrupt. With user-space drivers every job has
    /// one of its own.
    pub map: IdVec<CoreId, HctxId>,
    /// Hardware queue by core, for polled requests.
    pub poll_map: IdVec<CoreId, HctxId>,
    /// Hardware queue by core for latency-critical requests, if they have queues of their own.
    pub critical_map: IdVec<CoreId, HctxId>,
    /// Hardware queue by core that tasks look at for latency-critical requests.
    pub look_map: IdVec<CoreId, HctxId>,
    /// Polling a request is possible.
    pub polls: bool,
    pub elevator: Option<Elevator>,
    /// Tags that the scheduler has for each hardware queue.
    pub sched_tags: u32,
    /// The scheduler's timer that is set.
    pub elevator_timer: Time,
    /// The largest request in bytes.
    pub max_request: u64,
    pub pblk: Option<Box<Pblk>>,
    pub collector: Option<Box<Collector>>,
    pub array: Option<Box<Array>>,
    /// One of these takes its bios: it has no requests.
    pub bio_based: bool,
    /// The scheduler in front of pblk.
    pub bios: Option<Box<Bios>>,
    /// The connection to the server that has the drive, of the host's.
    pub client: Option<u16>,
}

impl Disk {
    /// pblk, whose drive is at work from now on.
    #[inline]
    pub fn enter(&mut self, ctx: &mut Ctx) -> Option<&mut Pblk> {
        let pblk = self.pblk.as_deref_mut()?;
        ctx.enter_drive(self.drive);
        Some(pblk)
    }
    /// What a ledger of versions asks of its drive.
    #[inline]
    pub fn ledger(&self) -> (u8, SectorSize) {
        (self.drive, self.info.sector)
    }
    pub fn hctxs(&self) -> std::ops::Range<u16> {
        self.first..self.first + self.queues
    }
}

/// Bits of a byte's address within a disk. Above them is the disk's number in its host, so that one
/// address says where an I/O goes. I/O from one disk into the next is beyond the end of the first.
pub const DISK_SHIFT: u32 = 50;

/// The address of a byte of a disk.
pub fn address(disk: u16, byte: u64) -> u64 {
    u64::from(disk) << DISK_SHIFT | byte
}
