//! Aged drives that are kept for later runs.

use super::place::{Done, Place};
use std::fs;
use std::path::PathBuf;

const JOB: &str = "run --name=a --rw=randrw --bs=4k --iodepth=4 --number_ios=400 --device cnex-small --scale 1/4 \
                   --output-format json+";
const AGED: &str = "note: the aged drive is from the cache";

fn run(place: &Place, more: &str) -> Done {
    place.run(&format!("{JOB} {more}")).ok()
}
fn is_used(done: &Done) -> bool {
    done.err.contains(AGED)
}
/// The files of the cache, in no order that says anything.
fn kept(place: &Place) -> Vec<PathBuf> {
    let Ok(files) = fs::read_dir(place.cache()) else { return Vec::new() };
    files.map(|file| file.expect("a file").path()).collect()
}

#[test]
fn a_second_run_begins_with_the_drive_of_the_first_and_has_its_result() {
    for how in [
        "--precondition steady",
        "--precondition random --ftl rail-hc",
        "--precondition paced --rate_iops=20k",
        "--precondition random --no-integrity --set ftl.victim=random",
        "--precondition steady --device fssd-small",
        "--precondition random --ftl firmware",
        "--precondition steady --app rocksdb-readwhilewriting --set app.lsm.keys=20000 --set app.runtime=5ms \
         --set ftl.over_provisioning=30",
    ] {
        let place = Place::new();
        let without = run(&place, &format!("{how} --no-cache"));
        assert!(kept(&place).is_empty(), "{how}");
        let first = run(&place, how);
        assert_eq!(kept(&place).len(), 1, "{how}: {}", first.err);
        let second = run(&place, how);
        assert_eq!([&without, &first, &second].map(is_used), [false, false, true], "{how}");
        assert!(without.out == first.out && first.out == second.out, "{how}");
        assert_eq!(without.err, first.err, "{how}");
        let quiet = run(&place, &format!("{how} --quiet"));
        assert!(quiet.out == first.out && !is_used(&quiet), "{how}: {}", quiet.err);
    }
}

#[test]
fn a_drive_is_known_by_all_that_ages_it_and_by_nothing_else() {
    let place = Place::new();
    let aged = "--precondition steady";
    run(&place, aged);
    // What runs on it, and where.
    for same in
        ["--iodepth=8", "--number_ios=300", "--stack linux-io_uring", "--set nand.t_read=70us"]
    {
        let done = run(&place, &format!("{aged} {same}"));
        assert_eq!(is_used(&done), !same.contains("nand"), "{same}: {}", done.err);
    }
    for other in [
        "--precondition random",
        "--precondition steady --seed 2",
        "--precondition steady --set ftl.over_provisioning=31",
        "--precondition steady --bs=8k",
        "--precondition steady --no-integrity",
        "--precondition steady --ftl rail",
        "--precondition steady --scale 1/2",
    ] {
        let done = run(&place, other);
        assert!(!is_used(&done), "{other}: {}", done.err);
    }
    let before = kept(&place).len();
    assert_eq!(before, 9);
    // Nothing to keep: ready at once, or of several drives, or it cannot be told.
    for not in ["--precondition none", "--precondition fill", "--drives 2 --precondition steady"] {
        run(&place, not);
        assert_eq!(kept(&place).len(), before, "{not}");
    }
}

#[test]
fn a_state_that_is_saved_and_loaded_is_the_same_with_the_cache() {
    let place = Place::new();
    run(&place, "--precondition steady --save-state a.state");
    let again = run(&place, "--precondition steady --save-state b.state");
    assert!(is_used(&again));
    assert!(fs::read(place.path("a.state")).unwrap() == fs::read(place.path("b.state")).unwrap());
    let loaded = run(&place, "--load-state b.state");
    assert!(!is_used(&loaded), "{}", loaded.err);
}

#[test]
fn a_damaged_drive_is_told_removed_and_made_anew() {
    let place = Place::new();
    let first = run(&place, "--precondition steady");
    let [path] = &kept(&place)[..] else { panic!("one is kept") };
    let whole = fs::read(path).unwrap();
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    let n = whole.len();
    let longer = [&whole[..], b"more"].concat();
    let cases =
        [Vec::new(), whole[..n - 1].to_vec(), flipped(20), flipped(n / 2), flipped(n - 1), longer];
    for (i, bytes) in cases.into_iter().enumerate() {
        fs::write(path, bytes).unwrap();
        let list = place.run("cache list").ok();
        assert_eq!(list.out.contains("damaged"), i == 0 || i == 2, "{i}: {}", list.out);
        let anew = run(&place, "--precondition steady");
        assert!(anew.err.contains("cannot be used") && !is_used(&anew), "{i}: {}", anew.err);
        assert!(anew.out == first.out, "{i}");
        assert!(fs::read(path).unwrap() == whole, "{i}");
    }
    // Another drive under its name.
    run(&place, "--precondition steady --seed 2");
    let other = kept(&place).into_iter().find(|p| p != path).expect("a second one");
    fs::copy(&other, path).unwrap();
    let anew = run(&place, "--precondition steady");
    assert!(anew.err.contains("another way") && anew.out == first.out, "{}", anew.err);
}

#[test]
fn processes_that_need_the_same_drive_at_once_have_it_once() {
    let place = Place::new();
    let words = |i: u32| format!("{JOB} --precondition steady --output {i}.json");
    let all: Vec<_> = (0..4).map(|i| place.start(&words(i))).collect();
    let all: Vec<Done> = all.into_iter().map(|one| one.end().ok()).collect();
    let result = |i: u32| place.text(&format!("{i}.json"));
    assert!((1..4).all(|i| result(i) == result(0)));
    assert_eq!(
        all.iter().filter(|done| !is_used(done)).count(),
        1,
        "one aged it, the others waited"
    );
    assert_eq!(kept(&place).len(), 1);
}

#[test]
fn the_drive_unused_for_longest_leaves_the_cache_first() {
    let place = Place::new();
    let with = |seed: u32, size: &str| {
        is_used(&run(&place, &format!("--precondition steady --seed {seed} --cache-size {size}")))
    };
    assert!(!with(1, "20G"));
    let of_one = kept(&place)[0].metadata().unwrap().len();
    let two = (of_one * 5 / 2).to_string();
    assert!(!with(2, &two));
    assert!(with(1, &two));
    assert!(!with(3, &two), "the third has no room beside both");
    assert_eq!(kept(&place).len(), 2);
    assert!(with(1, &two), "used after the second");
    assert!(!with(2, &two));
    let small = run(&place, &format!("--precondition steady --seed 9 --cache-size {}", of_one / 2));
    assert!(
        small.err.contains("is not kept") && small.err.contains("--cache-size"),
        "{}",
        small.err
    );
    assert_eq!(kept(&place).len(), 2, "nothing is left of it");
    place.run(&format!("{JOB} --cache-size many")).fails(2, &["--cache-size", "many"]);
}

#[test]
fn a_cache_that_cannot_be_written_is_a_note() {
    let place = Place::new();
    let want = run(&place, "--precondition steady --no-cache");
    let line = |before: &str| format!("{before}$W {JOB} --precondition steady");
    place.file("file", "");
    for (before, why) in [
        ("XDG_CACHE_HOME=$PWD/file ", "Not a directory"),
        ("XDG_CACHE_HOME=/proc/none ", ""),
        ("ulimit -f 8; ", "File too large"),
    ] {
        let done = place.shell(&line(before)).ok();
        assert!(done.out == want.out, "{before}");
        assert!(
            done.err.contains("is not kept") && done.err.contains(why),
            "{before}: {}",
            done.err
        );
        assert!(kept(&place).is_empty(), "{before}: {:?}", kept(&place));
    }
    // Without a place there is no cache, and nothing to say.
    let nowhere = place.shell(&line("unset XDG_CACHE_HOME; HOME= ")).ok();
    assert_eq!((nowhere.err, nowhere.out), (want.err, want.out));
    let path = "unset XDG_CACHE_HOME; HOME= $W cache path";
    place.shell(path).fails(2, &["XDG_CACHE_HOME"]);
}

#[test]
fn the_cache_is_listed_and_cleared() {
    let place = Place::new();
    let folder = place.cache();
    assert_eq!(place.run("cache path").ok().out.trim(), folder.to_str().unwrap());
    assert_eq!(place.run("cache list").ok().out.lines().last(), Some("0 aged drives, 0.0 KiB"));
    place.run("cache clear").ok();
    run(&place, "--precondition steady");
    run(&place, "--precondition random --ftl rail");
    let list = place.run("cache list").ok().out;
    for part in ["cnex-small", "pblk", "rail", "steady", "random", "ago", "2 aged drives"] {
        assert!(list.contains(part), "no {part}: {list}");
    }
    // What a process left that was killed while it wrote.
    fs::write(folder.join("0.part"), "half").unwrap();
    let clear = place.run("cache clear").ok();
    assert!(clear.err.contains("removed 2 aged drives"), "{}", clear.err);
    assert!(kept(&place).is_empty());
    let anew = run(&place, "--precondition steady");
    assert!(!is_used(&anew));
}

const STUDY: &str = r#"
[study]
title = "Reads beside a writer"
shows = "a test"
source = "nowhere, 1"

[base]
device = "cnex-small"
precondition = "steady"
set = ["nand.blocks=64"]
job = "[a]\nrw=randrw\nbs=4k\niodepth=${depth}\nnumber_ios=300"

[[axis]]
name = "drive"
[[axis.value]]
name = "tight"
[[axis.value]]
name = "roomy"
set = ["ftl.over_provisioning=40"]
[[axis]]
name = "depth"
values = [1, 4]

[[metric]]
name = "p99"
path = "jobs.a.read.clat_ns.p99"
"#;

#[test]
fn studies_begin_with_drives_of_the_cache() {
    for precondition in ["steady", "paced"] {
        let place = Place::new();
        place.file("s.toml", STUDY.replace("steady", precondition));
        let run = |out: &str, more: &str| {
            place.run(&format!("study run s.toml --jobs 1 --out {out} {more}")).ok()
        };
        let without = run("a", "--no-cache");
        assert!(kept(&place).is_empty());
        let (first, second) = (run("b", ""), run("c", ""));
        let used = |done: &Done| done.err.matches(AGED).count();
        assert_eq!([&without, &first, &second].map(used), [0, 0, 2], "{}", second.err);
        assert!(without.out == first.out && first.out == second.out);
        let csv = |out: &str| place.text(&format!("{out}/s.csv"));
        assert!(csv("a") == csv("b") && csv("b") == csv("c"));
        assert!(!is_used(&run("d", "--quiet")));
    }
}
