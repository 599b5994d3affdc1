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
use crate::error::{FormatError, Place, RecordError, TraceError, TraceFault, WordError};
use crate::format::{self, Format, Lacks, Told};
use crate::input::{Bytes, Input, Lines};
use crate::records::{Fixed, Layout};
use crate::summary::{Reason, Summary, Tallies};
use crate::text::{Fault, show_up_to};
use crate::{
    alibaba, blkparse, cloudphysics, columns, fiu, iolog, k5, mqsim, msr, spc, systor17, tencent,
    vscsi,
};
use serde::Serialize;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io::{self, Read};
use wordline_base::rng::splitmix64;
use wordline_base::{Ddir, Time};

/// One request of a trace. A sync has offset and length 0. Offsets and lengths are as in the trace,
/// aligned or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Request {
    /// From the first one on, or from the epoch, as the trace was opened ([`TimeBase`]).
    #[serde(rename = "at_ns")]
    pub at: Time,
    /// What it does.
    pub op: Ddir,
    /// The number in the trace where volumes have numbers, else by first appearance:
    /// see [`Reader::volumes`].
    pub volume: u32,
    /// Bytes.
    #[serde(rename = "offset_bytes")]
    pub offset: u64,
    /// Bytes.
    #[serde(rename = "len_bytes")]
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
    /// As [`OpenOptions`] has them.
    pub unit: u128,
    pub length: Option<u32>,
    reads: u8,
    seed: u64,
}

/// So that directions do not follow the places in a second.
const DIRECTIONS: u64 = 0x6469_7265_6374_696F;

impl Sink {
    fn new(options: &OpenOptions) -> Sink {
        let wanted = options.volume.clone();
        Sink {
            unit: options.address_unit.map_or(spc::BLOCK, u128::from),
            length: options.length,
            reads: options.reads.unwrap_or(100),
            seed: options.seed,
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

    /// The direction of a request whose trace has none.
    pub fn direction(&self) -> Ddir {
        let draw = splitmix64(self.seed ^ DIRECTIONS ^ splitmix64(self.line)) % 100;
        if draw < u64::from(self.reads) { Ddir::Read } else { Ddir::Write }
    }

    /// The number of the volume with that key, a new one if need be.
    pub fn volume(
        &mut self,
        key: &[u8],
        name: impl FnOnce() -> String,
    ) -> Result<u32, RecordError> {
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
                    let (volumes, mib) = (MAX_VOLUMES, MAX_NAME_BYTES >> 20);
                    return Err(RecordError::TooManyVolumes { volumes, mib });
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

    /// A read, write or trim, with offset and length in bytes. False if it gives no request.
    #[inline]
    pub fn push(&mut self, at: Stamp, op: Ddir, volume: u32, offset: u128, len: u128) -> bool {
        let (Ok(start), Some(end)) = (u64::try_from(offset), offset.checked_add(len)) else {
            return self.refuse(Reason::BeyondEnd);
        };
        if len == 0 {
            return self.refuse(Reason::ZeroLength);
        }
        // Not split: 4 GiB in one request is a command to a whole device or damage, and pieces of
        // it would be requests that nobody made.
        let Ok(len) = u32::try_from(len) else { return self.refuse(Reason::TooLong) };
        if end > u128::from(u64::MAX) {
            return self.refuse(Reason::BeyondEnd);
        }
        self.put(at, op, volume, start, len);
        true
    }
    fn refuse(&mut self, reason: Reason) -> bool {
        self.drop(reason);
        false
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
    Cloudphysics,
    Vscsi,
    Lbn,
    Columns(Box<columns::Parser>),
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
            Text::Cloudphysics => cloudphysics::line(line, sink),
            Text::Vscsi => vscsi::line(line, sink),
            Text::Lbn => cloudphysics::address(line, sink),
            Text::Columns(p) => p.line(line, sink),
        }
    }
}

enum Source {
    Text { lines: Lines, parser: Text },
    Records(Records),
    Fixed(Fixed),
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
    /// What told the format: follows "msr, by ".
    by: String,
    /// Follows the message about a line that is not of the format.
    remedy: String,
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
    mut options: OpenOptions,
) -> Result<Reader, TraceError> {
    let name = options.name.clone();
    let input = open_input(Box::new(reader), &name)?;
    let failed = |fault: TraceFault, message: String| match &input.failure {
        // Nothing can be told from the little that comes before the damage.
        Some(e) => TraceError::whole(&name, TraceFault::Unreadable, unreadable(e)),
        None => TraceError::whole(&name, fault, message),
    };
    let untold = |e: FormatError| failed(e.fault(), e.to_string());
    if let Some(text) = options.columns.clone() {
        if let Some(format) = options.format {
            let message = format!("--columns and --format {} exclude each other", format.name());
            return Err(TraceError::whole(&name, TraceFault::Options, message));
        }
        if let Some(why) = format::not_text(&input.head) {
            return Err(untold(why));
        }
        let parser = columns::Parser::new(&text, &input.head)
            .map_err(|e| failed(TraceFault::Options, e.to_string()))?;
        let told = Told { format: Format::Columns, by: parser.by() };
        let remedy = match format::sample(&input.head, input.ended).first() {
            Some(line) => format!("; the file begins with '{}'", show_up_to(120, line)),
            None => String::new(),
        };
        if parser.has_base() {
            options.base = TimeBase::Trace;
        }
        let lacks = parser.lacks();
        let parser = Text::Columns(Box::new(parser));
        let source = Source::Text { lines: Lines::new(input), parser };
        return Reader::new(source, told, remedy, lacks, options);
    }
    let (told, named) = match options.format {
        Some(format) => (Told { format, by: "--format".into() }, true),
        None => (format::detect(&input.head, input.ended, &name).map_err(untold)?, false),
    };
    let format = told.format;
    let lacks = format.lacks();
    let layout = match format {
        Format::Blktrace => {
            let records = Records::new(vec![(name, input)], &options);
            return Reader::new(Source::Records(records), told, String::new(), lacks, options);
        }
        Format::Vscsi => {
            let open = vscsi::layout(&input.head);
            // The first record will say what is wrong.
            Some(open.unwrap_or(Layout::Vscsi1))
        }
        Format::OracleGeneral => Some(Layout::OracleGeneral),
        _ => None,
    };
    if let Some(layout) = layout {
        let source = Source::Fixed(Fixed::new(input, &name, layout));
        return Reader::new(source, told, String::new(), lacks, options);
    }
    if let Some(why) = format::not_text(&input.head) {
        return Err(untold(why));
    }
    let remedy = format!(
        "; read as {}, by {}: mend or delete the line, or name {} format",
        format.name(),
        told.by,
        if named { "another" } else { "the" }
    );
    let parser = match format {
        Format::Iolog => Text::Iolog(iolog::Parser::new(options.iolog_wait)),
        Format::Blkparse => Text::Blkparse(blkparse::Parser::new(options.action)),
        Format::Msr => Text::Msr,
        Format::Alibaba => Text::Alibaba,
        Format::Tencent => Text::Tencent,
        Format::Systor17 => Text::Systor17,
        Format::K5 => Text::K5,
        Format::Spc => Text::Spc,
        Format::Fiu => Text::Fiu,
        Format::Mqsim => {
            Text::Mqsim(mqsim::Parser::new(options.time_unit.unwrap_or(TimeUnit::Nanosecond)))
        }
        Format::Cloudphysics => Text::Cloudphysics,
        Format::VscsiText => Text::Vscsi,
        Format::Lbn => Text::Lbn,
        Format::Columns => {
            return Err(failed(TraceFault::Options, "say the columns with --columns".to_owned()));
        }
        Format::Blktrace | Format::Vscsi | Format::OracleGeneral => unreachable!("binary, above"),
    };
    let source = Source::Text { lines: Lines::new(input), parser };
    Reader::new(source, told, remedy, lacks, options)
}

/// Opens the per-CPU files of one blktrace recording (`sda.blktrace.0`, `.1`, …) and merges them by
/// time. One record of each is held. Empty files (idle CPUs) are allowed.
pub fn open_merged(
    readers: Vec<(String, Box<dyn Read + Send>)>,
    options: OpenOptions,
) -> Result<Reader, TraceError> {
    if !matches!(options.format, None | Some(Format::Blktrace)) || options.columns.is_some() {
        let message = "only blktrace files are merged: give traces of other formats one at a time";
        return Err(TraceError::whole(&options.name, TraceFault::Options, message));
    }
    let mut inputs = Vec::new();
    for (name, reader) in readers {
        let input = open_input(reader, &name)?;
        if !input.head.is_empty() && !blktrace::has_magic(&input.head) {
            let message = "no blktrace file, and only those are merged: give it alone";
            return Err(TraceError::whole(&name, TraceFault::Unread, message));
        }
        inputs.push((name, input));
    }
    let source = Source::Records(Records::new(inputs, &options));
    let by = "the magic numbers of their first records".to_owned();
    let told = Told { format: Format::Blktrace, by };
    Reader::new(source, told, String::new(), Format::Blktrace.lacks(), options)
}

fn open_input(reader: Bytes, name: &str) -> Result<Input, TraceError> {
    Input::open(reader, name)
        .map_err(|e| TraceError::whole(name, TraceFault::Unreadable, unreadable(&e)))
}

fn unreadable(e: &io::Error) -> String {
    format!("cannot be read: {e}")
}

impl Reader {
    fn new(
        source: Source,
        told: Told,
        remedy: String,
        lacks: Lacks,
        options: OpenOptions,
    ) -> Result<Reader, TraceError> {
        let Told { format, by } = told;
        if let Some(message) = pointless(format, lacks, &options) {
            return Err(TraceError::whole(&options.name, TraceFault::Options, message));
        }
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
            return Err(TraceError::whole(&options.name, TraceFault::Options, message));
        }
        if options.window > OpenOptions::MAX_WINDOW {
            let message = format!(
                "a reorder window of {} requests: the most is {}",
                options.window,
                OpenOptions::MAX_WINDOW
            );
            return Err(TraceError::whole(&options.name, TraceFault::Options, message));
        }
        Ok(Reader {
            source,
            format,
            by,
            remedy,
            sink: Sink::new(&options),
            name: options.name,
            base: options.base,
            action: options.action,
            spread: format.has_seconds().then(|| tencent::Spread::new(options.seed)),
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
            Source::Records(_) | Source::Fixed(_) => {
                Place::Record { record: item.line, byte: item.column }
            }
        };
        let mut at = Time(item.time.saturating_sub(origin));
        if at < self.now || item.time < origin {
            self.sink.noted.add(Reason::Late, item.line);
            at = self.now;
        }
        if at >= Time::NEVER {
            let message = match self.base {
                TimeBase::FirstRequest => {
                    "more than 36 years after the first request: the time is damaged, or of \
                     another unit or format"
                }
                TimeBase::Trace => {
                    "more than 36 years after the trace's zero: count from the first request \
                     instead"
                }
            };
            let e = TraceError::new(&self.name, self.here, TraceFault::Request, message);
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
                        let (place, fault) = (place(number, 0), TraceFault::Unreadable);
                        return Err(TraceError::new(&self.name, place, fault, read_error(e)));
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
                            let message = fault.message + &self.remedy;
                            return Err(TraceError::new(
                                &self.name,
                                place,
                                TraceFault::Malformed,
                                message,
                            ));
                        }
                    }
                }
            }
            Source::Records(records) => {
                self.ended = !records.step(&mut self.sink)?;
            }
            Source::Fixed(records) => {
                self.ended = !records.step(&mut self.sink)?;
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
        let unit = self.format.unit();
        let reasons: Vec<String> =
            summary.dropped.iter().map(|t| format!("{} {}", t.count, t.reason.text())).collect();
        let mut message = match summary.lines {
            0 => "no request: the trace is empty".to_owned(),
            n => format!("no request in {n} {unit}s of format {}", self.format.name()),
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
        if self.format == Format::OracleGeneral && count(Reason::BeyondEnd) > 0 {
            message += "; its objects are no addresses: it is of a cache of objects, not of a disk";
        }
        let chosen = self.action.reason();
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
        TraceError::whole(&self.name, TraceFault::Empty, message)
    }

    /// The format that it is read as.
    pub fn format(&self) -> Format {
        self.format
    }
    /// The format and what told it, for a note: "msr, by --format".
    pub fn told(&self) -> String {
        format!("{}, by {}", self.format.name(), self.by)
    }
    /// The trace's name as given.
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
    pub fn error_here(&self, message: impl ToString) -> TraceError {
        let place = match self.here {
            Place::Line { line, .. } => Place::Line { line, column: 0 },
            other => other,
        };
        TraceError::new(&self.name, place, TraceFault::Request, message)
    }
    /// What became of the lines so far.
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

/// An option that this format has no use for, and what to do.
fn pointless(format: Format, lacks: Lacks, options: &OpenOptions) -> Option<String> {
    let name = format.name();
    let has = |what: &str, option: &str| {
        Some(format!("{option}: format {name} has {what}: leave it out"))
    };
    let is_columns = format == Format::Columns;
    if options.volume.is_some() && lacks.volume {
        let or = if is_columns { ", or say volume=COLUMN" } else { "" };
        return Some(format!("--volume: format {name} has no volumes: leave it out{or}"));
    }
    if options.reads.is_some() && !lacks.direction {
        return has("directions of its own", "--rwmixread");
    }
    if options.length.is_some() && !lacks.length {
        return has("lengths of its own", "--bs");
    }
    if options.length.is_none() && lacks.length && is_columns {
        return Some(
            "--columns: the length of requests is missing: say size=COLUMN:UNIT, or --bs".into(),
        );
    }
    if options.address_unit.is_some() && !lacks.unit {
        return has("a unit of addresses of its own", "--address-unit");
    }
    if options.time_unit.is_some() && format != Format::Mqsim {
        return has("a unit of time of its own", "--time-unit");
    }
    if options.action != Action::Queue && !matches!(format, Format::Blktrace | Format::Blkparse) {
        return Some(format!("--action: format {name} has one record a request: leave it out"));
    }
    None
}

pub(crate) fn read_error(e: io::Error) -> String {
    match e.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            e.to_string()
        }
        _ => format!("cannot be read: {e}"),
    }
}
