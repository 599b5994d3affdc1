//! Memory that a drive's state takes, and what the system has.

use wordline::Plan;
use wordline_nand::Geometry;

/// Memory a sector takes: its entry of the map on a fresh drive, and beyond that the reverse map
/// and valid bits once it is written, and its version stamps with what flash holds of it and room for those
/// that a run writes.
const BYTES_MAPPED: u64 = 5;
const BYTES_WRITTEN: u64 = 5;
const BYTES_STAMP: u64 = 4;
/// The same where the map is a tree of extents, which has none for sectors of its own: a fresh drive or one that is
/// filled in order, what flash holds of a sector once they are written in any order, and its versions.
const TREE_FRESH: u64 = 2;
const TREE_WRITTEN: u64 = 5;
const TREE_STAMP: u64 = 8;
/// Bytes of an entry of the tree, in nodes that random insertion leaves 69 % full.
const TREE_ENTRY: u64 = 18;

/// Bytes that the state of a drive with so many sectors takes.
pub fn needed(sectors: u64, written: bool, integrity: bool) -> u64 {
    let stamp = if written && integrity { BYTES_STAMP } else { 0 };
    sectors * (BYTES_MAPPED + stamp + if written { BYTES_WRITTEN } else { 0 })
}

/// The same with a map that is a tree, written in extents of so many sectors.
pub fn needed_by_tree(sectors: u64, extent: u64, written: bool, integrity: bool) -> u64 {
    if !written {
        return sectors * TREE_FRESH;
    }
    let stamp = if integrity { TREE_STAMP } else { 0 };
    sectors * (TREE_WRITTEN + stamp) + sectors / extent.max(1) * TREE_ENTRY
}

/// Bytes that the states of all drives of a plan take. `written`: in any order, not only once from end to end.
/// None where a drive has a shape that cannot be; building it will refuse that.
pub fn of_plan(plan: &Plan, written: bool, integrity: bool) -> Option<u64> {
    let least = plan.least_write();
    let mut sum = 0;
    for drive in &plan.system.machine().drives {
        let geometry = Geometry::new(&drive.config.nand).ok()?;
        let sectors = geometry.sectors();
        sum += match drive.config.ftl.fssd {
            None => needed(sectors, written, integrity),
            Some(_) => {
                let extent = least.div_ceil(geometry.sector.bytes());
                needed_by_tree(sectors, extent, written, integrity)
            }
        };
    }
    Some(sum)
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
