//! A drive in the state a run is to find it in.

use crate::args::CommonArgs;
use crate::load::Loaded;
use crate::progress::Activity;
use crate::{Failure, files};
use std::fs::File;
use std::io::BufReader;
use wordline_app::App;
use wordline_base::{SECTOR, Seed};
use wordline_nand::Geometry;
use wordline_sim::{Drive, Precondition, WriteSampler};
use wordline_study::memory;

/// A drive fresh from the factory.
pub fn fresh(loaded: &Loaded, args: &CommonArgs) -> Result<Drive, Failure> {
    if let Ok(geometry) = Geometry::new(&loaded.system.nand) {
        check_memory(geometry.sectors(), args)?;
    }
    Drive::new(&loaded.system, Seed(args.seed), !args.no_integrity).map_err(|p| loaded.misfit(&p))
}

/// Says that memory is short before the system ends the program for it.
fn check_memory(sectors: u64, args: &CommonArgs) -> Result<(), Failure> {
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

/// Brings a fresh drive into the state asked for.
pub fn age(
    drive: &mut Drive,
    loaded: &Loaded,
    args: &CommonArgs,
    mut sampler: Option<WriteSampler>,
    app: Option<&App>,
) -> Result<(), Failure> {
    if let Some(path) = &args.load_state {
        let failed =
            |e: String| Failure::usage(format!("cannot load the state {}: {e}", path.display()));
        let file = File::open(path).map_err(|e| failed(files::explain(&e)))?;
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let _loading = Activity::begin(args, "loading the drive's state");
        drive.load(&loaded.system, &loaded.config.device_name, &mut reader).map_err(failed)?;
    }
    let size = format!("{:.1} GB", drive.bytes() as f64 / 1e9);
    let how = args.state();
    if how != Precondition::None {
        let filling = Activity::begin(args, &format!("filling the drive, {size}"));
        drive.fill().map_err(Failure::usage)?;
        filling.done(&format!("filled the drive, {size}"));
    }
    if let Some(sampler) = &mut sampler
        && !matches!(how, Precondition::None | Precondition::Fill)
    {
        let whose = match (how, sampler.is_own()) {
            (Precondition::Steady, true) => "with the job's writes",
            (Precondition::Random, true) => "at random, then with the job's writes",
            (Precondition::Paced, true) => "at random, then at the job's pace",
            _ => "at random",
        };
        let until = match how {
            Precondition::Paced => "the collector keeps pace",
            _ => "write amplification is steady",
        };
        let what = format!("overwriting it {whose} until {until}");
        let ageing = Activity::begin(args, &what);
        drive.age(how, sampler, Seed(args.seed)).map_err(Failure::usage)?;
        let last = drive.ageing.last().copied().unwrap_or(1.0);
        let windows = drive.ageing.len();
        ageing.done(&format!(
            "overwrote it {whose}: write amplification {last:.2} after {windows} windows"
        ));
    }
    if let Some(path) = &args.save_state {
        let _saving = Activity::begin(args, "saving the drive's state");
        let (device, ftl) = (&loaded.config.device_name, &loaded.config.ftl_name);
        files::write(path, |w| drive.save(device, ftl, w))?;
    }
    if let Some(app) = app {
        let layout = app.layout();
        let bytes: u64 = layout.iter().map(|run| run.sectors).sum::<u64>() * SECTOR;
        let loading = Activity::begin(args, "writing the program's files");
        drive.lay(&layout, how == Precondition::Random).map_err(Failure::usage)?;
        loading.done(&format!("wrote the program's files, {:.1} GB", bytes as f64 / 1e9));
    }
    Ok(())
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
        assert_eq!(shortage(1 << 20, true, &plain, 18 << 20), None);
        let message = shortage(1 << 30, true, &plain, 17 << 30).expect("too little");
        for part in ["takes 18.0 GiB", "17.0 GiB are available", "--scale", "--no-integrity"] {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(shortage(1 << 30, true, &without, 17 << 30), None);
        assert_eq!(shortage(1 << 30, false, &plain, 5 << 30), None);
        assert!(memory::available().is_none_or(|free| free > 1 << 20));
    }
}
