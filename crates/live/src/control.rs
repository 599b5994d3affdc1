//! Workload attributes of processes, for a drive that is mounted as a folder: what FlashShare's
//! sched_setworkload_attr and sched_getworkload_attr do in its kernel (Zhang et al., OSDI 2018).
//!
//! A process's attribute is asked for over a local socket, a line each way: `set PID latency`, `get PID`; `ok
//! latency` or `error WHY`. Who asks may do it for processes of his own, and root for all, as with sched_setattr.
//! A process that is started later has what its parent had then. Requests of FUSE say which thread made them; those
//! of the kernel's own write-back say none, and have no attribute.

use crate::Error;
use crate::listen::OwnFile;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use wordline_base::Workload;

/// How long a thread's attribute is taken as it was found.
const KNOWN_FOR: Duration = Duration::from_millis(100);
/// Threads that are remembered.
const KNOWN: usize = 4096;
/// Generations that are looked through.
const ANCESTORS: usize = 64;
/// A line is no longer.
const LINE: u64 = 64;
/// Who has connected says what he wants within.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the system says of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Process {
    parent: u32,
    /// Clock ticks from the system's start to its own: with its number it is one process alone.
    started: u64,
}

/// Where processes are found, by number.
trait Processes {
    fn process(&self, pid: u32) -> Option<Process>;
    /// The process that a thread belongs to.
    fn of_thread(&self, tid: u32) -> Option<u32>;
    /// The attribute that it was started with.
    fn started_with(&self, pid: u32) -> Option<Workload>;
}

/// What `wordline chworkload_attr -- PROGRAM` puts into the program's environment: what it starts keeps it, also
/// when those in between are over and another process is its parent.
pub const VARIABLE: &str = "WORDLINE_WORKLOAD_ATTR";

/// /proc (proc(5)).
struct Proc;

impl Processes for Proc {
    fn process(&self, pid: u32) -> Option<Process> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name stands in brackets and may hold anything.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let parent = fields.nth(1)?.parse().ok()?;
        let started = fields.nth(17)?.parse().ok()?;
        Some(Process { parent, started })
    }
    fn of_thread(&self, tid: u32) -> Option<u32> {
        let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
    }
    fn started_with(&self, pid: u32) -> Option<Workload> {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        let word = environment.split(|&b| b == 0).find_map(|variable| {
            std::str::from_utf8(variable).ok()?.strip_prefix(VARIABLE)?.strip_prefix('=')
        })?;
        Workload::ALL.into_iter().find(|w| w.name() == word)
    }
}

/// One process's attributes, the newest last, each with the tick from which on it holds.
#[derive(Debug)]
struct Marks {
    started: u64,
    since: Vec<(u64, Workload)>,
}

#[derive(Debug, Default)]
struct Table {
    marks: BTreeMap<u32, Marks>,
}

impl Table {
    fn set(&mut self, at: &impl Processes, pid: u32, workload: Workload, now: u64) -> bool {
        let Some(process) = at.process(pid) else { return false };
        // Marks of processes that have ended are dropped.
        self.marks
            .retain(|&pid, marks| at.process(pid).is_some_and(|p| p.started == marks.started));
        let marks =
            self.marks.entry(pid).or_insert(Marks { started: process.started, since: Vec::new() });
        marks.since.push((now, workload));
        true
    }

    /// What a process has: its own, or what its parent had when it was started, or what it was started with if
    /// no parent tells.
    fn get(&self, at: &impl Processes, pid: u32) -> Workload {
        let asked = pid;
        let (mut pid, mut until) = (pid, u64::MAX);
        for _ in 0..ANCESTORS {
            let Some(process) = at.process(pid) else { break };
            if let Some(marks) = self.marks.get(&pid).filter(|m| m.started == process.started)
                && let Some((_, workload)) = marks.since.iter().rev().find(|(at, _)| *at <= until)
            {
                return *workload;
            }
            (pid, until) = (process.parent, process.started);
            if pid == 0 {
                break;
            }
        }
        at.started_with(asked).unwrap_or_default()
    }
}

/// The attributes of all processes.
#[derive(Debug, Default)]
pub struct Attributes {
    table: Mutex<Table>,
    /// Somebody has one.
    any: AtomicBool,
}

impl Attributes {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn set(&self, pid: u32, workload: Workload) -> bool {
        let known = self.table().set(&Proc, pid, workload, ticks());
        self.any.fetch_or(known, Ordering::Relaxed);
        known
    }

    fn get(&self, pid: u32) -> Option<Workload> {
        Proc.process(pid)?;
        Some(self.table().get(&Proc, pid))
    }
}

/// Clock ticks since the system's start: 100 a second for programs on all of Linux' architectures but Alpha.
fn ticks() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec as u64 * 100 + now.tv_nsec as u64 / 10_000_000
}

/// The attributes of threads that make requests, looked up once in a while.
#[derive(Debug, Default)]
pub(crate) struct Known {
    attributes: Arc<Attributes>,
    threads: BTreeMap<u32, (Workload, Instant)>,
}

impl Known {
    pub fn new(attributes: Arc<Attributes>) -> Known {
        Known { attributes, threads: BTreeMap::new() }
    }

    /// The attribute of the process of a thread; 0 is no thread.
    pub fn of(&mut self, tid: u32) -> Workload {
        if tid == 0 || !self.attributes.any.load(Ordering::Relaxed) {
            return Workload::None;
        }
        let now = Instant::now();
        if let Some(&(workload, at)) = self.threads.get(&tid)
            && now.duration_since(at) < KNOWN_FOR
        {
            return workload;
        }
        if self.threads.len() >= KNOWN {
            self.threads.clear();
        }
        let pid = Proc.of_thread(tid).unwrap_or(tid);
        let workload = self.attributes.table().get(&Proc, pid);
        self.threads.insert(tid, (workload, now));
        workload
    }
}

/// The socket, and the thread that answers there.
#[derive(Debug)]
pub(crate) struct Control {
    _socket: OwnFile,
}

impl Control {
    pub fn start(path: &Path, attributes: Arc<Attributes>) -> Result<Control, Error> {
        let failed = |why: std::io::Error| Error::Control { path: path.into(), why };
        // One that a killed server left answers nobody.
        if UnixStream::connect(path).is_ok() {
            return Err(Error::ControlInUse(path.into()));
        }
        let is_socket =
            |m: std::fs::Metadata| std::os::unix::fs::FileTypeExt::is_socket(&m.file_type());
        if std::fs::symlink_metadata(path).is_ok_and(is_socket) {
            let _ = std::fs::remove_file(path);
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        let socket = OwnFile::new(path).map_err(failed)?;
        // Everybody may ask: who it is decides.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).map_err(failed)?;
        let serve = move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    // Out of descriptors, for instance: others may be let in later.
                    std::thread::sleep(Duration::from_millis(100));
                    continue;
                };
                let _ = answer(&attributes, stream);
            }
        };
        std::thread::Builder::new().name("control".into()).spawn(serve).map_err(failed)?;
        Ok(Control { _socket: socket })
    }
}

fn answer(attributes: &Attributes, stream: UnixStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let caller = rustix::net::sockopt::socket_peercred(stream.as_fd())?.uid.as_raw();
    let mut line = String::new();
    BufReader::new((&stream).take(LINE)).read_line(&mut line)?;
    let told = match act(attributes, caller, line.trim_end()) {
        Ok(workload) => format!("ok {}\n", workload.name()),
        Err(why) => format!("error {why}\n"),
    };
    (&stream).write_all(told.as_bytes())
}

/// Why nothing is set or told.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
enum Refusal {
    #[error("'{0}' is no process number")]
    Number(String),
    #[error("there is no process {0}: ps lists those that run")]
    Process(u32),
    #[error("process {pid} belongs to user {owner}: only that user or root may set its attribute")]
    Owner { pid: u32, owner: u32 },
    #[error("'{0}' is no attribute: none, latency or throughput")]
    Attribute(String),
    #[error("'{0}' is neither get nor set")]
    Verb(String),
}

fn act(attributes: &Attributes, caller: u32, line: &str) -> Result<Workload, Refusal> {
    let mut words = line.split(' ');
    let (verb, pid) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let pid: u32 = pid.parse().map_err(|_| Refusal::Number(pid.into()))?;
    // A process is meant, whichever of its threads is named.
    let pid = Proc.of_thread(pid).ok_or(Refusal::Process(pid))?;
    let metadata = std::fs::metadata(format!("/proc/{pid}"));
    let owner = metadata.map_err(|_| Refusal::Process(pid))?.uid();
    match verb {
        "get" => attributes.get(pid).ok_or(Refusal::Process(pid)),
        "set" if caller != 0 && caller != owner => Err(Refusal::Owner { pid, owner }),
        "set" => {
            let word = words.next().unwrap_or("");
            let workload = Workload::ALL.into_iter().find(|w| w.name() == word);
            let workload = workload.ok_or_else(|| Refusal::Attribute(word.into()))?;
            match attributes.set(pid, workload) {
                true => Ok(workload),
                false => Err(Refusal::Process(pid)),
            }
        }
        _ => Err(Refusal::Verb(verb.into())),
    }
}

/// Asks the server at a socket for a process's attribute, or to set it. What it answers.
pub fn ask(socket: &Path, pid: u32, set: Option<Workload>) -> Result<Workload, Error> {
    let lost = |e: std::io::Error| {
        let why = match e.kind() {
            std::io::ErrorKind::WouldBlock => format!("within {} s", PATIENCE.as_secs()),
            _ => e.to_string(),
        };
        Error::NoAnswer { socket: socket.into(), why }
    };
    let mut stream = UnixStream::connect(socket).map_err(lost)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(lost)?;
    let line = match set {
        Some(workload) => format!("set {pid} {}\n", workload.name()),
        None => format!("get {pid}\n"),
    };
    stream.write_all(line.as_bytes()).map_err(lost)?;
    let mut told = String::new();
    BufReader::new(stream.take(1024)).read_line(&mut told).map_err(lost)?;
    let told = told.trim_end();
    let word = told.strip_prefix("ok ");
    let found = word.and_then(|word| Workload::ALL.into_iter().find(|w| w.name() == word));
    found.ok_or_else(|| match told.strip_prefix("error ") {
        Some(why) => Error::Refused(why.into()),
        None => Error::Foreign { socket: socket.into(), told: told.into() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// pid, parent, started.
    struct Family(Vec<(u32, u32, u64)>);

    impl Processes for Family {
        fn process(&self, pid: u32) -> Option<Process> {
            let of = self.0.iter().find(|p| p.0 == pid)?;
            Some(Process { parent: of.1, started: of.2 })
        }
        fn of_thread(&self, tid: u32) -> Option<u32> {
            Some(tid)
        }
        fn started_with(&self, pid: u32) -> Option<Workload> {
            (pid == 50).then_some(Workload::Throughput)
        }
    }

    #[test]
    fn a_child_has_what_its_parent_had_when_it_was_started() {
        let family =
            Family(vec![(1, 0, 0), (10, 1, 100), (20, 10, 200), (30, 20, 300), (40, 10, 400)]);
        let mut table = Table::default();
        assert_eq!(table.get(&family, 30), Workload::None);
        assert!(table.set(&family, 10, Workload::Latency, 150));
        let all = |table: &Table| [10, 20, 30, 40].map(|pid| table.get(&family, pid));
        use Workload::{Latency, None, Throughput};
        assert_eq!(all(&table), [Latency; 4]);
        // What the parent is told later is not the child's.
        assert!(table.set(&family, 10, Throughput, 350));
        assert_eq!(all(&table), [Throughput, Latency, Latency, Throughput]);
        assert!(table.set(&family, 20, None, 360));
        assert_eq!(all(&table), [Throughput, None, Latency, Throughput]);
        assert!(!table.set(&family, 99, Latency, 1), "there is no such process");
        // One whose parent is over has what it was started with, until it is told otherwise.
        let orphan = Family(vec![(1, 0, 0), (50, 1, 500)]);
        assert_eq!(table.get(&orphan, 50), Throughput);
        assert!(table.set(&orphan, 50, None, 600));
        assert_eq!(table.get(&orphan, 50), None);
    }

    #[test]
    fn another_process_of_the_same_number_has_nothing() {
        let mut table = Table::default();
        assert!(table.set(&Family(vec![(10, 1, 100)]), 10, Workload::Latency, 150));
        assert_eq!(table.get(&Family(vec![(10, 1, 101)]), 10), Workload::None);
    }

    #[test]
    fn the_system_tells_the_start_of_this_process() {
        let own = std::process::id();
        let process = Proc.process(own).expect("this process runs");
        assert!(process.started > 0 && process.started <= ticks());
        assert_eq!(process.parent, std::os::unix::process::parent_id());
        assert_eq!(Proc.of_thread(own), Some(own));
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        assert_eq!(Proc.of_thread(tid), Some(own));
        assert_eq!(Proc.process(u32::MAX), None);
    }

    #[test]
    fn a_server_is_asked_over_its_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        let attributes = Arc::new(Attributes::default());
        let control = Control::start(&path, Arc::clone(&attributes)).unwrap();
        let own = std::process::id();
        let mut known = Known::new(attributes);
        assert_eq!(known.of(own), Workload::None);
        assert_eq!(ask(&path, own, None).unwrap(), Workload::None);
        assert_eq!(ask(&path, own, Some(Workload::Latency)).unwrap(), Workload::Latency);
        assert_eq!(ask(&path, own, None).unwrap(), Workload::Latency);
        assert_eq!(known.of(own), Workload::Latency);
        let error = ask(&path, u32::MAX, Some(Workload::Latency)).unwrap_err().to_string();
        assert!(error.contains("there is no process"), "{error}");
        let error = Control::start(&path, Arc::default()).unwrap_err().to_string();
        assert!(error.contains("another server listens"), "{error}");
        drop(control);
        assert!(!path.exists());
    }

    #[test]
    fn attributes_of_other_users_processes_may_not_be_set() {
        let attributes = Attributes::default();
        let own = std::process::id();
        let error = act(&attributes, 4_000_000, &format!("set {own} latency")).unwrap_err();
        assert!(matches!(error, Refusal::Owner { .. }), "{error}");
        assert_eq!(act(&attributes, 0, &format!("set {own} latency")), Ok(Workload::Latency));
        // Anybody may look.
        assert_eq!(act(&attributes, 4_000_000, &format!("get {own}")), Ok(Workload::Latency));
        for bad in ["set x latency", "set", "", "put 1 latency", &format!("set {own} fast")] {
            assert!(act(&attributes, 0, bad).is_err(), "{bad}");
        }
    }
}
