//! What shows before a machine is built that it cannot be: its parts, and what the host knows of its drive.

use crate::disks::Heeds;
use crate::drive::Drive;
use crate::error::BuildError;
use crate::files::Names;
use crate::topology::{Behind, Part, SystemConfig, TopologyError};
use crate::world::{AnySource, ThreadSetup, World};
use wordline_base::BadValue;
use wordline_device::config::{Arbitration, PartitionBy};
use wordline_device::{Bridge, Controller, Member, Stripes, Switch};
use wordline_fs::{Fs, FsConfig};
use wordline_ftl::config::FssdConfig;
use wordline_ftl::{Placement, Side, Translation};
use wordline_host::config::NbdServer;
use wordline_host::sched::LunConfig;
use wordline_host::source::ThreadSpec;
use wordline_host::{ArrayShape, DiskShape, DriveInfo, GcOnHost, Host, StackConfig};

/// What is known of drives and bridges before they are put together.
pub struct Units {
    /// By unit.
    pub infos: Vec<DriveInfo>,
    /// By bridge, how it stripes and over what.
    pub stripes: Vec<Stripes>,
    /// By bridge, what is behind it.
    pub members: Vec<Vec<Member>>,
}

impl Units {
    /// Bytes by unit.
    pub fn bytes(&self) -> Vec<u64> {
        self.infos.iter().map(|info| info.bytes).collect()
    }
}

impl SystemConfig {
    /// What hosts and bridges know of the drives, or why drives cannot be behind their bridges.
    pub fn units(&self, drives: &[&Drive]) -> Result<Units, BuildError> {
        let mut infos: Vec<DriveInfo> =
            drives.iter().enumerate().map(|(i, drive)| self.drive_info(i, drive)).collect();
        let (mut stripes, mut bridges) = (Vec::new(), Vec::new());
        for (b, bridge) in self.bridges.iter().enumerate() {
            let inside: Vec<&DriveInfo> = bridge.members.iter().map(|m| &infos[*m]).collect();
            let mut members: Vec<Member> = inside.iter().map(|info| member(info)).collect();
            // Of one kind some have more bad blocks than others.
            if bridge.members.iter().all(|unit| self.are_alike(*unit, bridge.members[0])) {
                let least = members.iter().map(|member| member.bytes).min().unwrap_or(0);
                members.iter_mut().for_each(|member| member.bytes = least);
            }
            let (_, of) = Bridge::check_config(&bridge.device, &members).map_err(|bad| {
                BuildError::Of { part: Part::Bridge(b), bad: bad.below("device") }
            })?;
            let queues = &bridge.device.queues;
            infos.push(DriveInfo {
                bytes: of.bytes(),
                lba_bytes: bridge.device.lba,
                queues: queues.count,
                depth: queues.depth,
                max_transfer: queues.max_transfer,
                volatile_cache: self.has_volatile_cache(Behind::Drive(infos.len())),
                weighted_urgent: queues.arbitration == Arbitration::WeightedUrgent,
                sata: false,
                gc: None,
                luns: None,
                ..inside[0].clone()
            });
            bridges.push(members);
            stripes.push(of);
        }
        Ok(Units { infos, stripes, members: bridges })
    }

    /// Units that would have the same capacity if no block were bad.
    fn are_alike(&self, one: usize, other: usize) -> bool {
        match (self.bridge(one), self.bridge(other)) {
            (Some(a), Some(b)) => {
                let both = a.members.iter().zip(&b.members);
                a.device.bridge == b.device.bridge
                    && both.into_iter().all(|(a, b)| self.are_alike(*a, *b))
            }
            (None, None) => {
                let [a, b] = [one, other].map(|unit| &self.drives[unit].config);
                (&a.nand, &a.ftl) == (&b.nand, &b.ftl)
            }
            _ => false,
        }
    }

    /// What a host that has the drive knows of it.
    fn drive_info(&self, number: usize, drive: &Drive) -> DriveInfo {
        let device = &self.drives[number].config.device;
        DriveInfo {
            bytes: drive.bytes(),
            lba_bytes: device.lba,
            queues: device.queues.count,
            depth: device.queues.depth,
            max_transfer: device.queues.max_transfer,
            volatile_cache: self.has_volatile_cache(Behind::Drive(number)),
            weighted_urgent: device.queues.arbitration == Arbitration::WeightedUrgent,
            sata: device.sata.is_some(),
            sector: drive.nand.geometry.sector,
            staging_bytes: device.staging_bytes,
            unit_sectors: drive.nand.geometry.sectors_per_unit,
            gc: self.gc_on_host(number, drive),
            luns: self.luns_on_host(number, drive),
        }
    }

    /// Flushes and FUA mean something to what is behind a disk: the block layer drops them where there is no
    /// volatile cache.
    pub(crate) fn has_volatile_cache(&self, behind: Behind) -> bool {
        let any =
            |units: &[usize]| units.iter().any(|&u| self.has_volatile_cache(Behind::Drive(u)));
        match behind {
            Behind::Array(a) => any(&self.arrays[a].members),
            Behind::Network(n) => self.networks[n].nbd.flush,
            Behind::Drive(unit) => match self.bridge(unit) {
                Some(bridge) => any(&bridge.members),
                None => {
                    let of = &self.drives[unit].config;
                    match &of.device.cache {
                        // A SATA drive says that its cache is on, whatever it keeps.
                        _ if of.device.sata.is_some() => true,
                        Some(cache) => !cache.capacitor,
                        // pblk says that it has one, whatever its drive keeps.
                        None => of.ftl.placement == Placement::Host || !of.ftl.keeps_buffer(),
                    }
                }
            },
        }
    }

    /// Behind a disk there is a SATA drive.
    pub(crate) fn has_sata(&self, behind: Behind) -> bool {
        let any = |units: &[usize]| units.iter().any(|&u| self.has_sata(Behind::Drive(u)));
        match behind {
            Behind::Array(a) => any(&self.arrays[a].members),
            Behind::Network(n) => any(&[self.networks[n].drive]),
            Behind::Drive(unit) => self.device(unit).sata.is_some(),
        }
    }

    /// A drive with its FTL has its collector on the host.
    fn gc_on_host(&self, number: usize, drive: &Drive) -> Option<GcOnHost> {
        let cost = &self.drives[number].config.ftl.cost;
        let shape = self.orders_collection(number).then(|| drive.ftl.gc_shape()).flatten()?;
        Some(GcOnHost { shape, command: cost.background_command, count: cost.gc_count })
    }
    /// A drive with its FTL has its scheduler on the host.
    fn luns_on_host(&self, number: usize, drive: &Drive) -> Option<LunConfig> {
        let ftl = &self.drives[number].config.ftl;
        let fssd = self.fssd_in(number).filter(|fssd| fssd.scheduler == Side::Host)?;
        Some(LunConfig {
            luns: drive.nand.geometry.luns,
            places: fssd.places,
            depth: fssd.lun_reads,
            hold: fssd.hold,
            program: self.drives[number].config.nand.t_program.mean(),
            look_up: ftl.cost.place,
        })
    }
    pub(crate) fn orders_collection(&self, drive: usize) -> bool {
        self.fssd_in(drive).is_some_and(|fssd| fssd.victims == Side::Host)
    }
    pub(crate) fn tells_places(&self, drive: usize) -> bool {
        self.fssd_in(drive).is_some_and(|fssd| fssd.scheduler == Side::Host)
    }
    /// FSSD in the drive.
    fn fssd_in(&self, drive: usize) -> Option<&FssdConfig> {
        let ftl = self.drives.get(drive).map(|node| &node.config.ftl);
        ftl.filter(|ftl| ftl.placement == Placement::Device)?.fssd.as_ref()
    }

    pub(crate) fn ftl_on_host(&self, drive: usize) -> bool {
        let config = self.drives.get(drive).map(|node| &node.config);
        config.is_some_and(|config| config.ftl.placement == Placement::Host)
    }

    /// Why nothing polls a disk, whoever asks.
    pub(crate) fn not_polled(&self, behind: Behind) -> Option<&'static str> {
        match behind {
            Behind::Array(_) => Some("an array is bio-based, which Linux does not poll"),
            Behind::Network(_) => Some("a network block device cannot be polled"),
            Behind::Drive(unit) if self.ftl_on_host(unit) => {
                Some("an FTL on the host presents a bio-based device, which Linux cannot poll")
            }
            Behind::Drive(unit) => self.device(unit).sata.is_some().then_some(
                "libata's drivers do not poll, so that completions of a SATA drive come by interrupt",
            ),
        }
    }

    /// What the drives of a disk go by of the class of a command.
    pub(crate) fn heeds(&self, behind: Behind) -> Heeds {
        let any = |units: &[usize]| {
            let each = units.iter().map(|&unit| self.heeds(Behind::Drive(unit)));
            each.fold(Heeds::default(), Heeds::or)
        };
        match behind {
            Behind::Array(a) => any(&self.arrays[a].members),
            Behind::Network(_) => Heeds::default(),
            Behind::Drive(unit) => {
                let device = self.device(unit);
                let partition = device.cache.as_ref().and_then(|cache| cache.partition.as_ref());
                let by = partition.map(|partition| partition.by);
                let own = Heeds {
                    attribute: by == Some(PartitionBy::Attribute),
                    queue: by == Some(PartitionBy::Queue)
                        || device.queues.arbitration == Arbitration::WeightedUrgent,
                };
                self.bridge(unit).map_or(own, |bridge| own.or(any(&bridge.members)))
            }
        }
    }

    /// The disks of a host, from what is known of all drives.
    pub(crate) fn shapes(
        &self,
        host: usize,
        drives: &[DriveInfo],
    ) -> Result<Vec<DiskShape>, BuildError> {
        let stack = &self.hosts[host].stack;
        let numbers = self.disks(host);
        let shape = |behind: Behind| {
            if let Behind::Array(a) = behind {
                return self.shape_of_array(a, &numbers, drives);
            }
            let (drive, _) = self.drive_behind(behind);
            let info = &drives[drive];
            let Behind::Network(n) = behind else {
                let exported = self.networks.iter().find(|n| n.drive == drive);
                // SPDK's target has the drive from the kernel.
                let taken = exported.filter(|n| n.nbd.server == NbdServer::Spdk);
                let queue =
                    taken.map(|n| StackConfig { nbd: Some(n.nbd.clone()), ..stack.clone() });
                let ftl_on_host = self.ftl_on_host(drive);
                return Ok(DiskShape {
                    info: info.clone(),
                    ftl_on_host,
                    queue: queue.map(Box::new),
                    array: None,
                });
            };
            let network = &self.networks[n];
            let cores = network.shared_cores.unwrap_or(stack.cores);
            let of = |part, bad: BadValue| BuildError::Of { part, bad: bad.below("stack") };
            network.nbd.check(cores).map_err(|bad| of(Part::Network(n), bad))?;
            if !stack.kernel {
                let why = "must be true: a network block device needs it";
                return Err(of(Part::Host(host), BadValue::new("kernel", why)));
            }
            let queue = stack.queue_of(&network.nbd);
            let info = DriveInfo {
                queues: 1,
                depth: queue.queue_depth,
                max_transfer: network.nbd.max_request,
                volatile_cache: self.has_volatile_cache(Behind::Network(n)),
                sata: false,
                gc: None,
                luns: None,
                ..info.clone()
            };
            Ok(DiskShape { info, ftl_on_host: false, queue: Some(Box::new(queue)), array: None })
        };
        numbers.iter().copied().map(shape).collect()
    }

    fn shape_of_array(
        &self,
        array: usize,
        numbers: &[Behind],
        drives: &[DriveInfo],
    ) -> Result<DiskShape, BuildError> {
        let node = &self.arrays[array];
        let layout = self.layout(array, |d| drives[d].bytes)?;
        let infos = || node.members.iter().map(|&d| &drives[d]);
        let number = |d: &usize| {
            numbers.iter().position(|b| *b == Behind::Drive(*d)).expect("a host has its drives")
                as u16
        };
        let info = DriveInfo {
            bytes: layout.bytes(),
            lba_bytes: infos().map(|i| i.lba_bytes).max().unwrap_or(512),
            max_transfer: 0,
            volatile_cache: self.has_volatile_cache(Behind::Array(array)),
            sata: false,
            gc: None,
            luns: None,
            ..drives[node.members[0]].clone()
        };
        let members = node.members.iter().map(number).collect();
        let array = ArrayShape {
            config: node.config.clone(),
            layout,
            members,
            spare: node.spare.as_ref().map(number),
            journal: node.journal.as_ref().map(number),
            journal_bytes: node.journal.map_or(0, |d| drives[d].bytes),
            fail: node.fail.and_then(|(drive, at)| {
                let member = node.members.iter().position(|&d| d == drive)?;
                Some((member as u32, at))
            }),
            checks: true,
        };
        Ok(DiskShape { info, ftl_on_host: false, queue: None, array: Some(Box::new(array)) })
    }
}

/// What a bridge knows of a drive.
fn member(info: &DriveInfo) -> Member {
    let &DriveInfo { bytes, lba_bytes, sector, queues, depth, max_transfer, .. } = info;
    Member { bytes, lba: lba_bytes, sector, queues, depth, max_transfer }
}

/// A file system with the jobs' files on it.
pub(crate) struct Mounting {
    pub fs: Fs,
    names: Names,
}

impl Mounting {
    pub fn new(config: &FsConfig, drive: &DriveInfo, tasks: u32) -> Result<Mounting, BuildError> {
        let fs = Fs::new(config, drive.bytes, tasks)
            .map_err(|bad| BuildError::Value(bad.below("stack.fs")))?;
        Ok(Mounting { fs: fs.on_blocks_of(drive.lba_bytes), names: Names::default() })
    }
    /// Makes the files of a thread, or finds those that another one made.
    pub fn lay_out(&mut self, source: &mut AnySource) -> Result<(), BuildError> {
        match source {
            AnySource::Job(job) => match job.files_mut() {
                Some(files) => files.lay_out(&mut self.fs, &mut self.names),
                None => Ok(()),
            },
            AnySource::Cpu(_) => Ok(()),
            AnySource::Trace(_) | AnySource::App(_) => Err(BuildError::NoFiles),
        }
    }
    /// Reads the files of a thread into memory, if it asks for that. All files are there.
    pub fn pre_read(&mut self, source: &mut AnySource) {
        if let AnySource::Job(job) = source
            && let Some(files) = job.files_mut()
        {
            files.pre_read(&mut self.fs);
        }
    }
}

impl World {
    /// Whether hosts and drives can be put together: all that [`World::new`] refuses shows here, before
    /// the drives are aged.
    pub fn check(
        config: &SystemConfig,
        drives: &[&Drive],
        threads: &mut [ThreadSetup],
    ) -> Result<(), BuildError> {
        config.check()?;
        let Units { infos, .. } = config.units(drives)?;
        for (i, node) in config.drives.iter().enumerate() {
            let (device, nand) = (&node.config.device, &drives[i].nand);
            Controller::check_config(device, nand, !config.ftl_on_host(i))
                .map_err(|bad| BuildError::Of { part: Part::Drive(i), bad: bad.below("device") })?;
            if device.sata.is_some() && (node.bridge.is_some() || node.switch.is_some()) {
                let why = "is a drive behind a host adapter of its own: behind a bridge or a switch, take an NVMe drive";
                let bad = BadValue::new("device.sata", why);
                return Err(BuildError::Of { part: Part::Drive(i), bad });
            }
            if node.bridge.is_some() && config.ftl_on_host(i) {
                let on_host = match node.config.ftl.fssd {
                    Some(_) => ", so --set ftl.on_host=none",
                    None => ": --set ftl.placement=device",
                };
                let why = format!(
                    "must be \"device\" behind a bridge: the host cannot address the flash{on_host}"
                );
                let bad = BadValue::new("ftl.placement", why);
                return Err(BuildError::Of { part: Part::Drive(i), bad });
            }
        }
        for (i, node) in config.drives.iter().enumerate() {
            let of_host = [
                ("ftl.fssd.victims", config.orders_collection(i), "hands no collector's orders on"),
                ("ftl.fssd.scheduler", config.tells_places(i), "does not tell where data lie"),
            ];
            let found =
                of_host.into_iter().find(|(_, of_host, _)| node.bridge.is_some() && *of_host);
            if let Some((key, _, why)) = found {
                let bad =
                    BadValue::new(key, format!("must be \"drive\" behind a bridge, which {why}"));
                return Err(BuildError::Of { part: Part::Drive(i), bad });
            }
        }
        for (i, switch) in config.switches.iter().enumerate() {
            Switch::new(switch).map_err(|bad| BuildError::Of { part: Part::Switch(i), bad })?;
        }
        for (a, array) in config.arrays.iter().enumerate() {
            let here =
                |bad: BadValue| BuildError::Of { part: Part::Array(a), bad: bad.below("stack") };
            array.config.check().map_err(here)?;
            let cores = config.hosts[config.host_of_unit(array.members[0])].stack.cores;
            if let Some(core) = array.config.core.filter(|&core| core >= cores) {
                return Err(here(BadValue::new(
                    "md.core",
                    format!("is {core}, there are {cores} cores"),
                )));
            }
        }
        for (h, host) in config.hosts.iter().enumerate() {
            let of: Vec<&ThreadSpec> =
                threads.iter().filter(|s| s.host == h).map(|setup| &setup.spec).collect();
            let shapes = config.shapes(h, &infos)?;
            if shapes.is_empty() {
                return Err(TopologyError::Empty(host.name.clone()).into());
            }
            let here = |e: BuildError| e.of(Part::Host(h));
            Host::<AnySource>::check(&host.stack, &of, &shapes, host.stack.fs.is_some())
                .map_err(|e| here(e.into()))?;
            let Some(fs) = &host.stack.fs else { continue };
            let mut mounting = Mounting::new(fs, &shapes[0].info, 0).map_err(here)?;
            for setup in threads.iter_mut().filter(|setup| setup.host == h) {
                mounting.lay_out(&mut setup.source)?;
            }
        }
        for (n, network) in config.networks.iter().enumerate() {
            let Some(cache) = &network.nbd.cache else { continue };
            cache_of(cache, &infos[network.drive]).map_err(|e| e.of(Part::Network(n)))?;
        }
        Ok(())
    }
}

/// The page cache of a server.
fn cache_of(config: &FsConfig, drive: &DriveInfo) -> Result<Fs, BuildError> {
    Fs::new(config, drive.bytes, 0).map_err(|bad| BuildError::Value(bad.below("stack.nbd.cache")))
}
