//! Delimited text whose columns the user names: `--columns`, see [`HELP`].
//!
//! Units have to be said, since a wrong one makes another workload and no error. A field may stand
//! in double quotes, offsets and sizes may be hexadecimal with `0x`, a line that begins with `#` is a
//! comment.

use crate::error::{BadColumns, ColumnsError, WordError};
use crate::options::TimeUnit;
use crate::request::Stamp;
use crate::sink::Sink;
use crate::summary::Reason;
use crate::text::{Fault, Field, show, show_up_to};
use wordline_base::{Ddir, nearest};

/// What `--columns` takes, for the command's help.
pub const HELP: &str = "\
Columns of delimited text of another format: KEY=VALUE,... A COLUMN is a position from 1,
or a name in the header

  time=COLUMN:UNIT    s, ms, us, ns, ps or 100ns; without it all come at once
  offset=COLUMN:UNIT  byte, sector (512 bytes), or a number of bytes, as 4k
  size=COLUMN:UNIT    the same; without it --bs says it
  op=COLUMN           without it all are reads, or as --rwmixread says
  read=WORD|WORD      what the op of a read is (r, read), in any case; so too
                      write= (w, write), trim= (d, discard, trim, unmap) and
                      flush= (f, flush, sync)
  ignore=WORD|WORD    ops to leave out, counted; * is all others
  volume=COLUMN       for --volume
  sep=NAME            comma, tab, semicolon, pipe, blank, or a character; else told
                      from the first line
  skip=LINES          lines before the header, or before the first request
  base=NUMBER         the time that is zero, in its unit; else the first request's

--columns time=1:us,op=2,offset=3:sector,size=4:sector
--columns time=When:100ns,op=Type,read=0,write=1,offset=LBA:4k,size=Bytes:byte,volume=Disk";

/// Bytes of a unit of addresses or lengths: `byte`, `sector`, or a number as in `4k`.
pub fn address_unit(text: &str) -> Result<u64, WordError> {
    let bad = || WordError::AddressUnit(text.into());
    let (digits, scale) = match text {
        "byte" | "bytes" => return Ok(1),
        "sector" | "sectors" => return Ok(512),
        _ => match text.strip_suffix(['k', 'K']) {
            Some(digits) => (digits, 1024),
            None => (text, 1),
        },
    };
    let number = Field { text: digits.as_bytes(), column: 0 }.number("unit").map_err(|_| bad())?;
    let bytes = number.checked_mul(scale).filter(|b| (1..=1 << 30).contains(b));
    bytes.ok_or_else(|| WordError::UnitRange(text.into()))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Separator {
    /// Runs of blanks and tabs.
    Blank,
    Byte(u8),
}

impl Separator {
    const NAMED: [(&'static str, Separator); 5] = [
        ("comma", Separator::Byte(b',')),
        ("tab", Separator::Byte(b'\t')),
        ("semicolon", Separator::Byte(b';')),
        ("pipe", Separator::Byte(b'|')),
        ("blank", Separator::Blank),
    ];

    fn from_name(name: &str) -> Result<Separator, ColumnsError> {
        if let Some((_, separator)) = Separator::NAMED.iter().find(|(n, _)| *n == name) {
            return Ok(*separator);
        }
        match name.as_bytes() {
            [b' '] => Ok(Separator::Blank),
            [b] if b.is_ascii_punctuation() && !matches!(b, b'"' | b'.' | b'#') => {
                Ok(Separator::Byte(*b))
            }
            _ => Err(ColumnsError::Separator(name.into())),
        }
    }

    fn name(self) -> String {
        let named = Separator::NAMED.iter().find(|(_, s)| *s == self);
        match (named, self) {
            (Some((name, _)), _) => format!("{name}s"),
            (None, Separator::Byte(b)) => format!("'{}'", char::from(b)),
            (None, Separator::Blank) => unreachable!("it has a name"),
        }
    }

    /// The one of which there are most, since a name may hold another; blanks are in names too, and
    /// come last.
    fn of(line: &[u8]) -> Separator {
        let mut best = (0, Separator::Blank);
        for (_, separator) in Separator::NAMED {
            if let Separator::Byte(byte) = separator {
                let count = line.iter().filter(|&&b| b == byte).count();
                if count > best.0 {
                    best = (count, separator);
                }
            }
        }
        best.1
    }
}

/// A column as the user calls it.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Column {
    Position(usize),
    Name(String),
}

/// More columns than any trace has.
const MAX_COLUMNS: usize = 1024;

impl Column {
    fn parse(key: &str, text: &str) -> Result<Column, ColumnsError> {
        if text.is_empty() {
            return Err(ColumnsError::NoColumn(key.into()));
        }
        if !text.bytes().all(|b| b.is_ascii_digit()) {
            return Ok(Column::Name(text.to_owned()));
        }
        match text.parse() {
            Ok(n) if (1..=MAX_COLUMNS).contains(&n) => Ok(Column::Position(n)),
            _ => Err(ColumnsError::Position {
                key: key.into(),
                text: text.into(),
                most: MAX_COLUMNS,
            }),
        }
    }

    fn with_unit<U>(
        key: &str,
        text: &str,
        unit: impl Fn(&str) -> Result<U, WordError>,
        example: &'static str,
    ) -> Result<(Column, U), ColumnsError> {
        let said = || (key.to_owned(), text.to_owned());
        let Some((column, name)) = text.rsplit_once(':') else {
            let (key, text) = said();
            return Err(ColumnsError::NoUnit { key, text, example });
        };
        let unit = unit(name).map_err(|error| {
            let (key, text) = said();
            ColumnsError::Unit { key, text, error }
        })?;
        Ok((Column::parse(key, column)?, unit))
    }
}

const KEYS: [&str; 12] = [
    "time", "offset", "size", "op", "read", "write", "trim", "flush", "ignore", "volume", "sep",
    "skip",
];
const BASE: &str = "base";
/// What an op column says by itself, in lower case.
const WORDS: [(&str, Ddir, &[&str]); 4] = [
    ("read", Ddir::Read, &["r", "read"]),
    ("write", Ddir::Write, &["w", "write"]),
    ("trim", Ddir::Trim, &["d", "discard", "trim", "unmap"]),
    ("flush", Ddir::Sync, &["f", "flush", "sync"]),
];

/// What was asked for.
#[derive(Debug, Default)]
struct Spec {
    time: Option<(Column, TimeUnit)>,
    offset: Option<(Column, u64)>,
    size: Option<(Column, u64)>,
    op: Option<Column>,
    /// Words that mean each of `WORDS`, then those to ignore.
    words: [Option<Vec<String>>; 5],
    /// The column of the volume.
    volume: Option<Column>,
    /// What is between columns.
    separator: Option<Separator>,
    /// Lines to leave out at the beginning.
    skip: u64,
    /// What times count from.
    base: Option<String>,
}

fn parse(text: &str) -> Result<Spec, ColumnsError> {
    let mut spec = Spec::default();
    let mut seen: Vec<&str> = Vec::new();
    for item in text.split(',').map(str::trim) {
        let Some((key, value)) = item.split_once('=').map(|(k, v)| (k.trim(), v.trim())) else {
            return Err(ColumnsError::NoValue(item.into()));
        };
        if seen.contains(&key) {
            return Err(ColumnsError::Twice(key.into()));
        }
        seen.push(key);
        match key {
            "time" => spec.time = Some(Column::with_unit(key, value, TimeUnit::from_name, "us")?),
            "offset" => spec.offset = Some(Column::with_unit(key, value, address_unit, "byte")?),
            "size" => spec.size = Some(Column::with_unit(key, value, address_unit, "byte")?),
            "op" => spec.op = Some(Column::parse(key, value)?),
            "volume" => spec.volume = Some(Column::parse(key, value)?),
            "sep" => spec.separator = Some(Separator::from_name(value)?),
            "skip" => {
                spec.skip = value.parse().map_err(|_| ColumnsError::Skip(value.into()))?;
            }
            BASE => spec.base = Some(value.to_owned()),
            _ => {
                let names = WORDS.iter().map(|(name, ..)| *name).chain(["ignore"]);
                let Some(i) = names.into_iter().position(|name| name == key) else {
                    return Err(unknown_key(key));
                };
                let words: Vec<String> = value.split('|').map(str::to_ascii_lowercase).collect();
                if words.iter().any(String::is_empty) {
                    let (key, value) = (key.into(), value.into());
                    return Err(ColumnsError::EmptyWord { key, value });
                }
                spec.words[i] = Some(words);
            }
        }
    }
    if spec.offset.is_none() {
        return Err(ColumnsError::NoOffset);
    }
    if spec.op.is_none()
        && let Some(i) = spec.words.iter().position(Option::is_some)
    {
        let key = WORDS.get(i).map_or("ignore", |(name, ..)| name);
        return Err(ColumnsError::NoOp(key));
    }
    if spec.base.is_some() && spec.time.is_none() {
        return Err(ColumnsError::NoTime);
    }
    Ok(spec)
}

fn unknown_key(key: &str) -> ColumnsError {
    let keys = || KEYS.into_iter().chain([BASE]);
    ColumnsError::Key { key: key.into(), known: keys().collect(), near: nearest(key, keys()) }
}

/// What a word of the op column makes of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Meaning {
    Op(Ddir),
    Ignored,
}

fn meanings(spec: &Spec) -> Result<(Vec<(String, Meaning)>, bool), ColumnsError> {
    let mut all: Vec<(String, Meaning)> = Vec::new();
    let mut others = false;
    let own = |i: usize| -> Vec<String> {
        let words = WORDS.get(i).map_or(&[][..], |(_, _, words)| words);
        words.iter().map(|w| (*w).to_owned()).collect()
    };
    for (i, said) in spec.words.iter().enumerate() {
        let meaning = WORDS.get(i).map_or(Meaning::Ignored, |&(_, op, _)| Meaning::Op(op));
        for word in said.iter().flatten() {
            if meaning == Meaning::Ignored && word == "*" {
                others = true;
            } else if all.iter().any(|(w, m)| w == word && *m != meaning) {
                return Err(ColumnsError::TwoThings(word.clone()));
            } else {
                all.push((word.clone(), meaning));
            }
        }
    }
    // What was said goes before what the words are by themselves.
    for (i, _) in spec.words.iter().enumerate().filter(|(_, said)| said.is_none()) {
        for word in own(i) {
            if let Some(&(_, op, _)) = WORDS.get(i)
                && !all.iter().any(|(w, _)| *w == word)
            {
                all.push((word, Meaning::Op(op)));
            }
        }
    }
    Ok((all, others))
}

pub(crate) struct Parser {
    separator: Separator,
    /// Lines in front, the header included.
    before: u64,
    /// Column and unit of the time.
    time: Option<(usize, TimeUnit)>,
    /// What times count from.
    base_ns: u64,
    /// That was said.
    has_base: bool,
    /// Column and unit of the offset.
    offset: (usize, u64),
    /// Column and unit of the length.
    size: Option<(usize, u64)>,
    /// Column of the operation.
    op: Option<usize>,
    /// What its words mean.
    meanings: Vec<(String, Meaning)>,
    /// Lines with other words are left out.
    ignores_others: bool,
    /// Column of the volume.
    volume: Option<usize>,
    /// The most columns that are needed.
    needed: usize,
    /// No line has been read as a request.
    is_first: bool,
    /// Ranges of the fields of a line.
    fields: Vec<(usize, usize)>,
}

impl Parser {
    /// `head` begins the trace. Messages are about the user's words, not about a place.
    pub fn new(text: &str, head: &[u8]) -> Result<Parser, BadColumns> {
        let begins = head.strip_prefix(crate::text::BOM).unwrap_or(head);
        let mut lines = begins.split(|&b| b == b'\n').map(<[u8]>::trim_ascii_end).zip(1u64..);
        let first = lines.clone().map(|(l, _)| l).find(|l| !l.is_empty()).unwrap_or(b"");
        Parser::of(text, &mut lines)
            .map_err(|error| BadColumns { error, first: show_up_to(120, first) })
    }

    fn of<'a>(
        text: &str,
        lines: &mut (impl Iterator<Item = (&'a [u8], u64)> + Clone),
    ) -> Result<Parser, ColumnsError> {
        let spec = parse(text)?;
        let (meanings, ignores_others) = meanings(&spec)?;
        let columns = [
            spec.time.as_ref().map(|(c, _)| c),
            spec.offset.as_ref().map(|(c, _)| c),
            spec.size.as_ref().map(|(c, _)| c),
            spec.op.as_ref(),
            spec.volume.as_ref(),
        ];
        let is_named = columns.iter().flatten().any(|c| matches!(c, Column::Name(_)));
        let is_wanted = |l: &[u8]| !l.is_empty() && (is_named || l[0] != b'#');
        let mut rest = lines.clone().filter(|&(l, n)| n > spec.skip && is_wanted(l));
        let (first, number) = rest.next().unwrap_or((b"", spec.skip.saturating_add(1)));
        let separator = spec.separator.unwrap_or_else(|| Separator::of(first));
        let mut fields = Vec::new();
        let mut before = spec.skip;
        if is_named {
            before = number;
            split(first, separator, MAX_COLUMNS, &mut fields)
                .map_err(|f| ColumnsError::Text(f.message))?;
        }
        let header: Vec<String> = fields
            .iter()
            .map(|&(from, to)| {
                let name = String::from_utf8_lossy(&first[from..to]);
                name.trim_start_matches('#').trim().to_owned()
            })
            .collect();
        let place = |column: &Column| match column {
            Column::Position(n) => Ok(n - 1),
            Column::Name(name) => find(name, &header),
        };
        let offset = spec.offset.as_ref().ok_or(ColumnsError::NoOffset)?;
        let offset = (place(&offset.0)?, offset.1);
        let time =
            spec.time.as_ref().map(|(c, u)| Ok::<_, ColumnsError>((place(c)?, *u))).transpose()?;
        let size =
            spec.size.as_ref().map(|(c, u)| Ok::<_, ColumnsError>((place(c)?, *u))).transpose()?;
        let op = spec.op.as_ref().map(place).transpose()?;
        let volume = spec.volume.as_ref().map(place).transpose()?;
        let places = [time.map(|t| t.0), Some(offset.0), size.map(|s| s.0), op, volume];
        let needed = 1 + places.into_iter().flatten().max().unwrap_or(0);
        let base_ns = match (&spec.base, time) {
            (Some(base), Some((_, unit))) => Field { text: base.as_bytes(), column: 0 }
                .time(unit.ps(), "base")
                .map_err(|f| ColumnsError::Text(f.message))?,
            _ => 0,
        };
        Ok(Parser {
            separator,
            before,
            time,
            base_ns,
            has_base: spec.base.is_some(),
            offset,
            size,
            op,
            meanings,
            ignores_others,
            volume,
            needed,
            is_first: true,
            fields,
        })
    }

    pub fn lacks(&self) -> crate::format::Lacks {
        crate::format::Lacks {
            volume: self.volume.is_none(),
            direction: self.op.is_none(),
            length: self.size.is_none(),
            unit: false,
        }
    }

    pub fn has_base(&self) -> bool {
        self.has_base
    }

    /// What was found, for a note.
    pub fn by(&self) -> String {
        format!("--columns, separated by {}", self.separator.name())
    }

    pub fn line(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Fault> {
        if sink.line <= self.before {
            sink.drop(Reason::Header);
            return Ok(());
        }
        if line[0] == b'#' {
            sink.drop(Reason::Comment);
            return Ok(());
        }
        let mut fields = std::mem::take(&mut self.fields);
        let done = split(line, self.separator, self.needed, &mut fields)
            .and_then(|()| self.request(line, &fields, sink));
        self.fields = fields;
        let is_first = std::mem::replace(&mut self.is_first, false);
        done.map_err(|mut fault| {
            if is_first {
                fault.message += ", or if this line is a header, say skip=";
                fault.message += &sink.line.to_string();
            }
            fault
        })
    }

    fn request(
        &self,
        line: &[u8],
        fields: &[(usize, usize)],
        sink: &mut Sink,
    ) -> Result<(), Fault> {
        if fields.len() < self.needed {
            let message = format!(
                "{} columns, separated by {}, where {} are due",
                fields.len(),
                self.separator.name(),
                self.needed
            );
            return Err(Fault::new(line.len() + 1, message));
        }
        let field = |i: usize| {
            let (from, to) = fields[i];
            Field { text: &line[from..to], column: from + 1 }
        };
        let mut volume = 0;
        if let Some(i) = self.volume {
            let name = || show(field(i).text);
            if sink.is_filtered() && !sink.wants_name(&[&name()]) {
                return Ok(());
            }
            volume = sink.volume(field(i).text, name).map_err(|e| field(i).fault(e.to_string()))?;
        }
        let op = match self.op {
            None => sink.direction(),
            Some(i) => match self.meaning(field(i).text) {
                Some(Meaning::Op(op)) => op,
                Some(Meaning::Ignored) => {
                    sink.drop(Reason::Ignored);
                    return Ok(());
                }
                None => return Err(self.unknown_op(field(i))),
            },
        };
        let mut at = Stamp { ns: 0, column: 0 };
        if let Some((i, unit)) = self.time {
            let time = field(i);
            at = Stamp { ns: time.time(unit.ps(), "time")?, column: time.column as u64 };
            at.ns = at.ns.checked_sub(self.base_ns).ok_or_else(|| {
                time.fault(format!("the time is before that of base=: '{}'", time.show()))
            })?;
        }
        if op.is_sync() {
            sink.push_sync(at, op, volume);
            return Ok(());
        }
        let offset =
            u128::from(number(field(self.offset.0), "offset")?) * u128::from(self.offset.1);
        let len = match self.size {
            Some((i, unit)) => u128::from(number(field(i), "size")?) * u128::from(unit),
            None => sink.length.unwrap_or(0).into(),
        };
        if sink.push(at, op, volume, offset, len) {
            for (is, reason) in
                [(self.op.is_none(), Reason::NoDirection), (self.time.is_none(), Reason::NoTime)]
            {
                if is {
                    sink.note(reason);
                }
            }
        }
        Ok(())
    }

    fn meaning(&self, word: &[u8]) -> Option<Meaning> {
        let said = self.meanings.iter().find(|(w, _)| w.as_bytes().eq_ignore_ascii_case(word));
        said.map(|&(_, m)| m).or(self.ignores_others.then_some(Meaning::Ignored))
    }

    fn unknown_op(&self, field: Field<'_>) -> Fault {
        let known = WORDS.map(|(name, op, _)| {
            let is = |m: &Meaning| *m == Meaning::Op(op);
            let words: Vec<&str> =
                self.meanings.iter().filter(|(_, m)| is(m)).map(|(w, _)| w.as_str()).collect();
            format!("{name}={}", words.join("|"))
        });
        field.fault(format!(
            "op '{0}' is none of {1}: say what it is, as read={0} or ignore={0}",
            field.show(),
            known.join(" ")
        ))
    }
}

/// The column of that name; the case matters only where it tells two apart.
fn find(name: &str, header: &[String]) -> Result<usize, ColumnsError> {
    let same = |exact: bool| {
        let is = move |h: &&String| if exact { *h == name } else { h.eq_ignore_ascii_case(name) };
        header.iter().filter(is).count()
    };
    for exact in [true, false] {
        let is = |h: &String| if exact { h == name } else { h.eq_ignore_ascii_case(name) };
        match (same(exact), header.iter().position(is)) {
            (1, Some(i)) => return Ok(i),
            (0, _) => {}
            (count, _) => return Err(ColumnsError::Ambiguous { count, name: name.into() }),
        }
    }
    let near = nearest(name, header.iter().map(String::as_str)).map(str::to_owned);
    Err(ColumnsError::NoSuchColumn { name: name.into(), near })
}

fn number(field: Field<'_>, what: &str) -> Result<u64, Fault> {
    let hex = field.text.strip_prefix(b"0x").or(field.text.strip_prefix(b"0X"));
    match hex.and_then(|h| std::str::from_utf8(h).ok()) {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).map_err(|_| {
            field.fault(format!("{what} is no hexadecimal number: '{}'", field.show()))
        }),
        _ => field.number(what),
    }
}

/// The ranges of the first `most` fields of a line, without blanks around them and without quotes.
fn split(
    line: &[u8],
    separator: Separator,
    most: usize,
    fields: &mut Vec<(usize, usize)>,
) -> Result<(), Fault> {
    fields.clear();
    let is_blank = |b: u8| b == b' ' || b == b'\t';
    let is_separator = |b: u8| match separator {
        Separator::Blank => is_blank(b),
        Separator::Byte(s) => b == s,
    };
    let mut at = 0;
    while fields.len() < most {
        while at < line.len()
            && is_blank(line[at])
            && (separator == Separator::Blank || !is_separator(line[at]))
        {
            at += 1;
        }
        if at == line.len() && separator == Separator::Blank {
            return Ok(());
        }
        let (from, to);
        if line.get(at) == Some(&b'"') {
            let mut end = at + 1;
            // Two quotes in a row are one of the text.
            while line.get(end).is_some_and(|&b| b != b'"' || line.get(end + 1) == Some(&b'"')) {
                end += if line[end] == b'"' { 2 } else { 1 };
            }
            if end >= line.len() {
                return Err(Fault::new(at + 1, "a quote that does not end"));
            }
            (from, to) = (at + 1, end);
            at = end + 1;
            while at < line.len() && is_blank(line[at]) && !is_separator(line[at]) {
                at += 1;
            }
            if at < line.len() && !is_separator(line[at]) {
                return Err(Fault::new(at + 1, "text after a closing quote"));
            }
        } else {
            let start = at;
            while at < line.len() && !is_separator(line[at]) {
                at += 1;
            }
            (from, to) = (start, start + line[start..at].trim_ascii_end().len());
        }
        fields.push((from, to));
        if at == line.len() {
            return Ok(());
        }
        at += 1;
    }
    Ok(())
}
