//! A drive in the state a run is to find it in.

use crate::args::CommonArgs;
use crate::progress::Activity;
use crate::{Failure, files};
use std::fs::File;
use std::io::BufReader;
use wordline::{Checked, Drive, Plan, Precondition, Prepared, Step, System, Watch};
use wordline_nand::Geometry;
use wordline_study::memory;

/// Builds what `plan` needs, if there is memory for it, and shows what is wrong with the plan.
pub fn check(plan: Plan, args: &CommonArgs) -> Result<Checked, Failure> {
    check_memory(&plan.system, args)?;
    let activity = (plan.system.config.programs().count() > 0)
        .then(|| Activity::begin(args, "bringing the program to where it is after a load"));
    let checked = plan.check()?;
    drop(activity);
    Ok(checked)
}

/// Says that memory is short before the system ends the program for it.
fn check_memory(system: &System, args: &CommonArgs) -> Result<(), Failure> {
    // A shape that cannot be is refused when the drive is built.
    let mut sectors = 0;
    for drive in &system.machine().drives {
        let Ok(geometry) = Geometry::new(&drive.config.nand) else { return Ok(()) };
        sectors += geometry.sectors();
    }
    // A drive written once, in order, is kept as runs.
    let runs = matches!(args.state(), Precondition::None | Precondition::Fill);
    let written = !runs || args.load_state.is_some();
    let short = memory::available().and_then(|free| shortage(sectors, written, args, free));
    short.map_or(Ok(()), |message| Err(Failure::usage(message)))
}

fn shortage(sectors: u64, written: bool, args: &CommonArgs, free: u64) -> Option<String> {
    let needed = memory::needed(sectors, written, !args.no_integrity);
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let or = if written && !args.no_integrity {
        ", or --no-integrity to keep no versions of sectors"
    } else {
        ""
    };
    (needed > free).then(|| {
        format!(
            "this drive's state takes {:.1} GiB of memory and {:.1} GiB are available: use a part of \
             it (--scale 1/16), or a profile named -small{or}",
            gib(needed),
            gib(free)
        )
    })
}

/// Brings a drive into the state asked for, and keeps that state if it is to be kept.
pub fn prepare(mut checked: Checked, args: &CommonArgs) -> Result<Prepared, Failure> {
    if let Some(path) = &args.load_state {
        let failed =
            |e: String| Failure::usage(format!("cannot load the state {}: {e}", path.display()));
        let file = File::open(path).map_err(|e| failed(files::explain(&e)))?;
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let _loading = Activity::begin(args, "loading the drive's state");
        checked.load(&mut reader).map_err(|e| failed(e.to_string()))?;
    }
    if args.save_state.is_some() {
        checked.can_be_saved().map_err(wordline::Error::from)?;
    }
    let mut watch = Shown { args, drive: String::new(), activity: None };
    checked.age(&mut watch)?;
    if let Some(path) = &args.save_state {
        let _saving = Activity::begin(args, "saving the drive's state");
        files::write(path, |w| checked.save(w))?;
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
}

impl Watch for Shown<'_> {
    fn drive(&mut self, name: &str) {
        self.drive = format!("{name}: ");
    }
    fn begin(&mut self, step: Step) {
        let what = match step {
            Step::Fill { bytes } => format!("filling the drive, {}", gigabytes(bytes)),
            Step::Age { how, own } => {
                let until = match how {
                    Precondition::Paced => "the collector keeps pace",
                    _ => "write amplification is steady",
                };
                format!("overwriting it {} until {until}", whose(how, own))
            }
            Step::Lay { .. } => "writing the program's files".into(),
        };
        self.activity = Some(Activity::begin(self.args, &format!("{}{what}", self.drive)));
    }

    fn done(&mut self, step: Step, drive: &Drive) {
        let what = match step {
            Step::Fill { bytes } => format!("filled the drive, {}", gigabytes(bytes)),
            Step::Age { how, own } => {
                let last = drive.ageing.last().copied().unwrap_or(1.0);
                let (whose, windows) = (whose(how, own), drive.ageing.len());
                format!(
                    "overwrote it {whose}: write amplification {last:.2} after {windows} windows"
                )
            }
            Step::Lay { bytes } => format!("wrote the program's files, {}", gigabytes(bytes)),
        };
        if let Some(activity) = self.activity.take() {
            activity.done(&format!("{}{what}", self.drive));
        }
    }
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

fn whose(how: Precondition, own: bool) -> &'static str {
    match (how, own) {
        (Precondition::Steady, true) => "with the job's writes",
        (Precondition::Random, true) => "at random, then with the job's writes",
        (Precondition::Paced, true) => "at random, then at the job's pace",
        _ => "at random",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Command;

    #[test]
    fn short_memory_is_said_with_a_remedy() {
        let args = |words: &[&str]| {
            let words = ["wordline", "run"].iter().chain(words).map(|w| w.to_string()).collect();
            match crate::words::parse(words).expect("arguments").command {
                Command::Run(run) => run.common,
                _ => panic!("not a run"),
            }
        };
        let (plain, without) = (args(&[]), args(&["--no-integrity"]));
        assert_eq!(shortage(1 << 20, true, &plain, 19 << 20), None);
        let message = shortage(1 << 30, true, &plain, 17 << 30).expect("too little");
        for part in ["takes 19.0 GiB", "17.0 GiB are available", "--scale", "--no-integrity"] {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(shortage(1 << 30, true, &without, 17 << 30), None);
        assert_eq!(shortage(1 << 30, false, &plain, 5 << 30), None);
        assert!(memory::available().is_none_or(|free| free > 1 << 20));
    }
}
