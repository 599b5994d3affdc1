//! From a ready drive to a written result and an exit status.

use crate::args::CommonArgs;
use crate::progress::Progress;
use crate::{Failure, files, output, remark, signals};
use std::path::PathBuf;
use wordline::{Checked, Prepared, Run, RunError, RunResult};
use wordline_frontend::files::Consumed;
use wordline_frontend::{By, MemoryWatch, Origin, Settings};
use wordline_report::log_name;

/// Events between two looks at the clock and at Ctrl-C.
const CHUNK: u64 = 200_000;

/// Finds out before the run that something it is to write cannot be, or is what it reads.
pub fn check_writable(args: &CommonArgs, checked: &Checked) -> Result<(), Failure> {
    if let Some(path) = &args.load_state {
        files::note_read(path);
    }
    let written = [
        ("--output", &args.output),
        ("--timeline", &args.timeline),
        ("--over-time", &args.over_time),
        ("--report", &args.report),
        ("--save-state", &args.save_state),
    ];
    let mut written: Vec<(&'static str, PathBuf)> =
        written.into_iter().filter_map(|(what, path)| Some((what, path.clone()?))).collect();
    // Threads may share a log.
    let (mut logs, mut iologs) = (Vec::new(), Vec::new());
    for (thread, number) in checked.threads().iter().zip(1..) {
        let number = thread.plan.per_job_logs.then_some(number);
        let names = thread.plan.logs.iter().map(|(kind, prefix)| log_name(*kind, prefix, number));
        logs.extend(names.map(PathBuf::from));
        iologs.extend(thread.write_iolog().map(PathBuf::from));
    }
    for (what, mut paths) in [("the log", logs), ("write_iolog", iologs)] {
        paths.sort();
        paths.dedup();
        written.extend(paths.into_iter().map(|path| (what, path)));
    }
    let written: Vec<_> = written.iter().map(|(what, path)| (*what, path.as_path())).collect();
    Ok(files::check_outputs(&written)?)
}

/// Runs what is ready, and reports; `consumed` tells how much of its traces is read.
pub fn run(
    prepared: Prepared,
    args: &CommonArgs,
    settings: &Settings,
    consumed: Option<Consumed>,
) -> Result<(), Failure> {
    let result = measure(prepared, args, settings, consumed)?;
    // What went wrong with the run matters more than what went wrong with writing it down.
    let written = output::write(&result, args);
    verdict(&result)?;
    written
}

/// Whether the numbers are those of a whole run.
pub fn verdict(result: &RunResult) -> Result<(), Failure> {
    result.verdict().map_err(|error| match error {
        RunError::Trace { .. } => Failure::usage(error),
        error => Failure::run(error),
    })
}

/// Runs what is ready.
pub fn measure(
    prepared: Prepared,
    args: &CommonArgs,
    settings: &Settings,
    consumed: Option<Consumed>,
) -> Result<RunResult, Failure> {
    let mut run = prepared.start()?;
    let mut progress = Progress::begin(args, run.expected(), consumed);
    drive_to_the_end(&mut run, &mut progress, args);
    progress.end();
    if args.wall_clock || args.progress().is_some() {
        remark(&progress.speed(&run));
    }
    let origin = Origin::of(&run, settings);
    let mut result = run.finish();
    if let Some(error) = &result.trace_error
        && result.machine.served == 0
    {
        return Err(Failure::usage(error.clone()));
    }
    origin.tell(&mut result);
    Ok(result)
}

/// Steps the run. The first Ctrl-C stops new I/O and drains what is in flight.
fn drive_to_the_end(run: &mut Run, progress: &mut Progress, args: &CommonArgs) {
    let (mut stopped, mut memory) = (false, MemoryWatch::of(run.plan(), By::Command));
    signals::run_begins();
    while run.step(CHUNK) {
        progress.draw(run);
        if !stopped && signals::stop_asked() {
            stopped = true;
            if args.progress().is_some() {
                remark("finishing what is in flight, then reporting; Ctrl-C again ends at once");
            }
            run.stop();
        }
        if !stopped && let Some(short) = memory.short() {
            stopped = true;
            run.stop_for(short.to_string());
        }
    }
}
