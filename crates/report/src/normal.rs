//! fio's normal output: a block for each job, then a line for each direction of each group.

use crate::job::{
    Group, GroupDir, Job, LATENCY_NAMES, PrioLatency, error_text, group_of, groups, jobs,
};
use crate::number::{
    EPOCH, finite, iops_text, kib_rate_texts, millis_up, per_second, percentiles, rate_texts,
    scaled, size_texts,
};
use std::fmt::Write;
use wordline_base::Histogram;
use wordline_sim::RunResult;

/// Writing to a `String` cannot fail.
macro_rules! put {
    ($out:expr, $($args:tt)*) => { { let _ = write!($out, $($args)*); } };
}
pub(crate) use put;

fn latency_line(out: &mut String, name: &str, h: &Histogram) {
    if h.is_empty() {
        return;
    }
    let s = scaled(h);
    put!(out, "    {name} ({}): min={}, max={}, ", s.unit, s.min, s.max);
    put!(out, "avg={:5.2}, stdev={:5.2}\n", finite(s.mean), finite(s.stddev));
}

/// fio's table: as many columns as fit on a line of eighty, one unit for all.
fn percentile_table(out: &mut String, name: &str, h: &Histogram, list: &[f64], precision: usize) {
    if h.is_empty() || list.is_empty() {
        return;
    }
    let values = percentiles(h, list);
    let (min, max) = (values[0], values[values.len() - 1]);
    let (unit, thousands) = if min > 2_000_000 && max > 99_999_999 {
        ("msec", 2)
    } else if min > 2_000 && max > 99_999 {
        ("usec", 1)
    } else {
        ("nsec", 0)
    };
    let digits = (max / 1_000u64.pow(thousands)).checked_ilog10().unwrap_or(0) as usize + 1;
    let width = digits.max(5);
    let columns = (73 / (precision + 10 + width)).max(1);
    put!(out, "    {name} percentiles ({unit}):\n");
    for (i, (percent, value)) in list.iter().zip(&values).enumerate() {
        if i % columns == 0 {
            out.push_str("     |");
        }
        let value = (0..thousands).fold(*value, |v, _| v.div_ceil(1_000));
        put!(out, " {percent:w$.precision$}th=[{value:width$}]", w = precision + 3);
        let last = i + 1 == list.len();
        out.push_str(if last { "" } else { "," });
        if last || (i + 1) % columns == 0 {
            out.push('\n');
        }
    }
}

fn direction(out: &mut String, job: &Job, index: usize, group: &GroupDir) {
    let (dir, Some(name)) = (&job.dirs[index], job.dir_name(index)) else { return };
    let run = dir.runtime.0;
    if dir.io_bytes == 0 || run == 0 {
        return;
    }
    let iops = iops_text(per_second(dir.total_ios, run));
    let (rate, rate_si) = rate_texts(per_second(dir.io_bytes, run));
    let (size, _) = size_texts(dir.io_bytes);
    put!(out, "  {name}: IOPS={iops}, BW={rate} ({rate_si})({size}/{}msec)", millis_up(run));
    out.push_str(if name == "write" { "; 0 zone resets\n" } else { "\n" });
    latency_line(out, "slat", &dir.slat);
    latency_line(out, "clat", &dir.clat);
    latency_line(out, " lat", &dir.lat);
    let prios = job.prios_of(index);
    let prio_name = |p: &PrioLatency| {
        let (class, level) = p.parts();
        format!("{} prio {class}/{level}", job.prio_latency())
    };
    prios.iter().for_each(|p| latency_line(out, &prio_name(p), &p.latency));
    let list = &job.percentile_list;
    for (on, name, h) in [
        (job.slat_percentiles, "slat", &dir.slat),
        (job.clat_percentiles, "clat", &dir.clat),
        (job.lat_percentiles, "lat", &dir.lat),
    ] {
        if on {
            percentile_table(out, name, h, list, job.precision);
        }
    }
    if job.clat_percentiles || job.lat_percentiles {
        let all = if job.lat_percentiles { &dir.lat } else { &dir.clat }.len();
        for p in prios {
            let share = 100.0 * p.latency.len() as f64 / all as f64;
            let name = format!("{} ({share:.2}% of IOs)", prio_name(p));
            percentile_table(out, &name, &p.latency, list, job.precision);
        }
    }
    let bw = &dir.bw_kib;
    if bw.n > 0 {
        let share = group.share(bw.mean);
        let (unit, by) = if bw.mean > 1024.0 * 1024.0 { ("MiB", 1024.0) } else { ("KiB", 1.0) };
        let (min, max) = ((bw.min / by) as u64, (bw.max / by) as u64);
        put!(out, "   bw ({unit:>5}/s): min={min:5}, max={max:5}, per={share:3.2}%, ");
        let (mean, stddev) = (finite(bw.mean / by), finite(bw.stddev() / by));
        put!(out, "avg={mean:5.2}, stdev={stddev:5.2}, samples={}\n", bw.n);
    }
    let iops = &dir.iops;
    if iops.n > 0 {
        put!(out, "   iops        : min={:5}, max={:5}, ", iops.min as u64, iops.max as u64);
        let (mean, stddev) = (finite(iops.mean), finite(iops.stddev()));
        put!(out, "avg={mean:5.2}, stdev={stddev:5.2}, samples={}\n", iops.n);
    }
}

/// Five shares to a line; those that are zero are left out.
fn latency_shares(out: &mut String, job: &Job) {
    for (unit, shares) in job.latency_shares() {
        let shown: Vec<String> = LATENCY_NAMES
            .iter()
            .zip(&shares)
            .filter(|(_, share)| **share > 0.0)
            .map(|(name, share)| format!("{name}={share:3.2}%"))
            .collect();
        let unit = match unit {
            "ns" => "nsec",
            "us" => "usec",
            _ => "msec",
        };
        for line in shown.chunks(5) {
            put!(out, "  lat ({unit})   : {}\n", line.join(", "));
        }
    }
}

fn depths(out: &mut String, title: &str, names: [&str; 7], shares: [f64; 7]) {
    let shown: Vec<String> =
        names.iter().zip(shares).map(|(name, share)| format!("{name}={share:3.1}%")).collect();
    put!(out, "{title}: {}\n", shown.join(", "));
}

fn job_block(out: &mut String, job: &Job, group: &Group) {
    if job.io_bytes() == 0 && job.total_ios() == 0 {
        return;
    }
    put!(out, "{}: (groupid={}, jobs={}): ", job.name, job.group, job.threads.len());
    put!(out, "err={:2}", job.error);
    if job.error != 0 {
        put!(out, " (func={}, error={})", job.func, error_text(job.error));
    }
    put!(out, ": pid={}: {EPOCH}\n", job.number);
    if !job.description.is_empty() {
        put!(out, "  Description  : [{}]\n", job.description);
    }
    for (i, group) in group.dirs.iter().enumerate() {
        direction(out, job, i, group);
    }
    if let Some(all) = &job.unified {
        // fio takes the share of the group's reads.
        direction(out, all, 0, &group.dirs[0]);
    }
    latency_shares(out, job);
    if !job.sync.is_empty() {
        out.push_str("  fsync/fdatasync/sync_file_range:\n");
        latency_line(out, "sync", &job.sync);
        percentile_table(out, "sync", &job.sync, &job.percentile_list, job.precision);
    }
    let (user, system) = (job.cpu(job.user), job.cpu(job.system));
    put!(out, "  cpu          : usr={user:3.2}%, sys={system:3.2}%, ");
    put!(out, "ctx={}, majf=0, minf=0\n", job.context_switches);
    let calls = ["0", "4", "8", "16", "32", "64", ">=64"];
    depths(out, "  IO depths    ", ["1", "2", "4", "8", "16", "32", ">=64"], job.depth_levels());
    depths(out, "     submit    ", calls, job.depth_submits());
    depths(out, "     complete  ", calls, job.depth_completes());
    let [r, w, t] = &job.dirs;
    put!(out, "     issued rwts: total={},{},{},", r.total_ios, w.total_ios, t.total_ios);
    put!(out, "{} short={},{},", job.sync.len(), r.short_ios, w.short_ios);
    put!(out, "{},0 dropped={},{},{},0\n", t.short_ios, r.drop_ios, w.drop_ios, t.drop_ios);
    if job.continue_on_error {
        put!(out, "     errors    : total={}, ", job.total_errors);
        put!(out, "first_error={}/<{}>\n", job.first_error, error_text(job.first_error));
    }
    let (target, window, percentile, depth) = job.searched();
    if depth > 0 {
        put!(out, "     latency   : target={target}, window={window}, ");
        put!(out, "percentile={percentile:.2}%, depth={depth}\n");
    }
    if let Some(s) = job.steady {
        let mean = |list: &[u64]| list.iter().sum::<u64>() / list.len().max(1) as u64;
        let (bw, bw_si) = kib_rate_texts(mean(&s.bw) / 1024);
        put!(out, "  steadystate  : attained={}, ", if s.attained { "yes" } else { "no" });
        put!(out, "bw={bw} ({bw_si}), iops={}, ", iops_text(mean(&s.iops)));
        put!(
            out,
            "{}{}=",
            if s.of_iops { "iops" } else { "bw" },
            if s.slope { " slope" } else { " mean dev" }
        );
        put!(out, "{:.3}{}\n", finite(s.criterion), if s.percent { "%" } else { "" });
    }
}

fn group_block(out: &mut String, group: &Group) {
    put!(out, "\nRun status group {} (all jobs):\n", group.id);
    // A group that has jobs of both kinds has neither name in fio.
    let (mixed, both) = (group.mixed && !group.both, group.both && !group.mixed);
    let all = both.then(|| group.unified());
    let names = ["   READ", "  WRITE", "   TRIM", "  MIXED"];
    for (name, dir) in names.iter().zip(group.dirs.iter().chain(&all)) {
        if dir.max_run_ns == 0 {
            continue;
        }
        let name = if mixed { "  MIXED" } else { name };
        let (rate, rate_si) = rate_texts(dir.rate);
        let (min, min_si) = rate_texts(dir.min_rate);
        let (max, max_si) = rate_texts(dir.max_rate);
        let (io, io_si) = size_texts(dir.io_bytes);
        put!(out, "{name}: bw={rate} ({rate_si}), {min}-{max} ({min_si}-{max_si}), ");
        let (from, to) = (millis_up(dir.min_run_ns), millis_up(dir.max_run_ns));
        put!(out, "io={io} ({io_si}), run={from}-{to}msec\n");
    }
}

/// fio's normal output from the first job's line on. It begins with an empty line, as fio's does.
pub fn fio_normal(result: &RunResult) -> String {
    let jobs = jobs(result);
    let groups = groups(&jobs);
    let mut out = String::from("\n");
    for job in &jobs {
        job_block(&mut out, job, group_of(&groups, job));
    }
    for group in &groups {
        group_block(&mut out, group);
    }
    out
}
