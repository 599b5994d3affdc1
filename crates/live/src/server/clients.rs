//! Who may be a client: those that connect, the memory that each may have, and who has to go.

use super::requests::Pending;
use super::{Plan, RETRY, Server};
use crate::conn::Conn;
use crate::listen::Address;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wordline_nbd::{Limits, Tls};

/// How many clients may be at their handshake: then the oldest of them goes.
const HANDSHAKES: usize = 64;
/// Where memory is short, a client that holds much of it has to move so many bytes in such a time.
const SLOW: Duration = Duration::from_secs(5);
const SLOW_BYTES: u64 = 64 << 10;
/// What the machine keeps of a request beside its data: up to 32 commands.
const REQUEST: u64 = 8 << 10;
/// Between two lines about clients that were refused.
const REFUSED: Duration = Duration::from_secs(1);

/// Clients that were not let in or were let go, and not told of yet.
#[derive(Default)]
pub(super) struct Refusals {
    /// All places were taken.
    full: u64,
    /// A place was free, and its memory was not.
    left_behind: u64,
    half_open: u64,
    slow: u64,
    /// Tries that failed.
    failed: u64,
    /// Why the last one failed.
    why: String,
    /// When that was told.
    told: Option<Instant>,
}

impl Refusals {
    /// What there is to tell, at most once a second.
    pub(super) fn tell(&mut self, plan: &Plan, part: u64) -> Vec<String> {
        let mut lines = Vec::new();
        if self.told.is_some_and(|told| told.elapsed() < REFUSED) {
            return lines;
        }
        let clients = |n: u64| if n == 1 { "1 client".into() } else { format!("{n} clients") };
        if self.left_behind > 0 {
            lines.push(format!(
                "refused {}: requests of clients that left are still under way, and hold the memory of those that come; \
                 raise --client-memory for more, or look for programs that ask for much and leave",
                clients(self.left_behind)
            ));
        }
        if self.full > 0 {
            lines.push(format!(
                "refused {}: {} are connected, which is the most allowed; raise --max-connections \
                 for more",
                clients(self.full),
                plan.max_connections
            ));
        }
        if self.half_open > 0 {
            lines.push(format!(
                "disconnected {} in the handshake, the oldest first: {HANDSHAKES} were in it, and \
                 others came; look for programs that connect and say nothing",
                clients(self.half_open)
            ));
        }
        if self.slow > 0 {
            lines.push(format!(
                "disconnected {}: memory for clients ran out, and those that held more than {} KiB \
                 of it did not take answers or send the rest of requests, less than {} KiB in {} s; \
                 raise --client-memory, or look why they do not",
                clients(self.slow),
                part >> 10,
                SLOW_BYTES >> 10,
                SLOW.as_secs()
            ));
        }
        if self.failed > 0 {
            let times = match self.failed {
                1 => "once".into(),
                n => format!("{n} times"),
            };
            lines.push(format!(
                "letting a client in failed {times} ({}), and is tried again; if that is the limit on \
                 open files, raise it (ulimit -n) or lower --max-connections",
                self.why
            ));
        }
        if !lines.is_empty() {
            *self = Refusals { told: Some(Instant::now()), ..Refusals::default() };
        }
        lines
    }
}

impl Server {
    /// A client's own memory. Half of the memory for clients is theirs in equal parts; of the other half
    /// each takes what is free.
    pub(super) fn part(&self) -> u64 {
        self.plan.client_memory / 2 / self.plan.max_connections as u64
    }
    /// What is taken of the other half: by clients beyond their parts, and by requests of clients that left.
    pub(super) fn shared(&self) -> u64 {
        let beyond = self.conns.values().map(|c| c.memory().saturating_sub(self.part()));
        beyond.sum::<u64>() + self.orphaned
    }
    /// Places whose parts are taken by what does not fit into the other half: a client may have left its own part full.
    fn places_held(&self) -> u64 {
        self.shared().saturating_sub(self.plan.client_memory / 2).div_ceil(self.part())
    }
    /// Whether one more client has no place.
    pub(super) fn is_full(&self) -> bool {
        self.served as u64 + self.places_held() >= self.plan.max_connections as u64
    }
    /// Whether a client may have so many bytes more.
    pub(super) fn has_room(&mut self, key: u32, more: u64) -> bool {
        if more == 0 {
            return true;
        }
        let (part, own) = (self.part(), self.conns[key].memory());
        if own + more <= part {
            return true;
        }
        let others = self.shared() - own.saturating_sub(part);
        let fits = others + (own + more - part) <= self.plan.client_memory / 2;
        self.short |= !fits;
        fits
    }
    /// Somebody waits for memory: those who hold more than their part and do nothing lose it.
    pub(super) fn let_go_of_slow(&mut self) {
        let part = self.part();
        let slow = |c: &mut Conn| c.memory() > part && c.is_slow(SLOW, SLOW_BYTES);
        for key in self.conns.keys().collect::<Vec<_>>() {
            if slow(&mut self.conns[key]) {
                self.let_go(key);
                self.refusals.slow += 1;
            }
        }
    }
    pub(super) fn let_go(&mut self, key: u32) {
        if let Some(c) = self.conns.take(key) {
            self.served -= usize::from(c.served);
            // The machine goes on with its requests, and keeps their buffers.
            self.orphaned += c.bytes + u64::from(c.session.in_flight()) * REQUEST;
        }
    }
    /// A request of a client that left is answered.
    pub(super) fn forget(&mut self, request: &Pending) {
        self.orphaned = self.orphaned.saturating_sub(request.weight() + REQUEST);
    }
    /// Makes room for one that comes: who is gone goes first, then who came first.
    pub(super) fn limit_handshakes(&mut self) {
        let at_it = |c: &Conn| c.session.is_handshaking();
        // Some of the others may be closed.
        if self.conns.len() - self.served < HANDSHAKES
            || self.conns.values().filter(|c| at_it(c)).count() < HANDSHAKES
        {
            return;
        }
        let keys: Vec<u32> = self.conns.keys().collect();
        let mut oldest: Option<(u32, u32)> = None;
        let mut gone = 0;
        for key in keys {
            if !at_it(&self.conns[key]) {
                continue;
            }
            if self.conns[key].has_hung_up() {
                self.let_go(key);
                gone += 1;
            } else {
                let came = (self.conns[key].generation, key);
                oldest = Some(oldest.map_or(came, |o| o.min(came)));
            }
        }
        if let Some((_, key)) = oldest.filter(|_| gone == 0) {
            self.let_go(key);
            self.refusals.half_open += 1;
        }
    }

    pub(super) fn accept(&mut self) {
        for i in 0..self.listeners.len() {
            loop {
                let stream = match self.listeners[i].accept() {
                    Ok(Some(stream)) => stream,
                    Ok(None) => break,
                    Err(e) => {
                        // Out of descriptors: the caller stays at the door and would wake us at once.
                        self.deaf_until = Some(Instant::now() + RETRY);
                        self.refusals.failed += 1;
                        self.refusals.why = e.to_string();
                        break;
                    }
                };
                if self.is_full() {
                    self.refuse();
                    continue;
                }
                self.limit_handshakes();
                self.stats.connections += 1;
                self.generation += 1;
                let address = &self.plan.listen[i];
                let open = matches!(address, Address::Unix(_))
                    || self.plan.tls_optional && address.is_local()
                    || self.plan.plain_tcp;
                let tls = match self.tls_config {
                    None => Tls::No,
                    Some(_) if open => Tls::Offered,
                    Some(_) => Tls::Required,
                };
                let mut conn = Conn::new(
                    stream,
                    Arc::clone(&self.exports),
                    Limits { block_min: self.plan.system.device.lba, ..Limits::default() },
                    tls,
                    self.tls_config.clone(),
                    self.generation,
                );
                conn.flush();
                self.conns.insert(conn);
            }
        }
    }

    pub(super) fn refuse(&mut self) {
        self.stats.refused_connections += 1;
        match self.served >= self.plan.max_connections {
            true => self.refusals.full += 1,
            false => self.refusals.left_behind += 1,
        }
    }
}
