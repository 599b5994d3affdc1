//! From a fio plan to threads of the machine, and the distribution that ages a drive for it.

use crate::app::AppSource;
use crate::cpu::CpuSource;
use crate::disks::{JobDisk, JobDisks};
use crate::error::{JobError, JobFault};
use crate::files::Files;
use crate::job::JobSource;
use crate::replay::{Shift, TraceSource};
use crate::result::LogKind;
use crate::thread::ThreadPlan;
use crate::topology::{Route, SystemConfig};
use crate::world::{AnySource, ExitRule, Start, ThreadSetup};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use wordline_app::{App, AppConfig, ThreadShape};
use wordline_base::{
    Ddir, IoClass, Priority, QueuePriority, Rng, SectorSize, Seed, Span, Time, Workload,
};
use wordline_fio::job::Distribution;
use wordline_fio::job::{ExitWhat, RandomGenerator, UnifiedRw};
use wordline_fio::{Generator, GeneratorError, Job, Plan, Size, Thread, ZetanCache, job};
use wordline_fs::FsKind;
use wordline_host::source::ThreadSpec;
use wordline_host::{DISK_SHIFT, Engine, StackConfig};
use wordline_md::Layout;
use wordline_trace::{Clock, Format, Reader, Wrap};

/// Between two samples of bandwidth and IOPS, as fio has it.
pub const SAMPLES: Span = Span::from_ms(500);

/// The class of a job's I/Os, but for those of `cmdprio`. Where the stack gives jobs queues, Linux'
/// class says which class of NVMe queue it is; a job without one that is latency-critical has an urgent
/// queue.
fn class_of(job: &Job, stack: &StackConfig) -> IoClass {
    in_queue(job.prio.io_class().with_workload(job.workload()), stack)
}

fn in_queue(class: IoClass, stack: &StackConfig) -> IoClass {
    if stack.kernel {
        return class;
    }
    class.with_queue(match class.priority() {
        Priority::None if class.workload() == Workload::Latency => QueuePriority::Urgent,
        Priority::RealTime => QueuePriority::High,
        Priority::Idle => QueuePriority::Low,
        Priority::None | Priority::BestEffort => QueuePriority::Medium,
    })
}

fn given(plan: &Plan, job: &Job, name: &str) -> bool {
    plan.globals.iter().chain(&job.options).any(|(option, _)| option == name)
}

fn given_word<'a>(plan: &'a Plan, job: &'a Job, name: &str) -> &'a str {
    let options = plan.globals.iter().chain(&job.options);
    options.rev().find(|(option, _)| option == name).map_or("", |(_, value)| value)
}

/// The engine that runs a job: its own, or the stack's if it names none.
pub fn engine_of(plan: &Plan, job: &Job, stack: &StackConfig) -> Engine {
    if !given(plan, job, "ioengine") {
        return stack.engine;
    }
    match job.ioengine {
        job::Engine::Null | job::Engine::Cpuio => Engine::Null,
        // The user-space driver has the drive.
        _ if stack.engine == Engine::Spdk && stack.kernel => Engine::Spdk,
        job::Engine::Spdk => Engine::Spdk,
        job::Engine::Libaio | job::Engine::PosixAio => Engine::Libaio,
        job::Engine::IoUring => Engine::IoUring,
        _ => Engine::Pvsync2,
    }
}

/// Whether the job's engine has the word `hipri`.
fn knows_hipri(plan: &Plan, job: &Job) -> bool {
    matches!(job.ioengine, job::Engine::Pvsync2 | job::Engine::IoUring)
        || !given(plan, job, "ioengine")
}

/// As a job's `ioengine` names it.
pub fn engine_name(engine: Engine) -> &'static str {
    match engine {
        Engine::Pvsync2 => "pvsync2",
        Engine::Libaio => "libaio",
        Engine::IoUring => "io_uring",
        Engine::Spdk => "spdk",
        Engine::Null => "null",
    }
}

fn spec(plan: &Plan, job: &Job, thread: &Thread, stack: &StackConfig) -> ThreadSpec {
    let engine = engine_of(plan, job, stack);
    let mut spec = ThreadSpec::new(&job.name, engine, job.iodepth);
    spec.iodepth_batch = job.iodepth_batch;
    spec.iodepth_batch_complete_min = job.iodepth_batch_complete_min;
    spec.iodepth_batch_complete_max = job.iodepth_batch_complete_max;
    spec.iodepth_low = job.iodepth_low;
    spec.cpus_allowed = match (job.cpus_policy, job.cpus_allowed.len() as u32) {
        (_, 0) => Vec::new(),
        (job::CpusPolicy::Shared, _) => job.cpus_allowed.clone(),
        (job::CpusPolicy::Split, n) => {
            vec![job.cpus_allowed[((thread.thread_number - 1) % n) as usize]]
        }
    };
    spec.class = class_of(job, stack);
    if engine == Engine::Spdk && given(plan, job, "ioengine") && job.is_sync() {
        spec.iodepth = 1;
    }
    spec.hipri = (job.hipri || stack.hipri) && knows_hipri(plan, job);
    spec.hipri_percentage = job.hipri_percentage;
    spec.seed = u64::from(thread.thread_number);
    (spec.sqthread_poll, spec.sqthread_poll_cpu) = (job.sqthread_poll, job.sqthread_poll_cpu);
    // Which failures end a job is its own rule, which the source applies.
    spec.continue_on_error = true;
    spec
}

fn thread_plan(plan: &Plan, job: &Job, thread: &Thread, stack: &StackConfig) -> ThreadPlan {
    let logs = &job.logs;
    let named = [(LogKind::Lat, &logs.lat), (LogKind::Bw, &logs.bw), (LogKind::Iops, &logs.iops)];
    let mut files = Vec::new();
    let named = named.into_iter().chain([(LogKind::Hist, &logs.hist)]);
    for (kind, prefix) in named {
        let Some(prefix) = prefix else { continue };
        let kinds: &[LogKind] = match kind {
            // write_lat_log makes three files.
            LogKind::Lat => &[LogKind::Slat, LogKind::Clat, LogKind::Lat],
            LogKind::Bw => &[LogKind::Bw],
            LogKind::Hist => &[LogKind::Hist],
            _ => &[LogKind::Iops],
        };
        let prefix = if prefix.is_empty() { job.name.clone() } else { prefix.clone() };
        files.extend(kinds.iter().map(|&k| (k, prefix.clone())));
    }
    // fio samples every log_avg_msec, or every 500 ms.
    let interval = |own: Option<Span>| match own.unwrap_or(logs.avg) {
        Span::ZERO => Span::from_ms(500),
        span => span,
    };
    ThreadPlan {
        name: job.name.clone(),
        description: job.description.clone(),
        group: thread.group,
        group_reporting: job.group_reporting,
        unified_rw_reporting: job.unified_rw_reporting != UnifiedRw::None,
        ioengine: match job.ioengine {
            job::Engine::Cpuio => job.ioengine.name().into(),
            _ => engine_name(engine_of(plan, job, stack)).into(),
        },
        iodepth: job.iodepth,
        options: job.options.clone(),
        ramp: job.ramp_time,
        clat_percentiles: job.clat_percentiles,
        lat_percentiles: job.lat_percentiles,
        slat_percentiles: job.slat_percentiles,
        percentile_list: job.percentile_list.clone(),
        logs: files,
        log_average: logs.avg,
        log_maximum: logs.max_value,
        log_offset: logs.offset,
        class: class_of(job, stack),
        cmdprios: std::array::from_fn(|d| {
            let of = |prio: job::Prio| prio.io_class().with_workload(job.workload());
            job.cmdprios(d).into_iter().map(of).collect()
        }),
        log_prio: logs.prio,
        per_job_logs: logs.per_job,
        hist_interval: logs.hist_interval,
        hist_coarseness: logs.hist_coarseness,
        reported: job.stats,
        steady: job.steadystate,
        bw_interval: interval(logs.bw_avg),
        iops_interval: interval(logs.iops_avg),
        disable_lat: job.disable_lat,
        disable_clat: job.disable_clat,
        disable_slat: job.disable_slat,
        disable_bw: job.disable_bw,
    }
}

/// Which threads must have ended before this one starts.
fn start_rule(plan: &Plan, threads: &[Thread], index: usize, entropy: u64) -> Start {
    let thread = &threads[index];
    let job = plan.job_of(thread);
    let delay = thread.start_delay(job, entropy);
    let of = |wanted: &dyn Fn(&Thread) -> bool| -> Vec<u32> {
        (0..threads.len()).filter(|&i| wanted(&threads[i])).map(|i| i as u32).collect()
    };
    // A stonewall holds for its own job and for all that follow it.
    let wall = (0..=thread.job).rev().find(|&j| plan.jobs[j].stonewall && j > 0);
    let mut before = match wall {
        Some(wall) => of(&|t| t.job < wall),
        None => Vec::new(),
    };
    if let Some(name) = &job.wait_for {
        before.extend(of(&|t| plan.job_of(t).name == *name));
    }
    before.sort_unstable();
    before.dedup();
    if before.is_empty() {
        Start::At(Time::ZERO + delay)
    } else {
        Start::After { threads: before, delay }
    }
}

fn exit_rule(plan: &Plan, threads: &[Thread], index: usize) -> ExitRule {
    let job = plan.job_of(&threads[index]);
    if !job.exitall && !job.exitall_on_error {
        return ExitRule::default();
    }
    let group = threads[index].group;
    let walls = |t: &Thread| (0..=t.job).filter(|&j| plan.jobs[j].stonewall).count();
    let same = |t: &Thread| match job.exit_what {
        ExitWhat::All => true,
        ExitWhat::Group => t.group == group,
        ExitWhat::Stonewall => walls(t) == walls(&threads[index]),
    };
    let stops = (0..threads.len()).filter(|&i| i != index && same(&threads[i]));
    ExitRule { stops: stops.map(|i| i as u32).collect(), on_error_only: !job.exitall }
}

/// How jobs that replay a log are fed: the caller opens the file. It is replayed on these disks.
pub type OpenReplay<'a, E> = &'a mut dyn FnMut(&Job, &[JobDisk]) -> Result<AnySource, E>;

/// A job's `read_iolog`, once its file is open: its clock, and its offsets as fio changes them.
pub fn replay_source(job: &Job, reader: Reader, disks: &[JobDisk]) -> TraceSource {
    let clock = if job.replay_no_stall {
        Clock::ClosedLoop
    } else if job.replay_time_scale == 100 {
        Clock::Timestamps
    } else {
        // fio's scale is a speed in percent; ours multiplies times.
        let ppb = 100_000_000_000u64 / u64::from(job.replay_time_scale.max(1));
        Clock::Scaled { ppb }
    };
    let shift = Shift {
        scale: u64::from(job.replay_scale.max(1)),
        align: job.replay_align,
        // fio 3.33 rounds lengths of blktraces alone.
        whole: reader.format() == Format::Blktrace,
        skip: job.replay_skip,
    };
    TraceSource::new(reader, clock, Wrap::Error, disks).shifted(shift)
}

/// A job of cpuio, which somebody must end.
fn computing(plan: &Plan, job: &Job) -> Result<AnySource, JobError> {
    if job.runtime == Span::ZERO && !job.exit_on_io_done && !plan.jobs.iter().any(|j| j.exitall) {
        return Err(JobError::new(job, JobFault::NeverEnds));
    }
    Ok(AnySource::Cpu(CpuSource::new(job)))
}

/// The threads of a plan on a machine with these disks; `cache` has sums that other distributions needed
/// too.
pub fn threads<E: From<JobError>>(
    plan: &Plan,
    system: &SystemConfig,
    disks: &JobDisks,
    seed: Seed,
    open_replay: OpenReplay<E>,
    cache: &mut ZetanCache,
) -> Result<Vec<ThreadSetup>, E> {
    disks.check(plan)?;
    let entropy = seed.stream("fio/entropy").next_u64();
    let threads = plan.threads();
    let mut setups = Vec::with_capacity(threads.len());
    for (index, thread) in threads.iter().enumerate() {
        let job = plan.job_of(thread);
        let placed = disks.place(job)?;
        let host = placed.host;
        let stack = &system.hosts[host].stack;
        if stack.fs.is_some() && placed.numbers() != [0] {
            return Err(JobError::new(job, JobFault::OffFileSystem).into());
        }
        let spec = ThreadSpec { disks: placed.numbers(), ..spec(plan, job, thread, stack) };
        if job.ioengine == job::Engine::Cpuio {
            setups.push(ThreadSetup {
                host,
                plan: thread_plan(plan, job, thread, stack),
                spec,
                source: computing(plan, job)?,
                start: start_rule(plan, &threads, index, entropy),
                exit: exit_rule(plan, &threads, index),
            });
            continue;
        }
        let source = match Generator::with_cache(job, thread, &placed.space(), entropy, cache) {
            Ok(generator) => {
                let stop = Rc::new(Cell::new(false));
                let files = match &stack.fs {
                    Some(fs) => Some(Files::new(&generator, job, thread, fs.kind)?),
                    None if job.ioengine.is_by_name() => {
                        return Err(JobError::new(job, JobFault::NoFileSystem).into());
                    }
                    None => None,
                };
                let mut source = JobSource::new(generator, job, stop);
                if let Some(files) = files {
                    source = source.on_files(files);
                }
                AnySource::Job(Box::new(source))
            }
            Err(GeneratorError::Replay { .. }) => open_replay(job, &placed.disks)?,
            Err(error) => {
                return Err(JobError::Generator { place: job.place.clone(), error }.into());
            }
        };
        setups.push(ThreadSetup {
            host,
            plan: thread_plan(plan, job, thread, stack),
            spec,
            source,
            start: start_rule(plan, &threads, index, entropy),
            exit: exit_rule(plan, &threads, index),
        });
    }
    Ok(setups)
}

/// The threads of a program, behind the jobs that run beside it: these end with it. A program `beside` others
/// ends with them.
pub fn app_threads(
    app: App,
    (config, beside): (&AppConfig, bool),
    stack: &StackConfig,
    jobs: &mut Vec<ThreadSetup>,
) {
    let stops: Vec<u32> = if beside { Vec::new() } else { (0..jobs.len() as u32).collect() };
    let percentiles = Job::new("", Default::default()).percentile_list;
    let groups = jobs.iter().map(|j| j.plan.group + 1).max().unwrap_or(0);
    let shapes: Vec<ThreadShape> = app.threads().cloned().collect();
    let class = in_queue(IoClass::NONE.with_workload(app.workload_attr()), stack);
    // Roles of programs may have the same name.
    let named = |role: &str| match beside {
        true => format!("{}:{role}", app.name()),
        false => role.to_string(),
    };
    let role_names: Vec<String> = shapes.iter().map(|shape| named(shape.name)).collect();
    let app = Rc::new(RefCell::new(app));
    let mut names: Vec<&str> = Vec::new();
    for (t, (shape, name)) in shapes.iter().zip(&role_names).enumerate() {
        if !names.contains(&shape.name) {
            names.push(shape.name);
        }
        let engine = match shape.depth {
            // The user-space driver has the drive.
            _ if stack.engine == Engine::Spdk && stack.kernel => Engine::Spdk,
            0..=1 => Engine::Pvsync2,
            _ => Engine::Libaio,
        };
        let mut spec = ThreadSpec::new(name, engine, shape.depth);
        spec.hipri = stack.hipri && engine == Engine::Pvsync2;
        spec.continue_on_error = true;
        spec.class = class;
        spec.cpus_allowed.clone_from(&config.cores);
        let plan = ThreadPlan {
            name: name.clone(),
            class,
            group: groups + names.len() as u32 - 1,
            group_reporting: true,
            ioengine: engine_name(engine).into(),
            iodepth: shape.depth,
            ramp: config.ramp_time,
            clat_percentiles: true,
            percentile_list: percentiles.clone(),
            reported: true,
            bw_interval: SAMPLES,
            iops_interval: SAMPLES,
            ..ThreadPlan::default()
        };
        jobs.push(ThreadSetup {
            host: 0,
            plan,
            spec,
            source: AnySource::App(Box::new(AppSource::new(app.clone(), t as u32, beside))),
            start: Start::At(Time::ZERO),
            exit: ExitRule { stops: stops.clone(), on_error_only: false },
        });
    }
}

/// When the jobs end by their own words, if they all say so.
pub fn expected_end(plan: &Plan) -> Option<Span> {
    let (mut total, mut group) = (Span::ZERO, Span::ZERO);
    for job in &plan.jobs {
        if job.runtime == Span::ZERO {
            return None;
        }
        if job.stonewall {
            total += std::mem::replace(&mut group, Span::ZERO);
        }
        group = group.max(job.runtime + job.ramp_time + job.startdelay.1);
    }
    Some(total + group)
}

/// fio's words that are read but change nothing here, with the reason.
const WITHOUT_EFFECT: [(&str, &str); 6] = [
    ("atomic", "writes of one sector are atomic, larger ones are not"),
    ("serialize_overlap", "overlapping I/Os go to the drive together"),
    ("io_submit_mode", "I/O is submitted inline"),
    ("write_hint", "the drive has no use for lifetime hints"),
    ("significant_figures", "numbers are printed with fio's usual figures"),
    ("unit_base", "rates are printed in bytes"),
];

/// fio's words about files, which mean something on a file system alone.
const OF_FILES: [&str; 6] =
    ["invalidate", "sync_file_range", "create_on_open", "overwrite", "fallocate", "fadvise_hint"];

/// What a job asks for beyond the end of the drive, where fio cuts a block device's I/O off without a
/// word. Several files that do not fit are an error.
fn beyond_the_end(job: &Job, drive_bytes: u64) -> Option<String> {
    let of_a_drive = job.read_iolog.is_none() && job.ioengine != job::Engine::Cpuio;
    if !of_a_drive || job.file_count() > 1 {
        return None;
    }
    match (job.filesize, job.size) {
        // It counts from the beginning of the file, wherever the job begins in it.
        (Some((_, most)), _) => (most > drive_bytes).then(|| format!("filesize={most}")),
        (None, Some(Size::Bytes(size))) if size > drive_bytes => Some(format!("size={size}")),
        (None, Some(Size::Bytes(size))) => {
            let Size::Bytes(offset) = job.offset else { return None };
            (offset.saturating_add(size) > drive_bytes)
                .then(|| format!("size={size} from offset={offset} on"))
        }
        (None, _) => None,
    }
}

/// What the user should know about a plan on this machine: words of fio that ask for something that
/// is not modelled, each named once.
pub fn notes(plan: &Plan, stack: &StackConfig, ftl_on_host: bool, disks: &JobDisks) -> Vec<String> {
    let mut notes = Vec::new();
    let mut say = |text: String| {
        if !notes.contains(&text) {
            notes.push(text);
        }
    };
    for note in &plan.notes {
        say(note.text.clone());
    }
    for job in &plan.jobs {
        // In a file system of files these are names of files.
        if stack.fs.as_ref().is_none_or(|fs| fs.kind == FsKind::Bdev) {
            disks.stand_ins(job).into_iter().for_each(&mut say);
        }
        if given(plan, job, "ioengine") {
            let engine = given_word(plan, job, "ioengine");
            if let Some(nearest) = wordline_fio::nearest_engine(engine) {
                let path = engine_name(engine_of(plan, job, stack));
                say(format!(
                    "ioengine={engine} has no model of its own: it runs {}, with {path}'s path and costs",
                    if nearest.is_sync(job.iodepth) {
                        "one I/O at a time"
                    } else {
                        "at its iodepth"
                    }
                ));
                if engine == "mmap" {
                    say("mmap: a page fault costs what a read of its block does".into());
                }
            }
            match job.ioengine {
                _ if wordline_fio::nearest_engine(engine).is_some() => {}
                job::Engine::Null | job::Engine::Spdk | job::Engine::Cpuio => {}
                _ if stack.engine == Engine::Spdk && stack.kernel => {
                    say(format!("ioengine={engine} runs on spdk, which has the drive"));
                }
                job::Engine::PosixAio => {
                    say(format!("ioengine={engine} runs with libaio's path and costs"));
                }
                job::Engine::Psync
                | job::Engine::Sync
                | job::Engine::Vsync
                | job::Engine::Pvsync => {
                    say(format!("ioengine={engine} runs with pvsync2's path and costs"));
                }
                _ => {}
            }
        }
        for option in ["direct", "buffered"] {
            if given(plan, job, option) && !job.direct && stack.fs.is_none() {
                say(format!(
                    "{option}={}: without --fs every I/O goes to the drive as with direct=1; \
                     --fs bdev puts the device's page cache in front of it",
                    u8::from(option == "buffered")
                ));
            }
        }
        let engine = engine_of(plan, job, stack);
        if job.hipri && stack.kernel {
            let why = match engine {
                Engine::Pvsync2 | Engine::IoUring if ftl_on_host => {
                    Some("an FTL on the host presents a bio-based device, which Linux cannot poll")
                }
                Engine::Pvsync2 | Engine::IoUring if stack.nbd.is_some() => {
                    Some("a network block device cannot be polled")
                }
                Engine::Pvsync2 | Engine::IoUring if stack.io_poll == 0 => {
                    Some("polling is switched off: --set stack.io_poll=1")
                }
                Engine::Pvsync2 | Engine::IoUring if !knows_hipri(plan, job) => {
                    Some("only pvsync2 and io_uring ask the kernel for it")
                }
                Engine::Libaio => Some("io_submit of Linux 4.14 knows no polling"),
                _ => None,
            };
            if let Some(why) = why {
                say(format!("hipri has no effect here: {why}"));
            }
        }
        if job.sqthread_poll && (engine != Engine::IoUring || !stack.kernel) {
            say("sqthread_poll has no effect here: it is io_uring's".into());
        }
        if job.sync != job::SyncMode::None && stack.fs.is_none() {
            say("sync: O_SYNC writes are not followed by a flush; use fsync=1".into());
        }
        let scheduler = stack.nbd.as_ref().map_or(stack.scheduler, |nbd| nbd.scheduler);
        let heeds = scheduler.heeds_jobs() && !job.has_cmdprio();
        if stack.kernel && !heeds && (job.prio.class != 0 || job.has_cmdprio()) {
            say("prio, prioclass and cmdprio are in the logs and in the results by class. Nothing else acts on \
                 them here. The schedulers bfq and sfq heed a job's. With stack.kernel=false they choose \
                 the class of the job's queue"
                .into());
        }
        // A job that asks for the scheduler which the stack has anyway gets what it wants.
        if let Some(wanted) = &job.ioscheduler
            && !ftl_on_host
            && wanted != scheduler.name()
        {
            say(format!(
                "ioscheduler={wanted}: the scheduler is the stack's: --set {}scheduler={wanted}",
                if stack.nbd.is_some() { "stack.nbd." } else { "stack." }
            ));
        }
        if job.hipri && stack.fs.is_some() {
            let why = match engine {
                _ if !job.direct => Some("only direct=1 waits for the drive itself"),
                Engine::IoUring => Some("on files its completions are by interrupt"),
                _ if stack.io_poll_delay >= 0 => {
                    Some("on files polling begins at once: --set stack.io_poll_delay=-1")
                }
                _ if stack.poll_queues > 0 => {
                    Some("on files completions are by interrupt with --set stack.poll_queues=N")
                }
                _ => None,
            };
            if let Some(why) = why {
                say(format!("hipri has no effect here: {why}"));
            }
        }
        for option in OF_FILES {
            if given(plan, job, option) && stack.fs.is_none() {
                say(format!("{option} has no effect here: it is about files, choose --fs ext4"));
            }
        }
        for (option, why) in WITHOUT_EFFECT {
            if given(plan, job, option) {
                say(format!("{option} has no effect here: {why}"));
            }
        }
        let drive_bytes = disks.place(job).map_or(0, |placed| placed.space().bytes());
        if let Some(wanted) = beyond_the_end(job, drive_bytes) {
            say(format!(
                "job '{}': {wanted} is more than the drive's {drive_bytes} bytes: its I/O ends with the drive",
                job.name
            ));
        }
        if job.logs.hist.is_some() && job.logs.hist_interval == Span::ZERO {
            say("write_hist_log writes nothing without log_hist_msec=".into());
        }
    }
    notes
}

/// All that decides which sectors a plan's jobs write in ageing, and in which order: with equal texts
/// and seeds two plans age a drive alike. Pace, time, end and report of a job have no part in it, nor
/// have the streams of its own run. Where the distribution is skewed the job's name and its seed have:
/// fio places the hottest block by a hash of the file's name, which is made of the job's, or by the
/// seed.
pub fn writes(plan: &Plan) -> String {
    let mut text = String::new();
    for thread in plan.threads() {
        let job = plan.job_of(&thread);
        if !job.rw.writes() || job.read_iolog.is_some() {
            continue;
        }
        let skewed = matches!(
            job.distribution,
            Distribution::Zipf { .. } | Distribution::Pareto { .. } | Distribution::Normal { .. }
        );
        // The seed also draws the sizes of files.
        let seeded = skewed || job.filesize.is_some_and(|(low, high)| low != high);
        let none = Job::new("", Default::default());
        let lfsr = job.random_generator == RandomGenerator::Lfsr;
        let places = Job {
            name: if skewed { job.name.clone() } else { String::new() },
            randrepeat: if seeded { job.randrepeat } else { none.randrepeat },
            randseed: if seeded { job.randseed } else { none.randseed },
            randseed_given: if seeded { job.randseed_given } else { none.randseed_given },
            allrandrepeat: if seeded { job.allrandrepeat } else { none.allrandrepeat },
            random_generator: if lfsr { none.random_generator } else { job.random_generator },
            norandommap: true,
            softrandommap: none.softrandommap,
            time_based: none.time_based,
            number_ios: none.number_ios,
            loops: none.loops,
            verify: none.verify,
            verify_given: none.verify_given,
            do_verify: none.do_verify,
            verify_only: none.verify_only,
            verify_backlog: none.verify_backlog,
            verify_backlog_batch: none.verify_backlog_batch,
            experimental_verify: none.experimental_verify,
            trim_percentage: none.trim_percentage,
            trim_verify_zero: none.trim_verify_zero,
            trim_backlog: none.trim_backlog,
            trim_backlog_batch: none.trim_backlog_batch,
            place: none.place,
            options: none.options,
            description: none.description,
            stonewall: none.stonewall,
            wait_for: none.wait_for,
            new_group: none.new_group,
            group_reporting: none.group_reporting,
            runtime: none.runtime,
            ramp_time: none.ramp_time,
            startdelay: none.startdelay,
            ioengine: none.ioengine,
            iodepth: none.iodepth,
            iodepth_batch: none.iodepth_batch,
            iodepth_batch_complete_min: none.iodepth_batch_complete_min,
            iodepth_batch_complete_max: none.iodepth_batch_complete_max,
            iodepth_low: none.iodepth_low,
            cpus_allowed: none.cpus_allowed,
            rate: none.rate,
            rate_iops: none.rate_iops,
            rate_process: none.rate_process,
            thinktime: none.thinktime,
            thinktime_spin: none.thinktime_spin,
            thinktime_blocks: none.thinktime_blocks,
            exitall: none.exitall,
            exit_what: none.exit_what,
            logs: none.logs,
            percentile_list: none.percentile_list,
            clat_percentiles: none.clat_percentiles,
            lat_percentiles: none.lat_percentiles,
            slat_percentiles: none.slat_percentiles,
            ..job.clone()
        };
        text += &format!("{} {} {places:?}\n", thread.thread_number, thread.subjob);
    }
    text
}

/// I/Os in a row without a write after which a job counts as one that does not write.
const FRUITLESS: u32 = 100_000;

/// Draws sectors as a plan's jobs write them, job after job in turn: what ages a drive for the run.
/// The order is not that of the run ([`Generator::ageing`]). Without writing jobs, uniform over the
/// drive.
pub struct WriteSampler {
    /// Writing threads.
    writers: Vec<Writer>,
    turn: usize,
    /// Sectors of the I/O at hand not given out yet.
    run: std::ops::Range<u64>,
    /// Sectors a second of all writers, if each has a rate.
    rate: Option<u64>,
    uniform: Rng,
    sectors: u64,
    sector: SectorSize,
    /// Of a drive behind bridges: where it is, and the sectors of the outermost.
    behind: Option<(Route, u64)>,
}

/// A thread that writes to a disk, among others perhaps.
struct Writer {
    generator: Generator,
    disk: u16,
    /// The disk is an array, and the drive this member of it.
    array: Option<(Layout, u32)>,
    /// I/Os in a row that were no writes to the disk.
    fruitless: u32,
}

impl WriteSampler {
    /// Uniform over the drive.
    pub fn uniform(drive_bytes: u64, sector: SectorSize, seed: Seed) -> WriteSampler {
        WriteSampler {
            writers: Vec::new(),
            turn: 0,
            run: 0..0,
            rate: Some(0),
            uniform: seed.stream("age"),
            sectors: sector.of(drive_bytes),
            sector,
            behind: None,
        }
    }
    /// What of this goes to the drive behind bridges, the outermost of so many bytes.
    pub fn behind(self, route: Route, outermost: u64) -> WriteSampler {
        WriteSampler { behind: Some((route, self.sector.of(outermost))), ..self }
    }
    /// As the jobs of `plan` write to a drive, which `uniform` is for; `cache` has sums that other
    /// distributions needed too.
    pub fn of_jobs(
        plan: &Plan,
        disks: &JobDisks,
        drive: usize,
        uniform: WriteSampler,
        seed: Seed,
        cache: &mut ZetanCache,
    ) -> Result<WriteSampler, JobError> {
        let entropy = seed.stream("fio/entropy").next_u64();
        let draws = seed.stream("age/jobs").next_u64();
        let mut writers = Vec::new();
        let mut bytes = Some(0u64);
        for thread in plan.threads() {
            let job = plan.job_of(&thread);
            let placed = disks.place(job)?;
            let of = |d: &JobDisk| d.member(drive).map(|member| (d.clone(), member));
            let here: Vec<(JobDisk, usize)> = placed.disks.iter().filter_map(of).collect();
            let Some((disk, member)) = here.first().cloned() else { continue };
            if job.read_iolog.is_some() {
                bytes = None; // A log states no rate.
                continue;
            }
            if !job.rw.writes() {
                continue;
            }
            let space = placed.space();
            let generator = Generator::ageing(job, &thread, &space, entropy, draws, cache);
            let failed = |error| JobError::Generator { place: job.place.clone(), error };
            let array = disk.array.as_ref().map(|(_, layout)| (layout.clone(), member as u32));
            let generator = generator.map_err(failed)?;
            writers.push(Writer { generator, disk: disk.disk, array, fruitless: 0 });
            // Of its files each gets its share, and of an array's data and parity each of its drives.
            let share = |rate: u64| {
                let of_files = rate * here.len() as u64 / placed.disks.len() as u64;
                let Some((_, layout)) = &disk.array else { return of_files };
                of_files * u64::from(1 + layout.level.parities()) / u64::from(layout.members)
            };
            bytes =
                bytes.zip(write_rate(job).map(share)).map(|(sum, rate)| sum.saturating_add(rate));
        }
        // Stripes go to all drives behind a bridge alike.
        let drives = uniform.behind.as_ref().map_or(1, |(route, _)| route.drives());
        let rate = bytes.map(|bytes| uniform.sector.holding(bytes / drives));
        Ok(WriteSampler { writers, rate, ..uniform })
    }

    /// Whether the drive is aged by the plan's own writes.
    pub fn is_own(&self) -> bool {
        !self.writers.is_empty()
    }

    /// Sectors a second that the plan writes; none if it sets no limit.
    pub fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Draws the sector of each of the next writes.
    pub fn fill(&mut self, lpns: &mut [u32]) {
        for lpn in lpns {
            *lpn = self.draw();
        }
    }

    fn draw(&mut self) -> u32 {
        if let Some(sector) = self.next_of_run() {
            return sector as u32;
        }
        let whole = self.behind.as_ref().map_or(self.sectors, |(_, sectors)| *sectors);
        while !self.writers.is_empty() {
            self.turn = (self.turn + 1) % self.writers.len();
            let Writer { generator, disk, array, fruitless } = &mut self.writers[self.turn];
            *fruitless += 1;
            match generator.next() {
                Some(io)
                    if io.ddir == Ddir::Write
                        && io.len > 0
                        && io.offset >> DISK_SHIFT == u64::from(*disk) =>
                {
                    let mut offset = io.offset & ((1 << DISK_SHIFT) - 1);
                    let mut len = io.len;
                    if let Some((layout, member)) = array {
                        let Some(run) = layout.written(*member, offset, len) else {
                            if *fruitless >= FRUITLESS {
                                self.writers.remove(self.turn);
                                self.turn = 0;
                            }
                            continue;
                        };
                        (offset, len) = (run.start, run.end - run.start);
                    }
                    let first = self.sector.of(offset);
                    let end = self.sector.holding(offset + len).min(whole);
                    if self.behind.is_none() {
                        *fruitless = 0;
                        self.run = first + 1..end;
                        return first as u32;
                    }
                    self.run = first..end;
                    let (turn, tries) = (self.turn, *fruitless);
                    if let Some(sector) = self.next_of_run() {
                        self.writers[turn].fruitless = 0;
                        return sector as u32;
                    }
                    // It never writes to this drive.
                    if tries >= FRUITLESS {
                        self.writers.remove(turn);
                        self.turn = 0;
                    }
                }
                Some(_) if *fruitless < FRUITLESS => {}
                // It has ended, or never writes (a mix of 100 % reads).
                _ => {
                    self.writers.remove(self.turn);
                    self.turn = 0;
                }
            }
        }
        self.uniform.below(self.sectors) as u32
    }

    /// The next sector of the I/O at hand that the drive has.
    fn next_of_run(&mut self) -> Option<u64> {
        let Some((route, _)) = &self.behind else { return self.run.next() };
        let sectors = self.sectors;
        self.run.by_ref().find_map(|sector| route.sector(sector).filter(|at| *at < sectors))
    }
}

/// Bytes a second that a job may write; none: as fast as it can. Writes of a mix that are not limited
/// themselves come with the reads.
fn write_rate(job: &Job) -> Option<u64> {
    let limit = |ddir: usize| match (job.rate[ddir], job.rate_iops[ddir]) {
        (0, 0) => None,
        (0, iops) => Some(iops.saturating_mul(job.min_bs[ddir])),
        (bytes, _) => Some(bytes),
    };
    let (read, write) = (Ddir::Read as usize, Ddir::Write as usize);
    match (limit(write), limit(read)) {
        (None, Some(reads)) if job.rw.is_mixed() && job.rwmix[read] > 0 => {
            let parts = u128::from(reads) * u128::from(job.rwmix[write]);
            Some((parts / u128::from(job.rwmix[read])) as u64)
        }
        (limit, _) => limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_fio::{NoEnv, ParseOptions, parse_file};

    fn plan(text: &str) -> Plan {
        parse_file("job.fio", text, &ParseOptions::default(), &mut NoEnv).unwrap()
    }

    fn sampler(plan: &Plan) -> WriteSampler {
        let disks = JobDisks::one(1 << 30);
        let uniform = WriteSampler::uniform(1 << 30, SectorSize::KIB_4, Seed(3));
        let cache = &mut ZetanCache::default();
        WriteSampler::of_jobs(plan, &disks, 0, uniform, Seed(3), cache).unwrap()
    }

    #[test]
    fn equal_writes_age_alike() {
        const JOB: &str = "[w]\nrw=randrw\nbssplit=4k/50:16k/50\nrandom_distribution=zipf:1.1\n\
                           rate_iops=500\niodepth=2\nruntime=3s\n[r]\nrw=randread\nbs=4k\n";
        let drawn = |plan: &Plan| {
            let mut lpns = vec![0; 20_000];
            sampler(plan).fill(&mut lpns);
            lpns
        };
        let first = plan(JOB);
        for (from, to, alike) in [
            ("rate_iops=500", "rate=9m,1m", true),
            ("runtime=3s", "runtime=1s\nramp_time=1s\nstartdelay=2\ntime_based", true),
            ("[r]\nrw=randread\nbs=4k", "[r]\nrw=randread\nbs=8k\nnumjobs=7", true),
            ("runtime=3s", "number_ios=77\nloops=2\nlog_avg_msec=10\nexitall", true),
            ("iodepth=2", "iodepth=32\niodepth_batch=8\nthinktime=1ms", true),
            // fio's file is "w.0.0", and where its hottest block is hangs on that.
            ("[w]", "[other]", false),
            ("[w]\nrw=randrw", "[w]\nrw=randrw\nfilename=f", false),
            ("zipf:1.1", "zipf:1.2", false),
            ("50:16k/50", "40:16k/60", false),
            ("[w]", "[a]\nrw=read\n[w]", false),
        ] {
            let other = plan(&JOB.replace(from, to));
            assert_eq!(writes(&first) == writes(&other), alike, "{to}");
            assert_eq!(drawn(&first) == drawn(&other), alike, "{to}");
        }
    }
    #[test]
    fn writers_have_a_rate_if_each_of_them_has() {
        for (job, rate) in [
            ("rw=randwrite\nbs=4k\nrate_iops=500\nnumjobs=3", Some(1500)),
            ("rw=randwrite\nbs=8k\nrate_iops=500", Some(1000)),
            ("rw=write\nbs=64k\nrate=,40m", Some(10240)),
            ("rw=randrw\nrwmixread=80\nbs=4k\nrate_iops=400,", Some(100)),
            ("rw=randrw\nbs=4k", None),
            ("rw=randread\nbs=4k\nrate_iops=9", Some(0)),
            ("rw=randwrite\nbs=4k\nrate_iops=500\n[b]\nrw=write", None),
        ] {
            let plan = plan(&format!("[a]\n{job}\n"));
            let sampler = sampler(&plan);
            assert_eq!(sampler.rate(), rate, "{job}");
        }
    }
    #[test]
    fn uniform_writes_are_the_same_by_any_name() {
        let job = |name: &str| plan(&format!("[{name}]\nrw=randwrite\nbs=4k\nnorandommap\n"));
        let drawn = |plan: &Plan| {
            let mut lpns = vec![0; 5_000];
            sampler(plan).fill(&mut lpns);
            lpns
        };
        let (a, b) = (job("a"), job("b"));
        assert_eq!((writes(&a), drawn(&a)), (writes(&b), drawn(&b)));
    }
}
