//! What a job is to the host: its shape ([`ThreadSpec`]) and where its I/Os come from ([`Source`]).

use crate::config::Engine;
use wordline_base::{Ddir, IoClass, Life, Span, Time};

/// What a source wants done now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// An I/O to a disk.
    Io {
        /// Read, write, trim or sync.
        ddir: Ddir,
        /// The disk and the byte there ([`crate::address`]): of the first disk the byte alone.
        offset: u64,
        /// Bytes.
        len: u32,
        /// None: the thread's.
        class: IoClass,
    },
    /// A call on a file, for which `offset` and `len` are within it.
    File {
        /// What fio counts it as.
        ddir: Ddir,
        /// The first byte in the file.
        offset: u64,
        /// Bytes.
        len: u32,
        /// The system call.
        op: wordline_fs::Op,
        /// The I/O's class; none: the thread's.
        class: IoClass,
    },
    /// An I/O of a job on files for which there is nothing to call: it is counted, and done at once.
    Nothing {
        /// What fio counts it as.
        ddir: Ddir,
        /// Bytes.
        len: u32,
        /// None: the thread's.
        class: IoClass,
    },
    /// Nothing before `at`: ask again then, or earlier when an I/O completes or the job is woken
    /// ([`crate::Host::kick`]; only so with `Time::NEVER`). With `quiesce` the
    /// job first waits for everything it has in flight (`io_u_quiesce`: fio does so before it
    /// sleeps for `rate` or `thinktime`); a timed trace does not.
    NotBefore {
        /// When to ask again at the latest.
        at: Time,
        /// Whether what is in flight comes back first.
        quiesce: bool,
    },
    /// Nothing until one of the job's I/Os is reaped.
    WhenReaped,
    /// Nothing until all of the job's I/Os are, which one call waits for.
    WhenAllReaped,
    /// With nothing in flight: burn the processor until `spin_until`, giving way to other threads as any task does, then
    /// sleep until `until`.
    Pause {
        /// Up to here the processor is busy.
        spin_until: Time,
        /// Up to here the thread sleeps.
        until: Time,
    },
    /// With nothing in flight: work of so much time of the processor, in one stretch however long others had it before.
    Compute {
        /// Its time of the processor.
        span: Span,
    },
    /// Burn the processor until `until`, giving way to other threads as any task does.
    Spin {
        /// Up to here the processor is busy.
        until: Time,
    },
    /// No more I/Os, ever.
    Done,
}

/// A stream of I/Os. It is asked when the job has room for one more, and never before the job
/// really could issue it, so that a closed loop follows the completions.
pub trait Source {
    /// What the thread does next, at `now`.
    fn next(&mut self, now: Time) -> Next;
    /// The life of an I/O that is finished, before [`Source::finished`] says so.
    fn lived(&mut self, _life: &Life) {}
    /// An I/O of this source was reaped; `offset` as the source gave it.
    fn finished(
        &mut self,
        _ddir: Ddir,
        _offset: u64,
        _len: u32,
        _ok: bool,
        _latency: Span,
        _now: Time,
    ) {
    }
}

/// A job thread, in fio's words.
#[derive(Clone, PartialEq, Debug)]
pub struct ThreadSpec {
    /// The job's name.
    pub name: String,
    /// What it issues with.
    pub engine: Engine,
    /// I/Os in flight at most.
    pub iodepth: u32,
    /// iocbs gathered for one io_submit; 0 is `iodepth`.
    pub iodepth_batch: u32,
    /// 0 polls io_getevents without waiting in the kernel.
    pub iodepth_batch_complete_min: u32,
    /// The most that one call takes back.
    pub iodepth_batch_complete_max: u32,
    /// Once full, reap until no more than this many are queued; 0 is `iodepth`.
    pub iodepth_low: u32,
    /// `Time::NEVER`: when [`crate::Host::start_thread`] says so.
    pub start: Time,
    /// Cores it may run on; empty is all.
    pub cpus_allowed: Vec<u32>,
    /// Disks of the host that it addresses; empty is the first.
    pub disks: Vec<u16>,
    /// The class of I/Os that have none of their own, and for bfq of its queue. With it the priority class of
    /// the thread's submission queue, which only `kernel = false` gives a job.
    pub class: IoClass,
    /// Another thread, on a core of its own where there is one, sits in io_getevents and takes what
    /// comes back one by one: the job itself only issues. For libaio and timed sources.
    pub reaper: bool,
    /// It takes up what is back before it issues another: a program whose requests come by a clock of their
    /// own does so between any two of them, where fio waits until its queue is full.
    pub reaps_between: bool,
    /// Asks for polled completions (RWF_HIPRI; IORING_SETUP_IOPOLL).
    pub hipri: bool,
    /// How many of a hundred I/Os of a synchronous engine do so, drawn from `seed`.
    pub hipri_percentage: u32,
    /// Seeds that draw.
    pub seed: u64,
    /// io_uring: a thread of the kernel's submits (IORING_SETUP_SQPOLL).
    pub sqthread_poll: bool,
    /// The core of that thread; any, if none is given.
    pub sqthread_poll_cpu: Option<u32>,
    /// libaio, io_uring: its syncs are entries of the ring like reads and writes, and what follows does not wait for
    /// them. Of fio's engines io_uring has them there, and libaio makes a call of each.
    pub ring_syncs: bool,
    /// It opened the device with O_DSYNC or O_SYNC: its writes are on the medium when they end.
    pub sync: bool,
    /// Go on after a failed I/O. fio's default is to stop the job.
    pub continue_on_error: bool,
}

impl ThreadSpec {
    /// fio's defaults.
    pub fn new(name: &str, engine: Engine, iodepth: u32) -> ThreadSpec {
        ThreadSpec {
            name: name.to_string(),
            engine,
            iodepth,
            iodepth_batch: 1,
            iodepth_batch_complete_min: 1,
            iodepth_batch_complete_max: 1,
            iodepth_low: 0,
            start: Time::ZERO,
            cpus_allowed: Vec::new(),
            disks: Vec::new(),
            class: IoClass::NONE,
            reaper: false,
            reaps_between: false,
            hipri: false,
            hipri_percentage: 100,
            seed: 0,
            sqthread_poll: false,
            sqthread_poll_cpu: None,
            ring_syncs: false,
            sync: false,
            continue_on_error: false,
        }
    }

    /// With a ring: whether such an I/O is an entry of it. Any other is a synchronous call.
    #[inline]
    pub(crate) fn is_entry(&self, ddir: Ddir) -> bool {
        matches!(ddir, Ddir::Read | Ddir::Write) || self.ring_syncs && ddir.is_sync()
    }
    /// What fio's `fixup_options` makes of the depths.
    pub(crate) fn fixed_up(mut self) -> ThreadSpec {
        self.iodepth = self.iodepth.max(1);
        if self.iodepth_low == 0 || self.iodepth_low > self.iodepth {
            self.iodepth_low = self.iodepth;
        }
        if self.iodepth_batch == 0 || self.iodepth_batch > self.iodepth {
            self.iodepth_batch = self.iodepth;
        }
        self.iodepth_batch_complete_min = self.iodepth_batch_complete_min.min(self.iodepth);
        self.iodepth_batch_complete_max =
            self.iodepth_batch_complete_max.max(self.iodepth_batch_complete_min);
        self
    }
}
