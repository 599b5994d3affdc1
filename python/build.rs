//! A digest of the sources that this module is built of: builds of the same sources give the same results.

#[path = "../crates/cache/sources.rs"]
mod sources;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The package's own crates that one needs, itself among them, as Cargo.lock has them.
fn needed(lock: &str, of: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::from([of.to_string()]);
    loop {
        let before = names.len();
        for package in lock.split("[[package]]") {
            let quoted: Vec<&str> = package.split('"').skip(1).step_by(2).collect();
            let own = |name: &&&str| name.starts_with("wordline");
            if quoted.first().is_some_and(|name| names.contains(*name)) {
                names.extend(quoted.iter().filter(own).map(ToString::to_string));
            }
        }
        if names.len() == before {
            return names;
        }
    }
}

fn main() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.join("..");
    let lock = root.join("Cargo.lock");
    let text = std::fs::read_to_string(&lock).unwrap_or_else(|e| panic!("{}: {e}", lock.display()));
    let folder = |name: &String| match name.as_str() {
        "wordline-python" => here.join("src"),
        name => root.join("crates").join(name.trim_start_matches("wordline-")).join("src"),
    };
    let crates = needed(&text, "wordline-python");
    // Profiles are part of the module.
    let folders = crates.iter().map(folder).chain([root.join("profiles")]);
    let folders: Vec<PathBuf> = folders.collect();
    println!("cargo::rerun-if-changed=build.rs");
    let hash = sources::digest(&root, &folders, &[lock]);
    println!("cargo::rustc-env=WORDLINE_PYTHON_SOURCES={hash:032x}");
}
