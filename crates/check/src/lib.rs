//! Runs of the whole machine for tests: one call from a configuration and a job to a result.
#![warn(missing_docs)]

pub mod scenarios;

use wordline::Level;
use wordline::{
    Config, Drive, Error, Logs, Options, Plan, Precondition, RunResult, Source, Sources, System,
    Workload, ZetanCache, jobs,
};
use wordline_fio::Job;
use wordline_trace::Reader;

/// How a drive is prepared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Age {
    /// Fresh from the factory.
    Fresh,
    /// Every sector written once, in order.
    Filled,
    /// Filled, then overwritten as the job writes until write amplification is steady.
    Steady,
    /// As `Steady` with writes that are uniformly random; then the collector comes to rest.
    Random,
    /// Overwritten, then aged by the job's own writes at its own rate.
    Paced,
}

impl Age {
    fn precondition(self) -> Precondition {
        match self {
            Age::Fresh => Precondition::None,
            Age::Filled => Precondition::Fill,
            Age::Steady => Precondition::Steady,
            Age::Random => Precondition::Random,
            Age::Paced => Precondition::Paced,
        }
    }
}

/// A run to make.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// A profile in `profiles/device`.
    pub device: &'a str,
    /// A profile in `profiles/stack`.
    pub stack: &'a str,
    /// Settings, each `KEY=VALUE`.
    pub overrides: Vec<String>,
    /// A job file's text.
    pub job: &'a str,
    /// How the drive is prepared.
    pub age: Age,
    /// The seed of the run.
    pub seed: u64,
    /// What the run records.
    pub options: Options,
    /// A program; `job` may then be empty.
    pub app: Option<&'a str>,
    /// Programs beside it or beside jobs, and their options.
    pub with: Vec<(&'a str, &'a str)>,
    /// A file system on the drive.
    pub fs: Option<&'a str>,
    /// So many drives as one array.
    pub array: Option<(Level, u32)>,
    /// What `read_iolog` of a job reads, whatever its name.
    pub replay: &'a str,
}

impl<'a> Case<'a> {
    /// A fresh drive below libaio, with seed 1.
    pub fn new(device: &'a str, job: &'a str) -> Case<'a> {
        Case {
            device,
            stack: "linux-libaio",
            overrides: Vec::new(),
            job,
            age: Age::Fresh,
            seed: 1,
            options: Options { digest: true, ..Options::default() },
            app: None,
            with: Vec::new(),
            fs: None,
            array: None,
            replay: "",
        }
    }
    /// On another stack.
    pub fn stack(mut self, stack: &'a str) -> Self {
        self.stack = stack;
        self
    }
    /// With a program.
    pub fn app(mut self, app: &'a str) -> Self {
        self.app = Some(app);
        self
    }
    /// With another program beside it.
    pub fn with(mut self, app: &'a str, options: &'a str) -> Self {
        self.with.push((app, options));
        self
    }
    /// With a buffer in SLC mode, a part of it always there and a part borrowed.
    pub fn with_slc(self) -> Self {
        self.set("ftl.firmware.slc_static=7")
            .set("ftl.firmware.slc_dynamic=20")
            .set("nand.slc.t_read=20us")
            .set("nand.slc.t_program=200us")
            .set("nand.slc.t_erase=2ms")
            .set("nand.slc.endurance=30000")
            .set("nand.slc.read_mw=40")
            .set("nand.slc.program_mw=50")
            .set("nand.slc.erase_mw=30")
            .set("nand.slc.errors=mlc-2y-nm")
    }
    /// With a file system.
    pub fn fs(mut self, fs: &'a str) -> Self {
        self.fs = Some(fs);
        self
    }
    /// On so many drives as one array.
    pub fn array(mut self, level: Level, drives: u32) -> Self {
        self.array = Some((level, drives));
        self
    }
    /// On a drive prepared so.
    pub fn age(mut self, age: Age) -> Self {
        self.age = age;
        self
    }
    /// With a setting, `KEY=VALUE`.
    pub fn set(mut self, pair: &str) -> Self {
        self.overrides.push(pair.into());
        self
    }
    /// The profiles with the settings. An error names the setting that is wrong.
    pub fn config(&self) -> Result<Config, Error> {
        let app = self.app.map(Source::Preset);
        let fs = self.fs.map(Source::Preset);
        let with: Vec<_> =
            self.with.iter().map(|&(name, options)| (Source::Preset(name), options)).collect();
        let sources = Sources { app, fs, with: &with, ..Sources::presets(self.device, self.stack) };
        Ok(System::assemble(sources, &self.overrides)?.config)
    }
    /// The run, from profiles to result.
    pub fn run(&self) -> Result<Outcome, Error> {
        run(self, &self.config()?)
    }
    fn plan(&self, config: &Config) -> Result<Plan, Error> {
        let workload = match self.job {
            "" => Workload::Jobs(wordline_fio::Plan::none()),
            job => jobs("test.fio", job)?,
        };
        let mut system = System::from_config(config.clone(), &self.overrides);
        if let Some((level, drives)) = self.array {
            system = system.into_array(level, drives);
        }
        Ok(Plan {
            logs: Box::new(OneLog(self.replay.to_string())),
            seed: self.seed,
            state: self.age.precondition(),
            options: self.options.clone(),
            ..Plan::new(system, workload)
        })
    }
}

/// The same text for every job that reads a log.
struct OneLog(String);

impl Logs for OneLog {
    fn open(&mut self, _: Option<&Job>) -> Result<Reader, Error> {
        Ok(wordline_trace::open(std::io::Cursor::new(self.0.clone()), Default::default())?)
    }
    fn beforehand(&mut self, job: Option<&Job>) -> Result<Option<Reader>, Error> {
        self.open(job).map(Some)
    }
}

/// A finished run, and the digest of every event it delivered.
pub struct Outcome {
    /// The result.
    pub result: RunResult,
    /// A digest of all events; 0 if none was asked for.
    pub events: u64,
}

impl Outcome {
    /// Everything a user would see, as text.
    pub fn text(&self) -> String {
        wordline_report::fio_json(&self.result, true, &Default::default())
    }
    /// The same without notes, which name settings that had no effect.
    pub fn numbers(mut self) -> String {
        self.result.notes.clear();
        self.text()
    }
}

/// The drive of a case, aged for its job.
pub fn aged(case: &Case, config: &Config) -> Result<Drive, Error> {
    Ok(case.plan(config)?.prepare()?.drive().clone())
}

/// The run of a case whose profiles may have been changed.
pub fn run(case: &Case, config: &Config) -> Result<Outcome, Error> {
    Ok(finish(case.plan(config)?.prepare()?.start()?))
}

/// Runs a case on a drive that was aged, saved and loaded; none where that is not possible.
pub fn run_saved(case: &Case, config: &Config) -> Result<Option<Outcome>, Error> {
    let mut aged = case.plan(config)?.check()?;
    let Some(key) = aged.ageing_key() else { return Ok(None) };
    aged.age(&mut ())?;
    let mut state = Vec::new();
    match aged.save_aged(&key, &mut state) {
        Err(e) if e.kind() == std::io::ErrorKind::Unsupported => return Ok(None),
        saved => saved.map_err(wordline::StateError::from)?,
    }
    drop(aged);
    let mut loaded = case.plan(config)?.check()?;
    loaded.load_aged(&key, &mut &state[..])?;
    Ok(Some(finish(loaded.prepare(&mut ())?.start()?)))
}

/// Runs a case on a drive that is ready.
pub fn run_on(case: &Case, config: &Config, drive: Drive) -> Result<Outcome, Error> {
    let checked = case.plan(config)?.check_on(vec![drive], &mut ZetanCache::default())?;
    Ok(finish(checked.as_it_is().start()?))
}

fn finish(mut run: wordline::Run) -> Outcome {
    while run.step(1 << 20) {}
    let events = run.digest().unwrap_or(0);
    let mut result = run.finish();
    // What was asked for is no result: a setting that moves nothing else moves nothing.
    result.provenance = Default::default();
    Outcome { result, events }
}
