//! A run as Python words it: JSON whose keys are those of `wordline.run` and `wordline.replay`.

use serde::Deserialize;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use wordline::{Align, Scale};
use wordline_frontend::{
    Failure, JobRun, Machine, Outside, Parts, Prepare, Settings, TraceReplay, files,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    machine: MachineWords,
    #[serde(default)]
    run: RunWords,
    work: Work,
}

/// What runs.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Work {
    Jobs(Box<JobWords>),
    Replay(Box<ReplayWords>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineWords {
    device: Option<String>,
    drives: Option<u32>,
    array: Option<String>,
    topology: Option<String>,
    media: Option<String>,
    ftl: Option<String>,
    stack: Option<String>,
    testbed: Option<String>,
    fs: Option<String>,
    system: Option<String>,
    #[serde(default)]
    set: Vec<String>,
    scale: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct RunWords {
    precondition: Option<String>,
    load_state: Option<PathBuf>,
    save_state: Option<PathBuf>,
    seed: Option<u64>,
    slowest: usize,
    timeline: Option<usize>,
    over_time: bool,
    integrity: Option<bool>,
    align: Option<String>,
    limit: Option<String>,
    shuffle_ties: Option<u64>,
    share: bool,
    cache: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct JobWords {
    fio: Vec<String>,
    files: Vec<String>,
    /// In place of standard input.
    text: Option<String>,
    variables: BTreeMap<String, String>,
    sections: Vec<String>,
    strict: bool,
    app: Option<String>,
    with: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplayWords {
    files: Vec<PathBuf>,
    format: Option<String>,
    columns: Option<String>,
    rwmixread: Option<u8>,
    bs: Option<String>,
    address_unit: Option<String>,
    time_unit: Option<String>,
    action: Option<String>,
    time_scale: Option<String>,
    closed_loop: Option<u32>,
    volume: Option<String>,
    #[serde(default)]
    wrap: bool,
    #[serde(default)]
    skip_beyond: bool,
}

/// Jobs with what stands for files and variables, or a trace.
pub enum Todo {
    Jobs(JobRun, Given),
    Replay(TraceReplay),
}

/// What a job file finds: the text at hand, values of `${NAME}`, and beyond that the world.
#[derive(Clone)]
pub struct Given {
    text: Option<String>,
    variables: BTreeMap<String, String>,
    used: RefCell<BTreeSet<String>>,
    /// What was read.
    texts: String,
}

impl Given {
    /// An error about the first variable that no job has, be it one that is left out.
    pub fn all_used(&self) -> Result<(), ArgumentError> {
        let used = self.used.borrow();
        let has = |name: &str| used.contains(name) || self.texts.contains(&format!("${{{name}}}"));
        match self.variables.keys().find(|name| !has(name)) {
            Some(name) => Err(ArgumentError::Unused(name.clone())),
            None => Ok(()),
        }
    }
}

impl wordline_frontend::Env for Given {
    fn read_file(&mut self, path: &str) -> std::io::Result<String> {
        let text = match (path, &self.text) {
            ("-", Some(text)) => Ok(text.clone()),
            _ => Outside.read_file(path),
        }?;
        self.texts += &text;
        Ok(text)
    }
    fn var(&self, name: &str) -> Option<String> {
        self.used.borrow_mut().insert(name.to_owned());
        self.variables.get(name).cloned().or_else(|| Outside.var(name))
    }
}

/// All of it, in types.
pub struct Asked {
    pub settings: Settings,
    pub save_state: Option<PathBuf>,
    /// The aged drive is kept for the next run that can start from it.
    pub share: bool,
    /// Aged drives are kept on disk, and taken from there.
    pub cache: bool,
    pub todo: Todo,
}

/// An argument that Python checks no further than its type.
#[derive(Debug, thiserror::Error)]
pub enum ArgumentError {
    #[error("arguments: {0}")]
    Json(#[from] serde_json::Error),
    #[error("system: no system '{system}': use {known}")]
    System { system: String, known: String },
    #[error("array: no level '{0}': use raid0 or raid5")]
    Level(String),
    #[error("drives: must be 1 to 255")]
    Drives,
    #[error("scale: {0}")]
    Scale(wordline::ScaleError),
    #[error("precondition: no state '{state}': use auto, {known}")]
    State { state: String, known: String },
    #[error(
        "variables: no job has ${{{0}}}, so that it changes nothing: write ${{{0}}} where its value is to be, or leave it out"
    )]
    Unused(String),
    #[error("align: no way '{0}': use error or round")]
    Align(String),
    #[error("rwmixread: must be 0 to 100 percent")]
    Reads,
    #[error("closed_loop: must be 1 to 65536 requests in flight")]
    Depth,
}

impl From<ArgumentError> for Failure {
    fn from(error: ArgumentError) -> Failure {
        Failure::usage(error)
    }
}

fn parse<T: for<'a> Deserialize<'a>>(json: &str) -> Result<T, ArgumentError> {
    Ok(serde_json::from_str(json)?)
}

impl MachineWords {
    pub fn from_json(json: &str) -> Result<Machine, ArgumentError> {
        parse::<MachineWords>(json)?.machine()
    }

    fn machine(self) -> Result<Machine, ArgumentError> {
        let plain = Parts::default();
        let scale = self.scale.map(|text| text.parse::<Scale>()).transpose();
        let device = match (self.device, &self.system) {
            (Some(device), _) => device,
            (None, Some(_)) => Machine::DEVICE_OF_SYSTEMS.into(),
            (None, None) => Machine::DEVICE.into(),
        };
        let named = |system: &String| wordline_profile::SYSTEMS.iter().any(|(n, _)| n == system);
        if let Some(system) = self.system.as_ref().filter(|system| !named(system)) {
            let names: Vec<&str> = wordline_profile::SYSTEMS.iter().map(|(n, _)| *n).collect();
            let known = names.join(", ");
            return Err(ArgumentError::System { system: system.clone(), known });
        }
        if let Some(level) = self.array.as_ref().filter(|l| !["raid0", "raid5"].contains(&&***l)) {
            return Err(ArgumentError::Level(level.clone()));
        }
        if self.drives.is_some_and(|n| !(1..=255).contains(&n)) {
            return Err(ArgumentError::Drives);
        }
        Ok(Machine {
            device,
            drives: self.drives,
            array: self.array,
            topology: self.topology,
            parts: Parts {
                media: self.media,
                ftl: self.ftl.unwrap_or(plain.ftl),
                stack: self.stack.unwrap_or(plain.stack),
                testbed: self.testbed,
                fs: self.fs.unwrap_or(plain.fs),
                system: self.system,
                set: self.set,
                scale: scale.map_err(ArgumentError::Scale)?,
            },
        })
    }
}

impl Request {
    pub fn from_json(json: &str) -> Result<Asked, Failure> {
        let Request { machine, run, work } = parse(json)?;
        let precondition = run.precondition.as_deref().unwrap_or("auto");
        let precondition = Prepare::from_name(precondition).ok_or_else(|| {
            let known = wordline::Precondition::ALL.map(|p| p.name()).join(", ");
            ArgumentError::State { state: precondition.into(), known }
        })?;
        let align = match run.align.as_deref() {
            None | Some("error") => Align::Error,
            Some("round") => Align::Round,
            Some(other) => return Err(ArgumentError::Align(other.into()).into()),
        };
        if let Some(path) = &run.save_state {
            files::check_writable(path)?;
        }
        let settings = Settings {
            machine: machine.machine()?,
            precondition,
            load_state: run.load_state,
            seed: run.seed.unwrap_or(1),
            slowest: run.slowest,
            slices: run.timeline,
            latency_over_time: run.over_time,
            integrity: run.integrity.unwrap_or(true),
            shuffle_ties: run.shuffle_ties,
            align,
            limit: run.limit,
        };
        let todo = match work {
            Work::Jobs(words) => words.todo(),
            Work::Replay(words) => Todo::Replay(words.replay()?),
        };
        Ok(Asked {
            settings,
            save_state: run.save_state,
            share: run.share,
            cache: run.cache.unwrap_or(true),
            todo,
        })
    }
}

impl JobWords {
    fn todo(self) -> Todo {
        let JobWords { fio, files, text, variables, sections, strict, app, with } = self;
        let run = JobRun { fio, files, sections, strict, app, with };
        Todo::Jobs(run, Given { text, variables, used: RefCell::default(), texts: String::new() })
    }
}

impl ReplayWords {
    fn replay(self) -> Result<TraceReplay, ArgumentError> {
        let plain = TraceReplay::default();
        if self.rwmixread.is_some_and(|percent| percent > 100) {
            return Err(ArgumentError::Reads);
        }
        if self.closed_loop.is_some_and(|n| !(1..=65_536).contains(&n)) {
            return Err(ArgumentError::Depth);
        }
        Ok(TraceReplay {
            files: self.files,
            format: self.format.unwrap_or(plain.format),
            columns: self.columns,
            rwmixread: self.rwmixread,
            bs: self.bs,
            address_unit: self.address_unit,
            time_unit: self.time_unit,
            action: self.action.unwrap_or(plain.action),
            time_scale: self.time_scale,
            closed_loop: self.closed_loop,
            volume: self.volume,
            wrap: self.wrap,
            skip_beyond: self.skip_beyond,
        })
    }
}
