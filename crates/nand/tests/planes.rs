//! Planes that read on their own: against a LUN whose rules are applied one by one, and against sums that must
//! come out whatever happens.

use crate::common;

use crate::common::{Arrival, PAGES, run};
use std::collections::BTreeSet;
use wordline_base::{IdVec, Rng, Span, Time};
use wordline_nand::{
    ChannelOrder, Class, Geometry, LineId, LunId, Nand, NandConfig, OpKind, Record, Suspend,
};

const PLANES: u32 = 4;
/// Sectors of a plane's page.
const ROW: u32 = 2;

fn config() -> NandConfig {
    let c = common::config();
    NandConfig { planes: PLANES, page_bytes: ROW * 4096, independent_plane_reads: true, ..c }
}

fn draw(rng: &mut Rng, n: usize, luns: u32, gap: u64) -> Vec<Arrival> {
    let mut at = 0;
    let mut next: IdVec<LunId, (LineId, u32)> = IdVec::filled((0, 0), luns);
    (0..n)
        .map(|_| {
            at += rng.below(gap);
            let lun = rng.below(u64::from(luns)) as u32;
            let (line, page) = &mut next[lun];
            let (old, some) = (32 + rng.below(16) as u32, rng.below(u64::from(PAGES)) as u32);
            let class =
                rng.pick(&[Class::UserRead, Class::UserRead, Class::UserRead, Class::GcRead]);
            let sector = rng.below(u64::from(PLANES * ROW)) as u32;
            let most = u64::from(PLANES * ROW - sector).min(rng.pick(&[1, 1, 1, 3, 8]));
            let read = Arrival {
                at,
                kind: OpKind::Read,
                class,
                lun,
                line: old,
                page: some,
                sector,
                sectors: 1 + rng.below(most) as u32,
            };
            match rng.below(16) {
                0 => Arrival {
                    kind: OpKind::Erase,
                    class: Class::Erase,
                    line: 48 + rng.below(16) as u32,
                    page: 0,
                    sector: 0,
                    sectors: 1,
                    ..read
                },
                k @ 1..4 => {
                    let place = (*line, *page);
                    *page = (*page + 1) % PAGES;
                    *line += u32::from(*page == 0);
                    let class = if k == 1 { Class::UserProgram } else { Class::GcProgram };
                    let (line, page) = place;
                    let kind = OpKind::Program;
                    Arrival { kind, class, line, page, sector: 0, sectors: 1, ..read }
                }
                _ => read,
            }
        })
        .collect()
}

/// One LUN, and its channel that serves in order of arrival.
struct Plain<'a> {
    c: &'a NandConfig,
    now: u64,
    /// The channel is free from here on.
    channel: u64,
    ops: Vec<Work>,
    queue: Vec<usize>,
    /// The program or erase that has the LUN, and the one that gave it to reads.
    whole: Option<usize>,
    suspended: Option<usize>,
    /// The array of what is being suspended has stopped then.
    stopping: Option<u64>,
    set: u64,
    suspends: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum At {
    Queue,
    /// Program data.
    In,
    Array,
    /// Read, and the cache register is another's.
    Ready,
    /// Data leave from the page register, or from the cache register.
    Page,
    Cache,
    Over,
}

struct Work {
    a: Arrival,
    planes: BTreeSet<u32>,
    at: At,
    /// The stage ends, in order among those that end at that time.
    due: Option<(u64, u64)>,
    /// Bytes to transfer.
    left: u64,
    /// What is left in the array of an operation that is suspended.
    array: u64,
    resumed: Option<u64>,
    ahead: u32,
    end: u64,
}

impl Work {
    fn is_read(&self) -> bool {
        self.a.kind == OpKind::Read
    }
}

impl Plain<'_> {
    fn passes(&self, read: usize, other: usize) -> bool {
        let (r, o) = (&self.ops[read].a, &self.ops[other]);
        let depends = r.line == o.a.line
            && (o.a.kind == OpKind::Erase || o.a.kind == OpKind::Program && r.page >= o.a.page);
        r.class.goes_ahead() && !o.a.class.goes_ahead() && o.ahead < self.c.suspend.most && !depends
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
    }

    /// Reads that have a plane in one of these places.
    fn holds(&self, plane: u32, places: &[At]) -> bool {
        self.ops.iter().any(|w| w.is_read() && w.planes.contains(&plane) && places.contains(&w.at))
    }
    fn has_reads(&self) -> bool {
        let reads = [At::Array, At::Ready, At::Page, At::Cache];
        (0..PLANES).any(|plane| self.holds(plane, &reads))
    }
    fn can_start(&self, place: usize) -> bool {
        let op = self.queue[place];
        let w = &self.ops[op];
        if !w.is_read() {
            return place == 0 && self.suspended.is_none() && !self.has_reads();
        }
        let before = &self.queue[..place];
        let in_order = |&other: &usize| {
            let o = &self.ops[other];
            o.is_read()
                && o.planes.is_disjoint(&w.planes)
                && self.suspended.is_none_or(|suspended| self.passes(other, suspended))
        };
        before.iter().all(in_order)
            && self.suspended.is_none_or(|suspended| self.passes(op, suspended))
            && w.planes.iter().all(|&plane| !self.holds(plane, &[At::Array, At::Ready, At::Page]))
    }
    fn stage(&mut self, op: usize, at: At, due: u64) {
        self.set += 1;
        self.ops[op].at = at;
        self.ops[op].due = Some((due, self.set));
    }
    fn bytes(&self, bytes: u64) -> u64 {
        Span::of_bytes(bytes, self.c.channel_rate).0
    }
    /// The next part of an operation's data.
    fn part(&mut self, op: usize, cycles: u64) -> u64 {
        let most = match self.c.transfer_bytes {
            0 => u64::MAX,
            bytes => bytes.into(),
        };
        let part = self.ops[op].left.min(most);
        self.ops[op].left -= part;
        let time = cycles + self.bytes(part);
        if time > 0 {
            self.channel = self.channel.max(self.now) + time;
            self.channel
        } else {
            self.now
        }
    }
    fn start(&mut self, op: usize) {
        let end = self.part_in(op, self.c.t_command.0);
        let w = &mut self.ops[op];
        let array = match w.a.kind {
            OpKind::Read => 30,
            OpKind::Program => 400,
            OpKind::Erase => 1000,
        };
        if !w.is_read() {
            self.whole = Some(op);
        }
        self.ops[op].array = array;
        match self.ops[op].left {
            _ if self.ops[op].is_read() => self.stage(op, At::Array, end + array),
            0 => self.stage(op, At::Array, end + array),
            _ => self.stage(op, At::In, end),
        }
    }
    /// A command, and of a program its first data.
    fn part_in(&mut self, op: usize, cycles: u64) -> u64 {
        if self.ops[op].a.kind == OpKind::Program {
            self.ops[op].left = u64::from(PLANES * ROW) * 4096;
        }
        self.part(op, cycles)
    }
    fn out(&mut self, op: usize, at: At) {
        let end = self.part(op, 0);
        self.stage(op, at, end);
    }
    /// Whether what is suspended has its data in the page registers.
    fn kept(&self) -> bool {
        self.suspended.is_some_and(|op| self.ops[op].a.kind == OpKind::Program)
    }
    /// A read whose array is done.
    fn leave(&mut self, op: usize) {
        let planes = self.ops[op].planes.clone();
        if !self.c.cache_register || self.kept() {
            self.out(op, At::Page);
        } else if planes.iter().any(|&plane| self.holds(plane, &[At::Cache])) {
            (self.ops[op].at, self.ops[op].due) = (At::Ready, None);
        } else {
            self.ops[op].at = At::Cache;
            self.ops[op].due = None;
            // The next commands go before the data.
            self.go();
            self.out(op, At::Cache);
        }
    }
    fn over(&mut self, op: usize) {
        (self.ops[op].at, self.ops[op].due, self.ops[op].end) = (At::Over, None, self.now);
        if self.whole == Some(op) {
            self.whole = None;
        }
        for plane in self.ops[op].planes.clone() {
            let mut ready = (0..self.ops.len()).filter(|&o| {
                let w = &self.ops[o];
                w.at == At::Ready
                    && w.planes.contains(&plane)
                    && w.planes.iter().all(|&plane| !self.holds(plane, &[At::Cache]))
            });
            if let Some(next) = ready.next() {
                self.leave(next);
            }
        }
        self.go();
    }

    /// Starts what can start, and what was suspended when nothing is left that goes ahead of it.
    fn go(&mut self) {
        while self.whole.is_none() {
            if let Some(place) = (0..self.queue.len()).find(|&place| self.can_start(place)) {
                let op = self.queue.remove(place);
                if let Some(suspended) = self.suspended {
                    self.ops[suspended].ahead += 1;
                }
                self.start(op);
                continue;
            }
            if let Some(op) = self.suspended.filter(|_| !self.has_reads()) {
                self.suspended = None;
                self.whole = Some(op);
                let working = self.now + self.c.suspend.t_resume.0;
                self.ops[op].resumed = Some(working);
                self.stage(op, At::Array, working + self.ops[op].array);
            }
            break;
        }
        self.consider();
    }
    /// Takes the array away from a program or an erase if the first of the queue may go ahead of it.
    fn consider(&mut self) {
        let (Some(op), Some(&read)) = (self.whole, self.queue.first()) else { return };
        let (s, w) = (&self.c.suspend, &self.ops[op]);
        let (may, leave) = match w.a.kind {
            OpKind::Program => (s.program, s.t_program.0),
            _ => (s.erase, s.t_erase.0),
        };
        let Some((end, _)) = w.due else { return };
        let in_array = w.at == At::Array && self.now + w.array >= end;
        let rested = w.resumed.is_none_or(|at| self.now >= at + s.interval.0);
        let free = self.suspended.is_none() && self.stopping.is_none();
        if free && may && in_array && rested && self.passes(read, op) && self.now + leave < end {
            self.ops[op].array = end - self.now;
            self.ops[op].due = None;
            self.suspends += 1;
            self.stopping = Some(self.now + leave);
        }
    }
    fn act(&mut self) -> bool {
        let due = |op: &usize| self.ops[*op].due.filter(|&(at, _)| at == self.now);
        if self.stopping == Some(self.now) {
            self.stopping = None;
            self.suspended = self.whole.take();
            self.go();
            return true;
        }
        let first = (0..self.ops.len()).filter(|op| due(op).is_some()).min_by_key(|op| due(op));
        let Some(op) = first else { return false };
        let w = &self.ops[op];
        match w.at {
            At::In => {
                let end = self.part(op, 0);
                if self.ops[op].left > 0 {
                    self.stage(op, At::In, end);
                } else {
                    let array = self.ops[op].array;
                    self.stage(op, At::Array, end + array);
                }
                self.consider();
            }
            At::Array if w.is_read() => {
                self.ops[op].left = u64::from(self.ops[op].a.sectors) * 4096;
                self.leave(op);
            }
            At::Page | At::Cache if w.left > 0 => self.out(op, w.at),
            _ => self.over(op),
        }
        true
    }
}

fn planes_of(a: &Arrival) -> BTreeSet<u32> {
    match a.kind {
        OpKind::Read => (a.sector..a.sector + a.sectors).map(|sector| sector / ROW).collect(),
        _ => (0..PLANES).collect(),
    }
}

#[test]
fn planes_do_what_a_lun_with_its_rules_one_by_one_does() {
    let (mut beside, mut suspends) = (0, 0);
    for seed in 0..400 {
        let mut rng = Rng::from_seed(0x91A0 + seed);
        let mut c = config();
        c.cache_register = rng.below(2) > 0;
        c.t_command = Span(rng.pick(&[3, 9]));
        // 16, 41 or 82 ns for a sector: faster than the array, and slower.
        c.channel_rate = rng.pick(&[256, 100, 50]) * 1_000_000_000;
        c.transfer_bytes = rng.pick(&[0, 4096]);
        if rng.below(3) > 0 {
            c.suspend = Suspend {
                queue: rng.below(3) > 0,
                program: rng.below(4) > 0,
                erase: rng.below(4) > 0,
                dma: false,
                t_program: Span(1 + rng.below(20)),
                t_erase: Span(1 + rng.below(90)),
                t_dma: Span::ZERO,
                t_resume: Span(rng.below(30)),
                interval: Span(rng.below(60)),
                most: 1 + rng.below(9) as u32,
            };
        }
        let gap = 20 + rng.below(150);
        let arrivals = draw(&mut rng, 150, 1, gap);
        let (nand, records) = run(&c, &arrivals);

        let work = |a: &Arrival| Work {
            a: *a,
            planes: planes_of(a),
            at: At::Queue,
            due: None,
            left: 0,
            array: 0,
            resumed: None,
            ahead: 0,
            end: 0,
        };
        let mut plain = Plain {
            c: &c,
            now: 0,
            channel: 0,
            ops: arrivals.iter().map(work).collect(),
            queue: Vec::new(),
            whole: None,
            suspended: None,
            stopping: None,
            set: 0,
            suspends: 0,
        };
        let mut arrived = 0;
        while plain.ops.iter().any(|w| w.at != At::Over) {
            while arrived < arrivals.len() && arrivals[arrived].at == plain.now {
                plain.arrive(arrived);
                plain.go();
                arrived += 1;
            }
            while plain.act() {}
            plain.consider();
            let busy = plain.ops.iter().filter(|w| w.is_read() && w.at == At::Array).count();
            beside += u64::from(busy > 1);
            plain.now += 1;
        }
        for (i, (r, w)) in records.iter().zip(&plain.ops).enumerate() {
            assert_eq!(r.end.0, w.end, "seed {seed}: {i}, {:?} with {c:?}", w.a);
        }
        if let Some(s) = nand.suspensions() {
            assert_eq!(s.suspends.iter().sum::<u64>(), plain.suspends, "seed {seed}");
            suspends += plain.suspends;
        }
    }
    assert!(beside > 10_000 && suspends > 500, "{beside} ns beside each other, {suspends}");
}

/// Two operations do not have a plane at once, and what wants all planes has them alone.
fn check_planes(g: &Geometry, arrivals: &[Arrival], records: &[Record], cached: bool, seed: u64) {
    for lun in 0..g.luns {
        let mut held: Vec<(Time, Time, BTreeSet<u32>)> = Vec::new();
        for (a, r) in arrivals.iter().zip(records).filter(|(a, _)| a.lun == lun) {
            // With a cache register a plane's array is free when it has read.
            let end = if cached && a.kind == OpKind::Read { r.array_end } else { r.end };
            held.push((r.bus_start, end, planes_of(a)));
        }
        held.sort_by_key(|(start, end, _)| (*start, *end));
        for plane in 0..PLANES {
            let of = held.iter().filter(|(_, _, planes)| planes.contains(&plane));
            let times: Vec<_> = of.map(|&(start, end, _)| (start, end)).collect();
            for pair in times.windows(2) {
                assert!(pair[0].1 <= pair[1].0, "seed {seed}: LUN {lun}, plane {plane}: {pair:?}");
            }
        }
    }
}

#[test]
fn time_is_conserved_and_a_plane_has_one_operation_at_a_time() {
    for seed in 0..200 {
        let mut rng = Rng::from_seed(0x91B0 + seed);
        let mut c = config();
        (c.channels, c.luns_per_channel) = (2, 4);
        c.channel_rate = 50_000_000_000;
        c.transfer_bytes = rng.pick(&[0, 4096]);
        c.cache_register = rng.below(2) > 0;
        c.channel_order = rng.pick(&[ChannelOrder::Fifo, ChannelOrder::CommandsFirst]);
        let t = Span(7);
        let mut some = || rng.below(2) > 0;
        let suspends = some();
        if suspends {
            c.suspend = Suspend {
                queue: some(),
                program: some(),
                erase: some(),
                dma: some(),
                t_program: t,
                t_erase: Span(40),
                t_dma: Span(2),
                t_resume: Span(11),
                interval: Span(25),
                most: 5,
            };
        }
        let gap = 5 + rng.below(60);
        let arrivals = draw(&mut rng, 1500, 8, gap);
        let (nand, records) = run(&c, &arrivals);
        if !c.suspend.any() {
            check_planes(&nand.geometry, &arrivals, &records, c.cache_register, seed);
        }
        let now = Time(records.iter().map(|r| r.end.0).max().unwrap());
        let n = nand.counters();
        assert_eq!(n.ops.iter().sum::<u64>(), 1500, "seed {seed}");
        let by_channel: u64 = (0..2).map(|ch| nand.channel_busy(ch, now).0).sum();
        assert_eq!(by_channel, n.transfer_ns.iter().sum::<u64>(), "seed {seed}");
        let by_lun: u64 = (0..8).flat_map(|lun| nand.lun_busy(lun, now)).sum();
        // A LUN's is the mean of its planes, rounded down for each holder.
        let planes = n.busy_ns.iter().sum::<u64>();
        let lost = planes - by_lun * u64::from(PLANES);
        assert!(lost < 8 * 16 * u64::from(PLANES), "seed {seed}: {planes}, {by_lun}");
        for r in &records {
            let waited = r.waited.iter().sum::<u64>();
            assert_eq!(waited, r.started.since(r.submitted).0, "seed {seed}: {r:?}");
        }
    }
}

fn busy(c: &NandConfig, reads: impl Iterator<Item = (u32, u32)>) -> (Nand, Vec<Record>) {
    let read = |(page, sector)| Arrival {
        at: 0,
        kind: OpKind::Read,
        class: Class::UserRead,
        lun: 0,
        line: 40,
        page,
        sector,
        sectors: 1,
    };
    run(c, &reads.map(read).collect::<Vec<_>>())
}

/// Closed form: command and tR and transfer of one plane, while the channel has room for the others.
#[test]
fn a_lun_reads_as_many_pages_at_a_time_as_it_has_planes() {
    let sectors = |n: u32| (0..n).map(|i| (i % PAGES, i % PLANES * ROW));
    let mut c = NandConfig { channel_order: ChannelOrder::CommandsFirst, ..config() };
    let (command, array, data) = (3, 30, Span::of_bytes(4096, c.channel_rate).0);
    let one = command + array + data;
    // The channel is the narrower: a command and a sector of each read are on it, and nothing else is waited for.
    let (nand, r) = busy(&c, sectors(400));
    let last = r.iter().map(|r| r.end.0).max().unwrap();
    let floor = 400 * (command + data);
    assert!(
        (floor..floor + one + array).contains(&last),
        "{last} where {floor} are on the channel"
    );
    assert_eq!(nand.counters().array_ns[Class::UserRead], 400 * array);
    // One plane is a LUN of its own.
    let (_, r) = busy(&c, (0..100).map(|i| (i % PAGES, 1)));
    assert_eq!(r.iter().map(|r| r.end.0).max(), Some(100 * one));
    // All planes at a time are four times one.
    c.independent_plane_reads = false;
    let (_, r) = busy(&c, sectors(400));
    assert_eq!(r.iter().map(|r| r.end.0).max(), Some(400 * one));
    // A fast channel: all planes at once.
    c.independent_plane_reads = true;
    (c.channel_rate, c.t_command) = (40_960_000_000_000, Span::ZERO);
    let (_, r) = busy(&c, sectors(400));
    let last = r.iter().map(|r| r.end.0).max().unwrap();
    assert!((100 * array..104 * array).contains(&last), "{last}");
}
