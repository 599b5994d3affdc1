//! The image's disk is full, or refuses: nothing flushed is lost, reads go on, and so does the drive
//! when it can.

use crate::place::{Place, skip, wordline};
use std::process::Command;
use std::time::{Duration, Instant};
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

#[test]
fn a_full_disk_stops_writes_until_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().to_path_buf();
    let mount = |options: &str| {
        let out =
            Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&disk).output();
        out.is_ok_and(|out| out.status.success())
    };
    if !mount("size=24m") {
        return skip("no tmpfs may be mounted here");
    }
    struct Mounted(std::path::PathBuf);
    impl Drop for Mounted {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        }
    }
    let _mounted = Mounted(disk.clone());
    let place = Place::new("--size 48M --device cnex-small --time-scale 0");
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
    assert!(mount("remount,size=200m"), "it was mounted a moment ago");
    let begun = Instant::now();
    while fill(&place, flushed) != (48, 0) {
        assert!(begun.elapsed() < Duration::from_secs(10), "there is room, and it does not go on");
        std::thread::sleep(Duration::from_millis(50));
    }
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
    let place = Place::new("--size 48M --device cnex-small --time-scale 0");
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
