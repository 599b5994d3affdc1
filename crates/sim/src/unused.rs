//! Settings that a run has no use for.

use wordline_base::{Span, Workload};
use wordline_device::DeviceConfig;
use wordline_device::config::{Arbitration, Split};
use wordline_fs::FsKind;
use wordline_ftl::{FtlConfig, Placement, Side, VictimPolicy};
use wordline_host::config::{Governor, NbdServer, Transport};
use wordline_host::{Engine, Scheduler, StackConfig, ThreadSpec};
use wordline_md::Level;
use wordline_nand::{ErrorModel, NandConfig};

/// What a run's settings are for.
pub struct InUse<'a> {
    /// The host's.
    pub stack: &'a StackConfig,
    /// Those of the only drive. `None` where there are several drives, of which one may have a use for what another has none
    /// for, and where the FTL is the caller's own.
    pub drive: Option<(&'a DeviceConfig, &'a FtlConfig, &'a NandConfig)>,
    /// Of each array.
    pub levels: &'a [Level],
    /// The host's threads.
    pub threads: &'a [&'a ThreadSpec],
}

/// What of the keys that the user set changes nothing in this run, and why. Each is said as it was written.
pub fn unused(set: &[String], of: &InUse) -> Vec<String> {
    let line = |text: &String| {
        let path = text.split_once('=')?.0.trim();
        let host = path.strip_prefix("stack.").or_else(|| path.strip_prefix("testbed."));
        // These sections of the host's have a short name.
        let short = ["flashshare.", "fs."].iter().any(|section| path.starts_with(section));
        let host = host.or_else(|| short.then_some(path));
        let why = match (host, of.drive) {
            (Some(key), _) => of_host(key, of)?,
            (None, Some((device, ftl, nand))) => {
                match (path.strip_prefix("ftl."), path.strip_prefix("nand.")) {
                    (Some(key), _) => of_ftl(key, ftl, nand)?,
                    (_, Some(key)) => of_nand(key, nand)?,
                    _ => of_device(path.strip_prefix("device.").unwrap_or(path), device, ftl)?,
                }
            }
            (None, None) => return None,
        };
        Some(format!("{path} has no effect here: {why}"))
    };
    set.iter().filter_map(line).collect()
}

fn of_device(key: &str, device: &DeviceConfig, ftl: &FtlConfig) -> Option<&'static str> {
    let weighted = device.queues.arbitration == Arbitration::WeightedUrgent;
    match key {
        "queues.weights" if !weighted => Some("queues.arbitration is not weighted-urgent"),
        "interrupt.time" if device.interrupt.threshold < 2 => {
            Some("the drive gathers no completions (interrupt.threshold)")
        }
        "limits.count_rebuild_reads" if !has_strides(ftl) => Some(NO_STRIDES),
        "staging_bytes" if ftl.fssd.as_ref().is_none_or(|fssd| fssd.volatile) => {
            Some("only FSSD stages data in the drive, where ftl.fssd.volatile is false")
        }
        "link.generation" | "link.lanes" | "link.efficiency" if device.sata.is_some() => Some(
            "the data of a SATA drive cross its own link (device.sata), and the host adapter's adds its latencies alone",
        ),
        "cache.epoch.ios" | "cache.epoch.time" if !has_epochs(device) => Some(
            "nothing is chosen at the end of an epoch: neither cache.partition.split nor \
             cache.read_ahead.ghosts adapts",
        ),
        _ => None,
    }
}

/// The cache has a split, or a read-ahead, that it chooses anew now and then.
fn has_epochs(device: &DeviceConfig) -> bool {
    let Some(cache) = &device.cache else { return false };
    let splits = cache.partition.as_ref().is_some_and(|part| part.split != Split::Fixed);
    splits || cache.read_ahead.as_ref().is_some_and(|ahead| ahead.ghosts.is_some())
}

fn of_nand(key: &str, nand: &NandConfig) -> Option<&'static str> {
    let suspend = &nand.suspend;
    match key {
        "gang_skew" | "remap" if nand.gang == 1 => Some("a LUN is a die alone (nand.gang)"),
        "errors.codeword_bytes" if nand.decoder.is_some() => None,
        // Worn cells are slower or faster, too.
        "errors.cycles" if nand.variation.program_wear > 0 || nand.variation.erase_wear > 0 => None,
        _ if nand.errors.model == ErrorModel::None
            && key.starts_with("errors.")
            && key != "errors.model" =>
        {
            Some("each read is right at once (nand.errors.model)")
        }
        "variation.layers" if nand.variation.layer_program == 0 => {
            Some("all layers program alike (nand.variation.layer_program)")
        }
        "suspend.t_program" if !suspend.program => {
            Some("programs are not suspended (nand.suspend.program)")
        }
        "suspend.t_erase" if !suspend.erase => {
            Some("erasures are not suspended (nand.suspend.erase)")
        }
        "suspend.t_dma" if !suspend.dma => Some("transfers are not suspended (nand.suspend.dma)"),
        "suspend.t_resume" | "suspend.interval" if !suspend.program && !suspend.erase => {
            Some("nothing is suspended (nand.suspend.program, nand.suspend.erase)")
        }
        "suspend.most" if !suspend.any() => {
            Some("reads go before nothing (nand.suspend.queue, program, dma, erase)")
        }
        _ => None,
    }
}

/// Parts of FSSD may be on the host while its map is in the drive.
fn has_host_part(ftl: &FtlConfig) -> bool {
    let parts = ftl.fssd.as_ref().map(|fssd| [fssd.victims, fssd.collector, fssd.scheduler]);
    ftl.placement == Placement::Host || parts.is_some_and(|sides| sides.contains(&Side::Host))
}

/// FSSD's scheduler is on the host, and its map in the drive.
fn orders_on_host(ftl: &FtlConfig) -> bool {
    let scheduler = ftl.fssd.as_ref().map(|fssd| fssd.scheduler);
    ftl.placement == Placement::Device && scheduler == Some(Side::Host)
}

/// FSSD's victims are chosen on the host, and its map is in the drive.
fn orders_collection(ftl: &FtlConfig) -> bool {
    let victims = ftl.fssd.as_ref().map(|fssd| fssd.victims);
    ftl.placement == Placement::Device && victims == Some(Side::Host)
}

const NO_STRIDES: &str = "the FTL has no strides (ftl.stride), and rebuilds nothing";

fn has_strides(ftl: &FtlConfig) -> bool {
    ftl.stride > 0 && ftl.fssd.is_none() && ftl.firmware.is_none()
}

fn of_ftl(key: &str, ftl: &FtlConfig, nand: &NandConfig) -> Option<&'static str> {
    let whole = ["over_provisioning", "placement", "firmware", "fssd"];
    if nand.in_place && !whole.contains(&key) && !key.contains('.') {
        return Some(
            "the medium is written in place (nand.in_place), where each sector has its own: no lines, no buffer and \
             no collection",
        );
    }
    let of_strides = matches!(
        key,
        "parities"
            | "stride_layout"
            | "parity_place"
            | "emeta_on_parity"
            | "throttle"
            | "rebuild_from_one"
            | "rebuild_split"
            | "check_neighbours"
            | "write_mostly_iops"
            | "write_mostly_window"
            | "parity_offload"
            | "busy_race"
            | "cost.xor_sector"
    );
    let of_parts = matches!(
        key,
        "partition_rule" | "partition_by" | "partition_interval" | "cold_margin" | "gc_buffer"
    );
    match key {
        _ if of_strides && !has_strides(ftl) => Some(NO_STRIDES),
        // Lines of hot and of cold data have metadata of their own each.
        "op_after_parity" if !has_strides(ftl) && !ftl.hot_cold => Some(NO_STRIDES),
        _ if of_parts && !ftl.hot_cold => Some("hot and cold data are not apart (ftl.hot_cold)"),
        "cost.place" if !orders_on_host(ftl) => Some(
            "no part on the host looks up places in a map that is in the drive (ftl.fssd.scheduler)",
        ),
        "cost.gc_count" if !orders_collection(ftl) => Some(
            "no collector on the host counts what segments of the drive hold (ftl.fssd.victims)",
        ),
        "d_choices" if ftl.victim != VictimPolicy::DChoices => Some("ftl.victim is not d-choices"),
        "victim_window" if ftl.victim != VictimPolicy::WindowedGreedy => {
            Some("ftl.victim is not windowed-greedy")
        }
        _ => of_fssd(key.strip_prefix("fssd.")?, ftl),
    }
}

fn of_fssd(key: &str, ftl: &FtlConfig) -> Option<&'static str> {
    let fssd = ftl.fssd.as_ref()?;
    let on_host = ftl.placement == Placement::Host;
    match key {
        "firmware_factor" if on_host && fssd.collector == Side::Host => {
            Some("all of the FTL runs on the host (ftl.placement, ftl.fssd.collector)")
        }
        "report_units" | "places" | "lun_reads" | "hold" if on_host => {
            Some("the map is on the host (ftl.placement)")
        }
        "report_units" if fssd.victims == Side::Drive => {
            Some("the drive chooses the victims (ftl.fssd.victims)")
        }
        "places" | "lun_reads" | "hold" if fssd.scheduler == Side::Drive => {
            Some("the drive orders the requests (ftl.fssd.scheduler)")
        }
        _ => None,
    }
}

fn of_fs(key: &str, stack: &StackConfig) -> Option<&'static str> {
    let kind = stack.fs.as_ref()?.kind;
    match key.strip_prefix("fs.")?.split('.').next()? {
        "ext4" if kind != FsKind::Ext4 => Some("the file system is not ext4 (--fs)"),
        "xfs" if kind != FsKind::Xfs => Some("the file system is not xfs (--fs)"),
        "atime" if kind == FsKind::Bdev => {
            Some("the block device's page cache has no inodes that reads change")
        }
        "time_granularity" if kind == FsKind::Bdev => {
            Some("the block device's page cache writes no times")
        }
        _ => None,
    }
}

fn of_nbd(key: &str, stack: &StackConfig) -> Option<&'static str> {
    let nbd = stack.nbd.as_ref()?;
    let by_spdk = nbd.server == NbdServer::Spdk;
    match key {
        "nbd.rate" | "nbd.delay" | "nbd.mtu" if nbd.transport != Transport::Ethernet => {
            Some("client and server are on one machine (stack.nbd.transport)")
        }
        "nbd.server_cores" if nbd.transport == Transport::Ethernet => {
            Some("client and server are machines of their own (stack.nbd.transport)")
        }
        "nbd.threads" if by_spdk => Some("SPDK's server has one thread (stack.nbd.server)"),
        "scheduler" if by_spdk => Some(
            "it is the elevator at the server, where SPDK drives the drive without one; stack.nbd.scheduler is \
                  the client's",
        ),
        _ => None,
    }
}

fn of_md(key: &str, of: &InUse) -> Option<&'static str> {
    let key = key.strip_prefix("md.")?;
    let of_parity = matches!(key, "stripe_cache" | "core" | "sync_speed_max" | "bitmap");
    match of.levels {
        [] => Some("there is no array"),
        levels if of_parity && levels.iter().all(|level| *level == Level::Raid0) => {
            Some("a raid0 has no parity, and no stripes to keep or to write anew")
        }
        _ => None,
    }
}

fn of_host(key: &str, of: &InUse) -> Option<&'static str> {
    let InUse { stack, threads, .. } = of;
    if let Some(why) = of_fs(key, stack).or_else(|| of_nbd(key, stack)).or_else(|| of_md(key, of)) {
        return Some(why);
    }
    // A server has threads of its own, and clients go through both kernels.
    if stack.nbd.is_some() {
        return None;
    }
    let any = |engine: Engine| threads.iter().any(|thread| thread.engine == engine);
    let kernel_has_the_drive =
        threads.iter().any(|t| !matches!(t.engine, Engine::Spdk | Engine::Null));
    let (section, _) = key.split_once('.').unwrap_or((key, ""));
    let ftl_on_host = of.drive.is_none_or(|(_, ftl, _)| ftl.placement == Placement::Host);
    let is_sata = of.drive.map(|(device, ..)| device.sata.is_some());
    let of_nvme = matches!(key, "cost.doorbell" | "cost.interrupt" | "cost.completion");
    let has_map = of.drive.is_none_or(|(_, ftl, _)| ftl.cost.map.is_some());
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
    let marked = threads.iter().any(|thread| thread.class.workload() != Workload::None);
    let submits = |thread: &&ThreadSpec| thread.engine == Engine::IoUring && thread.sqthread_poll;
    match section {
        "flashshare" if key == "flashshare.marked_by" && !marked => {
            Some("no job has a workload attribute (workload_attr)")
        }
        "flashshare" if key == "flashshare.give_up" && !stack.flashshare.select_isr => {
            Some("Select-ISR is off (stack.flashshare.select_isr)")
        }
        "scheduler_tags" if stack.scheduler == Scheduler::None => {
            Some("stack.scheduler is none, which has no tags of its own")
        }
        "deadline" if !is(Scheduler::MqDeadline) => Some("stack.scheduler is not mq-deadline"),
        "kyber" if !is(Scheduler::Kyber) => {
            Some("neither stack.scheduler nor stack.bio_scheduler is kyber")
        }
        "bfq" if !is(Scheduler::Bfq) => Some("stack.scheduler is not bfq"),
        "sfq" if !is(Scheduler::Sfq) => Some("stack.scheduler is not sfq"),
        "io_poll" | "io_poll_delay" if !polls => Some("no job polls for its completions (hipri)"),
        "idle" if stack.idle.governor == Governor::None && key != "idle.governor" => {
            Some("no governor chooses among idle states (stack.idle.governor)")
        }
        "kworker" if stack.kworker.interval == Span::ZERO && key != "kworker.interval" => {
            Some("no kworker has work (stack.kworker.interval)")
        }
        "sq_thread_idle" if !threads.iter().any(submits) => {
            Some("no job has a thread of io_uring that submits for it (sqthread_poll)")
        }
        "ftl_core" if of.drive.is_some_and(|(_, ftl, _)| !has_host_part(ftl)) => {
            Some("no part of the FTL runs on the host (ftl.placement)")
        }
        "rwsem_spin" if !ftl_on_host || !has_map => {
            Some("the host has no map with a lock (ftl.placement, ftl.cost.map)")
        }
        "cost" if key.starts_with("cost.sata.") && is_sata == Some(false) => {
            Some("the drive is no SATA drive (device.sata)")
        }
        "cost" if is_sata == Some(true) && of_nvme => {
            Some("the drive is a SATA drive, whose driver has testbed.cost.sata")
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
