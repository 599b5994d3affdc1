//! Why a study, a point of it or its tables cannot be had. Texts name the place and the remedy.

use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};
use wordline_base::BadValue;
use wordline_base::nearest;
use wordline_profile::ConfigError;

/// A name that nothing has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown {what} '{name}'{}", .near.as_ref().map_or_else(
    || format!(": there are {}", .known.join(", ")), |near| format!(", did you mean '{near}'?")
))]
pub struct Unknown {
    /// What was looked for: `study`, `axis`.
    pub what: String,
    /// The name given.
    pub name: String,
    /// Names that there are.
    pub known: Vec<String>,
    /// The known one that is near enough to be a slip.
    pub near: Option<String>,
}

impl Unknown {
    /// With the nearest of the known names.
    pub fn new<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Unknown {
        let known: Vec<String> = known.map(str::to_owned).collect();
        let near = nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
        Unknown { what: what.into(), name: name.into(), known, near }
    }

    /// With `instead` in place of the known ones, where they are too many to be named.
    pub(crate) fn of_many(mut self, instead: &str) -> Unknown {
        self.known = vec![instead.into()];
        self
    }
}

/// No study of that name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum NoStudy {
    #[error("unknown study '{name}', did you mean '{whole}'?")]
    Part { name: String, whole: &'static str },
    #[error("{0}; or give a .toml file")]
    Unknown(Unknown),
}

/// What is wrong with a word of `--point`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum OnlyError {
    #[error("--point {word}: no '=': write --point AXIS=VALUE")]
    NoValue { word: String },
    #[error("--point {word}: {unknown}")]
    Unknown { word: String, unknown: Unknown },
}

/// What is wrong with a word of `--vary`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum VaryError {
    #[error("--vary {word}: a key or a value is missing: write --vary KEY=VALUE[,VALUE]")]
    NoValue { word: String },
    #[error("--vary {word}: the value {value} is there twice")]
    Twice { word: String, value: String },
    #[error("--vary {word}: {key} has values already: name them in one word, with commas")]
    Key { word: String, key: String },
    #[error("--vary {word}: the values of axis {axis} have names: choose with --point {axis}=NAME")]
    Named { word: String, axis: String },
    #[error("--vary {word}: '{value}' is no state of a drive: use {known}")]
    Precondition { word: String, value: String, known: String },
    #[error("--vary {word}: name a file: the text of a topology stands in a study")]
    TopologyText { word: String },
    #[error("--vary {word}: '{value}' is no seed: use a whole number")]
    Seed { word: String, value: String },
}

/// Why a study is not run under several seeds.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum RepeatError {
    #[error("--repeat {times}: {why}")]
    Times { times: u32, why: wordline_page::NoInterval },
    #[error(
        "--repeat: --vary {word} gives the seeds, and so does --repeat: leave out --vary for means over seeds, or --repeat \
         to see each of them"
    )]
    Varied { word: String },
    #[error(
        "--repeat: tables have the number of seeds in column 'n', which the study has an axis or a metric of: rename that"
    )]
    Taken,
    #[error(
        "--repeat: the values of axis {axis} set the seed, and so does --repeat: leave it out, or take the seeds out of \
         the study"
    )]
    Axis { axis: String },
}

/// What is wrong with a text with `${variables}`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum VariableError {
    #[error("a '}}' is missing after '${{'")]
    Open,
    #[error(transparent)]
    Unknown(Unknown),
    #[error("a variable is made of itself")]
    Loop,
}

/// Why there is no machine, no job or no result for a point.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum PointError {
    #[error(transparent)]
    Variable(#[from] VariableError),
    #[error(transparent)]
    Memory(#[from] crate::memory::Short),
    #[error("cannot read the profile {name}: {why}")]
    Profile { name: String, why: io::Error },
    #[error("cannot read the topology {name}: {why}: a file, or its text in several lines")]
    Topology { name: String, why: io::Error },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Value(#[from] BadValue),
    /// The job, with its place in the study.
    #[error("{0}")]
    Job(String),
    #[error("{file}:{line}: a study replays no log")]
    Log { file: String, line: u32 },
    #[error("array: no level '{name}': use raid0, raid5, or none for a drive alone")]
    Level { name: String },
    #[error("an array needs 'drives', the number of them")]
    NoDrives,
    #[error("'drives' needs 'array': raid0 or raid5")]
    DrivesAlone,
    #[error("drives: '{text}': {level} takes a number from {least} to {most}")]
    Drives { text: String, level: &'static str, least: u32, most: u32 },
    #[error("'{key}' goes with 'device': a topology lists its drives and arrays itself")]
    OfDevice { key: &'static str },
    #[error(
        "axis {axis} says what the drives are as well: one has a topology, the other a device or an array of it"
    )]
    TwoMachines { axis: String },
    #[error("paced: a program states no rate to precondition the drive at: random")]
    PacedProgram,
    #[error(transparent)]
    Run(#[from] Box<wordline::Error>),
}

impl From<wordline::Error> for PointError {
    fn from(error: wordline::Error) -> PointError {
        PointError::Run(Box::new(error))
    }
}

/// What is wrong with a formula.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum FormulaError {
    #[error("a ')' is missing")]
    Open,
    #[error("more than {most} parentheses and signs are in each other")]
    Deep { most: usize },
    #[error("the formula ends too early")]
    End,
    #[error("unexpected '{0}'")]
    Unexpected(char),
    #[error("'{0}' is not a number")]
    Number(String),
    #[error("{0}")]
    Unknown(Unknown),
    /// A name without a value at this point.
    #[error("'{0}' has no value here")]
    NoValue(String),
}

/// Why a path does not lead to a number of a result.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum PathError {
    #[error("{path}: a percentile is from 0 to 100")]
    Percent { path: String },
    #[error("{path}: no percentiles are kept there: use clat_ns, or lat_percentiles=1 in the job")]
    NoPercentiles { path: String },
    #[error("{path}: no distribution is kept there: use clat_ns, or lat_percentiles=1 in the job")]
    NoBins { path: String },
    #[error("{path}: percentiles are of a latency, as in clat_ns.p99")]
    NoLatency { path: String },
    /// `known`: the keys that there are, or how many elements.
    #[error("{path}: there is no '{key}', but {known}")]
    NoKey { path: String, key: String, known: String },
    #[error(
        "{path}: job '{job}' has {threads} threads: say group_reporting in it to have them as one, or name one by its \
         position, as in jobs.0"
    )]
    Clones { path: String, job: String, threads: usize },
    #[error("{path} is not a number")]
    NoNumber { path: String },
    #[error("chart: {path} is no histogram")]
    NoHistogram { path: String },
}

/// Why results cannot be kept, or tables not written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum StoreError {
    #[error("cannot write {}: {}", .path.display(), explain(.why))]
    Write { path: PathBuf, why: io::Error },
    #[error("{} is in use by another run: wait for it or name another --out", .folder.display())]
    InUse { folder: PathBuf },
    #[error(
        "{} is no table of a study, and a table of this one might replace it: move it or name another --out",
        .path.display()
    )]
    Stranger { path: PathBuf },
    #[error(transparent)]
    Path(#[from] PathError),
}

impl StoreError {
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
        let path = path.to_path_buf();
        move |why| StoreError::Write { path, why }
    }
}

/// Why something cannot be written, with what may help.
pub fn explain(error: &io::Error) -> String {
    use io::ErrorKind::*;
    let remedy = match error.kind() {
        StorageFull | QuotaExceeded => ": free space there or name another --out",
        PermissionDenied | ReadOnlyFilesystem => ": change its permissions or name another --out",
        NotADirectory | AlreadyExists => ": a file is in the way, name another --out",
        _ => "",
    };
    format!("{error}{remedy}")
}

/// Why a worker ends before its points do.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum WorkerError {
    #[error("a worker is started by 'wordline study run'")]
    NotStarted,
    #[error("the process that started this one is gone")]
    ParentGone,
    #[error("cannot start a process: {0}")]
    Fork(io::Error),
    #[error(transparent)]
    System(#[from] io::Error),
    /// A line that is not what the starter says.
    #[error("an order cannot be read: {0}")]
    Order(String),
    #[error(transparent)]
    Point(#[from] PointError),
}

impl From<Errno> for WorkerError {
    fn from(errno: Errno) -> WorkerError {
        WorkerError::System(errno.into())
    }
}
