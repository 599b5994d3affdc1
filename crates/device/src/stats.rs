//! What the drive did: counts, busy times, waits and energy, as of an instant.

use crate::cache::CacheStats;
use crate::guard::GuardStats;
use crate::power::PowerStats;
use serde::Serialize;
use wordline_base::IoClass;
use wordline_nvme::Opcode;

/// All opcodes, in the order of the counters.
pub const OPCODES: [Opcode; 10] = [
    Opcode::Flush,
    Opcode::Write,
    Opcode::Read,
    Opcode::Deallocate,
    Opcode::VectorReset,
    Opcode::VectorWrite,
    Opcode::VectorRead,
    Opcode::VectorStage,
    Opcode::GcCounts,
    Opcode::GcCollect,
];

#[inline]
pub(crate) fn slot(opcode: Opcode) -> usize {
    match opcode {
        Opcode::Flush => 0,
        Opcode::Write => 1,
        Opcode::Read => 2,
        Opcode::Deallocate => 3,
        Opcode::VectorReset => 4,
        Opcode::VectorWrite => 5,
        Opcode::VectorRead => 6,
        Opcode::VectorStage => 7,
        Opcode::GcCounts => 8,
        Opcode::GcCollect => 9,
    }
}

/// Nanoseconds commands waited, summed over commands. Waits of parallel commands add up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Waits {
    /// In a submission queue, from the doorbell's arrival to the fetch.
    pub queue: u64,
    /// For either direction of the link.
    pub link: u64,
    /// For a firmware core.
    pub firmware: u64,
    /// For the device's limits.
    pub limits: u64,
    /// For cache memory's bandwidth.
    pub cache_copy: u64,
}

/// Joules by part.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Energy {
    /// Controller and DRAM, whether they work or not.
    pub idle: f64,
    /// Cores of the firmware while they work.
    pub firmware: f64,
    /// Both directions of the link.
    pub link: f64,
    /// The arrays while they read.
    pub nand_read: f64,
    /// The arrays while they program.
    pub nand_program: f64,
    /// The arrays while they erase.
    pub nand_erase: f64,
    /// The channels while they transfer.
    pub nand_transfer: f64,
}

impl Energy {
    /// The sum of all parts.
    pub fn total(&self) -> f64 {
        self.idle
            + self.firmware
            + self.link
            + self.nand_read
            + self.nand_program
            + self.nand_erase
            + self.nand_transfer
    }
}

/// What energy is used for, in nanojoules.
pub const ENERGY_STATES: [&str; 5] = ["idle", "controller", "read", "write", "gc"];

/// Counts that grow as commands pass.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub commands_in: [u64; OPCODES.len()],
    pub commands_out: [u64; OPCODES.len()],
    pub failed: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Data of writes that succeeded.
    pub bytes_taken: u64,
    /// Writes that failed.
    pub failed_writes: u64,
    pub lost_write_backs: u64,
    pub rmw_units: u64,
    pub rmw_read_bytes: u64,
    pub rmw_waits: u64,
    pub waits: Waits,
}

/// Counters of commands, by the class of their I/O. What counters rose by since the class changed is the last
/// command's class', so that a command of the same class as the one before costs a comparison.
#[derive(Clone, Debug)]
pub(crate) struct ByClass<const N: usize> {
    last: IoClass,
    /// What had been counted when it became the last.
    before: [u64; N],
    rows: Vec<(IoClass, [u64; N])>,
}

impl<const N: usize> Default for ByClass<N> {
    fn default() -> ByClass<N> {
        ByClass { last: IoClass::default(), before: [0; N], rows: Vec::new() }
    }
}

impl<const N: usize> ByClass<N> {
    /// A command of this class comes; `counted` is what was counted before it.
    #[inline]
    pub fn see(&mut self, class: IoClass, counted: impl FnOnce() -> [u64; N]) {
        if class != self.last {
            self.settle(&counted());
            self.last = class;
        }
    }
    #[cold]
    #[inline(never)]
    fn settle(&mut self, counted: &[u64; N]) {
        if self.before == *counted {
            return;
        }
        let at = self.rows.iter().position(|row| row.0 == self.last).unwrap_or_else(|| {
            self.rows.push((self.last, [0; N]));
            self.rows.len() - 1
        });
        let sums = self.rows[at].1.iter_mut().zip(counted.iter().zip(&self.before));
        sums.for_each(|(sum, (now, then))| *sum += now - then);
        self.before = *counted;
    }
    /// By class, ascending, once so much is counted.
    pub fn rows(&self, counted: &[u64; N]) -> Vec<(IoClass, [u64; N])> {
        let mut all = self.clone();
        all.settle(counted);
        all.rows.sort_by_key(|row| row.0);
        all.rows
    }
}

/// What the cache had for commands of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CachedClass {
    /// The class.
    pub class: IoClass,
    /// Lines that hold data and that such a command wrote to or had filled last.
    pub lines: u64,
    /// Sectors read that were there.
    pub hits: u64,
    /// Sectors read that were neither there nor on their way; those looked up again count again.
    pub misses: u64,
}

/// What the commands of a partition of the cache did, or of the whole cache if it is not split.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CachePartition {
    /// `latency` or `throughput`.
    pub name: &'static str,
    /// What its commands did.
    pub stats: CacheStats,
    /// Lines that hold data its commands brought in.
    pub lines: u64,
    /// Ways of each set that are its own now.
    pub ways: u32,
    /// When it had so many, in nanoseconds.
    pub ways_over_time: Vec<(u64, u32)>,
    /// When so many sectors were kept ahead of a stream; where ghosts choose.
    pub ahead_over_time: Vec<(u64, u32)>,
}

/// What a controller did, as of an instant.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DeviceStats {
    /// Commands fetched, by opcode, in the order of [`OPCODES`].
    pub commands_in: [u64; OPCODES.len()],
    /// Commands completed, in the same order.
    pub commands_out: [u64; OPCODES.len()],
    /// Commands fetched, by the class of their I/O and opcode. An FTL on the host has none for what it
    /// asks for by itself.
    pub by_class: Vec<(IoClass, [u64; OPCODES.len()])>,
    /// Commands that completed with another status than success.
    pub failed: u64,
    /// Bytes sent to the host.
    pub bytes_read: u64,
    /// Bytes received from the host.
    pub bytes_written: u64,
    /// Data of writes that succeeded.
    pub bytes_taken: u64,
    /// Writes that failed.
    pub failed_writes: u64,
    /// Interrupts sent.
    pub interrupts: u64,
    /// Lines whose write-back the FTL refused: acknowledged data are gone.
    pub lost_write_backs: u64,
    /// Sectors of 4 KiB that were written in part.
    pub rmw_units: u64,
    /// Bytes of these that came from flash first.
    pub rmw_read_bytes: u64,
    /// Writes and trims that waited for another of a sector written in part.
    pub rmw_waits: u64,
    /// Commands fetched from each submission queue.
    pub fetched: Vec<(u16, u64)>,
    /// Absent without a guard.
    pub guard: Option<GuardStats>,
    /// Absent without a limit of power.
    pub power: Option<PowerStats>,
    /// Nanoseconds that commands waited, by what for.
    pub waits: Waits,
    /// Bytes a second of one direction of the link.
    pub link_rate: u64,
    /// Nanoseconds in which the link carried something to the device.
    pub link_to_device_busy_ns: u64,
    /// Nanoseconds in which the link carried something to the host.
    pub link_to_host_busy_ns: u64,
    /// Summed over the cores.
    pub firmware_busy_ns: u64,
    /// Nanoseconds in which each core worked.
    pub firmware_core_busy_ns: Vec<u64>,
    /// Nanoseconds in which each channel transferred.
    pub channel_busy_ns: Vec<u64>,
    /// Nanoseconds in which the decoders of each channel worked, their mean. Empty if decoding takes no time.
    pub decoder_busy_ns: Vec<u64>,
    /// Nanoseconds in which each LUN worked.
    pub lun_busy_ns: Vec<u64>,
    /// Absent without a cache.
    pub cache: Option<CacheStats>,
    /// The same by partition, where the cache is split or its read-ahead adapts.
    pub cache_partitions: Vec<CachePartition>,
    /// Lines of the cache that are dirty now.
    pub dirty_lines: u32,
    /// Joules since the start.
    pub energy: Energy,
}

impl DeviceStats {
    /// What is counted, by name. Busy times, energy, the cache and rows by class are apart.
    pub fn list(&self) -> [(&'static str, u64); 9] {
        [
            ("commands_in", self.commands_in.iter().sum()),
            ("commands_out", self.commands_out.iter().sum()),
            ("failed", self.failed),
            ("bytes_read", self.bytes_read),
            ("bytes_written", self.bytes_written),
            ("wait_queue_ns", self.waits.queue),
            ("wait_link_ns", self.waits.link),
            ("wait_firmware_ns", self.waits.firmware),
            ("wait_limits_ns", self.waits.limits),
        ]
    }
}
