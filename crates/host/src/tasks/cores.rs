//! Cores hand out work: interrupts before threads, threads in CFS's order.
use crate::function::spend;
use crate::host::Host;
use crate::source::Source;
use crate::tasks::core::Irq;
use crate::tasks::thread::Asleep;
use wordline_base::track::Track;
use wordline_base::{Ctx, IoId, Kind, Layer, Span, Time, Why};

impl<S: Source> Host<S> {
    /// Puts an event at the end of the work at hand, unless one is pending that early.
    #[inline]
    pub(crate) fn arm(&mut self, ctx: &mut Ctx, core: u32) {
        let c = &mut self.cores[core];
        // A loop whose thread has had its slice ends when another one is ready.
        let due = c.due().max(ctx.now);
        if due < c.armed {
            c.armed = due;
            ctx.at(due, Kind::CoreDone, core);
        }
    }

    /// The work at hand of a core is over, or was moved on.
    pub(crate) fn core_done(&mut self, ctx: &mut Ctx, core: u32) {
        let c = &mut self.cores[core];
        if c.armed == ctx.now {
            c.armed = Time::NEVER;
        }
        if c.due() > ctx.now {
            // An interrupt moved the end of the segment.
            return self.arm(ctx, core);
        }
        if !c.irqs.is_empty() {
            self.finish_irq(ctx, core);
        }
        let c = &mut self.cores[core];
        if c.irqs.is_empty()
            && let Some(segment) = &c.segment
            && segment.end == Time::NEVER
            && c.due() <= ctx.now
        {
            let (t, turn) = (segment.thread, c.wanted(ctx.now));
            let one = segment.spin.is_some_and(|spin| spin.until <= spin.first);
            self.threads[t].driver.interrupt(turn);
            // One look, whole, that found nothing.
            let vain = if one { self.in_vain(core, t) } else { 0 };
            self.stop_looking(ctx, t, vain);
        }
        let c = &mut self.cores[core];
        if c.irqs.is_empty()
            && let Some(segment) = c.segment.take_if(|s| s.end <= ctx.now)
        {
            c.stats.user += segment.user;
            c.stats.system += segment.system;
            c.calls.busy(segment.user + segment.system, segment.spun);
            let preempt = !c.ready.is_empty();
            let thread = &mut self.threads[segment.thread];
            thread.stats.user += segment.user;
            thread.stats.system += segment.system;
            // Not after the context switch alone: a short slice would never get anywhere.
            let worked = preempt && thread.pend.has_work();
            thread.vruntime += segment.user + segment.system;
            let least = c.ready.front().map_or(u64::MAX, |&t| self.threads[t].vruntime);
            let thread = &mut self.threads[segment.thread];
            c.min_vruntime = c.min_vruntime.max(thread.vruntime.min(least));
            if worked && ctx.now >= c.slice_end {
                thread.stats.involuntary_switches += 1;
                thread.preempted = true;
                c.current = None;
                if thread.pblk.holds_map() {
                    self.holder_is_off(ctx, segment.thread);
                }
                self.enqueue(ctx, core, segment.thread);
            }
            if ctx.tracks.is_some() {
                let t = segment.thread;
                ctx.slice(
                    Track::Core(self.place_of(core)),
                    "thread",
                    segment.begin,
                    ctx.now,
                    IoId(t),
                );
            }
            self.run_plan(ctx, segment.thread, segment.split);
        }
        self.schedule(ctx, core);
    }

    /// Gives a core that has no work at hand to the thread that holds it, or to the next one.
    #[inline]
    pub(crate) fn schedule(&mut self, ctx: &mut Ctx, core: u32) {
        let c = &self.cores[core];
        if c.segment.is_none() && c.irqs.is_empty() {
            self.give_core(ctx, core);
        }
        self.arm(ctx, core);
    }
    fn give_core(&mut self, ctx: &mut Ctx, core: u32) {
        loop {
            let c = &mut self.cores[core];
            if c.segment.is_some() || !c.irqs.is_empty() {
                break;
            }
            let t = match c.current {
                Some(t) => t,
                None => match c.ready.pop_front() {
                    Some(t) => {
                        c.current = Some(t);
                        let thread = &mut self.threads[t];
                        thread.asleep = Asleep::No;
                        thread.ready_ns += ctx.now.since(thread.ready_since).0;
                        if std::mem::take(&mut thread.preempted) {
                            thread.pend.lead += spend!(self, core, WakeUp);
                        }
                        self.counters.context_switches += 1;
                        let waiting = self.cores[core].ready.len();
                        let slice_end = self.slice_end(ctx.now, waiting);
                        let c = &mut self.cores[core];
                        (c.slice_begin, c.slice_end) = (ctx.now, slice_end);
                        let left = self.leave_idle(ctx, core);
                        self.threads[t].pend.lead += left;
                        t
                    }
                    None => {
                        if c.idle_since.is_none() {
                            self.enter_idle(ctx, core);
                        }
                        break;
                    }
                },
            };
            self.run(ctx, t);
        }
    }

    /// Makes a sleeping thread runnable. `on` is the core the waker runs on; none is a timer.
    pub(crate) fn wake(&mut self, ctx: &mut Ctx, t: u32, on: Option<u32>) {
        if !self.threads[t].cores().is_empty() {
            self.move_to_idle(t, on);
        }
        let thread = &mut self.threads[t];
        thread.asleep = Asleep::No;
        let core = thread.core;
        thread.pend.lead += spend!(self, core, WakeUp);
        match on {
            Some(from) if from == core => self.enqueue_woken(ctx, t),
            Some(_) => {
                self.counters.ipis += 1;
                self.raise(ctx, core, Irq::Ipi(t));
            }
            None => {
                self.enqueue_woken(ctx, t);
                self.schedule(ctx, core);
            }
        }
    }

    /// A thread that is to wake on a busy core wakes on an idle one: the waker's, else the next by number
    /// (select_idle_sibling). What it has under way ends at the queue that it was submitted to.
    #[inline(never)]
    fn move_to_idle(&mut self, t: u32, on: Option<u32>) {
        let thread = &self.threads[t];
        let from = thread.core();
        // Others are in the midst of a submission, or are to look at the queue of one.
        let between =
            matches!(thread.asleep, Asleep::Call | Asleep::Events | Asleep::Timer | Asleep::Work);
        if !between || self.is_free(from) {
            return;
        }
        let cores = thread.cores();
        let (before, behind) = cores.split_at(cores.partition_point(|&core| core <= from));
        let waker = on.filter(|on| cores.contains(on));
        let mut others = waker.into_iter().chain(behind.iter().chain(before).copied());
        let Some(to) = others.find(|&core| self.is_free(core)) else { return };
        let disk = thread.disk();
        let least = (self.cores[from].min_vruntime, self.cores[to].min_vruntime);
        self.threads[t].move_to(to, least);
        self.turn_to(t, disk);
        self.counters.migrations += 1;
    }
    /// No thread has the core, waits for it, or is on its way to it.
    fn is_free(&self, core: u32) -> bool {
        let c = &self.cores[core];
        c.current.is_none()
            && c.ready.is_empty()
            && !c.irqs.iter().any(|irq| matches!(irq, Irq::Ipi(_)))
    }

    /// A runnable thread waits for its core.
    pub(crate) fn enqueue(&mut self, ctx: &Ctx, core: u32, t: u32) {
        self.threads[t].ready_since = ctx.now;
        let (c, vruntime) = (&mut self.cores[core], self.threads[t].vruntime);
        let later = |&t: &u32| self.threads[t].vruntime > vruntime;
        let at = c.ready.iter().rposition(|t| !later(t)).map_or(0, |before| before + 1);
        c.ready.insert(at, t);
    }

    /// A thread that slept waits for its core, and may get it at the next end of a segment (CFS:
    /// place_entity, check_preempt_wakeup).
    fn enqueue_woken(&mut self, ctx: &Ctx, t: u32) {
        let core = self.threads[t].core;
        let c = &mut self.cores[core];
        let least = c.min_vruntime.saturating_sub(self.stack.sleeper_credit.0);
        let thread = &mut self.threads[t];
        thread.vruntime = thread.vruntime.max(least);
        let limit = thread.vruntime + self.stack.wakeup_granularity.0;
        if let Some(current) = c.current {
            // More of them have shorter slices, also that of the thread that runs (check_preempt_tick).
            let (begin, waiting) = (c.slice_begin, c.ready.len() + 1);
            let end = self.slice_end(begin, waiting);
            let c = &mut self.cores[core];
            c.slice_end = c.slice_end.min(end);
            let since = c.segment.as_ref().map_or(0, |s| ctx.now.since(s.begin).0);
            if self.threads[current].vruntime + since > limit {
                c.slice_end = c.slice_end.min(ctx.now);
            } else if self.cfs.tick > Span::ZERO && c.slice_end < ctx.now {
                // Nobody was ready when it ended: the next tick tells.
                let next = self.next_tick(ctx.now);
                self.cores[core].slice_end = next;
            }
        }
        self.enqueue(ctx, core, t);
    }

    /// Interrupt work for a core.
    pub(crate) fn raise(&mut self, ctx: &mut Ctx, core: u32, irq: Irq) {
        let c = &mut self.cores[core];
        if c.lazy && c.irq_end <= ctx.now {
            self.finish_irq(ctx, core);
        }
        let c = &mut self.cores[core];
        c.irqs.push_back(irq);
        if c.irqs.len() > 1 {
            if std::mem::take(&mut c.lazy) {
                self.arm(ctx, core);
            }
            return;
        }
        // Where a core has a queue of its own, all that a handler completes belongs to threads of
        // this core. While one of them runs, none can tell when the handler ended. The end of the
        // segment, or the next entry, settles it. This saves an event.
        let works = c.works();
        c.lazy = self.cfs.private_queues && works && matches!(irq, Irq::Vector(_));
        let lazy = c.lazy;
        self.start_irq(ctx, core, works);
        if !lazy {
            self.arm(ctx, core);
        }
    }

    /// A core that `works` while the message is on its way pays nothing for the way.
    fn start_irq(&mut self, ctx: &mut Ctx, core: u32, works: bool) {
        let mut span = match self.cores[core].irqs[0] {
            Irq::Vector(cq) => {
                let late = self.block.hctxs[cq].cqes.begin_handler();
                let cqes = &self.block.hctxs[cq].cqes;
                self.counters.interrupts += 1;
                self.counters.empty_interrupts += u64::from(cqes.is_empty());
                let n = cqes.visible().len() as u64;
                let stats = self.sampled(cqes.visible().iter());
                if self.block.hctxs[cq].is_sata() {
                    self.sata_irq(core, n, late || works)
                } else if late || works {
                    spend!(self, core, LateEntry, Interrupt, Completion * n, StatAdd * stats)
                } else {
                    spend!(self, core, InterruptEntry, Interrupt, Completion * n, StatAdd * stats)
                }
            }
            Irq::Ipi(_) => spend!(self, core, Ipi),
            Irq::Timer(_) => spend!(self, core, Timer),
            Irq::Tick => spend!(self, core, Tick),
            Irq::Network(end) => self.network_irq(end, core),
            Irq::Dispatch(rq) => {
                let work = self.request_work(core, rq);
                work + self.repair_sum(core, rq)
            }
        };
        span += self.leave_idle(ctx, core);
        let (span, c) = (Span(span), &mut self.cores[core]);
        c.irq_begin = ctx.now;
        c.irq_end = ctx.now;
        c.steal(ctx.now, span);
    }

    /// A handler is over: what it took up has its effect.
    pub(crate) fn finish_irq(&mut self, ctx: &mut Ctx, core: u32) {
        let c = &mut self.cores[core];
        // It stays at the front until its effects are out, so that what they raise queues up.
        let Some(&irq) = c.irqs.front() else { return };
        c.lazy = false;
        let (begin, end) = (c.irq_begin, c.irq_end);
        if ctx.tracks.is_some() {
            ctx.slice(Track::Core(self.place_of(core)), "interrupt", begin, end, IoId::NONE);
        }
        match irq {
            Irq::Vector(cq) => {
                self.block.hctxs[cq].cqes.end_handler();
                while let Some(cqe) = self.block.hctxs[cq].cqes.take() {
                    self.reap(ctx, cq, cqe, core, (begin, end), (Why::CoreBusy, Why::Interrupt));
                }
            }
            Irq::Ipi(t) => {
                let thread = &self.threads[t];
                debug_assert_eq!(thread.core, core);
                self.enqueue_woken(ctx, t);
            }
            Irq::Timer(t) => {
                // hrtimer_wakeup, unless a completion was faster; or a kworker's.
                if matches!(self.threads[t].asleep, Asleep::Hybrid | Asleep::Work) {
                    self.wake(ctx, t, Some(core));
                }
            }
            // What it found out is in the slice's end.
            Irq::Tick => {}
            Irq::Network(end) => self.network_irq_done(ctx, end, core),
            Irq::Dispatch(rq) => {
                let ncq = self.block.hctxs[self.block.requests[rq].hctx].ncq();
                let why = match ncq.is_some_and(|ncq| ncq.tries_again(rq)) {
                    true => Why::Unqueued,
                    false => Why::Plugged,
                };
                self.mark_request(ctx, rq, Layer::Block, why, core, begin);
                self.issue(ctx, rq, core);
            }
        }
        let c = &mut self.cores[core];
        c.irqs.pop_front();
        if !c.irqs.is_empty() {
            self.start_irq(ctx, core, true);
        }
    }

    /// A thread's timer.
    pub(crate) fn app_wake(&mut self, ctx: &mut Ctx, t: u32) {
        let thread = &mut self.threads[t];
        if thread.timer == ctx.now {
            thread.timer = Time::NEVER;
        }
        if !self.stack.kernel {
            if thread.asleep != Asleep::Done {
                self.direct_fill(ctx, t);
            }
        } else if thread.asleep == Asleep::Hybrid {
            if thread.timer_at <= ctx.now {
                let core = thread.core;
                self.raise(ctx, core, Irq::Timer(t));
            }
        } else if matches!(thread.asleep, Asleep::Start | Asleep::Timer) {
            if thread.asleep == Asleep::Start {
                // The start of a job is no wake-up of one that runs.
                thread.asleep = Asleep::No;
                let core = thread.core;
                self.enqueue_woken(ctx, t);
                self.schedule(ctx, core);
            } else if thread.timer_at <= ctx.now {
                self.wake(ctx, t, None);
            }
        }
    }
}
