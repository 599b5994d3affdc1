//! The host of a served drive loses power at every kind of moment: of what was written to the image since
//! the last `fdatasync` any sectors of 512 bytes may be lost. What the client was promised must be there.
//!
//! A killed process keeps its page cache, so that it shows nothing of this. Here the server keeps a
//! journal of its writes and syncs, and images are put together from parts of it.

use rustix::fs::{MemfdFlags, memfd_create};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wordline_base::{Rng, SECTOR, Seed};
use wordline_device::DriveConfig;
use wordline_ftl::{Translation, Translator};
use wordline_live::image::{Image, Superblock};
use wordline_live::recover::recover;
use wordline_live::{Act, Address, ImageIo, Journal, Plan, Server, check, fit};
use wordline_nand::Nand;
use wordline_nbd::{Client, cmd};

const SIZE: u64 = 16 << 20;
const PAGE: usize = SECTOR as usize;
/// What a disk writes whole.
const GRAIN: usize = 512;

fn system(device: &str, ftl: &str) -> DriveConfig {
    let mut sources = wordline_profile::Sources::presets(device, "linux-libaio");
    sources.ftl = Some(wordline_profile::Source::Preset(ftl));
    let config = wordline_profile::assemble(sources, &[]).unwrap();
    let drive = DriveConfig { nand: config.nand, device: config.device, ftl: config.ftl };
    fit::fit(&drive, SIZE).unwrap().drive
}

fn create(path: &Path, system: &DriveConfig) {
    let nand = Nand::new(&system.nand, Seed(1)).unwrap();
    let g = nand.geometry;
    let mut bad = |lun, line| nand.is_factory_bad(lun, line);
    let ftl = Translator::new(None, &g, &system.ftl, &mut bad, Seed(1)).unwrap();
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
    Image::create(path, &superblock).unwrap();
}

/// A sector as its client knows it: versions count what was sent to it.
#[derive(Clone, Copy, Default, Debug)]
struct Known {
    sent: u32,
    answered: u32,
    /// It holds this version at least.
    floor: u32,
    /// The newest version that was zeroes.
    zeroes: u32,
    /// Trims sent, and the newest version then: nothing is promised of it any more.
    trims: u32,
    trimmed: u32,
}

enum Sent {
    Write { first: usize, versions: Vec<u32>, fua: bool },
    Flush { answered: Vec<u32> },
    Trim,
}

/// What was known when the journal was so long.
struct Moment {
    acts: usize,
    known: Vec<Known>,
}

fn page_of(lpn: usize, version: u32) -> [u8; PAGE] {
    let mut page = [0; PAGE];
    for (i, word) in page.chunks_exact_mut(8).enumerate() {
        let mixed = (lpn as u64) << 40 | u64::from(version) << 9 | i as u64;
        word.copy_from_slice(&mixed.to_le_bytes());
    }
    page
}
/// The version that a page holds; 0 for zeroes.
fn version_of(page: &[u8], lpn: usize) -> Option<u32> {
    if page.iter().all(|&b| b == 0) {
        return Some(0);
    }
    let version = u64::from_le_bytes(page[..8].try_into().unwrap()) >> 9 & 0x7FFF_FFFF;
    (page_of(lpn, version as u32) == page).then_some(version as u32)
}

/// A disk that takes its time lets more be lost, and so do clients that seldom ask for a promise.
#[derive(Clone, Copy, Debug)]
struct Manner {
    sync: Duration,
    seldom: bool,
}

struct Clients {
    manner: Manner,
    known: Vec<Known>,
    moments: Vec<Moment>,
    rng: Rng,
}

impl Clients {
    fn note(&mut self, journal: &Journal) {
        self.moments.push(Moment { acts: journal.len(), known: self.known.clone() });
    }
    fn send(&mut self, c: &mut Client<UnixStream>, cookie: u64, fills: Option<usize>) -> Sent {
        let rng = &mut self.rng;
        let total = self.known.len() as u64;
        let n = if fills.is_some() { 16 } else { 1 + rng.below(12) };
        // Half of the requests go to an eighth of the drive.
        let span = if rng.below(2) == 0 { total } else { total / 8 };
        let first = fills.unwrap_or(rng.below(span - n) as usize);
        let range = first..(first + n as usize).min(self.known.len());
        let (at, len) = ((first * PAGE) as u64, (range.len() * PAGE) as u32);
        let mut kind = if fills.is_some() { 50 } else { rng.below(100) };
        // Flushes and FUA.
        if matches!(kind, 0..6 | 14..20) && self.manner.seldom && rng.below(16) > 0 {
            kind = 50;
        }
        match kind {
            0..6 => {
                c.send(cmd::FLUSH, 0, cookie, 0, 0, &[]).unwrap();
                Sent::Flush { answered: self.known.iter().map(|k| k.answered).collect() }
            }
            6..10 => {
                for k in &mut self.known[range] {
                    (k.floor, k.trimmed, k.trims) = (0, k.sent, k.trims + 1);
                }
                c.send(cmd::TRIM, 0, cookie, at, len, &[]).unwrap();
                Sent::Trim
            }
            kind => {
                let zeroes = (10..14).contains(&kind);
                let fua = (14..20).contains(&kind);
                let mut data = Vec::new();
                let mut versions = Vec::new();
                for lpn in range {
                    let k = &mut self.known[lpn];
                    k.sent += 1;
                    versions.push(k.sent);
                    match zeroes {
                        true => k.zeroes = k.sent,
                        false => data.extend(page_of(lpn, k.sent)),
                    }
                }
                let command = if zeroes { cmd::WRITE_ZEROES } else { cmd::WRITE };
                let flags = if fua { cmd::FLAG_FUA } else { 0 };
                c.send(command, flags, cookie, at, len, &data).unwrap();
                Sent::Write { first, versions, fua }
            }
        }
    }
    fn answered(&mut self, sent: Sent, journal: &Journal) {
        let promise = |k: &mut Known, version: u32| {
            if version > k.trimmed {
                k.floor = k.floor.max(version);
            }
        };
        match sent {
            Sent::Write { first, versions, fua } => {
                for (lpn, version) in (first..).zip(versions) {
                    let k = &mut self.known[lpn];
                    if fua {
                        promise(k, version);
                    }
                    k.answered = k.answered.max(version);
                }
                if fua {
                    self.note(journal);
                }
            }
            Sent::Flush { answered } => {
                for (k, version) in self.known.iter_mut().zip(answered) {
                    promise(k, version);
                }
                self.note(journal);
            }
            Sent::Trim => {}
        }
    }
    /// So many requests, several at a time; `fills`: writes over all of the drive, in order.
    fn load(&mut self, c: &mut Client<UnixStream>, requests: u64, fills: bool, journal: &Journal) {
        let mut out: BTreeMap<u64, Sent> = BTreeMap::new();
        for cookie in 0..requests {
            if out.len() == 8 {
                let reply = c.receive().unwrap();
                assert_eq!(reply.error, 0);
                let sent = out.remove(&reply.cookie).unwrap();
                self.answered(sent, journal);
            }
            let fills = fills.then(|| cookie as usize * 16 % self.known.len());
            out.insert(cookie, self.send(c, cookie, fills));
        }
        while !out.is_empty() {
            let reply = c.receive().unwrap();
            let sent = out.remove(&reply.cookie).unwrap();
            self.answered(sent, journal);
        }
    }
}

/// Serves the image while `work` runs, and shuts the drive down. The journal of all that.
fn serve(
    path: &Path,
    system: &DriveConfig,
    io: ImageIo,
    sync: Duration,
    work: impl FnOnce(&mut Client<UnixStream>, &Journal),
) -> Vec<Act> {
    let journal = Arc::new(Journal::new(sync));
    let plan = Plan { image_io: io, journal: Some(Arc::clone(&journal)), ..plan(path, system) };
    run(plan, |client, stop| {
        work(client, &journal);
        stop();
    })
    .unwrap();
    journal.take()
}

/// What is asked of a server, as fast as it can.
fn plan(path: &Path, system: &DriveConfig) -> Plan {
    let socket = path.with_extension("socket");
    Plan {
        system: system.clone(),
        profile: String::new(),
        image: path.into(),
        tape: None,
        listen: vec![Address::parse(&format!("unix:{}", socket.display())).unwrap()],
        fuse: None,
        control: None,
        tls: None,
        tls_optional: false,
        plain_tcp: false,
        client_memory: 512 << 20,
        salvage: false,
        time_scale: 0.0,
        spin: false,
        sync: true,
        image_io: ImageIo::Pwrite,
        journal: None,
        max_connections: 4,
        stats: None,
        prometheus: None,
    }
}

/// Serves while `work` runs, which may stop the server. How the server ends.
fn run(
    plan: Plan,
    work: impl FnOnce(&mut Client<UnixStream>, &dyn Fn()),
) -> Result<(), wordline_live::Error> {
    let socket = plan.image.with_extension("socket");
    let stop = Arc::new(AtomicBool::new(false));
    let (wake, ring) = rustix::pipe::pipe().unwrap();
    let server = Server::new(plan, Arc::clone(&stop), wake).unwrap();
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(&mut |_| {}));
        let stream = UnixStream::connect(&socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(180))).unwrap();
        let mut client = Client::connect(stream, "", true).unwrap();
        work(&mut client, &|| {
            stop.store(true, Ordering::SeqCst);
            rustix::io::write(&ring, &[1]).unwrap();
        });
        serving.join().unwrap()
    })
}

/// How much of what no sync covers survives.
#[derive(Clone, Copy, Debug)]
enum Loss {
    All,
    None,
    /// Whole writes, in any order, of 100.
    Writes(u64),
    /// Sectors of 512 bytes.
    Sectors(u64),
}

/// A disk after power has gone, in memory and as a file. Both stay from one loss to the next: of a file what changed is
/// written, since pages that are new each time would take most of the time.
struct Disk {
    bytes: Vec<u8>,
    path: PathBuf,
    file: File,
    /// What the file holds.
    held: Vec<u8>,
    /// What the drive holds in the end.
    data: Vec<u8>,
}

impl Disk {
    fn new(path: PathBuf, bytes: usize) -> Disk {
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        file.set_len(bytes as u64).unwrap();
        Disk {
            bytes: vec![0; bytes],
            path,
            file,
            held: vec![0; bytes],
            data: vec![0; SIZE as usize],
        }
    }
    /// What it may hold when power goes after so many acts.
    fn survive(&mut self, base: &[u8], acts: &[Act], loss: Loss, rng: &mut Rng) {
        self.bytes.copy_from_slice(base);
        lose(&mut self.bytes, acts, loss, rng);
    }
    /// Starts from what is left, and holds it against what was promised at that moment.
    fn verify(
        &mut self,
        system: &DriveConfig,
        before: &[Known],
        after: &[Known],
    ) -> Result<(), String> {
        // The start before this one may have repaired it.
        self.file.read_exact_at(&mut self.held, 0).unwrap();
        let pieces = self.bytes.chunks(PAGE).zip(self.held.chunks(PAGE)).enumerate();
        for (i, (piece, _)) in pieces.filter(|(_, (piece, held))| piece != held) {
            self.file.write_all_at(piece, (i * PAGE) as u64).unwrap();
        }
        let image = Image::open(&self.path, true).map_err(|e| e.to_string())?;
        let recovered = recover(&image, system, true).map_err(|e| e.to_string())?;
        if !recovered.damage.is_none() {
            return Err(recovered.damage.explain(&image).to_string());
        }
        let out = File::from(memfd_create("out", MemfdFlags::CLOEXEC).unwrap());
        let lost = check::salvage(&image, &recovered, &out).unwrap();
        if !lost.is_empty() {
            return Err(format!("ranges {lost:?} cannot be had"));
        }
        out.read_exact_at(&mut self.data, 0).unwrap();
        for (lpn, page) in self.data.chunks_exact(PAGE).enumerate() {
            let (was, is) = (before[lpn], after[lpn]);
            // A trim sent meanwhile takes back what was promised.
            let floor = if is.trims > was.trims { 0 } else { was.floor };
            let found = version_of(page, lpn);
            let good = match found {
                Some(0) => floor == 0 || is.zeroes >= floor,
                Some(version) => (floor..=is.sent).contains(&version),
                None => false,
            };
            if !good {
                return Err(format!("sector {lpn} holds {found:?}: promised {was:?}, then {is:?}"));
            }
        }
        Ok(())
    }
}

/// Does to a disk what may be left of so many acts.
fn lose(disk: &mut [u8], acts: &[Act], loss: Loss, rng: &mut Rng) {
    for act in acts {
        let Act::Wrote(at, bytes) = act else { continue };
        let whole = match loss {
            Loss::All => false,
            Loss::None => true,
            Loss::Writes(share) => rng.below(100) < share,
            Loss::Sectors(_) => false,
        };
        let mut from = *at as usize;
        let end = from + bytes.len();
        while from < end {
            let to = (from / GRAIN * GRAIN + GRAIN).min(end);
            let kept = matches!(loss, Loss::Sectors(share) if rng.below(100) < share);
            if whole || kept {
                disk[from..to].copy_from_slice(&bytes[from - *at as usize..to - *at as usize]);
            }
            from = to;
        }
    }
}

fn lose_power(ftl: &str, io: ImageIo, manner: Manner, seed: u64) {
    lose_power_of("cnex-small", ftl, io, manner, seed);
}
fn lose_power_of(device: &str, ftl: &str, io: ImageIo, manner: Manner, seed: u64) {
    let dir = tempfile::tempdir().unwrap();
    let (path, system) = (dir.path().join("a.img"), system(device, ftl));
    create(&path, &system);
    let known = vec![Known::default(); SIZE as usize / PAGE];
    let rng = Rng::from_seed(seed);
    let mut clients = Clients { manner, known, moments: Vec::new(), rng };
    let sectors = SIZE / SECTOR;
    // A drive that is full and collects.
    serve(&path, &system, io, Duration::ZERO, |c, journal| {
        clients.load(c, sectors / 16, true, journal);
        clients.load(c, 2 * sectors / 7, false, journal);
    });
    // It was shut down: everything is safe.
    for k in &mut clients.known {
        (k.floor, k.answered) = (if k.trimmed == k.sent { 0 } else { k.sent }, k.sent);
    }
    let mut base = std::fs::read(&path).unwrap();
    clients.moments = vec![Moment { acts: 0, known: clients.known.clone() }];
    let acts = serve(&path, &system, io, manner.sync, |c, journal| {
        clients.load(c, sectors / 7, false, journal);
    });
    clients.moments.push(Moment { acts: acts.len(), known: clients.known.clone() });
    let ends: Vec<usize> =
        (0..acts.len()).filter(|&i| matches!(acts[i], Act::SyncEnded(_))).collect();
    assert!(ends.len() > 5, "{} syncs", ends.len());
    // Just before a sync ends most may be lost; and anywhere.
    let mut rng = Rng::from_seed(seed ^ 0x10_55);
    let mut cuts: Vec<usize> = ends.iter().flat_map(|&end| [end, end + 1]).collect();
    cuts.extend((0..ends.len()).map(|_| rng.below(acts.len() as u64 + 1) as usize));
    cuts.sort_unstable();
    cuts.dedup();
    let (mut synced, mut torn) = (0, 0);
    let mut disk = Disk::new(dir.path().join("b.img"), base.len());
    for &cut in &cuts {
        let last = acts[..cut].iter().rev().find_map(|act| match act {
            Act::SyncEnded(began) => Some(*began),
            _ => None,
        });
        let safe = last.unwrap_or(0).max(synced);
        lose(&mut base, &acts[synced..safe], Loss::None, &mut rng);
        synced = safe;
        let before = clients.moments.iter().rfind(|m| m.acts <= cut).unwrap();
        let after = clients.moments.iter().find(|m| m.acts >= cut).unwrap();
        let share = 1 + rng.below(99);
        let torn_how = match rng.below(4) {
            0 => Loss::All,
            1 => Loss::None,
            _ => Loss::Sectors(share),
        };
        for loss in [Loss::Writes(share), torn_how] {
            disk.survive(&base, &acts[synced..cut], loss, &mut rng);
            if let Err(why) = disk.verify(&system, &before.known, &after.known) {
                panic!(
                    "{device}, {ftl}, seed {seed}: {cut} of {} acts, synced to {synced}, {loss:?}: {why}",
                    acts.len()
                );
            }
        }
        torn += cut - synced;
    }
    assert!(torn > cuts.len(), "there was nothing to lose");
    println!(
        "{device}, {ftl}: {} acts, {} syncs, {} cuts, {torn} acts cut",
        acts.len(),
        ends.len(),
        cuts.len()
    );
}

#[test]
fn pblk_keeps_its_promises_when_the_host_loses_power() {
    let manner = Manner { sync: Duration::from_millis(2), seldom: false };
    lose_power("pblk", ImageIo::Pwrite, manner, 1);
}

#[test]
fn rail_keeps_its_promises_when_the_host_loses_power() {
    let manner = Manner { sync: Duration::from_millis(2), seldom: false };
    lose_power("rail", ImageIo::Pwrite, manner, 2);
}

#[test]
fn fssd_keeps_its_promises_when_the_host_loses_power() {
    let manner = Manner { sync: Duration::from_millis(2), seldom: false };
    lose_power("fssd", ImageIo::Pwrite, manner, 3);
}

#[test]
fn a_conventional_drive_keeps_its_promises_when_the_host_loses_power() {
    let manner = Manner { sync: Duration::from_millis(2), seldom: false };
    lose_power("firmware", ImageIo::Pwrite, manner, 5);
}

/// Lines are erased and written again while the copies of what they held are on no disk yet.
#[test]
fn pblk_keeps_its_promises_when_a_host_with_a_slow_disk_loses_power() {
    let manner = Manner { sync: Duration::from_millis(150), seldom: true };
    lose_power("pblk", ImageIo::Pwrite, manner, 4);
}

/// Records of 192 bytes, of which a loss of power leaves halves: also in lines that are written again, among records
/// of their earlier lives that were synced.
fn halves_of_records_are_no_damage(ftl: &str, seed: u64) {
    let manner = Manner { sync: Duration::from_millis(2), seldom: false };
    lose_power_of("z-ssd-small", ftl, ImageIo::Pwrite, manner, seed);
}

#[test]
fn halves_of_records_in_lines_that_pblk_writes_again_are_no_damage() {
    halves_of_records_are_no_damage("pblk", 7);
}

#[test]
fn halves_of_records_in_lines_that_firmware_writes_again_are_no_damage() {
    halves_of_records_are_no_damage("firmware", 6);
}

/// All of the model's time passes in three seconds, and the server ends of itself.
#[test]
fn when_the_models_time_is_over_the_drive_is_shut_down_in_good_order() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.img");
    let system = system("cnex-small", "pblk");
    create(&path, &system);
    let page = page_of(3, 1);
    let short = Plan { time_scale: 3e-9, ..plan(&path, &system) };
    let ended = run(short, |client, _| {
        let mut answered = 0;
        while client.call(cmd::WRITE, 0, 3 << 12, PAGE as u32, &page).is_ok_and(|r| r.error == 0) {
            answered += 1;
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(answered > 0);
    });
    let told = ended.unwrap_err();
    assert!(told.to_string().contains("time is over") && !told.is_usage(), "{told}");
    assert!(Image::open(&path, false).unwrap().state().clean);
    run(plan(&path, &system), |client, stop| {
        assert_eq!(client.call(cmd::READ, 0, 3 << 12, PAGE as u32, &[]).unwrap().data[0].1, page);
        stop();
    })
    .unwrap();
}
