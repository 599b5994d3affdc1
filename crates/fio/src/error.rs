//! Errors with a place and a remedy.

use std::fmt;

/// Where in the input something stands.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// The job file's name as given, or `command line`.
    pub file: String,
    /// From 1. Zero where lines have no meaning, as on the command line.
    pub line: u32,
}

impl Place {
    pub(crate) fn new(file: &str, line: u32) -> Place {
        Place { file: file.to_string(), line }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

/// A job that cannot be taken: prints as `job.fio:7: unknown option 'iodpeth', did you mean
/// 'iodepth'?`.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{place}: {fault}")]
pub struct ParseError {
    /// The file and the line, or the command line.
    pub place: Place,
    /// What is wrong there.
    pub fault: ParseFault,
}

/// What is wrong with a job file or a command line, and what to write instead; no full stop.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum ParseFault {
    #[error("unknown option '{name}'{}", .near.map_or(
        ": fio --cmdhelp=all lists them".into(), |near| format!(", did you mean '{near}'?")
    ))]
    UnknownOption { name: String, near: Option<&'static str> },
    #[error("option '{name}' is ambiguous: '{first}' or '{second}'")]
    Ambiguous { name: String, first: &'static str, second: &'static str },
    /// A value that the option does not take. `unset`: a variable in it that has no value.
    #[error("option '{option}': {error}{}", .unset.as_ref().map_or(
        String::new(), |name| format!("; ${{{name}}} is not set: {name}=... wordline run ...")
    ))]
    Option { option: String, error: Box<ValueError>, unset: Option<String> },
    /// An option that does nothing here, where that is an error.
    #[error("option '{option}' has no meaning here: {reason}")]
    NoMeaning { option: &'static str, reason: &'static str },
    /// Options of a section that do not go together.
    #[error("job '{job}': {error}")]
    Job { job: String, error: Clash },
    #[error("job '{job}' waits for '{other}': {found} earlier jobs have that name")]
    WaitsFor { job: String, other: String, found: usize },
    #[error("{threads} threads are more than {most}: lower numjobs")]
    TooManyThreads { threads: u64, most: u64 },
    #[error("no job section is named '{0}'")]
    NoSection(String),
    #[error("no job is defined: add a [section] or --name=")]
    NoJob,
    #[error("{option} needs the name of a {of}")]
    NoName { option: &'static str, of: &'static str },
    #[error("cannot {} '{path}': {why}", if *.include { "include" } else { "read" })]
    Unreadable { path: String, why: String, include: bool },
    #[error("'{path}' includes itself, or files nest deeper than {most}")]
    Nested { path: String, most: u32 },
    #[error("an included file cannot start a section")]
    SectionIncluded,
    #[error("section '{0}' does not end with ']'")]
    SectionEnd(String),
    #[error("option '{0}' stands before the first [section]")]
    BeforeSection(String),
    #[error("the line is longer than {most} bytes{}", if *.filled { " once variables are in" } else { "" })]
    LineTooLong { most: usize, filled: bool },
    #[error(
        "${0} has no value, so that a run is the same on every machine: set the environment variable, \
         {0}=N wordline run ..."
    )]
    Keyword(&'static str),
    /// Arithmetic after a `$keyword` was replaced.
    #[error(transparent)]
    Arithmetic(Box<ValueError>),
}

/// What is wrong with a value. The option is not named.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum ValueError {
    #[error("a value is missing{}", .option.map_or(
        String::new(), |option| format!(": write {option}=VALUE, or leave it out")
    ))]
    Missing { option: Option<&'static str> },
    /// A text that is not of the kind asked for; `kind` has the remedy behind a colon where there is one.
    #[error("'{text}' is not {kind}")]
    Kind { text: String, kind: &'static str },
    #[error("'{text}' is a percentage: write a number here")]
    Percentage { text: String },
    #[error("'{text}' has an unknown unit '{unit}': write for example {example}")]
    Unit { text: String, unit: String, example: &'static str },
    #[error(
        "'{text}' has the unit of time '{unit}', which is not taken here: write for example 10, 4k or 1g"
    )]
    Timed { text: String, unit: String },
    #[error("'{text}' is too small: at least {least}")]
    TooSmall { text: String, least: i64 },
    #[error("'{text}' is too large{}", .most.map_or(String::new(), |most| format!(": at most {most}")))]
    TooLarge { text: String, most: Option<i64> },
    #[error("'{text}' is too long: at most {seconds}s")]
    TooLong { text: String, seconds: u32 },
    #[error("'{text}' is not between {low} and {high}")]
    Outside { text: String, low: f64, high: f64 },
    #[error("'{word}' is not one of {}{}", .known.join(", "), hint(*.near))]
    Word { word: String, known: Vec<&'static str>, near: Option<&'static str> },
    #[error(transparent)]
    Expression(#[from] ExpressionError),
    #[error("more than {most} {what}")]
    TooMany { most: usize, what: &'static str },
    #[error("access percentages add up to {0}, not to 100")]
    AccessSum(u32),
    #[error("engine '{engine}' {does}: no I/O to a drive, nothing to model here")]
    NoDrive { engine: String, does: &'static str },
    #[error(
        "engine '{engine}' has no model here, those that have: {}{}", .known.join(", "), hint(*.near)
    )]
    NoModel { engine: String, known: Vec<&'static str>, near: Option<&'static str> },
    /// A rule of the option's own, in its words.
    #[error("{0}")]
    Rule(&'static str),
    /// An option that asks for what is not modelled: why, and what to use.
    #[error("{0}")]
    Refused(&'static str),
}

fn hint(near: Option<&str>) -> String {
    near.map_or(String::new(), |near| format!(", did you mean '{near}'?"))
}

impl ValueError {
    pub(crate) fn kind(text: &str, kind: &'static str) -> ValueError {
        ValueError::Kind { text: text.into(), kind }
    }
    /// A number is asked for.
    pub(crate) fn number(text: &str) -> ValueError {
        ValueError::kind(text, "a number")
    }
}

/// What is wrong with a sum such as `(1g + 4k) * 2`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum ExpressionError {
    #[error("unexpected '{0}' after the expression")]
    After(String),
    #[error("'{0}' is not a number in the expression")]
    Number(String),
    #[error("division by zero in the expression")]
    Zero,
    #[error("a ')' is missing in the expression")]
    Open,
    #[error("the expression nests too deeply")]
    Nested,
}

/// Options of one job that do not go together.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum Clash {
    #[error("numjobs=0 runs nothing: at least 1")]
    NoThreads,
    #[error(
        "a block of {bytes} bytes is too large: at most {most}, which is 4 GiB less 8 KiB: lower bs, bsrange \
         or bssplit"
    )]
    BlockTooLarge { bytes: u64, most: u64 },
    #[error("size={size} is less than one block of {block} bytes")]
    SizeBelowBlock { size: u64, block: u64 },
    #[error("cpuio needs a load: cpuload=, in percent")]
    NoLoad,
    #[error("{0} and {1} exclude each other")]
    Exclude(&'static str, &'static str),
    #[error("the minimum rate exceeds the rate")]
    MinimumAboveRate,
    #[error("zonemode=zbd is not modelled: use zonemode=strided")]
    Zbd,
    #[error("zonesize has no effect without zones: add zonemode=strided")]
    NoZones,
    #[error("zonemode=strided needs zonesize=")]
    NoZonesize,
    #[error(
        "trim_percentage without trim_backlog= never ends where blocks are drawn without a random map: \
         fio goes on until all is trimmed"
    )]
    EndlessTrims,
    #[error(
        "experimental_verify draws the offsets again and needs the same ones: leave randseed and \
         randrepeat as they are"
    )]
    OtherOffsets,
}

/// A job that parses but cannot run on the drive it was given.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum GeneratorError {
    #[error(
        "job '{job}': the drive holds {drive} bytes, less than one block of {block}: lower bs, or take a larger drive"
    )]
    DriveTooSmall { job: String, drive: u64, block: u64 },
    #[error(
        "job '{job}': its size is {bytes} bytes in all, less than one block of {block}: lower bs, or raise size or filesize"
    )]
    SizeTooSmall { job: String, bytes: u64, block: u64 },
    #[error(
        "job '{job}': offset={offset} is not before the end of {of}, {end} bytes, so that there is nothing to do I/O on: \
         lower offset or offset_increment"
    )]
    OffsetBeyondEnd { job: String, offset: u64, of: &'static str, end: u64 },
    #[error(
        "job '{job}': {files} files need {needed} bytes, the drive holds {drive}: lower size, filesize or nrfiles"
    )]
    FilesDoNotFit { job: String, files: u32, needed: u64, drive: u64 },
    #[error(
        "job '{job}': a random map of {blocks} blocks is too large: set norandommap or softrandommap"
    )]
    MapTooLarge { job: String, blocks: u64 },
    #[error(
        "job '{job}': the lfsr cannot start from this seed over {blocks} blocks: set another randseed with randrepeat=0, or random_generator=tausworthe"
    )]
    LfsrSeed { job: String, blocks: u64 },
    #[error(
        "job '{job}': the zones of zoned_abs reach to byte {zones}, the file to {end}: fio gives up there, lower the zones"
    )]
    ZonesBeyondEnd { job: String, zones: u64, end: u64 },
    #[error(
        "job '{job}': {files} files are more than the {max} that can be told apart: lower nrfiles"
    )]
    TooManyFiles { job: String, files: u32, max: u32 },
    #[error(
        "job '{job}': read_iolog replays '{path}': its I/Os come from the log, not from a generator"
    )]
    Replay { job: String, path: String },
}
