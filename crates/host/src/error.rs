//! Why a host cannot be built, and what shows it before one is.

use crate::config::{Issue, MarkedBy, NbdConfig, NbdServer};
use crate::disk::{ArrayShape, DiskShape, DriveInfo};
use crate::source::ThreadSpec;
use crate::{Engine, Scheduler, StackConfig};
use wordline_base::{BadValue, QueuePriority, Span};

/// Why a host cannot be built for its jobs and its drive. The text names the remedy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HostError {
    /// A job asks for what this host has not, or what does not go with the other jobs.
    #[error("job '{job}': {option} {why}")]
    Job {
        /// The job's name.
        job: String,
        /// As fio names it.
        option: &'static str,
        /// What does not go, with the remedy.
        why: String,
    },
    /// A value of the section `stack`.
    #[error("stack.{0}")]
    Stack(#[from] BadValue),
    /// The drive has not what every host needs.
    #[error("the drive's {0}")]
    Drive(BadValue),
}

fn stack<T>(key: &'static str, why: impl Into<String>) -> Result<T, HostError> {
    Err(HostError::Stack(BadValue::new(key, why)))
}

fn of_job<T>(
    job: &ThreadSpec,
    option: &'static str,
    why: impl Into<String>,
) -> Result<T, HostError> {
    Err(HostError::Job { job: job.name.clone(), option, why: why.into() })
}

/// The disks that a job addresses.
fn disks_of(job: &ThreadSpec) -> &[u16] {
    if job.disks.is_empty() { &[0] } else { &job.disks }
}

/// All that can be wrong with a host shows here. The queues of each of its disks, which either the kernel
/// has or the user-space driver.
pub(crate) fn check(
    config: &StackConfig,
    jobs: &[&ThreadSpec],
    disks: &[DiskShape],
) -> Result<Vec<Queues>, HostError> {
    let of = |(number, disk): (usize, &DiskShape)| {
        if let Some(array) = &disk.array {
            return Queues::of_array(config, jobs, number as u16, array);
        }
        Queues::new(disk.queue.as_deref().unwrap_or(config), jobs, number as u16, disk)
    };
    let queues: Vec<Queues> = disks.iter().enumerate().map(of).collect::<Result<_, _>>()?;
    if queues.iter().any(|q| q.shared) && queues.iter().any(|q| !q.shared && config.kernel) {
        return stack(
            "nbd.server",
            "must not be spdk on a host of several drives: it takes all of them from the kernel",
        );
    }
    for job in jobs {
        let polls = |&d: &u16| {
            let (disk, queues) = (&disks[usize::from(d)], &queues[usize::from(d)]);
            let polled = disk.queue.as_deref().unwrap_or(config).io_poll > 0;
            queues.shared && job.hipri && polled && !disk.ftl_on_host && !disk.info.sata
        };
        let looks = job.engine == Engine::Spdk
            || job.engine == Engine::IoUring && disks_of(job).iter().any(polls);
        if looks && disks_of(job).len() > 1 {
            return of_job(
                job,
                "filename",
                "names several drives, and the job looks for its completions in the queue of one: give it \
                 one drive",
            );
        }
    }
    Ok(queues)
}

/// The queues that a host has on a drive.
pub(crate) struct Queues {
    /// The kernel has the drive: queues are those of cores, not of jobs.
    pub shared: bool,
    /// Without those for polling and those for latency-critical requests.
    pub count: u32,
    /// Those that are only polled.
    pub poll: u32,
    /// Those for latency-critical requests.
    pub critical: u32,
    /// Entries of each.
    pub depth: u32,
}

impl Queues {
    fn new(
        config: &StackConfig,
        jobs: &[&ThreadSpec],
        number: u16,
        disk: &DiskShape,
    ) -> Result<Queues, HostError> {
        let (drive, ftl) = (&disk.info, disk.ftl_on_host);
        check_drive(drive, ftl)?;
        check_stack(config, ftl)?;
        if drive.gc.is_some() && config.queue_depth.min(drive.depth) < 3 {
            return stack(
                "queue_depth",
                "must be at least 3 for a collector on the host: its command waits at the drive with a tag of \
                 its own",
            );
        }
        let kept = match ftl {
            true => Some("FTL"),
            _ if drive.gc.is_some() => Some("FTL's collector"),
            _ if drive.luns.is_some() => Some("FTL's scheduler"),
            _ => None,
        };
        if let (Some(what), false) = (kept, config.kernel) {
            return stack("kernel", format!("must be true for an {what} on the host"));
        }
        if drive.luns.is_some() && config.scheduler != Scheduler::None {
            return stack(
                "scheduler",
                "must be none: the host sends this drive's requests by LUN (ftl.fssd.scheduler), in the place \
                 of another scheduler",
            );
        }
        let shared = config.kernel && !takes_drive(config, jobs, kept)?;
        if drive.sata && config.kernel && !shared {
            let why = "which has no driver of SATA drives";
            return match jobs.iter().find(|job| job.engine == Engine::Spdk) {
                Some(job) => of_job(job, "ioengine", format!("is spdk's, {why}: another engine")),
                None => stack("nbd.server", format!("must not be spdk, {why}")),
            };
        }
        if let (false, true, Some(key)) = (shared, config.kernel, config.flashshare.asks()) {
            return stack(
                key,
                "is the kernel's, and SPDK takes the drive from it: another stack, as interrupt",
            );
        }
        let jobs_or_one = (jobs.len() as u32).max(1);
        let wanted = match (config.queues, shared) {
            (0, true) => config.cores,
            (0, false) => jobs_or_one,
            (n, true) => n,
            (n, false) => n.min(jobs_or_one),
        };
        // nvme_setup_io_queues and the driver's parameters know no more than one a core.
        for (key, asked) in [("queues", config.queues), ("poll_queues", config.poll_queues)] {
            if shared && asked > config.cores {
                let cores = config.cores;
                return stack(
                    key,
                    format!("is {asked}, there are {cores} cores: one a core at most"),
                );
            }
        }
        if !shared && config.poll_queues > 0 {
            let who = if config.kernel { "SPDK has the drive" } else { "there is none" };
            return stack("poll_queues", format!("is the kernel's, and {who}: must be 0"));
        }
        let poll = config.poll_queues;
        if poll >= drive.queues {
            return stack(
                "poll_queues",
                format!("is {poll}, the drive has {} queues", drive.queues),
            );
        }
        if let (true, true, Some(key)) = (drive.sata, shared, config.flashshare.asks()) {
            return stack(
                key,
                "changes the NVMe driver, and the drive is a SATA drive: must be as in vanilla",
            );
        }
        if config.flashshare.queues && shared && !drive.weighted_urgent {
            return stack(
                "flashshare.queues",
                "needs a drive that fetches from urgent queues first, and this one goes round them all: \
                 queues.arbitration = weighted-urgent",
            );
        }
        let pairs = if shared && config.flashshare.queues { 2 } else { 1 };
        if drive.queues - poll < pairs {
            return stack(
                "flashshare.queues",
                format!("needs two queue pairs, the drive has {} left", drive.queues - poll),
            );
        }
        let count = wanted.min((drive.queues - poll) / pairs).min(u32::from(u16::MAX) / pairs);
        if let Some(core) = config.ftl_core.filter(|&core| kept.is_some() && core >= config.cores) {
            return stack("ftl_core", format!("is {core}, there are {} cores", config.cores));
        }
        check_jobs(config, jobs, number, shared, count)?;
        // Command identifiers have 16 bits, and NO_TAG is one of them.
        let depth = config.queue_depth.min(drive.depth).min(65_535);
        Ok(Queues { shared, count, poll, critical: count * (pairs - 1), depth })
    }

    /// An array has none: its members have.
    fn of_array(
        config: &StackConfig,
        jobs: &[&ThreadSpec],
        number: u16,
        array: &ArrayShape,
    ) -> Result<Queues, HostError> {
        if !config.kernel {
            return stack(
                "kernel",
                "must be true: an array is the kernel's. Take a stack with a kernel, as interrupt",
            );
        }
        if let Err(bad) = array.config.check() {
            return Err(HostError::Stack(bad));
        }
        if let Some(core) = array.config.core.filter(|&core| core >= config.cores) {
            return stack("md.core", format!("is {core}, there are {} cores", config.cores));
        }
        let takes =
            |job: &&&ThreadSpec| job.engine == Engine::Spdk && disks_of(job).contains(&number);
        if let Some(job) = jobs.iter().find(takes) {
            return of_job(
                job,
                "ioengine",
                "is spdk's, which takes drives from the kernel, and the array is the kernel's: another engine",
            );
        }
        Ok(Queues { shared: true, count: 0, poll: 0, critical: 0, depth: 0 })
    }

    /// Whether a file system can be between the jobs and the host's drive.
    pub fn check_files(&self, config: &StackConfig, jobs: &[&ThreadSpec]) -> Result<(), HostError> {
        if !config.kernel {
            return stack(
                "kernel",
                "must be true: a file system is the kernel's. Take a stack with a kernel, as interrupt",
            );
        }
        for job in jobs {
            if job.engine == Engine::Spdk {
                return of_job(
                    job,
                    "ioengine",
                    "is spdk's, which takes the drive from the kernel, and files are the kernel's: \
                     another engine, or run it without --fs",
                );
            }
            if self.has_sq_thread(job) {
                return of_job(
                    job,
                    "sqthread_poll",
                    "has a thread of the kernel call the file system, which is not modelled: run it without --fs",
                );
            }
        }
        Ok(())
    }

    /// The kernel has a thread that submits for the job.
    pub fn has_sq_thread(&self, job: &ThreadSpec) -> bool {
        self.shared && job.engine == Engine::IoUring && job.sqthread_poll
    }
}

fn check_drive(drive: &DriveInfo, ftl: bool) -> Result<(), HostError> {
    let bad = |key, why: &str| Err(HostError::Drive(BadValue::new(key, why)));
    if drive.queues == 0 || drive.depth < 2 {
        return bad("queues", "must be at least one pair of at least 2 entries");
    }
    if !drive.lba_bytes.is_power_of_two() || drive.lba_bytes < 512 {
        return bad("lba", "must be 512 or a larger power of two");
    }
    if ftl && u64::from(drive.lba_bytes) > drive.sector.bytes() {
        return bad("lba", "must be at most a sector of the FTL on the host (nand.sector_bytes)");
    }
    if let Some(gc) = &drive.gc
        && drive.max_transfer > 0
        && gc.shape.memory() > u64::from(drive.max_transfer)
    {
        let why = format!(
            "must be at least {} bytes, which the counts of its segments have that a collector on the host \
             reads: or set ftl.fssd.victims to \"drive\"",
            gc.shape.memory()
        );
        return bad("queues.max_transfer", &why);
    }
    if drive.sata && (drive.gc.is_some() || drive.luns.is_some()) {
        return bad(
            "sata",
            "must be none for a part of the drive's FTL on the host: its orders are NVMe commands",
        );
    }
    if ftl && drive.unit_sectors == 0 {
        return bad("write unit", "must be at least 1 sector");
    }
    Ok(())
}

fn check_stack(config: &StackConfig, ftl: bool) -> Result<(), HostError> {
    if !(1..=1024).contains(&config.cores) {
        return stack("cores", "must be 1 to 1024");
    }
    if config.queue_depth < 2 {
        return stack("queue_depth", "must be at least 2: one slot always stays empty");
    }
    if config.max_request < 4096 || !config.max_request.is_multiple_of(4096) {
        return stack("max_request", "must be a multiple of 4096 bytes");
    }
    if config.tick_hz > 1_000_000 {
        return stack("tick_hz", "must be at most 1000000: Linux has 100 to 1000");
    }
    if config.kworker.interval > Span::ZERO && config.kworker.work >= config.kworker.interval {
        return stack("kworker.work", "must be less than its interval");
    }
    config.cost.warm.check()?;
    let (power, idle) = (&config.cost.power, &config.idle);
    for (key, watts) in [
        ("cost.power.busy", power.busy),
        ("cost.power.idle", power.idle),
        ("idle.c1.watts", idle.c1.watts),
        ("idle.c1e.watts", idle.c1e.watts),
        ("idle.c3.watts", idle.c3.watts),
        ("idle.c6.watts", idle.c6.watts),
    ] {
        if !(watts.is_finite() && watts >= 0.0) {
            return stack(key, "must be 0 watts or more");
        }
    }
    match config.scheduler {
        Scheduler::MqDeadline if config.deadline.fifo_batch == 0 => {
            return stack("deadline.fifo_batch", "must be at least 1");
        }
        Scheduler::Bfq if config.bfq.max_budget == 0 => {
            return stack("bfq.max_budget", "must be at least 1 sector");
        }
        Scheduler::Bfq if config.bfq.timeout == Span::ZERO => {
            return stack("bfq.timeout", "must be above 0: a queue must get somewhere");
        }
        _ => {}
    }
    match config.bio_scheduler {
        Scheduler::Kyber if !ftl => {
            return stack(
                "bio_scheduler",
                "is for an FTL on the host, which alone presents a bio-based device: use scheduler",
            );
        }
        Scheduler::None | Scheduler::Kyber => {}
        _ => {
            return stack(
                "bio_scheduler",
                "must be none or kyber, which counts tokens: the others order what waits for a tag, \
                 and bios take none",
            );
        }
    }
    let by_tool = config.flashshare.marked_by == MarkedBy::ChworkloadAttr;
    if by_tool && !config.kernel {
        return stack(
            "flashshare.marked_by",
            "must be itself: the tool's calls are the kernel's, and stack.kernel is false. Take a stack with a \
             kernel, as interrupt",
        );
    }
    if let Some(key) = config.flashshare.asks() {
        if !config.kernel {
            return stack(
                key,
                "is the kernel's, and stack.kernel is false: take a stack with a kernel, as interrupt",
            );
        }
        if config.nbd.is_some() {
            return stack(
                key,
                "is for a drive's own driver, and the drive is behind NBD: a stack without, as interrupt",
            );
        }
        if ftl {
            return stack(
                key,
                "is for requests, and an FTL on the host presents a bio-based device: an FTL in the drive \
                 (ftl.placement = device)",
            );
        }
    }
    if !(1..=2).contains(&config.flashshare.completion_queues) {
        return stack("flashshare.completion_queues", "must be 1 or 2");
    }
    if config.flashshare.issue == Issue::Queued && config.scheduler != Scheduler::None {
        return stack(
            "flashshare.issue",
            "must be direct with an I/O scheduler, which has the requests that would wait in software queues",
        );
    }
    if ftl && config.scheduler != Scheduler::None {
        return stack(
            "scheduler",
            "must be none for an FTL on the host, which presents a bio-based device: bio_scheduler = \
             kyber is one in front of it",
        );
    }
    Ok(())
}

/// Whether SPDK takes the drive from the kernel. `kept`: a part of the FTL runs in the kernel, so that it may
/// not.
fn takes_drive(
    config: &StackConfig,
    jobs: &[&ThreadSpec],
    kept: Option<&str>,
) -> Result<bool, HostError> {
    let asks = jobs.iter().find(|job| job.engine == Engine::Spdk);
    if let (Some(job), true) = (asks, config.nbd.is_some()) {
        return of_job(job, "ioengine", "needs the drive itself, and has it over NBD");
    }
    let target = |nbd: &NbdConfig| nbd.server == NbdServer::Spdk && jobs.is_empty();
    if !config.kernel || asks.is_none() && !config.nbd.as_ref().is_some_and(target) {
        return Ok(false);
    }
    let of_kernel = |job: &&&ThreadSpec| !matches!(job.engine, Engine::Spdk | Engine::Null);
    if let Some(job) = jobs.iter().find(of_kernel) {
        return of_job(
            job,
            "ioengine",
            "needs the kernel's driver, and spdk takes the drive from it: all jobs or none",
        );
    }
    let Some(what) = kept else { return Ok(true) };
    let why = format!(
        "which takes the drive from the kernel, where its {what} is: take a stack of the kernel's (linux-libaio), or \
         an FTL in the drive (ftl.placement=device)"
    );
    match asks {
        Some(job) => of_job(job, "ioengine", format!("is spdk's, {why}")),
        None => stack("nbd.server", format!("must not be spdk, {why}")),
    }
}

fn check_jobs(
    config: &StackConfig,
    jobs: &[&ThreadSpec],
    disk: u16,
    shared: bool,
    queues: u32,
) -> Result<(), HostError> {
    let beyond = |core: u32| format!("asks for core {core}, there are {}", config.cores);
    let mut priorities = vec![None; queues as usize];
    for (job, q) in jobs.iter().zip((0..queues as usize).cycle()) {
        if job.iodepth > 1 << 20 {
            return of_job(job, "iodepth", "must be at most 1048576");
        }
        if let Some(&core) = job.cpus_allowed.iter().find(|&&core| core >= config.cores) {
            return of_job(job, "cpus_allowed", beyond(core));
        }
        let priority = job.class.queue();
        if config.kernel && priority != QueuePriority::Medium {
            return of_job(
                job,
                "prioclass",
                "asks for a class of queue, and Linux creates every queue as medium: queue classes \
                 need stack.kernel = false",
            );
        }
        if disks_of(job).contains(&disk) && *priorities[q].get_or_insert(priority) != priority {
            return of_job(job, "prioclass", "is not that of the jobs it shares a queue with");
        }
        let submits = shared && job.engine == Engine::IoUring && job.sqthread_poll;
        if let Some(core) = job.sqthread_poll_cpu.filter(|&core| submits && core >= config.cores) {
            return of_job(job, "sqthread_poll_cpu", beyond(core));
        }
    }
    Ok(())
}
