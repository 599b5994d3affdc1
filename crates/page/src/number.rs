//! Numbers as pages write them, and the numbers by which results are told apart.

use crate::{NoInterval, Outcome};
use serde_json::Value;

/// Thousands apart.
pub fn grouped(text: &str) -> String {
    let (sign, text) = text.strip_prefix('-').map_or(("", text), |rest| ("\u{2212}", rest));
    let (whole, rest) = text.split_once('.').map_or((text, None), |(w, r)| (w, Some(r)));
    let mut out = String::from(sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(rest) = rest {
        out.push('.');
        out += rest;
    }
    out
}

/// So many digits, or all before the point.
pub fn digits(x: f64, n: i32) -> String {
    if x == 0.0 || !x.is_finite() {
        return "0".into();
    }
    let decimals = |x: f64| (n - 1 - x.abs().log10().floor() as i32).max(0) as usize;
    let text = format!("{x:.*}", decimals(x));
    // Rounding may have made a digit more.
    let again = text.parse::<f64>().unwrap_or(x);
    let text = if again == 0.0 { text } else { format!("{x:.*}", decimals(again)) };
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    grouped(text)
}

/// What a number counts, and so how it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// I/Os a second.
    Rate,
    /// Bytes a second.
    Bandwidth,
    /// Nanoseconds.
    Time,
    /// A ratio.
    Factor,
    /// From 0 to 1.
    Share,
    Watts,
    Cores,
}

impl Unit {
    /// The number and its unit.
    pub fn parts(self, x: f64) -> (String, &'static str) {
        let by = |list: &[(&'static str, f64)], n: i32| {
            let (unit, by) =
                list.iter().find(|(_, by)| x.abs() >= *by).unwrap_or(&list[list.len() - 1]);
            (digits(x / by, n), *unit)
        };
        match self {
            Unit::Rate => by(&[("M/s", 1e6), ("k/s", 1e3), ("/s", 1.0)], 4),
            Unit::Bandwidth => {
                let (k, m, g) = (1024.0, 1048576.0, 1073741824.0);
                by(&[("GiB/s", g), ("MiB/s", m), ("KiB/s", k), ("B/s", 1.0)], 4)
            }
            Unit::Time => by(&[("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)], 4),
            Unit::Factor => (digits(x, 3), ""),
            Unit::Share => (digits(x * 100.0, 3), "%"),
            Unit::Watts => (digits(x, 3), "W"),
            Unit::Cores => (digits(x, 3), ""),
        }
    }
    /// A number beside `mean`: in the same unit.
    pub fn text_as(self, x: f64, mean: f64) -> String {
        let (whole, unit) = self.parts(mean);
        let by = match whole.replace(',', "").replace('\u{2212}', "-").parse::<f64>() {
            Ok(written) if written != 0.0 && mean != 0.0 => mean / written,
            _ => return self.text(x),
        };
        // The ratio is a power of the unit but for what rounding took away.
        let by = match self {
            Unit::Bandwidth => 1024f64.powf((by.ln() / 1024f64.ln()).round()),
            Unit::Share => 0.01,
            _ => 1000f64.powf((by.ln() / 1000f64.ln()).round()),
        };
        let number = digits(x / by, 2);
        if unit.is_empty() { number } else { format!("{number}\u{a0}{unit}") }
    }
    pub fn text(self, x: f64) -> String {
        let (number, unit) = self.parts(x);
        if unit.is_empty() { number } else { format!("{number}\u{a0}{unit}") }
    }
}

pub fn time(ns: f64) -> String {
    Unit::Time.text(ns)
}

/// A table's unit of time: its longest decides.
pub fn table_unit(longest_ns: f64) -> (&'static str, f64) {
    if longest_ns < 1e8 { ("µs", 1e3) } else { ("ms", 1e6) }
}

/// Whether more of a number is better.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Better {
    More,
    Less,
    Neither,
}

/// A number of a result.
#[derive(Clone, PartialEq, Debug)]
pub struct Key {
    /// For finding it.
    pub id: String,
    pub what: String,
    pub unit: Unit,
    pub better: Better,
}

pub const PERCENTILES: [(&str, &str); 5] = [
    ("p50", "50.000000"),
    ("p99", "99.000000"),
    ("p99_9", "99.900000"),
    ("p99_99", "99.990000"),
    ("p99_999", "99.999000"),
];

/// Directions in which I/Os came back.
pub fn directions(run: &Value) -> Vec<String> {
    let all = run["wordline"]["latency"].as_array().into_iter().flatten();
    let any = |d: &Value| ["N", "ios"].iter().any(|key| d[key].as_u64() > Some(0));
    let all = all.filter(|d| d["of"] == "all" && any(d));
    all.filter_map(|d| d["ddir"].as_str().map(str::to_owned)).collect()
}

/// The distribution of a direction's latency.
pub fn distribution<'a>(run: &'a Value, ddir: &str) -> Option<&'a Value> {
    run["wordline"]["latency"].as_array()?.iter().find(|d| d["of"] == "all" && d["ddir"] == ddir)
}

/// What all results together have too few I/Os for, a direction a line: the first percentile that one of them lacks.
pub fn too_few(runs: &[&Value]) -> Vec<String> {
    let fewest = |ddir: &str| {
        let count = |run: &&Value| distribution(run, ddir)?["N"].as_u64();
        runs.iter().map(|run| count(run).unwrap_or(0)).min()
    };
    let mut all: Vec<String> = runs.iter().flat_map(|run| directions(run)).collect();
    all.sort_unstable();
    all.dedup();
    // Latencies that jobs do not keep need no longer run.
    let kept = |run: &&Value, ddir: &str| {
        distribution(run, ddir).is_none_or(|d| d["N"].as_u64() > Some(0))
    };
    all.retain(|ddir| runs.iter().all(|run| kept(run, ddir)));
    let line = |ddir: String| {
        let n = fewest(&ddir)?;
        let lacks = |p: &&(&str, &str)| {
            runs.iter().any(|run| value(run, &format!("{ddir}.{}", p.0)).is_none())
        };
        let (_, percent) = PERCENTILES.iter().find(lacks)?;
        let needed = least_for(percent.parse().ok()?);
        let percent = percent.trim_end_matches('0').trim_end_matches('.');
        Some(format!(
            "{percent} % needs {needed} {} in each run; the fewest are {n}",
            plural(&ddir)
        ))
    };
    all.into_iter().filter_map(line).collect()
}

/// The program that ran and those beside it, each with its path in the result.
pub fn programs(run: &Value) -> impl Iterator<Item = (String, &Value)> {
    let w = &run["wordline"];
    let with = w["with"].as_array().into_iter().flatten().enumerate();
    let own = Some(&w["app"]).filter(|app| app.is_object());
    let with = with.map(|(i, program)| (format!("wordline.with.{i}"), program));
    own.map(|app| ("wordline.app".to_owned(), app)).into_iter().chain(with)
}

/// Operations of programs: the program's name, the operation's, and what it has come to.
fn operations(run: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    programs(run).flat_map(|(_, program)| {
        let name = program["name"].as_str().unwrap_or_default();
        let all = program["operations"].as_object().into_iter().flatten();
        all.map(move |(operation, o)| (name, operation.as_str(), o))
    })
}

/// What ids of operations begin with.
pub const OPERATION: &str = "operation.";

/// So many I/Os a percentile needs, as the program counts them: one lies beyond it.
pub fn least_for(percent: f64) -> u64 {
    (100.0 / (100.0 - percent) - 1e-6).ceil() as u64
}

/// A percentile of so many. None where fewer than one lies beyond it: that is the slowest, and no percentile.
pub fn percentile(what: &str, n: &Value, percentiles: &Value) -> Option<f64> {
    let key = PERCENTILES.iter().find(|p| p.0 == what)?.1;
    let enough = n.as_u64()? >= least_for(key.parse().ok()?);
    enough.then(|| percentiles[key].as_f64()).flatten()
}

/// A number of an operation, by its id without [`OPERATION`].
fn of_operation(run: &Value, id: &str) -> Option<f64> {
    let (of, what) = id.rsplit_once('.')?;
    // Names may have dots.
    let is = |program: &str, operation: &str| {
        of.strip_suffix(operation).and_then(|of| of.strip_suffix('.')) == Some(program)
    };
    let o = operations(run).find(|(program, operation, _)| is(program, operation))?.2;
    let lat = &o["lat_ns"];
    match what {
        _ if o["total"].as_u64() == Some(0) => None,
        "rate" => o["per_s"].as_f64(),
        "mean" | "max" => lat[what].as_f64(),
        _ => percentile(what, &o["total"], &lat["percentile"]),
    }
}

/// A number by its id; none where the result has none.
pub fn value(run: &Value, id: &str) -> Option<f64> {
    if let Some(id) = id.strip_prefix(OPERATION) {
        return of_operation(run, id);
    }
    let m = &run["wordline"]["machine"];
    let Some((ddir, what)) = id.split_once('.') else {
        return match id {
            "write_amplification" => m["write_amplification"]["factor_with_parity"].as_f64(),
            "write_amplification_without_parity" => m["write_amplification"]["factor"].as_f64(),
            "reads_waited" => {
                let all = m["user_flash_reads"].as_f64().filter(|n| *n > 0.0)?;
                Some(m["user_reads_waited"].as_f64()? / all)
            }
            "luns" => mean(m["luns"].as_array()?),
            "cores" => {
                let idle = m["cores"].as_array()?.iter().filter_map(|c| c["idle"].as_f64());
                let idle: Vec<f64> = idle.collect();
                (!idle.is_empty()).then(|| idle.iter().map(|i| 1.0 - i).sum())
            }
            "watts" => m["total_w"].as_f64().filter(|w| *w > 0.0),
            _ => None,
        };
    };
    let sum = |key: &str| {
        let jobs = run["jobs"].as_array()?;
        let all: Vec<f64> = jobs.iter().filter_map(|j| j[ddir][key].as_f64()).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>())
    };
    let d = distribution(run, ddir)?;
    // Jobs that did not run at once have no rate together that is the sum of theirs. fio's counts of jobs have chunks of
    // computing among them.
    let rate = |own: &str, of_jobs: &str| {
        let n = d[own].as_f64().or_else(|| sum(of_jobs))?;
        Some(n * 1e9 / d["ran_ns"].as_f64().filter(|ns| *ns > 0.0)?)
    };
    match what {
        "iops" => rate("ios", "total_ios"),
        "bw" => rate("bytes", "io_bytes"),
        "mean" => d["mean_ns"].as_f64(),
        "max" => d["max_ns"].as_f64(),
        _ => percentile(what, &d["N"], &d["percentile"]),
    }
}

fn mean(list: &[Value]) -> Option<f64> {
    let all: Vec<f64> = list.iter().filter_map(Value::as_f64).collect();
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
}

/// Mean, percentiles and maximum of one latency. `key` takes a number, `id` makes its id.
fn latencies(
    key: &mut impl FnMut(String, String, Unit, Better),
    id: &dyn Fn(&str) -> String,
    what: &str,
) {
    let mut time =
        |of: &str, at: &str| key(id(of), format!("{what}, {at}"), Unit::Time, Better::Less);
    time("mean", "mean");
    for (p, percent) in PERCENTILES {
        time(p, &format!("{} %", percent.trim_end_matches('0').trim_end_matches('.')));
    }
    time("max", "slowest");
}

/// The numbers of results, those that at least one of them has.
pub fn keys(runs: &[&Value]) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut key = |id: String, what: String, unit, better| {
        if runs.iter().any(|run| value(run, &id).is_some()) {
            keys.push(Key { id, what, unit, better });
        }
    };
    let mut all: Vec<(&str, &str)> = Vec::new();
    for (program, operation, _) in runs.iter().flat_map(|run| operations(run)) {
        if !all.contains(&(program, operation)) {
            all.push((program, operation));
        }
    }
    let several = all.iter().any(|(program, _)| *program != all[0].0);
    for (program, operation) in all {
        let id = |what: &str| format!("{OPERATION}{program}.{operation}.{what}");
        let name = if several { format!("{program} {operation}") } else { operation.into() };
        key(id("rate"), format!("{name} operations a second"), Unit::Rate, Better::More);
        latencies(&mut key, &id, &format!("{name} operation"));
    }
    let mut all: Vec<String> = Vec::new();
    for run in runs {
        for ddir in directions(run) {
            if !all.contains(&ddir) {
                all.push(ddir);
            }
        }
    }
    for ddir in &all {
        let id = |what: &str| format!("{ddir}.{what}");
        let s = plural(ddir);
        key(id("iops"), format!("{s} a second"), Unit::Rate, Better::More);
        key(id("bw"), format!("{ddir} bandwidth"), Unit::Bandwidth, Better::More);
        latencies(&mut key, &id, &format!("{ddir} latency"));
    }
    key("write_amplification".into(), "write amplification".into(), Unit::Factor, Better::Less);
    let parity = |run: &&Value| {
        run["wordline"]["machine"]["write_amplification"]["parity_sectors"].as_u64() > Some(0)
    };
    if runs.iter().any(parity) {
        let id = "write_amplification_without_parity";
        key(id.into(), "of it without parity".into(), Unit::Factor, Better::Less);
    }
    key("reads_waited".into(), "flash reads that waited".into(), Unit::Share, Better::Less);
    key("luns".into(), "LUNs busy, mean".into(), Unit::Share, Better::Neither);
    key("cores".into(), "host cores busy".into(), Unit::Cores, Better::Less);
    key("watts".into(), "power of the drive".into(), Unit::Watts, Better::Less);
    keys
}

pub fn plural(ddir: &str) -> String {
    if ddir == "mixed" { "I/Os".into() } else { format!("{ddir}s") }
}

/// The share of a percentile that it may be off by: it is the middle of a bucket, which is at most 1/64 of its values
/// wide.
pub const BUCKET: f64 = 1.0 / 128.0;

/// So many seeds as means and their intervals are over.
pub fn repeat_times(times: u32) -> Result<u32, NoInterval> {
    if (2..=1000).contains(&times) { Ok(times) } else { Err(NoInterval) }
}

/// A number under several seeds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// How many.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// Sample variance.
    pub variance: f64,
    /// A value may be off by so much: a percentile is the middle of its bucket.
    pub known_to: f64,
    /// The least of them.
    pub least: f64,
    /// The most of them.
    pub most: f64,
}

/// Student's t for 95 % on both sides, by degrees of freedom from 1.
const T95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// Cautious between whole degrees of freedom: the fewer.
pub fn t95(degrees: f64) -> f64 {
    match degrees.floor() as usize {
        0 => T95[0],
        n if n <= T95.len() => T95[n - 1],
        n if n < 60 => T95[29],
        n if n < 120 => 2.000,
        _ => 1.980,
    }
}

impl Spread {
    /// Of the values under each seed, if there is one.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if least == most {
            // Their sum may be rounded.
            return Some(Spread { n, mean: least, variance: 0.0, known_to: 0.0, least, most });
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
        let variance = squares / (n - 1) as f64;
        Some(Spread { n, mean, variance, known_to: 0.0, least, most })
    }
    /// Half of the 95 % confidence interval of the mean, and no less than what a value is known to; none of one value.
    pub fn half(&self) -> Option<f64> {
        let n = self.n as f64;
        (self.n > 1).then(|| (t95(n - 1.0) * (self.variance / n).sqrt()).max(self.known_to))
    }
    /// Half of the 95 % confidence interval of the difference of two means (Welch).
    pub fn half_of_difference(&self, other: &Spread) -> Option<f64> {
        if self.n < 2 || other.n < 2 {
            return None;
        }
        let (a, b) = (self.variance / self.n as f64, other.variance / other.n as f64);
        let known_to = self.known_to + other.known_to;
        if a + b == 0.0 {
            return Some(known_to);
        }
        let parts = a * a / (self.n - 1) as f64 + b * b / (other.n - 1) as f64;
        Some((t95((a + b) * (a + b) / parts) * (a + b).sqrt()).max(known_to))
    }
}

/// A number over the seeds of an outcome; none where one of them lacks it.
pub fn spread(outcome: &Outcome, id: &str) -> Option<Spread> {
    let all: Option<Vec<f64>> = outcome.runs.iter().map(|run| value(run, id)).collect();
    let is_percentile = |what: &str| PERCENTILES.iter().any(|(name, _)| *name == what);
    let spread = Spread::of(&all?)?;
    let known_to = match id.rsplit_once('.') {
        Some((_, what)) if is_percentile(what) => spread.mean * BUCKET,
        _ => 0.0,
    };
    Some(Spread { known_to, ..spread })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_written_with_their_units() {
        for (unit, x, text) in [
            (Unit::Time, 1_107_456.0, "1.107\u{a0}ms"),
            (Unit::Time, 9_999_999.0, "10\u{a0}ms"),
            (Unit::Time, 119_000.0, "119\u{a0}µs"),
            (Unit::Time, 0.0, "0\u{a0}ns"),
            (Unit::Rate, 22_667.6, "22.67\u{a0}k/s"),
            (Unit::Bandwidth, 92_846_634.0, "88.55\u{a0}MiB/s"),
            (Unit::Factor, 6.0409, "6.04"),
            (Unit::Share, 0.9876, "98.8\u{a0}%"),
        ] {
            assert_eq!(unit.text(x), text);
        }
        for (unit, x, mean, text) in [
            (Unit::Rate, 68.69, 5422.0, "0.069\u{a0}k/s"),
            (Unit::Bandwidth, 281_395.0, 22_208_839.7, "0.27\u{a0}MiB/s"),
            (Unit::Time, 12_345.0, 3_719_000.0, "0.012\u{a0}ms"),
            (Unit::Share, 0.0012, 0.5, "0.12\u{a0}%"),
            (Unit::Factor, 0.05, 3.88, "0.05"),
        ] {
            assert_eq!(unit.text_as(x, mean), text);
        }
        assert_eq!(grouped("-1234567.5"), "\u{2212}1,234,567.5");
        assert_eq!(digits(123_456.0, 3), "123,456");
    }

    /// Programs have rows for their operations, in front of those of I/Os. Of two programs each is named.
    #[test]
    fn operations_of_programs_are_numbers() {
        let get = |total: u64| {
            let percentile = json!({ "50.000000": 7000, "99.000000": 9000, "99.900000": 9500 });
            let lat = json!({ "mean": 7100.0, "max": 9900, "percentile": percentile });
            json!({ "total": total, "per_s": 1250.5, "lat_ns": lat })
        };
        let app =
            |name: &str| json!({ "name": name, "operations": { "get": get(500), "scan": get(0) } });
        let one = json!({ "wordline": { "app": app("kv-read"), "machine": { "luns": [0.5] } } });
        let names = |run: &Value| keys(&[run]).into_iter().map(|key| key.what).collect::<Vec<_>>();
        assert_eq!(
            names(&one),
            [
                "get operations a second",
                "get operation, mean",
                "get operation, 50 %",
                "get operation, 99 %",
                "get operation, slowest",
                "LUNs busy, mean"
            ]
        );
        let of = |id: &str| value(&one, &format!("operation.kv-read.get.{id}"));
        assert_eq!([of("rate"), of("p99"), of("p99_9")], [Some(1250.5), Some(9000.0), None]);
        let dotted = json!({ "wordline": { "app": app("kv.v2") } });
        assert_eq!(value(&dotted, "operation.kv.v2.get.mean"), Some(7100.0));
        let two = json!({ "wordline": { "app": app("kv-read"), "with": [app("sort")] } });
        let two = names(&two);
        assert!(two.contains(&"kv-read get operation, 99 %".into()), "{two:?}");
        assert!(two.contains(&"sort get operations a second".into()), "{two:?}");
    }

    #[test]
    fn equal_values_have_no_spread_of_rounding() {
        // A third of their sum is another number.
        let watts = 0.1;
        assert_ne!((watts + watts + watts) / 3.0, watts);
        let s = Spread::of(&[watts; 3]).unwrap();
        assert_eq!((s.mean, s.variance, s.half()), (watts, 0.0, Some(0.0)));
    }

    /// A percentile is the middle of a bucket: that all seeds are in one does not make it exact.
    #[test]
    fn percentiles_are_known_to_their_bucket() {
        let run = |mean: f64| {
            let percentile = json!({ "99.000000": 3_686_400 });
            let of = json!({ "ddir": "read", "of": "all", "N": 10_000, "mean_ns": mean, "percentile": percentile });
            json!({ "wordline": { "latency": [of] } })
        };
        let outcome = Outcome { name: String::new(), runs: vec![run(1e6), run(1e6)], ended: None };
        let half = |id: &str| spread(&outcome, id).unwrap().half().unwrap();
        assert_eq!(half("read.p99"), 3_686_400.0 / 128.0);
        assert_eq!(half("read.mean"), 0.0);
        let p99 = spread(&outcome, "read.p99").unwrap();
        assert_eq!(p99.half_of_difference(&p99), Some(3_686_400.0 / 64.0));
    }

    #[test]
    fn confidence_intervals_are_students() {
        // Mean 10, deviation 1.5811, n 5: 2.776 * 1.5811 / sqrt(5) = 1.963.
        let s = Spread::of(&[8.0, 9.0, 10.0, 11.0, 12.0]).unwrap();
        assert_eq!((s.mean, s.least, s.most), (10.0, 8.0, 12.0));
        assert!((s.half().unwrap() - 1.963).abs() < 1e-3);
        // The same spread twice: 8 degrees of freedom, 2.306 * sqrt(2 * 0.5) = 2.306.
        assert!((s.half_of_difference(&s).unwrap() - 2.306).abs() < 1e-9);
        let one = Spread::of(&[3.0]).unwrap();
        assert_eq!((one.half(), one.half_of_difference(&s)), (None, None));
        assert_eq!((t95(0.5), t95(1e9)), (12.706, 1.980));
    }
}
