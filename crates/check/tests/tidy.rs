//! The shape of the workspace: who depends on whom, and that the deterministic ring is fenced.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const RING: [&str; 17] = [
    "base",
    "nvme",
    "nand",
    "translation",
    "firmware",
    "fssd",
    "ftl",
    "device",
    "fs",
    "md",
    "host",
    "fio",
    "trace",
    "app",
    "sim",
    "report",
    "page",
];

/// Crate -> workspace crates it may use, directly.
const MAY_USE: &[(&str, &[&str])] = &[
    ("base", &["huge"]),
    ("nvme", &["base"]),
    ("nand", &["base"]),
    ("translation", &["base", "nand"]),
    ("firmware", &["base", "nand", "translation"]),
    ("fssd", &["base", "nand", "translation"]),
    ("ftl", &["base", "nand", "translation", "firmware", "fssd"]),
    ("device", &["base", "nvme", "nand", "ftl"]),
    ("fs", &["base"]),
    ("md", &["base"]),
    ("host", &["base", "nvme", "nand", "ftl", "fs", "md"]),
    ("fio", &["base"]),
    ("trace", &["base"]),
    ("app", &["base"]),
    ("sim", &["base", "nvme", "nand", "ftl", "device", "fs", "md", "host", "fio", "trace", "app"]),
    ("report", &["base", "sim", "app"]),
    ("page", &[]),
    ("profile", &["base", "nvme", "nand", "ftl", "device", "host", "app"]),
    (
        "wordline",
        &[
            "base",
            "huge",
            "nand",
            "translation",
            "ftl",
            "device",
            "md",
            "host",
            "fio",
            "trace",
            "app",
            "sim",
            "profile",
            "report",
        ],
    ),
    ("cache", &["sim", "wordline"]),
    (
        "study",
        &[
            "base", "nand", "ftl", "fio", "sim", "report", "page", "profile", "app", "huge",
            "wordline", "cache",
        ],
    ),
    ("frontend", &["wordline", "nand", "fio", "trace", "report", "profile", "study"]),
    ("nbd", &["base"]),
    ("live", &["base", "nvme", "nand", "ftl", "device", "nbd"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn metadata() -> serde_json::Value {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("cargo metadata is JSON")
}

#[test]
fn crates_depend_only_downwards() {
    let metadata = metadata();
    let mut used: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap().trim_start_matches("wordline-").to_string();
        let ours = package["dependencies"].as_array().unwrap().iter().filter_map(|d| {
            let name = d["name"].as_str()?;
            let dependency =
                if name == "wordline" { name } else { name.strip_prefix("wordline-")? };
            (d["kind"].is_null()).then(|| dependency.to_string())
        });
        used.insert(name, ours.collect());
    }
    for (name, allowed) in MAY_USE {
        for dependency in &used[*name] {
            assert!(allowed.contains(&dependency.as_str()), "{name} must not use {dependency}");
        }
    }
    // Outside crates of the ring: no clock, thread pool, socket or random source among them.
    let outside = ["serde", "serde_json", "thiserror", "flate2", "ruzstd", "libm", "strsim"];
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap().trim_start_matches("wordline-");
        for d in package["dependencies"].as_array().unwrap() {
            let dependency = d["name"].as_str().unwrap();
            if RING.contains(&name) && d["kind"].is_null() && !dependency.starts_with("wordline-") {
                assert!(outside.contains(&dependency), "{name} brings {dependency} into the ring");
            }
        }
    }
}

#[test]
fn the_ring_is_fenced() {
    let fence = std::fs::read_to_string(root().join("crates/base/clippy.toml")).unwrap();
    for banned in
        ["Instant::now", "SystemTime", "thread::spawn", "HashMap", "std::env::var", "fs::File"]
    {
        assert!(fence.contains(banned), "the fence does not name {banned}");
    }
    for name in RING {
        let dir = root().join("crates").join(name);
        let own = std::fs::read_to_string(dir.join("clippy.toml")).unwrap();
        assert_eq!(own, fence, "{name} has another fence");
        let lib = std::fs::read_to_string(dir.join("src/lib.rs")).unwrap();
        // Base has one module with a processor hint; every other crate forbids.
        let word = if name == "base" { "deny" } else { "forbid" };
        assert!(lib.contains(&format!("#![{word}(unsafe_code)]")), "{name} allows unsafe code");
        // The fence holds for what is shipped: no part of the sources may open it.
        for file in sources(&dir.join("src")) {
            let within = file.strip_prefix(&dir).unwrap();
            if within.starts_with("src/tests") || within.ends_with("tests.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&file).unwrap();
            let shipped = text.split("#[cfg(test)]").next().unwrap();
            assert!(
                !shipped.contains("allow(unsafe_code)") || within.ends_with("prefetch.rs"),
                "{} allows unsafe code",
                file.display()
            );
            assert!(
                !shipped.contains("allow(clippy::disallowed"),
                "{} opens the fence",
                file.display()
            );
        }
    }
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn unsafe_code_is_where_it_is_known_to_be() {
    let known = [
        "base/src/prefetch.rs",
        "fssd/tests/memory.rs",
        "ftl/tests/alloc.rs",
        "huge/src/lib.rs",
        "live/src/ring.rs",
        "study/src/fork.rs",
    ];
    let crates = root().join("crates");
    let allows = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).unwrap();
        let opens = ["#![allow(unsafe_code)]", "#[allow(unsafe_code)]"];
        text.lines().any(|line| opens.iter().any(|open| line.trim_start().starts_with(open)))
    };
    let found: Vec<PathBuf> = sources(&crates).into_iter().filter(allows).collect();
    let found: Vec<_> = found.iter().map(|f| f.strip_prefix(&crates).unwrap()).collect();
    assert_eq!(found, known.map(Path::new));
}

/// A file with its submodules, by the name under which others use it.
struct Unit {
    name: String,
    /// Its code without comments, and without tests at its end.
    text: String,
}

fn units(src: &Path) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    for file in sources(src) {
        let within = file.strip_prefix(src).unwrap().with_extension("");
        let parts: Vec<_> = within.iter().map(|part| part.to_str().unwrap()).collect();
        if parts.iter().any(|part| part.ends_with("tests")) || ["lib", "main"].contains(&parts[0]) {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let code: Vec<_> =
            shipped.lines().map(|line| line.split("//").next().unwrap_or("")).collect();
        let text = code.join("\n");
        match units.iter_mut().find(|unit| unit.name == parts[0]) {
            Some(unit) => unit.text += &text,
            None => units.push(Unit { name: parts[0].into(), text }),
        }
    }
    units
}

/// The modules of the crate that a text names: what follows `crate::`, alone or as a list in braces.
fn named(text: &str) -> Vec<&str> {
    let ends = |c: char| !(c.is_alphanumeric() || c == '_');
    let mut found = Vec::new();
    for after in text.split("crate::").skip(1) {
        let Some(list) = after.strip_prefix('{') else {
            found.push(after.split(ends).next().unwrap());
            continue;
        };
        let mut depth = 0;
        let mut from = 0;
        for (i, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                ',' | '}' if depth == 0 => {
                    found.push(list[from..i].trim().split(ends).next().unwrap());
                    from = i + 1;
                    if c == '}' {
                        break;
                    }
                }
                '}' => depth -= 1,
                _ => {}
            }
        }
    }
    found
}

/// Files of a crate that name each other have their reason in the house's document, all of a circle in one line.
#[test]
fn circles_of_files_have_a_reason() {
    let house = std::fs::read_to_string(root().join("docs/design/architecture.md")).unwrap();
    let (_, table) = house.split_once("## Files that name each other").unwrap();
    let table = table.split("\n## ").next().unwrap();
    let rows: Vec<Vec<&str>> =
        table.lines().map(|line| line.split('`').skip(1).step_by(2).collect()).collect();
    let mut circles = 0;
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let dir = entry.unwrap().path();
        let name = dir.file_name().unwrap().to_str().unwrap().to_string();
        let units = units(&dir.join("src"));
        let index = |name: &str| units.iter().position(|unit| unit.name == name);
        let mut reaches: Vec<Vec<bool>> = units
            .iter()
            .enumerate()
            .map(|(at, unit)| {
                let mut to = vec![false; units.len()];
                named(&unit.text).into_iter().filter_map(index).for_each(|i| to[i] = i != at);
                to
            })
            .collect();
        for via in 0..units.len() {
            for from in 0..units.len() {
                if reaches[from][via] {
                    let further = reaches[via].clone();
                    reaches[from].iter_mut().zip(further).for_each(|(to, more)| *to |= more);
                }
            }
        }
        let mut seen = vec![false; units.len()];
        for at in 0..units.len() {
            let circle: Vec<&str> = (0..units.len())
                .filter(|&o| reaches[at][o] && reaches[o][at])
                .map(|o| units[o].name.as_str())
                .collect();
            if seen[at] || circle.is_empty() {
                continue;
            }
            (0..units.len()).for_each(|o| seen[o] |= reaches[at][o] && reaches[o][at]);
            circles += 1;
            let of = |row: &&Vec<&str>| row.first() == Some(&name.as_str());
            let told =
                rows.iter().filter(of).any(|row| circle.iter().all(|file| row.contains(file)));
            assert!(
                told,
                "crates/{name}: {circle:?} name each other, which architecture.md does not explain"
            );
        }
    }
    assert!(circles > 5, "{circles} circles: the test sees none");
}
