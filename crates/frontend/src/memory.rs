//! Memory is short is said before the system ends the program for it.

use crate::{Failure, InputError, Settings};
use std::fmt;
use wordline::{Plan, Precondition};
use wordline_study::memory::{self, Written};

/// Refuses a plan whose drives' state does not fit the memory that is left.
pub fn check_memory(plan: &Plan, settings: &Settings) -> Result<(), Failure> {
    // A drive written once, in order, is kept as runs.
    let written = match settings.state() {
        _ if settings.load_state.is_some() => Written::InAnyOrder,
        Precondition::None => Written::Nothing,
        Precondition::Fill => Written::InOrder,
        _ => Written::InAnyOrder,
    };
    let needed = memory::of_plan(plan, written, settings.integrity);
    let short = needed.zip(memory::available()).and_then(|(needed, free)| {
        let drives = plan.system.machine().drives.len();
        let without = settings.integrity.then(|| memory::of_plan(plan, written, false)).flatten();
        shortage(needed, drives, without.is_some_and(|without| without < needed), free)
    });
    short.map_or(Ok(()), |short| Err(InputError::Memory(short).into()))
}

/// Drives whose state takes more memory than is left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shortage {
    /// Bytes that the state takes.
    pub needed: u64,
    /// Bytes that are left.
    pub free: u64,
    /// Drives of the machine.
    pub drives: usize,
    /// Versions of sectors are part of the state.
    pub versions: bool,
}

impl std::error::Error for Shortage {}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        match self.drives {
            1 => write!(f, "this drive's state takes")?,
            many => write!(f, "the state of these {many} drives takes")?,
        }
        write!(
            f,
            " {:.1} GiB of memory and {:.1} GiB are available: use a part of it (--scale 1/16), or a \
             profile named -small",
            gib(self.needed),
            gib(self.free)
        )?;
        match self.versions {
            true => write!(f, ", or --no-integrity to keep no versions of sectors"),
            false => Ok(()),
        }
    }
}

fn shortage(needed: u64, drives: usize, versions: bool, free: u64) -> Option<Shortage> {
    (needed > free).then_some(Shortage { needed, free, drives, versions })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_memory_is_said_with_a_remedy() {
        let of = |sectors, written, integrity, free| {
            let needed = memory::needed(sectors, written, integrity);
            shortage(needed, 1, written && integrity, free)
        };
        assert_eq!(of(1 << 20, true, true, 14 << 20), None);
        let message = of(1 << 30, true, true, 12 << 30).expect("too little").to_string();
        for part in ["takes 14.0 GiB", "12.0 GiB are available", "--scale", "--no-integrity"] {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(of(1 << 30, true, false, 12 << 30), None);
        assert_eq!(of(1 << 30, false, true, 5 << 30), None);
        let five = shortage(30 << 30, 5, false, 20 << 30).expect("too little").to_string();
        assert!(five.contains("these 5 drives takes 30.0 GiB"), "{five}");
        assert!(memory::available().is_none_or(|free| free > 1 << 20));
    }
}
