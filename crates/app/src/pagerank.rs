//! Rounds over a graph that does not fit into memory: all edges are read in order, then the new ranks are
//! written. Between the two, and before the next round, the threads wait for each other.

use crate::config::{AppConfig, MOST_THREADS, PageCost};
use crate::ops::Report;
use crate::server::MOST_BYTES;
use crate::shell::{Model, Shell, Step, Then, ThreadId};
use crate::space::Extent;
use serde::{Deserialize, Serialize};
use wordline_base::{BadValue, IdVec, Rng, SECTOR, Seed, Span, Time};

/// PageRank with edges on the drive and ranks in memory, written once a round.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PagerankConfig {
    /// Threads, each with a part of the graph.
    pub threads: u32,
    /// Reads or writes that a thread has in flight.
    pub depth: u32,
    /// Bytes of all edges; 0: half of the program's part of the drive, 16 GiB at most.
    pub graph_bytes: u64,
    /// The smallest read of edges; each size up to the largest is as likely, in whole sectors.
    pub read_bytes_min: u64,
    /// The largest read of edges.
    pub read_bytes_max: u64,
    /// Bytes of all ranks, in percent of those of all edges.
    pub ranks: f64,
    /// Bytes of a write of ranks.
    pub write_bytes: u64,
    /// Processor time of a MiB of edges.
    pub gather_cost: Span,
    /// Processor time of a MiB of ranks.
    pub apply_cost: Span,
}

impl PagerankConfig {
    pub(crate) fn check(&self) -> Vec<BadValue> {
        let mut wrong = Vec::new();
        let mut bad = |key, why: String| wrong.push(BadValue::new(key, why));
        for (key, n, most) in [("threads", self.threads, MOST_THREADS), ("depth", self.depth, 4096)]
        {
            if !(1..=most).contains(&n) {
                bad(key, format!("must be from 1 to {most}, not {n}"));
            }
        }
        for (key, bytes) in [
            ("read_bytes_min", self.read_bytes_min),
            ("read_bytes_max", self.read_bytes_max),
            ("write_bytes", self.write_bytes),
        ] {
            if bytes == 0 || !bytes.is_multiple_of(SECTOR) || bytes > 1 << 30 {
                bad(key, format!("must be a multiple of {SECTOR}, 1 GiB at most, not {bytes}"));
            }
        }
        if self.read_bytes_max < self.read_bytes_min {
            let least = self.read_bytes_min;
            bad("read_bytes_max", format!("must be at least read_bytes_min = {least}"));
        }
        if !(0.0..=100.0).contains(&self.ranks) {
            bad("ranks", format!("must be from 0 to 100 percent, not {}", self.ranks));
        }
        wrong
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Gather,
    Apply,
}

/// Where a thread stands in its share of a phase.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The phase that it works on or has ended, counted from the first: even ones gather.
    phase: u64,
    next: u64,
    end: u64,
    ios: u64,
    /// Sectors read and not worked on.
    ahead: u64,
    /// It has ended its share and waits for the others.
    ended: bool,
}

#[derive(Debug)]
pub(crate) struct Pagerank {
    c: PagerankConfig,
    edges: u64,
    ranks: u64,
    rng: Rng,
    threads: IdVec<ThreadId, Place>,
    phase: u64,
    /// Threads that have ended the phase.
    arrived: u32,
    begun: Time,
    reads: u64,
    read_sectors: u64,
    writes: u64,
    write_sectors: u64,
}

const ITERATION: usize = 0;

/// A share of so many sectors: the first, and the one after the last.
pub(crate) fn share(of: u64, t: u32, threads: u32) -> (u64, u64) {
    let (t, n) = (u64::from(t), u64::from(threads));
    (of * t / n, of * (t + 1) / n)
}

/// Processor time of so many sectors.
pub(crate) fn work(mib: Span, sectors: u64) -> Span {
    let bytes = u128::from(sectors * SECTOR);
    Span(((u128::from(mib.0) * bytes) >> 20) as u64)
}

impl Pagerank {
    pub fn new(
        app: &AppConfig,
        c: &PagerankConfig,
        sectors: u64,
        seed: Seed,
    ) -> Result<(Shell, Pagerank), BadValue> {
        let edges = match c.graph_bytes {
            0 => (sectors / 2).min(MOST_BYTES / SECTOR),
            bytes => bytes.div_ceil(SECTOR),
        };
        // Rounded up, but for none at all.
        let ranks = libm::ceil(edges as f64 * c.ranks / 100.0) as u64;
        // The ranks of the round before stay until the new ones are there.
        if edges == 0 || edges.saturating_add(2 * ranks) > sectors {
            let gb = |sectors: u64| (sectors as f64) * SECTOR as f64 / 1e9;
            let why = format!(
                "leaves {:.3} GB, which do not hold {:.3} GB of edges and twice {:.3} GB of ranks: use \
                 a smaller graph (app.pagerank.graph_bytes; 0 follows the drive), or a larger drive or \
                 part of it",
                gb(sectors),
                gb(edges),
                gb(ranks)
            );
            return Err(BadValue::new("size", why));
        }
        let mut shell = Shell::new(app, &["iteration"], (0, PageCost::default()), sectors);
        (0..c.threads).for_each(|_| shell.add("scanners", c.depth, true));
        // Nothing to do in a phase before the first: its end begins the first round.
        let place = Place { phase: 0, next: 0, end: 0, ios: 0, ahead: 0, ended: false };
        let pagerank = Pagerank {
            c: c.clone(),
            edges,
            ranks,
            rng: seed.stream("app/reads"),
            threads: IdVec::filled(place, c.threads),
            phase: 0,
            arrived: 0,
            begun: Time::ZERO,
            reads: 0,
            read_sectors: 0,
            writes: 0,
            write_sectors: 0,
        };
        Ok((shell, pagerank))
    }

    /// The kind of the phase under way. Phases are counted from 1.
    fn kind(&self) -> Phase {
        if self.phase % 2 == 1 { Phase::Gather } else { Phase::Apply }
    }

    /// All threads have ended the phase: the next one begins. False at the end of the last round.
    fn turn(&mut self, shell: &mut Shell, now: Time) -> bool {
        if self.kind() == Phase::Apply {
            if self.phase > 0 {
                shell.ops.finish(ITERATION, self.begun, now);
            }
            if !shell.may_begin(now) {
                return false;
            }
            shell.ops.begun += 1;
            self.begun = now;
        }
        self.phase += 1;
        self.arrived = 0;
        shell.wake_all(|_| true);
        true
    }

    /// One more I/O of the thread's share, and the work on one that came back before it.
    fn go_on(&mut self, shell: &mut Shell, t: u32) -> Then {
        let kind = self.kind();
        let place = &mut self.threads[t];
        let left = place.end - place.next;
        let most = match kind {
            Phase::Gather => {
                let (least, most) =
                    (self.c.read_bytes_min / SECTOR, self.c.read_bytes_max / SECTOR);
                least + self.rng.below(most - least + 1)
            }
            Phase::Apply => self.c.write_bytes / SECTOR,
        };
        let sectors = most.min(left);
        let at = place.next;
        place.next += sectors;
        place.ios += 1;
        let full = place.ios > u64::from(self.c.depth);
        match kind {
            Phase::Gather => {
                self.reads += 1;
                self.read_sectors += sectors;
                if full {
                    let back = place.ahead / u64::from(self.c.depth);
                    place.ahead -= back;
                    shell.push(t, Step::Work(work(self.c.gather_cost, back)));
                }
                place.ahead += sectors;
                shell.push(t, Step::Read(Extent { at, sectors }));
            }
            Phase::Apply => {
                self.writes += 1;
                self.write_sectors += sectors;
                // The two places of the ranks take turns.
                let at = self.edges + (self.phase / 2 % 2) * self.ranks + at;
                shell.push(t, Step::Work(work(self.c.apply_cost, sectors)));
                shell.push(t, Step::Write(Extent { at, sectors }));
            }
        }
        if place.next == place.end {
            shell.push(t, Step::Drain);
            shell.push(t, Step::Compute(work(self.c.gather_cost, place.ahead)));
        }
        Then::Go
    }
}

impl Model for Pagerank {
    fn resume(&mut self, shell: &mut Shell, t: u32, now: Time) -> Then {
        let place = self.threads[t];
        if place.phase < self.phase {
            // The others have gone on to the next one.
            let of = if self.kind() == Phase::Gather { self.edges } else { self.ranks };
            let (next, end) = share(of, t, self.c.threads);
            let phase = self.phase;
            self.threads[t] = Place { phase, next, end, ios: 0, ahead: 0, ended: false };
        }
        let place = &mut self.threads[t];
        if place.next < place.end {
            return self.go_on(shell, t);
        }
        if place.ended {
            return Then::Wait;
        }
        place.ended = true;
        self.arrived += 1;
        if self.arrived < self.c.threads {
            return Then::Wait;
        }
        if !self.turn(shell, now) {
            shell.end();
            return Then::End;
        }
        Then::Go
    }

    fn layout(&self) -> Vec<Extent> {
        vec![Extent { at: 0, sectors: self.edges }]
    }

    fn report(&self, report: &mut Report) {
        report.counters.extend([
            ("graph_bytes", self.edges * SECTOR),
            ("rank_bytes", self.ranks * SECTOR),
            ("reads", self.reads),
            ("read_bytes", self.read_sectors * SECTOR),
            ("writes", self.writes),
            ("write_bytes", self.write_sectors * SECTOR),
        ]);
    }

    fn check(&self) {
        let ended = self.threads.iter().filter(|p| p.ended && p.phase == self.phase).count();
        assert_eq!(ended as u32, self.arrived, "threads that wait for the others are counted");
    }
}
