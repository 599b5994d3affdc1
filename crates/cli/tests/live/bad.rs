//! Input that cannot be used: what is said, exit status 2, nothing damaged.

use super::place::{Place, image_ios, wordline};
use wordline_nbd::cmd;

fn refused(place: &Place, more: &[&str]) -> String {
    let out = wordline().args(&place.args).args(more).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{more:?}: {said}");
    said
}

#[test]
fn unusable_images_sizes_and_sockets() {
    let place = Place::new("--time-scale 0");
    assert!(refused(&place, &[]).contains("give --size to make one"));
    assert!(refused(&place, &["--size", "100"]).contains("multiple of 4096"));
    assert!(refused(&place, &["--size", "100T"]).contains("no drive of 109951162777600 bytes"));
    assert!(refused(&place, &["--size", "10000T"]).contains("more than a 32-bit map addresses"));
    assert!(refused(&place, &["--size", "10%"]).contains("is a percentage"));
    assert!(refused(&place, &["--size", "1000MB"]).contains("1000MB is 1000000000 bytes"));
    let small = "--size 64M --device fssd-430g --set ftl.over_provisioning=30";
    let said = refused(&place, &small.split(' ').collect::<Vec<_>>());
    assert!(said.contains("the image just made is removed"), "{said}");
    assert!(said.contains("lines spare"), "{said}");
    assert!(!place.image().exists(), "nothing is left of an image that was not made");
    let small = ["--size", "48M", "--device", "cnex-small"];
    for wrong in [
        ["--nbd", "unix:/no/such/folder/s"],
        ["--nbd", "tcp:0.0.0.0:0"],
        ["--tls", "/no/such"],
        ["--client-memory", "1"],
        ["--tape", "/no/such/folder/a.tape"],
        ["--fuse", "/no/such"],
    ] {
        let said = refused(&place, &[&small[..], &wrong].concat());
        assert!(!place.image().exists(), "{wrong:?}: {said}");
        assert!(!said.contains("too small"), "{wrong:?}: {said}");
    }
    // What lies in the folder that shows the drive would wait for the server itself.
    let folder = place.dir.path().join("m");
    std::fs::create_dir(&folder).unwrap();
    for option in ["--tape", "--control"] {
        let within = folder.join("x").display().to_string();
        let wrong = ["--fuse", folder.to_str().unwrap(), option, &within];
        let said = refused(&place, &[&small[..], &wrong].concat());
        assert!(said.contains("it is not empty"), "{option}: {said}");
        assert!(!place.image().exists(), "{option}: {said}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "{option}");
    }
    let server = place.start_with(&["--size", "48M", "--device", "cnex-small"]);
    let before = std::fs::read(place.image()).unwrap();
    assert!(refused(&place, &[]).contains("is in use"));
    drop(server);
    assert!(refused(&place, &["--size", "64M"]).contains("--size says 67108864"));
    assert!(
        refused(&place, &["--seed", "77"])
            .contains("was made with seed 1, not 77: leave out --seed")
    );
    assert!(refused(&place, &["--device", "z-ssd-small"]).contains("was made with"));
    assert!(refused(&place, &["--ftl", "rail"]).contains("LUNs a stride"));
    let other = Place::new("--time-scale 0");
    drop(other.start_with(&["--size", "48M", "--device", "cnex-small", "--ftl", "rail"]));
    for ftl in ["pblk", "rail6"] {
        assert!(refused(&other, &["--ftl", ftl]).contains("LUNs a stride"), "{ftl}");
    }
    // Of another sort: it would find nothing of the drive's, and write over it.
    let said = refused(&place, &["--ftl", "firmware"]);
    assert!(said.contains("was written by pblk or one of its kin"), "{said}");
    let set = ["--ftl", "fssd", "--set", "ftl.fssd.volatile=true"];
    let said = refused(&place, &set);
    assert!(said.contains("the command line says fssd"), "{said}");
    assert!(refused(&place, &["--nbd", "ftp:x"]).contains("unix:PATH or tcp:HOST:PORT"));
    assert!(refused(&place, &["--nbd", "unix:/no/such/folder/s"]).contains("no such folder"));
    let file = format!("unix:{}", place.image().display());
    assert!(refused(&place, &["--nbd", &file]).contains("a file that is no socket is there"));
    assert!(refused(&place, &["--nbd", "tcp:0.0.0.0:0"]).contains("--tls FOLDER"));
    assert!(refused(&place, &["--tls", "/no/such"]).contains("server-cert.pem"));
    for set in ["flashshare.bypass=true", "stack.scheduler=kyber", "testbed.cost.block=1us"] {
        let said = refused(&place, &["--set", set]);
        assert!(
            said.contains(&format!("--set {set}: this is a setting of a modelled host")),
            "{said}"
        );
    }
    for scale in ["-1", "1e-12", "0.001", "nan", "2e6"] {
        let told = refused(&Place::new(""), &["--time-scale", scale]);
        assert!(
            told.contains("--time-scale: must be 0, which is as fast as possible, or 0.01"),
            "{told}"
        );
    }
    for seconds in ["nan", "0", "-1", "0.01", "86401", "1e300", "inf"] {
        let said = refused(&place, &["--stats", "line", "--stats-interval", seconds]);
        assert!(said.contains("--stats-interval: must be 0.05 to 86400 seconds"), "{said}");
    }
    assert!(refused(&place, &["--stats-interval", "often"]).contains("invalid float literal"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp:{}", taken.local_addr().unwrap());
    assert!(refused(&place, &["--nbd", &address]).contains("another server listens there"));
    let listener = std::os::unix::net::UnixListener::bind(place.dir.path().join("b")).unwrap();
    let busy = format!("unix:{}", place.dir.path().join("b").display());
    assert!(refused(&place, &["--nbd", &busy]).contains("another server listens there"));
    drop(listener);
    assert_eq!(std::fs::read(place.image()).unwrap().len(), before.len());
    // Not an image at all: it is left alone.
    std::fs::write(place.image(), "somebody's thesis").unwrap();
    assert!(refused(&place, &[]).contains("is not an image"));
    assert_eq!(std::fs::read(place.image()).unwrap(), b"somebody's thesis");
}

/// What forbids io_uring, as containers do, with an error of choice.
const FORBID: &str = "
import ctypes, os, struct, sys
allow, refuse = 0x7fff0000, 0x00050000 | int(sys.argv[1])
# Load the call's number; io_uring_setup has 425 everywhere.
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, refuse), (0x06, 0, 0, allow)]
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *s) for s in steps))
program = ctypes.create_string_buffer(struct.pack('HxxxxxxP', len(steps), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
    sys.exit('seccomp: ' + os.strerror(ctypes.get_errno()))
os.execv(sys.argv[2], sys.argv[2:])
";

#[test]
fn a_forbidden_io_uring_is_told_and_not_replaced() {
    let place = Place::new("--size 48M --device cnex-small --time-scale 0");
    let under = |errno: i32, more: &[&str]| {
        let python = ["-c", FORBID, &errno.to_string()].map(String::from);
        let mut command = std::process::Command::new("python3");
        command.args(python).arg(wordline().get_program()).args(&place.args).args(more);
        let out = command.output().unwrap();
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    for (errno, why) in
        [(1, "kernel.io_uring_disabled"), (38, "this kernel has none"), (24, "Too many open files")]
    {
        let (status, said) = under(errno, &["--image-io", "uring"]);
        if said.contains("seccomp: ") {
            return super::place::skip(&said);
        }
        assert_eq!(status, Some(2), "{said}");
        assert!(said.contains(why) && said.contains("--image-io pwrite needs nothing"), "{said}");
        assert!(!place.image().exists(), "an image was made that cannot be served");
    }
    // Nobody else asks for it.
    let (status, said) = under(1, &["--image-io", "pwrite", "--nbd", "unix:/no/such/folder/s"]);
    assert!(status == Some(2) && said.contains("no such folder"), "{said}");
}

#[test]
fn a_damaged_image_is_told_from_a_good_one() {
    image_ios().into_iter().for_each(is_told_from_a_good_one);
}
fn is_told_from_a_good_one(way: &str) {
    let args = "--size 48M --device cnex-small --ftl rail --time-scale 0";
    let place = Place::new(&format!("{args} {way}"));
    let server = place.start();
    let mut c = place.client("");
    for i in 0..48u64 {
        c.call(wordline_nbd::cmd::WRITE, 0, i << 18, 1 << 18, &vec![i as u8 + 1; 1 << 18]).unwrap();
    }
    assert_eq!(server.stop().0, Some(0));
    let check = || {
        let image = place.image();
        let out = wordline().args(["image", "check"]).arg(&image).output().unwrap();
        (out.status.code(), String::from_utf8_lossy(&out.stdout).into_owned())
    };
    let (status, said) = check();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains(" 0 damaged") && said.contains(" 0 different"), "{said}");
    // One sector: parity has it. All of a stride: nobody has.
    let rot = |most: usize| {
        use std::os::unix::fs::FileExt;
        let file = std::fs::OpenOptions::new().read(true).write(true).open(place.image()).unwrap();
        let mut page = [0; 4096];
        let mut found = Vec::new();
        for at in (1 << 20..file.metadata().unwrap().len()).step_by(4096) {
            file.read_exact_at(&mut page, at).unwrap();
            if page[0] == 5 && page.iter().all(|&b| b == 5) {
                found.push(at);
            }
        }
        found.iter().take(most).for_each(|&at| file.write_all_at(b"rot", at).unwrap());
    };
    rot(1);
    let (status, said) = check();
    assert_eq!(status, Some(3), "parity has it, and nothing else: {said}");
    assert!(said.contains(" 1 to be had from parity alone, 0 damaged"), "{said}");
    let server = place.start();
    let mut c = place.client("");
    let reply = c.call(wordline_nbd::cmd::READ, 0, 4 << 18, 1 << 18, &[]).unwrap();
    assert!(reply.error == 0 && reply.data[0].1.iter().all(|&b| b == 5), "it is repaired");
    server.kill();
    rot(usize::MAX);
    let (status, said) = check();
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("damaged: bytes"), "{said}");
    let _server = place.start();
    let mut c = place.client("");
    let reply = c.call(wordline_nbd::cmd::READ, 0, 4 << 18, 1 << 18, &[]).unwrap();
    assert_eq!(reply.error, wordline_nbd::errno::EIO, "no bytes that were not written");
}

#[test]
fn an_image_is_not_served_with_another_sort_of_ftl() {
    let device = ["--device", "z-ssd-small"];
    let sorts =
        [("firmware", "pblk"), ("fssd", "pblk"), ("pblk", "firmware"), ("firmware", "fssd")];
    for (made, asked) in sorts {
        let place = Place::new("--time-scale 0");
        let own = [&device[..], &["--ftl", made]].concat();
        let server = place.start_with(&[&own[..], &["--size", "48M"]].concat());
        let mut c = place.client("");
        let bytes = [7; 4096];
        assert_eq!(c.call(cmd::WRITE, cmd::FLAG_FUA, 8192, 4096, &bytes).unwrap().error, 0);
        drop(c);
        assert_eq!(server.stop().0, Some(0));
        let before = std::fs::read(place.image()).unwrap();
        let said = refused(&place, &["--ftl", asked]);
        assert!(said.contains("was written by") && said.contains("leave --device"), "{said}");
        let said = refused(&place, &[&device[..], &["--ftl", asked]].concat());
        assert!(said.contains("leave --device"), "{said}");
        assert!(std::fs::read(place.image()).unwrap() == before, "{made}, {asked}: it was changed");
        for own in [&own[..], &["--ftl", "default"]] {
            let _server = place.start_with(own);
            let reply = place.client("").call(cmd::READ, 0, 8192, 4096, &[]).unwrap();
            assert!(reply.data[0].1 == bytes, "{made}");
        }
    }
}
