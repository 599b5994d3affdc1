//! A digest of sources, for the build scripts that want one. Nothing of it is in the crates.
#![allow(dead_code)] // Each script uses a part.

use std::path::{Path, PathBuf};

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

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

/// The workspace's crates that one is built with, itself among them, by their folders' names in `crates`. What
/// only tests need decides nothing. `but`: crates that are left out, with what they need.
pub fn needed(crates: &Path, of: &str, but: &[&str]) -> Vec<String> {
    let mut found = vec![of.to_owned()];
    let mut next = 0;
    while let Some(name) = found.get(next) {
        next += 1;
        let manifest = read(&crates.join(name).join("Cargo.toml"));
        let manifest = String::from_utf8(manifest).expect("Cargo reads it");
        let needed = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        for line in needed.lines() {
            let Some((package, _)) = line.split_once(['.', ' ', '=']) else { continue };
            let name = match package.strip_prefix("wordline-") {
                Some(name) => name,
                None if package == "wordline" => package,
                None => continue,
            };
            if !but.contains(&name) && found.iter().all(|known| known != name) {
                found.push(name.to_owned());
            }
        }
    }
    found
}

/// FNV-1a of 128 bits.
pub struct Hash(pub u128);

impl Hash {
    /// Of names below `root` and contents, without the files `but`. The build script runs again when one of
    /// all of them changes.
    pub fn of(root: &Path, folders: &[PathBuf], files: &[PathBuf], but: &[PathBuf]) -> Hash {
        let mut found = files.to_vec();
        for file in files {
            println!("cargo::rerun-if-changed={}", file.display());
        }
        for folder in folders {
            println!("cargo::rerun-if-changed={}", folder.display());
            add(folder, &mut found);
        }
        found.retain(|file| !but.contains(file));
        found.sort();
        let mut hash = Hash(0x6C62_272E_07BB_0142_62B8_2175_6295_C58D);
        for file in found {
            let name = file.strip_prefix(root).unwrap_or(&file);
            hash.mix(name.to_string_lossy().as_bytes());
            hash.mix(&read(&file));
        }
        hash
    }
    pub fn mix(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 =
                (self.0 ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013B);
        }
    }
}
