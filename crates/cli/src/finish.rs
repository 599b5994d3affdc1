//! From a ready drive to a written result and an exit status.

use crate::args::{CommonArgs, Prepare};
use crate::files::Consumed;
use crate::progress::{Progress, shown};
use crate::{Failure, files, output, remark, signals};
use std::path::PathBuf;
use wordline::{Checked, Options, Prepared, Run, RunError, Span};

/// Events between two looks at the clock and at Ctrl-C.
const CHUNK: u64 = 200_000;

/// What the command line says of a run, beside what runs.
pub fn options(args: &CommonArgs) -> Result<Options, Failure> {
    Ok(Options {
        slowest: args.slowest,
        tracks: args.timeline.is_some().then_some(args.timeline_limit),
        shuffle_ties: args.shuffle_ties,
        digest: false,
        limit: parse_limit(args)?,
    })
}

fn parse_limit(args: &CommonArgs) -> Result<Option<Span>, Failure> {
    let parse = |text: &String| match Span::parse(text) {
        Ok(Span::ZERO) => Err(Failure::usage("--limit: must be longer than nothing")),
        Ok(span) => Ok(span),
        Err(e) => Err(Failure::usage(format!("--limit: {e}"))),
    };
    args.limit.as_ref().map(parse).transpose()
}

/// Finds out before the run that something it is to write cannot be.
pub fn check_writable(args: &CommonArgs, checked: &Checked) -> Result<(), Failure> {
    for path in
        [&args.output, &args.timeline, &args.over_time, &args.save_state].into_iter().flatten()
    {
        files::check_writable(path)?;
    }
    let mut prefixes: Vec<&String> =
        checked.threads().iter().flat_map(|t| &t.plan.logs).map(|(_, prefix)| prefix).collect();
    prefixes.sort();
    prefixes.dedup();
    for prefix in prefixes {
        files::check_writable(&PathBuf::from(format!("{prefix}.log")))?;
    }
    Ok(())
}

/// Runs what is ready, and reports; `consumed` tells how much of its traces is read.
pub fn run(
    prepared: Prepared,
    args: &CommonArgs,
    consumed: Option<Consumed>,
) -> Result<(), Failure> {
    let mut run = prepared.start()?;
    let mut progress = Progress::begin(args, run.expected(), consumed);
    drive_to_the_end(&mut run, &mut progress, args);
    progress.end();
    if args.wall_clock || shown(args) {
        remark(&progress.speed(&run));
    }
    let drive = drive(&run);
    let mut result = run.finish();
    if let Some(error) = &result.trace_error
        && result.machine.served == 0
    {
        return Err(Failure::usage(error));
    }
    let how = prepared_how(args);
    for drive in &mut result.machine.drives {
        drive.prepared += &how;
    }
    result.prepared = format!("{drive}{}{how}", result.prepared);
    if let Some(path) = &args.load_state {
        result.provenance.precondition = format!("loaded from {}", path.display());
    }
    // What went wrong with the run matters more than what went wrong with writing it down.
    let written = output::write(&result, args);
    result.verdict().map_err(|error| match error {
        RunError::Trace { .. } => Failure::usage(error),
        error => Failure::run(error),
    })?;
    written
}

/// What goes before the state of a drive. Of several each state has its drive's name.
fn drive(run: &Run) -> String {
    let system = &run.plan().system;
    if !system.nodes.drives.is_empty() {
        return String::new();
    }
    let cut = system.scale.as_ref().map_or(String::new(), |(_, said)| format!(" ({said})"));
    format!("{}, {:.1} GB{cut}: ", system.config.device_name, run.bytes() as f64 / 1e9)
}

/// What made the state of a drive.
fn prepared_how(args: &CommonArgs) -> String {
    match &args.load_state {
        Some(path) => format!(", from {}", path.display()),
        None if args.precondition == Prepare::Auto => {
            ", before the run (--precondition auto)".into()
        }
        None => String::new(),
    }
}

/// Steps the run. The first Ctrl-C stops new I/O and drains what is in flight.
fn drive_to_the_end(run: &mut Run, progress: &mut Progress, args: &CommonArgs) {
    let mut stopped = false;
    signals::run_begins();
    while run.step(CHUNK) {
        progress.draw(run);
        if !stopped && signals::stop_asked() {
            stopped = true;
            if shown(args) {
                remark("finishing what is in flight, then reporting; Ctrl-C again ends at once");
            }
            run.stop();
        }
    }
}
