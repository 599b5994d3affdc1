//! From names and files to a system.

use crate::{Failure, InputError, files};
use std::path::Path;
use wordline::{
    Common, Error, Named, Profiles, ReadFile, Scale, Source, Sources, System, Topology,
};

/// What a device is combined with, by the names that users have for it.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Another medium for the drive.
    pub media: Option<String>,
    /// `default`: as the device's profile has it.
    pub ftl: String,
    /// The host's software.
    pub stack: String,
    /// The stack's own if none.
    pub testbed: Option<String>,
    /// `none`: jobs work on the drive itself.
    pub fs: String,
    /// One of the systems that FlashShare compares.
    pub system: Option<String>,
    /// Overrides, as `key=value`.
    pub set: Vec<String>,
    /// A smaller drive of the same shape.
    pub scale: Option<Scale>,
}

impl Default for Parts {
    fn default() -> Parts {
        Parts {
            media: None,
            ftl: "default".into(),
            stack: "linux-libaio".into(),
            testbed: None,
            fs: "none".into(),
            system: None,
            set: Vec::new(),
            scale: None,
        }
    }
}

/// The system under test, by names.
#[derive(Clone, Debug)]
pub struct Machine {
    /// One device, or several with commas.
    pub device: String,
    /// So many drives of the one device.
    pub drives: Option<u32>,
    /// All these drives as an array of this level.
    pub array: Option<String>,
    /// A file that lists the machine, in place of a device.
    pub topology: Option<String>,
    /// What each drive is combined with.
    pub parts: Parts,
}

impl Machine {
    /// The device where none is named.
    pub const DEVICE: &str = "cnex-westlake";
    /// The device where one of FlashShare's systems is named and no device.
    pub const DEVICE_OF_SYSTEMS: &str = "z-ssd-flashshare";
}

/// A preset by name, or a file: what looks like a path is one, and so is any other file whose name
/// no preset has.
fn open(name: &str) -> Result<Named, InputError> {
    let is_path = name.ends_with(".toml") || name.contains('/') || Path::new(name).is_file();
    if wordline_profile::is_preset(name) || !is_path {
        return Ok(Named::Preset(name.into()));
    }
    Ok(Named::File { name: name.into(), text: files::read_named("profile", name)? })
}

struct Files;

impl Profiles for Files {
    fn open(&mut self, name: &str) -> Result<Named, Error> {
        open(name).map_err(|e| Error::Open(Box::new(e)))
    }
    fn files(&self) -> Option<ReadFile<'_>> {
        Some(&|path| files::read_text(path).map_err(std::io::Error::other))
    }
}

impl Machine {
    /// One drive or several, and programs if there are any.
    pub fn system(&self, app: Option<&str>, with: &[String]) -> Result<System, Failure> {
        let names: Vec<&str> = self.device.split(',').map(str::trim).collect();
        let devices: Vec<String> = match (self.drives, &*names) {
            (None, names) => names.iter().map(ToString::to_string).collect(),
            (Some(n), [one]) => vec![one.to_string(); n as usize],
            (Some(n), names) => {
                return Err(InputError::Drives { drives: n, devices: names.len() }.into());
            }
        };
        let topology = match (&self.topology, &*devices) {
            (Some(file), _) => Topology::parse(file, &files::read_named("topology", file)?)?,
            (None, [device]) if self.array.is_none() => {
                let common = Common { with: with.to_vec(), ..common(&self.parts, app) };
                return Ok(common.system(device, &mut Files)?);
            }
            (None, devices) => match &self.array {
                None => Topology::of_devices(devices),
                Some(level) => Topology::of_devices(devices).with_array(level),
            },
        };
        let common = Common { with: with.to_vec(), ..common(&self.parts, app) };
        Ok(topology.system(&common, &mut Files)?)
    }
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
        files: Files.files(),
    };
    Ok(System::assemble(sources, overrides)?)
}

/// What is said of all drives and hosts.
fn common(parts: &Parts, app: Option<&str>) -> Common {
    // Overrides that have options of their own.
    let media = parts.media.iter().map(|name| format!("nand.media={name}"));
    let chosen = media.chain(parts.system.iter().map(|name| format!("system={name}"))).collect();
    Common {
        stack: parts.stack.clone(),
        testbed: parts.testbed.clone(),
        ftl: Some(parts.ftl.clone()).filter(|name| name != "default"),
        fs: Some(parts.fs.clone()).filter(|name| name != "none"),
        app: app.map(String::from),
        with: Vec::new(),
        scale: parts.scale,
        chosen,
        set: parts.set.clone(),
    }
}

/// One drive.
pub fn combine(device: &str, parts: &Parts, app: Option<&str>) -> Result<System, Failure> {
    Ok(common(parts, app).system(device, &mut Files)?)
}
