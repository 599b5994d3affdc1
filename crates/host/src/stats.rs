//! What the host counts.

use crate::function::Use;
use crate::paths::map_lock::MapLockStats;
use serde::Serialize;
use wordline_ftl::MapWork;

/// Where a core's time went, in nanoseconds. The four sum to the elapsed time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct CoreStats {
    /// Applications, and libraries in them.
    pub user: u64,
    /// The kernel, for threads.
    pub system: u64,
    /// Interrupt handlers, with the exit from idle they began with.
    pub irq: u64,
    /// Nothing to do.
    pub idle: u64,
}

impl CoreStats {
    /// What it was not idle for.
    #[inline]
    pub fn busy(&self) -> u64 {
        self.user + self.system + self.irq
    }
}

/// What takes a host's memory. `driver` are rings of queue pairs, and stripes, bitmaps and journal blocks of
/// arrays. `write_buffer` are an FTL's data that are not on flash.
pub const MEMORY_OWNERS: [&str; 5] =
    ["map_nodes", "write_buffer", "ftl_tables", "driver", "page_cache"];

/// fio's depth distributions: buckets 1, 2, 4, 8, 16, 32, >=64 for the level, and 0, 4, 8, 16, 32,
/// 64, >64 for calls.
pub const DEPTH_BUCKETS: usize = 7;

/// What a job's thread did, for fio's report.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct ThreadStats {
    /// The job's name.
    pub name: String,
    /// Nanoseconds in user mode (usr_cpu).
    pub user: u64,
    /// Nanoseconds in the kernel (sys_cpu).
    pub system: u64,
    /// Sleeps. fio's ctx is these and the involuntary ones.
    pub voluntary_switches: u64,
    /// Losses of the core at the end of a time slice.
    pub involuntary_switches: u64,
    /// I/Os by how many were in flight when they were issued.
    pub iodepth_level: [u64; DEPTH_BUCKETS],
    /// Submission calls by how many I/Os they took.
    pub iodepth_submit: [u64; DEPTH_BUCKETS],
    /// Calls that reap by how many I/Os they brought.
    pub iodepth_complete: [u64; DEPTH_BUCKETS],
    /// io_submit calls.
    pub submit_calls: u64,
    /// io_getevents calls.
    pub complete_calls: u64,
    /// I/Os issued, by fio's data direction.
    pub issued: [u64; 5],
}

impl ThreadStats {
    /// Times that its core went on with another thread.
    pub fn switches(&self) -> u64 {
        self.voluntary_switches + self.involuntary_switches
    }
    /// An engine without a call that commits sends one I/O and has it back, to fio.
    pub(crate) fn one_at_once(&mut self) {
        self.iodepth_submit[call_bucket(1)] += 1;
        self.iodepth_complete[call_bucket(1)] += 1;
    }
}

wordline_base::counters! {
    /// Events that the host counts.
    #[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
    pub struct Counters {
        /// Handlers that ran for a drive or a network.
        interrupts,
        /// Completions reaped by them.
        completions,
        /// Interrupts from one core to another.
        ipis,
        /// Times a core went from one task to another.
        context_switches,
        /// Times a thread was woken on another core than it slept on.
        migrations,
        /// Commands sent to the drive.
        requests,
        /// Bios that joined a request behind its end.
        back_merges,
        /// Bios that joined a request before its beginning.
        front_merges,
        /// Requests merged with a neighbouring request in the scheduler.
        request_merges,
        /// Plugs that were emptied.
        plug_flushes,
        /// Submitters that slept for a tag.
        tag_waits,
        /// I/Os that became several requests.
        splits,
        /// Flushes that shared a command with another.
        shared_flushes,
        /// I/Os that failed.
        errors,
        /// Handlers that found no entry.
        empty_interrupts,
        /// Calls of nvme_poll.
        polls,
        /// Calls of spdk_nvme_qpair_process_completions.
        process_completions,
        /// Looks at io_uring's rings.
        ring_looks,
        /// Completions that polling loops found.
        polled_completions,
        /// Loops that the scheduler ended (need_resched).
        poll_yields,
        /// Sleeps before polling.
        hybrid_sleeps,
        /// Nanoseconds that these were to last.
        hybrid_sleep_ns,
        /// Calls to wake io_uring's submission thread.
        sq_wake_ups,
        /// Requests sent to the server of a network block device.
        nbd_requests,
        /// Latency-critical requests that passed by merges and queues.
        bypassed,
        /// Those of them that became one with a request that touches the same sectors.
        hazards_merged,
        /// Those requests that went behind one that touches the same sectors.
        hazards_ordered,
        /// Times a kblockd worker was woken.
        kblockd_runs,
        /// Calls of sched_setworkload_attr.
        attributes_set,
        /// Calls of sched_getworkload_attr.
        attributes_read,
        /// Mask bits of interrupt vectors written.
        mask_writes,
        /// Times a task stopped looking for its completions.
        give_ups,
        /// Sleeps before polling at whose end the request was done already.
        hybrid_late,
        /// Sleeps before polling after which it was looked for.
        hybrid_early,
        /// Latency-critical requests that went to the driver while older ones waited.
        overtakes,
    }
}

/// The block device an FTL on the host presents.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct PblkStats {
    /// Bios that read.
    pub read_bios: u64,
    /// Bios that write.
    pub write_bios: u64,
    /// Bytes of these.
    pub write_bytes: u64,
    /// Sectors written in part.
    pub rmw_units: u64,
    /// Bytes of these that came from flash first.
    pub rmw_read_bytes: u64,
    /// Writes and trims that waited for another of such a sector.
    pub rmw_waits: u64,
    /// Flushes.
    pub flushes: u64,
    /// Trims.
    pub trims: u64,
    /// Sectors read from the write buffer.
    pub buffer_sectors: u64,
    /// Sectors read from flash.
    pub flash_sectors: u64,
    /// Sectors read that were never written.
    pub unmapped_sectors: u64,
    /// Flash reads of applications.
    pub flash_reads: u64,
    /// Writes that waited for buffer space.
    pub write_waits: u64,
    /// Units programmed.
    pub programs: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Flash reads of the FTL's own.
    pub background_reads: u64,
    /// Processor time of parity sums, written and rebuilt.
    pub xor_ns: u64,
    /// Commands that send sectors of writes ahead of their unit's program.
    pub staged: u64,
    /// Those commands that found no room in the drive at first.
    pub staging_waits: u64,
    /// What was done in a map that is a tree.
    pub map_work: MapWork,
    /// The lock of such a map.
    pub map_lock: MapLockStats,
    /// Bytes over the link by `wordline_nand::Class`.
    pub link_bytes: [u64; wordline_nand::machine::CLASSES],
}

impl std::ops::AddAssign for PblkStats {
    fn add_assign(&mut self, o: PblkStats) {
        self.read_bios += o.read_bios;
        self.write_bios += o.write_bios;
        self.write_bytes += o.write_bytes;
        self.rmw_units += o.rmw_units;
        self.rmw_read_bytes += o.rmw_read_bytes;
        self.rmw_waits += o.rmw_waits;
        self.flushes += o.flushes;
        self.trims += o.trims;
        self.buffer_sectors += o.buffer_sectors;
        self.flash_sectors += o.flash_sectors;
        self.unmapped_sectors += o.unmapped_sectors;
        self.flash_reads += o.flash_reads;
        self.write_waits += o.write_waits;
        self.programs += o.programs;
        self.erases += o.erases;
        self.background_reads += o.background_reads;
        self.xor_ns += o.xor_ns;
        self.staged += o.staged;
        self.staging_waits += o.staging_waits;
        self.map_work += o.map_work;
        self.map_lock += o.map_lock;
        self.link_bytes.iter_mut().zip(o.link_bytes).for_each(|(sum, n)| *sum += n);
    }
}

/// A collector on the host of a drive that has its FTL.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct GcStats {
    /// Orders that the drive has answered.
    pub answers: u64,
    /// Sectors that it asked for.
    pub sectors: u64,
    /// Victims that ended, as answers to orders told.
    pub victims: u64,
    /// Bytes of the answers over the link.
    pub link_bytes: u64,
}

impl std::ops::AddAssign for GcStats {
    fn add_assign(&mut self, o: GcStats) {
        self.answers += o.answers;
        self.sectors += o.sectors;
        self.victims += o.victims;
        self.link_bytes += o.link_bytes;
    }
}

/// A scheduler in front of pblk.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct BioStats {
    /// Tokens taken.
    pub taken: u64,
    /// Tokens given back.
    pub returned: u64,
    /// Bios that had to wait for one.
    pub held: u64,
    /// Windows judged.
    pub windows: u64,
    /// Times a depth changed.
    pub resizes: u64,
    /// Tokens for reads, for writes and for the rest; with several disks, the largest.
    pub depths: [u32; crate::block::sched::kyber::DOMAINS],
}

impl std::ops::AddAssign for BioStats {
    fn add_assign(&mut self, o: BioStats) {
        self.taken += o.taken;
        self.returned += o.returned;
        self.held += o.held;
        self.windows += o.windows;
        self.resizes += o.resizes;
        self.depths.iter_mut().zip(o.depths).for_each(|(most, n)| *most = (*most).max(n));
    }
}

/// What a host did, as of an instant.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct HostStats {
    /// Time of each core.
    pub cores: Vec<CoreStats>,
    /// By core and `Function`.
    pub functions: Vec<Vec<Use>>,
    /// By thread of a job.
    pub threads: Vec<ThreadStats>,
    /// Nanoseconds by core and [`crate::tasks::idle::STATE_NAMES`]; empty without a governor.
    pub idle_states: Vec<[u64; crate::tasks::idle::STATES]>,
    /// Interrupts, calls, merges and the like.
    pub counters: Counters,
    /// Bytes by [`MEMORY_OWNERS`], now.
    pub memory: [u64; MEMORY_OWNERS.len()],
    /// With an FTL on the host only.
    pub pblk: Option<PblkStats>,
    /// With a collector on the host only.
    pub gc: Option<GcStats>,
    /// With a scheduler in front of pblk only.
    pub bios: Option<BioStats>,
}

impl HostStats {
    /// With those of another host behind its own.
    pub fn with(mut self, other: HostStats) -> HostStats {
        fn sum<T: std::ops::AddAssign + Copy>(a: Option<T>, b: Option<T>) -> Option<T> {
            match (a, b) {
                (Some(mut sum), Some(more)) => {
                    sum += more;
                    Some(sum)
                }
                (one, other) => one.or(other),
            }
        }
        self.cores.extend(other.cores);
        self.functions.extend(other.functions);
        self.threads.extend(other.threads);
        self.idle_states.extend(other.idle_states);
        self.counters += other.counters;
        self.memory.iter_mut().zip(other.memory).for_each(|(sum, n)| *sum += n);
        self.pblk = sum(self.pblk, other.pblk);
        self.gc = sum(self.gc, other.gc);
        self.bios = sum(self.bios, other.bios);
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
