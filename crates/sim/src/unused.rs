//! Settings of a host's software that a run has no use for.

use wordline_host::{Engine, Scheduler, StackConfig, ThreadSpec};

/// What of the keys that the user set changes nothing on this host, and why. Each is said as it was written.
pub fn unused(set: &[String], stack: &StackConfig, threads: &[&ThreadSpec]) -> Vec<String> {
    let line = |text: &String| {
        let (path, _) = text.split_once('=')?;
        let key = path.strip_prefix("stack.").or_else(|| path.strip_prefix("testbed."))?;
        let why = why_unused(key, stack, threads)?;
        Some(format!("{path} has no effect here: {why}"))
    };
    set.iter().filter_map(line).collect()
}

fn why_unused(key: &str, stack: &StackConfig, threads: &[&ThreadSpec]) -> Option<&'static str> {
    // A server has threads of its own, and clients go through both kernels.
    if stack.nbd.is_some() {
        return None;
    }
    let any = |engine: Engine| threads.iter().any(|thread| thread.engine == engine);
    let kernel_has_the_drive =
        threads.iter().any(|t| !matches!(t.engine, Engine::Spdk | Engine::Null));
    let (section, _) = key.split_once('.').unwrap_or((key, ""));
    // The largest request bounds those of drivers in user space too.
    let is_of_kernel = matches!(
        section,
        "scheduler"
            | "scheduler_tags"
            | "merge"
            | "io_poll"
            | "io_poll_delay"
            | "deadline"
            | "kyber"
            | "bfq"
            | "sfq"
    );
    if is_of_kernel && !stack.kernel {
        return Some("jobs hand commands to the drive without a kernel (stack.kernel is off)");
    }
    if is_of_kernel && !kernel_has_the_drive {
        return Some("no I/O goes through the kernel's block layer");
    }
    let is =
        |scheduler: Scheduler| stack.scheduler == scheduler || stack.bio_scheduler == scheduler;
    let polls =
        stack.hipri || stack.flashshare.select_isr || threads.iter().any(|thread| thread.hipri);
    let submits = |thread: &&ThreadSpec| thread.engine == Engine::IoUring && thread.sqthread_poll;
    match section {
        "deadline" if !is(Scheduler::MqDeadline) => Some("stack.scheduler is not mq-deadline"),
        "kyber" if !is(Scheduler::Kyber) => {
            Some("neither stack.scheduler nor stack.bio_scheduler is kyber")
        }
        "bfq" if !is(Scheduler::Bfq) => Some("stack.scheduler is not bfq"),
        "sfq" if !is(Scheduler::Sfq) => Some("stack.scheduler is not sfq"),
        "io_poll" | "io_poll_delay" if !polls => Some("no job polls for its completions (hipri)"),
        "sq_thread_idle" if !threads.iter().any(submits) => {
            Some("no job has a thread of io_uring that submits for it (sqthread_poll)")
        }
        "cost" if key.starts_with("cost.uring.") && !any(Engine::IoUring) => {
            Some("no job has the engine io_uring")
        }
        "cost" if key.starts_with("cost.spdk.") && !any(Engine::Spdk) => {
            Some("no job has the engine spdk")
        }
        _ => None,
    }
}
