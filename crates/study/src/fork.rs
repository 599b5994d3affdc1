//! Copies of this process: the system copies an aged drive of gigabytes page by page, where a
//! point changes it, so that every point starts at once and finds the same drive.

#![allow(unsafe_code)] // fork, below

use crate::error::WorkerError;
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use std::io;

/// From here on this process ends with the one that started it, however that ends.
pub fn end_with_parent(parent: i32) -> Result<(), WorkerError> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    match Pid::as_raw(getppid()) == parent {
        true => Ok(()),
        false => Err(WorkerError::ParentGone),
    }
}

/// Runs `work` in a copy of this process and returns the copy's id.
pub fn in_child(work: impl FnOnce()) -> Result<Pid, WorkerError> {
    let parent = getpid().as_raw_nonzero().get();
    let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    assert_eq!(threads, 1, "a process is copied only while it has one thread");
    // SAFETY: fork keeps only the calling thread, which is unsound if another one held a lock or
    // was in the middle of an allocation. There is no other one: counted just now, and this thread
    // starts none meanwhile. So the copy is as whole as the original and may go on with anything.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(WorkerError::Fork(io::Error::last_os_error()));
    }
    Pid::from_raw(child).map_or_else(
        || {
            if end_with_parent(parent).is_ok() {
                work();
            }
            std::process::exit(0);
        },
        Ok,
    )
}
