//! Runs of the whole machine for tests: one call from a configuration and a job to a result.

pub mod scenarios;

use wordline_app::App;
use wordline_base::Seed;
use wordline_fio::{NoEnv, ParseOptions, Plan, parse_file};
use wordline_profile::{Config, Source, Sources, assemble};
use wordline_sim::{
    AnySource, Drive, Options, Precondition, RunResult, SystemConfig, World, WriteSampler, setup,
};

/// How a drive is prepared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Age {
    Fresh,
    Filled,
    Steady,
    Random,
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
    pub device: &'a str,
    pub stack: &'a str,
    pub overrides: Vec<String>,
    pub job: &'a str,
    pub age: Age,
    pub seed: u64,
    pub options: Options,
    /// A program; `job` may then be empty.
    pub app: Option<&'a str>,
    /// A file system on the drive.
    pub fs: Option<&'a str>,
    /// What `read_iolog` of a job reads, whatever its name.
    pub replay: &'a str,
}

impl<'a> Case<'a> {
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
            fs: None,
            replay: "",
        }
    }
    pub fn stack(mut self, stack: &'a str) -> Self {
        self.stack = stack;
        self
    }
    pub fn app(mut self, app: &'a str) -> Self {
        self.app = Some(app);
        self
    }
    pub fn fs(mut self, fs: &'a str) -> Self {
        self.fs = Some(fs);
        self
    }
    pub fn age(mut self, age: Age) -> Self {
        self.age = age;
        self
    }
    pub fn set(mut self, pair: &str) -> Self {
        self.overrides.push(pair.into());
        self
    }
    pub fn config(&self) -> Result<Config, String> {
        let app = self.app.map(Source::Preset);
        let fs = self.fs.map(Source::Preset);
        let sources = Sources { app, fs, ..Sources::presets(self.device, self.stack) };
        assemble(sources, &self.overrides).map_err(|e| e.to_string())
    }
    pub fn run(&self) -> Result<Outcome, String> {
        run(self, &self.config()?)
    }
}

/// A finished run, and the digest of every event it delivered.
pub struct Outcome {
    pub result: RunResult,
    pub events: u64,
}

impl Outcome {
    /// Everything a user would see, as text.
    pub fn text(&self) -> String {
        wordline_report::fio_json(&self.result, true, &Default::default())
    }
}

pub fn system(config: &Config) -> SystemConfig {
    SystemConfig {
        nand: config.nand.clone(),
        device: config.device.clone(),
        ftl: config.ftl.clone(),
        stack: config.stack.clone(),
    }
}

fn plan(job: &str) -> Result<Plan, String> {
    match job {
        "" => Ok(Plan::none()),
        job => parse_file("test.fio", job, &ParseOptions::default(), &mut NoEnv)
            .map_err(|e| e.to_string()),
    }
}

/// The drive of a case, aged for its job.
pub fn aged(case: &Case, config: &Config) -> Result<Drive, String> {
    let seed = Seed(case.seed);
    let mut drive = Drive::new(&system(config), seed, true).map_err(|e| e.to_string())?;
    if case.age != Age::Fresh {
        drive.fill()?;
    }
    let mut sampler = WriteSampler::new(Some(&plan(case.job)?), drive.bytes(), seed)?;
    drive.age(case.age.precondition(), &mut sampler, seed)?;
    Ok(drive)
}

pub fn run(case: &Case, config: &Config) -> Result<Outcome, String> {
    run_on(case, config, aged(case, config)?)
}

/// Runs a case on a drive that is ready.
pub fn run_on(case: &Case, config: &Config, mut drive: Drive) -> Result<Outcome, String> {
    let system = system(config);
    let (seed, plan) = (Seed(case.seed), plan(case.job)?);
    let bytes = drive.bytes();
    let mut threads = setup::threads(&plan, &system.stack, bytes, seed, &mut |job| {
        let log = std::io::Cursor::new(case.replay.to_string());
        let reader = wordline_trace::open(log, Default::default()).map_err(|e| e.to_string())?;
        Ok(AnySource::Trace(Box::new(setup::replay_source(job, reader, bytes))))
    })?;
    if let Some(c) = &config.app {
        let app =
            App::new(&config.app_name, c, bytes, seed).map_err(|(k, e)| format!("{k} {e}"))?;
        drive.lay(&app.layout(), case.age == Age::Random)?;
        setup::app_threads(app, c, &mut threads);
    }
    let mut world =
        World::new(&system, drive, threads, &case.options).map_err(|e| e.to_string())?;
    while world.step(1 << 20) {}
    let events = world.digest().unwrap_or(0);
    Ok(Outcome { result: world.finish(Default::default()), events })
}
