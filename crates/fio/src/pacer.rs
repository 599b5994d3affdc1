//! When the next I/O may be issued: rates and think time, in fio's microseconds.
//!
//! Sans-IO: every call says what time it is. A thread's loop is
//!
//! 1. [`Pacer::think`]: pause if a pause is due;
//! 2. [`crate::Generator::next_paced`]: which asks the pacer whether the rate allows the I/O;
//! 3. issue it, [`Pacer::issued`]; on completions [`Pacer::completed`].
//!
//! fio looks at think time only after an I/O, and lets all I/Os in flight finish before it sleeps
//! for either reason.

use crate::io::{Check, Io};
use crate::job::{Job, RateProcess, ThinktimeBlocks};
use crate::rand::Taus;
use crate::seeds::{SeedUse, Seeds};
use wordline_base::{Ddir, Span, Time};

/// In the first two seconds no least rate is looked at: what is done by then is where the first cycle begins.
const SETTLE: Span = Span(2_000_000_000);
const POISSON_SEEDS: [SeedUse; 3] =
    [SeedUse::PoissonRead, SeedUse::PoissonWrite, SeedUse::PoissonTrim];

/// `us` microseconds after `now`, at most the end of time.
fn after(now: Time, us: u64) -> Time {
    Time(now.0.saturating_add(us.saturating_mul(1_000)).min(Time::NEVER.0))
}

/// Whether an I/O may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gate {
    /// Now, in this direction.
    Pass(Ddir),
    /// Once nothing is in flight.
    Drain,
    /// At this time.
    Until(Time),
}

/// What to do before the next I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Think {
    /// Nothing.
    Go,
    /// Wait until no I/O is in flight, then ask again.
    Drain,
    /// Pause until `until`; up to `spin_until` the thread burns its processor.
    #[allow(missing_docs, reason = "the variant's line names the fields")]
    Pause { spin_until: Time, until: Time },
}

/// A direction fell below its least rate: fio ends the job with an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateTooLow {
    /// Read, write or trim.
    pub ddir: Ddir,
    /// Bytes per second or I/Os per second, as the job gives them.
    pub wanted: u64,
    /// What it was over the window, in the unit of `wanted`.
    pub measured: u64,
    /// Both are bytes.
    pub bytes: bool,
}

impl std::fmt::Display for RateTooLow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RateTooLow { ddir, wanted, measured, bytes } = self;
        let (option, unit) = match bytes {
            true => ("rate_min", "bytes"),
            false => ("rate_iops_min", "I/Os"),
        };
        let done = ["read", "written", "trimmed"][*ddir as usize];
        write!(
            f,
            "{option} asks for {wanted} {unit} a second to be {done}, and {measured} were in its last rate_cycle"
        )
    }
}

/// The pace of one thread.
pub struct Pacer {
    /// The rate of each direction, bytes a second; 0: none.
    rate_bps: [u64; 3],
    /// The smallest block of each direction.
    min_bs: [u64; 3],
    /// How I/Os are spread in time.
    process: RateProcess,
    /// Draws the times between I/Os of each direction.
    poisson: [Taus; 3],
    /// What these were seeded with.
    poisson_seeds: [u64; 3],
    /// Some direction has a rate.
    rated: bool,
    /// When the next I/O of each direction is due, microseconds from the epoch.
    next_us: [u64; 3],
    /// When the last I/O of each direction was due.
    last_us: [u64; 3],
    /// Bytes issued by direction.
    issued_bytes: [u64; 3],
    /// What microseconds count from.
    epoch: Time,
    /// An I/O whose time has not come.
    held: Option<Held>,

    /// `thinktime`.
    thinktime_us: u64,
    /// `thinktime_spin`.
    spin_us: u64,
    /// `thinktime_blocks`.
    think_blocks: u64,
    /// Think time goes by blocks, not by time.
    think_by_blocks: bool,
    /// From one think time's beginning to the next, by `thinktime_iotime`; 0: they do not go by time. The first one
    /// begins as late after the start, so that the first stretch of I/O is longer by a pause, as in fio 3.33.
    think_every_us: u64,
    /// Which blocks count.
    think_counts: ThinktimeBlocks,
    /// `rate_ignore_thinktime`.
    ignore_thinktime: bool,
    /// I/Os issued.
    issued: u64,
    /// I/Os completed.
    completed: u64,
    /// Blocks at the last think time.
    thought_at_blocks: u64,
    /// Blocks when a think time began to wait for what is in flight, and when that was.
    before_drain: Option<(u64, Time)>,
    /// When the last think time began to wait for what was in flight.
    thought_at: Time,
    /// Microseconds of think time so far.
    paused_us: u64,
    /// Direction of the I/O after which think time was not looked at yet.
    unchecked: Option<Ddir>,

    /// `rate_min`, bytes a second by direction.
    min_bytes: [u64; 3],
    /// `rate_iops_min` by direction.
    min_ios: [u64; 3],
    /// `rate_cycle`.
    cycle: Span,
    /// Bytes completed by direction.
    done_bytes: [u64; 3],
    /// I/Os completed by direction.
    done_ios: [u64; 3],
    /// When the rate of each direction was checked last, and its counts then.
    checked: [Option<(Time, u64, u64)>; 3],
    /// A least rate was held against a whole cycle.
    judged: bool,

    /// What the thread waited for since it last slept until an I/O was due.
    waited: Option<HeldBy>,
    held_up: HeldUp,
}

/// Why I/O that was due did not go out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HeldBy {
    /// As many I/Os were in flight as may be.
    Depth,
    /// fio lets what is in flight end before it sleeps until the next I/O is due.
    Drain,
}

/// I/Os that were due while the thread waited for others, and went out later.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HeldUp {
    /// Those for which as many were in flight as may be.
    pub by_depth: u64,
    /// Those for which fio let what was in flight end.
    pub by_drain: u64,
    /// Microseconds that they were late, together.
    pub late_us: u64,
}

/// An I/O that waits for its rate.
#[derive(Clone, Copy)]
struct Held {
    ddir: Ddir,
    /// How long to sleep once nothing is in flight.
    sleep_us: u64,
    /// When the sleep ends, once it began.
    until: Option<Time>,
    /// When it is due, in microseconds of the pacer's time.
    due_us: u64,
}

impl Pacer {
    /// The pace of a thread that starts at `now`, with the seeds of its generator.
    pub fn new(job: &Job, seeds: &Seeds, now: Time) -> Pacer {
        Pacer::with(job, POISSON_SEEDS.map(|s| seeds.get(s)), now)
    }

    /// The pauses of a thread that starts at `now` and whose I/Os a log has: fio looks at no rate then.
    pub fn of_pauses(job: &Job, now: Time) -> Pacer {
        let (none, rated) = ([0; 3], false);
        Pacer {
            rate_bps: none,
            rated,
            min_bytes: none,
            min_ios: none,
            ..Pacer::with(job, none, now)
        }
    }

    fn with(job: &Job, poisson_seeds: [u64; 3], now: Time) -> Pacer {
        let rate_bps = std::array::from_fn(|i| match job.rate[i] {
            0 => job.rate_iops[i].saturating_mul(job.min_bs[i]),
            rate => rate,
        });
        Pacer {
            rate_bps,
            min_bs: job.min_bs,
            process: job.rate_process,
            poisson: poisson_seeds.map(|s| Taus::new(s, false)),
            poisson_seeds,
            rated: job.is_rated(),
            next_us: [0; 3],
            last_us: [0; 3],
            issued_bytes: [0; 3],
            epoch: now,
            held: None,
            thinktime_us: job.thinktime.0 / 1_000,
            spin_us: job.thinktime_spin.0 / 1_000,
            think_blocks: u64::from(job.thinktime_blocks),
            // The default of one I/O would drown thinktime_iotime.
            think_by_blocks: job.thinktime_iotime == Span::ZERO || job.thinktime_blocks_given,
            think_every_us: match job.thinktime_iotime {
                Span::ZERO => 0,
                io_time => (io_time + job.thinktime).0 / 1_000,
            },
            think_counts: job.thinktime_blocks_type,
            ignore_thinktime: job.rate_ignore_thinktime,
            issued: 0,
            completed: 0,
            thought_at_blocks: 0,
            before_drain: None,
            thought_at: now,
            paused_us: 0,
            unchecked: None,
            min_bytes: job.rate_min,
            min_ios: job.rate_iops_min,
            cycle: job.rate_cycle,
            done_bytes: [0; 3],
            done_ios: [0; 3],
            checked: [None; 3],
            judged: false,
            waited: None,
            held_up: HeldUp::default(),
        }
    }

    /// The ramp is over: rates start afresh, as if the job began at `now`.
    pub fn ramp_over(&mut self, now: Time) {
        self.epoch = now;
        self.next_us = [0; 3];
        self.last_us = [0; 3];
        self.issued_bytes = [0; 3];
        self.paused_us = 0;
        let counted = self.counted();
        self.thought_at_blocks = self.thought_at_blocks.wrapping_sub(counted);
        self.before_drain =
            self.before_drain.map(|(before, at)| (before.wrapping_sub(counted), at));
        (self.issued, self.completed) = (0, 0);
        (self.done_bytes, self.done_ios) = ([0; 3], [0; 3]);
        self.checked = [None; 3];
        (self.waited, self.held_up) = (None, HeldUp::default());
    }

    /// As many I/Os are in flight as may be: what is due meanwhile waits.
    pub fn is_full(&mut self) {
        self.waited = Some(HeldBy::Depth);
    }
    /// I/Os that were due while the thread waited for others.
    pub fn held_up(&self) -> HeldUp {
        self.held_up
    }
    /// Time spent in `thinktime`.
    pub fn paused(&self) -> Span {
        Span::from_us(self.paused_us)
    }
    /// An I/O that was due goes out so much later.
    fn is_late(&mut self, us: u64) {
        match self.waited {
            Some(HeldBy::Depth) => self.held_up.by_depth += 1,
            Some(HeldBy::Drain) => self.held_up.by_drain += 1,
            None => return,
        }
        self.held_up.late_us += us;
    }

    /// A new pass reseeds the thread's streams.
    pub(crate) fn reseed(&mut self) {
        self.poisson = self.poisson_seeds.map(|s| Taus::new(s, false));
    }

    fn us(&self, now: Time) -> u64 {
        now.since(self.epoch).0 / 1_000
    }

    /// Whether the rate lets an I/O go that the generator would issue as `ddir`. `mixed` holds the
    /// shares of reads and writes of a mixed job: it may swap.
    pub(crate) fn gate(
        &mut self,
        now: Time,
        in_flight: u32,
        ddir: Ddir,
        mixed: Option<[u32; 2]>,
    ) -> Gate {
        if !self.rated {
            return Gate::Pass(ddir);
        }
        let us = self.us(now);
        let due = self.next_us[ddir as usize];
        if due <= us {
            self.is_late(us - due);
            return Gate::Pass(ddir);
        }
        let mut held = Held { ddir, sleep_us: due - us, until: None, due_us: due };
        let other = if ddir == Ddir::Read { Ddir::Write } else { Ddir::Read };
        if mixed.is_some_and(|shares| shares[other as usize] > 0) {
            let other_due = self.next_us[other as usize];
            if other_due <= us {
                self.is_late(us - other_due);
                return Gate::Pass(other);
            }
            if other_due < due {
                let sleep_us = other_due - us;
                held = Held { ddir: other, sleep_us, until: None, due_us: other_due };
            }
        }
        self.held = Some(held);
        match self.held(now, in_flight) {
            // Just held: it cannot be due already.
            Gate::Pass(_) => Gate::Until(Time(now.0 + 1_000)),
            wait => wait,
        }
    }

    /// As [`Pacer::gate`], for the I/O held back before.
    pub(crate) fn held(&mut self, now: Time, in_flight: u32) -> Gate {
        let Some(mut held) = self.held else { return Gate::Until(now) };
        let until = match held.until {
            Some(until) => until,
            None if in_flight > 0 => {
                self.waited = Some(HeldBy::Drain);
                return Gate::Drain;
            }
            None => {
                // The sleep starts when the queue is empty, however long that took.
                let until = after(now, held.sleep_us);
                if held.due_us < self.us(now) {
                    self.is_late(self.us(until) - held.due_us);
                } else {
                    self.waited = None;
                }
                held.until = Some(until);
                self.held = Some(held);
                until
            }
        };
        if now < until {
            return Gate::Until(until);
        }
        self.held = None;
        Gate::Pass(held.ddir)
    }

    /// An I/O was issued: settles when the next of its direction is due.
    pub fn issued(&mut self, io: &Io) {
        if io.ddir.is_sync() {
            return;
        }
        let d = io.ddir as usize;
        self.issued_bytes[d] += io.len;
        // The pass that reads back has no pace, but counts.
        if io.check == Check::Pass {
            return;
        }
        self.issued += u64::from(io.check == Check::None);
        self.unchecked = Some(io.ddir);
        if self.rated {
            self.next_us[d] = self.due(d);
        }
    }

    /// An I/O completed.
    pub fn completed(&mut self, io: &Io) {
        if io.ddir.is_sync() {
            return;
        }
        self.completed += 1;
        self.done_bytes[io.ddir as usize] += io.len;
        self.done_ios[io.ddir as usize] += 1;
    }

    fn due(&mut self, d: usize) -> u64 {
        let bps = self.rate_bps[d];
        if bps == 0 {
            return 0;
        }
        let iops = (bps / self.min_bs[d]).max(1);
        match self.process {
            RateProcess::Poisson => {
                // Single precision, and a mean in whole microseconds, as in fio.
                let u = self.poisson[d].fraction_above_zero() as f32;
                let wait = ((1_000_000 / iops) as f32 * -libm::logf(u)) as u64;
                self.last_us[d] = self.last_us[d].saturating_add(wait);
                self.last_us[d]
            }
            RateProcess::Linear => {
                let bytes = self.issued_bytes[d];
                let part = u128::from(bytes % bps) * 1_000_000 / u128::from(bps);
                (bytes / bps).saturating_mul(1_000_000).saturating_add(part as u64)
            }
        }
    }

    fn counted(&self) -> u64 {
        match self.think_counts {
            ThinktimeBlocks::Complete => self.completed,
            ThinktimeBlocks::Issue => self.issued,
        }
    }

    /// Whether a pause is due after the last I/O. Call it after each issue, and after the
    /// completions that a full queue waited for.
    pub fn think(&mut self, now: Time, in_flight: u32) -> Think {
        if self.thinktime_us == 0 {
            return Think::Go;
        }
        let Some(ddir) = self.unchecked else { return Think::Go };
        let by_time =
            self.think_every_us > 0 && now.since(self.thought_at).0 / 1_000 >= self.think_every_us;
        let blocks = self.counted();
        // What was remembered may lie before a ramp whose end set the count to zero.
        let since = blocks.wrapping_sub(self.thought_at_blocks) as i64;
        let by_blocks = self.think_by_blocks && since >= self.think_blocks as i64;
        if !by_time && !by_blocks {
            self.unchecked = None;
            return Think::Go;
        }
        // fio remembers the count and the time from before the queue drained.
        let (before, at) = *self.before_drain.get_or_insert((blocks, now));
        if in_flight > 0 {
            return Think::Drain;
        }
        (self.unchecked, self.before_drain) = (None, None);
        (self.thought_at_blocks, self.thought_at) = (before, at);
        // fio 3.33 does not cut it at the end of the runtime.
        let spin = self.spin_us;
        let total = spin.max(self.thinktime_us);
        let until = after(now, total);
        self.paused_us += total;
        // What is due in the pause waits for that, and for no I/O.
        self.waited = None;
        if self.ignore_thinktime {
            self.catch_up(ddir as usize, total);
        }
        Think::Pause { spin_until: after(now, spin), until }
    }

    /// Under `rate_ignore_thinktime` the pause counts as if I/O had gone on.
    fn catch_up(&mut self, d: usize, paused_us: u64) {
        let bps = self.rate_bps[d];
        if bps == 0 || paused_us == 0 {
            return;
        }
        let missed = (u128::from(bps) * u128::from(paused_us) / 1_000_000) as u64;
        let us_per_io = u128::from(self.min_bs[d]) * 1_000_000 / u128::from(bps);
        // One block less, so that an I/O is due right after the pause. Shorter pauses add what
        // they missed: fio's correction rounds to zero there.
        let over = if us_per_io <= u128::from(paused_us) { self.min_bs[d] } else { 0 };
        self.issued_bytes[d] = self.issued_bytes[d].wrapping_add(missed.wrapping_sub(over));
        self.last_us[d] = self.last_us[d].saturating_add(paused_us);
    }

    /// Checks the least rates over the last cycle.
    pub fn check_min_rate(&mut self, now: Time) -> Result<(), RateTooLow> {
        if now.since(self.epoch) < SETTLE {
            return Ok(());
        }
        for ddir in Ddir::RW {
            let d = ddir as usize;
            let (least_bytes, least_ios) = (self.min_bytes[d], self.min_ios[d]);
            if least_bytes == 0 && least_ios == 0 || self.done_bytes[d] == 0 {
                continue;
            }
            let (bytes, ios) = (self.done_bytes[d], self.done_ios[d]);
            // The first look tells where a cycle begins.
            if let Some((since, bytes_then, ios_then)) = self.checked[d] {
                let spent_ms = now.since(since).0 / 1_000_000;
                if spent_ms == 0 || Span::from_ms(spent_ms) < self.cycle {
                    continue;
                }
                self.judged = true;
                let (done, wanted) = if least_bytes > 0 {
                    (bytes - bytes_then, least_bytes)
                } else {
                    (ios - ios_then, least_ios)
                };
                let measured = (u128::from(done) * 1_000 / u128::from(spent_ms)) as u64;
                if measured < wanted {
                    let bytes = least_bytes > 0;
                    return Err(RateTooLow { ddir, wanted, measured, bytes });
                }
            }
            self.checked[d] = Some((now, bytes, ios));
        }
        Ok(())
    }
    /// When a least rate is judged first, if there is one and that never came.
    pub fn never_judged(&self) -> Option<Span> {
        let has_one = self.min_bytes.iter().chain(&self.min_ios).any(|&least| least > 0);
        (has_one && !self.judged).then(|| Span(SETTLE.0 + self.cycle.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Generator, NoEnv, ParseOptions, Step, parse_args};

    fn job(text: &str) -> (crate::Plan, Generator) {
        let args: Vec<String> = text.split(' ').map(String::from).collect();
        let plan = parse_args(&args, &ParseOptions::default(), &mut NoEnv).expect("a plan");
        let generator = Generator::new(&plan.jobs[0], &plan.threads()[0], 1 << 30, 0);
        (plan, generator.expect("a generator"))
    }

    /// Runs a thread whose I/Os take no time; returns when each was issued, and its direction.
    fn run(text: &str, most: usize) -> Vec<(Time, Ddir)> {
        let (plan, mut generator) = job(text);
        let mut now = Time(5_000);
        let mut pacer = Pacer::new(&plan.jobs[0], generator.seeds(), now);
        let mut out = Vec::new();
        while out.len() < most {
            match pacer.think(now, 0) {
                Think::Go => {}
                Think::Drain => panic!("nothing flies"),
                Think::Pause { until, spin_until } => {
                    assert!(spin_until <= until);
                    now = until;
                }
            }
            match generator.next_paced(now, 0, &mut pacer) {
                Step::Io(io) => {
                    pacer.issued(&io);
                    pacer.completed(&io);
                    out.push((now, io.ddir));
                }
                Step::Wait(until) => {
                    assert!(until > now);
                    now = until;
                }
                Step::Drain | Step::ReapAll => panic!("nothing flies"),
                Step::Done => break,
            }
        }
        out
    }

    #[test]
    fn linear_rates_are_even() {
        let times = run("--name=a --rw=randread --bs=4k --rate_iops=1000", 1_001);
        assert_eq!(times[1_000].0.since(times[0].0), Span::from_ms(1_000));
        assert_eq!(times[1].0.since(times[0].0), Span::from_ms(1));
        // Of several lengths the bytes of the shortest, as fio 3.33 has it: 260 I/Os in two seconds.
        let mixed = run("--name=a --rw=randread --bssplit=4k/50:64k/50 --rate_iops=1000", 260);
        let time = mixed[259].0.since(mixed[0].0).as_us_f64() / 1e6;
        assert!((1.9..2.1).contains(&time), "{time}");
        let bytes = run("--name=a --rw=read --bs=64k --rate=1m", 17);
        assert_eq!(bytes[16].0.since(bytes[0].0), Span::from_secs(1));
    }

    #[test]
    fn poisson_rates_have_the_mean_and_the_spread() {
        let times =
            run("--name=a --rw=randread --bs=4k --rate_iops=1000 --rate_process=poisson", 20_001);
        let gaps: Vec<f64> = times.windows(2).map(|w| w[1].0.since(w[0].0).as_us_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let var = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((980.0..1_020.0).contains(&mean), "{mean}");
        assert!((0.95..1.05).contains(&(var.sqrt() / mean)), "{}", var.sqrt());
    }

    #[test]
    fn a_mix_swaps_towards_the_direction_that_is_behind() {
        let ios = run("--name=a --rw=randrw --bs=4k --rate_iops=1000,100", 1_100);
        let writes = ios.iter().filter(|(_, d)| *d == Ddir::Write).count();
        let span = ios[ios.len() - 1].0.since(ios[0].0).as_secs_f64();
        assert!((0.9..1.1).contains(&span), "{span}");
        assert!((95..=105).contains(&writes), "{writes}");
    }

    #[test]
    fn think_time_pauses_after_blocks_and_after_time() {
        let times = run("--name=a --rw=read --bs=4k --thinktime=500 --thinktime_blocks=4", 9);
        let starts: Vec<u64> = times.iter().map(|(t, _)| t.since(times[0].0).0 / 1_000).collect();
        assert_eq!(starts, [0, 0, 0, 0, 500, 500, 500, 500, 1_000]);
        let both = run(
            "--name=a --rw=read --bs=4k --rate_iops=1000 --thinktime=7ms --thinktime_iotime=10ms",
            24,
        );
        let gap = both.windows(2).map(|w| w[1].0.since(w[0].0)).max();
        assert!(gap >= Some(Span::from_ms(7)), "{gap:?}");
    }

    /// As fio 3.33 with its engine null, from whose log the times are.
    #[test]
    fn stretches_between_pauses_are_as_long_as_in_fio() {
        let stretches = |more: &str| {
            let ios = run(&format!("--name=a --rw=read --bs=4k --rate_iops=1000 {more}"), 2_500);
            let ms = |at: Time| at.since(ios[0].0).0 / 1_000_000;
            let long = |w: &&[(Time, Ddir)]| w[1].0.since(w[0].0) > Span::from_ms(30);
            let gaps = ios.windows(2).filter(long).map(|w| [ms(w[0].0), ms(w[1].0)]);
            gaps.flatten().take(5).collect::<Vec<u64>>()
        };
        assert_eq!(
            stretches("--thinktime=200ms --thinktime_iotime=100ms"),
            [300, 500, 600, 800, 900]
        );
        assert_eq!(
            stretches("--thinktime=100ms --thinktime_iotime=300ms"),
            [400, 500, 800, 900, 1_200]
        );
        // A bare number is of seconds.
        assert_eq!(stretches("--thinktime=100ms --thinktime_iotime=1")[..3], [1_100, 1_200, 2_200]);
    }

    /// fio 3.33 with its engine nbd and a drive whose reads take long, depth 4: the next pause is as far from where the
    /// last one began to drain the queue. The end of a ramp changes nothing of that.
    #[test]
    fn a_pause_by_time_counts_from_before_the_queue_drained() {
        let (plan, mut generator) =
            job("--name=a --rw=read --bs=4k --size=1m --thinktime=500ms --thinktime_iotime=2");
        let ms = |ms: u64| Time(ms * 1_000_000);
        let mut pacer = Pacer::new(&plan.jobs[0], generator.seeds(), ms(0));
        let mut after_io = |pacer: &mut Pacer, at: Time, in_flight: u32| {
            let step = generator.next_paced(at, in_flight, pacer);
            let Step::Io(io) = step else { panic!("no I/O but {step:?}") };
            pacer.issued(&io);
            pacer.think(at, in_flight)
        };
        assert!(matches!(after_io(&mut pacer, ms(0), 0), Think::Go));
        assert!(matches!(after_io(&mut pacer, ms(2_387), 3), Think::Go));
        assert!(matches!(after_io(&mut pacer, ms(2_724), 3), Think::Drain));
        pacer.ramp_over(ms(3_000));
        let Think::Pause { until, .. } = pacer.think(ms(3_735), 0) else { panic!("it is drained") };
        assert_eq!(until, ms(4_235));
        assert!(matches!(after_io(&mut pacer, ms(4_939), 3), Think::Go));
        assert!(matches!(after_io(&mut pacer, ms(5_275), 3), Think::Drain));
    }

    #[test]
    fn a_paced_job_waits_for_its_queue_before_it_sleeps() {
        let (plan, mut generator) = job("--name=a --rw=read --bs=4k --rate_iops=1000");
        let mut pacer = Pacer::new(&plan.jobs[0], generator.seeds(), Time::ZERO);
        let Step::Io(io) = generator.next_paced(Time::ZERO, 0, &mut pacer) else { panic!() };
        pacer.issued(&io);
        let later = Time(100_000);
        assert_eq!(generator.next_paced(later, 1, &mut pacer), Step::Drain);
        // 900 us were left when it was held, and count from when the queue is empty.
        let drained = Time(300_000);
        assert_eq!(generator.next_paced(drained, 0, &mut pacer), Step::Wait(Time(1_200_000)));
        assert!(matches!(generator.next_paced(Time(1_200_000), 0, &mut pacer), Step::Io(_)));
    }

    #[test]
    fn a_rate_below_the_minimum_is_reported() {
        let (plan, generator) = job("--name=a --rw=read --bs=4k --rate_iops_min=100");
        let mut pacer = Pacer::new(&plan.jobs[0], generator.seeds(), Time::ZERO);
        let io = Io {
            ddir: Ddir::Read,
            offset: 0,
            len: 4096,
            file: 0,
            prio: Default::default(),
            range_only: false,
            closing: false,
            check: crate::Check::None,
        };
        let mut failed = None;
        for ms in 0..5_000u64 {
            if ms < 3_000 || ms % 100 == 0 {
                pacer.completed(&io);
            }
            if let Err(low) = pacer.check_min_rate(Time(ms * 1_000_000)) {
                failed = Some((ms, low));
                break;
            }
        }
        let (ms, low) = failed.expect("ten I/Os a second are too few");
        assert!(ms >= 3_000 && low.wanted == 100 && low.measured < 100, "{ms} {low:?}");
    }
}
