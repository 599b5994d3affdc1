//! What is between an application and a drive besides the block layer: file systems, network block devices,
//! arrays, an FTL on the host and the scheduler in front of it, the collector alone on the host.

pub(crate) mod admit;
pub(crate) mod collector;
pub(crate) mod map_lock;
pub(crate) mod md;
pub mod nbd;
pub(crate) mod pblk;
pub(crate) mod staging;
pub mod vfs;

use crate::block::{NONE, Request};
use crate::disk::DiskShape;
use crate::paths::admit::Bios;
use crate::paths::collector::Collector;
use crate::paths::md::Array;
use crate::paths::nbd::End;
use crate::paths::pblk::Pblk;
use crate::paths::vfs::Vfs;
use crate::{EndId, ThreadId};
use wordline_base::IdVec;

/// What takes a disk's bios in place of requests, or stands behind its requests.
pub(crate) struct DiskPaths {
    pblk: Option<Box<Pblk>>,
    collector: Option<Box<Collector>>,
    array: Option<Box<Array>>,
    /// One of these takes its bios: it has no requests.
    bio_based: bool,
    /// The scheduler in front of pblk.
    bios: Option<Box<Bios>>,
    /// The connection to the server that has the drive.
    client: Option<EndId>,
}

impl DiskPaths {
    /// All that can be told by the shape. The rest comes with its threads.
    pub fn new(shape: &DiskShape) -> DiskPaths {
        DiskPaths {
            pblk: None,
            collector: None,
            bio_based: shape.ftl_on_host || shape.array.is_some(),
            array: shape.array.as_ref().map(|shape| Box::new(Array::new(shape))),
            bios: None,
            client: None,
        }
    }
    /// Its FTL is on the host.
    pub fn add_pblk(&mut self, pblk: Pblk) {
        self.pblk = Some(Box::new(pblk));
    }
    /// Its collector is on the host.
    pub fn add_collector(&mut self, collector: Collector) {
        self.collector = Some(Box::new(collector));
    }
    /// A scheduler is in front of pblk.
    pub fn add_bios(&mut self, bios: Bios) {
        self.bios = Some(Box::new(bios));
    }

    /// Its FTL is on the host.
    #[inline]
    pub fn has_ftl(&self) -> bool {
        self.pblk.is_some()
    }
    /// Its FTL on the host.
    pub fn pblk(&self) -> Option<&Pblk> {
        self.pblk.as_deref()
    }
    #[inline]
    pub fn pblk_mut(&mut self) -> Option<&mut Pblk> {
        self.pblk.as_deref_mut()
    }
    /// It is made of other disks.
    #[inline]
    pub fn is_array(&self) -> bool {
        self.array.is_some()
    }
    /// The array that it is.
    pub fn array(&self) -> Option<&Array> {
        self.array.as_deref()
    }
    /// The same, to be changed.
    pub fn array_mut(&mut self) -> Option<&mut Array> {
        self.array.as_deref_mut()
    }
    /// Its collector on the host.
    pub fn collector(&self) -> Option<&Collector> {
        self.collector.as_deref()
    }
    /// The scheduler in front of pblk.
    pub fn bios(&self) -> Option<&Bios> {
        self.bios.as_deref()
    }
    /// Its bios do not become requests.
    #[inline]
    pub fn is_bio_based(&self) -> bool {
        self.bio_based
    }
    /// A scheduler is in front of pblk.
    #[inline]
    pub fn schedules_bios(&self) -> bool {
        self.bios.is_some()
    }
    /// The connection to the server that has the drive, of the host's.
    #[inline]
    pub fn client(&self) -> Option<EndId> {
        self.client
    }
    /// A command goes to the drive of the FTL, if it has one here: what crosses the link.
    pub fn crosses_link(&mut self, r: &Request) {
        if let Some(pblk) = &mut self.pblk {
            pblk.crosses_link(r);
        }
    }
}

/// What a host has beside its block devices.
pub(crate) struct Paths {
    vfs: Option<Box<Vfs>>,
    /// Connections to other hosts.
    ends: IdVec<EndId, End>,
    /// Another host has a drive of this one: it works on when its own jobs are over.
    serves: bool,
    /// The thread that changes the map of an FTL now, and is to act on what comes of it.
    changes: ThreadId,
}

impl Paths {
    pub fn new() -> Paths {
        Paths { vfs: None, ends: IdVec::new(), serves: false, changes: NONE }
    }
}
