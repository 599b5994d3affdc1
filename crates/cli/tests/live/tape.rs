//! A recorded session, replayed: the same state, whatever happened in it.

use super::place::{Place, program, wait_until, wordline};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use wordline_base::Rng;
use wordline_nbd::{Client, cmd};

const SMALL: &str = "--size 48M --device cnex-small --ftl rail --set device.lba=512 --time-scale 0";

/// Requests of all kinds, eight at a time.
fn work(c: &mut Client<UnixStream>, seed: u64, requests: u64) {
    let mut rng = Rng::from_seed(seed);
    let mut out = 0;
    for cookie in 0..requests {
        let len = 512 << rng.below(8);
        let offset = rng.below((c.info.size - len) / 512) * 512;
        let (offset, len) = (offset, len as u32);
        let data = vec![cookie as u8; len as usize];
        match rng.below(20) {
            0 => c.send(cmd::FLUSH, 0, cookie, 0, 0, &[]),
            1 => c.send(cmd::TRIM, 0, cookie, offset, len, &[]),
            2 => c.send(cmd::WRITE_ZEROES, 0, cookie, offset, len, &[]),
            3 => c.send(cmd::WRITE, cmd::FLAG_FUA, cookie, offset, len, &data),
            4..12 => c.send(cmd::WRITE, 0, cookie, offset, len, &data),
            _ => c.send(cmd::READ, 0, cookie, offset, len, &[]),
        }
        .unwrap();
        out += 1;
        if out == 8 {
            c.receive().unwrap();
            out -= 1;
        }
    }
    (0..out).for_each(|_| drop(c.receive().unwrap()));
}

fn replay(tape: &Path) -> (Option<i32>, String, String) {
    let out = wordline().args(["tape", "replay"]).arg(tape).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

#[test]
fn a_session_is_replayed_to_its_state() {
    let place = Place::new("--size 48M --device cnex-small --ftl rail --set device.lba=512");
    let mut tapes = Vec::new();
    // Free time, real time from what the first left, and other words for the same drive.
    let words = ["--time-scale 0", "--time-scale 1", "--time-scale 0 --set ftl.pad_idle=true"];
    for (i, more) in words.iter().enumerate() {
        let tape = place.dir.path().join(format!("{i}.tape"));
        let mut args: Vec<&str> = more.split_whitespace().collect();
        args.extend(["--tape", tape.to_str().unwrap()]);
        let server = place.start_with(&args);
        let work_of = |n| work(&mut place.client(if i == 1 { "lat" } else { "" }), i as u64, n);
        work_of(if i == 1 { 600 } else { 6000 });
        let (status, said) = server.stop();
        assert_eq!(status, Some(0), "{said}");
        let (status, told, why) = replay(&tape);
        assert_eq!(status, Some(0), "{told}{why}");
        assert!(told.contains("as recorded\n") && !told.contains("not as"), "{told}");
        let unpaced = said.contains("the model does not wait for the clock");
        assert_eq!(unpaced, i != 1, "{said}");
        assert!(!told.contains("torn") && !told.contains(", 0 checks"), "{told}");
        let [all, answered, under_way] = inputs(&told);
        assert_eq!((answered, under_way), (all, 0), "{told}");
        tapes.push((tape, told));
    }
    // Twice the same, and not by chance.
    assert_eq!(replay(&tapes[0].0).1, tapes[0].1);
    assert_ne!(tapes[0].1, tapes[2].1);
}

/// Inputs of a replay: all, those that have an answer, and those that had none at the end.
fn inputs(told: &str) -> [u64; 3] {
    let number = |text: &str| text.trim().parse::<u64>().expect("a number");
    let all = number(told.split_once(" inputs, ").expect("inputs").0);
    let answered =
        told.lines().filter_map(|line| line.split_once("; p50")).map(|(row, _)| number(&row[5..]));
    let under_way = told.lines().find_map(|line| line.split_once("when the last one came: "));
    [all, answered.sum(), under_way.map_or(0, |(_, n)| number(n))]
}

#[test]
fn after_a_kill_it_is_replayed_to_the_last_whole_record() {
    let place = Place::new(SMALL);
    let tape = place.dir.path().join("a.tape");
    let server = place.start_with(&["--tape", tape.to_str().unwrap()]);
    work(&mut place.client(""), 7, 4000);
    wait_until("all is on the tape", || replay(&tape).1.starts_with("4000 inputs"));
    server.kill();
    let (status, told, why) = replay(&tape);
    assert_eq!(status, Some(0), "{told}{why}");
    assert!(told.starts_with("4000 inputs") && told.contains("the tape has no end"), "{told}");
    // In the middle of a record.
    let file = std::fs::OpenOptions::new().write(true).open(&tape).unwrap();
    let len = file.metadata().unwrap().len();
    file.set_len(len - 40 * 100 - 13).unwrap();
    let (status, told, _) = replay(&tape);
    assert_eq!(status, Some(0), "{told}");
    assert!(told.contains("the tape is torn: 27 bytes after its last whole record"), "{told}");
    assert!(told.contains("checks on the way"), "{told}");
    let [all, answered, under_way] = inputs(&told);
    assert!(answered + under_way == all && (1..=8).contains(&under_way), "{told}");
}

#[test]
fn reads_that_fail_for_their_bytes_are_on_the_tape() {
    let place = Place::new(SMALL);
    let server = place.start();
    let mut c = place.client("");
    for i in 0..40u64 {
        c.call(cmd::WRITE, 0, i << 20, 1 << 20, &vec![9; 1 << 20]).unwrap();
    }
    assert_eq!(server.stop().0, Some(0));
    // Every eighth page of data rots: some are repaired from parity, some are not.
    let file = std::fs::OpenOptions::new().read(true).write(true).open(place.image()).unwrap();
    let mut page = [0; 4096];
    for at in (1 << 20..file.metadata().unwrap().len()).step_by(8 * 4096) {
        file.read_exact_at(&mut page, at).unwrap();
        if page == [9; 4096] {
            file.write_all_at(b"rot", at).unwrap();
        }
    }
    let tape = place.dir.path().join("a.tape");
    let server = place.start_with(&["--tape", tape.to_str().unwrap()]);
    let mut c = place.client("");
    let mut errors = 0;
    for i in 0..400u64 {
        errors += c.call(cmd::READ, 0, i << 16, 64 << 10, &[]).unwrap().error;
        // The rest of a sector that cannot be read.
        errors += c.call(cmd::WRITE, 0, (i << 16) | 100, 100, &[1; 100]).unwrap().error;
    }
    assert!(errors > 0);
    let (_, said) = server.stop();
    let (status, told, why) = replay(&tape);
    assert_eq!(status, Some(0), "{said}{told}{why}");
    assert!(told.contains("\nas recorded\n"), "{told}");
}

/// Runs a program and says last the most memory, in KiB, that it had.
const PEAK: &str = "
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
";

/// The most memory that a replay has, in KiB, and what it told.
fn replay_watched(tape: &Path) -> (u64, String) {
    let mut command = program("python3");
    let command = command.args(["-c", PEAK]).arg(wordline().get_program());
    let out = command.args(["tape", "replay"]).arg(tape).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    let (told, peak) = text.trim_end().rsplit_once('\n').unwrap();
    (peak.parse().unwrap(), format!("{told}\n"))
}

#[test]
fn a_long_tape_takes_no_more_memory_than_a_short_one() {
    let place = Place::new(SMALL);
    let tape = place.dir.path().join("a.tape");
    let server = place.start_with(&["--tape", tape.to_str().unwrap()]);
    work(&mut place.client(""), 7, 3000);
    assert_eq!(server.stop().0, Some(0));
    let (short, told) = replay_watched(&tape);
    // With the last flush; a check before the first and each 1024 more; the end.
    assert!(told.starts_with("3001 inputs") && told.contains(", 3 checks on the way\n"), "{told}");
    let mut bytes = std::fs::read(&tape).unwrap();
    let records = bytes.split_off(bytes.len() - 40 * 3005);
    // The first check, before anything happened, holds as often as it is made.
    for _ in 0..1_500_000 {
        bytes.extend(&records[..40]);
    }
    bytes.extend(&records);
    std::fs::write(&tape, bytes).unwrap();
    let (long, told_of_long) = replay_watched(&tape);
    assert_eq!(told_of_long, told.replace(", 3 checks", ", 1500003 checks"));
    assert!(long < short + (8 << 10), "{long} KiB for 60 MB, {short} for 120 KB");
}

#[test]
fn what_is_no_tape_is_refused() {
    let place = Place::new(SMALL);
    let tape = place.dir.path().join("a.tape");
    let refused = |bytes: &[u8]| {
        let path = place.dir.path().join("b.tape");
        std::fs::write(&path, bytes).unwrap();
        let (status, _, why) = replay(&path);
        assert_eq!(status, Some(2), "{why}");
        why
    };
    assert_eq!(replay(&tape).0, Some(2));
    assert!(replay(place.dir.path()).2.contains("is no file, and is read more than once"));
    let server = place.start_with(&["--tape", tape.to_str().unwrap()]);
    work(&mut place.client(""), 7, 500);
    server.stop();
    let good = std::fs::read(&tape).unwrap();
    assert!(refused(b"").contains("is cut short before its first input"));
    assert!(refused(b"somebody's thesis").contains("is no tape"));
    assert!(refused(b"WLTAPE99 and more").contains("another version"));
    assert!(refused(&good[..1000]).contains("cut short before its first input"));
    for at in [9, 30, 300, 20_000] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        let why = refused(&bad);
        assert!(why.contains("is damaged") || why.contains("cut short"), "{at}: {why}");
    }
    let mut bad = good.clone();
    let middle = good.len() - 40 * 100;
    bad[middle] ^= 1;
    assert!(refused(&bad).contains("is not whole, and others follow"));
    // A tape that is there is not written over.
    let out = wordline().args(&place.args).arg("--tape").arg(&tape).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert_eq!(std::fs::read(&tape).unwrap(), good);
}
