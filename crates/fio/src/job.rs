//! The typed job: what one section of a job file asks for, before `numjobs` clones it.
//!
//! Directions index arrays as read, write, trim. Sizes are bytes, times are [`Span`]s. Unless a
//! field says otherwise zero means "not set", as in fio.
//!
//! wordline runs every job on one drive. `filename` and `directory` are kept for reports and for the
//! seeds of skewed distributions, but every job addresses the whole drive, as with
//! `filename=/dev/nvme0n1`, and `size` defaults to the drive's. With `nrfiles` above one, or several
//! names in `filename`, the files are regions that follow one another on the drive.

use crate::choice::{Choice, choices};
use crate::dist::ZoneSlice;
use crate::error::Place;
use crate::units::Size;
use wordline_base::{IoClass, Priority, Span, Workload};

choices! {
    /// `rw=`: directions, and sequential or random.
    Rw {
        Read = "read",
        Write = "write",
        Trim = "trim",
        RandRead = "randread",
        RandWrite = "randwrite",
        RandTrim = "randtrim",
        ReadWrite = "rw" | "readwrite",
        RandRw = "randrw",
        /// Each block is trimmed, then written.
        TrimWrite = "trimwrite",
        RandTrimWrite = "randtrimwrite",
    }
}

impl Rw {
    /// Offsets are drawn at random.
    #[inline]
    pub fn is_random(self) -> bool {
        matches!(self, Rw::RandRead | Rw::RandWrite | Rw::RandTrim | Rw::RandRw | Rw::RandTrimWrite)
    }
    /// It has reads.
    #[inline]
    pub fn reads(self) -> bool {
        matches!(self, Rw::Read | Rw::RandRead) || self.is_mixed()
    }
    /// It has writes.
    #[inline]
    pub fn writes(self) -> bool {
        matches!(self, Rw::Write | Rw::RandWrite) || self.is_mixed() || self.is_trimwrite()
    }
    /// It has trims.
    #[inline]
    pub fn trims(self) -> bool {
        matches!(self, Rw::Trim | Rw::RandTrim) || self.is_trimwrite()
    }
    /// Reads and writes by `rwmixread`.
    #[inline]
    pub fn is_mixed(self) -> bool {
        matches!(self, Rw::ReadWrite | Rw::RandRw)
    }
    /// Each block is trimmed, then written.
    #[inline]
    pub fn is_trimwrite(self) -> bool {
        matches!(self, Rw::TrimWrite | Rw::RandTrimWrite)
    }
}

choices! {
    /// What `rw=randread:N` does between two random offsets.
    RwSequencer { Sequential = "sequential", Identical = "identical" }
}
choices! {
    /// `random_generator=`.
    RandomGenerator { Tausworthe = "tausworthe", Lfsr = "lfsr", Tausworthe64 = "tausworthe64" }
}
choices! {
    /// `file_service_type=`: how the next file is chosen.
    FileServiceKind {
        RoundRobin = "roundrobin",
        Random = "random",
        Zipf = "zipf",
        Pareto = "pareto",
        Normal = "normal" | "gauss",
        Sequential = "sequential",
    }
}
choices! {
    /// The engines that have a model in the host.
    Engine {
        Psync = "psync",
        Sync = "sync",
        Vsync = "vsync",
        Pvsync = "pvsync",
        Pvsync2 = "pvsync2",
        Libaio = "libaio",
        IoUring = "io_uring",
        PosixAio = "posixaio",
        Spdk = "spdk",
        Null = "null",
        FileCreate = "filecreate",
        FileStat = "filestat",
        FileDelete = "filedelete",
        Cpuio = "cpuio",
    }
}

/// `fallocate=`: blocks that the layout reserves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fallocate {
    /// None: files grow as they are written.
    None,
    /// All of them, and files are as long (`native`, `posix`).
    #[default]
    Native,
    /// All of them, and files are empty.
    Keep,
    /// None, and files are as long as with all of them: holes (ftruncate).
    Truncate,
}

/// What `sync_file_range=` does, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SyncRange {
    /// Waits for what is written back already.
    pub wait_before: bool,
    /// Begins to write back.
    pub write: bool,
    /// Waits for that.
    pub wait_after: bool,
}

/// `fadvise_hint=`: what the kernel is told of the reads to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fadvise {
    /// Nothing.
    None,
    /// Random or sequential, as the job is.
    #[default]
    Workload,
    /// Random, whatever the job is.
    Random,
    /// Sequential, whatever the job is.
    Sequential,
}

impl Engine {
    /// Its I/Os are calls on names: a file each.
    pub fn is_by_name(self) -> bool {
        matches!(self, Engine::FileCreate | Engine::FileStat | Engine::FileDelete)
    }
    /// A synchronous engine completes each I/O before it issues the next, whatever `iodepth` says.
    #[inline]
    pub fn is_sync(self, iodepth: u32) -> bool {
        match self {
            Engine::Psync | Engine::Sync | Engine::Vsync | Engine::Pvsync | Engine::Pvsync2 => true,
            Engine::FileCreate | Engine::FileStat | Engine::FileDelete | Engine::Cpuio => true,
            Engine::Libaio | Engine::IoUring | Engine::PosixAio | Engine::Spdk => false,
            // fio's null engine turns asynchronous above depth 1.
            Engine::Null => iodepth == 1,
        }
    }
}

choices! {
    /// `io_submit_mode=`: whether the thread itself or workers submit.
    IoSubmitMode { Inline = "inline", Offload = "offload" }
}
choices! {
    /// `rate_process=`: pauses that are equal, or as long as those of a Poisson process.
    RateProcess { Linear = "linear", Poisson = "poisson" }
}
choices! {
    /// Which I/Os `thinktime_blocks` counts.
    ThinktimeBlocks { Complete = "complete", Issue = "issue" }
}
choices! {
    /// `zonemode=`: whether I/O goes zone by zone.
    ZoneMode { None = "none", Strided = "strided", Zbd = "zbd" }
}
choices! {
    /// `sync=`: whether each write carries O_SYNC or O_DSYNC.
    SyncMode { None = "none" | "0", Sync = "sync" | "1", Dsync = "dsync" }
}
choices! {
    /// `write_hint=`: expected lifetime of written data.
    WriteHint {
        Unset = "", None = "none", Short = "short", Medium = "medium", Long = "long",
        Extreme = "extreme",
    }
}
choices! {
    /// `workload_attr=`: what sort of application the job is.
    WorkloadAttr {
        None = "none", Latency = "latency", Throughput = "throughput", Prioclass = "prioclass",
    }
}

impl WorkloadAttr {
    /// The attribute of a job of this priority. By `prioclass` real time is latency-critical, idle is for throughput, and
    /// best effort has none.
    fn attribute(self, prio: Prio) -> Workload {
        match self {
            WorkloadAttr::Prioclass if prio.class == Prio::REAL_TIME => Workload::Latency,
            WorkloadAttr::Prioclass if prio.class == Prio::IDLE => Workload::Throughput,
            WorkloadAttr::Prioclass => Workload::None,
            WorkloadAttr::None => Workload::None,
            WorkloadAttr::Latency => Workload::Latency,
            WorkloadAttr::Throughput => Workload::Throughput,
        }
    }
}

choices! {
    /// `cpus_allowed_policy=`: whether clones share the processors or have one each.
    CpusPolicy { Shared = "shared", Split = "split" }
}
choices! {
    /// Which jobs `exitall` ends: those of the same group, those that run, or all.
    ExitWhat { Group = "group", Stonewall = "stonewall", All = "all" }
}
choices! {
    /// `unified_rw_reporting=`: directions apart, as one, or both.
    UnifiedRw { None = "none" | "0", Mixed = "mixed" | "1", Both = "both" | "2" }
}
choices! {
    /// Errors of which kind let a job go on.
    ContinueOnError {
        None = "none" | "0", Read = "read", Write = "write", Io = "io", Verify = "verify",
        All = "all" | "1",
    }
}
choices! {
    /// The criterion of `steadystate=`: a rate, and its deviation or its slope.
    SteadyCriterion { Iops = "iops", IopsSlope = "iops_slope", Bw = "bw", BwSlope = "bw_slope" }
}

/// `random_distribution=`.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Distribution {
    /// Uniform.
    #[default]
    Random,
    /// `theta` is not 1. `center` in 0..=1 places the hottest block.
    #[allow(missing_docs, reason = "fields have the names of fio's manual")]
    Zipf { theta: f64, center: Option<f64> },
    /// `h` in 0..1, both excluded.
    #[allow(missing_docs, reason = "fields have the names of fio's manual")]
    Pareto { h: f64, center: Option<f64> },
    /// Deviation in percent of the range.
    #[allow(missing_docs, reason = "fields have the names of fio's manual")]
    Normal { percent: f64, center: Option<f64> },
    /// Zones by percent, by direction.
    Zoned([Vec<ZoneSlice>; 3]),
    /// Zones by bytes, by direction.
    ZonedAbs([Vec<ZoneSlice>; 3]),
}

/// `file_service_type=kind[:parameter]`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FileService {
    /// How the next file is chosen.
    pub kind: FileServiceKind,
    /// I/Os to one file before the next is chosen.
    pub burst: u32,
    /// theta, h or deviation of the skewed kinds.
    pub parameter: f64,
    /// Where the most popular file is, in 0..=1; none: the first.
    pub center: Option<f64>,
}

/// One entry of `bssplit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BsSplit {
    /// Bytes.
    pub bs: u64,
    /// Share of I/Os with this length.
    pub percent: u32,
}

/// One entry of `cmdprio_bssplit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrioSplit {
    /// Bytes: the entry counts for I/Os of exactly this length.
    pub bs: u64,
    /// Share of these I/Os that get the priority.
    pub percent: u32,
    /// Class and level; None takes `cmdprio_class` and `cmdprio`.
    pub prio: Option<Prio>,
    /// A hint of fio later than 3.33; no drive here acts on it.
    pub hint: u16,
}

/// A Linux I/O priority.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Prio {
    /// 0 none, 1 real time, 2 best effort, 3 idle.
    pub class: u8,
    /// 0 (highest) to 7.
    pub level: u8,
}

impl Prio {
    /// IOPRIO_CLASS_RT.
    pub const REAL_TIME: u8 = 1;
    /// IOPRIO_CLASS_BE.
    pub const BEST_EFFORT: u8 = 2;
    /// IOPRIO_CLASS_IDLE.
    pub const IDLE: u8 = 3;

    /// As fio sets it: without a class it is best effort (ioprio_value).
    pub fn given(class: u8, level: u8) -> Prio {
        Prio { class: if class == 0 { Prio::BEST_EFFORT } else { class }, level }
    }
    /// As the machine carries it, without a workload attribute.
    pub fn io_class(self) -> IoClass {
        IoClass::new(Priority::from_bits(self.class.into()), self.level)
    }
    /// The number fio writes to its logs.
    pub fn ioprio(self) -> u16 {
        self.io_class().ioprio()
    }
}

/// `steadystate=criterion:limit`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SteadyState {
    /// Which rate, and whether its mean deviation or its slope is judged.
    pub criterion: SteadyCriterion,
    /// Percent of the mean if `percent`, else I/Os per second or bytes per second.
    pub limit: f64,
    /// The limit is a percentage.
    pub percent: bool,
    /// `ss_dur`: how long the criterion must hold. Zero switches the detection off.
    pub duration: Span,
    /// `ss_ramp`: not looked at before.
    pub ramp: Span,
}

/// Logs of samples: a prefix of file names for each kind asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Logs {
    /// `write_lat_log`: writes PREFIX_lat, PREFIX_slat and PREFIX_clat. An empty prefix takes the
    /// job's name; None writes nothing.
    pub lat: Option<String>,
    /// `write_bw_log`, in the same way.
    pub bw: Option<String>,
    /// `write_iops_log`, in the same way.
    pub iops: Option<String>,
    /// `write_hist_log`.
    pub hist: Option<String>,
    /// Averaging window; zero logs every I/O.
    pub avg: Span,
    /// `bwavgtime`; None takes `avg`.
    pub bw_avg: Option<Span>,
    /// `iopsavgtime`; None takes `avg`.
    pub iops_avg: Option<Span>,
    /// Interval of histogram dumps; zero is off.
    pub hist_interval: Span,
    /// 0 to 6.
    pub hist_coarseness: u32,
    /// Log the maximum of a window instead of its mean.
    pub max_value: bool,
    /// Log the offset of each I/O.
    pub offset: bool,
    /// Log the priority of each I/O.
    pub prio: bool,
    /// False: all jobs share one file.
    pub per_job: bool,
}

/// One section of a job file, or one `--name` of a command line.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// Section name, or `name=`.
    pub name: String,
    /// Where the section starts.
    pub place: Place,
    /// The section's own options in the order given, canonical names, values after substitution:
    /// "job options" of fio's JSON. Inherited ones are in [`crate::Plan::globals`].
    pub options: Vec<(String, String)>,
    /// `description=`.
    pub description: Option<String>,
    /// Clones of this section that run side by side; at least 1.
    pub numjobs: u32,
    /// Waits for all earlier jobs, and starts a reporting group.
    pub stonewall: bool,
    /// Name of a job that must have ended before this one starts.
    pub wait_for: Option<String>,
    /// The job begins a reporting group.
    pub new_group: bool,
    /// Clones are reported as one.
    pub group_reporting: bool,

    /// Recorded only, see the module's head. Several names are several files.
    pub filenames: Vec<String>,
    /// Prefix of file names.
    pub directory: Option<String>,
    /// `$jobname.$jobnum.$filenum` unless given.
    pub filename_format: String,
    /// Files of each clone.
    pub nrfiles: u32,
    /// Files open at once; zero is all.
    pub openfiles: u32,
    /// How the file of the next I/O is chosen.
    pub file_service: FileService,
    /// Bytes of each file, lowest and highest; equal unless a range was given.
    pub filesize: Option<(u64, u64)>,

    /// Direction, and whether sequential or random.
    pub rw: Rw,
    /// `rw=randread:N`: a new random offset every N I/Os; at least 1.
    pub seq_nr: u32,
    /// `rw=read:N`: bytes skipped after each sequential I/O; negative runs backwards.
    pub seq_add: i64,
    /// What offset follows in a sequence: the next one, or the same again.
    pub rw_sequencer: RwSequencer,
    /// Bytes, by direction.
    pub bs: [u64; 3],
    /// Least length: from `bs`, `bsrange` or `bssplit`.
    pub min_bs: [u64; 3],
    /// Greatest length: from `bs`, `bsrange` or `bssplit`.
    pub max_bs: [u64; 3],
    /// Empty unless `bssplit` is given; ascending percentages.
    pub bssplit: [Vec<BsSplit>; 3],
    /// Alignment of random offsets, bytes; the least block size unless `blockalign` is given.
    pub ba: [u64; 3],
    /// Lengths need not be multiples of the least one.
    pub bs_unaligned: bool,
    /// Lengths are picked by sequential (first) or random (second), not by direction.
    pub bs_is_seq_rand: bool,

    /// Extent of the job on the drive. None: all of it from `offset`.
    pub size: Option<Size>,
    /// Total to transfer, if it differs from `size`.
    pub io_size: Option<Size>,
    /// Where the job begins.
    pub offset: Size,
    /// Alignment of percentage offsets, bytes; None takes the least block size.
    pub offset_align: Option<u64>,
    /// Added once per clone.
    pub offset_increment: Size,
    /// Stop after so many I/Os; zero is no limit.
    pub number_ios: u64,
    /// Write until the drive is full.
    pub fill_device: bool,
    /// Passes over the data; at least 1.
    pub loops: u32,
    /// End after this long; zero is no limit.
    pub runtime: Span,
    /// Start over at the end of the data until `runtime` has passed.
    pub time_based: bool,
    /// Runs before statistics start; not part of `runtime`.
    pub ramp_time: Span,
    /// Delay before the job starts, least and most. Equal unless a range was given.
    pub startdelay: (Span, Span),
    /// Lay out files only: no I/O.
    pub create_only: bool,

    /// Which generator draws offsets.
    pub random_generator: RandomGenerator,
    /// How random offsets are distributed.
    pub distribution: Distribution,
    /// Share of random offsets in a random job, percent, by direction.
    pub percentage_random: [u32; 3],
    /// Offsets may come again before all were used.
    pub norandommap: bool,
    /// Go without a random map where none fits in memory.
    pub softrandommap: bool,
    /// The sequence follows from `randseed` and the job's number alone.
    pub randrepeat: bool,
    /// The same for all generators, that of file choice too.
    pub allrandrepeat: bool,
    /// Seed of the job.
    pub randseed: u64,
    /// `randseed` was given.
    pub randseed_given: bool,
    /// Percent of reads and of writes in a mix.
    pub rwmix: [u32; 2],

    /// fsync after so many writes.
    pub fsync: u32,
    /// fdatasync after so many writes.
    pub fdatasync: u32,
    /// sync_file_range after so many writes.
    pub sync_file_range: u32,
    /// What it does.
    pub sync_range: SyncRange,
    /// fsync when the job ends.
    pub end_fsync: bool,
    /// fsync when a file is closed.
    pub fsync_on_close: bool,

    /// What was written is read back (`verify=`, or `verify_pattern=` alone).
    pub verify: bool,
    /// `verify` was given, as anything.
    pub verify_given: bool,
    /// False: what is written can be verified later, and is not now.
    pub do_verify: bool,
    /// The writes are not issued, only read back.
    pub verify_only: bool,
    /// Read back after so many writes; zero at the end of the pass.
    pub verify_backlog: u64,
    /// Reads at once; zero is the backlog.
    pub verify_backlog_batch: u32,
    /// The pass is gone over again for what to read.
    pub experimental_verify: bool,
    /// Percent of the written blocks that are trimmed before they are read back.
    pub trim_percentage: u32,
    /// Trimmed blocks are read back too.
    pub trim_verify_zero: bool,
    /// Trim after so many writes; zero never does.
    pub trim_backlog: u64,
    /// Trims at once; zero is the backlog.
    pub trim_backlog_batch: u32,

    /// Whether I/O goes zone by zone.
    pub zonemode: ZoneMode,
    /// Bytes transferred in a zone before the next one.
    pub zonesize: u64,
    /// Extent of a zone, bytes.
    pub zonerange: u64,
    /// Bytes between two zones.
    pub zoneskip: u64,

    /// What issues the I/Os.
    pub ioengine: Engine,
    /// I/Os in flight; at least 1.
    pub iodepth: u32,
    /// I/Os submitted at once.
    pub iodepth_batch: u32,
    /// I/Os waited for at once; zero polls.
    pub iodepth_batch_complete_min: u32,
    /// The most I/Os that one call takes back.
    pub iodepth_batch_complete_max: u32,
    /// Once full, the queue drains down to this before it fills again.
    pub iodepth_low: u32,
    /// An I/O that overlaps one in flight waits for it.
    pub serialize_overlap: bool,
    /// Whether the thread itself or workers submit.
    pub io_submit_mode: IoSubmitMode,
    /// Completions are polled for.
    pub hipri: bool,
    /// Share of I/Os that poll (pvsync2), percent.
    pub hipri_percentage: u32,
    /// A kernel thread submits (io_uring).
    pub sqthread_poll: bool,
    /// The processor of that thread, if one is given.
    pub sqthread_poll_cpu: Option<u32>,
    /// cpuio: percent of a processor.
    pub cpuload: u32,
    /// cpuio: how long it computes without a pause.
    pub cpuchunks: Span,
    /// cpuio: it ends with the jobs that do I/O.
    pub exit_on_io_done: bool,
    /// O_DIRECT.
    pub direct: bool,
    /// O_SYNC or O_DSYNC.
    pub sync: SyncMode,
    /// Life of the data, for drives that place them by it.
    pub write_hint: WriteHint,
    /// Drop the page cache at the start of the job.
    pub invalidate: bool,
    /// Its files are read into the page cache before it begins; then nothing drops them.
    pub pre_read: bool,
    /// Files are made by the job when it opens them, not by the layout.
    pub create_on_open: bool,
    /// The layout writes the files' data.
    pub overwrite: bool,
    /// How the layout reserves the files' blocks.
    pub fallocate: Fallocate,
    /// What the kernel is told of reads to come.
    pub fadvise: Fadvise,
    /// Scheduler of the block layer, if one is asked for.
    pub ioscheduler: Option<String>,
    /// Processors the job may run on, ascending; empty is all.
    pub cpus_allowed: Vec<u32>,
    /// Whether clones share these processors or have one each.
    pub cpus_policy: CpusPolicy,

    /// Priority of every I/O, unless `cmdprio` raises it.
    pub prio: Prio,
    /// Workload attribute of every I/O.
    pub workload_attr: WorkloadAttr,
    /// Share of I/Os that get `cmdprio`, percent, by direction (trims never do).
    pub cmdprio_percentage: [u32; 3],
    /// The priority that they get.
    pub cmdprio: [Prio; 3],
    /// Shares and priorities by block size.
    pub cmdprio_bssplit: [Vec<PrioSplit>; 3],

    /// Bytes per second, by direction.
    pub rate: [u64; 3],
    /// I/Os per second, by direction.
    pub rate_iops: [u64; 3],
    /// The job fails below this many bytes per second.
    pub rate_min: [u64; 3],
    /// The job fails below this many I/Os per second.
    pub rate_iops_min: [u64; 3],
    /// How I/Os are spaced at a rate.
    pub rate_process: RateProcess,
    /// Window over which the minimum is checked.
    pub rate_cycle: Span,
    /// Time spent in `thinktime` is not made up for.
    pub rate_ignore_thinktime: bool,
    /// Pause between I/Os.
    pub thinktime: Span,
    /// Part of `thinktime` spent burning the processor.
    pub thinktime_spin: Span,
    /// I/Os between two pauses.
    pub thinktime_blocks: u32,
    /// `thinktime_blocks` was given.
    pub thinktime_blocks_given: bool,
    /// Whether I/Os count when issued or when complete.
    pub thinktime_blocks_type: ThinktimeBlocks,
    /// Time between two pauses.
    pub thinktime_iotime: Span,

    /// An I/O slower than this fails the job, by direction.
    pub max_latency: [Span; 3],
    /// The depth is searched that keeps latency below this.
    pub latency_target: Span,
    /// Length of a window in which latency is judged.
    pub latency_window: Span,
    /// Share of I/Os that must meet the target, percent.
    pub latency_percentile: f64,
    /// Keep searching instead of ending when the depth has settled.
    pub latency_run: bool,
    /// What ends the job once its rate is steady.
    pub steadystate: Option<SteadyState>,

    /// The job ends others when it ends. In a plan it is the same for all jobs.
    pub exitall: bool,
    /// Which others: each job's own.
    pub exit_what: ExitWhat,
    /// It does so only if it failed.
    pub exitall_on_error: bool,
    /// Errors after which it goes on.
    pub continue_on_error: ContinueOnError,
    /// Written by the caller: every I/O issued, in fio's format.
    pub write_iolog: Option<String>,
    /// Replayed by the caller instead of a generated sequence.
    pub read_iolog: Option<String>,
    /// Requests follow each other without the trace's pauses.
    pub replay_no_stall: bool,
    /// Percent of the trace's pace: 50 takes twice as long.
    pub replay_time_scale: u32,
    /// Offsets are divided by this.
    pub replay_scale: u32,
    /// Offsets are rounded down to a multiple of this; zero leaves them.
    pub replay_align: u64,
    /// Directions left out: read, write, trim, sync.
    pub replay_skip: [bool; 4],

    /// Which logs are written, and how.
    pub logs: Logs,
    /// Percentiles reported, percent, in the order given.
    pub percentile_list: Vec<f64>,
    /// Percentiles of completion latency are reported.
    pub clat_percentiles: bool,
    /// Percentiles of total latency are reported.
    pub lat_percentiles: bool,
    /// Percentiles of submission latency are reported.
    pub slat_percentiles: bool,
    /// Digits that a histogram's bins keep.
    pub significant_figures: u32,
    /// Whether directions are reported as one.
    pub unified_rw_reporting: UnifiedRw,
    /// False: the job is left out of the report.
    pub stats: bool,
    /// No total latency is measured.
    pub disable_lat: bool,
    /// No completion latency is measured.
    pub disable_clat: bool,
    /// No submission latency is measured.
    pub disable_slat: bool,
    /// No bandwidth samples are taken.
    pub disable_bw: bool,
    /// `gtod_reduce`: all of these, and a log of I/Os a second with a line of each I/O has none.
    pub gtod_reduce: bool,
    /// 8 reports bytes, 1 reports bits; zero is the default, bytes.
    pub unit_base: u32,
    /// 1024 or 1000: what `k` means.
    pub kb_base: u32,
}

impl Job {
    /// It writes. With `verify_only` the writes are remembered, to be read back, and none is sent.
    pub fn sends_writes(&self) -> bool {
        self.rw.writes() && !self.verify_only
    }
    /// It writes or trims; `verify_only` remembers the trims beside writes as well.
    pub fn changes(&self) -> bool {
        self.sends_writes() || self.rw.trims() && !(self.rw.writes() && self.verify_only)
    }
    /// The workload attribute of its task.
    pub fn workload(&self) -> Workload {
        self.workload_attr.attribute(self.prio)
    }
    /// fio's defaults.
    pub fn new(name: &str, place: Place) -> Job {
        Job {
            name: name.to_string(),
            place,
            options: Vec::new(),
            description: None,
            numjobs: 1,
            stonewall: false,
            wait_for: None,
            new_group: false,
            group_reporting: false,
            filenames: Vec::new(),
            directory: None,
            filename_format: "$jobname.$jobnum.$filenum".to_string(),
            nrfiles: 1,
            openfiles: 0,
            file_service: FileService {
                kind: FileServiceKind::RoundRobin,
                burst: 1,
                parameter: 0.0,
                center: None,
            },
            filesize: None,
            rw: Rw::Read,
            seq_nr: 1,
            seq_add: 0,
            rw_sequencer: RwSequencer::Sequential,
            bs: [4096; 3],
            min_bs: [0; 3],
            max_bs: [0; 3],
            bssplit: Default::default(),
            ba: [0; 3],
            bs_unaligned: false,
            bs_is_seq_rand: false,
            size: None,
            io_size: None,
            offset: Size::Bytes(0),
            offset_align: None,
            offset_increment: Size::Bytes(0),
            number_ios: 0,
            fill_device: false,
            loops: 1,
            runtime: Span::ZERO,
            time_based: false,
            ramp_time: Span::ZERO,
            startdelay: (Span::ZERO, Span::ZERO),
            create_only: false,
            random_generator: RandomGenerator::Tausworthe,
            distribution: Distribution::Random,
            percentage_random: [100; 3],
            norandommap: false,
            softrandommap: false,
            randrepeat: true,
            allrandrepeat: false,
            randseed: 0x89,
            randseed_given: false,
            rwmix: [50, 50],
            fsync: 0,
            fdatasync: 0,
            sync_file_range: 0,
            sync_range: SyncRange::default(),
            end_fsync: false,
            fsync_on_close: false,
            verify: false,
            verify_given: false,
            do_verify: true,
            verify_only: false,
            verify_backlog: 0,
            verify_backlog_batch: 0,
            experimental_verify: false,
            trim_percentage: 0,
            trim_verify_zero: true,
            trim_backlog: 0,
            trim_backlog_batch: 0,
            zonemode: ZoneMode::None,
            zonesize: 0,
            zonerange: 0,
            zoneskip: 0,
            ioengine: Engine::Psync,
            iodepth: 1,
            iodepth_batch: 1,
            iodepth_batch_complete_min: 1,
            iodepth_batch_complete_max: 0,
            iodepth_low: 0,
            serialize_overlap: false,
            io_submit_mode: IoSubmitMode::Inline,
            hipri: false,
            hipri_percentage: 100,
            sqthread_poll: false,
            sqthread_poll_cpu: None,
            cpuload: 0,
            cpuchunks: Span::from_ms(50),
            exit_on_io_done: false,
            direct: false,
            sync: SyncMode::None,
            write_hint: WriteHint::Unset,
            invalidate: true,
            pre_read: false,
            create_on_open: false,
            overwrite: false,
            fallocate: Fallocate::Native,
            fadvise: Fadvise::Workload,
            ioscheduler: None,
            cpus_allowed: Vec::new(),
            cpus_policy: CpusPolicy::Shared,
            prio: Prio::default(),
            workload_attr: WorkloadAttr::None,
            cmdprio_percentage: [0; 3],
            cmdprio: [Prio::default(); 3],
            cmdprio_bssplit: Default::default(),
            rate: [0; 3],
            rate_iops: [0; 3],
            rate_min: [0; 3],
            rate_iops_min: [0; 3],
            rate_process: RateProcess::Linear,
            rate_cycle: Span::from_ms(1_000),
            rate_ignore_thinktime: false,
            thinktime: Span::ZERO,
            thinktime_spin: Span::ZERO,
            thinktime_blocks: 1,
            thinktime_blocks_given: false,
            thinktime_blocks_type: ThinktimeBlocks::Complete,
            thinktime_iotime: Span::ZERO,
            max_latency: [Span::ZERO; 3],
            latency_target: Span::ZERO,
            latency_window: Span::ZERO,
            latency_percentile: 100.0,
            latency_run: false,
            steadystate: None,
            exitall: false,
            exit_what: ExitWhat::Group,
            exitall_on_error: false,
            continue_on_error: ContinueOnError::None,
            write_iolog: None,
            read_iolog: None,
            replay_no_stall: false,
            replay_time_scale: 100,
            replay_scale: 1,
            replay_align: 0,
            replay_skip: [false; 4],
            logs: Logs { per_job: true, ..Logs::default() },
            percentile_list: vec![
                1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5,
                99.9, 99.95, 99.99,
            ],
            clat_percentiles: true,
            lat_percentiles: false,
            slat_percentiles: false,
            significant_figures: 4,
            unified_rw_reporting: UnifiedRw::None,
            stats: true,
            disable_lat: false,
            disable_clat: false,
            disable_slat: false,
            disable_bw: false,
            gtod_reduce: false,
            unit_base: 0,
            kb_base: 1024,
        }
    }

    /// The smallest of the least block sizes of all directions, bytes.
    pub fn smallest_bs(&self) -> u64 {
        self.min_bs.iter().copied().min().unwrap_or(1)
    }

    /// The largest of the greatest block sizes of all directions, bytes.
    pub fn largest_bs(&self) -> u64 {
        self.max_bs.iter().copied().max().unwrap_or(1)
    }

    /// Whether a synchronous engine runs this job: one I/O at a time.
    pub fn is_sync(&self) -> bool {
        self.ioengine.is_sync(self.iodepth)
    }

    /// Whether some I/Os may have another priority than the job's.
    pub fn has_cmdprio(&self) -> bool {
        self.cmdprio_percentage.iter().any(|&p| p > 0)
            || self.cmdprio_bssplit.iter().any(|splits| !splits.is_empty())
    }

    /// The priorities that `cmdprio` gives I/Os of a direction, in fio's order.
    pub fn cmdprios(&self, ddir: usize) -> Vec<Prio> {
        let splits = self.cmdprio_bssplit[ddir].iter();
        let implied = (self.cmdprio_percentage[ddir] > 0).then_some(self.cmdprio[ddir]);
        splits.map(|s| s.prio.unwrap_or(self.cmdprio[ddir])).chain(implied).collect()
    }

    /// Whether any direction has a rate or a least rate.
    pub fn is_rated(&self) -> bool {
        [&self.rate, &self.rate_iops, &self.rate_min, &self.rate_iops_min]
            .iter()
            .any(|r| r.iter().any(|&x| x > 0))
    }

    /// Name of file `file` of the clone that fio numbers `subjob`, as fio would open it.
    pub fn file_name(&self, subjob: u32, file: u32) -> String {
        let base = match self.filenames.get(file as usize) {
            Some(name) => name.clone(),
            None if self.filename_format.is_empty() => format!("{}.{subjob}.{file}", self.name),
            None => self
                .filename_format
                .replace("$jobname", &self.name)
                .replace("$jobnum", &subjob.to_string())
                .replace("$filenum", &file.to_string()),
        };
        match &self.directory {
            Some(directory) => {
                let choices: Vec<&str> = directory.split(':').collect();
                format!("{}/{base}", choices[subjob as usize % choices.len()])
            }
            None => base,
        }
    }

    /// Files the job works on.
    pub fn file_count(&self) -> u32 {
        match self.filenames.len() {
            0 => self.nrfiles.max(1),
            n => n as u32,
        }
    }
}

/// Every word of a choice, for the options table.
pub(crate) fn words<T: Choice>() -> impl Iterator<Item = &'static str> {
    T::WORDS.iter().map(|(w, _)| *w)
}
