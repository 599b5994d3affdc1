//! The four systems that FlashShare's study compares (Zhang et al., OSDI 2018), each the one before it and
//! something more, as overrides. Whether its KernelOpt includes CacheOpt the slides do not say: here it does,
//! and `cache.partition=none` takes it out.

use crate::suggest::nearest;
use crate::tree::{Node, Value};

/// The key that names one.
pub(crate) const SYSTEM: &str = "system";

/// A system and what it is, in a line.
pub const SYSTEMS: [(&str, &str); 4] = [
    ("vanilla", "one queue a core, software queues, one cache for all"),
    ("cacheopt", "and a cache in two parts, with read-ahead by class"),
    (
        "kernelopt",
        "and latency-critical requests past the software queues, in urgent queues of their own",
    ),
    ("selectisr", "and their completions polled, the others' by interrupt"),
];

/// The overrides that make a system of a drive and a host.
pub(crate) fn overrides(name: &str, tree: &Node) -> Result<Vec<String>, String> {
    let level = SYSTEMS.iter().position(|(known, _)| *known == name);
    let Some(level) = level else {
        let names = SYSTEMS.map(|(name, _)| name);
        let hint = nearest(name, names).map(|n| format!(", did you mean '{n}'?"));
        let hint = hint.unwrap_or_else(|| format!(": it is one of {}", names.join(", ")));
        return Err(format!("there is no system '{name}'{hint}"));
    };
    let number = |path: &str| match tree.deepest(path).value {
        Value::Integer(n) => Some(n),
        _ => None,
    };
    let device = tree.get("device");
    let cache = device.and_then(|d| d.get("cache")).filter(|c| c.as_table().is_some());
    let reads_ahead =
        cache.and_then(|c| c.get("read_ahead")).is_some_and(|r| r.as_table().is_some());
    let mut set: Vec<String> = [
        "stack.flashshare.issue=queued",
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
    if level >= 1 {
        if cache.is_none() {
            return Err(format!(
                "{name} divides the drive's cache, and this drive has none: a drive with a cache, or \
                 --system vanilla with --set of the parts that are wanted"
            ));
        }
        let ways = number("device.cache.ways").unwrap_or(0);
        if ways < 2 {
            return Err(format!(
                "{name} divides the ways of the drive's cache, and there is {ways}: --set cache.ways=8"
            ));
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
                "queues.guard.commands=8",
            ]
            .map(String::from),
        );
    }
    if level >= 3 {
        set.push("stack.flashshare.select_isr=true".into());
    }
    Ok(set)
}
