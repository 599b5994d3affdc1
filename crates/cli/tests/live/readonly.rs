//! The file system under the image breaks under load and takes nothing more: what was promised until then is
//! in the image when it is mounted again, and until then what can be read is right.
//!
//! A file system that a server writes on is not made read-only by `remount,ro` (EBUSY): it happens where the
//! file system finds itself damaged. None comes back before it was unmounted, and no server lives so long.
//! What only the page cache had is gone then. So what is read of a broken one promises nothing.

use super::crash::{Model, Watch};
use super::place::{Mounted, Place, mount, program, skip, wait_until};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use wordline_base::Rng;
use wordline_nbd::{cmd, errno};

const SIZE: u64 = 48 << 20;

/// How a file system breaks.
#[derive(Clone, Copy, Debug)]
pub struct Break {
    words: &'static [&'static str],
    /// Files can be read then.
    readable: bool,
}

const ABORT: Break = Break { words: &["mount", "-o", "remount,abort"], readable: true };
/// With what its log has in memory, or without.
pub const SHUTDOWNS: [Break; 2] = [
    Break { words: &["xfs_io", "-x", "-c", "shutdown"], readable: false },
    Break { words: &["xfs_io", "-x", "-c", "shutdown -f"], readable: false },
];

pub struct Disk {
    pub above: Mounted,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl Disk {
    /// None: it cannot be had here, which is said.
    pub fn new(mkfs: &str) -> Option<Disk> {
        let folder = tempfile::tempdir().unwrap();
        let (file, on) = (folder.path().join("disk"), folder.path().join("on"));
        std::fs::create_dir(&on).unwrap();
        std::fs::File::create(&file).unwrap().set_len(512 << 20).unwrap();
        for tool in [mkfs, "xfs_io"] {
            if program(tool).arg("-V").output().unwrap().status.code() == Some(127) {
                skip(&format!("{tool} is not installed; make test installs it"));
                return None;
            }
        }
        let made = program(mkfs).arg("-q").arg(&file).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let Some(above) = Mounted::new(&["-o", "loop", file.to_str().unwrap()], &on) else {
            skip("no loop device here");
            return None;
        };
        Some(Disk { above, file, _folder: folder })
    }
    pub fn take_away(&self, by: Break) {
        let out = program(by.words[0]).args(&by.words[1..]).arg(&self.above.on).output().unwrap();
        assert!(out.status.success(), "{by:?}: {}", String::from_utf8_lossy(&out.stderr));
    }
    fn mount_again(&self) {
        // A killed server's ring holds the image for some milliseconds more.
        wait_until("nobody uses it", || {
            program("umount").arg(&self.above.on).output().unwrap().status.success()
        });
        // Nor may another namespace of mounts keep the broken one.
        wait_until("its loop device is free", || {
            let out = program("losetup").arg("-j").arg(&self.file).output().unwrap();
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
            out.stdout.is_empty()
        });
        assert!(mount(&["-o", "loop", self.file.to_str().unwrap()], &self.above.on));
    }
}

fn storm(mkfs: &str, breaks: &[Break], args: &str, block: usize, seed: u64) {
    let Some(disk) = Disk::new(mkfs) else { return };
    let place = Place::new(&format!("--size {SIZE} --time-scale 0 {args}"));
    let place = place.with_image(disk.above.on.join("drive.img"));
    let mut rng = Rng::from_seed(seed);
    let mut model = Model::new(SIZE, block, seed);
    let (mut requests, mut promises) = (0, 0);
    let rounds = super::crash::kills(8);
    for round in 0..rounds {
        let by = breaks[rng.below(breaks.len() as u64) as usize];
        let what = format!("{args} on {mkfs}, seed {seed}, round {round}, {by:?}");
        let server = place.start();
        model.verify(&mut place.client(""), round).unwrap_or_else(|w| panic!("{what}: {}", w.1));
        let client = place.client("");
        let watch = Watch { unreadable: !by.readable, ..Watch::default() };
        let (answers, refused) = (1 + rng.below(2000), 1 + rng.below(200));
        let mut of_load = Rng::from_seed(seed ^ u64::from(round) << 32);
        std::thread::scope(|scope| {
            let load = scope.spawn(|| model.load(client, &mut of_load, &watch));
            watch.wait("answers", &load, |w| {
                w.answered.load(Relaxed) >= answers && w.promised.load(Relaxed) > 0
            });
            watch.broken.store(true, Relaxed);
            disk.take_away(by);
            watch.wait("what can be done is done", &load, |w| w.failed.load(Relaxed) >= refused);
            watch.over.store(true, Relaxed);
            requests += load.join().unwrap();
        });
        promises += watch.promised.load(Relaxed);
        let mut c = place.client("");
        let data = vec![1; block];
        for (command, flags, data) in [
            (cmd::WRITE, 0, &data[..]),
            (cmd::WRITE, cmd::FLAG_FUA, &data[..]),
            (cmd::WRITE_ZEROES, 0, &[]),
            (cmd::TRIM, 0, &[]),
            (cmd::FLUSH, 0, &[]),
        ] {
            let len = if command == cmd::FLUSH { 0 } else { block as u32 };
            let reply = c.call(command, flags, 0, len, data).unwrap();
            assert_eq!(reply.error, errno::EIO, "{what}: command {command}");
        }
        model.look(&mut c, by.readable, round);
        let said = server.so_far();
        let told = ["a sync of the image failed: ", "the image cannot be written ("];
        let why = ["Read-only file system", "Input/output error"];
        let mut reasons = told.iter().flat_map(|told| why.map(|why| format!("{told}{why}")));
        let told = reasons.any(|reason| said.contains(&reason));
        assert!(told && said.contains("mounted again"), "{what}: {said}");
        if rng.below(2) == 0 {
            server.kill();
        } else {
            let (status, said) = server.stop();
            assert_eq!(status, Some(1), "{what}: {said}");
            assert!(said.contains("could not be written to the end"), "{what}: {said}");
        }
        disk.mount_again();
    }
    let server = place.start();
    model.verify(&mut place.client(""), rounds).unwrap_or_else(|w| panic!("{args}: {}", w.1));
    assert_eq!(server.stop().0, Some(0), "{args}, seed {seed}");
    println!("{args} on {mkfs}: {requests} requests sent, {promises} promises");
}

fn seed() -> u64 {
    let given = std::env::var("WORDLINE_SEED").ok();
    given.map_or(31, |seed| seed.parse().expect("WORDLINE_SEED is a number"))
}

#[test]
fn a_drive_whose_file_system_becomes_read_only_keeps_its_promises() {
    for (i, way) in super::place::image_ios().into_iter().enumerate() {
        for (ftl, block) in [("pblk", 4096), ("rail", 512)] {
            let args = format!("--device cnex-small --ftl {ftl} --set device.lba={block} {way}");
            storm("mkfs.ext4", &[ABORT], &args, block, seed() + i as u64);
        }
    }
}
#[test]
fn a_drive_whose_file_system_shuts_down_keeps_its_promises() {
    for (i, way) in super::place::image_ios().into_iter().enumerate() {
        for (mkfs, ftl, block) in [("mkfs.ext4", "pblk", 512), ("mkfs.xfs", "rail", 4096)] {
            let args = format!("--device cnex-small --ftl {ftl} --set device.lba={block} {way}");
            storm(mkfs, &SHUTDOWNS, &args, block, seed() + i as u64);
        }
    }
}
