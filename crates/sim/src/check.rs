//! What shows before a machine is built that it cannot be: its parts, and what the host knows of its drive.

use crate::drive::Drive;
use crate::error::BuildError;
use crate::files::Names;
use crate::topology::{Behind, Part, SystemConfig, TopologyError};
use crate::world::{AnySource, ThreadSetup, World};
use wordline_base::BadValue;
use wordline_device::config::Arbitration;
use wordline_device::{Controller, Switch};
use wordline_fs::{Fs, FsConfig};
use wordline_ftl::Placement;
use wordline_host::config::NbdServer;
use wordline_host::source::ThreadSpec;
use wordline_host::{ArrayShape, DiskShape, DriveInfo, Host, StackConfig};

impl SystemConfig {
    /// What a host that has the drive knows of it.
    pub(crate) fn drive_info(&self, number: usize, drive: &Drive) -> DriveInfo {
        let device = &self.drives[number].config.device;
        DriveInfo {
            bytes: drive.bytes(),
            lba_bytes: device.lba,
            queues: device.queues.count,
            depth: device.queues.depth,
            max_transfer: device.queues.max_transfer,
            volatile_cache: device.cache.as_ref().is_none_or(|c| !c.capacitor),
            weighted_urgent: device.queues.arbitration == Arbitration::WeightedUrgent,
            sector: drive.nand.geometry.sector,
            staging_bytes: device.staging_bytes,
            unit_sectors: drive.nand.geometry.sectors_per_unit,
        }
    }

    pub(crate) fn ftl_on_host(&self, drive: usize) -> bool {
        self.drives[drive].config.ftl.placement == Placement::Host
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
                volatile_cache: network.nbd.flush,
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
            volatile_cache: infos().any(|i| i.volatile_cache),
            ..drives[node.members[0]].clone()
        };
        let members = node.members.iter().map(number).collect();
        let array = ArrayShape { config: node.config.clone(), layout, members };
        Ok(DiskShape { info, ftl_on_host: false, queue: None, array: Some(Box::new(array)) })
    }
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
        let infos: Vec<DriveInfo> =
            drives.iter().enumerate().map(|(i, drive)| config.drive_info(i, drive)).collect();
        for (i, node) in config.drives.iter().enumerate() {
            let (device, sector) = (&node.config.device, drives[i].nand.geometry.sector);
            Controller::check_config(device, sector, !config.ftl_on_host(i))
                .map_err(|bad| BuildError::Of { part: Part::Drive(i), bad: bad.below("device") })?;
        }
        for (i, switch) in config.switches.iter().enumerate() {
            Switch::new(switch).map_err(|bad| BuildError::Of { part: Part::Switch(i), bad })?;
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
