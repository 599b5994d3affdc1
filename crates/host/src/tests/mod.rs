//! The whole host against a fake drive.

mod block;
mod cores;
mod costs;
mod jobs;
mod lock;
mod pblk;
mod random;
mod sync;

use crate::config::{DeadlineConfig, HostCost, PollCost, SpdkCost, UringCost};
use crate::*;
pub use pblk::pblk_world_on;
pub use random::random_run;
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
        bfq: Span(300),
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
        sata: Default::default(),
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
        sched_latency: Span::ZERO,
        time_slice: Span::from_ms(3),
        wakeup_granularity: Span::from_ms(4),
        sleeper_credit: Span::from_ms(12),
        migrate: false,
        rwsem_spin: true,
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
        sata: false,
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
            let cq = self.host.block.hctxs[sq].cq();
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
            let deadline = self.host.block.disks[0].queue.held();
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

#[allow(clippy::disallowed_methods)] // A measurement reads the system's counters.
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
