//! Results by class of I/O.

use crate::result::{ClassLatency, ClassRow, DirResult, DriveClass, ThreadResult};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use wordline_base::{Ddir, Histogram, IoClass, Workload};
use wordline_device::{CachedClass, OPCODES};
use wordline_nvme::Opcode;

impl DirResult {
    /// Counts a finished I/O under its class, before it is counted among all. What came before the first
    /// I/O of another class than the thread's is the thread's; `others` are those that may come.
    #[cold]
    pub fn add_class(
        &mut self,
        class: IoClass,
        thread: IoClass,
        others: &[IoClass],
        slat: u64,
        clat: u64,
    ) {
        if self.classes.is_empty() {
            let (clat, lat) = (self.clat.clone(), self.lat.clone());
            self.classes.push(ClassLatency { class: thread, clat, lat });
            others.iter().for_each(|&other| _ = self.class_mut(other.or(thread)));
        }
        let of = self.class_mut(class);
        of.clat.add(clat);
        of.lat.add(slat + clat);
    }

    fn class_mut(&mut self, class: IoClass) -> &mut ClassLatency {
        let found = self.classes.iter().position(|c| c.class == class);
        let at = found.unwrap_or_else(|| {
            let (clat, lat) = (Histogram::new(), Histogram::new());
            self.classes.push(ClassLatency { class, clat, lat });
            self.classes.len() - 1
        });
        &mut self.classes[at]
    }
}

/// Latency by direction and class, ascending, over threads; nothing where there is one class.
pub(crate) fn rows<T: Borrow<ThreadResult>>(threads: impl IntoIterator<Item = T>) -> Vec<ClassRow> {
    let mut sums: BTreeMap<(usize, IoClass, bool), Histogram> = BTreeMap::new();
    for thread in threads {
        let thread = thread.borrow();
        let ends = |class: IoClass| thread.over_network && class.workload() != Workload::None;
        for (d, dir) in thread.dirs.iter().enumerate() {
            if dir.classes.is_empty() && !dir.lat.is_empty() {
                let key = (d, thread.class, ends(thread.class));
                sums.entry(key).or_default().merge(&dir.lat);
            }
            for c in dir.classes.iter().filter(|c| !c.lat.is_empty()) {
                sums.entry((d, c.class, ends(c.class))).or_default().merge(&c.lat);
            }
        }
    }
    let first = sums.keys().next().map(|key| (key.1, key.2));
    if sums.keys().all(|key| Some((key.1, key.2)) == first) {
        return Vec::new();
    }
    sums.into_iter()
        .map(|((d, class, ends_at_network), h)| ClassRow {
            ddir: Ddir::RW[d].name().to_string(),
            class,
            ends_at_network,
            count: h.len(),
            mean_ns: h.mean(),
            p50_ns: h.percentile(50.0),
            p99_ns: h.percentile(99.0),
            p99_9_ns: h.percentile(99.9),
            max_ns: h.max(),
        })
        .collect()
}

/// Commands by class and opcode.
type ByClass = [(IoClass, [u64; OPCODES.len()])];

/// What came to the drive of each class; nothing if no command has one.
pub(crate) fn of_drive(by_class: &ByClass, cached: &[CachedClass]) -> Vec<DriveClass> {
    if by_class.iter().all(|(class, _)| *class == IoClass::NONE) {
        return Vec::new();
    }
    let row = |(class, counts): &(IoClass, [u64; OPCODES.len()])| {
        let of = |wanted: &[Opcode]| {
            let counts = OPCODES.iter().zip(counts);
            counts.filter(|(o, _)| wanted.contains(o)).map(|(_, n)| n).sum()
        };
        let cached = cached.iter().find(|c| c.class == *class);
        DriveClass {
            class: *class,
            reads: of(&[Opcode::Read, Opcode::VectorRead]),
            writes: of(&[Opcode::Write, Opcode::VectorWrite, Opcode::VectorStage]),
            flushes: of(&[Opcode::Flush]),
            trims: of(&[Opcode::Deallocate]),
            resets: of(&[Opcode::VectorReset]),
            cached_lines: cached.map_or(0, |c| c.lines),
            read_hits: cached.map_or(0, |c| c.hits),
            read_misses: cached.map_or(0, |c| c.misses),
        }
    };
    by_class.iter().map(row).collect()
}
