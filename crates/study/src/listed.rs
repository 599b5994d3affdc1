//! The machine of a point that lists its drives, hosts and what joins them.

use crate::error::PointError;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use wordline::{Common, Error, Named, Profiles, ReadFile, System, Topology};

/// A topology with all that it names outside the presets, so that a process that runs the point reads no file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Listed {
    /// The file, as messages name it: the study's, where the text stands there.
    pub file: String,
    /// Lines of that file above the text.
    pub above: u32,
    /// Its text.
    pub text: String,
    /// What hosts and drives have that say nothing else.
    pub common: Common,
    /// Texts of the files that profiles were read from.
    pub files: BTreeMap<String, String>,
}

struct ByName<'a>(ReadFile<'a>);

impl Profiles for ByName<'_> {
    fn open(&mut self, name: &str) -> Result<Named, Error> {
        if !is_file(name) {
            return Ok(Named::Preset(name.into()));
        }
        match (self.0)(name) {
            Ok(text) => Ok(Named::File { name: name.into(), text }),
            Err(why) => {
                let error = PointError::Profile { name: name.into(), why };
                Err(Error::Open(Box::new(error)))
            }
        }
    }
    fn files(&self) -> Option<ReadFile<'_>> {
        Some(self.0)
    }
}

/// A profile's name is that of a file: no preset has it, and it looks so.
pub fn is_file(name: &str) -> bool {
    !wordline_profile::is_preset(name) && (name.ends_with(".toml") || name.contains('/'))
}

impl Listed {
    /// All that decides what the machine is.
    pub fn about(&self) -> String {
        format!(" {:?} {:?} {:?}", self.text, self.common, self.files)
    }

    /// Takes in the files that the topology names; the machine.
    pub fn read(&mut self, read: ReadFile<'_>) -> Result<System, PointError> {
        let seen = RefCell::new(BTreeMap::new());
        let reading = |path: &str| {
            let text = read(path)?;
            seen.borrow_mut().insert(path.to_owned(), text.clone());
            Ok(text)
        };
        let system = self.system_by(&reading)?;
        self.files = seen.into_inner();
        Ok(system)
    }

    /// The machine, from what was read before.
    pub fn system(&self) -> Result<System, PointError> {
        let known = |path: &str| self.files.get(path).cloned();
        self.system_by(&|path| known(path).ok_or_else(|| io::ErrorKind::NotFound.into()))
    }

    fn system_by(&self, read: ReadFile<'_>) -> Result<System, PointError> {
        // Empty lines above, so that places are the study's own.
        let text = "\n".repeat(self.above as usize) + &self.text;
        Ok(Topology::parse(&self.file, &text)?.system(&self.common, &mut ByName(read))?)
    }
}
