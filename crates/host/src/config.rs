//! A stack: which path the kernel takes, and what each stage costs on a testbed.

use serde::{Deserialize, Serialize};
use wordline_base::{BadValue, Span};

/// What a job issues its I/Os with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// preadv2/pwritev2: one I/O at a time, the thread sleeps until it is done.
    Pvsync2,
    /// io_submit and io_getevents.
    Libaio,
    /// Submission and completion rings, io_uring_enter (Linux 5.1).
    IoUring,
    /// The user-space NVMe driver of SPDK, by its fio plugin: no system call, no interrupt.
    Spdk,
    /// Completes every I/O at once: what the job itself costs.
    Null,
}

/// Linux' schedulers for blk-mq.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// Requests go to the driver in the order in which they are made.
    #[default]
    None,
    /// By address, unless a request is overdue.
    MqDeadline,
    /// By tokens for each direction.
    Kyber,
    /// By shares for each thread.
    Bfq,
    /// By shares for each thread, with a bound on what is at the drive. Linux has none like it.
    Sfq,
}

impl Scheduler {
    /// All, `none` first.
    pub const ALL: [Scheduler; 5] =
        [Scheduler::None, Scheduler::MqDeadline, Scheduler::Kyber, Scheduler::Bfq, Scheduler::Sfq];

    /// Linux' name.
    pub fn name(self) -> &'static str {
        match self {
            Scheduler::None => "none",
            Scheduler::MqDeadline => "mq-deadline",
            Scheduler::Kyber => "kyber",
            Scheduler::Bfq => "bfq",
            Scheduler::Sfq => "sfq",
        }
    }
    /// Requests of a job with a priority go before those of others.
    pub fn heeds_jobs(self) -> bool {
        matches!(self, Scheduler::Bfq | Scheduler::Sfq)
    }
}

/// `[stack]`: the software of a host.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StackConfig {
    /// The engine of jobs that name none.
    pub engine: Engine,
    /// Off: jobs hand commands straight to the device queues, at no cost and at once (to study a
    /// device alone).
    #[serde(default = "yes")]
    pub kernel: bool,
    /// Processor cores.
    pub cores: u32,
    /// NVMe queue pairs; 0 is one a core.
    #[serde(default)]
    pub queues: u32,
    /// Entries of a queue pair (Linux: 1024), bounded by the device.
    pub queue_depth: u32,
    /// The elevator of the block device; that of a drive, if there is a network block device.
    pub scheduler: Scheduler,
    /// Requests a hardware queue may have allocated while a scheduler is in use, waiting or at the
    /// drive (nr_requests). 0: twice the tags of the drive's queue, at most 256.
    pub scheduler_tags: u32,
    /// In front of pblk, where Linux has none: bios take kyber's tokens. The others order what waits
    /// for a tag, which bios do not.
    #[serde(default)]
    pub bio_scheduler: Scheduler,
    /// Largest request after merging, bytes (max_sectors_kb).
    pub max_request: u32,
    /// Bios join requests that wait (off: queue/nomerges is 2).
    #[serde(default = "yes")]
    pub merge: bool,
    /// Jobs whose engine knows the word ask for polled completions (RWF_HIPRI), as with `hipri`.
    #[serde(default)]
    pub hipri: bool,
    /// queue/io_poll of sysfs, 0 or 1: whether a request that asks for it is polled.
    #[serde(default = "one")]
    pub io_poll: u32,
    /// queue/io_poll_delay of sysfs: -1 polls at once, 0 sleeps half the mean of earlier requests
    /// first, N sleeps N microseconds.
    #[serde(default = "classic")]
    pub io_poll_delay: i64,
    /// Queue pairs without interrupt that polled requests go to (nvme.poll_queues, Linux 5.0). 0:
    /// they are polled on the queues of the others, whose interrupts stay on (Linux 4.14).
    #[serde(default)]
    pub poll_queues: u32,
    /// How long io_uring's submission thread looks for work before it sleeps (sq_thread_idle).
    #[serde(default = "sq_thread_idle")]
    pub sq_thread_idle: Span,
    /// In which time each of the threads that want a core has it once (sched_latency).
    #[serde(default = "sched_latency")]
    pub sched_latency: Span,
    /// How long a thread keeps its core at least while others wait for it (sched_min_granularity): more than its share of
    /// `sched_latency` from nine threads on.
    #[serde(default = "time_slice")]
    pub time_slice: Span,
    /// A woken thread takes the core of one that had more processor time by this much
    /// (sched_wakeup_granularity).
    #[serde(default = "wakeup_granularity")]
    pub wakeup_granularity: Span,
    /// What a thread that slept is ahead of the others at most when it wakes: half of sched_latency
    /// (GENTLE_FAIR_SLEEPERS).
    #[serde(default = "sleeper_credit")]
    pub sleeper_credit: Span,
    /// A woken thread whose core is busy goes to an idle one (select_idle_sibling). Off: a thread stays where it began.
    #[serde(default)]
    pub migrate: bool,
    /// A thread that wants the lock of an FTL's map alone spins while the lock's owner runs
    /// (CONFIG_RWSEM_SPIN_ON_OWNER). Off: it sleeps at once.
    #[serde(default = "yes")]
    pub rwsem_spin: bool,
    /// Scheduler ticks a second of a core that is not idle (CONFIG_HZ); 0: none.
    #[serde(default)]
    pub tick_hz: u32,
    /// Interruptions by the kernel's own threads.
    #[serde(default)]
    pub kworker: KworkerConfig,
    /// What cores do without work: of the testbed.
    #[serde(default)]
    pub idle: IdleConfig,
    /// The core of the write and garbage-collection thread of an FTL on the host; the last one if
    /// not given.
    #[serde(default)]
    pub ftl_core: Option<u32>,
    /// Tunables for `scheduler = "mq-deadline"`.
    #[serde(default)]
    pub deadline: DeadlineConfig,
    /// A file system on the drive: jobs work on its files. None: on the drive itself.
    #[serde(default)]
    pub fs: Option<wordline_fs::FsConfig>,
    /// The drive is a network block device: another machine's, or another process's. Of the keys
    /// above those of the drive's driver are the server's.
    #[serde(default)]
    pub nbd: Option<NbdConfig>,
    /// Tunables for `scheduler = "kyber"`.
    #[serde(default)]
    pub kyber: KyberConfig,
    /// Tunables for `scheduler = "bfq"`.
    #[serde(default)]
    pub bfq: BfqConfig,
    /// Tunables for `scheduler = "sfq"`.
    #[serde(default)]
    pub sfq: SfqConfig,
    /// Parts of FlashShare that are on.
    #[serde(default)]
    pub flashshare: FlashShareConfig,
    /// What arrays have that say nothing else.
    #[serde(default)]
    pub md: wordline_md::MdConfig,
    /// Processor times of the testbed.
    pub cost: HostCost,
}

/// What SFQ(D) is set with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SfqConfig {
    /// Requests at the drive at most (D). Fewer are fairer, more are faster. 0: as many as the drive takes.
    pub depth: u32,
}

impl Default for SfqConfig {
    fn default() -> SfqConfig {
        SfqConfig { depth: 16 }
    }
}

/// What FlashShare changes in the kernel, each part by itself (Zhang et al., OSDI 2018). Latency-critical
/// is an I/O of a task with that workload attribute.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FlashShareConfig {
    /// Where a request goes that no I/O scheduler takes.
    pub issue: Issue,
    /// Latency-critical requests pass by merging, scheduler and software queue.
    pub bypass: bool,
    /// Each hardware context has a second submission queue, of the urgent class, for latency-critical
    /// requests.
    pub queues: bool,
    /// Completion queues of such a pair: 2, or 1 that both share.
    pub completion_queues: u32,
    /// Latency-critical tasks look for their completions; the others wait for interrupts.
    pub select_isr: bool,
    /// How long such a task goes on looking although another one is to have its core. Then it sleeps until
    /// the interrupt.
    pub give_up: Span,
    /// A device beside the drive merges latency-critical I/O, and waits for its completions.
    pub accelerator: bool,
    /// Who gives tasks their attributes.
    pub marked_by: MarkedBy,
}

impl Default for FlashShareConfig {
    fn default() -> FlashShareConfig {
        FlashShareConfig {
            issue: Issue::Direct,
            bypass: false,
            queues: false,
            completion_queues: 2,
            select_isr: false,
            give_up: Span::ZERO,
            accelerator: false,
            marked_by: MarkedBy::Itself,
        }
    }
}

/// Who gives a task its workload attribute, before its first I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarkedBy {
    /// The program itself.
    Itself,
    /// chworkload_attr, which starts it. As taskset and chrt do, the tool reads what the task has, sets what it is to
    /// have, and reads what it has now.
    #[serde(rename = "chworkload_attr")]
    ChworkloadAttr,
}

impl FlashShareConfig {
    /// What of it changes the kernel's way of an I/O, as its key.
    pub fn changes(&self) -> Option<&'static str> {
        [
            (self.bypass, "flashshare.bypass"),
            (self.queues, "flashshare.queues"),
            (self.select_isr, "flashshare.select_isr"),
            (self.accelerator, "flashshare.accelerator"),
            (self.issue == Issue::Queued, "flashshare.issue"),
        ]
        .into_iter()
        .find_map(|(on, key)| on.then_some(key))
    }
    /// The kernel treats an I/O by its workload attribute.
    pub fn heeds_attribute(&self) -> bool {
        self.bypass || self.queues || self.select_isr || self.accelerator
    }
    /// What of it was set, as its key, although it alone changes nothing.
    pub fn asks(&self) -> Option<&'static str> {
        let whole = FlashShareConfig::default();
        let details = [
            (self.completion_queues != whole.completion_queues, "flashshare.completion_queues"),
            (self.give_up != whole.give_up, "flashshare.give_up"),
        ];
        self.changes().or(details.into_iter().find_map(|(on, key)| on.then_some(key)))
    }
}

/// Where a request goes that no I/O scheduler takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Issue {
    /// To the driver, by its submitter: what Linux does with synchronous requests.
    Direct,
    /// Into the software queue of its core, where bios merge with it; a kblockd worker takes it from
    /// there: what Linux 4.9 does with asynchronous requests, and FlashShare draws for all.
    Queued,
}

/// Work of the kernel's own on each core, again and again.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KworkerConfig {
    /// Zero: never.
    pub interval: Span,
    /// How long it keeps the core.
    pub work: Span,
}

/// Who chooses an idle state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Governor {
    /// One idle state, left at `cost.idle_exit`.
    #[default]
    None,
    /// Linux' menu governor chooses.
    Menu,
    /// Linux' timer events oriented governor (TEO, as of Linux 5.4).
    Teo,
}

/// Idle states, used with a governor.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IdleConfig {
    /// Chooses the state when a core has nothing to do.
    pub governor: Governor,
    /// States that may be used beside the polling loop (intel_idle.max_cstate).
    pub max_cstate: u32,
    /// To leave it takes `cost.idle_exit`; the others take longer by as much as their exit latency
    /// is.
    pub c1: IdleState,
    /// C1E of the processor.
    pub c1e: IdleState,
    /// C3 of the processor.
    pub c3: IdleState,
    /// C6 of the processor.
    pub c6: IdleState,
}

impl IdleConfig {
    /// C1, C1E, C3 and C6, as the governor counts them.
    pub fn states(&self) -> impl Iterator<Item = &IdleState> {
        [&self.c1, &self.c1e, &self.c3, &self.c6].into_iter()
    }
}

/// What the driver tells the governor, and the watts of a core in it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IdleState {
    /// Time to leave it, as the driver says.
    pub exit_latency: Span,
    /// The shortest stay for which it is worth its cost.
    pub target_residency: Span,
    /// Watts of a core in it.
    pub watts: f64,
}

/// 6 ms times 1 + log2 of the cores, which count as 8 at most.
fn sched_latency() -> Span {
    Span::from_ms(24)
}

/// CFS: sched_min_granularity, 0.75 ms x (1 + log2 of 8 cores).
fn time_slice() -> Span {
    Span::from_ms(3)
}

/// 1 ms times 1 + log2 of the cores, which count as 8 at most.
fn wakeup_granularity() -> Span {
    Span::from_ms(4)
}

/// Half of 6 ms times 1 + log2 of the cores, which count as 8 at most.
fn sleeper_credit() -> Span {
    Span::from_ms(12)
}

/// io_uring: a second (HZ) unless the application says otherwise, and fio does not.
fn sq_thread_idle() -> Span {
    Span::from_secs(1)
}

fn one() -> u32 {
    1
}

fn classic() -> i64 {
    -1
}

fn yes() -> bool {
    true
}

/// mq-deadline's tunables, with Linux' defaults.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeadlineConfig {
    /// After so long a read goes before others.
    pub read_expire: Span,
    /// After so long a write goes before others.
    pub write_expire: Span,
    /// How often reads may go before writes that wait.
    pub writes_starved: u32,
    /// Requests in order of address before expiries are looked at.
    pub fifo_batch: u32,
    /// Whether a bio may join a request that it precedes.
    pub front_merges: bool,
}

impl Default for DeadlineConfig {
    fn default() -> Self {
        DeadlineConfig {
            read_expire: Span::from_ms(500),
            write_expire: Span::from_secs(5),
            writes_starved: 2,
            fifo_batch: 16,
            front_merges: true,
        }
    }
}

/// kyber's tunables, with Linux' defaults.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KyberConfig {
    /// Target of reads.
    pub read_lat: Span,
    /// Target of writes.
    pub write_lat: Span,
    /// Judge by percentiles of histograms (Linux 4.20), not by means (4.12).
    pub percentiles: bool,
}

impl Default for KyberConfig {
    fn default() -> Self {
        KyberConfig { read_lat: Span::from_ms(2), write_lat: Span::from_ms(10), percentiles: false }
    }
}

/// bfq's tunables, with Linux' defaults for a drive that does not rotate.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BfqConfig {
    /// How long the drive is kept idle for the next request of a thread.
    pub slice_idle: Span,
    /// The longest turn of a queue.
    pub timeout: Span,
    /// Sectors of 512 bytes.
    pub max_budget: u64,
    /// Whether threads that are interactive or soft real-time have their weights raised.
    pub low_latency: bool,
    /// What a raised weight is multiplied by.
    pub wr_coeff: u32,
    /// How long an interactive thread's weight is raised at most.
    pub wr_max_time: Span,
}

impl Default for BfqConfig {
    fn default() -> Self {
        BfqConfig {
            slice_idle: Span::from_ms(8),
            timeout: Span::from_ms(125),
            max_budget: 16 * 1024,
            low_latency: true,
            wr_coeff: 30,
            wr_max_time: Span::from_secs(3),
        }
    }
}

/// What serves a network block device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NbdServer {
    /// nbd-server: a process that calls its kernel for socket and drive.
    NbdServer,
    /// SPDK's nbd target: a process that polls its socket and drives the drive itself.
    Spdk,
}

/// What client and server talk over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// A pair of unix sockets on one machine.
    Unix,
    /// TCP on one machine.
    Loopback,
    /// TCP between two machines.
    Ethernet,
}

/// A network block device of Linux 4.14 (drivers/block/nbd.c), and its server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NbdConfig {
    /// The program that serves the drive.
    pub server: NbdServer,
    /// What is between the two.
    pub transport: Transport,
    /// On one machine: the last cores are the server's, the others the client's. Two machines have
    /// all of theirs.
    pub server_cores: u32,
    /// Requests at the server at a time.
    pub queue_depth: u32,
    /// Largest request, bytes.
    pub max_request: u32,
    /// The client's elevator. `stack.scheduler` is that of the drive, at the server.
    pub scheduler: Scheduler,
    /// Threads of nbd-server that serve requests.
    pub threads: u32,
    /// Whether the server says that it takes flushes and FUA: without, the client sends none.
    pub flush: bool,
    /// Whether nbd-server goes through the page cache, as it does unless it opens the drive with O_DIRECT.
    pub page_cache: bool,
    /// The keys of that cache, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<wordline_fs::FsConfig>,
    /// Ethernet: bits a second.
    pub rate: u64,
    /// Ethernet: one way's time beyond that of the packet's bits.
    pub delay: Span,
    /// Ethernet: bytes of the largest IP packet.
    pub mtu: u32,
}

impl NbdConfig {
    /// What cannot be, with its key.
    pub fn check(&self, cores: u32) -> Result<(), BadValue> {
        let bad = |key, why: String| Err(BadValue::new(key, why));
        if self.transport != Transport::Ethernet && !(1..cores).contains(&self.server_cores) {
            return bad("nbd.server_cores", format!("must leave both a core of {cores}"));
        }
        if !(1..=65_534).contains(&self.queue_depth) {
            return bad("nbd.queue_depth", "must be from 1 to 65534".into());
        }
        if self.max_request < 4096 || !self.max_request.is_multiple_of(4096) {
            return bad("nbd.max_request", "must be a multiple of 4096 bytes".into());
        }
        if !(1..=256).contains(&self.threads) {
            return bad("nbd.threads", "must be from 1 to 256".into());
        }
        if !(1_000_000..=1_000_000_000_000).contains(&self.rate) {
            return bad("nbd.rate", "must be from 1 Mbit/s to 1 Tbit/s".into());
        }
        if !(576..=65_536).contains(&self.mtu) {
            return bad("nbd.mtu", "must be from 576 to 65536 bytes".into());
        }
        if self.cache.as_ref().is_some_and(|c| c.kind != wordline_fs::FsKind::Bdev) {
            return bad("nbd.cache.kind", "must be bdev: it is the drive's page cache".into());
        }
        if self.server == NbdServer::Spdk && self.page_cache {
            return bad("nbd.page_cache", "must be false: SPDK drives the drive itself".into());
        }
        if self.server == NbdServer::Spdk && self.transport != Transport::Unix {
            let why = "must be unix: SPDK's target has one end of a socket pair, the kernel's \
                       driver the other";
            return bad("nbd.transport", why.into());
        }
        Ok(())
    }
}

/// Processor time of each stage of an I/O on one testbed (the testbed profiles name the source of each).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostCost {
    /// The application between two I/Os: fio's own bookkeeping, per I/O.
    pub application: Span,
    /// User to kernel and back, once a system call.
    pub crossing: Span,
    /// System call, VFS and direct-I/O set-up, per I/O.
    pub syscall: Span,
    /// What io_submit takes for each iocb beyond `syscall`: its copy, its kiocb and its file (libaio).
    pub aio_submit: Span,
    /// What an io_getevents call takes beyond its I/Os (libaio).
    pub aio_getevents: Span,
    /// bio allocation and mapping of the first page, per I/O.
    pub bio: Span,
    /// Mapping of each 4 KiB page beyond the first.
    pub bio_page: Span,
    /// Tag, request, merge, plug.
    pub block: Span,
    /// Added when mq-deadline, kyber or SFQ(D) is in use: insertion, dispatch and completion of a request.
    pub scheduler: Span,
    /// Added when bfq is in use.
    pub bfq: Span,
    /// DMA mapping and PRP list.
    pub dma_map: Span,
    /// Command copy and doorbell write.
    pub doorbell: Span,
    /// Interrupt entry to the handler.
    pub interrupt_entry: Span,
    /// Handler, once an interrupt.
    pub interrupt: Span,
    /// Completion-queue processing, once a completion.
    pub completion: Span,
    /// Wake-up of the sleeping thread and context switch in.
    pub wake_up: Span,
    /// An interrupt for a thread on another core: inter-processor interrupt.
    pub ipi: Span,
    /// Leaving an idle state before anything else, if the core was idle.
    pub idle_exit: Span,
    /// Unmap, bio end, return.
    pub finish: Span,
    /// A scheduler tick, with what it makes run.
    #[serde(default)]
    pub tick: Span,
    /// Polled completions.
    #[serde(default)]
    pub poll: PollCost,
    /// io_uring.
    #[serde(default)]
    pub uring: UringCost,
    /// SPDK's driver.
    #[serde(default)]
    pub spdk: SpdkCost,
    /// libata's AHCI driver, of SATA drives.
    #[serde(default)]
    pub sata: SataCost,
    /// Sockets under a network block device.
    #[serde(default)]
    pub socket: SocketCost,
    /// Network block devices.
    #[serde(default)]
    pub nbd: NbdCost,
    /// FlashShare's changes.
    #[serde(default)]
    pub flashshare: FlashShareCost,
    /// md.
    #[serde(default)]
    pub md: MdCost,
    /// How much less code takes that just ran.
    #[serde(default)]
    pub warm: WarmConfig,
    /// Loads and stores.
    #[serde(default)]
    pub memory: MemoryConfig,
    /// Watts.
    #[serde(default)]
    pub power: PowerConfig,
}

/// How much less code takes that the core ran a moment ago (function.rs has the list). The lengths above
/// are those after a pause of the core.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WarmConfig {
    /// Of its length, what code of the kernel takes right after another call. 1: pauses change nothing.
    pub share: f64,
    /// The same of the job's own code.
    pub application: f64,
    /// Other work of the core that displaces the code: half of it, half of the saving.
    pub displaced: Span,
}

impl Default for WarmConfig {
    fn default() -> WarmConfig {
        WarmConfig { share: 1.0, application: 1.0, displaced: Span::from_us(100) }
    }
}

impl WarmConfig {
    /// What cannot be, with its key.
    pub fn check(&self) -> Result<(), BadValue> {
        let shares = [("cost.warm.share", self.share), ("cost.warm.application", self.application)];
        for (key, share) in shares {
            if !(share > 0.0 && share <= 1.0) {
                return Err(BadValue::new(key, "must be above 0 and at most 1"));
            }
        }
        if self.displaced == Span::ZERO {
            return Err(BadValue::new("cost.warm.displaced", "must be above 0"));
        }
        Ok(())
    }
}

/// What FlashShare adds to the kernel or takes from it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashShareCost {
    /// sched_setworkload_attr, without `crossing`.
    pub set_attr: Span,
    /// sched_getworkload_attr, without `crossing`.
    pub get_attr: Span,
    /// Of `block` the part that looks for something to merge with: who passes by does not pay it.
    pub merge: Span,
    /// A look at the queued requests for one that touches the same sectors.
    pub hazard: Span,
    /// A write to a register of a device: a mask bit of its interrupt vectors, a command for the accelerator.
    pub register_write: Span,
    /// The accelerator's own time, for a command and for a completion that it tells the core of.
    pub accelerate: Span,
    /// Waking the accelerator up.
    pub detect: Span,
}

/// Arrays.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MdCost {
    /// raid0_make_request: the place of a bio's part, and its way to the member.
    pub raid0: Span,
    /// raid5_read_one_chunk: the same of a read that goes by the stripes.
    pub raid5_read: Span,
    /// raid5_make_request, a page: its stripe found, the bio added, the stripe released.
    pub raid5_page: Span,
    /// handle_stripe, a pass.
    pub handle: Span,
    /// xor_blocks: 4 KiB added to 4 KiB.
    pub xor_page: Span,
    /// async_copy_data: 4 KiB between a bio and a stripe.
    pub copy_page: Span,
    /// raid5_end_read_request and raid5_end_write_request, with their way back to the array's thread.
    pub end_request: Span,
    /// raid5_sync_request, a stripe.
    pub sync_request: Span,
}

/// Calls on sockets, without `crossing`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SocketCost {
    /// A send over a unix socket, without what it copies.
    pub unix_send: Span,
    /// A receive from a unix socket, without what it copies.
    pub unix_receive: Span,
    /// A send over TCP, without what it copies.
    pub tcp_send: Span,
    /// A receive over TCP, without what it copies.
    pub tcp_receive: Span,
    /// TCP and IP of one packet where it arrives (softirq); on the loopback its sender pays it.
    pub packet: Span,
    /// 4 KiB in or out.
    pub copy: Span,
    /// A receive that finds nothing and does not wait.
    pub empty: Span,
}

/// The SCSI layer, libata and the AHCI driver (drivers/ata/libahci.c), in place of what `doorbell`, `interrupt` and
/// `completion` are for NVMe drives.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SataCost {
    /// scsi_queue_rq to ata_qc_issue: a SCSI command is made of a request, and an ATA command of that.
    pub queue: Span,
    /// The command's tables, and two register writes.
    pub issue: Span,
    /// The interrupt's handler without its reads of registers, once an interrupt.
    pub interrupt: Span,
    /// A read of a register of the host adapter.
    pub register_read: Span,
    /// ata_qc_complete to the end of the SCSI command, once a command.
    pub complete: Span,
}

/// A network block device at both ends.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NbdCost {
    /// nbd_queue_rq beyond its call on the socket.
    pub queue: Span,
    /// nbd_read_stat beyond its call on the socket.
    pub complete: Span,
    /// nbd-server, per request.
    pub serve: Span,
    /// nbd-server: handing a request to a thread of its pool.
    pub pool: Span,
    /// SPDK: a turn of the reactor beyond its two pollers.
    pub reactor: Span,
    /// SPDK: its block-device layer, per request.
    pub bdev: Span,
}

/// Load and store instructions: a microsecond of code that runs once a call, and one turn of each
/// loop.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryConfig {
    /// A microsecond of code that runs once a call.
    pub path: [u32; 2],
    /// A turn of blk_mq_poll's loop.
    pub blk_mq_poll: [u32; 2],
    /// A look of nvme_poll at the completion queue.
    pub nvme_poll: [u32; 2],
    /// A look at io_uring's rings.
    pub uring_look: [u32; 2],
    /// SPDK's nvme_qpair_check_enabled.
    pub check_enabled: [u32; 2],
    /// A turn of SPDK's nvme_pcie_qpair_process_completions.
    pub process_completions: [u32; 2],
}

/// Watts of one core.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerConfig {
    /// While it runs anything.
    pub busy: f64,
    /// In its only idle state, without a governor.
    pub idle: f64,
}

/// What completions without waiting for an interrupt cost.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PollCost {
    /// One turn of the loop: blk_mq_poll's own work.
    pub blk_mq_poll: Span,
    /// One turn of the loop: cpu_relax.
    pub cpu_relax: Span,
    /// One turn of the loop: nvme_poll's look at the phase bit.
    pub nvme_poll: Span,
    /// The first look at an entry that the drive has just written, a miss in all caches.
    pub entry_miss: Span,
    /// spin_lock_irq of the queue and its release, once an entry is there. What the entry itself
    /// costs is `completion`.
    pub queue_lock: Span,
    /// Of `interrupt_entry`, the way of the message to the core: a poller can be faster than that.
    pub interrupt_delivery: Span,
    /// Hybrid polling: the timer armed and the core given up.
    pub sleep: Span,
    /// Hybrid polling: the timer's interrupt.
    pub timer_interrupt: Span,
    /// While hybrid polling computes its sleep: the clock read at each request's start (blk_stat_set_issue).
    #[serde(default)]
    pub stat_issue: Span,
    /// The same at its end, with the bucket of its direction and size (blk_stat_add).
    #[serde(default)]
    pub stat_add: Span,
}

/// io_uring, in place of what io_submit and io_getevents cost.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UringCost {
    /// io_uring_enter, beyond `crossing`, once a call.
    pub enter: Span,
    /// The application's entry in the submission ring.
    pub prepare: Span,
    /// The application's look at an entry of the completion ring.
    pub reap: Span,
    /// One look of the submission thread at its ring, and of the application at the completion ring.
    pub look: Span,
}

/// SPDK's NVMe driver and its fio plugin, all in user mode.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpdkCost {
    /// The plugin, per I/O.
    pub plugin: Span,
    /// nvme_qpair_check_enabled, at each submission and each process_completions.
    pub check_enabled: Span,
    /// Command and doorbell, per command.
    pub submit: Span,
    /// The address of each 4 KiB of data behind the first of a command (nvme_pcie_prp_list_append).
    #[serde(default)]
    pub page: Span,
    /// One call of spdk_nvme_qpair_process_completions that finds nothing, without the check.
    pub process_completions: Span,
    /// One completion, with its callback.
    pub complete: Span,
}
