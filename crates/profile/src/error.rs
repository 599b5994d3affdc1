//! Everything wrong with a configuration, each with its place and a remedy.

use std::fmt;
use wordline_base::IdVec;

/// Where something was written: a source by index, and line and column from 1; line 0 is an
/// override, which has neither.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place {
    pub source: u32,
    pub line: u32,
    pub column: u32,
}

/// One thing wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// File name, or `--set` with the override as given.
    pub source: String,
    /// Line and column from 1; none for an override or a name.
    pub position: Option<(u32, u32)>,
    /// What is wrong, with the remedy.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some((line, column)) => {
                write!(f, "{}:{line}:{column}: {}", self.source, self.message)
            }
            None if self.source.is_empty() => f.write_str(&self.message),
            None => write!(f, "{}: {}", self.source, self.message),
        }
    }
}

/// A configuration that cannot be used; never empty.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct ConfigError {
    /// All that is wrong, in the order of the sources.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl ConfigError {
    /// A problem that has no place in a file.
    pub fn plain(message: String) -> ConfigError {
        ConfigError { problems: vec![Problem { source: String::new(), position: None, message }] }
    }
}

/// A file or a list of overrides, in the order in which they are read.
type SourceId = u32;

/// Collects problems; the same one found twice counts once.
#[derive(Default, Debug)]
pub(crate) struct Problems {
    /// Names of the sources.
    pub sources: IdVec<SourceId, String>,
    /// Those that are files.
    files: Vec<SourceId>,
    found: Vec<(Place, String)>,
}

impl Problems {
    pub fn source(&mut self, name: String) -> SourceId {
        self.sources.push(name);
        self.sources.count() - 1
    }

    /// A source that is a file.
    pub fn file(&mut self, path: String) -> u32 {
        let source = self.source(path);
        self.files.push(source);
        source
    }

    /// The path of a source that is a file.
    pub fn file_of(&self, source: u32) -> Option<&str> {
        self.files.contains(&source).then(|| &*self.sources[source])
    }

    pub fn add(&mut self, at: Place, message: String) {
        let problem = (at, message);
        if !self.found.contains(&problem) {
            self.found.push(problem);
        }
    }

    pub fn len(&self) -> usize {
        self.found.len()
    }
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// For problems that are told elsewhere, in the same sources.
    pub fn aside(&self) -> Problems {
        let Problems { sources, files, .. } = self;
        Problems { sources: sources.clone(), files: files.clone(), found: Vec::new() }
    }

    /// For further problems in sources known already.
    pub fn of(sources: IdVec<SourceId, String>) -> Problems {
        Problems { sources, ..Problems::default() }
    }

    pub fn into_result(mut self) -> Result<(), ConfigError> {
        if self.found.is_empty() {
            return Ok(());
        }
        self.found.sort_by_key(|(at, _)| *at); // stable: in order of discovery at one place
        let problems = self.found.into_iter().map(|(at, message)| Problem {
            source: self.sources[at.source].clone(),
            position: (at.line > 0).then_some((at.line, at.column)),
            message,
        });
        Err(ConfigError { problems: problems.collect() })
    }
}
