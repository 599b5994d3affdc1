//! A sort of more than memory holds: sorted runs are made of the input, then merged into the output. As
//! much is written as is read.

use crate::config::{AppConfig, MOST_THREADS, PageCost};
use crate::ops::Report;
use crate::pagerank::{share, work};
use crate::server::MOST_BYTES;
use crate::shell::{Model, Shell, Step, Then, ThreadId};
use crate::space::Extent;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use wordline_base::{BadValue, IdVec, Rng, SECTOR, Seed, Span, Time};

/// An external merge sort; each thread sorts a part of the input.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SortConfig {
    /// Threads, each with a part of the input.
    pub threads: u32,
    /// Reads or writes that a thread has in flight.
    pub depth: u32,
    /// 0: three tenths of the program's part of the drive, 16 GiB at most.
    pub input_bytes: u64,
    /// What a thread sorts at a time in memory: the length of a run.
    pub run_bytes: u64,
    /// Bytes of a read or a write; a merge holds so much of each run.
    pub io_bytes: u64,
    /// Processor time of a MiB, to sort it in memory.
    pub sort_cost: Span,
    /// Processor time of a MiB, to merge it.
    pub merge_cost: Span,
}

impl SortConfig {
    pub(crate) fn check(&self) -> Vec<BadValue> {
        let mut wrong = Vec::new();
        let mut bad = |key, why: String| wrong.push(BadValue::new(key, why));
        for (key, n, most) in [("threads", self.threads, MOST_THREADS), ("depth", self.depth, 4096)]
        {
            if !(1..=most).contains(&n) {
                bad(key, format!("must be from 1 to {most}, not {n}"));
            }
        }
        let io = self.io_bytes;
        if io == 0 || !io.is_multiple_of(SECTOR) || io > 1 << 30 {
            bad("io_bytes", format!("must be a multiple of {SECTOR}, 1 GiB at most, not {io}"));
        } else if self.run_bytes == 0 || !self.run_bytes.is_multiple_of(io) {
            bad("run_bytes", format!("must be a multiple of io_bytes = {io}"));
        }
        wrong
    }
}

/// A part of the input on its way to the output.
#[derive(Debug)]
struct Thread {
    begun: Time,
    /// When the part under way began.
    part: Time,
    state: State,
    rng: Rng,
}

#[derive(Debug)]
enum State {
    Idle,
    /// The next sector of the input.
    Runs(u64),
    /// `left`: for each run that is not used up, the next sector to read and where the run ends.
    Merge {
        left: Vec<(u64, u64)>,
        blocks: Blocks,
    },
    Ended,
}

/// Sizes of the blocks that were read and not written yet.
type Blocks = VecDeque<u64>;

#[derive(Debug)]
pub(crate) struct Sort {
    c: SortConfig,
    input: u64,
    threads: IdVec<ThreadId, Thread>,
    reads: u64,
    read_sectors: u64,
    writes: u64,
    write_sectors: u64,
}

const SORT: usize = 0;
const RUNS: usize = 1;
const MERGE: usize = 2;

impl Sort {
    pub fn new(
        app: &AppConfig,
        c: &SortConfig,
        sectors: u64,
        seed: Seed,
    ) -> Result<(Shell, Sort), BadValue> {
        let input = match c.input_bytes {
            0 => (sectors * 3 / 10).min(MOST_BYTES / SECTOR),
            bytes => bytes.div_ceil(SECTOR),
        };
        if input < c.threads.into() {
            let why = format!(
                "is {input} sectors of {SECTOR} bytes for {} threads: each needs one at least (app.sort.threads)",
                c.threads
            );
            return Err(BadValue::new("sort.input_bytes", why));
        }
        if input.saturating_mul(3) > sectors {
            let gb = |sectors: u64| sectors as f64 * SECTOR as f64 / 1e9;
            let why = format!(
                "leaves {:.3} GB, which do not hold {:.3} GB of input, as much of runs and as much of \
                 output: use less input (app.sort.input_bytes; 0 follows the drive), or a larger drive \
                 or part of it",
                gb(sectors),
                gb(input)
            );
            return Err(BadValue::new("size", why));
        }
        let mut shell =
            Shell::new(app, &["sort", "runs", "merge"], (0, PageCost::default()), sectors);
        (0..c.threads).for_each(|_| shell.add("sorters", c.depth, true));
        let thread = |t| Thread {
            begun: Time::ZERO,
            part: Time::ZERO,
            state: State::Idle,
            rng: seed.stream(&format!("app/merge/{t}")),
        };
        let threads = (0..c.threads).map(thread).collect();
        let (reads, read_sectors, writes, write_sectors) = (0, 0, 0, 0);
        let sort =
            Sort { c: c.clone(), input, threads, reads, read_sectors, writes, write_sectors };
        Ok((shell, sort))
    }

    fn read(&mut self, shell: &mut Shell, t: u32, extent: Extent) {
        self.reads += shell.push_reads(t, extent, self.c.io_bytes / SECTOR);
        self.read_sectors += extent.sectors;
    }
    fn write(&mut self, shell: &mut Shell, t: u32, extent: Extent) {
        shell.push_writes(t, extent, self.c.io_bytes / SECTOR);
        self.writes += extent.sectors.div_ceil(self.c.io_bytes / SECTOR);
        self.write_sectors += extent.sectors;
    }

    /// One run: read, sorted, written behind the input.
    fn run(&mut self, shell: &mut Shell, t: u32, from: u64) -> u64 {
        let (_, end) = share(self.input, t, self.c.threads);
        let sectors = (self.c.run_bytes / SECTOR).min(end - from);
        self.read(shell, t, Extent { at: from, sectors });
        shell.push(t, Step::Drain);
        shell.push(t, Step::Compute(work(self.c.sort_cost, sectors)));
        self.write(shell, t, Extent { at: self.input + from, sectors });
        shell.push(t, Step::Drain);
        from + sectors
    }

    /// One block of a run, and once there is one of each run, one of the output.
    fn merge(
        &mut self,
        shell: &mut Shell,
        t: u32,
        left: &mut Vec<(u64, u64)>,
        blocks: &mut Blocks,
    ) {
        let (first, end) = share(self.input, t, self.c.threads);
        let runs = (end - first).div_ceil(self.c.run_bytes / SECTOR);
        if left.is_empty() || blocks.len() as u64 >= runs {
            let Some(sectors) = blocks.pop_front() else { return };
            // What is behind is what is neither read nor held.
            let ahead: u64 = left.iter().map(|(at, end)| end - at).sum();
            let held = sectors + blocks.iter().sum::<u64>();
            let at = 2 * self.input + end - ahead - held;
            shell.push(t, Step::Work(work(self.c.merge_cost, sectors)));
            self.write(shell, t, Extent { at, sectors });
        }
        if left.is_empty() {
            return;
        }
        // The first time each run in turn, then the one whose block is used up first, which any may be.
        let i = match self.threads[t].rng.below(left.len() as u64) as usize {
            _ if (blocks.len() as u64) < runs && left.len() as u64 == runs => blocks.len(),
            drawn => drawn,
        };
        let (at, end) = left[i];
        let sectors = (self.c.io_bytes / SECTOR).min(end - at);
        self.read(shell, t, Extent { at: self.input + at, sectors });
        blocks.push_back(sectors);
        left[i].0 += sectors;
        if left[i].0 == end {
            left.swap_remove(i);
        }
    }
}

impl Model for Sort {
    fn resume(&mut self, shell: &mut Shell, t: u32, now: Time) -> Then {
        let (first, end) = share(self.input, t, self.c.threads);
        let thread = &mut self.threads[t];
        match std::mem::replace(&mut thread.state, State::Ended) {
            State::Ended => return Then::End,
            State::Idle => {
                if !shell.may_begin(now) {
                    return Then::End;
                }
                shell.ops.begun += 1;
                (thread.begun, thread.part) = (now, now);
                thread.state = State::Runs(first);
            }
            State::Runs(from) if from < end => {
                let next = self.run(shell, t, from);
                self.threads[t].state = State::Runs(next);
            }
            State::Runs(_) => {
                shell.ops.measured(RUNS, thread.part, now);
                thread.part = now;
                let run = self.c.run_bytes / SECTOR;
                let runs = (0..(end - first).div_ceil(run))
                    .map(|r| (first + r * run, end.min(first + (r + 1) * run)));
                thread.state = State::Merge { left: runs.collect(), blocks: Blocks::new() };
            }
            State::Merge { left, blocks } if left.is_empty() && blocks.is_empty() => {
                shell.ops.measured(MERGE, thread.part, now);
                shell.ops.finish(SORT, thread.begun, now);
                thread.state = State::Idle;
            }
            State::Merge { mut left, mut blocks } => {
                self.merge(shell, t, &mut left, &mut blocks);
                if left.is_empty() && blocks.is_empty() {
                    shell.push(t, Step::Drain);
                }
                self.threads[t].state = State::Merge { left, blocks };
            }
        }
        Then::Go
    }

    fn layout(&self) -> Vec<Extent> {
        vec![Extent { at: 0, sectors: self.input }]
    }

    fn report(&self, report: &mut Report) {
        report.counters.extend([
            ("input_bytes", self.input * SECTOR),
            ("reads", self.reads),
            ("read_bytes", self.read_sectors * SECTOR),
            ("writes", self.writes),
            ("write_bytes", self.write_sectors * SECTOR),
        ]);
    }

    fn check(&self) {
        for thread in &self.threads {
            if let State::Merge { left, .. } = &thread.state {
                assert!(left.iter().all(|(at, end)| at < end), "a run that is read is dropped");
            }
        }
    }
}
