//! From a ready drive and its threads to a written result and an exit status.

use crate::args::{AlignArg, CommonArgs, Prepare};
use crate::load::Loaded;
use crate::progress::{Extent, Progress, shown};
use crate::{Failure, files, output, remark, replay, signals};
use std::path::PathBuf;
use wordline_base::Span;
use wordline_sim::{Drive, Ended, Options, Provenance, RunResult, ThreadSetup, World};
use wordline_trace::Rounded;

/// Events between two looks at the clock and at Ctrl-C.
const CHUNK: u64 = 200_000;

pub struct Run<'a> {
    pub args: &'a CommonArgs,
    pub loaded: &'a Loaded,
    pub workload: String,
    pub notes: Vec<String>,
    /// fio's global options, as written.
    pub globals: Vec<(String, String)>,
    pub extent: Extent,
    pub limit: Option<Span>,
    /// Capacity of the drive.
    pub bytes: u64,
}

/// Who stopped a run before its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    Nobody,
    User,
}

pub fn parse_limit(args: &CommonArgs) -> Result<Option<Span>, Failure> {
    let parse = |text: &String| match Span::parse(text) {
        Ok(Span::ZERO) => Err(Failure::usage("--limit: must be longer than nothing")),
        Ok(span) => Ok(span),
        Err(e) => Err(Failure::usage(format!("--limit: {e}"))),
    };
    args.limit.as_ref().map(parse).transpose()
}

/// Finds out before the run that something it is to write cannot be.
pub fn check_writable(args: &CommonArgs, threads: &[ThreadSetup]) -> Result<(), Failure> {
    for path in [&args.output, &args.timeline, &args.save_state].into_iter().flatten() {
        files::check_writable(path)?;
    }
    let mut prefixes: Vec<&String> =
        threads.iter().flat_map(|t| &t.plan.logs).map(|(_, prefix)| prefix).collect();
    prefixes.dedup();
    for prefix in prefixes {
        files::check_writable(&PathBuf::from(format!("{prefix}.log")))?;
    }
    Ok(())
}

impl Run<'_> {
    pub fn finish(mut self, drive: Drive, threads: Vec<ThreadSetup>) -> Result<(), Failure> {
        let args = self.args;
        self.bytes = drive.bytes();
        let options = Options {
            slowest: args.slowest,
            tracks: args.timeline.is_some().then_some(args.timeline_limit),
            shuffle_ties: args.shuffle_ties,
            digest: false,
            limit: self.limit,
        };
        let mut world = World::new(&self.loaded.system, drive, threads, &options)
            .map_err(|p| self.loaded.misfit(&p))?;
        if let (Some(limit), Extent::Time(end)) = (self.limit, &mut self.extent) {
            *end = limit.min(*end);
        }
        let extent = std::mem::replace(&mut self.extent, Extent::Unknown);
        let mut progress = Progress::begin(args, extent);
        let stop = drive_to_the_end(&mut world, &mut progress, args);
        progress.end();
        if args.wall_clock || shown(args) {
            remark(&progress.speed(&world));
        }
        self.take_trace_notes(&world);
        self.take_rounding_note(&world);
        let trace_error = world.trace_error().map(ToString::to_string);
        if let Some(error) = &trace_error
            && world.served() == 0
        {
            return Err(Failure::usage(error));
        }
        let result = self.result(world, stop);
        // What went wrong with the run matters more than what went wrong with writing it down.
        let written = output::write(&result, args);
        self.verdict(&result, stop, trace_error)?;
        written
    }

    fn result(&mut self, world: World, stop: Stop) -> RunResult {
        let mut result = world.finish(self.provenance());
        result.prepared = self.drive(&result);
        result.global_options = std::mem::take(&mut self.globals);
        if stop == Stop::User && result.ended == Ended::Complete {
            result.ended = Ended::Interrupted;
        }
        if stop == Stop::Nobody
            && result.ended == Ended::Interrupted
            && let Some(limit) = &self.args.limit
        {
            self.notes.push(format!("stopped after {limit} of simulated time, by --limit"));
        }
        if let Some(tracks) = result.tracks.as_ref().filter(|t| t.dropped > 0) {
            self.notes.push(format!(
                "the timeline holds the first {} slices of the run, {} came after: see \
                 --timeline-limit",
                tracks.limit, tracks.dropped
            ));
        }
        result.notes.append(&mut self.notes);
        result
    }

    /// The drive as the run found it, in a line.
    fn drive(&self, result: &RunResult) -> String {
        let (config, args) = (&self.loaded.config, self.args);
        let mut text = format!("{}, {:.1} GB", config.device_name, self.bytes as f64 / 1e9);
        if let Some(cut) = &self.loaded.cut {
            text += &format!(" ({cut})");
        }
        text += &match &args.load_state {
            Some(path) => format!(": {}, from {}", result.prepared, path.display()),
            None if args.precondition == Prepare::Auto => {
                format!(": {}, before the run (--precondition auto)", result.prepared)
            }
            None => format!(": {}", result.prepared),
        };
        text
    }

    fn verdict(
        &self,
        result: &RunResult,
        stop: Stop,
        trace_error: Option<String>,
    ) -> Result<(), Failure> {
        let machine = &result.machine;
        if let Some(error) = trace_error {
            return Err(Failure::Usage(format!(
                "{error}\nthe report covers the {} requests before that",
                machine.served
            )));
        }
        if machine.integrity.wrong > 0 {
            return Err(Failure::run(format!(
                "{} reads did not return the newest write: this is a defect of wordline",
                machine.integrity.wrong
            )));
        }
        match result.ended {
            Ended::Complete if machine.generated != machine.served => Err(Failure::run(format!(
                "{} I/Os were generated and {} served: this is a defect of wordline",
                machine.generated, machine.served
            ))),
            Ended::Complete => Ok(()),
            Ended::Interrupted if stop == Stop::Nobody => Ok(()),
            Ended::Interrupted => Err(Failure::run(format!(
                "interrupted: the report covers the {} I/Os that had been served by then",
                machine.served
            ))),
            Ended::Failed => {
                if let Some(why) = result.app.as_ref().and_then(|app| app.failure.as_ref()) {
                    return Err(Failure::run(format!("the program ended early: {why}")));
                }
                let Some(t) = result.threads.iter().find(|t| t.error != 0) else {
                    return Err(Failure::run("a job failed"));
                };
                let count = |name: &str| {
                    machine.counters.iter().find(|(n, _)| n == name).map_or(0, |(_, count)| *count)
                };
                // What the host refuses never gets to the drive.
                let remedy = if count("host.errors") > count("device.failed") {
                    ": I/O must lie on the drive and begin and end on whole blocks of it (device.lba)"
                } else {
                    ""
                };
                Err(Failure::run(format!(
                    "job '{}' failed, the first of its errors ({}) was: {}{remedy}",
                    t.name,
                    t.total_errors.max(1),
                    std::io::Error::from_raw_os_error(t.error)
                )))
            }
        }
    }

    fn take_trace_notes(&mut self, world: &World) {
        for trace in world.traces() {
            self.notes.push(format!("format: {}", trace.reader().told()));
            let summary = trace.reader().summary().to_string();
            self.notes.extend(summary.lines().map(str::to_owned));
            let (wrapped, late) = (trace.wrapped(), trace.late());
            if wrapped > 0 {
                self.notes.push(format!("{wrapped} requests lay beyond the drive: wrapped"));
            }
            if late > 0 {
                self.notes.push(format!(
                    "{late} requests were issued after their time, because {} were in flight or \
                     their core was busy",
                    replay::DEPTH
                ));
            }
        }
    }

    fn take_rounding_note(&mut self, world: &World) {
        let Rounded { requests, bytes, trims } = world.rounded();
        if requests == 0 {
            return;
        }
        let lba = self.loaded.system.device.lba;
        let mut note = format!(
            "{requests} requests were rounded to whole blocks of {lba} bytes, by --align: {bytes} bytes \
             more are read and written"
        );
        if trims > 0 {
            note += &format!(", and {trims} trims without a whole block were left out");
        }
        self.notes.push(note);
    }

    fn provenance(&self) -> Provenance {
        let (config, args) = (&self.loaded.config, self.args);
        let mut workload = self.workload.clone();
        if let Some(limit) = &args.limit {
            workload += &format!(" --limit={limit}");
        }
        if args.align == AlignArg::Round {
            workload += " --align=round";
        }
        if let Some(seed) = args.shuffle_ties {
            workload += &format!(" --shuffle-ties={seed}");
        }
        Provenance {
            version: env!("CARGO_PKG_VERSION").into(),
            device: config.device_name.clone(),
            ftl: config.ftl_name.clone(),
            stack: config.stack_name.clone(),
            testbed: config.testbed_name.clone(),
            workload,
            precondition: match &args.load_state {
                Some(path) => format!("loaded from {}", path.display()),
                None => args.state().name().into(),
            },
            seed: args.seed,
            scale: args.machine.parts.scale.map_or(String::new(), |scale| scale.to_string()),
            overrides: args.machine.parts.overrides(),
        }
    }
}

/// Steps the world. The first Ctrl-C stops new I/O and drains what is in flight.
fn drive_to_the_end(world: &mut World, progress: &mut Progress, args: &CommonArgs) -> Stop {
    let mut stop = Stop::Nobody;
    signals::run_begins();
    while world.step(CHUNK) {
        progress.draw(world);
        if stop == Stop::Nobody && signals::stop_asked() {
            stop = Stop::User;
            if shown(args) {
                remark("finishing what is in flight, then reporting; Ctrl-C again ends at once");
            }
            world.stop();
        }
    }
    stop
}
