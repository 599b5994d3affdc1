//! A study as a page.

use crate::chart;
use crate::compare::{Judgement, Verdict};
use crate::error::StoreError;
use crate::store::Store;
use crate::table::{Table, with_half};
use wordline_page::study::{Entry, Study};

/// The text that goes with a study that comes with the program, in Markdown; none of another.
pub fn text_of(name: &str) -> &'static str {
    match name.split('/').next() {
        Some("rail") => include_str!("../../../studies/rail/README.md"),
        Some("ull") => include_str!("../../../studies/ull/README.md"),
        Some("flashshare") => include_str!("../../../studies/flashshare/README.md"),
        Some("host-flash") => include_str!("../../../studies/host-flash/README.md"),
        _ => "",
    }
}

/// Points with a result.
fn there(table: &Table<'_>) -> usize {
    table.metrics.iter().filter(|row| row.iter().any(Option::is_some)).count()
}

/// What a study says and what came out; `toml` is the study as written.
pub fn page(table: &Table<'_>, store: &Store, toml: &str) -> Result<String, StoreError> {
    let spec = &table.study.spec;
    let chart::Figures { figures, not_drawn } = match &spec.chart {
        Some(chart) => chart::figures(table, chart, store)?,
        None => chart::Figures { figures: Vec::new(), not_drawn: Vec::new() },
    };
    let points = table.points().len();
    let (head, rows) = table.rows();
    let statements = table.comparisons.iter().map(|c| {
        let difference = match c.difference {
            Some(d) if c.verdict == Verdict::Compared => format!("{:+.1} %", d * 100.0),
            _ => String::new(),
        };
        let what = match c.apart.is_empty() {
            true => c.what.clone(),
            false => format!("{}: {}", c.what, c.apart),
        };
        [micro(&what), c.place.clone(), micro(&c.published), micro(&c.ours), difference, c.told()]
    });
    let all = Study {
        name: table.study.name.clone(),
        title: spec.study.title.clone(),
        shows: sentence(&spec.study.shows),
        source: spec.study.source.clone(),
        state: std::iter::once(format!(
            "{} scale: {} of {points} points have a result of this version.",
            capital(table.plan.scale.name()),
            there(table)
        ))
        .chain(table.study.varied().map(|word| format!("Varied beside the study: {word}.")))
        .chain(table.repeated().map(|words| sentence(&words)))
        .collect(),
        figures: figures.iter().map(drawn).collect(),
        not_drawn: not_drawn.iter().map(|line| micro(line)).collect(),
        head,
        axes: spec.axis.len(),
        rows: rows
            .into_iter()
            .map(|(values, numbers)| {
                let shown = |(x, half)| (x, with_half(x, half));
                (values, numbers.into_iter().map(|x| x.map(shown)).collect())
            })
            .collect(),
        statements: statements.collect(),
        failed: table
            .failed
            .iter()
            .map(|(i, why)| format!("{}: {why}", table.plan.label(*i)))
            .collect(),
        warnings: table.told(),
        text: micro(text_of(&table.study.name)),
        toml: toml.into(),
    };
    Ok(wordline_page::study::study(&all))
}

/// A figure for the page's script: what it draws, and what stands beside it.
fn drawn(figure: &chart::Figure) -> serde_json::Value {
    let mut value =
        serde_json::to_value(figure).expect("numbers, strings and lists have a JSON form");
    value["ways"] = figure.ways().iter().map(|how| serde_json::json!([how, how.words()])).collect();
    if figure.has_intervals() {
        value["interval"] = chart::INTERVAL.into();
    }
    value["range_x"] = serde_json::json!(figure.range_x());
    for (panel, of) in value["panels"].as_array_mut().into_iter().flatten().zip(&figure.panels) {
        let series = panel["series"].as_array_mut().into_iter().flatten();
        for (series, of) in series.zip(&of.series).filter(|(_, of)| !of.halves.is_empty()) {
            let places = of.halves.iter().map(|half| figure.interval_place(half.x, of.curve));
            series["places"] = places.collect();
        }
    }
    for (panel, of) in value["panels"].as_array_mut().into_iter().flatten().zip(&figure.panels) {
        panel["range_y"] = serde_json::json!(figure.range_y(of));
    }
    value
}

/// As a sentence has it.
fn sentence(text: &str) -> String {
    let end = if text.ends_with('.') { "" } else { "." };
    format!("{}{end}", capital(text))
}

/// The unit us as pages write it; code, between backticks, stays.
fn micro(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (i, part) in text.split('`').enumerate() {
        if i > 0 {
            out.push('`');
        }
        let mut rest = part;
        while let Some(at) = rest.find("us") {
            let before = rest[..at].chars().next_back().or(out.chars().next_back());
            let after = rest[at + 2..].chars().next();
            let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            let alone = i % 2 == 0 && !word(before) && !word(after);
            out += &rest[..at];
            // "it gives us more" has no unit, "12 us" and "the time in us" have one.
            let said = out.trim_end().rsplit(char::is_whitespace).next().unwrap_or_default();
            let unit = alone
                && (matches!(said, "in" | "of" | "few" | "to" | "and" | "or" | "per")
                    || !said.ends_with(char::is_alphabetic));
            out += if unit { "\u{b5}s" } else { "us" };
            rest = &rest[at + 2..];
        }
        out += rest;
    }
    out
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

/// The line of a site's first page.
pub fn entry(table: &Table<'_>, file: &str) -> Entry {
    let mut verdicts: Vec<(String, usize)> = Vec::new();
    for c in &table.comparisons {
        let word = match (c.judgement, c.verdict) {
            (Some(judgement), _) => Judgement::word(judgement),
            (None, Verdict::Compared) => "compared",
            (None, verdict) => verdict.word(),
        };
        match verdicts.iter_mut().find(|(known, _)| known == word) {
            Some((_, n)) => *n += 1,
            None => verdicts.push((word.to_owned(), 1)),
        }
    }
    let verdicts: Vec<String> = verdicts.iter().map(|(word, n)| format!("{n} {word}")).collect();
    Entry {
        file: file.to_owned(),
        title: table.study.spec.study.title.clone(),
        source: table.study.spec.study.source.clone(),
        points: (there(table), table.points().len()),
        verdicts: verdicts.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_write_microseconds_one_way() {
        let text = "mean, us | 12 us (5 us) is thus of us: `us` and `50 us`, us";
        assert_eq!(
            micro(text),
            "mean, \u{b5}s | 12 \u{b5}s (5 \u{b5}s) is thus of \u{b5}s: `us` and `50 us`, \u{b5}s"
        );
        assert_eq!(micro("it gives us more, in us"), "it gives us more, in \u{b5}s");
        assert_eq!(sentence("reads beside writes"), "Reads beside writes.");
    }
}
