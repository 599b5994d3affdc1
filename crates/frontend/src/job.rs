//! Jobs in the words of fio, and programs beside or instead of them.

use crate::settings::Settings;
use crate::{Failure, InputError, files};
use std::path::PathBuf;
use wordline::{Error, Logs, Plan, Workload};
pub use wordline_fio::Env;
use wordline_fio::{Job, ParseOptions, Plan as Jobs};
use wordline_trace::{OpenOptions, Reader, TraceFault};

/// Jobs, or a program.
#[derive(Clone, Debug, Default)]
pub struct JobRun {
    /// fio's options as on its command line.
    pub fio: Vec<String>,
    /// Job files; `-` is standard input.
    pub files: Vec<String>,
    /// Only these sections of the files.
    pub sections: Vec<String>,
    /// Options without meaning here are refused.
    pub strict: bool,
    /// A program in place of jobs, by its profile.
    pub app: Option<String>,
    /// Programs beside it or beside the jobs.
    pub with: Vec<String>,
}

/// Files and the environment for fio's job files, `include` and `${NAME}`.
pub struct Outside;

impl Env for Outside {
    fn read_file(&mut self, path: &str) -> std::io::Result<String> {
        files::read_text(path).map_err(std::io::Error::other)
    }
    fn var(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

impl JobRun {
    /// What decides which jobs run, in words.
    pub fn label(&self) -> String {
        let sections = self.sections.iter().map(|name| format!("--section={name}"));
        let app = self.app.iter().map(|name| format!("--app={name}"));
        let with = self.with.iter().map(|name| format!("--with={name}"));
        let words =
            app.chain(with).chain(self.fio.iter().cloned()).chain(self.files.iter().cloned());
        words.chain(sections).collect::<Vec<_>>().join(" ")
    }

    /// The jobs; `engine` is that of jobs that name none.
    pub fn parse(&self, engine: &str, env: &mut dyn Env) -> Result<Jobs, Failure> {
        let none = self.fio.is_empty() && self.files.is_empty();
        if none && (self.app.is_some() || !self.with.is_empty()) {
            return Ok(Jobs::none());
        }
        parse_with(&self.fio, &self.files, engine, self.strict, &self.sections, env)
    }

    /// A plan of these jobs.
    pub fn plan(
        &self,
        system: wordline::System,
        jobs: Jobs,
        settings: &Settings,
    ) -> Result<Plan, Failure> {
        let plan = settings.plan(system, Workload::Jobs(jobs), self.label())?;
        Ok(Plan { logs: Box::new(LogsOfJobs), ..plan })
    }
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
) -> Result<Jobs, Failure> {
    let options = ParseOptions { strict, sections: sections.to_vec() };
    let mut words = vec![format!("--ioengine={engine}")];
    words.extend(fio.iter().cloned());
    words.push("--".into());
    words.extend(files.iter().cloned());
    let mut plan = wordline_fio::parse_args(&words, &options, env).map_err(Error::Jobs)?;
    plan.globals.remove(0);
    Ok(plan)
}

/// The path of a job's `read_iolog`.
fn log_of(job: Option<&Job>) -> PathBuf {
    PathBuf::from(job.and_then(|job| job.read_iolog.clone()).unwrap_or_default())
}

/// `read_iolog` of jobs: fio's log or a binary blktrace, as fio takes them.
struct LogsOfJobs;

impl Logs for LogsOfJobs {
    fn open(&mut self, job: Option<&Job>) -> Result<Reader, Error> {
        let path = log_of(job);
        let (reader, _) = files::open_trace(&[path], OpenOptions::default()).map_err(|e| {
            Error::Open(Box::new(match e {
                InputError::Trace(e) if e.fault == TraceFault::Format => InputError::TraceOfJob(e),
                e => e,
            }))
        })?;
        Ok(reader)
    }
    fn beforehand(&mut self, job: Option<&Job>) -> Result<Option<Reader>, Error> {
        if log_of(job).is_file() { self.open(job).map(Some) } else { Ok(None) }
    }
}
