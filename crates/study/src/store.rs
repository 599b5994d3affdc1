//! Results on disk: a file a point, which is there whole or not at all.

use crate::error::StoreError;
use crate::plan::Point;
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use wordline_cache::digest;

/// Writes a file that appears under its name only when it is complete.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    let unfinished = PathBuf::from(name);
    let written = (|| {
        let mut file = File::create(&unfinished)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&unfinished, path)
    })();
    written.map_err(|e| {
        let _ = fs::remove_file(&unfinished);
        StoreError::write(path)(e)
    })
}

/// Where the points of a study are kept. Nobody else writes there while this lives.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// Digest of the program: other programs' results are not its own.
    build: String,
    /// None where only what is there is read.
    _lock: Option<File>,
}

impl Store {
    /// Locks the study's folder, which is made if it is not there.
    pub fn open(out: &Path, study: &str, build: &str) -> Result<Store, StoreError> {
        let folder = out.join(study).join("points");
        if !folder.exists()
            && let Some(path) = strangers(out, study)
        {
            return Err(StoreError::Stranger { path });
        }
        fs::create_dir_all(&folder).map_err(StoreError::write(&folder))?;
        let path = out.join(study).join(".lock");
        let lock = File::create(&path).map_err(StoreError::write(&path))?;
        lock.try_lock().map_err(|_| StoreError::InUse { folder: folder.clone() })?;
        Ok(Store { folder, build: build.into(), _lock: Some(lock) })
    }

    /// Only to read what is there, which may be nothing.
    pub fn look(out: &Path, study: &str, build: &str) -> Store {
        Store { folder: out.join(study).join("points"), build: build.into(), _lock: None }
    }

    /// The file of a point's result.
    pub fn path(&self, point: &Point) -> PathBuf {
        self.folder.join(format!("{}.json", point.key))
    }

    /// Keeps a point's result, JSON+ of fio's form.
    pub fn keep(&self, point: &Point, result: &str) -> Result<(), StoreError> {
        write(&self.path(point), record(point, &self.build, result).as_bytes())
    }

    /// The result of a point, if it is there and this program's.
    pub fn result(&self, point: &Point) -> Option<Value> {
        result(&self.path(point), point, &self.build)
    }
}

/// Of files with the names of a study's tables, the first that a study has not written: its tables would replace it.
fn strangers(out: &Path, study: &str) -> Option<PathBuf> {
    let name = |path: &Path| path.file_name()?.to_str().map(str::to_owned);
    let is_table = |path: &PathBuf| {
        let rest = name(path)
            .and_then(|name| name.strip_prefix(study)?.strip_prefix('.').map(str::to_owned));
        rest.is_some_and(|rest| {
            ["csv", "json", "svg"].contains(&rest.rsplit('.').next().unwrap_or(""))
        })
    };
    let is_ours = |path: &PathBuf| {
        let text = fs::read_to_string(path.with_extension("json"));
        let table = text.ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
        table.is_some_and(|table| table["study"].is_string() && table["points"].is_array())
    };
    let files = fs::read_dir(out).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    files.filter(is_table).filter(|path| !is_ours(path)).min()
}

/// What stands between a point and its result in a file.
const RESULT: &str = ", \"result\":\n";

/// What is at `path`, if it is a point's result by this program, and as it was written.
pub fn result(path: &Path, point: &Point, build: &str) -> Option<Value> {
    let text = fs::read_to_string(path).ok()?;
    let mut record: Value = serde_json::from_str(&text).ok()?;
    let (_, result) = text.split_once(RESULT)?;
    let digest = digest(result.strip_suffix("}\n")?);
    let same = record["key"] == point.key && record["build"] == build && record["digest"] == digest;
    same.then(|| record["result"].take())
}

/// The text of a point's file.
pub fn record(point: &Point, build: &str, result: &str) -> String {
    let values: Vec<_> = point
        .values
        .iter()
        .map(|(n, v)| format!("{}: {}", Value::from(&**n), Value::from(&**v)))
        .collect();
    format!(
        "{{\"key\": \"{}\", \"build\": \"{build}\", \"point\": {{{}}}, \"digest\": \"{}\"{RESULT}{result}}}\n",
        point.key,
        values.join(", "),
        digest(result),
    )
}
