//! The process that ages a drive once and runs points on copies of it. It has one thread and is
//! told by lines on its standard input what to run; it and its copies answer by lines on standard
//! output, each short enough for a pipe to take it whole.

use crate::plan::Point;
use crate::{fork, machine, store};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

/// The first line a worker gets.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    pub parent: i32,
    pub build: String,
    /// The points of a group, and the file of each one's result.
    pub points: Vec<(Point, PathBuf)>,
}

/// What a worker says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Said {
    Aged,
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
const LOOK_MS: u16 = 50;

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
    fn new() -> Result<Lines, String> {
        let input = std::io::stdin().as_fd().try_clone_to_owned().map_err(|e| e.to_string())?;
        Ok(Lines { input: File::from(input), buffer: Vec::new() })
    }

    fn next(&mut self, wait: PollTimeout) -> Result<Next, String> {
        loop {
            if let Some(end) = self.buffer.iter().position(|&b| b == b'\n') {
                let line = self.buffer.drain(..=end).collect();
                return String::from_utf8(line).map(Next::Line).map_err(|e| e.to_string());
            }
            let mut ready = [PollFd::new(self.input.as_fd(), PollFlags::POLLIN)];
            match poll(&mut ready, wait) {
                Ok(0) | Err(Errno::EINTR) => return Ok(Next::Nothing),
                Ok(_) => {}
                Err(e) => return Err(e.to_string()),
            }
            let mut chunk = [0; 1 << 16];
            match self.input.read(&mut chunk).map_err(|e| e.to_string())? {
                0 => return Ok(Next::End),
                n => self.buffer.extend_from_slice(&chunk[..n]),
            }
        }
    }
}

/// The whole life of a worker.
pub fn work() {
    if let Err(message) = try_work() {
        say(&Said::Broken(message));
    }
}

fn try_work() -> Result<(), String> {
    let mut lines = Lines::new()?;
    let Next::Line(first) = lines.next(PollTimeout::NONE)? else {
        return Err("a worker is started by 'wordline study run'".into());
    };
    let order: Order = serde_json::from_str(&first).map_err(|e| e.to_string())?;
    fork::end_with_parent(order.parent)?;
    let first = &order.points.first().ok_or("no points")?.0;
    let mut drive = Some(machine::prepare(first)?);
    say(&Said::Aged);
    let mut children: Vec<(Pid, usize)> = Vec::new();
    loop {
        match lines.next(PollTimeout::from(LOOK_MS))? {
            Next::Line(line) => {
                let i: usize = line.trim().parse().map_err(|_| format!("not a point: {line}"))?;
                let (point, path) = order.points.get(i).ok_or("no such point")?;
                let child = fork::in_child(|| {
                    // The copy's own.
                    let drive = drive.take().expect("taken in copies only");
                    run(i, point, path, &order.build, drive);
                })?;
                children.push((child, i));
            }
            Next::Nothing => {}
            Next::End => break,
        }
        look(&mut children);
    }
    while !children.is_empty() {
        look(&mut children);
        std::thread::sleep(std::time::Duration::from_millis(LOOK_MS.into()));
    }
    Ok(())
}

/// Says of copies that ended without a word what became of them.
fn look(children: &mut Vec<(Pid, usize)>) {
    children.retain(|&(child, i)| {
        let how = match waitpid(child, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => return true,
            Ok(WaitStatus::Exited(_, 0)) => return false,
            Ok(WaitStatus::Signaled(_, signal, _)) => {
                format!("ended by {signal}: memory may have run out, try fewer --jobs")
            }
            _ => "this is a defect of wordline".into(),
        };
        say(&Said::Failed(i, how));
        false
    });
}

fn run(i: usize, point: &Point, path: &std::path::Path, build: &str, drive: wordline_sim::Drive) {
    let mut last = 0;
    let mut at = |thousandths: u64| {
        if thousandths >= last + 50 {
            last = thousandths;
            say(&Said::At(i, thousandths.min(1000)));
        }
    };
    let result = match machine::run(point, drive, &mut at) {
        Ok(result) => result,
        Err(message) => return say(&Said::Failed(i, message)),
    };
    match store::write(path, store::record(point, build, &result).as_bytes()) {
        Ok(()) => say(&Said::Done(i)),
        Err(message) => say(&Said::Broken(message)),
    }
}
