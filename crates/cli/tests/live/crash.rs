//! The server is killed at random points under load; after each restart every sector must hold what
//! the client was promised, or something it sent later, and nothing else.
//!
//! Versions of a sector count the writes sent to it. A flush promises what was answered before it was
//! sent, FUA promises its own write, a trim takes promises back. Power losses of the host are played
//! by damaging what no sync has covered.

use crate::place::{Place, image_ios};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wordline_base::Rng;
use wordline_live::image::{Found, Image, UnitKind};
use wordline_nbd::{Client, cmd};

const SECTOR: usize = 4096;

#[derive(Clone, Copy, Default, Debug)]
struct Sector {
    /// Of the newest write sent, and the newest answered.
    sent: u32,
    answered: u32,
    /// It holds at least this version.
    floor: u32,
    /// The newest version that was zeroes, if one was since the floor; versions of trims too.
    zero: Option<u32>,
    /// Versions up to this were sent before a trim: nothing is promised of them any more.
    trimmed: u32,
}

struct Model {
    sectors: Vec<Sector>,
    seed: u64,
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
    for (i, word) in page.chunks_exact_mut(8).enumerate() {
        let mixed = (lpn as u64) << 40 | u64::from(version) << 9 | i as u64;
        word.copy_from_slice(&mixed.to_le_bytes());
    }
}
/// The version a page holds; 0 for zeroes.
fn version_of(page: &[u8], lpn: usize) -> Option<u32> {
    if page.iter().all(|&b| b == 0) {
        return Some(0);
    }
    let version = u64::from_le_bytes(page[..8].try_into().unwrap()) >> 9 & 0x7FFF_FFFF;
    let mut expected = vec![0; page.len()];
    fill(&mut expected, lpn, version as u32);
    (expected == page).then_some(version as u32)
}

impl Model {
    fn new(bytes: u64, seed: u64) -> Model {
        Model { sectors: vec![Sector::default(); bytes as usize / SECTOR], seed }
    }
    /// Reads everything and compares; what is found is what is promised from then on.
    fn verify(&mut self, client: &mut Client<UnixStream>, kill: u32) -> Result<(), (u32, String)> {
        const RUN: usize = 64;
        for first in (0..self.sectors.len()).step_by(RUN) {
            let n = RUN.min(self.sectors.len() - first);
            let (offset, len) = ((first * SECTOR) as u64, (n * SECTOR) as u32);
            let reply = client.call(cmd::READ, 0, offset, len, &[]).unwrap();
            if reply.error != 0 {
                let mut fails = |lpn: &usize| {
                    let at = (*lpn * SECTOR) as u64;
                    client.call(cmd::READ, 0, at, SECTOR as u32, &[]).unwrap().error != 0
                };
                let lpn = (first..first + n).find(|lpn| fails(lpn)).unwrap_or(first);
                let s = self.sectors[lpn];
                let text = format!("seed {}, kill {kill}: EIO of sector {lpn}, {s:?}", self.seed);
                return Err((lpn as u32, text));
            }
            for (i, page) in reply.data[0].1.chunks_exact(SECTOR).enumerate() {
                let s = &mut self.sectors[first + i];
                let found = version_of(page, first + i);
                let zero =
                    found == Some(0) && (s.floor == 0 || s.zero.is_some_and(|z| z >= s.floor));
                let version = found.is_some_and(|v| v > 0 && v >= s.floor && v <= s.sent);
                if !zero && !version {
                    let text = format!(
                        "seed {}, kill {kill}: sector {} holds {found:?}, and was promised {s:?}",
                        self.seed,
                        first + i
                    );
                    return Err(((first + i) as u32, text));
                }
                let now = if zero { s.zero.unwrap_or(0) } else { found.unwrap_or(0) };
                // Of a trimmed sector nothing is promised but that it is one of its versions.
                s.floor = if now <= s.trimmed { 0 } else { now };
                // What was sent and not found is gone for good.
                s.answered = now;
            }
        }
        Ok(())
    }
    fn promise(&mut self, sent: Sent) {
        match sent {
            Sent::Write { first, versions, fua } => {
                for (i, version) in versions.into_iter().enumerate() {
                    let s = &mut self.sectors[first + i];
                    s.answered = s.answered.max(version);
                    if fua && version > s.trimmed {
                        s.floor = s.floor.max(version);
                    }
                }
            }
            Sent::Flush { answered } => {
                for (s, version) in self.sectors.iter_mut().zip(answered) {
                    if version > s.trimmed {
                        s.floor = s.floor.max(version);
                    }
                }
            }
            Sent::Trim | Sent::Read => {}
        }
    }
    /// Sends one request.
    fn send(&mut self, c: &mut Client<UnixStream>, rng: &mut Rng, cookie: u64) -> Option<Sent> {
        let total = self.sectors.len() as u64;
        let most = if rng.below(8) == 0 { 40 } else { 4 };
        let n = 1 + rng.below(most);
        // Half of the requests go to a tenth of the drive.
        let span = if rng.below(2) == 0 { total } else { total / 10 };
        let first = rng.below(span - n);
        let (offset, len) = (first * SECTOR as u64, n as u32 * SECTOR as u32);
        let range = first as usize..(first + n) as usize;
        let sent = match rng.below(100) {
            0..70 => {
                let fua = rng.below(30) == 0;
                let zero = rng.below(10) == 0;
                let mut data = vec![0; if zero { 0 } else { len as usize }];
                let mut versions = Vec::new();
                for lpn in range.clone() {
                    let s = &mut self.sectors[lpn];
                    s.sent += 1;
                    if zero {
                        s.zero = Some(s.sent);
                    } else {
                        let at = (lpn - range.start) * SECTOR;
                        fill(&mut data[at..at + SECTOR], lpn, s.sent);
                    }
                    versions.push(s.sent);
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
                let answered = self.sectors.iter().map(|s| s.answered).collect();
                c.send(cmd::FLUSH, 0, cookie, 0, 0, &[]).ok()?;
                Sent::Flush { answered }
            }
            75..78 => {
                for s in &mut self.sectors[range] {
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
        Some(sent)
    }
    /// Load until the server is gone.
    fn load(&mut self, mut c: Client<UnixStream>, rng: &mut Rng, over: &AtomicBool) -> u64 {
        let mut out: BTreeMap<u64, Sent> = BTreeMap::new();
        let mut cookie = 0;
        while !over.load(Ordering::Relaxed) {
            while out.len() < 8 {
                cookie += 1;
                // A flush sent later does not cover what is not answered yet.
                let Some(sent) = self.send(&mut c, rng, cookie) else { return cookie };
                out.insert(cookie, sent);
            }
            let Ok(reply) = c.receive() else { return cookie };
            let sent = out.remove(&reply.cookie);
            assert_eq!(reply.error, 0, "seed {}: {sent:?}", self.seed);
            if let Some(sent) = sent {
                self.promise(sent);
            }
        }
        cookie
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
    let mut text =
        format!("{:?}, trimmed at {}\n", image.state(), image.read_trims().unwrap()[lpn as usize]);
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

fn crash(args: &str, kills: u32, power_losses: bool, seed: u64) {
    for way in image_ios() {
        crash_by(&format!("{args} {way}"), kills, power_losses, seed);
    }
}
fn crash_by(args: &str, kills: u32, power_losses: bool, seed: u64) {
    let place = Place::new(&format!("--size 48M --time-scale 0 {args}"));
    let mut rng = Rng::from_seed(seed);
    let mut model = Model::new(48 << 20, seed);
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
        let over = AtomicBool::new(false);
        let after = Duration::from_micros(1000 + rng.below(120_000));
        let mut of_load = Rng::from_seed(seed ^ u64::from(kill) << 32);
        std::thread::scope(|scope| {
            let load = scope.spawn(|| model.load(client, &mut of_load, &over));
            std::thread::sleep(after);
            server.kill();
            over.store(true, Ordering::Relaxed);
            requests += load.join().unwrap();
        });
        if power_losses && rng.below(2) == 0 {
            damage(&place, &mut rng);
        }
    }
    let server = place.start();
    model.verify(&mut place.client(""), kills).unwrap();
    let (status, said) = server.stop();
    assert_eq!(status, Some(0), "{said}");
    let checked = crate::place::wordline()
        .args(["image", "check", place.image().to_str().unwrap()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success(), "{text}");
    println!("{args}: {kills} kills, {requests} requests sent; at the end\n{text}");
}

/// More where WORDLINE_KILLS says so.
fn kills(usual: u32) -> u32 {
    std::env::var("WORDLINE_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

#[test]
fn a_killed_drive_holds_what_was_promised() {
    crash("--device cnex-small --ftl pblk", kills(60), false, 11);
}
#[test]
fn so_does_one_with_parity() {
    crash("--device cnex-small --ftl rail", kills(60), false, 12);
}
#[test]
fn and_one_with_a_cache_in_front() {
    crash("--device intel-750-small --set cache.bytes=2097152", kills(40), false, 13);
}
#[test]
fn and_one_whose_host_lost_power() {
    crash("--device cnex-small --ftl pblk", kills(40), true, 14);
    crash("--device cnex-small --ftl rail6", kills(20), true, 15);
}
#[test]
fn and_one_with_hot_and_cold_data_apart_and_failing_programs() {
    crash("--device cnex-small --ftl rail-hc", kills(20), false, 16);
    let faults =
        "--set nand.faults.program_fail_ppb=300000 --set nand.faults.erase_fail_ppb=1000000";
    crash(&format!("--device cnex-small --ftl rail {faults}"), kills(20), true, 17);
}
