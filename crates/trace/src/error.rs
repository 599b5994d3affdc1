//! What is wrong with a trace, and where.

use std::fmt;

/// Where in a trace something is: a line of text or a binary record, both counted from one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The trace as a whole.
    File,
    /// Column 0 means the whole line; columns are bytes, counted from one.
    Line { line: u64, column: u64 },
    /// `byte` is the offset of the record's first byte in the uncompressed stream.
    Record { record: u64, byte: u64 },
}

/// An error in a trace: `trace.csv:17:5: offset is not a number: 'abc'`. The message carries the
/// remedy where there is one.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub struct TraceError {
    pub file: String,
    pub place: Place,
    pub message: String,
}

impl TraceError {
    pub(crate) fn new(file: &str, place: Place, message: impl Into<String>) -> TraceError {
        TraceError { file: file.to_owned(), place, message: message.into() }
    }
    pub(crate) fn whole(file: &str, message: impl Into<String>) -> TraceError {
        TraceError::new(file, Place::File, message)
    }
    /// The line or record number, if the error has one.
    pub fn line(&self) -> Option<u64> {
        match self.place {
            Place::File => None,
            Place::Line { line, .. } => Some(line),
            Place::Record { record, .. } => Some(record),
        }
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
