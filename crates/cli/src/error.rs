//! What only the command line can find wrong. The text names the place and the remedy.

use crate::Failure;
use crate::files::explain;
use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use wordline_frontend::Status;

/// What the live server says of itself.
pub fn served(e: wordline_live::Error) -> Failure {
    if e.is_usage() { Failure::usage(e) } else { Failure::run(e) }
}

/// Words that mean nothing, or not together: exit status 2.
#[derive(Debug, thiserror::Error)]
pub enum WordError {
    #[error("argument {0:?} is not UTF-8: rename the file it names")]
    NotUtf8(std::ffi::OsString),
    #[error("'{word}' belongs to a command: wordline run {word} ...")]
    NoCommand { word: String },
    #[error("option '{0}': a value is missing")]
    NoValue(String),
    /// An option of the program fio.
    #[error("--{name} is not an option here: {remedy}")]
    OfFio { name: String, remedy: &'static str },
    #[error("unknown option '--{name}'{}", .near.as_ref().map_or_else(
        || ": wordline run --help lists wordline's own options, fio --cmdhelp=all those of jobs".into(),
        |near| format!(", did you mean '--{near}'?")
    ))]
    Unknown { name: String, near: Option<String> },
    #[error(
        "no job: name a job file, or give one on the command line, for example\n  wordline run --name=a \
         --rw=randread --bs=4k --iodepth=32 --runtime=10s --time_based"
    )]
    NoJob,
    #[error(
        "{place}: job '{name}' writes or trims, and --readonly is given: leave out --readonly, or the job"
    )]
    Writes { place: wordline_fio::Place, name: String },
    #[error("--repeat: there is no terse form of it: take normal, json or json+")]
    TerseRepeats,
    #[error(
        "--repeat: each run would write the logs of its jobs over those of the one before: leave \
         write_bw_log, write_iolog and their like out, or --repeat"
    )]
    LogsOfRepeats,
    #[error("--repeat: after the seed {seed} there are no {times} seeds: take a smaller one")]
    NoSeeds { seed: u64, times: u32 },
    #[error("--repeat: {} is no file, and can be read once: save it to one", .0.display())]
    RepeatsOfStream(PathBuf),
    #[error("--volume: one at a time, and not '{}' and '{}': without it all of them are replayed", .0[0], .0[1])]
    TwoVolumes([String; 2]),
    #[error("there is no place for a cache: set XDG_CACHE_HOME or HOME to a folder")]
    NoCache,
    #[error("--name: must be 1 to 100 bytes without blanks")]
    Name,
    #[error("name a process or a program: -p PID, or -- PROGRAM and its arguments")]
    NoProcess,
    #[error("a program is started with an attribute: -t latency or throughput")]
    NoAttribute,
    #[error(
        "no drive is served in a folder here: start one with wordline serve --fuse DIR, or name its socket \
         by --control"
    )]
    NothingServed,
    #[error("--size {text} is {bytes} bytes, must be a multiple of 4096 above 0")]
    SizeRange { text: String, bytes: u64 },
    /// A size that is no number.
    #[error("--{option} {text}: {why}")]
    Size { option: &'static str, text: String, why: wordline_fio::ValueError },
    #[error(
        "--client-memory {text}: must be at least {least}M with --max-connections {connections}"
    )]
    ClientMemory { text: String, least: u64, connections: u32 },
    #[error(
        "--set {0}: this is a setting of a modelled host, and a served drive's host is this machine: leave it out; \
         wordline run has it"
    )]
    HostsSetting(String),
    #[error("nobody could reach the drive: give --nbd unix:PATH or tcp:HOST:PORT, or --fuse DIR")]
    NoListener,
    #[error(
        "--time-scale: must be 0, which is as fast as possible, or 0.01 to 1000000: the model's time is over after 34 \
         years, which below 0.01 would pass in less than four months"
    )]
    TimeScale,
    #[error("--stats-interval: must be 0.05 to 86400 seconds")]
    StatsInterval,
    #[error(
        "the image {} was made with {there} {what}, the command line says {here}: leave --device, --ftl \
         and --set out, or make another image", .image.display()
    )]
    OtherShape { image: PathBuf, what: &'static str, there: u64, here: u64 },
    #[error(
        "the image {} was written by {there}, the command line says {here}, which does not find its data in it: \
         leave --device, --ftl and --set out, or make another image and copy the data there", .image.display()
    )]
    OtherFtl { image: PathBuf, there: &'static str, here: &'static str },
    #[error(
        "the image {} has {bytes} bytes, --size says {size}: leave it out, or make another",
        .image.display()
    )]
    OtherSize { image: PathBuf, bytes: u64, size: u64 },
    #[error("the drive of the image {} was made with seed {own}, not {seed}: leave out --seed", .image.display())]
    OtherSeed { image: PathBuf, own: u64, seed: u64 },
    #[error(
        "the drive of the image {} is read-only, as too few blocks are good ({why}), and a run takes no such drive: copy \
         its data to a new image and export that", .image.display()
    )]
    Worn { image: PathBuf, why: wordline_base::BadValue },
    #[error("there is no image {}: {remedy}", .image.display())]
    NoImage { image: PathBuf, remedy: &'static str },
    #[error(
        "{what} runs in Python, and {python} has no package wordline: pip install it from this source, or \
         name the interpreter that has it with {variable}"
    )]
    NoPackage { what: String, python: String, variable: &'static str },
    #[error("--iolog: cannot write {}: {}", .path.display(), explain(.why))]
    Iolog { path: PathBuf, why: io::Error },
    #[error("--salvage: cannot make {}: {}", .path.display(), explain(.why))]
    Salvage { path: PathBuf, why: io::Error },
    #[error("cannot make {}: {}", .path.display(), explain(.why))]
    Folder { path: PathBuf, why: io::Error },
}

/// A study without results to show: exit status 2.
#[derive(Debug, thiserror::Error)]
pub enum NoResult {
    #[error(
        "{out} has results of the {has} scale for {study} and none of the {asked} one: wordline study \
         report {study} --out {out}{has_option} -o {output}, or run that scale: wordline study run \
         {study} --out {out}{asked_option}"
    )]
    OtherScale {
        out: String,
        output: String,
        study: String,
        has: &'static str,
        has_option: String,
        asked: &'static str,
        asked_option: String,
    },
    #[error(
        "{out} has no result of this version of wordline for {study} at the {scale} scale: wordline study \
         run {study} --out {out}{option}"
    )]
    None { out: String, study: String, scale: &'static str, option: String },
}

/// What failed after it was begun: exit status 1.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    #[error("this is a defect of wordline: please report it with the command line")]
    Defect,
    #[error("this is a defect of wordline: {0}")]
    DefectOf(wordline_page::PageError),
    #[error("standard output was closed before all was written: use --output FILE")]
    Closed,
    #[error("cannot write to standard output: {}", explain(.0))]
    Output(io::Error),
    #[error("cache {}: {}", .folder.display(), explain(.why))]
    Cache { folder: PathBuf, why: io::Error },
    #[error("cannot make the folder {}: {why}", .path.display())]
    Folder { path: PathBuf, why: io::Error },
    #[error("cannot make a manual page: {0}")]
    Page(io::Error),
    #[error("cannot run {python}: {why}")]
    Python { python: String, why: io::Error },
    #[error("{what}: {python} was ended by a signal")]
    Signal { what: String, python: String },
    /// Signals cannot be taken.
    #[error(transparent)]
    Handler(#[from] ctrlc::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("cannot find this program: {0}")]
    NoProgram(io::Error),
    #[error("under seed {seed}: {failure}")]
    UnderSeed { seed: u64, failure: Failure },
    #[error("interrupted under seed {seed}: {}", repeats(*.complete, *.times))]
    RepeatsCut { seed: u64, complete: usize, times: u32 },
    /// More than one thing, each with a line of its own.
    #[error("{}", lines(.0))]
    Several(Vec<Failure>),
    #[error("interrupted: {done} of {points} points are done, the same command goes on from there")]
    Interrupted { done: usize, points: usize },
    #[error("{missing} of {points} points have no result, the first: {first}: {why}")]
    Points { missing: usize, points: usize, first: String, why: String },
    #[error("{missing} points have no result, the first: {first}")]
    Claims { missing: usize, first: String },
    #[error("{missing} points have no result, so that no document was written; the first: {first}")]
    NoDocument { missing: usize, first: String },
    #[error(
        "tables are not what the results say: {}; wordline study tables without --check writes them",
        .0.join(", ")
    )]
    Stale(Vec<String>),
    #[error("the session ended in state {digest:016x}: another version of the program recorded it")]
    OtherEnd { digest: u64 },
    #[error("--salvage: cannot write {}: {}", .path.display(), explain(.why))]
    Salvage { path: PathBuf, why: io::Error },
    #[error("the image is damaged")]
    Damaged,
}

/// An image that parity saves: exit status 3.
#[derive(Debug, thiserror::Error)]
#[error(
    "the image survives by parity and second copies only: {sectors} sectors and the smeta of {lines} \
     lines cannot be read where they are"
)]
pub struct WeakImage {
    pub sectors: u64,
    pub lines: u32,
}

/// Something wrong in a file or an option that is named before it.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {why}")]
pub struct At<E: Display> {
    pub place: String,
    pub why: E,
}

impl From<WordError> for Failure {
    fn from(error: WordError) -> Failure {
        Failure::usage(error)
    }
}

impl From<NoResult> for Failure {
    fn from(error: NoResult) -> Failure {
        Failure::usage(error)
    }
}

/// What there is of so many repeats.
fn repeats(complete: usize, times: u32) -> String {
    match complete {
        0 => format!("none of {times} repeats is complete, and there is nothing to report"),
        n => format!("the report covers the {n} of {times} repeats that are complete"),
    }
}

impl From<WorkError> for Failure {
    fn from(error: WorkError) -> Failure {
        Failure::run(error)
    }
}

impl From<WeakImage> for Failure {
    fn from(error: WeakImage) -> Failure {
        Failure::weak(error)
    }
}

/// One failure of what may be several.
pub fn all(mut failures: Vec<Failure>) -> Result<(), Failure> {
    match failures.len() {
        0 => Ok(()),
        1 => Err(Failure { status: Status::Failed, ..failures.remove(0) }),
        _ => Err(WorkError::Several(failures).into()),
    }
}

fn lines(failures: &[Failure]) -> String {
    failures.iter().map(Failure::to_string).collect::<Vec<_>>().join("\nwordline: ")
}
