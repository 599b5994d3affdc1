//! Memory is short is said before the system ends the program for it.

use crate::{Failure, Settings};
use wordline::{Plan, Precondition};
use wordline_study::memory;

/// Refuses a plan whose drives' state does not fit the memory that is left.
pub fn check_memory(plan: &Plan, settings: &Settings) -> Result<(), Failure> {
    // A drive written once, in order, is kept as runs.
    let runs = matches!(settings.state(), Precondition::None | Precondition::Fill);
    let written = !runs || settings.load_state.is_some();
    let needed = memory::of_plan(plan, written, settings.integrity);
    let short = needed.zip(memory::available()).and_then(|(needed, free)| {
        let drives = plan.system.machine().drives.len();
        shortage(needed, drives, written && settings.integrity, free)
    });
    short.map_or(Ok(()), |message| Err(Failure::usage(message)))
}

fn shortage(needed: u64, drives: usize, versions: bool, free: u64) -> Option<String> {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let what = match drives {
        1 => "this drive's state takes".into(),
        many => format!("the state of these {many} drives takes"),
    };
    let or = if versions { ", or --no-integrity to keep no versions of sectors" } else { "" };
    (needed > free).then(|| {
        format!(
            "{what} {:.1} GiB of memory and {:.1} GiB are available: use a part of \
             it (--scale 1/16), or a profile named -small{or}",
            gib(needed),
            gib(free)
        )
    })
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
        let message = of(1 << 30, true, true, 12 << 30).expect("too little");
        for part in ["takes 14.0 GiB", "12.0 GiB are available", "--scale", "--no-integrity"] {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(of(1 << 30, true, false, 12 << 30), None);
        assert_eq!(of(1 << 30, false, true, 5 << 30), None);
        let five = shortage(30 << 30, 5, false, 20 << 30).expect("too little");
        assert!(five.contains("these 5 drives takes 30.0 GiB"), "{five}");
        // Single sectors at random are what makes a tree large.
        let tree = |extent| memory::needed_by_tree(1 << 30, extent, true, false);
        assert!(tree(1) > 3 * tree(8) && memory::needed_by_tree(1 << 30, 1, false, true) < 4 << 30);
        assert!(memory::available().is_none_or(|free| free > 1 << 20));
    }
}
