//! `wordline run`.

use crate::args::RunArgs;
use crate::error::WordError;
use crate::showcmd::showcmd;
use crate::{Failure, finish, output, prepare, repeat, signals};
use wordline_frontend::Outside;
use wordline_sim::setup;

pub fn run(args: RunArgs) -> Result<(), Failure> {
    let common = &args.common;
    common.tell_overridden();
    args.tell_other_programs();
    let (settings, work) = (common.settings(), args.jobs());
    let system = settings.machine.system(work.app.as_deref(), &work.with)?;
    let engine = setup::engine_name(system.config.stack.engine);
    if work.fio.is_empty() && work.files.is_empty() && work.app.is_none() && work.with.is_empty() {
        return Err(WordError::NoJob.into());
    }
    let jobs = work.parse(engine, &mut Outside)?;
    // A log that is replayed may have any of them.
    let writes =
        |job: &&wordline_fio::Job| job.rw.writes() || job.rw.trims() || job.read_iolog.is_some();
    if let Some(job) = jobs.jobs.iter().find(writes).filter(|_| args.readonly) {
        return Err(WordError::Writes { place: job.place.clone(), name: job.name.clone() }.into());
    }
    if args.showcmd {
        return output::print(&showcmd(&args, engine, &jobs)?);
    }
    if let Some(times) = args.repeat {
        return repeat::run(&args, times);
    }
    settings.options()?;
    signals::install();
    let plan = work.plan(system, jobs, &settings)?;
    // Everything that can be wrong with the jobs shows before the long work begins.
    let checked = prepare::check(plan, common, &settings)?;
    finish::check_writable(common, &checked)?;
    finish::run(prepare::prepare(checked, common)?, common, &settings, None)
}
