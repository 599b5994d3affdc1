//! The numbers of a job under several seeds, as text and JSON.

use crate::Outcome;
use crate::number::{keys, spread, value};
use serde_json::{Value, json};

/// Each number with its mean, half the width of the 95 % confidence interval of that (Student's t), and its
/// value under each seed. Times are nanoseconds, rates a second, shares from 0 to 1.
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

/// The same in lines.
pub fn summary_text(outcome: &Outcome) -> String {
    let runs: Vec<&Value> = outcome.runs.iter().collect();
    let seeds: Vec<String> =
        runs.iter().map(|run| run["wordline"]["provenance"]["seed"].to_string()).collect();
    let mut out = format!("{} runs, seeds {}\n", runs.len(), seeds.join(", "));
    out += &format!("{:30} {:>14} {:>14} {:>14} {:>14}\n", "", "mean", "+- 95 %", "least", "most");
    for key in keys(&runs) {
        let Some(s) = spread(outcome, &key.id) else { continue };
        let text = |x: f64| key.unit.text(x).replace('\u{a0}', " ").replace('µ', "u");
        let half = s.half().map_or(String::new(), text);
        out += &format!(
            "{:30} {:>14} {half:>14} {:>14} {:>14}\n",
            key.what,
            text(s.mean),
            text(s.least),
            text(s.most)
        );
    }
    out
}
