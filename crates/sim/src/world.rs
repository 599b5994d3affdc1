//! The machine in virtual time: host and drive on one event queue.

use crate::app::{AppSource, SharedApp};
use crate::collect::{Kept, LatencySeries};
use crate::cpu::CpuSource;
use crate::interval::Series;
use crate::job::{EINVAL, EIO, ETIMEDOUT, JobSource, SyncOf};
use crate::net::Network;
use crate::replay::TraceSource;
use crate::result::{ENOENT, ENOSPC, ErrorOf, HostRow};
use crate::seat::{BridgeSeat, DriveSeat, Totals};
use crate::steady::Steady;
use crate::thread::{Sample, ThreadPlan, ThreadStats};
use crate::topology::ArrayNode;
use crate::{host, steady};
use std::collections::BTreeMap;
use wordline_base::life::LAYERS;
use wordline_base::{Ctx, Ddir, Event, IdVec, Kind, Life, Span, Time};
use wordline_device::{Bridge, Switch};
use wordline_fs::Lack;
use wordline_ftl::{Translation, Translator};
use wordline_host::config::{IdleConfig, PowerConfig};
use wordline_host::source::{Next, Source, ThreadSpec};
use wordline_host::{Finished, Host, HostStats, Message, Output, ThreadStats as ThreadCounts};
use wordline_nvme::Sqe;
use wordline_trace::Rounded;

mod build;
mod finish;
mod samples;

use build::flash_behind;

/// Where a thread's I/Os come from.
pub enum AnySource {
    /// A thread of a fio job.
    Job(Box<JobSource>),
    /// A thread that only computes.
    Cpu(CpuSource),
    /// A trace.
    Trace(Box<TraceSource>),
    /// A thread of a program.
    App(Box<AppSource>),
}

impl AnySource {
    /// I/Os handed to the host.
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
    fn lived(&mut self, life: &Life) {
        if let AnySource::App(s) = self {
            s.lived(life);
        }
    }
    #[inline]
    fn finished(&mut self, ddir: Ddir, offset: u64, len: u32, ok: bool, latency: Span, now: Time) {
        match self {
            AnySource::Job(s) => s.finished(ddir, offset, len, ok, latency, now),
            AnySource::Cpu(s) => s.finished(ddir, offset, len, ok, latency, now),
            AnySource::Trace(s) => s.finished(ddir, offset, len, ok, latency, now),
            // Has been told by the life.
            AnySource::App(_) => {}
        }
    }
}

/// When a thread starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Start {
    /// At this time of the run.
    At(Time),
    /// Once fio's run_threads would take it.
    Waits {
        /// Not before this time of the run (`startdelay`).
        not_before: Time,
        /// Not while a thread that was started runs, and until then those behind it do not start either (`stonewall`).
        alone: bool,
        /// Not before all of these threads have ended (`wait_for`).
        after: Vec<u32>,
    },
}

impl Start {
    /// When it may start at the earliest, if not at once.
    fn later(&self) -> Option<Time> {
        match self {
            Start::Waits { not_before, .. } if *not_before > Time::ZERO => Some(*not_before),
            _ => None,
        }
    }
}

/// What ends others when this thread ends (`exitall`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExitRule {
    /// Threads stopped when this one ends.
    pub stops: Vec<u32>,
    /// Those of them that run: not what has yet to begin, and not what is in its ramp.
    pub running_only: bool,
    /// They are stopped only if it failed.
    pub on_error_only: bool,
}

/// A thread that a run is to have.
pub struct ThreadSetup {
    /// The host that it runs on.
    pub host: usize,
    /// For its statistics.
    pub plan: ThreadPlan,
    /// For the host.
    pub spec: ThreadSpec,
    /// Why its completions come by interrupt, where it asks to poll for them.
    pub by_interrupt: Option<&'static str>,
    /// For its I/Os.
    pub source: AnySource,
    /// When it starts.
    pub start: Start,
    /// Whom it takes along.
    pub exit: ExitRule,
}

impl ThreadSetup {
    /// The file that its I/Os are logged in, if `write_iolog` asks for one.
    pub fn write_iolog(&self) -> Option<&str> {
        match &self.source {
            AnySource::Job(job) => job.job().write_iolog.as_deref(),
            _ => None,
        }
    }
}

/// What a run keeps and when it stops, beside what its jobs say.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Slowest I/Os of each direction to keep.
    pub slowest: usize,
    /// Slices to keep for drawing.
    pub tracks: Option<usize>,
    /// Events of equal time are delivered in an order drawn from this seed.
    pub shuffle_ties: Option<u64>,
    /// Keep a digest of every event delivered, for comparing runs.
    pub digest: bool,
    /// Stop at this time whatever the jobs say.
    pub limit: Option<Span>,
    /// Keep latency by interval.
    pub latency_over_time: bool,
}

/// End of an interval, and what came within it.
type Row = (u64, Totals);

/// First interval of the write-amplification series; it doubles when the series is full.
const SERIES_INTERVAL: Span = Span(10_000_000);
const SERIES_ROWS: usize = 128;

/// Hosts, drives and what joins them, on one queue of events.
pub struct World {
    /// Time, events, lives and versions.
    ctx: Ctx,
    /// Hosts.
    hosts: Vec<HostSeat>,
    /// Drives with flash.
    drives: Vec<DriveSeat>,
    /// Bridges in front of them.
    bridges: Vec<BridgeSeat>,
    /// PCIe switches, in the order of the machine's list.
    switches: Vec<Switch>,
    /// Units that hosts see, in their order.
    seen: Vec<usize>,
    /// Networks between hosts.
    networks: Vec<NetworkSeat>,
    /// Arrays, each with its host.
    arrays: Vec<(usize, ArrayNode)>,
    /// Members of arrays whose collection is told to their hosts.
    watched: Vec<Watched>,
    /// Host of each thread, and its number there.
    places: IdVec<ThreadId, (usize, u32)>,
    /// What each thread did.
    threads: IdVec<ThreadId, ThreadStats>,
    /// How each thread is measured.
    plans: IdVec<ThreadId, ThreadPlan>,
    /// When each thread starts.
    starts: IdVec<ThreadId, Start>,
    /// What each thread's end ends.
    exits: IdVec<ThreadId, ExitRule>,
    /// Threads that have ended.
    ended: IdVec<ThreadId, bool>,
    /// Looks for a steady state.
    steady: IdVec<ThreadId, Option<Steady>>,
    /// Threads that have not ended.
    running: usize,
    /// Of I/Os that ended and count.
    kept: Kept,
    /// The same of threads that look for the depth of `latency_target`, apart: what they find begins anew.
    searched: BTreeMap<ThreadId, Kept>,
    /// Those of searches that are over: they are in the intervals alone.
    searches_over: Vec<Kept>,
    /// Latencies of each interval.
    latencies: Option<LatencySeries>,
    /// Flash writes of each interval.
    series: Vec<Row>,
    /// Time between two of its rows.
    series_interval: Span,
    /// Totals at the last row.
    series_last: Totals,
    /// Processor time of each interval.
    host_series: Vec<HostRow>,
    /// Totals at the last of those.
    host_told: host::HostSeries,
    /// I/Os of each interval.
    intervals: Series,
    /// A digest of all events so far, if it is wanted.
    digest: Option<u64>,
    /// Requests that came over networks.
    served: u64,
    /// No new I/O is issued.
    stopped: bool,
    /// Programs.
    apps: Vec<AppSeat>,
    /// Programs or members of arrays are looked at after each event.
    looks: bool,
    /// One host and one drive, and nothing else that has anything for others.
    is_pair: bool,
}

const QUEUE_FULL: &str = "the driver counts the free entries of its queues";

/// A job's thread by its number in the run.
type ThreadId = u32;

/// A program.
struct AppSeat {
    app: SharedApp,
    /// The first of its threads.
    first: u32,
    /// It ends with what it runs beside.
    beside: bool,
}

struct HostSeat {
    name: String,
    host: Host<AnySource>,
    /// The machine's number of each of its jobs' threads.
    threads: IdVec<u32, ThreadId>,
    /// The unit behind each of its disks, as it is to this host, and whether that is directly.
    disks: Vec<(usize, bool)>,
    power: (PowerConfig, IdleConfig),
}

struct NetworkSeat {
    network: Network,
    /// Hosts at its ends, and its number there.
    client: (usize, u16),
    server: (usize, u16),
}

/// A member of an array, the drives with flash that it is, and whether one of them makes room for writes.
struct Watched {
    unit: usize,
    drives: Vec<usize>,
    before: bool,
}

impl World {
    fn start(&mut self, options: &Options) {
        self.ctx.at(Time::ZERO + self.series_interval, Kind::Sample, 0);
        if self.steady.iter().any(Option::is_some) {
            self.ctx.at(Time::ZERO + steady::INTERVAL, Kind::SteadyState, 0);
        }
        if let Some(limit) = options.limit {
            self.ctx.at(Time::ZERO + limit, Kind::Limit, 0);
        }
        for (i, start) in (0..).zip(&self.starts) {
            if let Start::At(at) = start {
                self.threads[i].start(*at, self.plans[i].ramp);
            }
        }
        for i in 0..self.starts.count() {
            if let Start::At(at) = self.starts[i] {
                self.end_ramp_of(i, at);
            }
        }
        for i in 0..self.starts.count() {
            if let Some(AnySource::Job(job)) = self.source(i)
                && job.job().latency_target > Span::ZERO
            {
                self.searched.insert(i, Kept::new(options.slowest));
            }
        }
        self.end_with_io();
        for (_, array) in &self.arrays {
            // Before they begin.
            let held = if array.config.gc.has_token() { &array.members[1..] } else { &[] };
            let drives = self.drives.len();
            for d in held.iter().flat_map(|&unit| flash_behind(&self.bridges, drives, unit)) {
                self.ctx.enter_drive(d as u8);
                self.drives[d].controller.hold_collection(&mut self.ctx, true);
            }
        }
        for (d, drive) in self.drives.iter_mut().enumerate() {
            self.ctx.enter_drive(d as u8);
            drive.controller.start(&mut self.ctx);
        }
        for seat in self.hosts.iter_mut().rev() {
            seat.host.start(&mut self.ctx);
        }
        let mut times: Vec<Time> = self.starts.iter().filter_map(Start::later).collect();
        times.sort_unstable();
        times.dedup();
        for at in times {
            self.ctx.at(at, Kind::JobStart, 0);
        }
        self.start_waiting();
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
                let about = u64::from(event.index()) | u64::from(event.node()) << 23;
                let word = now.0 << 8 ^ about ^ (event.kind() as u64) << 59;
                *digest = (*digest ^ word).wrapping_mul(0x100_0000_01B3).rotate_left(17);
            }
            let (node, kind) = (usize::from(event.node()), event.kind());
            if kind.is_host() {
                let host = &mut self.hosts[node].host;
                host.on_event(&mut self.ctx, event);
                // All was handed on before the event: nobody else can have anything.
                if !host.has_output() && !self.looks {
                    continue;
                }
            } else if kind.is_drive()
                && let Some(drive) = self.drives.get_mut(node)
            {
                self.ctx.enter_drive(event.node());
                drive.controller.on_event(&mut self.ctx, event);
                if !drive.controller.has_output() && !self.looks {
                    continue;
                }
            } else if self.on_other(event) {
                self.pump();
                continue;
            }
            self.pump();
            if !self.watched.is_empty() {
                self.watch();
            }
        }
        true
    }

    /// An event that is neither a host's nor a drive's alone. Whether it was a bridge's.
    #[inline(never)]
    fn on_other(&mut self, event: Event) -> bool {
        let node = usize::from(event.node());
        match event.kind() {
            Kind::Network => self.arrived(node, event.index()),
            Kind::SteadyState => self.look_for_steady(),
            Kind::RampOver => self.ramp_over(event.index()),
            Kind::JobStart => self.start_waiting(),
            Kind::Sample => self.sample(),
            Kind::Limit => self.stop(),
            kind => {
                self.ctx.enter_drive(event.node());
                match self.drives.get_mut(node) {
                    None => {
                        let bridge = &mut self.bridges[node - self.drives.len()].bridge;
                        bridge.on_event(&mut self.ctx, event);
                        return true;
                    }
                    Some(drive) if kind == Kind::FtlTimer && drive.controller.ftl().is_none() => {
                        self.hosts[drive.host].host.on_event(&mut self.ctx, event);
                    }
                    Some(drive) => drive.controller.on_timer(&mut self.ctx, event.index()),
                }
            }
        }
        false
    }

    /// Tells hosts which members of arrays begin to make room for writes, and which have made it.
    fn watch(&mut self) {
        for i in 0..self.watched.len() {
            let Watched { unit, before, .. } = self.watched[i];
            let mut drives = self.watched[i].drives.iter();
            let now = drives.any(|&d| self.ftl_of(d).is_collecting());
            if now != before {
                self.watched[i].before = now;
                let (host, disk) = match unit.checked_sub(self.drives.len()) {
                    None => (self.drives[unit].host, self.drives[unit].disk),
                    Some(b) => (self.bridges[b].host, self.bridges[b].disk),
                };
                self.hosts[host].host.member_collects(&mut self.ctx, disk, now);
                self.pump();
            }
        }
    }

    /// Carries what hosts and drives have for each other until none has anything.
    #[inline]
    fn pump(&mut self) {
        match self.is_pair {
            true => self.pump_pair(),
            false => self.pump_all(),
        }
    }
    /// The same of one host and one drive.
    fn pump_pair(&mut self) {
        loop {
            let World { hosts, drives, ctx, .. } = self;
            let (seat, drive) = (&mut hosts[0], &mut drives[0]);
            match seat.host.first_output() {
                // The usual ones, without a copy of what is in them.
                Some(Output::Submit { sq, sqe, after, .. }) => {
                    drive.controller.enqueue(*sq, sqe).expect(QUEUE_FULL);
                    drive.controller.doorbell_after(ctx, *sq, *after);
                    seat.host.drop_output();
                }
                Some(&Output::Finished(finished)) => {
                    seat.host.drop_output();
                    self.finished(0, &finished);
                }
                Some(&other) => {
                    seat.host.drop_output();
                    self.output(0, other);
                }
                None => {
                    if let Some(posted) = drive.controller.poll() {
                        let queue = (drive.disk, posted.cq);
                        seat.host.on_posted(ctx, queue, posted.cqe, posted.interrupt);
                    } else if let Some(cq) = drive.controller.poll_interrupt() {
                        seat.host.on_interrupt(ctx, (drive.disk, cq));
                    } else {
                        return;
                    }
                }
            }
        }
    }
    #[inline(never)]
    fn pump_all(&mut self) {
        'again: loop {
            // The first host's come first, also those that follow from another's.
            let mut h = 0;
            while let Some(seat) = self.hosts.get_mut(h) {
                match seat.host.poll() {
                    Some(output) => {
                        self.output(h, output);
                        h = 0;
                    }
                    None => h += 1,
                }
            }
            for d in 0..self.drives.len() {
                let drive = &mut self.drives[d];
                if let Some(posted) = drive.controller.poll() {
                    if let Some((b, member)) = drive.bridge {
                        self.ctx.enter_drive((self.drives.len() + b) as u8);
                        self.bridges[b].bridge.on_posted(&mut self.ctx, member, posted);
                        continue 'again;
                    }
                    let host = &mut self.hosts[drive.host].host;
                    let queue = (drive.disk, posted.cq);
                    host.on_posted(&mut self.ctx, queue, posted.cqe, posted.interrupt);
                    continue 'again;
                }
                if let Some(cq) = drive.controller.poll_interrupt() {
                    let host = &mut self.hosts[drive.host].host;
                    host.on_interrupt(&mut self.ctx, (drive.disk, cq));
                    continue 'again;
                }
            }
            for b in 0..self.bridges.len() {
                if self.bridges[b].bridge.has_output() {
                    self.carry(b);
                    continue 'again;
                }
            }
            for seat in &self.apps {
                if let Some(thread) = seat.app.borrow_mut().take_wake() {
                    let (h, t) = self.places[seat.first + thread];
                    self.hosts[h].host.kick(&mut self.ctx, t);
                    continue 'again;
                }
            }
            return;
        }
    }

    /// What a bridge has for its host or for a drive behind it.
    fn carry(&mut self, b: usize) {
        let drives = self.drives.len();
        let BridgeSeat { bridge, host, disk, in_front, members, .. } = &mut self.bridges[b];
        if let Some(sent) = bridge.poll_sent() {
            let unit = members[usize::from(sent.drive)];
            self.ctx.enter_drive(unit as u8);
            let full = "a bridge has no more commands for a drive than tags";
            if let Some(inner) = unit.checked_sub(drives) {
                let bridge = &mut self.bridges[inner].bridge;
                bridge.enqueue(Bridge::QUEUE, &sent.sqe).expect(full);
                bridge.doorbell_after(&mut self.ctx, Bridge::QUEUE, Span::ZERO);
            } else {
                let controller = &mut self.drives[unit].controller;
                controller.enqueue(Bridge::QUEUE, &sent.sqe).expect(full);
                controller.doorbell(&mut self.ctx, Bridge::QUEUE);
            }
        } else if let Some(posted) = bridge.poll() {
            if let Some((outer, member)) = *in_front {
                self.ctx.enter_drive((drives + outer) as u8);
                self.bridges[outer].bridge.on_posted(&mut self.ctx, member, posted);
                return;
            }
            let queue = (*disk, posted.cq);
            let host = &mut self.hosts[*host].host;
            host.on_posted(&mut self.ctx, queue, posted.cqe, posted.interrupt);
        } else if let Some(cq) = bridge.poll_interrupt() {
            self.hosts[*host].host.on_interrupt(&mut self.ctx, (*disk, cq));
        }
    }

    fn submit(&mut self, h: usize, disk: u16, sq: u16, sqe: &Sqe, after: Span) {
        let (drive, _) = self.hosts[h].disks[usize::from(disk)];
        self.ctx.enter_drive(drive as u8);
        if let Some(life) = self.ctx.lives.of(sqe.io) {
            life.drive = drive as u16 + 1;
        }
        if let Some(seat) = self.drives.get_mut(drive) {
            seat.controller.enqueue(sq, sqe).expect(QUEUE_FULL);
            seat.controller.doorbell_after(&mut self.ctx, sq, after);
        } else {
            let bridge = &mut self.bridges[drive - self.drives.len()].bridge;
            bridge.enqueue(sq, sqe).expect(QUEUE_FULL);
            bridge.doorbell_after(&mut self.ctx, sq, after);
        }
    }

    fn output(&mut self, h: usize, output: Output) {
        match output {
            Output::Send { end, message } => self.send((h, end), message),
            Output::Submit { disk, sq, sqe, after } => self.submit(h, disk, sq, &sqe, after),
            Output::Mask { disk, cq, masked, head } => {
                let (drive, _) = self.hosts[h].disks[usize::from(disk)];
                self.ctx.enter_drive(drive as u8);
                if let Some(seat) = self.drives.get_mut(drive) {
                    seat.controller.write_mask(&mut self.ctx, cq, masked, head);
                } else {
                    let bridge = &mut self.bridges[drive - self.drives.len()].bridge;
                    bridge.write_mask(&mut self.ctx, cq, masked, head);
                }
            }
            Output::Hold { disk, hold } => {
                let (unit, _) = self.hosts[h].disks[usize::from(disk)];
                for d in flash_behind(&self.bridges, self.drives.len(), unit) {
                    self.ctx.enter_drive(d as u8);
                    self.drives[d].controller.hold_collection(&mut self.ctx, hold);
                }
            }
            Output::TakeReport { disk, on } => {
                let (drive, _) = self.hosts[h].disks[usize::from(disk)];
                let seat = self.drives.get_mut(drive);
                if let Some(report) = seat.and_then(|seat| seat.controller.take_gc_report()) {
                    self.hosts[h].host.gc_reported(&mut self.ctx, disk, on, report);
                }
            }
            Output::Finished(finished) => self.finished(h, &finished),
            Output::Ended { thread } => self.thread_ended(self.hosts[h].threads[thread]),
        }
    }

    fn send(&mut self, from: (usize, u16), message: Message) {
        let at = |n: &NetworkSeat| n.client == from || n.server == from;
        let Some(n) = self.networks.iter().position(at) else { return };
        if let Some(message) = self.networks[n].network.send(&mut self.ctx, message) {
            self.receive(n, message);
        }
    }

    fn arrived(&mut self, n: usize, slot: u32) {
        let message = self.networks[n].network.arrived(slot);
        self.receive(n, message);
    }

    fn receive(&mut self, n: usize, message: Message) {
        let network = &self.networks[n];
        let (h, end) = if message.reply { network.client } else { network.server };
        self.hosts[h].host.receive(&mut self.ctx, end, message);
    }

    /// A drive of this host has refused writes, as its map would pass the limit of the host's memory: it is not full.
    fn is_out_of_memory(&self, h: usize) -> bool {
        let refused = |(number, d): (usize, &DriveSeat)| {
            let now = self.ftl_of(number).counters().writes_refused_memory;
            d.host == h && now > d.before.writes_refused_memory
        };
        self.drives.iter().enumerate().any(refused)
    }

    fn host_stats(&self, now: Time) -> HostStats {
        let all = self.hosts.iter().map(|seat| seat.host.stats(now));
        all.reduce(HostStats::with).expect("a machine has a host")
    }

    /// The source of a thread.
    fn source(&self, t: u32) -> Option<&AnySource> {
        let (h, t) = self.places[t];
        self.hosts[h].host.source(t)
    }
    fn sources(&self) -> impl Iterator<Item = &AnySource> {
        (0..self.places.len() as u32).filter_map(|t| self.source(t))
    }

    fn finished(&mut self, h: usize, f: &Finished) {
        let error = if f.ok { 0 } else { self.error_of(h, f) };
        let full = error == ENOSPC && !self.is_out_of_memory(h);
        let seat = &mut self.hosts[h];
        let mut fills = false;
        let mut nothing = false;
        let (sync, elsewhere, restarts) = match seat.host.source_mut(f.thread) {
            Some(AnySource::Job(job)) => {
                let sync = if f.ddir.is_sync() { job.take_sync() } else { SyncOf::Job };
                fills = full && job.fills();
                nothing = job.take_nothing();
                (sync, job.time_without(f.ddir, f.completed), job.take_restart())
            }
            _ => (SyncOf::Job, Span::ZERO, false),
        };
        self.served += u64::from(sync != SyncOf::File);
        let thread = seat.threads[f.thread];
        let stats = &mut self.threads[thread];
        // fio forgets what it counted as the first I/O after the ramp completes.
        if stats.counts(f.completed) && stats.take_ramp() {
            stats.counted_before(counts_of(&seat.host, f.thread, self.ctx.now));
        }
        let sample = Sample {
            ddir: f.ddir,
            offset: f.offset,
            len: f.len,
            issued: f.issued,
            submitted: f.submitted,
            completed: f.completed,
            error,
            sync,
            class: f.class,
            elsewhere,
        };
        if nothing {
            stats.count(&sample);
        } else if fills {
            stats.filled();
        } else {
            stats.add(&sample);
        }
        if restarts {
            stats.restart(f.completed);
            self.searches_over.extend(self.searched.remove(&thread));
        }
        if restarts || nothing {
            self.ctx.lives.release(f.io);
            return;
        }
        let life = self.ctx.lives.get(f.io);
        debug_assert_eq!(life.latency(), f.completed.since(f.issued), "a life is the latency");
        // Only syncs that fio has in its statistics have a row, and only threads that are reported.
        if f.ok && stats.counts(f.completed) && sync == SyncOf::Job && stats.result.reported {
            let row = f.ddir.reported();
            let kept = match self.searched.is_empty() {
                true => &mut self.kept,
                false => self.searched.get_mut(&thread).unwrap_or(&mut self.kept),
            };
            kept.layers[row].add(life);
            kept.slowest[row].offer(life, thread);
            if let Some(series) = &mut self.latencies {
                series.add(f.completed, f.ddir, life.latency());
            }
        }
        self.ctx.lives.release(f.io);
    }

    /// A thread without I/O has no first I/O after its ramp: an event ends it.
    fn end_ramp_of(&mut self, thread: ThreadId, start: Time) {
        let ramp = self.plans[thread].ramp;
        if ramp > Span::ZERO && matches!(self.source(thread), Some(AnySource::Cpu(_))) {
            self.ctx.at(start + ramp, Kind::RampOver, thread);
        }
    }
    fn ramp_over(&mut self, thread: ThreadId) {
        let (h, t) = self.places[thread];
        if !self.ended[thread] && self.threads[thread].take_ramp() {
            let counts = counts_of(&self.hosts[h].host, t, self.ctx.now);
            self.threads[thread].counted_before(counts);
        }
    }

    /// What a failed I/O returned: the kernel refuses what the drive cannot address. A sync has no length, and pages take
    /// any.
    fn error_of(&self, h: usize, f: &Finished) -> i32 {
        match f.lacks {
            Lack::Nothing => {}
            Lack::Room => return ENOSPC,
            Lack::File => return ENOENT,
        }
        let through_pages = || match self.hosts[h].host.source(f.thread) {
            Some(AnySource::Job(job)) => job.goes_through_pages(),
            _ => false,
        };
        if f.ddir.is_sync() || through_pages() {
            return EIO;
        }
        let disk = self.hosts[h].host.disk(f.disk);
        let aligned = |n: u64| n.is_multiple_of(disk.lba_bytes.into());
        let end = f.offset.saturating_add(u64::from(f.len));
        let fits = f.len > 0 && aligned(f.offset) && aligned(u64::from(f.len));
        if fits && end <= disk.bytes { EIO } else { EINVAL }
    }

    /// A thread has issued its last I/O and reaped it.
    fn thread_ended(&mut self, thread: u32) {
        if std::mem::replace(&mut self.ended[thread], true) {
            return;
        }
        self.running -= 1;
        let now = self.ctx.now;
        self.over(thread, now);
        let (host, number) = self.places[thread];
        let failed = match self.hosts[host].host.source(number) {
            Some(AnySource::Cpu(cpu)) => {
                self.threads[thread].computed(cpu.chunks(), now);
                false
            }
            Some(AnySource::Job(job)) => {
                let (error, of) = (job.error(), job.error_of());
                let result = &mut self.threads[thread].result;
                if result.error == 0 {
                    (result.error, result.error_of) = (error, of);
                }
                result.error != 0
            }
            Some(AnySource::Trace(trace)) => {
                let result = &mut self.threads[thread].result;
                if result.error == 0 && trace.failure().is_some() {
                    (result.error, result.error_of) = (ETIMEDOUT, ErrorOf::Latency);
                }
                result.error != 0
            }
            _ => false,
        };
        let exit = self.exits[thread].clone();
        // A program goes on without a client that has done its last operation.
        let goes_on = match self.source(thread) {
            Some(AnySource::App(app)) => !app.app().borrow().is_over(),
            _ => false,
        };
        if failed || !exit.on_error_only && !goes_on {
            let now = self.ctx.now;
            for other in exit.stops {
                let begun = match self.starts[other] {
                    Start::At(at) if at <= now => Some(at),
                    _ => None,
                };
                // To fio a job runs from TD_RUNNING on, which is behind TD_RAMP.
                let runs = begun.is_some_and(|at| now >= at + self.plans[other].ramp);
                if exit.running_only && !runs {
                    continue;
                }
                let (h, t) = self.places[other];
                match self.source(other) {
                    Some(AnySource::Job(_)) => self.stop_job(other),
                    Some(AnySource::Cpu(cpu)) => cpu.stop_flag().set(true),
                    Some(AnySource::Trace(trace)) => {
                        trace.stop();
                        self.hosts[h].host.kick(&mut self.ctx, t);
                    }
                    _ => continue,
                }
                // What has not begun begins now, to end at once.
                if !self.ended[other] && begun.is_none() {
                    self.begin(other, now);
                }
            }
        }
        self.end_with_io();
        self.end_beside();
        self.start_waiting();
    }

    /// A job is to end, and wakes for that from a pause.
    fn stop_job(&mut self, thread: ThreadId) {
        let Some(AnySource::Job(job)) = self.source(thread) else { return };
        if let Some(at) = job.stop(self.ctx.now) {
            let (h, t) = self.places[thread];
            self.hosts[h].host.shorten_pause(&mut self.ctx, t, at);
        }
    }

    /// The clocks of a thread's directions stop: it has ended, or the run has before it.
    pub(super) fn over(&mut self, thread: ThreadId, now: Time) {
        let last = self.threads[thread].last();
        let (at, elsewhere) = match self.source(thread) {
            Some(AnySource::Job(job)) => {
                let at = job.over_at(now);
                (at, Ddir::RW.map(|ddir| job.time_without(ddir, at)))
            }
            // With its last request or pause, as fio's; a run that is cut short, with that.
            Some(AnySource::Trace(trace)) if self.ended[thread] && !self.stopped => {
                (trace.over_at(last), [Span::ZERO; 3])
            }
            // All threads of a program have the time of its operations.
            Some(AnySource::App(app)) => (app.app().borrow().measured_until(), [Span::ZERO; 3]),
            _ => (now, [Span::ZERO; 3]),
        };
        self.threads[thread].over(at, elsewhere);
    }

    /// Programs beside others end once these have ended.
    fn end_beside(&self) {
        let is_beside =
            |source: &AnySource| matches!(source, AnySource::App(app) if app.is_beside());
        if (0..).zip(self.sources()).all(|(t, source)| is_beside(source) || self.ended[t]) {
            for seat in self.apps.iter().filter(|seat| seat.beside) {
                let mut app = seat.app.borrow_mut();
                if !app.is_over() {
                    app.end();
                }
            }
        }
    }

    /// Once nobody does I/O, those that only compute end, if they are to.
    fn end_with_io(&self) {
        let sources = || (0..).zip(self.sources());
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

    /// Starts the threads that may start now, in fio's order: one behind a `startdelay` is passed over, and one behind
    /// a `stonewall` holds up all that follow.
    fn start_waiting(&mut self) {
        let now = self.ctx.now;
        for i in 0..self.starts.count() {
            let Start::Waits { not_before, alone, after } = &self.starts[i] else { continue };
            // After the end of a run (--limit) none starts.
            if self.ended[i] || now < *not_before {
                continue;
            }
            if *alone && self.runs_a_job(now) {
                return;
            }
            if after.iter().all(|&t| self.ended[t]) {
                self.begin(i, now);
            }
        }
    }
    /// A thread of a job was started and has not ended.
    fn runs_a_job(&self, now: Time) -> bool {
        let begun = |start: &Start| matches!(start, Start::At(at) if *at <= now);
        (0..).zip(&self.starts).any(|(i, start)| {
            !self.ended[i] && begun(start) && !matches!(self.source(i), Some(AnySource::App(_)))
        })
    }
    fn begin(&mut self, thread: ThreadId, at: Time) {
        self.starts[thread] = Start::At(at);
        self.threads[thread].start(at, self.plans[thread].ramp);
        self.end_ramp_of(thread, at);
        let (h, t) = self.places[thread];
        self.hosts[h].host.start_thread(&mut self.ctx, t, at);
    }

    /// No new I/O; what is in flight drains.
    pub fn stop(&mut self) {
        self.stopped = true;
        for seat in &mut self.hosts {
            seat.host.stop(&mut self.ctx);
        }
        for i in 0..self.starts.count() {
            if matches!(self.starts[i], Start::Waits { .. }) && !self.ended[i] {
                self.ended[i] = true;
                self.running -= 1;
            }
        }
        self.pump();
    }

    /// The time of the last event.
    pub fn now(&self) -> Time {
        self.ctx.now
    }
    /// I/Os that came back to their threads.
    pub fn served(&self) -> u64 {
        self.served
    }
    /// Events delivered.
    pub fn events(&self) -> u64 {
        self.ctx.queue.popped()
    }
    /// Digest of every event delivered so far, if asked for.
    pub fn digest(&self) -> Option<u64> {
        self.digest
    }
    /// The FTL of the first drive.
    pub fn ftl(&self) -> &Translator {
        self.ftl_of(0)
    }
    /// The FTL of a drive, wherever it runs.
    pub fn ftl_of(&self, drive: usize) -> &Translator {
        let seat = &self.drives[drive];
        let on_host = || self.hosts[seat.host].host.ftl(seat.disk);
        seat.controller.ftl().or_else(on_host).expect("the FTL is on one of the sides")
    }
    /// The error that ended a trace early, if one did.
    pub fn trace_error(&self) -> Option<&wordline_trace::TraceError> {
        self.traces().find_map(TraceSource::error)
    }
    /// I/Os of traces and jobs that were made whole blocks of the drive.
    pub fn rounded(&self) -> Rounded {
        let mut sum = Rounded::default();
        for t in 0..self.threads.len() as u32 {
            let one = match self.source(t) {
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
    /// Threads that replay traces.
    pub fn traces(&self) -> impl Iterator<Item = &TraceSource> {
        self.sources().filter_map(|source| match source {
            AnySource::Trace(trace) => Some(&**trace),
            _ => None,
        })
    }
}

/// What a host has counted of a thread so far.
fn counts_of(host: &Host<AnySource>, thread: u32, now: Time) -> ThreadCounts {
    host.threads_at(now)[thread].clone()
}

const _: () = assert!(LAYERS == wordline_base::Layer::ALL.len());
