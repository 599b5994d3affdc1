//! A folder of its own to run the program in.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};

pub struct Place {
    dir: tempfile::TempDir,
}

/// What a command did.
#[derive(Debug)]
pub struct Done {
    pub words: String,
    /// -1 if a signal ended it.
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Place {
    pub fn new() -> Place {
        Place { dir: tempfile::tempdir().expect("a temporary folder") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).expect("a file in a temporary folder");
    }

    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// Names of all files, sorted.
    pub fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).expect("the folder");
        let name = |e: std::io::Result<std::fs::DirEntry>| {
            e.expect("an entry").file_name().to_string_lossy().into_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    /// The program with these words, not started yet.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wordline"));
        command.args(words).current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    /// Runs words separated by blanks.
    pub fn run(&self, words: &str) -> Done {
        self.run_words(&words.split_whitespace().collect::<Vec<_>>())
    }

    pub fn run_words(&self, words: &[&str]) -> Done {
        done(&mut self.command(words), words)
    }

    /// Runs a line in a shell, in which `$W` is the program.
    pub fn shell(&self, line: &str) -> Done {
        let mut command = Command::new("sh");
        command.args(["-c", line]).env("W", env!("CARGO_BIN_EXE_wordline"));
        done(command.current_dir(self.dir.path()).stdin(Stdio::null()), &[line])
    }

    /// The JSON result of a job.
    pub fn json(&self, words: &str) -> Value {
        let done = self.run(&format!("run {words} --output-format=json")).ok();
        serde_json::from_str(&done.out).expect("JSON")
    }
}

fn done(command: &mut Command, words: &[&str]) -> Done {
    let output = command.output().expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Done {
        words: words.join(" "),
        status: output.status.code().unwrap_or(-1),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

impl Done {
    /// It was to succeed.
    pub fn ok(self) -> Done {
        assert_eq!(self.status, 0, "{}\n{}", self.words, self.err);
        self
    }

    /// It was to fail with this status and say all this on standard error.
    pub fn fails(self, status: i32, parts: &[&str]) -> Done {
        assert_eq!(self.status, status, "{self:#?}");
        for part in parts {
            assert!(self.err.contains(part), "no {part:?} in: {}\n{}", self.words, self.err);
        }
        assert!(!self.err.contains("panicked"), "{}\n{}", self.words, self.err);
        self
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}\n{}", self.out))
    }
}

/// Integer at a path such as `/jobs/0/read/total_ios`.
pub fn int(value: &Value, path: &str) -> u64 {
    let number = value.pointer(path).and_then(Value::as_u64);
    number.unwrap_or_else(|| panic!("no integer at {path}"))
}

pub fn float(value: &Value, path: &str) -> f64 {
    let number = value.pointer(path).and_then(Value::as_f64);
    number.unwrap_or_else(|| panic!("no number at {path}"))
}

/// Whether a program can be run here; says so loudly if not.
pub fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        eprintln!("SKIPPED: {program} is not installed");
    }
    found
}
