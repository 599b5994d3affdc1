//! The file system on a drive of a fixed latency with a volatile cache.

mod contents;
mod crash;
mod errors;
mod journal;
mod locks;
mod medium;
mod pages;
mod unwritten;

use crate::cache::{Key, META};
use crate::config::*;
use crate::fs::*;
pub(crate) use crate::stats::FsStats;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wordline_base::{IdVec, Rng, Seed, Span, Time};

pub(crate) fn config(kind: FsKind) -> FsConfig {
    let ns = Span;
    FsConfig {
        kind,
        memory: 64 << 20,
        dirty_ratio: 20,
        dirty_background_ratio: 10,
        dirty_expire: Span::from_secs(30),
        dirty_writeback: Span::from_secs(5),
        read_ahead: 128 << 10,
        atime: Atime::Noatime,
        time_granularity: Span::from_ms(1),
        barrier: true,
        cold: false,
        ext4: Ext4Config {
            data: DataMode::Ordered,
            commit: Span::from_secs(5),
            journal_async_commit: false,
            delalloc: true,
            dioread_nolock: false,
            journal_blocks: 0,
            blocks_per_group: 32_768,
            bytes_per_inode: 16_384,
            inode_size: 256,
            flex_groups: 16,
            group_prealloc: 512,
            stream_request: 16,
            extent_max_zeroout: 32 << 10,
        },
        xfs: XfsConfig {
            ag_count: 4,
            inode_size: 512,
            log_blocks: 0,
            log_buffers: 8,
            log_buffer_bytes: 32 << 10,
            sync: Span::from_secs(30),
            cil_limit: 0,
        },
        cost: FsCost {
            call: ns(300),
            page: ns(100),
            page_add: ns(200),
            copy: ns(400),
            map: ns(100),
            allocate: ns(1000),
            path: ns(500),
            directory: ns(200),
            inode: ns(1000),
            handle: ns(200),
            join: ns(100),
            commit: ns(200),
            write_back: ns(200),
        },
    }
}

pub(crate) const DRIVE: u64 = 1 << 30;
const BIO_NS: u64 = 10_000;
const FLUSH_NS: u64 = 30_000;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Run(u32),
    Bio(u32),
    Timer,
}

/// Each task on a core of its own.
pub(crate) struct Machine {
    pub fs: Fs,
    pub now: Time,
    events: BTreeSet<(Time, u64, Event)>,
    seq: u64,
    timer: Option<Time>,
    flying: BTreeMap<u32, Bio>,
    /// Every bio, in order of submission; when it ended.
    pub bios: Vec<Bio>,
    pub crash: Option<medium::Medium>,
    /// Bios take longer by a random time, and end in another order.
    pub jitter: Option<Rng>,
    /// Bios of a kind that take so much longer.
    pub slow: Option<(What, Span)>,
    /// How many of the next bios of a kind fail.
    pub fails: Option<(BioKind, What, u32)>,
    pub todo: IdVec<TaskId, VecDeque<Op>>,
    pub done: Vec<(u32, Op, bool)>,
}

impl Machine {
    pub fn of(mut fs: Fs, apps: u32) -> Machine {
        fs.shadow = Some(BTreeMap::new());
        let tasks = fs.tasks.len() as u32;
        let mut machine = Machine {
            fs,
            now: Time::ZERO,
            events: BTreeSet::new(),
            seq: 0,
            timer: None,
            flying: BTreeMap::new(),
            bios: Vec::new(),
            crash: None,
            jitter: None,
            slow: None,
            fails: None,
            todo: (0..apps).map(|_| VecDeque::new()).collect(),
            done: Vec::new(),
        };
        for task in apps..tasks {
            machine.at(Time::ZERO, Event::Run(task));
        }
        machine
    }

    fn at(&mut self, at: Time, event: Event) {
        self.seq += 1;
        self.events.insert((at, self.seq, event));
    }

    /// Brings calls to a task, which makes them one after the other.
    pub fn give(&mut self, task: u32, ops: impl IntoIterator<Item = Op>) {
        let idle = self.todo[task].is_empty();
        self.todo[task].extend(ops);
        if idle && let Some(&op) = self.todo[task].front() {
            self.call_of(task, op);
            self.at(self.now, Event::Run(task));
        }
    }
    fn call_of(&mut self, task: u32, op: Op) {
        if let Some(medium) = &mut self.crash {
            medium.called(&op);
        }
        self.fs.call(self.now, task, op);
    }

    fn run(&mut self, task: u32) {
        loop {
            let turn = self.fs.run(self.now, task);
            if let Some(medium) = &mut self.crash {
                medium.look(&mut self.fs);
            }
            match turn {
                Turn::Work(span) => return self.at(self.now + span, Event::Run(task)),
                Turn::Sleep => return,
                Turn::Submit(bio) => {
                    assert!(bio.offset + u64::from(bio.len) <= self.fs.bytes(), "{bio:?}");
                    let mut span = BIO_NS + u64::from(bio.len) / 4;
                    if bio.preflush || bio.kind == BioKind::Flush {
                        span += FLUSH_NS;
                    }
                    if let Some((what, by)) = self.slow
                        && what == bio.what
                    {
                        span += by.0;
                    }
                    if let Some(jitter) = &mut self.jitter {
                        span += jitter.below(20 * BIO_NS) * jitter.below(2);
                    }
                    self.bios.push(bio);
                    self.flying.insert(bio.id, bio);
                    if let Some(medium) = &mut self.crash {
                        medium.submitted(&self.fs, &bio);
                    }
                    self.at(self.now + Span(span), Event::Bio(bio.id));
                }
                Turn::Done { ok } => {
                    let Some(op) = self.todo[task].pop_front() else { return };
                    if let Some(medium) = &mut self.crash {
                        medium.returned(&self.fs, &op, ok);
                    }
                    self.done.push((task, op, ok));
                    match self.todo[task].front() {
                        Some(&op) => {
                            self.call_of(task, op);
                            // The way into direct I/O is the host's cost.
                            if let Op::Read { direct: true, .. } | Op::Write { direct: true, .. } =
                                op
                            {
                                return self.at(self.now + Span(500), Event::Run(task));
                            }
                        }
                        None => return,
                    }
                }
            }
        }
    }

    /// One event; false when there is none before `until`.
    pub fn step(&mut self, until: Time) -> bool {
        if let Some(at) = self.fs.deadline()
            && self.timer.is_none_or(|t| at < t)
        {
            self.timer = Some(at);
            self.at(at.max(self.now), Event::Timer);
        }
        let Some(&(at, seq, event)) = self.events.first() else { return false };
        if at > until {
            return false;
        }
        self.events.remove(&(at, seq, event));
        self.now = at;
        match event {
            Event::Run(task) => self.run(task),
            Event::Bio(id) => {
                let bio = self.flying.remove(&id).unwrap();
                if let Some(medium) = &mut self.crash {
                    medium.done(&self.fs, &bio);
                }
                let ok = match &mut self.fails {
                    Some((kind, what, n)) if (*kind, *what) == (bio.kind, bio.what) && *n > 0 => {
                        *n -= 1;
                        false
                    }
                    _ => true,
                };
                self.fs.bio_done(self.now, id, ok);
                if let Some(medium) = &self.crash {
                    medium.believed(&self.fs);
                }
            }
            Event::Timer => {
                self.timer = None;
                self.fs.on_timer(self.now);
            }
        }
        while let Some(task) = self.fs.poll_wake() {
            self.at(self.now, Event::Run(task));
        }
        true
    }

    pub fn busy(&self) -> bool {
        self.todo.iter().any(|t| !t.is_empty())
    }
    /// Until every call is back.
    pub fn finish(&mut self) {
        let limit = self.now + Span::from_secs(100);
        while self.busy() {
            assert!(self.step(limit), "calls do not come back: {}", self.stuck());
        }
    }
    pub fn idle_for(&mut self, span: Span) {
        let until = self.now + span;
        while self.step(until) {}
        self.now = until;
    }
    fn stuck(&self) -> String {
        let waits = (0..self.fs.tasks.len() as u32)
            .map(|t| format!("{t}: {:?} in {:?}", self.fs.waits_for(t), self.fs.tasks[t].frames));
        waits.collect::<Vec<_>>().join("\n")
    }
    /// Which of these succeed.
    pub fn tried(&mut self, ops: impl IntoIterator<Item = Op>) -> Vec<bool> {
        self.done.clear();
        self.give(0, ops);
        self.finish();
        self.done.iter().map(|d| d.2).collect()
    }
    /// All of these must succeed.
    pub fn call(&mut self, ops: impl IntoIterator<Item = Op>) {
        self.done.clear();
        self.give(0, ops);
        self.finish();
        for (_, op, ok) in &self.done {
            assert!(ok, "{op:?} failed");
        }
    }

    /// No two owners of a block, and what is not owned is free.
    pub fn check_space(&self, held: u64) {
        let fs = &self.fs;
        fs.cache.check();
        let mut owners = BTreeSet::new();
        let mut own = |block: u64, what: &str| {
            assert!(!fs.disk.space.is_free(block), "{what} {block} is free");
            assert!(owners.insert(block), "{what} {block} has two owners");
        };
        for inode in &fs.inodes {
            for e in inode.extents.iter() {
                (e.block..e.block + e.len).for_each(|b| own(u64::from(b), "block"));
            }
            inode.extents.tree().for_each(|b| own(b, "tree block"));
            inode.extents.check(&fs.disk.shape());
            if let Some(r) = inode.reserve {
                (r.block..r.block + u64::from(r.len)).for_each(|b| own(b, "reserved block"));
            }
        }
        for dir in &fs.dirs {
            let leaves = dir.leaves.values().map(|l| &l.block);
            leaves.chain(&dir.index).chain(&dir.data).for_each(|&b| own(b, "directory block"));
        }
        assert!(held >= owners.len() as u64, "{held} blocks are taken, {} owned", owners.len());
    }
}

pub(crate) fn open(file: u32) -> Op {
    Op::Open { file, create: true, write: true, advice: Advice::Normal, drop: false }
}
pub(crate) fn write(file: u32, offset: u64, len: u32) -> Op {
    Op::Write { file, offset, len, direct: false, sync: false, data_only: false, queued: false }
}
pub(crate) fn read(file: u32, offset: u64, len: u32) -> Op {
    Op::Read { file, offset, len, direct: false, queued: false }
}
pub(crate) fn fsync(file: u32) -> Op {
    Op::Fsync { file, data_only: false }
}
pub(crate) fn files(fs: &mut Fs, n: u32) -> u32 {
    let dir = fs.add_dir();
    for i in 0..n {
        fs.add_file(dir, 8, i.wrapping_mul(0x9E37_79B9));
    }
    dir
}
pub(crate) fn rng(seed: u64) -> Rng {
    Seed(seed).stream("fs/tests")
}
pub(crate) fn meta(block: u64) -> Key {
    Key::new(META, block)
}
