//! Values of options that are more than a number or a word.

use crate::apply::Input;
use crate::choice::{Choice, unknown};
use crate::dist::ZoneSlice;
use crate::error::ValueError;
use crate::job::{Distribution, Engine, Fadvise, Fallocate, SteadyCriterion, SyncRange, words};
use crate::options::{choice, integer};
use crate::units::Unit;
use wordline_base::{Span, nearest};

/// fio's limit on the entries of one split list.
const SPLIT_MAX: usize = 64;

/// fio's defaults of the skewed distributions.
const ZIPF_THETA: f64 = 1.1;

const PARETO_H: f64 = 0.2;

pub(super) fn millis(v: &Input) -> Result<Span, ValueError> {
    Ok(Span::from_ms(u64::from(v.first_u32()?)))
}

/// Splits at `:`; `\:` is a colon in a name.
pub(super) fn split_names(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut chars = text.trim().chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&':') => {
                chars.next();
                names.last_mut().expect("never empty").push(':');
            }
            ':' => names.push(String::new()),
            c => names.last_mut().expect("never empty").push(c),
        }
    }
    names.retain(|n| !n.is_empty());
    names
}

/// Engines without a model of their own, with the nearest that has one: synchronous where fio's is.
const NEAREST: &[(&str, Engine)] = &[
    ("io_uring_cmd", Engine::IoUring),
    ("libblkio", Engine::IoUring),
    ("xnvme", Engine::IoUring),
    ("nbd", Engine::Libaio),
    ("rbd", Engine::Libaio),
    ("rados", Engine::Libaio),
    ("nfs", Engine::Libaio),
    ("dfs", Engine::Libaio),
    ("gfapi_async", Engine::Libaio),
    ("ime_aio", Engine::Libaio),
    ("solarisaio", Engine::Libaio),
    ("windowsaio", Engine::Libaio),
    ("cpp_null", Engine::Null),
    ("sg", Engine::Psync),
    ("mmap", Engine::Psync),
    ("splice", Engine::Psync),
    ("http", Engine::Psync),
    ("gfapi", Engine::Psync),
    ("libiscsi", Engine::Psync),
    ("libhdfs", Engine::Psync),
    ("libzbc", Engine::Psync),
    ("libcufile", Engine::Psync),
    ("libpmem", Engine::Psync),
    ("pmemblk", Engine::Psync),
    ("dev-dax", Engine::Psync),
    ("mtd", Engine::Psync),
    ("ime_psync", Engine::Psync),
    ("ime_psyncv", Engine::Psync),
];

/// Engines that do not do I/O to a drive, with what they do.
const NO_DRIVE: &[(&str, &str)] = &[
    ("net", "sends data from one job to another over a network"),
    ("netsplice", "sends data from one job to another over a network"),
    ("rdma", "sends data from one machine to another over a network"),
    ("librpma_apm_client", "writes to the memory of another machine"),
    ("librpma_apm_server", "serves its memory to another machine"),
    ("librpma_gpspm_client", "writes to the memory of another machine"),
    ("librpma_gpspm_server", "serves its memory to another machine"),
    ("exec", "runs a program"),
    ("e4defrag", "moves the extents of a file, which --fs does not do"),
    ("falloc", "reserves and frees blocks of a file, which --fs does not do by itself"),
    ("ftruncate", "changes the length of a file, which --fs does not do by itself"),
];

/// The nearest engine of `word`, if it has no model of its own.
pub fn nearest_engine(word: &str) -> Option<Engine> {
    NEAREST.iter().find(|(name, _)| *name == word).map(|(_, engine)| *engine)
}

pub(super) fn engine(word: &str) -> Result<Engine, ValueError> {
    // A library of one's own is given with its path.
    let word = word.strip_prefix("external:").map_or(word, |path| {
        let name = path.rsplit('/').next().unwrap_or(path);
        name.strip_suffix(".so").unwrap_or(name)
    });
    if let Ok(engine) = Engine::parse(word) {
        return Ok(engine);
    }
    if let Some(engine) = nearest_engine(word) {
        return Ok(engine);
    }
    let engine = word.to_string();
    if let Some(&(_, does)) = NO_DRIVE.iter().find(|(name, _)| *name == word) {
        return Err(ValueError::NoDrive { engine, does });
    }
    let known: Vec<&str> = words::<Engine>().collect();
    let near = nearest(word, words::<Engine>());
    Err(ValueError::NoModel { engine, known, near })
}

/// Applies `parse` to the lists of `read,write,trim`; a missing list repeats the one before it.
pub(super) fn split_directions<T: Clone>(
    text: &str,
    parse: impl Fn(&str) -> Result<Vec<T>, ValueError>,
) -> Result<[Vec<T>; 3], ValueError> {
    let parts: Vec<&str> = text.trim().split(',').collect();
    if parts.len() > 3 {
        return Err(ValueError::TooMany { most: 3, what: "lists: read,write,trim" });
    }
    let mut lists: [Vec<T>; 3] = Default::default();
    for (i, list) in lists.iter_mut().enumerate() {
        *list = parse(parts[i.min(parts.len() - 1)])?;
    }
    Ok(lists)
}

/// Items between colons; an empty one ends the list, as in fio.
pub(super) fn items(list: &str) -> Result<Vec<&str>, ValueError> {
    let items: Vec<&str> = list.split(':').take_while(|i| !i.is_empty()).collect();
    if items.len() > SPLIT_MAX {
        return Err(ValueError::TooMany { most: SPLIT_MAX, what: "entries" });
    }
    Ok(items)
}

/// A share in percent: none, zero and an empty one are to be filled in.
pub(super) fn share(text: Option<&str>) -> Result<Option<u32>, ValueError> {
    match text.map(str::trim) {
        None | Some("") => Ok(None),
        Some(text) => {
            let percent: u32 = text.parse().map_err(|_| ValueError::kind(text, "a percentage"))?;
            Ok(Some(percent.min(100)).filter(|&p| p > 0))
        }
    }
}

/// Divides what is left of 100 between the entries without a share.
pub(super) fn fill_shares(shares: &mut [Option<u32>]) -> Result<(), ValueError> {
    let given: u32 = shares.iter().flatten().sum();
    let missing = shares.iter().filter(|s| s.is_none()).count() as u32;
    if missing == 0 {
        return Ok(());
    }
    if given > 100 {
        return Err(ValueError::Rule("percentages add up to more than 100"));
    }
    // fio leaves a single entry without a share at zero: the fall-through of its draw takes it.
    let rest = if missing == 1 && shares.len() == 1 { 0 } else { (100 - given) / missing };
    shares.iter_mut().filter(|s| s.is_none()).for_each(|s| *s = Some(rest));
    Ok(())
}

/// `parameter[:center]`.
fn skew(text: Option<&str>, default: f64) -> Result<(f64, Option<f64>), ValueError> {
    let Some(text) = text.filter(|t| !t.is_empty()) else { return Ok((default, None)) };
    let (value, center) = match text.split_once(':') {
        Some((value, center)) => (value, Some(center)),
        None => (text, None),
    };
    let float = |t: &str| {
        t.trim().parse::<f64>().ok().filter(|x| x.is_finite()).ok_or_else(|| ValueError::number(t))
    };
    let center = center.map(float).transpose()?;
    if center.is_some_and(|c| !(0.0..=1.0).contains(&c)) {
        return Err(ValueError::Rule("the center of a distribution lies between 0 and 1"));
    }
    Ok((float(value)?, center))
}

pub(super) fn zipf(text: Option<&str>) -> Result<(f64, Option<f64>), ValueError> {
    let (theta, center) = skew(text, ZIPF_THETA)?;
    if theta == 1.0 {
        return Err(ValueError::Rule("zipf theta must differ from 1"));
    }
    Ok((theta, center))
}

pub(super) fn pareto(text: Option<&str>) -> Result<(f64, Option<f64>), ValueError> {
    let (h, center) = skew(text, PARETO_H)?;
    if h <= 0.0 || h >= 1.0 {
        return Err(ValueError::Rule("pareto h lies between 0 and 1, both excluded"));
    }
    Ok((h, center))
}

pub(super) fn normal(text: Option<&str>) -> Result<(f64, Option<f64>), ValueError> {
    let (percent, center) = skew(text, 0.0)?;
    if !(0.0..100.0).contains(&percent) {
        let rule = "the deviation is a percentage from 0 up to 100, excluded";
        return Err(ValueError::Rule(rule));
    }
    Ok((percent, center))
}

pub(super) fn distribution(v: &Input) -> Result<Distribution, ValueError> {
    let text = v.text.trim();
    let (kind, rest) = match text.split_once(':') {
        Some((kind, rest)) => (kind, Some(rest)),
        None => (text, None),
    };
    Ok(match kind {
        "random" => Distribution::Random,
        "zipf" => {
            let (theta, center) = zipf(rest)?;
            Distribution::Zipf { theta, center }
        }
        "pareto" => {
            let (h, center) = pareto(rest)?;
            Distribution::Pareto { h, center }
        }
        "normal" => {
            let (percent, center) = normal(rest)?;
            Distribution::Normal { percent, center }
        }
        "zoned" => Distribution::Zoned(zones(v, rest, false)?),
        _ => Distribution::ZonedAbs(zones(v, rest, true)?),
    })
}

fn zones(v: &Input, text: Option<&str>, absolute: bool) -> Result<[Vec<ZoneSlice>; 3], ValueError> {
    let missing = "zones are missing: write for example zoned:60/10:30/20:10/70";
    let text = text.ok_or(ValueError::Rule(missing))?;
    split_directions(text, |list| {
        let mut accesses = Vec::new();
        let mut sizes = Vec::new();
        let mut bytes = Vec::new();
        for item in items(list)? {
            let (access, size) = match item.split_once('/') {
                Some((access, size)) => (access, Some(size)),
                None => (item, None),
            };
            accesses.push(integer(access, v.kilo(), 0, 100)? as u8);
            if absolute {
                bytes.push(size.map_or(Ok(0), |s| integer(s, v.kilo(), 0, i64::MAX))?);
            } else {
                sizes.push(share(size)?);
            }
        }
        let total: u32 = accesses.iter().map(|&a| u32::from(a)).sum();
        if total != 100 {
            return Err(ValueError::AccessSum(total));
        }
        fill_shares(&mut sizes)?;
        if sizes.iter().flatten().sum::<u32>() > 100 {
            return Err(ValueError::Rule("zone sizes add up to more than 100 percent"));
        }
        Ok(accesses
            .into_iter()
            .enumerate()
            .map(|(i, access_percent)| ZoneSlice {
                access_percent,
                size_percent: sizes.get(i).copied().flatten().unwrap_or(0) as u8,
                bytes: bytes.get(i).copied().unwrap_or(0),
            })
            .collect())
    })
}

pub(super) fn fadvise(text: &str) -> Fadvise {
    match text {
        "none" | "0" => Fadvise::None,
        "random" => Fadvise::Random,
        "sequential" => Fadvise::Sequential,
        _ => Fadvise::Workload,
    }
}

pub(super) fn fallocate(text: &str) -> Fallocate {
    match text {
        "none" | "0" => Fallocate::None,
        "keep" => Fallocate::Keep,
        "truncate" => Fallocate::Truncate,
        _ => Fallocate::Native,
    }
}

/// `wait_before,write:8`: the number after any word counts.
pub(super) fn sync_file_range(text: &str) -> Result<(u32, SyncRange), ValueError> {
    let (mut every, mut range) = (1, SyncRange::default());
    for part in text.split(',') {
        let (word, count) = match part.split_once(':') {
            Some((word, count)) => (word.trim(), Some(count)),
            None => (part.trim(), None),
        };
        const WORDS: [&str; 3] = ["wait_before", "write", "wait_after"];
        match word {
            "wait_before" => range.wait_before = true,
            "write" => range.write = true,
            "wait_after" => range.wait_after = true,
            _ => return Err(unknown(word, WORDS.into_iter())),
        }
        if let Some(count) = count {
            every = integer(count, Unit::Kilo(1024), 0, i64::from(u32::MAX))? as u32;
        }
    }
    Ok((every, range))
}

pub(super) fn replay_skip(text: &str) -> Result<[bool; 4], ValueError> {
    const WORDS: [&str; 4] = ["read", "write", "trim", "sync"];
    let mut skip = [false; 4];
    for part in text.split(',') {
        let word = part.trim();
        match WORDS.iter().position(|w| *w == word) {
            Some(i) => skip[i] = true,
            None => return Err(unknown(word, WORDS.into_iter())),
        }
    }
    Ok(skip)
}

/// `0-3,5`, ascending and without repeats.
pub(super) fn cpus(text: &str) -> Result<Vec<u32>, ValueError> {
    // fio's FIO_MAX_CPUS on Linux.
    const CPUS_MAX: u32 = 4096;
    const RANGE: &str = "a processor or a range of them, such as 0-3";
    let mut cpus = Vec::new();
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let cpu = |t: &str| {
            let cpu = t.trim().parse::<u32>().ok().filter(|&c| c < CPUS_MAX);
            cpu.ok_or_else(|| ValueError::kind(part, RANGE))
        };
        let (first, last) = (cpu(first)?, cpu(last)?);
        if first > last {
            return Err(ValueError::kind(part, RANGE));
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

pub(super) fn steady(text: &str, kb_base: u64) -> Result<(SteadyCriterion, f64, bool), ValueError> {
    let (criterion, limit) = choice::<SteadyCriterion>(text)?;
    let missing = "a limit is missing: write for example iops:10%";
    let limit = limit.ok_or(ValueError::Rule(missing))?;
    let float = |t: &str| {
        t.trim()
            .parse::<f64>()
            .ok()
            .filter(|x| x.is_finite() && *x >= 0.0)
            .ok_or_else(|| ValueError::kind(t, "a limit"))
    };
    if let Some(share) = limit.strip_suffix('%') {
        return Ok((criterion, float(share)?, true));
    }
    let limit = match criterion {
        SteadyCriterion::Iops | SteadyCriterion::IopsSlope => float(limit)?,
        SteadyCriterion::Bw | SteadyCriterion::BwSlope => {
            integer(limit, Unit::Kilo(kb_base), 0, i64::MAX)? as f64
        }
    };
    Ok((criterion, limit, false))
}
