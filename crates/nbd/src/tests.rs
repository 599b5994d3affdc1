use super::*;
use wordline_base::Rng;

const SIZE: u64 = 1 << 20;

fn exports() -> std::sync::Arc<[Export]> {
    let export = |name: &str, read_only| Export {
        name: name.into(),
        description: format!("the drive as {name:?}"),
        size: SIZE,
        read_only,
    };
    [export("", false), export("ro", true)].into()
}

fn session(tls: Tls) -> Session {
    Session::new(exports(), Limits { request: 1 << 16, ..Limits::default() }, tls)
}

fn feed(session: &mut Session, mut bytes: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    while !bytes.is_empty() && !session.is_closed() {
        let space = session.space();
        let n = space.len().min(bytes.len());
        space[..n].copy_from_slice(&bytes[..n]);
        session.arrived(n);
        bytes = &bytes[n..];
        while let Some(event) = session.poll() {
            events.push(event);
        }
    }
    events
}

fn option(option: u32, data: &[u8]) -> Vec<u8> {
    let mut m = OPTION.to_be_bytes().to_vec();
    m.extend(option.to_be_bytes());
    m.extend((data.len() as u32).to_be_bytes());
    m.extend(data);
    m
}
fn go(name: &str, wants: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((wants.len() as u16).to_be_bytes());
    data.extend(wants.iter().flat_map(|w| w.to_be_bytes()));
    option(opt::GO, &data)
}
fn request(command: u16, flags: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let mut m = REQUEST.to_be_bytes().to_vec();
    m.extend(flags.to_be_bytes());
    m.extend(command.to_be_bytes());
    m.extend(cookie.to_be_bytes());
    m.extend(offset.to_be_bytes());
    m.extend(len.to_be_bytes());
    m
}
fn context(name: &str, query: &str) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend(1u32.to_be_bytes());
    data.extend((query.len() as u32).to_be_bytes());
    data.extend(query.as_bytes());
    option(opt::SET_META_CONTEXT, &data)
}
/// Types of the option replies sent so far, which are taken.
fn replies(session: &mut Session) -> Vec<u32> {
    let out = session.output().to_vec();
    session.sent(out.len());
    let (mut kinds, mut at) = (Vec::new(), 0);
    if out.starts_with(&GREETING.to_be_bytes()) {
        at = 18;
    }
    while at + 20 <= out.len() {
        assert_eq!(wire::be64(&out, at), OPTION_REPLY);
        kinds.push(wire::be32(&out, at + 12));
        at += 20 + wire::be32(&out, at + 16) as usize;
    }
    kinds
}
fn ready(structured: bool) -> Session {
    let mut s = session(Tls::No);
    let mut hello = 3u32.to_be_bytes().to_vec();
    if structured {
        hello.extend(option(opt::STRUCTURED_REPLY, &[]));
        hello.extend(context("", ALLOCATION));
    }
    hello.extend(go("", &[]));
    assert_eq!(feed(&mut s, &hello), [Event::Ready(0)]);
    replies(&mut s);
    s
}
/// Errors of simple replies or error chunks, by cookie; the replies are taken.
fn errors(s: &mut Session) -> Vec<(u64, u32)> {
    let out = s.output().to_vec();
    s.sent(out.len());
    let (mut found, mut at) = (Vec::new(), 0);
    while at < out.len() {
        if wire::be32(&out, at) == SIMPLE_REPLY {
            found.push((wire::be64(&out, at + 8), wire::be32(&out, at + 4)));
            at += 16;
        } else {
            let (kind, len) = (wire::be16(&out, at + 6), wire::be32(&out, at + 16) as usize);
            let error = if kind == chunk::ERROR { wire::be32(&out, at + 20) } else { 0 };
            found.push((wire::be64(&out, at + 8), error));
            at += 20 + len;
        }
    }
    found
}

#[test]
fn the_handshake_answers_every_option() {
    let mut s = session(Tls::No);
    let mut hello = 3u32.to_be_bytes().to_vec();
    hello.extend(option(opt::LIST, &[]));
    hello.extend(option(opt::LIST, b"x"));
    hello.extend(option(opt::STARTTLS, &[]));
    hello.extend(context("", ALLOCATION));
    hello.extend(option(opt::STRUCTURED_REPLY, &[]));
    hello.extend(context("", ALLOCATION));
    hello.extend(context("", "qemu:dirty-bitmap:x"));
    hello.extend(context("nobody", ALLOCATION));
    hello.extend(option(77, b"what"));
    hello.extend(option(opt::GO, &[0, 0, 0, 99, 1, 1]));
    hello.extend(go("nobody", &[]));
    hello.extend(option(78, &vec![7; 60_000]));
    hello.extend(go("ro", &[info::NAME, info::DESCRIPTION, info::BLOCK_SIZE]));
    assert_eq!(feed(&mut s, &hello), [Event::Ready(1)]);
    use rep::*;
    let expected = [
        [SERVER, SERVER, ACK].as_slice(),
        &[ERR_INVALID, ERR_POLICY, ERR_INVALID, ACK, META_CONTEXT, ACK, ACK, ERR_UNKNOWN],
        &[ERR_UNSUP, ERR_INVALID, ERR_UNKNOWN, ERR_TOO_BIG, INFO, INFO, INFO, INFO, ACK],
    ];
    assert_eq!(replies(&mut s), expected.concat());
}

#[test]
fn options_are_counted_whatever_their_length() {
    for len in [0, 20_000] {
        let mut s = session(Tls::No);
        feed(&mut s, &3u32.to_be_bytes());
        let one = option(99, &vec![0; len]);
        let closed = |events: Vec<Event>| events.iter().any(|e| matches!(e, Event::Closed(_)));
        let most = (1..).find(|_| {
            let over = closed(feed(&mut s, &one));
            replies(&mut s);
            over || s.is_closed()
        });
        assert_eq!(most, Some(257), "{len} bytes");
    }
}

#[test]
fn without_tls_nothing_is_told_where_it_is_required() {
    let mut s = session(Tls::Required);
    let mut hello = 3u32.to_be_bytes().to_vec();
    hello.extend(option(opt::LIST, &[]));
    hello.extend(go("", &[]));
    assert!(feed(&mut s, &hello).is_empty());
    assert_eq!(replies(&mut s), [rep::ERR_TLS_REQD, rep::ERR_TLS_REQD]);
    assert_eq!(feed(&mut s, &option(opt::STARTTLS, &[])), [Event::StartTls]);
    assert_eq!(replies(&mut s), [rep::ACK]);
    s.tls_begun();
    assert_eq!(feed(&mut s, &go("", &[])), [Event::Ready(0)]);
    // What follows STARTTLS without waiting was not sent in the tunnel.
    let mut s = session(Tls::Offered);
    let mut hello = 3u32.to_be_bytes().to_vec();
    hello.extend(option(opt::STARTTLS, &[]));
    hello.extend(go("", &[]));
    assert_eq!(feed(&mut s, &hello), [Event::Closed("data before TLS")]);
}

#[test]
fn requests_earn_their_errors_and_others_go_on() {
    use errno::*;
    let mut s = ready(true);
    let mut sent = Vec::new();
    let rows = [
        (cmd::READ, 0, SIZE - 1, 2, EINVAL),
        (cmd::READ, 0, u64::MAX, 2, EINVAL),
        (cmd::READ, 0, 0, 0, EINVAL),
        (cmd::READ, 0, 0, 1 << 17, EOVERFLOW),
        (cmd::READ, cmd::FLAG_NO_HOLE, 0, 1, EINVAL),
        (cmd::TRIM, 0, SIZE, 1, EINVAL),
        (cmd::WRITE_ZEROES, 0, SIZE, 1, ENOSPC),
        (cmd::FLUSH, 0, 1, 0, EINVAL),
        (99, 0, 0, 0, EINVAL),
    ];
    for (i, row) in rows.iter().enumerate() {
        sent.extend(request(row.0, row.1, i as u64, row.2, row.3));
    }
    sent.extend(request(cmd::WRITE, 0, 100, SIZE, 512));
    sent.extend([1; 512]);
    sent.extend(request(cmd::WRITE, 0, 101, 0, 1 << 17));
    sent.extend(vec![1; 1 << 17]);
    sent.extend(request(cmd::WRITE, cmd::FLAG_FUA, 102, 512, 512));
    sent.extend([2; 512]);
    let events = feed(&mut s, &sent);
    let [Event::Request(write)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((write.cookie, write.fua, write.offset), (102, true, 512));
    let mut expected: Vec<_> = rows.iter().enumerate().map(|(i, r)| (i as u64, r.4)).collect();
    expected.extend([(100, ENOSPC), (101, EINVAL)]);
    assert_eq!(errors(&mut s), expected);
    assert_eq!(s.in_flight(), 1);
    s.reply_done(102);
    assert_eq!(errors(&mut s), [(102, 0)]);
}

#[test]
fn a_read_only_export_takes_no_writes_and_block_status_needs_its_context() {
    let mut s = session(Tls::No);
    let mut hello = 3u32.to_be_bytes().to_vec();
    hello.extend(option(opt::STRUCTURED_REPLY, &[]));
    hello.extend(context("", ALLOCATION)); // Of another export.
    hello.extend(go("ro", &[]));
    assert_eq!(feed(&mut s, &hello), [Event::Ready(1)]);
    replies(&mut s);
    let mut sent = request(cmd::WRITE, 0, 1, 0, 1);
    sent.push(0);
    sent.extend(request(cmd::TRIM, 0, 2, 0, 1));
    sent.extend(request(cmd::BLOCK_STATUS, 0, 3, 0, 1));
    assert!(feed(&mut s, &sent).is_empty());
    use errno::*;
    assert_eq!(errors(&mut s), [(1, EPERM), (2, EPERM), (3, EINVAL)]);
}

#[test]
fn a_full_connection_waits() {
    let limits = Limits { in_flight: 2, ..Limits::default() };
    let mut s = Session::new(exports(), limits, Tls::No);
    let mut sent = 3u32.to_be_bytes().to_vec();
    sent.extend(go("", &[]));
    for cookie in 0..4 {
        sent.extend(request(cmd::READ, 0, cookie, 0, 1));
    }
    assert_eq!(feed(&mut s, &sent).len(), 1 + 2);
    assert!(s.is_full() && s.poll().is_none());
    s.reply_data(0, 0, &[7]);
    assert!(matches!(s.poll(), Some(Event::Request(r)) if r.cookie == 2));
}

/// A session cut to pieces and damaged at random: a million messages, no panic, bounded memory.
#[test]
fn mutated_messages_do_no_harm() {
    let sessions = 1_000_000 / 25;
    for seed in 0..sessions {
        let mut rng = Rng::from_seed(0xFEED ^ seed);
        let tls = [Tls::No, Tls::Offered, Tls::Required][rng.below(3) as usize];
        let mut s = session(tls);
        let mut bytes = (rng.below(4) as u32).to_be_bytes().to_vec();
        let mut messages = 25;
        let structured = rng.below(2) == 0;
        if structured {
            bytes.extend(option(opt::STRUCTURED_REPLY, &[]));
        }
        for _ in 0..rng.below(6) {
            let code = rng.below(13) as u32;
            let data: Vec<u8> = (0..rng.below(24)).map(|_| rng.below(5) as u8).collect();
            bytes.extend(match rng.below(4) {
                0 => context(["", "ro", "x"][rng.below(3) as usize], ALLOCATION),
                1 => go(["ro", "x"][rng.below(2) as usize], &[3, 1]),
                _ => option(code, &data),
            });
            messages -= 1;
        }
        bytes.extend(go("", &[info::BLOCK_SIZE]));
        for cookie in 0..messages {
            let len = [0, 1, 512, 4096, 1 << 16, 1 << 17, u32::MAX][rng.below(7) as usize];
            let command = rng.below(9) as u16;
            let flags = if rng.below(4) == 0 { rng.below(64) as u16 } else { 0 };
            let offset = [0, 4096, SIZE - 512, SIZE, u64::MAX][rng.below(5) as usize];
            bytes.extend(request(command, flags, cookie, offset, len));
            if command == cmd::WRITE && len <= 4096 {
                bytes.extend(vec![0xAB; len as usize]);
            }
        }
        let damage = rng.below(4);
        for _ in 0..damage {
            let at = rng.below(bytes.len() as u64) as usize;
            match rng.below(3) {
                0 => bytes[at] ^= 1 << rng.below(8),
                1 => {
                    bytes.remove(at);
                }
                _ => bytes[at] = rng.below(256) as u8,
            }
        }
        let mut at = 0;
        while at < bytes.len() && !s.is_closed() {
            let most = if rng.below(3) == 0 { 40 } else { 5000 };
            let n = 1 + rng.below(most) as usize;
            let piece = &bytes[at..(at + n).min(bytes.len())];
            at += piece.len();
            for event in feed(&mut s, piece) {
                match event {
                    Event::StartTls => s.tls_begun(),
                    Event::Request(r) => {
                        let end = r.offset + u64::from(r.len);
                        assert!(end <= SIZE && (r.len <= 1 << 16 || r.kind != Kind::Write));
                        match r.kind {
                            Kind::Read => s.reply_data(r.cookie, r.offset, &[0; 16]),
                            Kind::BlockStatus => s.reply_status(r.cookie, &[(r.len, 3)]),
                            kind => s.reply_error(r.cookie, kind, errno::EIO, "no"),
                        }
                    }
                    _ => {}
                }
            }
            assert!(s.memory() <= 2 << 20, "seed {seed}: {} bytes held", s.memory());
            let n = s.output().len();
            s.sent(n);
        }
    }
}

/// Answers that nobody takes have the memory that they need, and no more.
#[test]
fn answers_take_no_more_memory_than_they_have() {
    for len in [512, 4096, 1 << 16] {
        let mut s = ready(true);
        let before = s.memory();
        let (mut answered, data) = (0, vec![7; len]);
        while answered < 9 << 20 {
            let cookie = answered as u64;
            let asked = feed(&mut s, &request(cmd::READ, 0, cookie, 0, len as u32));
            assert!(matches!(&asked[..], [Event::Request(r)] if r.cookie == cookie));
            s.reply_data(cookie, 0, &data);
            answered += 28 + len;
            assert_eq!(s.output_len(), answered);
            let more = s.memory() - before;
            assert!(more <= answered + (128 << 10), "{answered} of {len}: {more} bytes");
        }
        while s.output_len() > 0 {
            s.sent(s.output().len());
        }
        assert!(s.memory() <= before + (1 << 20), "{} bytes are kept", s.memory());
    }
}

/// It takes requests as large as the export.
fn ready_for_large() -> Session {
    let mut s = Session::new(exports(), Limits::default(), Tls::No);
    feed(&mut s, &[&3u32.to_be_bytes()[..], &go("", &[])].concat());
    s.sent(s.output().len());
    s
}

/// What a session says that it will take is what it takes: its buffer grows by no more.
#[test]
fn memory_grows_by_what_was_announced() {
    let mut s = ready_for_large();
    let len = SIZE as u32;
    let bytes = [request(cmd::WRITE, 0, 7, 0, len), vec![5; len as usize]].concat();
    let (mut at, mut grown) = (0, 0);
    while at < bytes.len() {
        let growth = s.growth();
        let announced = s.memory() + growth;
        let n = s.space().len().min(bytes.len() - at);
        assert!(s.memory() <= announced, "{} bytes held, {announced} announced", s.memory());
        s.space()[..n].copy_from_slice(&bytes[at..at + n]);
        s.arrived(n);
        at += n;
        grown += usize::from(growth > 0);
        let event = s.poll();
        assert_eq!(event.is_some(), at == bytes.len(), "{event:?}");
    }
    assert!(grown > 2, "it grew {grown} times");
    assert!(s.payload() == &bytes[28..]);
}

/// What a large write needed is given back when it was taken, not when its client sends the next request.
#[test]
fn an_idle_client_holds_no_memory_of_a_write() {
    let mut s = ready_for_large();
    let before = s.memory();
    let len = SIZE as u32;
    let sent = [request(cmd::WRITE, 0, 7, 0, len), vec![5; len as usize]].concat();
    let taken = feed(&mut s, &sent);
    assert!(matches!(&taken[..], [Event::Request(r)] if r.cookie == 7));
    assert!(s.memory() <= before, "{} bytes, {before} before", s.memory());
}

#[test]
fn the_client_understands_the_server() {
    use std::io::{Read, Write};
    /// The two sides face to face: what the client writes is answered at once.
    struct Wire {
        session: Session,
        disk: Vec<u8>,
    }
    impl Write for Wire {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let space = self.session.space();
            let n = space.len().min(bytes.len());
            space[..n].copy_from_slice(&bytes[..n]);
            self.session.arrived(n);
            while let Some(event) = self.session.poll() {
                let Event::Request(r) = event else { continue };
                let at = r.offset as usize..r.offset as usize + r.len as usize;
                match r.kind {
                    Kind::Read => self.session.reply_data(r.cookie, r.offset, &self.disk[at]),
                    Kind::Write => {
                        self.disk[at].copy_from_slice(self.session.payload());
                        self.session.reply_done(r.cookie);
                    }
                    Kind::BlockStatus => self.session.reply_status(r.cookie, &[(r.len, 0)]),
                    kind => self.session.reply_error(r.cookie, kind, errno::ENOTSUP, "no"),
                }
            }
            Ok(n)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    impl Read for Wire {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let n = into.len().min(self.session.output().len());
            into[..n].copy_from_slice(&self.session.output()[..n]);
            self.session.sent(n);
            Ok(n)
        }
    }
    for structured in [false, true] {
        let wire = Wire { session: session(Tls::No), disk: vec![0; SIZE as usize] };
        let mut c = Client::connect(wire, "", structured).unwrap();
        assert_eq!((c.info.size, c.info.allocation), (SIZE, structured));
        assert_eq!(c.info.flags & flag::DF != 0, structured);
        assert_eq!(c.call(cmd::WRITE, 0, 5, 3, b"abc").unwrap().error, 0);
        let reply = c.call(cmd::READ, 0, 4, 5, &[]).unwrap();
        assert_eq!(reply.data[0].1, b"\0abc\0");
        assert_eq!(c.call(cmd::TRIM, 0, 0, 1, &[]).unwrap().error, errno::ENOTSUP);
        assert_eq!(c.call(cmd::READ, 0, SIZE, 1, &[]).unwrap().error, errno::EINVAL);
        let status = c.call(cmd::BLOCK_STATUS, 0, 0, 4096, &[]).unwrap();
        assert_eq!(status.error == 0, structured);
        let wire = Wire { session: session(Tls::No), disk: vec![] };
        assert!(matches!(Client::connect(wire, "x", structured), Err(ClientError::Refused(..))));
    }
}

/// Requests as they were sent, whatever the pieces in which both sides' bytes pass.
#[test]
fn a_tap_hears_what_is_asked() {
    for seed in 0..200 {
        let mut rng = Rng::from_seed(seed);
        let mut s = session(Tls::No);
        let mut tap = Tap::default();
        let mut heard = Vec::new();
        let mut bytes = 3u32.to_be_bytes().to_vec();
        bytes.extend(option(opt::LIST, &[]));
        bytes.extend(option(11, &[])); // Extended headers: refused.
        bytes.extend(go("nobody", &[]));
        bytes.extend(option(opt::STRUCTURED_REPLY, &[]));
        let named = rng.below(2) == 0;
        bytes.extend(if named { option(opt::EXPORT_NAME, b"ro") } else { go("ro", &[3]) });
        let mut sent = Vec::new();
        for cookie in 0..30 {
            let (command, flags) = (rng.below(8) as u16, rng.below(4) as u16);
            let command = if command == cmd::DISC { cmd::READ } else { command };
            let (offset, len) = (rng.below(SIZE), rng.below(5000) as u32);
            bytes.extend(request(command, flags, cookie, offset, len));
            if command == cmd::WRITE {
                bytes.extend(vec![0x25; len as usize]);
            }
            sent.push(Seen { command, flags, offset, len: len.into() });
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(rest.len().min(1 + rng.below(3000) as usize));
            rest = later;
            tap.from_client(piece, &mut |request| heard.push(request)).unwrap();
            for event in feed(&mut s, piece) {
                if let Event::Request(r) = event {
                    s.reply_error(r.cookie, r.kind, errno::EIO, "no");
                }
            }
            while !s.output().is_empty() {
                let n = s.output().len().min(1 + rng.below(100) as usize);
                let heard = &mut |request| heard.push(request);
                tap.from_server(&s.output()[..n], heard).unwrap();
                s.sent(n);
            }
        }
        assert_eq!(heard, sent, "seed {seed}");
        assert_eq!(tap.export(), "ro");
    }
    // What is not NBD, or is about to be unreadable, is said.
    let mut tap = Tap::default();
    assert!(tap.from_client(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &mut |_| {}).is_err());
    let mut s = session(Tls::Offered);
    let mut tap = Tap::default();
    let mut hello = 3u32.to_be_bytes().to_vec();
    hello.extend(option(opt::STARTTLS, &[]));
    tap.from_client(&hello, &mut |_| {}).unwrap();
    feed(&mut s, &hello);
    assert!(tap.from_server(s.output(), &mut |_| {}).is_err_and(|why| why.contains("TLS")));
}
