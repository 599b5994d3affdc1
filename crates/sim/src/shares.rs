//! Of what jobs write to a drive and trim there, the share of each. It is known where each has a rate that the drive can
//! serve, or ends by what it has written. Otherwise it is estimated: the I/Os in flight go through the drive in
//! turn, so that each of a job's has the same service, and a rate is a bound on that.
//!
//! Jobs that do not all run at the same time share what is written in a whole run: each stretch of it, in which the
//! same jobs run, counts by its length.

use wordline_base::{Ddir, Span};
use wordline_fio::Job;
use wordline_fio::job::BsSplit;

const READ: usize = Ddir::Read as usize;
const WRITE: usize = Ddir::Write as usize;
const TRIM: usize = Ddir::Trim as usize;

/// How fast a drive is, for shares that hang on it.
#[derive(Clone, Copy)]
pub struct Speeds {
    /// Bytes a second that users can write where nothing is collected.
    pub fresh: f64,
    /// And at random on a full drive that was aged.
    pub aged: f64,
    /// What is collected then: write amplification with so many physical sectors for each one in use.
    pub amplification: fn(f64) -> f64,
    /// Physical sectors for each of users'.
    pub physical: f64,
    /// What a read takes on a drive that always programs.
    pub read: Span,
    /// What a command takes that waits for no flash.
    pub trim: Span,
}

impl Speeds {
    /// All of it as text.
    pub fn key(&self) -> String {
        let Speeds { fresh, aged, physical, read, trim, .. } = self;
        format!("{fresh} {aged} {physical} {read} {trim}\n")
    }
    /// Bytes a second that can be written with this share of the sectors in use. The time of a sector grows with
    /// what is moved for it.
    fn writes(&self, random: bool, in_use: f64) -> f64 {
        let full = (self.amplification)(self.physical) - 1.0;
        let moved = (self.amplification)(self.physical / in_use.clamp(0.01, 1.0)) - 1.0;
        let (fresh, aged) = (1.0 / self.fresh, 1.0 / self.aged);
        let part = if random && full > 0.0 { moved / full } else { 0.0 };
        1.0 / (fresh + part * (aged - fresh).max(0.0))
    }
}

/// What a thread asks of a drive.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Claim {
    /// I/Os in flight at most.
    slots: f64,
    /// Of its I/Os those that read, that write and that trim.
    mix: [f64; 3],
    /// Bytes of each, in the mean.
    bytes: [f64; 3],
    /// I/Os a second that it may do; none: as fast as it can.
    limit: Option<f64>,
    /// Seconds of a pause for each I/O, and the part of its time that it has none.
    pause: f64,
    awake: f64,
    /// Offsets are drawn at random.
    random: bool,
    /// It ends by what it has written.
    amount: Option<Amount>,
    /// It begins when others have ended.
    waits: bool,
    times: Times,
}

/// When a job runs.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Times {
    /// Seconds before it begins, and how long it may go on.
    start: f64,
    length: Option<f64>,
    /// It is over with its amount, if that comes first.
    amount: Option<Amount>,
    /// With it all that write are over.
    ends_all: bool,
}

/// What a job's amount depends on beside its files.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Amount {
    number_ios: u64,
    loops: u32,
}

fn mean_bytes(job: &Job, ddir: usize) -> f64 {
    // With this option the first is that of I/O in order and the second that of I/O at random.
    let ddir = if job.bs_is_seq_rand { usize::from(job.rw.is_random()) } else { ddir };
    let split: &[BsSplit] = &job.bssplit[ddir];
    let percent: u32 = split.iter().map(|part| part.percent).sum();
    if percent > 0 {
        let sum: f64 = split.iter().map(|part| part.bs as f64 * f64::from(part.percent)).sum();
        return sum / f64::from(percent);
    }
    (job.min_bs[ddir] + job.max_bs[ddir]) as f64 / 2.0
}

impl Claim {
    pub fn of(job: &Job) -> Claim {
        let percent = |ddir: usize| f64::from(job.rwmix[ddir]) / 100.0;
        let mix = match (job.rw.is_mixed(), job.rw.writes(), job.rw.trims()) {
            (true, ..) => [percent(READ), percent(WRITE), 0.0],
            (_, true, true) => [0.0, 0.5, 0.5],
            (_, _, true) => [0.0, 0.0, 1.0],
            (_, true, _) => [0.0, 1.0, 0.0],
            _ => [1.0, 0.0, 0.0],
        };
        let bytes = [READ, WRITE, TRIM].map(|ddir| mean_bytes(job, ddir));
        // Of a mix the writes' is the rate of both.
        let reads = rate_of(job, READ).filter(|_| mix[READ] == 1.0 && !job.rw.is_mixed());
        let rates = [reads, write_rate(job), rate_of(job, TRIM)];
        let limits = (0..3).filter(|&d| mix[d] > 0.0).filter_map(|d| {
            let ios = rates[d]? as f64 / bytes[d].max(1.0);
            Some(ios / mix[d])
        });
        let limit = limits.reduce(f64::min);
        let pause = job.thinktime.as_secs_f64();
        let by_time = job.thinktime_iotime > Span::ZERO;
        let by_count = !by_time || job.thinktime_blocks_given;
        let io_time = job.thinktime_iotime.as_secs_f64();
        let is_sync = job.ioengine.is_sync(job.iodepth);
        let by_amount = !job.time_based && job.runtime == Span::ZERO && !job.exitall;
        let amount = Amount { number_ios: job.number_ios, loops: job.loops };
        Claim {
            slots: if is_sync { 1.0 } else { f64::from(job.iodepth.max(1)) },
            mix,
            bytes,
            limit,
            pause: if by_count { pause / f64::from(job.thinktime_blocks.max(1)) } else { 0.0 },
            awake: if by_time { io_time / (io_time + pause) } else { 1.0 },
            random: job.rw.is_random(),
            amount: by_amount.then_some(amount),
            waits: job.stonewall || job.wait_for.is_some(),
            times: Times {
                start: (job.startdelay.0.as_secs_f64() + job.startdelay.1.as_secs_f64()) / 2.0,
                length: (job.runtime > Span::ZERO)
                    .then(|| (job.runtime + job.ramp_time).as_secs_f64()),
                amount: (!job.time_based).then_some(amount),
                ends_all: job.exitall,
            },
        }
    }
    /// The same where `exitall` with the job's `exit_what` ends all that write, or where it does not.
    pub fn ending_all(self, ends_all: bool) -> Claim {
        Claim { times: Times { ends_all, ..self.times }, ..self }
    }
    /// The same of one that replays a trace, which writes so many bytes at a time, and so many a second if its times
    /// count.
    pub fn of_trace(self, bytes: f64, limit: Option<f64>) -> Claim {
        let limit = limit.map(|limit| limit / bytes.max(1.0));
        Claim { mix: [0.0, 1.0, 0.0], bytes: [bytes; 3], limit, ..self }
    }
    pub fn ends_by_amount(&self) -> bool {
        self.amount.is_some()
    }
    /// Bytes of an I/O of these kinds, in the mean of all its I/Os.
    fn each(&self, kinds: &[usize]) -> f64 {
        kinds.iter().map(|&d| self.mix[d] * self.bytes[d]).sum()
    }
    /// Bytes that it writes and trims in all, where a pass has so many.
    pub fn total(&self, pass: u64) -> f64 {
        self.all(pass) * self.each(&[WRITE, TRIM]) / self.each(&[READ, WRITE, TRIM]).max(1.0)
    }
    /// The same with what it reads.
    fn all(&self, pass: u64) -> f64 {
        let each = self.each(&[READ, WRITE, TRIM]);
        let (loops, most) = self.times.amount.map_or((1, 0), |a| (a.loops, a.number_ios));
        let passes = f64::from(loops.max(1));
        let all = match most {
            0 => pass as f64,
            most => (pass as f64).min(most as f64 * each),
        };
        passes * all
    }
    /// Seconds of all its I/Os in flight for one of them, where a write takes so long.
    fn cycle(&self, speeds: &Speeds, write: f64) -> f64 {
        let times = [speeds.read.as_secs_f64(), write, speeds.trim.as_secs_f64()];
        let each: f64 = self.mix.iter().zip(times).map(|(part, time)| part * time).sum();
        (self.pause + each / self.slots) / self.awake.max(1e-9)
    }
    /// I/Os a second that it does, where a write takes so long.
    fn rate(&self, speeds: &Speeds, write: f64) -> f64 {
        let free = 1.0 / self.cycle(speeds, write).max(1e-12);
        self.limit.map_or(free, |limit| limit.min(free))
    }
    /// The same, whenever it runs.
    fn at_any_time(&self) -> Claim {
        Claim { times: Times::default(), ..self.clone() }
    }
    /// It writes whenever it can.
    fn is_greedy(&self) -> bool {
        self.mix[WRITE] == 1.0
            && self.limit.is_none()
            && self.pause == 0.0
            && self.awake == 1.0
            && !self.waits
    }
}

/// A claim on a drive, of which it has this part of the bytes.
pub(crate) struct Part {
    pub claim: Claim,
    pub part: f64,
    /// Bytes that are written and trimmed in all.
    pub total: f64,
}

/// A job that writes nothing, and whose end is that of all others (`exitall`).
pub(crate) struct Stop {
    claim: Claim,
    /// Bytes that it reads in all, where it does nothing else.
    reads: Option<f64>,
}

impl Stop {
    /// Of a job that reads, where a pass has so many bytes, or of one that reads no drive.
    pub fn of(job: &Job, pass: Option<u64>) -> Stop {
        let claim = Claim::of(job);
        let reads = pass.filter(|_| claim.times.amount.is_some()).map(|pass| claim.all(pass));
        Stop { claim, reads }
    }
    /// Seconds from the begin of the run to its end.
    fn end(&self, speeds: &Speeds) -> f64 {
        let Times { start, length, .. } = self.claim.times;
        let a_second = self.claim.rate(speeds, 0.0) * self.claim.bytes[READ];
        let reads = self.reads.map_or(f64::INFINITY, |bytes| bytes / a_second.max(1e-9));
        start + length.unwrap_or(f64::INFINITY).min(reads)
    }
}

/// Whose writes a drive is aged with, and how many of them.
#[derive(Clone, PartialEq, Debug)]
pub struct Shares {
    /// In the order of the writers.
    pub parts: Vec<f64>,
    /// They are not known.
    pub estimated: bool,
    /// The writers do not all run at the same time.
    pub apart: bool,
}

/// Whether the claims are the same, but for their files.
fn are_equal<'a>(mut claims: impl Iterator<Item = &'a Claim>) -> bool {
    let first = claims.next().map(Claim::at_any_time);
    claims.all(|claim| Some(claim.at_any_time()) == first)
}
/// Whether all run at the same time, as far as their options say.
fn are_together<'a>(claims: impl Iterator<Item = &'a Claim>) -> bool {
    let mut spans = claims.map(|claim| (claim.times.start, claim.times.length));
    let first = spans.next();
    spans.all(|span| Some(span) == first)
}

/// Whether one of them may be over by its amount, before its time or where it has none.
fn may_end<'a>(mut claims: impl Iterator<Item = &'a Claim>) -> bool {
    claims.any(|claim| claim.times.amount.is_some())
}

/// The share of each, which sum up to 1. The `stops` write nothing here.
pub(crate) fn shares(parts: &[Part], stops: &[Stop], speeds: &dyn Fn() -> Speeds) -> Shares {
    let Rates { rates, estimated, apart } = rates(parts, stops, speeds);
    let sum: f64 = rates.iter().sum();
    let alike = 1.0 / parts.len().max(1) as f64;
    let share = |rate: &f64| if sum > 0.0 { rate / sum } else { alike };
    Shares { parts: rates.iter().map(share).collect(), estimated, apart }
}

/// What each writes and trims, in any unit.
struct Rates {
    rates: Vec<f64>,
    estimated: bool,
    apart: bool,
}

fn rates(parts: &[Part], stops: &[Stop], speeds: &dyn Fn() -> Speeds) -> Rates {
    let known = |of: &dyn Fn(&Part) -> f64, estimated| Rates {
        rates: parts.iter().map(of).collect(),
        estimated,
        apart: false,
    };
    let claims = || parts.iter().map(|p| &p.claim);
    // When one that waits for others ends is not known.
    let mut stops = stops.iter().filter(|stop| !stop.claim.waits).peekable();
    if stops.peek().is_none() && claims().all(Claim::ends_by_amount) {
        return known(&|p| p.part * p.total, false);
    }
    let together = are_together(claims());
    let always = together && !may_end(claims());
    if parts.len() < 2 || always && are_equal(claims()) {
        return known(&|p| p.part, false);
    }
    // They do not share the drive, and how long each goes on is not known.
    if claims().any(|claim| claim.waits) {
        return known(&|p| p.part, true);
    }
    if !always {
        let speeds = speeds();
        let stop = stops.map(|stop| stop.end(&speeds)).fold(f64::INFINITY, f64::min);
        let run = in_a_run(parts, stop, &speeds);
        if !together || run.apart {
            return Rates { apart: true, ..run };
        }
    }
    if are_equal(claims()) {
        return known(&|p| p.part, false);
    }
    if claims().all(Claim::is_greedy) {
        return known(&|p| p.part * p.claim.slots * p.claim.bytes[WRITE], true);
    }
    let speeds = speeds();
    let (rates, estimated) = at_once(&parts.iter().collect::<Vec<_>>(), &speeds);
    Rates { rates, estimated, apart: false }
}

/// What each writes and trims in a whole run: stretch by stretch, from one to the next at which a job begins or ends.
/// At `stop` seconds all end.
fn in_a_run(parts: &[Part], stop: f64, speeds: &Speeds) -> Rates {
    let mut done = vec![0.0; parts.len()];
    let mut over = vec![false; parts.len()];
    let (mut now, mut estimated) = (0.0, false);
    // All of them run from the first stretch to the last.
    let mut always = true;
    let end = |p: &Part| p.claim.times.start + p.claim.times.length.unwrap_or(f64::INFINITY);
    let amount = |p: &Part| match p.claim.times.amount {
        Some(_) => p.part * p.total,
        None => f64::INFINITY,
    };
    loop {
        let runs = |&i: &usize| !over[i] && parts[i].claim.times.start <= now;
        let here: Vec<usize> = (0..parts.len()).filter(runs).collect();
        let starts = parts.iter().map(|p| p.claim.times.start).filter(|start| *start > now);
        let next = starts.fold(f64::INFINITY, f64::min);
        if here.is_empty() && next == f64::INFINITY {
            break;
        }
        let running: Vec<&Part> = here.iter().map(|&i| &parts[i]).collect();
        let (rates, guessed) = match running.is_empty() {
            true => (Vec::new(), false),
            false => at_once(&running, speeds),
        };
        estimated |= guessed;
        always &= here.len() == parts.len();
        let ends = |(&i, rate): (&usize, &f64)| {
            let by_amount = now + (amount(&parts[i]) - done[i]) / rate.max(1e-9);
            end(&parts[i]).min(by_amount)
        };
        let ends: Vec<f64> = here.iter().zip(&rates).map(ends).collect();
        let until = ends.iter().copied().fold(next, f64::min).min(stop);
        if until == f64::INFINITY {
            // It goes on like this: what was before counts for nothing.
            here.iter().zip(&rates).for_each(|(&i, rate)| done[i] = *rate);
            (0..parts.len()).filter(|i| !here.contains(i)).for_each(|i| done[i] = 0.0);
            break;
        }
        let mut all_end = false;
        for ((&i, rate), ends) in here.iter().zip(&rates).zip(&ends) {
            done[i] += rate * (until - now);
            // By its own time, not by what is done: late in a run a small amount is less than the time's last digit.
            // What ends together does so but for the last digits.
            over[i] = *ends <= until * (1.0 + 1e-9);
            all_end |= over[i] && parts[i].claim.times.ends_all;
        }
        now = until;
        if all_end || now >= stop {
            break;
        }
    }
    Rates { rates: done, estimated, apart: !always }
}

/// Bytes a second that each writes and trims while all of them run, and whether that is estimated.
fn at_once(parts: &[&Part], speeds: &Speeds) -> (Vec<f64>, bool) {
    let random = parts.iter().any(|p| p.claim.random && p.claim.mix[WRITE] > 0.0);
    // Bytes of these kinds that are done at these rates.
    let sum = |ios: &[f64], kinds: &[usize], of: &dyn Fn(&Claim) -> bool| -> f64 {
        let all = parts.iter().zip(ios).filter(|(p, _)| of(&p.claim));
        all.map(|(p, ios)| p.part * ios * p.claim.each(kinds)).sum()
    };
    let written = |ios: &[f64]| sum(ios, &[WRITE], &|_| true);
    // Bytes that can be written: what is trimmed and not written again at once is in use no more.
    let most = |ios: &[f64]| {
        let trimmed = sum(ios, &[TRIM], &|claim| claim.mix[WRITE] == 0.0);
        let written = written(ios);
        speeds.writes(random, if trimmed > 0.0 { written / (written + trimmed) } else { 1.0 })
    };
    let both = |ios: Vec<f64>| -> Vec<f64> {
        let each = |(p, ios): (&&Part, f64)| p.part * ios * p.claim.each(&[WRITE, TRIM]);
        parts.iter().zip(ios).map(each).collect()
    };
    let limits: Option<Vec<f64>> = parts.iter().map(|p| p.claim.limit).collect();
    if let Some(limits) = limits.filter(|limits| written(limits) <= most(limits)) {
        return (both(limits), false);
    }
    // The longer a write takes the less is written: it takes as long as leaves what the drive can serve.
    let ios =
        |write: f64| -> Vec<f64> { parts.iter().map(|p| p.claim.rate(speeds, write)).collect() };
    let (mut short, mut long) = (1e-9, 1e6);
    for _ in 0..200 {
        let middle = f64::sqrt(short * long);
        let found = ios(middle);
        match written(&found) > most(&found) {
            true => short = middle,
            false => long = middle,
        }
    }
    (both(ios(long)), true)
}

/// What decides the shares of the jobs' threads beside what they write, as text; and whether the speeds of the
/// drive have a part in it. Nothing where it is the same for all.
/// Each stop comes with what decides how much it reads.
pub(crate) fn key(claims: &[Claim], stops: &[(Stop, String)], traces: bool) -> (String, bool) {
    let by_amount = match stops.is_empty() {
        true => claims.iter().filter(|claim| claim.ends_by_amount()).count(),
        false => 0,
    };
    let together = are_together(claims.iter()) && (by_amount > 0 || !may_end(claims.iter()));
    if claims.len() < 2 || by_amount == 0 && together && are_equal(claims.iter()) && !traces {
        return (String::new(), false);
    }
    // Of several drives each may have some of the jobs alone, and those by their amounts.
    let amounts: Vec<_> = claims.iter().map(|claim| claim.amount).collect();
    if by_amount == claims.len() && !traces {
        let alike = amounts.iter().all(|amount| *amount == amounts[0]);
        let whole = alike && amounts[0].is_none_or(|amount| amount.number_ios == 0);
        let text = if whole { String::new() } else { format!("{amounts:?}") };
        return (format!("by amount {text}\n"), false);
    }
    if together && claims.iter().all(Claim::is_greedy) && !traces {
        let slots: Vec<f64> = claims.iter().map(|c| c.slots * c.bytes[WRITE]).collect();
        let least = slots.iter().copied().fold(f64::INFINITY, f64::min);
        let parts: Vec<f64> = slots.iter().map(|s| s / least).collect();
        return (format!("by slots {parts:?} {amounts:?}\n"), false);
    }
    // How long they run together has no part in it.
    if together && stops.is_empty() {
        let alike: Vec<Claim> = claims.iter().map(Claim::at_any_time).collect();
        return (format!("by speed {alike:?}\n"), true);
    }
    let stops: Vec<_> = stops.iter().map(|(stop, reads)| (&stop.claim, reads)).collect();
    (format!("by speed {claims:?} until {stops:?}\n"), true)
}

/// Bytes a second that a job's own option lets it do of a kind.
fn rate_of(job: &Job, ddir: usize) -> Option<u64> {
    match (job.rate[ddir], job.rate_iops[ddir]) {
        (0, 0) => None,
        (0, iops) => Some(iops.saturating_mul(job.min_bs[ddir])),
        (bytes, _) => Some(bytes),
    }
}

/// Bytes a second that a job may write; none: as fast as it can. Writes of a mix that are not limited
/// themselves come with the reads.
pub(crate) fn write_rate(job: &Job) -> Option<u64> {
    let limit = |ddir: usize| rate_of(job, ddir);
    let (read, write) = (Ddir::Read as usize, Ddir::Write as usize);
    // Each write comes behind a trim.
    let own = limit(write).or_else(|| limit(Ddir::Trim as usize).filter(|_| job.rw.is_trimwrite()));
    match (own, limit(read)) {
        (None, Some(reads)) if job.rw.is_mixed() && job.rwmix[read] > 0 => {
            let parts = u128::from(reads) * u128::from(job.rwmix[write]);
            Some((parts / u128::from(job.rwmix[read])) as u64)
        }
        (limit, _) => limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_fio::{NoEnv, ParseOptions, parse_file};

    /// 10,000 blocks of 4 KiB a second at random.
    fn speeds() -> Speeds {
        Speeds {
            fresh: 102.4e6,
            aged: 40.96e6,
            amplification: |physical| 1.0 / (1.0 - 1.0 / physical),
            physical: 1.25,
            read: Span::from_us(500),
            trim: Span::from_us(10),
        }
    }

    fn of(text: &str) -> Shares {
        of_passes(&format!("time_based\nruntime=9\n{text}"))
    }
    /// A pass has 40 MiB.
    fn of_passes(text: &str) -> Shares {
        let text = format!("[global]\nbs=4k\nioengine=libaio\n{text}");
        let plan = parse_file("job", &text, &ParseOptions::default(), &mut NoEnv).unwrap();
        let part = |job: &Job| {
            let claim = Claim::of(job);
            Part { total: claim.total(40 << 20), claim, part: 1.0 }
        };
        let writes = |job: &&Job| job.rw.writes() || job.rw.trims();
        let stops = plan.jobs.iter().filter(|job| !writes(job) && job.exitall);
        let stops: Vec<Stop> = stops.map(|job| Stop::of(job, Some(40 << 20))).collect();
        let parts: Vec<Part> = plan.jobs.iter().filter(writes).map(part).collect();
        shares(&parts, &stops, &speeds)
    }

    /// What reads alone writes nothing, and ends the others with itself.
    #[test]
    fn a_job_that_reads_ends_the_others() {
        // The second begins after two of the nine seconds.
        let jobs = "[a]\nrw=randwrite\n[b]\nrw=randwrite\nstartdelay=2\nruntime=7\n";
        for (reads, first) in [
            // Two seconds alone and 7 in halves.
            ("", 5.5 / 9.0),
            ("[r]\nrw=randread\nruntime=3\nexitall\n", 2.5 / 3.0),
            ("[r]\nrw=randread\nstartdelay=1\nruntime=2\nexitall\n", 2.5 / 3.0),
            ("[r]\nrw=randread\nruntime=3\n", 5.5 / 9.0),
            // Before the second begins.
            ("[r]\nrw=randread\nruntime=1\nexitall\n", 1.0),
            // 6000 reads of 500 us, and 4000 at 1000 a second.
            ("[r]\nrw=randread\ntime_based=0\nruntime=0\nnumber_ios=6000\nexitall\n", 2.5 / 3.0),
            (
                "[r]\nrw=randread\ntime_based=0\nruntime=0\nnumber_ios=4000\nrate_iops=1000\nexitall\n",
                3.0 / 4.0,
            ),
        ] {
            let shares = of(&format!("{jobs}{reads}"));
            assert!((shares.parts[0] - first).abs() < 1e-3, "{reads}: {shares:?}");
        }
        // Amounts that are not come to: with exitall the writer that is over first ends the other, too.
        let rated = "rw=randwrite\nrate_iops=1000\n";
        let amounts =
            format!("[a]\n{rated}number_ios=1000\n[b]\n{rated}number_ios=4000\nstartdelay=250ms\n");
        let reads =
            |runtime: &str| format!("[r]\nrw=read\ntime_based\nruntime={runtime}\nexitall\n");
        for (reads, first) in
            [(String::new(), 0.2), (reads("500ms"), 2.0 / 3.0), (reads("2"), 4.0 / 7.0)]
        {
            let shares = of_passes(&format!("{amounts}{reads}"));
            assert!((shares.parts[0] - first).abs() < 1e-3, "{reads}: {shares:?}");
        }
    }
    /// Without time_based a job is over when it has written all, though it has a time.
    #[test]
    fn a_job_with_a_time_may_be_over_before() {
        let rated = "rw=randwrite\nrate_iops=1000\n";
        // 1,000 and 9,000 in nine seconds.
        let some = of_passes(&format!("runtime=9\n[a]\n{rated}number_ios=1000\n[b]\n{rated}\n"));
        assert!((some.parts[0] - 0.1).abs() < 1e-3 && some.apart, "{some:?}");
        // Greedy ones of equal depth: 1,000 of both, and then the other's alone.
        let greedy = of_passes(
            "runtime=9\n[a]\nrw=randwrite\nnumber_ios=1000\n[b]\nrw=randwrite\nnumber_ios=9000\n",
        );
        assert!((greedy.parts[0] - 0.1).abs() < 1e-3 && greedy.apart, "{greedy:?}");
        // Neither comes to its end in time: all run all the time.
        for (jobs, first, estimated) in [
            ("[a]\nrw=randwrite\n[b]\nrw=randwrite\n", 0.5, false),
            ("[a]\nrw=randwrite\niodepth=3\n[b]\nrw=randwrite\n", 0.75, true),
            ("[a]\nrw=randwrite\nrate_iops=300\n[b]\nrw=randwrite\nrate_iops=900\n", 0.25, false),
        ] {
            let long = of_passes(&format!("runtime=100ms\n{jobs}"));
            assert!((long.parts[0] - first).abs() < 1e-3, "{jobs}: {long:?}");
            assert_eq!((long.estimated, long.apart), (estimated, false), "{jobs}");
        }
    }

    #[test]
    fn jobs_that_run_at_different_times_share_what_a_run_writes() {
        let rated = "rw=randwrite\nrate_iops=300\n";
        for (jobs, first, estimated) in [
            // 9 and 3 seconds at the same rate.
            (format!("[a]\n{rated}[b]\n{rated}runtime=3\n"), 0.75, false),
            (format!("[a]\n{rated}[b]\n{rated}runtime=3\nramp_time=2\n"), 9.0 / 14.0, false),
            // When it begins is nothing to what it writes at its rate.
            (format!("[a]\n{rated}[b]\n{rated}startdelay=5\n"), 0.5, false),
            // 6 seconds alone and 3 in halves, of 9 and of 3.
            ("[a]\nrw=randwrite\n[b]\nrw=randwrite\nruntime=3\n".into(), 7.5 / 9.0, true),
            // 5 seconds alone, 4 in halves, and then the other alone for 5.
            ("[a]\nrw=randwrite\n[b]\nrw=randwrite\nstartdelay=5\n".into(), 0.5, true),
            // They never meet.
            ("[a]\nrw=randwrite\n[b]\nrw=randwrite\nstartdelay=20\nruntime=3\n".into(), 0.75, true),
            // The first ends the other.
            (
                "[a]\nrw=randwrite\nruntime=3\nexitall\n[b]\nrw=randwrite\nstartdelay=2\n".into(),
                2.5 / 3.0,
                true,
            ),
        ] {
            let shares = of(&jobs);
            assert!((shares.parts[0] - first).abs() < 1e-3, "{jobs}: {shares:?}");
            assert_eq!((shares.estimated, shares.apart), (estimated, true), "{jobs}");
        }
        // One is over with its amount: 10,240 blocks at 5,000 a second beside another that goes on to 9 seconds.
        let shares = of_passes("[a]\nrw=randwrite\n[b]\nrw=randwrite\ntime_based\nruntime=9\n");
        assert!((shares.parts[0] - 10_240.0 / 90_000.0).abs() < 1e-3, "{shares:?}");
        assert!(!of("[a]\nrw=randwrite\n[b]\nrw=randwrite\niodepth=8\n").apart);
    }
    /// However late it is and however little is written, the next stretch is a later one.
    #[test]
    fn a_small_amount_late_in_a_run_is_done() {
        for delay in [100, 300, 600, 3600] {
            for ios in 1..60 {
                for rate in [1, 7, 1000] {
                    let shares = of_passes(&format!(
                        "[a]\nrw=randwrite\ntime_based\nruntime=9000\niodepth={rate}\n\
                         [b]\nrw=randwrite\nnumber_ios={ios}\nstartdelay={delay}\n"
                    ));
                    assert!(shares.parts[0] > 0.99, "{delay} s, {ios} I/Os: {shares:?}");
                }
            }
        }
    }

    #[test]
    fn shares_are_by_rates_and_slots() {
        for (jobs, first, estimated) in [
            ("[a]\nrw=randwrite\n[b]\nrw=randwrite\n", 0.5, false),
            ("[a]\nrw=randwrite\nrate_iops=300\n[b]\nrw=randwrite\nrate_iops=900\n", 0.25, false),
            // Its blocks count by their bytes.
            (
                "[a]\nrw=randwrite\nrate_iops=300\nbs=16k\n[b]\nrw=randwrite\nrate=4800k\n",
                0.5,
                false,
            ),
            ("[a]\nrw=randwrite\niodepth=8\n[b]\nrw=randwrite\niodepth=24\n", 0.25, true),
            ("[a]\nrw=randwrite\niodepth=8\n[b]\nrw=randwrite\niodepth=6\nbs=16k\n", 0.25, true),
            // What is left of 10,000 a second.
            ("[a]\nrw=randwrite\nrate_iops=200\n[b]\nrw=randwrite\niodepth=32\n", 0.02, true),
            // No more than its share of the slots, whatever its rate.
            ("[a]\nrw=randwrite\nrate_iops=9000\n[b]\nrw=randwrite\niodepth=4\n", 0.2, true),
            // Both rates are more than the drive can serve.
            (
                "[a]\nrw=randwrite\nrate_iops=90k\n[b]\nrw=randwrite\nrate_iops=90k\niodepth=3\n",
                0.25,
                true,
            ),
            // One after the other.
            ("[a]\nrw=randwrite\niodepth=8\n[b]\nstonewall\nrw=randwrite\n", 0.5, true),
            // Of depth 1 with a pause: 1 / (1 ms + 33 / 10,000 s).
            ("[a]\nrw=randwrite\nthinktime=1ms\n[b]\nrw=randwrite\niodepth=32\n", 0.0237, true),
        ] {
            let shares = of(jobs);
            assert!((shares.parts[0] - first).abs() < 0.0005, "{jobs}: {shares:?}");
            assert_eq!((shares.estimated, shares.parts.len()), (estimated, 2), "{jobs}");
        }
        // Trims leave less in use: with X = 0.75 of the sectors 1.25 are 1.667 of what is in use, and the time of
        // 1.5 in place of 4 moved sectors.
        let trims = of("[a]\nrw=randtrim\nrate_iops=5333\n[b]\nrw=randwrite\niodepth=4\n");
        assert!((trims.parts[0] - 0.25).abs() < 0.001 && trims.estimated, "{trims:?}");
        // A slot that reads nine times of ten has less than one that writes, and more than a tenth of that.
        let mixed = of("[a]\nrw=randrw\nrwmixread=90\niodepth=16\n[b]\nrw=randwrite\niodepth=16\n");
        assert!((0.1..0.4).contains(&mixed.parts[0]), "{mixed:?}");
    }

    #[test]
    fn jobs_that_have_other_shares_have_another_key() {
        let of = |text: &str| {
            let text = format!("[global]\nbs=4k\nioengine=libaio\nrw=randwrite\n{text}");
            let plan = parse_file("job", &text, &ParseOptions::default(), &mut NoEnv).unwrap();
            let (stops, claims): (Vec<&Job>, Vec<&Job>) =
                plan.jobs.iter().partition(|job| !job.rw.writes());
            let stop = |job: &&Job| (Stop::of(job, None), format!("{:?}", job.size));
            let stops: Vec<(Stop, String)> = stops.iter().map(stop).collect();
            key(&claims.into_iter().map(Claim::of).collect::<Vec<_>>(), &stops, false).0
        };
        let by_time = "time_based\nruntime=9\n";
        // Their passes may differ, which counts where they end by them.
        let two = "[a]\n[b]\noffset=95%\n";
        let keys = [
            of(&format!("{by_time}{two}")),
            of(two),
            of(&format!("number_ios=500\n{two}")),
            of(&format!("number_ios=900\n{two}")),
            of(&format!("{by_time}[a]\niodepth=2\n[b]\n")),
            of("[a]\ntime_based\nruntime=9\n[b]\nnumber_ios=500\n"),
            of("[a]\ntime_based\nruntime=9\n[b]\nnumber_ios=900\n"),
            of(&format!("{by_time}[a]\n[b]\nstonewall\n")),
            of(&format!("{by_time}[a]\n[b]\nrate_iops=9\n")),
            of(&format!("runtime=5\n{two}")),
            of(&format!("runtime=6\n{two}")),
            of(&format!("{two}[r]\nrw=read\nsize=1m\nexitall\n")),
            of(&format!("{two}[r]\nrw=read\nsize=2m\nexitall\n")),
        ];
        for (i, one) in keys.iter().enumerate() {
            assert!(!keys[..i].contains(one), "{i}: {one}");
        }
        let longer = of(&format!("time_based\nruntime=5\n{two}"));
        assert_eq!(longer, keys[0], "not by how long they run");
    }

    #[test]
    fn what_ends_by_its_amount_has_its_amount() {
        let part = |options: &str, pass: u64| {
            let text = format!("[a]\nbs=4k\nrw=randwrite\n{options}\n");
            let plan = parse_file("job", &text, &ParseOptions::default(), &mut NoEnv).unwrap();
            let claim = Claim::of(&plan.jobs[0]);
            let total = claim.total(pass);
            Part { claim, part: 1.0, total }
        };
        for (a, b, first) in [
            (part("iodepth=32", 80 << 20), part("", 20 << 20), 0.8),
            (part("rate_iops=9\nloops=2", 10 << 20), part("", 20 << 20), 0.5),
            (part("number_ios=1000", 80 << 20), part("number_ios=3000", 80 << 20), 0.25),
            (part("rw=randrw\nrwmixread=75", 80 << 20), part("", 20 << 20), 0.5),
        ] {
            let shares = shares(&[a, b], &[], &|| unreachable!("amounts are known"));
            assert!((shares.parts[0] - first).abs() < 1e-9 && !shares.estimated, "{shares:?}");
        }
    }
}
