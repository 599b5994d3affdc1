//! A thread of a job.

/// A job of a plan: the first is 0.
pub type JobId = u32;

/// One of the threads a job runs as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thread {
    /// Index of the job in [`crate::Plan::jobs`].
    pub job: JobId,
    /// 0 for the job itself, then 1, 2, ... for its clones, in the order they start.
    pub clone: u32,
    /// fio's own number of the clone, which `offset_increment` and `$jobnum` use: 0 for the job
    /// itself; fio numbers the clones downwards from `numjobs - 1`.
    pub subjob: u32,
    /// Over all jobs, from 1: seeds and log files are named by it.
    pub thread_number: u32,
    /// Reporting group.
    pub group: u32,
}
