//! A proxy in front of an NBD server that tells what passes: the block trace of real programs.
//!
//! Bytes pass as they are, each connection by two threads of its own; requests are told as they come
//! from the client, before the server has them.

use crate::error::{Error, RunError};
use crate::listen::{Address, Listener, Stream};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use wordline_nbd::{Seen, Tap};

/// Passed on at a time.
const CHUNK: usize = 256 << 10;

/// Takes the requests in order of time. `at` counts from the first one.
pub trait Log: Send {
    /// A request came to `export`. Whether it is I/O, which is kept; a disconnection is not.
    fn request(&mut self, at: Duration, export: &str, request: Seen) -> std::io::Result<bool>;
    /// Puts what was told so far where it outlives this process.
    fn flush(&mut self) -> std::io::Result<()>;
    /// There are no more requests.
    fn finish(self) -> std::io::Result<()>;
}

/// What a recording is asked to do.
pub struct Plan {
    /// Where clients connect.
    pub listen: Vec<Address>,
    /// The server that serves them.
    pub server: Address,
    /// Clients and server on other machines may go without TLS.
    pub plain_tcp: bool,
}

/// What a recording came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recorded {
    /// Clients that connected.
    pub connections: u64,
    /// Requests for I/O that they made.
    pub requests: u64,
}

struct Shared<L> {
    log: Mutex<(Option<Instant>, L)>,
    requests: AtomicU64,
    /// Why no more is told: nothing passes that is not recorded.
    failed: Mutex<Option<String>>,
    /// Clients that were let go, and why.
    notes: Mutex<Vec<String>>,
    over: AtomicBool,
}

impl<L: Log> Shared<L> {
    fn tell(&self, export: &str, request: Seen) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let first = *log.0.get_or_insert(now);
        match log.1.request(now - first, export, request) {
            Ok(kept) => _ = self.requests.fetch_add(u64::from(kept), Ordering::Relaxed),
            Err(e) => self.fail(&e),
        }
    }
    fn note(&self, text: String) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }
    fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }
    fn fail(&self, e: &std::io::Error) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get_or_insert_with(|| e.to_string());
        self.over.store(true, Ordering::SeqCst);
    }
}

/// Records until `wake` is readable; then clients are let go. `say` gets lines for people.
pub fn record<L: Log + 'static>(
    plan: &Plan,
    log: L,
    wake: &OwnedFd,
    say: &mut dyn FnMut(&str),
) -> Result<Recorded, Error> {
    if let Some(open) = plan.listen.iter().find(|a| !a.is_local() && !plan.plain_tcp) {
        let remedy =
            "give --plain-tcp if all of them may read and write the drive; TLS cannot be recorded";
        return Err(Error::Open { place: open.to_string(), remedy });
    }
    // Whether anybody is there shows now.
    let server = || plan.server.to_string();
    plan.server.connect().map_err(|why| Error::NoServer { server: server(), why })?;
    let listeners = plan.listen.iter().map(Listener::bind).collect::<Result<Vec<_>, _>>()?;
    let places: Vec<String> = plan.listen.iter().map(Address::to_string).collect();
    say(&format!("recording on {}", places.join(" and ")));
    let shared = Arc::new(Shared {
        log: Mutex::new((None, log)),
        requests: AtomicU64::new(0),
        failed: Mutex::new(None),
        notes: Mutex::default(),
        over: AtomicBool::new(false),
    });
    let mut recorded = Recorded::default();
    let mut open: Vec<([Stream; 2], Pair)> = Vec::new();
    loop {
        let mut fds = vec![PollFd::new(wake, PollFlags::IN)];
        fds.extend(listeners.iter().map(|l| PollFd::from_borrowed_fd(l.as_fd(), PollFlags::IN)));
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        let came = poll(&mut fds, Some(&second));
        let stop = !fds[0].revents().is_empty() || shared.over.load(Ordering::SeqCst);
        if stop || came.is_err() {
            break;
        }
        let flushed = shared.log.lock().unwrap_or_else(PoisonError::into_inner).1.flush();
        flushed.unwrap_or_else(|e| shared.fail(&e));
        for listener in &listeners {
            let client = match listener.accept() {
                Ok(Some(client)) => client,
                Ok(None) => continue,
                Err(e) => {
                    say(&format!("a client could not be let in: {e}"));
                    std::thread::sleep(std::time::Duration::from_millis(100));
                    continue;
                }
            };
            recorded.connections += 1;
            match connection(&shared, &plan.server, client) {
                Ok(connection) => open.push(connection),
                Err(e) => say(&format!("a client was let go: {}: {e}", plan.server)),
            }
        }
        shared.take_notes().iter().for_each(|note| say(note));
        open.retain(|(_, pair)| !pair.iter().all(|thread| thread.is_finished()));
    }
    for (ends, pair) in open {
        ends.iter().for_each(Stream::shut);
        for thread in pair {
            let _ = thread.join();
        }
    }
    shared.take_notes().iter().for_each(|note| say(note));
    recorded.requests = shared.requests.load(Ordering::Relaxed);
    let shared = Arc::into_inner(shared).expect("its threads have ended");
    let (_, log) = shared.log.into_inner().unwrap_or_else(PoisonError::into_inner);
    let finished = log.finish().map_err(|e| e.to_string());
    let failed = shared.failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    match failed.map_or(finished, Err) {
        Err(why) => Err(RunError::Log(why).into()),
        Ok(()) => Ok(recorded),
    }
}

type Pair = [std::thread::JoinHandle<()>; 2];

/// Two threads for a client; and both sockets, so that they can be ended.
fn connection<L: Log + 'static>(
    shared: &Arc<Shared<L>>,
    server: &Address,
    client: Stream,
) -> std::io::Result<([Stream; 2], Pair)> {
    let server = server.connect()?;
    client.block()?;
    let ends = [client.again()?, server.again()?];
    let tap = Arc::new(Mutex::new(Tap::default()));
    let pass = |mut from: Stream, mut to: Stream, upstream: bool| {
        let (shared, tap) = (Arc::clone(shared), Arc::clone(&tap));
        std::thread::Builder::new().spawn(move || {
            let mut bytes = vec![0; CHUNK];
            while let Ok(n) = from.read(&mut bytes)
                && n > 0
            {
                let mut requests = Vec::new();
                let mut tap = tap.lock().unwrap_or_else(PoisonError::into_inner);
                let heard = &mut |request| requests.push(request);
                let understood = match upstream {
                    true => tap.from_client(&bytes[..n], heard),
                    false => tap.from_server(&bytes[..n], heard),
                };
                let export = tap.export();
                drop(tap);
                requests.into_iter().for_each(|r| shared.tell(&export, r));
                if let Err(why) = understood {
                    shared.note(format!("a client was let go: {why}, which cannot be recorded"));
                    break;
                }
                let over = shared.over.load(Ordering::SeqCst);
                if over || to.write_all(&bytes[..n]).is_err() {
                    break;
                }
            }
            from.shut();
            to.shut();
        })
    };
    let up = pass(client.again()?, server.again()?, true)?;
    match pass(server, client, false) {
        Ok(down) => Ok((ends, [up, down])),
        Err(e) => {
            ends.iter().for_each(Stream::shut);
            let _ = up.join();
            Err(e)
        }
    }
}
