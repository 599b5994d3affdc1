//! Results as they are in files.

use crate::PageError;
use serde_json::Value;

/// The layout that this version writes and reads: `wordline.result_format`.
const FORMAT: u64 = 2;

/// A result, or the results of one job under several seeds.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The file, or what else tells it from others.
    pub name: String,
    /// One for each seed.
    pub runs: Vec<Value>,
    /// Why there are fewer than were asked for.
    pub ended: Option<String>,
}

impl Outcome {
    /// The result that pictures are of: the first seed's.
    pub fn first(&self) -> &Value {
        &self.runs[0]
    }
    /// Several seeds.
    pub fn is_repeated(&self) -> bool {
        self.runs.len() > 1
    }
}

/// Results in JSON, one for each seed, as [`read`] takes them; `ended`: why there are fewer than were asked for.
pub fn repeats(runs: &[String], ended: Option<&str>) -> String {
    let ended =
        ended.map_or(String::new(), |words| format!("\"ended\": {},\n", Value::from(words)));
    format!("{{{ended}\"repeats\": [\n{}]}}\n", runs.join(","))
}

/// Reads what `--output-format json` or `json+` wrote, with `--repeat` or without, or a study's point.
pub fn read(name: &str, text: &str) -> Result<Outcome, PageError> {
    let mut value: Value = serde_json::from_str(text)
        .map_err(|e| PageError::NotJson { name: name.into(), why: e.to_string() })?;
    if value["key"].is_string() && value["result"].is_object() {
        value = value["result"].take();
    }
    let ended = value["ended"].as_str().map(str::to_owned);
    let mut runs = match value.get_mut("repeats") {
        Some(Value::Array(runs)) if !runs.is_empty() => std::mem::take(runs),
        _ => vec![value],
    };
    runs.iter_mut().try_for_each(|run| check(name, run))?;
    Ok(Outcome { name: name.into(), runs, ended })
}

/// Sees that all is there, and leaves out what no page shows.
fn check(name: &str, run: &mut Value) -> Result<(), PageError> {
    let not = |what| PageError::NotResult { name: name.into(), what };
    let by = run["fio version"].as_str().map(str::to_owned);
    if !run.is_object() || by.is_none() && !run["wordline"].is_object() {
        return Err(not("JSON, but not a result"));
    }
    if !run["wordline"].is_object() {
        return Err(not("fio's own result, which does not say where the time went"));
    }
    if run["wordline"]["result_format"].as_u64() != Some(FORMAT) {
        let version = run["wordline"]["provenance"]["version"].as_str().unwrap_or("unknown");
        let format = run["wordline"]["result_format"].as_u64();
        let format = format.map_or("without a layout's number".into(), |n| format!("layout {n}"));
        return Err(PageError::Version {
            name: name.into(),
            of: format!("wordline {version} ({format})"),
            own: concat!(env!("CARGO_PKG_VERSION"), ", layout 2"),
        });
    }
    for (part, there) in [
        ("jobs", run["jobs"].is_array()),
        ("wordline.provenance", run["wordline"]["provenance"].is_object()),
        ("wordline.latency", run["wordline"]["latency"].is_array()),
        ("wordline.machine", run["wordline"]["machine"].is_object()),
        ("wordline.machine.intervals", run["wordline"]["machine"]["intervals"].is_object()),
        ("wordline.machine.layers", run["wordline"]["machine"]["layers"].is_array()),
        ("wordline.machine.flash", run["wordline"]["machine"]["flash"].is_array()),
    ] {
        if !there {
            return Err(PageError::Part { name: name.into(), part });
        }
    }
    let jobs = run["jobs"].as_array().into_iter().flatten();
    let rates = jobs.flat_map(|job| ["read", "write", "trim"].map(|ddir| &job[ddir]["iops"]));
    if rates.into_iter().any(|iops| !iops.is_null() && !iops.is_number()) {
        return Err(PageError::Part { name: name.into(), part: "jobs[].read.iops as a number" });
    }
    without_bins(run);
    Ok(())
}

/// JSON+ has every histogram whole: the page has its percentiles.
fn without_bins(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.shift_remove("bins");
            map.values_mut().for_each(without_bins);
        }
        Value::Array(items) => items.iter_mut().for_each(without_bins),
        _ => {}
    }
}
