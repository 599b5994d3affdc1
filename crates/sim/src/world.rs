//! The machine in virtual time: host and drive on one event queue.

use crate::app::{AppSource, SharedApp};
use crate::caution::{self, Seen};
use crate::check::{self, Mounting};
use crate::classes;
use crate::collect::{LayerSums, Slowest};
use crate::cpu::CpuSource;
use crate::drive::{self, Drive, Precondition, SystemConfig};
use crate::error::BuildError;
use crate::host;
use crate::job::{EINVAL, EIO, JobSource};
use crate::net::Network;
use crate::replay::TraceSource;
use crate::result::*;
use crate::steady::{self, Steady};
use crate::thread::{Sample, ThreadPlan, ThreadStats};
use std::collections::BTreeMap;
use wordline_base::life::LAYERS;
use wordline_base::{BadValue, Ctx, Ddir, Event, Kind, SECTOR, Span, Time, Tracks};
use wordline_device::{Controller, ENERGY_STATES};
use wordline_fs::FsConfig;
use wordline_ftl::{Translation, Translator};
use wordline_host::config::{IdleConfig, NbdConfig, PowerConfig};
use wordline_host::source::{Next, Source, ThreadSpec};
use wordline_host::{DriveInfo, Finished, Host, HostStats, Message, Output, SERVED, StackConfig};
use wordline_nand::machine::{CLASSES, Class};
use wordline_trace::{Request, Rounded};

/// Where a thread's I/Os come from.
pub enum AnySource {
    Job(Box<JobSource>),
    Cpu(CpuSource),
    Trace(Box<TraceSource>),
    App(Box<AppSource>),
}

impl AnySource {
    pub fn issued(&self) -> u64 {
        match self {
            AnySource::Job(s) => s.issued(),
            AnySource::Cpu(_) => 0,
            AnySource::Trace(s) => s.issued(),
            AnySource::App(s) => s.issued(),
        }
    }
}

impl Source for AnySource {
    #[inline]
    fn next(&mut self, now: Time) -> Next {
        match self {
            AnySource::Job(s) => s.next(now),
            AnySource::Cpu(s) => s.next(now),
            AnySource::Trace(s) => s.next(now),
            AnySource::App(s) => s.next(now),
        }
    }
    #[inline]
    fn finished(&mut self, ddir: Ddir, offset: u64, len: u32, ok: bool, latency: Span, now: Time) {
        match self {
            AnySource::Job(s) => s.finished(ddir, offset, len, ok, latency, now),
            AnySource::Cpu(s) => s.finished(ddir, offset, len, ok, latency, now),
            AnySource::Trace(s) => s.finished(ddir, offset, len, ok, latency, now),
            AnySource::App(s) => s.finished(ddir, offset, len, ok, latency, now),
        }
    }
}

/// When a thread starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Start {
    At(Time),
    /// This long after the last of these threads ended (`stonewall`, `wait_for`).
    After {
        threads: Vec<u32>,
        delay: Span,
    },
}

/// What ends others when this thread ends (`exitall`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExitRule {
    /// Threads stopped when this one ends, and whether only if it failed.
    pub stops: Vec<u32>,
    pub on_error_only: bool,
}

pub struct ThreadSetup {
    pub plan: ThreadPlan,
    pub spec: ThreadSpec,
    pub source: AnySource,
    pub start: Start,
    pub exit: ExitRule,
}

#[derive(Clone, Debug, Default)]
pub struct Options {
    pub slowest: usize,
    /// Slices to keep for drawing.
    pub tracks: Option<usize>,
    pub shuffle_ties: Option<u64>,
    /// Keep a digest of every event delivered, for comparing runs.
    pub digest: bool,
    /// Stop at this time whatever the jobs say.
    pub limit: Option<Span>,
}

/// Index of the `Sample` event that looks for steady jobs.
const STEADY: u32 = 1;
/// End of an interval, and within it the sectors written by cause and the energy by state.
type Row = (u64, [u64; 9]);

/// First interval of the write-amplification series; it doubles when the series is full.
const SERIES_INTERVAL: Span = Span(10_000_000);
const SERIES_ROWS: usize = 128;

pub struct World {
    ctx: Ctx,
    host: Host<AnySource>,
    /// The host that has the drive, where the first has it over a network.
    server: Option<Served>,
    controller: Controller,
    ftl_on_host: bool,
    threads: Vec<ThreadStats>,
    plans: Vec<ThreadPlan>,
    starts: Vec<Start>,
    exits: Vec<ExitRule>,
    ended: Vec<bool>,
    steady: Vec<Option<Steady>>,
    /// Threads that have not ended.
    running: usize,
    lba_bytes: u64,
    drive_bytes: u64,
    layers: [LayerSums; 3],
    slowest: Slowest,
    series: Vec<Row>,
    series_interval: Span,
    series_last: [u64; 9],
    host_series: Vec<(u64, [u64; HOST_SERIES])>,
    host_last: [u64; HOST_SERIES],
    power: (PowerConfig, IdleConfig),
    /// Flash writes by cause and erases before the run: ageing is not part of it.
    before: wordline_ftl::Counters,
    prepared: Option<Precondition>,
    ageing: Vec<f64>,
    unsteady: bool,
    digest: Option<u64>,
    served: u64,
    stopped: bool,
    /// A program, and the first of its threads.
    app: Option<(SharedApp, u32)>,
}

/// Makes a file system with the jobs' files on it.
fn mount(
    host: &mut Host<AnySource>,
    config: &FsConfig,
    drive: &DriveInfo,
) -> Result<(), BuildError> {
    let mut mounting = Mounting::new(config, drive, host.file_tasks())?;
    for thread in 0..host.jobs() {
        host.source_mut(thread).map_or(Ok(()), |source| mounting.lay_out(source))?;
    }
    host.mount(mounting.fs);
    Ok(())
}

/// The host that has the drive.
fn driver<'a>(
    host: &'a mut Host<AnySource>,
    server: &'a mut Option<Served>,
) -> &'a mut Host<AnySource> {
    match server {
        Some((server, _)) => server,
        None => host,
    }
}

type OnHost = Option<(Translator, wordline_ftl::config::FtlCost)>;
type Served = (Box<Host<AnySource>>, Network);

/// The hosts at both ends of a network block device.
fn network(
    nbd: &NbdConfig,
    (client, served): (&StackConfig, &StackConfig),
    jobs: Vec<(ThreadSpec, AnySource)>,
    drive: &DriveInfo,
    ftl: OnHost,
) -> Result<(Host<AnySource>, Served), BuildError> {
    let mut server = Host::new(served, Vec::new(), drive.clone(), ftl)?;
    server.serve(nbd, client.cores);
    if let Some(cache) = &nbd.cache {
        let bad = |bad: BadValue| BuildError::Value(bad.below("stack.nbd.cache"));
        server.cache_served(cache).map_err(bad)?;
    }
    let mut host = Host::new(client, jobs, check::served(drive, nbd, client), None)?;
    host.connect(nbd);
    Ok((host, (Box::new(server), Network::new(nbd))))
}

impl World {
    pub fn new(
        config: &SystemConfig,
        drive: Drive,
        threads: Vec<ThreadSetup>,
        options: &Options,
    ) -> Result<World, BuildError> {
        let info = config.drive_info(&drive);
        let Drive { nand, ftl, stamps, prepared, ageing, unsteady, .. } = drive;
        let mut ctx = Ctx::new();
        ctx.stamps = stamps;
        ctx.tracks = options.tracks.map(|limit| Box::new(Tracks::new(limit)));
        if let Some(seed) = options.shuffle_ties {
            ctx.queue.shuffle_ties(seed);
        }
        let ftl_on_host = config.ftl_on_host();
        let before = *ftl.counters();
        let (on_host, in_device) = if ftl_on_host {
            (Some((ftl, config.drive.ftl.cost.clone())), None)
        } else {
            (None, Some(ftl))
        };
        let mut controller = Controller::new(&config.drive.device, nand, in_device)
            .map_err(|bad| BuildError::Value(bad.below("device")))?;
        controller.set_ftl_cost(&config.drive.ftl.cost);
        let app = threads.iter().enumerate().find_map(|(i, setup)| match &setup.source {
            AnySource::App(source) => Some((source.app().clone(), i as u32)),
            _ => None,
        });
        let (mut specs, mut plans, mut starts, mut exits) = (vec![], vec![], vec![], vec![]);
        for mut setup in threads {
            setup.spec.start = match &setup.start {
                Start::At(at) => *at,
                Start::After { .. } => Time::NEVER,
            };
            specs.push((setup.spec, setup.source));
            plans.push(setup.plan);
            starts.push(setup.start);
            exits.push(setup.exit);
        }
        let (mut host, server) = match (config.network()?, config.stack.ends()) {
            (Some(nbd), Some((client, served))) => {
                let ends = (&client, &served);
                let (client, server) = network(nbd, ends, specs, &info, on_host)?;
                (client, Some(server))
            }
            _ => (Host::new(&config.stack, specs, info.clone(), on_host)?, None),
        };
        if let Some(config) = &config.stack.fs {
            mount(&mut host, config, &info)?;
        }
        for queue in server.as_ref().map_or(&host, |(server, _)| server).queues() {
            controller
                .create_queue(queue.sq, queue.cq, queue.depth, queue.priority)
                .map_err(|bad| BuildError::Value(bad.below("device")))?;
            controller.set_interrupts(queue.cq, queue.interrupts);
        }
        let stats = plans.iter().enumerate().map(|(i, p)| ThreadStats::new(i as u32 + 1, p));
        let mut world = World {
            threads: stats.collect(),
            ended: vec![false; plans.len()],
            running: plans.len(),
            lba_bytes: u64::from(info.lba_bytes),
            drive_bytes: info.bytes,
            steady: plans.iter().map(|p| p.steady.map(Steady::new)).collect(),
            plans,
            starts,
            exits,
            layers: Default::default(),
            slowest: Slowest::new(options.slowest),
            series: Vec::new(),
            series_interval: SERIES_INTERVAL,
            series_last: [0; 9],
            host_series: Vec::new(),
            host_last: [0; HOST_SERIES],
            power: (config.stack.cost.power.clone(), config.stack.idle.clone()),
            before,
            prepared,
            ageing,
            unsteady,
            digest: options.digest.then_some(0xCBF2_9CE4_8422_2325),
            served: 0,
            stopped: false,
            app,
            ctx,
            host,
            server,
            controller,
            ftl_on_host,
        };
        world.series_last = world.series_now(Time::ZERO);
        world.start(options);
        Ok(world)
    }

    fn start(&mut self, options: &Options) {
        self.ctx.at(Time::ZERO + self.series_interval, Kind::Sample, 0);
        if self.steady.iter().any(Option::is_some) {
            self.ctx.at(Time::ZERO + steady::INTERVAL, Kind::Sample, STEADY);
        }
        if let Some(limit) = options.limit {
            self.ctx.at(Time::ZERO + limit, Kind::Limit, 0);
        }
        for (i, start) in self.starts.iter().enumerate() {
            if let Start::At(at) = start {
                self.threads[i].start(*at, self.plans[i].ramp);
            }
        }
        self.end_with_io();
        self.controller.start(&mut self.ctx);
        if let Some((server, _)) = &mut self.server {
            server.start(&mut self.ctx);
        }
        self.host.start(&mut self.ctx);
        self.pump();
    }

    /// Delivers up to `events` events. False once every thread has ended; what the drive still does
    /// in the background then is not waited for.
    pub fn step(&mut self, events: u64) -> bool {
        for _ in 0..events {
            if self.running == 0 {
                return false;
            }
            let Some((now, event)) = self.ctx.queue.pop() else { return false };
            self.ctx.now = now;
            if let Some(digest) = &mut self.digest {
                let word = now.0 << 8 ^ u64::from(event.index()) ^ (event.kind() as u64) << 59;
                *digest = (*digest ^ word).wrapping_mul(0x100_0000_01B3).rotate_left(17);
            }
            match event.kind() {
                Kind::AppWake | Kind::CoreDone | Kind::Interrupt | Kind::HostTimer => {
                    match &mut self.server {
                        Some((server, _)) if event.index() & SERVED != 0 => {
                            server.on_event(&mut self.ctx, event);
                        }
                        _ => self.host.on_event(&mut self.ctx, event),
                    }
                }
                Kind::FtlTimer | Kind::FtlStep if self.ftl_on_host => {
                    driver(&mut self.host, &mut self.server).on_event(&mut self.ctx, event);
                }
                Kind::Network => self.arrived(event.index()),
                Kind::Sample if event.index() == STEADY => self.look_for_steady(),
                Kind::Sample => self.sample(),
                Kind::Limit => self.stop(),
                _ => self.controller.on_event(&mut self.ctx, event),
            }
            self.pump();
        }
        true
    }

    /// Carries messages between the two sides until neither has any.
    #[inline]
    fn pump(&mut self) {
        loop {
            let served = |(server, _): &mut Served| server.poll();
            if let Some(output) = self.host.poll().or_else(|| self.server.as_mut().and_then(served))
            {
                match output {
                    Output::Send(message) => self.send(message),
                    Output::Submit { sq, sqe } => {
                        self.controller
                            .enqueue(sq, sqe)
                            .expect("the driver counts the free entries of its queues");
                        self.controller.doorbell(&mut self.ctx, sq);
                    }
                    Output::Finished(finished) => self.finished(&finished),
                    Output::Ended { thread } => self.thread_ended(thread),
                }
            } else if let Some(posted) = self.controller.poll() {
                driver(&mut self.host, &mut self.server).on_posted(
                    &mut self.ctx,
                    posted.cq,
                    posted.cqe,
                    posted.interrupt,
                );
            } else if let Some(cq) = self.controller.poll_interrupt() {
                let event = Event::new(Kind::Interrupt, u32::from(cq));
                driver(&mut self.host, &mut self.server).on_event(&mut self.ctx, event);
            } else if let Some((app, first)) = &self.app
                && let Some(thread) = app.borrow_mut().take_wake()
            {
                self.host.kick(&mut self.ctx, first + thread);
            } else {
                return;
            }
        }
    }

    fn send(&mut self, message: Message) {
        let Some((_, network)) = &mut self.server else { return };
        if let Some(message) = network.send(&mut self.ctx, message) {
            self.receive(message);
        }
    }

    fn arrived(&mut self, slot: u32) {
        let Some((_, network)) = &mut self.server else { return };
        let message = network.arrived(slot);
        self.receive(message);
    }

    fn receive(&mut self, message: Message) {
        match &mut self.server {
            Some((server, _)) if !message.reply => server.receive(&mut self.ctx, message),
            _ => self.host.receive(&mut self.ctx, message),
        }
    }

    fn host_stats(&self, now: Time) -> HostStats {
        let stats = self.host.stats(now);
        match &self.server {
            Some((server, _)) => stats.with_server(server.stats(now)),
            None => stats,
        }
    }

    fn finished(&mut self, f: &Finished) {
        self.served += 1;
        let error = if f.ok { 0 } else { self.error_of(f) };
        let closing = match self.host.source_mut(f.thread) {
            Some(AnySource::Job(job)) if f.ddir.is_sync() => job.take_closing(),
            _ => false,
        };
        let elsewhere = match self.host.source(f.thread) {
            Some(AnySource::Job(job)) => job.time_without(f.ddir, f.completed),
            _ => Span::ZERO,
        };
        let stats = &mut self.threads[f.thread as usize];
        // fio forgets what it counted as the first I/O after the ramp completes.
        if stats.counts(f.completed) && stats.take_ramp() {
            stats.depths_before(self.host.thread_counts(f.thread));
        }
        stats.add(&Sample {
            ddir: f.ddir,
            offset: f.offset,
            len: f.len,
            issued: f.issued,
            submitted: f.submitted,
            completed: f.completed,
            error,
            closing,
            class: f.class,
            elsewhere,
        });
        if let Some(AnySource::Job(job)) = self.host.source_mut(f.thread)
            && job.take_restart()
        {
            stats.restart(f.completed);
        }
        let life = self.ctx.lives.get(f.io);
        debug_assert_eq!(life.latency(), f.completed.since(f.issued), "a life is the latency");
        if f.ok && stats.counts(f.completed) && !f.ddir.is_sync() {
            self.layers[f.ddir as usize].add(life);
            self.slowest.offer(life);
        }
        self.ctx.lives.release(f.io);
    }

    /// What a failed I/O returned: the kernel refuses what the drive cannot address.
    fn error_of(&self, f: &Finished) -> i32 {
        let aligned = |n: u64| n.is_multiple_of(self.lba_bytes);
        let end = f.offset.saturating_add(u64::from(f.len));
        let fits = f.len > 0 && aligned(f.offset) && aligned(u64::from(f.len));
        if fits && end <= self.drive_bytes { EIO } else { EINVAL }
    }

    /// A thread has issued its last I/O and reaped it.
    fn thread_ended(&mut self, thread: u32) {
        if std::mem::replace(&mut self.ended[thread as usize], true) {
            return;
        }
        self.running -= 1;
        let failed = match self.host.source(thread) {
            Some(AnySource::Job(job)) => {
                let error = job.error();
                let result = &mut self.threads[thread as usize].result;
                if result.error == 0 {
                    result.error = error;
                }
                result.error != 0
            }
            _ => false,
        };
        let exit = self.exits[thread as usize].clone();
        if failed || !exit.on_error_only {
            for other in exit.stops {
                match self.host.source(other) {
                    Some(AnySource::Job(job)) => job.stop_flag().set(true),
                    Some(AnySource::Cpu(cpu)) => cpu.stop_flag().set(true),
                    _ => {}
                }
            }
        }
        self.end_with_io();
        self.start_waiting();
    }

    /// Once nobody does I/O, those that only compute end, if they are to.
    fn end_with_io(&self) {
        let sources =
            || (0..self.ended.len() as u32).filter_map(|t| self.host.source(t)).enumerate();
        if sources().all(|(t, source)| matches!(source, AnySource::Cpu(_)) || self.ended[t]) {
            for (_, source) in sources() {
                if let AnySource::Cpu(cpu) = source
                    && cpu.ends_with_io()
                {
                    cpu.stop_flag().set(true);
                }
            }
        }
    }

    /// Starts the threads whose predecessors have all ended.
    fn start_waiting(&mut self) {
        for i in 0..self.starts.len() {
            let Start::After { threads, delay } = &self.starts[i] else { continue };
            // After the end of a run (--limit) none starts.
            if self.ended[i] || threads.iter().any(|&t| !self.ended[t as usize]) {
                continue;
            }
            let at = self.ctx.now + *delay;
            self.starts[i] = Start::At(at);
            self.threads[i].start(at, self.plans[i].ramp);
            self.host.start_thread(&mut self.ctx, i as u32, at);
        }
    }

    /// No new I/O; what is in flight drains.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.host.stop(&mut self.ctx);
        for i in 0..self.starts.len() {
            if matches!(self.starts[i], Start::After { .. }) && !self.ended[i] {
                self.ended[i] = true;
                self.running -= 1;
            }
        }
        self.pump();
    }

    pub fn now(&self) -> Time {
        self.ctx.now
    }
    pub fn served(&self) -> u64 {
        self.served
    }
    pub fn events(&self) -> u64 {
        self.ctx.queue.popped()
    }
    /// Digest of every event delivered so far, if asked for.
    pub fn digest(&self) -> Option<u64> {
        self.digest
    }
    pub fn ftl(&self) -> &Translator {
        let of_server = self.server.as_ref().and_then(|(server, _)| server.ftl());
        let of_host = self.host.ftl().or(of_server);
        of_host.or(self.controller.ftl()).expect("the FTL is on one of the sides")
    }
    /// The error that ended a trace early, if one did.
    pub fn trace_error(&self) -> Option<&wordline_trace::TraceError> {
        self.traces().find_map(TraceSource::error)
    }
    /// I/Os of traces and jobs that were made whole blocks of the drive.
    pub fn rounded(&self) -> Rounded {
        let mut sum = Rounded::default();
        for t in 0..self.threads.len() as u32 {
            let one = match self.host.source(t) {
                Some(AnySource::Trace(trace)) => trace.rounded(),
                Some(AnySource::Job(job)) => job.rounded(),
                _ => continue,
            };
            sum.requests += one.requests;
            sum.bytes += one.bytes;
            sum.trims += one.trims;
        }
        sum
    }
    pub fn traces(&self) -> impl Iterator<Item = &TraceSource> {
        (0..self.threads.len() as u32).filter_map(|t| match self.host.source(t) {
            Some(AnySource::Trace(trace)) => Some(&**trace),
            _ => None,
        })
    }

    /// What a reader of the result should know of the drive.
    fn warnings(&self, wa: &WriteAmplification) -> Vec<String> {
        let (c, b) = (self.ftl().counters(), &self.before);
        let unmapped = c.read_unmapped - b.read_unmapped;
        let sources = (0..self.threads.len() as u32).filter_map(|t| self.host.source(t));
        let mut repeats: Vec<(String, u64)> = Vec::new();
        let mut scattered = false;
        for source in sources {
            scattered |= match source {
                AnySource::Job(job) => job.writes_scattered(),
                AnySource::Trace(_) | AnySource::App(_) => true,
                AnySource::Cpu(_) => false,
            };
            let repeated = match source {
                AnySource::Job(job) => job.repeats(),
                _ => None,
            };
            if let Some((name, times)) = repeated
                && !repeats.iter().any(|(n, _)| n == name)
            {
                repeats.push((name.into(), times));
            }
        }
        caution::warnings(&Seen {
            prepared: self.prepared,
            ageing: &self.ageing,
            unsteady: self.unsteady,
            written: wa.host_bytes,
            user: wa.user_sectors,
            gc: wa.gc_sectors,
            lines_freed: c.lines_freed - b.lines_freed,
            read: unmapped + c.read_flash + c.read_buffer - b.read_flash - b.read_buffer,
            unmapped,
            scattered,
            in_place: self.controller.nand().geometry.in_place,
            by_third: wa.by_third,
            repeats,
        })
    }

    fn reads_in_order(&self, machine: &Machine) -> Option<String> {
        let unit = self.controller.nand().geometry.sectors_per_unit;
        let mut sources = (0..self.threads.len() as u32).filter_map(|t| self.host.source(t));
        let in_order = |source: &AnySource| matches!(source, AnySource::Job(job) if job.reads_within(u64::from(unit) * SECTOR));
        if !sources.any(in_order) {
            return None;
        }
        let user_read = machine.reads_blocked.iter().find(|(why, _)| why == "user_read");
        let waited = user_read.map_or(0, |(_, n)| *n);
        caution::reads_in_order(waited, machine.user_flash_reads, unit)
    }

    /// The logs of `write_iolog`: threads that name one file share it, in order of time.
    fn iologs(&self) -> Vec<(String, Vec<Request>)> {
        let mut logs: Vec<(String, Vec<Request>)> = Vec::new();
        for thread in 0..self.threads.len() as u32 {
            let Some(AnySource::Job(job)) = self.host.source(thread) else { continue };
            let Some((path, requests)) = job.iolog() else { continue };
            match logs.iter_mut().find(|(p, _)| p == path) {
                Some((_, log)) => log.extend(requests),
                None => logs.push((path.to_string(), requests.to_vec())),
            }
        }
        for (_, log) in &mut logs {
            log.sort_by_key(|r| r.at);
        }
        logs
    }

    fn written(&self) -> [u64; 4] {
        let c = self.ftl().counters();
        [c.user_sectors, c.gc_sectors, c.pad_sectors, c.smeta_sectors + c.emeta_sectors]
    }

    fn series_now(&self, now: Time) -> [u64; 9] {
        let (written, energy) = (self.written(), self.controller.energy_by_state(now));
        std::array::from_fn(|i| if i < 4 { written[i] } else { energy[i - 4] })
    }
    fn add_row(&mut self, now: Time) {
        let (new, last) = (self.series_now(now), self.series_last);
        // Firmware is booked ahead: an interval's part of it is known when it is over.
        self.series.push((now.0, std::array::from_fn(|i| new[i].saturating_sub(last[i]))));
        self.series_last = new;
    }

    fn sample(&mut self) {
        self.add_row(self.ctx.now);
        self.sample_host();
        if self.series.len() == SERIES_ROWS {
            self.host_series = self
                .host_series
                .chunks(2)
                .map(|pair| (pair[1].0, std::array::from_fn(|i| pair[0].1[i] + pair[1].1[i])))
                .collect();
            self.series = self
                .series
                .chunks(2)
                .map(|pair| (pair[1].0, std::array::from_fn(|i| pair[0].1[i] + pair[1].1[i])))
                .collect();
            self.series_interval = self.series_interval * 2;
        }
        let next = self.ctx.now + self.series_interval;
        self.look_again(next, 0);
    }

    fn sample_host(&mut self) {
        let totals = host::totals(&self.host_stats(self.ctx.now));
        let row = std::array::from_fn(|i| totals[i].saturating_sub(self.host_last[i]));
        self.host_last = totals;
        self.host_series.push((self.ctx.now.0, row));
    }

    /// Alone these events would keep a machine going that has come to a halt.
    fn look_again(&mut self, at: Time, index: u32) {
        let others = usize::from(self.steady.iter().any(Option::is_some));
        if self.ctx.queue.len() > others {
            self.ctx.at(at, Kind::Sample, index);
        }
    }

    /// fio's steadystate_check: rates of each thread, or of its group with `group_reporting`, in
    /// which the last thread judges.
    fn look_for_steady(&mut self) {
        let now = self.ctx.now;
        let mut sums: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for i in 0..self.threads.len() {
            let (stats, ended) = (&self.threads[i].result, self.ended[i]);
            let started = stats.started;
            let Some(steady) = &mut self.steady[i] else { continue };
            if ended || steady.attained() || now < started {
                continue;
            }
            let bytes = stats.dirs.iter().map(|d| d.io_bytes).sum();
            let ios = stats.dirs.iter().map(|d| d.total_ios).sum();
            let rate = steady.rate(now, started, bytes, ios);
            let (group, grouped) = (stats.group, stats.group_reporting);
            let sum = if grouped { sums.entry(group).or_default() } else { &mut (0, 0) };
            let (iops, bw) = rate.unwrap_or_default();
            *sum = (sum.0 + iops, sum.1 + bw);
            let of_group = |t: usize| grouped && self.plans[t].group == group;
            let last = !(i + 1..self.threads.len()).any(|t| of_group(t) && !self.ended[t]);
            if rate.is_none() || grouped && !last || !steady.judge(sum.0, sum.1) {
                continue;
            }
            let settled = (0..self.threads.len()).filter(|&t| t == i || of_group(t));
            for t in settled.collect::<Vec<_>>() {
                if let Some(steady) = &mut self.steady[t] {
                    steady.set_attained();
                }
                if let Some(AnySource::Job(job)) = self.host.source(t as u32) {
                    job.stop_flag().set(true);
                }
            }
        }
        self.look_again(now + steady::INTERVAL, STEADY);
    }

    /// The result so far. A run is complete when [`World::step`] has returned false.
    pub fn finish(mut self, provenance: Provenance) -> RunResult {
        let now = self.ctx.now;
        let host = self.host_stats(now);
        let device = self.controller.stats(now);
        let mut generated = 0;
        let mut failed = false;
        for (i, stats) in self.threads.iter_mut().enumerate() {
            let t = &host.threads[i];
            let r = &mut stats.result;
            r.user = Span(t.user);
            r.system = Span(t.system);
            r.context_switches = t.voluntary_switches + t.involuntary_switches;
            stats.set_depths(t);
            let r = &mut stats.result;
            r.generated = self.host.source(i as u32).map_or(0, AnySource::issued);
            generated += r.generated;
            failed |= r.error != 0;
            r.steady = self.steady[i].as_ref().map(Steady::result);
        }
        if now > Time::ZERO && self.series_last != self.series_now(now) {
            self.add_row(now);
        }
        if self.host_series.last().is_none_or(|(at, _)| *at < now.0) {
            self.sample_host();
        }
        let trace_error = self.trace_error().cloned();
        failed |= trace_error.is_some();
        let app = self.app.as_ref().map(|(app, _)| app.borrow().report());
        failed |= app.as_ref().is_some_and(|a| a.failure.is_some());
        let iologs = self.iologs();
        let machine = self.machine(now, &host, &device, generated);
        let warnings = self.warnings(&machine.write_amplification);
        let prepared = drive::described(self.prepared, &self.ageing, self.unsteady);
        let notes = self.reads_in_order(&machine).into_iter().collect();
        let ended = match (self.stopped, failed) {
            (_, true) => Ended::Failed,
            (true, false) => Ended::Interrupted,
            (false, false) => Ended::Complete,
        };
        RunResult {
            provenance,
            ended,
            stopped: if self.stopped { StoppedBy::Limit } else { StoppedBy::Nobody },
            trace_error,
            global_options: Vec::new(),
            threads: self.threads.into_iter().map(ThreadStats::finish).collect(),
            machine,
            app,
            slowest: self.slowest.take(),
            iologs,
            tracks: self.ctx.tracks.take(),
            prepared,
            warnings,
            notes,
        }
    }

    fn machine(
        &self,
        now: Time,
        host: &wordline_host::HostStats,
        device: &wordline_device::DeviceStats,
        generated: u64,
    ) -> Machine {
        let elapsed = now.0.max(1) as f64;
        let share = |ns: u64| ns as f64 / elapsed;
        let ftl = self.ftl();
        let nand = self.controller.nand();
        let flash = nand.counters();
        let mut wear = nand.wear();
        if nand.geometry.in_place {
            let of_units = ftl.wear();
            (wear.min, wear.mean, wear.max) = (of_units.min, of_units.mean, of_units.max);
        }
        let c = ftl.counters();
        let b = &self.before;
        let user = c.user_sectors - b.user_sectors;
        let gc = c.gc_sectors - b.gc_sectors;
        let padding = c.pad_sectors - b.pad_sectors;
        let metadata = c.smeta_sectors + c.emeta_sectors - b.smeta_sectors - b.emeta_sectors;
        let parity = c.parity_sectors - b.parity_sectors;
        let on_host = host.pblk.as_ref();
        let host_bytes = on_host.map_or(device.bytes_written, |p| p.write_bytes);
        let flash_bytes = (user + gc + padding + metadata + parity) * SECTOR;
        let factor = (user > 0).then(|| (user + gc + padding + metadata) as f64 / user as f64);
        let mut reads_blocked: Vec<(String, u64)> = Class::ALL
            .iter()
            .zip(flash.reads_blocked_by)
            .map(|(class, n)| (class.name().to_string(), n))
            .collect();
        debug_assert_eq!(reads_blocked.len(), CLASSES);
        let suspensions = nand.suspensions();
        if suspensions.is_some() {
            reads_blocked.push(("suspension".into(), flash.reads_blocked_by[CLASSES]));
        }
        reads_blocked.push(("transfer".into(), flash.reads_blocked_by_transfer));
        let (wrong, examples) = self.ctx.stamps.wrong();
        debug_assert!(wrong == 0, "reads returned old data: {examples:?}");
        let memory = ftl.memory();
        let energy = &device.energy;
        let parts = [
            ("controller idle", energy.idle),
            ("firmware", energy.firmware),
            ("link", energy.link),
            ("flash read", energy.nand_read),
            ("flash program", energy.nand_program),
            ("flash erase", energy.nand_erase),
            ("flash transfer", energy.nand_transfer),
        ];
        let of_ftl = [
            ("ftl.user_sectors", c.user_sectors, b.user_sectors),
            ("ftl.gc_sectors", c.gc_sectors, b.gc_sectors),
            ("ftl.pad_sectors", c.pad_sectors, b.pad_sectors),
            ("ftl.smeta_sectors", c.smeta_sectors, b.smeta_sectors),
            ("ftl.emeta_sectors", c.emeta_sectors, b.emeta_sectors),
            ("ftl.parity_sectors", c.parity_sectors, b.parity_sectors),
            ("ftl.resubmitted_sectors", c.resubmitted_sectors, b.resubmitted_sectors),
            ("ftl.programmed_sectors", c.programmed_sectors, b.programmed_sectors),
            ("ftl.trimmed_sectors", c.trimmed_sectors, b.trimmed_sectors),
            ("ftl.read_flash", c.read_flash, b.read_flash),
            ("ftl.read_buffer", c.read_buffer, b.read_buffer),
            ("ftl.read_unmapped", c.read_unmapped, b.read_unmapped),
            ("ftl.gc_read_sectors", c.gc_read_sectors, b.gc_read_sectors),
            ("ftl.meta_read_sectors", c.meta_read_sectors, b.meta_read_sectors),
            ("ftl.gc_stale_sectors", c.gc_stale_sectors, b.gc_stale_sectors),
            ("ftl.flushes", c.flushes, b.flushes),
            ("ftl.flushes_waited", c.flushes_waited, b.flushes_waited),
            ("ftl.erases", c.erases, b.erases),
            ("ftl.erases_sync", c.erases_sync, b.erases_sync),
            ("ftl.lines_opened", c.lines_opened, b.lines_opened),
            ("ftl.lines_freed", c.lines_freed, b.lines_freed),
            ("ftl.lines_freed_empty", c.lines_freed_empty, b.lines_freed_empty),
            ("ftl.lines_levelled", c.lines_levelled, b.lines_levelled),
            ("ftl.emeta_forced", c.emeta_forced, b.emeta_forced),
            ("ftl.drains", c.drains, b.drains),
            ("ftl.program_errors", c.program_errors, b.program_errors),
            ("ftl.erase_errors", c.erase_errors, b.erase_errors),
            ("ftl.gc_read_errors", c.gc_read_errors, b.gc_read_errors),
            ("ftl.gc_repaired_reads", c.gc_repaired_reads, b.gc_repaired_reads),
            ("ftl.meta_read_errors", c.meta_read_errors, b.meta_read_errors),
            ("ftl.blocks_retired", c.blocks_retired, b.blocks_retired),
            ("ftl.lines_retired", c.lines_retired, b.lines_retired),
            ("ftl.lost_sectors", c.lost_sectors, b.lost_sectors),
            ("ftl.writes_refused", c.writes_refused, b.writes_refused),
        ];
        let mut counters: Vec<(String, u64)> =
            of_ftl.map(|(name, now, then)| (name.to_string(), now - then)).to_vec();
        if nand.geometry.in_place {
            let absorbed = c.absorbed_sectors - b.absorbed_sectors;
            counters.push(("ftl.absorbed_sectors".into(), absorbed));
        }
        let link_bytes = host.pblk.as_ref().map_or(Vec::new(), |p| {
            let of = |class: &Class| {
                let sectors = p.link_sectors[*class as usize];
                (sectors > 0).then(|| (class.name().to_string(), sectors * SECTOR))
            };
            Class::ALL.iter().filter_map(of).collect()
        });
        let strides = ftl.strides().map(|s| StrideReport {
            rebuilt_reads: c.rebuilt_reads - b.rebuilt_reads,
            rebuilt_sectors: c.rebuilt_sectors - b.rebuilt_sectors,
            member_sectors: c.member_sectors - b.member_sectors,
            waits: [
                ("cold", c.waits_cold - b.waits_cold),
                ("no_parity", c.waits_no_parity - b.waits_no_parity),
                ("write_error", c.waits_write_error - b.waits_write_error),
                ("one_neighbour", c.waits_one_neighbour - b.waits_one_neighbour),
                ("busy_neighbour", c.waits_busy - b.waits_busy),
                ("unthrottled", c.waits_unthrottled - b.waits_unthrottled),
                ("too_long", c.waits_too_long - b.waits_too_long),
                ("rebuild_error", c.waits_rebuild_error - b.waits_rebuild_error),
            ]
            .map(|(name, n)| (name.to_string(), n))
            .to_vec(),
            read_errors: c.read_errors - b.read_errors,
            repaired_reads: c.repaired_reads - b.repaired_reads,
            rebuild_errors: c.rebuild_errors - b.rebuild_errors,
            deferred: s.deferred,
            throttling_ended: s.throttling_ended,
            xor_sectors: c.xor_sectors - b.xor_sectors,
            xor_ns: host.pblk.as_ref().map_or(0, |p| p.xor_ns),
            parity_table_bytes: s.parity_table_bytes,
            hot_luns: s.hot_luns,
            partitions: s.partitions,
            hot_gc_sectors: c.hot_gc_sectors - b.hot_gc_sectors,
        });
        if let Some(s) = suspensions {
            let erase = Class::Erase as usize;
            let programs = |by: &[u64; CLASSES]| by.iter().sum::<u64>() - by[erase];
            let of_nand = [
                ("nand.programs_suspended", programs(&s.suspends)),
                ("nand.erases_suspended", s.suspends[erase]),
                ("nand.transfers_stopped", s.stops),
                ("nand.operations_passed", s.passed),
                ("nand.program_suspended_ns", programs(&s.suspended_ns)),
                ("nand.erase_suspended_ns", s.suspended_ns[erase]),
                ("nand.most_reads_ahead", s.most.into()),
            ];
            counters.extend(of_nand.map(|(name, n)| (name.to_string(), n)));
        }
        if let Some(j) = nand.joined() {
            let of_gangs = [
                ("nand.operations_joined", j.operations),
                ("nand.skew_ns", j.skew_ns),
                ("nand.most_skew_ns", j.most_skew_ns),
                ("nand.blocks_remapped", j.remapped),
            ];
            counters.extend(of_gangs.map(|(name, n)| (name.to_string(), n)));
        }
        if let Some(fs) = self.host.fs() {
            counters.extend(fs.stats().list().map(|(name, n)| (format!("fs.{name}"), n)));
        }
        let h = &host.counters;
        counters.extend(
            [
                ("host.requests", h.requests),
                ("host.completions", h.completions),
                ("host.interrupts", h.interrupts),
                ("host.ipis", h.ipis),
                ("host.context_switches", h.context_switches),
                ("host.back_merges", h.back_merges),
                ("host.front_merges", h.front_merges),
                ("host.request_merges", h.request_merges),
                ("host.plug_flushes", h.plug_flushes),
                ("host.tag_waits", h.tag_waits),
                ("host.splits", h.splits),
                ("host.errors", h.errors),
                ("host.empty_interrupts", h.empty_interrupts),
                ("host.polls", h.polls),
                ("host.process_completions", h.process_completions),
                ("host.ring_looks", h.ring_looks),
                ("host.polled_completions", h.polled_completions),
                ("host.poll_yields", h.poll_yields),
                ("host.hybrid_sleeps", h.hybrid_sleeps),
                ("host.hybrid_sleep_ns", h.hybrid_sleep_ns),
                ("host.sq_wake_ups", h.sq_wake_ups),
                ("device.commands_in", device.commands_in.iter().sum()),
                ("device.commands_out", device.commands_out.iter().sum()),
                ("device.failed", device.failed),
                ("device.bytes_read", device.bytes_read),
                ("device.bytes_written", device.bytes_written),
                ("device.wait_queue_ns", device.waits.queue),
                ("device.wait_link_ns", device.waits.link),
                ("device.wait_firmware_ns", device.waits.firmware),
                ("device.wait_limits_ns", device.waits.limits),
            ]
            .map(|(name, n)| (name.to_string(), n)),
        );
        if let Some(b) = &host.bios {
            let of_bios = [
                ("host.bio_tokens", b.taken),
                ("host.bios_held", b.held),
                ("host.bio_windows", b.windows),
                ("host.bio_resizes", b.resizes),
            ];
            counters.extend(of_bios.map(|(name, n)| (name.to_string(), n)));
        }
        if self.server.is_some() {
            counters.push(("host.nbd_requests".into(), h.nbd_requests));
        }
        let over_time: Vec<_> =
            self.series.iter().map(|(at, r)| (*at, [r[0], r[1], r[2], r[3]])).collect();
        Machine {
            simulated_ns: now.0,
            events: self.ctx.queue.popped(),
            generated,
            served: self.served,
            write_amplification: WriteAmplification {
                user_sectors: user,
                gc_sectors: gc,
                padding_sectors: padding,
                metadata_sectors: metadata,
                parity_sectors: parity,
                factor,
                factor_with_parity: factor.map(|f| f + parity as f64 / user as f64),
                host_bytes,
                factor_in_bytes: (host_bytes > 0).then(|| flash_bytes as f64 / host_bytes as f64),
                by_third: WriteAmplification::thirds(&over_time),
                over_time,
                ageing: self.ageing.clone(),
                ageing_unsteady: self.unsteady,
            },
            partial_writes: PartialWrites {
                sectors: device.rmw_units + on_host.map_or(0, |p| p.rmw_units),
                read_bytes: device.rmw_read_bytes + on_host.map_or(0, |p| p.rmw_read_bytes),
                waits: device.rmw_waits + on_host.map_or(0, |p| p.rmw_waits),
            },
            reads_blocked,
            user_reads_waited: flash.reads_waited,
            user_flash_reads: flash.ops[Class::UserRead as usize]
                + flash.ops[Class::RebuildRead as usize],
            strides,
            link_bytes,
            layers: Ddir::RW.iter().filter_map(|&d| self.layers[d as usize].table(d)).collect(),
            classes: classes::rows(self.threads.iter().map(|t| &t.result)),
            drive_classes: classes::of_drive(device, &self.controller.cached_by_class()),
            channels: device.channel_busy_ns.iter().map(|&ns| share(ns)).collect(),
            luns: device.lun_busy_ns.iter().map(|&ns| share(ns)).collect(),
            link: LinkUse {
                to_device: share(device.link_to_device_busy_ns),
                to_host: share(device.link_to_host_busy_ns),
            },
            firmware: device.firmware_core_busy_ns.iter().map(|&ns| share(ns)).collect(),
            cores: host
                .cores
                .iter()
                .map(|c| CoreUse {
                    user: share(c.user),
                    system: share(c.system),
                    interrupt: share(c.irq),
                    idle: share(c.idle),
                })
                .collect(),
            host: host::report(host, &self.power, self.served, now.0, self.host_series.clone()),
            cache: device.cache.as_ref().map(|c| CacheUse {
                read_hits: c.read_hits,
                read_misses: c.read_misses,
                read_ahead: c.ahead,
                read_ahead_used: c.ahead_useful,
                evictions: c.evictions,
                write_backs: c.written_back,
            }),
            integrity: Integrity {
                on: self.ctx.stamps.is_on(),
                checked: self.ctx.stamps.checked(),
                wrong,
            },
            wear: WearSummary {
                erases_min: wear.min,
                erases_max: wear.max,
                erases_mean: wear.mean,
                rated: wear.rated,
                in_place: nand.geometry.in_place,
            },
            energy_j: parts.map(|(name, j)| (name.to_string(), j)).to_vec(),
            energy_by_state_j: ENERGY_STATES
                .iter()
                .zip(self.controller.energy_by_state(now))
                .map(|(name, nj)| (name.to_string(), nj as f64 * 1e-9))
                .collect(),
            energy_over_time: self
                .series
                .iter()
                .map(|(at, row)| (*at, std::array::from_fn(|i| row[i + 4] as f64 * 1e-9)))
                .collect(),
            total_w: energy.total() / (elapsed / 1e9),
            interrupts: h.interrupts,
            merges: h.back_merges + h.front_merges + h.request_merges,
            counters,
            mapping_bytes: memory.mapping,
            mapping_bytes_per_sector: memory.mapping as f64 / ftl.sectors() as f64,
            stamp_bytes: memory.stamps + self.ctx.stamps.memory(),
        }
    }
}

const _: () = assert!(LAYERS == wordline_base::Layer::ALL.len());
