//! The system under test: profiles put together.

use crate::{Error, Scale};
use std::sync::Arc;
use wordline_device::DriveConfig;
use wordline_ftl::FtlKind;
use wordline_profile::{Config, ConfigError, Places, Sources};
use wordline_sim::{Problem, SystemConfig};

/// The system under test, its description, and the places of its values for errors that show only when
/// it is built.
#[derive(Clone)]
pub struct System {
    pub config: Config,
    /// The same for the machine.
    pub parts: SystemConfig,
    /// What was set over the profiles, as `key=value`.
    pub overrides: Vec<String>,
    /// The part of the drive that is taken, and what was cut for it, in a line.
    pub scale: Option<(Scale, String)>,
    /// The FTL, if it is none of ours.
    pub ftl: Option<Arc<dyn FtlKind>>,
    places: Places,
}

impl System {
    /// The same with another FTL. It runs where the profile's does (`ftl.placement`), at the profile's
    /// cost (`ftl.cost`).
    pub fn with_ftl(mut self, kind: impl FtlKind + 'static) -> System {
        self.config.ftl_name = kind.name().into();
        self.ftl = Some(Arc::new(kind));
        self
    }

    /// A device and a host by the names of their profiles.
    pub fn preset(device: &str, stack: &str) -> Result<System, Error> {
        System::assemble(Sources::presets(device, stack), &[])
    }

    /// Profiles and what is set over them, as `key=value`.
    pub fn assemble(sources: Sources, overrides: &[String]) -> Result<System, Error> {
        let (config, places) = wordline_profile::assemble_with_places(sources, overrides)?;
        let overrides = overrides.to_vec();
        Ok(System { parts: parts(&config), config, overrides, scale: None, ftl: None, places })
    }

    /// A part of a drive. `chosen` are overrides that go before the cut, `set` those of the user, which
    /// stay as they are.
    pub fn assemble_scaled(
        sources: Sources,
        scale: Scale,
        chosen: &[String],
        set: &[String],
    ) -> Result<System, Error> {
        let all: Vec<String> = chosen.iter().chain(set).cloned().collect();
        let whole = System::assemble(sources, &all)?;
        let cut = scale.cut(&whole.config, set)?;
        let overrides: Vec<String> =
            chosen.iter().cloned().chain(cut.overrides).chain(set.iter().cloned()).collect();
        let part = System::assemble(sources, &overrides)
            .map_err(|e| ConfigError::plain(format!("at --scale {scale}: {e}")))?;
        let said = format!("scale {scale}: {}", cut.said);
        Ok(System { scale: Some((scale, said)), overrides: all, ..part })
    }

    /// A configuration that was assembled before.
    pub fn from_config(config: Config, overrides: &[String]) -> System {
        System {
            parts: parts(&config),
            config,
            overrides: overrides.to_vec(),
            scale: None,
            ftl: None,
            places: Places::none(),
        }
    }

    /// A problem that building the machine found, with the place of the value.
    pub fn misfit(&self, problem: &Problem) -> Error {
        if problem.path.is_empty() {
            return ConfigError::plain(problem.message.clone()).into();
        }
        self.places.error(&problem.path, &problem.message).into()
    }

    /// The FTL runs on the host, as pblk does.
    pub fn ftl_on_host(&self) -> bool {
        self.parts.drive.ftl.placement == wordline_ftl::Placement::Host
    }
}

fn parts(config: &Config) -> SystemConfig {
    let Config { nand, device, ftl, stack, .. } = config.clone();
    SystemConfig { drive: DriveConfig { nand, device, ftl }, stack }
}
