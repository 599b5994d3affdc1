//! `fdatasync` of the image beside the machine's thread.
//!
//! A ticket stands for everything written before it was drawn; it is done when a sync that began
//! after that has ended. A sync that failed is not tried again: the system may have dropped what it
//! could not write, and a second call would succeed without it.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::fs::File;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// A point in the order of writes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ticket(u64);

#[derive(Default)]
struct State {
    /// The newest ticket wanted, and the newest done.
    wanted: u64,
    done: u64,
    failed: Option<String>,
    stop: bool,
    syncs: u64,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    wake: OwnedFd,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

pub struct Syncer {
    shared: Arc<Shared>,
    thread: Option<std::thread::JoinHandle<()>>,
    /// Writes count as durable once the system has them.
    off: bool,
}

impl Syncer {
    /// `off`: nothing is synced; what a host's crash takes is not this program's affair.
    pub fn start(file: File, off: bool) -> std::io::Result<Syncer> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), wake });
        let of_thread = Arc::clone(&shared);
        let thread = (!off)
            .then(|| {
                let name = std::thread::Builder::new().name("sync".into());
                name.spawn(move || run(&of_thread, &file))
            })
            .transpose()?;
        Ok(Syncer { shared, thread, off })
    }
    /// Readable when a ticket may be done.
    pub fn wake(&self) -> &OwnedFd {
        &self.shared.wake
    }
    pub fn clear_wake(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.shared.wake, &mut count);
    }
    /// Asks that everything written until now be made durable.
    pub fn request(&self) -> Ticket {
        let mut state = self.shared.lock();
        state.wanted += 1;
        let ticket = Ticket(state.wanted);
        if self.off {
            state.done = state.wanted;
        } else {
            self.shared.changed.notify_all();
        }
        ticket
    }
    /// None: not yet.
    pub fn is_done(&self, ticket: Ticket) -> Option<Result<(), String>> {
        let state = self.shared.lock();
        if let Some(why) = &state.failed {
            return Some(Err(why.clone()));
        }
        (state.done >= ticket.0).then_some(Ok(()))
    }
    pub fn wait(&self, ticket: Ticket) -> Result<(), String> {
        let mut state = self.shared.lock();
        loop {
            if let Some(why) = &state.failed {
                return Err(why.clone());
            }
            if state.done >= ticket.0 {
                return Ok(());
            }
            state = self.shared.changed.wait(state).unwrap_or_else(|e| e.into_inner());
        }
    }
    pub fn syncs(&self) -> u64 {
        self.shared.lock().syncs
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, file: &File) {
    let mut state = shared.lock();
    while !state.stop && state.failed.is_none() {
        if state.wanted == state.done {
            state = shared.changed.wait(state).unwrap_or_else(|e| e.into_inner());
            continue;
        }
        let until = state.wanted;
        drop(state);
        let result = file.sync_data();
        state = shared.lock();
        state.syncs += 1;
        match result {
            Ok(()) => state.done = until,
            Err(e) => state.failed = Some(e.to_string()),
        }
        shared.changed.notify_all();
        let _ = rustix::io::write(&shared.wake, &1u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_done_after_a_sync_that_began_later() {
        let file = tempfile::tempfile().unwrap();
        let s = Syncer::start(file.try_clone().unwrap(), false).unwrap();
        let tickets: Vec<_> = (0..100).map(|_| s.request()).collect();
        assert_eq!(s.wait(tickets[99]), Ok(()));
        assert!(tickets.iter().all(|&t| s.is_done(t) == Some(Ok(()))));
        assert!(s.syncs() <= 100);
        let off = Syncer::start(file, true).unwrap();
        let ticket = off.request();
        assert_eq!((off.is_done(ticket), off.syncs()), (Some(Ok(())), 0));
    }

    #[test]
    fn a_failed_sync_is_never_forgotten() {
        // A pipe cannot be synced.
        let (_reader, writer) = std::io::pipe().unwrap();
        let s = Syncer::start(File::from(OwnedFd::from(writer)), false).unwrap();
        let ticket = s.request();
        assert!(s.wait(ticket).is_err());
        let later = s.request();
        assert!(s.is_done(later).is_some_and(|r| r.is_err()) && s.wait(later).is_err());
    }
}
