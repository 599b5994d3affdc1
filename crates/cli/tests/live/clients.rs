//! Clients that others wrote, where this machine has them: libnbd, qemu, fio.

use super::place::{Place, program, run, skip, wait_until};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};

fn uri(place: &Place, export: &str) -> String {
    format!("nbd+unix:///{export}?socket={}", place.socket().display())
}

#[test]
fn libnbd_lists_and_copies() {
    let place = Place::new("--size 48M --device cnex-small --time-scale 0");
    let _server = place.start();
    if let Some(list) = run("nbdinfo", &["--list", &uri(&place, "")]) {
        for name in ["\"\"", "\"lat\"", "\"thr-ro\""] {
            assert!(list.contains(&format!("export={name}")), "{list}");
        }
        assert!(list.contains("can_multi_conn: true") && list.contains("base:allocation"));
    }
    let source = place.dir.path().join("source");
    let copy = place.dir.path().join("copy");
    let mut rng = wordline_base::Rng::from_seed(1);
    let mut bytes: Vec<u8> = (0..48 << 20).map(|_| rng.below(256) as u8).collect();
    bytes[1 << 20..9 << 20].fill(0);
    std::fs::write(&source, &bytes).unwrap();
    let (source, copy) = (source.to_str().unwrap(), copy.to_str().unwrap());
    // Several connections, holes by zeroes, and a flush.
    let to = ["--flush", "--connections=4", "--requests=16", source, &uri(&place, "")];
    if run("nbdcopy", &to).is_some() {
        run("nbdcopy", &["--connections=4", &uri(&place, "ro"), copy]);
        assert!(std::fs::read(copy).unwrap() == bytes, "the copy differs");
        let map = run("nbdinfo", &["--map", "--totals", &uri(&place, "")]).unwrap_or_default();
        assert!(map.contains("8388608") && map.contains("hole,zero"), "{map}");
    }
}

#[test]
fn qemu_reads_writes_and_compares() {
    let drive = "--device cnex-small --ftl rail --set device.lba=512";
    let place = Place::new(&format!("--size 48M {drive} --time-scale 0"));
    let _server = place.start();
    let commands = [
        "write -P 0xab 0 1M",
        "write -P 0x11 -f 12800 4608",
        "aio_write -P 0x22 2M 64k",
        "aio_flush",
        "write -z 512k 64k",
        "write -z -u 256k 64k",
        "discard 4M 1M",
        "flush",
        "read -P 0x11 12800 4608",
        "read -P 0xab 0 12800",
        "read -P 0 512k 64k",
        "read -P 0 256k 64k",
        "read -P 0x22 2M 64k",
    ];
    let mut args = vec!["-f", "raw"];
    commands.iter().for_each(|c| args.extend(["-c", c]));
    let drive = uri(&place, "lat");
    args.push(&drive);
    if let Some(text) = run("qemu-io", &args) {
        assert!(!text.contains("Pattern verification failed"), "{text}");
        let copy = place.dir.path().join("copy.raw");
        let copy = copy.to_str().unwrap();
        run("qemu-img", &["convert", "-f", "raw", "-O", "raw", &drive, copy]);
        let same = run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &drive, copy]);
        assert!(same.is_some_and(|text| text.contains("identical")));
    }
}

#[test]
fn fio_verifies_what_it_wrote() {
    let listed = run("fio", &["--enghelp"]).unwrap_or_default();
    if !listed.contains("nbd") {
        return skip("this fio has no nbd engine");
    }
    let drive = "--device cnex-small --ftl rail --set device.lba=512";
    let place = Place::new(&format!("--size 48M {drive} --time-scale 0"));
    let _server = place.start();
    let uri = format!("--uri={}", uri(&place, ""));
    let folder = place.dir.path().to_str().unwrap();
    let common = ["--ioengine=nbd", &uri, "--size=40m", "--verify=crc32c", "--verify_fatal=1"];
    for job in [
        ["--name=a", "--rw=randwrite", "--bs=4k", "--iodepth=16", "--fsync=32"],
        ["--name=b", "--rw=write", "--bs=64k", "--iodepth=4", "--fsync=8"],
        ["--name=c", "--rw=randwrite", "--bsrange=512-48k", "--iodepth=8", "--blockalign=512"],
    ] {
        let args: Vec<&str> = common.iter().chain(&job).copied().collect();
        let mut command = program("fio");
        let out = command.args(&args).current_dir(folder).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() && text.contains("err= 0"), "{text}");
    }
}

/// What libnbd's own checks would not send.
#[test]
fn nbdsh_earns_errors_with_strict_mode_off() {
    let place = Place::new("--size 48M --device cnex-small --time-scale 0");
    let _server = place.start();
    let script = r#"
import nbd, sys
errors = []
def call(f, *args, **more):
    try:
        f(*args, **more)
        errors.append("0")
    except nbd.Error as e:
        errors.append({"EOPNOTSUPP": "ENOTSUP"}.get(e.errno, e.errno))
def open(export):
    h = nbd.NBD()
    h.set_strict_mode(0)
    h.add_meta_context("base:allocation")
    h.connect_uri("nbd+unix:///" + export + "?socket=" + sys.argv[1])
    return h
h, ro = open(""), open("ro")
size = h.get_size()
call(h.pread, 8192, size - 4096)
call(h.pread, 0, 0)
call(h.pread, (32 << 20) + 1, 0)
call(h.pwrite, b"a" * 4096, size)
call(h.zero, 4096, size)
call(h.trim, 4096, size)
call(h.zero, 4096, 0, flags=nbd.CMD_FLAG_FAST_ZERO | nbd.CMD_FLAG_NO_HOLE)
call(h.pread, 4096, 0, flags=nbd.CMD_FLAG_NO_HOLE)
call(h.pwrite, b"a" * 4096, 0, flags=nbd.CMD_FLAG_REQ_ONE)
call(ro.pwrite, b"a" * 4096, 0)
call(ro.trim, 4096, 0)
call(ro.flush)
# No whole blocks of 4096 bytes, of which the drive has told.
call(h.pwrite, b"a" * 512, 0)
call(h.pread, 4096, 512)
call(h.pwrite, b"a" * 4096, 8192)
assert h.pread(4096, 8192) == b"a" * 4096
assert h.get_block_size(nbd.SIZE_MINIMUM) == 4096 and h.get_block_size(nbd.SIZE_PREFERRED) == 4096
print(" ".join(errors))
"#;
    let file = place.dir.path().join("errors.py");
    std::fs::write(&file, script).unwrap();
    // The module belongs to the system's own Python.
    let socket = place.socket();
    let python = ["/usr/bin/python3", file.to_str().unwrap(), socket.to_str().unwrap()];
    let out = program(python[0]).args(&python[1..]).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    if said.contains("No module named") || out.status.code() == Some(127) {
        return skip("python3-libnbd is not installed; make test installs it");
    }
    assert!(out.status.success(), "{said}");
    let told = String::from_utf8_lossy(&out.stdout);
    let expected = "EINVAL EINVAL EOVERFLOW ENOSPC ENOSPC EINVAL ENOTSUP EINVAL EINVAL EPERM EPERM 0 EINVAL \
         EINVAL 0";
    assert_eq!(told.trim(), expected);
}

/// A program that does not outlive the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn qemu_nbd_serves_what_it_is_served() {
    let place = Place::new("--size 48M --device cnex-small --time-scale 0");
    let _server = place.start();
    let back = place.dir.path().join("again");
    let child = Command::new("qemu-nbd")
        .args(["-f", "raw", "-t", "-k", back.to_str().unwrap(), &uri(&place, "thr")])
        .spawn();
    let Ok(child) = child else {
        return skip("qemu-nbd is not installed; make test installs it");
    };
    let _child = Killed(child);
    // The socket is there before it is listened to.
    let mut stream = None;
    wait_until("qemu-nbd listens", || {
        stream = UnixStream::connect(&back).ok();
        stream.is_some()
    });
    let mut c = wordline_nbd::Client::connect(stream.unwrap(), "", true).unwrap();
    assert_eq!(c.info.size, 48 << 20);
    let data: Vec<u8> = (0..1 << 20).map(|i| (i / 4099) as u8 | 1).collect();
    use wordline_nbd::cmd;
    assert_eq!(c.call(cmd::WRITE, cmd::FLAG_FUA, 12288, 1 << 20, &data).unwrap().error, 0);
    assert!(c.call(cmd::READ, 0, 12288, 1 << 20, &[]).unwrap().data[0].1 == data);
    assert_eq!(c.call(cmd::TRIM, 0, 0, 8192, &[]).unwrap().error, 0);
    let mut direct = place.client("");
    assert!(direct.call(cmd::READ, 0, 12288, 1 << 20, &[]).unwrap().data[0].1 == data);
}
