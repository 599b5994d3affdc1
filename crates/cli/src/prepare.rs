//! A drive in the state a run is to find it in.

use crate::args::CommonArgs;
use crate::progress::Activity;
use crate::{Failure, remark};
use wordline::{Checked, Drive, Ended, Plan, Prepared, Step, Watch};
use wordline_cache::Said;
use wordline_frontend::{By, MemoryWatch, Settings, check_memory, state};

/// Builds what `plan` needs, if there is memory for it, and shows what is wrong with the plan.
pub fn check(plan: Plan, args: &CommonArgs, settings: &Settings) -> Result<Checked, Failure> {
    check_memory(&plan, settings)?;
    let activity = (plan.system.config.programs().count() > 0)
        .then(|| Activity::begin(args, "bringing the program to where it is after a load"));
    let checked = plan.check()?;
    drop(activity);
    Ok(checked)
}

/// Brings a drive into the state asked for, and keeps that state if it is to be kept.
pub fn prepare(mut checked: Checked, args: &CommonArgs) -> Result<Prepared, Failure> {
    if let Some(path) = &args.load_state {
        let _loading = Activity::begin(args, "loading the drive's state");
        state::load(&mut checked, path)?;
    }
    if args.save_state.is_some() {
        checked.can_be_saved().map_err(wordline::Error::from)?;
    }
    let memory = MemoryWatch::of(checked.plan(), By::Command);
    let mut watch = Shown { args, drive: String::new(), activity: None, memory };
    match args.cache.cache() {
        Some(cache) => {
            let mut going = None;
            let tell = &mut |said: Said| {
                going = said.doing().map(|doing| Activity::begin(args, doing));
                if let Some(line) = said.line().filter(|_| !args.quiet) {
                    remark(&format!("note: {line}"));
                }
            };
            cache.age(&mut checked, &mut watch, tell)?;
        }
        None => checked.age(&mut watch)?,
    }
    if let Some(path) = &args.save_state {
        let _saving = Activity::begin(args, "saving the drive's state");
        state::save(&checked, path)?;
    }
    checked.lay(&mut watch)?;
    Ok(checked.as_it_is())
}

/// Shows each step as it goes.
struct Shown<'a> {
    args: &'a CommonArgs,
    /// The drive of several that it is about.
    drive: String,
    activity: Option<Activity>,
    memory: MemoryWatch,
}

impl Watch for Shown<'_> {
    fn drive(&mut self, name: &str) {
        self.drive = format!("{name}: ");
    }
    fn begin(&mut self, step: Step) {
        self.activity =
            Some(Activity::begin(self.args, &format!("{}{}", self.drive, state::doing(step))));
    }

    fn look(&mut self) -> Result<(), Ended> {
        self.memory.look()
    }

    fn done(&mut self, step: Step, drive: &Drive) {
        if let Some(activity) = self.activity.take() {
            activity.done(&format!("{}{}", self.drive, state::did(step, drive)));
        }
    }
}
