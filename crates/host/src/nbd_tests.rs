//! Both hosts of a network block device against a fake drive, to the nanosecond.

use crate::config::{NbdConfig, NbdCost, NbdServer, SocketCost, SpdkCost, Transport};
use crate::tests::{List, drive, io, list, stack};
use crate::*;
use wordline_base::{Ctx, Ddir, Kind, Layer, Life, Rng, Span, Why};
use wordline_nvme::{Cqe, Sqe, Status};

const SOCKET: SocketCost = SocketCost {
    unix_send: Span(301),
    unix_receive: Span(203),
    tcp_send: Span(1_109),
    tcp_receive: Span(707),
    packet: Span(1_403),
    copy: Span(351),
    empty: Span(97),
};
const NBD: NbdCost = NbdCost {
    queue: Span(311),
    complete: Span(313),
    serve: Span(331),
    pool: Span(401),
    reactor: Span(103),
    bdev: Span(211),
};

fn nbd(server: NbdServer, transport: Transport) -> NbdConfig {
    NbdConfig {
        server,
        transport,
        server_cores: 2,
        queue_depth: 128,
        max_request: 128 << 10,
        scheduler: Scheduler::None,
        threads: 1,
        flush: false,
        page_cache: false,
        cache: None,
        rate: 10_000_000_000,
        delay: Span(1_000),
        mtu: 1_500,
    }
}

/// Client, server and a drive that answers after `latency`.
struct Pair {
    client: Host<List>,
    server: Host<List>,
    ctx: Ctx,
    commands: Vec<(u16, Sqe)>,
    wire: Vec<Message>,
    config: NbdConfig,
    latency: u64,
    status: Status,
    finished: Vec<(Finished, Life)>,
    /// (flush, fua) commands of the drive.
    flushes: (u64, u64),
}

impl Pair {
    fn new(config: &NbdConfig, jobs: Vec<(ThreadSpec, List)>, latency: u64) -> Pair {
        let mut whole = stack(4);
        (whole.cost.socket, whole.cost.nbd) = (SOCKET, NBD);
        whole.cost.poll.entry_miss = Span(100);
        whole.cost.spdk = SpdkCost {
            plugin: Span(400),
            check_enabled: Span(10),
            submit: Span(240),
            page: Span(3),
            process_completions: Span(40),
            complete: Span(150),
        };
        whole.nbd = Some(config.clone());
        let (c, s) = whole.ends().unwrap();
        let mut server =
            Host::new(&s, vec![], vec![DiskSpec::new(drive())]).unwrap().numbered(1, c.cores);
        server.serve(0, config);
        let device =
            DriveInfo { queues: 1, depth: c.queue_depth, volatile_cache: config.flush, ..drive() };
        let mut client = Host::new(&c, jobs, vec![DiskSpec::new(device)]).unwrap();
        client.connect(0, config);
        let mut pair = Pair {
            client,
            server,
            ctx: Ctx::new(),
            commands: Vec::new(),
            wire: Vec::new(),
            config: config.clone(),
            latency,
            status: Status::Success,
            finished: Vec::new(),
            flushes: (0, 0),
        };
        pair.server.start(&mut pair.ctx);
        pair.client.start(&mut pair.ctx);
        pair.drain();
        pair
    }

    fn drain(&mut self) {
        while let Some(out) = self.client.poll().or_else(|| self.server.poll()) {
            match out {
                Output::Submit { sq, sqe, .. } => {
                    self.flushes.0 += u64::from(sqe.opcode == wordline_nvme::Opcode::Flush);
                    self.flushes.1 += u64::from(sqe.fua);
                    let at = self.ctx.now + Span(self.latency);
                    self.ctx.at(at, Kind::Posted, self.commands.len() as u32);
                    self.commands.push((sq, sqe));
                }
                Output::Send { message: m, .. } if self.config.transport == Transport::Ethernet => {
                    let at = self.ctx.now + self.config.wire(m.bytes()) + self.config.delay;
                    self.ctx.mark(m.io, Layer::Network, Why::Data, 0, at);
                    self.ctx.at(at, Kind::Network, self.wire.len() as u32);
                    self.wire.push(m);
                }
                Output::Send { message: m, .. } => self.receive(m),
                Output::Ended { .. } | Output::TakeReport { .. } => {}
                Output::Hold { .. } => panic!("no drive of these hosts is in an array"),
                Output::Mask { .. } => panic!("no queue of these hosts is masked"),
                Output::Finished(f) => {
                    let life = self.ctx.lives.end(f.io);
                    assert_eq!((life.begin, life.end), (f.issued, f.completed));
                    assert_eq!(life.spent().iter().sum::<u64>(), life.latency().0);
                    self.finished.push((f, life));
                }
            }
        }
    }

    fn receive(&mut self, m: Message) {
        let host = if m.reply { &mut self.client } else { &mut self.server };
        host.receive(&mut self.ctx, 0, m);
    }

    /// Until all jobs have ended: a reactor never stops.
    fn run(&mut self) {
        while !self.client.idle() {
            assert!(self.ctx.queue.popped() < 5_000_000, "no end: {:?}", self.ctx.now);
            let (now, event) = self.ctx.queue.pop().expect("it comes to a halt");
            self.ctx.now = now;
            match event.kind() {
                Kind::Posted => {
                    let (sq, sqe) = self.commands[event.index() as usize];
                    self.ctx.mark(sqe.io, Layer::Nand, Why::Read, 0, now);
                    let status = self.status;
                    let cqe = Cqe { sq, cid: sqe.cid, sq_head: 0, status, phase: true, held: None };
                    self.server.on_posted(&mut self.ctx, (0, sq), cqe, true);
                }
                Kind::Network => self.receive(self.wire[event.index() as usize]),
                _ if event.node() == 1 => self.server.on_event(&mut self.ctx, event),
                _ => self.client.on_event(&mut self.ctx, event),
            }
            self.drain();
        }
        let now = self.ctx.now;
        for host in [&self.client, &self.server] {
            assert_eq!((host.block.nodes.len(), host.block.requests.len()), (0, 0));
            for core in host.stats(now).cores {
                assert_eq!(core.user + core.system + core.irq + core.idle, now.0, "{core:?}");
            }
        }
        assert_eq!(self.ctx.lives.in_flight(), 0);
    }

    fn latencies(&self) -> Vec<u64> {
        self.finished.iter().map(|(f, _)| f.completed.since(f.issued).0).collect()
    }
}

fn job(engine: Engine, depth: u32, items: Vec<Next>) -> (ThreadSpec, List) {
    (ThreadSpec::new("j", engine, depth), list(items))
}
fn reads(n: u64) -> Vec<Next> {
    (0..n).map(|i| io(Ddir::Read, i * 40_960, 4096)).collect()
}

/// Of `tests::i7_8700`: to the request's place in its queue, and from there to the doorbell.
const PLACED: u64 = 150 + 550 + 250 + 400;
const ISSUED: u64 = PLACED + 200 + 150;
const WAKE: u64 = 1_300;
const IPI: u64 = 700;
const CROSSING: u64 = 150;
const FINISH: u64 = 300;
const HANDLER: u64 = 500 + 400 + 300;

/// From a request's place to the end of its sending, by kblockd's worker of the same core.
fn sending(s: &SocketCost) -> u64 {
    WAKE + NBD.queue.0 + s.unix_send.0
}
/// From the reply's sending to the return of the call.
fn receiving(s: &SocketCost) -> u64 {
    let received = IPI + WAKE + 2 * s.unix_receive.0 + s.copy.0 + NBD.complete.0;
    received + IPI + WAKE + FINISH
}
fn replying(s: &SocketCost) -> u64 {
    2 * (CROSSING + s.unix_send.0) + s.copy.0
}

#[test]
fn a_read_over_nbd_server_costs_the_sum_of_its_stages() {
    const DRIVE: u64 = 7_300;
    for transport in [Transport::Unix, Transport::Loopback, Transport::Ethernet] {
        let config = nbd(NbdServer::NbdServer, transport);
        let mut pair = Pair::new(&config, vec![job(Engine::Pvsync2, 1, reads(40))], DRIVE);
        pair.run();
        let mut s = SOCKET;
        // Over TCP calls cost more, and each message a packet, on the loopback where it is sent.
        let mut packets = 0;
        if transport != Transport::Unix {
            (s.unix_send, s.unix_receive) = (s.tcp_send, s.tcp_receive);
            packets = 2 * s.packet.0;
        }
        if transport == Transport::Ethernet {
            // An interrupt of the card in place of one of the other core, and the wire: 28 bytes in a
            // packet, 4112 in three.
            packets += 2 * 500;
            packets -= 2 * IPI;
            packets += 2 * 1_000 + (28 + 90) * 8 / 10 + (4_112 + 3 * 90) * 8 / 10;
        }
        let served = IPI + WAKE + s.unix_receive.0 + 2 * CROSSING + NBD.serve.0 + NBD.pool.0;
        let drive = IPI + WAKE + ISSUED + DRIVE + HANDLER + WAKE + FINISH;
        let sum = PLACED + sending(&s) + served + drive + replying(&s) + receiving(&s) + packets;
        assert_eq!(pair.latencies(), vec![sum; 40], "{transport:?}");
        let (_, life) = &pair.finished[7];
        assert_eq!(life.spent()[Layer::Nand as usize], DRIVE);
        assert_eq!(life.spent()[Layer::Syscall as usize], 150 + 550);
        let own = NBD.serve.0 + NBD.pool.0 + drive - DRIVE;
        assert_eq!(life.spent()[Layer::Server as usize], own, "{:?}", life.steps());
    }
}

#[test]
fn a_read_over_spdk_waits_for_a_turn_of_its_reactor() {
    const DRIVE: u64 = 7_300;
    let config = nbd(NbdServer::Spdk, Transport::Unix);
    let mut pair = Pair::new(&config, vec![job(Engine::Pvsync2, 1, reads(40))], DRIVE);
    pair.run();
    let before = NBD.reactor.0 + CROSSING + SOCKET.empty.0 + 10;
    let (turn, s) = (before + 40, &SOCKET);
    let look = |from: u64, at: u64| {
        let mut look = from + before;
        while look < at {
            look += turn;
        }
        look
    };
    let taken = SOCKET.unix_receive.0 + CROSSING + NBD.bdev.0 + 10 + 240;
    // From one reply to the next.
    let arrived = receiving(s) + PLACED + sending(s);
    let submitted = look(0, arrived) + taken;
    let done = look(submitted, submitted + DRIVE) + 100 + 150;
    let cycle = done + replying(s);
    assert_eq!(pair.latencies()[1..], vec![cycle; 39]);
    let stats = pair.server.stats(pair.ctx.now);
    assert_eq!(stats.counters.interrupts, 0);
    assert_eq!(stats.cores[0].idle, 0, "a reactor never sleeps");
    assert_eq!(stats.counters.requests, 40);
    assert_eq!(pair.client.counters.nbd_requests, 40);
    // Functions sum to what its core did, but for the loop at the end.
    let named: u64 = stats.functions[0].iter().map(|f| f.ns).sum();
    let (busy, last) = (stats.cores[0].user + stats.cores[0].system, receiving(s));
    assert!(named <= busy && busy <= named + last, "{named} of {busy}");
}

#[test]
fn littles_law_holds_and_depth_is_bounded() {
    for server in [NbdServer::NbdServer, NbdServer::Spdk] {
        for depth in [1, 4, 16] {
            let config = NbdConfig { threads: 4, ..nbd(server, Transport::Unix) };
            let ios = 2_000;
            let mut pair = Pair::new(&config, vec![job(Engine::Libaio, depth, reads(ios))], 20_000);
            pair.run();
            let sum: u64 = pair.latencies().iter().sum();
            let in_flight = sum as f64 / pair.ctx.now.0 as f64;
            let expected = f64::from(depth);
            assert!((in_flight / expected - 1.0).abs() < 0.02, "{server:?} {in_flight} {depth}");
        }
        // No more than the device's depth is at the server at once.
        let config = NbdConfig { queue_depth: 2, ..nbd(server, Transport::Unix) };
        let mut pair = Pair::new(&config, vec![job(Engine::Libaio, 16, reads(300))], 50_000);
        pair.run();
        let rate = 300.0 / (pair.ctx.now.0 as f64 / 1e9);
        assert!(rate < 2.0 / 50e-6, "{rate}");
        assert!(pair.client.counters.tag_waits > 0);
    }
}

/// Everything at once, of both servers over every transport: all comes back, once, and every
/// nanosecond and node is accounted for.
#[test]
fn random_jobs_over_nbd_get_every_io_back() {
    for seed in 0..24u64 {
        let mut rng = Rng::from_seed(seed);
        let spdk = rng.below(2) == 0;
        let (server, transport) = match (spdk, rng.below(3)) {
            (true, _) => (NbdServer::Spdk, Transport::Unix),
            (false, 0) => (NbdServer::NbdServer, Transport::Unix),
            (false, 1) => (NbdServer::NbdServer, Transport::Loopback),
            _ => (NbdServer::NbdServer, Transport::Ethernet),
        };
        let config = NbdConfig {
            scheduler: rng.pick(&Scheduler::ALL),
            threads: 1 + rng.below(5) as u32,
            queue_depth: 1 + rng.below(40) as u32,
            flush: rng.below(2) == 0,
            max_request: 8192 << rng.below(5),
            ..nbd(server, transport)
        };
        let engines = [Engine::Pvsync2, Engine::Libaio, Engine::IoUring];
        let jobs: Vec<_> = (0..3)
            .map(|_| {
                let ddir = |n| match n {
                    0..=4 => Ddir::Read,
                    5..=8 => Ddir::Write,
                    9 => Ddir::Trim,
                    _ => Ddir::Sync,
                };
                let items = (0..120)
                    .map(|_| {
                        let (ddir, pages) = (ddir(rng.below(11)), 1 + rng.below(60));
                        let len = if ddir.is_sync() { 0 } else { pages as u32 * 4096 };
                        io(ddir, rng.below(60_000) * 4096, len)
                    })
                    .collect();
                job(engines[rng.below(3) as usize], 1 + rng.below(24) as u32, items)
            })
            .collect();
        let mut pair = Pair::new(&config, jobs, 1_000 + rng.below(60_000));
        pair.run();
        assert_eq!(pair.finished.len(), 360, "seed {seed}");
        assert!(pair.finished.iter().all(|(f, _)| f.ok), "seed {seed}");
        assert_eq!(pair.flushes.0 > 0, config.flush, "seed {seed}: {:?}", pair.flushes);
    }
}

#[test]
fn a_failed_command_fails_at_the_client() {
    for server in [NbdServer::NbdServer, NbdServer::Spdk] {
        let config = nbd(server, Transport::Unix);
        let mut spec = ThreadSpec::new("j", Engine::Pvsync2, 1);
        spec.continue_on_error = true;
        let mut pair = Pair::new(&config, vec![(spec, list(reads(3)))], 1_000);
        pair.status = Status::UnrecoveredRead;
        pair.run();
        assert!(pair.finished.len() == 3 && pair.finished.iter().all(|(f, _)| !f.ok));
    }
}

#[test]
fn a_job_cannot_drive_a_drive_that_it_has_over_nbd() {
    let mut whole = stack(4);
    whole.nbd = Some(nbd(NbdServer::Spdk, Transport::Unix));
    let (client, _) = whole.ends().unwrap();
    let e = Host::new(&client, vec![job(Engine::Spdk, 1, reads(1))], vec![DiskSpec::new(drive())])
        .err();
    assert_eq!(crate::tests::refused(e), "ioengine");
    let mut config = nbd(NbdServer::Spdk, Transport::Loopback);
    assert_eq!(config.check(4).unwrap_err().key, "nbd.transport");
    config = NbdConfig { server_cores: 4, ..nbd(NbdServer::Spdk, Transport::Unix) };
    assert_eq!(config.check(4).unwrap_err().key, "nbd.server_cores");
}

#[test]
fn a_message_on_the_wire_takes_its_bits() {
    let config = nbd(NbdServer::NbdServer, Transport::Ethernet);
    // 28 bytes and 90 of headers at 10 Gbit/s; 1448 fit a packet, one more makes two.
    assert_eq!(config.wire(28), Span(94));
    assert_eq!(config.wire(1_448), Span((1_448 + 90) * 8 / 10));
    assert_eq!(config.wire(1_449), Span((1_449 + 180) * 8 / 10));
}
