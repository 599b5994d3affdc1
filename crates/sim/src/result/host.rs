//! Where a host spent its processor time and memory.

use serde::Serialize;
use wordline_host::function::CPU_OWNERS;
use wordline_host::stats::MEMORY_OWNERS;

/// What the cores did, function by function and over time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HostReport {
    /// Functions called, the longest first.
    pub functions: Vec<FunctionUse>,
    /// Nanoseconds of each function by core, in the same order.
    pub by_core: Vec<Vec<u64>>,
    /// Loads of all functions.
    pub loads: u64,
    /// Stores of all functions.
    pub stores: u64,
    /// Joules of busy cores.
    pub busy_j: f64,
    /// Joules of idle cores.
    pub idle_j: f64,
    /// Mean watts of all cores.
    pub watts: f64,
    /// With a governor: time of all cores in each idle state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub idle_states: Vec<IdleUse>,
    /// Interrupts handled.
    pub interrupts: u64,
    /// Switches from one thread to another.
    pub context_switches: u64,
    /// Looks of polling loops.
    pub looks: u64,
    /// Time of the cores by whom it was for: those who had any.
    pub cpu_by_owner: Vec<CpuOwner>,
    /// Time that each core was busy.
    pub cpu_by_core: Vec<CpuCore>,
    /// Memory by whom it was for, and of all together.
    pub memory_by_owner: Vec<MemoryOwner>,
    /// The run in intervals.
    pub over_time: Vec<HostRow>,
}

/// What the host did in an interval.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HostRow {
    /// Where the interval ends.
    pub end_ns: u64,
    /// User, system, interrupt and idle nanoseconds of all cores, looks, interrupts, context switches,
    /// loads, stores.
    pub totals: [u64; HOST_SERIES],
    /// Busy nanoseconds of all cores, by `wordline_host::function::CPU_OWNERS`.
    pub by_owner: [u64; CPU_OWNERS.len()],
    /// Busy nanoseconds of each core.
    pub busy: Vec<u64>,
    /// Bytes at its end, by `wordline_host::stats::MEMORY_OWNERS`; of intervals that were put together the
    /// most.
    pub memory: [u64; MEMORY_OWNERS.len()],
}

/// Processor time of one owner.
#[derive(Clone, Debug, Serialize)]
pub struct CpuOwner {
    /// Whose.
    pub name: String,
    /// Nanoseconds of all cores.
    pub ns: u64,
    /// Median share of all cores in an interval.
    pub share_p50: f64,
    /// Greatest share of all cores in an interval.
    pub share_max: f64,
}

/// Processor time of one core.
#[derive(Clone, Debug, Serialize)]
pub struct CpuCore {
    /// Nanoseconds in which it was busy.
    pub ns: u64,
    /// Median share of an interval in which it was busy.
    pub share_p50: f64,
    /// Greatest share of an interval in which it was busy.
    pub share_max: f64,
}

/// Memory of one owner.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryOwner {
    /// Whose.
    pub name: String,
    /// Bytes at the end of the run.
    pub end_bytes: u64,
    /// Median of the intervals.
    pub p50_bytes: u64,
    /// Greatest of the intervals.
    pub max_bytes: u64,
}

/// Columns of the host over time.
pub const HOST_SERIES: usize = 9;

/// Time that cores spent in an idle state.
#[derive(Clone, Debug, Serialize)]
pub struct IdleUse {
    /// The state's.
    pub name: String,
    /// Nanoseconds of all cores.
    pub ns: u64,
    /// Its share of the time that cores were idle.
    pub share: f64,
}

/// What one function of the host cost.
#[derive(Clone, Debug, Serialize)]
pub struct FunctionUse {
    /// The function's, as in Linux or fio.
    pub name: String,
    /// Times that it was called.
    pub calls: u64,
    /// Nanoseconds in it, of all cores.
    pub ns: u64,
    /// Its share of the time that cores were busy.
    pub share: f64,
    /// Nanoseconds in it per I/O that was served.
    pub ns_per_io: f64,
    /// Load instructions.
    pub loads: u64,
    /// Store instructions.
    pub stores: u64,
    /// Load instructions per I/O.
    pub loads_per_io: f64,
    /// Store instructions per I/O.
    pub stores_per_io: f64,
}

/// Shares of the elapsed time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CoreUse {
    /// The host that it is of, where there are several.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Share of the time in applications.
    pub user: f64,
    /// Share of the time in the kernel for them.
    pub system: f64,
    /// Share of the time in interrupt handlers.
    pub interrupt: f64,
    /// Share of the time doing nothing.
    pub idle: f64,
}
