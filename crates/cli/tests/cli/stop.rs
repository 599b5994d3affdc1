//! Ctrl-C and worse.

use crate::place::Place;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const LONG: &str = "run --name=a --rw=randrw --iodepth=8 --time_based --runtime=100000s \
                    --device z-ssd-small --output-format=json";

fn start(place: &Place, words: &str) -> Child {
    place
        .command(&words.split_whitespace().collect::<Vec<_>>())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).expect("the program is there");
}

#[track_caller]
fn wait_until(mut what: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !what() {
        assert!(begun.elapsed() < Duration::from_secs(60), "waited in vain");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the program catches Ctrl-C, and a little for the run to begin.
fn wait_for_run(child: &Child) {
    let path = format!("/proc/{}/status", child.id());
    wait_until(|| {
        let status = std::fs::read_to_string(&path).unwrap_or_default();
        let caught = status.lines().find_map(|l| l.strip_prefix("SigCgt:")).unwrap_or("0");
        u64::from_str_radix(caught.trim(), 16).is_ok_and(|mask| mask & 2 != 0)
    });
    std::thread::sleep(Duration::from_millis(500));
}

#[test]
fn the_first_stops_and_reports() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let place = Place::new();
        let child = start(&place, &format!("{LONG} --output out.json"));
        wait_for_run(&child);
        assert_eq!(place.files(), [""; 0], "nothing is written while it runs");
        send(&child, signal);
        let done = child.wait_with_output().expect("it ends");
        assert_eq!(done.status.code(), Some(1));
        let err = String::from_utf8_lossy(&done.stderr);
        assert!(err.contains("interrupted: the report covers"), "{err}");
        assert_eq!(place.files(), ["out.json"]);
        let result: serde_json::Value =
            serde_json::from_str(&place.text("out.json")).expect("JSON");
        assert_eq!(result["wordline"]["ended"], "interrupted");
        let machine = &result["wordline"]["machine"];
        assert_eq!(machine["generated"], machine["served"], "what was in flight is drained");
        assert!(machine["served"].as_u64() > Some(0));
    }
}

#[test]
fn while_a_drive_is_prepared_there_is_nothing_to_report() {
    let place = Place::new();
    // Large enough to take its time.
    let child =
        start(&place, &LONG.replace("z-ssd-small", "intel-750-400g --precondition steady -o x"));
    wait_for_run(&child);
    send(&child, Signal::SIGINT);
    let done = child.wait_with_output().expect("it ends");
    assert_eq!(done.status.code(), Some(1));
    let err = String::from_utf8_lossy(&done.stderr);
    assert!(err.contains("before the run began"), "{err}");
    assert_eq!(place.files(), [""; 0]);
}

/// A run that stops in the middle of writing: its timeline goes to a pipe nobody reads.
fn stuck_in_writing(place: &Place) -> Child {
    nix::unistd::mkfifo(&place.path("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let child = start(place, &format!("{LONG} --limit 20ms --timeline pipe --output out.json"));
    wait_for_run(&child);
    child
}

#[test]
fn the_second_ends_at_once() {
    let place = Place::new();
    let mut child = stuck_in_writing(&place);
    send(&child, Signal::SIGINT);
    std::thread::sleep(Duration::from_millis(200));
    assert!(child.try_wait().expect("a status").is_none(), "the first lets it write");
    send(&child, Signal::SIGINT);
    let done = child.wait().expect("it ends");
    assert_eq!(done.code(), Some(130));
    assert_eq!(place.files(), ["pipe"]);
}

#[test]
fn killed_while_writing_leaves_nothing_under_the_name() {
    let place = Place::new();
    let words = "run --name=a --rw=randread --iodepth=32 --number_ios=100000 --device z-ssd-small \
                 --timeline t.json";
    let mut child = start(&place, words);
    wait_until(|| place.files().iter().any(|name| name.starts_with(".wordline-")));
    send(&child, Signal::SIGKILL);
    child.wait().expect("it ends");
    assert!(!place.path("t.json").exists());
    // And a second Ctrl-C in the same place tidies up.
    let place = Place::new();
    let mut child = start(&place, words);
    wait_until(|| place.files().iter().any(|name| name.starts_with(".wordline-")));
    send(&child, Signal::SIGINT);
    std::thread::sleep(Duration::from_millis(1));
    let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGINT);
    child.wait().expect("it ends");
    assert!(place.files().iter().all(|name| !name.starts_with('.')), "{:?}", place.files());
}
