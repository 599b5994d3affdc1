//! What a thread of a job did, with its logs.

use crate::result::direction::{ClassRow, DirResult};
use serde::Serialize;
use wordline_base::time::serialize_ns;
use wordline_base::{Ddir, Histogram, IoClass, Span, Time};

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

impl LogLine {
    /// Of several I/Os: no size, offset or class is theirs together, and fio writes zeros.
    pub fn averaged(at: Time, value: u64, ddir: Ddir) -> LogLine {
        LogLine { at, value, ddir, bs: 0, offset: 0, class: IoClass::NONE }
    }
}

/// What a job's error was of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ErrorOf {
    /// An I/O that failed.
    #[default]
    Io,
    /// A latency above `max_latency` or `latency_target`.
    Latency,
    /// A rate below `rate_min`.
    Rate,
}

impl ErrorOf {
    /// Whether it was of an I/O.
    pub fn is_io(&self) -> bool {
        *self == ErrorOf::Io
    }
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
    /// What was compared with the limit last: I/Os a second, bytes a second or percent, as the
    /// limit is.
    pub criterion: f64,
    /// Greatest distance of a rate from the mean, in I/Os or bytes a second.
    pub max_deviation: f64,
    /// Slope of the line through the rates, in I/Os or bytes a second per second.
    pub slope_value: f64,
    /// I/Os a second.
    pub iops: Vec<u64>,
    /// Bytes a second.
    #[serde(rename = "bw_bytes")]
    pub bw: Vec<u64>,
}

/// A trace's requests and its times.
#[derive(Clone, Default, Serialize)]
pub struct Lateness {
    /// From the time of each request to its issue. All of them count, those of a ramp too.
    #[serde(rename = "behind_ns")]
    pub behind: Histogram,
    /// From the trace's time to completion, by `Ddir::Read`, `Write`, `Trim`, of those that succeeded.
    #[serde(rename = "latency_ns")]
    pub latency: [Histogram; 3],
    /// From the time of each request that stands too far behind later ones to be sorted to the time at which it
    /// could go out.
    #[serde(rename = "displaced_ns")]
    pub displaced: Histogram,
    /// As `behind`, without those and the ones that had to wait for them: how far the machine was behind.
    #[serde(skip)]
    pub own: Histogram,
    /// The trace's own course.
    #[serde(skip)]
    pub course: Course,
}

/// How a trace went by: what it asked for, and what was in flight.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Course {
    /// From its first time to its last.
    pub length: Span,
    /// From its last time to the end of the last request.
    pub drained: Span,
    /// In flight as requests went out, in the mean of each third of them.
    pub in_flight: [f64; 3],
}

/// The queue depth that `latency_target` has come to.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct DepthSearch {
    /// Latency that I/Os may have.
    #[serde(rename = "target_ns", serialize_with = "serialize_ns")]
    pub target: Span,
    /// Time over which a depth is judged.
    #[serde(rename = "window_ns", serialize_with = "serialize_ns")]
    pub window: Span,
    /// How many of a hundred I/Os have to meet the target.
    pub percentile: f64,
    /// I/Os that the job has in flight at most, at the end.
    pub depth: u32,
}

/// Total latency of all threads' I/Os, by interval of their completion.
#[derive(Clone, Default, Serialize)]
pub struct LatencyOverTime {
    /// The length of each interval; the first begins when the machine is switched on.
    pub interval_ns: u64,
    /// By `Ddir::REPORTED`; intervals with no I/O at the end are left out.
    pub intervals: Vec<[Histogram; 4]>,
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
    /// They show each direction beside that.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unified_beside: bool,
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
    /// What that error was of.
    #[serde(skip_serializing_if = "ErrorOf::is_io")]
    pub error_of: ErrorOf,
    /// Why one of its own options ended it early: `rate_min`, `max_latency`, `latency_target`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Failed I/Os.
    pub total_errors: u64,
    /// When its statistics begin: after the ramp.
    #[serde(rename = "started_ns")]
    pub started: Time,
    /// When its last I/O came back.
    #[serde(rename = "finished_ns")]
    pub finished: Time,
    /// When its work was over: a pause after its last I/O is part of it.
    #[serde(rename = "over_ns")]
    pub over: Time,
    /// By `Ddir::Read`, `Write`, `Trim`.
    pub dirs: [DirResult; 3],
    /// Latency of fsync and fdatasync.
    #[serde(rename = "sync_ns")]
    pub sync: Histogram,
    /// How long each stretch took that a job of cpuio computed. fio counts them as I/Os without bytes.
    #[serde(rename = "chunks_ns", skip_serializing_if = "Histogram::is_empty")]
    pub chunks: Histogram,
    /// Processor time of the application since the ramp.
    #[serde(rename = "user_ns", serialize_with = "serialize_ns")]
    pub user: Span,
    /// Processor time of the kernel for it since the ramp.
    #[serde(rename = "system_ns", serialize_with = "serialize_ns")]
    pub system: Span,
    /// Times since the ramp that its core went on with another thread.
    pub context_switches: u64,
    /// Reads, writes and trims issued since the ramp.
    pub depth_ios: u64,
    /// I/Os by how many were in flight, in fio's buckets: 1, 2, 4, 8, 16, 32, >=64.
    pub depth_level: [u64; 7],
    /// Calls by I/Os submitted together: 0, 4, 8, 16, 32, 64, >=64 (fio's buckets).
    pub depth_submit: [u64; 7],
    /// Calls by I/Os that came back together, in the same buckets.
    pub depth_complete: [u64; 7],
    /// Reports show percentiles of completion latency.
    pub clat_percentiles: bool,
    /// Reports show percentiles of total latency.
    pub lat_percentiles: bool,
    /// Reports show percentiles of submission latency.
    pub slat_percentiles: bool,
    /// Percentages to report.
    pub percentile_list: Vec<f64>,
    /// Log files that the job asks for.
    pub logs: Vec<Log>,
    /// False: fio leaves the thread out of its report (`stats=0`).
    pub reported: bool,
    /// What `steadystate` found, if the job looks for it.
    pub steady: Option<SteadyResult>,
    /// What `latency_target` found, if the job has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth_search: Option<DepthSearch>,
    /// How late its requests were, if it replays a trace by its times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Lateness>,
    /// I/Os that the workload generated: as many as came back, unless the run was interrupted.
    pub generated: u64,
    /// I/Os that came back.
    pub served: u64,
}
