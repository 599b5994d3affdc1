//! The image's disk is full, or refuses: nothing flushed is lost, reads go on, and so does the drive
//! when it can.

use crate::place::{Place, image_ios, skip, wait_until, wordline};
use std::path::{Path, PathBuf};
use std::process::Command;
use wordline_nbd::{cmd, errno};

const MIB: u64 = 1 << 20;

/// Writes and flushes MiB after MiB until one fails: how many are flushed, and the error.
fn fill(place: &Place, from: u64) -> (u64, u32) {
    let mut c = place.client("");
    for i in from..48 {
        let data = vec![i as u8 + 1; MIB as usize];
        let written = c.call(cmd::WRITE, 0, i * MIB, MIB as u32, &data).unwrap().error;
        let flushed = c.call(cmd::FLUSH, 0, 0, 0, &[]).unwrap().error;
        if written != 0 || flushed != 0 {
            return (i, written.max(flushed));
        }
    }
    (48, 0)
}
fn holds(place: &Place, flushed: u64) {
    let mut c = place.client("");
    for i in 0..flushed {
        let reply = c.call(cmd::READ, 0, i * MIB, MIB as u32, &[]).unwrap();
        assert_eq!(reply.error, 0, "MiB {i}");
        assert!(reply.data[0].1.iter().all(|&b| b == i as u8 + 1), "MiB {i}");
    }
}

fn mount(words: &[&str], on: &Path) -> bool {
    Command::new("mount").args(words).arg(on).output().is_ok_and(|out| out.status.success())
}
struct Mounted(PathBuf);

impl Mounted {
    fn new(words: &[&str], on: &Path) -> Option<Mounted> {
        mount(words, on).then(|| Mounted(on.into()))
    }
}
impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_stops_writes_until_there_is_room() {
    image_ios().into_iter().for_each(stops_until_there_is_room);
}
fn stops_until_there_is_room(way: &str) {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().to_path_buf();
    let Some(_mounted) = Mounted::new(&["-t", "tmpfs", "-o", "size=24m", "tmpfs"], &disk) else {
        return skip("no tmpfs may be mounted here");
    };
    let place = Place::new(&format!("--size 48M --device cnex-small --time-scale 0 {way}"));
    let place = place.with_image(disk.join("drive.img"));
    let tape = place.dir.path().join("a.tape");
    let server = place.start_with(&["--tape", tape.to_str().unwrap()]);
    let (flushed, error) = fill(&place, 0);
    assert!(flushed > 4 && flushed < 24 && error == errno::ENOSPC, "{flushed} {error}");
    holds(&place, flushed);
    let mut c = place.client("");
    assert_eq!(c.call(cmd::WRITE, 0, 0, 512, &[0; 512]).unwrap().error, errno::ENOSPC);
    assert_eq!(c.call(cmd::TRIM, 0, 0, 4096, &[]).unwrap().error, errno::ENOSPC);
    // A kill now loses nothing that was flushed. (Its own copy: the tape goes on.)
    let copied = place.dir.path().join("copy.img");
    std::fs::copy(place.image(), &copied).unwrap();
    let more = ["-t", "tmpfs", "-o", "remount,size=200m", "tmpfs"];
    assert!(mount(&more, &disk), "it was mounted a moment ago");
    wait_until("there is room, and it goes on", || fill(&place, flushed) == (48, 0));
    holds(&place, 48);
    let (status, said) = server.stop();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("the image cannot be written") && said.contains("can be written again"));
    let out = wordline().args(["tape", "replay"]).arg(&tape).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && text.contains("\nas recorded\n"), "{text}");
    let place = place.with_image(copied);
    let _server = place.start();
    holds(&place, flushed);
}

#[test]
fn a_file_that_may_not_grow_is_told_from_a_good_one() {
    image_ios().into_iter().for_each(may_not_grow);
}
fn may_not_grow(way: &str) {
    let place = Place::new(&format!("--size 48M --device cnex-small --time-scale 0 {way}"));
    place.start().stop();
    let len = std::fs::metadata(place.image()).unwrap().len();
    // The signal that comes with the limit is ignored: the error is what counts.
    let words = format!("trap '' XFSZ; ulimit -f {}; exec \"$@\"", len / 1024 / 3);
    let server = place.start_under(&["bash", "-c", &words, "serve"]);
    let (flushed, error) = fill(&place, 0);
    assert!(flushed < 48 && error == errno::ENOSPC, "{flushed} {error}");
    holds(&place, flushed);
    let (status, said) = server.stop();
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("could not be written to the end"), "{said}");
    let _server = place.start();
    holds(&place, flushed);
    assert_eq!(fill(&place, flushed), (48, 0));
}

#[test]
fn a_last_sync_that_fails_is_told() {
    image_ios().into_iter().for_each(last_sync_fails);
}
/// A file system takes what is written, and cannot bring it to its disk: that lies in a file for which
/// there is no room any more.
fn last_sync_fails(way: &str) {
    let folder = tempfile::tempdir().unwrap();
    let [below, above] = ["below", "above"].map(|name| folder.path().join(name));
    [&below, &above].into_iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
    let Some(_below) = Mounted::new(&["-t", "tmpfs", "-o", "size=64m", "tmpfs"], &below) else {
        return skip("no tmpfs may be mounted here");
    };
    let disk = below.join("disk");
    std::fs::File::create(&disk).unwrap().set_len(256 * MIB).unwrap();
    let made = Command::new("mkfs.ext4").args(["-q", "-O", "^has_journal"]).arg(&disk).output();
    if !made.is_ok_and(|out| out.status.success()) {
        return skip("mkfs.ext4 is not installed; make test installs it");
    }
    let Some(_above) = Mounted::new(&["-o", "loop", disk.to_str().unwrap()], &above) else {
        return skip("no loop device here");
    };
    let place = Place::new(&format!("--size 48M --device cnex-small --time-scale 0 {way}"));
    let place = place.with_image(above.join("drive.img"));
    let server = place.start();
    let mut c = place.client("");
    let write = |c: &mut wordline_nbd::Client<_>, i: u64| {
        let data = vec![i as u8 + 1; MIB as usize];
        assert_eq!(c.call(cmd::WRITE, 0, i * MIB, MIB as u32, &data).unwrap().error, 0);
    };
    (0..4).for_each(|i| write(&mut c, i));
    assert_eq!(c.call(cmd::FLUSH, 0, 0, 0, &[]).unwrap().error, 0);
    let filler = below.join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    while std::io::Write::write_all(&mut file, &[1; 4096]).is_ok() {}
    (4..24).for_each(|i| write(&mut c, i));
    c.send(cmd::FLUSH, 0, 77, 0, 0, &[]).unwrap();
    let (status, said) = server.stop();
    // Answered before the end or at it, if at all: not as if it were done.
    assert!(c.receive().map_or(true, |reply| reply.error != 0), "{way}");
    assert_eq!(status, Some(1), "{way}: {said}");
    let end = said.lines().last().unwrap();
    assert!(end.contains("could not be written to the end"), "{way}: {said}");
    assert!(end.contains("No space left") || end.contains("Input/output error"), "{way}: {said}");
    assert!(end.contains("what was flushed before is in it"), "{way}: {said}");
    std::fs::remove_file(filler).unwrap();
    let _server = place.start();
    holds(&place, 4);
}
