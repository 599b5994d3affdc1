//! Memory that a drive's state takes, and what the system has.

use std::time::{Duration, Instant};
use wordline::{Ended, Plan, Watch};
use wordline_nand::Geometry;

/// Bytes that a sector takes on a fresh drive: its entry of the map.
const BYTES_MAPPED: u64 = 5;
/// Bytes that it takes beyond that once it is written: the reverse map and valid bits.
const BYTES_WRITTEN: u64 = 5;
/// Bytes of its version stamps, with what flash holds of it and room for those that a run writes.
const BYTES_STAMP: u64 = 4;
/// Of a unit of flash where the map is a tree of extents: the first number that it holds, how many it holds, and how
/// many are in use.
const TREE_UNIT: u64 = 10;
/// Versions of a unit that was written in order.
const TREE_UNIT_STAMPS: u64 = 6;
/// A unit's entry of the map, in the full leaves of a drive that was filled in order.
const TREE_UNIT_ENTRY: u64 = 13;
/// What flash holds, of a sector in a unit that was not written in order.
const TREE_SECTOR: u64 = 4;
/// The newest version of a sector, on a drive that was filled.
const TREE_BYTE: u64 = 1;
/// The newest version of a sector and that on flash, once they are words.
const TREE_STAMP: u64 = 8;
/// Bytes of an entry of the tree, in nodes that random insertion leaves 69 % full.
const TREE_ENTRY: u64 = 18;
/// Entries that a write in the middle of another adds.
const TREE_SPLIT: u64 = 2;
/// A write makes words of so many bytes of versions at most.
const TREE_WIDENED: u64 = 256;
/// A version that is a word.
const TREE_WORD: u64 = 4;

/// What RAID-5 reads and writes.
const PAGE: u64 = 4096;

/// How much of a drive was written, and in which order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// Nothing.
    Nothing,
    /// All of it once, from end to end.
    InOrder,
    /// All of it, in any order.
    InAnyOrder,
}

/// Bytes that the state of a drive with so many sectors takes.
pub fn needed(sectors: u64, written: bool, integrity: bool) -> u64 {
    let stamp = if written && integrity { BYTES_STAMP } else { 0 };
    sectors * (BYTES_MAPPED + stamp + if written { BYTES_WRITTEN } else { 0 })
}

/// A drive whose map is a tree.
#[derive(Clone, Copy, Debug)]
pub struct TreeDrive {
    /// Its sectors.
    pub sectors: u64,
    /// Sectors of a unit.
    pub unit: u64,
    /// Sectors of the smallest write.
    pub extent: u64,
    /// Versions are kept.
    pub integrity: bool,
}

impl TreeDrive {
    /// Bytes that its state takes.
    pub fn needed(&self, written: Written) -> u64 {
        let TreeDrive { sectors, unit, extent, integrity } = *self;
        let units = sectors / unit.max(1);
        let kept =
            |of_unit, of_sector| if integrity { units * of_unit + sectors * of_sector } else { 0 };
        match written {
            Written::Nothing => 0,
            Written::InOrder => {
                units * (TREE_UNIT + TREE_UNIT_ENTRY) + kept(TREE_UNIT_STAMPS, TREE_BYTE)
            }
            Written::InAnyOrder => {
                let entries = sectors / extent.max(1);
                let map = units * TREE_UNIT + sectors * TREE_SECTOR + entries * TREE_ENTRY;
                map + kept(TREE_UNIT_STAMPS, TREE_STAMP)
            }
        }
    }
    /// The same once so many writes were made to it, each somewhere else.
    pub fn grown(&self, written: Written, writes: u64) -> u64 {
        let (now, most) = (self.needed(written), self.needed(Written::InAnyOrder));
        let (held, newest) = match self.integrity {
            true => (TREE_WORD, writes.saturating_mul(TREE_WIDENED).min(self.sectors * TREE_WORD)),
            false => (0, 0),
        };
        let of_write = TREE_SPLIT * TREE_ENTRY + self.extent * (TREE_SECTOR + held);
        let grown = writes.saturating_mul(of_write).saturating_add(newest);
        now.saturating_add(grown).min(most.max(now))
    }
}

/// Bytes that the states of all drives of a plan take, with what its jobs will write, as far as they say how much.
/// None where a drive has a shape that cannot be; building it will refuse that.
pub fn of_plan(plan: &Plan, written: Written, integrity: bool) -> Option<u64> {
    let machine = plan.system.machine();
    let drives = &machine.drives;
    // With parity a small write is two, of whole pages.
    let (least, writes) = match machine.arrays.iter().any(|array| array.level.parities() > 0) {
        true => (plan.least_write().max(PAGE), plan.random_writes().saturating_mul(2)),
        false => (plan.least_write(), plan.random_writes()),
    };
    // Each drive gets a part of the writes.
    let writes = writes.div_ceil(drives.len().max(1) as u64);
    let mut sum = 0;
    for drive in drives {
        let geometry = Geometry::new(&drive.config.nand).ok()?;
        let sectors = geometry.sectors();
        sum += match drive.config.ftl.fssd {
            None => needed(sectors, written == Written::InAnyOrder, integrity),
            Some(_) => {
                let extent = least.div_ceil(geometry.sector.bytes());
                let unit = geometry.sectors_per_unit.into();
                TreeDrive { sectors, unit, extent, integrity }.grown(written, writes)
            }
        };
    }
    Some(sum)
}

/// So little is left that the system may soon end the program.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{} MiB of memory are left: {ends} here, before the system ends it. What was written at random takes memory, in \
     a map of extents and in versions of sectors: use {}, or fewer writes", .left >> 20, .by.remedy()
)]
pub struct Short {
    /// Bytes that are left.
    left: u64,
    /// What goes no further.
    ends: &'static str,
    by: By,
}

/// Who looks, which says how less memory is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// A run of the command line.
    Command,
    /// A study, whose points run at the same time.
    Study,
    /// A run from Python.
    Python,
}

impl By {
    fn remedy(self) -> &'static str {
        match self {
            By::Command => "--scale, --no-integrity",
            By::Study => {
                "fewer --jobs (points that run at once), --scale quick, integrity = false in the study"
            }
            By::Python => "scale, integrity=False",
        }
    }
    fn ends(self) -> &'static str {
        match self {
            By::Command | By::Python => "the run ends",
            By::Study => "the point ends",
        }
    }
}

/// Looks at what memory is left while drives are aged or run whose state grows with what is written.
pub struct MemoryWatch {
    grows: bool,
    looked: Instant,
    between: Duration,
    left: fn() -> Option<u64>,
    by: By,
}

impl MemoryWatch {
    /// For the drives of a plan: a map that is a tree of extents grows.
    pub fn of(plan: &Plan, by: By) -> MemoryWatch {
        let grows = plan.system.machine().drives.iter().any(|d| d.config.ftl.fssd.is_some());
        MemoryWatch { grows, looked: Instant::now(), between: LOOK, left: available, by }
    }
    /// Looks each time, at what `left` says.
    #[cfg(test)]
    pub(crate) fn at_once(plan: &Plan, left: fn() -> Option<u64>) -> MemoryWatch {
        MemoryWatch { between: Duration::ZERO, left, ..MemoryWatch::of(plan, By::Study) }
    }
    /// Little is left for the run, if the last look was some time ago and this one shows it.
    pub fn short(&mut self) -> Option<Short> {
        self.ends(self.by.ends())
    }
    fn ends(&mut self, ends: &'static str) -> Option<Short> {
        if !self.grows || self.looked.elapsed() < self.between {
            return None;
        }
        self.looked = Instant::now();
        let left = little((self.left)())?;
        Some(Short { left, ends, by: self.by })
    }
}

/// The look while drives are aged and files laid.
impl Watch for MemoryWatch {
    fn look(&mut self) -> Result<(), Ended> {
        let short = self.ends("preparing the drive ends");
        short.map_or(Ok(()), |short| Err(Ended { why: short.to_string() }))
    }
}

/// Wall time between two looks.
const LOOK: Duration = Duration::from_millis(200);

fn little(left: Option<u64>) -> Option<u64> {
    left.filter(|&left| left < LEAST)
}
/// A run goes on while so many bytes are left: it takes less between two looks.
const LEAST: u64 = 256 << 20;

/// What the system says is left, and no more than the group of processes may have. Files that the group has in the
/// page cache are given up for it.
pub fn available() -> Option<u64> {
    let number = |path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let free = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10;
    let files = || {
        let stat = std::fs::read_to_string("/sys/fs/cgroup/memory.stat").unwrap_or_default();
        let of = |line: &str| {
            let (name, bytes) = line.split_once(' ')?;
            matches!(name, "active_file" | "inactive_file").then(|| bytes.parse::<u64>().ok())?
        };
        stat.lines().filter_map(of).sum::<u64>()
    };
    let of_group = number("/sys/fs/cgroup/memory.max")
        .zip(number("/sys/fs/cgroup/memory.current"))
        .map_or(u64::MAX, |(max, current)| max.saturating_sub(current.saturating_sub(files())));
    Some(free.min(of_group))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(extent: u64, integrity: bool) -> TreeDrive {
        TreeDrive { sectors: 1 << 30, unit: 32, extent, integrity }
    }

    /// Single sectors at random are what makes a tree large.
    #[test]
    fn a_tree_grows_with_what_is_written_to_random_places() {
        let all = |extent| drive(extent, false).needed(Written::InAnyOrder);
        assert!(all(1) > 3 * all(8));
        let fssd = drive(1, true);
        let filled = fssd.needed(Written::InOrder);
        assert!(filled < 2 << 30 && fssd.needed(Written::Nothing) == 0);
        let grown = |writes| fssd.grown(Written::InOrder, writes);
        assert_eq!((grown(0), grown(u64::MAX)), (filled, fssd.needed(Written::InAnyOrder)));
        assert_eq!(grown(1 << 20) - filled, (36 + 8 + 256) << 20);
        assert_eq!(grown(1 << 26) - filled, (36 + 8) << 26 | 4 << 30);
        // Small units have more to tell of each sector.
        let of = |unit| TreeDrive { unit, ..drive(1, false) }.needed(Written::InOrder);
        assert_eq!(of(8), 4 * of(32));
    }

    #[test]
    fn less_than_256_mib_are_little() {
        assert_eq!([Some(1 << 30), None, Some(99 << 20)].map(little), [None, None, Some(99 << 20)]);
    }

    /// Each is told what it can ask for.
    #[test]
    fn little_memory_is_told_in_the_words_of_who_looks() {
        let told = |by: By, ends| Short { left: 99 << 20, ends, by }.to_string();
        let command = told(By::Command, By::Command.ends());
        let parts = ["99 MiB of memory are left: the run ends here", "--scale, --no-integrity"];
        assert!(parts.iter().all(|part| command.contains(part)), "{command}");
        let study = told(By::Study, By::Study.ends());
        let parts = ["the point ends here", "--jobs", "--scale quick", "integrity = false"];
        assert!(parts.iter().all(|part| study.contains(part)), "{study}");
        assert!(!study.contains("--no-integrity"), "{study}");
        let python = told(By::Python, By::Python.ends());
        assert!(
            python.contains("use scale, integrity=False") && !python.contains("--"),
            "{python}"
        );
    }
}
