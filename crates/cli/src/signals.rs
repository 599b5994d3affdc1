//! Ctrl-C, and what it means when; and the signal of a limit on file size, which means nothing.

use crate::{files, remark};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Times the user has asked to stop.
static ASKED: AtomicU32 = AtomicU32::new(0);
/// There is a run that can be stopped and reported.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// Exit status of a run that was ended at once, as shells have it for Ctrl-C.
const AT_ONCE: i32 = 130;

/// From here on the first Ctrl-C stops a run in good order, and the second ends the program. While
/// there is no run yet there is nothing to report, and the first ends the program.
pub fn install() {
    // Without a handler Ctrl-C still ends the program, only without a report.
    let _ = ctrlc::set_handler(|| {
        let first = ASKED.fetch_add(1, Ordering::SeqCst) == 0;
        if first && RUNNING.load(Ordering::SeqCst) {
            return;
        }
        files::remove_unfinished();
        if first {
            remark("wordline: interrupted before the run began: there is nothing to report");
            std::process::exit(1);
        }
        std::process::exit(AT_ONCE);
    });
}

/// A write beyond `ulimit -f` fails with EFBIG, which is told like a full disk, and does not end the
/// program: by default its signal does, without a word.
pub fn survive_file_limits() {
    let seen = std::sync::Arc::new(AtomicBool::new(false));
    // Without a handler it is as it was.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, seen);
}

pub fn run_begins() {
    RUNNING.store(true, Ordering::SeqCst);
}

/// Whether the run is to stop.
pub fn stop_asked() -> bool {
    ASKED.load(Ordering::SeqCst) > 0
}
