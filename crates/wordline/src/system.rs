//! The system under test: profiles put together.

use crate::nodes::{Nodes, Written, arrayed, drive_of};
use crate::scale::Deviation;
use crate::{Error, Scale, Scaled, StateError};
use std::collections::BTreeMap;
use std::sync::Arc;
use wordline_base::BadValue;
use wordline_device::DriveConfig;
use wordline_ftl::{FtlConfig, FtlKind};
use wordline_md::Level;
use wordline_nand::NandConfig;
use wordline_profile::{Config, ConfigError, Places, Sources, settings};
use wordline_sim::{BuildError, Drive, Part, SystemConfig, TopologyError};

/// Names, or the one that all are.
fn alike<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.iter().all(|name| *name == names[0]) {
        true => names[0].to_string(),
        false => names.join(", "),
    }
}

/// The system under test, and the places of its values for errors that show only when it is built.
#[derive(Clone)]
pub struct System {
    /// All that the profiles and overrides say.
    pub config: Config,
    /// What was set over the profiles, as `key=value`.
    pub overrides: Vec<String>,
    /// The part of the drive that is taken.
    pub scale: Option<Scaled>,
    /// The FTL, if it is none of ours.
    pub ftl: Option<Arc<dyn FtlKind>>,
    pub(crate) places: Places,
    /// What it has beside its first drive and its first host.
    pub nodes: Nodes,
}

impl System {
    /// The same with another FTL. It runs where the profile's does (`ftl.placement`), at the profile's
    /// cost (`ftl.cost`).
    pub fn with_ftl(mut self, kind: impl FtlKind + 'static) -> System {
        self.config.ftl_name = kind.name().into();
        self.ftl = Some(Arc::new(kind));
        self
    }

    /// So many drives like this one, as an array that jobs call `/dev/md0`.
    pub fn into_array(mut self, level: Level, drives: u32) -> System {
        arrayed(&mut self, level, drives);
        self
    }

    /// A device and a host by the names of their profiles.
    ///
    /// # Errors
    ///
    /// [`Error::Config`]: no profile has the name; near ones are told.
    pub fn preset(device: &str, stack: &str) -> Result<System, Error> {
        System::assemble(Sources::presets(device, stack), &[])
    }

    /// Profiles and what is set over them, as `key=value`.
    ///
    /// # Errors
    ///
    /// [`Error::Config`], with the place of each value that will not do.
    pub fn assemble(sources: Sources, overrides: &[String]) -> Result<System, Error> {
        let (config, places) = wordline_profile::assemble_with_places(sources, overrides)?;
        let overrides = overrides.to_vec();
        let nodes = Nodes::default();
        Ok(System { config, overrides, scale: None, ftl: None, places, nodes })
    }

    /// A part of a drive. `chosen` are overrides that go before the cut, `set` those of the user, which
    /// stay as they are.
    ///
    /// # Errors
    ///
    /// As [`System::assemble`], and a scale that the drive cannot be made to.
    pub fn assemble_scaled(
        sources: Sources,
        scale: Scale,
        chosen: &[String],
        set: &[String],
    ) -> Result<System, Error> {
        let all: Vec<String> = chosen.iter().chain(set).cloned().collect();
        let whole = System::assemble(sources, &all)?;
        if scale.is_whole() {
            return Ok(whole);
        }
        let part = |scale| part_of(&whole.config, sources, scale, chosen, set);
        let unfit = crate::scale::without_room(&whole.config);
        let unfit = unfit.map(|bad| whole.places.error(&format!("ftl.{}", bad.key), &bad.why));
        let failed = match (part(scale), unfit) {
            (Ok(mut part), unfit) => {
                if let (Some(scaled), Some(why)) = (&mut part.scale, unfit) {
                    let said = format!("the whole drive cannot be so: {why}");
                    scaled.deviates.insert(0, Deviation { said, of_writes: false });
                }
                return Ok(System { overrides: all, ..part });
            }
            (Err(_), Some(why)) => return Err(why.into()),
            (Err(error), None) => error,
        };
        // What the drive cannot be cut to at all has its own reason.
        let larger = scale.larger().find(|&scale| !scale.is_whole() && part(scale).is_ok());
        let remedy =
            larger.map_or(String::new(), |least| format!(". Take --scale {least} or more"));
        Err(ConfigError::plain(format!("at --scale {scale}: {failed}{remedy}")).into())
    }

    /// What was set over the profiles: for all, then what the entries of a topology say for themselves.
    pub fn said(&self) -> Vec<String> {
        let mut all = self.overrides.clone();
        for own in &self.nodes.set_of_first {
            if let Some(at) = all.iter().rposition(|pair| pair == own) {
                all.remove(at);
            }
        }
        all.extend(self.nodes.set.iter().cloned());
        all
    }

    /// In what drives that were cut are not as the whole ones, each once. With `writes` also what only a run that
    /// writes has of it.
    pub fn deviations(&self, writes: bool) -> Vec<String> {
        let more = self.nodes.drives.iter().filter_map(|node| node.scale.as_ref());
        let all = self.scale.iter().chain(more).flat_map(|scaled| &scaled.deviates);
        let mut told: Vec<String> = Vec::new();
        for deviation in all.filter(|deviation| writes || !deviation.of_writes) {
            if !told.contains(&deviation.said) {
                told.push(deviation.said.clone());
            }
        }
        told
    }

    /// A configuration that was assembled before.
    pub fn from_config(config: Config, overrides: &[String]) -> System {
        System {
            config,
            overrides: overrides.to_vec(),
            scale: None,
            ftl: None,
            places: Places::none(),
            nodes: Nodes::default(),
        }
    }

    /// What building the machine found, with the place of the value if it is one of the configuration.
    pub fn misfit(&self, error: BuildError) -> Error {
        match error {
            BuildError::Value(bad) => self.places.error(&bad.key, &bad.why).into(),
            BuildError::Of { part, bad } => {
                let (part, key) = self.nodes.entry(&self.config, part);
                self.misfit_of(part, BadValue::new(format!("{key}{}", bad.key), bad.why))
            }
            BuildError::Topology(TopologyError::Array { name, why }) => {
                let array = self.nodes.arrays.iter().position(|array| array.name == name);
                match array.zip(why.value()) {
                    Some((a, bad)) => self.misfit_of(Part::Array(a), bad.below("stack.md")),
                    None => Error::Build(BuildError::Topology(TopologyError::Array { name, why })),
                }
            }
            other => Error::Build(other),
        }
    }

    /// The same of an entry of the machine's lists.
    fn misfit_of(&self, part: Part, bad: BadValue) -> Error {
        match self.nodes.written(part) {
            Written::First => self.places.error(&bad.key, &bad.why).into(),
            Written::Own(places) => places.error(&bad.key, &bad.why).into(),
            Written::Array(own, host) => {
                let key = bad.key.strip_prefix("stack.md.").unwrap_or(&bad.key);
                match own.and_then(|own| own.get(key)) {
                    Some(at) => ConfigError::plain(format!("{at}: '{key}' {}", bad.why)).into(),
                    None => host.unwrap_or(&self.places).error(&bad.key, &bad.why).into(),
                }
            }
            Written::Switch(name) => {
                // Its entry is a link of its own.
                let key = bad.key.strip_prefix("link.").unwrap_or(&bad.key);
                let at = self.nodes.entries.place(Some(&format!("switch {name}")));
                ConfigError::plain(format!("{at}: switch {name}: {key} {}", bad.why)).into()
            }
        }
    }

    /// What the machine is built of, without the names of the profiles.
    pub fn machine(&self) -> SystemConfig {
        self.nodes.machine(&self.config)
    }

    /// A name of each drive, once where all are alike.
    pub(crate) fn names(&self, of: impl Fn(&Config) -> &str) -> String {
        let more = self.nodes.drives.iter().map(|node| of(&node.config));
        alike(std::iter::once(of(&self.config)).chain(more))
    }

    /// The stack of each host, once where all are alike.
    pub(crate) fn stacks(&self) -> String {
        let more = self.nodes.hosts.iter().map(|host| &*host.stack);
        alike(std::iter::once(&*self.config.stack_name).chain(more))
    }

    /// The testbed of each host, once where all are alike.
    pub(crate) fn testbeds(&self) -> String {
        let more = self.nodes.hosts.iter().map(|host| &*host.testbed);
        alike(std::iter::once(&*self.config.testbed_name).chain(more))
    }

    /// The first drive alone.
    pub fn drive(&self) -> DriveConfig {
        drive_of(&self.config)
    }

    /// The FTL runs on the host, as pblk does.
    pub fn ftl_on_host(&self) -> bool {
        self.config.members.is_empty() && self.config.ftl.placement == wordline_ftl::Placement::Host
    }

    /// Whether drives are those described here: their flash, their logical blocks, their FTL and its
    /// settings, but for where it runs and at what cost.
    pub(crate) fn holds(&self, drives: &[Drive]) -> Result<(), StateError> {
        let nodes = self.machine().drives;
        if nodes.len() != drives.len() {
            let (drive, plan) = (drives.len().to_string(), nodes.len().to_string());
            return Err(StateError::OtherDrive { key: "drives".into(), drive, plan });
        }
        nodes.iter().zip(drives).try_for_each(|(node, drive)| self.holds_one(&node.config, drive))
    }

    fn holds_one(&self, node: &DriveConfig, drive: &Drive) -> Result<(), StateError> {
        let name = |kind: Option<&dyn FtlKind>| kind.map_or("pblk", FtlKind::name).to_string();
        let (there, here) = (name(drive.kind()), name(self.ftl.as_deref()));
        if there != here {
            return Err(StateError::OtherDrive { key: "ftl".into(), drive: there, plan: here });
        }
        let DriveConfig { nand, device, ftl } = drive.config();
        let ftl =
            FtlConfig { placement: node.ftl.placement, cost: node.ftl.cost.clone(), ..ftl.clone() };
        if (nand, &ftl, device.lba) == (&node.nand, &node.ftl, node.device.lba) {
            return Ok(());
        }
        let texts = |nand: &NandConfig, ftl: &FtlConfig, lba| -> BTreeMap<String, String> {
            let mut config = self.config.clone();
            (config.nand, config.ftl, config.device.lba) = (nand.clone(), ftl.clone(), lba);
            settings(&config).into_iter().map(|(key, value)| (key, value.to_string())).collect()
        };
        let there = texts(nand, &ftl, device.lba);
        let here = texts(&node.nand, &node.ftl, node.device.lba);
        let differs = there.keys().chain(here.keys()).find(|&key| there.get(key) != here.get(key));
        let key = differs.cloned().unwrap_or_default();
        let of = |side: &BTreeMap<String, String>| side.get(&key).cloned().unwrap_or("none".into());
        Err(StateError::OtherDrive { drive: of(&there), plan: of(&here), key })
    }
}

/// A part of a drive of this configuration.
fn part_of(
    whole: &Config,
    sources: Sources,
    scale: Scale,
    chosen: &[String],
    set: &[String],
) -> Result<System, Error> {
    let cut = scale.cut(whole, set)?;
    let user = set.iter().cloned();
    let own = cut.overrides.iter().cloned();
    let overrides: Vec<String> =
        chosen.iter().cloned().chain(own).chain(user).chain(cut.last.iter().cloned()).collect();
    let options: Vec<String> = sources
        .with
        .iter()
        .zip(&cut.with)
        .map(|((_, own), cut)| [cut.as_str(), own].join(","))
        .collect();
    let with: Vec<_> =
        sources.with.iter().zip(&options).map(|(&(source, _), own)| (source, &**own)).collect();
    let part = System::assemble(Sources { with: &with, ..sources }, &overrides)?;
    let scaled = Scaled::of(scale, &cut, whole, &part.config);
    Ok(System { scale: Some(scaled), ..part })
}
