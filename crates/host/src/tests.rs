//! The whole host against a fake drive.

use crate::config::{DeadlineConfig, HostCost, PollCost, SpdkCost, UringCost};
use crate::*;
use std::collections::BTreeMap;
use wordline_base::event::Event;
use wordline_base::{Ctx, Ddir, IoClass, Kind, Layer, Life, Rng, Span, Time, Why};
use wordline_ftl::Ftl;
use wordline_nvme::{Cqe, Opcode, Sqe, Status};

const US: u64 = 1_000;

/// hoststack.md section 2, i7-8700: S_sub 1.7 us, S_int 2.8 us, libaio 0.8 us more.
pub fn i7_8700() -> HostCost {
    HostCost {
        application: Span(0),
        crossing: Span(150),
        syscall: Span(550),
        aio_submit: Span(350),
        aio_getevents: Span(300),
        bio: Span(250),
        bio_page: Span(40),
        block: Span(400),
        scheduler: Span(300),
        dma_map: Span(200),
        doorbell: Span(150),
        interrupt_entry: Span(500),
        interrupt: Span(400),
        completion: Span(300),
        wake_up: Span(1300),
        ipi: Span(700),
        idle_exit: Span(0),
        finish: Span(300),
        tick: Span(0),
        poll: PollCost::default(),
        uring: UringCost::default(),
        spdk: SpdkCost::default(),
        socket: Default::default(),
        nbd: Default::default(),
        flashshare: Default::default(),
        md: Default::default(),
        warm: Default::default(),
        memory: Default::default(),
        power: Default::default(),
    }
}

pub fn stack(cores: u32) -> StackConfig {
    StackConfig {
        engine: Engine::Libaio,
        kernel: true,
        cores,
        queues: 0,
        queue_depth: 1024,
        scheduler: Scheduler::None,
        scheduler_tags: 256,
        bio_scheduler: Scheduler::None,
        max_request: 128 << 10,
        merge: true,
        hipri: false,
        io_poll: 1,
        io_poll_delay: -1,
        poll_queues: 0,
        sq_thread_idle: Span::from_secs(1),
        time_slice: Span::from_ms(3),
        wakeup_granularity: Span::from_ms(4),
        sleeper_credit: Span::from_ms(12),
        tick_hz: 0,
        kworker: Default::default(),
        idle: Default::default(),
        ftl_core: None,
        fs: None,
        nbd: None,
        deadline: DeadlineConfig::default(),
        kyber: Default::default(),
        sfq: Default::default(),
        bfq: Default::default(),
        flashshare: Default::default(),
        md: Default::default(),
        cost: i7_8700(),
    }
}

pub fn drive() -> DriveInfo {
    DriveInfo {
        bytes: 1 << 30,
        lba_bytes: 512,
        queues: 128,
        depth: 1024,
        max_transfer: 0,
        volatile_cache: true,
        weighted_urgent: true,
        sector: Default::default(),
        staging_bytes: 0,
        gc: None,
        luns: None,
        unit_sectors: 16,
    }
}

pub struct List {
    items: Vec<Next>,
    at: usize,
    repeat: bool,
    pub done: u64,
}

impl Source for List {
    #[inline]
    fn next(&mut self, now: Time) -> Next {
        if self.at == self.items.len() {
            if !self.repeat {
                return Next::Done;
            }
            self.at = 0;
        }
        let next = self.items[self.at];
        if let Next::NotBefore { at, .. } = next
            && now < at
        {
            return next;
        }
        self.at += 1;
        if matches!(next, Next::NotBefore { .. }) { self.next(now) } else { next }
    }
    fn finished(&mut self, _: Ddir, _: u64, _: u32, _: bool, _: Span, _: Time) {
        self.done += 1;
    }
}

pub fn io(ddir: Ddir, offset: u64, len: u32) -> Next {
    Next::Io { ddir, offset, len, class: IoClass::NONE }
}
pub fn list(items: Vec<Next>) -> List {
    List { items, at: 0, repeat: false, done: 0 }
}
pub fn forever(items: Vec<Next>) -> List {
    List { items, at: 0, repeat: true, done: 0 }
}
fn reads(n: u64) -> Vec<Next> {
    (0..n).map(|i| io(Ddir::Read, (i * 7919 % 200_000) * 4096, 4096)).collect()
}

type Latency = Box<dyn FnMut(&Sqe, Time) -> Time>;

/// A drive that answers each command at the time a closure says.
pub struct World<S> {
    pub host: Host<S>,
    pub ctx: Ctx,
    commands: Vec<Option<(u16, Sqe)>>,
    free: Vec<u32>,
    latency: Latency,
    pub status: Box<dyn FnMut(&Sqe) -> Status>,
    /// MSI for every n-th completion of the drive.
    pub coalesce: u32,
    posted: u32,
    pub finished: Vec<(Finished, Life)>,
    pub keep: bool,
    pub count: u64,
    pub log: Vec<(Time, Sqe)>,
    pub log_on: bool,
    at_drive: BTreeMap<(u16, u16), ()>,
    check: bool,
    /// By completion queue: its vector is masked, a message is pending, and entries were posted.
    vectors: BTreeMap<u16, (bool, bool, u64)>,
    /// Messages sent.
    pub messages: BTreeMap<u16, u64>,
}

impl<S: Source> World<S> {
    pub fn with_ftl(
        stack: &StackConfig,
        drive: DriveInfo,
        jobs: Vec<(ThreadSpec, S)>,
        ftl: Option<(wordline_ftl::Translator, wordline_ftl::config::FtlCost)>,
        latency: Latency,
    ) -> World<S> {
        let mut world = World {
            host: Host::new(stack, jobs, vec![DiskSpec::new(drive).with_ftl(ftl)]).unwrap(),
            ctx: Ctx::new(),
            commands: Vec::new(),
            free: Vec::new(),
            latency,
            status: Box::new(|_| Status::Success),
            coalesce: 1,
            posted: 0,
            finished: Vec::new(),
            keep: true,
            count: 0,
            log: Vec::new(),
            log_on: true,
            at_drive: BTreeMap::new(),
            check: true,
            vectors: BTreeMap::new(),
            messages: BTreeMap::new(),
        };
        for queue in world.host.queues() {
            world.vectors.entry(queue.cq).or_default().0 |= queue.masked;
        }
        world.host.start(&mut world.ctx);
        world.drain();
        world
    }

    fn drain(&mut self) {
        while let Some(out) = self.host.poll() {
            match out {
                Output::Submit { sq, sqe, after, .. } => {
                    if self.check {
                        let fresh = self.at_drive.insert((sq, sqe.cid), ()).is_none();
                        assert!(fresh, "identifier {} of queue {sq} is in use", sqe.cid);
                    }
                    if self.log_on {
                        self.log.push((self.ctx.now, sqe));
                    }
                    let at = (self.latency)(&sqe, self.ctx.now + after);
                    let slot = match self.free.pop() {
                        Some(slot) => slot,
                        None => {
                            self.commands.push(None);
                            self.commands.len() as u32 - 1
                        }
                    };
                    self.commands[slot as usize] = Some((sq, sqe));
                    self.ctx.at(at, Kind::Posted, slot);
                }
                Output::Ended { .. } => {}
                Output::Mask { cq, masked, head, .. } => {
                    let vector = self.vectors.entry(cq).or_default();
                    assert_ne!(vector.0, masked, "the mask bit of {cq} is so already");
                    vector.0 = masked;
                    if !masked && std::mem::take(&mut vector.1) && vector.2 > head {
                        *self.messages.entry(cq).or_default() += 1;
                        self.host.on_interrupt(&mut self.ctx, (0, cq));
                    }
                }
                Output::Hold { .. } | Output::TakeReport { .. } => {}
                Output::Send { message: m, .. } => panic!("{m:?} without a network"),
                Output::Finished(f) => {
                    self.count += 1;
                    let life = self.ctx.lives.end(f.io);
                    if self.check {
                        assert_eq!(life.begin, f.issued);
                        assert_eq!(life.end, f.completed);
                        assert!(f.issued <= f.submitted && f.submitted <= f.completed);
                        assert_eq!(life.spent().iter().sum::<u64>(), life.latency().0);
                    }
                    if self.keep {
                        self.finished.push((f, life));
                    }
                }
            }
        }
    }

    fn event(&mut self, event: Event) {
        if event.kind() == Kind::Posted {
            let (sq, sqe) = self.commands[event.index() as usize].take().unwrap();
            self.free.push(event.index());
            if self.check {
                self.at_drive.remove(&(sq, sqe.cid)).unwrap();
            }
            self.ctx.mark(sqe.io, Layer::Nand, Why::Read, 0, self.ctx.now);
            let status = (self.status)(&sqe);
            let cqe = Cqe { sq, cid: sqe.cid, sq_head: 0, status, phase: true, held: None };
            self.posted += 1;
            let last = self.coalesce == 1 || !self.at_drive.keys().any(|k| k.0 == sq);
            let interrupt = self.posted.is_multiple_of(self.coalesce) || last;
            let cq = self.host.block.hctxs[sq].cq;
            let vector = self.vectors.entry(cq).or_default();
            vector.1 |= interrupt && vector.0;
            vector.2 += 1;
            let interrupt = interrupt && !vector.0;
            *self.messages.entry(cq).or_default() += u64::from(interrupt);
            self.host.on_posted(&mut self.ctx, (0, cq), cqe, interrupt);
        } else {
            self.host.on_event(&mut self.ctx, event);
        }
        self.drain();
    }

    /// Runs until `end` or until nothing is pending.
    pub fn run_to(&mut self, end: Time) {
        while let Some(at) = self.ctx.queue.next_time()
            && at <= end
        {
            let (now, event) = self.ctx.queue.pop().unwrap();
            self.ctx.now = now;
            if self.ctx.queue.popped() >= 20_000_000 {
                let threads: Vec<String> = self.host.threads.iter().map(|t| t.dump()).collect();
                panic!("no end in sight at {now:?}: {threads:#?} {:?}", self.host.counters);
            }
            self.event(event);
        }
        if end < Time::NEVER {
            self.ctx.now = end;
        }
    }
    pub fn run(&mut self) {
        self.run_to(Time::NEVER);
    }
    pub fn stop(&mut self) {
        self.host.stop(&mut self.ctx);
        self.drain();
        self.run();
        self.check_drained();
    }

    /// Nothing left anywhere, and every core's time accounted for.
    pub fn check_drained(&self) {
        if !self.host.idle() {
            let threads: Vec<String> = self.host.threads.iter().map(|t| t.dump()).collect();
            let hctxs: Vec<_> = self.host.block.hctxs.iter().map(|h| h.in_flight()).collect();
            let deadline = self.host.block.disks[0].elevator.as_ref().map(|d| d.len());
            panic!("not idle: {threads:#?} {:?} {hctxs:?} {deadline:?}", self.host.counters);
        }
        assert_eq!(self.ctx.lives.in_flight(), 0);
        assert_eq!(self.host.block.nodes.len(), 0);
        assert_eq!(self.host.block.requests.len(), 0);
        let now = self.ctx.now;
        for core in self.host.stats(now).cores {
            assert_eq!(core.user + core.system + core.irq + core.idle, now.0, "{core:?}");
        }
        let c = self.host.counters;
        assert_eq!(c.requests, c.completions);
    }
}

pub fn fixed(span: u64) -> Latency {
    Box::new(move |_, now| now + Span(span))
}

fn world(stack: &StackConfig, jobs: Vec<(ThreadSpec, List)>, latency: Latency) -> World<List> {
    World::with_ftl(stack, drive(), jobs, None, latency)
}

pub fn spec(engine: Engine, iodepth: u32) -> ThreadSpec {
    ThreadSpec::new("job", engine, iodepth)
}

fn spent(life: &Life, layer: Layer) -> u64 {
    life.spent()[layer as usize]
}

#[test]
fn a_pvsync2_read_costs_the_sum_of_its_stages() {
    let job = (spec(Engine::Pvsync2, 1), list(reads(100)));
    let mut w = world(&stack(1), vec![job], fixed(7_300));
    w.run();
    w.check_drained();
    assert_eq!(w.finished.len(), 100);
    for (f, life) in &w.finished {
        assert_eq!(f.completed.since(f.issued).0, 11_800);
        assert_eq!(f.submitted, f.issued);
        assert_eq!(spent(life, Layer::Syscall), 700);
        assert_eq!(spent(life, Layer::Block), 650);
        assert_eq!(spent(life, Layer::Driver), 350);
        assert_eq!(spent(life, Layer::Nand), 7_300);
        assert_eq!(spent(life, Layer::Completion), 2_800);
        assert_eq!(life.steps().len(), 7, "{:?}", life.steps());
    }
    // Application time lowers the rate and is no latency.
    assert_eq!(w.ctx.now.0, 100 * 11_800);
    let mut config = stack(1);
    config.cost.application = Span(1_000);
    let mut w = world(&config, vec![(spec(Engine::Pvsync2, 1), list(reads(100)))], fixed(7_300));
    w.run();
    assert!(w.finished.iter().all(|(f, _)| f.completed.since(f.issued).0 == 11_800));
    assert_eq!(w.ctx.now.0, 100 * 12_800);
    let stats = w.host.stats(w.ctx.now);
    assert_eq!(stats.threads[0].user, 100 * 1_000);
    assert_eq!(stats.threads[0].voluntary_switches, 101);
    assert_eq!(stats.counters.interrupts, 100);
}

#[test]
fn tracks_show_jobs_and_cores() {
    use wordline_base::Tracks;
    use wordline_base::track::Track;
    let mut w = world(&stack(1), vec![(spec(Engine::Pvsync2, 1), list(reads(10)))], fixed(7_300));
    w.ctx.tracks = Some(Box::new(Tracks::new(1_000)));
    w.run();
    let tracks = w.ctx.tracks.as_ref().unwrap();
    let time = |track: Track, name: &str| {
        let of = |s: &&wordline_base::track::Slice| s.track == track && s.name == name;
        tracks.slices.iter().filter(of).map(|s| s.end.since(s.begin).0).sum::<u64>()
    };
    assert_eq!(time(Track::Job(0), "read"), 10 * 11_800);
    assert_eq!(time(Track::Core(0), "interrupt"), 10 * 1_200);
    assert_eq!(time(Track::Core(0), "thread"), 10 * 3_300);
}

#[test]
fn leaving_idle_costs_once_an_interrupt() {
    let mut config = stack(1);
    config.cost.idle_exit = Span(1_000);
    let mut w = world(&config, vec![(spec(Engine::Pvsync2, 1), list(reads(10)))], fixed(7_300));
    w.run();
    w.check_drained();
    assert!(w.finished[1..].iter().all(|(f, _)| f.completed.since(f.issued).0 == 12_800));
}

#[test]
fn libaio_at_depth_one_adds_its_crossings() {
    let job = (spec(Engine::Libaio, 1), list(reads(100)));
    let mut w = world(&stack(1), vec![job], fixed(7_300));
    w.run();
    w.check_drained();
    for (f, _) in &w.finished {
        assert_eq!(f.completed.since(f.issued).0, 12_600);
        assert_eq!(f.submitted.since(f.issued).0, 2_050);
    }
    let s = &w.host.stats(w.ctx.now).threads[0];
    assert_eq!((s.iodepth_level[0], s.iodepth_submit[1], s.iodepth_complete[1]), (100, 100, 100));
}

#[test]
fn throughput_is_the_lesser_of_processor_and_device() {
    // A fast drive: the core is the limit, with io_submit 2.05 us, io_getevents 0.75 us and the
    // interrupt 1.2 us.
    let mut w =
        world(&stack(1), vec![(spec(Engine::Libaio, 32), forever(reads(64)))], fixed(7_300));
    w.keep = false;
    w.log_on = false;
    w.run_to(Time(20_000 * US));
    let stats = w.host.stats(w.ctx.now);
    let rate = w.count as f64 / 0.02;
    let per_io = 1e9 / rate;
    assert!((3_950.0..4_050.0).contains(&per_io), "{per_io}");
    let c = stats.cores[0];
    assert!(c.idle < w.ctx.now.0 / 500, "{c:?}");
    assert_eq!(c.user + c.system + c.irq + c.idle, w.ctx.now.0);
    // What fio prints as IO depths: 32=100 %, submit and complete 4=100 %.
    assert!(stats.threads[0].iodepth_level[5] > w.count - 40);
    w.stop();

    // A slow drive: 32 in flight over its latency (Little's law), the core mostly idle.
    let mut w =
        world(&stack(1), vec![(spec(Engine::Libaio, 32), forever(reads(64)))], fixed(1_000_000));
    w.run_to(Time(500_000 * US));
    let n = w.finished.len() as u64;
    let mean = w.finished.iter().map(|(f, _)| f.completed.since(f.issued).0).sum::<u64>() / n;
    let in_flight = mean as f64 * n as f64 / w.ctx.now.0 as f64;
    assert!((31.0..32.01).contains(&in_flight), "{in_flight}");
    assert!((1_000_000..1_100_000).contains(&mean), "{mean}");
    w.stop();
}

#[test]
fn a_busy_core_runs_warm_code_and_a_pause_makes_it_cold() {
    let mut config = stack(1);
    (config.cost.warm.share, config.cost.warm.application) = (0.5, 0.5);
    config.cost.warm.displaced = Span::from_secs(1);
    // One I/O at a time: the core pauses before each, and all is as long as the profile says.
    for engine in [Engine::Pvsync2, Engine::Libaio] {
        let took = if engine == Engine::Libaio { 12_600 } else { 11_800 };
        let mut w = world(&config, vec![(spec(engine, 1), list(reads(100)))], fixed(7_300));
        w.run();
        w.check_drained();
        assert!(w.finished.iter().all(|(f, _)| f.completed.since(f.issued).0 == took));
    }
    // No pause: 3.05 us of code take half, entries and doorbells their 0.95 us.
    let job = || vec![(spec(Engine::Libaio, 32), forever(reads(64)))];
    let mut w = world(&config, job(), fixed(7_300));
    (w.keep, w.log_on) = (false, false);
    w.run_to(Time(20_000 * US));
    let per_io = 20e6 / w.count as f64;
    assert!((2_470.0..2_485.0).contains(&per_io), "{per_io}");
    let stats = w.host.stats(w.ctx.now);
    let busy: u64 = stats.functions[0].iter().map(|f| f.ns).sum();
    let c = stats.cores[0];
    assert!(busy.abs_diff(c.user + c.system + c.irq) < 5_000, "{busy} {c:?}");
    w.stop();
}

#[test]
fn the_way_of_an_interrupts_message_costs_a_working_core_nothing() {
    let mut config = stack(1);
    let mut per_io = |way: u64| {
        config.cost.poll.interrupt_delivery = Span(way);
        // The core is idle meanwhile: the way is part of the latency.
        let mut w = world(&config, vec![(spec(Engine::Libaio, 1), list(reads(100)))], fixed(7_300));
        w.run();
        assert!(w.finished.iter().all(|(f, _)| f.completed.since(f.issued).0 == 12_600));
        let job = vec![(spec(Engine::Libaio, 32), forever(reads(64)))];
        let mut w = world(&config, job, fixed(7_300));
        (w.keep, w.log_on) = (false, false);
        w.run_to(Time(20_000 * US));
        w.stop();
        20e6 / w.count as f64
    };
    let (all, less) = (per_io(0), per_io(200));
    assert!((all - less - 200.0).abs() < 5.0, "{all} ns an I/O, {less} without the way");
}

#[test]
fn completions_share_interrupts() {
    // 32 commands that end together: one interrupt takes them all.
    let latency = Box::new(|_: &Sqe, now: Time| Time((now.0 / 1_000_000 + 1) * 1_000_000));
    let mut s = spec(Engine::Libaio, 32);
    s.iodepth_batch_complete_max = 32;
    let mut w = world(&stack(1), vec![(s, list(reads(320)))], latency);
    w.run();
    w.check_drained();
    let c = w.host.counters;
    assert_eq!((c.completions, c.interrupts), (320, 10));
}

#[test]
fn interrupts_push_back_what_they_interrupt() {
    // Two jobs on one core: one computes for 50 us an I/O, the other's interrupts come meanwhile.
    let mut config = stack(1);
    config.cost.application = Span(50_000);
    let jobs = vec![
        (spec(Engine::Pvsync2, 1), list(reads(50))),
        (spec(Engine::Pvsync2, 1), list(reads(50))),
    ];
    let mut w = world(&config, jobs, fixed(7_300));
    w.run();
    w.check_drained();
    let s = w.host.stats(w.ctx.now);
    assert_eq!(s.cores[0].irq, 100 * 1_200);
    assert_eq!(s.cores[0].user, 100 * 50_000);
    assert_eq!(w.finished.len(), 100);
    // Alone the latency is 11.8 us; sharing the core adds waiting for the other's computation.
    let busy: u64 = w
        .finished
        .iter()
        .flat_map(|(_, l)| l.steps().iter().filter(|s| s.why == Why::CoreBusy))
        .count() as u64;
    assert!(busy > 50, "{busy}");
}

#[test]
fn two_threads_share_a_core_by_time_slices() {
    let mut config = stack(1);
    config.time_slice = Span::from_us(100);
    let jobs = (0..2).map(|_| (spec(Engine::Libaio, 64), forever(reads(64)))).collect();
    let mut w = world(&config, jobs, fixed(3_000));
    w.run_to(Time(50_000 * US));
    let mut counts = [0u64; 2];
    for (f, _) in &w.finished {
        counts[f.thread as usize] += 1;
    }
    let share = counts[0] as f64 / (counts[0] + counts[1]) as f64;
    assert!((0.45..0.55).contains(&share), "{counts:?}");
    let s = w.host.stats(w.ctx.now);
    assert!(s.threads[0].involuntary_switches > 50);
    w.stop();
}

#[test]
fn a_woken_thread_goes_before_one_that_had_more_of_the_core() {
    // One thread is busy all the time, the other reads now and then.
    let longest = |granularity| {
        let mut config = stack(1);
        config.wakeup_granularity = granularity;
        let pause = |i| Next::Pause { spin_until: Time::ZERO, until: Time(i * 1_000 * US) };
        let rare = (0..40).flat_map(|i| [pause(i), io(Ddir::Read, i * 4096, 4096)]).collect();
        let jobs = vec![
            (spec(Engine::Libaio, 64), forever(reads(64))),
            (spec(Engine::Pvsync2, 1), list(rare)),
        ];
        let mut w = world(&config, jobs, fixed(3_000));
        w.run_to(Time(45_000 * US));
        let of = |t| w.finished.iter().filter(move |(f, _)| f.thread == t);
        assert!(of(0).count() > 1000, "the busy one goes on");
        let longest = of(1).skip(4).map(|(f, _)| f.completed.since(f.issued).0).max().unwrap();
        w.stop();
        longest
    };
    // Until it has had 4 ms more it keeps the core for its slice.
    let (with, without) = (longest(Span::from_ms(4)), longest(Span::from_secs(1)));
    assert!(with < 100_000, "{with} ns");
    assert!(without > 2_000_000, "{without} ns");
}

#[test]
fn each_core_has_a_queue_and_threads_spread() {
    let jobs = (0..8).map(|_| (spec(Engine::Libaio, 4), list(reads(50)))).collect();
    let mut w = world(&stack(4), jobs, fixed(50_000));
    w.run();
    w.check_drained();
    assert_eq!(w.host.queues().count(), 4);
    assert_eq!((0..8).map(|t| w.host.core_of(t)).collect::<Vec<_>>(), [0, 1, 2, 3, 0, 1, 2, 3]);
    assert_eq!(w.host.counters.ipis, 0);
    assert_eq!(w.finished.len(), 400);
}

#[test]
fn a_completion_on_another_core_is_an_ipi() {
    let mut config = stack(2);
    config.queues = 1;
    let mut s = spec(Engine::Pvsync2, 1);
    s.cpus_allowed = vec![1];
    let mut w = world(&config, vec![(s, list(reads(10)))], fixed(7_300));
    w.run();
    w.check_drained();
    assert_eq!(w.host.counters.ipis, 10);
    assert!(w.finished.iter().all(|(f, _)| f.completed.since(f.issued).0 == 11_800 + 700));
}

fn sequential(n: u64, ddir: Ddir) -> Vec<Next> {
    (0..n).map(|i| io(ddir, i * 4096, 4096)).collect()
}

#[test]
fn one_io_submit_merges_contiguous_ios_up_to_max_request() {
    for (batch, queues, sizes) in [
        (16, 1, vec![16 * 4096]),
        (16, 0, vec![16 * 4096]),
        (64, 0, vec![32 * 4096, 32 * 4096]),
        (1, 0, vec![4096; 16]),
    ] {
        let mut config = stack(2);
        config.queues = queues;
        let mut s = spec(Engine::Libaio, 64);
        s.iodepth_batch = batch;
        s.iodepth_batch_complete_max = 64;
        let n = u64::from(batch.max(16));
        let mut w = world(&config, vec![(s, list(sequential(n, Ddir::Write)))], fixed(10_000));
        w.run();
        w.check_drained();
        let got: Vec<u32> = w.log.iter().map(|(_, s)| s.bytes).collect();
        assert_eq!(got, sizes, "batch {batch}, queues {queues}");
        assert_eq!(w.finished.len() as u64, n);
        let c = w.host.counters;
        assert_eq!(c.back_merges, n - sizes.len() as u64);
    }
    // Backwards: front merges. Off: none.
    let mut config = stack(1);
    let mut s = spec(Engine::Libaio, 16);
    s.iodepth_batch = 16;
    let mut items = sequential(16, Ddir::Read);
    items.reverse();
    let mut w = world(&config, vec![(s.clone(), list(items.clone()))], fixed(10_000));
    w.run();
    assert_eq!((w.log.len(), w.log[0].1.bytes, w.log[0].1.address), (1, 65536, 0));
    assert_eq!(w.host.counters.front_merges, 15);
    config.merge = false;
    let mut w = world(&config, vec![(s, list(items))], fixed(10_000));
    w.run();
    w.check_drained();
    assert_eq!(w.log.len(), 16);
}

#[test]
fn the_plug_of_a_single_queue_holds_sixteen_and_sorts_them() {
    let mut s = spec(Engine::Libaio, 32);
    s.iodepth_batch = 32;
    let items: Vec<Next> = (0..32u64).rev().map(|i| io(Ddir::Read, i * 65536, 4096)).collect();
    let mut config = stack(2);
    config.queues = 1;
    let mut w = world(&config, vec![(s.clone(), list(items.clone()))], fixed(10_000));
    w.run();
    w.check_drained();
    let order: Vec<u64> = w.log.iter().map(|(_, s)| s.address / 65536).collect();
    let expected: Vec<u64> = (16..32).chain(0..16).collect();
    assert_eq!(order, expected);
    assert_eq!(w.host.counters.plug_flushes, 2);
    // Several queues: the plug holds one request, nothing is sorted.
    let mut w = world(&stack(2), vec![(s, list(items))], fixed(10_000));
    w.run();
    let order: Vec<u64> = w.log.iter().map(|(_, s)| s.address / 65536).collect();
    assert_eq!(order, (0..32).rev().collect::<Vec<u64>>());
}

#[test]
fn large_ios_split_and_join() {
    for (engine, len, parts) in [
        (Engine::Pvsync2, 512 << 10, 4),
        (Engine::Libaio, 512 << 10, 4),
        (Engine::Pvsync2, 3 << 20, 24),
        (Engine::Libaio, (1 << 20) + 4096, 9),
    ] {
        let job = (spec(engine, 1), list(vec![io(Ddir::Read, 1 << 20, len)]));
        // The second command is the slowest.
        let mut n = 0;
        let latency = Box::new(move |_: &Sqe, now: Time| {
            n += 1;
            now + Span(if n == 2 { 500_000 } else { 20_000 })
        });
        let mut w = world(&stack(1), vec![job], latency);
        w.run();
        w.check_drained();
        assert_eq!(w.log.len(), parts, "{len}");
        assert_eq!(w.log.iter().map(|(_, s)| s.bytes).sum::<u32>(), len);
        assert!(w.log.iter().all(|(_, s)| s.bytes <= 128 << 10));
        let (f, life) = &w.finished[0];
        assert_eq!(life.latency(), f.completed.since(f.issued));
        assert_eq!(spent(life, Layer::Nand), 500_000);
        assert_eq!(w.host.counters.splits, 1);
    }
}

#[test]
fn tags_run_out_and_are_handed_over() {
    let mut config = stack(1);
    config.queue_depth = 5;
    let jobs = (0..3).map(|_| (spec(Engine::Libaio, 8), list(reads(100)))).collect();
    let mut w = world(&config, jobs, fixed(100_000));
    w.run();
    w.check_drained();
    assert_eq!(w.finished.len(), 300);
    assert!(w.host.counters.tag_waits > 20);
    // Never more than depth - 1 at the drive: 300 I/Os in rounds of 4.
    assert!(w.ctx.now.0 >= 300 / 4 * 100_000);
    assert!(w.finished.iter().any(|(_, l)| l.steps().iter().any(|s| s.why == Why::Tag)));
}

#[test]
fn flushes_wait_share_and_are_dropped_without_a_cache() {
    // libaio: the flush sends what is queued first and is a call of its own.
    let mut s = spec(Engine::Libaio, 8);
    s.iodepth_batch = 4;
    let items = vec![
        io(Ddir::Write, 0, 4096),
        io(Ddir::Write, 8192, 4096),
        io(Ddir::Sync, 0, 0),
        io(Ddir::Write, 65536, 4096),
    ];
    let mut w = world(&stack(1), vec![(s, list(items.clone()))], fixed(10_000));
    w.run();
    w.check_drained();
    let ops: Vec<Opcode> = w.log.iter().map(|(_, s)| s.opcode).collect();
    assert_eq!(ops, [Opcode::Write, Opcode::Write, Opcode::Flush, Opcode::Write]);
    assert_eq!(w.finished.len(), 4);

    let mut d = drive();
    d.volatile_cache = false;
    let job = (spec(Engine::Pvsync2, 1), list(items));
    let mut w: World<List> = World::with_ftl(&stack(1), d, vec![job], None, fixed(10_000));
    w.run();
    w.check_drained();
    assert_eq!(w.log.len(), 3);
    assert_eq!(w.finished.len(), 4);

    // Four jobs on one core's queue: one flush at the drive at a time, the others share the next.
    let jobs =
        (0..4).map(|_| (spec(Engine::Pvsync2, 1), list(vec![io(Ddir::DataSync, 0, 0)]))).collect();
    let mut w = world(&stack(1), jobs, fixed(100_000));
    w.run();
    w.check_drained();
    assert_eq!((w.log.len(), w.finished.len()), (2, 4));
    assert_eq!(w.host.counters.shared_flushes, 3);
}

#[test]
fn bad_ios_fail_and_stop_the_job_unless_told_otherwise() {
    let items = vec![
        io(Ddir::Read, 100, 4096),
        io(Ddir::Read, 0, 100),
        io(Ddir::Write, 0, 0),
        io(Ddir::Read, 1 << 30, 512),
        io(Ddir::Read, u64::MAX - 511, 4096),
        io(Ddir::Trim, 0, 8192),
        io(Ddir::Read, 512, 512),
    ];
    for engine in [Engine::Pvsync2, Engine::Libaio] {
        for kernel in [true, false] {
            for go_on in [true, false] {
                let mut config = stack(1);
                config.kernel = kernel;
                let mut s = spec(engine, 1);
                s.continue_on_error = go_on;
                let mut w = world(&config, vec![(s, list(items.clone()))], fixed(10_000));
                w.run();
                w.check_drained();
                let ok: Vec<bool> = w.finished.iter().map(|(f, _)| f.ok).collect();
                if go_on {
                    assert_eq!(ok, [false, false, false, false, false, true, true]);
                    assert_eq!(w.log[0].1.opcode, Opcode::Deallocate);
                } else {
                    assert_eq!(ok, [false]);
                }
            }
        }
    }
    // A media error reaches the application.
    let job = (spec(Engine::Libaio, 4), list(reads(20)));
    let mut w = world(&stack(1), vec![job], fixed(10_000));
    w.status = Box::new(|_| Status::UnrecoveredRead);
    w.run();
    w.check_drained();
    assert!(w.finished.len() < 20 && w.finished.iter().all(|(f, _)| !f.ok));
}

#[test]
fn null_completes_at_once() {
    let mut config = stack(1);
    config.cost.application = Span(700);
    let mut w = world(&config, vec![(spec(Engine::Null, 1), list(reads(10)))], fixed(1));
    w.run();
    w.check_drained();
    assert_eq!((w.ctx.now.0, w.finished.len(), w.log.len()), (7_000, 10, 0));
}

#[test]
fn batches_of_completions_and_the_low_mark_follow_fio() {
    let mut s = spec(Engine::Libaio, 16);
    s.iodepth_batch = 8;
    s.iodepth_batch_complete_min = 4;
    s.iodepth_batch_complete_max = 8;
    s.iodepth_low = 8;
    let mut w = world(&stack(1), vec![(s, list(reads(160)))], fixed(30_000));
    w.run();
    w.check_drained();
    let stats = &w.host.stats(w.ctx.now).threads[0];
    assert_eq!(w.finished.len(), 160);
    assert_eq!(stats.submit_calls, 20);
    assert_eq!(stats.iodepth_submit[2], 20);
    assert!(stats.complete_calls >= 20 && stats.complete_calls <= 41, "{stats:?}");

    // A batch is waited for, and at the end what is left of the job.
    let late = |f: &Finished| f.offset == 7919 * 4096;
    for (reads_of_job, min, why) in [(4, 1, Why::Drain), (8, 4, Why::Batch)] {
        let mut s = spec(Engine::Libaio, 8);
        s.iodepth_batch_complete_min = min;
        s.iodepth_batch_complete_max = min;
        let latency = |sqe: &Sqe, now: Time| {
            now + Span(if sqe.address == 7919 * 4096 { 900_000 } else { 30_000 })
        };
        let mut w = world(&stack(1), vec![(s, list(reads(reads_of_job)))], Box::new(latency));
        w.run();
        let waited = |(_, l): &&(Finished, Life)| {
            let of = |w| l.steps().iter().any(|s| s.why == w);
            assert!(!of(Why::Batch) || !of(Why::Drain));
            of(why)
        };
        let n = w.finished.iter().filter(|f| !late(&f.0)).filter(waited).count();
        assert!(n >= 3, "{why:?}: {n} of {}", w.finished.len());
    }

    // Polling: io_getevents never sleeps, so the core is busy throughout.
    let mut s = spec(Engine::Libaio, 1);
    s.iodepth_batch_complete_min = 0;
    let mut w = world(&stack(1), vec![(s, list(reads(20)))], fixed(100_000));
    w.run();
    w.check_drained();
    assert_eq!(w.host.stats(w.ctx.now).cores[0].idle, 0);
}

/// An open loop at twice what the drive serves: the submitter is always late and short of tags.
/// A drive faster than the rest of io_submit: the reaper has I/Os back before the call that sent them
/// returns, which must not look for them again.
#[test]
fn a_reaper_may_be_faster_than_the_submission_call() {
    for batch in [4, 16] {
        let mut s = spec(Engine::Libaio, 32);
        (s.reaper, s.iodepth_batch) = (true, batch);
        let mut config = stack(2);
        (config.cost.interrupt_entry, config.cost.interrupt) = (Span(1), Span(1));
        (config.cost.completion, config.cost.wake_up, config.cost.ipi) =
            (Span(1), Span(1), Span(1));
        // The vector is on the reaper's core.
        config.queues = 2;
        let mut w = world(&config, vec![(s, list(reads(400)))], fixed(1));
        w.run();
        w.check_drained();
        assert_eq!(w.finished.len(), 400);
        let early = w.finished.iter().filter(|(f, _)| f.submitted == f.completed).count();
        assert!(early > 0, "batch {batch}: none was back before its call");
    }
}

#[test]
fn a_reaper_keeps_completions_from_waiting_for_the_submitter() {
    let items: Vec<Next> = (0..2_000u64)
        .flat_map(|i| {
            let at = Time(i * 5_000);
            [Next::NotBefore { at, quiesce: false }, io(Ddir::Read, i * 4096, 4096)]
        })
        .collect();
    let run = |cores: u32, reaper: bool| {
        let mut config = stack(cores);
        config.queue_depth = 33;
        let mut s = spec(Engine::Libaio, 4096);
        s.reaper = reaper;
        // One command at a time, 10 us each.
        let mut free = Time::ZERO;
        let serial = move |_: &Sqe, now: Time| {
            free = free.max(now) + Span(10_000);
            free
        };
        let mut w = world(&config, vec![(s, list(items.clone()))], Box::new(serial));
        w.run();
        w.check_drained();
        assert_eq!(w.finished.len(), 2_000);
        assert!(w.host.counters.tag_waits > 1_000);
        let stats = &w.host.stats(w.ctx.now).threads[0];
        assert_eq!(stats.complete_calls, if reaper { 2_000 } else { stats.complete_calls });
        let all = w.finished.iter().map(|(_, l)| spent(l, Layer::Completion));
        (all.clone().sum::<u64>() / 2_000, all.max().unwrap())
    };
    let c = i7_8700();
    // Handler, wake-up by another core or in turn, and one io_getevents.
    let handler = c.interrupt_entry.0 + c.interrupt.0 + c.completion.0;
    let reap = c.wake_up.0 + c.crossing.0 + c.aio_getevents.0 + c.finish.0;
    let one = handler + c.ipi.0 + reap;
    assert_eq!(run(2, true), (one, one));
    let (mean, _) = run(2, false);
    assert!(mean > 20 * one, "without a reaper {mean} ns, reaping costs {one}");
    // On one core the two take turns.
    let (mean, _) = run(1, true);
    assert!(mean < 2 * one, "{mean} ns on one core");
}

#[test]
fn timed_sources_wait_and_quiesce() {
    // Open loop: arrivals every 5 us on a drive of 100 us; the depth is not the limit.
    let items: Vec<Next> = (0..100u64)
        .flat_map(|i| {
            let at = Time(i * 5_000);
            [Next::NotBefore { at, quiesce: false }, io(Ddir::Read, i * 4096, 4096)]
        })
        .collect();
    for kernel in [true, false] {
        let mut config = stack(1);
        config.kernel = kernel;
        let job = (spec(Engine::Libaio, 256), list(items.clone()));
        let mut w = world(&config, vec![job], fixed(100_000));
        w.run();
        w.check_drained();
        assert_eq!(w.finished.len(), 100);
        let last = w.log.last().unwrap().0;
        assert!(last.0 < 99 * 5_000 + 20_000, "{last:?}");
    }
    // fio's rate: everything in flight is reaped before it sleeps.
    let items: Vec<Next> = (0..10u64)
        .flat_map(|i| {
            let at = Time(i * 120_000 + 30_000);
            [io(Ddir::Read, i * 4096, 4096), Next::NotBefore { at, quiesce: true }]
        })
        .collect();
    for kernel in [true, false] {
        let mut config = stack(1);
        config.kernel = kernel;
        let job = (spec(Engine::Libaio, 256), list(items.clone()));
        let mut w = world(&config, vec![job], fixed(100_000));
        w.run();
        w.check_drained();
        assert_eq!(w.finished.len(), 10);
        assert!(w.log.windows(2).all(|p| p[1].0.since(p[0].0).0 >= 100_000));
    }
}

#[test]
fn jobs_start_at_their_time_and_stop_drains() {
    let mut late = spec(Engine::Libaio, 8);
    late.start = Time(1_000_000);
    let mut never = spec(Engine::Libaio, 8);
    never.start = Time(1_000_000_000);
    let jobs = vec![
        (spec(Engine::Libaio, 8), forever(reads(10))),
        (late, forever(reads(10))),
        (never, forever(reads(10))),
    ];
    let mut w = world(&stack(2), jobs, fixed(70_000));
    w.run_to(Time(2_000_000));
    assert!(!w.host.idle());
    w.stop();
    assert!(w.finished.iter().all(|(f, _)| f.thread != 1 || f.issued >= Time(1_000_000)));
    assert!(w.finished.iter().any(|(f, _)| f.thread == 1));
    assert!(w.finished.iter().all(|(f, _)| f.thread != 2));
}

#[test]
fn without_a_kernel_depth_over_latency_is_the_rate() {
    let mut config = stack(1);
    config.kernel = false;
    let mut w = world(&config, vec![(spec(Engine::Libaio, 32), forever(reads(64)))], fixed(64_000));
    w.run_to(Time(64_000 * 100 - 1));
    assert_eq!(w.count, 32 * 99);
    assert!(w.finished.iter().all(|(_, l)| l.latency().0 == 64_000));
    w.stop();
    // A queue of 9 entries takes 8 commands.
    config.queue_depth = 9;
    let mut w = world(&config, vec![(spec(Engine::Libaio, 32), forever(reads(64)))], fixed(64_000));
    w.run_to(Time(64_000 * 100 - 1));
    assert_eq!(w.count, 8 * 99);
    w.stop();
    // Large I/Os become several commands.
    let job = (spec(Engine::Libaio, 2), list(vec![io(Ddir::Write, 0, 1 << 20); 10]));
    let mut w = world(&config, vec![job], fixed(64_000));
    w.run();
    w.check_drained();
    assert_eq!((w.log.len(), w.finished.len()), (80, 10));
}

#[test]
fn priorities_belong_to_queues_of_jobs() {
    use wordline_nvme::QueuePriority::*;
    let mut config = stack(1);
    config.kernel = false;
    let job = |p| {
        let mut s = spec(Engine::Libaio, 1);
        s.class = s.class.with_queue(p);
        (s, list(vec![]))
    };
    let w = world(&config, vec![job(Urgent), job(Low)], fixed(1));
    assert_eq!(w.host.queues().map(|q| q.priority).collect::<Vec<_>>(), [Urgent, Low]);
    config.queues = 1;
    let e =
        Host::<List>::new(&config, vec![job(Urgent), job(Low)], vec![DiskSpec::new(drive())]).err();
    assert_eq!(refused(e), "prioclass");
    config.kernel = true;
    let e = Host::<List>::new(&config, vec![job(Urgent)], vec![DiskSpec::new(drive())]).err();
    assert_eq!(refused(e), "prioclass");
}

#[test]
fn mq_deadline_merges_across_calls_and_prefers_reads() {
    // One tag: what waits in the scheduler is merged and sorted.
    let mut config = stack(1);
    config.scheduler = Scheduler::MqDeadline;
    config.queue_depth = 2;
    let job = (spec(Engine::Libaio, 32), list(sequential(32, Ddir::Write)));
    let mut w = world(&config, vec![job], fixed(100_000));
    w.run();
    w.check_drained();
    assert_eq!(w.finished.len(), 32);
    // The first alone; the second was dispatched and found no tag, and what waits on
    // hctx->dispatch takes no merges; then all that came meanwhile in one.
    let sizes: Vec<u32> = w.log.iter().map(|(_, s)| s.bytes / 4096).collect();
    assert_eq!(sizes, [1, 1, 30]);
    assert!(w.finished.iter().any(|(_, l)| l.steps().iter().any(|s| s.why == Why::Plugged)));

    let scattered =
        |ddir, n: u64| (0..n).map(|i| io(ddir, (i * 37 % 101) << 16, 4096)).collect::<Vec<_>>();
    let jobs = vec![
        (spec(Engine::Libaio, 16), list(scattered(Ddir::Write, 64))),
        (spec(Engine::Libaio, 16), list(scattered(Ddir::Read, 64))),
    ];
    config.cores = 2;
    config.queue_depth = 3;
    config.scheduler_tags = 12;
    let mut w = world(&config, jobs, fixed(100_000));
    w.run();
    w.check_drained();
    assert_eq!(w.finished.len(), 128);
    assert!(w.host.counters.tag_waits > 0);
    let mean = |d: Ddir| {
        let l: Vec<u64> =
            w.finished.iter().filter(|(f, _)| f.ddir == d).map(|(_, l)| l.latency().0).collect();
        l.iter().sum::<u64>() / l.len() as u64
    };
    assert!(mean(Ddir::Read) < mean(Ddir::Write));
}

/// Each disk has its scheduler's tags for itself (nr_requests of its queue), and kyber holds a quarter of
/// them back from discards.
#[test]
fn a_disk_has_its_own_scheduler_tags() {
    let mut config = stack(1);
    config.scheduler = Scheduler::Kyber;
    let small = StackConfig { scheduler_tags: 8, ..config.clone() };
    let shape = DiskShape { queue: Some(Box::new(small)), ..DiskShape::new(drive()) };
    let second = DiskSpec { shape, ..DiskSpec::new(drive()) };
    let disks = vec![DiskSpec::new(drive()), second];
    let host = Host::<List>::new(&config, Vec::new(), disks).unwrap();
    let of = |disk: u16| {
        let first = host.block.disks[disk].first;
        let kept = |opcode| host.block.kept_back(disk, opcode);
        (host.block.hctxs[first].at_rest().0, kept(Opcode::Deallocate), kept(Opcode::Write))
    };
    assert_eq!((of(0), of(1)), ((256, 64, 0), (8, 2, 0)));
}

/// Random jobs, shapes, stacks and latencies: every I/O issued finishes once, its life sums up, and
/// nothing is left behind. `World` checks identifiers, lives and core times throughout.
pub fn random_run(seed: u64, shuffle: bool, polling: bool) -> (u64, u64, u64) {
    let mut rng = Rng::from_seed(seed);
    let mut config = stack(1 + rng.below(4) as u32);
    config.queues = rng.below(u64::from(config.cores) + 1) as u32;
    config.queue_depth = [2, 3, 8, 1024][rng.below(4) as usize];
    config.merge = rng.below(4) != 0;
    config.kernel = rng.below(5) != 0;
    config.time_slice = Span([1_000, 50_000, 3_000_000][rng.below(3) as usize]);
    config.max_request = [4096, 16384, 131072, 1 << 21][rng.below(4) as usize];
    if rng.below(3) == 0 {
        config.scheduler = Scheduler::MqDeadline;
        config.scheduler_tags = [1, 4, 256][rng.below(3) as usize];
        config.deadline.fifo_batch = 1 + rng.below(16) as u32;
        config.deadline.read_expire = Span(1 + rng.below(1_000_000));
    }
    if rng.below(4) == 0 {
        let c = &mut config.cost;
        (c.crossing, c.syscall, c.block, c.doorbell) = Default::default();
        (c.interrupt, c.interrupt_entry, c.wake_up, c.completion) = Default::default();
        (c.bio, c.dma_map, c.finish, c.aio_submit) = Default::default();
        (c.aio_getevents, c.scheduler, c.ipi) = Default::default();
    } else {
        config.cost.application = Span(rng.below(3_000));
        config.cost.idle_exit = Span(rng.below(2_000));
    }
    let total: u64 = 100 + rng.below(200);
    let mut jobs = Vec::new();
    let count = 1 + rng.below(6);
    for _ in 0..count {
        let engines = [Engine::Pvsync2, Engine::Libaio, Engine::Libaio, Engine::Null];
        let mut s = spec(engines[rng.below(4) as usize], 1 + rng.below(40) as u32);
        s.iodepth_batch = rng.below(20) as u32;
        s.iodepth_batch_complete_min = rng.below(10) as u32;
        s.iodepth_batch_complete_max = s.iodepth_batch_complete_min + rng.below(10) as u32;
        s.iodepth_low = rng.below(10) as u32;
        s.start = Time(rng.below(100_000));
        s.continue_on_error = true;
        let items = (0..total)
            .map(|_| match rng.below(40) {
                0 => Next::NotBefore { at: Time(rng.below(3_000_000)), quiesce: true },
                1 => Next::NotBefore { at: Time(rng.below(3_000_000)), quiesce: false },
                2 => io(Ddir::Sync, 0, 0),
                3 => io(Ddir::Trim, rng.below(100) << 12, 4096 << rng.below(12)),
                4 => io(Ddir::Read, rng.below(1000), 4096),
                5 => io(Ddir::Write, rng.below(100) << 12, 4096 * (1 + rng.below(800) as u32)),
                n if n % 2 == 0 => io(Ddir::Read, rng.below(64) << 12, 4096),
                _ => io(Ddir::Write, rng.below(64) << 12, 4096 * (1 + rng.below(4) as u32)),
            })
            .collect();
        jobs.push((s, list(items)));
    }
    if polling {
        poll_tests::randomize(&mut config, &mut jobs, &mut Rng::from_seed(seed ^ 2));
        background_tests::randomize(&mut config, &mut jobs, &mut Rng::from_seed(seed ^ 3));
    }
    let mut device = Rng::from_seed(seed ^ 1);
    let spread = [1, 1_000, 100_000][rng.below(3) as usize];
    let latency = Box::new(move |_: &Sqe, now: Time| now + Span(1 + device.below(spread)));
    let mut ctx = Ctx::new();
    if shuffle {
        ctx.queue.shuffle_ties(seed);
    }
    let mut w = World {
        host: Host::<List>::new(&config, jobs, vec![DiskSpec::new(drive())]).unwrap(),
        ctx,
        commands: Vec::new(),
        free: Vec::new(),
        latency,
        status: Box::new(|_| Status::Success),
        coalesce: 1 + rng.below(4) as u32,
        posted: 0,
        finished: Vec::new(),
        keep: true,
        count: 0,
        log: Vec::new(),
        log_on: true,
        at_drive: BTreeMap::new(),
        vectors: BTreeMap::new(),
        messages: BTreeMap::new(),
        check: true,
    };
    w.host.start(&mut w.ctx);
    w.drain();
    if rng.below(3) == 0 {
        w.run_to(Time(rng.below(2_000_000)));
        w.stop();
    } else {
        w.run();
    }
    w.check_drained();
    for hctx in &w.host.block.hctxs {
        assert_eq!(hctx.at_rest(), (config.scheduler_tags, 0, 0));
    }
    let issued: u64 = w.host.stats(w.ctx.now).threads.iter().flat_map(|t| t.issued).sum();
    let done: u64 = w.host.threads.iter().filter_map(|t| t.source.as_ref()).map(|s| s.done).sum();
    assert_eq!(done, w.count);
    assert!(issued - w.count <= count, "{issued} issued, {} finished", w.count);
    (w.ctx.now.0, w.count, w.host.counters.requests)
}

#[test]
fn random_jobs_lose_nothing() {
    for seed in 0..1_000 {
        let result = std::panic::catch_unwind(|| random_run(seed, seed % 3 == 2, false));
        if let Err(e) = result {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(e);
        }
    }
}

#[test]
fn runs_repeat() {
    for seed in [3, 17, 99] {
        assert_eq!(random_run(seed, false, false), random_run(seed, false, false), "seed {seed}");
    }
}

fn pblk_world(jobs: Vec<(ThreadSpec, List)>, depth: u32, cores: u32) -> World<List> {
    pblk_world_on(&StackConfig { queue_depth: depth, ..stack(cores) }, jobs)
}

/// pblk on a small open-channel drive.
pub fn pblk_world_on(config: &StackConfig, jobs: Vec<(ThreadSpec, List)>) -> World<List> {
    pblk_world_of(4096, config, jobs)
}

/// The same with logical blocks of so many bytes.
fn pblk_world_of(lba: u32, config: &StackConfig, jobs: Vec<(ThreadSpec, List)>) -> World<List> {
    let (luns, unit, pages, lines) = (8, 8, 16, 64);
    let g = wordline_nand::Geometry {
        slc_pages: 0,
        channels: 4,
        luns,
        lines,
        pages,
        sector: Default::default(),
        sectors_per_unit: unit,
        sectors_per_stripe: unit * luns,
        sectors_per_line: unit * luns * pages,
        planes: 1,
        in_place: false,
    };
    let spare = wordline_ftl::FtlConfig::new(wordline_ftl::Placement::Host, 28.0);
    let ftl = Ftl::new(&g, &spare, &mut |_, _| false, wordline_base::Seed(1)).unwrap();
    let sectors = ftl.sectors();
    let d = DriveInfo { bytes: sectors * 4096, lba_bytes: lba, unit_sectors: unit, ..drive() };
    let cost = wordline_ftl::config::FtlCost {
        read_command: Span(500),
        read_sector: Span(100),
        write_command: Span(1_000),
        write_sector: Span(400),
        program_unit: Span(2_000),
        gc_sector: Span(200),
        background_command: Span(1_000),
        ..Default::default()
    };
    // A LUN works in the order of arrival.
    let mut free = vec![Time::ZERO; luns as usize];
    let latency = Box::new(move |sqe: &Sqe, now: Time| {
        let lun = &mut free[sqe.address as usize / unit as usize % luns as usize];
        let span = match sqe.opcode {
            Opcode::VectorRead => 60_000,
            Opcode::VectorWrite => 500_000,
            Opcode::VectorReset => 3_000_000,
            other => panic!("{other:?} for an open-channel drive"),
        };
        *lun = now.max(*lun) + Span(span);
        *lun
    });
    let mut w = World::with_ftl(config, d, jobs, Some((ftl.into(), cost)), latency);
    w.ctx.stamps = wordline_base::Stamps::new(sectors);
    w
}

#[test]
fn pblk_ends_a_write_in_its_buffer_and_reads_it_there() {
    let items =
        vec![io(Ddir::Write, 0, 4096), io(Ddir::Read, 0, 4096), io(Ddir::Read, 1 << 20, 4096)];
    let mut w = pblk_world(vec![(spec(Engine::Pvsync2, 1), list(items))], 1024, 1);
    w.run_to(Time(1_000_000));
    assert!(w.log.is_empty() && w.host.idle());
    // Crossing, call, bio, pblk, return: no sleep.
    let latency: Vec<u64> = w.finished.iter().map(|(_, l)| l.latency().0).collect();
    assert_eq!(latency, [950 + 1_400 + 300, 950 + 600 + 300, 950 + 600 + 300]);
    let s = w.host.stats(w.ctx.now).pblk.unwrap();
    assert_eq!((s.write_bios, s.write_waits, s.read_bios), (1, 0, 2));
    assert_eq!((s.buffer_sectors, s.unmapped_sectors), (1, 1));
    assert_eq!(w.ctx.stamps.wrong().0, 0);
}

#[test]
fn pblk_keeps_every_sector_through_garbage_collection() {
    for (seed, depth, cores) in [(1, 1024, 4), (2, 4, 2), (3, 2, 1)] {
        let mut rng = Rng::from_seed(seed);
        let sectors = 40_000;
        let jobs = (0..3)
            .map(|j| {
                let items = (0..25_000)
                    .map(|_| {
                        let len = 4096 * (1 + rng.below(16) as u32);
                        let at = rng.below(sectors) * 4096;
                        match rng.below(100) {
                            0 => io(Ddir::Sync, 0, 0),
                            1 => io(Ddir::Trim, at, len),
                            2..40 => io(Ddir::Read, at, len),
                            _ => io(Ddir::Write, at, len),
                        }
                    })
                    .collect();
                let engine = if j == 0 { Engine::Pvsync2 } else { Engine::Libaio };
                (spec(engine, 8), list(items))
            })
            .collect();
        let mut w = pblk_world(jobs, depth, cores);
        assert!(w.host.block.disks[0].info.bytes >= (sectors + 16) * 4096);
        let mut rounds = 0;
        while w.count < 75_000 || !w.host.idle() {
            w.run_to(w.ctx.now + Span::from_ms(100));
            rounds += 1;
            assert!(rounds < 5_000, "seed {seed}: {} done, {:?}", w.count, w.host.counters);
        }
        assert!(w.finished.iter().all(|(f, _)| f.ok));
        let (checked, wrong) = (w.ctx.stamps.checked(), w.ctx.stamps.wrong());
        assert!(checked > 20_000 && wrong.0 == 0, "seed {seed}: {wrong:?}");
        let s = w.host.stats(w.ctx.now);
        let p = s.pblk.unwrap();
        assert!(p.erases > 0 && p.background_reads > 0 && p.write_waits > 0, "{p:?}");
        assert!(p.flash_sectors > 0 && p.buffer_sectors > 0);
        assert!(s.threads[3].system > 0);
        assert!(
            w.finished.iter().any(|(_, l)| l.steps().iter().any(|s| s.why == Why::WriteBuffer))
        );
        for core in &s.cores {
            assert_eq!(core.user + core.system + core.irq + core.idle, w.ctx.now.0);
        }
        assert_eq!(w.ctx.lives.in_flight(), 0);
        assert_eq!(w.host.block.nodes.len(), 0);
    }
}

#[test]
fn pblk_reads_the_rest_of_a_sector_written_in_part() {
    let config = stack(2);
    // A sector on flash: written, and then as much as the ring holds.
    let fill = (0..2048).map(|i| io(Ddir::Write, i * 8192, 8192));
    let then = [
        io(Ddir::Write, 512, 512),
        io(Ddir::Write, 3 * 4096 + 512, 4096),
        io(Ddir::Read, 1024, 512),
        io(Ddir::Trim, 5 * 4096 + 512, 8192),
        io(Ddir::Write, 2048 * 8192 - 512, 512),
    ];
    let jobs = || vec![(spec(Engine::Pvsync2, 1), list(fill.clone().chain(then).collect()))];
    let mut w = pblk_world_of(512, &config, jobs());
    while w.count < 2053 || !w.host.idle() {
        w.run_to(w.ctx.now + Span::from_ms(100));
    }
    assert!(w.finished.iter().all(|(f, _)| f.ok));
    let p = w.host.stats(w.ctx.now).pblk.unwrap();
    assert_eq!((p.rmw_units, p.rmw_waits), (4, 0));
    assert_eq!(p.rmw_read_bytes, 3 * 4096, "the last sector is in the ring: {p:?}");
    assert_eq!(p.write_bytes, 2048 * 8192 + 512 + 4096 + 512);
    let has = |at: usize, layer, why| {
        w.finished[at].1.steps().iter().any(|s| (s.layer, s.why) == (layer, why))
    };
    // The second reads two sectors of one LUN.
    let spent = |at: usize, layer: Layer| w.finished[at].1.spent()[layer as usize];
    for (at, read) in [(2048, 60_000), (2049, 120_000), (2052, 0)] {
        assert_eq!(spent(at, Layer::Nand), read);
        assert!(has(at, Layer::Completion, Why::Work) && has(at, Layer::Ftl, Why::CoreBusy));
    }
    assert_eq!(w.ctx.stamps.wrong().0, 0);
    // With whole sectors the first is refused, and ends the job.
    let mut w = pblk_world_of(4096, &config, jobs());
    w.run_to(w.ctx.now + Span::from_secs(5));
    assert!(w.host.idle());
    let failed: Vec<u64> =
        w.finished.iter().filter(|(f, _)| !f.ok).map(|(f, _)| f.offset).collect();
    assert_eq!((failed, w.count), (vec![512], 2049));
}

#[test]
fn pblk_loses_no_write_of_part_of_a_sector() {
    for (seed, depth, cores) in [(1, 1024, 4), (2, 4, 2), (3, 2, 1), (4, 64, 3)] {
        let mut rng = Rng::from_seed(seed);
        // Few, so that they meet, and many, so that they come from flash.
        let blocks = [24, 8 * 20_000][(seed % 2) as usize];
        let jobs = (0..3)
            .map(|j| {
                let items = (0..8_000)
                    .map(|_| {
                        let len = 512 * (1 + rng.below(40) as u32);
                        let at = rng.below(blocks) * 512;
                        match rng.below(100) {
                            0 => io(Ddir::Sync, 0, 0),
                            1..8 => io(Ddir::Trim, at, len),
                            8..30 => io(Ddir::Read, at, len),
                            30..50 => io(Ddir::Write, at / 4096 * 4096, 8192),
                            _ => io(Ddir::Write, at, len),
                        }
                    })
                    .collect();
                let engine = if j == 0 { Engine::Pvsync2 } else { Engine::Libaio };
                (spec(engine, 8), list(items))
            })
            .collect();
        let config = StackConfig { queue_depth: depth, max_request: 8192, ..stack(cores) };
        let mut w = pblk_world_of(512, &config, jobs);
        let mut rounds = 0;
        while w.count < 24_000 || !w.host.idle() {
            w.run_to(w.ctx.now + Span::from_ms(100));
            rounds += 1;
            assert!(rounds < 5_000, "seed {seed}: {} done, {:?}", w.count, w.host.counters);
        }
        assert!(w.finished.iter().all(|(f, _)| f.ok));
        let wrong = w.ctx.stamps.wrong();
        assert_eq!(wrong.0, 0, "seed {seed}: (sector, got, expected) {wrong:?}");
        let s = w.host.stats(w.ctx.now);
        let p = s.pblk.unwrap();
        assert!(p.rmw_units > 5_000 && p.rmw_waits > 10, "seed {seed}: {p:?}");
        for core in &s.cores {
            assert_eq!(core.user + core.system + core.irq + core.idle, w.ctx.now.0);
        }
        assert_eq!((w.ctx.lives.in_flight(), w.host.block.nodes.len()), (0, 0));
    }
}

/// What the host itself costs: run with `--release --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn speed() {
    for (name, kernel, engine, depth, cores, latency) in [
        ("libaio QD32, saturated core", true, Engine::Libaio, 32, 1, 7_300),
        ("libaio QD32, slow drive", true, Engine::Libaio, 32, 1, 200_000),
        ("pvsync2", true, Engine::Pvsync2, 1, 1, 7_300),
        ("no kernel QD32", false, Engine::Libaio, 32, 1, 100_000),
    ] {
        let mut config = stack(cores);
        config.kernel = kernel;
        let mut w =
            world(&config, vec![(spec(engine, depth), forever(reads(1024)))], fixed(latency));
        (w.keep, w.log_on, w.check) = (false, false, false);
        w.run_to(Time(1_000_000));
        let (count, events) = (w.count, w.ctx.queue.popped());
        let clock = measure::cpu_nanoseconds();
        while w.count < count + 2_000_000 {
            w.run_to(w.ctx.now + Span(10_000_000));
        }
        let ns = measure::cpu_nanoseconds() - clock;
        let n = (w.count - count) as f64;
        let events = (w.ctx.queue.popped() - events) as f64 / n;
        println!("{name}: {:.0} ns and {events:.2} events an I/O, one of them the drive's", ns / n);
    }
}

#[allow(clippy::disallowed_methods)]
mod measure {
    /// Processor time of this thread, which other work on the machine does not disturb much.
    pub fn cpu_nanoseconds() -> f64 {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    }
}

/// What a refusal is about: an option of a job, or a key of the stack or the drive.
pub(crate) fn refused(e: Option<HostError>) -> String {
    match e.expect("it is refused") {
        HostError::Job { option, .. } => option.into(),
        HostError::Stack(bad) | HostError::Drive(bad) => bad.key.into(),
    }
}
