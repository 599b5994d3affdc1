//! Images that something else than a crash has damaged: what is known is served, what is not is listed, and
//! nothing old is taken for new.

use super::place::{Mounted, Place, skip, wordline};
use std::os::unix::fs::FileExt;
use wordline_base::Rng;
use wordline_live::image::{Found, Image, UnitKind};
use wordline_nbd::{cmd, errno};

const MIB: usize = 1 << 20;
const SIZE: usize = 48 * MIB;
const RAIL: &str = "--size 48M --device cnex-small --ftl rail --time-scale 0";

/// The drive's bytes after writes of a seed, the newest of each sector told from all older ones.
fn written(place: &Place, seed: u64, kill: bool) -> Vec<u8> {
    let server = place.start();
    let mut c = place.client("");
    let mut rng = Rng::from_seed(seed);
    let mut model = vec![0; SIZE];
    for n in 0..600u32 {
        let sectors = 1 + rng.below(64) as usize;
        let first = rng.below((SIZE / 4096 - sectors) as u64) as usize;
        let bytes = &mut model[first * 4096..(first + sectors) * 4096];
        bytes.chunks_exact_mut(4).for_each(|word| word.copy_from_slice(&(n + 1).to_le_bytes()));
        let reply = c.call(cmd::WRITE, 0, first as u64 * 4096, bytes.len() as u32, bytes).unwrap();
        assert_eq!(reply.error, 0, "seed {seed}");
    }
    assert_eq!(c.call(cmd::FLUSH, 0, 0, 0, &[]).unwrap().error, 0);
    match kill {
        true => server.kill(),
        false => assert_eq!(server.stop().0, Some(0), "seed {seed}"),
    }
    model
}
fn file(place: &Place) -> std::fs::File {
    std::fs::OpenOptions::new().read(true).write(true).open(place.image()).unwrap()
}
/// Where the stamps of trims begin.
fn trims_at(image: &Image) -> u64 {
    let s = &image.superblock;
    (81920 + 16 * u64::from(s.luns) * u64::from(s.lines)).next_multiple_of(4096)
}
/// Where the records of units begin and how long one is; where data begin.
fn layout(image: &Image) -> (u64, u64, u64) {
    let s = &image.superblock;
    let up = |n: u64, to: u64| n.div_ceil(to) * to;
    let blocks = u64::from(s.luns) * u64::from(s.lines);
    let trims = trims_at(image);
    let records = up(trims + 8 * s.sectors, 4096);
    let record = up(36 + 12 * u64::from(s.unit_sectors), 64);
    (records, record, up(records + blocks * u64::from(s.pages) * record, 1 << 20))
}
/// Units with a whole record, by kind, with their orders.
fn units(image: &Image) -> Vec<(u32, UnitKind, u64)> {
    let mut units = Vec::new();
    image
        .each_unit(|unit, found| {
            if let Found::Whole(r) = found {
                units.push((unit, r.kind, r.order));
            }
        })
        .unwrap();
    units
}
fn check(place: &Place, more: &[&str]) -> (Option<i32>, String) {
    let out = wordline().args(["image", "check"]).arg(place.image()).args(more).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
    (out.status.code(), text.into_owned())
}
/// Salvages to a file: how many sectors are known. Each of them is the newest.
fn salvaged(place: &Place, model: &[u8], what: &str) -> usize {
    let out = place.dir.path().join("out");
    let map = place.dir.path().join("out.map");
    let (status, text) = check(place, &["--salvage", out.to_str().unwrap()]);
    assert!(matches!(status, Some(0 | 1 | 3)), "{what}: {text}");
    let bytes = std::fs::read(&out).unwrap();
    assert_eq!(bytes.len(), SIZE, "{what}");
    let (mut at, mut known) = (0, 0);
    let text = std::fs::read_to_string(&map).unwrap();
    for line in text.lines().filter(|l| !l.starts_with('#')).skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |i: usize| usize::from_str_radix(&fields[i][2..], 16).unwrap();
        assert_eq!(number(0), at, "{what}: {line}");
        let range = at..at + number(1);
        at = range.end;
        if fields[2] == "+" {
            known += range.len() / 4096;
            assert!(bytes[range.clone()] == model[range], "{what}: {line} is not the newest");
        }
    }
    assert_eq!(at, SIZE, "{what}");
    [out, map].into_iter().for_each(|path| std::fs::remove_file(path).unwrap());
    known
}
/// Reads everything: sectors that are the newest; all others fail.
fn read(place: &Place, model: &[u8], what: &str) -> usize {
    let mut c = place.client("");
    let mut known = 0;
    for (lpn, newest) in model.chunks_exact(4096).enumerate() {
        let reply = c.call(cmd::READ, 0, lpn as u64 * 4096, 4096, &[]).unwrap();
        match reply.error {
            0 => assert!(reply.data[0].1 == newest, "{what}: sector {lpn} is not the newest"),
            error => assert_eq!(error, errno::EIO, "{what}"),
        }
        known += usize::from(reply.error == 0);
    }
    known
}

#[test]
fn zeroes_over_a_lines_smeta_cost_what_lay_under_them_only() {
    let place = Place::new(RAIL);
    let model = written(&place, 1, false);
    let before = std::fs::read(place.image()).unwrap();
    let image = Image::open(&place.image(), false).unwrap();
    let (_, _, data) = layout(&image);
    let unit_bytes = u64::from(image.superblock.unit_sectors) * 4096;
    let at = |unit: u32| data + u64::from(unit) * unit_bytes;
    let smetas: Vec<u32> =
        units(&image).iter().filter(|u| u.1 == UnitKind::Smeta).map(|u| u.0).collect();
    drop(image);
    assert!(smetas.len() > 5);
    // All copies in all smeta units: emeta has it, or the units' records.
    for &unit in &smetas {
        file(&place).write_all_at(&vec![0; unit_bytes as usize], at(unit)).unwrap();
    }
    let (status, text) = check(&place, &[]);
    assert_eq!(status, Some(3), "{text}");
    // Of blocks erased since nothing is asked.
    let mended = text.split_once("the smeta of ").unwrap().1.split_whitespace().next().unwrap();
    assert!((smetas.len() / 2..=smetas.len()).contains(&mended.parse().unwrap()), "{text}");
    assert!(text.contains(" 0 to be had from parity alone, 0 damaged"), "{text}");
    let server = place.start();
    assert_eq!(read(&place, &model, "all smeta"), SIZE / 4096);
    assert_eq!(server.stop().0, Some(0));
    assert_eq!(check(&place, &[]).0, Some(0), "a start has mended it");
    // 4 MiB from a line's smeta on.
    for unit in [smetas[0], smetas[smetas.len() / 2]] {
        std::fs::write(place.image(), &before).unwrap();
        file(&place).write_all_at(&vec![0; 4 * MIB], at(unit)).unwrap();
        let what = format!("from unit {unit}");
        let least = (SIZE - 4 * MIB) / 4096;
        assert!(salvaged(&place, &model, &what) >= least, "{what}");
        let server = place.start();
        assert!(read(&place, &model, &what) >= least, "{what}");
        let mut c = place.client("");
        assert_eq!(c.call(cmd::WRITE, 0, 0, MIB as u32, &vec![9; MIB]).unwrap().error, 0);
        assert_eq!(c.call(cmd::FLUSH, 0, 0, 0, &[]).unwrap().error, 0);
        server.kill();
        let _server = place.start();
        let mut newer = model.clone();
        newer[..MIB].fill(9);
        assert!(read(&place, &newer, &what) >= least, "{what}");
    }
}

#[test]
fn without_its_state_an_image_is_read_and_not_written() {
    for kill in [false, true] {
        let place = Place::new(RAIL);
        let model = written(&place, 2, kill);
        file(&place).write_all_at(&[0; 8192], 4096).unwrap();
        let before = std::fs::read(place.image()).unwrap();
        let said = place.try_start(&[]).err().expect("it must not start");
        assert!(said.contains("both state records are lost"), "{said}");
        assert!(said.contains("wordline serve --salvage"), "{said}");
        let (status, text) = check(&place, &[]);
        assert!(status == Some(1) && text.contains("both state records are lost"), "{text}");
        // A flush covered all of it: nothing is torn, and all is known.
        assert_eq!(salvaged(&place, &model, "no state"), SIZE / 4096);
        let server = place.start_with(&["--salvage"]);
        assert_eq!(read(&place, &model, "no state"), SIZE / 4096);
        let mut c = place.client("");
        assert_eq!(c.call(cmd::WRITE, 0, 0, 4096, &[1; 4096]).unwrap().error, errno::EPERM);
        let (status, said) = server.stop();
        assert_eq!(status, Some(0), "{said}");
        assert!(std::fs::read(place.image()).unwrap() == before, "it was changed");
        // One that is new has none, and nothing to lose.
        let fresh = Place::new(RAIL);
        assert_eq!(fresh.start().stop().0, Some(0));
        file(&fresh).write_all_at(&[0; 8192], 4096).unwrap();
        let _server = fresh.start();
    }
}

/// A disk with room for OUT, which is sparse, and none for OUT.map.
#[test]
fn a_map_that_cannot_be_written_is_named() {
    let place = Place::new(RAIL);
    assert_eq!(place.start().stop().0, Some(0));
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path();
    let Some(_mounted) = Mounted::new(&["-t", "tmpfs", "-o", "size=4k", "tmpfs"], disk) else {
        return skip("no tmpfs may be mounted here");
    };
    std::fs::write(disk.join("filler"), [1; 4096]).unwrap();
    let out = disk.join("out").display().to_string();
    let (status, text) = check(&place, &["--salvage", &out]);
    assert!(status == Some(1) && text.contains(&format!("cannot write {out}.map: ")), "{text}");
    // Neither is left behind, and both can be made when there is room.
    assert_eq!(std::fs::read_dir(disk).unwrap().count(), 1);
    std::fs::remove_file(disk.join("filler")).unwrap();
    assert_eq!(check(&place, &["--salvage", &out]).0, Some(0));
    // One that is there already is not written over.
    std::fs::remove_file(&out).unwrap();
    let (status, text) = check(&place, &["--salvage", &out]);
    assert!(status == Some(2) && text.contains(&format!("cannot make {out}.map: ")), "{text}");
    assert!(!disk.join("out").exists());
}

/// Whatever is damaged, what is given out as known is the newest.
#[test]
fn old_data_are_never_taken_for_new() {
    for seed in 0..12 {
        let kill = seed % 2 == 1;
        let place = Place::new(RAIL);
        let model = written(&place, seed, kill);
        let mut rng = Rng::from_seed(seed);
        let image = Image::open(&place.image(), false).unwrap();
        let (records, record, data) = layout(&image);
        let units = units(&image);
        let (luns, pages) = (image.superblock.luns, image.superblock.pages);
        let synced = image.state().synced;
        let later = |units: &[(u32, UnitKind, u64)], unit: u32| {
            let (line, lun, page) = (unit / luns / pages, unit % luns, unit / luns % pages);
            let in_block = |u: u32| u / luns / pages == line && u % luns == lun;
            let behind = |u: u32| in_block(u) && u / luns % pages > page;
            units.iter().any(|u| behind(u.0) && u.2 <= synced)
        };
        drop(image);
        // After a kill a record that is torn may be the kill's, if nothing synced lies behind it in its block.
        let mut units = units;
        if kill {
            let all = units.clone();
            units.retain(|u| u.2 <= synced && later(&all, u.0));
        }
        // A record that is gone after a kill looks like one that the kill prevented.
        let kind = rng.below(if kill { 3 } else { 4 });
        let n = 1 + rng.below(3);
        let before = std::fs::read(place.image()).unwrap();
        for _ in 0..n {
            let (unit, ..) = units[rng.below(units.len() as u64) as usize];
            let at = records + u64::from(unit) * record;
            match kind {
                // A bit of a record; a record; a run of data; a run of records of a drive shut down.
                0 => {
                    let at = at + rng.below(32);
                    let mut byte = [0];
                    file(&place).read_exact_at(&mut byte, at).unwrap();
                    file(&place).write_all_at(&[byte[0] ^ 1 << rng.below(8)], at).unwrap();
                }
                1 => file(&place).write_all_at(&vec![0xAA; record as usize], at).unwrap(),
                2 => {
                    let at = data + u64::from(unit) * 65536 + rng.below(65536);
                    file(&place)
                        .write_all_at(&vec![0x5A; 1 + rng.below(200_000) as usize], at)
                        .unwrap();
                }
                _ => {
                    let run = (record * (1 + rng.below(39))).min(data - at);
                    file(&place).write_all_at(&vec![0; run as usize], at).unwrap();
                }
            }
        }
        let what = format!("seed {seed}, damage {kind} in {n} places");
        assert!(std::fs::read(place.image()).unwrap() != before, "{what}: nothing was damaged");
        let known = salvaged(&place, &model, &what);
        match place.try_start(&[]) {
            Ok(_server) => {
                // A flash read is a run of sectors, and fails as a whole: fewer may be had. After a kill
                // the collector has work at once, and what it has in memory may mend more.
                let had = read(&place, &model, &what);
                assert!(kill || had <= known, "{what}: {had} of {known} that were known");
            }
            Err(said) => {
                assert!(said.contains("is damaged"), "{what}: {said}");
                let _server = place.start_with(&["--salvage"]);
                assert_eq!(read(&place, &model, &what), known, "{what}");
            }
        }
        println!("{what}: {known} of {} sectors known", SIZE / 4096);
    }
}

/// Without the stamp of its trim a sector's older copy would be taken for the newest.
#[test]
fn a_trim_whose_record_is_lost_does_not_bring_back_older_data() {
    for kill in [false, true] {
        let place = Place::new(RAIL);
        let mut model = written(&place, 3, false);
        let server = place.start();
        let mut c = place.client("");
        for (kind, mib) in [(cmd::TRIM, 3), (cmd::WRITE_ZEROES, 7)] {
            let at = mib * MIB;
            assert_eq!(c.call(kind, 0, at as u64, MIB as u32, &[]).unwrap().error, 0);
            model[at..at + MIB].fill(0);
        }
        assert_eq!(c.call(cmd::FLUSH, 0, 0, 0, &[]).unwrap().error, 0);
        match kill {
            true => server.kill(),
            false => assert_eq!(server.stop().0, Some(0)),
        }
        let image = Image::open(&place.image(), false).unwrap();
        let at = |sector: u64| trims_at(&image) + 8 * sector;
        let whole = std::fs::read(place.image()).unwrap();
        // A bit of a stamp, a bit of its checksum, a stamp of nothing.
        let mut damages: Vec<_> = [(800, 0x01), (1000, 0x80)]
            .map(|(sector, bit)| {
                let place = at(sector) + u64::from(bit == 0x80) * 5;
                (place, vec![whole[place as usize] ^ bit], 1, "1 records of trims are torn")
            })
            .into();
        damages.push((at(801), vec![0; 4], 1, "1 records of trims are torn"));
        if !kill {
            // All of those of the first trim: only a drive that was shut down has counted them.
            damages.push((
                at(768),
                vec![0; 8 * 256],
                SIZE / 4096 - 256,
                "records of trims are gone",
            ));
        }
        drop(image);
        for (at, bytes, most, reason) in damages {
            std::fs::write(place.image(), &whole).unwrap();
            file(&place).write_all_at(&bytes, at).unwrap();
            let what = format!("kill {kill}, {} bytes at {at}", bytes.len());
            let (status, text) = check(&place, &[]);
            assert!(status == Some(1) && text.contains(reason), "{what}: {text}");
            let said = place.try_start(&[]).err().unwrap_or_else(|| panic!("{what}: it started"));
            assert!(said.contains(reason) && said.contains("--salvage"), "{what}: {said}");
            let known = salvaged(&place, &model, &what);
            assert!(known < SIZE / 4096 && known >= SIZE / 4096 - most, "{what}: {known} known");
            let server = place.start_with(&["--salvage"]);
            assert_eq!(read(&place, &model, &what), known, "{what}");
            assert_eq!(server.stop().0, Some(0));
        }
    }
}
