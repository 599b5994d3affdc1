//! fio's main loop (`do_io` of backend.c) for pvsync2 and libaio, as a state machine that runs between
//! segments of processor time.
use crate::block::call::Plug;
use crate::block::{BIO_BYTES, NONE};
use crate::config::{Engine, MarkedBy};
use crate::disk::address;
use crate::driver::poll::Loop;
use crate::engines::uring::plug_of;
use crate::function::{Function, spend};
use crate::host::{Finished, Host, Output};
use crate::source::{Next, Source};
use crate::stats::{call_bucket, level_bucket};
use crate::tasks::thread::{Asleep, Flow, Step, Thread};
use wordline_base::track::Track;
use wordline_base::{Ctx, Ddir, Layer, Span, Time, Why};

/// fio's wait_for_completions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reaping {
    /// Completions that it waits for.
    min: u32,
    /// The queue is to be emptied down to iodepth_low.
    full: bool,
    /// Look again in any case: io_getevents(0) or io_uring_enter(0) in a loop.
    spin: bool,
    /// The job or its pass is over: all that is in flight at once.
    drain: bool,
}

const REAP_ONE: Reaping = Reaping { min: 1, full: false, spin: false, drain: false };

impl Reaping {
    /// Completions that it waits for, of so many in flight.
    pub(super) fn min(&self, in_flight: u32) -> u32 {
        self.min.min(in_flight)
    }
    /// The call that looks for completions does not wait for any.
    pub(super) fn comes_back(&self) -> bool {
        self.spin
    }
}

impl Default for Reaping {
    fn default() -> Reaping {
        REAP_ONE
    }
}

impl<S: Source> Thread<S> {
    /// fio's null engine queues a batch before it says that all of it is done. At a depth of one it queues nothing.
    fn queue_null(&mut self) {
        if self.spec().iodepth <= 1 {
            self.stats.iodepth_level[level_bucket(1)] += 1;
            return;
        }
        self.engine.nulls += 1;
        if self.engine.nulls >= self.spec().iodepth_batch.clamp(1, self.spec().iodepth) {
            self.commit_nulls();
        }
    }
    /// io_u_mark_depth, of what was queued since the last commit.
    fn mark_depth(&mut self) {
        let n = std::mem::take(&mut self.engine.queued);
        self.stats.iodepth_level[level_bucket(self.engine.cur_depth)] += u64::from(n);
    }
    /// What is queued of the null engine is done.
    pub(crate) fn commit_nulls(&mut self) {
        let n = std::mem::take(&mut self.engine.nulls);
        if n > 0 {
            self.stats.iodepth_level[level_bucket(n)] += u64::from(n);
            self.stats.iodepth_submit[call_bucket(n)] += 1;
            self.stats.iodepth_complete[call_bucket(n)] += 1;
        }
    }
}

impl<S: Source> Host<S> {
    /// One turn of do_io.
    pub(crate) fn top(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let stopping = self.is_stopping();
        let thread = &mut self.threads[t];
        if thread.engine.unmarked {
            // What a program does for itself, and chworkload_attr for a program, with a look before and after.
            thread.engine.unmarked = false;
            let looks = 2 * u64::from(self.stack.flashshare.marked_by == MarkedBy::ChworkloadAttr);
            self.counters.attributes_set += 1;
            self.counters.attributes_read += looks;
            thread.pend.entry +=
                spend!(self, thread.core(), Crossing * (1 + looks), SetAttr, GetAttr * looks);
            return self.segment(ctx, t, Step::Top);
        }
        if stopping || thread.engine.exhausted || thread.engine.failed {
            thread.engine.requeued = None;
            if thread.engine.cur_depth > 0 {
                return self.reap_all(t);
            }
            if thread.driver.awaited() > 0 {
                self.leave_to_interrupt(t);
            }
            return self.sleep(ctx, t, Asleep::Done);
        }
        if thread.engine.burn > ctx.now {
            let until = thread.engine.burn;
            return self.look(ctx, t, Loop::Compute, until);
        }
        let thread = &mut self.threads[t];
        if let Some(at) = thread.engine.quiesce {
            if thread.engine.cur_depth > 0 {
                thread.mark_depth();
                thread.engine.reaping = REAP_ONE;
                return self.go(t, Step::Getevents);
            }
            if at > ctx.now {
                return self.sleep_until(ctx, t, at);
            }
            thread.engine.quiesce = None;
        }
        if thread.spec().reaps_between
            && thread.engine.cur_depth > 0
            && let Some(flow) = self.reap_between(ctx, t)
        {
            return flow;
        }
        let thread = &mut self.threads[t];
        let mut prepared = 0;
        let (ddir, offset, len) = match thread.engine.requeued.take() {
            Some(io) => io,
            None => {
                let Some(source) = thread.source_mut() else {
                    unreachable!("pblk's thread runs no jobs")
                };
                match source.next(ctx.now) {
                    Next::Io { ddir, offset, len, class } => {
                        thread.begin_io(class);
                        thread.engine.looked = false;
                        let (d, byte) = self.block.place(offset);
                        if let Some(pblk) = self.block.disks[d].enter(ctx) {
                            pblk.prefetch(ctx, byte);
                        }
                        prepared = spend!(self, thread.core(), Application);
                        thread.pend.user += prepared;
                        thread.stats.issued[ddir as usize] += 1;
                        (ddir, offset, len)
                    }
                    Next::File { ddir, offset, len, op, class } => {
                        thread.begin_io(class);
                        thread.pend.user += spend!(self, thread.core(), Application);
                        thread.stats.issued[ddir as usize] += 1;
                        return self.file_call(ctx, t, (ddir, offset, len), op);
                    }
                    Next::Nothing { ddir, len, class } => {
                        thread.begin_io(class);
                        thread.pend.user += spend!(self, thread.core(), Application);
                        thread.stats.issued[ddir as usize] += 1;
                        thread.stats.iodepth_level[level_bucket(1)] += 1;
                        thread.stats.one_at_once();
                        return self.done_at_once(ctx, t, ddir, (0, 0), len);
                    }
                    Next::NotBefore { at, quiesce } => {
                        let at = at.max(ctx.now + Span(1));
                        return self.not_before(ctx, t, at, quiesce);
                    }
                    Next::WhenReaped => {
                        if !thread.engine.iocbs.is_empty() {
                            return self.commit(ctx, t, Step::Top);
                        }
                        thread.engine.reaping = REAP_ONE;
                        return self.go(t, Step::Getevents);
                    }
                    Next::WhenAllReaped => return self.reap_all(t),
                    Next::Pause { spin_until, until } => {
                        thread.engine.burn = spin_until;
                        thread.engine.quiesce = Some(until.max(ctx.now + Span(1)));
                        return Flow::Again;
                    }
                    Next::Compute { span } => {
                        thread.pend.user += span.0;
                        self.cores[thread.core()].charge(Function::Application, span.0);
                        thread.engine.quiesce = Some(ctx.now + span.max(Span(1)));
                        return Flow::Again;
                    }
                    Next::Spin { until } => {
                        thread.engine.burn = until.max(ctx.now + Span(1));
                        return Flow::Again;
                    }
                    Next::Done => {
                        thread.engine.exhausted = true;
                        return Flow::Again;
                    }
                }
            }
        };
        match thread.spec().engine {
            Engine::Libaio | Engine::IoUring if thread.spec().is_entry(ddir) => {
                thread.engine.cur_depth += 1;
                let batch = thread.spec().iodepth_batch;
                let node = self.new_node(t, ddir, self.block.place(offset), len);
                self.block.nodes[node].prepared = prepared;
                let thread = &mut self.threads[t];
                thread.engine.iocbs.push(node);
                thread.engine.queued += 1;
                if thread.engine.queued >= batch {
                    return self.commit(ctx, t, Step::Queued { busy: false });
                }
                self.go(t, Step::Queued { busy: false })
            }
            Engine::Libaio | Engine::IoUring if !thread.engine.iocbs.is_empty() => {
                // FIO_Q_BUSY: requeue, commit, reap, try again.
                thread.engine.requeued = Some((ddir, offset, len));
                self.commit(ctx, t, Step::Queued { busy: true })
            }
            Engine::Libaio | Engine::IoUring => {
                if ddir == Ddir::Trim {
                    thread.stats.one_at_once();
                }
                self.sync_call(t, ddir, self.block.place(offset), len, Step::Queued { busy: false })
            }
            Engine::Spdk => self.spdk_queue(ctx, t, ddir, self.block.place(offset), len),
            Engine::Pvsync2 => {
                self.threads[t].stats.one_at_once();
                self.sync_call(t, ddir, self.block.place(offset), len, Step::Top)
            }
            Engine::Null => {
                thread.queue_null();
                self.done_at_once(ctx, t, ddir, self.block.place(offset), len)
            }
        }
    }

    /// An I/O that goes nowhere.
    fn done_at_once(
        &mut self,
        ctx: &mut Ctx,
        t: u32,
        ddir: Ddir,
        place: (u16, u64),
        len: u32,
    ) -> Flow {
        let thread = &mut self.threads[t];
        thread.engine.cur_depth += 1;
        // Time must pass, or a job without end never ends.
        thread.pend.user = thread.pend.user.max(1);
        let node = self.new_node(t, ddir, place, len);
        self.threads[t].call.begin_null(node);
        self.segment(ctx, t, Step::NullDone)
    }

    /// Between two I/Os of a job that takes up what is back: what it has found, or a look. None: it may issue.
    fn reap_between(&mut self, ctx: &mut Ctx, t: u32) -> Option<Flow> {
        let thread = &mut self.threads[t];
        if !thread.engine.ring.is_empty() {
            thread.engine.reaping = REAP_ONE;
            return Some(self.go(t, Step::Getevents));
        }
        let what = match thread.spec().engine {
            Engine::Spdk => Loop::Spdk,
            Engine::IoUring if thread.driver.finds_its_own() => Loop::Kernel,
            _ => return None,
        };
        if thread.engine.looked {
            return None;
        }
        thread.engine.looked = thread.pend.total() == 0;
        Some(self.look(ctx, t, what, ctx.now))
    }

    fn not_before(&mut self, ctx: &mut Ctx, t: u32, at: Time, quiesce: bool) -> Flow {
        let thread = &mut self.threads[t];
        if quiesce {
            thread.engine.quiesce = Some(at);
            return Flow::Again;
        }
        if !thread.engine.iocbs.is_empty() {
            return self.commit(ctx, t, Step::Top);
        }
        if !thread.engine.ring.is_empty() && thread.engine.partner == NONE {
            thread.engine.reaping = REAP_ONE;
            return self.go(t, Step::Getevents);
        }
        // Who looks for its completions itself goes on looking.
        let looks = thread.engine.cur_depth > 0 && thread.engine.partner == NONE;
        match thread.spec().engine {
            Engine::Spdk if looks => self.look(ctx, t, Loop::Spdk, at),
            Engine::IoUring if looks && thread.engine.submitter != NONE => {
                self.look(ctx, t, Loop::Ring, at)
            }
            Engine::IoUring if looks && thread.driver.finds_its_own() => {
                self.look(ctx, t, Loop::Kernel, at)
            }
            Engine::Libaio if looks && thread.driver.selects() && thread.driver.finds_its_own() => {
                self.look(ctx, t, Loop::Kernel, at)
            }
            _ => self.sleep_until(ctx, t, at),
        }
    }

    /// After io_queue_event: completions are reaped if the queue is full.
    pub(crate) fn queued(&mut self, t: u32, busy: bool) -> Flow {
        let thread = &mut self.threads[t];
        let full = thread.engine.cur_depth >= thread.spec().iodepth;
        let polling = thread.spec().iodepth_batch_complete_min == 0
            && thread.spec().iodepth_batch_complete_max == 0;
        if thread.engine.cur_depth > 0 && (full || busy || polling) {
            let min = thread.spec().iodepth_batch_complete_min.min(thread.engine.cur_depth);
            let spin = thread.spec().iodepth_batch_complete_min == 0;
            thread.engine.reaping = Reaping { min: min.max(1), full, spin, drain: false };
            return self.go(t, Step::Getevents);
        }
        self.go(t, Step::Top)
    }

    /// A synchronous system call of one I/O.
    pub(crate) fn sync_call(
        &mut self,
        t: u32,
        ddir: Ddir,
        (disk, offset): (u16, u64),
        len: u32,
        after: Step,
    ) -> Flow {
        self.aim(t, disk);
        let thread = &mut self.threads[t];
        thread.engine.cur_depth += 1;
        let level = level_bucket(thread.engine.cur_depth);
        thread.stats.iodepth_level[level] += 1;
        thread.pend.entry += spend!(self, thread.core(), Crossing);
        let data = matches!(ddir, Ddir::Read | Ddir::Write);
        // A bio that is split is not polled where only polling would find its end
        // (bio_clear_hipri, Linux 5.10).
        let whole = thread.driver.may_split()
            || u64::from(len) <= self.block.disks[disk].queue.max_request().min(BIO_BYTES);
        let thread = &mut self.threads[t];
        let polls = thread.driver.polls() && data && whole && thread.draws_hipri();
        let hctx = thread.driver.begin_call(polls);
        thread.go_by(hctx);
        let node = self.new_node(t, ddir, (disk, offset), len);
        let thread = &mut self.threads[t];
        let syncs = ddir == Ddir::Write && thread.spec().sync;
        thread.call.begin_one(node, len, syncs, after);
        self.go(t, Step::NextIo)
    }

    /// One call waits for all that is in flight.
    fn reap_all(&mut self, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        thread.engine.reaping = Reaping { min: thread.engine.cur_depth, drain: true, ..REAP_ONE };
        self.go(t, Step::Getevents)
    }

    /// td_io_commit.
    fn commit(&mut self, ctx: &mut Ctx, t: u32, after: Step) -> Flow {
        self.threads[t].mark_depth();
        self.submit_queued(ctx, t, after)
    }

    /// The engine's commit: one io_submit. Called by td_io_getevents, it leaves fio's count of what is queued as it is.
    fn submit_queued(&mut self, ctx: &mut Ctx, t: u32, after: Step) -> Flow {
        let thread = &mut self.threads[t];
        if thread.engine.submitter != NONE {
            return self.hand_over(ctx, t, after);
        }
        thread.go_by(thread.driver.queue());
        let n = thread.engine.iocbs.len() as u32;
        thread.stats.iodepth_submit[call_bucket(n)] += 1;
        thread.stats.submit_calls += 1;
        let core = thread.core();
        // do_io_submit of 4.14 always has a plug.
        let mut plug = Plug::Call;
        if thread.spec().engine == Engine::IoUring {
            plug = plug_of(n, thread.driver.polls());
            thread.pend.library += spend!(self, core, UringPrepare * u64::from(n));
            thread.pend.entry += spend!(self, core, Crossing, UringEnter);
        } else {
            thread.pend.entry += spend!(self, core, Crossing, AioSubmit * u64::from(n));
        }
        thread.call.begin_batch(plug, after);
        self.go(t, Step::NextIo)
    }

    /// The submission call returns.
    pub(crate) fn call_end(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        if thread.is_planned() || thread.pend.total() > 0 {
            return self.segment(ctx, t, Step::CallEnd);
        }
        if thread.vfs.end_bio() {
            return self.go(t, Step::Vfs);
        }
        if thread.call.is_batch() {
            let handed_over = thread.engine.is_submitter();
            for node in thread.engine.iocbs.drain(..) {
                if !handed_over && node != NONE {
                    self.block.nodes[node].submitted = ctx.now;
                }
            }
            let after = thread.call.after();
            return self.go(t, after);
        }
        if thread.call.single() == NONE {
            let after = thread.call.after();
            return self.go(t, after);
        }
        let node = &mut self.block.nodes[thread.call.single()];
        node.submitted = node.issued;
        self.go(t, Step::SyncWait)
    }

    /// A synchronous call waits for its I/O.
    pub(crate) fn sync_wait(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        if !self.block.nodes[thread.call.single()].is_over() {
            if (thread.driver.polls_call() || thread.driver.selects())
                && thread.driver.finds_its_own()
            {
                return self.poll_wait(ctx, t);
            }
            return self.sleep(ctx, t, Asleep::Call);
        }
        let node = thread.call.single();
        self.end_of_sleep(t, true);
        let thread = &mut self.threads[t];
        if self.block.nodes[node].ok && thread.call.is_to_sync() {
            return self.sync_device(ctx, t, node);
        }
        thread.pend.entry += spend!(self, thread.core(), Finish);
        self.segment(ctx, t, Step::SyncReturn)
    }

    /// td_io_getevents: sends what is queued first.
    pub(crate) fn getevents(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        if !thread.engine.iocbs.is_empty() {
            return self.submit_queued(ctx, t, Step::Getevents);
        }
        if thread.engine.partner != NONE {
            return self.leave_to_reaper(ctx, t);
        }
        match thread.spec().engine {
            Engine::IoUring => return self.uring_getevents(ctx, t),
            Engine::Spdk => return self.spdk_getevents(ctx, t),
            _ => {}
        }
        let min = thread.engine.reaping.min(thread.engine.cur_depth);
        let max = thread.spec().iodepth_batch_complete_max.min(thread.engine.cur_depth).max(min);
        let ready = thread.engine.ring.len() as u32;
        let call = self.stack.cost.crossing.0 + self.stack.cost.aio_getevents.0;
        if ready >= min {
            let n = ready.min(max);
            let core = thread.core();
            thread.pend.entry += spend!(self, core, Crossing, AioGetevents, Finish * u64::from(n));
            return self.segment(ctx, t, Step::Reap(n));
        }
        // Looking again and again at no cost is the same as waiting.
        if thread.engine.reaping.spin && call > 0 {
            thread.pend.entry += spend!(self, thread.core(), Crossing, AioGetevents);
            return self.segment(ctx, t, Step::Getevents);
        }
        if thread.driver.selects() && thread.driver.finds_its_own() {
            return self.look(ctx, t, Loop::Kernel, Time::NEVER);
        }
        self.sleep(ctx, t, Asleep::Events)
    }

    /// So many completions are the application's.
    pub(crate) fn reap_events(&mut self, ctx: &mut Ctx, t: u32, n: u32) -> Flow {
        let thread = &mut self.threads[t];
        let (wake, work) = thread.done();
        thread.stats.iodepth_complete[call_bucket(n)] += 1;
        thread.stats.complete_calls += 1;
        for _ in 0..n {
            if let Some(node) = self.threads[t].engine.ring.pop_front() {
                self.finish_io(ctx, node, wake, work);
            }
        }
        let thread = &mut self.threads[t];
        let again =
            thread.engine.reaping.full && thread.engine.cur_depth > thread.spec().iodepth_low;
        self.go(t, if again { Step::Getevents } else { Step::Top })
    }

    /// A job with a reaper waits for room in its queue, or for nothing to be in flight.
    fn leave_to_reaper(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let thread = &mut self.threads[t];
        if thread.pend.total() > 0 {
            return self.segment(ctx, t, Step::Getevents);
        }
        let most = if thread.engine.reaping.full { thread.spec().iodepth } else { 1 };
        if thread.engine.cur_depth < most {
            return self.go(t, Step::Top);
        }
        self.sleep(ctx, t, Asleep::Reaper)
    }

    /// A reaper: io_getevents for one, as long as there are any.
    pub(crate) fn collect(&mut self, ctx: &mut Ctx, r: u32) -> Flow {
        let owner = self.threads[r].engine.partner;
        if self.threads[owner].engine.ring.is_empty() {
            return self.sleep(ctx, r, Asleep::Events);
        }
        let core = self.threads[r].core();
        let call = spend!(self, core, Crossing, AioGetevents, Finish);
        self.threads[r].pend.entry += call;
        self.segment(ctx, r, Step::Collected)
    }

    /// A reaper has one completion.
    pub(crate) fn collected(&mut self, ctx: &mut Ctx, r: u32) -> Flow {
        let reaper = &self.threads[r];
        let (owner, core, (wake, work)) = (reaper.engine.partner, reaper.core(), reaper.done());
        let job = &mut self.threads[owner];
        job.stats.iodepth_complete[call_bucket(1)] += 1;
        job.stats.complete_calls += 1;
        if let Some(node) = job.engine.ring.pop_front() {
            // Back before the call that sent it has returned: the call will not find it.
            if let Some(sent) = job.engine.iocbs.iter_mut().find(|n| **n == node) {
                *sent = NONE;
                self.block.nodes[node].submitted = ctx.now;
            }
            self.finish_io(ctx, node, wake, work);
        }
        if self.threads[owner].asleep() == Asleep::Reaper {
            self.wake(ctx, owner, Some(core));
        }
        self.go(r, Step::Collect)
    }

    /// The application has its I/O back: `wake` and `work` nanoseconds ended just now.
    #[inline(always)]
    pub(crate) fn finish_io(&mut self, ctx: &mut Ctx, n: u32, wake: u64, work: u64) {
        let node = self.block.nodes[n];
        self.block.nodes.remove(n);
        let t = node.thread;
        let thread = &mut self.threads[t];
        let (now, core) = match thread.engine.partner {
            NONE => (ctx.now, thread.core()),
            reaper => (ctx.now, self.threads[reaper].core()),
        };
        let thread = &mut self.threads[t];
        let held = match thread.engine.reaping {
            _ if thread.engine.partner != NONE => Why::CoreBusy,
            Reaping { min: 0..=1, .. } => Why::CoreBusy,
            Reaping { drain: true, .. } => Why::Drain,
            _ => Why::Batch,
        };
        if let Some(life) = ctx.lives.of(node.life) {
            life.mark(Layer::Completion, held, core, Time(now.0.saturating_sub(wake + work)));
            life.mark(Layer::Completion, Why::WakeUp, core, Time(now.0.saturating_sub(work)));
            life.mark(Layer::Completion, Why::Work, core, now);
        }
        if ctx.tracks.is_some() {
            ctx.slice(Track::Job(t), node.ddir.name(), node.issued, now, node.life);
        }
        thread.engine.cur_depth -= 1;
        let Some(source) = thread.source_mut() else { return self.served(ctx, t, &node) };
        let latency = now.since(node.issued);
        let place = address(node.disk, node.offset);
        source.lived(ctx.lives.get(node.life));
        source.finished(node.ddir, place, node.len, node.ok, latency, now);
        if !node.ok {
            self.counters.errors += 1;
            thread.engine.failed |= !thread.spec().continue_on_error;
        }
        self.put_out(Output::Finished(Finished {
            thread: t,
            ddir: node.ddir,
            disk: node.disk,
            offset: node.offset,
            len: node.len,
            issued: node.issued,
            submitted: node.submitted,
            completed: now,
            ok: node.ok,
            lacks: node.lacks,
            class: node.class,
            io: node.life,
        }));
    }
}
