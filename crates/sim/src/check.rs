//! What shows before a machine is built that it cannot be: its parts, and what the host knows of its drive.

use crate::drive::{Drive, SystemConfig};
use crate::error::BuildError;
use crate::files::Names;
use crate::world::{AnySource, ThreadSetup, World};
use wordline_base::{BadValue, SECTOR};
use wordline_device::Controller;
use wordline_fs::{Fs, FsConfig};
use wordline_ftl::{Placement, Translation};
use wordline_host::config::NbdConfig;
use wordline_host::source::ThreadSpec;
use wordline_host::{DriveInfo, Host, StackConfig};

impl SystemConfig {
    /// What the host that has the drive knows of it.
    pub(crate) fn drive_info(&self, drive: &Drive) -> DriveInfo {
        let device = &self.drive.device;
        DriveInfo {
            bytes: drive.ftl.sectors() * SECTOR,
            lba_bytes: device.lba,
            queues: device.queues.count,
            depth: device.queues.depth,
            max_transfer: device.queues.max_transfer,
            volatile_cache: device.cache.as_ref().is_none_or(|c| !c.capacitor),
            unit_sectors: drive.nand.geometry.sectors_per_unit,
        }
    }

    pub(crate) fn ftl_on_host(&self) -> bool {
        self.drive.ftl.placement == Placement::Host
    }

    /// The network block device between two hosts, if there is one.
    pub(crate) fn network(&self) -> Result<Option<&NbdConfig>, BuildError> {
        let Some(nbd) = &self.stack.nbd else { return Ok(None) };
        let bad = |bad: BadValue| BuildError::Value(bad.below("stack"));
        nbd.check(self.stack.cores).map_err(bad)?;
        if !self.stack.kernel {
            return Err(bad(BadValue::new(
                "kernel",
                "must be true: a network block device needs it",
            )));
        }
        Ok(Some(nbd))
    }
}

/// The drive as the client of a network block device sees it.
pub(crate) fn served(drive: &DriveInfo, nbd: &NbdConfig, client: &StackConfig) -> DriveInfo {
    DriveInfo {
        queues: 1,
        depth: client.queue_depth,
        max_transfer: nbd.max_request,
        volatile_cache: nbd.flush,
        ..drive.clone()
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
    /// Whether host and drive can be put together: all that [`World::new`] refuses shows here, before the
    /// drive is aged.
    pub fn check(
        config: &SystemConfig,
        drive: &Drive,
        threads: &mut [ThreadSetup],
    ) -> Result<(), BuildError> {
        let SystemConfig { stack, .. } = config;
        let (info, ftl) = (config.drive_info(drive), config.ftl_on_host());
        Controller::check_config(&config.drive.device, !ftl)
            .map_err(|bad| BuildError::Value(bad.below("device")))?;
        let specs: Vec<&ThreadSpec> = threads.iter().map(|setup| &setup.spec).collect();
        let check = Host::<AnySource>::check;
        match (config.network()?, stack.ends()) {
            (Some(nbd), Some((client, server))) => {
                check(&server, &[], &info, ftl, false)?;
                check(&client, &specs, &served(&info, nbd, &client), false, stack.fs.is_some())?;
                nbd.cache.as_ref().map_or(Ok(()), |cache| cache_of(cache, &info).map(drop))?;
            }
            _ => check(stack, &specs, &info, ftl, stack.fs.is_some())?,
        }
        if let Some(fs) = &stack.fs {
            let mut mounting = Mounting::new(fs, &info, 0)?;
            threads.iter_mut().try_for_each(|setup| mounting.lay_out(&mut setup.source))?;
        }
        Ok(())
    }
}

/// The page cache of a server.
fn cache_of(config: &FsConfig, drive: &DriveInfo) -> Result<Fs, BuildError> {
    Fs::new(config, drive.bytes, 0).map_err(|bad| BuildError::Value(bad.below("stack.nbd.cache")))
}
