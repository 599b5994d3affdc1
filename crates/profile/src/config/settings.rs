//! What a configuration has: each setting with its path, and all of them as profiles.

use super::{Config, LBA, NOT_PBLKS_ALONE, STAGING};
use crate::bridge;
use wordline_base::Span;

/// The type of a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathKind {
    /// Whole numbers.
    Integer,
    /// Numbers with a fraction.
    Number,
    /// `true` or `false`.
    Switch,
    /// `"65us"`.
    Time,
    /// One of a few words.
    Word,
    /// Times, one a page type.
    Times,
    /// A list of whole numbers.
    Integers,
    /// Other arrays.
    Array,
}

fn kind_of(value: &toml::Value) -> PathKind {
    use toml::Value as V;
    let is_time = |v: &V| matches!(v, V::String(s) if Span::parse(s).is_ok());
    match value {
        V::Integer(_) => PathKind::Integer,
        V::Float(_) => PathKind::Number,
        V::Boolean(_) => PathKind::Switch,
        V::Array(items) if !items.is_empty() && items.iter().all(is_time) => PathKind::Times,
        V::Array(items) if items.iter().all(|v| matches!(v, V::Integer(_))) => PathKind::Integers,
        V::Array(_) => PathKind::Array,
        v if is_time(v) => PathKind::Time,
        _ => PathKind::Word,
    }
}

const SECTIONS: [&str; 5] = ["nand", "ftl", "device", "stack", "app"];

pub(super) fn value_of(config: &Config) -> toml::Value {
    toml::Value::try_from(config).expect("checked numbers fit TOML's integers")
}

/// Every setting of a configuration, by the path that `--set` takes, and its type. Optional tables
/// that are absent have none, and what the drive's FTL does not go by is none.
pub fn paths(config: &Config) -> Vec<(String, PathKind)> {
    settings(config).into_iter().map(|(path, value)| (path, kind_of(&value))).collect()
}

/// Every setting with its value.
pub fn settings(config: &Config) -> Vec<(String, toml::Value)> {
    fn walk(path: String, value: toml::Value, out: &mut Vec<(String, toml::Value)>) {
        match value {
            toml::Value::Table(table) => {
                table.into_iter().for_each(|(key, v)| walk(format!("{path}.{key}"), v, out));
            }
            value => out.push((path, value)),
        }
    }
    let mut out = Vec::new();
    if let toml::Value::Table(mut all) = value_of(config) {
        let other = config.ftl.firmware.is_some() || config.ftl.fssd.is_some();
        if let (true, Some(toml::Value::Table(ftl))) = (other, all.get_mut("ftl")) {
            ftl.retain(|key, _| NOT_PBLKS_ALONE.contains(&key));
        }
        for section in SECTIONS {
            if let Some(value) = all.remove(section) {
                walk(section.into(), value, &mut out);
            }
        }
    }
    out
}

/// The value of one setting.
pub fn value_at(config: &Config, path: &str) -> Option<toml::Value> {
    let value = value_of(config);
    let (first, _) = path.split_once('.')?;
    SECTIONS.contains(&first).then_some(())?;
    path.split('.').try_fold(&value, |v, key| v.as_table()?.get(key)).cloned()
}

/// The device and its FTL after all overrides, as a device profile.
pub fn resolved_device(config: &Config) -> String {
    let mut out = toml::Table::new();
    let mut header = toml::Table::new();
    header.insert("name".into(), config.device_name.clone().into());
    let mut value = value_of(config);
    for key in [LBA, STAGING] {
        header.extend(value["device"].get(key).cloned().map(|v| (key.to_string(), v)));
    }
    out.insert("device".into(), header.into());
    for section in ["nand", "ftl"] {
        // Those of a bridge are its drives'.
        if config.members.is_empty() {
            out.insert(section.into(), value[section].clone());
        }
    }
    let members = bridge::common(&config.members);
    if let Some(device) = value["device"].as_table_mut() {
        device.retain(|key, _| ![LBA, STAGING].contains(&key));
        out.extend(std::mem::take(device));
        // Said outright, because absent and "as the preset" must not look the same.
        out.entry("cache").or_insert("none".into());
        if let Some(toml::Value::Table(of)) = out.get_mut("bridge") {
            of.insert("members".into(), members.into());
        }
    }
    render(&out)
}

/// The stack on its testbed after all overrides, as a stack profile.
pub fn resolved_stack(config: &Config) -> String {
    let mut stack = toml::Table::new();
    stack.insert("name".into(), config.stack_name.clone().into());
    if let Some(settings) = value_of(config)["stack"].as_table_mut() {
        stack.extend(std::mem::take(settings));
    }
    let mut out = toml::Table::new();
    out.insert("stack".into(), stack.into());
    render(&out)
}

/// The whole configuration: what ran, whatever profiles and overrides it came from.
pub fn resolved_toml(config: &Config) -> String {
    format!(
        "# FTL: {}; testbed: {}\n\n{}\n{}",
        comment(&config.ftl_name),
        comment(&config.testbed_name),
        resolved_device(config),
        resolved_stack(config)
    )
}

/// A name inside a comment: no line break, nor any other control character.
fn comment(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn render(table: &toml::Table) -> String {
    toml::to_string(table).expect("a table of plain values is TOML")
}
