//! What all hosts and drives did, as a whole and by interval.

use crate::result::array::ArrayResult;
use crate::result::direction::ClassRow;
use crate::result::direction::LayerTable;
use crate::result::drive::{DriveClass, DriveResult, DriveTotals, FlashUse, SwitchUse};
use crate::result::host::{CoreUse, HostReport};
use serde::Serialize;

/// What the machine did meanwhile: the `wordline` object of the JSON output.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Machine {
    /// Simulated time of the run.
    pub simulated_ns: u64,
    /// Events delivered.
    pub events: u64,
    /// I/Os that the workload made.
    pub generated: u64,
    /// I/Os that came back.
    pub served: u64,
    /// What all drives did; among its counters are the host's.
    #[serde(flatten)]
    pub totals: DriveTotals,
    /// Read, write, trim: where the time went.
    pub layers: Vec<LayerTable>,
    /// Latency by direction and class, of all threads, if there are two classes or more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassRow>,
    /// What came to the drive of each class; nothing if no command has one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drive_classes: Vec<DriveClass>,
    /// Cores of the host.
    pub cores: Vec<CoreUse>,
    /// What the cores did; none without a kernel or a cost.
    pub host: Option<HostReport>,
    /// Joules by what they were for, over time: end of the interval in ns, and within it.
    pub energy_over_time: Vec<(u64, [f64; 5])>,
    /// Interrupts that the drive raised.
    pub interrupts: u64,
    /// Requests of the host that were merged into others.
    pub merges: u64,
    /// Array by array.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arrays: Vec<ArrayResult>,
    /// Drive by drive, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<DriveResult>,
    /// Switch by switch, in the order of the machine's list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<SwitchUse>,
    /// The run in intervals.
    pub intervals: Intervals,
    /// LUN by LUN, of each drive with flash.
    pub flash: Vec<FlashUse>,
}

/// What came back in each interval and how late, and how the flash stood. All lists have an element for
/// each interval.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Intervals {
    /// Where each interval ends.
    pub end_ns: Vec<u64>,
    /// By direction, those that had I/Os.
    pub latency: Vec<DirectionOverTime>,
    /// Reads of users that came from flash, in pieces.
    pub flash_reads: Vec<u64>,
    /// Reads of users that came from flash and waited, in pieces.
    pub flash_reads_waited: Vec<u64>,
    /// Reads of users that came from flash and waited, by what they waited for longest, in pieces.
    pub reads_blocked: Vec<(String, Vec<u64>)>,
    /// None where an FTL has no lines.
    pub free_lines: Option<FreeLines>,
}

/// I/Os of one direction by interval.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DirectionOverTime {
    /// `read`, `write` or `trim`.
    pub ddir: String,
    /// From when to when threads that do it were in their ramp, and no other one counted: there nothing is known of what
    /// came back.
    pub uncounted_ns: Vec<[u64; 2]>,
    /// I/Os that came back and are counted.
    pub ios: Vec<u64>,
    /// Their bytes.
    pub bytes: Vec<u64>,
    /// Half of all are as fast or faster, to within 1/128; none where fewer than one I/O lies
    /// beyond.
    pub p50_ns: Vec<Option<u64>>,
    /// 99 of 100 are as fast or faster, as above.
    pub p99_ns: Vec<Option<u64>>,
    /// 999 of 1,000 are as fast or faster, as above.
    pub p99_9_ns: Vec<Option<u64>>,
    /// 9,999 of 10,000 are as fast or faster, as above.
    pub p99_99_ns: Vec<Option<u64>>,
    /// The slowest, to within 1/128.
    pub slowest_ns: Vec<Option<u64>>,
    /// Latencies between which [`DirectionOverTime::counts`] are: one more than there are counts.
    pub edges_ns: Vec<u64>,
    /// By interval, I/Os between each edge and the next.
    pub counts: Vec<Vec<u64>>,
}

/// Free lines of all drives.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FreeLines {
    /// Free lines at the end of each interval; of intervals that were put together the fewest.
    pub lines: Vec<u32>,
    /// Free lines below which the collector begins.
    pub collecting_below: f64,
    /// Free lines below which users' writes wait.
    pub writers_wait_below: f64,
}
