//! From a fio plan to threads of the machine.

use crate::app::AppSource;
use crate::cpu::CpuSource;
use crate::disks::{JobDisk, JobDisks};
use crate::error::{JobError, JobFault};
use crate::files::Files;
use crate::job::JobSource;
use crate::polled::Asker;
use crate::replay::{Shift, TraceSource};
use crate::result::LogKind;
use crate::thread::ThreadPlan;
use crate::topology::SystemConfig;
use crate::world::{AnySource, ExitRule, Start, ThreadSetup};
use std::cell::RefCell;
use std::rc::Rc;
use wordline_app::{App, AppConfig, ThreadShape};
use wordline_base::{IoClass, Priority, QueuePriority, Seed, Span, Time, Workload};
use wordline_fio::job::{ExitWhat, SyncMode, UnifiedRw};
use wordline_fio::{Generator, GeneratorError, Job, Plan, Thread, ZetanCache, job};
use wordline_fs::FsKind;
use wordline_host::source::ThreadSpec;
use wordline_host::{Engine, StackConfig};
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

pub(crate) fn given(plan: &Plan, job: &Job, name: &str) -> bool {
    plan.globals.iter().chain(&job.options).any(|(option, _)| option == name)
}

pub(crate) fn given_word<'a>(plan: &'a Plan, job: &'a Job, name: &str) -> &'a str {
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
    // A file system hears it with each call, and SPDK's plugin opens no file.
    spec.sync = job.sync != SyncMode::None && stack.fs.is_none() && engine != Engine::Spdk;
    spec.hipri = (job.hipri || stack.hipri) && knows_hipri(plan, job);
    // As a replay's (fio_ioring_prep). A file system does in the call what would go to a worker.
    let syncs = job.fsync > 0 || job.fdatasync > 0;
    let ring = engine == Engine::IoUring && stack.kernel && stack.fs.is_none();
    spec.ring_syncs = syncs && ring && !spec.hipri;
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
        // fio makes no file for what it does not measure.
        let measured = |kind: &&LogKind| match kind {
            LogKind::Slat => !job.disable_slat,
            LogKind::Clat => !job.disable_clat,
            LogKind::Lat => !job.disable_lat,
            _ => true,
        };
        files.extend(kinds.iter().filter(measured).map(|&k| (k, prefix.clone())));
    }
    // fio samples every log_avg_msec, or every 500 ms.
    let interval = |own: Option<Span>| match own.unwrap_or(logs.avg) {
        Span::ZERO => Span::from_ms(500),
        span => span,
    };
    let engine = engine_of(plan, job, stack);
    ThreadPlan {
        name: job.name.clone(),
        description: job.description.clone(),
        group: thread.group,
        group_reporting: job.group_reporting,
        unified_rw_reporting: job.unified_rw_reporting != UnifiedRw::None,
        unified_beside: job.unified_rw_reporting == UnifiedRw::Both,
        ioengine: match job.ioengine {
            job::Engine::Cpuio => job.ioengine.name().into(),
            _ => engine_name(engine).into(),
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
        // What an engine has done when its call returns was never queued, to fio. Its null does that at
        // depth 1.
        disable_slat: job.disable_slat
            || engine == Engine::Pvsync2
            || engine == Engine::Null && job.iodepth == 1,
        calls_for_trims: matches!(engine, Engine::Libaio | Engine::IoUring),
        disable_bw: job.disable_bw,
        gtod_reduce: job.gtod_reduce,
    }
}

/// When a thread starts, and what it waits for.
fn start_rule(plan: &Plan, threads: &[Thread], index: usize, entropy: u64) -> Start {
    let thread = &threads[index];
    let job = plan.job_of(thread);
    let not_before = Time::ZERO + thread.start_delay(job, entropy);
    // Before the first nothing runs, unless it is passed over.
    let is_wall = |j: u32| {
        let job = &plan.jobs[j];
        job.stonewall && (j > 0 || job.startdelay.1 > Span::ZERO)
    };
    let of = |name: &str| -> Vec<u32> {
        let named = (0..).zip(threads).filter(|(_, t)| plan.job_of(t).name == name);
        named.map(|(i, _)| i).collect()
    };
    let after = job.wait_for.as_deref().map_or_else(Vec::new, of);
    if after.is_empty() && !(0..=thread.job).any(is_wall) {
        return Start::At(not_before);
    }
    // A job's copies have no wall in fio.
    let first = index == 0 || threads[index - 1].job != thread.job;
    Start::Waits { not_before, alone: first && is_wall(thread.job), after }
}

fn exit_rule(plan: &Plan, threads: &[Thread], index: usize) -> ExitRule {
    let job = plan.job_of(&threads[index]);
    if !job.exitall && !job.exitall_on_error {
        return ExitRule::default();
    }
    let group = threads[index].group;
    let same = |t: &Thread| job.exit_what != ExitWhat::Group || t.group == group;
    let stops = (0..threads.len()).filter(|&i| i != index && same(&threads[i]));
    ExitRule {
        stops: stops.map(|i| i as u32).collect(),
        running_only: job.exit_what == ExitWhat::Stonewall,
        on_error_only: !job.exitall,
    }
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
    TraceSource::new(reader, clock, Wrap::Error, disks).of_job(job, shift)
}

/// A job of cpuio, which somebody must end.
fn computing(job: &Job) -> Result<AnySource, JobError> {
    if job.runtime == Span::ZERO && !job.exit_on_io_done && !job.exitall {
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
        let on_files = stack.fs.as_ref().is_some_and(|fs| fs.kind != FsKind::Bdev);
        if let Some(name) = disks.device_of_files(job).filter(|_| on_files) {
            return Err(JobError::new(job, JobFault::DeviceOnFiles { name: name.into() }).into());
        }
        let spec = ThreadSpec { disks: placed.numbers(), ..spec(plan, job, thread, stack) };
        if job.ioengine == job::Engine::Cpuio {
            setups.push(ThreadSetup {
                host,
                plan: thread_plan(plan, job, thread, stack),
                spec,
                by_interrupt: None,
                source: computing(job)?,
                start: start_rule(plan, &threads, index, entropy),
                exit: exit_rule(plan, &threads, index),
            });
            continue;
        }
        let source = match Generator::with_cache(job, thread, &placed.space(), entropy, cache) {
            Ok(generator) => {
                let files = match &stack.fs {
                    // fio's null opens no file (FIO_DISKLESSIO).
                    _ if job.ioengine == job::Engine::Null => None,
                    Some(fs) => Some(Files::new(&generator, job, thread, fs.kind)?),
                    None if job.ioengine.is_by_name() => {
                        return Err(JobError::new(job, JobFault::NoFileSystem).into());
                    }
                    None => None,
                };
                let drives = disks.log_names(&placed);
                let mut source = JobSource::new(generator, job).logged_on(drives);
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
        let asker =
            Asker { engine: spec.engine, knows: knows_hipri(plan, job), direct: job.direct };
        let asked = job.hipri || stack.hipri;
        setups.push(ThreadSetup {
            host,
            plan: thread_plan(plan, job, thread, stack),
            spec,
            by_interrupt: asked.then(|| asker.by_interrupt(stack, &placed.disks)).flatten(),
            source,
            start: start_rule(plan, &threads, index, entropy),
            exit: exit_rule(plan, &threads, index),
        });
    }
    Ok(setups)
}

/// The threads of a program, behind the jobs that run beside it: these end with it. A program `beside` others
/// ends with them. Its files are on this disk.
pub fn app_threads(
    app: App,
    (config, beside): (&AppConfig, bool),
    (stack, disk): (&StackConfig, &JobDisk),
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
            by_interrupt: by_interrupt(stack, engine, std::slice::from_ref(disk)),
            spec,
            source: AnySource::App(Box::new(AppSource::new(app.clone(), t as u32, beside))),
            start: Start::At(Time::ZERO),
            exit: ExitRule { stops: stops.clone(), ..ExitRule::default() },
        });
    }
}

/// Why the completions of a program or a replay come by interrupt, where the stack asks to poll for them.
pub fn by_interrupt(
    stack: &StackConfig,
    engine: Engine,
    disks: &[JobDisk],
) -> Option<&'static str> {
    stack.hipri.then(|| Asker::with(engine).by_interrupt(stack, disks)).flatten()
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
