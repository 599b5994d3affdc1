//! Reads for users go first: against a LUN that is looked at every nanosecond, and against sums that
//! must come out whatever happens.

use crate::common;

use crate::common::{Arrival, PAGES, run};
use wordline_base::{Ctx, Ddir, IdVec, Rng, Span, Time};
use wordline_nand::{
    ChannelOrder, Class, LineId, LunId, NandConfig, OpKind, PerClass, Record, Suspend,
};

fn config(suspend: Suspend) -> NandConfig {
    NandConfig { suspend, ..common::config() }
}

fn all(most: u32) -> Suspend {
    Suspend {
        queue: true,
        program: true,
        dma: true,
        erase: true,
        t_program: Span(7),
        t_erase: Span(40),
        t_dma: Span(2),
        t_resume: Span(11),
        interval: Span(25),
        most,
    }
}

fn draw(rng: &mut Rng, n: usize, luns: u32, gap: u64) -> Vec<Arrival> {
    let mut at = 0;
    let mut next: IdVec<LunId, (LineId, u32)> = IdVec::filled((0, 0), luns);
    let read = |class, line, page| (OpKind::Read, class, line, page);
    (0..n)
        .map(|_| {
            at += rng.below(gap);
            let lun = rng.below(u64::from(luns)) as u32;
            let (line, page) = &mut next[lun];
            let (old, some) = (32 + rng.below(16) as u32, rng.below(u64::from(PAGES)) as u32);
            let (kind, class, line, page) = match rng.below(10) {
                0..5 => read(Class::UserRead, old, some),
                5 => read(Class::RebuildRead, old, some),
                6 => read(Class::GcRead, old, some),
                7 => (OpKind::Erase, Class::Erase, 48 + rng.below(16) as u32, 0),
                k => {
                    let place = (*line, *page);
                    *page = (*page + 1) % PAGES;
                    *line += u32::from(*page == 0);
                    let class = if k == 8 { Class::UserProgram } else { Class::GcProgram };
                    (OpKind::Program, class, place.0, place.1)
                }
            };
            Arrival { at, kind, class, lun, line, page, sector: 0, sectors: 1 }
        })
        .collect()
}

/// One LUN and its channel, a nanosecond at a time.
struct Slow<'a> {
    c: &'a NandConfig,
    page: u64,
    ops: Vec<Work>,
    queue: Vec<usize>,
    current: Option<usize>,
    suspended: Option<usize>,
    /// A read's data leave from the cache register.
    leaving: Option<usize>,
    /// Left until what is being suspended has left.
    stopping: Option<u64>,
    /// On the channel, with what is left of restoring its context and of its part.
    on: Option<(usize, u64, u64)>,
    first: Vec<usize>,
    others: Vec<usize>,
    suspends: u64,
    stops: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    In,
    Array,
    /// A read's data have the channel, or wait for it.
    Out,
}

struct Work {
    a: Arrival,
    phase: Phase,
    /// Left on the channel, and of that cycles; of both what was there.
    bus: u64,
    cycles: u64,
    whole: u64,
    array: u64,
    /// Since it went on.
    worked: Option<i64>,
    saved: bool,
    ahead: u32,
    end: Option<u64>,
}

fn goes_first(class: Class) -> bool {
    matches!(class, Class::UserRead | Class::RebuildRead)
}

impl Slow<'_> {
    fn passes(&self, read: usize, other: usize) -> bool {
        let (r, o) = (&self.ops[read].a, &self.ops[other]);
        let depends = r.line == o.a.line
            && (o.a.kind == OpKind::Erase || o.a.kind == OpKind::Program && r.page >= o.a.page);
        let most = self.c.suspend.most;
        goes_first(r.class) && !goes_first(o.a.class) && o.ahead < most && !depends
    }

    fn arrive(&mut self, op: usize) {
        let mut place = self.queue.len();
        while self.c.suspend.queue && place > 0 && self.passes(op, self.queue[place - 1]) {
            place -= 1;
        }
        if let Some(&next) = self.queue.get(place) {
            self.ops[next].ahead += 1;
        }
        self.queue.insert(place, op);
        self.next();
    }

    /// The array is idle: what is next, if the registers it needs are empty.
    fn next(&mut self) -> bool {
        if self.current.is_some() || self.stopping.is_some() {
            return false;
        }
        match (self.suspended, self.queue.first().copied()) {
            (Some(op), Some(read)) if self.passes(read, op) => {
                self.ops[op].ahead += 1;
                self.start();
            }
            (Some(op), _) if self.leaving.is_none() => {
                self.suspended = None;
                self.current = Some(op);
                if self.ops[op].phase == Phase::In {
                    self.ask(op);
                } else {
                    let t_resume = self.c.suspend.t_resume.0;
                    self.ops[op].array += t_resume;
                    self.ops[op].worked = Some(-(t_resume as i64));
                }
            }
            (None, Some(op)) if self.leaving.is_none() || self.ops[op].a.kind == OpKind::Read => {
                self.start();
            }
            _ => return false,
        }
        true
    }

    fn start(&mut self) {
        let op = self.queue.remove(0);
        self.current = Some(op);
        if self.ops[op].bus == 0 {
            self.ops[op].phase = Phase::Array;
        } else {
            self.ask(op);
        }
    }

    fn ask(&mut self, op: usize) {
        if self.c.suspend.dma && !goes_first(self.ops[op].a.class) {
            self.others.push(op);
        } else {
            self.first.push(op);
        }
        self.grant();
    }

    fn grant(&mut self) {
        if self.on.is_some() || self.stopping.is_some() {
            return;
        }
        let may = self.others.iter().all(|&o| self.ops[o].ahead < self.c.suspend.most);
        let op = if !self.first.is_empty() && may {
            self.others.iter().for_each(|&o| self.ops[o].ahead += 1);
            self.first.remove(0)
        } else if !self.others.is_empty() {
            self.others.remove(0)
        } else {
            return;
        };
        let w = &mut self.ops[op];
        let most = match self.c.transfer_bytes {
            0 => u64::MAX,
            bytes => Span::of_bytes(u64::from(bytes), self.c.channel_rate).0 + w.cycles,
        };
        let lead = if w.saved { self.c.suspend.t_dma.0 } else { 0 };
        w.saved = false;
        self.on = Some((op, lead, w.bus.min(most)));
    }

    fn part_over(&mut self, op: usize, now: u64) {
        self.on = None;
        let w = &mut self.ops[op];
        w.cycles = 0;
        if w.bus > 0 {
            return self.ask(op);
        }
        if w.phase == Phase::In {
            w.phase = Phase::Array;
        } else {
            w.end = Some(now);
            let register =
                if self.leaving == Some(op) { &mut self.leaving } else { &mut self.current };
            *register = None;
        }
        self.grant();
    }

    /// What is suspended has data in a register.
    fn kept(&self) -> bool {
        self.suspended.is_some_and(|op| {
            let w = &self.ops[op];
            let moved = w.whole - w.bus;
            w.a.kind == OpKind::Program && (w.phase == Phase::Array || moved > self.c.t_command.0)
        })
    }

    /// The array is done.
    fn array_over(&mut self, op: usize, now: u64) -> bool {
        if self.ops[op].a.kind != OpKind::Read {
            self.ops[op].end = Some(now);
            self.current = None;
            return true;
        }
        let cached = self.c.cache_register && !self.kept();
        if cached && self.leaving.is_some() {
            return false;
        }
        let w = &mut self.ops[op];
        (w.phase, w.bus) = (Phase::Out, self.page);
        if cached {
            self.leaving = self.current.take();
            self.next();
        }
        self.ask(op);
        true
    }

    /// Takes the current operation away from the read next in line, if it may.
    fn suspend(&mut self, op: usize) -> bool {
        let s = &self.c.suspend;
        let w = &mut self.ops[op];
        if w.phase == Phase::In && w.a.kind == OpKind::Program && s.dma {
            let (_, lead, part) = self.on.expect("alone on its channel");
            if lead + part <= s.t_dma.0 {
                return false;
            }
            self.on = None;
            w.saved = true;
            self.stops += 1;
            self.stopping = Some(if lead > 0 { 0 } else { s.t_dma.0 });
            return true;
        }
        let (may, leave) = match w.a.kind {
            OpKind::Program => (s.program, s.t_program.0),
            OpKind::Erase => (s.erase, s.t_erase.0),
            OpKind::Read => return false,
        };
        let rested = w.worked.is_none_or(|n| n >= s.interval.0 as i64);
        if !may || w.phase == Phase::In || !rested || w.array <= leave {
            return false;
        }
        self.stopping = Some(leave);
        self.suspends += 1;
        true
    }

    /// Does one thing that is due; false if there is none.
    fn act(&mut self, now: u64) -> bool {
        if self.stopping == Some(0) {
            self.stopping = None;
            self.suspended = self.current.take();
            return self.next();
        }
        if self.stopping.is_some() {
            return false;
        }
        if let Some((op, 0, 0)) = self.on {
            self.part_over(op, now);
            return true;
        }
        if let Some(op) = self.current {
            let w = &self.ops[op];
            if w.phase == Phase::Array && w.array == 0 && self.array_over(op, now) {
                return true;
            }
        }
        if let (Some(op), None, Some(&read)) = (self.current, self.suspended, self.queue.first())
            && self.passes(read, op)
            && self.suspend(op)
        {
            return true;
        }
        self.next()
    }

    fn tick(&mut self) {
        if let Some(left) = &mut self.stopping {
            *left -= 1;
            return;
        }
        match &mut self.on {
            Some((_, lead, _)) if *lead > 0 => *lead -= 1,
            Some((op, _, part)) => {
                *part -= 1;
                let w = &mut self.ops[*op];
                w.bus -= 1;
                w.cycles = w.cycles.saturating_sub(1);
            }
            None => {}
        }
        let Some(op) = self.current else { return };
        let w = &mut self.ops[op];
        if w.phase == Phase::Array {
            w.array = w.array.saturating_sub(1);
            w.worked = w.worked.map(|n| n + 1);
        }
    }
}

/// With any of the switches, and a cache register or none.
fn draw_config(rng: &mut Rng) -> NandConfig {
    let suspend = Suspend {
        queue: rng.below(3) > 0,
        program: rng.below(4) > 0,
        erase: rng.below(4) > 0,
        dma: rng.below(2) > 0,
        t_program: Span(rng.below(20)),
        t_erase: Span(rng.below(90)),
        t_dma: Span(rng.below(6)),
        t_resume: Span(rng.below(30)),
        interval: Span(rng.below(60)),
        most: 1 + rng.below(9) as u32,
    };
    let mut c = config(suspend);
    c.cache_register = rng.below(3) > 0;
    c.t_command = Span(rng.pick(&[0, 3, 9]));
    // 16, 41 or 82 ns for a page: faster than the array, and slower.
    c.channel_rate = rng.pick(&[256, 100, 50]) * 1_000_000_000;
    c.transfer_bytes = rng.pick(&[0, 1024]);
    c
}

#[test]
fn a_lun_does_what_a_lun_looked_at_every_nanosecond_does() {
    let (mut piped, mut in_row) = (0, 0);
    for seed in 0..800 {
        let mut rng = Rng::from_seed(0x5105 + seed);
        let c = draw_config(&mut rng);
        let gap = 20 + rng.below(300);
        let arrivals = draw(&mut rng, 150, 1, gap);
        let (nand, records) = run(&c, &arrivals);

        let (page, command) = (Span::of_bytes(4096, c.channel_rate).0, c.t_command.0);
        let work = |a: &Arrival| {
            let (data, array) = match a.kind {
                OpKind::Read => (0, 30),
                OpKind::Program => (page, 400),
                OpKind::Erase => (0, 1000),
            };
            let whole = command + data;
            Work {
                a: *a,
                phase: Phase::In,
                bus: whole,
                cycles: command,
                whole,
                array,
                worked: None,
                saved: false,
                ahead: 0,
                end: None,
            }
        };
        let mut slow = Slow {
            c: &c,
            page,
            ops: arrivals.iter().map(work).collect(),
            queue: Vec::new(),
            current: None,
            suspended: None,
            leaving: None,
            stopping: None,
            on: None,
            first: Vec::new(),
            others: Vec::new(),
            suspends: 0,
            stops: 0,
        };
        let (mut now, mut arrived) = (0, 0);
        while slow.ops.iter().any(|w| w.end.is_none()) {
            while arrived < arrivals.len() && arrivals[arrived].at == now {
                slow.arrive(arrived);
                arrived += 1;
            }
            while slow.act(now) {}
            let both = slow.leaving.is_some() && slow.current.is_some();
            piped += u64::from(both && slow.suspended.is_some());
            in_row += u64::from(c.cache_register && slow.kept());
            slow.tick();
            now += 1;
        }
        for (i, (r, w)) in records.iter().zip(&slow.ops).enumerate() {
            assert_eq!(Some(r.end.0), w.end, "seed {seed}: {i}, {:?} with {c:?}", w.a);
        }
        if let Some(s) = nand.suspensions() {
            assert_eq!(s.suspends.iter().sum::<u64>(), slow.suspends, "seed {seed}");
            assert_eq!(s.stops, slow.stops, "seed {seed}");
            assert!(s.most <= c.suspend.most, "seed {seed}");
        }
    }
    assert!(piped > 1000 && in_row > 1000, "{piped} ns in pipeline, {in_row} one by one");
}

/// Reads go ahead of an operation that is in the array, many at once: when the last of them ends.
#[test]
fn reads_go_ahead_in_pipeline_unless_data_are_in_a_register() {
    for (kind, n) in [(OpKind::Erase, 1), (OpKind::Erase, 6), (OpKind::Program, 6)] {
        let mut c = config(all(9));
        c.cache_register = true;
        let class = if kind == OpKind::Erase { Class::Erase } else { Class::UserProgram };
        let mut arrivals =
            vec![Arrival { at: 0, kind, class, lun: 0, line: 0, page: 0, sector: 0, sectors: 1 }];
        let read = Arrival {
            at: 100,
            kind: OpKind::Read,
            class: Class::UserRead,
            lun: 0,
            line: 40,
            page: 1,
            sector: 0,
            sectors: 1,
        };
        arrivals.extend((0..n).map(|_| read));
        let (_, r) = run(&c, &arrivals);
        let (page, command, array) = (16, 3, 30);
        let (leave, data, own, reads) = match kind {
            OpKind::Erase => (40, 0, 1000, n * (command + array) + page),
            _ => (7, page, 400, n * (command + array + page)),
        };
        assert_eq!(r[n as usize].end.0, 100 + leave + reads, "{kind:?}");
        assert_eq!(r[0].end.0, command + data + own + leave + reads + 11, "{kind:?}");
    }
}

/// Many reads of the collector wait at a LUN, and reads of users come all the time: after each `most` of these one of the
/// collector's has its turn, and not all that have waited for so long.
#[test]
fn a_read_waits_for_one_operation_that_may_not_be_passed_and_not_for_a_queue() {
    let most = 3;
    let c = config(Suspend { queue: true, most, ..Suspend::default() });
    let of = |class, at| Arrival {
        at,
        kind: OpKind::Read,
        class,
        lun: 0,
        line: 40,
        page: 1,
        sector: 0,
        sectors: 1,
    };
    let mut arrivals = vec![of(Class::GcRead, 0); 9];
    arrivals.extend((1..30).map(|at| of(Class::UserRead, at)));
    let (_, records) = run(&c, &arrivals);
    let mut order: Vec<_> = records.iter().map(|r| (r.started, r.op.class)).collect();
    order.sort();
    let between: Vec<_> =
        order[1..].split(|&(_, class)| class == Class::GcRead).map(<[_]>::len).collect();
    assert_eq!(between, [3, 3, 3, 3, 3, 3, 3, 3, 5]);
}

#[test]
fn time_is_conserved_and_every_operation_ends() {
    for seed in 0..200 {
        let mut rng = Rng::from_seed(0xD0A + seed);
        let most = 1 + rng.below(12) as u32;
        let mut suspend = all(most);
        suspend.queue = rng.below(4) > 0;
        suspend.program = rng.below(4) > 0;
        suspend.erase = rng.below(4) > 0;
        suspend.dma = rng.below(4) > 0;
        let mut c = config(suspend);
        (c.channels, c.luns_per_channel) = (2, 4);
        // 82 ns for a page, so that transfers meet.
        c.channel_rate = 50_000_000_000;
        c.transfer_bytes = if rng.below(2) > 0 { 1024 } else { 0 };
        c.cache_register = rng.below(2) > 0;
        c.channel_order = rng.pick(&[ChannelOrder::Fifo, ChannelOrder::CommandsFirst]);
        let gap = 5 + rng.below(60);
        let arrivals = draw(&mut rng, 1500, 8, gap);
        let (nand, records) = run(&c, &arrivals);
        let (n, s) = (nand.counters(), nand.suspensions().cloned().unwrap_or_default());
        let now = Time(records.iter().map(|r| r.end.0).max().unwrap());
        let lasts = [30, 30, 30, 30, 400, 400, 400, 400, 1000];
        for (class, last) in Class::ALL.into_iter().zip(lasts) {
            let leave = if class == Class::Erase { 40 } else { 7 };
            let array = n.ops[class] * last + s.suspends[class] * (leave + 11);
            assert_eq!(n.array_ns[class], array, "seed {seed}: {class:?}");
        }
        let by_lun: u64 = (0..8).flat_map(|lun| nand.lun_busy(lun, now)).sum();
        assert_eq!(by_lun, n.busy_ns.iter().sum::<u64>(), "seed {seed}");
        let by_channel: u64 = (0..2).map(|ch| nand.channel_busy(ch, now).0).sum();
        let transfers = n.transfer_ns.iter().sum::<u64>();
        assert_eq!(by_channel, transfers, "seed {seed}");
        let page = Span::of_bytes(4096, c.channel_rate).0;
        let plain: u64 =
            arrivals.iter().map(|a| if a.kind == OpKind::Erase { 3 } else { 3 + page }).sum();
        assert!((plain..=plain + 4 * s.stops).contains(&transfers), "seed {seed}");
        assert!(s.most <= most, "seed {seed}");
        assert_eq!(n.ops.iter().sum::<u64>(), 1500, "seed {seed}");
        let mut lost = PerClass::default();
        for r in &records {
            lost[r.op.class] += r.away.iter().map(|s| s.0).sum::<u64>();
            // An I/O marked with it is charged to the nanosecond.
            let mut ctx = Ctx::new();
            let io = ctx.lives.begin(0, Ddir::Read, 0, 4096, r.submitted);
            r.mark(&mut ctx.lives, io);
            let life = ctx.lives.end(io);
            assert_eq!(life.latency(), r.end.since(r.submitted), "seed {seed}");
            assert_eq!(life.spent().iter().sum::<u64>(), life.latency().0, "seed {seed}");
        }
        assert_eq!(s.suspended_ns, lost, "seed {seed}");
    }
}

/// A read comes to a LUN that does one other thing.
fn alone(kind: OpKind, after: u64, suspend: Suspend) -> (Record, Record) {
    let mut c = config(suspend);
    c.cache_register = after.is_multiple_of(2);
    let class = if kind == OpKind::Erase { Class::Erase } else { Class::UserProgram };
    let arrivals = [
        Arrival { at: 0, kind, class, lun: 0, line: 0, page: 0, sector: 0, sectors: 1 },
        Arrival {
            at: after,
            kind: OpKind::Read,
            class: Class::UserRead,
            lun: 0,
            line: 40,
            page: 1,
            sector: 0,
            sectors: 1,
        },
    ];
    let (_, r) = run(&c, &arrivals);
    (r[0], r[1])
}

#[test]
fn a_lone_read_waits_no_longer_than_a_suspension_takes() {
    let page = Span::of_bytes(4096, config(all(1)).channel_rate).0;
    let (read, program, erase) = (3 + 30 + page, 3 + page + 400, 3 + 1000);
    for after in 0..program {
        let (p, r) = alone(OpKind::Program, after, all(5));
        // The last of the data are not stopped.
        let longest = match after {
            a if a + 2 < 3 + page => 2,
            a if a < 3 + page => 2 + 7,
            _ => 7,
        };
        assert!(r.started.since(r.submitted).0 <= longest, "{after}: {r:?}");
        assert_eq!(r.end.since(r.started).0, read, "{after}");
        // What it costs the program is the read, leaving and going on; near its end, nothing.
        let cost = p.end.0 - program;
        let expected = match after {
            a if a + 2 < 3 + page => read + 2 * 2,
            a if a + 7 < program => read + 7 + 11,
            _ => 0,
        };
        assert_eq!(cost, expected, "{after}");
    }
    for after in 3..erase {
        let (e, r) = alone(OpKind::Erase, after, all(5));
        assert!(r.started.since(r.submitted).0 <= 40, "{after}: {r:?}");
        let near_end = after + 40 >= erase;
        assert_eq!(e.end.0, if near_end { erase } else { erase + 40 + read + 11 }, "{after}");
    }
    // Each part has its own switch.
    let off = |f: fn(&mut Suspend)| {
        let mut s = all(5);
        f(&mut s);
        s
    };
    let waits = |kind, after, s| {
        let (_, r) = alone(kind, after, s);
        r.started.since(r.submitted).0
    };
    assert_eq!(waits(OpKind::Program, 100, off(|s| s.program = false)), program - 100);
    assert_eq!(waits(OpKind::Erase, 100, off(|s| s.erase = false)), erase - 100);
    assert_eq!(waits(OpKind::Program, 5, off(|s| s.dma = false)), 3 + page - 5 + 7);
}

#[test]
fn reads_of_the_collector_and_of_the_same_page_suspend_nothing() {
    let c = config(all(5));
    let program = Arrival {
        at: 0,
        kind: OpKind::Program,
        class: Class::UserProgram,
        lun: 0,
        line: 0,
        page: 0,
        sector: 0,
        sectors: 1,
    };
    let read = |class, line| Arrival { at: 100, kind: OpKind::Read, class, line, ..program };
    for other in [read(Class::GcRead, 40), read(Class::MetaRead, 40), read(Class::UserRead, 0)] {
        let (nand, r) = run(&c, &[program, other]);
        assert_eq!(r[1].started, r[0].end, "{other:?}");
        assert_eq!(nand.suspensions().unwrap().suspends, PerClass::default());
    }
}

#[test]
fn with_no_read_to_go_first_every_operation_keeps_its_time() {
    for seed in 0..50 {
        let mut rng = Rng::from_seed(0xFAD + seed);
        let mut c = config(all(5));
        (c.channels, c.luns_per_channel) = (2, 4);
        c.channel_rate = 50_000_000_000;
        c.transfer_bytes = if rng.below(2) > 0 { 1024 } else { 0 };
        c.cache_register = rng.below(2) > 0;
        c.channel_order = rng.pick(&[ChannelOrder::Fifo, ChannelOrder::CommandsFirst]);
        let gap = 40 + rng.below(200);
        let mut arrivals = draw(&mut rng, 800, 8, gap);
        arrivals.retain(|a| !a.class.goes_ahead());
        let (_, first) = run(&c, &arrivals);
        c.suspend = Suspend::default();
        let (_, plain) = run(&c, &arrivals);
        for (f, p) in first.iter().zip(&plain) {
            let times = |r: &Record| (r.started, r.bus_start, r.bus_end, r.out_start, r.end);
            assert_eq!(times(f), times(p), "seed {seed}: {:?}", p.op);
        }
    }
}
