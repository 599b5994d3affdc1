//! The systems that FlashShare's study compares (Zhang et al., OSDI 2018), each the one before it and
//! something more, as overrides. Whether its KernelOpt includes CacheOpt the slides do not say: here it does,
//! and `cache.partition=none` takes it out.

use crate::tree::{Node, Value};
use wordline_base::nearest;

/// The key that names one.
pub(crate) const SYSTEM: &str = "system";

/// A system and what it is, in a line.
pub const SYSTEMS: [(&str, &str); 5] = [
    ("vanilla", "one queue a core, software queues, one cache for all"),
    ("cacheopt", "and a cache in two parts, with read-ahead by class"),
    (
        "kernelopt",
        "and latency-critical requests past the software queues, in urgent queues of their own",
    ),
    ("selectisr", "and their completions polled, the others' by interrupt"),
    ("xler", "and an accelerator that takes merging and polling from the cores"),
];

/// Why a drive and a host make no such system.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum SystemError {
    #[error("there is no system '{name}'{}", .near.map_or_else(
        || format!(": it is one of {}", SYSTEMS.map(|(name, _)| name).join(", ")),
        |near| format!(", did you mean '{near}'?")
    ))]
    Unknown { name: String, near: Option<&'static str> },
    #[error(
        "{0} divides the drive's cache, and this drive has none: take a drive with a cache, as --device \
         z-ssd-flashshare, or leave that out with --set cache.partition=none"
    )]
    NoCache(&'static str),
    #[error(
        "{system} divides the ways of the drive's cache, and there is {ways}: --set cache.ways=8"
    )]
    Ways { system: &'static str, ways: i64 },
}

/// The overrides that make a system of a drive and a host. `undivided`: of a drive that has no cache to divide, as
/// was said.
pub(crate) fn overrides(
    name: &str,
    tree: &Node,
    undivided: bool,
) -> Result<Vec<String>, SystemError> {
    let Some(level) = SYSTEMS.iter().position(|(known, _)| *known == name) else {
        let near = nearest(name, SYSTEMS.map(|(name, _)| name));
        return Err(SystemError::Unknown { name: name.into(), near });
    };
    let system = SYSTEMS[level].0;
    let number = |path: &str| match tree.deepest(path).value {
        Value::Integer(n) => Some(n),
        _ => None,
    };
    let device = tree.get("device");
    let cache = device.and_then(|d| d.get("cache")).filter(|c| c.as_table().is_some());
    let reads_ahead =
        cache.and_then(|c| c.get("read_ahead")).is_some_and(|r| r.as_table().is_some());
    let text = |path: &str| match &tree.deepest(path).value {
        Value::Text(text) => text.clone(),
        _ => String::new(),
    };
    let is_off = |path: &str| matches!(tree.deepest(path).value, Value::Switch(false));
    // What has no requests of the kernel's to queue, or queues them by itself.
    let queues = !is_off("stack.kernel")
        && text("stack.engine") != "spdk"
        && tree.get("stack").and_then(|stack| stack.get("nbd")).is_none()
        && text("ftl.placement") != "host"
        && matches!(&*text("stack.scheduler"), "none" | "");
    let issue = if queues { "queued" } else { "direct" };
    let mut set: Vec<String> = [
        &*format!("stack.flashshare.issue={issue}"),
        "stack.flashshare.bypass=false",
        "stack.flashshare.queues=false",
        "stack.flashshare.select_isr=false",
        "stack.flashshare.accelerator=false",
        "queues.arbitration=round-robin",
        "queues.guard=none",
    ]
    .map(String::from)
    .to_vec();
    if cache.is_some() {
        set.push("cache.partition=none".into());
    }
    if reads_ahead {
        set.push("cache.read_ahead.ghosts=none".into());
    }
    if level >= 1 && !(undivided && cache.is_none()) {
        if cache.is_none() {
            return Err(SystemError::NoCache(system));
        }
        let ways = number("device.cache.ways").unwrap_or(0);
        if ways < 2 {
            return Err(SystemError::Ways { system, ways });
        }
        set.push(format!("cache.partition.latency_ways={}", ways / 2));
        if reads_ahead {
            set.push("cache.read_ahead.ghosts.sample=16".into());
        }
    }
    if level >= 2 {
        set.extend(
            [
                "stack.flashshare.bypass=true",
                "stack.flashshare.queues=true",
                "queues.arbitration=weighted-urgent",
                "queues.guard.counts=passed",
            ]
            .map(String::from),
        );
    }
    if level >= 3 {
        set.push("stack.flashshare.select_isr=true".into());
    }
    if level >= 4 {
        set.push("stack.flashshare.accelerator=true".into());
    }
    Ok(set)
}
