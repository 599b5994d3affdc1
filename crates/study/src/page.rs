//! A study as a page.

use crate::chart;
use crate::compare::{Judgement, Verdict};
use crate::error::StoreError;
use crate::store::Store;
use crate::table::{Table, number};
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
    let panels = match &spec.chart {
        Some(chart) => chart::panels(table, chart, store)?,
        None => Vec::new(),
    };
    let panel = |p: &chart::Panel| {
        serde_json::to_value(p).expect("numbers, strings and lists have a JSON form")
    };
    let points = table.plan.points.len();
    let (head, rows) = table.rows();
    let statements = table.comparisons.iter().map(|c| {
        let difference = match c.difference {
            Some(d) if c.verdict == Verdict::Compared => format!("{:+.1} %", d * 100.0),
            _ => String::new(),
        };
        let (what, place, ours) = (c.what.clone(), c.place.clone(), c.ours.clone());
        [what, place, c.published.clone(), ours, difference, c.word().to_owned()]
    });
    let all = Study {
        name: table.study.name.clone(),
        title: spec.study.title.clone(),
        shows: spec.study.shows.clone(),
        source: spec.study.source.clone(),
        state: vec![format!(
            "{} scale: {} of {points} points have a result of this program.",
            capital(table.plan.scale.name()),
            there(table)
        )],
        panels: panels.iter().map(panel).collect(),
        head,
        axes: spec.axis.len(),
        rows,
        statements: statements.collect(),
        failed: table
            .failed
            .iter()
            .map(|(i, why)| format!("{}: {why}", table.plan.points[*i].label()))
            .collect(),
        text: text_of(&table.study.name).into(),
        toml: toml.into(),
    };
    Ok(wordline_page::study::study(&all, &number))
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
        points: (there(table), table.plan.points.len()),
        verdicts: verdicts.join(", "),
    }
}
