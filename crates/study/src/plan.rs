//! From a study to its points: every combination of the axes' values, fully resolved, and the
//! groups of points that can share an aged drive.

use crate::error::{OnlyError, PointError, Unknown, VariableError};
use crate::listed::{Listed, is_file};
use crate::memory::Written;
use crate::spec::{Base, Change, Scalar, Study, Values};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use wordline::{Common, Level};
use wordline_cache::digest;
use wordline_fio::{Env, ParseOptions};
use wordline_nand::Geometry;
use wordline_profile::{Config, ConfigError, ReadFile, Source, Sources};
use wordline_sim::{Precondition, setup};

/// Drives of a point at most.
const MOST_DRIVES: u32 = 64;

/// How much of a study to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// As the study is written.
    #[default]
    Whole,
    /// With the study's `[quick]` part, in seconds.
    Quick,
}

impl Scale {
    /// As the command line names it.
    pub fn name(self) -> &'static str {
        match self {
            Scale::Whole => "whole",
            Scale::Quick => "quick",
        }
    }

    /// The name of a study's tables, without ending.
    pub(crate) fn stem(self, study: &str) -> String {
        match self {
            Scale::Whole => study.to_owned(),
            Scale::Quick => format!("{study}.quick"),
        }
    }
}

/// One point: all that decides its result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Axis and value, in the order of the axes.
    pub values: Vec<(String, String)>,
    /// Variables, axes among them: for formulas.
    pub vars: BTreeMap<String, String>,
    /// The machine, in TOML: its floats come back as they went. Of several drives the first, with its host.
    pub config: String,
    /// Drives like that one, as an array.
    #[serde(default)]
    pub array: Option<Array>,
    /// The whole machine, if a topology says what it is.
    #[serde(default)]
    pub listed: Option<Listed>,
    /// The state that the drive is brought into.
    pub precondition: Precondition,
    /// Seed of the run.
    pub seed: u64,
    /// Versions of sectors are kept and checked.
    pub integrity: bool,
    /// Jobs that do not say so draw other places under each seed (`randrepeat=0`).
    #[serde(default)]
    pub redraws: bool,
    /// `key=value` beside the configuration, for messages.
    pub overrides: Vec<String>,
    /// The job file's text.
    pub job: String,
    /// The study's file, for errors.
    pub file: String,
    /// The line above the job's first, for errors.
    pub line: u32,
    /// Digest of all that decides the result; the result's file is named by it.
    pub key: String,
}

/// So many drives as an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Array {
    pub level: Level,
    pub drives: u32,
}

impl Point {
    /// Its value on this axis.
    pub fn value(&self, axis: &str) -> Option<&str> {
        self.values.iter().find(|(name, _)| name == axis).map(|(_, value)| value.as_str())
    }
    /// `system=rail, write_kiops=8`
    pub fn label(&self) -> String {
        let all: Vec<_> = self.values.iter().map(|(name, v)| format!("{name}={v}")).collect();
        all.join(", ")
    }
    /// The machine as a configuration.
    pub fn config(&self) -> Result<Config, PointError> {
        Ok(Config::from_text(&self.config)?)
    }
}

/// Points that begin with the same drive.
#[derive(Clone, Debug)]
pub struct Group {
    /// Indices of points.
    pub points: Vec<usize>,
    /// Bytes of memory that the drive takes.
    pub memory: u64,
    /// The part of `memory` that one point changes.
    pub of_point: u64,
    /// A copy for a point stays for the next.
    pub copies_stay: bool,
    /// Whether the drive takes long to prepare.
    pub ages: bool,
}

/// What is to be run of a study.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Whole or quick.
    pub scale: Scale,
    /// All that is run, in the order of the axes; under several seeds all points of the first one, then of the next.
    pub points: Vec<Point>,
    /// All points are in one of them.
    pub groups: Vec<Group>,
    /// Not all points of this scale.
    pub partial: bool,
    /// So many seeds are each point's, if they are several.
    pub repeat: Option<u32>,
}

/// `--point NAME=VALUE`: only points with one of the values given for an axis.
pub type Only = BTreeMap<String, Vec<String>>;

impl Plan {
    /// The study's points, under the first of their seeds.
    pub fn cases(&self) -> &[Point] {
        &self.points[..self.points.len() / self.repeat.unwrap_or(1) as usize]
    }

    /// Which of them a point is.
    pub fn case_of(&self, point: usize) -> usize {
        point % self.cases().len()
    }

    /// The seeds, where they are several.
    pub fn seeds(&self) -> Option<Vec<u64>> {
        let each = self.points.chunks(self.cases().len().max(1)).map(|of| of[0].seed);
        self.repeat.map(|_| each.collect())
    }

    /// A point's values, and its seed where there are several.
    pub fn label(&self, point: usize) -> String {
        let Point { seed, .. } = self.points[point];
        let label = self.points[point].label();
        if self.repeat.is_some() { format!("{label}, seed={seed}") } else { label }
    }

    /// `read` reads profiles that the study names by file.
    pub fn new(
        study: &Study,
        scale: Scale,
        only: &Only,
        read: ReadFile,
    ) -> Result<Plan, ConfigError> {
        let mut combinations: Vec<Vec<(usize, usize)>> = vec![Vec::new()];
        let mut partial = false;
        for (i, axis) in study.spec.axis.iter().enumerate() {
            let all: Vec<&Scalar> = axis.all().collect();
            let wanted = |k: &usize| match (scale, &axis.quick) {
                (Scale::Quick, Some(quick)) => quick.contains(all[*k]),
                _ => true,
            };
            let mut chosen: Vec<usize> = (0..all.len()).filter(wanted).collect();
            if let Some(values) = only.get(&axis.name) {
                let named = |k: &usize| values.contains(&all[*k].0);
                partial = true;
                chosen = (0..all.len()).filter(named).collect();
            }
            combinations = combinations
                .into_iter()
                .flat_map(|c| chosen.iter().map(move |&k| [&c[..], &[(i, k)]].concat()))
                .collect();
        }
        let mut builder = Builder { study, scale, read, ageing: BTreeMap::new(), groups: vec![] };
        let cases: Vec<Case> =
            combinations.iter().map(|c| builder.case(c)).collect::<Result<_, _>>()?;
        let mut points = Vec::new();
        for k in 0..study.repeat.unwrap_or(1) {
            for case in &cases {
                let point = builder.point(case, k.into(), points.len())?;
                points.push(point);
            }
        }
        study.check_used()?;
        let repeat = study.repeat;
        Ok(Plan { scale, points, groups: builder.groups, partial, repeat })
    }
}

/// Takes `NAME=VALUE` words apart and checks them against the study.
pub fn parse_only(study: &Study, words: &[String]) -> Result<Only, OnlyError> {
    let mut only = Only::new();
    for word in words {
        let (name, value) =
            word.split_once('=').ok_or_else(|| OnlyError::NoValue { word: word.clone() })?;
        let unknown = |unknown| OnlyError::Unknown { word: word.clone(), unknown };
        let names = study.spec.axis.iter().map(|a| a.name.as_str());
        let axis = study.axis(name).ok_or_else(|| unknown(Unknown::new("axis", name, names)))?;
        for value in value.split(',') {
            if !axis.all().any(|v| v.0 == value) {
                let what = format!("value of axis {name}");
                let known = axis.all().map(|v| v.0.as_str());
                return Err(unknown(Unknown::new(&what, value, known)));
            }
            only.entry(name.into()).or_default().push(value.into());
        }
    }
    Ok(only)
}

struct Builder<'a> {
    study: &'a Study,
    scale: Scale,
    read: ReadFile<'a>,
    /// Group by what ageing depends on.
    ageing: BTreeMap<String, usize>,
    groups: Vec<Group>,
}

/// A point of the study, under any seed.
struct Case {
    /// Under the first, and without a key.
    point: Point,
    config: Config,
    /// Where errors have their place.
    place: String,
}

impl Builder<'_> {
    fn case(&self, at: &[(usize, usize)]) -> Result<Case, ConfigError> {
        let spec = &self.study.spec;
        let study = self.study;
        let fail = |path: &str, why: &dyn Display| failure(study, path, why);
        let mut base = spec.base.clone();
        let mut sets: Vec<(String, String)> = Vec::new();
        let mut vars: Values = spec.vars.clone();
        take_sets(&mut sets, "base", &base.set);
        if let (Scale::Quick, Some(quick)) = (self.scale, &spec.quick) {
            lay(&mut base, &mut vars, &mut sets, "quick", quick);
        }
        let mut values = Vec::new();
        // The place of an error that only a combination of values has: its innermost.
        let mut place = String::from("base");
        let mut lists = None;
        for &(i, k) in at {
            let axis = &spec.axis[i];
            let value = axis.all().nth(k).expect("an index of this axis").clone();
            if let Some(change) = axis.value.get(k) {
                place = format!("axis.{i}.value.{k}");
                if let Some(now) = change.lists_drives() {
                    match lists.replace((now, &axis.name)) {
                        Some((before, other)) if before != now => {
                            let error = PointError::TwoMachines { axis: other.clone() };
                            return Err(fail(&place, &error));
                        }
                        _ => {}
                    }
                }
                lay(&mut base, &mut vars, &mut sets, &place, change);
            }
            values.push((axis.name.clone(), value.0.clone()));
            vars.insert(axis.name.clone(), value);
        }
        let vars = resolve_vars(vars).map_err(|e| fail("vars", &e))?;
        let mut overrides = Vec::new();
        for (path, text) in &sets {
            overrides.push(substitute(text, &vars).map_err(|e| fail(path, &e))?);
        }
        let job = substitute(&base.job, &vars).map_err(|e| fail("base.job", &e))?;
        let listed = self.listed(&base, &vars, &overrides, topology_at(study, at));
        let listed = listed.map_err(|e| {
            let (text, of_study) = (e.to_string(), format!("{}:", study.document.name()));
            // What is wrong within its text has a place there.
            match text.starts_with(&of_study) {
                true => ConfigError::plain(text),
                false => fail(&place, &e),
            }
        })?;
        let (listed, config) = match listed {
            Some((listed, config)) => (Some(listed), config),
            None => {
                let config = self.config(&base, &vars, &overrides);
                (None, config.map_err(|e| fail(&place, &e))?)
            }
        };
        let array = array(&base, &vars).map_err(|e| fail(&place, &e))?;
        let label: Vec<_> = values.iter().map(|(name, v)| format!("{name}={v}")).collect();
        let label = label.join(", ");
        // A text of several lines begins below its quotes.
        let above = self.study.document.line("base.job") - u32::from(!job.contains('\n'));
        let mut point = Point {
            values,
            vars: vars.into_iter().map(|(name, value)| (name, value.0)).collect(),
            config: config.to_text(),
            array,
            listed,
            precondition: base.precondition,
            seed: base.seed,
            integrity: base.integrity,
            redraws: false,
            overrides,
            job,
            file: self.study.document.name().into(),
            line: above,
            key: String::new(),
        };
        let jobs = |point: &Point| {
            let parsed = parse_job(point, &config);
            parsed.map_err(|e| ConfigError::plain(format!("{e}\n(at {label})")))
        };
        let as_written = jobs(&point)?;
        if study.repeat.is_some() {
            // A result of jobs that all say it themselves is that of the seed without --repeat.
            point.redraws = true;
            point.redraws = jobs(&point)?.jobs != as_written.jobs;
        }
        Ok(Case { point, config, place })
    }

    /// Under the `k`th of its seeds.
    fn point(&mut self, case: &Case, k: u64, index: usize) -> Result<Point, ConfigError> {
        let mut point = case.point.clone();
        point.seed = point.seed.wrapping_add(k);
        let Point { precondition, seed, integrity, redraws, job, config: machine, .. } = &point;
        let version = env!("CARGO_PKG_VERSION");
        let draws = if *redraws { " randrepeat=0" } else { "" };
        let of_array =
            point.array.map_or(String::new(), |a| format!(" {} {}", a.level.name(), a.drives));
        let of_list = point.listed.as_ref().map_or(String::new(), Listed::about);
        point.key = digest(&format!(
            "{version}\n{machine}\n{} {seed} {integrity}{draws}{of_array}{of_list}\n{job}",
            precondition.name()
        ));
        let joined = self.join_group(&point, &case.config, index);
        joined.map_err(|e| failure(self.study, &case.place, &e))?;
        Ok(point)
    }

    /// The topology and the configuration of its first drive, if the point has one. `at`: where it is written.
    fn listed(
        &self,
        base: &Base,
        vars: &Values,
        set: &[String],
        at: String,
    ) -> Result<Option<(Listed, Config)>, PointError> {
        let Some(topology) = &base.topology else { return Ok(None) };
        for (key, given) in [("array", base.array.is_some()), ("drives", base.drives.is_some())] {
            if given {
                return Err(PointError::OfDevice { key });
            }
        }
        let text = |text: &String| substitute(text, vars);
        let topology = text(topology)?;
        let (file, above, topology) = if topology.contains('\n') {
            (self.study.document.name().into(), self.study.document.line(&at), topology)
        } else {
            let text = (self.read)(&topology)
                .map_err(|why| PointError::Topology { name: topology.clone(), why })?;
            (topology, 0, text)
        };
        let named = |name: &Option<String>| name.as_ref().map(text).transpose();
        let common = Common {
            stack: text(&base.stack)?,
            testbed: named(&base.testbed)?,
            ftl: named(&base.ftl)?,
            fs: named(&base.fs)?.filter(|name| name != "none"),
            app: named(&base.app)?,
            with: base.with.iter().map(text).collect::<Result<_, _>>()?,
            scale: None,
            chosen: Vec::new(),
            set: set.to_vec(),
        };
        let files = BTreeMap::new();
        let mut listed = Listed { file, above, text: topology, common, files };
        let config = listed.read(self.read)?.config;
        Ok(Some((listed, config)))
    }

    fn config(&self, base: &Base, vars: &Values, set: &[String]) -> Result<Config, PointError> {
        let named = |name: &str| -> Result<(String, Option<String>), PointError> {
            let name = substitute(name, vars)?;
            if !is_file(&name) {
                return Ok((name, None));
            }
            match (self.read)(&name) {
                Ok(text) => Ok((name, Some(text))),
                Err(why) => Err(PointError::Profile { name, why }),
            }
        };
        let optional = |name: &Option<String>| name.as_deref().map(named).transpose();
        let device = named(base.device.as_deref().unwrap_or_default())?;
        let (ftl, stack) = (optional(&base.ftl)?, named(&base.stack)?);
        let (testbed, app) = (optional(&base.testbed)?, optional(&base.app)?);
        let fs = optional(&base.fs)?;
        let words = base.with.iter().map(|text| substitute(text, vars));
        let words = words.collect::<Result<Vec<String>, VariableError>>()?;
        let split = wordline::with_options(&words);
        let programs = split.iter().map(|(name, _)| named(name));
        let programs = programs.collect::<Result<Vec<_>, PointError>>()?;
        let with: Vec<_> = programs
            .iter()
            .zip(&split)
            .map(|(named, (_, options))| (source(named), *options))
            .collect();
        let sources = Sources {
            device: source(&device),
            ftl: ftl.as_ref().map(source),
            stack: source(&stack),
            testbed: testbed.as_ref().map(source),
            app: app.as_ref().map(source),
            with: &with,
            fs: fs.as_ref().map(source),
            files: Some(self.read),
        };
        Ok(wordline_profile::assemble(sources, set)?)
    }

    fn join_group(
        &mut self,
        point: &Point,
        config: &Config,
        index: usize,
    ) -> Result<(), PointError> {
        let Point { precondition, integrity, .. } = point;
        if config.programs().count() > 0 && *precondition == Precondition::Paced {
            return Err(PointError::PacedProgram);
        }
        let plan = crate::machine::plan(point)?;
        let ageing = plan.ageing_key();
        let next = self.groups.len();
        let group = *self.ageing.entry(ageing).or_insert(next);
        if group == next {
            for node in &plan.system.machine().drives {
                Geometry::new(&node.config.nand).map_err(|bad| bad.below("nand"))?;
            }
            let tree = plan.system.machine().drives.iter().any(|d| d.config.ftl.fssd.is_some());
            let written = match precondition {
                Precondition::None => Written::Nothing,
                Precondition::Fill if tree => Written::InOrder,
                _ => Written::InAnyOrder,
            };
            let memory = crate::memory::of_plan(&plan, written, *integrity).unwrap_or(0);
            // What a run writes is little; a pace of its own changes a part of every page.
            let paced = crate::machine::ages_on(point);
            self.groups.push(Group {
                points: Vec::new(),
                memory,
                of_point: if paced { memory } else { memory / 4 },
                copies_stay: paced,
                ages: written != Written::Nothing,
            });
        }
        self.groups[group].points.push(index);
        Ok(())
    }
}

/// At its line of the study, or at the word of the command line that brought it in.
fn failure(study: &Study, path: &str, why: &dyn Display) -> ConfigError {
    let axis = path.strip_prefix("axis.").and_then(|rest| rest.split('.').next());
    let axis = axis.and_then(|i| study.spec.axis.get(i.parse::<usize>().ok()?));
    match axis.and_then(|axis| axis.varied.as_ref()) {
        Some(word) => ConfigError::plain(format!("--vary {word}: {why}")),
        None => study.document.error(path, why.to_string()),
    }
}

fn source((name, text): &(String, Option<String>)) -> Source<'_> {
    match text {
        Some(text) => Source::File { name, text },
        None => Source::Preset(name),
    }
}

fn take_sets(sets: &mut Vec<(String, String)>, at: &str, set: &[String]) {
    sets.extend(set.iter().enumerate().map(|(k, text)| (format!("{at}.set.{k}"), text.clone())));
}

fn lay(
    base: &mut Base,
    vars: &mut Values,
    sets: &mut Vec<(String, String)>,
    at: &str,
    change: &Change,
) {
    let lay = |to: &mut String, from: &Option<String>| {
        if let Some(name) = from {
            to.clone_from(name);
        }
    };
    // One takes the other's place, and what goes with it.
    if change.device.is_some() {
        (base.device, base.topology) = (change.device.clone(), None);
    }
    if change.topology.is_some() {
        (base.device, base.topology) = (None, change.topology.clone());
        (base.array, base.drives) = (None, None);
    }
    base.array = change.array.clone().or(base.array.take());
    base.drives = change.drives.clone().or(base.drives.take());
    lay(&mut base.stack, &change.stack);
    base.ftl = change.ftl.clone().or(base.ftl.take());
    base.testbed = change.testbed.clone().or(base.testbed.take());
    base.app = change.app.clone().or(base.app.take());
    if let Some(with) = &change.with {
        base.with.clone_from(with);
    }
    base.fs = change.fs.clone().or(base.fs.take());
    base.precondition = change.precondition.unwrap_or(base.precondition);
    base.seed = change.seed.unwrap_or(base.seed);
    take_sets(sets, at, &change.set);
    vars.extend(change.vars.clone());
}

/// Where the topology of a point is written.
fn topology_at(study: &Study, at: &[(usize, usize)]) -> String {
    let of_axis = at.iter().rev().find(|&&(i, k)| {
        let change = study.spec.axis[i].value.get(k);
        change.is_some_and(|change| change.topology.is_some())
    });
    match (of_axis, &study.spec.quick) {
        (Some((i, k)), _) => format!("axis.{i}.value.{k}.topology"),
        (None, Some(quick)) if quick.topology.is_some() => "quick.topology".into(),
        (None, _) => "base.topology".into(),
    }
}

/// The array that a point's drives are.
fn array(base: &Base, vars: &Values) -> Result<Option<Array>, PointError> {
    let text = |text: &str| substitute(text, vars);
    let level = base.array.as_deref().map(text).transpose()?.filter(|name| name != "none");
    let drives = base.drives.as_ref().map(|drives| text(&drives.0)).transpose()?;
    let level = match level.as_deref() {
        None if drives.as_ref().is_none_or(|drives| drives == "1") => return Ok(None),
        None => return Err(PointError::DrivesAlone),
        Some(name) => {
            let level = [Level::Raid0, Level::Raid5].into_iter().find(|l| l.name() == name);
            level.ok_or_else(|| PointError::Level { name: name.into() })?
        }
    };
    let Some(text) = drives else { return Err(PointError::NoDrives) };
    let least = 1 + 2 * level.parities();
    match text.parse() {
        Ok(drives @ 1..=MOST_DRIVES) if drives >= least => Ok(Some(Array { level, drives })),
        _ => Err(PointError::Drives { text, level: level.name(), least, most: MOST_DRIVES }),
    }
}

/// Replaces `${name}`.
fn substitute(text: &str, vars: &Values) -> Result<String, VariableError> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').ok_or(VariableError::Open)?;
        let known = || vars.keys().map(String::as_str);
        let unknown = || VariableError::Unknown(Unknown::new("variable", name, known()));
        let value = vars.get(name).ok_or_else(unknown)?;
        out += before;
        out += &value.0;
        rest = after;
    }
    Ok(out + rest)
}

/// Variables may be made of axes and of each other, as long as that comes to an end.
fn resolve_vars(mut vars: Values) -> Result<Values, VariableError> {
    for _ in 0..8 {
        if vars.values().all(|v| !v.0.contains("${")) {
            return Ok(vars);
        }
        let before = vars.clone();
        for value in vars.values_mut() {
            *value = Scalar(substitute(&value.0, &before)?);
        }
    }
    Err(VariableError::Loop)
}

/// The job of a study, under the name of the study's file.
struct Inline<'a> {
    file: &'a str,
    text: &'a str,
}

impl Env for Inline<'_> {
    fn read_file(&mut self, path: &str) -> io::Result<String> {
        if path == self.file {
            Ok(self.text.into())
        } else {
            Err(io::Error::other("a study's job stands in the study: write what the file has here"))
        }
    }
    fn var(&self, _: &str) -> Option<String> {
        None
    }
}

/// The jobs of a point, on the stack's engine unless they name one.
pub fn parse_job(point: &Point, config: &Config) -> Result<wordline_fio::Plan, PointError> {
    if point.job.trim().is_empty() {
        return Ok(wordline_fio::Plan::none());
    }
    // Empty lines above, so that the parser counts the study's own lines.
    let text = "\n".repeat(point.line as usize) + &point.job;
    let engine = setup::engine_name(config.stack.engine);
    let mut words = vec![format!("--ioengine={engine}")];
    words.extend(point.redraws.then(|| "--randrepeat=0".into()));
    words.extend(["--".into(), point.file.clone()]);
    let mut inline = Inline { file: &point.file, text: &text };
    let mut plan = wordline_fio::parse_args(&words, &ParseOptions::default(), &mut inline)
        .map_err(|e| match e.place.line {
            0 => PointError::Job(format!("{}: the job: {}", point.file, e.fault)),
            _ => PointError::Job(e.to_string()),
        })?;
    plan.globals.remove(0);
    if let Some(job) = plan.jobs.iter().find(|job| job.read_iolog.is_some()) {
        return Err(PointError::Log { file: point.file.clone(), line: job.place.line });
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
[study]
title = "t"
shows = "s"
[base]
device = "cnex-small"
ftl = "pblk"
precondition = "steady"
set = ["ftl.over_provisioning=${op}"]
job = '''
[w]
rw=randwrite
rate_iops=${rate}
random_distribution=zipf:${theta}
[r]
rw=randread
iodepth=${depth}
bs=${depth}k
'''
[vars]
op = "${twice_ten}"
twice_ten = 20
theta = 0.9
[quick]
vars = { theta = 1.1 }
[[axis]]
name = "system"
[[axis.value]]
name = "a"
[[axis.value]]
name = "b"
vars = { theta = 1.2 }
[[axis.value]]
name = "c"
set = ["stack.queue_depth=64"]
[[axis]]
name = "rate"
values = [100, 200]
quick = [200]
[[axis]]
name = "depth"
values = [4, 8]
[[metric]]
name = "m"
path = "jobs.0.read.iops"
"#;

    fn no_file(_: &str) -> io::Result<String> {
        Err(io::Error::other("no files here"))
    }

    fn plan(text: &str, scale: Scale, only: &[&str]) -> Plan {
        let study = Study::parse("t", "t.toml", text).unwrap();
        let only: Vec<String> = only.iter().map(|s| s.to_string()).collect();
        let only = parse_only(&study, &only).unwrap();
        Plan::new(&study, scale, &only, &no_file).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn axes_multiply_and_share_what_ageing_depends_on() {
        let whole = plan(TEXT, Scale::Whole, &[]);
        assert_eq!(whole.points.len(), 12);
        assert_eq!(whole.points[5].label(), "system=b, rate=100, depth=8");
        assert!(whole.points[5].job.contains("rate_iops=100\nrandom_distribution=zipf:1.2"));
        assert_eq!(whole.points[0].overrides, ["ftl.over_provisioning=20"]);
        // Pace, readers and the host's stack have no part in ageing; places have.
        let groups: Vec<_> = whole.groups.iter().map(|g| g.points.clone()).collect();
        assert_eq!(groups, [vec![0, 1, 2, 3, 8, 9, 10, 11], vec![4, 5, 6, 7]]);
        let quick = plan(TEXT, Scale::Quick, &[]);
        assert_eq!(quick.points.len(), 6);
        assert!(
            quick.points[0].job.contains("zipf:1.1") && quick.points[2].job.contains("zipf:1.2")
        );
        let some = plan(TEXT, Scale::Whole, &["system=a,c", "rate=100"]);
        assert_eq!((some.points.len(), some.partial, some.groups.len()), (4, true, 1));
        // The same point has the same key in each.
        assert_eq!(some.points[0].key, whole.points[0].key);
        let mut keys: Vec<_> = whole.points.iter().map(|p| &p.key).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 12);
    }

    /// The stack and the testbed of this name, and a drive as delivered.
    #[test]
    fn none_is_a_value_like_others() {
        let text = TEXT
            .replace("ftl = \"pblk\"", "testbed = \"i7-8700\"")
            .replace("device = \"cnex-small\"", "device = \"z-ssd-small\"")
            .replace("[[axis.value]]\nname = \"b\"", "[[axis.value]]\nname = \"none\"\nstack = \"none\"\ntestbed = \"none\"\nprecondition = \"none\"");
        let plan = plan(&text, Scale::Whole, &["rate=100", "depth=4"]);
        let found: Vec<_> = plan
            .points
            .iter()
            .map(|p| (p.config().unwrap().stack.kernel, p.precondition.name()))
            .collect();
        assert_eq!(found, [(true, "steady"), (false, "none"), (true, "steady")]);
    }

    #[test]
    fn programs_beside_others_are_of_the_point() {
        let with = "app = \"kv-read\"\nwith = [\"sort:threads=${depth},depth=3\"]";
        let text = TEXT
            .replace("ftl = \"pblk\"", &format!("ftl = \"pblk\"\n{with}"))
            .replace("name = \"c\"\n", "name = \"c\"\nwith = []\n");
        let plan = plan(&text, Scale::Whole, &["rate=100", "depth=8"]);
        let threads = |p: &Point| {
            let config = p.config().unwrap();
            config.with.first().map(|beside| beside.app.sort.as_ref().unwrap().threads)
        };
        let all: Vec<_> = plan.points.iter().map(threads).collect();
        assert_eq!(all, [Some(8), Some(8), None]);
        // Its files are a part of what the run finds.
        let groups: Vec<_> = plan.groups.iter().map(|g| g.points.clone()).collect();
        assert_eq!(groups, [vec![0], vec![1], vec![2]]);
        let wrong = text.replace("depth=3", "depht=3");
        let study = Study::parse("t", "t.toml", &wrong).unwrap();
        let error = Plan::new(&study, Scale::Whole, &Only::new(), &no_file).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("t.toml:") && error.contains("did you mean 'depth'"), "{error}");
    }

    /// Drives that begin alike are prepared once, be they one, behind a bridge or an array's.
    #[test]
    fn arrays_and_bridges_are_of_the_point() {
        let text = TEXT
            .replace("ftl = \"pblk\"", "array = \"${level}\"\ndrives = \"${count}\"")
            .replace("ftl.over_provisioning=${op}", "stack.md.gc=${gc}")
            .replace("precondition = \"steady\"", "precondition = \"fill\"")
            .replace("name = \"a\"\n", "name = \"a\"\nvars = { gc = \"token\" }\n")
            .replace("name = \"c\"\n", "name = \"c\"\narray = \"none\"\ndrives = 1\n")
            .replace("op = ", "level = \"raid5\"\ncount = 3\ngc = \"uncoordinated\"\nop = ");
        let all = plan(&text, Scale::Whole, &["rate=100", "depth=4"]);
        let arrays: Vec<_> = all.points.iter().map(|p| p.array.map(|a| a.drives)).collect();
        assert_eq!(arrays, [Some(3), Some(3), None]);
        let groups: Vec<_> = all.groups.iter().map(|g| g.points.clone()).collect();
        assert_eq!(groups, [vec![0, 1], vec![2]]);
        assert_eq!(all.groups[0].memory, 3 * all.groups[1].memory);
        let bridge = text.replace("cnex-small", "bssd-small");
        let behind = plan(&bridge, Scale::Whole, &["system=a,c", "rate=100", "depth=4"]);
        assert_eq!(behind.groups[0].memory, 3 * behind.groups[1].memory);
        let text_of = |from: &str, to: &str| {
            let study = Study::parse("t", "t.toml", &text.replace(from, to)).unwrap();
            Plan::new(&study, Scale::Whole, &Only::new(), &no_file).unwrap_err().to_string()
        };
        for (from, to, why) in [
            ("\"raid5\"", "\"raid6\"", "no level 'raid6': use raid0, raid5"),
            ("count = 3", "count = 0", "drives: '0': raid5 takes a number from 3 to 64"),
            ("drives = 1\n", "drives = 2\n", "'drives' needs 'array'"),
            ("drives = \"${count}\"\n", "", "an array needs 'drives'"),
            ("count = 3", "count = 2", "raid5 takes a number from 3"),
        ] {
            let error = text_of(from, to);
            assert!(error.contains(why) && error.contains("t.toml:"), "{error}");
        }
    }

    #[test]
    fn variables_that_never_end_are_an_error() {
        let text = TEXT.replace("twice_ten = 20", "twice_ten = \"${op}\"");
        let study = Study::parse("t", "t.toml", &text).unwrap();
        let error = Plan::new(&study, Scale::Whole, &Only::new(), &no_file).unwrap_err();
        assert!(error.to_string().contains("made of itself"), "{error}");
    }
}
