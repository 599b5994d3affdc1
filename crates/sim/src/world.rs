//! The machine in virtual time: host and drive on one event queue.

use crate::app::{AppSource, SharedApp};
use crate::caution::{self, Seen};
use crate::check::{Mounting, Units};
use crate::classes;
use crate::collect::{LatencySeries, LayerSums, Slowest};
use crate::cpu::CpuSource;
use crate::drive::Drive;
use crate::error::BuildError;
use crate::host;
use crate::interval::{Flash, Series};
use crate::job::{EINVAL, EIO, ENOSPC, JobSource};
use crate::net::Network;
use crate::replay::TraceSource;
use crate::result::*;
use crate::seat::{BridgeSeat, DriveSeat, Totals};
use crate::steady::{self, Steady};
use crate::thread::{Sample, ThreadPlan, ThreadStats};
use crate::topology::{ArrayNode, Behind, Part, SystemConfig};
use std::collections::BTreeMap;
use std::rc::Rc;
use wordline_base::life::LAYERS;
use wordline_base::{
    BadValue, Ctx, Ddir, Event, IdVec, Kind, Life, Span, Stamps, Time, Tracks, Workload,
};
use wordline_device::{Bridge, Controller, DeviceConfig, Switch};
use wordline_fs::FsConfig;
use wordline_ftl::{Placement, Translation, Translator};
use wordline_host::config::{IdleConfig, PowerConfig};
use wordline_host::md::Collect;
use wordline_host::source::{Next, Source, ThreadSpec};
use wordline_host::{
    ArrayStats, DiskShape, DiskSpec, DriveInfo, Finished, Host, HostStats, Message, Output,
};
use wordline_nand::Class;
use wordline_nvme::Sqe;
use wordline_trace::{Request, Rounded};

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
    /// This long after the last of these threads ended (`stonewall`, `wait_for`).
    After {
        /// The threads that it waits for.
        threads: Vec<u32>,
        /// How long after them.
        delay: Span,
    },
}

/// What ends others when this thread ends (`exitall`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExitRule {
    /// Threads stopped when this one ends.
    pub stops: Vec<u32>,
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
    /// For its I/Os.
    pub source: AnySource,
    /// When it starts.
    pub start: Start,
    /// Whom it takes along.
    pub exit: ExitRule,
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
    ctx: Ctx,
    hosts: Vec<HostSeat>,
    drives: Vec<DriveSeat>,
    bridges: Vec<BridgeSeat>,
    /// Units that hosts see, in their order.
    seen: Vec<usize>,
    networks: Vec<NetworkSeat>,
    /// Arrays, each with its host.
    arrays: Vec<(usize, ArrayNode)>,
    watched: Vec<Watched>,
    /// Host of each thread, and its number there.
    places: IdVec<ThreadId, (usize, u32)>,
    threads: IdVec<ThreadId, ThreadStats>,
    plans: IdVec<ThreadId, ThreadPlan>,
    starts: IdVec<ThreadId, Start>,
    exits: IdVec<ThreadId, ExitRule>,
    ended: IdVec<ThreadId, bool>,
    steady: IdVec<ThreadId, Option<Steady>>,
    /// Threads that have not ended.
    running: usize,
    layers: [LayerSums; 3],
    latencies: Option<LatencySeries>,
    /// By direction.
    slowest: [Slowest; 3],
    series: Vec<Row>,
    series_interval: Span,
    series_last: Totals,
    host_series: Vec<HostRow>,
    host_told: host::HostSeries,
    intervals: Series,
    digest: Option<u64>,
    served: u64,
    stopped: bool,
    apps: Vec<AppSeat>,
    /// Programs or members of arrays are looked at after each event.
    looks: bool,
    /// One host and one drive, and nothing else that has anything for others.
    is_pair: bool,
}

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

/// The drives with flash behind a unit: itself, if it is no bridge.
fn flash_behind(bridges: &[BridgeSeat], drives: usize, unit: usize) -> Vec<usize> {
    match unit.checked_sub(drives) {
        None => vec![unit],
        Some(b) => {
            let members = bridges[b].members.iter();
            members.flat_map(|&member| flash_behind(bridges, drives, member)).collect()
        }
    }
}

/// The SAS link of a drive behind a bridge, and its queue.
fn behind_bridge(controller: &mut Controller, bridge: &DeviceConfig) -> Result<(), BadValue> {
    let Some(config) = &bridge.bridge else { return Ok(()) };
    controller.join_bridge(&config.link)?;
    let (depth, priority) = Bridge::queue_of_drives(config.drive_tags);
    controller.create_queue(Bridge::QUEUE, Bridge::QUEUE, depth, priority)?;
    controller.set_interrupts(Bridge::QUEUE, false);
    Ok(())
}
/// The same of a bridge behind a bridge.
fn inside_bridge(inner: &mut Bridge, outer: &DeviceConfig) -> Result<(), BadValue> {
    let Some(config) = &outer.bridge else { return Ok(()) };
    inner.join_bridge(&config.link)?;
    let (depth, priority) = Bridge::queue_of_drives(config.drive_tags);
    inner.create_queue(Bridge::QUEUE, Bridge::QUEUE, depth, priority)?;
    inner.set_interrupts(Bridge::QUEUE, false);
    Ok(())
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

impl World {
    /// A machine with its drives, in the order of the configuration.
    pub fn new(
        config: &SystemConfig,
        drives: Vec<Drive>,
        threads: Vec<ThreadSetup>,
        options: &Options,
    ) -> Result<World, BuildError> {
        config.check()?;
        let mut ctx = Ctx::new();
        ctx.tracks = options.tracks.map(|limit| Box::new(Tracks::new(limit)));
        if let Some(seed) = options.shuffle_ties {
            ctx.queue.shuffle_ties(seed);
        }
        let below = |part, section: &'static str| {
            move |bad: BadValue| BuildError::Of { part, bad: bad.below(section) }
        };
        let switch = |(i, switch)| {
            Switch::new(switch).map_err(|bad| BuildError::Of { part: Part::Switch(i), bad })
        };
        let switches: Vec<Switch> =
            config.switches.iter().enumerate().map(switch).collect::<Result<_, _>>()?;
        let checks = drives.iter().all(|drive| drive.stamps.is_on());
        let Units { infos, members, .. } = config.units(&drives.iter().collect::<Vec<_>>())?;
        let mut seats = Vec::with_capacity(drives.len());
        let mut on_host = Vec::with_capacity(drives.len());
        let (mut most, mut versions) = (0, true);
        for (number, (drive, node)) in drives.into_iter().zip(&config.drives).enumerate() {
            let Drive { nand, mut ftl, stamps, prepared, ageing, unsteady, .. } = drive;
            if config.orders_collection(number)
                && let Some(ftl) = ftl.ordered()
            {
                ftl.obey();
            }
            ctx.add_drive(stamps);
            let before = *ftl.counters();
            let of = &node.config;
            let in_device = match of.ftl.placement {
                Placement::Host => {
                    on_host.push(Some((ftl, of.ftl.cost.clone())));
                    None
                }
                _ => {
                    on_host.push(None);
                    Some(ftl)
                }
            };
            let mut controller = Controller::new(&of.device, nand, in_device)
                .map_err(below(Part::Drive(number), "device"))?;
            controller.set_ftl_cost(&of.ftl.cost_in_drive());
            if config.tells_places(number) {
                controller.tell_places();
            }
            let bridge = config.in_front(number);
            if let Some((bridge, _)) = bridge {
                let device = &config.bridges[bridge].device;
                behind_bridge(&mut controller, device)
                    .map_err(below(Part::Bridge(bridge), "device"))?;
            } else if let Some(switch) = node.switch {
                controller.join_switch(switches[switch].clone());
            }
            most = most.max(ctx.stamps_of(number as u8).most());
            versions &= ctx.stamps_of(number as u8).is_on();
            seats.push(DriveSeat {
                name: node.name.clone(),
                controller,
                host: node.host,
                disk: config.disk_of(number),
                bridge,
                before,
                prepared,
                ageing,
                unsteady,
            });
        }

        let mut bridges = Vec::with_capacity(config.bridges.len());
        for (b, node) in config.bridges.iter().enumerate() {
            let unit = config.drives.len() + b;
            on_host.push(None);
            // What drives hold from before is below what is written from now on.
            let mut stamps = match versions {
                true => Stamps::new(infos[unit].sector.of(infos[unit].bytes)),
                false => Stamps::off(),
            };
            stamps.begin_above(most);
            ctx.add_drive(stamps);
            let numbers: Vec<u8> = node.members.iter().map(|m| *m as u8).collect();
            let here = |bad: BadValue| below(Part::Bridge(b), "device")(bad);
            let mut bridge =
                Bridge::new(&node.device, &members[b], unit as u8, &numbers).map_err(here)?;
            let in_front = config.in_front(unit);
            if let Some((outer, _)) = in_front {
                inside_bridge(&mut bridge, &config.bridges[outer].device).map_err(here)?;
            } else if let Some(switch) = node.switch {
                bridge.join_switch(switches[switch].clone());
            }
            bridges.push(BridgeSeat {
                name: node.name.clone(),
                bridge,
                host: node.host,
                disk: config.disk_of(unit),
                in_front,
                members: node.members.clone(),
            });
        }

        let mut apps: Vec<AppSeat> = Vec::new();
        for (i, setup) in threads.iter().enumerate() {
            let AnySource::App(source) = &setup.source else { continue };
            if !apps.iter().any(|seat| Rc::ptr_eq(&seat.app, source.app())) {
                let (app, beside) = (source.app().clone(), source.is_beside());
                apps.push(AppSeat { app, first: i as u32, beside });
            }
        }
        let mut jobs: Vec<Vec<(ThreadSpec, AnySource)>> = Vec::new();
        jobs.resize_with(config.hosts.len(), Vec::new);
        let (mut plans, mut starts) = (IdVec::new(), IdVec::new());
        let mut exits = IdVec::new();
        let mut places: IdVec<ThreadId, (usize, u32)> = IdVec::new();
        let mut over_network = Vec::new();
        for mut setup in threads {
            let (behind, disks) = (config.disks(setup.host), &setup.spec.disks);
            let is_far = |d: &u16| matches!(behind.get(usize::from(*d)), Some(Behind::Network(_)));
            over_network.push(match disks.is_empty() {
                true => is_far(&0),
                false => disks.iter().all(is_far),
            });
            setup.spec.start = match &setup.start {
                Start::At(at) => *at,
                Start::After { .. } => Time::NEVER,
            };
            places.push((setup.host, jobs[setup.host].len() as u32));
            jobs[setup.host].push((setup.spec, setup.source));
            plans.push(setup.plan);
            starts.push(setup.start);
            exits.push(setup.exit);
        }

        let mut hosts = Vec::with_capacity(config.hosts.len());
        let mut first_core = 0;
        for (h, (host, jobs)) in config.hosts.iter().zip(jobs).enumerate() {
            let stack = &host.stack;
            let behind = config.disks(h);
            let mut shapes = config.shapes(h, &infos)?;
            for array in shapes.iter_mut().filter_map(|shape| shape.array.as_deref_mut()) {
                array.checks = checks;
            }
            let disks: Vec<(usize, bool)> = behind
                .iter()
                .map(|b| (config.drive_behind(*b).0, matches!(b, Behind::Drive(_))))
                .collect();
            let spec = |(shape, &(drive, directly)): (DiskShape, &(usize, bool))| DiskSpec {
                shape,
                ftl: if directly { on_host[drive].take() } else { None },
                drive: drive as u8,
            };
            let specs = shapes.into_iter().zip(&disks).map(spec).collect();
            let threads = (0..places.count()).filter(|&t| places[t].0 == h).collect();
            let built =
                Host::new(stack, jobs, specs).map_err(|e| BuildError::from(e).of(Part::Host(h)))?;
            hosts.push(HostSeat {
                host: built.numbered(h as u8, first_core),
                threads,
                disks,
                power: (stack.cost.power.clone(), stack.idle.clone()),
            });
            first_core += stack.cores;
        }
        let mut networks = Vec::with_capacity(config.networks.len());
        for (n, network) in config.networks.iter().enumerate() {
            let nbd = &network.nbd;
            let server = &mut hosts[network.server].host;
            let disk = config.disk_of(network.drive);
            let served = server.serve(disk, nbd);
            if let Some(cache) = &nbd.cache {
                server
                    .cache_served(disk, cache)
                    .map_err(below(Part::Network(n), "stack.nbd.cache"))?;
            }
            let disks = config.disks(network.client);
            let disk = disks.iter().position(|d| *d == Behind::Network(n)).unwrap_or(0) as u16;
            let connected = hosts[network.client].host.connect(disk, nbd);
            networks.push(NetworkSeat {
                network: Network::new(nbd, n as u8),
                client: (network.client, connected),
                server: (network.server, served),
            });
        }
        for (seat, host) in hosts.iter_mut().zip(&config.hosts) {
            let Some(fs) = &host.stack.fs else { continue };
            let info = seat.host.disk(0).clone();
            mount(&mut seat.host, fs, &info)?;
        }
        for (h, seat) in hosts.iter().enumerate() {
            for queue in seat.host.queues() {
                let (drive, directly) = seat.disks[usize::from(queue.disk)];
                if !directly {
                    continue;
                }
                let (sq, cq) = (queue.sq, queue.cq);
                if let Some(b) = drive.checked_sub(seats.len()) {
                    let bridge = &mut bridges[b].bridge;
                    let here = below(Part::Bridge(b), "device");
                    if sq != cq {
                        bridge
                            .create_submission_queue(sq, cq, queue.depth, queue.priority)
                            .map_err(here)?;
                        continue;
                    }
                    bridge.create_queue(sq, cq, queue.depth, queue.priority).map_err(here)?;
                    bridge.set_interrupts(cq, queue.interrupts);
                    bridge.set_masked(cq, queue.masked);
                    continue;
                }
                debug_assert_eq!(seats[drive].host, h);
                let controller = &mut seats[drive].controller;
                if sq != cq {
                    controller
                        .create_submission_queue(sq, cq, queue.depth, queue.priority)
                        .map_err(below(Part::Drive(drive), "device"))?;
                    continue;
                }
                controller
                    .create_queue(sq, cq, queue.depth, queue.priority)
                    .map_err(below(Part::Drive(drive), "device"))?;
                controller.set_interrupts(cq, queue.interrupts);
                controller.set_masked(cq, queue.masked);
            }
        }
        let stats = plans.iter().enumerate().map(|(i, p)| {
            let mut stats = ThreadStats::new(i as u32 + 1, p);
            stats.result.over_network = over_network[i];
            stats
        });
        let of_arrays = config.seen().into_iter().filter(|&unit| config.array_of(unit).is_some());
        let watched = of_arrays
            .map(|unit| Watched {
                unit,
                drives: flash_behind(&bridges, config.drives.len(), unit),
                before: false,
            })
            .collect();
        let mut world = World {
            threads: stats.collect(),
            ended: IdVec::filled(false, plans.count()),
            running: plans.len(),
            steady: plans.iter().map(|p| p.steady.map(Steady::new)).collect(),
            plans,
            starts,
            exits,
            places,
            layers: Default::default(),
            latencies: options.latency_over_time.then(|| LatencySeries::new(SERIES_INTERVAL)),
            slowest: std::array::from_fn(|_| Slowest::new(options.slowest)),
            series: Vec::new(),
            series_interval: SERIES_INTERVAL,
            series_last: Totals::default(),
            host_series: Vec::new(),
            host_told: host::HostSeries::default(),
            intervals: Series::default(),
            digest: options.digest.then_some(0xCBF2_9CE4_8422_2325),
            served: 0,
            stopped: false,
            looks: !apps.is_empty() || !config.arrays.is_empty(),
            is_pair: hosts.len() == 1 && seats.len() == 1 && bridges.is_empty() && apps.is_empty(),
            apps,
            ctx,
            hosts,
            drives: seats,
            bridges,
            seen: config.seen(),
            networks,
            watched,
            arrays: config
                .arrays
                .iter()
                .enumerate()
                .map(|(a, node)| (config.host_of(a), node.clone()))
                .collect(),
        };
        world.series_last = world.series_now(Time::ZERO);
        world.start(options);
        Ok(world)
    }

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
        self.end_with_io();
        for (_, array) in &self.arrays {
            // Before they begin.
            let held = match array.config.gc {
                Collect::Token => &array.members[1..],
                Collect::Uncoordinated | Collect::Around => &[],
            };
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
            while let Some(output) = self.hosts[0].host.poll() {
                match output {
                    Output::Submit { disk, sq, sqe, after } => self.submit(0, disk, sq, sqe, after),
                    Output::Finished(finished) => self.finished(0, &finished),
                    other => self.output(0, other),
                }
            }
            let drive = &mut self.drives[0];
            if let Some(posted) = drive.controller.poll() {
                let queue = (drive.disk, posted.cq);
                let host = &mut self.hosts[0].host;
                host.on_posted(&mut self.ctx, queue, posted.cqe, posted.interrupt);
            } else if let Some(cq) = drive.controller.poll_interrupt() {
                self.hosts[0].host.on_interrupt(&mut self.ctx, (drive.disk, cq));
            } else {
                return;
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
                bridge.enqueue(Bridge::QUEUE, sent.sqe).expect(full);
                bridge.doorbell_after(&mut self.ctx, Bridge::QUEUE, Span::ZERO);
            } else {
                let controller = &mut self.drives[unit].controller;
                controller.enqueue(Bridge::QUEUE, sent.sqe).expect(full);
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

    #[inline]
    fn submit(&mut self, h: usize, disk: u16, sq: u16, sqe: Sqe, after: Span) {
        let (drive, _) = self.hosts[h].disks[usize::from(disk)];
        self.ctx.enter_drive(drive as u8);
        let full = "the driver counts the free entries of its queues";
        if let Some(seat) = self.drives.get_mut(drive) {
            seat.controller.enqueue(sq, sqe).expect(full);
            seat.controller.doorbell_after(&mut self.ctx, sq, after);
        } else {
            let bridge = &mut self.bridges[drive - self.drives.len()].bridge;
            bridge.enqueue(sq, sqe).expect(full);
            bridge.doorbell_after(&mut self.ctx, sq, after);
        }
    }

    fn output(&mut self, h: usize, output: Output) {
        match output {
            Output::Send { end, message } => self.send((h, end), message),
            Output::Submit { disk, sq, sqe, after } => self.submit(h, disk, sq, sqe, after),
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
        self.served += 1;
        let error = if f.ok { 0 } else { self.error_of(h, f) };
        let seat = &mut self.hosts[h];
        let (closing, elsewhere, restarts) = match seat.host.source_mut(f.thread) {
            Some(AnySource::Job(job)) => (
                f.ddir.is_sync() && job.take_closing(),
                job.time_without(f.ddir, f.completed),
                job.take_restart(),
            ),
            _ => (false, Span::ZERO, false),
        };
        let thread = seat.threads[f.thread];
        let stats = &mut self.threads[thread];
        // fio forgets what it counted as the first I/O after the ramp completes.
        if stats.counts(f.completed) && stats.take_ramp() {
            stats.depths_before(seat.host.thread_counts(f.thread));
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
        if restarts {
            stats.restart(f.completed);
        }
        let life = self.ctx.lives.get(f.io);
        debug_assert_eq!(life.latency(), f.completed.since(f.issued), "a life is the latency");
        if f.ok && stats.counts(f.completed) && !f.ddir.is_sync() {
            self.layers[f.ddir as usize].add(life);
            if let Some(series) = &mut self.latencies {
                series.add(f.completed, f.ddir, life.latency());
            }
            self.slowest[f.ddir as usize].offer(life, thread);
        }
        self.ctx.lives.release(f.io);
    }

    /// What a failed I/O returned: the kernel refuses what the drive cannot address.
    fn error_of(&self, h: usize, f: &Finished) -> i32 {
        if f.no_space {
            return ENOSPC;
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
        let failed = match self.source(thread) {
            Some(AnySource::Job(job)) => {
                let error = job.error();
                let result = &mut self.threads[thread].result;
                if result.error == 0 {
                    result.error = error;
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
            for other in exit.stops {
                match self.source(other) {
                    Some(AnySource::Job(job)) => job.stop_flag().set(true),
                    Some(AnySource::Cpu(cpu)) => cpu.stop_flag().set(true),
                    _ => {}
                }
            }
        }
        self.end_with_io();
        self.end_beside();
        self.start_waiting();
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

    /// Starts the threads whose predecessors have all ended.
    fn start_waiting(&mut self) {
        for i in 0..self.starts.count() {
            let Start::After { threads, delay } = &self.starts[i] else { continue };
            // After the end of a run (--limit) none starts.
            if self.ended[i] || threads.iter().any(|&t| !self.ended[t]) {
                continue;
            }
            let at = self.ctx.now + *delay;
            self.starts[i] = Start::At(at);
            self.threads[i].start(at, self.plans[i].ramp);
            let (h, t) = self.places[i];
            self.hosts[h].host.start_thread(&mut self.ctx, t, at);
        }
    }

    /// No new I/O; what is in flight drains.
    pub fn stop(&mut self) {
        self.stopped = true;
        for seat in &mut self.hosts {
            seat.host.stop(&mut self.ctx);
        }
        for i in 0..self.starts.count() {
            if matches!(self.starts[i], Start::After { .. }) && !self.ended[i] {
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

    /// What a reader of the result should know of the drives.
    fn warnings(&self, machine: &Machine) -> Vec<String> {
        let mut repeats: Vec<(String, u64)> = Vec::new();
        let mut scattered = false;
        for source in self.sources() {
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
        let mut all = Vec::new();
        let leaves: Vec<&DriveResult> =
            machine.drives.iter().flat_map(DriveResult::leaves).collect();
        for (d, drive) in self.drives.iter().enumerate() {
            let wa = match leaves.get(d) {
                Some(own) => &own.totals.write_amplification,
                None => &machine.totals.write_amplification,
            };
            let (c, b) = (self.ftl_of(d).counters(), &drive.before);
            let unmapped = c.read_unmapped - b.read_unmapped;
            let of_drive = caution::warnings(&Seen {
                prepared: drive.prepared,
                ageing: &drive.ageing,
                unsteady: drive.unsteady,
                written: wa.host_bytes,
                refused: c.writes_refused - b.writes_refused,
                refused_memory: c.writes_refused_memory - b.writes_refused_memory,
                to_flash: drive.controller.nand().geometry.sector.bytes_of(wa.user_sectors),
                gc: wa.gc_sectors,
                lines_freed: c.lines_freed - b.lines_freed,
                refreshed: c.lines_refreshed - b.lines_refreshed,
                read: unmapped + c.read_flash + c.read_buffer - b.read_flash - b.read_buffer,
                unmapped,
                scattered,
                in_place: drive.controller.nand().geometry.in_place,
                by_third: wa.by_third,
                repeats: if d == 0 { std::mem::take(&mut repeats) } else { Vec::new() },
            });
            let named = |text| match machine.drives.is_empty() {
                true => text,
                false => format!("{}: {text}", drive.name),
            };
            let limits = &drive.controller.config().limits;
            let (ops, ns) = (&drive.controller.nand().counters().ops, self.ctx.now.0);
            // With the FTL in the drive no such read crosses the link.
            let crosses = drive.controller.ftl().is_none() && !limits.count_rebuild_reads;
            let (users, rebuilding) = (ops[Class::UserRead], ops[Class::RebuildRead]);
            let beyond = crosses
                .then(|| caution::beyond_limit(users, rebuilding, ns, limits.read_iops))
                .flatten();
            all.extend(of_drive.into_iter().chain(beyond).map(named));
        }
        all
    }

    fn reads_in_order(&self, machine: &Machine) -> Option<String> {
        let units = self.drives.iter().map(|d| d.controller.nand().geometry);
        let largest = units.max_by_key(|g| g.unit_bytes())?;
        let (unit, bytes) = (largest.sectors_per_unit, largest.unit_bytes());
        let in_order =
            |source: &AnySource| matches!(source, AnySource::Job(job) if job.reads_within(bytes));
        if !self.sources().any(in_order) {
            return None;
        }
        let user_read = machine.totals.reads_blocked.iter().find(|(why, _)| why == "user_read");
        let waited = user_read.map_or(0, |(_, n)| *n);
        caution::reads_in_order(waited, machine.totals.user_flash_reads, unit)
    }

    /// The logs of `write_iolog`: threads that name one file share it, in order of time.
    fn iologs(&self) -> Vec<(String, Vec<Request>)> {
        let mut logs: Vec<(String, Vec<Request>)> = Vec::new();
        for source in self.sources() {
            let AnySource::Job(job) = source else { continue };
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

    fn series_now(&self, now: Time) -> Totals {
        let mut sum = Totals::default();
        for (d, drive) in self.drives.iter().enumerate() {
            let one = drive.totals(self.ftl_of(d), now);
            sum.iter_mut().zip(one).for_each(|(sum, n)| *sum += n);
        }
        for seat in &self.bridges {
            let energy = seat.bridge.energy_by_state(now);
            sum[CAUSES..].iter_mut().zip(energy).for_each(|(sum, nj)| *sum += nj);
        }
        sum
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
        self.sample_interval();
        if self.series.len() == SERIES_ROWS {
            self.intervals.halve();
            self.host_series =
                self.host_series.chunks(2).map(|pair| pair[0].with(&pair[1])).collect();
            self.series = self
                .series
                .chunks(2)
                .map(|pair| (pair[1].0, std::array::from_fn(|i| pair[0].1[i] + pair[1].1[i])))
                .collect();
            self.series_interval = self.series_interval * 2;
        }
        let next = self.ctx.now + self.series_interval;
        self.look_again(next, Kind::Sample);
    }

    fn sample_host(&mut self) {
        let host = self.host_stats(self.ctx.now);
        self.host_series.push(self.host_told.row(self.ctx.now.0, &host));
    }

    fn sample_interval(&mut self) {
        let mut flash = Flash::default();
        let drives = (0..self.drives.len()).map(|d| {
            let lines = self.ftl_of(d).pblk().map(|ftl| ftl.free_lines());
            (self.drives[d].controller.nand().counters(), lines)
        });
        for (d, (counters, lines)) in drives.enumerate() {
            flash.reads += counters.ops[Class::UserRead] + counters.ops[Class::RebuildRead];
            flash.waited += counters.reads_waited;
            let blocked = counters.reads_blocked_by.into_iter();
            let blocked = blocked.chain([counters.reads_blocked_by_transfer]);
            flash.blocked.iter_mut().zip(blocked).for_each(|(sum, n)| *sum += n);
            flash.free_lines = match (flash.free_lines, lines) {
                _ if d == 0 => lines,
                (Some(sum), Some(own)) => Some((sum.0 + own.0, sum.1 + own.1, sum.2 + own.2)),
                _ => None,
            };
        }
        self.intervals.add(self.ctx.now.0, &self.layers, flash);
    }

    /// Alone these events would keep a machine going that has come to a halt.
    fn look_again(&mut self, at: Time, kind: Kind) {
        let others = usize::from(self.steady.iter().any(Option::is_some));
        if self.ctx.queue.len() > others {
            self.ctx.at(at, kind, 0);
        }
    }

    /// fio's steadystate_check: rates of each thread, or of its group with `group_reporting`, in
    /// which the last thread judges.
    fn look_for_steady(&mut self) {
        let now = self.ctx.now;
        let mut sums: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for i in 0..self.threads.count() {
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
            let of_group = |t: ThreadId| grouped && self.plans[t].group == group;
            let last = !(i + 1..self.threads.count()).any(|t| of_group(t) && !self.ended[t]);
            if rate.is_none() || grouped && !last || !steady.judge(sum.0, sum.1) {
                continue;
            }
            let settled = (0..self.threads.count()).filter(|&t| t == i || of_group(t));
            for t in settled.collect::<Vec<_>>() {
                if let Some(steady) = &mut self.steady[t] {
                    steady.set_attained();
                }
                if let Some(AnySource::Job(job)) = self.source(t) {
                    job.stop_flag().set(true);
                }
            }
        }
        self.look_again(now + steady::INTERVAL, Kind::SteadyState);
    }

    /// The result so far. A run is complete when [`World::step`] has returned false.
    pub fn finish(mut self, provenance: Provenance) -> RunResult {
        let now = self.ctx.now;
        let host = self.host_stats(now);
        let mut generated = 0;
        let issued: IdVec<ThreadId, u64> =
            (0..self.places.count()).map(|t| self.source(t).map_or(0, AnySource::issued)).collect();
        let used: IdVec<ThreadId, _> = self
            .places
            .iter()
            .map(|&(h, t)| {
                let first: usize =
                    self.hosts[..h].iter().map(|seat| seat.host.thread_count() as usize).sum();
                first + t as usize
            })
            .collect();
        let mut failed = false;
        for (i, stats) in (0..).zip(&mut self.threads) {
            let t = &host.threads[used[i]];
            let r = &mut stats.result;
            r.user = Span(t.user);
            r.system = Span(t.system);
            r.context_switches = t.voluntary_switches + t.involuntary_switches;
            stats.set_depths(t);
            let r = &mut stats.result;
            r.generated = issued[i];
            generated += r.generated;
            failed |= r.error != 0;
            r.steady = self.steady[i].as_ref().map(Steady::result);
        }
        if now > Time::ZERO && self.series_last != self.series_now(now) {
            self.add_row(now);
        }
        if self.host_series.last().is_none_or(|row| row.end_ns < now.0) {
            self.sample_host();
        }
        if now > Time::ZERO && self.intervals.ends_at().is_none_or(|end| end < now.0) {
            self.sample_interval();
        }
        let trace_error = self.trace_error().cloned();
        failed |= trace_error.is_some();
        let reports = |beside: bool| {
            let seats = self.apps.iter().filter(move |seat| seat.beside == beside);
            seats.map(|seat| seat.app.borrow().report())
        };
        let app = reports(false).next();
        let with: Vec<_> = reports(true).collect();
        failed |= app.iter().chain(&with).any(|program| program.failure.is_some());
        let turnarounds =
            self.apps.iter().flat_map(|seat| seat.app.borrow().turnarounds()).collect();
        let iologs = self.iologs();
        let machine = self.machine(now, &host, generated);
        let mut warnings = self.warnings(&machine);
        for array in &machine.arrays {
            let node =
                self.arrays.iter().map(|(_, node)| node).find(|node| node.name == array.name);
            let told = node.and_then(|node| caution::no_turns(array, node.config.gc));
            warnings.extend(told);
        }
        for array in machine.arrays.iter().filter(|array| array.write_hole) {
            let rows = match array.bitmap_bytes {
                0 => "all rows",
                _ => "the rows that its bitmap names",
            };
            warnings.push(format!(
                "{}: the write hole is open, as md leaves it: after a power cut parity may be wrong until {rows} have \
                 been looked at, and a drive lost before that takes more with it than its own writes; a journal closes it",
                array.name
            ));
        }
        for (job, why) in self.hosts[0].host.not_selected() {
            let text =
                format!("job '{job}' has its completions by interrupt, not by Select-ISR: {why}");
            if !warnings.contains(&text) {
                warnings.push(text);
            }
        }
        let marked = |t: &ThreadStats| {
            let others = t.result.dirs.iter().flat_map(|d| &d.classes).map(|c| c.class);
            let all = others.chain([t.result.class]);
            t.result.over_network && { all }.any(|class| class.workload() != Workload::None)
        };
        if self.threads.iter().any(marked) {
            warnings.push(
                "workload attributes end at the network, whose protocol has no field for them: the server and the \
                 drive take all I/O for one without, and the rows by class tell jobs apart and nothing else"
                    .into(),
            );
        }
        let prepared = match &*self.drives {
            [one] => one.described(),
            many => {
                let each = many.iter().map(|d| format!("{}: {}", d.name, d.described()));
                each.collect::<Vec<_>>().join("; ")
            }
        };
        let mut notes: Vec<String> = self.reads_in_order(&machine).into_iter().collect();
        notes.extend(self.drives.iter().enumerate().filter_map(|(number, d)| {
            let floor = self.ftl_of(number).gc_floor();
            (floor.victims > 0 || floor.sectors > 0).then(|| {
                format!(
                    "{}: free segments ran out before the host's collector had given its orders: the drive began \
                     {} victims and moved {} sectors without one (ftl.fssd.report_units, gc_start)",
                    d.name, floor.victims, floor.sectors
                )
            })
        }));
        notes.extend(self.drives.iter().filter_map(|d| {
            let r = d.controller.nand().reread().filter(|r| r.reads_done_again > 0)?;
            Some(format!(
                "{}: {} flash reads were not right at first and were done again, {} times in all; {} of them were lost \
                 (nand.errors)",
                d.name, r.reads_done_again, r.rereads, r.reads_lost
            ))
        }));
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
            threads: std::mem::take(&mut *self.threads)
                .into_iter()
                .map(ThreadStats::finish)
                .collect(),
            machine,
            app,
            with,
            turnarounds,
            slowest: self.slowest.into_iter().flat_map(Slowest::take).collect(),
            latency_over_time: self.latencies.map(LatencySeries::take),
            iologs,
            tracks: self.ctx.tracks.take(),
            prepared,
            warnings,
            notes,
        }
    }

    fn machine(&mut self, now: Time, host: &HostStats, generated: u64) -> Machine {
        let elapsed = now.0.max(1) as f64;
        let share = |ns: u64| ns as f64 / elapsed;
        let seen: Vec<usize> = self.seen.clone();
        let drives: Vec<DriveResult> =
            seen.into_iter().map(|unit| self.result_of(unit, now)).collect();
        let mut sum = DriveResult::sum(&drives);
        let over_time: Vec<_> =
            self.series.iter().map(|(at, r)| (*at, std::array::from_fn(|i| r[i]))).collect();
        let by_third = WriteAmplification::thirds(&over_time);
        let counters = self.counters(host, std::mem::take(&mut sum.totals.counters));
        let h = &host.counters;
        // Hosts of one kind together.
        let mut each: Vec<(HostStats, &(PowerConfig, IdleConfig))> = Vec::new();
        for seat in &self.hosts {
            let stats = seat.host.stats(now);
            match each.iter_mut().find(|(_, power)| *power == &seat.power) {
                Some((sum, _)) => *sum = std::mem::take(sum).with(stats),
                None => each.push((stats, &seat.power)),
            }
        }
        Machine {
            simulated_ns: now.0,
            events: self.ctx.queue.popped(),
            generated,
            served: self.served,
            totals: DriveTotals {
                write_amplification: WriteAmplification {
                    by_third,
                    over_time,
                    ..sum.totals.write_amplification
                },
                counters,
                ..sum.totals
            },
            layers: Ddir::RW.iter().filter_map(|&d| self.layers[d as usize].table(d)).collect(),
            classes: classes::rows(self.threads.iter().map(|t| &t.result)),
            drive_classes: sum.classes,
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
            host: host::report(host, &each, self.served, now.0, &self.host_series),
            energy_over_time: self
                .series
                .iter()
                .map(|(at, row)| (*at, std::array::from_fn(|i| row[i + CAUSES] as f64 * 1e-9)))
                .collect(),
            interrupts: h.interrupts,
            merges: h.back_merges + h.front_merges + h.request_merges,
            drives: if self.drives.len() > 1 || !self.bridges.is_empty() {
                drives
            } else {
                Vec::new()
            },
            arrays: self.arrays(),
            intervals: self.intervals.result(),
            flash: self.drives.iter().map(|seat| seat.flash(now)).collect(),
        }
    }

    /// What each array did.
    fn arrays(&self) -> Vec<ArrayResult> {
        let of_host = |(h, seat): (usize, &HostSeat)| {
            let arrays = seat.host.arrays();
            arrays.into_iter().map(move |stats| (h, stats)).collect::<Vec<_>>()
        };
        let all = self.hosts.iter().enumerate().flat_map(of_host);
        let result = |(h, stats): (usize, ArrayStats)| {
            let mut of_host = self.arrays.iter().filter(|(host, _)| *host == h);
            let (_, node) = of_host.nth(usize::from(stats.disk)).expect("an array of the list");
            ArrayResult::new(node, &stats)
        };
        all.map(result).collect()
    }

    /// What a drive did, or a bridge with the drives behind it.
    fn result_of(&mut self, unit: usize, now: Time) -> DriveResult {
        if let Some(b) = unit.checked_sub(self.drives.len()) {
            let members = self.bridges[b].members.clone();
            let members = members.into_iter().map(|unit| self.result_of(unit, now)).collect();
            self.ctx.enter_drive(unit as u8);
            return self.bridges[b].result(now, members, &self.ctx.stamps);
        }
        self.ctx.enter_drive(unit as u8);
        let seat = &self.drives[unit];
        let (pblk, gc, luns) = match seat.bridge {
            None => {
                let (host, disk) = (&self.hosts[seat.host].host, seat.disk);
                (host.pblk_stats(disk), host.gc_stats(disk), host.lun_stats(disk))
            }
            Some(_) => (None, None, None),
        };
        seat.result(now, self.ftl_of(unit), (pblk.as_ref(), gc, luns), &self.ctx.stamps)
    }

    /// Every counter of the machine, those of its drives among them.
    fn counters(&self, host: &HostStats, mut counters: Vec<(String, u64)>) -> Vec<(String, u64)> {
        let of_drives = counters.iter().position(|(name, _)| name.starts_with("device."));
        let of_device = counters.split_off(of_drives.unwrap_or(counters.len()));
        // A server's pages are no file system of a job's.
        let mut of_files = Vec::new();
        for fs in self.hosts.iter().filter(|seat| !seat.host.serves()).filter_map(|s| s.host.fs()) {
            let own: Vec<_> =
                fs.stats().list().map(|(name, n)| (format!("fs.{name}"), n)).collect();
            add_named(&mut of_files, &own);
        }
        counters.extend(of_files);
        let h = &host.counters;
        counters.extend(h.list().map(|(name, n)| (format!("host.{name}"), n)));
        counters.extend(of_device);
        if let Some(b) = &host.bios {
            let of_bios = [
                ("host.bio_tokens", b.taken),
                ("host.bios_held", b.held),
                ("host.bio_windows", b.windows),
                ("host.bio_resizes", b.resizes),
            ];
            counters.extend(of_bios.map(|(name, n)| (name.to_string(), n)));
        }
        counters
    }
}

const _: () = assert!(LAYERS == wordline_base::Layer::ALL.len());
