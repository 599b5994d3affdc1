//! The server: one thread that owns the machine, and everything that can be read or written without
//! waiting. Two others write and sync the image; there are no more.
//!
//! A turn: events that are due, answers to what they ended, output, then sleep until the next event
//! or the next input, and requests go in. With a time scale of 0 the machine runs as fast as it can
//! while anybody waits for it.

mod clients;
mod requests;

use crate::access::{ImageIo, Journal};
use crate::clock::{Clock, END, Look};
use crate::conn::Conn;
use crate::control::{Attributes, Control, Known};
use crate::error::{Error, ListenFault, RunError};
use crate::http::{CONNECTIONS as SCRAPES, Scrape};
use crate::image::Image;
use crate::listen::{Address, Listener};
use crate::machine::{Done, Fault, IoKind, Machine, Request, fault_of};
use crate::media::Media;
use crate::mount::Mount;
use crate::recover::{Finding, recover};
use crate::stats::Stats;
use crate::table::Table;
use crate::tape::{Recorder, Tape};
use crate::tls;
use crate::writer::Writer;
use clients::Refusals;
use requests::Pending;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wordline_base::{BadValue, Span, Time};
use wordline_device::DriveConfig;
use wordline_nbd::Export;

/// How figures are printed as the server runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatsForm {
    /// A line of text.
    Line,
    /// An object in JSON.
    Json,
}

/// What a server is asked to do.
pub struct Plan {
    /// The drive.
    pub system: DriveConfig,
    /// The same as TOML.
    pub profile: String,
    /// The file that keeps the drive.
    pub image: PathBuf,
    /// Where to record the session.
    pub tape: Option<PathBuf>,
    /// Where clients of NBD connect.
    pub listen: Vec<Address>,
    /// A folder to show the drive in, as a file.
    pub fuse: Option<PathBuf>,
    /// The socket where workload attributes of processes are set: for the folder.
    pub control: Option<PathBuf>,
    /// A folder of certificates.
    pub tls: Option<PathBuf>,
    /// Clients of this machine need no TLS.
    pub tls_optional: bool,
    /// Plain TCP also where others can reach it.
    pub plain_tcp: bool,
    /// Bytes for what all clients have under way.
    pub client_memory: u64,
    /// Only what is known of a damaged image is served, and nothing is changed.
    pub salvage: bool,
    /// Seconds on the wall for one of the model; 0: as fast as possible.
    pub time_scale: f64,
    /// The thread asks again and again in place of sleeping.
    pub spin: bool,
    /// The image is synced, so that it survives a crash of the system.
    pub sync: bool,
    /// How the image is read and written.
    pub image_io: ImageIo,
    /// Where to note what is done to the image.
    pub journal: Option<Arc<Journal>>,
    /// Clients at a time.
    pub max_connections: usize,
    /// How figures are printed, and how often.
    pub stats: Option<(StatsForm, Duration)>,
    /// Where Prometheus may ask for figures.
    pub prometheus: Option<SocketAddr>,
}

/// The longest sleep: connections are looked at this often.
const LOOK: Duration = Duration::from_millis(500);
/// Between tries to write an image that cannot be written.
const RETRY: Duration = Duration::from_millis(100);
/// This far behind the clock, the machine does not follow it, and that is told.
const BEHIND: Duration = Duration::from_secs(1);
/// What is told when the drive loses a write or takes no more.
const READ_ONLY: &str = "the drive can take no more writes and is read-only: writes, trims and flushes fail. What was \
                         answered and not flushed may be lost, and a read that would find older data fails";
/// What to do where no space can be made, and where the map may not grow.
const COPY: &str = "With too few good blocks it is read-only after the next start as well. Copy its data to a new image \
                    with more spare (ftl.over_provisioning)";
const MORE_MEMORY: &str = "start the server with a higher --host-memory, or without it";
/// Events between two looks at the sockets, while somebody waits and while nobody does.
const TURN: u64 = 4096;
const IDLE_TURN: u64 = 64;
/// Events between two looks at what they have answered.
const SLICE: u64 = 16;
/// How far the drive goes on with its own affairs when nobody waits and time is free.
const REST: Span = Span(1_000_000_000);

/// The faces of the drive: name, queue, and what it is for.
const FACES: [(&str, u16, &str); 3] = [
    ("", 0, "the drive"),
    ("lat", 1, "the drive, for those who wait: its commands come first"),
    ("thr", 2, "the drive, for bulk: its commands are of the low class"),
];

/// A served drive.
pub struct Server {
    plan: Plan,
    machine: Machine,
    clock: Clock,
    look: Look,
    /// When sockets were looked at last.
    looked: Instant,
    /// With free time: when the drive rests.
    rest: Time,
    /// Sockets where clients of NBD connect.
    listeners: Vec<Listener>,
    /// Clients could not be let in: tried again then.
    deaf_until: Option<Instant>,
    /// The folder with the drive in it.
    mount: Option<Mount>,
    /// The attributes of processes that use the folder.
    known: Known,
    /// The socket where attributes are set.
    control: Option<Control>,
    /// Where figures are asked for.
    metrics: Option<TcpListener>,
    /// Connections that ask for figures.
    scrapes: Vec<Scrape>,
    /// Clients of NBD.
    conns: Table<Conn>,
    /// Clients let in so far: tells one from the next in its place.
    generation: u32,
    /// Names that the drive has for clients.
    exports: Arc<[Export]>,
    /// The queue of each export.
    queue_of: Vec<u16>,
    /// Certificates, if clients need TLS.
    tls_config: Option<Arc<tls::Certificates>>,
    /// Requests of NBD that the machine has.
    pending: Table<Pending>,
    /// Memory of those among them whose clients have left.
    orphaned: u64,
    /// Answers that wait for a sync.
    unsynced: Vec<Done>,
    /// Figures since the start.
    stats: Stats,
    /// When figures were printed last.
    last_line: Instant,
    /// It was told that the machine is behind, and has not caught up since.
    behind: bool,
    /// For people.
    told: Option<String>,
    /// Clients that were not served, by why.
    refusals: Refusals,
    /// A client waits for memory that others hold.
    short: bool,
    /// Clients past their handshake.
    served: usize,
    /// Somebody wants the server to end.
    stop: Arc<AtomicBool>,
    /// Readable when `stop` was set.
    wake: OwnedFd,
    /// What the steps of the start found.
    report: Vec<Finding>,
    /// Why too few blocks are good to write.
    worn: Option<BadValue>,
    /// Nothing is written.
    read_only: bool,
    /// It ends: no more requests are taken.
    closing: bool,
    /// Bytes of zeroes that may still be written for requests under way.
    last_zeroes: u64,
    /// A client has sent requests that were not looked at in this turn.
    left_over: bool,
}

impl Server {
    /// Everything that can be wrong shows here. `wake` is readable when `stop` was set.
    pub fn new(plan: Plan, stop: Arc<AtomicBool>, wake: OwnedFd) -> Result<Server, Error> {
        let path = plan.tape.clone();
        let tape = path.as_deref().map(Recorder::create).transpose()?;
        Server::with_tape(plan, tape, stop, wake).inspect_err(|_| {
            // A tape of nothing would stand in the way of the next try.
            let _ = path.map(std::fs::remove_file);
        })
    }
    fn with_tape(
        plan: Plan,
        tape_file: Option<File>,
        stop: Arc<AtomicBool>,
        wake: OwnedFd,
    ) -> Result<Server, Error> {
        let tls_config = plan.tls.as_deref().map(tls::load).transpose()?;
        let open = plan.listen.iter().find(|a| !a.is_local());
        if let Some(address) = open.filter(|_| tls_config.is_none() && !plan.plain_tcp) {
            let remedy = "give --tls FOLDER with certificates, or --plain-tcp if all of them may read and \
                          write the drive";
            return Err(Error::Open { place: address.to_string(), remedy });
        }
        let image = Image::open(&plan.image, !plan.salvage)?.by(plan.image_io)?;
        let image = Arc::new(image.journalled(plan.journal.clone()));
        let mut recovered = recover(&image, &plan.system, !plan.salvage)?;
        if !plan.salvage && !recovered.damage.is_none() {
            return Err(recovered.damage.explain(&image));
        }
        let report = recovered.report.clone();
        let worn = recovered.worn.clone();
        let read_only = plan.salvage || worn.is_some();
        if worn.is_some() && plan.tape.is_some() {
            return Err(Error::NothingToTape);
        }
        let listeners = plan.listen.iter().map(Listener::bind).collect::<Result<Vec<_>, _>>()?;
        let metrics = plan.prometheus.map(listen_http).transpose()?;
        let size = image.superblock.size;
        let attributes = Arc::new(Attributes::default());
        let control =
            plan.control.as_deref().map(|path| Control::start(path, Arc::clone(&attributes)));
        let control = control.transpose()?;
        // After all else that makes files: in the folder they would wait for this thread to answer.
        let mount = plan
            .fuse
            .as_deref()
            .map(|f| Mount::new(f, size, plan.system.device.lba, read_only))
            .transpose()?;
        let failed = |e: std::io::Error| Error::from(RunError::Start(e));
        let writer = Writer::start(Arc::clone(&image), !plan.sync).map_err(failed)?;
        let order = recovered.order - 1;
        // What recovery dropped and what it was told stays true after a crash of the host.
        if !read_only {
            let begun = image.sync().and_then(|()| image.write_state(order));
            let begun = begun.and_then(|()| image.sync());
            begun.map_err(|e| Error::io("cannot write the image", image.path(), e))?;
        }
        let mut tape = Tape::Off;
        if let Some((path, file)) = plan.tape.as_deref().zip(tape_file) {
            tape = Tape::Record(Recorder::begin(path, file, &image, &plan.profile)?);
            // As a replay will find it.
            recovered = recover(&image, &plan.system, false)?;
        }
        let media = Media::new(image, &mut recovered, writer, &plan.system);
        let mut machine = Machine::new(&plan.system, recovered, Some(media), tape, size)?;
        if read_only {
            machine.only_read();
        }
        let mut exports = Vec::new();
        let mut queue_of = Vec::new();
        for (name, queue, description) in FACES {
            for as_read_only in [false, true] {
                let suffix = match (name, as_read_only) {
                    (_, false) => "",
                    ("", true) => "ro",
                    _ => "-ro",
                };
                exports.push(Export {
                    name: format!("{name}{suffix}"),
                    description: format!(
                        "{description}{}",
                        if as_read_only { ", read only" } else { "" }
                    ),
                    size,
                    read_only: as_read_only || read_only,
                });
                queue_of.push(queue.min(machine.queues() - 1));
            }
        }
        let stats = Stats::new(&machine);
        let clock = Clock::new(plan.time_scale, plan.spin);
        Ok(Server {
            machine,
            clock,
            look: Look::default(),
            looked: Instant::now(),
            rest: Time(0) + REST,
            listeners,
            deaf_until: None,
            mount,
            known: Known::new(attributes),
            control,
            metrics,
            scrapes: Vec::new(),
            conns: Table::default(),
            generation: 0,
            exports: exports.into(),
            queue_of,
            tls_config,
            pending: Table::default(),
            orphaned: 0,
            unsynced: Vec::new(),
            closing: false,
            last_zeroes: u64::MAX,
            left_over: false,
            stats,
            last_line: Instant::now(),
            behind: false,
            told: None,
            refusals: Refusals::default(),
            short: false,
            served: 0,
            stop,
            wake,
            report,
            worn,
            read_only,
            plan,
        })
    }
    /// What the steps of the start found.
    pub fn report(&self) -> &[Finding] {
        &self.report
    }
    /// Too few blocks are good to write, so that the drive is only read: why.
    pub fn worn(&self) -> Option<&BadValue> {
        self.worn.as_ref()
    }
    /// Bytes exported.
    pub fn size(&self) -> u64 {
        self.machine.size()
    }
    /// Ranges of bytes of which it is not known what they hold.
    pub fn unproven(&self) -> Vec<(u64, u64)> {
        self.machine.media().damage.unproven(self.size())
    }

    /// Serves until told to stop, then shuts the drive down. `say` gets lines for people.
    pub fn run(mut self, say: &mut dyn FnMut(&str)) -> Result<(), Error> {
        // Deadlines are met by this thread's timers: none of the kernel's slack.
        let _ = rustix::thread::set_current_timer_slack(Some(
            std::num::NonZeroU64::new(1).expect("one is not zero"),
        ));
        self.clock = Clock::new(self.plan.time_scale, self.plan.spin);
        let (mut stalled, mut failed) = (false, self.read_only);
        let (mut refused, mut full, mut spent) = (false, self.read_only, false);
        let mut over = false;
        while !self.stop.load(Ordering::Relaxed) {
            over = self.is_over();
            if over {
                say("the model's time is over");
                break;
            }
            self.advance();
            if let Some(told) = self.told.take() {
                say(&told);
            }
            let part = self.part();
            self.refusals.tell(&self.plan, part).iter().for_each(|told| say(told));
            self.deliver();
            self.flush_all();
            self.machine.media_mut().writer.kick();
            if !failed && let Some((_, why)) = self.machine.media().writer.failed() {
                failed = true;
                say(&format!(
                    "a sync of the image failed: {why}. The system may have dropped what it could \
                     not write, and does not say what. Reads go on; writes, trims and flushes fail \
                     until the server is started again, which looks at what is there. Before that \
                     look at its disk (dmesg); a file system that became read-only has to be \
                     unmounted and mounted again"
                ));
            }
            if !full && self.machine.is_read_only() {
                full = true;
                self.offer_reads_alone();
                let spare_left = self.machine.spare_left();
                say(
                    &match self.machine.refuses_for_space() || !self.machine.refuses_for_memory() {
                        true => format!("{READ_ONLY}. {COPY}: {spare_left}"),
                        false => format!("{FULL_MAP}: {READ_ONLY}. To go on, {MORE_MEMORY}"),
                    },
                );
            }
            if !failed && !full && self.machine.stalled().is_some() != stalled {
                stalled = !stalled;
                let why = self.machine.media().writer.last_stall();
                say(&match why.filter(|_| stalled) {
                    Some((kind, why)) => format!(
                        "the image cannot be written ({why}): writes and flushes fail, reads go on, \
                         and it is tried again; {}",
                        remedy_of(kind)
                    ),
                    None => "the image can be written again".into(),
                });
            }
            if !refused && !full && self.machine.refuses_for_memory() {
                refused = true;
                say(&format!(
                    "{FULL_MAP}: writes that need more of it fail, what is there is kept and can be written over and \
                     trimmed; {MORE_MEMORY}"
                ));
            }
            if !spent && let Some(at) = self.machine.spent() {
                spent = true;
                say(&format!(
                    "the sector at byte {at} takes no more writes: {SPENT}. What it holds can be read and trimmed; to \
                     write it again, copy the drive's data to a new image over NBD"
                ));
            }
            self.wait();
            if let Some(why) = self.machine.tape.step() {
                say(&why);
            }
            if self.mount.as_ref().is_some_and(Mount::is_over) {
                self.mount = None;
                say("the folder was unmounted");
                if self.listeners.is_empty() {
                    break;
                }
            }
            if let Some((form, every)) = self.plan.stats
                && self.last_line.elapsed() >= every
            {
                self.last_line = Instant::now();
                say(&match form {
                    StatsForm::Line => self.stats.line(&self.machine),
                    StatsForm::Json => self.stats.snapshot(&self.machine).json(),
                });
            }
        }
        self.shut_down(say)?;
        match self.machine.ctx.stamps.wrong().0 {
            0 if over => Err(RunError::TimeOver.into()),
            0 => Ok(()),
            wrong => Err(RunError::WrongReads(wrong).into()),
        }
    }
    /// No time of the model is left. A drive that is only read needs none.
    fn is_over(&self) -> bool {
        let now = if self.clock.is_free() { self.machine.now() } else { self.clock.now() };
        now >= END && !self.read_only
    }

    /// Clients that come from now on are told that the drive takes no writes. Those that are there cannot be: their
    /// writes fail.
    fn offer_reads_alone(&mut self) {
        let alone = |export: &Export| Export { read_only: true, ..export.clone() };
        self.exports = self.exports.iter().map(alone).collect();
        if let Some(mount) = &mut self.mount {
            mount.only_read();
        }
    }

    fn shut_down(&mut self, say: &mut dyn FnMut(&str)) -> Result<(), Error> {
        self.listeners.clear();
        self.control = None;
        self.closing = true;
        self.last_zeroes = LAST_ZEROES;
        say("shutting down");
        if self.read_only {
            self.flush_all();
            self.mount = None;
            say(self.stats.summary(&self.machine, self.plan.time_scale == 0.0).trim_end());
            return Ok(());
        }
        self.settle();
        // What was answered but not asked to be durable is made so all the same.
        let flush = Request {
            tag: u64::MAX,
            kind: IoKind::Flush,
            offset: 0,
            len: 0,
            fua: false,
            queue: 0,
            pid: 0,
            data: Vec::new(),
        };
        let now = self.machine.now();
        self.machine.submit(now, flush, &[]);
        let drained = self.settle();
        self.flush_all();
        self.mount = None;
        say(self.stats.summary(&self.machine, self.plan.time_scale == 0.0).trim_end());
        let path = self.machine.media().image.path().to_path_buf();
        let failed = |e: &dyn std::fmt::Display| {
            Error::from(RunError::Image { path: path.clone(), why: e.to_string() })
        };
        if self.machine.is_read_only() {
            return Err(failed(
                &"the drive went read-only, and writes that were answered after the last flush may be lost",
            ));
        }
        if !drained {
            let why = self.machine.media().writer.last_stall();
            let why = why.map_or(String::new(), |(_, why)| format!(" ({why})"));
            return Err(failed(&format!("it is stalled{why}")));
        }
        self.machine.close().map_err(|e| failed(&e))?;
        let digest = self.machine.state_digest();
        let (now, events) = (self.machine.now(), self.machine.ctx.queue.popped());
        if let Some(told) = self.machine.tape.end(now, events, digest)? {
            say(&told);
        }
        Ok(())
    }

    /// Ends what is under way, with what follows from its answers. False: the drive is stalled.
    fn settle(&mut self) -> bool {
        loop {
            let drained = self.machine.drain();
            self.deliver();
            for mut done in std::mem::take(&mut self.unsynced) {
                if let Some(ticket) = done.sync
                    && let Err((kind, _)) = self.machine.media_mut().writer.wait(ticket)
                {
                    done.result = Err(fault_of(kind));
                }
                self.answer(done);
            }
            if !drained || self.machine.in_flight() == 0 {
                return drained;
            }
        }
    }

    /// Delivers what is due at a time, and looks first at how far the model is behind the clock:
    /// whoever runs it catches up, in a turn or for an input.
    fn follow(&mut self, until: Time, limit: u64) -> u64 {
        if self.clock.is_free() {
            return self.machine.run(until, limit);
        }
        let due = self.machine.next_event();
        let behind = Duration::from_nanos(due.map_or(0, |at| self.clock.late(at)));
        self.stats.behind = self.stats.behind.max(behind);
        if behind >= BEHIND && !self.behind {
            self.behind = true;
            self.told = Some(format!(
                "the model is {:.1} s behind the clock, and answers are late by as much: this \
                 machine or the image's disk does not follow the drive (its collector has moved \
                 {} MiB since the start)",
                behind.as_secs_f64(),
                self.stats.collected(&self.machine) >> 20
            ));
        }
        self.behind &= behind >= BEHIND / 10;
        self.machine.run(until, limit)
    }
    /// The machine goes on as far as time allows.
    fn advance(&mut self) {
        if self.machine.stalled().is_some() {
            self.machine.run(Time(0), 0);
            return;
        }
        if !self.clock.is_free() {
            // What is answered leaves before more is done of what is due.
            let now = self.clock.now();
            let mut left = TURN;
            while left > 0 && self.machine.answers() == 0 {
                match self.follow(now, SLICE.min(left)) {
                    0 => return,
                    n => left -= n,
                }
            }
            return;
        }
        let last = Time(Time::NEVER.0 - 1);
        if self.machine.in_flight() == 0 {
            self.machine.run(self.rest, IDLE_TURN);
            return;
        }
        let mut left = TURN;
        while self.machine.in_flight() > 0 && left > 0 && self.machine.answers() < 32 {
            match self.machine.run(last, SLICE) {
                0 => return,
                n => left -= n.min(left),
            }
        }
    }

    /// Sleeps until something is to be done, and takes what has come.
    fn wait(&mut self) {
        let mut timeout = LOOK;
        if let Some((_, every)) = self.plan.stats {
            timeout = timeout.min(every.saturating_sub(self.last_line.elapsed()));
        }
        if self.machine.stalled().is_some() {
            timeout = timeout.min(RETRY);
        } else if let Some(at) = self.machine.next_event() {
            let idle = self.machine.in_flight() == 0 && at > self.rest;
            timeout = match self.clock.is_free() {
                false => timeout.min(self.clock.sleep(at)),
                true if idle => timeout,
                true => Duration::ZERO,
            };
        } else if self.machine.media_mut().is_full() {
            self.machine.media().wake_for_room();
        }
        if std::mem::take(&mut self.left_over) {
            timeout = Duration::ZERO;
        }
        let conns: Vec<u32> = self.conns.keys().collect();
        let mut room = Vec::with_capacity(conns.len());
        for &key in &conns {
            let session = &self.conns[key].session;
            let more = session.growth() as u64 + session.next_bytes();
            room.push(self.has_room(key, more));
        }
        let mut ready = Vec::new();
        let (accept, http, woken, fuse);
        {
            let mut fds = Vec::with_capacity(conns.len() + 8);
            fds.push(PollFd::new(&self.wake, PollFlags::IN));
            fds.push(PollFd::new(self.machine.media().writer.wake(), PollFlags::IN));
            for (&key, &room) in conns.iter().zip(&room) {
                let c = &self.conns[key];
                let mut wants = PollFlags::empty();
                wants.set(PollFlags::IN, c.wants_read() && room);
                wants.set(PollFlags::OUT, c.wants_write());
                fds.push(PollFd::from_borrowed_fd(c.stream().as_fd(), wants));
            }
            let listening = fds.len();
            let deaf = self.deaf_until.is_some_and(|until| Instant::now() < until);
            let wants = if deaf { PollFlags::empty() } else { PollFlags::IN };
            for l in &self.listeners {
                fds.push(PollFd::from_borrowed_fd(l.as_fd(), wants));
            }
            let scraping = fds.len();
            if let Some(l) = &self.metrics {
                fds.push(PollFd::from_borrowed_fd(l.as_fd(), PollFlags::IN));
            }
            for s in &self.scrapes {
                let wants = if s.wants_write() { PollFlags::OUT } else { PollFlags::IN };
                fds.push(PollFd::from_borrowed_fd(s.stream.as_fd(), wants));
            }
            let mounted = fds.len();
            if let Some(mount) = self.mount.as_ref().filter(|m| m.wants_read()) {
                fds.push(PollFd::from_borrowed_fd(mount.fd(), PollFlags::IN));
            }
            let window = if self.plan.spin { self.look.window() } else { Duration::ZERO };
            let unseen = self.looked.elapsed();
            let looked = look(&mut fds, timeout, window);
            self.looked = Instant::now();
            match looked {
                None => return,
                Some((true, idle)) => self.look.learn(idle),
                Some((false, _)) => {}
            }
            let came = |fd: &PollFd| !fd.revents().is_empty();
            if !self.clock.is_free() {
                // What was there at the first look came at any time since the one before.
                let unseen =
                    if looked == Some((true, Duration::ZERO)) { unseen } else { Duration::ZERO };
                let inputs = fds[2..listening].iter().chain(&fds[mounted..]).filter(|fd| came(fd));
                inputs.for_each(|_| self.stats.unseen.add(unseen.as_nanos() as u64));
            }
            for (i, &key) in conns.iter().enumerate() {
                if came(&fds[2 + i]) {
                    let gone = fds[2 + i].revents().intersects(PollFlags::HUP | PollFlags::ERR);
                    ready.push((key, room[i], gone));
                }
            }
            woken = came(&fds[1]);
            accept = fds[listening..scraping].iter().any(came);
            http = fds[scraping..mounted].iter().any(came);
            fuse = fds[mounted..].iter().any(came);
        }
        if woken {
            self.machine.media().writer.clear_wake();
        }
        for (key, room, gone) in ready {
            if self.conns[key].wants_read() && room {
                self.conns[key].receive();
            } else if gone {
                // Nobody would take the answer to what it waits for.
                self.conns[key].end();
            } else {
                self.conns[key].flush();
            }
            self.requests(key);
            if self.conns[key].is_gone() {
                self.let_go(key);
            }
        }
        while fuse && let Some(mut request) = self.mount.as_mut().and_then(Mount::next) {
            request.queue = self.machine.queue_for(self.known.of(request.pid));
            self.stats.asked(&request);
            let at = self.input_time();
            let data = self.mount.as_ref().map_or(&[][..], Mount::payload);
            self.machine.submit(at, request, data);
        }
        if accept {
            self.accept();
        }
        if http || !self.scrapes.is_empty() {
            self.scrape();
        }
    }

    /// The machine's time for an input that comes now; everything before it is done.
    fn input_time(&mut self) -> Time {
        let at = if self.clock.is_free() { self.machine.now() } else { self.clock.now() };
        let at = at.max(self.machine.now());
        self.follow(at, u64::MAX);
        self.rest = at + REST;
        at
    }

    fn scrape(&mut self) {
        if let Some(listener) = &self.metrics {
            while let Ok((stream, _)) = listener.accept() {
                if self.scrapes.len() < SCRAPES && stream.set_nonblocking(true).is_ok() {
                    self.scrapes.push(Scrape::new(stream));
                }
            }
        }
        let (stats, machine) = (&self.stats, &self.machine);
        for s in &mut self.scrapes {
            s.step(|| stats.snapshot(machine).prometheus());
        }
        self.scrapes.retain(|s| !s.is_over());
    }
}

/// Bytes of zeroes that are no hole which are written after the server was told to end.
const LAST_ZEROES: u64 = 64 << 20;

/// Why writes of a sector fail whose stamps are used up.
const SPENT: &str = "it was written 2147483646 times, as often as the image can count";

/// Why writes fail whose place in the map there is no memory for.
const FULL_MAP: &str = "the map would pass its limit of memory (ftl.fssd.host_memory)";

fn remedy_of(kind: std::io::ErrorKind) -> &'static str {
    match fault_of(kind) {
        Fault::NoSpace if kind == std::io::ErrorKind::FileTooLarge => {
            "raise this process's limit on file size (prlimit --fsize)"
        }
        Fault::NoSpace => "free space on its disk",
        Fault::NoMemory | Fault::Spent | Fault::Io | Fault::Ends => {
            "look at its disk (dmesg); a file system that became read-only takes no writes until \
             this server is stopped and the file system mounted again"
        }
    }
}

/// Waits for one of these, at first without sleeping. Whether any came, and after how long; zero: it
/// was there before.
fn look(fds: &mut [PollFd<'_>], timeout: Duration, window: Duration) -> Option<(bool, Duration)> {
    let begun = Instant::now();
    let mut idle = Duration::ZERO;
    let mut left = Duration::ZERO;
    loop {
        let time =
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        if poll(fds, Some(&time)).ok()? > 0 {
            return Some((true, if idle.is_zero() { idle } else { begun.elapsed() }));
        }
        idle = begun.elapsed().max(Duration::from_nanos(1));
        if !left.is_zero() || idle >= timeout {
            return Some((false, idle));
        }
        if idle < window {
            // Whoever is to send it may need this processor.
            rustix::thread::sched_yield();
        } else {
            left = timeout - idle;
        }
    }
}

fn listen_http(address: SocketAddr) -> Result<TcpListener, Error> {
    let failed = |e: std::io::Error| Error::Listen {
        place: address.to_string(),
        fault: ListenFault::Other(e),
    };
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}
