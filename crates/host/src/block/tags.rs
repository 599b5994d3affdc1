//! Tags: waiting for one, and who gets one that is free; running a queue from elsewhere.
use crate::block::sched::Elevator;
use crate::block::{NONE, Purpose, Request};
use crate::driver::poll::Loop;
use crate::host::ELEVATOR;
use crate::host::Host;
use crate::source::Source;
use crate::tasks::core::Irq;
use crate::tasks::thread::{Asleep, Flow, Step};
use wordline_base::{Ctx, Kind, Layer, Time, Why};
use wordline_nvme::Opcode;

impl<S: Source> Host<S> {
    /// blk_mq_get_tag: sleep for a tag, if there is still none.
    pub(crate) fn tag_wait(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let kept = self.kept_from(t);
        let thread = &mut self.threads[t];
        let hctx = &mut self.block.hctxs[thread.hctx()];
        if self.block.disks[thread.disk()].queue.elevator.is_some() {
            if hctx.sched_free > kept {
                hctx.sched_free -= 1;
                return self.go(t, Step::Granted);
            }
        } else if let Some(tag) = hctx.tags.pop() {
            thread.call.grant(tag);
            return self.go(t, Step::Granted);
        }
        if thread.pend.total() > 0 {
            return self.segment(ctx, t, Step::TagWait);
        }
        if (!hctx.cqes.interrupts() || thread.driver.awaited() > 0) && !thread.pblk.has_work() {
            // Nobody else need look at this queue: io_uring is told EAGAIN and reaps first, and so
            // does everybody here.
            thread.plan_after(thread.call.part, Layer::Block, Why::Tag);
            return self.look(ctx, t, Loop::Kernel, Time::NEVER);
        }
        self.counters.tag_waits += 1;
        hctx.waiters.push_back(t);
        thread.set_step(Step::Granted);
        thread.plan_after(thread.call.part, Layer::Block, Why::Tag);
        if thread.pblk.has_work() {
            thread.plan_nothing();
            thread.set_step(Step::KernelIssue);
        }
        self.sleep(ctx, t, Asleep::Tag)
    }

    /// The tag is there: scheduler tag, hardware tag of a request, of a flush or of a flash read.
    pub(crate) fn granted(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        if thread.is_planned() || thread.pend.total() > 0 {
            return self.segment(ctx, t, Step::Granted);
        }
        let disk = &self.block.disks[thread.disk()];
        if disk.paths.has_ftl() && thread.call.opcode != Opcode::Flush {
            return self.go(t, Step::PblkRead);
        }
        let tag = thread.call.take_granted();
        if self.threads[t].call.opcode == Opcode::Flush {
            return self.issue_flush(ctx, t, tag);
        }
        self.place_request(ctx, t, tag)
    }

    /// A request is over: it is no more, and its tags are others'.
    #[inline(always)]
    pub(crate) fn request_ended(
        &mut self,
        ctx: &mut Ctx,
        (rq, r): (u32, &Request),
        held: Option<u32>,
        core: u32,
    ) {
        let d = self.block.hctxs[r.hctx].disk;
        if r.scheduled
            && !r.fua
            && let Some(elevator) = &mut self.block.disks[d].queue.elevator
        {
            elevator.completed(rq, r.issued, ctx.now, held);
        }
        self.block.requests.remove(rq);
        if r.purpose == Purpose::Flush {
            return self.flush_done(ctx, r.hctx, r.tag, core);
        }
        self.put_driver_tag(ctx, r.hctx, r.tag, core);
        if r.sched_tag {
            self.put_sched_tag(ctx, r.hctx, core);
        }
    }

    /// Hands a freed hardware tag to who waits for one, or puts it back.
    pub(crate) fn put_driver_tag(&mut self, ctx: &mut Ctx, h: u16, tag: u16, on: u32) {
        let hctx = &mut self.block.hctxs[h];
        hctx.by_tag[usize::from(tag)] = NONE;
        if let Some(rq) = hctx.repairs.pop_front() {
            hctx.by_tag[usize::from(tag)] = rq;
            self.block.requests[rq].tag = tag;
            return self.dispatch(ctx, on, rq);
        }
        let disk = hctx.disk;
        if self.block.disks[disk].queue.elevator.is_some() {
            hctx.tags.push(tag);
            // blk_mq_sched_restart.
            self.run_other_queue(ctx, h, on);
            self.after_completion(ctx, h);
        } else if let Some(t) = hctx.waiters.pop_front() {
            self.threads[t].call.grant(tag);
            self.wake(ctx, t, Some(on));
        } else {
            hctx.tags.push(tag);
            self.notice_tag(ctx, h);
        }
    }

    /// Scheduler tags that what a thread is sending leaves to others.
    pub(crate) fn kept_from(&self, t: u32) -> u32 {
        let thread = &self.threads[t];
        // pblk reads flash for no bio.
        let part = thread.call.part;
        let background = part != NONE && self.block.nodes[part].background;
        self.block.kept_back(thread.disk(), background)
    }

    /// Hands a freed scheduler tag to the first who waits and may have it, or puts it back.
    pub(crate) fn put_sched_tag(&mut self, ctx: &mut Ctx, h: u16, on: u32) {
        match self.next_for_sched_tag(h) {
            Some(t) => {
                debug_assert!(!self.threads[t].call.is_granted());
                self.wake(ctx, t, Some(on));
            }
            None => {
                self.block.hctxs[h].sched_free += 1;
                self.notice_tag(ctx, h);
            }
        }
    }
    /// Who gets a scheduler tag that is free now.
    pub(crate) fn next_for_sched_tag(&mut self, h: u16) -> Option<u32> {
        let free = self.block.hctxs[h].sched_free + 1;
        let takes = |&t: &u32| free > self.kept_from(t);
        let first = self.block.hctxs[h].waiters.iter().position(takes)?;
        self.block.hctxs[h].waiters.remove(first)
    }

    /// What a scheduler does beyond the queue of the request that completed: kyber's freed token may
    /// be for another queue (kyber_domain_wake), bfq may wait for its thread's next request.
    fn after_completion(&mut self, ctx: &mut Ctx, h: u16) {
        let disk = self.block.hctxs[h].disk;
        let d = disk;
        match &mut self.block.disks[d].queue.elevator {
            Some(Elevator::Kyber(_)) => {
                for other in self.block.disks[d].hctxs().filter(|&o| o != h) {
                    let waits = match &self.block.disks[d].queue.elevator {
                        Some(Elevator::Kyber(kyber)) => kyber.waits(other),
                        _ => false,
                    };
                    if waits {
                        let core = self.block.hctxs[other].core;
                        self.run_other_queue(ctx, other, core);
                    }
                }
            }
            Some(Elevator::Bfq(bfq)) => {
                let until = bfq.idle_until();
                self.arm_elevator(ctx, disk, until);
            }
            Some(Elevator::Luns(_)) => self.arm_luns(ctx, disk),
            _ => {}
        }
    }

    /// The scheduler by LUN looks again when it said, or at an earlier time that was set: that sets the next.
    pub(crate) fn arm_luns(&mut self, ctx: &mut Ctx, disk: u16) {
        let of = &self.block.disks[disk];
        let Some(Elevator::Luns(luns)) = &of.queue.elevator else { return };
        // The time may be over, where a queue had no tag to ask with.
        let until = luns.until().map(|until| until.max(ctx.now));
        let until = until.filter(|&until| until < of.queue.elevator_timer);
        self.arm_elevator(ctx, disk, until);
    }

    /// The scheduler looks again then, if nothing happens before.
    pub(crate) fn arm_elevator(&mut self, ctx: &mut Ctx, disk: u16, until: Option<Time>) {
        if let Some(until) = until
            && until != self.block.disks[disk].queue.elevator_timer
        {
            self.block.disks[disk].queue.elevator_timer = until;
            ctx.at(until, Kind::HostTimer, ELEVATOR | u32::from(disk));
        }
    }

    /// A request that held up goes out after all.
    pub(crate) fn dispatch(&mut self, ctx: &mut Ctx, core: u32, rq: u32) {
        if let Some(end) = self.client_of(self.block.requests[rq].hctx) {
            return self.queue_nbd(ctx, end, rq, core);
        }
        if self.block.requests[rq].purpose == Purpose::Flush {
            return self.requeue(ctx, rq, core);
        }
        self.raise(ctx, core, Irq::Dispatch(rq));
    }

    /// blk_mq_run_hw_queue on a core.
    fn run_other_queue(&mut self, ctx: &mut Ctx, h: u16, core: u32) {
        while let Some(rq) = self.block.next_dispatch(h, ctx.now) {
            self.dispatch(ctx, core, rq);
            if self.client_of(h).is_some() {
                // kblockd looks for the rest.
                return;
            }
        }
    }

    /// The scheduler asked to be looked at.
    pub(crate) fn elevator_timer(&mut self, ctx: &mut Ctx, disk: u16) {
        let disk = &mut self.block.disks[disk];
        if let Some(Elevator::Bfq(bfq)) = &mut disk.queue.elevator
            && bfq.on_timer(ctx.now)
        {
            for h in disk.hctxs() {
                let core = self.block.hctxs[h].core;
                self.run_other_queue(ctx, h, core);
                // No handler ends that would look for the worker that was woken.
                if self.client_of(h).is_some() {
                    self.schedule(ctx, core);
                }
            }
        } else if let Some(Elevator::Luns(luns)) = &mut disk.queue.elevator {
            // An earlier one took the place of others.
            if disk.queue.elevator_timer != ctx.now {
                return;
            }
            disk.queue.elevator_timer = Time::NEVER;
            // A queue that has requests without a tag does not ask the scheduler: a tag does that then.
            luns.looks();
            let (first, queues) = (disk.first(), disk.hctxs());
            for h in queues {
                let core = self.block.hctxs[h].core;
                self.run_other_queue(ctx, h, core);
            }
            self.after_completion(ctx, first);
        }
    }

    /// Pollers that look for a tag.
    #[inline]
    fn notice_tag(&mut self, ctx: &mut Ctx, h: u16) {
        if !self.block.hctxs[h].cqes.pollers().is_empty() {
            self.notice_pollers(ctx, h);
        }
    }
    fn notice_pollers(&mut self, ctx: &mut Ctx, h: u16) {
        for i in 0..self.block.hctxs[h].cqes.pollers().len() {
            let t = self.block.hctxs[h].cqes.pollers()[i];
            if self.threads[t].driver.looks_for_tag() {
                self.notice(ctx, t);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::*;
    use crate::*;
    use wordline_base::Ddir;

    /// What nobody waits for does not get the last quarter of them, however long it waits; what comes behind it does.
    #[test]
    fn a_free_scheduler_tag_goes_to_the_first_who_may_have_it() {
        let mut config = stack(1);
        (config.scheduler, config.scheduler_tags) = (Scheduler::Kyber, 8);
        let jobs = (0..3).map(|_| (spec(Engine::Pvsync2, 1), list(Vec::new()))).collect();
        let mut host = Host::<List>::new(&config, jobs, vec![DiskSpec::new(drive())]).unwrap();
        let h = host.block.disks[0].first();
        for t in 0..3 {
            let node = host.new_node(t, Ddir::Write, (0, 0), 4096);
            host.block.nodes[node].background = t < 2;
            host.threads[t].call.part = node;
            host.block.hctxs[h].waiters.push_back(t);
        }
        let mut gets = |free| {
            host.block.hctxs[h].sched_free = free;
            host.next_for_sched_tag(h)
        };
        assert_eq!(
            [gets(1), gets(1), gets(2), gets(1), gets(2)],
            [Some(2), None, Some(0), None, Some(1)]
        );
    }
}
