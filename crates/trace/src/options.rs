//! How a trace is opened, and what is said of it that it does not say itself.

use crate::error::WordError;
use crate::format::Format;
use crate::summary::Reason;
#[cfg(doc)]
use {crate::Request, wordline_base::Time};

/// Which record of a request's life counts (blktrace, blkparse).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Action {
    /// Q: the file system submits it.
    #[default]
    Queue,
    /// D: the driver gets it, after merges and the scheduler.
    Issue,
    /// C: it completes; times are those of completions.
    Complete,
}

impl Action {
    /// What other records of a request's life are left out as.
    pub(crate) fn reason(self) -> Reason {
        match self {
            Action::Queue => Reason::Queued,
            Action::Issue => Reason::Issued,
            Action::Complete => Reason::Completed,
        }
    }
    /// As blkparse prints it.
    pub fn letter(self) -> char {
        match self {
            Action::Queue => 'Q',
            Action::Issue => 'D',
            Action::Complete => 'C',
        }
    }
    /// From `Q`, `D` or `C`.
    pub fn from_name(name: &str) -> Result<Action, WordError> {
        match name {
            "Q" | "q" => Ok(Action::Queue),
            "D" | "d" => Ok(Action::Issue),
            "C" | "c" => Ok(Action::Complete),
            _ => Err(WordError::Action(name.into())),
        }
    }
}

/// A unit of times in a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeUnit {
    /// 10^-12 s.
    Picosecond,
    /// 10^-9 s.
    Nanosecond,
    /// 100 ns, as Windows file times have them.
    Tick,
    /// 10^-6 s.
    Microsecond,
    /// 10^-3 s.
    Millisecond,
    /// 1 s.
    Second,
}

impl TimeUnit {
    /// From `ps`, `ns`, `100ns`, `us`, `ms` or `s`.
    pub fn from_name(name: &str) -> Result<TimeUnit, WordError> {
        match name {
            "ps" => Ok(TimeUnit::Picosecond),
            "ns" => Ok(TimeUnit::Nanosecond),
            "100ns" => Ok(TimeUnit::Tick),
            "us" => Ok(TimeUnit::Microsecond),
            "ms" => Ok(TimeUnit::Millisecond),
            "s" => Ok(TimeUnit::Second),
            _ => Err(WordError::TimeUnit(name.into())),
        }
    }

    pub(crate) fn ps(self) -> u64 {
        match self {
            TimeUnit::Picosecond => 1,
            TimeUnit::Nanosecond => 1_000,
            TimeUnit::Tick => 100_000,
            TimeUnit::Microsecond => 1_000_000,
            TimeUnit::Millisecond => 1_000_000_000,
            TimeUnit::Second => 1_000_000_000_000,
        }
    }
}

/// What `wait N` means in a fio log of version 2: see [`crate::iolog`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IologWait {
    /// N microseconds after the previous wait, as fio's HOWTO says.
    #[default]
    Micros,
    /// Until N milliseconds after the start, as fio 3.33 does.
    MillisFromStart,
}

/// What [`Request::at`] counts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TimeBase {
    /// The first request is at zero.
    #[default]
    FirstRequest,
    /// The trace's own zero: for traces whose times count from the start of the recording. Times
    /// that count from 1970 or 1601 do not fit [`Time`] and are an error.
    Trace,
}

/// How a trace is opened, and what is said of it that it does not say itself.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// None: told from the first bytes.
    pub format: Option<Format>,
    /// For messages, and a hint to the format.
    pub name: String,
    /// Only this volume: a number, or a name where the trace has names (a file of an iolog, `8,0`
    /// in blktrace, blkparse and FIU, `hm_1` or `1` in MSR).
    pub volume: Option<String>,
    /// Which record of a request counts; other formats than blktrace's have one only.
    pub action: Action,
    /// Of MQSim's and DiskSim's first column (`Time_Unit` in MQSim's workload XML): nanoseconds
    /// unless told; DiskSim writes milliseconds.
    pub time_unit: Option<TimeUnit>,
    /// What a wait of a fio log of version 2 means.
    pub iolog_wait: IologWait,
    /// The columns of delimited text of no known format: see [`crate::COLUMNS_HELP`].
    pub columns: Option<String>,
    /// Percent of reads where the trace has no direction; 100 unless told.
    pub reads: Option<u8>,
    /// Bytes of a request where the trace has no lengths.
    pub length: Option<u32>,
    /// Bytes of an address where the format leaves its unit open; 512 unless told.
    pub address_unit: Option<u64>,
    /// Places the requests within their second where a trace has whole seconds, and draws their
    /// directions.
    pub seed: u64,
    /// What times count from.
    pub base: TimeBase,
    /// Requests held back to sort by time.
    pub window: usize,
    /// Requests that end beyond 2^64 bytes are left out and counted, in place of an error.
    pub skip_beyond: bool,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions {
            format: None,
            name: "trace".into(),
            volume: None,
            action: Action::default(),
            time_unit: None,
            iolog_wait: IologWait::default(),
            columns: None,
            reads: None,
            length: None,
            address_unit: None,
            seed: 0,
            base: TimeBase::default(),
            window: OpenOptions::WINDOW,
            skip_beyond: false,
        }
    }
}

impl OpenOptions {
    /// Chosen: 200 KB of memory.
    pub const WINDOW: usize = 4096;
    /// The most that [`OpenOptions::window`] may be.
    pub const MAX_WINDOW: usize = 1 << 20;
}
