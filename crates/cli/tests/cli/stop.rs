//! Ctrl-C and worse.

use super::place::{Place, Started, wait_until};
use rustix::process::Signal;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

const LONG: &str = "run --name=a --rw=randrw --iodepth=8 --time_based --runtime=100000s \
                    --device z-ssd-small --output-format=json";

fn bit(signal: Signal) -> u64 {
    1 << (signal.as_raw() - 1)
}

/// Waits until the program catches what ends it.
fn wait_for_handler(program: &mut Started) {
    let both = bit(Signal::INT) | bit(Signal::TERM);
    program.wait_until("it catches signals", |p| p.signals("SigCgt") & both == both);
}

/// Waits until a signal sent to the program is delivered: sent again before, it would be one.
fn wait_for_delivery(program: &mut Started, signal: Signal) {
    wait_until("the signal is delivered", || {
        program.signals("ShdPnd") & bit(signal) == 0 || program.is_over()
    });
}

#[test]
fn the_first_ctrl_c_stops_the_run_and_reports_it() {
    for signal in [Signal::INT, Signal::TERM] {
        let place = Place::new();
        let mut program = place.start(&format!("{LONG} --output out.json"));
        wait_for_handler(&mut program);
        // A small drive is made in a tenth of that.
        program.wait_until("the run has begun", |p| p.processor() > 50);
        assert_eq!(place.files(), [""; 0], "nothing is written while it runs");
        program.send(signal);
        let done = program.end().fails(1, &["interrupted: the report covers"]);
        assert_eq!(place.files(), ["out.json"], "{}", done.err);
        let result: serde_json::Value =
            serde_json::from_str(&place.text("out.json")).expect("JSON");
        assert_eq!(result["wordline"]["ended"], "interrupted");
        let machine = &result["wordline"]["machine"];
        assert_eq!(machine["generated"], machine["served"], "what was in flight is drained");
        assert!(machine["served"].as_u64() > Some(0));
    }
}

#[test]
fn ctrl_c_reports_the_repeats_that_are_complete() {
    let place = Place::new();
    let words = "run --name=a --rw=randread --number_ios=30000 --norandommap --device z-ssd-small --repeat 1000 \
                 --output-format json --output out.json --report r.html";
    let mut program = place.start(words);
    wait_for_handler(&mut program);
    // A repeat takes a tenth of that.
    program.wait_until("repeats are complete", |p| p.processor() > 150);
    program.send(Signal::INT);
    let done =
        program.end().fails(1, &["interrupted under seed", "of 1000 repeats that are complete"]);
    assert_eq!(place.files(), ["out.json", "r.html"], "{}", done.err);
    let result: serde_json::Value = serde_json::from_str(&place.text("out.json")).expect("JSON");
    let complete = result["repeats"].as_array().expect("repeats").len();
    assert!(complete > 1, "{complete}");
    let told =
        format!("interrupted under seed {}: the report covers the {complete} of", complete + 1);
    for words in [&result["ended"], &result["warnings"][0]] {
        assert!(words.as_str().is_some_and(|words| words.starts_with(&told)), "{words}");
    }
    assert!(place.text("r.html").contains(&told));
    // A page of the file says the same.
    place.run("report out.json -o again.html").ok();
    assert!(place.text("again.html").contains(&told));
    let mut one = place.start(&LONG.replace("=json", "=normal --repeat 3 --output out.txt"));
    wait_for_handler(&mut one);
    one.wait_until("the first has begun", |p| p.processor() > 50);
    one.send(Signal::INT);
    one.end().fails(1, &["interrupted under seed 1: none of 3 repeats is complete"]);
}

/// It waits for no drive that is prepared.
#[test]
fn ctrl_c_while_a_later_drive_is_prepared_reports_the_repeats_before() {
    let place = Place::new();
    let words = "run --name=a --rw=randread --number_ios=200 --device intel-750-400g --scale 1/8 --precondition steady \
                 --repeat 3 --output-format json --output out.json";
    let mut program = place.start(words);
    let kept = |place: &Place, end: &str| {
        let files = std::fs::read_dir(place.cache()).into_iter().flatten().flatten();
        files.filter(|file| file.path().extension().is_some_and(|e| e == end)).count()
    };
    // The first drive is kept, and the second one's place is taken while it is aged.
    program.wait_until("the second drive is aged", |_| {
        kept(&place, "drive") == 1 && kept(&place, "part") == 1
    });
    program.send(Signal::INT);
    let says = ["interrupted under seed 2: the report covers the 1 of 3 repeats that are complete"];
    program.end().fails(1, &says);
    assert_eq!(kept(&place, "drive"), 1, "it waited for the second drive");
    let result: serde_json::Value = serde_json::from_str(&place.text("out.json")).expect("JSON");
    assert_eq!(result["repeats"].as_array().map(Vec::len), Some(1));
    assert!(result["ended"].as_str().is_some_and(|words| words.starts_with(says[0])), "{result}");
    assert_eq!(place.files(), ["out.json"]);
}

#[test]
fn ctrl_c_while_a_drive_is_prepared_reports_nothing() {
    let place = Place::new();
    // Large enough to take its time.
    let words = LONG.replace("z-ssd-small", "intel-750-400g --precondition steady -o x");
    let mut program = place.start(&words);
    wait_for_handler(&mut program);
    program.send(Signal::INT);
    program.end().fails(1, &["before the run began"]);
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn the_second_ctrl_c_ends_the_program_at_once() {
    let place = Place::new();
    // A run that stops in the middle of writing: its timeline goes to a pipe nobody reads on from.
    use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
    mknodat(CWD, place.path("pipe"), FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
    let words = format!("{LONG} --limit 20ms --timeline pipe --output out.json");
    let mut program = place.start(&words);
    let mut options = std::fs::OpenOptions::new();
    let waits = OFlags::NONBLOCK.bits() as i32;
    let pipe = options.read(true).custom_flags(waits).open(place.path("pipe"));
    let mut pipe = pipe.expect("the pipe is opened");
    program.wait_until("it writes", |_| pipe.read(&mut [0]).is_ok_and(|n| n == 1));
    program.send(Signal::INT);
    wait_for_delivery(&mut program, Signal::INT);
    std::thread::sleep(Duration::from_millis(200));
    assert!(!program.is_over(), "the first lets it write");
    program.send(Signal::INT);
    assert_eq!(program.end().status, 130);
    assert_eq!(place.files(), ["pipe"]);
}

/// Starts it and waits until it writes a file, or has ended.
fn start_writing(place: &Place, words: &str) -> Started {
    let mut program = place.start(words);
    wait_until("it writes a file", || {
        place.files().iter().any(|name| name.starts_with(".wordline-")) || program.is_over()
    });
    program
}

#[test]
fn a_program_killed_while_writing_leaves_no_file_under_the_final_name() {
    let words = "run --name=a --rw=randread --iodepth=32 --number_ios=20000 --device z-ssd-small \
                 --timeline t.json";
    let whole = Place::new();
    whole.run(words).ok();
    let whole = whole.text("t.json").len();
    // Where it was not caught at it, once more.
    let in_time = (0..100).any(|_| {
        let place = Place::new();
        let mut program = start_writing(&place, words);
        program.send(Signal::KILL);
        program.end();
        let there = place.path("t.json").exists();
        assert!(!there || place.text("t.json").len() == whole, "a part under the whole's name");
        !there
    });
    assert!(in_time, "it was never caught while it wrote");
}

/// Many files, one after the other: wherever it is, none stays behind half.
#[test]
fn the_second_ctrl_c_leaves_no_temporary_file() {
    let words = "run --name=a --rw=randread --number_ios=100 --numjobs=60 --device z-ssd-small \
                 --write_lat_log=l --write_bw_log=b --write_iops_log=i";
    for round in 0..30u64 {
        let place = Place::new();
        let mut program = start_writing(&place, words);
        program.send(Signal::INT);
        wait_for_delivery(&mut program, Signal::INT);
        std::thread::sleep(Duration::from_micros(round * 97));
        program.send(Signal::INT);
        program.end();
        let left = place.files().into_iter().filter(|name| name.starts_with('.'));
        assert_eq!(left.collect::<Vec<_>>(), [""; 0], "round {round}");
    }
}
