//! A server of its own for each test.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use wordline_nbd::Client;

pub struct Place {
    pub dir: tempfile::TempDir,
    pub args: Vec<String>,
}

pub struct Running {
    child: Child,
    /// What it has said so far.
    pub said: std::sync::Arc<std::sync::Mutex<String>>,
}

/// Says what is not tested here, past the capture of output.
pub fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
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
        let mut first = String::new();
        while !first.contains("\nserving ") && !first.starts_with("serving ") {
            if lines.read_line(&mut first).unwrap() == 0 {
                child.wait().unwrap();
                return Err(first);
            }
        }
        let said = std::sync::Arc::new(std::sync::Mutex::new(first));
        let shared = std::sync::Arc::clone(&said);
        std::thread::spawn(move || {
            let mut line = String::new();
            while lines.read_line(&mut line).is_ok_and(|n| n > 0) {
                shared.lock().unwrap().push_str(&line);
                line.clear();
            }
        });
        Ok(Running { child, said })
    }
    pub fn client(&self, export: &str) -> Client<UnixStream> {
        Client::connect(UnixStream::connect(self.socket()).unwrap(), export, true).unwrap()
    }
}

impl Running {
    /// SIGTERM, and its end: exit status and everything it said.
    pub fn stop(self) -> (Option<i32>, String) {
        self.end(nix::sys::signal::Signal::SIGTERM)
    }
    pub fn end(mut self, signal: nix::sys::signal::Signal) -> (Option<i32>, String) {
        self.signal(signal);
        let status = self.child.wait().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        (status.code(), self.said.lock().unwrap().clone())
    }
    pub fn kill(mut self) {
        self.signal(nix::sys::signal::Signal::SIGKILL);
        self.child.wait().unwrap();
    }
    pub fn id(&self) -> u32 {
        self.child.id()
    }
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        nix::sys::signal::kill(pid, signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
