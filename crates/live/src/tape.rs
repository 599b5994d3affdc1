//! Tapes: every input of a live session to the deterministic machine, to be run again in virtual time
//! to the same state. A tape holds the drive as it was at the start, without its data, and no bytes
//! of requests (docs/design/formats.md).
//!
//! Inputs are requests, with the number of events before them. They are also what the bytes did to the
//! machine's course: flash operations that failed because of them, writes of a part of a sector whose rest
//! could not be had, and moments at which the image could not be written.

use crate::error::{Error, RunError, TapeFault};
use crate::image::Image;
use crate::machine::{Done, Fault, IoKind, Machine, Request};
use crate::recover::recover;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wordline_base::{Histogram, Time, hist};
use wordline_device::DriveConfig;

const MAGIC: &[u8; 8] = b"WLTAPE01";
const RECORD: usize = 40;
const PAGE: usize = 4096;
const FAILED: u8 = 32;
const SHORT: u8 = 33;
const STALL: u8 = 34;
const CHECK: u8 = 48;
const END: u8 = 63;
/// Inputs between two checks.
const CHECK_EVERY: u64 = 1024;
/// What was recorded is in the file after so long.
const FLUSH_EVERY: Duration = Duration::from_millis(100);
/// The longest image that a head may tell of.
const IMAGE_MAX: u64 = 1 << 44;

/// One entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Record {
    kind: u8,
    flags: u8,
    queue: u16,
    len: u32,
    time: u64,
    offset: u64,
    events: u64,
    pid: u32,
}

impl Record {
    fn encode(&self) -> [u8; RECORD] {
        let mut b = [0; RECORD];
        (b[0], b[1]) = (self.kind, self.flags);
        b[2..4].copy_from_slice(&self.queue.to_le_bytes());
        b[4..8].copy_from_slice(&self.len.to_le_bytes());
        b[8..16].copy_from_slice(&self.time.to_le_bytes());
        b[16..24].copy_from_slice(&self.offset.to_le_bytes());
        b[24..32].copy_from_slice(&self.events.to_le_bytes());
        b[32..36].copy_from_slice(&self.pid.to_le_bytes());
        let crc = crc32c::crc32c(&b[..36]);
        b[36..].copy_from_slice(&crc.to_le_bytes());
        b
    }
    /// None: its checksum does not fit.
    fn decode(b: &[u8]) -> Option<Record> {
        let word = |at: usize| u32::from_le_bytes(b[at..at + 4].try_into().expect("four bytes"));
        let double = |at: usize| u64::from_le_bytes(b[at..at + 8].try_into().expect("eight bytes"));
        (crc32c::crc32c(&b[..36]) == word(36)).then(|| Record {
            kind: b[0],
            flags: b[1],
            queue: u16::from_le_bytes([b[2], b[3]]),
            len: word(4),
            time: double(8),
            offset: double(16),
            events: double(24),
            pid: word(32),
        })
    }
}

/// A machine's tape.
pub enum Tape {
    /// Nothing is recorded.
    Off,
    /// The session is recorded.
    Record(Recorder),
    /// The session is compared with a recorded one.
    Replay(Box<Expected>),
}

impl Tape {
    /// A request goes in after so many events.
    pub fn input(&mut self, now: Time, events: u64, r: &Request, digest: u64) {
        let Tape::Record(recorder) = self else { return };
        let (kind, flags, queue) = (r.kind as u8, u8::from(r.fua), r.queue);
        let (len, offset, pid) = (r.len, r.offset, r.pid);
        if recorder.inputs.is_multiple_of(CHECK_EVERY) {
            recorder.put(Record { kind: CHECK, events, offset: digest, ..Record::default() });
        }
        recorder.inputs += 1;
        recorder.put(Record { kind, flags, queue, len, time: now.0, offset, events, pid });
    }
    /// A flash operation has ended: whether it failed for its bytes.
    pub fn ended(&mut self, failed: bool) -> bool {
        match self {
            Tape::Off => failed,
            Tape::Record(recorder) => recorder.flash.count(failed, FAILED, &mut recorder.out),
            Tape::Replay(expected) => expected.flash.replay(&mut expected.failed),
        }
    }
    /// The data of a write were taken: whether not all could be had.
    pub fn took(&mut self, short: bool) -> bool {
        match self {
            Tape::Off => short,
            Tape::Record(recorder) => recorder.takes.count(short, SHORT, &mut recorder.out),
            Tape::Replay(expected) => expected.takes.replay(&mut expected.short),
        }
    }
    /// After so many events: whether the image cannot be written.
    pub fn stalled(&mut self, events: u64, fault: Option<Fault>) -> Option<Fault> {
        match self {
            Tape::Off => fault,
            Tape::Record(recorder) => {
                if fault.is_some() {
                    recorder.put(Record { kind: STALL, events, ..Record::default() });
                }
                fault
            }
            Tape::Replay(expected) => expected.stalls.has(events).then_some(Fault::Io),
        }
    }
    /// What was recorded goes to the file now and then. Something to tell, if it cannot.
    pub fn step(&mut self) -> Option<String> {
        let Tape::Record(recorder) = self else { return None };
        if recorder.flushed.elapsed() > FLUSH_EVERY {
            recorder.flushed = Instant::now();
            recorder.out.flush();
        }
        let why = recorder.out.failed.as_ref().filter(|_| !recorder.told)?;
        recorder.told = true;
        let path = recorder.path.display();
        Some(format!("the tape {path} cannot be written, and ends here: {why}"))
    }
    /// The session is over. What to tell, if it was recorded.
    pub fn end(&mut self, now: Time, events: u64, digest: u64) -> Result<Option<String>, Error> {
        let Tape::Record(recorder) = self else { return Ok(None) };
        recorder.put(Record {
            kind: END,
            time: now.0,
            offset: digest,
            events,
            ..Record::default()
        });
        recorder.out.flush();
        let path = &recorder.path;
        match &recorder.out.failed {
            None => Ok(Some(format!("tape {}: {} inputs", path.display(), recorder.inputs))),
            Some(e) => Err(RunError::TapeCut { path: path.clone(), why: e.to_string() }.into()),
        }
    }
}

/// Counts occasions, and notes or knows those at which something went wrong.
#[derive(Default)]
struct Occasions(u64);

impl Occasions {
    fn count(&mut self, wrong: bool, kind: u8, out: &mut Output) -> bool {
        self.0 += 1;
        if wrong {
            out.put(Record { kind, offset: self.0, ..Record::default() });
        }
        wrong
    }
    fn replay(&mut self, wrong: &mut Ahead) -> bool {
        self.0 += 1;
        wrong.has(self.0)
    }
}

struct Output {
    file: BufWriter<File>,
    /// Why nothing is recorded any more: the drive goes on without.
    failed: Option<String>,
}

impl Output {
    fn put(&mut self, record: Record) {
        if self.failed.is_none()
            && let Err(e) = self.file.write_all(&record.encode())
        {
            self.failed = Some(e.to_string());
        }
    }
    fn flush(&mut self) {
        if self.failed.is_none()
            && let Err(e) = self.file.flush()
        {
            self.failed = Some(e.to_string());
        }
    }
}

/// What writes a tape.
pub struct Recorder {
    out: Output,
    path: PathBuf,
    inputs: u64,
    flash: Occasions,
    takes: Occasions,
    flushed: Instant,
    told: bool,
}

impl Recorder {
    /// Makes a tape's file.
    pub fn create(path: &Path) -> Result<File, Error> {
        let made = File::options().write(true).create_new(true).open(path);
        made.map_err(|e| Error::io("cannot write the tape", path, e))
    }
    /// Begins a tape with the drive of an image, all of whose data are synced.
    pub fn begin(path: &Path, file: File, image: &Image, profile: &str) -> Result<Recorder, Error> {
        let failed = |e: std::io::Error| Error::io("cannot write the tape", path, e);
        let mut file = BufWriter::with_capacity(1 << 16, file);
        let write = |file: &mut BufWriter<File>| -> std::io::Result<()> {
            let mut crc = 0;
            let mut put = |bytes: &[u8]| {
                crc = crc32c::crc32c_append(crc, bytes);
                file.write_all(bytes)
            };
            put(MAGIC)?;
            put(&(profile.len() as u64).to_le_bytes())?;
            put(profile.as_bytes())?;
            put(&image.file_bytes()?.to_le_bytes())?;
            image.each_metadata_page(|number, page| {
                put(&(number + 1).to_le_bytes())?;
                put(page)
            })?;
            put(&0u64.to_le_bytes())?;
            file.write_all(&crc.to_le_bytes())?;
            file.flush()
        };
        if let Err(e) = write(&mut file) {
            let _ = std::fs::remove_file(path);
            return Err(failed(e));
        }
        Ok(Recorder {
            out: Output { file, failed: None },
            path: path.into(),
            inputs: 0,
            flash: Occasions::default(),
            takes: Occasions::default(),
            flushed: Instant::now(),
            told: false,
        })
    }
    fn put(&mut self, record: Record) {
        self.out.put(record);
    }
}

/// What a tape says of a replay's course.
pub struct Expected {
    failed: Ahead,
    short: Ahead,
    stalls: Ahead,
    flash: Occasions,
    takes: Occasions,
}

impl Expected {
    fn new(tape: &Recording) -> Result<Expected, Error> {
        let ahead = |kind, number| -> Result<Ahead, Error> {
            Ok(Ahead { records: tape.records()?, kind, number, next: Ok(Some(0)) })
        };
        Ok(Expected {
            failed: ahead(FAILED, |r| r.offset)?,
            short: ahead(SHORT, |r| r.offset)?,
            stalls: ahead(STALL, |r| r.events)?,
            flash: Occasions::default(),
            takes: Occasions::default(),
        })
    }
    /// Why it could not be read on.
    fn error(&mut self) -> Result<(), Error> {
        for ahead in [&mut self.failed, &mut self.short, &mut self.stalls] {
            if ahead.next.is_err() {
                std::mem::replace(&mut ahead.next, Ok(None))?;
            }
        }
        Ok(())
    }
}

/// The numbers of records of a kind, which only grow, found when they are asked for: such a record may
/// lie behind the input that it is about.
struct Ahead {
    records: Records,
    kind: u8,
    number: fn(&Record) -> u64,
    /// The newest that was found; none: there are no more.
    next: Result<Option<u64>, Error>,
}

impl Ahead {
    fn has(&mut self, number: u64) -> bool {
        while let Ok(Some(next)) = self.next
            && next < number
        {
            self.next = self.find();
        }
        matches!(self.next, Ok(Some(next)) if next == number)
    }
    fn find(&mut self) -> Result<Option<u64>, Error> {
        while let Some(record) = self.records.next()? {
            if record.kind == self.kind {
                return Ok(Some((self.number)(&record)));
            }
        }
        Ok(None)
    }
}

/// Records of a tape that was looked through, one after the other.
struct Records {
    file: BufReader<File>,
    left: u64,
    path: PathBuf,
}

impl Records {
    fn next(&mut self) -> Result<Option<Record>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let mut cell = [0; RECORD];
        let read = self.file.read_exact(&mut cell);
        read.map_err(|e| Error::io("cannot read the tape", &self.path, e))?;
        match Record::decode(&cell) {
            Some(record) => Ok(Some(record)),
            None => Err(RunError::TapeChanged(self.path.clone()).into()),
        }
    }
}

/// What a replay came to.
#[derive(Debug)]
pub struct Replayed {
    /// Requests.
    pub inputs: u64,
    /// Events delivered.
    pub events: u64,
    /// The machine's time at the end.
    pub end: Time,
    /// The digest at the end ([`Machine::digest`]).
    pub digest: u64,
    /// The digest that was recorded; none if the tape has no end.
    pub recorded: Option<u64>,
    /// Digests on the way that were compared.
    pub checks: u64,
    /// Bytes at the end that are no whole record.
    pub torn: u64,
    /// Latencies in the model, by kind: name, answers, median, 99th and 99.9th percentile in ns.
    pub latencies: Vec<(&'static str, u64, [u64; 3])>,
}

/// A tape that was looked through: its head, and that its records are whole. They are read as a replay
/// comes to them.
pub struct Recording {
    path: PathBuf,
    profile: String,
    image: tempfile::NamedTempFile,
    /// Where its records begin.
    begin: u64,
    /// How many whole ones there are.
    records: u64,
    /// Bytes after the last whole one.
    torn: u64,
}

struct Head<'a> {
    file: BufReader<File>,
    crc: u32,
    path: &'a Path,
}

impl Head<'_> {
    fn bad(&self, fault: TapeFault) -> Error {
        Error::Tape { path: self.path.into(), fault }
    }
    fn take(&mut self, into: &mut [u8]) -> Result<(), Error> {
        self.file.read_exact(into).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => self.bad(TapeFault::Short),
            _ => Error::io("cannot read the tape", self.path, e),
        })?;
        self.crc = crc32c::crc32c_append(self.crc, into);
        Ok(())
    }
    fn number(&mut self) -> Result<u64, Error> {
        let mut b = [0; 8];
        self.take(&mut b)?;
        Ok(u64::from_le_bytes(b))
    }
}

impl Head<'_> {
    /// Whole records, and the bytes after them: what a kill left unfinished.
    fn records(&mut self) -> Result<(u64, u64), Error> {
        let (mut whole, mut rest) = (0u64, 0u64);
        let mut cell = Vec::with_capacity(RECORD);
        loop {
            cell.clear();
            let read = self.file.by_ref().take(RECORD as u64).read_to_end(&mut cell);
            read.map_err(|e| Error::io("cannot read the tape", self.path, e))?;
            let is_whole = cell.len() == RECORD && Record::decode(&cell).is_some();
            if is_whole && rest > 0 {
                return Err(self.bad(TapeFault::Torn(whole)));
            }
            if is_whole {
                whole += 1;
                continue;
            }
            rest += cell.len() as u64;
            if cell.len() < RECORD {
                return Ok((whole, rest));
            }
        }
    }
}

impl Recording {
    /// Opens the tape at `path`. An error if it is none, or if it is damaged.
    pub fn open(path: &Path) -> Result<Recording, Error> {
        let file = File::open(path).map_err(|e| Error::io("cannot open the tape", path, e))?;
        let is_file = file.metadata().is_ok_and(|about| about.is_file());
        let mut head = Head { file: BufReader::with_capacity(1 << 20, file), crc: 0, path };
        if !is_file {
            return Err(head.bad(TapeFault::NoFile));
        }
        let mut magic = [0; 8];
        head.take(&mut magic)?;
        if &magic != MAGIC {
            return Err(head.bad(match magic.starts_with(b"WLTAPE") {
                true => TapeFault::Version,
                false => TapeFault::Foreign,
            }));
        }
        let mut profile = vec![0; head.number()?.min(1 << 20) as usize];
        head.take(&mut profile)?;
        let len = head.number()?;
        let unusable = |e| Error::from(RunError::Temporary(e));
        let image = tempfile::NamedTempFile::new().map_err(unusable)?;
        if len > IMAGE_MAX {
            return Err(head.bad(TapeFault::Head));
        }
        image.as_file().set_len(len).map_err(unusable)?;
        let mut page = [0; PAGE];
        loop {
            let number = head.number()?;
            if number == 0 {
                break;
            }
            head.take(&mut page)?;
            let at = (number - 1).checked_mul(PAGE as u64).filter(|at| at + PAGE as u64 <= len);
            let Some(at) = at else { return Err(head.bad(TapeFault::Head)) };
            image.as_file().write_all_at(&page, at).map_err(unusable)?;
        }
        let (crc, mut found) = (head.crc, [0; 4]);
        head.take(&mut found)?;
        if crc != u32::from_le_bytes(found) {
            return Err(head.bad(TapeFault::Checksum));
        }
        let Ok(profile) = String::from_utf8(profile) else { return Err(head.bad(TapeFault::Head)) };
        let failed = |e| Error::io("cannot read the tape", path, e);
        let begin = head.file.stream_position().map_err(failed)?;
        let (records, torn) = head.records()?;
        Ok(Recording { path: path.into(), profile, image, begin, records, torn })
    }
    fn records(&self) -> Result<Records, Error> {
        let failed = |e| Error::io("cannot read the tape", &self.path, e);
        let mut file = BufReader::with_capacity(1 << 16, File::open(&self.path).map_err(failed)?);
        file.seek(SeekFrom::Start(self.begin)).map_err(failed)?;
        Ok(Records { file, left: self.records, path: self.path.clone() })
    }
    /// The profile of the drive, TOML.
    pub fn profile(&self) -> &str {
        &self.profile
    }
    fn bad(&self, record: u64, what: &'static str) -> Error {
        Error::Tape { path: self.path.clone(), fault: TapeFault::Record { record, what } }
    }

    /// The inputs again, each after as many events as it was.
    pub fn replay(&self, system: &DriveConfig) -> Result<Replayed, Error> {
        let image = Image::open(self.image.path(), false)?;
        let recovered = recover(&image, system, false)?;
        let expected = Box::new(Expected::new(self)?);
        let size = image.superblock.size;
        let mut machine = Machine::new(system, recovered, None, Tape::Replay(expected), size)?;
        let mut model: [Histogram; IoKind::ALL.len()] = std::array::from_fn(|_| Histogram::new());
        let mut add = |done: Done| model[done.kind as usize].add(done.at.since(done.began).0);
        let (mut inputs, mut checks, mut recorded) = (0, 0, None);
        let mut records = self.records()?;
        for n in 0.. {
            let Some(r) = &records.next()? else { break };
            let kind = match r.kind {
                FAILED | SHORT | STALL => continue,
                CHECK | END => None,
                k => match IoKind::ALL.get(usize::from(k)) {
                    Some(&kind) => Some(kind),
                    None => return Err(self.bad(n, "is of an unknown kind")),
                },
            };
            self.run_to(&mut machine, n, r)?;
            if let Tape::Replay(expected) = &mut machine.tape {
                expected.error()?;
            }
            match kind {
                Some(kind) => {
                    inputs += 1;
                    let request = self.request(&machine, n, r, kind)?;
                    machine.submit(Time(r.time), request, &[]);
                }
                None if r.kind == END => recorded = Some(r.offset),
                None if machine.digest() == r.offset => checks += 1,
                None => {
                    let path = self.path.clone();
                    return Err(RunError::Differs { path, input: inputs }.into());
                }
            }
            while let Some(done) = machine.poll() {
                add(done);
            }
        }
        if let Tape::Replay(expected) = &mut machine.tape {
            expected.error()?;
        }
        let events = machine.ctx.queue.popped();
        Ok(Replayed {
            inputs,
            events,
            end: machine.now(),
            digest: machine.state_digest(),
            recorded,
            checks,
            torn: self.torn,
            latencies: rows(&model),
        })
    }
    /// Delivers the events before a record.
    fn run_to(&self, machine: &mut Machine, n: u64, r: &Record) -> Result<(), Error> {
        let last = Time(Time::NEVER.0 - 1);
        let mut before = machine.ctx.queue.popped();
        while before < r.events {
            machine.run(last, r.events - before);
            let now = machine.ctx.queue.popped();
            if now == before {
                let (path, here, there) = (self.path.clone(), now, r.events);
                return Err(RunError::Events { path, record: n, here, there }.into());
            }
            before = now;
        }
        Ok(())
    }
    fn request(
        &self,
        machine: &Machine,
        n: u64,
        r: &Record,
        kind: IoKind,
    ) -> Result<Request, Error> {
        let end = r.offset.checked_add(u64::from(r.len)).filter(|&end| end <= machine.size());
        if end.is_none() || r.len == 0 && kind != IoKind::Flush {
            return Err(self.bad(n, "asks for what the drive has not"));
        }
        if r.queue >= machine.queues() || Time(r.time) < machine.now() {
            return Err(self.bad(n, "has an impossible queue or time"));
        }
        Ok(Request {
            tag: 0,
            kind,
            offset: r.offset,
            len: r.len,
            fua: r.flags & 1 == 1,
            queue: r.queue,
            pid: r.pid,
            data: Vec::new(),
        })
    }
}

fn rows(model: &[Histogram]) -> Vec<(&'static str, u64, [u64; 3])> {
    let at = |h: &Histogram, p: f64| h.percentile_bucket(p).map_or(0, hist::midpoint);
    let rows = IoKind::ALL.into_iter().zip(model).filter(|(_, h)| !h.is_empty());
    rows.map(|(kind, h)| (kind.name(), h.len(), [50.0, 99.0, 99.9].map(|p| at(h, p)))).collect()
}
