//! Block devices of a host: what it needs to know of the drive or server behind one, its request queue and
//! the hardware queues that belong to it.

use crate::block::sched::LunConfig;
use crate::block::{RequestQueue, map_queues};
use crate::config::StackConfig;
use crate::error::Queues;
use crate::paths::DiskPaths;
use crate::paths::collector::GcOnHost;
use crate::paths::pblk::Pblk;
use crate::{CoreId, HctxId};
use std::ops::Range;
use wordline_base::{Ctx, IdVec, SectorSize, Span};
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
    /// A SATA drive, which libata's AHCI driver has.
    pub sata: bool,
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
    info: DriveInfo,
    drive: u8,
    /// The first of its hardware queues.
    first: HctxId,
    /// Hardware queues that it has.
    queues: u16,
    /// Those of them that come before those that are only polled.
    unpolled: u16,
    /// Hardware queue by core, for requests that wait for an interrupt. With user-space drivers every job has
    /// one of its own.
    map: IdVec<CoreId, HctxId>,
    /// Hardware queue by core, for polled requests.
    poll_map: IdVec<CoreId, HctxId>,
    /// Hardware queue by core for latency-critical requests, if they have queues of their own.
    critical_map: IdVec<CoreId, HctxId>,
    /// Hardware queue by core that tasks look at for latency-critical requests.
    look_map: IdVec<CoreId, HctxId>,
    /// Polling a request is possible.
    polls: bool,
    /// The block layer's part.
    pub queue: RequestQueue,
    /// What takes its bios, or stands behind it.
    pub paths: DiskPaths,
}

impl Disk {
    /// A disk with its hardware queues from `first` on.
    pub fn new(spec: DiskSpec, has: &Queues, first: HctxId, stack: &StackConfig) -> Disk {
        let (cores, shape) = (stack.cores, spec.shape);
        let from = |queues: u32, first: u16| {
            let map = map_queues(cores, queues).0;
            map.iter().map(|q| q + first).collect::<IdVec<CoreId, HctxId>>()
        };
        let map = match has.shared {
            // An array's are those of its first member, as soon as that is there.
            true if has.count == 0 => IdVec::new(),
            true => from(has.count, first),
            false => IdVec::filled(first, cores),
        };
        let behind = first + (has.count + has.poll) as u16;
        Disk {
            drive: spec.drive,
            first,
            queues: (has.count + has.poll + has.critical) as u16,
            unpolled: has.count as u16,
            // Polled requests have queues behind the others, or the same.
            poll_map: match has.poll {
                0 => map.clone(),
                n => from(n, first + has.count as u16),
            },
            look_map: match (has.critical, stack.flashshare.completion_queues) {
                (0, _) | (_, 1) => map.clone(),
                _ => from(has.critical, behind),
            },
            critical_map: match has.critical {
                0 => IdVec::new(),
                n => from(n, behind),
            },
            map,
            // A bio-based device cannot be polled (BLK_QC_T_NONE).
            polls: has.shared
                && has.count > 0
                && stack.io_poll > 0
                && !shape.ftl_on_host
                && !shape.info.sata,
            queue: RequestQueue::new(&shape, has.depth, stack),
            paths: DiskPaths::new(&shape),
            info: shape.info,
        }
    }
    /// It is an array, whose hardware queues are those of its first member.
    pub fn use_queues_of(&mut self, member: &Disk) {
        (self.first, self.unpolled, self.map) = (member.first, member.unpolled, member.map.clone());
        (self.poll_map, self.look_map) = (self.map.clone(), self.map.clone());
    }

    /// What the host knows of the drive.
    #[inline]
    pub fn info(&self) -> &DriveInfo {
        &self.info
    }
    /// The drive's number in the machine.
    #[inline]
    pub fn drive(&self) -> u8 {
        self.drive
    }
    /// pblk, whose drive is at work from now on.
    #[inline]
    pub fn enter(&mut self, ctx: &mut Ctx) -> Option<&mut Pblk> {
        let pblk = self.paths.pblk_mut()?;
        ctx.enter_drive(self.drive);
        Some(pblk)
    }
    /// What a ledger of versions asks of its drive.
    #[inline]
    pub fn ledger(&self) -> (u8, SectorSize) {
        (self.drive, self.info.sector)
    }

    /// Its hardware queues.
    pub fn hctxs(&self) -> Range<HctxId> {
        self.first..self.first + self.queues
    }
    /// The first of them.
    #[inline]
    pub fn first(&self) -> HctxId {
        self.first
    }
    /// Hardware queues but for those that are only polled and those of latency-critical requests.
    pub fn unpolled(&self) -> u32 {
        u32::from(self.unpolled)
    }
    /// Its only one takes all.
    #[inline]
    pub fn has_one_queue(&self) -> bool {
        self.queues == 1
    }
    /// Each core has one of its own to be interrupted by.
    pub fn has_queue_per_core(&self, cores: u32) -> bool {
        self.unpolled() == cores
    }
    /// Where jobs have queues of their own: that of a job.
    pub fn own_queue(&self, job: u32) -> HctxId {
        self.first + (job % u32::from(self.unpolled)) as u16
    }
    /// The hardware queue of a core.
    #[inline]
    pub fn home(&self, core: CoreId) -> HctxId {
        self.map[core]
    }
    /// The hardware queue of each core.
    pub fn homes(&self) -> &IdVec<CoreId, HctxId> {
        &self.map
    }
    /// The hardware queue of a core for polled requests.
    pub fn poll_queue(&self, core: CoreId) -> HctxId {
        self.poll_map[core]
    }
    /// The hardware queue that tasks of a core look at for latency-critical requests.
    pub fn look_queue(&self, core: CoreId) -> HctxId {
        self.look_map[core]
    }
    /// The hardware queue of a core for latency-critical requests.
    #[inline]
    pub fn critical_queue(&self, core: CoreId) -> HctxId {
        let map = if self.critical_map.is_empty() { &self.map } else { &self.critical_map };
        map[core]
    }
    /// The hardware queue is for latency-critical requests alone.
    #[inline]
    pub fn is_critical_queue(&self, h: HctxId) -> bool {
        self.critical_map.contains(&h)
    }
    /// Polling a request is possible.
    pub fn can_poll(&self) -> bool {
        self.polls
    }
}

/// Bits of a byte's address within a disk. Above them is the disk's number in its host, so that one
/// address says where an I/O goes. I/O from one disk into the next is beyond the end of the first.
pub const DISK_SHIFT: u32 = 50;

/// The address of a byte of a disk.
pub fn address(disk: u16, byte: u64) -> u64 {
    u64::from(disk) << DISK_SHIFT | byte
}

/// The disk of an address.
pub fn disk_of(address: u64) -> u16 {
    (address >> DISK_SHIFT) as u16
}
