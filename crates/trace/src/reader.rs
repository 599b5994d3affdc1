//! The reader: lines or records, a parser, a window that sorts by time, requests.
//!
//! ```text
//! bytes -> gzip/zstd -> lines -> parser -> [spread] -> window -> requests
//! ```
//!
//! Traces are almost sorted. The window holds [`OpenOptions::window`] requests and gives the
//! earliest; what comes even later than that is delivered at the time already reached, and
//! counted. So times never go back, and memory does not depend on the length of the trace.

use crate::blktrace::{self, Records};
use crate::error::{Place, TraceError};
use crate::format::{self, Format};
use crate::input::{Bytes, Input, Lines};
use crate::summary::{Reason, Summary, Tallies};
use crate::text::Fault;
use crate::{alibaba, blkparse, fiu, iolog, k5, mqsim, msr, spc, systor17, tencent};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io::{self, Read};
use wordline_base::{Ddir, Time};

/// One request of a trace. A sync has offset and length 0. Offsets and lengths are as in the trace,
/// aligned or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    pub at: Time,
    pub op: Ddir,
    /// The number in the trace where volumes have numbers, else by first appearance:
    /// see [`Reader::volumes`].
    pub volume: u32,
    /// Bytes.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
}

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
    pub fn letter(self) -> char {
        match self {
            Action::Queue => 'Q',
            Action::Issue => 'D',
            Action::Complete => 'C',
        }
    }
    pub fn from_name(name: &str) -> Result<Action, String> {
        match name {
            "Q" | "q" => Ok(Action::Queue),
            "D" | "d" => Ok(Action::Issue),
            "C" | "c" => Ok(Action::Complete),
            _ => Err(format!("unknown action '{name}': use Q (queue), D (issue) or C (complete)")),
        }
    }
}

/// The unit of MQSim's and DiskSim's first column (`Time_Unit` in MQSim's workload XML).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TimeUnit {
    Picosecond,
    #[default]
    Nanosecond,
    Microsecond,
    /// DiskSim's own.
    Millisecond,
}

impl TimeUnit {
    pub fn from_name(name: &str) -> Result<TimeUnit, String> {
        match name {
            "ps" => Ok(TimeUnit::Picosecond),
            "ns" => Ok(TimeUnit::Nanosecond),
            "us" => Ok(TimeUnit::Microsecond),
            "ms" => Ok(TimeUnit::Millisecond),
            _ => Err(format!("unknown time unit '{name}': use ps, ns, us or ms")),
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

#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// None: told from the first bytes.
    pub format: Option<Format>,
    /// For messages, and a hint to the format.
    pub name: String,
    /// Only this volume: a number, or a name where the trace has names (a file of an iolog, `8,0`
    /// in blktrace, blkparse and FIU, `hm_1` or `1` in MSR).
    pub volume: Option<String>,
    pub action: Action,
    pub mqsim_unit: TimeUnit,
    pub iolog_wait: IologWait,
    /// Places the requests within their second (Tencent).
    pub seed: u64,
    pub base: TimeBase,
    /// Requests held back to sort by time.
    pub window: usize,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions {
            format: None,
            name: "trace".into(),
            volume: None,
            action: Action::default(),
            mqsim_unit: TimeUnit::default(),
            iolog_wait: IologWait::default(),
            seed: 0,
            base: TimeBase::default(),
            window: OpenOptions::WINDOW,
        }
    }
}

impl OpenOptions {
    /// Chosen: 200 KB of memory.
    pub const WINDOW: usize = 4096;
    /// The most that [`OpenOptions::window`] may be.
    pub const MAX_WINDOW: usize = 1 << 20;
}

/// A request with its time in the trace, in nanoseconds since whatever the trace counts from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub time: u64,
    pub line: u64,
    /// Column of the time in text, byte offset of the record in binary.
    pub column: u64,
    pub offset: u64,
    pub len: u32,
    pub volume: u32,
    pub op: Ddir,
}

/// A time with the column it came from.
#[derive(Clone, Copy)]
pub(crate) struct Stamp {
    pub ns: u64,
    pub column: u64,
}

/// Names of volumes, numbered in order of appearance.
#[derive(Default)]
struct Volumes {
    numbers: BTreeMap<Vec<u8>, u32>,
    names: Vec<String>,
    name_bytes: usize,
    /// The key and number asked for last: runs of one volume are the rule.
    last: (Vec<u8>, Option<u32>),
}

/// Bounds on what a trace can make the reader remember.
const MAX_VOLUMES: usize = 65_536;
const MAX_NAME_BYTES: usize = 16 << 20;

/// What parsers write to.
pub(crate) struct Sink {
    pub line: u64,
    items: VecDeque<Item>,
    dropped: Tallies,
    noted: Tallies,
    volumes: Volumes,
    wanted: Option<String>,
    wanted_number: Option<u64>,
    /// The first few volumes that were not wanted, for the message when none was.
    others: Vec<String>,
}

impl Sink {
    fn new(wanted: Option<String>) -> Sink {
        Sink {
            line: 0,
            items: VecDeque::new(),
            dropped: Tallies::new(),
            noted: Tallies::new(),
            volumes: Volumes::default(),
            wanted_number: wanted.as_ref().and_then(|w| w.parse().ok()),
            wanted,
            others: Vec::new(),
        }
    }
    #[inline]
    pub fn drop(&mut self, reason: Reason) {
        self.dropped.add(reason, self.line);
    }
    pub fn note(&mut self, reason: Reason) {
        self.noted.add(reason, self.line);
    }

    /// Whether requests of a volume known by number are wanted; counts the line if not.
    #[inline]
    pub fn wants_number(&mut self, volume: u64) -> bool {
        if self.wanted.is_none() || self.wanted_number == Some(volume) {
            return true;
        }
        self.unwanted(&volume.to_string());
        false
    }

    /// Whether requests of a volume known by any of these names are wanted; counts the line if not.
    pub fn wants_name(&mut self, names: &[&str]) -> bool {
        match &self.wanted {
            Some(w) if !names.contains(&w.as_str()) => {
                self.unwanted(names[0]);
                false
            }
            _ => true,
        }
    }
    pub fn is_filtered(&self) -> bool {
        self.wanted.is_some()
    }

    #[cold]
    fn unwanted(&mut self, name: &str) {
        self.drop(Reason::OtherVolume);
        if self.others.len() < 8 && !self.others.iter().any(|o| o == name) {
            self.others.push(name.to_owned());
        }
    }

    /// The number of the volume with that key, a new one if need be.
    pub fn volume(&mut self, key: &[u8], name: impl FnOnce() -> String) -> Result<u32, String> {
        let v = &mut self.volumes;
        if let (last, Some(number)) = &v.last
            && last == key
        {
            return Ok(*number);
        }
        let number = match v.numbers.get(key) {
            Some(&n) => n,
            None => {
                if v.names.len() == MAX_VOLUMES || v.name_bytes + key.len() > MAX_NAME_BYTES {
                    return Err(format!(
                        "more than {MAX_VOLUMES} volumes, or {} MiB of names",
                        MAX_NAME_BYTES >> 20
                    ));
                }
                let n = v.names.len() as u32;
                v.name_bytes += key.len();
                v.numbers.insert(key.to_vec(), n);
                v.names.push(name());
                n
            }
        };
        v.last.0.clear();
        v.last.0.extend_from_slice(key);
        v.last.1 = Some(number);
        Ok(number)
    }

    /// A read, write or trim, with offset and length in bytes.
    #[inline]
    pub fn push(&mut self, at: Stamp, op: Ddir, volume: u32, offset: u128, len: u128) {
        let (Ok(offset), Some(end)) = (u64::try_from(offset), offset.checked_add(len)) else {
            return self.drop(Reason::BeyondEnd);
        };
        if len == 0 {
            return self.drop(Reason::ZeroLength);
        }
        // Not split: 4 GiB in one request is a command to a whole device or damage, and pieces of
        // it would be requests that nobody made.
        let Ok(len) = u32::try_from(len) else { return self.drop(Reason::TooLong) };
        if end > u128::from(u64::MAX) {
            return self.drop(Reason::BeyondEnd);
        }
        self.put(at, op, volume, offset, len);
    }
    pub fn push_sync(&mut self, at: Stamp, op: Ddir, volume: u32) {
        self.put(at, op, volume, 0, 0);
    }
    #[inline]
    fn put(&mut self, at: Stamp, op: Ddir, volume: u32, offset: u64, len: u32) {
        let (time, column, line) = (at.ns, at.column, self.line);
        self.items.push_back(Item { time, line, column, offset, len, volume, op });
    }
}

enum Text {
    Iolog(iolog::Parser),
    Blkparse(blkparse::Parser),
    Msr,
    Alibaba,
    Tencent,
    Systor17,
    K5,
    Spc,
    Fiu,
    Mqsim(mqsim::Parser),
}

impl Text {
    #[inline]
    fn line(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Fault> {
        match self {
            Text::Iolog(p) => p.line(line, sink),
            Text::Blkparse(p) => p.line(line, sink),
            Text::Msr => msr::line(line, sink),
            Text::Alibaba => alibaba::line(line, sink),
            Text::Tencent => tencent::line(line, sink),
            Text::Systor17 => systor17::line(line, sink),
            Text::K5 => k5::line(line, sink),
            Text::Spc => spc::line(line, sink),
            Text::Fiu => fiu::line(line, sink),
            Text::Mqsim(p) => p.line(line, sink),
        }
    }
}

enum Source {
    Text { lines: Lines, parser: Text },
    Records(Records),
}

/// An item that arrived after a later one; the earliest is the greatest, for the heap.
struct Stray {
    item: Item,
    arrival: u64,
}

impl Stray {
    fn key(&self) -> Reverse<(u64, u64)> {
        Reverse((self.item.time, self.arrival))
    }
}
impl PartialEq for Stray {
    fn eq(&self, other: &Stray) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Stray {}
impl PartialOrd for Stray {
    fn partial_cmp(&self, other: &Stray) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Stray {
    fn cmp(&self, other: &Stray) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// Sorts by time, ties in order of arrival. What arrives in order goes through a queue, the rest
/// through a heap.
#[derive(Default)]
struct Window {
    run: VecDeque<Item>,
    strays: BinaryHeap<Stray>,
    arrivals: u64,
}

impl Window {
    fn len(&self) -> usize {
        self.run.len() + self.strays.len()
    }
    #[inline]
    fn push(&mut self, item: Item) {
        if self.run.back().is_none_or(|b| b.time <= item.time) {
            self.run.push_back(item);
        } else {
            self.arrivals += 1;
            self.strays.push(Stray { item, arrival: self.arrivals });
        }
    }
    #[inline]
    fn pop(&mut self) -> Option<Item> {
        if let Some(Stray { item: s, .. }) = self.strays.peek() {
            // Among equal times the line tells which arrived first.
            let first = self.run.front().is_none_or(|r| (s.time, s.line) < (r.time, r.line));
            if first {
                return self.strays.pop().map(|s| s.item);
            }
        }
        self.run.pop_front()
    }
}

/// Reads one trace. See [`open`].
pub struct Reader {
    source: Source,
    format: Format,
    name: String,
    base: TimeBase,
    action: Action,
    sink: Sink,
    spread: Option<tencent::Spread>,
    window: Window,
    window_size: usize,
    ended: bool,
    failure: Option<TraceError>,
    origin: Option<u64>,
    now: Time,
    here: Place,
    requests: u64,
}

/// Opens a trace: plain, gzip or zstd, of the format asked for or told from its first bytes.
/// Nothing but the look-ahead is read.
pub fn open<R: Read + Send + 'static>(
    reader: R,
    options: OpenOptions,
) -> Result<Reader, TraceError> {
    let name = options.name.clone();
    let input = open_input(Box::new(reader), &name)?;
    let format = match options.format {
        Some(format) => format,
        None => format::detect(&input.head, input.ended, &name).map_err(|message| {
            // Nothing can be told from the little that comes before the damage.
            let message = input.failure.as_ref().map_or(message, unreadable);
            TraceError::whole(&name, message)
        })?,
    };
    let parser = match format {
        Format::Blktrace => {
            let records = Records::new(vec![(name, input)], &options);
            return Reader::new(Source::Records(records), format, options);
        }
        Format::Iolog => Text::Iolog(iolog::Parser::new(options.iolog_wait)),
        Format::Blkparse => Text::Blkparse(blkparse::Parser::new(options.action)),
        Format::Msr => Text::Msr,
        Format::Alibaba => Text::Alibaba,
        Format::Tencent => Text::Tencent,
        Format::Systor17 => Text::Systor17,
        Format::K5 => Text::K5,
        Format::Spc => Text::Spc,
        Format::Fiu => Text::Fiu,
        Format::Mqsim => Text::Mqsim(mqsim::Parser::new(options.mqsim_unit)),
    };
    Reader::new(Source::Text { lines: Lines::new(input), parser }, format, options)
}

/// Opens the per-CPU files of one blktrace recording (`sda.blktrace.0`, `.1`, …) and merges them by
/// time. One record of each is held. Empty files (idle CPUs) are allowed.
pub fn open_merged(
    readers: Vec<(String, Box<dyn Read + Send>)>,
    options: OpenOptions,
) -> Result<Reader, TraceError> {
    if !matches!(options.format, None | Some(Format::Blktrace)) {
        let message = "only blktrace files are merged: give traces of other formats one at a time";
        return Err(TraceError::whole(&options.name, message));
    }
    let mut inputs = Vec::new();
    for (name, reader) in readers {
        let input = open_input(reader, &name)?;
        if !input.head.is_empty() && !blktrace::has_magic(&input.head) {
            let message = "no blktrace file, and only those are merged: give it alone";
            return Err(TraceError::whole(&name, message));
        }
        inputs.push((name, input));
    }
    Reader::new(Source::Records(Records::new(inputs, &options)), Format::Blktrace, options)
}

fn open_input(reader: Bytes, name: &str) -> Result<Input, TraceError> {
    Input::open(reader, name).map_err(|e| TraceError::whole(name, unreadable(&e)))
}

fn unreadable(e: &io::Error) -> String {
    format!("cannot be read: {e}")
}

impl Reader {
    fn new(source: Source, format: Format, options: OpenOptions) -> Result<Reader, TraceError> {
        let numbered = matches!(
            format,
            Format::Alibaba
                | Format::Tencent
                | Format::Systor17
                | Format::K5
                | Format::Spc
                | Format::Mqsim
        );
        if let Some(volume) = &options.volume
            && numbered
            && volume.parse::<u64>().is_err()
        {
            let message = format!(
                "volume '{volume}' is not a number: volumes of format {} are numbers",
                format.name()
            );
            return Err(TraceError::whole(&options.name, message));
        }
        if options.window > OpenOptions::MAX_WINDOW {
            let message = format!(
                "a reorder window of {} requests: the most is {}",
                options.window,
                OpenOptions::MAX_WINDOW
            );
            return Err(TraceError::whole(&options.name, message));
        }
        Ok(Reader {
            source,
            format,
            name: options.name,
            base: options.base,
            action: options.action,
            sink: Sink::new(options.volume),
            spread: (format == Format::Tencent).then(|| tencent::Spread::new(options.seed)),
            window: Window::default(),
            window_size: options.window.max(1),
            ended: false,
            failure: None,
            origin: None,
            now: Time::ZERO,
            here: Place::File,
            requests: 0,
        })
    }

    /// The next request, in order of time. `None` at the end; a trace that ends without having
    /// given a request is an error that says why. What was read before an error is delivered
    /// before it.
    #[allow(clippy::should_implement_trait)] // a fallible stream, not an Iterator
    pub fn next(&mut self) -> Result<Option<Request>, TraceError> {
        while !self.ended && self.window.len() < self.window_size {
            if let Err(e) = self.fill() {
                self.failure = Some(e);
                self.ended = true;
                self.settle();
            }
        }
        match self.window.pop() {
            Some(item) => self.deliver(item).map(Some),
            None => match &self.failure {
                Some(e) => Err(e.clone()),
                None if self.requests == 0 => Err(self.nothing()),
                None => Ok(None),
            },
        }
    }

    fn deliver(&mut self, item: Item) -> Result<Request, TraceError> {
        let origin = *self.origin.get_or_insert(match self.base {
            TimeBase::FirstRequest => item.time,
            TimeBase::Trace => 0,
        });
        self.here = match self.source {
            Source::Text { .. } => Place::Line { line: item.line, column: item.column },
            Source::Records(_) => Place::Record { record: item.line, byte: item.column },
        };
        let mut at = Time(item.time.saturating_sub(origin));
        if at < self.now || item.time < origin {
            self.sink.noted.add(Reason::Late, item.line);
            at = self.now;
        }
        if at >= Time::NEVER {
            let message = match self.base {
                TimeBase::FirstRequest => "more than 36 years after the first request",
                TimeBase::Trace => {
                    "more than 36 years after the trace's zero: count from the first request \
                     instead"
                }
            };
            let e = TraceError::new(&self.name, self.here, message);
            // Later requests are later still: this is the end.
            (self.ended, self.window, self.failure) = (true, Window::default(), Some(e.clone()));
            return Err(e);
        }
        self.now = at;
        self.requests += 1;
        let Item { op, volume, offset, len, .. } = item;
        Ok(Request { at, op, volume, offset, len })
    }

    /// Reads one line or record.
    fn fill(&mut self) -> Result<(), TraceError> {
        match &mut self.source {
            Source::Text { lines, parser } => {
                let place = |line, column| Place::Line { line, column };
                match lines.next() {
                    Err(e) => {
                        let number = lines.number.max(1);
                        self.sink.line = number;
                        return Err(TraceError::new(&self.name, place(number, 0), read_error(e)));
                    }
                    Ok(None) => {
                        self.ended = true;
                        if lines.unended {
                            self.sink.note(Reason::NoNewline);
                        }
                    }
                    Ok(Some(line)) => {
                        self.sink.line += 1;
                        if line.trim_ascii().is_empty() {
                            self.sink.drop(Reason::Blank);
                        } else if let Err(fault) = parser.line(line, &mut self.sink) {
                            let place = place(self.sink.line, fault.column as u64);
                            return Err(TraceError::new(&self.name, place, fault.message));
                        }
                    }
                }
            }
            Source::Records(records) => {
                if !records.step(&mut self.sink)? {
                    self.ended = true;
                }
            }
        }
        self.settle();
        Ok(())
    }

    /// Moves what the parser made into the window.
    #[inline]
    fn settle(&mut self) {
        match &mut self.spread {
            None => {
                while let Some(item) = self.sink.items.pop_front() {
                    self.window.push(item);
                }
            }
            Some(spread) => {
                while let Some(item) = self.sink.items.pop_front() {
                    if spread.push(item, |i| self.window.push(i)) {
                        self.sink.noted.add(Reason::CrowdedSecond, item.line);
                    }
                }
                if self.ended {
                    spread.flush(|i| self.window.push(i));
                }
            }
        }
    }

    /// Why there was no request.
    fn nothing(&self) -> TraceError {
        let summary = self.summary();
        let unit = if self.format == Format::Blktrace { "records" } else { "lines" };
        let reasons: Vec<String> =
            summary.dropped.iter().map(|t| format!("{} {}", t.count, t.reason.text())).collect();
        let mut message = match summary.lines {
            0 => "no request: the trace is empty".to_owned(),
            n => format!("no request in {n} {unit} of format {}", self.format.name()),
        };
        if !reasons.is_empty() {
            message += &format!(": {}", reasons.join(", "));
        }
        let count =
            |reason| summary.dropped.iter().find(|t| t.reason == reason).map_or(0, |t| t.count);
        if let Some(wanted) = &self.sink.wanted
            && count(Reason::OtherVolume) > 0
        {
            message += &format!(
                "; none is of volume '{wanted}', there are {}",
                self.sink.others.join(" ")
            );
        }
        let chosen = match self.action {
            Action::Queue => Reason::Queued,
            Action::Issue => Reason::Issued,
            Action::Complete => Reason::Completed,
        };
        let other = [
            (Action::Issue, Reason::Issued),
            (Action::Queue, Reason::Queued),
            (Action::Complete, Reason::Completed),
        ]
        .into_iter()
        .find(|&(_, reason)| reason != chosen && count(reason) > 0);
        if let Some((action, reason)) = other {
            message += &format!(
                "; there is no {} record to replay but {} {} records: use --action {}",
                self.action.letter(),
                count(reason),
                action.letter(),
                action.letter()
            );
        }
        TraceError::whole(&self.name, message)
    }

    pub fn format(&self) -> Format {
        self.format
    }
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The trace's own time of what `at` zero is, in nanoseconds: since 1970, 1601 or the start of
    /// the recording, as the format has it. None before the first request.
    pub fn origin_ns(&self) -> Option<u64> {
        self.origin
    }
    /// Names of volumes seen so far, by number; empty where volumes are numbers in the trace.
    pub fn volumes(&self) -> &[String] {
        &self.sink.volumes.names
    }
    /// The name of a volume of this trace.
    pub fn volume_name(&self, volume: u32) -> String {
        self.volumes().get(volume as usize).cloned().unwrap_or_else(|| volume.to_string())
    }
    /// Where the last request delivered stands in the trace.
    pub fn place(&self) -> Place {
        self.here
    }
    /// An error about the last request delivered.
    pub fn error_here(&self, message: impl Into<String>) -> TraceError {
        let place = match self.here {
            Place::Line { line, .. } => Place::Line { line, column: 0 },
            other => other,
        };
        TraceError::new(&self.name, place, message)
    }
    pub fn summary(&self) -> Summary {
        Summary {
            format: self.format,
            lines: self.sink.line,
            requests: self.requests,
            dropped: self.sink.dropped.list(),
            noted: self.sink.noted.list(),
        }
    }
}

pub(crate) fn read_error(e: io::Error) -> String {
    match e.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            e.to_string()
        }
        _ => format!("cannot be read: {e}"),
    }
}
