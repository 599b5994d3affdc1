//! Job files and command lines, down to sections of `name=value`.
//!
//! A job file has `[sections]`; `[global]` (any name that starts so) changes the defaults of the
//! sections below it, and several of them add up. `;` and `#` start a comment anywhere in a line.
//! `include FILE` continues the section from another file, named as given or beside the including
//! one. `${NAME}` is an environment variable, `$pagesize`, `$mb_memory` and `$ncpus` are numbers,
//! and a value with one of those may be arithmetic.
//!
//! On a command line options before the first `--name` are global, each `--name` starts a job, and
//! a bare word is a job file. A name may be shortened as far as it stays unique.

use crate::env::Env;
use crate::error::{ParseError, ParseFault, Place};
use crate::options::{OPTIONS, OptionDef, find, unknown_option};
use crate::units;
use std::io;

/// Files include each other at most so deep.
const INCLUDE_DEPTH_MAX: u32 = 16;
/// fio's OPT_LEN_MAX: the longest line.
const LINE_MAX: usize = 4096;
const KEYWORDS: [&str; 3] = ["$pagesize", "$mb_memory", "$ncpus"];
pub const COMMAND_LINE: &str = "command line";

/// One option as written, after substitution.
#[derive(Clone, Debug)]
pub struct RawOption {
    pub name: String,
    pub value: Option<String>,
    pub place: Place,
    /// An environment variable that it names and that is not set: it reads as nothing, as in fio.
    pub unset: Option<String>,
}

/// One section.
#[derive(Clone, Debug)]
pub struct Section {
    pub name: String,
    pub place: Place,
    pub global: bool,
    /// First job of a second job file: it waits for the first file's.
    pub stonewall: bool,
    /// Options are sorted by fio's priority in files, not on command lines.
    pub sorted: bool,
    pub options: Vec<RawOption>,
}

pub fn fail<T>(place: &Place, fault: ParseFault) -> Result<T, ParseError> {
    Err(ParseError { place: place.clone(), fault })
}

fn is_global(name: &str) -> bool {
    name.starts_with("global")
}

/// The sections of a job file, those of `only` alone if it names any.
pub fn file_sections(
    file: &str,
    text: &str,
    only: &[String],
    stonewall: bool,
    env: &mut dyn Env,
) -> Result<Vec<Section>, ParseError> {
    let mut sections: Vec<Section> = Vec::new();
    let mut skipping = false;
    let mut stonewall = stonewall;
    for (i, raw) in text.lines().enumerate() {
        let place = Place::new(file, i as u32 + 1);
        let line = strip(raw, &place)?;
        if line.is_empty() {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let Some(name) = rest.strip_suffix(']') else {
                return fail(&place, ParseFault::SectionEnd(line.into()));
            };
            let global = is_global(name);
            skipping = !global && !only.is_empty() && !only.iter().any(|s| s == name);
            if !skipping {
                sections.push(Section {
                    name: name.to_string(),
                    place,
                    global,
                    stonewall: !global && std::mem::take(&mut stonewall),
                    sorted: true,
                    options: Vec::new(),
                });
            }
            continue;
        }
        if skipping {
            continue;
        }
        let Some(section) = sections.last_mut() else {
            return fail(&place, ParseFault::BeforeSection(line.into()));
        };
        option_line(line, place, 0, env, &mut section.options)?;
    }
    Ok(sections)
}

/// Takes blanks and comments away.
fn strip<'a>(raw: &'a str, place: &Place) -> Result<&'a str, ParseError> {
    if raw.len() > LINE_MAX {
        return fail(place, ParseFault::LineTooLong { most: LINE_MAX, filled: false });
    }
    let end = raw.find([';', '#']).unwrap_or(raw.len());
    Ok(raw[..end].trim_matches(|c: char| c.is_whitespace() || c.is_control()))
}

fn option_line(
    line: &str,
    place: Place,
    depth: u32,
    env: &mut dyn Env,
    out: &mut Vec<RawOption>,
) -> Result<(), ParseError> {
    if let Some(path) = line.strip_prefix("include").filter(|p| p.starts_with([' ', '\t'])) {
        return include(path.trim(), &place, depth + 1, env, out);
    }
    let (line, unset) = substitute(line, &place, env)?;
    let (name, value) = match line.split_once('=') {
        Some((name, value)) => (name.trim(), Some(value.trim().to_string())),
        None => (line.trim(), None),
    };
    out.push(RawOption { name: name.to_string(), value, place, unset });
    Ok(())
}

fn include(
    path: &str,
    place: &Place,
    depth: u32,
    env: &mut dyn Env,
    out: &mut Vec<RawOption>,
) -> Result<(), ParseError> {
    if depth > INCLUDE_DEPTH_MAX {
        let path = path.to_string();
        return fail(place, ParseFault::Nested { path, most: INCLUDE_DEPTH_MAX });
    }
    let beside = place.file.rsplit_once('/').map(|(dir, _)| format!("{dir}/{path}"));
    let unread = |why: io::Error| {
        let (path, why) = (path.to_string(), why.to_string());
        fail(place, ParseFault::Unreadable { path, why, include: true })
    };
    let (used, text) = match (env.read_file(path), beside) {
        (Ok(text), _) => (path.to_string(), text),
        (Err(first), Some(other)) => match env.read_file(&other) {
            Ok(text) => (other, text),
            Err(_) => return unread(first),
        },
        (Err(first), None) => return unread(first),
    };
    for (i, raw) in text.lines().enumerate() {
        let place = Place::new(&used, i as u32 + 1);
        let line = strip(raw, &place)?;
        if line.starts_with('[') {
            return fail(&place, ParseFault::SectionIncluded);
        }
        if !line.is_empty() {
            option_line(line, place, depth, env, out)?;
        }
    }
    Ok(())
}

/// Replaces `${NAME}` and the keywords. Second, a variable that is not set.
fn substitute(
    line: &str,
    place: &Place,
    env: &dyn Env,
) -> Result<(String, Option<String>), ParseError> {
    let mut text = String::with_capacity(line.len());
    let mut unset = None;
    let mut rest = line;
    while let Some(at) = rest.find("${") {
        let Some(end) = rest[at..].find('}') else { break };
        text.push_str(&rest[..at]);
        let name = &rest[at + 2..at + end];
        match env.var(name) {
            Some(value) => text.push_str(&value),
            None => unset = Some(name.to_string()),
        }
        rest = &rest[at + end + 1..];
    }
    text.push_str(rest);
    if text.len() > LINE_MAX {
        return fail(place, ParseFault::LineTooLong { most: LINE_MAX, filled: true });
    }
    let mut replaced = false;
    for keyword in KEYWORDS {
        if text.contains(keyword) {
            let Some(value) = env.keyword(&keyword[1..]) else {
                return fail(place, ParseFault::Keyword(&keyword[1..]));
            };
            text = text.replace(keyword, &value.to_string());
            replaced = true;
        }
    }
    if replaced
        && let Some((name, value)) = text.split_once('=')
        && value.contains(['+', '-', '*', '/'])
        && !value.contains('\'')
    {
        match units::arithmetic(value) {
            Ok(result) => return Ok((format!("{name}={result}"), unset)),
            Err(error) => return fail(place, ParseFault::Arithmetic(Box::new(error))),
        }
    }
    Ok((text, unset))
}

/// A command line: its sections, and the job files it names.
pub struct CommandLine {
    pub sections: Vec<Section>,
    pub files: Vec<String>,
    /// From `--section`.
    pub only: Vec<String>,
}

pub fn command_line(args: &[String]) -> Result<CommandLine, ParseError> {
    let place = Place::new(COMMAND_LINE, 0);
    let mut out = CommandLine { sections: Vec::new(), files: Vec::new(), only: Vec::new() };
    let mut args = args.iter();
    let mut only_files = false;
    while let Some(arg) = args.next() {
        let body = match arg.strip_prefix("--").or_else(|| arg.strip_prefix('-')) {
            Some("") if arg == "--" => {
                only_files = true;
                continue;
            }
            Some(body) if !only_files && !body.is_empty() => body,
            _ => {
                out.files.push(arg.clone());
                continue;
            }
        };
        let (name, mut value) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value.to_string())),
            None => (body, None),
        };
        let needs_value =
            if name == "section" { true } else { !lookup(name, &place)?.takes_no_argument() };
        if value.is_none() && needs_value {
            value = args.next().cloned();
        }
        if name == "section" {
            match value.filter(|v| !v.is_empty()) {
                Some(section) => out.only.push(section),
                None => {
                    let (option, of) = ("--section", "section");
                    return fail(&place, ParseFault::NoName { option, of });
                }
            }
            continue;
        }
        let name = lookup(name, &place)?.name.to_string();
        if name == "name" {
            let Some(job) = value.clone().filter(|v| !v.is_empty()) else {
                return fail(&place, ParseFault::NoName { option: "--name", of: "job" });
            };
            let global = is_global(&job);
            out.sections.push(section(&job, &place, global));
            if global {
                continue;
            }
        } else if out.sections.is_empty() {
            out.sections.push(section("global", &place, true));
        }
        let section = out.sections.last_mut().expect("a section was pushed");
        section.options.push(RawOption { name, value, place: place.clone(), unset: None });
    }
    let only = &out.only;
    out.sections.retain(|s| s.global || only.is_empty() || only.contains(&s.name));
    Ok(out)
}

fn section(name: &str, place: &Place, global: bool) -> Section {
    Section {
        name: name.to_string(),
        place: place.clone(),
        global,
        stonewall: false,
        sorted: false,
        options: Vec::new(),
    }
}

/// An option by its name, its alias or a unique beginning of one.
fn lookup(name: &str, place: &Place) -> Result<&'static OptionDef, ParseError> {
    if let Some(option) = find(name) {
        return Ok(option);
    }
    let mut starts = OPTIONS.iter().filter(|o| {
        !name.is_empty()
            && (o.name.starts_with(name) || (!o.alias.is_empty() && o.alias.starts_with(name)))
    });
    match (starts.next(), starts.next()) {
        (Some(option), None) => Ok(option),
        (Some(a), Some(b)) => {
            let (name, first, second) = (name.to_string(), a.name, b.name);
            fail(place, ParseFault::Ambiguous { name, first, second })
        }
        _ => fail(place, unknown_option(name)),
    }
}
