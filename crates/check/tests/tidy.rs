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
    // The example, which stands for FTLs of others.
    ("pagemap", &["wordline"]),
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
fn simulation_crates_read_no_clock_file_or_environment() {
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
            if within.iter().any(|part| part == "tests") || within.ends_with("tests.rs") {
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

/// The modules of a directory, which is `within` the crate: files and directories in it, but for its own file.
fn units(src: &Path, within: &[String]) -> Vec<Unit> {
    let dir = within.iter().fold(src.to_path_buf(), |dir, part| dir.join(part));
    let mut units: Vec<Unit> = Vec::new();
    for file in sources(&dir) {
        let path = file.strip_prefix(&dir).unwrap().with_extension("");
        let parts: Vec<_> = path.iter().map(|part| part.to_str().unwrap()).collect();
        if parts.iter().any(|part| part.ends_with("tests"))
            || ["lib", "main", "mod"].contains(&parts[0])
        {
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

/// Names of modules that a text gives from `crate::` on, those in braces each with what stands before them.
fn named(text: &str) -> Vec<Vec<String>> {
    fn path(text: &str, before: &[String], found: &mut Vec<Vec<String>>) -> usize {
        let mut at = text.len() - text.trim_start().len();
        if text[at..].starts_with('{') {
            at += 1;
            loop {
                at += text[at..].len() - text[at..].trim_start_matches([' ', '\n', ',']).len();
                match text[at..].chars().next() {
                    None => return at,
                    Some('}') => return at + 1,
                    Some(_) => at += path(&text[at..], before, found).max(1),
                }
            }
        }
        let ends = |c: char| !(c.is_alphanumeric() || c == '_');
        let word = text[at..].split(ends).next().unwrap();
        at += word.len();
        let so_far = [before, &[word.to_string()]].concat();
        if text[at..].starts_with("::") {
            return at + 2 + path(&text[at + 2..], &so_far, found);
        }
        found.push(so_far);
        at
    }
    let mut found = Vec::new();
    for after in text.split("crate::").skip(1) {
        path(after, &[], &mut found);
    }
    found
}

/// Directories of modules: the crate's own, and those in it.
fn directories(src: &Path) -> Vec<Vec<String>> {
    let mut found = vec![Vec::new()];
    for file in sources(src) {
        let parts: Vec<String> =
            file.strip_prefix(src).unwrap().iter().map(|p| p.to_str().unwrap().into()).collect();
        found.extend((1..parts.len()).map(|n| parts[..n].to_vec()));
    }
    found.sort();
    found.dedup();
    found
}

/// Circles among the modules of a directory.
fn circles(src: &Path, within: &[String]) -> Vec<Vec<String>> {
    let units = units(src, within);
    let index = |path: &Vec<String>| {
        let name = path.strip_prefix(within)?.first()?;
        units.iter().position(|unit| unit.name == *name)
    };
    let mut reaches: Vec<Vec<bool>> = units
        .iter()
        .enumerate()
        .map(|(at, unit)| {
            let mut to = vec![false; units.len()];
            named(&unit.text).iter().filter_map(index).for_each(|i| to[i] |= i != at);
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
    let mut found: Vec<Vec<String>> = Vec::new();
    for (at, unit) in units.iter().enumerate() {
        let together = (0..units.len()).filter(|&o| reaches[at][o] && reaches[o][at]);
        let circle: Vec<String> = together.map(|o| units[o].name.clone()).collect();
        if !circle.is_empty() && !found.iter().any(|circle| circle.contains(&unit.name)) {
            found.push(circle);
        }
    }
    found
}

#[test]
fn names_of_modules_are_read_from_lists_in_braces() {
    let paths = named("use crate::{a::{b, C}, d};\nlet x = crate::e::f(1);");
    let joined: Vec<String> = paths.iter().map(|path| path.join(" ")).collect();
    assert_eq!(joined, ["a b", "a C", "d", "e f"]);
}

/// Files of a crate that name each other, and those of a directory, have their reason in the house's document, all
/// of a circle in one line.
#[test]
fn circles_of_files_have_a_reason() {
    let house = std::fs::read_to_string(root().join("docs/design/architecture.md")).unwrap();
    let (_, table) = house.split_once("## Files that name each other").unwrap();
    let table = table.split("\n## ").next().unwrap();
    let rows: Vec<Vec<&str>> =
        table.lines().map(|line| line.split('`').skip(1).step_by(2).collect()).collect();
    let (mut found, mut explained) = (0, std::collections::BTreeSet::new());
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let dir = entry.unwrap().path();
        let name = dir.file_name().unwrap().to_str().unwrap().to_string();
        let src = dir.join("src");
        let all = directories(&src).into_iter().flat_map(|within| {
            let place = [std::slice::from_ref(&name), &within].concat().join("/");
            circles(&src, &within).into_iter().map(move |circle| (place.clone(), circle))
        });
        for (place, circle) in all {
            found += 1;
            let tells = |row: &&Vec<&str>| {
                row.first() == Some(&&*place) && circle.iter().all(|f| row.contains(&&**f))
            };
            let row = rows.iter().find(tells);
            assert!(
                row.is_some(),
                "crates/{place}: {circle:?} name each other, which architecture.md does not explain"
            );
            explained.extend(row);
        }
    }
    assert!(found > 5, "{found} circles: the test sees none");
    // A row that begins with a name in quotes and is of no circle is left over.
    let of_circles = rows.iter().filter(|row| row.len() > 1);
    let left: Vec<_> = of_circles.filter(|row| !explained.contains(row)).collect();
    assert!(left.is_empty(), "architecture.md explains what is no circle: {left:?}");
}

/// Records of the host that all rooms read and fill in.
const RECORDS: [&str; 5] = ["Node", "Pending", "Queues", "Request", "Spin"];
/// Parts that have walls of their own, and the records that rooms add to.
const PARTS: [(&str, &[&str]); 5] = [
    ("BlockLayer", &["nodes", "requests", "hctxs", "disks"]),
    ("Disk", &["queue", "paths"]),
    ("Hctx", &["cqes"]),
    (
        "Host",
        &["stack", "cost", "cfs", "cores", "threads", "block", "poll_stats", "paths", "counters"],
    ),
    ("Thread", &["pend", "call", "engine", "driver", "pblk", "md", "vfs", "nbd", "stats"]),
];

/// What the rooms of the host see of each other: fields of a structure, with the structure's name.
fn open_fields(text: &str) -> Vec<(String, String)> {
    let shipped = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    let (mut found, mut within) = (Vec::new(), None);
    for line in shipped.lines() {
        // What is public has public fields, but for the host itself.
        let name = line.strip_prefix("pub(crate) struct ").or_else(|| line.strip_prefix("struct "));
        let name =
            name.or_else(|| line.strip_prefix("pub struct ").filter(|n| n.starts_with("Host<")));
        if let Some(name) = name.filter(|_| line.ends_with('{')) {
            within = name.split(|c: char| !c.is_alphanumeric()).next().map(str::to_string);
        } else if line.starts_with('}') {
            within = None;
        }
        let field = line.strip_prefix("    pub(crate) ").or_else(|| line.strip_prefix("    pub "));
        if let (Some(name), Some((field, _))) = (&within, field.and_then(|f| f.split_once(": "))) {
            found.push((name.clone(), field.to_string()));
        }
    }
    found
}

/// A field of the host is seen by its room alone, but for records and for parts with walls of their own.
#[test]
fn fields_of_the_host_are_private_to_their_room() {
    let (mut open, mut seen) = (Vec::new(), Vec::new());
    for file in sources(&root().join("crates/host/src")) {
        let text = std::fs::read_to_string(&file).unwrap();
        for (name, field) in open_fields(&text) {
            let part = PARTS.iter().find(|(of, _)| *of == name);
            if RECORDS.contains(&&*name)
                || part.is_some_and(|(_, fields)| fields.contains(&&*field))
            {
                seen.push(name);
            } else {
                open.push(format!("{}: {name}.{field}", file.display()));
            }
        }
    }
    assert!(open.is_empty(), "these are seen by all rooms:\n{}", open.join("\n"));
    let known = RECORDS.iter().chain(PARTS.iter().map(|(name, _)| name));
    let gone: Vec<&&str> = known.filter(|name| !seen.iter().any(|s| s == **name)).collect();
    assert!(gone.is_empty(), "nothing of these is open: {gone:?}");
}

/// Cargo finds test files by itself where `autotests` is not off. Elsewhere one that nobody names would never run.
#[test]
fn no_test_file_is_left_out() {
    for package in metadata()["packages"].as_array().unwrap() {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        let targets = package["targets"].as_array().unwrap().iter();
        let programs: Vec<&Path> =
            targets.map(|t| Path::new(t["src_path"].as_str().unwrap())).collect();
        let Ok(main) = std::fs::read_to_string(manifest.with_file_name("tests/main.rs")) else {
            continue;
        };
        for entry in std::fs::read_dir(manifest.with_file_name("tests")).unwrap() {
            let path = entry.unwrap().path();
            let rust = path.extension().is_some_and(|e| e == "rs") || path.join("mod.rs").is_file();
            let name = path.file_stem().unwrap().to_str().unwrap();
            let known = programs.contains(&&*path)
                || main.lines().any(|line| line == format!("mod {name};"));
            assert!(
                !rust || known,
                "{} is no module of main.rs, and so never runs",
                path.display()
            );
        }
    }
}

/// No file has so much in it that it has several subjects. Longer ones were divided.
#[test]
fn files_are_of_one_subject() {
    for file in sources(&root().join("crates")) {
        let lines = std::fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines <= 1_200, "{} has {lines} lines: divide it by subject", file.display());
    }
}

/// What is measured or counted, in the words of comments.
const UNITS: &str = "ns nanoseconds seconds bytes second percent percentages joules watts degree share ratio \
    factor amplification unit i/os sectors commands bios requests reads writes trims flushes lines ways luns lun \
    channels drives members samples times erasures erases blocks units pages runs look-ups rebuilds \
    switches interrupts looks events loads stores load store calls programs waits slices operations \
    completions handlers entries sleeps losses submitters plugs tokens orders windows bits drains nodes \
    stripes rows parities passes transfers loops cycles often";
/// Units in names.
const SUFFIXES: [&str; 7] = ["_ns", "_bytes", "_sectors", "_ios", "_w", "_j", "_share"];
/// These count nothing.
const NUMBERS: [&str; 9] =
    ["seed", "bins", "group", "number", "error", "disk", "node", "io", "counters"];
/// Crates whose records reach a result.
const COUNTING: [&str; 12] = [
    "app",
    "base",
    "device",
    "firmware",
    "fssd",
    "ftl",
    "host",
    "live",
    "md",
    "nand",
    "sim",
    "translation",
];

/// The public numbers of a file's records that serialise, with the comments of number and record.
/// Configurations have units of their own.
fn numbers(text: &str) -> Vec<(String, [String; 2])> {
    let numeric = ["u8", "u16", "u32", "u64", "usize", "i32", "i64", "f64", "PerClass"];
    let (mut found, mut comment) = (Vec::new(), String::new());
    let (mut serialises, mut counts, mut record) = (false, false, None);
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(more) = trimmed.strip_prefix("///") {
            comment = comment + " " + more;
            continue;
        }
        if trimmed.starts_with("#[") {
            serialises |= trimmed.starts_with("#[derive(") && trimmed.contains("Serialize");
            continue;
        }
        let own = std::mem::take(&mut comment);
        if let Some(name) = trimmed.strip_prefix("pub struct ") {
            let name = name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            let result = std::mem::take(&mut serialises) && trimmed.ends_with('{');
            record = (result && !name.ends_with("Config")).then_some(own);
            continue;
        }
        serialises = false;
        counts |= trimmed.ends_with("counters! {");
        if trimmed.starts_with('}') {
            (record, counts) = (None, counts && line.starts_with(' '));
        }
        let Some(of) = &record else { continue };
        let field = match trimmed.strip_prefix("pub ").and_then(|field| field.split_once(": ")) {
            Some((name, kind)) if !trimmed.contains(" fn ") => {
                let mut words = kind.split(|c: char| !c.is_alphanumeric());
                words.any(|word| numeric.contains(&word)).then_some(name)
            }
            _ => trimmed.strip_suffix(',').filter(|_| counts),
        };
        found.extend(field.map(|name| (name.to_string(), [own, of.clone()])));
    }
    found
}

/// What a number of a result is in stands in its name, in its comment, or in that of its record.
#[test]
fn numbers_of_results_have_units() {
    let units: Vec<&str> = UNITS.split_whitespace().collect();
    let has = |comment: &str, units: &[&str]| {
        let told = comment.to_lowercase();
        let mut told = told.split(|c: char| !(c.is_alphanumeric() || "/-".contains(c)));
        told.any(|word| units.contains(&word))
    };
    let (mut seen, mut without) = (0, Vec::new());
    for name in COUNTING {
        for file in sources(&root().join("crates").join(name).join("src")) {
            let text = std::fs::read_to_string(&file).unwrap();
            for (field, [own, record]) in numbers(&text) {
                seen += 1;
                let told = NUMBERS.contains(&&*field)
                    || SUFFIXES.iter().any(|end| field.ends_with(end))
                    || has(&own, &units)
                    || has(&record, &["nanoseconds", "joules", "bytes"]);
                if !told || own.trim_start().starts_with("...") {
                    let file = file.strip_prefix(root()).unwrap().display();
                    without.push(format!("{file}: {field}:{own}"));
                }
            }
        }
    }
    assert!(seen > 450, "{seen} numbers: the test sees few of them");
    assert!(without.is_empty(), "what are these in?\n{}", without.join("\n"));
}
