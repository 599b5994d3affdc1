//! The image's disk is full, or refuses: nothing flushed is lost, reads go on, and so does the drive
//! when it can.

use super::place::{Mounted, Place, image_ios, mount, skip, wait_until, wordline};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wordline_nbd::{cmd, errno, flag};

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
    assert_eq!(c.call(cmd::WRITE, 0, 0, 4096, &[0; 4096]).unwrap().error, errno::ENOSPC);
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
    let told = "the image cannot be written (No space left on device (os error 28)): writes and";
    assert!(said.contains(told) && said.contains("; free space on its disk"), "{said}");
    assert!(said.contains("the image can be written again"), "{said}");
    // Each time with the reason.
    assert!(!said.contains("cannot be written\n"), "{said}");
    let out = wordline().args(["tape", "replay"]).arg(&tape).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && text.contains("\nas recorded\n"), "{text}");
    let place = place.with_image(copied);
    let _server = place.start();
    holds(&place, flushed);
}

/// Lets a file system stand still as long as this lasts.
struct Frozen<'a>(&'a std::path::Path);

impl<'a> Frozen<'a> {
    fn new(on: &'a std::path::Path) -> Frozen<'a> {
        let out = Command::new("fsfreeze").arg("-f").arg(on).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        Frozen(on)
    }
}
impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let _ = Command::new("fsfreeze").arg("-u").arg(self.0).output();
    }
}

/// So much waits for a slow disk that the drive stands still. Then the disk is broken.
#[test]
fn who_waits_for_room_is_answered_when_there_will_be_none() {
    image_ios().into_iter().for_each(is_answered);
}
fn is_answered(way: &str) {
    let Some(disk) = super::readonly::Disk::new("mkfs.ext4") else { return };
    let place = Place::new(&format!("--size 48M --device cnex-small --time-scale 0 {way}"));
    let place = place.with_image(disk.above.on.join("drive.img"));
    let server = place.start();
    let frozen = Frozen::new(&disk.above.on);
    let answered = AtomicU64::new(0);
    let mut c = place.client("");
    std::thread::scope(|scope| {
        let writes = scope.spawn(|| {
            loop {
                let i = answered.load(Relaxed) % 48;
                match write_mib(&mut c, i) {
                    0 => answered.fetch_add(1, Relaxed),
                    error => return error,
                };
            }
        });
        // It stands still when no more comes.
        let mut before = 0;
        wait_until("it stands still", || {
            let now = answered.load(Relaxed);
            let stands = now > 64 && now == before;
            before = now;
            std::thread::sleep(std::time::Duration::from_millis(500));
            stands || writes.is_finished()
        });
        disk.take_away(super::readonly::SHUTDOWNS[0]);
        drop(frozen);
        assert_eq!(writes.join().unwrap(), errno::EIO, "{way}");
    });
    let held = answered.load(Relaxed);
    assert!(held < 1000, "{way}: {held} MiB were taken by a disk that stood still");
    assert_eq!(place.client("").call(cmd::FLUSH, 0, 0, 0, &[]).unwrap().error, errno::EIO);
    let (status, said) = server.stop();
    assert_eq!(status, Some(1), "{way}: {said}");
}

#[test]
fn a_file_that_may_not_grow_is_told_from_a_good_one() {
    image_ios().into_iter().for_each(may_not_grow);
}
fn may_not_grow(way: &str) {
    let place = Place::new(&format!("--size 48M --device cnex-small --time-scale 0 {way}"));
    place.start().stop();
    let len = std::fs::metadata(place.image()).unwrap().len();
    let words = format!("ulimit -f {}; exec \"$@\"", len / 1024 / 3);
    let server = place.start_under(&["bash", "-c", &words, "serve"]);
    let (flushed, error) = fill(&place, 0);
    assert!(flushed < 48 && error == errno::ENOSPC, "{flushed} {error}");
    holds(&place, flushed);
    assert!(server.so_far().contains("prlimit --fsize"), "{}", server.so_far());
    let (status, said) = server.stop();
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("could not be written to the end"), "{said}");
    let _server = place.start();
    holds(&place, flushed);
    assert_eq!(fill(&place, flushed), (48, 0));
}

#[test]
fn an_image_is_not_made_where_it_may_not_be_so_long() {
    let place = Place::new("--size 48M --device cnex-small --time-scale 0");
    let words = ["-c", "ulimit -f 1024; exec \"$@\"", "serve"];
    let mut command = Command::new("bash");
    command.args(words).arg(wordline().get_program()).args(&place.args);
    let out = command.output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("File too large") && said.contains("ulimit -f"), "{said}");
    let left: Vec<_> = std::fs::read_dir(place.dir.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A disk that takes what is written, and can be made one that cannot keep it: it lies in a file for
/// which there is no room any more.
struct Leaky {
    above: Mounted,
    disk: PathBuf,
    filler: PathBuf,
    _below: Mounted,
    _folder: tempfile::TempDir,
}

impl Leaky {
    /// None: it cannot be had here, which is said.
    fn new() -> Option<Leaky> {
        let folder = tempfile::tempdir().unwrap();
        let [below, above] = ["below", "above"].map(|name| folder.path().join(name));
        [&below, &above].into_iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
        let Some(_below) = Mounted::new(&["-t", "tmpfs", "-o", "size=200m", "tmpfs"], &below)
        else {
            skip("no tmpfs may be mounted here");
            return None;
        };
        let disk = below.join("disk");
        std::fs::File::create(&disk).unwrap().set_len(256 * MIB).unwrap();
        let made = Command::new("mkfs.ext4").args(["-q", "-O", "^has_journal"]).arg(&disk).output();
        if !made.is_ok_and(|out| out.status.success()) {
            skip("mkfs.ext4 is not installed; make test installs it");
            return None;
        }
        let Some(above) = Mounted::new(&["-o", "loop", disk.to_str().unwrap()], &above) else {
            skip("no loop device here");
            return None;
        };
        Some(Leaky { above, disk, filler: below.join("filler"), _below, _folder: folder })
    }
    /// The file system has given the image all its blocks, so that what it must remember of it does not
    /// change; the disk has none of those that are blank.
    fn place(&self, way: &str) -> Option<Place> {
        let place = Place::new(&format!("--size 48M --device cnex-small --time-scale 0 {way}"));
        let place = place.with_image(self.above.on.join("drive.img"));
        assert_eq!(place.start().stop().0, Some(0));
        let bytes = std::fs::read(place.image()).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(place.image()).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap();
        file.sync_all().unwrap();
        let dug = Command::new("fallocate").arg("--dig-holes").arg(&self.disk).output();
        if !dug.is_ok_and(|out| out.status.success()) {
            skip("no holes can be dug into files here");
            return None;
        }
        Some(place)
    }
    /// From now on what is written is kept in memory, as long as it lasts.
    fn leak(&self) {
        let mut file = std::fs::File::create(&self.filler).unwrap();
        while std::io::Write::write_all(&mut file, &[1; 4096]).is_ok() {}
    }
    fn mend(&self) {
        std::fs::remove_file(&self.filler).unwrap();
    }
    /// The host goes down and comes back: what only its memory had is gone.
    fn power_loss(&mut self) -> bool {
        let on = self.above.on.clone();
        let off = Command::new("umount").arg(&on).output();
        assert!(off.is_ok_and(|out| out.status.success()), "somebody still uses it");
        mount(&["-o", "loop", self.disk.to_str().unwrap()], &on)
    }
}
fn write_mib(c: &mut wordline_nbd::Client<std::os::unix::net::UnixStream>, i: u64) -> u32 {
    let data = vec![i as u8 + 1; MIB as usize];
    c.call(cmd::WRITE, 0, i * MIB, MIB as u32, &data).unwrap().error
}

#[test]
fn after_a_failed_sync_nothing_is_promised_until_the_next_start() {
    image_ios().into_iter().for_each(nothing_is_promised);
}
fn nothing_is_promised(way: &str) {
    let Some(mut disk) = Leaky::new() else { return };
    let Some(place) = disk.place(way) else { return };
    let server = place.start();
    let mut c = place.client("");
    (0..4).for_each(|i| assert_eq!(write_mib(&mut c, i), 0));
    assert_eq!(c.call(cmd::FLUSH, 0, 0, 0, &[]).unwrap().error, 0);
    disk.leak();
    // Each is whole in memory, and no more than some of it on the disk.
    (4..24).for_each(|i| assert_eq!(write_mib(&mut c, i), 0));
    assert_eq!(c.call(cmd::FLUSH, 0, 0, 0, &[]).unwrap().error, errno::EIO, "{way}");
    disk.mend();
    // The disk is good again, and a second sync would succeed without what the first one lost.
    for _ in 0..3 {
        assert_eq!(write_mib(&mut c, 30), errno::EIO, "{way}");
        assert_eq!(c.call(cmd::TRIM, 0, 0, 4096, &[]).unwrap().error, errno::EIO, "{way}");
        assert_eq!(c.call(cmd::FLUSH, 0, 0, 0, &[]).unwrap().error, errno::EIO, "{way}");
        assert_eq!(
            c.call(cmd::WRITE, cmd::FLAG_FUA, 0, 4096, &[1; 4096]).unwrap().error,
            errno::EIO
        );
        std::thread::sleep(std::time::Duration::from_millis(150));
    }
    holds(&place, 24);
    let (status, said) = server.stop();
    assert_eq!(status, Some(1), "{way}: {said}");
    assert!(said.contains("a sync of the image failed: "), "{way}: {said}");
    assert!(said.contains("until the server is started again"), "{way}: {said}");
    assert!(!said.contains("can be written again"), "{way}: {said}");
    // What the system still shows, and the disk may not have, is not taken for durable.
    let server = place.start();
    let mut c = place.client("");
    assert_eq!(c.call(cmd::FLUSH, 0, 0, 0, &[]).unwrap().error, 0);
    let seen: Vec<Vec<u8>> = (0..24)
        .map(|i| {
            let reply = c.call(cmd::READ, 0, i * MIB, MIB as u32, &[]).unwrap();
            assert_eq!(reply.error, 0, "MiB {i}");
            reply.data[0].1.clone()
        })
        .collect();
    holds(&place, 4);
    server.kill();
    if !disk.power_loss() {
        return skip("no loop device any more");
    }
    let _server = place.start();
    let mut c = place.client("");
    for (i, seen) in seen.iter().enumerate() {
        let reply = c.call(cmd::READ, 0, i as u64 * MIB, MIB as u32, &[]).unwrap();
        assert!(reply.error == 0 && reply.data[0].1 == *seen, "{way}: MiB {i} was flushed");
    }
}

#[test]
fn a_last_sync_that_fails_is_told() {
    image_ios().into_iter().for_each(last_sync_fails);
}
fn last_sync_fails(way: &str) {
    let Some(disk) = Leaky::new() else { return };
    let Some(place) = disk.place(way) else { return };
    let server = place.start();
    let mut c = place.client("");
    (0..4).for_each(|i| assert_eq!(write_mib(&mut c, i), 0));
    assert_eq!(c.call(cmd::FLUSH, 0, 0, 0, &[]).unwrap().error, 0);
    disk.leak();
    (4..24).for_each(|i| assert_eq!(write_mib(&mut c, i), 0));
    c.send(cmd::FLUSH, 0, 77, 0, 0, &[]).unwrap();
    let (status, said) = server.stop();
    // Answered before the end or at it, if at all: not as if it were done.
    assert!(c.receive().map_or(true, |reply| reply.error != 0), "{way}");
    assert_eq!(status, Some(1), "{way}: {said}");
    let end = said.lines().last().unwrap();
    assert!(end.contains("could not be written to the end"), "{way}: {said}");
    assert!(end.contains("No space left") || end.contains("Input/output error"), "{way}: {said}");
    assert!(end.contains("what was flushed before is in it"), "{way}: {said}");
    disk.mend();
    let _server = place.start();
    holds(&place, 4);
}

/// A served FSSD with a limit of memory: writes that need more of the map fail, and nothing that was flushed is lost,
/// also by a kill.
#[test]
fn a_map_beyond_its_memory_refuses_writes_and_keeps_the_rest() {
    let place = Place::new("--size 64M --device fssd-small --time-scale 0 --host-memory 150000");
    let server = place.start();
    let mut c = place.client("");
    // Every second sector is an entry of its own.
    let at = |i: u64| i * 2 * 4096;
    let mut flushed = 0;
    let error = loop {
        let data = [(flushed % 250) as u8 + 1; 4096];
        let error = c.call(cmd::WRITE, 0, at(flushed), 4096, &data).unwrap().error;
        if error != 0 || flushed == 8000 {
            break error;
        }
        flushed += 1;
    };
    assert_eq!(c.call(cmd::FLUSH, 0, 0, 0, &[]).unwrap().error, 0);
    assert_eq!(error, errno::ENOSPC, "{flushed} sectors: {}", server.so_far());
    assert!(flushed > 340, "{flushed} sectors need more than a node");
    let said = server.so_far();
    assert!(said.contains("limit of memory") && said.contains("--host-memory"), "{said}");
    let holds = || {
        let mut c = place.client("");
        for i in 0..flushed {
            let reply = c.call(cmd::READ, 0, at(i), 4096, &[]).unwrap();
            assert!(reply.error == 0, "sector {i}");
            assert!(reply.data[0].1.iter().all(|&b| b == (i % 250) as u8 + 1), "sector {i}");
        }
    };
    holds();
    // What is mapped can be written over, and what is trimmed gives its memory back.
    assert_eq!(c.call(cmd::WRITE, 0, at(3), 4096, &[4; 4096]).unwrap().error, 0);
    server.kill();
    let server = place.start();
    holds();
    let mut c = place.client("");
    let beyond = at(flushed + 1);
    assert_eq!(c.call(cmd::WRITE, 0, beyond, 4096, &[1; 4096]).unwrap().error, errno::ENOSPC);
    server.stop();
    // Without the limit it goes on.
    let _server = place.start_with(&["--set", "ftl.fssd.host_memory=none"]);
    let mut c = place.client("");
    assert_eq!(c.call(cmd::WRITE, 0, beyond, 4096, &[1; 4096]).unwrap().error, 0);
    holds();
}

/// A drive whose blocks fail until it can take no more: reads return the newest version or an error, writes and flushes fail
/// each time, and the end tells so.
#[test]
fn a_drive_that_can_take_no_more_is_read_only_and_says_so_at_the_next_start() {
    let faults = "--set nand.faults.program_fail_ppb=30000000";
    let place = Place::new(&format!("--size 64M --device pm9a3-1920g --time-scale 0 {faults}"));
    let server = place.start();
    let mut c = place.client("");
    let blocks = 64 * MIB / 4096;
    let data = |version: u32| version.to_le_bytes().repeat(1024);
    let mut newest = vec![0u32; blocks as usize];
    let mut flushed = newest.clone();
    let mut version = 0;
    let failed = 'writes: loop {
        for _ in 0..500 {
            version += 1;
            let at = u64::from(version).wrapping_mul(0x9E37_79B9_7F4A_7C15) % blocks;
            let error = c.call(cmd::WRITE, 0, at * 4096, 4096, &data(version)).unwrap().error;
            if error != 0 {
                break 'writes error;
            }
            newest[at as usize] = version;
        }
        let error = c.call(cmd::FLUSH, 0, 0, 0, &[]).unwrap().error;
        if error != 0 {
            break error;
        }
        flushed.clone_from(&newest);
        assert!(version < 1_000_000, "it goes on: {}", server.so_far());
    };
    assert_eq!(failed, errno::EIO, "after {version} writes: {}", server.so_far());
    wait_until("the drive to say why", || {
        let said = server.so_far();
        said.contains("read-only after the next start as well") && said.contains("blocks are bad")
    });
    assert_eq!(c.info.flags & flag::READ_ONLY, 0, "this client came before");
    assert_ne!(place.client("").info.flags & flag::READ_ONLY, 0, "a client that comes now is told");
    for _ in 0..3 {
        assert_eq!(c.call(cmd::WRITE, 0, 0, 4096, &data(7)).unwrap().error, errno::EIO);
        assert_eq!(c.call(cmd::FLUSH, 0, 0, 0, &[]).unwrap().error, errno::EIO);
        assert_eq!(c.call(cmd::TRIM, 0, 0, 1 << 20, &[]).unwrap().error, errno::EIO);
    }
    let mut lost = 0;
    for (at, version) in (1..).zip(&newest[1..]) {
        let reply = c.call(cmd::READ, 0, at * 4096, 4096, &[]).unwrap();
        match reply.error {
            0 => assert_eq!(reply.data[0].1, data(*version), "block {at}"),
            error => {
                assert_eq!(error, errno::EIO, "block {at}");
                lost += 1;
            }
        }
    }
    assert!(lost < blocks / 4, "{lost} blocks cannot be read");
    let (status, said) = server.stop();
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("read-only") && said.contains("may be lost"), "{said}");
    // What was flushed is there after the next start, or what was written since.
    let server = place.start();
    assert!(server.so_far().contains("read-only: too few blocks"), "{}", server.so_far());
    let mut c = place.client("");
    assert_ne!(c.info.flags & flag::READ_ONLY, 0);
    for (at, (&least, &most)) in (0..).zip(flushed.iter().zip(&newest)) {
        let reply = c.call(cmd::READ, 0, at * 4096, 4096, &[]).unwrap();
        assert_eq!(reply.error, 0, "block {at}");
        let found = u32::from_le_bytes(reply.data[0].1[..4].try_into().unwrap());
        assert!(reply.data[0].1 == data(found), "block {at}");
        // The last write may have been taken and not answered.
        assert!((least..=most).contains(&found) || found == version, "block {at}: {found}");
    }
}

/// Behind a cache that answers writes before the FTL has taken them, the map's limit costs what was answered: the drive is
/// read-only, and that is all that is said.
#[test]
fn a_map_beyond_its_memory_behind_a_cache_makes_the_drive_read_only() {
    let place = Place::new("--size 64M --time-scale 0 --host-memory 150000");
    let device = place.dir.path().join("cached.toml");
    let cache = "bytes = 4194304\nways = 8\nline_bytes = 4096\nwrite_back = true\nrate = 12800000000\n\
                 t_lookup = \"200ns\"\ndirty_high = 20\ndirty_max = 50\nread_allocate = true\n";
    let head =
        "[device]\nname = \"cached\"\ndescription = \"with a cache\"\nbase = \"fssd-small\"\n";
    let ftl = "[ftl]\nplacement = \"device\"\n\n[ftl.fssd]\nvolatile = true\n";
    std::fs::write(&device, format!("{head}\n{ftl}\n[cache]\n{cache}")).unwrap();
    let server = place.start_with(&["--device", device.to_str().unwrap()]);
    let mut c = place.client("");
    let mut answered = 0;
    // Every second sector is an entry of its own.
    while c.call(cmd::WRITE, 0, answered * 8192, 4096, &[1; 4096]).unwrap().error == 0 {
        answered += 1;
        assert!(answered < 8000, "{}", server.so_far());
    }
    wait_until("the drive to say why", || server.so_far().contains("is read-only"));
    assert_eq!(c.call(cmd::TRIM, 0, 0, 4096, &[]).unwrap().error, errno::EIO);
    let (status, said) = server.stop();
    assert_eq!(status, Some(1), "{said}");
    assert_eq!(said.matches("limit of memory").count(), 1, "{said}");
    assert!(said.contains("--host-memory") && !said.contains("can be written over"), "{said}");
    assert!(!said.contains("over_provisioning"), "{said}");
}
