//! The state of drives: from files, into files, and what goes on meanwhile in words.

use crate::{Failure, InputError, files};
use std::fs::File;
use std::path::Path;
use wordline::{Checked, Drive, MappedFile, Precondition, Step};

/// Takes up a state kept in a file.
pub fn load(checked: &mut Checked, path: &Path) -> Result<(), Failure> {
    let file = File::open(path).and_then(|file| match file.metadata()?.is_dir() {
        true => Err(std::io::ErrorKind::IsADirectory.into()),
        false => MappedFile::new(file),
    });
    let mut file = file.map_err(|why| InputError::NoState { path: path.into(), why })?;
    let loaded = checked.load(&mut file);
    Ok(loaded.map_err(|why| InputError::State { path: path.into(), why })?)
}

/// Keeps the state in a file.
pub fn save(checked: &Checked, path: &Path) -> Result<(), Failure> {
    files::write(path, |w| checked.save(w))
}

/// What a step does.
pub fn doing(step: Step) -> String {
    match step {
        Step::Fill { bytes } => format!("filling the drive, {}", gigabytes(bytes)),
        Step::Age { how, own } => {
            let until = match how {
                Precondition::Paced => "the collector keeps pace",
                _ => "write amplification is steady",
            };
            format!("overwriting it {} until {until}", whose(how, own))
        }
        Step::Lay { .. } => "writing the program's files".into(),
    }
}

/// What it did.
pub fn did(step: Step, drive: &Drive) -> String {
    match step {
        Step::Fill { bytes } => format!("filled the drive, {}", gigabytes(bytes)),
        Step::Age { how, own } => {
            let last = drive.ageing.last().copied().unwrap_or(1.0);
            let (whose, windows) = (whose(how, own), drive.ageing.len());
            format!("overwrote it {whose}: write amplification {last:.2} after {windows} windows")
        }
        Step::Lay { bytes } => format!("wrote the program's files, {}", gigabytes(bytes)),
    }
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

fn whose(how: Precondition, own: bool) -> &'static str {
    match (how, own) {
        (Precondition::Steady, true) => "with the job's writes",
        (Precondition::Random, true) => "at random, then with the job's writes",
        (Precondition::Paced, true) => "at random, then at the job's pace",
        _ => "at random",
    }
}
