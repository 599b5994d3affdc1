//! What is in `examples/` runs, and is said there and in README.md.

use super::place::{Place, int};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Names in a folder of the repository, sorted.
fn names(folder: &str) -> Vec<String> {
    names_in(&root().join(folder))
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder");
    let files = entries.map(|e| e.expect("an entry")).filter(|e| e.path().is_file());
    let mut names: Vec<String> =
        files.map(|e| e.file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

/// File, format, reads, writes, and what else is to be said.
const TRACES: &[(&str, &str, u64, u64, &str)] = &[
    ("alibaba.csv", "alibaba", 14, 20, ""),
    ("blkparse.txt", "blkparse", 14, 20, ""),
    ("cloudphysics.csv", "cloudphysics", 14, 20, ""),
    (
        "columns.tsv",
        "columns",
        14,
        20,
        "--columns time=When:ms,op=What,offset=Block:4k,size=Bytes:byte,ignore=noop,skip=1",
    ),
    ("fio-v2.log", "iolog", 14, 20, ""),
    ("fio-v3.log", "iolog", 14, 20, ""),
    ("fiu.txt", "fiu", 14, 20, ""),
    ("k5.csv", "k5", 14, 20, ""),
    ("lbn.txt", "lbn", 34, 0, "--bs 4k --closed-loop 8"),
    ("mqsim.trace", "mqsim", 14, 20, ""),
    ("msr.csv", "msr", 14, 20, ""),
    ("oraclegeneral.bin", "oraclegeneral", 34, 0, ""),
    ("sda.blktrace.0", "blktrace", 14, 20, "{traces}/sda.blktrace.1"),
    ("spc.csv", "spc", 14, 20, ""),
    ("systor17.csv", "systor17", 14, 20, ""),
    ("tencent.csv", "tencent", 14, 20, ""),
    ("v1.vscsi", "vscsi", 14, 20, ""),
    ("v2.vscsi", "vscsi", 14, 20, ""),
    ("vscsi.txt", "vscsi-text", 14, 20, ""),
];

#[test]
fn every_trace_is_told_and_replayed() {
    let place = Place::new();
    let traces = root().join("examples/traces");
    let traces = traces.to_str().expect("UTF-8");
    let mut run: Vec<&str> = vec!["sda.blktrace.1"];
    for (file, format, reads, writes, words) in TRACES {
        let words = words.replace("{traces}", traces);
        let line =
            format!("replay {traces}/{file} {words} --device z-ssd-small --output-format=json");
        let done = place.run(&line).ok();
        let result = done.json();
        let counts =
            ["read", "write"].map(|ddir| int(&result, &format!("/jobs/0/{ddir}/total_ios")));
        assert_eq!(counts, [*reads, *writes], "{file}\n{}", done.err);
        assert!(done.err.contains(&format!("format: {format}, by ")), "{file}\n{}", done.err);
        let notes = result.pointer("/wordline/notes").expect("notes").to_string();
        assert!(notes.contains(&format!("format: {format}, by ")), "{notes}");
        run.push(file);
    }
    run.sort();
    assert_eq!(run, names("examples/traces"));
    let mixed = place.run(&format!(
        "replay {traces}/oraclegeneral.bin --rwmixread 0 --device z-ssd-small --output-format=json"
    ));
    assert_eq!(int(&mixed.ok().json(), "/jobs/0/write/total_ios"), 34);
}

#[test]
fn every_job_runs() {
    let place = Place::new();
    let mut run = vec!["README.md"];
    for (file, words) in [
        ("job.fio", "--device z-ssd-small"),
        ("mixed.fio", "--device cnex-small"),
        ("drives.fio", "--device z-ssd-small,cnex-small"),
        ("drives.fio", "--topology EXAMPLES/machine.toml"),
        ("colocation.fio", "--device z-ssd-flashshare-small"),
        (
            "colocation.fio",
            "--device z-ssd-flashshare-small --stack none --set queues.arbitration=weighted-urgent",
        ),
        ("readers-and-writer.fio", "--device cnex-small"),
        ("job.fio", "--device EXAMPLES/drive.toml"),
        ("files.fio", "--device z-ssd-small --fs ext4"),
        ("files.fio", "--device z-ssd-small --fs ext4 --stack nbd-kernel"),
    ] {
        let path = root().join("examples").join(file);
        let path = path.to_str().expect("UTF-8");
        let words = words.replace("EXAMPLES", &root().join("examples").to_string_lossy());
        let line = format!("run {path} {words} --limit 300ms --output-format=json");
        let result = place.run(&line).ok().json();
        assert!(int(&result, "/wordline/machine/served") > 100, "{line}");
        run.push(file);
    }
    let examples = root().join("examples");
    let check = format!("device check {}", examples.join("drive.toml").display());
    assert!(place.run(&check).ok().out.starts_with("my-drive (FTL: firmware)"));
    let study = examples.join("study.toml").display().to_string();
    place.run(&format!("study run {study} --scale quick --out results --quiet")).ok();
    assert_eq!(place.text("results/study.quick.csv").lines().count(), 5);
    place.run(&format!("study report {study} --scale quick --out results -o study.html")).ok();
    assert!(place.text("study.html").contains("Reads beside a writer, by depth"));
    run.extend(["machine.toml", "drive.toml", "study.toml"]);
    run.sort();
    run.dedup();
    assert_eq!(run, names("examples"));
}

/// Each is named in `examples/README.md`.
#[test]
fn every_example_is_explained() {
    let text = std::fs::read_to_string(root().join("examples/README.md")).expect("it is there");
    let said: BTreeSet<&str> =
        text.split(|c: char| c.is_whitespace() || "|,`".contains(c)).collect();
    for name in names("examples").iter().chain(&names("examples/traces")) {
        assert!(name == "README.md" || said.contains(name.as_str()), "{name}");
    }
}

/// Jobs, traces and profiles in the commands of README.md are in the repository.
#[test]
fn files_that_readme_names_are_there() {
    let text = std::fs::read_to_string(root().join("README.md")).expect("it is there");
    let commands = text.lines().filter(|l| {
        ["wordline run ", "wordline replay ", "wordline device "].iter().any(|c| l.starts_with(c))
    });
    let mut seen = 0;
    for command in commands {
        let command = command.split('#').next().unwrap_or_default();
        let words = command.split_whitespace().take_while(|w| !w.starts_with('-'));
        for word in words.filter(|w| w.contains('.')) {
            assert!(root().join(word).is_file(), "{word} in: {command}");
            seen += 1;
        }
    }
    assert!(seen >= 4, "{seen} files are named");
}

/// Files that help names to be read are in `examples/`, or an earlier command of the same help wrote them.
#[test]
fn files_that_help_names_are_there() {
    const WRITES: &[&str] = &[
        "-o",
        "--output",
        "--out",
        "--report",
        "--timeline",
        "--over-time",
        "--save-state",
        "--iolog",
        "--tape",
        "--image",
        "--state",
        "--profile",
        "--salvage",
        "--columns",
        "--nbd",
        "--server",
    ];
    let place = Place::new();
    place.run("man --format md --out pages").ok();
    let mut seen = BTreeSet::new();
    for page in names_in(&place.path("pages")) {
        let text = place.text(&format!("pages/{page}"));
        let mut written = BTreeSet::from(["drive.img", "rail.json"]);
        for command in text.lines().filter(|l| l.starts_with("  wordline ")) {
            let command = command.split(" | ").next().unwrap_or_default();
            let words: Vec<&str> = command.split_whitespace().skip(2).collect();
            for (i, word) in words.iter().enumerate() {
                let before = i.checked_sub(1).map_or("", |i| words[i]);
                if WRITES.contains(&before) {
                    written.insert(word);
                } else if word.contains('.')
                    && !word.contains(['=', '*', ':', '~'])
                    && before != "--set"
                    && !written.contains(word)
                    && word.parse::<f64>().is_err()
                {
                    let name = word.trim_end_matches(',');
                    let there = ["examples", "examples/traces", ""];
                    let there = there.iter().any(|folder| root().join(folder).join(name).is_file());
                    let program = name.starts_with("./");
                    assert!(there || program, "{page}: {name} in:{command}");
                    seen.insert(name.to_owned());
                }
            }
        }
        // What a configuration in a help names as its job.
        for job in text.lines().filter_map(|l| l.trim().strip_prefix("job = \"")) {
            let job = job.trim_end_matches('"');
            assert!(root().join("examples").join(job).is_file(), "{page}: {job}");
            seen.insert(job.to_owned());
        }
    }
    for name in [
        "job.fio",
        "files.fio",
        "mixed.fio",
        "readers-and-writer.fio",
        "study.toml",
        "msr.csv",
        "sda.blktrace.1",
    ] {
        assert!(seen.contains(name), "{name} is not among {seen:?}");
    }
}
