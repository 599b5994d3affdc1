//! A digest of the sources that decide what a point's result is: programs that differ in others, or in how they were
//! built from the same ones, read each other's results.

#[path = "../cache/sources.rs"]
mod sources;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Crates that no result comes from.
const OTHERS: [&str; 1] = ["page"];
/// Files of this crate that come after results: what reads, compares and shows them.
const AFTER: [&str; 12] = [
    "chart.rs",
    "claims.rs",
    "compare.rs",
    "document.rs",
    "expr.rs",
    "lib.rs",
    "metric.rs",
    "page.rs",
    "preset.rs",
    "published.rs",
    "svg.rs",
    "table.rs",
];

fn main() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let names = sources::needed(&crates, "study", &OTHERS);
    let folders: Vec<PathBuf> = names.iter().map(|name| crates.join(name).join("src")).collect();
    let manifests = names.iter().map(|name| crates.join(name).join("Cargo.toml"));
    let whole = ["../Cargo.lock", "../Cargo.toml"].map(|file| crates.join(file));
    let files: Vec<PathBuf> = manifests.chain(whole).collect();
    let after = AFTER.map(|file| crates.join("study/src").join(file));
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../cache/sources.rs");
    let mut hash = sources::Hash::of(&crates, &folders, &files, &after);
    // Functions of the standard library and of the target's C library.
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let compiler = Command::new(var("RUSTC")).arg("-vV").output();
    hash.mix(
        &compiler.unwrap_or_else(|e| panic!("the compiler does not tell its version: {e}")).stdout,
    );
    for name in ["TARGET", "CARGO_CFG_TARGET_FEATURE"] {
        hash.mix(var(name).as_bytes());
    }
    println!("cargo::rustc-env=WORDLINE_RESULT_SOURCES={:032x}", hash.0);
}
