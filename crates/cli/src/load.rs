//! From names and files to a system.

use crate::args::{MachineArgs, PartArgs};
use crate::{Failure, files};
use std::path::Path;
use wordline::{Source, Sources, System};

/// A preset by name, or a file: what looks like a path is one, and so is any other file whose name
/// no preset has.
enum Named {
    Preset(String),
    File { name: String, text: String },
}

impl Named {
    fn read(name: &str) -> Result<Named, Failure> {
        let is_preset = wordline_profile::presets().iter().any(|p| p.name == name);
        let is_path = name.ends_with(".toml") || name.contains('/') || Path::new(name).is_file();
        if is_preset || !is_path {
            return Ok(Named::Preset(name.into()));
        }
        let text = files::read_text(name)
            .map_err(|e| Failure::usage(format!("cannot read the profile {name}: {e}")))?;
        Ok(Named::File { name: name.into(), text })
    }
    fn source(&self) -> Source<'_> {
        match self {
            Named::Preset(name) => Source::Preset(name),
            Named::File { name, text } => Source::File { name, text },
        }
    }
}

pub fn read(machine: &MachineArgs) -> Result<System, Failure> {
    combine(&machine.device, &machine.parts, None)
}

/// A device profile that is at hand and holds its FTL, and what is laid over it.
pub fn from_text(
    name: &str,
    text: &str,
    ftl: Option<&str>,
    overrides: &[String],
) -> Result<System, Failure> {
    let ftl = ftl.map(Named::read).transpose()?;
    let sources = Sources {
        device: Source::File { name, text },
        ftl: ftl.as_ref().map(Named::source),
        stack: Source::Preset("linux-libaio"),
        testbed: None,
        app: None,
        fs: None,
    };
    Ok(System::assemble(sources, overrides)?)
}

pub fn combine(device: &str, parts: &PartArgs, app: Option<&str>) -> Result<System, Failure> {
    let device = Named::read(device)?;
    let ftl = Some(&parts.ftl).filter(|name| *name != "default");
    let ftl = ftl.map(|name| Named::read(name)).transpose()?;
    let stack = Named::read(&parts.stack)?;
    let testbed = parts.testbed.as_deref().map(Named::read).transpose()?;
    let app = app.map(Named::read).transpose()?;
    let fs = Some(&parts.fs).filter(|name| *name != "none");
    let fs = fs.map(|name| Named::read(name)).transpose()?;
    let sources = Sources {
        device: device.source(),
        ftl: ftl.as_ref().map(Named::source),
        stack: stack.source(),
        testbed: testbed.as_ref().map(Named::source),
        app: app.as_ref().map(Named::source),
        fs: fs.as_ref().map(Named::source),
    };
    Ok(match parts.scale {
        None => System::assemble(sources, &parts.overrides())?,
        Some(scale) => System::assemble_scaled(sources, scale, &parts.chosen(), &parts.set)?,
    })
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
