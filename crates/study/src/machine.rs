//! One point, from its configuration to the text of its result.

use crate::error::PointError;
use crate::memory::{By, MemoryWatch};
use crate::plan::{Array, Point, parse_job};
use wordline::{Drive, Plan, Precondition, System, Workload, ZetanCache};
use wordline_cache::{Cache, Said};

/// Events between two reports of progress.
const CHUNK: u64 = 100_000;

pub(crate) fn plan(point: &Point) -> Result<Plan, PointError> {
    let config = point.config()?;
    let jobs = parse_job(point, &config)?;
    let system = match &point.listed {
        Some(listed) => listed.system()?,
        None => {
            let system = System::from_config(config, &point.overrides);
            match point.array {
                Some(Array { level, drives }) => system.into_array(level, drives),
                None => system,
            }
        }
    };
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
    let plan = plan(point)?;
    let mut memory = MemoryWatch::of(&plan, By::Study);
    let mut checked = plan.check_to_share(zetans)?;
    match cache {
        Some(cache) => cache.age(&mut checked, &mut memory, tell)?,
        None => checked.age(&mut memory)?,
    }
    Ok(checked.prepare(&mut memory)?.into_drives())
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
    run_watched(point, drives, zetans, at, |plan| MemoryWatch::of(plan, By::Study))
}

fn run_watched(
    point: &Point,
    drives: Vec<Drive>,
    zetans: &mut ZetanCache,
    at: &mut dyn FnMut(u64),
    watch: impl Fn(&Plan) -> MemoryWatch,
) -> Result<String, PointError> {
    let plan = plan(point)?;
    let mut memory = watch(&plan);
    let prepared = plan.check_on(drives, zetans).and_then(|checked| checked.pace(&mut memory));
    let mut run = prepared.and_then(|prepared| prepared.start())?;
    while run.step(CHUNK) {
        at(run.thousandths().unwrap_or(0));
        // A part of a point is none.
        if let Some(short) = memory.short() {
            return Err(short.into());
        }
    }
    let result = run.finish();
    result.verdict().map_err(wordline::Error::from)?;
    Ok(wordline_report::fio_json(&result, true, &Default::default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Study;
    use crate::plan::{Only, Plan as Points, Scale};

    const TEXT: &str = r#"
[study]
title = "t"
shows = "s"
[base]
device = "DEVICE"
precondition = "fill"
job = '''
[w]
rw=randwrite
bs=4k
iodepth=8
norandommap
number_ios=IOS
'''
[[axis]]
name = "a"
values = [1]
[[metric]]
name = "x"
path = "jobs.w.write.iops"
"#;

    /// A point whose map comes to leave little memory is none; one on a drive that does not grow is not looked at.
    #[test]
    fn a_point_ends_when_little_memory_is_left() {
        let run = |device: &str, ios: &str, left: fn() -> Option<u64>| {
            let text = TEXT.replace("DEVICE", device).replace("IOS", ios);
            let study = Study::parse("t", "t.toml", &text).unwrap();
            let read = |_: &str| Err(std::io::ErrorKind::NotFound.into());
            let points = Points::new(&study, Scale::Whole, &Only::new(), &read).unwrap();
            let (point, zetans) = (&points.points[0], &mut ZetanCache::default());
            let drives = prepare(point, zetans, None, &mut |_| {}).unwrap();
            run_watched(point, drives, zetans, &mut |_| {}, |plan| MemoryWatch::at_once(plan, left))
        };
        let error = run("fssd-small", "100000", || Some(99 << 20)).unwrap_err().to_string();
        assert!(error.contains("99 MiB of memory are left: the point ends here"), "{error}");
        // Nothing runs yet while drives are aged.
        let text = TEXT.replace("DEVICE", "fssd-small").replace("IOS", "1");
        let study = Study::parse("t", "t.toml", &text).unwrap();
        let read = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        let points = Points::new(&study, Scale::Whole, &Only::new(), &read).unwrap();
        let mut watch = MemoryWatch::at_once(&plan(&points.points[0]).unwrap(), || Some(99 << 20));
        let error = wordline::Watch::look(&mut watch).unwrap_err().to_string();
        assert!(error.contains("left: preparing the drive ends here"), "{error}");
        run("fssd-small", "500", || Some(1 << 40)).unwrap();
        run("z-ssd-small", "500", || Some(1)).unwrap();
    }
}
