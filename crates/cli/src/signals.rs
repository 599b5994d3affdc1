//! Ctrl-C, and what it means when; and the signal of a limit on file size, which means nothing.

use crate::error::WorkError;
use crate::{files, remark};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Times the user has asked to stop.
static ASKED: AtomicU32 = AtomicU32::new(0);
/// There is a run that can be stopped and reported.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// What the first Ctrl-C does in place of stopping a run: an exit status comes of it.
type End = Box<dyn FnOnce() -> u8 + Send>;

/// Whether something goes on that no run can be stopped in.
enum Meanwhile {
    Nothing,
    /// This ends the program meanwhile.
    EndsBy(End),
    /// It does so.
    Ends,
}

static MEANWHILE: Mutex<Meanwhile> = Mutex::new(Meanwhile::Nothing);

fn meanwhile() -> MutexGuard<'static, Meanwhile> {
    MEANWHILE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Exit status of a run that was ended at once, as shells have it for Ctrl-C.
const AT_ONCE: i32 = 130;

/// From here on the first Ctrl-C stops a run in good order, and the second ends the program. While
/// there is no run yet there is nothing to report, and the first ends the program.
pub fn install() {
    // Without a handler Ctrl-C still ends the program, only without a report.
    let _ = ctrlc::set_handler(|| {
        let first = ASKED.fetch_add(1, Ordering::SeqCst) == 0;
        if first && RUNNING.load(Ordering::SeqCst) {
            let mut now = meanwhile();
            if let Meanwhile::EndsBy(end) = std::mem::replace(&mut *now, Meanwhile::Nothing) {
                *now = Meanwhile::Ends;
                drop(now);
                // Beside this thread, which the second Ctrl-C comes to.
                std::thread::spawn(|| {
                    let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(end));
                    let status =
                        status.unwrap_or_else(|_| crate::status(Err(WorkError::Defect.into())));
                    files::remove_unfinished();
                    std::process::exit(status.into())
                });
            }
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

/// While this is held the first Ctrl-C ends the program, in good order.
pub struct EndsMeanwhile;

/// The first Ctrl-C from here on, until what is had is dropped, ends the program by `end` and its status at once,
/// whatever this thread is at.
pub fn ends_by(end: impl FnOnce() -> u8 + Send + 'static) -> EndsMeanwhile {
    let mut now = meanwhile();
    // Asked before: there is nothing to wait for.
    if !stop_asked() {
        *now = Meanwhile::EndsBy(Box::new(end));
    }
    EndsMeanwhile
}

impl Drop for EndsMeanwhile {
    fn drop(&mut self) {
        let mut now = meanwhile();
        while matches!(*now, Meanwhile::Ends) {
            // The program is about to end, and nothing is to come between.
            drop(now);
            std::thread::park();
            now = meanwhile();
        }
        *now = Meanwhile::Nothing;
    }
}

/// Whether the run is to stop.
pub fn stop_asked() -> bool {
    ASKED.load(Ordering::SeqCst) > 0
}
