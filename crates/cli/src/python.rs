//! What is in Python: `wordline tune`, and studies on a cluster. The package `wordline` does it, with our options.

use crate::Failure;
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
        return Err(Failure::usage(format!(
            "{what} runs in Python, and {python} has no package wordline: pip install it from this source, or name \
             the interpreter that has it with {INTERPRETER}"
        )));
    }
    let version = env!("CARGO_PKG_VERSION");
    let status = Command::new(&python)
        .args(["-m", "wordline", "--expect", version])
        .args(words)
        .status()
        .map_err(|e| Failure::run(format!("cannot run {python}: {e}")))?;
    match status.code() {
        Some(0) => Ok(()),
        // It has said why.
        Some(code) => std::process::exit(code),
        None => Err(Failure::run(format!("{what}: {python} was ended by a signal"))),
    }
}
