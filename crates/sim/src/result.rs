//! What a run produced. Reports read this and nothing else.

use crate::job::ENOSPC;
use crate::topology::ArrayNode;
use serde::{Serialize, Serializer};
use wordline_base::time::serialize_ns;
use wordline_base::{Ddir, Histogram, IoClass, Life, Span, Time, Tracks};
use wordline_ftl::Counters;
use wordline_host::ArrayStats;
pub use wordline_host::function::CPU_OWNERS;
pub use wordline_host::stats::MEMORY_OWNERS;
use wordline_trace::{Request, TraceError};

/// How a run came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// Every job reached its own end.
    Complete,
    /// Stopped by the user; in-flight I/O was drained.
    Interrupted,
    /// A job failed and asked the rest to stop, or an I/O error ended a job.
    Failed,
}

/// Who ended a run before its jobs did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoppedBy {
    /// They came to their own end, or failed.
    #[default]
    Nobody,
    /// The time that the run was given is over.
    Limit,
    /// The user, at whatever time.
    User,
}

/// Why the numbers of a run are not those of a whole run.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum RunError {
    /// The trace ended with an error, after so many requests.
    #[allow(missing_docs, reason = "the message names the fields")]
    #[error("{error}\nthe report covers the {served} requests before that")]
    Trace { error: TraceError, served: u64 },
    /// Reads that returned an older write than the newest.
    #[error("{0} reads did not return the newest write: this is a defect of wordline")]
    WrongReads(u64),
    /// Not all I/Os that were generated came back.
    #[allow(missing_docs, reason = "the message names the fields")]
    #[error("{generated} I/Os were generated and {served} served: this is a defect of wordline")]
    Lost { generated: u64, served: u64 },
    /// The user stopped the run, after so many I/Os.
    #[allow(missing_docs, reason = "the message names the fields")]
    #[error("interrupted: the report covers the {served} I/Os that had been served by then")]
    Interrupted { served: u64 },
    /// The program gave up, and why.
    #[error("the program ended early: {0}")]
    Program(String),
    #[error(
        "job '{name}' failed, the first of its errors ({errors}) was: {first}{remedy}",
        first = std::io::Error::from_raw_os_error(*errno),
        remedy = match refused {
            Refused::No => "",
            Refused::Misplaced => {
                ": I/O must lie on the drive and begin and end on whole blocks of it (device.lba)"
            }
            Refused::Full => {
                ": the FTL can make no more room on the drive for writes (ftl.writes_refused): write less, or \
                 give it more spare blocks (ftl.over_provisioning)"
            }
            Refused::Memory => {
                ": the map would have passed the limit of the host's memory (ftl.writes_refused_memory): raise \
                 --host-memory (ftl.fssd.host_memory) or leave it out, or write in longer runs, which take fewer \
                 entries of the map"
            }
        }
    )]
    /// A job failed.
    Job {
        /// Its name.
        name: String,
        /// Failed I/Os.
        errors: u64,
        /// Unix error number of the first.
        errno: i32,
        /// Why they never got to the drive.
        refused: Refused,
    },
}

/// What becomes of I/Os that fail before a drive has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// They got there.
    No,
    /// Most are none that the drive could serve.
    Misplaced,
    /// Writes for which there is no room on the drive, ...
    Full,
    /// ... and those for which the host had no memory.
    Memory,
}

/// What was run. The same five things give the same bytes of output.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Provenance {
    /// The version of this program.
    pub version: String,
    /// Names of the profiles: device, ...
    pub device: String,
    /// ... FTL, ...
    pub ftl: String,
    /// ... stack, ...
    pub stack: String,
    /// ... and testbed.
    pub testbed: String,
    /// What ran, in words, with the options that change a result.
    pub workload: String,
    /// Name of the state that the drive was brought into, or `loaded`.
    pub precondition: String,
    /// The seed that every random stream is drawn from.
    pub seed: u64,
    /// What `--scale` said; empty is the whole drive.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub scale: String,
    /// What was set over the profiles, as `key=value`.
    pub overrides: Vec<String>,
}

/// All that came of a run. Serialised, a length of time or an instant is nanoseconds and its key ends in
/// `_ns`; an instant counts from when the machine was switched on. Pairs of a name and a number stay pairs.
#[derive(Serialize)]
pub struct RunResult {
    /// What was run.
    pub provenance: Provenance,
    /// How it came to its end.
    pub ended: Ended,
    /// Who ended it before that.
    pub stopped: StoppedBy,
    /// What ended a trace before its end; serialised in words.
    #[serde(serialize_with = "in_words")]
    pub trace_error: Option<TraceError>,
    /// fio's global options, as written.
    pub global_options: Vec<(String, String)>,
    /// One a thread (a job and its `numjobs` clones), in order of start.
    pub threads: Vec<ThreadResult>,
    /// What host and drive did meanwhile.
    pub machine: Machine,
    /// What a program beside or instead of jobs did.
    pub app: Option<wordline_app::Report>,
    /// What programs beside it, or beside jobs, did.
    pub with: Vec<wordline_app::Report>,
    /// Where the time of the operations of programs went, by program and kind of operation.
    pub turnarounds: Vec<wordline_app::Turnaround>,
    /// The slowest reads, then the slowest writes and trims, as many of each as were asked for, slowest first.
    pub slowest: Vec<Life>,
    /// Latency by interval, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_over_time: Option<LatencyOverTime>,
    /// Slices for drawing, if asked for.
    pub tracks: Option<Box<Tracks>>,
    /// What `write_iolog` asked for: file, and the requests as they were issued.
    pub iologs: Vec<(String, Vec<Request>)>,
    /// How the drive came to be as the run found it, in a line.
    pub prepared: String,
    /// What may mislead a reader of the numbers; reports show it above them.
    pub warnings: Vec<String>,
    /// Remarks for the user: options without meaning, dropped trace lines, and the like.
    pub notes: Vec<String>,
}

fn in_words<S: Serializer>(error: &Option<TraceError>, s: S) -> Result<S::Ok, S::Error> {
    error.as_ref().map(TraceError::to_string).serialize(s)
}

impl RunResult {
    /// Whether the numbers are those of a whole run, and if not why. A run that came to its limit is
    /// whole.
    pub fn verdict(&self) -> Result<(), RunError> {
        let Machine { generated, served, totals: DriveTotals { integrity, .. }, .. } =
            &self.machine;
        let (generated, served) = (*generated, *served);
        if let Some(error) = &self.trace_error {
            return Err(RunError::Trace { error: error.clone(), served });
        }
        let of_arrays: u64 = self.machine.arrays.iter().map(|array| array.wrong).sum();
        if integrity.wrong + of_arrays > 0 {
            return Err(RunError::WrongReads(integrity.wrong + of_arrays));
        }
        match self.ended {
            Ended::Complete if generated != served => Err(RunError::Lost { generated, served }),
            Ended::Complete => Ok(()),
            Ended::Interrupted if self.stopped == StoppedBy::User => {
                Err(RunError::Interrupted { served })
            }
            Ended::Interrupted => Ok(()),
            Ended::Failed => Err(self.failure()),
        }
    }

    fn failure(&self) -> RunError {
        let programs = || self.app.iter().chain(&self.with);
        if let Some((program, why)) = programs().find_map(|p| Some((p, p.failure.as_ref()?))) {
            let name =
                if self.with.is_empty() { String::new() } else { program.name.clone() + ": " };
            return RunError::Program(name + why);
        }
        let count = |name: &str| {
            self.machine
                .totals
                .counters
                .iter()
                .find(|(n, _)| n == name)
                .map_or(0, |(_, count)| *count)
        };
        let first = self.threads.iter().find(|t| t.error != 0);
        RunError::Job {
            name: first.map_or(String::new(), |t| t.name.clone()),
            errors: first.map_or(1, |t| t.total_errors.max(1)),
            errno: first.map_or(0, |t| t.error),
            refused: match first.map_or(0, |t| t.error) {
                ENOSPC if count("ftl.writes_refused_memory") > 0 => Refused::Memory,
                ENOSPC => Refused::Full,
                _ if count("ftl.writes_refused") > 0 => Refused::Full,
                _ if count("host.errors") > count("device.failed") => Refused::Misplaced,
                _ => Refused::No,
            },
        }
    }
}

/// Minimum, maximum, mean and deviation of samples (bandwidth in KiB/s, or IOPS) as fio keeps them.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct SampleStats {
    /// Samples.
    pub n: u64,
    /// The least; 0 without samples.
    pub min: f64,
    /// The greatest; 0 without samples.
    pub max: f64,
    /// 0 without samples.
    pub mean: f64,
    /// Sum of squared differences from the mean (Welford).
    pub m2: f64,
}

impl SampleStats {
    /// One more sample.
    pub fn add(&mut self, value: f64) {
        if self.n == 0 {
            (self.min, self.max) = (value, value);
        }
        self.n += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        let delta = value - self.mean;
        self.mean += delta / self.n as f64;
        self.m2 += delta * (value - self.mean);
    }
    /// Standard deviation of a sample (n - 1); 0 below two.
    pub fn stddev(&self) -> f64 {
        if self.n < 2 { 0.0 } else { (self.m2 / (self.n - 1) as f64).sqrt() }
    }
}

/// One data direction of one thread.
#[derive(Clone, Default, Serialize)]
pub struct DirResult {
    /// Bytes that came back.
    pub io_bytes: u64,
    /// I/Os that came back after the ramp.
    pub total_ios: u64,
    /// I/Os that came back with less than was asked for: none here.
    pub short_ios: u64,
    /// I/Os that were not issued: none here.
    pub drop_ios: u64,
    /// From the thread's start (after ramp) to its last completion of this direction.
    #[serde(rename = "runtime_ns", serialize_with = "serialize_ns")]
    pub runtime: Span,
    /// Submission, completion and total latency in nanoseconds.
    #[serde(rename = "slat_ns")]
    pub slat: Histogram,
    /// Completion.
    #[serde(rename = "clat_ns")]
    pub clat: Histogram,
    /// Total.
    #[serde(rename = "lat_ns")]
    pub lat: Histogram,
    /// KiB a second, by samples; I/Os a second likewise.
    pub bw_kib: SampleStats,
    /// I/Os a second, by samples.
    pub iops: SampleStats,
    /// By class, in fio's order; empty while all I/Os have the thread's.
    pub classes: Vec<ClassLatency>,
}

/// Completion and total latency of the I/Os of a class, in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct ClassLatency {
    /// The class.
    pub class: IoClass,
    /// Completion.
    #[serde(rename = "clat_ns")]
    pub clat: Histogram,
    /// Total.
    #[serde(rename = "lat_ns")]
    pub lat: Histogram,
}

/// Latency of the I/Os of a direction and class, from the application's call to its return.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClassRow {
    /// `read`, `write` or `trim`.
    pub ddir: String,
    /// The class.
    pub class: IoClass,
    /// Its workload attribute ends at a network, whose protocol has no field for it: what serves the drive, and
    /// the drive, take these I/Os for ones without.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ends_at_network: bool,
    /// I/Os.
    pub count: u64,
    /// Mean latency.
    pub mean_ns: f64,
    /// Percentiles, to within 1/128: half of all, ...
    pub p50_ns: u64,
    /// ... 99 of 100, ...
    pub p99_ns: u64,
    /// ... 999 of 1,000.
    pub p99_9_ns: u64,
    /// The slowest.
    pub max_ns: u64,
}

/// What the drive had of the I/Os of a class: commands, and lines of its cache that one of them wrote to
/// or had filled last.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DriveClass {
    /// The class.
    pub class: IoClass,
    /// Commands.
    pub reads: u64,
    /// Commands.
    pub writes: u64,
    /// Commands.
    pub flushes: u64,
    /// Commands.
    pub trims: u64,
    /// Erase commands of an open-channel drive.
    pub resets: u64,
    /// Lines of the cache at the end.
    pub cached_lines: u64,
    /// Sectors read that the cache had.
    pub read_hits: u64,
    /// Sectors read that the cache did not have.
    pub read_misses: u64,
}

/// One line of fio's `write_lat_log` and friends: time is milliseconds when printed.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct LogLine {
    /// When it completed, or the interval ended.
    #[serde(rename = "at_ns")]
    pub at: Time,
    /// Nanoseconds, KiB/s or I/Os per second by the log's kind.
    pub value: u64,
    /// Direction.
    pub ddir: Ddir,
    /// Bytes.
    pub bs: u32,
    /// Bytes from the start of the drive or file.
    pub offset: u64,
    /// The I/O's class.
    pub class: IoClass,
}

/// What a log has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogKind {
    /// Total latency, nanoseconds.
    Lat,
    /// Submission latency, nanoseconds.
    Slat,
    /// Completion latency, nanoseconds.
    Clat,
    /// KiB a second.
    Bw,
    /// I/Os a second.
    Iops,
    /// Histograms of completion latency.
    Hist,
}

/// One line of fio's `write_hist_log`: what was counted since the line before.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct HistLine {
    /// End of the interval.
    #[serde(rename = "at_ns")]
    pub at: Time,
    /// Direction.
    pub ddir: Ddir,
    /// Bytes of the I/O that ended the interval.
    pub bs: u32,
    /// Counts by fio's bins, made coarser as the job says.
    pub bins: Vec<u64>,
}

/// A log file to be written: fio names it `{prefix}_{kind}.{thread number}.log`.
#[derive(Clone, Serialize)]
pub struct Log {
    /// How the file's name begins, as the job says it.
    pub prefix: String,
    /// What it has.
    pub kind: LogKind,
    /// From 1; None with `per_job_logs=0`: threads share a file.
    pub number: Option<u32>,
    /// Write the offset column (fio's log_offset).
    pub with_offset: bool,
    /// Write the priority itself (fio's log_prio), not only whether it was high.
    pub with_prio: bool,
    /// Lines of all kinds but [`LogKind::Hist`], in order of time.
    pub lines: Vec<LogLine>,
    /// Lines of [`LogKind::Hist`].
    pub hist: Vec<HistLine>,
}

/// What fio's `steadystate` found. Rates of the intervals, earliest first; one that did not come
/// is 0.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SteadyResult {
    /// As in fio's output: `iops_slope:0.300000%`.
    pub name: String,
    /// I/Os a second were judged, and not bandwidth.
    pub of_iops: bool,
    /// The slope was judged, and not the greatest distance from the mean.
    pub slope: bool,
    /// The limit is in percent of the mean.
    pub percent: bool,
    /// Seconds.
    #[serde(rename = "duration_s")]
    pub duration: u64,
    /// The rate kept still for long enough.
    pub attained: bool,
    /// What was compared with the limit last.
    pub criterion: f64,
    /// Greatest distance of a rate from their mean.
    pub max_deviation: f64,
    /// Slope of the line through the rates.
    pub slope_value: f64,
    /// I/Os a second.
    pub iops: Vec<u64>,
    /// Bytes a second.
    #[serde(rename = "bw_bytes")]
    pub bw: Vec<u64>,
}

/// Total latency of all threads' I/Os, by interval of their completion.
#[derive(Clone, Default, Serialize)]
pub struct LatencyOverTime {
    /// The length of each interval; the first begins when the machine is switched on.
    pub interval_ns: u64,
    /// By `Ddir::Read`, `Write`, `Trim`; intervals with no I/O at the end are left out.
    pub intervals: Vec<[Histogram; 3]>,
}

/// What one thread of a job did.
#[derive(Serialize)]
pub struct ThreadResult {
    /// The job's.
    pub name: String,
    /// The job's own words.
    pub description: Option<String>,
    /// fio's groupid.
    pub group: u32,
    /// Reports show the group, and not the thread.
    pub group_reporting: bool,
    /// Reports show all directions together.
    pub unified_rw_reporting: bool,
    /// fio's thread number, from 1.
    pub number: u32,
    /// Name of the engine that ran it.
    pub ioengine: String,
    /// I/Os in flight at most.
    pub iodepth: u32,
    /// The class of its I/Os, but for those that have one of their own.
    pub class: IoClass,
    /// All its disks are over a network, where workload attributes end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub over_network: bool,
    /// Latency by direction and class, if its I/Os are of two classes or more.
    pub classes: Vec<ClassRow>,
    /// Options of the job's section as written.
    pub options: Vec<(String, String)>,
    /// The first error met, as a Unix error number; 0 is none.
    pub error: i32,
    /// Failed I/Os.
    pub total_errors: u64,
    /// When its statistics begin: after the ramp.
    #[serde(rename = "started_ns")]
    pub started: Time,
    /// When its last I/O came back.
    #[serde(rename = "finished_ns")]
    pub finished: Time,
    /// By `Ddir::Read`, `Write`, `Trim`.
    pub dirs: [DirResult; 3],
    /// Latency of fsync and fdatasync.
    #[serde(rename = "sync_ns")]
    pub sync: Histogram,
    /// Processor time of the application, and of the kernel for it.
    #[serde(rename = "user_ns", serialize_with = "serialize_ns")]
    pub user: Span,
    /// ... of the kernel.
    #[serde(rename = "system_ns", serialize_with = "serialize_ns")]
    pub system: Span,
    /// Times that its core went on with another thread.
    pub context_switches: u64,
    /// Reads, writes and trims issued since the ramp.
    pub depth_ios: u64,
    /// fio's depth distributions, counts: 1, 2, 4, 8, 16, 32, >=64.
    pub depth_level: [u64; 7],
    /// 0, 4, 8, 16, 32, 64, >=64 (fio's buckets).
    pub depth_submit: [u64; 7],
    /// I/Os that came back together.
    pub depth_complete: [u64; 7],
    /// Reports show percentiles of completion latency, ...
    pub clat_percentiles: bool,
    /// ... of total latency, ...
    pub lat_percentiles: bool,
    /// ... of submission latency.
    pub slat_percentiles: bool,
    /// Percentages to report.
    pub percentile_list: Vec<f64>,
    /// Log files that the job asks for.
    pub logs: Vec<Log>,
    /// False: fio leaves the thread out of its report (`stats=0`).
    pub reported: bool,
    /// What `steadystate` found, if the job looks for it.
    pub steady: Option<SteadyResult>,
    /// I/Os the workload generated, and I/Os that came back. Equal unless the run was interrupted.
    pub generated: u64,
    /// I/Os that came back.
    pub served: u64,
}

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
    /// The run in intervals.
    pub intervals: Intervals,
    /// LUN by LUN, of each drive with flash.
    pub flash: Vec<FlashUse>,
}

/// What came back in each interval and how late, and how the flash stood. All lists have an element for
/// each interval.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Intervals {
    /// Where each ends.
    pub end_ns: Vec<u64>,
    /// By direction, those that had I/Os.
    pub latency: Vec<DirectionOverTime>,
    /// Reads of users that came from flash, in pieces, ...
    pub flash_reads: Vec<u64>,
    /// ... those of them that waited, ...
    pub flash_reads_waited: Vec<u64>,
    /// ... and by what they waited for longest.
    pub reads_blocked: Vec<(String, Vec<u64>)>,
    /// None where an FTL has no lines.
    pub free_lines: Option<FreeLines>,
}

/// I/Os of one direction by interval.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DirectionOverTime {
    /// `read`, `write` or `trim`.
    pub ddir: String,
    /// I/Os that came back after the ramp.
    pub ios: Vec<u64>,
    /// Their bytes.
    pub bytes: Vec<u64>,
    /// Percentiles, to within 1/128; none where fewer than one I/O lies beyond.
    pub p50_ns: Vec<Option<u64>>,
    /// ... 99 of 100, ...
    pub p99_ns: Vec<Option<u64>>,
    /// ... 999 of 1,000, ...
    pub p99_9_ns: Vec<Option<u64>>,
    /// ... 9,999 of 10,000.
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
    /// At the end of each interval; of intervals that were put together the fewest.
    pub lines: Vec<u32>,
    /// The collector begins below so many, ...
    pub collecting_below: f64,
    /// ... and users' writes wait.
    pub writers_wait_below: f64,
}

/// What the flash of a drive did. Lists by LUN have an element for each; LUN n is on channel
/// n mod `channels`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FlashUse {
    /// The drive.
    pub drive: String,
    /// Channels.
    pub channels: u32,
    /// LUNs.
    pub luns: u32,
    /// Share of the time that each LUN was held, by what held it.
    pub busy_by: Vec<(String, Vec<f64>)>,
    /// Nanoseconds that reads of users waited at each LUN, summed over them, by what they waited for.
    pub read_wait_ns_by: Vec<(String, Vec<u64>)>,
    /// Mean erases of the blocks of each LUN; nothing of a medium written in place.
    pub erases_mean: Vec<f64>,
    /// Blocks by erases: from so many erases up to the next row's; at most 64 rows.
    pub blocks_by_erases: Vec<(u32, u64)>,
}

/// What an array did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ArrayResult {
    /// As jobs name it.
    pub name: String,
    /// As mdadm names it.
    pub level: String,
    /// Its members.
    pub members: u64,
    /// Bytes that it has.
    pub bytes: u64,
    /// Bios that came to it.
    pub requests: u64,
    /// Those that went to a member while it made room for writes, and their share.
    pub met_collecting: u64,
    /// ... as a share.
    pub met_share: f64,
    /// Members that made room at a time, at most.
    pub most_collecting: u64,
    /// Times one had to begin without the token.
    pub forced_collections: u64,
    /// Processor time of parity sums.
    pub xor_ns: u64,
    /// Host memory: pages of stripes, the bitmap, the journal's block of metadata.
    pub stripe_bytes: u64,
    /// ... of the bitmap.
    pub bitmap_bytes: u64,
    /// ... of the journal.
    pub journal_bytes: u64,
    /// Look-ups that were held against the newest writes, and those and rows of parity that were wrong.
    pub checked: u64,
    /// ... wrong ones.
    pub wrong: u64,
    /// Memory of that check.
    pub check_bytes: u64,
    /// Members that are lost, or not rebuilt yet.
    pub missing: u64,
    /// Rows are left to be rebuilt or looked at.
    pub syncing: bool,
    /// Nothing closes the write hole: after a power cut parity may be wrong, and a drive lost then takes what it
    /// rebuilds with it.
    pub write_hole: bool,
    /// What the stripe cache counted.
    pub counters: Vec<(String, u64)>,
}

impl ArrayResult {
    pub(crate) fn new(node: &ArrayNode, stats: &ArrayStats) -> ArrayResult {
        let counters = stats.raid5.iter().flat_map(|of| of.list().collect::<Vec<_>>());
        ArrayResult {
            name: node.name.clone(),
            level: node.level.name().into(),
            members: node.members.len() as u64,
            bytes: stats.bytes,
            requests: stats.requests,
            met_collecting: stats.met_collecting,
            met_share: stats.met_collecting as f64 / stats.requests.max(1) as f64,
            most_collecting: stats.most_collecting.into(),
            forced_collections: stats.forced_collections,
            xor_ns: stats.xor_ns,
            stripe_bytes: stats.stripe_bytes,
            bitmap_bytes: stats.bitmap_bytes,
            journal_bytes: stats.journal_bytes,
            checked: stats.checked,
            wrong: stats.wrong,
            check_bytes: stats.check_bytes,
            missing: stats.missing.into(),
            syncing: stats.syncing,
            write_hole: node.level.parities() > 0 && node.journal.is_none(),
            counters: counters.map(|(name, n)| (name.to_string(), n)).collect(),
        }
    }
}

/// What a drive did, or several together. Shares are of the elapsed time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DriveTotals {
    /// Sectors written to flash, and why.
    pub write_amplification: WriteAmplification,
    /// Sectors written in part.
    pub partial_writes: PartialWrites,
    /// Reads of users that waited, by what they waited for longest.
    pub reads_blocked: Vec<(String, u64)>,
    /// Those of them that waited for anything at all.
    pub user_reads_waited: u64,
    /// Reads of users that came from flash, in pieces.
    pub user_flash_reads: u64,
    /// Reads rebuilt from their stride; none without parity.
    pub strides: Option<StrideReport>,
    /// Bytes between host and an open-channel drive, by what they are for.
    pub link_bytes: Vec<(String, u64)>,
    /// Share of the time that each channel of the flash was in use.
    pub channels: Vec<f64>,
    /// Share of the time that each LUN was in use.
    pub luns: Vec<f64>,
    /// The link; of several drives the mean.
    pub link: LinkUse,
    /// Share of the time that each firmware core worked.
    pub firmware: Vec<f64>,
    /// The cache, if there is one.
    pub cache: Option<CacheUse>,
    /// The check of versions.
    pub integrity: Integrity,
    /// Erasures.
    pub wear: WearSummary,
    /// Joules by part.
    pub energy_j: Vec<(String, f64)>,
    /// Joules by what they were for.
    pub energy_by_state_j: Vec<(String, f64)>,
    /// Mean watts.
    pub total_w: f64,
    /// Further counters of FTL, flash and device, by name.
    pub counters: Vec<(String, u64)>,
    /// Memory of the mapping.
    pub mapping_bytes: u64,
    /// The same by sector of 4 KiB.
    pub mapping_bytes_per_sector: f64,
    /// Memory of the check of versions.
    pub stamp_bytes: u64,
    /// Memory of the check of what pages hold.
    pub page_bytes: u64,
}

/// A drive, or a bridge with those behind it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DriveResult {
    /// As jobs name it.
    pub name: String,
    /// The name of its profile.
    pub device: String,
    /// Its size.
    pub sectors: u64,
    /// ... in bytes.
    pub bytes: u64,
    /// How it came to be as the run found it.
    pub prepared: String,
    /// What it did.
    #[serde(flatten)]
    pub totals: DriveTotals,
    /// What came to it of each class.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<DriveClass>,
    /// Of a bridge, the drives behind it, whose sum it is; link and commands by class are its own, and its
    /// engine is the first of the firmware cores.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<DriveResult>,
}

/// Adds what has a name to what has the same one.
pub(crate) fn add_named<T: Clone + std::ops::AddAssign>(
    sum: &mut Vec<(String, T)>,
    more: &[(String, T)],
) {
    for (name, n) in more {
        match sum.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += n.clone(),
            None => sum.push((name.clone(), n.clone())),
        }
    }
}

impl DriveTotals {
    /// With another drive's: counts, energy and memory are sums, lists of parts go on, a link's shares and
    /// wear are means. `sectors`: of both drives.
    fn add(&mut self, o: &DriveTotals, sectors: [u64; 2]) {
        let [a, b] = sectors.map(|n| n as f64);
        let mean = |x: f64, y: f64| (x * a + y * b) / (a + b).max(1.0);
        self.link.to_device = mean(self.link.to_device, o.link.to_device);
        self.link.to_host = mean(self.link.to_host, o.link.to_host);
        self.wear.erases_mean = mean(self.wear.erases_mean, o.wear.erases_mean);
        self.wear.erases_min = self.wear.erases_min.min(o.wear.erases_min);
        self.wear.erases_max = self.wear.erases_max.max(o.wear.erases_max);
        self.wear.rated = self.wear.rated.min(o.wear.rated);
        self.wear.in_place &= o.wear.in_place;
        self.write_amplification.add(&o.write_amplification);
        self.partial_writes.sectors += o.partial_writes.sectors;
        self.partial_writes.read_bytes += o.partial_writes.read_bytes;
        self.partial_writes.waits += o.partial_writes.waits;
        add_named(&mut self.reads_blocked, &o.reads_blocked);
        self.user_reads_waited += o.user_reads_waited;
        self.user_flash_reads += o.user_flash_reads;
        match (&mut self.strides, &o.strides) {
            (Some(sum), Some(more)) => sum.add(more),
            (none, more) => *none = none.take().or_else(|| more.clone()),
        }
        add_named(&mut self.link_bytes, &o.link_bytes);
        self.channels.extend(&o.channels);
        self.luns.extend(&o.luns);
        self.firmware.extend(&o.firmware);
        match (&mut self.cache, &o.cache) {
            (Some(sum), Some(more)) => sum.add(more),
            (none, more) => *none = none.take().or_else(|| more.clone()),
        }
        self.integrity.on &= o.integrity.on;
        self.integrity.checked += o.integrity.checked;
        self.integrity.wrong += o.integrity.wrong;
        add_named(&mut self.energy_j, &o.energy_j);
        add_named(&mut self.energy_by_state_j, &o.energy_by_state_j);
        self.total_w += o.total_w;
        add_named(&mut self.counters, &o.counters);
        self.mapping_bytes += o.mapping_bytes;
        self.mapping_bytes_per_sector =
            self.mapping_bytes as f64 / (sectors[0] + sectors[1]).max(1) as f64;
        self.stamp_bytes += o.stamp_bytes;
        self.page_bytes += o.page_bytes;
    }
}

impl DriveResult {
    /// With another drive's.
    fn add(&mut self, o: &DriveResult) {
        self.totals.add(&o.totals, [self.sectors, o.sectors]);
        self.sectors += o.sectors;
        for more in &o.classes {
            match self.classes.iter_mut().find(|c| c.class == more.class) {
                Some(sum) => sum.add(more),
                None => self.classes.push(more.clone()),
            }
        }
    }

    /// The drives with flash: itself, or those behind it.
    pub fn leaves(&self) -> Vec<&DriveResult> {
        match &*self.members {
            [] => vec![self],
            members => members.iter().flat_map(DriveResult::leaves).collect(),
        }
    }

    /// The sum of drives, of which there is one at least.
    pub fn sum(drives: &[DriveResult]) -> DriveResult {
        let mut sum = DriveResult { members: Vec::new(), ..drives[0].clone() };
        drives[1..].iter().for_each(|drive| sum.add(drive));
        sum
    }
}

impl StrideReport {
    fn add(&mut self, o: &StrideReport) {
        self.rebuilt_reads += o.rebuilt_reads;
        self.rebuilt_sectors += o.rebuilt_sectors;
        self.member_sectors += o.member_sectors;
        add_named(&mut self.waits, &o.waits);
        self.read_errors += o.read_errors;
        self.repaired_reads += o.repaired_reads;
        self.rebuild_errors += o.rebuild_errors;
        self.deferred += o.deferred;
        self.throttling_ended += o.throttling_ended;
        self.xor_sectors += o.xor_sectors;
        self.xor_ns += o.xor_ns;
        self.parity_table_bytes += o.parity_table_bytes;
        self.hot_luns += o.hot_luns;
        self.partitions += o.partitions;
        self.hot_gc_sectors += o.hot_gc_sectors;
    }
}

impl CacheUse {
    fn add(&mut self, o: &CacheUse) {
        self.read_hits += o.read_hits;
        self.read_misses += o.read_misses;
        self.read_ahead += o.read_ahead;
        self.read_ahead_used += o.read_ahead_used;
        self.evictions += o.evictions;
        self.write_backs += o.write_backs;
        // Ways of different caches are nothing to add up: each drive's are its own.
        self.partitions.clear();
    }
}

impl DriveClass {
    fn add(&mut self, o: &DriveClass) {
        self.reads += o.reads;
        self.writes += o.writes;
        self.flushes += o.flushes;
        self.trims += o.trims;
        self.resets += o.resets;
        self.cached_lines += o.cached_lines;
        self.read_hits += o.read_hits;
        self.read_misses += o.read_misses;
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Without the last where nothing was folded, or written of a map.
fn causes_that_are<S: serde::Serializer>(
    rows: &[(u64, [u64; CAUSES])],
    to: S,
) -> Result<S::Ok, S::Error> {
    let has = |i: usize| rows.iter().any(|(_, row)| row[i] > 0);
    let causes = Cause::columns(has).len();
    to.collect_seq(rows.iter().map(|(end, row)| (end, &row[..causes])))
}

/// Why a sector is written to flash, parity aside. The order is that of the columns over time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Users wrote it.
    User,
    /// The collector moved it.
    Gc,
    /// It fills a unit that had to be programmed before it was full.
    Padding,
    /// The FTL keeps it to find data again.
    Metadata,
    /// It was moved from SLC blocks to native ones.
    Folded,
    /// It is a page of the map.
    Map,
}

/// The number of causes.
pub const CAUSES: usize = Cause::ALL.len();

impl Cause {
    /// All, in the order of columns.
    pub const ALL: [Cause; 6] =
        [Cause::User, Cause::Gc, Cause::Padding, Cause::Metadata, Cause::Folded, Cause::Map];

    /// As keys and columns have it.
    pub fn name(self) -> &'static str {
        match self {
            Cause::User => "user",
            Cause::Gc => "gc",
            Cause::Padding => "padding",
            Cause::Metadata => "metadata",
            Cause::Folded => "folded",
            Cause::Map => "map",
        }
    }
    /// Sectors that an FTL counts.
    pub fn counted(self, c: &Counters) -> u64 {
        match self {
            Cause::User => c.user_sectors,
            Cause::Gc => c.gc_sectors,
            Cause::Padding => c.pad_sectors,
            Cause::Metadata => c.smeta_sectors + c.emeta_sectors,
            Cause::Folded => c.folded_sectors,
            Cause::Map => c.map_sectors,
        }
    }
    /// Only some drives have it: it is not told where there is none.
    pub fn is_rare(self) -> bool {
        matches!(self, Cause::Folded | Cause::Map)
    }
    /// The columns of a run: the rare ones as far as the last of which there is any.
    pub fn columns(has: impl Fn(usize) -> bool) -> &'static [Cause] {
        let told = |&i: &usize| !Cause::ALL[i].is_rare() || has(i);
        let last = (0..CAUSES).rev().find(told).map_or(0, |i| i + 1);
        const ALL: &[Cause] = &Cause::ALL;
        &ALL[..last]
    }
}

/// Sectors written to flash by cause, and their ratio to what users wrote.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WriteAmplification {
    /// Users' data.
    pub user_sectors: u64,
    /// What the collector moved.
    pub gc_sectors: u64,
    /// What it moved from a buffer in SLC mode to the native cells.
    #[serde(skip_serializing_if = "is_zero")]
    pub folded_sectors: u64,
    /// Pages of a map that memory holds a part of.
    #[serde(skip_serializing_if = "is_zero")]
    pub map_sectors: u64,
    /// Units filled up with nothing.
    pub padding_sectors: u64,
    /// Metadata of lines.
    pub metadata_sectors: u64,
    /// Parity of strides.
    pub parity_sectors: u64,
    /// (user + gc + folded + map + padding + metadata) / user; none when users wrote nothing.
    pub factor: Option<f64>,
    /// The same with parity.
    pub factor_with_parity: Option<f64>,
    /// Data of write commands that the FTL's side took from users, and bytes programmed for each of
    /// them, parity included: a sector written in part is programmed whole.
    pub host_bytes: u64,
    /// Bytes programmed for them, parity included.
    pub flash_bytes: u64,
    /// Their ratio; none when users wrote nothing.
    pub factor_in_bytes: Option<f64>,
    /// The factor in each third of what users wrote; none if too little was written to tell.
    pub by_third: Option<[f64; 3]>,
    /// The same over time: end of the interval in ns, and within it the sectors of users, moved, padding,
    /// metadata, folded, pages of the map.
    #[serde(serialize_with = "causes_that_are")]
    pub over_time: Vec<(u64, [u64; CAUSES])>,
    /// While ageing: write amplification window by window.
    pub ageing: Vec<f64>,
    /// Ageing ended at its limit, before write amplification was steady.
    pub ageing_unsteady: bool,
}

/// Sectors of 4 KiB that were written in part: read, modified and written by the FTL's side.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct PartialWrites {
    /// How many.
    pub sectors: u64,
    /// What of them came from flash; the rest was in a buffer or never written.
    pub read_bytes: u64,
    /// Writes and trims that waited for another of such a sector.
    pub waits: u64,
}

/// Where a number went in the course of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trend {
    /// It stayed.
    Flat,
    /// It went up.
    Rising,
    /// It went down.
    Falling,
    /// Up and down.
    Uneven,
}

impl Trend {
    /// Parts that lie within this factor of each other are flat.
    const WITHIN: f64 = 1.15;

    /// The trend of a value in each third.
    pub fn of(by_third: [f64; 3]) -> Trend {
        let [a, b, c] = by_third;
        let (least, most) = (a.min(b).min(c), a.max(b).max(c));
        if most <= least * Trend::WITHIN {
            Trend::Flat
        } else if a <= b && b <= c {
            Trend::Rising
        } else if a >= b && b >= c {
            Trend::Falling
        } else {
            Trend::Uneven
        }
    }
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Trend::Flat => "flat",
            Trend::Rising => "rising",
            Trend::Falling => "falling",
            Trend::Uneven => "uneven",
        }
    }
}

impl WriteAmplification {
    /// What an FTL counted between two moments.
    pub(crate) fn between(before: &Counters, after: &Counters) -> WriteAmplification {
        let mut all = WriteAmplification {
            parity_sectors: after.parity_sectors - before.parity_sectors,
            ..WriteAmplification::default()
        };
        for cause in Cause::ALL {
            *all.of_mut(cause) = cause.counted(after) - cause.counted(before);
        }
        all
    }
    /// Sectors of a cause.
    pub fn of(&self, cause: Cause) -> u64 {
        match cause {
            Cause::User => self.user_sectors,
            Cause::Gc => self.gc_sectors,
            Cause::Padding => self.padding_sectors,
            Cause::Metadata => self.metadata_sectors,
            Cause::Folded => self.folded_sectors,
            Cause::Map => self.map_sectors,
        }
    }
    fn of_mut(&mut self, cause: Cause) -> &mut u64 {
        match cause {
            Cause::User => &mut self.user_sectors,
            Cause::Gc => &mut self.gc_sectors,
            Cause::Padding => &mut self.padding_sectors,
            Cause::Metadata => &mut self.metadata_sectors,
            Cause::Folded => &mut self.folded_sectors,
            Cause::Map => &mut self.map_sectors,
        }
    }
    /// Sectors programmed.
    pub fn sectors(&self) -> u64 {
        Cause::ALL.map(|cause| self.of(cause)).iter().sum::<u64>() + self.parity_sectors
    }

    /// Works out the factors from the counts.
    pub fn with_factors(mut self) -> WriteAmplification {
        let user = self.user_sectors;
        let programmed = self.sectors() - self.parity_sectors;
        self.factor = (user > 0).then(|| programmed as f64 / user as f64);
        self.factor_with_parity = self.factor.map(|f| f + self.parity_sectors as f64 / user as f64);
        self.factor_in_bytes =
            (self.host_bytes > 0).then(|| self.flash_bytes as f64 / self.host_bytes as f64);
        self
    }

    /// With another drive's. How each aged is its own.
    fn add(&mut self, o: &WriteAmplification) {
        for cause in Cause::ALL {
            *self.of_mut(cause) += o.of(cause);
        }
        self.parity_sectors += o.parity_sectors;
        self.host_bytes += o.host_bytes;
        self.flash_bytes += o.flash_bytes;
        self.ageing_unsteady |= o.ageing_unsteady;
        self.ageing = Vec::new();
        *self = std::mem::take(self).with_factors();
    }

    /// Intervals in which users wrote, below which nothing is said of the course.
    const LEAST_INTERVALS: usize = 9;

    /// The factor in each third of what users wrote, from the series over time.
    pub fn thirds(over_time: &[(u64, [u64; CAUSES])]) -> Option<[f64; 3]> {
        let total: u64 = over_time.iter().map(|(_, row)| row[0]).sum();
        if over_time.iter().filter(|(_, row)| row[0] > 0).count() < Self::LEAST_INTERVALS {
            return None;
        }
        let (mut parts, mut before) = ([[0u64; 2]; 3], 0);
        for (_, row) in over_time {
            // An interval belongs to the third in which its middle lies.
            let middle = before + row[0] / 2;
            let part = &mut parts[((middle * 3 / total.max(1)) as usize).min(2)];
            part[0] += row[0];
            part[1] += row.iter().sum::<u64>();
            before += row[0];
        }
        let factor = |[user, all]: [u64; 2]| all as f64 / user as f64;
        parts.iter().all(|p| p[0] > 0).then(|| parts.map(factor))
    }
}

/// What strides do: of reads, by flash read.
#[derive(Clone, Debug, Serialize)]
pub struct StrideReport {
    /// Runs whose LUN was busy and that were rebuilt, their sectors, and the sectors read for that.
    pub rebuilt_reads: u64,
    /// ... their sectors, ...
    pub rebuilt_sectors: u64,
    /// ... and sectors read for them.
    pub member_sectors: u64,
    /// Runs read from a busy LUN, by what stood in the way.
    pub waits: Vec<(String, u64)>,
    /// Reads that failed, and those of them repaired from the stride.
    pub read_errors: u64,
    /// ... of them repaired.
    pub repaired_reads: u64,
    /// Rebuilds that failed.
    pub rebuild_errors: u64,
    /// Programs and erases that waited for reads issued before them.
    pub deferred: u64,
    /// Times that too few reads ended throttling.
    pub throttling_ended: u64,
    /// Sectors added to sums, and the host's processor time for it.
    pub xor_sectors: u64,
    /// ... processor time of the host.
    pub xor_ns: u64,
    /// Memory of where parity is.
    pub parity_table_bytes: u64,
    /// LUNs with hot data at the end, times the border moved, and the collector's sectors that had
    /// to go to hot lines.
    pub hot_luns: u32,
    /// ... times the border moved, ...
    pub partitions: u64,
    /// ... sectors of the collector in hot lines.
    pub hot_gc_sectors: u64,
}

/// Latency by layer for one direction. Every row sums to the latency it splits.
#[derive(Clone, Debug, Serialize)]
pub struct LayerTable {
    /// `read`, `write` or `trim`.
    pub ddir: String,
    /// I/Os.
    pub count: u64,
    /// Mean latency, and its split over `Layer::ALL` in ns.
    pub mean_ns: f64,
    /// In the order of `Layer::ALL`.
    pub mean_by_layer_ns: Vec<f64>,
    /// At a percentile: the latency, and the mean split of the I/Os in that histogram bucket.
    pub at: Vec<LayerRow>,
}

/// Where the time of the I/Os at a percentile went.
#[derive(Clone, Debug, Serialize)]
pub struct LayerRow {
    /// From 0 to 100.
    pub percentile: f64,
    /// The latency there.
    pub latency_ns: u64,
    /// Its split over `Layer::ALL`.
    pub by_layer_ns: Vec<f64>,
}

/// Shares of the time that the link was in use.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LinkUse {
    /// Towards the drive.
    pub to_device: f64,
    /// Towards the host.
    pub to_host: f64,
}

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
    /// Memory by whom it was for, and of all together.
    pub memory_by_owner: Vec<MemoryOwner>,
    /// The run in intervals.
    pub over_time: Vec<HostRow>,
}

/// What the host did in an interval.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HostRow {
    /// Where it ends.
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
    /// Share of all cores in an interval: median and most.
    pub share_p50: f64,
    /// ... most.
    pub share_max: f64,
}

/// Memory of one owner.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryOwner {
    /// Whose.
    pub name: String,
    /// Bytes at the end of the run.
    pub end_bytes: u64,
    /// By intervals: median and most.
    pub p50_bytes: u64,
    /// ... most.
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
    /// In it, of all cores.
    pub ns: u64,
    /// Its share of the time that cores were busy.
    pub share: f64,
    /// Per I/O that was served, and so those below.
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
    /// In applications.
    pub user: f64,
    /// In the kernel for them.
    pub system: f64,
    /// In interrupt handlers.
    pub interrupt: f64,
    /// Doing nothing.
    pub idle: f64,
}

/// What the drive's cache did, in sectors but for evictions.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CacheUse {
    /// Sectors of reads that were there.
    pub read_hits: u64,
    /// Sectors of reads that were not.
    pub read_misses: u64,
    /// Fetched ahead.
    pub read_ahead: u64,
    /// ... and read before they were evicted.
    pub read_ahead_used: u64,
    /// Lines given up for others.
    pub evictions: u64,
    /// Written to the FTL.
    pub write_backs: u64,
    /// By partition, where the cache is split or its read-ahead adapts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<CachePartitionUse>,
}

/// What commands of a partition of the drive's cache did, in sectors but for lines.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CachePartitionUse {
    /// `latency` or `throughput`.
    pub name: String,
    /// Sectors read that were there.
    pub read_hits: u64,
    /// Being read already, for another command or ahead.
    pub read_joins: u64,
    /// Sectors read that came from flash.
    pub read_misses: u64,
    /// Sectors written into the cache.
    pub writes: u64,
    /// Writes of a sector that was dirty.
    pub overwrites: u64,
    /// Sectors read ahead.
    pub read_ahead: u64,
    /// Sectors read ahead that a command asked for later.
    pub read_ahead_used: u64,
    /// Replaced, written or trimmed before anybody asked.
    pub read_ahead_useless: u64,
    /// Lines replaced.
    pub evictions: u64,
    /// Sectors written to the FTL.
    pub write_backs: u64,
    /// Waits for a line to be written back.
    pub write_stalls: u64,
    /// At the end.
    pub lines: u64,
    /// Ways of each set that are its own, at the end.
    pub ways: u32,
    /// From when on it had so many.
    pub ways_over_time: Vec<WaysFrom>,
    /// From when on so many sectors were kept ahead of a stream; where ghosts choose.
    pub read_ahead_over_time: Vec<ReadAheadFrom>,
}

/// A change of a partition's ways.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct WaysFrom {
    /// Nanoseconds since the start.
    pub at_ns: u64,
    /// Ways from then on.
    pub ways: u32,
}

/// A change of how far reads go ahead.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct ReadAheadFrom {
    /// Nanoseconds since the start.
    pub at_ns: u64,
    /// Sectors ahead of a stream from then on.
    pub sectors: u32,
}

/// Reads compared with the newest write.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Integrity {
    /// Whether versions are kept.
    pub on: bool,
    /// Sectors compared.
    pub checked: u64,
    /// Those that did not return the newest write.
    pub wrong: u64,
}

/// Erasures of blocks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WearSummary {
    /// Erasures of the block with the fewest.
    pub erases_min: u32,
    /// Erasures of the block with the most.
    pub erases_max: u32,
    /// Erasures of a block in the mean.
    pub erases_mean: f64,
    /// That a block is rated for.
    pub rated: u32,
    /// The medium is written in place: these are writes of a unit, not erasures of a block.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_place: bool,
}
