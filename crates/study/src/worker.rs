//! The process that ages a drive once and runs points on copies of it, then another drive. It has
//! one thread and is told by lines on its standard input what to run; it and its copies answer by
//! lines on standard output, each short enough for a pipe to take it whole.

use crate::error::WorkerError;
use crate::plan::Point;
use crate::{fork, machine, store};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, PipeWriter, Read, Write, pipe};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;
use wordline_cache::Cache;
use wordline_fio::ZetanCache;
use wordline_sim::Drive;

/// A drive to prepare: the first line a worker gets, and the first after the points of another.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    pub parent: i32,
    pub build: String,
    /// Where aged drives are kept, if anywhere.
    pub cache: Option<Cache>,
    /// The points of a group, and the file of each one's result.
    pub points: Vec<(Point, PathBuf)>,
}

/// What a worker says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Said {
    Aged,
    /// For the user.
    Note(String),
    /// Point, and how far it is in thousandths.
    At(usize, u64),
    Done(usize),
    /// This point cannot be had; others can.
    Failed(usize, String),
    /// Nothing more will come of this group.
    Broken(String),
}

fn say(said: &Said) {
    let mut line = serde_json::to_string(said).expect("numbers and strings have a JSON form");
    line.push('\n');
    // One write: lines of several processes do not mix. If nobody listens this process is about to
    // be ended.
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// Between two looks at what became of the copies.
const LOOK: Duration = Duration::from_millis(50);

/// Lines of standard input, waited for no longer than asked.
struct Lines {
    input: File,
    buffer: Vec<u8>,
}

enum Next {
    Line(String),
    Nothing,
    End,
}

impl Lines {
    fn new() -> Result<Lines, WorkerError> {
        let input = std::io::stdin().as_fd().try_clone_to_owned()?;
        Ok(Lines { input: File::from(input), buffer: Vec::new() })
    }

    fn next(&mut self, wait: Option<Duration>) -> Result<Next, WorkerError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|&b| b == b'\n') {
                let line = self.buffer.drain(..=end).collect();
                return String::from_utf8(line).map(Next::Line).map_err(order);
            }
            let mut ready = [PollFd::new(&self.input, PollFlags::IN)];
            let wait = wait.map(|wait| Timespec::try_from(wait).expect("a short time"));
            match poll(&mut ready, wait.as_ref()) {
                Ok(0) | Err(Errno::INTR) => return Ok(Next::Nothing),
                Ok(_) => {}
                Err(e) => return Err(e.into()),
            }
            let mut chunk = [0; 1 << 16];
            match self.input.read(&mut chunk)? {
                0 => return Ok(Next::End),
                n => self.buffer.extend_from_slice(&chunk[..n]),
            }
        }
    }
}

fn wrong(why: impl ToString) -> WorkerError {
    WorkerError::Order(why.to_string())
}
fn order(why: impl std::error::Error) -> WorkerError {
    wrong(why)
}

/// The whole life of a worker.
pub fn work() {
    if let Err(error) = try_work() {
        say(&Said::Broken(error.to_string()));
    }
}

fn try_work() -> Result<(), WorkerError> {
    let mut lines = Lines::new()?;
    let Next::Line(first) = lines.next(None)? else {
        return Err(WorkerError::NotStarted);
    };
    let mut order: Order = serde_json::from_str(&first).map_err(order)?;
    fork::end_with_parent(order.parent)?;
    // The next drive is prepared where this one was.
    wordline_huge::keep();
    let mut zetans = ZetanCache::default();
    while let Some(next) = group(&mut lines, &order, &mut zetans)? {
        order = next;
    }
    Ok(())
}

/// Prepares a drive and has its points run as they are asked for; returns the order of another.
fn group(
    lines: &mut Lines,
    order: &Order,
    zetans: &mut ZetanCache,
) -> Result<Option<Order>, WorkerError> {
    let first = &order.points.first().ok_or_else(|| wrong("no points"))?.0;
    let tell = &mut |of_cache: wordline_cache::Said| {
        of_cache.line().into_iter().for_each(|line| say(&Said::Note(line)));
    };
    let mut drives = Some(machine::prepare(first, zetans, order.cache.as_ref(), tell)?);
    say(&Said::Aged);
    let mut copies = Copies { all: Vec::new(), stay: machine::ages_on(first) };
    loop {
        match lines.next(Some(LOOK))? {
            Next::Line(line) if line.starts_with('{') => {
                copies.end();
                if copies.stay {
                    // What copies gave back is taken before the system has other plans for it.
                    drop(drives.clone());
                }
                return serde_json::from_str(&line).map(Some).map_err(self::order);
            }
            Next::Line(line) => {
                let mut words = line.split_whitespace().map(str::parse);
                let (Some(Ok(slot)), Some(Ok(i))) = (words.next(), words.next()) else {
                    return Err(wrong(format!("not a slot and a point: {line}")));
                };
                copies.run(slot, i, order, &mut drives, zetans)?;
            }
            Next::Nothing => {}
            Next::End => {
                copies.end();
                return Ok(None);
            }
        }
        copies.look();
    }
}

/// A copy of this process that runs points.
struct Copy {
    child: Pid,
    slot: usize,
    point: usize,
    /// Tells it the next point, if it stays.
    tell: Option<PipeWriter>,
}

struct Copies {
    all: Vec<Copy>,
    /// Copies stay for further points: they copied the drive into memory of their own, which costs
    /// more to have than to fill.
    stay: bool,
}

impl Copies {
    /// Has a point run by the copy in this slot, or by a new one.
    fn run(
        &mut self,
        slot: usize,
        i: usize,
        order: &Order,
        drives: &mut Option<Vec<Drive>>,
        zetans: &mut ZetanCache,
    ) -> Result<(), WorkerError> {
        order.points.get(i).ok_or_else(|| wrong("no such point"))?;
        let mut there = self.all.iter_mut().filter(|c| c.slot == slot);
        if let Some(copy) = there.find(|c| c.tell.is_some())
            && let Some(tell) = &mut copy.tell
            && writeln!(tell, "{i}").is_ok()
        {
            copy.point = i;
            return Ok(());
        }
        let (hear, tell) = pipe()?;
        let mut tell = Some(tell);
        let child = fork::in_child(|| {
            // The copy's own; the ends of others' pipes are not.
            self.all.clear();
            drop(tell.take());
            let mut drives = drives.take();
            for line in BufReader::new(&hear).lines().map_while(Result::ok) {
                let (Ok(i), Some(prepared)) = (line.parse::<usize>(), &drives) else { break };
                let own = if self.stay { Some(prepared.clone()) } else { drives.take() };
                own.into_iter().for_each(|drives| run(i, order, drives, zetans));
            }
        })?;
        // Before the copy writes there: it has what is given up here to itself.
        wordline_huge::release();
        let told = tell.as_mut().map_or(Ok(()), |tell| writeln!(tell, "{i}"));
        let tell = tell.filter(|_| self.stay && told.is_ok());
        self.all.push(Copy { child, slot, point: i, tell });
        Ok(())
    }

    /// Says of copies that ended without a word what became of them.
    fn look(&mut self) {
        self.all.retain(|copy| {
            let status = match waitpid(Some(copy.child), WaitOptions::NOHANG) {
                Ok(None) | Err(Errno::INTR) => return true,
                Ok(Some((_, status))) => Some(ExitStatus::from_raw(status.as_raw())),
                Err(_) => None,
            };
            let how = match status {
                Some(status) if status.success() => return false,
                Some(status) if status.signal().is_some() => {
                    format!("ended by {status}: memory may have run out, try fewer --jobs")
                }
                _ => "this is a defect of wordline".into(),
            };
            say(&Said::Failed(copy.point, how));
            false
        });
    }

    /// Waits until all have ended: nothing more comes for them.
    fn end(&mut self) {
        self.all.iter_mut().for_each(|copy| copy.tell = None);
        while !self.all.is_empty() {
            self.look();
            std::thread::sleep(LOOK);
        }
    }
}

fn run(i: usize, order: &Order, drives: Vec<Drive>, zetans: &mut ZetanCache) {
    let (point, path) = &order.points[i];
    let mut last = 0;
    let mut at = |thousandths: u64| {
        if thousandths >= last + 50 {
            last = thousandths;
            say(&Said::At(i, thousandths.min(1000)));
        }
    };
    let result = match machine::run(point, drives, zetans, &mut at) {
        Ok(result) => result,
        Err(error) => return say(&Said::Failed(i, error.to_string())),
    };
    match store::write(path, store::record(point, &order.build, &result).as_bytes()) {
        Ok(()) => say(&Said::Done(i)),
        Err(error) => say(&Said::Broken(error.to_string())),
    }
}
