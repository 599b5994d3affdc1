//! `wordline study`: published figures and studies of one's own.

use crate::args::{
    CacheArgs, ClaimsFormat, ScaleArg, StudyClaimsArgs, StudyCommand, StudyReportArgs,
    StudyRunArgs, StudyTablesArgs,
};
use crate::error::{At, NoResult, WordError, WorkError};
use crate::progress::StudyProgress;
use crate::{Failure, files, output, python, remark, signals};
use std::collections::BTreeMap;
use std::path::Path;
use wordline_study::{
    BUILD, Claims, Event, Failed, Options, Plan, Scale, Stopped, Store, Study, Watch, claims,
    document, parse_only, tabulate, write_tables,
};

/// How a study starts a process of its own: it ages a drive and runs points on copies of it, as told on
/// standard input. People have no use for it, so that no help and no completion names it.
pub const WORKER: [&str; 2] = ["study", "worker"];

pub fn study(command: StudyCommand) -> Result<(), Failure> {
    match command {
        StudyCommand::List => output::print(&wordline_study::list()),
        StudyCommand::Show { name } => output::print(&read(&name)?.1),
        StudyCommand::Run(args) => run(&args),
        StudyCommand::Report(args) => report(&args),
        StudyCommand::Claims(args) => decide(&args),
        StudyCommand::Tables(args) => tables(&args),
    }
}

/// A study that comes with the program, or a file, with its text.
fn read(name: &str) -> Result<(Study, String), Failure> {
    let is_path = name.ends_with(".toml") || Path::new(name).is_file();
    let (short, file, text) = if is_path {
        let text = files::read_named("study", name)?;
        let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy();
        (stem.into_owned(), name.to_string(), text)
    } else {
        let preset = wordline_study::find(name).map_err(Failure::usage)?;
        (name.to_string(), format!("{name}.toml"), preset.text.to_string())
    };
    let study = Study::parse(&short, &file, &text).map_err(Failure::usage)?;
    Ok((study, text))
}

/// On a cluster, by the Python package.
fn on_cluster(args: &StudyRunArgs, scheduler: &str) -> Result<(), Failure> {
    let scale = match args.scale {
        ScaleArg::Whole => "whole",
        ScaleArg::Quick => "quick",
    };
    let out = args.out.display().to_string();
    let mut words: Vec<String> =
        ["study", &args.study, "--dask", scheduler, "--out", &out, "--scale", scale]
            .map(String::from)
            .into();
    words.extend(args.point.iter().flat_map(|point| ["--point".into(), point.clone()]));
    words.extend(args.vary.iter().flat_map(|word| ["--vary".into(), word.clone()]));
    words.extend(args.repeat.iter().flat_map(|n| ["--repeat".into(), n.to_string()]));
    words.extend(args.quiet.then(|| "--quiet".into()));
    python::hand_over("wordline study run --dask", &words)
}

fn run(args: &StudyRunArgs) -> Result<(), Failure> {
    if let Some(scheduler) = &args.dask {
        return on_cluster(args, scheduler);
    }
    let (mut study, _) = read(&args.study)?;
    study.vary(&args.vary).map_err(Failure::usage)?;
    study.repeat(args.repeat).map_err(Failure::usage)?;
    let scale = scale(args.scale);
    let only = parse_only(&study, &args.point).map_err(Failure::usage)?;
    let plan = Plan::new(&study, scale, &only, &|path| {
        files::read_text(path).map_err(std::io::Error::other)
    })
    .map_err(Failure::usage)?;
    if args.dry_run {
        return output::print(&dry(&plan));
    }
    let options = options(args.jobs, Some(&args.cache))?;
    let store = Store::open(&args.out, &study.name, &options.build).map_err(Failure::usage)?;
    signals::install();
    signals::run_begins();
    let failed = run_points(&study, &plan, &store, &options, args.quiet)?;
    let table = tabulate(&study, &plan, &store, &failed).map_err(Failure::usage)?;
    for path in write_tables(&table, &store, &args.out).map_err(Failure::run)? {
        if !args.quiet {
            remark(&format!("wrote {}", path.display()));
        }
    }
    output::print(&table.text())?;
    match failed.first() {
        None => Ok(()),
        Some(first) => Err(WorkError::Points {
            missing: failed.len(),
            points: plan.points.len(),
            first: plan.label(first.point),
            why: first.why.clone(),
        }
        .into()),
    }
}

fn scale(arg: ScaleArg) -> Scale {
    match arg {
        ScaleArg::Whole => Scale::Whole,
        ScaleArg::Quick => Scale::Quick,
    }
}

/// This program as its own worker.
fn options(jobs: Option<u32>, cache: Option<&CacheArgs>) -> Result<Options, Failure> {
    let program = std::env::current_exe().map_err(WorkError::NoProgram)?;
    Ok(Options {
        jobs: jobs.map_or_else(cores, |n| n as usize),
        program,
        arguments: WORKER.map(String::from).into(),
        build: BUILD.into(),
        cache: cache.and_then(CacheArgs::cache),
    })
}

/// Runs what has no result yet.
fn run_points(
    study: &Study,
    plan: &Plan,
    store: &Store,
    options: &Options,
    quiet: bool,
) -> Result<Vec<Failed>, Failure> {
    let mut watch = Watcher { progress: StudyProgress::begin(plan, options.jobs, quiet), quiet };
    let ran = wordline_study::run(study, plan, store, options, &mut watch);
    watch.progress.end();
    ran.map_err(|stopped| match stopped {
        Stopped::Asked { done } => {
            WorkError::Interrupted { done, points: plan.points.len() }.into()
        }
        Stopped::Memory { .. } | Stopped::Metric(_) => Failure::usage(stopped),
        _ => Failure::run(stopped),
    })
}

/// `study report`: one page, or a folder of them.
fn report(args: &StudyReportArgs) -> Result<(), Failure> {
    let scale = scale(args.scale);
    let Some(name) = &args.study else { return site(args, scale) };
    let (mut study, toml) = read(name)?;
    study.vary(&args.vary).map_err(Failure::usage)?;
    study.repeat(args.repeat).map_err(Failure::usage)?;
    files::check_outputs(&[("--output", &args.output)])?;
    let page = with_table(args, &study, scale, |table, store| {
        if !table.has_results() {
            return Err(no_result(args, &study, scale)?.into());
        }
        wordline_study::page(table, store, &toml).map_err(Failure::run)
    })?;
    files::write(&args.output, |w| w.write_all(page.as_bytes()))
}

/// Why there is no page, and what to do: results may be of another scale, or of other sources.
fn no_result(args: &StudyReportArgs, study: &Study, scale: Scale) -> Result<NoResult, Failure> {
    let study_name = args.study.clone().unwrap_or_default();
    let out = args.out.display().to_string();
    let named = |scale: Scale| {
        let quick = if scale == Scale::Quick { " --scale quick" } else { "" };
        let varied = args.vary.iter().fold(quick.to_owned(), |all, word| all + " --vary " + word);
        args.repeat.iter().fold(varied, |all, n| format!("{all} --repeat {n}"))
    };
    let other = if scale == Scale::Quick { Scale::Whole } else { Scale::Quick };
    if with_table(args, study, other, |table, _| Ok(table.has_results()))? {
        return Ok(NoResult::OtherScale {
            out,
            output: args.output.display().to_string(),
            study: study_name,
            has: other.name(),
            has_option: named(other),
            asked: scale.name(),
            asked_option: named(scale),
        });
    }
    let (scale, option) = (scale.name(), named(scale));
    Ok(NoResult::None { out, study: study_name, scale, option })
}

/// What `make` makes of the table of a study's results.
fn with_table<T>(
    args: &StudyReportArgs,
    study: &Study,
    scale: Scale,
    make: impl FnOnce(&wordline_study::Table<'_>, &Store) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let only = parse_only(study, &[]).map_err(Failure::usage)?;
    let plan = Plan::new(study, scale, &only, &|path| {
        files::read_text(path).map_err(std::io::Error::other)
    })
    .map_err(Failure::usage)?;
    let store = Store::look(&args.out, &study.name, BUILD);
    let table = tabulate(study, &plan, &store, &[]).map_err(Failure::usage)?;
    make(&table, &store)
}

/// A page for each study, and one that leads to them.
fn site(args: &StudyReportArgs, scale: Scale) -> Result<(), Failure> {
    let folder = &args.output;
    std::fs::create_dir_all(folder)
        .map_err(|why| WordError::Folder { path: folder.clone(), why })?;
    let mut groups: Vec<(String, Vec<wordline_page::study::Entry>)> = Vec::new();
    for preset in wordline_study::presets() {
        let (study, toml) = read(preset.name)?;
        let file = format!("{}.html", preset.name.replace('/', "-"));
        let (page, entry) = with_table(args, &study, scale, |table, store| {
            let page = wordline_study::page(table, store, &toml).map_err(Failure::run)?;
            Ok((page, wordline_study::entry(table, &file)))
        })?;
        files::write(&folder.join(&file), |w| w.write_all(page.as_bytes()))?;
        let group = preset.name.split('/').next().unwrap_or_default();
        match groups.last_mut() {
            Some((name, entries)) if name == group => entries.push(entry),
            _ => groups.push((group.into(), vec![entry])),
        }
    }
    let index = wordline_page::study::index(&groups);
    files::write(&folder.join("index.html"), |w| w.write_all(index.as_bytes()))
}

/// `study claims`: what came of each statement of the list.
fn decide(args: &StudyClaimsArgs) -> Result<(), Failure> {
    let list = Claims::own().map_err(Failure::usage)?;
    let paper = args.paper.as_deref();
    if let Some(id) = paper {
        list.paper(id).map_err(|why| at(format!("--paper {id}"), why))?;
    }
    let scale = scale(args.scale);
    let options = options(args.jobs, Some(&args.cache))?;
    let mut failed = Vec::new();
    if !args.run && !args.out.exists() {
        remark(&format!(
            "note: {} is not there, so that nothing has run: --run makes results, --out says where they are",
            args.out.display()
        ));
    }
    if args.run {
        signals::install();
        signals::run_begins();
        for study in claims::studies_of(list, paper).map_err(Failure::usage)? {
            let plan = claims::plan(&study, scale).map_err(Failure::usage)?;
            let store =
                Store::open(&args.out, &study.name, &options.build).map_err(Failure::usage)?;
            if !args.quiet {
                remark(&format!("{}: {} points", study.name, plan.points.len()));
            }
            for f in run_points(&study, &plan, &store, &options, args.quiet)? {
                failed.push(format!("{}: {}: {}", study.name, plan.label(f.point), f.why));
            }
        }
    }
    let decided =
        claims::decide(list, paper, &args.out, scale, &options.build).map_err(Failure::usage)?;
    let text = match args.format {
        ClaimsFormat::Md => claims::markdown(list, &decided, scale),
        ClaimsFormat::Csv => claims::csv(&decided),
        ClaimsFormat::Json => claims::json(list, &decided, scale),
    };
    match &args.output {
        Some(path) => files::write(path, |w| w.write_all(text.as_bytes()))?,
        None => output::print(&text)?,
    }
    match failed.first() {
        None => Ok(()),
        Some(first) => {
            Err(WorkError::Claims { missing: failed.len(), first: first.clone() }.into())
        }
    }
}

/// What is wrong in a file or an option.
fn at(place: String, why: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::usage(At { place, why })
}

/// `study tables`: documents that quote results.
fn tables(args: &StudyTablesArgs) -> Result<(), Failure> {
    let scale = args.scale.map(scale);
    let mut documents = Vec::new();
    let mut quoted = Vec::new();
    let mut digests = BTreeMap::new();
    for path in &args.documents {
        let place = path.display().to_string();
        let text = files::read_text(&path.to_string_lossy()).map_err(|e| at(place.clone(), e))?;
        for q in document::quoted(&text, scale).map_err(|e| at(place.clone(), e))? {
            let (study, _) = read(&q.study).map_err(|e| at(place.clone(), e))?;
            digests.insert(q.study.clone(), study.digest);
            quoted
                .iter()
                .try_for_each(|other: &document::Quoted| other.goes_with(&q))
                .map_err(|e| at(place.clone(), e))?;
            if !quoted.contains(&q) {
                quoted.push(q);
            }
        }
        documents.push((path, text));
    }
    if args.run {
        signals::install();
        signals::run_begins();
        let options = options(args.jobs, Some(&args.cache))?;
        let mut lost = Vec::new();
        for q in &quoted {
            let (mut study, _) = read(&q.study)?;
            study.repeat(q.repeat).map_err(Failure::usage)?;
            let plan = claims::plan(&study, q.scale).map_err(Failure::usage)?;
            let store =
                Store::open(&args.out, &study.name, &options.build).map_err(Failure::usage)?;
            if !args.quiet {
                remark(&format!("{}: {} points", study.name, plan.points.len()));
            }
            let failed = run_points(&study, &plan, &store, &options, args.quiet)?;
            for f in &failed {
                lost.push(format!("{}: {}: {}", study.name, plan.label(f.point), f.why));
            }
            let table = tabulate(&study, &plan, &store, &failed).map_err(Failure::usage)?;
            write_tables(&table, &store, &args.out).map_err(Failure::run)?;
        }
        if let Some(first) = lost.first() {
            return Err(WorkError::NoDocument { missing: lost.len(), first: first.clone() }.into());
        }
    }
    let mut stale = Vec::new();
    for (path, text) in documents {
        let filled = document::fill(&text, scale, &args.out, &|name| digests[name].clone())
            .map_err(|e| at(path.display().to_string(), e))?;
        if filled == text {
            continue;
        }
        let at = text.lines().zip(filled.lines()).position(|(a, b)| a != b).unwrap_or_default();
        stale.push(format!("{}:{}", path.display(), at + 1));
        if !args.check {
            files::write(path, |w| w.write_all(filled.as_bytes()))?;
        }
    }
    match (args.check, stale.is_empty()) {
        (true, false) => Err(WorkError::Stale(stale).into()),
        (false, false) if !args.quiet => {
            remark(&format!("new tables: {}", stale.join(", ")));
            Ok(())
        }
        _ => Ok(()),
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What would run.
fn dry(plan: &Plan) -> String {
    let mut out = format!("{} scale: {} points", plan.scale.name(), plan.cases().len());
    if let Some(seeds) = plan.seeds() {
        let (n, first, last) = (seeds.len(), seeds[0], seeds[seeds.len() - 1]);
        out += &format!(", each under {n} seeds, {first} to {last}: {} runs", plan.points.len());
    }
    out.push('\n');
    for group in &plan.groups {
        let aged = if group.ages { "share a prepared drive" } else { "begin with a fresh drive" };
        let gib = group.memory as f64 / f64::from(1 << 30);
        out += &format!("\n{} points {aged}, {gib:.1} GiB:\n", group.points.len());
        for &i in &group.points {
            out += &format!("  {}  {}\n", &plan.points[i].key[..8], plan.label(i));
        }
    }
    out
}

struct Watcher {
    progress: StudyProgress,
    quiet: bool,
}

impl Watch for Watcher {
    fn event(&mut self, event: Event) {
        match &event {
            Event::Note(text) if !self.quiet => {
                self.progress.suspend(|| remark(&format!("note: {text}")));
            }
            Event::Found(n) if *n > 0 && !self.quiet => {
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
