//! A digest of the sources that this module is built of: builds of the same sources give the same results.

#[path = "../crates/cache/sources.rs"]
mod sources;

use std::path::{Path, PathBuf};

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let crates = root.join("crates");
    let needed = sources::needed(&crates, "../python", &[]);
    // Profiles are part of the module.
    let folders = needed.iter().map(|name| crates.join(name).join("src"));
    let folders: Vec<PathBuf> = folders.chain([root.join("profiles")]).collect();
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../crates/cache/sources.rs");
    let sources::Hash(hash) = sources::Hash::of(&root, &folders, &[root.join("Cargo.lock")], &[]);
    println!("cargo::rustc-env=WORDLINE_PYTHON_SOURCES={hash:032x}");
}
