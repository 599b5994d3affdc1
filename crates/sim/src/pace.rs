//! Whether I/O came at the times that were asked for: a trace's, or a rate's. What is late waits outside of the
//! machine, where no latency counts it.

use crate::replay::TraceSource;
use crate::result::{Course, DirResult, Lateness, ThreadResult};
use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use wordline_app::{Load, Turnaround};
use wordline_base::hist::midpoint;
use wordline_base::{Ddir, Histogram, Span, Time};
use wordline_fio::job::RateProcess;
use wordline_fio::{HeldUp, Job};
use wordline_trace::{Reason, Restarts};

/// An I/O as it went out and comes back.
type Sent = (u64, u32, u8);

/// A request in flight, against the trace.
#[derive(Clone, Copy)]
struct Due {
    /// When it could go out.
    at: Time,
    /// How much later that is than its own time.
    displaced: Span,
    /// It is one of these, or went out behind them.
    disturbed: bool,
}

/// Holds the requests of a trace against its times.
#[derive(Default)]
pub(crate) struct Punctuality {
    so_far: Lateness,
    /// Requests in flight; of equal ones the oldest is taken to come back first.
    due: BTreeMap<Sent, VecDeque<Due>>,
    /// Displaced requests went out, and the thread had none to wait for since.
    disturbed: bool,
    /// How many these are.
    in_flight: u64,
    /// The first and the last time.
    times: Option<(Time, Time)>,
    /// The end of the last request so far.
    end: Time,
    /// In flight as requests went out.
    depths: Depths,
}

/// Sums over requests in a row, of a number that doubles as there are more of them.
#[derive(Clone, Default)]
struct Depths {
    /// Requests in each.
    each: u64,
    sums: Vec<u64>,
    /// Requests in the last one.
    last: u64,
}

impl Depths {
    /// Sums that are kept: thirds of them are as exact as that.
    const MOST: usize = 96;

    fn add(&mut self, depth: u64) {
        if self.sums.is_empty() || self.last == self.each {
            if self.sums.len() == Self::MOST {
                self.sums = self.sums.chunks(2).map(|two| two.iter().sum()).collect();
                self.each *= 2;
            }
            self.each = self.each.max(1);
            self.sums.push(0);
            self.last = 0;
        }
        self.last += 1;
        if let Some(sum) = self.sums.last_mut() {
            *sum += depth;
        }
    }
    /// The mean of each third; what is left over counts to the second.
    fn thirds(&self) -> [f64; 3] {
        let n = self.sums.len();
        let third = n / 3;
        let mean = |from: usize, to: usize| {
            let whole = (to - from) as u64 * self.each;
            let requests = if to == n { whole + self.last - self.each } else { whole };
            let sum: u64 = self.sums[from..to].iter().sum();
            sum as f64 / requests.max(1) as f64
        };
        match third {
            0 => [0.0; 3],
            _ => [mean(0, third), mean(third, n - third), mean(n - third, n)],
        }
    }
}

impl Punctuality {
    /// The time of the next request has not come.
    pub fn waits(&mut self) {
        self.disturbed = false;
    }
    /// A request goes out that was due at `at`, or so much before if it could not be sorted.
    pub fn sent(&mut self, (offset, len, ddir): (u64, u32, Ddir), at: Time, displaced: Span) {
        if displaced > Span(0) {
            self.disturbed = true;
            self.so_far.displaced.add(displaced.0);
        }
        let due = Due { at, displaced, disturbed: self.disturbed };
        self.due.entry((offset, len, ddir as u8)).or_default().push_back(due);
        let first = self.times.map_or(at, |(first, _)| first);
        self.times = Some((first, at));
        self.in_flight += 1;
        self.depths.add(self.in_flight);
    }
    /// It is back, `latency` after its issue. Between the time that the thread slept to and the issue it was
    /// woken, and prepared the request.
    pub fn back(
        &mut self,
        (offset, len, ddir): (u64, u32, Ddir),
        ok: bool,
        latency: Span,
        now: Time,
    ) {
        let Entry::Occupied(mut equal) = self.due.entry((offset, len, ddir as u8)) else { return };
        let due = equal.get_mut().pop_front();
        if equal.get().is_empty() {
            equal.remove();
        }
        let Some(Due { at, displaced, disturbed }) = due else { return };
        self.in_flight -= 1;
        self.end = now;
        let from_due = now.since(at) + displaced;
        let behind = from_due.0.saturating_sub(latency.0);
        self.so_far.behind.add(behind);
        if !disturbed {
            self.so_far.own.add(behind);
        }
        if ok && !ddir.is_sync() {
            self.so_far.latency[ddir as usize].add(from_due.0);
        }
    }
    /// None for a trace whose times are not asked for.
    pub fn result(&self) -> Option<Lateness> {
        let (first, last) = self.times?;
        let course = Course {
            length: last.since(first),
            drained: self.end.since(last),
            in_flight: self.depths.thirds(),
        };
        (!self.so_far.behind.is_empty()).then(|| Lateness { course, ..self.so_far.clone() })
    }
}

/// All directions together.
fn all<'a>(each: impl IntoIterator<Item = &'a Histogram>) -> Histogram {
    let mut sum = Histogram::new();
    each.into_iter().for_each(|h| sum.merge(h));
    sum
}

/// To the nanosecond below a microsecond, to a tenth of one above.
fn told(ns: f64) -> String {
    let ns = ns.max(0.0).round() as u64;
    Span(if ns < 1_000 { ns } else { ns / 100 * 100 }).to_string()
}

/// The limit by the mean time between two requests is at least this: what is late by less may be a thread that was
/// woken, or a core that was busy. The mean latency may be below it.
const LEAST: f64 = 100e3;
/// And it is at most this, however rare the requests of the trace.
const MOST: f64 = 1e6;

/// What is later than its time by more than this is late: the mean latency, but on a machine that is slower than its
/// trace no more than the mean time between two requests. A latency that grows with the load would
/// excuse the lateness that comes of the same load. Where nothing has a latency, as in a trace of syncs,
/// the gap alone is the limit.
fn limit(latency: &Histogram, lateness: &Lateness) -> f64 {
    let gap = lateness.course.length.0 as f64 / lateness.behind.len().max(1) as f64;
    let gap = gap.clamp(LEAST, MOST);
    if latency.is_empty() { gap } else { latency.mean().min(gap) }
}

/// What a replay is to be warned of.
pub(crate) fn replayed(thread: &ThreadResult) -> Vec<String> {
    late(thread).into_iter().chain(piled_up(thread)).collect()
}

/// In flight at the end of a trace, in the mean of its last third, before a growth of it is told.
const PILE: f64 = 32.0;

/// Requests came faster than they were served, from the beginning of the trace to its end.
fn piled_up(thread: &ThreadResult) -> Option<String> {
    let Course { length, drained, in_flight: [a, b, c] } = thread.lateness.as_ref()?.course;
    let grew = c >= PILE && b > 1.25 * a && c > 1.25 * b;
    // A load that was served leaves no more than the last requests.
    (grew && drained.0 > length.0 / 20).then(|| {
        format!(
            "'{}' asks for more than was served: {a:.0}, {b:.0} and {c:.0} requests were in flight in the thirds of its \
             trace, and after the last one came it took {} more to serve them, beside {} of the trace. The longer the \
             trace, the longer its latencies. A larger --time-scale, of a job a smaller replay_time_scale, asks for less a second",
            thread.name,
            told(drained.0 as f64),
            told(length.0 as f64)
        )
    })
}

/// Of these times so many are above a limit, and their sum.
fn above(times: &Histogram, limit: f64) -> (u64, f64) {
    let (mut requests, mut sum) = (0, 0.0);
    for (bucket, n) in times.buckets() {
        let value = midpoint(bucket).clamp(times.min(), times.max()) as f64;
        if value > limit {
            requests += n;
            sum += value * n as f64;
        }
    }
    (requests, sum)
}

/// Late requests count if they are more than 1 % of all, or if their lateness is above a tenth of the limit when
/// spread over all.
fn matters(requests: u64, sum: f64, limit: f64, of: u64) -> bool {
    let of = of as f64;
    requests as f64 > 0.01 * of || sum > 0.1 * limit * of
}

/// What latency is from the trace's times, as one more sentence; nothing if none was counted.
fn from_times(lateness: &Lateness) -> String {
    let counted = all(&lateness.latency);
    if counted.is_empty() {
        return String::new();
    }
    // The farthest percentile that requests lie beyond.
    let far = [99.99, 99.9, 99.0].into_iter().find(|percent| counted.reaches(*percent));
    let far = match far {
        Some(percent) => format!("{percent}% {}", told(counted.percentile(percent) as f64)),
        None => format!("{} at most", told(counted.max() as f64)),
    };
    let mean = told(counted.mean());
    format!(
        ". Latency counts from the issue; from the trace's time it is {mean} in the mean, {far}"
    )
}

/// The machine did not keep pace. Requests that could not be sorted have a warning of their own.
pub(crate) fn late(thread: &ThreadResult) -> Option<String> {
    let lateness = thread.lateness.as_ref()?;
    let latency = all(thread.dirs.iter().map(|d: &DirResult| &d.lat));
    let limit = limit(&latency, lateness);
    let (requests, sum) = above(&lateness.own, limit);
    let of = lateness.behind.len();
    matters(requests, sum, limit, of).then(|| {
        format!(
            "'{}' did not keep the times of its trace: {requests} of {of} requests ({:.1}%) were issued later than \
             their time by more than {}, {} in the mean and {} at most{}. A larger --time-scale, of a job a \
             smaller replay_time_scale, asks for less a second",
            thread.name,
            100.0 * requests as f64 / of as f64,
            told(limit),
            told(sum / (requests as f64).max(1.0)),
            told(lateness.own.max() as f64),
            from_times(lateness),
        )
    })
}

/// A trace whose times go back: where its clock began again, or where requests could not be sorted.
pub(crate) fn out_of_order(trace: &TraceSource) -> Option<String> {
    let reader = trace.reader();
    let (name, unit, window) = (reader.name(), reader.format().unit(), reader.window());
    let late = trace.lateness().and_then(|lateness| {
        let displaced = &lateness.displaced;
        let (requests, of) = (displaced.len(), lateness.behind.len().max(1));
        let sum = displaced.mean() * requests as f64;
        let gap = lateness.course.length.0 as f64 / of as f64;
        let counts = requests > 0 && matters(requests, sum, gap.clamp(LEAST, MOST), of);
        counts.then(|| {
            format!(
                "{requests} of {of} requests ({:.1}%) stand behind later ones, farther than the {window} that are \
                 sorted, and could not go out at their time but {} after it in the mean and {} at most{}",
                100.0 * requests as f64 / of as f64,
                told(displaced.mean()),
                told(displaced.max() as f64),
                from_times(&lateness),
            )
        })
    });
    let Restarts { count, line, by } = reader.restarts();
    if count == 0 {
        let first = reader.first_noted(Reason::Late).unwrap_or_default();
        return Some(format!(
            "{name}: the times of this trace were not kept: {}. The first is {unit} {first}. Sort the trace by time",
            late?
        ));
    }
    let more = match count {
        1 => String::new(),
        n => format!(", and {} times more further on", n - 1),
    };
    let late = late.map_or(String::new(), |late| format!(". {late}"));
    Some(format!(
        "{name}: the clock of this trace goes back at {unit} {line}, by {}{more}, as where traces are joined. What \
         follows was sorted in among what came before, so that both were replayed at the same time{late}. If one was \
         recorded after the other, replay each alone, or add the end of the one to the times of the next; if at the same \
         time, sort the whole by time",
        told(by.0 as f64),
    ))
}

/// A part of this is missing, or too much, before it is told; chosen.
const APART: f64 = 0.05;

/// The same with what few draws may be off by chance.
fn apart(drawn: bool, draws: u64) -> f64 {
    APART + if drawn { 3.0 / (draws as f64).sqrt() } else { 0.0 }
}

/// Requests that arrive faster than they are served wait for a thread, each longer than the one before.
pub(crate) fn overloaded(program: &str, beside: bool, load: &Load) -> Option<String> {
    let served = load.begun as f64 / load.last.since(Time::ZERO).as_secs_f64();
    let less = load.begun > 0 && served < load.asked * (1.0 - apart(true, load.begun));
    less.then(|| {
        let asked = load.asked;
        let key = match beside {
            true => format!("--with {program}:load"),
            false => format!("app.{}.load", load.section),
        };
        format!(
            "'{program}' did not keep up with its load: {asked} requests a second arrive ({key}), and \
             {served:.0} were taken up. The last one had waited {} for a thread: the longer the run, the longer its \
             latencies. A lower {key} shows those of a load that is served",
            told(load.behind.0 as f64)
        )
    })
}

/// A program whose last third does another number of operations a second than its first: what it leaves behind, or
/// what is in its caches, is not yet what it will be.
pub(crate) fn drifted(of: &Turnaround) -> Option<String> {
    // Of the first and the last interval a part may be missing.
    let whole = of.over_time.get(1..of.over_time.len().saturating_sub(1))?;
    let begin = of.over_time.first()?.end_ns;
    let third = whole.last()?.end_ns.saturating_sub(begin) / 3;
    let [first, _, last] = [0, 1, 2].map(|k| {
        let (from, to) = (begin + k * third, begin + (k + 1) * third);
        let within = whole.iter().filter(|i| i.end_ns > from && i.end_ns <= to);
        within.map(|i| i.count).sum::<u64>() as f64
    });
    let (less, more) = (first.min(last), first.max(last));
    let chance = 3.0 * (first + last).sqrt();
    if whole.len() < 9 || more - less <= 0.15 * more || more - less <= chance {
        return None;
    }
    let rate = |n: f64| n * 1e9 / third as f64;
    Some(format!(
        "'{}' did {:.0} operations a second in the first third of the run and {:.0} in the last: it has not come to a \
         state that lasts. A longer run shows where it ends, a ramp_time leaves the first part out",
        of.program,
        rate(first),
        rate(last)
    ))
}

/// A direction of a job: what it asked for and reached.
#[derive(Clone, Copy, PartialEq, Debug)]
struct RatedDir {
    /// A second.
    asked: f64,
    /// A second, with the first I/O of each thread, which no pause comes before.
    reached: f64,
    /// A second, as it is reported.
    reported: f64,
    /// A second at least, without that one.
    paced: f64,
    ios: u64,
    /// Both are bytes.
    bytes: bool,
}

/// What a job asked for, in bytes and I/Os a second of a direction, and what its threads reached.
#[derive(Clone, Debug)]
pub(crate) struct Rated {
    pub name: String,
    /// Pauses are drawn: so few I/Os may be slower or faster by chance.
    drawn: bool,
    /// Why a direction is faster than asked, if that is known.
    why: [Option<String>; 3],
    dirs: [Option<RatedDir>; 3],
    /// I/Os that were due while a thread waited for others.
    held_up: HeldUp,
    /// Time of the threads, and what of it they spent in `thinktime`, in nanoseconds.
    time: f64,
    paused: f64,
    /// Latency of all I/Os together, in nanoseconds.
    latency: f64,
    depth: u32,
}

/// What one of a job's own options ended.
pub(crate) fn ended_early(job: &str, why: &str) -> String {
    format!("job '{job}' ended early: {why}. The numbers are those of its time up to there")
}

/// A least rate was given, and the job was over before it could fall below that.
pub(crate) fn never_judged(job: &str, first: Span) -> String {
    format!(
        "job '{job}' was not held to its least rate (rate_min, rate_iops_min): as in fio a rate counts from 2 s on, over a whole rate_cycle, so \
         that it is judged after {first} at the earliest. A longer runtime, or a shorter rate_cycle, has it judged"
    )
}

/// Of I/Os of several lengths `rate_iops` is a rate in bytes, unless pauses are drawn: that of as many I/Os of the
/// shortest.
pub(crate) fn bytes_of_iops(job: &Job, d: usize) -> Option<u64> {
    let mixed = job.rate[d] == 0 && job.rate_iops[d] > 0 && job.max_bs[d] > job.min_bs[d];
    let linear = job.rate_process == RateProcess::Linear;
    (mixed && linear).then(|| job.rate_iops[d].saturating_mul(job.min_bs[d]))
}

/// fio's pause between two I/Os is whole microseconds, and so is each that it draws.
fn why_faster(job: &Job, d: usize) -> Option<String> {
    if job.rate_process != RateProcess::Poisson {
        return None;
    }
    // As the pacer has it: blocks count as the smallest.
    let least = job.min_bs[d].max(1);
    let bps = if job.rate[d] > 0 { job.rate[d] } else { job.rate_iops[d].saturating_mul(least) };
    let exact = 1e6 * least as f64 / bps.max(1) as f64;
    let mean = 1_000_000 / (bps / least).max(1);
    let blocks = match job.rate[d] > 0 && job.max_bs[d] > least {
        true => format!(" for blocks of {least} bytes, as which all count"),
        false => String::new(),
    };
    // The mean of an exponential distribution whose values are cut to whole numbers.
    let drawn = if mean == 0 { 0.0 } else { 1.0 / libm::expm1(1.0 / mean as f64) };
    Some(format!(
        "fio draws pauses of {mean} us in the mean, where the rate asks for {exact:.2} us{blocks}, and cuts each to \
         whole microseconds, {drawn:.2} in the mean. rate_process=linear keeps the rate"
    ))
}

impl Rated {
    /// None for a job without a rate. `times` are those of the directions as they are reported.
    pub fn new(
        job: &Job,
        thread: &ThreadResult,
        times: [Span; 3],
        held_up: HeldUp,
        paused: Span,
    ) -> Option<Rated> {
        let of = |d: usize| {
            let dir = &thread.dirs[d];
            let (asked, amount, bytes) = match (job.rate[d], job.rate_iops[d]) {
                (0, 0) => return None,
                (0, _) if let Some(rate) = bytes_of_iops(job, d) => (rate, dir.io_bytes, true),
                (0, ios) => (ios, dir.total_ios, false),
                (rate, _) => (rate, dir.io_bytes, true),
            };
            // The last one need not be back for the rate to be kept.
            let time = dir.runtime.0 as f64 - dir.lat.mean();
            let ios = dir.total_ios;
            (ios > 0 && time > 0.0).then(|| {
                let reached = amount as f64 * 1e9 / time;
                let reported = amount as f64 * 1e9 / times[d].0.max(1) as f64;
                // The last was paced by then, and came back at the end.
                let amount = amount as f64 * (ios - 1) as f64 / ios as f64;
                let paced = amount * 1e9 / dir.runtime.0 as f64;
                RatedDir { asked: asked as f64, reached, reported, paced, ios, bytes }
            })
        };
        let dirs = [of(0), of(1), of(2)];
        let drawn = job.rate_process == RateProcess::Poisson;
        let why = std::array::from_fn(|d| dirs[d].and_then(|_| why_faster(job, d)));
        let name = job.name.clone();
        let latency = thread.dirs.iter().map(|d| d.lat.mean() * d.lat.len() as f64).sum();
        let depth = if job.is_sync() { 1 } else { job.iodepth };
        let time = times.iter().map(|time| time.0).max().unwrap_or_default() as f64;
        let paused = paused.0 as f64;
        let rated = Rated { name, drawn, why, dirs, held_up, time, paused, latency, depth };
        rated.dirs.iter().any(Option::is_some).then_some(rated)
    }
    /// With another thread of the job.
    pub fn add(&mut self, other: &Rated) {
        for (to, from) in self.dirs.iter_mut().zip(&other.dirs) {
            match (to.as_mut(), from) {
                (Some(to), Some(from)) => {
                    to.asked += from.asked;
                    to.reached += from.reached;
                    to.reported += from.reported;
                    to.paced += from.paced;
                    to.ios += from.ios;
                }
                (None, Some(_)) => *to = *from,
                _ => {}
            }
        }
        self.latency += other.latency;
        self.time += other.time;
        self.paused += other.paused;
        let (to, from) = (&mut self.held_up, other.held_up);
        to.by_depth += from.by_depth;
        to.by_drain += from.by_drain;
        to.late_us += from.late_us;
        for (to, from) in self.why.iter_mut().zip(&other.why) {
            if to.is_none() {
                to.clone_from(from);
            }
        }
    }
    /// What is to be done in a direction, and what was.
    fn told(&self, d: usize, dir: &RatedDir, reached: f64) -> String {
        let (by, unit) = if dir.bytes { (1e6, "MB/s") } else { (1.0, "I/Os a second") };
        format!(
            "{:.*} {unit} are to be {}, and {:.*} were",
            usize::from(dir.bytes),
            dir.asked / by,
            ["read", "written", "trimmed"][d],
            usize::from(dir.bytes),
            reached / by
        )
    }
    /// Too slow or too fast.
    pub fn warning(&self) -> Option<String> {
        self.slower().or_else(|| self.faster())
    }
    /// The direction that is furthest behind. None waits for another's rate: fio takes an I/O that is due in place of
    /// one that is not.
    fn slower(&self) -> Option<String> {
        let share = |dir: &RatedDir| dir.reached / dir.asked;
        let behind = |dir: &RatedDir| share(dir) < 1.0 - apart(self.drawn, dir.ios);
        let all = self.dirs.iter().enumerate().filter_map(|(d, dir)| Some((d, dir.as_ref()?)));
        let (d, dir) = all
            .filter(|(_, dir)| behind(dir))
            .min_by(|(_, a), (_, b)| share(a).total_cmp(&share(b)))?;
        // Pauses that take half of what is missing, or more.
        let paused = self.paused / self.time.max(1.0);
        let why = match paused >= (1.0 - share(dir)) / 2.0 {
            true => format!(
                "It was in the pauses of thinktime for {:.1}% of its time, and its latency is that of the I/Os between \
                 them. Without thinktime, or with a shorter one, the rate alone paces it",
                100.0 * paused.min(1.0)
            ),
            false => "Its latency is that of as many I/Os in flight as it may have, not of the rate asked for".into(),
        };
        Some(format!(
            "job '{}' did not reach its rate: {}. {why}",
            self.name,
            // As fio cuts it.
            self.told(d, dir, if dir.bytes { dir.reported } else { dir.reported.floor() })
        ))
    }
    /// Arrivals were drawn as those of an open system, and many of them waited for I/Os in flight, outside of the
    /// machine. Where the rate was not reached that tells it already.
    pub fn not_open(&self) -> Option<String> {
        let HeldUp { by_depth, by_drain, late_us } = self.held_up;
        let late = late_us as f64 * 1e3;
        if !self.drawn || late < APART * self.latency || self.slower().is_some() {
            return None;
        }
        let ios: u64 = self.dirs.iter().flatten().map(|dir| dir.ios).sum();
        let (held, all) = (by_depth + by_drain, ios.max(1) as f64);
        let percent = |n: u64| 100.0 * n as f64 / all;
        let (mut why, mut remedy) = (Vec::new(), Vec::new());
        if by_depth > 0 {
            why.push(format!("{:.1}% as iodepth ({}) was full", percent(by_depth), self.depth));
            remedy.push("a larger iodepth of an asynchronous ioengine lets more arrive");
        }
        if by_drain > 0 {
            let part = percent(by_drain);
            why.push(format!("{part:.1}% as fio lets what is in flight end before it sleeps until the next is due"));
            remedy.push("more jobs (numjobs) with a part of the rate each wait less for one another, and a trace \
                that is replayed by its times does not");
        }
        Some(format!(
            "job '{}' is no open system, as rate_process=poisson may be meant: {held} of its {ios} I/Os ({:.1}%) \
             were due while it waited for others, {}, and went out {} late in the mean. Latency counts from the \
             issue, {} in the mean; from the times that were drawn it is {}. To come closer, {}",
            self.name,
            percent(held),
            why.join(", "),
            told(late / held.max(1) as f64),
            told(self.latency / all),
            told((self.latency + late) / all),
            remedy.join("; "),
        ))
    }
    fn faster(&self) -> Option<String> {
        let above = |dir: &RatedDir| dir.paced > dir.asked * (1.0 + apart(self.drawn, dir.ios));
        let mut all = self.dirs.iter().enumerate().filter_map(|(d, dir)| Some((d, dir.as_ref()?)));
        let (d, dir) = all.find(|(_, dir)| above(dir))?;
        let why = self.why[d].as_ref().map_or(String::new(), |why| format!(": {why}"));
        let (name, what) = (&self.name, self.told(d, dir, dir.paced));
        Some(format!(
            "job '{name}' went above its rate: {what}. Its latency is that of the higher rate{why}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::{ThreadPlan, ThreadStats};
    use wordline_app::{PARTS, TurnaroundInterval};

    fn thread(latency: u64, behind: &[(u64, u64)]) -> ThreadResult {
        let mut thread = ThreadStats::new(1, &ThreadPlan::default()).result;
        let mut lateness = Lateness::default();
        for &(ns, n) in behind {
            for _ in 0..n {
                thread.dirs[0].lat.add(latency);
                lateness.behind.add(ns);
                lateness.own.add(ns);
                lateness.latency[0].add(latency + ns);
            }
        }
        thread.lateness = Some(lateness);
        thread
    }

    #[test]
    fn what_is_late_by_less_than_a_latency_is_not_told() {
        assert_eq!(late(&thread(10_000, &[(1_000, 900), (9_000, 100)])), None, "the core was busy");
        assert_eq!(late(&thread(10_000, &[(0, 995), (20_000, 5)])), None, "a few, and by little");
        let many = late(&thread(10_000, &[(0, 980), (20_000, 20)])).expect("2 % of the requests");
        assert!(many.contains("20 of 1000 requests (2.0%)"), "{many}");
        let much = late(&thread(10_000, &[(0, 999), (5_000_000, 1)])).expect("half of the latency");
        assert!(
            much.contains("1 of 1000") && much.contains("5.0") && much.contains(", 99.9% "),
            "{much}"
        );
        assert_eq!(late(&ThreadStats::new(1, &ThreadPlan::default()).result), None, "no trace");
    }

    /// Syncs have no latency among those of the directions.
    #[test]
    fn among_syncs_alone_what_is_late_by_little_is_not_told() {
        let syncs = |behind| {
            let mut thread = thread(0, &[(behind, 10)]);
            thread.dirs[0].lat = Histogram::new();
            thread.lateness.as_mut().expect("a trace").latency[0] = Histogram::new();
            late(&thread)
        };
        assert_eq!(syncs(2_000), None);
        let told = syncs(3_000_000).expect("all are late");
        assert!(
            told.contains("10 of 10 requests (100.0%)") && told.contains("more than 100us"),
            "{told}"
        );
        assert!(!told.contains("Latency counts"), "there is none: {told}");
    }

    /// Latency that grows with the load does not excuse what comes late by the same load.
    #[test]
    fn a_slower_machine_is_late_as_well() {
        // 130 ms of a trace: two thirds of its requests are late by 150 ms on each machine.
        for latency in [100_000, 50_000_000, 1_200_000_000, 5_000_000_000] {
            let mut slow = thread(latency, &[(1_000, 300), (150_000_000, 700)]);
            let lateness = slow.lateness.as_mut().expect("a trace");
            lateness.course.length = Span::from_ms(130);
            let told = late(&slow).expect("700 are late");
            assert!(told.contains("700 of 1000 requests"), "{latency}: {told}");
        }
        // Requests that are rare, of a machine that is as slow: a tick of the processor is no lateness.
        let mut rare = thread(5_000_000, &[(400_000, 1_000)]);
        rare.lateness.as_mut().expect("a trace").course.length = Span::from_secs(100);
        assert_eq!(late(&rare), None);
    }

    #[test]
    fn what_piles_up_to_the_end_of_a_trace_is_told() {
        // A request each millisecond, which takes so long.
        let run = |service: &dyn Fn(u64) -> u64| {
            let mut p = Punctuality::default();
            let mut back: Vec<(u64, u64)> = Vec::new();
            for i in 0..1_000u64 {
                let now = i * 1_000_000;
                back.sort_unstable();
                for &(at, offset) in back.iter().filter(|(at, _)| *at <= now) {
                    p.back((offset, 512, Ddir::Write), true, Span(1), Time(at));
                }
                back.retain(|(at, _)| *at > now);
                p.sent((i * 512, 512, Ddir::Write), Time(now), Span(0));
                back.push((now + service(i), i * 512));
            }
            back.sort_unstable();
            for (at, offset) in back {
                p.back((offset, 512, Ddir::Write), true, Span(1), Time(at));
            }
            let mut thread = ThreadStats::new(1, &ThreadPlan::default()).result;
            thread.lateness = p.result();
            thread
        };
        let ms = |n: u64| n * 1_000_000;
        // It serves one in two.
        let told = piled_up(&run(&|i| ms(1 + i))).expect("a pile");
        assert!(told.contains("The longer the trace, the longer its latencies"), "{told}");
        assert!(told.contains("it took 1s more"), "{told}");
        assert_eq!(piled_up(&run(&|_| ms(200))), None, "200 in flight all the time");
        assert_eq!(
            piled_up(&run(&|i| ms(if i > 900 { 60 } else { 1 }))),
            None,
            "a burst at the end"
        );
        assert_eq!(piled_up(&run(&|_| 80_000)), None);
        let short = run(&|i| ms(1 + i)).lateness.expect("a trace").course;
        assert!(short.in_flight[2] > 4.0 * short.in_flight[0], "{short:?}");
    }

    #[test]
    fn equal_requests_in_flight_come_back_in_order() {
        let mut p = Punctuality::default();
        let io = (4096, 512, Ddir::Read);
        p.sent(io, Time(10), Span(0));
        p.sent(io, Time(20), Span(0));
        p.back(io, true, Span(20), Time(30));
        p.back(io, true, Span(25), Time(50));
        p.back(io, true, Span(1), Time(60));
        let seen = p.result().expect("two requests");
        assert_eq!((seen.behind.len(), seen.behind.max()), (2, 5));
        let latency = &seen.latency[0];
        assert_eq!((latency.len(), latency.min(), latency.max()), (2, 20, 30));
        assert!(p.due.is_empty());
    }

    /// What could not be sorted is measured from its own time, and is no lateness of the machine's.
    #[test]
    fn displaced_requests_are_late_by_as_much() {
        let mut p = Punctuality::default();
        let io = |i: u64| (i * 4096, 512, Ddir::Read);
        p.sent(io(0), Time(1_000), Span(0));
        p.back(io(0), true, Span(20), Time(1_030));
        p.sent(io(1), Time(1_000), Span(900));
        // It had to wait for that one.
        p.sent(io(2), Time(1_010), Span(0));
        p.back(io(1), true, Span(20), Time(1_060));
        p.back(io(2), true, Span(20), Time(1_080));
        p.waits();
        p.sent(io(3), Time(2_000), Span(0));
        p.back(io(3), true, Span(20), Time(2_025));
        let seen = p.result().expect("four requests");
        assert_eq!((seen.behind.len(), seen.behind.max()), (4, 940));
        assert_eq!((seen.displaced.len(), seen.displaced.max()), (1, 900));
        assert_eq!((seen.own.len(), seen.own.max()), (2, 10));
        assert_eq!(seen.latency[0].max(), 960);
    }

    #[test]
    fn a_rate_counts_as_reached_if_each_direction_reaches_its_own() {
        let rated = |dirs, drawn| Rated {
            name: "a".into(),
            drawn,
            why: Default::default(),
            dirs,
            held_up: HeldUp::default(),
            time: 1e9,
            paused: 0.0,
            latency: 0.0,
            depth: 1,
        };
        let at = |reached| {
            let (asked, reported, paced) = (1e3, reached - 1.0, reached);
            Some(RatedDir { asked, reached, reported, paced, ios: 400, bytes: false })
        };
        let (slow, kept) = (at(900.0), at(960.0));
        let text = rated([slow, None, None], false).warning().expect("a tenth is missing");
        assert!(text.contains("1000 I/Os a second are to be read, and 899 were"), "{text}");
        assert_eq!(rated([kept, None, None], false).warning(), None);
        let text = rated([kept, slow, None], false).warning().expect("of the writes");
        assert!(text.contains("1000 I/Os a second are to be written, and 899 were"), "{text}");
        let text = rated([at(800.0), slow, None], false).warning().expect("of both");
        assert!(text.contains("to be read, and 799 were"), "the furthest behind: {text}");
        assert!(text.contains("as many I/Os in flight as it may have"), "{text}");
        let thinks = |paused| Rated { paused, ..rated([at(800.0), None, None], false) }.warning();
        let text = thinks(1.5e8).expect("a fifth is missing, most of it in pauses");
        assert!(text.contains("in the pauses of thinktime for 15.0% of its time"), "{text}");
        let text = thinks(5e7).expect("pauses of a twentieth");
        assert!(text.contains("as many I/Os in flight as it may have"), "{text}");
        assert_eq!(rated([slow, None, None], true).warning(), None, "by chance");
    }
    #[test]
    fn a_rate_that_is_exceeded_is_told_with_the_reason() {
        let job = |options: &str| {
            let args: Vec<String> = options.split(' ').map(String::from).collect();
            let options = wordline_fio::ParseOptions::default();
            let plan = wordline_fio::parse_args(&args, &options, &mut wordline_fio::NoEnv);
            plan.expect("a plan").jobs[0].clone()
        };
        let run = |job: &Job, ios: u64, ns: u64| {
            let mut thread = ThreadStats::new(1, &ThreadPlan::default()).result;
            let dir = &mut thread.dirs[0];
            (dir.total_ios, dir.io_bytes, dir.runtime) = (ios, ios * 4096, Span(ns));
            let times = [Span(ns); 3];
            let rated = Rated::new(job, &thread, times, HeldUp::default(), Span(0));
            rated.expect("a rate").warning()
        };
        let poisson = "--name=a --rw=randread --rate_iops=300000 --rate_process=poisson";
        let told = run(&job(poisson), 37_501, 100_000_000).expect("a quarter more");
        for words in [
            "300000 I/Os a second are to be read, and 375000 were",
            "pauses of 3 us in the mean, where the rate asks for 3.33 us",
            "2.53 in the mean. rate_process=linear",
        ] {
            assert!(told.contains(words), "{words}: {told}");
        }
        assert_eq!(run(&job(poisson), 31_000, 100_000_000), None, "3 % above");
        assert_eq!(run(&job(poisson), 33, 100_000), None, "a tenth above, by chance");
        // Eleven I/Os have ten pauses.
        let linear = job("--name=a --rw=randread --rate_iops=1000");
        assert_eq!(run(&linear, 11, 10_000_000), None);
        let told = run(&linear, 12, 10_000_000).expect("a tenth above, not by chance");
        assert!(told.ends_with("that of the higher rate"), "{told}");
    }

    #[test]
    fn a_program_that_gets_slower_or_faster_is_told() {
        let run = |counts: &[u64]| {
            let interval = |(i, &count): (usize, &u64)| TurnaroundInterval {
                end_ns: (i as u64 + 1) * 1_000_000,
                count,
                mean_ns: 0.0,
                p99_ns: 0,
                max_ns: 0,
            };
            drifted(&Turnaround {
                program: "p".into(),
                operation: "all",
                total: Histogram::new(),
                mean_ns: [0.0; PARTS],
                at: Vec::new(),
                over_time: counts.iter().enumerate().map(interval).collect(),
            })
        };
        let level = [50; 11];
        assert_eq!(run(&level), None);
        let mut slower = level;
        (1..5).for_each(|i| slower[i] = 100);
        let told = run(&slower).expect("half as fast in the end");
        assert!(told.contains("'p' did 100000 operations a second in the first third"), "{told}");
        assert!(told.contains("and 50000 in the last"), "{told}");
        slower.reverse();
        assert!(run(&slower).expect("twice as fast").contains("did 50000"), "faster");
        let ends = [0, 50, 50, 50, 50, 50, 50, 50, 50, 50, 9];
        assert_eq!(run(&ends), None, "the first and the last interval are not whole");
        assert_eq!(run(&[1, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1]), None, "by chance");
        assert_eq!(run(&[50, 100, 50, 20]), None, "too short to tell");
        assert_eq!(run(&[]), None);
    }

    #[test]
    fn a_load_that_is_not_served_is_told() {
        let load = |begun, ms: u64, behind| Load {
            section: "kv",
            asked: 1e4,
            begun,
            last: Time(ms * 1_000_000),
            behind: Span::from_ms(behind),
        };
        let told = overloaded("kv-update", false, &load(5_000, 1_000, 500)).expect("half of it");
        assert!(
            told.contains("10000 requests a second arrive (app.kv.load), and 5000 were"),
            "{told}"
        );
        assert!(told.contains("had waited 500"), "{told}");
        assert_eq!(overloaded("kv", true, &load(9_800, 1_000, 1)), None);
        assert_eq!(overloaded("kv", true, &load(90, 10, 1)), None, "by chance");
        assert_eq!(overloaded("kv", true, &load(0, 0, 0)), None, "it has not begun");
    }
}
