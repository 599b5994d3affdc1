//! Drives that are aged by the writes of a trace.

use super::place::{Done, Place, float, int};
use serde_json::Value;

const COLUMNS: &str = "--columns time=1:us,op=2,offset=3:byte,size=4:byte --output-format=json";
const SMALL: &str = "--device z-ssd-small --scale 1/4";

/// Requests so many microseconds apart: writes to places in the first MiBs, and reads everywhere.
fn hot(mib: u64, gap: u64) -> String {
    let place = |i: u64, of: u64| (i * 7_919 % (of * 256)) * 4096;
    let line = |i: u64| {
        let at = i * gap;
        format!("{at},w,{},4096\n{},r,{},4096\n", place(i, mib), at + gap / 2, place(i * 31, 1_000))
    };
    (0..2_000).map(line).collect()
}

fn replay(place: &Place, more: &str) -> Done {
    place.run(&format!("replay t.csv {COLUMNS} {SMALL} {more}")).ok()
}
fn prepared(result: &Value) -> String {
    result["wordline"]["prepared"].as_str().expect("a state").into()
}
/// Write amplification that the drive was aged to, as its state has it.
fn aged_at(result: &Value) -> f64 {
    let state = prepared(result);
    let at = state.split("steady, at ").nth(1).and_then(|rest| rest.split(' ').next());
    at.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no figure in {state}"))
}
fn notes(result: &Value) -> String {
    result["wordline"]["notes"].to_string()
}

#[test]
fn a_trace_ages_the_drive_with_its_own_writes_as_jobs_do() {
    let place = Place::new();
    let job = |size: &str| {
        place.json(&format!(
            "--name=w --rw=randwrite --bs=4k --size={size} --norandommap --number_ios=2000 \
             --rate_iops=10k --precondition steady {SMALL}"
        ))
    };
    place.file("t.csv", hot(8, 100));
    let (narrow, as_job) = (replay(&place, "--precondition steady").json(), job("8m"));
    // What is written in 8 MiB alone leaves whole lines stale.
    assert!(aged_at(&narrow) < 1.05 && aged_at(&as_job) < 1.05);
    let run = float(&narrow, "/wordline/machine/write_amplification/factor");
    assert!(run < 1.1, "{run}");
    assert!(notes(&narrow).contains("the trace writes 8.2 MB"), "{}", notes(&narrow));
    // A job that reads the same trace is the same.
    let log: String = hot(8, 100)
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split(',').collect();
            let action = if words[1] == "w" { "write" } else { "read" };
            format!("{} /dev/a {action} {} {}\n", words[0], words[2], words[3])
        })
        .collect();
    place.file("t.log", format!("fio version 3 iolog\n0 /dev/a add\n0 /dev/a open\n{log}"));
    let of_job = place.json(&format!(
        "--name=a --read_iolog=t.log --ioengine=libaio --iodepth=64 --precondition steady {SMALL}"
    ));
    assert_eq!(prepared(&of_job), prepared(&narrow));
    // Always the same places all over the drive: what is stale in its old lines stays there.
    place.file("t.csv", hot(1_400, 100));
    let wide = replay(&place, "--precondition steady --wrap").json();
    assert!(aged_at(&wide) < 1.1, "{}", aged_at(&wide));
}

#[test]
fn a_state_says_where_uniform_writes_made_it() {
    let place = Place::new();
    let reads: String = (0..200).map(|i| format!("{},r,{},4096\n", i * 10, i * 8192)).collect();
    place.file("t.csv", reads);
    let none = replay(&place, "--precondition steady").json();
    assert!(prepared(&none).contains("overwritten uniformly at random"), "{}", prepared(&none));
    assert!(notes(&none).contains("the trace has no writes"), "{}", notes(&none));
    // What can be read once is not known before the run.
    let line = format!("cat t.csv | $W replay - {COLUMNS} {SMALL} --precondition steady");
    let piped = place.shell(&line).ok().json();
    assert!(prepared(&piped).contains("uniformly at random"), "{}", prepared(&piped));
    assert!(aged_at(&piped) > 1.3, "{}", aged_at(&piped));
    assert!(notes(&piped).contains("can be read once"), "{}", notes(&piped));
    let program = "--app rocksdb-readwhilewriting --set app.lsm.keys=20000 --set app.runtime=5ms";
    let program =
        place.json(&format!("{program} --precondition steady --device cnex-small --scale 1/4"));
    assert!(prepared(&program).contains("uniformly at random"), "{}", prepared(&program));
    assert!(notes(&program).contains("what a program writes"), "{}", notes(&program));
    let writer = place
        .json(&format!("--name=w --rw=randwrite --number_ios=100 --precondition steady {SMALL}"));
    assert!(prepared(&writer).contains("then overwritten until"), "{}", prepared(&writer));
}

#[test]
fn a_drive_is_aged_at_the_pace_of_a_trace() {
    let place = Place::new();
    let device = "--device cnex-small --scale 1/4 --wrap --precondition paced";
    let at = |gap: u64, more: &str| {
        place.file("t.csv", hot(13_000, gap));
        let done = place.run(&format!("replay t.csv {COLUMNS} {device} {more}")).ok();
        let state = prepared(&done.json());
        assert!(state.contains("until the collector kept pace"), "{state}");
        let figure = state.split("write amplification ").nth(1).expect("a figure");
        figure.split(' ').next().and_then(|n| n.parse::<f64>().ok()).expect("a number")
    };
    // pblk's collector does not wait for a slow writer: it takes lines that are still nearly full.
    let (slow, fast) = (at(4_000, ""), at(20, ""));
    assert!(slow > 2.0 * fast, "{slow} {fast}");
    assert_eq!(at(20, "--time-scale 200"), slow, "the times that count are those of the replay");
}

#[test]
fn a_kept_drive_is_known_by_the_writes_of_its_trace() {
    let place = Place::new();
    place.file("t.csv", hot(8, 100));
    let uses = |more: &str| {
        let done = replay(&place, &format!("--precondition steady {more}"));
        done.err.contains("from the cache")
    };
    assert!(!uses("") && uses(""));
    assert!(uses("--time-scale 0.5"), "the order is the same");
    assert!(uses("--wrap") && uses("--align round"), "nothing is moved or rounded");
    place.file("t.csv", hot(8, 50));
    assert!(uses(""), "the same writes at other times");
    place.file("t.csv", hot(9, 100));
    assert!(!uses(""), "other places");
    place.file("t.csv", hot(8, 100).replacen(",w,0,", ",r,0,", 1));
    assert!(!uses(""), "a write less");
}

/// Three FTLs, each slower than the one before, on a trace that is too fast for all of them.
#[test]
fn no_machine_is_too_slow_to_be_told_late() {
    let place = Place::new();
    let lines: String = (0..9_000u64)
        .map(|i| {
            let (op, at) = if i % 3 == 0 { ("r", i * 15_013) } else { ("w", i * 7_919) };
            format!("{},{op},{},16384\n", i * 15, at % 400_000 * 4096)
        })
        .collect();
    place.file("t.csv", lines);
    let device = "--device cnex-small --scale 1/4 --wrap";
    for ftl in ["pblk", "rail", "tinytail"] {
        let line = format!("replay t.csv {COLUMNS} {device} --ftl {ftl} --precondition random");
        let result = place.run(&line).ok().json();
        let warnings = result["wordline"]["warnings"].to_string();
        assert!(warnings.contains("did not keep the times of its trace"), "{ftl}: {warnings}");
        // Slower than that, what is in flight may grow to the end while nothing is late.
        let slower = place.run(&format!("{line} --time-scale 3")).ok().json();
        let warnings = slower["wordline"]["warnings"].to_string();
        let told =
            warnings.contains("the longer its latencies") || warnings.contains("did not keep");
        assert!(told, "{ftl}: {warnings}");
    }
}

#[test]
fn a_replay_is_repeated_under_several_seeds() {
    let place = Place::new();
    place.file("t.csv", hot(8, 100));
    let line = format!("replay t.csv --columns time=1:us,op=2,offset=3:byte,size=4:byte {SMALL}");
    let text = place.run(&format!("{line} --precondition fill --repeat 2")).ok();
    assert!(text.out.contains("2 runs, seeds 1, 2"), "{}", text.out);
    let result = place
        .run(&format!("{line} --precondition fill --repeat 3 --output-format json"))
        .ok()
        .json();
    assert_eq!(result["repeats"].as_array().map(Vec::len), Some(3));
    assert_eq!(int(&result, "/repeats/2/wordline/provenance/seed"), 3);
    let piped = place.shell(&format!("cat t.csv | $W {} --repeat 2", line.replace("t.csv", "-")));
    piped.fails(2, &["--repeat", "can be read once"]);
}

/// Of few requests a far percentile is the slowest one, whichever it was.
#[test]
fn no_percentile_is_told_that_nothing_lies_beyond() {
    let place = Place::new();
    place.file("t.csv", hot(8, 100));
    let text = place
        .run(&format!("replay t.csv --columns time=1:us,op=2,offset=3:byte,size=4:byte {SMALL}"))
        .ok();
    let from = text.out.find("lateness").expect("the line");
    let line: String = text.out[from..].lines().take(5).collect::<Vec<_>>().join(" ");
    assert!(!line.contains("99.99%") && line.contains("99.9%"), "{line}");
}
