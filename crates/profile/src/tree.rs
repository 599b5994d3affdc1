//! Profile text as a tree in which every key and value remembers where it was written, so that an
//! error found after merging still names the file, line and column.

use crate::error::{Place, Problems};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Switch(bool),
    Array(Vec<Node>),
    Table(Table),
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub value: Value,
    pub at: Place,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub key_at: Place,
    pub node: Node,
}

pub(crate) type Table = BTreeMap<String, Entry>;

impl Node {
    pub fn table(at: Place) -> Node {
        Node { value: Value::Table(Table::new()), at }
    }

    pub fn as_table(&self) -> Option<&Table> {
        match &self.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    pub fn get(&self, key: &str) -> Option<&Node> {
        self.as_table()?.get(key).map(|entry| &entry.node)
    }

    pub fn value_mut(&mut self, key: &str) -> Option<&mut Value> {
        match &mut self.value {
            Value::Table(table) => table.get_mut(key).map(|entry| &mut entry.node.value),
            _ => None,
        }
    }

    /// The deepest node on the way to `path` (dotted).
    pub fn deepest(&self, path: &str) -> &Node {
        path.split('.').try_fold(self, |node, key| node.get(key).ok_or(node)).unwrap_or_else(|n| n)
    }

    /// Takes out the key at `path`; false if nothing was there.
    pub fn remove(&mut self, path: &str) -> bool {
        let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
        let mut node = self;
        for key in parents.split('.').filter(|k| !k.is_empty()) {
            let Value::Table(table) = &mut node.value else { return false };
            let Some(entry) = table.get_mut(key) else { return false };
            node = &mut entry.node;
        }
        let Value::Table(table) = &mut node.value else { return false };
        table.remove(last).is_some()
    }

    /// Lays `other` over `self`: tables key by key, anything else whole.
    pub fn merge(&mut self, other: Node) {
        match (&mut self.value, other.value) {
            (Value::Table(mine), Value::Table(theirs)) => {
                for (key, entry) in theirs {
                    match mine.get_mut(&key) {
                        Some(old) => {
                            old.key_at = entry.key_at;
                            old.node.merge(entry.node);
                        }
                        None => {
                            mine.insert(key, entry);
                        }
                    }
                }
            }
            (_, value) => *self = Node { value, at: other.at },
        }
    }

    /// Dotted paths of all keys below that are no tables.
    pub fn leaves(&self, prefix: &str, out: &mut Vec<String>) {
        for (key, entry) in self.as_table().into_iter().flatten() {
            let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            match entry.node.value {
                Value::Table(_) => entry.node.leaves(&path, out),
                _ => out.push(path),
            }
        }
    }
}

/// Where the lines of a text begin.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl Lines<'_> {
    fn new(text: &str) -> Lines<'_> {
        let ends = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n');
        Lines { text, starts: std::iter::once(0).chain(ends.map(|(end, _)| end + 1)).collect() }
    }
    /// Line and column, from 1, of byte `offset`; columns count characters.
    fn line_column(&self, offset: usize) -> (u32, u32) {
        let mut end = offset.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        // The first begins at 0.
        let line = self.starts.partition_point(|&start| start <= end);
        let before = &self.text[self.starts[line - 1]..end];
        (line as u32, before.chars().count() as u32 + 1)
    }
}

/// Errors of one file beyond this many are consequences of the earlier ones.
const MAX_SYNTAX_ERRORS: usize = 5;

/// Parses a file; `source` is its index among the sources.
pub(crate) fn parse(text: &str, source: u32, problems: &mut Problems) -> Option<Node> {
    let lines = Lines::new(text);
    let place = |offset: usize| {
        let (line, column) = lines.line_column(offset);
        Place { source, line, column }
    };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors.iter().take(MAX_SYNTAX_ERRORS) {
        let at = error.span().map_or(place(0), |span| place(span.start));
        problems.add(at, format!("not TOML: {}", error.message()));
    }
    if !errors.is_empty() {
        return None;
    }
    let mut root = Node::table(Place { source, line: 1, column: 1 });
    root.value = Value::Table(from_table(table.into_inner(), &place, problems));
    Some(root)
}

fn from_table(
    table: DeTable<'_>,
    place: &impl Fn(usize) -> Place,
    problems: &mut Problems,
) -> Table {
    let mut out = Table::new();
    for (key, value) in table {
        let key_at = place(key.span().start);
        // A table made by its header is at the header's key, as an editor would point at it.
        let mut node = from_value(value, place, problems);
        if matches!(node.value, Value::Table(_)) {
            node.at = key_at;
        }
        out.insert(key.into_inner().into_owned(), Entry { key_at, node });
    }
    out
}

fn from_value(
    value: Spanned<DeValue<'_>>,
    place: &impl Fn(usize) -> Place,
    problems: &mut Problems,
) -> Node {
    let at = place(value.span().start);
    let value = match value.into_inner() {
        DeValue::String(s) => Value::Text(s.into_owned()),
        DeValue::Integer(i) => match i64::from_str_radix(i.as_str(), i.radix()) {
            Ok(n) => Value::Integer(n),
            Err(_) => {
                problems.add(at, format!("{} does not fit 64 bits", shorten(i.as_str())));
                Value::Integer(0)
            }
        },
        DeValue::Float(f) => match f.as_str().parse::<f64>() {
            Ok(x) if x.is_finite() => Value::Float(x),
            _ => {
                problems.add(at, format!("{} is not a finite number", shorten(f.as_str())));
                Value::Float(0.0)
            }
        },
        DeValue::Boolean(b) => Value::Switch(b),
        // No setting is a date; as text it meets the type error of its key.
        DeValue::Datetime(d) => Value::Text(d.to_string()),
        DeValue::Array(items) => {
            Value::Array(items.into_iter().map(|item| from_value(item, place, problems)).collect())
        }
        DeValue::Table(table) => Value::Table(from_table(table, place, problems)),
    };
    Node { value, at }
}

/// What follows the `=` of an override: TOML, with bare words for strings, also inside an array.
pub(crate) fn parse_override(text: &str, at: Place, problems: &mut Problems) -> Option<Node> {
    let text = text.trim();
    if text.is_empty() {
        problems.add(at, "no value after '='".into());
        return None;
    }
    if let Ok(value) = DeValue::parse(text) {
        return Some(from_value(value, &|_| at, problems));
    }
    if let Some(items) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        let items = items.split(',').map(|item| parse_override(item, at, problems));
        return Some(Node { value: Value::Array(items.collect::<Option<_>>()?), at });
    }
    if text.starts_with(['"', '\'', '{', '[']) {
        problems.add(at, format!("{} is not a TOML value", shorten(text)));
        return None;
    }
    Some(Node { value: Value::Text(text.into()), at })
}

/// For messages: at most 40 characters.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}
