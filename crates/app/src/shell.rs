//! What the programs have in common: threads that follow a plan step by step, sleep and wake each
//! other, read through the system's page cache, and end when their clients have.

use crate::btree::Btree;
use crate::config::{AppConfig, PageCost};
use crate::lru::Lru;
use crate::lsm::Lsm;
use crate::ops::{Load, Ops, Report};
use crate::pagerank::Pagerank;
use crate::server::Server;
use crate::sort::Sort;
use crate::space::Extent;
use crate::turnaround::{Spent, Split, Turnaround};
use std::collections::VecDeque;
use std::fmt::Debug;
use wordline_base::life::LAYERS;
use wordline_base::{BadValue, Ddir, IdVec, SECTOR, Seed, Span, Time, Workload};

/// The longest that a thread computes in one go. The host takes a core from a thread between such
/// turns only, as a scheduler's tick does.
const TURN: Span = Span::from_ms(1);

/// A thread of the program, to the system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadShape {
    /// Threads of one name do the same.
    pub name: &'static str,
    /// I/Os it has in flight at most. One: it waits in each call.
    pub depth: u32,
}

/// What a thread does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    /// Issues an I/O, and goes on.
    Io {
        /// Read, write, trim or sync.
        ddir: Ddir,
        /// The first byte of the program's part of the drive.
        offset: u64,
        /// Bytes.
        len: u32,
    },
    /// Works for so long, with none of its I/Os in flight.
    Compute(Span),
    /// Works for so long, whatever it has in flight.
    Work(Span),
    /// Sleeps until this time.
    Until(Time),
    /// Until it is woken ([`App::take_wake`]).
    Asleep,
    /// Until one of its I/Os is back.
    Reap,
    /// It has ended.
    Done,
}

/// A step of a thread's plan. Places are sectors from the start of the program's part of the drive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Read(Extent),
    /// What the page cache does not have of it.
    Fetch(Extent),
    Write(Extent),
    Trim(Extent),
    Flush,
    Compute(Span),
    /// The same, with I/Os in flight.
    Work(Span),
    Sleep(Time),
    /// Until all of the thread's I/Os are back.
    Drain,
}

/// How a thread goes on after its plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Then {
    Go,
    Wait,
    /// For good.
    End,
}

/// A thread of a program, in the order in which it was added.
pub(crate) type ThreadId = u32;

#[derive(Debug)]
pub(crate) struct Worker {
    pub shape: ThreadShape,
    client: bool,
    plan: VecDeque<Step>,
    in_flight: u32,
    /// Asleep, until woken or until a time.
    asleep: bool,
    /// What the operation that it is at has spent.
    spent: Spent,
}

/// The part that does not depend on the program.
#[derive(Debug)]
pub(crate) struct Shell {
    /// Threads of the program.
    pub workers: IdVec<ThreadId, Worker>,
    /// Operations and their latencies.
    pub ops: Ops,
    /// By kind of operation.
    splits: Vec<Split>,
    /// The ramp ends then.
    counted_from: Time,
    /// The page cache of the program's host.
    pub page_cache: Lru,
    /// What it costs.
    page_cost: PageCost,
    /// Pages asked of the page cache.
    pub asked: u64,
    /// Those that it had.
    pub hits: u64,
    /// Where the program's part of the drive begins.
    first_byte: u64,
    /// Operations that end the program; 0: none.
    operations: u64,
    /// No operation begins later.
    last_begin: Time,
    /// Operations that clients have begun.
    clients_begun: u64,
    /// Threads that are clients.
    clients: u32,
    /// The program ends.
    over: bool,
    /// Why it ends, if something failed.
    failure: Option<String>,
    /// Threads to be woken.
    wakes: VecDeque<u32>,
}

impl Shell {
    pub fn new(
        config: &AppConfig,
        kinds: &[&'static str],
        (page_cache, page_cost): (u64, PageCost),
        sectors: u64,
    ) -> Shell {
        let last_begin = match config.runtime {
            Span::ZERO => Time::NEVER,
            runtime => Time::ZERO + config.ramp_time + runtime,
        };
        Shell {
            workers: IdVec::new(),
            ops: Ops::new(kinds, config.ramp_time),
            splits: kinds.iter().map(|&kind| Split::new(kind)).collect(),
            counted_from: Time::ZERO + config.ramp_time,
            page_cache: Lru::new((page_cache / SECTOR).min(sectors) as usize),
            page_cost,
            asked: 0,
            hits: 0,
            first_byte: config.offset,
            operations: if config.operations == 0 { u64::MAX } else { config.operations },
            last_begin,
            clients_begun: 0,
            clients: 0,
            over: false,
            failure: None,
            wakes: VecDeque::new(),
        }
    }

    pub fn add(&mut self, name: &'static str, depth: u32, client: bool) {
        self.clients += u32::from(client);
        let shape = ThreadShape { name, depth };
        let plan = VecDeque::new();
        let spent = Spent::default();
        self.workers.push(Worker { shape, client, plan, in_flight: 0, asleep: false, spent });
    }

    /// The thread takes up an operation.
    pub fn begin(&mut self, t: u32) {
        self.ops.begun += 1;
        self.workers[t].spent = Spent::default();
    }
    /// The thread has done the operation that arrived and was taken up at these times.
    pub fn finish(&mut self, t: u32, kind: usize, arrived: Time, begun: Time, now: Time) {
        self.ops.finish(kind, arrived, now);
        if now >= self.counted_from {
            self.splits[kind].add(&self.workers[t].spent, arrived, begun, now);
        }
    }

    /// Whether a client may begin one more operation.
    pub fn may_begin(&mut self, now: Time) -> bool {
        if now >= self.last_begin || self.clients_begun >= self.operations {
            return false;
        }
        self.clients_begun += 1;
        true
    }

    pub fn push(&mut self, t: u32, step: Step) {
        let plan = &mut self.workers[t].plan;
        if let (Step::Compute(more), Some(Step::Compute(span))) = (step, plan.back_mut()) {
            *span += more;
            return;
        }
        plan.push_back(step);
    }
    /// A run of sectors as reads no larger than `most` sectors; how many.
    pub fn push_reads(&mut self, t: u32, extent: Extent, most: u64) -> u64 {
        let (mut at, end) = (extent.at, extent.at + extent.sectors);
        while at < end {
            let sectors = most.min(end - at);
            self.push(t, Step::Read(Extent { at, sectors }));
            at += sectors;
        }
        extent.sectors.div_ceil(most)
    }
    /// A run of sectors as writes no larger than `most` sectors.
    pub fn push_writes(&mut self, t: u32, extent: Extent, most: u64) {
        let (mut at, end) = (extent.at, extent.at + extent.sectors);
        while at < end {
            let sectors = most.min(end - at);
            self.push(t, Step::Write(Extent { at, sectors }));
            at += sectors;
        }
    }

    /// Pages that are to be written go into the page cache, and stay there.
    pub fn put_pages(&mut self, t: u32, extent: Extent) {
        if self.page_cache.capacity() > 0 {
            self.push(t, Step::Compute(self.page_cost.write * extent.sectors));
        }
        (extent.at..extent.at + extent.sectors).for_each(|page| self.page_cache.put(page));
    }

    pub fn wake(&mut self, t: u32) {
        if std::mem::take(&mut self.workers[t].asleep) {
            self.wakes.push_back(t);
        }
    }
    pub fn wake_all(&mut self, mut which: impl FnMut(&Worker) -> bool) {
        for t in 0..self.workers.count() {
            if which(&self.workers[t]) {
                self.wake(t);
            }
        }
    }

    /// The next step of the thread's plan; none at its end.
    fn step(&mut self, t: u32, now: Time) -> Option<Doing> {
        loop {
            let worker = &mut self.workers[t];
            let step = *worker.plan.front()?;
            let (ddir, extent) = match step {
                Step::Drain if worker.in_flight > 0 => return Some(Doing::Reap),
                Step::Sleep(at) if at > now => {
                    worker.asleep = true;
                    return Some(Doing::Until(at));
                }
                Step::Compute(span) if span > Span::ZERO => {
                    worker.plan.pop_front();
                    worker.spent.work(span.min(TURN));
                    if span > TURN {
                        worker.plan.push_front(Step::Compute(span.saturating_sub(TURN)));
                    }
                    let turn = span.min(TURN);
                    // What a thread has in flight goes on beside its work.
                    let idle = worker.in_flight == 0;
                    return Some(if idle { Doing::Compute(turn) } else { Doing::Work(turn) });
                }
                Step::Work(span) if span > Span::ZERO => {
                    worker.plan.pop_front();
                    return Some(Doing::Work(span));
                }
                Step::Fetch(extent) => {
                    worker.plan.pop_front();
                    self.fetch(t, extent);
                    continue;
                }
                Step::Read(extent) => (Ddir::Read, extent),
                Step::Write(extent) => (Ddir::Write, extent),
                Step::Trim(extent) => (Ddir::Trim, extent),
                Step::Flush => (Ddir::DataSync, Extent { at: 0, sectors: 0 }),
                Step::Drain | Step::Sleep(_) | Step::Compute(_) | Step::Work(_) => {
                    worker.plan.pop_front();
                    continue;
                }
            };
            worker.plan.pop_front();
            worker.in_flight += 1;
            let offset = if ddir.is_sync() { 0 } else { self.first_byte + extent.at * SECTOR };
            return Some(Doing::Io { ddir, offset, len: (extent.sectors * SECTOR) as u32 });
        }
    }

    /// Reads of the runs that the page cache does not have, and behind them the copy of all pages. A page counts as
    /// there from when its read is issued.
    fn fetch(&mut self, t: u32, extent: Extent) {
        let plan = &mut self.workers[t].plan;
        if self.page_cache.capacity() > 0 {
            plan.push_front(Step::Compute(self.page_cost.read * extent.sectors));
        }
        self.asked += extent.sectors;
        // From the last to the first, because reads go before what the plan has already.
        let mut run = 0;
        for at in (extent.at..extent.at + extent.sectors).rev() {
            if self.page_cache.touch(at) {
                self.hits += 1;
                if run > 0 {
                    plan.push_front(Step::Read(Extent { at: at + 1, sectors: run }));
                }
                run = 0;
            } else {
                self.page_cache.put(at);
                run += 1;
            }
        }
        if run > 0 {
            plan.push_front(Step::Read(Extent { at: extent.at, sectors: run }));
        }
    }

    /// One of the clients has done its last operation.
    fn client_ended(&mut self) {
        self.clients -= 1;
        if self.clients == 0 {
            self.end();
        }
    }
    pub fn end(&mut self) {
        self.over = true;
        self.wake_all(|_| true);
    }
    /// The program cannot go on.
    pub fn fail(&mut self, why: String) {
        self.failure.get_or_insert(why);
        self.end();
    }
}

/// What one program does in its threads.
pub(crate) trait Model: Debug {
    /// What a thread does next, now that its plan is empty.
    fn resume(&mut self, shell: &mut Shell, t: u32, now: Time) -> Then;
    /// What holds data before the run, from the start of the program's part of the drive.
    fn layout(&self) -> Vec<Extent>;
    fn report(&self, report: &mut Report);
    /// None where requests do not arrive on their own.
    fn arrivals(&self) -> Option<Load> {
        None
    }
    /// What the numbers leave out.
    fn note(&self) -> Option<String> {
        None
    }
    /// Panics unless what must hold at any time does.
    fn check(&self);
}

/// A program at work.
#[derive(Debug)]
pub struct App {
    name: String,
    workload_attr: Workload,
    shell: Shell,
    program: Box<dyn Model>,
}

impl App {
    /// On a drive of `drive_bytes`. An error names the key below `app` and the remedy.
    pub fn new(
        name: &str,
        config: &AppConfig,
        drive_bytes: u64,
        seed: Seed,
    ) -> Result<App, BadValue> {
        match config.check().into_iter().next() {
            Some(wrong) => Err(wrong),
            None => App::beside(name, config, drive_bytes, seed),
        }
    }

    /// The same of a program that may be without an end of its own: another one ends it.
    pub fn beside(
        name: &str,
        config: &AppConfig,
        drive_bytes: u64,
        seed: Seed,
    ) -> Result<App, BadValue> {
        if let Some(wrong) = config.check_beside().into_iter().next() {
            return Err(wrong);
        }
        let end = match config.size {
            0 => drive_bytes,
            size => config.offset.saturating_add(size),
        };
        if end > drive_bytes || config.offset >= end {
            let key = if config.offset >= end { "offset" } else { "size" };
            return Err(BadValue::new(key, format!("goes beyond the drive's {drive_bytes} bytes")));
        }
        let sectors = (end - config.offset) / SECTOR;
        fn boxed<M: Model + 'static>((shell, model): (Shell, M)) -> (Shell, Box<dyn Model>) {
            (shell, Box::new(model))
        }
        let (shell, program) = if let Some(lsm) = &config.lsm {
            boxed(Lsm::new(config, lsm, sectors, seed)?)
        } else if let Some(btree) = &config.btree {
            boxed(Btree::new(config, btree, sectors, seed)?)
        } else if let Some(web) = &config.web {
            boxed(Server::web(config, web, sectors, seed)?)
        } else if let Some(kv) = &config.kv {
            boxed(Server::kv(config, kv, sectors, seed)?)
        } else if let Some(pagerank) = &config.pagerank {
            boxed(Pagerank::new(config, pagerank, sectors, seed)?)
        } else if let Some(sort) = &config.sort {
            boxed(Sort::new(config, sort, sectors, seed)?)
        } else {
            unreachable!("checked: a program is one of these")
        };
        Ok(App { name: name.into(), workload_attr: config.workload_attr, shell, program })
    }

    /// Its name in results.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The workload attribute that all its threads have.
    pub fn workload_attr(&self) -> Workload {
        self.workload_attr
    }
    /// Its threads, in the order of their numbers.
    pub fn threads(&self) -> impl Iterator<Item = &ThreadShape> {
        self.shell.workers.iter().map(|w| &w.shape)
    }

    /// What holds data before the run, as runs of the drive's sectors, in the order written.
    pub fn layout(&self) -> Vec<Extent> {
        let mut extents = self.program.layout();
        let first = self.shell.first_byte / SECTOR;
        extents.iter_mut().for_each(|e| e.at += first);
        extents
    }

    /// What thread `t` does now that it is through with what it was told before.
    pub fn next(&mut self, t: u32, now: Time) -> Doing {
        self.shell.workers[t].asleep = false;
        loop {
            if self.shell.over {
                return Doing::Done;
            }
            if let Some(doing) = self.shell.step(t, now) {
                return doing;
            }
            let shell = &mut self.shell;
            match self.program.resume(shell, t, now) {
                Then::Go => {}
                Then::Wait => {
                    self.shell.workers[t].asleep = true;
                    return Doing::Asleep;
                }
                Then::End => {
                    if self.shell.workers[t].client {
                        self.shell.client_ended();
                    }
                    return Doing::Done;
                }
            }
        }
    }

    /// One of the thread's I/Os is back, and its time was spent so, by layer.
    pub fn finished(&mut self, t: u32, by_layer: &[u64; LAYERS]) {
        let worker = &mut self.shell.workers[t];
        worker.in_flight -= 1;
        worker.spent.io(by_layer);
    }

    /// No more operations: each thread is done with what it has in flight.
    pub fn end(&mut self) {
        self.shell.end();
    }
    /// It has ended, or given up.
    pub fn is_over(&self) -> bool {
        self.shell.over
    }

    /// A thread that sleeps and has something to do.
    pub fn take_wake(&mut self) -> Option<u32> {
        self.shell.wakes.pop_front()
    }

    /// When the last operation of its report was over.
    pub fn measured_until(&self) -> Time {
        self.shell.ops.last()
    }

    /// What came of it so far.
    pub fn report(&self) -> Report {
        let mut report = self.shell.ops.report(&self.name);
        report.failure.clone_from(&self.shell.failure);
        let (asked, hits) = (self.shell.asked, self.shell.hits);
        if self.shell.page_cache.capacity() > 0 || asked > 0 {
            report.counters = vec![("pages_asked", asked), ("page_cache_hits", hits)];
        }
        self.program.report(&mut report);
        report
    }

    /// The load that it is under, if its requests arrive on their own.
    pub fn arrivals(&self) -> Option<Load> {
        self.program.arrivals()
    }
    /// What a reader of its report should know.
    pub fn note(&self) -> Option<String> {
        Some(format!("'{}': {}", self.name, self.program.note()?))
    }

    /// Where the time of its operations went, by kind of operation, and of all together.
    pub fn turnarounds(&self) -> Vec<Turnaround> {
        let all = Split::all(self.shell.splits.iter());
        self.shell
            .splits
            .iter()
            .chain([&all])
            .filter_map(|split| split.report(&self.name))
            .collect()
    }

    /// Panics unless what must hold at any time does: for tests.
    pub fn check(&self) {
        let ops = &self.shell.ops;
        assert!(ops.begun >= ops.finished, "more operations finished than begun");
        self.program.check();
    }
}
