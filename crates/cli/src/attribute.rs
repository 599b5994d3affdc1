//! `wordline chworkload_attr`: the workload attribute of a process (FlashShare's tool of that name).

use crate::args::AttributeArgs;
use crate::error::{WordError, WorkError, served};
use crate::{Failure, remark};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use wordline_base::Workload;
use wordline_live::control::{VARIABLE, ask};

/// Names of sockets begin so; the server's process number follows.
const PREFIX: &str = "wordline-control.";

/// Where servers' sockets are: root's, the user's, and those of who has neither folder.
fn folders() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let all = [Some(PathBuf::from("/run")), own, Some(std::env::temp_dir())];
    all.into_iter().flatten().collect()
}

/// A socket of this process: in the first folder that it may write to.
pub fn socket() -> PathBuf {
    let name = format!("{PREFIX}{}", std::process::id());
    let writable = |folder: &PathBuf| tempfile::tempfile_in(folder).is_ok();
    let folder = folders().into_iter().find(writable).unwrap_or_else(std::env::temp_dir);
    // Those of servers that were killed.
    for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_ours && std::os::unix::net::UnixStream::connect(entry.path()).is_err() {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    folder.join(name)
}

/// Sockets of servers that run.
fn sockets() -> Vec<PathBuf> {
    let entries =
        folders().into_iter().filter_map(|f| std::fs::read_dir(f).ok()).flatten().flatten();
    let own = std::fs::metadata("/proc/self").map_or(0, |m| m.uid());
    let ours = entries.filter(|e| e.file_name().to_string_lossy().starts_with(PREFIX));
    // Others could make one that never answers.
    let trusted = ours.filter(|e| e.metadata().is_ok_and(|m| m.uid() == 0 || m.uid() == own));
    let mut found: Vec<PathBuf> = trusted.map(|e| e.path()).collect();
    found.retain(|path| std::os::unix::net::UnixStream::connect(path).is_ok());
    found.sort();
    found.dedup();
    found
}

pub fn attribute(args: AttributeArgs) -> Result<(), Failure> {
    let (pid, program) = match (args.pid, args.program.split_first()) {
        (Some(pid), None) => (pid, None),
        (None, Some(program)) => (std::process::id(), Some(program)),
        _ => return Err(WordError::NoProcess.into()),
    };
    if program.is_some() && args.workload.is_none() {
        return Err(WordError::NoAttribute.into());
    }
    let sockets = match args.control {
        Some(path) => vec![path],
        None => sockets(),
    };
    if sockets.is_empty() {
        return Err(WordError::NothingServed.into());
    }
    // All are asked, whatever one of them answers.
    let answers: Vec<_> = sockets.iter().map(|socket| ask(socket, pid, args.workload)).collect();
    let found: Vec<Workload> = answers.into_iter().collect::<Result<_, _>>().map_err(served)?;
    if args.workload.is_none() {
        for (workload, socket) in found.iter().zip(&sockets) {
            let told = match sockets.len() {
                1 => format!("{}\n", workload.name()),
                _ => format!("{} {}\n", socket.display(), workload.name()),
            };
            std::io::stdout().write_all(told.as_bytes()).map_err(WorkError::Io)?;
        }
    }
    let Some((program, arguments)) = program else { return Ok(()) };
    // The process stays this one, and so does its attribute.
    let mut command = std::process::Command::new(program);
    if let Some(workload) = args.workload {
        command.env(VARIABLE, workload.name());
    }
    let error = command.args(arguments).exec();
    remark(&format!("cannot start {}: {error}", program.display()));
    std::process::exit(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 });
}
