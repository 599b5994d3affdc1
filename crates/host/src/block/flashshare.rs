//! FlashShare's block layer (Zhang et al., OSDI 2018): what latency-critical requests pass by, and what they
//! must not overtake.
//!
//! - A latency-critical read or write takes a request and goes to the driver: no merge, no scheduler, no
//!   software queue.
//! - A request of the same hardware context that waits there and touches the same sectors is a hazard. If both
//!   have one direction and together are one request, they become one, which goes at once. Otherwise the one
//!   that waits goes first and the other follows it through the same submission queue, which the controller
//!   fetches in order.
//! - A request that a core is writing to its queue is at the driver. Two requests at the driver have no order,
//!   as in Linux.
//! - With `issue = "queued"` all other requests go into the software queue of their core. A kblockd worker runs
//!   the hardware queue: those that wait go out one after the other.
//!
//! Left out: throughput requests that wait may overtake each other. Requests in the plugs of other threads are
//! not looked at. A flush and a discard go past the software queue; the worker takes a flush first. A hardware
//! queue of several cores has one software queue, in which a bio merges with requests of its own core alone.

use crate::HctxId;
use crate::block::{BlockLayer, NO_TAG, NONE, Request, Side, touches};
use crate::config::Issue;
use crate::function::spend;
use crate::host::{Host, Output};
use crate::source::Source;
use crate::tasks::thread::{Asleep, Flow, Step};
use std::collections::VecDeque;
use wordline_base::{Ctx, Layer, Why, Workload};
use wordline_nvme::Opcode;

/// Requests of a software queue that a bio is compared with (blk_mq_attempt_merge).
const CHECKED: usize = 8;

/// The worker of a core.
#[derive(Debug)]
pub(crate) struct Kblockd {
    thread: u32,
    /// Requests that have their tag (blk_mq_requeue_work).
    requeued: VecDeque<u32>,
    /// Hardware queues whose software queues are to be emptied.
    queues: VecDeque<HctxId>,
}

impl Kblockd {
    /// This thread is the worker; nothing waits.
    pub fn new(thread: u32) -> Kblockd {
        Kblockd { thread, requeued: VecDeque::new(), queues: VecDeque::with_capacity(4) }
    }
}

/// Where a request of a hazard waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waits {
    Software,
    Scheduler,
    /// For a tag, behind others.
    Dispatch,
}

impl BlockLayer {
    /// Nothing waits in front of a hardware queue's driver.
    pub fn is_empty(&self, h: HctxId) -> bool {
        let hctx = &self.hctxs[h];
        let elevator = self.disks[hctx.disk].queue.elevator.as_ref();
        hctx.software.is_empty()
            && hctx.dispatch.is_empty()
            && elevator.is_none_or(|elevator| elevator.is_empty())
    }

    /// A request of hardware queue `h` that waits, is not at the driver, and touches these bytes; any but
    /// `but`.
    fn hazard(&self, h: HctxId, (offset, len): (u64, u64), but: u32) -> Option<(u32, Waits)> {
        let overlaps = |&rq: &u32| {
            let r = &self.requests[rq];
            rq != but && r.hctx == h && r.offset < offset + len && offset < r.offset + r.bytes
        };
        let hctx = &self.hctxs[h];
        if let Some(rq) = hctx.software.iter().copied().find(|rq| overlaps(rq)) {
            return Some((rq, Waits::Software));
        }
        let elevator = self.disks[hctx.disk].queue.elevator.as_ref();
        if let Some(rq) = elevator.and_then(|e| e.find(h, |rq| overlaps(&rq))) {
            return Some((rq, Waits::Scheduler));
        }
        let waiting = hctx.dispatch.iter().copied().find(|rq| overlaps(rq));
        waiting.map(|rq| (rq, Waits::Dispatch))
    }

    /// A request that a latency-critical one overtakes although it is older and touches the same sectors.
    #[cfg(debug_assertions)]
    pub fn overtaken(&self, rq: u32) -> Option<u32> {
        let r = &self.requests[rq];
        // A FUA write passes by the scheduler, of whatever class.
        if !r.mergeable() || r.last == NONE || r.fua {
            return None;
        }
        let node = &self.nodes[r.last];
        if node.class.workload() != Workload::Latency {
            return None;
        }
        let home = self.disks[node.disk]
            .homes()
            .iter()
            .copied()
            .find(|&h| self.hctxs[h].core == self.hctxs[r.hctx].core)?;
        let hctx = &self.hctxs[home];
        let scheduled = self.disks[hctx.disk].queue.elevator.as_ref();
        let waits = |other: u32| {
            let o = &self.requests[other];
            let overlaps =
                o.offset < node.offset + u64::from(node.len) && node.offset < o.offset + o.bytes;
            other != rq && o.hctx == home && overlaps && o.made < r.made
        };
        let queued = hctx.software.iter().chain(&hctx.dispatch).copied().find(|&o| waits(o));
        queued.or_else(|| scheduled.and_then(|e| e.find(home, waits)))
    }

    fn take_out(&mut self, rq: u32, from: Waits) {
        let h = self.requests[rq].hctx;
        let hctx = &mut self.hctxs[h];
        match from {
            Waits::Software => hctx.software.retain(|&other| other != rq),
            Waits::Dispatch => hctx.dispatch.retain(|&other| other != rq),
            Waits::Scheduler => {
                if let Some(elevator) = &mut self.disks[hctx.disk].queue.elevator {
                    elevator.take_out(h, rq);
                }
            }
        }
    }

    /// Adds a bio to a request that it touches.
    pub fn join(&mut self, rq: u32, node: u32, side: Side) {
        let n = self.nodes[node];
        let r = &mut self.requests[rq];
        r.bytes += u64::from(n.len);
        r.class = r.class.best(n.class);
        if side == Side::Front {
            r.offset = n.offset;
        }
        self.append(rq, node, node);
    }
}

impl<S: Source> Host<S> {
    /// Chooses the hardware queue of the part at hand by its class, and whether it goes past merges and
    /// queues.
    #[inline]
    pub(crate) fn choose_queue(&mut self, t: u32, part: u32, opcode: Opcode) {
        if !self.block.tells_classes {
            return;
        }
        let node = &self.block.nodes[part];
        let (disk, critical) = (node.disk, node.class.workload() == Workload::Latency);
        let thread = &self.threads[t];
        let here = &self.block.disks[disk];
        if here.paths.client().is_some() || here.paths.has_ftl() {
            return;
        }
        let hctx = match critical {
            true => here.critical_queue(thread.core()),
            false if here.is_critical_queue(thread.hctx()) => thread.driver.home(),
            false => thread.hctx(),
        };
        let data = matches!(opcode, Opcode::Read | Opcode::Write);
        let thread = &mut self.threads[t];
        thread.go_by(hctx);
        thread.call.bypass = critical && data && self.stack.flashshare.bypass;
    }

    /// A latency-critical part, its look for hazards behind it.
    #[inline(never)]
    pub(crate) fn bypass(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        let (part, opcode, core) = (thread.call.part, thread.call.opcode, thread.core());
        debug_assert_eq!(thread.driver.home(), self.block.disks[thread.disk()].home(core));
        if thread.call.ordered && !thread.is_planned() {
            thread.plan_after(part, Layer::Block, Why::Overlap);
        }
        let (n, home) = (self.block.nodes[part], thread.driver.home());
        let (offset, len) = (n.offset, u64::from(n.len));
        let Some((rq, waits)) = self.block.hazard(home, (offset, len), NONE) else {
            #[cfg(debug_assertions)]
            {
                self.block.made += 1;
                self.threads[t].call.entered = self.block.made;
            }
            return self.go(t, Step::Place);
        };
        let r = self.block.requests[rq];
        let (begin, end) = (r.offset.min(offset), (r.offset + r.bytes).max(offset + len));
        let alike = r.opcode == opcode
            && end - begin <= self.block.disks[n.disk].queue.max_request
            && self.block.merge
            && !self.threads[t].call.ordered
            && !r.fua
            && !n.fua;
        if alike && self.block.hazard(home, (begin, end - begin), rq).is_none() {
            self.block.take_out(rq, waits);
            let r = &mut self.block.requests[rq];
            (r.offset, r.bytes) = (begin, end - begin);
            r.class = r.class.best(n.class).with_workload(Workload::Latency);
            self.block.append(rq, part, part);
            self.counters.hazards_merged += 1;
            return self.send_merged(ctx, t, rq);
        }
        self.counters.hazards_ordered += 1;
        let thread = &mut self.threads[t];
        thread.go_by(home);
        thread.call.ordered = true;
        if waits == Waits::Dispatch {
            #[cfg(debug_assertions)]
            {
                self.block.made += 1;
                self.threads[t].call.entered = self.block.made;
            }
            return self.follow(ctx, t, home);
        }
        self.block.take_out(rq, waits);
        if r.tag == NO_TAG && !self.block.get_driver_tag(rq) {
            self.block.hctxs[home].dispatch.push_back(rq);
            return self.go(t, Step::Bypass);
        }
        let work = self.driver_work(core, rq);
        let thread = &mut self.threads[t];
        thread.plan_issue(rq);
        thread.pend.driver += work;
        self.segment(ctx, t, Step::Bypass)
    }

    /// A request that a latency-critical bio has joined goes out, in the queue of such requests if that has
    /// a tag.
    fn send_merged(&mut self, ctx: &mut Ctx, t: u32, rq: u32) -> Flow {
        let (core, to) = (self.threads[t].core(), self.threads[t].hctx());
        let r = self.block.requests[rq];
        if to != r.hctx
            && let Some(tag) = self.block.hctxs[to].tags.pop()
        {
            self.block.hctxs[to].by_tag[usize::from(tag)] = rq;
            let moved = &mut self.block.requests[rq];
            (moved.hctx, moved.tag, moved.sched_tag) = (to, tag, false);
            if r.tag != NO_TAG {
                self.put_driver_tag(ctx, r.hctx, r.tag, core);
            }
            if r.sched_tag {
                self.put_sched_tag(ctx, r.hctx, core);
            }
        }
        if self.block.requests[rq].tag == NO_TAG && !self.block.get_driver_tag(rq) {
            self.block.hctxs[r.hctx].dispatch.push_front(rq);
            return self.after_part(ctx, t);
        }
        if self.block.requests[rq].looker == NONE {
            self.expect(t, rq);
        }
        let work = self.driver_work(core, rq);
        let thread = &mut self.threads[t];
        thread.plan_issue(rq);
        thread.pend.driver += work;
        self.segment(ctx, t, Step::Part)
    }

    /// The part waits for a tag behind what it must not overtake.
    pub(crate) fn follow(&mut self, ctx: &mut Ctx, t: u32, h: HctxId) -> Flow {
        let call = &self.threads[t].call;
        let (part, opcode) = (call.part, call.opcode);
        let (offset, len) = (self.block.nodes[part].offset, self.block.nodes[part].len);
        let rq = self.block.driver_request(part, opcode, offset, u64::from(len), h);
        #[cfg(debug_assertions)]
        {
            self.block.requests[rq].made = self.threads[t].call.entered;
        }
        self.block.hctxs[h].dispatch.push_back(rq);
        self.expect(t, rq);
        self.after_part(ctx, t)
    }

    // kblockd.

    /// blk_mq_attempt_merge: the part joins one of the newest requests of its own core. Its work is behind it: on
    /// another core the worker may send the request at once.
    pub(crate) fn software_merge(&mut self, t: u32) -> Option<Side> {
        let thread = &self.threads[t];
        let (part, opcode, core) = (thread.call.part, thread.call.opcode, thread.core());
        let n = &self.block.nodes[part];
        if !self.block.merge || n.fua || !matches!(opcode, Opcode::Read | Opcode::Write) {
            return None;
        }
        let (at, len) = (n.offset, u64::from(n.len));
        let max = self.block.disks[n.disk].queue.max_request;
        let fits = |&rq: &u32| {
            let r = &self.block.requests[rq];
            let from = self.threads[self.block.nodes[r.first].thread].core();
            let one = r.opcode == opcode && !r.fua && r.bytes + len <= max && from == core;
            one.then(|| touches(r.offset, r.bytes, at, len)).flatten().map(|side| (rq, side))
        };
        let waiting = &self.block.hctxs[thread.hctx()].software;
        let (rq, side) = waiting.iter().rev().take(CHECKED).find_map(fits)?;
        self.block.join(rq, part, side);
        Some(side)
    }

    /// A request goes into the software queue, and its hardware queue will be run.
    pub(crate) fn queue_software(&mut self, ctx: &mut Ctx, rq: u32, core: u32) {
        let h = self.block.requests[rq].hctx;
        self.block.stamp(rq);
        self.block.hctxs[h].software.push_back(rq);
        let on = self.block.hctxs[h].core;
        let worker = &mut self.block.kblockd[on];
        if !worker.queues.contains(&h) {
            worker.queues.push_back(h);
        }
        self.wake_kblockd(ctx, on, core);
    }
    /// blk_mq_kick_requeue_list: the worker of the core sends a request that has its tag.
    pub(crate) fn requeue(&mut self, ctx: &mut Ctx, rq: u32, core: u32) {
        self.block.kblockd[core].requeued.push_back(rq);
        self.wake_kblockd(ctx, core, core);
    }
    /// The worker of core `on` has something to do, from core `by`.
    fn wake_kblockd(&mut self, ctx: &mut Ctx, on: u32, by: u32) {
        let thread = self.block.kblockd[on].thread;
        if self.threads[thread].asleep() == Asleep::Actions {
            self.counters.kblockd_runs += 1;
            self.wake(ctx, thread, Some(by));
        }
    }

    /// The worker: requests that were put back, then all that waits for one hardware queue, then the next queue.
    #[inline(never)]
    pub(crate) fn kblockd(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let core = self.threads[t].core();
        let worker = &mut self.block.kblockd[core];
        let rq = if let Some(rq) = worker.requeued.pop_front() {
            rq
        } else if let Some(&h) = worker.queues.front() {
            let Some(rq) = self.block.hctxs[h].software.pop_front() else {
                worker.queues.pop_front();
                return Flow::Again;
            };
            rq
        } else {
            return self.sleep(ctx, t, Asleep::Actions);
        };
        let work = self.request_work(core, rq);
        let thread = &mut self.threads[t];
        thread.plan_issue(rq);
        thread.pend.driver += work;
        self.segment(ctx, t, Step::Kblockd)
    }

    /// Without a scheduler, requests wait in software queues.
    #[inline]
    pub(crate) fn is_queued(&self) -> bool {
        self.stack.flashshare.issue == Issue::Queued
    }

    // Completions of latency-critical requests.

    /// A request that thread `t` is about to send: whether it will look for the completion itself. The vector
    /// of a completion queue is masked as long as somebody looks for all that is in flight there.
    pub(crate) fn expect(&mut self, t: u32, rq: u32) {
        if !self.stack.flashshare.select_isr {
            return;
        }
        let r = &self.block.requests[rq];
        let (cq, last) = (self.block.hctxs[r.hctx].cq, r.last);
        let thread = &self.threads[t];
        let core = thread.core();
        let looks = thread.driver.looks_at(cq);
        if looks && (self.block.nodes[last].bio == NONE || thread.vfs.waits()) {
            self.block.requests[rq].looker = t;
            self.threads[t].driver.awaits_one();
        } else if self.block.hctxs[cq].maskable {
            self.block.hctxs[cq].sleepers += 1;
        }
        let hctx = &self.block.hctxs[cq];
        let masks = hctx.sleepers == 0;
        if hctx.maskable && masks != hctx.masked {
            self.threads[t].pend.driver += self.write_mask(cq, masks, core);
        }
    }

    /// A request went into another one: there is one completion to look for.
    pub(crate) fn expects_one(&mut self, rq: u32, gone: &Request) {
        let of = |h: HctxId| self.block.hctxs[h].cq;
        let r = self.block.requests[rq];
        let (gone_cq, cq) = (of(gone.hctx), of(r.hctx));
        if gone.looker == NONE {
            let hctx = &mut self.block.hctxs[gone_cq];
            hctx.sleepers -= u32::from(hctx.maskable);
        } else if r.looker == NONE && gone_cq == cq {
            self.block.requests[rq].looker = gone.looker;
            let hctx = &mut self.block.hctxs[cq];
            hctx.sleepers -= u32::from(hctx.maskable);
        } else {
            // The other one's looker finds it, or the interrupt.
            self.threads[gone.looker].driver.relieve();
        }
    }

    /// Masks or unmasks the vector of a completion queue; the processor's time for it.
    fn write_mask(&mut self, cq: HctxId, masked: bool, core: u32) -> u64 {
        let hctx = &mut self.block.hctxs[cq];
        hctx.masked = masked;
        let (disk, head) = (hctx.disk, hctx.reaped);
        self.counters.mask_writes += 1;
        let queue = cq - self.block.disks[disk].first();
        self.put_out(Output::Mask { disk, cq: queue, masked, head });
        spend!(self, core, RegisterWrite)
    }

    /// A request has its completion.
    #[inline]
    pub(crate) fn looked_for(&mut self, cq: HctxId, rq: u32) {
        let hctx = &mut self.block.hctxs[cq];
        hctx.reaped += 1;
        let looker = self.block.requests[rq].looker;
        if looker != NONE {
            self.block.requests[rq].looker = NONE;
            self.threads[looker].driver.relieve();
        } else if hctx.sleepers > 0 {
            hctx.sleepers -= 1;
        }
    }

    /// Thread `t` has looked for too long.
    pub(crate) fn give_up(&mut self, t: u32) {
        self.counters.give_ups += 1;
        self.leave_to_interrupt(t);
    }

    /// What thread `t` has in flight, and would look for, comes by interrupt.
    pub(crate) fn leave_to_interrupt(&mut self, t: u32) {
        let thread = &mut self.threads[t];
        let core = thread.core();
        let (awaited, cq) = thread.driver.looks_no_more();
        let of = |(rq, r): (u32, &Request)| (r.looker == t).then_some(rq);
        let mine: Vec<u32> = self.block.requests.records().filter_map(of).collect();
        for &rq in &mine {
            self.block.requests[rq].looker = NONE;
        }
        let mine = mine.len() as u32;
        debug_assert_eq!(mine, awaited);
        let hctx = &mut self.block.hctxs[cq];
        if hctx.maskable {
            hctx.sleepers += mine;
        }
        if hctx.masked {
            self.threads[t].pend.entry += self.write_mask(cq, false, core);
        }
    }
}
