//! No knob is parsed and does nothing: every configuration value, changed, moves some result of
//! some run, or is refused, or stands in a list with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use wordline_check::Case;
use wordline_check::scenarios::{programs, scenarios, servers};
use wordline_profile::{PathKind, paths, value_at};

/// Values that move nothing by their nature, with the reason.
const EXCUSED: &[(&str, &str)] = &[
    ("nand.faults.script", "a list of places to fail at; a test in rail.rs scripts each kind"),
    ("stack.fs.xfs.log_blocks", "a log that fills: the file system's own tests fill one"),
    ("stack.fs.xfs.log_buffer_bytes", "a checkpoint larger than a buffer: in the same tests"),
    ("nand.endurance", "wear is reported against it, at the precision of the text report"),
    (
        "nand.cell",
        "the number of page types: with a time for each another cell is refused, with one \
        time for all there is nothing to tell apart",
    ),
    ("app.size", "where the program's part ends: what does not fit is refused"),
    (
        "app.offset",
        "the FTL maps pages: where they are to the program makes no difference to flash",
    ),
    (
        "device.queues.weighted_urgent",
        "what the drive offers: without it weighted-urgent arbitration is refused, and all else is the same",
    ),
    (
        "device.cache.read_ahead.ghosts.penalty",
        "decides between degrees of nearly the same misses: the ghosts' own tests have both sides",
    ),
    ("device.cache.read_ahead.ghosts.hysteresis", "the same"),
    ("stack.md.sync_speed_max", "of rebuilding, which a topology asks for: a test in array.rs"),
    ("stack.cost.md.sync_request", "the same"),
    (
        "ftl.meta_lines",
        "bounds a backlog of metadata that these drives do not build up; the FTL's own \
        tests build one",
    ),
    (
        "ftl.fssd.lun_reads",
        "reads of a LUN that is known, of which these jobs have few at a time: the scheduler's own tests have \
        several",
    ),
    (
        "ftl.victim_window",
        "of windowed-greedy, a victim policy of which theory.rs of the FTL has both ends",
    ),
    ("stack.sfq.depth", "of sfq: a test in classes.rs has shares with few and with all"),
    ("nand.slc.endurance", "what `device check` says of the buffer's life"),
    (
        "ftl.firmware.idle_free",
        "the jobs' pauses end before an idle collector reaches any mark: the layer's own test has \
        both sides",
    ),
];

/// Other values to try for one setting.
fn variants(kind: PathKind, value: &str) -> Vec<String> {
    let number = || value.replace('_', "").parse::<f64>().unwrap_or(0.0);
    match kind {
        PathKind::Integer => {
            let n = number() as i64;
            [n * 2, n / 2, n + 1, n - 1, 1, 0, 64, 3_000_000, 100_000_000, 8192, 4096]
                .into_iter()
                .filter(|&v| v != n && v >= 0)
                .map(|v| v.to_string())
                .collect()
        }
        PathKind::Number => vec![format!("{:?}", number() * 0.7), format!("{:?}", number() * 1.3)],
        PathKind::Switch => vec![(value != "true").to_string()],
        PathKind::Time => vec!["0ns".into(), "23us".into(), "7ms".into(), "100ns".into()],
        PathKind::Times => vec!["[\"11us\", \"77us\"]".into(), "19us".into()],
        PathKind::Integers => vec!["[1, 1, 1]".into(), "[9, 3, 2]".into(), "[5, 3]".into()],
        PathKind::Word => [
            "slc",
            "ext4",
            "xfs",
            "bdev",
            "noatime",
            "strictatime",
            "ordered",
            "writeback",
            "journal",
            "mlc",
            "tlc",
            "host",
            "device",
            "drive",
            "greedy",
            "cost-benefit",
            "fifo",
            "dynamic",
            "static",
            "d-choices",
            "random",
            "round-robin",
            "weighted-urgent",
            "latency",
            "throughput",
            "hits",
            "missing-lines",
            "requests",
            "attribute",
            "queue",
            "pvsync2",
            "libaio",
            "null",
            "none",
            "all",
            "gc",
            "modulo",
            "skewed",
            "last-good",
            "fixed",
            "balanced",
            "gc-share",
            "shared",
            "own",
            "mq-deadline",
            "put",
            "merge",
            "buffered",
            "synced",
            "a",
            "f",
            "mlc-3x-nm",
            "mlc-2y-nm",
            "tlc-72-layer",
            "kyber",
            "bfq",
            "sfq",
            "io_uring",
            "spdk",
            "queued",
            "direct",
            "chworkload_attr",
            "itself",
            "waiting",
            "uncoordinated",
            "around",
            "passed",
            "menu",
            "teo",
            "windowed-greedy",
            "commands-first",
            "nbd-server",
            "unix",
            "ethernet",
            "0",
            "1",
        ]
        .into_iter()
        .filter(|v| *v != value)
        .map(String::from)
        .collect(),
        PathKind::Array => Vec::new(),
    }
}

/// What moved a result when it was looked for last: a run of a list, and the setting's value in it.
type Found = (usize, String);

/// What moved each setting last, which spares a search of minutes. Nothing hangs on it: a setting that is not in it, or whose
/// line moves nothing any more, is looked for.
/// `WORDLINE_KNOBS=record cargo test -p wordline-check --test check knobs::` writes it.
const FOUND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/knobs.txt");

/// The lines of one list of runs, by setting.
fn found_before(list: &str) -> BTreeMap<String, Found> {
    let text = std::fs::read_to_string(FOUND).unwrap_or_default();
    let line = |line: &str| {
        let [of, path, run, value] = line.splitn(4, '\t').collect::<Vec<_>>().try_into().ok()?;
        (of == list).then_some((path.to_string(), (run.parse().ok()?, value.to_string())))
    };
    text.lines().filter_map(line).collect()
}

/// Writes the lines of one list anew.
fn record(list: &str, found: &BTreeMap<String, Found>) {
    static FILE: Mutex<()> = Mutex::new(());
    let _file = FILE.lock();
    let text = std::fs::read_to_string(FOUND).unwrap_or_default();
    let others = text.lines().filter(|line| line.split('\t').next() != Some(list));
    let new = found.iter().map(|(path, (run, value))| format!("{list}\t{path}\t{run}\t{value}"));
    let mut lines: Vec<String> = others.map(String::from).chain(new).collect();
    lines.sort();
    std::fs::write(FOUND, lines.join("\n") + "\n").unwrap();
}

/// Whether one value of a setting moves the result of one run.
fn value_moves(case: &Case, baseline: &str, path: &str, value: &str) -> bool {
    let config = case.config().unwrap();
    if value_at(&config, path).is_none() {
        return false;
    }
    let other = case.clone().set(&format!("{path}={value}"));
    // A refused value is no proof that the setting does something.
    match other.config() {
        Ok(changed) if changed != config => {
            wordline_check::run(&other, &changed).is_ok_and(|o| o.numbers() != *baseline)
        }
        _ => false,
    }
}

/// Another value of a setting that moves the result of one run.
fn moves_in(case: &Case, baseline: &str, path: &str) -> Option<String> {
    let config = case.config().unwrap();
    let text = value_at(&config, path)?.to_string();
    let (_, kind) = paths(&config).into_iter().find(|(p, _)| p == path)?;
    let mut variants = variants(kind, text.trim_matches('"')).into_iter();
    variants.find(|value| value_moves(case, baseline, path, value))
}

/// Values below `app` are tried on programs, all others on jobs.
fn check(list: &str, scenarios: &[Case], of_programs: bool) {
    let (baselines, costs): (Vec<String>, Vec<Duration>) = scenarios
        .iter()
        .map(|case| {
            let begin = Instant::now();
            let result = case.run().unwrap_or_else(|e| panic!("{}: {e}", case.device)).numbers();
            (result, begin.elapsed())
        })
        .unzip();
    let mut settings = BTreeSet::new();
    for case in scenarios {
        let config = case.config().unwrap();
        settings.extend(paths(&config).into_iter().map(|(path, _)| path));
    }
    settings.retain(|path| path.starts_with("app.") == of_programs);
    settings.retain(|path| {
        // The keys of `--fs bdev` once more, which move results there.
        let once_more = path.starts_with("stack.nbd.cache.");
        !once_more && EXCUSED.iter().all(|(excused, _)| excused != path)
    });
    let recording = std::env::var("WORDLINE_KNOBS").is_ok_and(|v| v == "record");
    let before = if recording { BTreeMap::new() } else { found_before(list) };
    // What is recorded is the quickest run of those that a setting moves.
    let mut quickest: Vec<usize> = (0..scenarios.len()).collect();
    quickest.sort_by_key(|&n| costs[n]);
    // In a search neighbours mostly move the same run, so the settings of a part try runs in the order in which they were
    // moved last. The parts are the same on every machine.
    let settings: Vec<String> = settings.into_iter().collect();
    let parts = Mutex::new(settings.chunks(settings.len().div_ceil(8)));
    let (found, idle) = (Mutex::new(BTreeMap::new()), Mutex::new(Vec::new()));
    let take = || parts.lock().unwrap().next();
    std::thread::scope(|s| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            s.spawn(|| {
                while let Some(part) = take() {
                    let mut order = quickest.clone();
                    for path in part {
                        let known = before.get(path).filter(|(n, value)| {
                            *n < scenarios.len()
                                && value_moves(&scenarios[*n], &baselines[*n], path, value)
                        });
                        if known.is_some() {
                            continue;
                        }
                        let moved = order.iter().enumerate().find_map(|(at, &n)| {
                            Some((at, moves_in(&scenarios[n], &baselines[n], path)?))
                        });
                        match moved {
                            Some((at, value)) => {
                                found.lock().unwrap().insert(path.clone(), (order[at], value));
                                if !recording {
                                    order[..=at].rotate_right(1);
                                }
                            }
                            None => idle.lock().unwrap().push(path.clone()),
                        }
                    }
                }
            });
        }
    });
    if recording {
        record(list, &found.into_inner().unwrap());
    }
    let mut idle = idle.into_inner().unwrap();
    idle.sort();
    assert!(idle.is_empty(), "{} settings move no result: {idle:#?}", idle.len());
}

#[test]
fn every_configuration_value_moves_a_result() {
    check("jobs", &scenarios(), false);
}

#[test]
fn every_value_of_a_program_moves_a_result() {
    check("programs", &programs(), true);
}

#[test]
fn every_value_of_a_server_moves_a_result() {
    check("servers", &servers(), true);
}
