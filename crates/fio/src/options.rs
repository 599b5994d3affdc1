//! The table of options, with the value of each and what becomes of it. It has every option that fio 3.33
//! lists (`fio --cmdhelp=all`), the four that fio accepts without listing, one of our own (`workload_attr`),
//! and the options of the engines that have a model here.
//!
//! Nothing is ignored in silence. An option shapes the I/O, or it is kept for the caller. Others are accepted
//! with a note that says why they have no meaning. An option that would shape the I/O in a way that is not
//! modelled is refused.

use crate::choice::{Choice, unknown};
use crate::error::{ParseFault, ValueError};
use crate::units::{self, Unit};
use wordline_base::nearest;

/// The form of an option's value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// Any text that is not empty.
    Text,
    /// Any text or none: a log's prefix.
    Optional,
    /// One of these words, perhaps followed by `:parameter`.
    Words(&'static [&'static str]),
    /// Nothing, 0 or 1.
    Flag,
    /// 0 or 1.
    Bool,
    /// One to three integers between these bounds, by direction; `k` and the like allowed.
    Int(i64, i64),
    /// Bytes or a percentage.
    Size,
    /// One or two times, of at most so many seconds.
    Time(Unit, u32),
    /// One to three ranges `a-b`.
    Range,
    /// Numbers between these bounds, separated by `:`.
    Floats(f64, f64),
}

/// What becomes of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Decides offsets, lengths, directions, priorities or the pace: [`crate::Generator`],
    /// [`crate::Pacer`], [`crate::LatencyTarget`] or [`crate::Plan::threads`] act on it.
    Shapes,
    /// Kept in a field of [`crate::Job`]: the simulator and the report act on it.
    Kept,
    /// Accepted and noted: the reason completes "has no meaning here: ".
    NoMeaning(&'static str),
    /// An error: it would shape the I/O, and is not modelled.
    Refused(&'static str),
}

/// A row of the table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OptionDef {
    /// fio's name, without `=`.
    pub name: &'static str,
    /// Empty if there is none.
    pub alias: &'static str,
    /// How its value is read.
    pub value: Value,
    /// What becomes of it.
    pub class: Class,
}

const DATA: Class = Class::NoMeaning("simulated I/O carries version stamps instead of data");
const CHECKED: Class = Class::NoMeaning(
    "a read that returns another than the newest write is an error of the simulator",
);
const CHECKSUMS: Class = Class::NoMeaning("checksums cost no time here");
const FILES: Class = Class::NoMeaning(
    "jobs address the drive; with --fs their files are there before the run begins, and stay",
);
const PROCESS: Class = Class::NoMeaning("operating system processes and memory are not modelled");
const CLOCK: Class = Class::NoMeaning("simulated time is read without cost");
const OUTPUT: Class = Class::NoMeaning("logs are written plain, in simulated time");
const ENGINE: Class = Class::NoMeaning("this detail of the engine has no cost in the host model");
const TRANSPORT: Class = Class::NoMeaning(
    "it is about how another engine comes to its drive, and here there is one drive",
);
const ZBD: Class = Class::Refused("zonemode=zbd is not modelled: use zonemode=strided");
const HINTS: Class = Class::NoMeaning("no drive here knows what a hint of a priority is about");
const PLACEMENT: Class = Class::Refused("where the drive puts data is its FTL's: leave it out");
const PROTECTION: Class = Class::Refused(
    "protection information and metadata beside blocks are not modelled: leave it out",
);
const COMMANDS: Class =
    Class::Refused("reads, writes, trims and flushes alone are modelled: leave it out");
const PRECONDITION: Class =
    Class::Refused("a drive is brought to a steady state before the run: --precondition steady");
const SEQUENCES: Class =
    Class::Refused("random_distribution=sequence is not modelled: replay a log with read_iolog");
const SHAPES: Class = Class::Shapes;
const KEPT: Class = Class::Kept;

const U32: Value = Value::Int(0, u32::MAX as i64);
const ONE_U32: Value = Value::Int(1, u32::MAX as i64);
const BYTES: Value = Value::Int(0, i64::MAX);
const PERCENT: Value = Value::Int(0, 100);
/// Sums of a few still fit a clock of nanoseconds; `runtime=999999999` is written for no end at all.
const LONGEST: u32 = 1_000_000_000;
const MICROS: Value = Value::Time(Unit::Micros, LONGEST);
const SECONDS: Value = Value::Time(Unit::Seconds, LONGEST);
/// A rate is kept of each second.
const JUDGED: Value = Value::Time(Unit::Seconds, 1_000_000);

const fn row(name: &'static str, alias: &'static str, value: Value, class: Class) -> OptionDef {
    OptionDef { name, alias, value, class }
}

/// Kinds of `verify=`: each reads back the same blocks.
const VERIFY: &[&str] = &[
    "0",
    "md5",
    "crc64",
    "crc32",
    "crc32c-intel",
    "crc32c",
    "crc16",
    "crc7",
    "sha1",
    "sha256",
    "sha512",
    "sha3-224",
    "sha3-256",
    "sha3-384",
    "sha3-512",
    "xxhash",
    "meta",
    "pattern",
    "null",
];

use Value::{Bool, Flag, Floats, Int, Optional, Range, Size, Text, Words};

/// Every option, in the order of fio's help.
pub const OPTIONS: &[OptionDef] = &[
    row("description", "", Text, KEPT),
    row("name", "", Text, KEPT),
    row("wait_for", "", Text, KEPT),
    row("filename", "", Text, SHAPES),
    row("lockfile", "", Words(&["none", "exclusive", "readwrite"]), FILES),
    row("directory", "", Text, SHAPES),
    row("filename_format", "", Text, SHAPES),
    row("unique_filename", "", Bool, FILES),
    row(
        "opendir",
        "",
        Text,
        Class::Refused("there is no directory to open: set nrfiles and filesize"),
    ),
    row(
        "rw",
        "readwrite",
        Words(&[
            "read",
            "write",
            "trim",
            "randread",
            "randwrite",
            "randtrim",
            "rw",
            "readwrite",
            "randrw",
            "trimwrite",
            "randtrimwrite",
        ]),
        SHAPES,
    ),
    row("bs", "blocksize", Int(1, i64::MAX), SHAPES),
    row("ba", "blockalign", Int(1, i64::MAX), SHAPES),
    row("bsrange", "blocksize_range", Range, SHAPES),
    row("bssplit", "", Text, SHAPES),
    row("bs_unaligned", "blocksize_unaligned", Flag, SHAPES),
    row("bs_is_seq_rand", "", Bool, SHAPES),
    row("randrepeat", "", Bool, SHAPES),
    row("randseed", "", BYTES, SHAPES),
    row("norandommap", "", Flag, SHAPES),
    row("softrandommap", "", Bool, SHAPES),
    row(
        "ignore_error",
        "",
        Text,
        Class::NoMeaning("errors are told apart by continue_on_error only"),
    ),
    row("rw_sequencer", "", Words(&["sequential", "identical"]), SHAPES),
    row("ioengine", "", Text, SHAPES),
    row("iodepth", "", ONE_U32, SHAPES),
    row("iodepth_batch", "iodepth_batch_submit", U32, KEPT),
    row("iodepth_batch_complete_min", "iodepth_batch_complete", U32, KEPT),
    row("iodepth_batch_complete_max", "", U32, KEPT),
    row("iodepth_low", "", U32, KEPT),
    row("serialize_overlap", "", Bool, KEPT),
    row("io_submit_mode", "", Words(&["inline", "offload"]), KEPT),
    row("size", "", Size, SHAPES),
    row("io_size", "io_limit", Size, SHAPES),
    row("fill_device", "fill_fs", Bool, SHAPES),
    row("filesize", "", Int(1, i64::MAX), SHAPES),
    row(
        "file_append",
        "",
        Bool,
        Class::NoMeaning(
            "a drive has no end to append to, and the files of --fs are new in each run: an append begins where the file does",
        ),
    ),
    row("offset", "fileoffset", Size, SHAPES),
    row("offset_increment", "", Size, SHAPES),
    row("offset_align", "", BYTES, SHAPES),
    row("number_ios", "", BYTES, SHAPES),
    row("random_generator", "", Words(&["tausworthe", "lfsr", "tausworthe64"]), SHAPES),
    row(
        "random_distribution",
        "",
        Words(&["random", "zipf", "pareto", "normal", "zoned", "zoned_abs"]),
        SHAPES,
    ),
    row("percentage_random", "", PERCENT, SHAPES),
    row("allrandrepeat", "", Bool, SHAPES),
    row("nrfiles", "nr_files", U32, SHAPES),
    row(
        "file_service_type",
        "",
        Words(&["random", "zipf", "pareto", "normal", "gauss", "roundrobin", "sequential"]),
        SHAPES,
    ),
    row("openfiles", "", U32, SHAPES),
    row("fallocate", "", Words(&["none", "native", "posix", "keep", "truncate", "0", "1"]), KEPT),
    row("fadvise_hint", "", Words(&["0", "1", "random", "sequential"]), KEPT),
    row("fsync", "", U32, SHAPES),
    row("fdatasync", "", U32, SHAPES),
    row(
        "write_barrier",
        "",
        U32,
        Class::NoMeaning("no engine modelled here has barriers, as in fio"),
    ),
    row("sync_file_range", "", Text, SHAPES),
    row("direct", "", Bool, KEPT),
    row("atomic", "", Bool, KEPT),
    row("buffered", "", Bool, KEPT),
    row("overwrite", "", Bool, KEPT),
    row("loops", "", U32, SHAPES),
    row("numjobs", "", U32, SHAPES),
    row("startdelay", "", SECONDS, SHAPES),
    row("runtime", "timeout", SECONDS, SHAPES),
    row("time_based", "", Flag, SHAPES),
    row("verify_only", "", Flag, SHAPES),
    row("ramp_time", "", SECONDS, KEPT),
    row("clocksource", "", Words(&["gettimeofday", "clock_gettime", "cpu"]), CLOCK),
    row(
        "mem",
        "iomem",
        Words(&["malloc", "shm", "shmhuge", "mmap", "mmapshared", "mmaphuge"]),
        PROCESS,
    ),
    row("iomem_align", "mem_align", U32, PROCESS),
    row("verify", "", Words(VERIFY), SHAPES),
    row("do_verify", "", Bool, SHAPES),
    row("verifysort", "", Bool, Class::NoMeaning("fio has dropped it")),
    row("verifysort_nr", "", U32, Class::NoMeaning("fio has dropped it")),
    row("verify_interval", "", Int(80, u32::MAX as i64), DATA),
    row("verify_offset", "", Int(40, u32::MAX as i64), DATA),
    row("verify_pattern", "", Text, SHAPES),
    row("verify_fatal", "", Bool, CHECKED),
    row("verify_dump", "", Bool, CHECKED),
    row("verify_async", "", U32, CHECKSUMS),
    row("verify_async_cpus", "", Text, CHECKSUMS),
    row("verify_backlog", "", BYTES, SHAPES),
    row("verify_backlog_batch", "", U32, SHAPES),
    row("experimental_verify", "", Bool, SHAPES),
    row(
        "verify_state_load",
        "",
        Bool,
        Class::Refused("no run leaves a state of half written data to load"),
    ),
    row(
        "verify_state_save",
        "",
        Bool,
        Class::NoMeaning("no file is written: every write of a run has completed at its end"),
    ),
    row("trim_percentage", "", PERCENT, SHAPES),
    row("trim_verify_zero", "", Bool, SHAPES),
    row("trim_backlog", "", BYTES, SHAPES),
    row("trim_backlog_batch", "", U32, SHAPES),
    row("write_iolog", "", Text, KEPT),
    row("read_iolog", "", Text, KEPT),
    row("read_iolog_chunked", "", Bool, Class::NoMeaning("a log is read as a stream anyway")),
    row("replay_no_stall", "", Bool, KEPT),
    row("replay_redirect", "", Text, Class::NoMeaning("there is one drive to replay on")),
    row("replay_scale", "", ONE_U32, KEPT),
    row("replay_align", "", U32, KEPT),
    row("replay_time_scale", "", ONE_U32, KEPT),
    row("replay_skip", "", Text, KEPT),
    row(
        "merge_blktrace_file",
        "",
        Text,
        Class::Refused("traces are merged by the trace tools, not by a job"),
    ),
    row(
        "merge_blktrace_scalars",
        "",
        Floats(0.0, f64::MAX),
        Class::Refused("traces are merged by the trace tools, not by a job"),
    ),
    row(
        "merge_blktrace_iters",
        "",
        Floats(0.0, f64::MAX),
        Class::Refused("traces are merged by the trace tools, not by a job"),
    ),
    row("exec_prerun", "", Text, PROCESS),
    row("exec_postrun", "", Text, PROCESS),
    row("ioscheduler", "", Text, KEPT),
    row("zonemode", "", Words(&["none", "strided", "zbd"]), SHAPES),
    row("zonesize", "", BYTES, SHAPES),
    row("zonecapacity", "", BYTES, ZBD),
    row("zonerange", "", BYTES, SHAPES),
    row("zoneskip", "", BYTES, SHAPES),
    row("read_beyond_wp", "", Bool, ZBD),
    row("max_open_zones", "", Int(0, 4096), ZBD),
    row("job_max_open_zones", "", Int(0, 4096), ZBD),
    row("ignore_zone_limits", "", Bool, ZBD),
    row("zone_reset_threshold", "", Floats(0.0, 1.0), ZBD),
    row("zone_reset_frequency", "", Floats(0.0, 1.0), ZBD),
    row("lockmem", "", BYTES, PROCESS),
    row("rwmixread", "", PERCENT, SHAPES),
    row("rwmixwrite", "", PERCENT, SHAPES),
    row("nice", "", Int(-20, 19), PROCESS),
    row("prio", "", Int(0, 7), SHAPES),
    row("prioclass", "", Int(0, 3), SHAPES),
    // Ours: fio has no such option.
    row("workload_attr", "", Words(&["none", "latency", "throughput", "prioclass"]), SHAPES),
    row("thinktime", "", MICROS, SHAPES),
    row("thinktime_spin", "", MICROS, SHAPES),
    row("thinktime_blocks", "", U32, SHAPES),
    row("thinktime_blocks_type", "", Words(&["complete", "issue"]), SHAPES),
    row("thinktime_iotime", "", SECONDS, SHAPES),
    row("rate", "", BYTES, SHAPES),
    row("rate_min", "ratemin", BYTES, SHAPES),
    row("rate_process", "", Words(&["linear", "poisson"]), SHAPES),
    row("rate_cycle", "ratecycle", U32, SHAPES),
    row("rate_ignore_thinktime", "", Bool, SHAPES),
    row("rate_iops", "", U32, SHAPES),
    row("rate_iops_min", "", U32, SHAPES),
    row("max_latency", "", MICROS, KEPT),
    row("latency_target", "", MICROS, SHAPES),
    row("latency_window", "", MICROS, SHAPES),
    row("latency_percentile", "", Floats(0.0, 100.0), SHAPES),
    row("latency_run", "", Bool, SHAPES),
    row("invalidate", "", Bool, KEPT),
    row("sync", "", Words(&["none", "0", "sync", "1", "dsync"]), KEPT),
    row("write_hint", "", Words(&["none", "short", "medium", "long", "extreme"]), KEPT),
    row("create_serialize", "", Bool, FILES),
    row("create_fsync", "", Bool, FILES),
    row("create_on_open", "", Bool, KEPT),
    row("create_only", "", Bool, SHAPES),
    row("allow_file_create", "", Bool, FILES),
    row("allow_mounted_write", "", Bool, FILES),
    row("pre_read", "", Bool, KEPT),
    row("cpumask", "", U32, KEPT),
    row("cpus_allowed", "", Text, KEPT),
    row("cpus_allowed_policy", "", Words(&["shared", "split"]), KEPT),
    row("numa_cpu_nodes", "", Text, PROCESS),
    row("numa_mem_policy", "", Text, PROCESS),
    row("end_fsync", "", Bool, SHAPES),
    row("fsync_on_close", "", Bool, SHAPES),
    row("unlink", "", Bool, FILES),
    row("unlink_each_loop", "", Bool, FILES),
    row("exitall", "", Flag, KEPT),
    row("exit_what", "", Words(&["group", "stonewall", "all"]), KEPT),
    row("exitall_on_error", "", Flag, KEPT),
    row("stonewall", "wait_for_previous", Flag, SHAPES),
    row("new_group", "", Flag, SHAPES),
    row("thread", "threads", Flag, PROCESS),
    row("per_job_logs", "", Bool, KEPT),
    row("write_bw_log", "", Optional, KEPT),
    row("bwavgtime", "", U32, KEPT),
    row("write_lat_log", "", Optional, KEPT),
    row("write_iops_log", "", Optional, KEPT),
    row("iopsavgtime", "", U32, KEPT),
    row("log_entries", "", Int(1024, 1_048_576), OUTPUT),
    row("log_avg_msec", "", U32, KEPT),
    row("log_hist_msec", "", U32, KEPT),
    row("log_hist_coarseness", "", Int(0, 6), KEPT),
    row("write_hist_log", "", Optional, KEPT),
    row("log_max_value", "", Bool, KEPT),
    row("log_offset", "", Bool, KEPT),
    row("log_prio", "", Bool, KEPT),
    row("log_compression", "", Int(1024, 536_870_912), OUTPUT),
    row("log_compression_cpus", "", Text, OUTPUT),
    row("log_store_compressed", "", Bool, OUTPUT),
    row("log_unix_epoch", "", Bool, OUTPUT),
    row("log_alternate_epoch", "", Bool, OUTPUT),
    row("log_alternate_epoch_clock_id", "", U32, OUTPUT),
    row(
        "block_error_percentiles",
        "",
        Bool,
        Class::NoMeaning("simulated trims do not wear out blocks"),
    ),
    row("group_reporting", "", Flag, KEPT),
    row("stats", "", Bool, KEPT),
    row("zero_buffers", "", Flag, DATA),
    row("refill_buffers", "", Flag, DATA),
    row("scramble_buffers", "", Bool, DATA),
    row("buffer_pattern", "", Text, DATA),
    row("buffer_compress_percentage", "", PERCENT, DATA),
    row("buffer_compress_chunk", "", U32, DATA),
    row("dedupe_percentage", "", PERCENT, DATA),
    row("dedupe_mode", "", Words(&["repeat", "working_set"]), DATA),
    row("dedupe_working_set_percentage", "", PERCENT, DATA),
    row("dedupe_global", "", Bool, DATA),
    row("clat_percentiles", "", Bool, KEPT),
    row("lat_percentiles", "", Bool, KEPT),
    row("slat_percentiles", "", Bool, KEPT),
    row("percentile_list", "", Floats(0.0, 100.0), KEPT),
    row("significant_figures", "", Int(1, 10), KEPT),
    row("disk_util", "", Bool, Class::NoMeaning("the report counts what the drive model did")),
    row("gtod_reduce", "", Bool, KEPT),
    row("disable_lat", "", Bool, KEPT),
    row("disable_clat", "", Bool, KEPT),
    row("disable_slat", "", Bool, KEPT),
    row("disable_bw_measurement", "disable_bw", Bool, KEPT),
    row("gtod_cpu", "", U32, CLOCK),
    row("unified_rw_reporting", "", Words(&["none", "mixed", "both", "0", "1", "2"]), KEPT),
    row(
        "continue_on_error",
        "",
        Words(&["none", "read", "write", "io", "verify", "all", "0", "1"]),
        KEPT,
    ),
    row("error_dump", "", Bool, Class::NoMeaning("every error is in the result")),
    row(
        "profile",
        "",
        Text,
        Class::Refused("built-in profiles are not modelled: write the job out"),
    ),
    row("cgroup", "", Text, PROCESS),
    row("cgroup_nodelete", "", Bool, PROCESS),
    row("cgroup_weight", "", Int(100, 1000), PROCESS),
    row("uid", "", U32, PROCESS),
    row("gid", "", U32, PROCESS),
    row("kb_base", "", Words(&["1024", "1000"]), SHAPES),
    row("unit_base", "", Words(&["0", "8", "1"]), KEPT),
    row("hugepage-size", "", U32, PROCESS),
    row(
        "flow_id",
        "",
        U32,
        Class::Refused("flow control between jobs is not modelled: use rate_iops"),
    ),
    row(
        "flow",
        "",
        Int(0, 1000),
        Class::Refused("flow control between jobs is not modelled: use rate_iops"),
    ),
    row(
        "flow_sleep",
        "",
        U32,
        Class::Refused("flow control between jobs is not modelled: use rate_iops"),
    ),
    row("steadystate", "ss", Text, KEPT),
    row("steadystate_duration", "ss_dur", JUDGED, KEPT),
    row("steadystate_ramp_time", "ss_ramp", SECONDS, KEPT),
    // Options of the engines.
    row("hipri", "", Flag, KEPT),
    row("hipri_percentage", "", PERCENT, KEPT),
    row("cmdprio_percentage", "", PERCENT, SHAPES),
    row("cmdprio_class", "", Int(1, 3), SHAPES),
    row("cmdprio", "", Int(0, 7), SHAPES),
    row("cmdprio_bssplit", "", Text, SHAPES),
    row("sqthread_poll", "", Flag, KEPT),
    row("sqthread_poll_cpu", "", U32, KEPT),
    row("cpuload", "", U32, KEPT),
    row("cpuchunks", "", U32, KEPT),
    row("exit_on_io_done", "", Flag, KEPT),
    row(
        "cpumode",
        "",
        Words(&["noop", "qsort"]),
        Class::NoMeaning("a core here is as busy with one kind of work as with another"),
    ),
    row("userspace_reap", "", Flag, ENGINE),
    row("nowait", "", Bool, ENGINE),
    row("fixedbufs", "", Flag, ENGINE),
    row("registerfiles", "", Flag, ENGINE),
    row("nonvectored", "", Int(-1, 1), ENGINE),
    row("uncached", "", Int(0, 1), ENGINE),
    row("pool", "", Text, TRANSPORT),
    row("cont", "", Text, TRANSPORT),
    row("chunk_size", "", Text, TRANSPORT),
    row("object_class", "", Text, TRANSPORT),
    row("svcl", "", Optional, TRANSPORT),
    row("volume", "", Text, TRANSPORT),
    row("https", "", Text, TRANSPORT),
    row("http_host", "", Text, TRANSPORT),
    row("http_user", "", Text, TRANSPORT),
    row("http_pass", "", Optional, TRANSPORT),
    row("http_s3_key", "", Text, TRANSPORT),
    row("http_s3_keyid", "", Text, TRANSPORT),
    row("http_swift_auth_token", "", Text, TRANSPORT),
    row("http_s3_region", "", Text, TRANSPORT),
    row("http_s3_sse_customer_key", "", Text, TRANSPORT),
    row("http_s3_sse_customer_algorithm", "", Text, TRANSPORT),
    row("http_s3_storage_class", "", Text, TRANSPORT),
    row("http_mode", "", Text, TRANSPORT),
    row("cmd_type", "", Text, TRANSPORT),
    row("gpu_dev_ids", "", Optional, TRANSPORT),
    row("cuda_io", "", Text, TRANSPORT),
    row("namenode", "", Text, TRANSPORT),
    row("hostname", "", Text, TRANSPORT),
    row("port", "", Text, TRANSPORT),
    row("hdfsdirectory", "", Text, TRANSPORT),
    row("initiator", "", Text, TRANSPORT),
    row("uri", "", Text, TRANSPORT),
    row("nfs_url", "", Text, TRANSPORT),
    row("clustername", "", Text, TRANSPORT),
    row("clientname", "", Text, TRANSPORT),
    row("conf", "", Text, TRANSPORT),
    row("sg_write_mode", "", Text, TRANSPORT),
    row("stream_id", "", Text, TRANSPORT),
    row("xnvme_be", "", Text, TRANSPORT),
    row("xnvme_async", "", Text, TRANSPORT),
    row("xnvme_sync", "", Text, TRANSPORT),
    row("xnvme_admin", "", Text, TRANSPORT),
    row("xnvme_dev_nsid", "", Text, TRANSPORT),
    row("rbdname", "", Text, TRANSPORT),
    row("brick", "", Text, TRANSPORT),
    row("protocol", "", Text, TRANSPORT),
    row("interface", "", Text, TRANSPORT),
    row("serverip", "", Text, TRANSPORT),
    row("bindname", "", Text, TRANSPORT),
    row("verb", "", Text, TRANSPORT),
    row("program", "", Text, TRANSPORT),
    row("arguments", "", Text, TRANSPORT),
    row("donorname", "", Text, TRANSPORT),
    row("listen", "", Flag, TRANSPORT),
    row("pingpong", "", Flag, TRANSPORT),
    row("single-instance", "", U32, TRANSPORT),
    row("readfua", "", U32, TRANSPORT),
    row("nodelay", "", U32, TRANSPORT),
    row("ttl", "", U32, TRANSPORT),
    row("window_size", "", U32, TRANSPORT),
    row("mss", "", U32, TRANSPORT),
    row("direct_write_to_pmem", "", U32, TRANSPORT),
    row("busy_wait_polling", "", U32, TRANSPORT),
    row("grace_time", "", U32, TRANSPORT),
    row("std_redirect", "", U32, TRANSPORT),
    row("inplace", "", U32, TRANSPORT),
    row("stat_type", "", Text, Class::NoMeaning("each kind of stat costs the same here")),
    row("xnvme_iovec", "", Flag, TRANSPORT),
    row("no_completion_thread", "", Flag, TRANSPORT),
    row("http_verbose", "", U32, TRANSPORT),
    row("single_instance", "", U32, TRANSPORT),
    row("hdfs_use_direct", "", U32, TRANSPORT),
    row("skip_bad", "", U32, TRANSPORT),
    row("busy_poll", "", U32, TRANSPORT),
    row("touch_objects", "", U32, TRANSPORT),
    row("writefua", "", U32, TRANSPORT),
    row("thp", "", U32, TRANSPORT),
    row("force_async", "", U32, ENGINE),
    // Options of fio later than 3.33.
    row("cmdprio_hint", "", U32, HINTS),
    row("priohint", "", Int(0, 1023), HINTS),
    row("fdp", "", Bool, PLACEMENT),
    row("fdp_pli", "", Text, PLACEMENT),
    row("fdp_pli_select", "", Text, PLACEMENT),
    row("dataplacement", "", Text, PLACEMENT),
    row("plids", "", Text, PLACEMENT),
    row("plid_select", "", Text, PLACEMENT),
    row("dp_scheme", "", Text, PLACEMENT),
    row("md_per_io_size", "", U32, PROTECTION),
    row("pi_act", "", Bool, PROTECTION),
    row("pi_chk", "", Text, PROTECTION),
    row("apptag", "", U32, PROTECTION),
    row("apptag_mask", "", U32, PROTECTION),
    row("write_mode", "", Text, COMMANDS),
    row("verify_mode", "", Text, COMMANDS),
    row("read_mode", "", Text, COMMANDS),
    row("deac", "", Bool, COMMANDS),
    row("num_range", "", U32, Class::Refused("a trim here is of one range: leave it out")),
    row("sprandom", "", Bool, PRECONDITION),
    row("spr_op", "", Text, PRECONDITION),
    row("spr_num_regions", "", U32, PRECONDITION),
    row("spr_cs", "", Text, PRECONDITION),
    row("random_sequence_stride", "", Text, SEQUENCES),
    row("ramp_size", "", BYTES, Class::Refused("a ramp of bytes is not modelled: use ramp_time")),
    row(
        "thinkcycles",
        "",
        U32,
        Class::Refused("the cores' cycles are not counted: use thinktime_spin"),
    ),
    row(
        "steadystate_check_interval",
        "ss_interval",
        SECONDS,
        Class::Refused("a steady state is looked for once a second: leave it out"),
    ),
    row("end_syncfs", "", Bool, Class::Refused("use end_fsync")),
    row("log_window_value", "", Text, Class::Refused("use log_max_value")),
    row("log_issue_time", "", Bool, Class::Refused("logs have the time of completion alone")),
    row("job_start_clock_id", "", U32, OUTPUT),
    row("verify_write_sequence", "", Bool, CHECKED),
    row("verify_header_seed", "", Bool, CHECKED),
    row("verify_pattern_interval", "", Bool, DATA),
    row("recover_zbd_write_error", "", Bool, ZBD),
    row("write_zone_remainder", "", Bool, ZBD),
    row("libaio_vectored", "", Bool, ENGINE),
    row("libblkio_driver", "", Text, TRANSPORT),
    row("libblkio_path", "", Text, TRANSPORT),
    row("libblkio_pre_connect_props", "", Text, TRANSPORT),
    row("libblkio_pre_start_props", "", Text, TRANSPORT),
    row("libblkio_num_entries", "", U32, TRANSPORT),
    row("libblkio_queue_size", "", U32, TRANSPORT),
    row("libblkio_vectored", "", Flag, TRANSPORT),
    row("libblkio_write_zeroes_on_trim", "", Flag, TRANSPORT),
    row("libblkio_wait_mode", "", Text, TRANSPORT),
    row("libblkio_force_enable_completion_eventfd", "", Flag, TRANSPORT),
    row("xnvme_mem", "", Text, TRANSPORT),
    row("xnvme_dev_subnqn", "", Text, TRANSPORT),
    row("http_object_mode", "", Text, TRANSPORT),
    row("http_s3_security_token", "", Text, TRANSPORT),
    row("rbd_encryption_format", "", Text, TRANSPORT),
    row("rbd_encryption_passphrase", "", Text, TRANSPORT),
];

/// Finds an option by its name or alias.
pub fn find(name: &str) -> Option<&'static OptionDef> {
    OPTIONS.iter().find(|o| o.name == name || (!o.alias.is_empty() && o.alias == name))
}

/// `unknown option 'iodpeth', did you mean 'iodepth'?`
pub fn unknown_option(name: &str) -> ParseFault {
    let names = OPTIONS.iter().flat_map(|o| [o.name, o.alias]).filter(|n| !n.is_empty());
    ParseFault::UnknownOption { name: name.into(), near: nearest(name, names) }
}

impl OptionDef {
    /// Whether `--name` alone is complete on a command line.
    pub fn takes_no_argument(&self) -> bool {
        matches!(self.value, Value::Flag | Value::Optional)
    }

    fn missing(&self) -> ValueError {
        ValueError::Missing { option: Some(self.name) }
    }

    /// Checks the form of a value. The message does not name the option.
    pub fn check(&self, value: Option<&str>, kb_base: u64) -> Result<(), ValueError> {
        let Some(text) = value else {
            return if self.takes_no_argument() { Ok(()) } else { Err(self.missing()) };
        };
        let kilo = Unit::Kilo(kb_base);
        match self.value {
            Value::Optional => Ok(()),
            _ if text.trim().is_empty() => Err(self.missing()),
            Value::Text => Ok(()),
            Value::Words(words) => {
                let word = text.split(':').next().unwrap_or("");
                if words.contains(&word) {
                    Ok(())
                } else {
                    Err(unknown(word, words.iter().copied()))
                }
            }
            Value::Flag | Value::Bool => flag(text).map(drop),
            Value::Int(low, high) => {
                units::by_direction(text, |t| integer(t, kilo, low, high)).map(drop)
            }
            Value::Size => units::size(text, kb_base).map(drop),
            Value::Time(unit, seconds) => units::by_direction(text, |t| {
                let micros = integer(t, unit, 0, i64::MAX)?;
                if micros > u64::from(seconds) * 1_000_000 {
                    return Err(ValueError::TooLong { text: t.trim().into(), seconds });
                }
                Ok(micros)
            })
            .map(drop),
            Value::Range => ranges(text, kb_base).map(drop),
            Value::Floats(low, high) => floats(text, low, high).map(drop),
        }
    }
}

/// 0 or 1.
pub fn flag(text: &str) -> Result<bool, ValueError> {
    match text.trim() {
        "0" => Ok(false),
        "1" => Ok(true),
        other => Err(ValueError::kind(other, "0 or 1")),
    }
}

/// An integer between two bounds, both included.
pub fn integer(text: &str, unit: Unit, low: i64, high: i64) -> Result<u64, ValueError> {
    let value = units::number(text, unit)?;
    if value < low {
        return Err(ValueError::TooSmall { text: text.trim().into(), least: low });
    }
    if value > high {
        return Err(ValueError::TooLarge { text: text.trim().into(), most: Some(high) });
    }
    Ok(value as u64)
}

/// One to three ranges, by direction.
pub fn ranges(text: &str, kb_base: u64) -> Result<[Option<(u64, u64)>; 3], ValueError> {
    let one = |part: &str| {
        let (low, high) = part
            .split_once('-')
            .or_else(|| part.split_once(':'))
            .ok_or_else(|| ValueError::kind(part, "a range: write for example 4k-64k"))?;
        let bound = |t: &str| integer(t, Unit::Kilo(kb_base), 1, i64::MAX);
        let (low, high) = (bound(low)?, bound(high)?);
        Ok((low.min(high), low.max(high)))
    };
    // A comma at the end keeps the range from being split at its own '-'.
    if text.contains(',') {
        return units::by_direction(text, one);
    }
    one(text).map(|r| [Some(r); 3])
}

/// Numbers separated by `:`.
pub fn floats(text: &str, low: f64, high: f64) -> Result<Vec<f64>, ValueError> {
    let list: Vec<&str> = text.split(':').collect();
    // FIO_IO_U_LIST_MAX_LEN.
    if list.len() > 20 {
        return Err(ValueError::TooMany { most: 20, what: "values" });
    }
    list.into_iter()
        .map(|part| match part.trim().parse::<f64>() {
            Ok(x) if x.is_finite() && (low..=high).contains(&x) => Ok(x),
            Ok(_) => Err(ValueError::Outside { text: part.into(), low, high }),
            Err(_) => Err(ValueError::number(part)),
        })
        .collect()
}

/// The word before `:` of a choice, and what follows.
pub fn choice<T: Choice>(text: &str) -> Result<(T, Option<&str>), ValueError> {
    let (word, rest) = match text.split_once(':') {
        Some((word, rest)) => (word, Some(rest.trim())),
        None => (text, None),
    };
    Ok((T::parse(word.trim())?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_an_end() {
        let check = |name: &str, text: &str| find(name).expect("known").check(Some(text), 1024);
        let told = |name: &str, text: &str| check(name, text).expect_err("too long").to_string();
        for name in ["runtime", "startdelay", "ramp_time", "thinktime", "max_latency"] {
            assert_eq!(check(name, "1000000000s"), Ok(()), "{name}");
            let error = "'1000000001s' is too long: at most 1000000000s";
            assert_eq!(told(name, "1000000001s"), error, "{name}");
        }
        assert_eq!(check("runtime", "999999999"), Ok(()));
        assert_eq!(told("ss_dur", "1000001"), "'1000001' is too long: at most 1000000s");
        assert_eq!(
            told("runtime", "9223372036854"),
            "'9223372036854' is too long: at most 1000000000s"
        );
    }

    #[test]
    fn names_are_unique_and_found() {
        let mut names: Vec<&str> =
            OPTIONS.iter().flat_map(|o| [o.name, o.alias]).filter(|n| !n.is_empty()).collect();
        for name in &names {
            assert!(find(name).is_some());
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(find(""), None);
        assert_eq!(
            unknown_option("iodpeth").to_string(),
            "unknown option 'iodpeth', did you mean 'iodepth'?"
        );
    }
}
