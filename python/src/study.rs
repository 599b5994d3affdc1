//! Studies: their points, what runs one, and the tables of all.

use crate::{raised, usage, work};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use wordline::ZetanCache;
use wordline_frontend::{Failure, files};
use wordline_study::{
    BUILD, Failed, Plan, Point, PointError, Scale, Store, Study, ageing_key, find, parse_only,
    prepare, run_on, tabulate, write_tables,
};

/// A study at a scale, and where its results are kept once that is open.
#[pyclass(frozen, module = "wordline._wordline")]
pub struct StudyPlan {
    study: Study,
    plan: Plan,
    text: String,
    store: Mutex<Option<Store>>,
}

fn read(name: &str) -> Result<(Study, String), Failure> {
    let is_path = name.ends_with(".toml") || Path::new(name).is_file();
    let (short, file, text) = match is_path {
        true => {
            let text = files::read_named("study", name)?;
            let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy();
            (stem.into_owned(), name.to_string(), text)
        }
        false => {
            let text = find(name).map_err(Failure::usage)?.text.to_string();
            (name.to_string(), format!("{name}.toml"), text)
        }
    };
    let study = Study::parse(&short, &file, &text).map_err(Failure::usage)?;
    Ok((study, text))
}

impl StudyPlan {
    fn store(&self) -> MutexGuard<'_, Option<Store>> {
        self.store.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn with_store<T>(&self, f: impl FnOnce(&Store) -> PyResult<T>) -> PyResult<T> {
        match &*self.store() {
            Some(store) => f(store),
            None => Err(usage("the study's folder is not open: call open() before")),
        }
    }
}

#[pymethods]
impl StudyPlan {
    #[new]
    #[pyo3(signature = (name, scale, only, vary, repeat=None))]
    fn new(
        name: &str,
        scale: &str,
        only: Vec<String>,
        vary: Vec<String>,
        repeat: Option<u32>,
    ) -> PyResult<StudyPlan> {
        let (mut study, text) = read(name).map_err(raised)?;
        study.vary(&vary).map_err(usage)?;
        study.repeat(repeat).map_err(usage)?;
        let scale = match scale {
            "whole" => Scale::Whole,
            "quick" => Scale::Quick,
            other => return Err(usage(format!("scale '{other}': use whole or quick"))),
        };
        let only = parse_only(&study, &only).map_err(usage)?;
        let read = |path: &str| files::read_text(path).map_err(std::io::Error::other);
        let plan = Plan::new(&study, scale, &only, &read).map_err(usage)?;
        Ok(StudyPlan { study, plan, text, store: Mutex::new(None) })
    }

    /// Name, title, what it shows, and its text.
    fn about(&self) -> (String, String, String, String) {
        let spec = &self.study.spec.study;
        (self.study.name.clone(), spec.title.clone(), spec.shows.clone(), self.text.clone())
    }

    /// Each point's values of axes.
    fn points(&self) -> Vec<Vec<(String, String)>> {
        self.plan.cases().iter().map(|point| point.values.clone()).collect()
    }

    /// What is run: each point, under each of several seeds.
    fn labels(&self) -> Vec<String> {
        (0..self.plan.points.len()).map(|i| self.plan.label(i)).collect()
    }

    /// Opens the folder that results are kept in. Nobody else writes there until it is closed. The points that
    /// have no result of this build.
    fn open(&self, out: PathBuf) -> PyResult<Vec<usize>> {
        let store = Store::open(&out, &self.study.name, BUILD).map_err(usage)?;
        let missing = |(_, point): &(usize, &Point)| store.result(point).is_none();
        let left = self.plan.points.iter().enumerate().filter(missing).map(|(i, _)| i).collect();
        *self.store() = Some(store);
        Ok(left)
    }

    fn close(&self) {
        *self.store() = None;
    }

    /// A point as `study_point` takes it, and what its drive depends on.
    fn payload(&self, point: usize) -> PyResult<(String, String)> {
        let point = &self.plan.points[point];
        let text = serde_json::to_string(point).map_err(usage)?;
        Ok((text, ageing_key(point).map_err(usage)?))
    }

    /// Keeps a point's result.
    fn keep(&self, point: usize, result: &str) -> PyResult<()> {
        let keep = |store: &Store| store.keep(&self.plan.points[point], result);
        self.with_store(|store| keep(store).map_err(|e| PyOSError::new_err(e.to_string())))
    }

    /// Writes the tables, and gives them: their files, as text, as JSON.
    fn tables(
        &self,
        py: Python<'_>,
        out: PathBuf,
        failed: Vec<(usize, String)>,
    ) -> PyResult<(Vec<PathBuf>, String, String)> {
        let failed: Vec<Failed> =
            failed.into_iter().map(|(point, why)| Failed { point, why }).collect();
        py.detach(|| {
            self.with_store(|store| {
                let table = tabulate(&self.study, &self.plan, store, &failed).map_err(usage)?;
                let written = write_tables(&table, store, &out);
                let written = written.map_err(|e| PyOSError::new_err(e.to_string()))?;
                Ok((written, table.text(), table.json()))
            })
        })
    }
}

/// Runs a point of a study, on copies of the drives that the point before it had if both can have the same. JSON+.
#[pyfunction]
pub fn study_point(py: Python<'_>, point: &str) -> PyResult<String> {
    let point: Point = serde_json::from_str(point).map_err(usage)?;
    py.detach(|| run(&point)).map_err(usage)
}

fn run(point: &Point) -> Result<String, PointError> {
    let mut zetans = ZetanCache::default();
    let prepare = |zetans: &mut ZetanCache| prepare(point, zetans, None, &mut |_| ());
    let drives = work::kept(ageing_key(point)?, || prepare(&mut zetans))?;
    run_on(point, drives, &mut zetans, &mut |_| ())
}

/// The studies that come with the package.
#[pyfunction]
pub fn studies() -> Vec<String> {
    wordline_study::presets().iter().map(|preset| preset.name.to_string()).collect()
}
