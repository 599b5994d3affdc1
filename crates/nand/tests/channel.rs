//! Who has a channel next (`nand.channel_order`): a few LUNs on one channel against an obvious list of
//! events, and sums that must come out in any order.

use crate::common;

use crate::common::{Arrival, PAGES, run};
use std::collections::{BTreeMap, VecDeque};
use wordline_base::{Ctx, Ddir, IdVec, Rng, Span, Time};
use wordline_nand::{ChannelOrder, Class, NandConfig, OpKind, PerPage, Suspend};

const FIFO: ChannelOrder = ChannelOrder::Fifo;
const COMMANDS: ChannelOrder = ChannelOrder::CommandsFirst;

fn config(luns: u32, channel_order: ChannelOrder) -> NandConfig {
    NandConfig {
        luns_per_channel: luns,
        t_read: PerPage::One(Span(301)),
        t_program: PerPage::One(Span(1003)),
        t_erase: Span(2999),
        // 41 ns for a page.
        channel_rate: 100_000_000_000,
        channel_order,
        ..common::config()
    }
}

/// Classes tell users' reads from the collector's, which are equals here.
fn class_of(kind: OpKind, number: usize) -> Class {
    match kind {
        OpKind::Read => [Class::UserRead, Class::GcRead][number % 2],
        OpKind::Program => Class::UserProgram,
        OpKind::Erase => Class::Erase,
    }
}

fn draw(rng: &mut Rng, n: usize, luns: u32, gap: u64) -> Vec<Arrival> {
    let mut at = 0;
    let mut next: IdVec<u32, u32> = IdVec::filled(0, luns);
    let one = |number| {
        at += rng.below(gap);
        let lun = rng.below(u64::from(luns)) as u32;
        let (old, some) = (32 + rng.below(16) as u32, rng.below(u64::from(PAGES)) as u32);
        let (kind, line, page) = match rng.below(20) {
            0..16 => (OpKind::Read, old, some),
            16 => (OpKind::Erase, 48 + rng.below(16) as u32, 0),
            _ => {
                let n = next[lun];
                next[lun] += 1;
                (OpKind::Program, n / PAGES, n % PAGES)
            }
        };
        Arrival { at, kind, class: class_of(kind, number), lun, line, page, sector: 0, sectors: 1 }
    };
    (0..n).map(one).collect()
}

/// What an event of the model is the end of.
#[derive(Clone, Copy, Debug)]
enum End {
    /// Nothing: it arrives.
    Arrival,
    Transfer,
    Array,
}

#[derive(Default)]
struct Lun {
    queue: VecDeque<usize>,
    current: Option<usize>,
    leaving: Option<usize>,
    /// The current one is read, and the register for its data is not free.
    ready: bool,
}

/// The LUNs of a channel as a list of events, each in its turn.
struct Model<'a> {
    c: &'a NandConfig,
    arrivals: &'a [Arrival],
    /// By time, then by the order in which they were set.
    events: BTreeMap<(u64, u64), (End, usize)>,
    set: u64,
    now: u64,
    luns: Vec<Lun>,
    /// In order of arrival, the channel is free from here on.
    free_at: u64,
    busy: bool,
    commands: VecDeque<usize>,
    data: VecDeque<usize>,
    /// By operation: left of its data, commands that went ahead of those, and when it was over.
    left: Vec<u64>,
    passed: Vec<u32>,
    end: Vec<u64>,
    /// Its data leave, or its command has not been given yet.
    out: Vec<bool>,
    fresh: Vec<bool>,
}

impl Model<'_> {
    fn set(&mut self, at: u64, end: End, op: usize) {
        self.set += 1;
        self.events.insert((at, self.set), (end, op));
    }
    fn page(&self) -> u64 {
        Span::of_bytes(4096, self.c.channel_rate).0
    }
    /// The LUN takes up what is next, if it can.
    fn next(&mut self, lun: usize) {
        let l = &mut self.luns[lun];
        let Some(&op) = l.queue.front() else { return };
        let reads = self.arrivals[op].kind == OpKind::Read;
        if l.current.is_some() || l.leaving.is_some() && !reads {
            return;
        }
        l.queue.pop_front();
        l.current = Some(op);
        self.fresh[op] = true;
        if self.arrivals[op].kind == OpKind::Program {
            self.left[op] = self.page();
        }
        self.ask(op);
    }
    fn ask(&mut self, op: usize) {
        if self.c.channel_order == FIFO {
            let start = self.now.max(self.free_at);
            self.free_at = start + self.part(op);
            return self.set(self.free_at, End::Transfer, op);
        }
        match self.left[op] {
            0 => self.commands.push_back(op),
            _ => self.data.push_back(op),
        }
        self.grant();
    }
    /// What it moves at a time.
    fn part(&mut self, op: usize) -> u64 {
        let most = match self.c.transfer_bytes {
            0 => u64::MAX,
            bytes => Span::of_bytes(u64::from(bytes), self.c.channel_rate).0,
        };
        let data = self.left[op].min(most);
        self.left[op] -= data;
        let command = if self.fresh[op] { self.c.t_command.0 } else { 0 };
        self.fresh[op] = false;
        command + data
    }
    fn grant(&mut self) {
        if self.busy {
            return;
        }
        let command = self.commands.pop_front();
        if command.is_some() {
            self.data.iter().for_each(|&op| self.passed[op] += 1);
        }
        let Some(op) = command.or_else(|| self.data.pop_front()) else { return };
        self.busy = true;
        let part = self.part(op);
        self.set(self.now + part, End::Transfer, op);
    }
    fn transferred(&mut self, op: usize) {
        if self.left[op] > 0 {
            self.busy = false;
            return self.ask(op);
        }
        if self.out[op] {
            let lun = self.arrivals[op].lun as usize;
            self.end[op] = self.now;
            let l = &mut self.luns[lun];
            if l.leaving == Some(op) {
                l.leaving = None;
                if std::mem::take(&mut l.ready) {
                    self.leave(lun);
                } else {
                    self.next(lun);
                }
            } else {
                l.current = None;
                self.next(lun);
            }
        } else {
            let array = match self.arrivals[op].kind {
                OpKind::Read => self.c.t_read.mean(),
                OpKind::Program => self.c.t_program.mean(),
                OpKind::Erase => self.c.t_erase,
            };
            self.set(self.now + array.0, End::Array, op);
        }
        // All who want the channel at this moment are there.
        self.busy = false;
        self.grant();
    }
    /// The current read's data go to the register that they leave from.
    fn leave(&mut self, lun: usize) {
        let op = self.luns[lun].current.take().expect("it was read");
        self.luns[lun].leaving = Some(op);
        self.next(lun);
        self.ask(op);
    }
    fn array_over(&mut self, op: usize) {
        let lun = self.arrivals[op].lun as usize;
        if self.arrivals[op].kind != OpKind::Read {
            self.end[op] = self.now;
            self.luns[lun].current = None;
            return self.next(lun);
        }
        (self.out[op], self.left[op]) = (true, self.page());
        if !self.c.cache_register {
            self.ask(op);
        } else if self.luns[lun].leaving.is_some() {
            self.luns[lun].ready = true;
        } else {
            self.leave(lun);
        }
    }
    fn run(&mut self) {
        for (i, a) in self.arrivals.iter().enumerate() {
            self.set(a.at, End::Arrival, i);
        }
        while let Some(((now, _), (end, op))) = self.events.pop_first() {
            self.now = now;
            match end {
                End::Arrival => {
                    let lun = self.arrivals[op].lun as usize;
                    self.luns[lun].queue.push_back(op);
                    self.next(lun);
                }
                End::Transfer => self.transferred(op),
                End::Array => self.array_over(op),
            }
        }
    }
}

fn model<'a>(c: &'a NandConfig, arrivals: &'a [Arrival]) -> Model<'a> {
    let n = arrivals.len();
    let mut model = Model {
        c,
        arrivals,
        events: BTreeMap::new(),
        set: 0,
        now: 0,
        luns: (0..c.luns_per_channel).map(|_| Lun::default()).collect(),
        free_at: 0,
        busy: false,
        commands: VecDeque::new(),
        data: VecDeque::new(),
        left: vec![0; n],
        passed: vec![0; n],
        end: vec![0; n],
        out: vec![false; n],
        fresh: vec![false; n],
    };
    model.run();
    model
}

#[test]
fn a_channel_serves_in_the_order_of_a_list_of_events() {
    let (mut earlier, mut most) = (0u64, 0);
    for seed in 0..600 {
        let mut rng = Rng::from_seed(0xC4A + seed);
        let luns = 1 + rng.below(6) as u32;
        let mut c = config(luns, rng.pick(&[FIFO, COMMANDS]));
        c.cache_register = rng.below(2) > 0;
        c.transfer_bytes = rng.pick(&[0, 1024]);
        c.t_command = Span(rng.pick(&[3, 10]));
        c.channel_rate = rng.pick(&[100, 50, 20]) * 1_000_000_000;
        // Also where events have tags: an erase may be suspended, and no suspension is short enough.
        let (erase, t_erase) = (rng.below(2) > 0, Span(1_000_000));
        c.suspend = Suspend { erase, t_erase, most: 1, ..Suspend::default() };
        let gap = 10 + rng.below(300);
        let arrivals = draw(&mut rng, 300, luns, gap);
        let (nand, records) = run(&c, &arrivals);
        let model = model(&c, &arrivals);
        for (i, r) in records.iter().enumerate() {
            let a = &arrivals[i];
            assert_eq!(r.end.0, model.end[i], "seed {seed}: operation {i}, {a:?} with {c:?}");
        }

        // Bytes and times sum up, and each wait is somebody's.
        let page = Span::of_bytes(4096, c.channel_rate).0;
        let erases = arrivals.iter().filter(|a| a.kind == OpKind::Erase).count() as u64;
        let data = (arrivals.len() as u64 - erases) * page;
        let whole = arrivals.len() as u64 * c.t_command.0 + data;
        let now = Time(*model.end.iter().max().unwrap());
        assert_eq!(nand.counters().transfer_ns.iter().sum::<u64>(), whole, "seed {seed}");
        assert_eq!(nand.channel_busy(0, now).0, whole, "seed {seed}");
        for r in &records {
            let mut ctx = Ctx::new();
            let io = ctx.lives.begin(0, Ddir::Read, 0, 4096, r.submitted);
            r.mark(&mut ctx.lives, io);
            let life = ctx.lives.end(io);
            assert_eq!(life.latency(), r.end.since(r.submitted), "seed {seed}");
            assert_eq!(life.spent().iter().sum::<u64>(), life.latency().0, "seed {seed}");
        }

        // A LUN gives a command, and has to have the channel for its data before it gives another: with a register
        // one more. An erase has no data, and each is one more.
        let bound = luns * if c.cache_register { 2 } else { 1 } + erases as u32;
        let parts = if c.transfer_bytes == 0 { 1 } else { 4 };
        for (i, &passed) in model.passed.iter().enumerate() {
            assert!(passed <= bound * parts, "seed {seed}: {passed} commands passed {i}");
            most = most.max(passed);
        }
        let other = NandConfig {
            channel_order: if c.channel_order == FIFO { COMMANDS } else { FIFO },
            ..c.clone()
        };
        let (_, others) = run(&other, &arrivals);
        earlier += records.iter().zip(&others).filter(|(a, b)| a.end != b.end).count() as u64;
        if luns == 1 {
            assert!(records.iter().zip(&others).all(|(a, b)| a.end == b.end), "seed {seed}");
        }
    }
    assert!(earlier > 50_000, "{earlier} operations end at another time in another order");
    assert!(most >= 4, "{most} commands passed data at most");
}

/// Reads always wait at all LUNs. In order of arrival a command waits for the data of all other LUNs, so that all
/// arrays read at one time and all data wait for each other. Commands first, each LUN goes on at once.
#[test]
fn luns_that_are_read_all_the_time_lock_in_phase_unless_commands_go_first() {
    const READS: u32 = 400;
    for luns in [2, 4, 6] {
        let read = |i| {
            let (kind, class) = (OpKind::Read, Class::UserRead);
            Arrival {
                at: 0,
                kind,
                class,
                lun: i % luns,
                line: 40,
                page: i % PAGES,
                sector: 0,
                sectors: 1,
            }
        };
        let arrivals: Vec<Arrival> = (0..luns * READS).map(read).collect();
        let time = |order| {
            let (_, records) = run(&config(luns, order), &arrivals);
            records.iter().map(|r| r.end.0).max().unwrap() as f64 / f64::from(READS)
        };
        let (command, array, page) = (3.0, 301.0, 41.0);
        let locked = command + array + f64::from(luns) * page;
        assert!((time(FIFO) / locked - 1.0).abs() < 0.01, "{luns}: {}", time(FIFO));
        let alone = command + array + page;
        assert!((time(COMMANDS) / alone - 1.0).abs() < 0.01, "{luns}: {}", time(COMMANDS));
    }
}

/// Reads of users have a channel before all others where suspension says so, and among each other commands first.
#[test]
fn commands_go_first_among_those_who_go_first() {
    let mut c = config(3, COMMANDS);
    c.suspend = Suspend { queue: true, dma: true, most: 9, ..Suspend::default() };
    let at = |at, kind, lun| Arrival {
        at,
        kind,
        class: class_of(kind, 0),
        lun,
        line: 40,
        page: 0,
        sector: 0,
        sectors: 1,
    };
    // Two reads of users have their data at 304 and 307, and while the first one's leave a command comes.
    let reads = [
        at(0, OpKind::Read, 0),
        at(5000, OpKind::Read, 0),
        at(0, OpKind::Read, 1),
        at(9000, OpKind::Read, 0),
        at(310, OpKind::Read, 2),
    ];
    let (_, records) = run(&c, &reads);
    assert_eq!(records[0].end.0, 3 + 301 + 41);
    assert_eq!(records[4].bus_start.0, 345, "the command passes the data that wait");
    assert_eq!(records[2].end.0, 345 + 3 + 41, "and the data go on behind it");
    c.channel_order = FIFO;
    let (_, records) = run(&c, &reads);
    assert_eq!((records[2].end.0, records[4].bus_start.0), (345 + 41, 345 + 41));
}
