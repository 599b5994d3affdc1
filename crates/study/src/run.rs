//! Runs the points of a plan that have no result yet: a worker process for every group of points
//! that share an aged drive, and as many points at once as there are jobs and memory.

use crate::memory;
use crate::plan::{Group, Plan};
use crate::store::{Store, explain};
use crate::worker::{Order, Said};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Between two questions whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// What happens meanwhile, for whoever watches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// So many results were there before.
    Found(usize),
    Ageing,
    Aged,
    Started(usize),
    /// Point, thousandths.
    At(usize, u64),
    Done(usize),
    Failed(usize, String),
    Note(String),
}

pub trait Watch {
    fn event(&mut self, event: Event);
    /// Whether to stop now.
    fn stop_asked(&self) -> bool;
}

#[derive(Clone, Debug)]
pub struct Options {
    pub jobs: usize,
    /// This program, and the arguments that make it a worker.
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub build: String,
}

/// Why a run came to no end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stopped {
    /// Cannot begin.
    Unusable(String),
    /// Went wrong on the way.
    Broken(String),
    /// So many points are done.
    Asked { done: usize },
}

/// A point that has no result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failed {
    pub point: usize,
    pub why: String,
}

struct Worker {
    child: Child,
    /// None once told that nothing more comes.
    input: Option<ChildStdin>,
    group: usize,
    aged: bool,
    /// Indices of points, and of these in the order it was given.
    points: Vec<usize>,
    waiting: VecDeque<usize>,
    running: Vec<usize>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // With its copies, unless it ended by itself: then they did, too.
        if let Ok(None) = self.child.try_wait() {
            let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL);
        }
        let _ = self.child.wait();
    }
}

enum Heard {
    Said(Said),
    Closed,
}

struct Run<'a> {
    plan: &'a Plan,
    store: &'a Store,
    options: &'a Options,
    watch: &'a mut dyn Watch,
    /// Groups not begun, with their points.
    groups: VecDeque<(usize, Vec<usize>)>,
    workers: Vec<Option<Worker>>,
    heard: Receiver<(usize, Heard)>,
    tell: Sender<(usize, Heard)>,
    memory: u64,
    memory_noted: bool,
    done: usize,
    failed: Vec<Failed>,
}

/// Runs what has no result yet; afterwards the store has all of them but those returned.
pub fn run(
    plan: &Plan,
    store: &Store,
    options: &Options,
    watch: &mut dyn Watch,
) -> Result<Vec<Failed>, Stopped> {
    let has: Vec<bool> = plan.points.iter().map(|p| store.result(p).is_some()).collect();
    let done = has.iter().filter(|&&h| h).count();
    watch.event(Event::Found(done));
    let missing = |g: &Vec<usize>| g.iter().copied().filter(|&i| !has[i]).collect::<Vec<_>>();
    let groups = plan.groups.iter().enumerate().map(|(g, group)| (g, missing(&group.points)));
    let (tell, heard) = channel();
    let run = Run {
        plan,
        store,
        options,
        watch,
        groups: groups.filter(|(_, points)| !points.is_empty()).collect(),
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

impl Run<'_> {
    fn check_memory(&self) -> Result<(), Stopped> {
        let Some(need) = self.groups.iter().map(|(g, _)| self.need(*g)).max() else {
            return Ok(());
        };
        if need <= self.memory {
            return Ok(());
        }
        Err(Stopped::Unusable(format!(
            "a drive of this study takes {:.1} GiB of memory and {:.1} GiB are available: use a \
             smaller drive (set = [\"nand.blocks=N\"]), or integrity = false",
            gib(need),
            gib(self.memory)
        )))
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
        workers.map(|w| if w.aged { w.running.len() } else { 1 }).sum()
    }

    fn memory_used(&self) -> u64 {
        let of = |w: &Worker| {
            let group = &self.plan.groups[w.group];
            group.memory + group.of_point * w.running.len().max(1) as u64
        };
        self.workers.iter().flatten().map(of).sum()
    }

    fn dispatch(&mut self) -> Result<(), Stopped> {
        while self.busy() < self.options.jobs {
            // Points before drives: a drive that is there goes away the sooner.
            if !self.start_point()? && !self.start_worker()? {
                break;
            }
        }
        for worker in self.workers.iter_mut().flatten() {
            if worker.aged && worker.waiting.is_empty() && worker.running.is_empty() {
                worker.input = None;
            }
        }
        Ok(())
    }

    fn start_point(&mut self) -> Result<bool, Stopped> {
        let used = self.memory_used();
        let memory = self.memory;
        for worker in self.workers.iter_mut().flatten() {
            let more = self.plan.groups[worker.group].of_point;
            let fits = worker.running.is_empty() || used + more <= memory;
            if !worker.aged || worker.waiting.is_empty() {
                continue;
            }
            if !fits {
                self.note_memory();
                return Ok(false);
            }
            let (Some(point), Some(input)) = (worker.waiting.pop_front(), &mut worker.input) else {
                continue;
            };
            let i = worker.points.iter().position(|&p| p == point).expect("one of its own");
            // That a worker is gone is heard from its output.
            let _ = writeln!(input, "{i}").and_then(|()| input.flush());
            worker.running.push(point);
            self.watch.event(Event::Started(point));
            return Ok(true);
        }
        Ok(false)
    }

    fn start_worker(&mut self) -> Result<bool, Stopped> {
        let Some(&(group, _)) = self.groups.front() else { return Ok(false) };
        let used = self.memory_used();
        if used > 0 && used + self.need(group) > self.memory {
            self.note_memory();
            return Ok(false);
        }
        let (_, points) = self.groups.pop_front().expect("just seen");
        let worker = self.spawn(group, points).map_err(|e| {
            Stopped::Broken(format!("cannot start {}: {e}", self.options.program.display()))
        })?;
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

    fn spawn(&self, group: usize, points: Vec<usize>) -> Result<Worker, String> {
        let mut child = Command::new(&self.options.program)
            .args(&self.options.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C at a terminal goes to one process group: this program's, which ends workers.
            .process_group(0)
            .spawn()
            .map_err(|e| explain(&e))?;
        let mut input = child.stdin.take().expect("asked for");
        let output = child.stdout.take().expect("asked for");
        let of = |&i: &usize| (self.plan.points[i].clone(), self.store.path(&self.plan.points[i]));
        let order = Order {
            parent: std::process::id() as i32,
            build: self.options.build.clone(),
            points: points.iter().map(of).collect(),
        };
        let text = serde_json::to_string(&order).map_err(|e| e.to_string())?;
        let _ = writeln!(input, "{text}").and_then(|()| input.flush());
        let (id, tell) = (self.workers.len(), self.tell.clone());
        std::thread::spawn(move || listen(id, output, &tell));
        Ok(Worker {
            child,
            input: Some(input),
            group,
            aged: false,
            waiting: points.iter().copied().collect(),
            points,
            running: Vec::new(),
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
                    Ok(status) if !expected => Err(Stopped::Broken(format!(
                        "a worker process ended too early ({status}): memory may have run out, try \
                         fewer --jobs; the same command resumes"
                    ))),
                    _ => Ok(()),
                };
            }
        };
        match said {
            Said::Aged => {
                worker.aged = true;
                self.watch.event(Event::Aged);
            }
            Said::At(i, thousandths) => {
                self.watch.event(Event::At(worker.points[i], thousandths));
            }
            Said::Done(i) => {
                let point = worker.points[i];
                worker.running.retain(|&p| p != point);
                self.done += 1;
                self.watch.event(Event::Done(point));
            }
            Said::Failed(i, why) => {
                let point = worker.points[i];
                worker.running.retain(|&p| p != point);
                self.watch.event(Event::Failed(point, why.clone()));
                self.failed.push(Failed { point, why });
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
