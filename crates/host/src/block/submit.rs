//! A bio's way to a request and to the driver: splits, plug, merges, scheduler (blk_mq_make_request).
use crate::block::sched::{Ask, Dir, Elevator, Merge};
use crate::block::{BIO_BYTES, NO_TAG, NONE, PLUG_BYTES, PLUG_REQUESTS, Side};
use crate::function::{Function, spend};
use crate::host::Host;
use crate::source::Source;
use crate::tasks::thread::{Flow, Step};
use wordline_base::{Ctx, Ddir, Layer, Span, Why};
use wordline_nvme::Opcode;

impl<S: Source> Host<S> {
    /// The submission call takes up the next I/O.
    pub(crate) fn next_io(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        let planned = thread.is_planned();
        let at = thread.disk();
        let call = &mut thread.call;
        let next = if call.aio {
            thread.engine.batch().get(call.index).copied()
        } else {
            (call.index == 0).then_some(call.single)
        };
        let Some(node) = next else {
            if call.plug.is_empty() {
                return self.go(t, Step::CallEnd);
            }
            call.resume = Step::CallEnd;
            return self.go(t, Step::Plug);
        };
        if planned {
            return self.segment(ctx, t, Step::NextIo);
        }
        let disk = self.block.nodes[node].disk;
        let moves = disk != at && !self.block.disks[disk].paths.is_array();
        // What a plug holds is of one disk.
        if (moves || call.plugs_each) && !call.plug.is_empty() {
            call.resume = Step::NextIo;
            return self.go(t, Step::Plug);
        }
        if moves {
            self.turn_to(t, disk);
            let thread = &mut self.threads[t];
            thread.go_by(thread.driver.queue());
        }
        let thread = &mut self.threads[t];
        let call = &mut thread.call;
        call.index += 1;
        (call.node, call.part, call.at) = (node, node, 0);
        thread.pend.entry += spend!(self, thread.core(), Syscall);
        thread.plan_for(node);
        if thread.engine.is_submitter() {
            thread.plan_waited(Layer::Syscall, Why::Polling);
        }
        let n = self.block.nodes[node];
        thread.call.len = u64::from(n.len);
        if !self.valid(disk, n.ddir, n.offset, n.len) {
            // Time must pass, or a job that goes on after errors never ends.
            let thread = &mut self.threads[t];
            if thread.pend.total() == 0 {
                thread.pend.entry = 1;
            }
            return self.segment(ctx, t, Step::Refused);
        }
        let thread = &mut self.threads[t];
        thread.call.opcode = match n.ddir {
            Ddir::Read => Opcode::Read,
            Ddir::Write => Opcode::Write,
            Ddir::Trim => Opcode::Deallocate,
            Ddir::Sync | Ddir::DataSync => Opcode::Flush,
        };
        match n.ddir {
            Ddir::Sync | Ddir::DataSync if thread.call.is_batch() => {
                return self.leave_sync(ctx, t);
            }
            Ddir::Sync | Ddir::DataSync => return self.flush_bio(ctx, t),
            Ddir::Trim => thread.call.divided = false,
            Ddir::Read | Ddir::Write => {
                let parts = self.parts(disk, n.len);
                self.threads[t].call.divided = parts > 1;
                if parts > 1 {
                    self.block.nodes[node].divide(parts);
                    self.counters.splits += 1;
                }
            }
        }
        self.go(t, Step::Part)
    }

    /// generic_make_request of the next part of the current I/O.
    pub(crate) fn part(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        let planned = thread.is_planned();
        let core = thread.core();
        let call = &mut thread.call;
        let (at, len) = (call.at, call.len);
        if at >= len {
            let over = call.over;
            return self.go(t, over);
        }
        let n = self.block.nodes[call.node];
        if at > 0 && planned {
            return self.segment(ctx, t, Step::Part);
        }
        let (opcode, divided, plugged) = (call.opcode, call.divided, call.plugged);
        let member = call.is_member();
        let trim = opcode == Opcode::Deallocate;
        let part_len = if trim {
            thread.pend.block += spend!(self, core, Bio);
            len
        } else {
            let bio_at = at % BIO_BYTES;
            let bio_len = (len - (at - bio_at)).min(BIO_BYTES);
            if bio_at == 0 && !member {
                let pages = bio_len.div_ceil(4096);
                thread.pend.block += spend!(self, core, Bio, BioPage * (pages - 1));
            }
            self.block.disks[n.disk].queue.max_request.min(bio_len - bio_at)
        };
        let mut part = call.node;
        call.at += part_len;
        if divided {
            part = self.child(part, n.offset + at, part_len as u32);
        }
        let thread = &mut self.threads[t];
        thread.call.part = part;
        thread.plan_on(part);
        if at > 0 {
            // Behind the parts before it.
            thread.plan_waited(Layer::Block, Why::Plugged);
        }
        let disk = &self.block.disks[n.disk];
        if disk.paths.is_bio_based() {
            if disk.paths.is_array() {
                return self.md_bio(ctx, t, part);
            }
            if disk.paths.schedules_bios() {
                let thread = &mut self.threads[t];
                thread.pend.block += spend!(self, thread.core(), Scheduler);
                return self.segment(ctx, t, Step::Admit);
            }
            return self.pblk_bio(ctx, t, part);
        }
        // generic_make_request_checks.
        let fua = n.fua && disk.info().volatile_cache;
        self.block.nodes[part].fua = fua;
        let (scheduled, client) = (disk.queue.elevator.is_some(), disk.paths.client().is_some());
        self.choose_queue(t, part, opcode);
        let queued = self.is_queued() && !scheduled && !trim;
        let thread = &mut self.threads[t];
        if thread.call.bypass {
            thread.call.ordered = false;
            let (core, home) = (thread.core(), thread.driver.home());
            let work = match self.accelerates(n.class) {
                true => spend!(self, core, RegisterWrite),
                false => spend!(self, core, Bypass, Hazard),
            };
            self.threads[t].pend.block += work;
            return match self.block.is_empty(home) {
                true => self.go(t, Step::Bypass),
                // Others may send what it becomes part of: its own work is behind it then.
                false => self.segment(ctx, t, Step::Bypass),
            };
        }
        let core = thread.core();
        let work = match self.accelerates(n.class) {
            true => spend!(self, core, RegisterWrite),
            false => spend!(self, core, Block),
        };
        let thread = &mut self.threads[t];
        thread.pend.block += work;
        if scheduled && !fua {
            let core = thread.core();
            let work = match &self.block.disks[n.disk].queue.elevator {
                Some(Elevator::Bfq(_)) => spend!(self, core, Bfq),
                _ => spend!(self, core, Scheduler),
            };
            let thread = &mut self.threads[t];
            thread.pend.block += work;
            thread.call.in_scheduler = work;
            if let Some(Elevator::Luns(luns)) = &self.block.disks[n.disk].queue.elevator {
                // Looked up now, and noted by the handler of its completion.
                thread.pend.ftl += 2 * luns.look_up_cost().0;
            }
        }
        if plugged && !trim && !fua && self.block.merge {
            let plug = &self.threads[t].call.plug;
            let side = self.block.plug_merge(plug, opcode, part, n.offset + at, part_len);
            if self.has_merged(side) {
                return self.after_part(ctx, t);
            }
        }
        if scheduled {
            return self.segment(ctx, t, Step::Elevate);
        }
        if client || queued {
            // Another thread takes it from where it is put.
            return self.segment(ctx, t, Step::Place);
        }
        self.place(ctx, t)
    }

    /// The part is in a request that stays in the plug: on to the next, in a segment of its own so
    /// that each part's work ends where it ends.
    pub(crate) fn after_part(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &self.threads[t];
        let more = thread.call.at < thread.call.len;
        let over = thread.call.over;
        if more { self.segment(ctx, t, Step::Part) } else { self.go(t, over) }
    }

    fn has_merged(&mut self, side: Option<Side>) -> bool {
        match side {
            Some(Side::Back) => self.counters.back_merges += 1,
            Some(Side::Front) => self.counters.front_merges += 1,
            None => {}
        }
        side.is_some()
    }

    /// Allocates a request with its hardware tag and puts it where it belongs.
    pub(crate) fn place(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let bypass = self.threads[t].call.bypass;
        let fua = self.block.nodes[self.threads[t].call.part].fua;
        if self.is_queued() && !bypass {
            let side = self.software_merge(t);
            if self.has_merged(side) {
                return self.after_part(ctx, t);
            }
        }
        if !bypass && !fua && self.plug_is_full(t) {
            return self.unplug_then(t, Step::Place);
        }
        let thread = &self.threads[t];
        let h = thread.hctx();
        let hctx = &mut self.block.hctxs[h];
        match hctx.tags.pop() {
            Some(tag) => self.place_request(ctx, t, tag),
            // Tags that come free are for what waits without one (blk_mq_request_bypass_insert).
            None if bypass && self.block.disks[thread.disk()].queue.elevator.is_some() => {
                if self.threads[t].pend.total() > 0 {
                    // Then it looks again: others may have come.
                    return self.segment(ctx, t, Step::Bypass);
                }
                self.follow(ctx, t, h)
            }
            None if !thread.call.plug.is_empty() => self.unplug_then(t, Step::Place),
            None => self.segment(ctx, t, Step::TagWait),
        }
    }

    fn plug_is_full(&self, t: u32) -> bool {
        let call = &self.threads[t].call;
        if !self.has_one_queue(t) || !call.plugged {
            return false;
        }
        let last = call.plug.last().map_or(0, |&rq| self.block.requests[rq].bytes);
        call.plug.len() >= PLUG_REQUESTS || last >= PLUG_BYTES
    }

    /// The disk at hand has a single hardware queue.
    fn has_one_queue(&self, t: u32) -> bool {
        let disk = self.threads[t].disk();
        self.block.disks[disk].has_one_queue()
    }

    fn unplug_then(&mut self, t: u32, resume: Step) -> Flow {
        self.threads[t].call.resume = resume;
        self.go(t, Step::Plug)
    }

    /// blk_mq_make_request from the point where the request exists.
    pub(crate) fn place_request(&mut self, ctx: &mut Ctx, t: u32, tag: u16) -> Flow {
        let one_queue = self.has_one_queue(t);
        let thread = &mut self.threads[t];
        let call = &mut thread.call;
        let part = self.block.nodes[call.part];
        let bytes = u64::from(part.len);
        let rq = self.block.request(call.part, call.opcode, part.offset, bytes, thread.hctx(), tag);
        self.expect(t, rq);
        let call = &mut self.threads[t].call;
        if call.bypass {
            #[cfg(debug_assertions)]
            {
                self.block.requests[rq].made = call.entered;
            }
            self.counters.bypassed += 1;
            let home = self.threads[t].driver.home();
            self.counters.overtakes += u64::from(!self.block.is_empty(home));
            return self.send(ctx, t, rq, Step::Part);
        }
        if part.fua {
            return self.send(ctx, t, rq, Step::Part);
        }
        if call.plugged && one_queue {
            call.plug.push(rq);
            return self.after_part(ctx, t);
        }
        if call.plugged && self.block.merge {
            // Limited plugging: the one that was there goes out, this one stays.
            let earlier = call.plug.pop();
            call.plug.push(rq);
            return match earlier {
                Some(earlier) => self.send(ctx, t, earlier, Step::Part),
                None => self.after_part(ctx, t),
            };
        }
        self.send(ctx, t, rq, Step::Part)
    }

    /// Sends a request to the scheduler or, without one, to the driver.
    fn send(&mut self, ctx: &mut Ctx, t: u32, rq: u32, then: Step) -> Flow {
        let thread = &mut self.threads[t];
        let disk = &self.block.disks[thread.disk()];
        let client = disk.paths.client();
        let mut then = then;
        let scheduled = disk.queue.elevator.is_some() && !thread.call.bypass;
        if scheduled {
            thread.call.after_run = then;
            then = Step::RunQueue;
            if !self.block.requests[rq].fua {
                self.block.insert_scheduler(rq, ctx.now);
                return self.go(t, then);
            }
            // blk_mq_sched_insert_flush: no scheduler sees it.
            if !self.block.get_driver_tag(rq) {
                // Linux lets it wait for a tag on the requeue list.
                let h = self.block.requests[rq].hctx;
                self.block.hctxs[h].dispatch.push_back(rq);
                return self.after_part(ctx, t);
            }
        }
        if let Some(end) = client {
            let core = self.threads[t].core();
            self.queue_nbd(ctx, end, rq, core);
            return self.go(t, then);
        }
        let thread = &mut self.threads[t];
        let (core, bypass) = (thread.core(), thread.call.bypass);
        if self.is_queued() && !bypass && !scheduled && self.block.requests[rq].mergeable() {
            self.queue_software(ctx, rq, core);
            return self.go(t, then);
        }
        let work = self.driver_work(core, rq);
        let thread = &mut self.threads[t];
        thread.plan_issue(rq);
        thread.pend.driver += work;
        self.segment(ctx, t, then)
    }

    /// blk_flush_plug_list: by position, one after the other.
    pub(crate) fn unplug(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        let disk = thread.disk();
        let call = &mut thread.call;
        if call.plug.is_empty() {
            call.flushing = false;
            let resume = call.resume;
            return self.go(t, resume);
        }
        if self.block.disks[disk].queue.elevator.is_some() {
            if thread.pend.total() > 0 {
                return self.segment(ctx, t, Step::Plug);
            }
            self.counters.plug_flushes += 1;
            let mut plug = std::mem::take(&mut thread.call.plug);
            plug.sort_unstable_by_key(|&rq| self.block.requests[rq].offset);
            for rq in plug.drain(..) {
                self.block.insert_scheduler(rq, ctx.now);
            }
            let call = &mut self.threads[t].call;
            call.plug = plug;
            call.after_run = call.resume;
            return self.go(t, Step::RunQueue);
        }
        if !call.flushing {
            call.flushing = true;
            self.counters.plug_flushes += 1;
            let requests = &self.block.requests;
            call.plug.sort_by_key(|&rq| requests[rq].offset);
        }
        let rq = call.plug.remove(0);
        self.send(ctx, t, rq, Step::Plug)
    }

    /// A bio meets the scheduler, its work there behind it: others may have had the lock meanwhile.
    pub(crate) fn elevate(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        let (part, core) = (thread.call.part, thread.core());
        let held = std::mem::take(&mut thread.call.in_scheduler);
        let sees = held > 0 && !self.block.nodes[part].fua;
        let queue = &mut self.block.disks[thread.disk()].queue;
        let waits = if sees { queue.lock(ctx.now, core, held) } else { Span::ZERO };
        if waits == Span::ZERO {
            return self.go(t, Step::Elevated);
        }
        thread.pend.lead += waits.0;
        thread.plan_after(part, Layer::Block, Why::SchedulerLock);
        self.cores[core].charge(Function::SchedulerLock, waits.0);
        self.segment(ctx, t, Step::Elevated)
    }

    /// The scheduler has the bio: merge, or a request of its own (dd_bio_merge,
    /// blk_mq_get_request).
    pub(crate) fn elevated(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let fua = self.block.nodes[self.threads[t].call.part].fua;
        if self.block.merge && !fua && self.scheduler_merge(ctx, t) {
            return self.go(t, Step::Part);
        }
        if !fua && self.plug_is_full(t) {
            return self.unplug_then(t, Step::Elevated);
        }
        let kept = self.kept_from(t);
        let thread = &self.threads[t];
        let hctx = &mut self.block.hctxs[thread.hctx()];
        if hctx.sched_free > kept {
            hctx.sched_free -= 1;
            return self.place_request(ctx, t, NO_TAG);
        }
        if !thread.call.plug.is_empty() {
            return self.unplug_then(t, Step::Elevated);
        }
        self.go(t, Step::TagWait)
    }

    fn scheduler_merge(&mut self, ctx: &mut Ctx, t: u32) -> bool {
        let call = &self.threads[t].call;
        let (part, opcode) = (call.part, call.opcode);
        let node = self.block.nodes[part];
        let disk = &mut self.block.disks[node.disk];
        let max = disk.queue.max_request;
        let dir = match opcode {
            Opcode::Read => Dir::Read,
            Opcode::Write => Dir::Write,
            _ => return false,
        };
        let bytes = u64::from(node.len);
        let ask = Ask {
            rq: NONE,
            hctx: self.threads[t].hctx(),
            thread: node.thread,
            dir,
            start: node.offset,
            bytes,
            mergeable: true,
            data: true,
            sync: !node.background,
        };
        let Some(elevator) = &mut disk.queue.elevator else { return false };
        let Some(merge) = elevator.find_merge(&ask, max) else { return false };
        let gone = elevator.merged(merge, bytes, max);
        let rq = match merge {
            Merge::Back(rq) => {
                self.counters.back_merges += 1;
                rq
            }
            Merge::Front(rq) => {
                self.counters.front_merges += 1;
                self.block.requests[rq].offset = node.offset;
                rq
            }
        };
        let r = &mut self.block.requests[rq];
        r.bytes += bytes;
        r.class = r.class.best(node.class);
        self.block.append(rq, part, part);
        if let Some(other) = gone {
            self.counters.request_merges += 1;
            let o = self.block.requests[other];
            let r = &mut self.block.requests[rq];
            r.bytes += o.bytes;
            r.offset = r.offset.min(o.offset);
            r.class = r.class.best(o.class);
            self.block.append(rq, o.first, o.last);
            self.block.requests[other].looker = NONE;
            self.block.requests.remove(other);
            self.expects_one(rq, &o);
            let core = self.threads[t].core();
            self.put_sched_tag(ctx, o.hctx, core);
        }
        true
    }

    /// blk_mq_run_hw_queue, by the submitter.
    pub(crate) fn run_queue(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &self.threads[t];
        if let Some(end) = self.block.disks[thread.disk()].paths.client() {
            let (core, then) = (thread.core(), thread.call.after_run);
            self.run_nbd(ctx, end, core);
            return self.go(t, then);
        }
        let thread = &mut self.threads[t];
        match self.block.next_dispatch(thread.hctx(), ctx.now) {
            Some(rq) => {
                thread.plan_issue(rq);
                let core = thread.core();
                let work = self.request_work(core, rq);
                self.threads[t].pend.driver += work;
                self.segment(ctx, t, Step::RunQueue)
            }
            None => {
                let (then, d) = (thread.call.after_run, thread.disk());
                self.arm_luns(ctx, d);
                self.go(t, then)
            }
        }
    }
}
