//! What fio calls a thread's status: one thread, or the threads of a group merged, and the group's
//! own line.

use crate::number::{finite, millis_up, per_second, percentile_list, share};
use std::borrow::Cow;
use wordline_base::hist::midpoint;
use wordline_base::{Histogram, IoClass, Span};
use wordline_sim::{
    DepthSearch, DirResult, ErrorOf, RunResult, SampleStats, SteadyResult, ThreadResult,
};

/// Upper bounds of fio's latency shares, exclusive, in each of the three units.
pub const LATENCY_BOUNDS: [u64; 11] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000];
pub const LATENCY_NAMES: [&str; 12] =
    ["2", "4", "10", "20", "50", "100", "250", "500", "750", "1000", "2000", ">=2000"];

/// Counts below 1 us, below 1 ms, and the rest.
#[derive(Clone, Default)]
pub struct LatencyCounts {
    pub ns: [u64; 10],
    pub us: [u64; 10],
    pub ms: [u64; 12],
}

impl LatencyCounts {
    /// fio counts each completion latency exactly; from the histogram a bucket that straddles a
    /// bound goes where its middle lies.
    fn add(&mut self, h: &Histogram) {
        let class = |value: u64| LATENCY_BOUNDS.iter().take_while(|&&b| value >= b).count();
        for (bucket, count) in h.buckets() {
            let value = midpoint(bucket).clamp(h.min(), h.max());
            let slot = match value {
                0..1_000 => &mut self.ns[class(value)],
                1_000..1_000_000 => &mut self.us[class(value / 1_000)],
                _ => &mut self.ms[class(value / 1_000_000)],
            };
            *slot += count;
        }
    }
}

/// Latency of the I/Os of one priority.
pub struct PrioLatency {
    pub ioprio: u16,
    pub latency: Histogram,
}

impl PrioLatency {
    /// fio's class and level.
    pub fn parts(&self) -> (u16, u16) {
        (self.ioprio >> 13, self.ioprio & 7)
    }
}

/// One entry of fio's `jobs`.
pub struct Job<'a> {
    pub name: &'a str,
    pub description: &'a str,
    pub group: u32,
    pub number: u32,
    pub threads: Vec<&'a ThreadResult>,
    /// All directions counted in the first, under the name "mixed".
    pub mixed: bool,
    /// With directions apart, all of them as one beside them.
    pub unified: Option<Box<Job<'a>>>,
    pub dirs: [DirResult; 3],
    /// By direction and priority, in fio's order: completion latency, or total latency with
    /// `lat_percentiles`.
    pub prios: [Vec<PrioLatency>; 3],
    pub sync: Histogram,
    pub user: u64,
    pub system: u64,
    pub context_switches: u64,
    /// Summed over the members, in nanoseconds, and in milliseconds each rounded down.
    pub run_ns: u64,
    pub run_ms: u64,
    /// Reads, writes and trims issued, of which the depths are shares.
    pub depth_ios: u64,
    pub depth_level: [u64; 7],
    pub depth_submit: [u64; 7],
    pub depth_complete: [u64; 7],
    pub latency: LatencyCounts,
    pub error: i32,
    /// What it was doing, as fio calls it.
    pub func: &'static str,
    pub first_error: i32,
    pub total_errors: u64,
    pub continue_on_error: bool,
    pub iodepth: u32,
    pub steady: Option<&'a SteadyResult>,
    pub depth_search: Option<DepthSearch>,
    pub options: &'a [(String, String)],
    pub slat_percentiles: bool,
    pub clat_percentiles: bool,
    pub lat_percentiles: bool,
    pub percentile_list: Vec<f64>,
    /// Decimals of the percentages in the normal output.
    pub precision: usize,
}

/// The line of `Run status group` for one direction. Rates in bytes a second.
#[derive(Clone, Copy, Default)]
pub struct GroupDir {
    pub io_bytes: u64,
    pub rate: u64,
    pub min_rate: u64,
    pub max_rate: u64,
    pub min_run_ns: u64,
    pub max_run_ns: u64,
}

impl GroupDir {
    /// The mean of a job's bandwidth samples as a percentage of the group's bandwidth.
    pub fn share(&self, mean_kib: f64) -> f64 {
        if self.rate <= 1024 {
            return 100.0;
        }
        // fio hands the mean on as an int.
        let mean = (finite(mean_kib) as i32) as f64;
        (mean * 100.0 / (self.rate as f64 / 1024.0)).min(100.0)
    }
}

pub struct Group {
    pub id: u32,
    pub mixed: bool,
    /// A line of all directions is beside those of each.
    pub both: bool,
    pub dirs: [GroupDir; 3],
}

impl Group {
    /// All directions: fio adds their bandwidths up, and takes the extremes of theirs.
    pub fn unified(&self) -> GroupDir {
        let with = self.dirs.iter().filter(|dir| dir.max_run_ns > 0).copied();
        let add = |a: GroupDir, b: GroupDir| GroupDir {
            io_bytes: a.io_bytes.saturating_add(b.io_bytes),
            rate: a.rate.saturating_add(b.rate),
            min_rate: a.min_rate.min(b.min_rate),
            max_rate: a.max_rate.max(b.max_rate),
            min_run_ns: a.min_run_ns.min(b.min_run_ns),
            max_run_ns: a.max_run_ns.max(b.max_run_ns),
        };
        with.reduce(add).unwrap_or_default()
    }
}

/// Bandwidths and rates of threads that run side by side add up.
fn add_samples(to: &mut SampleStats, from: &SampleStats) {
    to.n = to.n.saturating_add(from.n);
    to.min += from.min;
    to.max += from.max;
    to.mean += from.mean;
    to.m2 += from.m2;
}

fn add_dir(to: &mut DirResult, from: &DirResult) {
    to.io_bytes = to.io_bytes.saturating_add(from.io_bytes);
    to.total_ios = to.total_ios.saturating_add(from.total_ios);
    to.short_ios = to.short_ios.saturating_add(from.short_ios);
    to.drop_ios = to.drop_ios.saturating_add(from.drop_ios);
    to.runtime = to.runtime.max(from.runtime);
    to.slat.merge(&from.slat);
    to.clat.merge(&from.clat);
    to.lat.merge(&from.lat);
    add_samples(&mut to.bw_kib, &from.bw_kib);
    add_samples(&mut to.iops, &from.iops);
}

/// fio's sum_clat_prio_stats: without `cmdprio` all I/Os have their thread's priority.
fn add_prios(to: &mut Vec<PrioLatency>, dir: &DirResult, thread: &ThreadResult) {
    let mut add = |class: IoClass, clat: &Histogram, lat: &Histogram| {
        let (h, ioprio) = (if thread.lat_percentiles { lat } else { clat }, class.ioprio());
        match to.iter_mut().find(|p| p.ioprio == ioprio) {
            Some(p) => p.latency.merge(h),
            None => to.push(PrioLatency { ioprio, latency: h.clone() }),
        }
    };
    if dir.classes.is_empty() {
        add(thread.class, &dir.clat, &dir.lat);
    }
    dir.classes.iter().for_each(|c| add(c.class, &c.clat, &c.lat));
}

fn add_counts(to: &mut [u64; 7], from: &[u64; 7]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = to.saturating_add(*from);
    }
}

/// An option of the job's section, or else of the global ones; the last one written counts.
fn option<'a>(result: &'a RunResult, thread: &'a ThreadResult, name: &str) -> Option<&'a str> {
    let find = |options: &'a [(String, String)]| {
        options.iter().rev().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    };
    find(&thread.options).or_else(|| find(&result.global_options))
}

/// Whether all directions are reported as one, and none by itself.
pub fn is_mixed(thread: &ThreadResult) -> bool {
    thread.unified_rw_reporting && !thread.unified_beside
}

/// fio shows as many decimals as the longest percentage has as written.
fn precision(written: Option<&str>, list: &[f64]) -> usize {
    let decimals = |text: &str| text.split_once('.').map_or(0, |(_, d)| d.trim().len());
    let longest = match written {
        Some(text) => text.split([':', ',']).map(decimals).max(),
        None => list.iter().map(|p| decimals(&p.to_string())).max(),
    };
    longest.unwrap_or(0).min(20)
}

impl<'a> Job<'a> {
    /// fio's first member gives the name and what is fixed for a group.
    fn new(thread: &'a ThreadResult) -> Job<'a> {
        let all = || Box::new(Job { mixed: true, ..Job::empty(thread) });
        let beside = thread.unified_rw_reporting && thread.unified_beside;
        Job { mixed: is_mixed(thread), unified: beside.then(all), ..Job::empty(thread) }
    }

    fn empty(thread: &'a ThreadResult) -> Job<'a> {
        Job {
            name: &thread.name,
            description: thread.description.as_deref().unwrap_or(""),
            group: thread.group,
            number: thread.number,
            threads: Vec::new(),
            mixed: false,
            unified: None,
            dirs: Default::default(),
            prios: Default::default(),
            sync: Histogram::new(),
            user: 0,
            system: 0,
            context_switches: 0,
            run_ns: 0,
            run_ms: 0,
            depth_ios: 0,
            depth_level: [0; 7],
            depth_submit: [0; 7],
            depth_complete: [0; 7],
            latency: LatencyCounts::default(),
            error: 0,
            func: IO_ERROR,
            first_error: 0,
            total_errors: 0,
            continue_on_error: false,
            iodepth: 0,
            steady: None,
            depth_search: None,
            options: &[],
            slat_percentiles: false,
            clat_percentiles: false,
            lat_percentiles: false,
            percentile_list: Vec::new(),
            precision: 0,
        }
    }

    /// Counts are summed; of settings, fio's last member wins.
    fn add(&mut self, result: &'a RunResult, thread: &'a ThreadResult) {
        if let Some(all) = &mut self.unified {
            all.add(result, thread);
        }
        self.threads.push(thread);
        for (i, dir) in thread.dirs.iter().enumerate() {
            let to = if self.mixed { 0 } else { i };
            add_dir(&mut self.dirs[to], dir);
            add_prios(&mut self.prios[to], dir, thread);
            self.latency.add(&dir.clat);
        }
        self.add_chunks(&thread.chunks);
        self.sync.merge(&thread.sync);
        let Span(run) = thread.finished.max(thread.over).since(thread.started);
        self.run_ns = self.run_ns.saturating_add(run);
        self.run_ms = self.run_ms.saturating_add(run / 1_000_000);
        self.user = self.user.saturating_add(thread.user.0);
        self.system = self.system.saturating_add(thread.system.0);
        self.context_switches = self.context_switches.saturating_add(thread.context_switches);
        self.depth_ios = self.depth_ios.saturating_add(thread.depth_ios);
        add_counts(&mut self.depth_level, &thread.depth_level);
        add_counts(&mut self.depth_submit, &thread.depth_submit);
        add_counts(&mut self.depth_complete, &thread.depth_complete);
        if self.error == 0 {
            self.error = thread.error;
            self.func = func_of(thread);
        }
        self.first_error = thread.error;
        self.total_errors = self.total_errors.saturating_add(thread.total_errors);
        self.continue_on_error = !matches!(
            option(result, thread, "continue_on_error").map(str::trim),
            None | Some("" | "none" | "0")
        );
        self.iodepth = thread.iodepth;
        self.steady = thread.steady.as_ref();
        self.depth_search = thread.depth_search;
        self.options = &thread.options;
        self.slat_percentiles = thread.slat_percentiles;
        self.clat_percentiles = thread.clat_percentiles;
        self.lat_percentiles = thread.lat_percentiles;
        self.percentile_list = percentile_list(&thread.percentile_list);
        self.precision =
            precision(option(result, thread, "percentile_list"), &self.percentile_list);
    }

    /// To fio a stretch of computing is a read of no bytes, one in flight at a time.
    fn add_chunks(&mut self, chunks: &Histogram) {
        let (n, reads) = (chunks.len(), &mut self.dirs[0]);
        reads.total_ios = reads.total_ios.saturating_add(n);
        reads.clat.merge(chunks);
        reads.lat.merge(chunks);
        self.latency.add(chunks);
        self.depth_ios = self.depth_ios.saturating_add(n);
        for (counts, bucket) in
            [(&mut self.depth_level, 0), (&mut self.depth_submit, 1), (&mut self.depth_complete, 1)]
        {
            counts[bucket] = counts[bucket].saturating_add(n);
        }
    }

    /// fio's target in nanoseconds, its window in microseconds, the percentile, and the depth: without a
    /// target that of the job.
    pub fn searched(&self) -> (u64, u64, f64, u32) {
        match self.depth_search {
            Some(s) => (s.target.0, s.window.0 / 1_000, s.percentile, s.depth),
            None => (0, 0, 100.0, self.iodepth),
        }
    }

    /// Latencies of I/Os by direction, without the chunks of computing that fio counts as reads.
    pub fn latencies(&self) -> [Cow<'_, Histogram>; 3] {
        if self.threads.iter().all(|thread| thread.chunks.is_empty()) {
            return self.dirs.each_ref().map(|dir| Cow::Borrowed(&dir.lat));
        }
        let mut sums: [Histogram; 3] = Default::default();
        for thread in &self.threads {
            for (i, dir) in thread.dirs.iter().enumerate() {
                sums[if self.mixed { 0 } else { i }].merge(&dir.lat);
            }
        }
        sums.map(Cow::Owned)
    }

    pub fn total_ios(&self) -> u64 {
        self.dirs.iter().fold(0, |sum, d| sum.saturating_add(d.total_ios))
    }
    pub fn io_bytes(&self) -> u64 {
        self.dirs.iter().fold(0, |sum, d| sum.saturating_add(d.io_bytes))
    }
    pub fn cpu(&self, ns: u64) -> f64 {
        crate::number::percent(ns as f64, self.run_ns as f64)
    }

    pub fn depth_levels(&self) -> [f64; 7] {
        let total = self.depth_ios;
        self.depth_level.map(|n| share(n, total, 0.1))
    }
    pub fn depth_submits(&self) -> [f64; 7] {
        of_calls(&self.depth_submit)
    }
    pub fn depth_completes(&self) -> [f64; 7] {
        of_calls(&self.depth_complete)
    }

    /// Percent of all I/Os, by unit.
    pub fn latency_shares(&self) -> [(&'static str, Vec<f64>); 3] {
        let total = self.total_ios();
        let of = |counts: &[u64]| counts.iter().map(|&n| share(n, total, 0.01)).collect();
        [("ns", of(&self.latency.ns)), ("us", of(&self.latency.us)), ("ms", of(&self.latency.ms))]
    }

    /// Priorities that I/Os had, if they had more than one: fio shows no others.
    pub fn prios_of(&self, dir: usize) -> Vec<&PrioLatency> {
        let with_samples = self.prios[dir].iter().filter(|p| !p.latency.is_empty());
        let list: Vec<_> = with_samples.collect();
        if list.len() < 2 { Vec::new() } else { list }
    }
    /// What the latency by priority is.
    pub fn prio_latency(&self) -> &'static str {
        if self.lat_percentiles { "lat" } else { "clat" }
    }

    /// The name of a direction in fio's output; none where all are in the first.
    pub fn dir_name(&self, dir: usize) -> Option<&'static str> {
        match (self.mixed, dir) {
            (true, 0) => Some("mixed"),
            (true, _) => None,
            (false, dir) => Some(["read", "write", "trim"][dir]),
        }
    }
}

/// Every call counts in exactly one class.
fn of_calls(counts: &[u64; 7]) -> [f64; 7] {
    let total = counts.iter().fold(0u64, |sum, &n| sum.saturating_add(n));
    counts.map(|n| share(n, total, 0.1))
}

/// fio's entries: neighbours of one group become one if the later of them asks for it.
pub fn jobs(result: &RunResult) -> Vec<Job<'_>> {
    let mut jobs: Vec<Job> = Vec::new();
    let mut last = None;
    for thread in result.threads.iter().filter(|thread| thread.reported) {
        if !thread.group_reporting || last != Some(thread.group) || jobs.is_empty() {
            jobs.push(Job::new(thread));
        }
        last = Some(thread.group);
        let job = jobs.last_mut().expect("pushed above if there was none");
        job.add(result, thread);
    }
    jobs
}

/// fio's groups, by number.
pub fn groups(jobs: &[Job]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for job in jobs {
        let at = match groups.binary_search_by_key(&job.group, |g| g.id) {
            Ok(at) => at,
            Err(at) => {
                let dirs = Default::default();
                let new = Group { id: job.group, mixed: false, both: false, dirs };
                groups.insert(at, new);
                at
            }
        };
        let group = &mut groups[at];
        group.mixed |= job.mixed;
        group.both |= job.unified.is_some();
        for (to, dir) in group.dirs.iter_mut().zip(&job.dirs) {
            let run = dir.runtime.0;
            if run == 0 {
                continue;
            }
            let rate = per_second(dir.io_bytes, run);
            let first = to.max_run_ns == 0;
            to.min_rate = if first { rate } else { to.min_rate.min(rate) };
            to.min_run_ns = if first { run } else { to.min_run_ns.min(run) };
            to.max_rate = to.max_rate.max(rate);
            to.max_run_ns = to.max_run_ns.max(run);
            to.io_bytes = to.io_bytes.saturating_add(dir.io_bytes);
            to.rate = per_second(to.io_bytes, to.max_run_ns);
        }
    }
    groups
}

/// The group of a job; every job has one.
pub fn group_of<'g>(groups: &'g [Group], job: &Job) -> &'g Group {
    let at = groups.binary_search_by_key(&job.group, |g| g.id);
    &groups[at.expect("groups are built from the jobs")]
}

/// Whole seconds since the machine was switched on, rounded up, as fio counts them.
pub fn elapsed_seconds(result: &RunResult) -> u64 {
    let end = result.threads.iter().map(|t| t.finished.max(t.over).0).max().unwrap_or(0);
    millis_up(end).div_ceil(1_000)
}

/// Of an I/O that failed.
const IO_ERROR: &str = "io_u error";

/// Where fio says that a job's error was: td_verror of lat_fatal, of the least rate, and of all I/O.
fn func_of(thread: &ThreadResult) -> &'static str {
    match thread.error_of {
        ErrorOf::Latency => "max latency exceeded",
        ErrorOf::Rate => "check_min_rate",
        ErrorOf::Io => IO_ERROR,
    }
}

/// Linux's words for an error number.
pub fn error_text(error: i32) -> String {
    let text = match error {
        0 => "Success",
        1 => "Operation not permitted",
        2 => "No such file or directory",
        4 => "Interrupted system call",
        5 => "Input/output error",
        6 => "No such device or address",
        11 => "Resource temporarily unavailable",
        12 => "Cannot allocate memory",
        13 => "Permission denied",
        16 => "Device or resource busy",
        19 => "No such device",
        22 => "Invalid argument",
        27 => "File too large",
        28 => "No space left on device",
        30 => "Read-only file system",
        52 => "Invalid exchange",
        61 => "No data available",
        62 => "Timer expired",
        67 => "Link has been severed",
        75 => "Value too large for defined data type",
        84 => "Invalid or incomplete multibyte or wide character",
        95 => "Operation not supported",
        110 => "Connection timed out",
        121 => "Remote I/O error",
        125 => "Operation canceled",
        _ => return format!("Unknown error {error}"),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precision_follows_the_text() {
        let default = [1.0, 99.0, 99.5, 99.99];
        assert_eq!(precision(None, &default), 2);
        assert_eq!(precision(None, &[50.0, 99.0]), 0);
        assert_eq!(precision(Some("50:99.000"), &[50.0, 99.0]), 3);
    }

    #[test]
    fn latency_classes_have_exclusive_upper_bounds() {
        let mut h = Histogram::new();
        for v in [0, 1, 2, 3, 4, 9, 10, 99, 100, 249, 250] {
            h.add(v);
        }
        let mut counts = LatencyCounts::default();
        counts.add(&h);
        assert_eq!(counts.ns, [2, 2, 2, 1, 0, 1, 2, 1, 0, 0]);
        for (value, unit, class) in
            [(1_000, 1, 0), (1_999_000, 2, 0), (750_000_000, 2, 9), (3_000_000_000, 2, 11)]
        {
            let mut h = Histogram::new();
            h.add(value);
            let mut counts = LatencyCounts::default();
            counts.add(&h);
            let found = if unit == 1 { counts.us[class] } else { counts.ms[class] };
            assert_eq!(found, 1, "{value}");
        }
    }
}
