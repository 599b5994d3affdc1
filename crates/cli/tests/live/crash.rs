//! The server is killed at random points under load; after each restart every sector must hold what
//! the client was promised, or something it sent later, and nothing else.
//!
//! Versions of a logical block count the writes sent to it. A flush promises what was answered before it
//! was sent, FUA promises its own write, a trim takes promises back. Power losses of the host are played
//! by damaging what no sync has covered. Bits of data that were synced are flipped: those sectors may fail
//! until they are written again, and no others.

use super::place::{HANGS, Place, image_ios};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};
use wordline_base::Rng;
use wordline_live::image::{Found, Image, UnitKind};
use wordline_nbd::{Client, cmd, errno};

const SECTOR: usize = 4096;
/// Read at a time.
const RUN: usize = 64 * SECTOR;

#[derive(Clone, Copy, Default, Debug)]
struct Block {
    /// The version of the newest write sent.
    sent: u32,
    /// The version of the newest write answered.
    answered: u32,
    /// It holds at least this version.
    floor: u32,
    /// The newest version that was zeroes, if one was since the floor; versions of trims too.
    zero: Option<u32>,
    /// Versions up to this were sent before a trim: nothing is promised of them any more.
    trimmed: u32,
}

pub struct Model {
    /// By logical block of the drive.
    blocks: Vec<Block>,
    bytes: usize,
    seed: u64,
    /// Sectors in which bits were flipped: they may fail.
    flipped: BTreeSet<usize>,
}

/// What a load is told while it runs, and what it tells.
#[derive(Default)]
pub struct Watch {
    pub over: AtomicBool,
    /// The image cannot be written, or will be so in a moment: what changes something may fail.
    pub broken: AtomicBool,
    /// Reads of the image fail then, too.
    pub unreadable: bool,
    /// Answers without an error.
    pub answered: AtomicU64,
    /// Answers without an error that promised something.
    pub promised: AtomicU64,
    /// Errors.
    pub failed: AtomicU64,
}

impl Watch {
    /// Waits until a load has come so far.
    #[track_caller]
    pub fn wait(&self, what: &str, load: &ScopedJoinHandle<'_, u64>, is: impl Fn(&Watch) -> bool) {
        let begun = Instant::now();
        while !is(self) {
            assert!(!load.is_finished(), "the load ended before this: {what}");
            assert!(begun.elapsed() < HANGS, "waited in vain: {what}");
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

#[derive(Debug)]
enum Sent {
    Write {
        first: usize,
        versions: Vec<u32>,
        fua: bool,
    },
    /// What was answered when it was sent.
    Flush {
        answered: Vec<u32>,
    },
    Trim,
    Read,
}

fn fill(page: &mut [u8], lpn: usize, version: u32) {
    let (words, _) = page.as_chunks_mut();
    for (i, word) in words.iter_mut().enumerate() {
        *word = ((lpn as u64) << 40 | u64::from(version) << 9 | i as u64).to_le_bytes();
    }
}
/// The version a page holds; 0 for zeroes.
fn version_of(page: &[u8], lpn: usize) -> Option<u32> {
    let word = u64::from_le_bytes(page[..8].try_into().unwrap());
    let version = (word >> 9 & 0x7FFF_FFFF) as u32;
    let mut expected = vec![0; page.len()];
    if word != 0 {
        fill(&mut expected, lpn, version);
    }
    (expected == page).then_some(version)
}

impl Model {
    pub fn new(size: u64, bytes: usize, seed: u64) -> Model {
        let blocks = vec![Block::default(); size as usize / bytes];
        Model { blocks, bytes, seed, flipped: BTreeSet::new() }
    }
    /// The next version of a block, with its bytes.
    fn next(&mut self, block: usize, into: &mut [u8]) -> u32 {
        let b = &mut self.blocks[block];
        b.sent += 1;
        fill(into, block, b.sent);
        b.sent
    }
    /// Reads everything and compares; what is found is what is promised from then on.
    pub fn verify(
        &mut self,
        client: &mut Client<UnixStream>,
        kill: u32,
    ) -> Result<(), (u32, String)> {
        let size = self.blocks.len() * self.bytes;
        for first in (0..size).step_by(RUN) {
            let n = RUN.min(size - first);
            let reply = client.call(cmd::READ, 0, first as u64, n as u32, &[]).unwrap();
            if reply.error == 0 {
                self.compare(first, &reply.data[0].1, kill)?;
                continue;
            }
            for at in (first..first + n).step_by(SECTOR) {
                let reply = client.call(cmd::READ, 0, at as u64, SECTOR as u32, &[]).unwrap();
                match reply.error {
                    0 => self.compare(at, &reply.data[0].1, kill)?,
                    _ if self.flipped.contains(&(at / SECTOR)) => self.heal(client, at),
                    _ => {
                        let b = self.blocks[at / self.bytes];
                        let text = format!(
                            "seed {}, kill {kill}: EIO of sector {}, {b:?}",
                            self.seed,
                            at / SECTOR
                        );
                        return Err(((at / SECTOR) as u32, text));
                    }
                }
            }
        }
        Ok(())
    }
    /// A sector that was lost is good again when all of it is written.
    fn heal(&mut self, client: &mut Client<UnixStream>, at: usize) {
        let mut data = vec![0; SECTOR];
        for (i, bytes) in data.chunks_exact_mut(self.bytes).enumerate() {
            let block = at / self.bytes + i;
            let version = self.next(block, bytes);
            let b = &mut self.blocks[block];
            (b.answered, b.floor) = (version, version);
        }
        let fua = cmd::FLAG_FUA;
        let reply = client.call(cmd::WRITE, fua, at as u64, SECTOR as u32, &data).unwrap();
        assert_eq!(reply.error, 0, "seed {}: a sector that was lost is written", self.seed);
    }
    /// Reads everything of a drive that may lose what it shows: nothing more is promised by it.
    pub fn look(&self, client: &mut Client<UnixStream>, readable: bool, kill: u32) {
        let size = self.blocks.len() * self.bytes;
        for first in (0..size).step_by(RUN) {
            let n = RUN.min(size - first);
            let reply = client.call(cmd::READ, 0, first as u64, n as u32, &[]).unwrap();
            if reply.error != 0 {
                assert!(!readable, "seed {}, kill {kill}: bytes from {first}", self.seed);
                assert_eq!(reply.error, errno::EIO, "seed {}, kill {kill}", self.seed);
                continue;
            }
            let blocks = reply.data[0].1.chunks_exact(self.bytes).zip(first / self.bytes..);
            blocks.for_each(|(bytes, i)| {
                self.version_in(i, bytes, kill).unwrap_or_else(|wrong| panic!("{}", wrong.1));
            });
        }
    }
    fn compare(&mut self, at: usize, data: &[u8], kill: u32) -> Result<(), (u32, String)> {
        let first = at / self.bytes;
        for (i, bytes) in data.chunks_exact(self.bytes).enumerate() {
            let now = self.version_in(first + i, bytes, kill)?;
            let b = &mut self.blocks[first + i];
            // Of a trimmed one nothing is promised but that it is one of its versions.
            b.floor = if now <= b.trimmed { 0 } else { now };
            // What was sent and not found is gone for good.
            b.answered = now;
        }
        Ok(())
    }
    /// The version that a block holds, if it may.
    fn version_in(&self, block: usize, bytes: &[u8], kill: u32) -> Result<u32, (u32, String)> {
        let b = &self.blocks[block];
        let found = version_of(bytes, block);
        let zero = found == Some(0) && (b.floor == 0 || b.zero.is_some_and(|z| z >= b.floor));
        match found {
            Some(_) if zero => Ok(b.zero.unwrap_or(0)),
            Some(v) if v > 0 && v >= b.floor && v <= b.sent => Ok(v),
            _ => {
                let text = format!(
                    "seed {}, kill {kill}: block {block} of {} bytes holds {found:?}, and was \
                     promised {b:?}",
                    self.seed, self.bytes
                );
                Err(((block * self.bytes / SECTOR) as u32, text))
            }
        }
    }
    fn promise(&mut self, sent: Sent) {
        match sent {
            Sent::Write { first, versions, fua } => {
                for (i, version) in versions.into_iter().enumerate() {
                    let s = &mut self.blocks[first + i];
                    s.answered = s.answered.max(version);
                    if fua && version > s.trimmed {
                        s.floor = s.floor.max(version);
                    }
                }
            }
            Sent::Flush { answered } => {
                for (s, version) in self.blocks.iter_mut().zip(answered) {
                    if version > s.trimmed {
                        s.floor = s.floor.max(version);
                    }
                }
            }
            Sent::Trim | Sent::Read => {}
        }
    }
    /// Sends one request.
    fn send(
        &mut self,
        c: &mut Client<UnixStream>,
        rng: &mut Rng,
        cookie: u64,
    ) -> Option<(Sent, Vec<usize>)> {
        let total = self.blocks.len() as u64;
        let most = if rng.below(8) == 0 { 40 } else { 4 };
        let n = 1 + rng.below(most);
        // Half of the requests go to a tenth of the drive.
        let span = if rng.below(2) == 0 { total } else { total / 10 };
        let first = rng.below(span - n);
        let bytes = self.bytes;
        let (offset, len) = (first * bytes as u64, n as u32 * bytes as u32);
        let range = first as usize..(first + n) as usize;
        let sent = match rng.below(100) {
            0..70 => {
                let fua = rng.below(30) == 0;
                let zero = rng.below(10) == 0;
                let mut data = vec![0; if zero { 0 } else { len as usize }];
                let mut versions = Vec::new();
                for block in range.clone() {
                    let b = &mut self.blocks[block];
                    if zero {
                        b.sent += 1;
                        b.zero = Some(b.sent);
                        versions.push(b.sent);
                    } else {
                        let at = (block - range.start) * bytes;
                        versions.push(self.next(block, &mut data[at..at + bytes]));
                    }
                }
                let mut flags = if fua { cmd::FLAG_FUA } else { 0 };
                let mut command = cmd::WRITE;
                if zero {
                    command = cmd::WRITE_ZEROES;
                    flags |= if rng.below(3) == 0 { cmd::FLAG_NO_HOLE } else { 0 };
                }
                c.send(command, flags, cookie, offset, len, &data).ok()?;
                Sent::Write { first: range.start, versions, fua }
            }
            70..75 => {
                let answered = self.blocks.iter().map(|b| b.answered).collect();
                c.send(cmd::FLUSH, 0, cookie, 0, 0, &[]).ok()?;
                Sent::Flush { answered }
            }
            75..78 => {
                for s in &mut self.blocks[range] {
                    (s.floor, s.trimmed) = (0, s.sent);
                }
                c.send(cmd::TRIM, 0, cookie, offset, len, &[]).ok()?;
                Sent::Trim
            }
            _ => {
                c.send(cmd::READ, 0, cookie, offset, len, &[]).ok()?;
                Sent::Read
            }
        };
        let of =
            (offset as usize / SECTOR..(offset as usize + len as usize).div_ceil(SECTOR)).collect();
        Some((sent, of))
    }
    /// Load until the server is gone, or it is over: requests sent.
    pub fn load(&mut self, mut c: Client<UnixStream>, rng: &mut Rng, watch: &Watch) -> u64 {
        let mut out: BTreeMap<u64, (Sent, Vec<usize>)> = BTreeMap::new();
        let mut cookie = 0;
        while !watch.over.load(Relaxed) {
            while out.len() < 8 {
                cookie += 1;
                // A flush sent later does not cover what is not answered yet.
                let Some(sent) = self.send(&mut c, rng, cookie) else { return cookie };
                out.insert(cookie, sent);
            }
            let Ok(reply) = c.receive() else { return cookie };
            let Some((sent, sectors)) = out.remove(&reply.cookie) else { continue };
            if reply.error == 0 {
                let promises = matches!(sent, Sent::Flush { .. } | Sent::Write { fua: true, .. });
                watch.promised.fetch_add(promises.into(), Relaxed);
                watch.answered.fetch_add(1, Relaxed);
                self.promise(sent);
                continue;
            }
            watch.failed.fetch_add(1, Relaxed);
            let is_read = matches!(sent, Sent::Read);
            if reply.error == errno::EIO && watch.broken.load(Relaxed) {
                assert!(!is_read || watch.unreadable, "seed {}: a read failed", self.seed);
                continue;
            }
            let touched = sectors.iter().any(|sector| self.flipped.contains(sector));
            let moves_data = is_read || matches!(sent, Sent::Write { .. });
            assert!(touched && moves_data, "seed {}: {} to {sent:?}", self.seed, reply.error);
        }
        cookie
    }
    /// Bits of what was synced are no more what they were.
    fn flip(&mut self, place: &Place, rng: &mut Rng) {
        let image = Image::open(&place.image(), true).unwrap();
        let synced = image.state().synced;
        let mut units = Vec::new();
        image
            .each_unit(|unit, found| {
                if let Found::Whole(r) = found
                    && r.order <= synced
                    && matches!(r.kind, UnitKind::Data | UnitKind::Parity)
                {
                    units.push((unit, r));
                }
            })
            .unwrap();
        for _ in 0..rng.below(40).min(units.len() as u64) {
            let (unit, r) = &units[rng.below(units.len() as u64) as usize];
            let i = rng.below(u64::from(image.superblock.unit_sectors)) as u32;
            let place = unit * image.superblock.unit_sectors + i;
            let mut data = vec![0; SECTOR];
            image.read_sectors(place, &mut data).unwrap();
            data[rng.below(SECTOR as u64) as usize] ^= 1 << rng.below(8);
            image.write_sectors(place, &data).unwrap();
            // Of parity it is a sum of addresses.
            if r.kind == UnitKind::Data {
                self.flipped.insert(r.spares[i as usize].lpn as usize);
            }
        }
    }
}

/// What a host that lost power may have lost: pieces of what no sync covers.
fn damage(place: &Place, rng: &mut Rng) {
    let image = Image::open(&place.image(), true).unwrap();
    let synced = image.state().synced;
    let mut victims = Vec::new();
    image
        .each_unit(|unit, found| {
            if let Found::Whole(r) = found
                && r.order > synced
            {
                victims.push((unit, r.kind));
            }
        })
        .unwrap();
    let sectors = image.superblock.unit_sectors;
    for (unit, kind) in victims {
        match rng.below(4) {
            0 => image.void_unit(unit).unwrap(),
            1 if kind != UnitKind::Emeta => {
                let sector = unit * sectors + rng.below(u64::from(sectors)) as u32;
                image.write_sectors(sector, &[0xEE; 512]).unwrap();
            }
            _ => {}
        }
    }
    drop(image);
    // One of the two state records may be torn: the older one, which was being replaced.
    let file = std::fs::OpenOptions::new().read(true).write(true).open(place.image()).unwrap();
    let mut records = [[0u8; 16]; 2];
    for (i, record) in records.iter_mut().enumerate() {
        file.read_exact_at(record, 4096 * (1 + i as u64)).unwrap();
    }
    let generation = |r: &[u8; 16]| u64::from_le_bytes(r[8..].try_into().unwrap());
    let older = u64::from(generation(&records[1]) < generation(&records[0]));
    file.write_all_at(&[0x55; 8], 4096 * (1 + older) + 20).unwrap();
}

/// All copies of a sector in the image.
fn copies(image: &std::path::Path, lpn: u32) -> String {
    let image = Image::open(image, false).unwrap();
    let g = &image.superblock;
    let per_line = g.luns * g.pages;
    let mut text = format!(
        "{:?}, trimmed at {:?}\n",
        image.state(),
        image.read_trims().unwrap()[lpn as usize]
    );
    image
        .each_unit(|unit, found| {
            let Found::Whole(r) = found else { return };
            let (line, lun) = (unit / per_line, unit % g.luns);
            for s in r.spares.iter().filter(|s| s.lpn == lpn && r.kind == UnitKind::Data) {
                text += &format!(
                    "line {line} LUN {lun} page {}: stamp {}, order {}, seq {}, erases {}\n",
                    unit % per_line / g.luns,
                    s.stamp,
                    r.order,
                    r.seq,
                    r.erases
                );
            }
            if r.kind == UnitKind::Smeta {
                text += &format!(
                    "smeta of line {line} on {lun}: order {}, seq {}, erases {}\n",
                    r.order, r.seq, r.erases
                );
            }
        })
        .unwrap();
    text
}

/// What happens between two lives.
#[derive(Clone, Copy, Default)]
struct Between {
    power_losses: bool,
    flips: bool,
}

fn crash(args: &str, kills: u32, power_losses: bool, seed: u64) {
    for way in image_ios() {
        let between = Between { power_losses, flips: false };
        crash_by(&format!("{args} {way}"), kills, between, SECTOR, seed);
    }
}
fn crash_by(args: &str, kills: u32, between: Between, block: usize, seed: u64) {
    let place = Place::new(&format!("--size 48M --time-scale 0 {args}"));
    let mut rng = Rng::from_seed(seed);
    let mut model = Model::new(48 << 20, block, seed);
    let mut requests = 0;
    for kill in 0..kills {
        // As it was when the server died: a start changes it.
        let before = place.dir.path().join("before.img");
        if place.image().exists() {
            std::fs::copy(place.image(), &before).unwrap();
        }
        let server = place.start();
        if let Err(wrong) = model.verify(&mut place.client(""), kill) {
            drop(server);
            panic!("{}\n{}", wrong.1, copies(&before, wrong.0));
        }
        let client = place.client("");
        let watch = Watch::default();
        let (answers, more) = (1 + rng.below(1000), Duration::from_micros(rng.below(5000)));
        let mut of_load = Rng::from_seed(seed ^ u64::from(kill) << 32);
        std::thread::scope(|scope| {
            let load = scope.spawn(|| model.load(client, &mut of_load, &watch));
            watch.wait("answers", &load, |w| w.answered.load(Relaxed) >= answers);
            // Also between two answers.
            std::thread::sleep(more);
            server.kill();
            watch.over.store(true, Relaxed);
            requests += load.join().unwrap();
        });
        if between.power_losses && rng.below(2) == 0 {
            damage(&place, &mut rng);
        }
        if between.flips {
            model.flip(&place, &mut rng);
        }
    }
    let server = place.start();
    model.verify(&mut place.client(""), kills).unwrap();
    let (status, said) = server.stop();
    assert_eq!(status, Some(0), "{said}");
    let checked = super::place::wordline()
        .args(["image", "check", place.image().to_str().unwrap()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&checked.stdout).into_owned();
    // What was flipped may be damaged, or survive by parity.
    assert!(checked.status.success() || between.flips, "{text}");
    let flipped = model.flipped.len();
    println!(
        "{args}: {kills} kills, {requests} requests sent, {flipped} sectors flipped; at the end\n{text}"
    );
}

/// More where WORDLINE_KILLS says so.
pub fn kills(usual: u32) -> u32 {
    std::env::var("WORDLINE_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

#[test]
fn pblk_keeps_its_promises_when_the_server_is_killed() {
    crash("--device cnex-small --ftl pblk", kills(60), false, 11);
}
#[test]
fn rail_keeps_its_promises_when_the_server_is_killed() {
    crash("--device cnex-small --ftl rail", kills(60), false, 12);
}
#[test]
fn a_drive_with_a_cache_keeps_its_promises_when_the_server_is_killed() {
    crash("--device intel-750-small --set cache.bytes=2097152", kills(40), false, 13);
}
#[test]
fn pblk_and_rail_keep_their_promises_when_the_host_loses_power() {
    crash("--device cnex-small --ftl pblk", kills(40), true, 14);
    crash("--device cnex-small --ftl rail6", kills(20), true, 15);
}
#[test]
fn fssd_keeps_its_promises_when_the_server_is_killed_and_flash_fails() {
    crash("--device fssd-small", kills(8), false, 18);
    let faults =
        "--set nand.faults.program_fail_ppb=300000 --set nand.faults.erase_fail_ppb=1000000";
    crash(&format!("--device fssd-small {faults}"), kills(8), true, 19);
}
#[test]
fn a_conventional_drive_keeps_its_promises_when_the_server_is_killed_and_flash_fails() {
    crash("--device z-ssd-small --ftl firmware", kills(8), false, 20);
    let faults =
        "--set nand.faults.program_fail_ppb=300000 --set nand.faults.erase_fail_ppb=1000000";
    let groups = "--set ftl.firmware.superblock_luns=2 --set ftl.firmware.hot_share=10";
    crash(&format!("--device cnex-small --ftl firmware {groups} {faults}"), kills(8), true, 21);
}
#[test]
fn rail_hc_keeps_its_promises_when_the_server_is_killed_and_flash_fails() {
    crash("--device cnex-small --ftl rail-hc", kills(20), false, 16);
    let faults =
        "--set nand.faults.program_fail_ppb=300000 --set nand.faults.erase_fail_ppb=1000000";
    crash(&format!("--device cnex-small --ftl rail {faults}"), kills(20), true, 17);
}

#[test]
fn blocks_of_512_bytes_are_kept_when_the_server_is_killed() {
    // A write of 512 bytes is one of its whole unit, with what the neighbours were promised.
    let lba = "--set device.lba=512";
    for (ftl, power_losses, seed) in [("pblk", false, 18), ("rail", true, 19)] {
        let between = Between { power_losses, flips: false };
        let args = format!("--device cnex-small --ftl {ftl} {lba}");
        crash_by(&args, kills(20), between, 512, seed);
    }
    let cached = format!("--device intel-750-small --set cache.bytes=2097152 {lba}");
    crash_by(&cached, kills(10), Between::default(), 512, 20);
    // Its sectors of 512 bytes are whole ones of 4 KiB when it is served.
    let between = Between { power_losses: true, flips: false };
    crash_by("--device fssd-small", kills(10), between, 512, 24);
}
#[test]
fn flipped_bits_are_never_taken_for_data_after_the_server_is_killed() {
    for (ftl, block, seed) in [("pblk", SECTOR, 21), ("rail", SECTOR, 22), ("rail6", 512, 23)] {
        let between = Between { power_losses: false, flips: true };
        let args = format!("--device cnex-small --ftl {ftl} --set device.lba={block}");
        crash_by(&args, kills(20), between, block, seed);
    }
}
