//! What is wrong with a trace, and where.

use std::fmt;

/// Where in a trace something is: a line of text or a binary record, both counted from one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The trace as a whole.
    File,
    /// A line of text.
    Line {
        /// From one.
        line: u64,
        /// Bytes, counted from one; 0 is the whole line.
        column: u64,
    },
    /// A binary record.
    Record {
        /// From one.
        record: u64,
        /// The offset of its first byte in the uncompressed stream.
        byte: u64,
    },
}

impl Place {
    /// The number of the line or record, if it is one.
    pub fn line(self) -> Option<u64> {
        match self {
            Place::File => None,
            Place::Line { line, .. } => Some(line),
            Place::Record { record, .. } => Some(record),
        }
    }
}

/// What sort of thing is wrong with a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TraceFault {
    /// It cannot be opened or read on, or its compression is damaged.
    Unreadable,
    /// Its format cannot be told: whoever opens it can name one.
    Format,
    /// It is empty, packed, or of a format that is not read.
    Unread,
    /// What was said of it does not go with it or with itself.
    Options,
    /// A line or record that its format does not have.
    Malformed,
    /// It has no request to replay.
    Empty,
    /// A request that the drive or the clock cannot take.
    Request,
}

/// A word of the command line that stands for nothing: of a format, an action, a unit.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WordError {
    /// No record of a request's life.
    #[error("unknown action '{0}': use Q (queue), D (issue) or C (complete)")]
    Action(String),
    /// No unit of times.
    #[error("unknown time unit '{0}': use ps, ns, 100ns, us, ms or s")]
    TimeUnit(String),
    /// No unit of addresses.
    #[error("unknown unit '{0}': byte, sector, or a number of bytes as 512 or 4k")]
    AddressUnit(String),
    /// A unit of addresses that is too large, or nothing.
    #[error("unit '{0}': from 1 byte to 1 GiB")]
    UnitRange(String),
    /// No format.
    #[error("unknown trace format '{name}'{}", .near.map_or_else(
        || format!(": the formats are auto, {}", crate::format::names()),
        |near| format!(", did you mean '{near}'?")
    ))]
    Format {
        /// The name as given.
        name: String,
        /// The format whose name is like it.
        near: Option<&'static str>,
    },
    /// Columns are no format with a name.
    #[error("columns are named with --columns, not with --format")]
    Columns,
}

/// A clock that cannot be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ClockError {
    /// Not a decimal number.
    #[error(
        "time scale '{0}' is no factor, or one beyond what a clock of nanoseconds holds: write for example 0.5 or 2"
    )]
    Factor(String),
    /// A factor of 0.
    #[error("a time scale of 0 leaves no time between requests: replay in a closed loop instead")]
    Still,
    /// Times become longer than a clock of nanoseconds in 64 bits holds.
    #[error("the scaled time is beyond 36 years: use a smaller time scale")]
    Beyond,
}

/// What is wrong with `--columns`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum ColumnsError {
    #[error("'{0}' is no KEY=VALUE, as time=1:us")]
    NoValue(String),
    #[error("{0}= stands twice")]
    Twice(String),
    #[error("unknown key '{key}'{}", .near.map_or_else(
        || format!(": {}", .known.join(", ")), |near| format!(", did you mean '{near}'?")
    ))]
    Key { key: String, known: Vec<&'static str>, near: Option<&'static str> },
    #[error("{0}= is without a column")]
    NoColumn(String),
    #[error("{key}={text}: positions count from 1 to {most}")]
    Position { key: String, text: String, most: usize },
    #[error("{key}={text} is without its unit: say it, as {key}={text}:{example}")]
    NoUnit { key: String, text: String, example: &'static str },
    #[error("{key}={text}: {error}")]
    Unit { key: String, text: String, error: WordError },
    #[error(
        "sep={0}: comma, tab, semicolon, pipe, blank, or one character that is no letter, digit, dot, \
         quote or #"
    )]
    Separator(String),
    #[error("skip={0}: a number of lines, as skip=1")]
    Skip(String),
    #[error("{key}={value}: an empty word")]
    EmptyWord { key: String, value: String },
    #[error("offset= is missing, as offset=3:sector")]
    NoOffset,
    #[error("{0}= says what a word of the op column is: say op=COLUMN too")]
    NoOp(&'static str),
    #[error("base= is a time: say time=COLUMN:UNIT too")]
    NoTime,
    #[error("the word '{0}' is said to be two things")]
    TwoThings(String),
    #[error("{count} columns are named '{name}': say its position")]
    Ambiguous { count: usize, name: String },
    #[error("no column is named '{name}' in the header{}", .near.as_ref().map_or(
        String::new(), |near| format!(", did you mean '{near}'?")
    ))]
    NoSuchColumn { name: String, near: Option<String> },
    /// In the header, or in the base.
    #[error("{0}")]
    Text(String),
}

/// `--columns` and a trace that do not go together.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("--columns: {error}; the file begins with '{first}'")]
pub(crate) struct BadColumns {
    pub error: ColumnsError,
    pub first: String,
}

/// Why a format cannot be told.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum FormatError {
    #[error("it has the shape of {} formats alike: say {}", .0.len(), options(.0))]
    Alike(Vec<crate::Format>),
    #[error("this is a tar archive: unpack it and give the trace inside")]
    Archive,
    #[error("compressed with {0}: decompress it, only .gz and .zst are read")]
    Compressed(&'static str),
    #[error("text in UTF-16: convert it with iconv -f UTF-16 -t UTF-8")]
    Utf16,
    #[error("the trace is empty")]
    Empty,
    #[error("the trace begins with 64 KiB of blank lines")]
    Blank,
    #[error(
        "this looks like a fio I/O log of version 1, which has no file names and no times: record it \
         again with fio 1.17 or newer, or name the columns of another table with --columns"
    )]
    IologV1,
    #[error(
        "cannot tell the format{}; it begins with '{first}': name it with --format ({}), or its \
         columns with --columns",
        if *.named_blktrace { ", although it is named like a blktrace file" } else { "" },
        crate::format::names()
    )]
    Unknown { named_blktrace: bool, first: String },
}

impl FormatError {
    pub(crate) fn fault(&self) -> TraceFault {
        match self {
            FormatError::Alike(_) | FormatError::Unknown { .. } => TraceFault::Format,
            _ => TraceFault::Unread,
        }
    }
}

fn options(formats: &[crate::Format]) -> String {
    let options: Vec<String> =
        formats.iter().map(|f| format!("--format {} ({})", f.name(), f.description())).collect();
    options.join(" or ")
}

/// A record that its format does not have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum RecordError {
    #[error(
        "no vscsi record of version {due} (version {version}, opcode {opcode:#x}): the file is damaged \
         or no vscsi trace"
    )]
    Vscsi { due: u16, version: u16, opcode: u16 },
    #[error("the time, {us} us, is beyond 584 years: the file is damaged or no vscsi trace")]
    Time { us: u64 },
    #[error(
        "no oracleGeneral record: the number of a request cannot be {next}: the file is damaged or of \
         another format"
    )]
    Oracle { next: i64 },
    #[error("more than {volumes} volumes, or {mib} MiB of names")]
    TooManyVolumes { volumes: usize, mib: usize },
}

/// An error in a trace: `trace.csv:17:5: offset is not a number: 'abc'`. The message carries the
/// remedy where there is one.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub struct TraceError {
    /// The trace's name as given.
    pub file: String,
    /// Where it is.
    pub place: Place,
    /// What sort of error it is.
    pub fault: TraceFault,
    /// What is wrong, with the remedy, without the place.
    pub message: String,
}

impl TraceError {
    pub(crate) fn new(
        file: &str,
        place: Place,
        fault: TraceFault,
        message: impl ToString,
    ) -> TraceError {
        TraceError { file: file.to_owned(), place, fault, message: message.to_string() }
    }
    pub(crate) fn whole(file: &str, fault: TraceFault, message: impl ToString) -> TraceError {
        TraceError::new(file, Place::File, fault, message)
    }
    /// The line or record number, if the error has one.
    pub fn line(&self) -> Option<u64> {
        self.place.line()
    }
    /// The column, counted in bytes from one, if the error has one.
    pub fn column(&self) -> Option<u64> {
        match self.place {
            Place::Line { column, .. } if column > 0 => Some(column),
            _ => None,
        }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::File => write!(f, "{}: {}", self.file, self.message),
            Place::Line { line, column: 0 } => {
                write!(f, "{}:{line}: {}", self.file, self.message)
            }
            Place::Line { line, column } => {
                write!(f, "{}:{line}:{column}: {}", self.file, self.message)
            }
            Place::Record { record, byte } => {
                write!(f, "{}: record {record} at byte {byte}: {}", self.file, self.message)
            }
        }
    }
}
