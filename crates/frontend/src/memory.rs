//! Memory is short is said before the system ends the program for it.

use crate::{Failure, Settings};
use wordline::{Precondition, System};
use wordline_nand::Geometry;
use wordline_study::memory;

/// Refuses a system whose drives' state does not fit the memory that is left.
pub fn check_memory(system: &System, settings: &Settings) -> Result<(), Failure> {
    // A shape that cannot be is refused when the drive is built.
    let mut sectors = 0;
    for drive in &system.machine().drives {
        let Ok(geometry) = Geometry::new(&drive.config.nand) else { return Ok(()) };
        sectors += geometry.sectors();
    }
    // A drive written once, in order, is kept as runs.
    let runs = matches!(settings.state(), Precondition::None | Precondition::Fill);
    let written = !runs || settings.load_state.is_some();
    let short =
        memory::available().and_then(|free| shortage(sectors, written, settings.integrity, free));
    short.map_or(Ok(()), |message| Err(Failure::usage(message)))
}

fn shortage(sectors: u64, written: bool, integrity: bool, free: u64) -> Option<String> {
    let needed = memory::needed(sectors, written, integrity);
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let or = if written && integrity {
        ", or --no-integrity to keep no versions of sectors"
    } else {
        ""
    };
    (needed > free).then(|| {
        format!(
            "this drive's state takes {:.1} GiB of memory and {:.1} GiB are available: use a part of \
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
        assert_eq!(shortage(1 << 20, true, true, 14 << 20), None);
        let message = shortage(1 << 30, true, true, 12 << 30).expect("too little");
        for part in ["takes 14.0 GiB", "12.0 GiB are available", "--scale", "--no-integrity"] {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(shortage(1 << 30, true, false, 12 << 30), None);
        assert_eq!(shortage(1 << 30, false, true, 5 << 30), None);
        assert!(memory::available().is_none_or(|free| free > 1 << 20));
    }
}
