//! A folder of its own to run the program in.

use crate::skip::skip;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// What lasts longer hangs, however busy the machine is.
const HANGS: Duration = Duration::from_secs(180);

#[track_caller]
pub fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < HANGS, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The program on its way; it ends with the test.
pub struct Started {
    /// None once it has been waited for.
    child: Option<Child>,
    id: u32,
}

impl Started {
    pub fn id(&self) -> u32 {
        self.id
    }
    /// Sends a signal, unless it is over.
    pub fn send(&mut self, signal: Signal) {
        if !self.is_over() {
            let pid = Pid::from_raw(self.id as i32).expect("a process");
            kill_process(pid, signal).expect("it is not waited for yet");
        }
    }
    fn proc(&self, name: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{name}", self.id)).unwrap_or_default()
    }
    /// A mask of signals in its status, by its name there.
    pub fn signals(&self, name: &str) -> u64 {
        let status = self.proc("status");
        let mask = status.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
        mask.map_or(0, |mask| u64::from_str_radix(mask.trim(), 16).expect("a mask"))
    }
    /// Hundredths of a second of a processor that it has had.
    pub fn processor(&self) -> u64 {
        let stat = self.proc("stat");
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
        fields.skip(11).take(2).map(|f| f.parse::<u64>().expect("a number")).sum()
    }
    pub fn is_over(&mut self) -> bool {
        let child = self.child.as_mut().expect("it is not waited for yet");
        child.try_wait().expect("a status").is_some()
    }
    /// Waits for something it does before it ends.
    #[track_caller]
    pub fn wait_until(&mut self, what: &str, mut is: impl FnMut(&Started) -> bool) {
        let begun = Instant::now();
        while !is(self) {
            assert!(!self.is_over(), "ended before {what}: {:?}", self.output());
            assert!(begun.elapsed() < HANGS, "waited in vain: {what}: {}", self.proc("status"));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    fn output(&mut self) -> Done {
        let child = self.child.take().expect("it is not waited for yet");
        Done::of(child.wait_with_output().expect("its output"), "started")
    }
    /// Its end, which comes, and all it said.
    #[track_caller]
    pub fn end(mut self) -> Done {
        wait_until("the program ends", || self.is_over());
        self.output()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub struct Place {
    dir: tempfile::TempDir,
    /// What the program takes for the user's cache.
    cache: tempfile::TempDir,
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
        let folder = || tempfile::tempdir().expect("a temporary folder");
        Place { dir: folder(), cache: folder() }
    }

    /// Where aged drives are kept.
    pub fn cache(&self) -> PathBuf {
        self.cache.path().join("wordline/drives")
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
        command.env("XDG_CACHE_HOME", self.cache.path());
        command
    }

    /// Starts it with words separated by blanks. What it says has to fit a pipe.
    pub fn start(&self, words: &str) -> Started {
        let mut command = self.command(&words.split_whitespace().collect::<Vec<_>>());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.expect("the program starts");
        Started { id: child.id(), child: Some(child) }
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
        command.env("XDG_CACHE_HOME", self.cache.path());
        done(command.current_dir(self.dir.path()).stdin(Stdio::null()), &[line])
    }

    /// The JSON result of a job.
    pub fn json(&self, words: &str) -> Value {
        let done = self.run(&format!("run {words} --output-format=json")).ok();
        serde_json::from_str(&done.out).expect("JSON")
    }
}

fn done(command: &mut Command, words: &[&str]) -> Done {
    Done::of(command.output().expect("the program starts"), &words.join(" "))
}

impl Done {
    pub fn of(output: Output, words: &str) -> Done {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Done {
            words: words.into(),
            status: output.status.code().unwrap_or(-1),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

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

/// Whether a program can be run here. Where all is to be tested it must be.
pub fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        skip(&format!("{program} is not installed; make setup-test installs it"));
    }
    found
}
