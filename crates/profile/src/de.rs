//! From the merged tree to the config structs. The structs' own serde derives say which keys exist;
//! this deserializer adds what they cannot know: where each value was written.

use crate::error::{Place, Problems};
use crate::tree::{Entry, Node, Table, Value, shorten};
use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeSeed, Expected, IntoDeserializer, Unexpected, Visitor};
use std::cell::RefCell;
use std::fmt;
use wordline_base::nearest;

/// An error on its way up; the innermost node and key it passes become its place and path.
#[derive(Debug)]
pub(crate) struct Fault {
    message: String,
    missing: bool,
    at: Option<Place>,
    path: Option<String>,
}

impl Fault {
    fn new(message: impl Into<String>) -> Fault {
        Fault { message: message.into(), missing: false, at: None, path: None }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

fn found(unexpected: &Unexpected<'_>) -> String {
    match unexpected {
        Unexpected::Bool(b) => b.to_string(),
        Unexpected::Signed(n) => n.to_string(),
        Unexpected::Unsigned(n) => n.to_string(),
        Unexpected::Float(x) => x.to_string(),
        Unexpected::Str(s) => format!("\"{}\"", shorten(s)),
        Unexpected::Seq => "an array".into(),
        Unexpected::Map => "a table".into(),
        other => other.to_string(),
    }
}

fn wanted(expected: &dyn Expected) -> String {
    let expected = expected.to_string();
    match expected.as_str() {
        "u8" => format!("a whole number from 0 to {}", u8::MAX),
        "u16" => format!("a whole number from 0 to {}", u16::MAX),
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        "u64" | "usize" => "a whole number, 0 or more".into(),
        "f32" | "f64" => "a number".into(),
        "a boolean" => "true or false".into(),
        s if s.starts_with("struct ") => "a table of keys".into(),
        s if s.starts_with("a sequence") => "an array".into(),
        _ => expected,
    }
}

/// Whole bytes of a number with a unit, as 8MiB, 1.5 GB or 100MB/s.
fn bytes_in(text: &str) -> Option<u64> {
    let text = text.strip_suffix("/s").unwrap_or(text).strip_suffix('B')?;
    let (text, step) = text.strip_suffix('i').map_or((text, 1000.0), |text| (text, 1024.0f64));
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let power = 1 + "KMGT".find(&unit.to_uppercase())? as i32;
    let bytes = number.trim().parse::<f64>().ok()? * step.powi(power);
    (bytes.fract() == 0.0 && (1.0..1e15).contains(&bytes)).then_some(bytes as u64)
}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Fault {
        Fault::new(message.to_string())
    }
    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Fault {
        let mut message = format!("expected {}, found {}", wanted(expected), found(&unexpected));
        if let Unexpected::Float(x) = unexpected
            && wanted(expected).contains("whole number")
            && x.fract() == 0.0
            && (0.0..9e18).contains(&x)
        {
            message += &format!(": write {}", x as u64);
        }
        if let Unexpected::Str(text) = unexpected
            && wanted(expected).contains("whole number")
            && let Some(bytes) = bytes_in(text)
        {
            message += &format!(": write {bytes}");
        }
        Fault::new(message)
    }
    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Fault {
        Fault::new(format!("expected {}, found {}", wanted(expected), found(&unexpected)))
    }
    fn invalid_length(length: usize, expected: &dyn Expected) -> Fault {
        Fault::new(format!("expected {}, found {length} values", wanted(expected)))
    }
    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Fault {
        let hint = nearest(variant, expected.iter().copied())
            .map_or(String::new(), |name| format!(", did you mean '{name}'?"));
        let names: Vec<_> = expected.iter().map(|n| format!("'{n}'")).collect();
        let word = shorten(variant);
        Fault::new(format!("unknown value '{word}': use one of {}{hint}", names.join(", ")))
    }
    fn missing_field(field: &'static str) -> Fault {
        Fault { missing: true, path: Some(field.into()), ..Fault::new("") }
    }
}

/// How a table is called in messages, by its path and where it was written.
pub(crate) type Naming<'t> = &'t dyn Fn(&str, Place) -> String;

#[derive(Clone, Copy)]
struct De<'t> {
    node: &'t Node,
    path: &'t str,
    shared: &'t Shared<'t>,
}

struct Shared<'t> {
    unknown: RefCell<Vec<(Place, String)>>,
    naming: Naming<'t>,
}

/// Reads a `T` from the node at `path`, reporting all that is wrong with it.
pub(crate) fn read<T: for<'de> de::Deserialize<'de>>(
    tree: &mut Node,
    path: &str,
    problems: &mut Problems,
    naming: Naming<'_>,
) -> Option<T> {
    let mut removed: Vec<String> = Vec::new();
    loop {
        let Some(node) = tree.get(path) else {
            problems.add(tree.at, format!("the section {} is missing", naming(path, tree.at)));
            return None;
        };
        let shared = Shared { unknown: RefCell::default(), naming };
        let result = T::deserialize(De { node, path, shared: &shared });
        for (at, message) in shared.unknown.into_inner() {
            problems.add(at, message);
        }
        let fault = match result {
            Ok(value) => return removed.is_empty().then_some(value),
            Err(fault) => fault,
        };
        let at = fault.at.unwrap_or(node.at);
        let key = fault.path.unwrap_or_else(|| path.into());
        if fault.missing {
            if !removed.contains(&key) {
                problems.add(
                    at,
                    match key.rsplit_once('.') {
                        Some(("device", _)) => {
                            format!("the section {} is missing", naming(&key, at))
                        }
                        Some((section, name)) => {
                            format!("the key '{name}' of {} is missing", naming(section, at))
                        }
                        None => format!("the key '{key}' is missing"),
                    },
                );
            }
            return None;
        }
        problems.add(at, fault.message);
        // Take the bad value out and go on, for the errors behind it.
        if !tree.remove(&key) || key == path {
            return None;
        }
        removed.push(key);
    }
}

impl<'t> De<'t> {
    fn place(self, fault: Fault) -> Fault {
        Fault { at: fault.at.or(Some(self.node.at)), ..fault }
    }

    fn table<'de, V: Visitor<'de>>(self, table: &'t Table, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_map(self.entries(table, None))
    }

    /// The entries of a table: of a struct those that are its fields.
    fn entries(self, table: &'t Table, fields: Option<&'static [&'static str]>) -> Map<'t> {
        Map { of: self, entries: table.iter(), fields, next: None }
    }

    /// Notes the keys of a table that are no fields of its struct.
    fn note_unknown(self, table: &Table, fields: &'static [&'static str]) {
        for (key, entry) in table {
            if !fields.contains(&key.as_str()) {
                let message =
                    unknown_key(self.path, key, &entry.node, fields, self.shared.naming, self.node);
                self.shared.unknown.borrow_mut().push((entry.key_at, message));
            }
        }
    }

    /// A fault of a struct at this node: a field that it lacks is one of this table.
    fn of_struct(self, fault: Fault) -> Fault {
        if !fault.missing || fault.at.is_some() {
            return self.place(fault);
        }
        let field = fault.path.unwrap_or_default();
        Fault {
            at: Some(self.node.at),
            path: Some(format!("{}.{field}", self.path)),
            message: fault.message,
            missing: true,
        }
    }

    /// A fault of the value of a key.
    fn of_value(self, fault: Fault) -> Fault {
        let mut fault = self.place(fault);
        fault.path.get_or_insert_with(|| self.path.into());
        fault
    }

    /// An array had more values than were taken.
    fn too_many(self, all: usize, left: usize) -> Fault {
        self.place(Fault::new(format!("expected an array of {} values, found {all}", all - left)))
    }
}

impl<'de, 't> de::Deserializer<'de> for De<'t> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.value {
            Value::Text(s) => visitor.visit_str(s),
            Value::Integer(n) => visitor.visit_i64(*n),
            Value::Float(x) => visitor.visit_f64(*x),
            Value::Switch(b) => visitor.visit_bool(*b),
            Value::Table(table) => self.table(table, visitor),
            Value::Array(items) => {
                let mut seq = Seq { of: self, items: items.iter() };
                let value = visitor.visit_seq(&mut seq).map_err(|fault| self.place(fault))?;
                match seq.items.len() {
                    0 => Ok(value),
                    left => Err(self.too_many(items.len(), left)),
                }
            }
        }
        .map_err(|fault| self.place(fault))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.value {
            Value::Text(s) if s == "none" => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        // A section that is always there is without keys then.
        static WITHOUT_KEYS: Table = Table::new();
        let table = match &self.node.value {
            Value::Table(table) => table,
            Value::Text(s) if s == "none" => &WITHOUT_KEYS,
            _ => return self.deserialize_any(visitor),
        };
        self.note_unknown(table, fields);
        visitor.visit_map(self.entries(table, Some(fields))).map_err(|fault| self.of_struct(fault))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match &self.node.value {
            Value::Text(s) => {
                let word: StrDeserializer<'_, Fault> = s.as_str().into_deserializer();
                visitor.visit_enum(word)
            }
            Value::Table(table) if table.len() == 1 => {
                visitor.visit_enum(de::value::MapAccessDeserializer::new(self.entries(table, None)))
            }
            _ => Err(one_of(variants)),
        }
        .map_err(|fault| self.place(fault))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

fn one_of(variants: &[&str]) -> Fault {
    let names: Vec<_> = variants.iter().map(|n| format!("'{n}'")).collect();
    Fault::new(format!("expected one of {}", names.join(", ")))
}

fn unknown_key(
    path: &str,
    key: &str,
    node: &Node,
    fields: &[&str],
    naming: Naming<'_>,
    table: &Node,
) -> String {
    let word = shorten(key);
    // The sections of a device file are the fields of its config, and two more.
    if path == "device" {
        let known = fields.iter().copied().chain(["nand", "ftl", "device"]);
        let hint =
            nearest(key, known).map_or(String::new(), |name| format!(", did you mean [{name}]?"));
        return match node.value {
            Value::Table(_) => format!("unknown section [{word}]{hint}"),
            _ if ["name", "description", "base"].contains(&key) => {
                format!("'{word}' belongs into [device] of a profile's file, and nowhere else")
            }
            _ => format!("unknown key '{word}' outside of a section{hint}"),
        };
    }
    let section = naming(path, table.at);
    let free: Vec<&str> = fields.iter().copied().filter(|f| table.get(f).is_none()).collect();
    // A key that is already there was hardly meant a second time.
    match nearest(key, free).or_else(|| nearest(key, fields.iter().copied())) {
        Some(name) => format!("unknown key '{word}' in {section}, did you mean '{name}'?"),
        None => format!("unknown key '{word}' in {section}: it has {}", fields.join(", ")),
    }
}

struct Map<'t> {
    of: De<'t>,
    entries: std::collections::btree_map::Iter<'t, String, Entry>,
    fields: Option<&'static [&'static str]>,
    next: Option<(&'t str, &'t Node)>,
}

impl<'t> Map<'t> {
    /// The next key; its value is `next`.
    fn advance(&mut self) -> Option<&'t str> {
        let fields = self.fields;
        let known = |key: &str| fields.is_none_or(|fields| fields.contains(&key));
        let (key, entry) = self.entries.find(|(key, _)| known(key))?;
        self.next = Some((key, &entry.node));
        Some(key)
    }
}

impl<'de> de::MapAccess<'de> for Map<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some(key) = self.advance() else { return Ok(None) };
        let word: StrDeserializer<'_, Fault> = key.into_deserializer();
        seed.deserialize(word).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let (key, node) = self.next.take().expect("serde asks for a value after its key");
        let path = [self.of.path, ".", key].concat();
        let inner = De { node, path: &path, shared: self.of.shared };
        seed.deserialize(inner).map_err(|fault| inner.of_value(fault))
    }
}

struct Seq<'t> {
    of: De<'t>,
    items: std::slice::Iter<'t, Node>,
}

impl<'de> de::SeqAccess<'de> for Seq<'_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some(node) = self.items.next() else { return Ok(None) };
        let inner = De { node, ..self.of };
        seed.deserialize(inner).map(Some).map_err(|fault| inner.place(fault))
    }
}

/// The names of the fields of a struct, from its derive.
pub(crate) fn fields_of<T: de::Deserialize<'static>>() -> &'static [&'static str] {
    struct Probe<'a>(&'a mut &'static [&'static str]);
    impl<'de> de::Deserializer<'de> for Probe<'_> {
        type Error = Fault;
        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Fault> {
            Err(Fault::new("not a struct"))
        }
        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Fault> {
            *self.0 = fields;
            Err(Fault::new("only the fields were wanted"))
        }
        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
            option unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier
            ignored_any
        }
    }
    let mut fields: &'static [&'static str] = &[];
    let _ = T::deserialize(Probe(&mut fields));
    fields
}
