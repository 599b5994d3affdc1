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
use crate::detect::{self, Told};
use crate::error::{FormatError, Place, TraceError, TraceFault};
use crate::format::{Format, Lacks};
use crate::input::{Bytes, Input, Lines, read_error};
use crate::options::{Action, OpenOptions, TimeBase, TimeUnit};
use crate::order::{Order, Restarts};
use crate::records::{Fixed, Layout};
use crate::request::{Item, Request};
use crate::sink::{OTHERS, Sink};
use crate::summary::{Reason, Summary, Tally};
use crate::text::{Fault, show_up_to};
use crate::window::Window;
use crate::{
    alibaba, blkparse, cloudphysics, columns, fiu, iolog, k5, mqsim, msr, spc, systor17, tencent,
    vscsi,
};
use std::io::{self, Read};
use wordline_base::{Span, Time};

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

/// Reads one trace. See [`open`].
pub struct Reader {
    /// Lines or records, with their parser.
    source: Source,
    /// The trace's format.
    format: Format,
    /// What told the format: follows "msr, by ".
    by: String,
    /// Follows the message about a line that is not of the format.
    remedy: String,
    /// How messages call the trace.
    name: String,
    /// What times count from.
    base: TimeBase,
    /// Which record of a request counts.
    action: Action,
    /// What the parser found.
    sink: Sink,
    /// Spreads requests within whole seconds.
    spread: Option<tencent::Spread>,
    /// Sorts by time.
    window: Window,
    /// Requests that it holds.
    window_size: usize,
    /// The trace has no more.
    ended: bool,
    /// What ended it, told once the requests before are delivered.
    failure: Option<TraceError>,
    /// The trace's time of zero.
    origin: Option<Origin>,
    /// The time of the last request.
    now: Time,
    /// How much later than its own time the last request was delivered.
    displaced: Span,
    /// The order of times.
    order: Order,
    /// The place of the last request.
    here: Place,
    /// Requests delivered.
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
        if let Some(why) = detect::not_text(&input.head) {
            return Err(untold(why));
        }
        let parser = columns::Parser::new(&text, &input.head)
            .map_err(|e| failed(TraceFault::Options, e.to_string()))?;
        let told = Told { format: Format::Columns, by: parser.by() };
        let remedy = match detect::sample(&input.head, input.ended).first() {
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
        None => (detect::detect(&input.head, input.ended, &name).map_err(untold)?, false),
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
    if let Some(why) = detect::not_text(&input.head) {
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

/// What times count from.
#[derive(Clone, Copy)]
struct Origin {
    time: u64,
    /// The line or record that it was found at.
    line: u64,
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
            sink: Sink::new(&options, options.address_unit.map_or(spc::BLOCK, u128::from)),
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
            displaced: Span(0),
            order: Order::default(),
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
        let from = *self.origin.get_or_insert(Origin {
            time: match self.base {
                TimeBase::FirstRequest => item.time,
                TimeBase::Trace => 0,
            },
            line: item.line,
        });
        let origin = from.time;
        self.here = match self.source {
            Source::Text { .. } => Place::Line { line: item.line, column: item.column },
            Source::Records(_) | Source::Fixed(_) => {
                Place::Record { record: item.line, byte: item.column }
            }
        };
        let mut at = Time(item.time.saturating_sub(origin));
        self.displaced = Span(0);
        if at < self.now || item.time < origin {
            self.sink.note_of(Reason::Late, item.line);
            at = self.now;
            self.displaced = Span(origin.saturating_add(at.0) - item.time);
        }
        if at >= Time::NEVER {
            let message = match self.base {
                // Of requests near each other the earliest comes first.
                TimeBase::FirstRequest if from.line > item.line => format!(
                    "more than 36 years after the first request by time, which is {} {}: one of the two times is \
                     damaged",
                    self.format.unit(),
                    from.line
                ),
                TimeBase::FirstRequest => {
                    "more than 36 years after the first request: the time is damaged, or of \
                     another unit or format"
                        .into()
                }
                TimeBase::Trace => {
                    "more than 36 years after the trace's zero: count from the first request \
                     instead"
                        .into()
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
        if let Some((end, byte)) = self.sink.beyond {
            return Err(self.beyond(end, byte));
        }
        self.settle();
        Ok(())
    }

    /// No drive has such an address, and none can be wrapped.
    fn beyond(&self, end: u128, byte: u64) -> TraceError {
        let place = match self.source {
            Source::Text { .. } => Place::Line { line: self.sink.line, column: 0 },
            Source::Records(_) | Source::Fixed(_) => Place::Record { record: self.sink.line, byte },
        };
        let remedy = match self.format {
            Format::OracleGeneral => {
                "its objects are no addresses: it is of a cache of objects, not of a disk"
            }
            _ => {
                "the number is damaged, or of another unit or format: mend or delete the request, leave such requests \
                 out (wordline replay --skip-beyond), or say how the trace is to be read"
            }
        };
        let message = format!("a request that ends at byte {end}, beyond 2^64: {remedy}");
        TraceError::new(&self.name, place, TraceFault::Request, message)
    }

    /// Moves what the parser made into the window.
    #[inline]
    fn settle(&mut self) {
        match &mut self.spread {
            None => {
                while let Some(item) = self.sink.pop() {
                    self.order.add(item.time, item.line);
                    self.window.push(item);
                }
            }
            Some(spread) => {
                while let Some(item) = self.sink.pop() {
                    self.order.add(item.time, item.line);
                    if spread.push(item, |i| self.window.push(i)) {
                        self.sink.note_of(Reason::CrowdedSecond, item.line);
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
        if let Some((wanted, others)) = self.sink.wanted()
            && count(Reason::OtherVolume) > 0
        {
            let named = &others[..others.len().min(OTHERS)];
            let among = match named.len() < others.len() {
                true => "there are among others",
                false => "there are",
            };
            message += &format!("; none is of volume '{wanted}', {among} {}", named.join(" "));
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
        self.origin.map(|origin| origin.time)
    }
    /// Names of volumes seen so far, by number; empty where volumes are numbers in the trace.
    pub fn volumes(&self) -> &[String] {
        self.sink.volumes()
    }
    /// The name of a volume of this trace.
    pub fn volume_name(&self, volume: u32) -> String {
        self.volumes().get(volume as usize).cloned().unwrap_or_else(|| volume.to_string())
    }
    /// Where the last request delivered stands in the trace.
    pub fn place(&self) -> Place {
        self.here
    }
    /// How much later than its own time the last request was delivered, because it stands too far behind later
    /// ones to be sorted.
    pub fn displaced(&self) -> Span {
        self.displaced
    }
    /// Where the trace's clock began again, as far as it was read.
    pub fn restarts(&self) -> Restarts {
        match self.ended {
            true => self.order.at_end(),
            false => self.order.so_far(),
        }
    }
    /// Requests that are held back to sort them.
    pub fn window(&self) -> usize {
        self.window_size
    }
    /// What was left out for a reason.
    pub fn dropped(&self, reason: Reason) -> Option<Tally> {
        let [dropped, _] = self.sink.tallies();
        dropped.into_iter().find(|t| t.reason == reason)
    }
    /// The first line or record of a kind that is noted.
    pub fn first_noted(&self, reason: Reason) -> Option<u64> {
        let [_, noted] = self.sink.tallies();
        noted.iter().find(|t| t.reason == reason).map(|t| t.first_line)
    }
    /// An error about the last request delivered.
    pub fn error_here(&self, message: impl ToString) -> TraceError {
        let place = match self.here {
            Place::Line { line, .. } => Place::Line { line, column: 0 },
            other => other,
        };
        TraceError::new(&self.name, place, TraceFault::Request, message)
    }
    /// The last line, if it has no line feed: the trace may have been cut there.
    pub fn unended_line(&self) -> Option<u64> {
        self.first_noted(Reason::NoNewline)
    }
    /// What became of the lines so far.
    pub fn summary(&self) -> Summary {
        let [dropped, noted] = self.sink.tallies();
        Summary {
            format: self.format,
            lines: self.sink.line,
            requests: self.requests,
            dropped,
            noted,
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
