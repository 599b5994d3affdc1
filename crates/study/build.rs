//! A digest of the sources that decide what a point's result is: programs that differ in others, or in how they were
//! built from the same ones, read each other's results.

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

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// All files of a folder. One that is not there would pass for one that never changes.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder);
    let entries = entries.unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries {
        let path = entry.unwrap_or_else(|e| panic!("{}: {e}", folder.display())).path();
        match path.is_dir() {
            true => sources(&path, found),
            false => found.push(path),
        }
    }
}

/// The crates of the workspace that a crate is built with, itself among them.
fn with_needed(crates: &Path, name: &str, found: &mut Vec<String>) {
    if OTHERS.contains(&name) || found.iter().any(|known| known == name) {
        return;
    }
    found.push(name.to_owned());
    let manifest = read(&crates.join(name).join("Cargo.toml"));
    let manifest = String::from_utf8(manifest).expect("Cargo reads it");
    // What only tests need decides nothing.
    let needed = manifest.split("[dev-dependencies]").next().unwrap_or_default();
    for line in needed.lines() {
        let name = match line.strip_prefix("wordline-") {
            Some(rest) => rest.split(['.', ' ', '=']).next().unwrap_or_default(),
            None if line.starts_with("wordline.") || line.starts_with("wordline ") => "wordline",
            None => continue,
        };
        with_needed(crates, name, found);
    }
}

fn main() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut names = Vec::new();
    with_needed(&crates, "study", &mut names);
    let mut files = vec![crates.join("../Cargo.lock"), crates.join("../Cargo.toml")];
    for name in &names {
        let folder = crates.join(name);
        let mut of_crate = vec![folder.join("Cargo.toml")];
        sources(&folder.join("src"), &mut of_crate);
        if name == "study" {
            let after = |path: &PathBuf| {
                AFTER.iter().any(|file| path.ends_with(Path::new("src").join(file)))
            };
            of_crate.retain(|path| !after(path));
        }
        println!("cargo::rerun-if-changed={}", folder.join("src").display());
        println!("cargo::rerun-if-changed={}", folder.join("Cargo.toml").display());
        files.append(&mut of_crate);
    }
    println!("cargo::rerun-if-changed={}", files[0].display());
    println!("cargo::rerun-if-changed={}", files[1].display());
    println!("cargo::rerun-if-changed=build.rs");
    files.sort();
    // FNV-1a of 128 bits, over names and contents.
    let mut hash = 0x6C62_272E_07BB_0142_62B8_2175_6295_C58D_u128;
    let mut add = |bytes: &[u8]| {
        for &byte in bytes {
            hash =
                (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013B);
        }
    };
    for file in files {
        let name = file.strip_prefix(&crates).unwrap_or(&file);
        add(name.to_string_lossy().as_bytes());
        add(&read(&file));
    }
    // Functions of the standard library and of the target's C library.
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let compiler = Command::new(var("RUSTC")).arg("-vV").output();
    add(&compiler.unwrap_or_else(|e| panic!("the compiler does not tell its version: {e}")).stdout);
    for name in ["TARGET", "CARGO_CFG_TARGET_FEATURE"] {
        add(var(name).as_bytes());
    }
    println!("cargo::rustc-env=WORDLINE_RESULT_SOURCES={hash:032x}");
}
