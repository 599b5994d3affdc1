//! `wordline study`: published figures and studies of one's own.

use crate::args::{ScaleArg, StudyCommand, StudyRunArgs};
use crate::progress::StudyProgress;
use crate::{Failure, files, output, remark, signals};
use std::path::Path;
use wordline_study::{
    Event, Options, Plan, Scale, Stopped, Store, Study, Watch, digest_bytes, parse_only, tabulate,
    write_tables,
};

pub fn study(command: StudyCommand) -> Result<(), Failure> {
    match command {
        StudyCommand::List => output::print(&wordline_study::list()),
        StudyCommand::Show { name } => output::print(&read(&name)?.1),
        StudyCommand::Run(args) => run(&args),
        StudyCommand::Worker => {
            wordline_study::work();
            Ok(())
        }
    }
}

/// A study that comes with the program, or a file, with its text.
fn read(name: &str) -> Result<(Study, String), Failure> {
    let is_path = name.ends_with(".toml") || Path::new(name).is_file();
    let (short, file, text) = if is_path {
        let text = files::read_text(name)
            .map_err(|e| Failure::usage(format!("cannot read the study {name}: {e}")))?;
        let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy();
        (stem.into_owned(), name.to_string(), text)
    } else {
        let preset = wordline_study::find(name).map_err(Failure::usage)?;
        (name.to_string(), format!("{name}.toml"), preset.text.to_string())
    };
    let study = Study::parse(&short, &file, &text).map_err(Failure::usage)?;
    Ok((study, text))
}

fn run(args: &StudyRunArgs) -> Result<(), Failure> {
    let (study, _) = read(&args.study)?;
    let scale = match args.scale {
        ScaleArg::Whole => Scale::Whole,
        ScaleArg::Quick => Scale::Quick,
    };
    let only = parse_only(&study, &args.point).map_err(Failure::usage)?;
    let plan = Plan::new(&study, scale, &only, &|path| {
        files::read_text(path).map_err(std::io::Error::other)
    })
    .map_err(Failure::usage)?;
    if args.dry_run {
        return output::print(&dry(&plan));
    }
    let program = std::env::current_exe()
        .map_err(|e| Failure::run(format!("cannot find this program: {e}")))?;
    let bytes = std::fs::read(&program)
        .map_err(|e| Failure::run(format!("cannot read {}: {e}", program.display())))?;
    let options = Options {
        jobs: args.jobs.map_or_else(cores, |n| n as usize),
        program,
        arguments: vec!["study".into(), "worker".into()],
        build: digest_bytes(&bytes),
    };
    drop(bytes);
    let store = Store::open(&args.out, &study.name, &options.build).map_err(Failure::usage)?;
    signals::install();
    signals::run_begins();
    let mut watch =
        Watcher { progress: StudyProgress::begin(&plan, options.jobs, args.quiet), args };
    let ran = wordline_study::run(&plan, &store, &options, &mut watch);
    watch.progress.end();
    let failed = ran.map_err(|stopped| match stopped {
        Stopped::Unusable(message) => Failure::usage(message),
        Stopped::Broken(message) => Failure::run(message),
        Stopped::Asked { done } => Failure::run(format!(
            "interrupted: {done} of {} points are done, the same command goes on from there",
            plan.points.len()
        )),
    })?;
    let table = tabulate(&study, &plan, &store, &failed).map_err(Failure::usage)?;
    for path in write_tables(&table, &store, &args.out).map_err(Failure::run)? {
        if !args.quiet {
            remark(&format!("wrote {}", path.display()));
        }
    }
    output::print(&table.text())?;
    match failed.first() {
        None => Ok(()),
        Some(first) => Err(Failure::run(format!(
            "{} of {} points have no result, the first: {}: {}",
            failed.len(),
            plan.points.len(),
            plan.points[first.point].label(),
            first.why
        ))),
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What would run.
fn dry(plan: &Plan) -> String {
    let mut out = format!("{} scale: {} points\n", plan.scale.name(), plan.points.len());
    for group in &plan.groups {
        let aged = if group.ages { "share a prepared drive" } else { "begin with a fresh drive" };
        let gib = group.memory as f64 / f64::from(1 << 30);
        out += &format!("\n{} points {aged}, {gib:.1} GiB:\n", group.points.len());
        for &i in &group.points {
            let point = &plan.points[i];
            out += &format!("  {}  {}\n", &point.key[..8], point.label());
        }
    }
    out
}

struct Watcher<'a> {
    progress: StudyProgress,
    args: &'a StudyRunArgs,
}

impl Watch for Watcher<'_> {
    fn event(&mut self, event: Event) {
        match &event {
            Event::Note(text) if !self.args.quiet => {
                self.progress.suspend(|| remark(&format!("note: {text}")));
            }
            Event::Found(n) if *n > 0 && !self.args.quiet => {
                remark(&format!("{n} points are there from before"));
            }
            _ => {}
        }
        self.progress.event(&event);
    }
    fn stop_asked(&self) -> bool {
        signals::stop_asked()
    }
}
