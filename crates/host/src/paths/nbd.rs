//! Network block devices (drivers/block/nbd.c of Linux 4.14), both ends. They are two hosts that share
//! the clock: the client's, whose drive is the device, and the server's, which has the drive. What
//! passes between them are [`Message`]s; who holds both hosts carries them.
//!
//! The client has one hardware queue. Its driver may sleep (BLK_MQ_F_BLOCKING), so nothing is issued by its
//! submitter: kblockd's worker of the submitter's core takes what waits, a request after the other. It sends
//! each with a call for its header and one for each page. recv_work sits in a receive for the header of a
//! reply, then for each of its pages, and ends the request.
//!
//! nbd-server has one thread that receives header and payload, and hands requests to a pool. A thread of the
//! pool calls its kernel for the drive, and sends the reply.
//!
//! SPDK (lib/nbd): a reactor's two pollers in turn. One sends what is complete and receives up to 16
//! requests with calls that do not wait, the other looks for completions of the drive. With nothing
//! to do, each turn still makes its call on the socket.
//!
//! A message goes in whole and is there at once, or after its time on the wire; a socket takes what it
//! is given. Left out: small receives of what came in part, congestion windows, acknowledgements.

use crate::block::Node;
use crate::config::{NbdConfig, NbdServer, Transport};
use crate::driver::poll::Loop;
use crate::function::spend;
use crate::host::{Host, Output};
use crate::source::{Source, ThreadSpec};
use crate::tasks::core::Irq;
use crate::tasks::thread::{Asleep, Flow, Step, Thread};
use crate::{CoreId, EndId, Engine, ThreadId, config};
use std::collections::{BTreeMap, VecDeque};
use wordline_base::{Ctx, Ddir, IdVec, IoId, Layer, Span, Time, Why};
use wordline_fs::Op;
use wordline_nvme::{Cqe, Opcode, Status};

/// struct nbd_request and nbd_reply.
const REQUEST_BYTES: u64 = 28;
const REPLY_BYTES: u64 = 16;
/// SPDK 19.07, lib/nbd: GET_IO_LOOP_COUNT.
const MOST_A_TURN: u32 = 16;
/// What goes through the stack at once: the loopback's MTU, and as much as is joined of what an
/// Ethernet brings (GRO).
const JOINED: u32 = 65_536;
/// IP and TCP headers with time stamps; Ethernet's, with preamble, check sequence and gap.
const HEADERS: u64 = 52;
const FRAME: u64 = 38;
/// The drive, to nbd-server: the one file that it opens.
const SERVED_FILE: u32 = 0;
/// A core of the other host.
const ELSEWHERE: u32 = u32::MAX;

/// A request, or the reply to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// The server's answer.
    pub reply: bool,
    /// The client's request.
    pub handle: u32,
    /// Read, write, trim or sync.
    pub ddir: Ddir,
    /// The first byte on the export.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
    /// The write is to be on the medium before the answer.
    pub fua: bool,
    /// In a reply: it succeeded.
    pub ok: bool,
    /// The I/O that it belongs to.
    pub io: IoId,
}

impl Message {
    /// What goes with the header.
    pub fn payload(&self) -> u64 {
        let carries = if self.reply { self.ok && self.ddir == Ddir::Read } else { self.is_write() };
        if carries { self.len.into() } else { 0 }
    }
    /// Bytes on the wire, the header among them.
    pub fn bytes(&self) -> u64 {
        self.payload() + if self.reply { REPLY_BYTES } else { REQUEST_BYTES }
    }
    /// Bytes that the drive moves for it.
    fn data(&self) -> u32 {
        if matches!(self.ddir, Ddir::Read | Ddir::Write) { self.len } else { 0 }
    }
    fn is_write(&self) -> bool {
        self.ddir == Ddir::Write
    }
    fn pages(&self) -> u64 {
        self.payload().div_ceil(4096)
    }
}

/// Packets of so many bytes of a stream.
fn packets(bytes: u64, mtu: u32) -> u64 {
    bytes.div_ceil(u64::from(mtu) - HEADERS)
}

impl NbdConfig {
    /// Time of a message on an Ethernet, without `delay`.
    pub fn wire(&self, bytes: u64) -> Span {
        let on_wire = bytes + packets(bytes, self.mtu) * (HEADERS + FRAME);
        Span((u128::from(on_wire) * 8_000_000_000 / u128::from(self.rate)) as u64)
    }
}

/// What a thread of either end does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum At {
    /// kblockd's worker, and recv_work.
    Send,
    Receive,
    /// nbd-server: its receiver, a thread of its pool, and the same after a call for the drive.
    Serve,
    Pool,
    PoolDone,
    Reactor,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Taken,
    /// A write that is to be on the medium is followed by a flush.
    Flushed,
    Sending,
}

/// What a thread is about in a connection.
#[derive(Debug, Default)]
pub(crate) struct InNbd {
    /// The connection that it is a thread of.
    end: EndId,
}

/// A host's end of a connection.
pub(crate) struct End {
    config: NbdConfig,
    /// The host's disk: the network block device itself, or the one that is served.
    disk: u16,
    /// Received and not taken up.
    inbox: VecDeque<Message>,
    /// Arrived, and still behind the network card's interrupt.
    arrived: VecDeque<Message>,
    /// The thread that receives.
    receiver: u32,
    /// What the receiver is at.
    at: Option<(Message, Stage)>,
    /// Client: kblockd's worker of each core.
    workers: IdVec<CoreId, ThreadId>,
    /// Client: requests for the workers.
    run: VecDeque<u32>,
    /// Client: the request being sent.
    sending: Option<u32>,
    /// Of nbd-server: requests for the pool.
    queue: VecDeque<Message>,
    /// Of nbd-server: the threads of the pool, and what each is at.
    pool: BTreeMap<u32, Option<(Message, Stage)>>,
    /// SPDK: requests at the drive.
    at_drive: BTreeMap<u32, Message>,
    /// SPDK: replies to be sent.
    replies: VecDeque<Message>,
    /// SPDK: requests received in this turn.
    taken: u32,
    /// Of nbd-server with pages in front of its drive: bytes that clients read, and wrote.
    served: [u64; 2],
}

impl<S: Source> Host<S> {
    fn end_of(&mut self, config: &NbdConfig, disk: u16, receiver: u32) -> End {
        self.cfs.couple_cores();
        End {
            config: config.clone(),
            disk,
            inbox: VecDeque::new(),
            arrived: VecDeque::new(),
            receiver,
            at: None,
            workers: IdVec::new(),
            run: VecDeque::new(),
            sending: None,
            queue: VecDeque::new(),
            pool: BTreeMap::new(),
            at_drive: BTreeMap::new(),
            replies: VecDeque::new(),
            taken: 0,
            served: [0; 2],
        }
    }

    /// A thread of the connection that is being made.
    fn nbd_thread(
        &mut self,
        name: &str,
        (engine, disk): (Engine, u16),
        core: u32,
        at: At,
        asleep: Asleep,
    ) -> u32 {
        let hctx = self.block.disks[disk].home(core);
        let mut thread = Thread::new(ThreadSpec::new(name, engine, 1), None, core, disk, hctx);
        thread.nbd.end = self.paths.ends.len() as EndId;
        self.threads.push(thread.sleeping(Step::Nbd(at), asleep));
        self.made_room();
        self.threads.len() as u32 - 1
    }

    /// The core with the fewest threads, the lowest of equals.
    fn least_core(&self) -> u32 {
        let threads = |core: &u32| self.threads.iter().filter(|t| t.core() == *core).count();
        (0..self.cores.len() as u32).min_by_key(threads).unwrap_or(0)
    }

    /// Another host has a drive of this one.
    pub fn serves(&self) -> bool {
        self.paths.serves
    }

    /// It does, and has the page cache in front of it: its pages are no file system of a job's.
    pub fn serves_pages(&self) -> bool {
        self.paths.ends.iter().any(|end| end.config.page_cache && !end.pool.is_empty())
    }
    /// Bytes that clients read from those pages, and wrote to them.
    pub fn served_from_pages(&self) -> [u64; 2] {
        [0, 1].map(|way| self.paths.ends.iter().map(|end| end.served[way]).sum())
    }

    /// A disk of this host is a network block device: its end of the connection.
    pub fn connect(&mut self, disk: u16, config: &NbdConfig) -> u16 {
        let (cores, core) = (self.cores.len() as u32, self.least_core());
        let (null, asleep) = ((Engine::Null, disk), Asleep::Socket);
        let receiver = self.nbd_thread("knbd-recv", null, core, At::Receive, asleep);
        let worker = |core| self.nbd_thread("kblockd", null, core, At::Send, asleep);
        let workers = (0..cores).map(worker).collect();
        let end = End { workers, ..self.end_of(config, disk, receiver) };
        let number = self.paths.ends.len() as u16;
        self.block.disks[disk].paths.client = Some(number);
        self.paths.ends.push(end);
        number
    }

    /// This host serves a disk to another one: its end of the connection.
    pub fn serve(&mut self, disk: u16, config: &NbdConfig) -> u16 {
        let core = self.least_core();
        self.paths.serves = true;
        let mut end = match config.server {
            NbdServer::Spdk => {
                let (spdk, start) = ((Engine::Spdk, disk), Asleep::Start);
                let receiver = self.nbd_thread("reactor", spdk, core, At::Reactor, start);
                self.end_of(config, disk, receiver)
            }
            NbdServer::NbdServer => {
                let (sync, asleep) = ((Engine::Pvsync2, disk), Asleep::Socket);
                let receiver = self.nbd_thread("nbd-server", sync, core, At::Serve, asleep);
                self.end_of(config, disk, receiver)
            }
        };
        if config.server == NbdServer::NbdServer {
            for n in 0..config.threads {
                let core = self.least_core();
                let name = format!("nbd-server/{n}");
                let sync = (Engine::Pvsync2, disk);
                let t = self.nbd_thread(&name, sync, core, At::Pool, Asleep::Socket);
                end.pool.insert(t, None);
            }
        }
        self.paths.ends.push(end);
        self.paths.ends.len() as u16 - 1
    }

    /// The connection of one of its threads.
    fn end(&mut self, t: u32) -> &mut End {
        &mut self.paths.ends[self.threads[t].nbd.end]
    }

    /// The next step of a thread of a connection.
    #[inline(never)]
    pub(crate) fn nbd_step(&mut self, ctx: &mut Ctx, t: u32, at: At) -> Flow {
        match at {
            At::Send => self.nbd_send(ctx, t),
            At::Receive => self.nbd_receive(ctx, t),
            At::Serve => self.nbd_serve(ctx, t),
            At::Pool => self.nbd_pool(ctx, t),
            At::PoolDone => self.nbd_pool_done(ctx, t),
            At::Reactor => self.nbd_reactor(ctx, t),
        }
    }

    // Sockets.

    /// Processor time of sending a message in so many calls.
    fn socket_send(&mut self, t: u32, m: &Message, calls: u64) -> u64 {
        let (core, transport) = (self.threads[t].core(), self.end(t).config.transport);
        let packets = packets(m.bytes(), JOINED);
        match transport {
            Transport::Unix => spend!(self, core, UnixSend * calls, SocketCopy * m.pages()),
            Transport::Loopback => {
                spend!(self, core, TcpSend * calls, TcpPacket * packets, SocketCopy * m.pages())
            }
            Transport::Ethernet => spend!(self, core, TcpSend * calls, SocketCopy * m.pages()),
        }
    }

    fn socket_receive(&mut self, t: u32, m: &Message, calls: u64) -> u64 {
        let (core, transport) = (self.threads[t].core(), self.end(t).config.transport);
        match transport {
            Transport::Unix => {
                spend!(self, core, UnixReceive * calls, SocketCopy * m.pages())
            }
            _ => spend!(self, core, TcpReceive * calls, SocketCopy * m.pages()),
        }
    }

    /// A message has come to this host, to one of its connections.
    pub fn receive(&mut self, ctx: &mut Ctx, number: u16, message: Message) {
        self.enter(ctx);
        let end = &mut self.paths.ends[number];
        if end.config.transport == Transport::Ethernet {
            end.arrived.push_back(message);
            let core = self.threads[end.receiver].core();
            return self.raise(ctx, core, Irq::Network(number));
        }
        self.deliver(ctx, number, message, ELSEWHERE);
    }

    /// The network card's interrupt, and the softirq behind it.
    pub(crate) fn network_irq(&mut self, end: u16, core: u32) -> u64 {
        let end = &self.paths.ends[end];
        let bytes = end.arrived.front().map_or(0, Message::bytes);
        spend!(self, core, InterruptEntry, TcpPacket * packets(bytes, JOINED))
    }

    /// The handler is through with a message.
    pub(crate) fn network_irq_done(&mut self, ctx: &mut Ctx, end: u16, core: u32) {
        let arrived = self.paths.ends[end].arrived.pop_front();
        let Some(message) = arrived else { return };
        let place = self.place_of(core);
        ctx.mark(message.io, Layer::Network, Why::Interrupt, place, ctx.now);
        self.deliver(ctx, end, message, core);
    }

    fn deliver(&mut self, ctx: &mut Ctx, end: u16, message: Message, on: u32) {
        let end = &mut self.paths.ends[end];
        end.inbox.push_back(message);
        let t = end.receiver;
        match self.threads[t].asleep() {
            Asleep::Socket => self.wake(ctx, t, Some(on)),
            _ => self.notice(ctx, t),
        }
    }

    /// Of the segment that ended: the steps of a message that was received in it, with `after`
    /// nanoseconds of other work behind.
    fn mark_received(&mut self, ctx: &mut Ctx, t: u32, io: IoId, waited: Why, after: u64) {
        let thread = &self.threads[t];
        let (place, (_, work)) = (self.place_of(thread.core()), thread.done());
        let before = |ns: u64| Time(ctx.now.0.saturating_sub(ns));
        let (begin, end) = (before(work), before(after));
        ctx.mark(io, Layer::Network, waited, place, begin);
        ctx.mark(io, Layer::Network, Why::Work, place, end);
        ctx.mark(io, Layer::Server, Why::Work, place, ctx.now);
    }

    /// The same of a reply that was sent in it.
    fn reply(&mut self, ctx: &mut Ctx, t: u32, message: Message) {
        let thread = &self.threads[t];
        let (place, (_, work)) = (self.place_of(thread.core()), thread.done());
        let begin = Time(ctx.now.0.saturating_sub(work));
        ctx.mark(message.io, Layer::Server, Why::CoreBusy, place, begin);
        ctx.mark(message.io, Layer::Network, Why::Work, place, ctx.now);
        self.send_message(t, message);
    }

    fn send_message(&mut self, t: u32, message: Message) {
        let end = self.threads[t].nbd.end;
        self.put_out(Output::Send { end, message });
    }

    // The client.

    /// blk_mq_run_hw_queue(async): there is something for kblockd.
    pub(crate) fn run_nbd(&mut self, ctx: &mut Ctx, end: u16, core: u32) {
        let end = &self.paths.ends[end];
        let busy = |&t: &u32| self.threads[t].asleep() != Asleep::Socket;
        if end.workers.iter().any(busy) {
            return;
        }
        let worker = end.workers[core];
        self.wake(ctx, worker, Some(core));
    }

    /// A request with its tag is for kblockd.
    pub(crate) fn queue_nbd(&mut self, ctx: &mut Ctx, end: u16, rq: u32, core: u32) {
        self.paths.ends[end].run.push_back(rq);
        self.run_nbd(ctx, end, core);
    }

    fn message_of(&self, rq: u32) -> Message {
        let r = &self.block.requests[rq];
        let leader = &self.block.nodes[r.first];
        let ddir = match r.opcode {
            Opcode::Read => Ddir::Read,
            Opcode::Write => Ddir::Write,
            Opcode::Flush => Ddir::Sync,
            _ => Ddir::Trim,
        };
        Message {
            reply: false,
            handle: rq,
            ddir,
            offset: r.offset,
            len: r.bytes as u32,
            fua: leader.fua,
            ok: true,
            io: leader.life,
        }
    }

    fn nbd_send(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let (core, (wake, work)) = (self.threads[t].core(), self.threads[t].done());
        if let Some(rq) = self.end(t).sending.take() {
            let before = |ns: u64| Time(ctx.now.0.saturating_sub(ns));
            let (waited, woken) = (before(wake + work), before(work));
            self.mark_request(ctx, rq, Layer::Block, Why::Plugged, core, waited);
            self.mark_request(ctx, rq, Layer::Block, Why::WakeUp, core, woken);
            self.mark_request(ctx, rq, Layer::Network, Why::Work, core, ctx.now);
            self.block.requests[rq].issued = ctx.now;
            self.counters.nbd_requests += 1;
            let message = self.message_of(rq);
            self.send_message(t, message);
        }
        let disk = self.end(t).disk;
        let h = self.block.disks[disk].first();
        let next = self.block.next_dispatch(h, ctx.now);
        let Some(rq) = next.or_else(|| self.end(t).run.pop_front()) else {
            return self.sleep(ctx, t, Asleep::Socket);
        };
        let message = self.message_of(rq);
        let send = self.socket_send(t, &message, 1 + message.pages());
        self.threads[t].pend.entry += send + spend!(self, core, NbdQueue);
        self.end(t).sending = Some(rq);
        self.segment(ctx, t, Step::Nbd(At::Send))
    }

    fn nbd_receive(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let core = self.threads[t].core();
        if let Some((message, _)) = self.end(t).at.take() {
            self.mark_received(ctx, t, message.io, Why::WakeUp, 0);
            let r = &self.block.requests[message.handle];
            let (cid, h) = (r.tag, r.hctx);
            let status = if message.ok { Status::Success } else { Status::UnrecoveredRead };
            let cqe = Cqe { sq: h, cid, sq_head: 0, status, phase: false, held: None };
            let now = ctx.now;
            self.reap(ctx, h, cqe, core, (now, now), (Why::WakeUp, Why::Work));
        }
        let Some(message) = self.end(t).inbox.pop_front() else {
            return self.sleep(ctx, t, Asleep::Socket);
        };
        let received = self.socket_receive(t, &message, 1 + message.pages());
        self.threads[t].pend.entry += received + spend!(self, core, NbdComplete);
        self.end(t).at = Some((message, Stage::Taken));
        self.segment(ctx, t, Step::Nbd(At::Receive))
    }

    // nbd-server.

    fn nbd_serve(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let core = self.threads[t].core();
        if let Some((message, _)) = self.end(t).at.take() {
            let own = self.stack.cost.nbd.serve.0 + self.stack.cost.nbd.pool.0;
            self.mark_received(ctx, t, message.io, Why::WakeUp, own);
            self.end(t).queue.push_back(message);
            if let Some(worker) = self.idle_in_pool(t) {
                self.wake(ctx, worker, Some(core));
            }
        }
        let Some(message) = self.end(t).inbox.pop_front() else {
            return self.sleep(ctx, t, Asleep::Socket);
        };
        let calls = 1 + u64::from(message.is_write());
        // One more, futex, for a thread that sleeps.
        let futex = u64::from(self.idle_in_pool(t).is_some());
        let system = self.socket_receive(t, &message, calls)
            + spend!(self, core, Crossing * (calls + futex));
        let thread = &mut self.threads[t];
        thread.pend.entry += system;
        thread.pend.library += spend!(self, core, NbdServe, NbdPool);
        self.end(t).at = Some((message, Stage::Taken));
        self.segment(ctx, t, Step::Nbd(At::Serve))
    }

    /// A thread of the pool that sleeps.
    fn idle_in_pool(&self, t: u32) -> Option<u32> {
        let pool = &self.paths.ends[self.threads[t].nbd.end].pool;
        pool.keys().copied().find(|&w| self.threads[w].asleep() == Asleep::Socket)
    }

    fn nbd_pool(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let Some(message) = self.end(t).queue.pop_front() else {
            return self.sleep(ctx, t, Asleep::Socket);
        };
        self.end(t).pool.insert(t, Some((message, Stage::Taken)));
        self.pool_call(ctx, t, message.ddir, message.offset, message.len)
    }

    /// A thread of the pool serves what the page cache is in front of.
    pub(crate) fn serves_from_cache(&self, t: u32) -> bool {
        let Some(vfs) = &self.paths.vfs else { return false };
        let serves = |end: &End| end.config.page_cache && end.disk == vfs.disk();
        self.paths.ends.iter().any(|end| serves(end) && end.pool.contains_key(&t))
    }

    /// pread, pwrite or fdatasync of the drive, through its pages or past them.
    fn pool_call(&mut self, ctx: &mut Ctx, t: u32, ddir: Ddir, offset: u64, len: u32) -> Flow {
        let (file, direct) = (SERVED_FILE, false);
        let cached = self.serves_from_cache(t);
        let op = match ddir {
            _ if !cached => None,
            Ddir::Read => Some(Op::Read { file, offset, len, direct, queued: false }),
            Ddir::Write => {
                let (sync, data_only, queued) = (false, false, false);
                Some(Op::Write { file, offset, len, direct, sync, data_only, queued })
            }
            Ddir::Sync | Ddir::DataSync => Some(Op::Fsync { file, data_only: true }),
            Ddir::Trim => None,
        };
        if let Some(op) = op {
            if !ddir.is_sync() {
                self.end(t).served[usize::from(ddir == Ddir::Write)] += u64::from(len);
            }
            return self.served_call(ctx, t, (ddir, offset, len), op);
        }
        if let Some(vfs) = &mut self.paths.vfs
            && cached
        {
            vfs.discard(file, offset, len.into());
        }
        let disk = self.end(t).disk;
        self.sync_call(t, ddir, (disk, offset), len, Step::Nbd(At::PoolDone))
    }

    /// The drive has answered a thread of the pool.
    pub(crate) fn served(&mut self, ctx: &mut Ctx, t: u32, node: &Node) {
        let first_core = self.place_of(0);
        let Some(Some((message, _))) = self.end(t).pool.get_mut(&t) else { return };
        message.ok &= node.ok;
        ctx.lives.absorb_served(message.io, node.life, first_core);
    }

    fn nbd_pool_done(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let at = self.end(t).pool.get(&t).copied().flatten();
        let Some((mut message, stage)) = at else { return self.go(t, Step::Nbd(At::Pool)) };
        let step = Step::Nbd(At::PoolDone);
        if stage == Stage::Sending {
            self.reply(ctx, t, message);
            self.end(t).pool.insert(t, None);
            return self.go(t, Step::Nbd(At::Pool));
        }
        let core = self.threads[t].core();
        let disk = self.end(t).disk;
        let volatile = self.block.disks[disk].info().volatile_cache || self.serves_from_cache(t);
        if stage == Stage::Taken && message.fua && message.ok && volatile {
            self.end(t).pool.insert(t, Some((message, Stage::Flushed)));
            return self.pool_call(ctx, t, Ddir::DataSync, 0, 0);
        }
        message.reply = true;
        let calls = 1 + u64::from(message.payload() > 0);
        let system = self.socket_send(t, &message, calls) + spend!(self, core, Crossing * calls);
        self.threads[t].pend.entry += system;
        self.end(t).pool.insert(t, Some((message, Stage::Sending)));
        self.segment(ctx, t, step)
    }

    // SPDK.

    fn nbd_reactor(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        let (core, step) = (self.threads[t].core(), Step::Nbd(At::Reactor));
        match self.end(t).at.take() {
            Some((message, Stage::Sending)) => self.reply(ctx, t, message),
            Some((message, _)) => {
                let own = self.stack.cost.nbd.bdev
                    + self.stack.cost.spdk.check_enabled
                    + self.stack.cost.spdk.submit
                    + self.spdk_page_time(message.data(), 1);
                self.mark_received(ctx, t, message.io, Why::Polling, own.0);
                self.reactor_submit(ctx, t, message);
            }
            None => {}
        }
        while let Some(n) = self.threads[t].engine.take_complete() {
            self.reactor_done(ctx, t, n);
        }
        if let Some(message) = self.end(t).replies.pop_front() {
            let calls = 1 + u64::from(message.payload() > 0);
            let system =
                self.socket_send(t, &message, calls) + spend!(self, core, Crossing * calls);
            self.threads[t].pend.entry += system;
            self.end(t).at = Some((message, Stage::Sending));
            return self.segment(ctx, t, step);
        }
        let end = self.end(t);
        if end.taken < MOST_A_TURN
            && let Some(message) = end.inbox.pop_front()
        {
            end.taken += 1;
            let calls = 1 + u64::from(message.is_write());
            let system =
                self.socket_receive(t, &message, calls) + spend!(self, core, Crossing * calls);
            let pages = self.spdk_pages(core, message.data(), 1);
            let thread = &mut self.threads[t];
            thread.pend.entry += system;
            thread.pend.library += pages + spend!(self, core, SpdkBdev, SpdkCheck, SpdkSubmit);
            self.end(t).at = Some((message, Stage::Taken));
            return self.segment(ctx, t, step);
        }
        end.taken = 0;
        let more = !end.inbox.is_empty();
        let flow = self.look(ctx, t, Loop::Reactor, Time::NEVER);
        if more {
            self.notice(ctx, t);
        }
        flow
    }

    /// spdk_bdev_read and its like, down to the doorbell.
    fn reactor_submit(&mut self, ctx: &mut Ctx, t: u32, mut message: Message) {
        let (ddir, offset, len) = (message.ddir, message.offset, message.len);
        let disk = self.end(t).disk;
        let valid = self.valid(disk, ddir, offset, len);
        message.reply = true;
        message.ok = valid;
        let volatile = self.block.disks[disk].info().volatile_cache;
        if !valid || ddir.is_sync() && !volatile {
            self.end(t).replies.push_back(message);
            return;
        }
        let node = self.new_node(t, ddir, (disk, offset), len);
        let n = &mut self.block.nodes[node];
        (n.issued, n.fua) = (ctx.now, message.fua);
        n.life = ctx.lives.begin(t, ddir, offset, len, ctx.now);
        self.end(t).at_drive.insert(node, message);
        self.direct_submit(ctx, node);
    }

    fn reactor_done(&mut self, ctx: &mut Ctx, t: u32, n: u32) {
        let node = self.block.nodes[n];
        self.block.nodes.remove(n);
        let first_core = self.place_of(0);
        let Some(mut message) = self.end(t).at_drive.remove(&n) else { return };
        message.ok = node.ok;
        ctx.lives.absorb_served(message.io, node.life, first_core);
        self.end(t).replies.push_back(message);
    }
}

impl config::StackConfig {
    /// The settings of the request queue of a network block device.
    pub fn queue_of(&self, nbd: &NbdConfig) -> config::StackConfig {
        config::StackConfig {
            queues: 1,
            queue_depth: nbd.queue_depth + 1,
            max_request: nbd.max_request,
            scheduler: nbd.scheduler,
            bio_scheduler: config::Scheduler::None,
            // nbd has no poll function.
            io_poll: 0,
            poll_queues: 0,
            nbd: Some(nbd.clone()),
            ..self.clone()
        }
    }

    /// The client's stack and the server's, of one that has a network block device.
    pub fn ends(&self) -> Option<(config::StackConfig, config::StackConfig)> {
        let nbd = self.nbd.as_ref()?;
        let split = nbd.transport != Transport::Ethernet;
        let served = if split { nbd.server_cores } else { self.cores };
        let cores = if split { self.cores.saturating_sub(served) } else { self.cores };
        let client = config::StackConfig { cores, ..self.queue_of(nbd) };
        let server = config::StackConfig { cores: served, fs: None, hipri: false, ..self.clone() };
        Some((client, server))
    }
}
