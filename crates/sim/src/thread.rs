//! Statistics of one thread, in fio's terms.

use crate::classes;
use crate::collect::{HistLog, LatLog, Sampler};
use crate::job::SyncOf;
use crate::result::{DirResult, ErrorOf, Log, LogKind, LogLine, ThreadResult};
use wordline_base::{Ddir, Histogram, IoClass, Span, Time};
use wordline_fio::job::SteadyState;
use wordline_host::ThreadStats as HostCounts;

/// What a thread's statistics need to know of its job.
#[derive(Clone, Debug, Default)]
pub struct ThreadPlan {
    /// The job's name.
    pub name: String,
    /// `description=`.
    pub description: Option<String>,
    /// Number of its reporting group.
    pub group: u32,
    /// Threads of the group are reported as one.
    pub group_reporting: bool,
    /// Reads, writes and trims are reported as one.
    pub unified_rw_reporting: bool,
    /// And each of them beside that.
    pub unified_beside: bool,
    /// As fio's JSON has it.
    pub ioengine: String,
    /// `iodepth=`.
    pub iodepth: u32,
    /// Options of the job section, for fio's JSON.
    pub options: Vec<(String, String)>,
    /// Statistics begin this long after the thread's start.
    pub ramp: Span,
    /// Percentiles of completion latency are reported.
    pub clat_percentiles: bool,
    /// Percentiles of total latency are reported.
    pub lat_percentiles: bool,
    /// Percentiles of submission latency are reported.
    pub slat_percentiles: bool,
    /// Which percentiles, in percent.
    pub percentile_list: Vec<f64>,
    /// (kind, file prefix) of the logs asked for.
    pub logs: Vec<(LogKind, String)>,
    /// Length of an interval of logs (`log_avg_msec`); zero: every I/O.
    pub log_average: Span,
    /// Logs have the largest of an interval, not the mean.
    pub log_maximum: bool,
    /// Lines of logs have the I/O's offset.
    pub log_offset: bool,
    /// Lines of logs have the I/O's priority.
    pub log_prio: bool,
    /// Each job has log files of its own.
    pub per_job_logs: bool,
    /// Interval of `write_hist_log`; zero: none.
    pub hist_interval: Span,
    /// How many times two bins of it become one.
    pub hist_coarseness: u32,
    /// False: not in the report (`stats=0`).
    pub reported: bool,
    /// What ends the job early, if anything does.
    pub steady: Option<SteadyState>,
    /// Class of the job's I/Os.
    pub class: IoClass,
    /// By direction, the classes of I/Os that `cmdprio` gives another one.
    pub cmdprios: [Vec<IoClass>; 3],
    /// fio's bwavgtime.
    pub bw_interval: Span,
    /// fio's iopsavgtime.
    pub iops_interval: Span,
    /// Reads, writes and trims are logged and reported without total latency.
    pub disable_lat: bool,
    /// They are logged and reported without completion latency.
    pub disable_clat: bool,
    /// They are logged and reported without submission latency.
    pub disable_slat: bool,
    /// Trims are: fio's libaio and io_uring do not queue them, but call for them and have them back.
    pub calls_for_trims: bool,
    /// A log of bandwidth with a line of each I/O has none.
    pub disable_bw: bool,
    /// One of I/Os a second has none either, and no clock is read for latencies.
    pub gtod_reduce: bool,
}

/// A finished I/O as the statistics see it.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Read, write, trim or sync.
    pub ddir: Ddir,
    /// The first byte, as logs have it.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
    /// When the application called.
    pub issued: Time,
    /// When the call had handed it to the drive's queue.
    pub submitted: Time,
    /// When the application had it back.
    pub completed: Time,
    /// A Unix error number; 0: none.
    pub error: i32,
    /// Who wants it, if it is a sync.
    pub sync: SyncOf,
    /// Class of the I/O.
    pub class: IoClass,
    /// Time since the ramp in phases of the job that have no I/O of this direction.
    pub elsewhere: Span,
}

enum OpenLog {
    Latency(LatLog),
    Rate {
        lines: Vec<LogLine>,
        samplers: [Sampler; 3],
    },
    /// Of bandwidth or I/Os a second without averaging: a line of each I/O.
    PerIo(Vec<LogLine>),
    Hist(HistLog),
}

/// What fio's log of bandwidth has for one I/O: bytes by its completion latency, in 1,000 bytes a second.
fn rate_of_one(bytes: u32, clat: u64) -> u64 {
    (u64::from(bytes) * 1_000_000).checked_div(clat).unwrap_or(0)
}

/// What fio reports of a thread, as it comes up.
pub struct ThreadStats {
    /// The statistics so far.
    pub result: ThreadResult,
    /// Samples before it are not counted.
    ramp_end: Time,
    /// The same of its ramp alone: `latency_target` begins its statistics anew.
    ramp_over: Option<Time>,
    /// When it started, its ramp among it.
    begun: Option<Time>,
    /// Bandwidth of each direction, sampled.
    bw: [Sampler; 3],
    /// I/Os a second of each direction, sampled.
    iops: [Sampler; 3],
    /// Time of a sample of bandwidth.
    bw_interval: Span,
    /// Time of a sample of I/Os a second.
    iops_interval: Span,
    /// Logs that the job asked for.
    logs: Vec<(LogKind, String, OpenLog)>,
    /// Lines have the offset of their I/O.
    with_offset: bool,
    /// Classes of the job's I/Os by direction, where they have some of their own.
    cmdprios: [Vec<IoClass>; 3],
    /// Lines have the class of their I/O.
    with_prio: bool,
    /// Each thread has files of its own.
    per_job_logs: bool,
    /// Which of slat, clat and lat are not measured.
    disable: [bool; 3],
    /// No submission latency of trims either.
    calls_for_trims: bool,
    /// Logs of bandwidth and of I/Os a second have a line of each I/O, which are fio's samples, too.
    per_io: [bool; 2],
    /// Those lines are left out (`disable_bw_measurement`, `gtod_reduce`).
    unsampled: [bool; 2],
    /// Time of each direction up to the end of the thread.
    over: [Span; 3],
    /// The ramp goes on, or no I/O has completed since.
    ramping: bool,
    /// What the host had counted when it was over.
    before: HostCounts,
}

/// This I/O, which is not counted yet, is the last of its direction so far. `start` is where the statistics begin.
#[inline]
fn went_on(dir: &mut DirResult, start: Time, s: &Sample) {
    if dir.total_ios == 0 {
        dir.began = start + s.elsewhere;
    }
    dir.runtime = Span(s.completed.since(start).0.saturating_sub(s.elsewhere.0));
}

impl ThreadStats {
    /// `number`: fio's number of the thread, from 1.
    pub fn new(number: u32, plan: &ThreadPlan) -> ThreadStats {
        let open = |kind: LogKind| match kind {
            LogKind::Bw | LogKind::Iops if plan.log_average == Span::ZERO => {
                OpenLog::PerIo(Vec::new())
            }
            LogKind::Bw | LogKind::Iops => {
                OpenLog::Rate { lines: Vec::new(), samplers: Default::default() }
            }
            LogKind::Hist => OpenLog::Hist(HistLog::new(plan.hist_interval, plan.hist_coarseness)),
            _ => OpenLog::Latency(LatLog::new(plan.log_average, plan.log_maximum)),
        };
        ThreadStats {
            result: ThreadResult {
                name: plan.name.clone(),
                description: plan.description.clone(),
                group: plan.group,
                group_reporting: plan.group_reporting,
                unified_rw_reporting: plan.unified_rw_reporting,
                unified_beside: plan.unified_beside,
                number,
                ioengine: plan.ioengine.clone(),
                iodepth: plan.iodepth,
                class: plan.class,
                over_network: false,
                classes: Vec::new(),
                options: plan.options.clone(),
                error: 0,
                error_of: ErrorOf::Io,
                failure: None,
                total_errors: 0,
                started: Time::ZERO,
                over: Time::ZERO,
                finished: Time::ZERO,
                dirs: Default::default(),
                sync: Default::default(),
                chunks: Histogram::new(),
                user: Span::ZERO,
                system: Span::ZERO,
                context_switches: 0,
                depth_ios: 0,
                depth_level: [0; 7],
                depth_submit: [0; 7],
                depth_complete: [0; 7],
                clat_percentiles: plan.clat_percentiles,
                lat_percentiles: plan.lat_percentiles,
                slat_percentiles: plan.slat_percentiles,
                percentile_list: plan.percentile_list.clone(),
                logs: Vec::new(),
                reported: plan.reported,
                steady: None,
                depth_search: None,
                lateness: None,
                generated: 0,
                served: 0,
            },
            ramp_end: Time::ZERO,
            ramp_over: None,
            begun: None,
            bw: Default::default(),
            iops: Default::default(),
            bw_interval: plan.bw_interval,
            iops_interval: plan.iops_interval,
            logs: plan.logs.iter().map(|(k, p)| (*k, p.clone(), open(*k))).collect(),
            with_offset: plan.log_offset,
            cmdprios: plan.cmdprios.clone(),
            with_prio: plan.log_prio,
            per_job_logs: plan.per_job_logs,
            disable: [plan.disable_slat, plan.disable_clat, plan.disable_lat],
            calls_for_trims: plan.calls_for_trims,
            per_io: [LogKind::Bw, LogKind::Iops].map(|kind| {
                plan.log_average == Span::ZERO && plan.logs.iter().any(|(k, _)| *k == kind)
            }),
            unsampled: [plan.disable_bw, plan.gtod_reduce],
            over: Default::default(),
            ramping: plan.ramp > Span::ZERO,
            before: HostCounts::default(),
        }
    }

    /// The thread starts, and counts once `ramp` is over.
    pub fn start(&mut self, now: Time, ramp: Span) {
        self.begun.get_or_insert(now);
        self.ramp_end = now + ramp;
        if ramp > Span::ZERO {
            self.ramp_over = Some(self.ramp_end);
        }
        self.result.started = self.ramp_end;
        self.result.finished = self.ramp_end;
        self.over = Default::default();
        for sampler in self.bw.iter_mut().chain(&mut self.iops) {
            sampler.start(self.ramp_end);
        }
        for (_, _, log) in &mut self.logs {
            if let OpenLog::Rate { samplers, .. } = log {
                samplers.iter_mut().for_each(|s| s.start(self.ramp_end));
            }
        }
    }

    /// Forgets what was measured so far: `latency_target` reports its last window alone.
    pub fn restart(&mut self, now: Time) {
        self.result.dirs = Default::default();
        self.result.sync = Default::default();
        let end = Time(now.since(self.ramp_end).0);
        for (_, _, log) in &mut self.logs {
            match log {
                OpenLog::Latency(log) => log.restart(end),
                OpenLog::Hist(log) => log.restart(),
                OpenLog::Rate { .. } | OpenLog::PerIo(_) => {}
            }
        }
        self.ramping = true;
        self.start(now, Span::ZERO);
    }

    /// Whether this is the first time it is asked since the ramp is over.
    pub fn take_ramp(&mut self) -> bool {
        std::mem::take(&mut self.ramping)
    }

    /// The host counts from the thread's start: what it has counted now is left out.
    pub fn counted_before(&mut self, counts: HostCounts) {
        self.before = counts;
    }

    /// What the host has counted since the ramp: times, context switches, and fio's distributions of depth.
    pub fn set_counts(&mut self, counts: &HostCounts) {
        if self.ramping {
            return;
        }
        let (r, before) = (&mut self.result, &self.before);
        r.user = Span(counts.user - before.user);
        r.system = Span(counts.system - before.system);
        r.context_switches = counts.switches() - before.switches();
        let since = |now: [u64; 7], then: [u64; 7]| std::array::from_fn(|i| now[i] - then[i]);
        r.depth_level = since(counts.iodepth_level, before.iodepth_level);
        r.depth_submit = since(counts.iodepth_submit, before.iodepth_submit);
        r.depth_complete = since(counts.iodepth_complete, before.iodepth_complete);
        r.depth_ios =
            Ddir::RW.iter().map(|&d| counts.issued[d as usize] - before.issued[d as usize]).sum();
    }

    /// A job of cpuio has come to its end, or that of the run.
    pub fn computed(&mut self, chunks: &Histogram, now: Time) {
        self.result.chunks = chunks.clone();
        self.result.finished = self.ramp_end.max(now);
    }

    /// Whether an I/O finishing now is counted (the ramp is over).
    pub fn counts(&self, now: Time) -> bool {
        now >= self.ramp_end
    }

    /// Whether I/O came back, and all of it before the ramp was over.
    pub fn all_in_ramp(&self) -> bool {
        let back = self.result.served > self.result.total_errors;
        self.ramp_over.is_some() && back && !self.is_measured()
    }
    /// Whether an I/O or a sync is in its numbers.
    pub fn is_measured(&self) -> bool {
        let r = &self.result;
        r.dirs.iter().any(|dir| dir.total_ios > 0) || !r.sync.is_empty()
    }

    /// Takes a finished I/O.
    #[inline]
    pub fn add(&mut self, s: &Sample) {
        let r = &mut self.result;
        r.served += 1;
        if s.error != 0 {
            r.total_errors += 1;
            if r.error == 0 {
                r.error = s.error;
            }
            return;
        }
        if s.completed < self.ramp_end {
            return;
        }
        r.finished = r.finished.max(s.completed);
        let (slat, clat) = (s.submitted.since(s.issued).0, s.completed.since(s.submitted).0);
        if s.ddir.is_sync() {
            if s.sync == SyncOf::Job {
                r.sync.add(slat + clat);
            }
            return;
        }
        let d = s.ddir as usize;
        let dir = &mut r.dirs[d];
        went_on(dir, self.ramp_end, s);
        if s.class != r.class || !dir.classes.is_empty() {
            dir.add_class(s.class, r.class, &self.cmdprios[d], slat, clat);
        }
        dir.add(u64::from(s.len), slat, clat);
        // fio takes its samples from a log that has a line of each I/O.
        let [of_bw, of_iops] = self.per_io;
        let [no_bw, no_iops] = self.unsampled;
        if of_bw && !no_bw {
            dir.bw_kib.add(rate_of_one(s.len, clat) as f64);
        }
        if of_iops && !no_iops {
            dir.iops.add(1.0);
        }
        self.sample(s);
        if !self.logs.is_empty() {
            self.log(s, Some((slat, clat)));
        }
    }

    /// Samples of rates that come once in an interval.
    #[inline(always)]
    fn sample(&mut self, s: &Sample) {
        let (d, len) = (s.ddir as usize, u64::from(s.len));
        let dir = &mut self.result.dirs[d];
        let [of_bw, of_iops] = self.per_io;
        if !of_bw && let Some((kib, _)) = self.bw[d].add(s.completed, len, self.bw_interval) {
            dir.bw_kib.add(kib as f64);
        }
        if !of_iops && let Some((_, ios)) = self.iops[d].add(s.completed, len, self.iops_interval) {
            dir.iops.add(ios as f64);
        }
    }

    /// Takes an I/O without a call: fio counts it, and has no latency of it.
    #[cold]
    pub fn count(&mut self, s: &Sample) {
        let r = &mut self.result;
        r.served += 1;
        if s.completed < self.ramp_end {
            return;
        }
        r.finished = r.finished.max(s.completed);
        let dir = &mut r.dirs[s.ddir as usize];
        went_on(dir, self.ramp_end, s);
        dir.io_bytes += u64::from(s.len);
        dir.total_ios += 1;
        self.sample(s);
        if !self.logs.is_empty() {
            self.log(s, None);
        }
    }

    /// An I/O found no room, which ends the job as it is to end: fio counts no error, and no I/O.
    pub fn filled(&mut self) {
        self.result.served += 1;
    }

    /// The thread's work ends at `at`: fio stops the clocks of all directions with I/O then. `elsewhere`: their times
    /// in phases without I/O of them.
    pub fn over(&mut self, at: Time, elsewhere: [Span; 3]) {
        self.result.over = at;
        let time = at.0.saturating_sub(self.ramp_end.0);
        self.over = elsewhere.map(|span| Span(time.saturating_sub(span.0)));
    }
    /// The time of each direction, as it will be reported.
    pub fn times(&self) -> [Span; 3] {
        std::array::from_fn(|d| self.result.dirs[d].runtime.max(self.over[d]))
    }
    /// Its ramp, and from then to its last I/O.
    pub fn stretches(&self) -> [(Time, Time); 2] {
        let (from, last) = (self.begun.unwrap_or_default(), self.last());
        let counted = self.ramp_over.unwrap_or(from);
        [(from, counted), (counted, last)]
    }
    /// Whether an I/O of a direction of those that reports keep apart is in its numbers.
    pub fn has(&self, reported: usize) -> bool {
        match self.result.dirs.get(reported) {
            Some(dir) => dir.total_ios > 0,
            None => !self.result.sync.is_empty(),
        }
    }
    /// When the last I/O counted was back.
    pub fn last(&self) -> Time {
        self.result.finished
    }

    /// `latencies` are those of submission and of completion. Without them logs have rates alone.
    fn log(&mut self, s: &Sample, latencies: Option<(u64, u64)>) {
        let (slat, clat) = latencies.unwrap_or_default();
        let at = Time(s.completed.since(self.ramp_end).0);
        let line = |value| LogLine {
            at,
            value,
            ddir: s.ddir,
            bs: s.len,
            offset: s.offset,
            class: s.class,
        };
        let [no_bw, no_iops] = self.unsampled;
        let [no_slat, no_clat, _] = self.disable;
        let no_slat = no_slat || (self.calls_for_trims && s.ddir == Ddir::Trim);
        for (kind, _, log) in &mut self.logs {
            // fio's samples are the lines of these logs, bwavgtime or iopsavgtime apart.
            let interval = if *kind == LogKind::Bw { self.bw_interval } else { self.iops_interval };
            match log {
                OpenLog::Hist(_) | OpenLog::Latency(_) | OpenLog::PerIo(_)
                    if latencies.is_none() => {}
                OpenLog::Hist(_) if no_clat => {}
                OpenLog::Latency(_) if *kind == LogKind::Slat && no_slat => {}
                OpenLog::Hist(log) => {
                    log.add(at, s.ddir, s.len, &self.result.dirs[s.ddir as usize].clat);
                }
                OpenLog::Latency(log) => log.add(line(match kind {
                    LogKind::Slat => slat,
                    LogKind::Clat => clat,
                    _ => slat + clat,
                })),
                OpenLog::Rate { lines, samplers } => {
                    let sampler = &mut samplers[s.ddir as usize];
                    let sample = sampler.add(s.completed, u64::from(s.len), interval);
                    if let Some((kib, ios)) = sample {
                        let value = if *kind == LogKind::Bw { kib } else { ios };
                        lines.push(LogLine::averaged(at, value, s.ddir));
                    }
                }
                OpenLog::PerIo(_) if *kind == LogKind::Bw && no_bw => {}
                OpenLog::PerIo(_) if *kind == LogKind::Iops && no_iops => {}
                OpenLog::PerIo(lines) => lines.push(line(match kind {
                    LogKind::Bw => rate_of_one(s.len, clat),
                    _ => 1,
                })),
            }
        }
    }

    /// The statistics with their last intervals closed.
    pub fn finish(mut self) -> ThreadResult {
        let number = self.result.number;
        self.result.classes = classes::rows(std::slice::from_ref(&self.result));
        let [slat, clat, lat] = self.disable;
        if self.calls_for_trims {
            self.result.dirs[Ddir::Trim as usize].slat = Histogram::new();
        }
        for (dir, over) in self.result.dirs.iter_mut().zip(self.over) {
            if dir.total_ios > 0 {
                dir.runtime = dir.runtime.max(over);
            }
            if slat {
                dir.slat = Default::default();
            }
            if clat {
                dir.clat = Default::default();
                dir.classes.iter_mut().for_each(|c| c.clat = Default::default());
            }
            if lat {
                dir.lat = Default::default();
                dir.classes.iter_mut().for_each(|c| c.lat = Default::default());
            }
        }
        let end = Time(self.result.finished.since(self.ramp_end).0);
        self.result.logs = self
            .logs
            .into_iter()
            .map(|(kind, prefix, log)| {
                let (lines, hist) = match log {
                    OpenLog::Latency(log) => (log.finish(end), Vec::new()),
                    OpenLog::Rate { lines, .. } | OpenLog::PerIo(lines) => (lines, Vec::new()),
                    OpenLog::Hist(log) => (Vec::new(), log.lines),
                };
                Log {
                    prefix,
                    kind,
                    number: self.per_job_logs.then_some(number),
                    with_offset: self.with_offset,
                    with_prio: self.with_prio,
                    lines,
                    hist,
                }
            })
            .collect();
        self.result
    }
}
