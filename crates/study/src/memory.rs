//! Memory that a drive's state takes, and what the system has.

/// Memory a sector takes: its entry of the map on a fresh drive, and beyond that the reverse map
/// and valid bits once it is written, and its version stamps with what flash holds of it and room for those
/// that a run writes.
const BYTES_MAPPED: u64 = 5;
const BYTES_WRITTEN: u64 = 5;
const BYTES_STAMP: u64 = 4;

/// Of a drive with so many sectors.
pub fn needed(sectors: u64, written: bool, integrity: bool) -> u64 {
    let stamp = if written && integrity { BYTES_STAMP } else { 0 };
    sectors * (BYTES_MAPPED + stamp + if written { BYTES_WRITTEN } else { 0 })
}

/// What the system says is left, and no more than the group of processes may have.
pub fn available() -> Option<u64> {
    let number = |path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let free = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10;
    let of_group = number("/sys/fs/cgroup/memory.max")
        .zip(number("/sys/fs/cgroup/memory.current"))
        .map_or(u64::MAX, |(max, current)| max.saturating_sub(current));
    Some(free.min(of_group))
}
