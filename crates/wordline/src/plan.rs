//! From what is to be run to a drive that is ready for it.

use crate::error::{Error, StateError};
use crate::run::{Expected, Run};
use crate::{System, align, parts};
use std::collections::BTreeMap;
use std::io::{self, Cursor, Write};
use std::ops::Range;
use std::sync::Arc;
use wordline_app::{App, AppConfig, Extent};
use wordline_base::{BadValue, SECTOR, Seed, Span, StateSource, Time};
use wordline_device::DriveConfig;
use wordline_fio::{Job, NoEnv, ParseOptions, Plan as Jobs, Size, ZetanCache};
use wordline_host::source::ThreadSpec;
use wordline_host::{Engine, StackConfig};
use wordline_profile::{
    Config, Peak, derive, fifo_write_amplification, uniform_write_amplification,
};
use wordline_sim::{
    AnySource, ArrayNode, BuildError, Drive, DriveNode, ExitRule, JobDisk, JobDisks, Options, Part,
    Precondition, Recorded, Route, Speeds, Start, SystemConfig, ThreadPlan, ThreadSetup,
    TraceSource, Units, World, WriteSampler, Writing, ageing, setup,
};
use wordline_trace::{Align, Clock, OpenOptions, Reader, Wrap};
use wordline_translation::{AgeError, Ended, WindowLimits};

/// What runs on a system: jobs, or a trace. A program is of the system (`Sources::app`); jobs run
/// beside it.
pub enum Workload {
    /// fio's jobs.
    Jobs(Jobs),
    /// A trace, which [`Plan::logs`] opens.
    Replay(Replay),
}

/// A trace, replayed as it was recorded or as fast as it can be.
pub struct Replay {
    /// When requests are issued.
    pub clock: Clock,
    /// What becomes of requests beyond the drive.
    pub wrap: Wrap,
    /// Requests in flight at most.
    pub depth: u32,
}

impl Replay {
    /// In flight at most in a replay by timestamps: an open loop in all but name.
    pub const DEPTH: u32 = 4096;
}

/// Opens the traces that a workload reads.
pub trait Logs {
    /// The trace of a replay (`None`), or of a job with `read_iolog`, for the run. Each is asked for once.
    ///
    /// # Errors
    ///
    /// What the caller finds wrong with the trace: [`Error::Open`], or [`Error::Trace`].
    fn open(&mut self, job: Option<&Job>) -> Result<Reader, Error>;
    /// The same to be read through before the run: to refuse it for a request, or to age a drive with its writes.
    /// None for what can be read once alone, as standard input.
    ///
    /// # Errors
    ///
    /// As [`Logs::open`].
    fn beforehand(&mut self, job: Option<&Job>) -> Result<Option<Reader>, Error>;
}

/// A workload that reads no trace.
pub struct NoLogs;

impl Logs for NoLogs {
    fn open(&mut self, job: Option<&Job>) -> Result<Reader, Error> {
        let of = |job: &Job| format!("{}: job '{}'", job.place, job.name);
        Err(Error::NoLogs { reader: job.map_or("a replay".into(), of) })
    }
    fn beforehand(&mut self, _: Option<&Job>) -> Result<Option<Reader>, Error> {
        Ok(None)
    }
}

/// A trace in memory.
struct InMemory {
    name: String,
    bytes: Arc<[u8]>,
}

impl Logs for InMemory {
    fn open(&mut self, _: Option<&Job>) -> Result<Reader, Error> {
        let options = OpenOptions { name: self.name.clone(), ..OpenOptions::default() };
        Ok(wordline_trace::open(Cursor::new(Arc::clone(&self.bytes)), options)?)
    }
    fn beforehand(&mut self, job: Option<&Job>) -> Result<Option<Reader>, Error> {
        self.open(job).map(Some)
    }
}

/// Jobs in the words of a fio job file, without environment and `include`.
///
/// # Errors
///
/// [`Error::Jobs`]: a line that is no option, or has a value that will not do.
pub fn jobs(name: &str, text: &str) -> Result<Workload, Error> {
    let plan = wordline_fio::parse_file(name, text, &ParseOptions::default(), &mut NoEnv)?;
    Ok(Workload::Jobs(plan))
}

/// Everything that decides a result.
pub struct Plan {
    /// What it runs on.
    pub system: System,
    /// What runs.
    pub workload: Workload,
    /// What opens the traces of the workload.
    pub logs: Box<dyn Logs>,
    /// What runs, in words, for the report.
    pub label: String,
    /// The seed of every random stream of the run. Equal plans with equal seeds give equal results.
    pub seed: u64,
    /// The state that the run finds the drive in.
    pub state: Precondition,
    /// The drive keeps the version of each sector, and every read is held against it.
    pub integrity: bool,
    /// I/O that is not whole logical blocks of the drive.
    pub align: Align,
    /// What is kept of the run beside the result, and when it ends.
    pub options: Options,
}

impl Plan {
    /// With seed 1, on a fresh drive.
    pub fn new(system: System, workload: Workload) -> Plan {
        Plan {
            system,
            workload,
            logs: Box::new(NoLogs),
            label: String::new(),
            seed: 1,
            state: Precondition::None,
            integrity: true,
            align: Align::Error,
            options: Options::default(),
        }
    }

    /// A replay of a trace by its timestamps: its bytes as they are in its file, compressed or not, in a
    /// format that tells itself. `name` is for messages, and a hint to the format. Nothing is read before
    /// [`Plan::check`].
    ///
    /// ```
    /// # use wordline::{Plan, System};
    /// let trace = "128166372003061629,hm,0,Read,4096,4096,100\n";
    /// let system = System::preset("z-ssd-small", "linux-libaio")?;
    /// let result = Plan::replay(system, "hm.csv", trace).prepare()?.start()?.to_end();
    /// assert_eq!(result.machine.served, 1);
    /// # Ok::<(), wordline::Error>(())
    /// ```
    pub fn replay(system: System, name: &str, trace: impl Into<Vec<u8>>) -> Plan {
        let replay = Replay { clock: Clock::Timestamps, wrap: Wrap::Error, depth: Replay::DEPTH };
        let logs = InMemory { name: name.into(), bytes: trace.into().into() };
        let label = format!("replay {name}");
        Plan { logs: Box::new(logs), label, ..Plan::new(system, Workload::Replay(replay)) }
    }

    /// The drives, fresh from the factory.
    fn fresh(&self) -> Result<Vec<Drive>, Error> {
        let fresh = |(d, node): (usize, &DriveNode)| {
            let kind = self.system.ftl.clone();
            Drive::with_ftl(kind, &node.config, self.seed_of(d), self.integrity)
                .map_err(|e| self.system.misfit(e.of(Part::Drive(d))))
        };
        self.system.machine().drives.iter().enumerate().map(fresh).collect()
    }

    /// The seed of a drive: two of one kind are not worn alike.
    fn seed_of(&self, drive: usize) -> Seed {
        match drive {
            0 => Seed(self.seed),
            d => Seed(Seed(self.seed).stream(&format!("drive/{d}")).next_u64()),
        }
    }

    /// Builds everything but the drives' state.
    ///
    /// # Errors
    ///
    /// Values that make no drive ([`Error::Config`], [`Error::Build`]), jobs that this system cannot run ([`Error::Job`],
    /// [`Error::Misaligned`]), traces that cannot be read ([`Error::Trace`], [`Error::Open`], [`Error::NoLogs`]).
    pub fn check(self) -> Result<Checked, Error> {
        let drives = self.fresh()?;
        self.check_all(drives, &mut ZetanCache::default())
    }

    /// The same on drives that are at hand, and with sums that other plans needed too. They must be those
    /// that the plan describes ([`StateError::OtherDrive`]), in its order; whether they check versions is
    /// their own. Drives that are aged already go on with [`Checked::pace`] or [`Checked::as_it_is`].
    ///
    /// # Errors
    ///
    /// As [`Plan::check`], and [`Error::State`] for drives that are not the plan's.
    pub fn check_on(self, drives: Vec<Drive>, zetans: &mut ZetanCache) -> Result<Checked, Error> {
        self.system.holds(&drives)?;
        self.check_all(drives, zetans)
    }

    /// Refuses what is of one drive on a machine of several.
    fn alone(&self, what: &'static str, remedy: &'static str) -> Result<(), StateError> {
        match self.system.machine().drives.len() {
            1 => Ok(()),
            drives => Err(StateError::Several { what, drives, remedy }),
        }
    }

    fn check_all(mut self, drives: Vec<Drive>, zetans: &mut ZetanCache) -> Result<Checked, Error> {
        let machine = self.system.machine();
        let units = self.units(&drives)?;
        let disks = self.disks(&units)?;
        let mut threads = self.threads(&machine, &disks, zetans)?;
        let traces = self.recorded(&disks)?;
        let bays = self.bays(drives, &units, &disks, &traces, zetans)?;
        let apps = self.apps(disks.first().bytes)?;
        let paced = self.state == Precondition::Paced;
        if let Workload::Jobs(jobs) = &self.workload {
            align::check_jobs(jobs, &machine, &disks, self.align, &mut threads)?;
        }
        if paced && !apps.is_empty() {
            return Err(StateError::PaceOfProgram.into());
        }
        if threads.is_empty() && self.system.config.app.is_none() && !apps.is_empty() {
            return Err(StateError::NothingBeside.into());
        }
        let notes = self.ageing_notes(&traces, &bays, !apps.is_empty());
        let layout = layout(&apps);
        let config = &self.system.config;
        for (i, (app, (_, program))) in apps.into_iter().zip(config.programs()).enumerate() {
            let beside = i > 0 || config.app.is_none();
            let on = (&config.stack, disks.first());
            setup::app_threads(app, (program, beside), on, &mut threads);
        }
        let infos: Vec<&Drive> = bays.iter().map(|bay| &bay.drive).collect();
        World::check(&machine, &infos, &mut threads).map_err(|e| self.system.misfit(e))?;
        let first = disks.first().clone();
        let (is_ready, loaded, shared) = (false, false, false);
        Ok(Checked { plan: self, bays, threads, layout, first, notes, is_ready, loaded, shared })
    }

    /// What the traces of the workload write, if that is to age a drive: by the number of the job, 0 for a replay.
    /// Those that can be read once alone have none.
    fn recorded(&mut self, disks: &JobDisks) -> Result<Traces, Error> {
        let mut traces = Traces::new();
        if !self.ages_by_writes() {
            return Ok(traces);
        }
        let Plan { logs, align, workload, .. } = self;
        let mut read = |number, job: Option<&Job>, on: &[JobDisk], source: &Opened| {
            let Some(reader) = logs.beforehand(job)? else { return Ok(()) };
            let bytes = on.iter().map(|disk| disk.bytes).sum::<u64>();
            let most = (bytes as f64 * WindowLimits::default().most) as u64;
            let source = source(reader).on_blocks(largest_block(on), *align);
            traces.insert(number, source.record(most)?);
            Ok::<(), Error>(())
        };
        match workload {
            Workload::Replay(replay) => {
                let on = disks.of_first_host();
                let source = |reader| TraceSource::new(reader, replay.clock, replay.wrap, &on);
                read(0, None, &on, &source)?;
            }
            Workload::Jobs(jobs) => {
                for (number, job) in jobs.jobs.iter().enumerate() {
                    if job.read_iolog.is_some() {
                        let on = disks.place(job)?.disks;
                        let source = |reader| setup::replay_source(job, reader, &on);
                        read(number, Some(job), &on, &source)?;
                    }
                }
            }
        }
        Ok(traces)
    }
    /// The workload's own writes are to age the drive.
    fn ages_by_writes(&self) -> bool {
        use Precondition::{Paced, Random, Steady};
        matches!(self.state, Steady | Random | Paced)
    }
    /// Writes of the run that took no part in ageing the drive.
    fn ageing_notes(&self, traces: &Traces, bays: &[Bay], programs: bool) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.ages_by_writes() {
            return notes;
        }
        let uniform = bays.iter().all(|bay| !bay.sampler.is_own());
        let instead = match self.state {
            Precondition::Steady if uniform => "it was aged by uniform writes",
            _ => "these writes took no part in ageing it",
        };
        if programs {
            notes.push(format!(
                "what a program writes follows from what comes back to it, and is not known before the run finds the \
                 drive: {instead}"
            ));
        }
        notes.extend(shares_note(bays));
        let reads = match &self.workload {
            Workload::Replay(_) => 1,
            Workload::Jobs(jobs) => jobs.jobs.iter().filter(|j| j.read_iolog.is_some()).count(),
        };
        if traces.len() < reads {
            notes.push(format!(
                "a trace that is no file can be read once, so its writes were not known before the run found the \
                 drive: {instead}"
            ));
        } else if reads > 0 && uniform && self.state == Precondition::Steady {
            notes.push(format!("the trace has no writes to age the drive with: {instead}"));
        }
        let (written, room) = (
            traces.values().map(Recorded::bytes).sum::<u64>(),
            bays.iter().map(|bay| bay.drive.bytes()).sum::<u64>(),
        );
        if self.state == Precondition::Steady && written > 0 && written < room {
            notes.push(format!(
                "the trace writes {:.1} MB, {:.2}% of the drive: ageing wrote them again and again in the same order, \
                 which leaves whole lines stale. --precondition random begins with uniform writes",
                written as f64 / 1e6,
                100.0 * written as f64 / room as f64
            ));
        }
        notes
    }

    fn disks(&self, units: &Units) -> Result<JobDisks, Error> {
        let disks = JobDisks::new(&self.system.machine(), &units.bytes());
        disks.map_err(|e| self.system.misfit(e.into()))
    }

    /// What is known of drives and bridges before they are put together.
    fn units(&self, drives: &[Drive]) -> Result<Units, Error> {
        let all: Vec<&Drive> = drives.iter().collect();
        self.system.machine().units(&all).map_err(|e| self.system.misfit(e))
    }

    /// The drives, and what ages each.
    fn bays(
        &self,
        drives: Vec<Drive>,
        units: &Units,
        disks: &JobDisks,
        traces: &Traces,
        zetans: &mut ZetanCache,
    ) -> Result<Vec<Bay>, Error> {
        let machine = self.system.machine();
        let bay = |(d, (drive, node)): (usize, (Drive, &DriveNode))| {
            let own = self.seed_of(d);
            let unit = machine.outermost(d);
            let mut uniform = WriteSampler::uniform(drive.bytes(), drive.nand.geometry.sector, own);
            // Jobs write to the bridge, the drive has its stripes of that.
            let route = (unit != d).then(|| machine.route(d, &units.stripes));
            if let Some(route) = &route {
                uniform = uniform.behind(route.clone(), units.infos[unit].bytes);
            }
            let sampler = match &self.workload {
                Workload::Jobs(plan) => {
                    let (jobs, seed) = (Writing { plan, traces, disks }, Seed(self.seed));
                    let speeds = &|| self.speeds(node);
                    WriteSampler::of_jobs(&jobs, unit, uniform, speeds, seed, zetans)?
                }
                Workload::Replay(_) => match traces.get(&0) {
                    Some(trace) => {
                        WriteSampler::of_trace(trace, &disks.of_first_host(), unit, uniform)
                    }
                    None => uniform.at_full_speed(),
                },
            };
            Ok(Bay { name: node.name.clone(), drive, sampler, seed: own, unit, route })
        };
        drives.into_iter().zip(&machine.drives).enumerate().map(bay).collect()
    }

    /// The programs that run, each as it is after a load. Each has draws of its own.
    fn apps(&self, bytes: u64) -> Result<Vec<App>, Error> {
        let config = &self.system.config;
        let refused = |bad| self.system.misfit(BuildError::Value(bad));
        let mut apps = Vec::new();
        if let Some(app) = &config.app {
            let app = parts::of(config, 0, bytes, app);
            let app = App::new(&config.app_name, &app, bytes, Seed(self.seed));
            apps.push(app.map_err(|bad| refused(bad.below("app")))?);
        }
        for (i, beside) in config.with.iter().enumerate() {
            let app = parts::of(config, apps.len(), bytes, &beside.app);
            let seed = Seed(Seed(self.seed).stream(&format!("with/{i}")).next_u64());
            let app = App::beside(&beside.name, &app, bytes, seed);
            apps.push(app.map_err(|bad| refused(bad.below(&format!("with.{i}"))))?);
        }
        parts::check(config, bytes).map_err(refused)?;
        Ok(apps)
    }

    fn threads(
        &mut self,
        machine: &SystemConfig,
        disks: &JobDisks,
        zetans: &mut ZetanCache,
    ) -> Result<Vec<ThreadSetup>, Error> {
        let Plan { logs, align, seed, .. } = self;
        let how = *align;
        // A trace that is to be refused for a request is read through before anything is simulated.
        // Blocks of 512 bytes fit nearly all traces, and what is no file cannot be read twice: these
        // show on the way.
        let mut open = |job: Option<&Job>, on: &[JobDisk], source: &Opened| {
            let lba = largest_block(on);
            if how == Align::Error
                && lba > 512
                && let Some(reader) = logs.beforehand(job)?
                && let Some(error) = source(reader).on_blocks(lba, how).misaligned()
            {
                return Err(error.into());
            }
            Ok(AnySource::Trace(Box::new(source(logs.open(job)?).on_blocks(lba, how))))
        };
        match &self.workload {
            Workload::Jobs(jobs) => {
                let replay = &mut |job: &Job, on: &[JobDisk]| {
                    open(Some(job), on, &|reader| setup::replay_source(job, reader, on))
                };
                setup::threads(jobs, machine, disks, Seed(*seed), replay, zetans)
            }
            Workload::Replay(replay) => {
                let stack = &machine.hosts[0].stack;
                if stack.engine == Engine::Pvsync2 {
                    let why = "is pvsync2, which has one request in flight, and a trace has many: use --stack \
                               linux-libaio, linux-io_uring or spdk, or --set stack.engine=libaio or io-uring";
                    return Err(self
                        .system
                        .misfit(BuildError::Value(BadValue::new("stack.engine", why))));
                }
                let on = disks.of_first_host();
                let source = |reader| TraceSource::new(reader, replay.clock, replay.wrap, &on);
                let mut thread = replay.thread(stack, &on, open(None, &on, &source)?);
                thread.spec.disks = on.iter().map(|disk| disk.disk).collect();
                Ok(vec![thread])
            }
        }
    }

    /// The drives of several plans, which differ in what they read or in their rate alone. Each goes on
    /// from a copy of them, with [`Plan::check_on`] and [`Checked::pace`]. Jobs that the drives cannot run
    /// are no error here.
    ///
    /// # Errors
    ///
    /// As [`Plan::check_to_share`], and [`Error::State`] where ageing comes to no end.
    pub fn share(self, zetans: &mut ZetanCache) -> Result<Vec<Drive>, Error> {
        Ok(self.check_to_share(zetans)?.prepare(&mut ())?.into_drives())
    }

    /// The same before the drives are aged.
    ///
    /// # Errors
    ///
    /// Values that make no drive ([`Error::Config`], [`Error::Build`]), and a state that is of one drive ([`Error::State`]).
    pub fn check_to_share(mut self, zetans: &mut ZetanCache) -> Result<Checked, Error> {
        let drives = self.fresh()?;
        let units = self.units(&drives)?;
        let disks = self.disks(&units)?;
        let traces = self.recorded(&disks)?;
        let bays = self.bays(drives, &units, &disks, &traces, zetans)?;
        let apps = self.apps(disks.first().bytes)?;
        let layout = layout(&apps);
        let first = disks.first().clone();
        let (threads, notes) = (Vec::new(), Vec::new());
        let (is_ready, loaded, shared) = (false, false, true);
        Ok(Checked { plan: self, bays, threads, layout, first, notes, is_ready, loaded, shared })
    }

    /// What the drives of [`Plan::share`] depend on, as text: plans with equal ones can share them.
    pub fn ageing_key(&self) -> String {
        let System { config, ftl, .. } = &self.system;
        let kind = ftl.as_ref().map(|kind| kind.name());
        let mut key = format!("{kind:?} {}", self.aged_key());
        config.programs().for_each(|(_, app)| key += &AppConfig::layout_key(app));
        key
    }
    /// The same without the files of programs.
    fn aged_key(&self) -> String {
        let Plan { state, seed, integrity, .. } = self;
        let machine = self.system.machine();
        let mut key = format!("{state:?} {seed} {integrity}\n");
        for node in &machine.drives {
            let DriveConfig { nand, device, ftl } = &node.config;
            let (lba, host, bridge) = (device.lba, node.host, node.bridge);
            key += &format!("{lba} {host} {bridge:?} {nand:?}\n{ftl:?}\n");
        }
        for node in &machine.bridges {
            let stripes = node.device.bridge.as_ref().map(|bridge| bridge.stripe_bytes);
            key += &format!("{stripes:?} {:?} {:?}\n", node.bridge, node.members);
        }
        for node in &machine.arrays {
            let ArrayNode { level, members, size, config, .. } = node;
            key += &format!("{level:?} {members:?} {size:?} {}\n", config.chunk);
        }
        if let Some(jobs) = self.jobs()
            && matches!(state, Precondition::Steady | Precondition::Random)
        {
            let (writes, by_speed) = ageing::writes(jobs);
            key += &writes;
            if by_speed {
                key += &self.speeds_key();
            }
        }
        key
    }
    /// How fast the drives are, as text.
    fn speeds_key(&self) -> String {
        let drives = &self.system.machine().drives;
        let of = |node: &DriveNode| self.speeds(node).key();
        drives.iter().map(of).collect()
    }
    /// How fast a drive is by the closed forms of its configuration.
    fn speeds(&self, node: &DriveNode) -> Speeds {
        let DriveConfig { nand, device, ftl } = node.config.clone();
        let config =
            Config { nand, device, ftl, members: Vec::new(), ..self.system.config.clone() };
        let derived = derive(&config);
        let write = |at: Option<&Peak>| at.map_or(1.0, Peak::bytes_per_s);
        // Of what is moved at this write amplification a share of 1 - 1 / WA is in use.
        let amplified = uniform_write_amplification(&config);
        let in_use = 1.0 - 1.0 / amplified;
        // Where no form has the rate of a full drive, that of an empty one less what is moved.
        let share = if derived.uniform_wa.is_some() { 1.0 } else { amplified };
        let read: Span = derived.read_latency.iter().map(|stage| stage.time).sum();
        Speeds {
            fresh: write(derived.random_write.first()),
            aged: write(derived.random_write.last()) / share,
            amplification: fifo_write_amplification,
            physical: if in_use > 0.0 { -in_use.ln() / (1.0 - in_use) } else { f64::MAX },
            // It waits for half a program, in the mean.
            read: read + config.nand.t_program.mean() / 2,
            trim: derived.write_latency.iter().map(|stage| stage.time).sum(),
        }
    }
    fn jobs(&self) -> Option<&Jobs> {
        match &self.workload {
            Workload::Jobs(jobs) => Some(jobs),
            Workload::Replay(_) => None,
        }
    }

    /// Bytes of the smallest write that a job of the plan makes, by what it says; 4096 where none says it.
    pub fn least_write(&self) -> u64 {
        let jobs = self.jobs().into_iter().flat_map(|jobs| &jobs.jobs);
        let writes = jobs.filter(|job| job.sends_writes()).map(|job| match job.bs_is_seq_rand {
            true => job.min_bs[0].min(job.min_bs[1]),
            false => job.min_bs[1],
        });
        writes.min().unwrap_or(4096)
    }

    /// Writes to random places that the plan's jobs make at most, by what they say. A job writes no more places than
    /// its part of the drive has; one that says neither a number nor a size writes all of its drive. Jobs that a time
    /// ends are left out.
    pub fn random_writes(&self) -> u64 {
        let jobs = self.jobs().into_iter().flat_map(|jobs| &jobs.jobs);
        let of = |job: &Job| {
            let bytes = |size: &Option<Size>| match size {
                Some(Size::Bytes(bytes)) => Some(*bytes),
                _ => None,
            };
            let (clones, least) = (u64::from(job.numjobs), job.min_bs[1].max(1));
            let timed = job.time_based || job.runtime > Span::ZERO;
            let places = bytes(&job.size).map_or(u64::MAX, |n| n.div_ceil(least));
            let asked = bytes(&job.io_size).or_else(|| bytes(&job.size)).map(|n| n.div_ceil(least));
            let one = match (job.number_ios, asked) {
                (n @ 1.., asked) => n.min(asked.unwrap_or(u64::MAX)),
                (0, _) if job.time_based => return 0,
                (0, Some(n)) => n,
                (0, None) if timed => return 0,
                (0, None) => u64::MAX,
            };
            one.saturating_mul(job.loops.into()).min(places).saturating_mul(clones)
        };
        let writing = jobs.filter(|job| job.sends_writes() && job.rw.is_random());
        writing.map(of).fold(0, u64::saturating_add)
    }

    /// Ages a drive for the plan, and shows where it is wrong before that.
    ///
    /// # Errors
    ///
    /// As [`Plan::check`], and [`Error::State`] where ageing comes to no end.
    pub fn prepare(self) -> Result<Prepared, Error> {
        self.check()?.prepare(&mut ())
    }
}

/// What traces write, by the number of the job that reads them.
type Traces = BTreeMap<usize, Recorded>;
/// Makes a source of a trace that was opened.
type Opened<'a> = dyn Fn(Reader) -> TraceSource + 'a;

/// Bytes of the largest logical block of these disks.
fn largest_block(on: &[JobDisk]) -> u32 {
    on.iter().map(|disk| disk.lba).max().unwrap_or(512)
}

/// What the files of programs take, one program behind the other.
fn layout(apps: &[App]) -> Vec<Extent> {
    apps.iter().flat_map(App::layout).collect()
}

impl Replay {
    /// On the stack's engine.
    fn thread(&self, stack: &StackConfig, on: &[JobDisk], source: AnySource) -> ThreadSetup {
        let engine = stack.engine;
        let by_interrupt = setup::by_interrupt(stack, engine, on);
        let mut spec = ThreadSpec::new("replay", engine, self.depth);
        spec.continue_on_error = true;
        spec.hipri = stack.hipri && engine == Engine::IoUring;
        // A ring that is polled takes no fsync (IORING_SETUP_IOPOLL): a call makes it.
        spec.ring_syncs = matches!(engine, Engine::Libaio | Engine::IoUring) && !spec.hipri;
        // By timestamps the submitter may be late; what comes back must not wait for it. A ring or a queue in
        // user mode is the submitter's own to look at.
        let timed = self.clock != Clock::ClosedLoop;
        (spec.reaper, spec.reaps_between) = match engine {
            Engine::Libaio => (timed, false),
            _ => (false, timed),
        };
        // fio's defaults for everything a report needs.
        let plan = ThreadPlan {
            name: "replay".into(),
            ioengine: setup::engine_name(engine).into(),
            iodepth: self.depth,
            clat_percentiles: true,
            reported: true,
            percentile_list: Job::new("replay", Default::default()).percentile_list,
            bw_interval: setup::SAMPLES,
            iops_interval: setup::SAMPLES,
            ..ThreadPlan::default()
        };
        let (start, exit) = (Start::At(Time::ZERO), ExitRule::default());
        ThreadSetup { host: 0, plan, spec, by_interrupt, source, start, exit }
    }
}

/// A part of the work before a run that may take a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Every sector is written once, in order.
    Fill {
        /// Bytes of the drive.
        bytes: u64,
    },
    /// The drive is overwritten until its state is that of `how`; with `own` by the jobs' own writes.
    Age {
        /// The state.
        how: Precondition,
        /// The jobs' own writes do it.
        own: bool,
    },
    /// A program's files are written.
    Lay {
        /// Bytes that the files need.
        bytes: u64,
    },
}

/// Is told how preparing a drive goes.
pub trait Watch {
    /// What follows is about this drive of several.
    fn drive(&mut self, _name: &str) {}
    /// A step begins.
    fn begin(&mut self, _step: Step) {}
    /// It is over, and left the drive so.
    fn done(&mut self, _step: Step, _drive: &Drive) {}
    /// Asked now and then while a drive is aged.
    ///
    /// # Errors
    ///
    /// Why ageing ends here.
    fn look(&mut self) -> Result<(), Ended> {
        Ok(())
    }
}

/// The jobs' shares of what ageing writes, where they are estimated or are those of jobs at different times.
fn shares_note(bays: &[Bay]) -> Option<String> {
    /// Jobs that a note has room for.
    const MOST: usize = 8;
    let of = |bay: &Bay| {
        let (shares, estimated) = bay.sampler.shares();
        let named = shares.iter().take(MOST);
        let named = named.map(|(name, share)| format!("{name} {:.1}%", 100.0 * share));
        let more = if shares.len() > MOST { ", and others" } else { "" };
        let text = named.collect::<Vec<_>>().join(", ") + more;
        ((estimated || bay.sampler.is_apart()) && shares.len() > 1).then_some(text)
    };
    let all: Vec<_> = bays.iter().filter_map(|bay| Some((&bay.name, of(bay)?))).collect();
    let (_, first) = all.first()?;
    let shares = match all.len() == bays.len() && all.iter().all(|(_, text)| text == first) {
        true => first.clone(),
        false => {
            let of = |(name, text): &(&String, String)| format!("{name}: {text}");
            all.iter().map(of).collect::<Vec<_>>().join("; ")
        }
    };
    if bays.iter().any(|bay| bay.sampler.is_apart()) {
        return Some(format!(
            "jobs that write do not all run at the same time (startdelay, runtime, and size without time_based): ageing \
             wrote and trimmed with their shares of a whole run, all the time, as after runs one after the other: \
             {shares}. The drive is in the state of no one stretch of the run: for that of the time in which all write \
             give them the same startdelay and runtime, and time_based"
        ));
    }
    Some(format!(
        "the jobs' shares of what ageing wrote and trimmed are estimated from their rates, pauses, queue depths and block sizes: \
         {shares}"
    ))
}

/// Nobody watches.
impl Watch for () {}

/// A drive, and what ages it.
struct Bay {
    name: String,
    drive: Drive,
    sampler: WriteSampler,
    seed: Seed,
    /// What its host sees of it.
    unit: usize,
    /// Where it is behind bridges.
    route: Option<Route>,
}

/// A plan that can run, on drives whose state is still to come.
pub struct Checked {
    plan: Plan,
    bays: Vec<Bay>,
    threads: Vec<ThreadSetup>,
    /// What a program's files take.
    layout: Vec<Extent>,
    /// The disk that they are on.
    first: JobDisk,
    /// What is to be known of ageing.
    notes: Vec<String>,
    /// The drives are in the plan's state, but for a program's files.
    is_ready: bool,
    /// The drive's state is one that was saved, in place of the plan's.
    loaded: bool,
    /// Plans that share the drive go on from it at a pace of their own.
    shared: bool,
}

impl Checked {
    /// What was checked.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
    /// The first drive, as it is so far.
    pub fn drive(&self) -> &Drive {
        &self.bays[0].drive
    }
    /// The threads that will run, a program's behind those of jobs.
    pub fn threads(&self) -> &[ThreadSetup] {
        &self.threads
    }

    /// Takes up a state that [`Checked::save`] wrote, in place of the plan's.
    ///
    /// # Errors
    ///
    /// A state that is damaged, cut short, or of another drive ([`StateError::Saved`]), or cannot be read ([`StateError::Io`]).
    pub fn load(&mut self, from: &mut dyn StateSource) -> Result<(), StateError> {
        self.plan.alone("a saved state", "prepare it anew, with --precondition")?;
        self.bays[0].drive.load(&self.plan.system.config.device_name, None, from)?;
        (self.loaded, self.is_ready) = (true, true);
        Ok(())
    }

    /// All that decides the state which [`Checked::age`] brings the drive into, as text. None where that
    /// takes no time, and where it cannot be told: of several drives, of one behind a bridge, and of an FTL
    /// from outside.
    pub fn ageing_key(&self) -> Option<String> {
        let Plan { system, state, .. } = &self.plan;
        let ages = match state {
            Precondition::None => false,
            Precondition::Fill => self.bays[0].drive.fills_slowly(),
            _ => true,
        };
        let simple = match &*self.bays {
            [bay] => bay.route.is_none() && self.first.array.is_none(),
            _ => false,
        };
        if self.is_ready || !ages || !simple || system.ftl.is_some() {
            return None;
        }
        let mut key = self.plan.aged_key();
        if *state == Precondition::Paced {
            let rate = system.config.device.limits.program_rate;
            let jobs = self.plan.jobs().map(|jobs| &jobs.jobs);
            key += &match self.shared {
                true => "before its pace".into(),
                false => format!("at most {rate} B/s of {jobs:?}"),
            };
            if self.plan.jobs().is_some_and(|jobs| ageing::writes(jobs).1) {
                key += &self.plan.speeds_key();
            }
        }
        key += &self.bays[0].sampler.traces_key(*state == Precondition::Paced);
        Some(key)
    }
    /// Takes up the state that [`Checked::save_aged`] wrote with this key: the plan's, as if the drive had
    /// been aged. After an error the drive is as it was.
    ///
    /// # Errors
    ///
    /// As [`Checked::load`], and a state that was saved with another key.
    pub fn load_aged(&mut self, key: &str, from: &mut dyn StateSource) -> Result<(), StateError> {
        self.plan.alone("a saved state", "prepare it anew, with --precondition")?;
        self.bays[0].drive.load(&self.plan.system.config.device_name, Some(key), from)?;
        self.is_ready = true;
        Ok(())
    }
    /// Writes the state that the drive was aged to.
    ///
    /// # Errors
    ///
    /// What writing gives. [`io::ErrorKind::Unsupported`]: an FTL from outside that has no `save`.
    pub fn save_aged(&self, key: &str, to: &mut dyn Write) -> io::Result<()> {
        self.can_be_saved().map_err(io::Error::other)?;
        let config = &self.plan.system.config;
        self.bays[0].drive.save(&config.device_name, &config.ftl_name, key, to)
    }

    /// Writes the drive's state.
    ///
    /// # Errors
    ///
    /// As [`Checked::save_aged`].
    pub fn save(&self, to: &mut dyn Write) -> io::Result<()> {
        self.save_aged("", to)
    }
    /// A state is of one drive.
    ///
    /// # Errors
    ///
    /// [`StateError::Several`]: there is more than one drive.
    pub fn can_be_saved(&self) -> Result<(), StateError> {
        let remedy = match self.plan.system.machine().bridges.is_empty() {
            true => "save each drive in a run of its own",
            false => "drives behind a bridge are prepared anew in each run, with --precondition",
        };
        self.plan.alone("a saved state", remedy)
    }

    /// Brings the drives into the plan's state.
    ///
    /// # Errors
    ///
    /// [`Error::State`]: ageing comes to no end, or the workload has no rate to age at.
    pub fn age(&mut self, watch: &mut dyn Watch) -> Result<(), Error> {
        let how = self.plan.state;
        if self.is_ready || how == Precondition::None {
            return Ok(());
        }
        let several = self.bays.len() > 1;
        for bay in &mut self.bays {
            if several {
                watch.drive(&bay.name);
            }
            bay.age(how, self.shared, watch)?;
        }
        self.is_ready = true;
        Ok(())
    }

    /// Writes the files of the plan's program, if there is one.
    ///
    /// # Errors
    ///
    /// [`Error::State`]: flash failed so often that the files have no room.
    pub fn lay(&mut self, watch: &mut dyn Watch) -> Result<(), Error> {
        if self.layout.is_empty() {
            return Ok(());
        }
        let bytes = self.layout.iter().map(|run| run.sectors).sum::<u64>() * SECTOR;
        let step = Step::Lay { bytes };
        watch.begin(step);
        let rest = self.plan.state == Precondition::Random;
        for bay in &mut self.bays {
            let Some(member) = self.first.member(bay.unit) else { continue };
            let mut runs: Vec<Extent> = match &self.first.array {
                None => self.layout.clone(),
                Some((_, array)) => {
                    let written = |run: &Extent| {
                        array.written(member as u32, run.at * SECTOR, run.sectors * SECTOR)
                    };
                    let of = |run: Range<u64>| Extent {
                        at: run.start / SECTOR,
                        sectors: (run.end - run.start) / SECTOR,
                    };
                    self.layout.iter().filter_map(written).map(of).collect()
                }
            };
            if let Some(route) = &bay.route {
                for run in &mut runs {
                    let part = route.sectors(run.at..run.at + run.sectors);
                    *run = Extent { at: part.start, sectors: part.end - part.start };
                }
            }
            bay.drive.lay(&runs, rest).map_err(Error::ageing)?;
        }
        watch.done(step, &self.bays[0].drive);
        Ok(())
    }

    /// Ages the drive and writes a program's files on it.
    ///
    /// # Errors
    ///
    /// As [`Checked::age`] and [`Checked::lay`].
    pub fn prepare(mut self, watch: &mut dyn Watch) -> Result<Prepared, Error> {
        self.age(watch)?;
        self.lay(watch)?;
        Ok(self.as_it_is())
    }

    /// On drives of [`Plan::share`]: what the plan has to itself.
    ///
    /// # Errors
    ///
    /// [`Error::State`]: ageing at the job's rate comes to no end.
    pub fn pace(mut self, watch: &mut dyn Watch) -> Result<Prepared, Error> {
        if self.plan.state == Precondition::Paced {
            let look = &mut || watch.look().map_err(AgeError::from);
            for Bay { drive, sampler, .. } in &mut self.bays {
                drive.paced(sampler, look).map_err(Error::ageing)?;
            }
        }
        Ok(self.as_it_is())
    }

    /// The drives are taken as they are. Reports say what was done to it, and name the plan's state.
    pub fn as_it_is(self) -> Prepared {
        let Checked { plan, bays, threads, notes, loaded, .. } = self;
        let drives = bays.into_iter().map(|bay| bay.drive).collect();
        Prepared { plan, drives, threads, notes, loaded }
    }
}

impl Bay {
    /// `shared`: not yet at a pace of a plan's own.
    fn age(&mut self, how: Precondition, shared: bool, watch: &mut dyn Watch) -> Result<(), Error> {
        let Bay { drive, sampler, seed, .. } = self;
        let fill = Step::Fill { bytes: drive.bytes() };
        watch.begin(fill);
        drive.fill().map_err(Error::ageing)?;
        watch.done(fill, drive);
        if how == Precondition::Fill {
            return Ok(());
        }
        let step = Step::Age { how, own: sampler.is_own() };
        watch.begin(step);
        let look = &mut || watch.look().map_err(AgeError::from);
        let aged = match (how, shared) {
            (Precondition::Paced, true) => drive.before_pace(*seed, look),
            _ => drive.age(how, sampler, *seed, look),
        };
        aged.map_err(Error::ageing)?;
        watch.done(step, drive);
        Ok(())
    }
}

/// A plan on drives that are ready for it.
pub struct Prepared {
    plan: Plan,
    drives: Vec<Drive>,
    threads: Vec<ThreadSetup>,
    /// What is to be known of ageing.
    notes: Vec<String>,
    loaded: bool,
}

impl Prepared {
    /// What will run.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
    /// The first drive: a copy of it is a start for another plan (see [`Plan::check_on`]).
    pub fn drive(&self) -> &Drive {
        &self.drives[0]
    }

    /// The first drive alone.
    pub fn into_drive(mut self) -> Drive {
        self.drives.swap_remove(0)
    }
    /// All drives, in the order of the machine's.
    pub fn into_drives(self) -> Vec<Drive> {
        self.drives
    }

    /// Puts hosts and drives together.
    ///
    /// # Errors
    ///
    /// [`Error::Build`]: hosts and drives do not go together.
    pub fn start(self) -> Result<Run, Error> {
        let Prepared { plan, drives, threads, notes, loaded } = self;
        // A state that was loaded was aged by something else.
        let notes = if loaded { Vec::new() } else { notes };
        let expected = plan.expected();
        let disks = plan.disks(&plan.units(&drives)?)?;
        Run::new(plan, drives, disks, (threads, notes), expected, loaded)
    }
}

impl Plan {
    /// How long the run is, where its words say so.
    fn expected(&self) -> Expected {
        let (mut end, mut ios) = match &self.workload {
            Workload::Jobs(jobs) if !jobs.jobs.is_empty() => {
                let all = jobs.jobs.iter().all(|j| j.number_ios > 0);
                let ios = jobs.jobs.iter().map(|j| j.number_ios * u64::from(j.numjobs)).sum();
                (setup::expected_end(jobs), if all { ios } else { 0 })
            }
            _ => (None, 0),
        };
        if let Some(app) = &self.system.config.app {
            end = (app.runtime > Span::ZERO).then(|| app.ramp_time + app.runtime);
            ios = 0;
        }
        if let (Some(limit), Some(end)) = (self.options.limit, &mut end) {
            *end = limit.min(*end);
        }
        Expected { end, ios }
    }
}
