//! What a client sees of a drive.

use super::place::{Place, connect, image_ios, wait_until, wordline};
use wordline_nbd::{Client, ClientError, cmd, errno, flag};

const SMALL: &str = "--size 48M --device cnex-small --time-scale 0";

#[test]
fn of_a_fresh_image_no_write_errors_are_told() {
    let place = Place::new(SMALL);
    let server = place.start();
    let mut c = place.client("");
    assert_eq!(c.call(cmd::WRITE, 0, 0, 1 << 20, &vec![7; 1 << 20]).unwrap().error, 0);
    assert_eq!(server.stop().0, Some(0));
    let out = wordline().args(["image", "info"]).arg(place.image()).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success() && text.contains("; left open 1\n"), "{text}");
    assert!(!text.contains("write errors"), "{text}");
}

/// The collector works on for writes of earlier sessions: that is no ratio of this one.
#[test]
fn a_session_with_few_writes_has_no_write_amplification() {
    let place = Place::new(SMALL);
    let (_, said) = place.start().stop();
    assert!(said.contains("\nno writes of users; 0.0 MiB of the drive itself; "), "{said}");
    let server = place.start_with(&["--stats", "line", "--stats-interval", "0.05"]);
    let mut c = place.client("");
    assert_eq!(c.call(cmd::WRITE, cmd::FLAG_FUA, 0, 4096, &[1; 4096]).unwrap().error, 0);
    wait_until("it tells", || server.so_far().contains("; WA -, "));
    let (_, said) = server.stop();
    assert!(said.contains("\n0.0 MiB of users, too little for a write amplification; "), "{said}");
    let server = place.start();
    let mut c = place.client("");
    for at in 0..40 {
        assert_eq!(c.call(cmd::WRITE, 0, at << 20, 1 << 20, &vec![7; 1 << 20]).unwrap().error, 0);
    }
    let (_, said) = server.stop();
    assert!(
        said.contains("\nwrite amplification 1.") && said.contains(": 40.0 MiB of users, "),
        "{said}"
    );
}

#[test]
fn bytes_come_back_whatever_their_place_and_length() {
    image_ios().into_iter().for_each(bytes_come_back);
}
fn bytes_come_back(way: &str) {
    let place = Place::new(&format!("{SMALL} --set device.lba=512 {way}"));
    let server = place.start();
    let mut c = place.client("");
    assert_eq!(c.info.size, 48 << 20);
    let mut disk = vec![0u8; 1 << 20];
    let mut rng = wordline_base::Rng::from_seed(5);
    for round in 0..400u32 {
        let len = 512 * (1 + rng.below(if round % 10 == 0 { 400 } else { 18 }) as usize);
        let at = 512 * rng.below((disk.len() - len) as u64 / 512) as usize;
        let range = at..at + len;
        let (offset, bytes) = (at as u64, len as u32);
        let reply = match rng.below(10) {
            0 => {
                disk[range.clone()].fill(0);
                let no_hole = if round % 2 == 0 { cmd::FLAG_NO_HOLE } else { 0 };
                c.call(cmd::WRITE_ZEROES, no_hole, offset, bytes, &[])
            }
            1 => c.call(cmd::FLUSH, 0, 0, 0, &[]),
            2 => c.call(cmd::CACHE, 0, offset, bytes, &[]),
            3..6 => {
                let data: Vec<u8> = (0..len).map(|_| rng.below(256) as u8).collect();
                disk[range.clone()].copy_from_slice(&data);
                let fua = if round % 7 == 0 { cmd::FLAG_FUA } else { 0 };
                c.call(cmd::WRITE, fua, offset, bytes, &data)
            }
            _ => c.call(cmd::READ, 0, offset, bytes, &[]),
        }
        .unwrap();
        assert_eq!(reply.error, 0);
        if let Some((_, data)) = reply.data.first() {
            assert!(*data == disk[range], "round {round}: {len} bytes at {at}");
        }
    }
    let (status, said) = server.stop();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("look-ups checked, 0 wrong"), "{said}");
    // A second life: found in order, and the same bytes.
    let server = place.start();
    assert!(server.so_far().contains("state: shut down in good order"));
    let mut c = place.client("ro");
    let reply = c.call(cmd::READ, 0, 0, disk.len() as u32, &[]).unwrap();
    assert!(reply.data[0].1 == disk);
    server.stop();
}

/// Zeroes that must not be a hole are many writes of the drive, and one request: it is counted once, and answered by
/// a server that was told to stop meanwhile.
#[test]
fn zeroes_under_way_are_answered_before_the_end() {
    let place = Place::new("--size 48M --device cnex-small --ftl pblk --time-scale 1");
    let server = place.start();
    let mut c = place.client("");
    for at in [0, 16 << 20, 32 << 20] {
        let data = vec![7; 16 << 20];
        assert_eq!(c.call(cmd::WRITE, 0, at, 16 << 20, &data).unwrap().error, 0);
    }
    assert_eq!(c.call(cmd::FLUSH, 0, 0, 0, &[]).unwrap().error, 0);
    let zeroes = std::thread::spawn(move || {
        let flags = cmd::FLAG_NO_HOLE | cmd::FLAG_FUA;
        c.call(cmd::WRITE_ZEROES, flags, 0, 48 << 20, &[]).map(|reply| reply.error)
    });
    std::thread::sleep(std::time::Duration::from_millis(150));
    let (status, said) = server.stop();
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(zeroes.join().unwrap().unwrap(), 0, "{said}");
    let counted = |line: &str| said.lines().any(|l| l.starts_with(line));
    assert!(counted("write         3 answered") && counted("flush         1 answered"), "{said}");
    let server = place.start();
    let mut c = place.client("");
    let reply = c.call(cmd::READ, 0, 0, 32 << 20, &[]).unwrap();
    assert!(reply.data.iter().all(|(_, data)| data.iter().all(|&byte| byte == 0)));
    server.stop();
}

/// Of a gigabyte of zeroes a server that was told to stop writes 64 MiB more, and says that it ends. A question about
/// allocation is answered for 256 MiB.
#[test]
fn what_would_take_long_does_not_hold_up_the_end_nor_others() {
    let place = Place::new("--size 2G --device cnex-small --ftl pblk --time-scale 1");
    let server = place.start();
    let mut c = place.client("");
    let extents = c.call(cmd::BLOCK_STATUS, 0, 1 << 20, 1 << 30, &[]).unwrap().extents;
    assert_eq!(extents, [(256 << 20, 3)]);
    // As many as are sent at once, and each is answered.
    for cookie in 0..100 {
        c.send(cmd::BLOCK_STATUS, 0, cookie, 0, 1 << 30, &[]).unwrap();
    }
    for _ in 0..100 {
        assert_eq!(c.receive().unwrap().extents, [(256 << 20, 3)]);
    }
    let zeroes = std::thread::spawn(move || {
        c.call(cmd::WRITE_ZEROES, cmd::FLAG_NO_HOLE, 0, 1 << 30, &[]).map(|reply| reply.error)
    });
    std::thread::sleep(std::time::Duration::from_millis(150));
    let (status, said) = server.stop();
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(zeroes.join().unwrap().unwrap(), errno::ESHUTDOWN, "{said}");
    place.start().stop();
}

#[test]
fn exports_errors_and_holes() {
    let place = Place::new(SMALL);
    let _server = place.start();
    let mut c = place.client("lat");
    let mut ro = place.client("thr-ro");
    assert_ne!(ro.info.flags & flag::READ_ONLY, 0);
    assert_eq!(ro.call(cmd::WRITE, 0, 0, 4096, &[1; 4096]).unwrap().error, errno::EPERM);
    let stream = std::os::unix::net::UnixStream::connect(place.socket()).unwrap();
    assert!(matches!(Client::connect(stream, "nope", true), Err(ClientError::Refused(..))));
    assert_eq!(c.call(cmd::READ, 0, 48 << 20, 4096, &[]).unwrap().error, errno::EINVAL);
    // Blocks of the drive are whole.
    assert_eq!(c.call(cmd::READ, 0, 0, 512, &[]).unwrap().error, errno::EINVAL);
    assert_eq!(c.call(cmd::WRITE, 0, 512, 4096, &[1; 4096]).unwrap().error, errno::EINVAL);
    let both = cmd::FLAG_NO_HOLE | cmd::FLAG_FAST_ZERO;
    assert_eq!(c.call(cmd::WRITE_ZEROES, both, 0, 4096, &[]).unwrap().error, errno::ENOTSUP);
    assert_eq!(c.call(cmd::WRITE_ZEROES, cmd::FLAG_FAST_ZERO, 0, 4096, &[]).unwrap().error, 0);
    let write = c.call(cmd::WRITE, 0, 8192, 8192, &[1; 8192]).unwrap();
    assert_eq!(write.error, 0);
    let status = |c: &mut Client<_>| c.call(cmd::BLOCK_STATUS, 0, 0, 65536, &[]).unwrap().extents;
    assert_eq!(status(&mut c), [(8192, 3), (8192, 0), (49152, 3)]);
    c.call(cmd::TRIM, 0, 8192, 4096, &[]).unwrap();
    assert_eq!(status(&mut c), [(12288, 3), (4096, 0), (49152, 3)]);
    // The other connection sees it, and the trim lasts.
    c.call(cmd::FLUSH, 0, 0, 0, &[]).unwrap();
    assert_eq!(ro.call(cmd::READ, 0, 8192, 4096, &[]).unwrap().data[0].1, [0; 4096]);
}

#[test]
fn slow_and_silent_clients_hold_nobody_up() {
    use std::io::Write;
    let place = Place::new(&format!("{SMALL} --max-connections 4"));
    let _server = place.start();
    // One says nothing, one stops in the middle of a request, one reads no answers.
    let _silent = std::os::unix::net::UnixStream::connect(place.socket()).unwrap();
    let mut halting = place.client("");
    halting.stream.write_all(&[0x25, 0x60, 0x95]).unwrap();
    let mut deaf = place.client("");
    deaf.stream.set_nonblocking(true).unwrap();
    for cookie in 0..2000 {
        if deaf.send(cmd::READ, 0, cookie, 0, 1 << 20, &[]).is_err() {
            break;
        }
    }
    let mut c = place.client("");
    for i in 0..200u64 {
        assert_eq!(c.call(cmd::WRITE, 0, i * 4096, 4096, &[i as u8; 4096]).unwrap().error, 0);
        assert_eq!(c.call(cmd::READ, 0, i * 4096, 4096, &[]).unwrap().data[0].1[0], i as u8);
    }
    // The fifth is let go; the sixth, if meanwhile it was too long for who says nothing.
    let more = [(); 2].map(|()| Client::connect(connect(&place.socket()), "", true));
    assert!(more.iter().any(Result::is_err));
}

#[test]
fn real_time_holds_answers_until_the_model_says_so() {
    let place = Place::new("--size 48M --device cnex-small");
    let server = place.start();
    let mut c = place.client("");
    c.call(cmd::WRITE, 0, 0, 65536, &[7; 65536]).unwrap();
    c.call(cmd::FLUSH, 0, 0, 0, &[]).unwrap();
    // 12 MiB more push it out of the write buffer, so that it is read from flash.
    for i in 1..13u64 {
        c.call(cmd::WRITE, 0, i << 20, 1 << 20, &vec![8; 1 << 20]).unwrap();
    }
    let mut fastest = std::time::Duration::MAX;
    for i in 0..16u64 {
        let begun = std::time::Instant::now();
        c.call(cmd::READ, 0, i * 4096, 4096, &[]).unwrap();
        fastest = fastest.min(begun.elapsed());
    }
    // tR alone is 65 us.
    assert!(fastest >= std::time::Duration::from_micros(65), "{fastest:?}");
    let (_, said) = server.stop();
    assert!(said.contains("answers left later than the model said by p50"), "{said}");
    assert!(said.contains("input lay unseen, for all that is known, up to p50"), "{said}");
}

#[test]
fn a_model_that_is_behind_the_clock_is_told() {
    use rustix::process::Signal;
    // Twenty times slower, so that the drive has seconds of programs to go when the server stops.
    let place = Place::new("--size 48M --device cnex-small --time-scale 20");
    let server = place.start();
    let mut c = place.client("");
    for i in 0..16u64 {
        c.send(cmd::WRITE, 0, i, i << 20, 1 << 20, &vec![8; 1 << 20]).unwrap();
    }
    // Its clock goes on.
    server.signal(Signal::STOP);
    std::thread::sleep(std::time::Duration::from_millis(1300));
    server.signal(Signal::CONT);
    (0..16).for_each(|_| assert_eq!(c.receive().unwrap().error, 0));
    let (status, said) = server.stop();
    assert_eq!(status, Some(0), "{said}");
    // Not in each turn; again only where the machine itself keeps the server waiting.
    let told = said.matches(" s behind the clock, and answers are late by as much").count();
    assert!((1..4).contains(&told), "{said}");
    let line = said.lines().find(|l| l.contains("the model was behind the clock by at most"));
    let ms = line.and_then(|l| l.split_whitespace().find_map(|word| word.parse::<f64>().ok()));
    assert!(ms.is_some_and(|ms| ms >= 1000.0), "{said}");
}

#[test]
fn an_exported_drive_runs_in_virtual_time() {
    let place = Place::new(&format!("{SMALL} --ftl rail"));
    let server = place.start();
    let mut c = place.client("");
    for i in 0..24u64 {
        assert_eq!(c.call(cmd::WRITE, 0, i << 20, 1 << 20, &vec![9; 1 << 20]).unwrap().error, 0);
    }
    server.stop();
    let file = |name: &str| place.dir.path().join(name).display().to_string();
    let run = |args: &[&str]| {
        let out = super::place::wordline().args(args).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{args:?}: {said}");
        String::from_utf8(out.stdout).unwrap()
    };
    let (image, state, profile) = (file("drive.img"), file("state"), file("drive.toml"));
    // The image is the only copy of what clients wrote.
    for (state, profile) in [(&image, &profile), (&state, &image), (&state, &state)] {
        let args = ["image", "export", &image, "--state", state, "--profile", profile];
        let out = super::place::wordline().args(args).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{said}");
        let why = ["is the same file as", "is a file that is read as well"];
        assert!(
            why.iter().any(|why| said.contains(why)) && said.contains("name another"),
            "{said}"
        );
    }
    let export = ["image", "export", &image, "--state", &state, "--profile", &profile];
    assert_eq!(run(&export), format!("wordline run JOB --device {profile} --load-state {state}\n"));
    // Fastest read of what was written, and of what was not: flash says which is which.
    let fastest = |offset: &str| {
        let offset = format!("--offset={offset}");
        let job = ["run", "--name=a", "--rw=randread", "--bs=4k", "--size=16m", &offset];
        let drive = ["--device", &profile, "--load-state", &state];
        let form = ["--stack", "none", "--output-format=json", "--quiet"];
        let json: serde_json::Value =
            serde_json::from_str(&run(&[&job[..], &drive, &form].concat())).unwrap();
        let read = &json["jobs"][0]["read"];
        assert_eq!(read["total_ios"], 4096);
        read["clat_ns"]["min"].as_u64().unwrap()
    };
    let (written, blank) = (fastest("0"), fastest("28m"));
    assert!(written >= 65_000 && blank < 65_000, "{written} and {blank} ns");
}

/// With hot and cold sides a drive has twice as many lines, each of fewer LUNs, and no more of them are
/// free than there are.
#[test]
fn no_more_lines_are_free_than_there_are() {
    for ftl in ["pblk", "rail-hc"] {
        let place = Place::new(&format!("{SMALL} --ftl {ftl}"));
        place.start().stop();
        let image = place.image();
        let out = super::place::wordline().args(["image", "check"]).arg(image).output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        let line = text.lines().find(|l| l.contains("lines free")).expect("it is told");
        let numbers: Vec<u32> = line.split_whitespace().filter_map(|w| w.parse().ok()).collect();
        assert!(numbers.len() == 2 && numbers[0] <= numbers[1], "{ftl}: {line}");
    }
}

/// Sets the stamp of a sector's newest copy, as if it had been written so often.
fn written_so_often(place: &Place, lpn: u32, stamp: u32) {
    use wordline_live::image::{Found, Image, sector_crc};
    let image = Image::open(&place.image(), true).unwrap();
    let mut newest = None;
    image
        .each_unit(|unit, found| {
            let Found::Whole(record) = found else { return };
            if let Some(i) = record.spares.iter().position(|s| s.lpn == lpn) {
                assert!(newest.is_none(), "it was written once");
                newest = Some((unit, i, record));
            }
        })
        .unwrap();
    let (unit, i, mut record) = newest.unwrap();
    let mut data = [0; 4096];
    image.read_sectors(unit * image.superblock.unit_sectors + i as u32, &mut data).unwrap();
    record.spares[i].stamp = stamp;
    record.spares[i].crc = sector_crc(lpn, stamp, &data);
    image.write_one(image.of_unit(unit, &record)).unwrap();
}

/// Stamps have 31 bits, and are kept as long as the image.
#[test]
fn a_sector_that_was_written_too_often_to_count_takes_no_more_and_loses_nothing() {
    const LAST: u32 = (1 << 31) - 2;
    let place = Place::new("--size 48M --device cnex-small --time-scale 0");
    let server = place.start();
    let write = |c: &mut Client<_>, at: u64, byte: u8| {
        c.call(cmd::WRITE, cmd::FLAG_FUA, at, 4096, &[byte; 4096]).unwrap().error
    };
    let read =
        |c: &mut Client<_>, at: u64| c.call(cmd::READ, 0, at, 4096, &[]).unwrap().data[0].1[0];
    let mut c = place.client("");
    assert_eq!([0, 4096].map(|at| write(&mut c, at, 1)), [0, 0]);
    drop(c);
    assert_eq!(server.stop().0, Some(0));
    written_so_often(&place, 1, LAST - 1);
    let server = place.start();
    let mut c = place.client("");
    assert_eq!(read(&mut c, 4096), 1);
    assert_eq!(write(&mut c, 4096, 2), 0, "the last of its writes");
    assert_eq!(read(&mut c, 4096), 2);
    for _ in 0..3 {
        assert_eq!(write(&mut c, 4096, 3), errno::EIO);
        let both = c.call(cmd::WRITE, 0, 0, 8192, &[3; 8192]).unwrap();
        assert_eq!(both.error, errno::EIO);
        assert_eq!((read(&mut c, 0), read(&mut c, 4096)), (1, 2));
    }
    assert_eq!(write(&mut c, 0, 4), 0, "others are written");
    assert!(server.so_far().contains("the sector at byte 4096 takes no more writes"));
    drop(c);
    let (status, said) = server.stop();
    assert_eq!(status, Some(0), "{said}");
    let server = place.start();
    let mut c = place.client("");
    assert_eq!((read(&mut c, 0), read(&mut c, 4096)), (4, 2));
    assert_eq!(write(&mut c, 4096, 5), errno::EIO);
    assert_eq!(c.call(cmd::WRITE_ZEROES, 0, 4096, 4096, &[]).unwrap().error, 0);
    assert_eq!(c.call(cmd::FLUSH, 0, 0, 0, &[]).unwrap().error, 0);
    assert_eq!(read(&mut c, 4096), 0);
    server.kill();
    let server = place.start();
    let mut c = place.client("");
    assert_eq!((read(&mut c, 0), read(&mut c, 4096)), (4, 0));
    assert_eq!(write(&mut c, 4096, 6), errno::EIO);
    drop(c);
    assert_eq!(server.stop().0, Some(0));
    let check =
        super::place::wordline().args(["image", "check"]).arg(place.image()).output().unwrap();
    assert_eq!(check.status.code(), Some(0), "{}", String::from_utf8_lossy(&check.stdout));
}
