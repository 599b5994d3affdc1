//! From names and files to a configuration, a plan and a drive.

use crate::Failure;
use crate::args::{CommonArgs, MachineArgs, Precondition};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;
use wordline_base::{SECTOR_SHIFT, Seed};
use wordline_profile::{Config, Places, Source, Sources};
use wordline_sim::{Drive, Problem, SystemConfig, WriteSampler};

/// A preset by name, or a file: what looks like a path is one.
enum Named {
    Preset(String),
    File { name: String, text: String },
}

impl Named {
    fn read(name: &str) -> Result<Named, Failure> {
        let is_path = name.ends_with(".toml") || name.contains('/') || Path::new(name).is_file();
        if !is_path {
            return Ok(Named::Preset(name.into()));
        }
        let text = std::fs::read_to_string(name)
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

/// The configuration, and the places of its values for errors that show only later.
pub fn config(machine: &MachineArgs) -> Result<(Config, Places), Failure> {
    let device = Named::read(&machine.device)?;
    let ftl = Named::read(&machine.ftl)?;
    let stack = Named::read(&machine.stack)?;
    let testbed = machine.testbed.as_deref().map(Named::read).transpose()?;
    let sources = Sources {
        device: device.source(),
        ftl: Some(ftl.source()),
        stack: stack.source(),
        testbed: testbed.as_ref().map(Named::source),
    };
    wordline_profile::assemble_with_places(sources, &machine.overrides).map_err(Failure::usage)
}

/// A problem that building the machine found, with the place of the value.
pub fn misfit(places: &Places, problem: &Problem) -> Failure {
    Failure::usage(places.error(&problem.path, &problem.message))
}

pub fn system(config: &Config) -> SystemConfig {
    SystemConfig {
        nand: config.nand.clone(),
        device: config.device.clone(),
        ftl: config.ftl.clone(),
        stack: config.stack.clone(),
    }
}

/// Files and the environment for fio's `include` and `${NAME}`.
pub struct Outside;

impl wordline_fio::Env for Outside {
    fn read_file(&mut self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(path).map_err(|e| e.to_string())
    }
    fn var(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// A new drive in the state asked for.
pub fn drive(
    system: &SystemConfig,
    places: &Places,
    args: &CommonArgs,
    sampler: impl FnOnce(u64) -> Result<WriteSampler, String>,
    say: &mut dyn FnMut(&str),
) -> Result<Drive, Failure> {
    let seed = Seed(args.seed);
    let mut drive =
        Drive::new(system, seed, !args.no_integrity).map_err(|p| misfit(places, &p))?;
    if let Some(path) = &args.load_state {
        let file = File::open(path)
            .map_err(|e| Failure::usage(format!("cannot open the state {}: {e}", path.display())))?;
        let mut reader = BufReader::with_capacity(1 << 20, file);
        drive
            .load(system, &mut reader)
            .map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?;
    }
    match args.precondition {
        Precondition::None => {}
        Precondition::Fill => {
            say("filling the drive");
            drive.fill().map_err(Failure::usage)?;
        }
        Precondition::Steady => {
            let bytes = drive.sectors() << SECTOR_SHIFT;
            let mut sampler = sampler(bytes).map_err(Failure::usage)?;
            say("filling the drive");
            drive.fill().map_err(Failure::usage)?;
            say("ageing the drive to steady write amplification");
            drive.steady(&mut sampler).map_err(Failure::usage)?;
        }
    }
    if let Some(path) = &args.save_state {
        write_file(path, |w| drive.save(w))?;
    }
    Ok(drive)
}

/// Writes a file that appears under its name only when it is complete.
pub fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), Failure> {
    let failed = |e: std::io::Error| {
        Failure::run(format!("cannot write {}: {e}; nothing was left there", path.display()))
    };
    // A device or pipe (/dev/stdout, a FIFO) cannot be replaced by renaming.
    if path.exists() && !path.is_file() {
        let file = std::fs::OpenOptions::new().write(true).open(path).map_err(failed)?;
        let mut w = BufWriter::new(file);
        return write(&mut w).and_then(|()| w.flush()).map_err(failed);
    }
    let folder = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    let file = builder
        .prefix(".wordline-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder)
        .map_err(failed)?;
    let mut w = BufWriter::with_capacity(1 << 20, file);
    write(&mut w).and_then(|()| w.flush()).map_err(failed)?;
    let file = w.into_inner().map_err(|e| failed(e.into_error()))?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path).map_err(|e| failed(e.error))?;
    Ok(())
}

/// A trace file, opened for streaming.
pub fn open_trace(
    path: &Path,
    mut options: wordline_trace::OpenOptions,
) -> Result<wordline_trace::Reader, Failure> {
    let name = path.display().to_string();
    let file = File::open(path)
        .map_err(|e| Failure::usage(format!("cannot open the trace {name}: {e}")))?;
    options.name = name;
    let reader: Box<dyn Read + Send> = Box::new(BufReader::with_capacity(1 << 18, file));
    wordline_trace::open(reader, options).map_err(Failure::usage)
}
