//! What a user does.

use super::place::{Place, float, int};
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

const MIXED: &str = "\
[global]
bs=4k
iodepth=8
number_ios=400
[readers]
rw=randread
numjobs=2
group_reporting
[writer]
rw=randwrite
";

#[test]
fn the_first_commands_work_on_every_drive() {
    let place = Place::new();
    place.file("job.fio", MIXED);
    for device in ["cnex-small", "z-ssd-small", "intel-750-small"] {
        for stack in ["linux-libaio", "linux-pvsync2", "linux-io_uring", "none"] {
            if (device, stack) == ("cnex-small", "none") {
                continue; // its FTL is on the host
            }
            let done = place
                .run(&format!(
                    "run job.fio --device {device} --ftl pblk --stack {stack} --seed 1 \
                     --precondition fill"
                ))
                .ok();
            for part in ["readers: (groupid=0", "writer: (groupid=0", "where the time went", device]
            {
                assert!(done.out.contains(part), "{part}:\n{}", done.out);
            }
            assert!(done.out.contains("1200 I/Os generated = served"), "{}", done.out);
            assert_eq!(done.err, "", "{device} {stack}");
        }
    }
    let aged = place.run("run job.fio --device z-ssd-small --precondition steady --slowest 2").ok();
    assert!(aged.out.contains("precondition steady"), "{}", aged.out);
    assert!(aged.err.is_empty(), "{}", aged.err);
}

#[test]
fn the_command_line_form_of_fio() {
    let place = Place::new();
    place.file("job.fio", "[fromfile]\nrw=randread\nbs=8k\nnumber_ios=50\n");
    let total = |words: &str| {
        let result = place.json(&format!("{words} --device z-ssd-small"));
        let jobs = result["jobs"].as_array().expect("jobs").len();
        (jobs, int(&result, "/jobs/0/read/total_ios"), int(&result, "/jobs/0/read/io_bytes"))
    };
    // Both ways to give a value, one minus, options before the first name, a file after a flag.
    for words in [
        "--name=a --rw=randread --bs=4k --iodepth=32 --number_ios=100",
        "--name a --rw randread --bs 4k --iodepth 32 --number_ios 100",
        "-name=a -rw=randread -number_ios=100",
        "--rw=randread --number_ios=100 --name=a",
        "--readwrite randread --number_i 100 --name a",
        "--name=a --rw=randread --number_ios=100 --time_based=0",
    ] {
        assert_eq!(total(words), (1, 100, 409_600), "{words}");
    }
    assert_eq!(total("--time_based job.fio --runtime=2ms").0, 1);
    assert_eq!(total("--group_reporting job.fio"), (1, 50, 409_600));
    assert_eq!(total("--norandommap job.fio --name=a --size=64k"), (2, 16, 65_536));
    assert_eq!(total("job.fio job.fio"), (2, 50, 409_600));
    let two = "--name=a --rw=randread --number_ios=10 --name=b --rw=read --size=1m";
    assert_eq!(total(two), (2, 10, 40_960));
    let timed =
        place.json("--name=a --rw=randread --runtime=5ms --time_based --device z-ssd-small");
    let ns = int(&timed, "/wordline/machine/simulated_ns");
    assert!((5_000_000..6_000_000).contains(&ns), "{ns}");
}

#[test]
fn jobs_from_standard_input_and_of_chosen_sections() {
    let place = Place::new();
    place.file("job.fio", MIXED);
    let names = |value: &Value| -> Vec<String> {
        let jobs = value["jobs"].as_array().expect("jobs");
        jobs.iter().map(|j| j["jobname"].as_str().expect("a name").to_string()).collect()
    };
    let json = "--device z-ssd-small --output-format=json";
    let piped = place.shell(&format!("$W run - {json} < job.fio")).ok();
    assert_eq!(names(&piped.json()), ["readers", "writer"]);
    let command = place.shell("$W run - --showcmd --section=writer < job.fio").ok().out;
    assert!(command.contains("--name=writer --rw=randwrite"), "{command}");
    let one = place.json("job.fio --section writer --device z-ssd-small");
    assert_eq!(names(&one), ["writer"]);
    let both = place.json("--section=writer job.fio --section readers --device z-ssd-small");
    assert_eq!(names(&both), ["readers", "writer"]);
    place.run("run job.fio --section reader").fails(2, &["no job section is named 'reader'"]);
}

#[test]
fn the_same_command_gives_the_same_bytes() {
    let place = Place::new();
    place.file("job.fio", MIXED);
    let words = "run job.fio --device cnex-small --precondition steady --seed 3 --slowest 3 \
                 --output-format json+,normal,terse --write_lat_log=l --log_avg_msec=1 \
                 --timeline t.json";
    let first = place.run(words).ok();
    let files = |place: &Place| -> Vec<(String, String)> {
        place.files().into_iter().map(|name| (name.clone(), place.text(&name))).collect()
    };
    let before = files(&place);
    assert!(before.len() > 8, "{:?}", place.files());
    // Also when the wall clock is looked at, and into a file.
    let second = place.run(&format!("{words} --wall-clock")).ok();
    assert_eq!(first.out, second.out);
    assert_eq!(before, files(&place));
    assert!(second.err.contains("of wall time"), "{}", second.err);
    assert!(!second.out.contains("wall"), "wall-clock figures in the result");
    place.run(&format!("{words} -o out.txt")).ok();
    assert_eq!(place.text("out.txt"), first.out);
    let other = place.run(&words.replace("--seed 3", "--seed 4")).ok();
    assert_ne!(first.out, other.out);
}

#[test]
fn a_result_says_what_was_run() {
    let place = Place::new();
    let result = place.json(
        "--name=a --rw=randread --number_ios=10 --device z-ssd-small --stack linux-pvsync2 \
         --testbed i7-4790k --seed 42 --set nand.t_read=4us --set stack.merge=false",
    );
    let about = &result["wordline"]["provenance"];
    for (key, value) in [
        ("version", env!("CARGO_PKG_VERSION")),
        ("device", "z-ssd-small"),
        ("ftl", "firmware"),
        ("stack", "linux-pvsync2"),
        ("testbed", "i7-4790k"),
        ("workload", "--name=a --rw=randread --number_ios=10"),
        ("precondition", "fill"),
    ] {
        assert_eq!(about[key], value, "{key}");
    }
    assert_eq!(about["seed"], 42);
    assert_eq!(about["overrides"], serde_json::json!(["nand.t_read=4us", "stack.merge=false"]));
    assert_eq!(result["wordline"]["ended"], "complete");
    let version = result["fio version"].as_str().expect("a version");
    assert!(version.starts_with("fio-3.33-wordline-"), "{version}");
}

#[test]
fn an_override_moves_the_result() {
    let place = Place::new();
    let mean = |set: &str| {
        let result = place.json(&format!(
            "--name=a --rw=randread --number_ios=300 --device z-ssd-small --precondition fill {set}"
        ));
        float(&result, "/jobs/0/read/clat_ns/mean")
    };
    let (fast, slow) = (mean(""), mean("--set nand.t_read=103us"));
    assert!(slow - fast > 90_000.0, "{fast} {slow}");
}

#[test]
fn jobs_run_on_the_engine_of_the_stack() {
    let place = Place::new();
    let job = "--name=a --rw=randread --iodepth=16 --number_ios=400 --device z-ssd-small \
               --precondition fill";
    let depth = |words: &str| {
        let result = place.json(&format!("{job} {words}"));
        let notes = result["wordline"]["notes"].to_string();
        assert!(result.get("global options").is_none(), "{result}");
        (float(&result, "/jobs/0/iodepth_level/16") > 50.0, notes.contains("iodepth does nothing"))
    };
    assert_eq!(depth(""), (true, false));
    assert_eq!(depth("--stack none"), (true, false));
    assert_eq!(depth("--stack linux-pvsync2"), (false, true));
    assert_eq!(depth("--stack linux-pvsync2 --ioengine=libaio"), (true, false));
    assert_eq!(depth("--ioengine=psync"), (false, true));
    // A job file's globals show as they are written.
    place.file("job.fio", "[global]\nbs=8k\n[a]\nrw=read\nnumber_ios=3\n");
    let result = place.json("job.fio --device z-ssd-small");
    assert_eq!(result["global options"], serde_json::json!({"bs": "8k"}));
}

#[test]
fn each_output_format_has_its_notes() {
    let place = Place::new();
    let job = "run --name=a --rw=randread --number_ios=20 --device z-ssd-small --mem=malloc";
    let normal = place.run(job).ok();
    assert!(normal.out.contains("option 'mem' has no meaning here"), "{}", normal.out);
    assert_eq!(normal.err, "");
    for format in ["json", "json+", "terse"] {
        let done = place.run(&format!("{job} --output-format={format}")).ok();
        assert_eq!(done.err.matches("note: option 'mem' has no meaning").count(), 1, "{format}");
        if format != "terse" {
            assert_eq!(int(&done.json(), "/jobs/0/read/total_ios"), 20);
            let bins = done.json().pointer("/jobs/0/read/clat_ns/bins").is_some();
            assert_eq!(bins, format == "json+");
        } else {
            assert!(done.out.starts_with("3;fio-3.33"), "{}", done.out);
        }
        assert_eq!(place.run(&format!("{job} --output-format={format} -q")).ok().err, "");
    }
    let both = place.run(&format!("{job} --output-format json+,normal --output out.txt")).ok();
    assert_eq!(both.out, "");
    assert!(both.err.contains("note: option 'mem'"), "{}", both.err);
    let text = place.text("out.txt");
    assert!(text.starts_with('{') && text.contains("\n}\n") && text.contains("IOPS="), "{text}");
    let same = place.run(&format!("{job} --output-format=normal,normal")).ok();
    assert_eq!(same.out, normal.out);
}

#[test]
fn the_slowest_are_told_step_by_step() {
    let place = Place::new();
    let job = "run --name=a --rw=randread --number_ios=200 --iodepth=8 --device z-ssd-small \
               --precondition fill --slowest 3";
    let normal = place.run(job).ok();
    let told = &normal.out[normal.out.find("#1 read of 4096 bytes").expect("the slowest")..];
    assert!(told.lines().count() > 6, "{told}");
    let json = place.run(&format!("{job} --output-format json")).ok();
    json.json();
    assert!(json.err.contains("#1 read of 4096 bytes"), "{}", json.err);
    let quiet = place.run(&format!("{job} --output-format json --output out.json --quiet")).ok();
    assert!(!quiet.err.contains("read of 4096 bytes"), "{}", quiet.err);
}

/// The rules of Chrome's trace event format (documents "Trace Event Format" and Perfetto's on JSON)
/// that a reader relies on. Times in nanoseconds.
fn check_trace_events(trace: &Value) {
    let ns = |e: &Value, key: &str| {
        let us = e[key].as_f64().unwrap_or_else(|| panic!("{key} is no number: {e}"));
        assert!(us >= 0.0, "{e}");
        (us * 1_000.0).round() as u64
    };
    let ids = |e: &Value| {
        let id = |key: &str| e[key].as_u64().unwrap_or_else(|| panic!("no {key}: {e}"));
        let (pid, tid) = (id("pid"), id("tid"));
        // Readers keep 32 bits; pid 0 and tid 0 are the kernel's and the idle thread.
        assert!((1..1 << 32).contains(&pid) && (1..1 << 32).contains(&tid), "{e}");
        (pid, tid)
    };
    let (mut processes, mut threads) = (BTreeSet::new(), BTreeSet::new());
    let mut open: BTreeMap<(u64, String, String), (u64, String)> = BTreeMap::new();
    let mut closed = BTreeSet::new();
    let mut rows: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
    let mut used = BTreeSet::new();
    for e in trace["traceEvents"].as_array().expect("events") {
        let (pid, tid) = ids(e);
        let name = e["name"].as_str().unwrap_or_else(|| panic!("no name: {e}"));
        assert!(!name.is_empty() && (e["args"].is_null() || e["args"].is_object()), "{e}");
        match e["ph"].as_str() {
            Some("M") => match name {
                "process_name" => {
                    assert!(e["args"]["name"].is_string() && processes.insert(pid), "{e}");
                }
                "thread_name" => {
                    assert!(e["args"]["name"].is_string() && threads.insert((pid, tid)), "{e}");
                }
                "process_sort_index" | "thread_sort_index" => {
                    assert!(e["args"]["sort_index"].is_u64(), "{e}");
                }
                _ => panic!("unknown metadata: {e}"),
            },
            Some("X") => {
                let at = ns(e, "ts");
                rows.entry((pid, tid)).or_default().push((at, at + ns(e, "dur")));
                used.insert((pid, tid));
            }
            // Nestable asynchronous events are matched by process, category and id.
            Some(ph @ ("b" | "e")) => {
                let text = |key: &str| e[key].as_str().unwrap_or_else(|| panic!("no {key}: {e}"));
                let key = (pid, text("cat").to_string(), text("id").to_string());
                let at = ns(e, "ts");
                used.insert((pid, tid));
                if ph == "b" {
                    assert!(!closed.contains(&key), "an id used twice: {e}");
                    assert!(open.insert(key, (at, name.to_string())).is_none(), "{e}");
                } else {
                    let (begin, begun) = open.remove(&key).unwrap_or_else(|| panic!("{e}"));
                    assert!(begun == name && begin <= at, "{e}");
                    closed.insert(key);
                }
            }
            _ => panic!("no phase that is written: {e}"),
        }
    }
    assert!(open.is_empty(), "without an end: {open:?}");
    assert!(used.iter().all(|row| threads.contains(row) && processes.contains(&row.0)));
    // Slices of a row follow one another, or lie within one another as interrupts do in what they
    // interrupt: readers draw anything else wrongly.
    for (row, mut slices) in rows {
        slices.sort_unstable_by_key(|&(begin, end)| (begin, Reverse(end)));
        let mut around: Vec<u64> = Vec::new();
        for (begin, end) in slices {
            around.retain(|&outer| outer > begin);
            let inner = around.last().is_none_or(|&outer| end <= outer);
            assert!(inner, "{row:?}: {begin}..{end} leaves the slice around it, {around:?}");
            around.push(end);
        }
    }
}

#[test]
fn the_timeline_keeps_the_rules_of_trace_events() {
    let place = Place::new();
    for (words, tracks) in [
        (
            "--device z-ssd-small --precondition fill",
            &["job 0: a", "core 0", "channel 0", "LUN 0", "firmware core 0", "to device"][..],
        ),
        ("--device cnex-small --precondition steady --numjobs=2", &["job 1: a", "queue 0"]),
        ("--device intel-750-small --stack none --fsync=7", &["queue 0", "to host"]),
    ] {
        let job = format!(
            "run --name=a --rw=randrw --number_ios=300 --ioengine=libaio --iodepth=32 \
             --timeline out.trace.json {words}"
        );
        place.run(&job).ok();
        let trace: Value = serde_json::from_str(&place.text("out.trace.json")).expect("JSON");
        check_trace_events(&trace);
        let events = trace["traceEvents"].as_array().expect("events");
        assert!(events.len() > 1000, "{}", events.len());
        let named: Vec<&str> = events.iter().filter_map(|e| e["args"]["name"].as_str()).collect();
        for track in tracks {
            assert!(named.contains(track), "no {track}: {named:?}");
        }
        let cut = place.run(&format!("{job} --timeline-limit 10")).ok();
        assert!(cut.out.contains("the timeline holds the first 10 slices"), "{}", cut.out);
        let trace: Value = serde_json::from_str(&place.text("out.trace.json")).expect("JSON");
        check_trace_events(&trace);
        assert!(trace["otherData"]["dropped_slices"].as_u64() > Some(500));
    }
}

#[test]
fn the_keys_of_formats_md_are_all_there() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/design/formats.md");
    let text = std::fs::read_to_string(root).expect("formats.md");
    let place = Place::new();
    // Classes of I/O are told where there are several.
    // Programs have rows of their own, and so have replays.
    place.file("log", "fio version 3 iolog\n0 /dev/a add\n0 /dev/a open\n9 /dev/a read 0 4096\n");
    let job = "--name=a --rw=randrw --number_ios=50 --ioengine=libaio --cmdprio_percentage=30 --name=log \
               --read_iolog=log --device intel-750-small --precondition fill --app kv-read --set app.runtime=20ms --with kv-update";
    let result = place.json(job);
    let rows = text.lines().filter_map(|l| l.strip_prefix("| `wordline.")?.split(" | ").next());
    let keys: Vec<&str> = rows.flat_map(|row| row.split(", ")).collect();
    let mut documented = BTreeSet::new();
    for key in keys {
        let key = key.trim_matches('`').trim_start_matches("wordline.").trim_end_matches("[]");
        let found = result["wordline"].pointer(&format!("/{}", key.replace('.', "/")));
        assert!(found.is_some(), "wordline.{key} is in formats.md and not in the output");
        documented.extend(key.split('.').nth(1).map(str::to_string));
    }
    let machine = result["wordline"]["machine"].as_object().expect("an object");
    let missing: Vec<_> = machine.keys().filter(|k| !documented.contains(*k)).collect();
    assert!(missing.is_empty(), "not in formats.md: {missing:?}");
}

#[test]
fn device_check_and_a_run_agree_on_the_mapping() {
    let place = Place::new();
    for device in ["z-ssd-small", "intel-750-small", "cnex-small"] {
        let check = place.run(&format!("device check {device}")).ok().out;
        let line = check.lines().find(|l| l.contains("whole mapping")).expect("a line");
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|w| *w == "B").expect("bytes a sector");
        let said: f64 = words[at - 1].parse().expect("a number");
        let job = "--name=a --rw=randread --number_ios=5 --precondition steady --device";
        let run = place.json(&format!("{job} {device}"));
        let is = float(&run, "/wordline/machine/mapping_bytes_per_sector");
        assert!((is / said - 1.0).abs() < 0.02, "{device}: {is} in a run, {said} by check");
    }
}

#[test]
fn logs_as_fio_names_them() {
    let place = Place::new();
    place
        .run(
            "run --name=a --rw=randrw --number_ios=60 --device z-ssd-small --write_lat_log=x \
         --write_bw_log --write_iops_log=y --numjobs=2 --log_offset=1",
        )
        .ok();
    let expected = [
        "a_bw.1.log",
        "a_bw.2.log",
        "x_clat.1.log",
        "x_clat.2.log",
        "x_lat.1.log",
        "x_lat.2.log",
        "x_slat.1.log",
        "x_slat.2.log",
        "y_iops.1.log",
        "y_iops.2.log",
    ];
    assert_eq!(place.files(), expected);
    for name in ["x_lat.1.log", "x_clat.2.log"] {
        let text = place.text(name);
        assert_eq!(text.lines().count(), 60, "{name}");
        for line in text.lines() {
            let fields: Vec<u64> = line.split(", ").map(|f| f.parse().expect(line)).collect();
            assert_eq!(fields.len(), 6, "{line}");
            assert!(
                fields[1] > 0
                    && fields[2] < 2
                    && fields[3] == 4096
                    && fields[4].is_multiple_of(4096)
            );
        }
    }
}

/// Everything of a result that does not tell how it was asked for.
fn outcome(mut result: Value) -> Value {
    result["wordline"]["provenance"]["workload"] = Value::Null;
    for job in result["jobs"].as_array_mut().expect("jobs") {
        // On a command line the name is one of the options, and so is what a second file implies.
        if let Some(options) = job["job options"].as_object_mut() {
            options.remove("name");
            options.remove("stonewall");
        }
    }
    result
}

#[test]
fn showcmd_run_again_gives_the_same() {
    let place = Place::new();
    place.file(
        "job.fio",
        "; two rounds of globals\n[global]\nbs=8k\nrw=randread\nnumber_ios=40\n[first]\n\
         description=it's a \"test\" of words\niodepth=4\n[global]\nbs=,16k\nrwmixread=30\n\
         [second one]\nrw=randrw\nstonewall\n[third]\nnumjobs=2\nkb_base=1000\nsize=9m\n",
    );
    place.file("next.fio", "[global]\nthinktime=10\n[fourth]\nrw=write\nsize=1m\nnumber_ios=7\n");
    for words in [
        "job.fio",
        "job.fio next.fio",
        "next.fio job.fio --section third --section fourth",
        "--size=1k next.fio --name=x --size=8k --name=global --bs=8k --numjobs 2 --name=y --size 64k",
        "--bs=512 --name=zero --rw=write --number_ios=3 job.fio --seed 5 --set nand.t_read=9us",
        "--name=a --rw randrw:2 --number_ios 90 --time_based=0 --description=x",
    ] {
        let words = format!("{words} --device z-ssd-small");
        let command = place.run(&format!("run {words} --showcmd")).ok().out;
        assert_eq!(command.lines().count(), 1, "{command}");
        assert!(command.starts_with("wordline run "), "{command}");
        let line = command.replacen("wordline", "$W", 1).replace('\n', " --output-format=json");
        let again = outcome(place.shell(&line).ok().json());
        assert!(again == outcome(place.json(&words)), "another result: {command}");
    }
}

#[test]
fn commands_about_devices_print_what_they_should() {
    let place = Place::new();
    let list = place.run("device list").ok().out;
    for name in ["cnex-westlake", "z-ssd-800g", "intel-750-400g", "cnex-small", "pblk", "i7-8700"] {
        assert!(list.contains(name), "{name}");
    }
    for device in ["cnex-westlake", "cnex-small", "z-ssd-small", "intel-750-small"] {
        let text = place.run(&format!("device show {device}")).ok().out;
        let check = place.run(&format!("device check {device}")).ok().out;
        assert!(check.contains("Capacity"), "{check}");
        // What is shown is a profile.
        place.file("my.toml", &text);
        assert_eq!(place.run("device check my.toml").ok().out, check);
    }
    place.run("run --name=a --rw=read --number_ios=9 --device my.toml").ok();
    let bad = "device check pm9a3-1920g --set nand.faults.bad_blocks_ppb=50000000";
    assert!(place.run(bad).ok().out.contains("bad from the factory          5.00 % of all blocks"));
    let other = place.run("device check z-ssd-small --set nand.t_read=30us --stack none").ok();
    assert_ne!(other.out, place.run("device check z-ssd-small").ok().out);
    place.run("device show testbed/none").ok();
    // A file of a preset's name does not take its place.
    place.file("pblk", "garbage");
    place.run("run --name=a --rw=read --number_ios=9 --device z-ssd-small").ok();
}

#[test]
fn help_teaches() {
    let place = Place::new();
    let bare = place.run("").fails(2, &["wordline run --name=a", "replay", "Exit status"]);
    assert!(bare.out.is_empty());
    for (words, part) in [
        ("--help", "wordline replay"),
        ("run --help", "number_ios"),
        ("run -h", "--slowest"),
        ("replay --help", "systor17"),
        ("device --help", "check"),
        ("--version", env!("CARGO_PKG_VERSION")),
        ("--version", "built from"),
        ("man --help", "man -l -"),
    ] {
        let done = place.run(words).ok();
        assert!(done.out.contains(part) && done.err.is_empty(), "{words}: {}", done.out);
        assert!(done.out.lines().all(|l| l.chars().count() <= 120), "{words}");
    }
    place.run("run").fails(2, &["wordline run --name=a"]);
    place.file("job.fio", MIXED);
    place.run("job.fio").fails(2, &["wordline run job.fio"]);
    place.run("--name=a --rw=read").fails(2, &["wordline run --name=a"]);
}

#[test]
fn shells_complete_and_man_pages_are_written() {
    let place = Place::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = place.run(&format!("completions {shell}")).ok().out;
        assert!(script.contains("precondition") && script.contains("replay"), "{shell}");
        assert!(!script.contains("worker"), "{shell} offers what is not for people");
    }
    // The shell itself reads its script and completes a command.
    place.file("complete.bash", place.run("completions bash").ok().out);
    for (words, completed) in [
        ("repl", "replay"),
        ("run --device bssd-s", "bssd-small"),
        ("run --app rocksdb-readwhilew", "rocksdb-readwhilewriting"),
        ("run --ftl de", "default"),
        ("serve --ftl tinyt", "tinytail"),
    ] {
        let (before, word) = words.rsplit_once(' ').unwrap_or(("", words));
        let before = before.rsplit(' ').next().unwrap_or("");
        let script = format!(
            "source ./complete.bash; COMP_WORDS=(wordline {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _wordline wordline '{word}' '{before}'; echo \"${{COMPREPLY[*]}}\""
        );
        let mut bash = std::process::Command::new("bash");
        let out = bash.args(["-c", &script]).current_dir(place.path("")).output();
        let out = out.expect("bash runs");
        assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), completed, "{words}");
    }
    place
        .run("completions tcsh")
        .fails(2, &["[possible values: bash, elvish, fish, powershell, zsh]"]);
    let page = place.run("man").ok().out;
    assert!(page.starts_with(".ie") && page.contains(".TH wordline 1"), "{page}");
    place.run("man --out pages").ok();
    for (name, says) in [
        ("wordline.1", "wordline\\-replay"),
        ("wordline-run.1", "precondition"),
        ("wordline-study-tables.1", "\\-\\-check"),
    ] {
        let page = place.text(&format!("pages/{name}"));
        assert!(page.contains(says), "{name}: {page}");
    }
    place.run("man --format md --out pages").ok();
    for (name, says) in [
        ("wordline.md", "[`replay`](wordline-replay.md)\n: Replay a block trace"),
        ("wordline-run.md", "`--precondition PRECONDITION`\n: State of the drive before the run"),
        ("wordline-run.md", "\n  Default: `auto`\n"),
        ("wordline-run.md", "\n  - `auto`: As fill: "),
        ("wordline-replay.md", "\n  ```text\n    auto          told from the first bytes"),
        ("wordline-device-check.md", "## Arguments\n\n`PROFILE`\n: A file, or the name"),
    ] {
        let page = place.text(&format!("pages/{name}"));
        assert!(page.contains(says), "{name}: {page}");
    }
    let (roff, md) = (".1", ".md");
    let pages = |end: &str| {
        let names = std::fs::read_dir(place.path("pages")).expect("the folder");
        let names = names.map(|e| e.expect("an entry").file_name().into_string().expect("UTF-8"));
        let mut names: Vec<String> =
            names.filter_map(|name| Some(name.strip_suffix(end)?.to_owned())).collect();
        names.sort();
        names
    };
    assert_eq!(pages(roff), pages(md));
    place.file("taken", "");
    place.run("man --out taken/man").fails(1, &["cannot make the folder taken/man"]);
}

#[test]
fn an_aged_drive_is_kept_and_used_again() {
    let place = Place::new();
    let job = "--name=a --rw=randrw --number_ios=2000 --iodepth=8 --device z-ssd-small";
    let aged = place.json(&format!("{job} --precondition steady --save-state drive.state"));
    let loaded = place.json(&format!("{job} --load-state drive.state"));
    let precondition = &loaded["wordline"]["provenance"]["precondition"];
    assert_eq!(precondition, "loaded from drive.state");
    assert!(aged["jobs"] == loaded["jobs"], "another result on the loaded drive");
    // Of another drive, cut short, or damaged.
    let other = job.replace("z-ssd-small", "intel-750-small");
    place.run(&format!("run {other} --load-state drive.state")).fails(
        2,
        &["drive.state", "of z-ssd-small with firmware", "this drive is intel-750-small"],
    );
    // Of another layer.
    let pblk = format!("{job} --ftl pblk");
    place
        .run(&format!("run {pblk} --load-state drive.state"))
        .fails(2, &["drive.state", "saved by --ftl firmware", "has --ftl pblk", "choose that"]);
    let aged = place.json(&format!("{pblk} --precondition steady --save-state pblk.state"));
    let loaded = place.json(&format!("{pblk} --load-state pblk.state"));
    assert!(aged["jobs"] == loaded["jobs"], "another result on the loaded drive");
    place
        .run(&format!("run {job} --load-state pblk.state"))
        .fails(2, &["pblk.state", "saved by --ftl pblk", "has --ftl firmware"]);
    // What is to be known of a drive is known of its copy.
    let reads = "--name=r --rw=randread --number_ios=500 --device z-ssd-small --ftl pblk";
    let result = place.json(&format!("{reads} --load-state pblk.state"));
    let warnings = result["wordline"]["warnings"].to_string();
    assert!(warnings.contains("lets the collector rest first"), "{warnings}");
    let prepared = result["wordline"]["prepared"].as_str().expect("a line");
    assert!(prepared.contains("was steady") && prepared.contains("from pblk.state"), "{prepared}");
    let state = std::fs::read(place.path("drive.state")).expect("a state");
    for (name, bytes) in [
        ("cut", state[..state.len() / 2].to_vec()),
        ("empty", Vec::new()),
        ("damaged", {
            let mut bytes = state.clone();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x55;
            bytes
        }),
    ] {
        place.file(name, bytes);
        place.run(&format!("run {job} --load-state {name}")).fails(2, &[name]);
    }
}

#[test]
fn a_limit_ends_a_run_well() {
    let place = Place::new();
    let done = place
        .run("run --name=a --rw=randread --time_based --runtime=100s --limit 3ms --device z-ssd-small")
        .ok();
    assert!(done.out.contains("by --limit"), "{}", done.out);
    for bad in ["0", "5x", "-1", ""] {
        place.run_words(&["run", "--name=a", &format!("--limit={bad}")]).fails(2, &["--limit"]);
    }
}

#[test]
fn a_log_of_what_was_issued_replays_to_the_same_counts() {
    let place = Place::new();
    let job = "--name=a --rw=randrw --numjobs=2 --number_ios=50 --device z-ssd-small";
    place.run(&format!("run {job} --write_iolog=io.log")).ok();
    let log = place.text("io.log");
    assert!(log.starts_with("fio version 3 iolog\n"), "{log}");
    let count = |op: &str| log.lines().filter(|l| l.contains(op)).count() as u64;
    assert_eq!(count(" read ") + count(" write "), 100);
    let words = "replay io.log --device z-ssd-small --output-format=json";
    let result = place.run(words).ok().json();
    assert_eq!(int(&result, "/jobs/0/read/total_ios"), count(" read "));
    assert_eq!(int(&result, "/jobs/0/write/total_ios"), count(" write "));
}

/// A part has room to collect garbage, as the whole has.
#[test]
fn a_part_of_every_drive_can_be_built() {
    let place = Place::new();
    let list = place.run("device list").ok().out;
    let drives = list.lines().take_while(|l| *l != "media").filter_map(|l| l.split(' ').nth(2));
    let large: Vec<&str> = drives.filter(|name| !name.ends_with("-small")).collect();
    assert!(large.len() >= 6, "{large:?}");
    for device in large {
        for of in [4, 16, 64] {
            place.run(&format!("device check {device} --scale 1/{of}")).ok();
        }
    }
}

/// A drive whose flash software is its own has that unless another is asked for, alone and in an array.
#[test]
fn a_drive_has_the_flash_software_of_its_profile() {
    let place = Place::new();
    let job = "--name=a --rw=randwrite --bs=4k --iodepth=4 --number_ios=300 --norandommap --testbed \
               i7-2600 --device fssd-small --precondition none";
    let owners = |more: &str| {
        let result = place.json(&format!("{job} {more}"));
        let host = &result["wordline"]["machine"]["host"]["memory_by_owner"];
        let owners = host.as_array().expect("rows").iter();
        let names: Vec<String> =
            owners.map(|owner| owner["name"].as_str().expect("a name").to_string()).collect();
        let ftl = result["wordline"]["provenance"]["ftl"].as_str().expect("a name").to_string();
        (ftl, names.iter().any(|name| name == "map_nodes"))
    };
    assert_eq!(owners(""), ("fssd".to_string(), true));
    assert_eq!(owners("--array raid0 --drives 2"), ("fssd".to_string(), true));
    assert_eq!(owners("--ftl pblk"), ("pblk".to_string(), false));
}

#[test]
fn the_parts_of_each_drives_cache_are_shown() {
    let place = Place::new();
    let run = place.run(
        "run --device z-ssd-flashshare-small --drives 2 --stack interrupt --system cacheopt --name=a \
                  --rw=randread --number_ios=200 --size=1m --filename=/dev/nvme0n1:/dev/nvme1n1",
    ).ok();
    let out = run.out;
    for drive in ["nvme0n1", "nvme1n1"] {
        let line = format!("  {drive}, cache, ");
        assert_eq!(out.lines().filter(|l| l.starts_with(&line)).count(), 2, "{out}");
    }
}

#[test]
fn progress_shows_when_eta_says() {
    let place = Place::new();
    let job = "run --name=a --rw=randread --number_ios=200k --device z-ssd-small";
    let plain = place.run(job).ok();
    assert!(!plain.err.contains("simulated"), "no terminal: {}", plain.err);
    for words in ["--eta=never", "--eta never", "--eta=auto", "--eta=never --eta-newline=1ms"] {
        let done = place.run(&format!("{job} {words}")).ok();
        assert_eq!((done.err, &done.out), (plain.err.clone(), &plain.out), "{words}");
    }
    for words in ["--eta=always --eta-newline=1ms", "--quiet --eta-newline=1ms --eta=always"] {
        let done = place.run(&format!("{job} {words}")).ok();
        assert_eq!(done.out, plain.out, "{words}");
        let lines = |what: &str| done.err.lines().filter(|l| l.contains(what)).count();
        assert!(lines(" simulated, ") > 3 && lines("filling the drive") == 1, "{}", done.err);
        assert!(done.err.contains("events a second") && !done.err.contains('\r'), "{}", done.err);
    }
    // To go is told where the end is known.
    let timed = job.replace("number_ios=200k", "runtime=3 --time_based");
    let done = place.run(&format!("{timed} --eta=always --eta-newline=1ms")).ok();
    assert!(done.err.contains(" of 3.000 s simulated, ") && done.err.contains(" s to go"));
    for (words, says) in [
        ("--eta=sometimes", "[possible values: auto, always, never]"),
        ("--eta-newline=0", "must be more than 0, as in 1s"),
        ("--eta-newline=1x", "1x"),
    ] {
        let done = place.run(&format!("{job} {words}"));
        assert!(done.status == 2 && done.err.contains(says), "{words}: {}", done.err);
    }
}

#[test]
fn options_of_the_program_fio_have_a_remedy() {
    let place = Place::new();
    let job = "run --name=a --number_ios=10 --device z-ssd-small";
    for (words, says) in [
        ("--max-jobs=5", "leave it out"),
        ("--warnings-fatal", "use --strict"),
        ("--version", "wordline --version"),
        ("--inflate-log=x", "not compressed"),
        ("--minimal", "use --output-format=terse"),
        ("--status-interval=1", "write_bw_log"),
    ] {
        let done = place.run(&format!("{job} {words}"));
        let refused = done.err.contains("is not an option here: ");
        assert!(done.status == 2 && refused && done.err.contains(says), "{words}: {}", done.err);
    }
    let reads = place.run(&format!("{job} --rw=randread --readonly")).ok();
    assert_eq!(reads.out, place.run(&format!("{job} --rw=randread")).ok().out);
    for rw in ["randwrite", "rw", "trim"] {
        let done = place.run(&format!("{job} --rw={rw} --readonly"));
        let says = "command line: job 'a' writes or trims, and --readonly is given";
        assert!(done.status == 2 && done.err.contains(says), "{rw}: {}", done.err);
    }
}
