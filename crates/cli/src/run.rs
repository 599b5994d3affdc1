//! `wordline run` and `wordline replay`.

use crate::args::{CommonArgs, ReplayArgs, RunArgs};
use crate::load::{self, Outside};
use crate::{Failure, output};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use wordline_base::{Seed, Span, Time};
use wordline_fio::{Job, ParseOptions, Plan};
use wordline_host::Engine;
use wordline_host::source::ThreadSpec;
use wordline_profile::{Config, Places};
use wordline_sim::{
    AnySource, Ended, ExitRule, Options, Provenance, Start, SystemConfig, ThreadPlan, ThreadSetup,
    TraceSource, World, WriteSampler, setup,
};
use wordline_trace::{Clock, Format, OpenOptions, Wrap};

/// In flight at most in a replay by timestamps: an open loop in all but name.
const REPLAY_DEPTH: u32 = 4096;
/// Events between two looks at the clock and at Ctrl-C.
const CHUNK: u64 = 200_000;

pub fn run(args: RunArgs) -> Result<(), Failure> {
    let plan = plan(&args)?;
    if args.showcmd {
        return output::print(&showcmd(&plan));
    }
    let (config, places) = load::config(&args.common.machine)?;
    let system = load::system(&config);
    let seed = Seed(args.common.seed);
    let mut say = speaker(&args.common);
    let drive = load::drive(
        &system,
        &places,
        &args.common,
        |bytes| WriteSampler::new(Some(&plan), bytes, seed),
        &mut say,
    )?;
    let bytes = drive.bytes();
    let mut open_replay = |job: &Job| open_job_replay(job, bytes);
    let threads = setup::threads(&plan, &system.stack, bytes, seed, &mut open_replay)
        .map_err(Failure::usage)?;
    let on_host = system.ftl.placement == wordline_ftl::Placement::Host;
    let mut notes = setup::notes(&plan, &system.stack, on_host);
    if system.stack.kernel && !on_host {
        notes.retain(|n| !n.contains("ioscheduler") || !matches_scheduler(n, &system));
    }
    let end = expected_end(&plan);
    let workload = workload_name(&args);
    let mut finish = Finish { args: &args.common, config: &config, places: &places, workload, notes, end };
    finish.run(&system, drive, threads, plan.globals.clone())
}

fn matches_scheduler(note: &str, system: &SystemConfig) -> bool {
    let scheduler = match system.stack.scheduler {
        wordline_host::Scheduler::None => "none",
        wordline_host::Scheduler::MqDeadline => "mq-deadline",
    };
    note.starts_with(&format!("ioscheduler={scheduler}:"))
}

pub fn replay(args: ReplayArgs) -> Result<(), Failure> {
    let (config, places) = load::config(&args.common.machine)?;
    let system = load::system(&config);
    let format = Format::from_name(&args.format).map_err(Failure::usage)?;
    let clock = match (&args.time_scale, args.closed_loop) {
        (Some(factor), _) => Clock::scaled(factor).map_err(Failure::usage)?,
        (None, Some(0)) => return Err(Failure::usage("--closed-loop: must be at least 1")),
        (None, Some(_)) => Clock::ClosedLoop,
        (None, None) => Clock::Timestamps,
    };
    let options = OpenOptions {
        format,
        volume: args.volume.map(|v| v.to_string()),
        seed: args.common.seed,
        ..OpenOptions::default()
    };
    let reader = match args.files.as_slice() {
        [one] => load::open_trace(one, options)?,
        several => {
            let mut inputs = Vec::new();
            for path in several {
                let name = path.display().to_string();
                let file = std::fs::File::open(path)
                    .map_err(|e| Failure::usage(format!("cannot open the trace {name}: {e}")))?;
                let reader: Box<dyn std::io::Read + Send> =
                    Box::new(std::io::BufReader::with_capacity(1 << 18, file));
                inputs.push((name, reader));
            }
            wordline_trace::open_merged(inputs, options).map_err(Failure::usage)?
        }
    };
    let seed = Seed(args.common.seed);
    let mut say = speaker(&args.common);
    let drive = load::drive(
        &system,
        &places,
        &args.common,
        |bytes| WriteSampler::new(None, bytes, seed),
        &mut say,
    )?;
    let wrap = if args.wrap { Wrap::Wrap } else { Wrap::Error };
    let engine = system.stack.engine;
    let iodepth = args.closed_loop.unwrap_or(REPLAY_DEPTH);
    let bytes = drive.bytes();
    let source = AnySource::Trace(Box::new(TraceSource::new(reader, clock, wrap, bytes)));
    let mut spec = ThreadSpec::new("replay", Engine::Libaio, iodepth);
    spec.continue_on_error = true;
    let mut notes = Vec::new();
    if engine != Engine::Libaio && system.stack.kernel {
        notes.push("a replay keeps many requests in flight: it runs on libaio".to_string());
    }
    let files: Vec<String> = args.files.iter().map(|p| p.display().to_string()).collect();
    let setup = ThreadSetup {
        plan: replay_plan(iodepth),
        spec,
        source,
        start: Start::At(Time::ZERO),
        exit: ExitRule::default(),
    };
    let mut finish = Finish {
        args: &args.common,
        config: &config,
        places: &places,
        workload: format!("replay {}", files.join(" ")),
        notes,
        end: None,
    };
    finish.run(&system, drive, vec![setup], Vec::new())
}

fn replay_plan(iodepth: u32) -> ThreadPlan {
    // fio's defaults for everything a report needs.
    let words = ["--name=replay".to_string()];
    let plan = wordline_fio::parse_args(&words, &ParseOptions::default(), &mut Outside)
        .expect("a name alone is a job");
    let job = &plan.jobs[0];
    ThreadPlan {
        name: "replay".into(),
        ioengine: "libaio".into(),
        iodepth,
        clat_percentiles: true,
        percentile_list: job.percentile_list.clone(),
        bw_interval: Span::from_ms(500),
        iops_interval: Span::from_ms(500),
        ..ThreadPlan::default()
    }
}

/// `read_iolog` of a job: fio's log or a binary blktrace, as fio takes them.
fn open_job_replay(job: &Job, drive_bytes: u64) -> Result<AnySource, String> {
    let path = job.read_iolog.as_deref().unwrap_or_default();
    let text = |f: Failure| match f {
        Failure::Usage(m) | Failure::Run(m) => m,
    };
    let options = OpenOptions::default();
    let reader = load::open_trace(std::path::Path::new(path), options).map_err(text)?;
    let clock = if job.replay_no_stall {
        Clock::ClosedLoop
    } else if job.replay_time_scale == 100 {
        Clock::Timestamps
    } else {
        // fio's scale is a speed in percent; ours multiplies times.
        let ppb = 100_000_000_000u64 / u64::from(job.replay_time_scale.max(1));
        Clock::Scaled { ppb }
    };
    Ok(AnySource::Trace(Box::new(TraceSource::new(reader, clock, Wrap::Error, drive_bytes))))
}

fn plan(args: &RunArgs) -> Result<Plan, Failure> {
    let options = ParseOptions { strict: args.strict, sections: args.section.clone() };
    let mut words: Vec<String> = args.fio.clone();
    words.extend(args.files.iter().map(|f| f.display().to_string()));
    if words.is_empty() {
        return Err(Failure::usage(
            "no job: name a job file, or give one on the command line, for example\n  wordline run \
             --name=a --rw=randread --bs=4k --iodepth=32 --runtime=10s --time_based",
        ));
    }
    wordline_fio::parse_args(&words, &options, &mut Outside).map_err(Failure::usage)
}

fn workload_name(args: &RunArgs) -> String {
    let files = args.files.iter().map(|f| f.display().to_string());
    files.chain(args.fio.iter().cloned()).collect::<Vec<_>>().join(" ")
}

/// The jobs as one fio command line each.
fn showcmd(plan: &Plan) -> String {
    let mut text = String::new();
    for job in &plan.jobs {
        text += "wordline run";
        let own = |name: &str| job.options.iter().any(|(option, _)| option == name);
        let globals = plan.globals.iter().filter(|(name, _)| !own(name));
        text += &format!(" --name={}", job.name);
        for (name, value) in globals.chain(&job.options).filter(|(name, _)| name != "name") {
            text += &if value.is_empty() {
                format!(" --{name}")
            } else {
                format!(" --{name}={value}")
            };
        }
        text.push('\n');
    }
    text
}

/// When the jobs end by their own words, if they all say so: for the progress bar.
fn expected_end(plan: &Plan) -> Option<Span> {
    let mut total = Span::ZERO;
    let mut group = Span::ZERO;
    for job in &plan.jobs {
        if job.runtime == Span::ZERO {
            return None;
        }
        if job.stonewall {
            total += group;
            group = Span::ZERO;
        }
        group = group.max(job.runtime + job.ramp_time + job.startdelay.1);
    }
    Some(total + group)
}

/// Remarks while a drive is prepared: on a terminal, unless told to be quiet.
fn speaker(args: &CommonArgs) -> impl FnMut(&str) + use<> {
    let on = !args.quiet && std::io::stderr().is_terminal();
    move |text: &str| {
        if on {
            eprintln!("{text}");
        }
    }
}

/// From a ready drive and its threads to a written result.
struct Finish<'a> {
    args: &'a CommonArgs,
    config: &'a Config,
    places: &'a Places,
    workload: String,
    notes: Vec<String>,
    end: Option<Span>,
}

impl Finish<'_> {
    fn run(
        &mut self,
        system: &SystemConfig,
        drive: wordline_sim::Drive,
        threads: Vec<ThreadSetup>,
        globals: Vec<(String, String)>,
    ) -> Result<(), Failure> {
        let args = self.args;
        let limit = match &args.limit {
            Some(text) => Some(
                Span::parse(text).map_err(|e| Failure::usage(format!("--limit: {e}")))?,
            ),
            None => None,
        };
        let options = Options {
            slowest: args.slowest,
            tracks: args.timeline.is_some().then_some(args.timeline_limit),
            shuffle_ties: args.shuffle_ties,
            digest: false,
            limit,
        };
        let mut world = World::new(system, drive, threads, &options)
            .map_err(|p| load::misfit(self.places, &p))?;
        let begun = Instant::now();
        let interrupted = self.drive_to_the_end(&mut world, limit);
        let wall = begun.elapsed();
        self.take_trace_notes(&world);
        let trace_error = world.trace_error().map(ToString::to_string);
        let mut result = world.finish(self.provenance());
        result.global_options = globals;
        result.notes = std::mem::take(&mut self.notes);
        if interrupted {
            result.ended = Ended::Interrupted;
        }
        output::write(&mut result, args)?;
        if args.wall_clock || (!args.quiet && std::io::stderr().is_terminal()) {
            let served = result.machine.served as f64;
            eprintln!(
                "simulated {} in {:.2} s of wall time: {:.0} I/Os and {:.0} events a second",
                Span(result.machine.simulated_ns),
                wall.as_secs_f64(),
                served / wall.as_secs_f64().max(1e-9),
                result.machine.events as f64 / wall.as_secs_f64().max(1e-9),
            );
        }
        self.verdict(&result, trace_error)
    }

    fn verdict(
        &self,
        result: &wordline_sim::RunResult,
        trace_error: Option<String>,
    ) -> Result<(), Failure> {
        if let Some(error) = trace_error {
            return Err(Failure::Usage(error));
        }
        let machine = &result.machine;
        if machine.integrity.wrong > 0 {
            return Err(Failure::run(format!(
                "{} reads did not return the newest write: this is a defect of wordline",
                machine.integrity.wrong
            )));
        }
        if result.ended == Ended::Complete && machine.generated != machine.served {
            return Err(Failure::run(format!(
                "{} I/Os were generated and {} served: this is a defect of wordline",
                machine.generated, machine.served
            )));
        }
        match result.ended {
            Ended::Complete => Ok(()),
            Ended::Interrupted if self.args.limit.is_some() => Ok(()),
            Ended::Interrupted => {
                Err(Failure::run("interrupted: the report covers what had run until then"))
            }
            Ended::Failed => {
                let failed = result.threads.iter().find(|t| t.error != 0);
                Err(Failure::run(match failed {
                    Some(t) => format!("job '{}' failed with error {}", t.name, t.error),
                    None => "a job failed".into(),
                }))
            }
        }
    }

    fn take_trace_notes(&mut self, world: &World) {
        for trace in world.traces() {
            self.notes.push(trace.reader().summary().to_string());
            if trace.wrapped() > 0 {
                self.notes.push(format!(
                    "{} requests lay beyond the drive and were wrapped",
                    trace.wrapped()
                ));
            }
            if trace.late() > 0 {
                self.notes.push(format!(
                    "{} requests were issued after their time, because {REPLAY_DEPTH} were in \
                     flight or their core was busy",
                    trace.late()
                ));
            }
        }
    }

    fn provenance(&self) -> Provenance {
        Provenance {
            version: env!("CARGO_PKG_VERSION").into(),
            device: self.config.device_name.clone(),
            ftl: self.config.ftl_name.clone(),
            stack: self.config.stack_name.clone(),
            testbed: self.config.testbed_name.clone(),
            workload: self.workload.clone(),
            precondition: match &self.args.load_state {
                Some(path) => format!("loaded from {}", path.display()),
                None => self.args.precondition.name().into(),
            },
            seed: self.args.seed,
            overrides: self.args.machine.overrides.clone(),
        }
    }

    /// Steps the world with a progress bar on a terminal. The first Ctrl-C stops new I/O and
    /// drains, the second ends the program. True if it was stopped.
    fn drive_to_the_end(&self, world: &mut World, limit: Option<Span>) -> bool {
        let signals = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&signals);
        // Without a handler Ctrl-C still ends the program, only without a report.
        let _ = ctrlc::set_handler(move || {
            if seen.fetch_add(1, Ordering::SeqCst) > 0 {
                std::process::exit(130);
            }
        });
        let end = match (self.end, limit) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let bar = self.bar(end);
        let mut interrupted = false;
        let mut drawn = Instant::now();
        while world.step(CHUNK) {
            if drawn.elapsed() > Duration::from_millis(100) {
                drawn = Instant::now();
                bar.set_position(world.now().0 / 1_000);
                bar.set_message(format!(
                    "{} simulated, {} I/Os",
                    Span(world.now().0 / 1_000_000 * 1_000_000),
                    world.served()
                ));
            }
            if !interrupted && signals.load(Ordering::SeqCst) > 0 {
                interrupted = true;
                world.stop();
            }
        }
        bar.finish_and_clear();
        interrupted
    }

    fn bar(&self, end: Option<Span>) -> ProgressBar {
        if self.args.quiet || !std::io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        match end {
            Some(end) => {
                let style = "{wide_bar} {percent}% {msg} ETA {eta}";
                ProgressBar::new(end.0 / 1_000)
                    .with_style(ProgressStyle::with_template(style).expect("a fixed template"))
            }
            None => {
                let style = "{spinner} {elapsed} {msg}";
                ProgressBar::new_spinner()
                    .with_style(ProgressStyle::with_template(style).expect("a fixed template"))
            }
        }
    }
}

