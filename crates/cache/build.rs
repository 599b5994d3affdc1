//! A digest of the sources that decide what an aged drive is: builds that differ in others can share one.

use std::path::{Path, PathBuf};

/// What draws writes, and what places them.
const CRATES: [&str; 12] = [
    "base",
    "nand",
    "translation",
    "firmware",
    "fssd",
    "ftl",
    "device",
    "md",
    "fio",
    "app",
    "sim",
    "wordline",
];

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

fn main() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = vec![crates.join("../Cargo.lock")];
    for name in CRATES {
        let folder = crates.join(name).join("src");
        println!("cargo::rerun-if-changed={}", folder.display());
        sources(&folder, &mut files);
    }
    println!("cargo::rerun-if-changed={}", files[0].display());
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
        add(&std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display())));
    }
    println!("cargo::rustc-env=WORDLINE_AGEING_SOURCES={hash:032x}");
}
