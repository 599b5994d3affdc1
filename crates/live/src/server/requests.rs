//! What clients ask the drive for, and its answers.

use super::{FULL_MAP, SPENT, Server};
use crate::fuse;
use crate::machine::{Done, Fault, IoKind, LOOKED_AT, Request, fault_of};
use std::time::Duration;
use wordline_base::{SECTOR, Time};
use wordline_nbd::{Event, Kind, Request as NbdRequest, STATE_HOLE, STATE_ZERO, errno};

/// How long a client may take for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Zeroes written at a time where a hole is not wanted.
const ZEROES: u64 = 1 << 20;

/// Whom an answer is for.
pub(super) struct Pending {
    conn: u32,
    generation: u32,
    request: NbdRequest,
    queue: u16,
    zeroes: Option<Zeroes>,
}

/// Zeroes that must not be a hole. They are written piece by piece, and with FUA a flush follows the last.
struct Zeroes {
    /// Where the next piece begins.
    from: u64,
    /// Bytes to be written yet.
    left: u64,
    /// When the first piece began.
    began: Option<Time>,
    /// The flush is to follow yet.
    flush: bool,
}

impl Pending {
    pub(super) fn weight(&self) -> u64 {
        weight(&self.request)
    }
}

impl Server {
    /// Gives answers to those they are for.
    pub(super) fn deliver(&mut self) {
        let mut i = 0;
        while i < self.unsynced.len() {
            if self.is_durable(i) {
                let done = self.unsynced.swap_remove(i);
                self.answer(done);
            } else {
                i += 1;
            }
        }
        while let Some(done) = self.machine.poll() {
            if done.sync.is_none() {
                self.answer(done);
                continue;
            }
            self.unsynced.push(done);
            if self.is_durable(self.unsynced.len() - 1)
                && let Some(done) = self.unsynced.pop()
            {
                self.answer(done);
            }
        }
    }
    /// Whether what an answer promises is durable, or never will be.
    pub(super) fn is_durable(&mut self, i: usize) -> bool {
        let done = &mut self.unsynced[i];
        let ticket = done.sync.expect("it waits for a sync");
        let result = self.machine.media().writer.is_done(ticket);
        if let Some(Err((kind, _))) = &result {
            done.result = Err(fault_of(*kind));
        }
        result.is_some()
    }
    pub(super) fn answer(&mut self, mut done: Done) {
        if done.tag == u64::MAX {
            // The last flush: nobody waits for it, and it has a time of its own.
            return;
        }
        if done.tag & fuse::TAG == 0 && self.goes_on(&mut done) {
            return self.machine.recycle(done.data);
        }
        let late = (!self.clock.is_free()).then(|| self.clock.late(done.at));
        self.stats.add(&done, late);
        if done.tag & fuse::TAG != 0 {
            if let Some(mut next) = self.mount.as_mut().and_then(|m| m.answer(&done)) {
                next.queue = done.queue;
                self.stats.asked(&next);
                let at = self.input_time();
                self.machine.submit(at, next, &[]);
            }
            return self.machine.recycle(done.data);
        }
        let pending = self.pending.remove(done.tag as u32);
        let Pending { conn, generation, ref request, .. } = pending;
        let data = std::mem::take(&mut done.data);
        if let Some(c) = self.conns.get_mut(conn).filter(|c| c.generation == generation) {
            c.bytes -= weight(request).min(c.bytes);
            let cookie = request.cookie;
            match done.result {
                Ok(()) if request.kind == Kind::Read => {
                    let range = done.skip..done.skip + done.len as usize;
                    c.session.reply_data(cookie, request.offset, &data[range]);
                }
                Ok(()) => c.session.reply_done(cookie),
                Err(Fault::NoSpace) => {
                    c.session.reply_error(cookie, request.kind, errno::ENOSPC, "the image is full");
                }
                Err(Fault::NoMemory) => {
                    c.session.reply_error(cookie, request.kind, errno::ENOSPC, FULL_MAP);
                }
                Err(Fault::Spent) => {
                    c.session.reply_error(cookie, request.kind, errno::EIO, SPENT);
                }
                Err(Fault::Io) => {
                    c.session.reply_error(cookie, request.kind, errno::EIO, "the drive failed");
                }
                Err(Fault::Ends) => {
                    let text = "the server ends, and has written a part of the zeroes";
                    c.session.reply_error(cookie, request.kind, errno::ESHUTDOWN, text);
                }
            }
        } else {
            self.forget(&pending);
        }
        self.machine.recycle(data);
    }

    pub(super) fn flush_all(&mut self) {
        let keys: Vec<u32> = self.conns.keys().collect();
        let part = self.part();
        for key in keys {
            self.conns[key].flush();
            // What waited for answers to go.
            self.requests(key);
            let c = &mut self.conns[key];
            c.look(part);
            let slow = c.session.is_handshaking() && c.began.elapsed() > HANDSHAKE;
            if c.is_over() || slow {
                self.let_go(key);
            }
        }
        if std::mem::take(&mut self.short) {
            self.let_go_of_slow();
        }
    }

    /// Takes the requests that a client has sent: of questions about allocation as many as take a moment.
    pub(super) fn requests(&mut self, key: u32) {
        let mut looked_at = 0;
        loop {
            if looked_at >= u64::from(LOOKED_AT) {
                self.left_over = true;
                return;
            }
            let more = self.conns[key].session.next_bytes();
            if self.closing || self.conns[key].is_held() || !self.has_room(key, more) {
                return;
            }
            let full = self.conns[key].session.is_handshaking() && self.is_full();
            let event = self.conns[key].session.poll();
            let c = &mut self.conns[key];
            match event {
                None => return,
                Some(Event::StartTls) => {
                    if !c.start_tls() {
                        self.conns[key].session.abandon();
                        return;
                    }
                }
                // The last place went to somebody else in the meantime.
                Some(Event::Ready(_)) if full => {
                    c.end();
                    return self.refuse();
                }
                Some(Event::Ready(_)) => {
                    c.served = true;
                    self.served += 1;
                }
                Some(Event::Closed(_)) => return,
                Some(Event::Request(request)) => {
                    c.bytes += weight(&request);
                    if request.kind == Kind::BlockStatus {
                        looked_at += u64::from(request.len).div_ceil(SECTOR);
                    }
                    self.request(key, request);
                }
            }
        }
    }
    pub(super) fn request(&mut self, conn: u32, request: NbdRequest) {
        let c = &mut self.conns[conn];
        let generation = c.generation;
        let export = c.session.export().expect("chosen before requests");
        let queue = self.queue_of[export];
        let mut zeroes = None;
        let kind = match request.kind {
            Kind::BlockStatus => {
                let (offset, len) = (request.offset, u64::from(request.len));
                let extents = self.machine.allocation(offset, len, request.one);
                let row = |(len, stored): (u64, bool)| {
                    (len as u32, if stored { 0 } else { STATE_HOLE | STATE_ZERO })
                };
                let rows: Vec<(u32, u32)> = extents.into_iter().map(row).collect();
                return self.conns[conn].session.reply_status(request.cookie, &rows);
            }
            Kind::WriteZeroes if request.no_hole && request.fast_zero => {
                let text = "zeroes that are no hole are written like data";
                return c.session.reply_error(request.cookie, request.kind, errno::ENOTSUP, text);
            }
            Kind::WriteZeroes if request.no_hole => {
                let (from, left) = (request.offset, u64::from(request.len));
                zeroes = Some(Zeroes { from, left, began: None, flush: request.fua });
                IoKind::Write
            }
            Kind::Read => IoKind::Read,
            Kind::Write => IoKind::Write,
            Kind::Flush => IoKind::Flush,
            Kind::Trim => IoKind::Trim,
            Kind::Cache => IoKind::Cache,
            Kind::WriteZeroes => IoKind::Zero,
        };
        let (offset, len, fua) = (request.offset, request.len, request.fua);
        let pieces = zeroes.is_some();
        let key = self.pending.insert(Pending { conn, generation, request, queue, zeroes });
        if pieces {
            return self.write_zeroes(key);
        }
        let tag = u64::from(key);
        let at = self.input_time();
        let data = self.conns[conn].session.payload();
        let request = Request { tag, kind, offset, len, fua, queue, pid: 0, data: Vec::new() };
        self.machine.submit(at, request, data);
    }
    /// Whether an answer is that of a piece of zeroes, and more follows. The last stands for the whole request.
    fn goes_on(&mut self, done: &mut Done) -> bool {
        let key = done.tag as u32;
        let pending = &mut self.pending[key];
        let Some(zeroes) = &mut pending.zeroes else { return false };
        let began = *zeroes.began.get_or_insert(done.began);
        let waits =
            self.conns.get(pending.conn).is_some_and(|c| c.generation == pending.generation);
        if done.result.is_ok() && zeroes.left > 0 && (!waits || zeroes.left > self.last_zeroes) {
            // Nobody waits for the rest, or for so much of it.
            done.result = Err(Fault::Ends);
        } else if done.result.is_ok() && (zeroes.left > 0 || zeroes.flush) {
            if self.closing {
                self.last_zeroes -= zeroes.left.min(ZEROES);
            }
            self.write_zeroes(key);
            return true;
        }
        (done.kind, done.len, done.began) = (IoKind::Zero, pending.request.len, began);
        false
    }
    /// The next piece of zeroes that must not be a hole, or the flush behind the last.
    fn write_zeroes(&mut self, key: u32) {
        let at = self.input_time();
        let pending = &mut self.pending[key];
        let Some(zeroes) = &mut pending.zeroes else { return };
        let (tag, queue, offset) = (u64::from(key), pending.queue, zeroes.from);
        let over = zeroes.left == 0 && zeroes.began.is_some();
        let (kind, piece) = match over {
            true => (IoKind::Flush, 0),
            false => (IoKind::Write, (ZEROES - offset % SECTOR).min(zeroes.left)),
        };
        zeroes.flush &= !over;
        (zeroes.from, zeroes.left) = (offset + piece, zeroes.left - piece);
        let len = piece as u32;
        let request =
            Request { tag, kind, offset, len, fua: false, queue, pid: 0, data: Vec::new() };
        self.machine.submit(at, request, &[0; ZEROES as usize][..piece as usize]);
    }
}

/// Memory that a request takes while it is under way.
fn weight(request: &NbdRequest) -> u64 {
    match request.kind {
        Kind::Read | Kind::Write => u64::from(request.len),
        _ => 0,
    }
}
