//! A server of its own for each test.

pub use crate::skip::skip;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wordline_nbd::Client;

/// What lasts longer hangs, however busy the machine is.
pub const HANGS: Duration = Duration::from_secs(180);

pub struct Place {
    pub dir: tempfile::TempDir,
    pub args: Vec<String>,
}

pub struct Running {
    child: Child,
    /// What it has said so far.
    pub said: Arc<Mutex<String>>,
    /// Hears it to its end.
    listener: Option<JoinHandle<()>>,
}

/// Ways to read and write an image, as far as this machine has them.
pub fn image_ios() -> Vec<&'static str> {
    match wordline_live::ImageIo::Uring.check() {
        Ok(()) => vec!["--image-io pwrite", "--image-io uring"],
        Err(e) => {
            skip(&e.to_string());
            vec!["--image-io pwrite"]
        }
    }
}

pub fn wordline() -> Command {
    Command::new(env!("CARGO_BIN_EXE_wordline"))
}

#[track_caller]
pub fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < HANGS, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for a program's end, which comes.
#[track_caller]
pub fn ended(child: &mut Child) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begun.elapsed() > HANGS {
            let _ = child.kill();
            panic!("a program does not end");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A program of others, ended if it hangs: what it does not say otherwise is status 124.
pub fn program(name: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", &HANGS.as_secs().to_string(), name]);
    command
}

/// Runs a program of others that has to succeed; none: it is not installed, said loudly.
#[track_caller]
pub fn run(name: &str, args: &[&str]) -> Option<String> {
    let out = program(name).args(args).output().unwrap();
    if out.status.code() == Some(127) {
        skip(&format!("{name} is not installed; make test installs it"));
        return None;
    }
    let text = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{name} {args:?}: {} {text}", out.status);
    Some(text.into_owned())
}

pub fn mount(words: &[&str], on: &Path) -> bool {
    Command::new("mount").args(words).arg(on).output().is_ok_and(|out| out.status.success())
}
/// A folder with a file system on it, as long as this lasts.
pub struct Mounted {
    pub on: PathBuf,
}

impl Mounted {
    pub fn new(words: &[&str], on: &Path) -> Option<Mounted> {
        mount(words, on).then(|| Mounted { on: on.into() })
    }
}
impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.on).output();
    }
}

/// A socket that is silent for so long that the test must end.
pub fn connect(path: &std::path::Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(HANGS)).unwrap();
    stream.set_write_timeout(Some(HANGS)).unwrap();
    stream
}

impl Place {
    /// `args` as on the command line, apart from the image, and the socket unless they name one.
    pub fn new(args: &str) -> Place {
        let dir = tempfile::tempdir().unwrap();
        let mut all = vec![
            "serve".to_string(),
            "--image".into(),
            dir.path().join("drive.img").display().to_string(),
        ];
        all.extend(args.split_whitespace().map(String::from));
        if !args.contains("--nbd") {
            all.extend(["--nbd".into(), format!("unix:{}", dir.path().join("s").display())]);
        }
        Place { dir, args: all }
    }
    pub fn image(&self) -> PathBuf {
        PathBuf::from(&self.args[2])
    }
    /// The same with its image elsewhere.
    pub fn with_image(mut self, image: PathBuf) -> Place {
        self.args[2] = image.display().to_string();
        self
    }
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }
    /// Starts the server and waits until it serves.
    pub fn start(&self) -> Running {
        self.start_with(&[])
    }
    pub fn start_with(&self, more: &[&str]) -> Running {
        self.try_start(more).unwrap_or_else(|said| panic!("it did not start: {said}"))
    }
    /// Run by another program.
    pub fn start_under(&self, words: &[&str]) -> Running {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(wordline().get_program());
        self.run(command, &[]).unwrap_or_else(|said| panic!("it did not start: {said}"))
    }
    /// What it said, if it did not start.
    pub fn try_start(&self, more: &[&str]) -> Result<Running, String> {
        self.run(wordline(), more)
    }
    fn run(&self, mut command: Command, more: &[&str]) -> Result<Running, String> {
        command.args(&self.args).args(more).stderr(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let said = Arc::new(Mutex::new(String::new()));
        let shared = Arc::clone(&said);
        let (serving, serves) = channel();
        let listener = std::thread::spawn(move || {
            let mut line = String::new();
            while lines.read_line(&mut line).is_ok_and(|n| n > 0) {
                shared.lock().unwrap().push_str(&line);
                if line.starts_with("serving ") {
                    let _ = serving.send(());
                }
                line.clear();
            }
        });
        let mut running = Running { child, said, listener: Some(listener) };
        match serves.recv_timeout(HANGS) {
            Ok(()) => Ok(running),
            Err(RecvTimeoutError::Disconnected) => Err(running.finish().1),
            Err(RecvTimeoutError::Timeout) => panic!("it does not begin: {}", running.so_far()),
        }
    }
    pub fn client(&self, export: &str) -> Client<UnixStream> {
        Client::connect(connect(&self.socket()), export, true).unwrap()
    }
}

/// A server on a port that was free a moment ago; on another one if somebody took it since.
pub fn start_on_port(args: impl Fn(u16) -> String) -> (Place, Running, u16) {
    for _ in 0..20 {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let place = Place::new(&args(port));
        match place.try_start(&[]) {
            Ok(server) => return (place, server, port),
            Err(said) => assert!(said.contains("listen"), "it did not start: {said}"),
        }
    }
    panic!("no port stays free");
}

impl Running {
    /// SIGTERM, and its end: exit status and everything it said.
    pub fn stop(self) -> (Option<i32>, String) {
        self.end(Signal::TERM)
    }
    pub fn end(mut self, signal: Signal) -> (Option<i32>, String) {
        self.signal(signal);
        self.finish()
    }
    /// Its exit status, and everything it said.
    fn finish(&mut self) -> (Option<i32>, String) {
        let status = ended(&mut self.child);
        // Nobody else has its standard error: nothing more is said.
        self.listener.take().expect("it ends once").join().unwrap();
        (status.code(), self.so_far())
    }
    pub fn so_far(&self) -> String {
        self.said.lock().unwrap().clone()
    }
    pub fn kill(mut self) {
        self.signal(Signal::KILL);
        ended(&mut self.child);
    }
    pub fn id(&self) -> u32 {
        self.child.id()
    }
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
