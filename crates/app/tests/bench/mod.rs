//! A drive that takes a drawn time for every I/O and remembers what was written where.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use wordline_app::{App, AppConfig, Doing};
use wordline_base::life::LAYERS;
use wordline_base::{BitMap, Ddir, Layer, Rng, SECTOR, Seed, Span, Time, Workload};

pub const US: Span = Span::from_us(1);

/// A program's frame, without what it is.
pub fn config() -> AppConfig {
    AppConfig {
        operations: 0,
        runtime: Span::from_ms(1500),
        ramp_time: Span::from_ms(10),
        offset: 1 << 20,
        size: 0,
        workload_attr: Workload::None,
        cores: Vec::new(),
        lsm: None,
        btree: None,
        web: None,
        kv: None,
        pagerank: None,
        sort: None,
    }
}

/// A drive: which sectors hold data, and what every I/O was.
pub struct Bench {
    pub app: App,
    pub written: BitMap,
    events: BinaryHeap<Reverse<Event>>,
    seq: u64,
    rng: Rng,
    in_flight: Vec<u32>,
    /// Sleeps, or waits for one of its I/Os.
    idle: Vec<bool>,
    reaping: Vec<bool>,
    /// Until when it works, whoever asks.
    busy: Vec<Time>,
    done: Vec<bool>,
    pub reads: u64,
    pub writes: u64,
    pub flushes: u64,
    pub write_sectors: u64,
    pub now: Time,
    /// When it was issued, by whom, and what.
    pub ios: Vec<Io>,
}

/// When a thread asks next, or has an I/O back that took so long; a count of events is between.
type Event = (Time, u64, u32, Option<Span>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Io {
    pub at: Time,
    pub thread: u32,
    pub ddir: Ddir,
    pub offset: u64,
    pub len: u32,
    pub took: Span,
}

impl Bench {
    pub fn new(config: &AppConfig, seed: u64) -> Bench {
        let bytes = 160 << 20;
        let app = App::new("test", config, bytes, Seed(seed)).unwrap();
        let threads = app.threads().count();
        let mut written = BitMap::new((bytes / SECTOR) as usize);
        for run in app.layout() {
            for s in run.at..run.at + run.sectors {
                assert!(written.set(s as usize), "the load writes sector {s} twice");
            }
        }
        let mut bench = Bench {
            app,
            written,
            events: BinaryHeap::new(),
            seq: 0,
            rng: Rng::from_seed(seed),
            in_flight: vec![0; threads],
            idle: vec![false; threads],
            reaping: vec![false; threads],
            busy: vec![Time::ZERO; threads],
            done: vec![false; threads],
            reads: 0,
            writes: 0,
            flushes: 0,
            write_sectors: 0,
            now: Time::ZERO,
            ios: Vec::new(),
        };
        (0..threads as u32).for_each(|t| bench.at(Time::ZERO, t, None));
        bench
    }

    fn at(&mut self, at: Time, t: u32, back: Option<Span>) {
        self.seq += 1;
        self.events.push(Reverse((at, self.seq, t, back)));
    }

    fn io(&mut self, t: u32, ddir: Ddir, offset: u64, len: u32) {
        self.in_flight[t as usize] += 1;
        let (first, n) = (offset / SECTOR, u64::from(len) / SECTOR);
        assert!(ddir.is_sync() || offset >= 1 << 20 && n > 0, "{ddir:?} at {offset}");
        for s in first as usize..(first + n) as usize {
            match ddir {
                Ddir::Read => {
                    assert!(self.written.get(s), "sector {s} is read and was not written")
                }
                Ddir::Write => drop(self.written.set(s)),
                Ddir::Trim => drop(self.written.clear(s)),
                _ => {}
            }
        }
        let us = match ddir {
            Ddir::Read => 80 + self.rng.below(40),
            Ddir::Write => 10 + n,
            _ => 20 + self.rng.below(2000),
        };
        self.reads += u64::from(ddir == Ddir::Read);
        self.writes += u64::from(ddir == Ddir::Write);
        self.flushes += u64::from(ddir.is_sync());
        self.write_sectors += if ddir == Ddir::Write { n } else { 0 };
        self.ios.push(Io { at: self.now, thread: t, ddir, offset, len, took: US * us });
        self.at(self.now + US * us, t, Some(US * us));
    }

    fn work(&mut self, t: u32, span: Span) {
        self.busy[t as usize] = self.now + span;
        self.at(self.now + span, t, None);
    }

    /// Asks the thread until it has all its I/Os out, computes or sleeps.
    fn ask(&mut self, t: u32) {
        let i = t as usize;
        let depth = self.app.threads().nth(i).unwrap().depth;
        (self.idle[i], self.reaping[i]) = (false, false);
        while !self.done[i] {
            if self.in_flight[i] >= depth {
                self.reaping[i] = true;
                return;
            }
            match self.app.next(t, self.now) {
                Doing::Io { ddir, offset, len } => {
                    self.io(t, ddir, offset, len);
                    if ddir.is_sync() || ddir == Ddir::Trim || depth == 1 {
                        self.reaping[i] = true;
                        return;
                    }
                }
                Doing::Compute(span) => {
                    assert_eq!(self.in_flight[i], 0, "works with I/Os in flight");
                    return self.work(t, span);
                }
                Doing::Work(span) => return self.work(t, span),
                Doing::Until(at) => {
                    self.idle[i] = true;
                    return self.at(at, t, None);
                }
                Doing::Asleep => {
                    self.idle[i] = true;
                    return;
                }
                Doing::Reap => {
                    assert!(self.in_flight[i] > 0, "waits for what is not in flight");
                    self.reaping[i] = true;
                    return;
                }
                Doing::Done => self.done[i] = true,
            }
        }
    }

    /// One event; false at the end.
    pub fn step(&mut self) -> bool {
        let Some(Reverse((at, _, t, back))) = self.events.pop() else { return false };
        self.now = at;
        let i = t as usize;
        if let Some(latency) = back {
            self.in_flight[i] -= 1;
            let mut by_layer = [0; LAYERS];
            by_layer[Layer::Nand as usize] = latency.0;
            self.app.finished(t, &by_layer);
            if self.reaping[i] {
                self.ask(t);
            }
        } else if !self.reaping[i] && self.now >= self.busy[i] {
            // A timer that a wake-up overtook is asked once more, as a spurious wake-up is.
            self.ask(t);
        }
        while let Some(t) = self.app.take_wake() {
            if std::mem::take(&mut self.idle[t as usize]) {
                self.at(self.now, t, None);
            }
        }
        true
    }

    pub fn run(mut self, seed: u64) -> Bench {
        let mut steps = 0u64;
        while self.step() {
            steps += 1;
            if steps.is_multiple_of(5000) {
                self.app.check();
            }
            assert!(steps < 50_000_000, "seed {seed}: no end");
        }
        self.app.check();
        assert!(
            self.done.iter().all(|&d| d),
            "seed {seed}: threads sleep for ever: {:?}",
            self.done
        );
        let report = self.app.report();
        assert_eq!(report.failure, None, "seed {seed}");
        // Clients end between operations; writers beside them are cut off.
        assert!(report.begun - report.finished <= 8, "seed {seed}");
        self
    }
    pub fn counter(&self, name: &str) -> u64 {
        let counters = self.app.report().counters;
        counters.iter().find(|(k, _)| *k == name).unwrap_or_else(|| panic!("{name}")).1
    }
    pub fn count(&self, op: &str) -> u64 {
        self.app.report().ops.iter().find(|o| o.name == op).map_or(0, |o| o.latency.len())
    }
}
