//! Distributions of latency whose tail can be drawn: percentiles on an axis of nines.

use crate::job::Job;
use crate::number::{finite, percentiles};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use wordline_base::time::covered;
use wordline_base::{Ddir, Histogram, IoClass, Span, Time};
use wordline_sim::DirResult;

/// Points of the axis to a nine: the n-th point is the percentage beyond which 10^(-n/20) of all lie.
const POINTS: usize = 20;
/// 10^(-n/20): the same on every machine, which a library's power is not.
const BEYOND: [f64; POINTS] = [
    1.0,
    0.8912509381337456,
    0.7943282347242815,
    0.7079457843841379,
    0.6309573444801932,
    0.5623413251903491,
    0.5011872336272722,
    0.44668359215096315,
    0.3981071705534972,
    0.35481338923357547,
    0.31622776601683794,
    0.28183829312644537,
    0.251188643150958,
    0.22387211385683395,
    0.19952623149688797,
    0.1778279410038923,
    0.15848931924611134,
    0.1412537544622754,
    0.12589254117941673,
    0.11220184543019636,
];
/// No axis has more nines.
const NINES: usize = 7;

/// Percentages of the table.
const TABLE: [f64; 7] = [50.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999];

/// The percentages of the axis, as far as one of `n` values lies beyond.
fn axis(n: u64) -> Vec<f64> {
    let tens = |power: usize| 10f64.powi(power as i32);
    let point = |i: usize| BEYOND[i % POINTS] / tens(i / POINTS);
    let points = (0..=NINES * POINTS).map(point);
    // A part of 1e-9 is rounding.
    let points = points.take_while(|beyond| beyond * n as f64 >= 1.0 - 1e-9);
    points.map(|beyond| 100.0 - 100.0 * beyond).collect()
}

fn distribution(ddir: &str, of: &str, name: &str, h: &Histogram) -> Value {
    // fio's percentiles are the middle of their bucket, which may lie beyond all that is in it.
    let within = |list: &[f64]| -> Vec<u64> {
        percentiles(h, list).into_iter().map(|ns| ns.clamp(h.min(), h.max())).collect()
    };
    let table: Map<String, Value> = TABLE
        .iter()
        .zip(within(&TABLE))
        .map(|(percent, ns)| (format!("{percent:.6}"), ns.into()))
        .collect();
    // I/Os whose latency is not kept (disable_lat, gtod_reduce).
    if h.is_empty() {
        return json!({ "ddir": ddir, "of": of, "name": name, "N": 0, "percentile": {}, "points_a_nine": POINTS, "ns": [] });
    }
    json!({
        "ddir": ddir,
        "of": of,
        "name": name,
        "N": h.len(),
        "min_ns": h.min(),
        "mean_ns": finite(h.mean()),
        "max_ns": h.max(),
        "percentile": table,
        "points_a_nine": POINTS,
        "ns": within(&axis(h.len())),
    })
}

/// What threads did in a direction, or in all (`mixed`), as their jobs are reported.
fn dirs_of<'a>(jobs: &'a [Job<'a>], ddir: &'a str) -> impl Iterator<Item = &'a DirResult> {
    let jobs = jobs.iter().filter(move |job| job.mixed == (ddir == "mixed"));
    let dirs = jobs.flat_map(|job| &job.threads).flat_map(|t| Ddir::RW.iter().zip(&t.dirs));
    let dirs = dirs.filter(move |(d, _)| ddir == "mixed" || d.name() == ddir).map(|(_, dir)| dir);
    dirs.filter(|dir| dir.total_ios > 0)
}

/// For how long threads did I/O of a direction: where several did at once, that time counts once.
/// What all have done in it is the rate of all, also where one ran after the other. Phases of one job by turns count as
/// if they followed each other.
fn ran<'a>(dirs: impl Iterator<Item = &'a DirResult>) -> Span {
    covered(dirs.map(|dir| (dir.began, Time(dir.began.0.saturating_add(dir.runtime.0)))).collect())
}

/// Total latency by direction, and where there are several, by job and by class.
pub fn latency_json(jobs: &[Job]) -> Value {
    let mut all: Vec<(&str, Histogram)> = Vec::new();
    let mut by_job = Vec::new();
    for job in jobs {
        for (i, lat) in job.latencies().iter().enumerate().filter(|(_, lat)| !lat.is_empty()) {
            let Some(ddir) = job.dir_name(i) else { continue };
            match all.iter_mut().find(|(known, _)| *known == ddir) {
                Some((_, sum)) => sum.merge(lat),
                None => all.push((ddir, (**lat).clone())),
            }
            by_job.push(distribution(ddir, "job", job.name, lat));
        }
    }
    for ddir in ["read", "write", "trim", "mixed"] {
        if dirs_of(jobs, ddir).next().is_some() && all.iter().all(|(known, _)| *known != ddir) {
            all.push((ddir, Histogram::default()));
        }
    }
    for job in jobs.iter().filter(|job| !job.sync.is_empty()) {
        match all.iter_mut().find(|(known, _)| *known == "sync") {
            Some((_, sum)) => sum.merge(&job.sync),
            None => all.push(("sync", job.sync.clone())),
        }
        by_job.push(distribution("sync", "job", job.name, &job.sync));
    }
    let of_all = |(ddir, h): &(&str, Histogram)| {
        let mut of = distribution(ddir, "all", "", h);
        if *ddir != "sync" {
            let sum = |of: fn(&DirResult) -> u64| {
                dirs_of(jobs, ddir).map(of).fold(0, u64::saturating_add)
            };
            of["ios"] = sum(|dir| dir.total_ios).into();
            of["bytes"] = sum(|dir| dir.io_bytes).into();
            of["ran_ns"] = ran(dirs_of(jobs, ddir)).0.into();
        }
        of
    };
    let mut list: Vec<Value> = all.iter().map(of_all).collect();
    if jobs.len() > 1 {
        list.append(&mut by_job);
    }
    let mut classes: BTreeMap<(usize, IoClass), Histogram> = BTreeMap::new();
    for thread in jobs.iter().filter(|job| !job.mixed).flat_map(|job| &job.threads) {
        for (d, dir) in thread.dirs.iter().enumerate() {
            if dir.classes.is_empty() && !dir.lat.is_empty() {
                classes.entry((d, thread.class)).or_default().merge(&dir.lat);
            }
            for c in dir.classes.iter().filter(|c| !c.lat.is_empty()) {
                classes.entry((d, c.class)).or_default().merge(&c.lat);
            }
        }
    }
    let first = classes.keys().next().map(|key| key.1);
    if classes.keys().any(|key| Some(key.1) != first) {
        let each = classes.iter().map(|((d, class), h)| {
            distribution(["read", "write", "trim"][*d], "class", &class.to_string(), h)
        });
        list.extend(each);
    }
    Value::Array(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_percentile_lies_beyond_the_slowest() {
        let mut h = Histogram::default();
        (0..1000).for_each(|_| h.add(9_362_036));
        assert!(percentiles(&h, &[99.0])[0] > h.max(), "the middle of the bucket is above it");
        let d = distribution("read", "all", "", &h);
        assert_eq!(d["percentile"]["99.000000"], 9_362_036);
        assert!(d["ns"].as_array().unwrap().iter().all(|ns| *ns == 9_362_036));
    }
    #[test]
    fn the_axis_goes_as_far_as_there_are_values() {
        let axis = |n| super::axis(n);
        assert_eq!(axis(1), [0.0]);
        assert_eq!(axis(10).len(), POINTS + 1);
        assert_eq!(axis(100_000).len(), 5 * POINTS + 1);
        assert_eq!(axis(u64::MAX).len(), NINES * POINTS + 1);
        let nines = axis(u64::MAX);
        let at: Vec<f64> = (0..=5).map(|n| nines[n * POINTS]).collect();
        for (at, wanted) in at.iter().zip([0.0, 90.0, 99.0, 99.9, 99.99, 99.999]) {
            assert!((at - wanted).abs() < 1e-12, "{at} for {wanted}");
        }
    }

    #[test]
    fn the_last_point_is_a_value_that_was_there() {
        let mut h = Histogram::new();
        (0..1000).for_each(|_| h.add(50));
        h.add(90);
        let d = distribution("read", "all", "", &h);
        let ns = d["ns"].as_array().unwrap();
        assert_eq!((&ns[0], ns.last().unwrap()), (&json!(50), &json!(50)));
        assert_eq!((&d["max_ns"], &d["percentile"]["99.999000"]), (&json!(90), &json!(90)));
    }
}
