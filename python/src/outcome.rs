//! A finished run in Python's hands.

use crate::usage;
use numpy::{IntoPyArray, PyArray1, PyArrayMethods};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use wordline::RunResult;
use wordline_base::hist::BUCKETS;
use wordline_base::{Ddir, Histogram, Layer};
use wordline_frontend::{Format, files, text};
use wordline_sim::{HistLine, Log, LogKind};

/// What Python's `Result` reads a run through.
#[pyclass(frozen, module = "wordline._wordline")]
pub struct Outcome {
    result: RunResult,
}

impl Outcome {
    pub fn new(result: RunResult) -> Outcome {
        Outcome { result }
    }
}

/// Numpy's own integer, which mixes with all others.
fn int(n: u64) -> i64 {
    n as i64
}

fn counts(histogram: &Histogram) -> Vec<i64> {
    let mut counts = vec![0; BUCKETS];
    histogram.buckets().for_each(|(bucket, n)| counts[bucket] = int(n));
    counts
}

fn os_error(failure: wordline_frontend::Failure) -> PyErr {
    PyOSError::new_err(failure.to_string())
}

/// Directions by the names that Python has for them.
const DIRECTIONS: [(&str, Ddir); 3] =
    [("read", Ddir::Read), ("write", Ddir::Write), ("trim", Ddir::Trim)];

impl Outcome {
    fn put<'py, T: numpy::Element>(
        arrays: &Bound<'py, PyDict>,
        name: String,
        values: Vec<T>,
    ) -> PyResult<()> {
        arrays.set_item(name, values.into_pyarray(arrays.py()))
    }

    fn histograms(&self, arrays: &Bound<'_, PyDict>) -> PyResult<()> {
        for (t, thread) in self.result.threads.iter().enumerate() {
            for (name, ddir) in DIRECTIONS {
                let dir = &thread.dirs[ddir as usize];
                if dir.total_ios == 0 {
                    continue;
                }
                for (kind, h) in [("lat", &dir.lat), ("clat", &dir.clat), ("slat", &dir.slat)] {
                    Self::put(arrays, format!("threads/{t}/{name}/{kind}"), counts(h))?;
                }
            }
            if !thread.sync.is_empty() {
                Self::put(arrays, format!("threads/{t}/sync/lat"), counts(&thread.sync))?;
            }
        }
        Ok(())
    }

    /// A row for each interval, a column for each bucket.
    fn over_time(&self, arrays: &Bound<'_, PyDict>) -> PyResult<()> {
        let Some(series) = &self.result.latency_over_time else { return Ok(()) };
        for ddir in Ddir::REPORTED {
            let name = ddir.name();
            let of = |row: &[Histogram; 4]| row[ddir as usize].is_empty();
            if series.intervals.iter().all(of) {
                continue;
            }
            let mut matrix = vec![0; series.intervals.len() * BUCKETS];
            for (row, interval) in matrix.chunks_mut(BUCKETS).zip(&series.intervals) {
                interval[ddir as usize].buckets().for_each(|(bucket, n)| row[bucket] = int(n));
            }
            let matrix = PyArray1::from_vec(arrays.py(), matrix);
            let matrix = matrix.reshape([series.intervals.len(), BUCKETS])?;
            arrays.set_item(format!("over_time/{name}"), matrix)?;
        }
        Ok(())
    }

    /// What fio has in a file, of one thread or of several.
    fn log(arrays: &Bound<'_, PyDict>, name: &str, logs: &[&Log]) -> PyResult<()> {
        let at = |column: &str| format!("logs/{name}/{column}");
        if logs.iter().any(|log| log.kind == LogKind::Hist) {
            let lines: Vec<&HistLine> = logs.iter().flat_map(|log| &log.hist).collect();
            let bins = lines.first().map_or(0, |line| line.bins.len());
            let of = lines.iter().map(|line| int(line.at.0)).collect();
            Self::put::<i64>(arrays, at("at_ns"), of)?;
            let of = lines.iter().map(|line| line.ddir as u8).collect();
            Self::put::<u8>(arrays, at("direction"), of)?;
            let all = lines.iter().flat_map(|line| line.bins.iter().map(|&n| int(n)));
            let all: Vec<i64> = all.collect();
            let matrix = PyArray1::from_vec(arrays.py(), all).reshape([lines.len(), bins])?;
            return arrays.set_item(at("counts"), matrix);
        }
        let lines = || logs.iter().flat_map(|log| &log.lines);
        Self::put::<i64>(arrays, at("at_ns"), lines().map(|l| int(l.at.0)).collect())?;
        Self::put::<i64>(arrays, at("value"), lines().map(|l| int(l.value)).collect())?;
        Self::put::<u8>(arrays, at("direction"), lines().map(|l| l.ddir as u8).collect())?;
        Self::put::<u32>(arrays, at("size_bytes"), lines().map(|l| l.bs).collect())?;
        Self::put::<i64>(arrays, at("offset_bytes"), lines().map(|l| int(l.offset)).collect())
    }
}

#[pymethods]
impl Outcome {
    /// The report as text: normal with so many of the slowest I/Os, terse, json or json+.
    fn text(&self, py: Python<'_>, format: &str, slowest: usize) -> PyResult<String> {
        let format = match format {
            "normal" => Format::Normal,
            "terse" => Format::Terse,
            "json" => Format::Json,
            "json+" => Format::JsonPlus,
            other => {
                let why = format!("no format '{other}': use normal, terse, json or json+");
                return Err(PyValueError::new_err(why));
            }
        };
        Ok(py.detach(|| text(&self.result, format, slowest)))
    }

    /// All of the result but its logs and slices, as JSON.
    fn document(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| document(&self.result)).map_err(usage)
    }

    /// Its numbers by name, as arrays that nobody else has.
    fn arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let arrays = PyDict::new(py);
        self.histograms(&arrays)?;
        self.over_time(&arrays)?;
        for (name, logs) in wordline_report::log_files(&self.result) {
            Self::log(&arrays, &name, &logs)?;
        }
        Ok(arrays)
    }

    /// Why the numbers are not those of a whole run.
    fn failure(&self) -> Option<String> {
        self.result.verdict().err().map(|error| error.to_string())
    }

    /// The run in intervals, as CSV.
    fn over_time_csv(&self, py: Python<'_>) -> PyResult<String> {
        let mut csv = Vec::new();
        py.detach(|| wordline_report::over_time_csv(&self.result, &mut csv))?;
        Ok(String::from_utf8_lossy(&csv).into_owned())
    }

    /// Writes the timeline.
    fn write_timeline(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        if self.result.tracks.is_none() {
            let why = "timeline: the run has none: run with timeline=100000, the slices to keep";
            return Err(PyValueError::new_err(why));
        }
        let write = |w: &mut dyn std::io::Write| wordline_report::timeline_json(&self.result, w);
        py.detach(|| files::write(&path, write)).map_err(os_error)
    }

    /// Writes the files that jobs ask for, as fio names them, into a folder; their paths.
    fn write_logs(&self, py: Python<'_>, folder: PathBuf) -> PyResult<Vec<PathBuf>> {
        py.detach(|| write_logs(&self.result, &folder)).map_err(os_error)
    }
}

fn write_logs(
    result: &RunResult,
    folder: &std::path::Path,
) -> Result<Vec<PathBuf>, wordline_frontend::Failure> {
    let mut written = Vec::new();
    for log in &result.iologs {
        let path = folder.join(&log.path);
        files::write(&path, |w| log.write(w))?;
        written.push(path);
    }
    for (name, logs) in wordline_report::log_files(result) {
        let path = folder.join(name);
        files::write(&path, |w| {
            logs.iter().try_for_each(|log| wordline_report::write_log(log, w))
        })?;
        written.push(path);
    }
    Ok(written)
}

/// By name what is small, and of histograms what their buckets do not say.
fn document(result: &RunResult) -> Result<String, serde_json::Error> {
    let threads = result.threads.iter().map(|thread| {
        let mut dirs = serde_json::Map::new();
        for (name, ddir) in DIRECTIONS {
            let dir = &thread.dirs[ddir as usize];
            if dir.total_ios > 0 {
                let of = serde_json::json!({
                    "ios": dir.total_ios,
                    "bytes": dir.io_bytes,
                    "began_ns": dir.began.0,
                    "runtime_ns": dir.runtime.0,
                    "lat": summary(&dir.lat),
                    "clat": summary(&dir.clat),
                    "slat": summary(&dir.slat),
                });
                dirs.insert(name.into(), of);
            }
        }
        serde_json::json!({
            "name": thread.name,
            "number": thread.number,
            "group": thread.group,
            "reported": thread.reported,
            "ioengine": thread.ioengine,
            "iodepth": thread.iodepth,
            "error": thread.error,
            "total_errors": thread.total_errors,
            "started_ns": thread.started.0,
            "finished_ns": thread.finished.0,
            "user_ns": thread.user.0,
            "system_ns": thread.system.0,
            "context_switches": thread.context_switches,
            "generated": thread.generated,
            "served": thread.served,
            "options": thread.options,
            "directions": dirs,
            "sync": summary(&thread.sync),
        })
    });
    let threads: Vec<serde_json::Value> = threads.collect();
    let series = result.latency_over_time.as_ref();
    let document = serde_json::json!({
        "provenance": serde_json::to_value(&result.provenance)?,
        "ended": serde_json::to_value(result.ended)?,
        "failure": result.verdict().err().map(|error| error.to_string()),
        "prepared": result.prepared,
        "warnings": result.warnings,
        "notes": result.notes,
        "layers": Layer::ALL.map(Layer::name),
        "machine": serde_json::to_value(&result.machine)?,
        "threads": threads,
        "programs": wordline_report::programs(result),
        "slowest": serde_json::to_value(&result.slowest)?,
        "over_time_interval_ns": series.map(|series| series.interval_ns),
    });
    serde_json::to_string(&document)
}

/// Exact numbers of a histogram.
fn summary(h: &Histogram) -> serde_json::Value {
    serde_json::json!({
        "count": h.len(),
        "min_ns": h.min(),
        "max_ns": h.max(),
        "mean_ns": h.mean(),
        "stddev_ns": h.stddev(),
    })
}
