//! One point, from its configuration to the text of its result.

use crate::plan::{Point, parse_job};
use wordline_app::App;
use wordline_base::{Seed, Span};
use wordline_fio::ZetanCache;
use wordline_profile::Config;
use wordline_sim::{
    Drive, Ended, Options, Precondition, Provenance, RunResult, SystemConfig, World, WriteSampler,
    setup,
};

/// Events between two reports of progress.
const CHUNK: u64 = 100_000;

fn system(config: &Config) -> SystemConfig {
    SystemConfig {
        nand: config.nand.clone(),
        device: config.device.clone(),
        ftl: config.ftl.clone(),
        stack: config.stack.clone(),
    }
}

/// The drive as the points of a group find it.
pub fn prepare(point: &Point, zetans: &mut ZetanCache) -> Result<Drive, String> {
    let config = point.config()?;
    let seed = Seed(point.seed);
    let mut drive =
        Drive::new(&system(&config), seed, point.integrity).map_err(|p| p.to_string())?;
    let how = point.precondition;
    if how != Precondition::None {
        drive.fill()?;
    }
    let plan = parse_job(point, &config)?;
    let mut sampler = WriteSampler::with_cache(Some(&plan), drive.bytes(), seed, zetans)?;
    if how == Precondition::Paced {
        // Points share the drive up to their own pace.
        drive.before_pace(seed)?;
    } else {
        drive.age(how, &mut sampler, seed)?;
    }
    if let Some(app) = app(&config, drive.bytes(), seed)? {
        drive.lay(&app.layout(), how == Precondition::Random)?;
    }
    Ok(drive)
}

/// The point's program, if it has one, as it is at the start.
fn app(config: &Config, bytes: u64, seed: Seed) -> Result<Option<App>, String> {
    let new = |c| {
        App::new(&config.app_name, c, bytes, seed).map_err(|(key, why)| format!("app.{key} {why}"))
    };
    config.app.as_ref().map(new).transpose()
}

/// The point changes most of its drive before it runs, by ageing at a pace of its own.
pub fn ages_on(point: &Point) -> bool {
    point.precondition == Precondition::Paced
}

/// Runs a point on its drive; `at` hears how far it is, in thousandths, where the job says how long
/// it takes. The result is fio's JSON+.
pub fn run(
    point: &Point,
    mut drive: Drive,
    zetans: &mut ZetanCache,
    at: &mut dyn FnMut(u64),
) -> Result<String, String> {
    let config = point.config()?;
    let plan = parse_job(point, &config)?;
    let system = system(&config);
    let mut no_log = |_: &_| Err("a study replays no log".into());
    let (bytes, seed) = (drive.bytes(), Seed(point.seed));
    if ages_on(point) {
        drive.paced(&mut WriteSampler::with_cache(Some(&plan), bytes, seed, zetans)?)?;
    }
    let mut threads =
        setup::threads_with_cache(&plan, &system.stack, bytes, seed, &mut no_log, zetans)?;
    let mut end = setup::expected_end(&plan).filter(|_| !plan.jobs.is_empty());
    let mut ios: u64 = plan.jobs.iter().map(|j| j.number_ios * u64::from(j.numjobs)).sum();
    if let (Some(app), Some(c)) = (app(&config, bytes, seed)?, &config.app) {
        setup::app_threads(app, c, &mut threads);
        end = (c.runtime > Span::ZERO).then(|| c.ramp_time + c.runtime);
        ios = c.operations;
    }
    let mut world =
        World::new(&system, drive, threads, &Options::default()).map_err(|p| p.to_string())?;
    let end = end.map_or(u64::MAX, |end| end.0.max(1));
    while world.step(CHUNK) {
        let by_time = u128::from(world.now().0) * 1000 / u128::from(end);
        let by_count = world.served() * 1000 / ios.max(1);
        at(if end < u64::MAX || ios == 0 { by_time as u64 } else { by_count });
    }
    let on_host = config.ftl.placement == wordline_ftl::Placement::Host;
    let mut result = world.finish(provenance(point, &config));
    result.global_options = plan.globals.clone();
    result.notes.extend(setup::notes(&plan, &config.stack, on_host, bytes));
    verdict(&result)?;
    Ok(wordline_report::fio_json(&result, true, &Default::default()))
}

fn provenance(point: &Point, config: &Config) -> Provenance {
    Provenance {
        version: env!("CARGO_PKG_VERSION").into(),
        device: config.device_name.clone(),
        ftl: config.ftl_name.clone(),
        stack: config.stack_name.clone(),
        testbed: config.testbed_name.clone(),
        workload: point.label(),
        precondition: point.precondition.name().into(),
        seed: point.seed,
        scale: String::new(),
        overrides: point.overrides.clone(),
    }
}

fn verdict(result: &RunResult) -> Result<(), String> {
    let machine = &result.machine;
    if machine.integrity.wrong > 0 {
        let wrong = machine.integrity.wrong;
        return Err(format!("{wrong} reads did not return the newest write: this is a defect"));
    }
    if result.ended == Ended::Complete && machine.generated == machine.served {
        return Ok(());
    }
    if let Some(why) = result.app.as_ref().and_then(|app| app.failure.clone()) {
        return Err(why);
    }
    Err(match result.threads.iter().find(|t| t.error != 0) {
        Some(t) => {
            format!("job '{}' failed: {}", t.name, std::io::Error::from_raw_os_error(t.error))
        }
        None => format!("{} I/Os generated, {} served", machine.generated, machine.served),
    })
}
