//! From names and files to a system.

use crate::args::{MachineArgs, PartArgs};
use crate::{Failure, files};
use std::path::Path;
use wordline::{Common, Error, Named, Profiles, Source, Sources, System, Topology};

/// A preset by name, or a file: what looks like a path is one, and so is any other file whose name
/// no preset has.
fn open(name: &str) -> Result<Named, Failure> {
    let is_preset = wordline_profile::presets().iter().any(|p| p.name == name);
    let is_path = name.ends_with(".toml") || name.contains('/') || Path::new(name).is_file();
    if is_preset || !is_path {
        return Ok(Named::Preset(name.into()));
    }
    let text = files::read_text(name)
        .map_err(|e| Failure::usage(format!("cannot read the profile {name}: {e}")))?;
    Ok(Named::File { name: name.into(), text })
}

struct Files;

impl Profiles for Files {
    fn open(&mut self, name: &str) -> Result<Named, Error> {
        open(name).map_err(|e| Error::Open(e.into_message()))
    }
}

/// One drive or several, and programs if there are any.
pub fn read(machine: &MachineArgs, app: Option<&str>, with: &[String]) -> Result<System, Failure> {
    let names: Vec<&str> = machine.device.split(',').map(str::trim).collect();
    let devices: Vec<String> = match (machine.drives, &*names) {
        (None, names) => names.iter().map(ToString::to_string).collect(),
        (Some(n), [one]) => vec![one.to_string(); n as usize],
        (Some(n), names) => {
            let why = format!(
                "--drives {n} is so many of one device, and --device names {}: leave one of them out",
                names.len()
            );
            return Err(Failure::usage(why));
        }
    };
    let topology = match (&machine.topology, &*devices) {
        (Some(file), _) => {
            let text = files::read_text(file)
                .map_err(|e| Failure::usage(format!("cannot read the topology {file}: {e}")))?;
            Topology::parse(file, &text)?
        }
        (None, [device]) if machine.array.is_none() => {
            let common = Common { with: with.to_vec(), ..common(&machine.parts, app) };
            return Ok(common.system(device, &mut Files)?);
        }
        (None, devices) => match &machine.array {
            None => Topology::of_devices(devices),
            Some(level) => Topology::of_devices(devices).with_array(level),
        },
    };
    let common = Common { with: with.to_vec(), ..common(&machine.parts, app) };
    Ok(topology.system(&common, &mut Files)?)
}

/// A device profile that is at hand and holds its FTL, and what is laid over it.
pub fn from_text(
    name: &str,
    text: &str,
    ftl: Option<&str>,
    overrides: &[String],
) -> Result<System, Failure> {
    let ftl = ftl.map(open).transpose()?;
    let sources = Sources {
        device: Source::File { name, text },
        ftl: ftl.as_ref().map(Named::source),
        stack: Source::Preset("linux-libaio"),
        testbed: None,
        app: None,
        with: &[],
        fs: None,
    };
    Ok(System::assemble(sources, overrides)?)
}

/// What the command line says of all drives and hosts.
fn common(parts: &PartArgs, app: Option<&str>) -> Common {
    Common {
        stack: parts.stack.clone(),
        testbed: parts.testbed.clone(),
        ftl: Some(parts.ftl.clone()).filter(|name| name != "default"),
        fs: Some(parts.fs.clone()).filter(|name| name != "none"),
        app: app.map(String::from),
        with: Vec::new(),
        scale: parts.scale,
        chosen: parts.chosen(),
        set: parts.set.clone(),
    }
}

pub fn combine(device: &str, parts: &PartArgs, app: Option<&str>) -> Result<System, Failure> {
    Ok(common(parts, app).system(device, &mut Files)?)
}

/// Files and the environment for fio's job files, `include` and `${NAME}`.
pub struct Outside;

impl wordline_fio::Env for Outside {
    fn read_file(&mut self, path: &str) -> std::io::Result<String> {
        files::read_text(path).map_err(std::io::Error::other)
    }
    fn var(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}
