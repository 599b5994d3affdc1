//! What a core's time goes to, function by function. A function has a fixed length after a pause of its
//! core; loads and stores follow from its calls. Code of an I/O's way that ran a moment ago on the same
//! core is in its caches and takes less (see `Warm`).

use crate::config::{HostCost, MemoryConfig, WarmConfig};
use serde::Serialize;

macro_rules! functions {
    ($($name:ident $text:literal $mode:ident |$cost:ident| $span:expr;)*) => {
        /// What a core's time goes to, by its name in the source of Linux, fio or SPDK.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum Function {
            $(#[doc = $text] $name,)*
        }

        /// Names of all functions, by number.
        pub const NAMES: &[&str] = &[$($text),*];
        /// The mode that each function runs in, in the same order.
        pub const MODES: &[Mode] = &[$(Mode::$mode),*];

        /// Nanoseconds of one call.
        fn spans(cost: &HostCost) -> Spans {
            [$({ let $cost = cost; $span }),*]
        }
    };
}

/// How a core's time is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The application's time.
    User,
    /// The kernel's, for a thread.
    System,
    /// The kernel's, in an interrupt handler.
    Interrupt,
    /// Before a thread or a handler, whichever comes.
    Either,
}

functions! {
    Application "application" User |c| c.application.0;
    Crossing "system call entry and exit" System |c| c.crossing.0;
    Syscall "VFS and direct I/O" System |c| c.syscall.0;
    AioSubmit "io_submit" System |c| c.aio_submit.0;
    AioGetevents "io_getevents" System |c| c.aio_getevents.0;
    UringEnter "io_uring_enter" System |c| c.uring.enter.0;
    Bio "bio" System |c| c.bio.0;
    BioPage "bio pages" System |c| c.bio_page.0;
    Block "blk_mq_make_request" System |c| c.block.0;
    // A latency-critical bio's: tag and request, and nothing to merge with.
    Bypass "blk_mq_make_request, bypass" System |c|
        c.block.0.saturating_sub(c.flashshare.merge.0);
    Hazard "hazard check" System |c| c.flashshare.hazard.0;
    SetAttr "sched_setworkload_attr" System |c| c.flashshare.set_attr.0;
    GetAttr "sched_getworkload_attr" System |c| c.flashshare.get_attr.0;
    Detect "accelerator wake-up" System |c| c.flashshare.detect.0;
    RegisterWrite "register write" System |c| c.flashshare.register_write.0;
    Scheduler "elevator" System |c| c.scheduler.0;
    Bfq "elevator bfq" System |c| c.bfq.0;
    // As long as others have the scheduler's lock.
    SchedulerLock "queued_spin_lock_slowpath" System |_c| 0;
    // Of an FTL on the host: in calls of those who read and write, looking up and changing a map that is a
    // tree, and its kernel threads.
    Ftl "FTL on the host" System |_c| 0;
    FtlMap "FTL on the host, map" System |_c| 0;
    // As long as another thread has the map's lock.
    MapSpin "rwsem_spin_on_owner" System |_c| 0;
    FtlWriter "FTL on the host, writer" System |_c| 0;
    FtlCollector "FTL on the host, collector" System |_c| 0;
    Raid0 "raid0_make_request" System |c| c.md.raid0.0;
    Raid5Read "raid5_read_one_chunk" System |c| c.md.raid5_read.0;
    Raid5Make "raid5_make_request" System |c| c.md.raid5_page.0;
    HandleStripe "handle_stripe" System |c| c.md.handle.0;
    XorBlocks "xor_blocks" System |c| c.md.xor_page.0;
    CopyData "async_copy_data" System |c| c.md.copy_page.0;
    Raid5End "raid5_end_request" System |c| c.md.end_request.0;
    SyncRequest "raid5_sync_request" System |c| c.md.sync_request.0;
    // As much as the file system says: calls of applications, and its own threads.
    FileSystem "file system and page cache" System |_c| 0;
    FileSystemThreads "write-back and journal" System |_c| 0;
    DmaMap "nvme_map_data" Either |c| c.dma_map.0;
    Doorbell "nvme_queue_rq" Either |c| c.doorbell.0;
    ScsiQueue "scsi_queue_rq and ata_scsi_queuecmd" Either |c| c.sata.queue.0;
    AhciIssue "ahci_qc_issue" Either |c| c.sata.issue.0;
    StatIssue "blk_stat_set_issue" Either |c| c.poll.stat_issue.0;
    InterruptEntry "interrupt entry" Interrupt |c| c.interrupt_entry.0;
    // Of a message that was on its way while the core worked on.
    LateEntry "interrupt entry, message on its way meanwhile" Interrupt |c|
        c.interrupt_entry.0.saturating_sub(c.poll.interrupt_delivery.0);
    Interrupt "nvme_irq" Interrupt |c| c.interrupt.0;
    Completion "nvme_process_cq" Either |c| c.completion.0;
    AhciInterrupt "ahci_single_level_irq_intr" Interrupt |c| c.sata.interrupt.0;
    AhciRegister "reads of AHCI registers" Interrupt |c| c.sata.register_read.0;
    ScsiDone "ata_qc_complete and scsi_io_completion" Interrupt |c| c.sata.complete.0;
    StatAdd "blk_stat_add" Either |c| c.poll.stat_add.0;
    Ipi "inter-processor interrupt" Interrupt |c| c.ipi.0;
    Timer "timer interrupt" Interrupt |c| c.poll.timer_interrupt.0;
    Tick "scheduler tick" Interrupt |c| c.tick.0;
    Kworker "kworker" System |_c| 0;
    IdleExit "idle exit" Either |c| c.idle_exit.0;
    WakeUp "context switch" System |c| c.wake_up.0;
    Finish "bio_endio" System |c| c.finish.0;
    BlkMqPoll "blk_mq_poll" System |c| c.poll.blk_mq_poll.0;
    CpuRelax "cpu_relax" System |c| c.poll.cpu_relax.0;
    NvmePoll "nvme_poll" System |c| c.poll.nvme_poll.0;
    EntryMiss "completion entry miss" Either |c| c.poll.entry_miss.0;
    QueueLock "queue lock" System |c| c.poll.queue_lock.0;
    HybridSleep "hybrid sleep" System |c| c.poll.sleep.0;
    UringPrepare "io_uring prepare" User |c| c.uring.prepare.0;
    UringReap "io_uring reap" User |c| c.uring.reap.0;
    UringLook "io_uring look" Either |c| c.uring.look.0;
    SpdkPlugin "SPDK fio plugin" User |c| c.spdk.plugin.0;
    SpdkCheck "nvme_qpair_check_enabled" User |c| c.spdk.check_enabled.0;
    SpdkSubmit "nvme_pcie_qpair_submit_request" User |c| c.spdk.submit.0;
    SpdkProcess "spdk_nvme_qpair_process_completions" User |c| c.spdk.process_completions.0;
    SpdkComplete "nvme_pcie_qpair_complete_tracker" User |c| c.spdk.complete.0;
    UnixSend "unix_stream_sendmsg" System |c| c.socket.unix_send.0;
    UnixReceive "unix_stream_recvmsg" System |c| c.socket.unix_receive.0;
    TcpSend "tcp_sendmsg" System |c| c.socket.tcp_send.0;
    TcpReceive "tcp_recvmsg" System |c| c.socket.tcp_receive.0;
    TcpPacket "tcp_v4_rcv" Either |c| c.socket.packet.0;
    SocketCopy "socket copy" System |c| c.socket.copy.0;
    SocketEmpty "empty receive" System |c| c.socket.empty.0;
    NbdQueue "nbd_queue_rq" System |c| c.nbd.queue.0;
    NbdComplete "nbd_read_stat" System |c| c.nbd.complete.0;
    NbdServe "nbd-server" User |c| c.nbd.serve.0;
    NbdPool "nbd-server pool" User |c| c.nbd.pool.0;
    Reactor "spdk_reactor_run" User |c| c.nbd.reactor.0;
    SpdkBdev "spdk_bdev_io" User |c| c.nbd.bdev.0;
}

/// Whom processor time is for.
pub const CPU_OWNERS: [&str; 7] =
    ["application", "kernel", "interrupts", "ftl", "ftl_map", "ftl_writer", "ftl_collector"];
/// The number of `application`.
pub const APPLICATION: usize = 0;
/// The number of `kernel`.
pub const KERNEL: usize = 1;

/// Nanoseconds by [`CPU_OWNERS`] of what a core's functions took.
pub fn by_owner(functions: &[Use]) -> [u64; CPU_OWNERS.len()] {
    let mut sums = [0; CPU_OWNERS.len()];
    for (f, of) in functions.iter().enumerate() {
        let owner = match MODES[f] {
            _ if f == Function::Ftl as usize => 3,
            _ if f == Function::FtlMap as usize || f == Function::MapSpin as usize => 4,
            _ if f == Function::FtlWriter as usize => 5,
            _ if f == Function::FtlCollector as usize => 6,
            Mode::User => APPLICATION,
            Mode::System | Mode::Either => KERNEL,
            Mode::Interrupt => 2,
        };
        sums[owner] += of.ns;
    }
    sums
}

/// Functions there are.
pub const FUNCTIONS: usize = NAMES.len();
/// Nanoseconds by function.
pub type Spans = [u64; FUNCTIONS];

/// One function's part of a run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Use {
    /// Calls.
    pub calls: u64,
    /// Nanoseconds.
    pub ns: u64,
    /// Load instructions.
    pub loads: u64,
    /// Store instructions.
    pub stores: u64,
}

impl std::ops::AddAssign for Use {
    fn add_assign(&mut self, o: Use) {
        self.calls += o.calls;
        self.ns += o.ns;
        self.loads += o.loads;
        self.stores += o.stores;
    }
}

/// Code of the kernel and of the job that runs once an I/O: how long it takes depends on what is in the core's
/// caches.
///
/// Others take the same time each time. Turns of loops were counted warm. Entries and exits, register writes and
/// messages between cores wait for hardware. Data that are copied or summed are new each time. The lengths of
/// calls on sockets come from loops of such calls.
const CODE: [Function; 25] = [
    Function::Application,
    Function::Syscall,
    Function::AioSubmit,
    Function::AioGetevents,
    Function::UringEnter,
    Function::Bio,
    Function::Block,
    Function::Bypass,
    Function::Hazard,
    Function::Scheduler,
    Function::Bfq,
    Function::Raid0,
    Function::Raid5Read,
    Function::Raid5Make,
    Function::HandleStripe,
    Function::Raid5End,
    Function::SyncRequest,
    Function::DmaMap,
    Function::ScsiQueue,
    Function::Interrupt,
    Function::Completion,
    Function::AhciInterrupt,
    Function::ScsiDone,
    Function::WakeUp,
    Function::Finish,
];

/// Whether how long a function takes depends on what is in the core's caches.
pub(crate) const fn is_code(f: Function) -> bool {
    let mut i = 0;
    while i < CODE.len() {
        if CODE[i] as u8 == f as u8 {
            return true;
        }
        i += 1;
    }
    false
}

/// What a call saves whose code ran on the same core before. Right after that it saves all of `saves`. It saves
/// less the more other work of the core displaced meanwhile, and nothing once the core was idle in between.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Warm {
    saves: Spans,
    /// Nanoseconds of other work that displace all of it.
    displaced: u64,
    /// 2^64 / `displaced`, rounded up, where a product with it divides exactly; else 0.
    inverse: u64,
}

impl Warm {
    fn new(config: &WarmConfig, spans: &Spans) -> Warm {
        let mut saves = [0; FUNCTIONS];
        for f in CODE.map(|f| f as usize) {
            let share = match f == Function::Application as usize {
                true => config.application,
                false => config.share,
            };
            saves[f] = spans[f] - (spans[f] as f64 * share).round() as u64;
        }
        let displaced = config.displaced.0.max(1);
        // The product is too large by less than the dividend times `displaced`, in units of 2^-64 of one.
        let most = saves.iter().fold(0, |most, &ns| ns.max(most));
        let error = u128::from(most) * u128::from(displaced) * u128::from(displaced);
        let inverse = match displaced > 1 && error <= u128::from(u64::MAX) {
            true => u64::MAX / displaced + 1,
            false => 0,
        };
        Warm { saves, displaced, inverse }
    }

    #[inline(always)]
    fn after(&self, f: usize, other: u64) -> u64 {
        let most = self.saves[f];
        let lost = most * other.min(self.displaced);
        most - match self.inverse {
            0 => self.divided(lost),
            inverse => ((u128::from(lost) * u128::from(inverse)) >> 64) as u64,
        }
    }
    /// By `displaced`, where no product does it.
    #[cold]
    #[inline(never)]
    fn divided(&self, lost: u64) -> u64 {
        lost / self.displaced
    }
}

/// What the host's functions cost.
pub(crate) struct Costs {
    memory: MemoryConfig,
    /// A call of each function whose code is cold.
    spans: Spans,
    warm: Warm,
}

impl Costs {
    pub fn new(config: &HostCost) -> Costs {
        let spans = spans(config);
        Costs { warm: Warm::new(&config.warm, &spans), spans, memory: config.memory.clone() }
    }
}

/// Calls of one core, and time of what has no fixed length.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Calls {
    /// Calls of each function.
    calls: Spans,
    /// Time of functions that have no fixed length.
    extra: Spans,
    /// Time that calls took less than a cold one.
    saved: Spans,
    /// What the core had worked when a function was last called.
    last: Spans,
    /// What the core had worked when it last went idle: what ran before is cold.
    cold: u64,
    /// How long the core has worked. Loops of looks are not in it: they displace nothing.
    worked: u64,
}

impl Default for Calls {
    fn default() -> Calls {
        let none = [0; FUNCTIONS];
        Calls { calls: none, extra: none, saved: none, last: none, cold: 1, worked: 0 }
    }
}

impl Calls {
    /// `n` calls in a row; their time.
    #[inline(always)]
    pub fn spend(&mut self, f: usize, n: u64, cost: &Costs) -> u64 {
        self.calls[f] += n;
        cost.spans[f] * n
    }

    /// Time in a function that has no fixed length.
    #[inline]
    pub fn charge(&mut self, f: Function, ns: u64) {
        self.extra[f as usize] += ns;
    }

    /// The core was busy for so long, `spun` of it with loops of looks.
    #[inline]
    pub fn busy(&mut self, ns: u64, spun: u64) {
        self.worked += ns - spun;
    }

    /// What they take less than cold ones.
    #[inline(always)]
    pub fn save(&mut self, f: usize, n: u64, cost: &Costs) -> u64 {
        if n == 0 {
            return 0;
        }
        let (worked, warm) = (self.worked, &cost.warm);
        let last = std::mem::replace(&mut self.last[f], worked);
        let first = if last >= self.cold { warm.after(f, worked - last) } else { 0 };
        let saved = first + warm.saves[f] * (n - 1);
        self.saved[f] += saved;
        saved
    }

    /// The core goes idle.
    #[inline]
    pub fn pause(&mut self) {
        self.cold = self.worked.max(1);
    }

    /// What each function took so far.
    pub fn uses(&self, cost: &Costs) -> Vec<Use> {
        let Costs { memory, spans, .. } = cost;
        (0..FUNCTIONS)
            .map(|f| {
                let calls = self.calls[f];
                // Warm code has as many instructions as cold code.
                let cold = calls * spans[f] + self.extra[f];
                let [loads, stores] = match memory.of_loop(f) {
                    Some(each) => each.map(|n| calls * u64::from(n)),
                    None => memory.path.map(|n| (cold as u128 * u128::from(n) / 1_000) as u64),
                };
                Use { calls, ns: cold - self.saved[f], loads, stores }
            })
            .collect()
    }
}

impl MemoryConfig {
    /// Loads and stores of one turn.
    fn of_loop(&self, f: usize) -> Option<[u32; 2]> {
        let table = [
            (Function::BlkMqPoll, self.blk_mq_poll),
            (Function::CpuRelax, [0, 0]),
            // Three words, which the core waits for.
            (Function::AhciRegister, [1, 0]),
            (Function::NvmePoll, self.nvme_poll),
            (Function::UringLook, self.uring_look),
            (Function::SpdkCheck, self.check_enabled),
            (Function::SpdkProcess, self.process_completions),
        ];
        table.iter().find(|(of, _)| *of as usize == f).map(|&(_, each)| each)
    }
}

/// Counts calls of functions on a core; their time.
macro_rules! spend {
    ($host:expr, $core:expr, $($f:ident $(* $n:expr)?),+) => {{
        let core = &mut $host.cores[$core];
        let mut ns = 0u64;
        $(
            let f = $crate::function::Function::$f;
            let n = 1 $(* $n)?;
            ns += core.call(f, n, &$host.cost);
            if const { $crate::function::is_code($crate::function::Function::$f) } {
                ns -= core.saves(f, n, &$host.cost);
            }
        )+
        ns
    }};
}
pub(crate) use spend;

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::Span;

    fn costs() -> Costs {
        Costs::new(&HostCost {
            block: Span::from_us(1),
            warm: WarmConfig { share: 0.6, application: 0.3, displaced: Span::from_us(100) },
            memory: MemoryConfig { path: [1_000, 0], ..Default::default() },
            ..crate::tests::i7_8700()
        })
    }

    /// One call of `block`, 1 us cold, by a core that has worked for so long.
    fn call(calls: &mut Calls, worked_us: u64) -> u64 {
        let cost = costs();
        calls.busy(worked_us * 1_000 - calls.worked, 0);
        assert!(
            is_code(Function::Block) && !is_code(Function::Doorbell),
            "a register is as far as ever"
        );
        let block = Function::Block as usize;
        let ns = calls.spend(block, 1, &cost) - calls.save(block, 1, &cost);
        let of = calls.uses(&cost)[Function::Block as usize];
        assert_eq!(of.loads, of.calls * 1_000, "warm code loads as much");
        ns
    }

    #[test]
    fn what_is_left_of_warm_code_is_divided_exactly() {
        let of = |displaced| {
            Warm::new(
                &WarmConfig { share: 0.0, application: 0.0, displaced: Span(displaced) },
                &[4_321; FUNCTIONS],
            )
        };
        let block = Function::Block as usize;
        for displaced in [1, 2, 3, 4_096, 99_991, 100_000, 1 << 31, 1 << 33] {
            let warm = of(displaced);
            assert_eq!(warm.inverse > 0, displaced > 1 && displaced < 1 << 26, "{displaced}");
            for other in (0..2_000).chain(displaced.saturating_sub(2_000)..displaced + 2) {
                let lost = 4_321 * other.min(displaced) / displaced;
                assert_eq!(warm.after(block, other), 4_321 - lost, "{other} of {displaced}");
            }
        }
    }

    #[test]
    fn other_work_displaces_code_bit_by_bit_and_a_pause_at_once() {
        let mut calls = Calls::default();
        assert_eq!(call(&mut calls, 10), 1_000, "never before");
        assert_eq!(call(&mut calls, 10), 600);
        assert_eq!(call(&mut calls, 60), 800, "half displaced");
        assert_eq!(call(&mut calls, 160), 1_000);
        assert_eq!(call(&mut calls, 900), 1_000);
        calls.busy(1_000, 0);
        calls.pause();
        assert_eq!(call(&mut calls, 901), 1_000, "cold after a pause");
        assert_eq!(call(&mut calls, 901), 600);
        // Looks take time and displace nothing.
        calls.busy(500_000, 500_000);
        assert_eq!(call(&mut calls, 901), 600);
        assert_eq!(calls.uses(&costs())[Function::Block as usize].ns, 6_600);
    }
}
