//! Bridges: the profiles of the drives behind one, and what is laid over them.
//!
//! ```toml
//! [bridge]
//! drives = ["bssd-controller", "bssd-controller"]
//! [bridge.members.cache]      # of every drive behind it
//! bytes = 1_048_576
//! ```
//!
//! A drive is a preset or a file (its path is relative to the profile that names it), with bases of its own, and
//! may be a bridge. `nand` and `ftl` of a bridge, which has no flash, are those of all drives behind it.

use crate::config::{
    Inside, Loaded, Opened, ReadFile, channels_of_gang, load, open, place_parts, swap_media,
    without_firmware,
};
use crate::de::read;
use crate::error::{ConfigError, Place, Problems};
use crate::preset::Kind;
use crate::tree::{Entry, Node, Table, Value};
use wordline_device::DeviceConfig;
use wordline_ftl::FtlConfig;
use wordline_nand::NandConfig;

/// Bridges behind each other at most: more is a bridge behind itself.
const DEEPEST: usize = 4;

pub(crate) fn is_bridge(tree: &Node) -> bool {
    tree.get("device").and_then(|d| d.get("bridge")).is_some_and(|b| b.as_table().is_some())
}

/// A drive behind a bridge: its settings are kept in the bridge's tree at `members` by its number.
pub(crate) struct Member {
    name: String,
    number: usize,
    /// Another medium was put in.
    swapped: bool,
    members: Vec<Member>,
    /// Where the bridge names it.
    at: Place,
    /// Settings of the bridge's profile that go over those of its own.
    over: Vec<String>,
}

/// Settings that are named in a message.
const NAMED: usize = 6;

fn told(over: &Node) -> Vec<String> {
    let mut leaves = Vec::new();
    over.leaves("", &mut leaves);
    // Who sets one on the command line knows of it: an override has no line.
    leaves.retain(|path| over.deepest(path).at.line > 0);
    leaves.iter().map(|path| path.strip_prefix("device.").unwrap_or(path).to_string()).collect()
}

fn table_mut<'a>(node: &'a mut Node, key: &str) -> Option<&'a mut Node> {
    match &mut node.value {
        Value::Table(table) => table.get_mut(key).map(|entry| &mut entry.node),
        _ => None,
    }
}

fn take(node: &mut Node, key: &str) -> Option<Entry> {
    match &mut node.value {
        Value::Table(table) => table.remove(key),
        _ => None,
    }
}

fn put(node: &mut Node, key: String, new: Node) {
    if let Value::Table(table) = &mut node.value {
        table.insert(key, Entry { key_at: new.at, node: new });
    }
}

/// Resolves the drives behind the bridge that `tree` is, if it is one. Their trees are left in it at
/// `members`; its `nand` and `ftl` are then those of the first of them.
///
/// `top`: the file that the bridge is of.
pub(crate) fn members(
    tree: &mut Node,
    top: Option<String>,
    files: Option<ReadFile<'_>>,
    problems: &mut Problems,
) -> Result<Vec<Member>, ConfigError> {
    resolve(tree, 0, &mut Vec::from_iter(top), files, problems)
}

/// `chain`: the files of the bridges that it is behind, and its own.
fn resolve(
    tree: &mut Node,
    depth: usize,
    chain: &mut Vec<String>,
    files: Option<ReadFile<'_>>,
    problems: &mut Problems,
) -> Result<Vec<Member>, ConfigError> {
    if !is_bridge(tree) {
        return Ok(Vec::new());
    }
    let flash = ["nand", "ftl"].map(|key| take(tree, key).map(|entry| (key, entry)));
    let at = tree.at;
    let Some(bridge) = table_mut(tree, "device").and_then(|d| table_mut(d, "bridge")) else {
        return Ok(Vec::new());
    };
    let mut over = take(bridge, "members").map_or_else(|| Node::table(at), |entry| entry.node);
    for (key, entry) in flash.into_iter().flatten() {
        let mut section = Node::table(entry.key_at);
        put(&mut section, key.into(), entry.node);
        over.merge(section);
    }
    let over = of_member(over);
    // What is not a list of names is told when the section is read.
    let place = bridge.get("drives").map_or(bridge.at, |drives| drives.at);
    let names: Vec<(String, Place)> = match bridge.get("drives").map(|drives| &drives.value) {
        Some(Value::Array(items)) => items
            .iter()
            .filter_map(|item| match &item.value {
                Value::Text(name) => Some((name.clone(), item.at)),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    };
    let broken = |problems: &mut Problems| {
        let problems = std::mem::take(problems);
        problems.into_result().expect_err("one was added")
    };
    if names.is_empty() {
        problems.add(
            place,
            "'drives' of [bridge] must name the profiles of the drives behind it, one at least: \
             drives = [\"bssd-controller\"]"
                .into(),
        );
        return Err(broken(problems));
    }
    if depth == DEEPEST {
        problems.add(place, format!("more than {DEEPEST} bridges are behind each other"));
        return Err(broken(problems));
    }
    let (mut found, mut kept) = (Vec::with_capacity(names.len()), Table::new());
    let mut paths = Vec::with_capacity(names.len());
    for (i, (name, at)) in names.into_iter().enumerate() {
        let named = (name, at);
        let Some(opened) = open(Kind::Device, &named, "drives", files, chain, problems) else {
            continue;
        };
        let loaded = load(Kind::Device, opened.source(), files, problems)?;
        let Some(Loaded { name, tree: mut own, .. }) = loaded else { continue };
        let before = chain.len();
        let path = match opened {
            Opened::Preset(name) => name.to_string(),
            Opened::File { path, .. } => {
                chain.push(path.clone());
                path
            }
        };
        paths.push(Node { value: Value::Text(path), at });
        own.merge(over.clone());
        let mut swapped = false;
        if !is_bridge(&own) {
            let gang = channels_of_gang(&own);
            swapped = swap_media(&mut own, gang, files, problems)?;
            let whole = own.clone();
            place_parts(&mut own, &whole, problems);
        }
        let members = resolve(&mut own, depth + 1, chain, files, problems)?;
        chain.truncate(before);
        kept.insert(i.to_string(), Entry { key_at: at, node: own });
        found.push(Member { name, number: i, swapped, members, at, over: told(&over) });
    }
    let first = kept.get("0").map(|entry| entry.node.clone());
    for key in ["nand", "ftl"] {
        if let Some(node) = first.as_ref().and_then(|first| first.get(key)) {
            put(tree, key.into(), node.clone());
        }
    }
    // As they are found from where the program runs.
    if let Some(bridge) = table_mut(tree, "device").and_then(|d| table_mut(d, "bridge")) {
        put(bridge, "drives".into(), Node { value: Value::Array(paths), at: place });
    }
    put(tree, "members".into(), Node { value: Value::Table(kept), at });
    if found.is_empty() {
        return Err(broken(problems));
    }
    Ok(found)
}

/// Whether the drive, or each behind the bridge, has this kind of FTL.
pub(crate) fn has_kind(
    tree: &Node,
    kind: &str,
    files: Option<ReadFile<'_>>,
    problems: &Problems,
) -> bool {
    has_kind_in(tree, kind, 0, files, problems)
}

fn has_kind_in(
    tree: &Node,
    kind: &str,
    depth: usize,
    files: Option<ReadFile<'_>>,
    problems: &Problems,
) -> bool {
    if tree.get("ftl").and_then(|ftl| ftl.get(kind)).is_some_and(|k| k.as_table().is_some()) {
        return true;
    }
    let drives = tree.get("device").and_then(|d| d.get("bridge")?.get("drives"));
    // More bridges behind each other than this are told there.
    let Some(drives) = drives.filter(|_| depth <= DEEPEST) else { return false };
    let Value::Array(items) = &drives.value else { return true };
    // A name that is none, and a profile that cannot be read, are told where the drives are put in.
    items.iter().all(|item| {
        let Value::Text(name) = &item.value else { return true };
        let (named, mut aside) = ((name.clone(), item.at), problems.aside());
        let opened = open(Kind::Device, &named, "drives", files, &[], &mut aside);
        let drive = opened.and_then(|opened| {
            load(Kind::Device, opened.source(), files, &mut aside).ok().flatten()
        });
        drive.is_none_or(|drive| has_kind_in(&drive.tree, kind, depth + 1, files, &aside))
    })
}

/// Sections as they stand in a profile, as the tree of a drive has them.
fn of_member(over: Node) -> Node {
    let at = over.at;
    let (mut tree, mut device) = (Node::table(at), Node::table(at));
    let Value::Table(sections) = over.value else { return tree };
    for (key, entry) in sections {
        match key.as_str() {
            "nand" | "ftl" => put(&mut tree, key, entry.node),
            _ => {
                if let Value::Table(table) = &mut device.value {
                    table.insert(key, entry);
                }
            }
        }
    }
    put(&mut tree, "device".into(), device);
    tree
}

impl Member {
    /// What may be wrong with it if it cannot be, and where; none where the bridge sets nothing of it.
    pub fn over(&self) -> Option<(Place, String)> {
        if self.over.is_empty() {
            return None;
        }
        let more = match self.over.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let settings = self.over[..self.over.len().min(NAMED)].join(", ");
        let text = format!(
            "over '{}' go settings of [bridge.members], of this profile or its base, which may be for other drives: \
             {settings}{more}. Set there what fits it (a section that it has not to \"none\"), or take a base without",
            self.name
        );
        Some((self.at, text))
    }
    /// None: a section cannot be read.
    /// `asked`: the drives' FTL was asked for.
    pub fn read(self, tree: &mut Node, asked: bool, problems: &mut Problems) -> Option<Inside> {
        let naming = |path: &str, _: Place| {
            format!(
                "[{}] of {}, behind a bridge",
                path.strip_prefix("device.").unwrap_or(path),
                self.name
            )
        };
        let (found, over) = (problems.len(), self.over());
        let own = table_mut(tree, "members")?;
        let own = table_mut(own, &self.number.to_string())?;
        let nand = read::<NandConfig>(own, "nand", problems, &naming);
        let ftl = read::<FtlConfig>(own, "ftl", problems, &naming);
        let device = read::<DeviceConfig>(own, "device", problems, &naming);
        let members = self.members.into_iter().map(|member| member.read(own, asked, problems));
        let members = members.collect::<Vec<_>>().into_iter().collect::<Option<Vec<_>>>();
        if let (true, Some((at, text))) = (problems.len() > found, over) {
            problems.add(at, text);
        }
        let (nand, mut ftl) = (nand?, ftl?);
        if self.swapped && !asked {
            without_firmware(&nand, &mut ftl);
        }
        Some(Inside { name: self.name, nand, ftl, device: device?, members: members? })
    }
}

/// What all drives behind a bridge have in common, as `[bridge.members]` says it.
pub(crate) fn common(members: &[Inside]) -> toml::Table {
    let mut tables = members.iter().map(|inside| {
        let value = |value| match value {
            Ok(toml::Value::Table(table)) => table,
            _ => toml::Table::new(),
        };
        let mut out = value(toml::Value::try_from(&inside.device));
        out.entry("cache").or_insert("none".into());
        match (inside.members.is_empty(), out.get_mut("bridge")) {
            (false, Some(toml::Value::Table(bridge))) => {
                bridge.insert("members".into(), common(&inside.members).into());
            }
            _ => {
                out.insert("nand".into(), value(toml::Value::try_from(&inside.nand)).into());
                out.insert("ftl".into(), value(toml::Value::try_from(&inside.ftl)).into());
            }
        }
        out
    });
    let first = tables.next().unwrap_or_default();
    tables.fold(first, |one, other| both(one, &other))
}

/// What two tables say alike.
fn both(one: toml::Table, other: &toml::Table) -> toml::Table {
    let alike = one.into_iter().filter_map(|(key, value)| match (value, other.get(&key)?) {
        (toml::Value::Table(a), toml::Value::Table(b)) => Some((key, both(a, b).into())),
        (value, same) if value == *same => Some((key, value)),
        _ => None,
    });
    alike.collect()
}
