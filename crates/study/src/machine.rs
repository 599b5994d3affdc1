//! One point, from its configuration to the text of its result.

use crate::error::PointError;
use crate::plan::{Array, Point, parse_job};
use wordline::{Drive, Plan, Precondition, System, Workload, ZetanCache};
use wordline_cache::{Cache, Said};

/// Events between two reports of progress.
const CHUNK: u64 = 100_000;

pub(crate) fn plan(point: &Point) -> Result<Plan, PointError> {
    let config = point.config()?;
    let jobs = parse_job(point, &config)?;
    let mut system = System::from_config(config, &point.overrides);
    if let Some(Array { level, drives }) = point.array {
        system = system.into_array(level, drives);
    }
    Ok(Plan {
        label: point.label(),
        seed: point.seed,
        state: point.precondition,
        integrity: point.integrity,
        ..Plan::new(system, Workload::Jobs(jobs))
    })
}

/// What a point's drives depend on: points with equal ones can share them.
pub fn ageing_key(point: &Point) -> Result<String, PointError> {
    Ok(plan(point)?.ageing_key())
}

/// The drives as the points of a group find them, from `cache` if that has them.
pub fn prepare(
    point: &Point,
    zetans: &mut ZetanCache,
    cache: Option<&Cache>,
    tell: &mut dyn FnMut(Said),
) -> Result<Vec<Drive>, PointError> {
    let mut checked = plan(point)?.check_to_share(zetans)?;
    match cache {
        Some(cache) => cache.age(&mut checked, &mut (), tell)?,
        None => checked.age(&mut ())?,
    }
    Ok(checked.prepare(&mut ())?.into_drives())
}

/// The point changes most of its drives before it runs, by ageing at a pace of its own.
pub fn ages_on(point: &Point) -> bool {
    point.precondition == Precondition::Paced
}

/// Runs a point on its drives; `at` hears how far it is, in thousandths. The result is fio's JSON+.
pub fn run(
    point: &Point,
    drives: Vec<Drive>,
    zetans: &mut ZetanCache,
    at: &mut dyn FnMut(u64),
) -> Result<String, PointError> {
    let prepared = plan(point)?.check_on(drives, zetans).and_then(|checked| checked.pace());
    let mut run = prepared.and_then(|prepared| prepared.start())?;
    while run.step(CHUNK) {
        at(run.thousandths().unwrap_or(0));
    }
    let result = run.finish();
    result.verdict().map_err(wordline::Error::from)?;
    Ok(wordline_report::fio_json(&result, true, &Default::default()))
}
