//! `wordline run`.

use crate::args::RunArgs;
use crate::load::Outside;
use crate::showcmd::showcmd;
use crate::{Failure, files, finish, load, output, prepare, signals};
use std::path::PathBuf;
use wordline::{Error, Log, Logs, Workload};
use wordline_fio::{Env, Job, ParseOptions, Plan};
use wordline_sim::setup;
use wordline_trace::OpenOptions;

pub fn run(args: RunArgs) -> Result<(), Failure> {
    let common = &args.common;
    let system = load::read(&common.machine, args.app.as_deref(), &args.with)?;
    let engine = setup::engine_name(system.config.stack.engine);
    let jobs = parse(&args, engine)?;
    if args.showcmd {
        return output::print(&showcmd(&args, engine, &jobs)?);
    }
    let options = finish::options(common)?;
    signals::install();
    let plan = wordline::Plan {
        logs: Box::new(LogsOfJobs),
        label: label(&args),
        seed: common.seed,
        state: common.state(),
        integrity: !common.no_integrity,
        align: common.align.into(),
        options,
        ..wordline::Plan::new(system, Workload::Jobs(jobs))
    };
    // Everything that can be wrong with the jobs shows before the long work begins.
    let checked = prepare::check(plan, common)?;
    finish::check_writable(common, &checked)?;
    finish::run(prepare::prepare(checked, common)?, common, None)
}

fn file_names(args: &RunArgs) -> impl Iterator<Item = String> {
    args.files.iter().map(|f| f.display().to_string())
}

/// What decides which jobs run.
fn label(args: &RunArgs) -> String {
    let sections = args.section.iter().map(|name| format!("--section={name}"));
    let app = args.app.iter().map(|name| format!("--app={name}"));
    let with = args.with.iter().map(|name| format!("--with={name}"));
    let words =
        app.chain(with).chain(args.fio.iter().cloned()).chain(file_names(args)).chain(sections);
    words.collect::<Vec<_>>().join(" ")
}

fn parse(args: &RunArgs, engine: &str) -> Result<Plan, Failure> {
    if args.fio.is_empty() && args.files.is_empty() && (args.app.is_some() || !args.with.is_empty())
    {
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

/// `read_iolog` of jobs: fio's log or a binary blktrace, as fio takes them.
struct LogsOfJobs;

impl Logs for LogsOfJobs {
    fn open(&mut self, job: Option<&Job>) -> Result<Log, Error> {
        let path = PathBuf::from(job.and_then(|job| job.read_iolog.clone()).unwrap_or_default());
        let again = path.is_file();
        let (reader, _) = files::open_trace(&[path], OpenOptions::default()).map_err(|e| {
            let message = e.into_message();
            let remedy = if message.contains("--format") {
                "; a job takes only what is told by itself: these are options of wordline replay"
            } else {
                ""
            };
            Error::Open(message + remedy)
        })?;
        Ok(Log { reader, again })
    }
}
