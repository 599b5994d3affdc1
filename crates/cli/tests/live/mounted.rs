//! The drive as a file in a folder, where this machine lets us mount.

use super::place::{Place, Running, skip, wordline};
use rustix::process::Signal;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use wordline_nbd::cmd;

const SMALL: &str = "--size 48M --device cnex-small --time-scale 0";
const SECTOR: usize = 4096;

/// Made before the server, so that nothing stays mounted after it.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(place: &Place) -> Folder {
        let path = place.dir.path().join("m");
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }
    pub fn disk(&self) -> PathBuf {
        self.0.join("disk")
    }
    /// None: this machine does not let us mount, said loudly.
    pub fn serve(&self, place: &Place) -> Option<Running> {
        match place.try_start(&["--fuse", self.0.to_str().unwrap()]) {
            Ok(server) => Some(server),
            Err(said)
                if ["mount: Operation", "no FUSE", "/dev/fuse:"]
                    .iter()
                    .any(|w| said.contains(w)) =>
            {
                skip(&format!("no FUSE here: {}", said.lines().last().unwrap_or_default()));
                None
            }
            Err(said) => panic!("{said}"),
        }
    }
    fn is_mounted(&self) -> bool {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        mounts.contains(self.0.to_str().unwrap())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_mounted() {
            let _ = Command::new("umount").arg("-l").arg(&self.0).output();
        }
    }
}

fn fio(disk: &Path, args: &[&str]) {
    let Ok(out) = Command::new("fio")
        .args(["--name=a", "--size=40m", "--verify=crc32c", "--verify_fatal=1"])
        .arg(format!("--filename={}", disk.display()))
        .args(args)
        .current_dir(disk.parent().unwrap().parent().unwrap())
        .output()
    else {
        return skip("fio is not installed; make test installs it");
    };
    let text = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && text.contains("err= 0"), "{args:?}: {text}");
}

#[test]
fn fio_verifies_through_the_file_and_nbd_sees_the_same() {
    let place = Place::new(&format!("{SMALL} --ftl rail --set device.lba=512"));
    let folder = Folder::new(&place);
    let Some(server) = folder.serve(&place) else { return };
    let disk = folder.disk();
    fio(&disk, &["--ioengine=libaio", "--direct=1", "--rw=randwrite", "--bs=4k", "--iodepth=16"]);
    fio(&disk, &["--ioengine=psync", "--rw=randwrite", "--bsrange=512-64k"]);
    fio(&disk, &["--ioengine=psync", "--direct=1", "--rw=write", "--bs=2m", "--fsync=4"]);
    // Two clients of one drive, at once.
    let file = OpenOptions::new().read(true).write(true).open(&disk).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 48 << 20);
    let mut c = place.client("");
    for i in 0..200u64 {
        let (at, from_nbd) = (i * 4608, vec![i as u8; 512]);
        file.write_all_at(&[!i as u8; 1024], at).unwrap();
        c.call(cmd::WRITE, 0, at + 1024, 512, &from_nbd).unwrap();
        let mut both = [0; 1536];
        file.read_exact_at(&mut both, at).unwrap();
        assert!(both[..1024].iter().all(|&b| b == !i as u8) && both[1024..] == from_nbd);
        let reply = c.call(cmd::READ, 0, at, 1536, &[]).unwrap();
        assert_eq!(reply.data[0].1, both);
    }
    // A hole reads as zeroes, on both sides; its end and what lies behind are as they were.
    let mut before = [0; 512];
    file.read_exact_at(&mut before, 9_728).unwrap();
    let out = Command::new("fallocate")
        .args(["--punch-hole", "--offset", "10240", "--length", "500224"])
        .arg(&disk)
        .output();
    if out.is_ok_and(|o| o.status.success()) {
        let mut hole = vec![1; 500_224];
        file.read_exact_at(&mut hole, 10_240).unwrap();
        assert!(hole.iter().all(|&b| b == 0));
        let reply = c.call(cmd::READ, 0, 9_728, 512, &[]).unwrap();
        assert_eq!(reply.data[0].1, before, "what is before it stays");
    }
    assert!(file.set_len(1).is_err() && File::create(folder.0.join("other")).is_err());
    drop(file);
    let (status, said) = server.stop();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains(" 0 wrong") && !folder.is_mounted(), "{said}");
}

/// The bytes of a sector's version.
fn sector(lpn: u64, version: u32) -> Vec<u8> {
    let word = (lpn << 32 | u64::from(version)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..SECTOR / 8).flat_map(|i| (word ^ i as u64).to_le_bytes()).collect()
}

#[test]
fn what_fsync_promised_is_there_after_a_kill() {
    let seed = 21;
    let mut rng = wordline_base::Rng::from_seed(seed);
    let place = Place::new(SMALL);
    let folder = Folder::new(&place);
    // By sector: the newest version written, and the newest promised.
    let mut model = vec![(0u32, 0u32); (48 << 20) / SECTOR];
    for round in 0..8 {
        // The killed server's mount is still there.
        let Some(server) = folder.serve(&place) else { return };
        let open = |flags: i32| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).custom_flags(flags).open(folder.disk()).unwrap()
        };
        let (file, durable) = (open(0), open(rustix::fs::OFlags::DSYNC.bits() as i32));
        for (lpn, s) in model.iter_mut().enumerate().filter(|(_, s)| s.0 > 0) {
            let mut found = vec![0; SECTOR];
            file.read_exact_at(&mut found, (lpn * SECTOR) as u64).unwrap();
            let version = (s.1..=s.0).find(|&v| match v {
                0 => found.iter().all(|&b| b == 0),
                v => found == sector(lpn as u64, v),
            });
            *s = match version {
                Some(v) => (v, v),
                None => panic!("seed {seed}, round {round}: sector {lpn} has none of {s:?}"),
            };
        }
        for _ in 0..600 {
            let lpn = rng.below(model.len() as u64);
            let s = &mut model[lpn as usize];
            s.0 += 1;
            let bytes = sector(lpn, s.0);
            if rng.below(20) == 0 {
                durable.write_all_at(&bytes, lpn * SECTOR as u64).unwrap();
                s.1 = s.0;
            } else {
                file.write_all_at(&bytes, lpn * SECTOR as u64).unwrap();
            }
            if rng.below(60) == 0 {
                file.sync_data().unwrap();
                model.iter_mut().for_each(|s| s.1 = s.0);
            }
        }
        server.kill();
        assert!(file.sync_data().is_err(), "nobody is there to promise anything");
    }
}

#[test]
fn requests_carry_who_asked() {
    let mut place = Place::new(SMALL);
    let tape = place.dir.path().join("tape");
    place.args.extend(["--tape".into(), tape.display().to_string()]);
    let folder = Folder::new(&place);
    let Some(server) = folder.serve(&place) else { return };
    let dd = |args: &[&str]| {
        let mut command = Command::new("dd");
        command.args(["bs=4k", "count=5", "status=none"]).args(args);
        let mut child = command.spawn().unwrap();
        assert!(child.wait().unwrap().success());
        child.id()
    };
    let of = format!("of={}", folder.disk().display());
    let read = format!("if={}", folder.disk().display());
    let write = ["if=/dev/urandom", "iflag=fullblock", &of];
    // Direct, and with fsync. Closing is a flush too, and dd closes twice (dup2); after reading it is
    // none.
    let direct = dd(&[&write[..], &["oflag=direct", "conv=notrunc"]].concat());
    let synced = dd(&[&write[..], &["conv=notrunc,fsync"]].concat());
    let reader = dd(&[&read, "of=/dev/null"]);
    let (status, said) = server.end(Signal::INT);
    assert_eq!(status, Some(0), "{said}");
    for line in [
        format!("thread {direct}: write 5, flush 2"),
        format!("thread {synced}: write 5, flush 3"),
        format!("thread {reader}: read 5\n"),
    ] {
        assert!(said.contains(&line), "no '{line}' in {said}");
    }
    // On the tape, too, which runs again (docs/design/formats.md: records of 40 bytes to the end).
    let bytes = std::fs::read(&tape).unwrap();
    let asked =
        |pid: u32| bytes.rchunks(40).filter(|r| r.get(32..36) == Some(&pid.to_le_bytes())).count();
    assert_eq!([direct, synced, reader].map(asked), [7, 8, 5]);
    let out = wordline().args(["tape", "replay"]).arg(&tape).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn folders_that_cannot_be_used_are_refused() {
    let place = Place::new(SMALL);
    let folder = Folder::new(&place);
    let Some(server) = folder.serve(&place) else { return };
    // A place where another server is.
    let other = Place::new(SMALL);
    let refused = |command: &mut Command, folder: &Path, why: &str| {
        let out = command.args(&other.args).arg("--fuse").arg(folder).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{said}");
        let start = format!("cannot mount the drive on {}: ", folder.display());
        assert!(said.contains(&start) && said.contains(why), "'{why}' is not in {said}");
    };
    refused(&mut wordline(), &folder.0, "it is not empty");
    refused(&mut wordline(), &other.image().join("m"), "Not a directory");
    refused(&mut wordline(), &other.image(), "it is no folder");
    refused(&mut wordline(), &other.dir.path().join("none"), "no such folder: make it");
    refused(&mut wordline(), other.dir.path(), "it is not empty");
    // As on a system without FUSE.
    let empty = other.dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let mut probe = Command::new("unshare");
    if probe.args(["--mount", "true"]).output().is_ok_and(|o| o.status.success()) {
        let mut without = Command::new("unshare");
        without.args(["--mount", "sh", "-c", "mount -t tmpfs none /dev && exec \"$0\" \"$@\""]);
        without.arg(env!("CARGO_BIN_EXE_wordline"));
        refused(&mut without, &empty, "this system has no FUSE");
        // Nobody may mount, and the helper lets nobody mount on a folder of root's.
        // The image is its own: those of the starts before are gone with them.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(other.dir.path(), mode).unwrap();
        let nobody = || {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
            command.arg(env!("CARGO_BIN_EXE_wordline"));
            command
        };
        if nobody().arg("--version").output().is_ok_and(|o| o.status.success()) {
            refused(&mut nobody(), &empty, "ermi");
        } else {
            skip("nobody may not run the program: what is said without permission");
        }
    } else {
        skip("not root: what is said without FUSE and without permission");
    }
    // Whoever unmounts it ends what is served that way only.
    let mut c = place.client("");
    assert!(Command::new("umount").arg(&folder.0).status().unwrap().success());
    assert_eq!(c.call(cmd::READ, 0, 0, 4096, &[]).unwrap().error, 0);
    let (status, said) = server.stop();
    assert!(status == Some(0) && said.contains("the folder was unmounted"), "{said}");
}

/// malloc gives large blocks 16 bytes behind a page's begin.
#[test]
fn memory_that_begins_within_a_page_is_read_and_written_at_any_length() {
    let place = Place::new(SMALL);
    let folder = Folder::new(&place);
    let Some(server) = folder.serve(&place) else { return };
    let disk = OpenOptions::new().read(true).write(true).open(folder.disk()).unwrap();
    for len in [128 << 10, 512 << 10, (1 << 20) - SECTOR, 1 << 20, 9 << 20] {
        let mut memory = vec![0u8; len + 2 * SECTOR];
        let begin = memory.as_ptr().align_offset(SECTOR) + 16;
        let data = &mut memory[begin..][..len];
        data.iter_mut().zip(0u32..).for_each(|(byte, i)| *byte = ((i * 7) >> 3) as u8);
        let written = data.to_vec();
        disk.write_all_at(data, SECTOR as u64).unwrap();
        data.fill(0);
        disk.read_exact_at(data, SECTOR as u64).unwrap();
        assert!(data == written, "{len} bytes");
    }
    drop(disk);
    assert_eq!(server.stop().0, Some(0));
}
