//! A stack: which path the kernel takes, and what each stage costs on a testbed.

use serde::{Deserialize, Serialize};
use wordline_base::Span;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// preadv2/pwritev2: one I/O at a time, the thread sleeps until it is done.
    Pvsync2,
    /// io_submit and io_getevents.
    Libaio,
    /// Completes every I/O at once: what the job itself costs.
    Null,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    None,
    MqDeadline,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StackConfig {
    /// The engine of jobs that name none.
    pub engine: Engine,
    /// Off: jobs hand commands straight to the device queues, at no cost and at once (to study a
    /// device alone).
    #[serde(default = "yes")]
    pub kernel: bool,
    pub cores: u32,
    /// NVMe queue pairs; 0 is one a core.
    #[serde(default)]
    pub queues: u32,
    /// Entries of a queue pair (Linux: 1024), bounded by the device.
    pub queue_depth: u32,
    pub scheduler: Scheduler,
    /// Requests a hardware queue may have allocated while a scheduler is in use, waiting or at the
    /// drive (nr_requests).
    pub scheduler_tags: u32,
    /// Largest request after merging, bytes (max_sectors_kb).
    pub max_request: u32,
    #[serde(default = "yes")]
    pub merge: bool,
    /// How long a thread keeps its core while another waits for it.
    #[serde(default = "time_slice")]
    pub time_slice: Span,
    /// The core of the write and garbage-collection thread of an FTL on the host; the last one if
    /// not given.
    #[serde(default)]
    pub ftl_core: Option<u32>,
    #[serde(default)]
    pub deadline: DeadlineConfig,
    pub cost: HostCost,
}

/// CFS: sched_min_granularity, 0.75 ms x (1 + log2 of 8 cores).
fn time_slice() -> Span {
    Span::from_ms(3)
}

fn yes() -> bool {
    true
}

/// mq-deadline's tunables, with Linux' defaults.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeadlineConfig {
    pub read_expire: Span,
    pub write_expire: Span,
    pub writes_starved: u32,
    pub fifo_batch: u32,
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
    /// Extra per io_submit call and per io_getevents call (libaio).
    pub aio_submit: Span,
    pub aio_getevents: Span,
    /// bio allocation and page mapping, per I/O, and for each 4 KiB page beyond the first.
    pub bio: Span,
    pub bio_page: Span,
    /// Tag, request, merge, plug.
    pub block: Span,
    /// Added when a scheduler is in use.
    pub scheduler: Span,
    /// DMA mapping and PRP list.
    pub dma_map: Span,
    /// Command copy and doorbell write.
    pub doorbell: Span,
    /// Interrupt entry to the handler.
    pub interrupt_entry: Span,
    /// Handler and completion-queue processing, once an interrupt and once a completion.
    pub interrupt: Span,
    pub completion: Span,
    /// Wake-up of the sleeping thread and context switch in.
    pub wake_up: Span,
    /// An interrupt for a thread on another core: inter-processor interrupt.
    pub ipi: Span,
    /// Leaving an idle state before anything else, if the core was idle.
    pub idle_exit: Span,
    /// Unmap, bio end, return.
    pub finish: Span,
}
