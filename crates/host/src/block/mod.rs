//! The multi-queue block layer of Linux 4.14: requests, tags, plug, merges, the flush machinery and
//! the scheduler's queue.
//!
//! Rules followed (blk_mq_make_request):
//! - A bio larger than `max_request` is split; the parts run in parallel and join.
//! - Direct reads and writes both carry REQ_SYNC (dio_bio_write_op), so no I/O here is "async".
//! - Without a plug (a synchronous call of one bio) a request goes straight to the driver
//!   (blk_mq_try_issue_directly).
//! - io_submit plugs. Above one hardware queue the plug holds a single request: a bio that merges
//!   with it does, any other sends it on and takes its place. Above a single queue up to
//!   BLK_MAX_REQUEST_COUNT requests gather and go out sorted by position.
//! - Without a scheduler a request takes a hardware tag when it is allocated, with one it takes a
//!   scheduler tag first and a hardware tag when it is dispatched. A submitter that finds no tag
//!   unplugs and sleeps; tags are handed over in order of arrival.
//! - Flushes (blk-flush.c): one at a time a hardware queue; those that come meanwhile share the next. kblockd's
//!   worker of the core that asks sends it (blk_mq_requeue_work).
//!
//! Left out: the kblockd hop of discards (dispatched by the submitter here), sbitmap's wake batches,
//! write-back throttling, discard merges.

pub(crate) mod call;
pub(crate) mod flashshare;
mod flush;
mod nodes;
pub mod sched;
mod submit;
mod tags;

use crate::block::flashshare::Kblockd;
use crate::block::sched::{Ask, Dir, Elevator, Luns};
use crate::config::StackConfig;
use crate::disk::{DISK_SHIFT, Disk, DiskShape};
use crate::driver::completions::Completions;
use crate::driver::ncq::Ncq;
use crate::driver::poll::PollStats;
use crate::{CoreId, DiskId, HctxId};
use std::collections::VecDeque;
use wordline_base::{Ddir, IdVec, IoClass, IoId, Slab, Span, Time};
use wordline_fs::Lack;
use wordline_ftl::Brings;
use wordline_md::Level;
use wordline_nvme::Opcode;

/// No node, request or thread.
pub(crate) const NONE: u32 = u32::MAX;
/// BLK_MAX_REQUEST_COUNT of Linux 4.14: a plug holds no more requests.
pub(crate) const PLUG_REQUESTS: usize = 16;
/// BLK_PLUG_FLUSH_SIZE of Linux 4.14: a plug with a request of so many bytes is sent on.
pub(crate) const PLUG_BYTES: u64 = 128 << 10;
/// BIO_MAX_PAGES: the largest bio.
pub(crate) const BIO_BYTES: u64 = 256 << 12;

/// An I/O of an application, or one of the parallel parts it was split into. Most of it is a record that all
/// rooms read and fill in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// Where its steps are written down.
    pub life: IoId,
    /// The node this is a part of; NONE for the I/O itself.
    pub parent: u32,
    /// Parts not yet complete, or 1 for an undivided I/O.
    pending: u32,
    /// The next I/O of the same (merged) request.
    next: u32,
    /// Who issued it.
    pub thread: u32,
    /// What it does.
    pub ddir: Ddir,
    /// Nothing of it has failed.
    pub ok: bool,
    /// What it failed for want of.
    pub lacks: Lack,
    /// The disk.
    pub disk: u16,
    /// Bytes.
    pub len: u32,
    /// The place on the disk.
    pub offset: u64,
    /// Of an I/O: when the application issued it.
    pub issued: Time,
    /// Of an I/O: when the submission call returned.
    pub submitted: Time,
    /// In a batch: what the application took to prepare it.
    pub prepared: u64,
    /// Of a bio of the file system: its number there.
    pub bio: u32,
    /// Of a write: it is on the medium when it ends (REQ_FUA).
    pub fua: bool,
    /// Nobody waits for it (no REQ_SYNC): a write of the flusher's, metadata on the way to their place.
    pub background: bool,
    /// A write for pblk: the rest of sectors that it writes in part is being read.
    pub merges: bool,
    /// What the ledger of versions calls it, if it is a write or trim for pblk.
    pub at_ledger: u32,
    /// The class that its request has at least.
    pub class: IoClass,
}

impl Node {
    /// It is over when so many parts of it are.
    #[inline]
    pub fn divide(&mut self, parts: u32) {
        self.pending = parts;
    }
    /// So many more parts are to end before it does.
    #[inline]
    pub fn wait_for(&mut self, more: u32) {
        self.pending += more;
    }
    /// One part of it is left.
    #[inline]
    pub fn is_last(&self) -> bool {
        self.pending == 1
    }
    #[inline]
    pub fn is_over(&self) -> bool {
        self.pending == 0
    }
}

/// What a request does when it is complete, beyond its nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    Data,
    Flush,
    /// A flash read for an application.
    Piece {
        lpn: u32,
        brings: Brings,
    },
    /// An operation of the FTL's own.
    Ftl {
        op: u32,
    },
    /// An order of the collector's of a drive that has the FTL.
    GcOrder,
}

/// I/Os that go to the drive as one command. Most of it is the record that the driver makes the command of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// What the command does.
    pub opcode: Opcode,
    /// Vector commands: `wordline_nand::Class` of the work.
    pub work: u8,
    /// The best of its I/Os'. What the FTL asks for by itself has none.
    pub class: IoClass,
    /// Sectors that do not cross the link.
    pub inner: u32,
    /// Bytes that do beside the data.
    pub beside: u32,
    /// The hardware queue that it goes by.
    pub hctx: u16,
    /// Hardware tag, or NO_TAG while the scheduler has it.
    pub tag: u16,
    /// The scheduler's tag is its own, to be given back.
    sched_tag: bool,
    /// It came to the scheduler, which is told of its end.
    scheduled: bool,
    /// A write that is on the medium when it ends (REQ_FUA). Nothing is merged with it, and no scheduler sees it.
    pub fua: bool,
    /// The first byte on the disk; of vector commands the physical sector.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
    /// When it went to the driver.
    pub issued: Time,
    /// Hybrid polling wants to know how long it takes (RQF_STATS).
    pub sampled: bool,
    /// The first of the nodes served.
    pub first: u32,
    /// The last of the nodes served.
    pub last: u32,
    /// What happens when it is complete.
    pub purpose: Purpose,
    /// The thread that looks for its completion, if one does by Select-ISR.
    looker: u32,
    /// The order in which requests came to wait, or last grew.
    #[cfg(debug_assertions)]
    made: u64,
}

/// No hardware tag.
pub(crate) const NO_TAG: u16 = u16::MAX;

impl Request {
    /// A read, or anything else.
    pub fn dir(&self) -> Dir {
        if self.opcode.is_data_out() { Dir::Read } else { Dir::Write }
    }
    /// Bios may join it: it reads or writes data.
    pub fn mergeable(&self) -> bool {
        matches!(self.opcode, Opcode::Read | Opcode::Write)
    }
}

/// A hardware queue and its NVMe queue pair.
#[derive(Debug)]
pub(crate) struct Hctx {
    disk: DiskId,
    /// The core its interrupt vector points at.
    core: CoreId,
    /// Free hardware tags (command identifiers): queue depth - 1, because a queue's last slot
    /// stays empty.
    tags: Vec<u16>,
    /// Request (or node, for kernel = false) by tag.
    by_tag: Vec<u32>,
    /// What the ledger of versions calls the write or trim at the drive, by tag.
    submitted: Vec<u32>,
    sched_free: u32,
    /// Threads asleep for a tag; with kernel = false, nodes that found the queue full.
    waiters: VecDeque<u32>,
    /// hctx->dispatch: taken from the scheduler, no hardware tag yet.
    dispatch: VecDeque<u32>,
    /// Requests for what could not be read, without a tag.
    repairs: VecDeque<u32>,
    /// The flush at the drive.
    flush: u32,
    /// Nodes that wait for the next flush.
    flush_pending: Vec<u32>,
    /// The driver's part, with walls of its own.
    pub cqes: Completions,
    /// The hardware queue whose completion queue its own commands complete in.
    cq: HctxId,
    /// Requests that a kblockd worker is to take (blk_mq_ctx).
    software: VecDeque<u32>,
    /// Of a SATA drive.
    ncq: Option<Box<Ncq>>,
    /// Its completion queue's vector may be masked.
    maskable: bool,
    /// The vector is masked.
    masked: bool,
    /// Entries taken from that queue.
    reaped: u64,
    /// Requests in flight whose completion nobody looks for.
    sleepers: u32,
}

impl Hctx {
    pub fn new(disk: u16, core: u32, depth: u32, sched_tags: u32, interrupts: bool) -> Hctx {
        let tags = depth as usize - 1;
        Hctx {
            disk,
            core,
            tags: (0..tags as u16).rev().collect(),
            by_tag: vec![NONE; tags],
            submitted: vec![NONE; tags],
            sched_free: sched_tags,
            waiters: VecDeque::with_capacity(16),
            dispatch: VecDeque::with_capacity(16),
            repairs: VecDeque::new(),
            flush: NONE,
            flush_pending: Vec::with_capacity(8),
            cqes: Completions::new(interrupts),
            cq: 0,
            software: VecDeque::new(),
            ncq: None,
            maskable: false,
            masked: false,
            reaped: 0,
            sleepers: 0,
        }
    }
    /// libata's driver has it.
    pub fn of_sata(mut self, sata: bool) -> Hctx {
        self.ncq = sata.then(Default::default);
        self
    }
    /// libata's driver has it.
    #[inline]
    pub fn is_sata(&self) -> bool {
        self.ncq.is_some()
    }
    /// What may go to a SATA drive.
    #[inline]
    pub fn ncq(&mut self) -> Option<&mut Ncq> {
        self.ncq.as_deref_mut()
    }
    /// Its commands complete in the completion queue of this hardware queue.
    pub fn complete_in(&mut self, cq: HctxId) {
        self.cq = cq;
    }
    /// The hardware queue whose completion queue its commands complete in.
    #[inline]
    pub fn cq(&self) -> HctxId {
        self.cq
    }
    /// Its disk.
    #[inline]
    pub fn disk(&self) -> DiskId {
        self.disk
    }
    /// The core its interrupt vector points at.
    #[inline]
    pub fn core(&self) -> CoreId {
        self.core
    }
    /// The vector of its completion queue is masked until somebody sleeps.
    pub fn mask_first(&mut self) {
        (self.maskable, self.masked) = (true, true);
    }
    /// The vector of its completion queue is masked.
    #[inline]
    pub fn is_masked(&self) -> bool {
        self.masked
    }
    /// What the ledger of versions calls the write or trim whose command has this tag.
    #[inline]
    pub fn at_ledger(&mut self, tag: u16) -> &mut u32 {
        &mut self.submitted[usize::from(tag)]
    }
    /// The request (or node) whose command has this tag.
    #[inline]
    pub fn request_of(&self, tag: u16) -> u32 {
        self.by_tag[usize::from(tag)]
    }
    /// A free tag, for a request that is made at once.
    #[inline]
    pub fn take_tag(&mut self) -> Option<u16> {
        self.tags.pop()
    }
    /// A request for what could not be read waits for a tag.
    pub fn repair_later(&mut self, rq: u32) {
        self.repairs.push_back(rq);
    }
    /// Without a kernel: the tag of a node's command; without one the node waits.
    #[inline]
    pub fn send(&mut self, node: u32) -> Option<u16> {
        let tag = self.tags.pop();
        match tag {
            Some(tag) => self.by_tag[usize::from(tag)] = node,
            None => self.waiters.push_back(node),
        }
        tag
    }
    /// Without a kernel: the node of a command that is complete, and the one that is to be sent next.
    #[inline]
    pub fn take_back(&mut self, tag: u16) -> (u32, Option<u32>) {
        let node = std::mem::replace(&mut self.by_tag[usize::from(tag)], NONE);
        self.tags.push(tag);
        (node, self.waiters.pop_front())
    }
    /// For tests: the scheduler's free tags, who waits for a tag, and requests that nobody looks for.
    #[cfg(test)]
    pub fn at_rest(&self) -> (u32, usize, u32) {
        (self.sched_free, self.waiters.len(), self.sleepers)
    }
    /// Tags in use.
    pub fn in_flight(&self) -> usize {
        self.by_tag.len() - self.tags.len()
    }
}

/// Whether data of `a_len` bytes at `a` and of `b_len` at `b` touch, and on which side of `a`.
pub(crate) fn touches(a: u64, a_len: u64, b: u64, b_len: u64) -> Option<Side> {
    if a + a_len == b {
        Some(Side::Back)
    } else if b + b_len == a {
        Some(Side::Front)
    } else {
        None
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Back,
    Front,
}

/// The request queue of a disk. A bio-based disk has none, and its limits alone are of use.
pub(crate) struct RequestQueue {
    elevator: Option<Elevator>,
    /// Tags that the scheduler has for each hardware queue.
    sched_tags: u32,
    /// When the scheduler's lock is free, as far as is known.
    lock_free: Time,
    /// The core that had it last.
    lock_core: CoreId,
    /// The scheduler's timer that is set.
    elevator_timer: Time,
    /// The largest request in bytes.
    max_request: u64,
    /// The same as read-ahead knows it (bdi->io_pages).
    read_at_once: u64,
    /// What its requests took, for threads that sleep before they poll.
    poll_stats: PollStats,
}

/// Requests of file systems are no larger, whatever the drive takes (BLK_DEF_MAX_SECTORS).
const DEF_MAX_BYTES: u64 = 1280 << 10;

impl RequestQueue {
    /// `depth`: entries of a queue of the drive's.
    pub fn new(shape: &DiskShape, depth: u32, stack: &StackConfig) -> RequestQueue {
        let max_request = match shape.info.max_transfer {
            _ if shape.array.is_some() => BIO_BYTES,
            0 => u64::from(stack.max_request),
            max => u64::from(stack.max_request.min(max) / 4096 * 4096).max(4096),
        };
        RequestQueue {
            elevator: None,
            // blk_mq_init_sched, BLKDEV_MAX_RQ.
            sched_tags: match stack.scheduler_tags {
                0 => 2 * depth.saturating_sub(1).clamp(1, 128),
                given => given,
            },
            lock_free: Time::ZERO,
            lock_core: 0,
            elevator_timer: Time::NEVER,
            max_request,
            read_at_once: match &shape.array {
                None => max_request.min(DEF_MAX_BYTES),
                // raid0_run sets the chunk as the limit of its queue, raid5_run none.
                Some(array) if array.layout.level == Level::Raid0 => {
                    array.layout.chunk.min(DEF_MAX_BYTES)
                }
                Some(_) => DEF_MAX_BYTES,
            },
            poll_stats: PollStats::default(),
        }
    }
    /// What its requests took, for threads that sleep before they poll.
    #[inline]
    pub fn poll_stats(&self) -> &PollStats {
        &self.poll_stats
    }
    /// The same, with more to come.
    pub fn poll_stats_mut(&mut self) -> &mut PollStats {
        &mut self.poll_stats
    }
    /// Requests go by this scheduler.
    pub fn schedule_by(&mut self, elevator: Option<Elevator>) {
        self.elevator = elevator;
    }
    /// What a core did up to `now` in the scheduler, in `held` nanoseconds, was under its one lock (dd->lock,
    /// bfqd->lock): how much longer it takes as others had the lock or came before. A core does not wait
    /// for itself. kyber has a lock for each hardware queue.
    pub fn lock(&mut self, now: Time, core: CoreId, held: u64) -> Span {
        use Elevator::{Bfq, Deadline, Sfq};
        if !matches!(self.elevator, Some(Deadline(_) | Bfq(_) | Sfq(_))) {
            return Span::ZERO;
        }
        let waits = match self.lock_core == core {
            true => Span::ZERO,
            false => self.lock_free.since(Time(now.0.saturating_sub(held))),
        };
        self.lock_core = core;
        self.lock_free = self.lock_free.max(now + waits);
        waits
    }
    /// The largest request in bytes.
    #[inline]
    pub fn max_request(&self) -> u64 {
        self.max_request
    }
    pub fn sched_tags(&self) -> u32 {
        self.sched_tags
    }
    pub fn read_at_once(&self) -> u64 {
        self.read_at_once
    }
    /// There are more threads than before.
    pub fn make_room(&mut self, threads: usize) {
        if let Some(Elevator::Bfq(bfq)) = &mut self.elevator {
            bfq.add_threads(threads);
        }
    }
    /// The scheduler by LUN, if that is it.
    pub fn luns(&self) -> Option<&Luns> {
        match &self.elevator {
            Some(Elevator::Luns(luns)) => Some(luns),
            _ => None,
        }
    }
    /// For tests: requests that the scheduler holds.
    #[cfg(test)]
    pub fn held(&self) -> Option<usize> {
        self.elevator.as_ref().map(Elevator::len)
    }
}

/// The block layer's own state.
pub(crate) struct BlockLayer {
    /// I/Os and their parts.
    pub nodes: Slab<Node>,
    /// Requests, from their making to their completion.
    pub requests: Slab<Request>,
    /// Hardware queues of all disks, one disk after the other.
    pub hctxs: IdVec<HctxId, Hctx>,
    /// Block devices.
    pub disks: IdVec<DiskId, Disk>,
    /// Bios may be merged.
    merge: bool,
    /// Latency-critical requests have a way of their own.
    tells_classes: bool,
    #[cfg(debug_assertions)]
    made: u64,
    /// By core, where flushes are sent, or requests wait in software queues.
    kblockd: IdVec<CoreId, Kblockd>,
}

impl BlockLayer {
    /// With room for so many nodes and requests.
    pub fn new(
        stack: &StackConfig,
        (nodes, requests): (usize, usize),
        hctxs: Vec<Hctx>,
        disks: IdVec<DiskId, Disk>,
        kblockd: Vec<Kblockd>,
    ) -> BlockLayer {
        let flashshare = &stack.flashshare;
        BlockLayer {
            nodes: Slab::with_capacity(nodes),
            requests: Slab::with_capacity(requests),
            hctxs: hctxs.into(),
            disks,
            merge: stack.merge,
            tells_classes: flashshare.bypass || flashshare.queues || flashshare.select_isr,
            #[cfg(debug_assertions)]
            made: 0,
            kblockd: kblockd.into(),
        }
    }
    /// The disk of an address and the byte there. One of a disk that is not there is beyond the end of the
    /// first.
    #[inline]
    pub fn place(&self, address: u64) -> (u16, u64) {
        let disk = address >> DISK_SHIFT;
        match disk < self.disks.len() as u64 {
            true => (disk as u16, address & ((1 << DISK_SHIFT) - 1)),
            false => (0, address),
        }
    }

    /// The request is what it is from now on.
    #[inline]
    pub fn stamp(&mut self, _rq: u32) {
        #[cfg(debug_assertions)]
        {
            self.made += 1;
            self.requests[_rq].made = self.made;
        }
    }

    /// Appends the nodes of a list to a request.
    pub fn append(&mut self, rq: u32, first: u32, last: u32) {
        self.stamp(rq);
        let r = &mut self.requests[rq];
        let tail = r.last;
        r.last = last;
        self.nodes[tail].next = first;
    }

    /// blk_attempt_plug_merge: newest first.
    #[inline]
    pub fn plug_merge(
        &mut self,
        plug: &[u32],
        opcode: Opcode,
        node: u32,
        at: u64,
        len: u64,
    ) -> Option<Side> {
        let max = self.disks[self.nodes[node].disk].queue.max_request;
        for &rq in plug.iter().rev() {
            let r = &self.requests[rq];
            if r.opcode != opcode || r.bytes + len > max {
                continue;
            }
            let Some(side) = touches(r.offset, r.bytes, at, len) else { continue };
            self.join(rq, node, side);
            return Some(side);
        }
        None
    }

    /// A request for one node, with a hardware tag if one is given.
    pub fn request(
        &mut self,
        node: u32,
        opcode: Opcode,
        offset: u64,
        bytes: u64,
        hctx: u16,
        tag: u16,
    ) -> u32 {
        let rq = self.requests.insert(Request {
            opcode,
            work: 0,
            class: if node == NONE { IoClass::NONE } else { self.nodes[node].class },
            inner: 0,
            beside: 0,
            hctx,
            tag,
            sched_tag: tag == NO_TAG,
            scheduled: tag == NO_TAG,
            fua: opcode == Opcode::Write && node != NONE && self.nodes[node].fua,
            offset,
            bytes,
            issued: Time::ZERO,
            sampled: false,
            first: node,
            last: node,
            purpose: Purpose::Data,
            looker: NONE,
            #[cfg(debug_assertions)]
            made: 0,
        });
        self.stamp(rq);
        if tag != NO_TAG {
            self.hctxs[hctx].by_tag[usize::from(tag)] = rq;
        }
        rq
    }

    /// A request of a driver's own, which passes by the scheduler and has no tag yet.
    pub fn driver_request(
        &mut self,
        node: u32,
        opcode: Opcode,
        offset: u64,
        bytes: u64,
        hctx: HctxId,
    ) -> u32 {
        let rq = self.request(node, opcode, offset, bytes, hctx, NO_TAG);
        let r = &mut self.requests[rq];
        (r.sched_tag, r.scheduled) = (false, false);
        rq
    }

    /// Takes a hardware tag for a request that has none.
    pub fn get_driver_tag(&mut self, rq: u32) -> bool {
        let h = self.requests[rq].hctx;
        match self.hctxs[h].tags.pop() {
            Some(tag) => {
                self.hctxs[h].by_tag[usize::from(tag)] = rq;
                self.requests[rq].tag = tag;
                true
            }
            None => false,
        }
    }

    /// blk_mq_sched_dispatch_requests for hardware queue `h`: the next request to send, with its
    /// tag. Requests left without a tag come first; while there are any, the scheduler is not
    /// asked.
    pub fn next_dispatch(&mut self, h: u16, now: Time) -> Option<u32> {
        if let Some(&rq) = self.hctxs[h].dispatch.front() {
            if !self.get_driver_tag(rq) {
                return None;
            }
            self.hctxs[h].dispatch.pop_front();
            return Some(rq);
        }
        let disk = self.hctxs[h].disk;
        loop {
            let rq = self.disks[disk].queue.elevator.as_mut()?.dispatch(h, now)?;
            if self.get_driver_tag(rq) {
                return Some(rq);
            }
            let owner = &mut self.hctxs[self.requests[rq].hctx];
            owner.dispatch.push_back(rq);
            // A queue that only polling empties may be left alone for long: the others go on.
            if owner.cqes.interrupts() {
                return None;
            }
        }
    }

    /// Requests of some queue are in the statistics of hybrid polling.
    pub fn samples(&self) -> bool {
        self.disks.iter().any(|disk| disk.queue.poll_stats.samples())
    }

    /// Scheduler tags that a request must leave to others: kyber gives asynchronous ones three
    /// quarters (kyber_limit_depth).
    pub fn kept_back(&self, disk: u16, background: bool) -> u32 {
        let disk = &self.disks[disk];
        match disk.queue.elevator {
            Some(Elevator::Kyber(_)) if background => {
                disk.queue.sched_tags - (disk.queue.sched_tags * 3 / 4).max(1)
            }
            _ => 0,
        }
    }

    /// A request goes to the scheduler.
    pub fn insert_scheduler(&mut self, rq: u32, now: Time) {
        self.stamp(rq);
        let r = self.requests[rq];
        let ask = Ask {
            rq,
            hctx: r.hctx,
            thread: self.nodes[r.first].thread,
            dir: r.dir(),
            start: r.offset,
            bytes: r.bytes,
            mergeable: r.mergeable() && self.merge,
            data: r.mergeable(),
            sync: !self.nodes[r.first].background,
        };
        let disk = self.hctxs[r.hctx].disk;
        if let Some(elevator) = &mut self.disks[disk].queue.elevator {
            elevator.insert(&ask, now);
        }
    }
}

/// Hardware queue of each core, and the core of each queue's vector: managed affinity spreads the
/// cores in consecutive groups (irq_create_affinity_masks, blk_mq_pci_map_queues); the vector goes
/// to the first of its group.
pub(crate) fn map_queues(cores: u32, queues: u32) -> (Vec<u16>, Vec<u32>) {
    let (each, extra) = (cores / queues, cores % queues);
    let mut map = Vec::with_capacity(cores as usize);
    let mut vectors = Vec::with_capacity(queues as usize);
    for q in 0..queues {
        vectors.push(map.len() as u32);
        for _ in 0..each + u32::from(q < extra) {
            map.push(q as u16);
        }
    }
    (map, vectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_share_queues_in_consecutive_groups() {
        assert_eq!(map_queues(6, 6), (vec![0, 1, 2, 3, 4, 5], vec![0, 1, 2, 3, 4, 5]));
        assert_eq!(map_queues(6, 4), (vec![0, 0, 1, 1, 2, 3], vec![0, 2, 4, 5]));
        assert_eq!(map_queues(3, 1), (vec![0, 0, 0], vec![0]));
    }
}
