//! `wordline cache`: aged drives that are kept.

use crate::args::CacheCommand;
use crate::error::{WordError, WorkError};
use crate::{Failure, output, remark};
use std::time::SystemTime;
use wordline_cache::{Cache, Entry};

pub fn cache(command: CacheCommand) -> Result<(), Failure> {
    let cache = Cache::of_user(Cache::MOST).ok_or(WordError::NoCache)?;
    let failed = |why: std::io::Error| WorkError::Cache { folder: cache.folder().into(), why };
    match command {
        CacheCommand::Path => output::print(&format!("{}\n", cache.folder().display())),
        CacheCommand::List => output::print(&listed(&cache.entries().map_err(failed)?)),
        CacheCommand::Clear => {
            let (drives, bytes) = cache.clear().map_err(failed)?;
            remark(&format!("removed {drives} aged drives, {}", size(bytes)));
            Ok(())
        }
    }
}

fn listed(entries: &[Entry]) -> String {
    let now = SystemTime::now();
    let mut rows = vec![["device", "ftl", "prepared", "size", "used", "file"].map(String::from)];
    for entry in entries {
        let file = entry.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let [device, ftl, prepared] = match &entry.about {
            Ok(kept) => [kept.device.clone(), kept.ftl.clone(), kept.prepared.into()],
            Err(_) => ["damaged", "", ""].map(String::from),
        };
        let used = ago(now.duration_since(entry.used).unwrap_or_default().as_secs());
        rows.push([device, ftl, prepared, size(entry.bytes), used, file]);
    }
    let widths: Vec<usize> =
        (0..5).map(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        for (cell, width) in row.iter().zip(&widths) {
            text += &format!("{cell:width$}  ");
        }
        text += &format!("{}\n", row[5]);
    }
    let all: u64 = entries.iter().map(|entry| entry.bytes).sum();
    text + &format!("{} aged drives, {}\n", entries.len(), size(all))
}

fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes < 1 << 20 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        bytes if bytes < 1 << 30 => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
        bytes => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

fn ago(seconds: u64) -> String {
    match seconds {
        s if s < 120 => format!("{s} s ago"),
        s if s < 7_200 => format!("{} min ago", s / 60),
        s if s < 172_800 => format!("{} h ago", s / 3_600),
        s => format!("{} days ago", s / 86_400),
    }
}
