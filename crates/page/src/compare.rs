//! Several results side by side.

use crate::Outcome;
use crate::answer::{and, what_ran};
use crate::html::{Cell, details, escape, figure, prose, put, section, table};
use crate::number::{Better, Key, OPERATION, Unit, digits, directions, keys, plural, spread};
use crate::one::{NINES, capital, data, has_intervals, strings, what_was_run, why_none};
use crate::shell::Shell;
use serde_json::{Value, json};

/// Each warning once, with the results that have it.
fn warnings(labels: &[String], runs: &[&Value]) -> String {
    let mut all: Vec<(String, Vec<&str>)> = Vec::new();
    for (label, run) in labels.iter().zip(runs) {
        for text in strings(&run["wordline"]["warnings"]) {
            match all.iter_mut().find(|(known, _)| *known == text) {
                Some((_, of)) => of.push(label),
                None => all.push((text, vec![label])),
            }
        }
    }
    let each = all.iter().map(|(text, of)| {
        let of = if of.len() == labels.len() { "all".into() } else { of.join(", ") };
        format!("<p><b>Warning, {}.</b> {}</p>", escape(&of), prose(text))
    });
    match each.len() {
        0 => String::new(),
        _ => format!("<div class=\"warnings\">{}</div>\n", each.collect::<String>()),
    }
}

/// Where a result comes from, in one respect.
fn origin(o: &Outcome, key: &str) -> String {
    match &o.first()["wordline"]["provenance"][key] {
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        // Which seeds a job is run with makes it no other job.
        Value::String(text) if o.is_repeated() => text.replacen("--randrepeat=0 ", "", 1),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// In which respects results differ.
fn differ(outcomes: &[Outcome]) -> Vec<&'static str> {
    const KEYS: [&str; 9] = [
        "device",
        "ftl",
        "stack",
        "testbed",
        "scale",
        "precondition",
        "overrides",
        "topology",
        "workload",
    ];
    let differs = |key: &&str| outcomes.iter().any(|o| origin(o, key) != origin(&outcomes[0], key));
    KEYS.into_iter().filter(differs).collect()
}

/// What tells results apart: what of their origin differs, or else their files.
pub fn labels(outcomes: &[Outcome]) -> Vec<String> {
    let differ = differ(outcomes);
    // Of jobs in words those that not all have.
    let said: Vec<String> = outcomes.iter().map(|o| origin(o, "workload")).collect();
    let is_shared = |word: &str| said.iter().all(|text| text.split(' ').any(|own| own == word));
    let told = |text: String| -> String {
        let words = text.split(' ').filter(|word| !is_shared(word));
        words.map(|word| word.trim_start_matches('-')).collect::<Vec<_>>().join(" ")
    };
    // Their order, and how often a word comes, may be all that differs.
    let tells = said.iter().all(|text| text.starts_with("--") && !told(text.clone()).is_empty());
    let own = |o: &Outcome| {
        let parts = differ.iter().map(|key| match origin(o, key) {
            text if *key == "workload" && tells => told(text),
            text if text.is_empty() && *key == "overrides" => "nothing set".into(),
            text if text.is_empty() => format!("no {key}"),
            text => text,
        });
        parts.collect::<Vec<_>>().join(", ")
    };
    let by_origin: Vec<String> = outcomes.iter().map(own).collect();
    let unique = |list: &[String]| (1..list.len()).all(|i| !list[..i].contains(&list[i]));
    let short = by_origin.iter().all(|label| label.chars().count() <= 48 && !label.is_empty());
    let by_file: Vec<String> = outcomes
        .iter()
        .map(|o| {
            let file = o.name.rsplit('/').next().unwrap_or(&o.name);
            file.strip_suffix(".json").unwrap_or(file).to_owned()
        })
        .collect();
    let mut labels = if unique(&by_origin) && short { by_origin } else { by_file };
    if !unique(&labels) {
        labels.iter_mut().enumerate().for_each(|(i, label)| *label = format!("{}. {label}", i + 1));
    }
    labels
}

pub fn page(outcomes: &[Outcome]) -> String {
    let labels = labels(outcomes);
    let runs: Vec<&Value> = outcomes.iter().map(Outcome::first).collect();
    let mut all: Vec<String> = Vec::new();
    for run in &runs {
        for ddir in directions(run) {
            if !all.contains(&ddir) {
                all.push(ddir);
            }
        }
    }
    let mut body = answer(outcomes, &labels, &all);
    body += &warnings(&labels, &runs);
    let mut sections: Vec<(&str, &str)> = Vec::new();
    let mut add = |id: &'static str, title: &'static str, content: String| {
        if !content.is_empty() {
            body += &section(id, title, &content);
            sections.push((id, title));
        }
    };
    add("numbers", "Numbers", numbers(outcomes, &labels));
    let seeds = of_seeds(outcomes);
    let mut tails = String::new();
    let any = |of: &dyn Fn(&Value) -> &Value, ddir: &str| {
        let has = |row: &Value| row["ddir"] == ddir && row["N"].as_u64() != Some(0);
        let mut lists = runs.iter().filter_map(|run| of(&run["wordline"]).as_array());
        lists.any(|list| list.iter().any(has))
    };
    for ddir in all.iter().filter(|ddir| any(&|w| &w["latency"], ddir)) {
        let title = format!("Latency of {}", plural(ddir));
        let note = format!("{NINES}{seeds}");
        tails += &figure(
            &format!("tail-{ddir}"),
            "tail-compared",
            &json!({ "ddir": ddir }),
            &title,
            &note,
        );
    }
    add("latency", "Latency", tails);
    let mut layers = String::new();
    // With unified_rw_reporting the drive and the host still know reads from writes.
    let kinds = ["read", "write", "trim", "sync"];
    for ddir in kinds.iter().filter(|ddir| any(&|w| &w["machine"]["layers"], ddir)) {
        let title = format!("{}: where the time went", capital(&plural(ddir)));
        let note = format!(
            "On average, and at 99.9 % where an I/O lies beyond it: the mean of the I/Os in its bucket of the \
             histogram, of which the number in the table is the middle.{seeds}"
        );
        layers += &figure(
            &format!("layers-{ddir}"),
            "layers-compared",
            &json!({ "ddir": ddir }),
            &title,
            &note,
        );
    }
    add("time", "Where the time went", layers);
    let mut over_time = String::new();
    let with_series: Vec<&&Value> = runs.iter().filter(|run| has_intervals(run)).collect();
    for (label, run) in labels.iter().zip(&runs) {
        if !has_intervals(run) {
            put!(over_time, "<p>{} has no series: {}.</p>", escape(label), why_none(run));
        }
    }
    if !with_series.is_empty() {
        for ddir in
            kinds.iter().filter(|ddir| any(&|w| &w["machine"]["intervals"]["latency"], ddir))
        {
            let s = plural(ddir);
            over_time += &figure(
                &format!("rate-{ddir}"),
                "rate-compared",
                &json!({ "ddir": ddir }),
                &format!("{} a second", capital(&s)),
                "",
            );
            for (key, percent) in [("p50_ns", "50"), ("p99_9_ns", "99.9")] {
                let any = with_series.iter().any(|run| {
                    let l = run["wordline"]["machine"]["intervals"]["latency"]
                        .as_array()
                        .into_iter()
                        .flatten();
                    l.filter(|l| l["ddir"] == *ddir)
                        .any(|l| l[key].as_array().is_some_and(|x| x.iter().any(Value::is_number)))
                });
                if any {
                    let args = json!({ "ddir": ddir, "key": key, "percent": percent });
                    let title = format!("Latency of {s}, {percent} %");
                    over_time += &figure(
                        &format!("{}-{ddir}", key.trim_end_matches("_ns")),
                        "percentile-compared",
                        &args,
                        &title,
                        if key == "p50_ns" { "" } else { "Where an interval has I/Os beyond it." },
                    );
                }
            }
        }
        let written = |run: &&&Value| {
            let rows = run["wordline"]["machine"]["write_amplification"]["over_time"].as_array();
            rows.is_some_and(|rows| rows.iter().any(|r| r["user_sectors"].as_u64() > Some(0)))
        };
        if with_series.iter().any(written) {
            over_time += &figure(
                "write-amplification",
                "write-amplification-compared",
                &json!({}),
                "Write amplification",
                "",
            );
        }
    }
    let over_time = match over_time.contains("<figure") {
        true if !seeds.is_empty() => {
            format!("<p class=\"note\">{}</p><div class=\"pair\">{over_time}</div>", seeds.trim())
        }
        true => format!("<div class=\"pair\">{over_time}</div>"),
        false => over_time,
    };
    add("over-time", "Over time", over_time);
    let each = labels.iter().zip(outcomes).map(|(label, o)| {
        let seeds = if o.is_repeated() {
            format!(", {} seeds, of which the first is shown here", o.runs.len())
        } else {
            String::new()
        };
        details(&format!("{label}: {}{seeds}", o.name), &what_was_run(o.first()))
    });
    add("run", "What was run", each.collect());
    let title = labels.join(" \u{b7} ");
    let sub = escape(&format!("{} results side by side", outcomes.len()));
    let data = data(outcomes, &labels);
    Shell { title: &title, sub: &sub, body: &body, sections: &sections, data: Some(&data) }.html()
}

/// What a picture of results of several seeds is of; empty where none is.
fn of_seeds(outcomes: &[Outcome]) -> &'static str {
    match outcomes.iter().any(Outcome::is_repeated) {
        true => " Of several seeds the first is drawn; means over all are in the table of numbers.",
        false => "",
    }
}

/// Words for a respect in which results differ.
fn respect(key: &str) -> &str {
    match key {
        "ftl" => "FTL",
        "precondition" => "state of the drive",
        "overrides" => "settings",
        "workload" => "jobs",
        other => other,
    }
}

/// What was compared with what, and how rate, tail and write amplification differ from the first.
fn answer(outcomes: &[Outcome], labels: &[String], all: &[String]) -> String {
    let differ = differ(outcomes);
    let ran = match differ.contains(&"workload") {
        true => "Results of different jobs are".into(),
        false => capital(&escape(&what_ran(outcomes[0].first()))),
    };
    let mut out = format!("{ran} compared with <b>{}</b>. ", escape(&labels[0]));
    if differ.len() > 1 {
        let words: Vec<String> = differ.iter().map(|key| respect(key).to_owned()).collect();
        let words = and(&words);
        put!(
            out,
            "They differ in {words}: no difference between them is due to one of these alone. "
        );
    }
    let each = differences(outcomes, labels, all);
    let out = match each.len() {
        0..=2 => format!("<p class=\"answer\">{out}{}</p>\n", each.join(" ")),
        _ => {
            let items: String = each.iter().map(|text| format!("<li>{text}</li>")).collect();
            format!("<p class=\"answer\">{out}</p>\n<ul class=\"answer\">{items}</ul>\n")
        }
    };
    out.replace(" %", "\u{a0}%")
}

/// A sentence for each result but the first.
fn differences(outcomes: &[Outcome], labels: &[String], all: &[String]) -> Vec<String> {
    let mut out = Vec::new();
    // Many results leave the first one's numbers to the table.
    let instead = |first: String| match outcomes.len() {
        0..=3 => format!(" instead of {first}"),
        _ => String::new(),
    };
    let runs: Vec<&Value> = outcomes.iter().map(Outcome::first).collect();
    // Of programs their operations, before their I/Os.
    let operations = keys(&runs).into_iter().filter(|key| key.id.starts_with(OPERATION));
    let rates = operations.filter(|key| key.unit == Unit::Rate);
    let mut told: Vec<(String, Unit, String)> =
        rates.map(|key| (key.id, key.unit, escape(&key.what))).collect();
    for ddir in all {
        told.push((format!("{ddir}.iops"), Unit::Rate, format!("{} a second", plural(ddir))));
        told.push((format!("{ddir}.p99_9"), Unit::Time, format!("{} at 99.9 %", plural(ddir))));
    }
    for (label, o) in labels.iter().zip(outcomes).skip(1) {
        let mut said = Vec::new();
        for (id, unit, name) in &told {
            if let (Some(a), Some(b)) = (spread(&outcomes[0], id), spread(o, id))
                && a.mean > 0.0
            {
                said.push(format!(
                    "{name} <b>{}</b>{} ({})",
                    unit.text(b.mean),
                    instead(unit.text(a.mean)),
                    change(a.mean, b.mean)
                ));
            }
        }
        if let (Some(a), Some(b)) =
            (spread(&outcomes[0], "write_amplification"), spread(o, "write_amplification"))
        {
            said.push(format!(
                "write amplification {}{}",
                digits(b.mean, 3),
                instead(digits(a.mean, 3))
            ));
        }
        if !said.is_empty() {
            out.push(format!("<b>{}</b>: {}.", escape(label), said.join(", ")));
        }
    }
    out
}

/// From here on a change is a factor.
const AS_FACTOR: f64 = 3.0;

/// A change in percent, or as a factor where it is large.
fn change(from: f64, to: f64) -> String {
    let ratio = to / from;
    if ratio >= AS_FACTOR {
        return format!("{}\u{d7}", digits(ratio, 3));
    }
    let percent = (ratio - 1.0) * 100.0;
    let sign = if percent < 0.0 { "\u{2212}" } else { "+" };
    format!("{sign}{}\u{a0}%", digits(percent.abs(), 3))
}

fn numbers(outcomes: &[Outcome], labels: &[String]) -> String {
    let runs: Vec<&Value> = outcomes.iter().map(Outcome::first).collect();
    let mut head = vec![String::new()];
    for (i, label) in labels.iter().enumerate() {
        head.push(label.clone());
        if i > 0 {
            head.push("change".into());
        }
    }
    let rows = keys(&runs).into_iter().map(|key| {
        let mut row = vec![Cell::head(key.what.clone())];
        for (i, o) in outcomes.iter().enumerate() {
            row.push(own(o, &key));
            if i > 0 {
                row.push(difference(&outcomes[0], o, &key));
            }
        }
        row
    });
    let rows: Vec<_> = rows.collect();
    let mut out = String::new();
    let missing = rows.iter().any(|row| row.iter().any(|cell| matches!(cell, Cell::None)));
    let repeated = outcomes.iter().filter(|o| o.is_repeated()).count();
    put!(out, "<p class=\"note\">Differences are from {}. ", escape(&labels[0]));
    out += match repeated {
        0 => {
            "One seed says nothing of chance: run with --repeat 5 to see confidence intervals.</p>"
        }
        n if n == outcomes.len() => {
            "Beside a mean stands the half width of its 95 % confidence interval (Student's t), beside a difference \
             that of the difference (Welch's t); of percentiles no less than what is known of them, half a bucket of \
             their histogram. A difference that may be chance is marked with ~.</p>"
        }
        _ => {
            "Only results of several seeds have confidence intervals (95 %, Student's t; of percentiles half a bucket \
             of their histogram at least); differences have one where both have.</p>"
        }
    };
    if missing {
        out += "<p class=\"note\">\u{2013}: there is no such number. No I/O lies beyond such a percentile.</p>";
    }
    out + &table("", &head, &rows)
}

fn own(o: &Outcome, key: &Key) -> Cell {
    let Some(s) = spread(o, &key.id) else { return Cell::None };
    let mut text = key.unit.text(s.mean);
    if let Some(half) = s.half() {
        text += &match half > 0.0 {
            true => format!(" <small>\u{b1} {}</small>", key.unit.text_as(half, s.mean)),
            false => " <small>under all seeds</small>".into(),
        };
    }
    Cell::number(text, Some(s.mean), "")
}

fn difference(first: &Outcome, o: &Outcome, key: &Key) -> Cell {
    let (Some(a), Some(b)) = (spread(first, &key.id), spread(o, &key.id)) else {
        return Cell::None;
    };
    if a.mean == 0.0 {
        let text = if b.mean == 0.0 { "none" } else { "from 0" };
        return Cell::number(text.into(), Some(b.mean), "");
    }
    let text = change(a.mean, b.mean);
    let by = b.mean - a.mean;
    let text = match b.half_of_difference(&a) {
        None => text,
        Some(half) => {
            let half_text = match b.mean / a.mean >= AS_FACTOR {
                _ if half == 0.0 => String::new(),
                true => format!("<small>\u{b1} {}\u{d7}</small>", digits(half / a.mean, 2)),
                false => {
                    format!("<small>\u{b1} {}\u{a0}%</small>", digits(half / a.mean * 100.0, 2))
                }
            };
            if by.abs() <= half {
                format!("~ {text} {half_text}")
            } else {
                let class = match key.better {
                    Better::Neither => "",
                    Better::More if by > 0.0 => "better",
                    Better::Less if by < 0.0 => "better",
                    _ => "worse",
                };
                format!("<span class=\"{class}\">{text}</span> {half_text}")
            }
        }
    };
    Cell::number(text, Some(by), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(name: &str, device: &str, workload: &str) -> Outcome {
        let provenance = json!({ "device": device, "workload": workload });
        let run = json!({ "wordline": { "provenance": provenance } });
        Outcome { name: name.into(), runs: vec![run], ended: None }
    }

    #[test]
    fn results_are_named_by_what_differs() {
        let named = |all: &[(&str, &str)]| {
            let all = (1..).zip(all).map(|(i, of)| result(&format!("r{i}.json"), of.0, of.1));
            labels(&all.collect::<Vec<_>>())
        };
        let job = |more: &str| format!("--name=a --rw=randread{more}");
        let (one, four) = (job(" --iodepth=1"), job(" --iodepth=4"));
        assert_eq!(named(&[("z", &one), ("z", &four)]), ["iodepth=1", "iodepth=4"]);
        assert_eq!(named(&[("z", &one), ("i", &four)]), ["z, iodepth=1", "i, iodepth=4"]);
        assert_eq!(named(&[("z", &one), ("i", &one)]), ["z", "i"]);
        // Where words do not tell all apart the whole texts do, if they are short.
        let none = job("");
        assert_eq!(named(&[("z", &four), ("z", &none)]), [four, none]);
        let (x, y) = ("--name=x --bs=4k --name=y --bs=8k", "--name=x --bs=8k --name=y --bs=4k");
        assert_eq!(named(&[("z", x), ("z", y)]), [x, y]);
        let long = |text: &str| format!("{text} --filename=/dev/nvme0n1");
        assert_eq!(named(&[("z", &long(x)), ("z", &long(y))]), ["r1", "r2"]);
    }

    #[test]
    fn a_change_from_zero_is_no_missing_number() {
        let waited = |n: u64| {
            let machine = json!({ "user_flash_reads": 100, "user_reads_waited": n });
            let run = json!({ "wordline": { "machine": machine } });
            Outcome { name: "r".into(), runs: vec![run], ended: None }
        };
        let key = Key {
            id: "reads_waited".into(),
            what: String::new(),
            unit: Unit::Share,
            better: Better::Less,
        };
        let told = |from, to| match difference(&waited(from), &waited(to), &key) {
            Cell::Number { text, .. } => text,
            other => panic!("{other:?}"),
        };
        assert_eq!((told(0, 40), told(0, 0)), ("from 0".into(), "none".into()));
        assert!(told(20, 40).contains('%'));
    }
}
