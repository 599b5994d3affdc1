//! Overrides of single settings: `path=value`, and options that are one.

use crate::de::fields_of;
use crate::error::{Place, Problems};
use crate::preset::{Kind, find};
use crate::tree::{Entry, Node, Value, parse_override, shorten};
use wordline_app::SECTIONS;
use wordline_base::nearest;
use wordline_device::DeviceConfig;
use wordline_host::StackConfig;
use wordline_nand::SlcMode;

/// The option that stands for `ftl.fssd.host_memory`, as [`host_memory`] writes it.
const HOST_MEMORY: &str = "--host-memory ";

/// The override that the option `--host-memory` is, which errors name as that.
pub fn host_memory(size: &str) -> String {
    format!("{HOST_MEMORY}{size}")
}

/// Suffixes of bytes, each with the power of two that it stands for.
const SUFFIXES: [(u32, &str); 3] = [(30, "G"), (20, "M"), (10, "K")];

/// Keys of bytes whose names do not end with `_bytes` or `_size`.
const BYTES: [&str; 18] = [
    "bytes",
    "memory",
    "host_memory",
    "max_transfer",
    "max_request",
    "read_ahead",
    "size",
    "offset",
    "cil_limit",
    "block_cache",
    "page_cache",
    "bytes_per_inode",
    "bytes_per_sync",
    "wal_bytes_per_sync",
    "max_bytes_for_level_base",
    "target_file_size_base",
    "soft_pending_compaction_bytes_limit",
    "hard_pending_compaction_bytes_limit",
];

/// Bytes written with a suffix, which `iB` may follow, as a number of bytes: of keys that are bytes.
fn long(key: &str, value: &str) -> Option<String> {
    if !BYTES.contains(&key) && !key.ends_with("_bytes") && !key.ends_with("_size") {
        return None;
    }
    let value = value.trim();
    let value = value.strip_suffix("iB").unwrap_or(value);
    let (count, suffix) = value.split_at_checked(value.len().checked_sub(1)?)?;
    let (shift, _) = SUFFIXES.into_iter().find(|(_, unit)| unit.eq_ignore_ascii_case(suffix))?;
    Some(count.parse::<u64>().ok()?.checked_mul(1 << shift)?.to_string())
}

/// Bytes with the suffix that says the same.
fn short(size: &str) -> String {
    let bytes = size.parse::<u64>().ok().filter(|&bytes| bytes > 0);
    let fits = bytes.and_then(|bytes| {
        let (shift, unit) =
            SUFFIXES.into_iter().find(|(shift, _)| bytes.is_multiple_of(1 << shift))?;
        Some(format!("{}{unit}", bytes >> shift))
    });
    fits.unwrap_or_else(|| size.into())
}

/// The path and value of an override, and what its user wrote.
pub(super) fn as_given(text: &str) -> (String, String) {
    match text.strip_prefix(HOST_MEMORY) {
        Some(size) => {
            (format!("ftl.fssd.host_memory={size}"), HOST_MEMORY.to_string() + &short(size))
        }
        None => (text.into(), format!("--set {}", shorten(text))),
    }
}

/// Why a setting has nothing that it could be a setting of, and which option brings that. A section that all of the
/// overrides make together is whole.
pub(super) fn lacks(path: &str, tree: &Node, overrides: &[&String]) -> Option<String> {
    let (section, rest) = path.strip_prefix("stack.").unwrap_or(path).split_once('.')?;
    let has = |of: &str, section| tree.get(of)?.get(section)?.as_table();
    match section {
        "fs" if has("stack", "fs").is_none() => {
            // Keys below the name of a file system are that one's.
            let named = rest.split_once('.').map_or("ext4", |(name, _)| name);
            let name = find(Kind::Fs, named).map_or("ext4", |preset| preset.name);
            Some(format!("no file system is on the drive: take --fs {name} with it"))
        }
        "nbd" if has("stack", "nbd").is_none() => Some(
            "the drive is no network block device: take --stack nbd-kernel or nbd-spdk with it"
                .into(),
        ),
        // A bridge has flash in the drives behind it alone.
        "nand" if rest.starts_with("slc.") && has("nand", "slc").is_none() => {
            tree.get("nand")?;
            let given: Vec<&str> = overrides
                .iter()
                .filter_map(|text| text.split_once('=')?.0.trim().strip_prefix("nand.slc."))
                .collect();
            let missing: Vec<&str> = fields_of::<SlcMode>()
                .iter()
                .copied()
                .filter(|key| *key != "errors" && !given.contains(key))
                .collect();
            (!missing.is_empty()).then(|| {
                format!(
                    "the flash has no blocks with a bit a cell: take --device p41-plus-1tb with it, or set {} of \
                     nand.slc as well",
                    missing.join(", ")
                )
            })
        }
        _ => None,
    }
}

/// Applies one `path=value`.
pub(super) fn apply(text: &str, tree: &mut Node, problems: &mut Problems) {
    let (text, given) = as_given(text);
    let source = problems.source(given);
    apply_from(source, &text, tree, problems);
}

pub(super) fn apply_from(source: u32, text: &str, tree: &mut Node, problems: &mut Problems) {
    let at = Place { source, line: 0, column: 0 };
    let mut fail = |message: String| problems.add(at, message);
    let Some((path, value)) = text.split_once('=') else {
        return fail("no '=': write path=value, for example nand.t_read=3us".into());
    };
    let mut keys: Vec<&str> = path.split('.').map(str::trim).collect();
    let plain = |key: &&str| {
        !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    };
    if !keys.iter().all(plain) {
        return fail("the path must be keys joined by dots, for example nand.t_read".into());
    }
    let sections = fields_of::<DeviceConfig>();
    match keys[0] {
        "nand" | "ftl" | "device" | "stack" => {}
        "testbed" => keys[0] = "stack",
        "app" if tree.get("app").is_some() => {
            let has = |program: &str| tree.get("app").is_some_and(|app| app.get(program).is_some());
            if SECTIONS.contains(keys.get(1).unwrap_or(&""))
                && !has(keys[1])
                && let Some(own) = SECTIONS.iter().find(|program| has(program))
            {
                return fail(format!(
                    "the program has no [app.{}]: its own keys are in [app.{own}]",
                    keys[1]
                ));
            }
        }
        "app" => return fail("no program runs here: name one with --app".into()),
        "fs" | "flashshare" => keys.insert(0, "stack"),
        section if sections.contains(&section) => keys.insert(0, "device"),
        other => {
            let mut leaves = Vec::new();
            tree.leaves("", &mut leaves);
            let short = |path: &str| path.strip_prefix("device.").unwrap_or(path).to_string();
            // Several sections may have it: all of them are named, the flash first.
            let mut same_key: Vec<&String> =
                leaves.iter().filter(|path| path.rsplit('.').next() == Some(other)).collect();
            same_key.sort_by_key(|path| (path.matches('.').count(), !path.starts_with("nand.")));
            let same_key: Vec<String> =
                same_key.iter().map(|path| format!("'{}'", short(path))).collect();
            let known = sections.iter().copied().chain([
                "nand",
                "ftl",
                "stack",
                "device",
                "fs",
                "flashshare",
            ]);
            let of_stack = keys.len() > 1 && fields_of::<StackConfig>().contains(&other);
            let hint = match (keys.len(), same_key.as_slice(), nearest(other, known)) {
                _ if of_stack => format!(", did you mean 'stack.{other}'?"),
                (1, [_, ..], _) => format!(", did you mean {}?", same_key.join(" or ")),
                (_, _, Some(name)) => format!(", did you mean '{name}'?"),
                _ => ": paths begin with nand, ftl, stack, fs or a section of the device".into(),
            };
            return fail(format!("unknown section '{}'{hint}", shorten(other)));
        }
    }
    if keys.len() < 2 {
        return fail(format!("'{}' is a section: add a key, {0}.KEY=VALUE", keys[0]));
    }
    lay(&keys, value, at, tree, problems);
}

/// Puts a value at a path.
pub(super) fn lay(keys: &[&str], value: &str, at: Place, tree: &mut Node, problems: &mut Problems) {
    let (last, parents) = keys.split_last().expect("two keys or more");
    let number = long(last, value);
    let value = number.as_deref().unwrap_or(value);
    let Some(new) = parse_override(value, at, problems) else { return };
    let mut node = tree;
    for (depth, key) in parents.iter().enumerate() {
        // `none` stands for an absent table; a key in it brings it back.
        if matches!(&node.value, Value::Text(s) if s == "none") {
            *node = Node::table(at);
        }
        let Value::Table(table) = &mut node.value else {
            let path = keys[..depth].join(".");
            return problems.add(at, format!("'{path}' is a value, not a section"));
        };
        node = &mut table
            .entry(key.to_string())
            .or_insert_with(|| Entry { key_at: at, node: Node::table(at) })
            .node;
    }
    if matches!(&node.value, Value::Text(s) if s == "none") {
        *node = Node::table(at);
    }
    let Value::Table(table) = &mut node.value else {
        let path = parents.join(".");
        return problems.add(at, format!("'{path}' is a value, not a section"));
    };
    table.insert(last.to_string(), Entry { key_at: at, node: new });
}
