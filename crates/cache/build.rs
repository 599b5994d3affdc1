//! A digest of the sources that decide what an aged drive is: builds that differ in others can share one.

mod sources;

use std::path::Path;

/// What draws writes, and what places them.
const CRATES: [&str; 13] = [
    "base",
    "nand",
    "translation",
    "firmware",
    "fssd",
    "ftl",
    "device",
    "md",
    "fio",
    "trace",
    "app",
    "sim",
    "wordline",
];

fn main() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = CRATES.map(|name| crates.join(name).join("src"));
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=sources.rs");
    let sources::Hash(hash) =
        sources::Hash::of(&crates, &folders, &[crates.join("../Cargo.lock")], &[]);
    println!("cargo::rustc-env=WORDLINE_AGEING_SOURCES={hash:032x}");
}
