//! Studies. A TOML file says what to run over which axes, what to read from the results, and what was
//! published. Processes run its points. A table, a chart and files have ours and theirs side by side.
//!
//! This crate reads no clock; it starts processes and writes files.
#![warn(missing_docs)]

mod chart;
pub mod claims;
mod compare;
pub mod document;
mod error;
mod expr;
mod fork;
mod listed;
mod machine;
pub mod memory;
mod metric;
mod page;
mod plan;
mod preset;
mod published;
mod repeat;
mod run;
mod spec;
mod store;
mod svg;
mod table;
mod vary;
mod worker;

pub use claims::Claims;
pub use compare::{Comparison, Judgement, Verdict};
pub use error::{
    FormulaError, NoStudy, OnlyError, PathError, PointError, RepeatError, StoreError, Unknown,
    VariableError, VaryError, WorkerError,
};
pub use machine::{ageing_key, prepare, run as run_on};
pub use page::{entry, page, text_of};
pub use plan::{Group, Only, Plan, Point, Scale, parse_only};
pub use preset::{Preset, find, list, presets};
pub use run::{Event, Failed, Options, Stopped, Watch, run};
pub use spec::{Spec, Study};
pub use store::Store;
pub use table::Table;
pub use worker::work;

use std::path::{Path, PathBuf};
use wordline_profile::ConfigError;

/// What decides results: a digest of sources, libraries, compiler and target. Programs of one are programs whose
/// results are the same.
pub const BUILD: &str = env!("WORDLINE_RESULT_SOURCES");

/// The table of what the store has for a plan.
pub fn tabulate<'a>(
    study: &'a Study,
    plan: &'a Plan,
    store: &Store,
    failed: &[Failed],
) -> Result<Table<'a>, ConfigError> {
    let cases = plan.cases();
    let told =
        |result: &serde_json::Value| [metric::too_few(study, result), warnings_of(result)].concat();
    let (mut by_seed, mut said, mut seeds) = (Vec::new(), Vec::new(), vec![0; cases.len()]);
    // One seed's results at a time: of many they are more than memory may hold.
    for of_seed in plan.points.chunks(cases.len().max(1)) {
        let results: Vec<_> = of_seed.iter().map(|p| store.result(p)).collect();
        by_seed.push(metric::extract(study, cases, &results)?);
        said.extend(results.iter().map(|r| r.as_ref().map_or(Vec::new(), told)));
        seeds.iter_mut().zip(&results).for_each(|(n, r)| *n += usize::from(r.is_some()));
    }
    let numbers = repeat::Numbers::of(study, cases, by_seed);
    let comparisons = compare::compare(study, plan, &numbers);
    let failed = failed.iter().map(|f| (f.point, f.why.clone())).collect();
    let warnings = repeat::together(plan, said);
    let (halves, agree) = (numbers.halves(), numbers.agree());
    let metrics = numbers.means;
    Ok(Table { study, plan, metrics, halves, agree, seeds, comparisons, failed, warnings })
}

/// What may mislead a reader of a result's numbers.
fn warnings_of(result: &serde_json::Value) -> Vec<String> {
    let all = result["wordline"]["warnings"].as_array().into_iter().flatten();
    all.filter_map(|w| w.as_str().map(str::to_owned)).collect()
}

/// In the names of tables of means.
pub(crate) const REPEATED: &str = ".repeated";

/// Writes `<out>/<study>.csv`, `.json` and, if the study has a chart, `.svg`. A quick scale, a part of the points, what
/// is varied or means over seeds never replace the tables of the whole.
pub fn write_tables(
    table: &Table<'_>,
    store: &Store,
    out: &Path,
) -> Result<Vec<PathBuf>, StoreError> {
    let mut stem = table.plan.scale.stem(&table.study.name);
    if table.study.varied().next().is_some() {
        stem += ".varied";
    }
    if table.plan.repeat.is_some() {
        stem += REPEATED;
    }
    if table.plan.partial {
        stem += ".part";
    }
    let mut written = Vec::new();
    let mut write = |extension: &str, text: String| {
        let path = out.join(format!("{stem}.{extension}"));
        store::write(&path, text.as_bytes())?;
        written.push(path);
        Ok::<_, StoreError>(())
    };
    write("csv", table.csv())?;
    write("json", table.json())?;
    // A chart that cannot be drawn takes no table with it, and leaves none of older tables.
    if let Some(chart) = &table.study.spec.chart {
        let drawn = chart::draw(table, chart, store).inspect_err(|_| {
            let _ = std::fs::remove_file(out.join(format!("{stem}.svg")));
        });
        write("svg", drawn?)?;
    }
    Ok(written)
}
