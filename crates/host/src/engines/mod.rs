//! What submits I/O and takes it back: fio's loop with its engines, and drives taken from the kernel.

mod direct;
pub(crate) mod fio;
mod spdk;
mod uring;
mod work;

use crate::block::NONE;
use crate::source::ThreadSpec;
use fio::Reaping;
use std::collections::VecDeque;
use wordline_base::{Ddir, Time};

/// What a thread's loop has prepared, sent and not taken back, and when the loop goes on.
#[derive(Debug)]
pub(crate) struct InEngine {
    /// I/Os that the null engine has queued.
    nulls: u32,
    /// I/Os sent or to be sent, and not taken back.
    cur_depth: u32,
    /// I/Os prepared for the next call.
    iocbs: Vec<u32>,
    /// I/Os queued since the last td_io_commit (io_u_queued). td_io_getevents sends them, too, and counts none off.
    queued: u32,
    /// An I/O that waits for what is prepared to be sent.
    requeued: Option<(Ddir, u64, u32)>,
    /// Completed and not reaped (aio_ring). For io_uring's submission thread: entries to be submitted.
    ring: VecDeque<u32>,
    reaping: Reaping,
    /// When io_uring's submission thread has been idle for long enough.
    sq_until: Time,
    /// It has a workload attribute, and has not asked for it yet (sched_setworkload_attr).
    unmarked: bool,
    /// It has looked for completions since it issued its last I/O.
    looked: bool,
    /// In io_uring_enter to wait.
    entered: bool,
    /// Completions for which io_uring_enter waits; 0: any.
    wait_nr: u32,
    /// Nothing is issued before this time, and what is in flight comes back first.
    quiesce: Option<Time>,
    /// It computes until then.
    burn: Time,
    /// Its source has no more I/Os.
    exhausted: bool,
    /// An I/O failed, and the job ends with it.
    failed: bool,
    /// The thread that reaps for a job. A reaper has its job here.
    partner: u32,
    /// The thread that submits for an io_uring job.
    submitter: u32,
    /// The job of that thread.
    owner: u32,
    /// Syncs of the ring that no worker has taken.
    works: VecDeque<u32>,
    /// Workers that make the calls of these.
    workers: Vec<u32>,
    /// Of a worker: the job that it works for.
    works_for: u32,
    /// And the sync at hand.
    at_work: u32,
}

impl InEngine {
    /// Nothing is prepared or in flight.
    pub fn new(spec: &ThreadSpec) -> InEngine {
        InEngine {
            cur_depth: 0,
            nulls: 0,
            iocbs: Vec::with_capacity(spec.iodepth_batch as usize),
            queued: 0,
            requeued: None,
            ring: VecDeque::with_capacity(spec.iodepth as usize),
            reaping: Reaping::default(),
            sq_until: Time::NEVER,
            unmarked: false,
            looked: false,
            entered: false,
            wait_nr: 0,
            quiesce: None,
            burn: Time::ZERO,
            exhausted: false,
            failed: false,
            partner: NONE,
            submitter: NONE,
            owner: NONE,
            works: VecDeque::new(),
            workers: Vec::new(),
            works_for: NONE,
            at_work: NONE,
        }
    }
    /// It pauses until this time at the most.
    pub fn shorten_pause(&mut self, at: Time) {
        self.quiesce = self.quiesce.map(|until| until.min(at));
    }
    /// A thread reaps for a job: each knows the other.
    pub fn shares_reaping(&mut self, partner: u32) {
        self.partner = partner;
    }
    /// The thread that reaps for a job. A reaper has its job here.
    #[inline]
    pub fn partner(&self) -> u32 {
        self.partner
    }
    /// io_uring's submission thread of this job.
    pub fn set_submitter(&mut self, submitter: u32) {
        self.submitter = submitter;
    }
    /// The thread that submits for an io_uring job.
    #[inline]
    pub fn submitter(&self) -> u32 {
        self.submitter
    }
    /// It submits for this job.
    pub fn submits_for(&mut self, owner: u32) {
        self.owner = owner;
    }
    /// The job that it submits for.
    pub fn owner(&self) -> u32 {
        self.owner
    }
    /// It submits for another thread.
    #[inline]
    pub fn is_submitter(&self) -> bool {
        self.owner != NONE
    }
    /// The thread sets its workload attribute before its first I/O.
    pub fn mark_first(&mut self) {
        self.unmarked = true;
    }
    /// I/Os sent or to be sent, and not taken back.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.cur_depth
    }
    /// One more I/O is in flight; how many there are then.
    #[inline]
    pub fn begin(&mut self) -> u32 {
        self.cur_depth += 1;
        self.cur_depth
    }
    /// An I/O that the submission thread sent is back.
    pub fn sent_is_back(&mut self) {
        self.cur_depth -= 1;
    }
    /// I/Os of the call under way, in the order of their preparation.
    #[inline]
    pub fn batch(&self) -> &[u32] {
        &self.iocbs
    }
    /// An I/O is complete, to be reaped.
    #[inline]
    pub fn complete(&mut self, node: u32) {
        self.ring.push_back(node);
    }
    /// As many are complete as the thread waits for.
    #[inline]
    pub fn has_enough(&self) -> bool {
        self.ring.len() as u32 >= self.wait_nr
    }
    /// The next that is complete, reaped outside an engine.
    pub fn take_complete(&mut self) -> Option<u32> {
        self.ring.pop_front()
    }
    /// Of what the ring holds so much at most is sent at once; how much it is.
    fn take_ring(&mut self, most: usize) -> u32 {
        let n = self.ring.len().min(most);
        self.cur_depth += n as u32;
        self.iocbs.extend(self.ring.drain(..n));
        n as u32
    }
}
