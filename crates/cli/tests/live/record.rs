//! What programs ask of a server, recorded and replayed.

use super::place::{Place, connect, ended, run, wordline};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use wordline_nbd::{Client, cmd};

struct Recorder {
    child: Child,
    said: BufReader<std::process::ChildStderr>,
}

impl Recorder {
    fn start(place: &Place, log: &str) -> Recorder {
        let dir = place.dir.path();
        let mut child = wordline()
            .args(["record", "--nbd", &format!("unix:{}", dir.join("front").display())])
            .args(["--server", &format!("unix:{}", place.socket().display())])
            .arg("--iolog")
            .arg(dir.join(log))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.starts_with("recording on"), "{line}");
        Recorder { child, said }
    }
    fn stop(mut self) -> String {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let mut said = String::new();
        std::io::Read::read_to_string(&mut self.said, &mut said).unwrap();
        assert_eq!(ended(&mut self.child).code(), Some(0), "{said}");
        said
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn requests_are_logged_as_they_were_sent_and_can_be_replayed() {
    let place = Place::new("--size 48M --device cnex-small --time-scale 0");
    let _server = place.start();
    let recorder = Recorder::start(&place, "a.log");
    let front = place.dir.path().join("front");
    let client = |export: &str| Client::connect(connect(&front), export, true).unwrap();
    let mut c = client("");
    assert_eq!(c.info.size, 48 << 20);
    c.call(cmd::WRITE, 0, 4096, 8192, &[7; 8192]).unwrap();
    c.call(cmd::WRITE, cmd::FLAG_FUA, 1 << 20, 4096, &[8; 4096]).unwrap();
    c.call(cmd::FLUSH, 0, 0, 0, &[]).unwrap();
    assert_eq!(c.call(cmd::READ, 0, 4096, 4096, &[]).unwrap().data[0].1, [7; 4096]);
    c.call(cmd::WRITE_ZEROES, 0, 8192, 4096, &[]).unwrap();
    c.call(cmd::WRITE_ZEROES, cmd::FLAG_NO_HOLE, 8192, 4096, &[]).unwrap();
    c.call(cmd::TRIM, 0, 0, 4096, &[]).unwrap();
    c.call(cmd::BLOCK_STATUS, 0, 0, 4096, &[]).unwrap();
    let mut other = client("lat-ro");
    other.call(cmd::READ, 0, 12288, 4096, &[]).unwrap();
    drop((c, other));
    // A program with several connections, if there is one.
    let uri = format!("nbd+unix:///?socket={}", front.display());
    let copy = place.dir.path().join("copy");
    let copied = run("nbdcopy", &[&uri, copy.to_str().unwrap()]).is_some();
    assert!(!copied || std::fs::metadata(&copy).unwrap().len() == 48 << 20);
    let said = recorder.stop();
    let log = std::fs::read_to_string(place.dir.path().join("a.log")).unwrap();
    let has = |word: &str| log.lines().filter(|line| line.contains(word)).count();
    // A FUA write has two lines; connections that end are no requests.
    let lines = has("read ") + has("write ") + has("trim ") + has(" sync ");
    assert!(said.contains(&format!("{lines} requests of ")), "{lines}: {said}");
    let mut lines = log.lines();
    assert_eq!(lines.next(), Some("fio version 3 iolog"));
    let parts: Vec<String> =
        lines.clone().map(|l| l.split_once(' ').unwrap().1.to_string()).take(14).collect();
    assert_eq!(
        parts,
        [
            "nbd add",
            "nbd open",
            "nbd write 4096 8192",
            "nbd write 1048576 4096",
            "nbd datasync 0 0",
            "nbd sync 0 0",
            "nbd read 4096 4096",
            "nbd trim 8192 4096",
            "nbd write 8192 4096",
            "nbd trim 0 4096",
            "nbd-lat-ro add",
            "nbd-lat-ro open",
            "nbd-lat-ro read 12288 4096",
            if copied { parts[13].as_str() } else { "nbd close" },
        ]
    );
    let times: Vec<u64> = lines.map(|l| l.split_once(' ').unwrap().0.parse().unwrap()).collect();
    assert!(times[0] == 0 && times.is_sorted(), "{times:?}");
    let out = wordline()
        .args(["replay", "--device", "cnex-small", "--volume", "nbd"])
        .arg(place.dir.path().join("a.log"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{text}");
}

#[test]
fn blocks_of_512_bytes_are_logged_and_replayed() {
    let place = Place::new("--size 48M --device intel-750-small --time-scale 0");
    let _server = place.start();
    let recorder = Recorder::start(&place, "a.log");
    let mut c = Client::connect(connect(&place.dir.path().join("front")), "", true).unwrap();
    let mut expected = vec!["nbd add".to_string(), "nbd open".into()];
    for i in 0..64u64 {
        let at = i * 1536;
        assert_eq!(c.call(cmd::WRITE, 0, at, 512, &[i as u8; 512]).unwrap().error, 0);
        assert_eq!(c.call(cmd::READ, 0, at, 1024, &[]).unwrap().data[0].1[..512], [i as u8; 512]);
        expected.extend([format!("nbd write {at} 512"), format!("nbd read {at} 1024")]);
    }
    drop(c);
    recorder.stop();
    let log = place.dir.path().join("a.log");
    let text = std::fs::read_to_string(&log).unwrap();
    let lines = text.lines().skip(1).map(|l| l.split_once(' ').unwrap().1);
    assert_eq!(lines.take(expected.len()).collect::<Vec<_>>(), expected);
    let args = ["replay", "--device", "intel-750-small"];
    let out = wordline().args(args).arg(&log).output().unwrap();
    let told = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && told.contains("total=64,64,0,"), "{told}");
}

/// A name of an export that no file can have ends the recording for nobody.
#[test]
fn exports_of_any_name_are_recorded() {
    let place = Place::new("--size 48M --device cnex-small --time-scale 0");
    let _server = place.start();
    let recorder = Recorder::start(&place, "a.log");
    let front = place.dir.path().join("front");
    let mut first = Client::connect(connect(&front), "", true).unwrap();
    first.call(cmd::READ, 0, 0, 4096, &[]).unwrap();
    // The server does not have it, and lets the client go, which sends a read before it hears of that.
    let export = "x".repeat(1000);
    let mut bytes = 3u32.to_be_bytes().to_vec();
    bytes.extend(b"IHAVEOPT\0\0\0\x01");
    bytes.extend((export.len() as u32).to_be_bytes());
    bytes.extend(export.as_bytes());
    bytes.extend(0x2560_9513u32.to_be_bytes());
    bytes.extend([0; 8 + 4 + 8]);
    bytes.extend(4096u32.to_be_bytes());
    let mut other = connect(&front);
    std::io::Write::write_all(&mut other, &bytes).unwrap();
    let _ = std::io::Read::read_to_end(&mut other, &mut Vec::new());
    assert_eq!(first.call(cmd::READ, 0, 4096, 4096, &[]).unwrap().error, 0);
    drop(first);
    recorder.stop();
    let log = std::fs::read_to_string(place.dir.path().join("a.log")).unwrap();
    assert!(log.contains(" nbd read 4096 4096\n"), "{log}");
    assert!(!log.contains('x'), "what no server has is not read: {log}");
}

#[test]
fn what_cannot_be_recorded_is_said() {
    let place = Place::new("--size 48M --device cnex-small --time-scale 0");
    let dir = place.dir.path();
    let refused = |nbd: &str, more: &[&str]| {
        let server = format!("unix:{}", place.socket().display());
        let out = wordline()
            .args(["record", "--nbd", nbd, "--server", &server, "--iolog"])
            .arg(dir.join("b.log"))
            .args(more)
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(2));
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    let front = format!("unix:{}", dir.join("front").display());
    assert!(refused(&front, &[]).contains("no NBD server answers"));
    assert!(!dir.join("b.log").exists(), "nothing is left of a recording that did not begin");
    let _server = place.start();
    assert!(refused("tcp:0.0.0.0:0", &[]).contains("--plain-tcp"));
    assert!(refused("unix:/no/such/s", &[]).contains("no such folder"));
    assert!(refused(&front, &["--name", "a b"]).contains("without blanks"));
    std::fs::write(dir.join("b.log"), "mine").unwrap();
    assert!(refused(&front, &[]).contains("name another"));
    assert_eq!(std::fs::read(dir.join("b.log")).unwrap(), b"mine");
    // Not NBD: the client is let go, the recording goes on.
    let recorder = Recorder::start(&place, "c.log");
    let mut stranger = connect(&dir.join("front"));
    std::io::Write::write_all(&mut stranger, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut stranger, &mut rest).unwrap();
    let mut c = Client::connect(connect(&dir.join("front")), "", true).unwrap();
    c.call(cmd::READ, 0, 0, 4096, &[]).unwrap();
    assert!(recorder.stop().contains("a client was let go"));
}
