//! `wordline replay`.

use crate::args::ReplayArgs;
use crate::{Failure, finish, prepare, repeat, signals};

pub fn replay(args: ReplayArgs) -> Result<(), Failure> {
    args.common.tell_overridden();
    if let Some(times) = args.repeat {
        return repeat::replay(&args, times);
    }
    let common = &args.common;
    let settings = common.settings();
    signals::install();
    let system = || settings.machine.system(None, &[]);
    let (plan, reading) = args.replay()?.plan(system, &settings)?;
    let checked = prepare::check(plan, common, &settings)?;
    finish::check_writable(common, &checked)?;
    let prepared = prepare::prepare(checked, common)?;
    let consumed = reading.lock().map(|c| c.clone()).ok();
    finish::run(prepared, common, &settings, consumed)
}
