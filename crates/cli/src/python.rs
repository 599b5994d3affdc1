//! What is in Python: `wordline tune`, and studies on a cluster. The package `wordline` does it, with our options.

use crate::Failure;
use crate::error::{WordError, WorkError};
use std::process::{Command, Stdio};

/// Names the interpreter that has the package.
const INTERPRETER: &str = "WORDLINE_PYTHON";

/// Runs the package's own command line, whose exit status is ours.
pub fn hand_over(what: &str, words: &[String]) -> Result<(), Failure> {
    let python = std::env::var(INTERPRETER).unwrap_or_else(|_| "python3".into());
    let there = Command::new(&python)
        .args(["-c", "import wordline._wordline"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !there.is_ok_and(|status| status.success()) {
        let what = what.into();
        return Err(WordError::NoPackage { what, python, variable: INTERPRETER }.into());
    }
    let version = env!("CARGO_PKG_VERSION");
    let status = Command::new(&python)
        .args(["-m", "wordline", "--expect", version])
        .args(words)
        .status()
        .map_err(|why| WorkError::Python { python: python.clone(), why })?;
    match status.code() {
        Some(0) => Ok(()),
        // It has said why.
        Some(code) => std::process::exit(code),
        None => Err(WorkError::Signal { what: what.into(), python }.into()),
    }
}
