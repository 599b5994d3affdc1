//! What the user should know of a plan on a machine: words that ask for what is not modelled, or change nothing.

use crate::disks::{JobDisk, JobDisks};
use crate::pace::bytes_of_iops;
use crate::setup::{engine_name, engine_of, given, given_word};
use wordline_base::{Span, Workload};
use wordline_fio::job::WorkloadAttr;
use wordline_fio::{Job, Plan, Size, job};
use wordline_fs::FsKind;
use wordline_host::{Engine, Scheduler, StackConfig};
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
const OF_FILES: [&str; 7] = [
    "invalidate",
    "sync_file_range",
    "create_on_open",
    "overwrite",
    "fallocate",
    "fadvise_hint",
    "pre_read",
];

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
            let offset = start_of(job, drive_bytes);
            (offset.saturating_add(size) > drive_bytes)
                .then(|| format!("size={size} from offset={offset} on"))
        }
        (None, Some(Size::Percent(share))) if share > 100 => Some(format!("size={share}%")),
        (None, _) => None,
    }
}

/// Where a job begins on the drive.
fn start_of(job: &Job, drive_bytes: u64) -> u64 {
    match job.offset {
        Size::Bytes(offset) => offset,
        Size::Percent(percent) => (u128::from(drive_bytes) * u128::from(percent) / 100) as u64,
    }
}

/// The host or one of these drives goes by the attribute of an I/O.
fn heeds_attribute(stack: &StackConfig, disks: &[JobDisk]) -> bool {
    let on_host = stack.kernel && stack.flashshare.heeds_attribute();
    on_host || disks.iter().any(|disk| disk.heeds.attribute)
}

/// Words of a job's class that nothing on this machine acts on.
fn unheeded(job: &Job, stack: &StackConfig, disks: &[JobDisk]) -> Vec<String> {
    let by_queue = !stack.kernel && disks.iter().any(|disk| disk.heeds.queue);
    let by_attribute = heeds_attribute(stack, disks);
    let mut all = Vec::new();
    // That a network ends it is told apart.
    let marked = job.workload() != Workload::None && stack.nbd.is_none();
    if marked && !by_attribute && !by_queue {
        all.push(
            "workload_attr is in the results by class. Nothing else acts on it here: with --system cacheopt and those \
             behind it host or drive do, with cache.partition the drive's cache. With stack.kernel=false it chooses \
             the job's queue, and queues.arbitration=weighted-urgent goes by that"
                .into(),
        );
    }
    if !stack.kernel && job.prio.class != 0 && !by_queue {
        all.push(
            "prioclass chooses the class of the job's queue, and the drive takes from all queues alike: --set \
             queues.arbitration=weighted-urgent"
                .into(),
        );
    }
    all
}

/// Words that say more of another one, which the job has not.
fn without_its_other(job: &Job) -> impl Iterator<Item = (&'static str, &'static str)> {
    let sets = |values: &[u64; 3]| values.iter().any(|value| *value > 0);
    let rated = sets(&job.rate) || sets(&job.rate_iops);
    let thinks = job.thinktime > Span::ZERO;
    let rows: [(bool, &[&str], &str); 7] = [
        (rated, &["rate_process"], "rate or rate_iops"),
        (rated && thinks, &["rate_ignore_thinktime"], "rate with a thinktime"),
        (
            sets(&job.rate_min) || sets(&job.rate_iops_min),
            &["rate_cycle"],
            "rate_min or rate_iops_min",
        ),
        (
            job.latency_target > Span::ZERO,
            &["latency_window", "latency_percentile", "latency_run"],
            "latency_target",
        ),
        (
            thinks,
            &["thinktime_spin", "thinktime_blocks", "thinktime_blocks_type", "thinktime_iotime"],
            "thinktime",
        ),
        (job.sqthread_poll, &["sqthread_poll_cpu"], "sqthread_poll"),
        (
            job.has_cmdprio(),
            &["cmdprio", "cmdprio_class"],
            "share of its I/Os for it (cmdprio_percentage, cmdprio_bssplit)",
        ),
    ];
    let missing = rows.into_iter().filter(|(there, ..)| !there);
    missing.flat_map(|(_, options, other)| options.iter().map(move |option| (*option, other)))
}

/// What the user should know about a plan on this machine: words of fio that ask for something that
/// is not modelled, each named once. The stacks are those of the hosts, in their order.
pub fn notes(
    plan: &Plan,
    stacks: &[&StackConfig],
    ftl_on_host: bool,
    disks: &JobDisks,
) -> Vec<String> {
    let mut notes = Vec::new();
    let mut say = |text: String| {
        if !notes.contains(&text) {
            notes.push(text);
        }
    };
    for note in &plan.notes {
        say(note.text.clone());
    }
    for job in plan.jobs.iter().filter(|job| !job.stats) {
        say(format!(
            "job {} has stats=0: its I/Os are in the numbers of drive and host, and in no latency and no rate",
            job.name
        ));
    }
    for job in &plan.jobs {
        let stack = stacks[disks.place(job).map_or(0, |placed| placed.host)];
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
        // The jobs' parser says so of an engine that a job names.
        let unnamed = !given(plan, job, "ioengine");
        if unnamed && job.iodepth > 1 && engine_of(plan, job, stack) == Engine::Pvsync2 {
            say(format!(
                "iodepth does nothing in job '{}': its ioengine is synchronous, one I/O at a time",
                job.name
            ));
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
        if job.sqthread_poll && (engine != Engine::IoUring || !stack.kernel) {
            say("sqthread_poll has no effect here: it is io_uring's".into());
        }
        let placed = disks.place(job);
        // Past the page cache, if there is one.
        let raw = stack.fs.as_ref().is_none_or(|fs| fs.kind == FsKind::Bdev && job.direct);
        if job.sync != job::SyncMode::None && raw {
            let volatile = placed.iter().flat_map(|p| &p.disks).any(|disk| disk.volatile_cache);
            let why = match engine {
                Engine::Null => Some("no I/O reaches a drive"),
                Engine::Spdk => {
                    Some("SPDK's plugin opens no file, so nothing has O_SYNC: use fsync=1")
                }
                _ if stack.nbd.as_ref().is_some_and(|nbd| !nbd.flush) => Some(
                    "the server says that it takes no flushes (stack.nbd.flush=false), so the client sends it \
                     none, and no FUA",
                ),
                _ if !volatile => {
                    Some("the drive has no volatile cache, so that what it has taken is safe")
                }
                Engine::Libaio | Engine::IoUring if ftl_on_host => Some(
                    "pblk of Linux 4.14 does not heed FUA, so a write ends in its buffer: use fsync=1, or \
                     pvsync2, where a flush follows each write",
                ),
                _ => None,
            };
            if let Some(why) = why {
                say(format!("sync changes nothing at the drive here: {why}"));
            }
        }
        if stack.kernel
            && engine != Engine::Null
            && stack.scheduler == Scheduler::None
            && placed.iter().flat_map(|p| &p.disks).any(|disk| disk.sata)
        {
            say("the SATA drive has no I/O scheduler here, and Linux gives it mq-deadline, as all drives with one \
                 queue: --set stack.scheduler=mq-deadline"
                .into());
        }
        let scheduler = stack.nbd.as_ref().map_or(stack.scheduler, |nbd| nbd.scheduler);
        let heeds = scheduler.heeds_jobs() && !job.has_cmdprio();
        let is_attribute = job.workload_attr == WorkloadAttr::Prioclass && !job.has_cmdprio();
        let heeded = placed.as_ref().is_ok_and(|p| heeds_attribute(stack, &p.disks));
        let by_class = heeds || is_attribute && heeded;
        if stack.kernel && !by_class && (job.prio.class != 0 || job.has_cmdprio()) {
            say("prio, prioclass and cmdprio are in the logs and in the results by class. Nothing else acts on \
                 them here. The schedulers bfq and sfq heed a job's. With stack.kernel=false they choose \
                 the class of the job's queue"
                .into());
        }
        if let Ok(placed) = &placed {
            unheeded(job, stack, &placed.disks).into_iter().for_each(&mut say);
        }
        // A job that asks for the scheduler which the stack has anyway gets what it wants.
        if let Some(wanted) = &job.ioscheduler
            && !ftl_on_host
            && wanted != scheduler.name()
        {
            let key = if stack.nbd.is_some() { "stack.nbd.scheduler" } else { "stack.scheduler" };
            let known = Scheduler::ALL.map(Scheduler::name);
            say(match known.contains(&wanted.as_str()) {
                true => {
                    format!(
                        "ioscheduler={wanted}: the scheduler is the stack's: --set {key}={wanted}"
                    )
                }
                false => format!(
                    "ioscheduler={wanted}: the scheduler is the stack's, {key}={}. There is none of that name: \
                     {} are there",
                    scheduler.name(),
                    known.join(", ")
                ),
            });
        }
        if stack.fs.is_some() && job.iodepth_batch > 1 && given(plan, job, "iodepth_batch") {
            say("iodepth_batch has no effect here: on a file system each I/O is a system call of its own".into());
        }
        for option in OF_FILES {
            if given(plan, job, option) && stack.fs.is_none() {
                say(format!("{option} has no effect here: it is about files, choose --fs ext4"));
            }
        }
        let does = [job.rw.reads(), job.rw.writes(), job.rw.trims()];
        let mut paced = (0..3).filter(|&d| does[d] && job.read_iolog.is_none());
        if let Some((d, rate)) = paced.find_map(|d| Some((d, bytes_of_iops(job, d)?))) {
            say(format!(
                "rate_iops={} for {} of job '{}': fio paces I/Os of several lengths by their bytes, as if each were of the \
                 shortest, {} bytes: {rate} bytes a second. rate_process=poisson goes by their number",
                job.rate_iops[d],
                ["reads", "writes", "trims"][d],
                job.name,
                job.min_bs[d]
            ));
        }
        for (option, why) in WITHOUT_EFFECT {
            if given(plan, job, option) {
                say(format!("{option} has no effect here: {why}"));
            }
        }
        if job.kb_base == 1000 {
            say("kb_base=1000 is for the numbers that are read: those printed keep units of 1024"
                .into());
        }
        let is_own = |option: &str| job.options.iter().any(|(name, _)| name == option);
        let lacks = |job: &Job, option: &str| without_its_other(job).any(|(one, _)| one == option);
        for (option, missing) in without_its_other(job).filter(|(o, _)| given(plan, job, o)) {
            // What stands in [global] may be for some of the jobs.
            if is_own(option) {
                say(format!("{option} has no effect here: job '{}' has no {missing}", job.name));
            } else if plan.jobs.iter().all(|job| lacks(job, option)) {
                say(format!("{option} has no effect here: no job has a {missing}"));
            }
        }
        let drive_bytes = placed.map_or(0, |placed| placed.space().bytes());
        if let Some(wanted) = beyond_the_end(job, drive_bytes) {
            // Random offsets are drawn from all of size, wherever the drive ends in it.
            let ends = match job.rw.is_random() && start_of(job, drive_bytes) > 0 {
                true => {
                    "as in fio it ends at the first random offset beyond, which may be its first. Lower size to what \
                     is left of the drive"
                }
                false => "its I/O ends with the drive",
            };
            say(format!(
                "job '{}': {wanted} is more than the drive's {drive_bytes} bytes: {ends}",
                job.name
            ));
        }
        if job.logs.hist.is_some() && job.logs.hist_interval == Span::ZERO {
            say("write_hist_log writes nothing without log_hist_msec=".into());
        }
    }
    notes
}
