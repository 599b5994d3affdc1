//! `wordline run`.

use crate::args::{AlignArg, RunArgs};
use crate::finish::{Run, parse_limit};
use crate::load::{Loaded, Outside};
use crate::progress::{Activity, Extent};
use crate::showcmd::showcmd;
use crate::{Failure, align, files, finish, output, prepare, signals};
use std::path::PathBuf;
use wordline_app::App;
use wordline_base::{Seed, Span};
use wordline_fio::{Env, Job, ParseOptions, Plan, ZetanCache};
use wordline_sim::{AnySource, Precondition, Problem, WriteSampler, setup};
use wordline_trace::OpenOptions;

pub fn run(args: RunArgs) -> Result<(), Failure> {
    let machine = &args.common.machine;
    let loaded = Loaded::combine(&machine.device, &machine.parts, args.app.as_deref())?;
    let engine = setup::engine_name(loaded.system.stack.engine);
    let plan = parse(&args, engine)?;
    if args.showcmd {
        return output::print(&showcmd(&args, engine, &plan)?);
    }
    let limit = parse_limit(&args.common)?;
    signals::install();
    let (stack, seed) = (&loaded.system.stack, Seed(args.common.seed));
    let mut drive = prepare::fresh(&loaded, &args.common)?;
    let bytes = drive.bytes();
    // Everything that can be wrong with the jobs shows before the long work begins.
    let mut zetans = ZetanCache::default();
    let how = args.common.align;
    let replay = &mut |job: &Job| open_replay(job, bytes, &loaded, how);
    let mut threads = setup::threads_with_cache(&plan, stack, bytes, seed, replay, &mut zetans)
        .map_err(Failure::usage)?;
    let sampler =
        WriteSampler::with_cache(Some(&plan), bytes, seed, &mut zetans).map_err(Failure::usage)?;
    align::check_jobs(&plan, &loaded, how, &mut threads)?;
    finish::check_writable(&args.common, &threads)?;
    let app = app(&args, &loaded, bytes, seed)?;
    if app.is_some() && args.common.state() == Precondition::Paced {
        return Err(Failure::usage(
            "a program states no rate to precondition the drive at: use --precondition random",
        ));
    }
    prepare::age(&mut drive, &loaded, &args.common, Some(sampler), app.as_ref())?;
    let mut extent = setup::expected_end(&plan).map_or(Extent::Unknown, Extent::Time);
    if let (Some(app), Some(config)) = (app, &loaded.config.app) {
        setup::app_threads(app, config, &mut threads);
        extent = match config.runtime {
            Span::ZERO => Extent::Unknown,
            runtime => Extent::Time(config.ramp_time + runtime),
        };
    }
    let run = Run {
        args: &args.common,
        loaded: &loaded,
        workload: workload(&args),
        notes: notes(&plan, &loaded, bytes),
        globals: plan.globals.clone(),
        extent,
        limit,
        bytes,
    };
    run.finish(drive, threads)
}

/// The program, if one runs, as it is at the start of the run.
fn app(args: &RunArgs, loaded: &Loaded, bytes: u64, seed: Seed) -> Result<Option<App>, Failure> {
    let Some(config) = &loaded.config.app else { return Ok(None) };
    let ageing = Activity::begin(&args.common, "bringing the program to where it is after a load");
    let app = App::new(&loaded.config.app_name, config, bytes, seed)
        .map_err(|(key, why)| loaded.misfit(&Problem::new("app", (&key, why))))?;
    drop(ageing);
    Ok(Some(app))
}

fn file_names(args: &RunArgs) -> impl Iterator<Item = String> {
    args.files.iter().map(|f| f.display().to_string())
}

/// What decides which jobs run.
fn workload(args: &RunArgs) -> String {
    let sections = args.section.iter().map(|name| format!("--section={name}"));
    let app = args.app.iter().map(|name| format!("--app={name}"));
    let words = app.chain(args.fio.iter().cloned()).chain(file_names(args)).chain(sections);
    words.collect::<Vec<_>>().join(" ")
}

fn parse(args: &RunArgs, engine: &str) -> Result<Plan, Failure> {
    if args.fio.is_empty() && args.files.is_empty() && args.app.is_some() {
        return Ok(Plan::none());
    }
    if args.fio.is_empty() && args.files.is_empty() {
        return Err(Failure::usage(
            "no job: name a job file, or give one on the command line, for example\n  wordline run \
             --name=a --rw=randread --bs=4k --iodepth=32 --runtime=10s --time_based",
        ));
    }
    let files: Vec<String> = file_names(args).collect();
    parse_with(&args.fio, &files, engine, args.strict, &args.section, &mut Outside)
}

/// Parses jobs that run with the stack's engine unless they name one: a global before all others,
/// which does not show afterwards.
pub fn parse_with(
    fio: &[String],
    files: &[String],
    engine: &str,
    strict: bool,
    sections: &[String],
    env: &mut dyn Env,
) -> Result<Plan, Failure> {
    let options = ParseOptions { strict, sections: sections.to_vec() };
    let mut words = vec![format!("--ioengine={engine}")];
    words.extend(fio.iter().cloned());
    words.push("--".into());
    words.extend(files.iter().cloned());
    let mut plan = wordline_fio::parse_args(&words, &options, env).map_err(Failure::usage)?;
    plan.globals.remove(0);
    Ok(plan)
}

fn on_host(loaded: &Loaded) -> bool {
    loaded.system.ftl.placement == wordline_ftl::Placement::Host
}

/// Remarks on words of the jobs that ask for something that is not modelled.
fn notes(plan: &Plan, loaded: &Loaded, drive_bytes: u64) -> Vec<String> {
    let stack = &loaded.system.stack;
    let mut notes = setup::notes(plan, stack, on_host(loaded), drive_bytes);
    // A job that asks for the scheduler which the stack has anyway gets what it wants.
    let scheduler = match stack.scheduler {
        wordline_host::Scheduler::None => "none",
        wordline_host::Scheduler::MqDeadline => "mq-deadline",
        wordline_host::Scheduler::Kyber => "kyber",
        wordline_host::Scheduler::Bfq => "bfq",
    };
    notes.retain(|note| !note.starts_with(&format!("ioscheduler={scheduler}:")));
    notes
}

/// `read_iolog` of a job: fio's log or a binary blktrace, as fio takes them.
fn open_replay(
    job: &Job,
    drive_bytes: u64,
    loaded: &Loaded,
    how: AlignArg,
) -> Result<AnySource, String> {
    let path = [PathBuf::from(job.read_iolog.as_deref().unwrap_or_default())];
    let options = OpenOptions::default();
    let (reader, _) = files::open_trace(&path, options.clone()).map_err(|e| {
        let message = e.into_message();
        let remedy = if message.contains("--format") {
            "; a job takes only what is told by itself: these are options of wordline replay"
        } else {
            ""
        };
        message + remedy
    })?;
    let source = |reader| setup::replay_source(job, reader, drive_bytes);
    align::check_trace(&path, options, loaded, how, source).map_err(Failure::into_message)?;
    let source = source(reader).on_blocks(loaded.system.device.lba, how.into());
    Ok(AnySource::Trace(Box::new(source)))
}
