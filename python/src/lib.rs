//! `wordline._wordline`: what the Python package asks of the library. Words go in as JSON, results come out as
//! text and arrays; everything that users see is in `python/wordline`.
#![forbid(unsafe_code)]

mod outcome;
mod request;
mod study;
mod work;

use outcome::Outcome;
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use request::{MachineWords, Request};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use study::{StudyPlan, studies, study_point};
use wordline::RunResult;
use wordline_base::hist;
use wordline_base::time::{self, Time};
use wordline_frontend::{Failure, Status};
use work::Signals;

create_exception!(wordline, InputError, PyValueError, "Unusable input: its place, and what to do.");
create_exception!(wordline, RunError, PyRuntimeError, "A run that failed.");

/// Unusable input, as Python has it.
fn usage(why: impl ToString) -> PyErr {
    InputError::new_err(why.to_string())
}

fn raised(failure: Failure) -> PyErr {
    match failure.status {
        Status::Unusable => usage(failure),
        _ => RunError::new_err(failure.to_string()),
    }
}

/// Between two looks at Ctrl-C and two calls of what shows progress.
const LOOK: Duration = Duration::from_millis(50);
/// Stacks of the machine are not deep; that of a thread of the system's is what they are tested on.
const STACK: usize = 8 << 20;

type Answer = Result<RunResult, Failure>;

/// Waits a moment for the thread's answer, while others may use Python.
fn wait(
    py: Python<'_>,
    answers: Receiver<Answer>,
) -> (Result<Answer, RecvTimeoutError>, Receiver<Answer>) {
    py.detach(move || (answers.recv_timeout(LOOK), answers))
}

/// Runs what a request in JSON asks for. `progress` is called now and then with the phase, the part done, the
/// simulated nanoseconds and I/Os. An interrupt while the run goes stops it in good order; before that, or a
/// second time, it is raised.
#[pyfunction]
fn run(py: Python<'_>, request: &str, progress: Option<Bound<'_, PyAny>>) -> PyResult<Outcome> {
    let asked = Request::from_json(request).map_err(raised)?;
    let signals = Arc::new(Signals::default());
    let (send, mut answers) = channel();
    let theirs = Arc::clone(&signals);
    std::thread::Builder::new().name("wordline".into()).stack_size(STACK).spawn(move || {
        // Nobody may be left to take it.
        let _ = send.send(work::work(asked, &theirs));
    })?;
    let mut stopped = false;
    loop {
        let (answer, back) = wait(py, answers);
        answers = back;
        match answer {
            Ok(answer) => return answer.map(Outcome::new).map_err(raised),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(RunError::new_err(
                    "this is a defect of wordline: please report it with the arguments of the run",
                ));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let heard = py.check_signals().and_then(|()| tell(&signals, progress.as_ref()));
        if let Err(error) = heard {
            let interrupt = error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py);
            if interrupt && !stopped && signals.running.load(Ordering::SeqCst) {
                stopped = true;
                signals.stop.store(true, Ordering::SeqCst);
            } else {
                signals.abandoned.store(true, Ordering::SeqCst);
                return Err(error);
            }
        }
    }
}

fn tell(signals: &Signals, progress: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let Some(progress) = progress else { return Ok(()) };
    let phase = signals.phase.lock().unwrap_or_else(|e| e.into_inner()).clone();
    let part = match signals.part.load(Ordering::Relaxed) {
        0 => None,
        thousandths => Some((thousandths - 1) as f64 / 1000.0),
    };
    let now = signals.now_ns.load(Ordering::Relaxed);
    progress.call1((phase, part, now, signals.served.load(Ordering::Relaxed)))?;
    Ok(())
}

/// Raises what can be wrong with a request in JSON before its drive is made.
#[pyfunction]
fn check(py: Python<'_>, request: &str) -> PyResult<()> {
    py.detach(|| work::check(&Request::from_json(request)?)).map_err(raised)
}

/// What a request means here, and the files that its jobs read as they run.
#[pyfunction]
fn meaning(py: Python<'_>, request: &str) -> PyResult<(String, Vec<PathBuf>)> {
    py.detach(|| work::meaning(&Request::from_json(request)?)).map_err(raised)
}

/// Everything that goes with a device, with what follows from it, as `wordline device check` tells it.
#[pyfunction]
fn explain(py: Python<'_>, machine: &str) -> PyResult<String> {
    let machine = MachineWords::from_json(machine).map_err(|e| raised(e.into()))?;
    py.detach(|| {
        let system = wordline_frontend::combine(&machine.device, &machine.parts, None)?;
        wordline::Drive::new(&system.drive(), Default::default(), false)
            .map_err(|e| system.misfit(e))?;
        Ok(wordline_profile::explain(&system.config))
    })
    .map_err(raised)
}

/// Every setting of a machine, as `key`, `value`.
#[pyfunction]
fn settings(py: Python<'_>, machine: &str) -> PyResult<Vec<(String, String)>> {
    let machine = MachineWords::from_json(machine).map_err(|e| raised(e.into()))?;
    py.detach(|| {
        let system = wordline_frontend::combine(&machine.device, &machine.parts, None)?;
        let all = wordline_profile::settings(&system.config).into_iter();
        Ok(all.map(|(key, value)| (key, value.to_string())).collect())
    })
    .map_err(raised)
}

/// All profiles: kind, name.
#[pyfunction]
fn presets() -> Vec<(String, String)> {
    let all = wordline_profile::presets().iter();
    all.map(|p| (p.kind.name().to_string(), p.name.to_string())).collect()
}

/// A profile as written.
#[pyfunction]
fn show(name: &str) -> PyResult<String> {
    wordline_profile::show(name).map(ToString::to_string).map_err(usage)
}

/// The latency that stands for each bucket of a histogram.
#[pyfunction]
fn bucket_midpoints() -> Vec<i64> {
    (0..hist::BUCKETS).map(|bucket| hist::midpoint(bucket) as i64).collect()
}

/// So many of `n` values are at most at a percentile, by fio's rule.
#[pyfunction]
fn rank(percent: f64, n: u64) -> u64 {
    hist::rank(percent, n)
}

/// For how long, in ns, at least one of these stretches went on, each given by its two ends.
#[pyfunction]
fn covered(times: Vec<(u64, u64)>) -> u64 {
    time::covered(times.into_iter().map(|(from, to)| (Time(from), Time(to))).collect()).0
}

#[pymodule]
mod _wordline {
    #[pymodule_export]
    use super::{
        InputError, Outcome, RunError, StudyPlan, bucket_midpoints, check, covered, explain,
        meaning, presets, rank, run, settings, show, studies, study_point,
    };

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    /// Of the sources that this was built of: two builds of the same sources have the same.
    const SOURCES: &str = env!("WORDLINE_PYTHON_SOURCES");
}
