//! TOML files of other kinds, read with the same errors as profiles.

use crate::de;
use crate::error::{ConfigError, Place, Problems};
use crate::tree::{Entry, Node, Table, Value, parse};
use serde::de::DeserializeOwned;

/// The root is a section of this name, because a reader starts at one.
const ROOT: &str = "file";

/// A parsed file that knows where each of its values was written.
#[derive(Clone, Debug)]
pub struct Document {
    tree: Node,
    name: String,
}

impl Document {
    /// `name` is the file's, for messages.
    pub fn parse(name: &str, text: &str) -> Result<Document, ConfigError> {
        let mut problems = Problems::default();
        let source = problems.source(name.to_string());
        let root = parse(text, source, &mut problems);
        let whole = problems.is_empty();
        let Some(root) = root.filter(|_| whole) else {
            return Err(problems.into_result().expect_err("an unreadable file is a problem"));
        };
        let at = root.at;
        let table = Table::from([(ROOT.into(), Entry { key_at: at, node: root })]);
        Ok(Document { tree: Node { value: Value::Table(table), at }, name: name.to_string() })
    }

    /// The whole file as a `T`. Sections named in `lists` are arrays of tables.
    pub fn read<T: DeserializeOwned>(&self, lists: &[&str]) -> Result<T, ConfigError> {
        let naming = |path: &str, _: Place| match path.strip_prefix(ROOT).unwrap_or(path) {
            "" => "the file".into(),
            rest if lists.contains(&&rest[1..]) => format!("[[{}]]", &rest[1..]),
            rest => format!("[{}]", &rest[1..]),
        };
        let mut problems = Problems::of(vec![self.name.clone()].into());
        let read = de::read(&mut self.tree.clone(), ROOT, &mut problems, &naming);
        problems.into_result().map(|()| read.expect("without a problem there is a value"))
    }

    /// `message` with the place of what stands at `path`: keys, and positions in arrays, joined by
    /// dots.
    pub fn error(&self, path: &str, message: impl Into<String>) -> ConfigError {
        let mut problems = Problems::of(vec![self.name.clone()].into());
        problems.add(self.deepest(path).at, message.into());
        problems.into_result().expect_err("one was added")
    }

    /// The file's name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The line of what stands at `path`, from 1.
    pub fn line(&self, path: &str) -> u32 {
        self.deepest(path).at.line
    }

    fn deepest(&self, path: &str) -> &Node {
        let mut node = self.tree.get(ROOT).expect("made by parse");
        for key in path.split('.') {
            let next = match (&node.value, key.parse::<usize>()) {
                (Value::Array(items), Ok(i)) => items.get(i),
                _ => node.get(key),
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        node
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize, Debug)]
    struct File {
        head: Head,
        #[serde(default)]
        item: Vec<Item>,
    }
    #[derive(Deserialize, Debug)]
    struct Head {
        title: String,
    }
    #[derive(Deserialize, Debug)]
    struct Item {
        name: String,
        count: Option<u32>,
    }

    fn read(text: &str) -> Result<File, ConfigError> {
        let document = Document::parse("x.toml", text)?;
        document.read(&["item"])
    }

    #[test]
    fn errors_have_line_and_remedy() {
        let good = "[head]\ntitle = \"t\"\n[[item]]\nname = \"a\"\ncount = 3\n";
        let file = read(good).unwrap();
        assert_eq!((file.head.title.as_str(), file.item[0].count), ("t", Some(3)));
        assert_eq!(file.item[0].name, "a");
        for (from, to, message) in [
            ("count = 3", "cuont = 3", "x.toml:5:1: unknown key 'cuont' in [[item]], did you mean"),
            ("count = 3", "count = 'x'", "x.toml:5:9: expected a whole number"),
            ("name = \"a\"\n", "", "x.toml:3:1: the key 'name' of [[item]] is missing"),
            ("[head]", "[haed]", "unknown key 'haed' in the file, did you mean 'head'?"),
            ("title = \"t\"", "", "the key 'title' of [head] is missing"),
            ("= 3", "= = 3", "x.toml:5:9: not TOML"),
        ] {
            let error = read(&good.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        let document = Document::parse("x.toml", good).unwrap();
        assert_eq!(document.line("item.0.count"), 5);
        assert!(document.error("item.0.name.more", "odd").to_string().starts_with("x.toml:4:8"));
    }
}
