//! Clients that others wrote, where this machine has them: libnbd, qemu, fio.

use crate::place::{Place, skip};
use std::process::Command;

/// Runs a program; none: it is not installed, said loudly.
fn run(program: &str, args: &[&str]) -> Option<String> {
    let out = match Command::new(program).args(args).output() {
        Ok(out) => out,
        Err(_) => {
            skip(&format!("{program} is not installed; make test installs it"));
            return None;
        }
    };
    let text = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{program} {args:?}: {text}");
    Some(text.into_owned())
}

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
    let place = Place::new("--size 48M --device cnex-small --ftl rail --time-scale 0");
    let _server = place.start();
    let commands = [
        "write -P 0xab 0 1M",
        "write -P 0x11 -f 12345 4321",
        "aio_write -P 0x22 2M 64k",
        "aio_flush",
        "write -z 512k 64k",
        "write -z -u 256k 64k",
        "discard 4M 1M",
        "flush",
        "read -P 0x11 12345 4321",
        "read -P 0xab 0 12345",
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
    let place = Place::new("--size 48M --device cnex-small --ftl rail --time-scale 0");
    let _server = place.start();
    let uri = format!("--uri={}", uri(&place, ""));
    let folder = place.dir.path().to_str().unwrap();
    let common = ["--ioengine=nbd", &uri, "--size=40m", "--verify=crc32c", "--verify_fatal=1"];
    for job in [
        ["--name=a", "--rw=randwrite", "--bs=4k", "--iodepth=16", "--fsync=32"],
        ["--name=b", "--rw=write", "--bs=64k", "--iodepth=4", "--fsync=8"],
        ["--name=c", "--rw=randwrite", "--bsrange=512-48k", "--iodepth=8", "--bs_unaligned=1"],
    ] {
        let args: Vec<&str> = common.iter().chain(&job).copied().collect();
        let mut command = Command::new("fio");
        let out = command.args(&args).current_dir(folder).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() && text.contains("err= 0"), "{text}");
    }
}
