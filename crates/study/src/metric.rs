//! Numbers out of a result.

use crate::error::{FormulaError, PathError};
use crate::expr::evaluate;
use crate::plan::Point;
use crate::spec::{Metric, Study};
use serde_json::Value;
use std::collections::BTreeMap;
use wordline_base::hist::least_for;
use wordline_profile::ConfigError;

/// What elements of arrays are known by.
const NAMES: [&str; 3] = ["jobname", "ddir", "name"];

/// What stands at a dotted path: keys; elements of arrays by position, or by the `jobname`, `ddir`
/// or `name` they have. A key may have dots itself. After a latency, `p99.9` is that percentile; after an array of
/// numbers `mean`, `sum`, `least` and `most` are what they say, and `last` is an element of any array.
pub fn value_at<'v>(result: &'v Value, path: &str) -> Result<Found<'v>, PathError> {
    let mut value = result;
    let mut rest = path;
    let mut in_counters = false;
    while !rest.is_empty() {
        let percent = rest.strip_prefix('p').and_then(|p| p.parse::<f64>().ok());
        let percent = percent.filter(|_| value.get(rest).is_none());
        if percent.is_some_and(|p| !(0.0..=100.0).contains(&p)) {
            return Err(PathError::Percent { path: path.into() });
        }
        // Nothing was as long as that.
        let of_latency =
            matches!(rest, "min" | "max" | "mean" | "stddev" | "bins") || percent.is_some();
        if of_latency && value["N"] == 0 && value.get("mean").is_some() {
            return Ok(Found::NoneThere);
        }
        if let Some(percent) = percent {
            let n = value["N"].as_u64().unwrap_or(u64::MAX);
            let least = least_for(percent);
            if n < least {
                return Ok(Found::TooFew { percent, n, least });
            }
            return percentile(value, percent).map(Found::Number).ok_or_else(|| {
                match value.get("N") {
                    Some(_) => PathError::NoPercentiles { path: path.into() },
                    None => PathError::NoLatency { path: path.into() },
                }
            });
        }
        let (mut key, mut after) = rest.split_once('.').unwrap_or((rest, ""));
        // Names of counters have dots.
        if let Value::Object(map) = value
            && !map.contains_key(key)
            && let Some(whole) = map.keys().find(|name| {
                let behind = rest.strip_prefix(name.as_str());
                behind.is_some_and(|behind| behind.is_empty() || behind.starts_with('.'))
            })
        {
            (key, after) = rest.split_at(whole.len());
            after = after.trim_start_matches('.');
        }
        if after.is_empty()
            && let Value::Array(items) = value
            && let Some(number) = of_all(key, items)
        {
            return Ok(Found::Number(number));
        }
        let next = match value {
            Value::Array(items) => match key.parse::<usize>() {
                Ok(i) => items.get(i),
                Err(_) if key == "last" => items.last(),
                Err(_) => {
                    let threads = items.iter().filter(|item| item["jobname"] == key).count();
                    if threads > 1 {
                        let (path, job) = (path.into(), key.into());
                        return Err(PathError::Clones { path, job, threads });
                    }
                    items.iter().find(|item| NAMES.iter().any(|&name| item[name] == key))
                }
            },
            _ => value.get(key),
        };
        if value.is_null() {
            return Ok(Found::Value(value));
        }
        let Some(next) = next else {
            if key == "bins" && value.get("N").is_some() {
                return Err(PathError::NoBins { path: path.into() });
            }
            let known = match value {
                Value::Object(map) => map.keys().cloned().collect::<Vec<_>>().join(", "),
                Value::Array(items) => format!("{} elements", items.len()),
                _ => "no keys".into(),
            };
            let none = PathError::NoKey { path: path.into(), key: key.into(), known };
            // Some counters, and what held LUNs, are told where there was any alone.
            let may_lack = value.is_array() || in_counters && value.is_object();
            return if may_lack { Ok(Found::Absent(none)) } else { Err(none) };
        };
        in_counters |= matches!(key, "counters" | "busy_by");
        (value, rest) = (next, after);
    }
    Ok(Found::Value(value))
}

#[derive(Debug)]
pub enum Found<'v> {
    Value(&'v Value),
    Number(f64),
    /// A latency of I/Os that there were none of.
    NoneThere,
    /// A percentile beyond which not one of `n` I/Os lies, of which there have to be `least`.
    TooFew {
        percent: f64,
        n: u64,
        least: u64,
    },
    /// An array without such an element, or counters without such a name; what an error would say.
    Absent(PathError),
}

/// The percentiles of a result for which there were too few I/Os, in words.
pub fn too_few(study: &Study, result: &Value) -> Vec<String> {
    let metrics = study.spec.metric.iter().filter_map(|m| Some((&m.name, m.path.as_ref()?)));
    let few = metrics.filter_map(|(name, path)| match value_at(result, path) {
        Ok(Found::TooFew { percent, n, least }) => Some(format!(
            "{name} has no value: {percent} % needs {least} I/Os, and {n} were counted"
        )),
        _ => None,
    });
    few.collect()
}

/// One number of a list of numbers that has one at least.
fn of_all(what: &str, items: &[Value]) -> Option<f64> {
    let all: Vec<f64> = items.iter().map(Value::as_f64).collect::<Option<_>>()?;
    let any = !all.is_empty();
    match what {
        "mean" => any.then(|| mean(all)),
        "sum" => any.then(|| all.iter().sum()),
        "least" => all.into_iter().reduce(f64::min),
        "most" => all.into_iter().reduce(f64::max),
        _ => None,
    }
}

/// From fio's table, or else from the histogram.
fn percentile(latency: &Value, percent: f64) -> Option<f64> {
    if let Some(value) = latency.get("percentile")?.get(format!("{percent:.6}")) {
        return value.as_f64();
    }
    let bins = bins(latency.get("bins")?)?;
    let total: u64 = bins.iter().map(|b| b.1).sum();
    let wanted = wordline_base::hist::rank(percent, total);
    let mut seen = 0;
    let at = bins.iter().find(|bin| {
        seen += bin.1;
        seen >= wanted
    });
    at.map(|bin| bin.0)
}

/// Whether a path leads to a percentile, which is the middle of a bucket of its histogram.
pub fn is_percentile(path: &str) -> bool {
    let percent = path.rsplit_once(".p").map(|(_, rest)| {
        let rest = rest.strip_prefix("ercentile.").unwrap_or(rest);
        rest.strip_suffix("_ns").unwrap_or(rest)
    });
    percent.is_some_and(|p| p.parse::<f64>().is_ok())
}

/// Midpoints and counts, ascending.
pub fn bins(value: &Value) -> Option<Vec<(f64, u64)>> {
    let bin = |(key, n): (&String, &Value)| Some((key.parse::<f64>().ok()?, n.as_u64()?));
    let mut bins: Vec<(f64, u64)> = value.as_object()?.iter().map(bin).collect::<Option<_>>()?;
    bins.sort_by(|a, b| a.0.total_cmp(&b.0));
    Some(bins)
}

/// The metrics of every point; none where a point has no result or no such number (no write was
/// amplified, say).
pub fn extract(
    study: &Study,
    points: &[Point],
    results: &[Option<Value>],
) -> Result<Vec<Vec<Option<f64>>>, ConfigError> {
    let mut table: Vec<Vec<Option<f64>>> = vec![Vec::new(); points.len()];
    for (m, metric) in study.spec.metric.iter().enumerate() {
        for (i, result) in results.iter().enumerate() {
            let value = match result {
                None => None,
                Some(result) => {
                    let place = format!("metric.{m}");
                    of_point(study, metric, &points[i], result, &table[i])
                        .map_err(|e| study.document.error(&place, e.to_string()))?
                }
            };
            table[i].push(value);
        }
        if let Some(other) = &metric.relative_to {
            let own: Vec<Option<f64>> = table.iter().map(|row| row[m]).collect();
            for (i, row) in table.iter_mut().enumerate() {
                let base = counterpart(points, &points[i], other).and_then(|k| own[k]);
                row[m] = own[i].zip(base).map(|(a, b)| a / b).filter(|x| x.is_finite());
            }
        }
        if let Some(others) = &metric.mean_of {
            let own: Vec<Option<f64>> = table.iter().map(|row| row[m]).collect();
            for (i, row) in table.iter_mut().enumerate() {
                let picked = points.iter().zip(&own).filter(|(p, _)| beside(p, &points[i], others));
                let all: Option<Vec<f64>> = picked.map(|(_, value)| *value).collect();
                let wanted: usize = others.values().map(|choice| choice.0.len()).product();
                // The mean of all of them or none.
                row[m] = all.filter(|all| all.len() == wanted).map(mean);
            }
        }
    }
    Ok(table)
}

/// The point that differs by these values only.
pub fn counterpart(points: &[Point], point: &Point, values: &crate::spec::Values) -> Option<usize> {
    let wanted = |(name, value): &(String, String)| {
        (name.clone(), values.get(name).map_or_else(|| value.clone(), |v| v.0.clone()))
    };
    let wanted: Vec<_> = point.values.iter().map(wanted).collect();
    points.iter().position(|p| p.values == wanted)
}

/// Whether a point is `point` with some of these values instead.
pub(crate) fn beside(other: &Point, point: &Point, values: &crate::spec::At) -> bool {
    other.values.iter().zip(&point.values).all(|(a, b)| match values.get(&a.0) {
        Some(choice) => choice.0.iter().any(|v| v.0 == a.1),
        None => a == b,
    })
}

fn mean(values: Vec<f64>) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn of_point(
    study: &Study,
    metric: &Metric,
    point: &Point,
    result: &Value,
    before: &[Option<f64>],
) -> Result<Option<f64>, PathError> {
    let value = match (&metric.path, &metric.formula) {
        (Some(path), _) => match value_at(result, path)? {
            Found::Number(x) => Some(x),
            Found::Value(Value::Null) | Found::TooFew { .. } => None,
            Found::NoneThere => metric.absent,
            Found::Value(value) => {
                let none = || PathError::NoNumber { path: path.clone() };
                Some(value.as_f64().ok_or_else(none)?)
            }
            Found::Absent(message) => Some(metric.absent.ok_or(message)?),
        },
        (None, Some(text)) => formula(study, text, point, before),
        (None, None) => None,
    };
    Ok(value.map(|x| x * metric.scale).filter(|x| x.is_finite()))
}

/// A formula over a point's metrics and variables; none if one of them has no value there.
pub fn formula(study: &Study, text: &str, point: &Point, metrics: &[Option<f64>]) -> Option<f64> {
    let names = study.spec.metric.iter().map(|m| m.name.as_str());
    let known: BTreeMap<&str, Option<f64>> = names.zip(metrics.iter().copied()).collect();
    evaluate(text, &mut |name| {
        let variable = || point.vars.get(name).and_then(|v| v.parse().ok());
        known
            .get(name)
            .copied()
            .flatten()
            .or_else(variable)
            .ok_or_else(|| FormulaError::NoValue(name.into()))
    })
    .ok()
    .filter(|x| x.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_lead_to_numbers() {
        let result = json!({
            "jobs": [{"jobname": "r", "read": {"iops": 5.5, "lat_ns": {"N": 100,
                "percentile": {"99.000000": 70}, "bins": {"100": 1, "9": 98, "70": 1}}},
                "write": {"clat_ns": {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0}}}],
            "wordline": {"layers": [{"ddir": "read", "count": 3}], "wa": null,
                "functions": [{"name": "bio", "ns": 1}, {"name": "nvme_poll", "ns": 7}],
                "counters": {"device.bytes": 9, "device.bytes_read": 4},
                "luns": [0.5, 0.25, 0.75], "empty": []},
        });
        let number = |path: &str| match value_at(&result, path)? {
            Found::Number(x) => Ok(x),
            Found::Value(v) => v.as_f64().ok_or(PathError::NoNumber { path: path.into() }),
            Found::Absent(message) => Err(message),
            Found::NoneThere => Ok(-1.0),
            Found::TooFew { least, .. } => Ok(-(least as f64)),
        };
        for (path, wanted) in [
            ("jobs.r.read.iops", 5.5),
            ("jobs.0.read.iops", 5.5),
            ("jobs.r.write.clat_ns.p99", -1.0),
            ("jobs.r.write.clat_ns.mean", -1.0),
            ("jobs.r.write.clat_ns.N", 0.0),
            ("jobs.r.read.lat_ns.p99", 70.0),
            ("jobs.r.read.lat_ns.p98", 9.0),
            ("jobs.r.read.lat_ns.p99.9", -1_000.0),
            ("jobs.r.read.lat_ns.p99.99", -10_000.0),
            ("wordline.layers.read.count", 3.0),
            ("wordline.functions.nvme_poll.ns", 7.0),
            ("wordline.counters.device.bytes_read", 4.0),
            ("wordline.counters.device.bytes", 9.0),
            ("wordline.luns.mean", 0.5),
            ("wordline.luns.sum", 1.5),
            ("wordline.luns.least", 0.25),
            ("wordline.luns.most", 0.75),
            ("wordline.luns.2", 0.75),
            ("wordline.luns.last", 0.75),
            ("wordline.functions.last.ns", 7.0),
        ] {
            assert_eq!(number(path), Ok(wanted), "{path}");
        }
        let absent = value_at(&result, "wordline.counters.device.none");
        assert!(matches!(absent, Ok(Found::Absent(_))), "{absent:?}");
        assert!(matches!(value_at(&result, "wordline.wa.of.it"), Ok(Found::Value(Value::Null))));
        let none = value_at(&result, "wordline.empty.mean");
        assert!(matches!(none, Ok(Found::Absent(_))), "{none:?}");
        let error = number("jobs.w.read").unwrap_err().to_string();
        assert!(error.contains("no 'w', but 1 elements"), "{error}");
        for path in
            ["jobs.r.read.lat_ns.p110", "jobs.r.read.lat_ns.p100.5", "jobs.r.write.clat_ns.p110"]
        {
            assert_eq!(number(path), Err(PathError::Percent { path: path.into() }));
        }
        assert_eq!(number("jobs.r.read.lat_ns.p100"), Ok(100.0));
        assert!(
            number("jobs.r.raed").unwrap_err().to_string().contains("no 'raed', but jobname, read")
        );
    }

    #[test]
    fn percentiles_are_told_from_other_numbers() {
        for path in [
            "jobs.r.read.clat_ns.p99.99",
            "a.p50",
            "a.over_time.4.p99_ns",
            "a.percentile.99.000000",
        ] {
            assert!(is_percentile(path), "{path}");
        }
        for path in
            ["jobs.p.read.iops", "jobs.r.read.clat_ns.mean", "wordline.machine.programs", "p"]
        {
            assert!(!is_percentile(path), "{path}");
        }
    }

    /// It would be the slowest of them.
    #[test]
    fn a_percentile_of_too_few_is_told() {
        let metric = |name: &str, p: &str| {
            format!("[[metric]]\nname = \"{name}\"\npath = \"jobs.r.read.lat_ns.{p}\"\n")
        };
        let text =
            "[study]\ntitle = \"T\"\nshows = \"s\"\n[base]\ndevice = \"z-ssd-small\"\njob = \"[r]\"\n[[axis]]\n\
                    name = \"seed\"\nvalues = [1]\n"
                .to_owned();
        let text = text + &metric("p99", "p99") + &metric("p9999", "p99.99");
        let study = Study::parse("t", "t.toml", &text).unwrap();
        let of = |n: u64| {
            let latency = json!({"N": n, "percentile": {}, "bins": {"7": n}});
            too_few(&study, &json!({"jobs": [{"jobname": "r", "read": {"lat_ns": latency}}]}))
        };
        assert_eq!(
            of(9_999),
            ["p9999 has no value: 99.99 % needs 10000 I/Os, and 9999 were counted"]
        );
        assert_eq!((of(10_000).len(), of(99).len()), (0, 2));
    }
}
