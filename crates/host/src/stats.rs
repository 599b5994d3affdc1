//! What the host counts.

use crate::function::Use;
use serde::Serialize;

/// Where a core's time went, in nanoseconds. The four sum to the elapsed time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct CoreStats {
    pub user: u64,
    pub system: u64,
    /// Interrupt handlers, with the exit from idle they began with.
    pub irq: u64,
    pub idle: u64,
}

/// fio's depth distributions: buckets 1, 2, 4, 8, 16, 32, >=64 for the level, and 0, 4, 8, 16, 32,
/// 64, >64 for calls.
pub const DEPTH_BUCKETS: usize = 7;

#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct ThreadStats {
    pub name: String,
    /// Nanoseconds in user mode (usr_cpu) and in the kernel (sys_cpu).
    pub user: u64,
    pub system: u64,
    /// Sleeps, and losses of the core at the end of a time slice: fio's ctx is their sum.
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
    pub iodepth_level: [u64; DEPTH_BUCKETS],
    pub iodepth_submit: [u64; DEPTH_BUCKETS],
    pub iodepth_complete: [u64; DEPTH_BUCKETS],
    /// io_submit and io_getevents calls.
    pub submit_calls: u64,
    pub complete_calls: u64,
    /// I/Os issued, by fio's data direction.
    pub issued: [u64; 5],
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Counters {
    pub interrupts: u64,
    /// Completions reaped by them.
    pub completions: u64,
    pub ipis: u64,
    pub context_switches: u64,
    /// Commands sent to the drive.
    pub requests: u64,
    pub back_merges: u64,
    pub front_merges: u64,
    /// Requests merged with a neighbouring request in the scheduler.
    pub request_merges: u64,
    pub plug_flushes: u64,
    /// Submitters that slept for a tag.
    pub tag_waits: u64,
    /// I/Os that became several requests.
    pub splits: u64,
    /// Flushes that shared a command with another.
    pub shared_flushes: u64,
    /// I/Os that failed.
    pub errors: u64,
    /// Handlers that found no entry.
    pub empty_interrupts: u64,
    /// Looks of polling loops: nvme_poll, spdk_nvme_qpair_process_completions, and at io_uring's
    /// rings. Completions found so.
    pub polls: u64,
    pub process_completions: u64,
    pub ring_looks: u64,
    pub polled_completions: u64,
    /// Loops that the scheduler ended (need_resched).
    pub poll_yields: u64,
    /// Sleeps before polling, and the time asked for.
    pub hybrid_sleeps: u64,
    pub hybrid_sleep_ns: u64,
    /// Calls to wake io_uring's submission thread.
    pub sq_wake_ups: u64,
    /// Requests sent to the server of a network block device.
    pub nbd_requests: u64,
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, o: Counters) {
        self.interrupts += o.interrupts;
        self.completions += o.completions;
        self.ipis += o.ipis;
        self.context_switches += o.context_switches;
        self.requests += o.requests;
        self.back_merges += o.back_merges;
        self.front_merges += o.front_merges;
        self.request_merges += o.request_merges;
        self.plug_flushes += o.plug_flushes;
        self.tag_waits += o.tag_waits;
        self.splits += o.splits;
        self.shared_flushes += o.shared_flushes;
        self.errors += o.errors;
        self.empty_interrupts += o.empty_interrupts;
        self.polls += o.polls;
        self.process_completions += o.process_completions;
        self.ring_looks += o.ring_looks;
        self.polled_completions += o.polled_completions;
        self.poll_yields += o.poll_yields;
        self.hybrid_sleeps += o.hybrid_sleeps;
        self.hybrid_sleep_ns += o.hybrid_sleep_ns;
        self.sq_wake_ups += o.sq_wake_ups;
        self.nbd_requests += o.nbd_requests;
    }
}

/// The block device an FTL on the host presents.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct PblkStats {
    pub read_bios: u64,
    pub write_bios: u64,
    pub write_bytes: u64,
    /// Sectors written in part, what of them came from flash first, and writes and trims that waited
    /// for another of such a sector.
    pub rmw_units: u64,
    pub rmw_read_bytes: u64,
    pub rmw_waits: u64,
    pub flushes: u64,
    pub trims: u64,
    /// Sectors read from the write buffer, from flash, and never written.
    pub buffer_sectors: u64,
    pub flash_sectors: u64,
    pub unmapped_sectors: u64,
    /// Flash reads of applications.
    pub flash_reads: u64,
    /// Writes that waited for buffer space.
    pub write_waits: u64,
    pub programs: u64,
    pub erases: u64,
    /// Flash reads of the FTL's own.
    pub background_reads: u64,
    /// Processor time of parity sums, written and rebuilt.
    pub xor_ns: u64,
    /// Sectors over the link by `wordline_nand::Class`.
    pub link_sectors: [u64; wordline_nand::machine::CLASSES],
}

/// A scheduler in front of pblk.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct BioStats {
    /// Tokens taken and given back, and bios that had to wait for one.
    pub taken: u64,
    pub returned: u64,
    pub held: u64,
    /// Windows judged, times a depth changed, and the depths: reads, writes, the rest.
    pub windows: u64,
    pub resizes: u64,
    pub depths: [u32; crate::sched::kyber::DOMAINS],
}

#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct HostStats {
    pub cores: Vec<CoreStats>,
    /// By core and `Function`.
    pub functions: Vec<Vec<Use>>,
    pub threads: Vec<ThreadStats>,
    /// Nanoseconds by core and [`crate::idle::STATE_NAMES`]; empty without a governor.
    pub idle_states: Vec<[u64; crate::idle::STATES]>,
    pub counters: Counters,
    pub pblk: Option<PblkStats>,
    pub bios: Option<BioStats>,
}

impl HostStats {
    /// With those of the host that serves this one's drive, behind its own.
    pub fn with_server(mut self, server: HostStats) -> HostStats {
        self.cores.extend(server.cores);
        self.functions.extend(server.functions);
        self.threads.extend(server.threads);
        self.idle_states.extend(server.idle_states);
        self.counters += server.counters;
        self.pblk = server.pblk;
        self.bios = server.bios;
        self
    }
}

/// fio's `io_u_mark_depth`.
pub(crate) fn level_bucket(depth: u32) -> usize {
    match depth {
        0..=1 => 0,
        2..=3 => 1,
        4..=7 => 2,
        8..=15 => 3,
        16..=31 => 4,
        32..=63 => 5,
        _ => 6,
    }
}

/// fio's `__io_u_mark_map`.
pub(crate) fn call_bucket(n: u32) -> usize {
    match n {
        0 => 0,
        1..=4 => 1,
        5..=8 => 2,
        9..=16 => 3,
        17..=32 => 4,
        33..=64 => 5,
        _ => 6,
    }
}
