//! Reads of a served drive: the machine of `serve` with its image, without clients and clock.

use std::path::PathBuf;
use std::sync::Arc;
use wordline_base::{SECTOR, Seed, Time};
use wordline_check::Case;
use wordline_device::DriveConfig;
use wordline_ftl::{Translation, Translator};
use wordline_live::fit;
use wordline_live::image::{Image, Superblock};
use wordline_live::machine::{IoKind, Machine, Request};
use wordline_live::media::Media;
use wordline_live::recover::recover;
use wordline_live::tape::Tape;
use wordline_live::writer::Writer;
use wordline_nand::Nand;

/// What the gate calls them.
pub const KIND: &str = "live-reads";
const SIZE: u64 = 64 << 20;
const BATCH: u64 = 64;

/// A folder of its own, gone at the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn machine(folder: &Folder) -> Machine {
    let config = Case::new("cnex-small", "").config().expect("a bench's configuration is right");
    let drive = DriveConfig { nand: config.nand, device: config.device, ftl: config.ftl };
    let drive = fit::fit(&drive, SIZE).expect("a small drive can be made smaller").drive;
    let nand = Nand::new(&drive.nand, Seed(1)).expect("a preset's flash");
    let g = nand.geometry;
    let mut bad = |lun, line| nand.is_factory_bad(lun, line);
    let ftl = Translator::new(None, &g, &drive.ftl, &mut bad, Seed(1)).expect("a preset's FTL");
    let superblock = Superblock {
        id: 1,
        size: SIZE,
        sectors: ftl.sectors(),
        seed: 1,
        luns: g.luns,
        lines: g.lines,
        pages: g.pages,
        unit_sectors: g.sectors_per_unit,
        config: String::new(),
    };
    let path = folder.0.join("drive.img");
    Image::create(&path, &superblock).expect("an image in a new folder");
    let image = Arc::new(Image::open(&path, true).expect("the image just made"));
    let mut recovered = recover(&image, &drive, true).expect("an empty image");
    let writer = Writer::start(Arc::clone(&image), false).expect("a thread");
    let media = Media::new(image, &mut recovered, writer, &drive);
    Machine::new(&drive, recovered, Some(media), Tape::Off, SIZE).expect("a preset's drive")
}

fn request(kind: IoKind, offset: u64, len: u32) -> Request {
    Request { tag: 0, kind, offset, len, fua: false, queue: 0, pid: 0, data: Vec::new() }
}

/// Answers so many requests, as fast as the machine can.
fn answer(machine: &mut Machine, mut wanted: u64) {
    while wanted > 0 {
        machine.run(Time(u64::MAX - 1), 64);
        while let Some(done) = machine.poll() {
            done.result.expect("a sound image");
            machine.recycle(done.data);
            wanted -= 1;
        }
    }
}

/// All that was written is in the image.
fn flush(machine: &mut Machine) {
    let now = machine.now();
    machine.submit(now, request(IoKind::Flush, 0, 0), &[]);
    machine.run(Time(u64::MAX - 1), 64);
    let done = machine.poll().expect("a flush takes no turn of another request");
    let ticket = done.sync.expect("a flush is durable");
    machine.media_mut().writer.wait(ticket).expect("a sound image");
}

/// Reads of 4 KiB at depth 64, from the page cache of a drive that was written in order.
#[inline(never)]
fn step_all(machine: &mut Machine, reads: u64) {
    let mut block = 1;
    for _ in 0..reads / BATCH {
        for _ in 0..BATCH {
            // All residues of a power of two, in a scattered order.
            block = (block * 5 + 3) % (SIZE / SECTOR);
            let now = machine.now();
            machine.submit(now, request(IoKind::Read, block * SECTOR, SECTOR as u32), &[]);
        }
        answer(machine, BATCH);
    }
}

pub fn counted(reads: u64) {
    let name = format!("wordline-bench-{}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(name));
    std::fs::create_dir(&folder.0).expect("a new folder for temporary files");
    let mut machine = machine(&folder);
    let data = vec![7; 128 << 10];
    for offset in (0..SIZE).step_by(data.len()) {
        let now = machine.now();
        machine.submit(now, request(IoKind::Write, offset, data.len() as u32), &data);
        answer(&mut machine, 1);
    }
    // Sectors that the writer holds are read from memory, not from the image, and how many it holds depends on the
    // machine. A flush lets go of what the one before it has written.
    flush(&mut machine);
    flush(&mut machine);
    step_all(&mut machine, reads);
    machine.close().expect("a sound image");
}
