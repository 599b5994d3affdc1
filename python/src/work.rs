//! A run in a thread of its own: Python waits for it, and may stop it.

use crate::request::{Asked, Todo};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use wordline::{
    Checked, Drive, Ended, Plan, Prepared, Run, RunResult, Step, Watch, Workload, ZetanCache,
};
use wordline_cache::{Cache, Said};
use wordline_frontend::{By, Failure, MemoryWatch, Origin, Settings, check_memory, state};
use wordline_sim::setup;

/// Events between two looks at what Python says.
const CHUNK: u64 = 50_000;

/// How a run goes, for who watches; and what is said to it.
#[derive(Default)]
pub struct Signals {
    /// The run stops: no new I/O, what is in flight drains.
    pub stop: AtomicBool,
    /// Nobody waits for the result any more.
    pub abandoned: AtomicBool,
    /// There is a run that can be stopped.
    pub running: AtomicBool,
    pub now_ns: AtomicU64,
    pub served: AtomicU64,
    /// One more than thousandths; 0 is not known.
    pub part: AtomicU64,
    pub phase: Mutex<String>,
}

/// Who asked for the run has gone.
#[derive(Debug, thiserror::Error)]
#[error("nobody waits for the run any more")]
struct Abandoned;

impl Signals {
    fn abandoned(&self) -> Result<(), Failure> {
        match self.abandoned.load(Ordering::Relaxed) {
            true => Err(Failure::run(Abandoned)),
            false => Ok(()),
        }
    }
    fn say(&self, text: String) {
        *self.phase.lock().unwrap_or_else(|e| e.into_inner()) = text;
    }
}

/// A drive that was aged, and what it depends on.
struct Kept {
    key: String,
    drives: Vec<Drive>,
}

/// The last drives that a run was to share. One: whoever runs many orders them by it.
static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

struct Shown<'a> {
    signals: &'a Signals,
    drive: String,
    memory: MemoryWatch,
}

impl<'a> Shown<'a> {
    fn of(plan: &Plan, signals: &'a Signals) -> Shown<'a> {
        Shown { signals, drive: String::new(), memory: MemoryWatch::of(plan, By::Python) }
    }
}

impl Watch for Shown<'_> {
    fn drive(&mut self, name: &str) {
        self.drive = format!("{name}: ");
    }
    fn begin(&mut self, step: Step) {
        self.signals.say(format!("{}{}", self.drive, state::doing(step)));
    }
    fn look(&mut self) -> Result<(), Ended> {
        self.memory.look()
    }
}

/// What can be wrong with a run before its drive is made: words, profiles, settings, jobs.
pub fn check(asked: &Asked) -> Result<(), Failure> {
    plan(&asked.todo, &asked.settings).map(|_| ())
}

/// What is asked for, with all that profiles, programs, included files and the environment say here; and the files that its
/// jobs read as they run.
pub fn meaning(asked: &Asked) -> Result<(String, Vec<PathBuf>), Failure> {
    let plan = plan(&asked.todo, &asked.settings)?;
    let mut text = format!("{:?}\n{:?}\n", plan.system.config, plan.system.nodes);
    let mut files = Vec::new();
    if let Workload::Jobs(jobs) = &plan.workload {
        text += &format!("{jobs:?}");
        files.extend(jobs.jobs.iter().filter_map(|job| job.read_iolog.as_ref().map(PathBuf::from)));
    }
    Ok((text, files))
}

/// Runs what is asked for.
pub fn work(asked: Asked, signals: &Signals) -> Result<RunResult, Failure> {
    let Asked { settings, save_state, share, cache, todo } = asked;
    let cache = cache.then(|| Cache::of_user(Cache::MOST)).flatten();
    let cache = cache.as_ref();
    let plan = plan(&todo, &settings)?;
    check_memory(&plan, &settings)?;
    let key = match share && save_state.is_none() && settings.load_state.is_none() {
        true => Some(plan.ageing_key()),
        false => None,
    };
    let prepared = match key {
        Some(key) => shared(&todo, &settings, key, cache, signals)?,
        None => alone(plan.check()?, &settings, save_state.as_deref(), cache, signals)?,
    };
    signals.abandoned()?;
    let mut run = prepared.start()?;
    let origin = Origin::of(&run, &settings);
    to_end(&mut run, signals)?;
    let mut result = run.finish();
    if let Some(error) = &result.trace_error
        && result.machine.served == 0
    {
        return Err(Failure::usage(error.clone()));
    }
    origin.tell(&mut result);
    Ok(result)
}

fn plan(todo: &Todo, settings: &Settings) -> Result<Plan, Failure> {
    match todo {
        Todo::Jobs(jobs, given) => {
            let system = settings.machine.system(jobs.app.as_deref(), &jobs.with)?;
            let engine = setup::engine_name(system.config.stack.engine);
            let mut found = given.clone();
            let parsed = jobs.parse(engine, &mut found)?;
            found.all_used()?;
            jobs.plan(system, parsed, settings)
        }
        Todo::Replay(replay) => {
            let system = || settings.machine.system(None, &[]);
            Ok(replay.plan(system, settings)?.0)
        }
    }
}

fn alone(
    mut checked: Checked,
    settings: &Settings,
    save: Option<&std::path::Path>,
    cache: Option<&Cache>,
    signals: &Signals,
) -> Result<Prepared, Failure> {
    if let Some(path) = &settings.load_state {
        signals.say("loading the drive's state".into());
        state::load(&mut checked, path)?;
    }
    if save.is_some() {
        checked.can_be_saved().map_err(wordline::Error::from)?;
    }
    let mut watch = Shown::of(checked.plan(), signals);
    age(&mut checked, cache, &mut watch, signals)?;
    if let Some(path) = save {
        signals.say("saving the drive's state".into());
        state::save(&checked, path)?;
    }
    checked.lay(&mut watch)?;
    Ok(checked.as_it_is())
}

/// From the cache, if there is one and it has the drive.
fn age(
    checked: &mut Checked,
    cache: Option<&Cache>,
    watch: &mut Shown,
    signals: &Signals,
) -> Result<(), Failure> {
    let tell =
        &mut |said: Said| said.doing().into_iter().for_each(|doing| signals.say(doing.into()));
    match cache {
        Some(cache) => Ok(cache.age(checked, watch, tell)?),
        None => Ok(checked.age(watch)?),
    }
}

/// Copies of the drives kept from before, or of those that are kept from now on.
pub fn kept<E>(key: String, make: impl FnOnce() -> Result<Vec<Drive>, E>) -> Result<Vec<Drive>, E> {
    let kept = || KEPT.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(kept) = kept().as_ref().filter(|kept| kept.key == key) {
        return Ok(kept.drives.clone());
    }
    *kept() = None;
    let drives = make()?;
    *kept() = Some(Kept { key, drives: drives.clone() });
    Ok(drives)
}

/// On a copy of the drives that runs share.
fn shared(
    todo: &Todo,
    settings: &Settings,
    key: String,
    cache: Option<&Cache>,
    signals: &Signals,
) -> Result<Prepared, Failure> {
    let mut zetans = ZetanCache::default();
    let drives = kept(key, || {
        signals.say("preparing the drive".into());
        let mut checked = plan(todo, settings)?.check_to_share(&mut zetans)?;
        let mut watch = Shown::of(checked.plan(), signals);
        age(&mut checked, cache, &mut watch, signals)?;
        Ok::<_, Failure>(checked.prepare(&mut watch)?.into_drives())
    })?;
    let checked = plan(todo, settings)?.check_on(drives, &mut zetans)?;
    let mut watch = Shown::of(checked.plan(), signals);
    Ok(checked.pace(&mut watch)?)
}

/// Steps the run. A stop drains what is in flight.
fn to_end(run: &mut Run, signals: &Signals) -> Result<(), Failure> {
    signals.say(String::new());
    signals.running.store(true, Ordering::SeqCst);
    let (mut stopped, mut memory) = (false, MemoryWatch::of(run.plan(), By::Python));
    while run.step(CHUNK) {
        signals.now_ns.store(run.now().0, Ordering::Relaxed);
        signals.served.store(run.served(), Ordering::Relaxed);
        signals.part.store(run.thousandths().map_or(0, |n| n + 1), Ordering::Relaxed);
        if !stopped && signals.stop.load(Ordering::SeqCst) {
            stopped = true;
            run.stop();
        }
        if !stopped && let Some(short) = memory.short() {
            stopped = true;
            run.stop_for(short.to_string());
        }
        signals.abandoned()?;
    }
    Ok(())
}
