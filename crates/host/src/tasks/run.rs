//! A thread that has its core: its steps, and the segments of processor time between them.
use crate::block::{NONE, Purpose};
use crate::function::Function;
use crate::host::Host;
use crate::source::Source;
use crate::tasks::core::{Mode, Segment};
use crate::tasks::thread::{Asleep, Flow, NO_PLAN, Step};
use wordline_base::{Ctx, IoId, Kind, Layer, Life, Span, Time, Why};

impl<S: Source> Host<S> {
    /// Runs a thread that holds its core up to its next segment or sleep.
    pub(crate) fn run(&mut self, ctx: &mut Ctx, t: u32) {
        while self.step(ctx, t) == Flow::Again {}
    }

    /// Steps that few runs take are functions of their own: inlined they would lie between those of all runs.
    #[inline(always)]
    fn step(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        match self.threads[t].step {
            Step::Top => self.top(ctx, t),
            Step::Queued { busy } => self.queued(t, busy),
            Step::NextIo => self.next_io(ctx, t),
            Step::Part => self.part(ctx, t),
            Step::Place => self.place(ctx, t),
            Step::Elevate => self.elevate(ctx, t),
            Step::Elevated => self.elevated(ctx, t),
            Step::TagWait => self.tag_wait(ctx, t),
            Step::Granted => self.granted(ctx, t),
            Step::Plug => self.unplug(ctx, t),
            Step::RunQueue => self.run_queue(ctx, t),
            Step::Bypass => self.bypass(ctx, t),
            Step::Kblockd => self.kblockd(ctx, t),
            Step::Refused => {
                let node = self.threads[t].call.node();
                self.go(t, Step::NextIo);
                let core = self.threads[t].core;
                self.node_done(ctx, node, false, Some(core));
                Flow::Again
            }
            Step::Flush => self.flush(ctx, t),
            Step::Admit => self.admit(ctx, t),
            Step::PblkRead => self.pblk_read(ctx, t),
            Step::PblkWrite => self.pblk_write(ctx, t),
            Step::PblkLookUp => self.pblk_look_up(ctx, t),
            Step::PblkUnlock => self.pblk_unlock(ctx, t),
            Step::CallEnd => self.call_end(ctx, t),
            Step::SyncWait => self.sync_wait(ctx, t),
            Step::SyncReturn => {
                let thread = &self.threads[t];
                let (node, (wake, work)) = (thread.call.single(), thread.done);
                self.finish_io(ctx, node, wake, work);
                let after = self.threads[t].call.after();
                self.go(t, after)
            }
            Step::NullDone => {
                let node = self.threads[t].call.single();
                let n = &mut self.block.nodes[node];
                (n.issued, n.submitted) = (ctx.now, ctx.now);
                n.life = ctx.lives.begin(t, n.ddir, n.offset, n.len, ctx.now);
                self.finish_io(ctx, node, 0, 0);
                self.go(t, Step::Top)
            }
            Step::Getevents => self.getevents(ctx, t),
            Step::Looked => self.looked(ctx, t),
            Step::HybridSleep => self.hybrid_sleep(ctx, t),
            Step::SpdkSubmit => self.spdk_submit(ctx, t),
            Step::HandOver => self.handed_over(ctx, t),
            Step::SqLoop => self.sq_loop(ctx, t),
            Step::Reap(n) => self.reap_events(ctx, t, n),
            Step::Collect => self.collect(ctx, t),
            Step::Collected => self.collected(ctx, t),
            Step::Vfs => self.vfs_step(ctx, t),
            Step::Nbd(at) => self.nbd_step(ctx, t, at),
            Step::MdMap => self.md_map(ctx, t),
            Step::MdNext => self.md_next(ctx, t),
            Step::MdAdd => self.md_add(ctx, t),
            Step::Md => self.md_thread(ctx, t),
            Step::MdIssue => self.md_issue(ctx, t),
            Step::MdSync => self.md_sync(ctx, t),
            Step::Kernel => self.kernel_next(ctx, t),
            Step::KernelIssue => self.kernel_issue(ctx, t),
            Step::Collector => self.collector_next(ctx, t),
            Step::CollectorOrder => self.collector_order(ctx, t),
            Step::NextMerge => self.next_merge(ctx, t),
            Step::NextBio => self.next_bio(ctx, t),
            Step::Kworker => self.kworker(ctx, t),
            Step::Worked => self.worked(ctx, t),
            Step::LeaveSync => self.sync_left(ctx, t),
            Step::Work => self.work(ctx, t),
            Step::SyncSent => self.sync_sent(ctx, t),
            Step::SyncOver => self.sync_over(ctx, t),
        }
    }

    #[inline]
    pub(crate) fn go(&mut self, t: u32, step: Step) -> Flow {
        self.threads[t].step = step;
        Flow::Again
    }

    /// Spends the pending processor time; its end runs the plan, and then `step`.
    #[inline]
    pub(crate) fn segment(&mut self, ctx: &mut Ctx, t: u32, step: Step) -> Flow {
        let thread = &mut self.threads[t];
        thread.step = step;
        let total = thread.pend.total();
        if total == 0 {
            self.run_plan(ctx, t, ctx.now);
            return Flow::Again;
        }
        let user = thread.pend.user + thread.pend.library;
        let core = &mut self.cores[thread.core];
        let begin = if core.irqs.is_empty() { ctx.now } else { core.irq_end };
        core.segment = Some(Segment {
            thread: t,
            begin,
            split: begin + Span(thread.pend.lead + thread.pend.user),
            end: begin + Span(total),
            user,
            system: total - user,
            spun: 0,
            mode: Mode::Kernel,
            halted: false,
            spin: None,
        });
        Flow::Off
    }

    /// The end of a segment: who spent what until when, and the request it sent.
    #[inline]
    pub(crate) fn run_plan(&mut self, ctx: &mut Ctx, t: u32, split: Time) {
        let thread = &mut self.threads[t];
        let plan = std::mem::replace(&mut thread.plan, NO_PLAN);
        let pend = std::mem::take(&mut thread.pend);
        let core = thread.core;
        thread.done = (pend.lead, pend.library + pend.entry);
        if pend.ftl > 0 {
            let (map, f) = thread.pblk.spent();
            let core = &mut self.cores[core];
            core.charge(Function::FtlMap, map);
            core.charge(f, pend.ftl - map);
        }
        if thread.call.takes_off() {
            if thread.call.is_batch() {
                // The application prepared them one after the other, up to the call.
                let mut at = split;
                for &n in thread.engine.batch().iter().rev() {
                    let node = &mut self.block.nodes[n];
                    node.issued = at;
                    at = Time(at.0.saturating_sub(node.prepared));
                }
            } else {
                self.block.nodes[thread.call.single()].issued = split;
            }
        }
        let driver = Time(ctx.now.0.saturating_sub(pend.driver));
        if plan.node != NONE {
            let ftl = Time(driver.0.saturating_sub(pend.ftl));
            let block = Time(ftl.0.saturating_sub(pend.block));
            let entry = Time(block.0.saturating_sub(pend.library + pend.entry));
            let node = self.block.nodes[plan.node];
            let mut life = node.life;
            if node.parent != NONE {
                let root = self.begin_life(ctx, node.parent);
                if pend.library + pend.entry > 0 {
                    let (layer, why) = NO_PLAN.waited;
                    ctx.mark(root, layer, why, core, entry);
                    ctx.mark(root, Layer::Syscall, Why::Work, core, block);
                }
                if life == IoId::NONE {
                    let begin = ctx.lives.get(root).end;
                    life = ctx.lives.begin(node.thread, node.ddir, node.offset, node.len, begin);
                    self.block.nodes[plan.node].life = life;
                }
            } else if life == IoId::NONE {
                life = self.begin_life(ctx, plan.node);
            }
            let ((layer, why), now) = (plan.waited, ctx.now);
            let spend = |life: &mut Life| {
                life.mark(layer, why, core, entry);
                life.mark(Layer::Syscall, Why::Work, core, block);
                life.mark(Layer::Block, Why::Work, core, ftl);
                life.mark(Layer::Ftl, Why::Work, core, driver);
            };
            if let Some(life) = ctx.lives.of(life) {
                spend(life);
                if plan.issue == NONE {
                    life.mark(Layer::Driver, Why::Doorbell, core, now);
                }
            }
            // What a call on a file does for its bio is its own time, whichever of its bios comes back last.
            if node.bio != NONE {
                let call = self.life_of_call(ctx, t);
                if let Some(life) = ctx.lives.of(call) {
                    spend(life);
                    life.mark(Layer::Driver, Why::Doorbell, core, now);
                }
            }
        }
        if plan.issue != NONE {
            if pend.lead > 0 && self.threads[t].step == Step::Kblockd {
                let woken = Time(driver.0.saturating_sub(pend.lead));
                // A request that was put back waits in no queue, but for its worker's core.
                let why = match self.block.requests[plan.issue].purpose {
                    Purpose::Flush => Why::CoreBusy,
                    _ => Why::Plugged,
                };
                self.mark_request(ctx, plan.issue, Layer::Block, why, core, woken);
                self.mark_request(ctx, plan.issue, Layer::Block, Why::WakeUp, core, driver);
            }
            self.mark_request(ctx, plan.issue, Layer::Block, Why::Plugged, core, driver);
            self.issue(ctx, plan.issue, core);
        }
    }

    /// Sleeps, once the processor time still owed is spent.
    pub(crate) fn sleep(&mut self, ctx: &mut Ctx, t: u32, asleep: Asleep) -> Flow {
        let thread = &mut self.threads[t];
        if thread.pend.total() > 0 {
            let step = thread.step;
            return self.segment(ctx, t, step);
        }
        thread.asleep = asleep;
        thread.stats.voluntary_switches += 1;
        self.cores[thread.core].current = None;
        if asleep == Asleep::Done {
            self.ended(ctx, t);
        }
        Flow::Off
    }

    /// Sleeps until this time, or until it is woken.
    pub(crate) fn sleep_until(&mut self, ctx: &mut Ctx, t: u32, at: Time) -> Flow {
        let thread = &mut self.threads[t];
        if thread.pend.total() == 0 {
            thread.asks_for(at);
            if thread.set_timer(at) {
                ctx.at(at, Kind::AppWake, t);
            }
        }
        self.sleep(ctx, t, Asleep::Timer)
    }
}
