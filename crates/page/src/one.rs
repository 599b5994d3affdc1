//! The page of one result.

use crate::Outcome;
use crate::answer::{cause, five_html, paragraph};
use crate::html::{Cell, details, escape, figure, list, prose, put, section, slug, table};
use crate::number::{
    PERCENTILES, Unit, digits, directions, grouped, keys, least_for, percentile, plural, spread,
    table_unit, time, value,
};
use crate::shell::Shell;
use serde_json::{Map, Value, json};

pub fn strings(list: &Value) -> Vec<String> {
    let all = list.as_array().into_iter().flatten();
    all.filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

fn heads(titles: &[&str]) -> Vec<String> {
    titles.iter().map(ToString::to_string).collect()
}

/// Seeds that a page shows one by one.
const SEEDS: usize = 8;
/// What the axis of a distribution has.
pub const NINES: &str = "From 90 % on, a tenth of the I/Os beyond a mark lies beyond the next one. A curve ends where one \
                         I/O lies beyond.";

/// What pictures of several results, or of one seed of several, are drawn from.
fn light(run: &Value) -> Value {
    let (w, m) = (&run["wordline"], &run["wordline"]["machine"]);
    let mut intervals = m["intervals"].clone();
    for latency in intervals["latency"].as_array_mut().into_iter().flatten() {
        latency.as_object_mut().and_then(|row| row.insert("counts".into(), json!([])));
    }
    json!({ "wordline": {
        "provenance": w["provenance"],
        "latency": w["latency"],
        "machine": {
            "served": m["served"],
            "layers": m["layers"],
            "intervals": intervals,
            "write_amplification": { "over_time": m["write_amplification"]["over_time"] },
        },
    } })
}

/// The data that the pictures are drawn from: one result whole, or what several are compared by.
pub fn data(outcomes: &[Outcome], labels: &[String]) -> Value {
    let runs = |o: &Outcome| -> Vec<Value> {
        let each = o.runs.iter().take(SEEDS).enumerate();
        let whole = |i: usize| i == 0 && outcomes.len() == 1;
        each.map(|(i, run)| if whole(i) { run.clone() } else { light(run) }).collect()
    };
    let results = outcomes.iter().zip(labels);
    let results = results.map(|(o, label)| json!({ "label": label, "runs": runs(o) }));
    json!({ "results": results.collect::<Vec<_>>() })
}

pub fn title(run: &Value) -> String {
    let p = &run["wordline"]["provenance"];
    let parts = ["device", "ftl", "stack"].iter().filter_map(|key| p[*key].as_str());
    parts.collect::<Vec<_>>().join(" \u{b7} ")
}

/// Below the title.
pub fn subtitle(run: &Value) -> String {
    let p = &run["wordline"]["provenance"];
    let mut parts = vec![format!("<code>{}</code>", escape(p["workload"].as_str().unwrap_or("")))];
    let prepared = run["wordline"]["prepared"].as_str().unwrap_or("");
    if !prepared.is_empty() {
        parts.push(escape(prepared));
    }
    parts.join("<br>")
}

pub fn warnings(run: &Value) -> String {
    let all = strings(&run["wordline"]["warnings"]);
    if all.is_empty() {
        return String::new();
    }
    let each: String = all.iter().map(|w| format!("<p><b>Warning.</b> {}</p>", prose(w))).collect();
    format!("<div class=\"warnings\">{each}</div>\n")
}

pub fn page(outcome: &Outcome) -> String {
    let run = outcome.first();
    let mut body =
        format!("<p class=\"answer\">{}</p>\n{}", paragraph(outcome), five_html(outcome));
    if let Some(words) = &outcome.ended {
        body += &format!("<div class=\"warnings\"><p><b>Warning.</b> {}</p></div>\n", prose(words));
    }
    body += &warnings(run);
    let mut sections: Vec<(&str, &str)> = Vec::new();
    let mut add = |id: &'static str, title: &'static str, content: String| {
        if !content.is_empty() {
            body += &section(id, title, &content);
            sections.push((id, title));
        }
    };
    add("seeds", "By seed", seeds(outcome));
    add("latency", "Latency", latency(run, outcome.is_repeated()));
    add("time", "Where the time went", layers(run));
    add("over-time", "Over time", over_time(run));
    add("flash", "Channels and LUNs", flash(run));
    add("slowest", "The slowest I/Os", slowest(run));
    add("wear", "Wear", wear(run));
    add("programs", "Programs", programs(run));
    add("run", "What was run", what_was_run(run));
    let label = [String::new()];
    let data = data(std::slice::from_ref(outcome), &label);
    let shell = Shell {
        title: &title(run),
        sub: &subtitle(run),
        body: &body,
        sections: &sections,
        data: Some(&data),
    };
    shell.html()
}

fn float(v: &Value) -> f64 {
    v.as_f64().unwrap_or(0.0)
}

/// A number with so many decimals, thousands apart.
pub fn fixed(x: f64, decimals: usize) -> String {
    grouped(&format!("{x:.decimals$}"))
}

/// Each number under each seed.
fn seeds(outcome: &Outcome) -> String {
    if !outcome.is_repeated() {
        return String::new();
    }
    let runs: Vec<&Value> = outcome.runs.iter().collect();
    let mut head = heads(&["", "mean", "\u{b1} 95 %"]);
    let shown = &runs[..runs.len().min(SEEDS)];
    head.extend(shown.iter().map(|r| format!("seed {}", r["wordline"]["provenance"]["seed"])));
    let rows = keys(&runs).into_iter().map(|key| {
        let cell = |x: Option<f64>| match x {
            Some(x) => Cell::number(key.unit.text(x), Some(x), ""),
            None => Cell::None,
        };
        let s = spread(outcome, &key.id);
        let mut row = vec![Cell::head(key.what.clone()), cell(s.map(|s| s.mean))];
        let half = s.and_then(|s| Some((s.half()?, s.mean)));
        row.push(half.map_or(Cell::None, |(half, mean)| {
            Cell::number(key.unit.text_as(half, mean), Some(half), "")
        }));
        row.extend(shown.iter().map(|run| cell(value(run, &key.id))));
        row
    });
    let mut out = String::from(
        "<p>The half width of a 95 % confidence interval of the mean (Student's t; of a percentile half a bucket of \
         its histogram at least) is beside each mean.</p>",
    );
    if shown.len() < runs.len() {
        put!(
            out,
            "<p class=\"note\">The first {SEEDS} of {} seeds are shown one by one.</p>",
            runs.len()
        );
    }
    out += &table("", &head, &rows.collect::<Vec<_>>());
    for ddir in directions(outcome.first()).iter().filter(|_| has_latencies(outcome.first())) {
        let name = format!("{} by seed", capital(&plural(ddir)));
        out +=
            &figure(&format!("seeds-{ddir}"), "tail-by-seed", &json!({ "ddir": ddir }), &name, "");
    }
    out
}

pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

/// The latency of an I/O was kept at least.
fn has_latencies(run: &Value) -> bool {
    let all = run["wordline"]["latency"].as_array();
    all.is_some_and(|all| all.iter().any(|d| d["N"].as_u64() > Some(0)))
}

/// Why no latency was kept.
pub fn why_none(run: &Value) -> &'static str {
    let jobs = run["jobs"].as_array().is_some_and(|jobs| !jobs.is_empty());
    match directions(run).is_empty() {
        false => "the jobs keep none (disable_lat=1, or gtod_reduce=1)",
        true if jobs => "no I/O came back after the ramp of its job",
        true => "no job is reported (stats=0)",
    }
}

fn latency(run: &Value, repeated: bool) -> String {
    let all: Vec<&Value> = run["wordline"]["latency"].as_array().into_iter().flatten().collect();
    if !has_latencies(run) {
        return format!("<p>There is no latency: {}.</p>", why_none(run));
    }
    let mut out = String::new();
    let title = if repeated { "Latency by direction, first seed" } else { "Latency by direction" };
    out += &figure("tail", "tail", &json!({}), title, NINES);
    for (of, word) in [("job", "job"), ("class", "class of I/O")] {
        for ddir in directions(run) {
            let several = all.iter().filter(|d| d["of"] == of && d["ddir"] == *ddir).count() > 1;
            if several {
                let title = format!("{} by {word}", capital(&plural(&ddir)));
                let args = json!({ "of": of, "ddir": ddir });
                out += &figure(&format!("tail-{of}-{ddir}"), "tail-of", &args, &title, "");
            }
        }
    }
    let longest = all.iter().map(|d| float(&d["max_ns"])).fold(0.0, f64::max);
    let (unit, by) = table_unit(longest);
    let mut head = heads(&["", "I/Os", "mean"]);
    let percents = ["50", "90", "99", "99.9", "99.99", "99.999"];
    head.extend(percents.iter().map(|p| format!("{p} %")));
    head.push("slowest".into());
    let decimals = if longest >= 1e6 { 1 } else { 2 };
    let cell = |ns: f64, path: String| Cell::number(fixed(ns / by, decimals), Some(ns), path);
    // One job of a direction is that direction.
    let lone = |d: &Value| {
        let same = |o: &&&Value| o["of"] == "job" && o["ddir"] == d["ddir"];
        d["of"] == "job" && all.iter().filter(same).count() == 1
    };
    let told = |d: &Value| d["N"].as_u64() > Some(0) && !lone(d);
    let rows = all.iter().enumerate().filter(|(_, d)| told(d)).map(|(i, d)| {
        let at = |key: &str| format!("wordline.latency.{i}.{key}");
        let ddir = d["ddir"].as_str().unwrap_or("");
        let name = match d["of"].as_str() {
            Some("all") => ddir.to_owned(),
            Some("class") => format!("{ddir}, class {}", d["name"].as_str().unwrap_or("")),
            _ => format!("{ddir}, {}", d["name"].as_str().unwrap_or("")),
        };
        // The jobs of one numjobs have one name.
        let same = |o: &Value| ["of", "ddir", "name"].iter().all(|key| o[*key] == d[*key]);
        let name = match all.iter().filter(|o| same(o)).count() {
            1 => name,
            _ => format!("{name} {}", all[..=i].iter().filter(|o| same(o)).count()),
        };
        let n = float(&d["N"]);
        let colour = (d["of"] == "all").then(|| ddir.to_owned());
        let mut row = vec![
            Cell::Head(name, colour),
            Cell::number(fixed(n, 0), Some(n), at("N")),
            cell(float(&d["mean_ns"]), at("mean_ns")),
        ];
        row.extend(percents.iter().map(|p| {
            let p: f64 = p.parse().unwrap_or(0.0);
            let key = format!("{p:.6}");
            // Fewer than one I/O beyond: the slowest says it.
            let enough = n as u64 >= least_for(p);
            let value = d["percentile"][&key].as_f64().filter(|_| enough);
            value.map_or(Cell::None, |ns| cell(ns, at(&format!("percentile/{key}"))))
        }));
        row.push(cell(float(&d["max_ns"]), at("max_ns")));
        row
    });
    out += &table(
        &format!("From the application's call to its return, {unit}"),
        &head,
        &rows.collect::<Vec<_>>(),
    );
    let jobs = run["jobs"].as_array().into_iter().flatten().enumerate();
    let mut rows = Vec::new();
    for (j, job) in jobs {
        for ddir in ["read", "write", "trim", "mixed"] {
            let d = &job[ddir];
            if float(&d["total_ios"]) == 0.0 {
                continue;
            }
            let at = |key: &str| format!("jobs.{j}.{ddir}.{key}");
            let number = |key: &str, by: f64, decimals: usize| {
                let x = float(&d[key]);
                Cell::number(fixed(x / by, decimals), Some(x), at(key))
            };
            rows.push(vec![
                Cell::head(job["jobname"].as_str().unwrap_or("")),
                Cell::Text(ddir.into()),
                number("total_ios", 1.0, 0),
                number("iops", 1.0, 1),
                number("bw_bytes", 1048576.0, 2),
                number("runtime", 1e3, 3),
            ]);
        }
    }
    let head = heads(&["job", "", "I/Os", "I/Os a second", "MiB a second", "runtime, s"]);
    if !rows.is_empty() {
        out += &table("Rates by job", &head, &rows);
    }
    out
}

fn layers(run: &Value) -> String {
    let mut out = String::new();
    let tables = run["wordline"]["machine"]["layers"].as_array().into_iter().flatten();
    for (t, of) in tables.enumerate() {
        let ddir = of["ddir"].as_str().unwrap_or("");
        let title = format!("{}: where the time went", capital(&plural(ddir)));
        let note = if t == 0 {
            "Each bar is the latency at that percentile, split by the layer in which the time was spent; the latency is at its end. It is the mean of the I/Os in the percentile's bucket of the histogram, of which the percentile itself is the middle."
        } else {
            ""
        };
        out += &figure(&format!("layers-{ddir}"), "layers", &json!({ "ddir": ddir }), &title, note);
        let rows: Vec<&Value> = of["at"].as_array().into_iter().flatten().collect();
        let longest =
            rows.iter().map(|r| float(&r["latency_ns"])).fold(float(&of["mean_ns"]), f64::max);
        let (unit, by) = table_unit(longest);
        let mut head = vec![String::new(), "mean".into()];
        head.extend(rows.iter().map(|r| format!("{} %", digits(float(&r["percentile"]), 6))));
        let empty = Map::new();
        let names = of["mean_by_layer_ns"].as_object().unwrap_or(&empty).keys();
        let mut body = Vec::new();
        for name in names {
            let cell = |v: &Value, path: String| match v.as_f64() {
                Some(ns) => Cell::number(fixed(ns / by, 2), Some(ns), path),
                None => Cell::None,
            };
            let base = format!("wordline.machine.layers.{t}");
            let mean = &of["mean_by_layer_ns"][name];
            let spent =
                rows.iter().any(|r| float(&r["by_layer_ns"][name]) > 0.0) || float(mean) > 0.0;
            if !spent {
                continue;
            }
            let mut row = vec![
                Cell::Head(name.clone(), Some(format!("l-{}", slug(name)))),
                cell(mean, format!("{base}.mean_by_layer_ns.{name}")),
            ];
            row.extend(rows.iter().enumerate().map(|(i, r)| {
                cell(&r["by_layer_ns"][name], format!("{base}.at.{i}.by_layer_ns.{name}"))
            }));
            body.push(row);
            for why in delays(of, name) {
                let mut row = vec![
                    Cell::Part(why.clone()),
                    cell(
                        &of["mean_by_delay_ns"][name][why],
                        format!("{base}.mean_by_delay_ns.{name}.{why}"),
                    ),
                ];
                row.extend(rows.iter().enumerate().map(|(i, r)| {
                    let path = format!("{base}.at.{i}.by_delay_ns.{name}.{why}");
                    cell(&r["by_delay_ns"][name][why], path)
                }));
                body.push(row);
            }
        }
        let mut all = vec![
            Cell::head("all"),
            Cell::number(
                fixed(float(&of["mean_ns"]) / by, 2),
                of["mean_ns"].as_f64(),
                format!("wordline.machine.layers.{t}.mean_ns"),
            ),
        ];
        all.extend(rows.iter().enumerate().map(|(i, r)| {
            let path = format!("wordline.machine.layers.{t}.at.{i}.latency_ns");
            Cell::number(fixed(float(&r["latency_ns"]) / by, 2), r["latency_ns"].as_f64(), path)
        }));
        body.push(all);
        out += &table(&format!("{} by layer, {unit}", capital(&plural(ddir))), &head, &body);
    }
    if out.is_empty() {
        format!("<p>There are no times of I/Os: {}.</p>", why_none(run))
    } else {
        out
    }
}

/// The share of a latency that a delay with a row of its own has at least.
const DELAY_AT_LEAST: f64 = 0.05;

/// What was in the way in a layer and has a row below it.
fn delays<'a>(table: &'a Value, layer: &str) -> Vec<&'a String> {
    let at = table["at"].as_array().into_iter().flatten();
    let splits = std::iter::once((&table["mean_by_delay_ns"], &table["mean_ns"]))
        .chain(at.map(|row| (&row["by_delay_ns"], &row["latency_ns"])));
    let mut names = Vec::new();
    for (split, all) in splits {
        for (name, ns) in split[layer].as_object().into_iter().flatten() {
            if float(ns) >= DELAY_AT_LEAST * float(all) && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

pub fn has_intervals(run: &Value) -> bool {
    let i = &run["wordline"]["machine"]["intervals"];
    i["end_ns"].as_array().is_some_and(|ends| !ends.is_empty())
        && i["latency"].as_array().is_some_and(|l| !l.is_empty())
}

fn over_time(run: &Value) -> String {
    let m = &run["wordline"]["machine"];
    let i = &m["intervals"];
    let mut out = String::new();
    if !has_intervals(run) {
        put!(out, "<p>There is no series: {}.</p>", why_none(run));
    }
    let ends = i["end_ns"].as_array().map_or(0, Vec::len);
    if ends > 0 && ends < 4 && has_intervals(run) {
        put!(
            out,
            "<p class=\"note\">The run was so short that it has {ends} interval{}.</p>",
            if ends == 1 { "" } else { "s" }
        );
    }
    let mut pictures = String::new();
    let mut add = |id: &str, chart: &str, args: Value, title: &str, note: &str| {
        pictures += &figure(id, chart, &args, title, note);
    };
    let none = json!({});
    if has_intervals(run) {
        let all = i["latency"].as_array().into_iter().flatten();
        let mut stretches: Vec<[f64; 2]> = all.flat_map(uncounted).collect();
        stretches.sort_by(|a, b| a[0].total_cmp(&b[0]));
        stretches.dedup();
        let note = match stretches[..] {
            [] => String::new(),
            [[from, to]] => format!(
                "From {} to {} a job was in its ramp: of its I/Os of that time nothing is counted.",
                time(from),
                time(to)
            ),
            _ => "Where a line is interrupted, jobs were in their ramp: of their I/Os of that time nothing is counted."
                .to_owned(),
        };
        add("rate", "rate", none.clone(), "I/Os a second", &note);
        if host_has(m) {
            add("cpu", "cpu", none.clone(), "Processor time of the host", "");
        }
        let dirs = i["latency"].as_array().into_iter().flatten();
        let dirs: Vec<&str> = dirs.filter_map(|l| l["ddir"].as_str()).collect();
        // An interval of few I/Os has none beyond a percentile.
        let percentiles = |ddir: &&&str| {
            let mut of = i["latency"].as_array().into_iter().flatten();
            let keys = ["p50_ns", "p99_ns", "p99_9_ns", "p99_99_ns"];
            let told = |l: &Value, key| {
                l[key].as_array().is_some_and(|all| all.iter().any(|x| !x.is_null()))
            };
            of.any(|l| l["ddir"] == ***ddir && keys.iter().any(|key| told(l, *key)))
        };
        for ddir in dirs.iter().filter(percentiles) {
            let title = format!("Latency of {} over time", plural(ddir));
            let note = "Where an interval has I/Os beyond a percentile.";
            let note = if *ddir == dirs[0] { note } else { "" };
            add(
                &format!("percentiles-{ddir}"),
                "percentiles",
                json!({ "ddir": ddir }),
                &title,
                note,
            );
        }
        for ddir in &dirs {
            let title = format!("Heat map of the latency of {}", plural(ddir));
            let note = "The stronger the colour, the more of an interval's I/Os took so long.";
            let note = if *ddir == dirs[0] { note } else { "" };
            add(&format!("heat-{ddir}"), "heat", json!({ "ddir": ddir }), &title, note);
        }
    }
    let written = m["write_amplification"]["over_time"].as_array();
    if written.is_some_and(|rows| rows.iter().any(|r| float(&r["user_sectors"]) > 0.0)) {
        add(
            "write-amplification",
            "write-amplification",
            none.clone(),
            "Write amplification by cause",
            "",
        );
    }
    if i["free_lines"].is_object() {
        add("free-lines", "free-lines", none.clone(), "Free lines", "");
    }
    if i["reads_blocked"].as_object().is_some_and(|by| !by.is_empty()) {
        let note =
            "By what a read waited for longest at its LUN; waits for the channel come on top.";
        add("blocked", "blocked", none.clone(), "Reads that waited, by cause", note);
    }
    let host = m["host"]["over_time"].as_array();
    if host_has(m) {
        if !has_intervals(run) {
            add("cpu", "cpu", none.clone(), "Processor time of the host", "");
        }
        let rows = || host.into_iter().flatten();
        if rows().any(|row| ftl_on_host(&row["cpu"])) {
            add("cpu-owners", "cpu-owners", none.clone(), "Processor time by owner", "");
        }
        if rows().any(|row| row["core_busy_ns"].as_array().is_some_and(|cores| cores.len() > 1)) {
            add("cores", "cores", none.clone(), "How busy each core of the host was", "");
        }
        let memory = |r: &Value| {
            r["memory"].as_object().is_some_and(|by| by.values().any(|b| float(b) > 0.0))
        };
        if host.is_some_and(|rows| rows.iter().any(memory)) {
            add("memory", "memory", none.clone(), "Memory of the host", "");
        }
    }
    let energy = m["energy_over_time"].as_array();
    if energy.is_some_and(|rows| !rows.is_empty()) && float(&m["total_w"]) > 0.0 {
        add("power", "power", none, "Power of the drive", "");
    }
    if !pictures.is_empty() {
        put!(out, "<div class=\"pair\">{pictures}</div>");
    }
    if ends > 0 {
        out += &details("The intervals as a table", &interval_table(m));
    }
    out
}

/// Whether an FTL on the host took processor time: where none does, owners say no more than modes.
fn ftl_on_host(cpu: &Value) -> bool {
    cpu.as_object()
        .is_some_and(|by| by.iter().any(|(name, ns)| name.starts_with("ftl") && float(ns) > 0.0))
}

fn host_has(m: &Value) -> bool {
    m["host"]["over_time"].as_array().is_some_and(|rows| !rows.is_empty())
}

fn interval_table(m: &Value) -> String {
    let i = &m["intervals"];
    let ends: Vec<f64> =
        i["end_ns"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
    let dirs: Vec<(usize, &Value)> =
        i["latency"].as_array().into_iter().flatten().enumerate().collect();
    let mut head = heads(&["until, s"]);
    for (_, l) in &dirs {
        let ddir = l["ddir"].as_str().unwrap_or("");
        head.push(format!("{}/s", plural(ddir)));
        head.extend(["50 %", "99 %", "99.9 %", "slowest"].map(|p| format!("{p}, µs")));
    }
    head.extend(heads(&["flash reads", "waited"]));
    let lines = i["free_lines"].is_object();
    if lines {
        head.push("free lines".into());
    }
    let host = m["host"]["over_time"].as_array().filter(|rows| rows.len() == ends.len());
    if host.is_some() {
        head.extend(heads(&["cores busy", "memory, MiB"]));
    }
    let written = m["write_amplification"]["over_time"].as_array();
    if written.is_some() {
        head.push("write amplification".into());
    }
    let base = "wordline.machine.intervals";
    let begin_of = |k: usize| if k == 0 { 0.0 } else { ends[k - 1] };
    // The rate of a few microseconds at the end says nothing; pictures leave it out likewise.
    let is_rest = |k: usize| k > 3 && k + 1 == ends.len() && ends[k] - ends[k - 1] < ends[0] / 4.0;
    let rows = ends.iter().enumerate().map(|(k, end)| {
        let begin = begin_of(k);
        let length = (end - begin) / 1e9;
        let mut row =
            vec![Cell::number(fixed(end / 1e9, 3), Some(*end), format!("{base}.end_ns.{k}"))];
        for (d, l) in &dirs {
            let without = uncounted(l).map(|[from, to]| (end.min(to) - begin.max(from)).max(0.0));
            let counted = (end - begin - without.sum::<f64>()) / 1e9;
            let rate = float(&l["ios"][k]) / counted.max(1e-9);
            row.push(match counted > 0.0 && !is_rest(k) {
                true => Cell::number(fixed(rate, 0), Some(rate), ""),
                false => Cell::None,
            });
            for key in ["p50_ns", "p99_ns", "p99_9_ns", "slowest_ns"] {
                row.push(match l[key][k].as_f64() {
                    Some(ns) => Cell::number(
                        fixed(ns / 1e3, 1),
                        Some(ns),
                        format!("{base}.latency.{d}.{key}.{k}"),
                    ),
                    None => Cell::None,
                });
            }
        }
        for key in ["flash_reads", "flash_reads_waited"] {
            let n = float(&i[key][k]);
            row.push(Cell::number(fixed(n, 0), Some(n), format!("{base}.{key}.{k}")));
        }
        if lines {
            let n = float(&i["free_lines"]["lines"][k]);
            row.push(Cell::number(fixed(n, 0), Some(n), format!("{base}.free_lines.lines.{k}")));
        }
        if let Some(host) = host {
            let busy: f64 = ["user_ns", "system_ns", "interrupt_ns"]
                .iter()
                .map(|key| float(&host[k][*key]))
                .sum();
            row.push(Cell::number(fixed(busy / 1e9 / length.max(1e-9), 2), None, ""));
            let bytes: f64 =
                host[k]["memory"].as_object().into_iter().flatten().map(|(_, b)| float(b)).sum();
            row.push(Cell::number(fixed(bytes / 1048576.0, 1), Some(bytes), ""));
        }
        if let Some(rows) = written {
            let at = rows.iter().find(|r| r["end_ns"].as_f64() == Some(*end));
            let user = at.map_or(0.0, |r| float(&r["user_sectors"]));
            row.push(match at {
                Some(r) if user > 0.0 => {
                    let all: f64 = [
                        "user",
                        "gc",
                        "padding",
                        "parity",
                        "metadata",
                        "folded",
                        "map",
                        "resubmitted",
                    ]
                    .iter()
                    .map(|c| r[format!("{c}_sectors")].as_f64().unwrap_or(0.0))
                    .sum();
                    Cell::number(fixed(all / user, 2), None, "")
                }
                _ => Cell::None,
            });
        }
        row
    });
    table("", &head, &rows.collect::<Vec<_>>())
}

fn flash(run: &Value) -> String {
    let m = &run["wordline"]["machine"];
    let drives: Vec<&Value> = m["flash"].as_array().into_iter().flatten().collect();
    let mut out = String::new();
    for (d, f) in drives.iter().enumerate() {
        let of = if drives.len() > 1 {
            format!(" of {}", f["drive"].as_str().unwrap_or(""))
        } else {
            String::new()
        };
        let has = |key: &str| f[key].as_object().is_some_and(|by| !by.is_empty());
        if !has("busy_by") {
            put!(out, "<p>No LUN{} did anything: no I/O came to the flash.</p>", escape(&of));
            continue;
        }
        out += "<div class=\"pair\">";
        let args = json!({ "drive": d });
        out += &figure(
            &format!("lun-busy-{d}"),
            "lun-busy",
            &args,
            &format!("How busy each LUN{of} was"),
            "",
        );
        if has("read_wait_ns_by") {
            let title = format!("How long reads waited at each LUN{of}");
            out += &figure(&format!("lun-waits-{d}"), "lun-waits", &args, &title, "");
        }
        out += "</div>";
        let empty = Map::new();
        let (busy, waits) = (
            f["busy_by"].as_object().unwrap_or(&empty),
            f["read_wait_ns_by"].as_object().unwrap_or(&empty),
        );
        let mut names: Vec<&String> = busy.keys().collect();
        names.extend(waits.keys().filter(|k| !busy.contains_key(*k)));
        let numbers = |v: Option<&Value>| -> Vec<f64> {
            v.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_f64).collect()
        };
        let all_waits: f64 = waits.values().map(|v| numbers(Some(v)).iter().sum::<f64>()).sum();
        let rows = names.iter().map(|name| {
            let list = numbers(busy.get(*name));
            let mut row = vec![Cell::Head(cause_name(name), Some(format!("c-{}", slug(name))))];
            if list.is_empty() {
                row.extend([Cell::None, Cell::None, Cell::None]);
            } else {
                let mean = list.iter().sum::<f64>() / list.len() as f64;
                let least = list.iter().copied().fold(f64::INFINITY, f64::min);
                let most = list.iter().copied().fold(0.0, f64::max);
                row.extend(
                    [mean, least, most].map(|x| Cell::number(fixed(x * 100.0, 2), Some(x), "")),
                );
            }
            let waited: f64 = numbers(waits.get(*name)).iter().sum();
            if waited > 0.0 {
                row.push(Cell::number(fixed(waited / 1e6, 1), Some(waited), ""));
                row.push(Cell::number(
                    fixed(waited / all_waits * 100.0, 1),
                    Some(waited / all_waits),
                    "",
                ));
            } else {
                row.extend([Cell::None, Cell::None]);
            }
            row
        });
        let head = heads(&[
            "",
            "LUNs busy, mean %",
            "least %",
            "most %",
            "reads waited, ms",
            "of all waits, %",
        ]);
        let caption =
            format!("What LUNs{of} were busy with, and what reads waited for (summed over reads)");
        out += &table(&caption, &head, &rows.collect::<Vec<_>>());
    }
    let blocked = m["reads_blocked"].as_object().into_iter().flatten();
    let all = float(&m["user_flash_reads"]);
    let rows: Vec<Vec<Cell>> = blocked
        .filter(|(_, n)| float(n) > 0.0)
        .map(|(name, n)| {
            let n = float(n);
            vec![
                Cell::head(format!("behind {}", cause(name))),
                Cell::number(
                    fixed(n, 0),
                    Some(n),
                    format!("wordline.machine.reads_blocked.{name}"),
                ),
                Cell::number(fixed(100.0 * n / all.max(1.0), 2), Some(n / all.max(1.0)), ""),
            ]
        })
        .collect();
    if !rows.is_empty() {
        let waited = float(&m["user_reads_waited"]);
        let caption = format!("{} of {} reads from flash waited", fixed(waited, 0), fixed(all, 0));
        out += &table(&caption, &heads(&["", "reads", "of flash reads, %"]), &rows);
        out += "<p class=\"note\">By what they waited for longest at their LUN. Those that waited for the channel are in its row, \
                whatever else they waited for.</p>";
    }
    out
}

/// What holds a LUN.
fn cause_name(name: &str) -> String {
    match name {
        "user_read" => "reads of users",
        "rebuild_read" => "reads to rebuild from",
        "gc_read" => "reads of the collector",
        "meta_read" => "reads of metadata",
        "user_program" => "programs of users' data",
        "gc_program" => "programs of the collector",
        "meta_program" => "programs of metadata",
        "parity_program" => "programs of parity",
        "erase" => "erases",
        "suspension" => "suspending",
        "transfer" => "the channel",
        other => return other.replace('_', " "),
    }
    .into()
}

fn slowest(run: &Value) -> String {
    let all: Vec<&Value> = run["wordline"]["slowest"].as_array().into_iter().flatten().collect();
    if all.is_empty() {
        return match has_latencies(run) {
            false => format!("<p>None is the slowest: {}.</p>", why_none(run)),
            true => "<p>The lives of the slowest I/Os were not kept: --slowest N or --report keeps them.</p>".into(),
        };
    }
    let mut out = figure("slowest-ios", "slowest", &json!({}), "From the call to the return", "");
    for (i, life) in all.iter().enumerate() {
        let mut begin = 0.0;
        let steps = life["steps"].as_array().into_iter().flatten().map(|s| {
            let end = float(&s["end_ns"]);
            let row = vec![
                Cell::number(fixed(begin / 1e3, 3), Some(begin), ""),
                Cell::number(fixed((end - begin) / 1e3, 3), Some(end - begin), ""),
                Cell::Text(s["layer"].as_str().unwrap_or("").into()),
                Cell::Text(s["why"].as_str().unwrap_or("").into()),
                Cell::Text(s["place"].as_str().unwrap_or("").into()),
            ];
            begin = end;
            row
        });
        let steps: Vec<_> = steps.collect();
        let latency = float(&life["latency_ns"]);
        let summary = format!(
            "{}. {} of {} bytes at offset {}, {}, {} from {} s on",
            i + 1,
            life["ddir"].as_str().unwrap_or(""),
            fixed(float(&life["bytes"]), 0),
            life["offset"],
            life["job"].as_str().unwrap_or("a job"),
            time(latency),
            digits(float(&life["begin_ns"]) / 1e9, 6),
        );
        let mut text = table("", &heads(&["at, µs", "for, µs", "layer", "why", "where"]), &steps);
        if float(&life["further_steps"]) > 0.0 {
            put!(text, "<p class=\"note\">{} further steps.</p>", life["further_steps"]);
        }
        out += &details(&summary, &text);
    }
    out
}

/// Stretches of time of which nothing of a direction is counted.
fn uncounted(of: &Value) -> impl Iterator<Item = [f64; 2]> + '_ {
    let list = of["uncounted_ns"].as_array().into_iter().flatten();
    let list = list.map(|stretch| [0, 1].map(|end| float(&stretch[end])));
    // Of results of before.
    let ramp = of["counted_from_ns"].as_f64().filter(|ns| *ns > 0.0);
    list.chain(ramp.map(|ns| [0.0, ns]))
}

fn wear(run: &Value) -> String {
    let m = &run["wordline"]["machine"];
    let w = &m["wear"];
    let what = if w["in_place"] == true { "writes of a unit" } else { "erases of a block" };
    let row = |name: &str, key: &str, decimals: usize| {
        let x = float(&w[key]);
        vec![
            Cell::head(name),
            Cell::number(fixed(x, decimals), Some(x), format!("wordline.machine.wear.{key}")),
        ]
    };
    let mut rows = vec![
        row("fewest", "erases_min", 0),
        row("mean", "erases_mean", 2),
        row("most", "erases_max", 0),
    ];
    if float(&w["rated"]) > 0.0 {
        rows.push(row("rated", "rated", 0));
    }
    let mut out = String::new();
    for (d, f) in m["flash"].as_array().into_iter().flatten().enumerate() {
        if f["blocks_by_erases"].as_array().is_some_and(|rows| rows.len() > 1) {
            let title = format!(
                "Blocks of {} by erases",
                f["drive"].as_str().filter(|n| !n.is_empty()).unwrap_or("the drive")
            );
            out += &figure(&format!("erases-{d}"), "erases", &json!({ "drive": d }), &title, "");
        }
    }
    out + &table(&format!("{}, since the drive was made", capital(what)), &[], &rows)
}

fn programs(run: &Value) -> String {
    let mut out = String::new();
    for (path, p) in crate::number::programs(run) {
        let empty = Map::new();
        let operations = p["operations"].as_object().unwrap_or(&empty);
        let longest = operations.values().map(|o| float(&o["lat_ns"]["max"])).fold(0.0, f64::max);
        let (unit, by) = table_unit(longest);
        // The table has no column for 99.999 %.
        let percents = &PERCENTILES[..4];
        let rows = operations.iter().map(|(name, o)| {
            let number = |key: &str, decimals| {
                Cell::number(
                    fixed(float(&o[key]), decimals),
                    o[key].as_f64(),
                    format!("{path}.operations.{name}.{key}"),
                )
            };
            let ns = |v: &Value, key: &str| {
                Cell::number(
                    fixed(float(v) / by, 1),
                    v.as_f64(),
                    format!("{path}.operations.{name}.lat_ns.{key}"),
                )
            };
            let lat = &o["lat_ns"];
            let mut row = vec![
                Cell::head(name.clone()),
                number("total", 0),
                number("per_s", 1),
                ns(&lat["mean"], "mean"),
            ];
            row.extend(percents.iter().map(|(name, key)| {
                match percentile(name, &o["total"], &lat["percentile"]) {
                    Some(_) => ns(&lat["percentile"][*key], &format!("percentile/{key}")),
                    None => Cell::None,
                }
            }));
            row.push(ns(&lat["max"], "max"));
            row
        });
        let rows: Vec<_> = rows.collect();
        let head = heads(&[
            "operation",
            "total",
            "a second",
            "mean",
            "50 %",
            "99 %",
            "99.9 %",
            "99.99 %",
            "slowest",
        ]);
        let name = p["name"].as_str().unwrap_or("program");
        out += &if rows.is_empty() {
            format!("<p class=\"note\">{}: no operation was finished.</p>", escape(name))
        } else {
            table(&format!("{name}: latencies in {unit}"), &head, &rows)
        };
        let pairs = ["figures", "counters"]
            .iter()
            .flat_map(|key| p[*key].as_object().into_iter().flatten());
        let rows: Vec<_> = pairs
            .map(|(name, x)| {
                vec![
                    Cell::head(name.replace('_', " ")),
                    Cell::number(digits(float(x), 6), x.as_f64(), ""),
                ]
            })
            .collect();
        if !rows.is_empty() {
            out += &details(
                &format!("What {} counted", p["name"].as_str().unwrap_or("it")),
                &table("", &[], &rows),
            );
        }
    }
    out
}

pub fn what_was_run(run: &Value) -> String {
    let w = &run["wordline"];
    let p = &w["provenance"];
    let m = &w["machine"];
    let mut rows = Vec::new();
    let mut row = |name: &str, text: String| {
        if !text.is_empty() {
            rows.push(vec![Cell::head(name), Cell::Text(text)]);
        }
    };
    let text = |v: &Value| v.as_str().unwrap_or("").to_owned();
    row("workload", text(&p["workload"]));
    for key in ["device", "ftl", "stack", "testbed", "scale", "precondition", "topology"] {
        row(key, text(&p[key]));
    }
    row("set", strings(&p["overrides"]).join(", "));
    row("drive", text(&w["prepared"]));
    row("seed", p["seed"].to_string());
    row("version", text(&p["version"]));
    row("ended", text(&w["ended"]));
    row("simulated", time(float(&m["simulated_ns"])));
    row(
        "I/Os",
        format!(
            "{} generated, {} served",
            fixed(float(&m["generated"]), 0),
            fixed(float(&m["served"]), 0)
        ),
    );
    row("events", fixed(float(&m["events"]), 0));
    let checked = &m["integrity"];
    let integrity = match (checked["on"] == true, float(&checked["wrong"])) {
        (false, _) => "not checked (--no-integrity)".to_owned(),
        (true, wrong) => format!(
            "{} sectors read were compared with the newest write, {} wrong",
            fixed(float(&checked["checked"]), 0),
            fixed(wrong, 0)
        ),
    };
    row("integrity", integrity);
    let mut out = table("", &[], &rows);
    let warnings = strings(&w["warnings"]);
    let notes = strings(&w["notes"]);
    if !warnings.is_empty() {
        out += "<h3>Warnings</h3>";
        out += &list(&warnings);
    }
    if !notes.is_empty() {
        out += "<h3>Notes</h3>";
        out += &list(&notes);
    }
    let options = |v: &Value| {
        let pairs = v.as_object().into_iter().flatten();
        pairs
            .map(|(k, v)| match v.as_str() {
                Some("") | None => k.clone(),
                Some(value) => format!("{k}={value}"),
            })
            .collect::<Vec<_>>()
            .join("  ")
    };
    let mut rows = Vec::new();
    if run["global options"].is_object() {
        rows.push(vec![
            Cell::head("global"),
            Cell::Html(format!("<code>{}</code>", escape(&options(&run["global options"])))),
        ]);
    }
    for job in run["jobs"].as_array().into_iter().flatten() {
        let text = options(&job["job options"]);
        if !text.is_empty() {
            let name = job["jobname"].as_str().unwrap_or("").to_owned();
            rows.push(vec![
                Cell::head(name),
                Cell::Html(format!("<code>{}</code>", escape(&text))),
            ]);
        }
    }
    if !rows.is_empty() {
        out += "<h3>Jobs</h3>";
        out += &table("", &[], &rows);
    }
    let host = &m["host"];
    let functions: Vec<&Value> = host["functions"].as_array().into_iter().flatten().collect();
    if !functions.is_empty() {
        let rows = functions.iter().enumerate().map(|(i, f)| {
            let number = |key: &str, by: f64, decimals| {
                Cell::number(
                    fixed(float(&f[key]) * by, decimals),
                    f[key].as_f64(),
                    format!("wordline.machine.host.functions.{i}.{key}"),
                )
            };
            vec![
                Cell::head(f["name"].as_str().unwrap_or("")),
                number("calls", 1.0, 0),
                number("share", 100.0, 2),
                number("ns_per_io", 1.0, 1),
                number("loads_per_io", 1.0, 1),
                number("stores_per_io", 1.0, 1),
            ]
        });
        let head = heads(&[
            "function of the host",
            "calls",
            "of busy time, %",
            "ns an I/O",
            "loads an I/O",
            "stores an I/O",
        ]);
        out += &details(
            "What the host's cores did, by function",
            &table("", &head, &rows.collect::<Vec<_>>()),
        );
    }
    let pairs = |key: &str, unit: fn(f64) -> String| {
        let all = m[key].as_object().into_iter().flatten().filter(|(_, x)| float(x) > 0.0);
        let rows = all.map(|(name, x)| {
            vec![
                Cell::head(name.clone()),
                Cell::number(unit(float(x)), x.as_f64(), format!("wordline.machine.{key}/{name}")),
            ]
        });
        rows.collect::<Vec<_>>()
    };
    let energy = pairs("energy_j", |j| fixed(j, 3));
    if !energy.is_empty() {
        let caption = format!(
            "Joules of the drive by part; {} in the mean",
            Unit::Watts.text(float(&m["total_w"]))
        );
        out += &details("Energy", &table(&caption, &[], &energy));
    }
    let counters = pairs("counters", |n| fixed(n, 0));
    if !counters.is_empty() {
        out += &details("All counters that counted", &table("", &[], &counters));
    }
    out
}
