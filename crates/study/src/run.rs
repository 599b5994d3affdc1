//! Runs the points of a plan that have no result yet: a worker process for every group of points
//! that share an aged drive, and as many points at once as there are jobs and memory.

use crate::error::explain;
use crate::memory;
use crate::metric;
use crate::plan::{Group, Plan, Point};
use crate::spec::Study;
use crate::store::Store;
use crate::worker::{Order, Said};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use wordline_cache::Cache;
use wordline_profile::ConfigError;

/// Between two questions whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// What happens meanwhile, for whoever watches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// So many results were there before.
    Found(usize),
    /// A drive is being aged.
    Ageing,
    /// It is aged.
    Aged,
    /// A point runs.
    Started(usize),
    /// Point, thousandths.
    At(usize, u64),
    /// A point has its result.
    Done(usize),
    /// A point has none, and why.
    Failed(usize, String),
    /// Something to be said once.
    Note(String),
}

/// Told of a run's events.
pub trait Watch {
    /// Takes an event; called from the thread that runs the study.
    fn event(&mut self, event: Event);
    /// Whether to stop now.
    fn stop_asked(&self) -> bool;
}

/// How a study is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Processes at a time.
    pub jobs: usize,
    /// This program.
    pub program: PathBuf,
    /// The arguments that make it a worker.
    pub arguments: Vec<String>,
    /// Digest of this program, kept with results.
    pub build: String,
    /// Where aged drives are kept, if anywhere.
    pub cache: Option<Cache>,
}

/// Why a run came to no end.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Stopped {
    /// A drive of the study does not fit the memory: nothing was begun.
    #[error(
        "a drive of this study takes {:.1} GiB of memory and {:.1} GiB are available: use a smaller drive \
         (set = [\"nand.blocks=N\"]), or integrity = false", gib(*.need), gib(*.free)
    )]
    Memory {
        /// Bytes that it takes.
        need: u64,
        /// Bytes that are left.
        free: u64,
    },
    /// The study asks results for a number that one of them does not have.
    #[error("{0}")]
    Metric(#[from] ConfigError),
    /// A worker process cannot be started.
    #[error("cannot start {}: {why}", .program.display())]
    Start {
        /// What was to be started.
        program: PathBuf,
        /// What the system says, with a remedy.
        why: String,
    },
    /// A worker process ended before its points did.
    #[error(
        "a worker process ended too early ({0}): memory may have run out, try fewer --jobs; the same \
         command resumes"
    )]
    Ended(ExitStatus),
    /// A worker process gave up, in its own words.
    #[error("{0}")]
    Broken(String),
    /// [`Watch::stop_asked`] said so.
    #[error("stopped: {done} points are done")]
    Asked {
        /// Points that have a result now.
        done: usize,
    },
}

/// A point that has no result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failed {
    /// The point's index.
    pub point: usize,
    /// What went wrong.
    pub why: String,
}

struct Worker {
    child: Child,
    /// None once told that nothing more comes.
    input: Option<ChildStdin>,
    /// The group whose points it runs.
    group: usize,
    /// Its drive is prepared.
    aged: bool,
    /// Indices of the group's points.
    points: Vec<usize>,
    /// Points that no copy has been told yet, in the order in which they go.
    waiting: VecDeque<usize>,
    /// Copies of the worker: the point each is running.
    slots: Vec<Option<usize>>,
}

impl Worker {
    fn running(&self) -> usize {
        self.slots.iter().flatten().count()
    }
    fn is_idle(&self) -> bool {
        self.aged && self.waiting.is_empty() && self.running() == 0
    }
    /// True if it was running.
    fn ended(&mut self, point: usize) -> bool {
        let slot = self.slots.iter_mut().find(|slot| **slot == Some(point));
        slot.and_then(Option::take).is_some()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // With its copies, unless it ended by itself: then they did, too.
        if let Ok(None) = self.child.try_wait() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

enum Heard {
    Said(Said),
    Closed,
}

struct Run<'a> {
    study: &'a Study,
    plan: &'a Plan,
    store: &'a Store,
    options: &'a Options,
    watch: &'a mut dyn Watch,
    /// Groups not begun, with their points.
    groups: VecDeque<(usize, Vec<usize>)>,
    /// Points without a result, by what decides it: the first is run.
    alike: BTreeMap<&'a str, Vec<usize>>,
    /// Processes, one a group; none where one has ended.
    workers: Vec<Option<Worker>>,
    /// What workers say.
    heard: Receiver<(usize, Heard)>,
    /// Handed to the threads that listen to workers.
    tell: Sender<(usize, Heard)>,
    /// Bytes of memory that are available.
    memory: u64,
    /// The user was told that memory holds groups back.
    memory_noted: bool,
    /// Points that have ended.
    done: usize,
    /// Points that have failed.
    failed: Vec<Failed>,
}

/// Runs what has no result yet; afterwards the store has all of them but those returned.
pub fn run(
    study: &Study,
    plan: &Plan,
    store: &Store,
    options: &Options,
    watch: &mut dyn Watch,
) -> Result<Vec<Failed>, Stopped> {
    let mut has = Vec::with_capacity(plan.points.len());
    for point in &plan.points {
        has.push(is_there(study, point, store)?);
    }
    let done = has.iter().filter(|&&h| h).count();
    watch.event(Event::Found(done));
    // What is varied may make points alike: one of them is run for all.
    let mut alike: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (i, point) in plan.points.iter().enumerate().filter(|&(i, _)| !has[i]) {
        alike.entry(&point.key).or_default().push(i);
    }
    let is_first = |i: usize| alike.get(&*plan.points[i].key).is_some_and(|all| all[0] == i);
    let missing = |g: &Vec<usize>| g.iter().copied().filter(|&i| is_first(i)).collect::<Vec<_>>();
    let groups = plan.groups.iter().enumerate().map(|(g, group)| (g, missing(&group.points)));
    let (tell, heard) = channel();
    let run = Run {
        study,
        plan,
        store,
        options,
        watch,
        groups: groups.filter(|(_, points)| !points.is_empty()).collect(),
        alike,
        workers: Vec::new(),
        heard,
        tell,
        memory: memory::available().unwrap_or(u64::MAX),
        memory_noted: false,
        done,
        failed: Vec::new(),
    };
    run.check_memory()?;
    run.go()
}

/// Whether a point has its result; an error if that lacks a number of the study.
fn is_there(study: &Study, point: &Point, store: &Store) -> Result<bool, ConfigError> {
    let result = [store.result(point)];
    metric::extract(study, std::slice::from_ref(point), &result)?;
    Ok(result[0].is_some())
}

impl Run<'_> {
    fn check_memory(&self) -> Result<(), Stopped> {
        let Some(need) = self.groups.iter().map(|(g, _)| self.need(*g)).max() else {
            return Ok(());
        };
        if need <= self.memory {
            return Ok(());
        }
        Err(Stopped::Memory { need, free: self.memory })
    }

    /// Memory of a group's drive, and of what one point changes of it.
    fn need(&self, group: usize) -> u64 {
        let group = &self.plan.groups[group];
        group.memory + group.of_point
    }

    fn go(mut self) -> Result<Vec<Failed>, Stopped> {
        loop {
            self.dispatch()?;
            if self.workers.iter().all(Option::is_none) && self.groups.is_empty() {
                self.failed.sort_by_key(|f| f.point);
                return Ok(self.failed);
            }
            if self.watch.stop_asked() {
                return Err(Stopped::Asked { done: self.done });
            }
            match self.heard.recv_timeout(LOOK) {
                Ok((worker, heard)) => self.hear(worker, heard)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("one end is here"),
            }
        }
    }

    /// Ageing drives and running points count alike.
    fn busy(&self) -> usize {
        let workers = self.workers.iter().flatten();
        workers.map(|w| if w.aged { w.running() } else { 1 }).sum()
    }

    /// With this many more points running than there are.
    fn memory_of(&self, worker: &Worker, more: usize) -> u64 {
        let group = &self.plan.groups[worker.group];
        let copies = worker.running() + more;
        let copies = if group.copies_stay { copies.max(worker.slots.len()) } else { copies };
        group.memory + group.of_point * copies.max(1) as u64
    }
    fn memory_used(&self) -> u64 {
        self.workers.iter().flatten().map(|w| self.memory_of(w, 0)).sum()
    }

    fn dispatch(&mut self) -> Result<(), Stopped> {
        while self.busy() < self.options.jobs {
            // Points before drives: a drive that is there goes away the sooner.
            if !self.reuse_worker()? && !self.start_point() && !self.start_worker()? {
                // What waits for a drive that is being aged does not wait for memory.
                let mut aged = self.workers.iter().flatten().filter(|w| w.aged);
                if aged.any(|w| !w.waiting.is_empty()) || !self.groups.is_empty() {
                    self.note_memory();
                }
                break;
            }
        }
        for worker in self.workers.iter_mut().flatten().filter(|w| w.is_idle()) {
            worker.input = None;
        }
        Ok(())
    }

    /// Has a point run where fewest are: copies of a drive are had one after the other for less.
    fn start_point(&mut self) -> bool {
        let used = self.memory_used();
        let fits = |w: &Worker| {
            let (now, then) = (self.memory_of(w, 0), self.memory_of(w, 1));
            then == now || used - now + then <= self.memory
        };
        let can = |w: &&Worker| w.aged && !w.waiting.is_empty() && fits(w);
        let workers = self.workers.iter().enumerate();
        let can = workers.filter_map(|(id, w)| Some((w.as_ref().filter(can)?.running(), id)));
        let id = can.min().map(|(_, id)| id);
        let Some(worker) = id.and_then(|id| self.workers[id].as_mut()) else { return false };
        let (Some(point), Some(input)) = (worker.waiting.pop_front(), &mut worker.input) else {
            return false;
        };
        let i = worker.points.iter().position(|&p| p == point).expect("one of its own");
        let slot = worker.slots.iter().position(Option::is_none).unwrap_or(worker.slots.len());
        worker.slots.resize(worker.slots.len().max(slot + 1), None);
        worker.slots[slot] = Some(point);
        // That a worker is gone is heard from its output.
        let _ = writeln!(input, "{slot} {i}").and_then(|()| input.flush());
        self.watch.event(Event::Started(point));
        true
    }

    /// Gives a worker that has no more points another drive, in the memory of its last.
    fn reuse_worker(&mut self) -> Result<bool, Stopped> {
        let Some(&(group, _)) = self.groups.front() else { return Ok(false) };
        let idle =
            |w: &Option<Worker>| w.as_ref().is_some_and(|w| w.is_idle() && w.input.is_some());
        let Some(id) = self.workers.iter().position(idle) else { return Ok(false) };
        let used = self.memory_used();
        let of = self.workers[id].as_ref().map_or(0, |w| self.memory_of(w, 0));
        if used > of && used - of + self.need(group) > self.memory {
            return Ok(false);
        }
        let (_, points) = self.groups.pop_front().expect("just seen");
        let order = self.order(&points)?;
        let worker = self.workers[id].as_mut().expect("just seen");
        if let Some(input) = &mut worker.input {
            let _ = writeln!(input, "{order}").and_then(|()| input.flush());
        }
        (worker.group, worker.aged) = (group, false);
        worker.waiting = points.iter().copied().collect();
        (worker.points, worker.slots) = (points, Vec::new());
        self.watch.event(Event::Ageing);
        Ok(true)
    }

    fn start_worker(&mut self) -> Result<bool, Stopped> {
        let Some(&(group, _)) = self.groups.front() else { return Ok(false) };
        let used = self.memory_used();
        if used > 0 && used + self.need(group) > self.memory {
            return Ok(false);
        }
        let (_, points) = self.groups.pop_front().expect("just seen");
        let worker = self.spawn(group, points)?;
        self.workers.push(Some(worker));
        self.watch.event(Event::Ageing);
        Ok(true)
    }

    fn note_memory(&mut self) {
        if std::mem::replace(&mut self.memory_noted, true) {
            return;
        }
        let most = |of: fn(&Group) -> u64| gib(self.plan.groups.iter().map(of).max().unwrap_or(0));
        self.watch.event(Event::Note(format!(
            "fewer than {} at once: a drive takes {:.1} GiB of memory, a point beside others {:.1} \
             GiB, and {:.1} GiB are available",
            self.options.jobs,
            most(|g| g.memory),
            most(|g| g.of_point),
            gib(self.memory)
        )));
    }

    fn order(&self, points: &[usize]) -> Result<String, Stopped> {
        let of = |&i: &usize| (self.plan.points[i].clone(), self.store.path(&self.plan.points[i]));
        let order = Order {
            parent: std::process::id() as i32,
            build: self.options.build.clone(),
            cache: self.options.cache.clone(),
            points: points.iter().map(of).collect(),
        };
        serde_json::to_string(&order).map_err(|e| Stopped::Broken(e.to_string()))
    }

    fn spawn(&self, group: usize, points: Vec<usize>) -> Result<Worker, Stopped> {
        let mut child = Command::new(&self.options.program)
            .args(&self.options.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C at a terminal goes to one process group: this program's, which ends workers.
            .process_group(0)
            .spawn()
            .map_err(|e| {
                let program = self.options.program.clone();
                Stopped::Start { program, why: explain(&e) }
            })?;
        let mut input = child.stdin.take().expect("asked for");
        let output = child.stdout.take().expect("asked for");
        let order = self.order(&points)?;
        let _ = writeln!(input, "{order}").and_then(|()| input.flush());
        let (id, tell) = (self.workers.len(), self.tell.clone());
        std::thread::spawn(move || listen(id, output, &tell));
        Ok(Worker {
            child,
            input: Some(input),
            group,
            aged: false,
            waiting: points.iter().copied().collect(),
            points,
            slots: Vec::new(),
        })
    }

    fn hear(&mut self, id: usize, heard: Heard) -> Result<(), Stopped> {
        let Some(worker) = &mut self.workers[id] else { return Ok(()) };
        let said = match heard {
            Heard::Said(said) => said,
            Heard::Closed => {
                let expected = worker.input.is_none();
                let status = worker.child.wait();
                self.workers[id] = None;
                return match status {
                    Ok(status) if !expected => Err(Stopped::Ended(status)),
                    _ => Ok(()),
                };
            }
        };
        match said {
            Said::Aged => {
                worker.aged = true;
                self.watch.event(Event::Aged);
            }
            Said::Note(text) => self.watch.event(Event::Note(text)),
            Said::At(i, thousandths) => {
                self.watch.event(Event::At(worker.points[i], thousandths));
            }
            Said::Done(i) => {
                let first = worker.points[i];
                worker.ended(first);
                // A metric that no result has is found at the first point.
                is_there(self.study, &self.plan.points[first], self.store)?;
                for &point in &self.alike[&*self.plan.points[first].key] {
                    self.done += 1;
                    self.watch.event(Event::Done(point));
                }
            }
            Said::Failed(i, why) => {
                let first = worker.points[i];
                if worker.ended(first) {
                    for &point in &self.alike[&*self.plan.points[first].key] {
                        self.watch.event(Event::Failed(point, why.clone()));
                        self.failed.push(Failed { point, why: why.clone() });
                    }
                }
            }
            Said::Broken(message) => return Err(Stopped::Broken(message)),
        }
        Ok(())
    }
}

fn listen(id: usize, output: impl std::io::Read, tell: &Sender<(usize, Heard)>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let said = serde_json::from_str(&line)
            .unwrap_or_else(|_| Said::Broken(format!("a worker said: {line}")));
        if tell.send((id, Heard::Said(said))).is_err() {
            return;
        }
    }
    let _ = tell.send((id, Heard::Closed));
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}
