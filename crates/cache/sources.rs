//! A digest of sources, for the build scripts that want one.

use std::path::{Path, PathBuf};

/// All files of a folder. One that is not there would pass for one that never changes.
fn add(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder);
    let entries = entries.unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries {
        let path = entry.unwrap_or_else(|e| panic!("{}: {e}", folder.display())).path();
        match path.is_dir() {
            true => add(&path, found),
            false => found.push(path),
        }
    }
}

/// FNV-1a of 128 bits, over names below `root` and contents. The build script runs again when one changes.
pub fn digest(root: &Path, folders: &[PathBuf], files: &[PathBuf]) -> u128 {
    let mut found = files.to_vec();
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    for folder in folders {
        println!("cargo::rerun-if-changed={}", folder.display());
        add(folder, &mut found);
    }
    found.sort();
    let mut hash = 0x6C62_272E_07BB_0142_62B8_2175_6295_C58D_u128;
    let mut mix = |bytes: &[u8]| {
        for &byte in bytes {
            hash =
                (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013B);
        }
    };
    for file in found {
        let name = file.strip_prefix(root).unwrap_or(&file);
        mix(name.to_string_lossy().as_bytes());
        mix(&std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display())));
    }
    hash
}
