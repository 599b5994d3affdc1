//! What a run produced. Reports read this and nothing else.

mod array;
mod cache;
mod direction;
mod drive;
mod host;
mod iolog;
mod machine;
mod thread;
mod written;

pub use array::ArrayResult;
pub use cache::{CachePartitionUse, CacheUse, ReadAheadFrom, WaysFrom};
pub use direction::{
    ClassLatency, ClassRow, DelayTime, DirResult, LayerRow, LayerTable, SampleStats,
};
pub use drive::{
    DriveClass, DriveResult, DriveTotals, FlashUse, Integrity, LinkUse, StrideReport, SwitchUse,
    WearSummary,
};
pub(crate) use drive::{a_sector, add_named};
pub use host::{
    CoreUse, CpuCore, CpuOwner, FunctionUse, HOST_SERIES, HostReport, HostRow, IdleUse, MemoryOwner,
};
pub use iolog::Iolog;
pub use machine::{DirectionOverTime, FreeLines, Intervals, Machine};
use serde::{Serialize, Serializer};
pub use thread::{
    Course, DepthSearch, ErrorOf, HistLine, LatencyOverTime, Lateness, Log, LogKind, LogLine,
    SteadyResult, ThreadResult,
};
use wordline_base::{Life, Tracks};
pub use wordline_host::function::CPU_OWNERS;
pub use wordline_host::stats::MEMORY_OWNERS;
use wordline_trace::TraceError;
pub use written::{CAUSES, Cause, PartialWrites, Trend, WriteAmplification};

/// No room for a write.
pub const ENOSPC: i32 = 28;
/// No such file or directory.
pub const ENOENT: i32 = 2;

/// How a run came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// Every job reached its own end.
    Complete,
    /// The time that the run was given is over; in-flight I/O was drained.
    Limit,
    /// Stopped by the user; in-flight I/O was drained. Jobs may have failed before.
    Interrupted,
    /// A job failed and asked the rest to stop, or an I/O error ended a job.
    Failed,
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
    /// One of its own options ended a job.
    #[allow(missing_docs, reason = "the message names the fields")]
    #[error("job '{name}' ended early: {why}")]
    TooSlow { name: String, why: String },
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
            Refused::Gone => {
                ": a file was not there. A job that deletes its files has none in its next loop"
            }
            Refused::Files => {
                ": the file system is full: write less, take a larger drive, or say fill_device=1 if that is the end \
                 of the job"
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
    /// Writes for which there is no room on the drive.
    Full,
    /// Writes for which the host had no memory.
    Memory,
    /// Writes for which there is no room in the file system.
    Files,
    /// A file that they name does not exist.
    Gone,
}

/// What was run. The same five things give the same bytes of output.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Provenance {
    /// The version of this program.
    pub version: String,
    /// Name of the device profile.
    pub device: String,
    /// Name of the FTL profile.
    pub ftl: String,
    /// Name of the stack profile.
    pub stack: String,
    /// Name of the testbed profile.
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
    /// The file that lists the machine, if there is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub topology: String,
    /// What was set over the profiles, as `key=value`, and what entries of a machine say, as `switch pex: key=value`.
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
    /// What `write_iolog` asked for.
    pub iologs: Vec<Iolog>,
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
            Ended::Complete | Ended::Limit => Ok(()),
            Ended::Interrupted if !self.has_failed() => Err(RunError::Interrupted { served }),
            Ended::Interrupted | Ended::Failed => Err(self.failure()),
        }
    }

    /// A job, a trace or a program has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.threads.iter().any(|t| t.error != 0)
            || self.trace_error.is_some()
            || self.app.iter().chain(&self.with).any(|program| program.failure.is_some())
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
        let on_files = self.machine.totals.counters.iter().any(|(n, _)| n.starts_with("fs."));
        let first = self.threads.iter().find(|t| t.error != 0);
        if let Some((name, why)) = first.and_then(|t| Some((&t.name, t.failure.as_ref()?))) {
            return RunError::TooSlow { name: name.clone(), why: why.clone() };
        }
        RunError::Job {
            name: first.map_or(String::new(), |t| t.name.clone()),
            errors: first.map_or(1, |first| {
                let of_job = self.threads.iter().filter(|t| t.name == first.name);
                of_job.map(|t| t.total_errors).sum::<u64>().max(1)
            }),
            errno: first.map_or(0, |t| t.error),
            refused: match first.map_or(0, |t| t.error) {
                ENOENT => Refused::Gone,
                ENOSPC if count("ftl.writes_refused_memory") > 0 => Refused::Memory,
                ENOSPC if on_files && count("ftl.writes_refused") == 0 => Refused::Files,
                ENOSPC => Refused::Full,
                _ if count("ftl.writes_refused") > 0 => Refused::Full,
                _ if count("host.errors") > count("device.failed") => Refused::Misplaced,
                _ => Refused::No,
            },
        }
    }
}
