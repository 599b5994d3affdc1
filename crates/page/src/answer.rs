//! What a result says in a paragraph, and the numbers that matter.

use crate::Outcome;
use crate::html::{escape, put};
use crate::number::{Unit, digits, directions, plural, spread, time, value};
use serde_json::Value;

/// Words for what a read waited for.
pub fn cause(name: &str) -> String {
    match name {
        "user_read" => "other reads",
        "rebuild_read" => "reads to rebuild from",
        "gc_read" => "reads of the collector",
        "meta_read" => "reads of metadata",
        "user_program" => "programs of users' data",
        "gc_program" => "programs of the collector",
        "meta_program" => "programs of metadata",
        "parity_program" => "programs of parity",
        "erase" => "erases",
        "suspension" => "suspensions",
        "transfer" => "transfers on the channel",
        other => return other.replace('_', " "),
    }
    .into()
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

pub fn and(list: &[String]) -> String {
    match list {
        [] => String::new(),
        [one] => one.clone(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}

/// What ran, in a few words.
pub fn what_ran(run: &Value) -> String {
    let w = &run["wordline"];
    let programs = std::iter::once(&w["app"]).chain(w["with"].as_array().into_iter().flatten());
    let programs: Vec<String> =
        programs.filter_map(|p| p["name"].as_str().map(str::to_owned)).collect();
    let mut names: Vec<String> = Vec::new();
    for job in run["jobs"].as_array().into_iter().flatten() {
        let name = job["jobname"].as_str().unwrap_or("").to_owned();
        // A program's threads are reported like jobs.
        if !name.is_empty() && !names.contains(&name) && !programs.contains(&name) {
            names.push(name);
        }
    }
    let some = |mut names: Vec<String>, one: &str| {
        let word = if names.len() == 1 { one.to_owned() } else { format!("{one}s") };
        let more = names.len().saturating_sub(4);
        names.truncate(4);
        if more > 0 {
            names.push(format!("{more} more"));
        }
        (!names.is_empty()).then(|| format!("{word} {}", and(&names)))
    };
    let ran: Vec<String> =
        [some(programs.clone(), "program"), some(names, "job")].into_iter().flatten().collect();
    if ran.is_empty() { "jobs that are not reported".into() } else { and(&ran) }
}

/// The layer that has the greatest part of a split, with that part and the whole.
fn greatest(parts: &Value) -> Option<(&str, f64, f64)> {
    let parts = parts.as_object()?;
    let all: f64 = parts.values().filter_map(Value::as_f64).sum();
    let (name, ns) = parts
        .iter()
        .filter_map(|(name, ns)| Some((name, ns.as_f64()?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    (all > 0.0).then_some((name.as_str(), ns, all))
}

fn of_layers(run: &Value, ddir: &str) -> String {
    let tables = run["wordline"]["machine"]["layers"].as_array().into_iter().flatten();
    let Some(table) = tables.into_iter().find(|t| t["ddir"] == ddir) else { return String::new() };
    let rows = table["at"].as_array().into_iter().flatten();
    let row = rows.into_iter().rfind(|r| r["percentile"].as_f64() == Some(99.9));
    let tail = row.and_then(|row| greatest(&row["by_layer_ns"]));
    let share = |(_, ns, all): (&str, f64, f64)| Unit::Share.text(ns / all);
    let text = match (greatest(&table["mean_by_layer_ns"]), tail) {
        (Some(mean), Some(tail)) if mean.0 == tail.0 => format!(
            "{} of that on average, and {} at 99.9 %, is {}",
            share(mean),
            share(tail),
            layer(mean.0)
        ),
        (Some(mean), tail) => {
            let tail = tail.map(|t| format!(", and at 99.9 % {} is {}", share(t), layer(t.0)));
            format!(
                "{} of that on average is {}{}",
                share(mean),
                layer(mean.0),
                tail.unwrap_or_default()
            )
        }
        _ => return String::new(),
    };
    // What was in the way for most of the layer's time, where that was most of it.
    let why = |delays: &Value, of: Option<(&str, f64, f64)>| {
        let (layer, spent, _) = of?;
        let (why, ns, _) = greatest(&delays[layer])?;
        (ns > spent / 2.0).then(|| format!("{why} for {} of it", Unit::Share.text(ns / spent)))
    };
    let mean = why(&table["mean_by_delay_ns"], greatest(&table["mean_by_layer_ns"]));
    let tail = row.and_then(|row| why(&row["by_delay_ns"], tail));
    let tail = tail.map(|why| format!("at 99.9 % {why}"));
    let said: Vec<String> = mean.into_iter().chain(tail).collect();
    if said.is_empty() { text } else { format!("{text} ({})", said.join("; ")) }
}

fn layer(name: &str) -> String {
    match name {
        "LUN wait" => "waiting for a LUN".into(),
        "nand" => "the flash itself".into(),
        "queue wait" => "waiting in a queue of the drive".into(),
        "ftl" => "the FTL and its write buffer".into(),
        "transfer" => "the flash channel".into(),
        "link" => "the link to the host".into(),
        "application" => "the application".into(),
        "device limit" => "the drive's own limit".into(),
        other => format!("the {other}"),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

/// What reads waited for longest in sum, and its share of all waits.
fn longest_wait(m: &Value) -> Option<(String, f64)> {
    let mut sums: Vec<(String, f64)> = Vec::new();
    for flash in m["flash"].as_array()? {
        for (name, list) in flash["read_wait_ns_by"].as_object()? {
            let ns = list.as_array()?.iter().filter_map(Value::as_f64).sum::<f64>();
            match sums.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum += ns,
                None => sums.push((name.clone(), ns)),
            }
        }
    }
    let all: f64 = sums.iter().map(|s| s.1).sum();
    let most = sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (most.1 > 0.0).then(|| (most.0, most.1 / all))
}

/// The paragraph, as HTML.
pub fn paragraph(outcome: &Outcome) -> String {
    let run = outcome.first();
    let (w, m) = (&run["wordline"], &run["wordline"]["machine"]);
    let p = &w["provenance"];
    let name = |key: &str| escape(p[key].as_str().unwrap_or(""));
    let all = outcome.runs.iter().filter_map(|r| r["wordline"]["machine"]["simulated_ns"].as_f64());
    let simulated = all.sum::<f64>() / outcome.runs.len() as f64;
    let mut out = String::new();
    match w["ended"].as_str() {
        Some("failed") => {
            out += "<b>The run failed: these numbers are not those of a whole run.</b> "
        }
        Some("interrupted" | "limit") => {
            out += "<b>The run was stopped before its jobs ended.</b> "
        }
        _ => {}
    }
    put!(out, "{} ran for {} of simulated time", escape(&capital(&what_ran(run))), time(simulated));
    put!(out, " on {} with {} and {}. ", name("device"), name("ftl"), name("stack"));
    if outcome.is_repeated() {
        put!(
            out,
            "Numbers are means over {} seeds, with 95 % confidence intervals; shares of time and pictures are of seed {}. ",
            outcome.runs.len(),
            p["seed"]
        );
    }
    let number = |id: &str, unit: Unit| spread(outcome, id).map(|s| unit.text(s.mean));
    for ddir in directions(run) {
        let id = |what: &str| format!("{ddir}.{what}");
        let rate = number(&id("iops"), Unit::Rate).map(|rate| {
            let bandwidth = number(&id("bw"), Unit::Bandwidth).unwrap_or_default();
            format!("<b>{rate}</b> ({bandwidth})")
        });
        let within: Vec<String> = [("p50", "half"), ("p99", "99 %"), ("p99_9", "99.9 %")]
            .iter()
            .filter_map(|(p, word)| {
                Some(format!("{word} within <b>{}</b>", number(&id(p), Unit::Time)?))
            })
            .collect();
        // Of syncs fio has a latency and no rate.
        let said: Vec<String> =
            rate.into_iter().chain((!within.is_empty()).then(|| and(&within))).collect();
        if said.is_empty() {
            continue;
        }
        put!(out, "{}: {}", capital(&plural(&ddir)), said.join(", "));
        let layers = of_layers(run, &ddir);
        if !layers.is_empty() {
            put!(out, "; {}", escape(&layers));
        }
        out += ". ";
    }
    let waited = spread(outcome, "reads_waited").map(|s| s.mean);
    if let Some(waited) = waited.filter(|w| *w > 0.0) {
        put!(out, "Of reads from flash {} waited", Unit::Share.text(waited));
        if let Some((name, share)) = longest_wait(m) {
            put!(out, ", {} of the time behind {}", Unit::Share.text(share), escape(&cause(&name)));
        }
        out += ". ";
    }
    if let Some(factor) = number("write_amplification", Unit::Factor) {
        let arrays = m["arrays"].as_array().is_some_and(|arrays| !arrays.is_empty());
        let of = if arrays { " of the drives, below the array," } else { "" };
        put!(out, "Write amplification{of} was <b>{factor}</b>");
        let w = &m["write_amplification"];
        let parity = w["parity_sectors"].as_f64() > Some(0.0);
        let thirds = w["by_third"].as_array().into_iter().flatten();
        let thirds: Vec<String> = thirds.filter_map(Value::as_f64).map(|f| digits(f, 3)).collect();
        if !outcome.is_repeated() {
            let without = w["factor"].as_f64().filter(|_| parity);
            let without = without.map(|f| format!("{} without parity", digits(f, 3)));
            let thirds =
                (thirds.len() == 3).then(|| format!("by thirds of the run {}", thirds.join(", ")));
            match (without, thirds) {
                (Some(without), Some(thirds)) => put!(out, ", {without} ({thirds})"),
                (Some(without), None) => put!(out, ", {without}"),
                (None, Some(thirds)) => put!(out, " ({thirds})"),
                (None, None) => {}
            }
        } else if parity {
            out += " with parity";
        }
        out += ". ";
    }
    let warnings = strings(&w["warnings"]).count();
    if warnings > 0 {
        let words = if warnings == 1 { "A warning" } else { "Warnings" };
        put!(out, "{words} below may change how these numbers are to be read.");
    }
    out.trim_end().replace(" %", "\u{a0}%")
}

/// The five that matter most, by id, title and unit: of reads if there are any, of writes, of both.
pub fn five(run: &Value) -> Vec<(String, String, Unit)> {
    let all = directions(run);
    let has = |d: &str| all.iter().any(|a| a == d);
    // The farthest percentile that has I/Os beyond it.
    let tail = |d: &str| {
        [("p99_99", "99.99 %"), ("p99_9", "99.9 %"), ("p99", "99 %")]
            .into_iter()
            .find(|(p, _)| value(run, &format!("{d}.{p}")).is_some())
            .unwrap_or(("max", "slowest"))
    };
    let rate = |d: &str| (format!("{d}.iops"), plural(d), Unit::Rate);
    let latency = |d: &str, (p, word): (&str, &str)| {
        (format!("{d}.{p}"), format!("{d} latency, {word}"), Unit::Time)
    };
    let other = |id: &str, what: &str, unit: Unit| (id.to_owned(), what.to_owned(), unit);
    let amplified = other("write_amplification", "write amplification", Unit::Factor);
    let cores = other("cores", "host cores busy", Unit::Cores);
    let luns = other("luns", "LUNs busy, mean", Unit::Share);
    let median = ("p50", "50 %");
    let sync = || [latency("sync", median), latency("sync", tail("sync"))];
    let list = match (has("read") && has("write"), all.first()) {
        (true, _) if has("sync") => [rate("read"), latency("read", tail("read")), rate("write")]
            .into_iter()
            .chain(sync())
            .collect(),
        (true, _) => vec![
            rate("read"),
            latency("read", median),
            latency("read", tail("read")),
            rate("write"),
            amplified,
            latency("write", tail("write")),
        ],
        (false, Some(d)) if has("sync") && d != "sync" => {
            let of = [rate(d), latency(d, tail(d))].into_iter();
            of.chain(sync()).chain([amplified, luns, cores]).collect()
        }
        (false, Some(d)) => vec![
            rate(d),
            latency(d, median),
            latency(d, tail(d)),
            amplified,
            (format!("{d}.bw"), "bandwidth".into(), Unit::Bandwidth),
            other("reads_waited", "flash reads that waited", Unit::Share),
            luns,
            cores,
        ],
        (false, None) => vec![cores, luns, other("watts", "power of the drive", Unit::Watts)],
    };
    list.into_iter().filter(|(id, ..)| value(run, id).is_some()).take(5).collect()
}

/// The same, as HTML.
pub fn five_html(outcome: &Outcome) -> String {
    let mut out = String::from("<dl class=\"five\">");
    for (id, what, unit) in five(outcome.first()) {
        let Some(s) = spread(outcome, &id) else { continue };
        let (number, name) = unit.parts(s.mean);
        put!(
            out,
            "<div><dt>{}</dt><dd data-id=\"{id}\" data-value=\"{}\">{number}",
            escape(&what),
            s.mean
        );
        if !name.is_empty() {
            put!(out, "\u{a0}<small>{name}</small>");
        }
        if let Some(half) = s.half() {
            put!(out, "<span class=\"spread\">\u{b1} {}</span>", unit.text_as(half, s.mean));
        }
        out += "</dd></div>";
    }
    out + "</dl>\n"
}
