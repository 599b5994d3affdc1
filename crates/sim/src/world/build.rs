//! A world is put together of hosts, drives and what joins them.

use super::{
    AnySource, AppSeat, HostSeat, NetworkSeat, Options, SERIES_INTERVAL, Start, ThreadId,
    ThreadSetup, Watched, World,
};
use crate::check::{Mounting, Units};
use crate::collect::{Kept, LatencySeries};
use crate::drive::Drive;
use crate::error::BuildError;
use crate::host;
use crate::interval::Series;
use crate::net::Network;
use crate::seat::{BridgeSeat, DriveSeat, Totals};
use crate::steady::Steady;
use crate::thread::ThreadStats;
use crate::topology::{Behind, Part, SystemConfig};
use std::rc::Rc;
use wordline_base::{BadValue, Ctx, IdVec, Stamps, Time, Tracks};
use wordline_device::{Bridge, Controller, DeviceConfig, Switch};
use wordline_fs::FsConfig;
use wordline_ftl::{Placement, Translation};
use wordline_host::source::ThreadSpec;
use wordline_host::{DiskShape, DiskSpec, DriveInfo, Host};

/// The drives with flash behind a unit: itself, if it is no bridge.
pub(super) fn flash_behind(bridges: &[BridgeSeat], drives: usize, unit: usize) -> Vec<usize> {
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
    for thread in 0..host.jobs() {
        if let Some(source) = host.source_mut(thread) {
            mounting.pre_read(source);
        }
    }
    let fs = mounting.fs.reading_at_once(host.read_at_once());
    host.mount(fs);
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
            let Drive { nand, mut ftl, stamps, prepared, ageing, .. } = drive;
            let Drive { unsteady, unmet, rested, uniform, .. } = drive;
            if config.orders_collection(number)
                && let Some(ftl) = ftl.ordered()
            {
                ftl.obey();
            }
            ctx.add_drive(stamps);
            let (before, map_held) = (*ftl.counters(), ftl.map_held());
            let moves_before = ftl.strides().map_or(0, |s| s.partitions);
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
                moves_before,
                prepared,
                ageing,
                unsteady,
                unmet,
                rested,
                uniform,
                map_held: map_held.filter(|held| held.changed > 0),
                course: Vec::new(),
                keeps_buffer_alone: of.device.cache.as_ref().is_some_and(|c| !c.capacitor)
                    && of.ftl.keeps_buffer(),
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
                Start::Waits { .. } => Time::NEVER,
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
                name: host.name.clone(),
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
            kept: Kept::new(options.slowest),
            searched: Default::default(),
            searches_over: Vec::new(),
            latencies: options.latency_over_time.then(|| LatencySeries::new(SERIES_INTERVAL)),
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
            switches,
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
        world.note_courses(Time::ZERO);
        world.start(options);
        Ok(world)
    }
}
