//! fio's JSON and JSON+.

use crate::fio_version;
use crate::job::{GroupDir, Job, LATENCY_NAMES, elapsed_seconds, group_of, groups, jobs};
use crate::latency::latency_json;
use crate::number::{finite, millis_up, per_second, percentiles};
use crate::slowest::slowest_json;
use serde::Serialize;
use serde_json::Value;
use wordline_base::hist::midpoint;
use wordline_base::{Ddir, Histogram, Layer};
use wordline_sim::{
    CPU_OWNERS, Cause, MEMORY_OWNERS, RunResult, SampleStats, SteadyResult, ThreadResult,
};

/// What beyond fio's own keys to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JsonOptions {
    /// The top-level object `"wordline"`: where the run came from, and what the machine did.
    pub machine: bool,
}

impl Default for JsonOptions {
    fn default() -> Self {
        JsonOptions { machine: true }
    }
}

/// A JSON value whose object keys keep their order and whose numbers keep their form.
enum Json {
    /// Printed as it is: numbers, strings, and the like.
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

fn int(n: u64) -> Json {
    Json::Text(n.to_string())
}
fn float(f: f64) -> Json {
    Json::Text(format!("{:.6}", finite(f)))
}
fn string(s: &str) -> Json {
    Json::Text(Value::from(s).to_string())
}

/// An object under construction.
#[derive(Default)]
struct Object(Vec<(String, Json)>);

impl Object {
    fn put(&mut self, key: impl Into<String>, value: impl Into<Json>) {
        self.0.push((key.into(), value.into()));
    }
}

impl From<Object> for Json {
    fn from(o: Object) -> Json {
        Json::Object(o.0)
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Json {
        match value {
            Value::Array(items) => Json::Array(items.into_iter().map(Json::from).collect()),
            Value::Object(map) => {
                Json::Object(map.into_iter().map(|(k, v)| (k, Json::from(v))).collect())
            }
            scalar => Json::Text(scalar.to_string()),
        }
    }
}

impl Json {
    /// In fio's layout: two spaces a level, a space on both sides of the colon. Arrays of scalars
    /// take one line.
    fn write(&self, out: &mut String, indent: usize) {
        let list = |out: &mut String, n: usize, each: &mut dyn FnMut(&mut String, usize)| {
            for i in 0..n {
                out.push_str(if i == 0 { "\n" } else { ",\n" });
                out.extend(std::iter::repeat_n(' ', indent + 2));
                each(out, i);
            }
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
        };
        match self {
            Json::Text(text) => out.push_str(text),
            Json::Array(items) if items.iter().all(|i| matches!(i, Json::Text(_))) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { ", " });
                    item.write(out, indent);
                }
                out.push(']');
            }
            Json::Array(items) => {
                out.push('[');
                list(out, items.len(), &mut |out, i| items[i].write(out, indent + 2));
                out.push(']');
            }
            Json::Object(entries) if entries.is_empty() => out.push_str("{}"),
            Json::Object(entries) => {
                out.push('{');
                list(out, entries.len(), &mut |out, i| {
                    let (key, value) = &entries[i];
                    string(key).write(out, 0);
                    out.push_str(" : ");
                    value.write(out, indent + 2);
                });
                out.push('}');
            }
        }
    }
}

fn latency(h: &Histogram, percentile_list: Option<&[f64]>, plus: bool) -> Object {
    let mut o = Object::default();
    o.put("min", int(h.min()));
    o.put("max", int(h.max()));
    o.put("mean", float(h.mean()));
    o.put("stddev", float(h.stddev()));
    o.put("N", int(h.len()));
    if let Some(list) = percentile_list
        && !h.is_empty()
    {
        let mut at = Object::default();
        for (percent, value) in list.iter().zip(percentiles(h, list)) {
            let key = format!("{percent:.6}");
            // A percentage asked for twice would be a key written twice.
            if at.0.last().is_none_or(|(last, _)| *last != key) {
                at.put(key, int(value));
            }
        }
        o.put("percentile", at);
        if plus {
            let mut bins = Object::default();
            h.buckets().for_each(|(b, count)| bins.put(midpoint(b).to_string(), int(count)));
            o.put("bins", bins);
        }
    }
    o
}

/// Keys in the order min, max, mean, deviation, samples; minimum and maximum are whole numbers.
fn samples(o: &mut Object, stats: &SampleStats, share: Option<f64>, keys: [&str; 5]) {
    o.put(keys[0], int(stats.min as u64));
    o.put(keys[1], int(stats.max as u64));
    if let Some(share) = share {
        o.put("bw_agg", float(share));
    }
    o.put(keys[2], float(stats.mean));
    o.put(keys[3], float(stats.stddev()));
    o.put(keys[4], int(stats.n));
}

fn direction(job: &Job, index: usize, group: &GroupDir, plus: bool) -> Object {
    let dir = &job.dirs[index];
    let list = |on: bool| on.then_some(job.percentile_list.as_slice());
    let run = dir.runtime.0;
    let bytes_per_s = per_second(dir.io_bytes, run);
    let iops = if run == 0 { 0.0 } else { dir.total_ios as f64 * 1e9 / run as f64 };
    let mut o = Object::default();
    o.put("io_bytes", int(dir.io_bytes));
    o.put("io_kbytes", int(dir.io_bytes >> 10));
    o.put("bw_bytes", int(bytes_per_s));
    o.put("bw", int(bytes_per_s / 1024));
    o.put("iops", float(iops));
    o.put("runtime", int(millis_up(run)));
    o.put("total_ios", int(dir.total_ios));
    o.put("short_ios", int(dir.short_ios));
    o.put("drop_ios", int(dir.drop_ios));
    o.put("slat_ns", latency(&dir.slat, list(job.slat_percentiles), plus));
    o.put("clat_ns", latency(&dir.clat, list(job.clat_percentiles), plus));
    o.put("lat_ns", latency(&dir.lat, list(job.lat_percentiles), plus));
    let prios = job.prios_of(index);
    if !prios.is_empty() {
        let on = job.clat_percentiles || job.lat_percentiles;
        let name = format!("{}_ns", job.prio_latency());
        let each = prios.into_iter().map(|p| {
            let (class, level) = p.parts();
            let mut o = Object::default();
            o.put("prioclass", int(class.into()));
            o.put("prio", int(level.into()));
            o.put(name.as_str(), latency(&p.latency, list(on), plus));
            o.into()
        });
        o.put("prios", Json::Array(each.collect()));
    }
    let share = if dir.bw_kib.n == 0 { 0.0 } else { group.share(dir.bw_kib.mean) };
    let keys = ["bw_min", "bw_max", "bw_mean", "bw_dev", "bw_samples"];
    samples(&mut o, &dir.bw_kib, Some(share), keys);
    let keys = ["iops_min", "iops_max", "iops_mean", "iops_stddev", "iops_samples"];
    samples(&mut o, &dir.iops, None, keys);
    o
}

fn distribution(names: impl IntoIterator<Item = &'static str>, shares: &[f64]) -> Object {
    let mut o = Object::default();
    for (name, &share) in names.into_iter().zip(shares) {
        o.put(name, float(share));
    }
    o
}

fn options(pairs: &[(String, String)]) -> Object {
    let mut o = Object::default();
    // fio has those alone that were given a value.
    for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        // An option written twice: the last one counts, and a key must be there once.
        o.0.retain(|(n, _)| n != name);
        o.put(name, string(value));
    }
    o
}

fn steady(s: &SteadyResult) -> Object {
    let mean = |list: &[u64]| list.iter().sum::<u64>() / list.len().max(1) as u64;
    let list = |list: &[u64]| Json::Array(list.iter().map(|&n| int(n)).collect());
    let mut o = Object::default();
    o.put("ss", string(&s.name));
    o.put("duration", int(s.duration));
    o.put("attained", int(s.attained.into()));
    let percent = if s.percent { "%" } else { "" };
    o.put("criterion", string(&format!("{:.6}{percent}", finite(s.criterion))));
    o.put("max_deviation", float(s.max_deviation));
    o.put("slope", float(s.slope_value));
    let mut data = Object::default();
    data.put("bw_mean", int(mean(&s.bw)));
    data.put("iops_mean", int(mean(&s.iops)));
    data.put("iops", list(&s.iops));
    data.put("bw", list(&s.bw));
    o.put("data", data);
    o
}

fn job_object(job: &Job, dirs: &[GroupDir; 3], elapsed: u64, plus: bool) -> Object {
    let mut o = Object::default();
    o.put("jobname", string(job.name));
    o.put("groupid", int(job.group.into()));
    o.put("error", Json::Text(job.error.to_string()));
    o.put("eta", int(0));
    o.put("elapsed", int(elapsed));
    if !job.options.is_empty() {
        o.put("job options", options(job.options));
    }
    for (i, group) in dirs.iter().enumerate() {
        if let Some(name) = job.dir_name(i) {
            o.put(name, direction(job, i, group, plus));
        }
    }
    if !job.mixed {
        let on = job.lat_percentiles || job.clat_percentiles;
        let mut sync = Object::default();
        sync.put("total_ios", int(job.sync.len()));
        let list = on.then_some(job.percentile_list.as_slice());
        sync.put("lat_ns", latency(&job.sync, list, plus));
        o.put("sync", sync);
    }
    if let Some(all) = &job.unified {
        o.put("mixed", direction(all, 0, &dirs[0], plus));
    }
    o.put("job_runtime", int(job.run_ms));
    o.put("usr_cpu", float(job.cpu(job.user)));
    o.put("sys_cpu", float(job.cpu(job.system)));
    o.put("ctx", int(job.context_switches));
    o.put("majf", int(0));
    o.put("minf", int(0));
    let levels = ["1", "2", "4", "8", "16", "32", ">=64"];
    let calls = ["0", "4", "8", "16", "32", "64", ">=64"];
    o.put("iodepth_level", distribution(levels, &job.depth_levels()));
    o.put("iodepth_submit", distribution(calls, &job.depth_submits()));
    o.put("iodepth_complete", distribution(calls, &job.depth_completes()));
    for (unit, shares) in job.latency_shares() {
        // The nine bounds below a thousand and "1000" are shared; only the last unit goes on.
        o.put(format!("latency_{unit}"), distribution(LATENCY_NAMES, &shares));
    }
    if job.continue_on_error {
        o.put("total_err", int(job.total_errors));
        o.put("first_error", Json::Text(job.first_error.to_string()));
    }
    let (target, window, percentile, depth) = job.searched();
    if depth > 0 {
        o.put("latency_depth", int(depth.into()));
        o.put("latency_target", int(target));
        o.put("latency_percentile", float(percentile));
        o.put("latency_window", int(window));
    }
    if let Some(s) = job.steady {
        o.put("steadystate", steady(s));
    }
    if !job.description.is_empty() {
        o.put("desc", string(job.description));
    }
    o
}

/// Pairs of a name and a value, as an object.
fn named_pairs(value: &mut Value) {
    if let Value::Array(pairs) = value {
        let entries = pairs.iter().filter_map(|pair| {
            Some((pair.get(0)?.as_str()?.to_owned(), pair.get(1).cloned().unwrap_or_default()))
        });
        *value = Value::Object(entries.collect());
    }
}

/// A split over the layers, as an object by their names.
fn named_layers(value: &mut Value) {
    if let Value::Array(parts) = value {
        // Layers of a network or a bridge are there where there is one.
        let others = [Layer::Network, Layer::Server, Layer::Bridge, Layer::Sas];
        let local = |layer: Layer| !others.contains(&layer);
        let entries = Layer::ALL.iter().zip(parts.iter());
        let entries =
            entries.filter(|(l, ns)| local(**l) || ns.as_f64().is_some_and(|ns| ns > 0.0));
        *value = entries.map(|(l, ns)| (l.name().to_owned(), ns.clone())).collect();
    }
}

/// An object per interval of the write amplification.
fn named_intervals(value: &mut Value, names: &[String]) {
    let Value::Array(intervals) = value else { return };
    for interval in intervals {
        let mut o = serde_json::Map::new();
        o.insert("end_ns".to_owned(), interval[0].clone());
        for (i, name) in names.iter().enumerate() {
            o.insert(name.clone(), interval[1][i].clone());
        }
        *interval = Value::Object(o);
    }
}

/// Columns of the host's intervals, in their order.
pub(crate) const HOST_COLUMNS: [&str; 9] = [
    "user_ns",
    "system_ns",
    "interrupt_ns",
    "idle_ns",
    "looks",
    "interrupts",
    "context_switches",
    "loads",
    "stores",
];

/// An object per interval of the host: its counts by name, and of owners those that had anything.
fn host_intervals(host: &mut Value) {
    let had = |list: &str| -> Vec<Value> {
        let owners = host[list].as_array().into_iter().flatten();
        owners.map(|owner| owner["name"].clone()).collect()
    };
    let (cpu, memory) = (had("cpu_by_owner"), had("memory_by_owner"));
    let named = |values: &Value, names: &[&str], had: &[Value], unit: &str| -> Value {
        let each = names.iter().enumerate().filter(|(_, name)| had.iter().any(|h| h == *name));
        each.map(|(i, name)| (format!("{name}_{unit}"), values[i].clone())).collect()
    };
    let Value::Array(intervals) = &mut host["over_time"] else { return };
    for interval in intervals {
        let mut o = serde_json::Map::new();
        o.insert("end_ns".to_owned(), interval["end_ns"].clone());
        for (i, name) in HOST_COLUMNS.iter().enumerate() {
            o.insert(name.to_string(), interval["totals"][i].clone());
        }
        o.insert("cpu".to_owned(), named(&interval["by_owner"], &CPU_OWNERS, &cpu, "ns"));
        o.insert("core_busy_ns".to_owned(), interval["busy"].clone());
        o.insert("memory".to_owned(), named(&interval["memory"], &MEMORY_OWNERS, &memory, "bytes"));
        *interval = Value::Object(o);
    }
}

fn to_value(part: &impl Serialize) -> Value {
    serde_json::to_value(part).expect("numbers, strings and lists have a JSON form")
}

/// Latency by class of the threads whose I/Os were of more than one.
fn by_class(result: &RunResult) -> impl Iterator<Item = Value> {
    result.threads.iter().filter(|t| !t.classes.is_empty()).map(|t| {
        let mut o = serde_json::Map::new();
        o.insert("jobname".to_owned(), Value::from(t.name.as_str()));
        o.insert("number".to_owned(), Value::from(t.number));
        o.insert("class".to_owned(), to_value(&t.class));
        o.insert("latency".to_owned(), to_value(&t.classes));
        Value::Object(o)
    })
}

/// How a replay kept the times of its trace.
fn lateness_of(thread: &ThreadResult) -> Option<Value> {
    let lateness = thread.lateness.as_ref()?;
    let summary = |h: &Histogram, tail: f64| {
        let mut o = serde_json::Map::new();
        o.insert("mean".to_owned(), Value::from(finite(h.mean())));
        let at = h.reaches(tail).then(|| h.percentile(tail));
        o.insert(format!("p{tail}"), Value::from(at));
        o.insert("max".to_owned(), Value::from(h.max()));
        Value::Object(o)
    };
    let mut o = serde_json::Map::new();
    o.insert("jobname".to_owned(), Value::from(thread.name.as_str()));
    o.insert("number".to_owned(), Value::from(thread.number));
    o.insert("requests".to_owned(), Value::from(lateness.behind.len()));
    o.insert("behind_ns".to_owned(), summary(&lateness.behind, 99.0));
    o.insert("displaced".to_owned(), Value::from(lateness.displaced.len()));
    if !lateness.displaced.is_empty() {
        o.insert("displaced_ns".to_owned(), summary(&lateness.displaced, 99.0));
    }
    for (dir, h) in Ddir::RW.iter().zip(&lateness.latency).filter(|(_, h)| !h.is_empty()) {
        o.insert(format!("{}_latency_ns", dir.name()), summary(h, 99.99));
    }
    Some(Value::Object(o))
}

/// Causes of sectors written over time, in the order of the columns: folded ones, pages of a map and parity only where
/// there are any.
pub(crate) fn written(result: &RunResult) -> Vec<Cause> {
    let w = &result.machine.totals.write_amplification;
    Cause::columns(|cause| w.of(cause) > 0)
}

/// The number of the layout of the object `wordline`: another one is read by another version only.
pub const RESULT_FORMAT: u64 = 2;

/// Totals of a machine, of a drive, and of drives behind a bridge.
fn named_totals(of: &mut Value) {
    for key in ["reads_blocked", "link_bytes", "energy_j", "energy_by_state_j", "counters"] {
        of.get_mut(key).into_iter().for_each(named_pairs);
    }
    if of["strides"].is_object() {
        named_pairs(&mut of["strides"]["waits"]);
    }
    rows(of, "members").for_each(named_totals);
}

/// The rows of a list, if it is there.
fn rows<'v>(of: &'v mut Value, list: &str) -> impl Iterator<Item = &'v mut Value> {
    of.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}

/// What fio has no keys for.
fn wordline(result: &RunResult, jobs: &[Job], plus: bool) -> Value {
    let mut machine = to_value(&result.machine);
    named_totals(&mut machine);
    rows(&mut machine, "drives").for_each(named_totals);
    rows(&mut machine, "arrays").for_each(|array| named_pairs(&mut array["counters"]));
    let causes = written(result);
    let over_time = &mut machine["write_amplification"]["over_time"];
    for numbers in over_time.as_array_mut().into_iter().flatten().map(|row| &mut row[1]) {
        *numbers = causes.iter().map(|&cause| numbers[cause as usize].take()).collect();
    }
    let names = causes.iter().map(|cause| format!("{}_sectors", cause.name()));
    named_intervals(over_time, &names.collect::<Vec<_>>());
    let states =
        result.machine.totals.energy_by_state_j.iter().map(|(name, _)| format!("{name}_j"));
    named_intervals(&mut machine["energy_over_time"], &states.collect::<Vec<_>>());
    named_pairs(&mut machine["intervals"]["reads_blocked"]);
    for flash in machine["flash"].as_array_mut().into_iter().flatten() {
        named_pairs(&mut flash["busy_by"]);
        named_pairs(&mut flash["read_wait_ns_by"]);
    }
    if machine["host"].is_object() {
        host_intervals(&mut machine["host"]);
    }
    if let Value::Array(tables) = &mut machine["layers"] {
        for table in tables {
            named_layers(&mut table["mean_by_layer_ns"]);
            if let Value::Array(rows) = &mut table["at"] {
                rows.iter_mut().for_each(|row| named_layers(&mut row["by_layer_ns"]));
            }
        }
    }
    let mut o = serde_json::Map::new();
    o.insert("result_format".to_owned(), Value::from(RESULT_FORMAT));
    o.insert("provenance".to_owned(), to_value(&result.provenance));
    o.insert("ended".to_owned(), to_value(&result.ended));
    o.insert("latency".to_owned(), latency_json(jobs));
    o.insert("machine".to_owned(), machine);
    if !result.slowest.is_empty() {
        o.insert("slowest".to_owned(), slowest_json(result));
    }
    let classes: Vec<Value> = by_class(result).collect();
    if !classes.is_empty() {
        o.insert("classes".to_owned(), Value::Array(classes));
    }
    let lateness: Vec<Value> = result.threads.iter().filter_map(lateness_of).collect();
    if !lateness.is_empty() {
        o.insert("lateness".to_owned(), Value::Array(lateness));
    }
    if let Some(app) = &result.app {
        o.insert("app".to_owned(), crate::app::app_json(app, &result.turnarounds, plus));
    }
    if result.app.is_some() || !result.with.is_empty() {
        let each = result.with.iter();
        let each = each.map(|app| crate::app::app_json(app, &result.turnarounds, plus));
        o.insert("with".to_owned(), Value::Array(each.collect()));
    }
    o.insert("prepared".to_owned(), to_value(&result.prepared));
    o.insert("warnings".to_owned(), to_value(&result.warnings));
    o.insert("notes".to_owned(), to_value(&result.notes));
    Value::Object(o)
}

/// fio's JSON, or JSON+ with the histogram's buckets. fio prints `disk_util` for real block devices
/// only; there is none here.
pub fn fio_json(result: &RunResult, plus: bool, choices: &JsonOptions) -> String {
    let mut root = Object::default();
    root.put("fio version", string(&fio_version(&result.provenance.version)));
    root.put("timestamp", int(0));
    root.put("timestamp_ms", int(0));
    root.put("time", string(crate::number::EPOCH));
    if !result.global_options.is_empty() {
        root.put("global options", options(&result.global_options));
    }
    let jobs = jobs(result);
    let groups = groups(&jobs);
    let elapsed = elapsed_seconds(result);
    let object = |job| job_object(job, &group_of(&groups, job).dirs, elapsed, plus).into();
    root.put("jobs", Json::Array(jobs.iter().map(object).collect()));
    if choices.machine {
        root.put("wordline", wordline(result, &jobs, plus));
    }
    let mut out = String::new();
    Json::from(root).write(&mut out, 0);
    out.push('\n');
    out
}
