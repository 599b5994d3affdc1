//! fio's terse output, version 3: one line a job, fields between semicolons, times in microseconds.

use crate::fio_version;
use crate::job::{GroupDir, Job, group_of, groups, jobs};
use crate::normal::put;
use crate::number::{finite, millis_up, per_second, percent, percentiles};
use std::fmt::Write;
use wordline_base::Histogram;
use wordline_sim::{DirResult, RunResult};

/// fio always writes twenty percentiles; those not asked for are `0%=0`.
const PERCENTILES: usize = 20;

fn latency(out: &mut String, h: &Histogram) {
    let (mean, stddev) = (finite(h.mean() / 1e3), finite(h.stddev() / 1e3));
    put!(out, ";{};{};{mean:.6};{stddev:.6}", h.min() / 1_000, h.max() / 1_000);
}

fn direction(out: &mut String, job: &Job, dir: &DirResult, group: &GroupDir) {
    let run = dir.runtime.0;
    let rate = per_second(dir.io_bytes, run) / 1024;
    let iops = per_second(dir.total_ios, run);
    put!(out, ";{};{rate};{iops};{}", dir.io_bytes >> 10, millis_up(run));
    latency(out, &dir.slat);
    latency(out, &dir.clat);
    let h = match (job.lat_percentiles, job.clat_percentiles) {
        (true, _) => Some(&dir.lat),
        (false, true) => Some(&dir.clat),
        (false, false) => None,
    };
    let list = if h.is_some() { job.percentile_list.as_slice() } else { &[] };
    for (percent, value) in list.iter().zip(h.map_or(Vec::new(), |h| percentiles(h, list))) {
        put!(out, ";{percent:.6}%={}", value / 1_000);
    }
    (list.len()..PERCENTILES).for_each(|_| out.push_str(";0%=0"));
    latency(out, &dir.lat);
    let bw = &dir.bw_kib;
    let share = match (bw.n, group.rate / 1024) {
        (0, _) => 0.0,
        (_, 0) => 100.0,
        (_, rate) => percent(bw.mean, rate as f64).min(100.0),
    };
    put!(out, ";{};{};{share:.6}%", bw.min as u64, bw.max as u64);
    put!(out, ";{:.6};{:.6}", finite(bw.mean), finite(bw.stddev()));
}

fn line(out: &mut String, version: &str, job: &Job, dirs: &[GroupDir; 3]) {
    put!(out, "3;{version};{};{};{}", job.name, job.group, job.error);
    direction(out, job, &job.dirs[0], &dirs[0]);
    if !job.mixed {
        direction(out, job, &job.dirs[1], &dirs[1]); // trims are not in version 3
    }
    if let Some(all) = &job.unified {
        direction(out, job, &all.dirs[0], &dirs[0]);
    }
    put!(out, ";{:.6}%;{:.6}%", job.cpu(job.user), job.cpu(job.system));
    put!(out, ";{};0;0", job.context_switches);
    job.depth_levels().iter().for_each(|share| put!(out, ";{share:3.1}%"));
    let [_, (_, mut us), (_, ms)] = job.latency_shares();
    // Version 3 has no nanoseconds: all of them are in the first class of microseconds.
    let ns: u64 = job.latency.ns.iter().sum();
    us[0] += percent(ns as f64, job.total_ios() as f64);
    us.iter().chain(&ms).for_each(|share| put!(out, ";{share:3.2}%"));
    if job.continue_on_error {
        put!(out, ";{};{}", job.total_errors, job.first_error);
    }
    if !job.description.is_empty() {
        put!(out, ";{}", job.description);
    }
    out.push('\n');
}

/// fio's terse output, version 3.
pub fn fio_terse(result: &RunResult) -> String {
    let jobs = jobs(result);
    let groups = groups(&jobs);
    let version = fio_version(&result.provenance.version);
    let mut out = String::new();
    for job in &jobs {
        line(&mut out, &version, job, &group_of(&groups, job).dirs);
    }
    out
}
