//! Servers that answer requests which arrive on their own: an open loop with Poisson arrivals, served by
//! threads in order of arrival. What a request does is the server's kind: a web server's files, or the
//! records of a key-value store.

use crate::config::{AppConfig, MOST_THREADS, PageCost};
use crate::ops::{Load, Report};
use crate::shell::{Model, Shell, Step, Then, ThreadId};
use crate::space::Extent;
use crate::ycsb::{Scrambled, Zipfian};
use serde::{Deserialize, Serialize};
use wordline_base::{BadValue, IdVec, Rng, SECTOR, Seed, Span, Time};

/// A web server whose pages are files (Apache with a thread a request).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WebConfig {
    /// Requests a second that arrive, at random moments.
    pub load: f64,
    /// Requests served at a time.
    pub threads: u32,
    /// Files that can be asked for.
    pub files: u32,
    /// Sizes of files are lognormal, in whole sectors: their median, in bytes.
    pub file_bytes_median: u64,
    /// The deviation of the sizes' logarithms.
    pub file_sigma: f64,
    /// No file is smaller, in bytes.
    pub file_bytes_min: u64,
    /// No file is larger, in bytes.
    pub file_bytes_max: u64,
    /// The exponent of Zipf's law, by which files are chosen.
    pub theta: f64,
    /// The fewest files that a request reads; each number up to the most is as likely.
    pub reads_min: u32,
    /// The most files that a request reads.
    pub reads_max: u32,
    /// Share of file reads, in percent, that the page cache does not have.
    pub cold: f64,
    /// The largest read of a file's pages.
    pub read_bytes: u64,
    /// The shortest processor time of a request; each up to the longest is as likely.
    pub cpu_min: Span,
    /// The longest processor time of a request.
    pub cpu_max: Span,
}

/// A key-value store with records in place.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct KvConfig {
    /// Requests a second that arrive, at random moments.
    pub load: f64,
    /// Requests served at a time.
    pub threads: u32,
    /// 0: as many as half of the program's part of the drive holds, 16 GiB at most.
    pub records: u64,
    /// Bytes of a record.
    pub record_bytes: u64,
    /// The exponent of Zipf's law, by which records are chosen.
    pub theta: f64,
    /// Share of requests, in percent, that write their record.
    pub updates: f64,
    /// An update is answered when a flush has it on the medium.
    pub fsync: bool,
    /// Processor time of a request.
    pub cpu: Span,
}

/// The most that a program whose size follows its part of the drive takes of it.
pub(crate) const MOST_BYTES: u64 = 16 << 30;

/// A file of a web server.
type FileId = u32;

/// More files or records have no number.
const MOST_OBJECTS: u64 = 1 << 31;
/// Each has its place in the simulator's memory.
const MOST_FILES: u32 = 1 << 26;

fn load(wrong: &mut Vec<BadValue>, load: f64, threads: u32) {
    if !(1e-3..=1e9).contains(&load) {
        let why = format!("must be above 0 requests a second, 1e9 at most, not {load}");
        wrong.push(BadValue::new("load", why));
    }
    if !(1..=MOST_THREADS).contains(&threads) {
        let why = format!("must be from 1 to {MOST_THREADS}, not {threads}");
        wrong.push(BadValue::new("threads", why));
    }
}

fn zipf(wrong: &mut Vec<BadValue>, theta: f64) {
    if !(0.01..0.9999).contains(&theta) {
        wrong.push(BadValue::new("theta", format!("must be from 0.01 to 0.9999, not {theta}")));
    }
}

impl WebConfig {
    pub(crate) fn check(&self) -> Vec<BadValue> {
        let mut wrong = Vec::new();
        load(&mut wrong, self.load, self.threads);
        zipf(&mut wrong, self.theta);
        let mut bad = |key, why: String| wrong.push(BadValue::new(key, why));
        if !(1..=MOST_FILES).contains(&self.files) {
            bad("files", format!("must be from 1 to {MOST_FILES}, not {}", self.files));
        }
        for (key, bytes) in [
            ("file_bytes_min", self.file_bytes_min),
            ("file_bytes_max", self.file_bytes_max),
            ("read_bytes", self.read_bytes),
        ] {
            if bytes == 0 || !bytes.is_multiple_of(SECTOR) || bytes > 1 << 30 {
                bad(key, format!("must be a multiple of {SECTOR}, 1 GiB at most, not {bytes}"));
            }
        }
        let (least, most) = (self.file_bytes_min, self.file_bytes_max);
        if most < least {
            bad("file_bytes_max", format!("must be at least file_bytes_min = {least}"));
        } else if !(least..=most).contains(&self.file_bytes_median) {
            bad(
                "file_bytes_median",
                format!("must be from {least} to {most}, the bounds of files"),
            );
        }
        if !(0.0..=10.0).contains(&self.file_sigma) {
            bad("file_sigma", format!("must be from 0 to 10, not {}", self.file_sigma));
        }
        if self.reads_min == 0 || self.reads_max < self.reads_min || self.reads_max > 1024 {
            bad("reads_max", "must be at least reads_min, from 1 to 1024".into());
        }
        if !(0.0..=100.0).contains(&self.cold) {
            bad("cold", format!("must be from 0 to 100 percent, not {}", self.cold));
        }
        if self.cpu_max < self.cpu_min {
            bad("cpu_max", format!("must be at least cpu_min = {}", self.cpu_min));
        }
        wrong
    }
}

impl KvConfig {
    pub(crate) fn check(&self) -> Vec<BadValue> {
        let mut wrong = Vec::new();
        load(&mut wrong, self.load, self.threads);
        zipf(&mut wrong, self.theta);
        let mut bad = |key, why: String| wrong.push(BadValue::new(key, why));
        if self.records > MOST_OBJECTS {
            bad("records", format!("must be at most {MOST_OBJECTS}"));
        }
        let bytes = self.record_bytes;
        if bytes == 0 || !bytes.is_multiple_of(SECTOR) || bytes > 1 << 20 {
            bad(
                "record_bytes",
                format!("must be a multiple of {SECTOR}, 1 MiB at most, not {bytes}"),
            );
        }
        if !(0.0..=100.0).contains(&self.updates) {
            bad("updates", format!("must be from 0 to 100 percent, not {}", self.updates));
        }
        wrong
    }
}

/// Moments of a Poisson process.
#[derive(Clone, Debug)]
struct Arrivals {
    rng: Rng,
    mean_ns: f64,
    next: Time,
}

impl Arrivals {
    fn new(rng: Rng, load: f64) -> Arrivals {
        let mut arrivals = Arrivals { rng, mean_ns: 1e9 / load, next: Time::ZERO };
        arrivals.pass();
        arrivals
    }
    /// The next request is taken.
    fn pass(&mut self) {
        // Uniform over (0, 1].
        let u = ((self.rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        let gap = -libm::log(u) * self.mean_ns;
        self.next += Span((gap as u64).min(1 << 50));
    }
}

/// A standard normal draw (Box and Muller).
fn normal(rng: &mut Rng) -> f64 {
    let mut uniform = || ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
    let (u, v) = (uniform(), uniform());
    libm::sqrt(-2.0 * libm::log(u)) * libm::cos(2.0 * std::f64::consts::PI * v)
}

/// True in so many percent of draws.
fn percent(rng: &mut Rng, percent: f64) -> bool {
    rng.chance((percent * 1e7) as u64)
}

#[derive(Clone, Copy, Debug)]
enum State {
    Free,
    /// For a request that is to arrive then.
    Waits(Time),
    Serves {
        kind: usize,
        arrived: Time,
        begun: Time,
    },
}

#[derive(Debug)]
enum Kind {
    Web {
        c: WebConfig,
        files: IdVec<FileId, Extent>,
        /// The file of each rank.
        ranks: IdVec<u32, FileId>,
        zipfian: Zipfian,
    },
    Kv {
        c: KvConfig,
        records: u64,
        zipfian: Scrambled,
    },
}

#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    /// Files that a web server read.
    files: u64,
    /// Files that the page cache had.
    cached: u64,
    /// Bytes of all of them.
    bytes: u64,
    reads: u64,
    read_bytes: u64,
    writes: u64,
    write_bytes: u64,
    flushes: u64,
}

#[derive(Debug)]
pub(crate) struct Server {
    kind: Kind,
    arrivals: Arrivals,
    rng: Rng,
    threads: IdVec<ThreadId, State>,
    /// Requests that were taken up.
    begun: u64,
    /// When the last of them arrived and was taken up.
    last: (Time, Time),
    stats: Stats,
}

const READ: usize = 0;
const UPDATE: usize = 1;

fn no_room(sectors: u64, what: &str) -> BadValue {
    let gb = (sectors * SECTOR) as f64 / 1e9;
    BadValue::new("size", format!("leaves {gb:.3} GB, which do not hold {what}"))
}

impl Server {
    pub fn web(
        app: &AppConfig,
        c: &WebConfig,
        sectors: u64,
        seed: Seed,
    ) -> Result<(Shell, Server), BadValue> {
        let mut draws = seed.stream("app/files");
        let (mut files, mut at) = (Vec::with_capacity(c.files as usize), 0);
        for _ in 0..c.files {
            let factor = libm::exp(c.file_sigma * normal(&mut draws));
            let bytes = (c.file_bytes_median as f64 * factor) as u64;
            let bytes = bytes.clamp(c.file_bytes_min, c.file_bytes_max);
            let sectors = bytes.div_ceil(SECTOR);
            files.push(Extent { at, sectors });
            at += sectors;
        }
        if at > sectors {
            let (n, gb) = (c.files, (at * SECTOR) as f64 / 1e9);
            return Err(no_room(
                sectors,
                &format!(
                    "{n} files of {gb:.3} GB: use fewer files (app.web.files), or a larger drive or part of it"
                ),
            ));
        }
        let mut ranks: Vec<u32> = (0..c.files).collect();
        for i in (1..ranks.len()).rev() {
            ranks.swap(i, draws.below(i as u64 + 1) as usize);
        }
        let zipfian = Zipfian::new(c.files.into(), c.theta);
        let kind = Kind::Web { c: c.clone(), files: files.into(), ranks: ranks.into(), zipfian };
        let names = ["request"];
        Ok(Server::of(app, &names, kind, (c.load, c.threads), sectors, seed))
    }

    pub fn kv(
        app: &AppConfig,
        c: &KvConfig,
        sectors: u64,
        seed: Seed,
    ) -> Result<(Shell, Server), BadValue> {
        let each = c.record_bytes / SECTOR;
        let records = match c.records {
            0 => (sectors / 2).min(MOST_BYTES / SECTOR) / each,
            records => records,
        };
        if records == 0 || records.saturating_mul(each) > sectors {
            let what = format!(
                "{} records of {} bytes: use fewer records (app.kv.records; 0 follows the drive), or a \
                 larger drive or part of it",
                records.max(1),
                c.record_bytes
            );
            return Err(no_room(sectors, &what));
        }
        let kind = Kind::Kv { c: c.clone(), records, zipfian: Scrambled::new(c.theta) };
        let names = ["read", "update"];
        Ok(Server::of(app, &names, kind, (c.load, c.threads), sectors, seed))
    }

    fn of(
        app: &AppConfig,
        names: &[&'static str],
        kind: Kind,
        (load, threads): (f64, u32),
        sectors: u64,
        seed: Seed,
    ) -> (Shell, Server) {
        let mut shell = Shell::new(app, names, (0, PageCost::default()), sectors);
        (0..threads).for_each(|_| shell.add("workers", 1, true));
        let server = Server {
            kind,
            arrivals: Arrivals::new(seed.stream("app/arrivals"), load),
            rng: seed.stream("app/requests"),
            threads: IdVec::filled(State::Free, threads),
            begun: 0,
            last: Default::default(),
            stats: Stats::default(),
        };
        (shell, server)
    }

    /// The steps of a request, and its kind.
    fn plan(&mut self, shell: &mut Shell, t: u32) -> usize {
        let (rng, stats) = (&mut self.rng, &mut self.stats);
        match &self.kind {
            Kind::Web { c, files, ranks, zipfian } => {
                let reads =
                    c.reads_min + rng.below(u64::from(c.reads_max - c.reads_min) + 1) as u32;
                let cpu = c.cpu_min.0 + rng.below(c.cpu_max.0 - c.cpu_min.0 + 1);
                // Parsing before the first file, and sending after each.
                let turn = cpu / u64::from(reads + 1);
                shell.push(t, Step::Compute(Span(cpu - turn * u64::from(reads))));
                for _ in 0..reads {
                    let file = files[ranks[zipfian.draw(rng) as u32]];
                    stats.files += 1;
                    stats.bytes += file.sectors * SECTOR;
                    if percent(rng, c.cold) {
                        let reads = shell.push_reads(t, file, c.read_bytes / SECTOR);
                        stats.reads += reads;
                        stats.read_bytes += file.sectors * SECTOR;
                    } else {
                        stats.cached += 1;
                    }
                    shell.push(t, Step::Compute(Span(turn)));
                }
                READ
            }
            Kind::Kv { c, records, zipfian } => {
                let sectors = c.record_bytes / SECTOR;
                let record = zipfian.draw(rng, *records);
                let extent = Extent { at: record * sectors, sectors };
                shell.push(t, Step::Compute(c.cpu));
                if !percent(rng, c.updates) {
                    shell.push(t, Step::Read(extent));
                    stats.reads += 1;
                    stats.read_bytes += c.record_bytes;
                    return READ;
                }
                shell.push(t, Step::Write(extent));
                stats.writes += 1;
                stats.write_bytes += c.record_bytes;
                if c.fsync {
                    shell.push(t, Step::Flush);
                    stats.flushes += 1;
                }
                UPDATE
            }
        }
    }

    fn serve(&mut self, shell: &mut Shell, t: u32, arrived: Time, now: Time) -> Then {
        shell.begin(t);
        self.begun += 1;
        self.last = (arrived, now);
        let kind = self.plan(shell, t);
        self.threads[t] = State::Serves { kind, arrived, begun: now };
        Then::Go
    }
}

impl Model for Server {
    /// A free thread takes the next request there is or will be: requests are served in the order of their
    /// arrival, and one that finds a free thread is served at once.
    fn resume(&mut self, shell: &mut Shell, t: u32, now: Time) -> Then {
        match std::mem::replace(&mut self.threads[t], State::Free) {
            State::Free => {}
            State::Waits(at) => return self.serve(shell, t, at, now),
            State::Serves { kind, arrived, begun } => shell.finish(t, kind, arrived, begun, now),
        }
        let at = self.arrivals.next;
        if !shell.may_begin(at) {
            return Then::End;
        }
        self.arrivals.pass();
        if at <= now {
            return self.serve(shell, t, at, now);
        }
        self.threads[t] = State::Waits(at);
        shell.push(t, Step::Sleep(at));
        Then::Go
    }

    fn layout(&self) -> Vec<Extent> {
        let sectors = match &self.kind {
            Kind::Web { files, .. } => files.iter().map(|f| f.sectors).sum(),
            Kind::Kv { c, records, .. } => records * (c.record_bytes / SECTOR),
        };
        vec![Extent { at: 0, sectors }]
    }

    fn report(&self, report: &mut Report) {
        let s = &self.stats;
        if let Kind::Web { .. } = self.kind {
            report.counters.extend([
                ("files_read", s.files),
                ("files_in_page_cache", s.cached),
                ("file_bytes", s.bytes),
            ]);
        }
        report.counters.extend([("reads", s.reads), ("read_bytes", s.read_bytes)]);
        if let Kind::Kv { records, .. } = self.kind {
            report.counters.extend([
                ("records", records),
                ("writes", s.writes),
                ("write_bytes", s.write_bytes),
                ("flushes", s.flushes),
            ]);
        }
    }

    fn arrivals(&self) -> Option<Load> {
        let (section, asked) = match &self.kind {
            Kind::Web { c, .. } => ("web", c.load),
            Kind::Kv { c, .. } => ("kv", c.load),
        };
        let (arrived, last) = self.last;
        Some(Load { section, asked, begun: self.begun, last, behind: last.since(arrived) })
    }

    fn check(&self) {
        if let Kind::Web { files, .. } = &self.kind {
            for pair in files.windows(2) {
                assert_eq!(pair[0].at + pair[0].sectors, pair[1].at, "files share sectors");
            }
        }
    }
}
