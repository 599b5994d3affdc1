//! Drives at the end of their life: what they hold can be read after any number of starts.

use super::place::{Place, wordline};
use std::collections::HashSet;
use wordline_base::Rng;
use wordline_live::image::{BlockRecord, Found, Image, UnitRecord};
use wordline_nbd::{cmd, errno, flag};

const SIZE: usize = 64 << 20;

/// A full drive, written over in part: its bytes.
fn written(place: &Place) -> Vec<u8> {
    let server = place.start();
    let mut c = place.client("");
    let mut rng = Rng::from_seed(7);
    let mut bytes = vec![0; SIZE];
    bytes
        .chunks_exact_mut(8)
        .for_each(|word| word.copy_from_slice(&rng.below(1 << 60).to_le_bytes()));
    for (i, data) in bytes.chunks_exact(1 << 20).enumerate() {
        let reply = c.call(cmd::WRITE, 0, (i << 20) as u64, 1 << 20, data).unwrap();
        assert_eq!(reply.error, 0, "{}", server.so_far());
    }
    for n in 0..300u32 {
        let at = 4096 * rng.below(SIZE as u64 / 4096) as usize;
        let data = &mut bytes[at..at + 4096];
        data.fill(n as u8);
        assert_eq!(c.call(cmd::WRITE, 0, at as u64, 4096, data).unwrap().error, 0);
    }
    assert_eq!(c.call(cmd::TRIM, 0, 0, 8192, &[]).unwrap().error, 0);
    bytes[..8192].fill(0);
    assert_eq!(c.call(cmd::FLUSH, 0, 0, 0, &[]).unwrap().error, 0);
    assert_eq!(server.stop().0, Some(0));
    bytes
}
/// All blocks that hold nothing go bad.
fn wear_out(place: &Place) {
    let image = Image::open(&place.image(), true).unwrap();
    let (luns, pages) = (image.superblock.luns, image.superblock.pages);
    let erases: Vec<u32> = image
        .read_blocks()
        .unwrap()
        .into_iter()
        .map(|found| if let Found::Whole(block) = found { block.erases } else { 0 })
        .collect();
    let mut used = HashSet::new();
    let each = |unit: u32, found: Found<UnitRecord>| {
        let block = unit / (luns * pages) * luns + unit % luns;
        if matches!(found, Found::Whole(r) if r.erases >= erases[block as usize]) {
            used.insert(block);
        }
    };
    image.each_unit(each).unwrap();
    for (block, &erases) in (0..).zip(&erases).filter(|(block, _)| !used.contains(block)) {
        image.write_one(image.of_block(block, BlockRecord { erases, bad: true })).unwrap();
    }
}
fn holds(place: &Place, bytes: &[u8], what: &str) {
    let mut c = place.client("");
    for (i, data) in bytes.chunks_exact(1 << 18).enumerate() {
        let reply = c.call(cmd::READ, 0, (i << 18) as u64, 1 << 18, &[]).unwrap();
        assert_eq!(reply.error, 0, "{what}: {i}");
        let found: Vec<u8> = reply.data.iter().flat_map(|(_, data)| data.clone()).collect();
        assert!(found == data, "{what}: {i}");
    }
}

#[test]
fn a_drive_with_too_few_good_blocks_starts_read_only_and_all_of_it_is_read() {
    let drives = [
        "cnex-small --ftl pblk",
        "cnex-small --ftl rail",
        "cnex-small --ftl rail-hc",
        "pm9a3-1920g --ftl default",
    ];
    for drive in drives {
        let place = Place::new(&format!("--size 64M --device {drive} --time-scale 0"));
        let bytes = written(&place);
        wear_out(&place);
        for round in 0..3 {
            let what = format!("{drive}, start {round}");
            let server = place.start();
            let told = "read-only: too few blocks of the drive are good to write (";
            assert!(server.so_far().contains(told), "{what}: {}", server.so_far());
            let mut c = place.client("");
            assert_ne!(c.info.flags & flag::READ_ONLY, 0, "{what}");
            holds(&place, &bytes, &what);
            for command in [cmd::WRITE, cmd::TRIM, cmd::WRITE_ZEROES] {
                let data = if command == cmd::WRITE { &[1; 4096][..] } else { &[] };
                let reply = c.call(command, 0, 4096, 4096, data).unwrap();
                assert_eq!(reply.error, errno::EPERM, "{what}: command {command}");
            }
            holds(&place, &bytes, &what);
            match round {
                1 => server.kill(),
                _ => assert_eq!(server.stop().0, Some(0), "{what}"),
            }
        }
        let out = wordline().args(["image", "info"]).arg(place.image()).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(text.contains("\nwrites     not taken, as too few blocks are good ("), "{text}");
        let out = wordline().args(["image", "check"]).arg(place.image()).output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{drive}: {}", String::from_utf8_lossy(&out.stdout));
        let [state, profile] = ["state", "profile"].map(|name| place.dir.path().join(name));
        let mut command = wordline();
        command.args(["image", "export"]).arg(place.image());
        let out =
            command.arg("--state").arg(&state).arg("--profile").arg(&profile).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{drive}");
        assert!(!state.exists() && !profile.exists(), "{drive}");
        // Settings that the drive was never able to have are wrong, and not its wear.
        if drive.starts_with("pm9a3") {
            let said = place.try_start(&["--set", "ftl.firmware.gc_reserve=100000"]).err();
            assert!(said.as_ref().is_some_and(|said| !said.contains("read-only")), "{said:?}");
        }
        let tape = place.dir.path().join("a.tape").display().to_string();
        let said = place.try_start(&["--tape", &tape]).err();
        assert!(
            said.as_ref().is_some_and(|said| said.contains("leave the option out")),
            "{said:?}"
        );
    }
}

/// Blocks fail until the drive takes no more, start after start: what was flushed is read each time, or what was written
/// since, also after a kill.
#[test]
fn what_was_flushed_is_read_at_every_start_of_a_drive_that_wears_out() {
    let drives = [
        ("cnex-small --ftl pblk", 10_000_000),
        ("cnex-small --ftl rail", 10_000_000),
        ("fssd-small", 10_000_000),
        ("pm9a3-1920g", 30_000_000),
    ];
    let mut in_all = 0;
    for (drive, failures) in drives {
        let args = format!("--size 16M --device {drive} --time-scale 0");
        let faults = format!("--set nand.faults.program_fail_ppb={failures}");
        let place = Place::new(&format!("{args} {faults}"));
        let blocks = 4096u64;
        let data = |version: u32| version.to_le_bytes().repeat(1024);
        let mut newest = vec![0u32; blocks as usize];
        let mut flushed = newest.clone();
        let (mut version, mut read_only, mut refused) = (0, 0, None);
        for start in 0..5 {
            let what = format!("{drive}, start {start}");
            let server = place.start();
            let mut c = place.client("");
            for at in 0..blocks {
                let reply = c.call(cmd::READ, 0, at * 4096, 4096, &[]).unwrap();
                assert_eq!(reply.error, 0, "{what}: block {at}");
                let bytes: Vec<u8> = reply.data.iter().flat_map(|(_, data)| data.clone()).collect();
                let found = u32::from_le_bytes(bytes[..4].try_into().unwrap());
                assert!(bytes == data(found), "{what}: block {at}");
                let i = at as usize;
                // What was refused may have been taken all the same.
                let last = refused == Some((at, found));
                let (least, most) = (flushed[i], newest[i]);
                assert!(last || (least..=most).contains(&found), "{what}: block {at} has {found}");
                (newest[i], flushed[i]) = (found, found);
            }
            if c.info.flags & flag::READ_ONLY != 0 {
                read_only += 1;
                assert_eq!(server.stop().0, Some(0), "{what}");
                continue;
            }
            refused = 'writes: loop {
                for _ in 0..100 {
                    version += 1;
                    let at = u64::from(version).wrapping_mul(0x9E37_79B9_7F4A_7C15) % blocks;
                    let written = c.call(cmd::WRITE, 0, at * 4096, 4096, &data(version));
                    if written.unwrap().error != 0 {
                        break 'writes Some((at, version));
                    }
                    newest[at as usize] = version;
                }
                if c.call(cmd::FLUSH, 0, 0, 0, &[]).unwrap().error != 0 {
                    break None;
                }
                flushed.clone_from(&newest);
                assert!(version < 2_000_000, "{what}: it goes on");
            };
            match start % 2 {
                0 => server.kill(),
                _ => assert_eq!(server.stop().0, Some(1), "{what}"),
            }
        }
        println!("{drive}: {version} writes, {read_only} starts that were read only");
        in_all += read_only;
    }
    assert!(in_all > 0, "no drive has come to its end");
}

/// Blocks that failed, as the image has them.
fn failed(place: &Place) -> Vec<usize> {
    let table = Image::open(&place.image(), false).unwrap().read_blocks().unwrap();
    let is_bad = |found: &Found<BlockRecord>| matches!(found, Found::Whole(block) if block.bad);
    (0..table.len()).filter(|&block| is_bad(&table[block])).collect()
}
/// A conventional drive empties a block after a program of it failed, if it has space for that, and reads it until then.
#[test]
fn a_shutdown_does_not_forget_the_blocks_that_failed() {
    let faults = "--set nand.faults.program_fail_ppb=2000000";
    let place = Place::new(&format!("--size 16M --device z-ssd-small --time-scale 0 {faults}"));
    let mut seen = Vec::new();
    for round in 0..3u8 {
        let server = place.start();
        let mut c = place.client("");
        for at in 0..16 {
            let data = vec![round; 1 << 20];
            // It may run out of spare blocks.
            let reply = c.call(cmd::WRITE, cmd::FLAG_FUA, at << 20, 1 << 20, &data).unwrap();
            assert!(matches!(reply.error, 0 | errno::EIO), "{}", server.so_far());
        }
        drop(c);
        server.kill();
        let before = failed(&place);
        assert!(seen.iter().all(|block| before.contains(block)), "{seen:?}, then {before:?}");
        assert_eq!(place.start().stop().0, Some(0));
        seen = failed(&place);
        assert!(before.iter().all(|block| seen.contains(block)), "{before:?}, then {seen:?}");
    }
    assert!(!seen.is_empty(), "no block failed");
}

/// A read of the collector's that fails is made up for by parity: all that was written stays.
#[test]
fn what_the_collector_cannot_read_and_parity_gives_is_kept() {
    // The collector's reads fail in each run, and so rarely that hardly ever more members of a stride fail together
    // than parity makes up for.
    for (ftl, failures) in [("rail", 200_000), ("rail6", 1_500_000)] {
        let place =
            Place::new(&format!("--size 64M --device cnex-small --ftl {ftl} --time-scale 0"));
        let mut bytes = vec![1; SIZE];
        let server = place.start_with(&["--set", &format!("nand.faults.read_fail_ppb={failures}")]);
        let mut c = place.client("");
        for at in (0..SIZE).step_by(1 << 20) {
            let data = &bytes[at..][..1 << 20];
            assert_eq!(c.call(cmd::WRITE, 0, at as u64, 1 << 20, data).unwrap().error, 0);
        }
        let mut rng = Rng::from_seed(11);
        for n in 0..12_000u32 {
            let at = 4096 * rng.below(SIZE as u64 / 4096) as usize;
            let data = &mut bytes[at..][..4096];
            data.chunks_exact_mut(4).for_each(|word| word.copy_from_slice(&n.to_le_bytes()));
            assert_eq!(c.call(cmd::WRITE, 0, at as u64, 4096, data).unwrap().error, 0);
        }
        assert_eq!(c.call(cmd::FLUSH, 0, 0, 0, &[]).unwrap().error, 0);
        assert_eq!(server.stop().0, Some(0));
        let server = place.start();
        holds(&place, &bytes, ftl);
        assert_eq!(server.stop().0, Some(0));
    }
}
