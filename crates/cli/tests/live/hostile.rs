//! Clients that are slow, broken or worse, and what the server tells of itself meanwhile.

use super::place::{HANGS, Place, Running, connect, run, skip, start_on_port, wait_until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use wordline_nbd::{Client, cmd, errno};

const SMALL: &str = "--size 48M --device cnex-small --time-scale 0";

/// Bytes of memory the server has.
fn memory(server: &Running) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}
fn works(place: &Place) {
    let mut c = place.client("");
    assert_eq!(c.call(cmd::WRITE, 0, 4096, 4096, &[1; 4096]).unwrap().error, 0);
    assert_eq!(c.call(cmd::READ, 0, 4096, 4096, &[]).unwrap().data[0].1, [1; 4096]);
}

#[test]
fn malice_costs_its_author_only() {
    let place = Place::new(&format!("{SMALL} --max-connections 64"));
    let server = place.start();
    let before = memory(&server);
    let connect = || connect(&place.socket());
    // Not NBD; half a greeting; more options than anybody needs; an option of 4 GiB.
    let option = |kind: u32, len: u32| {
        let mut bytes = b"IHAVEOPT".to_vec();
        bytes.extend(kind.to_be_bytes());
        bytes.extend(len.to_be_bytes());
        bytes
    };
    let closed = |bytes: &[u8]| {
        let mut s = connect();
        let _ = s.write_all(bytes);
        let mut rest = Vec::new();
        let read = s.read_to_end(&mut rest);
        // Reset: it closed with bytes unread.
        assert!(read.is_ok() || read.unwrap_err().kind() == std::io::ErrorKind::ConnectionReset);
    };
    closed(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    closed(&[&3u32.to_be_bytes()[..], &option(99, 0).repeat(300)].concat());
    closed(&[&3u32.to_be_bytes()[..], &option(99, u32::MAX), &[0; 65536]].concat());
    let mut halves = Vec::new();
    for _ in 0..8 {
        let mut s = connect();
        s.write_all(&[0, 0]).unwrap();
        halves.push(s);
    }
    // Writes that announce what they never send, and reads whose answers nobody takes.
    let mut held = Vec::new();
    for i in 0..16 {
        let mut c = place.client("");
        if i % 2 == 0 {
            let mut head = 0x2560_9513u32.to_be_bytes().to_vec();
            head.extend([0, 0, 0, 1]);
            head.extend(7u64.to_be_bytes());
            head.extend(0u64.to_be_bytes());
            head.extend((if i % 4 == 0 { 32 << 20 } else { u32::MAX }).to_be_bytes());
            c.stream.write_all(&head).unwrap();
            c.stream.write_all(&[0; 5000]).unwrap();
        } else {
            c.stream.set_nonblocking(true).unwrap();
            for cookie in 0..2000 {
                if c.send(cmd::READ, 0, cookie, 0, 32 << 20, &[]).is_err() {
                    break;
                }
            }
        }
        held.push(c);
    }
    works(&place);
    // 64 MiB in flight, 40 of answers: for each of eight that read.
    let grown = memory(&server).saturating_sub(before);
    assert!(grown < (8 * (64 + 72)) << 20, "{} MiB", grown >> 20);
    // Too long, and thrown away as it comes: the connection goes on.
    let mut c = place.client("");
    let reply = c.call(cmd::WRITE, 0, 0, 40 << 20, &vec![0; 40 << 20]).unwrap();
    assert_eq!(reply.error, errno::EINVAL);
    assert_eq!(c.call(cmd::READ, 0, 0, 4096, &[]).unwrap().error, 0);
    drop((held, halves));
    works(&place);
    let (status, said) = server.stop();
    assert_eq!(status, Some(0), "{said}");
}

/// Forty clients that send writes without their end and take no answers hold what there is for clients,
/// and no more. Others go on, with small requests at once and with large ones when those are let go.
#[test]
fn memory_for_clients_has_one_limit_for_all() {
    holds_no_more(32 << 20, 100);
}
/// The same of many answers that are small.
#[test]
fn memory_of_small_answers_has_the_same_limit() {
    holds_no_more(64 << 10, 1000);
}
/// Half of the clients ask for so many reads of so many bytes.
fn holds_no_more(bytes: u32, reads: u64) {
    const LIMIT: u64 = 128 << 20;
    let place = Place::new(&format!("{SMALL} --max-connections 48 --client-memory 128M"));
    let server = place.start();
    let mut before_it = place.client("");
    for i in 0..48 {
        let reply = before_it.call(cmd::WRITE, 0, i << 20, 1 << 20, &vec![1; 1 << 20]).unwrap();
        assert_eq!(reply.error, 0);
    }
    let before = memory(&server);
    let mut held = Vec::new();
    for i in 0..40 {
        let mut c = place.client("");
        c.stream.set_nonblocking(true).unwrap();
        if i % 2 == 0 {
            let mut head = 0x2560_9513u32.to_be_bytes().to_vec();
            head.extend([0, 0, 0, 1]);
            head.extend(7u64.to_be_bytes());
            head.extend(0u64.to_be_bytes());
            head.extend((32u32 << 20).to_be_bytes());
            c.stream.write_all(&head).unwrap();
        } else {
            for cookie in 0..reads {
                if c.send(cmd::READ, 0, cookie, 0, bytes, &[]).is_err() {
                    break;
                }
            }
        }
        held.push(c);
    }
    let mut most = 0;
    let data = vec![0; 1 << 20];
    for round in 0..40 {
        for c in held.iter_mut().step_by(2) {
            let _ = c.stream.write(&data);
        }
        // Small ones wait for nobody.
        works(&place);
        let reply = before_it.call(cmd::READ, 0, round << 20, 256 << 10, &[]).unwrap();
        assert_eq!(reply.error, 0);
        most = most.max(memory(&server).saturating_sub(before));
    }
    // What an answer has twice, as it is sent; the drive's own buffers.
    assert!(most < LIMIT + (72 << 20), "{} MiB", most >> 20);
    let reply = before_it.call(cmd::READ, 0, 0, 32 << 20, &[]).unwrap();
    assert_eq!((reply.error, reply.data[0].1.len()), (0, 32 << 20));
    wait_until("who holds it and does nothing is let go", || {
        server.so_far().contains("memory for clients ran out, and those that held more than")
    });
    drop(held);
    works(&place);
    let (status, said) = server.stop();
    assert_eq!(status, Some(0), "{said}");
}

/// The machine keeps the requests of clients that left, and these count until it has answered them.
#[test]
fn clients_that_ask_and_leave_hold_no_more_memory_than_those_that_stay() {
    const LIMIT: u64 = 128 << 20;
    let place = Place::new(
        "--size 48M --device cnex-small --time-scale 20 --max-connections 8 --client-memory 128M",
    );
    let server = place.start();
    let mut stays = place.client("");
    assert_eq!(stays.call(cmd::WRITE, 0, 0, 4096, &[1; 4096]).unwrap().error, 0);
    let before = memory(&server);
    let mut most = 0;
    // One takes the shared half, and the other one's part is enough.
    for len in [32 << 20, 7 << 20] {
        for _ in 0..100 {
            if let Ok(mut c) = Client::connect(connect(&place.socket()), "", true) {
                let _ = c.send(cmd::READ, 0, 1, 0, len, &[]);
            }
            most = most.max(memory(&server).saturating_sub(before));
        }
        // A part of its own stays free for who was there before.
        let reply = stays.call(cmd::READ, 0, 0, 4096, &[]).unwrap();
        assert_eq!(reply.data[0].1, [1; 4096]);
    }
    assert!(most < LIMIT + (72 << 20), "{} MiB", most >> 20);
    let told = "requests of clients that left are still under way";
    wait_until("it is told", || server.so_far().contains(told));
    wait_until("a place is free when they are done", || {
        Client::connect(connect(&place.socket()), "", true).is_ok()
    });
    works(&place);
    let (status, said) = server.stop();
    assert_eq!(status, Some(0), "{said}");
}

/// Clients that wrote much and are idle hold nothing: one more may write as much.
#[test]
fn clients_that_wrote_and_are_idle_keep_no_memory_from_others() {
    let place = Place::new(&format!("{SMALL} --client-memory 128M"));
    let server = place.start();
    let data = vec![3; 32 << 20];
    let idle: Vec<_> = (0..15)
        .map(|_| {
            let mut c = place.client("");
            assert_eq!(c.call(cmd::WRITE, 0, 0, 32 << 20, &data).unwrap().error, 0);
            c
        })
        .collect();
    for mut c in idle {
        assert_eq!(c.call(cmd::READ, 0, 0, 4096, &[]).unwrap().error, 0);
    }
    let (status, said) = server.stop();
    assert_eq!(status, Some(0), "{said}");
}

/// A client that was idle for long, and then asks for much, is not slow: it is the drive that it waits for.
#[test]
fn a_client_is_not_slow_before_it_asks() {
    // Slow, so that it takes some time for 32 MiB.
    let place = Place::new(
        "--size 48M --device cnex-small --time-scale 20 --max-connections 48 --client-memory 128M",
    );
    let _server = place.start();
    let mut idle = place.client("");
    let [mut hog, mut third] = [0; 2].map(|_| place.client(""));
    std::thread::sleep(Duration::from_secs(6));
    let len = 32 << 20;
    hog.send(cmd::READ, 0, 1, 0, len, &[]).unwrap();
    idle.send(cmd::READ, 0, 1, 0, len, &[]).unwrap();
    // There is no room for it, so that the memory of the others is looked at.
    third.send(cmd::READ, 0, 1, 0, len, &[]).unwrap();
    let reply = idle.receive().expect("it is not let go");
    assert_eq!((reply.error, reply.data[0].1.len()), (0, len as usize));
    let reply = third.receive().unwrap();
    assert_eq!((reply.error, reply.data[0].1.len()), (0, len as usize));
}

#[test]
fn those_who_knock_and_go_or_stay_silent_keep_nobody_out() {
    let place = Place::new(&format!("{SMALL} --max-connections 4"));
    let server = place.start();
    for _ in 0..5 {
        (0..200).for_each(|_| drop(connect(&place.socket())));
        works(&place);
    }
    let silent: Vec<UnixStream> = (0..150).map(|_| connect(&place.socket())).collect();
    works(&place);
    wait_until("it is told", || {
        server.so_far().contains("in the handshake, the oldest first: 64 were in it")
    });
    drop(silent);
    let four: Vec<_> = (0..4).map(|_| place.client("")).collect();
    assert!(Client::connect(connect(&place.socket()), "", true).is_err(), "a fifth was let in");
    wait_until("it is told", || server.so_far().contains("refused 1 client: 4 are connected"));
    drop(four);
    wait_until("a place is free", || Client::connect(connect(&place.socket()), "", true).is_ok());
    let (status, said) = server.stop();
    assert_eq!(status, Some(0), "{said}");
}

/// Of two whose handshakes are under way when one place is left, the first to end its own has it.
#[test]
fn two_handshakes_at_once_do_not_take_one_place() {
    let place = Place::new(&format!("{SMALL} --max-connections 1"));
    let _server = place.start();
    let (first, second) = (connect(&place.socket()), connect(&place.socket()));
    let mut served = Client::connect(first, "", true).unwrap();
    assert!(Client::connect(second, "", true).is_err(), "two clients of one");
    assert_eq!(served.call(cmd::READ, 0, 0, 4096, &[]).unwrap().error, 0);
}

#[test]
fn a_handshake_byte_by_byte_is_not_waited_for() {
    let place = Place::new(&format!("{SMALL} --max-connections 1"));
    let _server = place.start();
    let begun = Instant::now();
    let mut slow = connect(&place.socket());
    // Two bytes a second: options of no known kind, as long as they are taken.
    let mut bytes = vec![0, 0, 0, 3];
    bytes.extend(b"IHAVEOPT\0\0\0\x63\0\0\0\0".repeat(30));
    let mut taken = 0;
    while slow.write_all(&bytes[taken..taken + 1]).is_ok() {
        taken += 1;
        std::thread::sleep(Duration::from_millis(500));
        assert!(begun.elapsed() < HANGS, "it is waited for");
    }
    // The server's ten seconds begin when it lets the client in.
    assert!(begun.elapsed() > Duration::from_secs(10), "{:?}", begun.elapsed());
    // Its place is free.
    works(&place);
}

/// Hundredths of a second of processor time the server has had.
fn processor(server: &Running) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.id())).unwrap();
    // The name, in parentheses, may have spaces: utime and stime are fields 14 and 15.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11..13].iter().map(|f| f.parse::<u64>().unwrap()).sum()
}

#[test]
fn out_of_descriptors_it_rests_and_serves_again() {
    let place = Place::new(&format!("{SMALL} --no-spin --max-connections 1000"));
    let server = place.start_under(&["bash", "-c", "ulimit -n 32; exec \"$@\"", "serve"]);
    let mut first = place.client("");
    // Those for whom there is no descriptor stay at the door.
    let callers: Vec<UnixStream> = (0..60).map(|_| connect(&place.socket())).collect();
    let open = || std::fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap().count();
    wait_until("all descriptors are taken", || open() >= 32);
    // The drive goes on for a second of its own, and rests then.
    let mut had = Vec::new();
    wait_until("a second of rest", || {
        let before = processor(&server);
        std::thread::sleep(Duration::from_secs(1));
        had.push(processor(&server) - before);
        had.last() < Some(&20)
    });
    assert!(server.so_far().contains("Too many open files"), "{}", server.so_far());
    println!("hundredths of a second of a processor, for nothing, in each second: {had:?}");
    assert_eq!(first.call(cmd::WRITE, 0, 0, 4096, &[1; 4096]).unwrap().error, 0);
    assert_eq!(first.call(cmd::READ, 0, 0, 4096, &[]).unwrap().data[0].1, [1; 4096]);
    drop(callers);
    works(&place);
    let (status, said) = server.stop();
    assert_eq!(status, Some(0), "{said}");
}

#[test]
fn what_is_told_can_be_parsed_and_adds_up() {
    let more = "--stats json --stats-interval 0.1";
    let (place, server, port) =
        start_on_port(|port| format!("{SMALL} {more} --prometheus 127.0.0.1:{port}"));
    let http = format!("127.0.0.1:{port}");
    let mut c = place.client("");
    for i in 0..500u64 {
        c.call(cmd::WRITE, 0, i << 12, 4096, &[3; 4096]).unwrap();
        c.call(cmd::READ, 0, i << 12, 4096, &[]).unwrap();
    }
    c.call(cmd::FLUSH, 0, 0, 0, &[]).unwrap();
    let scrape = |request: &str| {
        let mut s = TcpStream::connect(&http).unwrap();
        s.set_read_timeout(Some(HANGS)).unwrap();
        s.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        s.read_to_string(&mut text).unwrap();
        text
    };
    // One that says nothing holds up neither clients nor others.
    let _silent = TcpStream::connect(&http).unwrap();
    let answer = scrape("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.0 200 OK") && head.contains("text/plain; version=0.0.4"));
    let mut kinds = std::collections::BTreeMap::new();
    let mut samples = std::collections::BTreeMap::new();
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["gauge", "counter"].contains(&kind), "{line}");
            assert!(kinds.insert(name, kind).is_none(), "told twice: {line}");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(name.chars().all(legal) && kinds.contains_key(name), "{line}");
        let labels = labels.strip_suffix('}').unwrap();
        if !labels.is_empty() {
            let quantile = labels.strip_prefix("quantile=\"").unwrap().strip_suffix('"').unwrap();
            assert!((0.0..1.0).contains(&quantile.parse::<f64>().unwrap()), "{line}");
        }
        assert!(samples.insert(series, value.parse::<f64>().unwrap()).is_none(), "{line}");
    }
    assert_eq!(samples["wordline_read_ops_total"], 500.0);
    assert_eq!(samples["wordline_write_bytes_total"], 500.0 * 4096.0);
    assert_eq!(kinds["wordline_write_bytes_total"], "counter");
    assert_eq!(kinds["wordline_lines_free"], "gauge");
    assert_eq!(samples["wordline_integrity_wrong_total"], 0.0);
    assert!(samples["wordline_read_model_ns{quantile=\"0.999\"}"] > 0.0);
    assert!(scrape("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.0 405"));
    let after = server.so_far().len();
    wait_until("two lines more", || {
        server.so_far()[after..].lines().filter(|l| l.ends_with('}')).count() >= 2
    });
    let (_, said) = server.stop();
    let lines: Vec<serde_json::Value> = said
        .lines()
        .filter(|l| l.starts_with('{'))
        .map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}")))
        .collect();
    assert!(lines.len() >= 2, "{said}");
    let ops = |l: &serde_json::Value| l["read_ops"].as_f64().unwrap();
    assert!(lines.iter().map(ops).is_sorted() && ops(lines.last().unwrap()) == 500.0);
    for (name, value) in lines[0].as_object().unwrap() {
        assert!(value.is_number(), "{name}");
    }
}

#[test]
fn plain_clients_are_refused_where_tls_is_required() {
    let dir = tempfile::tempdir().unwrap();
    let certificates = dir.path().display().to_string();
    let make = format!(
        r#"cd {certificates} && new() {{ openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" "${{@:2}}"; }} &&
        new ca -x509 -days 30 -keyout ca-key.pem -out ca-cert.pem &&
        for who in server client; do
          [ $who = server ] && echo subjectAltName=DNS:localhost,IP:127.0.0.1 >ext || echo extendedKeyUsage=clientAuth >ext
          new localhost -keyout $who-key.pem -out $who.csr && openssl x509 -req -in $who.csr -CA ca-cert.pem -CAkey ca-key.pem \
            -CAcreateserial -days 30 -extfile ext -out $who-cert.pem || exit 1
        done"#
    );
    let made = std::process::Command::new("bash").args(["-c", &make]).output().unwrap();
    if !made.status.success() {
        let why = String::from_utf8_lossy(&made.stderr);
        assert!(why.contains("command not found"), "{why}");
        return skip("openssl is not installed; make test installs it");
    }
    let (_place, server, port) =
        start_on_port(|port| format!("{SMALL} --nbd tcp:0.0.0.0:{port} --tls {certificates}"));
    let is_let_in = |port: u16| {
        let plain = TcpStream::connect(("127.0.0.1", port)).unwrap();
        Client::connect(plain, "", true).is_ok()
    };
    assert!(!is_let_in(port), "a client without TLS was let in");
    // On loopback as well, unless it is said otherwise.
    for (more, open) in [("", false), ("--tls-optional", true)] {
        let args = format!("{SMALL} --tls {certificates} {more}");
        let (_place, _server, port) =
            start_on_port(|port| format!("{args} --nbd tcp:127.0.0.1:{port}"));
        assert_eq!(is_let_in(port), open, "{more}");
    }
    let uri = format!("nbds://localhost:{port}/?tls-certificates={certificates}");
    if let Some(text) = run("nbdinfo", &[&uri]) {
        assert!(text.contains("with TLS"), "{text}");
    }
    let source = dir.path().join("source");
    let bytes: Vec<u8> =
        (0..48u32 << 20).map(|i| (i.wrapping_mul(2654435761) >> 24) as u8).collect();
    std::fs::write(&source, &bytes).unwrap();
    let source = source.to_str().unwrap();
    if run("nbdcopy", &["--flush", source, &uri]).is_some() {
        let copy = dir.path().join("copy");
        run("nbdcopy", &[&uri, copy.to_str().unwrap()]);
        assert!(std::fs::read(copy).unwrap() == bytes);
    }
    let object = format!("tls-creds-x509,id=t,endpoint=client,dir={certificates},verify-peer=yes");
    let image = format!("driver=nbd,host=localhost,port={port},tls-creds=t");
    let args = ["--object", &object, "--image-opts", &image];
    let commands = ["-c", "write -P 7 12288 4M", "-c", "read -P 7 12288 4M", "-c", "flush"];
    if let Some(text) = run("qemu-io", &[&args[..], &commands[..]].concat()) {
        assert!(!text.contains("verification failed"), "{text}");
    }
    let (status, said) = server.stop();
    assert_eq!(status, Some(0), "{said}");
}
