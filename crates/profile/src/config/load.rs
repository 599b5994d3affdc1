//! Profiles as trees of settings, from presets and files, with the profiles that they are based on.

use super::{LBA, ReadFile, STAGING, Source};
use crate::de::fields_of;
use crate::error::{ConfigError, Place, Problems};
use crate::preset::{Kind, find};
use crate::tree::{Entry, Node, Table, Value, parse, shorten};
use std::path::{Component, Path, PathBuf};
use wordline_host::StackConfig;

/// One source: what it calls itself, and its settings below `nand`, `ftl`, `device`, `stack`.
pub(crate) struct Loaded {
    pub name: String,
    pub source: u32,
    pub tree: Node,
    /// A stack's own choice.
    pub testbed: Option<(String, Place)>,
    /// The profile of its kind that it changes.
    base: Option<(String, Place)>,
}

pub(crate) fn load(
    kind: Kind,
    source: Source<'_>,
    files: Option<ReadFile<'_>>,
    problems: &mut Problems,
) -> Result<Option<Loaded>, ConfigError> {
    let chain = match source {
        Source::Preset(_) => Vec::new(),
        Source::File { name, .. } => vec![name.to_string()],
    };
    load_in(kind, source, files, chain, problems)
}

/// What the value of a key names.
pub(crate) enum Opened {
    Preset(&'static str),
    File { path: String, text: String },
}

impl Opened {
    pub fn source(&self) -> Source<'_> {
        match self {
            Opened::Preset(name) => Source::Preset(name),
            Opened::File { path, text } => Source::File { name: path, text },
        }
    }
}

/// The profile that the value of `key` names: a preset, or a file whose path is relative to the profile that
/// names it. `chain` are the files that led here. None: a problem was added.
pub(crate) fn open(
    kind: Kind,
    (name, at): &(String, Place),
    key: &str,
    files: Option<ReadFile<'_>>,
    chain: &[String],
    problems: &mut Problems,
) -> Option<Opened> {
    let is_path = name.ends_with(".toml") || name.contains('/');
    let preset = find(kind, name);
    let Some(read) = files.filter(|_| is_path && preset.is_err()) else {
        return match preset {
            Ok(preset) => Some(Opened::Preset(preset.name)),
            Err(error) => {
                problems.add(*at, error.to_string());
                None
            }
        };
    };
    let path = beside_file(problems.file_of(at.source), name);
    let opened = itself(&path);
    if let Some(first) = chain.iter().position(|file| itself(file) == opened) {
        let (circle, again) = (chain[first..].join(" -> "), &chain[first]);
        let message =
            format!("'{key}' leads in a circle: {circle} -> {again}. Name another profile");
        problems.add(*at, message);
        return None;
    }
    match read(&path) {
        Ok(text) => Some(Opened::File { path, text }),
        Err(why) => {
            problems
                .add(*at, format!("'{key}' names the profile {path}, which cannot be read: {why}"));
            None
        }
    }
}

/// The way to a file named in another. A step back stays in it: behind a symbolic link it leads elsewhere.
fn beside_file(file: Option<&str>, name: &str) -> String {
    let folder = file.and_then(|file| Path::new(file).parent()).unwrap_or(Path::new(""));
    let path = folder.join(name);
    let steps = path.components().filter(|step| *step != Component::CurDir);
    steps.collect::<PathBuf>().display().to_string()
}

/// What two ways to one file have in common. What is no file of the system goes by its letters, without steps
/// back and forth.
fn itself(path: &str) -> PathBuf {
    if let Ok(path) = std::fs::canonicalize(path) {
        return path;
    }
    let mut tidy = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(tidy.components().next_back(), Some(Component::Normal(_))) =>
            {
                tidy.pop();
            }
            part => tidy.push(part),
        }
    }
    tidy
}

fn load_in(
    kind: Kind,
    source: Source<'_>,
    files: Option<ReadFile<'_>>,
    mut chain: Vec<String>,
    problems: &mut Problems,
) -> Result<Option<Loaded>, ConfigError> {
    let (source, text) = match source {
        Source::Preset(name) => (problems.source(format!("{name}.toml")), find(kind, name)?.text),
        Source::File { name, text } => (problems.file(name.to_string()), text),
    };
    let Some(mut file) = parse(text, source, problems) else { return Ok(None) };
    let top = file.at;
    let Value::Table(sections) = &mut file.value else { unreachable!("a file is a table") };
    let header = kind.name();
    // What the base has is not missing from this file.
    if let Some(entry) = sections.get("base")
        && matches!(entry.node.value, Value::Text(_))
    {
        let message = format!("write 'base' into the section [{header}], beside its name");
        problems.add(entry.key_at, message);
        return Ok(None);
    }
    let mut loaded =
        Loaded { name: String::new(), source, tree: Node::table(top), testbed: None, base: None };
    match sections.get_mut(header) {
        Some(Entry { node: Node { value: Value::Table(keys), at }, .. }) => {
            let at = *at;
            match take_text(keys, "name", problems) {
                Some((name, at)) if name.trim().is_empty() => {
                    problems.add(at, format!("'name' of [{header}] is empty"));
                }
                Some((name, _)) => loaded.name = name,
                None => problems.add(at, format!("the key 'name' of [{header}] is missing")),
            }
            take_text(keys, "description", problems);
            if kind == Kind::Stack {
                loaded.testbed = take_text(keys, "testbed", problems);
            }
            loaded.base = take_text(keys, "base", problems);
        }
        Some(entry) => problems.add(entry.key_at, format!("'{header}' must be a section")),
        None => problems.add(top, format!("the section [{header}] with a name is missing")),
    }
    if !matches!(sections.get(header), Some(entry) if entry.node.as_table().is_some()) {
        sections.remove(header);
    }
    let sections = std::mem::take(sections);
    let mut tree = Table::new();
    if kind == Kind::Device {
        let mut own = Table::new();
        for (key, entry) in sections {
            match key.as_str() {
                "nand" | "ftl" => drop(tree.insert(key, entry)),
                // Left in the header are strangers, but for the format of the namespace.
                "device" => {
                    let Value::Table(keys) = entry.node.value else { continue };
                    for (key, entry) in keys {
                        if [LBA, STAGING].contains(&key.as_str()) {
                            own.insert(key, entry);
                            continue;
                        }
                        let word = shorten(&key);
                        problems.add(
                            entry.key_at,
                            format!(
                                "unknown key '{word}' in [device]: it has name, description, base, {LBA}, {STAGING}"
                            ),
                        );
                    }
                }
                _ => drop(own.insert(key, entry)),
            }
        }
        let node = Node { value: Value::Table(own), at: top };
        tree.insert("device".into(), Entry { key_at: top, node });
    } else {
        for (key, entry) in sections {
            if kind == Kind::Media && key == "nand" {
                tree.insert(key, entry);
            } else if kind == Kind::Media && key == header {
                for (key, entry) in entry.node.as_table().into_iter().flatten() {
                    let word = shorten(key);
                    let message =
                        format!("unknown key '{word}' in [media]: it has name, description, base");
                    problems.add(entry.key_at, message);
                }
            } else if key == header {
                let entry = match kind {
                    // A file system is a section of the stack.
                    Kind::Fs => {
                        let key_at = entry.key_at;
                        let table = Table::from([("fs".into(), entry)]);
                        Entry { key_at, node: Node { value: Value::Table(table), at: top } }
                    }
                    _ => entry,
                };
                let target =
                    if matches!(kind, Kind::Testbed | Kind::Fs) { "stack" } else { header };
                tree.insert(target.into(), entry);
            } else {
                let what = match entry.node.value {
                    Value::Table(_) => format!("unknown section [{}]", shorten(&key)),
                    _ => format!("unknown key '{}' outside of a section", shorten(&key)),
                };
                let hint = match kind {
                    Kind::Stack | Kind::Testbed if fields_of::<StackConfig>().contains(&&*key) => {
                        format!(", did you mean [{header}.{key}]?")
                    }
                    _ => format!(": a {header} profile has [{header}] and sections in it"),
                };
                problems.add(entry.key_at, format!("{what}{hint}"));
            }
        }
    }
    loaded.tree.value = Value::Table(tree);
    if let Some(named) = loaded.base.take() {
        // What is missing from the rest cannot be told.
        let Some(opened) = open(kind, &named, "base", files, &chain, problems) else {
            return Ok(None);
        };
        if let Opened::File { path, .. } = &opened {
            chain.push(path.clone());
        }
        let Some(mut base) = load_in(kind, opened.source(), files, chain, problems)? else {
            return Ok(None);
        };
        base.tree.merge(loaded.tree);
        loaded.tree = base.tree;
        loaded.testbed = loaded.testbed.or(base.testbed);
    }
    Ok(Some(loaded))
}

fn take_text(keys: &mut Table, key: &str, problems: &mut Problems) -> Option<(String, Place)> {
    let Entry { node, .. } = keys.remove(key)?;
    match node.value {
        Value::Text(text) => Some((text, node.at)),
        _ => {
            problems.add(node.at, format!("'{key}' must be a string"));
            Some((String::new(), node.at))
        }
    }
}
