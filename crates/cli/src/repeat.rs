//! A run under several seeds.

use crate::args::{CommonArgs, Format, ReplayArgs, RunArgs};
use crate::error::{self, WordError, WorkError};
use crate::report::write_page;
use crate::{Failure, files, finish, output, prepare, remark, signals, status};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wordline::{Plan, RunError};
use wordline_frontend::{Outside, Settings, Status};
use wordline_page::Outcome;
use wordline_sim::{ThreadSetup, setup};

/// Jobs or a program, so many times.
pub fn run(args: &RunArgs, times: u32) -> Result<(), Failure> {
    under_seeds(&args.common, times, &|settings| {
        let mut work = args.jobs();
        if !work.fio.is_empty() || !work.files.is_empty() {
            // fio draws the same places each time; a job that says so still does.
            work.fio.insert(0, "--randrepeat=0".into());
        }
        let system = settings.machine.system(work.app.as_deref(), &work.with)?;
        let engine = setup::engine_name(system.config.stack.engine);
        let jobs = work.parse(engine, &mut Outside)?;
        settings.options()?;
        work.plan(system, jobs, settings)
    })
}

/// A trace, so many times: what is drawn is the drive, its ageing, and what the trace does not say.
pub fn replay(args: &ReplayArgs, times: u32) -> Result<(), Failure> {
    if let Some(path) = args.files.iter().find(|path| !path.is_file()) {
        return Err(WordError::RepeatsOfStream(path.clone()).into());
    }
    under_seeds(&args.common, times, &|settings| {
        let system = || settings.machine.system(None, &[]);
        Ok(args.replay()?.plan(system, settings)?.0)
    })
}

/// Runs what is planned under each seed, the drive prepared anew each time, and tells means and their spreads.
fn under_seeds(
    common: &CommonArgs,
    times: u32,
    planned: &dyn Fn(&Settings) -> Result<Plan, Failure>,
) -> Result<(), Failure> {
    let formats = &common.output_format;
    if formats.contains(&Format::Terse) {
        return Err(WordError::TerseRepeats.into());
    }
    let seed = common.seed;
    let last = seed.checked_add(u64::from(times) - 1);
    let last = last.ok_or(WordError::NoSeeds { seed, times })?;
    signals::install();
    let runs = Arc::new(Mutex::new(Vec::new()));
    let complete = || locked(&runs).len();
    let mut ended = None;
    for seed in seed..=last {
        let cut = move |complete: usize| WorkError::RepeatsCut { seed, complete, times };
        // To prepare the drive may take long, and there is something to report.
        let meanwhile = (complete() > 0).then(|| {
            let (runs, common) = (Arc::clone(&runs), common.clone());
            signals::ends_by(move || {
                let runs = std::mem::take(&mut *locked(&runs));
                let ended = cut(runs.len());
                status(report(&runs, &common, Some(ended)))
            })
        });
        // Asked before that, when the last run was over.
        if signals::stop_asked() {
            ended = Some(cut(complete()));
            break;
        }
        let settings = Settings { seed, ..common.settings() };
        let checked = prepare::check(planned(&settings)?, common, &settings)?;
        finish::check_writable(common, &checked)?;
        let logs =
            |thread: &ThreadSetup| !thread.plan.logs.is_empty() || thread.write_iolog().is_some();
        if checked.threads().iter().any(logs) {
            return Err(WordError::LogsOfRepeats.into());
        }
        let prepared = prepare::prepare(checked, common)?;
        drop(meanwhile);
        // Asked since then: there is no run to drain.
        if signals::stop_asked() {
            ended = Some(cut(complete()));
            break;
        }
        let result = finish::measure(prepared, common, &settings, None)?;
        // The runs before it are whole. Numbers of a part of a run would not compare with theirs.
        if let Err(RunError::Interrupted { .. }) = result.verdict() {
            ended = Some(cut(complete()));
            break;
        }
        finish::verdict(&result).map_err(|failure| match failure {
            failure if failure.status == Status::Unusable => failure,
            failure => WorkError::UnderSeed { seed, failure }.into(),
        })?;
        let plus = formats.contains(&Format::JsonPlus);
        locked(&runs).push(wordline_report::fio_json(&result, plus, &Default::default()));
    }
    let runs = std::mem::take(&mut *locked(&runs));
    report(&runs, common, ended)
}

fn locked(runs: &Mutex<Vec<String>>) -> MutexGuard<'_, Vec<String>> {
    runs.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells what came of the repeats that are complete.
fn report(runs: &[String], common: &CommonArgs, ended: Option<WorkError>) -> Result<(), Failure> {
    let formats = &common.output_format;
    let mut failures: Vec<Failure> = Vec::new();
    let told = ended.as_ref().map(ToString::to_string);
    if let Some(ended) = ended {
        if runs.is_empty() {
            return Err(ended.into());
        }
        failures.push(ended.into());
    }
    let bare = wordline_page::repeats(runs, told.as_deref());
    let outcome = wordline_page::read("", &bare).map_err(WorkError::DefectOf)?;
    let text = text(&bare, &outcome, formats);
    if let Some(path) = &common.report {
        output::note(&mut failures, write_page(path, std::slice::from_ref(&outcome)));
    }
    match &common.output {
        Some(path) => {
            output::note(&mut failures, files::write(path, |w| w.write_all(text.as_bytes())));
        }
        None => output::note(&mut failures, output::print_result(&text)),
    }
    // The text has the warnings in it.
    if !formats.contains(&Format::Normal) || common.output.is_some() {
        let agree = wordline_page::agreement(&outcome).map(|words| format!("warning: {words}"));
        let warnings = wordline_page::said(&outcome, "warning", "warnings");
        warnings.into_iter().chain(agree).for_each(|line| remark(&line));
    }
    if !common.quiet {
        wordline_page::said(&outcome, "note", "notes").iter().for_each(|line| remark(line));
    }
    error::all(failures)
}

/// In every format asked for, one after the other.
fn text(bare: &str, outcome: &Outcome, formats: &[Format]) -> String {
    let mut text = String::new();
    if formats.contains(&Format::Normal) {
        text += &wordline_page::summary_text(outcome);
    }
    if formats.iter().any(|f| matches!(f, Format::Json | Format::JsonPlus)) {
        let body = bare.trim_end().trim_end_matches('}');
        let (warnings, summary) =
            (wordline_page::warnings(outcome), wordline_page::summary(outcome));
        text += &format!("{body},\n\"warnings\": {warnings},\n\"summary\": {summary:#}}}\n");
    }
    text
}
