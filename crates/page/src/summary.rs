//! The numbers of a job under several seeds, as text and JSON.

use crate::Outcome;
use crate::number::{keys, spread, too_few, value};
use serde_json::{Value, json};

/// Each number with its mean, half the width of the 95 % confidence interval of that (Student's t, and of a percentile
/// no less than half of its bucket), and its value under each seed. Times are nanoseconds, rates a second, shares from
/// 0 to 1.
pub fn summary(outcome: &Outcome) -> Value {
    let runs: Vec<&Value> = outcome.runs.iter().collect();
    let each = keys(&runs).into_iter().filter_map(|key| {
        let s = spread(outcome, &key.id)?;
        let values: Vec<Option<f64>> = runs.iter().map(|run| value(run, &key.id)).collect();
        Some(json!({
            "id": key.id,
            "what": key.what,
            "n": s.n,
            "mean": s.mean,
            "half_width_95": s.half(),
            "min": s.least,
            "max": s.most,
            "values": values,
        }))
    });
    each.collect()
}

/// What is to be said of an interval of 0: no number of the runs differs. None of a single run, or where one does.
pub fn agreement(outcome: &Outcome) -> Option<String> {
    let runs: Vec<&Value> = outcome.runs.iter().collect();
    let same = |key: &crate::number::Key| {
        let first = value(runs[0], &key.id);
        runs.iter().all(|run| value(run, &key.id) == first)
    };
    let keys = keys(&runs);
    (runs.len() > 1 && !keys.is_empty() && keys.iter().all(same))
        .then(|| runs_agree(&format!("all {} runs", runs.len())))
}

/// The same of runs that `which` names.
pub fn runs_agree(which: &str) -> String {
    format!(
        "{which} agree to the last digit: nothing that is drawn from the seed changes a number of theirs. An \
         interval of 0, of a percentile one of half its bucket, says that, and is no measure of how far another \
         drive or another day would differ. \
         nand.variation, rate_process=poisson, and random offsets at a depth where they meet are drawn from it"
    )
}

/// What may mislead about the runs together, for JSON.
pub fn warnings(outcome: &Outcome) -> Value {
    outcome.ended.clone().into_iter().chain(agreement(outcome)).collect()
}

/// What the runs say of themselves under a key of `wordline`, a line each, with the seeds where not all say it.
pub fn said(outcome: &Outcome, what: &str, key: &str) -> Vec<String> {
    let mut all: Vec<(&str, Vec<String>)> = Vec::new();
    for run in &outcome.runs {
        let seed = run["wordline"]["provenance"]["seed"].to_string();
        let of = &run["wordline"][key];
        let texts = of.as_array().map_or(std::slice::from_ref(of), Vec::as_slice);
        for words in texts.iter().filter_map(Value::as_str).filter(|words| !words.is_empty()) {
            match all.iter_mut().find(|(same, _)| *same == words) {
                Some((_, seeds)) => seeds.push(seed.clone()),
                None => all.push((words, vec![seed.clone()])),
            }
        }
    }
    let line = |(words, seeds): (&str, Vec<String>)| {
        let of = match seeds.len() {
            n if n == outcome.runs.len() => String::new(),
            1 => format!(" of seed {}", seeds[0]),
            _ => format!(" of seeds {}", seeds.join(", ")),
        };
        format!("{what}{of}: {words}")
    };
    all.into_iter().map(line).collect()
}

/// The state of the drive and what may mislead, under each seed, and the numbers in lines.
pub fn summary_text(outcome: &Outcome) -> String {
    let runs: Vec<&Value> = outcome.runs.iter().collect();
    let seeds: Vec<String> =
        runs.iter().map(|run| run["wordline"]["provenance"]["seed"].to_string()).collect();
    let mut out = match runs.len() {
        1 => format!("1 run, seed {}\n", seeds[0]),
        n => format!("{n} runs, seeds {}\n", seeds.join(", ")),
    };
    if let Some(words) = &outcome.ended {
        out += &format!("warning: {words}\n");
    }
    let state = said(outcome, "drive", "prepared");
    for line in state.into_iter().chain(said(outcome, "warning", "warnings")) {
        out += &line;
        out.push('\n');
    }
    if let Some(words) = agreement(outcome) {
        out += &format!("warning: {words}\n");
    }
    let keys = keys(&runs);
    let width = keys.iter().map(|key| key.what.chars().count()).max().unwrap_or(0).max(30);
    out +=
        &format!("{:width$} {:>14} {:>14} {:>14} {:>14}\n", "", "mean", "+- 95 %", "least", "most");
    let mut by_bucket = false;
    for key in keys {
        let Some(s) = spread(outcome, &key.id) else { continue };
        by_bucket |= s.known_to > 0.0 && s.half() == Some(s.known_to);
        let text = |x: f64| key.unit.text(x).replace('\u{a0}', " ").replace('µ', "u");
        let half = s.half().map_or(String::new(), text);
        out += &format!(
            "{:width$} {:>14} {half:>14} {:>14} {:>14}\n",
            key.what,
            text(s.mean),
            text(s.least),
            text(s.most)
        );
    }
    if by_bucket {
        out += "note: a percentile is the middle of a bucket of its histogram: no interval of one is less than half of \
                that, 1/128 of the value\n";
    }
    for line in too_few(&runs) {
        out += &format!("note: {line}\n");
    }
    out
}
